/* Puts that span calls: whole or not at all, in any order, from many threads. */
#include "cluster.h"

#include <pthread.h>

#define SIZE ((size_t)(11 * MIB)) /* more than a node has: parts on both */

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

static struct snow_writer *open_writer(struct cluster *cluster, const char *key, size_t size,
                                       uint8_t replicas)
{
    struct snow_put item = {
        .key = key_of(key), .size = size, .depth = SNOW_DEPTH_UNKNOWN, .replicas = replicas};
    struct snow_writer *writer = NULL;

    item.replace = strcmp(key, "survives") != 0;
    assert_int_equal(snow_writer_open(cluster->client, &item, 0, NULL, &writer), SNOW_OK);
    assert_non_null(writer);
    return writer;
}

static enum snow_status write_range(struct snow_writer *writer, const uint8_t *bytes,
                                    uint64_t offset, size_t size)
{
    struct snow_write item = {.offset = offset, .from = bytes + offset, .size = size};

    return snow_writer_write(writer, &item, 1, NULL);
}

static void assert_value(struct cluster *cluster, const char *key, const uint8_t *bytes,
                         size_t size)
{
    struct snow_get get = {.key = key_of(key)};

    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    assert_int_equal(get.size, size);
    assert_memory_equal(get.to, bytes, size);
    snow_free(get.to);
}

static enum snow_status there(struct cluster *cluster, const char *key)
{
    struct snow_stat stat = {.key = key_of(key)};

    return snow_exists(cluster->client, &stat, 1, NULL);
}

static void in_any_order(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *bytes = malloc(SIZE);
    struct rng rng;

    rng_init(&rng, 1);
    for (int round = 0; round < 12; round++) {
        size_t size = round % 3 == 0 ? SIZE : (size_t)rng_between(&rng, 40, 3 * MIB);
        uint8_t replicas = round % 3 == 0 ? 1 : (uint8_t)rng_between(&rng, 1, 2);
        struct snow_writer *writer = open_writer(cluster, "order", size, replicas);
        size_t step = size / (size_t)rng_between(&rng, 3, 37) + 1;
        size_t count = (size + step - 1) / step;
        size_t first = (size_t)rng_below(&rng, count);

        fill(bytes, size, (uint64_t)round);
        for (size_t i = 0; i < count; i++) {
            size_t at = (first + i * 5) % count; /* no multiple of 5 steps: every one once */

            if (count % 5 == 0)
                at = count - 1 - i;
            at *= step;
            assert_int_equal(write_range(writer, bytes, at, size - at < step ? size - at : step),
                             SNOW_OK);
        }
        uint32_t shortfall = 9;

        assert_int_equal(snow_writer_commit(writer, &shortfall, NULL), SNOW_OK);
        assert_int_equal(shortfall, 0);
        assert_int_equal(write_range(writer, bytes, 0, 1), SNOW_GONE);
        snow_writer_close(writer);
        assert_value(cluster, "order", bytes, size);
    }
    free(bytes);
}

/* Nothing of it shows before the commit, and a commit of less than the whole leaves it open. */
static void unfinished(void **state)
{
    struct cluster *cluster = *state;
    struct snow_item item = {.key = key_of("unfinished")};
    uint8_t bytes[10000];
    struct snow_writer *writer;

    snow_remove(cluster->client, &item, 1, NULL);
    fill(bytes, sizeof(bytes), 3);
    writer = open_writer(cluster, "unfinished", sizeof(bytes), 1);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_INVALID);
    assert_string_equal(snow_reason(), "10000 of 10000 bytes are missing");
    assert_int_equal(write_range(writer, bytes, 4000, 6000), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_INVALID);
    assert_string_equal(snow_reason(), "4000 of 10000 bytes are missing");
    assert_int_equal(there(cluster, "unfinished"), SNOW_NOT_FOUND);
    assert_int_equal(write_range(writer, bytes, 0, 4000), SNOW_OK);
    assert_int_equal(there(cluster, "unfinished"), SNOW_NOT_FOUND);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    assert_value(cluster, "unfinished", bytes, sizeof(bytes));
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_GONE);
    snow_writer_close(writer);
    assert_int_equal(there(cluster, "unfinished"), SNOW_OK);
}

static void given_up(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put item = {.key = key_of("given up"), .size = 100};
    struct snow_call call = {.flags = SNOW_CALL_NO_WAIT_WRITER};
    struct snow_writer *writer = NULL;
    struct snow_writer *second = NULL;
    uint8_t bytes[100] = {0};

    assert_int_equal(snow_writer_open(cluster->client, &item, 0, NULL, &writer), SNOW_OK);
    assert_int_equal(write_range(writer, bytes, 0, 100), SNOW_OK);
    assert_int_equal(snow_writer_open(cluster->client, &item, 0, &call, &second), SNOW_IN_PROGRESS);
    assert_null(second);
    snow_writer_close(writer);
    assert_int_equal(there(cluster, "given up"), SNOW_NOT_FOUND);
    assert_int_equal(snow_writer_open(cluster->client, &item, 0, NULL, &second), SNOW_OK);
    assert_int_equal(write_range(second, bytes, 0, 100), SNOW_OK);
    assert_int_equal(snow_writer_commit(second, NULL, NULL), SNOW_OK);
    snow_writer_close(second);
    assert_int_equal(snow_writer_open(cluster->client, &item, 0, NULL, &second), SNOW_EXISTS);
    assert_null(second);
}

static void bad_arguments(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put items[] = {
        {.key = key_of("memory"), .size = 1, .from = "x"},
        {.key = key_of("empty"), .size = 0},
        {.key = {.at = NULL, .size = 2}, .size = 1},
        {.key = key_of("copies"), .size = 1, .replicas = LIMIT_REPLICAS + 1},
        {.key = key_of("reserved"), .size = 1, .reserved = {1}},
    };
    struct snow_writer *writer;
    uint8_t bytes[100] = {0};
    struct snow_write writes[] = {
        {.offset = 101, .from = bytes, .size = 0},
        {.offset = 99, .from = bytes, .size = 2},
        {.offset = UINT64_MAX, .from = bytes, .size = 2},
        {.offset = 0, .size = 5},
        {.offset = 0, .from = bytes, .size = 5, .reserved = {1}},
        {.offset = 0, .from = bytes, .size = 50},
        {.offset = 49, .from = bytes, .size = 2},
        {.offset = 10, .from = bytes, .size = 10},
        {.offset = 50, .from = bytes, .size = 50},
    };

    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        assert_int_equal(snow_writer_open(cluster->client, &items[i], 0, NULL, &writer),
                         SNOW_INVALID);
        assert_null(writer);
    }
    writer = open_writer(cluster, "ranges", 100, 1);
    assert_int_equal(snow_writer_write(writer, writes, 9, NULL), SNOW_INVALID);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(writes[i].status, i == 5 || i == 8 ? SNOW_OK : SNOW_INVALID);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);
    snow_writer_close(NULL);
}

/* 1,024 ranges with gaps between them; one more is refused, and the put goes on. */
static void many_gaps(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *bytes = malloc(4096);
    struct snow_writer *writer = open_writer(cluster, "gaps", 4096, 1);

    fill(bytes, 4096, 9);
    for (size_t i = 0; i < LIMIT_WRITE_RANGES; i++)
        assert_int_equal(write_range(writer, bytes, i * 2, 1), SNOW_OK);
    assert_int_equal(write_range(writer, bytes, 4000, 1), SNOW_LIMIT);
    for (size_t i = 0; i < LIMIT_WRITE_RANGES; i++)
        assert_int_equal(write_range(writer, bytes, i * 2 + 1, 1), SNOW_OK);
    assert_int_equal(write_range(writer, bytes, 2048, 2048), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);
    assert_value(cluster, "gaps", bytes, 4096);
    free(bytes);
}

/* A node goes: its copy is given up, the other one is committed; without copies it is over. */
static void a_node_that_goes(void **state)
{
    struct cluster *cluster = open_cluster(2, 8 * MIB);
    uint8_t bytes[20000];
    struct snow_writer *writer = open_writer(cluster, "survives", sizeof(bytes), 2);
    uint32_t shortfall = 0;

    (void)state;
    fill(bytes, sizeof(bytes), 4);
    assert_int_equal(write_range(writer, bytes, 0, 5000), SNOW_OK);
    node_close(cluster->nodes[1]);
    cluster->nodes[1] = NULL;
    assert_int_equal(write_range(writer, bytes, 5000, 5000), SNOW_OK);
    assert_int_equal(write_range(writer, bytes, 10000, 10000), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, &shortfall, NULL), SNOW_OK);
    assert_int_equal(shortfall, 1);
    snow_writer_close(writer);
    assert_value(cluster, "survives", bytes, sizeof(bytes));

    writer = open_writer(cluster, "does not", sizeof(bytes), 1);
    assert_int_equal(write_range(writer, bytes, 0, 5000), SNOW_OK);
    node_close(cluster->nodes[0]);
    cluster->nodes[0] = NULL;
    assert_int_equal(write_range(writer, bytes, 5000, 5000), SNOW_UNREACHABLE);
    assert_int_equal(write_range(writer, bytes, 10000, 10000), SNOW_UNREACHABLE);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_UNREACHABLE);
    snow_writer_close(writer);
    close_cluster(cluster);
}

/* The grant outlasts the calls, and ends when nobody renews it. */
static void the_grant(void **state)
{
    struct cluster *cluster = *state;
    struct snow_call brief = {.deadline_ms = 300};
    struct snow_put item = {.key = key_of("grant"), .size = 200, .replace = 1};
    struct snow_writer *writer = NULL;
    uint8_t bytes[200] = {0};
    uint64_t end_ns;

    assert_int_equal(snow_writer_open(cluster->client, &item, 2500, &brief, &writer), SNOW_OK);
    end_ns = env_now_ns(cluster->env) + 5 * NS_PER_S;
    for (size_t i = 0; env_now_ns(cluster->env) < end_ns; i++) { /* renewed by its writes */
        if (i < 100)
            assert_int_equal(write_range(writer, bytes, i, 1), SNOW_OK);
        else
            assert_int_equal(snow_writer_renew(writer, 2500, NULL), SNOW_OK);
        env_loop_turn(cluster->loop, 30 * NS_PER_MS, 0);
    }
    assert_int_equal(write_range(writer, bytes, 100, 100), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);

    assert_int_equal(snow_writer_open(cluster->client, &item, 1, &brief, &writer), SNOW_OK);
    WAIT_FOR(cluster, snow_writer_renew(writer, 1, NULL) != SNOW_OK ||
                          (env_loop_turn(cluster->loop, 1500 * NS_PER_MS, 0), false));
    assert_int_equal(write_range(writer, bytes, 0, 200), SNOW_GONE);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_GONE);
    snow_writer_close(writer);
}

#define THREADS 8
#define LAYERS 64

struct layer_thread {
    struct snow_writer *writer;
    const uint8_t *bytes;
    size_t index;
    int failures;
    pthread_t thread;
};

static void *write_layers(void *argument)
{
    struct layer_thread *layers = argument;
    size_t size = 32 * KIB;

    for (size_t i = layers->index; i < LAYERS; i += THREADS) {
        /* A layer is a piece of keys and a piece of values. */
        struct snow_buffer buffers[] = {{(void *)(uintptr_t)(layers->bytes + i * size), size / 3},
                                        {(void *)(uintptr_t)(layers->bytes + i * size + size / 3),
                                         size - size / 3}};
        struct snow_write item = {
            .offset = i * size, .size = size, .buffers = buffers, .buffer_count = 2};

        layers->failures += snow_writer_write(layers->writer, &item, 1, NULL) != SNOW_OK;
    }
    return NULL;
}

static void by_many_threads(void **state)
{
    struct cluster *cluster = *state;
    size_t size = LAYERS * 32 * KIB;
    uint8_t *bytes = malloc(size);
    struct snow_writer *writer = open_writer(cluster, "threads", size, 2);
    struct layer_thread threads[THREADS];

    fill(bytes, size, 8);
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = (struct layer_thread){.writer = writer, .bytes = bytes, .index = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, write_layers, &threads[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_int_equal(threads[i].failures, 0);
    }
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);
    assert_value(cluster, "threads", bytes, size);
    free(bytes);
}

/* Layers are handed to a queue one by one. */
static void by_a_queue(void **state)
{
    struct cluster *cluster = *state;
    size_t size = LAYERS * 32 * KIB;
    uint8_t *bytes = malloc(size);
    struct snow_writer *writer = open_writer(cluster, "queued", size, 1);
    struct snow_write items[LAYERS];
    struct snow_completion completions[LAYERS];
    struct snow_queue *queue = NULL;
    size_t taken = 0;
    size_t count;

    fill(bytes, size, 6);
    assert_int_equal(snow_queue_create(cluster->client, NULL, &queue), SNOW_OK);
    for (size_t i = 0; i < LAYERS; i++) {
        items[i] = (struct snow_write){.offset = i * 32 * KIB,
                                       .from = bytes + i * 32 * KIB,
                                       .size = 32 * KIB};
        assert_int_equal(snow_submit_write(queue, writer, &items[i], 1, NULL, i), SNOW_OK);
    }
    for (; taken < LAYERS; taken += count) {
        assert_int_equal(snow_queue_poll(queue, completions + taken, LAYERS - taken, 20000, &count),
                         SNOW_OK);
    }
    for (size_t i = 0; i < LAYERS; i++)
        assert_int_equal(completions[i].status, SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);
    snow_queue_destroy(queue);
    assert_value(cluster, "queued", bytes, size);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_any_order), cmocka_unit_test(unfinished),
        cmocka_unit_test(given_up),     cmocka_unit_test(bad_arguments),
        cmocka_unit_test(many_gaps),    cmocka_unit_test(a_node_that_goes),
        cmocka_unit_test(the_grant),    cmocka_unit_test(by_many_threads),
        cmocka_unit_test(by_a_queue),
    };

    return cmocka_run_group_tests_name("within the host", tests, setup, teardown) +
           cmocka_run_group_tests_name("by TCP", tests, setup_tcp, teardown);
}
