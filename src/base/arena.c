/* Arenas: memory that is taken piece by piece and freed at once.
 *
 * Problem.  A decoded message or a step's outputs are many small pieces with one end of life.
 * Idea.     Blocks that double in size; a piece is cut from the newest.  Reset keeps the newest,
 *           which is the largest, so that a steady load allocates nothing.
 * Invariants.
 *   A1  `total` is the sum of the sizes of all blocks and never above size_max (0: no bound).
 *   A2  Bytes given out are zero and aligned to 16.
 * Threads.  The caller's.
 */
#include "base/arena.h"

#include "base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The first block: with its head, of a size that malloc keeps at hand for each thread. */
#define BLOCK_SIZE_MIN ((size_t)992)
#define BLOCK_SIZE_MAX ((size_t)1 << 20)
#define ALIGNMENT ((size_t)16)

struct arena_block {
    struct arena_block *older;
    size_t size; /* bytes in `bytes` */
    _Alignas(16) unsigned char bytes[];
};

void arena_init(struct arena *arena, size_t size_max)
{
    *arena = (struct arena){.size_max = size_max};
}

static void free_older(struct arena *arena, struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *older = block->older;

        arena->total -= block->size;
        free(block);
        block = older;
    }
}

void arena_reset(struct arena *arena)
{
    arena->used = 0;
    if (arena->block == NULL)
        return;
    free_older(arena, arena->block->older);
    arena->block->older = NULL;
}

void arena_deinit(struct arena *arena)
{
    free_older(arena, arena->block);
    ASSERT(arena->total == 0);
    arena->block = NULL;
    arena->used = 0;
}

/* A new newest block with room for size bytes: twice the last one where the bound allows. */
static bool add_block(struct arena *arena, size_t size)
{
    size_t wanted = arena->block == NULL ? BLOCK_SIZE_MIN : arena->block->size * 2;
    size_t room = arena->size_max == 0 ? SIZE_MAX - arena->total : arena->size_max - arena->total;

    if (wanted > BLOCK_SIZE_MAX)
        wanted = BLOCK_SIZE_MAX;
    if (wanted > room)
        wanted = room;
    if (wanted < size)
        wanted = size;
    if (wanted > room || wanted > SIZE_MAX - sizeof(struct arena_block))
        return false;
    struct arena_block *block = malloc(sizeof *block + wanted);

    if (block == NULL)
        return false;
    block->older = arena->block;
    block->size = wanted;
    arena->block = block;
    arena->total += wanted;
    arena->used = 0;
    return true;
}

void *arena_take(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT)
        return NULL;
    size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (arena->block == NULL || arena->block->size - arena->used < size) {
        if (!add_block(arena, size))
            return NULL;
    }
    void *at = arena->block->bytes + arena->used;

    arena->used += size;
    memset(at, 0, size);
    return at;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return arena_take(arena, total);
}
