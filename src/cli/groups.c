/* group stat, ls, rm: what a person does with groups. */
#include "snowskin/groups.h"
#include "base/limits.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct snow_key id_of(const char *text)
{
    return (struct snow_key){.at = text, .size = strlen(text)};
}

/* limit: bytes of an id, or of a key. */
static bool ids_are_valid(const struct cli *cli, int from, size_t limit)
{
    for (int i = from; i < cli->argument_count; i++) {
        size_t size = strlen(cli->arguments[i]);

        if (size >= 1 && size <= limit)
            continue;
        cli_error(cli, "ID of %zu bytes: it has 1 to %zu bytes", size, limit);
        return false;
    }
    return true;
}

/* ---- stat ---- */

/* Null where bytes are no UTF-8. */
static json_t *id_json(const struct snow_group_more *more)
{
    json_t *id = json_stringn((const char *)more->id, more->id_size);

    return id == NULL ? json_null() : id;
}

json_t *cli_group_json(const struct snow_group_info *info)
{
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b}", "group",
                     id_json(info->more), "status", snow_status_name(info->status), "state",
                     snow_group_state_name(info->state), "size", (json_int_t)info->size, "present",
                     (json_int_t)info->present, "bytes", (json_int_t)info->bytes, "version",
                     (json_int_t)info->version, "ggen", (json_int_t)info->ggen, "atomic",
                     (info->flags & SNOW_GROUP_ATOMIC) != 0, "cascade",
                     (info->flags & SNOW_GROUP_CASCADE) != 0, "no_offload",
                     (info->flags & SNOW_GROUP_NO_OFFLOAD) != 0);
}

void cli_print_group(const struct snow_group_info *info)
{
    char bytes[32];

    printf("%.*s: %s, %" PRIu32, (int)info->more->id_size, (const char *)info->more->id,
           snow_group_state_name(info->state), info->present);
    if (info->size > 0)
        printf(" of %" PRIu32, info->size);
    printf(" members, %s, version %" PRIu32 "%s%s%s\n", cli_bytes_text(info->bytes, bytes),
           info->version, info->flags & SNOW_GROUP_ATOMIC ? ", atomic" : "",
           info->flags & SNOW_GROUP_CASCADE ? ", cascade" : "",
           info->flags & SNOW_GROUP_NO_OFFLOAD ? ", no offload" : "");
}

/* What one message says, and its missing members behind those of the ones before. */
static void print_page(const struct snow_group_info *info, bool first)
{
    for (uint32_t i = 0; i < info->missing_count; i++)
        printf("%s%" PRIu32, first && i == 0 ? "  missing " : ", ", info->missing[i]);
}

/* Also where the group's id is what was asked for. */
static void name_group(struct snow_group_info *info)
{
    if (info->by_key == 1)
        return;
    info->more->id_size = (uint32_t)info->id.size;
    memcpy(info->more->id, info->id.at, info->id.size);
}

/* The members that are missing come in pages. */
static enum snow_status stat_group(const struct cli *cli, struct snow_client *client,
                                   struct snow_group_info *info)
{
    json_t *missing = json_array();
    json_t *row = NULL;
    enum snow_status status;
    bool first = true;

    do {
        status = snow_group_stat(client, info, 1, NULL);
        name_group(info);
        for (uint32_t i = 0; i < info->missing_count; i++)
            json_array_append_new(missing, json_integer(info->missing[i]));
        if (cli->options.json && first)
            row = cli_group_json(info);
        else if (status == SNOW_OK && first)
            cli_print_group(info);
        if (status == SNOW_OK && !cli->options.json)
            print_page(info, first);
        first = first && info->missing_count == 0;
        info->missing_from = info->missing_next;
    } while (status == SNOW_OK && info->missing_next != SNOW_GROUP_INDEX_ANY);
    if (!first && !cli->options.json)
        puts("");
    if (row == NULL) {
        json_decref(missing);
    } else {
        json_object_set_new(row, "missing", missing);
        cli_print_json(row);
    }
    return status;
}

static int stat_groups(struct cli *cli, struct snow_client *client)
{
    int result = CLI_DONE;

    for (int i = 1; i < cli->argument_count; i++) {
        struct snow_group_more more = {.id_size = 0};
        struct snow_group_info info = {.id = id_of(cli->arguments[i]),
                                       .by_key = cli->group.by_key,
                                       .more = &more};
        enum snow_status status = stat_group(cli, client, &info);

        if (status == SNOW_OK)
            continue;
        result = CLI_FAILED;
        cli_error(cli, "%s: %s (%s)", cli->arguments[i],
                  status != SNOW_NOT_FOUND ? snow_status_text(status)
                  : cli->group.by_key      ? "no such object"
                                           : "no such group",
                  snow_status_name(status));
    }
    return result;
}

/* ---- ls ---- */

static int print_row(void *owner, const struct snow_group_listed *row)
{
    const struct cli *cli = owner;
    char bytes[32];

    if (cli->options.json) {
        cli_print_json(json_pack("{s:s%, s:s, s:I, s:I, s:I, s:I}", "group", row->id.at,
                                 row->id.size, "state", snow_group_state_name(row->state), "size",
                                 (json_int_t)row->size, "present", (json_int_t)row->present,
                                 "bytes", (json_int_t)row->bytes, "uses", (json_int_t)row->uses));
        return 0;
    }
    printf("%-10s %5" PRIu32 " of %-5" PRIu32 " %10s %3" PRIu32 "  %.*s\n",
           snow_group_state_name(row->state), row->present, row->size,
           cli_bytes_text(row->bytes, bytes), row->uses, (int)row->id.size,
           (const char *)row->id.at);
    return 0;
}

static int list_groups(struct cli *cli, struct snow_client *client)
{
    struct snow_key prefix = id_of(cli->argument_count > 1 ? cli->arguments[1] : "");
    enum snow_status status;

    if (!cli->options.json)
        printf("%-10s %14s %10s %3s  %s\n", "state", "members", "bytes", "use", "group");
    status = snow_group_list(client, prefix, print_row, cli, NULL);
    if (status == SNOW_OK)
        return CLI_DONE;
    cli_error(cli, "%s (%s)", snow_status_text(status), snow_status_name(status));
    return CLI_FAILED;
}

/* ---- rm ---- */

static int remove_groups(struct cli *cli, struct snow_client *client)
{
    struct snow_call call = {.flags = cli->group.force ? SNOW_CALL_FORCE : 0};
    int result = CLI_DONE;

    for (int i = 1; i < cli->argument_count; i++) {
        struct snow_item item = {.key = id_of(cli->arguments[i])};

        snow_group_remove(client, &item, 1, &call);
        if (cli->options.json)
            cli_print_json(json_pack("{s:s, s:s}", "group", cli->arguments[i], "status",
                                     snow_status_name(item.status)));
        if (item.status == SNOW_OK)
            continue;
        if (snow_status_verdict(item.status) != SNOW_DONE)
            result = CLI_FAILED;
        cli_error(cli, "%s: %s (%s)", cli->arguments[i],
                  item.status == SNOW_NOT_FOUND ? "no such group" : snow_status_text(item.status),
                  snow_status_name(item.status));
    }
    return result;
}

int command_group(struct cli *cli)
{
    const char *what = cli->arguments[0];
    bool stat = strcmp(what, "stat") == 0;
    bool list = strcmp(what, "ls") == 0;
    struct snow_client *client;
    int result;

    if (!stat && !list && strcmp(what, "rm") != 0) {
        cli_error(cli, "%s: say stat, ls or rm", what);
        return CLI_USAGE;
    }
    if ((!list && cli->argument_count < 2) || (list && cli->argument_count > 2)) {
        cli_error(cli, list ? "ls takes one PREFIX at most" : "name the groups");
        return CLI_USAGE;
    }
    if (!ids_are_valid(cli, 1, stat && cli->group.by_key ? LIMIT_KEY_SIZE : LIMIT_GROUP_ID_SIZE))
        return CLI_USAGE;
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    result = stat   ? stat_groups(cli, client)
             : list ? list_groups(cli, client)
                    : remove_groups(cli, client);
    snow_close(client);
    return result;
}
