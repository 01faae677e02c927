#include "fixture.h"
#include "rpc/peer.h"
#include "rpc/retry.h"

struct link {
    struct rpc_peer peer; /* first */
    int ups;
    int downs;
    int failures;
    enum snow_status failure;
    char reason[64];
};

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct link *link = (struct link *)peer;

    assert_int_equal(hello->session, 77);
    assert_non_null(rpc_peer_conn(peer));
    link->ups++;
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    struct link *link = (struct link *)peer;

    (void)status;
    assert_null(rpc_peer_conn(peer));
    link->downs++;
}

static void on_failed(struct rpc_peer *peer, enum snow_status status, struct bytes reason)
{
    struct link *link = (struct link *)peer;

    link->failures++;
    link->failure = status;
    snprintf(link->reason, sizeof link->reason, "%.*s", (int)reason.size, (const char *)reason.at);
}

static void test_a_link_comes_back(void **state)
{
    struct fixture *fixture = *state;
    struct link link = {.peer = {.on_up = on_up, .on_down = on_down, .on_failed = on_failed}};
    struct asked asked = {0};
    char address[64];

    snprintf(address, sizeof address, "%s", rpc_listen_address(fixture->server));
    assert_int_equal(rpc_peer_open(&link.peer, fixture->client, "nonsense", 0), SNOW_INVALID);
    assert_int_equal(rpc_peer_open(&link.peer, fixture->client, address, 0), SNOW_OK);
    assert_null(rpc_peer_conn(&link.peer));
    WAIT_FOR(fixture, link.ups == 1);
    assert_int_equal(link.peer.session, 77);
    rpc_conn_close(fixture->accepted);
    WAIT_FOR(fixture, link.downs == 1);
    WAIT_FOR(fixture, link.ups == 2);
    rpc_peer_reset(&link.peer);
    assert_int_equal(link.downs, 1); /* never inside the call */
    WAIT_FOR(fixture, link.downs == 2 && link.ups == 3);
    fixture->conn = rpc_peer_conn(&link.peer);
    ask_lookup(fixture, &asked, 3);
    WAIT_FOR(fixture, asked.ended == 1);
    /* Nobody listens: each try fails at once, and the next comes later. */
    rpc_listen_close(fixture->server);
    rpc_conn_close(fixture->accepted);
    WAIT_FOR(fixture, link.failures == 3);
    assert_int_equal(link.failure, SNOW_UNREACHABLE);
    assert_int_equal(rpc_listen(fixture->server, address), SNOW_OK);
    WAIT_FOR(fixture, link.ups == 4);
    rpc_peer_close(&link.peer);
    rpc_peer_close(&link.peer);
    assert_int_equal(link.downs, 3);
    fixture->conn = NULL;
}

static void test_a_refusal_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct link link = {.peer = {.on_up = on_up, .on_down = on_down, .on_failed = on_failed}};

    fixture->refuse = SNOW_NOT_LEADER;
    assert_int_equal(rpc_peer_open(&link.peer, fixture->client, rpc_listen_address(fixture->server),
                                   0),
                     SNOW_OK);
    WAIT_FOR(fixture, link.failures == 2);
    assert_int_equal(link.failure, SNOW_NOT_LEADER);
    assert_string_equal(link.reason, "ask the other one");
    rpc_peer_close(&link.peer);
}

static void test_retry_reads_verdicts(void **state)
{
    struct rng rng;
    struct rpc_retry retry = {.deadline_ns = 100 * NS_PER_S, .rng = &rng};
    uint64_t at_ns = 0;

    (void)state;
    rng_init(&rng, 1);
    assert_false(rpc_retry_again(&retry, SNOW_NOT_FOUND, true, 0, 0, &at_ns));
    assert_false(rpc_retry_again(&retry, SNOW_OK, true, 0, 0, &at_ns));
    assert_false(rpc_retry_again(&retry, SNOW_CLOSED, false, 0, 0, &at_ns));
    assert_int_equal(retry.attempts, 0);
    assert_true(rpc_retry_again(&retry, SNOW_CLOSED, true, 0, 0, &at_ns));
    assert_true(rpc_retry_again(&retry, SNOW_BUSY, false, 7, 0, &at_ns));
    assert_int_equal(at_ns, 7 * NS_PER_MS);
    assert_false(rpc_retry_again(&retry, SNOW_BUSY, false, 7, 99998 * NS_PER_MS, &at_ns));
    assert_false(rpc_retry_again(&retry, SNOW_BUSY, false, 0, 200 * NS_PER_S, &at_ns));
    uint64_t now_ns = 0;
    uint32_t tries = 0;

    while (rpc_retry_again(&retry, SNOW_BUSY, false, 0, now_ns, &at_ns)) {
        assert_true(at_ns > now_ns && at_ns <= now_ns + 500 * NS_PER_MS);
        now_ns = at_ns;
        tries++;
    }
    assert_int_equal(tries, LIMIT_RETRIES - 2);
    assert_true(now_ns > 10 * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_link_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_refusal_is_told, setup, teardown),
        cmocka_unit_test(test_retry_reads_verdicts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
