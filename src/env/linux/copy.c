/* Copies: by the loop, or by the threads that wait for them, and by others that help these.
 *
 * Problem.  A loop that copied for all callers would be the one core that works; and one core moves
 *           less than the memory does.
 * Idea.     A copy for a worker goes to its list; its thread takes one part after the other.  When
 *           it is much, the threads of a crew take parts as well.  Copies that are done go to a
 *           second list, which the loop empties in one task.
 * Invariants.
 *   C1  A copy is in `waiting`, has runners, is in `done`, or is its owner's: it changes under the
 *       mutex.  It is in `waiting` as long as there are parts that nobody has taken.
 *   C2  After a cancel no byte is written any more: whoever cancels waits until the parts that are
 *       being copied have ended.
 *   C3  A crew sees a worker only between the beginning and the end of its run.
 * Threads.  The worker's, the crew's and the loop's.
 */
#include "base/hash.h"
#include "env/linux.h"
#include "env/linux/body.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 20)
/* Waking a thread takes as long as copying a quarter of it: below, nobody is woken.  One helper for
 * each so many bytes. */
#define HELP_BYTES ((size_t)4 << 20)
#define HELP_PART_BYTES ENV_SUM_BYTES /* so that all end at about the same time */
#define SUM_STEP ((size_t)128 << 10)  /* what the nearest cache holds */

_Static_assert(PART_BYTES % ENV_SUM_BYTES == 0 && ENV_SUM_BYTES % SUM_STEP == 0, "sums are whole");

struct env_worker {
    struct env_loop *loop;
    struct env_crew *crew; /* NULL: nobody helps */
    void (*on_work)(void *owner);
    void *owner;
    struct list_link of_crew; /* in crew->workers; the crew's mutex */
    pthread_mutex_t mutex;    /* guards what follows */
    pthread_cond_t parted;    /* the last part of a cancelled copy has ended */
    struct list waiting;      /* struct env_copy */
    struct list done;
    size_t waiting_bytes; /* that nobody has taken */
    size_t part_bytes;
    bool told;   /* on_work was called */
    bool posted; /* task is on its way */
    struct env_task task;
};

struct env_crew {
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wanted;
    struct list workers; /* that want help */
    uint32_t count;      /* threads that there may be */
    uint32_t started;
    bool stopping;
    pthread_t threads[ENV_CREW_MAX];
};

static void crew_call(struct env_crew *crew, struct env_worker *worker, size_t helpers);
static void crew_dismiss(struct env_crew *crew, struct env_worker *worker);

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

/* A part of it, from a multiple of ENV_SUM_BYTES on.  False: a driver refused. */
static bool copy_part(const struct env_copy *copy, size_t from, size_t size)
{
    const uint8_t *sum_of = copy->sum_of;
    uint32_t crc = 0;

    if (copy->device != NULL &&
        !env_device_copy(copy->device, (uint8_t *)copy->to + from,
                         (const uint8_t *)copy->from + from, size, copy->to_device))
        return false;
    if (copy->sums == NULL) {
        if (copy->device == NULL)
            copy_bytes((uint8_t *)copy->to + from, (const uint8_t *)copy->from + from, size);
        return true;
    }
    for (size_t end = from + size; from < end; from += size) {
        size = SUM_STEP - from % SUM_STEP;
        if (size > end - from)
            size = end - from;
        if (copy->device == NULL)
            copy_bytes((uint8_t *)copy->to + from, (const uint8_t *)copy->from + from, size);
        if (from % ENV_SUM_BYTES == 0)
            crc = 0;
        crc = crc32c(crc, sum_of + from, size);
        copy->sums[from / ENV_SUM_BYTES] = crc;
    }
    return true;
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

struct env_worker *env_worker_create(struct env_loop *loop, struct env_crew *crew,
                                     void (*on_work)(void *owner), void *owner)
{
    struct env_worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL)
        return NULL;
    worker->loop = loop;
    worker->crew = crew;
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
           !list_is_linked(&worker->of_crew));
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

/* The next part that nobody has taken, by the thread that will copy it.  With the mutex. */
static struct env_copy *take_part(struct env_worker *worker, size_t *from, size_t *size)
{
    struct list_link *link = list_first(&worker->waiting);
    struct env_copy *copy;

    if (link == NULL)
        return NULL;
    copy = list_entry(link, struct env_copy, link);
    *from = copy->taken;
    *size = copy->size - copy->taken;
    if (*size > worker->part_bytes)
        *size = worker->part_bytes;
    copy->taken += *size;
    copy->runners++;
    worker->waiting_bytes -= *size;
    if (copy->taken == copy->size)
        list_remove(link);
    return copy;
}

static void end_part(struct env_worker *worker, struct env_copy *copy)
{
    copy->runners--;
    if (copy->cancelled)
        pthread_cond_broadcast(&worker->parted);
    else if (copy->runners == 0 && copy->taken == copy->size)
        list_push(&worker->done, &copy->link);
}

/* Part after part until none is left to take, and the loop is told of what is done. */
static void run_parts(struct env_worker *worker)
{
    struct env_copy *copy;
    size_t from;
    size_t size;
    bool post;

    pthread_mutex_lock(&worker->mutex);
    while ((copy = take_part(worker, &from, &size)) != NULL) {
        pthread_mutex_unlock(&worker->mutex);
        bool copied = copy_part(copy, from, size);

        pthread_mutex_lock(&worker->mutex);
        copy->failed = copy->failed || !copied;
        end_part(worker, copy);
    }
    post = !worker->posted && !list_is_empty(&worker->done);
    worker->posted = worker->posted || post;
    pthread_mutex_unlock(&worker->mutex);
    if (post)
        env_loop_post(worker->loop, &worker->task);
}

void env_worker_run(struct env_worker *worker)
{
    size_t bytes;

    pthread_mutex_lock(&worker->mutex);
    worker->told = false;
    bytes = worker->waiting_bytes;
    worker->part_bytes = PART_BYTES;
    if (worker->crew != NULL && bytes >= HELP_BYTES)
        worker->part_bytes = HELP_PART_BYTES;
    pthread_mutex_unlock(&worker->mutex);
    if (worker->crew != NULL && bytes >= HELP_BYTES)
        crew_call(worker->crew, worker, bytes / HELP_BYTES);
    run_parts(worker);
    if (worker->crew != NULL)
        crew_dismiss(worker->crew, worker);
}

static void give_to(struct env_worker *worker, struct env_copy *copy)
{
    bool tell;

    copy->private_state = worker;
    copy->taken = 0;
    copy->runners = 0;
    copy->cancelled = false;
    pthread_mutex_lock(&worker->mutex);
    list_push(&worker->waiting, &copy->link);
    worker->waiting_bytes += copy->size;
    tell = !worker->told;
    worker->told = true;
    pthread_mutex_unlock(&worker->mutex);
    if (tell)
        worker->on_work(worker->owner);
}

/* ---- helpers -------------------------------------------------------------------------------- */

static void *helper_main(void *argument)
{
    struct env_crew *crew = argument;
    struct list_link *link;

    pthread_mutex_lock(&crew->mutex);
    while (!crew->stopping) {
        link = list_first(&crew->workers);
        if (link == NULL) {
            pthread_cond_wait(&crew->wanted, &crew->mutex);
            continue;
        }
        struct env_worker *worker = list_entry(link, struct env_worker, of_crew);

        pthread_mutex_unlock(&crew->mutex);
        run_parts(worker);
        pthread_mutex_lock(&crew->mutex);
        if (list_is_linked(&worker->of_crew)) /* there is nothing left to take */
            list_remove(&worker->of_crew);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

/* All signals are the program's own. */
static bool start_helper(struct env_crew *crew)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&crew->threads[crew->started], NULL, helper_main, crew) == 0;

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(crew->threads[crew->started++], "snow-copy");
    return started;
}

static void crew_call(struct env_crew *crew, struct env_worker *worker, size_t helpers)
{
    pthread_mutex_lock(&crew->mutex);
    if (helpers > crew->count)
        helpers = crew->count;
    while (crew->started < helpers && start_helper(crew))
        ;
    list_push(&crew->workers, &worker->of_crew);
    for (size_t i = 0; i < helpers && i < crew->started; i++)
        pthread_cond_signal(&crew->wanted);
    pthread_mutex_unlock(&crew->mutex);
}

static void crew_dismiss(struct env_crew *crew, struct env_worker *worker)
{
    pthread_mutex_lock(&crew->mutex);
    if (list_is_linked(&worker->of_crew))
        list_remove(&worker->of_crew);
    pthread_mutex_unlock(&crew->mutex);
}

struct env_crew *env_crew_create(uint32_t count)
{
    struct env_crew *crew = calloc(1, sizeof *crew);

    if (crew == NULL)
        return NULL;
    crew->count = count < ENV_CREW_MAX ? count : ENV_CREW_MAX;
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->wanted, NULL);
    list_init(&crew->workers);
    return crew;
}

void env_crew_destroy(struct env_crew *crew)
{
    pthread_mutex_lock(&crew->mutex);
    crew->stopping = true;
    pthread_cond_broadcast(&crew->wanted);
    pthread_mutex_unlock(&crew->mutex);
    for (uint32_t i = 0; i < crew->started; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->wanted);
    pthread_mutex_destroy(&crew->mutex);
    free(crew);
}

/* ---- the door ------------------------------------------------------------------------------- */

bool env_copy(struct env_loop *loop, struct env_copy *copy)
{
    (void)loop;
    copy->private_state = NULL;
    copy->failed = false;
    if (copy->worker != NULL && copy->size > 0) {
        give_to(copy->worker, copy);
        return false;
    }
    if (copy->size > 0)
        copy->failed = !copy_part(copy, 0, copy->size);
    return true;
}

void env_copy_cancel(struct env_copy *copy)
{
    struct env_worker *worker = copy->private_state;

    if (worker == NULL)
        return;
    pthread_mutex_lock(&worker->mutex);
    copy->cancelled = true;
    if (copy->taken < copy->size)
        worker->waiting_bytes -= copy->size - copy->taken;
    /* It waits, or it has come to its end all the same. */
    if (list_is_linked(&copy->link))
        list_remove(&copy->link);
    while (copy->runners > 0)
        pthread_cond_wait(&worker->parted, &worker->mutex);
    pthread_mutex_unlock(&worker->mutex);
    copy->private_state = NULL;
}
