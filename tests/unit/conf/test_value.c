/* Numbers of options: units, bounds, and that what prints parses to the same. */
#include "conf/value.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct conf_option duration = {.name = "d",
                                            .type = CONF_DURATION,
                                            .range = {.high = UINT64_MAX}};
static const struct conf_option size = {.name = "s",
                                        .type = CONF_BYTES,
                                        .range = {.high = UINT64_MAX}};

static uint64_t parsed(const struct conf_option *option, const char *text)
{
    uint64_t number = 12345;

    assert_int_equal(conf_number_parse(option, bytes_of_string(text), &number), SNOW_OK);
    return number;
}

static void test_units(void **state)
{
    (void)state;
    assert_int_equal(parsed(&duration, "0"), 0);
    assert_int_equal(parsed(&duration, "1ns"), 1);
    assert_int_equal(parsed(&duration, "2us"), 2000);
    assert_int_equal(parsed(&duration, "3ms"), 3 * NS_PER_MS);
    assert_int_equal(parsed(&duration, "4s"), 4 * NS_PER_S);
    assert_int_equal(parsed(&duration, "5m"), 300 * NS_PER_S);
    assert_int_equal(parsed(&duration, "6h"), 6 * 3600 * NS_PER_S);
    assert_int_equal(parsed(&size, "7"), 7);
    assert_int_equal(parsed(&size, "1k"), KIB);
    assert_int_equal(parsed(&size, "1M"), MIB);
    assert_int_equal(parsed(&size, "1GiB"), GIB);
    assert_int_equal(parsed(&size, "16777215TiB"), 16777215 * TIB);
}

static void test_refused(void **state)
{
    static const char *const durations[] = {"", "1", "s", "-1s", "1.5s", "1 s", "1d", "6000000h"};
    static const char *const sizes[] = {"",     "x",           "1KB",
                                        "0x10", "16777216TiB", "18446744073709551616"};
    uint64_t number;

    (void)state;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
        assert_int_equal(conf_number_parse(&duration, bytes_of_string(durations[i]), &number),
                         SNOW_INVALID);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_int_equal(conf_number_parse(&size, bytes_of_string(sizes[i]), &number),
                         SNOW_INVALID);
}

static void test_prints_what_parses(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        const struct conf_option *option = i % 2 == 0 ? &duration : &size;
        uint64_t number = (rng_next(&rng) >> rng_below(&rng, 64)) << rng_below(&rng, 12);
        char buffer[64];
        struct text text;

        text_init(&text, buffer, sizeof(buffer));
        conf_number_print(option, number, &text);
        assert_true(parsed(option, buffer) == number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_prints_what_parses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
