/* Numbers 0 .. count-1, the lowest free one first, in O(1).
 *
 * Idea.  A tree of bitmaps, 64 children a word: a bit of level 0 says that its number is taken, a
 *        bit above that all 64 below are.  Zero means free, so that what was never used is never
 *        touched.
 * Threads.  The owner's own. */
#ifndef CORE_SPACE_SLOTS_H
#define CORE_SPACE_SLOTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SPACE_SLOTS_LEVELS 6u /* 64^6 > 2^32 */

struct space_slots {
    uint64_t *levels[SPACE_SLOTS_LEVELS];
    uint32_t level_count;
    uint32_t count;
    uint32_t used; /* numbers taken */
};

MUST_CHECK enum snow_status space_slots_init(struct space_slots *slots,
                                             uint32_t count); /* NO_MEMORY */
void space_slots_deinit(struct space_slots *slots);

/* The lowest free number; one is free. */
uint32_t space_slots_take_lowest(struct space_slots *slots);
/* A certain number; it is free. */
void space_slots_take(struct space_slots *slots, uint32_t number);
void space_slots_give(struct space_slots *slots, uint32_t number);

static inline bool space_slots_is_taken(const struct space_slots *slots, uint32_t number)
{
    return number < slots->count && (slots->levels[0][number / 64] >> number % 64 & 1) != 0;
}

uint64_t space_slots_memory(const struct space_slots *slots); /* bytes */
void space_slots_check(const struct space_slots *slots);

#endif
