/* Lines of the log: their form, their bounds, and what a loud site may write. */
#include "obs/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct obs_log log;
    uint64_t now_ms;
    uint32_t lines;
    char last[OBS_LINE_SIZE];
};

static void on_line(void *owner, const char *line)
{
    struct fixture *fixture = owner;

    fixture->lines++;
    assert_true(strlen(line) < sizeof(fixture->last));
    memcpy(fixture->last, line, strlen(line) + 1);
}

static uint64_t wall_ms(void *owner)
{
    return ((struct fixture *)owner)->now_ms;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->now_ms = UINT64_C(1709210096007); /* 2024-02-29, 12:34:56.007 */
    obs_log_init(&fixture->log, OBS_INFO, on_line, wall_ms, fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void test_form(void **state)
{
    struct fixture *fixture = *state;

    obs_log_write(&fixture->log, OBS_WARNING, "master", "node is silent", "node=%d ms=%d", 3, 7);
    assert_string_equal(fixture->last,
                        "2024-02-29T12:34:56.007Z warning master node is silent node=3 ms=7");
    fixture->now_ms = 0;
    obs_log_write(&fixture->log, OBS_INFO, "master", "ready", "%s", "");
    assert_string_equal(fixture->last, "1970-01-01T00:00:00.000Z info master ready ");
    fixture->now_ms = UINT64_C(4102444799999);
    obs_log_write(&fixture->log, OBS_ERROR, "m", "late", "key=%s",
                  obs_quoted(bytes_of_string("a\nb")).text);
    assert_string_equal(fixture->last, "2099-12-31T23:59:59.999Z error m late key=\"a\\x0ab\"");
}

static void test_levels(void **state)
{
    struct fixture *fixture = *state;
    enum obs_level level;

    obs_log_write(&fixture->log, OBS_DEBUG, "m", "detail", "x=%d", 1);
    assert_int_equal(fixture->lines, 0);
    assert_int_equal(fixture->log.counts[OBS_DEBUG], 1);
    assert_true(obs_level_parse(bytes_of_string("error"), &level));
    assert_int_equal(level, OBS_ERROR);
    assert_false(obs_level_parse(bytes_of_string("loud"), &level));
    assert_string_equal(obs_level_name(OBS_WARNING), "warning");
}

static void test_no_forged_lines(void **state)
{
    struct fixture *fixture = *state;
    char large[4000];

    obs_log_write(&fixture->log, OBS_INFO, "m", "x", "name=%s", "a\n2024 error");
    assert_non_null(strstr(fixture->last, "name=a?2024 error"));
    memset(large, 'y', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    obs_log_write(&fixture->log, OBS_INFO, "m", "x", "name=%s", large);
    assert_int_equal(strlen(fixture->last), OBS_LINE_SIZE - 1);
    assert_int_equal(strlen(obs_quoted(bytes_of(large, 3000)).text), 24 + strlen("\"\"...+2976"));
}

static void test_loud_site(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 100; i++)
        obs_log_write(&fixture->log, OBS_WARNING, "m", "again", "i=%d", i);
    assert_int_equal(fixture->lines, OBS_SITE_LINES_MAX);
    assert_int_equal(fixture->log.counts[OBS_WARNING], 100);
    assert_int_equal(fixture->log.suppressed, 100 - OBS_SITE_LINES_MAX);
    obs_log_write(&fixture->log, OBS_WARNING, "m", "something else", "i=%d", 0);
    assert_int_equal(fixture->lines, OBS_SITE_LINES_MAX + 1);
    fixture->now_ms += 1000;
    obs_log_write(&fixture->log, OBS_WARNING, "m", "again", "i=%d", 100);
    assert_non_null(strstr(fixture->last, "again suppressed=95 i=100"));
    obs_log_write(&fixture->log, OBS_WARNING, "m", "again", "i=%d", 101);
    assert_null(strstr(fixture->last, "suppressed"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_form), TEST(test_levels),
                                       TEST(test_no_forged_lines), TEST(test_loud_site)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
