/* What groups are: asked for by their ids, or by the key of a member.
 *
 * Problem.  A scheduler wants to know whether a block is whole, a rank only has the key of its
 *           share; some want to wait until it is, and keep it from eviction then.
 * Idea.     One description of a group (tell_group) for whoever asks: group_stat by ids and by
 *           keys, a look-up that asks for the groups of its keys.  An object that is in no group
 *           is a complete group of one.
 * Invariants.
 *   A1  What is told of one group in one reply is of one instant: the step answers it whole.
 *   A2  Who waits for a group to be complete is answered when it is, when it goes, or at the end of
 *       the wait time with what it is then.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>

_Static_assert(CORE_REPLY_BYTES + LIMIT_BATCH_ITEMS * (CORE_GROUP_BYTES + LIMIT_GROUP_ID_SIZE +
                                                       WIRE_GROUP_MISSING_MAX * 4) <=
                   LIMIT_BODY_SIZE,
               "what a batch of groups is fits in a reply");

uint64_t core_group_bytes(const struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->state == OBJECT_READABLE)
            bytes += core_object_bytes(core, number);
    }
    return bytes;
}

bool core_some_node_is_away(const struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i]->state == NODE_SUSPECT)
            return true;
    }
    return false;
}

bool core_group_member_is_there(const struct core *core, uint32_t number)
{
    return number != 0 && core_object(core, number)->state == OBJECT_READABLE &&
           core_object_access(core, number) == ACCESS_NOW;
}

/* Members on silent nodes count as lost until they return. */
enum wire_group_state core_group_state_now(const struct core *core, const struct group *group,
                                           bool away)
{
    enum wire_group_state state = (enum wire_group_state)group->state;

    if (!away || (state != WIRE_GROUP_COMPLETE && state != WIRE_GROUP_OPEN))
        return state;
    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->state == OBJECT_READABLE &&
            !core_group_member_is_there(core, number))
            return WIRE_GROUP_DEGRADED;
    }
    return state;
}

/* ---- one of them ---- */

static void tell_group(struct core *core, uint32_t record, struct wire_group_info *info)
{
    const struct group *group = core_group_at(core, record);
    bool away = core_some_node_is_away(core);

    info->status = SNOW_OK;
    info->state = (uint8_t)core_group_state_now(core, group, away);
    info->flags = group->flags & WIRE_GROUP_ALL;
    info->ggen = group->ggen;
    info->version = group->version;
    info->size = group->size;
    info->bytes = core_group_bytes(core, record);
    for (uint32_t i = 0; i < group->capacity; i++)
        info->present += core_group_member_is_there(core, group->members[i]);
    info->next = info->present < group->size ? 0 : WIRE_GROUP_INDEX_ANY;
}

/* An object that is in no group. */
static void tell_alone(const struct core *core, uint32_t number, struct wire_group_info *info)
{
    info->status = SNOW_OK;
    info->state = WIRE_GROUP_COMPLETE;
    info->ggen = core_object(core, number)->gen;
    info->version = 1;
    info->size = 1;
    info->present = 1;
    info->bytes = core_object_bytes(core, number);
    info->next = WIRE_GROUP_INDEX_ANY;
}

/* Indexes from info->next on that are missing, a page of them. */
static void tell_missing(struct core *core, uint32_t record, uint32_t from,
                         struct wire_group_info *info)
{
    const struct group *group = core_group_at(core, record);

    if (info->next == WIRE_GROUP_INDEX_ANY)
        return;
    info->next = WIRE_GROUP_INDEX_ANY;
    info->missing = core_out(core, WIRE_GROUP_MISSING_MAX, sizeof(*info->missing));
    for (uint32_t i = from; i < group->size; i++) {
        if (core_group_member_is_there(core, core_group_member(group, i)))
            continue;
        if (info->missing_count == WIRE_GROUP_MISSING_MAX) {
            info->next = i;
            return;
        }
        info->missing[info->missing_count++].index = i;
    }
}

/* What a key is of: the record of a group, or an object that is in none; 0: neither.  A member that
 * is still being written counts; so does one that its group hides. */
static uint32_t unit_of_key(struct core *core, const struct key_hash *key)
{
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, key->key, key->hash, &cursor);
    uint32_t forming = 0;

    for (; number != 0; number = core_object_next(&cursor)) {
        enum object_state state = core_object_state(core, number);

        if (state == OBJECT_READABLE && core_object(core, number)->grouped)
            return core_object(core, number)->prev;
        if (state == OBJECT_READABLE)
            return core_expire_due(core, number) || core_object_access(core, number) != ACCESS_NOW
                       ? 0
                       : number;
        if (state == OBJECT_WRITING && core_write_of(core, number)->group != 0)
            forming = core_write_of(core, number)->group;
    }
    return forming == 0 || (core_group_at(core, forming)->flags & GROUP_SHADOW) ||
                   core_group_at(core, forming)->state == WIRE_GROUP_CLOSING
               ? 0
               : forming;
}

static bool is_group(const struct core *core, uint32_t unit)
{
    return core_object(core, unit)->state == OBJECT_GROUP;
}

/* Of an id that was asked for, or with WIRE_STAT_KEY a key; 0: there is none, *status says why. */
static uint32_t seek_unit(struct core *core, const struct wire_group_asked *asked,
                          enum snow_status *status)
{
    bool by_key = (asked->flags & WIRE_STAT_KEY) != 0;
    struct key_hash hash = core_key_hash(asked->id);
    uint32_t unit;

    *status = SNOW_INVALID;
    if (asked->id.size < 1 || asked->id.size > (by_key ? LIMIT_KEY_SIZE : LIMIT_GROUP_ID_SIZE) ||
        (asked->flags & ~WIRE_STAT_KEY) != 0)
        return 0;
    *status = core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
    unit = by_key ? unit_of_key(core, &hash) : core_group_find(core, &hash);
    if (unit == 0 || (is_group(core, unit) && core_expire_due(core, unit)))
        return 0;
    *status = SNOW_OK;
    return unit;
}

static void tell_unit(struct core *core, uint32_t unit, struct wire_group_info *info)
{
    if (is_group(core, unit))
        tell_group(core, unit, info);
    else
        tell_alone(core, unit, info);
}

/* ---- the groups of the keys of a look-up ---- */

void core_groups_of_keys(struct core *core, const struct wire_lookup_req *lookup,
                         struct wire_lookup_rep *reply, uint32_t *units)
{
    reply->groups = core_out(core, lookup->keys_count, sizeof(*reply->groups));
    reply->groups_count = lookup->keys_count;
    for (uint32_t i = 0; i < lookup->keys_count; i++) {
        struct wire_group_asked asked = {.id = lookup->keys[i].key, .flags = WIRE_STAT_KEY};
        struct wire_group_info *info = &reply->groups[i];
        enum snow_status status;

        units[i] = seek_unit(core, &asked, &status);
        if (i > 0 && units[i] != 0 && units[i] == units[i - 1]) {
            *info = reply->groups[i - 1]; /* of K and V and ranks in turn */
        } else if (units[i] != 0) {
            tell_unit(core, units[i], info);
            if (is_group(core, units[i]))
                info->id = core_group_id(core, units[i]);
        } else {
            info->status = (int32_t)status;
            info->next = WIRE_GROUP_INDEX_ANY;
        }
        info->index = i;
    }
}

/* ---- leases of whole groups ---- */

struct block {
    uint32_t unit;
    uint32_t at; /* of what was asked */
};

static int by_unit(const void *a, const void *b)
{
    const struct block *left = a;
    const struct block *right = b;

    if (left->unit != right->unit)
        return left->unit < right->unit ? -1 : 1;
    return left->at < right->at ? -1 : left->at > right->at;
}

/* Units that were found, each once: the first time. */
static uint32_t distinct(const uint32_t *units, uint32_t count, struct block *blocks)
{
    uint32_t found = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (units[i] != 0)
            blocks[found++] = (struct block){.unit = units[i], .at = i};
    }
    qsort(blocks, found, sizeof(*blocks), by_unit);
    for (uint32_t i = 0; i < found; i++) {
        if (i == 0 || blocks[i].unit != blocks[i - 1].unit)
            blocks[kept++] = blocks[i];
    }
    return kept;
}

void core_group_members_of(struct core *core, const uint32_t *units, uint32_t count,
                           struct read_found *found)
{
    struct block *blocks = core_out(core, count, sizeof(*blocks));
    uint32_t block_count = distinct(units, count, blocks);
    uint64_t total = 0;

    for (uint32_t i = 0; i < block_count; i++)
        total += is_group(core, blocks[i].unit) ? core_group_at(core, blocks[i].unit)->present : 1;
    *found = (struct read_found){.count = 0};
    if (total > LIMIT_READ_ENTRIES)
        return;
    uint32_t *numbers = core_out(core, (size_t)total, sizeof(*numbers));
    uint32_t *positions = core_out(core, (size_t)total, sizeof(*positions));

    for (uint32_t i = 0; i < block_count; i++) {
        const struct group *group =
            is_group(core, blocks[i].unit) ? core_group_at(core, blocks[i].unit) : NULL;

        for (uint32_t j = 0; j < (group == NULL ? 1 : group->capacity); j++) {
            uint32_t number = group == NULL ? blocks[i].unit : group->members[j];

            if (number == 0 || core_object(core, number)->state != OBJECT_READABLE)
                continue;
            positions[found->count] = blocks[i].at;
            numbers[found->count++] = number;
        }
    }
    found->numbers = numbers;
    found->positions = positions;
}

/* ---- group_stat ---- */

/* Leases these, of those that were asked for from `first` on. */
static uint32_t lease(struct core *core, struct request *request, uint32_t first,
                      const uint32_t *units, uint32_t count)
{
    const struct wire_group_stat_req *message = request->message;
    struct wire_lookup_req as_lookup = {.operation = message->operation,
                                        .position = message->position + first,
                                        .flags = message->flags & WIRE_LOOKUP_LEASE,
                                        .keys_count = count};
    struct read_found found;

    if (message->operation == 0 || as_lookup.flags == 0)
        return 0;
    core_group_members_of(core, units, count, &found);
    return found.count == 0 ? 0 : core_read_remember(core, &as_lookup, request->session, &found);
}

static uint32_t answer_unit(struct core *core, struct request *request, uint32_t index,
                            struct wire_group_info **answered)
{
    const struct wire_group_stat_req *message = request->message;
    const struct wire_group_asked *asked = &message->groups[index];
    struct wire_group_info *info = core_answer_info(core, request, index);
    enum snow_status status;
    uint32_t unit = seek_unit(core, asked, &status);

    *answered = info;
    info->status = (int32_t)status;
    info->next = WIRE_GROUP_INDEX_ANY;
    core_count(core, CORE_METRIC_bad_requests, status == SNOW_INVALID);
    if (unit == 0)
        return 0;
    tell_unit(core, unit, info);
    if (!is_group(core, unit))
        return unit;
    tell_missing(core, unit, asked->from, info);
    if (asked->flags & WIRE_STAT_KEY)
        info->id = core_group_id(core, unit);
    return unit;
}

static void answer_info(struct core *core, struct request *request, uint32_t index)
{
    struct wire_group_info *info;
    uint32_t unit = answer_unit(core, request, index, &info);

    info->lease_ms = lease(core, request, index, &unit, 1);
}

/* It may come to something within the wait time: one that is being formed, or not begun yet. */
static bool is_worth_waiting(struct core *core, const struct wire_group_asked *asked)
{
    enum snow_status status;
    uint32_t unit = seek_unit(core, asked, &status);
    const struct group *group =
        unit == 0 || !is_group(core, unit) ? NULL : core_group_at(core, unit);

    if (unit == 0)
        return status != SNOW_INVALID;
    return group != NULL &&
           (group->state == WIRE_GROUP_FORMING || group->state == WIRE_GROUP_RECOVERING);
}

/* True: it waits. */
static bool wait_for_group(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_group_stat_req *message = request->message;
    struct waiter *waiter = NULL;

    if (request->wait_ns > 0 && is_worth_waiting(core, &message->groups[index]))
        waiter = core_waiter_create(core, request, index);
    if (waiter == NULL)
        return false;
    list_push(message->groups[index].flags & WIRE_STAT_KEY ? &core->group_key_waits
                                                           : &core->group_waits,
              &waiter->link);
    return true;
}

void core_group_stat(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_group_stat_req *message = input->message;
    struct request *request = core_request_open(core, input, session, message->groups_count);
    uint32_t count = message->groups_count;

    if (request == NULL)
        return;
    struct wire_group_info **infos = core_out(core, count, sizeof(struct wire_group_info *));
    uint32_t *units = core_out(core, count, sizeof(*units));

    request->wait_ns = (uint64_t)message->wait_ms * NS_PER_MS;
    for (uint32_t i = 0; i < count; i++) {
        if (!wait_for_group(core, request, i))
            units[i] = answer_unit(core, request, i, &infos[i]);
    }
    uint32_t lease_ms = lease(core, request, 0, units, count);

    for (uint32_t i = 0; i < count; i++) {
        if (units[i] != 0)
            infos[i]->lease_ms = lease_ms;
    }
}

/* ---- waiting ---- */

static const struct wire_group_asked *asked_by(const struct waiter *waiter)
{
    const struct wire_group_stat_req *message = waiter->request->message;

    return &message->groups[waiter->item];
}

static void answer_waiter(struct core *core, struct waiter *waiter)
{
    struct request *request = waiter->request;
    uint32_t index = waiter->item;

    core_waiter_end(core, waiter);
    answer_info(core, request, index);
}

/* Whether a version of this key is a member of the group of that id. */
static bool key_is_of(const struct core *core, struct bytes key, struct bytes id)
{
    struct key_hash hash = core_key_hash(key);
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, key, hash.hash, &cursor);

    for (; number != 0; number = core_object_next(&cursor)) {
        const struct object *object = core_object(core, number);
        uint32_t record = object->state == OBJECT_WRITING ? core_write_of(core, number)->group
                          : object->state == OBJECT_READABLE && object->grouped ? object->prev
                                                                                : 0;

        if (record != 0 && bytes_equal(core_group_id(core, record), id))
            return true;
    }
    return false;
}

void core_group_waits_look(struct core *core, struct bytes id)
{
    list_each (&core->group_waits, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        if (bytes_equal(asked_by(waiter)->id, id))
            answer_waiter(core, waiter);
    }
    list_each (&core->group_key_waits, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        if (key_is_of(core, asked_by(waiter)->id, id))
            answer_waiter(core, waiter);
    }
}

void core_group_waits_came(struct core *core, uint32_t number)
{
    list_each (&core->group_key_waits, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        if (bytes_equal(asked_by(waiter)->id, core_object_key(core, number)) &&
            !is_worth_waiting(core, asked_by(waiter)))
            answer_waiter(core, waiter);
    }
}

void core_group_stat_expire(struct core *core, struct request *request)
{
    struct list_link *link;

    while ((link = list_first(&request->waiters)) != NULL)
        answer_waiter(core, list_entry(link, struct waiter, of_request));
}
