/* What groups are, by their ids and by the keys of members; leases on them; guards of members. */
#include "groups.h"
#include "restart.h"

/* Asks about one group; asked: its id or a member's key, flags, from. */
static struct world_request *ask_group(struct small_world *small, struct wire_group_asked asked,
                                       uint64_t operation, uint32_t wait_ms)
{
    struct wire_group_stat_req *message = world_take(&small->world, 1, sizeof(*message));

    message->operation = operation;
    message->flags = operation != 0 ? WIRE_LOOKUP_LEASE : 0;
    message->wait_ms = wait_ms;
    message->groups = world_take(&small->world, 1, sizeof(*message->groups));
    message->groups_count = 1;
    message->groups[0] = asked;
    return world_ask(&small->world, small->session, WIRE_group_stat, message, 1, 60000);
}

static struct wire_group_asked of_key(const char *key)
{
    return (struct wire_group_asked){.id = world_key(key), .flags = WIRE_STAT_KEY};
}

static const struct wire_group_info *stat_by_key(struct small_world *small, const char *key)
{
    return group_info_of(ask_group(small, of_key(key), 0, 0));
}

static void test_exists_tells_the_group(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *keys[] = {"g.0", "g.1", "f0", "a0", "alone", "none"};

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    member_put(&small, "f", 3, "f0", 2);
    member_put_flags(&small, "a", 2, "a0", 0, WIRE_GROUP_ATOMIC);
    uint64_t gen = put(world, small.session, "alone", PIECE);
    const struct wire_lookup_rep *reply =
        lookup_send(world, small.session, 0, WIRE_LOOKUP_GROUPS, keys, 6);

    assert_int_equal(reply->groups_count, 6);
    for (uint32_t i = 0; i < 2; i++) {
        const struct wire_group_info *info = &reply->groups[i];

        assert_int_equal(reply->items[i].status, SNOW_OK);
        assert_int_equal(info->status, SNOW_OK);
        assert_int_equal(info->index, i);
        assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
        assert_int_equal(info->ggen, group_stat(&small, "g")->ggen);
        assert_int_equal(info->version, 1);
        assert_int_equal(info->size, 2);
        assert_int_equal(info->present, 2);
        assert_int_equal(info->bytes, 2 * PIECE);
        assert_int_equal(info->next, WIRE_GROUP_INDEX_ANY);
        assert_true(bytes_equal(info->id, world_key("g")));
    }
    assert_int_equal(reply->items[2].status, SNOW_OK);
    assert_int_equal(reply->groups[2].state, WIRE_GROUP_FORMING);
    assert_int_equal(reply->groups[2].size, 3);
    assert_int_equal(reply->groups[2].present, 1);
    assert_int_equal(reply->groups[2].next, 0); /* where missing ones begin */
    /* A member that its group hides is not there, but its group is. */
    assert_int_equal(reply->items[3].status, SNOW_NOT_FOUND);
    assert_int_equal(reply->groups[3].status, SNOW_OK);
    assert_int_equal(reply->groups[3].state, WIRE_GROUP_FORMING);
    assert_int_equal(reply->groups[3].flags, WIRE_GROUP_ATOMIC);
    /* An object of no group is a complete group of one. */
    assert_int_equal(reply->groups[4].state, WIRE_GROUP_COMPLETE);
    assert_int_equal(reply->groups[4].ggen, gen);
    assert_int_equal(reply->groups[4].size, 1);
    assert_int_equal(reply->groups[4].present, 1);
    assert_int_equal(reply->groups[4].bytes, PIECE);
    assert_int_equal(reply->groups[4].id.size, 0);
    assert_int_equal(reply->groups[5].status, SNOW_NOT_FOUND);
    /* Who does not ask is told nothing. */
    assert_int_equal(lookup_send(world, small.session, 0, 0, keys, 6)->groups_count, 0);
    world_deinit(world);
}

static void test_exists_leases_the_group(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *keys[] = {"g.1", "alone", "g.0", "g.1"};

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 4);
    put(world, small.session, "alone", PIECE);
    const struct wire_lookup_rep *reply =
        lookup_send(world, small.session, 7, WIRE_LOOKUP_GROUPS | WIRE_LOOKUP_LEASE, keys, 4);

    assert_true(reply->lease_ms > 0);
    /* Every member, each once. */
    assert_int_equal(world_metric(world, "leased_bytes"), 5 * PIECE);
    /* Also when the one that was asked for is gone. */
    assert_int_equal(remove_key(world, small.session, "g.1"), SNOW_OK);
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->present, 3);
    assert_int_equal(lookup_status(world, small.session, "g.3"), SNOW_OK);
    world_live(world, reply->lease_ms * NS_PER_MS + NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    world_deinit(world);
}

static void test_stat_leases_the_group(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 4);
    const struct wire_group_info *info =
        group_info_of(ask_group(&small, (struct wire_group_asked){.id = world_key("g")}, 9, 0));

    assert_true(info->lease_ms > 0);
    assert_int_equal(world_metric(world, "leased_bytes"), 4 * PIECE);
    info = group_info_of(ask_group(&small, of_key("g.2"), 9, 0)); /* asked again */
    assert_true(info->lease_ms > 0);
    assert_int_equal(world_metric(world, "leased_bytes"), 4 * PIECE);
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->present, 4);
    /* Above the session's share of the pool nothing is leased, and it says so. */
    group_put(&small, "h", 14);
    info = group_info_of(ask_group(&small, (struct wire_group_asked){.id = world_key("h")}, 10, 0));
    assert_int_equal(info->status, SNOW_OK);
    assert_int_equal(info->lease_ms, 0);
    /* One that is waited for is leased when it is complete. */
    world_live(world, 40 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    member_put(&small, "w", 2, "w.0", 0);
    struct world_request *request =
        ask_group(&small, (struct wire_group_asked){.id = world_key("w")}, 11, 5000);

    assert_false(request->done);
    member_put(&small, "w", 2, "w.1", 1);
    assert_true(group_info_of(request)->lease_ms > 0);
    assert_int_equal(world_metric(world, "leased_bytes"), 2 * PIECE);
    world_deinit(world);
}

/* The groups of a chain that is asked for in two messages are leased by both. */
static void test_match_leases_every_message(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *ids[] = {"a", "b", "c", "d"};

    (void)state;
    small_open(&small, 4 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        group_put(&small, ids[i], 3);
    for (uint32_t part = 0; part < 2; part++) {
        struct wire_match_req *message = world_take(world, 1, sizeof(*message));

        message->operation = 5;
        message->position = 2 * part;
        message->flags = WIRE_MATCH_GROUPS | WIRE_LOOKUP_LEASE;
        message->keys = world_take(world, 2, sizeof(*message->keys));
        message->keys_count = 2;
        message->keys[0].key = world_key(ids[2 * part]);
        message->keys[1].key = world_key(ids[2 * part + 1]);
        const struct wire_match_rep *reply =
            world_ask(world, small.session, WIRE_match, message, 1, 1000)->message;

        assert_int_equal(reply->matched, 2);
        assert_true(reply->lease_ms > 0);
    }
    assert_int_equal(world_metric(world, "leased_bytes"), 12 * PIECE);
    world_deinit(world);
}

static void test_stat_by_key(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    const struct wire_group_info *info = stat_by_key(&small, "g.2");

    assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(info->size, 3);
    assert_true(bytes_equal(info->id, world_key("g")));
    assert_int_equal(group_stat(&small, "g")->id.size, 0); /* it was what was asked for */
    assert_int_equal(remove_key(world, small.session, "g.0"), SNOW_OK);
    info = stat_by_key(&small, "g.2");
    assert_int_equal(info->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(info->missing_count, 1);
    assert_int_equal(stat_by_key(&small, "g.0")->status, SNOW_NOT_FOUND);
    put(world, small.session, "alone", PIECE);
    info = stat_by_key(&small, "alone");
    assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(info->size, 1);
    assert_int_equal(info->present, 1);
    assert_int_equal(info->missing_count, 0);
    /* A member that is still being written. */
    struct wire_put_start_req *put = member_message(&small, "w", 2, "w.0", 0, 0);

    put_send(world, small.session, put, 1000);
    info = stat_by_key(&small, "w.0");
    assert_int_equal(info->state, WIRE_GROUP_FORMING);
    assert_int_equal(info->present, 0);
    assert_int_equal(stat_by_key(&small, "none")->status, SNOW_NOT_FOUND);
    assert_int_equal(stat_by_key(&small, "")->status, SNOW_INVALID);
    struct wire_group_asked unknown = {.id = world_key("g"), .flags = 2};

    assert_int_equal(group_info_of(ask_group(&small, unknown, 0, 0))->status, SNOW_INVALID);
    world_deinit(world);
}

static void test_waits_by_key(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    struct world_request *member = ask_group(&small, of_key("g.1"), 0, 5000);
    struct world_request *alone = ask_group(&small, of_key("alone"), 0, 5000);
    struct world_request *open = ask_group(&small, of_key("o.0"), 0, 5000);
    struct world_request *open_id =
        ask_group(&small, (struct wire_group_asked){.id = world_key("o")}, 0, 5000);
    struct world_request *vain = ask_group(&small, of_key("none"), 0, 100);

    member_put(&small, "g", 3, "g.1", 1);
    member_put(&small, "g", 3, "g.0", 0);
    assert_false(member->done);
    member_put(&small, "g", 3, "g.2", 2);
    assert_int_equal(group_info_of(member)->state, WIRE_GROUP_COMPLETE);
    assert_false(alone->done);
    put(world, small.session, "alone", PIECE);
    assert_int_equal(group_info_of(alone)->state, WIRE_GROUP_COMPLETE);
    assert_false(open->done || open_id->done);
    member_put(&small, "o", 0, "o.0", 0); /* there is nothing to wait for in an open one */
    assert_int_equal(group_info_of(open)->state, WIRE_GROUP_OPEN);
    assert_int_equal(group_info_of(open_id)->state, WIRE_GROUP_OPEN);
    world_run(world, 200 * NS_PER_MS);
    assert_int_equal(group_info_of(vain)->status, SNOW_NOT_FOUND);
    /* The group of a key that is given up. */
    member_put(&small, "h", 2, "h.0", 0);
    member = ask_group(&small, of_key("h.0"), 0, 5000);
    assert_false(member->done);
    assert_int_equal(group_remove_send(&small, "h")->statuses[0].status, SNOW_OK);
    assert_int_equal(group_info_of(member)->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_missing_members_come_in_pages(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_group_asked asked = {.id = world_key("g")};
    uint32_t expected = 0;
    uint32_t pages = 0;

    (void)state;
    small_open(&small, 64 * MIB);
    for (uint32_t i = 0; i < 200; i += 100) {
        struct wire_put_start_req *put = member_message(&small, "g", 200, i == 0 ? "a" : "b", i, 0);

        put->items[0].size = 4096;
        message_put(&small, put);
    }
    for (; asked.from != WIRE_GROUP_INDEX_ANY; pages++) {
        const struct wire_group_info *info = group_info_of(ask_group(&small, asked, 0, 0));

        assert_int_equal(info->present, 2);
        for (uint32_t i = 0; i < info->missing_count; i++) {
            expected += expected % 100 == 0; /* these two are there */
            assert_int_equal(info->missing[i].index, expected++);
        }
        assert_true(info->next == WIRE_GROUP_INDEX_ANY || info->next > asked.from);
        asked.from = info->next;
    }
    assert_int_equal(expected, 200);
    assert_int_equal(pages, 4);
    asked.from = 199;
    assert_int_equal(group_info_of(ask_group(&small, asked, 0, 0))->missing_count, 1);
    asked.from = 70000;
    assert_int_equal(group_info_of(ask_group(&small, asked, 0, 0))->missing_count, 0);
    world_deinit(world);
}

/* ---- guards ---- */

static void guard(struct small_world *small, const char *key)
{
    struct wire_lookup_req lookup = {.flags = WIRE_LOOKUP_GUARD, .guard_ms = 500, .keys_count = 1};
    struct wire_key keys = {.key = world_key(key)};

    lookup.keys = &keys;
    world_ask(&small->world, small->session, WIRE_lookup, &lookup, 1, 1000);
}

static enum snow_status group_remove(struct small_world *small, const char *id, uint32_t flags)
{
    struct wire_group_remove_req *message = world_take(&small->world, 1, sizeof(*message));

    message->flags = flags;
    message->ids = world_take(&small->world, 1, sizeof(*message->ids));
    message->ids_count = 1;
    message->ids[0].key = world_key(id);
    return (enum snow_status)world_ask(&small->world, small->session, WIRE_group_remove, message, 1,
                                       10000)
        ->statuses[0]
        .status;
}

static const struct wire_remove_match_rep *remove_prefix(struct small_world *small,
                                                         const char *prefix, uint32_t flags)
{
    struct wire_remove_match_req *message = world_take(&small->world, 1, sizeof(*message));

    message->kind = WIRE_MATCH_PREFIX;
    message->flags = flags;
    message->pattern = world_key(prefix);
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_remove_match, message, 1, 10000);

    world_run(&small->world, 10 * NS_PER_MS);
    assert_true(request->done);
    return request->message;
}

static void test_a_guarded_member_guards_its_group(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    guard(&small, "g.1");
    assert_int_equal(group_remove(&small, "g", 0), SNOW_IN_USE);
    assert_int_equal(
        remove_send(world, small.session, "g.0", WIRE_REMOVE_GROUP)->statuses[0].status,
        SNOW_IN_USE);
    const struct wire_remove_match_rep *match = remove_prefix(&small, "g.", WIRE_REMOVE_GROUP);

    assert_int_equal(match->removed, 0);
    assert_int_equal(match->guarded, 3);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    /* Alone each has its own. */
    assert_int_equal(remove_key(world, small.session, "g.1"), SNOW_IN_USE);
    assert_int_equal(remove_key(world, small.session, "g.0"), SNOW_OK);
    assert_int_equal(group_remove(&small, "g", WIRE_REMOVE_FORCE), SNOW_OK);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    /* Where members go together, that of each guards all; and it ends. */
    member_put_flags(&small, "c", 2, "c.0", 0, WIRE_GROUP_CASCADE);
    member_put_flags(&small, "c", 2, "c.1", 1, WIRE_GROUP_CASCADE);
    guard(&small, "c.1");
    assert_int_equal(remove_key(world, small.session, "c.0"), SNOW_IN_USE);
    world_live(world, NS_PER_S);
    assert_int_equal(remove_key(world, small.session, "c.0"), SNOW_OK);
    assert_int_equal(group_stat(&small, "c")->status, SNOW_NOT_FOUND);
    /* An object that was guarded before it became a member. */
    put(world, small.session, "x", PIECE);
    guard(&small, "x");
    assert_int_equal(member_status(&small, "x", 1, "x", 0, WIRE_GROUP_ADOPT), SNOW_EXISTS);
    assert_int_equal(group_remove(&small, "x", 0), SNOW_IN_USE);
    world_deinit(world);
}

/* ---- flags ---- */

static void test_no_offload_travels(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    uint32_t flags = WIRE_GROUP_NO_OFFLOAD | WIRE_GROUP_CASCADE;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put_flags(&small, "g", 2, "g.0", 0, flags);
    assert_int_equal(member_status(&small, "g", 2, "g.1", 1, WIRE_GROUP_CASCADE), SNOW_INVALID);
    member_put_flags(&small, "g", 2, "g.1", 1, flags);
    assert_int_equal(group_stat(&small, "g")->flags, flags);
    assert_int_equal(group_list(&small)->items[0].flags, flags);
    world_restart(world);
    small.session = session_open(world, 0);
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    world_run(world, 10 * NS_PER_MS);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(&small, "g")->flags, flags);
    world_deinit(world);
}

static void test_exists_elsewhere(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 2, "k", 0);
    put(world, small.session, "alone", PIECE);
    struct {
        const char *group;
        const char *key;
        uint32_t flags;
        uint16_t told;
    } const rows[] = {{"g", "k", 0, 0},
                      {"h", "k", 0, WIRE_EXISTS_ELSEWHERE},
                      {"h", "k", WIRE_GROUP_ADOPT, WIRE_EXISTS_ELSEWHERE},
                      {"h", "alone", 0, WIRE_EXISTS_ELSEWHERE},
                      {"h", "alone", WIRE_GROUP_ADOPT, 0}};

    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire_put_start_req *put =
            member_message(&small, rows[i].group, 2, rows[i].key, 0, rows[i].flags);
        const struct wire_put_grant *grant = &put_send(world, small.session, put, 0)->grants[0];

        assert_int_equal(grant->status, SNOW_EXISTS);
        assert_int_equal(grant->flags, rows[i].told);
    }
    /* Who says nothing of a group is told nothing of one. */
    struct wire_put_start_req *put = put_message(world, world->token + 1, "k", PIECE);

    assert_int_equal(put_send(world, small.session, put, 0)->grants[0].flags, 0);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exists_tells_the_group),
        cmocka_unit_test(test_exists_leases_the_group),
        cmocka_unit_test(test_stat_leases_the_group),
        cmocka_unit_test(test_match_leases_every_message),
        cmocka_unit_test(test_stat_by_key),
        cmocka_unit_test(test_waits_by_key),
        cmocka_unit_test(test_missing_members_come_in_pages),
        cmocka_unit_test(test_a_guarded_member_guards_its_group),
        cmocka_unit_test(test_no_offload_travels),
        cmocka_unit_test(test_exists_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
