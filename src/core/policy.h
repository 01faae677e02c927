/* Eviction policies: a table of functions over the victim lists of a segment.
 *
 * Problem.  What goes first when room is needed, in O(1), without scanning what may not go.
 * Idea.     Objects that may be evicted stand in lists of their segment; protected ones stand in
 * none.  A policy says
 *           into which list, at which end, and which end is the next victim.
 * Invariants.
 *   V1  An object is in at most one list; OBJECT_LISTED says whether it is in one.
 *   V2  victim answers the object that goes first among those in lists, soft-pinned ones only
 *       when nothing else is there.
 *   V3  A policy looks at the number of touches (core->touches), never at the clock.
 *   V4  What a policy orders are units: what eviction takes whole.  The record of an object that
 *       stands for its unit is in the lists; core_victim_evict knows what else is of the unit.
 * The caller touches the objects of a request from the deepest to the first, so every policy sees
 * chains leaf first. */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct core;
struct segment;

#define POLICY_LISTS 32u /* lists a policy may use in each segment */
#define POLICY_SCORE_MAX (UINT64_C(1) << 40)

/* Ends of a list, by object number; 0: empty.  old: goes first. */
struct victim_list {
    uint32_t old;
    uint32_t young;
    uint32_t count;
};

struct policy_ops {
    const char *name;
    bool tried; /* shadows of it are run (trial.h) */
    /* A new object, or one whose write ended: enters a list of its segment. */
    void (*insert)(struct core *core, struct segment *segment, uint32_t object);
    /* A use of an object that is in a list.  counts: a real use; else only a refresh of its age. */
    void (*touch)(struct core *core, struct segment *segment, uint32_t object, bool counts);
    /* A use of an object that is in no list now (leased): remembered for its return. */
    void (*touch_away)(struct core *core, struct segment *segment, uint32_t object, bool counts);
    /* Leaves its list: leased, pinned, closing. */
    void (*leave)(struct core *core, struct segment *segment, uint32_t object);
    /* Comes back after leave. */
    void (*come_back)(struct core *core, struct segment *segment, uint32_t object);
    /* It goes before the others of its class, as if it were the least recently used of them. */
    void (*demote)(struct core *core, struct segment *segment, uint32_t object);
    /* It is about to be evicted, out of no list yet.  NULL: the policy remembers nothing. */
    void (*evicted)(struct core *core, uint32_t object);
    /* The next to go, still in its list; 0: none. */
    uint32_t (*victim)(struct core *core, struct segment *segment);
    /* The one that goes after that one, were that gone; 0: none, or it is not known. */
    uint32_t (*after)(struct core *core, struct segment *segment, uint32_t object);
    /* Whether a goes before b, when room could be made by either (of any segments). */
    bool (*before)(struct core *core, uint32_t a, uint32_t b);
    /* How much later than the next victim it would go: sums of it are compared, within one
     * segment.  At most POLICY_SCORE_MAX.  next: what victim answers, 0: none. */
    uint64_t (*score)(struct core *core, uint32_t next, uint32_t object);
};

/* policy_<name>.c */
extern const struct policy_ops policy_lru;
extern const struct policy_ops policy_fifo;
extern const struct policy_ops policy_rrc;
extern const struct policy_ops policy_s3fifo;

/* The table of a policy (enum core_policy of options.h). */
const struct policy_ops *policy_ops(uint32_t policy);

/* List primitives for policies; they keep OBJECT_LISTED. */
void policy_push_young(struct core *core, struct victim_list *list, uint32_t object);
void policy_push_old(struct core *core, struct victim_list *list, uint32_t object);
void policy_insert_after(struct core *core, struct victim_list *list, uint32_t older,
                         uint32_t object);
void policy_unlink(struct core *core, struct victim_list *list, uint32_t object);
/* To the old end, as old as the one there. */
void policy_demote(struct core *core, struct victim_list *list, uint32_t object);

/* Number of objects in all lists of a segment, and a check that they tile. */
uint32_t policy_count(const struct segment *segment);
void policy_check(struct core *core, struct segment *segment);

#endif
