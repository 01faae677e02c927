#include "master/options.h"

#define CONF_ROWS master_rows
#define CONF_STRUCT master_options
#define CONF_FILE "master/master_options.def"
#include "conf/expand_table.h"

#define CONF_ROWS core_rows
#define CONF_STRUCT core_options
#define CONF_FILE "core/core_options.def"
#include "conf/expand_table.h"

const struct conf_table *master_options_table(void)
{
    static const struct conf_table table = {.module = "master",
                                            .options = master_rows,
                                            .count = sizeof(master_rows) / sizeof(master_rows[0])};

    return &table;
}

const struct conf_table *master_core_options_table(void)
{
    static const struct conf_table table = {.module = "core",
                                            .options = core_rows,
                                            .count = sizeof(core_rows) / sizeof(core_rows[0])};

    return &table;
}
