/* Shapes of limit programs: they say what the operation says. */
#include "cli/bench_shape.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct bench_shape shape;

static void make(enum bench_op op, uint64_t size, uint32_t batch, uint32_t replicas)
{
    struct cli cli = {.program = "snowskin", .command = "bench"};
    struct bench bench = {.cli = &cli};
    struct bench_row row = {.op = op, .size = size, .batch = batch, .replicas = replicas};
    struct client_options options;

    client_options_init(&options);
    assert_true(bench_shape_make(&bench, &row, &options.transport, &shape));
}

static uint64_t payload(void)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < shape.data_count; i++)
        bytes +=
            (shape.data[i].ask_pieces + shape.data[i].answer_pieces) * shape.data[i].piece_size;
    return bytes;
}

static void exists_is_one_exchange_that_names_every_key(void **state)
{
    (void)state;
    make(BENCH_EXISTS, 0, 128, 1);
    assert_int_equal(shape.master_count, 1);
    assert_int_equal(shape.data_count, 0);
    assert_true(shape.master[0].ask_size > 128 * BENCH_KEY_SIZE);
}

static void a_get_moves_every_byte_once(void **state)
{
    (void)state;
    make(BENCH_GET, 1024 * 1024, 32, 1);
    assert_int_equal(shape.master_count, 1);
    assert_int_equal(payload(), 32u * 1024 * 1024);
    assert_int_equal(shape.data[0].ask_pieces, 0);
    make(BENCH_GET, 4096, 128, 1);
    assert_int_equal(payload(), 128u * 4096);
}

static void a_large_object_is_cut_as_the_transport_cuts_it(void **state)
{
    (void)state;
    make(BENCH_GET, 64 * 1024 * 1024, 1, 1);
    assert_true(shape.data_count > 1);
    assert_int_equal(payload(), 64u * 1024 * 1024);
}

static void a_put_starts_moves_and_ends(void **state)
{
    uint64_t one;

    (void)state;
    make(BENCH_PUT, 65536, 32, 1);
    assert_int_equal(shape.master_count, 2);
    assert_int_equal(shape.data[0].answer_pieces, 0);
    assert_int_equal(payload(), 32u * 65536);
    one = bench_shape_bytes(&shape);
    make(BENCH_PUT, 65536, 32, 2);
    assert_int_equal(shape.node_count, 2);
    assert_true(bench_shape_bytes(&shape) > 2 * one - 32 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exists_is_one_exchange_that_names_every_key),
        cmocka_unit_test(a_get_moves_every_byte_once),
        cmocka_unit_test(a_large_object_is_cut_as_the_transport_cuts_it),
        cmocka_unit_test(a_put_starts_moves_and_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
