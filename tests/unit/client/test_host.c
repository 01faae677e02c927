/* Segments inside the processes that use them: opened and closed with the client, for everybody. */
#include "cluster.h"

#define ITEMS 16
#define ITEM_SIZE (128 * KIB)

static struct snow_client *open_local(struct cluster *cluster, uint32_t transport,
                                      const struct snow_segment *segment, bool local_first)
{
    struct snow_options options;
    struct snow_client *client = NULL;
    const char *reason;

    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.transport = transport;
    options.segment = segment;
    options.local_first = local_first;
    if (snow_open(&options, &client, &reason) != SNOW_OK)
        fail_msg("%s", reason);
    return client;
}

static struct snow_client *open_host(struct cluster *cluster, uint32_t transport,
                                     const struct snow_segment *segment)
{
    return open_local(cluster, transport, segment, false);
}

static void put_some(struct snow_client *client, const char *name, const char *segment)
{
    uint8_t *data = malloc(ITEM_SIZE);
    struct snow_call call = {.segment = segment};

    for (int i = 0; i < ITEMS; i++) {
        char key[32];

        snprintf(key, sizeof(key), "%s-%d", name, i);
        fill(data, ITEM_SIZE, (uint64_t)i);
        struct snow_put put = {.key = key_of(key), .from = data, .size = ITEM_SIZE};

        assert_int_equal(snow_put(client, &put, 1, &call), SNOW_OK);
    }
    free(data);
}

/* How many are there; each that is must be whole. */
static int get_some(struct snow_client *client, const char *name)
{
    uint8_t *data = malloc(ITEM_SIZE);
    uint8_t *wanted = malloc(ITEM_SIZE);
    int found = 0;

    for (int i = 0; i < ITEMS; i++) {
        char key[32];

        snprintf(key, sizeof(key), "%s-%d", name, i);
        struct snow_get get = {.key = key_of(key), .to = data, .room = ITEM_SIZE};
        enum snow_status status = snow_get(client, &get, 1, NULL);

        if (status == SNOW_NOT_FOUND)
            continue;
        assert_int_equal(status, SNOW_OK);
        assert_int_equal(get.size, ITEM_SIZE);
        fill(wanted, ITEM_SIZE, (uint64_t)i);
        assert_memory_equal(data, wanted, ITEM_SIZE);
        found++;
    }
    free(data);
    free(wanted);
    return found;
}

/* Two processes that give memory see each other's objects; with the end of one, what it held is
 * gone for the other, at once. */
static void two_hosts(uint32_t transport)
{
    struct cluster *cluster = open_cluster(0, 0);
    struct snow_segment first = {.size = 32 * MIB, .name = "one"};
    struct snow_segment second = {.size = 32 * MIB, .name = "two"};
    struct snow_client *one = open_host(cluster, transport, &first);
    struct snow_client *two = open_host(cluster, transport, &second);
    struct snow_hosted hosted;

    put_some(one, "a", "one");
    put_some(one, "b", "two");
    put_some(two, "c", "two");
    assert_int_equal(get_some(one, "a") + get_some(one, "b") + get_some(one, "c"), 3 * ITEMS);
    assert_int_equal(get_some(two, "a") + get_some(two, "b") + get_some(two, "c"), 3 * ITEMS);
    assert_int_equal(snow_hosted(one, &hosted), SNOW_OK);
    assert_int_equal(hosted.size, 32 * MIB);
    assert_true(hosted.ready >= ITEMS * ITEM_SIZE && hosted.ready < 32 * MIB); /* as needed */
    assert_true(hosted.mounted == 1 && hosted.incarnation != 0);
    assert_non_null(strchr(hosted.address, ':'));

    uint64_t from_ns = env_now_ns(cluster->env);

    snow_close(one);
    assert_int_equal(get_some(two, "a"), 0);
    assert_true(env_now_ns(cluster->env) - from_ns < 3 * NS_PER_S); /* nobody waited for it */
    assert_int_equal(get_some(two, "b"), ITEMS);
    put_some(two, "a", NULL);
    assert_int_equal(get_some(two, "a"), ITEMS);
    snow_close(two);
    close_cluster(cluster);
}

static void test_two_hosts(void **state)
{
    (void)state;
    two_hosts(SNOW_TRANSPORT_ANY);
}

static void test_two_hosts_over_tcp(void **state)
{
    (void)state;
    two_hosts(SNOW_TRANSPORT_TCP);
}

static void test_two_hosts_over_shm(void **state)
{
    (void)state;
    two_hosts(SNOW_TRANSPORT_SHM);
}

static int on_node(void *owner, const struct snow_node *row)
{
    uint64_t *used = owner;

    if (strcmp(row->name, "own") == 0)
        used[0] = row->used;
    else if (strcmp(row->name, "other") == 0)
        used[1] = row->used;
    return 0;
}

/* What a process puts goes to its own segment, as long as that has room or can make it. */
static void test_local_first(void **state)
{
    struct cluster *cluster = open_cluster(0, 0);
    struct snow_segment own = {.size = 8 * MIB, .name = "own"};
    struct snow_segment other = {.size = 8 * MIB, .name = "other"};
    struct snow_client *two = open_host(cluster, SNOW_TRANSPORT_ANY, &other);
    struct snow_client *one = open_local(cluster, SNOW_TRANSPORT_ANY, &own, true);
    uint64_t used[2] = {0};

    (void)state;
    for (int round = 0; round < 8; round++) { /* twice what it holds */
        char name[16];

        snprintf(name, sizeof(name), "r%d", round);
        put_some(one, name, NULL);
    }
    assert_int_equal(get_some(two, "r7"), ITEMS);
    assert_int_equal(snow_nodes(one, on_node, used, NULL), SNOW_OK);
    assert_true(used[0] > 4 * MIB && used[1] == 0);
    put_some(one, "named", "other"); /* its own word comes before */
    assert_int_equal(snow_nodes(one, on_node, used, NULL), SNOW_OK);
    assert_int_equal(used[1], ITEMS * ITEM_SIZE);
    snow_close(one);
    snow_close(two);
    close_cluster(cluster);
}

/* A view of the own segment outlives it. */
static void test_view_outlives(void **state)
{
    struct cluster *cluster = open_cluster(0, 0);
    struct snow_segment segment = {.size = 8 * MIB};
    struct snow_client *client = open_host(cluster, SNOW_TRANSPORT_SHM, &segment);
    uint8_t *wanted = malloc(ITEM_SIZE);

    (void)state;
    put_some(client, "a", NULL);
    struct snow_view view = {.key = key_of("a-3")};

    assert_int_equal(snow_view(client, &view, 1, NULL), SNOW_OK);
    assert_int_equal(view.copied, 0);
    snow_close(client);
    fill(wanted, ITEM_SIZE, 3);
    assert_memory_equal(view.at, wanted, ITEM_SIZE);
    snow_view_end(&view, 1);
    free(wanted);
    close_cluster(cluster);
}

/* Memory is committed as it is needed: offers may be larger than the host, several times over. */
/* More than most hosts have.  The thread sanitizer leaves little room for addresses. */
#ifdef __SANITIZE_THREAD__
#define HUGE_OFFER (64 * GIB)
#else
#define HUGE_OFFER (1 * TIB)
#endif

static void test_large_offers(void **state)
{
    struct cluster *cluster = open_cluster(0, 0);
    struct snow_segment segment = {.size = 3 * GIB};
    struct snow_segment huge = {.size = HUGE_OFFER};
    uint64_t before = env_resident_bytes();
    struct snow_client *one = open_host(cluster, SNOW_TRANSPORT_ANY, &segment);
    struct snow_client *two = open_host(cluster, SNOW_TRANSPORT_ANY, &segment);
    struct snow_client *three = open_host(cluster, SNOW_TRANSPORT_ANY, &huge);

    (void)state;
    assert_true(env_resident_bytes() < before + 256 * MIB);
    put_some(one, "a", NULL);
    assert_int_equal(get_some(two, "a"), ITEMS);
    snow_close(three);
    snow_close(two);
    snow_close(one);
    close_cluster(cluster);
}

static void refuse(struct cluster *cluster, const struct snow_segment *segment,
                   enum snow_status status, const char *says)
{
    struct snow_options options;
    struct snow_client *client = NULL;
    const char *reason = "";

    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.segment = segment;
    assert_int_equal(snow_open(&options, &client, &reason), status);
    assert_null(client);
    if (strstr(reason, says) == NULL)
        fail_msg("%s", reason);
}

static void test_bad_segments(void **state)
{
    struct cluster *cluster = open_cluster(0, 0);
    char text[300];
    struct snow_hosted hosted;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    refuse(cluster, &(struct snow_segment){.size = 1000}, SNOW_INVALID, "1 MiB to 1 TiB");
    refuse(cluster, &(struct snow_segment){.size = 2 * TIB}, SNOW_INVALID, "1 MiB to 1 TiB");
    refuse(cluster, &(struct snow_segment){.size = MIB, .name = text}, SNOW_INVALID, "name");
    refuse(cluster, &(struct snow_segment){.size = MIB, .populate = 2}, SNOW_INVALID, "populate");
    refuse(cluster, &(struct snow_segment){.size = MIB, .spare = 1}, SNOW_INVALID, "reserved");
    refuse(cluster, &(struct snow_segment){.size = MIB, .reserved = {1}}, SNOW_INVALID, "reserved");
    refuse(cluster, &(struct snow_segment){.size = MIB, .listen = "nowhere"}, SNOW_INVALID,
           "listen");
    refuse(cluster, &(struct snow_segment){.size = 1 * TIB, .populate = SNOW_POPULATE_ALL},
           SNOW_NO_SPACE, "memory");
    assert_int_equal(snow_hosted(cluster->client, &hosted), SNOW_NOT_FOUND);
    close_cluster(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hosts),          cmocka_unit_test(test_two_hosts_over_tcp),
        cmocka_unit_test(test_two_hosts_over_shm), cmocka_unit_test(test_local_first),
        cmocka_unit_test(test_view_outlives),      cmocka_unit_test(test_large_offers),
        cmocka_unit_test(test_bad_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
