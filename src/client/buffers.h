/* The caller's memory of an object: one buffer, or several, one after the other.
 *
 * A single buffer is a list of one: there is one path (client/put.c, client/get.c).
 * Threads.  The loop's.   Private to client/. */
#ifndef CLIENT_BUFFERS_H
#define CLIENT_BUFFERS_H

#include "base/arena.h"
#include "base/assert.h"
#include "snowskin/snowskin.h"
#include "transport/transport.h"

struct client_buffers {
    const struct snow_buffer *list;
    size_t count;
    struct snow_buffer only; /* where list may point */
};

/* Of an item that names `at` and size, or a list.  OK; INVALID: both, neither with bytes to move,
 * or a list that has not `size` bytes in all; LIMIT: too long a list. */
MUST_CHECK enum snow_status client_buffers_set(struct client_buffers *buffers, const void *at,
                                               size_t size, const struct snow_buffer *list,
                                               size_t count);

/* Whether some of them lie in this memory. */
bool client_buffers_meet(const struct client_buffers *buffers, const uint8_t *at, size_t size);

/* Gives the item its memory: bytes [start, start + item->size) of the buffers.  NO_MEMORY. */
MUST_CHECK enum snow_status client_buffers_cut(const struct client_buffers *buffers, uint64_t start,
                                               struct arena *arena, struct transport_item *item);

#endif
