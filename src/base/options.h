/* Tables of options: what a module needs to have its options as a struct.  Parsing, help and pages
 * of the same tables are in conf.
 *
 * A table is src/<layer>/<layer>_options.def, a row for each option:
 *   OPTION(type, name, default, range, sim, when, "text")
 *     DURATION   uint64_t <name>_ns        default and range by MS SEC MINUTE HOUR
 *     BYTES      uint64_t <name>_bytes     by KIB MIB GIB TIB (limits.h)
 *     COUNT      uint64_t <name>
 *     PERCENT    uint64_t <name>_percent
 *     BOOL       bool <name>
 *     CHOICE     uint32_t <name>           default: an enumerator that ends in the choice's name
 *     TEXT       const char *<name>        range: bytes
 *   range  RANGE(low, high), both included; AMONG("first", ...) of a CHOICE; ANY of a BOOL
 *   sim    SIM(low, high): what the simulator draws from; SIM_DEFAULT: always the default
 *   when   LIVE: may change while running; START: read once
 *
 * The struct, and a struct with the defaults:
 *   struct core_options {
 *   #define OPTION OPTION_FIELD
 *   #include "core/core_options.def"
 *   #undef OPTION
 *   };
 *   #define OPTION OPTION_DEFAULT
 *   static const struct core_options defaults = {
 *   #include "core/core_options.def"
 *   };
 *   #undef OPTION */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define MS(count) ((count)*NS_PER_MS)
#define SEC(count) ((count)*NS_PER_S)
#define MINUTE(count) (60 * SEC(count))
#define HOUR(count) (60 * MINUTE(count))

#define OPTION_FIELD(type, name, ...) OPTION_FIELD_##type(name)
#define OPTION_FIELD_DURATION(name) uint64_t name##_ns;
#define OPTION_FIELD_BYTES(name) uint64_t name##_bytes;
#define OPTION_FIELD_COUNT(name) uint64_t name;
#define OPTION_FIELD_PERCENT(name) uint64_t name##_percent;
#define OPTION_FIELD_BOOL(name) bool name;
#define OPTION_FIELD_CHOICE(name) uint32_t name;
#define OPTION_FIELD_TEXT(name) const char *name;

#define OPTION_DEFAULT(type, name, value, ...) OPTION_DEFAULT_##type(name, value)
#define OPTION_DEFAULT_DURATION(name, value) .name##_ns = (value),
#define OPTION_DEFAULT_BYTES(name, value) .name##_bytes = (value),
#define OPTION_DEFAULT_COUNT(name, value) .name = (value),
#define OPTION_DEFAULT_PERCENT(name, value) .name##_percent = (value),
#define OPTION_DEFAULT_BOOL(name, value) .name = (value),
#define OPTION_DEFAULT_CHOICE(name, value) .name = (value),
#define OPTION_DEFAULT_TEXT(name, value) .name = (value),

#endif
