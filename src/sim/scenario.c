/* Scenarios: what a cluster looks like and what goes wrong in it.
 *
 * plan draws a cluster; fault is called again and again while the clients work; mend puts right
 * what can be put right, so that afterwards everything must work again.  run.c drives them. */
#include "sim/cluster.h"

#include <string.h>

#define SECOND NS_PER_S
#define CROWD_MEMBERS (4 * CLUSTER_MEMBERS) /* that the pool of a crowd holds */
#define WELL_NS (15 * SECOND)               /* a node that came back is avoided for a while */

static void draw_growth(struct cluster_plan *plan, struct rng *rng)
{
    struct node_options options;

    conf_random(node_options_table(), &options, rng);
    plan->populate = options.populate;
    plan->populate_step = options.populate_step_bytes;
    /* Now and then a host that has not all that its node wants to give, but its first step. */
    if (!rng_chance(rng, 1, 6))
        return;
    if (plan->populate_step > plan->node_bytes / 8)
        plan->populate_step = plan->node_bytes / 8;
    plan->host_bytes = plan->node_bytes * rng_between(rng, 60, 120) / 100 + MIB;
}

static void draw_options(struct cluster_plan *plan, struct rng *rng)
{
    conf_random(master_core_options_table(), &plan->core, rng);
    plan->core.reserve_bytes = 0;
    plan->core.hard_pin_percent = 25;
    if (plan->core.dead_after_ns < 2 * plan->core.suspect_after_ns)
        plan->core.dead_after_ns = 2 * plan->core.suspect_after_ns;
    if (plan->core.session_end_ns < plan->core.session_return_ns)
        plan->core.session_end_ns = plan->core.session_return_ns;
    if (plan->core.lease_max_ns < plan->core.lease_min_ns)
        plan->core.lease_max_ns = plan->core.lease_min_ns;
}

static void plan_any(struct cluster_plan *plan, struct rng *rng)
{
    *plan = (struct cluster_plan){.nodes = (uint32_t)rng_between(rng, 1, 3),
                                  .clients = (uint32_t)rng_between(rng, 2, 4),
                                  .keys = (uint32_t)rng_between(rng, 4, 60),
                                  .node_bytes = 2 * MIB,
                                  .near_percent = (uint32_t)rng_below(rng, 3) * 50,
                                  .object_max = rng_between(rng, 100, 40000),
                                  .duration_ns = rng_between(rng, 5, 20) * SECOND,
                                  .replace_percent = (uint32_t)rng_below(rng, 40),
                                  .remove_percent = (uint32_t)rng_below(rng, 25),
                                  .keep_state = true,
                                  .tasks = true,
                                  .net = world_net_calm()};
    draw_options(plan, rng);
    draw_growth(plan, rng);
}

/* ---- faults ---- */

static struct world_host *any_host(struct cluster *cluster, struct rng *rng)
{
    uint64_t count = 1 + cluster->plan.nodes + cluster->plan.clients;
    uint64_t at = rng_below(rng, count);

    if (at == 0)
        return cluster->master.host;
    if (at <= cluster->plan.nodes)
        return cluster->nodes[at - 1].host;
    return actor_host(cluster->actors[at - 1 - cluster->plan.nodes]);
}

static void fault_partition(struct cluster *cluster, struct rng *rng)
{
    struct world_host *a = any_host(cluster, rng);
    struct world_host *b = any_host(cluster, rng);

    if (a != b && rng_chance(rng, 2, 3))
        world_cut(a, b);
    else
        world_heal_all(cluster->world);
}

static void fault_slow(struct cluster *cluster, struct rng *rng)
{
    bool fast = rng_chance(rng, 1, 2);

    world_host_slow(any_host(cluster, rng), fast ? 1 : (uint32_t)rng_between(rng, 2, 200));
}

static void fault_node(struct cluster *cluster, struct rng *rng)
{
    uint32_t index = (uint32_t)rng_below(rng, cluster->plan.nodes);

    if (cluster->nodes[index].env == NULL)
        cluster_node_start(cluster, index);
    else if (rng_chance(rng, 2, 3))
        cluster_node_crash(cluster, index);
    else
        cluster_node_host_crash(cluster, index, rng_chance(rng, 1, 2));
}

static void mend_node(struct cluster *cluster, uint32_t index)
{
    cluster_node_resume(cluster, index);
    cluster_node_start(cluster, index);
    world_heal_all(cluster->world);
    cluster->bad = 0;
    cluster->mended_ns = world_now_ns(cluster->world);
}

/* One node is out of order, for a while; then all are well for a while, so that it comes back. */
static void fault_one_node(struct cluster *cluster, struct rng *rng)
{
    if (cluster->bad != 0) {
        if (rng_chance(rng, 1, 3))
            mend_node(cluster, cluster->bad - 1);
        return;
    }
    if (world_now_ns(cluster->world) < cluster->mended_ns + WELL_NS)
        return;
    uint32_t index = (uint32_t)rng_below(rng, cluster->plan.nodes);
    struct world_host *host = cluster->nodes[index].host;

    cluster->bad = index + 1;
    cluster->last_bad = index;
    switch (rng_below(rng, 5)) {
    case 0:
        cluster_node_crash(cluster, index);
        return;
    case 1:
        cluster_node_host_crash(cluster, index, true);
        return;
    case 2:
        world_cut(host, cluster->master.host);
        return;
    case 3:
        for (uint32_t i = 0; i < cluster->plan.clients; i++) {
            if (actor_host(cluster->actors[i]) != host)
                world_cut(host, actor_host(cluster->actors[i]));
        }
        return;
    default:
        cluster_node_pause(cluster, index);
    }
}

static void fault_client(struct cluster *cluster, struct rng *rng)
{
    struct actor *actor = cluster->actors[rng_below(rng, cluster->plan.clients)];

    actor_crash(actor);
    actor_start(actor);
}

static void fault_pause(struct cluster *cluster, struct rng *rng)
{
    struct actor *actor = cluster->actors[rng_below(rng, cluster->plan.clients)];

    if (rng_chance(rng, 1, 2))
        actor_pause(actor);
    else
        actor_resume(actor);
}

static void fault_master(struct cluster *cluster, struct rng *rng)
{
    (void)rng;
    if (cluster->master.env == NULL)
        cluster_master_start(cluster);
    else
        cluster_master_crash(cluster);
}

static void fault_any(struct cluster *cluster, struct rng *rng)
{
    static void (*const faults[])(struct cluster *, struct rng *) = {
        fault_partition, fault_slow, fault_node, fault_client, fault_pause, fault_master,
    };

    faults[rng_below(rng, sizeof(faults) / sizeof(faults[0]))](cluster, rng);
}

/* ---- plans ---- */

static void plan_calm(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->must_make_room = true;
}

static void plan_lossy(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->net = world_net_lossy();
}

static void plan_full(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->keys = HISTORY_KEYS;
    plan->object_max = rng_between(rng, 30000, 120000);
    plan->remove_percent = 0;
    plan->must_make_room = true;
}

/* A client that is stopped must find its grant forgotten when it goes on: minutes pass. */
static void plan_stopped(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->keys = HISTORY_KEYS;
    plan->object_max = rng_between(rng, 30000, 120000);
    plan->duration_ns = rng_between(rng, 60, 200) * SECOND;
}

static void plan_everything(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    if (rng_chance(rng, 1, 2))
        plan->net = world_net_lossy();
    plan->duration_ns = rng_between(rng, 10, 60) * SECOND;
}

static void plan_one_node(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->nodes = (uint32_t)rng_between(rng, 3, CLUSTER_NODES_MAX);
    plan->copies = 2;
    plan->tasks = false;                 /* no other node is to be out of order */
    plan->get_ns_max = 1900 * NS_PER_MS; /* less than twice what a client waits for a node */
    plan->duration_ns = rng_between(rng, 60, 200) * SECOND;
}

static void plan_restarts(struct cluster_plan *plan, struct rng *rng)
{
    plan_any(plan, rng);
    plan->remove_percent = (uint32_t)rng_between(rng, 10, 30);
    plan->duration_ns = rng_between(rng, 10, 40) * SECOND;
}

/* Every group that begins takes what another one needs. */
static void plan_crowd(struct cluster_plan *plan, struct rng *rng)
{
    struct core_options defaults;

    plan_any(plan, rng);
    conf_defaults(master_core_options_table(), &defaults);
    plan->core.group_form_ns = defaults.group_form_ns;
    plan->core.group_abandoned_ns = defaults.group_abandoned_ns;
    plan->must_make_room = true;
    plan->crowd = true;
    plan->clients = CLUSTER_GROUPS * CLUSTER_MEMBERS;
    plan->keys = 0;
    plan->tasks = false;
    plan->nodes = (uint32_t)rng_between(rng, 1, 2);
    plan->node_bytes = 2 * MIB / plan->nodes;
    plan->host_bytes = 0;
    plan->object_max = 2 * MIB / CROWD_MEMBERS - 4 * KIB;
    plan->duration_ns = 20 * SECOND;
}

#define plan_partition plan_any
#define plan_slow_peer plan_any
#define plan_node_crash plan_restarts
#define plan_client_crash plan_any
#define plan_stopped_client plan_stopped
#define plan_full_pool plan_full
#define plan_master_restart plan_restarts

#define fault_calm NULL
#define fault_lossy NULL
#define fault_slow_peer fault_slow
#define fault_node_crash fault_node
#define fault_client_crash fault_client
#define fault_stopped_client fault_pause
#define fault_full_pool NULL
#define fault_master_restart fault_restart
#define fault_crowd NULL
#define fault_everything fault_any

/* Nodes come and go as well: what the master forgets to forget shows. */
static void fault_restart(struct cluster *cluster, struct rng *rng)
{
    if (rng_chance(rng, 1, 2))
        fault_master(cluster, rng);
    else
        fault_node(cluster, rng);
}

static const struct scenario scenarios[] = {
#define SCENARIO(name, text) {#name, text, plan_##name, fault_##name},
#include "sim/scenarios.def"
#undef SCENARIO
};

uint32_t scenario_count(void)
{
    return sizeof(scenarios) / sizeof(scenarios[0]);
}

const struct scenario *scenario_at(uint32_t index)
{
    return &scenarios[index];
}

const struct scenario *scenario_find(const char *name)
{
    for (uint32_t i = 0; i < scenario_count(); i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    }
    return NULL;
}
