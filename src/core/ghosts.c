#include "core/ghosts.h"

#include "base/assert.h"

#define CHUNK_BITS 12u

_Static_assert(sizeof(struct ghost) == 20, "there are twice as many of them as of objects");

enum snow_status ghosts_init(struct ghosts *ghosts, struct region *region)
{
    pool_init(&ghosts->pool, region, sizeof(struct ghost), CHUNK_BITS, INDEX_OBJECT_MAX);
    ghosts->oldest = ghosts->youngest = 0;
    return index_create(region, &ghosts->index);
}

void ghosts_deinit(struct ghosts *ghosts)
{
    pool_deinit(&ghosts->pool);
    index_destroy(ghosts->index);
    ghosts->index = NULL;
}

static struct ghost *ghost_at(const struct ghosts *ghosts, uint32_t number)
{
    return pool_at(&ghosts->pool, number);
}

static uint64_t hash_of(const struct ghost *ghost)
{
    return (uint64_t)ghost->hash_high << 32 | ghost->hash_low;
}

static void drop_oldest(struct ghosts *ghosts)
{
    uint32_t number = ghosts->oldest;
    const struct ghost *ghost = ghost_at(ghosts, number);

    if (!ghost->taken)
        index_remove(ghosts->index, hash_of(ghost), number);
    ghosts->oldest = ghost->next;
    if (ghosts->oldest == 0)
        ghosts->youngest = 0;
    pool_give(&ghosts->pool, number);
}

void ghosts_add(struct ghosts *ghosts, uint64_t hash, const struct ghost *ghost, uint64_t count_max)
{
    uint32_t number;

    /* Two for each new one: a ring that is to be smaller shrinks in steps. */
    for (uint32_t i = 0; i < 2 && ghosts->pool.used > 0 && ghosts->pool.used >= count_max; i++)
        drop_oldest(ghosts);
    if (count_max == 0 || pool_take(&ghosts->pool, &number) != SNOW_OK)
        return;
    if (index_insert(ghosts->index, hash, number) != SNOW_OK) {
        pool_give(&ghosts->pool, number);
        return;
    }
    struct ghost *added = ghost_at(ghosts, number);

    *added = *ghost;
    added->hash_low = (uint32_t)hash;
    added->hash_high = (uint32_t)(hash >> 32);
    added->next = 0;
    added->taken = false;
    if (ghosts->youngest != 0)
        ghost_at(ghosts, ghosts->youngest)->next = number;
    else
        ghosts->oldest = number;
    ghosts->youngest = number;
}

bool ghosts_take(struct ghosts *ghosts, uint64_t hash, struct ghost *found)
{
    struct index_cursor cursor;
    uint32_t number = index_first(ghosts->index, hash, &cursor);

    for (; number != 0; number = index_next(&cursor)) {
        struct ghost *ghost = ghost_at(ghosts, number);

        if (hash_of(ghost) != hash)
            continue;
        *found = *ghost;
        ghost->taken = true;
        index_remove(ghosts->index, hash, number);
        return true;
    }
    return false;
}

uint32_t ghosts_count(const struct ghosts *ghosts)
{
    return ghosts->pool.used;
}

uint64_t ghosts_memory(const struct ghosts *ghosts)
{
    return pool_bytes(&ghosts->pool) + index_memory(ghosts->index);
}

void ghosts_check(const struct ghosts *ghosts)
{
    uint32_t count = 0;
    uint32_t there = 0;
    uint32_t last = 0;

    for (uint32_t number = ghosts->oldest; number != 0; number = ghost_at(ghosts, number)->next) {
        count++;
        there += !ghost_at(ghosts, number)->taken;
        last = number;
    }
    ASSERT(last == ghosts->youngest && count == ghosts->pool.used);
    ASSERT(there == index_count(ghosts->index));
}
