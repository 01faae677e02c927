/* The operator: a simulated client that has nodes copy, move and drain, now and then, and changes
 * its mind.  Private to sim/. */
#ifndef SIM_OPERATOR_H
#define SIM_OPERATOR_H

#include "sim/cluster.h"

struct operator;

/* Half of the seeds have none at work: it draws by itself, so that all else is as without it. */
struct operator* operator_create(struct cluster *cluster, uint64_t seed);
void operator_destroy(struct operator* operator);
/* Ends its process: what it counted is in the probes then. */
void operator_stop(struct operator* operator);
/* Nothing that it asked for runs any more, once the cluster is stopping. */
bool operator_is_idle(const struct operator* operator);
/* Sessions that it has at the master. */
uint32_t operator_sessions(const struct operator* operator);

#endif
