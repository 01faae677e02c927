/* Space against a naive map of intervals: 100,000 random takes and gives, recovery from random
 * inventories, and how much of a segment is usable. */
#include "base/limits.h"
#include "base/rng.h"
#include "core/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* The naive version: an owner for every granule, 0: free. */
struct model {
    uint64_t size;
    uint32_t granules;
    uint32_t *owners;
};

static void model_init(struct model *model, uint64_t size)
{
    model->size = size;
    model->granules = (uint32_t)(size / SPACE_GRANULE);
    model->owners = calloc(model->granules, sizeof(uint32_t));
}

/* Writes an owner over a range that belongs to another. */
static void model_set(struct model *model, uint64_t offset, uint64_t length, uint32_t from,
                      uint32_t to)
{
    uint32_t first = (uint32_t)(offset / SPACE_GRANULE);
    uint32_t count = (uint32_t)(length / SPACE_GRANULE);

    assert_true(offset % SPACE_GRANULE == 0 && first + count <= model->granules);
    for (uint32_t i = first; i < first + count; i++) {
        assert_int_equal(model->owners[i], from);
        model->owners[i] = to;
    }
}

static uint64_t model_free_bytes(const struct model *model)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < model->granules; i++)
        count += model->owners[i] == 0;
    return count * SPACE_GRANULE;
}

/* True when some free run holds this size at its alignment. */
static bool model_fits(const struct model *model, uint64_t size)
{
    uint32_t needed = (uint32_t)(space_round(size) / SPACE_GRANULE);
    uint32_t step = size != 0 && size % SPACE_ALIGN == 0 ? SPACE_ALIGN / SPACE_GRANULE : 1;
    uint32_t run = 0; /* free granules before i, from an aligned one on */

    for (uint32_t i = 0; i < model->granules; i++) {
        if (model->owners[i] != 0)
            run = 0;
        else if (run > 0 || i % step == 0)
            run++;
        if (run >= needed)
            return true;
    }
    return false;
}

static uint64_t random_size(struct rng *rng)
{
    switch (rng_below(rng, 4)) {
    case 0:
        return rng_below(rng, 3000);
    case 1:
        return rng_between(rng, 1, 8) * 4096;
    case 2:
        return rng_below(rng, 65536);
    default:
        return rng_between(rng, 1, 64) * 4096;
    }
}

/* What is not there yet belongs to somebody else. */
static void model_grow(struct model *model, uint64_t size)
{
    for (uint32_t i = 0; i < model->granules; i++) {
        if (i < size / SPACE_GRANULE)
            model->owners[i] = model->owners[i] == UINT32_MAX ? 0 : model->owners[i];
        else
            model->owners[i] = UINT32_MAX;
    }
}

/* A few more pages and slots, as far as there are any. */
static void grow(struct space *space, struct model *model, uint32_t slots, struct rng *rng)
{
    uint64_t size = space_size(space) + rng_below(rng, 3) * SPACE_ALIGN;

    if (size > model->size)
        size = model->size;
    if (slots > space_slot_count(space))
        slots = space_slot_count(space);
    if (space_grow(space, size, slots) == SNOW_OK)
        model_grow(model, size);
    else
        assert_int_equal(space_slots_free(space), 0);
    assert_int_equal(space_slots_ready(space), slots);
}

static void test_random_operations(void **state)
{
    enum { STEPS = 100000, SLOTS = 400 };
    uint64_t size = 2 * MIB;
    uint32_t *taken = calloc(SLOTS, sizeof(*taken));
    uint32_t count = 0;
    uint32_t missed = 0;
    uint32_t refused = 0;
    struct space *space;
    struct model model;
    struct rng rng;

    (void)state;
    rng_init(&rng, 1);
    model_init(&model, size);
    assert_int_equal(space_create(NULL, SPACE_ALIGN, SLOTS, false, &space), SNOW_OK);
    space_limit(space, 1);
    model_grow(&model, SPACE_ALIGN);
    for (uint32_t step = 1; step <= STEPS; step++) {
        bool grows = (step / 5000) % 2 == 0;

        if (step < STEPS / 2 && step % 100 == 0)
            grow(space, &model, step * SLOTS / (STEPS / 4), &rng);

        if (rng_chance(&rng, grows ? 6 : 4, 10)) {
            uint64_t wanted = random_size(&rng);
            uint64_t promised = space_largest_run(space);
            uint32_t slot;
            enum snow_status status = space_take(space, wanted, step, &slot);

            if (status == SNOW_OK) {
                assert_true(space_offset(space, slot) %
                                (wanted != 0 && wanted % SPACE_ALIGN == 0 ? SPACE_ALIGN : 1) ==
                            0);
                assert_true(space_capacity(space, slot) >= space_round(wanted));
                assert_int_equal(space_owner(space, slot), step);
                model_set(&model, space_offset(space, slot), space_capacity(space, slot), 0, step);
                taken[count++] = slot;
            } else if (status == SNOW_NO_SPACE) {
                assert_true(wanted > promised);
                missed += model_fits(&model, wanted);
                refused++;
            } else {
                assert_int_equal(status, SNOW_LIMIT);
                assert_true(space_slots_free(space) < 2);
            }
        } else if (count > 0) {
            uint32_t i = (uint32_t)rng_below(&rng, count);
            uint32_t slot = taken[i];

            model_set(&model, space_offset(space, slot), space_capacity(space, slot),
                      space_owner(space, slot), 0);
            space_give(space, slot);
            taken[i] = taken[--count];
        }
        if (step % 64 == 0) {
            space_check(space);
            assert_true(space_free_bytes(space) == model_free_bytes(&model));
        }
    }
    assert_true(refused > 100);
    assert_true(missed * 50 < refused); /* a good fit is not the best one, but close */
    space_destroy(space);
    free(model.owners);
    free(taken);
}

/* ---- recovery ---- */

struct inventory {
    uint64_t offsets[300];
    uint64_t lengths[300];
    bool claimed[300];
    bool dropped[300];
};

static void on_overlap(void *context, uint32_t slot, uint32_t owner)
{
    struct inventory *inventory = context;

    assert_int_equal(owner, slot + 1);
    assert_true(inventory->claimed[slot] && !inventory->dropped[slot]);
    inventory->dropped[slot] = true;
}

/* What must be dropped: by offset, then slot, whatever overlaps the last one kept. */
static void check_dropped(const struct inventory *inventory, uint32_t slots)
{
    uint64_t end = 0;
    bool done[300] = {false};

    for (;;) {
        uint32_t lowest = slots;

        for (uint32_t slot = 0; slot < slots; slot++) {
            if (inventory->claimed[slot] && !done[slot] &&
                (lowest == slots || inventory->offsets[slot] < inventory->offsets[lowest]))
                lowest = slot;
        }
        if (lowest == slots)
            return;
        done[lowest] = true;
        assert_int_equal(inventory->dropped[lowest], inventory->offsets[lowest] < end);
        if (!inventory->dropped[lowest])
            end = inventory->offsets[lowest] + space_round(inventory->lengths[lowest]);
    }
}

static void recover_once(struct rng *rng)
{
    enum { SLOTS = 300 };
    uint64_t size = rng_between(rng, 1, 400) * SPACE_ALIGN;
    uint32_t claims = (uint32_t)rng_below(rng, 250);
    uint64_t used = 0;
    struct inventory inventory = {.claimed = {false}};
    struct space *space;
    struct model model;

    model_init(&model, size);
    assert_int_equal(space_create(NULL, size, SLOTS, true, &space), SNOW_OK);
    for (uint32_t i = 0; i < claims; i++) {
        uint32_t slot = (uint32_t)rng_below(rng, SLOTS + 3);
        uint64_t length = random_size(rng) >> rng_below(rng, 5);
        uint64_t offset = rng_below(rng, size + 8192);

        offset -= offset % (rng_chance(rng, 9, 10) ? SPACE_ALIGN : SPACE_GRANULE);
        if (space_claim(space, slot, offset, length, slot + 1) == SNOW_OK) {
            assert_true(slot < SLOTS && !inventory.claimed[slot]);
            inventory.claimed[slot] = true;
            inventory.offsets[slot] = offset;
            inventory.lengths[slot] = length;
        }
    }
    assert_int_equal(space_recovered(space, on_overlap, &inventory), SNOW_OK);
    space_check(space);
    check_dropped(&inventory, SLOTS);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (!inventory.claimed[slot] || inventory.dropped[slot])
            continue;
        assert_true(space_is_used(space, slot) && space_owner(space, slot) == slot + 1);
        assert_true(space_offset(space, slot) == inventory.offsets[slot]);
        assert_true(space_capacity(space, slot) == space_round(inventory.lengths[slot]));
        model_set(&model, space_offset(space, slot), space_capacity(space, slot), 0, 1);
        used += space_capacity(space, slot);
    }
    assert_true(space_free_bytes(space) == size - used);
    /* It works on: everything given back, the segment is one run. */
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (inventory.claimed[slot] && !inventory.dropped[slot])
            space_give(space, slot);
    }
    space_check(space);
    assert_true(space_largest_run(space) == size);
    space_destroy(space);
    free(model.owners);
}

static void test_random_inventories(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 2);
    for (uint32_t round = 0; round < 1000; round++)
        recover_once(&rng);
}

/* ---- usable share ---- */

#define PARTS 16u

struct stored {
    uint32_t slots[PARTS];
    uint32_t count;
    uint64_t size;
};

static void give_all(struct space *space, struct stored *stored)
{
    while (stored->count > 0)
        space_give(space, stored->slots[--stored->count]);
}

/* Puts an object into at most PARTS extents: one if it can, else the largest runs there are. */
static bool put(struct space *space, struct stored *stored, uint64_t size)
{
    uint64_t left = size;

    *stored = (struct stored){.size = size};
    while (left > 0 && stored->count < PARTS) {
        uint64_t part = space_largest_run(space) / SPACE_ALIGN * SPACE_ALIGN;

        if (part > left)
            part = left;
        if (part == 0 || space_take(space, part, 1, &stored->slots[stored->count]) != SNOW_OK)
            break;
        stored->count++;
        left -= part;
    }
    if (left > 0)
        give_all(space, stored);
    return left == 0;
}

/* KV pages of mixed models: log-uniform between 4 KiB and 64 MiB. */
static uint64_t page_size(struct rng *rng)
{
    uint64_t size = SPACE_ALIGN << rng_below(rng, 14);

    size += rng_below(rng, size + 1) / SPACE_ALIGN * SPACE_ALIGN;
    return size > 64 * MIB ? 64 * MIB : size;
}

/* Fills a segment, then replaces random objects for many times its size.  Usable is what was in use
 * when a put failed although its bytes were free. */
static void test_usable_share(void **state)
{
    enum { OBJECTS = 20000, STEPS = 30000 };
    uint64_t size = 4 * GIB;
    struct stored *objects = calloc(OBJECTS, sizeof(*objects));
    uint32_t count = 0;
    uint32_t failures = 0;
    double sum = 0;
    double lowest = 1;
    struct space *space;
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    assert_int_equal(space_create(NULL, size, (uint32_t)(size / 4096), false, &space), SNOW_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t wanted = page_size(&rng);

        while (!put(space, &objects[count], wanted)) {
            uint32_t victim = (uint32_t)rng_below(&rng, count);

            if (space_free_bytes(space) >= wanted) {
                double usable = 1 - (double)space_free_bytes(space) / (double)size;

                failures++;
                sum += usable;
                lowest = usable < lowest ? usable : lowest;
            }
            give_all(space, &objects[victim]);
            objects[victim] = objects[--count];
        }
        count++;
        assert_true(count < OBJECTS);
    }
    space_check(space);
    print_message(
        "usable: %.2f %% on average, %.2f %% at least, %u of %u puts failed on fragments\n",
        failures == 0 ? 100 : 100 * sum / failures, 100 * lowest, failures, STEPS);
    assert_true(failures == 0 || sum / failures >= 0.98);
    space_destroy(space);
    free(objects);
}

/* ---- cost ---- */

/* What one take and one give cost in a segment at work: printed, not judged. */
static void test_cost(void **state)
{
    enum { EXTENTS = 200000, STEPS = 2000000 };
    uint64_t size = 8 * GIB;
    uint32_t *slots = calloc(EXTENTS, sizeof(*slots));
    uint32_t count = 0;
    struct space *space;
    struct rng rng;

    (void)state;
    rng_init(&rng, 4);
    assert_int_equal(space_create(NULL, size, (uint32_t)(size / 4096), false, &space), SNOW_OK);
    while (count < EXTENTS && space_take(space, random_size(&rng), 1, &slots[count]) == SNOW_OK)
        count++;
    clock_t began = clock();

    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, count);

        space_give(space, slots[i]);
        if (space_take(space, random_size(&rng), 1, &slots[i]) != SNOW_OK)
            slots[i] = slots[--count];
    }
    print_message("%u extents: %.0f ns for a give and a take\n", count,
                  (double)(clock() - began) * 1e9 / CLOCKS_PER_SEC / STEPS);
    space_check(space);
    space_destroy(space);
    free(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_random_inventories),
        cmocka_unit_test(test_usable_share),
        cmocka_unit_test(test_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
