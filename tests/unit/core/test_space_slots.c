/* Slot numbers: the lowest free one first, at every depth of the tree. */
#include "core/space_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_lowest_first(void **state)
{
    static const uint32_t counts[] = {1, 63, 64, 65, 4096, 4097, 300000};

    (void)state;
    for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t count = counts[i];
        struct space_slots slots;

        assert_int_equal(space_slots_init(&slots, count), SNOW_OK);
        for (uint32_t number = 0; number < count; number++)
            assert_int_equal(space_slots_take_lowest(&slots), number);
        space_slots_check(&slots);
        assert_int_equal(slots.used, count);
        for (uint32_t number = count; number-- > 0;) {
            if (number % 7 == 0)
                space_slots_give(&slots, number);
        }
        space_slots_check(&slots);
        for (uint32_t number = 0; number < count; number += 7) {
            assert_false(space_slots_is_taken(&slots, number));
            assert_int_equal(space_slots_take_lowest(&slots), number);
        }
        assert_false(space_slots_is_taken(&slots, count));
        space_slots_deinit(&slots);
    }
}

static void test_certain_numbers(void **state)
{
    struct space_slots slots;

    (void)state;
    assert_int_equal(space_slots_init(&slots, 10000), SNOW_OK);
    space_slots_take(&slots, 0);
    space_slots_take(&slots, 2);
    space_slots_take(&slots, 9999);
    assert_int_equal(space_slots_take_lowest(&slots), 1);
    assert_int_equal(space_slots_take_lowest(&slots), 3);
    assert_true(space_slots_is_taken(&slots, 9999));
    space_slots_give(&slots, 2);
    assert_int_equal(space_slots_take_lowest(&slots), 2);
    space_slots_check(&slots);
    space_slots_deinit(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_first),
        cmocka_unit_test(test_certain_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
