#include "core/shadow.h"

#include "base/assert.h"

#include <string.h>

#define CHUNK_BITS 10u
#define EVICTIONS 2u /* of one use: more than one while the capacity falls */

enum snow_status shadow_init(struct shadow *shadow)
{
    memset(shadow, 0, sizeof(*shadow));
    pool_init(&shadow->entries, NULL, sizeof(struct shadow_entry), CHUNK_BITS, INDEX_OBJECT_MAX);
    return index_create(NULL, &shadow->index);
}

void shadow_deinit(struct shadow *shadow)
{
    pool_deinit(&shadow->entries);
    index_destroy(shadow->index);
    shadow->index = NULL;
}

static struct shadow_entry *entry_at(const struct shadow *shadow, uint32_t number)
{
    return pool_at(&shadow->entries, number);
}

static uint64_t hash_of(const struct shadow_entry *entry)
{
    return (uint64_t)entry->hash_high << 32 | entry->hash_low;
}

static uint32_t find(const struct shadow *shadow, uint64_t hash)
{
    struct index_cursor cursor;
    uint32_t number = index_first(shadow->index, hash, &cursor);

    while (number != 0 && hash_of(entry_at(shadow, number)) != hash)
        number = index_next(&cursor);
    return number;
}

static uint32_t class_of(const struct shadow_entry *entry)
{
    return reuse_class(entry->uses, entry->depth);
}

static void push_young(struct shadow *shadow, uint32_t number, uint32_t list)
{
    struct shadow_entry *entry = entry_at(shadow, number);

    entry->list = (uint8_t)list;
    entry->next = 0;
    entry->prev = shadow->lists[list].young;
    if (entry->prev != 0)
        entry_at(shadow, entry->prev)->next = number;
    else
        shadow->lists[list].old = number;
    shadow->lists[list].young = number;
    if (list != SHADOW_GHOSTS)
        shadow->filled |= 1u << list;
}

static void unlink_entry(struct shadow *shadow, uint32_t number)
{
    const struct shadow_entry *entry = entry_at(shadow, number);

    if (entry->prev != 0)
        entry_at(shadow, entry->prev)->next = entry->next;
    else
        shadow->lists[entry->list].old = entry->next;
    if (entry->next != 0)
        entry_at(shadow, entry->next)->prev = entry->prev;
    else
        shadow->lists[entry->list].young = entry->prev;
    if (entry->list != SHADOW_GHOSTS && shadow->lists[entry->list].old == 0)
        shadow->filled &= ~(1u << entry->list);
}

/* The lowest score goes; of equal ones, or for SHADOW_OLDEST, the oldest. */
static uint32_t victim(const struct shadow *shadow, const struct reuse *reuse,
                       enum shadow_rule rule, uint32_t now)
{
    uint32_t best = 0;
    uint32_t best_age = 0;
    float best_score = 0;

    if (rule == SHADOW_KEEP && shadow->lists[SHADOW_NEW].old != 0)
        return shadow->lists[SHADOW_NEW].old;
    for (uint32_t filled = shadow->filled; filled != 0; filled &= filled - 1) {
        uint32_t list = (uint32_t)__builtin_ctz(filled);
        uint32_t tail = shadow->lists[list].old;
        const struct shadow_entry *entry = entry_at(shadow, tail);
        uint32_t age = now - entry->last_touch;
        uint32_t class = list == SHADOW_NEW ? class_of(entry) : list;
        float score = rule == SHADOW_OLDEST ? 0 : reuse_score(reuse, class, age);

        if (best == 0 || score < best_score || (!(score > best_score) && age > best_age)) {
            best = tail;
            best_age = age;
            best_score = score;
        }
    }
    return best;
}

static void drop_ghost(struct shadow *shadow)
{
    uint32_t number = shadow->lists[SHADOW_GHOSTS].old;

    unlink_entry(shadow, number);
    index_remove(shadow->index, hash_of(entry_at(shadow, number)), number);
    pool_give(&shadow->entries, number);
}

static void evict(struct shadow *shadow, uint32_t number)
{
    unlink_entry(shadow, number);
    push_young(shadow, number, SHADOW_GHOSTS);
    shadow->count--;
}

static void make_room(struct shadow *shadow, const struct reuse *reuse, enum shadow_rule rule,
                      uint32_t now)
{
    uint64_t ghosts_max = (uint64_t)SHADOW_GHOSTS_PER_KEY * shadow->capacity;

    for (uint32_t i = 0; i < EVICTIONS; i++) {
        if (shadow->count > 1 && shadow->count > shadow->capacity)
            evict(shadow, victim(shadow, reuse, rule, now));
        if (shadow->entries.used - shadow->count > ghosts_max)
            drop_ghost(shadow);
    }
}

/* A new entry for the unit, without uses; 0: out of memory. */
static uint32_t add_entry(struct shadow *shadow, const struct shadow_use *use)
{
    uint32_t number;

    if (pool_take(&shadow->entries, &number) != SNOW_OK)
        return 0;
    if (index_insert(shadow->index, use->hash, number) != SNOW_OK) {
        pool_give(&shadow->entries, number);
        return 0;
    }
    entry_at(shadow, number)->hash_low = (uint32_t)use->hash;
    entry_at(shadow, number)->hash_high = (uint32_t)(use->hash >> 32);
    return number;
}

static void refresh(struct shadow *shadow, uint32_t number, const struct shadow_use *use)
{
    struct shadow_entry *entry = entry_at(shadow, number);

    entry->depth = use->depth;
    entry->last_touch = use->now;
    if (use->counts && entry->uses < UINT8_MAX)
        entry->uses++;
}

bool shadow_use(struct shadow *shadow, const struct reuse *reuse, enum shadow_rule rule,
                const struct shadow_use *use)
{
    uint32_t number = find(shadow, use->hash);
    uint32_t list = number == 0 ? SHADOW_GHOSTS : entry_at(shadow, number)->list;
    bool full = shadow->count >= shadow->capacity;

    if (list != SHADOW_GHOSTS) {
        unlink_entry(shadow, number);
        refresh(shadow, number, use);
        push_young(shadow, number,
                   list == SHADOW_NEW && !use->counts ? list : class_of(entry_at(shadow, number)));
        return true;
    }
    if (!use->counts || shadow->capacity == 0)
        return false;
    if (number != 0) /* no ghost any more, before others become ones */
        unlink_entry(shadow, number);
    else
        number = add_entry(shadow, use);
    if (number == 0)
        return false;
    shadow->count++;
    make_room(shadow, reuse, rule, use->now);
    refresh(shadow, number, use);
    bool kept = shadow->inserted++ % SHADOW_KEEP_ROUND < SHADOW_KEEP_PART || !full;

    push_young(shadow, number,
               rule == SHADOW_KEEP && !kept ? SHADOW_NEW : class_of(entry_at(shadow, number)));
    return false;
}

uint64_t shadow_memory(const struct shadow *shadow)
{
    return pool_bytes(&shadow->entries) + index_memory(shadow->index);
}

void shadow_check(const struct shadow *shadow)
{
    uint32_t count = 0;
    uint32_t there = 0;

    for (uint32_t list = 0; list <= SHADOW_GHOSTS; list++) {
        uint32_t before = 0;

        for (uint32_t number = shadow->lists[list].old; number != 0;
             number = entry_at(shadow, number)->next) {
            ASSERT(entry_at(shadow, number)->prev == before);
            ASSERT(entry_at(shadow, number)->list == list);
            before = number;
            count++;
            there += list != SHADOW_GHOSTS;
            ASSERT(list >= SHADOW_NEW || list == class_of(entry_at(shadow, number)));
        }
        ASSERT(list == SHADOW_GHOSTS || (shadow->filled >> list & 1) == (before != 0));
        ASSERT(shadow->lists[list].young == before);
    }
    ASSERT(count == shadow->entries.used && count == index_count(shadow->index));
    ASSERT(there == shadow->count);
}
