/* What a replay found: added up over the workers, printed for people or as one JSON object. */
#ifndef CLI_REPLAY_REPORT_H
#define CLI_REPLAY_REPORT_H

#include "cli/replay.h"

#include <jansson.h>

/* Counters of the master that belong into the report; ROW(name). */
#define REPLAY_STATS(ROW) \
    ROW(evicted_objects) \
    ROW(puts_waited) \
    ROW(leases_broken)

struct replay_times {
    uint32_t *us;
    uint64_t count;
};

struct replay_report {
    struct replay_counters counters;
#define ROW(name) uint64_t name;
    REPLAY_STATS(ROW)
#undef ROW
    struct replay_times put;
    struct replay_times get;
    uint64_t wall_ns;
};

void replay_report_init(struct replay_report *report);
void replay_report_deinit(struct replay_report *report);
/* Adds a worker's result; false: it is none. */
bool replay_report_add(struct replay_report *report, const json_t *result);
void replay_report_stat(struct replay_report *report, const char *name, uint64_t value);
/* Takes off what the counters of a master that was there before had counted already. */
void replay_report_since(struct replay_report *report, const struct replay_report *before);
void replay_report_print(const struct cli *cli, struct replay_report *report,
                         const struct trace *trace);
/* No wrong byte, no failed put, no failed get. */
bool replay_report_is_clean(const struct replay_report *report);

#endif
