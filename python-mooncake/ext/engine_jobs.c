/* Transfers that nobody waits for: a few threads take them in turn. */
#include "engine.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_ENDED };

struct engine_job {
    struct engine_job *next;
    uint64_t id;
    enum job_state state;
    int result;
    enum engine_kind kind;
    struct engine_range *own;
    struct engine_range *others;
    size_t count;
    char target[280];
};

static void job_free(struct engine_job *job)
{
    free(job->own);
    free(job->others);
    free(job);
}

/* With the mutex: the oldest that waits. */
static struct engine_job *next_waiting(const struct engine *engine)
{
    struct engine_job *oldest = NULL;

    for (struct engine_job *job = engine->jobs; job != NULL; job = job->next) {
        if (job->state == JOB_WAITING)
            oldest = job;
    }
    return oldest;
}

static void *work(void *owner)
{
    struct engine *engine = owner;

    pthread_mutex_lock(&engine->mutex);
    while (!engine->stopping) {
        struct engine_job *job = next_waiting(engine);

        if (job == NULL) {
            pthread_cond_wait(&engine->changed, &engine->mutex);
            continue;
        }
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&engine->mutex);
        job->result =
            engine_transfer(engine, job->kind, job->target, job->own, job->others, job->count);
        pthread_mutex_lock(&engine->mutex);
        job->state = JOB_ENDED;
        pthread_cond_broadcast(&engine->changed);
    }
    pthread_mutex_unlock(&engine->mutex);
    return NULL;
}

/* With the mutex.  False: there is no thread that could do it. */
static bool start_worker(struct engine *engine)
{
    sigset_t all, before;

    if (engine->worker_count == ENGINE_WORKERS)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&engine->workers[engine->worker_count], NULL, work, engine) == 0)
        engine->worker_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return engine->worker_count > 0;
}

uint64_t engine_submit(struct engine *engine, enum engine_kind kind, const char *target,
                       struct engine_range *own, struct engine_range *others, size_t count)
{
    struct engine_job *job = calloc(1, sizeof(*job));
    uint64_t id = 0;

    if (job == NULL || strlen(target) >= sizeof(job->target)) {
        free(job);
        free(own);
        free(others);
        return 0;
    }
    job->kind = kind;
    job->own = own;
    job->others = others;
    job->count = count;
    strcpy(job->target, target);
    pthread_mutex_lock(&engine->mutex);
    if (engine->job_count < ENGINE_JOBS_MAX && start_worker(engine)) {
        id = job->id = ++engine->next_job;
        job->next = engine->jobs;
        engine->jobs = job;
        engine->job_count++;
        pthread_cond_broadcast(&engine->changed);
    }
    pthread_mutex_unlock(&engine->mutex);
    if (id == 0)
        job_free(job);
    return id;
}

/* With the mutex. */
static struct engine_job **find(struct engine *engine, uint64_t id)
{
    struct engine_job **link = &engine->jobs;

    while (*link != NULL && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

int engine_check(struct engine *engine, uint64_t id, bool wait)
{
    struct engine_job **link;
    struct engine_job *ended = NULL;
    int result = -1;

    pthread_mutex_lock(&engine->mutex);
    while (*(link = find(engine, id)) != NULL && (*link)->state != JOB_ENDED && wait)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    if (*link != NULL && (*link)->state != JOB_ENDED) {
        result = 0;
    } else if (*link != NULL) {
        ended = *link;
        result = ended->result == 0 ? 1 : ended->result;
        *link = ended->next;
        engine->job_count--;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (ended != NULL)
        job_free(ended);
    return result;
}

void engine_jobs_stop(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->stopping = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    for (uint32_t i = 0; i < engine->worker_count; i++)
        pthread_join(engine->workers[i], NULL);
    while (engine->jobs != NULL) {
        struct engine_job *job = engine->jobs;

        engine->jobs = job->next;
        job_free(job);
    }
}
