/* Text built piece by piece into a buffer of fixed size, for logs and reports: what does not fit is
 * left out, and the text ends in "..." then.  Always zero-terminated. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/bytes.h"

#include <stdarg.h>

struct text {
    char *at;
    size_t size; /* bytes of the buffer, at least 8 */
    size_t used; /* bytes of text, without the zero */
    bool full;   /* something was left out */
};

void text_init(struct text *text, char *buffer, size_t size);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_list(struct text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
/* "quoted", with \xNN for what is not printable; after size_max bytes "...+n". */
void text_add_bytes(struct text *text, struct bytes data, size_t size_max);

#endif
