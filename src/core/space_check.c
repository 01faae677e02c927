/* Verifies the invariants of a space (S1-S3): by its order in memory, then by its lists. */
#include "base/assert.h"
#include "core/space.h"
#include "core/space_runs.h"

/* S1: the runs tile the segment.  Returns the number of free runs. */
static uint32_t check_order(const struct space *space)
{
    uint64_t offset = 0;
    uint64_t free_granules = 0;
    uint32_t before = SPACE_NONE;
    uint32_t run_count = 0;
    uint32_t free_count = 0;
    bool was_free = false;

    for (uint32_t slot = space->first; slot != SPACE_NONE;
         slot = space_run_at(space, slot)->after) {
        const struct space_run *run = space_run_at(space, slot);
        bool is_free = run->used_or_prev != SPACE_USED;
        uint64_t length = space_run_length(space, run);

        ASSERT(space_slots_is_taken(&space->slots, slot));
        ASSERT(run->offset == offset && run->before == before);
        ASSERT(length > 0 && offset + length <= space->granules);
        ASSERT(!is_free || !was_free);
        offset += length;
        free_granules += is_free ? length : 0;
        free_count += is_free;
        run_count++;
        before = slot;
        was_free = is_free;
    }
    ASSERT(space->last == before && space->slots.used <= space->slots_ready);
    ASSERT(offset == space->granules && free_granules == space->free_granules);
    ASSERT(run_count == space->slots.used);
    return free_count;
}

/* S2: the lists hold the free runs of their class. */
static void check_lists(const struct space *space, uint32_t free_count)
{
    uint32_t listed = 0;

    for (uint32_t class = 0; class < SPACE_LEVELS * SPACE_PARTS; class ++) {
        uint32_t level = class / SPACE_PARTS;
        bool is_marked = (space->parts[level] >> class % SPACE_PARTS & 1) != 0;
        uint32_t prev = SPACE_NONE;

        ASSERT(is_marked == (space->lists[class] != SPACE_NONE));
        ASSERT((space->levels >> level & 1) == (space->parts[level] != 0));
        for (uint32_t slot = space->lists[class]; slot != SPACE_NONE;
             slot = space_run_at(space, slot)->owner_or_next) {
            const struct space_run *run = space_run_at(space, slot);

            ASSERT(space_slots_is_taken(&space->slots, slot) && run->used_or_prev == prev);
            ASSERT(space_class_of(space_run_length(space, run)) == class);
            listed++;
            ASSERT(listed <= free_count);
            prev = slot;
        }
    }
    ASSERT(listed == free_count);
}

void space_check(const struct space *space)
{
    space_slots_check(&space->slots);
    if (space->recovering)
        return;
    check_lists(space, check_order(space));
}
