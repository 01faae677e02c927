/* Removal patterns: syntax on bytes, refusals with a reason, limits on hostile patterns. */
#include "base/limits.h"
#include "base/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct pattern *compile(const char *text)
{
    struct pattern *pattern = NULL;
    const char *reason = NULL;

    assert_int_equal(pattern_compile(bytes_of_string(text), &pattern, &reason), SNOW_OK);
    return pattern;
}

static void expect(const char *text, struct bytes key, enum snow_status status)
{
    struct pattern *pattern = compile(text);

    assert_int_equal(pattern_match(pattern, key), status);
    pattern_destroy(pattern);
}

static struct bytes field_of(const struct pattern *pattern, struct bytes subject, const char *name)
{
    for (uint32_t i = 0; i < pattern_field_count(pattern); i++) {
        if (strcmp(pattern_field_name(pattern, i), name) == 0)
            return pattern_field(pattern, subject, i);
    }
    fail_msg("no field %s", name);
    return bytes_of(NULL, 0);
}

static void test_fields_of_the_whole(void **state)
{
    struct bytes key = bytes_of_string("model@3@abc_k");
    struct pattern *pattern = NULL;
    const char *reason = NULL;

    (void)state;
    assert_int_equal(pattern_compile_whole(
                         bytes_of_string("(?<id>.+)@(?<rank>[0-9]+)@(?<rest>[a-c]+)(_k|_(?<v>v))?"),
                         &pattern, &reason),
                     SNOW_OK);
    assert_int_equal(pattern_field_count(pattern), 4);
    assert_int_equal(pattern_match(pattern, key), SNOW_OK);
    assert_true(bytes_equal(field_of(pattern, key, "id"), bytes_of_string("model")));
    assert_true(bytes_equal(field_of(pattern, key, "rank"), bytes_of_string("3")));
    assert_true(bytes_equal(field_of(pattern, key, "rest"), bytes_of_string("abc")));
    assert_null(field_of(pattern, key, "v").at);
    assert_int_equal(pattern_match(pattern, bytes_of_string("model@3@abc_k!")), SNOW_NOT_FOUND);
    assert_int_equal(pattern_match(pattern, bytes_of_string("@3@abc_k")), SNOW_NOT_FOUND);
    assert_int_equal(pattern_match(pattern, bytes_of_string("m\no@3@abc")), SNOW_OK);
    pattern_destroy(pattern);
    pattern = compile("a(b)c"); /* no name: no field */
    assert_int_equal(pattern_field_count(pattern), 0);
    pattern_destroy(pattern);
}

static void test_matches(void **state)
{
    struct bytes key = bytes_of_string("model-7/layer-12/0123456789abcdef_0_k");

    (void)state;
    expect("layer-1[0-9]", key, SNOW_OK);
    expect("^layer", key, SNOW_NOT_FOUND);
    expect("^model-\\d+/", key, SNOW_OK);
    expect("_k$", key, SNOW_OK);
    expect("_v$", key, SNOW_NOT_FOUND);
    expect("(?:a|b|c)+def_(0|1)_[kv]$", key, SNOW_OK);
    expect("(?i)MODEL", key, SNOW_OK);
    expect("/[0-9a-f]{16}_", key, SNOW_OK);
    expect("", key, SNOW_OK);
    expect("", bytes_of(NULL, 0), SNOW_OK);
    expect("^$", bytes_of(NULL, 0), SNOW_OK);
    expect("x", bytes_of(NULL, 0), SNOW_NOT_FOUND);
}

static void test_binary_keys(void **state)
{
    static const uint8_t key[] = {0xff, 0x00, 0xc3, 0x28, '\n', 0x80, 'e'};
    static const uint8_t text[] = {0x00, 0xc3};
    struct bytes bytes = bytes_of(key, sizeof(key));
    struct pattern *pattern;
    const char *reason;

    (void)state;
    expect("^\\xff\\x00", bytes, SNOW_OK);
    expect("\\x00\\xc3\\x28\\n", bytes, SNOW_OK);
    expect("^...\\x28", bytes, SNOW_OK); /* bytes, not characters */
    expect("\\x00{2}", bytes, SNOW_NOT_FOUND);
    assert_int_equal(pattern_compile(bytes_of(text, sizeof(text)), &pattern, &reason), SNOW_OK);
    assert_int_equal(pattern_match(pattern, bytes), SNOW_OK);
    assert_int_equal(pattern_match(pattern, bytes_of_string("plain")), SNOW_NOT_FOUND);
    pattern_destroy(pattern);
}

static void test_refusals(void **state)
{
    static const char *const refused[] = {
        "(",
        "a)",
        "[a",
        "a{2,1}",
        "*a",
        "\\",
        "(*UTF)a",
        "(*UCP)a",
        "(?<x>a)\\k<x>",
        "(a)\\1",
        "(((((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))))))",
        "(((a{100}){100}){100})",
        "(?:(?:(?:[a-z]{99}x){99}y){99}z){99}",
        "(?:(?:a|[bc]){60}[de]){60}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct pattern *pattern = NULL;
        const char *reason = NULL;

        assert_int_equal(pattern_compile(bytes_of_string(refused[i]), &pattern, &reason),
                         SNOW_INVALID);
        assert_null(pattern);
        assert_non_null(reason);
        assert_non_null(strstr(reason, " at byte "));
    }
}

static void test_longest(void **state)
{
    uint8_t text[LIMIT_PATTERN_SIZE + 1];
    struct pattern *pattern = NULL;
    const char *reason = NULL;

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(pattern_compile(bytes_of(text, sizeof(text)), &pattern, &reason), SNOW_LIMIT);
    assert_non_null(reason);
    assert_int_equal(pattern_compile(bytes_of(text, LIMIT_PATTERN_SIZE), &pattern, &reason),
                     SNOW_OK);
    assert_int_equal(pattern_match(pattern, bytes_of(text, LIMIT_PATTERN_SIZE)), SNOW_OK);
    assert_int_equal(pattern_match(pattern, bytes_of(text, 100)), SNOW_NOT_FOUND);
    pattern_destroy(pattern);
    pattern_destroy(NULL);
}

/* Each would take longer than anybody waits: years, some of them. */
static void test_catastrophic(void **state)
{
    static const char *const hostile[] = {
        "(a+)+[cd]",
        "(?:a|aa)+[cd]",
        "(?:a|a)*[cd]$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(?:.*a){12}[cd]",
        "(?:a?){30}a{30}[cd]",
        "(?:(?:a*)*)*[cd]",
        "(?:a*?){20}[cd]",
        "a*a*a*a*a*a*a*a*[cd]",
        "(*NO_JIT)(?:a|aa)+[cd]",
        "(?<x>a|(?&x)(?&x))+[cd]",
    };
    uint8_t key[LIMIT_KEY_SIZE];

    (void)state;
    memset(key, 'a', sizeof(key));
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct pattern *pattern = compile(hostile[i]);

        for (size_t size = 32; size <= sizeof(key); size *= 2)
            assert_int_not_equal(pattern_match(pattern, bytes_of(key, size)), SNOW_OK);
        assert_int_equal(pattern_match(pattern, bytes_of(key, sizeof(key))), SNOW_LIMIT);
        /* It still works on what it can do. */
        assert_int_not_equal(pattern_match(pattern, bytes_of(NULL, 0)), SNOW_LIMIT);
        pattern_destroy(pattern);
    }
}

/* Usual patterns have room on the longest key. */
static void test_long_keys(void **state)
{
    uint8_t key[LIMIT_KEY_SIZE];

    (void)state;
    memset(key, 'a', sizeof(key));
    memcpy(key + sizeof(key) - 8, "/layer-3", 8);
    expect("^a.*/layer-[0-9]$", bytes_of(key, sizeof(key)), SNOW_OK);
    expect("^a.*/layer-[0-9]+/", bytes_of(key, sizeof(key)), SNOW_NOT_FOUND);
    expect("layer-(?:1|2|3)$", bytes_of(key, sizeof(key)), SNOW_OK);
    expect("[b-d]+-[0-9]", bytes_of(key, sizeof(key)), SNOW_NOT_FOUND);
    expect("^(?:a|b)+/", bytes_of(key, sizeof(key)), SNOW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),     cmocka_unit_test(test_fields_of_the_whole),
        cmocka_unit_test(test_binary_keys), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_longest),     cmocka_unit_test(test_catastrophic),
        cmocka_unit_test(test_long_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
