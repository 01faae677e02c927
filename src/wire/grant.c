#include "wire/grant.h"

#include "base/codec.h"

#define GRANT_BYTES 112u

enum { PURPOSE_WRITE = 1, PURPOSE_READ = 2, PURPOSE_KEY_ID = 3 };

/* Bytes are written without looking at room: what a grant covers has a size. */
#define PUT(suffix, type, swap) \
    static uint8_t *put_##suffix(uint8_t *at, type value) \
    { \
        value = (type)swap(value); \
        memcpy(at, &value, sizeof(value)); \
        return at + sizeof(value); \
    }

PUT(u8, uint8_t, CODEC_SWAP_8)
PUT(u16, uint16_t, CODEC_SWAP_16)
PUT(u32, uint32_t, CODEC_SWAP_32)
PUT(u64, uint64_t, CODEC_SWAP_64)

static uint8_t *put_place(uint8_t *at, uint8_t purpose, const struct grant_fields *fields)
{
    at = put_u8(at, purpose);
    at = put_u32(at, fields->segment);
    at = put_u32(at, fields->slot);
    at = put_u64(at, fields->gen);
    at = put_u64(at, fields->offset);
    return put_u64(at, fields->length);
}

struct hash128 grant_extra_hash(uint32_t tenant, struct bytes extra)
{
    return extra.size == 0 ? (struct hash128){0} : hash_key(tenant, extra);
}

uint64_t grant_write_mac(const struct hash128 *secret, const struct grant_fields *fields)
{
    uint8_t data[GRANT_BYTES];
    uint8_t *at = put_place(data, PURPOSE_WRITE, fields);

    at = put_u64(at, fields->object_size);
    at = put_u64(at, fields->object_offset);
    at = put_u16(at, fields->part);
    at = put_u16(at, fields->parts);
    at = put_u8(at, fields->replica);
    at = put_u16(at, fields->flags);
    at = put_u32(at, fields->tenant);
    at = put_u64(at, fields->key.low);
    at = put_u64(at, fields->key.high);
    if (fields->extra.low != 0 || fields->extra.high != 0) {
        at = put_u64(at, fields->extra.low);
        at = put_u64(at, fields->extra.high);
    }
    return siphash(secret, data, (size_t)(at - data));
}

uint64_t grant_read_mac(const struct hash128 *secret, const struct grant_fields *fields)
{
    uint8_t data[GRANT_BYTES];
    uint8_t *at = put_place(data, PURPOSE_READ, fields);

    return siphash(secret, data, (size_t)(at - data));
}

uint32_t grant_key_id(const struct hash128 *secret)
{
    uint8_t purpose = PURPOSE_KEY_ID;

    return (uint32_t)siphash(secret, &purpose, sizeof(purpose)) | 1;
}
