/* What commands share: telling errors, printing JSON, opening a client. */
#include "cli/cli.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cli_error(const struct cli *cli, const char *format, ...)
{
    va_list list;

    fprintf(stderr, "snowskin %s: ", cli->command);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

int cli_told(const struct cli *cli, const char *what, enum snow_status status)
{
    if (snow_status_verdict(status) == SNOW_DONE)
        return CLI_DONE;
    cli_error(cli, "%s: %s (%s)", what, snow_status_text(status), snow_status_name(status));
    return CLI_FAILED;
}

void cli_print_json(json_t *json)
{
    char *text = json_dumps(json, JSON_PRESERVE_ORDER);

    if (text != NULL)
        puts(text);
    free(text);
    json_decref(json);
}

void cli_client_options(const struct cli *cli, struct snow_options *options,
                        struct snow_key_rules *rules)
{
    const struct cli_options *given = &cli->options;

    snow_options_init(options);
    options->master = given->master;
    options->token = given->token;
    options->deadline_ms = (uint32_t)(given->deadline_ns / NS_PER_MS);
    options->transport = given->transport;
    options->connections = (uint32_t)given->connections;
    options->congestion = given->congestion[0] == 0 ? NULL : given->congestion;
    options->send_buffer = (uint32_t)given->send_buffer_bytes;
    options->receive_buffer = (uint32_t)given->receive_buffer_bytes;
    options->user_timeout_ms = (uint32_t)(given->user_timeout_ns / NS_PER_MS);
    *rules =
        (struct snow_key_rules){.rule = given->key_rules,
                                .members = (uint32_t)given->key_members,
                                .pattern = given->key_pattern[0] == 0 ? NULL : given->key_pattern};
    options->key_rules = rules;
}

int cli_client_open(const struct cli *cli, struct snow_client **client)
{
    struct snow_options options;
    struct snow_key_rules rules;
    const char *reason = "";
    enum snow_status status;

    cli_client_options(cli, &options, &rules);
    status = snow_open(&options, client, &reason);
    if (status == SNOW_OK)
        return CLI_DONE;
    *client = NULL;
    cli_error(cli, "--master %s: %s (%s)", options.master, reason, snow_status_name(status));
    return status == SNOW_INVALID ? CLI_USAGE : CLI_FAILED;
}

bool cli_core_is_valid(const struct cli *cli)
{
    if (cli->core.lease_min_ns > cli->core.lease_max_ns)
        cli_error(cli, "--lease-min is longer than --lease-max");
    else if (cli->core.suspect_after_ns >= cli->core.dead_after_ns)
        cli_error(cli, "--dead-after is no longer than --suspect-after");
    else
        return true;
    return false;
}

const char *cli_file_text(enum snow_status status)
{
    switch (status) {
    case SNOW_NOT_FOUND:
        return "no such file";
    case SNOW_INVALID:
        return "can not be read: it is a folder, or not for this user";
    case SNOW_LIMIT:
        return "too large";
    default:
        return snow_status_text(status);
    }
}

const char *cli_bytes_text(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}
