/* Pools of equal-sized items named by 32-bit index: half the size of pointers, and stable while
 * the pool grows.
 *
 * Idea.  Chunks of 2^chunk_bits items, added one at a time and never moved: growing costs no
 *        doubling.  Free items form a stack through their first four bytes.
 * Index 0 is never given: it stands for "none". */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/region.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pool {
    struct region *region; /* NULL: malloc */
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_bits;
    uint32_t item_size;  /* bytes, at least 4 */
    uint32_t used;       /* items given out */
    uint32_t fresh;      /* indexes at and above were never given */
    uint32_t free_first; /* stack of returned items, 0: none */
    uint32_t count_max;  /* items at most */
};

/* region: where chunks come from, NULL: malloc.  count_max: bound on items.  Allocates nothing
 * yet. */
void pool_init(struct pool *pool, struct region *region, uint32_t item_size, uint32_t chunk_bits,
               uint32_t count_max);
void pool_deinit(struct pool *pool);

/* A zeroed item.  LIMIT: count_max reached.  NO_MEMORY. */
MUST_CHECK enum snow_status pool_take(struct pool *pool, uint32_t *index);
void pool_give(struct pool *pool, uint32_t index);

/* Bytes of memory the pool holds. */
uint64_t pool_bytes(const struct pool *pool);

static inline void *pool_at(const struct pool *pool, uint32_t index)
{
    return pool->chunks[index >> pool->chunk_bits] +
           (size_t)(index & ((1u << pool->chunk_bits) - 1)) * pool->item_size;
}

#endif
