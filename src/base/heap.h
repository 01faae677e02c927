/* An intrusive priority queue ordered by (time, order): timers of a loop, events of a world.
 *
 * Idea.  A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986): being in it costs no
 * allocation and can not fail.  Push O(1); pop and remove O(log n) on average.
 * Invariants.
 *   H1  The first is the least by at_ns, then by order: never by address.
 *   H2  A link is either out (queued false) or in exactly one heap. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_link {
    uint64_t at_ns;           /* when it is due */
    uint64_t order;           /* among equal times: the lower first */
    struct heap_link *child;  /* first of those that come after it */
    struct heap_link *next;   /* next sibling */
    struct heap_link *before; /* previous sibling, or the parent of the first */
    bool queued;
};

/* Zeroed is empty. */
struct heap {
    struct heap_link *first; /* NULL: empty */
    size_t count;
};

/* Pushes a link whose at_ns and order are set. */
void heap_push(struct heap *heap, struct heap_link *link);

/* Takes a link out, wherever it is. */
void heap_remove(struct heap *heap, struct heap_link *link);

#endif
