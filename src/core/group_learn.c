/* Groups learned from inventories.
 *
 * Problem.  After a restart members turn up one by one, from nodes that return at different times;
 *           what is not there yet is not lost.
 * Idea.     The slot of each member tells its group.  A group of which nobody has put a member
 *           since the restart is RECOVERING: neither told of as broken nor evicted.  When the last
 *           inventory is in, each is what its members say; of two incarnations of an id the newest
 *           whole one stays, else the newest.
 * Invariants.
 *   Z1  RECOVERING groups, and they alone, stand in core->groups_recovering.
 *   Z2  A claim is of a RECOVERING version, whose place among the members it keeps: not all of its
 *       parts are in, or it is a rival (two incarnations of an atomic group have a version of the
 *       key, and it is not known yet which of them is whole).
 * Threads.  The core's own. */
#include "core/group.h"

/* ---- rows ---- */

static struct group_claim *find_claim(const struct core *core, uint32_t number, uint32_t *at)
{
    struct index_cursor cursor;

    *at = index_first(core->group_claims, core_mix(number), &cursor);
    for (; *at != 0; *at = index_next(&cursor)) {
        struct group_claim *claim = pool_at(&core->group_claim_pool, *at);

        if (claim->object == number)
            return claim;
    }
    return NULL;
}

static bool extra_is_valid(const struct core *core, const struct wire_group_extra *extra)
{
    return extra->id.size >= 1 && extra->id.size <= LIMIT_GROUP_ID_SIZE &&
           extra->size <= LIMIT_GROUP_SIZE &&
           extra->index < (extra->size > 0 ? extra->size : LIMIT_GROUP_SIZE) && extra->ggen > 0 &&
           extra->ggen <= WIRE_GEN(core->term, core->next_counter) &&
           (extra->flags & ~WIRE_GROUP_ALL) == 0;
}

/* The group of that incarnation; 0: there is none such, or it says otherwise. */
static uint32_t group_for(struct core *core, const struct wire_group_extra *extra)
{
    struct key_hash id = core_key_hash(extra->id);
    struct group_cursor cursor;
    uint32_t record = core_group_first(core, &id, &cursor);

    for (; record != 0; record = core_group_next(&cursor)) {
        struct group *group = core_group_at(core, record);

        if (group->ggen == extra->ggen)
            return group->size == extra->size ? record : 0;
    }
    record = core_group_create(core, &id, extra->ggen, extra->size,
                               FAULT(core->faults, flags_lost) ? 0 : extra->flags);
    if (record == 0)
        return 0;
    core_group_at(core, record)->state = WIRE_GROUP_RECOVERING;
    if (extra->depth < CORE_DEPTH_UNKNOWN) {
        core_object(core, record)->depth = (uint16_t)extra->depth;
        core_group_arrived(core, record);
    }
    core_record_link(core, &core->groups_recovering, record);
    return record;
}

static void join(struct core *core, uint32_t number, uint32_t record, uint32_t index)
{
    core_victim_leave(core, number);
    core_group_join(core, number, record, index);
    core_group_unreserve(core, record, UINT32_MAX, 0);
    core_victim_return(core, number);
}

/* Its place is kept until the version is whole. */
static bool claim(struct core *core, uint32_t number, uint32_t record, uint32_t index)
{
    uint32_t at;

    if (pool_take(&core->group_claim_pool, &at) != SNOW_OK)
        return false;
    if (index_insert(core->group_claims, core_mix(number), at) != SNOW_OK) {
        pool_give(&core->group_claim_pool, at);
        return false;
    }
    *(struct group_claim *)pool_at(&core->group_claim_pool, at) =
        (struct group_claim){.object = number, .record = record, .index = index};
    return true;
}

void core_group_learn(struct core *core, uint32_t number, struct bytes data)
{
    struct wire_group_extra extra;
    struct reader reader;
    struct object *object = core_object(core, number);
    struct membership membership = {0};
    uint32_t at;

    if (data.size == 0 || object->grouped || find_claim(core, number, &at) != NULL)
        return;
    reader_init(&reader, data, WIRE_VERSION);
    wire_group_extra_decode(&reader, &core->outputs->arena, &extra);
    if (!reader.failed && reader_left(&reader) == 0 && extra_is_valid(core, &extra))
        membership.record = group_for(core, &extra);
    if (membership.record == 0 ||
        core_group_member(core_group_at(core, membership.record), extra.index) != 0 ||
        core_group_reserve(core, membership.record, extra.index, number) != SNOW_OK) {
        core_count(core, CORE_METRIC_inventory_conflicts, 1);
        core_group_dismiss(core, &membership);
        return; /* it goes on as an object without a group */
    }
    core_group_bind(core, membership.record,
                    (struct hash128){.low = extra.parent_low, .high = extra.parent_high});
    if (object->state == OBJECT_READABLE)
        join(core, number, membership.record, extra.index);
    else if (!claim(core, number, membership.record, extra.index))
        core_group_unreserve(core, membership.record, extra.index, number);
}

void core_group_learned(struct core *core, uint32_t number, bool readable)
{
    uint32_t at;
    struct group_claim *found =
        index_count(core->group_claims) == 0 ? NULL : find_claim(core, number, &at);

    if (found == NULL)
        return;
    struct group_claim was = *found;

    index_remove(core->group_claims, core_mix(number), at);
    pool_give(&core->group_claim_pool, at);
    if (readable && core_group_at(core, was.record)->state != WIRE_GROUP_CLOSING)
        join(core, number, was.record, was.index);
    else
        core_group_unreserve(core, was.record, was.index, number);
}

/* ---- the end of recovery ---- */

/* Every member of it is there, or waits to take the place of a rival. */
static bool is_whole(const struct core *core, const struct group *group)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];
        uint16_t slot_flags;

        there += number != 0 && (core_object(core, number)->state == OBJECT_READABLE ||
                                 core_group_is_rival(core, number, &slot_flags));
    }
    return group->size > 0 && there == group->size;
}

/* Whether a wins over b. */
static bool wins(const struct core *core, const struct group *a, const struct group *b)
{
    if (b->state != WIRE_GROUP_RECOVERING)
        return false; /* formed by puts since the restart */
    bool whole = is_whole(core, a);

    return whole != is_whole(core, b) ? whole : a->ggen > b->ggen;
}

bool core_group_keep_rival(struct core *core, uint32_t number, uint32_t other, uint16_t slot_flags)
{
    uint32_t at;
    struct group_claim *claim = find_claim(core, number, &at);
    const struct group *theirs = core_group_of(core, core_object(core, other));

    if (claim == NULL || theirs == NULL || theirs->record == claim->record)
        return false;
    const struct group *ours = core_group_at(core, claim->record);

    if ((ours->flags & theirs->flags & WIRE_GROUP_ATOMIC) == 0 ||
        !bytes_equal(core_group_id(core, ours->record), core_group_id(core, theirs->record)))
        return false;
    claim->rival = true;
    claim->slot_flags = slot_flags;
    return true;
}

bool core_group_is_rival(const struct core *core, uint32_t number, uint16_t *slot_flags)
{
    uint32_t at;
    const struct group_claim *claim = core_object(core, number)->state == OBJECT_RECOVERING
                                          ? find_claim(core, number, &at)
                                          : NULL;

    if (claim == NULL || !claim->rival)
        return false;
    *slot_flags = claim->slot_flags;
    return true;
}

bool core_group_rival_wins(struct core *core, uint32_t number, uint32_t other)
{
    uint32_t at;
    const struct group *ours = core_group_at(core, find_claim(core, number, &at)->record);
    const struct group *theirs = other == 0 ? NULL : core_group_of(core, core_object(core, other));

    if (ours->state == WIRE_GROUP_CLOSING)
        return false;
    if (theirs == NULL || theirs == ours || theirs->state == WIRE_GROUP_CLOSING)
        return true;
    if (wins(core, ours, theirs)) {
        core_group_close(core, theirs->record, CLOSE_STRAY);
        return true;
    }
    core_group_close(core, ours->record, CLOSE_STRAY);
    return false;
}

static void settle(struct core *core, uint32_t record)
{
    struct key_hash id = core_key_hash(core_group_id(core, record));
    struct group_cursor cursor;
    uint32_t other = core_group_first(core, &id, &cursor);

    for (; other != 0; other = core_group_next(&cursor)) {
        if (other == record || wins(core, core_group_at(core, record), core_group_at(core, other)))
            continue;
        core_group_close(core, record, CLOSE_STRAY);
        return;
    }
    core_record_unlink(core, &core->groups_recovering, record);
    core_group_recovered(core, record);
}

void core_groups_recover_step(struct core *core)
{
    for (uint32_t i = 0; i < LIMIT_STEP_OBJECTS && core->groups_recovering != 0; i++)
        settle(core, core->groups_recovering);
}
