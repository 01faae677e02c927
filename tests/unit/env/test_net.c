#include "base/limits.h"
#include "env/linux.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_NS (20 * NS_PER_S)

struct fixture {
    struct env *env;
    struct env_loop *loop;
    struct env_listener *listener;
    struct env_conn *accepted;
    int accepts;
};

/* One end of a connection: what it was told. */
struct end {
    struct fixture *fixture;
    struct env_conn *conn;
    int opened; /* times */
    enum snow_status open_status;
    int readable; /* times */
    int writable; /* times */
    bool close_when_readable;
};

static void on_open(void *owner, enum snow_status status)
{
    struct end *end = owner;

    end->opened++;
    end->open_status = status;
}

static void on_readable(void *owner)
{
    struct end *end = owner;

    end->readable++;
    if (end->close_when_readable) {
        env_conn_close(end->conn, false);
        end->conn = NULL;
    }
}

static void on_writable(void *owner)
{
    struct end *end = owner;

    end->writable++;
}

static const struct env_conn_ops end_ops = {.on_open = on_open,
                                            .on_readable = on_readable,
                                            .on_writable = on_writable};

static void on_accept(void *owner, struct env_conn *conn)
{
    struct fixture *fixture = owner;

    fixture->accepts++;
    fixture->accepted = conn;
}

static int listen_at(void **state, const char *address)
{
    static struct fixture fixture;

    fixture = (struct fixture){.env = env_linux_create()};
    *state = &fixture;
    if (env_loop_create(fixture.env, "test", &fixture.loop) != SNOW_OK)
        return 1;
    return env_listen(fixture.loop, address, NULL, on_accept, &fixture, &fixture.listener) !=
           SNOW_OK;
}

static int setup(void **state)
{
    return listen_at(state, "127.0.0.1:0");
}

static int setup_local(void **state)
{
    return listen_at(state, "unix:@");
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    env_loop_destroy(fixture->loop);
    env_linux_destroy(fixture->env);
    return 0;
}

#define WAIT_FOR(fixture, condition) \
    do { \
        uint64_t until_ns = env_now_ns((fixture)->env) + PATIENCE_NS; \
        while (!(condition)) { \
            assert_true(env_now_ns((fixture)->env) < until_ns); \
            env_loop_turn((fixture)->loop, NS_PER_S, 0); \
        } \
    } while (0)

/* Both ends of a connection, both owned. */
static void make_pair(struct fixture *fixture, struct end *dialled, struct end *accepted,
                      const struct env_socket_options *options)
{
    *dialled = (struct end){.fixture = fixture};
    *accepted = (struct end){.fixture = fixture};
    fixture->accepts = 0;
    assert_int_equal(env_dial(fixture->loop, env_listener_address(fixture->listener), options,
                              &end_ops, dialled, &dialled->conn),
                     SNOW_OK);
    assert_int_equal(dialled->opened, 0); /* never inside the call */
    WAIT_FOR(fixture, dialled->opened == 1 && fixture->accepts == 1);
    assert_int_equal(dialled->open_status, SNOW_OK);
    accepted->conn = fixture->accepted;
    env_conn_own(accepted->conn, &end_ops, accepted);
}

static ssize_t send_some(struct end *end, const void *at, size_t size)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};

    return env_conn_send(end->conn, &iov, 1);
}

static ssize_t receive_some(struct end *end, void *at, size_t size)
{
    struct iovec iov = {.iov_base = at, .iov_len = size};

    return env_conn_receive(end->conn, &iov, 1);
}

static void test_bytes_both_ways(void **state)
{
    struct fixture *fixture = *state;
    struct end a;
    struct end b;
    char text[16];

    make_pair(fixture, &a, &b, NULL);
    assert_true(strncmp(env_conn_peer(b.conn), "127.0.0.1:", 10) == 0 ||
                strncmp(env_conn_peer(b.conn), "unix:", 5) == 0);
    assert_string_equal(env_conn_peer(a.conn), env_listener_address(fixture->listener));
    assert_int_equal(receive_some(&a, text, sizeof text), ENV_AGAIN);
    assert_int_equal(send_some(&a, "ping", 4), 4);
    WAIT_FOR(fixture, b.readable == 1);
    assert_int_equal(receive_some(&b, text, 2), 2);
    assert_int_equal(receive_some(&b, text + 2, sizeof text - 2), 2);
    assert_memory_equal(text, "ping", 4);
    assert_int_equal(receive_some(&b, text, sizeof text), ENV_AGAIN);
    assert_int_equal(send_some(&b, "pong", 4), 4);
    WAIT_FOR(fixture, a.readable == 1);
    struct iovec parts[2] = {{.iov_base = text, .iov_len = 1},
                             {.iov_base = text + 1, .iov_len = 10}};

    assert_int_equal(env_conn_receive(a.conn, parts, 2), 4);
    assert_memory_equal(text, "pong", 4);
    env_conn_close(a.conn, false);
    WAIT_FOR(fixture, b.readable == 2);
    assert_int_equal(receive_some(&b, text, sizeof text), ENV_END);
    assert_int_equal(receive_some(&b, text, sizeof text), ENV_END);
    env_conn_close(b.conn, false);
}

static void test_readable_is_told_once_until_again(void **state)
{
    struct fixture *fixture = *state;
    struct end a;
    struct end b;
    char text[8];

    make_pair(fixture, &a, &b, NULL);
    assert_int_equal(send_some(&a, "1", 1), 1);
    WAIT_FOR(fixture, b.readable == 1);
    assert_int_equal(send_some(&a, "2", 1), 1);
    for (int i = 0; i < 20; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(b.readable, 1);
    assert_int_equal(receive_some(&b, text, sizeof text), 2);
    /* The kernel is not asked again, but bytes that come later are told. */
    assert_int_equal(receive_some(&b, text, sizeof text), ENV_AGAIN);
    assert_int_equal(send_some(&a, "3", 1), 1);
    WAIT_FOR(fixture, b.readable == 2);
    assert_int_equal(receive_some(&b, text, sizeof text), 1);
    assert_int_equal(text[0], '3');
}

static void test_a_full_stream_tells_when_there_is_room(void **state)
{
    struct fixture *fixture = *state;
    struct env_socket_options small = {.send_buffer = 64 * 1024, .keepalive = true};
    struct end a;
    struct end b;
    size_t size = 8 * 1024 * 1024;
    uint8_t *from = malloc(size);
    uint8_t *to = malloc(size);
    size_t sent = 0;
    size_t got = 0;

    small.user_timeout_ms = 5000;
    for (size_t i = 0; i < size; i++)
        from[i] = (uint8_t)(i * 31 + i / 4096);
    make_pair(fixture, &a, &b, &small);
    while (got < size) {
        ssize_t done;

        while (sent < size && (done = send_some(&a, from + sent, size - sent)) > 0)
            sent += (size_t)done;
        assert_true(sent == size || a.writable >= 0);
        a.writable = 0;
        while ((done = receive_some(&b, to + got, size - got)) > 0)
            got += (size_t)done;
        if (sent < size)
            WAIT_FOR(fixture, a.writable > 0);
        else if (got < size)
            env_loop_turn(fixture->loop, NS_PER_S, 0);
    }
    assert_memory_equal(from, to, size);
    free(from);
    free(to);
}

static void test_a_close_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct end a;
    struct end b;
    static uint8_t big[1 << 20];
    size_t sent = 0;
    size_t got = 0;
    ssize_t done;

    make_pair(fixture, &a, &b, NULL);
    assert_int_equal(send_some(&b, "unread", 6), 6);
    while (sent < sizeof big && (done = send_some(&a, big + sent, sizeof big - sent)) > 0)
        sent += (size_t)done;
    env_conn_close(a.conn, false); /* with bytes unread here and unsent there */
    assert_int_equal(send_some(&b, "late", 4), 4);
    while ((done = receive_some(&b, big, sizeof big)) != ENV_END) {
        got += (size_t)done;
        if (done == ENV_AGAIN)
            env_loop_turn(fixture->loop, NS_PER_S, 0);
    }
    assert_int_equal(got, sent);
}

static void test_a_reset_reaches_the_peer(void **state)
{
    struct fixture *fixture = *state;
    struct end a;
    struct end b;
    char text[8];

    make_pair(fixture, &a, &b, NULL);
    env_conn_close(a.conn, true);
    WAIT_FOR(fixture, b.readable == 1);
    assert_int_equal(receive_some(&b, text, sizeof text), ENV_END);
    assert_int_equal(send_some(&b, "x", 1), ENV_END);
    env_conn_close(b.conn, false);
}

static void test_closing_inside_a_callback(void **state)
{
    struct fixture *fixture = *state;
    struct end a;
    struct end b;

    make_pair(fixture, &a, &b, NULL);
    a.close_when_readable = true;
    b.close_when_readable = true;
    assert_int_equal(send_some(&a, "1", 1), 1);
    assert_int_equal(send_some(&b, "2", 1), 1);
    WAIT_FOR(fixture, a.conn == NULL && b.conn == NULL);
    for (int i = 0; i < 5; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(a.readable + b.readable, 2);
}

static void test_events_wait_for_the_owner(void **state)
{
    struct fixture *fixture = *state;
    struct end a = {.fixture = fixture};
    struct end b = {.fixture = fixture};
    char text[8];

    assert_int_equal(env_dial(fixture->loop, env_listener_address(fixture->listener), NULL,
                              &end_ops, &a, &a.conn),
                     SNOW_OK);
    WAIT_FOR(fixture, a.opened == 1 && fixture->accepts == 1);
    assert_int_equal(send_some(&a, "early", 5), 5);
    for (int i = 0; i < 5; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    b.conn = fixture->accepted;
    env_conn_own(b.conn, &end_ops, &b);
    assert_int_equal(b.readable, 0); /* never inside the call */
    WAIT_FOR(fixture, b.readable == 1);
    assert_int_equal(receive_some(&b, text, sizeof text), 5);
}

static void test_refused_and_bad_addresses(void **state)
{
    static const char *const bad[] = {"",      "host",   "host:",      ":1",     "host:70000",
                                      "h:0",   "a b:1",  "[::1:1",     "[x]:1",  "::1:1",
                                      "h:1x",  "[]:1",   "1.2.3.4:-1", "/tmp:1", "h:123456",
                                      "unix:", "unix:@", "unix:/",     "unix:x", "unix:@a b"};
    struct fixture *fixture = *state;
    struct end a = {.fixture = fixture};
    char address[64];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(env_dial(fixture->loop, bad[i], NULL, &end_ops, &a, &a.conn),
                         SNOW_INVALID);
    snprintf(address, sizeof address, "%s", env_listener_address(fixture->listener));
    env_listener_close(fixture->listener);
    assert_int_equal(env_dial(fixture->loop, address, NULL, &end_ops, &a, &a.conn), SNOW_OK);
    assert_int_equal(a.opened, 0);
    WAIT_FOR(fixture, a.opened == 1);
    assert_int_equal(a.open_status, SNOW_UNREACHABLE);
    env_conn_close(a.conn, false);
}

static void test_names_are_looked_up(void **state)
{
    struct fixture *fixture = *state;
    struct end a = {.fixture = fixture};
    struct end gone = {.fixture = fixture};
    const char *port = strrchr(env_listener_address(fixture->listener), ':');
    char address[64];

    snprintf(address, sizeof address, "localhost%s", port);
    assert_int_equal(env_dial(fixture->loop, address, NULL, &end_ops, &a, &a.conn), SNOW_OK);
    assert_int_equal(env_dial(fixture->loop, address, NULL, &end_ops, &gone, &gone.conn), SNOW_OK);
    env_conn_close(gone.conn, false);
    WAIT_FOR(fixture, a.opened == 1);
    assert_int_equal(a.open_status, SNOW_OK);
    assert_int_equal(gone.opened, 0);
    /* A look-up that is under way when the loop is destroyed is forgotten: teardown does that. */
    assert_int_equal(env_dial(fixture->loop, address, NULL, &end_ops, &gone, &gone.conn), SNOW_OK);
}

static void test_an_address_is_used_once(void **state)
{
    struct fixture *fixture = *state;
    struct env_listener *second;

    assert_int_equal(env_listen(fixture->loop, env_listener_address(fixture->listener), NULL,
                                on_accept, fixture, &second),
                     SNOW_UNREACHABLE);
    assert_int_equal(env_listen(fixture->loop, "nonsense", NULL, on_accept, fixture, &second),
                     SNOW_INVALID);
}

/* ---- within the host ------------------------------------------------------------------------ */

static void test_memory_is_handed_over(void **state)
{
    struct fixture *fixture = *state;
    struct env_memory own;
    struct env_memory readable;
    struct env_memory writable;
    struct end a;
    struct end b;

    make_pair(fixture, &a, &b, NULL);
    assert_true(env_conn_is_same_user(a.conn));
    assert_true(env_conn_is_same_user(b.conn));
    assert_int_equal(env_memory_open(fixture->env, NULL, "test", 2 * MIB, &own), SNOW_OK);
    own.at[5] = 'x';
    assert_int_equal(env_memory_take(b.conn, false, &readable), SNOW_NOT_READY);
    assert_int_equal(env_memory_send(a.conn, &own, false), SNOW_OK);
    assert_int_equal(env_memory_send(a.conn, &own, true), SNOW_OK);
    assert_int_equal(env_memory_take(b.conn, false, &readable), SNOW_OK);
    assert_int_equal(env_memory_take(b.conn, false, &writable), SNOW_OK);
    assert_int_equal(readable.size, 2 * MIB);
    assert_int_equal(readable.at[5], 'x');
    writable.at[6] = 'y';
    assert_int_equal(own.at[6], 'y');
    assert_int_equal(readable.at[6], 'y');
    /* Who got it to read can not map it to write. */
    assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, readable.descriptor, 0), MAP_FAILED);
    env_memory_close(fixture->env, &own);
    assert_int_equal(writable.at[6], 'y'); /* it lives as long as anybody has it */
    env_memory_close(fixture->env, &readable);
    env_memory_close(fixture->env, &writable);
}

static void test_memory_that_can_shrink_is_not_taken(void **state)
{
    struct fixture *fixture = *state;
    struct env_memory loose = {.descriptor = memfd_create("loose", MFD_CLOEXEC)};
    struct env_memory taken;
    struct end a;
    struct end b;

    assert_true(loose.descriptor >= 0 && ftruncate(loose.descriptor, 8192) == 0);
    make_pair(fixture, &a, &b, NULL);
    assert_int_equal(env_memory_send(a.conn, &loose, true), SNOW_OK);
    assert_int_equal(env_memory_take(b.conn, false, &taken), SNOW_INVALID);
    assert_int_equal(env_memory_send(a.conn, &loose, true), SNOW_OK);
    assert_int_equal(env_memory_take(b.conn, true, &taken), SNOW_OK);
    env_memory_close(fixture->env, &taken);
    close(loose.descriptor);
}

static void test_memory_goes_only_within_the_host(void **state)
{
    struct fixture *fixture = *state;
    struct env_memory memory;
    struct end a;
    struct end b;

    make_pair(fixture, &a, &b, NULL);
    assert_false(env_conn_is_same_user(b.conn));
    assert_int_equal(env_memory_open(fixture->env, NULL, "test", 4096, &memory), SNOW_OK);
    assert_int_equal(env_memory_send(a.conn, &memory, false), SNOW_INVALID);
    env_memory_close(fixture->env, &memory);
}

/* A socket of the listener's kind, without the greeting. */
static int connect_raw(struct fixture *fixture)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = env_listener_address(fixture->listener) + 5;
    int made = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    memcpy(to.sun_path, name, strlen(name));
    to.sun_path[0] = 0;
    assert_int_equal(connect(made, (struct sockaddr *)&to,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    return made;
}

static void test_who_does_not_greet_is_no_connection(void **state)
{
    struct fixture *fixture = *state;
    int silent = connect_raw(fixture);
    int liar = connect_raw(fixture);
    char answer[2];

    assert_int_equal(send(liar, "xy", 2, 0), 2);
    for (int i = 0; i < 5; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(recv(liar, answer, sizeof answer, 0), 0); /* closed */
    assert_int_equal(fixture->accepts, 0);
    env_listener_close(fixture->listener);
    assert_int_equal(recv(silent, answer, sizeof answer, 0), 0);
    close(silent);
    close(liar);
}

static void test_a_socket_file_of_the_dead_is_used_again(void **state)
{
    struct fixture *fixture = *state;
    struct env_listener *first;
    struct env_listener *second;
    char path[] = "/tmp/snowskin-test-XXXXXX";
    char address[64];

    assert_non_null(mkdtemp(path));
    snprintf(address, sizeof address, "unix:%s/s", path);
    assert_int_equal(env_listen(fixture->loop, address, NULL, on_accept, fixture, &first), SNOW_OK);
    assert_int_equal(env_listen(fixture->loop, address, NULL, on_accept, fixture, &second),
                     SNOW_UNREACHABLE);
    env_listener_close(first); /* the file stays */
    assert_int_equal(env_listen(fixture->loop, address, NULL, on_accept, fixture, &second),
                     SNOW_OK);
    unlink(address + 5);
    rmdir(path);
}

/* A library must not change what a signal does to its process. */
static void test_the_process_keeps_its_signals(void **state)
{
    struct sigaction pipe;

    (void)state;
    assert_int_equal(sigaction(SIGPIPE, NULL, &pipe), 0);
    assert_ptr_equal(pipe.sa_handler, SIG_DFL);
}

#define NET_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define LOCAL_TEST(test) \
    { \
#test " within the host", test, setup_local, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        NET_TEST(test_bytes_both_ways),
        NET_TEST(test_readable_is_told_once_until_again),
        NET_TEST(test_a_full_stream_tells_when_there_is_room),
        NET_TEST(test_a_close_loses_nothing),
        NET_TEST(test_a_reset_reaches_the_peer),
        NET_TEST(test_closing_inside_a_callback),
        NET_TEST(test_events_wait_for_the_owner),
        NET_TEST(test_refused_and_bad_addresses),
        NET_TEST(test_names_are_looked_up),
        NET_TEST(test_an_address_is_used_once),
        NET_TEST(test_the_process_keeps_its_signals),
        NET_TEST(test_memory_goes_only_within_the_host),
        LOCAL_TEST(test_bytes_both_ways),
        LOCAL_TEST(test_readable_is_told_once_until_again),
        LOCAL_TEST(test_a_full_stream_tells_when_there_is_room),
        LOCAL_TEST(test_a_close_loses_nothing),
        LOCAL_TEST(test_a_reset_reaches_the_peer),
        LOCAL_TEST(test_closing_inside_a_callback),
        LOCAL_TEST(test_events_wait_for_the_owner),
        LOCAL_TEST(test_refused_and_bad_addresses),
        LOCAL_TEST(test_an_address_is_used_once),
        LOCAL_TEST(test_memory_is_handed_over),
        LOCAL_TEST(test_memory_that_can_shrink_is_not_taken),
        LOCAL_TEST(test_who_does_not_greet_is_no_connection),
        LOCAL_TEST(test_a_socket_file_of_the_dead_is_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
