/* Statuses as numbers of the package `mooncake`.
 *
 * Consumers look at numbers: -200 makes vLLM hold back, -704 is an ordinary miss, and what is not
 * among those that its encoder cache knows disables it.  So each status becomes one that is known
 * for that kind of call; -800 ("transfer failed") is never used. */
#include "core.h"

static int of_get(enum snow_status status)
{
    switch (status) {
    case SNOW_NOT_FOUND:
    case SNOW_UNKNOWN:
    case SNOW_GONE:
        return CODE_NOT_FOUND;
    case SNOW_IN_PROGRESS:
    case SNOW_NOT_READY:
        return CODE_NOT_READY;
    case SNOW_LIMIT:
    case SNOW_INVALID:
    case SNOW_CLOSED:
        return CODE_INVALID;
    case SNOW_CHANGED:
        return CODE_LEASE_EXPIRED;
    case SNOW_TIMEOUT:
        return CODE_TIMEOUT;
    case SNOW_NOT_LEADER:
    case SNOW_REFUSED:
        return CODE_NO_MASTER;
    default: /* the master knows it, but no copy can be read */
        return CODE_NO_REPLICA;
    }
}

static int of_put(enum snow_status status)
{
    switch (status) {
    case SNOW_IN_PROGRESS:
    case SNOW_NOT_READY:
    case SNOW_GONE:
    case SNOW_STALE:
    case SNOW_UNKNOWN:
        return CODE_NOT_READY;
    case SNOW_INVALID:
    case SNOW_CLOSED:
    case SNOW_GROUP_SIZE_MISMATCH:
    case SNOW_GROUP_INDEX_CONFLICT:
        return CODE_INVALID;
    case SNOW_TIMEOUT:
        return CODE_TIMEOUT;
    case SNOW_UNREACHABLE:
    case SNOW_NOT_LEADER:
    case SNOW_REFUSED:
        return CODE_NO_MASTER;
    default: /* what is short now may be there later: memory, room, a bound */
        return CODE_NO_SPACE;
    }
}

static int of_other(enum snow_status status)
{
    switch (status) {
    case SNOW_NOT_FOUND:
    case SNOW_UNKNOWN:
    case SNOW_GONE:
        return CODE_NOT_FOUND;
    case SNOW_IN_PROGRESS:
        return CODE_NOT_READY;
    case SNOW_IN_USE:
        return CODE_GUARDED;
    case SNOW_TIMEOUT:
    case SNOW_BUSY:
        return CODE_TIMEOUT;
    case SNOW_UNREACHABLE:
    case SNOW_NOT_LEADER:
    case SNOW_REFUSED:
        return CODE_NO_MASTER;
    default:
        return CODE_INVALID;
    }
}

int code_of(enum snow_status status, enum kind kind)
{
    if (snow_status_verdict(status) == SNOW_DONE)
        return 0;
    return kind == KIND_GET ? of_get(status) : kind == KIND_PUT ? of_put(status) : of_other(status);
}
