/* Key storage: bytes come back, memory is reused across lengths, small keys are cheap. */
#include "base/limits.h"
#include "base/rng.h"
#include "core/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fill(uint8_t *key, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++)
        key[i] = (uint8_t)(seed * 31 + i * 7);
}

static void test_every_length(void **state)
{
    uint8_t key[LIMIT_KEY_SIZE + 1];
    uint32_t *references = calloc(LIMIT_KEY_SIZE + 1, sizeof(*references));
    struct keys *keys;
    uint32_t none;

    (void)state;
    assert_int_equal(keys_create(NULL, &keys), SNOW_OK);
    for (uint32_t size = 1; size <= LIMIT_KEY_SIZE; size++) {
        fill(key, size, size);
        assert_int_equal(keys_take(keys, bytes_of(key, size), &references[size]), SNOW_OK);
        assert_int_not_equal(references[size], 0);
    }
    assert_int_equal(keys_take(keys, bytes_of(key, 0), &none), SNOW_INVALID);
    assert_int_equal(keys_take(keys, bytes_of(key, LIMIT_KEY_SIZE + 1), &none), SNOW_INVALID);
    for (uint32_t size = 1; size <= LIMIT_KEY_SIZE; size++) {
        fill(key, size, size);
        assert_true(bytes_equal(keys_at(keys, references[size]), bytes_of(key, size)));
        keys_give(keys, references[size]);
    }
    keys_destroy(keys);
    free(references);
}

static void test_memory_a_key(void **state)
{
    enum { COUNT = 100000 };
    uint32_t *references = calloc(COUNT, sizeof(*references));
    uint8_t key[256];
    struct keys *keys;
    uint64_t memory;

    (void)state;
    assert_int_equal(keys_create(NULL, &keys), SNOW_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        fill(key, 64, i);
        assert_int_equal(keys_take(keys, bytes_of(key, 64), &references[i]), SNOW_OK);
    }
    memory = keys_memory(keys);
    assert_in_range(memory, 72 * COUNT, 73 * COUNT);
    /* The same memory serves other lengths once the chunks are empty. */
    for (uint32_t i = 0; i < COUNT; i++)
        keys_give(keys, references[i]);
    for (uint32_t i = 0; i < COUNT / 4; i++) {
        fill(key, 256, i);
        assert_int_equal(keys_take(keys, bytes_of(key, 256), &references[i]), SNOW_OK);
    }
    assert_int_equal(keys_memory(keys), memory);
    keys_destroy(keys);
    free(references);
}

static void test_random_churn(void **state)
{
    enum { COUNT = 3000, STEPS = 60000 };
    uint32_t *references = calloc(COUNT, sizeof(*references));
    uint32_t *sizes = calloc(COUNT, sizeof(*sizes));
    uint8_t key[LIMIT_KEY_SIZE];
    struct keys *keys;
    struct rng rng;

    (void)state;
    rng_init(&rng, 7);
    assert_int_equal(keys_create(NULL, &keys), SNOW_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, COUNT);

        if (sizes[i] != 0) {
            fill(key, sizes[i], i);
            assert_true(bytes_equal(keys_at(keys, references[i]), bytes_of(key, sizes[i])));
            keys_give(keys, references[i]);
            sizes[i] = 0;
        } else {
            sizes[i] = (uint32_t)rng_between(&rng, 1, rng_chance(&rng, 1, 50) ? 4096 : 100);
            fill(key, sizes[i], i);
            assert_int_equal(keys_take(keys, bytes_of(key, sizes[i]), &references[i]), SNOW_OK);
        }
    }
    keys_destroy(keys);
    free(references);
    free(sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_memory_a_key),
        cmocka_unit_test(test_random_churn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
