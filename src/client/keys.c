/* Removing and pinning: keys, each answered by a status.
 *
 * A remove whose answer was lost is asked again for the keys without an answer only: one that was
 * answered may have been put again since.
 * Threads.  The loop's.
 */
#include "client/inside.h"

static struct client_keys_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_keys_op, ask);
}

static void stop(struct client_keys_op *op)
{
    client_ask_cancel(&op->ask);
    client_op_end(&op->base);
}

/* Every item that has no answer gets this one. */
static void end_all(struct client_keys_op *op, enum snow_status status)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->ask.states[i] != ASK_IDLE)
            op->items[i].status = status;
    }
}

static void finish_item(struct client_keys_op *op, uint32_t index, enum snow_status status)
{
    op->items[index].status = status;
    op->open--;
    if (op->on_item != NULL)
        op->on_item(op, index);
}

static void on_timer(struct env_timer *timer)
{
    struct client_keys_op *op = list_entry(timer, struct client_keys_op, base.timer);

    if (op->open > 0)
        end_all(op, client_op_late_status(&op->base));
    stop(op);
    op->on_done(op);
}

void client_keys_cancel(struct client_keys_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->open > 0)
        end_all(op, SNOW_CANCELLED);
    stop(op);
}

static size_t measure(struct client_ask *ask, uint32_t item)
{
    return wire_key_size_min(WIRE_VERSION) + op_of(ask)->items[item].key.size;
}

static struct wire_key *build_keys(struct client_keys_op *op, const uint32_t *items, uint32_t count,
                                   struct arena *arena)
{
    struct wire_key *keys = arena_array(arena, count, sizeof(*keys));

    for (uint32_t i = 0; i < count && keys != NULL; i++)
        keys[i].key = client_key_bytes(&op->items[items[i]].key);
    return keys;
}

static const void *build_remove(struct client_ask *ask, const uint32_t *items, uint32_t count,
                                struct arena *arena)
{
    struct wire_remove_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->flags = op_of(ask)->flags;
    message->keys = build_keys(op_of(ask), items, count, arena);
    message->keys_count = count;
    return message->keys == NULL ? NULL : message;
}

static const void *build_group_remove(struct client_ask *ask, const uint32_t *items, uint32_t count,
                                      struct arena *arena)
{
    struct wire_group_remove_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->flags = op_of(ask)->flags;
    message->ids = build_keys(op_of(ask), items, count, arena);
    message->ids_count = count;
    return message->ids == NULL ? NULL : message;
}

static const void *build_pin(struct client_ask *ask, const uint32_t *items, uint32_t count,
                             struct arena *arena)
{
    struct wire_pin_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->pin = op_of(ask)->pin;
    message->pin_ms = op_of(ask)->pin_ms;
    message->keys = build_keys(op_of(ask), items, count, arena);
    message->keys_count = count;
    return message->keys == NULL ? NULL : message;
}

static const void *build_hint(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              struct arena *arena)
{
    struct wire_hint_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->flags = op_of(ask)->flags;
    message->priority = op_of(ask)->priority;
    message->expires_ms = op_of(ask)->expires_ms;
    message->keys = build_keys(op_of(ask), items, count, arena);
    message->keys_count = count;
    return message->keys == NULL ? NULL : message;
}

static void take_answer(struct client_ask *ask, uint32_t item, int32_t code)
{
    struct client_keys_op *op = op_of(ask);
    enum snow_status status = status_is_known(code) ? (enum snow_status)code : SNOW_INVALID;

    if (snow_status_verdict(status) == SNOW_RETRY) {
        if (client_ask_again(ask, item, status, false, 0, op->base.deadline_ns))
            return;
    } else {
        client_ask_close(ask, item);
    }
    finish_item(op, item, status);
}

static void take_answers(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         const struct wire_item_status *answers, uint32_t answer_count)
{
    for (uint32_t i = 0; i < answer_count; i++) {
        uint32_t index = answers[i].index;

        if (index < count && client_ask_is_sent(ask, items[index]))
            take_answer(ask, items[index], answers[i].status);
    }
}

static void on_removed(struct client_ask *ask, const uint32_t *items, uint32_t count,
                       const void *message)
{
    const struct wire_remove_rep *reply = message;

    take_answers(ask, items, count, reply->items, reply->items_count);
}

static void on_groups_removed(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              const void *message)
{
    const struct wire_group_remove_rep *reply = message;

    take_answers(ask, items, count, reply->items, reply->items_count);
}

static void on_pinned(struct client_ask *ask, const uint32_t *items, uint32_t count,
                      const void *message)
{
    const struct wire_pin_rep *reply = message;

    take_answers(ask, items, count, reply->items, reply->items_count);
}

static void on_hinted(struct client_ask *ask, const uint32_t *items, uint32_t count,
                      const void *message)
{
    const struct wire_hint_rep *reply = message;

    take_answers(ask, items, count, reply->items, reply->items_count);
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    finish_item(op_of(ask), item, status);
}

static void on_event(struct client_ask *ask)
{
    struct client_keys_op *op = op_of(ask);

    if (op->open > 0)
        return;
    stop(op);
    op->on_done(op);
}

static const struct client_ask_ops remove_ops = {
    .type = WIRE_remove,
    .on_measure = measure,
    .on_build = build_remove,
    .on_reply = on_removed,
    .on_failed = on_failed,
    .on_event = on_event,
};

static const struct client_ask_ops group_remove_ops = {
    .type = WIRE_group_remove,
    .on_measure = measure,
    .on_build = build_group_remove,
    .on_reply = on_groups_removed,
    .on_failed = on_failed,
    .on_event = on_event,
};

static const struct client_ask_ops pin_ops = {
    .type = WIRE_pin,
    .on_measure = measure,
    .on_build = build_pin,
    .on_reply = on_pinned,
    .on_failed = on_failed,
    .on_event = on_event,
};

static const struct client_ask_ops hint_ops = {
    .type = WIRE_hint,
    .on_measure = measure,
    .on_build = build_hint,
    .on_reply = on_hinted,
    .on_failed = on_failed,
    .on_event = on_event,
};

static void start(struct client *client, struct client_keys_op *op,
                  const struct client_ask_ops *ops, const struct snow_call *call)
{
    enum snow_status status =
        op->count > UINT32_MAX / 2 || op->pin > SNOW_PIN_HARD || op->wrong ? SNOW_INVALID : SNOW_OK;

    client_op_begin(client, &op->base, call, on_timer);
    op->open = 0;
    if (status == SNOW_OK)
        status = client_ask_init(&op->ask, client, ops, (uint32_t)op->count, op->base.deadline_ns,
                                 &op->base.arena);
    for (size_t i = 0; i < op->count; i++) {
        struct snow_item *item = &op->items[i];

        item->status = status == SNOW_OK ? client_key_check(&item->key) : status;
        if (item->status == SNOW_OK)
            item->status = CLIENT_RESERVED(item);
        if (item->status != SNOW_OK)
            continue;
        op->open++;
        client_ask_open(&op->ask, (uint32_t)i);
    }
    if (op->open == 0)
        client_op_hurry(&op->base);
    else
        client_ask_pump(&op->ask);
}

void client_remove_start(struct client *client, struct client_keys_op *op,
                         const struct snow_call *call)
{
    op->flags = (call->flags & SNOW_CALL_FORCE ? WIRE_REMOVE_FORCE : 0) |
                (call->flags & SNOW_CALL_GROUP ? WIRE_REMOVE_GROUP : 0);
    op->pin = SNOW_PIN_NONE;
    start(client, op, &remove_ops, call);
}

void client_pin_start(struct client *client, struct client_keys_op *op, enum snow_pin pin,
                      uint32_t pin_ms, const struct snow_call *call)
{
    op->pin = (uint8_t)pin;
    op->pin_ms = pin_ms;
    start(client, op, &pin_ops, call);
}

void client_hint_start(struct client *client, struct client_keys_op *op, uint32_t hint_flags,
                       const struct snow_call *call)
{
    op->flags = hint_flags;
    op->pin = SNOW_PIN_NONE;
    start(client, op, &hint_ops, call);
}

void client_group_remove_start(struct client *client, struct client_keys_op *op,
                               const struct snow_call *call)
{
    op->flags = call->flags & SNOW_CALL_FORCE ? WIRE_REMOVE_FORCE : 0;
    op->pin = SNOW_PIN_NONE;
    start(client, op, &group_remove_ops, call);
}
