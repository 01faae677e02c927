/* What an engine does for others: a thread a connection. */
#include "engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct engine_served {
    struct engine *engine;
    struct engine_served *next;
    int fd;
    pthread_t thread;
    bool ended;
    bool near;                         /* another process may be at these ranges by itself */
    const struct engine_range *inside; /* that it works on now */
    uint32_t inside_count;
    struct engine_range ranges[ENGINE_RANGES_MAX];
};

/* ---- regions -------------------------------------------------------------------------------- */

static bool overlap(const struct engine_range *a, uint64_t at, uint64_t size)
{
    return a->at < at + size && at < a->at + a->size;
}

int engine_register(struct engine *engine, uint64_t at, uint64_t size)
{
    struct engine_range *grown;
    int result = -1;

    if (at == 0 || size == 0 || at + size < at)
        return -1;
    pthread_mutex_lock(&engine->mutex);
    for (size_t i = 0; i < engine->region_count; i++) {
        if (overlap(&engine->regions[i], at, size))
            result = -7;
    }
    grown =
        result == -7 ? NULL : realloc(engine->regions, (engine->region_count + 1) * sizeof(*grown));
    if (grown != NULL) {
        grown[engine->region_count++] = (struct engine_range){.at = at, .size = size};
        engine->regions = grown;
        result = 0;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (result == 0)
        device_learn(engine->devices, (const void *)(uintptr_t)at, size);
    return result;
}

/* With the mutex. */
static bool is_in_use(const struct engine *engine, const struct engine_range *region)
{
    for (const struct engine_served *served = engine->served; served != NULL;
         served = served->next) {
        for (uint32_t i = 0; i < served->inside_count; i++) {
            if (overlap(region, served->inside[i].at, served->inside[i].size))
                return true;
        }
    }
    return false;
}

int engine_unregister(struct engine *engine, uint64_t at)
{
    int result = -1;

    pthread_mutex_lock(&engine->mutex);
    for (size_t i = 0; i < engine->region_count && result != 0; i++) {
        struct engine_range region = engine->regions[i];

        if (region.at != at)
            continue;
        engine->regions[i] = engine->regions[--engine->region_count]; /* nobody enters any more */
        while (is_in_use(engine, &region))
            pthread_cond_wait(&engine->changed, &engine->mutex);
        result = 0;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (result == 0)
        device_forget(engine->devices, (const void *)(uintptr_t)at);
    return result;
}

/* With the mutex. */
static bool is_registered(const struct engine *engine, const struct engine_range *range)
{
    for (size_t i = 0; i < engine->region_count; i++) {
        const struct engine_range *region = &engine->regions[i];

        if (range->at >= region->at && range->size <= region->size &&
            range->at - region->at <= region->size - range->size)
            return true;
    }
    return range->size == 0 || (engine->any_memory && range->at != 0);
}

/* T1: all of them, or none. */
static bool enter(struct engine_served *served, uint32_t count, bool near)
{
    struct engine *engine = served->engine;
    bool good = true;

    pthread_mutex_lock(&engine->mutex);
    for (uint32_t i = 0; i < count && good; i++)
        good = is_registered(engine, &served->ranges[i]);
    if (good) {
        served->inside = served->ranges;
        served->inside_count = count;
        served->near = near;
    }
    pthread_mutex_unlock(&engine->mutex);
    return good;
}

static void leave(struct engine_served *served)
{
    pthread_mutex_lock(&served->engine->mutex);
    served->inside_count = 0;
    served->near = false;
    pthread_cond_broadcast(&served->engine->changed);
    pthread_mutex_unlock(&served->engine->mutex);
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool answer(struct engine_served *served, int16_t status, uint64_t bytes, bool more)
{
    struct engine_head head = {.magic = ENGINE_MAGIC, .status = status, .bytes = bytes};

    return engine_send(served->fd, &head, sizeof(head), more);
}

/* The ranges that follow a head, which have to be as long as it says. */
static bool take_ranges(struct engine_served *served, const struct engine_head *head, bool *fit)
{
    uint64_t bytes = 0;

    if (head->count > ENGINE_RANGES_MAX ||
        !engine_receive(served->fd, served->ranges, head->count * sizeof(served->ranges[0])))
        return false;
    for (uint32_t i = 0; i < head->count; i++)
        bytes += served->ranges[i].size;
    *fit = bytes == head->bytes;
    return true;
}

/* False: the connection ends. */
static bool serve_transfer(struct engine_served *served, const struct engine_head *head)
{
    bool reads = head->kind == ENGINE_READ;
    bool good = true;

    if (!take_ranges(served, head, &good))
        return false;
    if (!good || !enter(served, head->count, false)) {
        (void)answer(served, ENGINE_FAILED, 0, false);
        return false; /* what a write sends behind it is not waited for */
    }
    device_look(served->engine->devices);
    if (reads)
        good = answer(served, 0, head->bytes, head->bytes > 0);
    good = good && engine_move(served->engine, served->fd, served->ranges, head->count, reads);
    leave(served);
    return good && (reads || answer(served, 0, head->bytes, false));
}

static bool take_head(struct engine_served *served, struct engine_head *head);

/* T1 holds as long as the other may be at it: until it says so, or its connection has ended; a
 * process that is stopped keeps it. */
static bool serve_enter(struct engine_served *served, const struct engine_head *head)
{
    struct engine_head next = {.kind = 0};
    bool good;

    if (!take_ranges(served, head, &good))
        return false;
    if (engine_has_device(served->engine, served->ranges, head->count))
        return answer(served, ENGINE_BY_SOCKET, 0, false);
    if (!good || !enter(served, head->count, true))
        return answer(served, ENGINE_FAILED, 0, false);
    good = answer(served, 0, 0, false) && take_head(served, &next) && next.kind == ENGINE_LEAVE;
    leave(served);
    return good;
}

static bool serve_near(struct engine_served *served)
{
    struct engine_near near;

    engine_near_tell(served->engine, &near);
    return answer(served, 0, sizeof(near), true) &&
           engine_send(served->fd, &near, sizeof(near), false);
}

static bool serve_notice(struct engine_served *served, const struct engine_head *head)
{
    struct engine *engine = served->engine;
    struct engine_notice *notice;
    bool taken;

    if (head->bytes > ENGINE_NOTICE_MAX || head->count > head->bytes)
        return false;
    notice = malloc(sizeof(*notice) + head->bytes);
    if (notice == NULL || !engine_receive(served->fd, notice->bytes, head->bytes)) {
        free(notice);
        return false;
    }
    notice->next = NULL;
    notice->name_size = head->count;
    notice->size = (uint32_t)head->bytes;
    pthread_mutex_lock(&engine->mutex);
    taken = engine->notice_count < ENGINE_NOTICES_MAX;
    if (taken) {
        *engine->notices_end = notice;
        engine->notices_end = &notice->next;
        engine->notice_count++;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (!taken)
        free(notice);
    return answer(served, taken ? 0 : -1, 0, false);
}

static bool serve_probe(struct engine_served *served)
{
    struct engine *engine = served->engine;
    uint64_t first;

    pthread_mutex_lock(&engine->mutex);
    first = engine->region_count == 0 ? 0 : engine->regions[0].at;
    pthread_mutex_unlock(&engine->mutex);
    return answer(served, 0, first, false);
}

/* A peer may say nothing for hours between two requests. */
static bool take_head(struct engine_served *served, struct engine_head *head)
{
    char first;

    while (recv(served->fd, &first, 1, MSG_PEEK) < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return false;
    }
    return engine_receive(served->fd, head, sizeof(*head)) && head->magic == ENGINE_MAGIC;
}

static bool serve_one(struct engine_served *served)
{
    struct engine_head head;

    if (!take_head(served, &head))
        return false;
    switch (head.kind) {
    case ENGINE_WRITE:
    case ENGINE_READ:
        return serve_transfer(served, &head);
    case ENGINE_NOTIFY:
        return serve_notice(served, &head);
    case ENGINE_PROBE:
        return serve_probe(served);
    case ENGINE_NEAR:
        return serve_near(served);
    case ENGINE_ENTER:
        return serve_enter(served, &head);
    default:
        return false;
    }
}

static bool is_closing(struct engine *engine)
{
    bool closing;

    pthread_mutex_lock(&engine->mutex);
    closing = engine->closing;
    pthread_mutex_unlock(&engine->mutex);
    return closing;
}

static void *serve(void *owner)
{
    struct engine_served *served = owner;

    while (serve_one(served) && !is_closing(served->engine))
        ;
    pthread_mutex_lock(&served->engine->mutex);
    shutdown(served->fd, SHUT_RDWR);
    served->ended = true;
    pthread_mutex_unlock(&served->engine->mutex);
    return NULL;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* Those that have ended, or all: joined and freed. */
static void reap(struct engine *engine, bool all)
{
    struct engine_served **link = &engine->served;

    pthread_mutex_lock(&engine->mutex);
    while (*link != NULL) {
        struct engine_served *served = *link;

        if (!served->ended && !all) {
            link = &served->next;
            continue;
        }
        *link = served->next;
        engine->served_count--;
        if (!served->near) /* that one ends when the other has left */
            shutdown(served->fd, SHUT_RDWR);
        pthread_mutex_unlock(&engine->mutex);
        pthread_join(served->thread, NULL);
        close(served->fd);
        free(served);
        pthread_mutex_lock(&engine->mutex);
        link = &engine->served;
    }
    pthread_mutex_unlock(&engine->mutex);
}

static void take(struct engine *engine, int fd)
{
    struct timeval silence = {.tv_sec = engine->timeout_ms / 1000};
    struct engine_served *served = calloc(1, sizeof(*served));
    int one = 1;

    if (served == NULL || engine->served_count >= ENGINE_SERVED_MAX) {
        free(served);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
    served->engine = engine;
    served->fd = fd;
    pthread_mutex_lock(&engine->mutex);
    served->next = engine->served;
    engine->served = served;
    engine->served_count++;
    if (pthread_create(&served->thread, NULL, serve, served) != 0) {
        engine->served = served->next;
        engine->served_count--;
        close(fd);
        free(served);
    }
    pthread_mutex_unlock(&engine->mutex);
}

static void *accept_all(void *owner)
{
    struct engine *engine = owner;

    for (;;) {
        int fd = accept4(engine->listener, NULL, NULL, SOCK_CLOEXEC);

        reap(engine, false);
        if (fd >= 0)
            take(engine, fd);
        else if (errno == EINVAL || errno == EBADF)
            return NULL; /* shut down */
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            usleep(10000);
    }
}

/* ---- listening ------------------------------------------------------------------------------ */

static int bind_at(const char *address, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    int fd;

    if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1)
        return -1;
    fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        bind(fd, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
             is_v4 ? sizeof(v4) : sizeof(v6)) == 0 &&
        listen(fd, 128) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int engine_listen(struct engine *engine, const char *address, uint16_t port)
{
    sigset_t all, before;
    int failed;

    engine->listener = bind_at(address, port);
    if (engine->listener < 0)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* for all threads that come from it */
    failed = pthread_create(&engine->acceptor, NULL, accept_all, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        close(engine->listener);
        engine->listener = -1;
        return -1;
    }
    engine->port = port;
    return 0;
}

void engine_serve_stop(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->closing = true;
    pthread_mutex_unlock(&engine->mutex);
    if (engine->listener >= 0) {
        shutdown(engine->listener, SHUT_RDWR);
        pthread_join(engine->acceptor, NULL);
        close(engine->listener);
        engine->listener = -1;
    }
    reap(engine, true);
}
