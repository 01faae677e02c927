#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_pieces_are_zero_and_aligned(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t size = 0; size < 3000; size += 7) {
            unsigned char *at = arena_take(&arena, size);

            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 16, 0);
            for (size_t i = 0; i < size; i++)
                assert_int_equal(at[i], 0);
            memset(at, 0xa5, size);
        }
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    assert_int_equal(arena.total, 0);
}

static void test_bound_holds(void **state)
{
    struct arena arena;
    size_t taken = 0;

    (void)state;
    arena_init(&arena, 10000);
    assert_null(arena_take(&arena, 10001));
    while (arena_take(&arena, 100) != NULL)
        taken += 112;
    assert_true(taken > 9000);
    assert_true(arena.total <= 10000);
    arena_reset(&arena);
    assert_non_null(arena_take(&arena, 1000));
    arena_deinit(&arena);
}

static void test_overflow_is_refused(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 0);
    assert_null(arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_take(&arena, SIZE_MAX));
    assert_null(arena_take(&arena, SIZE_MAX - 16));
    assert_non_null(arena_array(&arena, 3, 40));
    arena_deinit(&arena);
}

static void test_steady_load_keeps_one_block(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 0);
    for (int i = 0; i < 100; i++)
        assert_non_null(arena_take(&arena, 1000));
    arena_reset(&arena);
    struct arena_block *block = arena.block;

    for (int i = 0; i < 60; i++)
        assert_non_null(arena_take(&arena, 1000));
    assert_ptr_equal(arena.block, block);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_zero_and_aligned),
        cmocka_unit_test(test_bound_holds),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_steady_load_keeps_one_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
