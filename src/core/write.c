/* Writing: from the request for places to the moment others can read.
 *
 * Problem.  Many writers, one key; writers that die, repeat themselves, or come back late; values
 * replaced while they
 *           are read.
 * Idea.     Every write attempt has a generation and extents of its own.  put_end publishes it;
 * whatever else becomes of
 *           it, its extents are forgotten.  Nothing published is ever edited.
 * Invariants.
 *   W1  At most one WRITING record of a key that is no replace.
 *   W2  An open write ends by put_end, put_abort, its deadline, or its session.
 *   W3  Those who wait for another's write are answered EXISTS when it succeeds, and try
 *       themselves when it fails.
 *
 *   ABSENT ─core_put_item─► WRITING ─end_item─► READABLE
 *                              └─core_write_fail─► CLOSING
 * Threads.  The core's own. */
#include "core/inside.h"

#include <string.h>

#define GRANT_GRACE_NS NS_PER_S /* a grant outlives its call's deadline by this */
#define GRANT_NS_MAX (600 * NS_PER_S)

struct write *core_write_of(const struct core *core, uint32_t object)
{
    ASSERT(core_object(core, object)->state == OBJECT_WRITING);
    return pool_at(&core->writes, core_object(core, object)->next);
}

/* ---- grants ---- */

static void answer_with_grant(struct core *core, struct request *request, uint32_t item,
                              uint32_t number)
{
    struct wire_put_grant *grant = core_answer_grant(core, request, item, SNOW_OK);

    grant->gen = core_object(core, number)->gen;
    core_places_fill(core, number, true, &grant->places, &grant->places_count);
}

static void on_grant_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    struct write *write = list_entry(timer, struct write, timer);

    core_count(core, CORE_METRIC_puts_expired, 1);
    core_write_fail(core, write->object);
}

static uint64_t next_gen(struct core *core)
{
    if (core->next_counter >= WIRE_GEN_COUNTER(UINT64_MAX)) {
        core->term++;
        core->next_counter = 0;
        core_output_add(core, CORE_OUT_PERSIST);
    }
    return WIRE_GEN(core->term, ++core->next_counter);
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
    write->session = request->session;
    write->object = number;
    write->item = put->position + index;
    write->replicas_asked = item->replicas;
    write->pin = item->pin;
    write->pin_ms = item->pin_ms;
    write->replace = (item->flags & WIRE_PUT_REPLACE) != 0;
    write->bytes = core_object_bytes(core, number);
    write->timer.on_event = on_grant_end;
    wheel_arm(&core->wheel, &write->timer, end_ns + GRANT_GRACE_NS);
    list_push(&session->writes, &write->of_session);
    session->writing_bytes += write->bytes;
    object->next = write_number;
    object->state = OBJECT_WRITING;
    core->writing++;
    core_count(core, CORE_METRIC_puts_granted, 1);
}

static uint32_t depth_of(struct core *core, const struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;
    uint32_t base;

    if (put->items[index].depth != WIRE_DEPTH_UNKNOWN)
        return put->items[index].depth;
    if (put->continues == 0 || !core_read_depth(core, request->session, put->continues, &base))
        return CORE_DEPTH_UNKNOWN;
    return base + 1 + put->position + index;
}

/* Takes room and makes the record.  NO_SPACE: no room now. */
static enum snow_status grant_item(struct core *core, struct request *request, uint32_t index,
                                   uint64_t hash)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct part parts[LIMIT_PARTS * LIMIT_REPLICAS];
    uint32_t count = 0;
    uint32_t write_number;
    uint32_t number = core_object_create(core, item->key, hash);

    if (number == 0)
        return SNOW_NO_MEMORY;
    struct object *object = core_object(core, number);

    object->size = item->size & ((UINT64_C(1) << 41) - 1);
    enum snow_status status = core_place(core, request, index, number, parts, &count);

    if (status == SNOW_OK) {
        status = core_parts_set(core, number, parts, count);
        if (status == SNOW_OK)
            status = pool_take(&core->writes, &write_number);
        if (status != SNOW_OK)
            core_place_undo(core, parts, count);
    }
    if (status != SNOW_OK) {
        core_parts_drop(core, number);
        core_object_free(core, number);
        return status;
    }
    uint32_t depth = depth_of(core, request, index);

    object->depth = depth < CORE_DEPTH_UNKNOWN ? (uint16_t)depth : CORE_DEPTH_UNKNOWN;
    object->gen = next_gen(core);
    if (item->flags & WIRE_PUT_REPLACE)
        object_flag(object, OBJECT_REPLACED);
    if (item->size > core->largest_recent)
        core->largest_recent = item->size;
    open_write(core, request, index, number, write_number);
    answer_with_grant(core, request, index, number);
    core_room_ahead(core, core->segments[object->segment]);
    return SNOW_OK;
}

/* ---- put_start ---- */

static bool item_is_valid(const struct wire_put_item *item)
{
    return item->key.size >= 1 && item->key.size <= LIMIT_KEY_SIZE && item->replicas >= 1 &&
           item->replicas <= LIMIT_REPLICAS && item->pin <= WIRE_PIN_HARD &&
           (item->flags & ~WIRE_PUT_REPLACE) == 0;
}

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

/* What the records of its key mean for a put: answered or waiting (true), or it needs a grant
 * (false). */
static bool settle_with_others(struct core *core, struct request *request, uint32_t index,
                               uint64_t hash)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, item->key, hash, &cursor);
    uint32_t readable = 0;
    uint32_t writing = 0;

    for (; number != 0; number = core_object_next(&cursor)) {
        const struct object *object = core_object(core, number);

        if (object->state == OBJECT_READABLE && core_object_access(core, number) == ACCESS_NOW) {
            readable = number;
        } else if (object->state == OBJECT_WRITING) {
            const struct write *write = core_write_of(core, number);

            if (write->session == request->session && write->operation == put->operation &&
                write->item == put->position + index && object->size == item->size) {
                answer_with_grant(core, request, index, number); /* asked again */
                return true;
            }
            if (!write->replace)
                writing = number;
        }
    }
    if (item->flags & WIRE_PUT_REPLACE)
        return false;
    if (readable != 0) {
        struct wire_put_grant *grant = core_answer_grant(core, request, index, SNOW_EXISTS);

        grant->gen = core_object(core, readable)->gen;
        core_count(core, CORE_METRIC_puts_existed, 1);
        return true;
    }
    if (writing != 0) {
        wait_for_writer(core, request, index, writing);
        return true;
    }
    return false;
}

/* NO_SPACE: it is not answered, it has to wait. */
static enum snow_status answer_item(struct core *core, struct request *request, uint32_t index,
                                    bool queue_first)
{
    const struct wire_put_start_req *put = request->message;
    uint64_t hash = hash_key(CORE_TENANT, put->items[index].key).low;

    if (settle_with_others(core, request, index, hash))
        return SNOW_OK;
    if (queue_first && !list_is_empty(&core->room))
        return SNOW_NO_SPACE;
    enum snow_status status = grant_item(core, request, index, hash);

    if (status == SNOW_OK || status == SNOW_NO_SPACE)
        return status;
    struct wire_put_grant *grant = core_answer_grant(core, request, index, SNOW_BUSY);

    grant->hint_ms = 100;
    core_count(core, CORE_METRIC_busy, 1);
    return SNOW_OK;
}

void core_put_item(struct core *core, struct request *request, uint32_t index)
{
    if (answer_item(core, request, index, true) == SNOW_NO_SPACE)
        core_room_wait(core, request, index);
}

bool core_room_try(struct core *core, struct request *request, uint32_t index)
{
    return answer_item(core, request, index, false) == SNOW_OK;
}

/* Existing objects count as put: touched as new ones would be, deepest first. */
static void touch_existing(struct core *core, const struct wire_put_start_req *put)
{
    for (uint32_t i = put->items_count; i-- > 0;) {
        const struct wire_put_item *item = &put->items[i];
        uint32_t number;

        if (item->flags & WIRE_PUT_REPLACE || item->key.size == 0)
            continue;
        number = core_object_find(core, item->key, hash_key(CORE_TENANT, item->key).low,
                                  OBJECT_READABLE);
        if (number != 0)
            core_victim_touch(core, number, true);
    }
}

void core_put_start(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_put_start_req *put = input->message;
    struct request *request = core_request_open(core, input, session, put->items_count);

    if (request == NULL)
        return;
    request->wait_ns = (uint64_t)put->wait_ms * NS_PER_MS;
    touch_existing(core, put);
    for (uint32_t i = 0; i < put->items_count; i++) {
        const struct wire_put_item *item = &put->items[i];

        if (!item_is_valid(item))
            core_answer_grant(core, request, i, SNOW_INVALID)->reason =
                bytes_of_string("key size, copies, pin or flags out of range");
        else if (item->size > LIMIT_OBJECT_SIZE)
            core_answer_grant(core, request, i, SNOW_LIMIT)->reason =
                bytes_of_string("object larger than the limit");
        else
            core_put_item(core, request, i);
    }
}

/* ---- the end of a write ---- */

void core_write_detach(struct core *core, uint32_t object, struct list *waiters)
{
    uint32_t number = core_object(core, object)->next;
    struct write *write = core_write_of(core, object);
    struct session *session = core->sessions[write->session];
    struct list_link *link;

    list_init(waiters);
    while ((link = list_pop(&write->waiters)) != NULL)
        list_push(waiters, link);
    wheel_cancel(&core->wheel, &write->timer);
    list_remove(&write->of_session);
    session->writing_bytes -= write->bytes;
    core->writing--;
    core->room_changed = true; /* the session's bound may have room again */
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
    struct list waiters;

    core_write_detach(core, object, &waiters);
    core_close(core, object, CLOSE_ABORTED);
    release_waiters(core, &waiters);
}

static uint32_t count_replicas(uint16_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

static uint16_t whole_replicas(const struct core *core, uint32_t number)
{
    uint32_t count = core_part_count(core, number);
    uint16_t mask = 0;

    for (uint32_t i = 0; i < count; i++)
        mask = (uint16_t)(mask | 1u << core_part_at(core, number, i).replica);
    return mask;
}

/* A version of the key that can be read and is younger: this write came second in the cluster's
 * order. */
static uint32_t readable_of(struct core *core, struct bytes key, uint64_t hash)
{
    return core_object_find(core, key, hash, OBJECT_READABLE);
}

static void publish(struct core *core, struct request *request, uint32_t index, uint32_t number,
                    uint32_t shortfall)
{
    struct object *object = core_object(core, number);
    struct bytes key = core_object_key(core, number);
    uint64_t hash = core_object_hash(core, number);
    uint32_t old = readable_of(core, key, hash);
    struct write write = *core_write_of(core, number);
    struct list waiters;

    core_write_detach(core, number, &waiters);
    if (old != 0 && core_object(core, old)->gen > object->gen) {
        core_close(core, number, CLOSE_REPLACED); /* superseded before it was there */
        core_answer_status(core, request, index, SNOW_OK, shortfall, 0);
        release_waiters(core, &waiters);
        return;
    }
    if (old != 0)
        core_close(core, old, CLOSE_REPLACED);
    core_apply_publish(core, number);
    object->uses = 1;
    core_victim_enter(core, number);
    core_count(core, CORE_METRIC_puts_done, 1);
    if (write.pin != WIRE_PIN_NONE &&
        core_pin_set(core, number, write.pin, write.pin_ms) != SNOW_OK)
        core_count(core, CORE_METRIC_busy, 1); /* the budget of hard pins: stored, not pinned */
    release_waiters(core, &waiters);
    if (old == 0 || !core_object_is_closing(core, old) ||
        !core_close_wait(core, old, request, index, SNOW_OK, shortfall))
        core_answer_status(core, request, index, SNOW_OK, shortfall, 0);
}

static enum snow_status missing_gen(const struct core *core)
{
    return core_is_ready(core) ? SNOW_GONE : SNOW_UNKNOWN;
}

static void end_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_end_req *end = request->message;
    const struct wire_written *item = &end->items[index];
    uint64_t hash = hash_key(CORE_TENANT, item->key).low;
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, item->key, hash, &cursor);

    while (number != 0 && core_object(core, number)->gen != item->gen)
        number = core_object_next(&cursor);
    if (number == 0) {
        core_answer_status(core, request, index, missing_gen(core), 0, 0);
        return;
    }
    switch ((enum object_state)core_object(core, number)->state) {
    case OBJECT_READABLE:
        core_answer_status(core, request, index, SNOW_OK, 0, 0);
        return;
    case OBJECT_RECOVERING:
        core_answer_status(core, request, index, SNOW_UNKNOWN, 0, 0);
        return;
    case OBJECT_WRITING:
        break;
    default:
        core_answer_status(core, request, index, SNOW_GONE, 0, 0);
        return;
    }
    uint32_t asked = core_write_of(core, number)->replicas_asked;

    if (item->replicas == 0 || (item->replicas & ~whole_replicas(core, number)) != 0) {
        core_answer_status(core, request, index, SNOW_INVALID, 0, 0);
        return;
    }
    if (item->replicas != whole_replicas(core, number) &&
        core_parts_split(core, number, item->replicas) != SNOW_OK) {
        core_answer_status(core, request, index, SNOW_BUSY, 0, 0);
        return;
    }
    publish(core, request, index, number, asked - count_replicas(item->replicas));
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

static void abort_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_abort_req *abort = request->message;
    const struct wire_key_gen *item = &abort->items[index];
    uint64_t hash = hash_key(CORE_TENANT, item->key).low;
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, item->key, hash, &cursor);

    while (number != 0 && core_object(core, number)->gen != item->gen)
        number = core_object_next(&cursor);
    if (number != 0 && core_object(core, number)->state == OBJECT_WRITING) {
        core_count(core, CORE_METRIC_puts_aborted, 1);
        core_write_fail(core, number);
    }
    if (number == 0 || core_object(core, number)->state != OBJECT_CLOSING ||
        !core_close_wait(core, number, request, index, SNOW_OK, 0))
        core_answer_status(core, request, index, number == 0 ? missing_gen(core) : SNOW_GONE, 0, 0);
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
