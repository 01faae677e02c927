#include "base/limits.h"
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FAR (1000 * NS_PER_S)

/* Two hosts, a process with a turning loop on each. */
struct fixture {
    struct world *world;
    struct world_host *hosts[2];
    struct env *envs[2];
    struct env_loop *loops[2];
};

static void start_process(struct fixture *fixture, int i)
{
    fixture->envs[i] = world_process_start(fixture->hosts[i], i == 0 ? "left" : "right");
    assert_int_equal(env_loop_create(fixture->envs[i], "main", &fixture->loops[i]), SNOW_OK);
    assert_int_equal(env_loop_start(fixture->loops[i]), SNOW_OK);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->world = world_create(1);
    fixture->hosts[0] = world_host_create(fixture->world, "left-host");
    fixture->hosts[1] = world_host_create(fixture->world, "right-host");
    start_process(fixture, 0);
    start_process(fixture, 1);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    world_destroy(fixture->world);
    free(fixture);
    return 0;
}

/* ---- loops ---------------------------------------------------------------------------------- */

struct counted {
    struct env_timer timer; /* first */
    struct env *env;
    int fired;
    uint64_t fired_ns;
    struct env_loop *again_on;
};

static void on_timer(struct env_timer *timer)
{
    struct counted *counted = (struct counted *)timer;

    assert_null(timer->loop);
    counted->fired++;
    counted->fired_ns = env_now_ns(counted->env);
    if (counted->again_on != NULL)
        env_timer_arm(counted->again_on, timer, 0);
}

static void test_timers_and_time(void **state)
{
    struct fixture *fixture = *state;
    struct env *env = fixture->envs[0];
    struct counted a = {.timer.on_event = on_timer, .env = env};
    struct counted b = {.timer.on_event = on_timer, .env = env};
    struct counted never = {.timer.on_event = on_timer, .env = env};
    uint64_t start_ns = env_now_ns(env);

    env_timer_arm(fixture->loops[0], &b.timer, start_ns + 20 * NS_PER_MS);
    env_timer_arm(fixture->loops[0], &a.timer, start_ns + 10 * NS_PER_MS);
    env_timer_arm(fixture->loops[0], &never.timer, start_ns + 15 * NS_PER_MS);
    env_timer_cancel(&never.timer);
    world_run_until(fixture->world, 15 * NS_PER_MS);
    assert_int_equal(a.fired, 1);
    assert_int_equal(b.fired, 0);
    world_run_until(fixture->world, FAR);
    assert_true(a.fired_ns >= start_ns + 10 * NS_PER_MS);
    assert_true(b.fired_ns >= start_ns + 20 * NS_PER_MS);
    assert_true(b.fired_ns < start_ns + 21 * NS_PER_MS);
    assert_int_equal(never.fired, 0);
    assert_int_equal(world_now_ns(fixture->world), FAR);
    assert_false(world_step(fixture->world));
    /* Clocks of two processes differ, their pace does not. */
    assert_int_not_equal(env_now_ns(fixture->envs[1]), env_now_ns(env));
}

static void test_a_paused_process_gets_no_turn(void **state)
{
    struct fixture *fixture = *state;
    struct env *env = fixture->envs[0];
    struct counted a = {.timer.on_event = on_timer, .env = env};

    env_timer_arm(fixture->loops[0], &a.timer, env_now_ns(env) + NS_PER_MS);
    world_process_pause(env);
    world_run_until(fixture->world, NS_PER_S);
    assert_int_equal(a.fired, 0);
    uint64_t turns = env_loop_turns(fixture->loops[0]);

    world_process_resume(env);
    world_run_until(fixture->world, 2 * NS_PER_S);
    assert_int_equal(a.fired, 1);
    assert_true(env_loop_turns(fixture->loops[0]) > turns);
}

static void test_a_slow_host_and_a_stalled_loop(void **state)
{
    struct fixture *fixture = *state;
    struct counted timers[2] = {
        {.timer.on_event = on_timer, .env = fixture->envs[0], .again_on = fixture->loops[0]},
        {.timer.on_event = on_timer, .env = fixture->envs[1], .again_on = fixture->loops[1]}};

    world_host_slow(fixture->hosts[1], 100);
    env_timer_arm(fixture->loops[0], &timers[0].timer, 0);
    env_timer_arm(fixture->loops[1], &timers[1].timer, 0);
    world_run_until(fixture->world, 10 * NS_PER_MS);
    assert_true(timers[0].fired > 50 * timers[1].fired);
    assert_true(timers[1].fired > 5);
    int fired = timers[0].fired;

    world_loop_stall(fixture->loops[0], NS_PER_S);
    world_run_until(fixture->world, 500 * NS_PER_MS);
    assert_true(timers[0].fired <= fired + 1);
    timers[0].again_on = NULL;
    timers[1].again_on = NULL;
    world_run_until(fixture->world, 2 * NS_PER_S);
    assert_true(timers[0].fired > fired);
}

struct posted {
    struct env_task task; /* first */
    int *sequence;
    int ran_as;
};

static void on_task(struct env_task *task)
{
    struct posted *posted = (struct posted *)task;

    posted->ran_as = ++*posted->sequence;
}

struct hooked {
    struct env_hook hook; /* first */
    int ran;
};

static void on_hook(struct env_hook *hook)
{
    ((struct hooked *)hook)->ran++;
}

static void test_tasks_and_hooks(void **state)
{
    struct fixture *fixture = *state;
    int sequence = 0;
    struct posted tasks[5];
    struct hooked hook = {.hook.on_event = on_hook};

    env_hook_add(fixture->loops[0], &hook.hook);
    for (int i = 0; i < 5; i++) {
        tasks[i] = (struct posted){.task.on_event = on_task, .sequence = &sequence};
        env_loop_post(fixture->loops[0], &tasks[i].task);
    }
    assert_int_equal(sequence, 0);
    world_run_until(fixture->world, NS_PER_MS);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tasks[i].ran_as, i + 1);
    assert_int_equal(hook.ran, 1);
    env_hook_remove(&hook.hook);
    /* Another loop of the same process is another thread. */
    struct env_loop *second;

    assert_int_equal(env_loop_create(fixture->envs[0], "second", &second), SNOW_OK);
    env_loop_post(second, &tasks[0].task);
    world_run_until(fixture->world, 2 * NS_PER_MS);
    assert_int_equal(sequence, 5); /* it does not turn yet */
    assert_int_equal(env_loop_start(second), SNOW_OK);
    world_run_until(fixture->world, 3 * NS_PER_MS);
    assert_int_equal(sequence, 6);
    env_loop_stop(second);
    env_loop_join(second);
    env_loop_destroy(second);
}

/* ---- copies --------------------------------------------------------------------------------- */

#define COPY_SIZE 10000

struct copied {
    struct env_copy copy; /* first */
    bool done;
};

static void on_copied(struct env_copy *copy)
{
    ((struct copied *)copy)->done = true;
}

static void test_copies_come_in_pieces(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t from[COPY_SIZE];
    static uint8_t to[COPY_SIZE];
    int at_once = 0;
    int torn = 0;

    memset(from, 7, sizeof from);
    for (int round = 0; round < 100; round++) {
        struct copied copied = {
            .copy = {.to = to, .from = from, .size = COPY_SIZE, .on_event = on_copied}};

        memset(to, 0, sizeof to);
        if (env_copy(fixture->loops[0], &copied.copy)) {
            at_once++;
        } else {
            bool was_torn = false;

            while (!copied.done) {
                assert_true(world_step(fixture->world));
                was_torn |= to[0] == 7 && to[COPY_SIZE - 1] == 0;
            }
            torn += was_torn;
        }
        assert_memory_equal(to, from, COPY_SIZE);
    }
    assert_true(at_once > 2 && at_once < 40);
    assert_true(torn > 20);
}

static void test_a_crash_tears_a_copy(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t from[COPY_SIZE];
    struct env_memory memory;
    int torn = 0;

    memset(from, 7, sizeof from);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(env_memory_open(fixture->envs[0], "/data", "segment", COPY_SIZE, &memory),
                         SNOW_OK);
        memset(memory.at, 0, COPY_SIZE);
        struct copied copied = {
            .copy = {.to = memory.at, .from = from, .size = COPY_SIZE, .on_event = on_copied}};

        if (!env_copy(fixture->loops[0], &copied.copy)) {
            for (int i = 0; i < 2; i++)
                world_step(fixture->world);
        }
        world_process_crash(fixture->envs[0]);
        memset(memory.at, 9, COPY_SIZE); /* a dead process writes to nobody's memory */
        env_copy_cancel(&copied.copy);
        world_process_end(fixture->envs[0]);
        world_run_until(fixture->world, world_now_ns(fixture->world) + NS_PER_S);
        start_process(fixture, 0);
        assert_int_equal(env_memory_open(fixture->envs[0], "/data", "segment", COPY_SIZE, &memory),
                         SNOW_OK);
        assert_true(memory.existed);
        torn += memory.at[0] == 7 && memory.at[COPY_SIZE - 1] == 0;
        assert_true(memory.at[0] == 7 || memory.at[0] == 0);
        env_memory_close(fixture->envs[0], &memory);
    }
    assert_true(torn > 5);
}

/* ---- memory and files ----------------------------------------------------------------------- */

static void test_memory(void **state)
{
    struct fixture *fixture = *state;
    struct env *env = fixture->envs[0];
    struct env_memory a;
    struct env_memory b;
    size_t done;

    assert_int_equal(env_memory_open(env, "/data", "s", 5 * MIB, &a), SNOW_OK);
    assert_false(a.existed);
    assert_int_equal((uintptr_t)a.at % (2 * MIB), 0);
    a.at[100] = 42;
    assert_int_equal(env_memory_open(env, "/data", "s", 5 * MIB, &b), SNOW_IN_USE);
    assert_int_equal(env_memory_open(env, NULL, "s", 4096, &b), SNOW_OK);
    env_memory_close(env, &b);
    assert_int_equal(env_memory_open(env, "/data", "A/", 4096, &b), SNOW_INVALID);
    world_host_memory(fixture->hosts[0], 3 * MIB);
    assert_int_equal(env_memory_populate(env, &a, 0, 2 * MIB, &done), SNOW_OK);
    assert_int_equal(env_memory_populate(env, &a, 2 * MIB, 3 * MIB, &done), SNOW_NO_SPACE);
    assert_int_equal(done, MIB);
    env_memory_close(env, &a);
    world_host_memory(fixture->hosts[0], 0);
    assert_int_equal(env_memory_open(env, "/data", "s", MIB, &b), SNOW_INVALID);
    /* A host that loses power keeps its memory, or not, as the scenario says. */
    world_host_crash(fixture->hosts[0], true);
    world_process_end(env);
    world_host_boot(fixture->hosts[0]);
    start_process(fixture, 0);
    env = fixture->envs[0];
    assert_int_equal(env_memory_open(env, "/data", "s", 5 * MIB, &a), SNOW_OK);
    assert_true(a.existed);
    assert_int_equal(a.at[100], 42);
    world_host_crash(fixture->hosts[0], false);
    world_process_end(env);
    world_host_boot(fixture->hosts[0]);
    start_process(fixture, 0);
    env = fixture->envs[0];
    assert_int_equal(env_memory_open(env, "/data", "s", 5 * MIB, &a), SNOW_OK);
    assert_false(a.existed);
    assert_int_equal(a.at[100], 0);
}

static void test_files_and_locks(void **state)
{
    struct fixture *fixture = *state;
    struct env *env = fixture->envs[0];
    struct env *other = world_process_start(fixture->hosts[0], "other");
    uint8_t *data;
    size_t size;

    assert_int_equal(env_file_read(env, "/state", 10, &data, &size), SNOW_NOT_FOUND);
    assert_int_equal(env_file_replace(env, "/state", bytes_of_string("one")), SNOW_OK);
    assert_int_equal(env_file_replace(env, "/state", bytes_of_string("second")), SNOW_OK);
    assert_int_equal(env_file_read(env, "/state", 5, &data, &size), SNOW_LIMIT);
    assert_int_equal(env_file_read(fixture->envs[1], "/state", 10, &data, &size), SNOW_NOT_FOUND);
    assert_int_equal(env_dir_lock(env, "/dir"), SNOW_OK);
    assert_int_equal(env_dir_lock(other, "/dir"), SNOW_IN_USE);
    world_process_crash(env);
    assert_int_equal(env_dir_lock(other, "/dir"), SNOW_OK);
    assert_int_equal(env_file_replace(env, "/state", bytes_of_string("dead")), SNOW_CLOSED);
    assert_int_equal(env_file_read(other, "/state", 10, &data, &size), SNOW_OK);
    assert_int_equal(size, 6);
    assert_memory_equal(data, "second", 6);
    free(data);
}

/* ---- network -------------------------------------------------------------------------------- */

struct end {
    struct env_conn *conn;
    int opened;
    enum snow_status open_status;
    int readable;
    int writable;
    bool ended;
    uint8_t *got;
    size_t got_size;
    size_t got_max;
    const uint8_t *to_send;
    size_t to_send_size;
};

static void receive_all(struct end *end)
{
    ssize_t got;

    do {
        struct iovec iov = {.iov_base = end->got + end->got_size,
                            .iov_len = end->got_max - end->got_size};

        got = iov.iov_len == 0 ? 0 : env_conn_receive(end->conn, &iov, 1);
        if (got > 0)
            end->got_size += (size_t)got;
    } while (got > 0);
    end->ended = got == ENV_END;
}

static void send_all(struct end *end)
{
    while (end->to_send_size > 0) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)end->to_send,
                            .iov_len = end->to_send_size};
        ssize_t sent = env_conn_send(end->conn, &iov, 1);

        if (sent <= 0)
            return;
        end->to_send += sent;
        end->to_send_size -= (size_t)sent;
    }
}

static void on_open(void *owner, enum snow_status status)
{
    struct end *end = owner;

    end->opened++;
    end->open_status = status;
    if (status == SNOW_OK)
        send_all(end);
}

static void on_readable(void *owner)
{
    struct end *end = owner;

    end->readable++;
    receive_all(end);
}

static void on_writable(void *owner)
{
    struct end *end = owner;

    end->writable++;
    send_all(end);
}

static const struct env_conn_ops end_ops = {.on_open = on_open,
                                            .on_readable = on_readable,
                                            .on_writable = on_writable};

static void on_accept(void *owner, struct env_conn *conn)
{
    struct end *end = owner;

    end->conn = conn;
    env_conn_own(conn, &end_ops, end);
}

/* The left process dials the right one; `left` has what is to be sent set already. */
static struct env_listener *connect_ends(struct fixture *fixture, struct end *left,
                                         struct end *right,
                                         const struct env_socket_options *options)
{
    struct env_listener *listener;

    assert_int_equal(env_listen(fixture->loops[1], "0.0.0.0:7000", options, on_accept, right,
                                &listener),
                     SNOW_OK);
    assert_string_equal(env_listener_address(listener), "right-host:7000");
    assert_int_equal(env_dial(fixture->loops[0], "right-host:7000", options, &end_ops, left,
                              &left->conn),
                     SNOW_OK);
    return listener;
}

static void run_for(struct fixture *fixture, uint64_t duration_ns)
{
    world_run_until(fixture->world, world_now_ns(fixture->world) + duration_ns);
}

static uint8_t *some_bytes(size_t size)
{
    uint8_t *bytes = malloc(size);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 4099);
    return bytes;
}

static void test_streams_keep_bytes_and_order(void **state)
{
    struct fixture *fixture = *state;
    struct world_net lossy = world_net_lossy();
    size_t size = 3 * MIB;
    uint8_t *bytes = some_bytes(size);
    struct end left = {.got = malloc(16), .got_max = 16, .to_send = bytes, .to_send_size = size};
    struct end right = {.got = malloc(size + 1), .got_max = size + 1};

    lossy.reset_per_million = 0;
    world_set_net(fixture->world, &lossy);
    connect_ends(fixture, &left, &right, NULL);
    assert_int_equal(left.opened, 0);
    run_for(fixture, 300 * NS_PER_S);
    assert_int_equal(left.open_status, SNOW_OK);
    assert_int_equal(right.got_size, size);
    assert_memory_equal(right.got, bytes, size);
    assert_true(right.readable > 20 && left.writable > 5);
    env_conn_close(left.conn, false);
    run_for(fixture, NS_PER_S);
    assert_true(right.ended);
    env_conn_close(right.conn, false);
    free(bytes);
    free(left.got);
    free(right.got);
}

static void test_a_close_comes_after_the_bytes(void **state)
{
    struct fixture *fixture = *state;
    size_t size = 50000;
    uint8_t *bytes = some_bytes(size);
    struct end left = {.got = malloc(16), .got_max = 16, .to_send = bytes, .to_send_size = size};
    struct end right = {.got = malloc(size + 1), .got_max = size + 1};

    connect_ends(fixture, &left, &right, NULL);
    while (left.to_send_size > 0)
        assert_true(world_step(fixture->world));
    env_conn_close(left.conn, false);
    run_for(fixture, NS_PER_S);
    assert_int_equal(right.got_size, size);
    assert_true(right.ended);
    free(bytes);
    free(left.got);
    free(right.got);
}

static void test_refused_and_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct end left = {0};

    assert_int_equal(env_dial(fixture->loops[0], "nonsense", NULL, &end_ops, &left, &left.conn),
                     SNOW_INVALID);
    assert_int_equal(env_dial(fixture->loops[0], "right-host:1", NULL, &end_ops, &left, &left.conn),
                     SNOW_OK);
    run_for(fixture, NS_PER_MS);
    assert_int_equal(left.opened, 1);
    assert_int_equal(left.open_status, SNOW_UNREACHABLE);
    env_conn_close(left.conn, false);
    assert_int_equal(env_dial(fixture->loops[0], "no-host:1", NULL, &end_ops, &left, &left.conn),
                     SNOW_OK);
    run_for(fixture, 10 * NS_PER_MS);
    assert_int_equal(left.opened, 2);
    assert_int_equal(left.open_status, SNOW_UNREACHABLE);
    env_conn_close(left.conn, false);
}

static void test_a_cut_delays_and_then_breaks(void **state)
{
    struct fixture *fixture = *state;
    struct env_socket_options options = {.keepalive = true, .user_timeout_ms = 8000};
    uint8_t *bytes = some_bytes(1000);
    struct end left = {.got = malloc(16), .got_max = 16, .to_send = bytes, .to_send_size = 500};
    struct end right = {.got = malloc(1001), .got_max = 1001};

    connect_ends(fixture, &left, &right, &options);
    run_for(fixture, NS_PER_S);
    assert_int_equal(right.got_size, 500);
    world_cut(fixture->hosts[0], fixture->hosts[1]);
    left.to_send_size = 500;
    send_all(&left);
    run_for(fixture, 3 * NS_PER_S);
    assert_int_equal(right.got_size, 500);
    world_heal(fixture->hosts[0], fixture->hosts[1]);
    run_for(fixture, 5 * NS_PER_S);
    assert_int_equal(right.got_size, 1000);
    assert_memory_equal(right.got, bytes, 1000);
    assert_false(left.ended || right.ended);
    /* Idle, a cut is noticed by the keepalive, by both. */
    world_cut(fixture->hosts[0], fixture->hosts[1]);
    run_for(fixture, 5 * NS_PER_S);
    assert_false(left.ended || right.ended);
    run_for(fixture, 7 * NS_PER_S);
    assert_true(left.ended && right.ended);
    /* A dial goes unanswered, and gets through when the cut is healed. */
    env_conn_close(left.conn, false);
    env_conn_close(right.conn, false);
    left.opened = 0;
    assert_int_equal(
        env_dial(fixture->loops[0], "right-host:7000", NULL, &end_ops, &left, &left.conn), SNOW_OK);
    run_for(fixture, 10 * NS_PER_S);
    assert_int_equal(left.opened, 0);
    world_heal_all(fixture->world);
    run_for(fixture, 10 * NS_PER_S);
    assert_int_equal(left.opened, 1);
    assert_int_equal(left.open_status, SNOW_OK);
    free(bytes);
    free(left.got);
    free(right.got);
}

static void test_a_process_crash_is_noticed_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct end left = {.got = malloc(16), .got_max = 16};
    struct end right = {.got = malloc(16), .got_max = 16};

    connect_ends(fixture, &left, &right, NULL);
    run_for(fixture, NS_PER_S);
    assert_int_equal(left.opened, 1);
    world_process_crash(fixture->envs[1]);
    assert_false(world_process_alive(fixture->envs[1]));
    run_for(fixture, 10 * NS_PER_MS);
    assert_true(left.ended);
    /* What the dead process still does has no effect, and frees its memory. */
    assert_int_equal(env_conn_send(right.conn, &(struct iovec){.iov_base = right.got, .iov_len = 1},
                                   1),
                     ENV_END);
    env_conn_close(right.conn, false);
    assert_int_equal(env_dial(fixture->loops[1], "left-host:1", NULL, &end_ops, &right,
                              &right.conn),
                     SNOW_CLOSED);
    world_process_end(fixture->envs[1]);
    start_process(fixture, 1);
    free(left.got);
    free(right.got);
}

static void test_a_host_crash_is_silent(void **state)
{
    struct fixture *fixture = *state;
    struct env_socket_options options = {.keepalive = true};
    struct end left = {.got = malloc(16), .got_max = 16};
    struct end right = {.got = malloc(16), .got_max = 16};
    char before[96];

    connect_ends(fixture, &left, &right, &options);
    run_for(fixture, NS_PER_S);
    snprintf(before, sizeof before, "%s", env_host(fixture->envs[1]));
    world_host_crash(fixture->hosts[1], false);
    run_for(fixture, 3 * NS_PER_S);
    assert_false(left.ended);
    /* It is back, and its kernel knows nothing of the connection. */
    world_host_boot(fixture->hosts[1]);
    run_for(fixture, 6 * NS_PER_S);
    assert_true(left.ended);
    world_process_end(fixture->envs[1]);
    start_process(fixture, 1);
    assert_string_not_equal(before, env_host(fixture->envs[1]));
    free(left.got);
    free(right.got);
}

static void test_a_paused_reader_fills_the_stream(void **state)
{
    struct fixture *fixture = *state;
    size_t size = 4 * MIB;
    uint8_t *bytes = some_bytes(size);
    struct end left = {.got = malloc(16), .got_max = 16, .to_send = bytes, .to_send_size = size};
    struct end right = {.got = malloc(size + 1), .got_max = size + 1};

    connect_ends(fixture, &left, &right, NULL);
    while (right.got_size < 1000)
        assert_true(world_step(fixture->world));
    world_process_pause(fixture->envs[1]);
    run_for(fixture, 60 * NS_PER_S);
    size_t unsent = left.to_send_size;

    assert_true(unsent > 2 * MIB);
    run_for(fixture, 60 * NS_PER_S);
    assert_int_equal(left.to_send_size, unsent);
    world_process_resume(fixture->envs[1]);
    run_for(fixture, 60 * NS_PER_S);
    assert_int_equal(right.got_size, size);
    assert_memory_equal(right.got, bytes, size);
    free(bytes);
    free(left.got);
    free(right.got);
}

/* ---- the same again ------------------------------------------------------------------------- */

static void count_line(void *owner, const char *line)
{
    (void)line;
    ++*(int *)owner;
}

/* A run with much traffic; junk: other addresses. */
static uint64_t run_once(uint64_t seed, bool junk)
{
    void *pieces[200] = {0};
    struct fixture fixture = {0};
    struct world_net lossy = world_net_lossy();
    size_t size = 400000;
    uint8_t *bytes = some_bytes(size);
    struct end left = {.got = malloc(16), .got_max = 16, .to_send = bytes, .to_send_size = size};
    struct end right = {.got = malloc(size + 1), .got_max = size + 1};
    int lines = 0;

    for (size_t i = 0; junk && i < 200; i++)
        pieces[i] = malloc(1 + i * 37);
    for (size_t i = 0; i < 200; i += 2) {
        free(pieces[i]);
        pieces[i] = NULL;
    }
    fixture.world = world_create(seed);
    fixture.hosts[0] = world_host_create(fixture.world, "left-host");
    fixture.hosts[1] = world_host_create(fixture.world, "right-host");
    world_set_net(fixture.world, &lossy);
    start_process(&fixture, 0);
    start_process(&fixture, 1);
    connect_ends(&fixture, &left, &right, NULL);
    run_for(&fixture, 2 * NS_PER_S);
    env_log_line(fixture.envs[0], "half way");
    world_cut(fixture.hosts[0], fixture.hosts[1]);
    run_for(&fixture, NS_PER_S);
    world_heal_all(fixture.world);
    run_for(&fixture, 20 * NS_PER_S);
    world_process_crash(fixture.envs[0]);
    run_for(&fixture, NS_PER_S);
    uint64_t hash = world_hash(fixture.world);

    world_transcript(fixture.world, count_line, &lines);
    assert_int_equal(lines, 2);
    world_destroy(fixture.world);
    for (size_t i = 0; i < 200; i++)
        free(pieces[i]);
    free(bytes);
    free(left.got);
    free(right.got);
    return hash;
}

static void test_same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t hash = run_once(seed, false);

        assert_true(hash == run_once(seed, true));
        assert_true(hash != run_once(seed + 1000, false));
    }
}

static void on_alarm(struct world_alarm *alarm)
{
    world_process_crash(world_process_start(world_host_create(alarm->event.world, "late"), "late"));
}

static bool is_never(void *owner)
{
    (void)owner;
    return false;
}

static void test_alarms(void **state)
{
    struct fixture *fixture = *state;
    struct world_alarm alarm = {.on_event = on_alarm};
    struct world_alarm cancelled = {.on_event = on_alarm};
    int lines = 0;

    world_alarm_cancel(&cancelled);
    world_alarm_arm(fixture->world, &alarm, NS_PER_S);
    world_alarm_arm(fixture->world, &cancelled, NS_PER_S);
    world_alarm_cancel(&cancelled);
    assert_false(world_run(fixture->world, is_never, NULL, NS_PER_MS));
    world_transcript(fixture->world, count_line, &lines);
    assert_int_equal(lines, 0);
    assert_false(world_run(fixture->world, is_never, NULL, FAR));
    world_transcript(fixture->world, count_line, &lines);
    assert_int_equal(lines, 1);
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_timers_and_time),
        WORLD_TEST(test_a_paused_process_gets_no_turn),
        WORLD_TEST(test_a_slow_host_and_a_stalled_loop),
        WORLD_TEST(test_tasks_and_hooks),
        WORLD_TEST(test_copies_come_in_pieces),
        WORLD_TEST(test_a_crash_tears_a_copy),
        WORLD_TEST(test_memory),
        WORLD_TEST(test_files_and_locks),
        WORLD_TEST(test_streams_keep_bytes_and_order),
        WORLD_TEST(test_a_close_comes_after_the_bytes),
        WORLD_TEST(test_refused_and_unknown),
        WORLD_TEST(test_a_cut_delays_and_then_breaks),
        WORLD_TEST(test_a_process_crash_is_noticed_at_once),
        WORLD_TEST(test_a_host_crash_is_silent),
        WORLD_TEST(test_a_paused_reader_fills_the_stream),
        WORLD_TEST(test_alarms),
        cmocka_unit_test(test_same_seed_same_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
