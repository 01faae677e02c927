/* Writing: grants, their repetition, other writers, replaces, aborts, deadlines. */
#include "harness.h"

static void test_put_and_get(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    uint64_t gen = put(world, small.session, "a", 5000);
    const struct wire_found *found = lookup(world, small.session, "a");

    assert_int_equal(found->status, SNOW_OK);
    assert_int_equal(found->gen, gen);
    assert_int_equal(found->size, 5000);
    assert_int_equal(found->places_count, 1);
    const struct wire_place *place = &found->places[0];
    struct grant_fields fields = {
        .segment = 0, .slot = place->slot, .gen = gen, .offset = place->offset, .length = 5000};

    assert_int_equal(place->node, small.node->number);
    assert_int_equal(place->mac, grant_read_mac(&small.node->secret, &fields));
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);
    world_deinit(world);
}

static void test_repeats(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    struct world_request *one = put_start(world, small.session, 7, "a", 100);
    struct world_request *again = put_start(world, small.session, 7, "a", 100);
    uint64_t gen = one->grants[0].gen;

    assert_int_equal(again->grants[0].status, SNOW_OK);
    assert_int_equal(again->grants[0].gen, gen);
    assert_memory_equal(&again->grants[0].places[0], &one->grants[0].places[0],
                        sizeof(struct wire_place));
    assert_int_equal(put_end_gen(world, small.session, "a", gen + 1, 1)->statuses[0].status,
                     SNOW_GONE);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 0)->statuses[0].status,
                     SNOW_INVALID);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 2)->statuses[0].status,
                     SNOW_INVALID);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_OK);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_OK);
    assert_int_equal(put_abort_gen(world, small.session, "a", gen)->statuses[0].status, SNOW_GONE);
    again = put_start(world, small.session, 8, "a", 100);
    assert_int_equal(again->grants[0].status, SNOW_EXISTS);
    assert_int_equal(again->grants[0].gen, gen);
    world_deinit(world);
}

static void test_invalid_items(void **state)
{
    static char long_key[LIMIT_KEY_SIZE + 2];
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    memset(long_key, 'k', LIMIT_KEY_SIZE + 1);
    struct wire_put_start_req *message = put_message(world, 1, "a", 1);

    message->items = world_take(world, 8, sizeof(*message->items));
    for (uint32_t i = 0; i < 8; i++)
        message->items[i] = (struct wire_put_item){.key = world_key("x"), .size = 1, .replicas = 1};
    message->items_count = 8;
    message->items[0].key = bytes_of(NULL, 0);
    message->items[1].key = world_key(long_key);
    message->items[2].replicas = 0;
    message->items[3].replicas = LIMIT_REPLICAS + 1;
    message->items[4].pin = 3;
    message->items[5].flags = 1u << 7;
    message->items[6].size = LIMIT_OBJECT_SIZE + 1;
    struct world_request *request = put_send(world, small.session, message, 0);

    assert_true(request->done);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(request->grants[i].status, SNOW_INVALID);
    assert_int_equal(request->grants[6].status, SNOW_LIMIT);
    assert_int_equal(request->grants[7].status, SNOW_OK);
    assert_int_equal(remove_key(world, small.session, ""), SNOW_INVALID);
    assert_int_equal(remove_key(world, small.session, long_key), SNOW_INVALID);
    assert_int_equal(lookup_status(world, small.session, long_key), SNOW_INVALID);
    world_deinit(world);
}

static void test_batch_of_nothing(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_start_req none = {.operation = 1};
    struct wire_put_end_req end = {.operation = 1};

    (void)state;
    small_open(&small, MIB);
    assert_true(put_send(world, small.session, &none, 100)->done);
    assert_true(world_ask(world, small.session, WIRE_put_end, &end, 0, 1000)->done);
    assert_true(
        world_ask(world, small.session, WIRE_lookup, &(struct wire_lookup_req){0}, 0, 1000)->done);
    world_deinit(world);
}

static void test_sizes_and_keys(void **state)
{
    static char key[LIMIT_KEY_SIZE + 1];
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "k", 0);
    const struct wire_found *found = lookup(world, small.session, "k");

    assert_int_equal(found->size, 0);
    assert_int_equal(found->places_count, 1);
    assert_int_equal(found->places[0].length, 0);
    assert_int_equal(world_metric(world, "used_bytes"), 256);
    memset(key, 'x', WIRE_KEY_INLINE);
    put(world, small.session, key, 512);
    assert_int_equal(world_metric(world, "used_bytes"), 256 + 512);
    /* A longer key takes room behind the bytes. */
    key[WIRE_KEY_INLINE] = 'x';
    put(world, small.session, key, 512);
    assert_int_equal(world_metric(world, "used_bytes"), 256 + 512 + 768);
    memset(key, 'y', LIMIT_KEY_SIZE);
    put(world, small.session, key, 4096);
    assert_int_equal(lookup(world, small.session, key)->places[0].length, 4096);
    assert_int_equal(world_metric(world, "used_bytes"), 256 + 512 + 768 + 8192);
    put(world, small.session, "z", 0);
    assert_int_equal(remove_key(world, small.session, key), SNOW_OK);
    assert_int_equal(world_metric(world, "used_bytes"), 256 + 512 + 768 + 256);
    world_deinit(world);
}

static void test_other_writer(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t other = session_open(world, 0);
    struct world_request *one = put_start(world, small.session, 1, "a", 100);
    struct world_request *two = put_start(world, other, 1, "a", 100);

    assert_int_equal(two->grants[0].status, SNOW_IN_PROGRESS);
    assert_int_equal(two->grants[0].gen, one->grants[0].gen);
    assert_true(two->grants[0].hint_ms > 0);
    /* Two wait for the outcome: success is EXISTS. */
    struct wire_put_start_req *waiting = put_message(world, 2, "a", 100);

    waiting->wait_writer = 1;
    two = put_send(world, other, waiting, 5000);
    struct world_request *three = put_send(world, other, waiting, 5000);

    assert_false(two->done || three->done);
    assert_int_equal(world_metric(world, "waiters"), 2);
    put_end_gen(world, small.session, "a", one->grants[0].gen, 1);
    assert_true(two->done && three->done);
    assert_int_equal(two->grants[0].status, SNOW_EXISTS);
    assert_int_equal(three->grants[0].status, SNOW_EXISTS);
    /* Failure: the first takes over, the second waits for it. */
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_OK);
    one = put_start(world, small.session, 3, "a", 100);
    waiting->operation = 4;
    two = put_send(world, other, waiting, 5000);
    struct wire_put_start_req *later = put_message(world, 5, "a", 100);

    later->wait_writer = 1;
    three = put_send(world, other, later, 200);
    assert_int_equal(
        put_abort_gen(world, small.session, "a", one->grants[0].gen)->statuses[0].status, SNOW_OK);
    assert_true(two->done);
    assert_int_equal(two->grants[0].status, SNOW_OK);
    assert_false(three->done);
    /* Its wait time ends. */
    world_run(world, 250 * NS_PER_MS);
    assert_true(three->done);
    assert_int_equal(three->grants[0].status, SNOW_IN_PROGRESS);
    assert_int_equal(world_metric(world, "waiters"), 0);
    world_deinit(world);
}

static void test_same_key_twice_in_a_batch(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_item items[2];

    (void)state;
    small_open(&small, MIB);
    struct wire_put_start_req *message = put_message(world, 1, "a", 100);

    items[0] = items[1] = message->items[0];
    message->items = items;
    message->items_count = 2;
    message->wait_writer = 1;
    struct world_request *request = put_send(world, small.session, message, 5000);

    assert_false(request->done);
    assert_int_equal(request->answered, 1);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    put_end_gen(world, small.session, "a", request->grants[0].gen, 1);
    assert_true(request->done);
    assert_int_equal(request->grants[1].status, SNOW_EXISTS);
    world_deinit(world);
}

static struct world_request *replace_start(struct world *world, uint64_t session,
                                           uint64_t operation, const char *key, uint64_t size)
{
    struct wire_put_start_req *message = put_message(world, operation, key, size);

    message->items[0].flags = WIRE_PUT_REPLACE;
    struct world_request *request = put_send(world, session, message, 0);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), size, &request->grants[0], WIRE_SLOT_REPLACED);
    return request;
}

static void test_replace(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t old = put(world, small.session, "a", 100);
    struct world_request *request = replace_start(world, small.session, 1, "a", 200);
    uint64_t gen = request->grants[0].gen;

    assert_true(gen > old);
    assert_int_equal(lookup(world, small.session, "a")->gen, old);
    /* The answer waits for CLOSED of the old value. */
    small.node->holds_closed = true;
    struct world_request *end = put_end_gen(world, small.session, "a", gen, 1);
    struct world_request *again = put_end_gen(world, small.session, "a", gen, 1);

    assert_false(end->done || again->done);
    assert_int_equal(lookup(world, small.session, "a")->gen, gen);
    node_acknowledge(world, small.node, 0, false);
    assert_true(end->done && again->done);
    assert_int_equal(end->statuses[0].status, SNOW_OK);
    assert_int_equal(again->statuses[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "objects_closing"), 1);
    node_free(world, small.node, 0);
    assert_int_equal(world_metric(world, "objects_closing"), 0);
    assert_int_equal(world_metric(world, "replaced_objects"), 1);
    world_deinit(world);
}

static void test_two_replaces(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    uint64_t other = session_open(world, 0);
    uint64_t one = replace_start(world, small.session, 1, "a", 200)->grants[0].gen;
    uint64_t two = replace_start(world, other, 1, "a", 300)->grants[0].gen;

    assert_true(two > one);
    assert_int_equal(put_end_gen(world, other, "a", two, 1)->statuses[0].status, SNOW_OK);
    /* The earlier one ends OK, superseded. */
    assert_int_equal(put_end_gen(world, small.session, "a", one, 1)->statuses[0].status, SNOW_OK);
    assert_int_equal(lookup(world, small.session, "a")->gen, two);
    assert_int_equal(world_metric(world, "objects"), 1);
    /* The other order: both in turn. */
    one = replace_start(world, small.session, 2, "a", 200)->grants[0].gen;
    two = replace_start(world, other, 2, "a", 300)->grants[0].gen;
    assert_int_equal(put_end_gen(world, small.session, "a", one, 1)->statuses[0].status, SNOW_OK);
    assert_int_equal(lookup(world, small.session, "a")->gen, one);
    assert_int_equal(put_end_gen(world, other, "a", two, 1)->statuses[0].status, SNOW_OK);
    assert_int_equal(lookup(world, small.session, "a")->gen, two);
    /* A failed writer leaves the old value. */
    one = replace_start(world, small.session, 3, "a", 200)->grants[0].gen;
    assert_int_equal(put_abort_gen(world, small.session, "a", one)->statuses[0].status, SNOW_OK);
    assert_int_equal(lookup(world, small.session, "a")->gen, two);
    world_deinit(world);
}

/* A put of a key whose first value is being written by a replace waits for that writer: it never
 * takes the place of a value. */
static void test_put_beside_a_replace(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t other = session_open(world, 0);
    struct world_request *request = replace_start(world, small.session, 1, "a", 100);

    assert_int_equal(put_start(world, other, 1, "a", 200)->grants[0].status, SNOW_IN_PROGRESS);
    put_end_gen(world, small.session, "a", request->grants[0].gen, 1);
    assert_int_equal(put_start(world, other, 2, "a", 200)->grants[0].status, SNOW_EXISTS);
    world_deinit(world);
}

static void test_abort(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    small.node->holds_closed = true;
    struct world_request *one = put_abort_gen(world, small.session, "a", gen);
    struct world_request *two = put_abort_gen(world, small.session, "a", gen);

    assert_false(one->done || two->done);
    /* A new put waits for nothing. */
    assert_int_equal(put_start(world, small.session, 2, "a", 100)->grants[0].status, SNOW_OK);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_GONE);
    node_acknowledge(world, small.node, 0, true);
    assert_true(one->done && two->done);
    assert_int_equal(one->statuses[0].status, SNOW_OK);
    assert_int_equal(two->statuses[0].status, SNOW_OK);
    assert_int_equal(put_abort_gen(world, small.session, "a", gen)->statuses[0].status, SNOW_GONE);
    world_deinit(world);
}

static void test_grant_deadline(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    world_live(world, 10900 * NS_PER_MS); /* the deadline, and not yet a second more */
    assert_int_equal(world_metric(world, "objects_writing"), 1);
    world_live(world, 200 * NS_PER_MS);
    assert_int_equal(world_metric(world, "objects_writing"), 0);
    assert_int_equal(world_metric(world, "puts_expired"), 1);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_GONE);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);
    world_deinit(world);
}

static enum snow_status renew(struct small_world *small, uint64_t session, uint64_t gen,
                              uint32_t for_ms)
{
    return (enum snow_status)put_renew_gen(&small->world, session, "a", gen, for_ms)
        ->statuses[0]
        .status;
}

/* An open write goes on for as long as its session renews it, but not for ever. */
static void test_renewal(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t other = session_open(world, 0);
    uint64_t gen = put_start(world, small.session, 1, "a", 100)->grants[0].gen;

    assert_int_equal(renew(&small, other, gen, 1000), SNOW_GONE);
    assert_int_equal(renew(&small, small.session, gen + 1, 1000), SNOW_GONE);
    assert_int_equal(renew(&small, small.session, gen, 30000), SNOW_OK);
    for (int i = 0; i < 29; i++) {
        world_live(world, 20 * NS_PER_S);
        assert_int_equal(renew(&small, small.session, gen, 30000), SNOW_OK);
    }
    assert_int_equal(world_metric(world, "objects_writing"), 1);
    world_live(world, 20500 * NS_PER_MS); /* ten minutes, and not yet a second more */
    assert_int_equal(renew(&small, small.session, gen, 30000), SNOW_LIMIT);
    assert_int_equal(world_metric(world, "objects_writing"), 1);
    world_live(world, NS_PER_S);
    assert_int_equal(world_metric(world, "objects_writing"), 0);
    assert_int_equal(renew(&small, small.session, gen, 30000), SNOW_GONE);
    assert_int_equal(world_metric(world, "puts_renewed"), 30);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);

    /* It may end sooner than it was to, too. */
    gen = put_start(world, small.session, 2, "a", 100)->grants[0].gen;
    assert_int_equal(renew(&small, small.session, gen, 0), SNOW_OK);
    world_live(world, 1100 * NS_PER_MS);
    assert_int_equal(put_end_gen(world, small.session, "a", gen, 1)->statuses[0].status, SNOW_GONE);
    world_deinit(world);
}

static void test_removal_deadline(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    small.node->holds_closed = true;
    struct world_request *request = remove_send(world, small.session, "a", 0);

    assert_false(request->done);
    world_live(world, 11 * NS_PER_S);
    assert_true(request->done);
    assert_int_equal(request->statuses[0].status, SNOW_UNCERTAIN);
    small.node->holds_closed = false;
    world_settle(world);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);
    world_deinit(world);
}

static void test_cancel(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    small.node->holds_closed = true;
    struct world_request *request = remove_send(world, small.session, "a", 0);

    assert_false(request->done);
    request->cancelled = true;
    world_step(world, &(struct core_input){.kind = CORE_CANCEL, .token = world->token});
    small.node->holds_closed = false;
    world_settle(world);
    world_live(world, 20 * NS_PER_S);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);
    world_deinit(world);
}

static void test_several_extents(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    char key[16];

    (void)state;
    small_open(&small, MIB + 4096); /* nothing is evicted ahead */
    /* 8 runs of 128 KiB; every second one is freed. */
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        put(world, small.session, key, 128 * KIB);
    }
    for (int i = 0; i < 8; i += 2) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(remove_key(world, small.session, key), SNOW_OK);
    }
    put(world, small.session, "large", 512 * KIB - 100);
    const struct wire_found *found = lookup(world, small.session, "large");
    uint64_t offset = 0;

    assert_int_equal(found->places_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(found->places[i].part, i);
        assert_int_equal(found->places[i].parts, 4);
        assert_int_equal(found->places[i].object_offset, offset);
        offset += found->places[i].length;
    }
    assert_int_equal(offset, 512 * KIB - 100);
    assert_int_equal(world_metric(world, "free_bytes"), 4096);
    assert_int_equal(remove_key(world, small.session, "large"), SNOW_OK);
    assert_int_equal(world_metric(world, "free_bytes"), 512 * KIB + 4096);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_invalid_items),
        cmocka_unit_test(test_batch_of_nothing),
        cmocka_unit_test(test_sizes_and_keys),
        cmocka_unit_test(test_other_writer),
        cmocka_unit_test(test_same_key_twice_in_a_batch),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_two_replaces),
        cmocka_unit_test(test_put_beside_a_replace),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_grant_deadline),
        cmocka_unit_test(test_renewal),
        cmocka_unit_test(test_removal_deadline),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_several_extents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
