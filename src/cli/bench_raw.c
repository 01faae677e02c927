/* The limit program of operations over TCP: the same exchanges, of the same bytes in the same
 * order, over sockets with the same options, with a raw "master" and raw "nodes" that are processes
 * of their own.  What it does not do is what a store costs: it keeps no table, checks no sum,
 * decodes nothing and can not fail in part.
 *
 *   an operation: ask the master ─► all messages to all nodes at once ─► (put) tell the master
 *
 * Each thread has connections of its own, so it needs no lock. */
#include "cli/bench_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS_MAX (1 + BENCH_NODES_MAX * TRANSPORT_LANES_MAX)

/* A call under way. */
struct raw_op {
    uint32_t stage; /* 0: master; 1: nodes; 2: master; 3: ended */
    uint32_t left;  /* exchanges of the stage that are not answered */
    uint64_t began_ns;
    uint8_t *memory; /* of its objects */
};

/* An answer that is awaited. */
struct awaited {
    struct raw_op *op;
    uint64_t left; /* bytes */
};

struct raw_stream {
    struct bench_stream stream;
    struct awaited *awaited; /* a ring */
    uint32_t room;           /* a power of two */
    uint32_t first;
    uint32_t count;
};

struct raw_thread {
    struct raw_side *side;
    struct raw_stream streams[STREAMS_MAX]; /* master, then the lanes of each node */
    struct raw_op ops[BENCH_DEPTH_MAX];
    uint8_t *memory;
    uint8_t *sink;                           /* heads of answers */
    uint8_t *heads[2 + BENCH_EXCHANGES_MAX]; /* of requests */
    uint64_t window_ns;
    struct bench_samples *samples; /* NULL: of another thread */
    uint64_t calls;
    uint64_t elapsed_ns;
    uint64_t end_ns;
    bool failed;
};

struct raw_side {
    struct bench *bench;
    struct bench_row row;
    struct env_socket_options socket; /* as the client's connections have */
    struct bench_shape shape;
    struct env_child peers[1 + BENCH_NODES_MAX];
    char addresses[1 + BENCH_NODES_MAX][LIMIT_NAME_SIZE];
    struct raw_thread threads[BENCH_THREADS_MAX];
};

/* ---- one call ------------------------------------------------------------------------------- */

static bool await_answer(struct raw_stream *stream, struct raw_op *op, uint64_t bytes)
{
    if (stream->count == stream->room)
        return false; /* sized for all that can be under way */
    stream->awaited[(stream->first + stream->count++) & (stream->room - 1)] =
        (struct awaited){.op = op, .left = bytes};
    return true;
}

static bool push(struct raw_thread *thread, struct raw_stream *stream, struct raw_op *op,
                 const uint8_t *head, const struct bench_exchange *exchange, uint8_t *memory)
{
    struct bench_queue *out = &stream->stream.out;
    struct bench_queue *in = &stream->stream.in;
    bool good = bench_stream_push(out, head, exchange->ask_size) &&
                bench_stream_push(in, thread->sink, exchange->answer_size);

    for (uint32_t i = 0; i < exchange->ask_pieces && good; i++)
        good = bench_stream_push(out, memory + i * exchange->piece_size, exchange->piece_size);
    for (uint32_t i = 0; i < exchange->answer_pieces && good; i++)
        good = bench_stream_push(in, memory + i * exchange->piece_size, exchange->piece_size);
    return good && await_answer(stream, op, bench_answer_bytes(exchange));
}

static bool send_data(struct raw_thread *thread, struct raw_op *op)
{
    const struct bench_shape *shape = &thread->side->shape;
    bool good = true;

    for (uint32_t node = 0; node < shape->node_count && good; node++) {
        uint8_t *memory = op->memory;

        for (uint32_t i = 0; i < shape->data_count && good; i++) {
            const struct bench_exchange *exchange = &shape->data[i];
            uint32_t stream = 1 + node * shape->lanes + exchange->lane;

            good =
                push(thread, &thread->streams[stream], op, thread->heads[2 + i], exchange, memory);
            memory += (exchange->ask_pieces + exchange->answer_pieces) * exchange->piece_size;
        }
    }
    op->left = shape->node_count * shape->data_count;
    return good;
}

/* Starts its stage, or the next one that has something to do. */
static bool begin_stage(struct raw_thread *thread, struct raw_op *op)
{
    const struct bench_shape *shape = &thread->side->shape;

    if (op->stage == 1 && shape->data_count == 0)
        op->stage++;
    if (op->stage == 1)
        return send_data(thread, op);
    uint32_t which = op->stage == 0 ? 0 : 1;

    if (op->stage == 3 || which >= shape->master_count) {
        op->stage = 3;
        return true;
    }
    op->left = 1;
    return push(thread, &thread->streams[0], op, thread->heads[which], &shape->master[which], NULL);
}

static bool begin_call(struct raw_thread *thread, struct raw_op *op, uint64_t now_ns)
{
    op->stage = 0;
    op->began_ns = now_ns;
    return begin_stage(thread, op);
}

/* A stage is over. */
static bool go_on(struct raw_thread *thread, struct raw_op *op)
{
    uint64_t now_ns;

    op->stage++;
    if (!begin_stage(thread, op))
        return false;
    if (op->stage < 3)
        return true;
    now_ns = env_now_ns(thread->side->bench->cli->env);
    if (thread->samples != NULL)
        bench_sample(thread->samples, now_ns - op->began_ns);
    thread->calls++;
    if (now_ns < thread->end_ns)
        return begin_call(thread, op, now_ns);
    return true;
}

/* ---- moving --------------------------------------------------------------------------------- */

static bool take(struct raw_thread *thread, struct raw_stream *stream, uint64_t got)
{
    while (got > 0) {
        struct awaited *awaited = &stream->awaited[stream->first];
        uint64_t part = got < awaited->left ? got : awaited->left;

        awaited->left -= part;
        got -= part;
        if (awaited->left > 0)
            return true;
        struct raw_op *op = awaited->op;

        stream->first = (stream->first + 1) & (stream->room - 1);
        stream->count--;
        if (--op->left == 0 && !go_on(thread, op))
            return false;
    }
    return true;
}

static bool receive(struct raw_thread *thread, struct raw_stream *stream, bool wait)
{
    ssize_t got = bench_stream_receive(&stream->stream, wait);

    return got >= 0 && take(thread, stream, (uint64_t)got);
}

static bool send_all(struct raw_thread *thread, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct bench_stream *stream = &thread->streams[i].stream;

        while (stream->out.count > 0 && !stream->blocked) {
            if (bench_stream_send(stream) < 0)
                return false;
        }
    }
    return true;
}

/* Waits for what can be done, and does it; *more false: nothing is under way. */
static bool move(struct raw_thread *thread, uint32_t count, bool *more)
{
    struct env_raw_want wants[STREAMS_MAX];
    uint32_t which[STREAMS_MAX];
    uint32_t waiting = 0;

    if (!send_all(thread, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct raw_stream *stream = &thread->streams[i];

        if (stream->count == 0 && !stream->stream.blocked)
            continue;
        which[waiting] = i;
        wants[waiting++] = (struct env_raw_want){.descriptor = stream->stream.descriptor,
                                                 .receive = stream->count > 0,
                                                 .send = stream->stream.blocked};
    }
    *more = waiting > 0;
    if (waiting == 1 && !wants[0].send) /* the cheapest wait is the receive itself */
        return receive(thread, &thread->streams[which[0]], true);
    if (waiting == 0)
        return true;
    if (!env_raw_wait(wants, waiting))
        return false;
    for (uint32_t i = 0; i < waiting; i++) {
        struct raw_stream *stream = &thread->streams[which[i]];

        if (wants[i].send)
            stream->stream.blocked = false;
        if (wants[i].receive && !receive(thread, stream, false))
            return false;
    }
    return true;
}

static void work(void *argument)
{
    struct raw_thread *thread = argument;
    const struct raw_side *side = thread->side;
    struct env *env = side->bench->cli->env;
    uint32_t count = 1 + side->shape.node_count * side->shape.lanes;
    uint64_t from_ns = env_now_ns(env);
    bool more = true;

    thread->calls = 0;
    thread->end_ns = from_ns + thread->window_ns;
    thread->failed = false;
    for (uint32_t i = 0; i < side->row.depth && !thread->failed; i++)
        thread->failed = !begin_call(thread, &thread->ops[i], env_now_ns(env));
    while (more && !thread->failed)
        thread->failed = !move(thread, count, &more);
    thread->elapsed_ns = env_now_ns(env) - from_ns;
}

/* ---- opening -------------------------------------------------------------------------------- */

void bench_client_options(const struct cli *cli, struct client_options *options)
{
    const struct cli_options *given = &cli->options;

    client_options_init(options);
    options->transport.lanes = (uint32_t)given->connections;
    options->socket = (struct env_socket_options){
        .congestion = given->congestion[0] == 0 ? NULL : given->congestion,
        .send_buffer = (uint32_t)given->send_buffer_bytes,
        .receive_buffer = (uint32_t)given->receive_buffer_bytes,
        .user_timeout_ms = (uint32_t)(given->user_timeout_ns / NS_PER_MS),
        .keepalive = true};
}

/* Bytes that a raw node keeps payload in. */
static uint64_t region_bytes(const struct bench_row *row)
{
    uint64_t bytes = 256 * MIB;

    return bytes < row->size * row->batch * 2 ? row->size * row->batch * 2 : bytes;
}

static bool start_peers(struct raw_side *side)
{
    uint32_t count = 1 + (side->shape.data_count > 0 ? side->shape.node_count : 0);
    char bytes[32];
    char *argv[16] = {(char *)"snowskin", (char *)"bench", (char *)"--peer", bytes};
    struct bench_flags flags;

    bench_flags_add(side->bench, &flags, argv, 4);

    for (uint32_t i = 0; i < count; i++) {
        snprintf(bytes, sizeof(bytes), "%" PRIu64, i == 0 ? 2 * MIB : region_bytes(&side->row));
        if (!bench_child_start(side->bench, argv, "peer", &side->peers[i], side->addresses[i],
                               sizeof(side->addresses[i])))
            return false;
    }
    return true;
}

/* What stream `index` of a thread says first; its exchanges in order. */
static void make_script(const struct raw_side *side, uint32_t index, struct bench_script *script)
{
    const struct bench_shape *shape = &side->shape;

    *script = (struct bench_script){.magic = BENCH_SCRIPT_MAGIC,
                                    .connections = side->row.threads,
                                    .is_direct = index > 0 && side->row.op == BENCH_PUT};
    if (index == 0) {
        memcpy(script->exchanges, shape->master, sizeof(shape->master));
        script->exchange_count = shape->master_count;
        return;
    }
    script->connections *= shape->lanes;
    for (uint32_t i = 0; i < shape->data_count; i++) {
        if (shape->data[i].lane == (index - 1) % shape->lanes)
            script->exchanges[script->exchange_count++] = shape->data[i];
    }
    if (script->exchange_count == 0) /* a lane that carries nothing */
        script->exchanges[script->exchange_count++] = (struct bench_exchange){.ask_size = 64};
}

static bool open_stream(struct raw_thread *thread, uint32_t index)
{
    const struct raw_side *side = thread->side;
    uint32_t peer = index == 0 ? 0 : 1 + (index - 1) / side->shape.lanes;
    struct raw_stream *stream = &thread->streams[index];
    struct bench_script *script = malloc(sizeof(*script));
    bool good = script != NULL;

    stream->room = 1;
    while (stream->room < side->row.depth * (side->shape.data_count + 2))
        stream->room *= 2;
    stream->awaited = calloc(stream->room, sizeof(*stream->awaited));
    stream->stream.descriptor = env_raw_dial(side->addresses[peer], &side->socket);
    good = good && stream->awaited != NULL && stream->stream.descriptor >= 0;
    if (good) {
        make_script(side, index, script);
        good = bench_stream_push(&stream->stream.out, script, sizeof(*script));
    }
    while (good && stream->stream.out.count > 0)
        good = bench_stream_send(&stream->stream) >= 0;
    stream->stream.blocked = false;
    free(script);
    return good;
}

/* A head for each exchange: its number among those of its connection, then zeroes. */
static bool make_heads(struct raw_thread *thread)
{
    const struct bench_shape *shape = &thread->side->shape;
    uint32_t of_lane[TRANSPORT_LANES_MAX] = {0};

    for (uint32_t i = 0; i < shape->master_count + shape->data_count; i++) {
        bool to_master = i < shape->master_count;
        uint32_t index = to_master ? i : 2 + i - shape->master_count;
        const struct bench_exchange *exchange =
            to_master ? &shape->master[i] : &shape->data[i - shape->master_count];
        uint32_t which = to_master ? i : of_lane[exchange->lane]++;

        thread->heads[index] = calloc(1, exchange->ask_size);
        if (thread->heads[index] == NULL)
            return false;
        memcpy(thread->heads[index], &which, sizeof(which));
    }
    return true;
}

static bool open_thread(struct raw_side *side, struct raw_thread *thread)
{
    uint64_t size = side->row.size * side->row.batch;
    uint32_t lanes = side->shape.data_count == 0 ? 0 : side->shape.node_count * side->shape.lanes;

    thread->sink = calloc(1, LIMIT_BODY_SIZE);
    thread->memory = malloc(size * side->row.depth + 1);
    if (thread->sink == NULL || thread->memory == NULL || !make_heads(thread))
        return false;
    memset(thread->memory, 1, size * side->row.depth + 1);
    for (uint32_t i = 0; i < side->row.depth; i++)
        thread->ops[i].memory = thread->memory + i * size;
    for (uint32_t i = 0; i < 1 + lanes; i++) {
        if (!open_stream(thread, i))
            return false;
    }
    return true;
}

static void raw_close(void *pointer)
{
    struct raw_side *side = pointer;

    for (uint32_t t = 0; t < side->row.threads; t++) {
        struct raw_thread *thread = &side->threads[t];

        for (uint32_t i = 0; i < STREAMS_MAX; i++) {
            bench_stream_close(&thread->streams[i].stream);
            free(thread->streams[i].awaited);
        }
        for (uint32_t i = 0; i < 2 + BENCH_EXCHANGES_MAX; i++)
            free(thread->heads[i]);
        free(thread->memory);
        free(thread->sink);
    }
    for (uint32_t i = 0; i < 1 + BENCH_NODES_MAX; i++)
        bench_child_stop(&side->peers[i]);
    free(side);
}

static void *raw_open(struct bench *bench, const struct bench_row *row)
{
    struct raw_side *side = calloc(1, sizeof(*side));
    struct client_options options;
    bool good;

    if (side == NULL) {
        cli_error(bench->cli, "out of memory");
        return NULL;
    }
    bench_client_options(bench->cli, &options);
    side->bench = bench;
    side->row = *row;
    side->socket = options.socket;
    for (uint32_t t = 0; t < row->threads; t++) {
        side->threads[t].side = side;
        for (uint32_t i = 0; i < STREAMS_MAX; i++)
            side->threads[t].streams[i].stream.descriptor = -1;
    }
    good = bench_shape_make(bench, row, &options.transport, &side->shape) && start_peers(side);
    for (uint32_t t = 0; t < row->threads && good; t++) {
        good = open_thread(side, &side->threads[t]);
        if (!good)
            cli_error(bench->cli, "the limit program can not connect to its peers");
    }
    if (good)
        return side;
    raw_close(side);
    return NULL;
}

static uint64_t peers_cpu_ns(const struct raw_side *side)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < 1 + BENCH_NODES_MAX; i++)
        ns += side->peers[i].pid == 0 ? 0 : env_child_cpu_ns(&side->peers[i]);
    return ns;
}

static bool raw_run(void *pointer, uint64_t window_ns, struct bench_round *round,
                    struct bench_samples *samples)
{
    struct raw_side *side = pointer;
    uint64_t before_ns = env_cpu_ns() + peers_cpu_ns(side);

    for (uint32_t i = 0; i < side->row.threads; i++) {
        side->threads[i].window_ns = window_ns;
        side->threads[i].samples = i == 0 ? samples : NULL;
    }
    if (!bench_threads_run(side->bench, side->row.threads, work, side->threads,
                           sizeof(side->threads[0])))
        return false;
    *round = (struct bench_round){.wire_bytes = bench_shape_bytes(&side->shape),
                                  .cpu_ns = env_cpu_ns() + peers_cpu_ns(side) - before_ns};
    for (uint32_t i = 0; i < side->row.threads; i++) {
        if (side->threads[i].failed) {
            cli_error(side->bench->cli, "the limit program lost a connection to its peers");
            return false;
        }
        round->items += side->threads[i].calls * side->row.batch;
        round->elapsed_ns += side->threads[i].elapsed_ns / side->row.threads;
    }
    return true;
}

const struct bench_side_ops bench_raw = {
    .name = "raw tcp", .open = raw_open, .run = raw_run, .close = raw_close};
