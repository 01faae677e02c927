/* Probes: how often rare paths were reached, added up over processes and seeds.
 * Private to sim/. */
#ifndef SIM_PROBE_H
#define SIM_PROBE_H

#include <stdint.h>

enum probe {
#define PROBE(module, metric) PROBE_##module##_##metric,
#include "sim/probes.def"
#undef PROBE
    PROBE_COUNT
};

struct probes {
    uint64_t counts[PROBE_COUNT];
};

const char *probe_name(uint32_t probe); /* "core.puts_waited" */

/* Adds the counters of one process of this module before it ends. */
void probe_add(struct probes *probes, const char *module, uint32_t count,
               const char *(*name_of)(uint32_t index), const uint64_t *values);
void probe_merge(struct probes *to, const struct probes *from);

#endif
