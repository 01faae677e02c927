/* Requests of ours.
 *
 *   start ──► open ──last reply──► ended      rpc_call_reply, rpc_call_payload_end
 *                  ──deadline────► ended      on_deadline
 *                  ──cancel──────► ended      rpc_call_cancel
 *                  ──connection──► ended      rpc_call_end_all
 * Invariants.
 *   Q1  An open call holds the slot that its id names.
 *   Q2  A call that ends leaves nothing behind that knows its memory: its payload is taken back
 *       from the queue and its destination is drained, or the connection breaks.
 */
#include "rpc/conn.h"

#include <stdlib.h>

/* ---- ending --------------------------------------------------------------------------------- */

/* Takes the call off the connection: nothing of it moves any more.  True: the request has left, or
 * will, so the peer may be told that it is over. */
static bool detach(struct rpc_call *call)
{
    struct rpc_conn *conn = call->conn;
    struct rpc_out *out = call->out;
    bool known_to_peer = true;

    env_timer_cancel(&call->timer);
    rpc_slots_give(&conn->calls, (uint32_t)(call->id & (LIMIT_REQUESTS_PER_CONN - 1)));
    if (out != NULL) {
        out->call = NULL;
        call->out = NULL;
        if (rpc_send_take_back(conn, out)) {
            known_to_peer = false;
        } else {
            if (rpc_conn_alive(conn))
                rpc_count(conn->rpc, RPC_METRIC_resets);
            rpc_conn_break(conn, SNOW_CLOSED, true);
        }
    }
    if (conn->incoming.call == call)
        rpc_payload_forget(conn);
    call->conn = NULL;
    return known_to_peer;
}

static void tell_peer(struct rpc_conn *conn, uint64_t id, uint16_t type)
{
    struct frame_header header = {.kind = FRAME_CANCEL, .type = type, .request_id = id};

    if (conn->state == RPC_CONN_OPEN)
        rpc_send_frame(conn, &header, bytes_of(NULL, 0), NULL, false, NULL);
}

static void on_deadline(struct env_timer *timer)
{
    struct rpc_call *call = list_entry(timer, struct rpc_call, timer);
    struct rpc_conn *conn = call->conn;
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    rpc_count(rpc, RPC_METRIC_calls_timed_out);
    if (detach(call))
        tell_peer(conn, call->id, call->type);
    call->on_reply(call, SNOW_TIMEOUT, NULL, true);
    rpc_leave(rpc);
}

void rpc_call_cancel(struct rpc_call *call)
{
    struct rpc_conn *conn = call->conn;

    if (conn == NULL)
        return;
    rpc_count(conn->rpc, RPC_METRIC_calls_cancelled);
    if (detach(call))
        tell_peer(conn, call->id, call->type);
}

void rpc_call_end_all(struct rpc_conn *conn)
{
    for (uint32_t slot = 0; slot < conn->calls.count; slot++) {
        struct rpc_call *call = conn->calls.items[slot];

        if (call == NULL)
            continue;
        rpc_count(conn->rpc, RPC_METRIC_calls_lost);
        detach(call);
        call->on_reply(call, SNOW_CLOSED, NULL, true);
    }
}

/* ---- starting ------------------------------------------------------------------------------- */

static uint32_t remaining_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    uint64_t left_ms;

    if (deadline_ns == 0)
        return 0;
    if (deadline_ns <= now_ns)
        return 1;
    left_ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms;
}

static enum snow_status check_payload(const struct rpc_payload *payload)
{
    uint64_t total = 0;

    if (payload == NULL)
        return SNOW_OK;
    if (payload->size > LIMIT_PAYLOAD_SIZE)
        return SNOW_LIMIT;
    for (uint32_t i = 0; i < payload->iov_count; i++)
        total += payload->iov[i].iov_len;
    return total == payload->size ? SNOW_OK : SNOW_INVALID;
}

/* Whether the connection takes another frame of ours. */
static enum snow_status check_room(struct rpc_conn *conn)
{
    if (!rpc_conn_alive(conn))
        return SNOW_CLOSED;
    if (conn->state != RPC_CONN_OPEN)
        return SNOW_NOT_READY;
    if (conn->queued > LIMIT_SEND_QUEUE) {
        rpc_count(conn->rpc, RPC_METRIC_calls_busy);
        return SNOW_BUSY;
    }
    return SNOW_OK;
}

enum snow_status rpc_call_start(struct rpc_conn *conn, struct rpc_call *call, uint16_t type,
                                const void *message, const struct rpc_payload *payload,
                                uint64_t deadline_ns)
{
    struct rpc *rpc = conn->rpc;
    uint32_t slot;
    enum snow_status status = check_room(conn);

    ASSERT(call->conn == NULL);
    if (status == SNOW_OK)
        status = check_payload(payload);
    if (status != SNOW_OK)
        return status;
    struct writer writer = rpc_send_writer(conn);

    status = wire_request_encode(type, message, &writer);
    if (status == SNOW_OK)
        status = rpc_slots_take(&conn->calls, call, &slot);
    else
        return status;
    if (status != SNOW_OK) {
        rpc_count(rpc, RPC_METRIC_calls_busy);
        return status == SNOW_LIMIT ? SNOW_BUSY : status;
    }
    call->conn = conn;
    call->type = type;
    call->sent_ns = 0;
    call->id = conn->call_sequence++ << RPC_SLOT_BITS | slot;
    call->out = NULL;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = type, .request_id = call->id};

    header.deadline_ms = remaining_ms(env_now_ns(rpc->env), deadline_ns);
    if (payload != NULL && payload->size == 0)
        payload = NULL;
    rpc_send_frame(conn, &header, rpc_send_body(conn, &writer), payload, false, &call->out);
    if (call->out != NULL)
        call->out->call = call;
    if (deadline_ns != 0) {
        call->timer.on_event = on_deadline;
        env_timer_arm(rpc->loop, &call->timer, deadline_ns);
    }
    rpc_count(rpc, RPC_METRIC_calls_started);
    return SNOW_OK;
}

uint64_t rpc_call_sent_ns(const struct rpc_call *call)
{
    return call->out != NULL ? call->conn->sent_ns : call->sent_ns;
}

enum snow_status rpc_oneway(struct rpc_conn *conn, uint16_t type, const void *message)
{
    enum snow_status status = check_room(conn);

    if (status != SNOW_OK)
        return status;
    struct writer writer = rpc_send_writer(conn);
    struct frame_header header = {.kind = FRAME_ONEWAY, .type = type};

    status = wire_oneway_encode(type, message, &writer);
    if (status == SNOW_OK)
        rpc_send_frame(conn, &header, rpc_send_body(conn, &writer), NULL, false, NULL);
    return status;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void finish(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    if (last)
        detach(call);
    call->on_reply(call, status, reply, last);
}

/* The payload of a reply follows: its message has to outlive the receive buffer. */
static void expect_payload(struct rpc_conn *conn, struct rpc_call *call,
                           const struct frame_header *header, struct bytes body)
{
    struct rpc_incoming *incoming = &conn->incoming;
    struct rpc_payload to = {0};
    uint8_t *copy = realloc(incoming->body, body.size + 1);

    if (copy == NULL) {
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
        return;
    }
    incoming->body = copy;
    if (body.size > 0)
        memcpy(copy, body.at, body.size);
    arena_reset(&incoming->arena);
    if (wire_reply_decode(header->type, bytes_of(copy, body.size), header->version,
                          &incoming->arena, &incoming->reply) != SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_message);
        return;
    }
    incoming->call = call;
    incoming->last = header->kind == FRAME_REPLY_LAST;
    if (call->on_payload == NULL ||
        !call->on_payload(call, incoming->reply, header->payload_size, &to))
        return;
    if (incoming->call == call && rpc_conn_alive(conn) && rpc_payload_direct(conn, &to) != SNOW_OK)
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
}

void rpc_call_payload_end(struct rpc_conn *conn, struct rpc_call *call)
{
    finish(call, SNOW_OK, conn->incoming.reply, conn->incoming.last);
}

void rpc_call_reply(struct rpc_conn *conn, const struct frame_header *header, struct bytes body)
{
    struct rpc_call *call = rpc_slots_at(&conn->calls, header->request_id);
    bool last = header->kind == FRAME_REPLY_LAST;
    void *reply;

    if (call == NULL || call->id != header->request_id) {
        rpc_count(conn->rpc, RPC_METRIC_replies_late);
        rpc_payload_forget(conn);
        return;
    }
    /* The last reply comes after all of our payload was taken. */
    if (header->type != call->type || (last && call->out != NULL) ||
        (header->status != SNOW_OK &&
         (!last || header->body_size > 0 || header->payload_size > 0))) {
        rpc_conn_bad(conn, RPC_METRIC_bad_reply);
        return;
    }
    if (header->status != SNOW_OK) {
        finish(call, status_is_known(header->status) ? header->status : SNOW_INVALID, NULL, true);
        return;
    }
    if (header->payload_size > 0) {
        expect_payload(conn, call, header, body);
        return;
    }
    if (wire_reply_decode(header->type, body, header->version, &conn->arena, &reply) != SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_message);
        return;
    }
    finish(call, SNOW_OK, reply, last);
}
