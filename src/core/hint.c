/* Hints: what callers know of the future.  A priority, an end, the end of a chain.
 *
 * Problem.  What is used again is a guess from the past; an engine may know better.
 * Idea.     An object that is done goes first, one of a higher priority later than all of lower
 *           ones (lists of their own, victims.c).  One that expires is closed by its timer; before
 *           that came, whoever meets it closes it.
 *           What is said of a member holds for its group: the highest priority, the latest end
 *           once every member has one.
 * Invariants.
 *   E1  Only READABLE objects have an end; it goes with them.  Use does not extend it.
 *   E2  No look-up and no put finds an object after its end.
 * Threads.  The core's own.   State.  Soft: a master that restarts does not know it any more. */
#include "core/group.h"

static struct expiry *find_expiry(const struct core *core, uint32_t number, uint32_t *index)
{
    struct index_cursor cursor;
    uint32_t at = index_first(core->expiries, core_mix(number), &cursor);

    for (; at != 0; at = index_next(&cursor)) {
        struct expiry *expiry = pool_at(&core->expiry_pool, at);

        if (expiry->object == number) {
            *index = at;
            return expiry;
        }
    }
    return NULL;
}

void core_expiry_forget(struct core *core, uint32_t number)
{
    uint32_t index;
    struct expiry *expiry;

    if ((core_object(core, number)->flags & OBJECT_EXPIRES) == 0)
        return;
    if (core_object(core, number)->grouped) { /* its group has the timer */
        object_unflag(core_object(core, number), OBJECT_EXPIRES);
        return;
    }
    expiry = find_expiry(core, number, &index);
    ASSERT(expiry != NULL);
    wheel_cancel(&core->wheel, &expiry->timer);
    index_remove(core->expiries, core_mix(number), index);
    pool_give(&core->expiry_pool, index);
    object_unflag(core_object(core, number), OBJECT_EXPIRES);
}

/* Of a group: every member has an end. */
static bool all_end(const struct core *core, uint32_t number)
{
    if (core_object(core, number)->state != OBJECT_GROUP)
        return true;
    const struct group *group = core_group_at(core, number);

    for (uint32_t i = 0; i < group->capacity; i++) {
        const struct object *member = core_object(core, group->members[i]);

        if (group->members[i] != 0 && member->grouped && (member->flags & OBJECT_EXPIRES) == 0)
            return false;
    }
    return true;
}

/* An object, or a group whole; not one of which a member lasts.  False: it stays. */
static bool close_unit(struct core *core, uint32_t number)
{
    if (!all_end(core, number)) {
        core_expiry_forget(core, number);
        return false;
    }
    if (core_object(core, number)->state == OBJECT_GROUP)
        core_group_close(core, number, CLOSE_EXPIRED);
    else
        core_close(core, number, CLOSE_EXPIRED);
    return true;
}

static void on_end(struct wheel_timer *timer, void *owner)
{
    close_unit(owner, list_entry(timer, struct expiry, timer)->object);
}

bool core_expire_due(struct core *core, uint32_t number)
{
    uint32_t index;

    if (number != 0)
        number = core_unit_of(core, number);
    if (number == 0 || (core_object(core, number)->flags & OBJECT_EXPIRES) == 0 ||
        find_expiry(core, number, &index)->at_ns > core->now_ns)
        return false;
    return close_unit(core, number);
}

static enum snow_status set_end(struct core *core, uint32_t number, uint64_t at_ns)
{
    uint32_t index;
    struct expiry *expiry = NULL;
    enum snow_status status;

    if (core_object(core, number)->flags & OBJECT_EXPIRES)
        expiry = find_expiry(core, number, &index);
    if (expiry == NULL) {
        status = pool_take(&core->expiry_pool, &index);
        if (status != SNOW_OK)
            return status;
        status = index_insert(core->expiries, core_mix(number), index);
        if (status != SNOW_OK) {
            pool_give(&core->expiry_pool, index);
            return status;
        }
        expiry = pool_at(&core->expiry_pool, index);
        expiry->object = number;
        expiry->timer.on_event = on_end;
        object_flag(core_object(core, number), OBJECT_EXPIRES);
    } else if (core_object(core, number)->state == OBJECT_GROUP && at_ns < expiry->at_ns) {
        return SNOW_OK;
    } else {
        wheel_cancel(&core->wheel, &expiry->timer);
    }
    if (FAULT(core->faults, end_ignored))
        at_ns += 10 * NS_PER_S;
    expiry->at_ns = at_ns;
    wheel_arm(&core->wheel, &expiry->timer, at_ns);
    return SNOW_OK;
}

bool core_hint_is_valid(uint32_t flags, uint8_t priority)
{
    return (flags & ~WIRE_HINT_ALL) == 0 && priority <= WIRE_PRIORITY_MAX &&
           ((flags & WIRE_HINT_PRIORITY) != 0 || priority == 0) &&
           (flags & (WIRE_HINT_EXPIRES | WIRE_HINT_LASTS)) != (WIRE_HINT_EXPIRES | WIRE_HINT_LASTS);
}

static uint32_t priority_of(const struct object *object)
{
    return (uint32_t)object->flags >> OBJECT_PRIORITY_SHIFT & WIRE_PRIORITY_MAX;
}

/* The highest of its members. */
static uint32_t highest_priority(const struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);
    uint32_t highest = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        const struct object *member = core_object(core, group->members[i]);

        if (group->members[i] != 0 && member->grouped && priority_of(member) > highest)
            highest = priority_of(member);
    }
    return highest;
}

static void set_priority(struct core *core, uint32_t number, uint32_t unit, uint8_t priority)
{
    struct object *object = core_object(core, number);
    uint32_t before = priority_of(object);
    uint32_t now = priority_of(core_object(core, unit));

    object_unflag(object, OBJECT_PRIORITY);
    object_flag(object, (uint32_t)priority << OBJECT_PRIORITY_SHIFT);
    if (unit == number || (priority <= now && before < now))
        return;
    uint32_t highest = priority > now ? priority : highest_priority(core, unit);

    object_unflag(core_object(core, unit), OBJECT_PRIORITY);
    object_flag(core_object(core, unit), highest << OBJECT_PRIORITY_SHIFT);
}

enum snow_status core_hint_set(struct core *core, uint32_t number, const struct hint *hint)
{
    enum snow_status status = SNOW_OK;
    uint32_t unit = core_unit_of(core, number);

    core_victim_leave(core, unit);
    if (hint->flags & WIRE_HINT_PRIORITY)
        set_priority(core, number, unit, hint->priority);
    if (hint->flags & WIRE_HINT_DONE)
        object_flag(core_object(core, unit), OBJECT_DONE);
    core_victim_return(core, unit);
    if (hint->flags & WIRE_HINT_LASTS)
        core_expiry_forget(core, number);
    if (hint->flags & WIRE_HINT_EXPIRES)
        status = set_end(core, unit, hint->expires_ns);
    if ((hint->flags & WIRE_HINT_EXPIRES) && status == SNOW_OK)
        object_flag(core_object(core, number), OBJECT_EXPIRES);
    return status;
}

struct hint core_hint_take(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct hint hint = {.flags = object->flags & OBJECT_DONE ? WIRE_HINT_DONE : 0,
                        .priority = (uint8_t)priority_of(object)};
    uint32_t index;

    ASSERT(!object->grouped && (object->flags & OBJECT_LISTED) == 0);
    if (hint.priority > 0)
        hint.flags |= WIRE_HINT_PRIORITY;
    if (object->flags & OBJECT_EXPIRES) {
        hint.flags |= WIRE_HINT_EXPIRES;
        hint.expires_ns = find_expiry(core, number, &index)->at_ns;
        core_expiry_forget(core, number);
    }
    object_unflag(object, OBJECT_DONE | OBJECT_PRIORITY);
    return hint;
}

static enum snow_status hint_item(struct core *core, const struct wire_hint_req *message,
                                  struct bytes key)
{
    struct hint hint = {.flags = message->flags,
                        .priority = message->priority,
                        .expires_ns = core->now_ns + message->expires_ms * NS_PER_MS};
    uint32_t number;

    if (key.size == 0 || key.size > LIMIT_KEY_SIZE ||
        !core_hint_is_valid(message->flags, message->priority))
        return SNOW_INVALID;
    number = core_object_find(core, key, hash_key(CORE_TENANT, key).low, OBJECT_READABLE);
    if (number == 0 || core_expire_due(core, number))
        return core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
    if (hint.flags & WIRE_HINT_TOUCH)
        core_victim_touch(core, number, true);
    enum snow_status status = core_hint_set(core, number, &hint);

    core_expire_due(core, number); /* at once, if that is what was asked */
    return status == SNOW_OK ? SNOW_OK : SNOW_BUSY;
}

void core_hint(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_hint_req *message = input->message;
    struct request *request = core_request_open(core, input, session, message->keys_count);

    if (request == NULL)
        return;
    for (uint32_t i = message->keys_count; i-- > 0;) /* deepest first */
        core_answer_status(core, request, i, hint_item(core, message, message->keys[i].key), 0, 0);
}
