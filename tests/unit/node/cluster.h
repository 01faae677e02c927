/* A master and a node in one process, and a client that speaks the messages by hand. */
#ifndef TESTS_UNIT_NODE_CLUSTER_H
#define TESTS_UNIT_NODE_CLUSTER_H

#include "base/limits.h"
#include "env/linux.h"
#include "master/master.h"
#include "node/node.h"
#include "rpc/rpc.h"
#include "wire/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_NS (5 * NS_PER_S)

struct cluster {
    struct env *env;
    struct obs_log log;
    struct master *master;
    struct node *node;
    struct env_loop *loop; /* turned by the test */
    struct rpc *rpc;
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

static inline void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    (void)owner;
    (void)conn;
    (void)status;
}

static inline int open_cluster(void **state)
{
    static const struct rpc_service service = {.on_close = on_close};
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    struct master_options master_options;
    struct node_options node_options;
    struct core_options core_options = core_options_default();
    struct rpc_identity identity = {.role = WIRE_ROLE_CLIENT};
    struct rpc_options options = {.hello_timeout_ms = 1000, .progress_timeout_ms = 5000};
    const char *reason;

    cluster->env = env_linux_create();
    obs_log_init(&cluster->log, OBS_WARNING, on_line, wall_ms, cluster->env);
    conf_defaults(master_options_table(), &master_options);
    master_options.listen = "127.0.0.1:0";
    assert_int_equal(master_open(cluster->env, &master_options, &core_options, &cluster->log,
                                 &cluster->master, &reason),
                     SNOW_OK);
    conf_defaults(node_options_table(), &node_options);
    node_options.master = master_address(cluster->master);
    node_options.memory_bytes = 8 * MIB;
    assert_int_equal(node_open(cluster->env, &node_options, bytes_of(NULL, 0), &cluster->log,
                               &cluster->node, &reason),
                     SNOW_OK);
    assert_int_equal(env_loop_create(cluster->env, "test", &cluster->loop), SNOW_OK);
    assert_int_equal(rpc_create(cluster->loop, &identity, &options, &service, NULL, &cluster->rpc),
                     SNOW_OK);
    *state = cluster;
    return 0;
}

static inline int close_cluster(void **state)
{
    struct cluster *cluster = *state;

    rpc_destroy(cluster->rpc);
    env_loop_destroy(cluster->loop);
    node_close(cluster->node);
    master_close(cluster->master);
    env_linux_destroy(cluster->env);
    free(cluster);
    return 0;
}

static inline void turn_until(struct cluster *cluster, const bool *done)
{
    uint64_t end_ns = env_now_ns(cluster->env) + WAIT_NS;

    while (!*done) {
        assert_true(env_now_ns(cluster->env) < end_ns);
        env_loop_turn(cluster->loop, 10 * NS_PER_MS, 0);
    }
}

struct dial {
    struct rpc_conn *conn;
    enum snow_status status;
    bool done;
};

static inline void on_open(void *owner, struct rpc_conn *conn, enum snow_status status,
                           const struct wire_hello_rep *hello)
{
    struct dial *dial = owner;

    (void)hello;
    dial->conn = conn;
    dial->status = status;
    dial->done = true;
}

static inline struct rpc_conn *dial_to(struct cluster *cluster, const char *address)
{
    struct dial dial = {0};
    struct rpc_conn *conn;

    assert_int_equal(rpc_dial(cluster->rpc, address, 0, 0, env_now_ns(cluster->env) + WAIT_NS,
                              &dial, on_open, &conn),
                     SNOW_OK);
    turn_until(cluster, &dial.done);
    assert_int_equal(dial.status, SNOW_OK);
    return dial.conn;
}

/* One call at a time; the reply is copied into the arena by encoding it again. */
struct ask {
    struct rpc_call call;
    struct arena arena;
    uint16_t type;
    enum snow_status status;
    void *reply;
    uint8_t *payload; /* where a reply's goes */
    struct iovec iov;
    bool done;
};

static inline void on_reply(struct rpc_call *call, enum snow_status status, const void *reply,
                            bool last)
{
    struct ask *ask = list_entry(call, struct ask, call);
    uint8_t *body = arena_take(&ask->arena, LIMIT_BODY_SIZE);
    struct writer writer;

    if (status == SNOW_OK && ask->reply == NULL) {
        writer_init(&writer, body, LIMIT_BODY_SIZE, WIRE_VERSION);
        assert_int_equal(wire_reply_encode(ask->type, reply, &writer), SNOW_OK);
        assert_int_equal(wire_reply_decode(ask->type, bytes_of(body, writer_size(&writer)),
                                           WIRE_VERSION, &ask->arena, &ask->reply),
                         SNOW_OK);
    }
    ask->status = status;
    ask->done = last;
}

static inline bool on_payload(struct rpc_call *call, const void *reply, uint64_t size,
                              struct rpc_payload *to)
{
    struct ask *ask = list_entry(call, struct ask, call);

    (void)reply;
    ask->iov = (struct iovec){ask->payload, size};
    *to = (struct rpc_payload){.iov = &ask->iov, .iov_count = 1, .size = size};
    return true;
}

static inline void ask(struct cluster *cluster, struct rpc_conn *conn, struct ask *ask,
                       uint16_t type, const void *message, void *bytes, size_t size)
{
    struct iovec iov = {bytes, size};
    struct rpc_payload payload = {.iov = &iov, .iov_count = 1, .size = size};

    if (ask->arena.total == 0)
        arena_init(&ask->arena, 0);
    ask->done = false;
    ask->reply = NULL;
    ask->type = type;
    memset(&ask->call, 0, sizeof(ask->call));
    ask->call.on_reply = on_reply;
    ask->call.on_payload = on_payload;
    assert_int_equal(rpc_call_start(conn, &ask->call, type, message, size > 0 ? &payload : NULL,
                                    env_now_ns(cluster->env) + WAIT_NS),
                     SNOW_OK);
    turn_until(cluster, &ask->done);
}

static inline struct wire_put_grant start_put_number(struct cluster *cluster, struct rpc_conn *conn,
                                                     struct ask *a, uint64_t operation,
                                                     const char *key, uint64_t size)
{
    struct wire_put_item item = {
        .key = bytes_of_string(key), .size = size, .depth = WIRE_DEPTH_UNKNOWN, .replicas = 1};
    struct wire_put_start_req put = {
        .operation = operation, .wait_ms = 3000, .items = &item, .items_count = 1};

    ask(cluster, conn, a, WIRE_put_start, &put, NULL, 0);
    assert_int_equal(a->status, SNOW_OK);
    struct wire_put_start_rep *reply = a->reply;

    assert_int_equal(reply->items_count, 1);
    return reply->items[0];
}

static inline struct wire_put_grant start_put(struct cluster *cluster, struct rpc_conn *conn,
                                              struct ask *a, const char *key, uint64_t size)
{
    return start_put_number(cluster, conn, a, 1, key, size);
}

static inline struct wire_write_item write_item(const char *key, const struct wire_put_grant *grant,
                                                uint8_t *bytes)
{
    const struct wire_place *place = &grant->places[0];

    return (struct wire_write_item){.segment = place->segment,
                                    .slot = place->slot,
                                    .gen = grant->gen,
                                    .offset = place->offset,
                                    .length = place->length,
                                    .object_size = place->length,
                                    .part = place->part,
                                    .parts = place->parts,
                                    .mac = place->mac,
                                    .key = bytes_of_string(key),
                                    .size = place->length,
                                    .crc = crc32c(0, bytes, place->length)};
}

static inline struct wire_write_done write_bytes(struct cluster *cluster, struct rpc_conn *conn,
                                                 struct ask *a, struct wire_write_item *item,
                                                 uint8_t *bytes)
{
    struct wire_write_req write = {.items = item, .items_count = 1};

    ask(cluster, conn, a, WIRE_write, &write, bytes, item->size);
    assert_int_equal(a->status, SNOW_OK);
    return ((struct wire_write_rep *)a->reply)->items[0];
}

#endif
