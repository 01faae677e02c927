/* Records of objects: keys, the index, and the extents that hold their parts.
 *
 * Problem.  Millions of objects of one extent, few of many; a key may stand for a readable value,
 *           its replacement being written, and older ones being forgotten, all at once.
 * Idea.     One record an object of one version; the index leads to all records of a key.  One
 *           extent costs nothing beside the record; more are a side record.
 * Invariants.
 *   O1  At most one record of a key is READABLE.
 *   O2  The owner of each used extent is the record that lists it among its parts.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>
#include <string.h>

uint32_t core_object_create(struct core *core, struct bytes key, uint64_t hash)
{
    uint32_t number;
    uint32_t reference = 0;

    if (pool_take(&core->objects, &number) != SNOW_OK)
        return 0;
    if (key.size > 0 && keys_take(core->keys, key, &reference) != SNOW_OK) {
        pool_give(&core->objects, number);
        return 0;
    }
    if (index_insert(core->index, hash, number) != SNOW_OK) {
        if (reference != 0)
            keys_give(core->keys, reference);
        pool_give(&core->objects, number);
        return 0;
    }
    struct object *object = core_object(core, number);

    object->key = reference;
    object->depth = CORE_DEPTH_UNKNOWN;
    object->place = SPACE_NONE;
    if (core->policy->tried && trial_samples(&core->trial, hash))
        object_flag(object, OBJECT_SAMPLED);
    return number;
}

uint64_t core_object_hash(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    /* A record without a key is found by its generation. */
    if (object->key == 0)
        return core_mix(object->gen);
    return hash_key(CORE_TENANT, keys_at(core->keys, object->key)).low;
}

void core_object_free(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT((object->flags & OBJECT_LISTED) == 0);
    index_remove(core->index, core_object_hash(core, number), number);
    if (object->key != 0)
        keys_give(core->keys, object->key);
    if (object->flags & OBJECT_SPREAD) {
        struct spread *spread = pool_at(&core->spreads, object->place);

        free(spread->parts);
        pool_give(&core->spreads, object->place);
    }
    uint16_t leases = object->leases;
    uint64_t gen = object->gen;

    memset(object, 0, sizeof(*object));
    if (leases == 0) {
        pool_give(&core->objects, number);
        return;
    }
    /* Its number is not another's, maybe of the same version, while leases still name it. */
    object->leases = leases;
    object->gen = gen;
}

void core_object_unlease(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT(object->leases > 0);
    if (--object->leases > 0)
        return;
    if (object->state != OBJECT_ABSENT) {
        core_victim_return(core, number);
        return;
    }
    memset(object, 0, sizeof(*object));
    pool_give(&core->objects, number);
}

enum snow_status core_object_name(struct core *core, uint32_t number, struct bytes key)
{
    struct object *object = core_object(core, number);
    uint32_t reference;

    ASSERT(object->key == 0);
    enum snow_status status = keys_take(core->keys, key, &reference);

    if (status != SNOW_OK)
        return status;
    status = index_insert(core->index, hash_key(CORE_TENANT, key).low, number);
    if (status != SNOW_OK) {
        keys_give(core->keys, reference);
        return status;
    }
    index_remove(core->index, core_mix(object->gen), number);
    object->key = reference;
    return SNOW_OK;
}

struct bytes core_object_key(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    return object->key == 0 ? bytes_of(NULL, 0) : keys_at(core->keys, object->key);
}

struct key_hash core_copy_key(struct core *core, uint32_t number)
{
    struct bytes key = core_object_key(core, number);
    uint8_t *copy = core_out(core, key.size, 1);

    if (key.size > 0)
        memcpy(copy, key.at, key.size);
    return core_key_hash(bytes_of(copy, key.size));
}

static uint32_t match_from(struct object_cursor *cursor, uint32_t number)
{
    while (number != 0) {
        const struct object *object = core_object(cursor->core, number);

        if (object->key != 0 && bytes_equal(keys_at(cursor->core->keys, object->key), cursor->key))
            return number;
        number = index_next(&cursor->at);
    }
    return 0;
}

uint32_t core_object_first(const struct core *core, struct bytes key, uint64_t hash,
                           struct object_cursor *cursor)
{
    cursor->core = core;
    cursor->key = key;
    return match_from(cursor, index_first(core->index, hash, &cursor->at));
}

uint32_t core_object_next(struct object_cursor *cursor)
{
    return match_from(cursor, index_next(&cursor->at));
}

uint32_t core_object_find(const struct core *core, struct bytes key, uint64_t hash,
                          enum object_state state)
{
    struct object_cursor cursor = {.core = core, .key = key};

    return core_object_find_from(&cursor, index_first(core->index, hash, &cursor.at), state);
}

enum object_state core_object_state(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if (object->grouped && core_group_of(core, object)->state == WIRE_GROUP_CLOSING)
        return OBJECT_CLOSING;
    return object->state;
}

uint32_t core_object_find_from(struct object_cursor *cursor, uint32_t number,
                               enum object_state state)
{
    number = match_from(cursor, number);
    while (number != 0 && core_object_state(cursor->core, number) != state)
        number = core_object_next(cursor);
    return number;
}

uint32_t core_object_find_gen(const struct core *core, const struct key_hash *key, uint64_t gen,
                              uint32_t *readable)
{
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, key->key, key->hash, &cursor);
    uint32_t found[2] = {0, 0}; /* CLOSING, and not */
    uint32_t value = 0;

    for (; number != 0; number = core_object_next(&cursor)) {
        const struct object *object = core_object(core, number);

        if (object->gen == gen)
            found[object->state != OBJECT_CLOSING] = number;
        if (object->state == OBJECT_READABLE)
            value = number;
    }
    if (readable != NULL)
        *readable = value;
    return found[1] != 0 ? found[1] : found[0];
}

void core_record_link(struct core *core, uint32_t *first, uint32_t number)
{
    struct object *object = core_object(core, number);

    object->prev = 0;
    object->next = *first;
    if (*first != 0)
        core_object(core, *first)->prev = number;
    *first = number;
}

void core_record_unlink(struct core *core, uint32_t *first, uint32_t number)
{
    struct object *object = core_object(core, number);

    if (object->prev != 0)
        core_object(core, object->prev)->next = object->next;
    else
        *first = object->next;
    if (object->next != 0)
        core_object(core, object->next)->prev = object->prev;
    object->prev = 0;
    object->next = 0;
}

/* ---- parts ---- */

uint32_t core_part_count(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if (object->flags & OBJECT_SPREAD)
        return ((const struct spread *)pool_at(&core->spreads, object->place))->count;
    return object->place == SPACE_NONE ? 0 : 1;
}

struct part core_part_at(const struct core *core, uint32_t number, uint32_t index)
{
    const struct object *object = core_object(core, number);

    ASSERT(index < core_part_count(core, number));
    if (object->flags & OBJECT_SPREAD) {
        struct part part =
            ((const struct spread *)pool_at(&core->spreads, object->place))->parts[index];

        if (part.gen == 0)
            part.gen = object->gen;
        return part;
    }
    return (struct part){.segment = object->segment,
                         .gen = object->gen,
                         .present = true,
                         .parts = 1,
                         .slot = object->place,
                         .length = object->size};
}

static bool is_plain(const struct object *object, const struct part *parts, uint32_t count)
{
    return count == 1 && parts[0].parts == 1 && parts[0].replica == 0 && parts[0].present &&
           parts[0].length == object->size && (parts[0].gen == 0 || parts[0].gen == object->gen);
}

static void clear_parts(struct core *core, struct object *object)
{
    if (object->flags & OBJECT_SPREAD) {
        struct spread *spread = pool_at(&core->spreads, object->place);

        free(spread->parts);
        pool_give(&core->spreads, object->place);
        object_unflag(object, OBJECT_SPREAD);
    }
    object->place = SPACE_NONE;
}

enum snow_status core_parts_set(struct core *core, uint32_t number, const struct part *parts,
                                uint32_t count)
{
    struct object *object = core_object(core, number);

    if (count == 0) {
        clear_parts(core, object);
        return SNOW_OK;
    }
    if (is_plain(object, parts, count)) {
        struct part only = parts[0];

        clear_parts(core, object);
        object->place = only.slot;
        object->segment = only.segment;
        return SNOW_OK;
    }
    struct part *copy = malloc(count * sizeof(*copy));
    uint32_t index;

    if (copy == NULL)
        return SNOW_NO_MEMORY;
    memcpy(copy, parts, count * sizeof(*copy));
    if (pool_take(&core->spreads, &index) != SNOW_OK) {
        free(copy);
        return SNOW_NO_MEMORY;
    }
    clear_parts(core, object);
    struct spread *spread = pool_at(&core->spreads, index);

    spread->parts = copy;
    spread->count = count;
    object->place = index;
    object_flag(object, OBJECT_SPREAD);
    for (uint32_t i = 0; i < count; i++) {
        if (copy[i].present) {
            object->segment = copy[i].segment;
            break;
        }
    }
    return SNOW_OK;
}

/* True when `after` may follow `before` in one replica: numbers apart, or bytes that meet. */
static bool tiles(const struct part *before, const struct part *after)
{
    return before->part + 1 != after->part ||
           before->object_offset + before->length == after->object_offset;
}

enum snow_status core_part_add(struct core *core, uint32_t number, const struct part *part)
{
    struct part all[LIMIT_EXTENTS];
    uint32_t known = core_part_count(core, number);
    uint64_t size = core_object(core, number)->size;
    uint32_t count = 0;
    uint32_t at = 0;

    if ((part->part == 0 && part->object_offset != 0) ||
        (part->part + 1 == part->parts && part->object_offset + part->length != size))
        return SNOW_INVALID;
    for (uint32_t i = 0; i < known; i++) {
        struct part other = core_part_at(core, number, i);
        bool same = other.replica == part->replica;

        if (!other.present)
            continue; /* lost: it makes room for its like */
        if (same && (other.part == part->part || other.parts != part->parts ||
                     !(other.part < part->part ? tiles(&other, part) : tiles(part, &other))))
            return SNOW_INVALID;
        all[count++] = other;
        if (other.replica < part->replica || (same && other.part < part->part))
            at = count;
    }
    if (count == LIMIT_EXTENTS)
        return SNOW_INVALID;
    memmove(&all[at + 1], &all[at], (count - at) * sizeof(all[0]));
    all[at] = *part;
    return core_parts_set(core, number, all, count + 1);
}

void core_part_clear(struct core *core, uint32_t number, uint32_t index)
{
    struct object *object = core_object(core, number);

    if (object->flags & OBJECT_SPREAD) {
        struct spread *spread = pool_at(&core->spreads, object->place);

        spread->parts[index].present = false;
        return;
    }
    object->place = SPACE_NONE;
}

bool core_part_find(const struct core *core, uint32_t number, uint32_t segment, uint32_t slot,
                    uint32_t *index)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && part.segment == segment && part.slot == slot) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* ---- where its bytes can be read ---- */

static enum access segment_access(const struct core *core, uint16_t index)
{
    const struct segment *segment = core->segments[index];

    if (segment->space == NULL)
        return ACCESS_NONE;
    switch (core->nodes[segment->node]->state) {
    case NODE_ALIVE:
    case NODE_RECOVERING:
        return ACCESS_NOW;
    case NODE_SUSPECT:
        return ACCESS_SUSPECT;
    default:
        return ACCESS_NONE;
    }
}

void core_replica_accesses(const struct core *core, uint32_t number,
                           enum access accesses[LIMIT_REPLICAS])
{
    uint32_t count = core_part_count(core, number);
    uint32_t missing[LIMIT_REPLICAS] = {0}; /* parts; those that are never met: all of one */

    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++)
        accesses[replica] = ACCESS_NONE;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        enum access access = part.present ? segment_access(core, part.segment) : ACCESS_NONE;

        if (missing[part.replica] == 0) {
            missing[part.replica] = part.parts + 1u;
            accesses[part.replica] = ACCESS_NOW;
        }
        missing[part.replica]--;
        if (access < accesses[part.replica])
            accesses[part.replica] = access;
    }
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++) {
        if (missing[replica] > 1)
            accesses[replica] = ACCESS_NONE;
    }
}

enum access core_object_access(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);
    enum access accesses[LIMIT_REPLICAS];
    enum access best = ACCESS_NONE;

    if ((object->flags & OBJECT_SPREAD) == 0)
        return object->place == SPACE_NONE ? ACCESS_NONE : segment_access(core, object->segment);
    core_replica_accesses(core, number, accesses);
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++)
        best = accesses[replica] > best ? accesses[replica] : best;
    return best;
}

uint32_t core_replica_count(const struct core *core, uint32_t number)
{
    enum access accesses[LIMIT_REPLICAS];
    uint32_t whole = 0;

    core_replica_accesses(core, number, accesses);
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++)
        whole += accesses[replica] != ACCESS_NONE;
    return whole;
}

uint64_t core_object_bytes(const struct core *core, uint32_t number)
{
    uint32_t count = core_part_count(core, number);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        bytes += part.present ? core_part_bytes(&part) : 0;
    }
    return bytes;
}

void core_parts_drop(struct core *core, uint32_t number)
{
    clear_parts(core, core_object(core, number));
}

enum snow_status core_parts_split(struct core *core, uint32_t number, uint16_t mask)
{
    struct part kept[LIMIT_EXTENTS];
    struct part gone[LIMIT_EXTENTS];
    uint32_t count = core_part_count(core, number);
    uint32_t kept_count = 0;
    uint32_t gone_count = 0;
    /* Under the same key: a remove waits for these copies too. */
    uint32_t other =
        core_object_create(core, core_object_key(core, number), core_object_hash(core, number));

    if (other == 0)
        return SNOW_NO_MEMORY;
    core_object(core, other)->gen = core_object(core, number)->gen;
    core_object(core, other)->size = core_object(core, number)->size;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (mask >> part.replica & 1)
            kept[kept_count++] = part;
        else
            gone[gone_count++] = part;
    }
    if (core_parts_set(core, other, gone, gone_count) != SNOW_OK ||
        core_parts_set(core, number, kept, kept_count) != SNOW_OK) {
        core_parts_drop(core, other);
        core_object_free(core, other);
        return SNOW_NO_MEMORY;
    }
    for (uint32_t i = 0; i < gone_count; i++) {
        if (gone[i].present)
            space_set_owner(core->segments[gone[i].segment]->space, gone[i].slot, other);
    }
    core_close(core, other, CLOSE_STRAY);
    return SNOW_OK;
}
