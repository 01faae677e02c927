/* The state file of a master: cluster, term, expected nodes.  {magic, version, crc} and one encoded
 * record.  Private to master/. */
#ifndef MASTER_STATE_H
#define MASTER_STATE_H

#include "base/status.h"
#include "env/env.h"
#include "wire/messages.h"

/* NOT_FOUND: there is none yet.  INVALID: damaged, or of another version.
 * The record lies in the arena. */
MUST_CHECK enum snow_status master_state_read(struct env *env, const char *dir, struct arena *arena,
                                              struct wire_master_state *state);
/* On disk when it returns. */
MUST_CHECK enum snow_status master_state_write(struct env *env, const char *dir,
                                               const struct wire_master_state *state);

#endif
