/* One seed of one scenario: work and faults, then mending, then all must work again, then rest.
 *
 * Checkers.  bytes, removed, expired: history.c, at each answer.  space: cluster_check, every 20
 *            virtual milliseconds; at rest, what the master counts as used is what the nodes hold.
 *            heal: after the faults every operation ends and succeeds.  groups: each that a crowd
 *            puts was whole. */
#include "sim/operator.h"

#include <string.h>

#define CHECK_NS (20 * NS_PER_MS)
#define HEAL_NS (300 * NS_PER_S)
#define REST_NS (100 * NS_PER_S)
#define GRANULE 256u

struct run {
    struct cluster *cluster;
    const struct scenario *scenario;
    struct world_alarm check;
    struct world_alarm fault;
};

static void on_check(struct world_alarm *alarm)
{
    struct run *run = list_entry(alarm, struct run, check);

    cluster_check(run->cluster);
    world_alarm_arm(run->cluster->world, alarm, world_now_ns(run->cluster->world) + CHECK_NS);
}

static void on_fault(struct world_alarm *alarm)
{
    struct run *run = list_entry(alarm, struct run, fault);
    struct cluster *cluster = run->cluster;
    uint64_t pause_ns = rng_between(&cluster->rng, 50, 4000) * NS_PER_MS;

    run->scenario->fault(cluster, &cluster->rng);
    if (cluster->plan.duration_ns > 60 * NS_PER_S)
        pause_ns *= 8;
    world_alarm_arm(cluster->world, alarm, world_now_ns(cluster->world) + pause_ns);
}

static void mend(struct cluster *cluster)
{
    struct world_net calm = world_net_calm();

    world_set_net(cluster->world, &calm);
    world_heal_all(cluster->world);
    world_host_slow(cluster->master.host, 1);
    cluster_master_start(cluster);
    for (uint32_t i = 0; i < cluster->plan.nodes; i++) {
        world_host_slow(cluster->nodes[i].host, 1);
        cluster_node_resume(cluster, i);
        cluster_node_start(cluster, i);
    }
    for (uint32_t i = 0; i < cluster->plan.clients; i++) {
        world_host_slow(actor_host(cluster->actors[i]), 1);
        actor_resume(cluster->actors[i]);
        actor_start(cluster->actors[i]);
    }
}

static bool over(void *owner)
{
    return ((struct cluster *)owner)->finding[0] != 0;
}

static bool all_idle(void *owner)
{
    struct cluster *cluster = owner;

    for (uint32_t i = 0; i < cluster->plan.clients; i++) {
        if (!actor_is_idle(cluster->actors[i]))
            return cluster->finding[0] != 0;
    }
    return operator_is_idle(cluster->operator) || cluster->finding[0] != 0;
}

/* Every operation under way ends; then each client puts, gets and removes once more,
 * and must succeed. */
static void heal(struct cluster *cluster)
{
    uint64_t until_ns = world_now_ns(cluster->world) + HEAL_NS;

    cluster->stopping = true;
    if (!world_run(cluster->world, all_idle, cluster, until_ns)) {
        cluster_find(cluster, "heal: an operation does not end");
        return;
    }
    if (cluster->finding[0] != 0)
        return; /* not all are idle */
    for (uint32_t i = 0; i < cluster->plan.clients; i++)
        actor_prove(cluster->actors[i]);
    if (!world_run(cluster->world, all_idle, cluster, world_now_ns(cluster->world) + HEAL_NS))
        cluster_find(cluster, "heal: an operation does not end after everything was mended");
}

static void check_rest(struct cluster *cluster)
{
    uint64_t held = 0;

    for (uint32_t i = 0; i < cluster->plan.nodes; i++)
        held += node_held_bytes(cluster->nodes[i].node, GRANULE);
    if (cluster_metric(cluster, "objects_writing") != 0)
        cluster_find(cluster, "space: at rest a write is still open");
    if (cluster_metric(cluster, "objects_closing") != 0)
        cluster_find(cluster, "space: at rest an object is still closing");
    if (cluster_metric(cluster, "waiters") != 0)
        cluster_find(cluster, "heal: at rest a put still waits");
    if (cluster_metric(cluster, "used_bytes") != held)
        cluster_find(cluster, "space: at rest the master counts other bytes than nodes hold");
    if (cluster_metric(cluster, "groups_forming") != 0)
        cluster_find(cluster, "groups: at rest one is still being formed");
    if (cluster_metric(cluster, "leased_bytes") != 0)
        cluster_find(cluster, "space: at rest a lease still runs");
    if (cluster_metric(cluster, "tasks_running") != 0 ||
        cluster_metric(cluster, "copies_under_way") != 0)
        cluster_find(cluster, "heal: at rest a task or a copy is under way");
    if (cluster_metric(cluster, "sessions") !=
        cluster->plan.clients + operator_sessions(cluster->operator))
        cluster_find(cluster, "heal: at rest there are other sessions than clients");
    if (cluster_metric(cluster, "nodes_alive") != cluster->plan.nodes ||
        cluster_metric(cluster, "nodes_missing") != 0)
        cluster_find(cluster, "heal: at rest a node is not alive, or one is still missing");
}

/* They take turns in a pool that holds few of them, and none is given up for it. */
static void check_crowd(struct cluster *cluster)
{
    uint32_t whole = 0;

    for (uint32_t i = 0; i < CLUSTER_GROUPS; i++)
        whole += cluster->group_whole[i];
    if (cluster->plan.crowd && whole < CLUSTER_GROUPS)
        cluster_find(cluster, "groups: of %u that were put together %u were never whole",
                     CLUSTER_GROUPS, CLUSTER_GROUPS - whole);
}

static void run_phases(struct run *run)
{
    struct cluster *cluster = run->cluster;
    struct world *world = cluster->world;

    world_run(world, over, cluster, world_now_ns(world) + cluster->plan.duration_ns);
    world_alarm_cancel(&run->fault);
    check_crowd(cluster);
    if (cluster->finding[0] == 0) {
        mend(cluster);
        heal(cluster);
    }
    if (cluster->finding[0] == 0)
        world_run(world, over, cluster, world_now_ns(world) + REST_NS);
    cluster_check(cluster);
    if (cluster->finding[0] == 0)
        check_rest(cluster);
}

struct run_result run_seed(const struct scenario *scenario, uint64_t seed, fault_set faults,
                           void (*on_line)(void *owner, const char *line), void *owner)
{
    struct run run = {.scenario = scenario};
    struct cluster_plan plan;
    struct run_result result;
    struct rng rng;

    rng_init(&rng, seed);
    scenario->plan(&plan, &rng);
    plan.faults = faults;
    run.cluster = cluster_create(seed, &plan);
    run.check.on_event = on_check;
    run.fault.on_event = on_fault;
    world_alarm_arm(run.cluster->world, &run.check, CHECK_NS);
    if (scenario->fault != NULL)
        world_alarm_arm(run.cluster->world, &run.fault, NS_PER_S);
    run_phases(&run);
    result = (struct run_result){.finding_ns = run.cluster->finding_ns,
                                 .hash = world_hash(run.cluster->world),
                                 .events = world_event_count(run.cluster->world),
                                 .puts = run.cluster->puts,
                                 .gets = run.cluster->gets,
                                 .hits = run.cluster->hits,
                                 .removes = run.cluster->removes};
    memcpy(result.finding, run.cluster->finding, sizeof(result.finding));
    if (result.finding[0] != 0 && on_line != NULL)
        world_transcript(run.cluster->world, on_line, owner);
    world_alarm_cancel(&run.check);
    cluster_stop(run.cluster);
    result.probes = run.cluster->probes;
    cluster_destroy(run.cluster);
    return result;
}
