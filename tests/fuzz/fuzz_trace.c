/* Any bytes as a trace: it is parsed, or refused with a line. */
#include "base/assert.h"
#include "trace/trace.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace trace;
    struct text error;
    char reason[256];

    text_init(&error, reason, sizeof(reason));
    if (trace_parse(bytes_of(data, size), 0, &trace, &error) != SNOW_OK) {
        ASSERT(error.used > 0);
        return 0;
    }
    ASSERT(trace.request_count > 0 && trace.distinct <= trace.block_count);
    ASSERT(trace.infinite_hits + trace.distinct <= trace.block_count);
    trace_free(&trace);
    return 0;
}
