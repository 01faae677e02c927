/* Dialling and listening. */
#include "env/address.h"
#include "sim/net.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_UP_NS_MAX (2 * NS_PER_MS)
#define FIRST_RETRY_NS (1 * NS_PER_S) /* an unanswered try is repeated after 1, 2, 4 ... s */
#define TRIES_MAX 7u

/* ---- dialling ------------------------------------------------------------------------------- */

static bool is_own_name(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
           strcmp(host, "::1") == 0;
}

static struct world_host *find_host(struct env *env, const char *name)
{
    struct world *world = env->world;

    if (is_own_name(name))
        return env->host;
    for (uint32_t i = 0; i < world->host_count; i++) {
        if (strcmp(world->hosts[i]->name, name) == 0)
            return world->hosts[i];
    }
    return NULL;
}

static struct env_listener *find_listener(struct world_host *host, uint16_t port)
{
    list_each (&host->listeners, link, following) {
        struct env_listener *listener = list_entry(link, struct env_listener, link);

        if (listener->port == port)
            return listener;
    }
    return NULL;
}

static struct env_listener *find_local(struct world_host *host, const char *name)
{
    list_each (&host->listeners, link, following) {
        struct env_listener *listener = list_entry(link, struct env_listener, link);

        if (listener->port == 0 && strcmp(listener->local, name) == 0)
            return listener;
    }
    return NULL;
}

static void tell_opened(struct env_conn *conn, enum net_conn_state state, uint64_t at_ns)
{
    conn->state = state;
    conn->tell_open = true;
    net_tell(conn, at_ns);
}

/* The other kernel says yes: both ends exist from now on. */
static bool connect_to(struct env_conn *conn, struct env_listener *listener)
{
    struct world *world = conn->loop->env->world;
    struct world_host *from = conn->loop->env->host;
    struct env_conn *accepted = net_conn_create(listener->loop, NET_OPEN);
    struct net_stream *stream =
        accepted == NULL ? NULL : net_stream_create(world, from, conn->dial_host);

    if (stream == NULL) {
        if (accepted != NULL)
            net_conn_free(accepted);
        return false;
    }
    net_side_attach(&stream->sides[0], conn, &conn->options);
    net_side_attach(&stream->sides[1], accepted, &listener->options);
    snprintf(accepted->peer, sizeof accepted->peer, "%s:%u", from->name,
             (unsigned)(30000 + stream->id % 10000));
    accepted->listener = listener;
    conn->local = accepted->local = listener->port == 0;
    list_push(&listener->waiting, &accepted->accept_link);
    if (!sim_event_waits(&listener->accept))
        sim_event_at(&listener->accept, world->now_ns);
    tell_opened(conn, NET_OPEN, world->now_ns + net_latency(world, from, conn->dial_host));
    return true;
}

static void on_dial(struct sim_event *event)
{
    struct env_conn *conn = list_entry(event, struct env_conn, dial);
    struct world *world = event->world;
    struct world_host *from = conn->loop->env->host;
    struct world_host *to = conn->dial_host;
    struct env_listener *listener;

    if (to == NULL) {
        tell_opened(conn, NET_FAILED, world->now_ns);
        return;
    }
    if (net_is_silent(from, to)) {
        if (conn->dial_tries++ < TRIES_MAX)
            sim_event_at(event, world->now_ns + (FIRST_RETRY_NS << (conn->dial_tries - 1)));
        else
            tell_opened(conn, NET_FAILED, world->now_ns);
        return;
    }
    listener = conn->dial_local[0] != 0 ? find_local(to, conn->dial_local)
                                        : find_listener(to, conn->dial_port);
    if (listener == NULL || !connect_to(conn, listener))
        tell_opened(conn, NET_FAILED, world->now_ns + net_latency(world, from, to));
}

enum snow_status env_dial(struct env_loop *loop, const char *address,
                          const struct env_socket_options *options, const struct env_conn_ops *ops,
                          void *owner, struct env_conn **conn)
{
    struct world *world = loop->env->world;
    const char *local = env_address_local(address);
    char host[256];
    uint16_t port = 0;
    enum snow_status status = local != NULL
                                  ? env_address_local_check(local, false)
                                  : env_address_split(address, false, host, sizeof host, &port);

    if (status != SNOW_OK)
        return status;
    if (loop->env->dead)
        return SNOW_CLOSED;
    struct env_conn *made = net_conn_create(loop, NET_DIALLING);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->ops = ops;
    made->owner = owner;
    made->dial_host = local != NULL ? loop->env->host : find_host(loop->env, host);
    made->dial_port = port;
    if (local != NULL)
        snprintf(made->dial_local, sizeof made->dial_local, "%s", local);
    if (options != NULL)
        made->options = *options;
    snprintf(made->peer, sizeof made->peer, "%s", address);
    sim_event_init(&made->dial, world, NULL, SIM_DIAL, made->id, on_dial);
    if (made->dial_host == NULL)
        sim_event_at(&made->dial, world->now_ns + rng_below(&world->rng, LOOK_UP_NS_MAX));
    else
        sim_event_at(&made->dial,
                     world->now_ns + net_latency(world, loop->env->host, made->dial_host));
    *conn = made;
    return SNOW_OK;
}

/* ---- listening ------------------------------------------------------------------------------ */

static void on_accept(struct sim_event *event)
{
    struct env_listener *listener = list_entry(event, struct env_listener, accept);
    struct list_link *link;

    listener->accepting = true;
    while (!listener->freed && (link = list_pop(&listener->waiting)) != NULL) {
        struct env_conn *conn = list_entry(link, struct env_conn, accept_link);

        conn->listener = NULL;
        listener->on_accept(listener->owner, conn);
    }
    listener->accepting = false;
    if (listener->freed)
        free(listener);
}

static uint16_t free_port(struct world_host *host)
{
    while (find_listener(host, host->next_port) != NULL)
        host->next_port++;
    return host->next_port++;
}

static struct env_listener *listener_create(struct env_loop *loop,
                                            void (*on_conn)(void *owner, struct env_conn *conn),
                                            void *owner, uint16_t port)
{
    struct world_host *host = loop->env->host;
    struct env_listener *made = calloc(1, sizeof *made);

    if (made == NULL)
        return NULL;
    made->loop = loop;
    made->port = port;
    made->on_accept = on_conn;
    made->owner = owner;
    list_init(&made->waiting);
    sim_event_init(&made->accept, host->world, loop, SIM_ACCEPT, port, on_accept);
    list_push(&host->listeners, &made->link);
    list_push(&loop->listeners, &made->loop_link);
    return made;
}

static enum snow_status listen_local(struct env_loop *loop, const char *name,
                                     void (*on_conn)(void *owner, struct env_conn *conn),
                                     void *owner, struct env_listener **listener)
{
    char chosen[ENV_LOCAL_NAME_MAX + 1];

    snprintf(chosen, sizeof chosen, "%s", name);
    if (strcmp(name, "@") == 0)
        snprintf(chosen, sizeof chosen, "@snowskin-%016llx",
                 (unsigned long long)env_random(loop->env));
    if (find_local(loop->env->host, chosen) != NULL) {
        env_log_line(loop->env, "can not listen: the address is in use");
        return SNOW_UNREACHABLE;
    }
    struct env_listener *made = listener_create(loop, on_conn, owner, 0);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    snprintf(made->local, sizeof made->local, "%s", chosen);
    snprintf(made->address, sizeof made->address, "unix:%s", chosen);
    *listener = made;
    return SNOW_OK;
}

enum snow_status env_listen(struct env_loop *loop, const char *address,
                            const struct env_socket_options *options,
                            void (*on_conn)(void *owner, struct env_conn *conn), void *owner,
                            struct env_listener **listener)
{
    struct world_host *host = loop->env->host;
    const char *local = env_address_local(address);
    char name[256];
    uint16_t port = 0;
    enum snow_status status = local != NULL
                                  ? env_address_local_check(local, true)
                                  : env_address_split(address, true, name, sizeof name, &port);

    if (status != SNOW_OK)
        return status;
    if (loop->env->dead)
        return SNOW_CLOSED;
    if (local != NULL)
        return listen_local(loop, local, on_conn, owner, listener);
    if (port != 0 && find_listener(host, port) != NULL) {
        env_log_line(loop->env, "can not listen: the address is in use");
        return SNOW_UNREACHABLE;
    }
    struct env_listener *made =
        listener_create(loop, on_conn, owner, port != 0 ? port : free_port(host));

    if (made == NULL)
        return SNOW_NO_MEMORY;
    if (options != NULL)
        made->options = *options;
    snprintf(made->address, sizeof made->address, "%s:%u", host->name, (unsigned)made->port);
    *listener = made;
    return SNOW_OK;
}

const char *env_listener_address(const struct env_listener *listener)
{
    return listener->address;
}

void env_listener_close(struct env_listener *listener)
{
    struct list_link *link;

    while ((link = list_first(&listener->waiting)) != NULL)
        env_conn_close(list_entry(link, struct env_conn, accept_link), true);
    sim_event_cancel(&listener->accept);
    if (list_is_linked(&listener->link))
        list_remove(&listener->link);
    list_remove(&listener->loop_link);
    listener->freed = true;
    if (!listener->accepting)
        free(listener);
}
