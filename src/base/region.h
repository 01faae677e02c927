/* Regions: where tables that grow take their chunks from.
 *
 * Problem.  A table of millions of records grows page by page and is looked at in random order: a
 *           fault for every page, and a walk of the page table for every look.
 * Idea.     Chunks are cut from large blocks that whoever runs the tables provides, on large pages
 *           where the system has them.  A chunk that comes back waits for the next one of its size;
 *           blocks go back all together.
 * Threads.  The owner's. */
#ifndef BASE_REGION_H
#define BASE_REGION_H

#include <stddef.h>
#include <stdint.h>

#define REGION_BLOCK ((size_t)2 << 20)
#define REGION_SIZES 12u /* different sizes of chunks, at most */

/* Who gives blocks: zeroed, REGION_BLOCK bytes each, aligned to that. */
struct region_source {
    void *(*take)(void); /* NULL: no memory */
    void (*give)(void *block);
};

struct region {
    const struct region_source *source;
    void **blocks;
    uint32_t block_count;
    uint32_t block_capacity;
    uint8_t *at; /* what is left of the newest block */
    size_t left;
    struct {
        size_t size;
        void *first; /* stack of chunks that came back: the first word of each names the next */
    } returned[REGION_SIZES];
};

/* source NULL: chunks are malloc's. */
void region_init(struct region *region, const struct region_source *source);
/* All chunks end; with source NULL each has to be given back before. */
void region_deinit(struct region *region);

/* A chunk, aligned to a cache line; what is in it is not told.  region NULL: malloc's.  NULL: no
 * memory. */
void *region_take(struct region *region, size_t size);
/* size: as it was taken. */
void region_give(struct region *region, void *chunk, size_t size);

#endif
