/* Values of options: from text to number and back.
 *
 * Problem.  People write 2s, 4GiB, 25%; code wants ns, bytes and plain numbers, inside a range.
 * Idea.     A number is digits and a unit; each type has a table of units.
 * Invariants.
 *   V1  What prints parses to the same number.
 *   V2  No text overflows: more than 64 bits is out of range. */
#include "conf/value.h"

#include "base/limits.h"

#include <stdlib.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: printing takes the first that divides. */
static const struct unit duration_units[] = {
    {"h", 3600 * NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"s", NS_PER_S},
    {"ms", NS_PER_MS},
    {"us", NS_PER_US},
    {"ns", 1},
    {NULL, 0},
};
static const struct unit byte_units[] = {
    {"TiB", TIB}, {"GiB", GIB}, {"MiB", MIB}, {"KiB", KIB}, {"t", TIB},
    {"g", GIB},   {"m", MIB},   {"k", KIB},   {"", 1},      {NULL, 0},
};
static const struct unit percent_units[] = {{"%", 1}, {"", 1}, {NULL, 0}};
static const struct unit count_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(enum conf_type type)
{
    switch (type) {
    case CONF_DURATION:
        return duration_units;
    case CONF_BYTES:
        return byte_units;
    case CONF_PERCENT:
        return percent_units;
    default:
        return count_units;
    }
}

static bool text_is(struct bytes text, const char *word)
{
    return text.size == strlen(word) &&
           (text.size == 0 || strncasecmp((const char *)text.at, word, text.size) == 0);
}

/* Digits, then a unit. */
static bool parse_units(const struct unit *units, struct bytes text, uint64_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;

    for (; digits < text.size && text.at[digits] >= '0' && text.at[digits] <= '9'; digits++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text.at[digits] - '0', &value))
            return false;
    }
    if (digits == 0)
        return false;
    struct bytes name = bytes_of(text.at + digits, text.size - digits);
    if (value == 0 && name.size == 0) { /* nothing is nothing in every unit */
        *number = 0;
        return true;
    }
    for (; units->name != NULL; units++) {
        if (text_is(name, units->name))
            return !__builtin_mul_overflow(value, units->factor, number);
    }
    return false;
}

static bool parse_bool(struct bytes text, uint64_t *number)
{
    static const char *const words[2][4] = {{"false", "no", "off", "0"},
                                            {"true", "yes", "on", "1"}};

    for (uint64_t value = 0; value < 2; value++) {
        for (size_t i = 0; i < 4; i++) {
            if (text_is(text, words[value][i])) {
                *number = value;
                return true;
            }
        }
    }
    return false;
}

static bool parse_choice(const struct conf_option *option, struct bytes text, uint64_t *number)
{
    for (uint64_t i = 0; option->range.choices[i] != NULL; i++) {
        if (text_is(text, option->range.choices[i])) {
            *number = i;
            return true;
        }
    }
    return false;
}

enum snow_status conf_number_parse(const struct conf_option *option, struct bytes text,
                                   uint64_t *number)
{
    uint64_t value;
    bool reads;

    if (option->type == CONF_BOOL)
        reads = parse_bool(text, &value);
    else if (option->type == CONF_CHOICE)
        reads = parse_choice(option, text, &value);
    else
        reads = parse_units(units_of(option->type), text, &value);
    if (!reads || value < option->range.low || value > option->range.high)
        return SNOW_INVALID;
    *number = value;
    return SNOW_OK;
}

void conf_number_print(const struct conf_option *option, uint64_t number, struct text *text)
{
    const struct unit *unit = units_of(option->type);

    if (option->type == CONF_BOOL) {
        text_add(text, "%s", number != 0 ? "true" : "false");
        return;
    }
    if (option->type == CONF_CHOICE) {
        text_add(text, "%s", option->range.choices[number]);
        return;
    }
    if (number == 0) {
        text_add(text, "0");
        return;
    }
    while (number % unit->factor != 0)
        unit++;
    text_add(text, "%llu%s", (unsigned long long)(number / unit->factor), unit->name);
}

void conf_range_print(const struct conf_option *option, struct text *text)
{
    switch (option->type) {
    case CONF_BOOL:
        text_add(text, "true or false");
        return;
    case CONF_CHOICE:
        for (size_t i = 0; option->range.choices[i] != NULL; i++)
            text_add(text, "%s%s", i == 0 ? "" : ", ", option->range.choices[i]);
        return;
    case CONF_TEXT:
        text_add(text, "%llu to %llu bytes", (unsigned long long)option->range.low,
                 (unsigned long long)option->range.high);
        return;
    default:
        conf_number_print(option, option->range.low, text);
        text_add(text, " to ");
        conf_number_print(option, option->range.high, text);
    }
}

const char *conf_type_name(enum conf_type type)
{
    static const char *const names[] = {
        [CONF_DURATION] = "DURATION", [CONF_BYTES] = "BYTES", [CONF_COUNT] = "COUNT",
        [CONF_PERCENT] = "PERCENT",   [CONF_BOOL] = "BOOL",   [CONF_CHOICE] = "CHOICE",
        [CONF_TEXT] = "TEXT",
    };

    return names[type];
}

uint64_t conf_number_get(const struct conf_option *option, const void *options)
{
    const char *at = (const char *)options + option->offset;

    switch (option->type) {
    case CONF_BOOL:
        return *(const bool *)(const void *)at ? 1 : 0;
    case CONF_CHOICE:
        return *(const uint32_t *)(const void *)at;
    default:
        return *(const uint64_t *)(const void *)at;
    }
}

void conf_number_set(const struct conf_option *option, void *options, uint64_t number)
{
    void *at = (char *)options + option->offset;

    switch (option->type) {
    case CONF_BOOL:
        *(bool *)at = number != 0;
        return;
    case CONF_CHOICE:
        *(uint32_t *)at = (uint32_t)number;
        return;
    default:
        *(uint64_t *)at = number;
    }
}

const char *conf_text_get(const struct conf_option *option, const void *options)
{
    const void *at = (const char *)options + option->offset;

    return *(const char *const *)at;
}

void conf_text_set(const struct conf_option *option, void *options, const char *value)
{
    void *at = (char *)options + option->offset;

    *(const char **)at = value;
}
