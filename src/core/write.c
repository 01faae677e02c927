/* Writing: from the request for places to the moment others can read.
 *
 * Problem.  Many writers, one key; writers that die, repeat themselves, or come back late; values
 *           replaced while they are read.
 * Idea.     Every write attempt has a generation and extents of its own.  put_end publishes it;
 *           whatever else becomes of it, its extents are forgotten.  Nothing published is ever
 *           edited.
 * Invariants.
 *   W1  At most one WRITING record of a key that is no replace.
 *   W2  An open write ends by put_end, put_abort, its deadline, or its session.  Its deadline is
 *       that of its call, until it is renewed; GRANT_NS_MAX after its start at the latest.
 *   W3  Those who wait for another's write are answered EXISTS when it succeeds, and try
 *       themselves when it fails.
 *
 *   ABSENT ─core_put_item─► WRITING ─end_item─► READABLE
 *                              └─core_write_fail─► CLOSING
 * Threads.  The core's own. */
#include "core/group.h"

#include <string.h>

#define GRANT_GRACE_NS NS_PER_S /* a grant outlives its call's deadline by this */
#define GRANT_NS_MAX (600 * NS_PER_S)

struct write *core_write_of(const struct core *core, uint32_t object)
{
    ASSERT(core_object(core, object)->state == OBJECT_WRITING);
    return pool_at(&core->writes, core_object(core, object)->next);
}

/* ---- grants ---- */

void core_answer_write(struct core *core, struct request *request, uint32_t item,
                       const struct key_hash *key, uint32_t number)
{
    struct wire_put_grant *grant = core_answer_grant(core, request, item, SNOW_OK);
    struct hash128 hash = {.low = key->hash, .high = key->high};

    grant->gen = core_object(core, number)->gen;
    grant->flags = core_grant_flags(core, number);
    grant->extra = core_group_extra(core, core_write_of(core, number));
    core_grant_places(core, number, &hash, grant->extra, &grant->places, &grant->places_count);
}

static void on_grant_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    struct write *write = list_entry(timer, struct write, timer);

    core_count(core, CORE_METRIC_puts_expired, 1);
    core_write_fail(core, write->object);
}

uint64_t core_next_gen(struct core *core)
{
    if (core->next_counter >= WIRE_GEN_COUNTER(UINT64_MAX)) {
        core->term++;
        core->next_counter = 0;
        core_output_add(core, CORE_OUT_PERSIST);
    }
    return WIRE_GEN(core->term, ++core->next_counter);
}

/* An end counts from the call on, not from when the grant came. */
static struct hint hint_of(const struct request *request, const struct wire_put_item *item)
{
    return (struct hint){.flags = (item->flags & WIRE_PUT_DONE ? WIRE_HINT_DONE : 0) |
                                  (item->flags & WIRE_PUT_EXPIRES ? WIRE_HINT_EXPIRES : 0) |
                                  (item->priority > 0 ? WIRE_HINT_PRIORITY : 0),
                         .priority = item->priority,
                         .expires_ns = request->started_ns + item->expires_ms * NS_PER_MS};
}

static void open_write(struct core *core, struct request *request, uint32_t index, uint32_t number,
                       uint32_t write_number)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct object *object = core_object(core, number);
    struct session *session = core->sessions[request->session];
    struct write *write = pool_at(&core->writes, write_number);
    uint64_t end_ns = request->deadline_ns;

    if (end_ns > core->now_ns + GRANT_NS_MAX)
        end_ns = core->now_ns + GRANT_NS_MAX;
    list_init(&write->waiters);
    write->operation = put->operation;
    write->since_ns = core->now_ns;
    write->session = request->session;
    write->object = number;
    write->item = put->position + index;
    write->replicas_asked = item->replicas;
    write->pin = item->pin;
    write->pin_ms = item->pin_ms;
    write->hint = hint_of(request, item);
    write->replace = (item->flags & WIRE_PUT_REPLACE) != 0;
    write->group = 0;
    write->ended = false;
    write->bytes = core_object_bytes(core, number);
    write->timer.on_event = on_grant_end;
    wheel_arm(&core->wheel, &write->timer, end_ns + GRANT_GRACE_NS);
    list_push(&session->writes, &write->of_session);
    session->writing_bytes += write->bytes;
    core->writing_bytes += write->bytes;
    object->next = write_number;
    object->state = OBJECT_WRITING;
    core->writing++;
    core_count(core, CORE_METRIC_puts_granted, 1);
    core_count(core, CORE_METRIC_continued_misses, put->continues != 0);
}

/* As the object keeps it: by the caller, else behind the read that the put continues. */
static uint16_t depth_of(struct core *core, const struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;
    uint64_t depth = put->items[index].depth;
    uint32_t base;

    if (depth == WIRE_DEPTH_UNKNOWN) {
        if (put->continues == 0 || !core_read_depth(core, request->session, put->continues, &base))
            return CORE_DEPTH_UNKNOWN;
        depth = (uint64_t)base + 1 + put->position + index;
    }
    return depth < CORE_DEPTH_UNKNOWN ? (uint16_t)depth : CORE_DEPTH_UNKNOWN - 1;
}

/* Room, side records, a write: all or nothing.  NO_SPACE: no room now. */
static enum snow_status take_places(struct core *core, struct request *request, uint32_t index,
                                    uint32_t number, uint32_t *write_number)
{
    struct part parts[LIMIT_EXTENTS];
    uint32_t count = 0;
    enum snow_status status = core_place(core, request, index, number, parts, &count);

    if (status != SNOW_OK)
        return status;
    status = core_parts_set(core, number, parts, count);
    if (status == SNOW_OK)
        status = pool_take(&core->writes, write_number);
    if (status != SNOW_OK) {
        core_parts_drop(core, number);
        core_place_undo(core, parts, count);
        return status;
    }
    core_room_ahead(core, parts, count);
    return SNOW_OK;
}

static void note_size(struct core *core, uint64_t size)
{
    core->largest_recent -= core->largest_recent / 256;
    if (size > core->largest_recent)
        core->largest_recent = size;
}

/* Makes the record and answers with the grant.  beside: a value of the key is there.  NO_SPACE: no
 * room now. */
static enum snow_status grant_item(struct core *core, struct request *request, uint32_t index,
                                   const struct key_hash *key, bool beside,
                                   struct membership *membership)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    uint32_t write_number;
    uint32_t number = core_object_create(core, key->key, key->hash);

    if (number == 0)
        return SNOW_NO_MEMORY;
    struct object *object = core_object(core, number);

    object->size = item->size & OBJECT_SIZE_MASK;
    enum snow_status status = SNOW_OK;

    /* Its group first: room is not to be made by evicting that. */
    if (membership->record != 0)
        status = core_group_reserve_for(core, membership, request->session, number);
    if (status != SNOW_OK) {
        core_object_free(core, number);
        return status;
    }
    status = take_places(core, request, index, number, &write_number);
    if (status != SNOW_OK) {
        if (membership->record != 0) /* it goes with that, if nothing else is in it */
            core_group_unreserve(core, membership->record, membership->index, number);
        membership->record = 0;
        core_object_free(core, number);
        return status;
    }
    object->depth = depth_of(core, request, index);
    object->gen = core_next_gen(core);
    /* Also when the value it takes the place of is only hidden, on a silent node. */
    if ((item->flags & WIRE_PUT_REPLACE) || beside)
        object_flag(object, OBJECT_REPLACED);
    note_size(core, item->size);
    open_write(core, request, index, number, write_number);
    struct write *write = core_write_of(core, number);

    write->group = membership->record;
    write->group_index = membership->index;
    write->group_parent = membership->parent;
    core_answer_write(core, request, index, key, number);
    return SNOW_OK;
}

/* ---- put_start ---- */

static bool item_is_valid(const struct core *core, const struct wire_put_item *item)
{
    return core_pin_is_valid(core, item->pin, item->pin_ms) && item->key.size >= 1 &&
           item->key.size <= LIMIT_KEY_SIZE && item->replicas >= 1 &&
           item->replicas <= LIMIT_REPLICAS && item->priority <= WIRE_PRIORITY_MAX &&
           (item->flags & ~(WIRE_PUT_REPLACE | WIRE_PUT_DONE | WIRE_PUT_EXPIRES)) == 0;
}

/* NO_SPACE: it is not answered, it has to wait. */
static enum snow_status answer_item(struct core *core, struct request *request, uint32_t index,
                                    const struct key_hash *key, bool queue_first)
{
    const struct wire_put_start_req *put = request->message;
    uint32_t old;

    if (core->expiry_pool.used > 0)
        core_expire_due(core, core_object_find(core, key->key, key->hash, OBJECT_READABLE));
    if (core_put_settle(core, request, index, key, &old))
        return SNOW_OK;
    if (queue_first && !list_is_empty(&core->room) &&
        !(put->members_count > 0 && core_group_admitted(core, request, index) != 0))
        return SNOW_NO_SPACE;
    struct membership membership;
    enum snow_status status = core_group_admit(core, request, index, old, &membership);

    if (status == SNOW_OK) {
        status = grant_item(core, request, index, key, old != 0, &membership);
        if (status != SNOW_OK)
            core_group_dismiss(core, &membership);
    }
    if (status == SNOW_OK || status == SNOW_NO_SPACE)
        return status;
    if (status != SNOW_NO_MEMORY) {
        struct wire_put_grant *refusal = core_answer_grant(core, request, index, status);

        refusal->reason = bytes_of_string(membership.reason == NULL ? "" : membership.reason);
        return SNOW_OK;
    }
    struct wire_put_grant *grant = core_answer_grant(core, request, index, SNOW_BUSY);

    grant->hint_ms = 100;
    core_count(core, CORE_METRIC_busy, 1);
    return SNOW_OK;
}

static struct key_hash hash_of(const struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;

    return core_key_hash(put->items[index].key);
}

static void put_item(struct core *core, struct request *request, uint32_t index,
                     const struct key_hash *key)
{
    if (answer_item(core, request, index, key, true) != SNOW_NO_SPACE)
        return;
    /* Nothing will be joined for who does not wait: pieces of any size serve it as well. */
    if (request->wait_ns == 0 && !request->scraps) {
        request->scraps = true;
        if (answer_item(core, request, index, key, true) != SNOW_NO_SPACE)
            return;
    }
    core_room_wait(core, request, index);
}

void core_put_item(struct core *core, struct request *request, uint32_t index)
{
    struct key_hash key = hash_of(request, index);

    put_item(core, request, index, &key);
}

bool core_room_try(struct core *core, struct request *request, uint32_t index)
{
    struct key_hash key = hash_of(request, index);

    return answer_item(core, request, index, &key, false) == SNOW_OK;
}

/* Existing objects count as put: touched as new ones would be, deepest first.  This is the first
 * look at their buckets. */
static void touch_existing(struct core *core, const struct wire_put_start_req *put,
                           const struct key_hash *keys)
{
    for (uint32_t i = 0; i < put->items_count; i++)
        index_touch(core->index, keys[i].hash);
    for (uint32_t i = put->items_count; i-- > 0;) {
        const struct wire_put_item *item = &put->items[i];
        uint32_t number;

        if (item->flags & WIRE_PUT_REPLACE || item->key.size == 0)
            continue;
        number = core_object_find(core, item->key, keys[i].hash, OBJECT_READABLE);
        if (number != 0 && !core_expire_due(core, number))
            core_victim_touch(core, number, true);
    }
}

/* The messages of one put are placed as if they were one; members beside those that their group
 * has; what continues a chain beside its end. */
static void follow_put(struct core *core, struct request *request)
{
    const struct wire_put_start_req *put = request->message;
    const struct session *session = core->sessions[request->session];

    if (session->put_operation == put->operation && session->put_segment < core->segment_count) {
        request->segment = session->put_segment;
        request->placed = session->put_placed;
        return;
    }
    if (put->segment.size > 0 || put->host.size > 0)
        return;
    if (put->groups_count > 0)
        request->segment = core_group_segment(core, core_group_find_said(core, request, 0));
    if (request->segment == UINT16_MAX && put->continues != 0)
        request->segment = core_read_segment(core, request->session, put->continues);
}

static void remember_put(struct core *core, const struct request *request)
{
    const struct wire_put_start_req *put = request->message;
    struct session *session = core->sessions[request->session];

    session->put_operation = put->operation;
    session->put_segment = request->segment;
    session->put_placed = request->placed;
}

void core_put_start(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_put_start_req *put = input->message;
    struct request *request = core_request_open(core, input, session, put->items_count);

    if (request == NULL)
        return;
    struct key_hash *keys = core_out(core, put->items_count, sizeof(*keys));
    bool groups_are_valid = core_put_groups_are_valid(put);

    for (uint32_t i = 0; i < put->items_count; i++)
        keys[i] = core_key_hash(put->items[i].key);
    request->wait_ns = (uint64_t)put->wait_ms * NS_PER_MS;
    follow_put(core, request);
    core_read_continued(core, session, put->continues);
    touch_existing(core, put, keys);
    for (uint32_t i = 0; i < put->items_count; i++) {
        const struct wire_put_item *item = &put->items[i];

        if (!groups_are_valid)
            core_answer_grant(core, request, i, SNOW_INVALID)->reason =
                bytes_of_string("group id, size or flags out of range, or no such item or group");
        else if (!item_is_valid(core, item))
            core_answer_grant(core, request, i, SNOW_INVALID)->reason =
                bytes_of_string("key size, copies, pin, priority or flags out of range");
        else if (item->size > LIMIT_OBJECT_SIZE)
            core_answer_grant(core, request, i, SNOW_LIMIT)->reason =
                bytes_of_string("object larger than the limit");
        else
            put_item(core, request, i, &keys[i]);
    }
    remember_put(core, request);
}

/* ---- the end of a write ---- */

/* It is its session's no more. */
static void leave_session(struct core *core, struct write *write)
{
    struct session *session = core->sessions[write->session];

    wheel_cancel(&core->wheel, &write->timer);
    list_remove(&write->of_session);
    session->writing_bytes -= write->bytes;
    core->writing_bytes -= write->bytes;
    write->session = UINT32_MAX;
    core_room_return(core, session);
}

void core_write_detach(struct core *core, uint32_t object, struct list *waiters)
{
    uint32_t number = core_object(core, object)->next;
    struct write *write = core_write_of(core, object);

    list_take_all(waiters, &write->waiters);
    if (!write->ended)
        leave_session(core, write);
    core->writing--;
    pool_give(&core->writes, number);
}

/* Those that waited for this write try again by themselves. */
static void release_waiters(struct core *core, struct list *waiters)
{
    struct list_link *link;

    while ((link = list_pop(waiters)) != NULL) {
        struct waiter *waiter = list_entry(link, struct waiter, link);
        struct request *request = waiter->request;
        uint32_t item = waiter->item;

        core_waiter_end(core, waiter);
        core_put_item(core, request, item);
    }
}

void core_write_fail(struct core *core, uint32_t object)
{
    uint32_t group = core_write_of(core, object)->group;
    uint32_t index = core_write_of(core, object)->group_index;
    struct list waiters;

    if (core_write_of(core, object)->ended)
        core_shadow_lost(core, group);
    core_write_detach(core, object, &waiters);
    core_close(core, object, CLOSE_ABORTED);
    if (group != 0)
        core_group_unreserve(core, group, index, object);
    release_waiters(core, &waiters);
}

/* Bits of the replicas that were granted, and of those whose nodes still hold them. */
static void replica_masks(const struct core *core, uint32_t number, uint16_t *granted,
                          uint16_t *held)
{
    uint32_t count = core_part_count(core, number);
    enum access accesses[LIMIT_REPLICAS];

    if ((core_object(core, number)->flags & OBJECT_SPREAD) == 0) {
        *granted = (uint16_t)count;
        *held = core_object_access(core, number) != ACCESS_NONE;
        return;
    }
    *granted = 0;
    *held = 0;
    for (uint32_t i = 0; i < count; i++)
        *granted = (uint16_t)(*granted | 1u << core_part_at(core, number, i).replica);
    core_replica_accesses(core, number, accesses);
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++) {
        if (accesses[replica] != ACCESS_NONE)
            *held = (uint16_t)(*held | 1u << replica);
    }
}

/* Its place may have been taken meanwhile by another key: then it is in none.  A younger write of
 * the same key is to replace it.  replaces: a member was there until now. */
static void become_member(struct core *core, uint32_t number, const struct write *write,
                          bool replaces)
{
    struct group *group = core_group_at(core, write->group);
    uint32_t there = core_group_member(group, write->group_index);

    if (there != 0 && there != number && core_object(core, there)->state == OBJECT_WRITING &&
        bytes_equal(core_object_key(core, there), core_object_key(core, number)))
        group->members[write->group_index] = there = 0;
    if (there == 0 || there == number) {
        group->version += replaces || group->state == WIRE_GROUP_DEGRADED;
        core_group_join(core, number, write->group, write->group_index);
        core_group_bind(core, write->group, write->group_parent);
    } else {
        core_count(core, CORE_METRIC_group_conflicts, 1);
    }
    core_group_unreserve(core, write->group, UINT32_MAX, 0);
}

void core_write_finish(struct core *core, uint32_t number, const struct write *write)
{
    core_object(core, number)->uses = 1;
    core_victim_enter(core, number);
    core_count(core, CORE_METRIC_puts_done, 1);
    if (write->pin != WIRE_PIN_NONE &&
        core_pin_set(core, number, write->pin, write->pin_ms) != SNOW_OK)
        core_count(core, CORE_METRIC_pins_refused, 1); /* stored, not pinned */
    if (write->hint.flags != 0 && core_hint_set(core, number, &write->hint) != SNOW_OK)
        core_count(core, CORE_METRIC_busy, 1); /* stored, without an end: out of memory */
    core_group_waits_came(core, number);
}

/* The write is a value now, or it came second in the cluster's order: a younger one is there.  old:
 * the value of the key; 0: none. */
static void publish(struct core *core, uint32_t number, uint32_t old)
{
    struct object *object = core_object(core, number);
    struct write write = *core_write_of(core, number);
    struct list waiters;

    core_write_detach(core, number, &waiters);
    if (old != 0 && core_object(core, old)->gen > object->gen) {
        core_close(core, number, CLOSE_REPLACED);
        if (write.group != 0)
            core_group_unreserve(core, write.group, write.group_index, number);
    } else {
        bool replaces = old != 0 && core_object(core, old)->grouped &&
                        core_object(core, old)->prev == write.group;

        if (old != 0)
            core_close(core, old, CLOSE_REPLACED);
        core_apply_publish(core, number);
        if (write.group != 0)
            become_member(core, number, &write, replaces);
        core_write_finish(core, number, &write);
    }
    release_waiters(core, &waiters);
}

/* It is to be seen together with the others of its shadow. */
static void keep_written(struct core *core, uint32_t number)
{
    struct write *write = core_write_of(core, number);
    uint32_t group = write->group;
    struct list waiters;

    list_take_all(&waiters, &write->waiters);
    leave_session(core, write);
    write->ended = true;
    core_shadow_written(core, number);
    release_waiters(core, &waiters);
    core_shadow_settle(core, group);
}

static void end_write(struct core *core, uint32_t number, uint32_t old)
{
    const struct write *write = core_write_of(core, number);

    if (write->ended)
        return; /* asked again */
    if (core_write_is_shadow(core, write))
        keep_written(core, number);
    else
        publish(core, number, old);
}

/* Settles which copies the write has.  OK: *shortfall tells how many fewer than asked; GONE: those
 * that were written are lost. */
static enum snow_status settle_copies(struct core *core, uint32_t number, uint16_t written,
                                      uint32_t *shortfall)
{
    uint32_t asked = core_write_of(core, number)->replicas_asked;
    uint16_t granted;
    uint16_t held;

    replica_masks(core, number, &granted, &held);
    if (written == 0 || (written & ~granted) != 0)
        return SNOW_INVALID;
    written = (uint16_t)(written & held);
    if (written == 0) {
        core_write_fail(core, number);
        return SNOW_GONE;
    }
    if (core_node_note_ended(core, number) != SNOW_OK ||
        (written != granted && core_parts_split(core, number, written) != SNOW_OK))
        return SNOW_BUSY;
    *shortfall = asked - (uint32_t)__builtin_popcount(written);
    return SNOW_OK;
}

/* What is gone may still lie on a node that is missing. */
static enum snow_status certainly(const struct core *core)
{
    return core_is_ready(core) ? SNOW_OK : SNOW_UNCERTAIN;
}

static enum snow_status missing_gen(const struct core *core)
{
    return core_is_ready(core) ? SNOW_GONE : SNOW_UNKNOWN;
}

static bool group_is_closing(const struct core *core, uint32_t number)
{
    uint32_t group = core_write_of(core, number)->group;

    return group != 0 && core_group_at(core, group)->state == WIRE_GROUP_CLOSING;
}

static enum snow_status fail_late(struct core *core, uint32_t number)
{
    core_write_fail(core, number);
    return SNOW_GONE;
}

static void end_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_end_req *end = request->message;
    const struct wire_written *item = &end->items[index];
    struct key_hash key = core_key_hash(item->key);
    uint32_t old;
    uint32_t number = core_object_find_gen(core, &key, item->gen, &old);
    uint32_t shortfall = 0;
    enum snow_status status = SNOW_OK;
    enum object_state state = number == 0 ? OBJECT_ABSENT : core_object(core, number)->state;

    if (state == OBJECT_ABSENT)
        status = missing_gen(core);
    else if (state == OBJECT_RECOVERING)
        status = SNOW_UNKNOWN;
    else if (state == OBJECT_CLOSING)
        status = SNOW_GONE;
    else if (state == OBJECT_WRITING && group_is_closing(core, number) &&
             !(FAULT(core->faults, late_end) && core_group_counts_late(core, number)))
        status = fail_late(core, number);
    else if (state == OBJECT_WRITING && !core_write_of(core, number)->ended)
        status = settle_copies(core, number, item->replicas, &shortfall);
    if (status != SNOW_OK) {
        core_answer_status(core, request, index, status, 0, 0);
        return;
    }
    bool replaces = (core_object(core, number)->flags & OBJECT_REPLACED) != 0;

    if (state == OBJECT_WRITING)
        end_write(core, number, old);
    /* Asked again it is READABLE already; what it replaced may still be on its way out, or lie on a
     * node that is still missing. */
    if (replaces)
        core_close_wait(core, key, request, index, certainly(core), shortfall);
    else
        core_answer_status(core, request, index, SNOW_OK, shortfall, 0);
}

void core_put_end(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_put_end_req *end = input->message;
    struct request *request = core_request_open(core, input, session, end->items_count);

    if (request == NULL)
        return;
    for (uint32_t i = end->items_count; i-- > 0;)
        end_item(core, request, i); /* deepest first */
    if (end->continues != 0)
        core_read_touch(core, session, end->continues);
}

/* ---- put_renew ---- */

static enum snow_status renew_write(struct core *core, uint32_t number, uint32_t session,
                                    uint64_t until_ns)
{
    struct write *write;
    uint64_t last_ns;

    if (number == 0 || core_object(core, number)->state != OBJECT_WRITING)
        return number == 0 ? missing_gen(core) : SNOW_GONE;
    write = core_write_of(core, number);
    if (write->session != session)
        return SNOW_GONE;
    last_ns = write->since_ns + GRANT_NS_MAX;
    if (core->now_ns >= last_ns)
        return SNOW_LIMIT;
    wheel_cancel(&core->wheel, &write->timer);
    wheel_arm(&core->wheel, &write->timer,
              (until_ns < last_ns ? until_ns : last_ns) + GRANT_GRACE_NS);
    core_count(core, CORE_METRIC_puts_renewed, 1);
    return SNOW_OK;
}

void core_put_renew(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_put_renew_req *renew = input->message;
    struct request *request = core_request_open(core, input, session, renew->items_count);
    uint64_t until_ns = core->now_ns + renew->for_ms * NS_PER_MS;

    if (request == NULL)
        return;
    for (uint32_t i = 0; i < renew->items_count; i++) {
        const struct wire_key_gen *item = &renew->items[i];
        struct key_hash key = core_key_hash(item->key);
        uint32_t number = core_object_find_gen(core, &key, item->gen, NULL);

        core_answer_status(core, request, i, renew_write(core, number, session, until_ns), 0, 0);
    }
}

static void abort_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_abort_req *abort = request->message;
    const struct wire_key_gen *item = &abort->items[index];
    struct key_hash key = core_key_hash(item->key);
    uint32_t number = core_object_find_gen(core, &key, item->gen, NULL);
    enum object_state state = number == 0 ? OBJECT_ABSENT : core_object(core, number)->state;

    if ((state != OBJECT_WRITING || core_write_of(core, number)->ended) &&
        state != OBJECT_CLOSING) {
        core_answer_status(core, request, index, number == 0 ? missing_gen(core) : SNOW_GONE, 0, 0);
        return;
    }
    if (state == OBJECT_WRITING) {
        core_count(core, CORE_METRIC_puts_aborted, 1);
        core_write_fail(core, number);
    }
    core_close_wait(core, key, request, index, certainly(core), 0);
}

void core_put_abort(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_put_abort_req *abort = input->message;
    struct request *request = core_request_open(core, input, session, abort->items_count);

    if (request == NULL)
        return;
    for (uint32_t i = 0; i < abort->items_count; i++)
        abort_item(core, request, i);
}
