/* A master, nodes and the library in one process, on real sockets of the loopback. */
#ifndef TESTS_CLIENT_CLUSTER_H
#define TESTS_CLIENT_CLUSTER_H

#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "conf/conf.h"
#include "env/linux.h"
#include "master/master.h"
#include "node/node.h"
#include "snowskin/snowskin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NODES_MAX 3
#define PATIENCE_NS (20 * NS_PER_S)

struct cluster {
    struct env *env;
    struct obs_log logs[1 + NODES_MAX]; /* one a thread: the master's, then the nodes' */
    struct master *master;
    struct node *nodes[NODES_MAX];
    struct env_loop *loop; /* to wait on */
    struct snow_client *client;
    uint32_t transport; /* enum snow_transport of the clients */
};

static inline void on_line(void *owner, const char *line)
{
    (void)owner;
    (void)line;
}

static inline uint64_t wall_ms(void *owner)
{
    return env_wall_ms(owner);
}

/* Waits for a condition without sleeping blindly. */
#define WAIT_FOR(cluster, condition) \
    do { \
        uint64_t until_ns = env_now_ns((cluster)->env) + PATIENCE_NS; \
        while (!(condition)) { \
            assert_true(env_now_ns((cluster)->env) < until_ns); \
            env_loop_turn((cluster)->loop, NS_PER_MS, 0); \
        } \
    } while (0)

static inline void open_master(struct cluster *cluster, const char *listen)
{
    struct master_options options;
    struct core_options core_options = core_options_default();
    const char *reason = "";

    conf_defaults(master_options_table(), &options);
    options.listen = listen;
    assert_int_equal(master_open(cluster->env, &options, &core_options, &cluster->logs[0],
                                 &cluster->master, &reason),
                     SNOW_OK);
}

static inline void open_node(struct cluster *cluster, int index, uint64_t memory)
{
    struct node_options options;
    const char *reason = "";

    conf_defaults(node_options_table(), &options);
    options.master = master_address(cluster->master);
    options.memory_bytes = memory;
    options.name = index == 0 ? "first" : "other";
    assert_int_equal(node_open(cluster->env, &options, bytes_of(NULL, 0), &cluster->logs[1 + index],
                               &cluster->nodes[index], &reason),
                     SNOW_OK);
    WAIT_FOR(cluster, node_is_mounted(cluster->nodes[index]));
}

static inline struct snow_client *open_client(struct cluster *cluster, uint32_t deadline_ms)
{
    struct snow_options options;
    struct snow_client *client = NULL;

    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.deadline_ms = deadline_ms;
    options.transport = cluster->transport;
    assert_int_equal(snow_open(&options, &client, NULL), SNOW_OK);
    return client;
}

static inline struct cluster *open_cluster_by(uint32_t transport, int nodes, uint64_t memory)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    cluster->transport = transport;
    cluster->env = env_linux_create();
    for (int i = 0; i <= NODES_MAX; i++)
        obs_log_init(&cluster->logs[i], OBS_WARNING, on_line, wall_ms, cluster->env);
    assert_int_equal(env_loop_create(cluster->env, "test", &cluster->loop), SNOW_OK);
    open_master(cluster, "127.0.0.1:0");
    for (int i = 0; i < nodes; i++)
        open_node(cluster, i, memory);
    cluster->client = open_client(cluster, 0);
    return cluster;
}

static inline struct cluster *open_cluster(int nodes, uint64_t memory)
{
    return open_cluster_by(SNOW_TRANSPORT_ANY, nodes, memory);
}

static inline void close_cluster(struct cluster *cluster)
{
    snow_close(cluster->client);
    for (int i = 0; i < NODES_MAX; i++) {
        if (cluster->nodes[i] != NULL)
            node_close(cluster->nodes[i]);
    }
    if (cluster->master != NULL)
        master_close(cluster->master);
    env_loop_destroy(cluster->loop);
    env_linux_destroy(cluster->env);
    free(cluster);
}

static inline struct snow_key key_of(const char *text)
{
    return (struct snow_key){.at = text, .size = strlen(text)};
}

/* Bytes that tell their key and their place. */
static inline void fill(uint8_t *at, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)((i + seed) * 31 + (i >> 8) * 7 + seed);
}

#endif
