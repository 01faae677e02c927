/* Bytes to frames, and frames to whom they concern.
 *
 * Problem.  Small frames come by the hundred and should cost one system call together; large ones
 *           and payloads should be copied once; an idle connection should hold no buffer.
 * Idea.     One call receives into up to three places in order: what is left of a payload, or of a
 *           frame that came in part; then the endpoint's shared buffer.  Frames that lie whole in
 *           the shared buffer are handled there; a part of one moves to a buffer of its own size.
 *           Behind a frame with a large payload no more is received than another one's header and
 *           body: its payload then goes into its own place, uncopied.
 * Invariants.
 *   I1  Nothing of a connection lies in the shared buffer when rpc_receive returns: what was not
 *       looked at because reading paused is its `rest`, and comes before what the stream has.
 *   I2  A size is believed only after the header's checksum held.
 *   I3  No connection takes more than its share of a turn.
 */
#include "rpc/conn.h"

#include <stdlib.h>

#define PARTS_MAX 66 /* places of one receive: payload pieces, and the shared buffer */

/* ---- frames --------------------------------------------------------------------------------- */

static const enum rpc_metric metric_of_reason[FRAME_REASON_COUNT] = {
    [FRAME_REASON_BAD_MAGIC] = RPC_METRIC_bad_magic,
    [FRAME_REASON_BAD_HEADER_CRC] = RPC_METRIC_bad_header,
    [FRAME_REASON_BAD_VERSION] = RPC_METRIC_bad_version,
    [FRAME_REASON_BAD_KIND] = RPC_METRIC_bad_kind,
    [FRAME_REASON_OVER_LIMIT] = RPC_METRIC_bad_limit,
    [FRAME_REASON_BAD_BODY_CRC] = RPC_METRIC_bad_body,
};

/* A header that may come now on this connection; false: it was bad, the connection broke. */
static bool read_header(struct rpc_conn *conn, const uint8_t *at, struct frame_header *header)
{
    enum frame_reason reason = frame_header_decode(bytes_of(at, FRAME_HEADER_SIZE), header);

    if (reason == FRAME_REASON_OK && header->version != conn->version)
        reason = FRAME_REASON_BAD_VERSION;
    if (reason == FRAME_REASON_OK && conn->state != RPC_CONN_OPEN &&
        header->body_size > RPC_HELLO_BODY_MAX)
        reason = FRAME_REASON_OVER_LIMIT;
    if (reason == FRAME_REASON_OK)
        return true;
    rpc_conn_bad(conn, metric_of_reason[reason]);
    return false;
}

static void handle_oneway(struct rpc_conn *conn, const struct frame_header *header,
                          struct bytes body)
{
    struct rpc *rpc = conn->rpc;
    const struct wire_message_type *type = wire_type_find(header->type);
    void *message;

    if (type == NULL) { /* of a newer peer: nobody waits for an answer */
        rpc_count(rpc, RPC_METRIC_unknown_types);
        return;
    }
    if (wire_oneway_decode(header->type, body, header->version, &conn->arena, &message) !=
        SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_message);
        return;
    }
    if (rpc->service->on_oneway != NULL)
        rpc->service->on_oneway(rpc->owner, conn, header->type, message);
}

static void handle_open(struct rpc_conn *conn, const struct frame_header *header, struct bytes body)
{
    rpc_conn_term(conn, header->term);
    switch (header->kind) {
    case FRAME_REQUEST:
        rpc_request_arrived(conn, header, body);
        break;
    case FRAME_REPLY:
    case FRAME_REPLY_LAST:
        rpc_call_reply(conn, header, body);
        break;
    case FRAME_CANCEL:
        rpc_request_cancelled(conn, header);
        break;
    default:
        handle_oneway(conn, header, body);
        break;
    }
}

static void handle_frame(struct rpc_conn *conn, const struct frame_header *header,
                         struct bytes body)
{
    if (frame_body_check(header, body) != FRAME_REASON_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_body);
        return;
    }
    rpc_count(conn->rpc, RPC_METRIC_frames_received);
    arena_reset(&conn->arena);
    if (conn->state == RPC_CONN_OPEN)
        handle_open(conn, header, body);
    else if (conn->state == RPC_CONN_LISTENING)
        rpc_hello_request(conn, header, body);
    else
        rpc_hello_reply(conn, header, body);
}

/* How much the shared buffer takes behind this frame. */
static void expect_like(struct rpc_conn *conn, const struct frame_header *header)
{
    size_t size = FRAME_HEADER_SIZE + header->body_size;

    conn->input_size =
        header->payload_size > RPC_COPY_MAX && size < RPC_INPUT_SIZE ? size : RPC_INPUT_SIZE;
}

/* ---- parts of frames ------------------------------------------------------------------------ */

/* Bytes that a frame of which a part is here still needs before more can be said. */
static size_t partial_missing(const struct rpc_conn *conn)
{
    struct frame_header header;

    if (conn->partial_size < FRAME_HEADER_SIZE)
        return FRAME_HEADER_SIZE - conn->partial_size;
    /* It was decoded when it came whole (take_partial), so it decodes. */
    if (frame_header_decode(bytes_of(conn->partial, FRAME_HEADER_SIZE), &header) != FRAME_REASON_OK)
        return 0;
    return FRAME_HEADER_SIZE + header.body_size - conn->partial_size;
}

static bool partial_reserve(struct rpc_conn *conn, size_t size)
{
    if (size <= conn->partial_capacity)
        return true;
    uint8_t *larger = realloc(conn->partial, size);

    if (larger == NULL) {
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
        return false;
    }
    conn->partial = larger;
    conn->partial_capacity = size;
    return true;
}

/* What came into the partial frame may complete its header, or all of it. */
static void take_partial(struct rpc_conn *conn)
{
    struct frame_header header;

    if (conn->partial_size < FRAME_HEADER_SIZE)
        return;
    if (!read_header(conn, conn->partial, &header) ||
        !partial_reserve(conn, FRAME_HEADER_SIZE + header.body_size))
        return;
    if (conn->partial_size < FRAME_HEADER_SIZE + header.body_size)
        return;
    uint8_t *frame = conn->partial; /* the handler may receive other things meanwhile */
    size_t capacity = conn->partial_capacity;

    conn->partial = NULL;
    conn->partial_size = 0;
    conn->partial_capacity = 0;
    rpc_payload_expect(conn, header.payload_size);
    expect_like(conn, &header);
    handle_frame(conn, &header, bytes_of(frame + FRAME_HEADER_SIZE, header.body_size));
    if (capacity > RPC_HELLO_BODY_MAX || conn->partial != NULL) {
        free(frame);
        return;
    }
    conn->partial = frame; /* small: kept for the next */
    conn->partial_capacity = capacity;
}

/* Moves what is needed from the shared buffer to the partial frame; returns how much. */
static size_t feed_partial(struct rpc_conn *conn, const uint8_t *at, size_t size)
{
    size_t missing = partial_missing(conn);
    size_t taken = size < missing ? size : missing;

    if (!partial_reserve(conn, conn->partial_size + taken))
        return 0;
    memcpy(conn->partial + conn->partial_size, at, taken);
    conn->partial_size += taken;
    take_partial(conn);
    return taken;
}

/* Handles one frame that lies whole at `at`; returns its size, 0 when it is not whole. */
static size_t feed_frame(struct rpc_conn *conn, const uint8_t *at, size_t size)
{
    struct frame_header header;

    if (size < FRAME_HEADER_SIZE)
        return 0;
    if (!read_header(conn, at, &header))
        return 0;
    if (size - FRAME_HEADER_SIZE < header.body_size)
        return 0;
    rpc_payload_expect(conn, header.payload_size);
    expect_like(conn, &header);
    handle_frame(conn, &header, bytes_of(at + FRAME_HEADER_SIZE, header.body_size));
    return FRAME_HEADER_SIZE + header.body_size;
}

/* Too many replies are queued for another request.  A payload that has begun goes on: it brings
 * none, and replies may be held until its end. */
static bool must_pause(const struct rpc_conn *conn)
{
    return conn->queued_replies > LIMIT_SEND_QUEUE && conn->incoming.left == 0;
}

/* The first answer to what came together does not wait for the others: whoever asked goes on with
 * it meanwhile.  True: it left. */
static bool answer_early(struct rpc_conn *conn)
{
    if (conn->queued_replies == 0 || !rpc_conn_alive(conn))
        return false;
    rpc_send_flush(conn);
    return true;
}

static void keep_rest(struct rpc_conn *conn, const uint8_t *at, size_t size)
{
    conn->rest = malloc(size);
    if (conn->rest == NULL) {
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
        return;
    }
    memcpy(conn->rest, at, size);
    conn->rest_size = size;
}

/* What came into the shared buffer, or is left of it. */
static void feed(struct rpc_conn *conn, const uint8_t *at, size_t size)
{
    bool answered = false;

    while (size > 0 && rpc_conn_alive(conn) && !must_pause(conn)) {
        size_t taken;

        if (conn->incoming.left > 0) {
            taken = conn->incoming.left < size ? (size_t)conn->incoming.left : size;
            rpc_payload_take(conn, at, taken);
        } else if (conn->partial_size > 0) {
            taken = feed_partial(conn, at, size);
        } else {
            taken = feed_frame(conn, at, size);
            if (taken > 0 && taken < size && !answered)
                answered = answer_early(conn);
            if (taken == 0 && rpc_conn_alive(conn))
                taken = feed_partial(conn, at, size);
        }
        at += taken;
        size -= taken;
    }
    if (size > 0 && rpc_conn_alive(conn))
        keep_rest(conn, at, size);
}

static void feed_rest(struct rpc_conn *conn)
{
    uint8_t *rest = conn->rest;

    conn->rest = NULL;
    feed(conn, rest, conn->rest_size);
    free(rest);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* One receive; what it returned. */
static ssize_t receive_once(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;
    struct iovec iov[PARTS_MAX];
    int count = 0;
    size_t direct = 0; /* bytes of the places before the shared buffer */
    bool payload = conn->incoming.left > 0;
    bool complete = true;

    if (payload) {
        count = rpc_payload_iov(conn, iov, PARTS_MAX - 1, &complete);
    } else if (conn->partial_size >= FRAME_HEADER_SIZE) {
        iov[0].iov_base = conn->partial + conn->partial_size;
        iov[0].iov_len = partial_missing(conn);
        count = 1;
    }
    for (int i = 0; i < count; i++)
        direct += iov[i].iov_len;
    if (complete) {
        iov[count].iov_base = rpc->input;
        iov[count].iov_len = conn->input_size;
        count++;
    }
    ssize_t got = env_conn_receive(conn->stream, iov, count);

    if (got <= 0)
        return got;
    rpc->counters[RPC_METRIC_bytes_received] += (uint64_t)got;
    if (direct > (size_t)got)
        direct = (size_t)got;
    if (payload) {
        rpc_payload_take(conn, NULL, direct);
    } else if (direct > 0) {
        conn->partial_size += direct;
        take_partial(conn);
    }
    feed(conn, rpc->input, (size_t)got - direct);
    return got;
}

void rpc_receive(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;
    uint64_t budget = RPC_TURN_BYTES_MAX;

    while (rpc_conn_alive(conn) && conn->state != RPC_CONN_DIALLING) {
        if (must_pause(conn)) {
            conn->paused = true;
            rpc_count(rpc, RPC_METRIC_reads_paused);
            return;
        }
        if (conn->rest != NULL) {
            feed_rest(conn);
            continue;
        }
        ssize_t got = receive_once(conn);

        if (got == ENV_END) {
            rpc_conn_end(conn, SNOW_CLOSED, true);
            return;
        }
        if (got == ENV_AGAIN) {
            rpc_send_watch_progress(conn);
            return;
        }
        conn->received_ns = env_now_ns(rpc->env);
        if ((uint64_t)got >= budget) {
            if (rpc_conn_alive(conn))
                rpc_wait_turn(conn);
            return;
        }
        budget -= (uint64_t)got;
    }
}
