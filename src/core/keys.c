/* Slabs: a chunk belongs to one size class (items of n units of 8 bytes) while any of its items is
 * in use; an empty chunk goes back to all classes, so a change in the length of keys strands no
 * memory.
 *
 *   reference:  chunk number (19 bits, from 1) | unit in the chunk (13 bits)
 *   item:       length (2) | bytes | padding to 8        when free: the next free reference (4)
 *
 * Invariants.
 *   K1  A class's list holds exactly the chunks of that class with at least one free item.
 *   K2  The list of empty chunks holds exactly the chunks without a class.
 */
#include "core/keys.h"

#include "base/assert.h"
#include "base/cache.h"
#include "base/limits.h"
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_LINE 64u /* bytes of a cache line */
#define UNIT 8u
#define CHUNK_SIZE (64u * 1024u)
#define CHUNK_UNIT_BITS 13u
#define CHUNK_UNITS (CHUNK_SIZE / UNIT)
#define CHUNK_COUNT_MAX ((1u << (32 - CHUNK_UNIT_BITS)) - 1) /* number 0 is not used */
#define LENGTH_SIZE sizeof(uint16_t)
#define CLASS_COUNT ((LIMIT_KEY_SIZE + LENGTH_SIZE + UNIT - 1) / UNIT + 1) /* class = units */

_Static_assert(1u << CHUNK_UNIT_BITS == CHUNK_UNITS, "a reference names a unit of a chunk");
_Static_assert(LIMIT_KEY_SIZE <= UINT16_MAX, "lengths are 16 bits");

struct chunk {
    uint8_t *at;
    uint32_t units;      /* of an item: its class */
    uint32_t used;       /* items in use */
    uint32_t fresh_unit; /* units at and above were never used under this class */
    uint32_t free_first; /* stack of free items: a reference; 0: none */
    uint32_t prev;       /* in the list of its class, or of empty chunks; 0: none */
    uint32_t next;
};

struct keys {
    struct region *region;
    struct pool chunks;            /* struct chunk */
    uint32_t partial[CLASS_COUNT]; /* first chunk with room; 0: none */
    uint32_t empty;                /* first empty chunk; 0: none */
};

enum snow_status keys_create(struct region *region, struct keys **keys)
{
    struct keys *created = calloc(1, sizeof(*created));

    if (created == NULL)
        return SNOW_NO_MEMORY;
    created->region = region;
    pool_init(&created->chunks, region, sizeof(struct chunk), 8, CHUNK_COUNT_MAX);
    *keys = created;
    return SNOW_OK;
}

static struct chunk *chunk_at(const struct keys *keys, uint32_t number)
{
    return pool_at(&keys->chunks, number);
}

void keys_destroy(struct keys *keys)
{
    if (keys == NULL)
        return;
    for (uint32_t number = 1; number < keys->chunks.fresh; number++)
        region_give(keys->region, chunk_at(keys, number)->at, CHUNK_SIZE);
    pool_deinit(&keys->chunks);
    free(keys);
}

static uint8_t *item_at(const struct keys *keys, uint32_t reference)
{
    return chunk_at(keys, reference >> CHUNK_UNIT_BITS)->at +
           (size_t)(reference & (CHUNK_UNITS - 1)) * UNIT;
}

static void list_chunk(struct keys *keys, uint32_t *first, uint32_t number)
{
    struct chunk *chunk = chunk_at(keys, number);

    chunk->prev = 0;
    chunk->next = *first;
    if (*first != 0)
        chunk_at(keys, *first)->prev = number;
    *first = number;
}

static void unlist_chunk(struct keys *keys, uint32_t *first, uint32_t number)
{
    struct chunk *chunk = chunk_at(keys, number);

    if (chunk->prev != 0)
        chunk_at(keys, chunk->prev)->next = chunk->next;
    else
        *first = chunk->next;
    if (chunk->next != 0)
        chunk_at(keys, chunk->next)->prev = chunk->prev;
}

static bool is_full(const struct chunk *chunk)
{
    return chunk->free_first == 0 && chunk->fresh_unit + chunk->units > CHUNK_UNITS;
}

static enum snow_status new_chunk(struct keys *keys, uint32_t *number)
{
    enum snow_status status = pool_take(&keys->chunks, number);
    uint8_t *at;

    if (status != SNOW_OK)
        return status;
    at = region_take(keys->region, CHUNK_SIZE);
    if (at == NULL) {
        pool_give(&keys->chunks, *number);
        return SNOW_NO_MEMORY;
    }
    chunk_at(keys, *number)->at = at;
    return SNOW_OK;
}

/* Gives a class a chunk with room, at the front of its list. */
static enum snow_status add_chunk(struct keys *keys, uint32_t units)
{
    uint32_t number = keys->empty;
    struct chunk *chunk;

    if (number != 0) {
        unlist_chunk(keys, &keys->empty, number);
    } else {
        enum snow_status status = new_chunk(keys, &number);

        if (status != SNOW_OK)
            return status;
    }
    chunk = chunk_at(keys, number);
    chunk->units = units;
    chunk->used = 0;
    chunk->fresh_unit = 0;
    chunk->free_first = 0;
    list_chunk(keys, &keys->partial[units], number);
    return SNOW_OK;
}

enum snow_status keys_take(struct keys *keys, struct bytes key, uint32_t *reference)
{
    uint32_t units = (uint32_t)((key.size + LENGTH_SIZE + UNIT - 1) / UNIT);
    uint16_t length = (uint16_t)key.size;
    uint32_t number;
    uint32_t taken;
    struct chunk *chunk;
    uint8_t *item;

    if (key.size == 0 || key.size > LIMIT_KEY_SIZE)
        return SNOW_INVALID;
    if (keys->partial[units] == 0) {
        enum snow_status status = add_chunk(keys, units);

        if (status != SNOW_OK)
            return status;
    }
    number = keys->partial[units];
    chunk = chunk_at(keys, number);
    taken = chunk->free_first;
    if (taken != 0) {
        memcpy(&chunk->free_first, item_at(keys, taken), sizeof(chunk->free_first));
    } else {
        taken = number << CHUNK_UNIT_BITS | chunk->fresh_unit;
        chunk->fresh_unit += units;
    }
    chunk->used++;
    if (is_full(chunk))
        unlist_chunk(keys, &keys->partial[units], number);
    item = item_at(keys, taken);
    memcpy(item, &length, LENGTH_SIZE);
    memcpy(item + LENGTH_SIZE, key.at, key.size);
    *reference = taken;
    return SNOW_OK;
}

void keys_give(struct keys *keys, uint32_t reference)
{
    uint32_t number = reference >> CHUNK_UNIT_BITS;
    struct chunk *chunk = chunk_at(keys, number);
    bool was_full = is_full(chunk);

    ASSERT(number != 0 && chunk->used > 0);
    memcpy(item_at(keys, reference), &chunk->free_first, sizeof(chunk->free_first));
    chunk->free_first = reference;
    chunk->used--;
    if (was_full)
        list_chunk(keys, &keys->partial[chunk->units], number);
    if (chunk->used == 0) {
        unlist_chunk(keys, &keys->partial[chunk->units], number);
        list_chunk(keys, &keys->empty, number);
    }
}

struct bytes keys_at(const struct keys *keys, uint32_t reference)
{
    const uint8_t *item = item_at(keys, reference);
    uint16_t length;

    memcpy(&length, item, LENGTH_SIZE);
    return bytes_of(item + LENGTH_SIZE, length);
}

uint64_t keys_memory(const struct keys *keys)
{
    return sizeof(*keys) + pool_bytes(&keys->chunks) + (uint64_t)keys->chunks.used * CHUNK_SIZE;
}

void keys_touch(const struct keys *keys, uint32_t reference)
{
    const uint8_t *item = item_at(keys, reference);

    cache_touch(item);
    if ((reference & (CHUNK_UNITS - 1)) * UNIT + KEYS_LINE < CHUNK_SIZE)
        cache_touch(item + KEYS_LINE);
}
