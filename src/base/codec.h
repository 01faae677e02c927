/* Straight-line reading and writing of little-endian bytes: both latch their first error, one test
 * at the end.
 *
 * Invariants.  C1  After an error a reader returns zeroes and a writer writes nothing.
 *              C2  No length from the bytes is believed before it is compared with what is left. */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t version; /* of the protocol the bytes are in */
    bool failed;
    bool no_memory; /* it failed because there was no memory for what the bytes tell */
};

struct writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    uint32_t version;
    bool failed; /* there was not enough room, or a length is above its bound */
};

void reader_init(struct reader *reader, struct bytes data, uint32_t version);
/* u16 length, then that many; a view into the data. */
struct bytes reader_bytes(struct reader *reader);
/* u16 number of items that follow, each of at least item_size_min bytes; more than count_max, or
 * more than the bytes that are left can hold: an error. */
uint32_t reader_count(struct reader *reader, size_t item_size_min, uint32_t count_max);

static inline size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

void writer_init(struct writer *writer, void *to, size_t size, uint32_t version);
void writer_bytes(struct writer *writer, struct bytes data); /* at most 65,535 */
void writer_count(struct writer *writer, uint32_t count, uint32_t count_max);

static inline size_t writer_size(const struct writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

/* After an error nothing is left, so that nothing but that has to be looked at. */
static inline void reader_fail(struct reader *reader)
{
    reader->failed = true;
    reader->at = reader->end;
}

static inline void writer_fail(struct writer *writer)
{
    writer->failed = true;
    writer->end = writer->at;
}

/* The integers are inline: a batch of a thousand items has ten thousand of them. */
#define CODEC_INTEGER(suffix, type, unsigned_type, from_little_endian) \
    static inline type reader_##suffix(struct reader *reader) \
    { \
        unsigned_type value; \
        if (reader_left(reader) < sizeof(value)) { \
            reader_fail(reader); \
            return 0; \
        } \
        memcpy(&value, reader->at, sizeof(value)); \
        reader->at += sizeof(value); \
        return (type)from_little_endian(value); \
    } \
    static inline void writer_##suffix(struct writer *writer, type value) \
    { \
        unsigned_type bytes = from_little_endian((unsigned_type)value); \
        if ((size_t)(writer->end - writer->at) < sizeof(bytes)) { \
            writer_fail(writer); \
            return; \
        } \
        memcpy(writer->at, &bytes, sizeof(bytes)); \
        writer->at += sizeof(bytes); \
    }

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CODEC_SWAP_16(value) (value)
#define CODEC_SWAP_32(value) (value)
#define CODEC_SWAP_64(value) (value)
#else
#define CODEC_SWAP_16(value) __builtin_bswap16(value)
#define CODEC_SWAP_32(value) __builtin_bswap32(value)
#define CODEC_SWAP_64(value) __builtin_bswap64(value)
#endif
#define CODEC_SWAP_8(value) (value)

CODEC_INTEGER(u8, uint8_t, uint8_t, CODEC_SWAP_8)
CODEC_INTEGER(u16, uint16_t, uint16_t, CODEC_SWAP_16)
CODEC_INTEGER(u32, uint32_t, uint32_t, CODEC_SWAP_32)
CODEC_INTEGER(u64, uint64_t, uint64_t, CODEC_SWAP_64)
CODEC_INTEGER(i32, int32_t, uint32_t, CODEC_SWAP_32)

#endif
