/* Command line: one binary, a command each for what a person or a service does.
 *
 * main parses options by the tables of the modules that the command uses, then calls its function.
 * Exit status: 0 done; 1 the answer is no, or it failed; 2 the call was wrong. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/text.h"
#include "cli/options.h"
#include "core/options.h"
#include "env/linux.h"
#include "master/options.h"
#include "node/options.h"
#include "obs/log.h"

#include <jansson.h>

#define CLI_DONE 0
#define CLI_FAILED 1
#define CLI_USAGE 2

enum cli_use {
    USE_MASTER = 1,
    USE_CORE = 2,
    USE_NODE = 4,
    USE_CLI = 8,
    USE_REPLAY = 16,
    USE_BENCH = 32,
    USE_PUT = 64,
    USE_PIN = 128,
    USE_RM = 256,
    USE_STAT = 512,
    USE_COPY = 1024,
    USE_DRAIN = 2048,
    USE_MATCH = 4096,
    USE_GROUP = 8192
};

/* Every table of options: MODULE(use, table, field of struct cli). */
#define CLI_MODULES(MODULE) \
    MODULE(USE_MASTER, master_options_table, master) \
    MODULE(USE_CORE, master_core_options_table, core) \
    MODULE(USE_NODE, node_options_table, node) \
    MODULE(USE_CLI, cli_options_table, options) \
    MODULE(USE_PUT, cli_put_options_table, put) \
    MODULE(USE_PIN, cli_pin_options_table, pin) \
    MODULE(USE_RM, cli_rm_options_table, rm) \
    MODULE(USE_STAT, cli_stat_options_table, stat) \
    MODULE(USE_GROUP, cli_group_options_table, group) \
    MODULE(USE_COPY, cli_copy_options_table, copy) \
    MODULE(USE_DRAIN, cli_drain_options_table, drain) \
    MODULE(USE_MATCH, cli_match_options_table, match) \
    MODULE(USE_REPLAY, cli_replay_options_table, replay) \
    MODULE(USE_BENCH, cli_bench_options_table, bench)

struct cli {
    struct env *env;
    struct obs_log log;
    const char *program;
    const char *command;
    char **arguments; /* of the command */
    int argument_count;
    struct master_options master;
    struct core_options core;
    struct node_options node;
    struct cli_options options;
    bool master_given; /* --master was, in one way or another */
    struct put_options put;
    struct pin_options pin;
    bool pin_given;
    struct rm_options rm;
    struct stat_options stat;
    struct group_options group;
    struct copy_options copy;
    struct drain_options drain;
    struct match_options match;
    struct replay_options replay;
    struct bench_options bench;
};

/* Prints "snowskin COMMAND: ..." to standard error. */
void cli_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* CLI_DONE; or tells of the status that says why not. */
int cli_told(const struct cli *cli, const char *what, enum snow_status status);
/* A line on standard output; the reference is taken over. */
void cli_print_json(json_t *json);
/* An object with the key as "key".  Keys are bytes: one that is no UTF-8 is null there, and its
 * bytes are "key_hex". */
json_t *cli_json_row(struct snow_key key);

/* What a group is, by an info with its `more`: an object, or lines for people. */
json_t *cli_group_json(const struct snow_group_info *info);
void cli_print_group(const struct snow_group_info *info);

/* Options of a client by those of the command line; *rules: what they name of it. */
void cli_client_options(const struct cli *cli, struct snow_options *options,
                        struct snow_key_rules *rules);

/* Opens a client of the cluster that the options name: CLI_DONE; else tells why not. */
int cli_client_open(const struct cli *cli, struct snow_client **client);

/* stat --curve: CLI_DONE or CLI_FAILED. */
int cli_stat_curve(struct cli *cli, struct snow_client *client);

/* Options of the core that contradict each other: told, false. */
bool cli_core_is_valid(const struct cli *cli);

/* What is wrong with a file that env_file_read could not read. */
const char *cli_file_text(enum snow_status status);

/* "3.2 GiB" into text of at least 32 bytes. */
const char *cli_bytes_text(uint64_t bytes, char *text);

#define COMMAND(name, arguments, modules, least, most, text) int command_##name(struct cli *cli);
#include "cli/commands.def"
#undef COMMAND

#endif
