/* Options by name: one way to find and set them, whichever source names them.
 *
 * Idea.  All options of all modules lie in one array; a name is compared with each.  They are some
 *        tens, read once. */
#include "conf/slots.h"

#include "base/limits.h"
#include "conf/value.h"

static bool name_is(struct bytes name, const char *module, const char *option)
{
    size_t module_size = module == NULL ? 0 : strlen(module);
    size_t option_size = strlen(option);

    if (module == NULL)
        return bytes_equal(name, bytes_of(option, option_size));
    return name.size == module_size + 1 + option_size &&
           memcmp(name.at, module, module_size) == 0 && name.at[module_size] == '_' &&
           memcmp(name.at + module_size + 1, option, option_size) == 0;
}

/* Edit distance of two names (Levenshtein); names longer than the bound are far from everything. */
static size_t distance(struct bytes a, const char *b)
{
    size_t row[CONF_NAME_SIZE + 1];
    size_t b_size = strlen(b);

    if (a.size > CONF_NAME_SIZE || b_size > CONF_NAME_SIZE)
        return CONF_NAME_SIZE;
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t change = diagonal + (a.at[i - 1] == (uint8_t)b[j - 1] ? 0 : 1);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = change < other ? change : other;
        }
    }
    return row[b_size];
}

static void tell_unknown(struct conf *conf, const char *module, struct bytes name, bool used_only,
                         const struct conf_source *source)
{
    const char *nearest = NULL;
    size_t best = name.size <= 3 ? 2 : name.size / 3 + 2; /* as far as this: another word */

    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *slot = &conf->slots[i];
        size_t far = distance(name, slot->option->name);

        if ((used_only && slot->options == NULL) ||
            (module != NULL && strcmp(module, slot->table->module) != 0))
            continue;
        if (far < best) {
            best = far;
            nearest = slot->option->name;
        }
    }
    text_add(conf->error, "%s: no option ", source->place);
    text_add_bytes(conf->error, name, CONF_NAME_SIZE);
    if (nearest != NULL)
        text_add(conf->error, "; did you mean %s?", nearest);
}

static void tell_shared(struct conf *conf, struct bytes name, const struct conf_source *source)
{
    const char *before = "";

    text_add(conf->error,
             "%s: several modules have this option; put the module before it: ", source->place);
    for (uint32_t i = 0; i < conf->slot_count; i++) {
        const struct conf_slot *slot = &conf->slots[i];

        if (slot->options == NULL || !name_is(name, NULL, slot->option->name))
            continue;
        text_add(conf->error, "%s%s_%s", before, slot->table->module, slot->option->name);
        before = " or ";
    }
}

enum snow_status conf_slot_find(struct conf *conf, const char *module, struct bytes name,
                                bool used_only, const struct conf_source *source,
                                struct conf_slot **slot)
{
    struct conf_slot *used = NULL;
    struct conf_slot *idle = NULL;
    uint32_t used_count = 0;
    uint32_t idle_count = 0;

    for (uint32_t i = 0; i < conf->slot_count; i++) {
        struct conf_slot *other = &conf->slots[i];

        if ((used_only && other->options == NULL) ||
            (module != NULL && strcmp(module, other->table->module) != 0))
            continue;
        if (module == NULL && name_is(name, other->table->module, other->option->name)) {
            *slot = other;
            return SNOW_OK;
        }
        if (!name_is(name, NULL, other->option->name))
            continue;
        if (other->options != NULL) {
            used = other;
            used_count++;
        } else {
            idle = other;
            idle_count++;
        }
    }
    if (used_count > 1) {
        tell_shared(conf, name, source);
        return SNOW_INVALID;
    }
    if (used_count + idle_count == 0) {
        tell_unknown(conf, module, name, used_only, source);
        return SNOW_INVALID;
    }
    *slot = used_count == 1 ? used : idle_count == 1 ? idle : NULL;
    return SNOW_OK;
}

static enum snow_status tell_invalid(struct conf *conf, const struct conf_slot *slot,
                                     struct bytes value, const struct conf_source *source)
{
    text_add(conf->error, "%s: %s can not be ", source->place, slot->option->name);
    text_add_bytes(conf->error, value, CONF_NAME_SIZE);
    text_add(conf->error, "; allowed: ");
    conf_range_print(slot->option, conf->error);
    return SNOW_INVALID;
}

static enum snow_status set_text(struct conf *conf, struct conf_slot *slot, struct bytes value,
                                 const struct conf_source *source)
{
    const struct conf_range *range = &slot->option->range;

    if (value.size < range->low || value.size > range->high ||
        (value.size > 0 && memchr(value.at, 0, value.size) != NULL))
        return tell_invalid(conf, slot, value, source);
    if (slot->options == NULL || source->origin < slot->origin)
        return SNOW_OK;
    char *copy = arena_take(conf->arena, value.size + 1);
    if (copy == NULL) {
        text_add(conf->error, "%s: no memory", source->place);
        return SNOW_NO_MEMORY;
    }
    if (value.size > 0)
        memcpy(copy, value.at, value.size);
    conf_text_set(slot->option, slot->options, copy);
    slot->origin = source->origin;
    return SNOW_OK;
}

enum snow_status conf_slot_set(struct conf *conf, struct conf_slot *slot, struct bytes value,
                               const struct conf_source *source)
{
    uint64_t number;

    if (slot->option->type == CONF_TEXT)
        return set_text(conf, slot, value, source);
    if (conf_number_parse(slot->option, value, &number) != SNOW_OK)
        return tell_invalid(conf, slot, value, source);
    if (slot->options != NULL && source->origin >= slot->origin) {
        conf_number_set(slot->option, slot->options, number);
        slot->origin = source->origin;
    }
    return SNOW_OK;
}

bool conf_module_exists(const struct conf *conf, struct bytes module)
{
    for (uint32_t i = 0; i < conf->slot_count; i++) {
        if (bytes_equal(module, bytes_of_string(conf->slots[i].table->module)))
            return true;
    }
    return false;
}
