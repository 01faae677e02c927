/* A server and a client endpoint on one loop, and a service that does what the request says. */
#ifndef TESTS_RPC_FIXTURE_H
#define TESTS_RPC_FIXTURE_H

#include "base/limits.h"
#include "env/linux.h"
#include "rpc/rpc.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE_NS (20 * NS_PER_S)
#define MEMORY_SIZE ((size_t)(8 * MIB))
#define KEPT_MAX 16

struct fixture {
    struct env *env;
    struct env_loop *loop;
    struct rpc *server;
    struct rpc *client;
    struct rpc_conn *conn;     /* the client's */
    struct rpc_conn *accepted; /* the server's */
    uint8_t *memory;           /* where writes go to and reads come from */
    int opened;                /* on_open came, times */
    enum snow_status open_status;
    char reason[128];
    int requests;
    int gone;
    int oneways;
    int closes; /* on_close, either side */
    enum snow_status close_status;
    int sent; /* payloads of replies that left */
    int received;
    int received_badly;
    uint64_t pieces_size;
    struct rpc_request *kept[KEPT_MAX]; /* unanswered */
    int kept_count;
    enum snow_status refuse; /* what on_hello answers */
    bool refuse_writes;      /* writes are answered STALE without being received */
    bool cut;                /* writes lose their second half while they arrive */
};

#define WAIT_FOR(fixture, condition) \
    do { \
        uint64_t until_ns = env_now_ns((fixture)->env) + PATIENCE_NS; \
        while (!(condition)) { \
            assert_true(env_now_ns((fixture)->env) < until_ns); \
            env_loop_turn((fixture)->loop, NS_PER_S, 0); \
        } \
    } while (0)

static inline uint64_t counter(struct rpc *rpc, const char *name)
{
    for (uint32_t i = 0; rpc_counter_name(i) != NULL; i++) {
        if (strcmp(rpc_counter_name(i), name) == 0)
            return rpc_counters(rpc)[i];
    }
    fail_msg("no counter %s", name);
    return 0;
}

/* ---- the service ---------------------------------------------------------------------------- */

static inline void on_sent(void *owner, enum snow_status status)
{
    struct fixture *fixture = owner;

    (void)status;
    fixture->sent++;
}

static inline void on_write_end(struct rpc_request *request, enum snow_status status)
{
    struct fixture *fixture = rpc_request_owner(request);
    struct wire_write_done done = {.status = SNOW_OK, .written = 1};
    struct wire_write_rep reply = {.items = &done, .items_count = 1};

    if (status != SNOW_OK) {
        fixture->received_badly++;
        rpc_reply(request, &reply, true); /* too late: dropped */
        return;
    }
    fixture->received++;
    rpc_reply(request, &reply, true);
}

static inline void on_write_piece(struct rpc_request *request, const uint8_t *at, size_t size)
{
    struct fixture *fixture = rpc_request_owner(request);

    assert_true(at >= fixture->memory && at + size <= fixture->memory + MEMORY_SIZE);
    fixture->pieces_size += size;
    if (fixture->cut)
        rpc_request_cut(request, fixture->memory + 3 * MIB, MEMORY_SIZE);
}

static inline void serve_read(struct fixture *fixture, struct rpc_request *request,
                              const struct wire_read_req *read)
{
    static struct iovec parts[2]; /* one read at a time in these tests */
    struct wire_read_done done = {.status = SNOW_OK, .size = read->items[0].size};
    struct wire_read_rep reply = {.items = &done, .items_count = 1};
    uint64_t half = read->items[0].size / 2;

    parts[0] = (struct iovec){.iov_base = fixture->memory, .iov_len = half};
    parts[1] =
        (struct iovec){.iov_base = fixture->memory + half, .iov_len = read->items[0].size - half};
    struct rpc_payload payload = {.iov = parts, .iov_count = 2, .size = read->items[0].size};

    rpc_reply_payload(request, &reply, &payload, on_sent, fixture);
}

static inline void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                              uint16_t type, const void *message, uint64_t payload_size)
{
    struct fixture *fixture = owner;

    assert_ptr_equal(rpc_request_conn(request), conn);
    assert_int_equal(rpc_request_type(request), type);
    fixture->requests++;
    rpc_request_set_owner(request, fixture);
    if (type == WIRE_lookup) { /* answered at once, with what it asks */
        const struct wire_lookup_req *lookup = message;
        struct wire_lookup_rep reply = {.lease_ms = lookup->position};

        rpc_reply(request, &reply, true);
    } else if (type == WIRE_put_start) { /* `wait_ms` frames of one item each */
        const struct wire_put_start_req *put = message;
        struct wire_put_grant grant = {0};
        struct wire_put_start_rep reply = {.items = &grant, .items_count = 1};

        for (uint32_t i = 0, count = put->wait_ms; i < count; i++) {
            grant.index = i;
            rpc_reply(request, &reply, i == count - 1);
        }
    } else if (type == WIRE_write && !fixture->refuse_writes) {
        struct iovec parts[2] = {{.iov_base = fixture->memory, .iov_len = payload_size / 3},
                                 {.iov_base = fixture->memory + payload_size / 3,
                                  .iov_len = payload_size - payload_size / 3}};
        struct rpc_payload to = {.iov = parts, .iov_count = 2, .size = payload_size};

        rpc_request_receive(request, &to, on_write_piece, on_write_end);
    } else if (type == WIRE_write) {
        rpc_fail(request, SNOW_STALE);
    } else if (type == WIRE_read) {
        serve_read(fixture, request, message);
    } else { /* kept, unanswered */
        rpc_request_keep(request);
        assert_true(fixture->kept_count < KEPT_MAX);
        fixture->kept[fixture->kept_count++] = request;
    }
}

static inline void on_request_gone(void *owner, struct rpc_request *request)
{
    struct fixture *fixture = owner;

    fixture->gone++;
    for (int i = 0; i < fixture->kept_count; i++) {
        if (fixture->kept[i] == request)
            fixture->kept[i] = fixture->kept[--fixture->kept_count];
    }
}

static inline void on_oneway(void *owner, struct rpc_conn *conn, uint16_t type, const void *message)
{
    struct fixture *fixture = owner;

    (void)conn;
    (void)message;
    assert_int_equal(type, WIRE_report_peer);
    fixture->oneways++;
}

static inline void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    struct fixture *fixture = owner;

    fixture->closes++;
    fixture->close_status = status;
    if (conn == fixture->conn)
        fixture->conn = NULL;
    if (conn == fixture->accepted)
        fixture->accepted = NULL;
}

static inline enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                        const struct wire_hello_req *hello,
                                        struct wire_hello_rep *reply)
{
    struct fixture *fixture = owner;

    fixture->accepted = conn;
    reply->session = hello->session == 0 ? 77 : hello->session;
    if (fixture->refuse != SNOW_OK)
        reply->reason = bytes_of_string("ask the other one");
    return fixture->refuse;
}

static const struct rpc_service fixture_service = {
    .on_hello = on_hello,
    .on_request = on_request,
    .on_oneway = on_oneway,
    .on_request_gone = on_request_gone,
    .on_close = on_close,
};

/* ---- both ends ------------------------------------------------------------------------------ */

static const struct rpc_options fixture_options = {.hello_timeout_ms = 2000,
                                                   .progress_timeout_ms = 5000};

static inline struct rpc_identity server_identity(void)
{
    return (struct rpc_identity){.role = WIRE_ROLE_NODE,
                                 .features = 6,
                                 .cluster = 11,
                                 .incarnation = 99,
                                 .term = 5,
                                 .token = bytes_of_string("secret"),
                                 .name = bytes_of_string("server")};
}

static inline struct rpc_identity client_identity(void)
{
    return (struct rpc_identity){.role = WIRE_ROLE_CLIENT,
                                 .features = 3,
                                 .token = bytes_of_string("secret"),
                                 .name = bytes_of_string("client")};
}

static inline void on_open(void *owner, struct rpc_conn *conn, enum snow_status status,
                           const struct wire_hello_rep *hello)
{
    struct fixture *fixture = owner;

    fixture->opened++;
    fixture->open_status = status;
    if (status != SNOW_OK && conn == fixture->conn)
        fixture->conn = NULL;
    fixture->reason[0] = 0;
    if (hello != NULL)
        snprintf(fixture->reason, sizeof fixture->reason, "%.*s", (int)hello->reason.size,
                 (const char *)hello->reason.at);
    if (status == SNOW_OK) {
        assert_int_equal(hello->session, 77);
        assert_int_equal(hello->features, 2);
    }
}

static inline void start(struct fixture *fixture, const struct rpc_identity *server,
                         const struct rpc_identity *client, const struct rpc_options *options)
{
    assert_int_equal(rpc_create(fixture->loop, server, options, &fixture_service, fixture,
                                &fixture->server),
                     SNOW_OK);
    assert_int_equal(rpc_create(fixture->loop, client, options, &fixture_service, fixture,
                                &fixture->client),
                     SNOW_OK);
    assert_string_equal(rpc_listen_address(fixture->server), "");
    assert_int_equal(rpc_listen(fixture->server, "127.0.0.1:0"), SNOW_OK);
}

static inline void dial(struct fixture *fixture, uint64_t expect)
{
    fixture->opened = 0;
    assert_int_equal(rpc_dial(fixture->client, rpc_listen_address(fixture->server), 0, expect, 0,
                              fixture, on_open, &fixture->conn),
                     SNOW_OK);
    assert_int_equal(fixture->opened, 0);
    WAIT_FOR(fixture, fixture->opened == 1);
}

static inline int setup_bare(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    *state = fixture;
    fixture->env = env_linux_create();
    fixture->memory = malloc(MEMORY_SIZE);
    for (size_t i = 0; i < MEMORY_SIZE; i++)
        fixture->memory[i] = (uint8_t)(i * 7 + i / 1000);
    return env_loop_create(fixture->env, "test", &fixture->loop) != SNOW_OK;
}

static inline int setup(void **state)
{
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    if (setup_bare(state) != 0)
        return 1;
    start(*state, &server, &client, &fixture_options);
    dial(*state, 0);
    return ((struct fixture *)*state)->open_status != SNOW_OK;
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;

    if (fixture->client != NULL)
        rpc_destroy(fixture->client);
    if (fixture->server != NULL)
        rpc_destroy(fixture->server);
    env_loop_destroy(fixture->loop);
    env_linux_destroy(fixture->env);
    free(fixture->memory);
    free(fixture);
    return 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct asked {
    struct rpc_call call; /* first */
    int replies;
    int ended;
    enum snow_status status;
    uint32_t value; /* of a lookup's reply; of the last grant's index */
    uint8_t *to;    /* of a read */
    uint64_t size;
    uint64_t pieces_size;
    struct iovec iov[2];
    bool refuse_payload;
    bool cancel_in_piece;
};

static inline void on_reply(struct rpc_call *call, enum snow_status status, const void *reply,
                            bool last)
{
    struct asked *asked = (struct asked *)call;

    asked->replies++;
    asked->status = status;
    assert_int_equal(reply == NULL, status != SNOW_OK);
    if (status == SNOW_OK && call->type == WIRE_lookup)
        asked->value = ((const struct wire_lookup_rep *)reply)->lease_ms;
    if (status == SNOW_OK && call->type == WIRE_put_start)
        asked->value = ((const struct wire_put_start_rep *)reply)->items[0].index;
    if (status == SNOW_OK && call->type == WIRE_ping)
        asked->value = (uint32_t)((const struct wire_ping_rep *)reply)->value;
    if (last) {
        asked->ended++;
        assert_false(rpc_call_is_open(call));
    }
}

static inline bool on_payload(struct rpc_call *call, const void *reply, uint64_t payload_size,
                              struct rpc_payload *to)
{
    struct asked *asked = (struct asked *)call;
    const struct wire_read_rep *read = reply;

    assert_int_equal(payload_size, asked->size);
    assert_int_equal(read->items[0].size, payload_size);
    asked->iov[0] = (struct iovec){.iov_base = asked->to, .iov_len = asked->size / 4};
    asked->iov[1] = (struct iovec){.iov_base = asked->to + asked->size / 4,
                                   .iov_len = asked->size - asked->size / 4};
    *to = (struct rpc_payload){.iov = asked->iov, .iov_count = 2, .size = payload_size};
    return !asked->refuse_payload;
}

static inline void on_piece(struct rpc_call *call, const uint8_t *at, size_t size)
{
    struct asked *asked = (struct asked *)call;

    assert_true(at >= asked->to && at + size <= asked->to + asked->size);
    asked->pieces_size += size;
    if (asked->cancel_in_piece)
        rpc_call_cancel(call);
}

static inline void ask_lookup(struct fixture *fixture, struct asked *asked, uint32_t value)
{
    struct wire_lookup_req lookup = {.position = value};

    asked->call.on_reply = on_reply;
    assert_int_equal(rpc_call_start(fixture->conn, &asked->call, WIRE_lookup, &lookup, NULL, 0),
                     SNOW_OK);
}

/* A request that the service keeps and never answers. */
static inline void ask_in_vain(struct fixture *fixture, struct asked *asked, uint64_t deadline_ns)
{
    struct wire_stats_req stats = {.flags = 3};

    asked->call.on_reply = on_reply;
    assert_int_equal(rpc_call_start(fixture->conn, &asked->call, WIRE_stats, &stats, NULL,
                                    deadline_ns),
                     SNOW_OK);
}

static inline void ask_read(struct fixture *fixture, struct asked *asked, uint8_t *to,
                            uint64_t size)
{
    struct wire_read_item item = {.size = size};
    struct wire_read_req read = {.items = &item, .items_count = 1};

    asked->call.on_reply = on_reply;
    asked->call.on_payload = on_payload;
    asked->call.on_piece = on_piece;
    asked->to = to;
    asked->size = size;
    assert_int_equal(rpc_call_start(fixture->conn, &asked->call, WIRE_read, &read, NULL, 0),
                     SNOW_OK);
}

static inline void ask_write(struct fixture *fixture, struct asked *asked, uint8_t *from,
                             uint64_t size, uint64_t deadline_ns)
{
    struct wire_write_item item = {.size = size};
    struct wire_write_req write = {.items = &item, .items_count = 1};

    asked->call.on_reply = on_reply;
    asked->iov[0] = (struct iovec){.iov_base = from, .iov_len = size / 2};
    asked->iov[1] = (struct iovec){.iov_base = from + size / 2, .iov_len = size - size / 2};
    struct rpc_payload payload = {.iov = asked->iov, .iov_count = 2, .size = size};

    assert_int_equal(rpc_call_start(fixture->conn, &asked->call, WIRE_write, &write, &payload,
                                    deadline_ns),
                     SNOW_OK);
}

#endif
