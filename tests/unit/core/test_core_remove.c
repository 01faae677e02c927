/* Removal by pattern, uncertain answers, lists and figures. */
#include "harness.h"

static const struct wire_remove_match_rep *match(struct world *world, uint64_t session,
                                                 uint8_t kind, const char *pattern)
{
    struct wire_remove_match_req *message = world_take(world, 1, sizeof(*message));

    message->kind = kind;
    message->pattern = world_key(pattern);
    struct world_request *request = world_ask(world, session, WIRE_remove_match, message, 1, 10000);

    world_run(world, NS_PER_MS);
    assert_true(request->done);
    return request->message;
}

static void put_some(struct world *world, uint64_t session, const char *prefix, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char *key = world_take(world, 1, 64);

        snprintf(key, 64, "%s%u", prefix, i);
        put(world, session, key, 100);
    }
}

static void test_match(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    world->unchecked = true;
    put_some(world, small.session, "a/", 300);
    put_some(world, small.session, "b/", 300);
    const struct wire_remove_match_rep *reply =
        match(world, small.session, WIRE_MATCH_PREFIX, "a/29");

    assert_int_equal(reply->status, SNOW_OK);
    assert_int_equal(reply->removed, 11);
    reply = match(world, small.session, WIRE_MATCH_REGEX, "^[ab]/1.$");
    assert_int_equal(reply->removed, 20);
    reply = match(world, small.session, WIRE_MATCH_REGEX, "(");
    assert_int_equal(reply->status, SNOW_INVALID);
    assert_true(reply->reason.size > 0);
    reply = match(world, small.session, 7, "");
    assert_int_equal(reply->status, SNOW_INVALID);
    reply = match(world, small.session, WIRE_MATCH_ALL, "");
    assert_int_equal(reply->removed, 600 - 31);
    assert_int_equal(world_metric(world, "objects"), 0);
    assert_int_equal(world_metric(world, "free_bytes"), 4 * MIB);
    core_check(world->core);
    world_deinit(world);
}

static void test_match_takes_steps(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_remove_match_req all = {.kind = WIRE_MATCH_ALL};
    struct wire_remove_match_req some = {.kind = WIRE_MATCH_REGEX, .pattern = world_key("7$")};

    (void)state;
    small_open(&small, 4 * MIB);
    world->unchecked = true;
    put_some(world, small.session, "a", 700);
    small.node->holds_closed = true;
    struct world_request *one = world_ask(world, small.session, WIRE_remove_match, &some, 1, 9000);
    struct world_request *two = world_ask(world, small.session, WIRE_remove_match, &all, 1, 9000);
    uint32_t steps = 0;

    while (core_wake_ns(world->core) == 0) {
        uint64_t before = world_metric(world, "objects");

        world_tick(world);
        assert_true(before - world_metric(world, "objects") <= LIMIT_STEP_OBJECTS);
        core_check(world->core);
        steps++;
    }
    assert_false(one->done || two->done);
    assert_true(steps > 10);
    assert_int_equal(world_metric(world, "objects"), 0);
    small.node->holds_closed = false;
    world_settle(world);
    assert_true(one->done && two->done);
    const struct wire_remove_match_rep *reply = one->message;
    const struct wire_remove_match_rep *rest = two->message;

    assert_int_equal(reply->removed + rest->removed, 700);
    world_deinit(world);
}

static void test_match_waits_and_expires(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_remove_match_req all = {.kind = WIRE_MATCH_ALL};

    (void)state;
    small_open(&small, 4 * MIB);
    world->unchecked = true;
    put_some(world, small.session, "a", 10);
    small.node->holds_closed = true;
    struct world_request *one = world_ask(world, small.session, WIRE_remove_match, &all, 1, 500);
    struct world_request *two = world_ask(world, small.session, WIRE_remove_match, &all, 1, 9000);

    /* The second removes nothing itself, but answers no sooner. */
    world_run(world, 450 * NS_PER_MS);
    assert_false(one->done || two->done);
    assert_true(core_wake_ns(world->core) > world->now_ns);
    world_run(world, 100 * NS_PER_MS);
    assert_true(one->done);
    assert_int_equal(((struct wire_remove_match_rep *)one->message)->status, SNOW_UNCERTAIN);
    assert_int_equal(((struct wire_remove_match_rep *)one->message)->uncertain, 10);
    assert_false(two->done);
    small.node->holds_closed = false;
    world_settle(world);
    assert_true(two->done);
    assert_int_equal(((struct wire_remove_match_rep *)two->message)->status, SNOW_OK);
    assert_int_equal(((struct wire_remove_match_rep *)two->message)->removed, 0);
    core_check(world->core);
    world_deinit(world);
}

static void test_pattern_that_gives_up(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    static char key[LIMIT_KEY_SIZE + 1];

    (void)state;
    small_open(&small, MIB);
    memset(key, 'a', sizeof(key) - 1);
    put(world, small.session, key, 100);
    put(world, small.session, "b", 100);
    const struct wire_remove_match_rep *reply =
        match(world, small.session, WIRE_MATCH_REGEX, "(a+)+[cd]|^b$");

    assert_int_equal(reply->status, SNOW_LIMIT);
    assert_true(reply->reason.size > 0);
    assert_int_equal(reply->removed, 1);
    assert_int_equal(world_metric(world, "patterns_gave_up"), 1);
    world_deinit(world);
}

static void test_uncertain_holder(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put_some(world, small.session, "a", 6);
    small.node->holds_closed = true;
    /* Under way when the holder goes. */
    struct world_request *one = remove_send(world, small.session, "a0", 0);
    struct world_request *two = remove_send(world, small.session, "a1", 0);
    struct world_request *three = remove_send(world, small.session, "a1", 0);

    node_break(world, small.node);
    assert_true(one->done && two->done && three->done);
    assert_int_equal(one->statuses[0].status, SNOW_UNCERTAIN);
    assert_int_equal(one->statuses[0].node, small.node->number);
    assert_int_equal(three->statuses[0].status, SNOW_UNCERTAIN);
    /* And when it is gone already: hidden, but known. */
    assert_int_equal(lookup_status(world, small.session, "a2"), SNOW_NOT_FOUND);
    assert_int_equal(remove_key(world, small.session, "a2"), SNOW_UNCERTAIN);
    assert_int_equal(remove_key(world, small.session, "a2"), SNOW_UNCERTAIN);
    /* It returns: what was removed is told again, and is not there. */
    small.node->holds_closed = false;
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    assert_int_equal(lookup_status(world, small.session, "a2"), SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "a3"), SNOW_OK);
    assert_int_equal(world_metric(world, "objects_closing"), 0);
    assert_int_equal(world_metric(world, "objects"), 3);
    world_deinit(world);
}

/* What is on its way out, but may come back, makes a removal of everything uncertain. */
static void test_match_with_a_holder_away(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    node_break(world, small.node);
    assert_int_equal(put_abort_gen(world, small.session, "a", gen)->statuses[0].status,
                     SNOW_UNCERTAIN);
    const struct wire_remove_match_rep *reply = match(world, small.session, WIRE_MATCH_ALL, "");

    assert_int_equal(reply->status, SNOW_UNCERTAIN);
    assert_int_equal(reply->removed, 0);
    world_deinit(world);
}

/* An evicted version whose node has not acknowledged must not come back either. */
static void test_remove_waits_for_older_versions(void **state)
{
    struct world world;
    struct world_node *nodes[2];

    (void)state;
    world_init(&world);
    world_open(&world);
    nodes[0] = node_start(&world, MIB, 256);
    nodes[1] = node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    uint64_t gen = put_start(&world, session, 1, "a", 100)->grants[0].gen;

    nodes[0]->holds_closed = nodes[1]->holds_closed = true;
    struct world_request *abort = put_abort_gen(&world, session, "a", gen);

    put(&world, session, "a", 100);
    struct world_request *request = remove_send(&world, session, "a", 0);

    assert_false(request->done || abort->done);
    nodes[0]->holds_closed = false;
    world_settle(&world);
    nodes[1]->holds_closed = false;
    assert_true(request->done == (nodes[1]->forget_count == 0));
    world_settle(&world);
    assert_true(request->done && abort->done);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    world_deinit(&world);
}

static void test_removed_returns_can_be_planted(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.start.faults = 1u << FAULT_removed_returns;
    world_open(&world);
    struct world_node *node = node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    put(&world, session, "a", 100);
    node->holds_closed = true;
    assert_true(remove_send(&world, session, "a", 0)->done);
    world_deinit(&world);
}

static void test_list(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    static char keys[300][LIMIT_KEY_SIZE + 1];
    struct wire_list_req list = {.limit = 1000};
    uint32_t found = 0;
    uint32_t pages = 0;

    (void)state;
    small_open(&small, 8 * MIB);
    world->unchecked = true;
    for (uint32_t i = 0; i < 300; i++) {
        memset(keys[i], 'k', LIMIT_KEY_SIZE);
        snprintf(keys[i], 8, "%06u", i);
        keys[i][6] = 'k';
        put(world, small.session, keys[i], 10);
    }
    do { /* the harness encodes every page: it fits */
        const struct wire_list_rep *reply =
            world_ask(world, small.session, WIRE_list, &list, 1, 1000)->message;

        found += reply->items_count;
        list.cursor = reply->cursor;
        pages++;
    } while (list.cursor != 0 && pages < 100);
    assert_int_equal(found, 300);
    assert_true(pages >= 2);
    list = (struct wire_list_req){.prefix = world_key("00029"), .limit = 4};
    const struct wire_list_rep *reply =
        world_ask(world, small.session, WIRE_list, &list, 1, 1000)->message;

    assert_int_equal(reply->items_count, 4);
    assert_true(reply->cursor != 0);
    list.cursor = UINT64_MAX;
    reply = world_ask(world, small.session, WIRE_list, &list, 1, 1000)->message;
    assert_true(reply->items_count == 0 && reply->cursor == 0);
    world_deinit(world);
}

static void test_figures(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_stats_req stats = {0};
    struct wire_nodes_req nodes = {0};

    (void)state;
    small_open(&small, MIB);
    put_some(world, small.session, "a", 3);
    const struct wire_stats_rep *reply =
        world_ask(world, small.session, WIRE_stats, &stats, 1, 1000)->message;

    assert_int_equal(reply->values_count, core_metric_count());
    assert_true(bytes_equal(reply->values[0].name, world_key("objects")));
    assert_int_equal(reply->values[0].value, 3);
    small.node->holds_freed = true;
    remove_key(world, small.session, "a0");
    const struct wire_nodes_rep *told =
        world_ask(world, small.session, WIRE_nodes, &nodes, 1, 1000)->message;

    assert_int_equal(told->nodes_count, 1);
    assert_int_equal(told->nodes[0].node, small.node->number);
    assert_int_equal(told->nodes[0].state, WIRE_NODE_ALIVE);
    assert_int_equal(told->nodes[0].size, MIB);
    assert_int_equal(told->nodes[0].used, 3 * 256);
    world_run(world, NS_PER_S / 2);
    told = world_ask(world, small.session, WIRE_nodes, &nodes, 1, 1000)->message;
    assert_int_equal(told->nodes[0].closing, 256);
    nodes.first = (uint32_t)small.node->number + 1;
    told = world_ask(world, small.session, WIRE_nodes, &nodes, 1, 1000)->message;
    assert_int_equal(told->nodes_count, 0);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_match_takes_steps),
        cmocka_unit_test(test_match_waits_and_expires),
        cmocka_unit_test(test_pattern_that_gives_up),
        cmocka_unit_test(test_uncertain_holder),
        cmocka_unit_test(test_match_with_a_holder_away),
        cmocka_unit_test(test_remove_waits_for_older_versions),
        cmocka_unit_test(test_removed_returns_can_be_planted),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
