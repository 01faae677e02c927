#include "cli/options.h"

#define CONF_ROWS cli_rows
#define CONF_STRUCT cli_options
#define CONF_FILE "cli/cli_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS replay_rows
#define CONF_STRUCT replay_options
#define CONF_FILE "cli/replay_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS bench_rows
#define CONF_STRUCT bench_options
#define CONF_FILE "cli/bench_options.def"
#include "conf/expand_table.h"

const struct conf_table *cli_options_table(void)
{
    static const struct conf_table table = {.module = "cli",
                                            .options = cli_rows,
                                            .count = sizeof(cli_rows) / sizeof(cli_rows[0])};

    return &table;
}

const struct conf_table *cli_replay_options_table(void)
{
    static const struct conf_table table = {.module = "replay",
                                            .options = replay_rows,
                                            .count = sizeof(replay_rows) / sizeof(replay_rows[0])};

    return &table;
}

const struct conf_table *cli_bench_options_table(void)
{
    static const struct conf_table table = {.module = "bench",
                                            .options = bench_rows,
                                            .count = sizeof(bench_rows) / sizeof(bench_rows[0])};

    return &table;
}
