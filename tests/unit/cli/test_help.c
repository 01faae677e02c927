/* The real binary's help: each command tells every option that it takes, and no other. */
#include "base/text.h"
#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HELP_SIZE (64 * KIB)

struct command {
    const char *name;
    uint32_t uses;
};

static const struct command commands[] = {
#define COMMAND(name, arguments, modules, least, most, text) {#name, modules},
#include "cli/commands.def"
#undef COMMAND
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void help_of(const char *command, char *help)
{
    char line[512];
    struct text text;
    FILE *output;
    size_t size;

    text_init(&text, line, sizeof(line));
    text_add(&text, "%s %s --help", SNOWSKIN, command);
    output = popen(line, "r");
    assert_non_null(output);
    size = fread(help, 1, HELP_SIZE - 1, output);
    help[size] = 0;
    assert_int_equal(pclose(output), 0);
}

/* "--name" or "--module-name", as a whole word. */
static bool tells(const char *help, const char *module, const char *name)
{
    char flag[128];
    struct text text;

    text_init(&text, flag, sizeof(flag));
    text_add(&text, "  --%s%s%s", module, module[0] == 0 ? "" : "-", name);
    for (char *at = flag; *at != 0; at++)
        *at = *at == '_' ? '-' : *at;
    for (const char *at = strstr(help, flag); at != NULL; at = strstr(at + 1, flag)) {
        if (at[strlen(flag)] == ' ' || at[strlen(flag)] == '\n')
            return true;
    }
    return false;
}

static void check_table(const char *help, const struct conf_table *table, bool used)
{
    char heading[64];
    struct text text;

    text_init(&text, heading, sizeof(heading));
    text_add(&text, "Options of %s:", table->module);
    assert_int_equal(strstr(help, heading) != NULL, used);
    for (uint32_t i = 0; used && i < table->count; i++) {
        const char *name = table->options[i].name;

        if (!tells(help, "", name) && !tells(help, table->module, name))
            fail_msg("%s is missing in:\n%s", name, help);
    }
}

static void each_command_tells_its_options(void **state)
{
    static char help[HELP_SIZE];

    (void)state;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        uint32_t uses = commands[i].uses;

        help_of(commands[i].name, help);
#define MODULE(use, table, field) check_table(help, table(), uses &(use));
        CLI_MODULES(MODULE)
#undef MODULE
    }
}

static void help_tells_each_command(void **state)
{
    static char help[HELP_SIZE];

    (void)state;
    help_of("", help);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char line[64];
        struct text text;

        text_init(&text, line, sizeof(line));
        text_add(&text, "\n  %s ", commands[i].name);
        assert_non_null(strstr(help, line));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_tells_its_options),
        cmocka_unit_test(help_tells_each_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
