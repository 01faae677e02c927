/* Pools: indexes are stable, dense and reused; the bound holds. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_takes_zeroed_items(void **state)
{
    struct pool pool;
    uint32_t index;

    (void)state;
    pool_init(&pool, NULL, 20, 4, 1000);
    assert_int_equal(pool_bytes(&pool), 0);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 1; i <= 100; i++) {
            static const uint8_t zeros[20];

            assert_int_equal(pool_take(&pool, &index), SNOW_OK);
            assert_in_range(index, 1, 100);
            assert_memory_equal(pool_at(&pool, index), zeros, 20);
            memset(pool_at(&pool, index), 0xff, 20);
        }
        assert_int_equal(pool.used, 100);
        for (uint32_t i = 1; i <= 100; i++)
            pool_give(&pool, i);
        assert_int_equal(pool.used, 0);
    }
    assert_true(pool_bytes(&pool) >= 100 * 20 && pool_bytes(&pool) < 4096);
    pool_deinit(&pool);
    assert_int_equal(pool_bytes(&pool), 0);
}

static void test_items_do_not_move(void **state)
{
    struct pool pool;
    uint32_t index;
    void *first;

    (void)state;
    pool_init(&pool, NULL, 64, 3, 5000);
    assert_int_equal(pool_take(&pool, &index), SNOW_OK);
    first = pool_at(&pool, index);
    for (uint32_t i = 0; i < 4999; i++) {
        uint32_t other;

        assert_int_equal(pool_take(&pool, &other), SNOW_OK);
        assert_int_equal((uintptr_t)pool_at(&pool, other) % 64, 0);
    }
    assert_ptr_equal(pool_at(&pool, index), first);
    pool_deinit(&pool);
}

static void test_bound(void **state)
{
    struct pool pool;
    uint32_t index;

    (void)state;
    pool_init(&pool, NULL, 4, 2, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(pool_take(&pool, &index), SNOW_OK);
    assert_int_equal(pool_take(&pool, &index), SNOW_LIMIT);
    pool_give(&pool, 7);
    assert_int_equal(pool_take(&pool, &index), SNOW_OK);
    assert_int_equal(index, 7);
    assert_int_equal(pool_take(&pool, &index), SNOW_LIMIT);
    pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_zeroed_items),
        cmocka_unit_test(test_items_do_not_move),
        cmocka_unit_test(test_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
