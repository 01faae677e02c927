/* The process: clock, randomness, the host's name, the log. */
#include "env/linux.h"
#include "env/linux/body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* The boot id: two processes with the same one share a kernel, so they can share memory. */
static void read_host(char *to, size_t size)
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, to, size - 1);

    if (file >= 0)
        close(file);
    if (got > 0) {
        to[got] = 0;
        to[strcspn(to, "\n")] = 0;
        return;
    }
    if (gethostname(to, size) != 0)
        snprintf(to, size, "unknown");
    to[size - 1] = 0;
}

struct env *env_linux_create(void)
{
    struct env *env = calloc(1, sizeof *env);

    if (env == NULL)
        return NULL;
    env->devices = device_open();
    if (env->devices == NULL) {
        free(env);
        return NULL;
    }
    thread_watch_forks();
    pthread_mutex_init(&env->mutex, NULL);
    read_host(env->host, sizeof env->host);
    return env;
}

void env_linux_destroy(struct env *env)
{
    for (size_t i = 0; i < env->locked_dir_count; i++)
        descriptors_close(env->locked_dirs[i]);
    free(env->locked_dirs);
    pthread_mutex_destroy(&env->mutex);
    device_close(env->devices);
    free(env);
}

uint64_t env_now_ns(struct env *env)
{
    struct timespec now;

    (void)env;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t env_wall_ms(struct env *env)
{
    struct timespec now;

    (void)env;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / NS_PER_MS;
}

uint64_t env_random(struct env *env)
{
    uint64_t value = 0;
    size_t have = 0;

    (void)env;
    while (have < sizeof value) {
        ssize_t got = getrandom((uint8_t *)&value + have, sizeof value - have, 0);

        if (got > 0)
            have += (size_t)got;
        else
            ASSERT(errno == EINTR);
    }
    return value;
}

fault_set env_faults(struct env *env)
{
    (void)env;
    return 0;
}

const char *env_host(struct env *env)
{
    return env->host;
}

void env_log_line(struct env *env, const char *line)
{
    struct iovec parts[2] = {
        {.iov_base = (void *)(uintptr_t)line, .iov_len = strlen(line)},
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1},
    };

    (void)env;
    /* A log that can not be written is no reason to stop: there is nobody left to tell. */
    if (writev(STDERR_FILENO, parts, 2) < 0)
        return;
}

/* ---- memory of devices ----------------------------------------------------------------------- */

void env_device_look(struct env *env)
{
    device_look(env->devices);
}

bool env_device_has(struct env *env, const void *at)
{
    return device_has(env->devices, at);
}

void env_device_learn(struct env *env, const void *at, size_t size)
{
    device_learn(env->devices, at, size);
}

void env_device_forget(struct env *env, const void *at)
{
    device_forget(env->devices, at);
}

bool env_device_copy(struct env *env, void *to, const void *from, size_t size, bool to_device)
{
    return device_copy(env->devices, to, from, size, to_device);
}

void *env_device_stage(struct env *env, size_t size)
{
    return device_stage(env->devices, size);
}

void env_device_unstage(struct env *env, void *at)
{
    device_unstage(env->devices, at);
}
