#include "client/rules.h"

#include "base/limits.h"
#include "base/pattern.h"
#include "client/inside.h"

#include <stdlib.h>
#include <string.h>

enum field { FIELD_ID, FIELD_PART, FIELD_INDEX };

struct client_rules {
    struct pattern *pattern;
    uint32_t members; /* 0: groups are open */
    uint32_t flags;   /* SNOW_GROUP_* */
    uint32_t field_count;
    enum field fields[PATTERN_FIELDS_MAX];
};

static const char *pattern_of(const struct snow_key_rules *from)
{
    switch (from->rule) {
#define KEY_RULE(name, pattern, text) \
    case SNOW_KEY_RULE_##name: \
        return pattern;
#include "client/key_rules.def"
#undef KEY_RULE
    case SNOW_KEY_RULE_CUSTOM:
        return from->pattern;
    default:
        return NULL;
    }
}

static bool is_part(const char *name)
{
    return strncmp(name, "part", 4) == 0 && strspn(name + 4, "0123456789") == strlen(name + 4);
}

static enum snow_status name_fields(struct client_rules *rules, const char **reason)
{
    bool some = false;

    rules->field_count = pattern_field_count(rules->pattern);
    if (rules->field_count > PATTERN_FIELDS_MAX) {
        *reason = "options.key_rules: the pattern has more than 16 fields";
        return SNOW_INVALID;
    }
    for (uint32_t i = 0; i < rules->field_count; i++) {
        const char *name = pattern_field_name(rules->pattern, i);

        if (strcmp(name, "id") == 0) {
            rules->fields[i] = FIELD_ID;
        } else if (strcmp(name, "index") == 0) {
            rules->fields[i] = FIELD_INDEX;
        } else if (is_part(name)) {
            rules->fields[i] = FIELD_PART;
        } else {
            *reason = "options.key_rules: fields are called id, index, part, part1, part2 ...";
            return SNOW_INVALID;
        }
        some = true;
    }
    if (some)
        return SNOW_OK;
    *reason = "options.key_rules: the pattern has no field: (?<id>...), (?<part>...)";
    return SNOW_INVALID;
}

static enum snow_status check(const struct snow_key_rules *from, const char **reason)
{
    if (CLIENT_RESERVED(from) != SNOW_OK || from->rule > SNOW_KEY_RULE_CUSTOM ||
        from->no_adopt > 1 || from->spare != 0)
        *reason = "options.key_rules: no such rule, or set by a program that is newer than this "
                  "library";
    else if (from->members > LIMIT_GROUP_SIZE)
        *reason = "options.key_rules: a group has at most 65,535 members";
    else if ((from->pattern != NULL) != (from->rule == SNOW_KEY_RULE_CUSTOM))
        *reason = "options.key_rules: a pattern goes with the rule custom, and that one with a "
                  "pattern";
    else
        return SNOW_OK;
    return SNOW_INVALID;
}

enum snow_status client_rules_create(const struct snow_key_rules *from,
                                     struct client_rules **created, const char **reason)
{
    struct client_rules *rules;
    enum snow_status status;

    *created = NULL;
    if (from == NULL)
        return SNOW_OK;
    status = check(from, reason);
    if (status != SNOW_OK || from->rule == SNOW_KEY_RULE_OFF)
        return status;
    rules = calloc(1, sizeof(*rules));
    *reason = "out of memory";
    if (rules == NULL)
        return SNOW_NO_MEMORY;
    rules->members = from->members;
    rules->flags = from->no_adopt ? 0 : SNOW_GROUP_ADOPT;
    status = pattern_compile_whole(bytes_of_string(pattern_of(from)), &rules->pattern, reason);
    if (status == SNOW_OK)
        status = name_fields(rules, reason);
    if (status == SNOW_OK)
        *created = rules;
    else
        client_rules_destroy(rules);
    return status == SNOW_OK || status == SNOW_NO_MEMORY ? status : SNOW_INVALID;
}

void client_rules_destroy(struct client_rules *rules)
{
    if (rules == NULL)
        return;
    pattern_destroy(rules->pattern);
    free(rules);
}

/* ---- taking keys apart ---------------------------------------------------------------------- */

/* A decimal number below 65,535; else any. */
static uint32_t number_of(struct bytes digits)
{
    uint32_t number = 0;

    for (size_t i = 0; i < digits.size; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' || number > LIMIT_GROUP_SIZE)
            return SNOW_GROUP_INDEX_ANY;
        number = number * 10 + (digits.at[i] - '0');
    }
    return digits.size == 0 || number >= LIMIT_GROUP_SIZE ? SNOW_GROUP_INDEX_ANY : number;
}

/* The key without the marked bytes. */
static struct bytes without(struct bytes key, const uint8_t *cut, struct arena *arena)
{
    uint8_t *id = arena_take(arena, key.size);
    size_t size = 0;

    for (size_t i = 0; i < key.size && id != NULL; i++) {
        if (!cut[i])
            id[size++] = key.at[i];
    }
    return bytes_of(id, size);
}

static struct bytes checked(struct bytes id)
{
    return id.size > LIMIT_GROUP_ID_SIZE ? bytes_of(NULL, 0) : id;
}

struct bytes client_rules_group(const struct client_rules *rules, struct bytes key,
                                struct arena *arena, uint32_t *index)
{
    uint8_t cut[LIMIT_KEY_SIZE] = {0};

    if (key.size > LIMIT_KEY_SIZE || pattern_match(rules->pattern, key) != SNOW_OK)
        return bytes_of(NULL, 0);
    if (index != NULL)
        *index = SNOW_GROUP_INDEX_ANY;
    for (uint32_t i = 0; i < rules->field_count; i++) {
        struct bytes field = pattern_field(rules->pattern, key, i);

        if (rules->fields[i] == FIELD_INDEX && index != NULL)
            *index = number_of(field);
        if (field.size > 0 && rules->fields[i] != FIELD_ID)
            memset(cut + (field.at - key.at), 1, field.size);
    }
    for (uint32_t i = 0; i < rules->field_count; i++) {
        if (rules->fields[i] == FIELD_ID)
            return checked(pattern_field(rules->pattern, key, i));
    }
    return checked(without(key, cut, arena));
}

struct snow_member client_rules_member(const struct client_rules *rules, const struct snow_key *key,
                                       struct arena *arena)
{
    uint32_t index;
    struct bytes id = client_rules_group(rules, client_key_bytes(key), arena, &index);

    if (id.size == 0)
        return (struct snow_member){.group = {.size = 0}};
    return (struct snow_member){.group = {.at = id.at, .size = id.size},
                                .size = rules->members,
                                .index = rules->members == 0 ? SNOW_GROUP_INDEX_ANY : index,
                                .flags = rules->flags};
}
