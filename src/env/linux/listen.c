/* Listening: accepts, a bounded number a turn, and keeps trying when descriptors run out. */
#include "env/linux/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 64
#define BACKLOG 1024
#define RETRY_NS (100 * NS_PER_MS)

struct env_listener {
    struct list_link link; /* in loop->listeners; first member: net_close_all relies on it */
    struct source source;
    struct env_socket_options options;
    char congestion[ENV_CONGESTION_SIZE];
    void (*on_accept)(void *owner, struct env_conn *conn);
    void *owner;
    bool accepting;         /* on_accept may run: its memory stays until that is over */
    bool freed;             /* closed meanwhile */
    struct env_timer retry; /* armed while the process is out of descriptors */
    bool local;             /* of this host: connections greet first */
    struct list greeting;   /* struct env_conn */
    char address[ADDRESS_TEXT_SIZE];
};

/* Takes what accept4 gave; a connection that can not be kept is closed. */
static void take(struct env_listener *listener, int descriptor, const struct address *peer)
{
    struct env_conn *conn =
        net_conn_create(listener->source.loop, listener->local ? CONN_GREETING : CONN_OPEN);

    if (conn == NULL) {
        descriptors_close(descriptor);
        return;
    }
    conn->source.descriptor = descriptor;
    if (!listener->local) {
        net_socket_configure(descriptor, &listener->options, peer);
        address_print(peer, conn->peer, sizeof conn->peer);
    }
    if (!loop_watch(listener->source.loop, &conn->source,
                    listener->local ? EPOLLIN | EPOLLRDHUP : EPOLLIN | EPOLLOUT | EPOLLRDHUP))
        net_conn_free(conn);
    else if (listener->local)
        local_greet(conn, listener);
    else
        listener->on_accept(listener->owner, conn);
}

void listen_accepted(struct env_listener *listener, struct env_conn *conn)
{
    listener->on_accept(listener->owner, conn);
}

struct list *listen_greeting(struct env_listener *listener)
{
    return &listener->greeting;
}

/* Accepts what waits; true: more may wait than one turn's share. */
static bool accept_some(struct env_listener *listener)
{
    struct env_loop *loop = listener->source.loop;

    for (int i = 0; i < ACCEPTS_PER_TURN && !listener->freed; i++) {
        struct address peer = {.size = sizeof peer.socket};
        int descriptor =
            descriptors_keep(accept4(listener->source.descriptor, (struct sockaddr *)&peer.socket,
                                     &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));

        if (descriptor >= 0) {
            take(listener, descriptor, &peer);
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            env_timer_arm(loop, &listener->retry, env_now_ns(loop->env) + RETRY_NS);
            return false;
        } /* else this one connection is lost already: the next */
    }
    return true;
}

static void on_ready(struct source *source)
{
    struct env_listener *listener = list_entry(source, struct env_listener, source);

    source->events = 0;
    listener->accepting = true;
    bool more = accept_some(listener);

    listener->accepting = false;
    if (listener->freed)
        free(listener);
    else if (more)
        loop_make_ready(source, EPOLLIN);
}

static void on_retry(struct env_timer *timer)
{
    loop_make_ready(&list_entry(timer, struct env_listener, retry)->source, EPOLLIN);
}

static int open_socket(const struct address *at, const struct env_socket_options *options)
{
    int one = 1;
    int descriptor = descriptors_keep(
        socket(at->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    if (descriptor < 0)
        return -1;
    (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    net_socket_configure(descriptor, options, NULL);
    if (bind(descriptor, (const struct sockaddr *)&at->socket, at->size) == 0 &&
        listen(descriptor, BACKLOG) == 0)
        return descriptor;
    int error = errno;

    descriptors_close(descriptor);
    errno = error;
    return -1;
}

static struct env_listener *listener_create(struct env_loop *loop,
                                            const struct env_socket_options *options,
                                            void (*on_accept)(void *owner, struct env_conn *conn),
                                            void *owner)
{
    struct env_listener *made = calloc(1, sizeof *made);

    if (made == NULL)
        return NULL;
    made->source.on_ready = on_ready;
    made->source.loop = loop;
    made->source.descriptor = -1;
    made->retry.on_event = on_retry;
    list_init(&made->greeting);
    made->on_accept = on_accept;
    made->owner = owner;
    if (options != NULL)
        made->options = *options;
    if (made->options.congestion != NULL) {
        snprintf(made->congestion, sizeof made->congestion, "%s", options->congestion);
        made->options.congestion = made->congestion;
    }
    list_push(&loop->listeners, &made->link);
    return made;
}

static void say_why(struct env_loop *loop, const char *address, const char *why)
{
    char line[512];

    snprintf(line, sizeof line, "can not listen on %s: %s", address, why);
    env_log_line(loop->env, line);
}

static enum snow_status listen_local(struct env_loop *loop, const char *address,
                                     void (*on_accept)(void *owner, struct env_conn *conn),
                                     void *owner, struct env_listener **listener)
{
    const char *name = env_address_local(address);
    struct env_listener *made;

    if (env_address_local_check(name, true) != SNOW_OK)
        return SNOW_INVALID;
    made = listener_create(loop, NULL, on_accept, owner);
    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->local = true;
    made->source.descriptor = local_listen(loop, name, made->address, sizeof made->address);
    if (made->source.descriptor < 0 || !loop_watch(loop, &made->source, EPOLLIN)) {
        say_why(loop, address, strerror(errno));
        env_listener_close(made);
        return SNOW_UNREACHABLE;
    }
    *listener = made;
    return SNOW_OK;
}

enum snow_status env_listen(struct env_loop *loop, const char *address,
                            const struct env_socket_options *options,
                            void (*on_accept)(void *owner, struct env_conn *conn), void *owner,
                            struct env_listener **listener)
{
    char host[256];
    uint16_t port;
    struct address at;
    enum snow_status status;

    if (env_address_local(address) != NULL)
        return listen_local(loop, address, on_accept, owner, listener);
    status = env_address_split(address, true, host, sizeof host, &port);
    if (status != SNOW_OK)
        return status;
    if (!address_parse(host, port, &at) && address_look_up(host, port, &at, 1) == 0) {
        say_why(loop, address, "no such host");
        return SNOW_UNREACHABLE;
    }
    struct env_listener *made = listener_create(loop, options, on_accept, owner);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->source.descriptor = open_socket(&at, &made->options);
    if (made->source.descriptor < 0 || !loop_watch(loop, &made->source, EPOLLIN)) {
        say_why(loop, address, strerror(errno));
        env_listener_close(made);
        return SNOW_UNREACHABLE;
    }
    at.size = sizeof at.socket;
    (void)getsockname(made->source.descriptor, (struct sockaddr *)&at.socket, &at.size);
    address_print(&at, made->address, sizeof made->address);
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

    while ((link = list_first(&listener->greeting)) != NULL)
        net_conn_free(list_entry(link, struct env_conn, greeting_link));
    env_timer_cancel(&listener->retry);
    loop_unwatch(&listener->source);
    if (listener->source.descriptor >= 0)
        descriptors_close(listener->source.descriptor);
    list_remove(&listener->link);
    listener->freed = true;
    if (!listener->accepting)
        free(listener);
}
