/* Every message of the tables: random values survive the trip, cut bytes fail cleanly. */
#include "wire/messages.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 50
#define BUFFER_SIZE (1u << 20)

struct fixture {
    struct arena arena;
    struct rng rng;
    uint8_t *first;
    uint8_t *second;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    arena_init(&fixture->arena, 64 << 20);
    rng_init(&fixture->rng, 42);
    fixture->first = malloc(BUFFER_SIZE);
    fixture->second = malloc(BUFFER_SIZE);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    arena_deinit(&fixture->arena);
    free(fixture->first);
    free(fixture->second);
    free(fixture);
    return 0;
}

static size_t encode(const struct wire_record *record, const void *message, uint8_t *to)
{
    struct writer writer;

    writer_init(&writer, to, BUFFER_SIZE, WIRE_VERSION);
    record->encode(&writer, message);
    assert_false(writer.failed);
    return writer_size(&writer);
}

static void print(const struct wire_record *record, const void *message, char *line, size_t size)
{
    struct text text;

    text_init(&text, line, size);
    record->print(&text, message);
}

static void test_round_trip(void **state)
{
    struct fixture *fixture = *state;
    static char before[1 << 16];
    static char after[1 << 16];

    for (uint32_t i = 0; i < wire_record_count() * ROUNDS; i++) {
        const struct wire_record *record = wire_record_at(i % wire_record_count());
        void *message = arena_take(&fixture->arena, record->size);
        void *decoded;

        record->random(&fixture->rng, &fixture->arena, message);
        size_t size = encode(record, message, fixture->first);
        assert_int_equal(wire_record_decode(record, bytes_of(fixture->first, size), WIRE_VERSION,
                                            &fixture->arena, &decoded),
                         SNOW_OK);
        assert_int_equal(encode(record, decoded, fixture->second), size);
        assert_memory_equal(fixture->first, fixture->second, size);
        print(record, message, before, sizeof(before));
        print(record, decoded, after, sizeof(after));
        assert_string_equal(before, after);
        arena_reset(&fixture->arena);
    }
}

static void test_truncations_fail(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t i = 0; i < wire_record_count(); i++) {
        const struct wire_record *record = wire_record_at(i);
        void *message = arena_take(&fixture->arena, record->size);

        record->random(&fixture->rng, &fixture->arena, message);
        size_t size = encode(record, message, fixture->first);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *exact = malloc(cut + 1); /* its own block: a sanitizer sees a read past it */
            void *decoded;

            memcpy(exact + 1, fixture->first, cut);
            assert_int_equal(wire_record_decode(record, bytes_of(exact + 1, cut), WIRE_VERSION,
                                                &fixture->arena, &decoded),
                             SNOW_INVALID);
            free(exact);
        }
        arena_reset(&fixture->arena);
    }
}

static void test_trailing_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct wire_ping_req ping = {.value = 5};
    const uint16_t type = WIRE_ping;
    struct writer writer;
    void *message;

    writer_init(&writer, fixture->first, BUFFER_SIZE, WIRE_VERSION);
    assert_int_equal(wire_request_encode(type, &ping, &writer), SNOW_OK);
    writer_u8(&writer, 0);
    struct bytes body = bytes_of(fixture->first, writer_size(&writer));
    assert_int_equal(wire_request_decode(type, body, WIRE_VERSION, &fixture->arena, &message),
                     SNOW_INVALID);
    assert_int_equal(wire_request_decode(type, body, WIRE_VERSION + 1, &fixture->arena, &message),
                     SNOW_OK);
    assert_int_equal(((struct wire_ping_req *)message)->value, 5);
}

static void test_kinds_and_numbers(void **state)
{
    struct fixture *fixture = *state;
    struct bytes none = bytes_of(NULL, 0);
    struct arena *arena = &fixture->arena;
    struct writer writer;
    void *message;

    writer_init(&writer, fixture->first, BUFFER_SIZE, WIRE_VERSION);
    assert_int_equal(wire_request_decode(0xffff, none, 1, arena, &message), SNOW_INVALID);
    assert_int_equal(wire_reply_decode(0, none, 1, arena, &message), SNOW_INVALID);
    assert_int_equal(wire_request_decode(WIRE_freed, none, 1, arena, &message), SNOW_INVALID);
    assert_int_equal(wire_oneway_decode(WIRE_ping, none, 1, arena, &message), SNOW_INVALID);
    assert_int_equal(wire_oneway_encode(WIRE_ping, NULL, &writer), SNOW_INVALID);
    assert_int_equal(wire_reply_encode(WIRE_freed, NULL, &writer), SNOW_INVALID);
    assert_null(wire_type_find(0));
    assert_string_equal(wire_type_name(WIRE_put_start), "put_start");
    assert_string_equal(wire_type_name(0xffff), "?");
    for (uint32_t i = 0; i < wire_type_count(); i++) {
        const struct wire_message_type *type = wire_type_at(i);

        assert_ptr_equal(wire_type_find(type->number), type);
        assert_int_equal(type->kind == WIRE_KIND_ONEWAY, type->reply == NULL);
    }
}

static void test_long_lists_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct wire_freed_msg freed = {.items_count = LIMIT_BATCH_ITEMS};
    struct writer writer;
    void *message;

    freed.items = calloc(LIMIT_BATCH_ITEMS + 1, sizeof(*freed.items));
    writer_init(&writer, fixture->first, BUFFER_SIZE, WIRE_VERSION);
    assert_int_equal(wire_oneway_encode(WIRE_freed, &freed, &writer), SNOW_OK);
    struct bytes body = bytes_of(fixture->first, writer_size(&writer));
    assert_int_equal(wire_oneway_decode(WIRE_freed, body, 1, &fixture->arena, &message), SNOW_OK);

    fixture->first[4]++; /* the count's low byte: 1,025 */
    body.size += 12;
    assert_int_equal(wire_oneway_decode(WIRE_freed, body, 1, &fixture->arena, &message),
                     SNOW_INVALID);
    freed.items_count++;
    writer_init(&writer, fixture->first, BUFFER_SIZE, WIRE_VERSION);
    assert_int_equal(wire_oneway_encode(WIRE_freed, &freed, &writer), SNOW_LIMIT);
    free(freed.items);
}

static void test_no_room_no_memory(void **state)
{
    struct fixture *fixture = *state;
    struct wire_key keys[64] = {{{0}}};
    struct wire_remove_req request = {.keys = keys, .keys_count = 64};
    struct arena small;
    struct writer writer;
    void *message;

    writer_init(&writer, fixture->first, 20, WIRE_VERSION);
    assert_int_equal(wire_request_encode(WIRE_remove, &request, &writer), SNOW_LIMIT);
    writer_init(&writer, fixture->first, BUFFER_SIZE, WIRE_VERSION);
    assert_int_equal(wire_request_encode(WIRE_remove, &request, &writer), SNOW_OK);
    for (size_t bound = 1; bound < 512; bound *= 2) {
        arena_init(&small, bound);
        assert_int_equal(wire_request_decode(WIRE_remove,
                                             bytes_of(fixture->first, writer_size(&writer)),
                                             WIRE_VERSION, &small, &message),
                         SNOW_NO_MEMORY);
        arena_deinit(&small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_truncations_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_trailing_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kinds_and_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_lists_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room_no_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
