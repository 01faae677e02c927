/* Dialling: look the name up on a helper thread, try its addresses one after the other.
 *
 * Problem.  getaddrinfo blocks for as long as it likes, and can not be stopped.
 * Idea.     It runs on a detached thread that owns nothing but a struct resolve; the loop and the
 *           thread each hold it, and whoever leaves last frees it.
 * Invariants.
 *   D1  resolve->loop is NULL or a loop that is not destroyed: it changes under its mutex.
 *   D2  resolve->conn is NULL or alive; the loop's thread alone uses it.
 * Threads.  The loop's, and one helper thread a look-up.
 */
#include "env/linux/net.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct resolve {
    struct env_task task;
    atomic_int holders;
    pthread_mutex_t mutex; /* guards loop */
    struct env_loop *loop;
    struct list_link link; /* in loop->resolves */
    struct env_conn *conn;
    char host[256];
    uint16_t port;
    struct address addresses[ADDRESSES_MAX];
    uint32_t address_count;
};

/* ---- connecting ----------------------------------------------------------------------------- */

/* Starts to connect to the next address; false when this one can not be. */
static bool connect_next(struct env_conn *conn)
{
    const struct address *to = &conn->addresses[conn->address_next++];
    struct env_loop *loop = conn->source.loop;

    address_print(to, conn->peer, sizeof conn->peer);
    conn->source.descriptor = descriptors_keep(
        socket(to->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (conn->source.descriptor < 0)
        return false;
    net_socket_configure(conn->source.descriptor, &conn->options, to);
    int failed = connect(conn->source.descriptor, (const struct sockaddr *)&to->socket, to->size);

    if ((failed == 0 || errno == EINPROGRESS) &&
        loop_watch(loop, &conn->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP))
        return true;
    descriptors_close(conn->source.descriptor);
    conn->source.descriptor = -1;
    return false;
}

static void dial_next(struct env_conn *conn)
{
    conn->state = CONN_DIALLING;
    while (conn->address_next < conn->address_count) {
        if (connect_next(conn))
            return;
    }
    conn->state = CONN_FAILED;
    loop_make_ready(&conn->source, EPOLLERR);
}

void dial_on_ready(struct env_conn *conn, uint32_t events)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (conn->state == CONN_FAILED) {
        conn->ops->on_open(conn->owner, SNOW_UNREACHABLE);
        return;
    }
    if (getsockopt(conn->source.descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        loop_unwatch(&conn->source);
        descriptors_close(conn->source.descriptor);
        conn->source.descriptor = -1;
        dial_next(conn);
        return;
    }
    struct sockaddr_storage peer;

    size = sizeof peer;
    if (getpeername(conn->source.descriptor, (struct sockaddr *)&peer, &size) != 0)
        return; /* an event that came before connect ended */
    conn->state = CONN_OPEN;
    if ((events & ~(uint32_t)EPOLLOUT) != 0) /* bytes, or the end, came with the same event */
        loop_make_ready(&conn->source, events);
    conn->ops->on_open(conn->owner, SNOW_OK);
}

/* ---- looking up ----------------------------------------------------------------------------- */

static void resolve_release(struct resolve *resolve)
{
    if (atomic_fetch_sub(&resolve->holders, 1) > 1)
        return;
    pthread_mutex_destroy(&resolve->mutex);
    free(resolve);
}

static void *look_up(void *argument)
{
    struct resolve *resolve = argument;

    resolve->address_count =
        address_look_up(resolve->host, resolve->port, resolve->addresses, ADDRESSES_MAX);
    pthread_mutex_lock(&resolve->mutex);
    if (resolve->loop != NULL)
        env_loop_post(resolve->loop, &resolve->task);
    pthread_mutex_unlock(&resolve->mutex);
    resolve_release(resolve);
    return NULL;
}

static void on_looked_up(struct env_task *task)
{
    struct resolve *resolve = list_entry(task, struct resolve, task);
    struct env_conn *conn = resolve->conn;

    list_remove(&resolve->link);
    if (conn != NULL) {
        conn->resolve = NULL;
        conn->address_count = resolve->address_count;
        memcpy(conn->addresses, resolve->addresses, sizeof conn->addresses);
        dial_next(conn);
    }
    resolve_release(resolve);
}

static bool start_thread(struct resolve *resolve)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, look_up, resolve);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed == 0;
}

/* False: no memory or no thread. */
static bool resolve_start(struct env_conn *conn, const char *host, uint16_t port)
{
    struct resolve *resolve = calloc(1, sizeof *resolve);

    if (resolve == NULL)
        return false;
    resolve->task.on_event = on_looked_up;
    atomic_init(&resolve->holders, 2);
    pthread_mutex_init(&resolve->mutex, NULL);
    resolve->loop = conn->source.loop;
    resolve->conn = conn;
    resolve->port = port;
    snprintf(resolve->host, sizeof resolve->host, "%s", host);
    if (!start_thread(resolve)) {
        pthread_mutex_destroy(&resolve->mutex);
        free(resolve);
        return false;
    }
    list_push(&conn->source.loop->resolves, &resolve->link);
    conn->resolve = resolve;
    return true;
}

void dial_forget(struct env_conn *conn)
{
    if (conn->resolve != NULL)
        conn->resolve->conn = NULL;
    conn->resolve = NULL;
}

void dial_forget_all(struct env_loop *loop)
{
    struct list_link *link;

    while ((link = list_pop(&loop->resolves)) != NULL) {
        struct resolve *resolve = list_entry(link, struct resolve, link);

        pthread_mutex_lock(&resolve->mutex);
        resolve->loop = NULL;
        pthread_mutex_unlock(&resolve->mutex);
        resolve_release(resolve);
    }
}

/* ---- the call ------------------------------------------------------------------------------- */

enum snow_status env_dial(struct env_loop *loop, const char *address,
                          const struct env_socket_options *options, const struct env_conn_ops *ops,
                          void *owner, struct env_conn **conn)
{
    const char *local = env_address_local(address);
    char host[256];
    uint16_t port;
    enum snow_status status = local != NULL
                                  ? env_address_local_check(local, false)
                                  : env_address_split(address, false, host, sizeof host, &port);

    if (status != SNOW_OK)
        return status;
    struct env_conn *made = net_conn_create(loop, CONN_RESOLVING);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->ops = ops;
    made->owner = owner;
    if (options != NULL)
        made->options = *options;
    if (made->options.congestion != NULL) { /* the dial outlives the caller's text */
        snprintf(made->congestion, sizeof made->congestion, "%s", options->congestion);
        made->options.congestion = made->congestion;
    }
    snprintf(made->peer, sizeof made->peer, "%s", address);
    if (local != NULL) {
        local_dial(made, local);
    } else if (address_parse(host, port, &made->addresses[0])) {
        made->address_count = 1;
        dial_next(made);
    } else if (!resolve_start(made, host, port)) {
        net_conn_free(made);
        return SNOW_NO_MEMORY;
    }
    *conn = made;
    return SNOW_OK;
}
