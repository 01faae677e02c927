/* Options of a master, a row for each in master_options.def, and the table of its core's. */
#ifndef MASTER_OPTIONS_H
#define MASTER_OPTIONS_H

#include "base/options.h"
#include "conf/conf.h"
#include "core/options.h"

struct master_options {
#define OPTION OPTION_FIELD
#include "master/master_options.def"
#undef OPTION
};

const struct conf_table *master_options_table(void);

/* Of struct core_options: the core itself knows nothing of conf. */
const struct conf_table *master_core_options_table(void);

#endif
