/* Text stays within its buffer and says when it was cut. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_adds(void **state)
{
    char buffer[64];
    struct text text;

    (void)state;
    text_init(&text, buffer, sizeof(buffer));
    assert_string_equal(buffer, "");
    text_add(&text, "size=%d ", 3);
    text_add_bytes(&text, bytes_of("a\n\"b", 4), 10);
    text_add_bytes(&text, bytes_of_string("abcdef"), 2);
    assert_string_equal(buffer, "size=3 \"a\\x0a\\x22b\"\"ab\"...+4");
    assert_int_equal(text.used, strlen(buffer));
    assert_false(text.full);
}

static void test_is_cut(void **state)
{
    char buffer[10];
    struct text text;

    (void)state;
    text_init(&text, buffer, sizeof(buffer));
    text_add(&text, "%s", "123456789");
    assert_false(text.full);
    text_add(&text, "0");
    assert_true(text.full);
    assert_string_equal(buffer, "123456...");
    text_add(&text, "more");
    text_add_bytes(&text, bytes_of_string("more"), 4);
    assert_string_equal(buffer, "123456...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds),
        cmocka_unit_test(test_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
