#include "client/buffers.h"

#include "base/limits.h"

enum snow_status client_buffers_set(struct client_buffers *buffers, const void *at, size_t size,
                                    const struct snow_buffer *list, size_t count)
{
    size_t total = 0;

    if (list == NULL || count == 0) {
        buffers->only = (struct snow_buffer){.at = (void *)(uintptr_t)at, .size = size};
        buffers->list = &buffers->only;
        buffers->count = 1;
        return list != NULL || count != 0 || (at == NULL && size > 0) ? SNOW_INVALID : SNOW_OK;
    }
    if (count > LIMIT_ITEM_BUFFERS)
        return SNOW_LIMIT;
    for (size_t i = 0; i < count; i++) {
        if ((list[i].at == NULL && list[i].size > 0) ||
            __builtin_add_overflow(total, list[i].size, &total))
            return SNOW_INVALID;
    }
    buffers->list = list;
    buffers->count = count;
    return at != NULL || total != size ? SNOW_INVALID : SNOW_OK;
}

enum snow_status client_buffers_cut(const struct client_buffers *buffers, uint64_t start,
                                    struct arena *arena, struct transport_item *item)
{
    uint64_t left = item->size;
    uint32_t touched = 0;
    size_t first = 0;
    struct iovec *memory;

    while (first + 1 < buffers->count && start >= buffers->list[first].size)
        start -= buffers->list[first++].size;
    if (start + left <= buffers->list[first].size) {
        transport_item_set_memory(item, (uint8_t *)buffers->list[first].at + start);
        return SNOW_OK;
    }
    for (uint64_t size = start + left; size > 0; touched++) {
        ASSERT(first + touched < buffers->count);
        uint64_t here = buffers->list[first + touched].size;

        size -= here < size ? here : size;
    }
    memory = arena_array(arena, touched, sizeof(*memory));
    if (memory == NULL)
        return SNOW_NO_MEMORY;
    for (uint32_t i = 0; i < touched; i++) {
        const struct snow_buffer *buffer = &buffers->list[first + i];
        uint64_t here = buffer->size - start < left ? buffer->size - start : left;

        memory[i] = (struct iovec){.iov_base = (uint8_t *)buffer->at + start, .iov_len = here};
        left -= here;
        start = 0;
    }
    item->memory = memory;
    item->memory_count = touched;
    return SNOW_OK;
}

bool client_buffers_meet(const struct client_buffers *buffers, const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < buffers->count; i++) {
        const struct snow_buffer *buffer = &buffers->list[i];
        uintptr_t from = (uintptr_t)buffer->at;

        if (from < (uintptr_t)at + size && (uintptr_t)at < from + buffer->size)
            return true;
    }
    return false;
}
