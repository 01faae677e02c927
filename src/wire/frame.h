/* Frames: what goes over a stream is header, body (one message of the tables), payload (raw bytes).
 *
 *   0  magic u32       4  version u8    5  kind u8     6  type u16
 *   8  body_size u32  12  deadline_ms u32
 *  16  request_id u64
 *  24  payload_size u64
 *  32  term u32       36  status i32
 *  40  body_crc u32   44  header_crc u32
 *
 * All little-endian.  body_crc is the crc32c of the body, header_crc that of the 44 bytes before
 * it: a header is believed (sizes!) only when its crc holds.
 *
 * Invariants.  F1  Any 48 bytes decode to a header within all limits or to a reason.
 *              F2  Cancels have neither body nor payload; oneways have no payload. */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "base/bytes.h"

#define FRAME_HEADER_SIZE 48u
#define FRAME_MAGIC 0x776f6e73u /* "snow" */

enum frame_kind {
    FRAME_REQUEST = 1,
    FRAME_REPLY = 2,      /* more follow */
    FRAME_REPLY_LAST = 3, /* ends its request */
    FRAME_CANCEL = 4,     /* the asking side gives its request up */
    FRAME_ONEWAY = 5
};

struct frame_header {
    uint8_t version;       /* of the protocol the body is in */
    uint8_t kind;          /* enum frame_kind */
    uint16_t type;         /* number of the message; replies and cancels repeat the request's */
    uint32_t body_size;    /* bytes */
    uint32_t deadline_ms;  /* remaining, of a request; 0: none */
    uint64_t request_id;   /* given by the asking side */
    uint64_t payload_size; /* bytes that follow the body */
    uint32_t term;         /* highest that the sender has seen */
    int32_t status;        /* of a reply: the whole request's; a newer peer may send unknown ones */
    uint32_t body_crc;
};

/* Why bytes are no frame: FRAME_REASON(name, text). */
#define FRAME_REASONS \
    FRAME_REASON(OK, "a frame") \
    FRAME_REASON(SHORT, "fewer bytes than a header") \
    FRAME_REASON(BAD_MAGIC, "not this protocol") \
    FRAME_REASON(BAD_HEADER_CRC, "the header's checksum fails") \
    FRAME_REASON(BAD_VERSION, "a version that this side does not speak") \
    FRAME_REASON(BAD_KIND, "no such kind of frame") \
    FRAME_REASON(OVER_LIMIT, "a size or number above its limit") \
    FRAME_REASON(BAD_BODY_CRC, "the body's checksum fails")

enum frame_reason {
#define FRAME_REASON(name, text) FRAME_REASON_##name,
    FRAME_REASONS
#undef FRAME_REASON
        FRAME_REASON_COUNT
};

/* A line for logs; static. */
const char *frame_reason_text(enum frame_reason reason);

/* data: at least FRAME_HEADER_SIZE bytes, else SHORT.  Sets *header only when it returns OK. */
enum frame_reason frame_header_decode(struct bytes data, struct frame_header *header);

/* Checks the body against its header: OK, SHORT or BAD_BODY_CRC. */
enum frame_reason frame_body_check(const struct frame_header *header, struct bytes body);

/* body_size and body_crc of the header are those of the body. */
void frame_header_set_body(struct frame_header *header, struct bytes body);
void frame_header_encode(const struct frame_header *header, uint8_t to[FRAME_HEADER_SIZE]);

#endif
