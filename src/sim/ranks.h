/* Ranks: simulated clients that put and read members of groups, each its share, as the ranks of an
 * engine do; beside what else they do.  Private to sim/. */
#ifndef SIM_RANKS_H
#define SIM_RANKS_H

#include "sim/cluster.h"

struct rank;

/* paused: of its process. */
struct rank *ranks_create(struct cluster *cluster, uint32_t index, const bool *paused);
/* Its process is down. */
void ranks_destroy(struct rank *rank);

/* Its process is up, with this client. */
void ranks_start(struct rank *rank, struct client *client);
/* Its process is dead: the client is destroyed next. */
void ranks_crash(struct rank *rank);
/* No operation is under way. */
bool ranks_is_idle(const struct rank *rank);

#endif
