/* Learning again what a segment holds: claims in any order, then one pass in the order of offsets.
 *
 * While recovering, a record keeps its claim's length; no run has neighbours and no list is filled.
 * The pass sorts the claims (by offset, then by slot), drops what overlaps, links what is left and
 * makes the gaps free runs.  A gap for which no slot is left joins the extent before it, as it did
 * before the restart. */
#include "base/assert.h"
#include "core/space.h"
#include "core/space_runs.h"

#include <stdlib.h>

#define RADIX_BITS 8u
#define RADIX (1u << RADIX_BITS)

struct claim {
    uint32_t offset; /* granules */
    uint32_t slot;
};

enum snow_status space_claim(struct space *space, uint32_t slot, uint64_t offset, uint64_t length,
                             uint32_t owner)
{
    uint64_t granules = space_granules_of(length);
    uint64_t first = offset / SPACE_GRANULE;
    enum snow_status status;

    ASSERT(space->recovering);
    if (slot >= space->slots_ready || space_slots_is_taken(&space->slots, slot))
        return SNOW_INVALID;
    if (offset % (space_is_aligned(length) ? SPACE_ALIGN : SPACE_GRANULE) != 0)
        return SNOW_INVALID;
    if (granules > space->granules || first > space->granules - granules)
        return SNOW_INVALID;
    status = space_run_reserve(space, slot);
    if (status != SNOW_OK)
        return status;
    space_slots_take(&space->slots, slot);
    space_run_put(space, slot, (uint32_t)first, (uint32_t)(granules - 1), SPACE_NONE);
    space_run_use(space, slot, owner);
    return SNOW_OK;
}

void space_unclaim(struct space *space, uint32_t slot)
{
    ASSERT(space->recovering && space_is_used(space, slot));
    space_slots_give(&space->slots, slot);
}

/* Sorts by offset and leaves equal ones in their order; spare: as many claims again. */
static void sort_claims(struct claim *claims, struct claim *spare, uint32_t count)
{
    for (uint32_t shift = 0; shift < 32; shift += RADIX_BITS) {
        uint32_t places[RADIX] = {0};
        uint32_t place = 0;
        struct claim *swapped = claims;

        for (uint32_t i = 0; i < count; i++)
            places[claims[i].offset >> shift & (RADIX - 1)]++;
        for (uint32_t digit = 0; digit < RADIX; digit++) {
            uint32_t here = places[digit];

            places[digit] = place;
            place += here;
        }
        for (uint32_t i = 0; i < count; i++)
            spare[places[claims[i].offset >> shift & (RADIX - 1)]++] = claims[i];
        claims = spare;
        spare = swapped;
    }
}

_Static_assert(32 / RADIX_BITS % 2 == 0, "after an even number of passes the claims are in place");

/* All claims, by slot. */
static void gather(const struct space *space, struct claim *claims)
{
    uint32_t found = 0;

    for (uint32_t slot = 0; found < space->slots.used; slot++) {
        if (space_slots_is_taken(&space->slots, slot))
            claims[found++] =
                (struct claim){.offset = space_run_at(space, slot)->offset, .slot = slot};
    }
}

/* Drops claims that overlap an earlier one; returns how many are left. */
static uint32_t drop_overlaps(struct space *space, struct claim *claims, uint32_t count,
                              void (*on_overlap)(void *context, uint32_t slot, uint32_t owner),
                              void *context)
{
    uint32_t kept = 0;
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct space_run *run = space_run_at(space, claims[i].slot);
        /* The run at 0 needs a record; only claims for every slot there is can leave none. */
        bool is_homeless = kept == 0 && run->offset > 0 && space_slots_left(space) == 0;

        if (run->offset < end || is_homeless) {
            uint32_t owner = run->owner_or_next;

            space_slots_give(&space->slots, claims[i].slot);
            if (on_overlap != NULL)
                on_overlap(context, claims[i].slot, owner);
            continue;
        }
        end = (uint64_t)run->offset + run->before + 1;
        claims[kept++] = claims[i];
    }
    return kept;
}

/* A slot for a free run, or SPACE_NONE: no slot is left, or no memory for its record. */
static uint32_t slot_for_gap(struct space *space)
{
    uint32_t slot;

    if (space_slots_left(space) == 0)
        return SPACE_NONE;
    slot = space_slots_take_lowest(&space->slots);
    if (space_run_reserve(space, slot) == SNOW_OK)
        return slot;
    space_slots_give(&space->slots, slot);
    return SPACE_NONE;
}

/* Appends a run to the chain of neighbours. */
static void link_run(struct space *space, uint32_t slot, uint64_t offset, uint32_t *last)
{
    space_run_put(space, slot, (uint32_t)offset, *last, SPACE_NONE);
    if (*last == SPACE_NONE)
        space->first = slot;
    else
        space_run_at(space, *last)->after = slot;
    *last = slot;
    space->last = slot;
}

/* Links claims and gaps in order; gaps get records, but are in no list yet. */
static void link_all(struct space *space, const struct claim *claims, uint32_t count,
                     uint32_t first_gap)
{
    uint32_t last = SPACE_NONE;
    uint64_t end = 0;

    for (uint32_t i = 0; i <= count; i++) {
        uint64_t offset = i < count ? claims[i].offset : space->granules;

        if (offset > end) {
            uint32_t gap = end == 0 ? first_gap : slot_for_gap(space);

            if (gap != SPACE_NONE) {
                link_run(space, gap, end, &last);
                space_run_at(space, gap)->used_or_prev = SPACE_NONE;
            }
        }
        if (i < count) {
            end = offset + space_run_at(space, claims[i].slot)->before + 1;
            link_run(space, claims[i].slot, offset, &last);
        }
    }
}

enum snow_status space_recovered(struct space *space,
                                 void (*on_overlap)(void *context, uint32_t slot, uint32_t owner),
                                 void *context)
{
    uint32_t count = space->slots.used;
    uint32_t first_gap = SPACE_NONE;
    struct claim *claims;
    enum snow_status status;

    ASSERT(space->recovering);
    claims = malloc(2 * ((size_t)count + 1) * sizeof(*claims));
    if (claims == NULL)
        return SNOW_NO_MEMORY;
    gather(space, claims);
    sort_claims(claims, claims + count + 1, count);
    count = drop_overlaps(space, claims, count, on_overlap, context);
    if (count == 0 || claims[0].offset > 0) {
        first_gap = space_slots_take_lowest(&space->slots);
        status = space_run_reserve(space, first_gap);
        if (status != SNOW_OK) {
            space_slots_give(&space->slots, first_gap);
            goto free_claims;
        }
    }
    link_all(space, claims, count, first_gap);
    space->recovering = false;
    for (uint32_t slot = space->first; slot != SPACE_NONE;
         slot = space_run_at(space, slot)->after) {
        if (space_run_at(space, slot)->used_or_prev != SPACE_USED)
            space_run_free(space, slot);
    }
    status = SNOW_OK;

free_claims:
    free(claims);
    return status;
}
