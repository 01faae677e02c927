/* Numbers 0 .. count-1, the lowest free one first, in O(1).
 *
 * Idea.  A tree of bitmaps, 64 children a word: a bit of level 0 says that its number is taken, a
 *        bit above that all 64 below are.  Zero means free, so that what was never used is never
 *        touched.
 * Threads.  The owner's own. */
#ifndef CORE_SLOTS_H
#define CORE_SLOTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_LEVELS 6u /* 64^6 > 2^32 */

struct slots {
    uint64_t *levels[SLOTS_LEVELS];
    uint32_t level_count;
    uint32_t count;
    uint32_t used; /* numbers taken */
};

MUST_CHECK enum snow_status slots_init(struct slots *slots, uint32_t count); /* NO_MEMORY */
void slots_deinit(struct slots *slots);

/* The lowest free number; one is free. */
uint32_t slots_take_lowest(struct slots *slots);
/* A certain number; it is free. */
void slots_take(struct slots *slots, uint32_t number);
void slots_give(struct slots *slots, uint32_t number);

static inline bool slots_is_taken(const struct slots *slots, uint32_t number)
{
    return number < slots->count && (slots->levels[0][number / 64] >> number % 64 & 1) != 0;
}

uint64_t slots_memory(const struct slots *slots); /* bytes */
void slots_check(const struct slots *slots);

#endif
