/* Seeking: from keys to the objects that a reader may have now.
 *
 * Who looks something up by its key does it here: a look-up, a match of a chain.
 * Threads.  The core's own. */
#include "base/cache.h"
#include "core/group.h"

/* A look-up is three cache misses, one after the other: bucket, record, key (and the extent).
 * Those of a group of keys overlap: each stage is done for all of them before the next, and apart
 * from the work between, so that as many loads as can be are under way. */
void core_seek(const struct core *core, const struct wire_key *keys, uint32_t count, uint32_t flags,
               struct sought *group)
{
    uint64_t hashes[CORE_SEEK_KEYS];

    for (uint32_t i = 0; i < count; i++) {
        group[i].cursor.core = core;
        group[i].cursor.key = keys[i].key;
        hashes[i] = hash_key(CORE_TENANT, group[i].cursor.key).low;
    }
    for (uint32_t i = 0; i < count; i++)
        index_touch(core->index, hashes[i]);
    for (uint32_t i = 0; i < count; i++)
        group[i].number = index_first(core->index, hashes[i], &group[i].cursor.at);
    for (uint32_t i = 0; i < count; i++) {
        if (group[i].number == 0)
            continue;
        cache_touch(core_object(core, group[i].number));
        cache_touch(&core_object(core, group[i].number)->guard); /* it may lie in two lines */
    }
    for (uint32_t i = 0; i < count; i++) {
        if (group[i].number == 0)
            continue;
        const struct object *object = core_object(core, group[i].number);

        if (object->key != 0)
            keys_touch(core->keys, object->key);
        if ((flags & WIRE_LOOKUP_PLACES) && !(object->flags & OBJECT_SPREAD) &&
            object->place != SPACE_NONE)
            space_touch(core->segments[object->segment]->space, object->place);
    }
}

uint32_t core_seek_readable(struct core *core, struct sought *sought, uint32_t flags,
                            enum snow_status *status, uint32_t *why)
{
    size_t size = sought->cursor.key.size;
    uint32_t number;

    if (size == 0 || size > LIMIT_KEY_SIZE) {
        *status = SNOW_INVALID;
        core_count(core, CORE_METRIC_bad_requests, 1);
        return 0;
    }
    number = core_object_find_from(&sought->cursor, sought->number, OBJECT_READABLE);
    *status = core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
    if (number == 0 || core_expire_due(core, number))
        return 0;
    if (core_object_access(core, number) != ACCESS_NOW) {
        *why = WIRE_FOUND_SUSPECT;
        core_count(core, CORE_METRIC_keys_suspect, 1);
        return 0; /* only on nodes that are silent: absent until they return */
    }
    if (core_group_hides(core, number)) {
        *status = flags & WIRE_LOOKUP_PLACES ? SNOW_NOT_READY : SNOW_NOT_FOUND;
        return 0;
    }
    if ((core_object(core, number)->flags & OBJECT_REPLACED) && !core_is_ready(core) &&
        (flags & WIRE_LOOKUP_STALE_OK) == 0)
        return 0; /* a newer value may be on a node that is still missing */
    *status = SNOW_OK;
    return number;
}
