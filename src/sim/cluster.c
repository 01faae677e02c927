#include "sim/cluster.h"

#include "sim/operator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTER_ADDRESS "master:7600"
#define METRICS_MAX 128u

static void on_line(void *owner, const char *line)
{
    env_log_line(owner, line);
}

static uint64_t wall_ms(void *owner)
{
    return env_wall_ms(owner);
}

void cluster_find(struct cluster *cluster, const char *format, ...)
{
    va_list list;

    if (cluster->finding[0] != 0)
        return;
    va_start(list, format);
    vsnprintf(cluster->finding, sizeof(cluster->finding), format, list);
    va_end(list);
    cluster->finding_ns = world_now_ns(cluster->world);
}

/* ---- the master ---- */

void cluster_master_start(struct cluster *cluster)
{
    struct sim_master *master = &cluster->master;
    struct master_options options;
    const char *reason = "";

    if (master->env != NULL)
        return;
    master->env = world_process_start(master->host, "master");
    ASSERT(master->env != NULL);
    obs_log_init(&master->log, OBS_INFO, on_line, wall_ms, master->env);
    conf_defaults(master_options_table(), &options);
    options.listen = MASTER_ADDRESS;
    options.state_dir = cluster->plan.keep_state ? "state" : "";
    if (master_open(master->env, &options, &cluster->plan.core, &master->log, &master->master,
                    &reason) != SNOW_OK)
        cluster_find(cluster, "heal: the master does not start: %s", reason);
}

uint64_t cluster_metric(const struct cluster *cluster, const char *name)
{
    uint64_t values[METRICS_MAX];

    if (cluster->master.master == NULL)
        return 0;
    ASSERT(core_metric_count() <= METRICS_MAX);
    core_metrics(master_core(cluster->master.master), values);
    for (uint32_t i = 0; i < core_metric_count(); i++) {
        if (strcmp(core_metric_name(i), name) == 0)
            return values[i];
    }
    ASSERT(false); /* no such metric */
    return 0;
}

static void probe_master(struct cluster *cluster)
{
    uint64_t values[METRICS_MAX];

    ASSERT(core_metric_count() <= METRICS_MAX);
    core_metrics(master_core(cluster->master.master), values);
    probe_add(&cluster->probes, "core", core_metric_count(), core_metric_name, values);
}

void cluster_master_crash(struct cluster *cluster)
{
    struct sim_master *master = &cluster->master;

    if (master->env == NULL)
        return;
    if (master->master != NULL)
        probe_master(cluster);
    world_process_crash(master->env);
    if (master->master != NULL)
        master_close(master->master);
    master->master = NULL;
    world_process_end(master->env);
    master->env = NULL;
}

/* ---- nodes ---- */

#define AGAIN_NS (50 * NS_PER_MS)

static void on_again(struct world_alarm *alarm)
{
    struct sim_node *node = list_entry(alarm, struct sim_node, again);

    cluster_node_start(node->cluster, node->index);
}

void cluster_node_start(struct cluster *cluster, uint32_t index)
{
    struct sim_node *node = &cluster->nodes[index];
    struct node_options options;
    const char *reason = "";
    char name[32];

    if (node->env != NULL)
        return;
    snprintf(name, sizeof(name), "node-%u", index);
    node->env = world_process_start(node->host, name);
    ASSERT(node->env != NULL);
    obs_log_init(&node->log, OBS_INFO, on_line, wall_ms, node->env);
    conf_defaults(node_options_table(), &options);
    snprintf(name, sizeof(name), "node-%u:0", index);
    options.listen = name;
    options.master = MASTER_ADDRESS;
    options.memory_bytes = cluster->plan.node_bytes;
    options.slot_bytes = cluster->plan.slot_bytes == 0 ? 1 * KIB : cluster->plan.slot_bytes;
    options.segment_dir = "segments";
    options.populate = cluster->plan.populate;
    options.populate_step_bytes = cluster->plan.populate_step;
    enum snow_status status =
        node_open(node->env, &options, bytes_of(NULL, 0), &node->log, &node->node, &reason);

    if (status == SNOW_IN_USE) { /* as who starts nodes does: once more, a little later */
        world_process_end(node->env);
        node->env = NULL;
        node->again.on_event = on_again;
        world_alarm_arm(cluster->world, &node->again, world_now_ns(cluster->world) + AGAIN_NS);
    } else if (status != SNOW_OK) {
        cluster_find(cluster, "heal: a node does not start: %s", reason);
    }
}

static void node_end(struct sim_node *node)
{
    uint64_t values[METRICS_MAX];

    ASSERT(node_metric_count() <= METRICS_MAX);
    if (node->node != NULL) {
        node_metrics(node->node, values);
        probe_add(&node->cluster->probes, "node", node_metric_count(), node_metric_name, values);
        node_close(node->node);
    }
    node->node = NULL;
    world_process_end(node->env);
    node->env = NULL;
}

void cluster_node_pause(struct cluster *cluster, uint32_t index)
{
    struct sim_node *node = &cluster->nodes[index];

    if (node->env == NULL || node->paused)
        return;
    node->paused = true;
    world_process_pause(node->env);
}

void cluster_node_resume(struct cluster *cluster, uint32_t index)
{
    struct sim_node *node = &cluster->nodes[index];

    if (!node->paused)
        return;
    node->paused = false;
    world_process_resume(node->env);
}

void cluster_node_crash(struct cluster *cluster, uint32_t index)
{
    struct sim_node *node = &cluster->nodes[index];

    if (node->env == NULL)
        return;
    node->paused = false;
    world_process_crash(node->env);
    node_end(node);
}

void cluster_node_host_crash(struct cluster *cluster, uint32_t index, bool keep_memory)
{
    struct sim_node *node = &cluster->nodes[index];

    if (node->env == NULL)
        return;
    node->paused = false;
    world_host_crash(node->host, keep_memory);
    node_end(node);
    for (uint32_t i = 0; i < cluster->plan.clients; i++) {
        if (actor_host(cluster->actors[i]) == node->host)
            actor_crash(cluster->actors[i]);
    }
    world_host_boot(node->host);
    for (uint32_t i = 0; i < cluster->plan.clients; i++)
        actor_start(cluster->actors[i]);
}

/* ---- all of it ---- */

struct cluster *cluster_create(uint64_t seed, const struct cluster_plan *plan)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    char name[32];

    ASSERT(cluster != NULL);
    cluster->plan = *plan;
    cluster->world = world_create(seed);
    ASSERT(cluster->world != NULL);
    rng_init(&cluster->rng, seed ^ UINT64_C(0x5eed));
    cluster->history = history_create();
    ASSERT(cluster->history != NULL);
    world_set_faults(cluster->world, plan->faults);
    world_set_net(cluster->world, &plan->net);
    cluster->master.cluster = cluster;
    cluster->master.host = world_host_create(cluster->world, "master");
    cluster_master_start(cluster);
    for (uint32_t i = 0; i < plan->nodes; i++) {
        snprintf(name, sizeof(name), "node-%u", i);
        cluster->nodes[i].cluster = cluster;
        cluster->nodes[i].index = i;
        cluster->nodes[i].host = world_host_create(cluster->world, name);
        world_host_memory(cluster->nodes[i].host, plan->host_bytes);
        cluster_node_start(cluster, i);
    }
    for (uint32_t i = 0; i < plan->clients; i++)
        cluster->actors[i] = actor_create(cluster, i);
    cluster->operator= operator_create(cluster, seed);
    return cluster;
}

void cluster_stop(struct cluster *cluster)
{
    operator_stop(cluster->operator);
    for (uint32_t i = 0; i < cluster->plan.clients; i++)
        actor_crash(cluster->actors[i]);
    for (uint32_t i = 0; i < cluster->plan.nodes; i++) {
        world_alarm_cancel(&cluster->nodes[i].again);
        cluster_node_crash(cluster, i);
    }
    cluster_master_crash(cluster);
}

void cluster_destroy(struct cluster *cluster)
{
    cluster_stop(cluster);
    for (uint32_t i = 0; i < cluster->plan.clients; i++)
        actor_destroy(cluster->actors[i]);
    operator_destroy(cluster->operator);
    world_destroy(cluster->world);
    history_destroy(cluster->history);
    free(cluster);
}

/* A node that was drained ends by itself; whoever looks after it starts it again. */
static void look_after(struct cluster *cluster, uint32_t index)
{
    const struct node *node = cluster->nodes[index].node;

    if (node == NULL || cluster->nodes[index].paused || !node_is_drained(node))
        return;
    cluster_node_crash(cluster, index);
    cluster_node_start(cluster, index);
}

/* P3, N2, T1: the nodes' slots and what is inside them.  K1-K5: the core's own, by assertions. */
void cluster_check(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->plan.nodes; i++) {
        struct node *node = cluster->nodes[i].node;
        const char *wrong = node == NULL ? NULL : node_check(node);

        if (wrong != NULL)
            cluster_find(cluster, "space: %s", wrong);
        look_after(cluster, i);
    }
    if (cluster->master.master != NULL)
        core_check(master_core(cluster->master.master));
}
