/* The operation's side of a row: makes a cluster that fits, loads it, and calls. */
#include "cli/bench_client.h"

#include "rpc/rpc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPAN_BYTES (256 * MIB)  /* of objects that are put, or read at random: beyond any cache */
#define SPARE_BYTES (128 * MIB) /* that a pool keeps beside them */
#define SMALL_SLOT 256u
#define LOAD_BATCH 1024u
#define EXISTS_BATCHES 2048u /* of random keys, looked up in turn */

/* ---- keys ----------------------------------------------------------------------------------- */

/* Objects that gets choose from, or that are put before they are removed again. */
static uint64_t span_bytes(const struct bench_row *row)
{
    uint64_t least = row->size * row->batch * row->depth * row->threads * 2;

    return least > SPAN_BYTES ? least : SPAN_BYTES;
}

static uint64_t batch_count(const struct bench_row *row)
{
    uint64_t objects = span_bytes(row) / (row->size < SMALL_SLOT ? SMALL_SLOT : row->size);
    uint64_t batches = objects / row->batch / row->threads * row->threads;

    return row->op == BENCH_EXISTS ? EXISTS_BATCHES : batches;
}

static bool reads(const struct bench_row *row)
{
    return row->op == BENCH_GET || row->op == BENCH_VIEW;
}

/* Keys of objects in random order: what was put one after the other is not read so. */
static bool make_keys(struct client_side *side)
{
    struct bench *bench = side->bench;
    const struct bench_row *row = &side->row;
    uint64_t count;
    struct rng rng;

    rng_init(&rng, 7);
    side->batches = batch_count(row);
    count = side->batches * row->batch;
    side->keys = calloc(count, BENCH_KEY_SIZE);
    if (side->keys == NULL)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = row->op == BENCH_EXISTS ? rng_below(&rng, bench->objects) : i;

        bench_key(bench->run, number, side->keys + i * BENCH_KEY_SIZE, BENCH_KEY_SIZE);
    }
    for (uint64_t i = count; i-- > 1 && reads(row);) {
        uint8_t *a = side->keys + i * BENCH_KEY_SIZE;
        uint8_t *b = side->keys + rng_below(&rng, i + 1) * BENCH_KEY_SIZE;
        uint8_t kept[BENCH_KEY_SIZE];

        memcpy(kept, a, BENCH_KEY_SIZE);
        memcpy(a, b, BENCH_KEY_SIZE);
        memcpy(b, kept, BENCH_KEY_SIZE);
    }
    return true;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Puts objects first, first + 1, ... */
static enum snow_status load_batch(struct client_side *side, uint64_t first, uint64_t count,
                                   uint64_t size, const uint8_t *bytes)
{
    struct snow_put *puts = calloc(count, sizeof(*puts));
    uint8_t *keys = calloc(count, BENCH_KEY_SIZE);
    enum snow_status status = SNOW_NO_MEMORY;

    for (uint64_t i = 0; i < count && puts != NULL && keys != NULL; i++) {
        uint8_t *key = keys + i * BENCH_KEY_SIZE;

        bench_key(side->bench->run, first + i, key, BENCH_KEY_SIZE);
        puts[i] = (struct snow_put){.key = {.at = key, .size = BENCH_KEY_SIZE},
                                    .from = bytes,
                                    .size = size,
                                    .depth = (uint32_t)i};
    }
    if (puts != NULL && keys != NULL)
        status = snow_put(side->client, puts, count, NULL);
    free(puts);
    free(keys);
    return status;
}

static bool load(struct client_side *side, uint64_t objects, uint64_t size)
{
    uint8_t *bytes = calloc(1, size + 1);
    uint64_t batch = size == 0 ? LOAD_BATCH : 1 + 8 * MIB / size;
    enum snow_status status = bytes == NULL ? SNOW_NO_MEMORY : SNOW_OK;

    if (batch > LOAD_BATCH)
        batch = LOAD_BATCH;
    for (uint64_t i = 0; i < size && bytes != NULL; i++)
        bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    for (uint64_t at = 0; at < objects && status == SNOW_OK; at += batch)
        status = load_batch(side, at, objects - at < batch ? objects - at : batch, size, bytes);
    free(bytes);
    if (status == SNOW_OK)
        return true;
    cli_error(side->bench->cli, "can not load %" PRIu64 " objects: %s (%s) %s", objects,
              snow_status_text(status), snow_status_name(status), snow_reason());
    return false;
}

static bool load_all(struct client_side *side)
{
    if (reads(&side->row)) {
        side->loaded = side->batches * side->row.batch;
        return load(side, side->loaded, side->row.size);
    }
    if (side->row.op == BENCH_EXISTS && !side->bench->objects_loaded)
        side->bench->objects_loaded = load(side, side->bench->objects, 0);
    return side->row.op != BENCH_EXISTS || side->bench->objects_loaded;
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool open_cluster(struct client_side *side)
{
    struct bench *bench = side->bench;
    const struct bench_row *row = &side->row;
    uint64_t memory = span_bytes(row) + SPARE_BYTES;
    uint64_t slot = row->size < 4 * KIB ? SMALL_SLOT : 4 * KIB;

    if (row->op == BENCH_EXISTS) {
        memory = bench->objects * SMALL_SLOT * 5 / 4 + SPARE_BYTES;
        slot = SMALL_SLOT;
    }
    return bench_cluster_need(bench, row->replicas, memory, slot);
}

static bool open_client(struct client_side *side)
{
    const struct cli *cli = side->bench->cli;
    struct snow_options options;
    struct snow_key_rules rules;
    const char *reason = "";

    cli_client_options(cli, &options, &rules);
    options.master = side->bench->cluster.address;
    options.transport = side->row.transport;
    options.copy_threads = 1; /* the limit is a memcpy by as many threads as there are clients' */
    if (snow_open(&options, &side->client, &reason) == SNOW_OK)
        return true;
    cli_error(cli, "%s", reason);
    return false;
}

static bool open_thread(struct client_side *side, uint32_t index)
{
    const struct bench_row *row = &side->row;
    struct client_thread *thread = &side->threads[index];
    uint64_t size = row->size * row->batch;

    thread->side = side;
    thread->batches = row->op == BENCH_PUT ? side->batches / row->threads : side->batches;
    thread->first_batch = row->op == BENCH_PUT ? index * thread->batches : 0;
    thread->next = row->op == BENCH_PUT ? 0 : index * thread->batches / row->threads;
    thread->memory = malloc(size * row->depth + 1);
    if (thread->memory == NULL)
        return false;
    for (uint64_t i = 0; i < size * row->depth; i++)
        thread->memory[i] = (uint8_t)(i * 31 + (i >> 8));
    for (uint32_t i = 0; i < row->depth; i++) {
        struct client_call *call = &thread->calls[i];

        call->thread = thread;
        call->memory = thread->memory + i * size;
        call->puts = calloc(row->batch, sizeof(*call->puts));
        call->gets = calloc(row->batch, sizeof(*call->gets));
        call->stats = calloc(row->batch, sizeof(*call->stats));
        call->views = calloc(row->batch, sizeof(*call->views));
        if (call->puts == NULL || call->gets == NULL || call->stats == NULL || call->views == NULL)
            return false;
    }
    return true;
}

/* Bytes of one call: those of the second one, when all connections are there. */
static bool measure_wire(struct client_side *side)
{
    struct client_thread *thread = &side->threads[0];
    enum snow_status status;

    if (side->row.op == BENCH_VIEW)
        return true; /* none are driven by events */
    status = bench_calls_connect(thread);

    thread->status = SNOW_OK;
    thread->window_ns = UINT64_C(60) * NS_PER_S;
    thread->calls_max = 1;
    for (uint32_t i = 0; i < 2 && status == SNOW_OK; i++) {
        uint64_t before = bench_calls_traffic(thread);

        bench_calls_events(thread);
        env_loop_turn(thread->loop, 0, 0); /* what the end of the call left to be sent */
        side->wire_bytes = bench_calls_traffic(thread) - before;
        status = thread->status;
    }
    if (side->row.depth == 1)
        bench_calls_disconnect(thread);
    if (status != SNOW_OK)
        cli_error(side->bench->cli, "the first call fails: %s (%s)", snow_status_text(status),
                  snow_status_name(status));
    return status == SNOW_OK;
}

static void side_close(void *pointer)
{
    struct client_side *side = pointer;

    for (uint32_t t = 0; t < side->row.threads; t++) {
        struct client_thread *thread = &side->threads[t];

        if (side->row.op == BENCH_PUT && side->client != NULL && thread->next > 0)
            (void)!bench_calls_remove(side, thread->first_batch, thread->next);
        bench_calls_disconnect(thread);
        for (uint32_t i = 0; i < side->row.depth; i++) {
            free(thread->calls[i].puts);
            free(thread->calls[i].gets);
            free(thread->calls[i].stats);
            free(thread->calls[i].views);
        }
        free(thread->memory);
    }
    if (side->loaded > 0)
        (void)!bench_calls_remove(side, 0, side->batches);
    if (side->client != NULL)
        snow_close(side->client);
    free(side->keys);
    free(side);
}

static void *side_open(struct bench *bench, const struct bench_row *row)
{
    struct client_side *side = calloc(1, sizeof(*side));
    bool good = side != NULL;

    if (good) {
        side->bench = bench;
        side->row = *row;
        good = make_keys(side);
    }
    for (uint32_t i = 0; good && i < row->threads; i++)
        good = open_thread(side, i);
    if (!good)
        cli_error(bench->cli, "out of memory");
    good = good && open_cluster(side) && open_client(side) && load_all(side) && measure_wire(side);
    for (uint32_t i = 1; i < row->threads && good && row->depth > 1; i++)
        good = bench_calls_connect(&side->threads[i]) == SNOW_OK;
    if (good)
        return side;
    if (side != NULL)
        side_close(side);
    return NULL;
}

static bool side_run(void *pointer, uint64_t window_ns, struct bench_round *round,
                     struct bench_samples *samples)
{
    struct client_side *side = pointer;
    uint64_t before_ns = env_cpu_ns() + bench_cluster_cpu_ns(side->bench);

    for (uint32_t i = 0; i < side->row.threads; i++) {
        side->threads[i].window_ns = window_ns;
        side->threads[i].samples = i == 0 ? samples : NULL;
        side->threads[i].calls_max = UINT64_MAX;
        side->threads[i].status = SNOW_OK;
    }
    if (!bench_threads_run(side->bench, side->row.threads,
                           side->row.depth > 1 ? bench_calls_events : bench_calls_blocking,
                           side->threads, sizeof(side->threads[0])))
        return false;
    *round = (struct bench_round){.wire_bytes = side->wire_bytes,
                                  .cpu_ns =
                                      env_cpu_ns() + bench_cluster_cpu_ns(side->bench) - before_ns};
    for (uint32_t i = 0; i < side->row.threads; i++) {
        const struct client_thread *thread = &side->threads[i];

        if (thread->status != SNOW_OK) {
            cli_error(side->bench->cli, "%s: an item ends with %s (%s)",
                      bench_op_name(side->row.op), snow_status_text(thread->status),
                      snow_status_name(thread->status));
            return false;
        }
        round->items += thread->call_count * side->row.batch;
        round->elapsed_ns += thread->elapsed_ns / side->row.threads;
    }
    return true;
}

const struct bench_side_ops bench_client = {
    .name = "client", .open = side_open, .run = side_run, .close = side_close};
