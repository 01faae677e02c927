/* The heartbeat: once a second, from a thread and on a connection of its own, so that a busy host
 * process or a large transfer never makes the node look dead.  It tells how long the service loop
 * has not turned: a node whose data service hangs is silent although its heartbeat is not.
 *
 * Threads.  The heartbeat loop; the service loop's turns are read, a nudge is posted to it. */
#include "node/inside.h"

#define BEAT_NS NS_PER_S

static void on_nudge(struct env_task *task)
{
    struct node *node = list_entry(task, struct node, nudge);

    __atomic_store_n(&node->nudged, false, __ATOMIC_RELEASE);
    if (!__atomic_exchange_n(&node->remount, false, __ATOMIC_ACQ_REL))
        return;
    /* The master does not know us any more, though the connection stands. */
    if (rpc_peer_conn(&node->master) != NULL && !node->telling && !node->leaving &&
        !rpc_call_is_open(&node->mount_call))
        rpc_peer_reset(&node->master);
}

/* An idle loop does not turn by itself. */
static void nudge(struct node *node)
{
    if (!__atomic_exchange_n(&node->nudged, true, __ATOMIC_ACQ_REL))
        env_loop_post(node->loop, &node->nudge);
}

static uint32_t stalled_ms(struct node *node, uint64_t now_ns)
{
    uint64_t turns = env_loop_turns(node->loop);

    if (turns != node->beat_turns) {
        node->beat_turns = turns;
        node->beat_turned_ns = now_ns;
    }
    uint64_t stalled_ns = now_ns - node->beat_turned_ns;

    return stalled_ns < 2 * BEAT_NS ? 0 : (uint32_t)(stalled_ns / NS_PER_MS);
}

static void on_answer(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct node *node = list_entry(call, struct node, beat_call);
    const struct wire_heartbeat_rep *answer = reply;

    if (!last || status != SNOW_OK || answer->mounted || !node_is_mounted(node))
        return;
    __atomic_store_n(&node->remount, true, __ATOMIC_RELEASE);
    nudge(node);
}

static void beat(struct node *node)
{
    uint64_t now_ns = env_now_ns(node->env);
    struct wire_heartbeat_req message = {.incarnation = node->incarnation,
                                         .process = node->process,
                                         .stalled_ms = stalled_ms(node, now_ns)};

    nudge(node);
    if (rpc_peer_conn(&node->beat_master) == NULL || rpc_call_is_open(&node->beat_call))
        return;
    if (rpc_call_start(rpc_peer_conn(&node->beat_master), &node->beat_call, WIRE_heartbeat,
                       &message, NULL, now_ns + BEAT_NS) != SNOW_OK)
        rpc_peer_reset(&node->beat_master);
}

static void on_beat(struct env_timer *timer)
{
    struct node *node = list_entry(timer, struct node, beat_timer);

    beat(node);
    env_timer_arm(node->beat_loop, &node->beat_timer, env_now_ns(node->env) + BEAT_NS);
}

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    (void)hello;
    beat(list_entry(peer, struct node, beat_master));
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    (void)peer;
    (void)status;
}

static void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    (void)owner;
    (void)conn;
    (void)status;
}

enum snow_status node_heartbeat_open(struct node *node)
{
    static const struct rpc_service service = {.on_close = on_close};
    struct rpc_identity identity = *rpc_identity(node->rpc);
    struct rpc_options options = {.socket = {.keepalive = true, .user_timeout_ms = 5000}};
    enum snow_status status;

    identity.role = WIRE_ROLE_HEARTBEAT;
    status = rpc_create(node->beat_loop, &identity, &options, &service, node, &node->beat_rpc);
    if (status != SNOW_OK)
        return status;
    node->nudge.on_event = on_nudge;
    node->beat_call.on_reply = on_answer;
    node->beat_timer.on_event = on_beat;
    node->beat_turned_ns = env_now_ns(node->env);
    node->beat_master.on_up = on_up;
    node->beat_master.on_down = on_down;
    env_timer_arm(node->beat_loop, &node->beat_timer, env_now_ns(node->env) + BEAT_NS);
    return rpc_peer_open(&node->beat_master, node->beat_rpc, node->options.master, 0);
}

void node_heartbeat_close(struct node *node)
{
    rpc_peer_close(&node->beat_master);
    env_timer_cancel(&node->beat_timer);
    rpc_destroy(node->beat_rpc);
}
