/* Placement over several nodes: stripes of large objects, what belongs together, copies apart. */
#include "harness.h"

static void open_nodes(struct world *world, uint32_t count, uint64_t size)
{
    static const char *const hosts[] = {"one", "two", "three", "four"};

    world_init(world);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_object_is_striped_over_nodes),
        cmocka_unit_test(copies_share_the_nodes_and_never_one),
        cmocka_unit_test(without_room_for_equal_stripes_it_goes_where_there_is_some),
        cmocka_unit_test(a_look_up_too_large_to_answer_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
