/* Connections within the host: a socket for life and death, rings for the bytes.
 *
 * Problem.  A round trip by socket costs 25 us and more, and descriptors of memory pass only by a
 *           UNIX-domain socket.
 * Idea.     The side that dials makes one memory object with two rings and sends it as the first
 *           packet.  Bytes go by the rings from then on; packets only wake a side that sleeps
 *           ('w'), hand memory over ('m'), and their end is the connection's end; so is the end of
 *           the process that dialled, also when a child of its has the socket too.
 *           A ring is looked at by its loop while it is hot: from the last bytes on it until the
 *           loop sleeps.  A loop that is about to sleep says so in all hot rings; a cold one costs
 *           nothing until its peer wakes it.
 * Invariants.
 *   L1  A ring that is not hot has reader_sleeps set by its loop, or cleared by a peer whose packet
 *       is on its way, or an owner that has not taken all bytes yet (readable_told).
 *   L2  The end is told after all bytes that came before it.
 *   L3  At most MEMORIES_MAX handed-over objects wait to be taken; one that sends more is closed.
 * Threads.  The loop's.
 */
#include "env/linux/net.h"
#include "env/linux/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MEMORIES_MAX (2 * LIMIT_SEGMENTS_PER_NODE + 1)
#define GREETING_NS (5 * NS_PER_S)
#define PACKETS_PER_TURN 64
#define PACKET_RINGS 'r' /* version in value; the rings come with it */
#define PACKET_WAKE 'w'
#define PACKET_MEMORY 'm' /* value 1: writable; it comes with it */
#define RINGS_VERSION 1u

struct packet {
    uint8_t kind;
    uint8_t value;
};

/* As it lies in shared memory. */
struct rings {
    struct ring_shared to_acceptor;
    struct ring_shared to_dialler;
};

struct handed_over {
    int descriptor;
    bool writable;
};

struct local {
    struct list_link hot_link; /* in loop->hot */
    struct env_conn *conn;
    struct env_memory memory; /* the rings */
    struct ring in;
    struct ring out;
    bool same_user;
    struct source process; /* pidfd of who dialled: its death ends the connection, whoever else has
                            * the socket too; descriptor -1: not known */
    uint32_t first;        /* of the memories that wait */
    uint32_t count;
    struct handed_over memories[MEMORIES_MAX];
};

/* ---- hot and cold --------------------------------------------------------------------------- */

static struct env_loop *loop_of(const struct local *local)
{
    return local->conn->source.loop;
}

static void make_hot(struct local *local)
{
    if (list_is_linked(&local->hot_link))
        return;
    list_push(&loop_of(local)->hot, &local->hot_link);
    /* Awake: the peer need not wake us.  Bytes that came before are seen by the next look. */
    atomic_store_explicit(&local->in.shared->reader_sleeps, 0, memory_order_relaxed);
}

/* Whether there is something that the owner has not been told. */
static bool has_news(struct local *local)
{
    struct env_conn *conn = local->conn;

    if (conn->ops == NULL)
        return false; /* not owned yet: its events wait */
    return (!conn->readable_told && ring_has_bytes(&local->in)) ||
           (conn->writable_owed && ring_has_room(&local->out));
}

bool local_look(struct env_loop *loop)
{
    bool found = false;

    list_each (&loop->hot, link, next) {
        struct local *local = list_entry(link, struct local, hot_link);

        if (has_news(local)) {
            loop_make_ready(&local->conn->source, NET_LOOK);
            found = true;
        }
    }
    return found;
}

bool local_sleep(struct env_loop *loop)
{
    bool found = false;

    list_each (&loop->hot, link, next) {
        struct local *local = list_entry(link, struct local, hot_link);
        bool has_bytes = ring_sleep(&local->in);

        if (has_bytes && local->conn->ops != NULL && !local->conn->readable_told) {
            loop_make_ready(&local->conn->source, NET_LOOK);
            found = true;
        } else {
            list_remove(link);
        }
    }
    return found;
}

/* ---- packets -------------------------------------------------------------------------------- */

/* A packet, with a descriptor when that is not -1.  EAGAIN, EPIPE ... as sendmsg. */
static int send_packet(int socket, struct packet packet, int descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = &packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (descriptor >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.room;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    }
    do
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof packet ? 0 : -1;
}

/* 1: a packet, *descriptor -1 when none came with it; 0: none now; -1: the end. */
static int receive_packet(int socket, struct packet *packet, int *descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = packet, .iov_len = sizeof *packet};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    ssize_t got;

    *descriptor = -1;
    do
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    (void)descriptors_keep(*descriptor);
    if (got == (ssize_t)sizeof *packet && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
        return 1;
    if (*descriptor >= 0)
        descriptors_close(*descriptor);
    *descriptor = -1;
    return -1;
}

static void wake_peer(struct env_conn *conn)
{
    struct packet packet = {.kind = PACKET_WAKE};

    /* A full socket holds packets enough to wake it; one that is broken tells its end itself. */
    if (send_packet(conn->source.descriptor, packet, -1) != 0 && errno != EAGAIN)
        conn->hangup = true;
}

/* False: the peer breaks the rules. */
static bool take_packet(struct local *local, const struct packet *packet, int descriptor)
{
    bool is_memory = packet->kind == PACKET_MEMORY && descriptor >= 0;

    if (is_memory && local->count < MEMORIES_MAX) {
        local->memories[(local->first + local->count++) % MEMORIES_MAX] =
            (struct handed_over){.descriptor = descriptor, .writable = packet->value == 1};
        return true;
    }
    if (descriptor >= 0)
        descriptors_close(descriptor);
    return packet->kind == PACKET_WAKE && descriptor < 0;
}

/* All packets that are there. */
static void take_packets(struct env_conn *conn)
{
    struct packet packet;
    int descriptor;

    for (int i = 0; i < PACKETS_PER_TURN; i++) {
        int got = receive_packet(conn->source.descriptor, &packet, &descriptor);

        if (got == 0)
            return;
        if (got < 0 || !take_packet(conn->local, &packet, descriptor)) {
            conn->hangup = true;
            return;
        }
    }
    loop_make_ready(&conn->source, EPOLLIN); /* more may be there */
}

void local_on_ready(struct env_conn *conn, uint32_t events)
{
    uint32_t news = 0;

    if ((events & ~(uint32_t)NET_LOOK) != 0)
        take_packets(conn);
    make_hot(conn->local);
    if (conn->hangup)
        news = EPOLLRDHUP | EPOLLHUP;
    if (ring_has_bytes(&conn->local->in))
        news |= EPOLLIN;
    if (conn->writable_owed && ring_has_room(&conn->local->out))
        news |= EPOLLOUT;
    net_tell_owner(conn, news);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

ssize_t local_receive(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    struct local *local = conn->local;
    bool hangup = conn->hangup; /* known before the ring is looked at (L2) */
    size_t got = ring_read(&local->in, iov, iov_count);

    make_hot(local);
    if (local->in.broken || (got == 0 && hangup)) {
        conn->ended = true;
        return ENV_END;
    }
    if (got > 0) {
        if (ring_wakes_writer(&local->in))
            wake_peer(conn);
        return (ssize_t)got;
    }
    conn->readable_told = false;
    return ENV_AGAIN;
}

ssize_t local_send(struct env_conn *conn, const struct iovec *iov, int iov_count)
{
    struct local *local = conn->local;
    size_t total = 0;
    size_t sent;

    if (conn->hangup || local->out.broken) {
        conn->ended = true;
        return ENV_END;
    }
    for (int i = 0; i < iov_count; i++)
        total += iov[i].iov_len;
    sent = ring_write(&local->out, iov, iov_count);
    make_hot(local);
    if (sent > 0 && ring_wakes_reader(&local->out))
        wake_peer(conn);
    if (sent < total) {
        conn->writable_owed = true;
        if (ring_await_room(&local->out))
            loop_make_ready(&conn->source, NET_LOOK);
    }
    return (ssize_t)sent;
}

/* ---- memory --------------------------------------------------------------------------------- */

bool env_conn_is_same_user(const struct env_conn *conn)
{
    return conn->local != NULL && conn->local->same_user;
}

enum snow_status env_memory_send(struct env_conn *conn, const struct env_memory *memory,
                                 bool writable)
{
    struct packet packet = {.kind = PACKET_MEMORY, .value = writable};
    int descriptor = memory->descriptor;
    char path[64];

    if (conn->local == NULL || conn->state != CONN_OPEN)
        return SNOW_INVALID;
    if (!writable) { /* another description of the file, that can not write */
        snprintf(path, sizeof path, "/proc/self/fd/%d", memory->descriptor);
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            return SNOW_LIMIT;
    }
    int failed = send_packet(conn->source.descriptor, packet, descriptor);
    int error = errno;

    if (!writable)
        descriptors_close(descriptor);
    if (failed == 0)
        return SNOW_OK;
    return error == EAGAIN || error == ETOOMANYREFS ? SNOW_BUSY : SNOW_CLOSED;
}

enum snow_status env_memory_take(struct env_conn *conn, bool trusted, struct env_memory *memory)
{
    struct local *local = conn->local;

    if (local == NULL || conn->state != CONN_OPEN)
        return SNOW_INVALID;
    if (local->count == 0)
        take_packets(conn);
    if (local->count == 0)
        return SNOW_NOT_READY;
    struct handed_over next = local->memories[local->first];

    local->first = (local->first + 1) % MEMORIES_MAX;
    local->count--;
    return memory_map(next.descriptor, next.writable, trusted, memory);
}

/* ---- the other process ---------------------------------------------------------------------- */

struct env_peer {
    int process; /* pidfd */
};

struct env_peer *env_peer_open(struct env_conn *conn)
{
    struct env_peer *peer;
    int process = conn->local == NULL ? -1 : conn->local->process.descriptor;

    if (process < 0)
        return NULL;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->process = descriptors_keep(fcntl(process, F_DUPFD_CLOEXEC, 0));
    if (peer->process >= 0)
        return peer;
    free(peer);
    return NULL;
}

bool env_peer_is_alive(const struct env_peer *peer)
{
    struct pollfd look = {.fd = peer->process, .events = POLLIN};

    return poll(&look, 1, 0) == 0;
}

void env_peer_close(struct env_peer *peer)
{
    descriptors_close(peer->process);
    free(peer);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool is_same_user(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void on_process_end(struct source *source)
{
    struct local *local = list_entry(source, struct local, process);

    source->events = 0;
    local->conn->hangup = true;
    loop_make_ready(&local->conn->source, NET_LOOK);
}

/* Watches the process that dialled. */
static void watch_process(struct local *local)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (getsockopt(local->conn->source.descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.pid <= 0)
        return;
    local->process.on_ready = on_process_end;
    local->process.descriptor = descriptors_keep((int)syscall(SYS_pidfd_open, peer.pid, 0));
    if (local->process.descriptor >= 0 && !loop_watch(loop_of(local), &local->process, EPOLLIN)) {
        descriptors_close(local->process.descriptor);
        local->process.descriptor = -1;
    }
}

static struct local *local_create(struct env_conn *conn)
{
    struct local *local = calloc(1, sizeof *local);

    if (local == NULL)
        return NULL;
    local->conn = conn;
    local->memory.descriptor = -1;
    local->process.descriptor = -1;
    local->same_user = is_same_user(conn->source.descriptor);
    conn->local = local;
    return local;
}

static void unwatch_process(struct local *local)
{
    loop_unwatch(&local->process);
    descriptors_close(local->process.descriptor);
    local->process.descriptor = -1;
}

void local_free(struct env_conn *conn)
{
    struct local *local = conn->local;

    if (local == NULL)
        return;
    for (; local->count > 0; local->count--) {
        descriptors_close(local->memories[local->first].descriptor);
        local->first = (local->first + 1) % MEMORIES_MAX;
    }
    if (list_is_linked(&local->hot_link))
        list_remove(&local->hot_link);
    if (local->process.descriptor >= 0)
        unwatch_process(local);
    if (local->memory.at != NULL)
        env_memory_close(conn->source.loop->env, &local->memory);
    conn->local = NULL;
    free(local);
}

static void set_rings(struct local *local, bool dialled)
{
    struct rings *rings = (void *)local->memory.at;

    local->in.shared = dialled ? &rings->to_dialler : &rings->to_acceptor;
    local->out.shared = dialled ? &rings->to_acceptor : &rings->to_dialler;
}

/* The socket's name; its size, or 0: too long. */
static socklen_t fill_name(const char *name, struct sockaddr_un *to)
{
    size_t size = strlen(name);

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (size >= sizeof to->sun_path)
        return 0;
    memcpy(to->sun_path, name, size);
    if (name[0] == '@') { /* abstract: no file, gone with its socket */
        to->sun_path[0] = 0;
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    }
    return (socklen_t)sizeof *to;
}

static int open_socket(void)
{
    return descriptors_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* Makes the rings and sends them as the first packet. */
static bool send_rings(struct env_conn *conn)
{
    struct packet packet = {.kind = PACKET_RINGS, .value = RINGS_VERSION};
    struct local *local = local_create(conn);

    if (local == NULL || env_memory_open(conn->source.loop->env, NULL, "snowskin-ring",
                                         sizeof(struct rings), &local->memory) != SNOW_OK)
        return false;
    set_rings(local, true);
    /* Until the loop first looks, the peer has to wake it. */
    atomic_store_explicit(&local->in.shared->reader_sleeps, 1, memory_order_relaxed);
    atomic_store_explicit(&local->out.shared->reader_sleeps, 1, memory_order_relaxed);
    return send_packet(conn->source.descriptor, packet, local->memory.descriptor) == 0;
}

void local_dial(struct env_conn *conn, const char *name)
{
    struct sockaddr_un to;
    socklen_t size = fill_name(name, &to);

    conn->source.descriptor = open_socket();
    if (size > 0 && conn->source.descriptor >= 0 &&
        connect(conn->source.descriptor, (const struct sockaddr *)&to, size) == 0 &&
        send_rings(conn) && loop_watch(conn->source.loop, &conn->source, EPOLLIN | EPOLLRDHUP)) {
        conn->state = CONN_DIALLING;
        loop_make_ready(&conn->source, EPOLLOUT);
        return;
    }
    local_free(conn);
    conn->state = CONN_FAILED;
    loop_make_ready(&conn->source, EPOLLERR);
}

/* ---- accepting ------------------------------------------------------------------------------ */

/* The first packet: 1, the rings are there; 0, not yet; -1, it is no peer for us. */
static int take_rings(struct env_conn *conn)
{
    struct packet packet;
    int descriptor;
    int got = receive_packet(conn->source.descriptor, &packet, &descriptor);

    if (got <= 0)
        return got;
    if (packet.kind != PACKET_RINGS || packet.value != RINGS_VERSION || descriptor < 0) {
        if (descriptor >= 0)
            descriptors_close(descriptor);
        return -1;
    }
    struct local *local = local_create(conn);

    if (local == NULL) {
        descriptors_close(descriptor);
        return -1;
    }
    if (memory_map(descriptor, true, false, &local->memory) != SNOW_OK)
        return -1;
    if (local->memory.size != sizeof(struct rings))
        return -1;
    set_rings(local, false);
    watch_process(local);
    return 1;
}

void local_on_greeting(struct env_conn *conn)
{
    struct env_listener *listener = conn->greeting_for;
    int got = take_rings(conn);

    if (got == 0)
        return;
    list_remove(&conn->greeting_link);
    env_timer_cancel(&conn->linger);
    conn->greeting_for = NULL;
    if (got < 0) {
        net_conn_free(conn);
        return;
    }
    conn->state = CONN_OPEN;
    loop_make_ready(&conn->source, EPOLLIN); /* whatever came behind the rings */
    listen_accepted(listener, conn);
}

static void on_greeting_end(struct env_timer *timer)
{
    struct env_conn *conn = list_entry(timer, struct env_conn, linger);

    list_remove(&conn->greeting_link);
    net_conn_free(conn);
}

void local_greet(struct env_conn *conn, struct env_listener *listener)
{
    struct env_loop *loop = conn->source.loop;

    snprintf(conn->peer, sizeof conn->peer, "unix:%d", conn->source.descriptor);
    conn->greeting_for = listener;
    list_push(listen_greeting(listener), &conn->greeting_link);
    conn->linger.on_event = on_greeting_end;
    env_timer_arm(loop, &conn->linger, env_now_ns(loop->env) + GREETING_NS);
}

/* Takes away the socket file of a process that is gone; false: somebody is there, or it is no
 * socket. */
static bool make_way(const char *name)
{
    struct stat info;
    struct sockaddr_un at;
    socklen_t size = fill_name(name, &at);
    int probe;
    bool answered;

    if (name[0] != '/' || lstat(name, &info) != 0)
        return true;
    probe = S_ISSOCK(info.st_mode) && size > 0 ? open_socket() : -1;
    if (probe < 0)
        return false;
    answered = connect(probe, (const struct sockaddr *)&at, size) == 0 || errno == EAGAIN;
    descriptors_close(probe);
    return !answered && unlink(name) == 0;
}

int local_listen(struct env_loop *loop, const char *name, char *address, size_t size)
{
    char chosen[ENV_LOCAL_NAME_MAX + 1];
    struct sockaddr_un at;
    int descriptor = open_socket();

    if (descriptor < 0)
        return -1;
    snprintf(chosen, sizeof chosen, "%s", name);
    if (strcmp(name, "@") == 0)
        snprintf(chosen, sizeof chosen, "@snowskin-%016llx",
                 (unsigned long long)env_random(loop->env));
    if (!make_way(chosen)) {
        descriptors_close(descriptor);
        errno = EADDRINUSE;
        return -1;
    }
    if (bind(descriptor, (const struct sockaddr *)&at, fill_name(chosen, &at)) == 0 &&
        listen(descriptor, SOMAXCONN) == 0) {
        snprintf(address, size, "unix:%s", chosen);
        return descriptor;
    }
    int error = errno;

    descriptors_close(descriptor);
    errno = error;
    return -1;
}
