/* Loops on virtual time.
 *
 * Idea.     An event of a loop that is due goes on its ready list.  The loop turns at once when it
 *           is idle, else when it stops being busy: a turn runs what is ready, then the hooks, and
 *           costs some time.  A paused, stalled or slow loop only turns later, and finds more.
 * Invariants.
 *   O1  `wake` waits only when something is ready and the loop may turn.
 *   O2  Nothing of a dead process is in the queue or on a ready list.
 */
#include "sim/env_body.h"

#include <stdio.h>
#include <stdlib.h>

#define TURN_NS_MIN UINT64_C(300)
#define TURN_NS_MAX UINT64_C(4000)
#define POST_NS_MAX UINT64_C(20000)

/* ---- turning -------------------------------------------------------------------------------- */

static bool may_turn(const struct env_loop *loop)
{
    return loop->started && !loop->turning && !loop->env->paused && !loop->env->dead;
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

static void put_back(struct list *to, struct list *from)
{
    struct list_link *link;

    while ((link = list_last(from)) != NULL) {
        list_remove(link);
        list_push_front(to, link);
    }
}

static void turn(struct env_loop *loop)
{
    struct world *world = loop->env->world;
    struct list running;
    struct list_link *link;

    loop->turning = true;
    loop->turns++;
    list_take_all(&running, &loop->ready);
    while (!loop->stop && !loop->env->dead && (link = list_pop(&running)) != NULL) {
        struct sim_event *event = list_entry(link, struct sim_event, ready_link);

        event->on_event(event);
    }
    put_back(&loop->ready, &running);
    if (!loop->env->dead)
        run_hooks(loop);
    loop->turning = false;
    if (loop->stop) {
        loop->stop = false;
        loop->started = false;
    }
    uint64_t cost_ns = rng_between(&world->rng, TURN_NS_MIN, TURN_NS_MAX) * loop->env->host->slow;

    if (loop->busy_until_ns < world->now_ns + cost_ns)
        loop->busy_until_ns = world->now_ns + cost_ns;
    sim_loop_wake(loop);
}

static void on_wake(struct sim_event *event)
{
    struct env_loop *loop = list_entry(event, struct env_loop, wake);

    if (may_turn(loop) && !list_is_empty(&loop->ready)) {
        if (loop->env->world->now_ns < loop->busy_until_ns)
            sim_event_at(event, loop->busy_until_ns); /* stalled meanwhile */
        else
            turn(loop);
    }
}

void sim_loop_wake(struct env_loop *loop)
{
    if (may_turn(loop) && !list_is_empty(&loop->ready) && !sim_event_waits(&loop->wake))
        sim_event_at(&loop->wake, loop->busy_until_ns);
}

void sim_loop_due(struct env_loop *loop, struct sim_event *event)
{
    list_push(&loop->ready, &event->ready_link);
    if (may_turn(loop) && loop->env->world->now_ns >= loop->busy_until_ns)
        turn(loop);
    else
        sim_loop_wake(loop);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_timers(struct sim_event *event);
static void on_posted(struct sim_event *event);

enum snow_status env_loop_create(struct env *env, const char *name, struct env_loop **loop)
{
    struct env_loop *made = calloc(1, sizeof *made);

    if (made == NULL)
        return SNOW_NO_MEMORY;
    made->env = env;
    made->id = env->world->next_id++;
    snprintf(made->name, sizeof made->name, "%s", name);
    list_init(&made->ready);
    list_init(&made->hooks);
    list_init(&made->conns);
    list_init(&made->listeners);
    list_init(&made->copies);
    sim_event_init(&made->wake, env->world, NULL, SIM_WAKE, made->id, on_wake);
    sim_event_init(&made->timer_event, env->world, made, SIM_TIMERS, made->id, on_timers);
    sim_event_init(&made->posted_event, env->world, made, SIM_POSTED, made->id, on_posted);
    list_push(&env->loops, &made->link);
    *loop = made;
    return SNOW_OK;
}

enum snow_status env_loop_start(struct env_loop *loop)
{
    ASSERT(!loop->started);
    if (loop->stop) { /* stopped before it was started: one turn of nothing */
        loop->stop = false;
        return SNOW_OK;
    }
    loop->started = true;
    sim_loop_wake(loop);
    return SNOW_OK;
}

void env_loop_stop(struct env_loop *loop)
{
    if (loop->turning || !loop->started)
        loop->stop = true;
    else
        loop->started = false;
}

void env_loop_join(struct env_loop *loop)
{
    ASSERT(!loop->turning); /* not from the loop itself */
    loop->started = false;
    loop->stop = false;
}

void env_loop_destroy(struct env_loop *loop)
{
    ASSERT(!loop->started || loop->env->dead);
    sim_copy_kill(loop);
    net_free_loop(loop);
    while (loop->timers.first != NULL)
        env_timer_cancel(list_entry(loop->timers.first, struct env_timer, link));
    sim_loop_kill(loop);
    while (!list_is_empty(&loop->hooks))
        list_pop(&loop->hooks);
    list_remove(&loop->link);
    free(loop);
}

void sim_loop_kill(struct env_loop *loop)
{
    sim_event_cancel(&loop->wake);
    sim_event_cancel(&loop->timer_event);
    sim_event_cancel(&loop->posted_event);
    while (!list_is_empty(&loop->ready))
        list_pop(&loop->ready);
}

struct env *env_loop_env(struct env_loop *loop)
{
    return loop->env;
}

uint64_t env_loop_turns(const struct env_loop *loop)
{
    return loop->turns;
}

/* A simulated loop is turned by the world alone: nobody may get here. */
void env_loop_run(struct env_loop *loop)
{
    ASSERT(loop == NULL);
}

uint32_t env_loop_turn(struct env_loop *loop, uint64_t timeout_ns, uint64_t spin_ns)
{
    (void)timeout_ns;
    (void)spin_ns;
    env_loop_run(loop);
    return 0;
}

/* ---- tasks, hooks --------------------------------------------------------------------------- */

static void on_posted(struct sim_event *event)
{
    struct env_loop *loop = list_entry(event, struct env_loop, posted_event);
    struct env_task *task = loop->posted_first;

    loop->posted_first = NULL;
    loop->posted_last = NULL;
    while (task != NULL) {
        struct env_task *next = task->next; /* the task may be posted again, or freed */

        task->on_event(task);
        task = next;
    }
}

void env_loop_post(struct env_loop *loop, struct env_task *task)
{
    struct world *world = loop->env->world;

    if (loop->env->dead)
        return;
    task->next = NULL;
    if (loop->posted_last == NULL)
        loop->posted_first = task;
    else
        loop->posted_last->next = task;
    loop->posted_last = task;
    if (!sim_event_waits(&loop->posted_event))
        sim_event_at(&loop->posted_event, world->now_ns + rng_below(&world->rng, POST_NS_MAX));
}

void env_hook_add(struct env_loop *loop, struct env_hook *hook)
{
    list_push(&loop->hooks, &hook->link);
}

void env_hook_remove(struct env_hook *hook)
{
    list_remove(&hook->link);
}

/* ---- timers --------------------------------------------------------------------------------- */

/* Makes the timers' event come for the earliest timer. */
static void await_first(struct env_loop *loop)
{
    struct env *env = loop->env;

    if (list_is_linked(&loop->timer_event.ready_link) || env->dead)
        return;
    if (loop->timers.first == NULL) {
        sim_event_cancel(&loop->timer_event);
        return;
    }
    uint64_t first_ns = loop->timers.first->at_ns;
    uint64_t at_ns = first_ns > env->clock_offset_ns ? first_ns - env->clock_offset_ns : 0;

    if (at_ns < env->world->now_ns)
        at_ns = env->world->now_ns;
    if (!loop->timer_event.link.queued || loop->timer_event.link.at_ns != at_ns)
        sim_event_at(&loop->timer_event, at_ns);
}

static void on_timers(struct sim_event *event)
{
    struct env_loop *loop = list_entry(event, struct env_loop, timer_event);
    uint64_t now_ns = env_now_ns(loop->env);
    uint64_t order_end = loop->timer_order;

    while (loop->timers.first != NULL && !loop->env->dead && !loop->stop) {
        struct env_timer *timer = list_entry(loop->timers.first, struct env_timer, link);

        if (timer->link.at_ns > now_ns || timer->link.order >= order_end)
            break;
        heap_remove(&loop->timers, &timer->link);
        timer->loop = NULL;
        timer->on_event(timer);
    }
    await_first(loop);
}

void env_timer_arm(struct env_loop *loop, struct env_timer *timer, uint64_t at_ns)
{
    uint64_t now_ns = env_now_ns(loop->env);

    if (timer->loop != NULL)
        heap_remove(&timer->loop->timers, &timer->link);
    timer->loop = loop;
    timer->link.at_ns = at_ns > now_ns ? at_ns : now_ns;
    timer->link.order = loop->timer_order++;
    heap_push(&loop->timers, &timer->link);
    await_first(loop);
}

void env_timer_cancel(struct env_timer *timer)
{
    struct env_loop *loop = timer->loop;

    if (loop == NULL)
        return;
    heap_remove(&loop->timers, &timer->link);
    timer->loop = NULL;
    await_first(loop);
}
