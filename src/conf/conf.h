/* Options from flags, environment, a YAML file and defaults, all by the modules' tables.
 *
 * Problem.  An option has a parser, a range, a flag, a variable, a key, help, a page and a random
 *           value for simulation; written by hand they drift apart, and a misspelt one is ignored.
 * Idea.     A row of a table (base/options.h) is the option; all of these read the row.  The bytes
 *           come from main: nothing here does I/O.
 * Invariants.
 *   O1  Flags win over the environment, that over the file, that over the default, in whichever
 *       order they are parsed.
 *   O2  Whatever is not understood is an error that names it, its value, the range and its origin.
 *   O3  A struct never holds a value outside its row's range.
 * Threads.  The caller's. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tables --------------------------------------------------------------------------------- */

enum conf_type {
    CONF_DURATION,
    CONF_BYTES,
    CONF_COUNT,
    CONF_PERCENT,
    CONF_BOOL,
    CONF_CHOICE,
    CONF_TEXT
};

struct conf_range {
    uint64_t low; /* low > high: none */
    uint64_t high;
    const char *const *choices; /* of a CHOICE: its names, then NULL; by number */
};

/* One row. */
struct conf_option {
    const char *name; /* with underscores */
    enum conf_type type;
    size_t offset; /* of the field in the module's struct */
    uint64_t default_number;
    const char *default_text; /* of a TEXT */
    struct conf_range range;
    struct conf_range sim; /* what the simulator draws from */
    bool live;             /* may change while running */
    const char *text;      /* one line for people */
};

/* A module's rows; made by conf/expand_table.h. */
struct conf_table {
    const char *module;
    const struct conf_option *options;
    uint32_t count;
};

/* Sets every option of the struct to its default. */
void conf_defaults(const struct conf_table *table, void *options);

/* Draws every option from its range for simulation: often an end of it, or the default. */
void conf_random(const struct conf_table *table, void *options, struct rng *rng);

/* ---- one process's options ------------------------------------------------------------------ */

enum conf_origin { CONF_FROM_DEFAULT, CONF_FROM_FILE, CONF_FROM_ENVIRONMENT, CONF_FROM_FLAG };

/* A module in use: its table and its struct.  options NULL: the program has the module, but this
 * command does not use it; its variables and keys are understood and left alone. */
struct conf_module {
    const struct conf_table *table;
    void *options;
};

struct conf_slot {
    const struct conf_table *table;
    const struct conf_option *option;
    void *options; /* the module's struct, or NULL */
    enum conf_origin origin;
    bool in_file; /* the file being read has named it */
};

struct conf {
    struct conf_slot *slots; /* every option of every module */
    uint32_t slot_count;
    struct arena *arena; /* texts live there */
    struct text *error;  /* why the last call failed */
    const char *config;  /* --config FILE or SNOWSKIN_CONFIG, for main to read; or NULL */
    bool config_flag;    /* it came from the flag */
    bool help;           /* --help was among the flags */
};

/* Sets all structs to their defaults.  NO_MEMORY. */
MUST_CHECK enum snow_status conf_init(struct conf *conf, const struct conf_module *modules,
                                      uint32_t module_count, struct arena *arena,
                                      struct text *error);

/* `--name value`, `--name=value`, `--name` of a BOOL, `--module-name` when two modules share
 * a name; `--` ends the flags.  What is no flag moves to the front: argv[1 .. *argc - 1].
 * INVALID. */
MUST_CHECK enum snow_status conf_parse_flags(struct conf *conf, int *argc, char **argv);

/* "SNOWSKIN_NAME=value" among all variables, NULL-terminated.  INVALID. */
MUST_CHECK enum snow_status conf_parse_environment(struct conf *conf, const char *const *variables);

/* A mapping of names to values, some under the name of their module.  No aliases, anchors, tags or
 * lists, no key twice.  file: its name, for errors.  INVALID, LIMIT (too large). */
MUST_CHECK enum snow_status conf_parse_yaml(struct conf *conf, const char *file, struct bytes data);

/* "64 KiB", "2g", "4096": as a BYTES option reads it; false: no such number. */
bool conf_bytes_parse(const char *text, uint64_t *bytes);

/* True when this option of a module in use was given and is not just its default. */
bool conf_is_given(const struct conf *conf, const char *module, const char *name);

/* The flags of the modules in use, with ranges and defaults. */
void conf_help(const struct conf *conf, struct text *text);
/* What is set to what, and from where: a line for each option in use. */
void conf_report(const struct conf *conf, struct text *text);

#endif
