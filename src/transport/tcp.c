/* The transport over streams: links, lanes, and what flows on them.
 *
 * Problem.  Many operations of many callers share a few connections to a node; connections break,
 *           nodes stop in the middle.
 * Idea.     Each lane has a queue of frames; a pump sends from it while the link's window has room.
 *           A connection that is lost ends what was under way with CLOSED and is dialled again for
 *           what waits; a dial that fails, or a stall, ends all on that lane with UNREACHABLE.
 *           Lanes are dialled when first needed, and not kept up when nothing needs them.
 * Invariants.
 *   L1  in_flight = bytes of the frames in `sent` of all lanes; lane->load = bytes of its frames.
 *   L2  A lane with a frame has a peer that is open.
 *   L3  No callback of an operation runs inside pump, so none inside post (T1).
 * Threads.  The loop's.
 */
#include "transport/tcp.h"

#include <stdlib.h>

#define AHEAD_BYTES (64 * KIB) /* written: summed up ahead of the stream, beside one frame */

static struct tcp *tcp_of(const struct tcp_link *link)
{
    return (struct tcp *)link->base.transport;
}

static uint64_t now_ns(const struct tcp_link *link)
{
    return env_now_ns(env_loop_env(tcp_of(link)->loop));
}

/* ---- pump ----------------------------------------------------------------------------------- */

static bool lane_is_busy(const struct tcp_lane *lane)
{
    return !list_is_empty(&lane->queue) || !list_is_empty(&lane->sent);
}

static void watch_at(struct tcp_link *link, uint64_t at_ns)
{
    link->watch_ns = at_ns;
    env_timer_arm(tcp_of(link)->loop, &link->watch, at_ns);
}

static void watch(struct tcp_link *link)
{
    struct tcp *tcp = tcp_of(link);

    if (tcp->options.stall_ns == 0 || link->watch.loop != NULL)
        return;
    for (uint32_t i = 0; i < tcp->options.lanes; i++) {
        if (lane_is_busy(&link->lanes[i])) {
            watch_at(link, now_ns(link) + tcp->options.stall_ns);
            return;
        }
    }
}

/* It can not be sent: it ends in the next turn. */
static void set_aside(struct tcp_frame *frame, enum snow_status status)
{
    struct tcp_link *link = frame->lane->link;

    frame->failure = status;
    list_remove(&frame->link);
    frame->lane->load -= frame->bytes;
    list_push(&link->failed, &frame->link);
    env_timer_arm(tcp_of(link)->loop, &link->kick, 0);
}

/* What is written is summed up right before it is sent, and is to leave while it is hot: not more
 * at a time than the stream takes soon. */
static bool has_enough(const struct tcp_lane *lane, const struct rpc_conn *conn)
{
    const struct tcp_frame *frame = list_entry(list_first(&lane->queue), struct tcp_frame, link);

    return frame->op->write && rpc_conn_queued_payload(conn) > AHEAD_BYTES &&
           !list_is_empty(&lane->sent);
}

/* Sends the first frame of the lane's queue; false: nothing can be sent now. */
static bool send_first(struct tcp_lane *lane, struct rpc_conn *conn)
{
    struct tcp_link *link = lane->link;
    struct tcp_frame *frame = list_entry(list_first(&lane->queue), struct tcp_frame, link);
    enum snow_status status;

    if (tcp_frame_is_vain(frame)) {
        set_aside(frame, SNOW_CANCELLED);
        return true;
    }
    if (link->in_flight > 0 && link->in_flight + frame->bytes > tcp_of(link)->options.window_bytes)
        return false;
    if (has_enough(lane, conn))
        return false;
    status = tcp_frame_send(frame, conn);
    if (status == SNOW_CLOSED || status == SNOW_NOT_READY ||
        (status == SNOW_BUSY && !list_is_empty(&lane->sent)))
        return false;
    if (status != SNOW_OK) {
        set_aside(frame, status);
        return true;
    }
    if (list_is_empty(&lane->sent))
        lane->progress_ns = now_ns(link);
    list_remove(&frame->link);
    list_push(&lane->sent, &frame->link);
    frame->sent = true;
    link->in_flight += frame->bytes;
    return true;
}

/* A kick comes in this turn or the next; what is queued leaves at the end of a turn. */
static void kick_later(struct tcp_link *link, bool begun)
{
    if (!begun && !link->kick_again)
        return;
    link->kick_again = begun;
    env_timer_arm(tcp_of(link)->loop, &link->kick, 0);
}

static void pump(struct tcp_link *link)
{
    for (uint32_t i = 0; i < tcp_of(link)->options.lanes; i++) {
        struct tcp_lane *lane = &link->lanes[i];
        struct rpc_conn *conn = rpc_peer_conn(&lane->peer);
        bool more = conn != NULL;
        bool begun = false;

        while (more && !list_is_empty(&lane->queue)) {
            more = send_first(lane, conn);
            begun = begun || more;
        }
        /* The end of this turn empties its queue; what the stream does not take then goes on with
         * the replies. */
        if (conn != NULL && !list_is_empty(&lane->queue) && has_enough(lane, conn))
            kick_later(link, begun);
    }
    watch(link);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Takes a frame off its lane. */
static void detach(struct tcp_frame *frame)
{
    struct tcp_lane *lane = frame->lane;

    list_remove(&frame->link);
    lane->load -= frame->bytes;
    if (frame->sent)
        lane->link->in_flight -= frame->bytes;
    frame->sent = false;
}

static void free_op(struct transport_op *op)
{
    op->link = NULL;
    arena_deinit(&op->arena);
}

/* The operation, or another one, may be started and ended by what this calls: the last thing. */
static void settle(struct transport_op *op)
{
    if (op->open > 0)
        return;
    ASSERT(list_is_empty(&op->frames));
    free_op(op);
    op->on_done(op);
}

/* Ends frames that have failed and are on no lane any more. */
static void end_all(struct list *frames)
{
    struct list_link *link;

    while ((link = list_pop(frames)) != NULL) {
        struct tcp_frame *frame = list_entry(link, struct tcp_frame, link);
        struct transport_op *op = frame->op;

        tcp_frame_end(frame, frame->failure, NULL);
        settle(op);
    }
}

static void on_kick(struct env_timer *timer)
{
    struct tcp_link *link = list_entry(timer, struct tcp_link, kick);
    struct list frames;
    struct list_link *at;

    list_init(&frames);
    while ((at = list_pop(&link->failed)) != NULL)
        list_push(&frames, at);
    pump(link);
    end_all(&frames);
}

void tcp_on_reply(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct tcp_frame *frame = list_entry(call, struct tcp_frame, call);
    struct tcp_lane *lane = frame->lane;
    struct transport_op *op = frame->op;

    if (!last) { /* no node does that */
        rpc_call_cancel(call);
        status = SNOW_INVALID;
        reply = NULL;
    }
    lane->progress_ns = now_ns(lane->link);
    detach(frame);
    tcp_frame_end(frame, status, reply);
    pump(lane->link);
    settle(op);
}

/* Gives the lane up: all on it ends. */
static void lane_fail(struct tcp_lane *lane, enum snow_status status)
{
    struct list frames;
    struct list_link *at;

    list_init(&frames);
    while ((at = list_first(&lane->sent)) != NULL || (at = list_first(&lane->queue)) != NULL) {
        struct tcp_frame *frame = list_entry(at, struct tcp_frame, link);

        rpc_call_cancel(&frame->call);
        detach(frame);
        frame->failure = status;
        list_push(&frames, &frame->link);
    }
    rpc_peer_close(&lane->peer);
    pump(lane->link);
    end_all(&frames);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What a node answers, and what it takes of the frame that it has to answer next.  That others are
 * sent behind says nothing: a node that hangs has a kernel that takes them. */
static uint64_t lane_progress_ns(const struct tcp_lane *lane)
{
    struct rpc_conn *conn = rpc_peer_conn(&lane->peer);
    const struct list_link *first = list_first(&lane->sent);

    if (conn == NULL || first == NULL)
        return lane->progress_ns;
    return later(later(rpc_conn_received_ns(conn), lane->progress_ns),
                 rpc_call_sent_ns(&list_entry(first, struct tcp_frame, link)->call));
}

/* UINT64_MAX: it is not stalled, nor will be by itself. */
static uint64_t stalls_at_ns(const struct tcp_lane *lane, uint64_t now, uint64_t stall_ns)
{
    if (!lane_is_busy(lane))
        return UINT64_MAX;
    if (list_is_empty(&lane->sent) && rpc_peer_conn(&lane->peer) != NULL)
        return now + stall_ns; /* it waits for the window */
    return lane_progress_ns(lane) + stall_ns;
}

static void on_watch(struct env_timer *timer)
{
    struct tcp_link *link = list_entry(timer, struct tcp_link, watch);
    struct tcp *tcp = tcp_of(link);
    uint64_t now = now_ns(link);
    uint64_t next_ns = UINT64_MAX;
    struct tcp_lane *stalled = NULL;

    /* Who was not turned himself can not tell that others stood still. */
    if (now - link->watch_ns > tcp->options.stall_ns / 4) {
        watch(link);
        return;
    }
    for (uint32_t i = 0; i < tcp->options.lanes; i++) {
        uint64_t at_ns = stalls_at_ns(&link->lanes[i], now, tcp->options.stall_ns);

        if (at_ns <= now && stalled == NULL)
            stalled = &link->lanes[i];
        else if (at_ns < next_ns)
            next_ns = at_ns;
    }
    if (next_ns != UINT64_MAX)
        watch_at(link, next_ns);
    if (stalled != NULL)
        lane_fail(stalled, SNOW_UNREACHABLE); /* may end the link */
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct tcp_lane *lane = list_entry(peer, struct tcp_lane, peer);

    (void)hello;
    lane->progress_ns = now_ns(lane->link);
    pump(lane->link);
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    struct tcp_lane *lane = list_entry(peer, struct tcp_lane, peer);

    (void)status; /* what was under way has ended with CLOSED */
    ASSERT(list_is_empty(&lane->sent));
    lane->progress_ns = now_ns(lane->link);
    if (list_is_empty(&lane->queue))
        rpc_peer_close(peer);
}

static void on_failed(struct rpc_peer *peer, enum snow_status status, struct bytes reason)
{
    (void)status;
    (void)reason;
    lane_fail(list_entry(peer, struct tcp_lane, peer), SNOW_UNREACHABLE);
}

static enum snow_status lane_open(struct tcp_lane *lane)
{
    if (lane->peer.rpc != NULL)
        return SNOW_OK;
    memset(&lane->peer, 0, sizeof(lane->peer));
    lane->peer.on_up = on_up;
    lane->peer.on_down = on_down;
    lane->peer.on_failed = on_failed;
    lane->progress_ns = now_ns(lane->link);
    return rpc_peer_open(&lane->peer, tcp_of(lane->link)->rpc, lane->link->address,
                         lane->link->incarnation);
}

/* ---- the table ------------------------------------------------------------------------------ */

static enum snow_status tcp_open(struct rpc *rpc, const struct transport_options *options,
                                 struct transport **transport)
{
    struct tcp *tcp;

    if (options->lanes < 1 || options->lanes > TRANSPORT_LANES_MAX || options->piece_bytes < 1 ||
        options->piece_bytes > LIMIT_PAYLOAD_SIZE)
        return SNOW_INVALID;
    tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return SNOW_NO_MEMORY;
    tcp->base.ops = &transport_tcp;
    tcp->rpc = rpc;
    tcp->loop = rpc_loop(rpc);
    tcp->options = *options;
    arena_init(&tcp->scratch, 0);
    *transport = &tcp->base;
    return SNOW_OK;
}

static void tcp_close(struct transport *transport)
{
    struct tcp *tcp = (struct tcp *)transport;

    arena_deinit(&tcp->scratch);
    free(tcp);
}

static enum snow_status tcp_connect(struct transport *transport, const struct transport_node *node,
                                    struct transport_link **connected)
{
    size_t size = strlen(node->address);
    struct tcp_link *link;

    if (size > LIMIT_NAME_SIZE)
        return SNOW_INVALID;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return SNOW_NO_MEMORY;
    link->base.transport = transport;
    link->incarnation = node->incarnation;
    memcpy(link->address, node->address, size + 1);
    list_init(&link->failed);
    link->kick.on_event = on_kick;
    link->watch.on_event = on_watch;
    for (uint32_t i = 0; i < TRANSPORT_LANES_MAX; i++) {
        link->lanes[i].link = link;
        list_init(&link->lanes[i].queue);
        list_init(&link->lanes[i].sent);
    }
    *connected = &link->base;
    return SNOW_OK;
}

static void tcp_disconnect(struct transport_link *base)
{
    struct tcp_link *link = (struct tcp_link *)base;

    for (uint32_t i = 0; i < TRANSPORT_LANES_MAX; i++) {
        ASSERT(!lane_is_busy(&link->lanes[i]));
        rpc_peer_close(&link->lanes[i].peer);
    }
    ASSERT(list_is_empty(&link->failed));
    env_timer_cancel(&link->kick);
    env_timer_cancel(&link->watch);
    free(link);
}

/* Takes all of an operation off the link. */
static void withdraw(struct transport_op *op)
{
    struct list_link *at;

    while ((at = list_pop(&op->frames)) != NULL) {
        struct tcp_frame *frame = list_entry(at, struct tcp_frame, of_op);

        rpc_call_cancel(&frame->call);
        if (frame->failure == SNOW_OK)
            detach(frame);
        else
            list_remove(&frame->link); /* of link->failed */
    }
    free_op(op);
}

static enum snow_status tcp_post(struct transport_link *base, struct transport_op *op)
{
    struct tcp_link *link = (struct tcp_link *)base;
    enum snow_status status = tcp_frame_cut(link, op);

    if (status != SNOW_OK)
        return status;
    op->link = base;
    for (uint32_t i = 0; i < tcp_of(link)->options.lanes && status == SNOW_OK; i++) {
        if (!list_is_empty(&link->lanes[i].queue))
            status = lane_open(&link->lanes[i]);
    }
    if (status != SNOW_OK) {
        withdraw(op);
        return status;
    }
    pump(link);
    return SNOW_OK;
}

static void tcp_cancel(struct transport_op *op)
{
    struct tcp_link *link = (struct tcp_link *)op->link;

    if (link == NULL)
        return;
    withdraw(op);
    pump(link);
}

const struct transport_ops transport_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .connect = tcp_connect,
    .disconnect = tcp_disconnect,
    .post = tcp_post,
    .cancel = tcp_cancel,
};
