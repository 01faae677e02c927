/* Mutex and condition over pthreads, and the count of forks. */
#include "env/thread.h"

#include "env/linux/body.h"

#include <stdlib.h>
#include <time.h>

struct env_mutex {
    pthread_mutex_t mutex;
};

struct env_condition {
    pthread_cond_t condition;
};

struct env_mutex *env_mutex_create(void)
{
    struct env_mutex *mutex = calloc(1, sizeof *mutex);

    if (mutex != NULL)
        pthread_mutex_init(&mutex->mutex, NULL);
    return mutex;
}

void env_mutex_destroy(struct env_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->mutex);
    free(mutex);
}

void env_mutex_lock(struct env_mutex *mutex)
{
    pthread_mutex_lock(&mutex->mutex);
}

void env_mutex_unlock(struct env_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->mutex);
}

struct env_condition *env_condition_create(void)
{
    struct env_condition *condition = calloc(1, sizeof *condition);
    pthread_condattr_t attributes;

    if (condition == NULL)
        return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition->condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return condition;
}

void env_condition_destroy(struct env_condition *condition)
{
    pthread_cond_destroy(&condition->condition);
    free(condition);
}

bool env_condition_wait(struct env_condition *condition, struct env_mutex *mutex,
                        uint64_t timeout_ns)
{
    struct timespec until;

    if (timeout_ns > UINT64_C(1000000) * NS_PER_S)
        return pthread_cond_wait(&condition->condition, &mutex->mutex) == 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nanoseconds = (uint64_t)until.tv_nsec + timeout_ns;

    until.tv_sec += (time_t)(nanoseconds / NS_PER_S);
    until.tv_nsec = (long)(nanoseconds % NS_PER_S);
    return pthread_cond_timedwait(&condition->condition, &mutex->mutex, &until) == 0;
}

void env_condition_wake_all(struct env_condition *condition)
{
    pthread_cond_broadcast(&condition->condition);
}

/* The one state that belongs to the process and to no struct: a fork copies every struct alike, so
 * only this can tell a child from its parent. */
static _Atomic uint64_t fork_count;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&fork_count, 1);
    descriptors_close_all();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

void thread_watch_forks(void)
{
    pthread_once(&fork_once, watch_forks);
}

uint64_t env_fork_count(void)
{
    return atomic_load(&fork_count);
}
