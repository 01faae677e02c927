/* The ring alone, and under two threads that sleep and wake as processes do. */
#include "env/linux/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#define STREAM_BYTES ((size_t)8 << 20)

struct both {
    struct ring_shared *shared;
    struct ring writer;
    struct ring reader;
    sem_t reader_wakes;
    sem_t writer_wakes;
};

static int setup(void **state)
{
    static struct both both;

    memset(&both, 0, sizeof both);
    both.shared = aligned_alloc(64, sizeof *both.shared);
    assert_non_null(both.shared);
    memset(both.shared, 0, sizeof *both.shared);
    both.writer.shared = both.shared;
    both.reader.shared = both.shared;
    sem_init(&both.reader_wakes, 0, 0);
    sem_init(&both.writer_wakes, 0, 0);
    *state = &both;
    return 0;
}

static int teardown(void **state)
{
    struct both *both = *state;

    sem_destroy(&both->reader_wakes);
    sem_destroy(&both->writer_wakes);
    free(both->shared);
    return 0;
}

static size_t write_one(struct ring *ring, const void *from, size_t size)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};

    return ring_write(ring, &iov, 1);
}

static size_t read_one(struct ring *ring, void *to, size_t size)
{
    struct iovec iov = {.iov_base = to, .iov_len = size};

    return ring_read(ring, &iov, 1);
}

static void takes_and_gives_in_order(void **state)
{
    struct both *both = *state;
    char first[4];
    char rest[16];
    struct iovec parts[2] = {{.iov_base = first, .iov_len = sizeof first},
                             {.iov_base = rest, .iov_len = sizeof rest}};

    assert_int_equal(read_one(&both->reader, rest, sizeof rest), 0);
    assert_int_equal(write_one(&both->writer, "abcdefgh", 8), 8);
    assert_true(ring_has_bytes(&both->reader));
    assert_int_equal(ring_read(&both->reader, parts, 2), 8);
    assert_memory_equal(first, "abcd", 4);
    assert_memory_equal(rest, "efgh", 4);
    assert_false(ring_has_bytes(&both->reader));
}

static void is_full_at_its_size(void **state)
{
    struct both *both = *state;
    uint8_t *bytes = calloc(1, RING_BYTES + 1);

    assert_non_null(bytes);
    assert_int_equal(write_one(&both->writer, bytes, RING_BYTES + 1), RING_BYTES);
    assert_false(ring_has_room(&both->writer));
    assert_false(ring_await_room(&both->writer));
    assert_int_equal(read_one(&both->reader, bytes, 1), 1);
    assert_false(ring_wakes_writer(&both->reader)); /* not for so little (R3) */
    assert_int_equal(read_one(&both->reader, bytes, RING_BYTES / 4 - 1), RING_BYTES / 4 - 1);
    assert_true(ring_wakes_writer(&both->reader));
    assert_false(ring_wakes_writer(&both->reader)); /* once */
    assert_int_equal(write_one(&both->writer, bytes, RING_BYTES), RING_BYTES / 4);
    free(bytes);
}

static void who_sleeps_is_woken_once(void **state)
{
    struct both *both = *state;

    assert_false(ring_sleep(&both->reader));
    assert_int_equal(write_one(&both->writer, "x", 1), 1);
    assert_true(ring_wakes_reader(&both->writer));
    assert_false(ring_wakes_reader(&both->writer));
    assert_true(ring_sleep(&both->reader)); /* there is something: it does not */
    assert_false(ring_wakes_reader(&both->writer));
}

static void lies_of_the_peer_break_it(void **state)
{
    struct both *both = *state;
    char bytes[8];

    atomic_store(&both->shared->head, RING_BYTES + 1);
    assert_int_equal(read_one(&both->reader, bytes, sizeof bytes), 0);
    assert_true(both->reader.broken);
    assert_true(ring_has_bytes(&both->reader)); /* so that its owner looks */
    atomic_store(&both->shared->tail, 1);
    assert_true(ring_has_room(&both->writer)); /* likewise */
    assert_true(both->writer.broken);
    assert_int_equal(write_one(&both->writer, "x", 1), 0);
}

/* ---- two threads ---------------------------------------------------------------------------- */

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

static void *write_all(void *argument)
{
    struct both *both = argument;
    uint8_t bytes[1999];
    size_t done = 0;

    while (done < STREAM_BYTES) {
        size_t size = 1 + done % sizeof bytes;

        if (size > STREAM_BYTES - done)
            size = STREAM_BYTES - done;
        for (size_t i = 0; i < size; i++)
            bytes[i] = byte_at(done + i);
        size_t written = write_one(&both->writer, bytes, size);

        done += written;
        if (written > 0 && ring_wakes_reader(&both->writer))
            sem_post(&both->reader_wakes);
        if (written < size && !ring_await_room(&both->writer))
            sem_wait(&both->writer_wakes);
    }
    return NULL;
}

static void nothing_is_lost_between_threads_that_sleep(void **state)
{
    struct both *both = *state;
    uint8_t bytes[4096];
    pthread_t writer;
    size_t done = 0;

    assert_int_equal(pthread_create(&writer, NULL, write_all, both), 0);
    while (done < STREAM_BYTES) {
        size_t got = read_one(&both->reader, bytes, 1 + done % sizeof bytes);

        for (size_t i = 0; i < got; i++)
            assert_int_equal(bytes[i], byte_at(done + i));
        done += got;
        if (got > 0 && ring_wakes_writer(&both->reader))
            sem_post(&both->writer_wakes);
        if (got == 0 && !ring_sleep(&both->reader))
            sem_wait(&both->reader_wakes);
    }
    pthread_join(writer, NULL);
    assert_false(ring_has_bytes(&both->reader));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(takes_and_gives_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(is_full_at_its_size, setup, teardown),
        cmocka_unit_test_setup_teardown(who_sleeps_is_woken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(lies_of_the_peer_break_it, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_lost_between_threads_that_sleep, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
