/* Placement over several nodes: stripes of large objects, what belongs together, copies apart. */
#include "groups.h"

static void open_nodes(struct world *world, uint32_t count, uint64_t size)
{
    static const char *const hosts[] = {"one", "two", "three", "four"};

    world_init(world);
    world->options.hard_pin_percent = 100;
    world_open(world);
    for (uint32_t i = 0; i < count; i++) {
        struct world_node *node = node_add(world, size, 4096);

        node->host = hosts[i];
        node_mount(world, node);
        node_tell_all(world, node);
    }
}

static struct world_request *start(struct world *world, uint64_t session, const char *key,
                                   uint64_t size, uint8_t replicas)
{
    struct wire_put_start_req *put = put_message(world, world->token + 1, key, size);

    put->items[0].replicas = replicas;
    return put_send(world, session, put, 0);
}

/* Nodes that hold parts of this replica, as bits of their numbers. */
static uint64_t nodes_of(const struct wire_put_grant *grant, uint8_t replica)
{
    uint64_t nodes = 0;

    for (uint32_t i = 0; i < grant->places_count; i++) {
        if (grant->places[i].replica == replica)
            nodes |= UINT64_C(1) << grant->places[i].node;
    }
    return nodes;
}

static uint64_t bytes_on(const struct wire_put_grant *grant, uint64_t node)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < grant->places_count; i++)
        bytes += grant->places[i].node == node ? grant->places[i].length : 0;
    return bytes;
}

static void a_large_object_is_striped_over_nodes(void **state)
{
    struct world world;
    struct world_request *request;
    uint64_t session;

    (void)state;
    open_nodes(&world, 4, 1 * GIB);
    session = session_open(&world, 0);
    request = start(&world, session, "small", 64 * MIB, 1);
    assert_int_equal(request->grants[0].places_count, 1);
    request = start(&world, session, "three", 150 * MIB + 5, 1);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(__builtin_popcountll(nodes_of(&request->grants[0], 0)), 3);
    request = start(&world, session, "four", 300 * MIB, 1);
    assert_int_equal(__builtin_popcountll(nodes_of(&request->grants[0], 0)), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(bytes_on(&request->grants[0], world.nodes[i].number) >= 74 * MIB);
    /* Its parts tile it, as readers will see them. */
    grant_write(&world, world_key("four"), 300 * MIB, &request->grants[0], 0);
    put_end_gen(&world, session, "four", request->grants[0].gen, 1);
    const struct wire_found *found = lookup(&world, session, "four");
    uint64_t offset = 0;

    assert_int_equal(found->places_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(found->places[i].object_offset == offset);
        offset += found->places[i].length;
    }
    assert_true(offset == 300 * MIB);
    assert_int_equal(world_metric(&world, "puts_striped"), 2);
    world_deinit(&world);
}

static void copies_share_the_nodes_and_never_one(void **state)
{
    struct world world;
    struct world_request *request;
    uint64_t session;

    (void)state;
    open_nodes(&world, 4, 1 * GIB);
    session = session_open(&world, 0);
    request = start(&world, session, "two", 200 * MIB, 2);
    assert_int_equal(__builtin_popcountll(nodes_of(&request->grants[0], 0)), 2);
    assert_int_equal(__builtin_popcountll(nodes_of(&request->grants[0], 1)), 2);
    assert_int_equal(nodes_of(&request->grants[0], 0) & nodes_of(&request->grants[0], 1), 0);
    session = session_open(&world, 0);
    request = start(&world, session, "four", 200 * MIB, 4);
    for (uint8_t replica = 0; replica < 4; replica++)
        assert_int_equal(__builtin_popcountll(nodes_of(&request->grants[0], replica)), 1);
    world_deinit(&world);
}

static void without_room_for_equal_stripes_it_goes_where_there_is_some(void **state)
{
    struct world world;
    struct world_request *request;
    struct world_node *large;
    uint64_t session;

    (void)state;
    open_nodes(&world, 1, 90 * MIB);
    large = node_add(&world, 512 * MIB, 4096);
    node_mount(&world, large);
    node_tell_all(&world, large);
    session = session_open(&world, 0);
    request = start(&world, session, "uneven", 200 * MIB, 1);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(&world, "puts_striped"), 0);
    assert_true(bytes_on(&request->grants[0], large->number) >= 110 * MIB);
    assert_int_equal(world_metric(&world, "used_bytes"), 200 * MIB);
    world_deinit(&world);
}

/* Answers of very many places do not fit one message: the client asks for fewer keys. */
static void a_look_up_too_large_to_answer_is_told(void **state)
{
    struct world world;
    struct world_request *request;
    uint64_t session;
    char *key;

    (void)state;
    open_nodes(&world, 1, 64 * MIB);
    session = session_open(&world, 0);
    for (uint32_t i = 0; i < 120; i++) {
        key = world_take(&world, 1, 16);
        snprintf(key, 16, "k%u", i);
        put(&world, session, key, 512 * KIB);
    }
    for (uint32_t i = 1; i < 120; i += 2) {
        key = world_take(&world, 1, 16);
        snprintf(key, 16, "k%u", i);
        remove_key(&world, session, key);
    }
    request = start(&world, session, "new", 15 * MIB, 1);
    assert_true(request->grants[0].places_count > 16);
    grant_write(&world, world_key("new"), 15 * MIB, &request->grants[0], 0);
    put_end_gen(&world, session, "new", request->grants[0].gen, 1);
    for (uint32_t count = 1024; count > 4; count /= 4) {
        struct wire_lookup_req *lookup = world_take(&world, 1, sizeof(*lookup));

        lookup->flags = WIRE_LOOKUP_PLACES;
        lookup->keys = world_take(&world, count, sizeof(*lookup->keys));
        lookup->keys_count = count;
        for (uint32_t i = 0; i < count; i++)
            lookup->keys[i].key = world_key("new");
        request = world_ask(&world, session, WIRE_lookup, lookup, count, 1000);
        assert_true(request->done);
        assert_int_equal(request->status, count == 1024 ? SNOW_LIMIT : SNOW_OK);
    }
    world_deinit(&world);
}

static uint32_t nodes_of_batch(struct world *world, uint64_t session, uint32_t count)
{
    struct wire_put_start_req *put = world_take(world, 1, sizeof(*put));
    uint64_t nodes = 0;

    put->operation = world->token + 1;
    put->items = world_take(world, count, sizeof(*put->items));
    put->items_count = count;
    for (uint32_t i = 0; i < count; i++) {
        char *key = world_take(world, 1, 24);

        snprintf(key, 24, "b%u-%u", (uint32_t)world->token, i);
        put->items[i] = (struct wire_put_item){
            .key = world_key(key), .size = 1 * MIB, .depth = WIRE_DEPTH_UNKNOWN, .replicas = 1};
    }
    struct world_request *request = put_send(world, session, put, 0);

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(request->grants[i].status, SNOW_OK);
        nodes |= nodes_of(&request->grants[i], 0);
    }
    return (uint32_t)__builtin_popcountll(nodes);
}

/* A chain dies with one node, or loses something with each. */
static void a_request_stays_together_unless_it_is_to_spread(void **state)
{
    struct world world;
    uint64_t session;

    (void)state;
    open_nodes(&world, 4, 1 * GIB);
    session = session_open(&world, 0);
    assert_int_equal(nodes_of_batch(&world, session, 60), 1);
    assert_true(nodes_of_batch(&world, session, 100) <= 2); /* 64 MiB, then the next */
    world_deinit(&world);

    world_init(&world);
    world.options.placement = CORE_PLACEMENT_SPREAD;
    world_open(&world);
    for (uint32_t i = 0; i < 4; i++)
        node_start(&world, 1 * GIB, 4096);
    session = session_open(&world, 0);
    assert_int_equal(nodes_of_batch(&world, session, 60), 4);
    world_deinit(&world);
}

/* Room that was made for one that spreads is where it goes. */
static void a_full_pool_serves_who_spreads(void **state)
{
    struct world world;
    uint64_t session;

    (void)state;
    world_init(&world);
    world.options.placement = CORE_PLACEMENT_SPREAD;
    world_open(&world);
    for (uint32_t i = 0; i < 3; i++)
        node_start(&world, 4 * MIB, 1024);
    session = session_open(&world, 0);
    for (uint32_t i = 0; i < 60; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "k%u", i);
        put(&world, session, key, 500 * KIB);
    }
    assert_true(world_metric(&world, "evicted_objects") <= 60 - 3 * 7);
    world_deinit(&world);
}

static void copies_go_to_other_domains_or_at_least_hosts(void **state)
{
    static const struct {
        const char *host;
        const char *domain;
    } nodes[] = {{"one", "rack-a"}, {"two", "rack-a"}, {"two", "rack-b"}, {"three", "rack-a"}};
    struct world world;
    uint64_t session;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 4; i++) {
        struct world_node *node = node_add(&world, 1 * GIB, 4096);

        node->host = nodes[i].host;
        node->domain = nodes[i].domain;
        node_mount(&world, node);
        node_tell_all(&world, node);
    }
    session = session_open(&world, 0);
    for (uint32_t i = 0; i < 40; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "k%u", i);
        struct world_request *request = start(&world, session, key, 4096, 2);
        uint64_t used = nodes_of(&request->grants[0], 0) | nodes_of(&request->grants[0], 1);

        assert_int_equal(__builtin_popcountll(used), 2);
        /* Never two of host two; the only node of rack b is one of them, unless its host is. */
        assert_true((used & (1u << 2 | 1u << 3)) != (1u << 2 | 1u << 3));
        assert_true((used & 1u << 3) || (used & 1u << 2));
    }
    uint64_t near = world_metric(&world, "copies_near");

    /* Four copies: one has to share the host; and it is told. */
    struct world_request *request = start(&world, session, "four", 4096, 4);

    assert_int_equal(request->grants[0].places_count, 4);
    assert_true(world_metric(&world, "copies_near") > near);
    request = start(&world, session, "five", 4096, 5);
    assert_int_equal(request->grants[0].places_count, 4);
    grant_write(&world, world_key("five"), 4096, &request->grants[0], 0);
    request = put_end_gen(&world, session, "five", request->grants[0].gen, 15);
    assert_int_equal(request->statuses[0].shortfall, 1);
    world_deinit(&world);
}

/* What its writer wants on its own host goes there: to the node of its process, to another one of
 * the host when that is full of what can not be evicted, elsewhere at last. */
static void own_host_first(void **state)
{
    struct world world;

    (void)state;
    open_nodes(&world, 4, MIB);
    world.nodes[1].host = world.nodes[2].host = "mine";
    for (uint32_t i = 1; i < 3; i++)
        node_mount(&world, &world.nodes[i]), node_tell_all(&world, &world.nodes[i]);
    uint64_t session = session_open(&world, 0);
    uint64_t near = UINT64_C(1) << world.nodes[1].number | UINT64_C(1) << world.nodes[2].number;
    uint64_t used[5] = {0};
    uint64_t copies = 0;

    for (uint32_t i = 0; i < 24; i++) { /* 128 KiB each: 8 fill a node */
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "k%u", i);
        struct wire_put_start_req *put =
            put_message(&world, world.token + 1, key, i < 20 ? 128 * KIB : 1000);

        put->host = world_key("mine");
        put->own_node = world.nodes[2].incarnation;
        put->items[0].pin = i < 20 ? WIRE_PIN_HARD : WIRE_PIN_NONE;
        put->items[0].replicas = i == 0 ? 2 : 1;
        struct world_request *request = put_send(&world, session, put, 1000);
        const struct wire_put_grant *grant = &request->grants[0];

        assert_true(request->done); /* nobody had to wait for it */
        assert_int_equal(grant->status, SNOW_OK);
        grant_write(&world, world_key(key), put->items[0].size, grant,
                    i < 20 ? WIRE_SLOT_HARD_PIN : 0);
        put_end_gen(&world, session, key, grant->gen, i == 0 ? 3 : 1);
        used[grant->places[0].node]++;
        copies |= nodes_of(grant, 1);
    }
    assert_int_equal(copies & near, 0); /* copies are to be far from each other */
    assert_int_equal(used[world.nodes[2].number], 8);
    assert_int_equal(used[world.nodes[1].number], 8);
    assert_int_equal(used[world.nodes[0].number] + used[world.nodes[3].number], 8);
    world_deinit(&world);
}

/* What can be evicted there makes room. */
static void own_host_evicts_before_others_are_used(void **state)
{
    struct world world;

    (void)state;
    open_nodes(&world, 3, MIB);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 40; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "k%u", i);
        struct wire_put_start_req *put = put_message(&world, world.token + 1, key, 128 * KIB);

        put->host = world_key("two");
        struct world_request *request = put_send(&world, session, put, 1000);

        assert_int_equal(request->grants[0].status, SNOW_OK);
        assert_int_equal(request->grants[0].places[0].node, world.nodes[1].number);
        grant_write(&world, world_key(key), 128 * KIB, &request->grants[0], 0);
        put_end_gen(&world, session, key, request->grants[0].gen, 1);
    }
    /* A host that has no node: anywhere. */
    struct wire_put_start_req *put = put_message(&world, world.token + 1, "other", 100);

    put->host = world_key("nowhere");
    assert_int_equal(put_send(&world, session, put, 0)->grants[0].status, SNOW_OK);
    world_deinit(&world);
}

/* Puts an object of its own request; the node that has it. */
static uint64_t put_one(struct world *world, uint64_t session, uint32_t number, uint64_t size)
{
    char *key = world_take(world, 1, 16);

    snprintf(key, 16, "k%u", number);
    struct world_request *request =
        put_send(world, session, put_message(world, world->token + 1, key, size), 1000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), size, &request->grants[0], 0);
    put_end_gen(world, session, key, request->grants[0].gen, 1);
    return request->grants[0].places[0].node;
}

/* Three nodes are full; the fourth, empty, gets a quarter of what is put, not more. */
static void who_joins_empty_gets_its_share(void **state)
{
    struct world world;
    uint64_t session;
    uint32_t joined = 0;
    struct world_node *node;

    (void)state;
    open_nodes(&world, 3, 64 * MIB);
    session = session_open(&world, 0);
    for (uint32_t i = 0; i < 3 * 64 + 32; i++)
        put_one(&world, session, i, MIB);
    assert_true(world_metric(&world, "evicted_objects") > 0);
    node = node_add(&world, 64 * MIB, 4096);
    node->host = "four";
    node_mount(&world, node);
    node_tell_all(&world, node);
    for (uint32_t i = 0; i < 400; i++)
        joined += put_one(&world, session, 1000 + i, 128 * KIB) == node->number;
    assert_in_range(joined, 75, 125);
    world_deinit(&world);
}

/* Puts that continue this read of one key, each in a request of its own: how many went to the
 * same node as it. */
static uint32_t continued_beside(struct world *world, uint64_t session, const char *key,
                                 uint32_t first)
{
    uint64_t home = lookup(world, session, key)->places[0].node;
    uint32_t beside = 0;

    for (uint32_t i = 0; i < 16; i++) {
        char *name = world_take(world, 1, 16);

        snprintf(name, 16, "n%u", first + i);
        struct wire_put_start_req *put = put_message(world, world->token + 1, name, 4096);

        put->continues = 1000 + first;
        beside += put_send(world, session, put, 0)->grants[0].places[0].node == home;
    }
    return beside;
}

/* What continues a chain goes to the node of its last block; what continues one that many share
 * goes anywhere. */
static void a_chain_of_its_own_stays_together(void **state)
{
    struct world world;
    uint64_t session;
    const char *key = "k0";

    (void)state;
    open_nodes(&world, 4, 64 * MIB);
    session = session_open(&world, 0);
    put_one(&world, session, 0, 4096);
    lookup_send(&world, session, 1000, WIRE_LOOKUP_PLACES | WIRE_LOOKUP_TOUCH, &key, 1);
    assert_int_equal(continued_beside(&world, session, key, 0), 16);
    for (uint32_t i = 0; i < 8; i++)
        lookup_send(&world, session, 1100, WIRE_LOOKUP_PLACES | WIRE_LOOKUP_TOUCH, &key, 1);
    assert_in_range(continued_beside(&world, session, key, 100), 0, 12);
    world_deinit(&world);
}

/* Members that different processes put lie on one node, that of the first. */
static void members_of_a_group_stay_together(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    uint64_t home = 0;

    (void)state;
    open_nodes(world, 4, 64 * MIB);
    for (uint32_t i = 0; i < 16; i++) {
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "m%u", i);
        small.session = session_open(world, 0);
        struct world_request *request =
            put_send(world, small.session, member_message(&small, "g", 16, key, i, 0), 1000);

        assert_int_equal(request->grants[0].status, SNOW_OK);
        home = i == 0 ? request->grants[0].places[0].node : home;
        assert_int_equal(request->grants[0].places[0].node, home);
    }
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_object_is_striped_over_nodes),
        cmocka_unit_test(copies_share_the_nodes_and_never_one),
        cmocka_unit_test(without_room_for_equal_stripes_it_goes_where_there_is_some),
        cmocka_unit_test(a_look_up_too_large_to_answer_is_told),
        cmocka_unit_test(a_request_stays_together_unless_it_is_to_spread),
        cmocka_unit_test(a_full_pool_serves_who_spreads),
        cmocka_unit_test(copies_go_to_other_domains_or_at_least_hosts),
        cmocka_unit_test(own_host_first),
        cmocka_unit_test(members_of_a_group_stay_together),
        cmocka_unit_test(a_chain_of_its_own_stays_together),
        cmocka_unit_test(who_joins_empty_gets_its_share),
        cmocka_unit_test(own_host_evicts_before_others_are_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
