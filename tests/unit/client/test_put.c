/* Puts against a scripted master and nodes: what is asked again, how, and what never is. */
#include "fake.h"

static const char value[] = "the value of a page, all of it";

static void a_put(void **state)
{
    struct fake *fake = *state;
    char got[64] = "";

    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 1);
    assert_int_equal(times(fake, WIRE_put_end), 1);
    assert_int_not_equal(nth(fake, WIRE_put_start, 0)->operation, 0);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(fake->aborted, 0);
}

static void exists_is_done(void **state)
{
    struct fake *fake = *state;

    say(&fake->put_starts, SNOW_EXISTS);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_EXISTS);
    assert_int_equal(fake->nodes[0].write_count, 0);
    assert_int_equal(metric(fake, "puts_existed"), 1);
}

/* A stale grant: the same operation and position, so the master gives the same grant again. */
static void stale_asks_again(void **state)
{
    struct fake *fake = *state;

    say(&fake->nodes[0].writes, SNOW_STALE);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 2);
    assert_int_equal(nth(fake, WIRE_put_start, 0)->operation,
                     nth(fake, WIRE_put_start, 1)->operation);
    assert_int_equal(metric(fake, "writes_again"), 1);
}

static void a_lost_node_connection_writes_again(void **state)
{
    struct fake *fake = *state;

    say(&fake->nodes[0].writes, SAY_CLOSE);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(fake->nodes[0].write_count, 2);
    assert_int_equal(fake->reports, 0);
}

static void lost_connections_to_the_master(void **state)
{
    struct fake *fake = *state;

    say(&fake->put_starts, SAY_CLOSE);
    say(&fake->put_ends, SAY_CLOSE);
    say(&fake->put_ends, SNOW_UNKNOWN);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 2);
    assert_int_equal(nth(fake, WIRE_put_start, 0)->operation,
                     nth(fake, WIRE_put_start, 1)->operation);
    assert_int_equal(times(fake, WIRE_put_end), 3);
    assert_int_equal(fake->nodes[0].write_count, 1);
    assert_true(metric(fake, "master_lost") >= 2);
}

/* The attempt has ended meanwhile: another one. */
static void gone_begins_anew(void **state)
{
    struct fake *fake = *state;

    say(&fake->put_ends, SNOW_GONE);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 2);
    assert_int_not_equal(nth(fake, WIRE_put_start, 0)->operation,
                         nth(fake, WIRE_put_start, 1)->operation);
}

/* A value that replaces is not written twice when its put_end may have had its effect. */
static void gone_after_a_lost_end_of_a_replace(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put item = {
        .key = {.at = "k", .size = 1}, .from = value, .size = sizeof(value), .replace = 1};

    say(&fake->put_ends, SAY_CLOSE);
    say(&fake->put_ends, SNOW_GONE);
    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_GONE);
    assert_int_equal(times(fake, WIRE_put_start), 1);
}

static void waiting_for_another_writer(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = value, .size = 5};
    struct snow_call call = {.flags = SNOW_CALL_NO_WAIT_WRITER};

    say(&fake->put_starts, SNOW_IN_PROGRESS);
    say(&fake->put_starts, SNOW_BUSY);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 3);
    say(&fake->put_starts, SNOW_IN_PROGRESS);
    put_all(fake, &put, &item, 1, &call);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_IN_PROGRESS);
    assert_int_equal(times(fake, WIRE_put_start), 4);
}

static void no_space_says_why(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = value, .size = 5};

    say(&fake->put_starts, SNOW_NO_SPACE);
    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_NO_SPACE);
    assert_string_equal(put.op.reason, "in the way");
    assert_true(nth(fake, WIRE_put_start, 0)->wait_ms > 2000);
    assert_true(nth(fake, WIRE_put_start, 0)->wait_ms <= 2500);
}

/* A reason is the first failed item's or nobody's: the next one's would mislead. */
static void a_reason_is_its_items(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put items[2] = {{.key = {.at = "", .size = 0}, .from = value, .size = 5},
                                {.key = {.at = "k", .size = 1}, .from = value, .size = 5}};

    say(&fake->put_starts, SNOW_NO_SPACE);
    put_all(fake, &put, items, 2, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(items[0].status, SNOW_INVALID);
    assert_int_equal(items[1].status, SNOW_NO_SPACE);
    assert_string_equal(put.op.reason, "");
}

/* Nobody listens at the first node's address: given back, reported, and put on the other one. */
static void an_unreachable_node(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = value, .size = 5};

    fake->addresses[0] = "127.0.0.1:1";
    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, fake->reports == 1);
    fake->first_node = 1;
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_OK);
    assert_int_not_equal(nth(fake, WIRE_put_start, 0)->operation,
                         nth(fake, WIRE_put_start, 1)->operation);
    assert_true(fake->aborted >= 1);
    assert_true(metric(fake, "writes_elsewhere") >= 1);
}

static void a_copy_that_fails_is_left_out(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = value, .size = 5, .replicas = 2};

    fake->addresses[1] = "127.0.0.1:1";
    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_OK);
    assert_int_equal(item.shortfall, 1);
    assert_int_equal(nth(fake, WIRE_put_end, 0)->replicas, 1);
    assert_int_equal(metric(fake, "puts_short"), 1);
}

static void places_that_do_not_fit(void **state)
{
    struct fake *fake = *state;

    say(&fake->put_starts, SAY_OUTSIDE);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_INVALID);
    assert_int_equal(fake->nodes[0].write_count, 0);
    assert_int_equal(metric(fake, "bad_places"), 1);
    TURN_UNTIL(fake, fake->aborted == 1);
}

static void a_large_object_in_two_parts(void **state)
{
    struct fake *fake = *state;
    size_t size = 19 * MIB + 7;
    uint8_t *bytes = malloc(size);
    uint8_t *got = malloc(size);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 13 + i / 4096);
    fake->parts = 2;
    assert_int_equal(put_one(fake, "k", bytes, size, 2), SNOW_OK);
    assert_int_equal(get_one(fake, "k", got, size), SNOW_OK);
    assert_memory_equal(got, bytes, size);
    free(bytes);
    free(got);
}

/* What is granted is written and ended, whatever the rest waits for. */
static void grants_that_come_one_by_one(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put items[3] = {{.key = {.at = "a", .size = 1}, .from = value, .size = 5},
                                {.key = {.at = "b", .size = 1}, .from = value, .size = 6},
                                {.key = {.at = "c", .size = 1}, .from = value, .size = 7}};
    struct snow_call call = {.continues = 99};

    say(&fake->put_starts, SAY_ONE);
    put_all(fake, &put, items, 3, &call);
    TURN_UNTIL(fake, times(fake, WIRE_put_end) == 1);
    assert_int_equal(put.done, 0);
    assert_int_equal(nth(fake, WIRE_put_end, 0)->count, 1);
    fake_release(fake);
    TURN_UNTIL(fake, put.done == 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(items[i].status, SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 1);
    assert_int_equal(nth(fake, WIRE_put_start, 0)->continues, 99);
    assert_int_equal(nth(fake, WIRE_put_end, 0)->continues, 99);
}

/* A connection that ends in the middle: only what has no answer is asked again, at its position. */
static void only_the_rest_is_asked_again(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put items[3] = {{.key = {.at = "a", .size = 1}, .from = value, .size = 5},
                                {.key = {.at = "b", .size = 1}, .from = value, .size = 6},
                                {.key = {.at = "c", .size = 1}, .from = value, .size = 7}};

    say(&fake->put_starts, SAY_ONE);
    put_all(fake, &put, items, 3, NULL);
    TURN_UNTIL(fake, times(fake, WIRE_put_end) == 1);
    rpc_conn_close(rpc_request_conn(fake->held));
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(times(fake, WIRE_put_start), 2);
    assert_int_equal(nth(fake, WIRE_put_start, 1)->position, 1);
    assert_int_equal(nth(fake, WIRE_put_start, 1)->count, 2);
    assert_int_equal(nth(fake, WIRE_put_start, 1)->operation,
                     nth(fake, WIRE_put_start, 0)->operation);
    for (int i = 0; i < 3; i++)
        assert_int_equal(items[i].status, SNOW_OK);
}

#define MANY 3000

static void a_long_batch(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put *items = calloc(MANY, sizeof(*items));
    char(*names)[16] = calloc(MANY, sizeof(*names));
    uint32_t total = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i);
        items[i] = (struct snow_put){.key = {.at = names[i], .size = strlen(names[i])},
                                     .from = value,
                                     .size = 20};
    }
    say(&fake->put_starts, SAY_LIMIT); /* an answer too large for a frame: smaller questions */
    put_all(fake, &put, items, MANY, NULL);
    TURN_UNTIL(fake, put.done == 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(items[i].status, SNOW_OK);
    for (int i = 1; i < times(fake, WIRE_put_start); i++) {
        assert_true(nth(fake, WIRE_put_start, i)->count <= 1024);
        assert_int_equal(nth(fake, WIRE_put_start, i)->operation,
                         nth(fake, WIRE_put_start, 0)->operation);
        total += nth(fake, WIRE_put_start, i)->count;
    }
    assert_int_equal(total, MANY);
    free(items);
    free(names);
}

/* The same key twice in a batch is sent once. */
static void twins(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put items[4] = {{.key = {.at = "a", .size = 1}, .from = "first", .size = 5},
                                {.key = {.at = "", .size = 0}, .from = "bad", .size = 3},
                                {.key = {.at = "a", .size = 1}, .from = "second", .size = 6},
                                {.key = {.at = "b", .size = 1}, .from = "third", .size = 5}};
    uint8_t got[8] = {0};

    put_all(fake, &put, items, 4, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(items[0].status, SNOW_OK);
    assert_int_equal(items[1].status, SNOW_INVALID);
    assert_int_equal(items[2].status, SNOW_OK);
    assert_int_equal(items[3].status, SNOW_OK);
    /* Positions are those of the batch: what is left out in the middle parts the question. */
    assert_int_equal(times(fake, WIRE_put_start), 2);
    assert_int_equal(nth(fake, WIRE_put_start, 0)->count, 1);
    assert_int_equal(nth(fake, WIRE_put_start, 1)->position, 3);
    assert_int_equal(get_one(fake, "a", got, sizeof(got)), SNOW_OK);
    assert_memory_equal(got, "first", 5);
}

/* What failed for good is not asked again because something else is. */
static void a_final_answer_beside_one_to_repeat(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_put items[3] = {{.key = {.at = "a", .size = 1}, .from = "first", .size = 5},
                                {.key = {.at = "", .size = 0}, .from = "bad", .size = 3},
                                {.key = {.at = "b", .size = 1}, .from = "third", .size = 5}};

    say(&fake->put_starts, SNOW_BUSY);
    say(&fake->put_starts, SAY_LIMIT);
    put_all(fake, &put, items, 3, NULL);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(items[0].status, SNOW_OK);
    assert_int_equal(items[2].status, SNOW_LIMIT);
    assert_int_equal(times(fake, WIRE_put_start), 3);
}

/* Of those that replace, the last is what is there afterwards. */
static void twins_that_replace(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    struct snow_key key = {.at = "a", .size = 1};
    struct snow_put items[4] = {{.key = key, .from = "first", .size = 5},
                                {.key = key, .from = "second", .size = 6, .replace = 1},
                                {.key = key, .from = "third", .size = 5, .replace = 1},
                                {.key = key, .from = "fourth", .size = 6}};
    uint8_t got[8] = {0};

    put_all(fake, &put, items, 4, NULL);
    TURN_UNTIL(fake, put.done == 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(items[i].status, SNOW_OK);
    assert_int_equal(times(fake, WIRE_put_start), 1);
    assert_int_equal(nth(fake, WIRE_put_start, 0)->position, 2);
    assert_int_equal(get_one(fake, "a", got, sizeof(got)), SNOW_OK);
    assert_memory_equal(got, "third", 5);
}

static void the_deadline(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    uint8_t bytes[1000] = {1};
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = bytes, .size = sizeof(bytes)};
    struct snow_call call = {.deadline_ms = 100};
    uint64_t from_ns = env_now_ns(fake->env);

    say(&fake->nodes[0].writes, SAY_NOTHING);
    put_all(fake, &put, &item, 1, &call);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_TIMEOUT);
    assert_true(env_now_ns(fake->env) - from_ns < 2 * NS_PER_S);
    TURN_UNTIL(fake, fake->aborted == 1); /* the grant is given back without waiting */
    put.done = 0;
    say(&fake->put_starts, SAY_NOTHING);
    put_all(fake, &put, &item, 1, &call);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_TIMEOUT);
}

static void a_cancel(void **state)
{
    struct fake *fake = *state;
    struct fake_put put = {.done = 0};
    size_t size = 8 * MIB;
    uint8_t *bytes = calloc(1, size);
    struct snow_put item = {.key = {.at = "k", .size = 1}, .from = bytes, .size = size};

    put_all(fake, &put, &item, 1, NULL);
    client_put_cancel(&put.op);
    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, fake->nodes[0].write_count > 0);
    client_put_cancel(&put.op);
    free(bytes); /* nothing reads it any more */
    TURN_UNTIL(fake, fake->aborted >= 1);
    assert_int_equal(put.done, 0);
    assert_int_equal(put_one(fake, "k", value, sizeof(value), 1), SNOW_OK);
}

struct fake_keys {
    struct client_keys_op op;
    int done;
};

static void on_keys_done(struct client_keys_op *op)
{
    ((struct fake_keys *)op)->done++; /* its first member */
}

static void removes_are_asked_again(void **state)
{
    struct fake *fake = *state;
    struct snow_item items[2] = {{.key = {.at = "a", .size = 1}}, {.key = {.at = "b", .size = 1}}};
    struct fake_keys keys = {.op = {.on_done = on_keys_done, .items = items, .count = 2}};
    struct snow_call call = {0};

    say(&fake->removes, SAY_CLOSE);
    say(&fake->removes, SNOW_UNKNOWN);
    say(&fake->removes, SNOW_UNCERTAIN);
    client_remove_start(fake->client, &keys.op, &call);
    TURN_UNTIL(fake, keys.done == 1);
    assert_int_equal(times(fake, WIRE_remove), 3);
    assert_int_equal(items[0].status, SNOW_UNCERTAIN);
    assert_int_equal(items[1].status, SNOW_UNCERTAIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_put),
        TEST(exists_is_done),
        TEST(stale_asks_again),
        TEST(a_lost_node_connection_writes_again),
        TEST(lost_connections_to_the_master),
        TEST(gone_begins_anew),
        TEST(gone_after_a_lost_end_of_a_replace),
        TEST(waiting_for_another_writer),
        TEST(no_space_says_why),
        TEST(a_reason_is_its_items),
        TEST(an_unreachable_node),
        TEST(a_copy_that_fails_is_left_out),
        TEST(places_that_do_not_fit),
        TEST(a_large_object_in_two_parts),
        TEST(grants_that_come_one_by_one),
        TEST(only_the_rest_is_asked_again),
        TEST(a_long_batch),
        TEST(twins),
        TEST(a_final_answer_beside_one_to_repeat),
        TEST(twins_that_replace),
        TEST(the_deadline),
        TEST(a_cancel),
        TEST(removes_are_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
