/* Groups as readers see them: pages, limits of holds, open ones in chains, copies that are lost. */
#include "groups.h"

static void test_hold_has_limits(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB); /* a session may hold 25 %: 16 pieces */
    group_put(&small, "large", 17);
    group_put(&small, "g", 10);
    group_put(&small, "h", 10);
    assert_int_equal(hold_send(world, small.session, "large", 0, 1000)->status, SNOW_LIMIT);
    const struct wire_group_hold_rep *hold = hold_send(world, small.session, "g", 0, 100000);

    assert_int_equal(hold->status, SNOW_OK);
    assert_in_range(hold->left_ms, 29000, 30000);
    assert_int_equal(world_metric(world, "leased_bytes") / PIECE, 10);
    assert_int_equal(hold_send(world, small.session, "h", 0, 1000)->status, SNOW_LIMIT);
    assert_int_equal(hold_send(world, small.session, "g", 0, 0)->status, SNOW_INVALID);
    assert_int_equal(hold_send(world, small.session, "", 0, 1000)->status, SNOW_INVALID);
    member_put(&small, "new", 2, "new.0", 0);
    assert_int_equal(hold_send(world, small.session, "new", 0, 1000)->status, SNOW_NOT_READY);
    world_live(world, 31 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    assert_int_equal(world_metric(world, "group_holds_expired"), 1);
    world_deinit(world);
}

/* An open group is whole for those alone who say how many members it must have. */
static void test_open_group_in_a_chain(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_match_req message = {.flags = WIRE_MATCH_GROUPS, .keys_count = 1};
    struct wire_key id = {.key = world_key("o")};

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "o", 0, "o.0", 0);
    member_put(&small, "o", 0, "o.1", 1);
    message.keys = &id;
    for (uint32_t members = 0; members < 4; members++) {
        message.members = members;
        const struct wire_match_rep *match =
            world_ask(world, small.session, WIRE_match, &message, 1, 1000)->message;

        assert_int_equal(match->matched, members == 1 || members == 2);
        assert_int_equal(match->stop, match->matched == 1 ? SNOW_OK : SNOW_NOT_READY);
    }
    world_deinit(world);
}

static void test_pages(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_group_get_req get = {.id = world_key("g")};

    (void)state;
    small_open(&small, 16 * MIB);
    world->unchecked = true;
    group_put_sized(&small, "g", 1100, 256);
    const struct wire_group_get_rep *page =
        world_ask(world, small.session, WIRE_group_get, &get, 1, 1000)->message;

    assert_int_equal(page->status, SNOW_OK);
    assert_int_equal(page->members_count, LIMIT_BATCH_ITEMS);
    assert_int_equal(page->next, LIMIT_BATCH_ITEMS);
    get.first = page->next;
    get.ggen = page->ggen;
    get.version = page->version;
    page = world_ask(world, small.session, WIRE_group_get, &get, 1, 1000)->message;
    assert_int_equal(page->members_count, 1100 - LIMIT_BATCH_ITEMS);
    assert_int_equal(page->next, WIRE_GROUP_INDEX_ANY);
    assert_int_equal(page->members[0].index, LIMIT_BATCH_ITEMS);
    /* Replaced in between: the pages would not fit together. */
    member_replace(&small, "g", 1100, "g.3", 3);
    page = world_ask(world, small.session, WIRE_group_get, &get, 1, 1000)->message;
    assert_int_equal(page->status, SNOW_CHANGED);
    core_check(world->core);
    world_deinit(world);
}

static void copies_put(struct small_world *small, const char *id, uint8_t copies)
{
    struct world *world = &small->world;

    for (uint32_t i = 0; i < 3; i++) {
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "%s.%u", id, i);
        struct wire_put_start_req *put = member_message(small, id, 3, key, i, 0);

        put->items[0].replicas = copies;
        put->host = world_key("host"); /* on that node first */
        put->own_node = small->node->incarnation;
        struct world_request *request = put_send(world, small->session, put, 1000);

        grant_write(world, world_key(key), PIECE, &request->grants[0], 0);
        request = put_end_gen(world, small->session, key, request->grants[0].gen,
                              (uint16_t)((1u << copies) - 1));
        assert_int_equal(request->statuses[0].status, SNOW_OK);
        assert_int_equal(request->statuses[0].shortfall, 0);
    }
}

/* With two copies a node may be lost; with one the group is broken, and a put heals it. */
static void test_node_is_lost(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    struct world_node *other = node_start(world, 4 * MIB, 1024);

    copies_put(&small, "two", 2);
    copies_put(&small, "one", 1);
    struct wire_put_start_req *put = member_message(&small, "half", 2, "half.0", 0, 0);

    put->host = world_key("host");
    put->own_node = small.node->incarnation;
    message_put(&small, put);
    put = member_message(&small, "half", 2, "half.1", 1, 0);
    put->host = world_key("host");
    put->own_node = other->incarnation;
    message_put(&small, put);
    node_break(world, small.node);
    world_live(world, 5 * NS_PER_S); /* silent */
    assert_int_equal(group_stat(&small, "two")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_get(&small, "two", 0, 0)->members_count, 3);
    world_live(world, world->options.dead_after_ns);
    assert_int_equal(group_stat(&small, "two")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_get(&small, "two", 0, 0)->status, SNOW_OK);
    assert_true(other->linked);
    assert_int_equal(group_stat(&small, "one")->status, SNOW_NOT_FOUND); /* all of it lay there */
    member_put(&small, "one", 3, "one.0", 0);
    assert_int_equal(group_stat(&small, "one")->state, WIRE_GROUP_FORMING);
    assert_int_equal(group_stat(&small, "half")->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(group_stat(&small, "half")->present, 1);
    assert_int_equal(group_get(&small, "half", 0, 0)->status, SNOW_GROUP_BROKEN);
    assert_int_equal(group_get(&small, "half", 0, 0)->broken, 0);
    member_put(&small, "half", 2, "half.0", 0);
    assert_int_equal(group_stat(&small, "half")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hold_has_limits),
        cmocka_unit_test(test_open_group_in_a_chain),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_node_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
