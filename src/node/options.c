#include "node/options.h"

#define CONF_ROWS node_rows
#define CONF_STRUCT node_options
#define CONF_FILE "node/node_options.def"
#include "conf/expand_table.h"

const struct conf_table *node_options_table(void)
{
    static const struct conf_table table = {.module = "node",
                                            .options = node_rows,
                                            .count = sizeof(node_rows) / sizeof(node_rows[0])};

    return &table;
}
