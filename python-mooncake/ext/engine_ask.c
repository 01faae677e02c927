/* What an engine asks of others. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 5000
#define TOO_LONG (-2)

/* ---- connections ---------------------------------------------------------------------------- */

static bool split(const char *target, char *host, size_t room, const char **port)
{
    const char *colon = strrchr(target, ':');
    size_t size = colon == NULL ? 0 : (size_t)(colon - target);

    if (size >= 2 && target[0] == '[' && target[size - 1] == ']') {
        target++;
        size -= 2;
    }
    if (size == 0 || size >= room)
        return false;
    memcpy(host, target, size);
    host[size] = 0;
    *port = colon + 1;
    return true;
}

/* Connects, or gives up after CONNECT_MS. */
static bool connect_in_time(int fd, const struct addrinfo *to)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);

    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return true;
    return errno == EINPROGRESS && poll(&ready, 1, CONNECT_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

static void set_options(const struct engine *engine, int fd)
{
    struct timeval silence = {.tv_sec = engine->timeout_ms / 1000,
                              .tv_usec = (engine->timeout_ms % 1000) * 1000};
    int one = 1;

    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
}

static int dial(const struct engine *engine, const char *target)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *port;
    char host[256];
    int fd = -1;

    if (!split(target, host, sizeof(host), &port) || getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && !connect_in_time(fd, at)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd >= 0)
        set_options(engine, fd);
    return fd;
}

/* One that was kept and is still of use; fd -1: none. */
static struct engine_conn take_kept(struct engine *engine, const char *target)
{
    struct engine_conn conn = {.fd = -1};

    pthread_mutex_lock(&engine->mutex);
    for (uint32_t i = 0; i < engine->kept_count && conn.fd < 0; i++) {
        char byte;

        if (strcmp(engine->kept[i].target, target) != 0)
            continue;
        conn = engine->kept[i].conn;
        engine->kept[i--] = engine->kept[--engine->kept_count];
        /* Nothing to read, and no end: its peer lives. */
        if (recv(conn.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
            (errno != EAGAIN && errno != EWOULDBLOCK)) {
            close(conn.fd);
            conn.fd = -1;
        }
    }
    pthread_mutex_unlock(&engine->mutex);
    return conn;
}

static void keep(struct engine *engine, const char *target, struct engine_conn conn)
{
    int fd = conn.fd;

    pthread_mutex_lock(&engine->mutex);
    if (engine->kept_count < ENGINE_KEPT_MAX && !engine->stopping &&
        strlen(target) < sizeof(engine->kept[0].target)) {
        struct engine_kept *kept = &engine->kept[engine->kept_count++];

        strcpy(kept->target, target);
        kept->conn = conn;
        fd = -1;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (fd >= 0)
        close(fd);
}

static bool take_answer(int fd, struct engine_head *head)
{
    return engine_receive(fd, head, sizeof(*head)) && head->magic == ENGINE_MAGIC &&
           head->status == 0;
}

/* Whether its process is one that the kernel lets us look into; false: the connection is lost. */
static bool ask_near(struct engine *engine, struct engine_conn *conn)
{
    struct engine_head head = {.magic = ENGINE_MAGIC, .kind = ENGINE_NEAR};
    struct engine_head told;
    struct engine_near near;

    if (!engine_send(conn->fd, &head, sizeof(head), false) || !take_answer(conn->fd, &told) ||
        told.bytes != sizeof(near) || !engine_receive(conn->fd, &near, sizeof(near)))
        return false;
    if (engine_near_can(engine, &near))
        conn->near = (pid_t)near.pid;
    return true;
}

/* fd -1: there is none. */
static struct engine_conn connection(struct engine *engine, const char *target)
{
    struct engine_conn conn = take_kept(engine, target);

    if (conn.fd >= 0)
        return conn;
    conn.fd = dial(engine, target);
    if (conn.fd >= 0 && engine->near && !ask_near(engine, &conn)) {
        close(conn.fd);
        conn = (struct engine_conn){.fd = -1};
    }
    return conn;
}

void engine_ask_stop(struct engine *engine)
{
    while (engine->kept_count > 0)
        close(engine->kept[--engine->kept_count].conn.fd);
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool say(int fd, enum engine_kind kind, const struct engine_range *others, uint32_t count,
                uint64_t bytes, bool more)
{
    struct engine_head head = {
        .magic = ENGINE_MAGIC, .kind = (uint16_t)kind, .count = count, .bytes = bytes};

    return engine_send(fd, &head, sizeof(head), count > 0) &&
           engine_send(fd, others, count * sizeof(*others), more);
}

/* By the kernel.  0; ENGINE_FAILED; ENGINE_BY_SOCKET: the other wants it so. */
static int transfer_near(struct engine *engine, const struct engine_conn *conn, bool out,
                         const struct engine_range *own, const struct engine_range *others,
                         uint32_t count, uint64_t bytes)
{
    struct engine_head told;
    bool good;

    if (!say(conn->fd, ENGINE_ENTER, others, count, bytes, false) ||
        !engine_receive(conn->fd, &told, sizeof(told)) || told.magic != ENGINE_MAGIC)
        return ENGINE_FAILED;
    if (told.status != 0)
        return told.status;
    good = engine_near_move(conn->near, out, own, others, count);
    atomic_fetch_add(&engine->near_bytes, good ? bytes : 0);
    return say(conn->fd, ENGINE_LEAVE, NULL, 0, 0, false) && good ? 0 : ENGINE_FAILED;
}

/* At most ENGINE_RANGES_MAX pieces, over one connection. */
static bool transfer(struct engine *engine, const struct engine_conn *conn, enum engine_kind kind,
                     const struct engine_range *own, const struct engine_range *others,
                     uint32_t count)
{
    bool out = kind == ENGINE_WRITE;
    bool device = engine_has_device(engine, own, count);
    struct engine_head told;
    uint64_t bytes = 0;
    int near = ENGINE_BY_SOCKET;

    for (uint32_t i = 0; i < count; i++)
        bytes += own[i].size;
    if (conn->near > 0 && !device)
        near = transfer_near(engine, conn, out, own, others, count, bytes);
    if (near != ENGINE_BY_SOCKET)
        return near == 0;
    atomic_fetch_add(&engine->far_bytes, bytes);
    if (!say(conn->fd, kind, others, count, bytes, out && bytes > 0))
        return false;
    if (out)
        return engine_move(engine, conn->fd, own, count, true) && take_answer(conn->fd, &told);
    return take_answer(conn->fd, &told) && told.bytes == bytes &&
           engine_move(engine, conn->fd, own, count, false);
}

int engine_transfer(struct engine *engine, enum engine_kind kind, const char *target,
                    const struct engine_range *own, const struct engine_range *others, size_t count)
{
    struct engine_conn conn = connection(engine, target);

    if (conn.fd < 0)
        return -1;
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        uint32_t part = left < ENGINE_RANGES_MAX ? (uint32_t)left : ENGINE_RANGES_MAX;

        errno = 0;
        if (!transfer(engine, &conn, kind, own + done, others + done, part)) {
            bool late = errno == EAGAIN || errno == EWOULDBLOCK;

            close(conn.fd);
            return late ? TOO_LONG : -1;
        }
        done += part;
    }
    keep(engine, target, conn);
    return 0;
}

int engine_notify(struct engine *engine, const char *target, const char *name, size_t name_size,
                  const char *message, size_t size)
{
    struct engine_head head = {.magic = ENGINE_MAGIC,
                               .kind = ENGINE_NOTIFY,
                               .count = (uint32_t)name_size,
                               .bytes = name_size + size};
    struct engine_head told;
    struct engine_conn conn;
    int fd;

    if (name_size + size > ENGINE_NOTICE_MAX)
        return -1;
    conn = connection(engine, target);
    fd = conn.fd;
    if (fd < 0)
        return -1;
    if (engine_send(fd, &head, sizeof(head), true) && engine_send(fd, name, name_size, size > 0) &&
        engine_send(fd, message, size, false) && take_answer(fd, &told)) {
        keep(engine, target, conn);
        return 0;
    }
    close(fd);
    return -1;
}

int engine_probe(struct engine *engine, const char *target, uint64_t *first)
{
    struct engine_head head = {.magic = ENGINE_MAGIC, .kind = ENGINE_PROBE};
    struct engine_head told;
    struct engine_conn conn = connection(engine, target);
    int fd = conn.fd;

    if (fd < 0)
        return -102;
    if (!engine_send(fd, &head, sizeof(head), false) || !take_answer(fd, &told)) {
        close(fd);
        return -102;
    }
    *first = told.bytes;
    keep(engine, target, conn);
    return 0;
}
