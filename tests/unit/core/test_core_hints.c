/* Hints: what is done goes first, priorities go in order, what expires is absent at once. */
#include "groups.h"

#define PAGE (64 * KIB)
#define PAGES 8u

static struct world_request *hint(struct world *world, uint64_t session, const char *key,
                                  uint32_t flags, uint8_t priority, uint32_t expires_ms)
{
    struct wire_hint_req *message = world_take(world, 1, sizeof(*message));

    message->flags = flags;
    message->priority = priority;
    message->expires_ms = expires_ms;
    message->keys = world_take(world, 1, sizeof(*message->keys));
    message->keys_count = 1;
    message->keys[0].key = world_key(key);
    return world_ask(world, session, WIRE_hint, message, 1, 1000);
}

static int32_t hint_status(struct world *world, uint64_t session, const char *key, uint32_t flags,
                           uint8_t priority, uint32_t expires_ms)
{
    return hint(world, session, key, flags, priority, expires_ms)->statuses[0].status;
}

static void put_hinted(struct world *world, uint64_t session, const char *key, uint32_t flags,
                       uint8_t priority, uint32_t expires_ms)
{
    struct wire_put_start_req *start = put_message(world, world->token + 1, key, PAGE);
    struct world_request *request;

    start->items[0].flags = flags;
    start->items[0].priority = priority;
    start->items[0].expires_ms = expires_ms;
    request = put_send(world, session, start, 1000);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), PAGE, &request->grants[0], 0);
    assert_int_equal(
        put_end_gen(world, session, key, request->grants[0].gen, 1)->statuses[0].status, SNOW_OK);
}

static bool is_there(struct world *world, uint64_t session, const char *key)
{
    return lookup_send(world, session, 0, 0, &key, 1)->items[0].status == SNOW_OK;
}

static void test_order(void **state)
{
    static const uint32_t policies[] = {CORE_POLICY_LRU, CORE_POLICY_RRC};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world world;

        world_init(&world);
        world.options.policy = policies[i];
        world_open(&world);
        node_start(&world, PAGES * PAGE + PAGE, 64);
        uint64_t session = session_open(&world, 0);

        put_hinted(&world, session, "seven", 0, 7, 0);
        put_hinted(&world, session, "one", 0, 1, 0);
        put(&world, session, "plain", PAGE);
        put(&world, session, "other", PAGE);
        put(&world, session, "used", PAGE);
        put_hinted(&world, session, "done", WIRE_PUT_DONE, 3, 0);
        put_hinted(&world, session, "not done", WIRE_PUT_DONE, 0, 0);
        put(&world, session, "last", PAGE);
        assert_int_equal(hint_status(&world, session, "not done", WIRE_HINT_TOUCH, 0, 0), SNOW_OK);
        assert_int_equal(hint_status(&world, session, "used", WIRE_HINT_PRIORITY, 2, 0), SNOW_OK);
        put(&world, session, "x0", PAGE);
        assert_false(is_there(&world, session, "done"));
        put(&world, session, "x1", PAGE);
        put(&world, session, "x2", PAGE);
        assert_false(is_there(&world, session, "plain"));
        assert_false(is_there(&world, session, "other"));
        /* From now on those of a priority alone are old enough to matter. */
        for (uint32_t j = 0; j < 3; j++)
            put_hinted(&world, session, j == 0 ? "k0" : j == 1 ? "k1" : "k2", 0, 4, 0);
        put_hinted(&world, session, "k3", 0, 4, 0);
        put_hinted(&world, session, "k4", 0, 4, 0);
        assert_true(is_there(&world, session, "one"));
        put_hinted(&world, session, "k5", 0, 4, 0);
        assert_false(is_there(&world, session, "one"));
        assert_true(is_there(&world, session, "used"));
        put_hinted(&world, session, "k6", 0, 4, 0);
        assert_false(is_there(&world, session, "used"));
        assert_true(is_there(&world, session, "seven"));
        world_deinit(&world);
    }
}

static void test_expires(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *key = "a";

    (void)state;
    small_open(&small, PAGES * PAGE + 4096);
    put_hinted(world, small.session, "a", WIRE_PUT_EXPIRES, 0, 1000);
    put(world, small.session, "b", PAGE);
    assert_int_equal(hint_status(world, small.session, "b", WIRE_HINT_EXPIRES, 0, 2000), SNOW_OK);
    world->now_ns += 900 * NS_PER_MS;
    /* Use does not extend it. */
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, &key, 1);
    world->now_ns += 101 * NS_PER_MS;
    assert_false(is_there(world, small.session, "a"));
    assert_true(is_there(world, small.session, "b"));
    assert_int_equal(world_metric(world, "expired_objects"), 1);
    /* Its key is free, its room too. */
    put(world, small.session, "a", PAGE);
    assert_int_equal(hint_status(world, small.session, "b", WIRE_HINT_LASTS, 0, 0), SNOW_OK);
    world_run(world, 1500 * NS_PER_MS);
    assert_true(is_there(world, small.session, "a"));
    assert_true(is_there(world, small.session, "b"));
    /* At once; and a leased one all the same. */
    key = "b";
    lookup_send(world, small.session, 77, WIRE_LOOKUP_TOUCH | WIRE_LOOKUP_LEASE, &key, 1);
    assert_int_equal(hint_status(world, small.session, "b", WIRE_HINT_EXPIRES, 0, 0), SNOW_OK);
    assert_false(is_there(world, small.session, "b"));
    assert_int_equal(world_metric(world, "evicted_objects"), 0);
    world_deinit(world);
}

/* More ends at one moment than a step runs timers for: none is found after it. */
static void test_many_expire(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    char name[16];

    (void)state;
    small_open(&small, 600 * PAGE);
    world->unchecked = true;
    for (uint32_t i = 0; i < 500; i++) {
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "e%u", i);
        put_hinted(world, small.session, key, WIRE_PUT_EXPIRES, 0, 1000);
    }
    world->now_ns += 1001 * NS_PER_MS;
    for (uint32_t i = 500; i-- > 0;) {
        const char *key = name;

        snprintf(name, sizeof(name), "e%u", i);
        assert_int_equal(lookup_send(world, small.session, 0, 0, &key, 1)->items[0].status,
                         SNOW_NOT_FOUND);
    }
    assert_int_equal(world_metric(world, "expired_objects"), 500);
    core_check(world->core);
    world_deinit(world);
}

/* A group has the latest end of its members, once all of them have one. */
static void test_group_expires(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    assert_int_equal(hint_status(world, small.session, "g.0", WIRE_HINT_EXPIRES, 0, 1000), SNOW_OK);
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(hint_status(world, small.session, "g.1", WIRE_HINT_EXPIRES, 0, 3000), SNOW_OK);
    assert_int_equal(hint_status(world, small.session, "g.0", WIRE_HINT_EXPIRES, 0, 1000), SNOW_OK);
    world_live(world, 2 * NS_PER_S);
    assert_true(is_there(world, small.session, "g.0"));
    world_live(world, 1500 * NS_PER_MS);
    assert_false(is_there(world, small.session, "g.0"));
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "expired_objects"), 2);
    /* One of them lasts again. */
    group_put(&small, "h", 2);
    for (int i = 0; i < 2; i++)
        hint(world, small.session, i == 0 ? "h.0" : "h.1", WIRE_HINT_EXPIRES, 0, 1000);
    hint(world, small.session, "h.1", WIRE_HINT_LASTS, 0, 0);
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "h")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

/* What was said of an object holds for the group that it joins. */
static void test_adopted_with_hints(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    put_hinted(world, small.session, "a", WIRE_PUT_EXPIRES, 3, 1000);
    assert_int_equal(member_status(&small, "g", 2, "a", 0, WIRE_GROUP_ADOPT), SNOW_EXISTS);
    member_put_flags(&small, "g", 2, "b", 1, WIRE_GROUP_ADOPT);
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE); /* b lasts */
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE); /* of priority 3 */
    put_hinted(world, small.session, "c", WIRE_PUT_EXPIRES, 0, 1000);
    assert_int_equal(member_status(&small, "h", 1, "c", 0, WIRE_GROUP_ADOPT), SNOW_EXISTS);
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "h")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_group_has_the_highest_priority(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    group_put(&small, "low", 2);
    hint(world, small.session, "g.0", WIRE_HINT_PRIORITY, 5, 0);
    hint(world, small.session, "g.1", WIRE_HINT_PRIORITY, 2, 0);
    hint(world, small.session, "low.0", WIRE_HINT_PRIORITY, 5, 0);
    hint(world, small.session, "low.0", WIRE_HINT_PRIORITY, 0, 0);
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(&small, "low")->status, SNOW_NOT_FOUND);
    hint(world, small.session, "g.0", WIRE_HINT_PRIORITY, 0, 0); /* 2 is left */
    fill(&small, "e", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    hint(world, small.session, "g.1", WIRE_HINT_PRIORITY, 0, 0);
    fill(&small, "d", 64, 100);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_wrong(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_start_req *start;

    (void)state;
    small_open(&small, PAGES * PAGE + 4096);
    put(world, small.session, "a", PAGE);
    assert_int_equal(hint_status(world, small.session, "a", WIRE_HINT_PRIORITY, 8, 0),
                     SNOW_INVALID);
    assert_int_equal(hint_status(world, small.session, "a", 0, 1, 0), SNOW_INVALID);
    assert_int_equal(hint_status(world, small.session, "a", 1u << 20, 0, 0), SNOW_INVALID);
    assert_int_equal(hint_status(world, small.session, "a", WIRE_HINT_EXPIRES | WIRE_HINT_LASTS, 0,
                                 1),
                     SNOW_INVALID);
    assert_int_equal(hint_status(world, small.session, "b", WIRE_HINT_TOUCH, 0, 0), SNOW_NOT_FOUND);
    start = put_message(world, 50, "c", PAGE);
    start->items[0].priority = 8;
    assert_int_equal(put_send(world, small.session, start, 0)->grants[0].status, SNOW_INVALID);
    assert_true(is_there(world, small.session, "a"));
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_expires),
        cmocka_unit_test(test_many_expire),
        cmocka_unit_test(test_group_expires),
        cmocka_unit_test(test_adopted_with_hints),
        cmocka_unit_test(test_group_has_the_highest_priority),
        cmocka_unit_test(test_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
