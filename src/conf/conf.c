/* Tables of options as a whole: defaults, random draws, help and report. */
#include "conf/conf.h"

#include "base/assert.h"
#include "conf/value.h"

void conf_defaults(const struct conf_table *table, void *options)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct conf_option *option = &table->options[i];

        if (option->type == CONF_TEXT)
            conf_text_set(option, options, option->default_text);
        else
            conf_number_set(option, options, option->default_number);
    }
}

void conf_random(const struct conf_table *table, void *options, struct rng *rng)
{
    conf_defaults(table, options);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct conf_option *option = &table->options[i];
        uint64_t low = option->sim.low;
        uint64_t high = option->sim.high;

        if (option->type == CONF_TEXT || low > high || rng_chance(rng, 1, 4))
            continue;
        ASSERT(low >= option->range.low && high <= option->range.high);
        if (rng_chance(rng, 1, 4))
            conf_number_set(option, options, rng_chance(rng, 1, 2) ? low : high);
        else
            conf_number_set(option, options, rng_between(rng, low, high));
    }
}

enum snow_status conf_init(struct conf *conf, const struct conf_module *modules,
                           uint32_t module_count, struct arena *arena, struct text *error)
{
    struct conf_slot *slot;

    *conf = (struct conf){.arena = arena, .error = error};
    for (uint32_t i = 0; i < module_count; i++)
        conf->slot_count += modules[i].table->count;
    conf->slots = arena_array(arena, conf->slot_count, sizeof(*conf->slots));
    if (conf->slots == NULL && conf->slot_count > 0)
        return SNOW_NO_MEMORY;
    slot = conf->slots;
    for (uint32_t i = 0; i < module_count; i++) {
        const struct conf_table *table = modules[i].table;

        for (uint32_t j = 0; j < table->count; j++, slot++) {
            slot->table = table;
            slot->option = &table->options[j];
            slot->options = modules[i].options;
        }
        if (modules[i].options != NULL)
            conf_defaults(table, modules[i].options);
    }
    return SNOW_OK;
}

static void print_value(const struct conf_option *option, uint64_t number, const char *value,
                        struct text *text)
{
    if (option->type == CONF_TEXT)
        text_add(text, "%s", value[0] == '\0' ? "empty" : value);
    else
        conf_number_print(option, number, text);
}

/* Whether another module in use has an option of this name: it takes its module before it then. */
static bool is_shared(const struct conf *conf, const struct conf_slot *slot)
{
    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *other = &conf->slots[i];

        if (other != slot && other->options != NULL &&
            strcmp(other->option->name, slot->option->name) == 0)
            return true;
    }
    return false;
}

/* The name with its module when it needs one; `joint` between words. */
static void print_name(const struct conf *conf, const struct conf_slot *slot, char joint,
                       struct text *text)
{
    if (is_shared(conf, slot))
        text_add(text, "%s%c", slot->table->module, joint);
    for (const char *at = slot->option->name; *at != '\0'; at++)
        text_add(text, "%c", *at == '_' ? joint : *at);
}

void conf_help(const struct conf *conf, struct text *text)
{
    const struct conf_table *table = NULL;

    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *slot = &conf->slots[i];
        const struct conf_option *option = slot->option;

        if (slot->options == NULL)
            continue;
        if (slot->table != table)
            text_add(text, "%sOptions of %s:\n", table == NULL ? "" : "\n", slot->table->module);
        table = slot->table;
        text_add(text, "  --");
        print_name(conf, slot, '-', text);
        if (option->type != CONF_BOOL)
            text_add(text, " %s", conf_type_name(option->type));
        text_add(text, "\n        %s\n        ", option->text);
        conf_range_print(option, text);
        text_add(text, "; default ");
        print_value(option, option->default_number, option->default_text, text);
        text_add(text, "%s\n", option->live ? "; may change while running" : "");
    }
    text_add(text,
             "\nEach is also a variable, SNOWSKIN_LEASE_MIN for --lease-min, and a key of the\n"
             "YAML file that --config FILE names, lease_min.  Flags win over variables, and\n"
             "those over the file.\n");
}

void conf_report(const struct conf *conf, struct text *text)
{
    static const char *const origins[] = {[CONF_FROM_DEFAULT] = "default",
                                          [CONF_FROM_FILE] = "file",
                                          [CONF_FROM_ENVIRONMENT] = "environment",
                                          [CONF_FROM_FLAG] = "flag"};

    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *slot = &conf->slots[i];
        const struct conf_option *option = slot->option;

        if (slot->options == NULL)
            continue;
        print_name(conf, slot, '_', text);
        text_add(text, " = ");
        if (option->type == CONF_TEXT)
            print_value(option, 0, conf_text_get(option, slot->options), text);
        else
            print_value(option, conf_number_get(option, slot->options), NULL, text);
        text_add(text, " (%s)\n", origins[slot->origin]);
    }
}

bool conf_bytes_parse(const char *text, uint64_t *bytes)
{
    const struct conf_option option = {.name = "bytes",
                                       .type = CONF_BYTES,
                                       .range = {.low = 0, .high = UINT64_MAX}};

    return conf_number_parse(&option, bytes_of_string(text), bytes) == SNOW_OK;
}

bool conf_is_given(const struct conf *conf, const char *module, const char *name)
{
    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *slot = &conf->slots[i];

        if (slot->options != NULL && strcmp(slot->table->module, module) == 0 &&
            strcmp(slot->option->name, name) == 0)
            return slot->origin != CONF_FROM_DEFAULT;
    }
    return false;
}
