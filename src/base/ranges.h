/* Ranges: which bytes have been covered, when they come in pieces and in any order.
 *
 * Problem.  A value is written by several hands; it is whole when every byte has come once.
 * Idea.     Disjoint ranges in order; one that touches its neighbours becomes one with them.  Each
 *           may carry a checksum, which is combined when ranges become one.
 * Invariants.
 *   R1  list[i].end < list[i + 1].start: neither empty, nor overlapping, nor touching.
 *   R2  count <= max.
 * Threads.  Its owner's. */
#ifndef BASE_RANGES_H
#define BASE_RANGES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t start;
    uint64_t end; /* the first byte behind it */
    uint32_t crc; /* of its bytes, if the owner keeps one */
};

struct ranges {
    struct range *list;
    uint32_t count;
    uint32_t capacity;
    uint32_t max;
    struct range only; /* where list points while one is enough: mostly.  It stays in place */
};

/* How the checksums of two ranges make that of both; size: bytes of the second. */
typedef uint32_t (*ranges_combine)(uint32_t first, uint32_t second, uint64_t size);

void ranges_init(struct ranges *ranges, uint32_t max);
void ranges_deinit(struct ranges *ranges);

/* OK (also for no bytes).  EXISTS: all of it was covered before; INVALID: a part of it was; LIMIT,
 * NO_MEMORY: then nothing is added.  combine NULL: checksums are not kept. */
MUST_CHECK enum snow_status ranges_add(struct ranges *ranges, uint64_t start, uint64_t size,
                                       uint32_t crc, ranges_combine combine);

/* What ranges_add would say, but for memory and bounds. */
enum snow_status ranges_look(const struct ranges *ranges, uint64_t start, uint64_t size);

/* Bytes 0 .. size-1 are covered. */
bool ranges_cover(const struct ranges *ranges, uint64_t size);
/* Bytes covered in all. */
uint64_t ranges_total(const struct ranges *ranges);

#endif
