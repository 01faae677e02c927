/* What replay and its worker processes share.  Private to cli/.
 *
 * The parent starts a cluster (unless told one) and worker processes; each worker is a client that
 * plays every Nth request of the trace and writes lines of JSON to its standard output: {"done": n}
 * now and then, at its end one result.  With --members M a client is M processes, which have a
 * member each of every block; the first of them says {"meet": address} before all else. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "cli/cli.h"
#include "trace/trace.h"

/* What a worker counts; ROW(name). */
#define REPLAY_COUNTERS(ROW) \
    ROW(requests) \
    ROW(blocks) \
    ROW(hit_blocks) \
    ROW(partial_blocks) \
    ROW(wrong_bytes) \
    ROW(failed_puts) \
    ROW(failed_gets) \
    ROW(put_bytes) \
    ROW(get_bytes)

struct replay_counters {
#define ROW(name) uint64_t name;
    REPLAY_COUNTERS(ROW)
#undef ROW
};

/* Reads the trace file; tells what is wrong with it. */
bool replay_trace_read(const struct cli *cli, struct trace *trace);

/* Bytes of a member of a block: of the whole block, when it is not split. */
uint64_t replay_member_bytes(const struct cli *cli);

/* One worker: plays its part and prints its result. */
int replay_worker(struct cli *cli);

#endif
