/* Shadows: what a pool of another size, or with another rule, would have hit.
 *
 * Problem.  Whether another rule would serve better, and what more memory would bring, shows only
 *           if it is tried.
 * Idea.     A shadow is a cache of keys alone, fed with the uses of a sample of the units (by key
 *           hash).  It counts uses and keeps ghosts by itself, as a pool of its size would; the
 *           scores of classes are those of the pool (reuse.h).
 * Invariants.
 *   S1  A shadow holds at most `capacity` keys, and twice as many ghosts; when that falls it
 *       follows within as many uses.
 *   S2  Within a list, units stand in the order of their last uses; but for SHADOW_NEW, a list is
 *       the class of its units.
 * Threads.  The core's own. */
#ifndef CORE_SHADOW_H
#define CORE_SHADOW_H

#include "base/pool.h"
#include "core/index.h"
#include "core/reuse.h"

#include <stdbool.h>
#include <stdint.h>

/* Which unit goes first. */
enum shadow_rule {
    SHADOW_SCORE,  /* the lowest score among the oldest of each class */
    SHADOW_OLDEST, /* the oldest: LRU */
    SHADOW_KEEP    /* a new one, unless it was used again; else as SHADOW_SCORE */
};
#define SHADOW_RULES 3u

/* SHADOW_KEEP: of each ROUND new units in a row, the first PART stay as others do: so that what is
 * kept for nothing is replaced in time, by whole chains. */
#define SHADOW_KEEP_ROUND 4096u
#define SHADOW_KEEP_PART 256u

#define SHADOW_NEW REUSE_CLASSES /* list of those that SHADOW_KEEP lets go first */
#define SHADOW_LISTS (REUSE_CLASSES + 1)
_Static_assert(SHADOW_LISTS <= 32, "a list is a bit");
#define SHADOW_GHOSTS SHADOW_LISTS /* list of those that were evicted */
#define SHADOW_GHOSTS_PER_KEY 2u

struct shadow_entry {
    uint32_t hash_low;
    uint32_t hash_high;
    uint32_t prev;
    uint32_t next;
    uint32_t last_touch;
    uint8_t uses;
    uint8_t list;
    uint16_t depth;
};

struct shadow {
    struct pool entries; /* struct shadow_entry */
    struct index *index;
    struct {
        uint32_t old;
        uint32_t young;
    } lists[SHADOW_LISTS + 1];
    uint32_t filled;   /* bit l: list l has entries (ghosts apart) */
    uint32_t capacity; /* keys */
    uint32_t count;    /* of entries, those that are no ghosts */
    uint32_t inserted;
};

/* A use of a sampled unit. */
struct shadow_use {
    uint64_t hash;
    uint32_t now;   /* core->touches */
    uint16_t depth; /* of the unit */
    bool counts;    /* a real use; else only a refresh of its age */
};

MUST_CHECK enum snow_status shadow_init(struct shadow *shadow);
void shadow_deinit(struct shadow *shadow);
/* Takes in a use; true: it hit.  Out of memory, the unit is not taken in. */
bool shadow_use(struct shadow *shadow, const struct reuse *reuse, enum shadow_rule rule,
                const struct shadow_use *use);
uint64_t shadow_memory(const struct shadow *shadow); /* bytes */
void shadow_check(const struct shadow *shadow);

#endif
