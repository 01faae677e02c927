/* Options from a YAML file.
 *
 * Problem.  YAML can name things in many ways (anchors, tags, merges), nest for ever and say a key
 *           twice; a file of settings needs none of it, and each has hidden a mistake somewhere.
 * Idea.     libyaml's events through a machine of two levels: a mapping of options, in which a
 *           mapping may stand under a module's name.  Anything else is an error with its line.
 * Invariants.
 *   Y1  Bytes, events and depth are bounded, so no file costs more than its size.
 *   Y2  A key is taken once. */
#include "conf/slots.h"

#include <yaml.h>

#include <stdio.h>

#define FILE_SIZE_MAX (256u * 1024u)
#define PLACE_SIZE 160

enum level {
    LEVEL_TOP,     /* before the mapping */
    LEVEL_OPTIONS, /* in it */
    LEVEL_MODULE,  /* in a module's */
    LEVEL_END      /* after it */
};

struct yaml {
    struct conf *conf;
    const char *file;
    yaml_parser_t parser;
    enum level level;
    char module[CONF_NAME_SIZE + 1]; /* at LEVEL_MODULE */
    char key[CONF_NAME_SIZE + 1];    /* whose value comes next; empty: a key comes next */
    char place[PLACE_SIZE];          /* "file:line" of the current event */
};

static enum snow_status refuse(struct yaml *yaml, const char *why)
{
    text_add(yaml->conf->error, "%s: %s", yaml->place, why);
    return SNOW_INVALID;
}

static void set_place(struct yaml *yaml, size_t line)
{
    snprintf(yaml->place, sizeof(yaml->place), "%.128s:%zu", yaml->file, line + 1);
}

static enum snow_status take_value(struct yaml *yaml, struct bytes value)
{
    struct conf_source source = {.origin = CONF_FROM_FILE, .place = yaml->place};
    const char *module = yaml->level == LEVEL_MODULE ? yaml->module : NULL;
    struct conf_slot *slot;
    enum snow_status status =
        conf_slot_find(yaml->conf, module, bytes_of_string(yaml->key), false, &source, &slot);

    yaml->key[0] = '\0';
    if (status != SNOW_OK || slot == NULL)
        return status;
    if (slot->in_file)
        return refuse(yaml, "this option was set before");
    slot->in_file = true;
    return conf_slot_set(yaml->conf, slot, value, &source);
}

static enum snow_status on_scalar(struct yaml *yaml, const yaml_event_t *event)
{
    struct bytes value = bytes_of(event->data.scalar.value, event->data.scalar.length);

    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL)
        return refuse(yaml, "anchors and tags are not understood here");
    if (yaml->level != LEVEL_OPTIONS && yaml->level != LEVEL_MODULE)
        return refuse(yaml, "expected `option: value` lines");
    if (yaml->key[0] != '\0')
        return take_value(yaml, value);
    if (value.size == 0 || value.size > CONF_NAME_SIZE || memchr(value.at, 0, value.size) != NULL)
        return refuse(yaml, "this is no option's name");
    memcpy(yaml->key, value.at, value.size);
    yaml->key[value.size] = '\0';
    return SNOW_OK;
}

static enum snow_status on_mapping(struct yaml *yaml, const yaml_event_t *event)
{
    if (event->data.mapping_start.anchor != NULL || event->data.mapping_start.tag != NULL)
        return refuse(yaml, "anchors and tags are not understood here");
    if (yaml->level == LEVEL_TOP) {
        yaml->level = LEVEL_OPTIONS;
        return SNOW_OK;
    }
    if (yaml->level != LEVEL_OPTIONS || yaml->key[0] == '\0' ||
        !conf_module_exists(yaml->conf, bytes_of_string(yaml->key)))
        return refuse(yaml, "only a module's name may have options below it");
    memcpy(yaml->module, yaml->key, sizeof(yaml->module));
    yaml->key[0] = '\0';
    yaml->level = LEVEL_MODULE;
    return SNOW_OK;
}

static enum snow_status on_event(struct yaml *yaml, const yaml_event_t *event)
{
    set_place(yaml, event->start_mark.line);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(yaml, event);
    case YAML_MAPPING_START_EVENT:
        return on_mapping(yaml, event);
    case YAML_MAPPING_END_EVENT:
        yaml->level = yaml->level == LEVEL_MODULE ? LEVEL_OPTIONS : LEVEL_END;
        return SNOW_OK;
    case YAML_ALIAS_EVENT:
        return refuse(yaml, "aliases are not understood here");
    case YAML_SEQUENCE_START_EVENT:
        return refuse(yaml, "no option takes a list");
    case YAML_DOCUMENT_START_EVENT:
        return yaml->level == LEVEL_TOP ? SNOW_OK : refuse(yaml, "a second document");
    default:
        return SNOW_OK;
    }
}

/* One event.  *end: it was the last. */
static enum snow_status step(struct yaml *yaml, bool *end)
{
    yaml_event_t event;

    if (yaml_parser_parse(&yaml->parser, &event) == 0) {
        set_place(yaml, yaml->parser.problem_mark.line);
        return refuse(yaml, yaml->parser.problem == NULL ? "no YAML" : yaml->parser.problem);
    }
    enum snow_status status = on_event(yaml, &event);
    *end = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    return status;
}

enum snow_status conf_parse_yaml(struct conf *conf, const char *file, struct bytes data)
{
    struct yaml yaml = {.conf = conf, .file = file};
    enum snow_status status = SNOW_OK;
    bool end = false;

    if (data.size > FILE_SIZE_MAX) {
        text_add(conf->error, "%s: larger than %u bytes", file, FILE_SIZE_MAX);
        return SNOW_LIMIT;
    }
    if (yaml_parser_initialize(&yaml.parser) == 0) {
        text_add(conf->error, "%s: no memory", file);
        return SNOW_NO_MEMORY;
    }
    for (uint32_t i = 0; i < conf->slot_count; i++)
        conf->slots[i].in_file = false;
    yaml_parser_set_input_string(&yaml.parser, data.size == 0 ? (const uint8_t *)"" : data.at,
                                 data.size);
    while (status == SNOW_OK && !end)
        status = step(&yaml, &end);
    yaml_parser_delete(&yaml.parser);
    return status;
}
