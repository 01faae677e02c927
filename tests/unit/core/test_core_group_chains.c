/* Chains of groups: children before their parents, parents that go and come again, orphans. */
#include "groups.h"
#include "restart.h"

/* Groups of one member, "<name><number>", in one message: each a child of "<parent>", or of a
 * parent of its own, "<parent><number>". */
static void children_put(struct small_world *small, const char *name, uint32_t first,
                         uint32_t count, const char *parent, bool own)
{
    struct world *world = &small->world;
    struct wire_put_start_req *put = world_take(world, 1, sizeof(*put));
    struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

    put->operation = world->token + 1;
    put->items_count = put->groups_count = put->members_count = end->items_count = count;
    put->items = world_take(world, count, sizeof(*put->items));
    put->groups = world_take(world, count, sizeof(*put->groups));
    put->members = world_take(world, count, sizeof(*put->members));
    end->items = world_take(world, count, sizeof(*end->items));
    for (uint32_t i = 0; i < count; i++) {
        char *id = world_take(world, 2, 32);

        snprintf(id, 32, "%s%u", name, first + i);
        snprintf(id + 32, 32, own ? "%s%u" : "%s", parent, first + i);
        put->items[i] =
            (struct wire_put_item){.key = world_key(id), .size = 256, .depth = 9, .replicas = 1};
        put->groups[i] = (struct wire_put_group){.id = put->items[i].key,
                                                 .size = 1,
                                                 .parent = world_key(id + 32)};
        put->members[i] = (struct wire_put_member){.item = i, .group = i};
    }
    struct world_request *request = put_send(world, small->session, put, 60000);

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(request->grants[i].status, SNOW_OK);
        grant_write(world, put->items[i].key, 256, &request->grants[i], 0);
        end->items[i] = (struct wire_written){.key = put->items[i].key,
                                              .gen = request->grants[i].gen,
                                              .replicas = 1};
    }
    request = world_ask(world, small->session, WIRE_put_end, end, count, 10000);
    assert_true(request->done);
}

/* Its children go before it, though it was used least. */
static void assert_bound(struct small_world *small, const char *parent, const char *child)
{
    uint64_t evicted = world_metric(&small->world, "evicted_objects");

    for (uint32_t i = 0; world_metric(&small->world, "evicted_objects") == evicted; i++) {
        char *key = world_take(&small->world, 1, 32);

        assert_true(i < 200);
        snprintf(key, 32, "filler%u.%llu", i, (unsigned long long)evicted);
        put(&small->world, small->session, key, 64 * KIB);
    }
    assert_int_equal(group_stat(small, parent)->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(small, child)->status, SNOW_NOT_FOUND);
}

static void test_child_comes_first(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    chained_put(&small, "c", "p", 2);
    assert_int_equal(world_metric(world, "group_parents_absent"), 1);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    chained_put(&small, "p", NULL, 1);
    assert_int_equal(world_metric(world, "group_parents_absent"), 0);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, (const char *[]){"c.0"}, 1);
    assert_bound(&small, "p", "c");
    world_deinit(world);
}

static void test_parent_is_not_above(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    chained_put(&small, "as-deep", "p", 5);
    chained_put(&small, "deeper", "p", 6);
    chained_put(&small, "p", NULL, 5);
    assert_int_equal(world_metric(world, "parents_dropped"), 1);
    assert_int_equal(world_metric(world, "group_parents_absent"), 0);
    /* Of no depth: there, or waited for, it is nobody's child and nobody's parent. */
    chained_put(&small, "nowhere", "p", WIRE_DEPTH_UNKNOWN);
    assert_int_equal(world_metric(world, "parents_dropped"), 2);
    chained_put(&small, "waits", "q", 7);
    chained_put(&small, "q", NULL, WIRE_DEPTH_UNKNOWN);
    assert_int_equal(world_metric(world, "parents_dropped"), 3);
    /* Its own parent. */
    chained_put(&small, "self", "self", 3);
    assert_int_equal(world_metric(world, "parents_dropped"), 4);
    world_deinit(world);
}

/* A parent whose first member is still to come is not there yet. */
static void test_parent_is_begun(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    struct wire_put_start_req *put = member_message(&small, "p", 1, "p.0", 0, 0);

    put->items[0].depth = 1;
    struct world_request *request = put_send(world, small.session, put, 1000);

    chained_put(&small, "c", "p", 2);
    assert_int_equal(world_metric(world, "group_parents_absent"), 1);
    grant_write(world, world_key("p.0"), PIECE, &request->grants[0], 0);
    put_end_gen(world, small.session, "p.0", request->grants[0].gen, 1);
    assert_int_equal(world_metric(world, "group_parents_absent"), 0);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    assert_bound(&small, "p", "c");
    world_deinit(world);
}

static void test_parent_goes_and_returns(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 16 * MIB);
    chained_put(&small, "p", NULL, 1);
    world->unchecked = true;
    for (uint32_t i = 0; i < 4; i++)
        children_put(&small, "c", i * 200, 200, "p", false);
    world->unchecked = false;
    group_remove_send(&small, "p");
    world_run(world, 10 * NS_PER_MS);
    assert_int_equal(group_stat(&small, "p")->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "group_parents_absent"), 1);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    chained_put(&small, "p", NULL, 1);
    assert_int_equal(world_metric(world, "group_parents_absent"), 0);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    /* More than may wait for one. */
    world->unchecked = true;
    children_put(&small, "c", 800, 300, "p", false);
    world->unchecked = false;
    group_remove_send(&small, "p");
    world_run(world, 10 * NS_PER_MS);
    assert_int_equal(world_metric(world, "parents_dropped"), 1100 - LIMIT_GROUP_WAITING);
    world_deinit(world);
}

static void test_absent_parents_are_bounded(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    world_init(world);
    world->unchecked = true;
    world_open(world);
    small.node = node_start(world, 64 * MIB, LIMIT_GROUPS_ABSENT + 8192);
    small.session = session_open(world, 0);
    for (uint32_t i = 0; i < LIMIT_GROUPS_ABSENT; i += 1024)
        children_put(&small, "c", i, 1024, "p", true);
    assert_int_equal(world_metric(world, "group_parents_absent"), LIMIT_GROUPS_ABSENT);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    /* Asked for again, the first one is not the one to go. */
    children_put(&small, "d", 0, 1, "p", true);
    children_put(&small, "c", LIMIT_GROUPS_ABSENT, 1, "p", true);
    core_check(world->core);
    assert_int_equal(world_metric(world, "group_parents_absent"), LIMIT_GROUPS_ABSENT);
    assert_int_equal(world_metric(world, "parents_dropped"), 1);
    chained_put(&small, "p0", NULL, 1); /* its two children are bound */
    assert_int_equal(world_metric(world, "group_parents_absent"), LIMIT_GROUPS_ABSENT - 1);
    world_deinit(world);
}

static void test_restart_binds(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    chained_put(&small, "c", "p", 2); /* of the lower slot: it is told first */
    chained_put(&small, "p", NULL, 1);
    chained_put(&small, "orphan", "lost", 2);
    world_restart(world);
    small.session = session_open(world, 0);
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    world_run(world, 10 * NS_PER_MS);
    assert_int_equal(world_metric(world, "group_parents_absent"), 1);
    assert_int_equal(world_metric(world, "parents_dropped"), 0);
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, (const char *[]){"orphan.0"}, 1);
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, (const char *[]){"c.0"}, 1);
    assert_bound(&small, "p", "c");
    world_deinit(world);
}

static void pin_key(struct small_world *small, const char *key, uint8_t pin)
{
    struct wire_key item = {.key = world_key(key)};
    struct wire_pin_req message = {.pin = pin, .keys = &item, .keys_count = 1};

    assert_int_equal(
        world_ask(&small->world, small->session, WIRE_pin, &message, 1, 1000)->statuses[0].status,
        SNOW_OK);
}

/* Both were not used for a turnover, and come back as the youngest: the orphan goes first. */
static void test_unused_orphan_goes_first(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    uint64_t evicted;

    (void)state;
    small_open(&small, 4 * MIB);
    chained_put(&small, "orphan", "absent", 3);
    chained_put(&small, "head", NULL, 3);
    pin_key(&small, "orphan.0", WIRE_PIN_HARD);
    pin_key(&small, "head.0", WIRE_PIN_HARD);
    for (uint32_t i = 0; i < 3; i++)
        fill(&small, i == 0 ? "a" : i == 1 ? "b" : "c", 64, 64);
    pin_key(&small, "orphan.0", WIRE_PIN_NONE);
    pin_key(&small, "head.0", WIRE_PIN_NONE);
    evicted = world_metric(world, "evicted_objects");
    fill(&small, "d", 64, 20); /* of 62 that are older: a quarter of a turnover, and some */
    assert_int_equal(world_metric(world, "evicted_objects"), evicted + 20);
    assert_int_equal(group_stat(&small, "orphan")->status, SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "head")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_comes_first),
        cmocka_unit_test(test_parent_is_not_above),
        cmocka_unit_test(test_parent_is_begun),
        cmocka_unit_test(test_parent_goes_and_returns),
        cmocka_unit_test(test_absent_parents_are_bounded),
        cmocka_unit_test(test_restart_binds),
        cmocka_unit_test(test_unused_orphan_goes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
