/* put, get, exists, ls, stat, rm, pin: what a person does with objects. */
#include "cli/cli.h"

#include "base/limits.h"

#include "snowskin/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_STEP (1 * MIB)

static struct snow_key key_of(const char *text)
{
    return (struct snow_key){.at = text, .size = strlen(text)};
}

/* An object with the key as "key".  Keys are bytes: one that is no UTF-8 is null there, and its
 * bytes are "key_hex". */
json_t *cli_json_row(struct snow_key key)
{
    json_t *row = json_object();
    json_t *text = json_stringn(key.at, key.size);
    char hex[2 * LIMIT_KEY_SIZE + 1];

    json_object_set_new(row, "key", text == NULL ? json_null() : text);
    if (text != NULL)
        return row;
    for (size_t i = 0; i < key.size && i < LIMIT_KEY_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)key.at)[i]);
    json_object_set_new(row, "key_hex", json_string(hex));
    return row;
}

static json_t *json_row_status(struct snow_key key, enum snow_status status)
{
    json_t *row = cli_json_row(key);

    json_object_set_new(row, "status", json_string(snow_status_name(status)));
    return row;
}

/* The command's arguments up to `count` can be keys; told if not. */
static bool keys_are_valid(const struct cli *cli, int count)
{
    for (int i = 0; i < count; i++) {
        size_t size = strlen(cli->arguments[i]);

        if (size >= 1 && size <= LIMIT_KEY_SIZE)
            continue;
        cli_error(cli, "KEY of %zu bytes: a key has 1 to %u bytes", size, LIMIT_KEY_SIZE);
        return false;
    }
    return true;
}

/* ---- put, get ---- */

static bool read_all(const struct cli *cli, const char *name, uint8_t **data, size_t *size)
{
    FILE *file = name == NULL ? stdin : fopen(name, "rb");
    size_t room = 0;

    *data = NULL;
    *size = 0;
    if (file == NULL) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return false;
    }
    for (;;) {
        if (*size == room) {
            uint8_t *grown = realloc(*data, room + FILE_STEP + room / 2);

            errno = ENOMEM;
            if (grown == NULL)
                break;
            *data = grown;
            room += FILE_STEP + room / 2;
        }
        size_t got = fread(*data + *size, 1, room - *size, file);

        *size += got;
        if (got == 0)
            break;
    }
    bool whole = feof(file) && !ferror(file);

    if (!whole)
        cli_error(cli, "%s: %s", name == NULL ? "standard input" : name, strerror(errno));
    if (name != NULL)
        fclose(file);
    return whole;
}

/* A soft pin alone has an end. */
static bool pin_is_valid(const struct cli *cli)
{
    if (cli->pin.pin_for_ns == 0 || cli->pin.pin == SNOW_PIN_SOFT)
        return true;
    cli_error(cli, "--pin-for: only with --pin soft");
    return false;
}

static int put_one(const struct cli *cli, struct snow_client *client, struct snow_put *put)
{
    const char *name = cli->arguments[0];
    int result;

    snow_put(client, put, 1, NULL);
    result = cli_told(cli, name, put->status);
    if (cli->options.json) {
        json_t *row = json_row_status(put->key, put->status);

        json_object_set_new(row, "copies_missing", json_integer(put->shortfall));
        json_object_set_new(row, "elsewhere", json_boolean(put->elsewhere));
        cli_print_json(row);
    } else if (result == CLI_DONE) {
        if (put->status != SNOW_OK)
            cli_error(cli, "%s: %s%s", name, snow_status_text(put->status),
                      put->elsewhere ? ", but not in that group" : "");
        if (put->shortfall > 0)
            cli_error(cli, "%s: stored, but in %u fewer copies than asked", name, put->shortfall);
    }
    return result;
}

int command_put(struct cli *cli)
{
    const char *name = cli->argument_count > 1 ? cli->arguments[1] : NULL;
    struct snow_put put = {.key = key_of(cli->arguments[0]),
                           .depth = SNOW_DEPTH_UNKNOWN,
                           .replicas = (uint8_t)cli->put.copies,
                           .pin = (uint8_t)cli->pin.pin,
                           .pin_ms = (uint32_t)(cli->pin.pin_for_ns / NS_PER_MS),
                           .replace = cli->put.replace};
    struct snow_member member = {.group = key_of(cli->put.group),
                                 .size = (uint32_t)cli->put.group_size,
                                 .index = cli->put.group_index == LIMIT_GROUP_SIZE
                                              ? SNOW_GROUP_INDEX_ANY
                                              : (uint32_t)cli->put.group_index,
                                 .flags = cli->put.no_offload ? SNOW_GROUP_NO_OFFLOAD : 0};
    struct snow_client *client;
    uint8_t *data;
    int result = CLI_FAILED;

    if (!keys_are_valid(cli, 1) || !pin_is_valid(cli))
        return CLI_USAGE;
    if (member.group.size > 0)
        put.member = &member;
    if (read_all(cli, name, &data, &put.size)) {
        put.from = data;
        result = cli_client_open(cli, &client);
        if (result == CLI_DONE) {
            result = put_one(cli, client, &put);
            snow_close(client);
        }
    }
    free(data);
    return result;
}

static int write_all(const struct cli *cli, const char *name, const void *data, size_t size)
{
    FILE *file = name == NULL ? stdout : fopen(name, "wb");

    if (file == NULL) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    bool written = fwrite(data, 1, size, file) == size && fflush(file) == 0;

    if (name != NULL)
        written = fclose(file) == 0 && written;
    if (!written)
        cli_error(cli, "%s: %s", name == NULL ? "standard output" : name, strerror(errno));
    return written ? CLI_DONE : CLI_FAILED;
}

int command_get(struct cli *cli)
{
    const char *name = cli->argument_count > 1 ? cli->arguments[1] : NULL;
    struct snow_get get = {.key = key_of(cli->arguments[0])};
    struct snow_client *client;
    int result;

    if (!keys_are_valid(cli, 1))
        return CLI_USAGE;
    if (cli->options.json && name == NULL) {
        cli_error(cli, "--json: name a FILE too, or the object's bytes go to standard output");
        return CLI_USAGE;
    }
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    snow_get(client, &get, 1, NULL);
    result = cli_told(cli, cli->arguments[0], get.status);
    if (result == CLI_DONE)
        result = write_all(cli, name, get.to, get.size);
    if (cli->options.json) {
        json_t *row = json_row_status(get.key, get.status);

        json_object_set_new(row, "size", json_integer((json_int_t)get.size));
        cli_print_json(row);
    }
    snow_free(get.to);
    snow_close(client);
    return result;
}

/* ---- exists ---- */

static int tell_found(const struct cli *cli, const struct snow_stat *items, size_t count)
{
    json_t *rows = json_array();
    int result = CLI_DONE;

    for (size_t i = 0; i < count; i++) {
        bool there = items[i].status == SNOW_OK;

        if (!there)
            result = CLI_FAILED;
        if (cli->options.json) {
            json_t *row = json_row_status(items[i].key, items[i].status);

            json_object_set_new(row, "exists", json_boolean(there));
            json_array_append_new(rows, row);
        } else if (there || items[i].status == SNOW_NOT_FOUND) {
            printf("%s %s\n", there ? "yes" : "no ", cli->arguments[i]);
        }
        if (!there && items[i].status != SNOW_NOT_FOUND)
            cli_told(cli, cli->arguments[i], items[i].status);
    }
    if (cli->options.json)
        cli_print_json(rows);
    else
        json_decref(rows);
    return result;
}

int command_exists(struct cli *cli)
{
    size_t count = (size_t)cli->argument_count;
    struct snow_stat *items;
    struct snow_client *client;
    int result;

    if (!keys_are_valid(cli, cli->argument_count))
        return CLI_USAGE;
    items = calloc(count, sizeof(*items));
    result = items == NULL ? CLI_FAILED : cli_client_open(cli, &client);
    if (result == CLI_DONE) {
        for (size_t i = 0; i < count; i++)
            items[i].key = key_of(cli->arguments[i]);
        snow_exists(client, items, count, NULL);
        result = tell_found(cli, items, count);
        snow_close(client);
    }
    free(items);
    return result;
}

/* ---- ls ---- */

static const char *pin_name(uint32_t pin)
{
    return pin == SNOW_PIN_SOFT ? "soft" : pin == SNOW_PIN_HARD ? "hard" : "none";
}

static int list_row(void *owner, const struct snow_listed *row)
{
    const struct cli *cli = owner;

    if (cli->options.json) {
        json_t *shown = cli_json_row(row->key);

        json_object_update_new(shown,
                               json_pack("{s:I, s:I, s:i, s:i, s:s}", "size", (json_int_t)row->size,
                                         "gen", (json_int_t)row->gen, "copies", (int)row->copies,
                                         "uses", (int)row->uses, "pin", pin_name(row->pin)));
        cli_print_json(shown);
    } else {
        char shown[4200];
        struct text text;

        text_init(&text, shown, sizeof(shown));
        text_add_bytes(&text, bytes_of(row->key.at, row->key.size), 1000);
        printf("%12" PRIu64 "  %6u %-4s %s\n", row->size, row->copies, pin_name(row->pin), shown);
    }
    return ferror(stdout);
}

int command_ls(struct cli *cli)
{
    const char *prefix = cli->argument_count > 0 ? cli->arguments[0] : "";
    struct snow_client *client;
    int result = cli_client_open(cli, &client);

    if (result != CLI_DONE)
        return result;
    if (!cli->options.json && env_is_terminal(1))
        printf("%12s  %s %-4s %s\n", "bytes", "copies", "pin", "key");
    result = cli_told(cli, "list", snow_list(client, key_of(prefix), list_row, cli, NULL));
    snow_close(client);
    return result;
}

/* ---- stat ---- */

struct summary {
    const struct cli *cli;
    json_t *nodes;
    json_t *counters;
};

static int node_row(void *owner, const struct snow_node *node)
{
    struct summary *summary = owner;
    char size[32];
    char used[32];

    if (summary->cli->options.json)
        json_array_append_new(summary->nodes,
                              json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I}", "node",
                                        (int)node->number, "state", node->state, "address",
                                        node->address, "name", node->name, "size",
                                        (json_int_t)node->size, "used", (json_int_t)node->used,
                                        "closing", (json_int_t)node->closing));
    else
        printf("node %-4u %-10s %-22s %10s of %s\n", node->number, node->state, node->address,
               cli_bytes_text(node->used, used), cli_bytes_text(node->size, size));
    return 0;
}

static int counter_row(void *owner, const char *name, uint64_t value)
{
    struct summary *summary = owner;

    if (summary->cli->options.json)
        json_object_set_new(summary->counters, name, json_integer((json_int_t)value));
    else if (value != 0)
        printf("%-22s %" PRIu64 "\n", name, value);
    return 0;
}

static int stat_cluster(struct cli *cli, struct snow_client *client)
{
    struct summary summary = {.cli = cli, .nodes = json_array(), .counters = json_object()};
    int result = cli_told(cli, "nodes", snow_nodes(client, node_row, &summary, NULL));

    if (result == CLI_DONE)
        result = cli_told(cli, "stats", snow_stats(client, counter_row, &summary, NULL));
    if (cli->options.json && result == CLI_DONE) {
        cli_print_json(
            json_pack("{s:o, s:o}", "nodes", summary.nodes, "counters", summary.counters));
    } else {
        json_decref(summary.nodes);
        json_decref(summary.counters);
    }
    return result;
}

static int stat_object(struct cli *cli, struct snow_client *client)
{
    struct snow_stat item = {.key = key_of(cli->arguments[0])};
    struct snow_group_more more = {.id_size = 0};
    struct snow_group_info group = {.more = &more};
    struct snow_call call = {.groups = &group};

    snow_exists(client, &item, 1, &call);
    if (cli_told(cli, cli->arguments[0], item.status) != CLI_DONE)
        return CLI_FAILED;
    if (cli->options.json) {
        json_t *row = cli_json_row(item.key);

        json_object_update_new(row,
                               json_pack("{s:I, s:I, s:s}", "size", (json_int_t)item.size, "gen",
                                         (json_int_t)item.gen, "pin", pin_name(item.pin)));
        json_object_set_new(row, "group", more.id_size == 0 ? json_null() : cli_group_json(&group));
        cli_print_json(row);
    } else {
        printf("size %" PRIu64 "\ngen  %" PRIu64 "\npin  %s\n", item.size, item.gen,
               pin_name(item.pin));
        if (more.id_size > 0)
            cli_print_group(&group);
    }
    return CLI_DONE;
}

int command_stat(struct cli *cli)
{
    struct snow_client *client;
    int result;

    if (!keys_are_valid(cli, cli->argument_count))
        return CLI_USAGE;
    if (cli->stat.curve && cli->argument_count > 0) {
        cli_error(cli, "--curve is of the cluster: it takes no KEY");
        return CLI_USAGE;
    }
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    result = cli->argument_count > 0 ? stat_object(cli, client)
             : cli->stat.curve       ? cli_stat_curve(cli, client)
                                     : stat_cluster(cli, client);
    snow_close(client);
    return result;
}

/* ---- rm, pin ---- */

static uint32_t remove_flags(const struct cli *cli)
{
    return (cli->rm.force ? SNOW_CALL_FORCE : 0) | (cli->rm.with_group ? SNOW_CALL_GROUP : 0);
}

static int remove_match(struct cli *cli, struct snow_client *client)
{
    struct snow_call call = {.flags = remove_flags(cli)};
    const char *pattern = cli->argument_count > 0 ? cli->arguments[0] : "";
    enum snow_match match = cli->rm.all      ? SNOW_MATCH_ALL
                            : cli->rm.prefix ? SNOW_MATCH_PREFIX
                                             : SNOW_MATCH_REGEX;
    struct snow_matched matched = {0};
    enum snow_status status = snow_remove_match(client, match, key_of(pattern), &call, &matched);

    if (status == SNOW_INVALID && matched.reason[0] != 0) {
        cli_error(cli, "%s: %s", pattern, matched.reason);
        return CLI_USAGE;
    }
    if (cli_told(cli, "remove", status) != CLI_DONE)
        return CLI_FAILED;
    if (cli->options.json)
        cli_print_json(json_pack("{s:I, s:I, s:I}", "removed", (json_int_t)matched.removed,
                                 "guarded", (json_int_t)matched.guarded, "uncertain",
                                 (json_int_t)matched.uncertain));
    else
        printf("removed %" PRIu64 ", guarded %" PRIu64 ", uncertain %" PRIu64 "\n", matched.removed,
               matched.guarded, matched.uncertain);
    return CLI_DONE;
}

static int tell_items(const struct cli *cli, const struct snow_item *items, size_t count)
{
    json_t *rows = json_array();
    int result = CLI_DONE;

    for (size_t i = 0; i < count; i++) {
        if (cli_told(cli, cli->arguments[i], items[i].status) != CLI_DONE)
            result = CLI_FAILED;
        json_array_append_new(rows, json_row_status(items[i].key, items[i].status));
    }
    if (cli->options.json)
        cli_print_json(rows);
    else
        json_decref(rows);
    return result;
}

static int for_keys(struct cli *cli, struct snow_client *client, bool remove)
{
    size_t count = (size_t)cli->argument_count;
    struct snow_call call = {.flags = remove ? remove_flags(cli) : 0};
    struct snow_item *items = calloc(count, sizeof(*items));
    int result = items == NULL ? CLI_FAILED : CLI_DONE;

    for (size_t i = 0; i < count && items != NULL; i++)
        items[i].key = key_of(cli->arguments[i]);
    if (items != NULL && remove)
        snow_remove(client, items, count, &call);
    else if (items != NULL)
        snow_pin(client, items, count, (enum snow_pin)cli->pin.pin,
                 (uint32_t)(cli->pin.pin_for_ns / NS_PER_MS), &call);
    if (items != NULL)
        result = tell_items(cli, items, count);
    free(items);
    return result;
}

int command_rm(struct cli *cli)
{
    bool match = cli->rm.all || cli->rm.prefix || cli->rm.regex;
    struct snow_client *client;
    int result;

    if (cli->rm.all + cli->rm.prefix + cli->rm.regex > 1 ||
        (cli->rm.all && cli->argument_count > 0) || (!cli->rm.all && cli->argument_count == 0) ||
        (match && cli->argument_count > 1)) {
        cli_error(cli, "name keys, or one pattern with --prefix or --regex, or --all");
        return CLI_USAGE;
    }
    if (match && !cli->rm.all && cli->arguments[0][0] == 0) {
        cli_error(cli, "an empty pattern would be every object: say --all");
        return CLI_USAGE;
    }
    if (!keys_are_valid(cli, match ? 0 : cli->argument_count))
        return CLI_USAGE;
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    result = match ? remove_match(cli, client) : for_keys(cli, client, true);
    snow_close(client);
    return result;
}

int command_pin(struct cli *cli)
{
    struct snow_client *client;
    int result;

    if (!cli->pin_given) {
        cli_error(cli, "say --pin soft, --pin hard or --pin none");
        return CLI_USAGE;
    }
    if (!keys_are_valid(cli, cli->argument_count) || !pin_is_valid(cli))
        return CLI_USAGE;
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    result = for_keys(cli, client, false);
    snow_close(client);
    return result;
}
