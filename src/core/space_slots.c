#include "core/space_slots.h"

#include "base/assert.h"

#include <stdlib.h>

/* Words of a level whose items are `count`. */
static uint64_t words_for(uint64_t count)
{
    return (count + 63) / 64;
}

enum snow_status space_slots_init(struct space_slots *slots, uint32_t count)
{
    uint64_t words = count;

    ASSERT(count > 0);
    *slots = (struct space_slots){.count = count};
    do {
        uint64_t *level;

        words = words_for(words);
        level = calloc(words, sizeof(*level));
        if (level == NULL) {
            space_slots_deinit(slots);
            return SNOW_NO_MEMORY;
        }
        slots->levels[slots->level_count++] = level;
    } while (words > 1);
    return SNOW_OK;
}

void space_slots_deinit(struct space_slots *slots)
{
    for (uint32_t level = 0; level < slots->level_count; level++)
        free(slots->levels[level]);
    *slots = (struct space_slots){0};
}

uint32_t space_slots_take_lowest(struct space_slots *slots)
{
    uint32_t number = 0;

    ASSERT(slots->used < slots->count);
    for (uint32_t level = slots->level_count; level-- > 0;)
        number = number * 64 + (uint32_t)__builtin_ctzll(~slots->levels[level][number]);
    space_slots_take(slots, number);
    return number;
}

void space_slots_take(struct space_slots *slots, uint32_t number)
{
    ASSERT(number < slots->count && !space_slots_is_taken(slots, number));
    slots->used++;
    for (uint32_t level = 0; level < slots->level_count; level++) {
        uint64_t *word = &slots->levels[level][number / 64];

        *word |= UINT64_C(1) << number % 64;
        if (*word != UINT64_MAX)
            return;
        number /= 64;
    }
}

void space_slots_give(struct space_slots *slots, uint32_t number)
{
    ASSERT(space_slots_is_taken(slots, number));
    slots->used--;
    for (uint32_t level = 0; level < slots->level_count; level++) {
        uint64_t *word = &slots->levels[level][number / 64];
        bool was_full = *word == UINT64_MAX;

        *word &= ~(UINT64_C(1) << number % 64);
        if (!was_full)
            return;
        number /= 64;
    }
}

uint64_t space_slots_memory(const struct space_slots *slots)
{
    uint64_t bytes = 0;
    uint64_t words = slots->count;

    for (uint32_t level = 0; level < slots->level_count; level++) {
        words = words_for(words);
        bytes += words * sizeof(uint64_t);
    }
    return bytes;
}

void space_slots_check(const struct space_slots *slots)
{
    uint64_t words = words_for(slots->count);
    uint64_t used = 0;

    for (uint64_t word = 0; word < words; word++)
        used += (uint64_t)__builtin_popcountll(slots->levels[0][word]);
    ASSERT(used == slots->used && used <= slots->count);
    for (uint32_t level = 1; level < slots->level_count; level++) {
        for (uint64_t child = 0; child < words; child++) {
            bool is_full = slots->levels[level - 1][child] == UINT64_MAX;

            ASSERT((slots->levels[level][child / 64] >> child % 64 & 1) == is_full);
        }
        words = words_for(words);
    }
}
