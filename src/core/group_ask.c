/* Members of groups for who reads them, lists of groups, and their removal.
 *
 * What is told of one group in one reply is of one instant: the step answers it whole.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>

/* ---- group_get ---- */

/* Which of the group's indexes are asked for, one after the other. */
struct asked {
    const struct wire_group_get_req *message;
    const struct group *group;
    uint32_t at;   /* in message->indexes */
    uint32_t next; /* index, when all are asked for */
};

static bool next_index(struct asked *asked, uint32_t *index)
{
    const struct wire_group_get_req *message = asked->message;

    if (message->indexes_count == 0) {
        uint32_t end = asked->group->size > 0 ? asked->group->size : asked->group->capacity;

        *index = asked->next++;
        return *index < end;
    }
    while (asked->at < message->indexes_count && message->indexes[asked->at].index < message->first)
        asked->at++;
    if (asked->at >= message->indexes_count)
        return false;
    *index = message->indexes[asked->at++].index;
    return true;
}

/* Whether its members may be told of now. */
static enum snow_status may_read(struct core *core, const struct wire_group_get_req *message,
                                 uint32_t record, enum wire_group_state state)
{
    const struct group *group = core_group_at(core, record);

    if (message->ggen != 0 && (message->ggen != group->ggen || message->version != group->version))
        return SNOW_CHANGED;
    if (message->hold != 0) {
        enum snow_status status = core_group_hold_check(core, message->hold, record);

        if (status != SNOW_OK)
            return status;
    }
    if (state == WIRE_GROUP_RECOVERING)
        return SNOW_UNKNOWN;
    if (state == WIRE_GROUP_FORMING)
        return SNOW_NOT_READY;
    if (state == WIRE_GROUP_DEGRADED && message->indexes_count == 0)
        return SNOW_GROUP_BROKEN;
    return SNOW_OK;
}

static uint32_t first_missing(const struct core *core, const struct group *group)
{
    uint32_t index = 0;

    while (core_group_member_is_there(core, core_group_member(group, index)))
        index++;
    return index;
}

static void tell_member(struct core *core, uint32_t number, uint32_t index,
                        struct wire_group_member *member)
{
    struct wire_found found = {0};

    core_read_places(core, number, UINT32_MAX, &found);
    *member = (struct wire_group_member){.index = index,
                                         .key = core_object_key(core, number),
                                         .gen = core_object(core, number)->gen,
                                         .size = core_object(core, number)->size,
                                         .places = found.places,
                                         .places_count = found.places_count};
}

/* Tells members until the frame is full. */
static enum snow_status tell_members(struct core *core, struct asked *asked,
                                     struct wire_group_get_rep *reply, uint32_t *numbers)
{
    uint64_t bytes = CORE_REPLY_BYTES;
    uint32_t index;

    reply->next = WIRE_GROUP_INDEX_ANY;
    while (next_index(asked, &index)) {
        uint32_t number = core_group_member(asked->group, index);

        if (index < asked->message->first)
            continue;
        if (!core_group_member_is_there(core, number)) {
            if (asked->group->size == 0 && asked->message->indexes_count == 0)
                continue;
            reply->broken = index;
            return SNOW_GROUP_BROKEN;
        }
        struct wire_group_member *member = &reply->members[reply->members_count];

        tell_member(core, number, index, member);
        bytes += CORE_ROW_BYTES + member->key.size + member->places_count * CORE_PLACE_BYTES;
        if ((bytes > LIMIT_BODY_SIZE && reply->members_count > 0) ||
            reply->members_count == LIMIT_BATCH_ITEMS) {
            reply->next = index;
            return SNOW_OK;
        }
        numbers[reply->members_count++] = number;
    }
    return SNOW_OK;
}

static enum snow_status get_group(struct core *core, const struct wire_group_get_req *message,
                                  uint32_t session, struct wire_group_get_rep *reply)
{
    struct key_hash id = core_key_hash(message->id);
    uint32_t record = core_group_find(core, &id);
    uint32_t *numbers = core_out(core, LIMIT_BATCH_ITEMS + 1, sizeof(*numbers));
    enum snow_status status;

    reply->members = core_out(core, LIMIT_BATCH_ITEMS + 1, sizeof(*reply->members));
    if (message->id.size < 1 || message->id.size > LIMIT_GROUP_ID_SIZE)
        return SNOW_INVALID;
    if (record == 0 || core_expire_due(core, record))
        return core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
    const struct group *group = core_group_at(core, record);
    struct asked asked = {.message = message, .group = group, .next = message->first};
    enum wire_group_state state = core_group_state_now(core, group, core_some_node_is_away(core));

    reply->state = (uint8_t)state;
    reply->ggen = group->ggen;
    reply->version = group->version;
    reply->size = group->size;
    reply->present = group->present;
    reply->broken = WIRE_GROUP_INDEX_ANY;
    status = may_read(core, message, record, state);
    if (status == SNOW_OK)
        status = tell_members(core, &asked, reply, numbers);
    else if (status == SNOW_GROUP_BROKEN)
        reply->broken = first_missing(core, group);
    if (status != SNOW_OK) {
        reply->members_count = 0;
        return status;
    }
    struct wire_lookup_req as_lookup = {.operation = message->operation,
                                        .position = message->first,
                                        .flags = message->flags | WIRE_LOOKUP_PLACES,
                                        .keys_count = reply->members_count};

    core_read_touch_found(core, &as_lookup, numbers);
    struct read_found found = {.numbers = numbers, .count = reply->members_count};

    if (message->operation != 0)
        reply->lease_ms = core_read_remember(core, &as_lookup, session, &found);
    return SNOW_OK;
}

void core_group_get(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_group_get_req *message = input->message;
    struct wire_group_get_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->status = (int32_t)get_group(core, message, session, reply);
    core_count(core, CORE_METRIC_bad_requests, reply->status == SNOW_INVALID);
    core_reply(core, input->token, WIRE_group_get, reply);
}

/* ---- group_remove ---- */

/* Answered when the holders of all members have acknowledged: one waiter a member. */
static void remove_group(struct core *core, struct request *request, uint32_t item)
{
    const struct wire_group_remove_req *message = request->message;
    struct key_hash id = core_key_hash(message->ids[item].key);
    uint32_t record = core_group_find(core, &id);

    if (id.key.size < 1 || id.key.size > LIMIT_GROUP_ID_SIZE) {
        core_answer_status(core, request, item, SNOW_INVALID, 0, 0);
        return;
    }
    if (record == 0) {
        core_answer_status(core, request, item, core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN,
                           0, 0);
        return;
    }
    if (core_is_guarded(core, record, message->flags)) {
        core_answer_status(core, request, item, SNOW_IN_USE, 0, 0);
        return;
    }
    const struct group *group = core_group_at(core, record);
    uint32_t capacity = group->capacity;
    struct key_hash *keys = core_out(core, capacity, sizeof(*keys));
    uint32_t count = 0;

    for (uint32_t i = 0; i < capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->state == OBJECT_READABLE)
            keys[count++] = core_copy_key(core, number);
    }
    request->items_open[item] = count + 1;
    core_group_close(core, record, CLOSE_REMOVED);
    for (uint32_t i = 0; i < count; i++)
        core_close_wait(core, keys[i], request, item,
                        core_is_ready(core) ? SNOW_OK : SNOW_UNCERTAIN, 0);
    core_group_remove_done(core, request, item, SNOW_OK);
}

void core_group_remove_done(struct core *core, struct request *request, uint32_t item,
                            enum snow_status status)
{
    if (status != SNOW_OK)
        request->unsure = true;
    if (--request->items_open[item] == 0)
        core_answer_status(core, request, item, request->unsure ? SNOW_UNCERTAIN : SNOW_OK,
                           request->unsure, 0);
}

void core_group_remove(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_group_remove_req *message = input->message;
    struct request *request = core_request_open(core, input, session, message->ids_count);

    if (request == NULL)
        return;
    request->items_open = calloc(message->ids_count + 1, sizeof(*request->items_open));
    for (uint32_t i = 0; i < message->ids_count; i++) {
        if (request->items_open == NULL)
            core_answer_status(core, request, i, SNOW_BUSY, 0, 0);
        else
            remove_group(core, request, i);
    }
}

/* ---- group_list ---- */

#define PAGE_OBJECTS (16 * LIMIT_STEP_OBJECTS)

void core_group_list(struct core *core, const struct core_input *input)
{
    const struct wire_group_list_req *list = input->message;
    struct wire_group_list_rep *reply = core_out(core, 1, sizeof(*reply));
    uint32_t limit =
        list->limit > 0 && list->limit < LIMIT_LIST_ROWS ? list->limit : LIMIT_LIST_ROWS;
    uint64_t number = list->cursor == 0 ? 1 : list->cursor;
    uint32_t looked = 0;

    reply->items = core_out(core, limit, sizeof(*reply->items));
    for (; number < core->objects.fresh && reply->items_count < limit; number++) {
        const struct object *unit = core_object(core, (uint32_t)number);

        if (++looked > PAGE_OBJECTS)
            break;
        if (unit->state != OBJECT_GROUP)
            continue;
        const struct group *group = core_group_at(core, (uint32_t)number);
        struct bytes id = core_group_id(core, (uint32_t)number);

        if (group->state == WIRE_GROUP_CLOSING || id.size < list->prefix.size ||
            !bytes_equal(bytes_of(id.at, list->prefix.size), list->prefix))
            continue;
        reply->items[reply->items_count++] = (struct wire_group_listed){
            .id = id,
            .state = group->state,
            .flags = group->flags & WIRE_GROUP_ALL,
            .ggen = group->ggen,
            .size = group->size,
            .present = group->present,
            .depth = unit->depth == CORE_DEPTH_UNKNOWN ? WIRE_DEPTH_UNKNOWN : unit->depth,
            .bytes = core_group_bytes(core, (uint32_t)number),
            .uses = (uint8_t)unit->uses};
    }
    reply->cursor = number < core->objects.fresh ? number : 0;
    core_reply(core, input->token, WIRE_group_list, reply);
}
