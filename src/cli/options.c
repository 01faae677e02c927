#include "cli/options.h"

#define CONF_ROWS cli_rows
#define CONF_STRUCT cli_options
#define CONF_FILE "cli/cli_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS put_rows
#define CONF_STRUCT put_options
#define CONF_FILE "cli/put_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS pin_rows
#define CONF_STRUCT pin_options
#define CONF_FILE "cli/pin_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS rm_rows
#define CONF_STRUCT rm_options
#define CONF_FILE "cli/rm_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS stat_rows
#define CONF_STRUCT stat_options
#define CONF_FILE "cli/stat_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS copy_rows
#define CONF_STRUCT copy_options
#define CONF_FILE "cli/copy_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS group_rows
#define CONF_STRUCT group_options
#define CONF_FILE "cli/group_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS drain_rows
#define CONF_STRUCT drain_options
#define CONF_FILE "cli/drain_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS match_rows
#define CONF_STRUCT match_options
#define CONF_FILE "cli/match_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS replay_rows
#define CONF_STRUCT replay_options
#define CONF_FILE "cli/replay_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS bench_rows
#define CONF_STRUCT bench_options
#define CONF_FILE "cli/bench_options.def"
#include "conf/expand_table.h"

#define TABLE(function, name, rows) \
    const struct conf_table *function(void) \
    { \
        static const struct conf_table table = {.module = name, \
                                                .options = rows, \
                                                .count = sizeof(rows) / sizeof((rows)[0])}; \
\
        return &table; \
    }

TABLE(cli_options_table, "cli", cli_rows)
TABLE(cli_put_options_table, "put", put_rows)
TABLE(cli_pin_options_table, "pin", pin_rows)
TABLE(cli_rm_options_table, "rm", rm_rows)
TABLE(cli_stat_options_table, "stat", stat_rows)
TABLE(cli_group_options_table, "group", group_rows)
TABLE(cli_copy_options_table, "copy", copy_rows)
TABLE(cli_drain_options_table, "drain", drain_rows)
TABLE(cli_match_options_table, "match", match_rows)
TABLE(cli_replay_options_table, "replay", replay_rows)
TABLE(cli_bench_options_table, "bench", bench_rows)
