/* Groups that are being formed: who forms them, when they are given up; pins of their members. */
#include "groups.h"

static void member_put_by(struct small_world *small, uint64_t session, const char *id,
                          uint32_t size, const char *key, uint32_t index)
{
    message_put_by(small, session, member_message(small, id, size, key, index, 0));
}

static void test_abandoned(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    uint64_t writer = session_open(world, 0);
    uint64_t other = session_open(world, 0);

    member_put_by(&small, writer, "alone", 3, "alone.0", 0);
    member_put_by(&small, writer, "helped", 3, "helped.0", 0);
    member_put_by(&small, other, "helped", 3, "helped.1", 1);
    session_break(world, writer);
    world_live(world, world->options.group_abandoned_ns - NS_PER_S);
    assert_int_equal(group_stat(&small, "alone")->state, WIRE_GROUP_FORMING);
    world_live(world, 2 * NS_PER_S);
    assert_int_equal(group_stat(&small, "alone")->status, SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "alone.0"), SNOW_NOT_FOUND);
    assert_int_equal(group_stat(&small, "helped")->state, WIRE_GROUP_FORMING);
    assert_int_equal(world_metric(world, "groups_abandoned"), 1);
    assert_int_equal(world_metric(world, "groups_forming"), 1);
    /* The last writer of the other one goes: the time counts from then on. */
    session_break(world, other);
    world_live(world, world->options.group_abandoned_ns + NS_PER_S);
    assert_int_equal(group_stat(&small, "helped")->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups_forming"), 0);
    assert_int_equal(world_metric(world, "forming_bytes"), 0);
    world_deinit(world);
}

static void test_writer_returns(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    uint64_t writer = session_open(world, 0);

    member_put_by(&small, writer, "g", 3, "g.0", 0);
    session_break(world, writer);
    world_live(world, world->options.group_abandoned_ns / 2);
    assert_int_equal(session_open(world, writer), writer);
    world_live(world, 2 * world->options.group_abandoned_ns);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_FORMING);
    /* Gone again; another one takes over. */
    session_break(world, writer);
    world_live(world, world->options.group_abandoned_ns / 2);
    member_put(&small, "g", 3, "g.1", 1);
    world_live(world, 2 * world->options.group_abandoned_ns);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_FORMING);
    /* Writers that are there but put nothing have form_ttl. */
    world_live(world, world->options.group_form_ns);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups_abandoned"), 0);
    assert_int_equal(world_metric(world, "groups_expired"), 1);
    world_deinit(world);
}

static void test_many_writers(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    uint64_t sessions[64];
    char key[16];

    (void)state;
    small_open(&small, 4 * MIB);
    for (uint32_t i = 0; i < 64; i++) {
        sessions[i] = session_open(world, 0);
        if (i == 63)
            break; /* the last one is late */
        snprintf(key, sizeof(key), "g.%u", i);
        struct wire_put_start_req *put = member_message(&small, "g", 64, key, i, 0);

        put->items[0].size = 256;
        put->items[0].key = world_keep(world, world_key(key));
        message_put_by(&small, sessions[i], put);
    }
    for (uint32_t i = 0; i < 62; i++)
        session_break(world, sessions[i]);
    world_live(world, 2 * world->options.group_abandoned_ns);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_FORMING);
    struct wire_put_start_req *put = member_message(&small, "g", 64, "g.63", 63, 0);

    put->items[0].size = 256;
    message_put(&small, put);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    world_deinit(world);
}

/* ---- room ---- */

static void test_later_member_is_larger(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 3, "g.0", 0);
    struct wire_put_start_req *put = member_message(&small, "g", 3, "g.1", 1, 0);

    /* With the third one, of its size: more than there is. */
    put->items[0].size = 2 * MIB;
    struct world_request *request = put_send(world, small.session, put, 1000);

    assert_int_equal(request->grants[0].status, SNOW_LIMIT);
    assert_true(request->grants[0].reason.size > 0);
    put = member_message(&small, "g", 3, "g.1", 1, 0);
    put->items[0].size = MIB;
    message_put(&small, put);
    assert_int_equal(world_metric(world, "forming_bytes") / MIB, 3);
    world_deinit(world);
}

static struct world_request *large_send(struct small_world *small, const char *id, uint32_t index,
                                        uint64_t size)
{
    char *key = world_take(&small->world, 1, 16);

    snprintf(key, 16, "%s.%u", id, index);
    struct wire_put_start_req *put = member_message(small, id, 2, key, index, 0);

    put->items[0].size = size;
    put->wait_ms = 20000;
    return world_ask(&small->world, small->session, WIRE_put_start, put, 1, 30000);
}

/* Two groups fill the pool half each and wait for the other half: in the order in which they were
 * admitted, whoever asked first; the younger one gives way, and is told so. */
static void test_youngest_gives_way(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_key pinned[15];
    struct wire_pin_req pin = {.pin = WIRE_PIN_HARD, .keys = pinned, .keys_count = 15};

    (void)state;
    world_init(world);
    world->options.group_forming_percent = 90;
    world_open(world);
    small.node = node_start(world, 4 * MIB, 1024);
    small.session = session_open(world, 0);
    for (uint32_t i = 0; i < 15; i++) {
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "pin%u", i);
        put(world, small.session, key, PIECE);
        pinned[i].key = world_key(key);
    }
    world_ask(world, small.session, WIRE_pin, &pin, 15, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        const char *id = i == 0 ? "a" : "b";
        const char *key = i == 0 ? "a.0" : "b.0";
        struct wire_put_start_req *put = member_message(&small, id, 2, key, 0, 0);

        put->items[0].size = 900 * KIB;
        message_put(&small, put);
    }
    uint64_t mine = small.session;

    small.session = session_open(world, 0);
    struct world_request *younger = large_send(&small, "b", 1, 1400 * KIB);

    small.session = mine;
    struct world_request *older = large_send(&small, "a", 1, 1400 * KIB);

    world_live(world, 100 * NS_PER_MS);
    assert_false(younger->done || older->done);
    world_live(world, 2 * NS_PER_S);
    assert_true(younger->done && older->done);
    assert_int_equal(older->grants[0].status, SNOW_OK);
    assert_int_equal(younger->grants[0].status, SNOW_BUSY);
    assert_true(younger->grants[0].hint_ms > 0);
    assert_int_equal(world_metric(world, "groups_yielded"), 1);
    assert_int_equal(group_stat(&small, "b")->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

/* ---- reports ---- */

static void report_broken(struct small_world *small, uint64_t session, uint32_t index)
{
    struct wire_group_broken_msg message = {.ggen = group_stat(small, "g")->ggen,
                                            .index = index,
                                            .id = world_key("g")};

    world_step(&small->world, &(struct core_input){.kind = CORE_MESSAGE,
                                                   .from = session,
                                                   .type = WIRE_group_broken,
                                                   .message = &message});
}

static void test_two_sessions_are_believed(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    uint64_t other = session_open(world, 0);

    report_broken(&small, small.session, 0);
    report_broken(&small, small.session, 1);
    report_broken(&small, small.session, 0); /* the same one again */
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    report_broken(&small, other, 0);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(group_stat(&small, "g")->missing[0].index, 0);
    report_broken(&small, other, 1);
    assert_int_equal(group_stat(&small, "g")->present, 1);
    assert_int_equal(group_get(&small, "g", 0, 0)->status, SNOW_GROUP_BROKEN);
    assert_int_equal(group_get(&small, "g", 0, 0)->broken, 0);
    assert_int_equal(world_metric(world, "groups_broken"), 2);
    report_broken(&small, other, 7); /* there is none such */
    world_deinit(world);
}

/* The node answers what it was asked as number `at`. */
static void node_verifies(struct world *world, uint32_t at, enum snow_status status)
{
    const struct wire_verify_req *asked = &world->verifies[at];
    struct wire_verify_rep reply = {.segment = asked->segment,
                                    .slot = asked->slot,
                                    .gen = asked->gen,
                                    .status = (int32_t)status};

    world_step(world, &(struct core_input){.kind = CORE_MESSAGE,
                                           .from = world->verify_nodes[at],
                                           .type = WIRE_verify,
                                           .message = &reply});
}

static void test_a_node_is_believed(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    group_put(&small, "g", 3);
    report_broken(&small, small.session, 0);
    report_broken(&small, small.session, 1);
    report_broken(&small, small.session, 2);
    assert_int_equal(world->verify_count, 3);
    node_verifies(world, 0, SNOW_OK); /* the reader was wrong */
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    node_verifies(world, 0, SNOW_UNKNOWN);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    node_verifies(world, 1, SNOW_CORRUPT);
    const struct wire_group_info *info = group_stat(&small, "g");

    assert_int_equal(info->state, WIRE_GROUP_DEGRADED);
    assert_int_equal(info->missing_count, 1);
    assert_int_equal(info->missing[0].index, 1);
    assert_int_equal(lookup_status(world, small.session, "g.1"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "groups_broken"), 1);
    node_verifies(world, 1, SNOW_CORRUPT); /* an old answer, perhaps about what is there now */
    node_verifies(world, 2, SNOW_STALE);
    assert_int_equal(group_stat(&small, "g")->present, 1);
    /* One that was put again is not what was asked about. */
    member_put(&small, "g", 3, "g.1", 1);
    node_verifies(world, 1, SNOW_CORRUPT);
    assert_int_equal(group_stat(&small, "g")->present, 2);
    world->verifies[2].segment = 9;
    node_verifies(world, 2, SNOW_CORRUPT);
    world->verifies[2].segment = 0;
    world->verifies[2].slot = UINT32_MAX;
    node_verifies(world, 2, SNOW_CORRUPT);
    assert_int_equal(group_stat(&small, "g")->present, 2);
    world_deinit(world);
}

/* Of two copies the one that is broken goes; the member is there. */
static void test_one_copy_is_given_up(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    node_start(world, 4 * MIB, 1024);
    struct wire_put_start_req *put = member_message(&small, "g", 1, "g0", 0, 0);

    put->items[0].replicas = 2;
    struct world_request *request = put_send(world, small.session, put, 1000);

    grant_write(world, world_key("g0"), PIECE, &request->grants[0], 0);
    assert_int_equal(
        put_end_gen(world, small.session, "g0", request->grants[0].gen, 3)->statuses[0].status,
        SNOW_OK);
    report_broken(&small, small.session, 0);
    assert_int_equal(world->verify_count, 2);
    assert_int_not_equal(world->verify_nodes[0], world->verify_nodes[1]);
    node_verifies(world, 1, SNOW_CORRUPT);
    assert_int_equal(world_metric(world, "copies_broken"), 1);
    assert_int_equal(world_metric(world, "groups_broken"), 0);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    assert_int_equal(lookup(world, small.session, "g0")->places_count, 1);
    assert_int_equal(lookup(world, small.session, "g0")->places[0].node, world->verify_nodes[0]);
    node_verifies(world, 0, SNOW_CORRUPT);
    assert_int_equal(group_stat(&small, "g")->status, SNOW_NOT_FOUND); /* its only member */
    assert_int_equal(world_metric(world, "groups_broken"), 1);
    world_deinit(world);
}

/* ---- pins ---- */

static enum snow_status pin_status(struct small_world *small, const char *key, uint8_t pin)
{
    struct wire_key item = {.key = world_key(key)};
    struct wire_pin_req message = {.pin = pin, .keys = &item, .keys_count = 1};

    return (enum snow_status)world_ask(&small->world, small->session, WIRE_pin, &message, 1, 1000)
        ->statuses[0]
        .status;
}

static uint64_t pinned_pieces(struct small_world *small)
{
    return world_metric(&small->world, "hard_pinned_bytes") / PIECE;
}

static void test_pin_charges_the_whole(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB); /* 25 % may be pinned: 16 pieces */
    group_put(&small, "large", 17);
    group_put(&small, "g", 4);
    assert_int_equal(pin_status(&small, "large.3", WIRE_PIN_HARD), SNOW_LIMIT);
    assert_int_equal(pin_status(&small, "g.1", WIRE_PIN_HARD), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 4);
    assert_int_equal(pin_status(&small, "g.2", WIRE_PIN_HARD), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 4);
    /* A member goes and comes again. */
    assert_int_equal(remove_key(world, small.session, "g.0"), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 3);
    member_put(&small, "g", 4, "g.0", 0);
    assert_int_equal(pinned_pieces(&small), 4);
    fill(&small, "f", 64, 100);
    assert_int_equal(group_stat(&small, "g")->state, WIRE_GROUP_COMPLETE);
    /* The last pin of them counts for all. */
    assert_int_equal(remove_key(world, small.session, "g.1"), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 3);
    assert_int_equal(pin_status(&small, "g.2", WIRE_PIN_NONE), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 0);
    assert_int_equal(pin_status(&small, "g.3", WIRE_PIN_HARD), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 3);
    group_remove_send(&small, "g");
    assert_int_equal(pinned_pieces(&small), 0);
    world_deinit(world);
}

/* What is still to come of a group counts when its first member is pinned. */
static void test_pin_of_a_forming_group(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    member_put(&small, "g", 3, "g.0", 0);
    assert_int_equal(pin_status(&small, "g.0", WIRE_PIN_HARD), SNOW_OK);
    assert_int_equal(pinned_pieces(&small), 1);
    member_put(&small, "g", 3, "g.1", 1);
    member_put(&small, "g", 3, "g.2", 2);
    assert_int_equal(pinned_pieces(&small), 3);
    member_put(&small, "large", 14, "large.0", 0);
    assert_int_equal(pin_status(&small, "large.0", WIRE_PIN_HARD), SNOW_LIMIT);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_writer_returns),
        cmocka_unit_test(test_many_writers),
        cmocka_unit_test(test_later_member_is_larger),
        cmocka_unit_test(test_youngest_gives_way),
        cmocka_unit_test(test_two_sessions_are_believed),
        cmocka_unit_test(test_a_node_is_believed),
        cmocka_unit_test(test_one_copy_is_given_up),
        cmocka_unit_test(test_pin_charges_the_whole),
        cmocka_unit_test(test_pin_of_a_forming_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
