#include "wire/grant.h"

#include "base/codec.h"

#define GRANT_BYTES 96u

enum { PURPOSE_WRITE = 1, PURPOSE_READ = 2, PURPOSE_KEY_ID = 3 };

static void put_place(struct writer *writer, uint8_t purpose, const struct grant_fields *fields)
{
    writer_u8(writer, purpose);
    writer_u32(writer, fields->segment);
    writer_u32(writer, fields->slot);
    writer_u64(writer, fields->gen);
    writer_u64(writer, fields->offset);
    writer_u64(writer, fields->length);
}

uint64_t grant_write_mac(const struct hash128 *secret, const struct grant_fields *fields)
{
    uint8_t data[GRANT_BYTES];
    struct writer writer;

    writer_init(&writer, data, sizeof(data), 1);
    put_place(&writer, PURPOSE_WRITE, fields);
    writer_u64(&writer, fields->object_size);
    writer_u64(&writer, fields->object_offset);
    writer_u16(&writer, fields->part);
    writer_u16(&writer, fields->parts);
    writer_u8(&writer, fields->replica);
    writer_u16(&writer, fields->flags);
    writer_u32(&writer, fields->tenant);
    writer_u64(&writer, fields->key.low);
    writer_u64(&writer, fields->key.high);
    return siphash(secret, data, writer_size(&writer));
}

uint64_t grant_read_mac(const struct hash128 *secret, const struct grant_fields *fields)
{
    uint8_t data[GRANT_BYTES];
    struct writer writer;

    writer_init(&writer, data, sizeof(data), 1);
    put_place(&writer, PURPOSE_READ, fields);
    return siphash(secret, data, writer_size(&writer));
}

uint32_t grant_key_id(const struct hash128 *secret)
{
    uint8_t purpose = PURPOSE_KEY_ID;

    return (uint32_t)siphash(secret, &purpose, sizeof(purpose)) | 1;
}
