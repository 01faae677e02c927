#include "base/limits.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static enum snow_status parse(const char *input, struct trace *trace, char *reason)
{
    struct text error;

    text_init(&error, reason, 256);
    return trace_parse(bytes_of_string(input), 0, trace, &error);
}

static void a_trace_is_counted(void **state)
{
    struct trace trace;
    char reason[256];

    (void)state;
    assert_int_equal(parse("{\"timestamp\": 0, \"hash_ids\": [1, 2, 3]}\n"
                           "{\"timestamp\": 7, \"hash_ids\": [1, 2, 4]}\n"
                           "{\"timestamp\": 9, \"hash_ids\": [5, 2, 4]}",
                           &trace, reason),
                     SNOW_OK);
    assert_int_equal(trace.request_count, 3);
    assert_int_equal(trace.block_count, 9);
    assert_int_equal(trace.distinct, 5);
    assert_int_equal(trace.infinite_hits, 2); /* a hit is a prefix: 2 and 4 of the last are none */
    assert_int_equal(trace.requests[1].at_ms, 7);
    assert_int_equal(trace.blocks[trace.requests[2].first], 5);
    trace_free(&trace);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *input;
        const char *says;
    } cases[] = {
        {"", "line 1"},
        {"{\"timestamp\": 0, \"hash_ids\": [1]}\n\n{}", "line 2"},
        {"{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 0, \"hash_ids\": [1", "line 2"},
        {"{\"timestamp\": -1, \"hash_ids\": [1]}", "timestamp"},
        {"{\"timestamp\": 0, \"hash_ids\": []}", "hash_ids"},
        {"{\"timestamp\": 0, \"hash_ids\": [1.5]}", "block id"},
        {"{\"timestamp\": 0, \"hash_ids\": 3}", "hash_ids"},
        {"[1]", "object"},
    };
    struct trace trace;
    char reason[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].input, &trace, reason), SNOW_INVALID);
        assert_non_null(strstr(reason, cases[i].says));
    }
}

static void the_traces_of_the_project_have_their_figures(void **state)
{
    static const struct {
        const char *path;
        uint64_t requests;
        uint64_t blocks;
        uint64_t distinct;
        uint64_t hits; /* per 10,000 */
    } traces[] = {
        {SOURCE_DIR "/traces/conversation_trace.jsonl", 12031, 288500, 182790, 3664},
        {SOURCE_DIR "/traces/synthetic_trace.jsonl", 3993, 121877, 43924, 6396},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(traces[i].path, "rb");
        char *data = malloc(8 * MIB);
        struct trace trace;
        struct text error;
        char reason[256];

        assert_non_null(file);
        assert_non_null(data);
        size_t size = fread(data, 1, 8 * MIB, file);

        fclose(file);
        text_init(&error, reason, sizeof(reason));
        assert_int_equal(trace_parse(bytes_of(data, size), 0, &trace, &error), SNOW_OK);
        assert_int_equal(trace.request_count, traces[i].requests);
        assert_int_equal(trace.block_count, traces[i].blocks);
        assert_int_equal(trace.distinct, traces[i].distinct);
        assert_int_equal((trace.infinite_hits * 10000 + trace.block_count / 2) / trace.block_count,
                         traces[i].hits);
        trace_free(&trace);
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_counted),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(the_traces_of_the_project_have_their_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
