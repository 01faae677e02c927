/* Memory with the lifetime of one piece of work (a decoded message, the outputs of a step): take
 * many, free at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *block; /* newest */
    size_t used;               /* bytes taken in it */
    size_t total;              /* bytes of all blocks */
    size_t size_max;           /* bound on total; 0: none */
};

void arena_init(struct arena *arena, size_t size_max);
/* Frees all that was taken; keeps one block for the next piece of work. */
void arena_reset(struct arena *arena);
void arena_deinit(struct arena *arena);

/* Zeroed, aligned to 16 bytes.  NULL: out of memory, or above size_max. */
void *arena_take(struct arena *arena, size_t size);
/* An array of count items; NULL also when count * size overflows. */
void *arena_array(struct arena *arena, size_t count, size_t size);

#endif
