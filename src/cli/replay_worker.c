/* A client process of replay: does what an engine does for each request of its part of the trace.
 *
 * Look up the chain; read the longest cached prefix; put the rest, continuing that read.  Every
 * byte that is read is compared with what the key says it must be. */
#include "cli/replay.h"
#include "trace/contents.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM 32u
#define TELL_EVERY 64u

struct latencies {
    uint32_t *us;
    uint64_t count;
};

struct worker {
    struct cli *cli;
    struct snow_client *client;
    struct trace trace;
    size_t block_size;
    struct replay_counters counters;
    struct latencies put;
    struct latencies get;
    struct env_loop *pacing; /* sleeps until a request is due */
    double pace;             /* factor on time stamps; 0: as fast as possible */
    uint64_t started_ns;
    /* Of one request, sized for the longest. */
    char (*keys)[KEY_ROOM];
    struct snow_stat *stats;
    struct snow_get *gets;
    struct snow_put *puts;
    uint8_t *bytes;
};

/* ---- one request ---- */

static struct snow_key key_at(const struct worker *worker, uint32_t index)
{
    return (struct snow_key){.at = worker->keys[index], .size = strlen(worker->keys[index])};
}

static uint32_t look_up(struct worker *worker, uint32_t count)
{
    uint32_t hits = 0;

    for (uint32_t i = 0; i < count; i++)
        worker->stats[i] = (struct snow_stat){.key = key_at(worker, i)};
    snow_exists(worker->client, worker->stats, count, NULL);
    while (hits < count && worker->stats[hits].status == SNOW_OK)
        hits++;
    return hits;
}

static void note(struct latencies *latencies, uint64_t ns)
{
    uint64_t us = ns / NS_PER_US;

    latencies->us[latencies->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* Reads the prefix; returns how much of it was read and is right. */
static uint32_t read_prefix(struct worker *worker, const uint64_t *blocks, uint32_t count,
                            snow_read_id *read_id)
{
    struct snow_call call = {.read_id = read_id};
    uint64_t before_ns = env_now_ns(worker->cli->env);
    uint32_t right = 0;
    bool whole = true;

    for (uint32_t i = 0; i < count; i++)
        worker->gets[i] = (struct snow_get){.key = key_at(worker, i),
                                            .to = worker->bytes + i * worker->block_size,
                                            .room = worker->block_size};
    snow_get(worker->client, worker->gets, count, &call);
    note(&worker->get, env_now_ns(worker->cli->env) - before_ns);
    for (uint32_t i = 0; i < count; i++) {
        const struct snow_get *get = &worker->gets[i];

        if (get->status == SNOW_OK) {
            uint64_t wrong = get->size == worker->block_size
                                 ? trace_block_differs(blocks[i], get->to, get->size)
                                 : worker->block_size;

            worker->counters.wrong_bytes += wrong;
            worker->counters.get_bytes += get->size;
            whole = whole && wrong == 0;
        } else {
            /* Evicted between look-up and read: a miss.  Anything else is a failure. */
            worker->counters.failed_gets += get->status != SNOW_NOT_FOUND;
            whole = false;
        }
        right += whole;
    }
    return right;
}

static void put_rest(struct worker *worker, const uint64_t *blocks, uint32_t from, uint32_t count,
                     snow_read_id read_id)
{
    struct snow_call call = {.continues = read_id};
    uint64_t before_ns;

    for (uint32_t i = from; i < count; i++) {
        uint8_t *bytes = worker->bytes + i * worker->block_size;

        trace_block_fill(blocks[i], bytes, worker->block_size);
        worker->puts[i] = (struct snow_put){
            .key = key_at(worker, i), .from = bytes, .size = worker->block_size, .depth = i};
    }
    before_ns = env_now_ns(worker->cli->env);
    snow_put(worker->client, worker->puts + from, count - from, &call);
    note(&worker->put, env_now_ns(worker->cli->env) - before_ns);
    for (uint32_t i = from; i < count; i++) {
        enum snow_status status = worker->puts[i].status;

        worker->counters.put_bytes += status == SNOW_OK ? worker->block_size : 0;
        if (snow_status_verdict(status) == SNOW_DONE)
            continue;
        if (worker->counters.failed_puts++ == 0)
            cli_error(worker->cli, "put of %s: %s", worker->keys[i], snow_status_name(status));
    }
}

static void play(struct worker *worker, const struct trace_request *request)
{
    const uint64_t *blocks = worker->trace.blocks + request->first;
    snow_read_id read_id = 0;
    uint32_t hits;

    for (uint32_t i = 0; i < request->count; i++)
        snprintf(worker->keys[i], KEY_ROOM, "block-%016" PRIx64, blocks[i]);
    hits = look_up(worker, request->count);
    if (hits > 0)
        hits = read_prefix(worker, blocks, hits, &read_id);
    if (hits < request->count)
        put_rest(worker, blocks, hits, request->count, read_id);
    worker->counters.requests++;
    worker->counters.blocks += request->count;
    worker->counters.hit_blocks += hits;
}

/* ---- the part of the trace ---- */

/* What the parent knows. */
struct told {
    uint64_t requests;
    uint64_t blocks;
    uint64_t hit_blocks;
    uint64_t gets; /* latencies */
    uint64_t puts;
};

static void wait_until_due(struct worker *worker, const struct trace_request *request)
{
    uint64_t due_ns =
        worker->started_ns + (uint64_t)((double)request->at_ms * worker->pace * (double)NS_PER_MS);
    uint64_t now_ns;

    while (worker->pace > 0 && (now_ns = env_now_ns(worker->cli->env)) < due_ns)
        env_loop_turn(worker->pacing, due_ns - now_ns, 0);
}

static int by_time(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

/* Of what was noted from `from` on; 0: nothing was. */
static uint32_t median_us(const struct latencies *latencies, uint64_t from)
{
    uint32_t us[TELL_EVERY];
    uint64_t count = latencies->count - from;

    if (count == 0 || count > TELL_EVERY)
        return 0;
    memcpy(us, latencies->us + from, count * sizeof(us[0]));
    qsort(us, count, sizeof(us[0]), by_time);
    return us[count / 2];
}

/* What was done since the last time, for the bar and the plot. */
static void tell(const struct worker *worker, struct told *told)
{
    printf("{\"done\": %" PRIu64 ", \"blocks\": %" PRIu64 ", \"hit_blocks\": %" PRIu64
           ", \"get_us\": %u, \"put_us\": %u}\n",
           worker->counters.requests, worker->counters.blocks - told->blocks,
           worker->counters.hit_blocks - told->hit_blocks, median_us(&worker->get, told->gets),
           median_us(&worker->put, told->puts));
    fflush(stdout);
    *told = (struct told){.requests = worker->counters.requests,
                          .blocks = worker->counters.blocks,
                          .hit_blocks = worker->counters.hit_blocks,
                          .gets = worker->get.count,
                          .puts = worker->put.count};
}

static void play_part(struct worker *worker)
{
    uint64_t step = worker->cli->replay.clients;
    uint64_t first = worker->cli->replay.worker - 1;
    struct told told = {0};

    worker->started_ns = env_now_ns(worker->cli->env);
    for (uint64_t i = first; i < worker->trace.request_count; i += step) {
        wait_until_due(worker, &worker->trace.requests[i]);
        play(worker, &worker->trace.requests[i]);
        if (worker->counters.requests - told.requests >= TELL_EVERY)
            tell(worker, &told);
    }
    if (worker->counters.requests > told.requests)
        tell(worker, &told);
}

static json_t *json_of(const struct latencies *latencies)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < latencies->count; i++)
        json_array_append_new(list, json_integer(latencies->us[i]));
    return list;
}

static void print_result(const struct worker *worker)
{
    json_t *result = json_object();
    char *text;

#define ROW(name) \
    json_object_set_new(result, #name, json_integer((json_int_t)worker->counters.name));
    REPLAY_COUNTERS(ROW)
#undef ROW
    json_object_set_new(result, "put_us", json_of(&worker->put));
    json_object_set_new(result, "get_us", json_of(&worker->get));
    text = json_dumps(result, JSON_COMPACT);
    if (text != NULL)
        puts(text);
    fflush(stdout);
    free(text);
    json_decref(result);
}

static bool make_room(struct worker *worker)
{
    uint32_t longest = 0;

    for (uint64_t i = 0; i < worker->trace.request_count; i++) {
        if (worker->trace.requests[i].count > longest)
            longest = worker->trace.requests[i].count;
    }
    worker->keys = calloc(longest, sizeof(*worker->keys));
    worker->stats = calloc(longest, sizeof(*worker->stats));
    worker->gets = calloc(longest, sizeof(*worker->gets));
    worker->puts = calloc(longest, sizeof(*worker->puts));
    worker->bytes = calloc(longest, worker->block_size);
    worker->put.us = calloc(worker->trace.request_count, sizeof(uint32_t));
    worker->get.us = calloc(worker->trace.request_count, sizeof(uint32_t));
    return worker->keys != NULL && worker->stats != NULL && worker->gets != NULL &&
           worker->puts != NULL && worker->bytes != NULL && worker->put.us != NULL &&
           worker->get.us != NULL;
}

static void free_room(struct worker *worker)
{
    free(worker->keys);
    free(worker->stats);
    free(worker->gets);
    free(worker->puts);
    free(worker->bytes);
    free(worker->put.us);
    free(worker->get.us);
    trace_free(&worker->trace);
}

int replay_worker(struct cli *cli)
{
    struct worker worker = {.cli = cli, .block_size = cli->replay.block_bytes_bytes};
    int result = CLI_FAILED;

    if (strcmp(cli->replay.pace, "max") != 0)
        worker.pace = strtod(cli->replay.pace, NULL);
    if (!replay_trace_read(cli, &worker.trace))
        return CLI_FAILED;
    if (!make_room(&worker) || env_loop_create(cli->env, "pacing", &worker.pacing) != SNOW_OK)
        cli_error(cli, "out of memory");
    else
        result = cli_client_open(cli, &worker.client);
    if (result == CLI_DONE) {
        play_part(&worker);
        print_result(&worker);
        snow_close(worker.client);
    }
    if (worker.pacing != NULL)
        env_loop_destroy(worker.pacing);
    free_room(&worker);
    return result;
}
