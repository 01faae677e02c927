#include "base/codec.h"

void reader_init(struct reader *reader, struct bytes data, uint32_t version)
{
    reader->at = data.at;
    reader->end = data.size == 0 ? data.at : data.at + data.size;
    reader->version = version;
    reader->failed = false;
    reader->no_memory = false;
}

struct bytes reader_bytes(struct reader *reader)
{
    size_t size = reader_u16(reader);

    if (reader->failed || size > reader_left(reader)) {
        reader_fail(reader);
        return bytes_of(NULL, 0);
    }
    struct bytes view = bytes_of(reader->at, size);
    if (size > 0)
        reader->at += size;
    return view;
}

uint32_t reader_count(struct reader *reader, size_t item_size_min, uint32_t count_max)
{
    uint32_t count = reader_u16(reader);

    if (count > count_max || count * item_size_min > reader_left(reader)) {
        reader_fail(reader);
        return 0;
    }
    return count;
}

void writer_init(struct writer *writer, void *to, size_t size, uint32_t version)
{
    writer->start = to;
    writer->at = to;
    writer->end = size == 0 ? writer->start : writer->start + size;
    writer->version = version;
    writer->failed = false;
}

void writer_bytes(struct writer *writer, struct bytes data)
{
    if (data.size > UINT16_MAX) {
        writer_fail(writer);
        return;
    }
    writer_u16(writer, (uint16_t)data.size);
    if ((size_t)(writer->end - writer->at) < data.size) {
        writer_fail(writer);
        return;
    }
    if (data.size > 0) {
        memcpy(writer->at, data.at, data.size);
        writer->at += data.size;
    }
}

void writer_count(struct writer *writer, uint32_t count, uint32_t count_max)
{
    if (count > count_max || count > UINT16_MAX) {
        writer_fail(writer);
        return;
    }
    writer_u16(writer, (uint16_t)count);
}
