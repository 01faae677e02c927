/* The index against a naive table: 100,000 random inserts, removes and walks, growing and
 * shrinking, with many objects under few hashes and with partial tags that collide. */
#include "base/rng.h"
#include "core/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS = 100000, OBJECTS = 40000, HASHES = 20000 };

struct model {
    uint64_t hashes[OBJECTS + 1]; /* of an object that is in; 0: it is not */
    uint32_t count;
};

static uint64_t random_hash(struct rng *rng)
{
    struct rng fixed;
    uint64_t hash;

    /* Some hashes hold many objects; lower halves differ where tags do not. */
    rng_init(&fixed, rng_chance(rng, 1, 20) ? rng_below(rng, 3) : rng_below(rng, HASHES));
    hash = rng_next(&fixed);
    return (hash & ~UINT64_C(7)) | rng_between(rng, 1, 7);
}

/* All objects of the model under a hash are met exactly once, others only by their tag. */
static void check_walk(const struct index *index, const struct model *model, uint64_t hash,
                       uint8_t *seen)
{
    struct index_cursor cursor;
    uint32_t met = 0;
    uint32_t expected = 0;

    for (uint32_t object = index_first(index, hash, &cursor); object != 0;
         object = index_next(&cursor)) {
        assert_true(object <= OBJECTS && model->hashes[object] != 0);
        assert_int_equal(model->hashes[object] >> 32, hash >> 32);
        assert_int_equal(seen[object], 0);
        seen[object] = 1;
        met++;
    }
    for (uint32_t object = 1; object <= OBJECTS; object++) {
        expected += model->hashes[object] != 0 && model->hashes[object] >> 32 == hash >> 32;
        seen[object] = 0;
    }
    assert_int_equal(met, expected);
}

static void test_random_operations(void **state)
{
    struct model *model = calloc(1, sizeof(*model));
    uint8_t *seen = calloc(OBJECTS + 1, 1);
    struct index *index;
    struct rng rng;

    (void)state;
    rng_init(&rng, 11);
    assert_int_equal(index_create(NULL, &index), SNOW_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t object = (uint32_t)rng_between(&rng, 1, OBJECTS);
        bool grows = (step / 25000) % 2 == 0;

        if (model->hashes[object] == 0) {
            uint64_t hash = random_hash(&rng);

            if (!grows && rng_chance(&rng, 9, 10))
                continue;
            assert_int_equal(index_insert(index, hash, object), SNOW_OK);
            model->hashes[object] = hash;
            model->count++;
        } else if (!grows || rng_chance(&rng, 1, 10)) {
            index_remove(index, model->hashes[object], object);
            model->hashes[object] = 0;
            model->count--;
        }
        assert_int_equal(index_count(index), model->count);
        if (step % 100 == 0)
            check_walk(index, model, random_hash(&rng), seen);
        if (step % 1000 == 0)
            index_check(index);
    }
    for (uint32_t object = 1; object <= OBJECTS; object++) {
        if (model->hashes[object] != 0)
            index_remove(index, model->hashes[object], object);
    }
    index_check(index);
    assert_int_equal(index_count(index), 0);
    index_destroy(index);
    free(model);
    free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
