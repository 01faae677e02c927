/* Frames and payloads to bytes.
 *
 * Problem.  One system call a message would cost more than the message.
 * Idea.     What a turn of the loop queued leaves at its end, many frames in one call.  Frames
 *           without payload are encoded one after the other into blocks; a frame with payload is an
 *           item of its own, so that it can be taken back while no byte of it has left.
 * Invariants.
 *   S1  The stream sees items in the order of the queue, and no item in parts but the first.
 *   S2  on_sent runs exactly once for each payload of a reply: it left, or the connection ended.
 */
#include "rpc/conn.h"

#include <stdlib.h>

#define BLOCK_SIZE ((size_t)(16 * KIB))
#define PARTS_MAX 256

/* ---- queueing ------------------------------------------------------------------------------- */

struct writer rpc_send_writer(struct rpc_conn *conn)
{
    struct writer writer;

    writer_init(&writer, conn->rpc->scratch, LIMIT_BODY_SIZE, conn->version);
    return writer;
}

struct bytes rpc_send_body(struct rpc_conn *conn, const struct writer *writer)
{
    return bytes_of(conn->rpc->scratch, writer_size(writer));
}

static void make_dirty(struct rpc_conn *conn)
{
    if (list_is_linked(&conn->dirty_link) || conn->blocked || !rpc_conn_alive(conn))
        return;
    list_push(&conn->rpc->dirty, &conn->dirty_link);
    rpc_soon(conn->rpc);
}

/* A block comes and goes with each turn: one is kept. */
static struct rpc_out *out_take(struct rpc *rpc, size_t capacity)
{
    struct rpc_out *out = rpc->spare;

    if (out == NULL || capacity != BLOCK_SIZE)
        return malloc(sizeof *out + capacity);
    rpc->spare = NULL;
    return out;
}

static void out_give(struct rpc *rpc, struct rpc_out *out)
{
    if (rpc->spare != NULL || out->capacity != BLOCK_SIZE)
        free(out);
    else
        rpc->spare = out;
}

static struct rpc_out *out_create(struct rpc_conn *conn, size_t capacity, bool held)
{
    struct rpc_out *out = out_take(conn->rpc, capacity);

    if (out == NULL) {
        rpc_count(conn->rpc, RPC_METRIC_no_memory);
        rpc_conn_break(conn, SNOW_NO_MEMORY, true);
        return NULL;
    }
    *out = (struct rpc_out){.capacity = capacity};
    list_push(held ? &conn->held : &conn->out, &out->link);
    return out;
}

/* The last block when it has room, else a new one. */
static struct rpc_out *block_for(struct rpc_conn *conn, size_t size, bool held)
{
    struct list_link *last = list_last(held ? &conn->held : &conn->out);
    struct rpc_out *out = last == NULL ? NULL : list_entry(last, struct rpc_out, link);

    if (out != NULL && !out->has_payload && out->capacity - out->size >= size)
        return out;
    return out_create(conn, size > BLOCK_SIZE ? size : BLOCK_SIZE, held);
}

void rpc_send_frame(struct rpc_conn *conn, const struct frame_header *header, struct bytes body,
                    const struct rpc_payload *payload, bool held, struct rpc_out **out)
{
    struct frame_header full = *header;
    size_t size = FRAME_HEADER_SIZE + body.size;
    struct rpc_out *to =
        payload == NULL ? block_for(conn, size, held) : out_create(conn, size, held);

    if (out != NULL)
        *out = payload == NULL ? NULL : to;
    if (to == NULL)
        return;
    full.version = (uint8_t)conn->version;
    full.term = conn->rpc->identity.term;
    frame_header_set_body(&full, body);
    if (payload != NULL) {
        full.payload_size = payload->size;
        to->has_payload = true;
        to->payload = *payload;
        conn->queued_payload += payload->size;
    }
    frame_header_encode(&full, to->bytes + to->size);
    if (body.size > 0)
        memcpy(to->bytes + to->size + FRAME_HEADER_SIZE, body.at, body.size);
    to->size += size;
    conn->queued += size;
    if (header->kind == FRAME_REPLY || header->kind == FRAME_REPLY_LAST) {
        to->reply_size += size;
        conn->queued_replies += size;
    }
    rpc_count(conn->rpc, RPC_METRIC_frames_sent);
    if (!held)
        make_dirty(conn);
}

void rpc_send_held(struct rpc_conn *conn)
{
    struct list_link *link;

    while ((link = list_pop(&conn->held)) != NULL) {
        list_push(&conn->out, link);
        make_dirty(conn);
    }
}

/* ---- leaving -------------------------------------------------------------------------------- */

static void out_free(struct rpc_conn *conn, struct rpc_out *out, enum snow_status status)
{
    void (*on_sent)(void *, enum snow_status) = out->on_sent;
    void *sent_owner = out->sent_owner;

    conn->queued -= out->size;
    conn->queued_replies -= out->reply_size;
    conn->queued_payload -= out->payload.size;
    list_remove(&out->link);
    if (out->call != NULL) {
        out->call->sent_ns = conn->sent_ns;
        out->call->out = NULL;
    }
    out_give(conn->rpc, out);
    if (on_sent != NULL)
        on_sent(sent_owner, status);
}

bool rpc_send_take_back(struct rpc_conn *conn, struct rpc_out *out)
{
    if (out->started)
        return false;
    out_free(conn, out, SNOW_CANCELLED);
    return true;
}

void rpc_send_drop_all(struct rpc_conn *conn)
{
    struct list_link *link;

    while ((link = list_first(&conn->out)) != NULL)
        out_free(conn, list_entry(link, struct rpc_out, link), SNOW_CLOSED);
    while ((link = list_first(&conn->held)) != NULL)
        out_free(conn, list_entry(link, struct rpc_out, link), SNOW_CLOSED);
}

/* Adds what is left of an item; returns the new count. */
static int add_parts(struct rpc_out *out, struct iovec *iov, int count, uint64_t *total)
{
    if (out->size > out->sent) {
        iov[count].iov_base = out->bytes + out->sent;
        iov[count].iov_len = out->size - out->sent;
        *total += iov[count++].iov_len;
    }
    for (uint32_t i = 0; i < out->payload.iov_count && count < PARTS_MAX; i++) {
        if (out->payload.iov[i].iov_len == 0)
            continue;
        iov[count] = out->payload.iov[i];
        *total += iov[count++].iov_len;
    }
    return count;
}

static int gather(struct rpc_conn *conn, struct iovec *iov, uint64_t *total)
{
    int count = 0;

    *total = 0;
    list_each (&conn->out, link, following) {
        if (count == PARTS_MAX || *total >= RPC_TURN_BYTES_MAX)
            break;
        count = add_parts(list_entry(link, struct rpc_out, link), iov, count, total);
    }
    return count;
}

/* Takes `sent` bytes off a payload; returns how many it had of them. */
static uint64_t payload_advance(struct rpc_payload *payload, uint64_t sent)
{
    uint64_t taken = 0;

    while (payload->iov_count > 0) {
        uint64_t size = payload->iov->iov_len;
        uint64_t part = size < sent - taken ? size : sent - taken;

        payload->iov->iov_base = (uint8_t *)payload->iov->iov_base + part;
        payload->iov->iov_len -= (size_t)part;
        payload->size -= part;
        taken += part;
        if (part < size)
            break;
        payload->iov++;
        payload->iov_count--;
    }
    return taken;
}

/* The stream took this many bytes: items that left whole are freed and told. */
static void advance(struct rpc_conn *conn, uint64_t sent)
{
    struct list_link *link;

    while (rpc_conn_alive(conn) && (link = list_first(&conn->out)) != NULL) {
        struct rpc_out *out = list_entry(link, struct rpc_out, link);
        size_t frames = out->size - out->sent < sent ? out->size - out->sent : (size_t)sent;

        out->started = out->started || sent > 0;
        out->sent += frames;
        sent -= frames;
        if (out->sent == out->size) {
            uint64_t taken = payload_advance(&out->payload, sent);

            conn->queued_payload -= taken;
            sent -= taken;
        }
        if (out->sent < out->size || out->payload.size > 0)
            return;
        out_free(conn, out, SNOW_OK);
        if (sent == 0)
            return;
    }
}

/* Replies left: there may be room again for requests. */
static void resume_reading(struct rpc_conn *conn)
{
    if (!conn->paused || conn->queued_replies > LIMIT_SEND_QUEUE / 2)
        return;
    conn->paused = false;
    conn->received_ns = env_now_ns(conn->rpc->env);
    rpc_wait_turn(conn);
}

void rpc_send_flush(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;
    struct iovec iov[PARTS_MAX];
    uint64_t budget = RPC_TURN_BYTES_MAX;
    uint64_t total;

    while (rpc_conn_alive(conn) && conn->state != RPC_CONN_DIALLING && !conn->blocked &&
           !list_is_empty(&conn->out)) {
        int count = gather(conn, iov, &total);
        ssize_t sent = count == 0 ? 0 : env_conn_send(conn->stream, iov, count);

        if (sent == ENV_END) {
            rpc_conn_break(conn, SNOW_CLOSED, true);
            return;
        }
        rpc_count(rpc, RPC_METRIC_sends);
        rpc->counters[RPC_METRIC_bytes_sent] += (uint64_t)sent;
        conn->blocked = (uint64_t)sent < total;
        conn->sent_ns = env_now_ns(rpc->env);
        advance(conn, (uint64_t)sent);
        if ((uint64_t)sent >= budget && rpc_conn_alive(conn)) {
            make_dirty(conn);
            return;
        }
        budget -= (uint64_t)sent;
    }
    if (rpc_conn_alive(conn)) {
        resume_reading(conn);
        rpc_send_watch_progress(conn);
    }
}

/* ---- progress ------------------------------------------------------------------------------- */

static bool is_sending(const struct rpc_conn *conn)
{
    return conn->blocked && !list_is_empty(&conn->out);
}

/* What it is sending is the answer to a request whose deadline has passed: nobody waits for it, and
 * it must not hold its memory by taking a byte now and then. */
static bool is_late(const struct rpc_conn *conn, uint64_t now_ns)
{
    const struct list_link *first = list_first(&conn->out);
    const struct rpc_out *out = list_entry(first, const struct rpc_out, link);

    return first != NULL && out->deadline_ns != 0 && now_ns >= out->deadline_ns;
}

void rpc_send_watch_progress(struct rpc_conn *conn)
{
    struct rpc *rpc = conn->rpc;

    if (conn->progress_timer.loop != NULL || rpc->options.progress_timeout_ms == 0)
        return;
    if (!is_sending(conn) && conn->incoming.left == 0)
        return;
    uint64_t now_ns = env_now_ns(rpc->env);

    env_timer_arm(rpc->loop, &conn->progress_timer,
                  now_ns + rpc->options.progress_timeout_ms * NS_PER_MS);
}

void rpc_send_on_progress_timer(struct env_timer *timer)
{
    struct rpc_conn *conn = list_entry(timer, struct rpc_conn, progress_timer);
    struct rpc *rpc = conn->rpc;
    uint64_t timeout_ns = rpc->options.progress_timeout_ms * NS_PER_MS;
    uint64_t now_ns = env_now_ns(rpc->env);
    bool sending = is_sending(conn);
    bool receiving = conn->incoming.left > 0 && !conn->paused;

    if (!sending && !receiving)
        return;
    if ((sending && (now_ns - conn->sent_ns >= timeout_ns || is_late(conn, now_ns))) ||
        (receiving && now_ns - conn->received_ns >= timeout_ns)) {
        rpc_count(rpc, RPC_METRIC_stalls);
        rpc_enter(rpc);
        rpc_conn_break(conn, SNOW_TIMEOUT, true);
        rpc_leave(rpc);
        return;
    }
    uint64_t oldest_ns = UINT64_MAX;

    if (sending)
        oldest_ns = conn->sent_ns;
    if (receiving && conn->received_ns < oldest_ns)
        oldest_ns = conn->received_ns;
    env_timer_arm(rpc->loop, timer, oldest_ns + timeout_ns);
}
