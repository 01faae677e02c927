/* Copies: by the loop, or by the threads that wait for them.
 *
 * Problem.  A loop that copied for all callers would be the one core that works.
 * Idea.     A copy for a worker goes to its list; its thread takes one after the other, in parts,
 *           so that a cancel waits for one at most.  Those that are done go to a second list,
 *           which the loop empties in one task.
 * Invariants.
 *   C1  A copy is in `waiting`, is `running`, is in `done`, or is its owner's: it changes under the
 *       mutex.
 *   C2  After a cancel no byte is written any more: whoever cancels a running copy waits until its
 *       part has ended.
 * Threads.  The worker's and the loop's.
 */
#include "env/linux.h"
#include "env/linux/body.h"

#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 20)

struct env_worker {
    struct env_loop *loop;
    void (*on_work)(void *owner);
    void *owner;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t parted; /* a part of `running` has ended while `cancelled` */
    struct list waiting;   /* struct env_copy */
    struct list done;
    struct env_copy *running;
    bool cancelled; /* running is to stop */
    bool told;      /* on_work was called */
    bool posted;    /* task is on its way */
    struct env_task task;
};

/* A reader of a segment may meet the writer that the range was given to next: its look at the slot
 * afterwards makes that a retry (P3).  The thread sanitizer knows no such look, so it does not see
 * these copies. */
static void copy_bytes(void *to, const void *from, size_t size)
{
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
    memcpy(to, from, size);
#endif
}

/* Tells one copy after the other: each may cancel others. */
static void on_task(struct env_task *task)
{
    struct env_worker *worker = list_entry(task, struct env_worker, task);
    struct list_link *link;

    pthread_mutex_lock(&worker->mutex);
    worker->posted = false;
    while ((link = list_pop(&worker->done)) != NULL) {
        struct env_copy *copy = list_entry(link, struct env_copy, link);
        bool last = list_is_empty(&worker->done);

        copy->private_state = NULL;
        pthread_mutex_unlock(&worker->mutex);
        copy->on_event(copy); /* the last one may end the worker */
        if (last)
            return;
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
}

struct env_worker *env_worker_create(struct env_loop *loop, void (*on_work)(void *owner),
                                     void *owner)
{
    struct env_worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL)
        return NULL;
    worker->loop = loop;
    worker->on_work = on_work;
    worker->owner = owner;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->parted, NULL);
    list_init(&worker->waiting);
    list_init(&worker->done);
    worker->task.on_event = on_task;
    return worker;
}

void env_worker_destroy(struct env_worker *worker)
{
    ASSERT(list_is_empty(&worker->waiting) && list_is_empty(&worker->done) &&
           worker->running == NULL);
    pthread_cond_destroy(&worker->parted);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
}

bool env_worker_has_work(struct env_worker *worker)
{
    bool has;

    pthread_mutex_lock(&worker->mutex);
    has = !list_is_empty(&worker->waiting);
    pthread_mutex_unlock(&worker->mutex);
    return has;
}

/* Copies one, under the mutex between its parts.  True: whole. */
static bool run_one(struct env_worker *worker, const struct env_copy *copy)
{
    uint8_t *to = copy->to;
    const uint8_t *from = copy->from;
    size_t size = copy->size;

    while (size > 0 && !worker->cancelled) {
        size_t part = size < PART_BYTES ? size : PART_BYTES;

        pthread_mutex_unlock(&worker->mutex);
        copy_bytes(to, from, part);
        pthread_mutex_lock(&worker->mutex);
        to += part;
        from += part;
        size -= part;
    }
    return !worker->cancelled;
}

void env_worker_run(struct env_worker *worker)
{
    struct list_link *link;
    bool post;

    pthread_mutex_lock(&worker->mutex);
    worker->told = false;
    while ((link = list_pop(&worker->waiting)) != NULL) {
        struct env_copy *copy = list_entry(link, struct env_copy, link);

        worker->running = copy;
        worker->cancelled = false;
        if (run_one(worker, copy))
            list_push(&worker->done, link);
        worker->running = NULL;
        pthread_cond_broadcast(&worker->parted);
    }
    post = !worker->posted && !list_is_empty(&worker->done);
    worker->posted = worker->posted || post;
    pthread_mutex_unlock(&worker->mutex);
    if (post)
        env_loop_post(worker->loop, &worker->task);
}

static void give_to(struct env_worker *worker, struct env_copy *copy)
{
    bool tell;

    copy->private_state = worker;
    pthread_mutex_lock(&worker->mutex);
    list_push(&worker->waiting, &copy->link);
    tell = !worker->told;
    worker->told = true;
    pthread_mutex_unlock(&worker->mutex);
    if (tell)
        worker->on_work(worker->owner);
}

bool env_copy(struct env_loop *loop, struct env_copy *copy)
{
    (void)loop;
    copy->private_state = NULL;
    if (copy->worker != NULL && copy->size > 0) {
        give_to(copy->worker, copy);
        return false;
    }
    if (copy->size > 0)
        copy_bytes(copy->to, copy->from, copy->size);
    return true;
}

void env_copy_cancel(struct env_copy *copy)
{
    struct env_worker *worker = copy->private_state;

    if (worker == NULL)
        return;
    pthread_mutex_lock(&worker->mutex);
    if (worker->running == copy) {
        worker->cancelled = true;
        while (worker->running == copy)
            pthread_cond_wait(&worker->parted, &worker->mutex);
    }
    /* It may have come to its end all the same. */
    if (list_is_linked(&copy->link))
        list_remove(&copy->link);
    pthread_mutex_unlock(&worker->mutex);
    copy->private_state = NULL;
}
