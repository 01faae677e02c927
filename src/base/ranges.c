#include "base/ranges.h"

#include <stdlib.h>
#include <string.h>

void ranges_init(struct ranges *ranges, uint32_t max)
{
    *ranges = (struct ranges){.capacity = 1, .max = max};
    ranges->list = &ranges->only;
}

void ranges_deinit(struct ranges *ranges)
{
    if (ranges->list != &ranges->only)
        free(ranges->list);
    ranges_init(ranges, ranges->max);
}

/* The first range that ends at or behind start. */
static uint32_t find(const struct ranges *ranges, uint64_t start)
{
    uint32_t low = 0;
    uint32_t high = ranges->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (ranges->list[middle].end < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool grow(struct ranges *ranges)
{
    uint32_t capacity = ranges->capacity * 2;
    struct range *list;

    if (ranges->count < ranges->capacity)
        return true;
    if (ranges->list == &ranges->only) {
        list = malloc(capacity * sizeof(*list));
        if (list != NULL)
            list[0] = ranges->only;
    } else {
        list = realloc(ranges->list, capacity * sizeof(*list));
    }
    if (list == NULL)
        return false;
    ranges->list = list;
    ranges->capacity = capacity;
    return true;
}

enum snow_status ranges_look(const struct ranges *ranges, uint64_t start, uint64_t size)
{
    uint64_t end = start + size;
    uint32_t at = find(ranges, start);

    if (size == 0)
        return SNOW_OK;
    if (end < start)
        return SNOW_INVALID;
    if (at < ranges->count && ranges->list[at].end == start)
        at++; /* it touches only */
    if (at == ranges->count || ranges->list[at].start >= end)
        return SNOW_OK;
    return ranges->list[at].start <= start && ranges->list[at].end >= end ? SNOW_EXISTS
                                                                          : SNOW_INVALID;
}

/* `behind` follows `range` without a gap. */
static void append(struct range *range, const struct range *behind, ranges_combine combine)
{
    if (combine != NULL)
        range->crc = combine(range->crc, behind->crc, behind->end - behind->start);
    range->end = behind->end;
}

static void take_out(struct ranges *ranges, uint32_t at)
{
    ranges->count--;
    memmove(&ranges->list[at], &ranges->list[at + 1],
            (ranges->count - at) * sizeof(ranges->list[0]));
}

enum snow_status ranges_add(struct ranges *ranges, uint64_t start, uint64_t size, uint32_t crc,
                            ranges_combine combine)
{
    struct range added = {.start = start, .end = start + size, .crc = crc};
    enum snow_status status = ranges_look(ranges, start, size);
    uint32_t at = find(ranges, start);

    if (status != SNOW_OK || size == 0)
        return status;
    if (at < ranges->count && ranges->list[at].end == start) {
        append(&ranges->list[at], &added, combine);
        if (at + 1 < ranges->count && ranges->list[at + 1].start == added.end) {
            append(&ranges->list[at], &ranges->list[at + 1], combine);
            take_out(ranges, at + 1);
        }
        return SNOW_OK;
    }
    if (at < ranges->count && ranges->list[at].start == added.end) {
        append(&added, &ranges->list[at], combine);
        ranges->list[at] = added;
        return SNOW_OK;
    }
    if (ranges->count >= ranges->max)
        return SNOW_LIMIT;
    if (!grow(ranges))
        return SNOW_NO_MEMORY;
    memmove(&ranges->list[at + 1], &ranges->list[at],
            (ranges->count - at) * sizeof(ranges->list[0]));
    ranges->list[at] = added;
    ranges->count++;
    return SNOW_OK;
}

bool ranges_cover(const struct ranges *ranges, uint64_t size)
{
    return size == 0 ||
           (ranges->count > 0 && ranges->list[0].start == 0 && ranges->list[0].end >= size);
}

uint64_t ranges_total(const struct ranges *ranges)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < ranges->count; i++)
        total += ranges->list[i].end - ranges->list[i].start;
    return total;
}
