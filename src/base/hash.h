/* Hashes: XXH3 (keyed) for tables, SipHash-2-4 for grants, crc32c (ISA-L) for bytes. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/bytes.h"

#include <stdint.h>

struct hash128 {
    uint64_t low;
    uint64_t high;
};

/* XXH3 64 with a seed: tables of this process. */
uint64_t hash_seeded(struct bytes data, uint64_t seed);

/* XXH3 128 of the key, seeded by the tenant: names a key in slots and inventories;
 * the same everywhere. */
struct hash128 hash_key(uint32_t tenant, struct bytes key);

/* SipHash-2-4 (Aumasson and Bernstein, 2012) under a 128-bit key. */
uint64_t siphash(const struct hash128 *key, const void *data, size_t size);

/* crc32c of data, continuing from the crc of what came before (0 at the start). */
uint32_t crc32c(uint32_t before, const void *data, size_t size);

#endif
