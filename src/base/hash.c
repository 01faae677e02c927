#include "base/hash.h"

#define XXH_INLINE_ALL
#include <isa-l/crc.h>
#include <xxhash.h>

#define CRC_PIECE ((size_t)8192)
#define CRC_LINE 64u

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

    memcpy(&value, at, size);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

struct sip {
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t d;
};

static inline struct sip sip_round(struct sip v)
{
    v.a += v.b;
    v.b = rotate_left(v.b, 13) ^ v.a;
    v.a = rotate_left(v.a, 32);
    v.c += v.d;
    v.d = rotate_left(v.d, 16) ^ v.c;
    v.a += v.d;
    v.d = rotate_left(v.d, 21) ^ v.a;
    v.c += v.b;
    v.b = rotate_left(v.b, 17) ^ v.c;
    v.c = rotate_left(v.c, 32);
    return v;
}

static inline struct sip sip_word(struct sip v, uint64_t word)
{
    v.d ^= word;
    v = sip_round(sip_round(v));
    v.a ^= word;
    return v;
}

uint64_t siphash(const struct hash128 *key, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t last = (uint64_t)size << 56;
    struct sip v = {.a = key->low ^ UINT64_C(0x736f6d6570736575),
                    .b = key->high ^ UINT64_C(0x646f72616e646f6d),
                    .c = key->low ^ UINT64_C(0x6c7967656e657261),
                    .d = key->high ^ UINT64_C(0x7465646279746573)};

    for (; size >= 8; size -= 8, at += 8)
        v = sip_word(v, load_le(at, 8));
    v = sip_word(v, last | load_le(at, size));
    v.c ^= 0xff;
    v = sip_round(sip_round(sip_round(sip_round(v))));
    return v.a ^ v.b ^ v.c ^ v.d;
}

/* What comes after the piece that is summed up now is fetched meanwhile: a checksum runs faster
 * than a processor fetches lines of its own accord. */
static void fetch_ahead(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i += CRC_LINE)
        __builtin_prefetch(at + i);
}

/* ISA-L's routines for wide registers return with the upper halves of these in use.  Until they are
 * cleared, the next instruction of the older sort (our own code is compiled to such) waits 100 ns
 * and more: Intel's optimization manual, "mixing SSE code with AVX". */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
    __builtin_ia32_vzeroupper();
}

static void leave_wide_registers(void)
{
    if (__builtin_cpu_supports("avx"))
        clear_upper_halves();
}
#else
static void leave_wide_registers(void)
{
}
#endif

uint32_t crc32c(uint32_t before, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint32_t crc = ~before;

    while (size > 0) {
        size_t piece = size < CRC_PIECE ? size : CRC_PIECE;
        size_t next = size - piece < CRC_PIECE ? size - piece : CRC_PIECE;

        fetch_ahead(at + piece, next);
        /* ISA-L leaves out the inversions and wants a pointer that is not const; it only reads. */
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)piece, crc);
        at += piece;
        size -= piece;
    }
    leave_wide_registers();
    return ~crc;
}
