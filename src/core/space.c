/* Taking: the class of the length itself is searched for a few runs, since some of it may be too
 * short; then the next class up that is not empty, where all are long enough, alignment apart.  The
 * first that fits is cut into at most three runs; the used one gets the lowest slot of theirs.
 * Giving: the run is joined with free neighbours under the lowest slot of theirs. */
#include "core/space.h"

#include "base/assert.h"
#include "base/cache.h"
#include "core/space_runs.h"

#include <stdlib.h>

#define CHUNK_BYTES (SPACE_CHUNK_RUNS * sizeof(struct space_run))
#define SEARCH_MAX 8u /* runs looked at in one class */
#define CLASS_NONE UINT32_MAX

enum snow_status space_create(struct region *region, uint64_t size, uint32_t slot_count,
                              bool recovering, struct space **space)
{
    struct space *created;
    enum snow_status status;
    uint32_t chunk_max = slot_count / SPACE_CHUNK_RUNS + 1;

    if (size == 0 || size % SPACE_ALIGN != 0 || size > SPACE_SIZE_MAX || slot_count == 0 ||
        slot_count >= SPACE_USED)
        return SNOW_INVALID;
    created = calloc(1, sizeof(*created));
    if (created == NULL)
        return SNOW_NO_MEMORY;
    created->region = region;
    created->granules = size / SPACE_GRANULE;
    created->recovering = true;
    created->first = SPACE_NONE;
    created->last = SPACE_NONE;
    created->slots_ready = slot_count;
    for (uint32_t i = 0; i < SPACE_LEVELS * SPACE_PARTS; i++)
        created->lists[i] = SPACE_NONE;
    status = space_slots_init(&created->slots, slot_count);
    if (status != SNOW_OK)
        goto destroy;
    created->chunks = calloc(chunk_max, sizeof(struct space_run *));
    if (created->chunks == NULL) {
        status = SNOW_NO_MEMORY;
        goto destroy;
    }
    if (!recovering) {
        status = space_recovered(created, NULL, NULL);
        if (status != SNOW_OK)
            goto destroy;
    }
    *space = created;
    return SNOW_OK;

destroy:
    space_destroy(created);
    return status;
}

static void give_chunk(struct space *space, struct space_run *chunk)
{
    if (chunk != NULL)
        region_give(space->region, chunk, CHUNK_BYTES);
}

void space_destroy(struct space *space)
{
    if (space == NULL)
        return;
    if (space->chunks != NULL) {
        for (uint32_t i = 0; i <= space->slots.count / SPACE_CHUNK_RUNS; i++)
            give_chunk(space, space->chunks[i]);
    }
    free(space->chunks);
    space_slots_deinit(&space->slots);
    free(space);
}

enum snow_status space_run_reserve(struct space *space, uint32_t slot)
{
    struct space_run **chunk = &space->chunks[slot >> SPACE_CHUNK_BITS];

    if (*chunk != NULL)
        return SNOW_OK;
    *chunk = region_take(space->region, CHUNK_BYTES);
    if (*chunk == NULL)
        return SNOW_NO_MEMORY;
    space->chunk_count++;
    return SNOW_OK;
}

void space_run_put(struct space *space, uint32_t slot, uint32_t offset, uint32_t before,
                   uint32_t after)
{
    struct space_run *run = space_run_at(space, slot);

    run->offset = offset;
    run->before = before;
    run->after = after;
}

void space_run_free(struct space *space, uint32_t slot)
{
    struct space_run *run = space_run_at(space, slot);
    uint64_t length = space_run_length(space, run);
    uint32_t class = space_class_of(length);
    uint32_t next = space->lists[class];

    run->owner_or_next = next;
    run->used_or_prev = SPACE_NONE;
    if (next != SPACE_NONE)
        space_run_at(space, next)->used_or_prev = slot;
    space->lists[class] = slot;
    space->parts[class / SPACE_PARTS] |= 1u << class % SPACE_PARTS;
    space->levels |= 1u << class / SPACE_PARTS;
    space->free_granules += length;
}

void space_run_use(struct space *space, uint32_t slot, uint32_t owner)
{
    struct space_run *run = space_run_at(space, slot);

    run->owner_or_next = owner;
    run->used_or_prev = SPACE_USED;
}

/* Takes a free run out of its list. */
static void unlist(struct space *space, uint32_t slot)
{
    struct space_run *run = space_run_at(space, slot);
    uint64_t length = space_run_length(space, run);
    uint32_t class = space_class_of(length);
    uint32_t prev = run->used_or_prev;
    uint32_t next = run->owner_or_next;

    space->free_granules -= length;
    if (next != SPACE_NONE)
        space_run_at(space, next)->used_or_prev = prev;
    if (prev != SPACE_NONE) {
        space_run_at(space, prev)->owner_or_next = next;
        return;
    }
    space->lists[class] = next;
    if (next != SPACE_NONE)
        return;
    space->parts[class / SPACE_PARTS] &= ~(1u << class % SPACE_PARTS);
    if (space->parts[class / SPACE_PARTS] == 0)
        space->levels &= ~(1u << class / SPACE_PARTS);
}

/* The first class from `from` upwards that is not empty, or CLASS_NONE. */
static uint32_t class_from(const struct space *space, uint32_t from)
{
    uint32_t level = from / SPACE_PARTS;
    uint32_t parts;
    uint32_t levels;

    if (level >= SPACE_LEVELS)
        return CLASS_NONE;
    parts = space->parts[level] & UINT32_MAX << from % SPACE_PARTS;
    if (parts == 0) {
        levels = space->levels & UINT32_MAX << (level + 1);
        if (levels == 0)
            return CLASS_NONE;
        level = (uint32_t)__builtin_ctz(levels);
        parts = space->parts[level];
    }
    return level * SPACE_PARTS + (uint32_t)__builtin_ctz(parts);
}

/* The highest class that is not empty, or CLASS_NONE. */
static uint32_t class_highest(const struct space *space)
{
    uint32_t level;

    if (space->levels == 0)
        return CLASS_NONE;
    level = 31 - (uint32_t)__builtin_clz(space->levels);
    return level * SPACE_PARTS + 31 - (uint32_t)__builtin_clz(space->parts[level]);
}

/* Granules up to the next 4 KiB. */
static uint32_t lead_of(const struct space_run *run)
{
    return -run->offset & (SPACE_ALIGN_GRANULES - 1);
}

/* A run of the class that holds `length` granules, or SPACE_NONE. */
static uint32_t search_class(const struct space *space, uint32_t class, uint64_t length,
                             bool aligned)
{
    uint32_t slot = class == CLASS_NONE ? SPACE_NONE : space->lists[class];

    for (uint32_t i = 0; i < SEARCH_MAX && slot != SPACE_NONE; i++) {
        const struct space_run *run = space_run_at(space, slot);

        if (space_run_length(space, run) >= length + (aligned ? lead_of(run) : 0))
            return slot;
        slot = run->owner_or_next;
    }
    return SPACE_NONE;
}

static uint32_t search(const struct space *space, uint64_t length, bool aligned)
{
    uint32_t own = space_class_of(length);
    uint32_t slot = search_class(space, own, length, aligned);

    if (slot == SPACE_NONE)
        slot = search_class(space, class_from(space, own + 1), length, aligned);
    if (slot == SPACE_NONE && aligned) {
        /* One class above, runs are long enough wherever they start. */
        uint32_t enough = space_class_of(length + SPACE_ALIGN_GRANULES - 1) + 1;

        slot = search_class(space, class_from(space, enough), length, aligned);
    }
    /* What space_largest_run has promised. */
    if (slot == SPACE_NONE)
        slot = search_class(space, class_highest(space), length, aligned);
    return slot;
}

/* The slots of the pieces of a run that is cut: that of the used one first. */
struct cut {
    uint32_t slots[3];
    uint32_t count;
};

/* Takes the slots that a cut needs beside the run's own, or none. */
static enum snow_status cut_begin(struct space *space, struct cut *cut, uint32_t slot,
                                  uint32_t count)
{
    enum snow_status status = SNOW_OK;
    uint32_t lowest = 0;

    cut->slots[0] = slot;
    cut->count = 1;
    while (cut->count < count && status == SNOW_OK) {
        cut->slots[cut->count] = space_slots_take_lowest(&space->slots);
        status = space_run_reserve(space, cut->slots[cut->count]);
        cut->count++;
    }
    if (status != SNOW_OK) {
        while (cut->count > 1)
            space_slots_give(&space->slots, cut->slots[--cut->count]);
        return status;
    }
    for (uint32_t i = 1; i < count; i++) {
        if (cut->slots[i] < cut->slots[lowest])
            lowest = i;
    }
    cut->slots[0] = cut->slots[lowest];
    if (lowest > 0)
        cut->slots[lowest] = slot;
    return SNOW_OK;
}

/* Sets the links of the runs on both sides of what lies between them (or of the segment). */
static void join_neighbours(struct space *space, uint32_t before, uint32_t first, uint32_t last,
                            uint32_t after)
{
    if (before == SPACE_NONE)
        space->first = first;
    else
        space_run_at(space, before)->after = first;
    if (after == SPACE_NONE)
        space->last = last;
    else
        space_run_at(space, after)->before = last;
}

enum snow_status space_take(struct space *space, uint64_t size, uint32_t owner, uint32_t *slot)
{
    uint64_t length = space_granules_of(size);
    bool aligned = space_is_aligned(size);
    uint32_t found;
    uint32_t room = space_slots_left(space);
    struct space_run run;
    uint64_t tail;
    uint32_t lead;
    struct cut cut;
    enum snow_status status;

    if (space->recovering || length > space->free_granules)
        return SNOW_NO_SPACE;
    found = search(space, length, aligned);
    if (found == SPACE_NONE)
        return SNOW_NO_SPACE;
    run = *space_run_at(space, found);
    lead = aligned ? lead_of(&run) : 0;
    tail = space_run_length(space, &run) - lead - length;
    /* Without a slot for the rest of the run, a short rest is given along. */
    if (tail > 0 && room < 1u + (lead > 0) && (tail <= length || tail <= SPACE_ALIGN_GRANULES))
        tail = 0;
    if (room < (uint32_t)(lead > 0) + (tail > 0))
        return SNOW_LIMIT;
    status = cut_begin(space, &cut, found, 1u + (lead > 0) + (tail > 0));
    if (status != SNOW_OK)
        return status;
    unlist(space, found);

    uint32_t used = cut.slots[0];
    uint32_t first = lead > 0 ? cut.slots[1] : used;
    uint32_t last = tail > 0 ? cut.slots[cut.count - 1] : used;

    if (lead > 0)
        space_run_put(space, first, run.offset, run.before, used);
    if (tail > 0)
        space_run_put(space, last, run.offset + lead + (uint32_t)length, used, run.after);
    space_run_put(space, used, run.offset + lead, lead > 0 ? first : run.before,
                  tail > 0 ? last : run.after);
    join_neighbours(space, run.before, first, last, run.after);
    space_run_use(space, used, owner);
    if (lead > 0)
        space_run_free(space, first);
    if (tail > 0)
        space_run_free(space, last);
    *slot = used;
    return SNOW_OK;
}

static bool is_free_run(const struct space *space, uint32_t slot)
{
    return slot != SPACE_NONE && space_run_at(space, slot)->used_or_prev != SPACE_USED;
}

/* Of two slots that become one run, gives the higher one back. */
static uint32_t keep_lower(struct space *space, uint32_t one, uint32_t other)
{
    space_slots_give(&space->slots, one > other ? one : other);
    return one > other ? other : one;
}

void space_give(struct space *space, uint32_t slot)
{
    struct space_run run;
    uint32_t kept = slot;

    ASSERT(!space->recovering && space_is_used(space, slot));
    run = *space_run_at(space, slot);
    if (is_free_run(space, run.before)) {
        uint32_t joined = run.before;
        const struct space_run *other = space_run_at(space, joined);

        unlist(space, joined);
        run.offset = other->offset;
        run.before = other->before;
        kept = keep_lower(space, kept, joined);
    }
    if (is_free_run(space, run.after)) {
        uint32_t joined = run.after;

        unlist(space, joined);
        run.after = space_run_at(space, joined)->after;
        kept = keep_lower(space, kept, joined);
    }
    space_run_put(space, kept, run.offset, run.before, run.after);
    join_neighbours(space, run.before, kept, kept, run.after);
    space_run_free(space, kept);
}

/* ---- growing ---- */

void space_limit(struct space *space, uint32_t slots_ready)
{
    ASSERT(slots_ready <= space->slots.count && space->slots.used <= slots_ready);
    space->slots_ready = slots_ready;
}

/* The new bytes are a run of their own behind a last one that is used. */
static enum snow_status append_run(struct space *space, uint64_t granules)
{
    uint32_t offset = (uint32_t)space->granules;
    uint32_t before = space->last;
    uint32_t slot;
    enum snow_status status;

    if (space_slots_left(space) == 0)
        return SNOW_LIMIT;
    slot = space_slots_take_lowest(&space->slots);
    status = space_run_reserve(space, slot);
    if (status != SNOW_OK) {
        space_slots_give(&space->slots, slot);
        return status;
    }
    space->granules = granules;
    space_run_put(space, slot, offset, before, SPACE_NONE);
    join_neighbours(space, before, slot, slot, SPACE_NONE);
    space_run_free(space, slot);
    return SNOW_OK;
}

enum snow_status space_grow(struct space *space, uint64_t size, uint32_t slots_ready)
{
    uint64_t granules = size / SPACE_GRANULE;
    uint32_t last = space->last;

    if (size % SPACE_ALIGN != 0 || size > SPACE_SIZE_MAX || slots_ready > space->slots.count)
        return SNOW_INVALID;
    if (slots_ready > space->slots_ready)
        space->slots_ready = slots_ready;
    if (granules <= space->granules)
        return SNOW_OK;
    if (space->recovering) {
        space->granules = granules;
        return SNOW_OK;
    }
    if (!is_free_run(space, last))
        return append_run(space, granules);
    unlist(space, last);
    space->granules = granules;
    space_run_free(space, last);
    return SNOW_OK;
}

bool space_is_recovering(const struct space *space)
{
    return space->recovering;
}

bool space_is_used(const struct space *space, uint32_t slot)
{
    return space_slots_is_taken(&space->slots, slot) &&
           space_run_at(space, slot)->used_or_prev == SPACE_USED;
}

void space_touch(const struct space *space, uint32_t slot)
{
    cache_touch(space_run_at(space, slot));
}

uint64_t space_offset(const struct space *space, uint32_t slot)
{
    return (uint64_t)space_run_at(space, slot)->offset * SPACE_GRANULE;
}

uint64_t space_capacity(const struct space *space, uint32_t slot)
{
    const struct space_run *run = space_run_at(space, slot);

    if (space->recovering)
        return ((uint64_t)run->before + 1) * SPACE_GRANULE;
    return space_run_length(space, run) * SPACE_GRANULE;
}

uint32_t space_owner(const struct space *space, uint32_t slot)
{
    ASSERT(space_is_used(space, slot));
    return space_run_at(space, slot)->owner_or_next;
}

void space_set_owner(struct space *space, uint32_t slot, uint32_t owner)
{
    ASSERT(space_is_used(space, slot));
    space_run_at(space, slot)->owner_or_next = owner;
}

uint32_t space_before(const struct space *space, uint32_t slot)
{
    return space->recovering ? SPACE_NONE : space_run_at(space, slot)->before;
}

uint32_t space_after(const struct space *space, uint32_t slot)
{
    return space->recovering ? SPACE_NONE : space_run_at(space, slot)->after;
}

uint32_t space_first(const struct space *space)
{
    return space->first;
}

uint64_t space_size(const struct space *space)
{
    return space->granules * SPACE_GRANULE;
}

uint64_t space_free_bytes(const struct space *space)
{
    return space->free_granules * SPACE_GRANULE;
}

uint64_t space_largest_run(const struct space *space)
{
    uint32_t class = class_highest(space);
    uint32_t slot = class == CLASS_NONE ? SPACE_NONE : space->lists[class];
    uint64_t largest = 0;

    for (uint32_t i = 0; i < SEARCH_MAX && slot != SPACE_NONE; i++) {
        const struct space_run *run = space_run_at(space, slot);
        uint64_t length = space_run_length(space, run);
        uint64_t lead = lead_of(run);
        uint64_t inner = length > lead ? length - lead : 0; /* from the first 4 KiB boundary */
        uint64_t any;                                       /* every size up to this fits */

        inner -= inner % SPACE_ALIGN_GRANULES;
        any = inner + SPACE_ALIGN_GRANULES - 1;
        if (any > length)
            any = length;
        if (any > largest)
            largest = any;
        slot = run->owner_or_next;
    }
    return largest * SPACE_GRANULE;
}

uint32_t space_slot_count(const struct space *space)
{
    return space->slots.count;
}

uint32_t space_slots_ready(const struct space *space)
{
    return space->slots_ready;
}

uint32_t space_slots_free(const struct space *space)
{
    return space_slots_left(space);
}

uint64_t space_memory(const struct space *space)
{
    return sizeof(*space) + space_slots_memory(&space->slots) +
           ((uint64_t)space->slots.count / SPACE_CHUNK_RUNS + 1) * sizeof(*space->chunks) +
           (uint64_t)space->chunk_count * SPACE_CHUNK_RUNS * sizeof(struct space_run);
}

uint64_t space_round(uint64_t size)
{
    return space_granules_of(size) * SPACE_GRANULE;
}
