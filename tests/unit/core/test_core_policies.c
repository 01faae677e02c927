/* What each policy evicts first, shown through the core. */
#include "harness.h"

#define PAGE (64 * KIB)
#define PAGES 10u

static uint64_t open_world(struct world *world, uint32_t policy)
{
    world_init(world);
    world->options.policy = policy;
    world_open(world);
    node_mount(world, node_add(world, PAGES * PAGE + PAGE, 64)); /* one page is the reserve */
    node_tell_all(world, &world->nodes[0]);
    return session_open(world, 0);
}

static void put_numbered(struct world *world, uint64_t session, uint32_t number)
{
    char *name = world_take(world, 1, 16);

    snprintf(name, 16, "o%u", number);
    put(world, session, name, PAGE);
}

static bool is_there(struct world *world, uint64_t session, uint32_t number, uint32_t flags)
{
    const char *keys[1];
    char *name = world_take(world, 1, 16);

    snprintf(name, 16, "o%u", number);
    keys[0] = name;
    return lookup_send(world, session, 0, flags, keys, 1)->items[0].status == SNOW_OK;
}

/* Objects 0-9 are there; 0 and 1 are used twice, 5 once; twelve more come. */
static uint64_t play(struct world *world, uint32_t policy)
{
    uint64_t session = open_world(world, policy);

    for (uint32_t i = 0; i < PAGES; i++)
        put_numbered(world, session, i);
    assert_true(is_there(world, session, 0, WIRE_LOOKUP_TOUCH));
    assert_true(is_there(world, session, 1, WIRE_LOOKUP_TOUCH));
    assert_true(is_there(world, session, 0, WIRE_LOOKUP_TOUCH));
    assert_true(is_there(world, session, 1, WIRE_LOOKUP_TOUCH));
    assert_true(is_there(world, session, 5, WIRE_LOOKUP_TOUCH));
    for (uint32_t i = 0; i < 12; i++)
        put_numbered(world, session, 100 + i);
    return session;
}

static void test_lru(void **state)
{
    struct world world;
    uint64_t session = play(&world, CORE_POLICY_LRU);

    (void)state;
    assert_false(is_there(&world, session, 0, 0));
    assert_false(is_there(&world, session, 5, 0));
    assert_false(is_there(&world, session, 101, 0));
    assert_true(is_there(&world, session, 102, 0));
    world_deinit(&world);
}

/* What was used more than once in the small queue outlives what was not; one use is not enough. */
static void test_s3fifo(void **state)
{
    struct world world;
    uint64_t session = play(&world, CORE_POLICY_S3FIFO);

    (void)state;
    assert_true(is_there(&world, session, 0, 0));
    assert_true(is_there(&world, session, 1, 0));
    assert_false(is_there(&world, session, 5, 0));
    /* A ghost comes back to the main queue, past which new ones go. */
    put_numbered(&world, session, 5);
    for (uint32_t i = 0; i < 12; i++)
        put_numbered(&world, session, 200 + i);
    assert_true(is_there(&world, session, 5, 0));
    world_deinit(&world);
}

/* More uses are evicted later; one that is put again goes on with its count. */
static void test_rrc(void **state)
{
    struct world world;
    uint64_t session = play(&world, CORE_POLICY_RRC);
    struct wire_list_req list = {.limit = 100, .prefix = bytes_of_string("o9")};
    struct wire_list_rep *rows;

    (void)state;
    assert_true(is_there(&world, session, 0, 0));
    assert_true(is_there(&world, session, 1, 0));
    assert_true(is_there(&world, session, 5, 0));
    assert_false(is_there(&world, session, 9, 0));
    put_numbered(&world, session, 9);
    rows = world_ask(&world, session, WIRE_list, &list, 1, 1000)->message;
    assert_int_equal(rows->items_count, 1);
    assert_int_equal(rows->items[0].uses, 2);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lru),
        cmocka_unit_test(test_s3fifo),
        cmocka_unit_test(test_rrc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
