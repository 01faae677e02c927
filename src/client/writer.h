/* What writer.c and write.c share: a put that is open.
 *
 * Invariants.
 *   W1  claimed: bytes of ranges that are under way or written.  A byte is claimed once.
 *   W2  A copy on which a range failed is in `failed`, and stays there: a repetition with other
 *       bytes could not be told from the first by the node.  So a claimed byte is written on each
 *       other copy when nothing is under way.
 *   W3  Only copies of which every part answered WRITTEN are told to the master.
 * Threads.  The loop's.   Private to client/. */
#ifndef CLIENT_WRITER_H
#define CLIENT_WRITER_H

#include "base/ranges.h"
#include "client/inside.h"

struct client_writer {
    struct client *client;
    uint64_t operation; /* of its put_start */
    uint64_t gen;
    uint64_t size;
    struct wire_place *places;
    bool *written;    /* one a place: all its bytes are there */
    uint64_t *landed; /* one a place: bytes of pieces that have ended well */
    uint32_t place_count;
    uint16_t replicas;        /* bit r: granted */
    uint16_t failed;          /* bit r: a range was not written */
    enum snow_status failure; /* of the last that failed; OK: none */
    uint16_t flags;           /* WIRE_SLOT_* */
    struct ranges claimed;
    uint32_t under_way; /* ranges */
    uint32_t hold_ms;
    uint64_t renewed_ns;
    bool ended; /* committed, or gone */
    size_t key_size;
    size_t extra_size;
    uint8_t key[]; /* and behind it the extra block of the grant */
};

static inline struct bytes client_writer_key(const struct client_writer *writer)
{
    return bytes_of(writer->key, writer->key_size);
}

static inline struct bytes client_writer_extra(const struct client_writer *writer)
{
    return bytes_of(writer->key + writer->key_size, writer->extra_size);
}

/* OK, or why nothing can be written any more. */
enum snow_status client_writer_state(const struct client_writer *writer);

/* NULL: out of memory. */
const void *client_writer_build_renewal(const struct client_writer *writer, uint32_t hold_ms,
                                        struct arena *arena);
void client_writer_take_renewal(struct client_writer *writer, uint32_t hold_ms,
                                enum snow_status status);

/* The answer about the one item of a message; NULL: none, or not awaited any more. */
const struct wire_item_status *client_writer_answer(struct client_ask *ask,
                                                    const struct wire_put_end_rep *reply);
/* Closes the question and tells its status, or asks it again: then NOT_READY. */
enum snow_status client_writer_settle(struct client_ask *ask, int32_t code, uint32_t hint_ms,
                                      uint64_t until_ns);

#endif
