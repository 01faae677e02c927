/* Connections that are open: bytes in pieces, each with its own time of arrival.
 *
 * Invariants.
 *   K1  Pieces arrive in the order they were sent: a piece is never earlier than the one before.
 *   K2  A side's in_use is at least the bytes of its flight, and at most its capacity.
 *   K3  A stream lives while one of its sides has a connection, or pieces are under way.
 */
#include "sim/net.h"

#include "base/hash.h"

#include <stdlib.h>

#define PIECES_MAX 4
#define RETRANSMIT_NS_MIN (40 * NS_PER_MS)
#define RETRANSMIT_NS_MAX (800 * NS_PER_MS)
#define LOCAL_NS_MIN UINT64_C(5000)
#define LOCAL_NS_MAX UINT64_C(30000)

uint64_t net_latency(struct world *world, const struct world_host *a, const struct world_host *b)
{
    if (a == b)
        return rng_between(&world->rng, LOCAL_NS_MIN, LOCAL_NS_MAX);
    return rng_between(&world->rng, world->net.latency_ns_min, world->net.latency_ns_max);
}

/* ---- streams -------------------------------------------------------------------------------- */

struct net_side *net_other(struct net_side *side)
{
    struct net_stream *stream = side->stream;

    return side == &stream->sides[0] ? &stream->sides[1] : &stream->sides[0];
}

static void on_deliver(struct sim_event *event);
static void on_window(struct sim_event *event);

struct net_stream *net_stream_create(struct world *world, struct world_host *from,
                                     struct world_host *to)
{
    struct net_stream *stream = calloc(1, sizeof *stream);

    if (stream == NULL)
        return NULL;
    stream->world = world;
    stream->id = world->next_id++;
    list_push(&world->streams, &stream->link);
    for (int i = 0; i < 2; i++) {
        struct net_side *side = &stream->sides[i];

        side->stream = stream;
        side->host = i == 0 ? from : to;
        side->gone = true;
        side->capacity = rng_between(&world->rng, world->net.buffer_min, world->net.buffer_max);
        list_init(&side->flight);
        list_init(&side->received);
        sim_event_init(&side->deliver, world, NULL, SIM_DELIVER, stream->id, on_deliver);
        sim_event_init(&side->window, world, NULL, SIM_WINDOW, stream->id, on_window);
        sim_event_init(&side->reset, world, NULL, SIM_RESET, stream->id, net_on_reset);
        sim_event_init(&side->death, world, NULL, SIM_DEATH, stream->id, net_on_death);
    }
    return stream;
}

static void drop_pieces(struct list *pieces)
{
    struct list_link *link;

    while ((link = list_pop(pieces)) != NULL)
        free(list_entry(link, struct net_piece, link));
}

void net_drop_flight(struct net_side *side)
{
    sim_event_cancel(&side->deliver);
    drop_pieces(&side->flight);
}

static void stream_free(struct net_stream *stream)
{
    for (int i = 0; i < 2; i++) {
        struct net_side *side = &stream->sides[i];

        net_drop_flight(side);
        drop_pieces(&side->received);
        sim_event_cancel(&side->window);
        sim_event_cancel(&side->reset);
        sim_event_cancel(&side->death);
    }
    list_remove(&stream->link);
    free(stream);
}

void net_stream_release(struct net_stream *stream)
{
    if (stream->sides[0].conn == NULL && stream->sides[1].conn == NULL)
        stream_free(stream); /* whatever is under way, nobody is there to see it */
}

void net_free_world(struct world *world)
{
    struct list_link *link;

    while ((link = list_first(&world->streams)) != NULL)
        stream_free(list_entry(link, struct net_stream, link));
}

void net_side_attach(struct net_side *side, struct env_conn *conn,
                     const struct env_socket_options *options)
{
    side->conn = conn;
    side->gone = false;
    side->keepalive = options->keepalive;
    side->user_timeout_ns = options->user_timeout_ms * NS_PER_MS;
    conn->side = side;
}

/* ---- telling the owner ---------------------------------------------------------------------- */

void net_tell(struct env_conn *conn, uint64_t at_ns)
{
    if (conn->ops == NULL)
        return; /* it waits for its owner */
    if (conn->tell.link.queued && conn->tell.link.at_ns <= at_ns)
        return;
    if (!list_is_linked(&conn->tell.ready_link))
        sim_event_at(&conn->tell, at_ns);
}

/* A callback may have closed it, or crashed its process. */
static bool can_tell(const struct env_conn *conn)
{
    return !conn->freed && !conn->loop->env->dead;
}

static void on_tell(struct sim_event *event)
{
    struct env_conn *conn = list_entry(event, struct env_conn, tell);

    conn->telling = true;
    if (conn->tell_open) {
        conn->tell_open = false;
        conn->ops->on_open(conn->owner, conn->state == NET_OPEN ? SNOW_OK : SNOW_UNREACHABLE);
    }
    if (can_tell(conn) && conn->tell_writable && conn->writable_owed) {
        conn->tell_writable = false;
        conn->writable_owed = false;
        conn->ops->on_writable(conn->owner);
    }
    if (can_tell(conn) && conn->tell_readable && !conn->readable_told) {
        conn->tell_readable = false;
        conn->readable_told = true;
        conn->ops->on_readable(conn->owner);
    }
    conn->telling = false;
    if (conn->freed)
        free(conn);
}

struct env_conn *net_conn_create(struct env_loop *loop, enum net_conn_state state)
{
    struct env_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->loop = loop;
    conn->id = loop->env->world->next_id++;
    conn->state = state;
    list_init(&conn->handed_over);
    sim_event_init(&conn->tell, loop->env->world, loop, SIM_TELL, conn->id, on_tell);
    list_push(&loop->conns, &conn->link);
    return conn;
}

void net_conn_free(struct env_conn *conn)
{
    if (list_is_linked(&conn->accept_link))
        list_remove(&conn->accept_link);
    env_memory_drop_handed(conn);
    sim_event_cancel(&conn->tell);
    if (conn->dial.world != NULL)
        sim_event_cancel(&conn->dial);
    list_remove(&conn->link);
    conn->freed = true;
    if (!conn->telling)
        free(conn);
}

void env_conn_own(struct env_conn *conn, const struct env_conn_ops *ops, void *owner)
{
    conn->ops = ops;
    conn->owner = owner;
    if (conn->tell_readable || conn->tell_writable)
        net_tell(conn, conn->loop->env->world->now_ns);
}

const char *env_conn_peer(const struct env_conn *conn)
{
    return conn->peer;
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool can_send(const struct env_conn *conn)
{
    return conn->side != NULL && !conn->side->broken;
}

static size_t total_size(const struct iovec *iov, int iov_count)
{
    size_t total = 0;

    for (int i = 0; i < iov_count; i++)
        total += iov[i].iov_len;
    return total;
}

/* When the next piece arrives: after the one before it, later when it is lost first. */
static uint64_t arrival(struct net_side *side, size_t size)
{
    struct world *world = side->stream->world;
    struct world_host *to = net_other(side)->host;
    uint64_t at_ns = world->now_ns + net_latency(world, side->host, to);

    if (side->host != to && rng_below(&world->rng, 1000000) < world->net.loss_per_million)
        at_ns += rng_between(&world->rng, RETRANSMIT_NS_MIN, RETRANSMIT_NS_MAX);
    if (at_ns < side->last_ns)
        at_ns = side->last_ns;
    return at_ns + size * NS_PER_US / (world->net.bytes_per_us + 1);
}

/* A piece of the next size bytes (0: the end).  False: out of memory. */
static struct net_piece *add_piece(struct net_side *side, size_t size)
{
    struct net_piece *piece = malloc(sizeof *piece + size);

    if (piece == NULL)
        return NULL;
    *piece = (struct net_piece){.size = size, .at_ns = arrival(side, size)};
    side->last_ns = piece->at_ns;
    list_push(&side->flight, &piece->link);
    net_await_delivery(side);
    return piece;
}

/* Where a send has got to in its iovecs. */
struct cursor {
    const struct iovec *iov;
    size_t at;
};

static void copy_out(struct cursor *from, uint8_t *to, size_t size)
{
    while (size > 0) {
        size_t left = from->iov->iov_len - from->at;
        size_t part = left < size ? left : size;

        if (part > 0)
            memcpy(to, (const uint8_t *)from->iov->iov_base + from->at, part);
        to += part;
        size -= part;
        from->at += part;
        if (from->at == from->iov->iov_len) {
            from->iov++;
            from->at = 0;
        }
    }
}

/* How much of `total` the stream takes now. */
static size_t choose_size(struct net_side *side, size_t total)
{
    struct world *world = side->stream->world;
    size_t room = side->capacity - side->in_use;
    size_t size = total < room ? total : room;

    if (size > 1 && rng_chance(&world->rng, 1, 16)) /* a kernel may take less than it could */
        size = (size_t)rng_between(&world->rng, 1, size);
    return size;
}

/* On the way between two hosts a connection may be reset. */
static void maybe_reset(struct net_side *side)
{
    struct world *world = side->stream->world;
    struct net_side *other = net_other(side);

    if (side->host == other->host ||
        rng_below(&world->rng, 1000000) >= world->net.reset_per_million)
        return;
    net_send_reset(side, world->now_ns + net_latency(world, side->host, other->host));
    net_send_reset(other, world->now_ns + net_latency(world, side->host, other->host));
}

ssize_t env_conn_send(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    struct net_side *side = conn->side;
    struct cursor from = {.iov = iov};
    size_t total = total_size(iov, iov_count);

    if (conn->state == NET_DIALLING && !conn->loop->env->dead)
        return ENV_AGAIN;
    if (!can_send(conn))
        return ENV_END;
    struct world *world = side->stream->world;
    size_t size = choose_size(side, total);
    size_t left = size;
    uint64_t pieces = rng_between(&world->rng, 1, PIECES_MAX);

    while (left > 0) {
        size_t part = pieces-- > 1 ? (size_t)rng_between(&world->rng, 1, left) : left;
        struct net_piece *piece = add_piece(side, part);

        if (piece == NULL) /* it was not taken */
            break;
        copy_out(&from, piece->bytes, part);
        left -= part;
        maybe_reset(side);
    }
    size -= left;
    side->in_use += size;
    if (side->stream->silent)
        net_await_death(side);
    if (size < total) {
        conn->writable_owed = true;
        if (side->in_use < side->capacity) {
            conn->tell_writable = true;
            net_tell(conn, world->now_ns + rng_between(&world->rng, 1000, 50000));
        }
    }
    return (ssize_t)size;
}

/* ---- arriving ------------------------------------------------------------------------------- */

void net_await_delivery(struct net_side *side)
{
    struct list_link *link = list_first(&side->flight);

    if (link == NULL || side->stream->silent || side->deliver.link.queued)
        return;
    sim_event_at(&side->deliver, list_entry(link, struct net_piece, link)->at_ns);
}

static void on_deliver(struct sim_event *event)
{
    struct net_side *from = list_entry(event, struct net_side, deliver);
    struct net_side *to = net_other(from);
    struct world *world = event->world;

    if (to->gone) {
        net_drop_flight(from);
        net_send_reset(from, world->now_ns + net_latency(world, from->host, to->host));
        return;
    }
    struct list_link *link = list_pop(&from->flight);
    struct net_piece *piece = list_entry(link, struct net_piece, link);

    sim_hash_bytes(world, piece->bytes, piece->size);
    list_push(&to->received, link);
    if (piece->size == 0)
        to->finished = true;
    net_await_delivery(from);
    if (to->conn != NULL) {
        to->conn->tell_readable = true;
        net_tell(to->conn, world->now_ns);
    }
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void give_room(struct net_side *sender, size_t size)
{
    struct env_conn *conn = sender->conn;

    sender->in_use -= size;
    if (conn != NULL && conn->writable_owed && sender->in_use < sender->capacity) {
        conn->tell_writable = true;
        net_tell(conn, sender->stream->world->now_ns);
    }
}

static void on_window(struct sim_event *event)
{
    struct net_side *sender = list_entry(event, struct net_side, window);
    size_t size = sender->window_pending;

    if (sender->stream->silent)
        return; /* it comes when the silence ends: net_check_silence */
    sender->window_pending = 0;
    give_room(sender, size);
}

/* The reader took bytes: the sender learns a little later, or at once when it does not matter. */
static void tell_window(struct net_side *sender, size_t size)
{
    struct world *world = sender->stream->world;

    if (sender->window_pending == 0 && sender->in_use < sender->capacity / 2 &&
        !sender->stream->silent) {
        give_room(sender, size);
        return;
    }
    sender->window_pending += size;
    if (!sender->window.link.queued)
        sim_event_at(&sender->window,
                     world->now_ns + net_latency(world, sender->host, net_other(sender)->host));
}

/* Copies what a piece has left; returns how much fitted. */
static size_t copy_in(struct net_piece *piece, uint8_t *to, size_t room)
{
    size_t size = piece->size - piece->taken;

    if (size > room)
        size = room;
    memcpy(to, piece->bytes + piece->taken, size);
    piece->taken += size;
    return size;
}

static size_t take_received(struct net_side *side, const struct iovec *iov, int iov_count)
{
    size_t got = 0;

    for (int i = 0; i < iov_count; i++) {
        uint8_t *at = iov[i].iov_base;
        size_t room = iov[i].iov_len;
        struct list_link *link;

        while (room > 0 && (link = list_first(&side->received)) != NULL) {
            struct net_piece *piece = list_entry(link, struct net_piece, link);

            if (piece->size == 0) /* the end stays */
                return got;
            size_t size = copy_in(piece, at, room);

            at += size;
            room -= size;
            got += size;
            if (piece->taken == piece->size) {
                list_remove(link);
                free(piece);
            }
        }
    }
    return got;
}

ssize_t env_conn_receive(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    struct net_side *side = conn->side;

    if (conn->state == NET_DIALLING && !conn->loop->env->dead)
        return ENV_AGAIN;
    if (side == NULL)
        return ENV_END;
    size_t got = take_received(side, iov, iov_count);

    if (got > 0) {
        tell_window(net_other(side), got);
        return (ssize_t)got;
    }
    if (side->finished || side->broken)
        return ENV_END;
    conn->readable_told = false;
    conn->tell_readable = false;
    return ENV_AGAIN;
}

/* ---- closing -------------------------------------------------------------------------------- */

/* Takes the side's socket away; the other side learns by an end of stream or a reset. */
static void side_close(struct net_side *side, bool reset)
{
    struct net_stream *stream = side->stream;
    struct net_side *other = net_other(side);
    struct world *world = stream->world;

    side->conn = NULL;
    drop_pieces(&side->received);
    sim_event_cancel(&side->death);
    if (!side->gone && !reset && !side->broken) {
        if (add_piece(side, 0) == NULL)
            reset = true;
    }
    if (!side->gone && reset) {
        net_drop_flight(side);
        net_send_reset(other, world->now_ns + net_latency(world, side->host, other->host));
    }
    side->gone = true;
    net_stream_release(stream);
}

void env_conn_close(struct env_conn *conn, bool reset)
{
    if (conn->side != NULL)
        side_close(conn->side, reset);
    net_conn_free(conn);
}

void net_kill(struct env_loop *loop, bool silent)
{
    struct world *world = loop->env->world;

    list_each (&loop->conns, link, following) {
        struct env_conn *conn = list_entry(link, struct env_conn, link);
        struct net_side *side = conn->side;

        sim_event_cancel(&conn->tell);
        if (conn->dial.world != NULL)
            sim_event_cancel(&conn->dial);
        conn->side = NULL;
        if (side == NULL)
            continue;
        if (silent) {
            net_drop_flight(side);
            side->gone = true;
        }
        side_close(side, rng_chance(&world->rng, 1, 2));
    }
    list_each (&loop->listeners, link, following) {
        struct env_listener *listener = list_entry(link, struct env_listener, loop_link);

        sim_event_cancel(&listener->accept);
        list_remove(&listener->link);
    }
}

void net_free_loop(struct env_loop *loop)
{
    struct list_link *link;

    while ((link = list_first(&loop->listeners)) != NULL)
        env_listener_close(list_entry(link, struct env_listener, loop_link));
    while ((link = list_first(&loop->conns)) != NULL)
        env_conn_close(list_entry(link, struct env_conn, link), true);
}
