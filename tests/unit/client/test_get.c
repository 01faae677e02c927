/* Gets against a scripted master and nodes: which copy is read, and when it is a miss. */
#include "fake.h"

static const char value[] = "the value of a page, all of it";

static void put_copies(struct fake *fake, uint8_t copies)
{
    assert_int_equal(put_one(fake, "k", value, sizeof(value), copies), SNOW_OK);
}

static void not_there(void **state)
{
    struct fake *fake = *state;
    char got[8] = "before!";

    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_NOT_FOUND);
    assert_string_equal(got, "before!");
    assert_int_equal(metric(fake, "gets_missed"), 1);
}

static void a_bad_checksum_reads_the_next_copy(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 2);
    say(&fake->nodes[0].reads, SAY_CORRUPT);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(metric(fake, "reads_next_copy"), 1);
    assert_int_equal(times(fake, WIRE_lookup), 1);
}

/* Copies in order of nearness: this process, this host, elsewhere. */
static void the_nearest_copy_first(void **state)
{
    struct fake *fake = *state;
    struct client_options options = fake_options(fake);
    char got[64];

    put_copies(fake, 2);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_int_equal(fake->nodes[0].read_count, 1); /* the master's order */
    fake->on_host[1] = true;
    fake_client(fake, &options);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(fake->nodes[1].read_count, 1);
    fake->on_host[0] = true;
    fake_client(fake, &options);
    client_own_node_set(fake->client, 101);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_int_equal(fake->nodes[1].read_count, 2);
    /* The near one fails: the other one, at once and from then on. */
    say(&fake->nodes[1].reads, SAY_CORRUPT);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(fake->nodes[0].read_count, 2);
    assert_int_equal(metric(fake, "reads_next_copy"), 1);
}

/* No copy is good: the master is asked once more, then it is a miss. */
static void no_good_copy(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    for (int i = 0; i < 3; i++)
        say(&fake->nodes[0].reads, SAY_CORRUPT);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_NOT_FOUND);
    assert_int_equal(times(fake, WIRE_lookup), 2);
    assert_int_equal(fake->nodes[0].read_count, 2);
    assert_int_equal(metric(fake, "misses_corrupt"), 1);
}

static void a_stale_place_is_asked_for_again(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    say(&fake->nodes[0].reads, SNOW_STALE);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(times(fake, WIRE_lookup), 2);
    assert_int_equal(nth(fake, WIRE_lookup, 0)->operation, nth(fake, WIRE_lookup, 1)->operation);
    say(&fake->nodes[0].reads, SNOW_STALE);
    say(&fake->nodes[0].reads, SNOW_STALE);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_NOT_FOUND);
    assert_int_equal(metric(fake, "misses_stale"), 1);
}

/* A value that is replaced again and again has not gone. */
static void a_value_that_is_replaced_while_it_is_read(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    fake->replaced = 20;
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(times(fake, WIRE_lookup), 21);
    fake->replaced = 60;
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_NOT_FOUND);
    assert_int_equal(metric(fake, "misses_stale"), 1);
    assert_int_equal(fake->replaced, 60 - 33);
}

static void a_lost_connection_reads_again(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    say(&fake->nodes[0].reads, SAY_CLOSE);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
    assert_int_equal(fake->reports, 0);
}

/* A range has no checksum of its writer: the one of what was sent is compared. */
static void a_range_is_checked(void **state)
{
    struct fake *fake = *state;
    char got[4] = "abc";
    struct snow_get get = {
        .key = {.at = "k", .size = 1}, .to = got, .room = sizeof(got), .offset = 4, .length = 3};

    put_copies(fake, 2);
    say(&fake->nodes[0].reads, SAY_CORRUPT);
    assert_int_equal(get_item(fake, &get), SNOW_OK);
    assert_memory_equal(got, value + 4, 3);
    assert_int_equal(got[3], 0);
    assert_int_equal(metric(fake, "reads_next_copy"), 1);
    say(&fake->nodes[0].reads, SAY_OLD);
    say(&fake->nodes[1].reads, SAY_OLD);
    assert_int_equal(get_item(fake, &get), SNOW_OK); /* the master is asked once more */
    for (int i = 0; i < 2; i++) {
        say(&fake->nodes[0].reads, SAY_OLD);
        say(&fake->nodes[1].reads, SAY_OLD);
    }
    assert_int_equal(get_item(fake, &get), SNOW_NOT_FOUND);
}

static void a_short_answer(void **state)
{
    struct fake *fake = *state;
    char got[64] = "";

    put_copies(fake, 2);
    say(&fake->nodes[0].reads, SAY_SHORT);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_string_equal(got, value);
}

/* A node that stands still costs one caller one time-out; the next one goes round it. */
static void a_node_that_stands_still(void **state)
{
    struct fake *fake = *state;
    char got[64];
    uint64_t from_ns = env_now_ns(fake->env);

    put_copies(fake, 2);
    for (int i = 0; i < 60; i++)
        say(&fake->nodes[0].reads, SAY_NOTHING);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_true(env_now_ns(fake->env) - from_ns >= FAKE_STALL_NS);
    assert_int_equal(fake->nodes[0].read_count, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_int_equal(fake->nodes[0].read_count, 1);
    assert_int_equal(metric(fake, "nodes_failed"), 1);
    assert_true(metric(fake, "moves_avoided") >= 3);
    TURN_UNTIL(fake, fake->reports == 1);
    /* When it is not avoided any more, it still has to work before it is read first. */
    uint64_t avoided;

    do {
        uint64_t now_ns = env_now_ns(fake->env);

        TURN_UNTIL(fake, env_now_ns(fake->env) > now_ns + FAKE_STALL_NS / 8);
        avoided = metric(fake, "moves_avoided");
        assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    } while (metric(fake, "moves_avoided") > avoided);
    assert_true(env_now_ns(fake->env) - from_ns >= 4 * FAKE_STALL_NS);
    assert_int_equal(fake->nodes[0].read_count, 1);
}

/* Who asks a node that hangs again and again does not keep it alive with that. */
static void many_reads_of_a_node_that_stands_still(void **state)
{
    struct fake *fake = *state;
    struct fake_get gets[8] = {0};
    struct snow_get items[8];
    char got[8][64];
    uint64_t from_ns = env_now_ns(fake->env);

    put_copies(fake, 2);
    for (int i = 0; i < 60; i++)
        say(&fake->nodes[0].reads, SAY_NOTHING);
    for (uint32_t i = 0; i < 8; i++) {
        items[i] =
            (struct snow_get){.key = {.at = "k", .size = 1}, .to = got[i], .room = sizeof(got[i])};
        get_all(fake, &gets[i], &items[i], 1, NULL);
        TURN_UNTIL(fake, gets[0].done == 1 ||
                             env_now_ns(fake->env) > from_ns + (i + 1) * FAKE_STALL_NS / 4);
    }
    TURN_UNTIL(fake, gets[0].done == 1);
    assert_true(env_now_ns(fake->env) - from_ns < 2 * FAKE_STALL_NS);
    for (uint32_t i = 0; i < 8; i++) {
        TURN_UNTIL(fake, gets[i].done == 1);
        assert_int_equal(items[i].status, SNOW_OK);
        assert_string_equal(got[i], value);
    }
}

/* The node has moved: its new address is learned from the master, and used. */
static void a_node_with_a_new_address(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    fake->addresses[0] = "127.0.0.1:1";
    struct client_options options = fake_options(fake);

    fake_client(fake, &options);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_NOT_FOUND);
    assert_int_equal(metric(fake, "misses_unreachable"), 1);
    fake->addresses[0] = NULL;
    TURN_UNTIL(fake, get_one(fake, "k", got, sizeof(got)) == SNOW_OK);
    assert_string_equal(got, value);
}

static void places_that_do_not_fit(void **state)
{
    struct fake *fake = *state;
    char got[64] = "before";

    put_copies(fake, 1);
    say(&fake->lookups, SAY_OUTSIDE);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_INVALID);
    assert_string_equal(got, "before");
    assert_int_equal(fake->nodes[0].read_count, 0);
}

static void unknown_is_waited_for_once(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    say(&fake->lookups, SNOW_UNKNOWN);
    say(&fake->lookups, SNOW_UNKNOWN);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_int_equal(times(fake, WIRE_lookup), 3);
}

static void a_lost_connection_to_the_master(void **state)
{
    struct fake *fake = *state;
    char got[64];

    put_copies(fake, 1);
    fake->lease_ms = 2000;
    say(&fake->lookups, SAY_CLOSE);
    assert_int_equal(get_one(fake, "k", got, sizeof(got)), SNOW_OK);
    assert_int_equal(times(fake, WIRE_lookup), 2);
    TURN_UNTIL(fake, fake->leases_returned == 1);
}

static void memory_of_the_library(void **state)
{
    struct fake *fake = *state;
    struct fake_get get = {.done = 0};
    struct snow_get items[2] = {{.key = {.at = "k", .size = 1}}, {.key = {.at = "x", .size = 1}}};
    snow_read_id read_id = 0;
    struct snow_call call = {.read_id = &read_id};

    put_copies(fake, 1);
    get_all(fake, &get, items, 2, &call);
    TURN_UNTIL(fake, get.done == 1);
    assert_int_equal(items[0].status, SNOW_OK);
    assert_int_equal(items[0].size, sizeof(value));
    assert_string_equal(items[0].to, value);
    assert_int_equal(items[1].status, SNOW_NOT_FOUND);
    assert_null(items[1].to);
    assert_int_equal(read_id, nth(fake, WIRE_lookup, 0)->operation);
    free(items[0].to);
}

/* At the deadline nothing is written any more, whatever still arrives. */
static void the_deadline(void **state)
{
    struct fake *fake = *state;
    struct fake_get get = {.done = 0};
    struct snow_get item = {.key = {.at = "k", .size = 1}};
    struct snow_call call = {.deadline_ms = 60};

    put_copies(fake, 1);
    say(&fake->nodes[0].reads, SAY_NOTHING);
    get_all(fake, &get, &item, 1, &call);
    TURN_UNTIL(fake, get.done == 1);
    assert_int_equal(item.status, SNOW_TIMEOUT);
    assert_null(item.to);
    get.done = 0;
    say(&fake->lookups, SAY_NOTHING);
    get_all(fake, &get, &item, 1, &call);
    TURN_UNTIL(fake, get.done == 1);
    assert_int_equal(item.status, SNOW_TIMEOUT);
    get.done = 0;
    get_all(fake, &get, &item, 1, &call);
    client_get_cancel(&get.op);
    assert_int_equal(get.done, 0);
}

#define MANY 3000

/* Parts of a long batch share the operation and go from the deepest to the first. */
static void a_long_batch(void **state)
{
    struct fake *fake = *state;
    struct fake_get get = {.done = 0};
    struct snow_get *items = calloc(MANY, sizeof(*items));
    char(*names)[16] = calloc(MANY, sizeof(*names));
    uint32_t end = MANY;

    put_copies(fake, 1);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%s%d", i == 1500 ? "k" : "n", i);
        items[i].key = (struct snow_key){.at = names[i], .size = i == 1500 ? 1 : strlen(names[i])};
    }
    get_all(fake, &get, items, MANY, NULL);
    TURN_UNTIL(fake, get.done == 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(items[i].status, i == 1500 ? SNOW_OK : SNOW_NOT_FOUND);
    for (int i = 0; i < times(fake, WIRE_lookup); i++) {
        const struct fake_seen *seen = nth(fake, WIRE_lookup, i);

        assert_int_equal(seen->operation, nth(fake, WIRE_lookup, 0)->operation);
        assert_int_equal(seen->position + seen->count, end);
        end = seen->position;
    }
    assert_int_equal(end, 0);
    free(items[1500].to);
    free(items);
    free(names);
}

/* No master: the operation waits for it until its deadline, and says so. */
static void no_master(void **state)
{
    struct fake *fake = *state;
    struct client_options options = fake_options(fake);
    struct fake_get get = {.done = 0};
    struct snow_get item = {.key = {.at = "k", .size = 1}};
    struct snow_call call = {.deadline_ms = 60};

    options.master = "127.0.0.1:1";
    fake_client(fake, &options);
    get_all(fake, &get, &item, 1, &call);
    TURN_UNTIL(fake, get.done == 1);
    assert_int_equal(item.status, SNOW_UNREACHABLE);
}

/* ... or for as long as it is patient, counted from when the link went down: the second call waits
 * for nothing.  One without a patience goes on. */
static void no_master_and_little_patience(void **state)
{
    struct fake *fake = *state;
    struct client_options options = fake_options(fake);
    struct fake_get first = {.done = 0};
    struct fake_get second = {.done = 0};
    struct fake_get patient = {.done = 0};
    struct snow_get items[3] = {{.key = {.at = "a", .size = 1}},
                                {.key = {.at = "b", .size = 1}},
                                {.key = {.at = "c", .size = 1}}};
    struct snow_call call = {.deadline_ms = 20000, .patience_ms = 50};
    struct snow_call long_call = {.deadline_ms = 20000};
    uint64_t from_ns;

    options.master = "127.0.0.1:1";
    fake_client(fake, &options);
    get_all(fake, &patient, &items[2], 1, &long_call);
    get_all(fake, &first, &items[0], 1, &call);
    TURN_UNTIL(fake, first.done == 1);
    assert_int_equal(items[0].status, SNOW_UNREACHABLE);
    from_ns = env_now_ns(fake->env);
    call.patience_ms = 10;
    get_all(fake, &second, &items[1], 1, &call);
    assert_int_equal(second.done, 0); /* no callback inside start */
    TURN_UNTIL(fake, second.done == 1);
    assert_int_equal(items[1].status, SNOW_UNREACHABLE);
    assert_true(env_now_ns(fake->env) - from_ns < NS_PER_S);
    assert_int_equal(patient.done, 0);
    client_get_cancel(&patient.op);
}

/* A link that breaks and comes back in time costs a patient call nothing. */
static void patience_outlasts_a_break(void **state)
{
    struct fake *fake = *state;
    struct fake_get get = {.done = 0};
    struct snow_get item = {.key = {.at = "k", .size = 1}};
    struct snow_call call = {.deadline_ms = 20000, .patience_ms = 15000};

    say(&fake->lookups, SAY_CLOSE);
    get_all(fake, &get, &item, 1, &call);
    TURN_UNTIL(fake, get.done == 1);
    assert_int_equal(item.status, SNOW_NOT_FOUND);
    assert_int_equal(metric(fake, "master_lost"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(not_there),
        TEST(no_master_and_little_patience),
        TEST(patience_outlasts_a_break),
        TEST(a_bad_checksum_reads_the_next_copy),
        TEST(the_nearest_copy_first),
        TEST(no_good_copy),
        TEST(a_stale_place_is_asked_for_again),
        TEST(a_value_that_is_replaced_while_it_is_read),
        TEST(a_lost_connection_reads_again),
        TEST(a_range_is_checked),
        TEST(a_short_answer),
        TEST(a_node_that_stands_still),
        TEST(many_reads_of_a_node_that_stands_still),
        TEST(a_node_with_a_new_address),
        TEST(places_that_do_not_fit),
        TEST(unknown_is_waited_for_once),
        TEST(a_lost_connection_to_the_master),
        TEST(memory_of_the_library),
        TEST(the_deadline),
        TEST(a_long_batch),
        TEST(no_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
