/* The messages of the tables (records.def, master.def, node.def) as C.
 *
 * For every RECORD(name): struct wire_<name>, wire_<name>_encode, _decode, _print, _random.
 * For every RPC(name, number, ...): WIRE_<name> = number (as in WIRE_put_start), request struct
 * wire_<name>_req, reply struct wire_<name>_rep.
 * For every ONEWAY(name, number, ...): WIRE_<name>, struct wire_<name>_msg.
 * A LIST(record, items) is the members `struct wire_<record> *items; uint32_t items_count;`.
 * Decoded bytes are views into the body; decoded lists lie in the arena: both live as long as the
 * caller keeps them.
 *
 * Invariants.  M1  Decoding takes any bytes: it ends in a message or in a failed reader.
 *              M2  No list is longer than LIMIT_BATCH_ITEMS, nor than its bytes can hold.
 *              M3  What encodes under a version decodes to the same values under it; fields that a
 *                  later version added are zero. */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "wire/terms.h"

/* The protocol that this code speaks, and the oldest one that it understands. */
#define WIRE_VERSION 3u
#define WIRE_VERSION_MIN 1u

#define WIRE_TABLE "wire/tables.def"
#include "wire/expand_structs.h"
#undef WIRE_TABLE

/* Message numbers: WIRE_hello, WIRE_put_start, ... */
enum wire_number {
#define RECORD(name)
#define FIELD(type, name)
#define LIST(record, name)
#define LATER(since)
#define END(name)
#define RPC(name, number, server, repeat) WIRE_##name = (number),
#define ONEWAY(name, number, server) WIRE_##name = (number),
#include "wire/tables.def"
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END
#undef RPC
#undef ONEWAY
};

/* ---- records by name ------------------------------------------------------------------------ */

/* A record whose type is known only while running. */
struct wire_record {
    const char *name;
    size_t size; /* bytes of the struct */
    void (*encode)(struct writer *writer, const void *message);
    void (*decode)(struct reader *reader, struct arena *arena, void *message);
    void (*print)(struct text *text, const void *message);
    void (*random)(struct rng *rng, struct arena *arena, void *message);
};

uint32_t wire_record_count(void);
const struct wire_record *wire_record_at(uint32_t index);

/* Decodes one record that fills all of data.  INVALID; NO_MEMORY (the arena's bound too). */
MUST_CHECK enum snow_status wire_record_decode(const struct wire_record *record, struct bytes data,
                                               uint32_t version, struct arena *arena,
                                               void **message);

/* ---- messages by number --------------------------------------------------------------------- */

enum wire_kind { WIRE_KIND_RPC, WIRE_KIND_ONEWAY };

/* Who answers. */
enum wire_server {
    WIRE_SERVER_ANY,         /* every endpoint */
    WIRE_SERVER_LEADER_ONLY, /* the master that leads */
    WIRE_SERVER_NODE
};

enum wire_repeat { WIRE_REPEAT_NOT_SAFE, WIRE_REPEAT_SAFE_TO_REPEAT };

struct wire_message_type {
    uint16_t number;
    const char *name;
    enum wire_kind kind;
    enum wire_server server;
    enum wire_repeat repeat;           /* of a request whose answer was lost */
    const struct wire_record *request; /* or the message of a oneway */
    const struct wire_record *reply;   /* NULL: a oneway */
};

/* NULL: no such message. */
const struct wire_message_type *wire_type_find(uint16_t number);
/* All of them, for tables and tests. */
uint32_t wire_type_count(void);
const struct wire_message_type *wire_type_at(uint32_t index);
/* For logs; "?" for a number that is no message. */
const char *wire_type_name(uint16_t number);

/* version: of the protocol the body is in.  Bytes behind the message are an error unless version is
 * newer than ours.  *message: in the arena.  INVALID: not this message, or no such number, or
 * another kind; NO_MEMORY: the arena's bound is reached. */
MUST_CHECK enum snow_status wire_request_decode(uint16_t number, struct bytes body,
                                                uint32_t version, struct arena *arena,
                                                void **message);
MUST_CHECK enum snow_status wire_reply_decode(uint16_t number, struct bytes body, uint32_t version,
                                              struct arena *arena, void **message);
MUST_CHECK enum snow_status wire_oneway_decode(uint16_t number, struct bytes body, uint32_t version,
                                               struct arena *arena, void **message);

/* The version is the writer's.  LIMIT: no room, or a list or bytes too long; INVALID: no such
 * number, or another kind. */
MUST_CHECK enum snow_status wire_request_encode(uint16_t number, const void *message,
                                                struct writer *writer);
MUST_CHECK enum snow_status wire_reply_encode(uint16_t number, const void *message,
                                              struct writer *writer);
MUST_CHECK enum snow_status wire_oneway_encode(uint16_t number, const void *message,
                                               struct writer *writer);

#endif
