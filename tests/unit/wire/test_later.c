/* Fields of later versions: left out and zero under an older version, there under their own. */
#include "wire/values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define WIRE_TABLE "../tests/unit/wire/later.def"
#include "wire/expand_structs.h"

#include "wire/expand_functions.h"
#undef WIRE_TABLE

static struct wire_test_item item = {.first = 1, .second = {(const uint8_t *)"two", 3}};
static struct wire_test_req sent = {.before = 7,
                                    .items = &item,
                                    .items_count = 1,
                                    .in_two = -2,
                                    .more = &item,
                                    .more_count = 1,
                                    .in_three = 3};

/* Encodes and decodes under a version; returns the encoded size. */
static size_t pass(uint32_t version, struct arena *arena, struct wire_test_req *got)
{
    uint8_t buffer[128];
    struct writer writer;
    struct reader reader;

    writer_init(&writer, buffer, sizeof(buffer), version);
    wire_test_req_encode(&writer, &sent);
    assert_false(writer.failed);
    uint8_t *copy = arena_take(arena, writer_size(&writer));
    memcpy(copy, buffer, writer_size(&writer));
    reader_init(&reader, bytes_of(copy, writer_size(&writer)), version);
    wire_test_req_decode(&reader, arena, got);
    assert_false(reader.failed);
    assert_int_equal(reader_left(&reader), 0);
    return writer_size(&writer);
}

static void test_versions(void **state)
{
    struct arena arena;
    struct wire_test_req got;

    (void)state;
    arena_init(&arena, 1 << 16);
    assert_int_equal(pass(1, &arena, &got), 2 + 2 + 4);
    assert_int_equal(got.before, 7);
    assert_int_equal(got.items_count, 1);
    assert_int_equal(got.items[0].first, 1);
    assert_int_equal(got.items[0].second.size, 0);
    assert_int_equal(got.in_two, 0);
    assert_int_equal(got.more_count, 0);

    assert_int_equal(pass(2, &arena, &got), 2 + 2 + 9 + 4);
    assert_true(bytes_equal(got.items[0].second, item.second));
    assert_int_equal(got.in_two, -2);
    assert_int_equal(got.in_three, 0);

    assert_int_equal(pass(3, &arena, &got), 2 + 2 + 9 + 4 + 2 + 9 + 8);
    assert_int_equal(got.more_count, 1);
    assert_int_equal(got.in_three, 3);
    arena_deinit(&arena);
}

static void test_smallest_sizes(void **state)
{
    (void)state;
    assert_int_equal(wire_test_item_size_min(1), 4);
    assert_int_equal(wire_test_item_size_min(2), 6);
    assert_int_equal(wire_test_rep_size_min(1), 0);
    assert_int_equal(wire_test_req_size_min(3), 2 + 2 + 4 + 2 + 8);
}

static void test_random_and_print(void **state)
{
    struct arena arena;
    struct rng rng;
    struct wire_test_req message;
    struct wire_test_rep reply;
    struct text text;
    struct reader reader;
    struct writer writer;
    char line[256];
    uint8_t byte;

    (void)state;
    arena_init(&arena, 1 << 16);
    rng_init(&rng, 1);
    wire_test_req_random(&rng, &arena, &message);
    text_init(&text, line, sizeof(line));
    wire_test_req_print(&text, &sent);
    assert_string_equal(line, "{before=7 items[1]={first=1 second=\"two\"} in_two=-2 "
                              "more[1]={first=1 second=\"two\"} in_three=3}");
    wire_test_rep_random(&rng, &arena, &reply);
    reply.value = 9;
    writer_init(&writer, &byte, 1, 1);
    wire_test_rep_encode(&writer, &reply);
    assert_int_equal(writer_size(&writer), 0);
    reader_init(&reader, bytes_of(&byte, 0), 1);
    wire_test_rep_decode(&reader, &arena, &reply);
    assert_int_equal(reply.value, 0);
    text_init(&text, line, sizeof(line));
    wire_test_rep_print(&text, &reply);
    assert_string_equal(line, "{value=0}");
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_smallest_sizes),
        cmocka_unit_test(test_random_and_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
