/* The master's table alone, in this process, driven by messages as the master's loop drives it: no
 * network.  One node is played by answering; its memory does not exist. */
#ifndef CLI_BENCH_TABLE_H
#define CLI_BENCH_TABLE_H

#include "cli/bench.h"
#include "core/core.h"

#define BENCH_OBJECT_SIZE 4096u

struct bench_table {
    struct core *core;
    uint32_t key_size;
    uint64_t session;
    uint64_t node;
    uint64_t token;
    uint64_t now_ns;
    uint64_t forgotten; /* extents that the node was told to forget */
    /* Of the step: */
    struct core_outputs outputs;
    struct arena arena; /* answers of the node */
    struct list answers;
    struct wire_written *written; /* of the put under way: its grants */
    const struct wire_put_item *items;
    uint32_t granted;
};

/* bytes: of the node's segment; slots: extents it can hold.  False: no memory. */
bool bench_table_open(struct bench_table *table, uint32_t key_size, uint64_t bytes, uint32_t slots);
void bench_table_close(struct bench_table *table);

/* One message of the session; what comes of it is carried out.  LIMIT_BATCH_ITEMS at most. */
void bench_table_step(struct bench_table *table, uint16_t type, const void *message);
/* Puts `count` new objects, of the numbers from first on.  False: the core refused one, or there is
 * no memory. */
bool bench_table_put(struct bench_table *table, uint64_t first, uint32_t count);

#endif
