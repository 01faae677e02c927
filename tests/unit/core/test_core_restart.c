/* A master that starts again: it knows nothing, and learns from the nodes. */
#include "restart.h"

static uint64_t put_spread(struct world *world, uint64_t session, const char *key, uint64_t size,
                           uint8_t replicas, bool replace)
{
    struct wire_put_start_req *message = put_message(world, world->token + 1, key, size);

    message->items[0].replicas = replicas;
    message->items[0].flags = replace ? WIRE_PUT_REPLACE : 0;
    struct world_request *request = put_send(world, session, message, 1000);

    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), size, &request->grants[0], replace ? WIRE_SLOT_REPLACED : 0);
    uint64_t gen = request->grants[0].gen;
    struct world_request *end =
        put_end_gen(world, session, key, gen, (uint16_t)((1u << replicas) - 1));

    assert_int_equal(end->statuses[0].status, SNOW_OK);
    assert_int_equal(end->statuses[0].shortfall, 0);
    return gen;
}

static void test_learns_again(void **state)
{
    static char long_key[LIMIT_KEY_SIZE + 1];
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * MIB);
    memset(long_key, 'L', LIMIT_KEY_SIZE);
    uint64_t gen = put(world, small.session, "a", 5000);

    put(world, small.session, "zero", 0);
    put(world, small.session, long_key, 4096);
    uint64_t used = world_metric(world, "used_bytes");

    world_restart(world);
    assert_false(core_is_ready(world->core));
    small.session = session_open(world, 0);
    /* Not known yet. */
    const struct wire_found *found = lookup(world, small.session, "a");

    assert_int_equal(found->status, SNOW_UNKNOWN);
    assert_true(found->hint_ms > 0);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_UNKNOWN);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status,
                     SNOW_UNKNOWN);
    /* A put waits: nothing is given out before the inventory is in. */
    struct world_request *request =
        put_send(world, small.session, put_message(world, 5, "b", 100), 5000);

    assert_false(request->done);
    node_mount(world, small.node);
    assert_int_equal(node_tell(world, small.node, 0, 0, 512, false), SNOW_OK);
    assert_int_equal(node_tell(world, small.node, 0, 0, 512, false), SNOW_OK); /* repeated */
    assert_int_equal(lookup(world, small.session, "a")->gen, gen);
    assert_false(request->done);
    assert_int_equal(node_tell(world, small.node, 0, 512, 1024, true), SNOW_OK);
    assert_true(core_is_ready(world->core));
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_true(request->grants[0].gen > gen);
    assert_int_equal(world_metric(world, "objects"), 3);
    assert_int_equal(world_metric(world, "used_bytes"), used + 256);
    assert_int_equal(lookup_status(world, small.session, long_key), SNOW_OK);
    assert_int_equal(remove_key(world, small.session, "zero"), SNOW_OK);
    assert_int_equal(remove_key(world, small.session, "zero"), SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_several_parts_and_copies(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);
    uint64_t twice = put_spread(&world, session, "twice", 1000, 2, false);
    uint64_t large = put_spread(&world, session, "large", 3 * MIB / 2, 1, false);

    world_restart(&world);
    session = session_open(&world, 0);
    for (uint32_t i = 0; i < 2; i++) {
        node_mount(&world, &world.nodes[i]);
        node_tell_all(&world, &world.nodes[i]);
        /* Served per node as inventories arrive: a copy is enough, a part is not. */
        assert_int_equal(lookup(&world, session, "twice")->gen, twice);
        assert_int_equal(lookup(&world, session, "twice")->places_count, i + 1);
        assert_int_equal(lookup_status(&world, session, "large"), i == 0 ? SNOW_UNKNOWN : SNOW_OK);
    }
    assert_int_equal(lookup(&world, session, "large")->gen, large);
    assert_int_equal(lookup(&world, session, "large")->places_count, 2);
    assert_int_equal(remove_key(&world, session, "large"), SNOW_OK);
    assert_int_equal(remove_key(&world, session, "twice"), SNOW_OK);
    assert_int_equal(world_metric(&world, "free_bytes"), 2 * MIB);
    world_deinit(&world);
}

static void test_incomplete_goes_when_all_are_in(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.options.dead_after_ns = 10 * NS_PER_S;
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    put_spread(&world, session, "large", 3 * MIB / 2, 1, false);
    world_restart(&world);
    session = session_open(&world, 0);
    node_mount(&world, &world.nodes[0]);
    node_tell_all(&world, &world.nodes[0]);
    world_live(&world, 9 * NS_PER_S);
    assert_int_equal(lookup_status(&world, session, "large"), SNOW_UNKNOWN);
    assert_false(core_is_ready(world.core));
    world_live(&world, 2 * NS_PER_S); /* the other one is DEAD */
    assert_true(core_is_ready(world.core));
    assert_int_equal(core_expected_count(world.core), 1);
    assert_int_equal(lookup_status(&world, session, "large"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(&world, "free_bytes"), MIB);
    /* It comes after all: its part is of no use. */
    node_mount(&world, &world.nodes[1]);
    node_tell_all(&world, &world.nodes[1]);
    world_run(&world, NS_PER_S);
    assert_int_equal(world_metric(&world, "free_bytes"), 2 * MIB);
    assert_int_equal(lookup_status(&world, session, "large"), SNOW_NOT_FOUND);
    world_deinit(&world);
}

static void test_slow_inventory_is_waited_for(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    world_restart(world);
    world_live(world, 55 * NS_PER_S);
    node_mount(world, small.node);
    world_live(world, 20 * NS_PER_S); /* it lives, but has not told all when the wait is over */
    assert_false(core_is_ready(world->core));
    assert_int_equal(core_expected_count(world->core), 1);
    node_tell_all(world, small.node);
    assert_true(core_is_ready(world->core));
    small.session = session_open(world, 0);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    world_deinit(world);
}

static void test_younger_version_wins(void **state)
{
    for (uint32_t order = 0; order < 2; order++) {
        struct world world;

        (void)state;
        world_init(&world);
        world_open(&world);
        for (uint32_t i = 0; i < 2; i++)
            node_start(&world, MIB, 256);
        uint64_t session = session_open(&world, 0);

        /* The old value's node is away when it is replaced. */
        uint64_t old = put(&world, session, "a", 100);
        uint32_t holder =
            lookup(&world, session, "a")->places[0].node == world.nodes[0].number ? 0 : 1;

        node_break(&world, &world.nodes[holder]);
        struct world_request *request = put_start(&world, session, 9, "a", 200);
        uint64_t gen = request->grants[0].gen;

        /* It takes the place of a value that was only hidden: the slot says so. */
        grant_write(&world, world_key("a"), 200, &request->grants[0], WIRE_SLOT_REPLACED);
        struct world_request *end = put_end_gen(&world, session, "a", gen, 1);

        assert_int_equal(end->statuses[0].status, SNOW_UNCERTAIN);
        assert_int_equal(end->statuses[0].node, world.nodes[holder].number);
        world_restart(&world);
        session = session_open(&world, 0);
        struct world_node *first = &world.nodes[order == 0 ? holder : 1 - holder];
        struct world_node *second = &world.nodes[order == 0 ? 1 - holder : holder];

        node_mount(&world, first);
        node_tell_all(&world, first);
        if (order == 0) { /* one completed put, the older one */
            assert_int_equal(lookup(&world, session, "a")->gen, old);
        } else { /* a value that replaced another is served when all is known, or when it will do */
            struct wire_key key = {.key = world_key("a")};
            struct wire_lookup_req stale = {.flags = WIRE_LOOKUP_STALE_OK,
                                            .keys = &key,
                                            .keys_count = 1};
            struct wire_lookup_rep *reply =
                world_ask(&world, session, WIRE_lookup, &stale, 1, 1000)->message;

            assert_int_equal(lookup_status(&world, session, "a"), SNOW_UNKNOWN);
            assert_int_equal(reply->items[0].gen, gen);
        }
        node_mount(&world, second);
        node_tell_all(&world, second);
        assert_int_equal(lookup(&world, session, "a")->gen, gen);
        assert_int_equal(lookup(&world, session, "a")->flags, WIRE_FOUND_REPLACED);
        assert_int_equal(world_metric(&world, "objects"), 1);
        assert_int_equal(world_metric(&world, "used_bytes"), 256);
        world_deinit(&world);
    }
}

static void test_removal_while_a_node_is_missing(void **state)
{
    struct world world;
    struct wire_remove_match_req all = {.kind = WIRE_MATCH_ALL};

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    put_spread(&world, session, "a", 100, 2, false);
    put_spread(&world, session, "b", 100, 2, false);
    world_restart(&world);
    session = session_open(&world, 0);
    node_mount(&world, &world.nodes[0]);
    node_tell_all(&world, &world.nodes[0]);
    /* Another node may hold it as well: that is said. */
    assert_int_equal(remove_key(&world, session, "a"), SNOW_UNCERTAIN);
    struct world_request *request = world_ask(&world, session, WIRE_remove_match, &all, 1, 1000);

    world_run(&world, NS_PER_MS);
    assert_int_equal(((struct wire_remove_match_rep *)request->message)->status, SNOW_UNCERTAIN);
    assert_int_equal(((struct wire_remove_match_rep *)request->message)->removed, 1);
    /* Also when the node comes before the answer: it was missing when the removal began. */
    world.nodes[0].holds_closed = true;
    put_start(&world, session, 5, "c", 100);
    put_end_gen(&world, session, "c", WIRE_GEN(core_term(world.core), 1), 1);
    request = world_ask(&world, session, WIRE_remove_match, &all, 1, 1000);
    node_mount(&world, &world.nodes[1]);
    node_tell_all(&world, &world.nodes[1]);
    assert_false(request->done);
    world.nodes[0].holds_closed = false;
    world_settle(&world);
    assert_true(request->done && core_is_ready(world.core));
    assert_int_equal(((struct wire_remove_match_rep *)request->message)->status, SNOW_UNCERTAIN);
    world_deinit(&world);
}

/* A copy that turns up after its object was removed: a repeated remove waits for it. */
static void test_removal_before_a_copy_is_told(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    put_spread(&world, session, "a", 100, 2, false);
    world_restart(&world);
    session = session_open(&world, 0);
    world.nodes[0].holds_freed = true;
    node_mount(&world, &world.nodes[0]);
    node_tell_all(&world, &world.nodes[0]);
    assert_int_equal(remove_key(&world, session, "a"), SNOW_UNCERTAIN);
    world.nodes[1].holds_closed = true;
    node_mount(&world, &world.nodes[1]);
    node_tell_all(&world, &world.nodes[1]);
    world.nodes[0].holds_freed = false;
    world_settle(&world);
    struct world_request *again = remove_send(&world, session, "a", 0);

    assert_false(again->done);
    world.nodes[1].holds_closed = false;
    world_settle(&world);
    assert_true(again->done);
    assert_int_equal(again->statuses[0].status, SNOW_OK);
    assert_int_equal(remove_key(&world, session, "a"), SNOW_NOT_FOUND);
    world_deinit(&world);
}

static void test_pins_are_learned(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    for (uint32_t i = 0; i < 2; i++) {
        const char *key = i == 0 ? "soft" : "hard";
        struct wire_put_start_req *message = put_message(world, i + 1, key, 10000);

        message->items[0].pin = i == 0 ? WIRE_PIN_SOFT : WIRE_PIN_HARD;
        struct world_request *request = put_send(world, small.session, message, 0);

        grant_write(world, world_key(key), 10000, &request->grants[0],
                    i == 0 ? WIRE_SLOT_SOFT_PIN : WIRE_SLOT_HARD_PIN);
        put_end_gen(world, small.session, key, request->grants[0].gen, 1);
    }
    world_restart(world);
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    small.session = session_open(world, 0);
    assert_int_equal(lookup(world, small.session, "soft")->flags, WIRE_FOUND_SOFT_PIN);
    assert_int_equal(lookup(world, small.session, "hard")->flags, WIRE_FOUND_HARD_PIN);
    assert_int_equal(remove_key(world, small.session, "hard"), SNOW_OK);
    assert_int_equal(world_metric(world, "hard_pinned_bytes"), 0);
    world_deinit(world);
}

static void set_row(struct world_node *node, uint32_t slot, const char *key, uint64_t gen,
                    uint64_t offset, uint64_t length)
{
    struct hash128 hash = hash_key(0, world_key(key));

    node->slots[0][slot].row = (struct wire_inventory_row){.slot = slot,
                                                           .gen = gen,
                                                           .state = WIRE_SLOT_WRITTEN,
                                                           .parts = 1,
                                                           .offset = offset,
                                                           .length = length,
                                                           .object_size = length,
                                                           .key_hash_low = hash.low,
                                                           .key_hash_high = hash.high,
                                                           .key = world_key(key)};
}

/* Rows that can not be, and rows that should not be. */
static void test_odd_rows(void **state)
{
    struct world world;
    uint64_t gen = WIRE_GEN(1, 1);
    char long_key[WIRE_KEY_INLINE + 5] = {0};

    (void)state;
    memset(long_key, 'k', sizeof(long_key) - 1);
    world_init(&world);
    world.start.term = 5;
    world_open(&world);
    struct world_node *node = node_add(&world, MIB, 256);
    struct world_slot *slots = node->slots[0];

    set_row(node, 0, "good", gen, 0, 1000);
    set_row(node, 1, "overlap", gen + 1, 512, 1000);         /* in the bytes of good */
    set_row(node, 2, "outside", gen + 2, MIB - 256, 1000);   /* beyond the end */
    set_row(node, 3, "crooked", gen + 3, 8192 + 256, 4096);  /* not aligned */
    set_row(node, 4, "future", WIRE_GEN(5, 1), 16384, 1000); /* of a generation yet to come */
    set_row(node, 5, "hash", gen + 5, 20480, 1000);
    slots[5].row.key_hash_high++;
    set_row(node, 6, "half", gen + 6, 24576, 1000);
    slots[6].row.parts = 2;
    slots[6].row.object_size = 2000;
    set_row(node, 7, "gap", gen + 7, 28672, 1000); /* its parts do not meet */
    slots[7].row.parts = 2;
    slots[7].row.object_size = 2100;
    set_row(node, 8, "gap", gen + 7, 32768, 1000);
    slots[8].row.part = 1;
    slots[8].row.parts = 2;
    slots[8].row.object_size = 2100;
    slots[8].row.object_offset = 1100;
    slots[8].row.key = bytes_of(NULL, 0);
    set_row(node, 9, "writing", gen + 9, 36864, 1000);
    slots[9].row.state = WIRE_SLOT_WRITING;
    set_row(node, 10, "again", gen + 10, 40960, 1000);
    set_row(node, 11, "again", gen + 10, 45056, 1000); /* the same part once more */
    set_row(node, 12, "tenant", gen + 12, 49152, 1000);
    slots[12].row.tenant = 7;
    set_row(node, 13, long_key, gen + 13, 53248, 1000); /* with its key it would wrap around */
    slots[13].row.length = UINT64_MAX - 50;
    node->holds_freed = true;
    node_mount(&world, node);
    node_tell_all(&world, node);
    uint64_t session = session_open(&world, 0);

    assert_int_equal(world_metric(&world, "objects"), 2);
    assert_int_equal(lookup_status(&world, session, "good"), SNOW_OK);
    assert_int_equal(lookup_status(&world, session, "again"), SNOW_OK);
    world_run(&world, 100 * NS_PER_MS);
    assert_true(world_metric(&world, "used_bytes") > 2 * 1024); /* held until FREED */
    assert_true(world_metric(&world, "closing_bytes") < MIB);
    node->holds_freed = false;
    world_settle(&world);
    assert_int_equal(world_metric(&world, "used_bytes"), 2 * 1024);
    for (uint32_t slot = 1; slot < 14; slot++)
        assert_int_equal(slots[slot].row.state, slot == 10 ? WIRE_SLOT_WRITTEN : WIRE_SLOT_FREE);
    world_deinit(&world);
}

/* Slots that were not told may hold something: their inventory is not complete. */
static void test_gap_in_an_inventory(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    struct world_node *node = node_add(&world, MIB, 256);

    node_mount(&world, node);
    assert_int_equal(node_tell(&world, node, 0, 0, 100, true), SNOW_INVALID);
    assert_int_equal(node_tell(&world, node, 0, 100, 256, true), SNOW_INVALID);
    assert_int_equal(node_tell(&world, node, 0, 0, 100, false), SNOW_OK);
    assert_int_equal(node_tell(&world, node, 0, 0, 100, false), SNOW_OK);
    assert_int_equal(node_tell(&world, node, 0, 101, 256, true), SNOW_INVALID);
    assert_int_equal(world_metric(&world, "nodes_alive"), 0);
    assert_int_equal(node_tell(&world, node, 0, 100, 256, true), SNOW_OK);
    assert_int_equal(world_metric(&world, "nodes_alive"), 1);
    world_deinit(&world);
}

static void test_remount_in_the_middle(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    put(world, small.session, "b", 100);
    put(world, small.session, "c", 100);
    uint32_t b = lookup(world, small.session, "b")->places[0].slot;

    world_restart(world);
    small.session = session_open(world, 0);
    node_mount(world, small.node);
    assert_int_equal(node_tell(world, small.node, 0, 0, 128, false), SNOW_OK);
    node_break(world, small.node);
    small.node->slots[0][b].row.state = WIRE_SLOT_FREE;
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "b"), SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "c"), SNOW_OK);
    assert_int_equal(world_metric(world, "used_bytes"), 512);
    world_deinit(world);
}

static void test_terms(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint32_t persists = world->persists;
    uint64_t gen = put(world, small.session, "a", 100);

    core_term_raise(world->core, 0, &world->outputs); /* lower: nothing */
    assert_int_equal(core_term(world->core), 1);
    core_term_raise(world->core, 1, &world->outputs); /* another master had the same */
    assert_int_equal(core_term(world->core), 2);
    core_term_raise(world->core, 7, &world->outputs);
    world_tick(world);
    assert_int_equal(core_term(world->core), 8);
    assert_int_equal(world->persists, persists + 2);
    assert_int_equal(WIRE_GEN_TERM(gen), 1);
    assert_int_equal(WIRE_GEN_TERM(put(world, small.session, "b", 100)), 8);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_again),
        cmocka_unit_test(test_several_parts_and_copies),
        cmocka_unit_test(test_incomplete_goes_when_all_are_in),
        cmocka_unit_test(test_slow_inventory_is_waited_for),
        cmocka_unit_test(test_younger_version_wins),
        cmocka_unit_test(test_removal_while_a_node_is_missing),
        cmocka_unit_test(test_removal_before_a_copy_is_told),
        cmocka_unit_test(test_pins_are_learned),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_gap_in_an_inventory),
        cmocka_unit_test(test_remount_in_the_middle),
        cmocka_unit_test(test_terms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
