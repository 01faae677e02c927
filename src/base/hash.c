#include "base/hash.h"

#define XXH_INLINE_ALL
#include <isa-l/crc.h>
#include <xxhash.h>

uint64_t hash_seeded(struct bytes data, uint64_t seed)
{
    return XXH3_64bits_withSeed(data.at, data.size, seed);
}

/* The tenant is the seed of the 128-bit hash: no copy of the key is made. */
struct hash128 hash_key(uint32_t tenant, struct bytes key)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(key.at, key.size, tenant);

    return (struct hash128){.low = hash.low64, .high = hash.high64};
}

static uint64_t load_le(const uint8_t *at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static void sip_rounds(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[3];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
    }
}

uint64_t siphash(const struct hash128 *key, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t last = (uint64_t)size << 56;
    uint64_t v[4] = {key->low ^ UINT64_C(0x736f6d6570736575),
                     key->high ^ UINT64_C(0x646f72616e646f6d),
                     key->low ^ UINT64_C(0x6c7967656e657261),
                     key->high ^ UINT64_C(0x7465646279746573)};

    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word = load_le(at, 8);

        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    last |= load_le(at, size);
    v[3] ^= last;
    sip_rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint32_t crc32c(uint32_t before, const void *data, size_t size)
{
    const size_t piece_max = (size_t)1 << 30; /* ISA-L counts in int */
    const uint8_t *at = data;
    uint32_t crc = ~before;

    while (size > 0) {
        size_t piece = size < piece_max ? size : piece_max;

        /* ISA-L leaves out the inversions and wants a pointer that is not const; it only reads. */
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)piece, crc);
        at += piece;
        size -= piece;
    }
    return ~crc;
}
