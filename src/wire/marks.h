/* Marks: what a client has inside a node's memory now, where the node can see it.
 *
 * Problem.  A view, or a copy under way, uses memory that the node may want to give out again; a
 *           message for each, and one for its end, would cost more than the copy.
 * Idea.     The client makes a table and hands it to the node.  It marks an extent before it uses
 *           it and then looks whether the slot is still as it was told; the node changes the slot
 *           and then looks at the marks.  A full fence between the two steps on both sides: one of
 *           them sees the other.  The table ends with its process, or with its last mark.
 * Invariants.
 *   K1  A client uses an extent only while it is marked, and only after the look that came after
 *       the mark.
 *   K2  A node gives an extent up as FREED only after a look at the marks that came after the slot
 *       was closed (or its floor raised), and found none of that gen or an older one.
 *   K3  Nothing that stands in a table can harm more than the one who wrote it: its space is not
 *       given out while it says so.
 * Threads.  A mark is its holder's; the node reads at any time. */
#ifndef WIRE_MARKS_H
#define WIRE_MARKS_H

#include <stdint.h>

#define MARKS_COUNT 4096u

struct mark {
    uint64_t gen; /* 0: free.  Set last, cleared first */
    uint64_t offset;
    uint64_t length;
    uint32_t segment;
    uint32_t slot;
};

/* As it lies in shared memory. */
struct marks {
    uint32_t end; /* no mark at or above was ever set */
    uint32_t spare[15];
    struct mark marks[MARKS_COUNT];
};

/* Sets a free mark.  What the slot says is to be read after this. */
static inline void mark_set(struct mark *mark, uint32_t segment, uint32_t slot, uint64_t gen,
                            uint64_t offset, uint64_t length)
{
    mark->segment = segment;
    mark->slot = slot;
    mark->offset = offset;
    mark->length = length;
    __atomic_store_n(&mark->gen, gen, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* What was done under it is over. */
static inline void mark_clear(struct mark *mark)
{
    __atomic_store_n(&mark->gen, 0, __ATOMIC_RELEASE);
}

#endif
