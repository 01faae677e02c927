#include "wire/values.h"

void *wire_list_take(struct reader *reader, struct arena *arena, uint32_t *count, size_t item_size)
{
    if (*count == 0)
        return NULL;
    void *items = arena_array(arena, *count, item_size);

    if (items == NULL) {
        *count = 0;
        reader_fail(reader);
        reader->no_memory = true;
    }
    return items;
}

void wire_print_u8(struct text *text, uint8_t value)
{
    text_add(text, "%u", value);
}

void wire_print_u16(struct text *text, uint16_t value)
{
    text_add(text, "%u", value);
}

void wire_print_u32(struct text *text, uint32_t value)
{
    text_add(text, "%u", value);
}

void wire_print_u64(struct text *text, uint64_t value)
{
    text_add(text, "%llu", (unsigned long long)value);
}

void wire_print_i32(struct text *text, int32_t value)
{
    text_add(text, "%d", value);
}

void wire_print_bytes(struct text *text, struct bytes value)
{
    text_add_bytes(text, value, WIRE_PRINT_BYTES);
}

uint64_t wire_random_u64(struct rng *rng, struct arena *arena)
{
    (void)arena;
    if (rng_chance(rng, 1, 16))
        return rng_chance(rng, 1, 2) ? 0 : UINT64_MAX;
    return rng_next(rng) >> rng_below(rng, 64);
}

uint32_t wire_random_u32(struct rng *rng, struct arena *arena)
{
    return (uint32_t)wire_random_u64(rng, arena);
}

uint16_t wire_random_u16(struct rng *rng, struct arena *arena)
{
    return (uint16_t)wire_random_u64(rng, arena);
}

uint8_t wire_random_u8(struct rng *rng, struct arena *arena)
{
    return (uint8_t)wire_random_u64(rng, arena);
}

int32_t wire_random_i32(struct rng *rng, struct arena *arena)
{
    return (int32_t)wire_random_u64(rng, arena);
}

struct bytes wire_random_bytes(struct rng *rng, struct arena *arena)
{
    size_t size = (size_t)rng_below(rng, rng_chance(rng, 1, 32) ? LIMIT_KEY_SIZE : 48);
    uint8_t *at = size == 0 ? NULL : arena_take(arena, size);

    if (at == NULL)
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(rng_chance(rng, 1, 8) ? rng_next(rng) : rng_between(rng, 'a', 'z'));
    return bytes_of(at, size);
}

void *wire_random_list(struct rng *rng, struct arena *arena, uint32_t *count, size_t item_size)
{
    uint32_t wanted = (uint32_t)rng_below(rng, 5);
    void *items = wanted == 0 ? NULL : arena_array(arena, wanted, item_size);

    *count = items == NULL ? 0 : wanted;
    return items;
}
