/* Plain sockets: what the limit programs of `bench` talk over.
 *
 * Idea.     One system call a function, no event loop, no framing: whatever stands between a
 *           program and the kernel is to be measured against this.
 * Threads.  Any, one a descriptor. */
#include "env/linux.h"
#include "env/linux/net.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#define BACKLOG 64

static bool local_address(const char *text, struct address *address)
{
    char host[256];
    uint16_t port;

    return env_address_split(text, true, host, sizeof host, &port) == SNOW_OK &&
           address_parse(host, port, address);
}

enum snow_status env_raw_listen(char *address, size_t size, int *listener)
{
    struct address at;
    int one = 1;

    if (!local_address("127.0.0.1:0", &at))
        return SNOW_INVALID;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (descriptor < 0)
        return SNOW_LIMIT;
    (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(descriptor, (const struct sockaddr *)&at.socket, at.size) != 0 ||
        listen(descriptor, BACKLOG) != 0 ||
        getsockname(descriptor, (struct sockaddr *)&at.socket, &at.size) != 0) {
        close(descriptor);
        return SNOW_UNREACHABLE;
    }
    address_print(&at, address, size);
    *listener = descriptor;
    return SNOW_OK;
}

int env_raw_accept(int listener, const struct env_socket_options *options)
{
    struct address peer = {.size = sizeof peer.socket};
    int descriptor;

    do
        descriptor = accept4(listener, (struct sockaddr *)&peer.socket, &peer.size, SOCK_CLOEXEC);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor >= 0)
        net_socket_configure(descriptor, options, &peer);
    return descriptor;
}

int env_raw_dial(const char *address, const struct env_socket_options *options)
{
    struct address to;
    int descriptor;

    if (!local_address(address, &to))
        return -1;
    descriptor = socket(to.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    net_socket_configure(descriptor, options, &to);
    if (connect(descriptor, (const struct sockaddr *)&to.socket, to.size) == 0)
        return descriptor;
    close(descriptor);
    return -1;
}

ssize_t env_raw_send(int descriptor, const struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)(count > IOV_MAX ? IOV_MAX : count)};
    ssize_t sent;

    do
        sent = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

ssize_t env_raw_receive(int descriptor, const struct iovec *iov, int count, bool wait)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)(count > IOV_MAX ? IOV_MAX : count)};
    int flags = wait ? 0 : MSG_DONTWAIT;
    ssize_t got;

    do
        got = count == 1 ? recv(descriptor, iov->iov_base, iov->iov_len, flags)
                         : recvmsg(descriptor, &message, flags);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return -1;
    return got < 0 && errno == EAGAIN ? 0 : got;
}

bool env_raw_wait(struct env_raw_want *wants, uint32_t count)
{
    struct pollfd polls[ENV_RAW_WANTS_MAX];
    int ready;

    ASSERT(count <= ENV_RAW_WANTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        polls[i] = (struct pollfd){.fd = wants[i].descriptor};
        polls[i].events = (short)((wants[i].receive ? POLLIN : 0) | (wants[i].send ? POLLOUT : 0));
    }
    do
        ready = poll(polls, count, -1);
    while (ready < 0 && errno == EINTR);
    for (uint32_t i = 0; i < count; i++) {
        wants[i].receive = wants[i].receive && (polls[i].revents & ~POLLOUT) != 0;
        wants[i].send = wants[i].send && (polls[i].revents & ~POLLIN) != 0;
    }
    return ready >= 0;
}

void env_raw_close(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}
