/* Sessions that break, return and end; reads that they remember; guards. */
#include "harness.h"

static void test_break_and_return(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    session_break(world, small.session);
    world_live(world, 1900 * NS_PER_MS);
    assert_int_equal(session_open(world, small.session), small.session);
    world_live(world, 5 * NS_PER_S);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_break_and_end(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *b = "b";

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "b", 100);
    lookup_send(world, small.session, 5, WIRE_LOOKUP_LEASE | WIRE_LOOKUP_PLACES, &b, 1);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    session_break(world, small.session);
    world_live(world, 2100 * NS_PER_MS);
    assert_int_equal(world_metric(world, "objects_writing"), 0);
    assert_int_equal(world_metric(world, "sessions"), 1);
    /* Another's put of the key needs not wait longer. */
    uint64_t other = session_open(world, 0);

    assert_true(other != small.session);
    assert_int_equal(put_start(world, other, 1, "a", 100)->grants[0].status, SNOW_OK);
    world_live(world, 9 * NS_PER_S);
    assert_int_equal(world_metric(world, "sessions"), 1);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    /* It comes back too late: as another; its old number means nothing. */
    uint64_t late = session_open(world, small.session);

    assert_true(late != small.session);
    assert_int_equal(put_end_gen(world, late, "a", gen, 1)->statuses[0].status, SNOW_GONE);
    struct world_request *request = put_start(world, small.session, 9, "c", 10);

    assert_true(request->done);
    assert_int_equal(request->status, SNOW_GONE);
    world_deinit(world);
}

/* Many open writes end in bounded steps. */
static void test_many_open_writes(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 16 * MIB);
    world->unchecked = true;
    small.node->holds_closed = true;
    for (uint32_t batch = 0; batch < 3; batch++) {
        struct wire_put_start_req *put = put_message(world, batch + 1, "x", 1);

        put->items_count = 1000;
        put->items = world_take(world, 1000, sizeof(*put->items));
        for (uint32_t i = 0; i < 1000; i++) {
            char *key = world_take(world, 1, 16);

            snprintf(key, 16, "k%u", batch * 1000 + i);
            put->items[i] = (struct wire_put_item){.key = world_key(key), .size = 1, .replicas = 1};
        }
        assert_true(put_send(world, small.session, put, 0)->done);
    }
    session_break(world, small.session);
    uint64_t before = world_metric(world, "objects_writing");

    assert_int_equal(before, 3000);
    for (uint32_t i = 0; i < 3000 && before > 0; i++) {
        world->now_ns += NS_PER_MS;
        world_tick(world);
        assert_true(before - world_metric(world, "objects_writing") <= 4 * LIMIT_STEP_OBJECTS);
        before = world_metric(world, "objects_writing");
    }
    assert_int_equal(before, 0);
    core_check(world->core);
    world_deinit(world);
}

static void test_break_cancels_waiting(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put_start(world, small.session, 1, "a", 100);
    uint64_t other = session_open(world, 0);
    struct wire_put_start_req *message = put_message(world, 1, "a", 100);

    message->wait_writer = 1;
    struct world_request *request = put_send(world, other, message, 5000);

    assert_false(request->done);
    request->cancelled = true;
    session_break(world, other);
    assert_int_equal(world_metric(world, "waiters"), 0);
    world_live(world, 12 * NS_PER_S);
    assert_int_equal(world_metric(world, "sessions"), 1);
    world_deinit(world);
}

static void test_many_sessions(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    world.unchecked = true;
    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++)
        session_open(&world, 0);
    world_step(&world, &(struct core_input){.kind = CORE_SESSION_OPEN});
    assert_int_equal(world.session, 0); /* BUSY */
    core_check(world.core);
    world_deinit(&world);
}

static void test_reads_are_bounded(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *a = "a";

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    for (uint32_t i = 1; i <= LIMIT_READS_PER_SESSION + 1; i++)
        lookup_send(world, small.session, i, WIRE_LOOKUP_LEASE, &a, 1);
    assert_int_equal(world_metric(world, "leased_bytes"), LIMIT_READS_PER_SESSION * 256);
    /* The oldest is not known any more. */
    struct wire_put_end_req end = {.continues = 1};

    world_ask(world, small.session, WIRE_put_end, &end, 0, 1000);
    assert_int_equal(world_metric(world, "continues_unknown"), 1);
    end.continues = 2;
    world_ask(world, small.session, WIRE_put_end, &end, 0, 1000);
    assert_int_equal(world_metric(world, "continues_known"), 1);
    world_live(world, 3 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    world_deinit(world);
}

/* Prefix hits: what is there before the first hole of a chain, and of what a put continued. */
static void test_prefixes_are_counted(void **state)
{
    static const char *const chain[] = {"a", "b", "c", "d"};
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_start_req *message;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    put(world, small.session, "b", 100);
    put(world, small.session, "d", 100);
    lookup_send(world, small.session, 0, 0, chain, 4);
    assert_int_equal(world_metric(world, "prefix_hits"), 2);
    assert_int_equal(world_metric(world, "prefix_misses"), 2);
    lookup_send(world, small.session, 0, WIRE_LOOKUP_UNORDERED, chain, 4);
    lookup_send(world, small.session, 0, 0, chain, 1);
    lookup_send(world, small.session, 7, WIRE_LOOKUP_PLACES | WIRE_LOOKUP_TOUCH, chain, 2);
    assert_int_equal(world_metric(world, "prefix_hits"), 2);
    assert_int_equal(world_metric(world, "prefix_misses"), 2);
    for (uint32_t i = 0; i < 2; i++) { /* two puts continue it */
        message = put_message(world, 8 + i, i == 0 ? "c" : "e", 100);
        message->continues = 7;
        world_ask(world, small.session, WIRE_put_start, message, 1, 1000);
    }
    assert_int_equal(world_metric(world, "continued_hits"), 2);
    assert_int_equal(world_metric(world, "continued_misses"), 2);
    world_deinit(world);
}

static void test_lease_of_a_removed_object(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *a = "a";

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    lookup_send(world, small.session, 1, WIRE_LOOKUP_LEASE, &a, 1);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_OK);
    put(world, small.session, "a", 200); /* another record: the lease still names the old one */
    world_live(world, 3 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    world_deinit(world);
}

static void test_guards(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_key key = {.key = world_key("a")};
    struct wire_lookup_req lookup = {
        .flags = WIRE_LOOKUP_GUARD, .guard_ms = 500, .keys = &key, .keys_count = 1};

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    world_ask(world, small.session, WIRE_lookup, &lookup, 1, 1000);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_IN_USE);
    struct wire_remove_match_req match = {.kind = WIRE_MATCH_ALL};
    struct world_request *request =
        world_ask(world, small.session, WIRE_remove_match, &match, 1, 1000);

    assert_true(request->done);
    assert_int_equal(((struct wire_remove_match_rep *)request->message)->guarded, 1);
    assert_int_equal(((struct wire_remove_match_rep *)request->message)->removed, 0);
    world_live(world, 520 * NS_PER_MS);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_OK);
    put(world, small.session, "a", 100);
    world_ask(world, small.session, WIRE_lookup, &lookup, 1, 1000);
    assert_int_equal(remove_send(world, small.session, "a", WIRE_REMOVE_FORCE)->statuses[0].status,
                     SNOW_OK);
    /* Replacing and evicting look at no guard; the longest there is does not wrap. */
    put(world, small.session, "a", 100);
    lookup.guard_ms = UINT32_MAX - 1;
    world_ask(world, small.session, WIRE_lookup, &lookup, 1, 1000);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_IN_USE);
    /* As long as the master is set to: 10 s. */
    put(world, small.session, "b", 100);
    key.key = world_key("b");
    lookup.guard_ms = WIRE_GUARD_CLUSTER;
    world_ask(world, small.session, WIRE_lookup, &lookup, 1, 1000);
    world_live(world, 9900 * NS_PER_MS);
    assert_int_equal(remove_key(world, small.session, "b"), SNOW_IN_USE);
    world_live(world, 200 * NS_PER_MS);
    assert_int_equal(remove_key(world, small.session, "b"), SNOW_OK);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_break_and_return),
        cmocka_unit_test(test_break_and_end),
        cmocka_unit_test(test_many_open_writes),
        cmocka_unit_test(test_break_cancels_waiting),
        cmocka_unit_test(test_many_sessions),
        cmocka_unit_test(test_reads_are_bounded),
        cmocka_unit_test(test_prefixes_are_counted),
        cmocka_unit_test(test_lease_of_a_removed_object),
        cmocka_unit_test(test_guards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
