/* Transport: moves the bytes of extents between the caller's memory and nodes.
 *
 * Problem.  There are several ways to a node's memory (streams now, shared memory and RDMA later);
 *           whoever puts and gets should not care which.
 * Idea.     A table of functions for each way.  A link is the way to one node.  An operation is a
 *           list of (memory, place) pairs that move to or from that node; it lives in the caller's
 *           object and ends by a callback.
 * Invariants.
 *   T1  An operation that was posted ends by on_done, or by cancel: never both.  No callback runs
 *       inside post.
 *   T2  An item that ended, and every item of a cancelled operation: its memory is not touched any
 *       more.
 *   T3  An item that ends OK moved whole; what was read has the checksum that its writer computed
 *       (options.verify).  Of a range of an extent that is the checksum that the node computed when
 *       it sent: what happened on the way shows, what happened in the node's memory does not.
 *   T4  Bytes under way to or from one node are bounded (options.window_bytes), so that a slow node
 *       is not flooded; a node that makes no progress for stall_ns is given up.
 * Threads.  All on the loop of the endpoint. */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include "base/arena.h"
#include "base/list.h"
#include "base/status.h"
#include "rpc/rpc.h"
#include "wire/messages.h"

#define TRANSPORT_LANES_MAX 8u

struct transport_ops;

/* One way, over one endpoint. */
struct transport {
    const struct transport_ops *ops;
};

/* The way to one node. */
struct transport_link {
    struct transport *transport;
};

struct transport_options {
    uint32_t lanes;        /* connections to a node, 1 .. TRANSPORT_LANES_MAX */
    uint64_t piece_bytes;  /* payload of one message; larger extents move in pieces */
    uint64_t window_bytes; /* under way to or from one node */
    uint64_t stall_ns;     /* without progress: the node is given up; 0: never */
    bool verify;           /* compare checksums of what is read over streams */
    bool verify_near;      /* and of whole extents within a host, where their writer computed one */
    bool sum_near;         /* compute those of whole extents that are written within a host */
};

/* Who to reach. */
struct transport_node {
    uint64_t incarnation; /* that it must have, 0: any */
    const char *address;  /* copied */
};

/* One extent, or a range of one: a write of one leaves the slot open until all its bytes came.  Who
 * receives them counts them; within a host nobody does, and the caller says so with the last one
 * (covered). */
struct transport_item {
    const struct wire_place *place; /* stays until the item ended */
    uint64_t gen;
    uint64_t start; /* of the range, in the extent */
    uint64_t size;  /* bytes of it; place->length: the whole */
    /* The caller's memory, `size` bytes in all, one piece after the other: the destination
     * of a read; a write only reads it.  Stays as it is until the item ended. */
    const struct iovec *memory;
    uint32_t memory_count;
    struct iovec only;           /* where `memory` may point when it is one piece */
    struct transport_item *next; /* in the operation; NULL: the last */

    /* Writes only. */
    struct bytes key;
    struct bytes extra;   /* of part 0, as it was granted; may be empty */
    uint64_t object_size; /* bytes */
    uint16_t flags;       /* WIRE_SLOT_* */
    bool covered; /* what this range leaves out of the extent came before, by the same way */
    bool checked; /* crc is set */

    /* client/stages.c: the caller's memory while another stands in for it; NULL: none does. */
    const struct iovec *own;
    uint32_t own_count;
    struct iovec staged;

    /* Out.  UNREACHABLE: the node can not be reached or does not move; CLOSED: its connection was
     * lost on the way (trying again may help); TIMEOUT; CORRUPT; else what the node said. */
    enum snow_status status;
    bool refused; /* it can not be copied to or from this memory, by whatever way (INVALID) */

    /* The transport's. */
    void *pieces;
    uint32_t piece_count;
    uint32_t pieces_left; /* not ended */
    uint32_t crc;         /* of the whole extent, as the node says */
    bool written;         /* the node says that all bytes of the extent came */
};

/* The memory of an item that stays where it is until it ended: one piece.  item->size is set. */
static inline void transport_item_set_memory(struct transport_item *item, void *at)
{
    item->only = (struct iovec){.iov_base = at, .iov_len = (size_t)item->size};
    item->memory = &item->only;
    item->memory_count = 1;
}

/* Zeroed; what comes first is set by the caller. */
struct transport_op {
    /* An item ended, its status is set.  May be NULL.  Neither posts nor cancels. */
    void (*on_item)(struct transport_op *op, struct transport_item *item);
    /* All have.  The operation is the caller's again. */
    void (*on_done)(struct transport_op *op);
    bool write;
    struct env_worker
        *worker; /* whose thread copies, where the caller's process does; may be NULL */
    struct transport_item *first;
    uint64_t deadline_ns; /* told to the node; what is under way ends then.  0: none */

    /* The transport's. */
    struct transport_link *link; /* NULL: not under way */
    void *state;                 /* shm */
    struct list frames;          /* tcp */
    struct arena arena;
    uint32_t open; /* items that have not ended */
};

/* An extent that is looked at where it lies. */
struct transport_view {
    const uint8_t *at;
    struct mark *mark;
    struct shm_space *space;
};

struct transport_ops {
    const char *name;
    bool takes_devices; /* memory of devices; else items have the host's */
    enum snow_status (*open)(struct rpc *rpc, const struct transport_options *options,
                             struct transport **transport);
    /* All its links are disconnected. */
    void (*close)(struct transport *transport);
    /* Connects when the first operation is posted.  NO_MEMORY; INVALID: no address. */
    enum snow_status (*connect)(struct transport *transport, const struct transport_node *node,
                                struct transport_link **link);
    /* Its operations have ended: on_done of the last one may do it. */
    void (*disconnect)(struct transport_link *link);
    /* NO_MEMORY, INVALID (the address): then nothing is called back. */
    enum snow_status (*post)(struct transport_link *link, struct transport_op *op);
    /* Not under way: nothing happens. */
    void (*cancel)(struct transport_op *op);
    /* True: nothing moves on it any more; connect another one.  NULL: never. */
    bool (*is_lost)(const struct transport_link *link);
    /* Where an extent lies in this process: it stays as it is until the view ends.  NOT_READY (post
     * something first), STALE, INVALID, LIMIT (too many).  NULL: it lies elsewhere. */
    enum snow_status (*view)(struct transport_link *link, const struct wire_place *place,
                             uint64_t gen, struct transport_view *view);
};

/* Messages and payloads over streams. */
extern const struct transport_ops transport_tcp;
/* The node's memory itself, on its own host. */
extern const struct transport_ops transport_shm;

/* Any thread; also when the link is gone. */
void transport_view_end(struct transport_view *view);

#endif
