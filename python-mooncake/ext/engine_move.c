/* The bytes of transfers: over a socket, also of devices; and within a host without one.
 *
 * Near.   Two engines of one host, where the kernel lets one look into the other (the same user,
 *         no stricter rule), or of one process: process_vm_writev moves the bytes at once.  What is
 *         not mapped is an error there, as with a socket, and never a signal; that is why one
 *         process does not use memcpy either.  Whether it may is found out once a connection, by
 *         reading a number that the other has told over it: process ids alone can be those of
 *         another container. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECE_MAX ((uint64_t)1 << 30)
#define STAGE_BYTES ((uint64_t)4 << 20)

bool engine_send(int fd, const void *from, uint64_t size, bool more)
{
    const char *at = from;

    while (size > 0) {
        size_t piece = size < PIECE_MAX ? size : PIECE_MAX;
        ssize_t sent = send(fd, at, piece, MSG_NOSIGNAL | (more ? MSG_MORE : 0));

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (uint64_t)sent;
    }
    return true;
}

bool engine_receive(int fd, void *to, uint64_t size)
{
    char *at = to;

    while (size > 0) {
        size_t piece = size < PIECE_MAX ? size : PIECE_MAX;
        ssize_t got = recv(fd, at, piece, MSG_WAITALL);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (uint64_t)got;
    }
    return true;
}

/* ---- memory of any kind --------------------------------------------------------------------- */

/* A device's memory, by way of staging memory of the host. */
static bool move_staged(struct engine *engine, int fd, char *at, uint64_t size, bool out, bool more)
{
    uint64_t step = size < STAGE_BYTES ? size : STAGE_BYTES;
    void *stage = device_stage(engine->devices, step);
    bool good = stage != NULL;

    for (uint64_t done = 0; done < size && good; done += step) {
        if (step > size - done)
            step = size - done;
        good = out ? device_copy(engine->devices, stage, at + done, step, false) &&
                         engine_send(fd, stage, step, more || done + step < size)
                   : engine_receive(fd, stage, step) &&
                         device_copy(engine->devices, at + done, stage, step, true);
    }
    if (stage != NULL)
        device_unstage(engine->devices, stage);
    return good;
}

bool engine_move(struct engine *engine, int fd, const struct engine_range *own, uint32_t count,
                 bool out)
{
    bool good = true;

    for (uint32_t i = 0; i < count && good; i++) {
        void *at = (void *)(uintptr_t)own[i].at;
        bool more = i + 1 < count;

        if (own[i].size > 0 && device_has(engine->devices, at))
            good = move_staged(engine, fd, at, own[i].size, out, more);
        else
            good =
                out ? engine_send(fd, at, own[i].size, more) : engine_receive(fd, at, own[i].size);
    }
    return good;
}

bool engine_has_device(struct engine *engine, const struct engine_range *ranges, uint32_t count)
{
    device_look(engine->devices);
    for (uint32_t i = 0; i < count; i++) {
        if (ranges[i].size > 0 &&
            device_has(engine->devices, (const void *)(uintptr_t)ranges[i].at))
            return true;
    }
    return false;
}

/* ---- near ----------------------------------------------------------------------------------- */

void engine_near_tell(const struct engine *engine, struct engine_near *near)
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(near, 0, sizeof(*near));
    near->pid = (uint64_t)getpid();
    near->nonce_at = (uint64_t)(uintptr_t)engine->nonce;
    memcpy(near->nonce, engine->nonce, sizeof(near->nonce));
    if (file < 0)
        return;
    if (read(file, near->host, sizeof(near->host)) < 0)
        memset(near->host, 0, sizeof(near->host));
    close(file);
}

bool engine_near_can(const struct engine *engine, const struct engine_near *other)
{
    struct engine_near own;
    uint64_t seen[2] = {0, 0};
    struct iovec to = {.iov_base = seen, .iov_len = sizeof(seen)};
    struct iovec from = {.iov_base = (void *)(uintptr_t)other->nonce_at, .iov_len = sizeof(seen)};

    engine_near_tell(engine, &own);
    return own.host[0] != 0 && memcmp(own.host, other->host, sizeof(own.host)) == 0 &&
           other->pid > 0 && other->pid <= INT_MAX &&
           process_vm_readv((pid_t)other->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(seen) &&
           memcmp(seen, other->nonce, sizeof(seen)) == 0;
}

/* The next pieces from *index and *offset on, as many as one call of the kernel takes.  Their
 * bytes. */
static size_t gather(const struct engine_range *own, const struct engine_range *others,
                     uint32_t count, uint32_t *index, uint64_t *offset, struct iovec *to,
                     struct iovec *from, unsigned long *pieces)
{
    size_t bytes = 0;

    *pieces = 0;
    while (*index < count && *pieces < IOV_MAX && bytes < PIECE_MAX) {
        uint64_t left = own[*index].size - *offset;
        size_t size = left < PIECE_MAX - bytes ? left : PIECE_MAX - bytes;

        if (size > 0) {
            to[*pieces].iov_base = (void *)(uintptr_t)(own[*index].at + *offset);
            from[*pieces].iov_base = (void *)(uintptr_t)(others[*index].at + *offset);
            to[*pieces].iov_len = from[*pieces].iov_len = size;
            (*pieces)++;
        }
        bytes += size;
        *offset += size;
        if (*offset == own[*index].size) {
            (*index)++;
            *offset = 0;
        }
    }
    return bytes;
}

bool engine_near_move(pid_t pid, bool out, const struct engine_range *own,
                      const struct engine_range *others, uint32_t count)
{
    struct iovec mine[IOV_MAX];
    struct iovec theirs[IOV_MAX];
    uint64_t offset = 0;
    uint32_t index = 0;

    while (index < count) {
        unsigned long pieces;
        size_t bytes = gather(own, others, count, &index, &offset, mine, theirs, &pieces);
        ssize_t moved = 0;

        if (bytes > 0)
            moved = out ? process_vm_writev(pid, mine, pieces, theirs, pieces, 0)
                        : process_vm_readv(pid, mine, pieces, theirs, pieces, 0);
        if (moved != (ssize_t)bytes)
            return false;
    }
    return true;
}
