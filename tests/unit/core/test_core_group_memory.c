/* What groups cost the master: the same objects once with groups and once without. */
#include "groups.h"

#define MEMBERS 4u
#define BATCH 256u /* groups of one message */

static uint32_t groups_count(void)
{
    const char *given = getenv("GROUPS");

    /* A little less than whole chunks of the pools. */
    return given == NULL ? 16384 - BATCH : (uint32_t)strtoul(given, NULL, 10) / BATCH * BATCH;
}

/* A batch of groups "group-<n>" with their members, or of these objects alone. */
static void put_batch(struct small_world *small, uint32_t first, bool grouped)
{
    struct world *world = &small->world;
    uint32_t count = BATCH * MEMBERS;
    struct wire_put_start_req *put = world_take(world, 1, sizeof(*put));
    struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

    put->operation = world->token + 1;
    put->items = world_take(world, count, sizeof(*put->items));
    put->items_count = end->items_count = count;
    put->groups = world_take(world, BATCH, sizeof(*put->groups));
    put->groups_count = grouped ? BATCH : 0;
    put->members = world_take(world, count, sizeof(*put->members));
    put->members_count = grouped ? count : 0;
    end->items = world_take(world, count, sizeof(*end->items));
    for (uint32_t i = 0; i < count; i++) {
        char *id = world_take(world, 1, 32);
        char *key = world_take(world, 1, 32);

        snprintf(id, 32, "group-%07u", first + i / MEMBERS);
        snprintf(key, 32, "group-%07u.%u", first + i / MEMBERS, i % MEMBERS);
        put->groups[i / MEMBERS] = (struct wire_put_group){.id = world_key(id), .size = MEMBERS};
        put->members[i] =
            (struct wire_put_member){.item = i, .group = i / MEMBERS, .index = i % MEMBERS};
        put->items[i] =
            (struct wire_put_item){.key = world_key(key), .size = 256, .depth = 1, .replicas = 1};
    }
    struct world_request *request = put_send(world, small->session, put, 60000);

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(request->grants[i].status, SNOW_OK);
        end->items[i] = (struct wire_written){.key = put->items[i].key,
                                              .gen = request->grants[i].gen,
                                              .replicas = 1};
    }
    request = world_ask(world, small->session, WIRE_put_end, end, count, 10000);
    assert_true(request->done);
}

static uint64_t memory_of(uint32_t groups, bool grouped)
{
    struct small_world small;
    struct world *world = &small.world;
    uint32_t objects = groups * MEMBERS;

    world_init(world);
    world->unchecked = true;
    world->options.group_forming_percent = 90;
    world_open(world);
    small.node = node_start(world, (uint64_t)objects * 300, objects + objects / 8);
    small.session = session_open(world, 0);
    uint64_t before = world_metric(world, "memory_bytes");

    for (uint32_t first = 0; first < groups; first += BATCH) {
        put_batch(&small, first, grouped);
        core_outputs_reset(&world->outputs); /* and what the test keeps of them */
        world->unread = &world->outputs.first;
        arena_deinit(&world->arena);
        arena_init(&world->arena, 0);
    }
    assert_int_equal(world_metric(world, "objects"), objects);
    assert_int_equal(world_metric(world, "groups"), grouped ? groups : 0);
    assert_int_equal(world_metric(world, "groups_completed"), grouped ? groups : 0);
    core_check(world->core);
    uint64_t bytes = world_metric(world, "memory_bytes") - before;

    world_deinit(world);
    return bytes;
}

/* 112 bytes a group, 16 a member, its id (13 bytes: 16 with its length) and its place in the
 * index. */
static void test_bytes_a_group(void **state)
{
    uint32_t groups = groups_count();
    uint64_t with = memory_of(groups, true);
    uint64_t without = memory_of(groups, false);
    uint64_t each = (with - without) / groups;

    (void)state;
    printf("  %u groups of %u members: %llu bytes a group, id and members among them\n", groups,
           MEMBERS, (unsigned long long)each);
    assert_in_range(each, 112, 112 + 4 * MEMBERS + 16 + 14 + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_a_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
