/* The one retry policy: reads verdicts, never lists codes. */
#ifndef RPC_RETRY_H
#define RPC_RETRY_H

#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_retry {
    uint32_t attempts;    /* so far */
    uint64_t deadline_ns; /* of the whole operation */
    struct rng *rng;      /* jitter */
};

/* Whether a try that ended so may be repeated at all. */
bool rpc_retry_may(enum snow_status status, bool lost_peer);

/* Whether a try that ended with status at now_ns is to be repeated, and when (*at_ns).  RETRY
 * verdicts: after the hint, or after a delay that doubles from 1 ms to 500 ms, with jitter.
 * UNREACHABLE and CLOSED of a connection count as RETRY for operations that are safe to repeat:
 * lost_peer says so.  Never at or past the deadline. */
bool rpc_retry_again(struct rpc_retry *retry, enum snow_status status, bool lost_peer,
                     uint32_t hint_ms, uint64_t now_ns, uint64_t *at_ns);

#endif
