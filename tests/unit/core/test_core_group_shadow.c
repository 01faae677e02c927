/* Atomic groups: unseen until they are whole, and replaced whole by a version beside them. */
#include "groups.h"
#include "restart.h"

static struct wire_put_start_req *version_message(struct small_world *small, const char *key,
                                                  uint32_t size, uint32_t index)
{
    struct wire_put_start_req *put =
        member_message(small, "g", size, key, index, WIRE_GROUP_ATOMIC);

    put->items[0].flags = WIRE_PUT_REPLACE;
    return put;
}

static void version_put(struct small_world *small, uint32_t index)
{
    char *key = world_take(&small->world, 1, 16);

    snprintf(key, 16, "g.%u", index);
    message_put(small, version_message(small, key, 3, index));
}

/* A version is there: what each of these tests begins with. */
static void open_with_first(struct small_world *small)
{
    small_open(small, 4 * MIB);
    for (uint32_t i = 0; i < 3; i++) {
        char *key = world_take(&small->world, 1, 16);

        snprintf(key, 16, "g.%u", i);
        member_put_flags(small, "g", 3, key, i, WIRE_GROUP_ATOMIC);
    }
}

static uint64_t gen_of(struct small_world *small, const char *key)
{
    const struct wire_found *found = lookup(&small->world, small->session, key);

    assert_int_equal(found->status, SNOW_OK);
    return found->gen;
}

static void test_takes_over(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    uint64_t ggen = group_stat(&small, "g")->ggen;
    uint64_t gen = gen_of(&small, "g.0");
    uint64_t hold = hold_send(world, small.session, "g", 0, 5000)->hold;

    version_put(&small, 0);
    version_put(&small, 2);
    /* Readers see the old one, whole. */
    assert_int_equal(gen_of(&small, "g.0"), gen);
    assert_int_equal(group_stat(&small, "g")->ggen, ggen);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_get(&small, "g", 0, hold)->members_count, 3);
    assert_int_equal(match_send(&small, WIRE_MATCH_GROUPS, (const char *[]){"g"}, 1)->matched, 1);
    assert_int_equal(world_metric(world, "objects"), 3);
    assert_int_equal(world_metric(world, "groups_forming"), 1);
    version_put(&small, 1);
    const struct wire_group_info *info = group_stat(&small, "g");

    assert_int_equal(info->state, WIRE_GROUP_COMPLETE);
    assert_true(info->ggen > ggen && gen_of(&small, "g.0") > gen);
    assert_int_equal(group_get(&small, "g", 0, 0)->members_count, 3);
    assert_int_equal(group_get(&small, "g", 0, hold)->status, SNOW_CHANGED);
    assert_int_equal(hold_send(world, small.session, NULL, hold, 1000)->status, SNOW_CHANGED);
    assert_int_equal(hold_send(world, small.session, NULL, hold, 0)->status, SNOW_OK);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    assert_int_equal(world_metric(world, "objects"), 3);
    assert_int_equal(world_metric(world, "groups"), 1);
    assert_int_equal(world_metric(world, "groups_replaced"), 1);
    assert_int_equal(world_metric(world, "forming_bytes"), 0);
    assert_int_equal(world_metric(world, "used_bytes") / PIECE, 3);
    world_deinit(world);
}

static void test_shadow_has_another_size(void **state)
{
    struct small_world small;

    (void)state;
    open_with_first(&small);
    message_put(&small, version_message(&small, "g.0", 2, 0));
    /* Its own size counts for those that follow. */
    struct wire_put_start_req *put = version_message(&small, "x", 3, 2);

    assert_int_equal(put_send(&small.world, small.session, put, 0)->grants[0].status,
                     SNOW_GROUP_SIZE_MISMATCH);
    message_put(&small, version_message(&small, "other", 2, 1));
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(&small, "g")->size, 2);
    assert_int_equal(lookup_status(&small.world, small.session, "g.2"), SNOW_NOT_FOUND);
    world_deinit(&small.world);
}

static void test_shadow_is_given_up(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    uint64_t gen = gen_of(&small, "g.1");

    version_put(&small, 1);
    struct world_request *request =
        put_send(world, small.session, version_message(&small, "g.0", 3, 0), 500000);

    grant_write(world, world_key("g.0"), PIECE, &request->grants[0], WIRE_SLOT_REPLACED);
    world_live(world, world->options.group_form_ns + NS_PER_S);
    assert_int_equal(
        put_end_gen(world, small.session, "g.0", request->grants[0].gen, 1)->statuses[0].status,
        SNOW_GONE);
    assert_int_equal(gen_of(&small, "g.1"), gen);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    /* Its writer is gone. */
    uint64_t writer = session_open(world, 0);

    message_put_by(&small, writer, version_message(&small, "g.1", 3, 1));
    session_break(world, writer);
    world_live(world, world->options.group_abandoned_ns + world->options.session_end_ns + NS_PER_S);
    assert_int_equal(world_metric(world, "groups_forming"), 0);
    assert_int_equal(world_metric(world, "groups_expired"), 2);
    assert_int_equal(world_metric(world, "objects_writing"), 0);
    assert_int_equal(world_metric(world, "used_bytes") / PIECE, 3);
    assert_int_equal(gen_of(&small, "g.1"), gen);
    world_deinit(world);
}

/* What was ended is the group's: neither its session nor a deadline takes it away. */
static void test_ended_members_stay(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    uint64_t writer = session_open(world, 0);

    version_put(&small, 2);
    message_put_by(&small, writer, version_message(&small, "g.0", 3, 0));
    session_break(world, writer);
    world_live(world, world->options.session_end_ns + 5 * NS_PER_S);
    /* Said again: it is there, and counts as present. */
    struct wire_put_start_req *again = version_message(&small, "g.0", 3, 0);
    struct world_request *request = put_send(world, small.session, again, 0);
    uint64_t gen = request->grants[0].gen;

    assert_int_equal(request->grants[0].status, SNOW_EXISTS);
    request = put_end_gen(world, small.session, "g.0", gen, 1);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    request = put_abort_gen(world, small.session, "g.0", gen);
    assert_int_equal(request->statuses[0].status, SNOW_GONE);
    request = put_renew_gen(world, small.session, "g.0", gen, 1000);
    assert_int_equal(request->statuses[0].status, SNOW_GONE);
    /* One that is being written is waited for by others of its key. */
    request = put_send(world, small.session, version_message(&small, "g.1", 3, 1), 10000);
    uint64_t last = request->grants[0].gen;
    struct wire_put_start_req *waits = version_message(&small, "g.1", 3, 1);

    assert_int_equal(put_send(world, small.session, waits, 0)->grants[0].status, SNOW_IN_PROGRESS);
    waits = version_message(&small, "g.1", 3, 1);
    waits->wait_ms = 5000;
    waits->wait_writer = 1;
    struct world_request *waiting = world_ask(world, small.session, WIRE_put_start, waits, 1, 8000);

    assert_false(waiting->done);
    grant_write(world, world_key("g.1"), PIECE, &request->grants[0], WIRE_SLOT_REPLACED);
    put_end_gen(world, small.session, "g.1", last, 1);
    assert_int_equal(waiting->grants[0].status, SNOW_EXISTS);
    assert_int_equal(gen_of(&small, "g.0"), gen);
    assert_int_equal(world_metric(world, "groups_replaced"), 1);
    world_deinit(world);
}

static void test_old_one_is_evicted(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    version_put(&small, 0);
    fill(&small, "f", 64, 70);
    const struct wire_group_info *info = group_stat(&small, "g");

    assert_int_equal(world_metric(world, "evicted_groups"), 1);
    assert_int_equal(info->state, WIRE_GROUP_FORMING);
    assert_int_equal(info->present, 1);
    assert_int_equal(lookup_status(world, small.session, "g.0"), SNOW_NOT_READY);
    version_put(&small, 1);
    version_put(&small, 2);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(lookup_status(world, small.session, "g.0"), SNOW_OK);
    world_deinit(world);
}

static void test_removal_takes_both(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    version_put(&small, 0);
    struct world_request *request =
        put_send(world, small.session, version_message(&small, "g.1", 3, 1), 10000);

    grant_write(world, world_key("g.1"), PIECE, &request->grants[0], WIRE_SLOT_REPLACED);
    assert_int_equal(group_remove_send(&small, "g")->statuses[0].status, SNOW_OK);
    assert_int_equal(
        put_end_gen(world, small.session, "g.1", request->grants[0].gen, 1)->statuses[0].status,
        SNOW_GONE);
    assert_int_equal(world_metric(world, "groups"), 0);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    world_deinit(world);
}

/* A node that returns has lost a member that was ended: it is to be put again. */
static void test_shadow_member_is_lost(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    uint64_t gen = gen_of(&small, "g.0");

    version_put(&small, 0);
    version_put(&small, 1);
    for (uint32_t slot = 0; slot < small.node->slot_count; slot++) {
        struct wire_inventory_row *row = &small.node->slots[0][slot].row;

        if (row->state == WIRE_SLOT_WRITTEN && row->gen > gen + 2 &&
            bytes_equal(row->key, world_key("g.0")))
            row->state = WIRE_SLOT_FREE;
    }
    node_break(world, small.node);
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    version_put(&small, 2);
    assert_int_equal(gen_of(&small, "g.0"), gen);
    version_put(&small, 0);
    assert_int_not_equal(gen_of(&small, "g.0"), gen);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

/* ---- after a restart of the master ---- */

static void restart(struct small_world *small)
{
    struct world *world = &small->world;

    world_restart(world);
    small->session = session_open(world, 0);
    node_mount(world, small->node);
    node_tell_all(world, small->node);
    world_run(world, 10 * NS_PER_MS);
}

static void test_restart_before(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    uint64_t ggen = group_stat(&small, "g")->ggen;
    uint64_t gen = gen_of(&small, "g.0");

    version_put(&small, 0);
    version_put(&small, 2);
    restart(&small);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(&small, "g")->ggen, ggen);
    assert_int_equal(gen_of(&small, "g.0"), gen);
    assert_int_equal(world_metric(world, "groups"), 1);
    assert_int_equal(world_metric(world, "used_bytes") / PIECE, 3);
    world_deinit(world);
}

/* The nodes have not forgotten the old one yet. */
static void test_restart_after(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    open_with_first(&small);
    version_put(&small, 0);
    version_put(&small, 1);
    small.node->holds_closed = true;
    struct world_request *request =
        put_send(world, small.session, version_message(&small, "g.2", 3, 2), 10000);
    uint64_t gen = request->grants[0].gen;

    grant_write(world, world_key("g.2"), PIECE, &request->grants[0], WIRE_SLOT_REPLACED);
    request = put_end_gen(world, small.session, "g.2", gen, 1);
    assert_false(request->done); /* its old value could still come back */
    uint64_t ggen = group_stat(&small, "g")->ggen;

    request->cancelled = true;
    small.node->holds_closed = false;
    restart(&small);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(group_stat(&small, "g")->ggen, ggen);
    assert_int_equal(gen_of(&small, "g.2"), gen);
    assert_int_equal(world_metric(world, "groups"), 1);
    assert_int_equal(world_metric(world, "used_bytes") / PIECE, 3);
    world_deinit(world);
}

/* ---- members that are not seen ---- */

static void test_hidden_members_and_puts(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put_flags(&small, "g", 2, "g.0", 0, WIRE_GROUP_ATOMIC);
    /* Of its own group it is there; for others it is on its way. */
    assert_int_equal(member_status(&small, "g", 2, "g.0", 0, WIRE_GROUP_ATOMIC), SNOW_EXISTS);
    struct wire_put_start_req *plain = put_message(world, world->token + 1, "g.0", PIECE);

    assert_int_equal(put_send(world, small.session, plain, 0)->grants[0].status, SNOW_IN_PROGRESS);
    member_put_flags(&small, "g", 2, "g.1", 1, WIRE_GROUP_ATOMIC);
    plain = put_message(world, world->token + 1, "g.0", PIECE);
    assert_int_equal(put_send(world, small.session, plain, 0)->grants[0].status, SNOW_EXISTS);
    /* DEGRADED: any put of a member heals it. */
    restart(&small);
    member_put_flags(&small, "h", 2, "h.0", 0, WIRE_GROUP_ATOMIC);
    restart(&small);
    assert_int_equal(group_stat(&small, "h")->state, WIRE_GROUP_DEGRADED);
    plain = put_message(world, world->token + 1, "h.0", PIECE);
    struct world_request *request = put_send(world, small.session, plain, 1000);

    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key("h.0"), PIECE, &request->grants[0], WIRE_SLOT_REPLACED);
    put_end_gen(world, small.session, "h.0", request->grants[0].gen, 1);
    assert_int_equal(group_stat(&small, "h")->present, 1);
    member_put_flags(&small, "h", 2, "h.1", 1, WIRE_GROUP_ATOMIC);
    assert_int_equal(group_stat(&small, "h")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(lookup_status(world, small.session, "h.0"), SNOW_OK);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_over),
        cmocka_unit_test(test_shadow_has_another_size),
        cmocka_unit_test(test_shadow_is_given_up),
        cmocka_unit_test(test_ended_members_stay),
        cmocka_unit_test(test_old_one_is_evicted),
        cmocka_unit_test(test_removal_takes_both),
        cmocka_unit_test(test_shadow_member_is_lost),
        cmocka_unit_test(test_restart_before),
        cmocka_unit_test(test_restart_after),
        cmocka_unit_test(test_hidden_members_and_puts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
