/* Regions: chunks that come back are given again, blocks go back all together. */
#include "base/region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t blocks_taken;
static uint32_t blocks_given;

static void *take(void)
{
    blocks_taken++;
    return aligned_alloc(REGION_BLOCK, REGION_BLOCK);
}

static void give(void *block)
{
    blocks_given++;
    free(block);
}

static const struct region_source source = {.take = take, .give = give};

static void test_chunks_do_not_overlap(void **state)
{
    enum { COUNT = 200 };
    const size_t sizes[] = {64, 100, 20480, 65536, 12288};
    uint8_t *chunks[COUNT];
    struct region region;

    (void)state;
    region_init(&region, &source);
    for (int i = 0; i < COUNT; i++) {
        chunks[i] = region_take(&region, sizes[i % 5]);
        assert_non_null(chunks[i]);
        assert_int_equal((uintptr_t)chunks[i] % 64, 0);
        memset(chunks[i], i, sizes[i % 5]);
    }
    for (int i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < sizes[i % 5]; k++)
            assert_int_equal(chunks[i][k], (uint8_t)i);
    }
    assert_true(blocks_taken > 1);
    region_deinit(&region);
    assert_int_equal(blocks_given, blocks_taken);
}

static void test_what_comes_back_is_given_again(void **state)
{
    struct region region;
    void *one;
    void *other;

    (void)state;
    blocks_taken = blocks_given = 0;
    region_init(&region, &source);
    one = region_take(&region, 5000);
    other = region_take(&region, 5000);
    region_give(&region, one, 5000);
    region_give(&region, other, 5000);
    assert_ptr_equal(region_take(&region, 5000), other);
    assert_true(region_take(&region, 6000) != one);
    assert_ptr_equal(region_take(&region, 5000), one);
    for (int i = 0; i < 10000; i++)
        region_give(&region, region_take(&region, 65536), 65536);
    assert_int_equal(blocks_taken, 1);
    region_deinit(&region);
}

static void test_without_a_source_malloc_gives(void **state)
{
    struct region region;
    void *chunk;

    (void)state;
    region_init(&region, NULL);
    chunk = region_take(&region, 100);
    assert_non_null(chunk);
    region_give(&region, chunk, 100);
    region_deinit(&region);
    chunk = region_take(NULL, 100);
    assert_non_null(chunk);
    region_give(NULL, chunk, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_do_not_overlap),
        cmocka_unit_test(test_what_comes_back_is_given_again),
        cmocka_unit_test(test_without_a_source_malloc_gives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
