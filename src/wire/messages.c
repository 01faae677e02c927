/* Messages: the tables expanded to code, and the look-up by number.
 *
 * Problem.  Both ends of a connection must agree on every byte, for years, with other versions of
 *           themselves; and each message needs the same five functions.
 * Idea.     The tables are the only place where a field stands; expand_functions.h makes the code.
 *           By number, a table of function pointers over the same rows.
 * Invariants.
 *   W1  A number names one message: the switch of wire_type_find does not compile otherwise.
 *   W2  Reader and writer latch their errors; the status is made at one place, at the end.
 * Threads.  Pure. */
#include "wire/messages.h"

#include "base/assert.h"
#include "base/limits.h"

#define WIRE_TABLE "wire/tables.def"
#include "wire/expand_functions.h"
#undef WIRE_TABLE

/* ---- records -------------------------------------------------------------------------------- */

#define FIELD(type, name)
#define LIST(record, name)
#define LATER(since)
#define END(name)
#define RPC(name, number, server, repeat)
#define ONEWAY(name, number, server)

#define RECORD(name) \
    static void encode_##name(struct writer *writer, const void *message) \
    { \
        wire_##name##_encode(writer, message); \
    } \
    static void decode_##name(struct reader *reader, struct arena *arena, void *message) \
    { \
        wire_##name##_decode(reader, arena, message); \
    } \
    static void print_##name(struct text *text, const void *message) \
    { \
        wire_##name##_print(text, message); \
    } \
    static void random_##name(struct rng *rng, struct arena *arena, void *message) \
    { \
        wire_##name##_random(rng, arena, message); \
    }
#include "wire/tables.def"
#undef RECORD

enum record_index {
#define RECORD(name) RECORD_##name,
#include "wire/tables.def"
#undef RECORD
    RECORD_COUNT
};

static const struct wire_record records[RECORD_COUNT] = {
#define RECORD(name) \
    {#name, sizeof(struct wire_##name), encode_##name, decode_##name, print_##name, random_##name},
#include "wire/tables.def"
#undef RECORD
};

#undef RPC
#undef ONEWAY

/* ---- messages ------------------------------------------------------------------------------- */

#define RECORD(name)

enum type_index {
#define RPC(name, number, server, repeat) TYPE_##name,
#define ONEWAY(name, number, server) TYPE_##name,
#include "wire/tables.def"
#undef RPC
#undef ONEWAY
    TYPE_COUNT
};

static const struct wire_message_type types[TYPE_COUNT] = {
#define RPC(name, number, server, repeat) \
    {(number), \
     #name, \
     WIRE_KIND_RPC, \
     WIRE_SERVER_##server, \
     WIRE_REPEAT_##repeat, \
     &records[RECORD_##name##_req], \
     &records[RECORD_##name##_rep]},
#define ONEWAY(name, number, server) \
    {(number), \
     #name, \
     WIRE_KIND_ONEWAY, \
     WIRE_SERVER_##server, \
     WIRE_REPEAT_SAFE_TO_REPEAT, \
     &records[RECORD_##name##_msg], \
     NULL},
#include "wire/tables.def"
#undef RPC
#undef ONEWAY
};

#define RPC(name, number, server, repeat) \
    _Static_assert((number) > 0 && (number) <= UINT16_MAX, "number of " #name);
#define ONEWAY(name, number, server) RPC(name, number, server, )
#include "wire/tables.def"
#undef RPC
#undef ONEWAY

const struct wire_message_type *wire_type_find(uint16_t number)
{
    switch (number) {
#define RPC(name, number, server, repeat) \
    case (number): \
        return &types[TYPE_##name];
#define ONEWAY(name, number, server) RPC(name, number, server, )
#include "wire/tables.def"
#undef RPC
#undef ONEWAY
    default:
        return NULL;
    }
}

#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

uint32_t wire_record_count(void)
{
    return RECORD_COUNT;
}

const struct wire_record *wire_record_at(uint32_t index)
{
    ASSERT(index < RECORD_COUNT);
    return &records[index];
}

uint32_t wire_type_count(void)
{
    return TYPE_COUNT;
}

const struct wire_message_type *wire_type_at(uint32_t index)
{
    ASSERT(index < TYPE_COUNT);
    return &types[index];
}

const char *wire_type_name(uint16_t number)
{
    const struct wire_message_type *type = wire_type_find(number);

    return type == NULL ? "?" : type->name;
}

/* ---- decode and encode ---------------------------------------------------------------------- */

enum snow_status wire_record_decode(const struct wire_record *record, struct bytes data,
                                    uint32_t version, struct arena *arena, void **message)
{
    struct reader reader;
    void *decoded = arena_take(arena, record->size);

    if (decoded == NULL)
        return SNOW_NO_MEMORY;
    reader_init(&reader, data, version);
    record->decode(&reader, arena, decoded);
    if (reader.failed)
        return reader.no_memory ? SNOW_NO_MEMORY : SNOW_INVALID;
    if (reader_left(&reader) > 0 && version <= WIRE_VERSION)
        return SNOW_INVALID;
    *message = decoded;
    return SNOW_OK;
}

/* The record of a message, NULL when the number is not one of that kind. */
static const struct wire_record *record_of(uint16_t number, enum wire_kind kind, bool reply)
{
    const struct wire_message_type *type = wire_type_find(number);

    if (type == NULL || type->kind != kind)
        return NULL;
    return reply ? type->reply : type->request;
}

static enum snow_status decode(const struct wire_record *record, struct bytes body,
                               uint32_t version, struct arena *arena, void **message)
{
    return record == NULL ? SNOW_INVALID
                          : wire_record_decode(record, body, version, arena, message);
}

static enum snow_status encode(const struct wire_record *record, const void *message,
                               struct writer *writer)
{
    if (record == NULL)
        return SNOW_INVALID;
    record->encode(writer, message);
    return writer->failed ? SNOW_LIMIT : SNOW_OK;
}

enum snow_status wire_request_decode(uint16_t number, struct bytes body, uint32_t version,
                                     struct arena *arena, void **message)
{
    return decode(record_of(number, WIRE_KIND_RPC, false), body, version, arena, message);
}

enum snow_status wire_reply_decode(uint16_t number, struct bytes body, uint32_t version,
                                   struct arena *arena, void **message)
{
    return decode(record_of(number, WIRE_KIND_RPC, true), body, version, arena, message);
}

enum snow_status wire_oneway_decode(uint16_t number, struct bytes body, uint32_t version,
                                    struct arena *arena, void **message)
{
    return decode(record_of(number, WIRE_KIND_ONEWAY, false), body, version, arena, message);
}

enum snow_status wire_request_encode(uint16_t number, const void *message, struct writer *writer)
{
    return encode(record_of(number, WIRE_KIND_RPC, false), message, writer);
}

enum snow_status wire_reply_encode(uint16_t number, const void *message, struct writer *writer)
{
    return encode(record_of(number, WIRE_KIND_RPC, true), message, writer);
}

enum snow_status wire_oneway_encode(uint16_t number, const void *message, struct writer *writer)
{
    return encode(record_of(number, WIRE_KIND_ONEWAY, false), message, writer);
}
