/* The policy of reuse-rate classes against a slow, plain model of it: the core evicts the same
 * objects in the same order, over random operations and over the beginnings of both traces.
 *
 * One node that acknowledges at once; every object takes one unit of 256 bytes; the reserve comes
 * on top, so that the pool holds exactly `capacity` objects. */
#include "eviction_model.h"

#include "base/limits.h"
#include "base/rng.h"
#include "core/core.h"
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define UNIT 256u
#define SEGMENT_STEP (2 * MIB)
#define RESERVE 512u /* objects: more than one put has */
#define ITEMS_MAX 400u
#define GENS (1u << 20)
#define LEASES 8u

struct lease {
    uint64_t operation; /* 0: unused */
    uint32_t count;
    uint32_t keys[ITEMS_MAX];
};

struct run {
    struct core *core;
    struct core_outputs outputs;
    struct plain plain;
    uint32_t capacity;
    uint64_t now_ns;
    uint64_t session;
    uint64_t node;
    uint64_t token;
    uint64_t operation;
    uint32_t evicted[ITEMS_MAX + 1]; /* by the core, in this step */
    uint32_t evicted_count;
    uint32_t expected[ITEMS_MAX + 1]; /* by the model */
    uint32_t expected_count;
    uint64_t evictions;
    struct lease leases[LEASES];
    uint32_t *key_of; /* by the counter of a generation */
    char names[PLAIN_KEYS][16];
};

/* ---- the core ---- */

static void *step(struct run *run, enum core_input_kind kind, uint64_t from, uint16_t type,
                  const void *message)
{
    struct core_input input = {.kind = kind,
                               .from = from,
                               .token = ++run->token,
                               .type = type,
                               .message = message,
                               .deadline_ns = UINT64_MAX};
    void *reply = NULL;

    run->now_ns += 1000;
    core_step(run->core, run->now_ns, &input, &run->outputs);
    for (struct core_output *output = run->outputs.first; output != NULL; output = output->next) {
        if (output->kind == CORE_OUT_SESSION)
            run->session = output->to;
        if (output->kind == CORE_OUT_REPLY && output->token == input.token) {
            assert_int_equal(output->status, SNOW_OK);
            assert_true(output->last);
            reply = output->message;
        }
    }
    return reply;
}

/* Nodes forget at once; what was evicted is noted. */
static void acknowledge(struct run *run)
{
    struct wire_closed closed[ITEMS_MAX];

    run->evicted_count = 0;
    for (struct core_output *output = run->outputs.first; output != NULL; output = output->next) {
        if (output->kind != CORE_OUT_FORGET)
            continue;
        const struct wire_forget_req *forget = output->message;
        struct wire_forget_rep reply = {.segment = 0,
                                        .items = closed,
                                        .items_count = forget->items_count};

        assert_true(forget->items_count <= ITEMS_MAX);
        for (uint32_t i = 0; i < forget->items_count; i++) {
            closed[i] = (struct wire_closed){.slot = forget->items[i].slot,
                                             .gen = forget->items[i].gen,
                                             .freed = 1};
            run->evicted[run->evicted_count++] =
                run->key_of[WIRE_GEN_COUNTER(forget->items[i].gen)];
        }
        step(run, CORE_MESSAGE, run->node, WIRE_forget, &reply);
    }
    core_outputs_reset(&run->outputs);
}

/* Bytes of a segment: the pool, the reserve, and what rounding adds. */
static uint64_t memory_of(uint32_t capacity)
{
    return ((capacity + (uint64_t)RESERVE) * UNIT + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
}

static void mount(struct run *run)
{
    uint64_t bytes = memory_of(run->capacity);
    uint32_t slots = (uint32_t)(bytes / UNIT);
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
    const struct wire_mount_rep *reply = step(run, CORE_MESSAGE, 0, WIRE_mount, &message);

    run->node = reply->node;
    for (uint32_t at = 0; at < slots; at += LIMIT_INVENTORY_SLOTS) {
        uint32_t end = slots - at < LIMIT_INVENTORY_SLOTS ? slots : at + LIMIT_INVENTORY_SLOTS;
        struct wire_inventory_req inventory = {.first_slot = at,
                                               .end_slot = end,
                                               .last = end == slots};

        step(run, CORE_MESSAGE, run->node, WIRE_inventory, &inventory);
    }
    core_outputs_reset(&run->outputs);
}

static struct run *run_open(uint32_t capacity)
{
    struct run *run = calloc(1, sizeof(*run));
    struct core_options options = core_options_default();
    struct core_start start = {.cluster = 1,
                               .term = 1,
                               .adopts_strangers = true,
                               .secret_low = 2,
                               .secret_high = 3,
                               .now_ns = NS_PER_S};

    assert_non_null(run);
    run->capacity = capacity;
    run->now_ns = NS_PER_S;
    run->key_of = calloc(GENS, sizeof(*run->key_of));
    assert_non_null(run->key_of);
    for (uint32_t i = 0; i < PLAIN_KEYS; i++)
        snprintf(run->names[i], sizeof(run->names[i]), "k%u", i);
    plain_init(&run->plain);
    core_outputs_init(&run->outputs);
    options.policy = CORE_POLICY_RRC;
    options.reserve_bytes = memory_of(capacity) - capacity * (uint64_t)UNIT;
    assert_int_equal(core_create(&options, &start, &run->core), SNOW_OK);
    mount(run);
    step(run, CORE_SESSION_OPEN, 0, 0, NULL);
    return run;
}

static void run_close(struct run *run)
{
    core_check(run->core);
    core_destroy(run->core);
    core_outputs_deinit(&run->outputs);
    free(run->plain.ghosts);
    free(run->key_of);
    free(run);
}

static struct bytes name_of(const struct run *run, uint32_t key)
{
    return bytes_of_string(run->names[key]);
}

/* ---- what both do ---- */

/* Room for one more, in the model. */
static void expect_room(struct run *run)
{
    struct plain *plain = &run->plain;

    while (plain->readable + plain->writing + 1 > run->capacity) {
        uint32_t victim = plain_victim(plain);

        if (victim == PLAIN_KEYS)
            return;
        plain_evict(plain, victim);
        run->expected[run->expected_count++] = victim;
    }
}

static void compare(struct run *run)
{
    assert_int_equal(run->evicted_count, run->expected_count);
    for (uint32_t i = 0; i < run->evicted_count; i++)
        assert_int_equal(run->evicted[i], run->expected[i]);
    run->evictions += run->evicted_count;
    run->expected_count = 0;
}

/* As the core is to keep it: what the caller says, else behind the prefix. */
static uint32_t depth_of(const struct run *run, uint32_t depth, uint32_t index,
                         const uint32_t *prefix, uint32_t prefix_count)
{
    if (depth != PLAIN_DEPTH_UNKNOWN)
        return depth + index;
    if (prefix_count == 0)
        return PLAIN_DEPTH_UNKNOWN;
    const struct plain_unit *last = &run->plain.units[prefix[prefix_count - 1]];

    return 1 + index +
           (last->readable && last->depth != PLAIN_DEPTH_UNKNOWN ? last->depth : prefix_count - 1);
}

/* Puts keys, the first at this depth; continues: the operation of a look-up, 0: none. */
static void put(struct run *run, const uint32_t *keys, uint32_t count, uint32_t depth,
                uint64_t continues, const uint32_t *prefix, uint32_t prefix_count)
{
    static struct wire_put_item items[ITEMS_MAX];
    static struct wire_written written[ITEMS_MAX];
    struct wire_put_start_req start = {.operation = ++run->operation,
                                       .continues = continues,
                                       .items = items,
                                       .items_count = count};
    struct wire_put_end_req end = {.operation = run->operation,
                                   .continues = continues,
                                   .items = written};

    for (uint32_t i = count; i-- > 0;) {
        if (run->plain.units[keys[i]].readable)
            plain_touch(&run->plain, keys[i], true);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct plain_unit *unit = &run->plain.units[keys[i]];

        items[i] = (struct wire_put_item){.key = name_of(run, keys[i]),
                                          .size = UNIT,
                                          .replicas = 1,
                                          .depth = depth == PLAIN_DEPTH_UNKNOWN ? WIRE_DEPTH_UNKNOWN
                                                                                : depth + i};
        if (unit->readable)
            continue;
        expect_room(run);
        unit->writing = true;
        unit->depth = depth_of(run, depth, i, prefix, prefix_count);
        run->plain.writing++;
    }
    const struct wire_put_start_rep *reply =
        step(run, CORE_MESSAGE, run->session, WIRE_put_start, &start);

    assert_int_equal(reply->items_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_put_grant *grant = &reply->items[i];
        uint32_t key = keys[grant->index];

        assert_int_equal(grant->status, run->plain.units[key].writing ? SNOW_OK : SNOW_EXISTS);
        if (grant->status != SNOW_OK)
            continue;
        assert_true(WIRE_GEN_COUNTER(grant->gen) < GENS);
        run->key_of[WIRE_GEN_COUNTER(grant->gen)] = key;
        written[end.items_count++] =
            (struct wire_written){.key = name_of(run, key), .gen = grant->gen, .replicas = 1};
    }
    acknowledge(run);
    compare(run);
    step(run, CORE_MESSAGE, run->session, WIRE_put_end, &end);
    acknowledge(run);
    for (uint32_t i = count; i-- > 0;) {
        if (run->plain.units[keys[i]].writing)
            plain_insert(&run->plain, keys[i]);
    }
    for (uint32_t i = prefix_count; i-- > 0;) {
        if (run->plain.units[prefix[i]].readable)
            plain_touch(&run->plain, prefix[i], false);
    }
    compare(run);
}

/* Looks keys up; returns how many are there before the first that is not. */
static uint32_t look_up(struct run *run, const uint32_t *keys, uint32_t count, uint32_t flags,
                        uint64_t operation)
{
    static struct wire_key wanted[ITEMS_MAX];
    struct wire_lookup_req lookup = {
        .operation = operation, .flags = flags, .keys = wanted, .keys_count = count};
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        wanted[i].key = name_of(run, keys[i]);
    const struct wire_lookup_rep *reply =
        step(run, CORE_MESSAGE, run->session, WIRE_lookup, &lookup);

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reply->items[i].status == SNOW_OK, run->plain.units[keys[i]].readable);
    while (found < count && reply->items[found].status == SNOW_OK)
        found++;
    for (uint32_t i = count; i-- > 0 && (flags & (WIRE_LOOKUP_TOUCH | WIRE_LOOKUP_REFRESH));) {
        if (run->plain.units[keys[i]].readable)
            plain_touch(&run->plain, keys[i], (flags & WIRE_LOOKUP_TOUCH) != 0);
    }
    acknowledge(run);
    compare(run);
    return found;
}

/* ---- traces ---- */

/* The block ids of the next line; 0: the end. */
static uint32_t read_line(FILE *file, uint32_t *keys)
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
        uint64_t id = strtoull(at, &at, 10);

        assert_true(id < PLAIN_KEYS && count < ITEMS_MAX);
        keys[count++] = (uint32_t)id;
    } while (*at++ == ',');
    return count;
}

/* What an engine does: look up, read the prefix, put the rest. */
static void play(struct run *run, const uint32_t *keys, uint32_t count, uint32_t depth)
{
    uint32_t found = look_up(run, keys, count, 0, 0);
    uint64_t read = 0;

    if (found > 0) {
        read = ++run->operation;
        look_up(run, keys, found, WIRE_LOOKUP_TOUCH, read);
    }
    if (found < count)
        put(run, keys + found, count - found, depth == 0 ? found : depth, read, keys, found);
}

static void play_trace(const char *name, uint32_t capacity, uint32_t requests, uint32_t depth)
{
    struct run *run = run_open(capacity);
    char path[512];
    uint32_t keys[ITEMS_MAX];
    uint32_t count;

    snprintf(path, sizeof(path), "%s/traces/%s", SOURCE_DIR, name);
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    for (uint32_t i = 0; i < requests && (count = read_line(file, keys)) > 0; i++)
        play(run, keys, count, depth);
    fclose(file);
    assert_true(run->evictions > 10000);
    run_close(run);
}

static void test_conversation(void **state)
{
    (void)state;
    play_trace("conversation_trace.jsonl", 913, 2000, 0);
}

static void test_conversation_of_unknown_depth(void **state)
{
    (void)state;
    play_trace("conversation_trace.jsonl", 1827, 1500, PLAIN_DEPTH_UNKNOWN);
}

static void test_synthetic(void **state)
{
    (void)state;
    play_trace("synthetic_trace.jsonl", 1200, 1200, 0);
}

/* ---- random operations ---- */

static void take_lease(struct run *run, struct lease *lease, const uint32_t *keys, uint32_t count)
{
    lease->operation = ++run->operation;
    lease->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (run->plain.units[keys[i]].readable)
            lease->keys[lease->count++] = keys[i];
    }
    look_up(run, keys, count, WIRE_LOOKUP_TOUCH | WIRE_LOOKUP_LEASE, lease->operation);
    for (uint32_t i = 0; i < lease->count; i++)
        run->plain.units[lease->keys[i]].leases++;
}

static void return_lease(struct run *run, struct lease *lease)
{
    struct wire_id id = {.id = lease->operation};
    struct wire_lease_return_msg message = {.operations = &id, .operations_count = 1};

    step(run, CORE_MESSAGE, run->session, WIRE_lease_return, &message);
    acknowledge(run);
    compare(run);
    for (uint32_t i = lease->count; i-- > 0;) {
        struct plain_unit *unit = &run->plain.units[lease->keys[i]];

        if (--unit->leases == 0)
            unit->order = ++run->plain.orders;
    }
    lease->operation = 0;
}

/* Keys in a row from a random one, near the low ones more often. */
static uint32_t some_keys(struct rng *rng, uint32_t *keys, uint32_t range)
{
    uint32_t first = (uint32_t)rng_below(rng, rng_below(rng, range) + 1);
    uint32_t count = (uint32_t)rng_between(rng, 1, 12);

    for (uint32_t i = 0; i < count; i++)
        keys[i] = first + i;
    return count;
}

static void test_random(void **state)
{
    struct run *run = run_open(200);
    struct rng rng;
    uint32_t keys[16];

    (void)state;
    rng_init(&rng, 7);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t count = some_keys(&rng, keys, 1500);
        struct lease *lease = &run->leases[rng_below(&rng, LEASES)];
        uint32_t depths[] = {0, PLAIN_DEPTH_UNKNOWN, keys[0] % 50, 3};

        switch (rng_below(&rng, 8)) {
        case 0:
            look_up(run, keys, count, WIRE_LOOKUP_REFRESH, 0);
            break;
        case 1:
            if (lease->operation != 0)
                return_lease(run, lease);
            else
                take_lease(run, lease, keys, count);
            break;
        case 2:
        case 3:
            play(run, keys, count, 0);
            break;
        case 4:
            look_up(run, keys, count, WIRE_LOOKUP_TOUCH, 0);
            break;
        default:
            put(run, keys, count, depths[rng_below(&rng, 4)], 0, NULL, 0);
            break;
        }
        if (i % 500 == 0)
            core_check(run->core);
    }
    assert_true(run->evictions > 20000);
    run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_conversation_of_unknown_depth),
        cmocka_unit_test(test_synthetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
