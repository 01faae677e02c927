/* Open connections: bytes in, bytes out, and a close that loses nothing.
 *
 * Problem.  Edge-triggered events cost one system call less a message, but an edge that is missed
 *           is a connection that hangs.
 * Idea.     The owner is told "readable" once and then reads until a receive says ENV_AGAIN; a
 *           receive that took less than it had room for has emptied the socket, so the next one
 *           says ENV_AGAIN without asking the kernel, unless an event came in between.
 *           A close with bytes that the peer has not acknowledged lingers: the socket stays, reads
 *           and discards, until the peer has all, or 2 s passed.  Else the kernel may answer late
 *           bytes with a reset, which throws away what was sent.
 * Invariants.
 *   N1  `drained` is cleared by every event, and not believed after one that told of the peer's
 *       end, so no end of stream hides behind it.
 *   N2  A CLOSING connection has no owner: nothing is told any more.
 * Threads.  The loop's.
 */
#include "env/linux/net.h"

#include "env/linux.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINGER_NS (2 * NS_PER_S)
#define KEEPALIVE_IDLE_S 5
#define KEEPALIVE_INTERVAL_S 2
#define KEEPALIVE_PROBES 3

static const char default_congestion[] = "cubic";

static void set_option(int descriptor, int level, int name, int value)
{
    /* What a kernel does not know is no reason not to talk. */
    (void)setsockopt(descriptor, level, name, &value, sizeof value);
}

void net_socket_configure(int descriptor, const struct env_socket_options *options,
                          const struct address *to)
{
    const char *congestion = options->congestion;

    if (congestion == NULL && to != NULL && address_is_near(to))
        congestion = default_congestion;
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    if (congestion != NULL)
        (void)setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, congestion,
                         (socklen_t)strlen(congestion));
    if (options->send_buffer > 0)
        set_option(descriptor, SOL_SOCKET, SO_SNDBUF, (int)options->send_buffer);
    if (options->receive_buffer > 0)
        set_option(descriptor, SOL_SOCKET, SO_RCVBUF, (int)options->receive_buffer);
    if (options->user_timeout_ms > 0)
        set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)options->user_timeout_ms);
    if (options->keepalive) {
        set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
        set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
        set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    }
}

bool env_congestion_is_usable(const char *name)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t size = strlen(name);
    bool usable = descriptor >= 0 && size > 0 && size < ENV_CONGESTION_SIZE &&
                  setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)size) == 0;

    if (descriptor >= 0)
        close(descriptor);
    return usable;
}

/* ---- closing -------------------------------------------------------------------------------- */

void net_conn_free(struct env_conn *conn)
{
    env_timer_cancel(&conn->linger);
    loop_unwatch(&conn->source);
    local_free(conn);
    if (list_is_linked(&conn->greeting_link))
        list_remove(&conn->greeting_link);
    if (conn->source.descriptor >= 0)
        descriptors_close(conn->source.descriptor);
    list_remove(&conn->link);
    conn->freed = true;
    if (!conn->telling)
        free(conn);
}

/* Reads and throws away; true when the peer has closed too, or has all that was sent. */
static bool discard_input(struct env_conn *conn)
{
    char sink[4096];
    int unsent = 0;

    for (int i = 0; i < 64; i++) {
        ssize_t got = recv(conn->source.descriptor, sink, sizeof sink, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (got < 0 && errno == EAGAIN)
            break;
    }
    return ioctl(conn->source.descriptor, SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

static void on_linger_end(struct env_timer *timer)
{
    net_conn_free(list_entry(timer, struct env_conn, linger));
}

void env_conn_close(struct env_conn *conn, bool reset)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    dial_forget(conn);
    if (reset && conn->source.descriptor >= 0)
        (void)setsockopt(conn->source.descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    conn->ops = NULL;
    /* What was sent lies in memory that the peer has too. */
    if (reset || conn->ended || conn->state != CONN_OPEN || conn->local != NULL ||
        shutdown(conn->source.descriptor, SHUT_WR) != 0 || discard_input(conn)) {
        net_conn_free(conn);
        return;
    }
    conn->state = CONN_CLOSING;
    conn->linger.on_event = on_linger_end;
    env_timer_arm(conn->source.loop, &conn->linger, env_now_ns(conn->source.loop->env) + LINGER_NS);
}

void net_close_all(struct env_loop *loop)
{
    struct list_link *link;

    dial_forget_all(loop);
    while ((link = list_first(&loop->listeners)) != NULL)
        env_listener_close((struct env_listener *)link); /* its first member */
    while ((link = list_first(&loop->conns)) != NULL)
        net_conn_free(list_entry(link, struct env_conn, link));
}

/* ---- events --------------------------------------------------------------------------------- */

void net_tell_owner(struct env_conn *conn, uint32_t events)
{
    uint32_t in = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    uint32_t out = EPOLLOUT | EPOLLHUP | EPOLLERR;

    conn->telling = true;
    if ((events & out) != 0 && conn->writable_owed) {
        conn->writable_owed = false;
        conn->ops->on_writable(conn->owner);
    }
    if (!conn->freed && conn->ops != NULL && (events & in) != 0 && !conn->readable_told) {
        conn->readable_told = true;
        conn->ops->on_readable(conn->owner);
    }
    conn->telling = false;
    if (conn->freed)
        free(conn);
}

static void on_ready(struct source *source)
{
    struct env_conn *conn = list_entry(source, struct env_conn, source);
    uint32_t events = source->events;

    if (conn->state == CONN_OPEN && conn->ops == NULL)
        return; /* accepted and not owned yet: the events wait */
    source->events = 0;
    conn->drained = false;
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        conn->hangup = true;
    if (conn->state == CONN_OPEN && conn->local != NULL)
        local_on_ready(conn, events);
    else if (conn->state == CONN_OPEN)
        net_tell_owner(conn, events);
    else if (conn->state == CONN_GREETING)
        local_on_greeting(conn);
    else if (conn->state == CONN_CLOSING && discard_input(conn))
        net_conn_free(conn);
    else if (conn->state == CONN_DIALLING || conn->state == CONN_FAILED)
        dial_on_ready(conn, events);
}

struct env_conn *net_conn_create(struct env_loop *loop, enum conn_state state)
{
    struct env_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->source.on_ready = on_ready;
    conn->source.descriptor = -1;
    conn->source.loop = loop;
    conn->state = state;
    list_push(&loop->conns, &conn->link);
    return conn;
}

void env_conn_own(struct env_conn *conn, const struct env_conn_ops *ops, void *owner)
{
    conn->ops = ops;
    conn->owner = owner;
    if (conn->source.events != 0)
        loop_make_ready(&conn->source, 0);
}

const char *env_conn_peer(const struct env_conn *conn)
{
    return conn->peer;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static size_t total_size(const struct iovec *iov, int iov_count)
{
    size_t total = 0;

    for (int i = 0; i < iov_count; i++)
        total += iov[i].iov_len;
    return total;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
}

static ssize_t said_again(struct env_conn *conn)
{
    conn->drained = false;
    conn->readable_told = false;
    return ENV_AGAIN;
}

ssize_t env_conn_receive(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    ssize_t got;

    if (conn->ended)
        return ENV_END;
    if (conn->state != CONN_OPEN)
        return ENV_AGAIN;
    if (conn->local != NULL)
        return local_receive(conn, iov, iov_count);
    if (conn->drained)
        return said_again(conn);
    if (iov_count > IOV_MAX)
        iov_count = IOV_MAX;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)iov_count};

    do
        got = iov_count == 1
                  ? recv(conn->source.descriptor, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                  : recvmsg(conn->source.descriptor, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        conn->drained = !conn->hangup && (size_t)got < total_size(iov, iov_count);
        return got;
    }
    if (got < 0 && errno == EAGAIN)
        return said_again(conn);
    if (got == 0 && total_size(iov, iov_count) == 0)
        return ENV_AGAIN;
    conn->ended = true;
    return ENV_END;
}

ssize_t env_conn_send(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    ssize_t sent;
    int given = iov_count > IOV_MAX ? IOV_MAX : iov_count;

    if (conn->ended)
        return ENV_END;
    if (conn->state != CONN_OPEN)
        return ENV_AGAIN;
    if (conn->local != NULL)
        return local_send(conn, iov, iov_count);
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)given};

    do
        sent = sendmsg(conn->source.descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && !would_block()) {
        conn->ended = true;
        return ENV_END;
    }
    if (sent < 0)
        sent = 0;
    if ((size_t)sent < total_size(iov, given)) {
        conn->writable_owed = true;
    } else if (given < iov_count) { /* the kernel had room: nothing will come from it */
        conn->writable_owed = true;
        loop_make_ready(&conn->source, EPOLLOUT);
    }
    return sent;
}
