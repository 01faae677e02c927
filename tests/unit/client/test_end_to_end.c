/* The library against a real master and real nodes: what goes in comes out. */
#include "cluster.h"

static int setup(void **state)
{
    *state = open_cluster(2, 64 * MIB);
    return 0;
}

static int setup_tcp(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_TCP, 2, 64 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

static void put_get_remove(void **state)
{
    struct cluster *cluster = *state;
    uint8_t bytes[10000];
    uint8_t got[10001];
    struct snow_put put = {.key = key_of("a"), .from = bytes, .size = sizeof(bytes)};
    struct snow_get get = {.key = key_of("a"), .to = got, .room = sizeof(got)};
    struct snow_item item = {.key = key_of("a")};

    fill(bytes, sizeof(bytes), 5);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_NOT_FOUND);
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(put.status, SNOW_OK);
    got[10000] = 77;
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    assert_int_equal(get.size, sizeof(bytes));
    assert_memory_equal(got, bytes, sizeof(bytes));
    assert_int_equal(got[10000], 77);
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(put.status, SNOW_EXISTS);
    assert_int_equal(snow_remove(cluster->client, &item, 1, NULL), SNOW_OK);
    assert_int_equal(snow_remove(cluster->client, &item, 1, NULL), SNOW_NOT_FOUND);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_NOT_FOUND);
}

static void sizes(void **state)
{
    static const size_t sizes_of[] = {0,     1,     255,     256,         4096,
                                      65536, 65537, 4 * MIB, 4 * MIB + 1, 9 * MIB + 3};
    struct cluster *cluster = *state;

    for (size_t i = 0; i < sizeof(sizes_of) / sizeof(sizes_of[0]); i++) {
        uint8_t *bytes = malloc(sizes_of[i] + 1);
        char name[32];
        struct snow_put put = {.from = bytes, .size = sizes_of[i]};
        struct snow_get get = {0};

        snprintf(name, sizeof(name), "size-%zu", sizes_of[i]);
        put.key = get.key = key_of(name);
        fill(bytes, sizes_of[i], i);
        assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
        assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
        assert_int_equal(get.size, sizes_of[i]);
        assert_non_null(get.to);
        assert_memory_equal(get.to, bytes, sizes_of[i]);
        snow_free(get.to);
        free(bytes);
    }
}

static void a_long_key(void **state)
{
    struct cluster *cluster = *state;
    char name[4097];
    struct snow_put put = {.key = {.at = name, .size = 4096}, .from = "bytes", .size = 5};
    struct snow_get get = {.key = {.at = name, .size = 4096}};

    memset(name, 'k', sizeof(name));
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    assert_memory_equal(get.to, "bytes", 5);
    snow_free(get.to);
    put.key.size = 4097;
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "4096"));
    get.key.size = 0;
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "4096"));
    struct snow_item item = {.key = {.at = name, .size = 0}};
    struct snow_stat stat = {.key = {.at = name, .size = 4097}};

    assert_int_equal(snow_remove(cluster->client, &item, 1, NULL), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "4096"));
    assert_int_equal(snow_exists(cluster->client, &stat, 1, NULL), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "4096"));
}

static void room_too_small(void **state)
{
    struct cluster *cluster = *state;
    uint8_t got[8] = "unused!";
    struct snow_put put = {.key = key_of("small"), .from = "0123456789", .size = 10};
    struct snow_get get = {.key = key_of("small"), .to = got, .room = 8};

    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_LIMIT);
    assert_int_equal(get.size, 10);
    assert_string_equal((char *)got, "unused!");
}

static void bad_arguments(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put puts[] = {
        {.key = {.at = "", .size = 0}, .from = "x", .size = 1},
        {.key = {.at = NULL, .size = 3}, .from = "x", .size = 1},
        {.key = key_of("no memory"), .from = NULL, .size = 1},
        {.key = key_of("copies"), .from = "x", .size = 1, .replicas = 17},
        {.key = key_of("pin"), .from = "x", .size = 1, .pin = 3},
        {.key = key_of("good"), .from = "x", .size = 1},
    };
    struct snow_get get = {.key = key_of("good"), .to = NULL, .room = 5};
    struct snow_matched matched;
    struct snow_call call = {.flags = SNOW_CALL_FORCE};

    assert_int_equal(snow_put(cluster->client, puts + 5, 1, &call), SNOW_INVALID);
    assert_int_equal(puts[5].status, SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "flag"));
    assert_int_equal(snow_put(cluster->client, puts, 6, NULL), SNOW_INVALID);
    for (int i = 0; i < 5; i++)
        assert_int_equal(puts[i].status, SNOW_INVALID);
    assert_int_equal(puts[5].status, SNOW_OK);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_INVALID);
    assert_int_equal(snow_remove_match(cluster->client, SNOW_MATCH_REGEX, key_of("a("), NULL,
                                       &matched),
                     SNOW_INVALID);
    assert_true(matched.reason[0] != 0);
    assert_string_equal(snow_reason(), matched.reason);
    assert_int_equal(snow_put(cluster->client, NULL, 0, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, NULL, 0, NULL), SNOW_OK);
}

#define MANY 3000

/* A batch of more than a message, with a key twice. */
static void a_long_batch(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put *puts = calloc(MANY, sizeof(*puts));
    struct snow_get *gets = calloc(MANY, sizeof(*gets));
    struct snow_stat *stats = calloc(MANY, sizeof(*stats));
    struct snow_item *items = calloc(MANY, sizeof(*items));
    char(*names)[32] = calloc(MANY, sizeof(*names));
    uint8_t *bytes = malloc(MANY * 300);
    uint8_t *got = calloc(MANY, 300);
    snow_read_id read_id = 0;
    struct snow_call call = {.read_id = &read_id, .flags = SNOW_CALL_LEASE | SNOW_CALL_TOUCH};

    fill(bytes, MANY * 300, 9);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "many-%d", i == 2000 ? 7 : i);
        puts[i] = (struct snow_put){
            .key = key_of(names[i]), .from = bytes + i * 300, .size = 300, .depth = (uint32_t)i};
        gets[i] = (struct snow_get){.key = key_of(names[i]), .to = got + i * 300, .room = 300};
        stats[i].key = items[i].key = key_of(names[i]);
    }
    assert_int_equal(snow_put(cluster->client, puts, MANY, NULL), SNOW_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(puts[i].status, SNOW_OK);
    assert_int_equal(snow_get(cluster->client, gets, MANY, NULL), SNOW_OK);
    for (int i = 0; i < MANY; i++)
        assert_memory_equal(got + i * 300, bytes + (i == 2000 ? 7 : i) * 300, 300);
    assert_int_equal(snow_exists(cluster->client, stats, MANY, &call), SNOW_OK);
    assert_int_not_equal(read_id, 0);
    assert_int_equal(stats[17].size, 300);
    assert_int_not_equal(stats[17].gen, 0);
    snow_remove(cluster->client, items, MANY, NULL);
    for (int i = 0; i < MANY; i++) /* the second of two either joins the first, or finds nothing */
        assert_true(items[i].status == SNOW_OK || (i == 2000 && items[i].status == SNOW_NOT_FOUND));
    free(puts);
    free(gets);
    free(stats);
    free(items);
    free(names);
    free(bytes);
    free(got);
}

static void two_copies_and_replace(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put put = {.key = key_of("copied"), .from = "old value", .size = 9, .replicas = 2};
    uint32_t nodes[2] = {UINT32_MAX, UINT32_MAX};
    struct snow_stat stat = {.key = key_of("copied"), .nodes = nodes, .node_room = 1};
    struct snow_get get = {.key = key_of("copied")};

    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(snow_exists(cluster->client, &stat, 1, NULL), SNOW_OK);
    assert_int_equal(stat.copies, 2); /* and as many numbers as there is room for */
    assert_int_not_equal(nodes[0], UINT32_MAX);
    assert_int_equal(nodes[1], UINT32_MAX);
    assert_int_equal(put.shortfall, 0);
    put.from = "new one";
    put.size = 7;
    put.replace = 1;
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(put.status, SNOW_OK);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    assert_int_equal(get.size, 7);
    assert_memory_equal(get.to, "new one", 7);
    snow_free(get.to);
}

struct seen {
    int rows;
    int pinned;
    uint64_t value;
};

static int on_listed(void *owner, const struct snow_listed *row)
{
    struct seen *seen = owner;

    seen->rows++;
    seen->pinned += row->pin == SNOW_PIN_HARD;
    assert_memory_equal(row->key.at, "list-", 5);
    return 0;
}

static int on_first_listed(void *owner, const struct snow_listed *row)
{
    (void)row;
    ((struct seen *)owner)->rows++;
    return 1;
}

static int on_node(void *owner, const struct snow_node *row)
{
    ((struct seen *)owner)->rows++;
    assert_string_equal(row->state, "alive");
    assert_true(row->size > 0);
    return 0;
}

static int on_value(void *owner, const char *name, uint64_t value)
{
    if (strcmp(name, "puts_done") == 0)
        ((struct seen *)owner)->value = value;
    return 0;
}

/* items: one that is there, one that is not. */
static void check_hints(struct snow_client *client, struct snow_item *items)
{
    struct snow_hints hints = {.flags = SNOW_HINT_PRIORITY | SNOW_HINT_EXPIRES,
                               .priority = 7,
                               .expires_after_ms = 60000};

    assert_int_equal(snow_touch(client, items, 2, &hints, NULL), SNOW_NOT_FOUND);
    assert_int_equal(items[0].status, SNOW_OK);
    assert_int_equal(snow_touch(client, items, 1, NULL, NULL), SNOW_OK);
    assert_int_equal(snow_expire(client, items, 1, UINT32_MAX, NULL), SNOW_OK);
    hints.priority = 8;
    assert_int_equal(snow_touch(client, items, 1, &hints, NULL), SNOW_INVALID);
    hints = (struct snow_hints){.flags = 1u << 30};
    assert_int_equal(snow_touch(client, items, 1, &hints, NULL), SNOW_INVALID);
}

static void what_is_there(void **state)
{
    struct cluster *cluster = *state;
    struct seen seen = {0};
    struct snow_matched matched;
    char names[450][32];
    struct snow_put puts[450];

    for (int i = 0; i < 450; i++) {
        snprintf(names[i], sizeof(names[i]), "list-%d", i);
        puts[i] = (struct snow_put){.key = key_of(names[i]), .from = "v", .size = 1};
    }
    assert_int_equal(snow_put(cluster->client, puts, 450, NULL), SNOW_OK);
    struct snow_item pins[2] = {{.key = key_of("list-5")}, {.key = key_of("absent")}};

    assert_int_equal(snow_pin(cluster->client, pins, 2, SNOW_PIN_HARD, 0, NULL), SNOW_NOT_FOUND);
    assert_int_equal(pins[0].status, SNOW_OK);
    check_hints(cluster->client, pins);
    assert_int_equal(snow_list(cluster->client, key_of("list-"), on_listed, &seen, NULL), SNOW_OK);
    assert_int_equal(seen.rows, 450);
    assert_int_equal(seen.pinned, 1);
    seen.rows = 0;
    assert_int_equal(snow_list(cluster->client, key_of("list-"), on_first_listed, &seen, NULL),
                     SNOW_OK);
    assert_int_equal(seen.rows, 1);
    seen.rows = 0;
    assert_int_equal(snow_nodes(cluster->client, on_node, &seen, NULL), SNOW_OK);
    assert_int_equal(seen.rows, 2);
    assert_int_equal(snow_stats(cluster->client, on_value, &seen, NULL), SNOW_OK);
    assert_true(seen.value >= 450);
    assert_int_equal(snow_remove_match(cluster->client, SNOW_MATCH_PREFIX, key_of("list-"), NULL,
                                       &matched),
                     SNOW_OK);
    assert_int_equal(matched.removed, 450);
}

/* More than the pool: eviction makes room, nothing is refused. */
static void more_than_the_pool(void **state)
{
    struct cluster *cluster = *state;
    size_t size = 1 * MIB;
    uint8_t *bytes = malloc(size);
    char names[40][40];
    struct snow_put puts[40];

    fill(bytes, size, 3);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 40; i++) {
            snprintf(names[i], sizeof(names[i]), "pool-%d-%d", round, i);
            puts[i] = (struct snow_put){.key = key_of(names[i]), .from = bytes, .size = size};
        }
        assert_int_equal(snow_put(cluster->client, puts, 40, NULL), SNOW_OK);
    }
    free(bytes);
}

/* A value whose only node is silent counts as absent: a put takes its place. */
static void a_value_that_is_hidden(void **state)
{
    (void)state;
    for (uint32_t way = SNOW_TRANSPORT_TCP; way <= SNOW_TRANSPORT_SHM; way++) {
        struct cluster *cluster = open_cluster_by(way, 2, 8 * MIB);
        struct snow_put put = {.key = key_of("hidden"), .from = "old", .size = 3};
        struct snow_call call = {.segment = "first"};
        struct snow_get get = {.key = key_of("hidden")};
        uint64_t from_ns = env_now_ns(cluster->env);

        assert_int_equal(snow_put(cluster->client, &put, 1, &call), SNOW_OK);
        node_close(cluster->nodes[0]); /* without a word */
        cluster->nodes[0] = NULL;
        WAIT_FOR(cluster, snow_get(cluster->client, &get, 1, NULL) == SNOW_NOT_FOUND);
        put.from = "new";
        assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
        assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
        assert_memory_equal(get.to, "new", 3);
        snow_free(get.to);
        assert_true(env_now_ns(cluster->env) - from_ns < 4 * NS_PER_S);
        close_cluster(cluster);
    }
}

static void no_master(void **state)
{
    struct cluster *cluster = *state;
    struct snow_options options;
    struct snow_client *client = NULL;
    const char *reason = NULL;

    snow_options_init(&options);
    options.master = "127.0.0.1:1";
    options.deadline_ms = 100;
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_UNREACHABLE);
    assert_non_null(strstr(reason, "127.0.0.1:1"));
    options.master = "nonsense";
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_INVALID);
    options.master = master_address(cluster->master);
    options.token = "wrong";
    options.deadline_ms = 5000;
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_REFUSED);
    assert_non_null(strstr(reason, "token"));
    assert_null(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_remove),
        cmocka_unit_test(sizes),
        cmocka_unit_test(a_long_key),
        cmocka_unit_test(room_too_small),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(a_long_batch),
        cmocka_unit_test(two_copies_and_replace),
        cmocka_unit_test(what_is_there),
        cmocka_unit_test(more_than_the_pool),
        cmocka_unit_test(a_value_that_is_hidden),
        cmocka_unit_test(no_master),
    };

    return cmocka_run_group_tests_name("within the host", tests, setup, teardown) +
           cmocka_run_group_tests_name("by TCP", tests, setup_tcp, teardown);
}
