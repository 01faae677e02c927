/* Key bytes by 32-bit reference: {length, bytes} rounded up to 8, in size classes cut from 64 KiB
 * chunks.  A 64-byte key takes 72 bytes.
 * Threads.  The core's own. */
#ifndef CORE_KEYS_H
#define CORE_KEYS_H

#include "base/bytes.h"
#include "base/region.h"
#include "base/status.h"

#include <stdint.h>

struct keys;

MUST_CHECK enum snow_status keys_create(struct region *region, struct keys **keys);
void keys_destroy(struct keys *keys);

/* Keeps a copy of 1 .. LIMIT_KEY_SIZE bytes (else INVALID); reference 0 is never given.  NO_MEMORY,
 * LIMIT (32 GiB of keys). */
MUST_CHECK enum snow_status keys_take(struct keys *keys, struct bytes key, uint32_t *reference);
void keys_give(struct keys *keys, uint32_t reference);
struct bytes keys_at(const struct keys *keys, uint32_t reference);
/* Brings a key into the cache, for batches. */
void keys_touch(const struct keys *keys, uint32_t reference);
uint64_t keys_memory(const struct keys *keys); /* bytes */

#endif
