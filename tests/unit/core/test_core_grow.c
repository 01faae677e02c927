/* Segments that grow: nothing is evicted while there is more, puts wait for what is asked for. */
#include "harness.h"

#define SIZE (4 * MIB)
#define SLOTS 1024u
#define STEP (128 * KIB) /* a 32th of it: what is asked for is a multiple */

struct growing {
    struct world world;
    struct world_node *node;
    uint64_t session;
};

static void growing_open(struct growing *growing, uint64_t ready, uint32_t slots_ready)
{
    world_init(&growing->world);
    world_open(&growing->world);
    growing->node = node_add(&growing->world, SIZE, SLOTS);
    growing->node->ready = ready;
    growing->node->slots_ready = slots_ready;
    node_mount(&growing->world, growing->node);
    node_tell_all(&growing->world, growing->node);
    growing->session = session_open(&growing->world, 0);
}

static void only_ready_bytes_are_given_out_and_more_is_asked_for(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    assert_int_equal(world_metric(world, "pool_bytes"), SIZE);
    assert_int_equal(world_metric(world, "ready_bytes"), 512 * KIB);
    assert_int_equal(growing.node->asks, 0);
    put(world, growing.session, "a", 256 * KIB);
    assert_int_equal(growing.node->asks, 0); /* a 16th of the segment is free */
    put(world, growing.session, "b", 200 * KIB);
    assert_int_equal(growing.node->asks, 1);
    assert_int_equal(growing.node->asked, 512 * KIB + 2 * STEP);
    put(world, growing.session, "c", 4 * KIB);
    assert_int_equal(growing.node->asks, 1); /* it was asked already */
    node_grow(world, growing.node);
    assert_int_equal(world_metric(world, "ready_bytes"), 512 * KIB + 2 * STEP);
    assert_int_equal(world_metric(world, "grown_bytes"), 2 * STEP);
    assert_int_equal(world_metric(world, "used_bytes"), 460 * KIB);
    world_deinit(world);
}

static void a_put_waits_for_growth_and_nothing_is_evicted(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    put(world, growing.session, "old", 400 * KIB);
    struct world_request *request =
        put_send(world, growing.session, put_message(world, 900, "new", 600 * KIB), 5000);

    assert_false(request->done);
    assert_true(growing.node->asked >= (400 + 600) * KIB);
    node_say_grown(world, growing.node, SIZE, 900 * KIB, SLOTS, SLOTS); /* not enough yet */
    assert_false(request->done);
    node_grow(world, growing.node);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "evicted_objects"), 0);
    assert_int_equal(lookup_status(world, growing.session, "old"), SNOW_OK);
    world_deinit(world);
}

/* A node on a busy host commits slowly: that is no full pool, for which alone the wait time is. */
static void growth_is_waited_for_beyond_the_wait_time(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    struct wire_put_start_req *message = put_message(world, 900, "new", 600 * KIB);

    message->wait_ms = 300;
    struct world_request *request =
        world_ask(world, growing.session, WIRE_put_start, message, 1, 4000);

    world_live(world, 3000 * NS_PER_MS);
    assert_false(request->done);
    node_grow(world, growing.node);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);

    put_end_gen(world, growing.session, "new", request->grants[0].gen, 1);
    message = put_message(world, 901, "newer", 900 * KIB);
    message->wait_ms = 300;
    request = world_ask(world, growing.session, WIRE_put_start, message, 1, 4000);
    world_live(world, 3400 * NS_PER_MS);
    assert_false(request->done);
    world_live(world, 200 * NS_PER_MS); /* 7/8 of the deadline */
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    world_deinit(world);
}

static void growth_that_does_not_come_is_told(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;
    char reason[512] = "";

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    struct world_request *request =
        put_send(world, growing.session, put_message(world, 900, "new", 600 * KIB), 2000);

    world_live(world, 8800 * NS_PER_MS); /* 7/8 of the deadline */
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    memcpy(reason, request->grants[0].reason.at, request->grants[0].reason.size);
    assert_non_null(strstr(reason, "still committing memory: 524288 of 4194304 bytes"));
    world_deinit(world);
}

static void a_full_segment_grows_to_its_end_and_then_evicts(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    for (uint32_t i = 0; i < 40; i++) {
        struct world_request *request;

        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "k%u", i);
        request =
            put_send(world, growing.session, put_message(world, 100 + i, key, 256 * KIB), 5000);
        while (!request->done && growing.node->asked > growing.node->ready)
            node_grow(world, growing.node);
        assert_true(request->done);
        assert_int_equal(request->grants[0].status, SNOW_OK);
        grant_write(world, world_key(key), 256 * KIB, &request->grants[0], 0);
        put_end_gen(world, growing.session, key, request->grants[0].gen, 1);
        if (growing.node->ready < SIZE)
            assert_int_equal(world_metric(world, "evicted_objects"), 0);
    }
    assert_int_equal(growing.node->ready, SIZE);
    assert_true(world_metric(world, "evicted_objects") >= 40 - SIZE / (256 * KIB));
    world_deinit(world);
}

static void a_node_that_finds_no_more_memory_is_full_with_what_it_has(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, SLOTS);
    put(world, growing.session, "old", 400 * KIB);
    struct world_request *request =
        put_send(world, growing.session, put_message(world, 900, "new", 300 * KIB), 5000);

    assert_false(request->done);
    node_say_grown(world, growing.node, 512 * KIB, 512 * KIB, SLOTS, SLOTS);
    assert_int_equal(world_metric(world, "offers_shrunk"), 1);
    assert_int_equal(world_metric(world, "pool_bytes"), 512 * KIB);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "evicted_objects"), 1);
    /* The host has memory again: it is used before anything else goes. */
    node_say_grown(world, growing.node, SIZE, 512 * KIB, SLOTS, SLOTS);
    assert_int_equal(world_metric(world, "pool_bytes"), SIZE);
    request = put_send(world, growing.session, put_message(world, 901, "more", 600 * KIB), 5000);
    assert_false(request->done);
    node_grow(world, growing.node);
    assert_true(request->done);
    assert_int_equal(world_metric(world, "evicted_objects"), 1);
    world_deinit(world);
}

static void slots_grow_as_bytes_do(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;
    struct world_request *request = NULL;

    (void)state;
    growing_open(&growing, SIZE, 8);
    for (uint32_t i = 0; i < 20; i++) {
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "k%u", i);
        request = put_send(world, growing.session, put_message(world, 100 + i, key, 100), 5000);
        if (!request->done)
            break;
    }
    assert_false(request->done);
    assert_int_equal(growing.node->asked, SIZE);
    assert_true(growing.node->asked_slots > 8);
    node_grow(world, growing.node);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(world, "evicted_objects"), 0);
    world_deinit(world);
}

static void a_mount_tells_how_far_it_came_and_what_was_asked_is_asked_again(void **state)
{
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, 64);
    uint64_t gen = put(world, growing.session, "a", 400 * KIB);
    uint32_t asks = growing.node->asks;

    assert_true(asks > 0);
    node_break(world, growing.node); /* the answer, or the question, was lost */
    growing.node->ready = 1 * MIB;
    growing.node->slots_ready = 128;
    node_mount(world, growing.node);
    node_tell_all(world, growing.node);
    assert_int_equal(world_metric(world, "ready_bytes"), 1 * MIB);
    assert_int_equal(lookup(world, growing.session, "a")->gen, gen);
    put(world, growing.session, "b", 400 * KIB);
    assert_true(growing.node->asks > asks);
    assert_true(growing.node->asked > 1 * MIB);
    /* One that has less than before is another. */
    node_break(world, growing.node);
    growing.node->ready = 512 * KIB;
    struct world_request *request = node_mount_send(world, growing.node);

    while (request->status == SNOW_BUSY) {
        world_tick(world);
        request = node_mount_send(world, growing.node);
    }
    assert_int_equal(request->status, SNOW_OK);
    assert_int_equal(world_metric(world, "lost_objects"), 2);
    world_deinit(world);
}

static void nonsense_is_counted_and_changes_nothing(void **state)
{
    static const struct {
        uint64_t size;
        uint64_t ready;
        uint32_t slot_count;
        uint32_t slots_ready;
    } bad[] = {
        {SIZE, 256 * KIB, SLOTS, SLOTS},      /* less than before */
        {SIZE, SIZE + 4096, SLOTS, SLOTS},    /* more than it has */
        {2 * SIZE, SIZE, SLOTS, SLOTS},       /* than was mounted */
        {SIZE, 512 * KIB + 1, SLOTS, SLOTS},  /* no whole pages */
        {SIZE, SIZE, SLOTS + 1, SLOTS},       /* slots that are not there */
        {SIZE, SIZE, SLOTS, SLOTS + 1},       /* likewise */
        {SIZE, SIZE, SLOTS, 3},               /* fewer than before */
        {256 * KIB, 512 * KIB, SLOTS, SLOTS}, /* an offer below what is ready */
    };
    struct growing growing;
    struct world *world = &growing.world;

    (void)state;
    growing_open(&growing, 512 * KIB, 64);
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        node_say_grown(world, growing.node, bad[i].size, bad[i].ready, bad[i].slot_count,
                       bad[i].slots_ready);
        assert_int_equal(world_metric(world, "bad_requests"), i + 1);
        assert_int_equal(world_metric(world, "ready_bytes"), 512 * KIB);
        assert_int_equal(world_metric(world, "pool_bytes"), SIZE);
    }
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_ready_bytes_are_given_out_and_more_is_asked_for),
        cmocka_unit_test(a_put_waits_for_growth_and_nothing_is_evicted),
        cmocka_unit_test(growth_is_waited_for_beyond_the_wait_time),
        cmocka_unit_test(growth_that_does_not_come_is_told),
        cmocka_unit_test(a_full_segment_grows_to_its_end_and_then_evicts),
        cmocka_unit_test(a_node_that_finds_no_more_memory_is_full_with_what_it_has),
        cmocka_unit_test(slots_grow_as_bytes_do),
        cmocka_unit_test(a_mount_tells_how_far_it_came_and_what_was_asked_is_asked_again),
        cmocka_unit_test(nonsense_is_counted_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
