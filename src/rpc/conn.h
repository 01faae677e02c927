/* What the files of rpc share: the endpoint, its connections, what is queued on them.
 *
 *   conn.c     life of a connection: dialling, breaking, ending
 *   hello.c    the greeting, both sides
 *   receive.c  bytes to frames, frames to whom they concern
 *   payload.c  where an incoming payload goes
 *   send.c     frames and payloads to bytes
 *   call.c     requests of ours            request.c  requests of the peer
 *   rpc.c      endpoint, listeners, counters
 *   slots.c    open requests by id
 *
 * Request ids.  id = sequence << RPC_SLOT_BITS | slot: a slot is an index below
 *               LIMIT_REQUESTS_PER_CONN that one open request holds, so both sides find it without
 *               a search and neither can have more of them open.  Id 0 is the greeting. */
#ifndef RPC_CONN_H
#define RPC_CONN_H

#include "base/arena.h"
#include "base/limits.h"
#include "rpc/rpc.h"
#include "wire/frame.h"

enum rpc_metric {
#define METRIC(name, kind, text) RPC_METRIC_##name,
#include "rpc/rpc_metrics.def"
#undef METRIC
    RPC_METRIC_COUNT
};

#define RPC_SLOT_BITS 10u
_Static_assert(LIMIT_REQUESTS_PER_CONN == 1u << RPC_SLOT_BITS, "a slot for each open request");

#define RPC_DRAIN_MAX MIB            /* bytes drained for an ended call before we reset */
#define RPC_INPUT_SIZE (256 * KIB)   /* bytes taken from a stream at once, payload apart */
#define RPC_HOT_SIZE (256 * KIB)     /* of payload at once: it is looked at while in the cache */
#define RPC_COPY_MAX (16 * KIB)      /* a payload up to it is copied rather than received alone */
#define RPC_SINK_SIZE (64 * KIB)     /* drained at once */
#define RPC_TURN_BYTES_MAX (4 * MIB) /* received or sent on a connection in one turn */
#define RPC_HELLO_BODY_MAX (4 * KIB) /* body of a frame of a peer that has not greeted */
#define RPC_MESSAGE_SIZE_MAX (16 * MIB) /* memory of one decoded message */

struct rpc {
    struct env_loop *loop;
    struct env *env;
    struct rpc_identity identity; /* token and name are copies */
    struct rpc_options options;
    const struct rpc_service *service;
    void *owner;
    struct env_listener *listener;
    struct env_listener *near_listener; /* of this host */
    struct list conns;
    uint32_t conn_count;
    struct list dirty;   /* connections with something to send at the end of the turn */
    struct list waiting; /* connections that go on in the next turn: broken, or with more to read */
    struct list dead;    /* told and unlinked; freed when no function of ours is on the stack */
    struct env_hook hook;
    struct env_timer soon; /* makes a turn come for `dirty` and `waiting` */
    uint32_t depth;        /* functions of ours on the stack */
    bool doomed;           /* destroyed from within */
    uint8_t *scratch;      /* a frame being encoded */
    struct rpc_out *spare; /* a block that was sent, for the next; NULL: none */
    uint8_t *input;        /* RPC_INPUT_SIZE: what came, of the connection being read */
    uint8_t *sink;         /* RPC_SINK_SIZE: drained bytes */
    uint64_t counters[RPC_METRIC_COUNT];
};

/* Something that waits to be sent: frames without payload one after the other,
 * or one frame with its payload. */
struct rpc_out {
    struct list_link link; /* in conn->out or conn->held */
    size_t capacity;
    size_t size;       /* bytes of frames */
    size_t sent;       /* of these */
    size_t reply_size; /* bytes of them that are replies */
    bool started;      /* a byte of it has left */
    bool has_payload;
    struct rpc_payload payload; /* what is left of it */
    struct rpc_call *call;      /* whose request it is; NULL: nobody asks */
    uint64_t deadline_ns;       /* of the request that this payload answers; 0: none */
    void (*on_sent)(void *sent_owner, enum snow_status status);
    void *sent_owner;
    uint8_t bytes[];
};

/* Open requests by slot. */
struct rpc_slots {
    void **items;   /* NULL: free */
    uint32_t count; /* length of items */
    uint16_t *free; /* stack of free slots below `fresh` (calls only) */
    uint32_t free_count;
    uint32_t fresh; /* slots at and above were never used (calls only) */
};

/* A run of the destination of an incoming payload. */
struct rpc_piece {
    uint8_t *at; /* NULL: drained */
    uint64_t size;
};

/* The payload that is arriving: at most one a connection. */
struct rpc_incoming {
    uint64_t left; /* bytes; 0: none */
    struct rpc_piece *pieces;
    uint32_t piece_capacity;
    uint32_t piece_count;
    uint32_t piece_next;
    struct rpc_call *call;       /* whose reply it belongs to, or */
    struct rpc_request *request; /* whose it is; both NULL: drained */
    uint64_t request_id;         /* of the peer's last request: its answers wait for its payload */
    void (*on_request_end)(struct rpc_request *request, enum snow_status status);
    void (*on_request_piece)(struct rpc_request *request, const uint8_t *at, size_t size);
    uint8_t *body; /* copy of the reply's body: the message has views into it */
    struct arena arena;
    void *reply;
    bool last;
};

enum rpc_conn_state {
    RPC_CONN_DIALLING,  /* the stream is not open */
    RPC_CONN_ASKED,     /* our hello is on its way, the answer is not here */
    RPC_CONN_LISTENING, /* accepted; the peer's hello is not here */
    RPC_CONN_OPEN,
    RPC_CONN_BROKEN, /* the stream is closed; calls and owner are told in the next turn */
    RPC_CONN_ENDED   /* told; only the memory is left */
};

struct rpc_conn {
    struct rpc *rpc;
    struct env_conn *stream; /* NULL: BROKEN, ENDED */
    enum rpc_conn_state state;
    enum snow_status end_status; /* of a BROKEN one */
    struct list_link link;       /* in rpc->conns or rpc->dead */
    struct list_link dirty_link;
    struct list_link waiting_link;
    void *owner;
    void (*on_open)(void *conn_owner, struct rpc_conn *conn, enum snow_status status,
                    const struct wire_hello_rep *hello); /* dialled and not told yet */
    /* Takes the place of the service's on_close; NULL: the service's.  Used by peer.c. */
    void (*on_end)(void *conn_owner, enum snow_status status);
    bool greeted;     /* the service knows it, or on_open told OK */
    bool closed;      /* by its owner, who is told nothing more */
    uint8_t role;     /* of the peer; 0: not known (dialled) */
    uint32_t version; /* of the frames on it */
    uint64_t session; /* hello: to return to */
    uint64_t expect;  /* hello: incarnation that the peer must have */
    struct env_timer hello_timer;
    char peer[96]; /* its address, for logs */

    /* Sending. */
    struct list out;
    struct list held;        /* replies that wait for the end of the incoming payload */
    size_t queued;           /* bytes of frames in out and held */
    size_t queued_replies;   /* of which replies */
    uint64_t queued_payload; /* bytes of payload that the stream has not taken */
    bool blocked;            /* the stream took less than given; on_writable will come */

    /* Receiving. */
    uint8_t *partial; /* a frame that has not come whole */
    size_t partial_size;
    size_t partial_capacity;
    size_t input_size; /* of the shared buffer that the next receive uses */
    uint8_t *rest;     /* came behind the frame at which reading paused; NULL: none */
    size_t rest_size;
    struct rpc_incoming incoming;
    struct arena arena; /* the message being handled */
    bool paused;        /* reading has stopped: too many replies are queued */

    struct env_timer progress_timer;
    uint64_t received_ns; /* when bytes last came */
    uint64_t sent_ns;     /* when the stream last took some */

    struct rpc_slots calls;
    uint64_t call_sequence;
    struct rpc_slots requests;
};

struct rpc_request {
    struct rpc_conn *conn;
    uint64_t id;
    uint16_t type;
    uint64_t deadline_ns;
    struct env_timer timer;
    void *owner;
    enum snow_status failed; /* a reply could not be encoded: how the last one will end */
    /* While on_request runs. */
    struct bytes body; /* in the receive buffer; size 0 and NULL: not any more */
    uint64_t payload_size;
    bool is_new;
    bool gone;           /* being told so: answers are dropped */
    const void *message; /* decoded; after on_request only when it is kept */
    bool kept;
    uint8_t *kept_body;
    struct arena arena;
};

static inline void rpc_count(struct rpc *rpc, enum rpc_metric metric)
{
    rpc->counters[metric]++;
}

/* ---- rpc.c ---- */

/* Around everything that runs callbacks: memory of ended connections lives
 * until the outermost leaves. */
void rpc_enter(struct rpc *rpc);
void rpc_leave(struct rpc *rpc);
/* Makes a turn of the loop come. */
void rpc_soon(struct rpc *rpc);
/* The connection goes on in the next turn. */
void rpc_wait_turn(struct rpc_conn *conn);

/* ---- conn.c ---- */

struct rpc_conn *rpc_conn_create(struct rpc *rpc, enum rpc_conn_state state);
void rpc_conn_free(struct rpc_conn *conn);
void rpc_conn_accepted(void *owner, struct env_conn *stream);
/* Closes the stream now; calls, requests and owner are told in the next turn. */
void rpc_conn_break(struct rpc_conn *conn, enum snow_status status, bool reset);
/* Breaks it because of what the peer sent. */
void rpc_conn_bad(struct rpc_conn *conn, enum rpc_metric reason);
/* Ends it here and now; tell: the owner learns. */
void rpc_conn_end(struct rpc_conn *conn, enum snow_status status, bool tell);
static inline bool rpc_conn_alive(const struct rpc_conn *conn)
{
    return conn->state < RPC_CONN_BROKEN;
}

/* ---- hello.c ---- */

void rpc_hello_ask(struct rpc_conn *conn);
void rpc_hello_wait(struct rpc_conn *conn, uint64_t until_ns);
void rpc_hello_request(struct rpc_conn *conn, const struct frame_header *header, struct bytes body);
void rpc_hello_reply(struct rpc_conn *conn, const struct frame_header *header, struct bytes body);

/* ---- receive.c ---- */

/* Reads until nothing is there, the turn's share is used up, or reading has to pause. */
void rpc_receive(struct rpc_conn *conn);

/* ---- payload.c ---- */

/* The next size bytes are a payload that nobody wants, until somebody names a destination. */
void rpc_payload_expect(struct rpc_conn *conn, uint64_t size);
/* NO_MEMORY: it stays drained. */
MUST_CHECK enum snow_status rpc_payload_direct(struct rpc_conn *conn, const struct rpc_payload *to);
/* Whoever named the destination has ended: the rest is drained,
 * or the connection reset when that is too much. */
void rpc_payload_forget(struct rpc_conn *conn);
/* Bytes for [at, at+size) are drained from now on.  NO_MEMORY. */
MUST_CHECK enum snow_status rpc_payload_cut(struct rpc_conn *conn, const uint8_t *at, size_t size);
/* Where the next bytes go: at most max entries; *complete: they end with the payload. */
int rpc_payload_iov(struct rpc_conn *conn, struct iovec *iov, int max, bool *complete);
/* size bytes of it came: into the places of rpc_payload_iov (data NULL), or into data. */
void rpc_payload_take(struct rpc_conn *conn, const uint8_t *data, size_t size);

/* ---- send.c ---- */

/* Queues a frame.  payload NULL: none.  held: it waits for the end of the incoming payload.  *out
 * (may be NULL): the item, when it has a payload.  Out of memory: the connection breaks, *out is
 * NULL. */
void rpc_send_frame(struct rpc_conn *conn, const struct frame_header *header, struct bytes body,
                    const struct rpc_payload *payload, bool held, struct rpc_out **out);
/* Room for the body of a frame in rpc->scratch. */
struct writer rpc_send_writer(struct rpc_conn *conn);
/* What was written there. */
struct bytes rpc_send_body(struct rpc_conn *conn, const struct writer *writer);
/* The held replies may leave. */
void rpc_send_held(struct rpc_conn *conn);
void rpc_send_flush(struct rpc_conn *conn);
/* Takes back the request of a call that ends; false: a part of it has left. */
bool rpc_send_take_back(struct rpc_conn *conn, struct rpc_out *out);
/* Frees all; on_sent is told. */
void rpc_send_drop_all(struct rpc_conn *conn);
/* Arms the watch over payloads that do not move, when there is something to watch. */
void rpc_send_watch_progress(struct rpc_conn *conn);
void rpc_send_on_progress_timer(struct env_timer *timer);

/* ---- call.c ---- */

void rpc_call_reply(struct rpc_conn *conn, const struct frame_header *header, struct bytes body);
/* The payload of its reply came whole. */
void rpc_call_payload_end(struct rpc_conn *conn, struct rpc_call *call);
void rpc_call_end_all(struct rpc_conn *conn);

/* ---- request.c ---- */

void rpc_request_arrived(struct rpc_conn *conn, const struct frame_header *header,
                         struct bytes body);
void rpc_request_cancelled(struct rpc_conn *conn, const struct frame_header *header);
void rpc_request_end_all(struct rpc_conn *conn);

/* ---- slots.c ---- */

/* The lowest free slot takes the item.  LIMIT: all are in use.  NO_MEMORY. */
MUST_CHECK enum snow_status rpc_slots_take(struct rpc_slots *slots, void *item, uint32_t *slot);
void rpc_slots_give(struct rpc_slots *slots, uint32_t slot);
/* This slot takes the item; it must be free.  NO_MEMORY. */
MUST_CHECK enum snow_status rpc_slots_put(struct rpc_slots *slots, uint32_t slot, void *item);
static inline void *rpc_slots_at(const struct rpc_slots *slots, uint64_t id)
{
    uint32_t slot = (uint32_t)(id & (LIMIT_REQUESTS_PER_CONN - 1));

    return slot < slots->count ? slots->items[slot] : NULL;
}
void rpc_slots_deinit(struct rpc_slots *slots);

/* A frame of the peer carries this term: ours is at least as high from now on. */
void rpc_conn_term(struct rpc_conn *conn, uint32_t term);

#endif
