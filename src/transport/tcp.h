/* What tcp.c and tcp_frame.c share.
 *
 *   operation ──tcp_frame_cut──► frames, each a message with its payload, on the queues of lanes
 *   frame: queued ──tcp_frame_send──► sent ──reply, failure──► ended (tcp_frame_end)
 *
 * An item is one or more pieces; a frame carries pieces of many items, or one piece of a large
 * one.  Pieces of one written extent are in order on one lane: the node takes them so. */
#ifndef TRANSPORT_TCP_H
#define TRANSPORT_TCP_H

#include "base/limits.h"
#include "rpc/peer.h"
#include "transport/transport.h"

struct tcp {
    struct transport base; /* first */
    struct rpc *rpc;
    struct env_loop *loop;
    struct transport_options options;
    struct arena scratch; /* a message being made */
};

/* One connection to a node. */
struct tcp_lane {
    struct tcp_link *link;
    struct rpc_peer peer;
    struct list queue;    /* frames that wait, in order */
    struct list sent;     /* frames under way */
    uint64_t load;        /* bytes of both */
    uint64_t progress_ns; /* when something was last begun or ended on it */
};

struct tcp_link {
    struct transport_link base; /* first */
    uint64_t incarnation;
    char address[LIMIT_NAME_SIZE + 1];
    struct tcp_lane lanes[TRANSPORT_LANES_MAX];
    uint64_t in_flight;     /* bytes of sent frames */
    struct list failed;     /* frames that could not be sent: told in the next turn */
    struct env_timer kick;  /* tells them, and sends more */
    bool kick_again;        /* once more, if that was before the end of a turn */
    struct env_timer watch; /* for a stall */
    uint64_t watch_ns;      /* when it is due */
};

struct tcp_piece {
    struct transport_item *item;
    struct tcp_piece *next; /* in the frame */
    uint64_t start;         /* in the extent */
    uint64_t size;          /* bytes */
    uint32_t memory;        /* its first piece of memory in the item's */
    uint32_t memory_count;  /* pieces of memory that it touches */
    uint64_t memory_start;  /* bytes of the first one that come before */
    uint64_t wanted;        /* of a read: bytes that its reply brings */
    uint64_t got;           /* of those */
    uint32_t crc;           /* of the piece */
};

struct tcp_frame {
    struct rpc_call call;
    struct list_link link;  /* in a lane's queue or sent, or among the failed */
    struct list_link of_op; /* in op->frames */
    struct transport_op *op;
    struct tcp_lane *lane;
    struct tcp_piece *first;
    struct tcp_piece *last;
    struct tcp_piece *arriving; /* of a read: where bytes go now */
    struct iovec *iov;
    uint32_t iov_count; /* at most: pieces of memory of all its pieces */
    uint32_t count;     /* pieces */
    size_t body_size;   /* bytes, about */
    uint64_t bytes;     /* of payload */
    bool sent;
    enum snow_status failure; /* not OK: it is on no lane any more, and why */
};

/* ---- tcp_frame.c ---- */

/* Makes the frames of an operation and queues them.  NO_MEMORY: nothing is queued. */
MUST_CHECK enum snow_status tcp_frame_cut(struct tcp_link *link, struct transport_op *op);
/* Sends a queued frame; conn is open. */
MUST_CHECK enum snow_status tcp_frame_send(struct tcp_frame *frame, struct rpc_conn *conn);
/* Its pieces end: with the reply, or (NULL) all with status.  Items may end by it. */
void tcp_frame_end(struct tcp_frame *frame, enum snow_status status, const void *reply);
/* True when all that it would move belongs to items that have failed. */
bool tcp_frame_is_vain(const struct tcp_frame *frame);

/* ---- tcp.c ---- */

/* The reply to a sent frame, or its end. */
void tcp_on_reply(struct rpc_call *call, enum snow_status status, const void *reply, bool last);

#endif
