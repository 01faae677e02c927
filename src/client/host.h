/* A segment inside this process: a node of its own, opened and closed with the client.
 *
 * Threads.  The one that opens and closes the client; host_tell: any.   Private to client/, over
 * env/linux alone. */
#ifndef CLIENT_HOST_H
#define CLIENT_HOST_H

#include "env/env.h"
#include "snowskin/snowskin.h"

struct host;

/* OK, or why not; *reason (static) says what is wrong. */
MUST_CHECK enum snow_status host_check(const struct snow_segment *segment, const char **reason);
/* Opens the node; it has been checked.  *reason (static) says why not. */
MUST_CHECK enum snow_status host_open(struct env *env, const struct snow_options *options,
                                      struct host **host, const char **reason);
/* The master has it: it may be used. */
bool host_is_mounted(const struct host *host);
uint64_t host_incarnation(const struct host *host);
/* Its bytes are gone, and the master knows, unless it is out of reach.  `loop` turns meanwhile. */
void host_close(struct host *host, struct env_loop *loop);

void host_tell(const struct host *host, struct snow_hosted *hosted);

#endif
