#include "base/text.h"

#include "base/assert.h"

#include <stdio.h>

void text_init(struct text *text, char *buffer, size_t size)
{
    ASSERT(size >= 8);
    text->at = buffer;
    text->size = size;
    text->used = 0;
    text->full = false;
    buffer[0] = '\0';
}

static void mark_full(struct text *text)
{
    text->full = true;
    text->used = text->size - 1;
    memcpy(text->at + text->size - 4, "...", 4);
}

void text_add_list(struct text *text, const char *format, va_list arguments)
{
    if (text->full)
        return;
    size_t left = text->size - text->used;
    int size = vsnprintf(text->at + text->used, left, format, arguments);

    if (size < 0 || (size_t)size >= left) {
        mark_full(text);
        return;
    }
    text->used += (size_t)size;
}

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    text_add_list(text, format, arguments);
    va_end(arguments);
}

void text_add_bytes(struct text *text, struct bytes data, size_t size_max)
{
    size_t shown = data.size < size_max ? data.size : size_max;

    text_add(text, "\"");
    for (size_t i = 0; i < shown && !text->full; i++) {
        uint8_t byte = data.at[i];

        if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\')
            text_add(text, "\\x%02x", byte);
        else
            text_add(text, "%c", byte);
    }
    text_add(text, "\"");
    if (shown < data.size)
        text_add(text, "...+%zu", data.size - shown);
}
