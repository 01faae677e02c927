#include "fixture.h"

/* ---- requests and replies ------------------------------------------------------------------- */

static void test_a_call_is_answered(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {0};
    struct wire_ping_req ping = {.value = 1234};

    assert_int_equal(rpc_conn_role(fixture->accepted), WIRE_ROLE_CLIENT);
    assert_int_equal(rpc_identity(fixture->client)->cluster, 11); /* learned */
    assert_int_equal(rpc_identity(fixture->client)->term, 5);
    ask_lookup(fixture, &asked, 42);
    assert_true(rpc_conn_queued(fixture->conn) > FRAME_HEADER_SIZE);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.status, SNOW_OK);
    assert_int_equal(asked.value, 42);
    assert_int_equal(rpc_conn_queued(fixture->conn), 0);
    asked.ended = 0;
    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_ping, &ping, NULL, 0),
                     SNOW_OK);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.value, 1234);
    assert_int_equal(fixture->requests, 1); /* pings are answered without the service */
}

static void test_either_side_asks(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_conn *dialled = fixture->conn;
    struct asked asked = {0};

    fixture->conn = fixture->accepted;
    ask_lookup(fixture, &asked, 7);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.value, 7);
    fixture->conn = dialled;
}

static void test_many_reply_frames(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {.call.on_reply = on_reply};
    struct wire_put_start_req put = {.wait_ms = 100};

    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_put_start, &put, NULL, 0),
                     SNOW_OK);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.replies, 100);
    assert_int_equal(asked.value, 99);
}

static void test_pipelining_shares_system_calls(void **state)
{
    struct fixture *fixture = *state;
    static struct asked asked[1000];
    uint64_t sends = counter(fixture->client, "sends");
    int ended = 0;

    memset(asked, 0, sizeof asked);
    for (uint32_t i = 0; i < 1000; i++)
        ask_lookup(fixture, &asked[i], i);
    while (ended < 1000) {
        env_loop_turn(fixture->loop, NS_PER_S, 0);
        ended = 0;
        for (int i = 0; i < 1000; i++)
            ended += asked[i].ended;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(asked[i].value, i);
    assert_true(counter(fixture->client, "sends") - sends < 10);
}

static void test_oneway(void **state)
{
    struct fixture *fixture = *state;
    struct wire_report_peer_msg message = {.node = 1};

    assert_int_equal(rpc_oneway(fixture->conn, WIRE_report_peer, &message), SNOW_OK);
    WAIT_FOR(fixture, fixture->oneways == 1);
    assert_int_equal(rpc_oneway(fixture->conn, WIRE_lookup, &message), SNOW_INVALID);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static void test_too_many_calls_are_busy(void **state)
{
    struct fixture *fixture = *state;
    static struct asked asked[LIMIT_REQUESTS_PER_CONN];
    struct asked more = {.call.on_reply = on_reply};
    struct wire_lookup_req lookup = {0};

    memset(asked, 0, sizeof asked);
    for (uint32_t i = 0; i < LIMIT_REQUESTS_PER_CONN; i++)
        ask_lookup(fixture, &asked[i], i);
    assert_int_equal(rpc_call_start(fixture->conn, &more.call, WIRE_lookup, &lookup, NULL, 0),
                     SNOW_BUSY);
    assert_int_equal(counter(fixture->client, "calls_busy"), 1);
    for (uint32_t i = 0; i < LIMIT_REQUESTS_PER_CONN; i++)
        WAIT_FOR(fixture, asked[i].ended == 1);
    ask_lookup(fixture, &more, 1);
    WAIT_FOR(fixture, more.ended == 1);
}

static void test_what_is_too_large_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {.call.on_reply = on_reply};
    static uint8_t bytes[65000];
    static struct wire_key keys[LIMIT_BATCH_ITEMS];
    struct wire_lookup_req lookup = {.keys = keys, .keys_count = LIMIT_BATCH_ITEMS};
    struct iovec iov = {.iov_base = bytes, .iov_len = 10};
    struct rpc_payload huge = {.iov = &iov, .iov_count = 1, .size = LIMIT_PAYLOAD_SIZE + 1};
    struct rpc_payload wrong = {.iov = &iov, .iov_count = 1, .size = 11};

    for (uint32_t i = 0; i < LIMIT_BATCH_ITEMS; i++)
        keys[i].key = bytes_of(bytes, sizeof bytes);
    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_lookup, &lookup, NULL, 0),
                     SNOW_LIMIT);
    lookup.keys_count = 0;
    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_lookup, &lookup, &huge, 0),
                     SNOW_LIMIT);
    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_lookup, &lookup, &wrong, 0),
                     SNOW_INVALID);
    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, 0x7777, &lookup, NULL, 0),
                     SNOW_INVALID);
    assert_false(rpc_call_is_open(&asked.call));
}

/* ---- endings -------------------------------------------------------------------------------- */

static void test_a_deadline_ends_both_sides(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {0};

    ask_in_vain(fixture, &asked, env_now_ns(fixture->env) + 30 * NS_PER_MS);
    WAIT_FOR(fixture, fixture->kept_count == 1);
    assert_int_equal(((const struct wire_stats_req *)rpc_request_message(fixture->kept[0]))->flags,
                     3);
    assert_true(rpc_request_deadline_ns(fixture->kept[0]) <
                env_now_ns(fixture->env) + 100 * NS_PER_MS);
    WAIT_FOR(fixture, asked.ended == 1 && fixture->gone == 1);
    assert_int_equal(asked.status, SNOW_TIMEOUT);
    assert_int_equal(fixture->kept_count, 0);
    /* A deadline that has passed is one, too. */
    ask_in_vain(fixture, &asked, 1);
    assert_int_equal(asked.ended, 1);
    WAIT_FOR(fixture, asked.ended == 2);
}

static void test_a_cancel_reaches_the_peer(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {0};

    ask_in_vain(fixture, &asked, 0);
    WAIT_FOR(fixture, fixture->kept_count == 1);
    assert_true(rpc_request_deadline_ns(fixture->kept[0]) == UINT64_MAX);
    rpc_call_cancel(&asked.call);
    rpc_call_cancel(&asked.call);
    assert_false(rpc_call_is_open(&asked.call));
    WAIT_FOR(fixture, fixture->gone == 1);
    assert_int_equal(asked.replies, 0);
    /* An answer that crosses the cancel is late, and nothing more. */
    ask_lookup(fixture, &asked, 1);
    env_loop_turn(fixture->loop, 0, 0); /* it leaves */
    rpc_call_cancel(&asked.call);
    WAIT_FOR(fixture, counter(fixture->client, "replies_late") == 1);
    ask_lookup(fixture, &asked, 2);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.value, 2);
}

static void test_late_answer_of_a_kept_request(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {0};
    struct wire_stats_rep reply = {0};

    ask_in_vain(fixture, &asked, 0);
    WAIT_FOR(fixture, fixture->kept_count == 1);
    rpc_reply(fixture->kept[0], &reply, false);
    WAIT_FOR(fixture, asked.replies == 1);
    assert_int_equal(asked.ended, 0);
    rpc_fail(fixture->kept[0], SNOW_NO_SPACE);
    WAIT_FOR(fixture, asked.ended == 1);
    assert_int_equal(asked.status, SNOW_NO_SPACE);
    assert_int_equal(fixture->gone, 0);
}

static void test_a_close_ends_calls_and_requests(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked[3] = {0};

    for (int i = 0; i < 3; i++)
        ask_in_vain(fixture, &asked[i], 0);
    WAIT_FOR(fixture, fixture->kept_count == 3);
    rpc_conn_close(fixture->conn);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(asked[i].ended, 1);
        assert_int_equal(asked[i].status, SNOW_CLOSED);
    }
    assert_int_equal(fixture->closes, 0);
    WAIT_FOR(fixture, fixture->closes == 1);
    assert_int_equal(fixture->close_status, SNOW_CLOSED);
    assert_int_equal(fixture->gone, 3);
    fixture->conn = NULL;
}

static void test_both_sides_close_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {0};

    ask_in_vain(fixture, &asked, 0);
    WAIT_FOR(fixture, fixture->kept_count == 1);
    rpc_conn_close(fixture->conn);
    rpc_conn_close(fixture->accepted);
    assert_int_equal(fixture->gone, 1);
    assert_int_equal(asked.ended, 1);
    for (int i = 0; i < 5; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(fixture->closes, 0);
}

static void test_what_was_said_before_a_close_is_heard(void **state)
{
    struct fixture *fixture = *state;
    struct wire_report_peer_msg message = {.node = 1};

    assert_int_equal(rpc_oneway(fixture->conn, WIRE_report_peer, &message), SNOW_OK);
    rpc_conn_close(fixture->conn);
    WAIT_FOR(fixture, fixture->closes == 1);
    assert_int_equal(fixture->oneways, 1);
}

/* ---- greeting ------------------------------------------------------------------------------- */

static void greet(void **state, const struct rpc_identity *server,
                  const struct rpc_identity *client, uint64_t expect, enum snow_status expected,
                  const char *metric)
{
    struct fixture *fixture = *state;

    start(fixture, server, client, &fixture_options);
    dial(fixture, expect);
    assert_int_equal(fixture->open_status, expected);
    if (expected != SNOW_OK)
        assert_true(strlen(fixture->reason) > 5);
    if (metric != NULL)
        assert_int_equal(counter(fixture->server, metric), 1);
}

static void test_another_token_is_refused(void **state)
{
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    client.token = bytes_of_string("secreT");
    greet(state, &server, &client, 0, SNOW_REFUSED, "hello_refused_token");
}

static void test_another_cluster_is_refused(void **state)
{
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    client.cluster = 12;
    greet(state, &server, &client, 0, SNOW_REFUSED, "hello_refused_cluster");
}

static void test_another_incarnation_is_refused(void **state)
{
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    greet(state, &server, &client, 98, SNOW_REFUSED, "hello_refused_incarnation");
}

static void test_the_expected_incarnation_is_greeted(void **state)
{
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    greet(state, &server, &client, 99, SNOW_OK, NULL);
}

static void test_the_service_refuses(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();

    fixture->refuse = SNOW_NOT_LEADER;
    greet(state, &server, &client, 0, SNOW_NOT_LEADER, "hello_refused_service");
    assert_string_equal(fixture->reason, "ask the other one");
    assert_int_equal(fixture->closes, 0);
}

static void test_nobody_listens(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();
    char address[64];

    start(fixture, &server, &client, &fixture_options);
    snprintf(address, sizeof address, "%s", rpc_listen_address(fixture->server));
    rpc_listen_close(fixture->server);
    assert_int_equal(rpc_dial(fixture->client, "nonsense", 0, 0, 0, fixture, on_open,
                              &fixture->conn),
                     SNOW_INVALID);
    assert_int_equal(rpc_dial(fixture->client, address, 0, 0, 0, fixture, on_open, &fixture->conn),
                     SNOW_OK);
    struct asked asked = {.call.on_reply = on_reply};
    struct wire_ping_req ping = {0};

    assert_int_equal(rpc_call_start(fixture->conn, &asked.call, WIRE_ping, &ping, NULL, 0),
                     SNOW_NOT_READY);
    WAIT_FOR(fixture, fixture->opened == 1);
    assert_int_equal(fixture->open_status, SNOW_UNREACHABLE);
}

static void on_accept_silently(void *owner, struct env_conn *conn)
{
    (void)owner;
    (void)conn; /* it is accepted and never owned: nobody answers */
}

static void test_a_silent_peer_times_out(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();
    struct env_listener *silent;

    start(fixture, &server, &client, &fixture_options);
    assert_int_equal(
        env_listen(fixture->loop, "127.0.0.1:0", NULL, on_accept_silently, NULL, &silent), SNOW_OK);
    assert_int_equal(rpc_dial(fixture->client, env_listener_address(silent), 0, 0,
                              env_now_ns(fixture->env) + 50 * NS_PER_MS, fixture, on_open,
                              &fixture->conn),
                     SNOW_OK);
    WAIT_FOR(fixture, fixture->opened == 1);
    assert_int_equal(fixture->open_status, SNOW_TIMEOUT);
}

/* ---- destroying from within ----------------------------------------------------------------- */

struct destroyer {
    struct rpc_call call; /* first */
    struct fixture *fixture;
    bool done;
};

static void on_reply_destroy(struct rpc_call *call, enum snow_status status, const void *reply,
                             bool last)
{
    struct destroyer *destroyer = (struct destroyer *)call;

    (void)reply;
    assert_int_equal(status, SNOW_OK);
    assert_true(last);
    rpc_destroy(destroyer->fixture->client);
    destroyer->fixture->client = NULL;
    destroyer->done = true;
}

static void test_an_endpoint_is_destroyed_in_a_callback(void **state)
{
    struct fixture *fixture = *state;
    struct destroyer destroyer = {.call.on_reply = on_reply_destroy, .fixture = fixture};
    struct wire_lookup_req lookup = {0};

    assert_int_equal(rpc_call_start(fixture->conn, &destroyer.call, WIRE_lookup, &lookup, NULL, 0),
                     SNOW_OK);
    WAIT_FOR(fixture, destroyer.done && fixture->closes == 1);
}

#define RPC_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define BARE_TEST(test) cmocka_unit_test_setup_teardown(test, setup_bare, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RPC_TEST(test_a_call_is_answered),
        RPC_TEST(test_either_side_asks),
        RPC_TEST(test_many_reply_frames),
        RPC_TEST(test_pipelining_shares_system_calls),
        RPC_TEST(test_oneway),
        RPC_TEST(test_too_many_calls_are_busy),
        RPC_TEST(test_what_is_too_large_is_refused),
        RPC_TEST(test_a_deadline_ends_both_sides),
        RPC_TEST(test_a_cancel_reaches_the_peer),
        RPC_TEST(test_late_answer_of_a_kept_request),
        RPC_TEST(test_a_close_ends_calls_and_requests),
        RPC_TEST(test_both_sides_close_at_once),
        RPC_TEST(test_what_was_said_before_a_close_is_heard),
        BARE_TEST(test_another_token_is_refused),
        BARE_TEST(test_another_cluster_is_refused),
        BARE_TEST(test_another_incarnation_is_refused),
        BARE_TEST(test_the_expected_incarnation_is_greeted),
        BARE_TEST(test_the_service_refuses),
        BARE_TEST(test_nobody_listens),
        BARE_TEST(test_a_silent_peer_times_out),
        RPC_TEST(test_an_endpoint_is_destroyed_in_a_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
