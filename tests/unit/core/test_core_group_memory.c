/* What groups cost the master: the same objects once with groups and once without.
 *
 * GROUPS=1000000 makes it a million of them, MEMBERS=64 larger ones. */
#include "groups.h"

static uint32_t asked(const char *name, uint32_t otherwise)
{
    const char *given = getenv(name);

    return given == NULL ? otherwise : (uint32_t)strtoul(given, NULL, 10);
}

static uint32_t members; /* of a group */
static uint32_t batch;   /* groups of one message */

/* A batch of groups "group-<n>" with their members, or of these objects alone. */
static void put_batch(struct small_world *small, uint32_t first, bool grouped)
{
    struct world *world = &small->world;
    uint32_t count = batch * members;
    struct wire_put_start_req *put = world_take(world, 1, sizeof(*put));
    struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

    put->operation = world->token + 1;
    put->items = world_take(world, count, sizeof(*put->items));
    put->items_count = end->items_count = count;
    put->groups = world_take(world, batch, sizeof(*put->groups));
    put->groups_count = grouped ? batch : 0;
    put->members = world_take(world, count, sizeof(*put->members));
    put->members_count = grouped ? count : 0;
    end->items = world_take(world, count, sizeof(*end->items));
    for (uint32_t i = 0; i < count; i++) {
        char *id = world_take(world, 1, 32);
        char *key = world_take(world, 1, 32);

        snprintf(id, 32, "group-%07u", first + i / members);
        snprintf(key, 32, "group-%07u.%u", first + i / members, i % members);
        put->groups[i / members] = (struct wire_put_group){.id = world_key(id), .size = members};
        put->members[i] =
            (struct wire_put_member){.item = i, .group = i / members, .index = i % members};
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
    uint32_t objects = groups * members;

    world_init(world);
    world->unchecked = true;
    world->options.group_forming_percent = 90;
    world_open(world);
    small.node = node_start(world, (uint64_t)objects * 300, objects + objects / 8);
    small.session = session_open(world, 0);
    uint64_t before = world_metric(world, "memory_bytes");
    uint64_t token = world->token;

    for (uint32_t first = 0; first < groups; first += batch) {
        put_batch(&small, first, grouped);
        core_outputs_reset(&world->outputs); /* and what the test keeps of them */
        world->unread = &world->outputs.first;
        arena_deinit(&world->arena);
        arena_init(&world->arena, 0);
        memset(&world->requests[token + 1], 0, 2 * sizeof(world->requests[0]));
        world->token = token;
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
    members = asked("MEMBERS", 4);
    batch = LIMIT_BATCH_ITEMS / members;
    /* A little less than whole chunks of the pools. */
    uint32_t groups = asked("GROUPS", 16384 - batch) / batch * batch;
    uint64_t with = memory_of(groups, true);
    uint64_t without = memory_of(groups, false);
    uint64_t each = (with - without) / groups;

    (void)state;
    printf("  %u groups of %u members: %llu bytes a group, id and members among them\n", groups,
           members, (unsigned long long)each);
    assert_in_range(each, 112, 112 + 4 * members + 16 + 14 + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_a_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
