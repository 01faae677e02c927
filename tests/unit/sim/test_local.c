/* Within a host: connections by name, and memory that is handed over. */
#include "base/limits.h"
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* One end of a connection. */
struct end {
    struct env_conn *conn;
    enum snow_status open_status;
    struct env_listener *listener;
};

static void on_open(void *owner, enum snow_status status)
{
    ((struct end *)owner)->open_status = status;
}

static void on_event(void *owner)
{
    (void)owner;
}

static const struct env_conn_ops end_ops = {.on_open = on_open,
                                            .on_readable = on_event,
                                            .on_writable = on_event};

static void on_accept(void *owner, struct env_conn *conn)
{
    struct end *end = owner;

    end->conn = conn;
    env_conn_own(conn, &end_ops, end);
}

static struct env *start(struct world_host *host, const char *name, struct env_loop **loop)
{
    struct env *env = world_process_start(host, name);

    assert_non_null(env);
    assert_int_equal(env_loop_create(env, "main", loop), SNOW_OK);
    assert_int_equal(env_loop_start(*loop), SNOW_OK);
    return env;
}

static enum snow_status dial(struct world *world, struct env_loop *loop, const char *address,
                             struct end *end)
{
    end->open_status = SNOW_NOT_READY;
    assert_int_equal(env_dial(loop, address, NULL, &end_ops, end, &end->conn), SNOW_OK);
    world_run_until(world, world_now_ns(world) + NS_PER_S);
    return end->open_status;
}

static void test_memory_outlives_who_handed_it_over(void **state)
{
    struct world *world = world_create(1);
    struct world_host *host = world_host_create(world, "here");
    struct world_host *elsewhere = world_host_create(world, "there");
    struct env_loop *giver_loop;
    struct env_loop *guest_loop;
    struct env_loop *far_loop;
    struct env *giver = start(host, "giver", &giver_loop);
    struct env *guest = start(host, "guest", &guest_loop);
    struct end taker = {0};
    struct end dialled = {0};
    struct env_memory own;
    struct env_memory again;
    struct env_memory taken;

    (void)state;
    start(elsewhere, "far", &far_loop);
    assert_int_equal(env_listen(giver_loop, "unix:@", NULL, on_accept, &taker, &taker.listener),
                     SNOW_OK);
    /* Another host does not know that name. */
    assert_int_equal(dial(world, far_loop, env_listener_address(taker.listener), &dialled),
                     SNOW_UNREACHABLE);
    env_conn_close(dialled.conn, false);
    assert_int_equal(dial(world, guest_loop, env_listener_address(taker.listener), &dialled),
                     SNOW_OK);
    assert_non_null(taker.conn);
    assert_int_equal(env_memory_open(giver, "/d", "m", 4096, &own), SNOW_OK);
    own.at[1] = 'a';
    assert_int_equal(env_memory_take(dialled.conn, true, &taken), SNOW_NOT_READY);
    assert_int_equal(env_memory_send(taker.conn, &own, true), SNOW_OK);
    assert_int_equal(env_memory_take(dialled.conn, true, &taken), SNOW_OK);
    taken.at[2] = 'b';
    assert_int_equal(own.at[2], 'b');
    world_process_crash(giver);
    world_process_end(giver);
    taken.at[3] = 'c'; /* seen by nobody any more */
    giver = start(host, "giver", &giver_loop);
    assert_int_equal(env_memory_open(giver, "/d", "m", 4096, &again), SNOW_IN_USE);
    env_memory_close(guest, &taken);
    assert_int_equal(env_memory_open(giver, "/d", "m", 4096, &again), SNOW_OK);
    assert_true(again.existed);
    assert_memory_equal(again.at + 1, "ab", 3);
    env_memory_close(giver, &again);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_outlives_who_handed_it_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
