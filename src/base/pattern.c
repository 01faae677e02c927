/* A pattern is refused when it is compiled if it is long, nests deep, refers back to what a group
 * matched, or expands to much code (nested counted repeats multiply).  A match gives up after a
 * bounded number of backtracking steps; the library counts them anew at each place where a match
 * may begin, so the limit shrinks as the subject grows.  A step takes some nanoseconds: a hostile
 * pattern costs a quarter of a millisecond on a key of usual length.
 *
 * Machine code (JIT) counts steps too; where there is none, the interpreter's limits on depth and
 * heap come in.  Subjects are bytes: UTF and Unicode properties stay off, also when the pattern
 * asks for them. */
#include "base/pattern.h"

#include "base/limits.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#define NEST_MAX 32u                /* parentheses */
#define CODE_SIZE_MAX (32u * 1024u) /* bytes of a compiled pattern */
#define STEPS_MAX 100000u           /* backtracking steps of a match, over all beginnings */
#define STEPS_HERE_MIN 100u         /* from one beginning, at least */
#define STEPS_HERE_MAX 10000u       /* and at most */
#define DEPTH_LIMIT 1000u           /* of nested backtracking, interpreter */
#define HEAP_LIMIT_KIB 1024u        /* interpreter */
#define JIT_STACK_FIRST (32u * 1024u)
#define JIT_STACK_MAX (256u * 1024u)
#define REASON_SIZE 192

struct pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack; /* NULL: no machine code */
    bool anchored;          /* can only match at the first byte */
    const uint8_t *names;   /* table of the fields: number, name */
    uint32_t name_size;     /* bytes of a row */
    uint32_t field_count;
};

static _Thread_local char last_reason[REASON_SIZE];

static enum snow_status refuse(const char **reason, enum snow_status status, const char *what,
                               size_t position)
{
    snprintf(last_reason, sizeof(last_reason), "%s at byte %zu of the pattern", what, position);
    *reason = last_reason;
    return status;
}

static enum snow_status compile_code(struct bytes text, uint32_t more, pcre2_code **code,
                                     const char **reason)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    const uint8_t *at = text.size == 0 ? (const uint8_t *)"" : text.at;
    size_t position = 0;
    int error = 0;

    if (context == NULL)
        return refuse(reason, SNOW_NO_MEMORY, "out of memory", 0);
    pcre2_set_parens_nest_limit(context, NEST_MAX);
    *code = pcre2_compile(at, text.size,
                          PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NO_AUTO_CAPTURE | more, &error,
                          &position, context);
    pcre2_compile_context_free(context);
    if (*code == NULL) {
        PCRE2_UCHAR what[REASON_SIZE / 2];

        if (pcre2_get_error_message(error, what, sizeof(what)) < 0)
            return refuse(reason, SNOW_INVALID, "not a regular expression", position);
        return refuse(reason, SNOW_INVALID, (const char *)what, position);
    }
    return SNOW_OK;
}

/* Refuses what compiles but may cost too much. */
static enum snow_status judge_code(struct pattern *pattern, size_t text_size, const char **reason)
{
    size_t size = 0;
    uint32_t reference = 0;
    uint32_t options = 0;

    if (pcre2_pattern_info(pattern->code, PCRE2_INFO_SIZE, &size) != 0 ||
        pcre2_pattern_info(pattern->code, PCRE2_INFO_BACKREFMAX, &reference) != 0 ||
        pcre2_pattern_info(pattern->code, PCRE2_INFO_ALLOPTIONS, &options) != 0)
        return refuse(reason, SNOW_INVALID, "not a regular expression", text_size);
    if (size > CODE_SIZE_MAX)
        return refuse(reason, SNOW_INVALID, "repeats expand to too much", text_size);
    if (reference > 0)
        return refuse(reason, SNOW_INVALID, "references to groups are not supported", text_size);
    pattern->anchored = (options & PCRE2_ANCHORED) != 0;
    return SNOW_OK;
}

/* What a match needs beside the code. */
static bool prepare(struct pattern *pattern)
{
    pattern->match = pcre2_match_data_create_from_pattern(pattern->code, NULL);
    pattern->limits = pcre2_match_context_create(NULL);
    if (pattern->match == NULL || pattern->limits == NULL ||
        pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMECOUNT, &pattern->field_count) != 0 ||
        pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMEENTRYSIZE, &pattern->name_size) != 0 ||
        pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMETABLE, &pattern->names) != 0)
        return false;
    pcre2_set_depth_limit(pattern->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(pattern->limits, HEAP_LIMIT_KIB);
    if (pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0) {
        pattern->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
        if (pattern->stack == NULL)
            return false;
        pcre2_jit_stack_assign(pattern->limits, NULL, pattern->stack);
    }
    return true;
}

static enum snow_status compile(struct bytes text, uint32_t more, struct pattern **pattern,
                                const char **reason)
{
    struct pattern *created;
    enum snow_status status;

    if (text.size > LIMIT_PATTERN_SIZE)
        return refuse(reason, SNOW_LIMIT, "too long", LIMIT_PATTERN_SIZE);
    created = calloc(1, sizeof(*created));
    if (created == NULL)
        return refuse(reason, SNOW_NO_MEMORY, "out of memory", 0);
    status = compile_code(text, more, &created->code, reason);
    if (status != SNOW_OK)
        goto destroy;
    status = judge_code(created, text.size, reason);
    if (status != SNOW_OK)
        goto destroy;
    if (!prepare(created)) {
        status = refuse(reason, SNOW_NO_MEMORY, "out of memory", 0);
        goto destroy;
    }
    *pattern = created;
    return SNOW_OK;

destroy:
    pattern_destroy(created);
    return status;
}

enum snow_status pattern_compile(struct bytes text, struct pattern **pattern, const char **reason)
{
    return compile(text, 0, pattern, reason);
}

enum snow_status pattern_compile_whole(struct bytes text, struct pattern **pattern,
                                       const char **reason)
{
    return compile(text, PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL, pattern, reason);
}

/* Backtracking steps allowed from each place where a match may begin. */
static uint32_t steps_here(const struct pattern *pattern, size_t size)
{
    size_t beginnings = pattern->anchored ? 1 : size + 1;
    size_t steps = STEPS_MAX / beginnings;

    if (steps < STEPS_HERE_MIN)
        return STEPS_HERE_MIN;
    return steps > STEPS_HERE_MAX ? STEPS_HERE_MAX : (uint32_t)steps;
}

enum snow_status pattern_match(struct pattern *pattern, struct bytes subject)
{
    const uint8_t *at = subject.size == 0 ? (const uint8_t *)"" : subject.at;
    int result;

    pcre2_set_match_limit(pattern->limits, steps_here(pattern, subject.size));
    result = pcre2_match(pattern->code, at, subject.size, 0, 0, pattern->match, pattern->limits);
    if (result >= 0)
        return SNOW_OK;
    return result == PCRE2_ERROR_NOMATCH ? SNOW_NOT_FOUND : SNOW_LIMIT;
}

uint32_t pattern_field_count(const struct pattern *pattern)
{
    return pattern->field_count;
}

const char *pattern_field_name(const struct pattern *pattern, uint32_t index)
{
    return (const char *)pattern->names + index * pattern->name_size + 2;
}

struct bytes pattern_field(const struct pattern *pattern, struct bytes subject, uint32_t index)
{
    const uint8_t *row = pattern->names + index * pattern->name_size;
    uint32_t number = (uint32_t)row[0] << 8 | row[1];
    const size_t *ends = pcre2_get_ovector_pointer(pattern->match) + 2 * (size_t)number;

    if (number >= pcre2_get_ovector_count(pattern->match) || ends[0] == PCRE2_UNSET ||
        ends[1] < ends[0])
        return bytes_of(NULL, 0);
    return bytes_of(subject.at + ends[0], ends[1] - ends[0]);
}

void pattern_destroy(struct pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_jit_stack_free(pattern->stack);
    pcre2_match_context_free(pattern->limits);
    pcre2_match_data_free(pattern->match);
    pcre2_code_free(pattern->code);
    free(pattern);
}
