/* Ghosts: what is remembered of units that were evicted, by key hash.
 *
 * Problem.  A unit that comes back after its eviction looks new, and its class looks as if it were
 *           never used again.
 * Idea.     A first-in-first-out ring with an index beside it; a unit that comes back is taken out
 *           and goes on with its count.
 * Invariants.
 *   H1  At most as many as the caller allows with each new one; the oldest go first, two at a time
 *       at most when it allows fewer.  One that was taken counts until its turn comes.
 *   H2  Out of memory, a unit is not remembered; nothing else depends on it.
 * Memory.   20 bytes each, and 8 at a load of 0.6 in the index.
 * Threads.  The core's own. */
#ifndef CORE_GHOSTS_H
#define CORE_GHOSTS_H

#include "base/pool.h"
#include "core/index.h"

#include <stdbool.h>
#include <stdint.h>

struct ghost {
    uint32_t hash_low;
    uint32_t hash_high;
    uint32_t next;       /* the next younger one, 0: none */
    uint32_t last_touch; /* core->touches at its last use */
    uint16_t class;      /* the policy's */
    uint8_t uses;
    bool taken; /* not in the index any more */
};

struct ghosts {
    struct pool pool; /* struct ghost */
    struct index *index;
    uint32_t oldest;
    uint32_t youngest;
};

MUST_CHECK enum snow_status ghosts_init(struct ghosts *ghosts, struct region *region);
void ghosts_deinit(struct ghosts *ghosts);
/* The ghost's class, uses and last_touch are the caller's; count_max: of all, this one included. */
void ghosts_add(struct ghosts *ghosts, uint64_t hash, const struct ghost *ghost,
                uint64_t count_max);
/* Takes out what is remembered under this hash; false: nothing is. */
bool ghosts_take(struct ghosts *ghosts, uint64_t hash, struct ghost *found);
uint32_t ghosts_count(const struct ghosts *ghosts);
uint64_t ghosts_memory(const struct ghosts *ghosts); /* bytes */
void ghosts_check(const struct ghosts *ghosts);

#endif
