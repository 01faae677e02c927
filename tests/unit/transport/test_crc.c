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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_make_the_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
