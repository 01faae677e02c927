/* Options of the command line: a table for those that several commands share, one for each command
 * that has its own. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/options.h"
#include "conf/conf.h"
#include "snowskin/groups.h"
#include "snowskin/snowskin.h"

struct cli_options {
#define OPTION OPTION_FIELD
#include "cli/cli_options.def"
#undef OPTION
};

struct put_options {
#define OPTION OPTION_FIELD
#include "cli/put_options.def"
#undef OPTION
};

struct pin_options {
#define OPTION OPTION_FIELD
#include "cli/pin_options.def"
#undef OPTION
};

struct rm_options {
#define OPTION OPTION_FIELD
#include "cli/rm_options.def"
#undef OPTION
};

struct stat_options {
#define OPTION OPTION_FIELD
#include "cli/stat_options.def"
#undef OPTION
};

struct group_options {
#define OPTION OPTION_FIELD
#include "cli/group_options.def"
#undef OPTION
};

struct copy_options {
#define OPTION OPTION_FIELD
#include "cli/copy_options.def"
#undef OPTION
};

struct drain_options {
#define OPTION OPTION_FIELD
#include "cli/drain_options.def"
#undef OPTION
};

struct match_options {
#define OPTION OPTION_FIELD
#include "cli/match_options.def"
#undef OPTION
};

/* Choices of `replay`. */
enum replay_groups { REPLAY_GROUPS_ON, REPLAY_GROUPS_OFF };

struct replay_options {
#define OPTION OPTION_FIELD
#include "cli/replay_options.def"
#undef OPTION
};

/* Choices of `bench`: enum snow_transport, and these. */
enum bench_op {
    BENCH_ANY,
    BENCH_PUT,
    BENCH_GET,
    BENCH_EXISTS,
    BENCH_VIEW,
    BENCH_MEMCPY,
    BENCH_RING,
    BENCH_IDLE
};

struct bench_options {
#define OPTION OPTION_FIELD
#include "cli/bench_options.def"
#undef OPTION
};

const struct conf_table *cli_options_table(void);
const struct conf_table *cli_put_options_table(void);
const struct conf_table *cli_pin_options_table(void);
const struct conf_table *cli_rm_options_table(void);
const struct conf_table *cli_stat_options_table(void);
const struct conf_table *cli_group_options_table(void);
const struct conf_table *cli_copy_options_table(void);
const struct conf_table *cli_drain_options_table(void);
const struct conf_table *cli_match_options_table(void);
const struct conf_table *cli_replay_options_table(void);
const struct conf_table *cli_bench_options_table(void);

#endif
