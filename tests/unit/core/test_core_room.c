/* A full pool: eviction in order, leases, pins, the queue for room. */
#include "harness.h"

#define PAGE (64 * KIB)

static const char *name_of(struct world *world, const char *prefix, uint32_t number)
{
    char *name = world_take(world, 1, 32);

    snprintf(name, 32, "%s%u", prefix, number);
    return name;
}

/* Puts <prefix>first .. end-1 as one batch and ends it as one; all are granted at once. */
static void put_part(struct world *world, uint64_t session, const char *prefix, uint32_t first,
                     uint32_t end, uint64_t continues)
{
    uint32_t count = end - first;
    struct wire_put_start_req *put = put_message(world, world->token + 1, "x", PAGE);
    struct wire_put_end_req *done = world_take(world, 1, sizeof(*done));

    put->position = first;
    put->continues = done->continues = continues;
    put->items = world_take(world, count, sizeof(*put->items));
    put->items_count = done->items_count = count;
    done->items = world_take(world, count, sizeof(*done->items));
    for (uint32_t i = 0; i < count; i++)
        put->items[i] = (struct wire_put_item){.key = world_key(name_of(world, prefix, first + i)),
                                               .size = PAGE,
                                               .depth = WIRE_DEPTH_UNKNOWN,
                                               .replicas = 1};
    struct world_request *request = put_send(world, session, put, 5000);

    assert_true(request->done);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(request->grants[i].status, SNOW_OK);
        grant_write(world, put->items[i].key, PAGE, &request->grants[i], 0);
        done->items[i] = (struct wire_written){.key = put->items[i].key,
                                               .gen = request->grants[i].gen,
                                               .replicas = 1};
    }
    assert_true(world_ask(world, session, WIRE_put_end, done, count, 5000)->done);
}

/* Puts a chain, its end first: a session may not have much of a small pool open at once. */
static void put_batch(struct world *world, uint64_t session, const char *prefix, uint32_t count,
                      uint64_t continues)
{
    uint32_t at_once = world->nodes[0].size >= 8 * PAGE ? 2 : 1;

    for (uint32_t end = count; end > 0; end = end > at_once ? end - at_once : 0)
        put_part(world, session, prefix, end > at_once ? end - at_once : 0, end, continues);
}

static uint32_t count_there(struct world *world, uint64_t session, const char *prefix,
                            uint32_t count)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < count; i++)
        there += lookup_status(world, session, name_of(world, prefix, i)) == SNOW_OK;
    return there;
}

/* What is left of a chain is its beginning. */
static void assert_prefix(struct world *world, uint64_t session, const char *prefix, uint32_t count,
                          uint32_t left)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(lookup_status(world, session, name_of(world, prefix, i)),
                         i < left ? SNOW_OK : SNOW_NOT_FOUND);
}

static void test_chains_lose_their_end(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 16 * PAGE + 4096);
    put_batch(world, small.session, "a", 8, 0);
    put_batch(world, small.session, "b", 8, 0);
    put(world, small.session, "x", PAGE);
    put(world, small.session, "y", PAGE);
    put(world, small.session, "z", PAGE);
    assert_prefix(world, small.session, "a", 8, 5);
    assert_prefix(world, small.session, "b", 8, 8);
    assert_int_equal(world_metric(world, "evicted_objects"), 3);
    assert_int_equal(world_metric(world, "evicted_bytes"), 3 * PAGE);
    world_deinit(world);
}

static void test_touches(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *a[4] = {"a0", "a1", "a2", "a3"};

    (void)state;
    small_open(&small, 8 * PAGE + 4096);
    put_batch(world, small.session, "a", 4, 0);
    put_batch(world, small.session, "b", 4, 0);
    lookup_send(world, small.session, 0, WIRE_LOOKUP_TOUCH, a, 4);
    put_batch(world, small.session, "c", 5, 0);
    /* b went as the older one, then the end of a. */
    assert_prefix(world, small.session, "b", 4, 0);
    assert_prefix(world, small.session, "a", 4, 3);
    world_deinit(world);
}

static void test_continues(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *a[4] = {"a0", "a1", "a2", "a3"};

    (void)state;
    small_open(&small, 12 * PAGE + 4096);
    put_batch(world, small.session, "a", 4, 0);
    put_batch(world, small.session, "b", 4, 0);
    lookup_send(world, small.session, 77, WIRE_LOOKUP_PLACES, a, 4);
    /* The prefix is touched after the new tail: b goes first, then the tail, then the prefix. */
    put_batch(world, small.session, "c", 4, 77);
    assert_int_equal(world_metric(world, "continues_known"), 2);
    put_batch(world, small.session, "d", 6, 0);
    assert_prefix(world, small.session, "b", 4, 0);
    assert_prefix(world, small.session, "c", 4, 2);
    assert_prefix(world, small.session, "a", 4, 4);
    put_batch(world, small.session, "e", 1, 78);
    assert_int_equal(world_metric(world, "continues_unknown"), 1);
    /* Depth: behind the last key of the read. */
    struct wire_list_req list = {.prefix = world_key("c0")};
    struct world_request *request = world_ask(world, small.session, WIRE_list, &list, 1, 1000);
    const struct wire_list_rep *reply = request->message;

    assert_int_equal(reply->items_count, 1);
    assert_int_equal(reply->items[0].depth, 3 + 1 + 0);
    world_deinit(world);
}

static void test_waits_for_freed(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * PAGE);
    for (uint32_t i = 0; i < 4; i++)
        put(world, small.session, name_of(world, "a", i), PAGE);
    small.node->holds_freed = true;
    struct world_request *one =
        put_send(world, small.session, put_message(world, 50, "x", PAGE), 5000);
    struct world_request *two =
        put_send(world, session_open(world, 0), put_message(world, 51, "y", PAGE), 5000);

    /* One page came free ahead of any put; the second waits until the node says FREED. */
    assert_true(one->done);
    assert_false(two->done);
    assert_true(small.node->forget_count > 0);
    node_free(world, small.node, 0);
    assert_true(two->done);
    assert_int_equal(two->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "puts_waited"), 1);
    world_deinit(world);
}

static void test_order_of_waiting(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct world_request *small_ones[24];
    struct world_request *late;

    (void)state;
    small_open(&small, 64 * PAGE);
    uint64_t other = session_open(world, 0);

    small.node->holds_freed = true;
    for (uint32_t i = 0; i < 63; i++)
        put(world, small.session, name_of(world, "a", i), PAGE);
    while (world_metric(world, "free_bytes") >= PAGE)
        put(world, small.session, name_of(world, "b", (uint32_t)world->token), PAGE);
    struct world_request *large =
        put_send(world, small.session, put_message(world, 500, "large", 8 * PAGE), 9000);

    assert_false(large->done);
    for (uint32_t i = 0; i < 24; i++) {
        small_ones[i] =
            put_send(world, other, put_message(world, i + 1, name_of(world, "s", i), 4096), 9000);
        assert_false(small_ones[i]->done);
    }
    late = put_send(world, other, put_message(world, 100, "late", 8 * PAGE), 9000);
    /* Freed pages that are no run for the head go to smaller ones, in order, 16 at most. */
    while (small.node->forget_count > 0 && !large->done) {
        uint32_t served = 0;

        node_free(world, small.node, small.node->forget_count - 1);
        for (uint32_t i = 0; i < 24; i++)
            served += small_ones[i]->done;
        for (uint32_t i = 0; i < served; i++)
            assert_true(small_ones[i]->done);
        assert_true(served <= 16 || large->done);
        assert_false(late->done);
    }
    small.node->holds_freed = false;
    world_settle(world);
    world_run(world, 100 * NS_PER_MS);
    assert_true(large->done && late->done);
    assert_int_equal(large->grants[0].status, SNOW_OK);
    assert_int_equal(late->grants[0].status, SNOW_OK);
    for (uint32_t i = 0; i < 24; i++)
        assert_int_equal(small_ones[i]->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_no_space(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_pin_req pin = {.pin = WIRE_PIN_HARD};
    struct wire_key keys[4];

    (void)state;
    small_open(&small, 4 * PAGE + 4096);
    /* Larger than the pool: at once, with the reason. */
    struct world_request *request =
        put_send(world, small.session, put_message(world, 1, "x", 5 * PAGE), 5000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    assert_non_null(memmem(request->grants[0].reason.at, request->grants[0].reason.size,
                           "larger than the pool", 20));
    /* Pinned: at the end of the wait time. */
    world_deinit(world);
    small_open(&small, 4 * PAGE + 4096);
    world->options.hard_pin_percent = 90;
    world_close(world);
    world->node_count = 0;
    world_open(world);
    free(small.node->slots[0]);
    small.node = node_start(world, 4 * PAGE + 4096, 64);
    small.session = session_open(world, 0);
    for (uint32_t i = 0; i < 4; i++) {
        keys[i].key = world_key(name_of(world, "a", i));
        put(world, small.session, name_of(world, "a", i), PAGE);
    }
    pin.keys = keys;
    pin.keys_count = 4;
    request = world_ask(world, small.session, WIRE_pin, &pin, 4, 1000);
    assert_true(request->done);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(request->statuses[i].status, SNOW_OK);
    assert_int_equal(request->statuses[3].status, SNOW_LIMIT); /* the budget */
    pin.pin = WIRE_PIN_SOFT;
    pin.keys = &keys[3];
    pin.keys_count = 1;
    assert_int_equal(world_ask(world, small.session, WIRE_pin, &pin, 1, 1000)->statuses[0].status,
                     SNOW_OK);
    request = put_send(world, small.session, put_message(world, 2, "x", 2 * PAGE), 1000);
    assert_false(request->done);
    world_run(world, 900 * NS_PER_MS);
    assert_false(request->done);
    world_run(world, 200 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    assert_non_null(
        memmem(request->grants[0].reason.at, request->grants[0].reason.size, "hard-pinned", 11));
    assert_prefix(world, small.session, "a", 4, 3);
    /* Free again: it goes. */
    pin.pin = WIRE_PIN_NONE;
    pin.keys = keys;
    world_ask(world, small.session, WIRE_pin, &pin, 1, 1000);
    assert_int_equal(world_metric(world, "hard_pinned_bytes"), 2 * PAGE);
    put(world, small.session, "y", PAGE);
    request = put_send(world, small.session, put_message(world, 3, "z", PAGE), 1000);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_soft_pins_go_last(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_key key = {.key = world_key("a0")};
    struct wire_pin_req pin = {.pin = WIRE_PIN_SOFT, .pin_ms = 5000, .keys = &key, .keys_count = 1};

    (void)state;
    small_open(&small, 4 * PAGE + 4096);
    for (uint32_t i = 0; i < 4; i++)
        put(world, small.session, name_of(world, "a", i), PAGE);
    world_ask(world, small.session, WIRE_pin, &pin, 1, 1000);
    assert_int_equal(lookup(world, small.session, "a0")->flags, WIRE_FOUND_SOFT_PIN);
    put_batch(world, small.session, "b", 3, 0);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    assert_int_equal(count_there(world, small.session, "b", 3), 3);
    /* Its deadline makes it like the others. */
    world_live(world, 6 * NS_PER_S);
    assert_int_equal(lookup(world, small.session, "a0")->flags, 0);
    world_deinit(world);
}

static void test_soft_pins_that_stay(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_key key = {.key = world_key("a0")};
    struct wire_pin_req pin = {
        .pin = WIRE_PIN_SOFT, .pin_ms = WIRE_PIN_CLUSTER, .keys = &key, .keys_count = 1};
    struct world_request *request;

    (void)state;
    world_init(world);
    world->options.evict_soft_pinned = false;
    world->options.soft_pin_ns = 4 * NS_PER_S;
    world_open(world);
    small.node = node_start(world, 2 * PAGE + 4096, 64);
    small.session = session_open(world, 0);
    put(world, small.session, "a0", PAGE);
    world_ask(world, small.session, WIRE_pin, &pin, 1, 1000);
    put_batch(world, small.session, "b", 2, 0); /* one takes the place of the other */
    assert_int_equal(count_there(world, small.session, "b", 2), 1);
    request = put_send(world, small.session, put_message(world, 9, "x", 2 * PAGE), 1000);
    world_run(world, 1100 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    /* When its time is over, here what the master is set to, it goes like others. */
    world_live(world, 5 * NS_PER_S);
    assert_int_equal(lookup(world, small.session, "a0")->flags, 0);
    put(world, small.session, "y", 2 * PAGE);
    world_deinit(world);
}

static void test_soft_pins_of_a_length(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_key key = {.key = world_key("a0")};
    struct wire_pin_req pin = {.pin = WIRE_PIN_SOFT, .keys = &key, .keys_count = 1};
    const uint32_t lengths_ms[] = {1, 3000, 3001, 0, WIRE_PIN_CLUSTER};

    (void)state;
    world_init(world);
    world->options.soft_pin_max_ns = 3 * NS_PER_S;
    world_open(world);
    small.node = node_start(world, 8 * PAGE, 64);
    small.session = session_open(world, 0);
    put(world, small.session, "a0", PAGE);
    for (uint32_t i = 0; i < 5; i++) {
        bool good = i != 2 && i != 3; /* longer, and without an end */
        struct world_request *request;
        struct wire_put_start_req *message =
            put_message(world, 100 + i, name_of(world, "b", i), 64);

        pin.pin_ms = lengths_ms[i];
        request = world_ask(world, small.session, WIRE_pin, &pin, 1, 1000);
        assert_int_equal(request->statuses[0].status, good ? SNOW_OK : SNOW_INVALID);
        message->items[0].pin = WIRE_PIN_SOFT;
        message->items[0].pin_ms = lengths_ms[i];
        request = put_send(world, small.session, message, 1000);
        assert_int_equal(request->grants[0].status, good ? SNOW_OK : SNOW_INVALID);
    }
    world_deinit(world);
}

static void test_pin_with_put(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 8 * PAGE);
    struct wire_put_start_req *message = put_message(world, 1, "a", PAGE);

    message->items[0].pin = WIRE_PIN_HARD;
    struct world_request *request = put_send(world, small.session, message, 0);

    grant_write(world, world_key("a"), PAGE, &request->grants[0], WIRE_SLOT_HARD_PIN);
    put_end_gen(world, small.session, "a", request->grants[0].gen, 1);
    assert_int_equal(lookup(world, small.session, "a")->flags, WIRE_FOUND_HARD_PIN);
    for (uint32_t i = 0; i < 20; i++)
        put(world, small.session, name_of(world, "b", i), PAGE);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    /* A removal does not look at pins. */
    assert_int_equal(remove_key(world, small.session, "a"), SNOW_OK);
    assert_int_equal(world_metric(world, "hard_pinned_bytes"), 0);
    world_deinit(world);
}

static void test_leases(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *a0 = "a0";
    uint32_t flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_LEASE;

    (void)state;
    small_open(&small, 8 * PAGE + 4096);
    put_batch(world, small.session, "a", 8, 0);
    assert_true(lookup_send(world, small.session, 1, flags, &a0, 1)->lease_ms >= 2000);
    assert_true(lookup_send(world, small.session, 1, flags, &a0, 1)->lease_ms >= 2000); /* again */
    assert_int_equal(world_metric(world, "leased_bytes"), PAGE);
    assert_int_equal(lookup(world, small.session, "a0")->flags, WIRE_FOUND_LEASED);
    /* What is leased is passed over. */
    put_batch(world, small.session, "b", 7, 0);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    assert_int_equal(count_there(world, small.session, "b", 7), 7);
    /* Returned: it is the youngest now. */
    struct wire_id id = {.id = 1};
    struct wire_lease_return_msg back = {.operations = &id, .operations_count = 1};

    world_step(world, &(struct core_input){.kind = CORE_MESSAGE,
                                           .from = small.session,
                                           .type = WIRE_lease_return,
                                           .message = &back});
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    put_batch(world, small.session, "c", 7, 0);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    put(world, small.session, "d", PAGE);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_NOT_FOUND);
    /* Expired. */
    const char *d = "d";

    lookup_send(world, small.session, 2, flags, &d, 1);
    world_live(world, 3 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    assert_int_equal(world_metric(world, "leases_expired"), 1);
    world_deinit(world);
}

static uint32_t return_hold(struct world *world, uint64_t session, uint64_t operation)
{
    struct wire_hold_return_req *back = world_take(world, 1, sizeof(*back));
    const struct wire_hold_return_rep *reply;

    back->operations = world_take(world, 1, sizeof(*back->operations));
    back->operations[0].id = operation;
    back->operations_count = 1;
    reply = world_ask(world, session, WIRE_hold_return, back, 1, 10000)->message;
    return reply->returned;
}

/* What is viewed stays, whatever waits for room and however long, until the view ends. */
static void test_holds(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *keys[] = {"a0", "a1", "a2"};
    uint32_t flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_HOLD;

    (void)state;
    small_open(&small, 8 * PAGE + 4096);
    put_batch(world, small.session, "a", 8, 0);
    assert_int_equal(lookup_send(world, small.session, 1, flags, keys, 2)->lease_ms, UINT32_MAX);
    assert_int_equal(lookup_send(world, small.session, 1, flags, keys, 2)->lease_ms, UINT32_MAX);
    assert_int_equal(world_metric(world, "leased_bytes"), 2 * PAGE);
    /* A quarter of the pool; above it nothing is held, and nothing is left of the try. */
    assert_int_equal(lookup_send(world, small.session, 2, flags, &keys[2], 1)->lease_ms, 0);
    assert_int_equal(world_metric(world, "leased_bytes"), 2 * PAGE);
    world_live(world, 60 * NS_PER_S);
    put_batch(world, small.session, "b", 6, 0);
    put_batch(world, small.session, "c", 6, 0);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "a1"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "a2"), SNOW_NOT_FOUND);
    /* A removal does not look at holds. */
    assert_int_equal(remove_key(world, small.session, "a1"), SNOW_OK);
    assert_int_equal(return_hold(world, small.session, 1), 1);
    assert_int_equal(return_hold(world, small.session, 1), 0);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    put_batch(world, small.session, "d", 7, 0);
    put(world, small.session, "e", PAGE);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_NOT_FOUND);
    /* They end with their session. */
    assert_int_equal(
        lookup_send(world, small.session, 3, flags, (const char *[]){"e"}, 1)->lease_ms,
        UINT32_MAX);
    world_step(world, &(struct core_input){.kind = CORE_SESSION_BREAK, .from = small.session});
    world_live(world, 30 * NS_PER_S);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    world_deinit(world);
}

static void test_lease_bound(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    const char *keys[8];
    uint32_t flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_LEASE;

    (void)state;
    small_open(&small, 8 * PAGE + 4096);
    put_batch(world, small.session, "a", 8, 0);
    for (uint32_t i = 0; i < 8; i++)
        keys[i] = name_of(world, "a", i);
    /* A quarter of the pool: two pages.  Above it a read goes on unleased, never refused. */
    assert_true(lookup_send(world, small.session, 1, flags, keys, 2)->lease_ms > 0);
    struct wire_lookup_rep *reply = lookup_send(world, small.session, 2, flags, &keys[2], 1);

    assert_int_equal(reply->lease_ms, 0);
    assert_int_equal(reply->items[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "leases_refused"), 1);
    world_deinit(world);
}

static void test_leases_yield(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    uint64_t sessions[4];
    uint32_t flags = WIRE_LOOKUP_LEASE;

    (void)state;
    small_open(&small, 4 * PAGE + 4096);
    put_batch(world, small.session, "a", 4, 0);
    for (uint32_t i = 0; i < 4; i++) {
        const char *key = name_of(world, "a", i);

        sessions[i] = session_open(world, 0);
        /* a0, a1: probes; a2, a3: reads. */
        lookup_send(world, sessions[i], 1, flags | (i < 2 ? 0 : WIRE_LOOKUP_PLACES), &key, 1);
    }
    assert_int_equal(world_metric(world, "leased_bytes"), 4 * PAGE);
    struct world_request *request =
        put_send(world, small.session, put_message(world, 100, "x", PAGE), 2000);

    world_run(world, 45 * NS_PER_MS);
    assert_false(request->done);
    world_run(world, 10 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "leases_broken"), 1);
    assert_int_equal(lookup_status(world, small.session, "a0"), SNOW_NOT_FOUND);
    /* In the next second without waiting; the last probe, then the reads. */
    for (uint32_t i = 0; i < 3; i++) {
        const char *key = name_of(world, "y", i);

        request = put_send(world, sessions[i], put_message(world, 200, key, PAGE), 2000);
        assert_true(request->done);
        assert_int_equal(request->grants[0].status, SNOW_OK);
    }
    assert_int_equal(world_metric(world, "leases_broken"), 4);
    assert_int_equal(world_metric(world, "leased_bytes"), 0);
    world_deinit(world);
}

static void test_reads_yield_later(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 4 * PAGE + 4096);
    put_batch(world, small.session, "a", 4, 0);
    for (uint32_t i = 0; i < 4; i++) {
        const char *key = name_of(world, "a", i);

        lookup_send(world, session_open(world, 0), 1, WIRE_LOOKUP_LEASE | WIRE_LOOKUP_PLACES, &key,
                    1);
    }
    struct world_request *request =
        put_send(world, small.session, put_message(world, 100, "x", PAGE), 1800);

    world_run(world, 480 * NS_PER_MS);
    assert_false(request->done);
    world_run(world, 40 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_share_of_open_writes(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_item items[6];

    (void)state;
    small_open(&small, 16 * PAGE + 4096);
    struct wire_put_start_req *message = put_message(world, 1, "x", PAGE);

    for (uint32_t i = 0; i < 6; i++) {
        items[i] = message->items[0];
        items[i].key = world_key(name_of(world, "a", i));
    }
    message->items = items;
    message->items_count = 6;
    struct world_request *request = put_send(world, small.session, message, 5000);

    /* A quarter of the pool is four pages: the others wait for those, and block nobody. */
    assert_int_equal(request->answered, 4);
    uint64_t other = session_open(world, 0);

    assert_true(put_start(world, other, 1, "o", PAGE)->done);
    for (uint32_t i = 0; i < 4; i++) {
        put_end_gen(world, small.session, name_of(world, "a", i), request->grants[i].gen, 1);
        assert_int_equal(request->answered, i < 2 ? 5 + i : 6);
    }
    assert_true(request->done);
    assert_int_equal(world_metric(world, "waiters"), 0);
    world_deinit(world);
}

/* One that came back from its session's queue and needs no grant any more lets the next one go. */
static void test_queue_of_a_session_goes_on(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct wire_put_item items[3];

    (void)state;
    small_open(&small, 16 * PAGE + 4096);
    struct wire_put_start_req *message = put_message(world, 1, "x", 3 * PAGE);

    for (uint32_t i = 0; i < 3; i++) {
        items[i] = message->items[0];
        items[i].key = world_key(name_of(world, "a", i));
    }
    message->items = items;
    message->items_count = 3;
    struct world_request *request = put_send(world, small.session, message, 5000);

    assert_int_equal(request->answered, 1);
    put(world, session_open(world, 0), "a1", 3 * PAGE);
    put_end_gen(world, small.session, "a0", request->grants[0].gen, 1);
    assert_true(request->done);
    assert_int_equal(request->grants[1].status, SNOW_EXISTS);
    assert_int_equal(request->grants[2].status, SNOW_OK);
    world_deinit(world);
}

static void test_fragments(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, 64 * PAGE + 4096);
    for (uint32_t i = 0; i < 64; i++)
        put(world, small.session, name_of(world, "a", i), PAGE);
    for (uint32_t i = 0; i < 64; i += 2)
        remove_key(world, small.session, name_of(world, "a", i));
    /* Half is free, in runs of a page; an object of 20 pages can have 16 pieces. */
    struct world_request *request =
        put_send(world, small.session, put_message(world, 500, "x", 16 * PAGE), 2000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].places_count, 16);
    assert_int_equal(world_metric(world, "evicted_objects"), 0);
    uint64_t other = session_open(world, 0);

    request = put_send(world, other, put_message(world, 500, "y", 15 * PAGE + 4096), 2000);
    world_run(world, 100 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_reserve_is_kept(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.options.reserve_bytes = 4 * PAGE;
    world_open(&world);
    struct world_node *node = node_start(&world, 64 * PAGE, 1024);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 200; i++) {
        put(&world, session, name_of(&world, "a", i), PAGE);
        assert_true(i < 59 || world_metric(&world, "free_bytes") >= 4 * PAGE);
    }
    assert_int_equal(world_metric(&world, "puts_waited"), 0);
    assert_int_equal(world_metric(&world, "objects"), 60);
    assert_int_equal(node->forget_count, 0);
    world_deinit(&world);
}

static void test_lost_wakeup_can_be_planted(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.start.faults = 1u << FAULT_lost_wakeup;
    world_open(&world);
    node_start(&world, 4 * PAGE, 64);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 4; i++)
        put(&world, session, name_of(&world, "a", i), PAGE);
    struct world_request *request =
        put_send(&world, session, put_message(&world, 500, "x", 2 * PAGE), 2000);

    world_run(&world, 1900 * NS_PER_MS);
    assert_false(request->done);
    world_run(&world, 200 * NS_PER_MS);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_lose_their_end),
        cmocka_unit_test(test_touches),
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_waits_for_freed),
        cmocka_unit_test(test_order_of_waiting),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_soft_pins_go_last),
        cmocka_unit_test(test_soft_pins_that_stay),
        cmocka_unit_test(test_soft_pins_of_a_length),
        cmocka_unit_test(test_pin_with_put),
        cmocka_unit_test(test_leases),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_lease_bound),
        cmocka_unit_test(test_leases_yield),
        cmocka_unit_test(test_reads_yield_later),
        cmocka_unit_test(test_share_of_open_writes),
        cmocka_unit_test(test_queue_of_a_session_goes_on),
        cmocka_unit_test(test_fragments),
        cmocka_unit_test(test_reserve_is_kept),
        cmocka_unit_test(test_lost_wakeup_can_be_planted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
