/* Many threads, one client: random puts, gets and removes, every byte verified; and forks. */
#include "cluster.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define ROUNDS 150
#define KEYS 64
#define BATCH_MAX 12
#define SIZE_MAX_ (128 * KIB)

struct worker {
    struct cluster *cluster;
    struct snow_client *client;
    int index;
    int failures;
    int got;
    pthread_t thread;
};

/* A value tells its key and the number of its write: any byte of another one shows. */
static size_t value_size(uint64_t key, uint64_t write)
{
    return (size_t)((key * 7919 + write * 104729) % SIZE_MAX_);
}

static void value_fill(uint8_t *at, uint64_t key, uint64_t write, size_t size)
{
    uint64_t head[2] = {key, write};
    struct rng rng;

    rng_init(&rng, key << 32 | write);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = i == 0 ? head[0] : i == 8 ? head[1] : rng_next(&rng);

        memcpy(at + i, &word, size - i < 8 ? size - i : 8);
    }
}

static bool value_is_whole(const uint8_t *at, size_t size, uint64_t key, uint8_t *scratch)
{
    uint64_t head[2];

    if (size < 16)
        return false;
    memcpy(head, at, sizeof(head));
    if (head[0] != key || value_size(head[0], head[1]) + 16 != size)
        return false;
    value_fill(scratch, head[0], head[1], size);
    return memcmp(at, scratch, size) == 0;
}

struct batch {
    uint64_t numbers[BATCH_MAX];
    char names[BATCH_MAX][24];
    struct snow_put puts[BATCH_MAX];
    struct snow_get gets[BATCH_MAX];
    struct snow_item items[BATCH_MAX];
    uint8_t *memory[BATCH_MAX];
};

static void put_some(struct worker *worker, struct batch *batch, struct rng *rng, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t write = rng_next(rng) >> 8;
        size_t size = value_size(batch->numbers[i], write) + 16;

        value_fill(batch->memory[i], batch->numbers[i], write, size);
        batch->puts[i] = (struct snow_put){.key = key_of(batch->names[i]),
                                           .from = batch->memory[i],
                                           .size = size,
                                           .depth = SNOW_DEPTH_UNKNOWN,
                                           .replicas = (uint8_t)rng_between(rng, 1, 2),
                                           .replace = rng_chance(rng, 1, 3)};
    }
    snow_put(worker->client, batch->puts, count, NULL);
    for (size_t i = 0; i < count; i++)
        worker->failures += snow_status_verdict(batch->puts[i].status) != SNOW_DONE;
}

static void get_some(struct worker *worker, struct batch *batch, size_t count, uint8_t *scratch)
{
    for (size_t i = 0; i < count; i++)
        batch->gets[i] = (struct snow_get){.key = key_of(batch->names[i]),
                                           .to = batch->memory[i],
                                           .room = SIZE_MAX_ + 16};
    snow_get(worker->client, batch->gets, count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (batch->gets[i].status == SNOW_NOT_FOUND)
            continue;
        worker->got++;
        worker->failures +=
            batch->gets[i].status != SNOW_OK ||
            !value_is_whole(batch->gets[i].to, batch->gets[i].size, batch->numbers[i], scratch);
    }
}

static void remove_some(struct worker *worker, struct batch *batch, size_t count)
{
    for (size_t i = 0; i < count; i++)
        batch->items[i].key = key_of(batch->names[i]);
    snow_remove(worker->client, batch->items, count, NULL);
    for (size_t i = 0; i < count; i++)
        worker->failures +=
            batch->items[i].status != SNOW_OK && batch->items[i].status != SNOW_NOT_FOUND;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct batch *batch = calloc(1, sizeof(*batch));
    uint8_t *scratch = malloc(SIZE_MAX_ + 16);
    struct rng rng;

    rng_init(&rng, (uint64_t)worker->index + 1);
    for (int i = 0; i < BATCH_MAX; i++)
        batch->memory[i] = malloc(SIZE_MAX_ + 16);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = (size_t)rng_between(&rng, 1, BATCH_MAX);
        uint64_t kind = rng_below(&rng, 10);

        for (size_t i = 0; i < count; i++) {
            batch->numbers[i] = rng_below(&rng, KEYS);
            snprintf(batch->names[i], sizeof(batch->names[i]), "key-%d", (int)batch->numbers[i]);
        }
        if (kind < 4)
            put_some(worker, batch, &rng, count);
        else if (kind < 9)
            get_some(worker, batch, count, scratch);
        else
            remove_some(worker, batch, count);
    }
    for (int i = 0; i < BATCH_MAX; i++)
        free(batch->memory[i]);
    free(batch);
    free(scratch);
    return NULL;
}

static void run_workers(struct cluster *cluster, bool own_clients)
{
    struct worker workers[THREADS] = {{0}};
    int got = 0;

    for (int i = 0; i < THREADS; i++) {
        workers[i].cluster = cluster;
        workers[i].index = i;
        workers[i].client = own_clients ? open_client(cluster, 20000) : cluster->client;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
        got += workers[i].got;
        if (own_clients)
            snow_close(workers[i].client);
    }
    assert_true(got > 0);
}

static void one_client_many_threads(void **state)
{
    run_workers(*state, false);
}

static void many_clients(void **state)
{
    run_workers(*state, true);
}

#define LARGE ((size_t)(6 * MIB))
#define LARGE_THREADS 3

/* Each thread has keys of its own: what it reads is what it wrote last. */
static void *copy_large(void *argument)
{
    struct worker *worker = argument;
    uint8_t *wrote = malloc(LARGE);
    uint8_t *got = malloc(LARGE);
    char name[24];

    snprintf(name, sizeof(name), "large-%d", worker->index);
    for (uint64_t round = 0; round < 12; round++) {
        size_t size = LARGE - round * 100001;
        struct snow_buffer halves[2] = {{.at = got, .size = size / 3},
                                        {.at = got + size / 3, .size = size - size / 3}};
        struct snow_put put = {.key = key_of(name), .from = wrote, .size = size, .replace = 1};
        struct snow_get get = {
            .key = key_of(name), .room = size, .buffers = halves, .buffer_count = 2};

        fill(wrote, size, round * 10 + (uint64_t)worker->index);
        worker->failures += snow_put(worker->client, &put, 1, NULL) != SNOW_OK;
        worker->failures += snow_get(worker->client, &get, 1, NULL) != SNOW_OK ||
                            get.size != size || memcmp(wrote, got, size) != 0;
    }
    free(wrote);
    free(got);
    return NULL;
}

/* Large copies are split over threads that all share, of one client. */
static void large_copies(void **state)
{
    struct cluster *cluster = open_cluster_by(SNOW_TRANSPORT_SHM, 1, 80 * MIB);
    struct snow_options options;
    struct worker workers[LARGE_THREADS] = {{0}};
    struct snow_client *client = NULL;
    const char *reason = "";

    (void)state;
    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.transport = SNOW_TRANSPORT_SHM;
    options.copy_threads = 65;
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_INVALID);
    assert_non_null(strstr(reason, "copy_threads"));
    options.copy_threads = 4;
    assert_int_equal(snow_open(&options, &client, &reason), SNOW_OK);
    for (int i = 0; i < LARGE_THREADS; i++) {
        workers[i] = (struct worker){.cluster = cluster, .client = client, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, copy_large, &workers[i]), 0);
    }
    for (int i = 0; i < LARGE_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    /* A child of a fork has no helpers, and waits for none. */
    int exit_status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        snow_close(client);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
    snow_close(client);
    close_cluster(cluster);
}

/* The child of a fork is refused, and its closing leaves the parent's connections alone. */
static void a_fork(void **state)
{
    struct cluster *cluster = *state;
    struct snow_put put = {.key = key_of("before the fork"), .from = "v", .size = 1};
    struct snow_get get = {.key = key_of("before the fork")};
    int exit_status = 0;
    pid_t child;

    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool refused = snow_get(cluster->client, &get, 1, NULL) == SNOW_CLOSED &&
                       get.status == SNOW_CLOSED && snow_reason()[0] != 0;

        snow_close(cluster->client);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    snow_free(get.to);
}

static int setup(void **state)
{
    struct cluster *cluster = open_cluster(2, 8 * MIB);

    snow_close(cluster->client);
    cluster->client = open_client(cluster, 20000);
    *state = cluster;
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_many_threads),
        cmocka_unit_test(many_clients),
        cmocka_unit_test(large_copies),
        cmocka_unit_test(a_fork),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
