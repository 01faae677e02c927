/* Groups: objects that are parts of one entity, which live and die together.
 *
 * Problem.  K and V, layers and ranks of a block are put and read by different processes; found,
 *           evicted and lost one by one, ranks see different prefixes.
 * Idea.     A group is one record among the victims, as an object is: policies order it, none of
 *           its members.  Its side record counts members by their state, so that what a group is
 *           (complete, evictable) is known without looking at one.
 * Invariants.
 *   Y1  A READABLE member names its group and its index; members[index] names it.  A WRITING one
 *       is in members unless it is to replace the one there; its struct write names the group.
 *   Y2  COMPLETE: every index has a READABLE member.  CLOSING: it is under no id any more, and its
 *       members are ABSENT for everybody.
 *   Y3  A group is among the victims exactly when it is COMPLETE, DEGRADED or OPEN, nothing of it
 *       is being written or held, and every member of it could be evicted if it were alone.
 *   Y4  No member is evicted but with its group.
 *   Y5  What a hard pin of one member protects, the whole, counts as pinned (OBJECT_HARD_PIN of the
 *       record).
 *
 *            size > 0                                                  size 0
 *   ─core_group_create─► FORMING ─settle─► COMPLETE ⇄ DEGRADED   ─► OPEN ⇄ DEGRADED
 *                           │ on_form_end                │                │
 *                           └──────► CLOSING ◄───core_group_close─────────┘
 *                                       └─core_groups_close_step, leave─► freed
 *   an inventory's ─core_group_learn─► RECOVERING ─core_group_recovered─► COMPLETE, DEGRADED, OPEN
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 4u
#define STEP_MEMBERS LIMIT_STEP_OBJECTS

struct bytes core_group_id(const struct core *core, uint32_t record)
{
    return keys_at(core->keys, core_object(core, record)->key);
}

uint32_t core_group_next(struct group_cursor *cursor)
{
    uint32_t record = cursor->number;

    while (record != 0 && !bytes_equal(core_group_id(cursor->core, record), cursor->id))
        record = index_next(&cursor->at);
    cursor->number = record == 0 ? 0 : index_next(&cursor->at);
    return record;
}

uint32_t core_group_first(const struct core *core, const struct key_hash *id,
                          struct group_cursor *cursor)
{
    cursor->core = core;
    cursor->id = id->key;
    cursor->number = index_first(core->group_ids, id->hash, &cursor->at);
    return core_group_next(cursor);
}

uint32_t core_group_find(const struct core *core, const struct key_hash *id)
{
    struct group_cursor cursor;
    uint32_t at = core_group_first(core, id, &cursor);
    uint32_t best = 0;

    /* Several only while inventories are coming in: the newest. */
    for (; at != 0; at = core_group_next(&cursor)) {
        const struct group *group = core_group_at(core, at);

        if ((group->flags & GROUP_SHADOW) == 0 &&
            (best == 0 || group->ggen > core_group_at(core, best)->ggen))
            best = at;
    }
    return best;
}

/* ---- making and freeing ---- */

uint32_t core_group_create(struct core *core, const struct key_hash *id, uint64_t ggen,
                           uint32_t size, uint32_t flags)
{
    uint32_t record;
    uint32_t place;
    uint32_t key;

    if (pool_take(&core->objects, &record) != SNOW_OK)
        return 0;
    if (pool_take(&core->groups, &place) != SNOW_OK)
        goto give_record;
    if (keys_take(core->keys, id->key, &key) != SNOW_OK)
        goto give_place;
    if (index_insert(core->group_ids, id->hash, record) != SNOW_OK)
        goto give_key;
    struct object *object = core_object(core, record);
    struct group *group = pool_at(&core->groups, place);

    object->state = OBJECT_GROUP;
    object->key = key;
    object->place = place;
    object->gen = ggen;
    object->depth = CORE_DEPTH_UNKNOWN;
    *group = (struct group){.ggen = ggen,
                            .record = record,
                            .version = 1,
                            .size = (uint16_t)size,
                            .state = size == 0 ? WIRE_GROUP_OPEN : WIRE_GROUP_FORMING,
                            .flags = (uint8_t)(flags & WIRE_GROUP_ALL)};
    core->group_count++;
    return record;

give_key:
    keys_give(core->keys, key);
give_place:
    pool_give(&core->groups, place);
give_record:
    pool_give(&core->objects, record);
    return 0;
}

/* CLOSING groups of which members are left to be closed stand in a list. */
static void unlist_closing(struct core *core, struct group *group)
{
    if ((group->flags & GROUP_IN_STEPS) == 0)
        return;
    group->flags &= (uint8_t)~GROUP_IN_STEPS;
    core_record_unlink(core, &core->groups_closing, group->record);
}

static void free_record(struct core *core, struct group *group)
{
    uint32_t record = group->record;
    struct object *object = core_object(core, record);
    uint32_t place = object->place;

    ASSERT(group->present == 0 && group->writing == 0 && group->child == 0);
    ASSERT((object->flags & OBJECT_LISTED) == 0);
    unlist_closing(core, group);
    keys_give(core->keys, object->key);
    core->group_table_bytes -= group->capacity * sizeof(*group->members);
    free(group->members);
    memset(group, 0, sizeof(*group));
    memset(object, 0, sizeof(*object));
    pool_give(&core->groups, place);
    pool_give(&core->objects, record);
    core->group_count--;
}

static void close_member(struct core *core, uint32_t number, enum close_reason reason)
{
    uint8_t state = core_object(core, number)->state;

    if (state == OBJECT_WRITING && FAULT(core->faults, late_end))
        return;
    if (state == OBJECT_RECOVERING)
        core_record_unlink(core, &core->recovering, number);
    if (state == OBJECT_WRITING)
        core_write_fail(core, number);
    else
        core_close(core, number, reason);
}

static void close_step(struct core *core, uint32_t record)
{
    struct group *group = core_group_at(core, record);
    uint32_t closed = 0;

    /* The last member frees the record: until the end of this step it is counted as written. */
    group->writing++;
    for (; group->version < group->capacity && closed < STEP_MEMBERS; group->version++) {
        uint32_t number = group->members[group->version];

        if (number == 0)
            continue;
        close_member(core, number, (enum close_reason)group->counted);
        closed++;
    }
    if (group->version == group->capacity && core_group_part(core, group))
        unlist_closing(core, group); /* what is left is being written, to replace a member */
    core_group_unreserve(core, record, UINT32_MAX, 0);
}

/* Out of the sight of everybody, in O(1): its members go in steps. */
void core_group_close(struct core *core, uint32_t record, enum close_reason reason)
{
    struct group *group = core_group_at(core, record);
    struct key_hash id = core_key_hash(core_group_id(core, record));

    if (group->state == WIRE_GROUP_CLOSING)
        return;
    uint32_t shadow = group->flags & GROUP_SHADOW ? 0 : core_group_shadow(core, &id);

    core_victim_leave(core, record);
    core_expiry_forget(core, record);
    index_remove(core->group_ids, id.hash, record);
    core_group_timer_end(core, group);
    core_group_unbind(core, group);
    if (reason == CLOSE_EVICTED)
        core_count(core, CORE_METRIC_evicted_groups, 1);
    if (group->state == WIRE_GROUP_RECOVERING)
        core_record_unlink(core, &core->groups_recovering, record);
    group->state = WIRE_GROUP_CLOSING;
    group->counted = (uint32_t)reason;
    group->version = 0;
    group->flags |= GROUP_IN_STEPS;
    core_record_link(core, &core->groups_closing, record);
    core_group_holds_end(core, record);
    core_group_waits_look(core, id.key);
    close_step(core, record); /* the record may be gone then, and its id */
    if (shadow != 0 && reason == CLOSE_REMOVED)
        core_group_close(core, shadow, reason);
    else if (shadow != 0)
        core_shadow_show(core, shadow);
}

void core_groups_close_step(struct core *core)
{
    if (core->groups_closing != 0)
        close_step(core, core->groups_closing);
}

/* ---- members ---- */

static enum snow_status make_room(struct core *core, struct group *group, uint32_t index)
{
    uint32_t capacity = group->capacity == 0 ? CAPACITY_MIN : group->capacity;
    uint32_t *grown;

    if (index < group->capacity)
        return SNOW_OK;
    if (group->size > 0 && group->size <= 64)
        capacity = group->size;
    while (capacity <= index)
        capacity *= 2;
    if (group->size > 0 && capacity > group->size)
        capacity = group->size;
    grown = realloc(group->members, capacity * sizeof(*grown));
    if (grown == NULL)
        return SNOW_NO_MEMORY;
    memset(&grown[group->capacity], 0, (capacity - group->capacity) * sizeof(*grown));
    core->group_table_bytes += (capacity - group->capacity) * sizeof(*grown);
    group->members = grown;
    group->capacity = capacity;
    return SNOW_OK;
}

uint32_t core_group_member(const struct group *group, uint32_t index)
{
    return index < group->capacity ? group->members[index] : 0;
}

uint32_t core_group_free_index(const struct group *group)
{
    uint32_t limit = group->size > 0 ? group->size : LIMIT_GROUP_SIZE;
    uint32_t next = (uint32_t)group->present + group->writing;

    /* Where none is missing, that is the first one. */
    if (next < limit && core_group_member(group, next) == 0)
        return next;
    for (uint32_t i = 0; i < limit; i++) {
        if (core_group_member(group, i) == 0)
            return i;
    }
    return WIRE_GROUP_INDEX_ANY;
}

enum snow_status core_group_reserve(struct core *core, uint32_t record, uint32_t index,
                                    uint32_t number)
{
    struct group *group = core_group_at(core, record);
    enum snow_status status = make_room(core, group, index);

    if (status != SNOW_OK)
        return status;
    core_victim_leave(core, record);
    if (group->members[index] == 0)
        group->members[index] = number;
    group->writing++;
    return SNOW_OK;
}

/* Nothing is left of it: the next put of its id begins anew. */
static void end_if_empty(struct core *core, struct group *group)
{
    if (group->present > 0 || group->writing > 0)
        return;
    if (group->state != WIRE_GROUP_CLOSING)
        core_group_close(core, group->record, CLOSE_STRAY);
    else if (group->child == 0) /* else its next step will see to it */
        free_record(core, group);
}

void core_group_unreserve(struct core *core, uint32_t record, uint32_t index, uint32_t number)
{
    struct group *group = core_group_at(core, record);

    if (index < group->capacity && group->members[index] == number)
        group->members[index] = 0;
    ASSERT(group->writing > 0);
    group->writing--;
    if (group->writing == 0 && group->state != WIRE_GROUP_CLOSING)
        core_victim_return(core, record);
    end_if_empty(core, group);
}

static bool has_hole(const struct group *group)
{
    uint32_t top = group->capacity;

    while (top > 0 && group->members[top - 1] == 0)
        top--;
    for (uint32_t i = 0; i < top; i++) {
        if (group->members[i] == 0)
            return true;
    }
    return false;
}

/* What it is with the member that came. */
static void settle(struct core *core, struct group *group)
{
    bool whole = group->size > 0 ? group->present == group->size
                                 : group->state == WIRE_GROUP_DEGRADED && !has_hole(group);

    if (!whole || group->state == WIRE_GROUP_COMPLETE || group->state == WIRE_GROUP_RECOVERING)
        return;
    core_count(core,
               group->state == WIRE_GROUP_FORMING ? CORE_METRIC_groups_completed
                                                  : CORE_METRIC_groups_healed,
               1);
    core_victim_leave(core, group->record);
    if (group->state == WIRE_GROUP_DEGRADED) /* it went first */
        object_unflag(core_object(core, group->record), OBJECT_DONE);
    core_victim_return(core, group->record);
    group->state = group->size > 0 ? WIRE_GROUP_COMPLETE : WIRE_GROUP_OPEN;
    core_group_timer_end(core, group);
    core_group_waits_look(core, core_group_id(core, group->record));
}

void core_group_join(struct core *core, uint32_t number, uint32_t record, uint32_t index)
{
    struct group *group = core_group_at(core, record);
    struct object *object = core_object(core, number);
    struct object *unit = core_object(core, record);

    ASSERT(object->state == OBJECT_READABLE && !object->grouped);
    ASSERT(core_group_member(group, index) == 0 || group->members[index] == number);
    group->members[index] = number;
    object->grouped = 1;
    object->prev = record;
    object->next = index;
    core->group_members++;
    if (object->guard > unit->guard)
        unit->guard = object->guard;
    if (unit->depth == CORE_DEPTH_UNKNOWN)
        unit->depth = object->depth;
    if (group->present++ == 0) {
        unit->segment = object->segment;
        core_group_arrived(core, record);
    }
    core_group_pinned(core, number);
    core_group_progress(core, group);
    settle(core, group);
    if (group->size == 0 && group->present == 1) /* there is nothing more to wait for */
        core_group_waits_look(core, core_group_id(core, record));
}

uint32_t core_group_first_member(const struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);

    ASSERT(group->present > 0);
    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->state == OBJECT_READABLE)
            return number;
    }
    return 0;
}

uint16_t core_group_segment(const struct core *core, uint32_t record)
{
    const struct group *group = record == 0 ? NULL : core_group_at(core, record);

    for (uint32_t i = 0; group != NULL && i < group->capacity; i++) {
        if (group->members[i] != 0)
            return core_object(core, group->members[i])->segment;
    }
    return UINT16_MAX;
}

void core_group_moved(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if (!object->grouped)
        return;
    struct object *unit = core_object(core, object->prev);

    ASSERT((unit->flags & OBJECT_LISTED) == 0);
    unit->segment = core_object(core, core_group_first_member(core, object->prev))->segment;
}

void core_group_leave(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    if (!object->grouped)
        return;
    ASSERT((object->flags & OBJECT_LISTED) == 0);
    struct group *group = core_group_at(core, object->prev);
    bool first = core_object(core, group->record)->segment == object->segment;

    core_group_unpinned(core, number);
    group->members[object->next] = 0;
    group->present--;
    object->grouped = 0;
    object->prev = 0;
    object->next = 0;
    core->group_members--;
    if (group->state == WIRE_GROUP_COMPLETE || group->state == WIRE_GROUP_OPEN) {
        group->state = WIRE_GROUP_DEGRADED;
        core_count(core, CORE_METRIC_groups_degraded, 1);
        if (group->present > 0)
            core_group_timer_degraded(core, group);
    }
    if (group->state != WIRE_GROUP_CLOSING && group->present > 0) {
        core_victim_leave(core, group->record);
        if (first)
            core_object(core, group->record)->segment =
                core_object(core, core_group_first_member(core, group->record))->segment;
        core_victim_return(core, group->record);
    }
    end_if_empty(core, group);
}

/* ---- what victims.c asks ---- */

bool core_group_may_go(const struct core *core, const struct object *unit)
{
    const struct group *group = pool_at(&core->groups, unit->place);

    return (group->state == WIRE_GROUP_COMPLETE || group->state == WIRE_GROUP_DEGRADED ||
            group->state == WIRE_GROUP_OPEN) &&
           group->present > 0 && group->listed == group->present && group->writing == 0 &&
           group->holds == 0;
}

/* ---- learning again ---- */

void core_group_recovered(struct core *core, uint32_t record)
{
    struct group *group = core_group_at(core, record);
    bool whole = group->size > 0 ? group->present == group->size : !has_hole(group);

    ASSERT(group->state == WIRE_GROUP_RECOVERING);
    if (group->size == 0 && whole)
        group->state = WIRE_GROUP_OPEN;
    else
        group->state = whole ? WIRE_GROUP_COMPLETE : WIRE_GROUP_DEGRADED;
    core_victim_enter(core, record);
    if (!whole)
        core_group_timer_degraded(core, group);
    core_group_waits_look(core, core_group_id(core, record));
}

/* ---- check ---- */

void core_group_check(struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);
    const struct object *unit = core_object(core, record);
    uint32_t present = 0;
    uint32_t listed = 0;
    uint32_t writing = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number == 0)
            continue;
        const struct object *member = core_object(core, number);

        if (member->state == OBJECT_WRITING) {
            const struct write *write = core_write_of(core, number);

            ASSERT(write->group == record && write->group_index == i);
            ASSERT(group->state != WIRE_GROUP_FORMING || write->ended ||
                   core_group_is_writer(core, group, write->session));
            writing++;
            continue;
        }
        if (member->state == OBJECT_RECOVERING) {
            writing++;
            continue;
        }
        ASSERT(member->state == OBJECT_READABLE && member->grouped); /* Y1 */
        ASSERT(member->prev == record && member->next == i);
        present++;
        listed += (member->flags & OBJECT_LISTED) != 0;
    }
    ASSERT(group->present == present && group->listed == listed && group->writing >= writing);
    ASSERT(group->state != WIRE_GROUP_COMPLETE || group->present == group->size); /* Y2 */
    ASSERT(group->present > 0 || group->writing > 0 ||
           (group->state == WIRE_GROUP_CLOSING && group->child != 0));
    ASSERT(((unit->flags & OBJECT_LISTED) != 0) == core_group_may_go(core, unit)); /* Y3 */
    core_group_holds_check(core, group);
    if (group->state == WIRE_GROUP_CLOSING)
        return;
    core_shadow_check(core, record);
    bool hard = core_group_is_hard(core, group);

    ASSERT(hard == ((unit->flags & OBJECT_HARD_PIN) != 0)); /* Y5 */
    if (group->state == WIRE_GROUP_FORMING)
        core_group_writers_check(core, group);
}
