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

static bool ids_are_valid(const struct cli *cli, int from)
{
    for (int i = from; i < cli->argument_count; i++) {
        size_t size = strlen(cli->arguments[i]);

        if (size >= 1 && size <= LIMIT_GROUP_ID_SIZE)
            continue;
        cli_error(cli, "ID of %zu bytes: a group's id has 1 to %u bytes", size,
                  LIMIT_GROUP_ID_SIZE);
        return false;
    }
    return true;
}

/* ---- stat ---- */

static json_t *info_json(const struct snow_group_info *info)
{
    json_t *missing = json_array();

    for (uint32_t i = 0; i < info->missing_count; i++)
        json_array_append_new(missing, json_integer(info->missing[i]));
    return json_pack("{s:s%, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o}", "group",
                     info->id.at, info->id.size, "status", snow_status_name(info->status), "state",
                     snow_group_state_name(info->state), "size", (json_int_t)info->size, "present",
                     (json_int_t)info->present, "bytes", (json_int_t)info->bytes, "version",
                     (json_int_t)info->version, "ggen", (json_int_t)info->ggen, "atomic",
                     (info->flags & SNOW_GROUP_ATOMIC) != 0, "cascade",
                     (info->flags & SNOW_GROUP_CASCADE) != 0, "missing", missing);
}

static void print_info(const struct snow_group_info *info)
{
    char bytes[32];

    printf("%.*s: %s, %" PRIu32, (int)info->id.size, (const char *)info->id.at,
           snow_group_state_name(info->state), info->present);
    if (info->size > 0)
        printf(" of %" PRIu32, info->size);
    printf(" members, %s, version %" PRIu32 "%s%s\n", cli_bytes_text(info->bytes, bytes),
           info->version, info->flags & SNOW_GROUP_ATOMIC ? ", atomic" : "",
           info->flags & SNOW_GROUP_CASCADE ? ", cascade" : "");
    for (uint32_t i = 0; i < info->missing_count; i++)
        printf("%s%" PRIu32, i == 0 ? "  missing " : ", ", info->missing[i]);
    if (info->missing_count > 0)
        puts(info->missing_count == SNOW_GROUP_MISSING ? " ..." : "");
}

static int stat_groups(struct cli *cli, struct snow_client *client)
{
    int result = CLI_DONE;

    for (int i = 1; i < cli->argument_count; i++) {
        struct snow_group_info info = {.id = id_of(cli->arguments[i])};
        enum snow_status status = snow_group_stat(client, &info, 1, NULL);

        if (cli->options.json)
            cli_print_json(info_json(&info));
        else if (status == SNOW_OK)
            print_info(&info);
        if (status == SNOW_OK)
            continue;
        result = CLI_FAILED;
        cli_error(cli, "%s: %s (%s)", cli->arguments[i],
                  status == SNOW_NOT_FOUND ? "no such group" : snow_status_text(status),
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
    int result = CLI_DONE;

    for (int i = 1; i < cli->argument_count; i++) {
        struct snow_item item = {.key = id_of(cli->arguments[i])};

        snow_group_remove(client, &item, 1, NULL);
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
    if (!ids_are_valid(cli, 1))
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
