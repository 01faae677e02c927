/* Shapes: how many bytes an operation sends and receives, in which messages, on which connections.
 *
 * Idea.  Sizes come from encoding the messages that the operation encodes; the messages to nodes
 *        from the transport's own cutting.  So a limit program can not say less than the real one.
 * Threads.  Pure. */
#ifndef CLI_BENCH_SHAPE_H
#define CLI_BENCH_SHAPE_H

#include "cli/bench.h"

#define BENCH_EXCHANGES_MAX 512u

/* A message and its answer.  Pieces of payload follow one of them. */
struct bench_exchange {
    uint32_t ask_size; /* bytes of header and body */
    uint32_t ask_pieces;
    uint32_t answer_size; /* 0: no answer */
    uint32_t answer_pieces;
    uint64_t piece_size; /* bytes */
    uint32_t lane;       /* of an exchange with a node */
};

struct bench_shape {
    uint32_t lanes; /* connections to each node */
    uint32_t node_count;
    struct bench_exchange master[2]; /* before the bytes; after them */
    uint32_t master_count;
    struct bench_exchange data[BENCH_EXCHANGES_MAX]; /* with each node, on all lanes together */
    uint32_t data_count;
};

/* False: the row has more exchanges than fit, or no memory; told. */
bool bench_shape_make(struct bench *bench, const struct bench_row *row,
                      const struct transport_options *options, struct bench_shape *shape);
/* Bytes of one operation, both ways. */
uint64_t bench_shape_bytes(const struct bench_shape *shape);

static inline uint64_t bench_ask_bytes(const struct bench_exchange *exchange)
{
    return exchange->ask_size + exchange->ask_pieces * exchange->piece_size;
}

static inline uint64_t bench_answer_bytes(const struct bench_exchange *exchange)
{
    return exchange->answer_size + exchange->answer_pieces * exchange->piece_size;
}

#endif
