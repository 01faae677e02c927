/* Streams of limit programs: places whose bytes go out, and places that bytes come into, in order.
 *
 * Idea.  A limit program knows what comes next, so bytes are received straight into their place and
 *        sent from it, as many places in a system call as there are.
 * Threads.  One a stream. */
#ifndef CLI_BENCH_STREAM_H
#define CLI_BENCH_STREAM_H

#include "cli/bench_shape.h"

/* A ring of places. */
struct bench_queue {
    struct iovec *parts;
    size_t room; /* a power of two */
    size_t first;
    size_t count;
    uint64_t bytes;
};

struct bench_stream {
    int descriptor;
    struct bench_queue out;
    struct bench_queue in;
    bool blocked; /* the kernel took less than given */
};

/* False: no memory. */
bool bench_stream_push(struct bench_queue *queue, const void *at, uint64_t size);
/* Bytes; 0: none now; -1: the end. */
ssize_t bench_stream_send(struct bench_stream *stream);
ssize_t bench_stream_receive(struct bench_stream *stream, bool wait);
void bench_stream_close(struct bench_stream *stream);

/* What a limit program says first on each connection: what will be asked there. */
#define BENCH_SCRIPT_MAGIC 0x68636e65u

struct bench_script {
    uint32_t magic;
    uint32_t connections; /* that the peer is to accept before it serves */
    /* Requests bring payload, and come in the order of exchanges, again and again.  Else the first
     * four bytes of each say which one it is. */
    uint32_t is_direct;
    uint32_t exchange_count;
    struct bench_exchange exchanges[BENCH_EXCHANGES_MAX];
};

#endif
