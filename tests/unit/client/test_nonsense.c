/* Peers that speak the protocol and mean nothing by it: every operation ends in time, no memory but
 * that of its items is touched, nothing of ours is found broken. */
#include "base/hash.h"
#include "base/limits.h"
#include "client/client.h"
#include "env/linux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 4000
#define ITEMS 6
#define ROOM ((size_t)300)
#define PATIENCE_NS (20 * NS_PER_S)

struct babel {
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc; /* master and node in one */
    struct client *client;
    struct rng rng;
    struct arena arena;
    uint8_t noise[4096];
    struct iovec iov;
};

static enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                 const struct wire_hello_req *hello, struct wire_hello_rep *reply)
{
    struct babel *babel = owner;

    (void)conn;
    (void)hello;
    reply->session = rng_next(&babel->rng);
    return SNOW_OK;
}

/* Mostly one that can be reached. */
static uint32_t node_number(struct babel *babel)
{
    return rng_chance(&babel->rng, 9, 10) ? 1 : (uint32_t)rng_below(&babel->rng, 4);
}

/* Something a little nearer to sense than chance alone: it gets deeper into the client. */
static void improve(struct babel *babel, uint16_t type, void *reply, uint64_t size)
{
    struct wire_put_start_rep *grants = reply;
    struct wire_lookup_rep *found = reply;
    struct wire_write_rep *writes = reply;
    struct wire_put_end_rep *ends = reply;

    for (uint32_t i = 0; type == WIRE_put_start && i < grants->items_count; i++) {
        struct wire_put_grant *grant = &grants->items[i];

        grant->index = (uint32_t)rng_below(&babel->rng, ITEMS + 1);
        grant->status = rng_chance(&babel->rng, 1, 2) ? SNOW_OK : grant->status;
        grant->places_count = grant->places_count > 1 ? 1 : grant->places_count;
        if (grant->places_count > 0)
            grant->places[0] =
                (struct wire_place){.node = node_number(babel), .length = size, .parts = 1};
    }
    for (uint32_t i = 0; type == WIRE_write && i < writes->items_count; i++) {
        writes->items[i].status = rng_chance(&babel->rng, 2, 3) ? SNOW_OK : writes->items[i].status;
        writes->items[i].written = rng_chance(&babel->rng, 2, 3);
    }
    for (uint32_t i = 0; type == WIRE_put_end && i < ends->items_count; i++) {
        ends->items[i].index = (uint32_t)rng_below(&babel->rng, ITEMS + 1);
        ends->items[i].status = rng_chance(&babel->rng, 1, 2) ? SNOW_OK : SNOW_GONE;
    }
    for (uint32_t i = 0; type == WIRE_lookup && i < found->items_count; i++) {
        struct wire_found *item = &found->items[i];

        item->status = rng_chance(&babel->rng, 1, 2) ? SNOW_OK : item->status;
        item->size = rng_below(&babel->rng, 2 * ROOM);
        item->places_count = item->places_count > 1 ? 1 : item->places_count;
        if (item->places_count > 0)
            item->places[0] =
                (struct wire_place){.node = node_number(babel), .length = item->size, .parts = 1};
    }
}

static void tell_nodes(struct babel *babel, struct rpc_request *request)
{
    struct wire_node_info nodes[2] = {{.node = 1,
                                       .address = bytes_of_string(rpc_listen_address(babel->rpc))},
                                      {.node = 2, .address = bytes_of_string("no address")}};
    struct wire_nodes_rep reply = {.nodes = nodes, .nodes_count = 2};

    rpc_reply(request, &reply, true);
}

static void answer(struct babel *babel, struct rpc_request *request, uint16_t type)
{
    const struct wire_message_type *row = wire_type_find(type);
    void *reply = arena_take(&babel->arena, row->reply->size);
    struct wire_read_rep *read = reply;

    row->reply->random(&babel->rng, &babel->arena, reply);
    improve(babel, type, reply, 100);
    if (type == WIRE_read && rng_chance(&babel->rng, 3, 4)) {
        const struct wire_read_req *asked = rpc_request_message(request);
        struct rpc_payload payload = {.iov = &babel->iov, .iov_count = 1};

        read->items_count = 1;
        read->items = arena_take(&babel->arena, sizeof(*read->items));
        read->items[0].size = asked->items[0].size;
        read->items[0].crc = crc32c(0, babel->noise, asked->items[0].size);
        payload.size = asked->items[0].size + rng_below(&babel->rng, 2);
        babel->iov = (struct iovec){.iov_base = babel->noise, .iov_len = payload.size};
        rpc_reply_payload(request, reply, &payload, NULL, NULL);
        return;
    }
    rpc_reply(request, reply, rng_chance(&babel->rng, 9, 10));
}

static void on_written(struct rpc_request *request, enum snow_status status)
{
    if (status == SNOW_OK)
        answer(rpc_request_owner(request), request, WIRE_write);
}

static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    struct babel *babel = owner;

    (void)message;
    arena_reset(&babel->arena);
    rpc_request_keep(request);
    rpc_request_set_owner(request, babel);
    if (rng_chance(&babel->rng, 1, 1000)) {
        rpc_conn_close(conn);
    } else if (rng_chance(&babel->rng, 1, 20)) {
        rpc_fail(request, (enum snow_status)(-1 - (int)rng_below(&babel->rng, 60)));
    } else if (rng_chance(&babel->rng, 1, 100)) {
        return; /* silence */
    } else if (type == WIRE_nodes && rng_chance(&babel->rng, 4, 5)) {
        tell_nodes(babel, request);
    } else if (payload_size > 0 && payload_size <= sizeof(babel->noise)) {
        struct rpc_payload to = {.iov = &babel->iov, .iov_count = 1, .size = payload_size};

        babel->iov = (struct iovec){.iov_base = babel->noise, .iov_len = payload_size};
        rpc_request_receive(request, &to, NULL, on_written);
    } else {
        answer(babel, request, type);
    }
}

static void on_oneway(void *owner, struct rpc_conn *conn, uint16_t type, const void *message)
{
    (void)owner;
    (void)conn;
    (void)type;
    (void)message;
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    (void)owner;
    (void)request;
}

static void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    (void)owner;
    (void)conn;
    (void)status;
}

/* ---- operations ----------------------------------------------------------------------------- */

static int done; /* of the operation under way: one at a time */

static void on_put(struct client_put_op *op)
{
    (void)op;
    done++;
}

static void on_get(struct client_get_op *op)
{
    (void)op;
    done++;
}

static void on_exists(struct client_exists_op *op)
{
    (void)op;
    done++;
}

static void on_keys(struct client_keys_op *op)
{
    (void)op;
    done++;
}

static void on_query(struct client_query_op *op)
{
    (void)op;
    done++;
}

static void turn_until_done(struct babel *babel)
{
    uint64_t until_ns = env_now_ns(babel->env) + PATIENCE_NS;

    while (done == 0) {
        assert_true(env_now_ns(babel->env) < until_ns);
        env_loop_turn(babel->loop, NS_PER_S, 0);
    }
    assert_int_equal(done, 1);
    done = 0;
}

static struct snow_key key_of(const char *text)
{
    return (struct snow_key){.at = text, .size = strlen(text)};
}

static const char *const names[ITEMS] = {"a", "b", "c", "d", "e", "f"};

static void some_puts(struct babel *babel, const struct snow_call *call)
{
    static const uint8_t bytes[100] = {1, 2, 3};
    struct snow_put items[ITEMS] = {{.size = 0}};
    struct client_put_op put = {.on_done = on_put, .items = items, .count = ITEMS};

    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct snow_put){.key = key_of(names[i]), .from = bytes, .size = 100};
    client_put_start(babel->client, &put, call);
    turn_until_done(babel);
    for (int i = 0; i < ITEMS; i++)
        assert_true(status_is_known((int32_t)items[i].status));
}

static void some_gets(struct babel *babel, const struct snow_call *call)
{
    uint8_t memory[ITEMS][ROOM + 16];
    struct snow_get items[ITEMS];
    struct client_get_op get = {.on_done = on_get, .items = items, .count = ITEMS};

    memset(memory, 0x5a, sizeof(memory));
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct snow_get){.key = key_of(names[i]), .to = memory[i], .room = ROOM};
    items[0].to = NULL;
    items[0].room = 0;
    client_get_start(babel->client, &get, call);
    turn_until_done(babel);
    for (int i = 0; i < ITEMS; i++) {
        for (size_t k = ROOM; k < sizeof(memory[i]); k++)
            assert_int_equal(memory[i][k], 0x5a);
    }
    assert_int_equal(items[0].status == SNOW_OK, items[0].to != NULL);
    free(items[0].to);
}

static void some_questions(struct babel *babel, const struct snow_call *call, int kind)
{
    struct snow_stat stats[ITEMS] = {{.size = 0}};
    struct snow_item items[ITEMS] = {{.status = SNOW_OK}};
    struct client_exists_op exists = {.on_done = on_exists, .items = stats, .count = ITEMS};
    struct client_keys_op keys = {.on_done = on_keys, .items = items, .count = ITEMS};
    struct client_query_op query = {.on_done = on_query, .key = key_of("a")};

    for (int i = 0; i < ITEMS; i++)
        items[i].key = stats[i].key = key_of(names[i]);
    if (kind == 0)
        client_exists_start(babel->client, &exists, call);
    else if (kind == 1)
        client_remove_start(babel->client, &keys, call);
    else if (kind == 2)
        client_pin_start(babel->client, &keys, SNOW_PIN_SOFT, 10, call);
    else if (kind == 3)
        client_remove_match_start(babel->client, &query, call);
    else if (kind == 4)
        client_list_start(babel->client, &query, call);
    else if (kind == 5)
        client_nodes_start(babel->client, &query, call);
    else
        client_stats_start(babel->client, &query, call);
    turn_until_done(babel);
    client_query_end(&query);
}

static void much_nonsense(void **state)
{
    struct babel *babel = *state;
    struct snow_call call = {.deadline_ms = 4};

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t kind = rng_below(&babel->rng, 20);

        if (kind < 7)
            some_puts(babel, &call);
        else if (kind < 13)
            some_gets(babel, &call);
        else
            some_questions(babel, &call, (int)kind - 13);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const struct rpc_service service = {.on_hello = on_hello,
                                               .on_request = on_request,
                                               .on_oneway = on_oneway,
                                               .on_request_gone = on_request_gone,
                                               .on_close = on_close};
    struct babel *babel = calloc(1, sizeof(*babel));
    struct rpc_identity identity = {.role = WIRE_ROLE_MASTER};
    struct rpc_options rpc_options = {.hello_timeout_ms = 1000, .progress_timeout_ms = 1000};
    struct client_options options;
    const char *reason;

    *state = babel;
    rng_init(&babel->rng, 20);
    arena_init(&babel->arena, 0);
    babel->env = env_linux_create();
    client_options_init(&options);
    if (env_loop_create(babel->env, "test", &babel->loop) != SNOW_OK ||
        rpc_create(babel->loop, &identity, &rpc_options, &service, babel, &babel->rpc) != SNOW_OK ||
        rpc_listen(babel->rpc, "127.0.0.1:0") != SNOW_OK)
        return 1;
    options.master = rpc_listen_address(babel->rpc);
    options.transport.stall_ns = 2 * NS_PER_MS;
    return client_create(babel->loop, &options, &babel->client, &reason) != SNOW_OK;
}

static int teardown(void **state)
{
    struct babel *babel = *state;

    client_destroy(babel->client);
    rpc_destroy(babel->rpc);
    arena_deinit(&babel->arena);
    env_loop_destroy(babel->loop);
    env_linux_destroy(babel->env);
    free(babel);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(much_nonsense)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
