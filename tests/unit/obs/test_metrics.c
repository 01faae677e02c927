/* The text for Prometheus, of a small table and of the core's. */
#include "obs/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define TEXT_SIZE 65536

static const struct obs_metric rows[] = {
    {"gets", OBS_COUNTER, "gets so far"},
    {"used_bytes", OBS_GAUGE, "bytes in use"},
};
static const struct obs_metrics_table table = {.module = "node", .metrics = rows, .count = 2};

static const struct obs_metric core_rows[] = {
#define METRIC OBS_METRIC
#include "core/core_metrics.def"
#undef METRIC
};
static const struct obs_metrics_table core_table = {
    .module = "core", .metrics = core_rows, .count = sizeof(core_rows) / sizeof(core_rows[0])};

static void test_one_set(void **state)
{
    uint64_t values[] = {3, UINT64_MAX};
    struct obs_metrics_values set = {.values = values};
    char buffer[1024];
    struct text text;

    (void)state;
    text_init(&text, buffer, sizeof(buffer));
    assert_int_equal(obs_metrics_print(&table, &set, 1, &text), SNOW_OK);
    assert_string_equal(buffer, "# HELP snowskin_node_gets_total gets so far\n"
                                "# TYPE snowskin_node_gets_total counter\n"
                                "snowskin_node_gets_total 3\n"
                                "# HELP snowskin_node_used_bytes bytes in use\n"
                                "# TYPE snowskin_node_used_bytes gauge\n"
                                "snowskin_node_used_bytes 18446744073709551615\n");
}

static void test_labels(void **state)
{
    uint64_t values[] = {1, 2};
    struct obs_metrics_values sets[] = {
        {.label = "node", .value = bytes_of_string("a\"\n\\\x80"), .values = values},
        {.label = "node", .value = bytes_of_string("b"), .values = values}};
    char buffer[1024];
    struct text text;

    (void)state;
    text_init(&text, buffer, sizeof(buffer));
    assert_int_equal(obs_metrics_print(&table, sets, 2, &text), SNOW_OK);
    assert_non_null(strstr(buffer,
                           "counter\nsnowskin_node_gets_total{node=\"a\\\"\\n\\\\\\\\x80\"} 1\n"
                           "snowskin_node_gets_total{node=\"b\"} 1\n# HELP"));
    text_init(&text, buffer, 100);
    assert_int_equal(obs_metrics_print(&table, sets, 2, &text), SNOW_LIMIT);
    assert_int_equal(strlen(buffer), 99);
}

static void test_core_table(void **state)
{
    uint64_t *values = calloc(core_table.count, sizeof(*values));
    struct obs_metrics_values set = {.values = values};
    char *buffer = malloc(TEXT_SIZE);
    struct text text;

    (void)state;
    text_init(&text, buffer, TEXT_SIZE);
    assert_int_equal(obs_metrics_print(&core_table, &set, 1, &text), SNOW_OK);
    for (uint32_t i = 0; i < core_table.count; i++)
        assert_non_null(strstr(buffer, core_rows[i].text));
    free(values);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_set),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_core_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
