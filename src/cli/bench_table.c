/* bench core: what an object costs the master in memory, and how many look-ups one core does a
 * second. */
#include "cli/bench_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILL_BATCH 1024u
#define MESSAGES_PER_ROUND 8192u /* look-ups prepared at once */
#define ROUNDS 7u

void bench_key(uint64_t run, uint64_t number, uint8_t *key, uint32_t size)
{
    char text[BENCH_KEY_SIZE + 64];

    snprintf(text, sizeof(text), "model@tp0@%016" PRIx64 "@%0*" PRIu64,
             (number + run) * UINT64_C(0x9e3779b97f4a7c15), (int)size - 27, number);
    memcpy(key, text, size);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* What the node answers to a forget. */
struct answer {
    struct list_link link;
    uint64_t node;
    struct wire_forget_rep message;
};

static void take_reply(struct bench_table *table, const struct core_output *output)
{
    const struct wire_put_start_rep *grants = output->message;

    if (output->type == WIRE_mount && output->message != NULL)
        table->node = ((const struct wire_mount_rep *)output->message)->node;
    if (output->type != WIRE_put_start || output->message == NULL)
        return;
    for (uint32_t i = 0; i < grants->items_count; i++) {
        const struct wire_put_grant *grant = &grants->items[i];

        if (grant->status == SNOW_OK)
            table->written[table->granted++] = (struct wire_written){
                .key = table->items[grant->index].key, .gen = grant->gen, .replicas = 1};
    }
}

/* The node forgets at once. */
static void take_forget(struct bench_table *table, const struct core_output *output)
{
    const struct wire_forget_req *forget = output->message;
    struct answer *answer = arena_take(&table->arena, sizeof(*answer));
    struct wire_closed *items = arena_array(&table->arena, forget->items_count, sizeof(*items));

    ASSERT(answer != NULL && items != NULL);
    for (uint32_t i = 0; i < forget->items_count; i++)
        items[i] = (struct wire_closed){.slot = forget->items[i].slot,
                                        .gen = forget->items[i].gen,
                                        .freed = 1};
    answer->node = output->to;
    answer->message = (struct wire_forget_rep){.segment = forget->segment,
                                               .items = items,
                                               .items_count = forget->items_count};
    list_push(&table->answers, &answer->link);
    table->forgotten += forget->items_count;
}

static void step(struct bench_table *table, const struct core_input *input)
{
    core_outputs_reset(&table->outputs);
    core_step(table->core, table->now_ns, input, &table->outputs);
    table->now_ns += 1000;
    for (const struct core_output *output = table->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind == CORE_OUT_REPLY)
            take_reply(table, output);
        else if (output->kind == CORE_OUT_SESSION)
            table->session = output->to;
        else if (output->kind == CORE_OUT_FORGET)
            take_forget(table, output);
    }
}

static void step_all(struct bench_table *table, const struct core_input *input)
{
    struct list_link *link;

    arena_reset(&table->arena);
    step(table, input);
    while ((link = list_pop(&table->answers)) != NULL) {
        const struct answer *answer = list_entry(link, struct answer, link);
        struct core_input reply = {.kind = CORE_MESSAGE,
                                   .from = answer->node,
                                   .type = WIRE_forget,
                                   .message = &answer->message};

        step(table, &reply);
    }
}

static void message(struct bench_table *table, uint64_t from, uint16_t type, const void *body)
{
    struct core_input input = {.kind = type == 0 ? CORE_SESSION_OPEN : CORE_MESSAGE,
                               .from = from,
                               .token = ++table->token,
                               .type = type,
                               .message = body,
                               .deadline_ns = UINT64_MAX};

    step_all(table, &input);
}

void bench_table_step(struct bench_table *table, uint16_t type, const void *body)
{
    message(table, table->session, type, body);
}

/* ---- filling -------------------------------------------------------------------------------- */

static void mount(struct bench_table *table, uint64_t bytes, uint32_t slots)
{
    struct wire_segment_info info = {.incarnation = 2,
                                     .tier = WIRE_TIER_DRAM,
                                     .size = bytes,
                                     .ready = bytes,
                                     .slot_count = slots,
                                     .slots_ready = slots};
    struct wire_mount_req request = {.incarnation = 1,
                                     .process = 1,
                                     .address = bytes_of_string("bench:1"),
                                     .segments = &info,
                                     .segments_count = 1};

    message(table, 0, WIRE_mount, &request);
    for (uint32_t at = 0; at < slots; at += LIMIT_INVENTORY_SLOTS) {
        uint32_t end = slots - at < LIMIT_INVENTORY_SLOTS ? slots : at + LIMIT_INVENTORY_SLOTS;
        struct wire_inventory_req inventory = {.first_slot = at,
                                               .end_slot = end,
                                               .last = end == slots};

        message(table, table->node, WIRE_inventory, &inventory);
    }
    message(table, 0, 0, NULL);
}

bool bench_table_open(struct bench_table *table, uint32_t key_size, uint64_t bytes, uint32_t slots)
{
    struct core_options options = core_options_default();
    struct core_start start = {.cluster = 1,
                               .term = 1,
                               .adopts_strangers = true,
                               .now_ns = NS_PER_S,
                               .memory = env_large_pages()};

    *table = (struct bench_table){.key_size = key_size, .now_ns = NS_PER_S};
    core_outputs_init(&table->outputs);
    arena_init(&table->arena, 0);
    list_init(&table->answers);
    if (core_create(&options, &start, &table->core) != SNOW_OK)
        return false;
    mount(table, bytes, slots);
    return true;
}

void bench_table_close(struct bench_table *table)
{
    if (table->core != NULL)
        core_destroy(table->core);
    core_outputs_deinit(&table->outputs);
    arena_deinit(&table->arena);
}

/* With memory for the batch. */
static bool put_batch(struct bench_table *table, uint64_t first, uint32_t count, uint8_t *keys,
                      struct wire_put_item *items, struct wire_written *written)
{
    struct wire_put_start_req start = {
        .operation = first + 1, .wait_ms = 1000, .items = items, .items_count = count};
    struct wire_put_end_req end = {.operation = first + 1, .items = written, .items_count = count};
    uint32_t size = table->key_size;

    for (uint32_t i = 0; i < count; i++) {
        bench_key(0, first + i, keys + i * size, size);
        items[i] = (struct wire_put_item){.key = bytes_of(keys + i * size, size),
                                          .size = BENCH_OBJECT_SIZE,
                                          .depth = i,
                                          .replicas = 1};
    }
    table->items = items;
    table->written = written;
    table->granted = 0;
    bench_table_step(table, WIRE_put_start, &start);
    if (table->granted != count)
        return false;
    bench_table_step(table, WIRE_put_end, &end);
    return true;
}

bool bench_table_put(struct bench_table *table, uint64_t first, uint32_t count)
{
    struct wire_put_item *items = calloc(count, sizeof(*items));
    struct wire_written *written = calloc(count, sizeof(*written));
    uint8_t *keys = calloc(count, table->key_size);
    bool good = items != NULL && written != NULL && keys != NULL &&
                put_batch(table, first, count, keys, items, written);

    free(items);
    free(written);
    free(keys);
    return good;
}

static bool fill(struct bench_table *table, uint64_t objects)
{
    bool good = true;

    for (uint64_t at = 0; at < objects && good; at += FILL_BATCH) {
        uint64_t count = objects - at < FILL_BATCH ? objects - at : FILL_BATCH;

        good = bench_table_put(table, at, (uint32_t)count);
    }
    core_outputs_reset(&table->outputs);
    return good;
}

/* ---- looking up ----------------------------------------------------------------------------- */

/* A look-up of random keys, as it comes over a connection; returns its size. */
static size_t prepare(const struct bench_table *table, uint64_t objects, uint32_t batch,
                      struct rng *rng, struct wire_key *keys, uint8_t *bytes, uint8_t *to,
                      size_t room)
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
static double look_up_round(struct bench_table *table, const uint8_t *messages, size_t room,
                            size_t size, uint32_t count, uint32_t batch, struct arena *arena)
{
    uint64_t before_ns = env_cpu_ns();
    void *message;

    for (uint32_t i = 0; i < count; i++) {
        arena_reset(arena);
        if (wire_request_decode(WIRE_lookup, bytes_of(messages + i * room, size), WIRE_VERSION,
                                arena, &message) == SNOW_OK)
            bench_table_step(table, WIRE_lookup, message);
    }
    return (double)(env_cpu_ns() - before_ns) / ((double)count * batch);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double look_up(struct bench_table *table, uint64_t objects, uint32_t batch)
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
    uint64_t bytes = (objects + FILL_BATCH * LIMIT_OPEN_WRITE_SHARE) * BENCH_OBJECT_SIZE * 2;
    uint64_t before = env_resident_bytes();
    struct bench_table table;
    double ns = 0;

    if (!bench_table_open(&table, key_size, bytes, (uint32_t)objects + FILL_BATCH)) {
        cli_error(bench->cli, "out of memory");
    } else if (!fill(&table, objects)) {
        cli_error(bench->cli, "the core refused to hold %" PRIu64 " objects", objects);
    } else {
        *bytes_per_object = (double)(env_resident_bytes() - before) / (double)objects;
        ns = look_up(&table, objects, batch);
    }
    bench_table_close(&table);
    return ns;
}
