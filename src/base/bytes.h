/* A run of bytes that somebody else owns: keys, names, patterns.  Never zero-terminated. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *at; /* may be NULL when size is 0 */
    size_t size;       /* bytes */
};

static inline struct bytes bytes_of(const void *at, size_t size)
{
    return (struct bytes){.at = (const uint8_t *)at, .size = size};
}

static inline struct bytes bytes_of_string(const char *text)
{
    return bytes_of(text, strlen(text));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

#endif
