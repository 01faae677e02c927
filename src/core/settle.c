/* What else there is of a key that is to be put: its value, and writes of it that are open.
 *
 * Problem.  Many writers of one key: one of them writes, the others learn what became of it, and
 *           each may repeat itself.
 * Idea.     All records of the key are looked at.  A value that readers may have answers EXISTS; a
 *           write that is open is waited for; one of the same session and operation is granted
 *           again.  Replaces are written beside all of them, but for members of one group that is
 *           being formed, where a key is written once.
 * Threads.  The core's own. */
#include "core/group.h"

static void wait_for_writer(struct core *core, struct request *request, uint32_t index,
                            uint32_t other)
{
    const struct wire_put_start_req *put = request->message;
    struct waiter *waiter = NULL;

    if (put->wait_writer && request->wait_ns > 0)
        waiter = core_waiter_create(core, request, index);
    if (waiter == NULL) {
        struct wire_put_grant *grant = core_answer_grant(core, request, index, SNOW_IN_PROGRESS);

        grant->gen = core_object(core, other)->gen;
        grant->hint_ms = 10;
        return;
    }
    list_push(&core_write_of(core, other)->waiters, &waiter->link);
    core_count(core, CORE_METRIC_puts_waited_writer, 1);
}

/* The write is of the same group, or shadow, that is being formed, as the item is to be: a key is
 * written once there. */
static bool shares_forming(const struct core *core, const struct wire_put_start_req *put,
                           uint32_t index, const struct write *write)
{
    const struct wire_put_member *member =
        put->members_count == 0 ? NULL : core_member_of(put, index);

    return member != NULL && write->group != 0 &&
           core_group_at(core, write->group)->state == WIRE_GROUP_FORMING &&
           bytes_equal(core_group_id(core, write->group), put->groups[member->group].id);
}

/* It is there, or will be with its group. */
static void answer_exists(struct core *core, struct request *request, uint32_t index,
                          uint32_t number)
{
    struct wire_put_grant *grant = core_answer_grant(core, request, index, SNOW_EXISTS);

    grant->gen = core_object(core, number)->gen;
    core_count(core, CORE_METRIC_puts_existed, 1);
    if (core_object(core, number)->state != OBJECT_READABLE ||
        core_group_adopt(core, request, index, number))
        return;
    grant->flags = WIRE_EXISTS_ELSEWHERE;
    grant->reason = bytes_of_string("it is there, but not in that group");
    core_count(core, CORE_METRIC_group_conflicts, 1);
}

/* The value is a member of an atomic group that is not whole, and the item is not of that group:
 * answered (true), or it is to be put anew, as that member (false). */
static bool settle_with_hidden(struct core *core, struct request *request, uint32_t index,
                               uint32_t number)
{
    const struct group *group = core_group_of(core, core_object(core, number));
    const struct wire_put_start_req *put = request->message;
    struct wire_put_grant *grant;

    if (put->members_count > 0 && core_member_of(put, index) != NULL) {
        answer_exists(core, request, index, number);
        return true;
    }
    if (group->state == WIRE_GROUP_DEGRADED)
        return false;
    grant = core_answer_grant(core, request, index,
                              group->state == WIRE_GROUP_FORMING ? SNOW_IN_PROGRESS : SNOW_UNKNOWN);
    grant->gen = core_object(core, number)->gen;
    grant->hint_ms = 50;
    return true;
}

bool core_put_settle(struct core *core, struct request *request, uint32_t index,
                     const struct key_hash *key, uint32_t *old)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, key->key, key->hash, &cursor);
    uint32_t readable = 0;
    uint32_t writing = 0;
    uint32_t forming = 0;

    *old = 0;
    for (; number != 0; number = core_object_next(&cursor)) {
        const struct object *object = core_object(core, number);

        if (core_object_state(core, number) == OBJECT_READABLE) {
            *old = number;
            if (core_object_access(core, number) == ACCESS_NOW)
                readable = number;
        } else if (object->state == OBJECT_WRITING) {
            const struct write *write = core_write_of(core, number);

            if (write->group != 0 && core_group_at(core, write->group)->state == WIRE_GROUP_CLOSING)
                continue; /* it can not be ended any more */
            if (write->session == request->session && write->operation == put->operation &&
                write->item == put->position + index && object->size == item->size) {
                core_answer_write(core, request, index, key, number); /* asked again */
                return true;
            }
            if (!core_write_is_shadow(core, write))
                writing = number;
            if ((item->flags & WIRE_PUT_REPLACE) && shares_forming(core, put, index, write))
                forming = number;
        }
    }
    if (forming != 0 && core_write_of(core, forming)->ended) {
        answer_exists(core, request, index, forming);
        return true;
    }
    if (item->flags & WIRE_PUT_REPLACE) {
        if (forming != 0)
            wait_for_writer(core, request, index, forming);
        return forming != 0;
    }
    if (readable != 0 && core_group_hides(core, readable))
        return settle_with_hidden(core, request, index, readable);
    if (readable != 0) {
        answer_exists(core, request, index, readable);
        return true;
    }
    if (writing != 0) {
        wait_for_writer(core, request, index, writing);
        return true;
    }
    return false;
}
