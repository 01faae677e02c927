/* Ranges against an array of flags, and their checksums against one over all bytes. */
#include "base/hash.h"
#include "base/ranges.h"
#include "base/rng.h"
#include "transport/crc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 300
#define ROUNDS 400

static uint8_t bytes[SIZE];

static void check(const struct ranges *ranges, const bool *flags)
{
    uint64_t total = 0;
    uint64_t end = 0;

    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct range *range = &ranges->list[i];

        assert_true(range->start < range->end && (i == 0 || range->start > end)); /* R1 */
        for (uint64_t at = range->start; at < range->end; at++)
            assert_true(flags[at]);
        assert_int_equal(range->crc,
                         crc32c(0, bytes + range->start, (size_t)(range->end - range->start)));
        end = range->end;
    }
    for (size_t i = 0; i < SIZE; i++)
        total += flags[i];
    assert_int_equal(ranges_total(ranges), total);
    assert_int_equal(ranges_cover(ranges, SIZE), total == SIZE);
}

static enum snow_status expected(const bool *flags, uint64_t start, uint64_t size)
{
    uint64_t covered = 0;

    for (uint64_t i = start; i < start + size; i++)
        covered += flags[i];
    return covered == 0 ? SNOW_OK : covered == size ? SNOW_EXISTS : SNOW_INVALID;
}

static void any_order(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)rng_next(&rng);
    for (int round = 0; round < ROUNDS; round++) {
        bool flags[SIZE] = {false};
        uint64_t largest = rng_between(&rng, 1, 60);
        struct ranges ranges;

        ranges_init(&ranges, SIZE);
        for (int tries = 0; tries < 5000 && !ranges_cover(&ranges, SIZE); tries++) {
            uint64_t size = rng_below(&rng, tries < 2000 ? largest : 3);
            uint64_t start = rng_below(&rng, SIZE - size + 1);
            enum snow_status status = expected(flags, start, size);

            assert_int_equal(ranges_look(&ranges, start, size), status);
            assert_int_equal(ranges_add(&ranges, start, size,
                                        crc32c(0, bytes + start, (size_t)size), crc_combine),
                             status);
            if (status == SNOW_OK)
                memset(flags + start, 1, (size_t)size);
            check(&ranges, flags);
        }
        ranges_deinit(&ranges);
    }
}

static void bounds(void **state)
{
    struct ranges ranges;

    (void)state;
    ranges_init(&ranges, 2);
    assert_true(ranges_cover(&ranges, 0));
    assert_int_equal(ranges_add(&ranges, 0, 0, 0, NULL), SNOW_OK);
    assert_int_equal(ranges_add(&ranges, 0, 2, 0, NULL), SNOW_OK);
    assert_int_equal(ranges_add(&ranges, 4, 2, 0, NULL), SNOW_OK);
    assert_int_equal(ranges_add(&ranges, 8, 2, 0, NULL), SNOW_LIMIT);
    assert_int_equal(ranges_add(&ranges, 6, 2, 0, NULL), SNOW_OK);
    assert_int_equal(ranges_add(&ranges, 2, 2, 0, NULL), SNOW_OK);
    assert_int_equal(ranges.count, 1);
    assert_true(ranges_cover(&ranges, 8));
    assert_false(ranges_cover(&ranges, 9));
    assert_int_equal(ranges_add(&ranges, UINT64_MAX - 1, 5, 0, NULL), SNOW_INVALID);
    ranges_deinit(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
