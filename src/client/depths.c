#include "client/depths.h"

#include "base/hash.h"
#include "snowskin/snowskin.h"

#include <stdlib.h>
#include <string.h>

#define ODD_1 UINT64_C(0x9e3779b97f4a7c15)
#define ODD_2 UINT64_C(0xd1342543de82ef95)

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* Of three words of the key: its first, its middle and its last. */
static uint64_t print_of(const struct client_depths *depths, struct bytes key)
{
    size_t last = key.size - sizeof(uint64_t);
    uint64_t print;

    if (depths->whole || key.size < sizeof(uint64_t))
        return hash_seeded(key, 0);
    print = (word_at(key.at) + key.size) * ODD_1;
    print = (print ^ print >> 32 ^ word_at(key.at + last / 2)) * ODD_2;
    print = (print ^ print >> 32 ^ word_at(key.at + last)) * ODD_1;
    return print ^ print >> 32;
}

static struct client_depth *entry_of(const struct client_depths *depths, uint64_t print)
{
    return &depths->table[print >> 48];
}

_Static_assert(CLIENT_DEPTHS == 1u << (64 - 48), "the upper bits of a print are an index");

void client_depths_deinit(struct client_depths *depths)
{
    free(depths->table);
    depths->table = NULL;
}

void client_depths_note(struct client_depths *depths, struct bytes key, uint32_t depth)
{
    uint64_t print = print_of(depths, key);

    if (depths->table == NULL)
        depths->table = calloc(CLIENT_DEPTHS, sizeof(*depths->table));
    if (depths->table == NULL)
        return;
    if (print == depths->last && depth != depths->last_depth && !depths->whole) {
        depths->whole = true;
        memset(depths->table, 0, CLIENT_DEPTHS * sizeof(*depths->table));
        print = print_of(depths, key);
    }
    depths->last = print;
    depths->last_depth = depth;
    *entry_of(depths, print) = (struct client_depth){.tag = (uint32_t)print, .depth = depth};
}

uint32_t client_depths_find(const struct client_depths *depths, struct bytes key)
{
    uint64_t print;
    const struct client_depth *entry;

    if (depths->table == NULL)
        return SNOW_DEPTH_UNKNOWN;
    print = print_of(depths, key);
    entry = entry_of(depths, print);
    return entry->tag == (uint32_t)print ? entry->depth : SNOW_DEPTH_UNKNOWN;
}
