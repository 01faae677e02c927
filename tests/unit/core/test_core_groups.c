/* Groups: formed, whole, broken, healed, evicted, removed, held, learned again. */
#include "groups.h"
#include "restart.h"

static void test_forms(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 3, "g0", 0);
    member_put(&small, "g", 3, "g2", 2);
    const struct wire_group_info *info = group_stat(&small, "g");

    assert_int_equal(info->state, WIRE_GROUP_FORMING);
    assert_int_equal(info->present, 2);
    assert_int_equal(info->missing_count, 1);
    assert_int_equal(info->missing[0].index, 1);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_OK); /* not atomic */
    member_put(&small, "g", 3, "g1", WIRE_GROUP_INDEX_ANY);
    info = group_stat(&small, "g");
    assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(info->present, 3);
    assert_int_equal(info->missing_count, 0);
    assert_int_equal(world_metric(world, "group_members"), 3);
    assert_int_equal(group_stat(&small, "none")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_refuses(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 2, "g0", 0);
    assert_int_equal(member_status(&small, "g", 3, "x", 2, 0), SNOW_GROUP_SIZE_MISMATCH);
    struct wire_put_start_req *put = member_message(&small, "g", 3, "x", 2, 0);

    assert_true(bytes_equal(put_send(world, small.session, put, 0)->grants[0].reason,
                            world_key("the group has the size 2")));
    assert_int_equal(member_status(&small, "g", 2, "x", 0, 0), SNOW_GROUP_INDEX_CONFLICT);
    assert_int_equal(member_status(&small, "g", 2, "x", 2, 0), SNOW_INVALID);
    assert_int_equal(member_status(&small, "h", 2, "x", 2, 0), SNOW_INVALID);
    assert_int_equal(member_status(&small, "g", 2, "x", 1, WIRE_GROUP_CASCADE), SNOW_INVALID);
    assert_int_equal(member_status(&small, "", 2, "x", 1, 0), SNOW_INVALID);
    assert_int_equal(member_status(&small, "g", 2, "x", 1, 0x80), SNOW_INVALID);
    assert_int_equal(member_status(&small, "o", 0, "x", 1, WIRE_GROUP_ATOMIC), SNOW_INVALID);
    assert_int_equal(member_status(&small, "g", 2, "g0", 0, 0), SNOW_EXISTS);
    /* Nothing was left behind by what was refused. */
    assert_int_equal(group_stat(&small, "h")->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups"), 1);
    world_deinit(world);
}

static void test_open_group_fails_no_put(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "o", 0, "a", 5);
    member_put(&small, "o", 0, "b", 5); /* taken: stored without the group */
    member_put(&small, "o", 0, "c", WIRE_GROUP_INDEX_ANY);
    const struct wire_group_info *info = group_stat(&small, "o");

    assert_int_equal(info->state, WIRE_GROUP_OPEN);
    assert_int_equal(info->present, 2);
    assert_int_equal(world_metric(world, "group_conflicts"), 1);
    assert_int_equal(lookup_status(world, small.session, "b"), SNOW_OK);
    world_deinit(world);
}

static void test_atomic_is_hidden(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put_flags(&small, "g", 2, "g0", 0, WIRE_GROUP_ATOMIC);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_NOT_READY);
    const char *key = "g0";

    assert_int_equal(lookup_send(world, small.session, 0, 0, &key, 1)->items[0].status,
                     SNOW_NOT_FOUND);
    member_put_flags(&small, "g", 2, "g1", 1, WIRE_GROUP_ATOMIC);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_OK);
    /* Not one by one: neither replaced nor removed. */
    struct wire_put_start_req *put = put_message(world, world->token + 1, "g0", PIECE);

    put->items[0].flags = WIRE_PUT_REPLACE;
    assert_int_equal(put_send(world, small.session, put, 0)->grants[0].status, SNOW_INVALID);
    member_put_flags(&small, "f", 2, "f0", 0, WIRE_GROUP_ATOMIC);
    put = member_message(&small, "f", 2, "f0", 0, WIRE_GROUP_ATOMIC);
    put->items[0].flags = WIRE_PUT_REPLACE;
    assert_int_equal(put_send(world, small.session, put, 0)->grants[0].status, SNOW_INVALID);
    assert_int_equal(group_remove_send(&small, "f")->statuses[0].status, SNOW_OK);
    assert_int_equal(remove_key(world, small.session, "g1"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups"), 0);
    world_deinit(world);
}

static void test_degrades_and_heals(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    assert_int_equal(remove_key(world, small.session, "g.1"), SNOW_OK);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(group_get(&small, "g", 0, 0)->status, SNOW_GROUP_BROKEN);
    assert_int_equal(lookup_status(world, small.session, "g.0"), SNOW_OK);
    member_put(&small, "g", 3, "g.1", 1);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    /* One that is not healed in time goes before all others, though it was used last. */
    group_put(&small, "old", 3);
    assert_int_equal(remove_key(world, small.session, "g.1"), SNOW_OK);
    world_live(world, world->options.group_degraded_ns + NS_PER_S);
    assert_int_equal(lookup_status(world, small.session, "g.0"), SNOW_OK);
    fill(&small, "f", 64, (4 * MIB - 5 * 64 * KIB) / (64 * KIB) + 1);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "old")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

static void test_is_evicted_whole(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    char id[16];

    (void)state;
    small_open(&small, 4 * MIB);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "g%d", i);
        group_put(&small, id, 4); /* 16 fill the pool; core_check looks after each step */
    }
    uint32_t whole = 0;

    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "g%d", i);
        const struct wire_group_info *info = group_stat(&small, id);

        if (info->status == SNOW_NOT_FOUND)
            continue;
        assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
        whole++;
    }
    assert_in_range(whole, 12, 16);
    assert_int_equal(world_metric(world, "evicted_objects"),
                     4 * world_metric(world, "evicted_groups"));
    world_deinit(world);
}

static void test_use_of_members_is_one_use(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *keys[] = {"a.0", "a.1"};

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "a", 2);
    uint64_t session = session_open(world, 0);

    for (int i = 0; i < 3; i++) { /* each rank reads its member */
        lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, &keys[0], 1);
        lookup_send(world, session, 0, WIRE_LOOKUP_TOUCH, &keys[1], 1);
    }
    /* Two puts of members, then three rounds. */
    const struct wire_list_rep *list = list_all(&small);

    assert_int_equal(list->items_count, 2);
    assert_int_equal(list->items[0].uses, 4);
    assert_int_equal(list->items[1].uses, 4);
    assert_int_equal(group_uses(&small, "a"), 4);
    world_deinit(world);
}

static void test_late_end_is_gone(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 2, "g0", 0);
    struct wire_put_start_req *put = member_message(&small, "g", 2, "g1", 1, 0);
    struct world_request *request = world_ask(world, small.session, WIRE_put_start, put, 1, 500000);

    assert_int_equal(request->grants[0].status, SNOW_OK);
    uint64_t gen = request->grants[0].gen;

    grant_write(world, world_key("g1"), PIECE, &request->grants[0], 0);
    world_live(world, world->options.group_form_ns + 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    assert_int_equal(put_end_gen(world, small.session, "g1", gen, 1)->statuses[0].status,
                     SNOW_GONE);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups_expired"), 1);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    world_deinit(world);
}

static void test_grant_that_ends_frees_its_index(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 2, "g0", 0);
    struct wire_put_start_req *put = member_message(&small, "g", 2, "dead", 1, 0);

    world_ask(world, small.session, WIRE_put_start, put, 1, 1000);
    assert_int_equal(member_status(&small, "g", 2, "g1", 1, 0), SNOW_GROUP_INDEX_CONFLICT);
    world_live(world, 4 * NS_PER_S);
    member_put(&small, "g", 2, "g1", 1);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

static void test_waits_for_the_last_member(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    struct world_request *early = group_stat_send(&small, "g", 5000);
    struct world_request *vain = group_stat_send(&small, "h", 100);

    member_put(&small, "g", 2, "g0", 0);
    assert_false(early->done);
    member_put(&small, "g", 2, "g1", 1);
    assert_true(early->done);
    assert_int_equal(group_info_of(early)->state, WIRE_GROUP_COMPLETE);
    world_run(world, 200 * NS_PER_MS);
    assert_true(vain->done);
    assert_int_equal(group_info_of(vain)->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_remove(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 4);
    small.node->holds_closed = true;
    struct world_request *request = group_remove_send(&small, "g");

    /* Absent at once; answered when the holders have said so. */
    assert_false(request->done);
    assert_int_equal(lookup_status(world, small.session, "g.2"), SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    /* The next put begins anew and waits for nothing. */
    member_put(&small, "g", 4, "g.2", 2);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_FORMING);
    small.node->holds_closed = false;
    world_tick(world);
    assert_true(request->done);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    request = group_remove_send(&small, "none");
    assert_int_equal(request->statuses[0].status, SNOW_NOT_FOUND);
    /* By a member, with the group. */
    request = remove_send(world, small.session, "g.2", WIRE_REMOVE_GROUP);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "groups"), 0);
    world_deinit(world);
}

static void test_cascade(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put_flags(&small, "g", 2, "g0", 0, WIRE_GROUP_CASCADE);
    member_put_flags(&small, "g", 2, "g1", 1, WIRE_GROUP_CASCADE);
    assert_int_equal(remove_key(world, small.session, "g1"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "g0"), SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_large_group_goes_in_steps(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 16 * MIB);
    world->unchecked = true;
    group_put_sized(&small, "g", 1024, 4096);
    world->unchecked = false;
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_get(&small, "g", 0, 0)->members_count, 1024);
    small.node->holds_closed = true;
    struct world_request *request = group_remove_send(&small, "g");

    assert_int_equal(world_metric(world, "group_members"), 256 * 2); /* two steps were made */
    assert_int_equal(lookup_status(world, small.session, "g.1023"), SNOW_NOT_FOUND);
    member_put(&small, "h", 1, "g.1000", 0); /* its key is free, though its turn is to come */
    world_run(world, NS_PER_MS);
    assert_int_equal(world_metric(world, "group_members"), 1);
    assert_int_equal(lookup_status(world, small.session, "g.1000"), SNOW_OK);
    small.node->holds_closed = false;
    world_tick(world);
    assert_true(request->done);
    world_deinit(world);
}

static void test_hold(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    uint64_t other = session_open(world, 0);
    const struct wire_group_hold_rep *hold = hold_send(world, small.session, "g", 0, 5000);
    uint64_t id = hold->hold;

    assert_int_equal(hold->status, SNOW_OK);
    assert_int_equal(hold_send(world, other, NULL, id, 5000)->status, SNOW_OK);
    /* Nothing of it goes while one of them is marked. */
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(hold_send(world, small.session, NULL, id, 0)->status, SNOW_OK);
    fill(&small, "e", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_get(&small, "g", 0, id)->members_count, 2);
    assert_int_equal(hold_send(world, other, NULL, id, 0)->status, SNOW_OK);
    assert_int_equal(hold_send(world, other, NULL, id, 1000)->status, SNOW_GONE);
    fill(&small, "d", 64, 100);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_hold_names_a_version(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    uint64_t id = hold_send(world, small.session, "g", 0, 5000)->hold;
    const struct wire_group_get_rep *first = group_get(&small, "g", 0, id);
    uint64_t ggen = first->ggen;
    uint32_t version = first->version;

    member_replace(&small, "g", 2, "g.1", 1);
    assert_int_equal(group_get(&small, "g", 0, id)->status, SNOW_CHANGED);
    first = group_get(&small, "g", 0, 0);
    assert_int_equal(first->status, SNOW_OK);
    assert_int_equal(first->ggen, ggen);
    assert_int_equal(first->version, version + 1);
    /* A hold ends with its session, and at its deadline. */
    uint64_t other = session_open(world, 0);

    id = hold_send(world, other, "g", 0, 1000)->hold;
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(hold_send(world, other, NULL, id, 1000)->status, SNOW_GONE);
    id = hold_send(world, other, "g", 0, 30000)->hold;
    session_break(world, other);
    world_live(world, world->options.session_end_ns + NS_PER_S);
    assert_int_equal(hold_send(world, small.session, NULL, id, 1000)->status, SNOW_GONE);
    world_deinit(world);
}

static void test_removal_ends_holds(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 2);
    uint64_t left = hold_send(world, small.session, "g", 0, 5000)->hold;
    uint64_t id = hold_send(world, small.session, "g", 0, 5000)->hold;

    assert_int_equal(hold_send(world, small.session, NULL, left, 0)->status, SNOW_OK);
    assert_int_equal(group_remove_send(&small, "g")->statuses[0].status, SNOW_OK);
    assert_int_equal(hold_send(world, small.session, NULL, id, 1000)->status, SNOW_GONE);
    assert_int_equal(hold_send(world, small.session, "g", 0, 1000)->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    world_deinit(world);
}

static void test_adopts(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    put(world, small.session, "a", PIECE);
    assert_int_equal(member_status(&small, "g", 1, "a", 0, 0), SNOW_EXISTS);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    assert_int_equal(member_status(&small, "g", 1, "a", 0, WIRE_GROUP_ADOPT), SNOW_EXISTS);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    /* In another group: never moved. */
    assert_int_equal(member_status(&small, "h", 1, "a", 0, WIRE_GROUP_ADOPT), SNOW_EXISTS);
    assert_int_equal(group_stat(&small, "h")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_parents_go_after_children(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *parent = "p.0";

    (void)state;
    small_open(&small, 4 * MIB);
    chained_put(&small, "p", NULL, 0);
    chained_put(&small, "c", "p", 1);
    chained_put(&small, "d", "c", 2);
    /* The parent is the oldest; its last descendant goes for it. */
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, &parent, 0);
    fill(&small, "f", 64, 64 - 4); /* one is kept free */
    fill(&small, "g", 64, 1);
    assert_int_equal(group_stat(&small, "d")->status, SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "p")->state, WIRE_GROUP_COMPLETE);
    fill(&small, "h", 64, 1);
    assert_int_equal(group_stat(&small, "c")->status, SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "p")->state, WIRE_GROUP_COMPLETE);
    /* Not a parent: as deep as its child. */
    chained_put(&small, "q", NULL, 1);
    uint64_t dropped = world_metric(world, "parents_dropped");

    chained_put(&small, "x", "q", 1);
    assert_int_equal(world_metric(world, "parents_dropped"), dropped + 1);
    world_deinit(world);
}

static void test_match(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *ids[] = {"a", "b", "c", "d"};
    const char *keys[] = {"k0", "k1", "k2"};

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "a", 2);
    group_put(&small, "b", 2);
    group_put(&small, "d", 2);
    const struct wire_match_rep *match = match_send(&small, WIRE_MATCH_GROUPS, ids, 4);

    assert_int_equal(match->matched, 2);
    assert_int_equal(match->stop, SNOW_NOT_FOUND);
    assert_int_equal(match->runs_count, 1);
    assert_int_equal(match->runs[0].count, 2);
    member_put(&small, "c", 2, "c.0", 0);
    match = match_send(&small, WIRE_MATCH_GROUPS, ids, 4);
    assert_int_equal(match->matched, 2);
    assert_int_equal(match->stop, SNOW_NOT_READY);
    member_put(&small, "c", 2, "c.1", 1);
    match = match_send(&small, WIRE_MATCH_GROUPS, ids, 4);
    assert_int_equal(match->matched, 4);
    assert_int_equal(match->stop, SNOW_OK);
    put(world, small.session, "k0", PIECE);
    put(world, small.session, "k2", PIECE);
    assert_int_equal(match_send(&small, 0, keys, 3)->matched, 1);
    put(world, small.session, "k1", PIECE);
    assert_int_equal(match_send(&small, 0, keys, 3)->matched, 3);
    world_deinit(world);
}

/* Sixteen groups are put by 64 sessions, member by member, into a pool of four. */
static void many_form(uint32_t nodes)
{
    struct small_world small;
    struct world *world = &small.world;
    struct forming members[64];

    small_open(&small, 4 * MIB / nodes);
    for (uint32_t i = 1; i < nodes; i++)
        node_start(world, 4 * MIB / nodes, 1024);
    for (uint32_t i = 0; i < 64; i++) /* the first members of all groups, then the second ones */
        forming_start(&small, &members[i], i % 16, i / 16, 256 * KIB - 4096);
    forming_run(&small, members, 64);
    assert_int_equal(world_metric(world, "groups_completed"), 16);
    assert_int_equal(world_metric(world, "groups_expired"), 0);
    assert_int_equal(world_metric(world, "forming_bytes"), 0);
    world_deinit(world);
}

static void test_many_form_in_a_small_pool(void **state)
{
    (void)state;
    many_form(1);
    many_form(2);
    many_form(4);
}

static void test_whole_group_is_too_large(void **state)
{
    struct small_world small;

    (void)state;
    small_open(&small, 4 * MIB);
    struct wire_put_start_req *put = member_message(&small, "g", 100, "x", 0, 0);

    assert_int_equal(put_send(&small.world, small.session, put, 1000)->grants[0].status,
                     SNOW_LIMIT);
    world_deinit(&small.world);
}

static void test_learns_again(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    member_put_flags(&small, "atomic", 2, "a0", 0, WIRE_GROUP_ATOMIC);
    member_put(&small, "o", 0, "o0", 0);
    member_put(&small, "o", 0, "o1", 1);
    uint64_t ggen = group_stat(&small, "g")->ggen;

    world_restart(world);
    small.session = session_open(world, 0);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_UNKNOWN);
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    world_run(world, 10 * NS_PER_MS);
    const struct wire_group_info *info = group_stat(&small, "g");

    assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(info->ggen, ggen);
    assert_int_equal(group_get(&small, "g", 0, 0)->members_count, 3);
    assert_int_equal(group_stat(&small, "o")->state, WIRE_GROUP_OPEN);
    /* Its flags came back with it: what is there is not seen. */
    assert_int_equal(group_stat(&small, "atomic")->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_NOT_READY);
    member_put_flags(&small, "atomic", 2, "a1", 1, WIRE_GROUP_ATOMIC);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_open_group_fails_no_put),
        cmocka_unit_test(test_atomic_is_hidden),
        cmocka_unit_test(test_degrades_and_heals),
        cmocka_unit_test(test_is_evicted_whole),
        cmocka_unit_test(test_use_of_members_is_one_use),
        cmocka_unit_test(test_late_end_is_gone),
        cmocka_unit_test(test_grant_that_ends_frees_its_index),
        cmocka_unit_test(test_waits_for_the_last_member),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_cascade),
        cmocka_unit_test(test_large_group_goes_in_steps),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_hold_names_a_version),
        cmocka_unit_test(test_removal_ends_holds),
        cmocka_unit_test(test_adopts),
        cmocka_unit_test(test_parents_go_after_children),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_many_form_in_a_small_pool),
        cmocka_unit_test(test_whole_group_is_too_large),
        cmocka_unit_test(test_learns_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
