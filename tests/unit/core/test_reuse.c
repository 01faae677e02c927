/* Reuse-rate classes: bins of ages, what may never score lower, how the past fades. */
#include "core/reuse.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNKNOWN UINT16_MAX

static void test_bins(void **state)
{
    uint32_t last = 0;

    (void)state;
    assert_int_equal(reuse_bin(0), 0);
    assert_int_equal(reuse_bin(1), 8); /* ages begin at a quarter */
    assert_int_equal(reuse_bin(UINT32_MAX), REUSE_BINS - 1);
    for (uint32_t age = 1; age < 100000; age++) {
        uint32_t bin = reuse_bin(age);

        assert_int_equal(bin, (uint32_t)floor(4 * log2(4.0 * age)));
        assert_true(bin >= last);
        last = bin;
    }
    for (uint32_t shift = 0; shift < 30; shift++)
        assert_int_equal(reuse_bin(3u << shift), reuse_bin(3) + 4 * shift);
}

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(reuse_class(1, 0), 0);
    assert_int_equal(reuse_class(0, 0), 0); /* learned from an inventory: no use was seen */
    assert_int_equal(reuse_class(1, 7), 1);
    assert_int_equal(reuse_class(1, 8), 2);
    assert_int_equal(reuse_class(1, 31), 2);
    assert_int_equal(reuse_class(1, 32), 3);
    assert_int_equal(reuse_class(1, UNKNOWN - 1), 3);
    assert_int_equal(reuse_class(1, UNKNOWN), REUSE_UNKNOWN);
    assert_int_equal(reuse_class(5, 0), 20);
    assert_int_equal(reuse_class(15, UNKNOWN), REUSE_CLASSES - 1);
}

/* Whatever was counted, U2 holds. */
static void test_order_of_scores(void **state)
{
    struct reuse reuse;
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    reuse_init(&reuse);
    for (uint32_t round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < 3000; i++) {
            uint32_t class = (uint32_t)rng_below(&rng, REUSE_CLASSES);

            reuse_entered(&reuse, class);
            if (rng_chance(&rng, class + round, REUSE_CLASSES + 60))
                reuse_used(&reuse, class, (uint32_t)rng_below(&rng, UINT64_C(1) << (round % 32)));
        }
        reuse_prepare(&reuse, round * REUSE_REBUILD, 1000);
        for (uint32_t class = 0; class < REUSE_CLASSES; class ++) {
            for (uint32_t bin = 0; bin < REUSE_BINS; bin++) {
                float score = reuse.scores[class][bin];

                assert_true(score >= 0 && score <= 1);
                assert_true(bin == 0 || score <= reuse.scores[class][bin - 1]);
                assert_true(class < REUSE_DEPTHS ||
                            score >= reuse.scores[class - REUSE_DEPTHS][bin]);
                assert_true(class % REUSE_DEPTHS == 0 || class % REUSE_DEPTHS == REUSE_UNKNOWN ||
                            score <= reuse.scores[class - 1][bin]);
            }
        }
    }
}

/* What is used again soon scores above what is not, and what comes true later counts in time. */
static void test_learns(void **state)
{
    struct reuse reuse;
    uint32_t hot = reuse_class(1, 0);
    uint32_t cold = reuse_class(1, 40);
    float before;

    (void)state;
    reuse_init(&reuse);
    for (uint32_t i = 0; i < REUSE_HALVING; i++) {
        reuse_entered(&reuse, i % 2 == 0 ? hot : cold);
        if (i % 2 == 0)
            reuse_used(&reuse, hot, 100);
    }
    reuse_prepare(&reuse, 0, 1000);
    before = reuse_score(&reuse, hot, 100);
    assert_true(before > 10 * reuse_score(&reuse, cold, 100));
    for (uint32_t i = 0; i < 10 * REUSE_HALVING; i++)
        reuse_entered(&reuse, hot);
    reuse_prepare(&reuse, REUSE_REBUILD - 1, 1000); /* not yet */
    assert_true(reuse_score(&reuse, hot, 100) >= before);
    reuse_prepare(&reuse, REUSE_REBUILD, 1000);
    assert_true(reuse_score(&reuse, hot, 100) < before / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_order_of_scores),
        cmocka_unit_test(test_learns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
