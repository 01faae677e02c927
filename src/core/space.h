/* Space of one segment: which byte ranges hold what, kept far from the bytes themselves.
 *
 * Problem.  Segment memory is remote; its free space must be found in O(1), merged at once, and
 *           used to 98 %.
 * Idea.     Two-level segregated fit (Masmano et al., 2004) with records outside the memory: one
 *           extent record for each run, used or free, 20 bytes, linked to its physical neighbours.
 *           The record's index is the number of the slot that describes the extent on the node.  A
 *           run's length is the next run's offset minus its own.
 * Invariants.
 *   S1  The runs tile the segment: no gap, no overlap; no two free runs touch.
 *   S2  Every free run is in the free list of its size class, and the bitmaps say which are not
 *       empty.
 *   S3  A used extent's slot never changes; free runs are given the lowest free slot numbers, as
 *       used ones are.
 * Granule 256 B; sizes that are multiples of 4 KiB are aligned to 4 KiB.
 * Threads.  The core's own.   State.  Rebuilt from inventories. */
#ifndef CORE_SPACE_H
#define CORE_SPACE_H

#include "base/region.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SPACE_GRANULE 256u
#define SPACE_ALIGN 4096u
#define SPACE_NONE UINT32_MAX /* no slot */

struct space;

/* size: bytes, a multiple of 4 KiB, at most 1 TiB; slot_count: records, used and free (else
 * INVALID).  Empty: one free run.  NO_MEMORY.
 * recovering: nothing may be taken until space_recovered. */
MUST_CHECK enum snow_status space_create(struct region *region, uint64_t size, uint32_t slot_count,
                                         bool recovering, struct space **space);
void space_destroy(struct space *space);

/* Only slots below slots_ready may be used, until space_grow.  Before anything is taken or
 * claimed. */
void space_limit(struct space *space, uint32_t slots_ready);
/* There is more of the segment: its size rises to size (a multiple of 4 KiB), the slots that may be
 * used to slots_ready; nothing ever shrinks.  INVALID: more than a segment, or its slots, can be.
 * LIMIT: the size stays for want of a slot for the new run; the slots rose. */
MUST_CHECK enum snow_status space_grow(struct space *space, uint64_t size, uint32_t slots_ready);

/* An extent of at least size bytes (0 counts as 1).  NO_SPACE: no run is large enough.  LIMIT: no
 * slot is free.  NO_MEMORY.
 * owner: the caller's number, kept with the extent. */
MUST_CHECK enum snow_status space_take(struct space *space, uint64_t size, uint32_t owner,
                                       uint32_t *slot);
void space_give(struct space *space, uint32_t slot);

/* While recovering: what the node says it holds.  INVALID: out of range, not aligned, or the slot
 * is claimed already.  NO_MEMORY.  Overlaps show at space_recovered. */
MUST_CHECK enum snow_status space_claim(struct space *space, uint32_t slot, uint64_t offset,
                                        uint64_t length, uint32_t owner);
/* While recovering: takes a claim back. */
void space_unclaim(struct space *space, uint32_t slot);

/* Ends recovery: sorts the claims, makes the free runs.  A claim that overlaps an earlier one
 * (lower offset first, then lower slot) is told by on_overlap and dropped; its slot is free then.
 * NO_MEMORY: still recovering, may be repeated. */
MUST_CHECK enum snow_status
space_recovered(struct space *space,
                void (*on_overlap)(void *context, uint32_t slot, uint32_t owner), void *context);
bool space_is_recovering(const struct space *space);

/* Brings what the functions below look at into the cache, for batches. */
void space_touch(const struct space *space, uint32_t slot);
uint64_t space_offset(const struct space *space, uint32_t slot); /* bytes */
/* Bytes of the extent, waste included; while recovering, as claimed. */
uint64_t space_capacity(const struct space *space, uint32_t slot);
bool space_is_used(const struct space *space, uint32_t slot);
uint32_t space_owner(const struct space *space, uint32_t slot);
void space_set_owner(struct space *space, uint32_t slot, uint32_t owner);

/* Physical neighbours of an extent, used or free; SPACE_NONE at the ends.  For widened victims and
 * checks. */
uint32_t space_before(const struct space *space, uint32_t slot);
uint32_t space_after(const struct space *space, uint32_t slot);
uint32_t space_first(const struct space *space); /* the run at offset 0 */

uint64_t space_size(const struct space *space); /* bytes, of what there is so far */
uint64_t space_free_bytes(const struct space *space);
/* A space_take of any size up to this finds a run now (it may still lack a slot); larger ones may
 * exist.  0: none. */
uint64_t space_largest_run(const struct space *space);
uint32_t space_slot_count(const struct space *space);
uint32_t space_slots_ready(const struct space *space);
uint32_t space_slots_free(const struct space *space); /* of the ready ones */
uint64_t space_memory(const struct space *space);     /* bytes of records */

/* What an object of this size takes from a run: rounded to the granule. */
uint64_t space_round(uint64_t size);

/* Verifies S1-S3; ASSERTs.  Costs O(runs). */
void space_check(const struct space *space);

#endif
