/* Scribes: simulated clients that put values in several calls, beside what else they do.
 *
 * What a scribe writes is one attempt of the history, like any put: ranges in random order, pauses
 * in between, now and then a commit that comes too early, or none at all.  Private to sim/. */
#ifndef SIM_SCRIBE_H
#define SIM_SCRIBE_H

#include "sim/cluster.h"

struct scribe;

/* paused: of its process. */
struct scribe *scribe_create(struct cluster *cluster, uint32_t index, const bool *paused);
/* Its process is down. */
void scribe_destroy(struct scribe *scribe);

/* Its process is up, with this client. */
void scribe_start(struct scribe *scribe, struct client *client);
/* Its process is dead: the client is destroyed next. */
void scribe_crash(struct scribe *scribe);
/* Nothing is open. */
bool scribe_is_idle(const struct scribe *scribe);

#endif
