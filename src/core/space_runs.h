/* Private to space*.c: the records of runs, their size classes and free lists.
 *
 *   run (20 bytes):    offset | before | after | owner          | USED         used
 *                      offset | before | after | next in list   | prev in list free
 *                      offset | length - 1 | - | owner          | USED         claimed, in recovery
 *
 * Classes: lengths below 32 granules have a class each; above, every power of two is cut into 32.
 * Class number = level * 32 + part, so the next class up is the next number. */
#ifndef CORE_SPACE_RUNS_H
#define CORE_SPACE_RUNS_H

#include "core/space.h"
#include "core/space_slots.h"

#define SPACE_CHUNK_BITS 10u /* records of a chunk */
#define SPACE_CHUNK_RUNS (1u << SPACE_CHUNK_BITS)
#define SPACE_PARTS 32u  /* classes of a level */
#define SPACE_LEVELS 29u /* lengths up to 2^32 granules */
#define SPACE_USED (UINT32_MAX - 1)
#define SPACE_ALIGN_GRANULES (SPACE_ALIGN / SPACE_GRANULE)
#define SPACE_SIZE_MAX ((uint64_t)SPACE_GRANULE << 32)

struct space_run {
    uint32_t offset; /* granules */
    uint32_t before; /* physical neighbours: slots, SPACE_NONE at the ends */
    uint32_t after;
    uint32_t owner_or_next;
    uint32_t used_or_prev;
};

_Static_assert(sizeof(struct space_run) == 20, "the record of an extent has a budget");

struct space {
    struct region *region;     /* of the chunks; NULL: malloc */
    struct space_run **chunks; /* by slot; NULL: not used yet */
    uint32_t chunk_count;      /* chunks taken */
    uint32_t first;            /* run at offset 0 */
    uint32_t last;             /* run that ends where the segment does; SPACE_NONE in recovery */
    struct space_slots slots;  /* used ones have a record */
    uint32_t slots_ready;      /* those at and above are not to be used yet */
    uint64_t granules;         /* of the segment, so far */
    uint64_t free_granules;
    bool recovering;
    uint32_t levels;                            /* bit: some class of this level is not empty */
    uint32_t parts[SPACE_LEVELS];               /* bit: this class is not empty */
    uint32_t lists[SPACE_LEVELS * SPACE_PARTS]; /* first free run of a class, or SPACE_NONE */
};

static inline struct space_run *space_run_at(const struct space *space, uint32_t slot)
{
    return &space->chunks[slot >> SPACE_CHUNK_BITS][slot & (SPACE_CHUNK_RUNS - 1)];
}

/* Granules from a run's start to the next one's. */
static inline uint64_t space_run_length(const struct space *space, const struct space_run *run)
{
    uint64_t end =
        run->after == SPACE_NONE ? space->granules : space_run_at(space, run->after)->offset;

    return end - run->offset;
}

static inline uint32_t space_class_of(uint64_t length)
{
    uint32_t shift;

    if (length < SPACE_PARTS)
        return (uint32_t)length;
    shift = (uint32_t)(63 - __builtin_clzll(length)) - 5;
    return (shift + 1) * SPACE_PARTS + ((uint32_t)(length >> shift) & (SPACE_PARTS - 1));
}

/* Free granules that an extent of `length` granules takes, and whether it starts on 4 KiB. */
static inline uint64_t space_granules_of(uint64_t size)
{
    return size == 0 ? 1 : size / SPACE_GRANULE + (size % SPACE_GRANULE != 0);
}

static inline bool space_is_aligned(uint64_t size)
{
    return size != 0 && size % SPACE_ALIGN == 0;
}

static inline uint32_t space_slots_left(const struct space *space)
{
    return space->slots_ready - space->slots.used;
}

/* Makes sure that a slot has memory for its record.  NO_MEMORY. */
MUST_CHECK enum snow_status space_run_reserve(struct space *space, uint32_t slot);
/* Writes a record's place; the caller sets the rest. */
void space_run_put(struct space *space, uint32_t slot, uint32_t offset, uint32_t before,
                   uint32_t after);
/* Puts a run whose place is written into the free list of its class. */
void space_run_free(struct space *space, uint32_t slot);
void space_run_use(struct space *space, uint32_t slot, uint32_t owner);

#endif
