/* The operator's turns: look at the nodes, ask for something, look at the tasks; again.
 *
 *   RESTING ─alarm─► LOOKING (nodes) ─► ASKING (a task, or to cancel one) ─► RESTING
 *                      └─ the cluster is stopping ─► ENDING (tasks: those that run are cancelled)
 * Invariants.
 *   O1  One drain at a time, and only with another node alive: a put finds room somewhere.
 *   O2  A process that was drained is started again by who looks after nodes (cluster.c). */
#include "sim/operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 4000u
#define REST_NS_MAX (800 * NS_PER_MS)
#define TASKS_MAX 64u

struct operator
{
    struct cluster *cluster;
    struct world_host *host;
    struct env *env; /* NULL: it has nothing to do */
    struct env_loop *loop;
    struct client *client;
    struct rng rng;
    struct world_alarm alarm;
    struct client_query_op op;
    bool under_way;
    bool ended;                            /* the cluster is stopping, and no task runs */
    uint32_t nodes[CLUSTER_NODES_MAX * 4]; /* numbers of those that are alive */
    uint32_t node_count;
    bool draining;             /* one is */
    uint64_t tasks[TASKS_MAX]; /* that run */
    uint32_t task_count;
    char name[24];
};

static void rest(struct operator* operator)
{
    struct world *world = operator->cluster->world;
    uint64_t most_ns = operator->cluster->stopping ? 20 * NS_PER_MS : REST_NS_MAX;

    world_alarm_arm(world, &operator->alarm,
                    world_now_ns(world) + rng_between(&operator->rng, NS_PER_MS, most_ns));
}

static void begin(struct operator* operator, void (*on_done)(struct client_query_op *op))
{
    client_query_end(&operator->op);
    memset(&operator->op, 0, sizeof(operator->op));
    operator->op.on_done = on_done;
    operator->under_way = true;
}

static void on_asked(struct client_query_op *op)
{
    struct operator* operator= list_entry(op, struct operator, op);

    operator->under_way = false;
    world_note(operator->cluster->world, &op->status, sizeof(op->status));
    rest(operator);
}

/* ---- tasks that run ---- */

static void cancel_one(struct operator* operator)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    uint64_t id = operator->tasks[rng_below(&operator->rng, operator->task_count)];

    begin(operator, on_asked);
    operator->op.task = id;
    client_task_cancel_start(operator->client, &operator->op, &call);
}

static void on_tasks(struct client_query_op *op)
{
    struct operator* operator= list_entry(op, struct operator, op);

    operator->under_way = false;
    operator->task_count = 0;
    for (uint32_t i = 0; i < op->count && operator->task_count<TASKS_MAX; i++) {
        if (strcmp(op->tasks[i].state, "running") == 0)
            operator->tasks[operator->task_count++] = op->tasks[i].id;
    }
    operator->ended = operator->cluster->stopping && op->status == SNOW_OK &&
    operator->task_count == 0;
    if (operator->task_count> 0)
        cancel_one(operator);
    else if (!operator->ended)
        rest(operator);
}

static void look_at_tasks(struct operator* operator)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    begin(operator, on_tasks);
    client_tasks_start(operator->client, &operator->op, &call);
}

/* ---- a new one ---- */

static uint32_t any_node(struct operator* operator)
{
    return operator->nodes[rng_below(&operator->rng, operator->node_count)];
}

static void start_task(struct operator* operator)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    uint64_t draw = rng_below(&operator->rng, 10);
    bool drain = draw == 0 && operator->node_count> 1 && !operator->draining;
    bool move = draw < 5;
    uint64_t key = rng_below(&operator->rng, operator->cluster->plan.keys);

    begin(operator, on_asked);
    struct snow_task *wish = &operator->op.wish;

    wish->kind = drain ? SNOW_TASK_DRAIN : move ? SNOW_TASK_MOVE : SNOW_TASK_COPY;
    if (drain || move)
        wish->from = any_node(operator);
    if (!drain) {
        wish->to = any_node(operator);
        snprintf(operator->name, sizeof(operator->name), "key-%llu", (unsigned long long)key);
        wish->key = (struct snow_key){.at = operator->name, .size = strlen(operator->name)};
    } else if (rng_chance(&operator->rng, 1, 2)) {
        wish->rate = rng_between(&operator->rng, 100 * KIB, 10 * MIB);
    }
    client_task_start(operator->client, &operator->op, &call);
}

static void on_nodes(struct client_query_op *op)
{
    struct operator* operator= list_entry(op, struct operator, op);

    operator->under_way = false;
    operator->node_count = 0;
    operator->draining = false;
    for (uint32_t i = 0; i < op->count; i++) {
        operator->draining = operator->draining || strcmp(op->nodes[i].state, "draining") == 0;
        if (strcmp(op->nodes[i].state, "alive") == 0 && operator->node_count<
                                                            sizeof(operator->nodes) /
                                                            sizeof(operator->nodes[0]))
            operator->nodes[operator->node_count++] = op->nodes[i].number;
    }
    if (operator->cluster->stopping || rng_chance(&operator->rng, 1, 12))
        look_at_tasks(operator);
    else if (operator->node_count> 0)
        start_task(operator);
    else
        rest(operator);
}

static void on_alarm(struct world_alarm *alarm)
{
    struct operator* operator= list_entry(alarm, struct operator, alarm);
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    if (operator->under_way || operator->ended)
        return;
    begin(operator, on_nodes);
    client_nodes_start(operator->client, &operator->op, &call);
}

/* ---- life ---- */

struct operator* operator_create(struct cluster *cluster, uint64_t seed)
{
    struct operator* operator= calloc(1, sizeof(*operator));
    struct client_options options;
    const char *reason;

    ASSERT(operator!= NULL);
    operator->cluster = cluster;
    operator->alarm.on_event = on_alarm;
    rng_init(&operator->rng, seed ^ UINT64_C(0x09e7a704));
    if (!cluster->plan.tasks || rng_chance(&operator->rng, 1, 2))
        return operator;
    operator->host = world_host_create(cluster->world, "operator");
    ASSERT(operator->host != NULL);
    operator->env = world_process_start(operator->host, "operator");
    ASSERT(operator->env != NULL);
    client_options_init(&options);
    options.master = "master:7600";
    enum snow_status status = env_loop_create(operator->env, "operator", &operator->loop);

    ASSERT(status == SNOW_OK);
    status = client_create(operator->loop, &options, &operator->client, &reason);
    ASSERT(status == SNOW_OK);
    status = env_loop_start(operator->loop);
    ASSERT(status == SNOW_OK);
    rest(operator);
    return operator;
}

void operator_stop(struct operator* operator)
{
    if (operator->env == NULL)
        return;
    world_alarm_cancel(&operator->alarm);
    world_process_crash(operator->env);
    if (operator->under_way)
        client_query_cancel(&operator->op);
    client_query_end(&operator->op);
    client_destroy(operator->client);
    env_loop_destroy(operator->loop);
    world_process_end(operator->env);
    operator->env = NULL;
}

void operator_destroy(struct operator* operator)
{
    operator_stop(operator);
    free(operator);
}

bool operator_is_idle(const struct operator* operator)
{
    return operator->env == NULL || operator->ended;
}

uint32_t operator_sessions(const struct operator* operator)
{
    return operator->env != NULL;
}
