/* Readers and writers latch their first error and believe no length. */
#include "base/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
    uint8_t buffer[64];
    struct writer writer;
    struct reader reader;

    (void)state;
    writer_init(&writer, buffer, sizeof(buffer), 1);
    writer_u8(&writer, 0x12);
    writer_u16(&writer, 0x3456);
    writer_u32(&writer, 0x789abcde);
    writer_u64(&writer, UINT64_C(0x0123456789abcdef));
    writer_i32(&writer, -2);
    writer_bytes(&writer, bytes_of_string("key"));
    writer_bytes(&writer, bytes_of(NULL, 0));
    writer_count(&writer, 2, 2);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), 1 + 2 + 4 + 8 + 4 + 5 + 2 + 2);
    assert_memory_equal(buffer, "\x12\x56\x34\xde\xbc\x9a\x78\xef", 8);

    reader_init(&reader, bytes_of(buffer, writer_size(&writer)), 1);
    assert_int_equal(reader_u8(&reader), 0x12);
    assert_int_equal(reader_u16(&reader), 0x3456);
    assert_int_equal(reader_u32(&reader), 0x789abcde);
    assert_true(reader_u64(&reader) == UINT64_C(0x0123456789abcdef));
    assert_int_equal(reader_i32(&reader), -2);
    assert_true(bytes_equal(reader_bytes(&reader), bytes_of_string("key")));
    assert_int_equal(reader_bytes(&reader).size, 0);
    assert_int_equal(reader_count(&reader, 0, 2), 2);
    assert_false(reader.failed);
    assert_int_equal(reader_left(&reader), 0);
}

static void test_reader_latches(void **state)
{
    uint8_t data[] = {5, 0, 'a', 'b'};
    struct reader reader;

    (void)state;
    reader_init(&reader, bytes_of(data, sizeof(data)), 1);
    assert_int_equal(reader_bytes(&reader).size, 0); /* a length of 5, with 2 left */
    assert_true(reader.failed);
    assert_int_equal(reader_u8(&reader), 0);
    reader_init(&reader, bytes_of(NULL, 0), 1);
    assert_int_equal(reader_u64(&reader), 0);
    assert_true(reader.failed);
}

static void test_count_is_checked(void **state)
{
    uint8_t data[] = {3, 0, 1, 2, 3, 4, 5};
    struct reader reader;

    (void)state;
    reader_init(&reader, bytes_of(data, sizeof(data)), 1);
    assert_int_equal(reader_count(&reader, 1, 10), 3);
    reader_init(&reader, bytes_of(data, sizeof(data)), 1);
    assert_int_equal(reader_count(&reader, 2, 10), 0); /* 6 bytes, 5 left */
    assert_true(reader.failed);
    reader_init(&reader, bytes_of(data, sizeof(data)), 1);
    assert_int_equal(reader_count(&reader, 1, 2), 0);
    assert_true(reader.failed);
}

static void test_writer_latches(void **state)
{
    uint8_t buffer[8];
    struct writer writer;

    (void)state;
    writer_init(&writer, buffer, sizeof(buffer), 1);
    writer_u32(&writer, 1);
    writer_bytes(&writer, bytes_of_string("abc")); /* one byte too many */
    assert_true(writer.failed);
    size_t size = writer_size(&writer);
    writer_u8(&writer, 1);
    assert_int_equal(writer_size(&writer), size);
    writer_init(&writer, buffer, sizeof(buffer), 1);
    writer_count(&writer, 3, 2);
    assert_true(writer.failed);
    writer_init(&writer, buffer, 0, 1);
    writer_u8(&writer, 1);
    assert_true(writer.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_reader_latches),
        cmocka_unit_test(test_count_is_checked),
        cmocka_unit_test(test_writer_latches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
