/* What a peer may send that is no protocol: the connection is closed with a counted reason,
 * and nothing else happens. */
#include "fixture.h"

/* A raw stream to the server. */
struct raw {
    struct fixture *fixture;
    struct env_conn *conn;
    bool open;
    bool ended;
    bool deaf; /* it does not read */
    uint8_t got[4096];
    size_t got_size;
    uint8_t frame[8192];
    size_t frame_size;
};

static void on_raw_open(void *owner, enum snow_status status)
{
    struct raw *raw = owner;

    assert_int_equal(status, SNOW_OK);
    raw->open = true;
}

static void on_raw_readable(void *owner)
{
    struct raw *raw = owner;
    uint8_t sink[4096];
    struct iovec iov = {.iov_base = sink, .iov_len = sizeof sink};
    ssize_t got;

    if (raw->deaf)
        return;
    while ((got = env_conn_receive(raw->conn, &iov, 1)) > 0) {
        if (raw->got_size + (size_t)got <= sizeof raw->got)
            memcpy(raw->got + raw->got_size, sink, (size_t)got);
        raw->got_size += (size_t)got;
    }
    raw->ended = got == ENV_END;
}

static void on_raw_writable(void *owner)
{
    (void)owner;
}

static const struct env_conn_ops raw_ops = {.on_open = on_raw_open,
                                            .on_readable = on_raw_readable,
                                            .on_writable = on_raw_writable};

static void raw_send(struct raw *raw, const void *at, size_t size)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};

    assert_int_equal(env_conn_send(raw->conn, &iov, 1), size);
}

/* A frame into raw->frame. */
static void make_frame(struct raw *raw, struct frame_header header, const void *body, size_t size)
{
    header.version = 1;
    frame_header_set_body(&header, bytes_of(body, size));
    frame_header_encode(&header, raw->frame);
    if (size > 0)
        memcpy(raw->frame + FRAME_HEADER_SIZE, body, size);
    raw->frame_size = FRAME_HEADER_SIZE + size;
}

static void raw_dial(struct raw *raw, struct fixture *fixture)
{
    *raw = (struct raw){.fixture = fixture};
    assert_int_equal(env_dial(fixture->loop, rpc_listen_address(fixture->server), NULL, &raw_ops,
                              raw, &raw->conn),
                     SNOW_OK);
    WAIT_FOR(fixture, raw->open);
}

static void raw_greet(struct raw *raw, struct fixture *fixture)
{
    struct wire_hello_req hello = {.version_min = 1,
                                   .version_max = 1,
                                   .role = WIRE_ROLE_CLIENT,
                                   .token = bytes_of_string("secret")};
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_hello};
    uint8_t body[256];
    struct writer writer;

    raw_dial(raw, fixture);
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_hello, &hello, &writer), SNOW_OK);
    make_frame(raw, header, body, writer_size(&writer));
    raw_send(raw, raw->frame, raw->frame_size);
    WAIT_FOR(fixture, raw->got_size > FRAME_HEADER_SIZE);
}

static void assert_closed(struct raw *raw, const char *metric)
{
    WAIT_FOR(raw->fixture, raw->ended);
    assert_int_equal(counter(raw->fixture->server, metric), 1);
    env_conn_close(raw->conn, false);
}

/* ---- before the greeting -------------------------------------------------------------------- */

static void test_another_protocol(void **state)
{
    struct raw raw;
    const char text[] = "GET / HTTP/1.1\r\nHost: somebody\r\nUser-Agent: somebody\r\n\r\n";

    raw_dial(&raw, *state);
    raw_send(&raw, text, sizeof text);
    assert_closed(&raw, "bad_magic");
}

static void test_no_greeting(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_ping, .request_id = 1 << 10};
    uint8_t body[8] = {0};

    raw_dial(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "bad_hello");
}

static void test_a_large_greeting(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_hello};
    static uint8_t body[5000];

    raw_dial(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw_send(&raw, raw.frame, FRAME_HEADER_SIZE); /* the header is enough */
    assert_closed(&raw, "bad_limit");
}

static void test_a_greeting_of_the_wrong_versions(void **state)
{
    struct fixture *fixture = *state;
    struct raw raw;
    struct wire_hello_req hello = {.version_min = 7,
                                   .version_max = 9,
                                   .token = bytes_of_string("secret")};
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_hello};
    uint8_t body[256];
    struct writer writer;

    raw_dial(&raw, fixture);
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_hello, &hello, &writer), SNOW_OK);
    make_frame(&raw, header, body, writer_size(&writer));
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "hello_refused_version");
    assert_true(raw.got_size > FRAME_HEADER_SIZE); /* the reason came */
}

static void test_silence(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();
    struct rpc_options hasty = {.hello_timeout_ms = 30, .progress_timeout_ms = 30};
    struct raw raw;

    start(fixture, &server, &client, &hasty);
    raw_dial(&raw, fixture);
    assert_closed(&raw, "hello_timeouts");
}

/* ---- after it ------------------------------------------------------------------------------- */

static void test_a_damaged_header(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_ping, .request_id = 1 << 10};
    uint8_t body[8] = {0};

    raw_greet(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw.frame[9] ^= 1;
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "bad_header");
}

static void test_a_damaged_body(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_ping, .request_id = 1 << 10};
    uint8_t body[8] = {0};

    raw_greet(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw.frame[FRAME_HEADER_SIZE] ^= 1;
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "bad_body");
}

static void test_a_body_above_the_limit(void **state)
{
    struct raw raw;
    struct frame_header header = {.version = 1,
                                  .kind = FRAME_REQUEST,
                                  .type = WIRE_ping,
                                  .body_size = LIMIT_BODY_SIZE + 1,
                                  .request_id = 1 << 10};

    raw_greet(&raw, *state);
    frame_header_encode(&header, raw.frame);
    raw_send(&raw, raw.frame, FRAME_HEADER_SIZE);
    assert_closed(&raw, "bad_limit");
}

static void test_a_body_that_does_not_decode(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_ping, .request_id = 1 << 10};
    uint8_t body[9] = {0};

    raw_greet(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "bad_message");
}

static void test_a_request_id_in_use(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_stats, .request_id = 1 << 10};
    uint8_t body[4] = {0};

    raw_greet(&raw, *state);
    make_frame(&raw, header, body, sizeof body);
    raw_send(&raw, raw.frame, raw.frame_size);
    header.request_id = 2 << 10; /* another id in the same slot */
    make_frame(&raw, header, body, sizeof body);
    raw_send(&raw, raw.frame, raw.frame_size);
    assert_closed(&raw, "bad_request_id");
    assert_int_equal(raw.fixture->gone, 1);
}

static void test_replies_to_nothing_are_late(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REPLY_LAST,
                                  .type = WIRE_ping,
                                  .request_id = 5 << 10};

    raw_greet(&raw, *state);
    make_frame(&raw, header, NULL, 0);
    raw_send(&raw, raw.frame, raw.frame_size);
    header.kind = FRAME_CANCEL;
    make_frame(&raw, header, NULL, 0);
    raw_send(&raw, raw.frame, raw.frame_size);
    WAIT_FOR(raw.fixture, counter(raw.fixture->server, "replies_late") == 1);
    assert_false(raw.ended);
    env_conn_close(raw.conn, false);
}

static void test_unknown_types_are_answered(void **state)
{
    struct raw raw;
    struct frame_header header = {
        .kind = FRAME_REQUEST, .type = 0x7777, .request_id = 5 << 10, .payload_size = 5};
    struct frame_header oneway = {.kind = FRAME_ONEWAY, .type = 0x7778};
    struct frame_header answer;

    raw_greet(&raw, *state);
    raw.got_size = 0;
    make_frame(&raw, header, "newer", 5);
    raw_send(&raw, raw.frame, raw.frame_size);
    raw_send(&raw, "bytes", 5);
    make_frame(&raw, oneway, "newer", 5);
    raw_send(&raw, raw.frame, raw.frame_size);
    WAIT_FOR(raw.fixture, raw.got_size >= FRAME_HEADER_SIZE);
    assert_int_equal(frame_header_decode(bytes_of(raw.got, FRAME_HEADER_SIZE), &answer),
                     FRAME_REASON_OK);
    assert_int_equal(answer.status, SNOW_INVALID);
    assert_int_equal(answer.kind, FRAME_REPLY_LAST);
    WAIT_FOR(raw.fixture, counter(raw.fixture->server, "unknown_types") == 2);
    assert_false(raw.ended);
    env_conn_close(raw.conn, false);
}

static void test_frames_in_small_pieces(void **state)
{
    struct raw raw;
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_ping, .request_id = 1 << 10};
    uint8_t body[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t both[2 * (FRAME_HEADER_SIZE + sizeof body)];

    raw_greet(&raw, *state);
    raw.got_size = 0;
    make_frame(&raw, header, body, sizeof body);
    memcpy(both, raw.frame, raw.frame_size);
    header.request_id = 2 << 10;
    make_frame(&raw, header, body, sizeof body);
    memcpy(both + raw.frame_size, raw.frame, raw.frame_size);
    for (size_t i = 0; i < sizeof both; i += 7) {
        raw_send(&raw, both + i, i + 7 < sizeof both ? 7 : sizeof both - i);
        for (int turn = 0; turn < 3; turn++)
            env_loop_turn(raw.fixture->loop, 0, 0);
    }
    WAIT_FOR(raw.fixture, raw.got_size == sizeof both);
    assert_memory_equal(raw.got + FRAME_HEADER_SIZE, body, sizeof body);
    env_conn_close(raw.conn, false);
}

static void test_a_payload_that_stands_still(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();
    struct rpc_options hasty = {.hello_timeout_ms = 2000, .progress_timeout_ms = 50};
    struct frame_header header = {
        .kind = FRAME_REQUEST, .type = WIRE_write, .request_id = 1 << 10, .payload_size = 100};
    struct wire_write_req write = {0};
    struct writer writer;
    uint8_t body[64];
    struct raw raw;

    start(fixture, &server, &client, &hasty);
    raw_greet(&raw, fixture);
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_write, &write, &writer), SNOW_OK);
    make_frame(&raw, header, body, writer_size(&writer));
    raw_send(&raw, raw.frame, raw.frame_size);
    raw_send(&raw, "half of it", 10);
    assert_closed(&raw, "stalls");
    assert_int_equal(fixture->received_badly, 1);
    assert_int_equal(fixture->gone, 1);
}

/* A peer that takes a little now and then holds what it is sent no longer than it asked to. */
static void test_a_payload_that_trickles(void **state)
{
    struct fixture *fixture = *state;
    struct rpc_identity server = server_identity();
    struct rpc_identity client = client_identity();
    struct rpc_options options = {.socket = {.send_buffer = 64 * 1024},
                                  .hello_timeout_ms = 2000,
                                  .progress_timeout_ms = 400};
    struct frame_header header = {
        .kind = FRAME_REQUEST, .type = WIRE_read, .request_id = 1 << 10, .deadline_ms = 50};
    struct wire_read_item item = {.length = MEMORY_SIZE, .size = MEMORY_SIZE};
    struct wire_read_req read = {.items = &item, .items_count = 1};
    struct writer writer;
    uint8_t body[128];
    uint8_t sink[64 * 1024];
    struct iovec iov = {.iov_base = sink, .iov_len = sizeof sink};
    struct raw raw;
    size_t taken = 0;

    start(fixture, &server, &client, &options);
    raw_greet(&raw, fixture);
    raw.deaf = true;
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_read, &read, &writer), SNOW_OK);
    make_frame(&raw, header, body, writer_size(&writer));
    raw_send(&raw, raw.frame, raw.frame_size);
    while (fixture->sent == 0) {
        uint64_t until_ns = env_now_ns(fixture->env) + 20 * NS_PER_MS;
        ssize_t got = env_conn_receive(raw.conn, &iov, 1);

        taken += got > 0 ? (size_t)got : 0;
        while (env_now_ns(fixture->env) < until_ns)
            env_loop_turn(fixture->loop, NS_PER_MS, 0);
    }
    assert_true(taken < MEMORY_SIZE);
    assert_int_equal(counter(fixture->server, "stalls"), 1);
    env_conn_close(raw.conn, true);
}

/* Replies that are not taken stop the reading of requests, until they are. */
static void test_a_deaf_peer_is_not_read(void **state)
{
    struct fixture *fixture = *state;
    struct wire_put_start_req put = {.wait_ms = 300000}; /* frames */
    struct frame_header header = {.kind = FRAME_REQUEST,
                                  .type = WIRE_put_start,
                                  .request_id = 1 << 10};
    struct writer writer;
    uint8_t body[128];
    struct raw raw;

    raw_greet(&raw, fixture);
    raw.deaf = true;
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_put_start, &put, &writer), SNOW_OK);
    make_frame(&raw, header, body, writer_size(&writer));
    raw_send(&raw, raw.frame, raw.frame_size);
    WAIT_FOR(fixture, counter(fixture->server, "reads_paused") == 1);
    raw_send(&raw, raw.frame, raw.frame_size);
    for (int turn = 0; turn < 10; turn++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(fixture->requests, 1);
    raw.deaf = false;
    on_raw_readable(&raw);
    WAIT_FOR(fixture, fixture->requests == 2);
    env_conn_close(raw.conn, true);
}

/* Requests that came in one piece with the one whose replies are too many wait like later ones. */
static void test_a_deaf_peer_is_not_served(void **state)
{
    enum { requests = 8 };
    struct fixture *fixture = *state;
    struct wire_put_start_req put = {.wait_ms = 200000}; /* frames: more than a queue holds */
    struct writer writer;
    uint8_t body[128];
    uint8_t all[requests * sizeof body];
    size_t size = 0;
    struct raw raw;

    raw_greet(&raw, fixture);
    raw.deaf = true;
    writer_init(&writer, body, sizeof body, 1);
    assert_int_equal(wire_request_encode(WIRE_put_start, &put, &writer), SNOW_OK);
    for (uint64_t i = 0; i < requests; i++) {
        struct frame_header header = {.kind = FRAME_REQUEST,
                                      .type = WIRE_put_start,
                                      .request_id = 1 << 10 | i};

        make_frame(&raw, header, body, writer_size(&writer));
        memcpy(all + size, raw.frame, raw.frame_size);
        size += raw.frame_size;
    }
    raw_send(&raw, all, size - 1);
    WAIT_FOR(fixture, counter(fixture->server, "reads_paused") >= 1);
    for (int turn = 0; turn < 10; turn++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(fixture->requests, 1);
    raw.deaf = false;
    on_raw_readable(&raw);
    WAIT_FOR(fixture, fixture->requests == requests - 1);
    raw_send(&raw, all + size - 1, 1); /* the last byte of a frame that was kept in part */
    WAIT_FOR(fixture, fixture->requests == requests);
    env_conn_close(raw.conn, true);
}

/* A damaged reply ends the call, not the process. */
static void test_random_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct rng rng;

    rng_init(&rng, 5);
    for (int round = 0; round < 200; round++) {
        struct raw raw;
        struct frame_header header = {.kind = (uint8_t)rng_between(&rng, 1, 5),
                                      .type = (uint16_t)rng_below(&rng, 0x130),
                                      .request_id = rng_below(&rng, 5000),
                                      .status = (int32_t)rng_below(&rng, 3) - 1};
        uint8_t body[64];
        size_t size = rng_below(&rng, sizeof body);

        for (size_t i = 0; i < size; i++)
            body[i] = (uint8_t)rng_below(&rng, 3);
        raw_greet(&raw, fixture);
        make_frame(&raw, header, body, size);
        if (rng_chance(&rng, 1, 10))
            raw.frame[rng_below(&rng, raw.frame_size)] ^= 4;
        raw_send(&raw, raw.frame, raw.frame_size);
        for (int turn = 0; turn < 4; turn++)
            env_loop_turn(fixture->loop, 0, 0);
        env_conn_close(raw.conn, true);
        for (int turn = 0; turn < 4; turn++)
            env_loop_turn(fixture->loop, 0, 0);
    }
    WAIT_FOR(fixture, fixture->kept_count == 0);
}

#define RAW_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define BARE_TEST(test) cmocka_unit_test_setup_teardown(test, setup_bare, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RAW_TEST(test_another_protocol),
        RAW_TEST(test_no_greeting),
        RAW_TEST(test_a_large_greeting),
        RAW_TEST(test_a_greeting_of_the_wrong_versions),
        BARE_TEST(test_silence),
        RAW_TEST(test_a_damaged_header),
        RAW_TEST(test_a_damaged_body),
        RAW_TEST(test_a_body_above_the_limit),
        RAW_TEST(test_a_body_that_does_not_decode),
        RAW_TEST(test_a_request_id_in_use),
        RAW_TEST(test_replies_to_nothing_are_late),
        RAW_TEST(test_unknown_types_are_answered),
        RAW_TEST(test_frames_in_small_pieces),
        BARE_TEST(test_a_payload_that_stands_still),
        BARE_TEST(test_a_payload_that_trickles),
        RAW_TEST(test_a_deaf_peer_is_not_read),
        RAW_TEST(test_a_deaf_peer_is_not_served),
        RAW_TEST(test_random_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
