/* Objects from and into many buffers, ranges of objects, and where they are put. */
#include "cluster.h"

#define ROUNDS 120
#define OBJECT_MAX ((size_t)(11 * MIB)) /* more than a node has: parts on both */
#define BUFFERS_MAX 40

static int setup(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_SHM, 2, 8 * MIB);
    return 0;
}

static int setup_tcp(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_TCP, 2, 8 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

/* ---- random lists against flat memory ------------------------------------------------------- */

struct world {
    struct cluster *cluster;
    struct rng rng;
    uint8_t *flat;  /* the object */
    uint8_t *apart; /* where buffers lie, with gaps between them */
    struct snow_buffer buffers[BUFFERS_MAX];
    size_t count;
};

static size_t random_size(struct rng *rng)
{
    switch (rng_below(rng, 4)) {
    case 0:
        return (size_t)rng_below(rng, 10);
    case 1:
        return (size_t)rng_below(rng, 5000);
    case 2:
        return (size_t)rng_below(rng, 1 * MIB);
    default:
        return (size_t)rng_below(rng, OBJECT_MAX);
    }
}

/* Cuts `size` bytes into buffers, empty ones among them. */
static void cut(struct world *world, size_t size)
{
    size_t left = size;
    uint8_t *at = world->apart;

    world->count = 1 + (size_t)rng_below(&world->rng, BUFFERS_MAX);
    for (size_t i = 0; i < world->count; i++) {
        size_t here = i + 1 == world->count           ? left
                      : rng_chance(&world->rng, 1, 5) ? 0
                                                      : (size_t)rng_below(&world->rng, left + 1);

        world->buffers[i] = (struct snow_buffer){.at = here == 0 ? NULL : at, .size = here};
        at += here + 3;
        left -= here;
    }
}

/* Between flat memory and the buffers; returns false when they differ (check). */
static bool spread(const struct world *world, const uint8_t *flat, size_t size, bool check)
{
    for (size_t i = 0; i < world->count && size > 0; i++) {
        size_t here = world->buffers[i].size < size ? world->buffers[i].size : size;

        if (here == 0)
            continue;
        if (check && memcmp(world->buffers[i].at, flat, here) != 0)
            return false;
        memcpy(world->buffers[i].at, flat, here);
        flat += here;
        size -= here;
    }
    return true;
}

static void put_random(struct world *world, size_t size, uint64_t seed)
{
    struct snow_put put = {.key = key_of("k"),
                           .size = size,
                           .replicas = size < 3 * MIB ? (uint8_t)rng_between(&world->rng, 1, 2) : 1,
                           .replace = 1};

    fill(world->flat, size, seed);
    if (rng_chance(&world->rng, 1, 3)) {
        put.from = world->flat;
    } else {
        cut(world, size);
        spread(world, world->flat, size, false);
        put.buffers = world->buffers;
        put.buffer_count = world->count;
    }
    assert_int_equal(snow_put(world->cluster->client, &put, 1, NULL), SNOW_OK);
}

static void get_random(struct world *world, size_t size)
{
    uint64_t offset = rng_chance(&world->rng, 1, 3) ? 0 : rng_below(&world->rng, size + 1);
    uint64_t length = rng_chance(&world->rng, 1, 3) ? 0 : rng_below(&world->rng, size - offset + 1);
    size_t wanted = (size_t)(length == 0 ? size - offset : length);
    struct snow_get get = {.key = key_of("k"), .offset = offset, .length = length};

    if (rng_chance(&world->rng, 2, 3)) {
        get.room = wanted + (size_t)rng_below(&world->rng, 5);
        cut(world, get.room);
        get.buffers = world->buffers;
        get.buffer_count = world->count;
    }
    assert_int_equal(snow_get(world->cluster->client, &get, 1, NULL), SNOW_OK);
    assert_int_equal(get.object_size, size);
    assert_int_equal(get.size, wanted);
    if (get.buffers != NULL) {
        assert_true(spread(world, world->flat + offset, wanted, true));
    } else {
        assert_memory_equal(get.to, world->flat + offset, wanted);
        snow_free(get.to);
    }
}

static void any_cut_any_range(void **state)
{
    struct world world = {.cluster = *state,
                          .flat = malloc(OBJECT_MAX),
                          .apart = malloc(OBJECT_MAX + BUFFERS_MAX * 3 + 16)};
    struct snow_item item = {.key = key_of("k")};

    rng_init(&world.rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = random_size(&world.rng);

        put_random(&world, size, (uint64_t)round);
        for (int i = 0; i < 4; i++)
            get_random(&world, size);
        assert_int_equal(snow_remove(world.cluster->client, &item, 1, NULL), SNOW_OK);
    }
    free(world.flat);
    free(world.apart);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void lists_that_do_not_fit(void **state)
{
    struct cluster *cluster = *state;
    struct snow_buffer two[] = {{"12", 2}, {"345", 3}};
    struct snow_buffer none[] = {{NULL, 5}};
    struct snow_buffer huge[] = {{"1", SIZE_MAX}, {"2", 6}};
    struct snow_buffer *many = calloc(LIMIT_ITEM_BUFFERS + 1, sizeof(*many));
    struct snow_put puts[] = {
        {.key = key_of("sum"), .buffers = two, .buffer_count = 2, .size = 6},
        {.key = key_of("both"), .buffers = two, .buffer_count = 2, .size = 5, .from = "12345"},
        {.key = key_of("no count"), .buffers = two, .size = 5},
        {.key = key_of("no list"), .buffer_count = 2, .from = "12345", .size = 5},
        {.key = key_of("null"), .buffers = none, .buffer_count = 1, .size = 5},
        {.key = key_of("overflow"), .buffers = huge, .buffer_count = 2, .size = 5},
        {.key = key_of("reserved"), .from = "12345", .size = 5, .reserved = {1}},
        {.key = key_of("many"), .buffers = many, .buffer_count = LIMIT_ITEM_BUFFERS + 1},
        {.key = key_of("good"), .buffers = two, .buffer_count = 2, .size = 5},
    };
    size_t count = sizeof(puts) / sizeof(puts[0]);

    assert_int_equal(snow_put(cluster->client, puts, count, NULL), SNOW_INVALID);
    for (size_t i = 0; i + 2 < count; i++)
        assert_int_equal(puts[i].status, SNOW_INVALID);
    assert_int_equal(puts[count - 2].status, SNOW_LIMIT);
    assert_int_equal(puts[count - 1].status, SNOW_OK);
    free(many);
}

static void ranges_that_do_not_fit(void **state)
{
    struct cluster *cluster = *state;
    char to[4] = "abc";
    struct snow_put put = {.key = key_of("ten"), .from = "0123456789", .size = 10};
    struct snow_get gets[] = {
        {.key = key_of("ten"), .offset = 11},
        {.key = key_of("ten"), .offset = 10, .length = 1},
        {.key = key_of("ten"), .offset = 2, .length = UINT64_MAX},
        {.key = key_of("ten"), .offset = 3, .to = to, .room = 4},
        {.key = key_of("ten"), .offset = 10, .to = to, .room = 4},
        {.key = key_of("ten"), .offset = 7, .to = to, .room = 4},
        {.key = key_of("ten"), .reserved = {1}},
    };

    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, gets, 7, NULL), SNOW_INVALID);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gets[i].status, SNOW_INVALID);
        assert_int_equal(gets[i].object_size, 10);
        assert_null(gets[i].to);
    }
    assert_int_equal(gets[3].status, SNOW_LIMIT);
    assert_int_equal(gets[3].size, 7);
    assert_int_equal(gets[4].status, SNOW_OK);
    assert_int_equal(gets[4].size, 0);
    assert_int_equal(gets[5].status, SNOW_OK);
    assert_memory_equal(to, "789", 4);
    assert_int_equal(gets[6].status, SNOW_INVALID);
}

static void reserved_members(void **state)
{
    struct cluster *cluster = *state;
    struct snow_call call = {.reserved = {0, 7}};
    struct snow_stat stat = {.key = key_of("k")};
    struct snow_item item = {.key = key_of("k"), .reserved = {1}};
    struct snow_options options;
    struct snow_client *client = NULL;
    const char *reason = "";

    assert_int_equal(snow_exists(cluster->client, &stat, 1, &call), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "reserved"));
    call = (struct snow_call){.spare = 1};
    assert_int_equal(snow_exists(cluster->client, &stat, 1, &call), SNOW_INVALID);
    assert_int_equal(snow_remove(cluster->client, &item, 1, NULL), SNOW_INVALID);
    snow_options_init(&options);
    options.reserved[sizeof(options.reserved) / sizeof(options.reserved[0]) - 1] = 1;
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_INVALID);
    assert_non_null(strstr(reason, "reserved"));
}

/* ---- where ---------------------------------------------------------------------------------- */

struct used {
    const char *name;
    uint64_t bytes;
};

static int on_node(void *owner, const struct snow_node *row)
{
    struct used *used = owner;

    if (strcmp(row->name, used->name) == 0)
        used->bytes = row->used;
    return 0;
}

static uint64_t used_by(struct cluster *cluster, const char *name)
{
    struct used used = {.name = name};

    assert_int_equal(snow_nodes(cluster->client, on_node, &used, NULL), SNOW_OK);
    return used.bytes;
}

static void the_preferred_segment(void **state)
{
    static const char *const names[] = {"first", "other", "first", "other", "nowhere"};
    struct cluster *cluster = *state;
    uint8_t *bytes = calloc(1, 256 * KIB);
    struct snow_call call = {0};

    for (int i = 0; i < 5; i++) {
        struct snow_put put = {.key = {.at = &i, .size = sizeof(i)}, .from = bytes};
        uint64_t before = used_by(cluster, names[i]);

        put.size = 256 * KIB;
        call.segment = names[i];
        assert_int_equal(snow_put(cluster->client, &put, 1, &call), SNOW_OK);
        if (i < 4)
            assert_int_equal(used_by(cluster, names[i]), before + put.size);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_any_range),      cmocka_unit_test(lists_that_do_not_fit),
        cmocka_unit_test(ranges_that_do_not_fit), cmocka_unit_test(reserved_members),
        cmocka_unit_test(the_preferred_segment),
    };

    return cmocka_run_group_tests_name("within the host", tests, setup, teardown) +
           cmocka_run_group_tests_name("by TCP", tests, setup_tcp, teardown);
}
