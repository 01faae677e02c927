/* What bench_client.c and bench_calls.c share: the operation as applications call it. */
#ifndef CLI_BENCH_CLIENT_H
#define CLI_BENCH_CLIENT_H

#include "cli/bench.h"

struct client_thread;

/* A call: its items, and when it is driven by events, the operation. */
struct client_call {
    struct client_thread *thread;
    struct snow_put *puts;
    struct snow_get *gets;
    struct snow_stat *stats;
    struct snow_view *views;
    uint8_t *memory; /* of its objects */
    uint64_t began_ns;
    struct client_put_op put;
    struct client_get_op get;
    struct client_exists_op exists;
};

struct client_thread {
    struct client_side *side;
    struct client_call calls[BENCH_DEPTH_MAX];
    uint8_t *memory;
    uint64_t first_batch; /* of the keys that this thread puts */
    uint64_t batches;
    uint64_t next; /* of them */
    /* Driven by events: a client of its own. */
    struct env_loop *loop;
    struct client *client;
    uint32_t idle; /* calls that do not go on in this window */
    /* Of one window. */
    struct bench_samples *samples; /* NULL: of another thread */
    uint64_t window_ns;
    uint64_t end_ns;
    uint64_t calls_max; /* in this window */
    uint64_t call_count;
    uint64_t elapsed_ns;
    enum snow_status status; /* the first that was not as it should be */
};

struct client_side {
    struct bench *bench;
    struct bench_row row;
    struct snow_client *client;
    uint8_t *keys;
    uint64_t batches; /* of keys */
    uint64_t loaded;  /* objects put for gets */
    uint64_t wire_bytes;
    struct client_thread threads[BENCH_THREADS_MAX];
};

/* ---- bench_calls.c ---- */

/* Calls until the window is over.  For bench_threads_run. */
void bench_calls_blocking(void *thread);
void bench_calls_events(void *thread);
/* Removes the first `count` batches of what the thread has put. */
enum snow_status bench_calls_remove(struct client_side *side, uint64_t first_batch, uint64_t count);
/* Opens and closes what bench_calls_events needs. */
enum snow_status bench_calls_connect(struct client_thread *thread);
void bench_calls_disconnect(struct client_thread *thread);
/* Bytes that its connections have carried, both ways. */
uint64_t bench_calls_traffic(const struct client_thread *thread);

#endif
