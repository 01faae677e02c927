/* What goes wrong between hosts: silence, time-outs, resets.
 *
 * Idea.     Silence is a state of a stream.  While it lasts nothing is delivered, and each side
 *           that has a time-out (keepalive when idle, user time-out with bytes under way) waits
 *           for its death.  When it ends, what is under way is sent again after a while.
 */
#include "sim/net.h"

#define KEEPALIVE_NS (11 * NS_PER_S) /* 5 s idle, then 3 probes, 2 s apart */
#define PROBE_NS (5 * NS_PER_S)
#define SYSTEM_TIMEOUT_NS (924 * NS_PER_S) /* of bytes that nobody acknowledges */
#define RESEND_NS_MIN (50 * NS_PER_MS)
#define RESEND_NS_MAX (2 * NS_PER_S)

bool net_is_silent(const struct world_host *a, const struct world_host *b)
{
    return !a->up || !b->up || ((a->cut >> b->index) & 1) != 0;
}

void net_break(struct net_side *side)
{
    struct world *world = side->stream->world;

    side->broken = true;
    side->gone = true;
    net_drop_flight(side);
    sim_event_cancel(&side->death);
    if (side->conn == NULL)
        return;
    side->conn->tell_readable = true;
    side->conn->tell_writable = true;
    net_tell(side->conn, world->now_ns);
}

void net_send_reset(struct net_side *to, uint64_t at_ns)
{
    uint64_t last_ns = net_other(to)->last_ns;

    if (to->conn == NULL || to->broken || to->reset.link.queued)
        return;
    sim_event_at(&to->reset, at_ns > last_ns ? at_ns : last_ns);
}

void net_on_reset(struct sim_event *event)
{
    struct net_side *side = list_entry(event, struct net_side, reset);

    if (!side->stream->silent) /* else it is lost */
        net_break(side);
}

void net_on_death(struct sim_event *event)
{
    net_break(list_entry(event, struct net_side, death));
}

void net_await_death(struct net_side *side)
{
    struct world *world = side->stream->world;
    uint64_t after_ns = UINT64_MAX;

    if (side->conn == NULL || side->broken)
        return;
    if (!list_is_empty(&side->flight))
        after_ns = side->user_timeout_ns > 0 ? side->user_timeout_ns : SYSTEM_TIMEOUT_NS;
    else if (side->keepalive)
        after_ns = KEEPALIVE_NS - rng_below(&world->rng, PROBE_NS);
    if (after_ns == UINT64_MAX)
        return;
    if (!side->death.link.queued || side->death.link.at_ns > world->now_ns + after_ns)
        sim_event_at(&side->death, world->now_ns + after_ns);
}

static void begin_silence(struct net_stream *stream)
{
    stream->silent = true;
    for (int i = 0; i < 2; i++) {
        sim_event_cancel(&stream->sides[i].deliver);
        net_await_death(&stream->sides[i]);
    }
}

static void end_silence(struct net_stream *stream)
{
    struct world *world = stream->world;

    stream->silent = false;
    for (int i = 0; i < 2; i++) {
        struct net_side *side = &stream->sides[i];
        struct list_link *link = list_first(&side->flight);
        uint64_t again_ns = world->now_ns + rng_between(&world->rng, RESEND_NS_MIN, RESEND_NS_MAX);

        sim_event_cancel(&side->death);
        if (link != NULL) {
            struct net_piece *piece = list_entry(link, struct net_piece, link);

            if (piece->at_ns < again_ns)
                piece->at_ns = again_ns;
            if (side->last_ns < again_ns)
                side->last_ns = again_ns;
            net_await_delivery(side);
        } else if (net_other(side)->gone && side->keepalive) {
            /* A probe finds that nobody is there. */
            net_send_reset(side, world->now_ns + rng_below(&world->rng, PROBE_NS));
        }
        if (side->window_pending > 0)
            sim_event_at(&side->window, again_ns);
    }
}

void net_check_silence(struct world *world)
{
    list_each (&world->streams, link, following) {
        struct net_stream *stream = list_entry(link, struct net_stream, link);
        bool silent = net_is_silent(stream->sides[0].host, stream->sides[1].host);

        if (silent && !stream->silent)
            begin_silence(stream);
        else if (!silent && stream->silent)
            end_silence(stream);
    }
}
