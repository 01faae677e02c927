/* Views: what lies in a node's memory of this host is looked at there. */
#include "cluster.h"

#include <pthread.h>

static int setup(void **state)
{
    *state = open_cluster(1, 8 * MIB);
    return 0;
}

static int setup_tcp(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_TCP, 1, 8 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

static void put_one(struct cluster *cluster, const char *name, uint64_t seed, size_t size)
{
    uint8_t *bytes = malloc(size);
    struct snow_put put = {.key = key_of(name), .from = bytes, .size = size};

    fill(bytes, size, seed);
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    free(bytes);
}

static void is_as_put(const struct snow_view *view, uint64_t seed, size_t size)
{
    uint8_t *bytes = malloc(size);

    fill(bytes, size, seed);
    assert_int_equal(view->size, size);
    assert_memory_equal(view->at, bytes, size);
    free(bytes);
}

static uint64_t node_metric(struct cluster *cluster, const char *name)
{
    uint64_t values[64];

    node_metrics(cluster->nodes[0], values);
    for (uint32_t i = 0; i < node_metric_count(); i++) {
        if (strcmp(node_metric_name(i), name) == 0)
            return values[i];
    }
    fail();
    return 0;
}

static int on_stat(void *owner, const char *name, uint64_t value)
{
    if (strcmp(name, "leased_bytes") == 0)
        *(uint64_t *)owner = value;
    return 0;
}

static uint64_t leased(struct cluster *cluster)
{
    uint64_t value = 0;

    assert_int_equal(snow_stats(cluster->client, on_stat, &value, NULL), SNOW_OK);
    return value;
}

static void remove_one(struct cluster *cluster, const char *name)
{
    struct snow_item item = {.key = key_of(name)};

    assert_int_equal(snow_remove(cluster->client, &item, 1, NULL), SNOW_OK);
}

static void a_view_outlives_its_object(void **state)
{
    struct cluster *cluster = *state;
    struct snow_view views[3] = {{.key = key_of("one")},
                                 {.key = key_of("none")},
                                 {.key = key_of("two")}};

    put_one(cluster, "one", 1, 100000); /* attaches as well */
    put_one(cluster, "two", 2, 5000);
    assert_int_equal(snow_view(cluster->client, views, 3, NULL), SNOW_NOT_FOUND);
    assert_int_equal(views[0].status, SNOW_OK);
    assert_int_equal(views[1].status, SNOW_NOT_FOUND);
    assert_null(views[1].handle);
    assert_int_equal(views[0].copied, 0);
    is_as_put(&views[0], 1, 100000);
    is_as_put(&views[2], 2, 5000);
    assert_true(leased(cluster) >= 105000);
    remove_one(cluster, "one");
    remove_one(cluster, "two");
    assert_int_equal(node_metric(cluster, "marked_held"), 2);
    /* New objects go elsewhere, as many as there is room for. */
    for (uint64_t i = 0; i < 30; i++) {
        char name[16];

        snprintf(name, sizeof(name), "new-%d", (int)i);
        put_one(cluster, name, 100 + i, 400000);
    }
    is_as_put(&views[0], 1, 100000);
    is_as_put(&views[2], 2, 5000);
    snow_view_end(&views[2], 1);
    is_as_put(&views[0], 1, 100000);
    snow_view_end(views, 3);
    snow_view_end(views, 3); /* nothing more */
    assert_int_equal(leased(cluster), 0);
}

static void the_client_may_end_first(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *other = open_client(cluster, 0);
    struct snow_view view = {.key = key_of("key")};
    struct snow_get get = {.key = key_of("key")};

    put_one(cluster, "key", 7, 300000);
    assert_int_equal(snow_get(other, &get, 1, NULL), SNOW_OK);
    snow_free(get.to);
    assert_int_equal(snow_view(other, &view, 1, NULL), SNOW_OK);
    assert_int_equal(view.copied, 0);
    snow_close(other);
    remove_one(cluster, "key");
    is_as_put(&view, 7, 300000);
    snow_view_end(&view, 1);
}

static void what_one_may_hold_is_bounded(void **state)
{
    struct cluster *cluster = *state;
    struct snow_view views[4] = {
        {.key = key_of("a")}, {.key = key_of("b")}, {.key = key_of("c")}, {.key = key_of("d")}};
    struct snow_get get = {.key = key_of("d")};

    put_one(cluster, "a", 1, 1 << 20);
    put_one(cluster, "b", 2, 1 << 20);
    put_one(cluster, "c", 3, 1 << 20);
    put_one(cluster, "d", 4, 1 << 20);
    assert_int_equal(snow_view(cluster->client, &views[0], 1, NULL), SNOW_OK);
    assert_int_equal(snow_view(cluster->client, &views[1], 1, NULL), SNOW_OK);
    assert_int_equal(snow_view(cluster->client, &views[2], 2, NULL), SNOW_LIMIT);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    snow_free(get.to);
    snow_view_end(views, 2);
    assert_int_equal(snow_view(cluster->client, &views[2], 2, NULL), SNOW_OK);
    snow_view_end(views, 4);
}

static void by_tcp_it_is_a_copy(void **state)
{
    struct cluster *cluster = *state;
    struct snow_view view = {.key = key_of("key")};
    struct snow_view bad = {.key = key_of("key"), .reserved = {1}};

    put_one(cluster, "key", 7, 300000);
    assert_int_equal(snow_view(cluster->client, &view, 1, NULL), SNOW_OK);
    assert_int_equal(view.copied, 1);
    remove_one(cluster, "key");
    is_as_put(&view, 7, 300000);
    snow_view_end(&view, 1);
    assert_int_equal(snow_view(cluster->client, &bad, 1, NULL), SNOW_INVALID);
    assert_int_equal(leased(cluster), 0);
}

#define THREADS 4
#define ROUNDS 200

/* Views, put and removed again by all at once, ended by others than those that began them. */
static struct snow_view passed[THREADS];

static void *work(void *argument)
{
    struct cluster *cluster = ((void **)argument)[0];
    uintptr_t number = (uintptr_t)((void **)argument)[1];
    char name[16];

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct snow_view view = {0};
        struct snow_item item;

        snprintf(name, sizeof(name), "%d-%d", (int)number, (int)i);
        put_one(cluster, name, i, 20000);
        view.key = item.key = key_of(name);
        memset(item.reserved, 0, sizeof(item.reserved));
        if (snow_view(cluster->client, &view, 1, NULL) != SNOW_OK)
            continue; /* evicted */
        snow_remove(cluster->client, &item, 1, NULL);
        is_as_put(&view, i, 20000);
        void *handle =
            __atomic_exchange_n(&passed[i % THREADS].handle, view.handle, __ATOMIC_ACQ_REL);
        struct snow_view other = {.handle = handle};

        snow_view_end(&other, 1);
    }
    return NULL;
}

static void many_threads(void **state)
{
    struct cluster *cluster = *state;
    pthread_t threads[THREADS];
    void *arguments[THREADS][2];

    for (uintptr_t i = 0; i < THREADS; i++) {
        arguments[i][0] = cluster;
        arguments[i][1] = (void *)i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, arguments[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    snow_view_end(passed, THREADS);
    assert_int_equal(leased(cluster), 0);
}

#define VIEW_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VIEW_TEST(a_view_outlives_its_object),
        VIEW_TEST(the_client_may_end_first),
        VIEW_TEST(what_one_may_hold_is_bounded),
        cmocka_unit_test_setup_teardown(by_tcp_it_is_a_copy, setup_tcp, teardown),
        VIEW_TEST(many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
