/* Expands the tables in the file WIRE_TABLE to the functions that expand_structs.h declares.  No
 * guard: included by one .c file for each set of tables. */

#include "wire/values.h"

#define RPC(name, number, server, repeat)
#define ONEWAY(name, number, server)

/* ---- encode --------------------------------------------------------------------------------- */

#define RECORD(name) \
    void wire_##name##_encode(struct writer *writer, const struct wire_##name *message) \
    {
#define FIELD(type, name) writer_##type(writer, message->name);
#define LIST(record, name) \
    writer_count(writer, message->name##_count, WIRE_LIST_COUNT_MAX); \
    for (uint32_t i = 0; i < message->name##_count && !writer->failed; i++) \
        wire_##record##_encode(writer, &message->name[i]);
#define LATER(since) \
    if (writer->version < (since)) \
        return;
#define END(name) }
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

/* ---- decode --------------------------------------------------------------------------------- */

#define RECORD(name) \
    void wire_##name##_decode(struct reader *reader, struct arena *arena, \
                              struct wire_##name *message) \
    { \
        (void)arena; \
        *message = (struct wire_##name){0};
#define FIELD(type, name) message->name = reader_##type(reader);
#define LIST(record, name) \
    message->name##_count = \
        reader_count(reader, wire_##record##_size_min(reader->version), WIRE_LIST_COUNT_MAX); \
    message->name = \
        wire_list_take(reader, arena, &message->name##_count, sizeof(struct wire_##record)); \
    for (uint32_t i = 0; i < message->name##_count && !reader->failed; i++) \
        wire_##record##_decode(reader, arena, &message->name[i]);
#define LATER(since) \
    if (reader->version < (since)) \
        return;
#define END(name) }
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

/* ---- print ---------------------------------------------------------------------------------- */

#define RECORD(name) \
    void wire_##name##_print(struct text *text, const struct wire_##name *message) \
    { \
        const char *before = "{";
#define FIELD(type, name) \
    text_add(text, "%s" #name "=", before); \
    wire_print_##type(text, message->name); \
    before = " ";
#define LIST(record, name) \
    text_add(text, "%s" #name "[%u]=", before, message->name##_count); \
    for (uint32_t i = 0; i < message->name##_count && i < WIRE_PRINT_ITEMS; i++) \
        wire_##record##_print(text, &message->name[i]); \
    if (message->name##_count > WIRE_PRINT_ITEMS) \
        text_add(text, "..."); \
    before = " ";
#define LATER(since)
#define END(name) \
    (void)before; \
    text_add(text, "}"); \
    }
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

/* ---- random values -------------------------------------------------------------------------- */

#define RECORD(name) \
    void wire_##name##_random(struct rng *rng, struct arena *arena, struct wire_##name *message) \
    { \
        (void)arena; \
        *message = (struct wire_##name){0};
#define FIELD(type, name) message->name = wire_random_##type(rng, arena);
#define LIST(record, name) \
    message->name = \
        wire_random_list(rng, arena, &message->name##_count, sizeof(struct wire_##record)); \
    for (uint32_t i = 0; i < message->name##_count; i++) \
        wire_##record##_random(rng, arena, &message->name[i]);
#define LATER(since)
#define END(name) }
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

#undef RPC
#undef ONEWAY
