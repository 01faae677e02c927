/* Replay: a request trace against a simulated cluster, on virtual time.
 *
 * Problem.  What is evicted must not depend on how fast the same requests come.
 * Idea.     One client does what an engine does for each request, at its time stamp times a factor,
 *           or when the one before has ended: look up, read the prefix, put the rest.  One node
 *           holds exactly so many blocks, beside a reserve.  The keys that the master evicts are
 *           hashed in their order.
 * Threads.  One.   Private to sim/. */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#include "trace/trace.h"

#include <stdbool.h>

struct replay_plan {
    const struct trace *trace;
    uint64_t pool_blocks;
    uint32_t block_bytes;
    uint32_t policy; /* enum core_policy */
    double pace;     /* factor on the time stamps */
    uint64_t seed;   /* of the world */
};

struct replay_result {
    char finding[160]; /* "": none */
    uint64_t requests; /* that were played */
    uint64_t blocks;
    uint64_t hit_blocks;
    uint64_t evicted;      /* objects */
    uint64_t evicted_hash; /* over their keys, in order */
    uint64_t took_ns;      /* of virtual time */
    uint64_t events;
};

/* From the start of the cluster to its end.  on_line: the transcript of a run that found something;
 * may be NULL. */
struct replay_result replay_run(const struct replay_plan *plan,
                                void (*on_line)(void *owner, const char *line), void *owner);

#endif
