/* Open requests by slot: an array that grows to the highest slot used, a stack of free ones. */
#include "rpc/conn.h"

#include <stdlib.h>

#define COUNT_MIN 16u

static enum snow_status grow(struct rpc_slots *slots, uint32_t slot)
{
    uint32_t count = slots->count == 0 ? COUNT_MIN : slots->count;

    if (slot < slots->count)
        return SNOW_OK;
    while (count <= slot)
        count *= 2;
    void **items = realloc(slots->items, count * sizeof *items);

    if (items == NULL)
        return SNOW_NO_MEMORY;
    memset(items + slots->count, 0, (count - slots->count) * sizeof *items);
    slots->items = items;
    uint16_t *free_stack = realloc(slots->free, count * sizeof *free_stack);

    if (free_stack == NULL)
        return SNOW_NO_MEMORY;
    slots->free = free_stack;
    slots->count = count;
    return SNOW_OK;
}

enum snow_status rpc_slots_put(struct rpc_slots *slots, uint32_t slot, void *item)
{
    enum snow_status status = grow(slots, slot);

    if (status != SNOW_OK)
        return status;
    ASSERT(slots->items[slot] == NULL);
    slots->items[slot] = item;
    return SNOW_OK;
}

enum snow_status rpc_slots_take(struct rpc_slots *slots, void *item, uint32_t *slot)
{
    if (slots->free_count > 0) {
        *slot = slots->free[--slots->free_count];
        return rpc_slots_put(slots, *slot, item);
    }
    if (slots->fresh == LIMIT_REQUESTS_PER_CONN)
        return SNOW_LIMIT;
    enum snow_status status = rpc_slots_put(slots, slots->fresh, item);

    if (status == SNOW_OK)
        *slot = slots->fresh++;
    return status;
}

void rpc_slots_give(struct rpc_slots *slots, uint32_t slot)
{
    ASSERT(slots->items[slot] != NULL);
    slots->items[slot] = NULL;
    if (slot < slots->fresh)
        slots->free[slots->free_count++] = (uint16_t)slot;
}

void rpc_slots_deinit(struct rpc_slots *slots)
{
    free(slots->items);
    free(slots->free);
    *slots = (struct rpc_slots){0};
}
