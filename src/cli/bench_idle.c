/* bench --op idle: what a cluster costs while nobody asks for anything.
 *
 * A thousand clients of this process, on one loop, connect to a master and then say nothing. */
#include "cli/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define CLIENTS 1000u
#define NODE_BYTES (256 * MIB)
#define NODE_SLOT (4 * KIB) /* data bytes for each slot of its table: the default of nodes */
#define CONNECT_NS (20 * NS_PER_S)
#define POPULATE_NS (20 * NS_PER_S)
#define SETTLE_NS (500 * NS_PER_MS)
#define WATCH_NS (3 * NS_PER_S)

struct idle {
    struct bench *bench;
    struct env_loop *loop;
    struct client *clients[CLIENTS];
    uint32_t count;
    double bytes_per_client; /* of the master's memory */
    double node_bytes;       /* of the node's memory, beside its data: meta, and the process */
    double master_percent;   /* of a core */
    double node_percent;
    double clients_percent; /* all of them */
};

/* Turns the loop for that long. */
static void turn_for(struct idle *idle, uint64_t ns)
{
    struct env *env = idle->bench->cli->env;
    uint64_t until_ns = env_now_ns(env) + ns;

    for (uint64_t now_ns = env_now_ns(env); now_ns < until_ns; now_ns = env_now_ns(env))
        env_loop_turn(idle->loop, until_ns - now_ns, 0);
}

static bool all_linked(const struct idle *idle)
{
    const char *reason;

    for (uint32_t i = 0; i < idle->count; i++) {
        if (client_link_status(idle->clients[i], &reason) != SNOW_OK)
            return false;
    }
    return true;
}

static bool connect_all(struct idle *idle)
{
    struct bench *bench = idle->bench;
    uint64_t until_ns = env_now_ns(bench->cli->env) + CONNECT_NS;
    struct client_options options;
    const char *reason = "";

    bench_client_options(bench->cli, &options);
    options.master = bench->cluster.address;
    options.token = bytes_of_string(bench->cli->options.token);
    options.name = bytes_of_string("idle");
    options.way = CLIENT_WAY_TCP;
    while (idle->count < CLIENTS) {
        if (client_create(idle->loop, &options, &idle->clients[idle->count], &reason) != SNOW_OK) {
            cli_error(bench->cli, "can not make client %u: %s", idle->count + 1, reason);
            return false;
        }
        idle->count++;
    }
    while (!all_linked(idle) && env_now_ns(bench->cli->env) < until_ns)
        env_loop_turn(idle->loop, 10 * NS_PER_MS, 0);
    if (all_linked(idle))
        return true;
    cli_error(bench->cli, "%u clients do not all reach the master: are so many open files allowed?",
              CLIENTS);
    return false;
}

/* A node that still commits its memory is not idle. */
static void wait_for_memory(struct idle *idle)
{
    struct env *env = idle->bench->cli->env;
    uint64_t until_ns = env_now_ns(env) + POPULATE_NS;

    while (env_child_resident_bytes(&idle->bench->cluster.nodes[0]) < NODE_BYTES &&
           env_now_ns(env) < until_ns)
        turn_for(idle, SETTLE_NS / 5);
}

static double percent(uint64_t before_ns, uint64_t after_ns)
{
    return 100.0 * (double)(after_ns - before_ns) / (double)WATCH_NS;
}

static bool measure(struct idle *idle)
{
    const struct bench_cluster *cluster = &idle->bench->cluster;
    uint64_t before = env_child_resident_bytes(&cluster->master);
    uint64_t after;
    uint64_t master_ns;
    uint64_t node_ns;
    uint64_t own_ns;

    if (!connect_all(idle))
        return false;
    wait_for_memory(idle);
    turn_for(idle, SETTLE_NS);
    after = env_child_resident_bytes(&cluster->master);
    idle->bytes_per_client = after < before ? 0 : (double)(after - before) / CLIENTS;
    master_ns = env_child_cpu_ns(&cluster->master);
    node_ns = env_child_cpu_ns(&cluster->nodes[0]);
    idle->node_bytes = (double)env_child_resident_bytes(&cluster->nodes[0]) - (double)NODE_BYTES;
    own_ns = env_cpu_ns();
    turn_for(idle, WATCH_NS);
    idle->master_percent = percent(master_ns, env_child_cpu_ns(&cluster->master));
    idle->node_percent = percent(node_ns, env_child_cpu_ns(&cluster->nodes[0]));
    idle->clients_percent = percent(own_ns, env_cpu_ns());
    return true;
}

static double node_bytes_per_slot(const struct idle *idle)
{
    return idle->node_bytes / ((double)NODE_BYTES / NODE_SLOT);
}

static void print(const struct idle *idle)
{
    if (idle->bench->cli->options.json) {
        json_t *row = json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "op", "idle", "clients",
                                (int)CLIENTS, "master_bytes_per_client", idle->bytes_per_client,
                                "node_bytes_per_slot", node_bytes_per_slot(idle),
                                "master_cpu_percent", idle->master_percent, "node_cpu_percent",
                                idle->node_percent, "clients_cpu_percent", idle->clients_percent);
        char *text = json_dumps(row, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));

        puts(text == NULL ? "{}" : text);
        free(text);
        json_decref(row);
        return;
    }
    printf("clients                   %u, connected over TCP, that ask for nothing\n", CLIENTS);
    printf("master, for each client   %.0f bytes of memory\n", idle->bytes_per_client);
    printf(
        "node, beside its data     %.0f bytes of memory for each slot, one for each 4 KiB of data: "
        "%.1f %% of the data\n",
        node_bytes_per_slot(idle), 100.0 * idle->node_bytes / (double)NODE_BYTES);
    printf("processor, of one core    master %.2f %%, node %.2f %%, all clients %.2f %%\n",
           idle->master_percent, idle->node_percent, idle->clients_percent);
}

int bench_idle(struct bench *bench)
{
    struct idle *idle = calloc(1, sizeof(*idle));
    int result = CLI_FAILED;

    if (bench->cli->master_given) {
        cli_error(bench->cli, "op idle measures processes of its own: leave --master out");
        free(idle);
        return CLI_USAGE;
    }
    if (idle == NULL || env_loop_create(bench->cli->env, "idle", &idle->loop) != SNOW_OK) {
        cli_error(bench->cli, "out of memory");
        free(idle);
        return CLI_FAILED;
    }
    idle->bench = bench;
    if (bench_cluster_need(bench, 1, NODE_BYTES, NODE_SLOT) && measure(idle)) {
        print(idle);
        result = CLI_DONE;
    }
    for (uint32_t i = 0; i < idle->count; i++)
        client_destroy(idle->clients[i]);
    env_loop_destroy(idle->loop);
    free(idle);
    return result;
}
