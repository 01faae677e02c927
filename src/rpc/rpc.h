/* Requests, replies and payloads over byte streams; either end may ask.
 *
 * Problem.  Control messages and the bytes of objects need one framed, bounded, deadline-keeping
 *           connection with one set of guards.
 * Idea.     A frame is header, body (one message of the tables) and payload (raw bytes).  Bodies
 *           are decoded here; payloads go straight from and to the memory that the users of a
 *           connection name.
 * Invariants.
 *   R1  Every call ends exactly once: last reply, failure, deadline, cancel, or the connection's
 *       end.
 *   R2  Every request that reached a service is answered at most once with `last`; after its
 *       connection ended replies to it are dropped, and the service is told (on_request_gone).
 *   R3  A call that ended writes nothing any more into the memory it named: what still arrives is
 *       drained (up to 1 MiB), else the connection is reset.
 *   R4  Nothing that a peer sends trips an assertion: the connection is closed, with a counted
 *       reason.
 *   R5  Queues are bounded (limits.h): above the bound calls end with BUSY, and reading stops
 *       until there is room.
 *   R6  No callback runs inside the call that caused it, but in rpc_conn_close and rpc_destroy
 *       (and on_sent of an answer to a request that is gone).
 * Threads.  All on the loop of the endpoint. */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/status.h"
#include "env/env.h"
#include "wire/messages.h"

struct rpc;         /* one endpoint: a loop, its listeners and its connections */
struct rpc_conn;    /* one connection, whichever end dialled */
struct rpc_request; /* a request of the peer that is not answered yet */
struct rpc_call;    /* a request of ours */

/* ---- endpoint ------------------------------------------------------------------------------- */

/* Who we are, for HELLO. */
struct rpc_identity {
    uint8_t role;         /* enum wire_role */
    uint64_t features;    /* bits we speak */
    uint64_t cluster;     /* 0: learn it from the first master */
    uint64_t incarnation; /* of this node, 0 for others */
    uint32_t term;        /* highest term seen; raised by frames of peers, clients apart */
    struct bytes token;   /* cluster token; must be equal on both sides */
    struct bytes name;
};

/* What the user of an endpoint does with what arrives.  owner: as given to rpc_create. */
struct rpc_service {
    /* A peer dialled us and its HELLO agrees in version, cluster and token.  Fill reply->session.
     * Anything but OK refuses it, with reply->reason as what to do (static text). */
    enum snow_status (*on_hello)(void *owner, struct rpc_conn *conn,
                                 const struct wire_hello_req *hello, struct wire_hello_rep *reply);
    /* A request.  message: the decoded request struct, valid until this returns unless
     * rpc_request_keep. Answer it now or later by rpc_reply or rpc_fail.  payload_size > 0:
     * rpc_request_receive must be called before this returns, or the payload is drained. */
    void (*on_request)(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size);
    /* Whether requests of this type are to be kept (rpc_request_keep) from the start: they are
     * decoded once instead of twice.  NULL: none is. */
    bool (*keeps)(void *owner, uint16_t type);
    /* A message without an answer; valid until this returns. */
    void (*on_oneway)(void *owner, struct rpc_conn *conn, uint16_t type, const void *message);
    /* The peer cancelled it, its deadline passed, or its connection ended: forget the pointer;
     * it is freed after. */
    void (*on_request_gone)(void *owner, struct rpc_request *request);
    /* An accepted or dialled connection ended (never called for one that rpc_conn_close closed). */
    void (*on_close)(void *owner, struct rpc_conn *conn, enum snow_status status);
};

struct rpc_options {
    struct env_socket_options socket;
    uint32_t hello_timeout_ms; /* a peer that says nothing is closed */
    /* a payload that makes no progress, or is still being sent that long after the deadline of what
     * it answers, closes the connection (5 s) */
    uint32_t progress_timeout_ms;
};

MUST_CHECK enum snow_status rpc_create(struct env_loop *loop, const struct rpc_identity *identity,
                                       const struct rpc_options *options,
                                       const struct rpc_service *service, void *owner,
                                       struct rpc **rpc);
/* Closes all listeners and connections; calls end with CLOSED. */
void rpc_destroy(struct rpc *rpc);

struct rpc_identity *rpc_identity(struct rpc *rpc); /* may be changed: cluster, term, incarnation */
struct env_loop *rpc_loop(struct rpc *rpc);

MUST_CHECK enum snow_status rpc_listen(struct rpc *rpc, const char *address);
const char *rpc_listen_address(struct rpc *rpc); /* "" before rpc_listen */
/* Listens at an address of this host ("unix:...") too. */
MUST_CHECK enum snow_status rpc_listen_near(struct rpc *rpc, const char *address);
const char *rpc_near_address(struct rpc *rpc); /* "" before rpc_listen_near */
void rpc_listen_close(struct rpc *rpc);        /* both */

/* Counters of rpc_metrics.def, in its order. */
const uint64_t *rpc_counters(const struct rpc *rpc);
const char *rpc_counter_name(uint32_t index); /* NULL past the last */

/* ---- connections ---------------------------------------------------------------------------- */

/* Dials, greets, and then tells on_open (OK, UNREACHABLE, REFUSED, TIMEOUT).  Not OK: the
 * connection is freed after it returns.  session: to return to, or 0.  expect: incarnation that the
 * peer must have, or 0. */
MUST_CHECK enum snow_status rpc_dial(struct rpc *rpc, const char *address, uint64_t session,
                                     uint64_t expect, uint64_t deadline_ns, void *conn_owner,
                                     void (*on_open)(void *conn_owner, struct rpc_conn *conn,
                                                     enum snow_status status,
                                                     const struct wire_hello_rep *hello),
                                     struct rpc_conn **conn);

/* Its calls end with CLOSED (their callbacks run before this returns), its requests are gone. */
void rpc_conn_close(struct rpc_conn *conn);

void *rpc_conn_owner(const struct rpc_conn *conn);
void rpc_conn_set_owner(struct rpc_conn *conn, void *conn_owner);
uint8_t rpc_conn_role(const struct rpc_conn *conn); /* of the peer, by its HELLO */
const char *rpc_conn_peer(const struct rpc_conn *conn);
/* To hand memory over on; NULL: it has none any more. */
struct env_conn *rpc_conn_stream(const struct rpc_conn *conn);
uint32_t rpc_conn_queued(const struct rpc_conn *conn); /* bytes waiting to be sent, payload apart */
uint64_t rpc_conn_queued_payload(const struct rpc_conn *conn); /* bytes not taken yet */
uint64_t rpc_conn_received_ns(const struct rpc_conn *conn);    /* when the peer's last came */
/* When the call's request last moved: now and then while its payload leaves, and when that had
 * left; 0: it has none. */
uint64_t rpc_call_sent_ns(const struct rpc_call *call);

/* ---- asking --------------------------------------------------------------------------------- */

/* Where a payload goes to or comes from.  iov is the caller's and stays until
 * the end of the call or request. */
struct rpc_payload {
    struct iovec *iov; /* changed while it moves; iov_base NULL in a destination: drained */
    uint32_t iov_count;
    uint64_t size; /* bytes: the sum */
};

/* Lives in the caller's object; zeroed before first use; one call at a time. */
struct rpc_call {
    /* A reply or the end.  status: OK with reply (the decoded reply struct, valid until this
     * returns) or the failure of the whole call with reply NULL.  last: the call has ended; not
     * last: more will come.  A reply with payload: on_payload came before, and this comes when all
     * of it has arrived. */
    void (*on_reply)(struct rpc_call *call, enum snow_status status, const void *reply, bool last);
    /* A reply with payload begins: name its destination (sum of sizes = payload_size) and return
     * true, or false to have it drained.  NULL: drained. */
    bool (*on_payload)(struct rpc_call *call, const void *reply, uint64_t payload_size,
                       struct rpc_payload *to);
    /* A piece of the payload has arrived at `at` (hot in the cache: the moment for a checksum).
     * May be NULL. */
    void (*on_piece)(struct rpc_call *call, const uint8_t *at, size_t size);

    /* rpc's own. */
    struct rpc_conn *conn; /* NULL: not under way */
    struct env_timer timer;
    uint64_t id;
    uint16_t type;
    struct rpc_out *out; /* its request while that waits to be sent with a payload */
    uint64_t sent_ns;    /* when that had left; 0: not yet, or it has none */
};

/* Encodes message now and queues it; leaves at the end of the loop's turn.  payload NULL or sent
 * after the body, from where it lies: its memory must not change until the call ended (R3 for
 * sending: a call that ends while its payload is partly sent resets the connection).  deadline_ns
 * 0: none.  Fails (and then never calls back): BUSY, LIMIT (too large), INVALID (the sizes of the
 * payload), NOT_READY (not greeted yet), CLOSED. */
MUST_CHECK enum snow_status rpc_call_start(struct rpc_conn *conn, struct rpc_call *call,
                                           uint16_t type, const void *message,
                                           const struct rpc_payload *payload, uint64_t deadline_ns);

/* Ends it without a callback; the peer is told. */
void rpc_call_cancel(struct rpc_call *call);

static inline bool rpc_call_is_open(const struct rpc_call *call)
{
    return call->conn != NULL;
}

MUST_CHECK enum snow_status rpc_oneway(struct rpc_conn *conn, uint16_t type, const void *message);

/* ---- answering ------------------------------------------------------------------------------ */

struct rpc_conn *rpc_request_conn(struct rpc_request *request);
uint16_t rpc_request_type(const struct rpc_request *request);
uint64_t rpc_request_deadline_ns(const struct rpc_request *request); /* UINT64_MAX: none */
void *rpc_request_owner(const struct rpc_request *request);
void rpc_request_set_owner(struct rpc_request *request, void *request_owner);

/* The decoded message stays valid until the request is answered or gone.  False: there is no memory
 * for it; the connection breaks and the request is gone in the next turn: leave it alone. */
bool rpc_request_keep(struct rpc_request *request);
const void *rpc_request_message(const struct rpc_request *request);

/* Names where the request's payload goes.  on_piece may be NULL.  on_end: OK when all arrived;
 * otherwise the connection ended (the request is gone right after).  A size in `to` that differs
 * from the payload's: the rest is drained. */
void rpc_request_receive(struct rpc_request *request, const struct rpc_payload *to,
                         void (*on_piece)(struct rpc_request *request, const uint8_t *at,
                                          size_t size),
                         void (*on_end)(struct rpc_request *request, enum snow_status status));

/* From now on bytes for [at, at+size) of this request's destination are drained instead;
 * others still arrive. */
void rpc_request_cut(struct rpc_request *request, const uint8_t *at, size_t size);

/* One reply; the last one frees the request.  payload is sent from where it lies; on_sent (may be
 * NULL) comes when its last byte was handed to the stream, or the connection ended: then nothing
 * reads that memory any more.  A reply waits until the request's own payload is off the stream. */
void rpc_reply(struct rpc_request *request, const void *message, bool last);
void rpc_reply_payload(struct rpc_request *request, const void *message,
                       const struct rpc_payload *payload,
                       void (*on_sent)(void *sent_owner, enum snow_status status),
                       void *sent_owner);
/* The whole request failed. */
void rpc_fail(struct rpc_request *request, enum snow_status status);

#endif
