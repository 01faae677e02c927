#include "base/limits.h"
#include "env/linux.h"
#include "env/thread.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct env *env;
    struct env_loop *loop;
};

static int setup(void **state)
{
    static struct fixture fixture;

    fixture.env = env_linux_create();
    *state = &fixture;
    return fixture.env == NULL || env_loop_create(fixture.env, "test", &fixture.loop) != SNOW_OK;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    env_loop_destroy(fixture->loop);
    env_linux_destroy(fixture->env);
    return 0;
}

/* ---- beacons: a loop that rests, seen from outside ------------------------------------------- */

static bool is_readable(const struct env_beacon *beacon, int timeout_ms)
{
    struct pollfd watched = {.fd = env_beacon_descriptor(beacon), .events = POLLIN};

    return poll(&watched, 1, timeout_ms) == 1;
}

static void on_nothing(struct env_task *task)
{
    (void)task;
}

static void on_nothing_timer(struct env_timer *timer)
{
    (void)timer;
}

static void test_beacons(void **state)
{
    struct fixture *fixture = *state;
    struct env_task task = {.on_event = on_nothing};
    struct env_timer timer = {.on_event = on_nothing_timer};
    struct env_beacon *beacon;

    assert_int_equal(env_beacon_create(fixture->loop, &beacon), SNOW_OK);
    env_loop_turn(fixture->loop, 0, 0);
    assert_int_equal(env_loop_rest(fixture->loop), UINT64_MAX);
    assert_false(is_readable(beacon, 0));
    env_beacon_light(beacon, true);
    assert_true(is_readable(beacon, 0));
    env_beacon_light(beacon, false);
    assert_false(is_readable(beacon, 0));

    env_loop_post(fixture->loop, &task);
    assert_true(is_readable(beacon, 10000));
    assert_int_equal(env_loop_rest(fixture->loop), 0);
    assert_int_equal(env_loop_turn(fixture->loop, 0, 0), 2); /* the task, and what woke for it */
    assert_false(is_readable(beacon, 0));

    env_timer_arm(fixture->loop, &timer, env_now_ns(fixture->env) + 5 * NS_PER_MS);
    env_beacon_arm(beacon, env_loop_rest(fixture->loop));
    assert_true(is_readable(beacon, 10000));
    assert_int_equal(env_loop_turn(fixture->loop, 0, 0), 1);
    env_beacon_arm(beacon, env_loop_rest(fixture->loop));
    assert_false(is_readable(beacon, 0));
    env_beacon_arm(beacon, 0);
    assert_true(is_readable(beacon, 10000));
    env_beacon_destroy(beacon);
}

/* ---- timers --------------------------------------------------------------------------------- */

struct counted_timer {
    struct env_timer timer;
    int *sequence; /* shared counter */
    int fired_as;  /* its value when this one fired, 0: not yet */
    int again;     /* times to arm itself for the past */
};

static void on_timer(struct env_timer *timer)
{
    struct counted_timer *counted = (struct counted_timer *)timer;
    struct env_loop *loop = counted->timer.loop;

    assert_null(loop); /* a timer that fires is not armed */
    counted->fired_as = ++*counted->sequence;
}

static void test_timers_fire_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct counted_timer timers[4] = {0};
    int sequence = 0;
    uint64_t start_ns = env_now_ns(fixture->env);

    for (int i = 0; i < 4; i++) {
        timers[i].timer.on_event = on_timer;
        timers[i].sequence = &sequence;
    }
    env_timer_arm(fixture->loop, &timers[0].timer, start_ns + 3 * NS_PER_MS);
    env_timer_arm(fixture->loop, &timers[1].timer, start_ns + NS_PER_MS);
    env_timer_arm(fixture->loop, &timers[2].timer, start_ns + NS_PER_MS);
    env_timer_arm(fixture->loop, &timers[3].timer, start_ns + 2 * NS_PER_MS);
    env_timer_cancel(&timers[3].timer);
    env_timer_cancel(&timers[3].timer);
    env_timer_arm(fixture->loop, &timers[0].timer, start_ns + 4 * NS_PER_MS);
    while (timers[0].fired_as == 0)
        env_loop_turn(fixture->loop, NS_PER_S, 0);
    assert_true(env_now_ns(fixture->env) >= start_ns + 4 * NS_PER_MS);
    assert_int_equal(timers[1].fired_as, 1);
    assert_int_equal(timers[2].fired_as, 2);
    assert_int_equal(timers[0].fired_as, 3);
    assert_int_equal(timers[3].fired_as, 0);
}

static struct env_loop *again_loop;

static void on_timer_again(struct env_timer *timer)
{
    struct counted_timer *counted = (struct counted_timer *)timer;

    ++*counted->sequence;
    if (counted->again-- > 0)
        env_timer_arm(again_loop, timer, 0);
}

static void test_a_timer_for_the_past_waits_for_the_next_turn(void **state)
{
    struct fixture *fixture = *state;
    int fired = 0;
    struct counted_timer timer = {.timer = {.on_event = on_timer_again}, .sequence = &fired};

    timer.again = 2;
    again_loop = fixture->loop;
    env_timer_arm(fixture->loop, &timer.timer, 0);
    assert_int_equal(fired, 0);
    for (int turn = 1; turn <= 3; turn++) {
        assert_int_equal(env_loop_turn(fixture->loop, NS_PER_S, 0), 1);
        assert_int_equal(fired, turn);
    }
    assert_int_equal(env_loop_turn(fixture->loop, 0, 0), 0);
}

/* ---- posts and threads ---------------------------------------------------------------------- */

#define POSTERS 4
#define POSTS 2000

struct poster {
    struct env_loop *loop;
    struct env_task tasks[POSTS];
    int next; /* on the loop's thread: the task that must come next */
};

static struct poster posters[POSTERS];
static int posts_ran;
static struct env_loop *posts_loop;

static void on_post(struct env_task *task)
{
    for (int i = 0; i < POSTERS; i++) {
        if (task >= posters[i].tasks && task < posters[i].tasks + POSTS) {
            assert_ptr_equal(task, &posters[i].tasks[posters[i].next]);
            posters[i].next++;
        }
    }
    if (++posts_ran == POSTERS * POSTS)
        env_loop_stop(posts_loop);
}

static void *post_all(void *argument)
{
    struct poster *poster = argument;

    for (int i = 0; i < POSTS; i++) {
        poster->tasks[i].on_event = on_post;
        env_loop_post(poster->loop, &poster->tasks[i]);
    }
    return NULL;
}

static void test_posts_from_threads_come_in_order(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[POSTERS];

    posts_loop = fixture->loop;
    posts_ran = 0;
    assert_int_equal(env_loop_start(fixture->loop), SNOW_OK);
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.loop = fixture->loop};
        pthread_create(&threads[i], NULL, post_all, &posters[i]);
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    env_loop_join(fixture->loop);
    assert_int_equal(posts_ran, POSTERS * POSTS);
    assert_true(env_loop_turns(fixture->loop) > 0);
}

struct waiter {
    struct env_task task;
    struct env_mutex *mutex;
    struct env_condition *condition;
    bool done;
};

static void on_waited_for(struct env_task *task)
{
    struct waiter *waiter = (struct waiter *)task;

    env_mutex_lock(waiter->mutex);
    waiter->done = true;
    env_condition_wake_all(waiter->condition);
    env_mutex_unlock(waiter->mutex);
}

static void test_a_condition_is_waited_for(void **state)
{
    struct fixture *fixture = *state;
    struct waiter waiter = {.task = {.on_event = on_waited_for},
                            .mutex = env_mutex_create(),
                            .condition = env_condition_create()};

    assert_int_equal(env_loop_start(fixture->loop), SNOW_OK);
    env_mutex_lock(waiter.mutex);
    assert_false(env_condition_wait(waiter.condition, waiter.mutex, NS_PER_MS));
    env_loop_post(fixture->loop, &waiter.task);
    while (!waiter.done)
        assert_true(env_condition_wait(waiter.condition, waiter.mutex, 20 * NS_PER_S));
    env_mutex_unlock(waiter.mutex);
    env_loop_stop(fixture->loop);
    env_loop_join(fixture->loop);
    env_condition_destroy(waiter.condition);
    env_mutex_destroy(waiter.mutex);
}

static void test_a_stop_before_the_start_counts(void **state)
{
    struct fixture *fixture = *state;

    env_loop_stop(fixture->loop);
    env_loop_run(fixture->loop);
}

/* ---- hooks ---------------------------------------------------------------------------------- */

struct counted_hook {
    struct env_hook hook;
    int ran;
    bool remove_itself;
};

static void on_hook(struct env_hook *hook)
{
    struct counted_hook *counted = (struct counted_hook *)hook;

    counted->ran++;
    if (counted->remove_itself)
        env_hook_remove(hook);
}

static void test_hooks_run_each_turn(void **state)
{
    struct fixture *fixture = *state;
    struct counted_hook once = {.hook = {.on_event = on_hook}, .remove_itself = true};
    struct counted_hook ever = {.hook = {.on_event = on_hook}};

    env_hook_add(fixture->loop, &once.hook);
    env_hook_add(fixture->loop, &ever.hook);
    for (int i = 0; i < 3; i++)
        env_loop_turn(fixture->loop, 0, 0);
    assert_int_equal(once.ran, 1);
    assert_int_equal(ever.ran, 3);
    env_hook_remove(&ever.hook);
}

/* ---- process -------------------------------------------------------------------------------- */

static int signal_seen;

static void on_signal(struct env_signals *signals, int signal_number)
{
    (void)signals;
    signal_seen = signal_number;
}

static void test_signals_come_as_events(void **state)
{
    struct fixture *fixture = *state;
    struct env_signals signals = {.on_event = on_signal};

    signal_seen = 0;
    assert_int_equal(env_signals_watch(fixture->loop, &signals), SNOW_OK);
    raise(SIGTERM);
    while (signal_seen == 0)
        env_loop_turn(fixture->loop, NS_PER_S, 0);
    assert_int_equal(signal_seen, SIGTERM);
    raise(SIGINT);
    while (signal_seen != SIGINT)
        env_loop_turn(fixture->loop, NS_PER_S, 0);
    env_signals_unwatch(&signals);
}

static void test_process_facts(void **state)
{
    struct fixture *fixture = *state;
    uint64_t before = env_fork_count();
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(env_fork_count() == before + 1 ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(env_fork_count(), before);
    assert_true(strlen(env_host(fixture->env)) > 8);
    assert_true(env_random(fixture->env) != env_random(fixture->env));
    assert_true(env_wall_ms(fixture->env) > UINT64_C(1600000000000));
    assert_true(env_resident_bytes() > MIB);
    assert_true(env_cpu_ns() > 0);
}

static void test_children(void **state)
{
    char *const talk[] = {"test", "talk", NULL};
    char *const hang[] = {"test", "hang", NULL};
    struct env_child child = {0};
    char text[64];
    size_t have = 0;
    ssize_t got;

    (void)state;
    assert_int_equal(env_child_start(talk, &child), SNOW_OK);
    while ((got = env_child_read(&child, text + have, sizeof text - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = 0;
    assert_string_equal(text, "hello\n");
    assert_int_equal(env_child_wait(&child), 7);
    assert_int_equal(env_child_start(hang, &child), SNOW_OK);
    env_child_kill(&child, SIGKILL);
    assert_int_equal(env_child_wait(&child), 128 + SIGKILL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "talk") == 0)
        return write(1, "hello\n", 6) == 6 ? 7 : 1;
    while (argc > 1 && strcmp(argv[1], "hang") == 0)
        pause();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_beacons, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timers_fire_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_timer_for_the_past_waits_for_the_next_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_posts_from_threads_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_condition_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_stop_before_the_start_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hooks_run_each_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals_come_as_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_process_facts, setup, teardown),
        cmocka_unit_test(test_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
