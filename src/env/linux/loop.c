/* The loop: epoll, timers, posted tasks, hooks.
 *
 * One turn, in this order: wait; what the kernel reports goes on the ready list; the ready list
 * runs; timers that are due; posted tasks; hooks.
 */
#include "env/linux.h"
#include "env/linux/body.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_WAIT 256
#define RING_SPIN_NS (100 * NS_PER_US) /* a loop waits so long for rings before it sleeps */
#define RING_GAP_NS_MAX (1 * NS_PER_MS)
#define LOOK_NS (10 * NS_PER_US) /* while rings are busy, epoll is asked this often */

/* ---- sources -------------------------------------------------------------------------------- */

bool loop_watch(struct env_loop *loop, struct source *source, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLET, .data.ptr = source};

    source->loop = loop;
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->descriptor, &event) == 0;
}

void loop_unwatch(struct source *source)
{
    if (list_is_linked(&source->ready_link))
        list_remove(&source->ready_link);
    source->events = 0;
    if (source->descriptor >= 0)
        epoll_ctl(source->loop->epoll, EPOLL_CTL_DEL, source->descriptor, NULL);
}

void loop_make_ready(struct source *source, uint32_t events)
{
    source->events |= events;
    if (!list_is_linked(&source->ready_link))
        list_push(&source->loop->ready, &source->ready_link);
}

static void on_wake(struct source *source)
{
    uint64_t count;

    source->events = 0;
    if (read(source->descriptor, &count, sizeof count) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR);
}

static void wake_up(struct env_loop *loop)
{
    uint64_t one = 1;

    if (write(loop->wake.descriptor, &one, sizeof one) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR);
}

/* ---- life ----------------------------------------------------------------------------------- */

enum snow_status env_loop_create(struct env *env, const char *name, struct env_loop **loop)
{
    struct env_loop *made = calloc(1, sizeof *made);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->env = env;
    snprintf(made->name, sizeof made->name, "%s", name);
    list_init(&made->ready);
    list_init(&made->hooks);
    list_init(&made->conns);
    list_init(&made->listeners);
    list_init(&made->resolves);
    list_init(&made->hot);
    made->may_spin = env_cpu_count() > 1;
    made->epoll = descriptors_keep(epoll_create1(EPOLL_CLOEXEC));
    made->wake.descriptor = descriptors_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    made->wake.on_ready = on_wake;
    if (made->epoll >= 0 && made->wake.descriptor >= 0 && loop_watch(made, &made->wake, EPOLLIN)) {
        *loop = made;
        return SNOW_OK;
    }
    if (made->epoll >= 0)
        descriptors_close(made->epoll);
    if (made->wake.descriptor >= 0)
        descriptors_close(made->wake.descriptor);
    free(made);
    return SNOW_LIMIT;
}

static void *thread_main(void *argument)
{
    env_loop_run(argument);
    return NULL;
}

enum snow_status env_loop_start(struct env_loop *loop)
{
    sigset_t all;
    sigset_t before;

    ASSERT(!loop->started);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&loop->thread, NULL, thread_main, loop);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return SNOW_NO_MEMORY;
    pthread_setname_np(loop->thread, loop->name);
    loop->started = true;
    return SNOW_OK;
}

void env_loop_stop(struct env_loop *loop)
{
    atomic_store(&loop->stop, true);
    wake_up(loop);
}

void env_loop_join(struct env_loop *loop)
{
    if (!loop->started)
        return;
    pthread_join(loop->thread, NULL);
    loop->started = false;
}

void env_loop_destroy(struct env_loop *loop)
{
    ASSERT(!loop->started);
    net_close_all(loop);
    while (loop->timers.first != NULL)
        env_timer_cancel(list_entry(loop->timers.first, struct env_timer, link));
    while (!list_is_empty(&loop->hooks))
        list_pop(&loop->hooks);
    if (loop->epoll >= 0)
        descriptors_close(loop->epoll);
    if (loop->wake.descriptor >= 0)
        descriptors_close(loop->wake.descriptor);
    free(loop);
}

struct env *env_loop_env(struct env_loop *loop)
{
    return loop->env;
}

uint64_t env_loop_turns(const struct env_loop *loop)
{
    return atomic_load_explicit(&loop->turns, memory_order_relaxed);
}

/* ---- turning -------------------------------------------------------------------------------- */

/* epoll_pwait2 where the kernel has it, else milliseconds, rounded up. */
static int wait_events(struct env_loop *loop, struct epoll_event *events, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % NS_PER_S)};

    if (timeout_ns == 0)
        return epoll_wait(loop->epoll, events, EVENTS_PER_WAIT, 0);
    if (timeout_ns > UINT64_C(3600) * NS_PER_S)
        return epoll_wait(loop->epoll, events, EVENTS_PER_WAIT, 3600 * 1000);
    int count = epoll_pwait2(loop->epoll, events, EVENTS_PER_WAIT, &timeout, NULL);

    if (count < 0 && (errno == ENOSYS || errno == EPERM))
        count = epoll_wait(loop->epoll, events, EVENTS_PER_WAIT,
                           (int)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS));
    return count;
}

static bool has_work(struct env_loop *loop)
{
    return !list_is_empty(&loop->ready) || atomic_load(&loop->posted) != NULL ||
           atomic_load_explicit(&loop->stop, memory_order_relaxed);
}

/* What rings and epoll have to tell at once.  While rings are busy the kernel is asked only now and
 * then: a system call costs more than a message. */
static void look(struct env_loop *loop, uint64_t now_ns)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    bool rings = !list_is_empty(&loop->hot);

    if (rings)
        local_look(loop);
    if (rings && now_ns - loop->looked_ns < LOOK_NS)
        return;
    loop->looked_ns = now_ns;
    int count = wait_events(loop, events, 0);

    for (int i = 0; i < count; i++)
        loop_make_ready(events[i].data.ptr, events[i].events);
}

/* Looks until there is work, or it is until_ns. */
static uint64_t spin(struct env_loop *loop, uint64_t now_ns, uint64_t until_ns)
{
    while (now_ns < until_ns && !has_work(loop)) {
        look(loop, now_ns);
        now_ns = env_now_ns(loop->env);
    }
    return now_ns;
}

static void sleep_until(struct env_loop *loop, uint64_t now_ns, uint64_t until_ns)
{
    struct epoll_event events[EVENTS_PER_WAIT];

    atomic_store(&loop->asleep, true); /* before has_work looks at `posted` once more */
    bool wait = until_ns > now_ns && !has_work(loop) &&
                (list_is_empty(&loop->hot) || !local_sleep(loop)) && !has_work(loop);
    int count = wait_events(loop, events, wait ? until_ns - now_ns : 0);

    atomic_store_explicit(&loop->asleep, false, memory_order_relaxed);
    ASSERT(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; i++)
        loop_make_ready(events[i].data.ptr, events[i].events);
}

/* How long rings are waited for awake: while they were answered quickly of late. */
static uint64_t ring_spin_ns(const struct env_loop *loop)
{
    if (!loop->may_spin || list_is_empty(&loop->hot) || loop->ring_gap_ns > RING_SPIN_NS)
        return 0;
    return RING_SPIN_NS;
}

/* Gathers events: at once when there is work already, else spinning, else waiting. */
static void gather(struct env_loop *loop, uint64_t timeout_ns, uint64_t spin_ns)
{
    uint64_t from_ns = env_now_ns(loop->env);
    uint64_t until_ns = timeout_ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + timeout_ns;
    bool had_rings = !list_is_empty(&loop->hot);
    uint64_t now_ns = from_ns;

    if (loop->timers.first != NULL && loop->timers.first->at_ns < until_ns)
        until_ns = loop->timers.first->at_ns;
    if (spin_ns < ring_spin_ns(loop))
        spin_ns = ring_spin_ns(loop);
    if (has_work(loop) || until_ns <= from_ns) {
        look(loop, from_ns);
        return;
    }
    if (spin_ns > 0)
        now_ns = spin(loop, from_ns, spin_ns < until_ns - from_ns ? from_ns + spin_ns : until_ns);
    if (!has_work(loop))
        sleep_until(loop, now_ns, until_ns);
    if (had_rings && !list_is_empty(&loop->ready)) {
        uint64_t gap_ns = env_now_ns(loop->env) - from_ns;

        gap_ns = gap_ns < RING_GAP_NS_MAX ? gap_ns : RING_GAP_NS_MAX;
        loop->ring_gap_ns = (loop->ring_gap_ns * 7 + gap_ns) / 8;
    }
}

static bool is_stopping(struct env_loop *loop)
{
    return atomic_load_explicit(&loop->stop, memory_order_acquire);
}

/* Moves all links of `from` to the front of `to`. */
static void put_back(struct list *to, struct list *from)
{
    struct list_link *link;

    while ((link = list_last(from)) != NULL) {
        list_remove(link);
        list_push_front(to, link);
    }
}

static uint32_t run_ready(struct env_loop *loop)
{
    struct list running;
    struct list_link *link;
    uint32_t ran = 0;

    list_take_all(&running, &loop->ready);
    while (!is_stopping(loop) && (link = list_pop(&running)) != NULL) {
        struct source *source = list_entry(link, struct source, ready_link);

        source->on_ready(source);
        ran++;
    }
    put_back(&loop->ready, &running);
    return ran;
}

static uint32_t run_timers(struct env_loop *loop)
{
    uint64_t order_end = loop->timer_order;
    uint32_t ran = 0;

    if (loop->timers.first == NULL)
        return 0;
    loop->now_ns = env_now_ns(loop->env);
    while (!is_stopping(loop) && loop->timers.first != NULL) {
        struct env_timer *timer = list_entry(loop->timers.first, struct env_timer, link);

        if (timer->link.at_ns > loop->now_ns || timer->link.order >= order_end)
            break;
        env_timer_cancel(timer);
        timer->on_event(timer);
        ran++;
    }
    return ran;
}

static uint32_t run_posted(struct env_loop *loop)
{
    struct env_task *task = NULL;
    struct env_task *newest;
    uint32_t ran = 0;

    if (is_stopping(loop))
        return 0;
    newest = atomic_exchange_explicit(&loop->posted, NULL, memory_order_acquire);
    while (newest != NULL) { /* the oldest first */
        struct env_task *older = newest->next;

        newest->next = task;
        task = newest;
        newest = older;
    }
    while (task != NULL) {
        struct env_task *next = task->next; /* the task may be posted again, or freed */

        task->on_event(task);
        task = next;
        ran++;
    }
    return ran;
}

static void run_hooks(struct env_loop *loop)
{
    struct list running;
    struct list_link *link;

    list_take_all(&running, &loop->hooks);
    while ((link = list_pop(&running)) != NULL) {
        struct env_hook *hook = list_entry(link, struct env_hook, link);

        list_push(&loop->hooks, link);
        hook->on_event(hook);
    }
}

static uint32_t turn(struct env_loop *loop, uint64_t timeout_ns, uint64_t spin_ns)
{
    uint32_t ran = 0;

    gather(loop, timeout_ns, spin_ns);
    atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
    ran += run_ready(loop);
    ran += run_timers(loop);
    ran += run_posted(loop);
    run_hooks(loop);
    return ran;
}

void env_loop_run(struct env_loop *loop)
{
    while (!atomic_exchange(&loop->stop, false))
        turn(loop, UINT64_MAX, 0);
}

uint32_t env_loop_turn(struct env_loop *loop, uint64_t timeout_ns, uint64_t spin_ns)
{
    uint32_t ran = turn(loop, timeout_ns, spin_ns);

    atomic_store(&loop->stop, false);
    return ran;
}

uint64_t env_loop_rest(struct env_loop *loop)
{
    atomic_store(&loop->asleep, true); /* before has_work looks at `posted` */
    if (has_work(loop) || (!list_is_empty(&loop->hot) && local_sleep(loop)))
        return 0;
    return loop->timers.first == NULL ? UINT64_MAX : loop->timers.first->at_ns;
}

/* ---- tasks, hooks, timers ------------------------------------------------------------------- */

void env_loop_post(struct env_loop *loop, struct env_task *task)
{
    struct env_task *before = atomic_load_explicit(&loop->posted, memory_order_relaxed);

    do {
        task->next = before;
    } while (!atomic_compare_exchange_weak(&loop->posted, &before, task));
    /* A loop that is awake looks at `posted` before it sleeps. */
    if (before == NULL && atomic_load(&loop->asleep))
        wake_up(loop);
}

void env_hook_add(struct env_loop *loop, struct env_hook *hook)
{
    list_push(&loop->hooks, &hook->link);
}

void env_hook_remove(struct env_hook *hook)
{
    list_remove(&hook->link);
}

void env_timer_arm(struct env_loop *loop, struct env_timer *timer, uint64_t at_ns)
{
    env_timer_cancel(timer);
    timer->loop = loop;
    /* The past is now: what is due already comes before what is armed for the past
     * again and again. */
    timer->link.at_ns = at_ns > loop->now_ns ? at_ns : loop->now_ns;
    timer->link.order = loop->timer_order++;
    heap_push(&loop->timers, &timer->link);
}

void env_timer_cancel(struct env_timer *timer)
{
    if (timer->loop == NULL)
        return;
    heap_remove(&timer->loop->timers, &timer->link);
    timer->loop = NULL;
}
