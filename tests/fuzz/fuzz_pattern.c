/* Removal patterns: whatever the text, compiling and matching end, and quickly.
 *
 *   input:  length of the pattern (2, little endian) | pattern | subject */
#include "base/limits.h"
#include "base/pattern.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pattern *pattern = NULL;
    const char *reason = NULL;
    enum snow_status status;
    size_t length;

    if (size < 2)
        return 0;
    length = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    if (length > size)
        length = size;
    status = pattern_compile(bytes_of(data, length), &pattern, &reason);
    if (status != SNOW_OK) {
        if (pattern != NULL || reason == NULL ||
            (status == SNOW_LIMIT) != (length > LIMIT_PATTERN_SIZE))
            abort();
        return 0;
    }
    data += length;
    size -= length;
    status = pattern_match(pattern, bytes_of(data, size > LIMIT_KEY_SIZE ? LIMIT_KEY_SIZE : size));
    if (status != SNOW_OK && status != SNOW_NOT_FOUND && status != SNOW_LIMIT)
        abort();
    pattern_destroy(pattern);
    return 0;
}
