/* Shadows: LRU is LRU, capacity and ghosts are bounded, what falls is followed. */
#include "core/shadow.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KEYS 500u

/* Spread as hashes of keys are. */
static uint64_t hash_of(uint32_t number)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool use(struct shadow *shadow, const struct reuse *reuse, enum shadow_rule rule,
                uint32_t number, uint32_t now)
{
    struct shadow_use one = {
        .hash = hash_of(number), .depth = (uint16_t)(number % 60), .now = now, .counts = true};

    return shadow_use(shadow, reuse, rule, &one);
}

/* Keys used between the last use of a key and now tell whether LRU still has it. */
static void test_oldest_is_lru(void **state)
{
    struct shadow shadow;
    struct reuse reuse;
    struct rng rng;
    uint32_t stack[KEYS]; /* the last used first */
    uint32_t depth = 0;

    (void)state;
    rng_init(&rng, 5);
    reuse_init(&reuse);
    assert_int_equal(shadow_init(&shadow), SNOW_OK);
    shadow.capacity = 100;
    for (uint32_t now = 1; now < 20000; now++) {
        uint32_t key = (uint32_t)rng_below(&rng, rng_below(&rng, KEYS) + 1);
        uint32_t at = 0;

        while (at < depth && stack[at] != key)
            at++;
        assert_int_equal(use(&shadow, &reuse, SHADOW_OLDEST, key, now), at < depth && at < 100);
        depth += at == depth;
        memmove(&stack[1], &stack[0], at * sizeof(stack[0]));
        stack[0] = key;
        if (now % 1000 == 0)
            shadow_check(&shadow);
    }
    shadow_deinit(&shadow);
}

static void test_bounds(void **state)
{
    struct shadow shadow;
    struct reuse reuse;
    struct rng rng;

    (void)state;
    rng_init(&rng, 6);
    reuse_init(&reuse);
    reuse_prepare(&reuse, 0, 100);
    assert_int_equal(shadow_init(&shadow), SNOW_OK);
    assert_false(use(&shadow, &reuse, SHADOW_SCORE, 1, 1)); /* nothing fits */
    assert_false(use(&shadow, &reuse, SHADOW_SCORE, 1, 2));
    shadow.capacity = 200;
    for (uint32_t now = 3; now < 5000; now++)
        use(&shadow, &reuse, (enum shadow_rule)(now / 100 % SHADOW_RULES),
            (uint32_t)rng_below(&rng, 5000), now);
    assert_int_equal(shadow.count, 200);
    assert_int_equal(shadow.entries.used, 600);
    shadow.capacity = 50;
    for (uint32_t now = 5000; now < 6000; now++)
        use(&shadow, &reuse, SHADOW_SCORE, 10000 + now, now);
    assert_int_equal(shadow.count, 50);
    assert_int_equal(shadow.entries.used, 150);
    shadow_check(&shadow);
    shadow_deinit(&shadow);
}

/* New ones make room for new ones; what was used stays. */
static void test_keep(void **state)
{
    struct shadow shadow;
    struct reuse reuse;
    uint32_t now = 1;

    (void)state;
    reuse_init(&reuse);
    reuse_prepare(&reuse, 0, 1000);
    assert_int_equal(shadow_init(&shadow), SNOW_OK);
    shadow.capacity = 1000;
    for (uint32_t i = 0; i < 1000; i++)
        use(&shadow, &reuse, SHADOW_KEEP, i, now++);
    for (uint32_t i = 1000; i < SHADOW_KEEP_ROUND; i++)
        use(&shadow, &reuse, SHADOW_KEEP, i, now++);
    for (uint32_t i = 1; i < 1000; i++)
        assert_true(use(&shadow, &reuse, SHADOW_KEEP, i, now++));
    shadow_check(&shadow);
    shadow_deinit(&shadow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oldest_is_lru),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_keep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
