/* rpc in a world where everything fails: every call ends once, bytes are right or the call failed,
 * and when the faults stop, calls succeed again. */
#include "base/limits.h"
#include "rpc/peer.h"
#include "rpc/rpc.h"
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define CLIENTS 2
#define CALLS 24
#define PAYLOAD_MAX 60000u
#define KEPT_MAX 4096

/* A byte of the payload that `salt` names. */
static uint8_t byte_at(uint64_t salt, uint64_t i)
{
    return (uint8_t)(salt * 131 + i * 7 + (i >> 9));
}

struct server {
    struct world_host *host;
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc;
    uint8_t *memory; /* PAYLOAD_MAX bytes: what reads are answered from */
    uint8_t *sink;
    int received;
    struct rpc_request *kept[KEPT_MAX];
    int kept_count;
};

struct client {
    struct cluster *cluster;
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc;
    struct rpc_peer peer;
    struct env_timer timer; /* starts calls */
    struct asked *asked;    /* CALLS of them */
};

struct asked {
    struct rpc_call call; /* first */
    struct client *client;
    uint64_t salt;
    uint64_t size;
    uint8_t *memory; /* PAYLOAD_MAX bytes */
    struct iovec iov[2];
};

struct cluster {
    struct world *world;
    struct rng *rng;
    struct server server;
    struct world_host *client_hosts[CLIENTS];
    struct client clients[CLIENTS];
    bool calm; /* no more faults */
    bool busy; /* clients start calls */
    uint64_t started;
    uint64_t ended;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t failed_calm;
    uint64_t ups;
    uint64_t downs;
    bool server_down;
    struct world_alarm fault;
};

/* ---- server --------------------------------------------------------------------------------- */

static void forget_kept(struct server *server, struct rpc_request *request)
{
    for (int i = 0; i < server->kept_count; i++) {
        if (server->kept[i] == request) {
            server->kept[i] = server->kept[--server->kept_count];
            return;
        }
    }
}

static void on_write_end(struct rpc_request *request, enum snow_status status)
{
    struct server *server = rpc_request_owner(request);
    struct wire_write_rep reply = {0};

    if (status != SNOW_OK)
        return; /* the request is gone right after */
    server->received++;
    forget_kept(server, request);
    rpc_reply(request, &reply, true);
}

static void serve_write(struct server *server, struct rpc_request *request, uint64_t size)
{
    struct iovec iov = {.iov_base = server->sink, .iov_len = size};
    struct rpc_payload to = {.iov = &iov, .iov_count = 1, .size = size};

    server->kept[server->kept_count++] = request;
    rpc_request_receive(request, &to, NULL, on_write_end);
}

static void on_sent(void *owner, enum snow_status status)
{
    (void)status;
    free(owner);
}

/* Answers with the bytes that the salt names, from memory that is freed when they left. */
static void serve_read(struct rpc_request *request, const struct wire_read_req *read)
{
    uint64_t size = read->items[0].size;
    struct wire_read_done done = {.size = size};
    struct wire_read_rep reply = {.items = &done, .items_count = 1};
    uint8_t *bytes = malloc(sizeof(struct iovec) + size);
    struct iovec *iov = (struct iovec *)(void *)bytes;
    struct rpc_payload payload = {.iov = iov, .iov_count = 1, .size = size};

    *iov = (struct iovec){.iov_base = bytes + sizeof *iov, .iov_len = size};
    for (uint64_t i = 0; i < size; i++)
        bytes[sizeof *iov + i] = byte_at(read->items[0].gen, i);
    rpc_reply_payload(request, &reply, &payload, on_sent, bytes);
}

static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    struct server *server = owner;

    (void)conn;
    rpc_request_set_owner(request, server);
    if (type == WIRE_write) {
        serve_write(server, request, payload_size);
    } else if (type == WIRE_read) {
        serve_read(request, message);
    } else if (type == WIRE_lookup) {
        const struct wire_lookup_req *lookup = message;
        struct wire_lookup_rep reply = {.lease_ms = lookup->position};

        rpc_reply(request, &reply, true);
    } else { /* unanswered */
        server->kept[server->kept_count++] = request;
    }
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    forget_kept(owner, request);
}

static const struct rpc_service server_service = {.on_request = on_request,
                                                  .on_request_gone = on_request_gone};
static const struct rpc_service client_service = {.on_close = NULL};

static const struct rpc_options options = {
    .socket = {.keepalive = true, .user_timeout_ms = 10000},
    .hello_timeout_ms = 3000,
    .progress_timeout_ms = 5000,
};

static void start_server(struct cluster *cluster)
{
    struct server *server = &cluster->server;
    struct rpc_identity identity = {.role = WIRE_ROLE_NODE, .cluster = 1};

    server->env = world_process_start(server->host, "server");
    assert_int_equal(env_loop_create(server->env, "server", &server->loop), SNOW_OK);
    assert_int_equal(env_loop_start(server->loop), SNOW_OK);
    assert_int_equal(rpc_create(server->loop, &identity, &options, &server_service, server,
                                &server->rpc),
                     SNOW_OK);
    assert_int_equal(rpc_listen(server->rpc, "0.0.0.0:7000"), SNOW_OK);
    cluster->server_down = false;
}

static void crash_server(struct cluster *cluster, bool silent)
{
    struct server *server = &cluster->server;

    if (cluster->server_down)
        return;
    cluster->server_down = true;
    if (silent)
        world_host_crash(server->host, false);
    else
        world_process_crash(server->env);
    rpc_destroy(server->rpc);
    assert_int_equal(server->kept_count, 0);
    world_process_end(server->env);
}

/* ---- clients -------------------------------------------------------------------------------- */

static void check_bytes(const struct asked *asked)
{
    for (uint64_t i = 0; i < asked->size; i++)
        assert_int_equal(asked->memory[i], byte_at(asked->salt, i));
}

static void on_reply(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct asked *asked = (struct asked *)call;
    struct cluster *cluster = asked->client->cluster;

    assert_true(last);
    cluster->ended++;
    if (status != SNOW_OK) {
        cluster->failed++;
        cluster->failed_calm += cluster->calm && call->type != WIRE_stats;
        /* Nobody reads or writes the memory any more. */
        memset(asked->memory, 0xee, PAYLOAD_MAX);
        return;
    }
    cluster->succeeded++;
    if (call->type == WIRE_lookup)
        assert_int_equal(((const struct wire_lookup_rep *)reply)->lease_ms, asked->salt);
    if (call->type == WIRE_read)
        check_bytes(asked);
}

static bool on_payload(struct rpc_call *call, const void *reply, uint64_t payload_size,
                       struct rpc_payload *to)
{
    struct asked *asked = (struct asked *)call;

    (void)reply;
    asked->iov[0] = (struct iovec){.iov_base = asked->memory, .iov_len = payload_size};
    *to = (struct rpc_payload){.iov = asked->iov, .iov_count = 1, .size = payload_size};
    return true;
}

static enum snow_status start_call(struct asked *asked, struct rpc_conn *conn, uint64_t kind)
{
    struct client *client = asked->client;
    struct rng *rng = client->cluster->rng;
    uint64_t deadline_ns = env_now_ns(client->env) + rng_between(rng, 1, 20) * NS_PER_S;
    struct wire_lookup_req lookup = {.position = (uint32_t)asked->salt};
    struct wire_stats_req stats = {0};
    struct wire_read_item read_item = {.gen = asked->salt, .size = asked->size};
    struct wire_read_req read = {.items = &read_item, .items_count = 1};
    struct wire_write_req write = {0};
    struct rpc_payload payload = {.iov = asked->iov, .iov_count = 1, .size = asked->size};

    if (kind < 5)
        return rpc_call_start(conn, &asked->call, WIRE_lookup, &lookup, NULL, deadline_ns);
    if (kind < 6)
        return rpc_call_start(conn, &asked->call, WIRE_stats, &stats, NULL, deadline_ns);
    if (kind < 8)
        return rpc_call_start(conn, &asked->call, WIRE_read, &read, NULL, deadline_ns);
    for (uint64_t i = 0; i < asked->size; i++)
        asked->memory[i] = byte_at(asked->salt, i);
    asked->iov[0] = (struct iovec){.iov_base = asked->memory, .iov_len = asked->size};
    return rpc_call_start(conn, &asked->call, WIRE_write, &write, &payload, deadline_ns);
}

static void on_client_timer(struct env_timer *timer)
{
    struct client *client = list_entry(timer, struct client, timer);
    struct cluster *cluster = client->cluster;
    struct rpc_conn *conn = rpc_peer_conn(&client->peer);
    struct asked *asked = &client->asked[rng_below(cluster->rng, CALLS)];

    if (cluster->busy)
        env_timer_arm(client->loop, timer,
                      env_now_ns(client->env) + rng_below(cluster->rng, 20 * NS_PER_MS));
    if (rpc_call_is_open(&asked->call)) {
        if (rng_chance(cluster->rng, 1, 20)) {
            rpc_call_cancel(&asked->call);
            memset(asked->memory, 0xee, PAYLOAD_MAX);
            cluster->ended++;
        }
        return;
    }
    if (conn == NULL || !cluster->busy)
        return;
    asked->call.on_reply = on_reply;
    asked->call.on_payload = on_payload;
    asked->salt = rng_below(cluster->rng, 1000000);
    asked->size = 1 + rng_below(cluster->rng, PAYLOAD_MAX - 1);
    if (start_call(asked, conn, rng_below(cluster->rng, 10)) == SNOW_OK)
        cluster->started++;
}

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct client *client = list_entry(peer, struct client, peer);

    assert_int_equal(hello->cluster, 1);
    client->cluster->ups++;
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    struct client *client = list_entry(peer, struct client, peer);

    assert_int_not_equal(status, SNOW_OK);
    for (int i = 0; i < CALLS; i++)
        assert_false(rpc_call_is_open(&client->asked[i].call));
    client->cluster->downs++;
}

static void start_client(struct cluster *cluster, int index)
{
    struct client *client = &cluster->clients[index];
    struct rpc_identity identity = {.role = WIRE_ROLE_CLIENT};

    client->cluster = cluster;
    client->env = world_process_start(cluster->client_hosts[index], "client");
    assert_int_equal(env_loop_create(client->env, "client", &client->loop), SNOW_OK);
    assert_int_equal(env_loop_start(client->loop), SNOW_OK);
    assert_int_equal(rpc_create(client->loop, &identity, &options, &client_service, client,
                                &client->rpc),
                     SNOW_OK);
    client->peer = (struct rpc_peer){.on_up = on_up, .on_down = on_down};
    assert_int_equal(rpc_peer_open(&client->peer, client->rpc, "server-host:7000", 0), SNOW_OK);
    client->asked = calloc(CALLS, sizeof *client->asked);
    for (int i = 0; i < CALLS; i++) {
        client->asked[i].client = client;
        client->asked[i].memory = calloc(1, PAYLOAD_MAX);
    }
    client->timer = (struct env_timer){.on_event = on_client_timer};
    env_timer_arm(client->loop, &client->timer, env_now_ns(client->env) + NS_PER_MS);
}

static void stop_client(struct client *client)
{
    rpc_peer_close(&client->peer);
    rpc_destroy(client->rpc);
    env_timer_cancel(&client->timer);
    for (int i = 0; i < CALLS; i++) {
        assert_false(rpc_call_is_open(&client->asked[i].call));
        free(client->asked[i].memory);
    }
    free(client->asked);
    world_process_end(client->env);
}

/* ---- faults --------------------------------------------------------------------------------- */

static void on_fault(struct world_alarm *alarm)
{
    struct cluster *cluster = list_entry(alarm, struct cluster, fault);
    struct rng *rng = cluster->rng;
    struct client *client = &cluster->clients[rng_below(rng, CLIENTS)];
    struct world_host *host = world_process_host(client->env);

    world_alarm_arm(cluster->world, alarm,
                    world_now_ns(cluster->world) + rng_between(rng, 1, 4000) * NS_PER_MS);
    switch (rng_below(rng, 9)) {
    case 0:
        world_cut(host, cluster->server.host);
        break;
    case 1:
    case 2:
        world_heal(host, cluster->server.host);
        break;
    case 3:
        crash_server(cluster, rng_chance(rng, 1, 2));
        break;
    case 4:
    case 5:
        if (cluster->server_down) {
            world_host_boot(cluster->server.host);
            start_server(cluster);
        }
        break;
    case 6:
        world_process_pause(client->env);
        break;
    case 7:
        world_process_resume(client->env);
        break;
    default:
        world_host_slow(cluster->server.host, rng_chance(rng, 1, 2) ? 200 : 1);
        break;
    }
}

static void stop_faults(struct cluster *cluster)
{
    struct world_net calm = world_net_calm();

    world_alarm_cancel(&cluster->fault);
    world_set_net(cluster->world, &calm);
    world_heal_all(cluster->world);
    world_host_slow(cluster->server.host, 1);
    for (int i = 0; i < CLIENTS; i++)
        world_process_resume(cluster->clients[i].env);
    if (cluster->server_down) {
        world_host_boot(cluster->server.host);
        start_server(cluster);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void open_cluster(struct cluster *cluster, uint64_t seed, const struct world_net *net)
{
    static const char *const names[CLIENTS] = {"client-a", "client-b"};

    *cluster = (struct cluster){.world = world_create(seed), .busy = true};
    cluster->rng = world_rng(cluster->world);
    world_set_net(cluster->world, net);
    cluster->server.host = world_host_create(cluster->world, "server-host");
    cluster->server.sink = malloc(PAYLOAD_MAX);
    start_server(cluster);
    for (int i = 0; i < CLIENTS; i++) {
        cluster->client_hosts[i] = world_host_create(cluster->world, names[i]);
        start_client(cluster, i);
    }
}

static uint64_t close_cluster(struct cluster *cluster)
{
    uint64_t hash = world_hash(cluster->world);

    for (int i = 0; i < CLIENTS; i++)
        stop_client(&cluster->clients[i]);
    assert_int_equal(cluster->started, cluster->ended);
    crash_server(cluster, false);
    free(cluster->server.sink);
    world_destroy(cluster->world);
    return hash;
}

static void run_for(struct cluster *cluster, uint64_t duration_ns)
{
    world_run_until(cluster->world, world_now_ns(cluster->world) + duration_ns);
}

/* Faults for a while, then calm: everything must work again. */
static uint64_t run_faults(uint64_t seed)
{
    struct cluster cluster;
    struct world_net lossy = world_net_lossy();

    open_cluster(&cluster, seed, &lossy);
    cluster.fault.on_event = on_fault;
    world_alarm_arm(cluster.world, &cluster.fault, NS_PER_S);
    run_for(&cluster, 60 * NS_PER_S);
    stop_faults(&cluster);
    run_for(&cluster, 20 * NS_PER_S); /* links that are half dead are noticed */
    cluster.calm = true;
    uint64_t succeeded = cluster.succeeded;

    run_for(&cluster, 10 * NS_PER_S);
    assert_true(cluster.succeeded > succeeded + 50);
    assert_int_equal(cluster.failed_calm, 0);
    cluster.busy = false;
    run_for(&cluster, 30 * NS_PER_S);
    assert_int_equal(cluster.started, cluster.ended);
    assert_int_equal(cluster.server.kept_count, 0);
    assert_true(cluster.failed > 0 && cluster.downs > 0); /* the faults were felt */
    return close_cluster(&cluster);
}

static void test_faults_and_recovery(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++)
        run_faults(seed);
}

static void test_same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 103; seed++) {
        uint64_t first = run_faults(seed);
        void *junk = malloc(1234567); /* other addresses */

        assert_true(first == run_faults(seed));
        free(junk);
    }
}

static void test_a_calm_network_fails_nothing(void **state)
{
    struct cluster cluster;
    struct world_net calm = world_net_calm();

    (void)state;
    open_cluster(&cluster, 5, &calm);
    cluster.calm = true;
    run_for(&cluster, 30 * NS_PER_S);
    assert_int_equal(cluster.failed_calm, 0);
    assert_int_equal(cluster.ups, CLIENTS + cluster.downs);
    assert_true(cluster.succeeded > 1000);
    cluster.busy = false;
    run_for(&cluster, 30 * NS_PER_S);
    close_cluster(&cluster);
}

static void test_connections_close_while_a_peer_is_paused(void **state)
{
    struct cluster cluster;
    struct world_net calm = world_net_calm();

    (void)state;
    open_cluster(&cluster, 6, &calm);
    run_for(&cluster, NS_PER_S);
    for (int i = 0; i < CLIENTS; i++)
        world_process_pause(cluster.clients[i].env);
    run_for(&cluster, 300 * NS_PER_S);
    for (int i = 0; i < CLIENTS; i++)
        world_process_resume(cluster.clients[i].env);
    uint64_t succeeded = cluster.succeeded;

    run_for(&cluster, 10 * NS_PER_S);
    assert_true(cluster.succeeded > succeeded);
    cluster.busy = false;
    run_for(&cluster, 30 * NS_PER_S);
    assert_int_equal(cluster.started, cluster.ended);
    close_cluster(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_calm_network_fails_nothing),
        cmocka_unit_test(test_connections_close_while_a_peer_is_paused),
        cmocka_unit_test(test_faults_and_recovery),
        cmocka_unit_test(test_same_seed_same_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
