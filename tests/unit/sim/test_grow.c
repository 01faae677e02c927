/* A node whose host runs out of memory while it grows: it offers less, and all again when there is
 * memory again.  Over the simulated world, where memory has a bound and time is free. */
#include "base/limits.h"
#include "core/core.h"
#include "master/master.h"
#include "node/node.h"
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MEMORY (8 * MIB)

struct small {
    struct world *world;
    struct world_host *host; /* of the node */
    struct env *master_env;
    struct env *node_env;
    struct obs_log log;
    struct master *master;
    struct node *node;
    uint32_t warnings;
};

static void on_line(void *owner, const char *line)
{
    ((struct small *)owner)->warnings += strstr(line, "warning") != NULL;
}

static uint64_t wall_ms(void *owner)
{
    (void)owner;
    return 0;
}

static void open_all(struct small *small, uint32_t populate, uint64_t host_bytes)
{
    struct master_options master_options;
    struct node_options node_options;
    struct core_options core_options = core_options_default();
    const char *reason = "";

    memset(small, 0, sizeof(*small));
    small->world = world_create(1);
    small->host = world_host_create(small->world, "node");
    world_host_memory(small->host, host_bytes);
    small->master_env = world_process_start(world_host_create(small->world, "master"), "master");
    small->node_env = world_process_start(small->host, "node");
    obs_log_init(&small->log, OBS_WARNING, on_line, wall_ms, small);
    conf_defaults(master_options_table(), &master_options);
    master_options.listen = "master:7600";
    assert_int_equal(master_open(small->master_env, &master_options, &core_options, &small->log,
                                 &small->master, &reason),
                     SNOW_OK);
    conf_defaults(node_options_table(), &node_options);
    node_options.listen = "node:0";
    node_options.master = "master:7600";
    node_options.memory_bytes = MEMORY;
    node_options.populate = populate;
    node_options.populate_step_bytes = 512 * KIB;
    assert_int_equal(node_open(small->node_env, &node_options, bytes_of(NULL, 0), &small->log,
                               &small->node, &reason),
                     SNOW_OK);
}

static void close_all(struct small *small)
{
    node_close(small->node);
    master_close(small->master);
    world_process_end(small->node_env);
    world_process_end(small->master_env);
    world_destroy(small->world);
}

static void run(struct small *small, uint64_t for_ns)
{
    world_run_until(small->world, world_now_ns(small->world) + for_ns);
}

static uint64_t core_value(struct small *small, const char *name)
{
    uint64_t values[128];

    assert_true(core_metric_count() <= 128);
    core_metrics(master_core(small->master), values);
    for (uint32_t i = 0; i < core_metric_count(); i++) {
        if (strcmp(core_metric_name(i), name) == 0)
            return values[i];
    }
    fail_msg("no metric %s", name);
    return 0;
}

static void all_of_it_is_committed_by_itself(void **state)
{
    struct small small;

    (void)state;
    open_all(&small, NODE_POPULATE_ALL, 0);
    assert_true(node_is_growing(small.node));
    run(&small, 5 * NS_PER_S);
    assert_true(node_is_mounted(small.node) && !node_is_growing(small.node));
    assert_int_equal(core_value(&small, "ready_bytes"), MEMORY);
    assert_int_equal(small.warnings, 0);
    close_all(&small);
}

static void ahead_nothing_is_committed_that_nobody_needs(void **state)
{
    struct small small;

    (void)state;
    open_all(&small, NODE_POPULATE_AHEAD, 0);
    run(&small, 5 * NS_PER_S);
    assert_true(node_is_mounted(small.node) && !node_is_growing(small.node));
    assert_int_equal(core_value(&small, "pool_bytes"), MEMORY);
    assert_int_equal(core_value(&small, "ready_bytes"), 512 * KIB);
    close_all(&small);
}

static void a_host_without_memory_shrinks_the_offer_until_it_has_some(void **state)
{
    struct small small;

    (void)state;
    open_all(&small, NODE_POPULATE_ALL, MEMORY); /* its records need some as well */
    run(&small, 5 * NS_PER_S);
    uint64_t offered = core_value(&small, "pool_bytes");

    assert_true(offered < MEMORY && offered >= MEMORY - MIB);
    assert_int_equal(core_value(&small, "ready_bytes"), offered);
    assert_int_equal(core_value(&small, "offers_shrunk"), 1);
    assert_int_equal(small.warnings, 1); /* said once, however often it is tried again */
    run(&small, 40 * NS_PER_S);
    assert_int_equal(small.warnings, 1);
    assert_int_equal(core_value(&small, "pool_bytes"), offered);
    world_host_memory(small.host, 64 * MIB);
    run(&small, 15 * NS_PER_S);
    assert_int_equal(core_value(&small, "pool_bytes"), MEMORY);
    assert_int_equal(core_value(&small, "ready_bytes"), MEMORY);
    close_all(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_committed_by_itself),
        cmocka_unit_test(ahead_nothing_is_committed_that_nobody_needs),
        cmocka_unit_test(a_host_without_memory_shrinks_the_offer_until_it_has_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
