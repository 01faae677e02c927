/* Key rules: keys as the engines make them, and what is refused. */
#include "client/rules.h"

#include "base/limits.h"
#include "fake.h"

#include <string.h>

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

struct example {
    enum snow_key_rule rule;
    const char *key;
    const char *id; /* NULL: it is in no group */
};

static const struct example examples[] = {
    /* Layers, K and V, ranks; pools beside them; a tag of the configuration before the digits. */
    {SNOW_KEY_RULE_SGLANG, HASH "_0_k", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH "_7_v", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH "_3_1_k", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH "__k", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH "_0_draft_k", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH "_0_conv_2", HASH},
    {SNOW_KEY_RULE_SGLANG, HASH, HASH},
    {SNOW_KEY_RULE_SGLANG, "ukv1-0123456789abcdef_" HASH "_0_v", "ukv1-0123456789abcdef_" HASH},
    {SNOW_KEY_RULE_SGLANG, "warmup-key", NULL},
    {SNOW_KEY_RULE_SGLANG, "0" HASH "_0_k", NULL}, /* 65 digits */
    {SNOW_KEY_RULE_SGLANG, HASH "0k", NULL},
    {SNOW_KEY_RULE_VLLM, "Qwen/Qwen3-8B@tp_rank:3@pcp0@dcp0@pp_rank:1@group:0@a1b2c3",
     "Qwen/Qwen3-8B@tp_rank:@pcp0@dcp0@pp_rank:@group:@a1b2c3"},
    {SNOW_KEY_RULE_VLLM, "tag@Qwen/Qwen3-8B@tp_rank:10@pcp1@dcp0@pp_rank:0@group:12@a1b2c3",
     "tag@Qwen/Qwen3-8B@tp_rank:@pcp1@dcp0@pp_rank:@group:@a1b2c3"},
    {SNOW_KEY_RULE_VLLM, "Qwen/Qwen3-8B@tp_rank:@pcp0@dcp0@pp_rank:@group:@a1b2c3", NULL},
    {SNOW_KEY_RULE_VLLM, "Qwen/Qwen3-8B@pcp0@a1b2c3", NULL},
    {SNOW_KEY_RULE_LMCACHE, "meta-llama/Llama-3.1-8B@8@5@-3f2a9c@bfloat16",
     "meta-llama/Llama-3.1-8B@8@@-3f2a9c@bfloat16"},
    {SNOW_KEY_RULE_LMCACHE, "meta-llama/Llama-3.1-8B@8@5@3f2a9c@bfloat16@user%7",
     "meta-llama/Llama-3.1-8B@8@@3f2a9c@bfloat16@user%7"},
    {SNOW_KEY_RULE_LMCACHE, "vllm@meta-llama/Llama-3.1-8B@8@5@3f2a9c",
     "vllm@meta-llama/Llama-3.1-8B@8@@3f2a9c"},
    {SNOW_KEY_RULE_LMCACHE, "meta-llama/Llama-3.1-8B@8@@3f2a9c@bfloat16", NULL},
    {SNOW_KEY_RULE_LMCACHE, "something else", NULL},
};

static struct client_rules *make(const struct snow_key_rules *from)
{
    struct client_rules *rules = NULL;
    const char *reason = "";

    assert_int_equal(client_rules_create(from, &rules, &reason), SNOW_OK);
    return rules;
}

static void keys_of_engines(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 0);
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        struct snow_key_rules from = {.rule = examples[i].rule, .members = 16};
        struct client_rules *rules = make(&from);
        struct snow_key key = {.at = examples[i].key, .size = strlen(examples[i].key)};
        struct snow_member member = client_rules_member(rules, &key, &arena);
        struct bytes id = bytes_of(member.group.at, member.group.size);

        if (examples[i].id == NULL) {
            assert_int_equal(id.size, 0);
        } else {
            assert_true(bytes_equal(id, bytes_of_string(examples[i].id)));
            assert_int_equal(member.size, 16);
            assert_int_equal(member.index, SNOW_GROUP_INDEX_ANY);
            assert_int_equal(member.flags, SNOW_GROUP_ADOPT);
            /* An id may stand where a key does. */
            id = client_rules_group(rules, id, &arena, NULL);
            assert_true(id.size == 0 || bytes_equal(id, bytes_of_string(examples[i].id)));
        }
        client_rules_destroy(rules);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
}

static void patterns_of_ones_own(void **state)
{
    struct snow_key_rules from = {.rule = SNOW_KEY_RULE_CUSTOM,
                                  .pattern = "m(?<index>[0-9]+)/[a-z]+(?<part>(/[kv])?)",
                                  .members = 8,
                                  .no_adopt = 1};
    struct client_rules *rules = make(&from);
    struct snow_key key = {.at = "m5/abc/k", .size = 8};
    struct snow_member member;
    uint8_t large[LIMIT_KEY_SIZE];
    struct arena arena;

    (void)state;
    arena_init(&arena, 0);
    member = client_rules_member(rules, &key, &arena);
    assert_true(
        bytes_equal(bytes_of(member.group.at, member.group.size), bytes_of_string("m/abc")));
    assert_int_equal(member.index, 5);
    assert_int_equal(member.flags, 0);
    key = (struct snow_key){.at = "m99999999999/abc", .size = 16};
    assert_int_equal(client_rules_member(rules, &key, &arena).index, SNOW_GROUP_INDEX_ANY);
    memset(large, 'a', sizeof(large));
    memcpy(large, "m1/", 3);
    key = (struct snow_key){.at = large, .size = sizeof(large)};
    assert_int_equal(client_rules_member(rules, &key, &arena).group.size, 0); /* no id is so long */
    client_rules_destroy(rules);
    from.members = 0;
    rules = make(&from);
    key = (struct snow_key){.at = "m5/abc/k", .size = 8};
    assert_int_equal(client_rules_member(rules, &key, &arena).index, SNOW_GROUP_INDEX_ANY);
    client_rules_destroy(rules);
    arena_deinit(&arena);
    from = (struct snow_key_rules){.rule = SNOW_KEY_RULE_OFF};
    assert_null(make(&from));
    assert_null(make(NULL));
}

static void what_is_refused(void **state)
{
    static const struct snow_key_rules wrong[] = {
        {.rule = 5},
        {.rule = SNOW_KEY_RULE_CUSTOM},
        {.rule = SNOW_KEY_RULE_SGLANG, .pattern = "(?<id>a)"},
        {.rule = SNOW_KEY_RULE_SGLANG, .members = 65536},
        {.rule = SNOW_KEY_RULE_SGLANG, .no_adopt = 2},
        {.rule = SNOW_KEY_RULE_SGLANG, .reserved = {0, 1}},
        {.rule = SNOW_KEY_RULE_CUSTOM, .pattern = "abc"},
        {.rule = SNOW_KEY_RULE_CUSTOM, .pattern = "(?<id>a"},
        {.rule = SNOW_KEY_RULE_CUSTOM, .pattern = "(?<layer>a)"},
        {.rule = SNOW_KEY_RULE_CUSTOM, .pattern = "(?<partly>a)"},
        {.rule = SNOW_KEY_RULE_CUSTOM, .pattern = "(?<id>a)\\1"},
        {.rule = SNOW_KEY_RULE_CUSTOM,
         .pattern = "(?<part1>a)(?<part2>a)(?<part3>a)(?<part4>a)(?<part5>a)(?<part6>a)(?<part7>a)"
                    "(?<part8>a)(?<part9>a)(?<part10>a)(?<part11>a)(?<part12>a)(?<part13>a)"
                    "(?<part14>a)(?<part15>a)(?<part16>a)(?<part17>a)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct client_rules *rules = NULL;
        const char *reason = "";

        assert_int_equal(client_rules_create(&wrong[i], &rules, &reason), SNOW_INVALID);
        assert_null(rules);
        assert_true(reason[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_engines),
        cmocka_unit_test(patterns_of_ones_own),
        cmocka_unit_test(what_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
