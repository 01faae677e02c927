/* The project's status codes (include/snowskin/status.def) and how functions carry them. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "snowskin/status.h"

#include <stdbool.h>
#include <stdint.h>

/* On every function that can fail: the caller has to look at the status. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* True when a number from the wire is a status of ours. */
bool status_is_known(int32_t code);

#endif
