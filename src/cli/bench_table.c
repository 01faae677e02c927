/* The master's table alone, in this process: what an object costs it in memory, and how many
 * look-ups one core does a second.
 *
 * The core, driven by messages as the master's loop drives it: no network.  One node of the size
 * that the objects need is played by answering; its memory does not exist. */
#include "cli/bench.h"
#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_SIZE 4096u
#define FILL_BATCH 1024u
#define MESSAGES_PER_ROUND 8192u /* look-ups prepared at once */
#define ROUNDS 7u

struct table {
    struct bench *bench;
    struct core *core;
    struct core_outputs outputs;
    uint32_t key_size;
    uint64_t session;
    uint64_t node;
    uint64_t token;
    uint64_t now_ns;
};

void bench_key(uint64_t run, uint64_t number, uint8_t *key, uint32_t size)
{
    char text[BENCH_KEY_SIZE + 64];

    snprintf(text, sizeof(text), "model@tp0@%016" PRIx64 "@%0*" PRIu64,
             (number + run) * UINT64_C(0x9e3779b97f4a7c15), (int)size - 27, number);
    memcpy(key, text, size);
}

static const struct core_output *step(struct table *table, uint64_t from, uint16_t type,
                                      const void *message)
{
    struct core_input input = {.kind = type == 0 ? CORE_SESSION_OPEN : CORE_MESSAGE,
                               .from = from,
                               .token = ++table->token,
                               .type = type,
                               .message = message,
                               .deadline_ns = UINT64_MAX};

    core_outputs_reset(&table->outputs);
    core_step(table->core, table->now_ns, &input, &table->outputs);
    table->now_ns += 1000;
    for (const struct core_output *output = table->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind == CORE_OUT_REPLY || output->kind == CORE_OUT_SESSION)
            return output;
    }
    return NULL;
}

/* ---- filling -------------------------------------------------------------------------------- */

static void mount(struct table *table, uint64_t objects)
{
    uint64_t bytes = (objects + FILL_BATCH * LIMIT_OPEN_WRITE_SHARE) * OBJECT_SIZE * 2;
    struct wire_segment_info info = {.incarnation = 2,
                                     .tier = WIRE_TIER_DRAM,
                                     .size = bytes,
                                     .ready = bytes,
                                     .slot_count = (uint32_t)objects + FILL_BATCH,
                                     .slots_ready = (uint32_t)objects + FILL_BATCH};
    struct wire_mount_req message = {.incarnation = 1,
                                     .process = 1,
                                     .address = bytes_of_string("bench:1"),
                                     .segments = &info,
                                     .segments_count = 1};
    const struct core_output *reply = step(table, 0, WIRE_mount, &message);

    table->node = ((const struct wire_mount_rep *)reply->message)->node;
    for (uint32_t at = 0; at < info.slot_count; at += LIMIT_INVENTORY_SLOTS) {
        uint32_t end = info.slot_count - at < LIMIT_INVENTORY_SLOTS ? info.slot_count
                                                                    : at + LIMIT_INVENTORY_SLOTS;
        struct wire_inventory_req inventory = {.first_slot = at,
                                               .end_slot = end,
                                               .last = end == info.slot_count};

        step(table, table->node, WIRE_inventory, &inventory);
    }
    table->session = step(table, 0, 0, NULL)->to;
}

static bool fill_batch(struct table *table, uint64_t first, uint32_t count, uint8_t *keys,
                       struct wire_put_item *items, struct wire_written *written)
{
    struct wire_put_start_req start = {.operation = first + 1,
                                       .items = items,
                                       .items_count = count};
    struct wire_put_end_req end = {.operation = first + 1, .items = written, .items_count = count};
    const struct wire_put_start_rep *grants;
    uint32_t size = table->key_size;

    for (uint32_t i = 0; i < count; i++) {
        bench_key(0, first + i, keys + i * size, size);
        items[i] = (struct wire_put_item){
            .key = bytes_of(keys + i * size, size), .size = OBJECT_SIZE, .depth = i, .replicas = 1};
    }
    grants = step(table, table->session, WIRE_put_start, &start)->message;
    for (uint32_t i = 0; i < grants->items_count; i++) {
        const struct wire_put_grant *grant = &grants->items[i];

        if (grant->status != SNOW_OK)
            return false;
        written[grant->index] =
            (struct wire_written){.key = items[grant->index].key, .gen = grant->gen, .replicas = 1};
    }
    return grants->items_count == count && step(table, table->session, WIRE_put_end, &end) != NULL;
}

static bool fill(struct table *table, uint64_t objects)
{
    struct wire_put_item *items = calloc(FILL_BATCH, sizeof(*items));
    struct wire_written *written = calloc(FILL_BATCH, sizeof(*written));
    uint8_t *keys = calloc(FILL_BATCH, table->key_size);
    bool good = items != NULL && written != NULL && keys != NULL;

    mount(table, objects);
    for (uint64_t at = 0; at < objects && good; at += FILL_BATCH) {
        uint64_t count = objects - at < FILL_BATCH ? objects - at : FILL_BATCH;

        good = fill_batch(table, at, (uint32_t)count, keys, items, written);
    }
    free(items);
    free(written);
    free(keys);
    core_outputs_reset(&table->outputs);
    return good;
}

/* ---- looking up ----------------------------------------------------------------------------- */

/* A look-up of random keys, as it comes over a connection; returns its size. */
static size_t prepare(const struct table *table, uint64_t objects, uint32_t batch, struct rng *rng,
                      struct wire_key *keys, uint8_t *bytes, uint8_t *to, size_t room)
{
    struct wire_lookup_req lookup = {.flags = WIRE_LOOKUP_UNORDERED,
                                     .keys = keys,
                                     .keys_count = batch};
    uint32_t size = table->key_size;
    struct writer writer;

    for (uint32_t i = 0; i < batch; i++) {
        bench_key(0, rng_below(rng, objects), bytes + i * size, size);
        keys[i].key = bytes_of(bytes + i * size, size);
    }
    writer_init(&writer, to, room, WIRE_VERSION);
    return wire_request_encode(WIRE_lookup, &lookup, &writer) == SNOW_OK ? writer_size(&writer) : 0;
}

/* Parses and answers them all; nanoseconds a key of processor time. */
static double look_up_round(struct table *table, const uint8_t *messages, size_t room, size_t size,
                            uint32_t count, uint32_t batch, struct arena *arena)
{
    uint64_t before_ns = env_cpu_ns();
    void *message;

    for (uint32_t i = 0; i < count; i++) {
        arena_reset(arena);
        if (wire_request_decode(WIRE_lookup, bytes_of(messages + i * room, size), WIRE_VERSION,
                                arena, &message) == SNOW_OK)
            step(table, table->session, WIRE_lookup, message);
    }
    return (double)(env_cpu_ns() - before_ns) / ((double)count * batch);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double look_up(struct table *table, uint64_t objects, uint32_t batch)
{
    size_t room = 64 + (size_t)batch * (table->key_size + 2u);
    uint32_t count = MESSAGES_PER_ROUND / (batch < 4 ? 1 : batch / 4) + 1;
    struct wire_key *keys = calloc(batch, sizeof(*keys));
    uint8_t *bytes = calloc(batch, table->key_size);
    uint8_t *messages = calloc(count, room);
    double rounds[ROUNDS] = {0};
    struct arena arena;
    struct rng rng;
    size_t size = 0;

    rng_init(&rng, 1);
    arena_init(&arena, 0);
    for (uint32_t round = 0; round < ROUNDS && keys != NULL && bytes != NULL && messages != NULL;
         round++) {
        for (uint32_t i = 0; i < count; i++)
            size = prepare(table, objects, batch, &rng, keys, bytes, messages + i * room, room);
        rounds[round] = look_up_round(table, messages, room, size, count, batch, &arena);
    }
    arena_deinit(&arena);
    free(messages);
    free(bytes);
    free(keys);
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
    return rounds[ROUNDS / 2];
}

/* ---- the whole ------------------------------------------------------------------------------ */

double bench_table_measure(struct bench *bench, uint64_t objects, uint32_t key_size, uint32_t batch,
                           double *bytes_per_object)
{
    struct table table = {.bench = bench, .key_size = key_size, .now_ns = NS_PER_S};
    struct core_options options = core_options_default();
    struct core_start start = {.cluster = 1,
                               .term = 1,
                               .adopts_strangers = true,
                               .now_ns = table.now_ns,
                               .memory = env_large_pages()};
    uint64_t before = env_resident_bytes();
    double ns = 0;

    core_outputs_init(&table.outputs);
    if (core_create(&options, &start, &table.core) != SNOW_OK) {
        cli_error(bench->cli, "out of memory");
    } else if (!fill(&table, objects)) {
        cli_error(bench->cli, "the core refused to hold %" PRIu64 " objects", objects);
    } else {
        *bytes_per_object = (double)(env_resident_bytes() - before) / (double)objects;
        ns = look_up(&table, objects, batch);
    }
    if (table.core != NULL)
        core_destroy(table.core);
    core_outputs_deinit(&table.outputs);
    return ns;
}
