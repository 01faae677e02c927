/* Options from flags and from the environment. */
#include "conf/slots.h"

#define PLACE_SIZE 80
#define VARIABLE_PREFIX "SNOWSKIN_"

/* The flag or variable itself, for errors. */
static void name_place(char place[PLACE_SIZE], const char *from, size_t size)
{
    struct text text;

    text_init(&text, place, PLACE_SIZE);
    text_add(&text, "%.*s", (int)(size < PLACE_SIZE ? size : PLACE_SIZE), from);
}

/* A flag's or variable's name as options are named: lower case, underscores.  Empty: no name. */
static struct bytes normalize(const char *from, size_t size, char *to)
{
    if (size > CONF_NAME_SIZE)
        return bytes_of(from, size); /* as long as this nothing is named */
    for (size_t i = 0; i < size; i++) {
        char letter = from[i];

        if (letter >= 'A' && letter <= 'Z')
            letter = (char)(letter - 'A' + 'a');
        to[i] = letter == '-' ? '_' : letter;
    }
    return bytes_of(to, size);
}

/* --help and --config FILE, which belong to no module.  True when the flag was one of them.
 * value: what follows it, NULL: nothing; *used: arguments taken, `joined` ones are one. */
static bool take_builtin(struct conf *conf, struct bytes name, const char *value, bool joined,
                         int *used)
{
    if (bytes_equal(name, bytes_of_string("help"))) {
        conf->help = true;
        *used = 1;
        return true;
    }
    if (bytes_equal(name, bytes_of_string("config")) && value != NULL) {
        conf->config = value;
        conf->config_flag = true;
        *used = joined ? 1 : 2;
        return true;
    }
    return false;
}

/* One flag at argv[at]; *used: how many arguments it took. */
static enum snow_status parse_flag(struct conf *conf, const char *flag, const char *next, int *used)
{
    char normal[CONF_NAME_SIZE];
    char place[PLACE_SIZE];
    const char *equals = strchr(flag, '=');
    size_t size = equals == NULL ? strlen(flag + 2) : (size_t)(equals - flag) - 2;
    struct bytes name = normalize(flag + 2, size, normal);
    struct conf_source source = {.origin = CONF_FROM_FLAG, .place = place};
    const char *value = equals != NULL ? equals + 1 : next;
    struct conf_slot *slot;

    name_place(place, flag, size + 2);
    if (take_builtin(conf, name, value, equals != NULL, used))
        return SNOW_OK;
    *used = 1;
    if (bytes_equal(name, bytes_of_string("config"))) {
        text_add(conf->error, "%s: a value must follow", place);
        return SNOW_INVALID;
    }
    enum snow_status status = conf_slot_find(conf, NULL, name, true, &source, &slot);
    if (status != SNOW_OK)
        return status;
    if (slot->option->type == CONF_BOOL && equals == NULL)
        return conf_slot_set(conf, slot, bytes_of_string("true"), &source);
    if (value == NULL) {
        text_add(conf->error, "%s: a value must follow", place);
        return SNOW_INVALID;
    }
    *used = equals == NULL ? 2 : 1;
    return conf_slot_set(conf, slot, bytes_of_string(value), &source);
}

enum snow_status conf_parse_flags(struct conf *conf, int *argc, char **argv)
{
    int kept = 1;
    int at = 1;

    while (at < *argc) {
        char *argument = argv[at];
        int used;

        if (strcmp(argument, "--") == 0) {
            at++;
            break;
        }
        if (argument[0] != '-' || argument[1] == '\0') {
            argv[kept++] = argument;
            at++;
            continue;
        }
        if (strcmp(argument, "-h") == 0) {
            conf->help = true;
            at++;
            continue;
        }
        if (argument[1] != '-') {
            text_add(conf->error, "%s: flags begin with two dashes", argument);
            return SNOW_INVALID;
        }
        enum snow_status status =
            parse_flag(conf, argument, at + 1 < *argc ? argv[at + 1] : NULL, &used);
        if (status != SNOW_OK)
            return status;
        at += used;
    }
    while (at < *argc)
        argv[kept++] = argv[at++];
    *argc = kept;
    return SNOW_OK;
}

static enum snow_status parse_variable(struct conf *conf, const char *variable)
{
    const size_t prefix_size = strlen(VARIABLE_PREFIX);
    const char *equals = strchr(variable, '=');
    char normal[CONF_NAME_SIZE];
    char place[PLACE_SIZE];
    struct conf_source source = {.origin = CONF_FROM_ENVIRONMENT, .place = place};
    struct conf_slot *slot;

    if (equals == NULL || strncmp(variable, VARIABLE_PREFIX, prefix_size) != 0)
        return SNOW_OK;
    size_t size = (size_t)(equals - variable);
    name_place(place, variable, size);
    struct bytes name = normalize(variable + prefix_size, size - prefix_size, normal);
    if (bytes_equal(name, bytes_of_string("config"))) {
        if (!conf->config_flag)
            conf->config = equals + 1;
        return SNOW_OK;
    }
    enum snow_status status = conf_slot_find(conf, NULL, name, false, &source, &slot);
    if (status != SNOW_OK || slot == NULL)
        return status;
    return conf_slot_set(conf, slot, bytes_of_string(equals + 1), &source);
}

enum snow_status conf_parse_environment(struct conf *conf, const char *const *variables)
{
    for (; *variables != NULL; variables++) {
        enum snow_status status = parse_variable(conf, *variables);

        if (status != SNOW_OK)
            return status;
    }
    return SNOW_OK;
}
