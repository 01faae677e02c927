#include "base/region.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE ((size_t)64)

static size_t rounded(size_t size)
{
    return (size + CACHE_LINE - 1) & ~(CACHE_LINE - 1);
}

void region_init(struct region *region, const struct region_source *source)
{
    *region = (struct region){.source = source};
}

void region_deinit(struct region *region)
{
    for (uint32_t i = 0; i < region->block_count; i++)
        region->source->give(region->blocks[i]);
    free(region->blocks);
    region_init(region, region->source);
}

static bool add_block(struct region *region)
{
    void *block;

    if (region->block_count == region->block_capacity) {
        uint32_t capacity = region->block_capacity == 0 ? 16 : region->block_capacity * 2;
        void **blocks = realloc(region->blocks, capacity * sizeof(*blocks));

        if (blocks == NULL)
            return false;
        region->blocks = blocks;
        region->block_capacity = capacity;
    }
    block = region->source->take();
    if (block == NULL)
        return false;
    region->blocks[region->block_count++] = block;
    region->at = block;
    region->left = REGION_BLOCK;
    return true;
}

/* A chunk of that size that came back. */
static void *take_returned(struct region *region, size_t size)
{
    for (uint32_t i = 0; i < REGION_SIZES; i++) {
        void *chunk = region->returned[i].first;

        if (region->returned[i].size != size || chunk == NULL)
            continue;
        memcpy(&region->returned[i].first, chunk, sizeof(chunk));
        return chunk;
    }
    return NULL;
}

void *region_take(struct region *region, size_t size)
{
    void *chunk;

    size = rounded(size);
    if (region == NULL || region->source == NULL)
        return aligned_alloc(CACHE_LINE, size);
    ASSERT(size > 0 && size <= REGION_BLOCK);
    chunk = take_returned(region, size);
    if (chunk != NULL)
        return chunk;
    if (region->left < size && !add_block(region))
        return NULL;
    chunk = region->at;
    region->at += size;
    region->left -= size;
    return chunk;
}

void region_give(struct region *region, void *chunk, size_t size)
{
    uint32_t i = 0;

    if (region == NULL || region->source == NULL) {
        free(chunk);
        return;
    }
    size = rounded(size);
    while (i < REGION_SIZES && region->returned[i].size != size && region->returned[i].size != 0)
        i++;
    ASSERT(i < REGION_SIZES);
    region->returned[i].size = size;
    memcpy(chunk, &region->returned[i].first, sizeof(region->returned[i].first));
    region->returned[i].first = chunk;
}
