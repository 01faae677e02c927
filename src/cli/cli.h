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

#define CLI_DONE 0
#define CLI_FAILED 1
#define CLI_USAGE 2

enum cli_use {
    USE_MASTER = 1,
    USE_CORE = 2,
    USE_NODE = 4,
    USE_CLI = 8,
    USE_REPLAY = 16,
    USE_BENCH = 32
};

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
    struct replay_options replay;
    struct bench_options bench;
};

/* Prints "snowskin COMMAND: ..." to standard error. */
void cli_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens a client of the cluster that the options name; tells why not and returns NULL. */
struct snow_client *cli_client_open(const struct cli *cli);

/* "3.2 GiB" into text of at least 32 bytes. */
const char *cli_bytes_text(uint64_t bytes, char *text);

#define COMMAND(name, arguments, modules, least, most, text) int command_##name(struct cli *cli);
#include "cli/commands.def"
#undef COMMAND

#endif
