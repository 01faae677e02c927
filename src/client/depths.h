/* Depths: what a client remembers of where keys stand in their chains.
 *
 * Problem.  Eviction wants to know how deep a block stands; engines put their blocks in chunks or
 *           page by page, and most do not say.
 * Idea.     They looked the chain up before, in order: what was not there then is what is put now.
 *           A table of the last 65,536 such keys, by a print of the key that a few instructions
 *           make; a younger one takes the place of an older one.
 * Invariants.
 *   D1  Two keys in a row with the same print: from then on prints are hashes of whole keys.
 *   D2  Out of memory, nothing is remembered; nothing else depends on it.
 * Threads.  The loop's.   Private to client/. */
#ifndef CLIENT_DEPTHS_H
#define CLIENT_DEPTHS_H

#include "base/bytes.h"

#include <stdbool.h>

#define CLIENT_DEPTHS (1u << 16)

struct client_depth {
    uint32_t tag; /* lower half of the print */
    uint32_t depth;
};

struct client_depths {
    struct client_depth *table; /* NULL: nothing was remembered yet */
    uint64_t last;              /* print of the last key */
    uint32_t last_depth;
    bool whole; /* D1 */
};

/* Zeroed before first use. */
void client_depths_deinit(struct client_depths *depths);

/* This key stands there in its chain, and was not found. */
void client_depths_note(struct client_depths *depths, struct bytes key, uint32_t depth);
/* SNOW_DEPTH_UNKNOWN: not remembered. */
uint32_t client_depths_find(const struct client_depths *depths, struct bytes key);

#endif
