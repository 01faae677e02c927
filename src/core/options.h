/* Options of the core, a row for each in core_options.def. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include "base/options.h"

enum core_policy { CORE_POLICY_LRU, CORE_POLICY_FIFO, CORE_POLICY_RRC, CORE_POLICY_S3FIFO };
enum core_placement { CORE_PLACEMENT_REQUEST, CORE_PLACEMENT_SPREAD };

struct core_options {
#define OPTION OPTION_FIELD
#include "core/core_options.def"
#undef OPTION
};

/* Every option at its default. */
static inline struct core_options core_options_default(void)
{
#define OPTION OPTION_DEFAULT
    return (struct core_options){
#include "core/core_options.def"
    };
#undef OPTION
}

#endif
