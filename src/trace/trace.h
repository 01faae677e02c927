/* Request traces: one JSON object a line, `timestamp` (ms) and `hash_ids` (the
 * chain of the prompt's blocks). */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "base/bytes.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

#define TRACE_SIZE_MAX (1024 * MIB)
#define TRACE_BLOCKS_MAX 65536u /* of one request */

struct trace_request {
    uint64_t at_ms;
    uint64_t first; /* of its blocks, in trace.blocks */
    uint32_t count;
};

struct trace {
    struct trace_request *requests;
    uint64_t *blocks;
    uint64_t request_count;
    uint64_t block_count;
    uint64_t distinct; /* blocks that differ */
    uint64_t
        infinite_hits; /* blocks that a cache without end would hit: longest prefixes seen before */
};

/* INVALID: *error names the line and what is wrong with it.  NO_MEMORY.
 * request_max: lines to read, 0: all. */
MUST_CHECK enum snow_status trace_parse(struct bytes data, uint64_t request_max,
                                        struct trace *trace, struct text *error);
void trace_free(struct trace *trace);

#endif
