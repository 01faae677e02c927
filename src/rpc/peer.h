/* A link to one address that is kept up: dialled, greeted, and dialled again when it is lost.
 *
 * States.  DOWN (a timer runs) ──dial──► DIALLING ──greeted──► UP ──lost──► DOWN
 *                                        DIALLING ──failed──► DOWN
 *          With `near`, between greeted and UP: asked where it is within this host, and when it is,
 *          dialled there with the same session; the first connection is closed then, or used.
 * Delays double from 10 ms to 1 s, with jitter, and start again at 10 ms after the link stayed up
 * for a second.  A connection that is refused fails at once; nothing is waited for.
 * Threads.  The loop of the endpoint; close it before the endpoint is destroyed. */
#ifndef RPC_PEER_H
#define RPC_PEER_H

#include "base/limits.h"
#include "base/rng.h"
#include "rpc/rpc.h"

/* Lives in the caller's object; zeroed, callbacks set, before rpc_peer_open. */
struct rpc_peer {
    /* The link is up: rpc_peer_conn is not NULL. */
    void (*on_up)(struct rpc_peer *peer, const struct wire_hello_rep *hello);
    /* The link was up and is lost.  Its calls have ended. */
    void (*on_down)(struct rpc_peer *peer, enum snow_status status);
    /* A try failed; reason: of the peer that refused, else empty.  May be NULL. */
    void (*on_failed)(struct rpc_peer *peer, enum snow_status status, struct bytes reason);
    bool near; /* prefer its address within this host, when it has one */

    /* rpc's own. */
    struct rpc *rpc; /* NULL: not open */
    char address[LIMIT_NAME_SIZE + 1];
    uint64_t session; /* to return to: from the last greeting */
    uint64_t expect;  /* incarnation that the peer must have, 0: any */
    struct rpc_conn *conn;
    struct rpc_conn *near_conn; /* being dialled */
    struct rpc_call near_call;
    struct wire_hello_rep hello; /* of conn, while it is not up */
    bool up;
    uint64_t up_ns;    /* since when */
    uint64_t delay_ns; /* before the next try */
    struct env_timer timer;
    struct rng rng;
};

/* Begins to dial.  INVALID: no address. */
MUST_CHECK enum snow_status rpc_peer_open(struct rpc_peer *peer, struct rpc *rpc,
                                          const char *address, uint64_t expect);
/* Nothing is told any more; calls on it end with CLOSED. */
void rpc_peer_close(struct rpc_peer *peer);

/* NULL: down. */
static inline struct rpc_conn *rpc_peer_conn(const struct rpc_peer *peer)
{
    return peer->up ? peer->conn : NULL;
}

/* Gives the connection up (a peer that answers nonsense, or nothing) and dials again;
 * on_down comes. */
void rpc_peer_reset(struct rpc_peer *peer);

#endif
