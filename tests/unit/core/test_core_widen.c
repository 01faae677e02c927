/* Widened victims: neighbours that go together, what they cost, and what is told when none may. */
#include "harness.h"

static char *name_of(struct world *world, uint32_t number)
{
    char *key = world_take(world, 1, 16);

    snprintf(key, 16, "k%u", number);
    return key;
}

/* A segment full of objects of one size but for the last one's place: k0 at its start, each put
 * after the one before. */
static uint32_t fill(struct small_world *small, uint64_t segment_size, uint64_t size)
{
    uint32_t count = (uint32_t)(segment_size / size) - 1;

    small_open(small, segment_size);
    for (uint32_t i = 0; i < count; i++)
        put(&small->world, small->session, name_of(&small->world, i), size);
    assert_int_equal(world_metric(&small->world, "free_bytes"), size);
    return count;
}

static void touch(struct small_world *small, uint32_t number)
{
    const char *key = name_of(&small->world, number);

    lookup_send(&small->world, small->session, 0, WIRE_LOOKUP_TOUCH, &key, 1);
}

static void pin_hard(struct small_world *small, uint32_t number)
{
    struct wire_pin_req *pin = world_take(&small->world, 1, sizeof(*pin));

    pin->pin = WIRE_PIN_HARD;
    pin->keys = world_take(&small->world, 1, sizeof(*pin->keys));
    pin->keys[0].key = world_key(name_of(&small->world, number));
    pin->keys_count = 1;
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_pin, pin, 1, 10000);

    assert_int_equal(request->statuses[0].status, SNOW_OK);
}

static bool is_there(struct small_world *small, uint32_t number)
{
    return lookup_status(&small->world, small->session, name_of(&small->world, number)) == SNOW_OK;
}

/* Free bytes in runs of 32 KiB, which pieces may not use: two victims make a run of 128 KiB. */
static void fragments_are_joined_where_it_costs_least(void **state)
{
    struct small_world small;
    uint32_t count = fill(&small, 1 * MIB, 32 * KIB);

    (void)state;
    for (uint32_t i = 1; i < count; i += 2)
        assert_int_equal(remove_key(&small.world, small.session, name_of(&small.world, i)),
                         SNOW_OK);
    /* k0 is the oldest; its neighbours k2 and k4 are young.  Of the next, k20 and k22 are old. */
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 2; i < count; i += 2) {
            if (i != 20 && i != 22)
                touch(&small, i);
        }
    }
    struct world_request *request =
        put_send(&small.world, small.session, put_message(&small.world, 900, "new", 128 * KIB), 99);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_true(request->grants[0].places_count <= 2);
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 2);
    assert_int_equal(world_metric(&small.world, "widened_objects"), 2);
    assert_int_equal(world_metric(&small.world, "widened_bytes"), 64 * KIB);
    assert_false(is_there(&small, 20) || is_there(&small, 22));
    assert_true(is_there(&small, 0));
    world_deinit(&small.world);
}

static void a_large_object_takes_neighbours_not_whatever_is_oldest(void **state)
{
    struct small_world small;
    uint32_t count = fill(&small, 8 * MIB, 64 * KIB);
    uint32_t gone = 0;
    uint32_t first = count;

    (void)state;
    /* Every fourth is old, all over the segment. */
    for (uint32_t i = 0; i < count; i++) {
        if (i % 4 != 0)
            touch(&small, i);
    }
    struct world_request *request =
        put_send(&small.world, small.session, put_message(&small.world, 900, "new", 1 * MIB), 99);

    assert_true(request->done);
    /* The free end of the segment serves as a piece as soon as the rest is there. */
    assert_true(request->grants[0].places_count <= 2);
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 16);
    for (uint32_t i = 0; i < count; i++) {
        if (is_there(&small, i))
            continue;
        gone++;
        first = first < i ? first : i;
        assert_true(i - first < 16);
    }
    assert_int_equal(gone, 16);
    world_deinit(&small.world);
}

static void pins_are_walls(void **state)
{
    struct small_world small;
    uint32_t count = fill(&small, 1 * MIB, 32 * KIB);

    (void)state;
    /* Walls every 128 KiB, but for one gap of 256. */
    for (uint32_t i = 0; i < count; i += 4) {
        if (i != 16)
            pin_hard(&small, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i < 13 || i > 19)
            touch(&small, i);
    }
    struct world_request *request =
        put_send(&small.world, small.session, put_message(&small.world, 900, "new", 192 * KIB), 99);

    /* Free bytes come in the policy's order first; pieces of 64 KiB may serve as well. */
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    for (uint32_t i = 0; i < count; i += 4)
        assert_true(i == 16 || is_there(&small, i));
    world_deinit(&small.world);
}

/* A pool of equal objects of which every second one is pinned for good and the others are gone. */
static void fill_with_walls(struct small_world *small, uint64_t pool, uint64_t size)
{
    uint32_t count = (uint32_t)(pool / size) - 1;

    world_init(&small->world);
    small->world.unchecked = true;
    small->world.options.hard_pin_percent = 90;
    world_open(&small->world);
    small->node = node_start(&small->world, pool, 2 * count + 64);
    small->session = session_open(&small->world, 0);
    for (uint32_t i = 0; i < count; i++)
        put(&small->world, small->session, name_of(&small->world, i), size);
    for (uint32_t i = 0; i < count; i += 2)
        pin_hard(small, i);
    for (uint32_t i = 1; i < count; i += 2)
        remove_key(&small->world, small->session, name_of(&small->world, i));
}

/* No window of neighbours serves, the free bytes do: in pieces, of which there may be 1,024. */
static void take_pieces_of_any_size(uint32_t wait_ms)
{
    struct small_world small;
    struct world_request *request;

    fill_with_walls(&small, 1 * MIB, 32 * KIB);
    request = put_send(&small.world, small.session, put_message(&small.world, 900, "new", 500000),
                       wait_ms);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places_count, 16);
    world_deinit(&small.world);

    fill_with_walls(&small, 8 * MIB, 8 * KIB);
    request = put_send(&small.world, small.session, put_message(&small.world, 9000, "new", 3 * MIB),
                       wait_ms);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places_count, 384);
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 0);
    core_check(small.world.core);
    world_deinit(&small.world);
}

static void pieces_of_any_size_serve_where_no_window_does(void **state)
{
    (void)state;
    take_pieces_of_any_size(100);
}

static void who_does_not_wait_takes_them_too(void **state)
{
    (void)state;
    take_pieces_of_any_size(0);
}

static void too_many_pieces_are_told_as_fragmented_and_by_what(void **state)
{
    struct small_world small;
    char reason[512] = "";

    (void)state;
    fill_with_walls(&small, 12 * MIB, 4 * KIB);
    struct world_request *request =
        put_send(&small.world, small.session, put_message(&small.world, 9000, "new", 5 * MIB), 100);

    world_live(&small.world, 200 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    memcpy(reason, request->grants[0].reason.at, request->grants[0].reason.size);
    assert_non_null(strstr(reason, "fragmented: 6291456 bytes of a segment are free"));
    assert_non_null(strstr(reason, "the longest run is 4096"));
    assert_non_null(strstr(reason, "at least"));
    assert_non_null(strstr(reason, "4194304 hard-pinned"));
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 0);
    world_deinit(&small.world);
}

static void soft_pins_go_only_where_nothing_else_serves(void **state)
{
    struct small_world small;
    uint32_t count = fill(&small, 1 * MIB, 32 * KIB);

    (void)state;
    struct wire_pin_req *pin = world_take(&small.world, 1, sizeof(*pin));

    pin->pin = WIRE_PIN_SOFT;
    pin->keys = world_take(&small.world, 1, sizeof(*pin->keys));
    pin->keys[0].key = world_key("k3");
    pin->keys_count = 1;
    world_ask(&small.world, small.session, WIRE_pin, pin, 1, 10000);
    for (uint32_t i = 1; i < count; i += 2) {
        if (i != 3)
            remove_key(&small.world, small.session, name_of(&small.world, i));
    }
    struct world_request *request =
        put_send(&small.world, small.session, put_message(&small.world, 900, "new", 128 * KIB), 99);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_true(is_there(&small, 3));
    world_deinit(&small.world);
}

/* Old and new do not fit together: the old one goes, and nothing else. */
static void a_replace_evicts_its_own_old_value_first(void **state)
{
    struct small_world small;
    struct world_request *request;

    (void)state;
    small_open(&small, 1 * MIB);
    for (uint32_t i = 0; i < 10; i++)
        put(&small.world, small.session, name_of(&small.world, i), 20 * KIB);
    put(&small.world, small.session, "big", 700 * KIB);
    struct wire_put_start_req *again = put_message(&small.world, 900, "big", 600 * KIB);

    again->items[0].flags = WIRE_PUT_REPLACE;
    request = put_send(&small.world, small.session, again, 1000);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(world_metric(&small.world, "replaced_first"), 1);
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 1);
    grant_write(&small.world, world_key("big"), 600 * KIB, &request->grants[0], WIRE_SLOT_REPLACED);
    request = put_end_gen(&small.world, small.session, "big", request->grants[0].gen, 1);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    /* A pinned one does not. */
    struct wire_pin_req *pin = world_take(&small.world, 1, sizeof(*pin));

    small.world.options.hard_pin_percent = 25;
    pin->pin = WIRE_PIN_HARD;
    pin->keys = world_take(&small.world, 1, sizeof(*pin->keys));
    pin->keys[0].key = world_key("k0");
    pin->keys_count = 1;
    world_ask(&small.world, small.session, WIRE_pin, pin, 1, 10000);
    again = put_message(&small.world, 901, "k0", 1010 * KIB);
    again->items[0].flags = WIRE_PUT_REPLACE;
    request = put_send(&small.world, small.session, again, 100);
    world_live(&small.world, 200 * NS_PER_MS);
    assert_int_equal(request->grants[0].status, SNOW_NO_SPACE);
    assert_int_equal(world_metric(&small.world, "replaced_first"), 1);
    assert_true(is_there(&small, 0));
    world_deinit(&small.world);
}

/* Short runs only, all over the segment: an object takes as many as it needs. */
static void a_large_object_may_have_many_parts(void **state)
{
    struct small_world small;
    uint32_t count = fill(&small, 32 * MIB, 128 * KIB);
    struct world_request *request;
    const struct wire_found *found;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        touch(&small, i);
    for (uint32_t i = 1; i < count; i += 2)
        remove_key(&small.world, small.session, name_of(&small.world, i));
    struct wire_put_start_req *message = put_message(&small.world, 900, "new", 4 * MIB);

    request = put_send(&small.world, small.session, message, 0);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places_count, 32);
    world_deinit(&small.world);

    count = fill(&small, 64 * MIB, 512 * KIB);
    for (uint32_t i = 1; i < count; i += 2)
        remove_key(&small.world, small.session, name_of(&small.world, i));
    message = put_message(&small.world, 900, "new", 15 * MIB);
    request = put_send(&small.world, small.session, message, 0);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places_count, 30);
    assert_int_equal(world_metric(&small.world, "evicted_objects"), 0);
    grant_write(&small.world, world_key("new"), 15 * MIB, &request->grants[0], 0);
    put_end_gen(&small.world, small.session, "new", request->grants[0].gen, 1);
    found = lookup(&small.world, small.session, "new");
    assert_int_equal(found->status, SNOW_OK);
    assert_int_equal(found->places_count, 30);
    /* A restarted master learns it again. */
    world_close(&small.world);
    small.world.start.term++;
    world_open(&small.world);
    node_mount(&small.world, small.node);
    node_tell_all(&small.world, small.node);
    small.session = session_open(&small.world, 0);
    assert_int_equal(lookup(&small.world, small.session, "new")->places_count, 30);
    world_deinit(&small.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_are_joined_where_it_costs_least),
        cmocka_unit_test(a_large_object_takes_neighbours_not_whatever_is_oldest),
        cmocka_unit_test(pins_are_walls),
        cmocka_unit_test(pieces_of_any_size_serve_where_no_window_does),
        cmocka_unit_test(who_does_not_wait_takes_them_too),
        cmocka_unit_test(too_many_pieces_are_told_as_fragmented_and_by_what),
        cmocka_unit_test(soft_pins_go_only_where_nothing_else_serves),
        cmocka_unit_test(a_replace_evicts_its_own_old_value_first),
        cmocka_unit_test(a_large_object_may_have_many_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
