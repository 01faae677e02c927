/* Frame headers: round trip, each reason, and no single flipped bit is believed. */
#include "wire/frame.h"

#include "base/codec.h"
#include "base/hash.h"
#include "base/limits.h"
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct frame_header valid(void)
{
    struct frame_header header = {.version = WIRE_VERSION,
                                  .kind = FRAME_REPLY_LAST,
                                  .type = WIRE_read,
                                  .deadline_ms = 1500,
                                  .request_id = UINT64_C(0x1122334455667788),
                                  .payload_size = LIMIT_PAYLOAD_SIZE,
                                  .term = 3,
                                  .status = -4};

    frame_header_set_body(&header, bytes_of_string("body"));
    return header;
}

static enum frame_reason decode(const struct frame_header *header)
{
    uint8_t data[FRAME_HEADER_SIZE];
    struct frame_header got;

    frame_header_encode(header, data);
    return frame_header_decode(bytes_of(data, sizeof(data)), &got);
}

static void test_round_trip(void **state)
{
    struct frame_header sent = valid();
    struct frame_header got = {0};
    uint8_t data[FRAME_HEADER_SIZE];

    (void)state;
    frame_header_encode(&sent, data);
    assert_memory_equal(data, "snow", 4);
    assert_int_equal(frame_header_decode(bytes_of(data, sizeof(data)), &got), FRAME_REASON_OK);
    assert_int_equal(got.version, sent.version);
    assert_int_equal(got.kind, sent.kind);
    assert_int_equal(got.type, sent.type);
    assert_int_equal(got.body_size, 4);
    assert_int_equal(got.deadline_ms, sent.deadline_ms);
    assert_true(got.request_id == sent.request_id);
    assert_true(got.payload_size == sent.payload_size);
    assert_int_equal(got.term, sent.term);
    assert_int_equal(got.status, sent.status);
    assert_int_equal(frame_body_check(&got, bytes_of_string("body")), FRAME_REASON_OK);
    assert_int_equal(frame_body_check(&got, bytes_of_string("bodx")), FRAME_REASON_BAD_BODY_CRC);
    assert_int_equal(frame_body_check(&got, bytes_of_string("bod")), FRAME_REASON_SHORT);
    for (size_t cut = 0; cut < sizeof(data); cut++)
        assert_int_equal(frame_header_decode(bytes_of(data, cut), &got), FRAME_REASON_SHORT);
}

static void test_flipped_bits(void **state)
{
    struct frame_header sent = valid();
    struct frame_header got;
    uint8_t data[FRAME_HEADER_SIZE];

    (void)state;
    frame_header_encode(&sent, data);
    for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(frame_header_decode(bytes_of(data, sizeof(data)), &got),
                         bit < 32 ? FRAME_REASON_BAD_MAGIC : FRAME_REASON_BAD_HEADER_CRC);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_reasons(void **state)
{
    struct frame_header header = valid();

    (void)state;
    header.version = WIRE_VERSION + 1;
    assert_int_equal(decode(&header), FRAME_REASON_BAD_VERSION);
    header.version = 0;
    assert_int_equal(decode(&header), FRAME_REASON_BAD_VERSION);
    header = valid();
    header.kind = 0;
    assert_int_equal(decode(&header), FRAME_REASON_BAD_KIND);
    header.kind = FRAME_ONEWAY + 1;
    assert_int_equal(decode(&header), FRAME_REASON_BAD_KIND);
    header.kind = FRAME_ONEWAY; /* with a payload */
    assert_int_equal(decode(&header), FRAME_REASON_OVER_LIMIT);
    header.payload_size = 0;
    assert_int_equal(decode(&header), FRAME_REASON_OK);
    header.kind = FRAME_CANCEL; /* with a body */
    assert_int_equal(decode(&header), FRAME_REASON_OVER_LIMIT);
    header.body_size = 0;
    assert_int_equal(decode(&header), FRAME_REASON_OK);
    header = valid();
    header.body_size = LIMIT_BODY_SIZE + 1;
    assert_int_equal(decode(&header), FRAME_REASON_OVER_LIMIT);
    header = valid();
    header.payload_size = LIMIT_PAYLOAD_SIZE + 1;
    assert_int_equal(decode(&header), FRAME_REASON_OVER_LIMIT);
    header = valid();
    header.term = WIRE_TERM_MAX + 1;
    assert_int_equal(decode(&header), FRAME_REASON_OVER_LIMIT);
    for (int reason = 0; reason < FRAME_REASON_COUNT; reason++)
        assert_true(strlen(frame_reason_text((enum frame_reason)reason)) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
