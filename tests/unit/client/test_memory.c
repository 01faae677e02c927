/* Registered memory: ranges that do not meet, given back when nothing runs on them. */
#include "cluster.h"

#define SIZE ((size_t)(64 * KIB))

static int setup(void **state)
{
    *state = open_cluster(1, 8 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

static void ranges(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *client = cluster->client;
    uint8_t *memory = malloc(8 * SIZE);

    memset(memory, 7, 8 * SIZE);
    assert_int_equal(snow_register(client, memory + 2 * SIZE, SIZE), SNOW_OK);
    assert_int_equal(snow_register(client, memory + 4 * SIZE, SIZE), SNOW_OK);
    assert_int_equal(snow_register(client, memory + 3 * SIZE, SIZE), SNOW_OK); /* side by side */
    assert_int_equal(snow_register(client, memory + 2 * SIZE, SIZE), SNOW_INVALID);
    assert_non_null(strstr(snow_reason(), "overlaps 65536 registered bytes"));
    assert_int_equal(snow_register(client, memory, 2 * SIZE + 1), SNOW_INVALID);
    assert_int_equal(snow_register(client, memory + 5 * SIZE - 1, 1), SNOW_INVALID);
    assert_int_equal(snow_register(client, memory, 8 * SIZE), SNOW_INVALID);
    assert_int_equal(snow_register(client, NULL, SIZE), SNOW_INVALID);
    assert_int_equal(snow_register(client, memory, 0), SNOW_INVALID);
    assert_int_equal(snow_register(client, memory, SIZE_MAX), SNOW_INVALID);
    assert_int_equal(snow_unregister(client, memory, NULL), SNOW_NOT_FOUND);
    assert_int_equal(snow_unregister(client, memory + 2 * SIZE + 1, NULL), SNOW_NOT_FOUND);
    assert_non_null(strstr(snow_reason(), "no registered range"));
    assert_int_equal(snow_unregister(client, memory + 3 * SIZE, NULL), SNOW_OK);
    assert_int_equal(snow_unregister(client, memory + 3 * SIZE, NULL), SNOW_NOT_FOUND);
    assert_int_equal(snow_register(client, memory + 3 * SIZE, SIZE), SNOW_OK);
    for (size_t i = 2; i < 5; i++)
        assert_int_equal(snow_unregister(client, memory + i * SIZE, NULL), SNOW_OK);
    for (size_t i = 0; i < 8 * SIZE; i++) /* a hint: no byte was changed */
        assert_int_equal(memory[i], 7);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(snow_register(client, memory + (i * 37 % 4096) * 16, 16), SNOW_OK);
    assert_int_equal(snow_register(client, memory + 5 * SIZE, SIZE), SNOW_LIMIT);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(snow_unregister(client, memory + i * 16, NULL), SNOW_OK);
    free(memory);
}

static void put_and_get(void **state)
{
    struct cluster *cluster = *state;
    static const char text[] = "text of the program: only to be read";
    char got[sizeof(text)];
    struct snow_put put = {.key = key_of("used"), .from = text, .size = sizeof(text)};
    struct snow_get get = {.key = key_of("used"), .to = got, .room = sizeof(got)};

    assert_int_equal(snow_register(cluster->client, (void *)(uintptr_t)text, sizeof(text)),
                     SNOW_OK);
    assert_int_equal(snow_register(cluster->client, got, sizeof(got)), SNOW_OK);
    assert_int_equal(snow_put(cluster->client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, &get, 1, NULL), SNOW_OK);
    assert_string_equal(got, text);
    assert_int_equal(snow_unregister(cluster->client, (void *)(uintptr_t)text, NULL), SNOW_OK);
    assert_int_equal(snow_unregister(cluster->client, got, NULL), SNOW_OK);
}

/* A put that waits for another writer holds its memory; what lies elsewhere is free meanwhile. */
static void what_runs_is_waited_for(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *client = cluster->client;
    uint8_t *memory = malloc(4 * SIZE);
    struct snow_put item = {.key = key_of("slow"), .size = 10};
    struct snow_put put = {.key = key_of("slow"), .from = memory + SIZE, .size = SIZE};
    struct snow_call soon = {.deadline_ms = 50};
    struct snow_write write = {.from = memory, .size = 10};
    struct snow_completion completion;
    struct snow_writer *writer = NULL;
    struct snow_queue *queue = NULL;
    size_t count = 0;

    memset(memory, 1, 4 * SIZE);
    assert_int_equal(snow_register(client, memory + SIZE, SIZE), SNOW_OK);
    assert_int_equal(snow_register(client, memory + 2 * SIZE, SIZE), SNOW_OK);
    assert_int_equal(snow_writer_open(client, &item, 0, NULL, &writer), SNOW_OK);
    assert_int_equal(snow_queue_create(client, NULL, &queue), SNOW_OK);
    assert_int_equal(snow_submit_put(queue, &put, 1, NULL, 5), SNOW_OK);
    assert_int_equal(snow_unregister(client, memory + SIZE, &soon), SNOW_TIMEOUT);
    assert_int_equal(snow_unregister(client, memory + 2 * SIZE, &soon), SNOW_OK);
    assert_int_equal(snow_register(client, memory + SIZE, SIZE), SNOW_INVALID); /* it still is */
    assert_int_equal(snow_writer_write(writer, &write, 1, NULL), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    assert_int_equal(snow_unregister(client, memory + SIZE, NULL), SNOW_OK);
    assert_int_equal(snow_queue_poll(queue, &completion, 1, 0, &count), SNOW_OK);
    assert_int_equal(completion.status, SNOW_EXISTS);
    snow_writer_close(writer);
    snow_queue_destroy(queue);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(put_and_get),
        cmocka_unit_test(what_runs_is_waited_for),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
