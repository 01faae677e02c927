#include "wire/frame.h"

#include "base/codec.h"
#include "base/hash.h"
#include "base/limits.h"
#include "wire/messages.h"

#define CRC_OFFSET (FRAME_HEADER_SIZE - 4)

const char *frame_reason_text(enum frame_reason reason)
{
    switch (reason) {
#define FRAME_REASON(name, text) \
    case FRAME_REASON_##name: \
        return text;
        FRAME_REASONS
#undef FRAME_REASON
    case FRAME_REASON_COUNT:
        break;
    }
    return "?";
}

static bool within_limits(const struct frame_header *header)
{
    if (header->body_size > LIMIT_BODY_SIZE || header->payload_size > LIMIT_PAYLOAD_SIZE ||
        header->term > WIRE_TERM_MAX)
        return false;
    switch (header->kind) {
    case FRAME_CANCEL:
        return header->body_size == 0 && header->payload_size == 0;
    case FRAME_ONEWAY:
        return header->payload_size == 0;
    default:
        return true;
    }
}

enum frame_reason frame_header_decode(struct bytes data, struct frame_header *header)
{
    struct frame_header read;
    struct reader reader;

    if (data.size < FRAME_HEADER_SIZE)
        return FRAME_REASON_SHORT;
    reader_init(&reader, bytes_of(data.at, FRAME_HEADER_SIZE), 0);
    uint32_t magic = reader_u32(&reader);
    read.version = reader_u8(&reader);
    read.kind = reader_u8(&reader);
    read.type = reader_u16(&reader);
    read.body_size = reader_u32(&reader);
    read.deadline_ms = reader_u32(&reader);
    read.request_id = reader_u64(&reader);
    read.payload_size = reader_u64(&reader);
    read.term = reader_u32(&reader);
    read.status = reader_i32(&reader);
    read.body_crc = reader_u32(&reader);
    uint32_t header_crc = reader_u32(&reader);

    if (magic != FRAME_MAGIC)
        return FRAME_REASON_BAD_MAGIC;
    if (header_crc != crc32c(0, data.at, CRC_OFFSET))
        return FRAME_REASON_BAD_HEADER_CRC;
    if (read.version < WIRE_VERSION_MIN || read.version > WIRE_VERSION)
        return FRAME_REASON_BAD_VERSION;
    if (read.kind < FRAME_REQUEST || read.kind > FRAME_ONEWAY)
        return FRAME_REASON_BAD_KIND;
    if (!within_limits(&read))
        return FRAME_REASON_OVER_LIMIT;
    *header = read;
    return FRAME_REASON_OK;
}

enum frame_reason frame_body_check(const struct frame_header *header, struct bytes body)
{
    if (body.size != header->body_size)
        return FRAME_REASON_SHORT;
    return crc32c(0, body.at, body.size) == header->body_crc ? FRAME_REASON_OK
                                                             : FRAME_REASON_BAD_BODY_CRC;
}

void frame_header_set_body(struct frame_header *header, struct bytes body)
{
    header->body_size = (uint32_t)body.size;
    header->body_crc = crc32c(0, body.at, body.size);
}

void frame_header_encode(const struct frame_header *header, uint8_t to[FRAME_HEADER_SIZE])
{
    struct writer writer;

    writer_init(&writer, to, FRAME_HEADER_SIZE, 0);
    writer_u32(&writer, FRAME_MAGIC);
    writer_u8(&writer, header->version);
    writer_u8(&writer, header->kind);
    writer_u16(&writer, header->type);
    writer_u32(&writer, header->body_size);
    writer_u32(&writer, header->deadline_ms);
    writer_u64(&writer, header->request_id);
    writer_u64(&writer, header->payload_size);
    writer_u32(&writer, header->term);
    writer_i32(&writer, header->status);
    writer_u32(&writer, header->body_crc);
    writer_u32(&writer, crc32c(0, to, CRC_OFFSET));
}
