/* Chunks are not touched before their items are taken: memory that was
 * never used is never committed.  A chunk starts on a cache line, so items of 16, 32 or 64 bytes
 * never straddle one.
 *
 * Invariants.
 *   P1  Items 1 .. fresh-1 were given at least once; item 0 is never given.
 *   P2  Every item below fresh is either with the user or on the stack of free items.
 * Threads.  The owner's own. */
#include "base/pool.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64u

static size_t chunk_size(const struct pool *pool)
{
    size_t size = (size_t)pool->item_size << pool->chunk_bits;

    return (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

/* The array of chunk pointers doubles when the count of chunks is a power of two. */
static size_t pointer_capacity(const struct pool *pool)
{
    size_t capacity = 1;

    if (pool->chunk_count == 0)
        return 0;
    while (capacity < pool->chunk_count)
        capacity *= 2;
    return capacity;
}

void pool_init(struct pool *pool, struct region *region, uint32_t item_size, uint32_t chunk_bits,
               uint32_t count_max)
{
    ASSERT(item_size >= sizeof(uint32_t) && chunk_bits < 32 && count_max < UINT32_MAX);
    *pool = (struct pool){.region = region,
                          .item_size = item_size,
                          .chunk_bits = chunk_bits,
                          .fresh = 1,
                          .count_max = count_max};
}

void pool_deinit(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        region_give(pool->region, pool->chunks[i], chunk_size(pool));
    free(pool->chunks);
    pool_init(pool, pool->region, pool->item_size, pool->chunk_bits, pool->count_max);
}

static enum snow_status add_chunk(struct pool *pool)
{
    uint8_t *chunk;

    if (pool->chunk_count == pointer_capacity(pool)) {
        size_t capacity = pool->chunk_count == 0 ? 1 : (size_t)pool->chunk_count * 2;
        uint8_t **chunks = realloc(pool->chunks, capacity * sizeof(*chunks));

        if (chunks == NULL)
            return SNOW_NO_MEMORY;
        pool->chunks = chunks;
    }
    chunk = region_take(pool->region, chunk_size(pool));
    if (chunk == NULL)
        return SNOW_NO_MEMORY;
    pool->chunks[pool->chunk_count++] = chunk;
    return SNOW_OK;
}

enum snow_status pool_take(struct pool *pool, uint32_t *index)
{
    uint32_t taken = pool->free_first;
    uint8_t *item;

    if (pool->used == pool->count_max)
        return SNOW_LIMIT;
    if (taken != 0) {
        item = pool_at(pool, taken);
        memcpy(&pool->free_first, item, sizeof(pool->free_first));
    } else {
        taken = pool->fresh;
        if (taken >> pool->chunk_bits == pool->chunk_count) {
            enum snow_status status = add_chunk(pool);

            if (status != SNOW_OK)
                return status;
        }
        pool->fresh++;
        item = pool_at(pool, taken);
    }
    memset(item, 0, pool->item_size);
    pool->used++;
    *index = taken;
    return SNOW_OK;
}

void pool_give(struct pool *pool, uint32_t index)
{
    ASSERT(index != 0 && index < pool->fresh && pool->used > 0);
    memcpy(pool_at(pool, index), &pool->free_first, sizeof(pool->free_first));
    pool->free_first = index;
    pool->used--;
}

uint64_t pool_bytes(const struct pool *pool)
{
    return (uint64_t)pool->chunk_count * chunk_size(pool) +
           pointer_capacity(pool) * sizeof(*pool->chunks);
}
