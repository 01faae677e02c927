/* A core with one node that acknowledges at once, driven as clients drive it: keys are numbers, a
 * unit of size is 256 bytes, the reserve comes on top, so that the pool holds exactly `capacity`
 * units.  Part of the models of eviction. */
#ifndef TESTS_MODEL_EVICTION_CORE_H
#define TESTS_MODEL_EVICTION_CORE_H

#include "base/limits.h"
#include "base/rng.h"
#include "core/core.h"
#include "core/state.h"
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BED_UNIT 256u
#define BED_STEP (2 * MIB)
#define BED_RESERVE 512u /* units: more than one put of equal blocks has */
#define BED_ITEMS 512u   /* of one call */
#define BED_GENS (1u << 22)
#define BED_UNKNOWN UINT32_MAX

struct bed {
    struct core *core;
    struct core_outputs outputs;
    uint64_t capacity; /* units */
    uint64_t now_ns;
    uint64_t step_ns; /* that a step takes */
    uint64_t session;
    uint64_t node;
    uint64_t token;
    uint64_t operation;
    uint32_t (*size_of)(uint32_t key); /* units; NULL: one */
    bool may_lack_room;                /* a call may want more than there is */
    uint32_t *key_of;                  /* by the counter of a generation */
    bool *there;                       /* by key: readable */
    uint32_t key_count;
    /* Of the last call. */
    uint32_t evicted[1u << 16];
    uint32_t evicted_count;
    bool granted[BED_ITEMS];
    uint64_t gens[BED_ITEMS];
    uint64_t evictions;    /* so far */
    uint64_t evicted_hash; /* over all of them, in order */
};

static inline void *bed_step(struct bed *bed, enum core_input_kind kind, uint64_t from,
                             uint16_t type, const void *message)
{
    struct core_input input = {.kind = kind,
                               .from = from,
                               .token = ++bed->token,
                               .type = type,
                               .message = message,
                               .deadline_ns = UINT64_MAX};
    void *reply = NULL;

    bed->now_ns += bed->step_ns;
    core_step(bed->core, bed->now_ns, &input, &bed->outputs);
    for (struct core_output *output = bed->outputs.first; output != NULL; output = output->next) {
        if (output->kind == CORE_OUT_SESSION)
            bed->session = output->to;
        if (output->kind == CORE_OUT_REPLY && output->token == input.token) {
            assert_int_equal(output->status, SNOW_OK);
            assert_true(output->last);
            reply = output->message;
        }
    }
    return reply;
}

static inline void bed_note_evicted(struct bed *bed, uint64_t gen)
{
    uint32_t key = bed->key_of[WIRE_GEN_COUNTER(gen)];

    assert_true(bed->evicted_count < sizeof(bed->evicted) / sizeof(bed->evicted[0]));
    bed->evicted[bed->evicted_count++] = key;
    bed->there[key] = false;
    bed->evictions++;
    bed->evicted_hash = (bed->evicted_hash ^ key) * UINT64_C(0x100000001b3);
}

/* The node forgets what it was told to; what was evicted is noted. */
static inline void bed_acknowledge(struct bed *bed)
{
    static struct wire_closed closed[LIMIT_BATCH_ITEMS];

    bed->evicted_count = 0;
    for (struct core_output *output = bed->outputs.first; output != NULL; output = output->next) {
        if (output->kind != CORE_OUT_FORGET)
            continue;
        const struct wire_forget_req *forget = output->message;
        struct wire_forget_rep reply = {.items = closed, .items_count = forget->items_count};

        for (uint32_t i = 0; i < forget->items_count; i++) {
            closed[i] = (struct wire_closed){.slot = forget->items[i].slot,
                                             .gen = forget->items[i].gen,
                                             .freed = 1};
            bed_note_evicted(bed, forget->items[i].gen);
        }
        bed_step(bed, CORE_MESSAGE, bed->node, WIRE_forget, &reply);
    }
    core_outputs_reset(&bed->outputs);
}

static inline void bed_mount(struct bed *bed, uint64_t bytes)
{
    uint32_t slots = (uint32_t)(bytes / BED_UNIT);
    struct wire_segment_info info = {.incarnation = 2,
                                     .tier = WIRE_TIER_DRAM,
                                     .size = bytes,
                                     .ready = bytes,
                                     .slot_count = slots,
                                     .slots_ready = slots};
    struct wire_mount_req message = {.incarnation = 1,
                                     .process = 1,
                                     .address = bytes_of_string("model:1"),
                                     .segments = &info,
                                     .segments_count = 1};
    const struct wire_mount_rep *reply = bed_step(bed, CORE_MESSAGE, 0, WIRE_mount, &message);

    bed->node = reply->node;
    for (uint32_t at = 0; at < slots; at += LIMIT_INVENTORY_SLOTS) {
        uint32_t end = slots - at < LIMIT_INVENTORY_SLOTS ? slots : at + LIMIT_INVENTORY_SLOTS;
        struct wire_inventory_req inventory = {.first_slot = at,
                                               .end_slot = end,
                                               .last = end == slots};

        bed_step(bed, CORE_MESSAGE, bed->node, WIRE_inventory, &inventory);
    }
    core_outputs_reset(&bed->outputs);
}

/* reserve: units that one put may take. */
static inline struct bed *bed_open(uint32_t policy, uint64_t capacity, uint64_t reserve,
                                   uint32_t key_count)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    uint64_t bytes = ((capacity + reserve) * BED_UNIT + BED_STEP - 1) / BED_STEP * BED_STEP;
    struct core_options options = core_options_default();
    struct core_start start = {.cluster = 1,
                               .term = 1,
                               .adopts_strangers = true,
                               .secret_low = 2,
                               .secret_high = 3,
                               .now_ns = NS_PER_S};

    assert_non_null(bed);
    bed->capacity = capacity;
    bed->now_ns = NS_PER_S;
    bed->step_ns = 1000;
    bed->key_count = key_count;
    bed->key_of = calloc(BED_GENS, sizeof(*bed->key_of));
    bed->there = calloc(key_count, sizeof(*bed->there));
    assert_non_null(bed->key_of);
    assert_non_null(bed->there);
    core_outputs_init(&bed->outputs);
    options.policy = policy;
    options.reserve_bytes = bytes - capacity * BED_UNIT;
    assert_int_equal(core_create(&options, &start, &bed->core), SNOW_OK);
    bed_mount(bed, bytes);
    bed_step(bed, CORE_SESSION_OPEN, 0, 0, NULL);
    core_outputs_reset(&bed->outputs);
    return bed;
}

static inline void bed_close(struct bed *bed)
{
    core_check(bed->core);
    core_destroy(bed->core);
    core_outputs_deinit(&bed->outputs);
    free(bed->key_of);
    free(bed->there);
    free(bed);
}

static inline struct bytes bed_name(uint32_t key, uint32_t index)
{
    static char names[BED_ITEMS][16];

    snprintf(names[index], sizeof(names[index]), "k%u", key);
    return bytes_of_string(names[index]);
}

/* Asks for grants; what is there already is not granted.  depth: of the first, or BED_UNKNOWN. */
static inline void bed_put_start(struct bed *bed, const uint32_t *keys, uint32_t count,
                                 uint32_t depth, uint64_t continues)
{
    static struct wire_put_item items[BED_ITEMS];
    struct wire_put_start_req start = {.operation = ++bed->operation,
                                       .continues = continues,
                                       .items = items,
                                       .items_count = count};

    assert_true(count <= BED_ITEMS);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct wire_put_item){
            .key = bed_name(keys[i], i),
            .size = (bed->size_of == NULL ? 1u : bed->size_of(keys[i])) * (uint64_t)BED_UNIT,
            .replicas = 1,
            .depth = depth == BED_UNKNOWN ? WIRE_DEPTH_UNKNOWN : depth + i};
    const struct wire_put_start_rep *reply =
        bed_step(bed, CORE_MESSAGE, bed->session, WIRE_put_start, &start);

    assert_int_equal(reply->items_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_put_grant *grant = &reply->items[i];

        if (bed->may_lack_room && grant->status == SNOW_NO_SPACE) {
            bed->granted[grant->index] = false;
            continue;
        }
        assert_true(grant->status == SNOW_OK || grant->status == SNOW_EXISTS);
        assert_true(WIRE_GEN_COUNTER(grant->gen) < BED_GENS);
        bed->granted[grant->index] = grant->status == SNOW_OK;
        bed->gens[grant->index] = grant->gen;
        if (grant->status == SNOW_OK)
            bed->key_of[WIRE_GEN_COUNTER(grant->gen)] = keys[grant->index];
    }
    bed_acknowledge(bed);
}

/* Ends what bed_put_start was granted. */
static inline void bed_put_end(struct bed *bed, const uint32_t *keys, uint32_t count,
                               uint64_t continues)
{
    static struct wire_written written[BED_ITEMS];
    struct wire_put_end_req end = {.operation = bed->operation,
                                   .continues = continues,
                                   .items = written};

    for (uint32_t i = 0; i < count; i++) {
        if (!bed->granted[i])
            continue;
        written[end.items_count++] =
            (struct wire_written){.key = bed_name(keys[i], i), .gen = bed->gens[i], .replicas = 1};
        bed->there[keys[i]] = true;
    }
    bed_step(bed, CORE_MESSAGE, bed->session, WIRE_put_end, &end);
    bed_acknowledge(bed);
}

/* Looks keys up; returns how many are there before the first that is not. */
static inline uint32_t bed_look_up(struct bed *bed, const uint32_t *keys, uint32_t count,
                                   uint32_t flags, uint64_t operation)
{
    static struct wire_key wanted[BED_ITEMS];
    struct wire_lookup_req lookup = {
        .operation = operation, .flags = flags, .keys = wanted, .keys_count = count};
    uint32_t found = 0;

    assert_true(count <= BED_ITEMS);
    for (uint32_t i = 0; i < count; i++)
        wanted[i].key = bed_name(keys[i], i);
    const struct wire_lookup_rep *reply =
        bed_step(bed, CORE_MESSAGE, bed->session, WIRE_lookup, &lookup);

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reply->items[i].status == SNOW_OK, bed->there[keys[i]]);
    while (found < count && reply->items[found].status == SNOW_OK)
        found++;
    bed_acknowledge(bed);
    return found;
}

static inline void bed_return(struct bed *bed, uint64_t operation)
{
    struct wire_id id = {.id = operation};
    struct wire_lease_return_msg message = {.operations = &id, .operations_count = 1};

    bed_step(bed, CORE_MESSAGE, bed->session, WIRE_lease_return, &message);
    bed_acknowledge(bed);
}

/* What an engine does: look up, read the prefix, put the rest; in calls of at most `split` keys.
 * Returns how many keys of the prefix it read. */
static inline uint32_t bed_play(struct bed *bed, const uint32_t *keys, uint32_t count,
                                uint32_t split, uint32_t depth)
{
    uint32_t found = 0;
    uint64_t read = 0;

    for (uint32_t at = 0; at < count && found == at; at += split) {
        uint32_t part = count - at < split ? count - at : split;

        found += bed_look_up(bed, keys + at, part, 0, 0);
    }
    for (uint32_t at = 0; at < found; at += split) {
        uint32_t part = found - at < split ? found - at : split;

        read = ++bed->operation;
        bed_look_up(bed, keys + at, part, WIRE_LOOKUP_TOUCH, read);
    }
    for (uint32_t at = found; at < count; at += split) {
        uint32_t part = count - at < split ? count - at : split;

        bed_put_start(bed, keys + at, part, depth == BED_UNKNOWN ? depth : depth + at, read);
        bed_put_end(bed, keys + at, part, read);
    }
    return found;
}

/* ---- traces ---- */

static inline FILE *bed_trace_open(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/traces/%s_trace.jsonl", SOURCE_DIR, name);
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    return file;
}

/* The block ids of the next request; 0: the end. */
static inline uint32_t bed_trace_next(FILE *file, uint32_t *keys)
{
    static char line[65536];
    char *at;
    uint32_t count = 0;

    if (fgets(line, sizeof(line), file) == NULL)
        return 0;
    at = strstr(line, "\"hash_ids\": [");
    assert_non_null(at);
    at += strlen("\"hash_ids\": [");
    do {
        assert_true(count < BED_ITEMS);
        keys[count++] = (uint32_t)strtoull(at, &at, 10);
    } while (*at++ == ',');
    return count;
}

#endif
