/* Requests of the peer.
 *
 * Invariants.
 *   T1  A request holds the slot that its id names until its last reply is queued, or it is gone.
 *   T2  The last reply leaves after the request's payload has been taken off the stream: whoever
 *       asked has then sent all of it, so its memory is its own again.
 *   T3  Gone (cancelled, expired, connection ended) is told once, unless it was answered before.
 */
#include "rpc/conn.h"

#include <stdlib.h>

/* ---- life ----------------------------------------------------------------------------------- */

static void request_free(struct rpc_request *request)
{
    struct rpc_conn *conn = request->conn;

    env_timer_cancel(&request->timer);
    rpc_slots_give(&conn->requests, (uint32_t)(request->id & (LIMIT_REQUESTS_PER_CONN - 1)));
    if (conn->incoming.request == request) /* the rest is drained, whatever its size: T2 */
        conn->incoming.request = NULL;
    arena_deinit(&request->arena);
    free(request->kept_body);
    free(request);
}

/* Its destination is nobody's any more. */
static void stop_receiving(struct rpc_request *request)
{
    struct rpc_conn *conn = request->conn;
    struct rpc_payload nothing = {0};

    if (conn->incoming.request != request)
        return;
    conn->incoming.request = NULL;
    if (rpc_payload_direct(conn, &nothing) != SNOW_OK)
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
}

/* Tells whoever was to answer it, and frees it. */
static void gone(struct rpc_request *request, enum snow_status status)
{
    struct rpc_conn *conn = request->conn;
    struct rpc *rpc = conn->rpc;

    request->gone = true;
    if (conn->incoming.request == request) {
        void (*on_end)(struct rpc_request *, enum snow_status) = conn->incoming.on_request_end;

        stop_receiving(request);
        on_end(request, status);
    }
    if (rpc->service->on_request_gone != NULL)
        rpc->service->on_request_gone(rpc->owner, request);
    request_free(request);
}

static void on_deadline(struct env_timer *timer)
{
    struct rpc_request *request = list_entry(timer, struct rpc_request, timer);
    struct rpc *rpc = request->conn->rpc;

    rpc_enter(rpc);
    rpc_count(rpc, RPC_METRIC_requests_expired);
    gone(request, SNOW_TIMEOUT);
    rpc_leave(rpc);
}

void rpc_request_cancelled(struct rpc_conn *conn, const struct frame_header *header)
{
    struct rpc_request *request = rpc_slots_at(&conn->requests, header->request_id);

    if (request == NULL || request->id != header->request_id)
        return; /* it was answered meanwhile */
    rpc_count(conn->rpc, RPC_METRIC_requests_cancelled);
    gone(request, SNOW_CANCELLED);
}

void rpc_request_end_all(struct rpc_conn *conn)
{
    for (uint32_t slot = 0; slot < conn->requests.count; slot++) {
        struct rpc_request *request = conn->requests.items[slot];

        if (request == NULL)
            continue;
        rpc_count(conn->rpc, RPC_METRIC_requests_lost);
        gone(request, SNOW_CLOSED);
    }
}

/* ---- arriving ------------------------------------------------------------------------------- */

/* An answer that needs no service. */
static void refuse(struct rpc_conn *conn, const struct frame_header *header,
                   enum snow_status status)
{
    struct frame_header answer = {.kind = FRAME_REPLY_LAST,
                                  .type = header->type,
                                  .request_id = header->request_id,
                                  .status = status};

    rpc_send_frame(conn, &answer, bytes_of(NULL, 0), NULL, conn->incoming.left > 0, NULL);
}

static struct rpc_request *request_create(struct rpc_conn *conn, const struct frame_header *header)
{
    struct rpc_request *request = malloc(sizeof *request);

    if (request != NULL)
        *request = (struct rpc_request){0};
    if (request == NULL ||
        rpc_slots_put(&conn->requests,
                      (uint32_t)(header->request_id & (LIMIT_REQUESTS_PER_CONN - 1)),
                      request) != SNOW_OK) {
        free(request);
        return NULL;
    }
    request->conn = conn;
    request->id = header->request_id;
    request->type = header->type;
    request->deadline_ns = UINT64_MAX;
    request->payload_size = header->payload_size;
    arena_init(&request->arena, RPC_MESSAGE_SIZE_MAX);
    if (header->deadline_ms > 0) {
        request->deadline_ns =
            env_now_ns(conn->rpc->env) + (uint64_t)header->deadline_ms * NS_PER_MS;
        request->timer.on_event = on_deadline;
        env_timer_arm(conn->rpc->loop, &request->timer, request->deadline_ns);
    }
    return request;
}

static void answer_ping(struct rpc_request *request, const struct wire_ping_req *ping)
{
    struct wire_ping_rep reply = {.value = ping->value};

    rpc_reply(request, &reply, true);
}

static void answer_near(struct rpc_request *request, const struct wire_near_req *near)
{
    struct rpc *rpc = request->conn->rpc;
    struct wire_near_rep reply = {.address = bytes_of_string("")};

    if (bytes_equal(near->host, bytes_of_string(env_host(rpc->env))))
        reply.address = bytes_of_string(rpc_near_address(rpc));
    rpc_reply(request, &reply, true);
}

/* Decodes a request's message into memory of its own. */
static enum snow_status keep(struct rpc_request *request)
{
    enum snow_status status;
    void *message;

    request->kept_body = malloc(request->body.size + 1);
    if (request->kept_body == NULL)
        return SNOW_NO_MEMORY;
    if (request->body.size > 0)
        memcpy(request->kept_body, request->body.at, request->body.size);
    status = wire_request_decode(request->type, bytes_of(request->kept_body, request->body.size),
                                 request->conn->version, &request->arena, &message);
    if (status != SNOW_OK)
        return status;
    request->message = message;
    request->kept = true;
    return SNOW_OK;
}

/* Decodes it, for as long as its service wants. */
static enum snow_status decode(struct rpc_request *request)
{
    struct rpc_conn *conn = request->conn;
    const struct rpc_service *service = conn->rpc->service;
    enum snow_status status;
    void *message;

    if (service->keeps != NULL && service->keeps(conn->rpc->owner, request->type))
        return keep(request);
    status =
        wire_request_decode(request->type, request->body, conn->version, &conn->arena, &message);
    if (status == SNOW_OK)
        request->message = message;
    return status;
}

static void serve(struct rpc_conn *conn, const struct frame_header *header, struct bytes body)
{
    struct rpc *rpc = conn->rpc;
    struct rpc_request *request = request_create(conn, header);
    enum snow_status status = SNOW_NO_MEMORY;

    if (request != NULL) {
        request->body = body;
        request->is_new = true;
        status = decode(request);
    }
    if (status != SNOW_OK) {
        if (request != NULL)
            request_free(request);
        rpc_conn_bad(conn, request == NULL ? RPC_METRIC_no_memory : RPC_METRIC_bad_message);
        return;
    }
    const void *message = request->message;

    rpc_count(rpc, RPC_METRIC_requests);
    if (header->type == WIRE_ping || header->type == WIRE_near) {
        if (header->type == WIRE_ping)
            answer_ping(request, message);
        else
            answer_near(request, message);
        return;
    }
    if (rpc->service->on_request == NULL) {
        rpc_fail(request, SNOW_INVALID);
        return;
    }
    rpc->service->on_request(rpc->owner, conn, request, header->type, message,
                             header->payload_size);
    /* The request may be answered and freed; if it is not, what it was decoded from ends here. */
    struct rpc_request *left = rpc_slots_at(&conn->requests, header->request_id);

    if (left == NULL || left->id != header->request_id)
        return;
    left->is_new = false;
    left->body = bytes_of(NULL, 0);
    if (!left->kept)
        left->message = NULL;
}

void rpc_request_arrived(struct rpc_conn *conn, const struct frame_header *header,
                         struct bytes body)
{
    if (header->type == WIRE_hello || header->request_id == 0 ||
        rpc_slots_at(&conn->requests, header->request_id) != NULL) {
        rpc_conn_bad(conn, RPC_METRIC_bad_request_id);
        return;
    }
    if (wire_type_find(header->type) == NULL) { /* of a newer peer */
        rpc_count(conn->rpc, RPC_METRIC_unknown_types);
        conn->incoming.request_id = header->request_id;
        refuse(conn, header, SNOW_INVALID);
        return;
    }
    conn->incoming.request_id = header->request_id;
    serve(conn, header, body);
}

/* ---- what its service asks ------------------------------------------------------------------ */

struct rpc_conn *rpc_request_conn(struct rpc_request *request)
{
    return request->conn;
}

uint16_t rpc_request_type(const struct rpc_request *request)
{
    return request->type;
}

uint64_t rpc_request_deadline_ns(const struct rpc_request *request)
{
    return request->deadline_ns;
}

void *rpc_request_owner(const struct rpc_request *request)
{
    return request->owner;
}

void rpc_request_set_owner(struct rpc_request *request, void *request_owner)
{
    request->owner = request_owner;
}

const void *rpc_request_message(const struct rpc_request *request)
{
    return request->message;
}

bool rpc_request_keep(struct rpc_request *request)
{
    if (request->kept)
        return true;
    ASSERT(request->is_new); /* later there is nothing left to keep */
    if (keep(request) == SNOW_OK)
        return true;
    rpc_conn_bad(request->conn, RPC_METRIC_no_memory);
    return false;
}

void rpc_request_receive(struct rpc_request *request, const struct rpc_payload *to,
                         void (*on_piece)(struct rpc_request *request, const uint8_t *at,
                                          size_t size),
                         void (*on_end)(struct rpc_request *request, enum snow_status status))
{
    struct rpc_conn *conn = request->conn;

    ASSERT(request->is_new && request->payload_size > 0);
    if (!rpc_conn_alive(conn))
        return; /* the request is gone in the next turn */
    if (rpc_payload_direct(conn, to) != SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
        return;
    }
    conn->incoming.request = request;
    conn->incoming.on_request_piece = on_piece;
    conn->incoming.on_request_end = on_end;
}

void rpc_request_cut(struct rpc_request *request, const uint8_t *at, size_t size)
{
    struct rpc_conn *conn = request->conn;

    if (conn->incoming.request != request || size == 0)
        return;
    if (rpc_payload_cut(conn, at, size) != SNOW_OK)
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
}

/* ---- answering ------------------------------------------------------------------------------ */

/* Queues an answer; the last one frees the request. */
static void answer(struct rpc_request *request, enum snow_status status, struct bytes body,
                   const struct rpc_payload *payload, bool last, struct rpc_out **out)
{
    struct rpc_conn *conn = request->conn;
    struct frame_header header = {.kind = last ? FRAME_REPLY_LAST : FRAME_REPLY,
                                  .type = request->type,
                                  .request_id = request->id,
                                  .status = status};

    if (request->gone)
        return;
    bool held = conn->incoming.left > 0 && conn->incoming.request_id == request->id;

    if (last && conn->incoming.request == request)
        stop_receiving(request);
    rpc_send_frame(conn, &header, body, payload, held, out);
    if (last)
        request_free(request);
}

/* Encodes a reply; a failure to do so is the request's. */
static bool encode(struct rpc_request *request, const void *message, struct bytes *body)
{
    struct writer writer = rpc_send_writer(request->conn);
    enum snow_status status = wire_reply_encode(request->type, message, &writer);

    if (status != SNOW_OK && request->failed == SNOW_OK) {
        rpc_count(request->conn->rpc, RPC_METRIC_replies_too_large);
        request->failed = status;
    }
    *body = rpc_send_body(request->conn, &writer);
    return request->failed == SNOW_OK;
}

void rpc_reply(struct rpc_request *request, const void *message, bool last)
{
    struct bytes body;

    if (encode(request, message, &body))
        answer(request, SNOW_OK, body, NULL, last, NULL);
    else if (last)
        rpc_fail(request, request->failed);
}

void rpc_reply_payload(struct rpc_request *request, const void *message,
                       const struct rpc_payload *payload,
                       void (*on_sent)(void *sent_owner, enum snow_status status), void *sent_owner)
{
    const struct rpc_payload nothing = {0};
    uint64_t deadline_ns = request->deadline_ns; /* the answer frees it */
    struct rpc_out *out = NULL;
    struct bytes body;

    if (!encode(request, message, &body))
        answer(request, request->failed, bytes_of(NULL, 0), &nothing, true, &out);
    else
        answer(request, SNOW_OK, body, payload, true, &out);
    if (out != NULL) {
        out->on_sent = on_sent;
        out->sent_owner = sent_owner;
        out->deadline_ns = deadline_ns == UINT64_MAX ? 0 : deadline_ns;
    } else if (on_sent != NULL) {
        on_sent(sent_owner, SNOW_CLOSED); /* gone, or no memory for a later moment */
    }
}

void rpc_fail(struct rpc_request *request, enum snow_status status)
{
    answer(request, status, bytes_of(NULL, 0), NULL, true, NULL);
}
