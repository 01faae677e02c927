#include "rpc/retry.h"

#include "base/limits.h"

#define DELAY_MS_MIN UINT64_C(1)
#define DELAY_MS_MAX UINT64_C(500)

bool rpc_retry_may(enum snow_status status, bool lost_peer)
{
    if (snow_status_verdict(status) == SNOW_RETRY)
        return true;
    return lost_peer && (status == SNOW_UNREACHABLE || status == SNOW_CLOSED);
}

bool rpc_retry_again(struct rpc_retry *retry, enum snow_status status, bool lost_peer,
                     uint32_t hint_ms, uint64_t now_ns, uint64_t *at_ns)
{
    uint64_t delay_ns;

    if (!rpc_retry_may(status, lost_peer) || retry->attempts >= LIMIT_RETRIES)
        return false;
    if (hint_ms > 0) {
        delay_ns = hint_ms * NS_PER_MS;
    } else {
        uint64_t delay_ms = DELAY_MS_MAX;

        if (retry->attempts < 9 && DELAY_MS_MIN << retry->attempts < DELAY_MS_MAX)
            delay_ms = DELAY_MS_MIN << retry->attempts;
        delay_ns = delay_ms * NS_PER_MS;
        delay_ns = delay_ns / 2 + rng_below(retry->rng, delay_ns / 2 + 1);
    }
    if (now_ns >= retry->deadline_ns || delay_ns >= retry->deadline_ns - now_ns)
        return false;
    retry->attempts++;
    *at_ns = now_ns + delay_ns;
    return true;
}
