/* Queues: every item has one completion, the memory is whose it is said to be, and somebody else's
 * loop can drive it all. */
#include "cluster.h"
#include "rpc/rpc.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 64
#define SIZE ((size_t)(40 * KIB))
#define PATIENCE_MS 20000

static int setup(void **state)
{
    *state = open_cluster(2, 16 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

static struct snow_queue *open_queue(struct cluster *cluster, uint32_t depth, uint32_t flags)
{
    struct snow_queue_options options = {.depth = depth, .flags = flags};
    struct snow_queue *queue = NULL;

    assert_int_equal(snow_queue_create(cluster->client, &options, &queue), SNOW_OK);
    return queue;
}

/* ---- a batch of puts, or of gets ------------------------------------------------------------ */

struct batch {
    char names[ITEMS][32];
    uint8_t *bytes[ITEMS];
    struct snow_put puts[ITEMS];
    struct snow_get gets[ITEMS];
    bool told[ITEMS];
    size_t count; /* of told */
    size_t size;
};

static struct batch *make_batch(const char *name, uint64_t seed, size_t size)
{
    struct batch *batch = calloc(1, sizeof(*batch));

    batch->size = size;
    for (size_t i = 0; i < ITEMS; i++) {
        snprintf(batch->names[i], sizeof(batch->names[i]), "%s-%zu", name, i);
        batch->bytes[i] = malloc(size);
        fill(batch->bytes[i], size, seed + i);
        batch->puts[i] = (struct snow_put){.key = key_of(batch->names[i]),
                                           .from = batch->bytes[i],
                                           .size = size};
        batch->gets[i] =
            (struct snow_get){.key = key_of(batch->names[i]), .to = batch->bytes[i], .room = size};
    }
    return batch;
}

static void free_batch(struct batch *batch)
{
    for (size_t i = 0; i < ITEMS; i++)
        free(batch->bytes[i]);
    free(batch);
}

static void forget_told(struct batch *batch)
{
    memset(batch->told, 0, sizeof(batch->told));
    batch->count = 0;
    for (size_t i = 0; i < ITEMS; i++)
        memset(batch->bytes[i], 0xee, batch->size);
}

/* Notes completions of a batch; each item has one, and `last` is the last. */
static void note(struct batch *batch, const struct snow_completion *completions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(completions[i].index < ITEMS);
        assert_false(batch->told[completions[i].index]);
        assert_int_equal(completions[i].status, SNOW_OK);
        batch->told[completions[i].index] = true;
        batch->count++;
        assert_int_equal(completions[i].last, batch->count == ITEMS);
    }
}

static void assert_bytes(const struct batch *batch, uint64_t seed)
{
    uint8_t *expected = malloc(batch->size);

    for (size_t i = 0; i < ITEMS; i++) {
        fill(expected, batch->size, seed + i);
        assert_memory_equal(batch->bytes[i], expected, batch->size);
    }
    free(expected);
}

static void collect(struct snow_queue *queue, struct batch *batch)
{
    struct snow_completion completions[7];
    size_t count;

    while (batch->count < ITEMS) {
        assert_int_equal(snow_queue_poll(queue, completions, 7, PATIENCE_MS, &count), SNOW_OK);
        note(batch, completions, count);
    }
}

static void polled(void **state)
{
    struct snow_queue *queue = open_queue(*state, 0, 0);
    struct batch *batch = make_batch("polled", 1, SIZE);
    struct snow_completion completion;
    size_t count;

    assert_int_equal(snow_queue_poll(queue, &completion, 1, 0, &count), SNOW_TIMEOUT);
    assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS, NULL, 5), SNOW_OK);
    collect(queue, batch);
    forget_told(batch);
    assert_int_equal(snow_submit_get(queue, batch->gets, ITEMS, NULL, 6), SNOW_OK);
    collect(queue, batch);
    assert_bytes(batch, 1);
    assert_int_equal(snow_queue_poll(queue, &completion, 1, 1, &count), SNOW_TIMEOUT);
    snow_queue_destroy(queue);
    free_batch(batch);
}

/* Nothing but the descriptor says when to poll, and no poll waits. */
static uint32_t collect_by_fd(struct snow_queue *queue, struct batch *batch)
{
    struct snow_completion completions[ITEMS];
    uint32_t wakes = 0;
    size_t count;

    for (; batch->count < ITEMS; wakes++) {
        struct pollfd watched = {.fd = snow_queue_fd(queue), .events = POLLIN};

        assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
        if (snow_queue_poll(queue, completions, ITEMS, 0, &count) == SNOW_OK)
            note(batch, completions, count);
    }
    return wakes;
}

static bool is_readable(const struct snow_queue *queue)
{
    struct pollfd watched = {.fd = snow_queue_fd(queue), .events = POLLIN};

    return poll(&watched, 1, 0) == 1;
}

static void by_somebody_elses_loop(void **state)
{
    struct snow_queue *queue = open_queue(*state, 0, 0);
    struct batch *batch = make_batch("foreign", 2, SIZE);
    uint32_t wakes;

    assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS, NULL, 1), SNOW_OK);
    wakes = collect_by_fd(queue, batch);
    forget_told(batch);
    assert_int_equal(snow_submit_get(queue, batch->gets, ITEMS, NULL, 1), SNOW_OK);
    wakes += collect_by_fd(queue, batch);
    assert_bytes(batch, 2);
    assert_in_range(wakes, 2, 100000);
    for (wakes = 0; is_readable(queue); wakes++) { /* it goes out when all is told and done */
        struct snow_completion completion;
        size_t count;

        assert_in_range(wakes, 0, 1000);
        assert_int_equal(snow_queue_poll(queue, &completion, 1, 0, &count), SNOW_TIMEOUT);
    }
    snow_queue_destroy(queue);
    free_batch(batch);
}

/* Deadlines too: the loop's timers are seen from outside. */
static void a_deadline_by_somebody_elses_loop(void **state)
{
    struct cluster *cluster = open_cluster(1, 8 * MIB);
    struct snow_queue *queue = open_queue(cluster, 0, 0);
    struct snow_stat stat = {.key = key_of("k")};
    struct snow_call call = {.deadline_ms = 300};
    struct snow_completion completion;
    size_t count = 0;

    (void)state;
    node_close(cluster->nodes[0]);
    master_close(cluster->master);
    cluster->nodes[0] = NULL;
    cluster->master = NULL;
    assert_int_equal(snow_submit_exists(queue, &stat, 1, &call, 9), SNOW_OK);
    while (count == 0) {
        struct pollfd watched = {.fd = snow_queue_fd(queue), .events = POLLIN};

        assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
        if (snow_queue_poll(queue, &completion, 1, 0, &count) != SNOW_OK)
            count = 0;
    }
    assert_int_equal(completion.tag, 9);
    assert_int_equal(completion.status, SNOW_UNREACHABLE);
    snow_queue_destroy(queue);
    close_cluster(cluster);
}

static void a_thread_of_the_library(void **state)
{
    struct cluster *cluster = *state;
    struct snow_queue *queue = open_queue(cluster, 0, SNOW_QUEUE_THREAD);
    struct batch *batch = make_batch("helped", 3, SIZE);
    struct snow_stat stat = {.key = key_of("helped-0")};

    assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS, NULL, 1), SNOW_OK);
    collect_by_fd(queue, batch);
    forget_told(batch);
    assert_int_equal(snow_submit_get(queue, batch->gets, ITEMS, NULL, 1), SNOW_OK);
    collect(queue, batch);
    assert_bytes(batch, 3);
    assert_int_equal(snow_exists(cluster->client, &stat, 1, NULL), SNOW_OK);
    snow_queue_destroy(queue);
    assert_int_equal(snow_exists(cluster->client, &stat, 1, NULL), SNOW_OK);
    free_batch(batch);
}

/* ---- bounds, bad items ---------------------------------------------------------------------- */

static void the_depth(void **state)
{
    struct cluster *cluster = *state;
    struct snow_queue *queue = open_queue(cluster, 4, 0);
    struct snow_stat stats[5];
    struct snow_completion completions[5];
    struct snow_queue_options options = {.flags = 2};
    struct snow_call call = {.flags = SNOW_CALL_FORCE};
    size_t count = 0;
    size_t taken = 0;

    for (size_t i = 0; i < 5; i++)
        stats[i] = (struct snow_stat){.key = key_of("absent")};
    assert_int_equal(snow_submit_exists(queue, stats, 5, NULL, 1), SNOW_INVALID);
    assert_int_equal(snow_submit_exists(queue, stats, 0, NULL, 1), SNOW_INVALID);
    assert_int_equal(snow_submit_exists(queue, stats, 1, &call, 1), SNOW_INVALID);
    assert_int_equal(snow_submit_exists(queue, stats, 3, NULL, 1), SNOW_OK);
    assert_int_equal(snow_submit_exists(queue, stats + 3, 2, NULL, 2), SNOW_BUSY);
    assert_non_null(strstr(snow_reason(), "full"));
    while (taken < 3) {
        assert_int_equal(snow_queue_poll(queue, completions, 5, PATIENCE_MS, &count), SNOW_OK);
        taken += count;
    }
    assert_int_equal(completions[count - 1].last, 1);
    assert_int_equal(completions[count - 1].status, SNOW_NOT_FOUND);
    assert_int_equal(snow_submit_exists(queue, stats + 3, 2, NULL, 2), SNOW_OK);
    assert_int_equal(snow_queue_poll(queue, completions, 0, 0, &count), SNOW_INVALID);
    snow_queue_destroy(queue);
    assert_int_equal(snow_queue_create(cluster->client, &options, &queue), SNOW_INVALID);
    options = (struct snow_queue_options){.depth = LIMIT_QUEUE_ITEMS + 1};
    assert_int_equal(snow_queue_create(cluster->client, &options, &queue), SNOW_INVALID);
}

static void wrong_items_complete_too(void **state)
{
    struct snow_queue *queue = open_queue(*state, 0, 0);
    struct snow_item items[3] = {{.key = {NULL, 1}}, {.key = key_of("absent")}, {.key = {"", 0}}};
    static const enum snow_status expected[] = {SNOW_INVALID, SNOW_NOT_FOUND, SNOW_INVALID};
    struct snow_completion completions[3];
    size_t taken = 0;
    size_t count;

    assert_int_equal(snow_submit_remove(queue, items, 3, NULL, 77), SNOW_OK);
    for (; taken < 3; taken += count) {
        assert_int_equal(
            snow_queue_poll(queue, completions + taken, 3 - taken, PATIENCE_MS, &count), SNOW_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(completions[i].tag, 77);
        assert_int_equal(completions[i].status, expected[completions[i].index]);
        assert_int_equal(completions[i].last, i == 2);
    }
    snow_queue_destroy(queue);
}

/* ---- ends that come early ------------------------------------------------------------------- */

/* One item is put at once, the other waits for another writer. */
static void submit_one_that_waits(struct snow_queue *queue, struct snow_put puts[2],
                                  const uint8_t *bytes)
{
    static const struct snow_call call = {.wait_ms = 15000, .deadline_ms = 18000};

    puts[0] = (struct snow_put){.key = key_of("small"), .from = bytes, .size = 10, .replace = 1};
    puts[1] = (struct snow_put){
        .key = key_of("waits"), .from = bytes, .size = 10, .replicas = 1, .replace = 0};
    assert_int_equal(snow_submit_put(queue, puts, 2, &call, 3), SNOW_OK);
}

/* Another writer holds the key "waits" and does nothing: an abandoned grant of a client whose
 * node traffic never comes. */
struct holder {
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc;
    struct rpc_conn *conn;
    struct rpc_call call;
    bool open;
    bool granted;
};

static void on_open(void *owner, struct rpc_conn *conn, enum snow_status status,
                    const struct wire_hello_rep *hello)
{
    (void)conn;
    (void)hello;
    assert_int_equal(status, SNOW_OK);
    ((struct holder *)owner)->open = true;
}

static void on_grant(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    const struct wire_put_start_rep *grants = reply;

    (void)last;
    assert_int_equal(status, SNOW_OK);
    assert_int_equal(grants->items[0].status, SNOW_OK);
    list_entry(call, struct holder, call)->granted = true;
}

static void hold_key(struct cluster *cluster, struct holder *holder)
{
    static const struct rpc_service service = {0};
    struct rpc_identity identity = {.role = WIRE_ROLE_CLIENT};
    struct rpc_options options = {.hello_timeout_ms = 5000, .progress_timeout_ms = 5000};
    struct wire_put_item item = {.key = bytes_of_string("waits"), .size = 10, .replicas = 1};
    struct wire_put_start_req request = {.operation = 1, .items = &item, .items_count = 1};

    *holder = (struct holder){.env = cluster->env, .loop = cluster->loop};
    holder->call.on_reply = on_grant;
    assert_int_equal(rpc_create(cluster->loop, &identity, &options, &service, holder, &holder->rpc),
                     SNOW_OK);
    assert_int_equal(rpc_dial(holder->rpc, master_address(cluster->master), 0, 0,
                              env_now_ns(cluster->env) + PATIENCE_NS, holder, on_open,
                              &holder->conn),
                     SNOW_OK);
    WAIT_FOR(cluster, holder->open);
    assert_int_equal(rpc_call_start(holder->conn, &holder->call, WIRE_put_start, &request, NULL,
                                    env_now_ns(cluster->env) + PATIENCE_NS),
                     SNOW_OK);
    WAIT_FOR(cluster, holder->granted);
}

static void the_first_before_the_last(void **state)
{
    struct cluster *cluster = *state;
    struct snow_queue *queue = open_queue(cluster, 0, 0);
    uint8_t *bytes = calloc(1, 10);
    struct snow_put puts[2];
    struct snow_completion completions[2];
    struct holder holder;
    size_t count = 0;

    hold_key(cluster, &holder);
    submit_one_that_waits(queue, puts, bytes);
    assert_int_equal(snow_queue_poll(queue, completions, 2, PATIENCE_MS, &count), SNOW_OK);
    assert_int_equal(count, 1);
    assert_int_equal(completions[0].index, 0);
    assert_int_equal(completions[0].status, SNOW_OK);
    assert_int_equal(completions[0].last, 0);
    assert_int_equal(snow_queue_poll(queue, completions, 2, 0, &count), SNOW_TIMEOUT);
    rpc_destroy(holder.rpc); /* the other writer is gone: the key is this one's now */
    assert_int_equal(snow_queue_poll(queue, completions, 2, PATIENCE_MS, &count), SNOW_OK);
    assert_int_equal(completions[0].index, 1);
    assert_int_equal(completions[0].status, SNOW_OK);
    assert_int_equal(completions[0].last, 1);
    snow_queue_destroy(queue);
    free(bytes);
}

static void cancelled(void **state)
{
    struct cluster *cluster = *state;
    struct snow_queue *queue = open_queue(cluster, 0, 0);
    struct snow_item item = {.key = key_of("waits")};
    uint8_t *bytes = calloc(1, 10);
    struct snow_put puts[2];
    struct snow_completion completions[2];
    struct holder holder;
    size_t taken = 0;
    size_t count;

    snow_remove(cluster->client, &item, 1, NULL);
    hold_key(cluster, &holder);
    submit_one_that_waits(queue, puts, bytes);
    assert_int_equal(snow_queue_cancel(queue, 4), SNOW_NOT_FOUND);
    assert_int_equal(snow_queue_poll(queue, completions, 1, PATIENCE_MS, &count), SNOW_OK);
    assert_int_equal(snow_queue_cancel(queue, 3), SNOW_OK);
    for (; taken < 1; taken += count)
        assert_int_equal(snow_queue_poll(queue, completions, 2, PATIENCE_MS, &count), SNOW_OK);
    free(bytes);
    assert_int_equal(completions[0].index, 1);
    assert_int_equal(completions[0].status, SNOW_CANCELLED);
    assert_int_equal(puts[1].status, SNOW_CANCELLED);
    assert_int_equal(completions[0].last, 1);
    assert_int_equal(snow_queue_cancel(queue, 3), SNOW_NOT_FOUND);
    rpc_destroy(holder.rpc);
    snow_queue_destroy(queue);
}

/* A destroyed queue touches nothing any more. */
static void destroyed_in_the_middle(void **state)
{
    struct cluster *cluster = *state;

    for (int round = 0; round < 20; round++) {
        struct snow_queue *queue = open_queue(cluster, 0, round % 3 == 2 ? SNOW_QUEUE_THREAD : 0);
        struct batch *batch = make_batch("middle", 4, 200 * KIB);
        struct snow_completion completion;
        size_t count;

        assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS / 2, NULL, 1), SNOW_OK);
        assert_int_equal(snow_submit_get(queue, batch->gets, ITEMS / 2, NULL, 2), SNOW_OK);
        for (int i = 0; i < round; i++)
            snow_queue_poll(queue, &completion, 1, 0, &count);
        if (round % 2 == 0)
            snow_queue_cancel(queue, 1);
        snow_queue_destroy(queue);
        free_batch(batch);
    }
}

static void closed_with_its_client(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *client = open_client(cluster, 0);
    struct batch *batch = make_batch("closed", 5, SIZE);
    struct snow_queue *queue = NULL;

    assert_int_equal(snow_queue_create(client, NULL, &queue), SNOW_OK);
    assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS, NULL, 1), SNOW_OK);
    snow_close(client);
    free_batch(batch);
}

static void a_fork(void **state)
{
    struct cluster *cluster = *state;
    struct snow_queue *queue = open_queue(cluster, 0, 0);
    struct batch *batch = make_batch("fork", 6, SIZE);
    struct snow_completion completion;
    size_t count;
    int exit_status = 0;
    pid_t child;

    assert_int_equal(snow_submit_put(queue, batch->puts, ITEMS, NULL, 1), SNOW_OK);
    child = fork();
    if (child == 0) {
        bool refused = snow_queue_poll(queue, &completion, 1, 0, &count) == SNOW_CLOSED &&
                       snow_submit_put(queue, batch->puts, 1, NULL, 1) == SNOW_CLOSED &&
                       snow_queue_cancel(queue, 1) == SNOW_CLOSED;

        snow_queue_destroy(queue);
        snow_close(cluster->client);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
    collect(queue, batch);
    snow_queue_destroy(queue);
    free_batch(batch);
}

/* ---- threads -------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 25

struct shared {
    struct cluster *cluster;
    struct snow_queue *queue;
    struct batch *batches[THREADS];
    atomic_size_t told[THREADS];
    atomic_size_t wrong;
    atomic_bool stop;
};

struct worker {
    struct shared *shared;
    size_t index;
    pthread_t thread;
};

/* Submits a put, then gets of it, and waits until others have polled all completions. */
static void *submit_rounds(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;
    struct batch *batch = shared->batches[worker->index];
    uint8_t *expected = malloc(batch->size);

    for (int round = 0; round <= ROUNDS; round++) {
        enum snow_status status;

        atomic_store(&shared->told[worker->index], 0);
        do {
            status = round == 0
                         ? snow_submit_put(shared->queue, batch->puts, ITEMS, NULL, worker->index)
                         : snow_submit_get(shared->queue, batch->gets, ITEMS, NULL, worker->index);
        } while (status == SNOW_BUSY);
        if (status != SNOW_OK)
            atomic_fetch_add(&shared->wrong, 1);
        while (status == SNOW_OK && atomic_load(&shared->told[worker->index]) < ITEMS)
            sched_yield();
        for (size_t i = 0; i < ITEMS; i++) {
            fill(expected, batch->size, worker->index + i);
            if (memcmp(expected, batch->bytes[i], batch->size) != 0)
                atomic_fetch_add(&shared->wrong, 1);
            memset(batch->bytes[i], 0, batch->size);
        }
    }
    free(expected);
    return NULL;
}

static void *poll_rounds(void *argument)
{
    struct shared *shared = ((struct worker *)argument)->shared;
    struct snow_completion completions[16];
    size_t count;

    while (!atomic_load(&shared->stop)) {
        if (snow_queue_poll(shared->queue, completions, 16, 50, &count) != SNOW_OK)
            continue;
        for (size_t i = 0; i < count; i++) {
            if (completions[i].status != SNOW_OK)
                atomic_fetch_add(&shared->wrong, 1);
            atomic_fetch_add(&shared->told[completions[i].tag], 1);
        }
    }
    return NULL;
}

static void *block_rounds(void *argument)
{
    struct shared *shared = ((struct worker *)argument)->shared;

    while (!atomic_load(&shared->stop)) {
        struct snow_put put = {.key = key_of("blocking"), .from = "v", .size = 1, .replace = 1};

        if (snow_status_verdict(snow_put(shared->cluster->client, &put, 1, NULL)) != SNOW_DONE)
            atomic_fetch_add(&shared->wrong, 1);
    }
    return NULL;
}

static void run_threads(struct cluster *cluster, uint32_t flags)
{
    struct shared shared = {.cluster = cluster, .queue = open_queue(cluster, 3 * ITEMS, flags)};
    struct worker workers[THREADS + 3];

    for (size_t i = 0; i < THREADS + 3; i++) {
        workers[i] = (struct worker){.shared = &shared, .index = i};
        if (i < THREADS) {
            char name[32];

            snprintf(name, sizeof(name), "thread-%u-%zu", flags, i);
            shared.batches[i] = make_batch(name, i, 2 * KIB);
        }
        assert_int_equal(pthread_create(&workers[i].thread, NULL,
                                        i < THREADS       ? submit_rounds
                                        : i < THREADS + 2 ? poll_rounds
                                                          : block_rounds,
                                        &workers[i]),
                         0);
    }
    for (size_t i = 0; i < THREADS + 3; i++) {
        if (i == THREADS)
            atomic_store(&shared.stop, true);
        pthread_join(workers[i].thread, NULL);
    }
    assert_int_equal(atomic_load(&shared.wrong), 0);
    snow_queue_destroy(shared.queue);
    for (size_t i = 0; i < THREADS; i++)
        free_batch(shared.batches[i]);
}

static void many_threads(void **state)
{
    run_threads(*state, 0);
}

static void many_threads_and_a_helper(void **state)
{
    run_threads(*state, SNOW_QUEUE_THREAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polled),
        cmocka_unit_test(by_somebody_elses_loop),
        cmocka_unit_test(a_deadline_by_somebody_elses_loop),
        cmocka_unit_test(a_thread_of_the_library),
        cmocka_unit_test(the_depth),
        cmocka_unit_test(wrong_items_complete_too),
        cmocka_unit_test(the_first_before_the_last),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(destroyed_in_the_middle),
        cmocka_unit_test(closed_with_its_client),
        cmocka_unit_test(a_fork),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(many_threads_and_a_helper),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
