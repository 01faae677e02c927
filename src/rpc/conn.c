/* The life of a connection.
 *
 *   DIALLING ──open──► ASKED ──answer──► OPEN        rpc_dial, on_stream_open, rpc_hello_reply
 *   LISTENING ──hello──► OPEN                        rpc_conn_accepted, rpc_hello_request
 *   any ──break──► BROKEN ──next turn──► ENDED       rpc_conn_break, rpc_conn_end
 *   any ──close, end of the stream──► ENDED          rpc_conn_close, rpc_conn_end
 *
 * Problem.  A connection may have to end while its users are on the stack: in the middle of a
 *           rpc_call_cancel, of a reply, of a decoder.
 * Idea.     Breaking closes the stream at once, so that no byte moves any more, and leaves the
 *           telling to the next turn.  Memory is freed when nothing of ours is on the stack.
 */
#include "rpc/conn.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what the stream tells ------------------------------------------------------------------ */

static void on_stream_open(void *owner, enum snow_status status)
{
    struct rpc_conn *conn = owner;
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    if (status == SNOW_OK) {
        conn->state = RPC_CONN_ASKED;
        rpc_hello_ask(conn);
    } else {
        rpc_conn_end(conn, status, true);
    }
    rpc_leave(rpc);
}

static void on_stream_readable(void *owner)
{
    struct rpc_conn *conn = owner;
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    rpc_receive(conn);
    rpc_leave(rpc);
}

static void on_stream_writable(void *owner)
{
    struct rpc_conn *conn = owner;
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    conn->blocked = false;
    rpc_send_flush(conn);
    rpc_leave(rpc);
}

static const struct env_conn_ops stream_ops = {
    .on_open = on_stream_open,
    .on_readable = on_stream_readable,
    .on_writable = on_stream_writable,
};

/* ---- beginning ------------------------------------------------------------------------------ */

struct rpc_conn *rpc_conn_create(struct rpc *rpc, enum rpc_conn_state state)
{
    struct rpc_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->rpc = rpc;
    conn->state = state;
    conn->version = WIRE_VERSION_MIN;
    conn->input_size = RPC_INPUT_SIZE;
    list_init(&conn->out);
    list_init(&conn->held);
    arena_init(&conn->arena, RPC_MESSAGE_SIZE_MAX);
    arena_init(&conn->incoming.arena, RPC_MESSAGE_SIZE_MAX);
    conn->progress_timer.on_event = rpc_send_on_progress_timer;
    conn->call_sequence = 1;
    list_push(&rpc->conns, &conn->link);
    rpc->conn_count++;
    return conn;
}

void rpc_conn_accepted(void *owner, struct env_conn *stream)
{
    struct rpc *rpc = owner;
    struct rpc_conn *conn = NULL;

    if (rpc->conn_count >= LIMIT_CONNECTIONS)
        rpc_count(rpc, RPC_METRIC_connections_over_limit);
    else
        conn = rpc_conn_create(rpc, RPC_CONN_LISTENING);
    if (conn == NULL) {
        env_conn_close(stream, true);
        return;
    }
    conn->stream = stream;
    snprintf(conn->peer, sizeof conn->peer, "%s", env_conn_peer(stream));
    env_conn_own(stream, &stream_ops, conn);
    rpc_hello_wait(conn, 0);
}

enum snow_status rpc_dial(struct rpc *rpc, const char *address, uint64_t session, uint64_t expect,
                          uint64_t deadline_ns, void *conn_owner,
                          void (*on_open)(void *conn_owner, struct rpc_conn *conn,
                                          enum snow_status status,
                                          const struct wire_hello_rep *hello),
                          struct rpc_conn **conn)
{
    if (rpc->conn_count >= LIMIT_CONNECTIONS)
        return SNOW_BUSY;
    struct rpc_conn *made = rpc_conn_create(rpc, RPC_CONN_DIALLING);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    snprintf(made->peer, sizeof made->peer, "%s", address);
    made->owner = conn_owner;
    made->on_open = on_open;
    made->session = session;
    made->expect = expect;
    enum snow_status status =
        env_dial(rpc->loop, address, &rpc->options.socket, &stream_ops, made, &made->stream);

    if (status != SNOW_OK) {
        rpc_enter(rpc);
        rpc_conn_end(made, status, false);
        rpc_leave(rpc);
        return status;
    }
    rpc_hello_wait(made, deadline_ns);
    *conn = made;
    return SNOW_OK;
}

/* ---- ending --------------------------------------------------------------------------------- */

static void close_stream(struct rpc_conn *conn, bool reset)
{
    if (conn->stream != NULL)
        env_conn_close(conn->stream, reset);
    conn->stream = NULL;
    env_timer_cancel(&conn->hello_timer);
    env_timer_cancel(&conn->progress_timer);
    if (list_is_linked(&conn->dirty_link))
        list_remove(&conn->dirty_link);
}

void rpc_conn_break(struct rpc_conn *conn, enum snow_status status, bool reset)
{
    if (!rpc_conn_alive(conn))
        return;
    close_stream(conn, reset);
    conn->state = RPC_CONN_BROKEN;
    conn->end_status = status;
    rpc_wait_turn(conn);
}

void rpc_conn_bad(struct rpc_conn *conn, enum rpc_metric reason)
{
    if (!rpc_conn_alive(conn))
        return;
    rpc_count(conn->rpc, reason);
    rpc_conn_break(conn, SNOW_INVALID, true);
}

static void tell_end(struct rpc_conn *conn, enum snow_status status)
{
    struct rpc *rpc = conn->rpc;

    if (conn->greeted) {
        rpc_count(rpc, RPC_METRIC_connections_lost);
        if (conn->on_end != NULL)
            conn->on_end(conn->owner, status);
        else if (rpc->service->on_close != NULL)
            rpc->service->on_close(rpc->owner, conn, status);
    } else if (conn->on_open != NULL) {
        rpc_count(rpc, RPC_METRIC_dials_failed);
        conn->on_open(conn->owner, conn, status, NULL);
    }
}

void rpc_conn_end(struct rpc_conn *conn, enum snow_status status, bool tell)
{
    if (conn->state == RPC_CONN_ENDED)
        return;
    close_stream(conn, !list_is_empty(&conn->out));
    conn->state = RPC_CONN_ENDED;
    if (list_is_linked(&conn->waiting_link))
        list_remove(&conn->waiting_link);
    list_remove(&conn->link);
    list_push(&conn->rpc->dead, &conn->link);
    conn->rpc->conn_count--;
    rpc_call_end_all(conn);
    rpc_request_end_all(conn);
    rpc_send_drop_all(conn);
    /* Who was told of the ends of its calls may have closed it, and be gone. */
    if (tell && !conn->closed)
        tell_end(conn, status);
}

void rpc_conn_close(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    conn->closed = true;
    if (rpc_conn_alive(conn) && conn->greeted && !conn->blocked)
        rpc_send_flush(conn); /* what was said so far is still heard */
    rpc_conn_end(conn, SNOW_CLOSED, false);
    rpc_leave(rpc);
}

void rpc_conn_free(struct rpc_conn *conn)
{
    free(conn->partial);
    free(conn->rest);
    free(conn->incoming.pieces);
    free(conn->incoming.body);
    arena_deinit(&conn->incoming.arena);
    arena_deinit(&conn->arena);
    rpc_slots_deinit(&conn->calls);
    rpc_slots_deinit(&conn->requests);
    free(conn);
}

/* ---- about it ------------------------------------------------------------------------------- */

void *rpc_conn_owner(const struct rpc_conn *conn)
{
    return conn->owner;
}

void rpc_conn_set_owner(struct rpc_conn *conn, void *conn_owner)
{
    conn->owner = conn_owner;
}

uint8_t rpc_conn_role(const struct rpc_conn *conn)
{
    return conn->role;
}

const char *rpc_conn_peer(const struct rpc_conn *conn)
{
    return conn->peer;
}

struct env_conn *rpc_conn_stream(const struct rpc_conn *conn)
{
    return conn->stream;
}

uint32_t rpc_conn_queued(const struct rpc_conn *conn)
{
    return conn->queued > UINT32_MAX ? UINT32_MAX : (uint32_t)conn->queued;
}

uint64_t rpc_conn_queued_payload(const struct rpc_conn *conn)
{
    return conn->queued_payload;
}

uint64_t rpc_conn_received_ns(const struct rpc_conn *conn)
{
    return conn->received_ns;
}

/* Clients say which term they have seen, but it raises nobody's: one that lies would use terms
 * up. */
void rpc_conn_term(struct rpc_conn *conn, uint32_t term)
{
    if (conn->role != WIRE_ROLE_CLIENT && term > conn->rpc->identity.term)
        conn->rpc->identity.term = term;
}
