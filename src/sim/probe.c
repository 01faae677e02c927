#include "sim/probe.h"

#include <string.h>

struct row {
    const char *module;
    const char *metric;
    const char *name;
};

static const struct row rows[] = {
#define PROBE(module, metric) {#module, #metric, #module "." #metric},
#include "sim/probes.def"
#undef PROBE
};

const char *probe_name(uint32_t probe)
{
    return rows[probe].name;
}

void probe_add(struct probes *probes, const char *module, uint32_t count,
               const char *(*name_of)(uint32_t index), const uint64_t *values)
{
    for (uint32_t probe = 0; probe < PROBE_COUNT; probe++) {
        if (strcmp(rows[probe].module, module) != 0)
            continue;
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(name_of(i), rows[probe].metric) == 0)
                probes->counts[probe] += values[i];
        }
    }
}

void probe_merge(struct probes *to, const struct probes *from)
{
    for (uint32_t probe = 0; probe < PROBE_COUNT; probe++)
        to->counts[probe] += from->counts[probe];
}
