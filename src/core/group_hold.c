/* Group holds: promises that one version of a group stays, shared by those who read it.
 *
 * Problem.  Ranks read one group at different times and from different processes; it must not be
 *           evicted between the first of them and the last, nor change under them.
 * Idea.     A hold has a number that any session can be told.  Whoever uses it leaves a mark; it
 *           ends with its last mark, or at its deadline, which each mark may move.  While a group
 *           has one it is no victim.  A hold names the version: where a member was replaced since,
 *           it answers CHANGED.
 * Invariants.
 *   H1  group->holds = holds of it.  CLOSING groups have none, and get none.
 *   H2  A hold has a mark; a session has one mark of it at most.
 *   H3  Bytes of a marked group count among the leased ones of the session.
 * Threads.  The core's own.   State.  Soft. */
#include "core/group.h"

#include <stdlib.h>

#define HOLD_MS_MAX 30000u

struct group_mark {
    struct list_link of_hold;
    struct list_link of_session;
    struct group_hold *hold;
    uint32_t session;
    uint64_t bytes;
};

static struct group_hold *find_hold(const struct core *core, uint64_t id)
{
    struct index_cursor cursor;
    uint32_t number = id == 0 ? 0 : index_first(core->group_holds, core_mix(id), &cursor);

    for (; number != 0; number = index_next(&cursor)) {
        struct group_hold *hold = pool_at(&core->group_hold_pool, number);

        if (hold->id == id)
            return hold;
    }
    return NULL;
}

/* One of those that hold this group. */
static struct group_hold *hold_of(const struct core *core, uint32_t record)
{
    struct index_cursor cursor;
    uint32_t number = index_first(core->holds_of_groups, core_mix(record), &cursor);

    for (; number != 0; number = index_next(&cursor)) {
        struct group_hold *hold = pool_at(&core->group_hold_pool, number);

        if (hold->record == record)
            return hold;
    }
    ASSERT(false);
    return NULL;
}

static void unmark(struct core *core, struct group_mark *mark)
{
    struct session *session = core->sessions[mark->session];

    list_remove(&mark->of_hold);
    list_remove(&mark->of_session);
    session->group_mark_count--;
    session->leased_bytes -= mark->bytes;
    core->leased_bytes -= mark->bytes;
    free(mark);
}

static void end_hold(struct core *core, struct group_hold *hold)
{
    struct group *group = core_group_at(core, hold->record);
    uint32_t number = hold->number;
    struct list_link *link;

    while ((link = list_first(&hold->marks)) != NULL)
        unmark(core, list_entry(link, struct group_mark, of_hold));
    wheel_cancel(&core->wheel, &hold->timer);
    index_remove(core->group_holds, core_mix(hold->id), number);
    index_remove(core->holds_of_groups, core_mix(hold->record), number);
    pool_give(&core->group_hold_pool, number);
    group->holds--;
    core_victim_return(core, group->record);
    core->room_changed = true;
}

static void on_hold_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;

    core_count(core, CORE_METRIC_group_holds_expired, 1);
    end_hold(core, list_entry(timer, struct group_hold, timer));
}

void core_group_holds_end(struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);

    while (group->holds > 0)
        end_hold(core, hold_of(core, record));
}

void core_group_holds_move(struct core *core, uint32_t from, uint32_t to)
{
    struct group *group = core_group_at(core, from);

    while (group->holds > 0) {
        struct group_hold *hold = hold_of(core, from);

        if (index_insert(core->holds_of_groups, core_mix(to), hold->number) != SNOW_OK) {
            end_hold(core, hold);
            continue;
        }
        index_remove(core->holds_of_groups, core_mix(from), hold->number);
        hold->record = to;
        group->holds--;
        core_group_at(core, to)->holds++;
    }
}

void core_group_marks_end(struct core *core, uint32_t session)
{
    struct list_link *link;

    while ((link = list_first(&core->sessions[session]->group_marks)) != NULL) {
        struct group_mark *mark = list_entry(link, struct group_mark, of_session);
        struct group_hold *hold = mark->hold;

        unmark(core, mark);
        if (list_is_empty(&hold->marks))
            end_hold(core, hold);
    }
}

static struct group_mark *find_mark(const struct group_hold *hold, uint32_t session)
{
    list_each (&hold->marks, link, next) {
        struct group_mark *mark = list_entry(link, struct group_mark, of_hold);

        if (mark->session == session)
            return mark;
    }
    return NULL;
}

/* LIMIT: above the session's share, or too many. */
static enum snow_status set_mark(struct core *core, struct group_hold *hold, uint32_t session_index)
{
    struct session *session = core->sessions[session_index];
    uint64_t bytes = core_group_bytes(core, hold->record);
    struct group_mark *mark;

    if (find_mark(hold, session_index) != NULL)
        return SNOW_OK;
    if (session->leased_bytes + bytes > core->pool_bytes / LIMIT_LEASE_SHARE ||
        session->group_mark_count >= LIMIT_HOLDS_PER_SESSION) {
        core_count(core, CORE_METRIC_leases_refused, 1);
        return SNOW_LIMIT;
    }
    mark = calloc(1, sizeof(*mark));
    if (mark == NULL)
        return SNOW_BUSY;
    mark->hold = hold;
    mark->session = session_index;
    mark->bytes = bytes;
    list_push(&hold->marks, &mark->of_hold);
    list_push(&session->group_marks, &mark->of_session);
    session->group_mark_count++;
    session->leased_bytes += bytes;
    core->leased_bytes += bytes;
    return SNOW_OK;
}

static void arm(struct core *core, struct group_hold *hold, uint32_t for_ms)
{
    uint64_t until_ns = core->now_ns + (for_ms < HOLD_MS_MAX ? for_ms : HOLD_MS_MAX) * NS_PER_MS;

    if (wheel_is_armed(&hold->timer) && hold->timer.at_ns >= until_ns)
        return; /* another needs it longer */
    wheel_cancel(&core->wheel, &hold->timer);
    wheel_arm(&core->wheel, &hold->timer, until_ns);
}

static enum snow_status new_hold(struct core *core, uint32_t record, uint32_t session,
                                 struct group_hold **made)
{
    struct group *group = core_group_at(core, record);
    struct group_hold *hold;
    uint32_t number;
    enum snow_status status;

    if (group->state == WIRE_GROUP_FORMING)
        return SNOW_NOT_READY;
    if (group->state == WIRE_GROUP_RECOVERING)
        return SNOW_UNKNOWN;
    if (group->holds == UINT16_MAX || pool_take(&core->group_hold_pool, &number) != SNOW_OK)
        return SNOW_BUSY;
    hold = pool_at(&core->group_hold_pool, number);
    *hold = (struct group_hold){.id = rng_next(&core->rng) | 1,
                                .record = record,
                                .version = group->version,
                                .number = number,
                                .timer.on_event = on_hold_end};
    list_init(&hold->marks);
    status = SNOW_BUSY;
    if (index_insert(core->group_holds, core_mix(hold->id), number) != SNOW_OK)
        goto give_hold;
    if (index_insert(core->holds_of_groups, core_mix(record), number) != SNOW_OK)
        goto forget_id;
    status = set_mark(core, hold, session);
    if (status != SNOW_OK)
        goto forget_record;
    core_victim_leave(core, record);
    group->holds++;
    core_count(core, CORE_METRIC_group_holds_given, 1);
    *made = hold;
    return SNOW_OK;

forget_record:
    index_remove(core->holds_of_groups, core_mix(record), number);
forget_id:
    index_remove(core->group_holds, core_mix(hold->id), number);
give_hold:
    pool_give(&core->group_hold_pool, number);
    return status;
}

enum snow_status core_group_hold_check(struct core *core, uint64_t id, uint32_t record)
{
    const struct group_hold *hold = find_hold(core, id);

    if (hold == NULL || hold->record != record)
        return SNOW_GONE;
    return hold->version == core_group_at(core, record)->version ? SNOW_OK : SNOW_CHANGED;
}

static enum snow_status join_hold(struct core *core, uint64_t id, uint32_t session,
                                  struct group_hold **found)
{
    struct group_hold *hold = find_hold(core, id);
    enum snow_status status;

    if (hold == NULL)
        return FAULT(core->faults, hold_granted) ? SNOW_OK : SNOW_GONE;
    status = core_group_hold_check(core, id, hold->record);
    if (status == SNOW_OK)
        status = set_mark(core, hold, session);
    *found = hold;
    return status;
}

static enum snow_status leave_hold(struct core *core, uint64_t id, uint32_t session)
{
    struct group_hold *hold = find_hold(core, id);
    struct group_mark *mark = hold == NULL ? NULL : find_mark(hold, session);

    if (hold == NULL)
        return SNOW_GONE;
    if (mark != NULL)
        unmark(core, mark);
    if (list_is_empty(&hold->marks) || FAULT(core->faults, hold_stolen))
        end_hold(core, hold);
    return SNOW_OK;
}

static enum snow_status take(struct core *core, const struct wire_group_hold_req *message,
                             uint32_t session, struct group_hold **hold)
{
    struct key_hash id = core_key_hash(message->id);
    uint32_t record;

    switch (message->what) {
    case WIRE_GROUP_HOLD_NEW:
        if (message->for_ms == 0 || message->id.size < 1 || message->id.size > LIMIT_GROUP_ID_SIZE)
            return SNOW_INVALID;
        record = core_group_find(core, &id);
        if (record == 0)
            return core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
        return new_hold(core, record, session, hold);
    case WIRE_GROUP_HOLD_JOIN:
        return message->for_ms == 0 ? SNOW_INVALID : join_hold(core, message->hold, session, hold);
    case WIRE_GROUP_HOLD_LEAVE:
        return leave_hold(core, message->hold, session);
    default:
        return SNOW_INVALID;
    }
}

void core_group_hold(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_group_hold_req *message = input->message;
    struct wire_group_hold_rep *reply = core_out(core, 1, sizeof(*reply));
    struct group_hold *hold = NULL;
    enum snow_status status = take(core, message, session, &hold);

    reply->status = (int32_t)status;
    reply->hold = message->hold;
    core_count(core, CORE_METRIC_bad_requests, status == SNOW_INVALID);
    if (status == SNOW_OK && hold != NULL) {
        arm(core, hold, message->for_ms);
        reply->hold = hold->id;
        reply->ggen = core_group_at(core, hold->record)->ggen;
        reply->version = hold->version;
        reply->left_ms = (uint32_t)((hold->timer.at_ns - core->now_ns) / NS_PER_MS);
    }
    core_reply(core, input->token, WIRE_group_hold, reply);
}

void core_group_holds_check(const struct core *core, const struct group *group)
{
    struct index_cursor cursor;
    uint32_t number = index_first(core->holds_of_groups, core_mix(group->record), &cursor);
    uint32_t count = 0;

    for (; number != 0; number = index_next(&cursor)) {
        const struct group_hold *hold = pool_at(&core->group_hold_pool, number);

        if (hold->record != group->record)
            continue;
        ASSERT(find_hold(core, hold->id) == hold && wheel_is_armed(&hold->timer));
        ASSERT(!list_is_empty(&hold->marks)); /* H2 */
        count++;
    }
    ASSERT(count == group->holds); /* H1 */
    ASSERT(count == 0 || group->state != WIRE_GROUP_CLOSING);
}

uint64_t core_group_marks_check(const struct core *core, const struct session *session)
{
    uint64_t bytes = 0;
    uint32_t count = 0;

    list_each (&session->group_marks, link, next) {
        const struct group_mark *mark = list_entry(link, struct group_mark, of_session);
        const struct group *group = core_group_at(core, mark->hold->record);

        ASSERT(core->sessions[mark->session] == session);
        ASSERT(find_mark(mark->hold, mark->session) == mark);
        ASSERT(group->holds > 0 && group->state != WIRE_GROUP_CLOSING);
        bytes += mark->bytes;
        count++;
    }
    ASSERT(session->group_mark_count == count);
    return bytes;
}
