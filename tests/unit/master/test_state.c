/* The state file: what a master reads of it, and what it refuses. */
#include "env/linux.h"
#include "master/master.h"
#include "master/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct env *env;
    struct obs_log log;
    char dir[64];
};

static void on_line(void *owner, const char *line)
{
    (void)owner;
    (void)line;
}

static uint64_t wall_ms(void *owner)
{
    return env_wall_ms(owner);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->env = env_linux_create();
    snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/snowskin-state-%d", (int)getpid());
    obs_log_init(&fixture->log, OBS_WARNING, on_line, wall_ms, fixture->env);
    *state = fixture;
    return env_dir_lock(fixture->env, fixture->dir) == SNOW_OK ? 0 : 1;
}

/* The lock of setup would keep the master out. */
static void unlock(struct fixture *fixture)
{
    env_linux_destroy(fixture->env);
    fixture->env = env_linux_create();
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    snprintf(path, sizeof(path), "%s/state", fixture->dir);
    unlink(path);
    rmdir(fixture->dir);
    env_linux_destroy(fixture->env);
    free(fixture);
    return 0;
}

static enum snow_status open_named(struct fixture *fixture, const char *cluster,
                                   const char **reason)
{
    struct master_options options;
    struct core_options core_options = core_options_default();
    struct master *master;

    conf_defaults(master_options_table(), &options);
    options.listen = "127.0.0.1:0";
    options.state_dir = fixture->dir;
    options.cluster = cluster;
    enum snow_status status =
        master_open(fixture->env, &options, &core_options, &fixture->log, &master, reason);

    if (status == SNOW_OK)
        master_close(master);
    return status;
}

static enum snow_status open_master(struct fixture *fixture, const char **reason)
{
    return open_named(fixture, "", reason);
}

/* The id in the state file after a first start. */
static uint64_t first_cluster(struct fixture *fixture, const char *cluster)
{
    struct wire_master_state read;
    char path[300];
    struct arena arena;
    const char *reason;

    snprintf(path, sizeof(path), "%s/state", fixture->dir);
    unlink(path);
    unlock(fixture);
    assert_int_equal(open_named(fixture, cluster, &reason), SNOW_OK);
    arena_init(&arena, 0);
    assert_int_equal(master_state_read(fixture->env, fixture->dir, &arena, &read), SNOW_OK);
    arena_deinit(&arena);
    return read.cluster;
}

/* A state that was lost: the same name is the same cluster; without one it is another. */
static void a_name_is_a_cluster(void **state)
{
    struct fixture *fixture = *state;
    uint64_t cluster = first_cluster(fixture, "kv");

    assert_int_not_equal(cluster, 0);
    assert_int_equal(first_cluster(fixture, "kv"), cluster);
    assert_int_not_equal(first_cluster(fixture, "kv2"), cluster);
    assert_int_not_equal(first_cluster(fixture, ""), first_cluster(fixture, ""));
}

static void a_master_takes_the_next_term(void **state)
{
    struct fixture *fixture = *state;
    struct wire_id expected = {.id = 7};
    struct wire_master_state kept = {
        .cluster = 5, .term = 41, .expected = &expected, .expected_count = 1};
    struct wire_master_state read;
    struct arena arena;
    const char *reason;

    assert_int_equal(master_state_write(fixture->env, fixture->dir, &kept), SNOW_OK);
    unlock(fixture);
    assert_int_equal(open_master(fixture, &reason), SNOW_OK);
    arena_init(&arena, 0);
    assert_int_equal(master_state_read(fixture->env, fixture->dir, &arena, &read), SNOW_OK);
    assert_int_equal(read.cluster, 5);
    assert_int_equal(read.term, 42);
    assert_int_equal(read.expected_count, 1);
    assert_int_equal(read.expected[0].id, 7);
    arena_deinit(&arena);
}

/* Beyond the last one generations would begin again. */
static void terms_that_are_used_up_are_told(void **state)
{
    struct fixture *fixture = *state;
    struct wire_master_state kept = {.cluster = 5, .term = WIRE_TERM_MAX};
    const char *reason;

    assert_int_equal(master_state_write(fixture->env, fixture->dir, &kept), SNOW_OK);
    unlock(fixture);
    assert_int_equal(open_master(fixture, &reason), SNOW_INVALID);
    assert_non_null(strstr(reason, "terms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_master_takes_the_next_term, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_is_a_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(terms_that_are_used_up_are_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
