/* Pins: soft ones are evicted last, until a deadline; hard ones never, within a budget of bytes.
 *
 * Invariants.
 *   N1  Only READABLE objects are pinned; a pin ends with its object.
 *   N2  hard_pinned_bytes <= hard_pin_percent of the pool when a pin is given.  A hard pin of a
 *       member protects its group: the bytes of all of them count.
 * Threads.  The core's own. */
#include "core/group.h"

bool core_pin_counts(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    return (object->flags & OBJECT_HARD_PIN) != 0 ||
           (object->grouped && (core_object(core, object->prev)->flags & OBJECT_HARD_PIN) != 0);
}

/* ---- groups ---- */

/* The bytes of its members that count now. */
static uint64_t counted_bytes(const struct core *core, const struct group *group)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->grouped && core_pin_counts(core, number))
            bytes += core_object_bytes(core, number);
    }
    return bytes;
}

/* Flags that its members have. */
static uint32_t pins_of(const struct core *core, const struct group *group)
{
    uint32_t pins = 0;

    for (uint32_t i = 0; i < group->capacity; i++) {
        uint32_t number = group->members[i];

        if (number != 0 && core_object(core, number)->grouped)
            pins |= core_object(core, number)->flags;
    }
    return pins & (OBJECT_SOFT_PIN | OBJECT_HARD_PIN);
}

bool core_group_is_hard(const struct core *core, const struct group *group)
{
    return (pins_of(core, group) & OBJECT_HARD_PIN) != 0;
}

void core_group_pin(struct core *core, uint32_t record)
{
    const struct group *group = core_group_at(core, record);
    uint32_t pins = OBJECT_SOFT_PIN | OBJECT_HARD_PIN;

    if (group->state == WIRE_GROUP_CLOSING)
        return; /* it goes, with what counts of it */
    core_victim_leave(core, record);
    core->hard_pinned_bytes -= counted_bytes(core, group);
    object_unflag(core_object(core, record), pins);
    object_flag(core_object(core, record), pins_of(core, group));
    core->hard_pinned_bytes += counted_bytes(core, group);
    core_victim_return(core, record);
}

void core_group_pinned(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if ((object->flags & OBJECT_HARD_PIN) == 0 && core_pin_counts(core, number))
        core->hard_pinned_bytes += core_object_bytes(core, number);
    if (object->flags & (OBJECT_SOFT_PIN | OBJECT_HARD_PIN))
        core_group_pin(core, object->prev);
}

void core_group_unpinned(struct core *core, uint32_t number)
{
    ASSERT((core_object(core, number)->flags & OBJECT_HARD_PIN) == 0);
    if (core_pin_counts(core, number))
        core->hard_pinned_bytes -= core_object_bytes(core, number);
}

/* ---- pins ---- */

static struct pin *find_pin(const struct core *core, uint32_t number, uint32_t *index)
{
    struct index_cursor cursor;
    uint32_t at = index_first(core->pins, core_mix(number), &cursor);

    for (; at != 0; at = index_next(&cursor)) {
        struct pin *pin = pool_at(&core->pin_pool, at);

        if (pin->object == number) {
            *index = at;
            return pin;
        }
    }
    return NULL;
}

static void drop_timer(struct core *core, uint32_t number)
{
    uint32_t index;
    struct pin *pin = find_pin(core, number, &index);

    if (pin == NULL)
        return;
    wheel_cancel(&core->wheel, &pin->timer);
    index_remove(core->pins, core_mix(number), index);
    pool_give(&core->pin_pool, index);
}

static void on_pin_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    uint32_t number = list_entry(timer, struct pin, timer)->object;

    drop_timer(core, number);
    core_apply_pin(core, number, 0);
}

/* The object goes: with its pin. */
void core_pin_forget(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    if ((object->flags & (OBJECT_SOFT_PIN | OBJECT_HARD_PIN)) == 0)
        return;
    drop_timer(core, number);
    core_apply_pin(core, number, 0);
    core_victim_leave(core, number);
}

/* The pin's timer, its own or a new one. */
static enum snow_status arm_timer(struct core *core, uint32_t number, uint64_t pin_ns)
{
    uint32_t index;
    struct pin *pin = find_pin(core, number, &index);

    if (pin == NULL) {
        enum snow_status status = pool_take(&core->pin_pool, &index);

        if (status != SNOW_OK)
            return status;
        pin = pool_at(&core->pin_pool, index);
        status = index_insert(core->pins, core_mix(number), index);
        if (status != SNOW_OK) {
            pool_give(&core->pin_pool, index);
            return status;
        }
        pin->object = number;
        pin->timer.on_event = on_pin_end;
    }
    wheel_arm(&core->wheel, &pin->timer, core->now_ns + pin_ns);
    return SNOW_OK;
}

bool core_pin_is_valid(const struct core *core, uint8_t pin, uint32_t pin_ms)
{
    uint64_t max_ns = core->options.soft_pin_max_ns;

    if (pin != WIRE_PIN_SOFT)
        return pin <= WIRE_PIN_HARD;
    return max_ns == 0 || pin_ms == WIRE_PIN_CLUSTER ||
           (pin_ms > 0 && pin_ms * NS_PER_MS <= max_ns);
}

static uint64_t hard_pin_bytes_max(const struct core *core)
{
    uint64_t percent = core->options.hard_pin_percent;

    return core->pool_bytes / 100 * percent + core->pool_bytes % 100 * percent / 100;
}

enum snow_status core_pin_set(struct core *core, uint32_t number, uint8_t pin, uint32_t pin_ms)
{
    const struct object *object = core_object(core, number);
    uint64_t bytes = object->grouped ? core_group_whole_bytes(core, object->prev)
                                     : core_object_bytes(core, number);
    uint64_t pin_ns = pin_ms * NS_PER_MS;

    if (pin_ms == WIRE_PIN_CLUSTER)
        pin_ns = core->options.soft_pin_ns;
    if (pin == WIRE_PIN_HARD && !core_pin_counts(core, number) &&
        core->hard_pinned_bytes + bytes > hard_pin_bytes_max(core))
        return SNOW_LIMIT;
    if (pin == WIRE_PIN_SOFT && pin_ns > 0) {
        enum snow_status status = arm_timer(core, number, pin_ns);

        if (status != SNOW_OK)
            return status;
    } else {
        drop_timer(core, number);
    }
    core_apply_pin(core, number,
                   pin == WIRE_PIN_SOFT   ? OBJECT_SOFT_PIN
                   : pin == WIRE_PIN_HARD ? OBJECT_HARD_PIN
                                          : 0);
    return SNOW_OK;
}

static enum snow_status pin_item(struct core *core, const struct wire_pin_req *message,
                                 struct bytes key)
{
    enum snow_status status;
    uint32_t number;

    if (key.size == 0 || key.size > LIMIT_KEY_SIZE ||
        !core_pin_is_valid(core, message->pin, message->pin_ms))
        return SNOW_INVALID;
    number = core_object_find(core, key, hash_key(CORE_TENANT, key).low, OBJECT_READABLE);
    if (number == 0)
        return core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;
    status = core_pin_set(core, number, message->pin, message->pin_ms);
    core_count(core, CORE_METRIC_pins_refused, status == SNOW_LIMIT);
    return status;
}

void core_pin(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_pin_req *message = input->message;
    struct request *request = core_request_open(core, input, session, message->keys_count);

    if (request == NULL)
        return;
    for (uint32_t i = 0; i < message->keys_count; i++)
        core_answer_status(core, request, i, pin_item(core, message, message->keys[i].key), 0, 0);
}
