/* The endpoint: who we are, the listener, the end of the turn, the counters. */
#include "rpc/rpc.h"

#include "rpc/conn.h"

#include <stdlib.h>

/* ---- the turn ------------------------------------------------------------------------------- */

static void free_rpc(struct rpc *rpc)
{
    free((void *)(uintptr_t)rpc->identity.token.at);
    free((void *)(uintptr_t)rpc->identity.name.at);
    free(rpc->scratch);
    free(rpc->spare);
    free(rpc->input);
    free(rpc->sink);
    free(rpc);
}

void rpc_enter(struct rpc *rpc)
{
    rpc->depth++;
}

void rpc_leave(struct rpc *rpc)
{
    struct list_link *link;

    if (--rpc->depth > 0)
        return;
    while ((link = list_pop(&rpc->dead)) != NULL)
        rpc_conn_free(list_entry(link, struct rpc_conn, link));
    if (rpc->doomed)
        free_rpc(rpc);
}

void rpc_soon(struct rpc *rpc)
{
    if (rpc->soon.loop == NULL)
        env_timer_arm(rpc->loop, &rpc->soon, 0);
}

void rpc_wait_turn(struct rpc_conn *conn)
{
    if (!list_is_linked(&conn->waiting_link))
        list_push(&conn->rpc->waiting, &conn->waiting_link);
    rpc_soon(conn->rpc);
}

/* What waited for this turn; what waits again meanwhile waits for the next. */
static void on_soon(struct env_timer *timer)
{
    struct rpc *rpc = list_entry(timer, struct rpc, soon);
    struct list running; /* a connection that ends takes itself off */
    struct list_link *link;

    rpc_enter(rpc);
    list_take_all(&running, &rpc->waiting);
    while ((link = list_pop(&running)) != NULL) {
        struct rpc_conn *conn = list_entry(link, struct rpc_conn, waiting_link);

        if (conn->state == RPC_CONN_BROKEN)
            rpc_conn_end(conn, conn->end_status, true);
        else
            rpc_receive(conn);
    }
    rpc_leave(rpc);
}

static void on_turn_end(struct env_hook *hook)
{
    struct rpc *rpc = list_entry(hook, struct rpc, hook);
    struct list running;
    struct list_link *link;

    rpc_enter(rpc);
    list_take_all(&running, &rpc->dirty);
    while ((link = list_pop(&running)) != NULL)
        rpc_send_flush(list_entry(link, struct rpc_conn, dirty_link));
    if (list_is_empty(&rpc->waiting) && list_is_empty(&rpc->dirty))
        env_timer_cancel(&rpc->soon);
    rpc_leave(rpc);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* A copy of bytes; at NULL: out of memory. */
static struct bytes copy_bytes(struct bytes from)
{
    uint8_t *at = malloc(from.size + 1);

    if (at != NULL && from.size > 0)
        memcpy(at, from.at, from.size);
    return bytes_of(at, from.size);
}

static struct rpc *create(const struct rpc_identity *identity)
{
    struct rpc *rpc = calloc(1, sizeof *rpc);

    if (rpc == NULL)
        return NULL;
    rpc->identity = *identity;
    rpc->identity.token = copy_bytes(identity->token);
    rpc->identity.name = copy_bytes(identity->name);
    rpc->scratch = malloc(FRAME_HEADER_SIZE + LIMIT_BODY_SIZE);
    rpc->input = malloc(RPC_INPUT_SIZE);
    rpc->sink = malloc(RPC_SINK_SIZE);
    if (rpc->identity.token.at != NULL && rpc->identity.name.at != NULL && rpc->scratch != NULL &&
        rpc->input != NULL && rpc->sink != NULL)
        return rpc;
    free_rpc(rpc);
    return NULL;
}

enum snow_status rpc_create(struct env_loop *loop, const struct rpc_identity *identity,
                            const struct rpc_options *options, const struct rpc_service *service,
                            void *owner, struct rpc **rpc)
{
    struct rpc *made = create(identity);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->loop = loop;
    made->env = env_loop_env(loop);
    made->options = *options;
    made->service = service;
    made->owner = owner;
    list_init(&made->conns);
    list_init(&made->dirty);
    list_init(&made->waiting);
    list_init(&made->dead);
    made->soon.on_event = on_soon;
    made->hook.on_event = on_turn_end;
    env_hook_add(loop, &made->hook);
    *rpc = made;
    return SNOW_OK;
}

void rpc_destroy(struct rpc *rpc)
{
    struct list_link *link;

    rpc_enter(rpc);
    rpc_listen_close(rpc);
    while ((link = list_first(&rpc->conns)) != NULL)
        rpc_conn_close(list_entry(link, struct rpc_conn, link));
    env_timer_cancel(&rpc->soon);
    env_hook_remove(&rpc->hook);
    rpc->doomed = true;
    rpc_leave(rpc);
}

struct rpc_identity *rpc_identity(struct rpc *rpc)
{
    return &rpc->identity;
}

struct env_loop *rpc_loop(struct rpc *rpc)
{
    return rpc->loop;
}

/* ---- listening ------------------------------------------------------------------------------ */

enum snow_status rpc_listen(struct rpc *rpc, const char *address)
{
    ASSERT(rpc->listener == NULL);
    return env_listen(rpc->loop, address, &rpc->options.socket, rpc_conn_accepted, rpc,
                      &rpc->listener);
}

const char *rpc_listen_address(struct rpc *rpc)
{
    return rpc->listener == NULL ? "" : env_listener_address(rpc->listener);
}

enum snow_status rpc_listen_near(struct rpc *rpc, const char *address)
{
    ASSERT(rpc->near_listener == NULL);
    return env_listen(rpc->loop, address, NULL, rpc_conn_accepted, rpc, &rpc->near_listener);
}

const char *rpc_near_address(struct rpc *rpc)
{
    return rpc->near_listener == NULL ? "" : env_listener_address(rpc->near_listener);
}

void rpc_listen_close(struct rpc *rpc)
{
    if (rpc->near_listener != NULL)
        env_listener_close(rpc->near_listener);
    rpc->near_listener = NULL;
    if (rpc->listener != NULL)
        env_listener_close(rpc->listener);
    rpc->listener = NULL;
}

/* ---- counters ------------------------------------------------------------------------------- */

const uint64_t *rpc_counters(const struct rpc *rpc)
{
    return rpc->counters;
}

const char *rpc_counter_name(uint32_t index)
{
    static const char *const names[RPC_METRIC_COUNT] = {
#define METRIC(name, kind, text) #name,
#include "rpc/rpc_metrics.def"
#undef METRIC
    };

    return index < RPC_METRIC_COUNT ? names[index] : NULL;
}
