#include "fixture.h"

static void fill(uint8_t *at, size_t size, uint8_t salt)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(i * 13 + i / 777 + salt);
}

static void test_payloads_both_ways(void **state)
{
    static const uint64_t sizes[] = {1, 2, 100, 4096, 65536, 300000, 1 << 20, 5000001};
    struct fixture *fixture = *state;
    uint8_t *mine = malloc(MEMORY_SIZE);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct asked write = {0};
        struct asked read = {0};

        fill(mine, sizes[i], (uint8_t)i);
        ask_write(fixture, &write, mine, sizes[i], 0);
        WAIT_FOR(fixture, write.ended == 1);
        assert_int_equal(write.status, SNOW_OK);
        assert_memory_equal(fixture->memory, mine, sizes[i]);
        memset(mine, 0, sizes[i]);
        ask_read(fixture, &read, mine, sizes[i]);
        WAIT_FOR(fixture, read.ended == 1);
        assert_int_equal(read.status, SNOW_OK);
        assert_int_equal(read.pieces_size, sizes[i]);
        assert_memory_equal(fixture->memory, mine, sizes[i]);
    }
    assert_int_equal(fixture->sent, sizeof sizes / sizeof sizes[0]);
    assert_int_equal(counter(fixture->client, "bytes_drained"), 0);
    free(mine);
}

static void test_large_payloads_are_not_copied(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *mine = malloc(MIB);
    uint64_t first = 0;

    fill(mine, MIB, 3);
    for (uint32_t i = 0; i < 8; i++) {
        struct asked write = {0};

        ask_write(fixture, &write, mine, MIB - i, 0);
        WAIT_FOR(fixture, write.ended == 1);
        assert_int_equal(write.status, SNOW_OK);
        if (i == 0) /* that payloads are large had to be learnt */
            first = counter(fixture->server, "bytes_copied");
    }
    assert_true(counter(fixture->server, "bytes_copied") == first);
    free(mine);
}

static void test_payloads_and_frames_mix(void **state)
{
    struct fixture *fixture = *state;
    struct asked lookups[20] = {0};
    struct asked writes[20] = {0};
    uint8_t *mine = malloc(20 * 70000);

    fill(mine, 20 * 70000, 1);
    for (uint32_t i = 0; i < 20; i++) {
        ask_lookup(fixture, &lookups[i], i);
        ask_write(fixture, &writes[i], mine + i * 70000, 70000 - i, 0);
    }
    for (uint32_t i = 0; i < 20; i++) {
        WAIT_FOR(fixture, lookups[i].ended == 1 && writes[i].ended == 1);
        assert_int_equal(lookups[i].value, i);
        assert_int_equal(writes[i].status, SNOW_OK);
    }
    assert_memory_equal(fixture->memory, mine + 19 * 70000, 70000 - 19);
    free(mine);
}

static void test_a_refused_write_is_drained(void **state)
{
    struct fixture *fixture = *state;
    struct asked write = {0};
    struct asked after = {0};
    uint8_t *mine = malloc(3 * MIB);

    memset(mine, 1, 3 * MIB);
    fixture->refuse_writes = true;
    ask_write(fixture, &write, mine, 3 * MIB, 0);
    ask_lookup(fixture, &after, 5);
    WAIT_FOR(fixture, write.ended == 1 && after.ended == 1);
    assert_int_equal(write.status, SNOW_STALE);
    assert_int_equal(counter(fixture->server, "bytes_drained"), 3 * MIB);
    assert_int_equal(fixture->closes, 0);
    free(mine);
}

static void test_a_refused_reply_payload_is_drained(void **state)
{
    struct fixture *fixture = *state;
    struct asked read = {.refuse_payload = true};
    struct asked after = {0};
    uint8_t to[16] = {0};

    ask_read(fixture, &read, to, 3 * MIB);
    ask_lookup(fixture, &after, 5);
    WAIT_FOR(fixture, read.ended == 1 && after.ended == 1);
    assert_int_equal(read.status, SNOW_OK);
    assert_int_equal(read.pieces_size, 0);
    assert_int_equal(counter(fixture->client, "bytes_drained"), 3 * MIB);
}

static void test_a_cut_drains_a_range(void **state)
{
    struct fixture *fixture = *state;
    struct asked write = {0};
    uint8_t *mine = malloc(6 * MIB);
    uint8_t *before = malloc(3 * MIB);

    fill(mine, 6 * MIB, 9);
    memcpy(before, fixture->memory + 3 * MIB, 3 * MIB);
    fixture->cut = true;
    ask_write(fixture, &write, mine, 6 * MIB, 0);
    WAIT_FOR(fixture, write.ended == 1);
    assert_int_equal(write.status, SNOW_OK);
    assert_memory_equal(fixture->memory, mine, 3 * MIB);
    uint64_t drained = counter(fixture->server, "bytes_drained");

    /* The first piece may have been large; what came after the cut was drained. */
    assert_memory_equal(fixture->memory + 6 * MIB - drained, before + 3 * MIB - drained, drained);
    free(before);
    free(mine);
}

static void test_an_unsent_write_is_taken_back(void **state)
{
    struct fixture *fixture = *state;
    struct asked write = {0};
    struct asked after = {0};
    uint8_t mine[1000] = {0};

    ask_write(fixture, &write, mine, sizeof mine, 0);
    rpc_call_cancel(&write.call);
    assert_int_equal(rpc_conn_queued(fixture->conn), 0);
    ask_lookup(fixture, &after, 5);
    WAIT_FOR(fixture, after.ended == 1);
    assert_int_equal(fixture->requests, 1);
    assert_int_equal(fixture->closes, 0);
}

static void test_a_half_sent_write_resets(void **state)
{
    struct fixture *fixture = *state;
    struct asked write = {0};
    struct asked other = {0};
    size_t size = 60 * MIB;
    uint8_t *mine = calloc(1, size);

    ask_in_vain(fixture, &other, 0);
    fixture->refuse_writes = true;
    ask_write(fixture, &write, mine, size, 0);
    WAIT_FOR(fixture, fixture->requests == 2); /* it is on its way */
    rpc_call_cancel(&write.call);
    free(mine);                       /* nothing reads it any more */
    assert_int_equal(other.ended, 0); /* never inside the call */
    WAIT_FOR(fixture, fixture->closes == 2);
    assert_int_equal(write.replies, 0);
    assert_int_equal(other.status, SNOW_CLOSED);
    assert_int_equal(counter(fixture->client, "resets"), 1);
    assert_int_equal(fixture->gone, 1); /* the one that waited; the write was answered */
}

static void test_a_write_that_passes_its_deadline(void **state)
{
    struct fixture *fixture = *state;
    struct asked write = {0};
    size_t size = 60 * MIB;
    uint8_t *mine = calloc(1, size);

    /* The receiver reads only in turns of this loop, so the deadline passes in the middle. */
    ask_write(fixture, &write, mine, size, env_now_ns(fixture->env) + NS_PER_MS);
    WAIT_FOR(fixture, write.ended == 1);
    free(mine);
    assert_true(write.status == SNOW_TIMEOUT || write.status == SNOW_CLOSED);
}

static void test_a_cancelled_small_read_is_drained(void **state)
{
    struct fixture *fixture = *state;
    struct asked read = {.cancel_in_piece = true};
    struct asked after = {0};
    uint8_t *to = malloc(512 * KIB);

    ask_read(fixture, &read, to, 512 * KIB);
    WAIT_FOR(fixture, read.pieces_size > 0);
    free(to); /* nothing writes to it any more */
    ask_lookup(fixture, &after, 5);
    WAIT_FOR(fixture, after.ended == 1);
    assert_int_equal(read.replies, 0);
    assert_int_equal(fixture->closes, 0);
}

static void test_a_cancelled_large_read_resets(void **state)
{
    struct fixture *fixture = *state;
    struct asked read = {.cancel_in_piece = true};
    uint8_t *to = malloc(7 * MIB);

    ask_read(fixture, &read, to, 7 * MIB);
    WAIT_FOR(fixture, read.pieces_size > 0);
    free(to);
    WAIT_FOR(fixture, fixture->closes > 0 || fixture->sent > 0);
    for (int i = 0; i < 5; i++)
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    assert_int_equal(read.replies, 0);
    assert_int_equal(fixture->sent, 1); /* told once, whatever became of it */
}

static void test_a_close_tells_unsent_payloads(void **state)
{
    struct fixture *fixture = *state;
    struct asked read = {0};
    uint8_t *to = malloc(7 * MIB);

    ask_read(fixture, &read, to, 7 * MIB);
    WAIT_FOR(fixture, read.pieces_size > 0);
    rpc_conn_close(fixture->accepted);
    assert_int_equal(fixture->sent, 1);
    WAIT_FOR(fixture, read.ended == 1);
    free(to);
}

#define RPC_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RPC_TEST(test_payloads_both_ways),
        RPC_TEST(test_large_payloads_are_not_copied),
        RPC_TEST(test_payloads_and_frames_mix),
        RPC_TEST(test_a_refused_write_is_drained),
        RPC_TEST(test_a_refused_reply_payload_is_drained),
        RPC_TEST(test_a_cut_drains_a_range),
        RPC_TEST(test_an_unsent_write_is_taken_back),
        RPC_TEST(test_a_half_sent_write_resets),
        RPC_TEST(test_a_write_that_passes_its_deadline),
        RPC_TEST(test_a_cancelled_small_read_is_drained),
        RPC_TEST(test_a_cancelled_large_read_resets),
        RPC_TEST(test_a_close_tells_unsent_payloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
