/* Replacing an atomic group: another version of it forms beside the one that is there, unseen.
 *
 * Problem.  Members of an atomic group are not replaced one by one; removing the group to put it
 *           anew leaves readers without one, and loses it where the new one is never whole.
 * Idea.     Puts that replace members of a whole (or DEGRADED) atomic group form a shadow: a group
 *           of the same id with a ggen of its own, which no look-up finds.  A member of it that was
 *           ended stays WRITING, under nobody's deadline but the group's.  With the last one all
 *           are published in one step, and the old version is closed.  A shadow that is given up
 *           goes like any group that is being formed, and the old version stays.
 * Invariants.
 *   T1  A shadow is FORMING.  An id has one at most, beside a group that is no shadow.
 *   T2  Ended writes are members of shadows; timer->ended counts them.
 *   T3  When the group that is there goes otherwise than by removal, its shadow is an ordinary
 *       group from then on; by removal, it goes too.
 *
 *   WRITING ─core_shadow_written─► WRITING, ended ─core_shadow_settle (all)─► READABLE
 *                                     └─core_write_fail─► CLOSING
 * Threads.  The core's own. */
#include "core/group.h"

uint32_t core_group_shadow(const struct core *core, const struct key_hash *id)
{
    struct group_cursor cursor;
    uint32_t record = core_group_first(core, id, &cursor);

    while (record != 0 && (core_group_at(core, record)->flags & GROUP_SHADOW) == 0)
        record = core_group_next(&cursor);
    return record;
}

static struct group_timer *timer_of(const struct core *core, uint32_t record)
{
    return pool_at(&core->group_timers, core_group_at(core, record)->timer);
}

bool core_write_is_shadow(const struct core *core, const struct write *write)
{
    return write->group != 0 && (core_group_at(core, write->group)->flags & GROUP_SHADOW) != 0;
}

bool core_put_is_shadow(const struct core *core, const struct wire_put_item *item,
                        const struct wire_put_group *said, uint32_t there)
{
    const struct group *group = there == 0 ? NULL : core_group_at(core, there);

    return group != NULL && (item->flags & WIRE_PUT_REPLACE) != 0 &&
           (said->flags & group->flags & WIRE_GROUP_ATOMIC) != 0 &&
           (group->state == WIRE_GROUP_COMPLETE || group->state == WIRE_GROUP_DEGRADED);
}

/* A version that was written can be read now; what was there under its key goes. */
static void show_member(struct core *core, uint32_t record, uint32_t index)
{
    uint32_t number = core_group_member(core_group_at(core, record), index);

    if (number == 0 || core_object(core, number)->state != OBJECT_WRITING ||
        !core_write_of(core, number)->ended)
        return;
    struct write write = *core_write_of(core, number);
    struct key_hash key = core_copy_key(core, number);
    struct list waiters;
    uint32_t old;

    core_write_detach(core, number, &waiters);
    ASSERT(list_is_empty(&waiters)); /* they were answered when it was ended */
    core_object_find_gen(core, &key, 0, &old);
    if (old != 0)
        core_close(core, old, CLOSE_REPLACED);
    core_apply_publish(core, number);
    core_group_join(core, number, record, index);
    core_group_bind(core, record, write.group_parent);
    core_group_unreserve(core, record, UINT32_MAX, 0);
    core_write_finish(core, number, &write);
}

static void show_members(struct core *core, uint32_t record)
{
    core_group_at(core, record)->writing++; /* it does not end while members change places */
    for (uint32_t i = 0; i < core_group_at(core, record)->capacity; i++)
        show_member(core, record, i);
    core_group_unreserve(core, record, UINT32_MAX, 0);
}

void core_shadow_show(struct core *core, uint32_t record)
{
    core_group_at(core, record)->flags &= (uint8_t)~GROUP_SHADOW;
    show_members(core, record);
}

/* All of it is written: it takes the place of the other. */
static void take_over(struct core *core, uint32_t record)
{
    struct key_hash id = core_key_hash(core_group_id(core, record));
    uint32_t there = core_group_find(core, &id);

    ASSERT(there != 0);
    core_group_holds_move(core, there, record);
    core_group_at(core, record)->version = core_group_at(core, there)->version + 1;
    core_group_at(core, record)->flags &= (uint8_t)~GROUP_SHADOW;
    core_count(core, CORE_METRIC_groups_replaced, 1);
    core_group_close(core, there, CLOSE_REPLACED);
    show_members(core, record);
    ASSERT(core_group_at(core, record)->state == WIRE_GROUP_COMPLETE);
}

void core_shadow_written(struct core *core, uint32_t number)
{
    uint32_t record = core_write_of(core, number)->group;

    timer_of(core, record)->ended++;
    core_group_progress(core, core_group_at(core, record));
}

void core_shadow_settle(struct core *core, uint32_t record)
{
    if (timer_of(core, record)->ended == core_group_at(core, record)->size)
        take_over(core, record);
}

void core_shadow_lost(struct core *core, uint32_t record)
{
    if (core_group_at(core, record)->timer != 0)
        timer_of(core, record)->ended--;
}

void core_shadow_check(const struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);
    uint32_t ended = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        ended += number != 0 && core_object(core, number)->state == OBJECT_WRITING &&
                 core_write_of(core, number)->ended;
    }
    if ((group->flags & GROUP_SHADOW) == 0) {
        ASSERT(ended == 0 || group->state == WIRE_GROUP_CLOSING); /* T2 */
        return;
    }
    if (group->state == WIRE_GROUP_CLOSING)
        return;
    struct key_hash id = core_key_hash(core_group_id(core, record));

    ASSERT(group->state == WIRE_GROUP_FORMING && group->present == 0); /* T1 */
    ASSERT(core_group_shadow(core, &id) == record && core_group_find(core, &id) != 0);
    ASSERT(timer_of(core, record)->ended == ended && ended < group->size);
}
