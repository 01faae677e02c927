#include "rpc/peer.h"

#include "rpc/conn.h"

#include <stdio.h>

#define DELAY_NS_MIN (10 * NS_PER_MS)
#define DELAY_NS_MAX (1 * NS_PER_S)
#define NEAR_NS_MAX (500 * NS_PER_MS)
#define NEAR_VERSION 2 /* of the protocol, that has the question */
#define DIAL_NS_MAX (3 * NS_PER_S)

static void dial_later(struct rpc_peer *peer)
{
    uint64_t delay_ns = peer->delay_ns / 2 + rng_below(&peer->rng, peer->delay_ns / 2 + 1);

    env_timer_arm(peer->rpc->loop, &peer->timer, env_now_ns(peer->rpc->env) + delay_ns);
    peer->delay_ns = peer->delay_ns * 2 < DELAY_NS_MAX ? peer->delay_ns * 2 : DELAY_NS_MAX;
}

static void on_end(void *conn_owner, enum snow_status status)
{
    struct rpc_peer *peer = conn_owner;
    struct rpc_conn *near_conn = peer->near_conn;
    bool was_up = peer->up;

    peer->conn = NULL;
    peer->near_conn = NULL;
    peer->up = false;
    if (near_conn != NULL)
        rpc_conn_close(near_conn);
    if (was_up && env_now_ns(peer->rpc->env) - peer->up_ns >= DELAY_NS_MAX)
        peer->delay_ns = DELAY_NS_MIN;
    dial_later(peer);
    if (was_up)
        peer->on_down(peer, status);
    else if (peer->on_failed != NULL)
        peer->on_failed(peer, status, bytes_of(NULL, 0));
}

static void become_up(struct rpc_peer *peer)
{
    peer->up = true;
    peer->up_ns = env_now_ns(peer->rpc->env);
    peer->session = peer->hello.session;
    peer->on_up(peer, &peer->hello);
}

static void take_conn(struct rpc_peer *peer, struct rpc_conn *conn,
                      const struct wire_hello_rep *hello)
{
    peer->conn = conn;
    conn->on_end = on_end;
    peer->hello = *hello;
    peer->hello.reason = bytes_of(NULL, 0); /* it lies in the frame */
}

static void on_near_open(void *conn_owner, struct rpc_conn *conn, enum snow_status status,
                         const struct wire_hello_rep *hello)
{
    struct rpc_peer *peer = conn_owner;
    struct rpc_conn *first = peer->conn;

    peer->near_conn = NULL;
    if (status == SNOW_OK) {
        take_conn(peer, conn, hello);
        rpc_conn_close(first);
    }
    become_up(peer);
}

static void on_near(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct rpc_peer *peer = list_entry(call, struct rpc_peer, near_call);
    const struct wire_near_rep *near = reply;
    char address[LIMIT_NAME_SIZE + 1];

    (void)last;
    if (status == SNOW_CLOSED)
        return; /* on_end comes, or the peer is being closed */
    if (status == SNOW_OK && near->address.size > 0 && near->address.size <= LIMIT_NAME_SIZE) {
        memcpy(address, near->address.at, near->address.size);
        address[near->address.size] = 0;
        if (rpc_dial(peer->rpc, address, peer->hello.session, peer->expect,
                     env_now_ns(peer->rpc->env) + NEAR_NS_MAX, peer, on_near_open,
                     &peer->near_conn) == SNOW_OK)
            return;
        peer->near_conn = NULL;
    }
    become_up(peer);
}

static void on_open(void *conn_owner, struct rpc_conn *conn, enum snow_status status,
                    const struct wire_hello_rep *hello)
{
    struct rpc_peer *peer = conn_owner;
    struct wire_near_req near = {.host = bytes_of_string(env_host(peer->rpc->env))};

    if (status == SNOW_OK) {
        take_conn(peer, conn, hello);
        peer->near_call.on_reply = on_near;
        if (!peer->near || hello->version < NEAR_VERSION ||
            rpc_call_start(conn, &peer->near_call, WIRE_near, &near, NULL,
                           env_now_ns(peer->rpc->env) + NEAR_NS_MAX) != SNOW_OK)
            become_up(peer);
        return;
    }
    peer->conn = NULL;
    dial_later(peer);
    if (peer->on_failed != NULL)
        peer->on_failed(peer, status, hello == NULL ? bytes_of(NULL, 0) : hello->reason);
}

static enum snow_status dial(struct rpc_peer *peer)
{
    return rpc_dial(peer->rpc, peer->address, peer->session, peer->expect,
                    env_now_ns(peer->rpc->env) + DIAL_NS_MAX, peer, on_open, &peer->conn);
}

static void on_timer(struct env_timer *timer)
{
    struct rpc_peer *peer = list_entry(timer, struct rpc_peer, timer);

    if (dial(peer) != SNOW_OK) /* too many connections, or no memory: later */
        dial_later(peer);
}

enum snow_status rpc_peer_open(struct rpc_peer *peer, struct rpc *rpc, const char *address,
                               uint64_t expect)
{
    ASSERT(peer->rpc == NULL);
    if ((size_t)snprintf(peer->address, sizeof peer->address, "%s", address) >=
        sizeof peer->address)
        return SNOW_INVALID;
    peer->rpc = rpc;
    peer->expect = expect;
    peer->delay_ns = DELAY_NS_MIN;
    peer->timer.on_event = on_timer;
    rng_init(&peer->rng, env_random(rpc->env));
    enum snow_status status = dial(peer);

    if (status == SNOW_OK)
        return SNOW_OK;
    if (status == SNOW_INVALID) {
        peer->rpc = NULL;
        return status;
    }
    dial_later(peer);
    return SNOW_OK;
}

void rpc_peer_close(struct rpc_peer *peer)
{
    struct rpc_conn *conn = peer->conn;

    if (peer->rpc == NULL)
        return;
    env_timer_cancel(&peer->timer);
    rpc_call_cancel(&peer->near_call);
    peer->conn = NULL;
    peer->up = false;
    peer->rpc = NULL;
    if (peer->near_conn != NULL)
        rpc_conn_close(peer->near_conn);
    peer->near_conn = NULL;
    if (conn != NULL)
        rpc_conn_close(conn);
}

void rpc_peer_reset(struct rpc_peer *peer)
{
    if (peer->up)
        rpc_conn_break(peer->conn, SNOW_UNREACHABLE, true);
}
