/* snowskin: parses the command line by the tables and runs the command. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_SIZE_MAX (1 * MIB)
#define HELP_SIZE (64 * KIB)

extern char **environ;

struct command {
    const char *name;
    const char *arguments;
    uint32_t uses;
    int least;
    int most;
    const char *text;
    int (*run)(struct cli *cli);
};

static const struct command commands[] = {
#define COMMAND(name, arguments, modules, least, most, text) \
    {#name, arguments, modules, least, most, text, command_##name},
#include "cli/commands.def"
#undef COMMAND
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* ---- help ---- */

static void print_commands(FILE *file)
{
    fprintf(file, "Snowskin: a KV-cache store for LLM serving.\n\n"
                  "Usage: snowskin COMMAND [ARGUMENTS] [--OPTION VALUE]...\n\nCommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  %-8s %-12s %s\n", commands[i].name, commands[i].arguments,
                commands[i].text);
    fprintf(file, "\n`snowskin COMMAND --help` tells its options.  Each may also stand in the\n"
                  "environment as SNOWSKIN_NAME, or in the YAML file that --config names.\n"
                  "`snowskin --version` tells its version.\n");
}

static void print_help(const struct command *command, const struct conf *conf)
{
    char *help = malloc(HELP_SIZE);
    struct text text;

    printf("Usage: snowskin %s%s%s [--OPTION VALUE]...\n\n%s.\n\n", command->name,
           command->arguments[0] == 0 ? "" : " ", command->arguments, command->text);
    if (help == NULL)
        return;
    text_init(&text, help, HELP_SIZE);
    conf_help(conf, &text);
    fputs(help, stdout);
    free(help);
}

/* ---- options ---- */

static void on_line(void *owner, const char *line)
{
    env_log_line(owner, line);
}

static uint64_t wall_ms(void *owner)
{
    return env_wall_ms(owner);
}

static bool read_config(struct cli *cli, struct conf *conf)
{
    uint8_t *data;
    size_t size;
    enum snow_status status = env_file_read(cli->env, conf->config, CONFIG_SIZE_MAX, &data, &size);

    if (status != SNOW_OK) {
        cli_error(cli, "--config %s: %s", conf->config, cli_file_text(status));
        return false;
    }
    status = conf_parse_yaml(conf, conf->config, bytes_of(data, size));
    free(data);
    return status == SNOW_OK;
}

static int parse(struct cli *cli, const struct command *command, struct conf *conf, int *argc,
                 char **argv, struct arena *arena, struct text *error)
{
    uint32_t uses = command->uses;
    struct conf_module modules[] = {
#define MODULE(use, table, field) {table(), uses & (use) ? &cli->field : NULL},
        CLI_MODULES(MODULE)
#undef MODULE
    };

    if (conf_init(conf, modules, sizeof(modules) / sizeof(modules[0]), arena, error) != SNOW_OK ||
        conf_parse_flags(conf, argc, argv) != SNOW_OK ||
        conf_parse_environment(conf, (const char *const *)environ) != SNOW_OK ||
        (conf->config != NULL && !read_config(cli, conf))) {
        if (error->used > 0)
            cli_error(cli, "%s", error->at);
        return CLI_USAGE;
    }
    if (conf->help)
        return CLI_DONE;
    if (*argc - 1 < command->least || *argc - 1 > command->most) {
        cli_error(cli, "takes %s; see `snowskin %s --help`",
                  command->arguments[0] == 0 ? "no arguments" : command->arguments, command->name);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct cli cli = {.program = "snowskin", .command = command->name};
    struct conf conf;
    struct arena arena;
    struct text error;
    char error_text[1024];
    int result;

    arena_init(&arena, 16 * MIB);
    text_init(&error, error_text, sizeof(error_text));
    cli.env = env_linux_create();
    if (cli.env == NULL)
        return CLI_FAILED;
    obs_log_init(&cli.log, OBS_INFO, on_line, wall_ms, cli.env);
#define MODULE(use, table, field) conf_defaults(table(), &cli.field);
    CLI_MODULES(MODULE)
#undef MODULE
    result = parse(&cli, command, &conf, &argc, argv, &arena, &error);
    if (result == CLI_DONE && conf.help) {
        print_help(command, &conf);
    } else if (result == CLI_DONE) {
        cli.arguments = argv + 1;
        cli.master_given = conf_is_given(&conf, "cli", "master");
        cli.pin_given = conf_is_given(&conf, "pin", "pin");
        cli.argument_count = argc - 1;
        result = command->run(&cli);
    }
    env_linux_destroy(cli.env);
    arena_deinit(&arena);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("snowskin %s\n", snow_version());
        return CLI_DONE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, argv[1]) == 0)
            return run(&commands[i], argc - 1, argv + 1);
    }
    fprintf(stderr, "snowskin: no command \"%s\"; `snowskin --help` tells them\n", argv[1]);
    return CLI_USAGE;
}
