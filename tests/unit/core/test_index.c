/* The index: finds what is in it, keeps its load while it grows and shrinks. */
#include "base/rng.h"
#include "core/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint64_t hash_of(uint32_t object)
{
    struct rng rng;

    rng_init(&rng, object);
    return rng_next(&rng);
}

static bool contains(const struct index *index, uint64_t hash, uint32_t object)
{
    struct index_cursor cursor;

    for (uint32_t found = index_first(index, hash, &cursor); found != 0;
         found = index_next(&cursor)) {
        if (found == object)
            return true;
    }
    return false;
}

static void test_finds_several_under_one_hash(void **state)
{
    struct index *index;
    struct index_cursor cursor;
    uint64_t hash = UINT64_C(0x123456789abcdef0);

    (void)state;
    assert_int_equal(index_create(NULL, &index), SNOW_OK);
    assert_int_equal(index_first(index, hash, &cursor), 0);
    for (uint32_t object = 1; object <= 100; object++)
        assert_int_equal(index_insert(index, hash, object), SNOW_OK);
    index_check(index);
    for (uint32_t object = 1; object <= 100; object++)
        assert_true(contains(index, hash, object));
    for (uint32_t object = 1; object <= 100; object += 2)
        index_remove(index, hash, object);
    index_check(index);
    for (uint32_t object = 1; object <= 100; object++)
        assert_int_equal(contains(index, hash, object), object % 2 == 0);
    for (uint32_t object = 100; object > 0; object -= 2)
        index_remove(index, hash, object);
    assert_int_equal(index_count(index), 0);
    assert_int_equal(index_first(index, hash, &cursor), 0);
    assert_int_equal(index_next(&cursor), 0);
    index_check(index);
    index_destroy(index);
}

static void test_load_holds(void **state)
{
    enum { COUNT = 300000 };
    struct index *index;

    (void)state;
    assert_int_equal(index_create(NULL, &index), SNOW_OK);
    for (uint32_t object = 1; object <= COUNT; object++) {
        assert_int_equal(index_insert(index, hash_of(object), object), SNOW_OK);
        if (object % 37000 == 0) {
            index_check(index);
            if (object > 100000) /* below, half-used chunks show */
                assert_true((uint64_t)object * 8 * 100 >= index_memory(index) * 60);
        }
    }
    for (uint32_t object = 1; object <= COUNT; object++)
        assert_true(contains(index, hash_of(object), object));
    for (uint32_t object = COUNT; object > 0; object--) {
        index_remove(index, hash_of(object), object);
        if (object % 37000 == 0)
            index_check(index);
    }
    index_check(index);
    assert_int_equal(index_count(index), 0);
    index_destroy(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_several_under_one_hash),
        cmocka_unit_test(test_load_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
