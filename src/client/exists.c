/* Exists: what the master knows of keys; no byte moves.
 *
 * An answer of UNKNOWN (the inventory of a node is still missing) is passed on, not waited for.
 * Threads.  The loop's.
 */
#include "client/inside.h"

static struct client_exists_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_exists_op, lookup);
}

static void stop(struct client_exists_op *op)
{
    client_ask_cancel(&op->lookup);
    client_op_end(&op->base);
}

/* The master said nothing of it. */
static void set_status(struct client_exists_op *op, size_t index, enum snow_status status)
{
    op->items[index].status = status;
    if (op->groups != NULL)
        op->groups[index].status = status;
}

/* Every item that has no answer gets this one. */
static void end_all(struct client_exists_op *op, enum snow_status status)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->lookup.states[i] != ASK_IDLE)
            set_status(op, i, status);
    }
}

static void finish_item(struct client_exists_op *op, uint32_t index, enum snow_status status)
{
    op->items[index].status = status;
    op->open--;
    if (op->on_item != NULL)
        op->on_item(op, index);
}

static void on_timer(struct env_timer *timer)
{
    struct client_exists_op *op = list_entry(timer, struct client_exists_op, base.timer);

    if (op->open > 0)
        end_all(op, client_op_late_status(&op->base));
    stop(op);
    op->on_done(op);
}

void client_exists_cancel(struct client_exists_op *op)
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

/* One position names all keys of a message. */
static bool join(struct client_ask *ask, uint32_t before, uint32_t item)
{
    (void)ask;
    return item == before + 1;
}

static const void *build(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         struct arena *arena)
{
    struct client_exists_op *op = op_of(ask);
    struct wire_lookup_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->operation = op->base.operation;
    message->position = items[0];
    message->flags = op->flags;
    message->guard_ms = op->base.client->options.guard_ms;
    message->keys = arena_array(arena, count, sizeof(*message->keys));
    if (message->keys == NULL)
        return NULL;
    message->keys_count = count;
    for (uint32_t i = 0; i < count; i++)
        message->keys[i].key = client_key_bytes(&op->items[items[i]].key);
    return message;
}

static void tell_nodes(const struct wire_found *found, struct snow_stat *item)
{
    item->copies = 0;
    for (uint32_t i = 0; i < found->places_count && item->nodes != NULL; i++) {
        if (found->places[i].part != 0)
            continue;
        if (item->copies < item->node_room)
            item->nodes[item->copies] = found->places[i].node;
        item->copies++;
    }
}

/* Of item `index` of the message; a master that knows no groups says nothing of them. */
static void tell_group(const struct wire_lookup_rep *reply, uint32_t index,
                       struct snow_group_info *item)
{
    const struct wire_group_info none = {.status = SNOW_INVALID, .next = WIRE_GROUP_INDEX_ANY};
    struct wire_group_info info = index < reply->groups_count ? reply->groups[index] : none;

    info.lease_ms = info.status == SNOW_OK ? reply->lease_ms : 0;
    client_group_info_take(item, &info);
}

static void on_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_exists_op *op = op_of(ask);
    const struct wire_lookup_rep *reply = message;
    bool chain = op->count > 1 && (op->flags & WIRE_LOOKUP_UNORDERED) == 0;

    for (uint32_t i = 0; i < count && i < reply->items_count; i++) {
        const struct wire_found *found = &reply->items[i];
        struct snow_stat *item = &op->items[items[i]];

        if (!client_ask_is_sent(ask, items[i]))
            continue;
        client_ask_close(ask, items[i]);
        if (chain && found->status == SNOW_NOT_FOUND)
            client_depths_note(&op->base.client->depths, client_key_bytes(&item->key), items[i]);
        item->size = found->size;
        item->gen = found->gen;
        item->pin = found->flags & WIRE_FOUND_HARD_PIN   ? SNOW_PIN_HARD
                    : found->flags & WIRE_FOUND_SOFT_PIN ? SNOW_PIN_SOFT
                                                         : SNOW_PIN_NONE;
        tell_nodes(found, item);
        if (op->groups != NULL)
            tell_group(reply, i, &op->groups[items[i]]);
        finish_item(op, items[i],
                    status_is_known(found->status) ? (enum snow_status)found->status
                                                   : SNOW_INVALID);
    }
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    set_status(op_of(ask), item, status);
    finish_item(op_of(ask), item, status);
}

static void on_event(struct client_ask *ask)
{
    struct client_exists_op *op = op_of(ask);

    if (op->open > 0)
        return;
    stop(op);
    op->on_done(op);
}

static const struct client_ask_ops lookup_ops = {
    .type = WIRE_lookup,
    .from_end = true, /* touched from the deepest to the first */
    .on_measure = measure,
    .on_join = join,
    .on_build = build,
    .on_reply = on_reply,
    .on_failed = on_failed,
    .on_event = on_event,
};

static uint32_t lookup_flags(const struct client *client, uint32_t flags)
{
    return (flags & SNOW_CALL_UNORDERED ? WIRE_LOOKUP_UNORDERED : 0) |
           (flags & SNOW_CALL_TOUCH ? WIRE_LOOKUP_REFRESH : 0) |
           (flags & SNOW_CALL_LEASE ? WIRE_LOOKUP_LEASE : 0) |
           (client->options.guard_ms > 0 ? WIRE_LOOKUP_GUARD : 0);
}

void client_exists_start(struct client *client, struct client_exists_op *op,
                         const struct snow_call *call)
{
    enum snow_status status = op->count > UINT32_MAX / 2 ? SNOW_INVALID : SNOW_OK;

    client_op_begin(client, &op->base, call, on_timer);
    if (call->read_id != NULL)
        *call->read_id = op->base.operation;
    else if ((call->flags & SNOW_CALL_LEASE) == 0)
        op->base.operation = 0; /* nothing will name it: the master need not remember it */
    op->groups = call->groups;
    op->flags = lookup_flags(client, call->flags) | (op->groups != NULL ? WIRE_LOOKUP_GROUPS : 0);
    op->open = 0;
    if (status == SNOW_OK)
        status = client_ask_init(&op->lookup, client, &lookup_ops, (uint32_t)op->count,
                                 op->base.deadline_ns, &op->base.arena);
    for (size_t i = 0; i < op->count; i++) {
        struct snow_stat *item = &op->items[i];

        set_status(op, i, status == SNOW_OK ? client_key_check(&item->key) : status);
        if (item->status == SNOW_OK && op->groups != NULL && op->groups[i].more != NULL)
            set_status(op, i, CLIENT_RESERVED(op->groups[i].more));
        if (item->status != SNOW_OK)
            continue;
        if (item->nodes != NULL)
            op->flags |= WIRE_LOOKUP_PLACES;
        op->open++;
        client_ask_open(&op->lookup, (uint32_t)i);
    }
    if (op->open == 0)
        client_op_hurry(&op->base);
    else
        client_ask_pump(&op->lookup);
}
