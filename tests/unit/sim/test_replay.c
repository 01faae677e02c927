/* A trace on the simulated cluster: the same requests, however fast they come, have the same
 * objects evicted in the same order. */
#include "base/limits.h"
#include "core/options.h"
#include "sim/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define REQUESTS 600u

/* The beginning of a trace. */
static struct trace read_trace(const char *name)
{
    struct trace trace;
    struct text error;
    char reason[256];
    char path[512];
    uint8_t *data = malloc(8 * MIB);

    assert_non_null(data);
    snprintf(path, sizeof(path), "%s/traces/%s_trace.jsonl", SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    size_t size = fread(data, 1, 8 * MIB, file);

    fclose(file);
    text_init(&error, reason, sizeof(reason));
    assert_int_equal(trace_parse(bytes_of(data, size), REQUESTS, &trace, &error), SNOW_OK);
    free(data);
    return trace;
}

static struct replay_result play(const struct trace *trace, uint32_t policy, double pace,
                                 uint64_t seed)
{
    struct replay_plan plan = {.trace = trace,
                               .pool_blocks = trace->distinct / 20,
                               .block_bytes = 256,
                               .policy = policy,
                               .pace = pace,
                               .seed = seed};
    struct replay_result result = replay_run(&plan, NULL, NULL);

    assert_string_equal(result.finding, "");
    assert_int_equal(result.requests, trace->request_count);
    assert_int_equal(result.blocks, trace->block_count);
    return result;
}

static void same_at_any_speed(const char *name)
{
    struct trace trace = read_trace(name);
    struct replay_result as_told = play(&trace, CORE_POLICY_RRC, 1, 1);
    struct replay_result slow = play(&trace, CORE_POLICY_RRC, 10, 2);
    struct replay_result fast = play(&trace, CORE_POLICY_RRC, 0.01, 3);
    struct replay_result other = play(&trace, CORE_POLICY_LRU, 1, 1);

    assert_true(as_told.evicted > 5000 && as_told.hit_blocks > 100);
    assert_true(slow.took_ns > 9 * as_told.took_ns && fast.took_ns < as_told.took_ns / 20);
    assert_int_equal(slow.evicted, as_told.evicted);
    assert_int_equal(fast.evicted, as_told.evicted);
    assert_true(slow.evicted_hash == as_told.evicted_hash);
    assert_true(fast.evicted_hash == as_told.evicted_hash);
    assert_true(other.evicted_hash != as_told.evicted_hash);
    trace_free(&trace);
}

static void conversation_is_the_same_at_any_speed(void **state)
{
    (void)state;
    same_at_any_speed("conversation");
}

static void synthetic_is_the_same_at_any_speed(void **state)
{
    (void)state;
    same_at_any_speed("synthetic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_is_the_same_at_any_speed),
        cmocka_unit_test(synthetic_is_the_same_at_any_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
