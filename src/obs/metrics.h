/* Metrics: tables of counters and gauges, and their text for Prometheus.
 *
 * A table is src/<layer>/<layer>_metrics.def, a row for each: METRIC(name, kind, "text"), kind
 * COUNTER or GAUGE.  Values are an array of uint64_t in the order of the rows:
 *   static const struct obs_metric rows[] = {
 *   #define METRIC OBS_METRIC
 *   #include "core/core_metrics.def"
 *   #undef METRIC
 *   };
 * A row appears as snowskin_<module>_<name>, counters with _total behind it. */
#ifndef OBS_METRICS_H
#define OBS_METRICS_H

#include "base/bytes.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

enum obs_metric_kind { OBS_COUNTER, OBS_GAUGE };

struct obs_metric {
    const char *name;
    enum obs_metric_kind kind;
    const char *text; /* one line for people */
};

#define OBS_METRIC(name, kind, text) {#name, OBS_##kind, text},

struct obs_metrics_table {
    const char *module;
    const struct obs_metric *metrics;
    uint32_t count;
};

/* The values of one thing: of the process (label NULL), or of one of several (node="a"). */
struct obs_metrics_values {
    const char *label;  /* its name, NULL: none */
    struct bytes value; /* of the label */
    const uint64_t *values;
};

/* Adds all rows, each for every set of values.  LIMIT: the buffer is too small, the text is cut. */
MUST_CHECK enum snow_status obs_metrics_print(const struct obs_metrics_table *table,
                                              const struct obs_metrics_values *sets,
                                              uint32_t set_count, struct text *text);

#endif
