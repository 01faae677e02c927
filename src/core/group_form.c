/* Groups that are being formed: who may begin, what waits, and when it is given up.
 *
 * Problem.  Many half-formed groups can fill a pool so that none of them is ever whole; a member
 *           that never comes leaves the others useless.
 * Idea.     Admission is for a group, not for a member: the first one reserves the room of all of
 *           them in a share of the pool.  Members of admitted groups go before whatever else waits
 *           for room; puts of other groups wait until one of these is whole or gone.
 * Invariants.
 *   F1  forming_bytes = what the groups in core->forming have reserved.  The oldest of them may
 *       exceed the share.
 *   F2  A FORMING group has a timer (group_writers.c).  A DEGRADED one is among those that go first
 *       once its timer has run out.
 *   F3  Items in core->forming_room come back to core->room when a group leaves core->forming.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdio.h>

static struct group_timer *timer_of(const struct core *core, const struct group *group)
{
    return group->timer == 0 ? NULL : pool_at(&core->group_timers, group->timer);
}

/* F3. */
static void let_others_in(struct core *core)
{
    struct list_link *link;

    struct list all;

    list_take_all(&all, &core->forming_room);
    while ((link = list_pop(&all)) != NULL)
        core_room_enter(core, list_entry(link, struct waiter, link)); /* and may come back */
    core->room_changed = true;
}

static void leave_forming(struct core *core, struct group_timer *timer)
{
    if (!list_is_linked(&timer->forming))
        return;
    list_remove(&timer->forming);
    core->forming_count--;
    core->forming_bytes -= timer->reserved;
    timer->reserved = 0;
    let_others_in(core);
}

void core_group_timer_end(struct core *core, struct group *group)
{
    struct group_timer *timer = timer_of(core, group);

    if (timer == NULL)
        return;
    leave_forming(core, timer);
    core_group_writers_end(core, timer);
    wheel_cancel(&core->wheel, &timer->timer);
    pool_give(&core->group_timers, group->timer);
    group->timer = 0;
}

/* What waits to be put into it is not to begin another without those that are lost with it. */
static void give_up(struct core *core, uint32_t record)
{
    struct key_hash id = core_copy_key(core, record);

    core_group_close(core, record, CLOSE_ABORTED);
    core_room_give_up(core, id.key);
}

static void on_form_end(struct wheel_timer *wheel_timer, void *owner)
{
    struct core *core = owner;

    struct group_timer *timer = list_entry(wheel_timer, struct group_timer, timer);

    core_count(core, CORE_METRIC_groups_expired, 1);
    core_count(core, CORE_METRIC_groups_abandoned, timer->linked == 0);
    give_up(core, timer->record);
}

static void on_degraded_long(struct wheel_timer *wheel_timer, void *owner)
{
    struct core *core = owner;
    uint32_t record = list_entry(wheel_timer, struct group_timer, timer)->record;

    core_group_timer_end(core, core_group_at(core, record));
    core_victim_leave(core, record);
    object_flag(core_object(core, record), OBJECT_DONE);
    core_victim_return(core, record);
}

/* NULL: out of memory; the group goes on without. */
static struct group_timer *new_timer(struct core *core, struct group *group,
                                     void (*on_event)(struct wheel_timer *, void *))
{
    uint32_t number;

    core_group_timer_end(core, group);
    if (pool_take(&core->group_timers, &number) != SNOW_OK)
        return NULL;
    struct group_timer *timer = pool_at(&core->group_timers, number);

    *timer = (struct group_timer){.record = group->record,
                                  .timer.on_event = on_event,
                                  .left_ns = core->now_ns};
    list_init(&timer->writers);
    group->timer = number;
    return timer;
}

void core_group_timer_degraded(struct core *core, struct group *group)
{
    struct group_timer *timer = new_timer(core, group, on_degraded_long);

    if (timer != NULL)
        wheel_arm(&core->wheel, &timer->timer, core->now_ns + core->options.group_degraded_ns);
}

/* ---- what a put says ---- */

const struct wire_put_member *core_member_of(const struct wire_put_start_req *put, uint32_t item)
{
    uint32_t from = 0;
    uint32_t to = put->members_count;

    if (item < to && put->members[item].item == item) /* as where every item is a member */
        return &put->members[item];
    while (from < to) {
        uint32_t middle = (from + to) / 2;

        if (put->members[middle].item < item)
            from = middle + 1;
        else
            to = middle;
    }
    return from < put->members_count && put->members[from].item == item ? &put->members[from]
                                                                        : NULL;
}

bool core_put_groups_are_valid(const struct wire_put_start_req *put)
{
    for (uint32_t i = 0; i < put->groups_count; i++) {
        const struct wire_put_group *group = &put->groups[i];

        if (group->id.size < 1 || group->id.size > LIMIT_GROUP_ID_SIZE ||
            group->size > LIMIT_GROUP_SIZE || (group->flags & ~WIRE_GROUP_ALL) != 0 ||
            group->parent.size > LIMIT_GROUP_ID_SIZE ||
            (group->size == 0 && (group->flags & WIRE_GROUP_ATOMIC) != 0))
            return false;
    }
    for (uint32_t i = 0; i < put->members_count; i++) {
        const struct wire_put_member *member = &put->members[i];

        if (member->item >= put->items_count || member->group >= put->groups_count ||
            (i > 0 && member->item <= put->members[i - 1].item))
            return false;
    }
    return true;
}

uint64_t core_extra_bytes(const struct wire_put_start_req *put, uint32_t item)
{
    const struct wire_put_member *member = core_member_of(put, item);

    return member == NULL
               ? 0
               : wire_group_extra_size_min(WIRE_VERSION) + put->groups[member->group].id.size;
}

static struct bytes encode_extra(struct core *core, uint32_t record, uint32_t index, uint16_t depth,
                                 struct hash128 parent)
{
    uint8_t *at;
    struct writer writer;
    const struct group *group = core_group_at(core, record);
    struct wire_group_extra extra = {
        .id = core_group_id(core, record),
        .ggen = group->ggen,
        .size = group->size,
        .index = index,
        .flags = group->flags & WIRE_GROUP_ALL,
        .depth = depth == CORE_DEPTH_UNKNOWN ? WIRE_DEPTH_UNKNOWN : depth,
        .parent_low = parent.low,
        .parent_high = parent.high,
    };

    size_t size = wire_group_extra_size_min(WIRE_VERSION) + extra.id.size;

    at = core_out(core, size, 1);
    writer_init(&writer, at, size, WIRE_VERSION);
    wire_group_extra_encode(&writer, &extra);
    ASSERT(!writer.failed);
    return bytes_of(at, writer_size(&writer));
}

struct bytes core_group_extra(struct core *core, const struct write *write)
{
    if (write->group == 0)
        return bytes_of(NULL, 0);
    return encode_extra(core, write->group, write->group_index,
                        core_object(core, write->object)->depth, write->group_parent);
}

struct bytes core_group_member_extra(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if (!object->grouped)
        return bytes_of(NULL, 0);
    return encode_extra(core, object->prev, object->next, object->depth,
                        core_group_parent(core, core_group_of(core, object)));
}

/* ---- admission ---- */

static uint64_t share_bytes(const struct core *core)
{
    return core->pool_bytes / 100 * core->options.group_forming_percent;
}

static bool is_admitted_with(const struct core *core, uint64_t bytes)
{
    return list_is_empty(&core->forming) || core->forming_bytes + bytes <= share_bytes(core) ||
           FAULT(core->faults, groups_block);
}

static uint64_t whole_bytes(const struct wire_put_start_req *put, uint32_t item,
                            const struct wire_put_group *said)
{
    return core_place_bytes(put, item) * put->items[item].replicas * said->size;
}

/* A member that is larger than the others were.  False: with those that are still to come the group
 * would be larger than the pool. */
static bool fits_in_pool(const struct core *core, const struct group *group, uint64_t bytes)
{
    const struct group_timer *timer = timer_of(core, group);

    if (timer == NULL || group->state != WIRE_GROUP_FORMING || bytes <= timer->largest ||
        core->missing > 0)
        return true;
    return core_group_bytes(core, group->record) + bytes * (group->size - group->present) <=
           core->pool_bytes;
}

/* Later members are larger than the first: the reservation grows. */
static void note_member(struct core *core, struct group *group, uint64_t bytes)
{
    struct group_timer *timer = timer_of(core, group);

    if (timer == NULL || group->state != WIRE_GROUP_FORMING || bytes <= timer->largest)
        return;
    timer->largest = bytes;
    if (!list_is_linked(&timer->forming))
        return;
    core->forming_bytes += bytes * group->size - timer->reserved;
    timer->reserved = bytes * group->size;
}

/* id: of said. */
static enum snow_status begin_group(struct core *core, const struct wire_put_start_req *put,
                                    uint32_t item, const struct wire_put_group *said,
                                    const struct key_hash *id, struct membership *membership)
{
    uint64_t bytes = whole_bytes(put, item, said);

    if (said->size > 0 && bytes > core->pool_bytes && core->missing == 0) {
        membership->reason = "the whole group is larger than the pool";
        return SNOW_LIMIT;
    }
    if (said->size > 0 && !is_admitted_with(core, bytes))
        return SNOW_NO_SPACE;
    membership->record = core_group_create(core, id, core_next_gen(core), said->size, said->flags);
    if (membership->record == 0)
        return SNOW_NO_MEMORY;
    struct group *group = core_group_at(core, membership->record);
    struct group_timer *timer = said->size == 0 ? NULL : new_timer(core, group, on_form_end);

    if (said->size > 0 && timer == NULL) {
        core_group_dismiss(core, membership);
        return SNOW_NO_MEMORY;
    }
    if (timer == NULL)
        return SNOW_OK;
    timer->form_ns = said->form_ms == 0 ? core->options.group_form_ns : said->form_ms * NS_PER_MS;
    timer->largest = bytes / said->size;
    timer->reserved = bytes;
    core->forming_bytes += bytes;
    list_push(&core->forming, &timer->forming);
    core->forming_count++;
    if (!list_is_empty(&core->forming_room))
        let_others_in(core); /* members of this one may be among them */
    core_group_progress(core, group);
    return SNOW_OK;
}

void core_group_dismiss(struct core *core, const struct membership *membership)
{
    if (membership->record == 0)
        return;
    const struct group *group = core_group_at(core, membership->record);

    if (group->present == 0 && group->writing == 0)
        core_group_close(core, membership->record, CLOSE_STRAY);
}

static const char *size_reason(struct core *core, uint32_t size)
{
    char *text = core_out(core, 1, 64);

    snprintf(text, 64, "the group has the size %u", size);
    return text;
}

/* The index of a member; old: the value that it is to replace, or 0. */
static enum snow_status choose_index(struct core *core, struct group *group, uint32_t wanted,
                                     uint32_t old, uint32_t *index)
{
    bool own = old != 0 && core_group_of(core, core_object(core, old)) == group;

    if (wanted != WIRE_GROUP_INDEX_ANY &&
        wanted >= (group->size > 0 ? group->size : LIMIT_GROUP_SIZE))
        return SNOW_INVALID;
    if (own && (wanted == WIRE_GROUP_INDEX_ANY || wanted == core_object(core, old)->next)) {
        *index = core_object(core, old)->next;
        return SNOW_OK;
    }
    *index = wanted != WIRE_GROUP_INDEX_ANY ? wanted : core_group_free_index(group);
    if (*index == WIRE_GROUP_INDEX_ANY || core_group_member(group, *index) != 0)
        return SNOW_GROUP_INDEX_CONFLICT;
    return SNOW_OK;
}

/* A replace that says nothing of a group stays in that of the value. */
static enum snow_status inherit(struct core *core, const struct wire_put_item *item, uint32_t old,
                                struct membership *membership)
{
    const struct group *group = old == 0 ? NULL : core_group_of(core, core_object(core, old));

    if (group == NULL)
        return SNOW_OK;
    if ((group->flags & WIRE_GROUP_ATOMIC) && (item->flags & WIRE_PUT_REPLACE)) {
        membership->reason = "members of an atomic group are not replaced one by one";
        return SNOW_INVALID;
    }
    membership->record = group->record;
    membership->index = core_object(core, old)->next;
    return SNOW_OK;
}

/* The index is held by a version of the same key of which not all parts are in. */
static bool is_still_learned(const struct core *core, const struct group *group, uint32_t index,
                             struct bytes key)
{
    uint32_t number = core_group_member(group, index);

    return number != 0 && core_object(core, number)->state == OBJECT_RECOVERING &&
           bytes_equal(core_object_key(core, number), key);
}

const struct key_hash *core_group_said(struct request *request, uint32_t group)
{
    const struct wire_put_start_req *put = request->message;

    if (request->said_of != group + 1) {
        request->said = core_key_hash(put->groups[group].id);
        request->said_of = group + 1;
        request->said_record = 0;
    }
    return &request->said;
}

/* It is still the group that its id names: one that is no shadow is the only one, but while
 * inventories come in. */
static bool is_still_there(const struct core *core, uint32_t record, uint64_t ggen)
{
    if (record == 0 || core->groups_recovering != 0 ||
        core_object(core, record)->state != OBJECT_GROUP)
        return false;
    const struct group *group = core_group_at(core, record);

    return group->ggen == ggen && group->state != WIRE_GROUP_CLOSING &&
           (group->flags & GROUP_SHADOW) == 0;
}

uint32_t core_group_find_said(const struct core *core, struct request *request, uint32_t group)
{
    const struct key_hash *id = core_group_said(request, group);

    if (is_still_there(core, request->said_record, request->said_ggen))
        return request->said_record;
    request->said_record = core_group_find(core, id);
    request->said_ggen =
        request->said_record == 0 ? 0 : core_group_at(core, request->said_record)->ggen;
    return request->said_record;
}

/* The group that an item goes into; 0: it is to be begun.  *shadow: beside one that is there. */
static uint32_t target_of(const struct core *core, struct request *request, uint32_t item,
                          const struct wire_put_member *member, bool *shadow)
{
    const struct wire_put_start_req *put = request->message;
    uint32_t there = core_group_find_said(core, request, member->group);

    *shadow = core_put_is_shadow(core, &put->items[item], &put->groups[member->group], there);
    return *shadow ? core_group_shadow(core, &request->said) : there;
}

static enum snow_status join_there(struct core *core, const struct wire_put_start_req *put,
                                   uint32_t index, uint32_t old, struct membership *membership)
{
    const struct wire_put_item *item = &put->items[index];
    const struct wire_put_member *member = core_member_of(put, index);
    const struct wire_put_group *said = &put->groups[member->group];
    struct group *group = core_group_at(core, membership->record);
    uint64_t bytes = core_place_bytes(put, index) * item->replicas;
    uint32_t wanted = member->index;
    enum snow_status status;

    if (group->size != said->size) {
        membership->reason = size_reason(core, group->size);
        return SNOW_GROUP_SIZE_MISMATCH;
    }
    if (((group->flags ^ said->flags) & (WIRE_GROUP_ALL & ~WIRE_GROUP_ADOPT)) != 0) {
        membership->reason = "the group exists with other flags";
        return SNOW_INVALID;
    }
    if ((group->flags & WIRE_GROUP_ATOMIC) && (group->flags & GROUP_SHADOW) == 0 && old != 0 &&
        (item->flags & WIRE_PUT_REPLACE)) {
        membership->reason = "members of an atomic group are not replaced one by one";
        return group->state == WIRE_GROUP_RECOVERING ? SNOW_UNKNOWN : SNOW_INVALID;
    }
    status = choose_index(core, group, wanted, old, &membership->index);
    if (status == SNOW_INVALID)
        membership->reason = "no such index in a group of that size";
    if (status == SNOW_OK && !fits_in_pool(core, group, bytes)) {
        membership->reason = "the whole group is larger than the pool";
        return SNOW_LIMIT;
    }
    if (status == SNOW_GROUP_INDEX_CONFLICT && is_still_learned(core, group, wanted, item->key))
        return SNOW_UNKNOWN;
    return status;
}

enum snow_status core_group_admit(struct core *core, struct request *request, uint32_t item,
                                  uint32_t old, struct membership *membership)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_member *member =
        put->members_count == 0 ? NULL : core_member_of(put, item);
    enum snow_status status;

    *membership = (struct membership){.record = 0};
    if (member == NULL)
        return inherit(core, &put->items[item], old, membership);
    const struct wire_put_group *said = &put->groups[member->group];
    bool shadow;

    membership->record = target_of(core, request, item, member, &shadow);
    if (membership->record == 0) {
        if (member->index != WIRE_GROUP_INDEX_ANY &&
            member->index >= (said->size > 0 ? said->size : LIMIT_GROUP_SIZE)) {
            membership->reason = "no such index in a group of that size";
            return SNOW_INVALID;
        }
        status =
            begin_group(core, put, item, said, core_group_said(request, member->group), membership);
        if (status == SNOW_OK && shadow)
            core_group_at(core, membership->record)->flags |= GROUP_SHADOW;
        membership->index = member->index == WIRE_GROUP_INDEX_ANY ? 0 : member->index;
    } else {
        status = join_there(core, put, item, old, membership);
    }
    if (status == SNOW_OK) {
        if (said->parent.size > 0)
            membership->parent = hash_key(CORE_TENANT, said->parent);
        note_member(core, core_group_at(core, membership->record),
                    core_place_bytes(put, item) * put->items[item].replicas);
        return SNOW_OK;
    }
    if (said->size > 0 || status == SNOW_NO_SPACE || status == SNOW_NO_MEMORY)
        return status;
    /* What is wrong with an open group fails no put. */
    core_count(core, CORE_METRIC_group_conflicts, 1);
    *membership = (struct membership){.record = 0};
    return SNOW_OK;
}

enum snow_status core_group_reserve_for(struct core *core, const struct membership *membership,
                                        uint32_t session, uint32_t number)
{
    const struct group *group = core_group_at(core, membership->record);
    enum snow_status status = core_group_writer_add(core, group, session);

    return status != SNOW_OK
               ? status
               : core_group_reserve(core, membership->record, membership->index, number);
}

bool core_group_counts_late(struct core *core, uint32_t number)
{
    struct write *write = core_write_of(core, number);
    struct key_hash id = core_key_hash(core_group_id(core, write->group));
    uint32_t from = write->group;
    struct membership next = {.record = core_group_find(core, &id), .index = write->group_index};

    if (next.record == 0 || core_group_member(core_group_at(core, next.record), next.index) != 0 ||
        core_group_reserve_for(core, &next, write->session, number) != SNOW_OK)
        return false;
    write->group = next.record;
    core_group_unreserve(core, from, next.index, number);
    return true;
}

uint64_t core_group_whole_bytes(const struct core *core, uint32_t record)
{
    const struct group_timer *timer = timer_of(core, core_group_at(core, record));
    uint64_t present = core_group_bytes(core, record);

    return timer != NULL && timer->reserved > present ? timer->reserved : present;
}

/* The group of an item as it is now; NULL: none yet. */
static struct group *group_of_item(const struct core *core, struct request *request, uint32_t item,
                                   const struct wire_put_group **said)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_member *member =
        put->members_count == 0 ? NULL : core_member_of(put, item);

    *said = NULL;
    if (member == NULL)
        return NULL;
    *said = &put->groups[member->group];
    bool shadow;
    uint32_t record = target_of(core, request, item, member, &shadow);

    return record == 0 ? NULL : core_group_at(core, record);
}

bool core_group_must_wait(const struct core *core, struct request *request, uint32_t item)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_group *said;

    if (group_of_item(core, request, item, &said) != NULL || said == NULL || said->size == 0)
        return false;
    return !is_admitted_with(core, whole_bytes(put, item, said));
}

uint64_t core_group_admitted(const struct core *core, struct request *request, uint32_t item)
{
    const struct wire_put_group *said;
    const struct group *group = group_of_item(core, request, item, &said);

    return group != NULL && group->state == WIRE_GROUP_FORMING ? group->ggen : 0;
}

bool core_group_yield(struct core *core, uint64_t ggen)
{
    struct list_link *last = list_last(&core->forming);
    uint32_t record = last == NULL ? 0 : list_entry(last, struct group_timer, forming)->record;

    if (record == 0 || core_group_at(core, record)->ggen == ggen ||
        FAULT(core->faults, groups_block))
        return false;
    core_count(core, CORE_METRIC_groups_yielded, 1);
    give_up(core, record);
    return true;
}

bool core_group_adopt(struct core *core, struct request *request, uint32_t item, uint32_t number)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_member *member =
        put->members_count == 0 ? NULL : core_member_of(put, item);
    struct object *object = core_object(core, number);
    struct membership membership;

    if (member == NULL)
        return true;
    const struct wire_put_group *said = &put->groups[member->group];

    if (object->grouped)
        return bytes_equal(core_group_id(core, object->prev), said->id);
    if ((said->flags & WIRE_GROUP_ADOPT) == 0 || object->size != put->items[item].size ||
        core_group_admit(core, request, item, 0, &membership) != SNOW_OK || membership.record == 0)
        return false;
    core_victim_leave(core, number);
    if (core_group_reserve_for(core, &membership, request->session, number) != SNOW_OK) {
        core_group_dismiss(core, &membership);
        core_victim_return(core, number);
        return false;
    }
    struct hint hint = core_hint_take(core, number);

    core_group_join(core, number, membership.record, membership.index);
    core_group_unreserve(core, membership.record, UINT32_MAX, 0);
    core_victim_enter(core, number);
    if (hint.flags != 0 && core_hint_set(core, number, &hint) != SNOW_OK)
        core_count(core, CORE_METRIC_busy, 1); /* a member without an end: out of memory */
    core_group_bind(core, membership.record, membership.parent);
    core_count(core, CORE_METRIC_members_adopted, 1);
    return true;
}
