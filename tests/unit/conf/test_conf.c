/* Options: every source, their order, and errors that name what is wrong. */
#include "conf/conf.h"
#include "core/options.h"
#include "master/options.h"
#include "node/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../tests/unit/conf/sample.h"

#define ARGUMENTS 8

struct fixture {
    struct sample sample;
    struct other other;
    struct conf conf;
    struct arena arena;
    struct text error;
    char error_text[256];
};

static void start(struct fixture *fixture, bool with_other)
{
    struct conf_module modules[] = {{&sample_table, &fixture->sample},
                                    {&other_table, with_other ? &fixture->other : NULL}};

    arena_reset(&fixture->arena);
    text_init(&fixture->error, fixture->error_text, sizeof(fixture->error_text));
    assert_int_equal(conf_init(&fixture->conf, modules, 2, &fixture->arena, &fixture->error),
                     SNOW_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    arena_init(&fixture->arena, 1 << 20);
    start(fixture, true);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    arena_deinit(&fixture->arena);
    free(fixture);
    return 0;
}

/* Parses flags in a fresh conf; the arguments that are no flags stay in argv. */
static enum snow_status flags(struct fixture *fixture, const char **argv, int *argc)
{
    *argc = 1;
    while (argv[*argc] != NULL)
        ++*argc;
    return conf_parse_flags(&fixture->conf, argc, (char **)(uintptr_t)argv);
}

#define FLAGS(fixture, ...) \
    flags((fixture), (const char *[ARGUMENTS]){"snowskin", __VA_ARGS__}, &(int){0})

static enum snow_status environment(struct fixture *fixture, const char *variable)
{
    const char *variables[] = {"PATH=bin", variable, NULL};

    return conf_parse_environment(&fixture->conf, variables);
}

static enum snow_status yaml(struct fixture *fixture, const char *text)
{
    return conf_parse_yaml(&fixture->conf, "snow.yaml", bytes_of_string(text));
}

static void test_defaults(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(fixture->sample.wait_ns, SEC(2));
    assert_int_equal(fixture->sample.room_bytes, 4096);
    assert_int_equal(fixture->sample.tries, 3);
    assert_int_equal(fixture->sample.share_percent, 25);
    assert_false(fixture->sample.eager);
    assert_int_equal(fixture->sample.color, SAMPLE_RED);
    assert_string_equal(fixture->sample.listen, "here:1");
    assert_string_equal(fixture->other.listen, "there:2");
}

static void test_flags(void **state)
{
    struct fixture *fixture = *state;
    const char *argv[ARGUMENTS] = {"snowskin", "put", "--wait", "5ms", "key", "--", "--tries"};
    int argc;

    assert_int_equal(flags(fixture, argv, &argc), SNOW_OK);
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "put");
    assert_string_equal(argv[2], "key");
    assert_string_equal(argv[3], "--tries");
    assert_int_equal(fixture->sample.wait_ns, MS(5));
    assert_int_equal(FLAGS(fixture, "--room=2GiB", "--share", "5%", "--eager", "--color=GREEN"),
                     SNOW_OK);
    assert_int_equal(fixture->sample.room_bytes, 2 * GIB);
    assert_int_equal(fixture->sample.share_percent, 5);
    assert_true(fixture->sample.eager);
    assert_int_equal(fixture->sample.color, SAMPLE_GREEN);
    assert_int_equal(FLAGS(fixture, "--eager=no", "--other-listen", "x:1", "-"), SNOW_OK);
    assert_false(fixture->sample.eager);
    assert_string_equal(fixture->other.listen, "x:1");
    assert_string_equal(fixture->sample.listen, "here:1");
    assert_int_equal(FLAGS(fixture, "--help", "--config", "a.yaml"), SNOW_OK);
    assert_true(fixture->conf.help);
    assert_string_equal(fixture->conf.config, "a.yaml");
}

static void test_flag_errors(void **state)
{
    static const struct {
        const char *argv[3];
        const char *error;
    } cases[] = {
        {{"snowskin", "--wiat=1s"}, "--wiat: no option \"wiat\"; did you mean wait?"},
        {{"snowskin", "--qqqqqqqq"}, "--qqqqqqqq: no option \"qqqqqqqq\""},
        {{"snowskin", "--bok=1"}, "--bok: no option \"bok\""},
        {{"snowskin", "--wait=2"}, "--wait: wait can not be \"2\"; allowed: 1ms to 1h"},
        {{"snowskin", "--wait=2h"}, "--wait: wait can not be \"2h\"; allowed: 1ms to 1h"},
        {{"snowskin", "--room=99999999999999999999k"},
         "--room: room can not be \"99999999999999999999k\"; allowed: 0 to 1TiB"},
        {{"snowskin", "--color=blue"}, "--color: color can not be \"blue\"; allowed: red, green"},
        {{"snowskin", "--tries="}, "--tries: tries can not be \"\"; allowed: 1 to 100"},
        {{"snowskin", "--tries"}, "--tries: a value must follow"},
        {{"snowskin", "--eager=7"}, "--eager: eager can not be \"7\"; allowed: true or false"},
        {{"snowskin", "-w"}, "-w: flags begin with two dashes"},
        {{"snowskin", "--listen=x"},
         "--listen: several modules have this option; put the "
         "module before it: sample_listen or other_listen"},
        {{"snowskin", "--config"}, "--config: a value must follow"},
        {{"snowskin", "--other-listen=01234567890123456"},
         "--other-listen: listen can not be \"01234567890123456\"; allowed: 0 to 16 bytes"},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *argv[3];
        int argc;

        memcpy(argv, cases[i].argv, sizeof(argv));
        start(fixture, true);
        assert_int_equal(flags(fixture, argv, &argc), SNOW_INVALID);
        assert_string_equal(fixture->error_text, cases[i].error);
    }
}

static void test_environment(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(environment(fixture, "SNOWSKIN_WAIT=1m"), SNOW_OK);
    assert_int_equal(fixture->sample.wait_ns, MINUTE(1));
    assert_int_equal(environment(fixture, "SNOWSKIN_SAMPLE_LISTEN=y:2"), SNOW_OK);
    assert_string_equal(fixture->sample.listen, "y:2");
    assert_int_equal(environment(fixture, "SNOWSKIN_CONFIG=b.yaml"), SNOW_OK);
    assert_string_equal(fixture->conf.config, "b.yaml");
    assert_int_equal(environment(fixture, "SNOWSKIN_LISTEN=y:2"), SNOW_INVALID);
    start(fixture, true);
    assert_int_equal(environment(fixture, "SNOWSKIN_TREIS=1"), SNOW_INVALID);
    assert_string_equal(fixture->error_text,
                        "SNOWSKIN_TREIS: no option \"treis\"; did you mean tries?");
}

/* A module that this command does not use: understood, checked, left alone; no flag of it. */
static void test_idle_module(void **state)
{
    struct fixture *fixture = *state;

    start(fixture, false);
    assert_int_equal(environment(fixture, "SNOWSKIN_DEPTH=5"), SNOW_OK);
    assert_int_equal(environment(fixture, "SNOWSKIN_LISTEN=z:3"), SNOW_OK);
    assert_string_equal(fixture->sample.listen, "z:3");
    assert_int_equal(yaml(fixture, "other:\n  depth: 3\n"), SNOW_OK);
    assert_int_equal(yaml(fixture, "other:\n  depth: 33\n"), SNOW_INVALID);
    start(fixture, false);
    assert_int_equal(FLAGS(fixture, "--depth", "5"), SNOW_INVALID);
}

static void test_yaml(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(yaml(fixture, ""), SNOW_OK);
    assert_int_equal(yaml(fixture, "# settings\nwait: 7s\nroom: 1 # byte\nother: {listen: a:1}\n"
                                   "sample:\n  listen: 'b:2'\n  eager: yes\n"),
                     SNOW_OK);
    assert_int_equal(fixture->sample.wait_ns, SEC(7));
    assert_int_equal(fixture->sample.room_bytes, 1);
    assert_string_equal(fixture->sample.listen, "b:2");
    assert_string_equal(fixture->other.listen, "a:1");
    assert_true(fixture->sample.eager);
}

static void test_yaml_errors(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } cases[] = {
        {"wait: 1s\nwait: 2s\n", "snow.yaml:2: this option was set before"},
        {"wait: 1s\nsample: {wait: 2s}\n", "snow.yaml:2: this option was set before"},
        {"wait: &a 1s\n", "snow.yaml:1: anchors and tags are not understood here"},
        {"wait: *a\n", "snow.yaml:1: aliases are not understood here"},
        {"wait: !!str 1s\n", "snow.yaml:1: anchors and tags are not understood here"},
        {"&a {wait: 1s}\n", "snow.yaml:1: anchors and tags are not understood here"},
        {"wait: [1s]\n", "snow.yaml:1: no option takes a list"},
        {"- wait\n", "snow.yaml:1: no option takes a list"},
        {"wait\n", "snow.yaml:1: expected `option: value` lines"},
        {"wait: {a: b}\n", "snow.yaml:1: only a module's name may have options below it"},
        {"sample: {other: {a: b}}\n",
         "snow.yaml:1: only a module's name may have options below it"},
        {"{? {a: b} : c}\n", "snow.yaml:1: only a module's name may have options below it"},
        {"wait: 1s\n---\nroom: 1\n", "snow.yaml:2: a second document"},
        {"\nwait: soon\n", "snow.yaml:2: wait can not be \"soon\"; allowed: 1ms to 1h"},
        {"sample: {listn: x}\n", "snow.yaml:1: no option \"listn\"; did you mean listen?"},
        {"\"\": x\n", "snow.yaml:1: this is no option's name"},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(fixture, true);
        assert_int_equal(yaml(fixture, cases[i].text), SNOW_INVALID);
        assert_string_equal(fixture->error_text, cases[i].error);
    }
    start(fixture, true);
    assert_int_equal(yaml(fixture, "wait: \"unended\n"), SNOW_INVALID);
    char *large = calloc(1, 512 * 1024);
    assert_int_equal(conf_parse_yaml(&fixture->conf, "f", bytes_of(large, 512 * 1024)), SNOW_LIMIT);
    free(large);
}

static void test_precedence(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(FLAGS(fixture, "--tries", "1"), SNOW_OK);
    assert_int_equal(environment(fixture, "SNOWSKIN_TRIES=2"), SNOW_OK);
    assert_int_equal(environment(fixture, "SNOWSKIN_SHARE=2"), SNOW_OK);
    assert_int_equal(yaml(fixture, "tries: 4\nshare: 4\nroom: 4\n"), SNOW_OK);
    assert_int_equal(fixture->sample.tries, 1);
    assert_int_equal(fixture->sample.share_percent, 2);
    assert_int_equal(fixture->sample.room_bytes, 4);
    assert_int_equal(FLAGS(fixture, "--config=a"), SNOW_OK);
    assert_int_equal(environment(fixture, "SNOWSKIN_CONFIG=b"), SNOW_OK);
    assert_string_equal(fixture->conf.config, "a");
}

static void test_help_and_report(void **state)
{
    struct fixture *fixture = *state;
    char buffer[4096];
    struct text text;

    text_init(&text, buffer, sizeof(buffer));
    conf_help(&fixture->conf, &text);
    assert_non_null(strstr(buffer, "  --wait DURATION\n        time to wait\n"
                                   "        1ms to 1h; default 2s\n"));
    assert_non_null(strstr(buffer, "  --eager\n"));
    assert_non_null(strstr(buffer, "  --other-listen TEXT\n"));
    assert_non_null(strstr(buffer, "0 to 1TiB; default 4KiB; may change while running\n"));
    assert_int_equal(FLAGS(fixture, "--color", "green"), SNOW_OK);
    text_init(&text, buffer, sizeof(buffer));
    conf_report(&fixture->conf, &text);
    assert_non_null(strstr(buffer, "wait = 2s (default)\n"));
    assert_non_null(strstr(buffer, "color = green (flag)\n"));
    assert_non_null(strstr(buffer, "sample_listen = here:1 (default)\n"));
}

/* What the modules of the product declare is sound: defaults and draws are in range. */
static void check_table(const struct conf_table *table, void *options)
{
    struct rng rng;

    for (uint32_t i = 0; i < table->count; i++) {
        const struct conf_option *option = &table->options[i];

        assert_true(strlen(option->text) > 0 && strlen(option->name) < 32);
        if (option->type != CONF_TEXT)
            assert_in_range(option->default_number, option->range.low, option->range.high);
        else
            assert_in_range(strlen(option->default_text), option->range.low, option->range.high);
    }
    rng_init(&rng, 1);
    for (int i = 0; i < 1000; i++)
        conf_random(table, options, &rng); /* asserts that draws are within the range */
}

static void test_real_tables(void **state)
{
    struct core_options core;
    struct core_options expected = core_options_default();
    struct node_options node;
    struct master_options master;
    struct fixture *fixture = *state;

    check_table(&sample_table, &fixture->sample);
    check_table(master_core_options_table(), &core);
    check_table(node_options_table(), &node);
    check_table(master_options_table(), &master);
    conf_defaults(master_core_options_table(), &core);
    assert_int_equal(core.lease_max_ns, expected.lease_max_ns);
    assert_int_equal(core.policy, expected.policy);
    assert_int_equal(core.hard_pin_percent, expected.hard_pin_percent);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),    TEST(test_flags),       TEST(test_flag_errors),
        TEST(test_environment), TEST(test_idle_module), TEST(test_yaml),
        TEST(test_yaml_errors), TEST(test_precedence),  TEST(test_help_and_report),
        TEST(test_real_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
