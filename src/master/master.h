/* Master: the core with a network around it.
 *
 * Idea.  One loop decodes requests, steps the core, and carries out what it answers: replies,
 *        forgets, the state file.  It never touches a byte of an object.
 * Invariants.
 *   A1  Outputs are carried out in order; the state file is written before what depends on it
 *       leaves (P5).
 *   A2  A request of the network is open in the core exactly as long as in rpc.
 *   A3  A session, and a node, is bound to at most one connection.
 * Threads.  A loop on its own thread; the public functions: the thread that opened it. */
#ifndef MASTER_MASTER_H
#define MASTER_MASTER_H

#include "base/status.h"
#include "env/env.h"
#include "master/options.h"
#include "obs/log.h"

#include <stdbool.h>

struct master;

/* Reads the state folder (made when missing; none: nothing is kept), takes the next term, listens.
 * IN_USE: another master has the folder.  INVALID: its state file is damaged.  UNREACHABLE: can not
 * listen.  reason: for people. */
MUST_CHECK enum snow_status master_open(struct env *env, const struct master_options *options,
                                        const struct core_options *core_options,
                                        struct obs_log *log, struct master **master,
                                        const char **reason);
void master_close(struct master *master);

/* Where it listens, with the real port. */
const char *master_address(const struct master *master);

/* True once the inventory of every expected node is in.  Any thread. */
bool master_is_ready(const struct master *master);

/* True when it could not keep its state file and has stopped.  Any thread. */
bool master_has_failed(const struct master *master);

/* For pages.c: the loop, and what the core answers to a request that it answers at once; on the
 * loop only, and only until the next.  NULL: not now. */
struct env_loop *master_loop(const struct master *master);
struct env *master_env(const struct master *master);
const void *master_ask(struct master *master, uint16_t type, const void *message);

/* For the simulator's checkers, and on the loop: the machine itself. */
struct core *master_core(struct master *master);

#endif
