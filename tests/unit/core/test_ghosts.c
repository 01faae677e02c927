/* Ghosts: first in, first out, within the bound; what was taken is not found again. */
#include "core/ghosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Spread as hashes of keys are. */
static uint64_t hash_of(uint32_t number)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void add(struct ghosts *ghosts, uint32_t number, uint64_t count_max)
{
    struct ghost ghost = {.last_touch = number, .class = (uint16_t)(number % 25), .uses = 3};

    ghosts_add(ghosts, hash_of(number), &ghost, count_max);
}

static void test_ring(void **state)
{
    struct ghosts ghosts;
    struct ghost found;

    (void)state;
    assert_int_equal(ghosts_init(&ghosts, NULL), SNOW_OK);
    assert_false(ghosts_take(&ghosts, hash_of(0), &found));
    for (uint32_t i = 0; i < 50000; i++)
        add(&ghosts, i, 1000);
    ghosts_check(&ghosts);
    assert_int_equal(ghosts_count(&ghosts), 1000);
    assert_false(ghosts_take(&ghosts, hash_of(48999), &found));
    assert_true(ghosts_take(&ghosts, hash_of(49000), &found));
    assert_int_equal(found.last_touch, 49000);
    assert_int_equal(found.class, 0);
    assert_int_equal(found.uses, 3);
    assert_false(ghosts_take(&ghosts, hash_of(49000), &found));
    assert_true(ghosts_take(&ghosts, hash_of(49999), &found));
    ghosts_check(&ghosts);
    assert_int_equal(ghosts_count(&ghosts), 1000); /* until their turn comes */
    ghosts_deinit(&ghosts);
}

static void test_shrinks(void **state)
{
    struct ghosts ghosts;
    struct ghost found;

    (void)state;
    assert_int_equal(ghosts_init(&ghosts, NULL), SNOW_OK);
    for (uint32_t i = 0; i < 1000; i++)
        add(&ghosts, i, UINT64_MAX);
    assert_int_equal(ghosts_count(&ghosts), 1000);
    for (uint32_t i = 1000; i < 2000; i++)
        add(&ghosts, i, 10);
    assert_int_equal(ghosts_count(&ghosts), 10);
    add(&ghosts, 2000, 0);
    assert_false(ghosts_take(&ghosts, hash_of(2000), &found));
    ghosts_check(&ghosts);
    ghosts_deinit(&ghosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_shrinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
