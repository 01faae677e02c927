/* Bringing memory into the cache ahead of its turn.
 *
 * Idea.  A batch looks at cold lines that lie anywhere.  Loads in a row that nothing waits for
 *        overlap, and so do the walks of the page tables behind them.  A prefetch instruction does
 *        not do that: where the page's entry is cold as well, processors drop it or stall on it. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdint.h>

/* Begins to load the line of a byte that may be read. */
static inline void cache_touch(const void *at)
{
    (void)*(const volatile uint8_t *)at;
}

#endif
