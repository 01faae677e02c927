#include "transport/crc.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void pieces_make_the_whole(void **state)
{
    uint8_t bytes[5000];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + i / 11);
    uint32_t whole = crc32c(0, bytes, sizeof(bytes));

    for (size_t at = 0; at <= sizeof(bytes); at += 7) {
        uint32_t first = crc32c(0, bytes, at);
        uint32_t second = crc32c(0, bytes + at, sizeof(bytes) - at);

        assert_int_equal(crc_combine(first, second, sizeof(bytes) - at), whole);
    }
    assert_int_equal(crc_combine(whole, 0, 0), whole);
    assert_int_equal(crc_combine(0, whole, sizeof(bytes)), whole);
}

/* To go twice n bytes on is to go n bytes on twice. */
static void every_power(void **state)
{
    uint32_t crc = 0x12345678;

    (void)state;
    for (uint32_t i = 0; i < 63; i++) {
        uint64_t size = UINT64_C(1) << i;
        uint32_t once = crc_combine(crc, 0, size);

        assert_int_equal(crc_combine(crc, 0, 2 * size), crc_combine(once, 0, size));
        crc = once;
    }
}

static void runs_of_one_size(void **state)
{
    uint8_t bytes[1000];
    uint32_t sums[12];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 91 + i / 3);
    for (size_t size = 0; size <= 900; size += 33) {
        for (size_t at = 0; at < size; at += 90)
            sums[at / 90] = crc32c(0, bytes + 100 + at, size - at < 90 ? size - at : 90);
        assert_int_equal(crc_append(crc32c(0, bytes, 100), sums, 90, size),
                         crc32c(0, bytes, 100 + size));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(every_power),
        cmocka_unit_test(runs_of_one_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
