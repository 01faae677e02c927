/* Calls of one thread of a row: blocking, one after the other; or driven by events, several under
 * way. */
#include "cli/bench_client.h"

#include <stdlib.h>
#include <string.h>

#define REMOVE_BATCH 1024u

/* ---- items ---------------------------------------------------------------------------------- */

static struct snow_key key_at(const struct client_side *side, uint64_t batch, uint32_t index)
{
    uint64_t number = batch * side->row.batch + index;

    return (struct snow_key){.at = side->keys + number * BENCH_KEY_SIZE, .size = BENCH_KEY_SIZE};
}

static bool has_batch(const struct client_thread *thread)
{
    return thread->side->row.op != BENCH_PUT || thread->next < thread->batches;
}

static void fill(struct client_call *call)
{
    struct client_thread *thread = call->thread;
    const struct client_side *side = thread->side;
    const struct bench_row *row = &side->row;
    uint64_t batch = thread->first_batch + thread->next++ % thread->batches;

    for (uint32_t i = 0; i < row->batch; i++) {
        struct snow_key key = key_at(side, batch, i);
        uint8_t *at = call->memory + i * row->size;

        if (row->op == BENCH_PUT)
            call->puts[i] = (struct snow_put){.key = key,
                                              .from = at,
                                              .size = row->size,
                                              .depth = i,
                                              .replicas = (uint8_t)row->replicas};
        else if (row->op == BENCH_VIEW)
            call->views[i] = (struct snow_view){.key = key};
        else if (row->op == BENCH_GET)
            call->gets[i] = (struct snow_get){.key = key, .to = at, .room = row->size};
        else
            call->stats[i] = (struct snow_stat){.key = key};
    }
}

/* The first status that is not as it should be. */
static enum snow_status check(const struct client_call *call)
{
    const struct bench_row *row = &call->thread->side->row;

    for (uint32_t i = 0; i < row->batch; i++) {
        enum snow_status status = row->op == BENCH_PUT    ? call->puts[i].status
                                  : row->op == BENCH_GET  ? call->gets[i].status
                                  : row->op == BENCH_VIEW ? call->views[i].status
                                                          : call->stats[i].status;

        if (status != SNOW_OK)
            return status;
        if (row->op == BENCH_GET && call->gets[i].size != row->size)
            return SNOW_CORRUPT;
        if (row->op == BENCH_VIEW && (call->views[i].size != row->size || call->views[i].copied))
            return SNOW_CORRUPT;
    }
    return SNOW_OK;
}

static void count_call(struct client_call *call, uint64_t now_ns)
{
    struct client_thread *thread = call->thread;
    enum snow_status status = check(call);

    if (thread->status == SNOW_OK)
        thread->status = status;
    thread->call_count++;
    if (thread->samples != NULL)
        bench_sample(thread->samples, now_ns - call->began_ns);
}

static bool goes_on(const struct client_thread *thread, uint64_t now_ns)
{
    return now_ns < thread->end_ns && thread->call_count < thread->calls_max &&
           thread->status == SNOW_OK;
}

enum snow_status bench_calls_remove(struct client_side *side, uint64_t first_batch, uint64_t count)
{
    uint64_t keys = count * side->row.batch;
    struct snow_item *items = calloc(REMOVE_BATCH, sizeof(*items));
    enum snow_status status = items == NULL ? SNOW_NO_MEMORY : SNOW_OK;

    for (uint64_t at = 0; at < keys && status == SNOW_OK; at += REMOVE_BATCH) {
        uint64_t part = keys - at < REMOVE_BATCH ? keys - at : REMOVE_BATCH;

        for (uint64_t i = 0; i < part; i++)
            items[i] = (struct snow_item){.key = key_at(side, first_batch, (uint32_t)(at + i))};
        status = snow_remove(side->client, items, part, NULL);
        if (status == SNOW_NOT_FOUND)
            status = SNOW_OK;
    }
    free(items);
    return status;
}

/* All keys are put: they are removed to be put again, which does not count. */
static void start_over(struct client_thread *thread)
{
    struct env *env = thread->side->bench->cli->env;
    uint64_t from_ns = env_now_ns(env);
    enum snow_status status = bench_calls_remove(thread->side, thread->first_batch, thread->next);
    uint64_t took_ns = env_now_ns(env) - from_ns;

    thread->next = 0;
    thread->end_ns += took_ns;
    thread->elapsed_ns -= took_ns; /* the whole time comes on top */
    if (thread->status == SNOW_OK)
        thread->status = status;
}

/* ---- blocking ------------------------------------------------------------------------------- */

static void call_once(struct client_call *call)
{
    const struct client_side *side = call->thread->side;
    enum snow_status ignored; /* items have their own */

    switch (side->row.op) {
    case BENCH_PUT:
        ignored = snow_put(side->client, call->puts, side->row.batch, NULL);
        break;
    case BENCH_GET:
        ignored = snow_get(side->client, call->gets, side->row.batch, NULL);
        break;
    case BENCH_VIEW:
        ignored = snow_view(side->client, call->views, side->row.batch, NULL);
        break;
    default:
        ignored = snow_exists(side->client, call->stats, side->row.batch, NULL);
        break;
    }
    (void)ignored;
}

void bench_calls_blocking(void *argument)
{
    struct client_thread *thread = argument;
    struct client_call *call = &thread->calls[0];
    struct env *env = thread->side->bench->cli->env;
    uint64_t from_ns = env_now_ns(env);
    uint64_t now_ns = from_ns;

    thread->end_ns = from_ns + thread->window_ns;
    thread->call_count = 0;
    thread->elapsed_ns = 0;
    while (goes_on(thread, now_ns)) {
        if (!has_batch(thread))
            start_over(thread);
        fill(call);
        call->began_ns = env_now_ns(env);
        call_once(call);
        now_ns = env_now_ns(env);
        count_call(call, now_ns);
        if (thread->side->row.op == BENCH_VIEW)
            snow_view_end(call->views, thread->side->row.batch);
    }
    thread->elapsed_ns += now_ns - from_ns;
}

/* ---- driven by events ----------------------------------------------------------------------- */

static const struct snow_call no_call;

static void start(struct client_call *call)
{
    struct client_thread *thread = call->thread;

    fill(call);
    call->began_ns = env_now_ns(thread->side->bench->cli->env);
    switch (thread->side->row.op) {
    case BENCH_PUT:
        client_put_start(thread->client, &call->put, &no_call);
        break;
    case BENCH_GET:
        client_get_start(thread->client, &call->get, &no_call);
        break;
    default:
        client_exists_start(thread->client, &call->exists, &no_call);
        break;
    }
}

static void ended(struct client_call *call)
{
    struct client_thread *thread = call->thread;
    uint64_t now_ns = env_now_ns(thread->side->bench->cli->env);

    count_call(call, now_ns);
    if (goes_on(thread, now_ns) && has_batch(thread))
        start(call);
    else
        thread->idle++;
}

static void on_put(struct client_put_op *op)
{
    ended(list_entry(op, struct client_call, put));
}

static void on_get(struct client_get_op *op)
{
    ended(list_entry(op, struct client_call, get));
}

static void on_exists(struct client_exists_op *op)
{
    ended(list_entry(op, struct client_call, exists));
}

void bench_calls_events(void *argument)
{
    struct client_thread *thread = argument;
    struct env *env = thread->side->bench->cli->env;
    uint32_t depth = thread->side->row.depth;
    uint64_t from_ns = env_now_ns(env);

    thread->end_ns = from_ns + thread->window_ns;
    thread->call_count = 0;
    thread->elapsed_ns = 0;
    while (goes_on(thread, env_now_ns(env))) {
        if (!has_batch(thread))
            start_over(thread);
        thread->idle = 0;
        for (uint32_t i = 0; i < depth; i++) {
            if (has_batch(thread) && i < thread->calls_max)
                start(&thread->calls[i]);
            else
                thread->idle++;
        }
        while (thread->idle < depth)
            env_loop_turn(thread->loop, UINT64_MAX, 0);
    }
    thread->elapsed_ns += env_now_ns(env) - from_ns;
}

enum snow_status bench_calls_connect(struct client_thread *thread)
{
    struct bench *bench = thread->side->bench;
    uint64_t until_ns = env_now_ns(bench->cli->env) + bench->cli->options.deadline_ns;
    struct client_options options;
    enum snow_status status;
    const char *reason;

    bench_client_options(bench->cli, &options);
    options.master = bench->cluster.address;
    options.token = bytes_of_string(bench->cli->options.token);
    options.name = bytes_of_string("bench");
    options.way = (enum client_way)thread->side->row.transport;
    status = env_loop_create(bench->cli->env, "bench-client", &thread->loop);
    if (status == SNOW_OK)
        status = client_create(thread->loop, &options, &thread->client, &reason);
    while (status == SNOW_OK && client_link_status(thread->client, &reason) != SNOW_OK) {
        if (env_now_ns(bench->cli->env) >= until_ns)
            status = SNOW_UNREACHABLE;
        env_loop_turn(thread->loop, 10 * NS_PER_MS, 0);
    }
    for (uint32_t i = 0; i < thread->side->row.depth; i++) {
        struct client_call *call = &thread->calls[i];
        size_t count = thread->side->row.batch;

        call->put = (struct client_put_op){.on_done = on_put, .items = call->puts, .count = count};
        call->get = (struct client_get_op){.on_done = on_get, .items = call->gets, .count = count};
        call->exists =
            (struct client_exists_op){.on_done = on_exists, .items = call->stats, .count = count};
    }
    return status;
}

void bench_calls_disconnect(struct client_thread *thread)
{
    if (thread->client != NULL)
        client_destroy(thread->client);
    if (thread->loop != NULL)
        env_loop_destroy(thread->loop);
    thread->client = NULL;
    thread->loop = NULL;
}

uint64_t bench_calls_traffic(const struct client_thread *thread)
{
    const struct rpc *rpc = client_rpc(thread->client);
    uint64_t bytes = 0;
    const char *name;

    for (uint32_t i = 0; (name = rpc_counter_name(i)) != NULL; i++) {
        if (strcmp(name, "bytes_sent") == 0 || strcmp(name, "bytes_received") == 0)
            bytes += rpc_counters(rpc)[i];
    }
    return bytes;
}
