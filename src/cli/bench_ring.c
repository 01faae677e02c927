/* The limit of questions in shared memory: messages of the operation's sizes that go there and back
 * between two threads, each copied in and copied out. */
#include "cli/bench_shape.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_PER_LOOK 16u    /* at the clock */
#define SPINS_MAX 2000000000u /* seconds */
#define LINE_BYTES 128        /* two cache lines: what is fetched together */
#define RING_STOP UINT64_MAX

/* One way: a message at a time. */
struct ring_lane {
    _Alignas(LINE_BYTES) _Atomic uint64_t written; /* messages */
    size_t size;                                   /* bytes of each */
    uint8_t *shared;
    uint8_t *own; /* what the reader copies it to */
};

struct ring_side {
    struct bench *bench;
    uint32_t batch; /* items that one trip stands for */
    struct ring_lane there;
    struct ring_lane back;
    _Alignas(LINE_BYTES) uint64_t window_ns;
    struct bench_samples *samples;
    uint8_t *message; /* that is sent, both ways */
    uint64_t trips;
    uint64_t elapsed_ns;
};

struct ring_end {
    struct ring_side *side;
    bool answers;
};

static void lane_send(struct ring_lane *lane, const uint8_t *message, uint64_t number)
{
    memcpy(lane->shared, message, lane->size);
    atomic_store_explicit(&lane->written, number, memory_order_release);
}

/* The number of the next message, which is copied out; RING_STOP: there is none for seconds, or
 * there will not be. */
static uint64_t lane_receive(struct ring_lane *lane, uint64_t before)
{
    for (uint32_t i = 0; i < SPINS_MAX; i++) {
        uint64_t now = atomic_load_explicit(&lane->written, memory_order_acquire);

        if (now == before)
            continue;
        if (now != RING_STOP)
            memcpy(lane->own, lane->shared, lane->size);
        return now;
    }
    return RING_STOP;
}

static void ring_answer(struct ring_side *side)
{
    uint64_t seen = 0;

    while ((seen = lane_receive(&side->there, seen)) != RING_STOP)
        lane_send(&side->back, side->message, seen);
}

static void ring_ask(struct ring_side *side)
{
    struct env *env = side->bench->cli->env;
    uint64_t from_ns = env_now_ns(env);
    uint64_t now_ns = from_ns;
    uint64_t trips = 0;

    while (now_ns - from_ns < side->window_ns) {
        uint64_t began_ns = now_ns;

        for (uint32_t i = 0; i < CALLS_PER_LOOK; i++) {
            lane_send(&side->there, side->message, trips + 1);
            if (lane_receive(&side->back, trips) == RING_STOP)
                goto stop; /* the other thread never started */
            trips++;
        }
        now_ns = env_now_ns(env);
        bench_sample(side->samples, (now_ns - began_ns) / CALLS_PER_LOOK);
    }
stop:
    side->trips = trips;
    side->elapsed_ns = now_ns - from_ns;
    atomic_store_explicit(&side->there.written, RING_STOP, memory_order_release);
}

static void ring_work(void *argument)
{
    struct ring_end *end = argument;

    if (end->answers)
        ring_answer(end->side);
    else
        ring_ask(end->side);
}

static void ring_close(void *pointer)
{
    struct ring_side *side = pointer;

    free(side->there.shared);
    free(side->there.own);
    free(side->back.shared);
    free(side->back.own);
    free(side->message);
    free(side);
}

static bool lane_init(struct ring_lane *lane, uint64_t size)
{
    lane->size = size;
    lane->shared = aligned_alloc(LINE_BYTES, (size / LINE_BYTES + 1) * LINE_BYTES);
    lane->own = malloc(size + 1);
    return lane->shared != NULL && lane->own != NULL;
}

static void *ring_open(struct bench *bench, const struct bench_row *row)
{
    const struct transport_options none = {.lanes = 1};
    struct bench_shape *shape = malloc(sizeof(*shape));
    struct ring_side *side = aligned_alloc(LINE_BYTES, sizeof(*side));
    bool good = shape != NULL && side != NULL;

    if (side != NULL)
        memset(side, 0, sizeof(*side));
    if (!good) {
        cli_error(bench->cli, "out of memory");
    } else if (env_cpu_count() < 2) {
        cli_error(bench->cli, "rings: two threads that spin need two processors");
        good = false;
    } else {
        good = bench_shape_make(bench, row, &none, shape);
    }
    if (good) {
        uint64_t ask = bench_ask_bytes(&shape->master[0]);
        uint64_t answer = bench_answer_bytes(&shape->master[0]);

        side->bench = bench;
        side->batch = row->batch;
        side->message = calloc(1, ask > answer ? ask : answer);
        good =
            lane_init(&side->there, ask) && lane_init(&side->back, answer) && side->message != NULL;
    }
    free(shape);
    if (good)
        return side;
    if (side != NULL)
        ring_close(side);
    return NULL;
}

static bool ring_run(void *pointer, uint64_t window_ns, struct bench_round *round,
                     struct bench_samples *samples)
{
    struct ring_side *side = pointer;
    struct ring_end ends[2] = {{.side = side}, {.side = side, .answers = true}};

    side->window_ns = window_ns;
    side->samples = samples;
    atomic_store(&side->there.written, 0);
    atomic_store(&side->back.written, 0);
    if (!bench_threads_run(side->bench, 2, ring_work, ends, sizeof(ends[0])))
        return false;
    *round =
        (struct bench_round){.items = side->trips * side->batch, .elapsed_ns = side->elapsed_ns};
    return true;
}

const struct bench_side_ops bench_ring = {
    .name = "ring", .open = ring_open, .run = ring_run, .close = ring_close};
