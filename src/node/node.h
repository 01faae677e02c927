/* Node: gives memory to the cluster and moves bytes in and out of it.
 *
 * Problem.  Clients write and read segment memory by themselves; a confused, slow or dead one must
 *           harm nobody, and what the master has given up must be given up here before it is used
 *           again (P3).
 * Idea.     One service loop owns the slots.  It does what a grant or a location allows, and
 *           nothing else: the master sends no message for a put or a get.  It counts what is inside
 *           each extent; a forget closes at once and frees when nothing is inside.
 * Invariants.
 *   N1  A request without a grant under the present key moves no byte.
 *   N2  FREED is said only when no transfer is inside the extent.
 *   N3  What is told to a new master includes every extent that something is inside of.
 * Threads.  A service loop and a heartbeat loop, each on its own thread; the public functions
 *           below: the thread that opened it. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/bytes.h"
#include "base/status.h"
#include "env/env.h"
#include "node/options.h"
#include "obs/log.h"

#include <stdbool.h>
#include <stdint.h>

struct node;

/* Makes or finds the segment's memory, listens, and starts to dial the master.  reason: why not,
 * for people.  NO_SPACE, IN_USE, INVALID, UNREACHABLE (can not listen), NO_MEMORY. */
MUST_CHECK enum snow_status node_open(struct env *env, const struct node_options *options,
                                      struct bytes token, struct obs_log *log, struct node **node,
                                      const char **reason);

/* Tells the master that this node ends, so that nobody looks for its bytes: unless its memory lies
 * in files, which outlive it.  Before node_close.  Any thread; repeatable. */
void node_leave(struct node *node);
/* True once the master knows, or can not be told.  Any thread. */
bool node_has_left(const struct node *node);

/* Stops both loops and gives the memory back.  Transfers under way end. */
void node_close(struct node *node);

/* Names it in the master's list. */
uint64_t node_incarnation(const struct node *node);

/* Bytes of its segments, and of these, committed.  Any thread. */
uint64_t node_size(const struct node *node);
uint64_t node_ready(const struct node *node);

/* Where its data service listens. */
const char *node_address(const struct node *node);

/* True while the master knows it and has its inventory.  Any thread. */
bool node_is_mounted(const struct node *node);

/* True once an operator had it emptied: this process is a member of the cluster no more.  Any
 * thread. */
bool node_is_drained(const struct node *node);

/* True while memory is being committed: by itself (populate=all), or because the master asked.  Any
 * thread. */
bool node_is_growing(const struct node *node);

/* True while no transfer is inside an extent.  Any thread. */
bool node_is_idle(const struct node *node);

/* Counters of node_metrics.def, in its order; read while the node runs they may be a moment old. */
void node_metrics(const struct node *node, uint64_t *values);
uint32_t node_metric_count(void);
const char *node_metric_name(uint32_t index);

/* Verifies N2 and the slots' invariants; NULL: they hold, else which does not.  On the service
 * loop, or in the simulator. */
const char *node_check(struct node *node);

/* For the simulator's checkers: bytes of all extents that are not FREE,
 * each rounded up to the granule. */
uint64_t node_held_bytes(const struct node *node, uint64_t granule);

#endif
