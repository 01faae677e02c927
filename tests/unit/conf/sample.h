/* Two modules with options, for tests of conf: `sample` and `other`, which share `listen`. */
#include "base/options.h"
#include "conf/conf.h"

enum sample_color { SAMPLE_RED, SAMPLE_GREEN };

struct sample {
#define OPTION OPTION_FIELD
#include "../tests/unit/conf/sample.def"
#undef OPTION
};

#define CONF_ROWS sample_rows
#define CONF_STRUCT sample
#define CONF_FILE "../tests/unit/conf/sample.def"
#include "conf/expand_table.h"

static const struct conf_table sample_table = {.module = "sample",
                                               .options = sample_rows,
                                               .count = sizeof(sample_rows) / sizeof(*sample_rows)};

struct other {
    const char *listen;
    uint64_t depth;
};

static const struct conf_option other_rows[] = {
    {.name = "listen",
     .type = CONF_TEXT,
     .offset = offsetof(struct other, listen),
     .default_text = "there:2",
     .range = {.high = 16},
     .sim = {.low = 1},
     .text = "address"},
    {.name = "depth",
     .type = CONF_COUNT,
     .offset = offsetof(struct other, depth),
     .default_number = 1,
     .range = {.high = 9},
     .sim = {.low = 1},
     .text = "depth"},
};

static const struct conf_table other_table = {.module = "other", .options = other_rows, .count = 2};
