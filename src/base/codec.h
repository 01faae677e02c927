/* Straight-line reading and writing of little-endian bytes: both latch their first error, one test
 * at the end.
 *
 * Invariants.  C1  After an error a reader returns zeroes and a writer writes nothing.
 *              C2  No length from the bytes is believed before it is checked against what is
 *                  left. */
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
};

struct writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    uint32_t version;
    bool failed; /* there was not enough room */
};

void reader_init(struct reader *reader, struct bytes data, uint32_t version);
uint8_t reader_u8(struct reader *reader);
uint16_t reader_u16(struct reader *reader);
uint32_t reader_u32(struct reader *reader);
uint64_t reader_u64(struct reader *reader);
/* u16 length, then that many; a view into the data */
struct bytes reader_bytes(struct reader *reader);
static inline size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

void writer_init(struct writer *writer, void *to, size_t size, uint32_t version);
void writer_u8(struct writer *writer, uint8_t value);
void writer_u16(struct writer *writer, uint16_t value);
void writer_u32(struct writer *writer, uint32_t value);
void writer_u64(struct writer *writer, uint64_t value);
void writer_bytes(struct writer *writer, struct bytes data); /* at most 65,535 */
static inline size_t writer_size(const struct writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

#endif
