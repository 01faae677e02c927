/* Reading members of a group: places of one version of it, then the bytes.
 *
 * Problem.  Members are read from several nodes; one that changes, or can not be read, makes the
 *           others useless.
 * Idea.     The master tells the places of all of them at one instant, in pages when there are
 *           many; they are read as every other object is (get.c), which takes no other version for
 *           the one that was told.  A member that can not be read breaks the whole, and the master
 *           is told.
 *
 *   ─client_group_get_start─► ASKING (pages) ─► READING (client_get_op) ─► done
 * Threads.  The loop's.
 */
#include "client/inside.h"

static struct client_group_get_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_group_get_op, ask);
}

static void finish(struct client_group_get_op *op, enum snow_status status)
{
    op->group->status = status;
    client_ask_cancel(&op->ask);
    if (op->leased)
        client_lease_return(op->base.client, op->base.operation);
    for (size_t i = 0; i < op->count && status != SNOW_OK; i++) {
        if (op->items[i].status == SNOW_NOT_READY)
            op->items[i].status = status;
    }
    client_op_end(&op->base);
    op->on_done(op);
}

static void on_timer(struct env_timer *timer)
{
    struct client_group_get_op *op = list_entry(timer, struct client_group_get_op, base.timer);

    if (op->reading)
        client_get_cancel(&op->get);
    finish(op, op->status == SNOW_OK ? client_op_late_status(&op->base) : op->status);
}

void client_group_get_cancel(struct client_group_get_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->reading)
        client_get_cancel(&op->get);
    client_ask_cancel(&op->ask);
    if (op->leased)
        client_lease_return(op->base.client, op->base.operation);
    for (size_t i = 0; i < op->count; i++)
        op->items[i].status = SNOW_CANCELLED;
    op->group->status = SNOW_CANCELLED;
    client_op_end(&op->base);
}

/* ---- reading -------------------------------------------------------------------------------- */

static uint32_t index_of(const struct client_group_get_op *op, size_t item)
{
    return op->group->indexes == NULL ? (uint32_t)item : op->group->indexes[item];
}

/* The master believes it when it hears so from two. */
static void report(struct client_group_get_op *op, uint32_t index)
{
    struct rpc_conn *conn = rpc_peer_conn(&op->base.client->master);
    struct wire_group_broken_msg message = {.ggen = op->group->ggen,
                                            .index = index,
                                            .id = client_key_bytes(&op->group->id)};

    client_count(op->base.client, CLIENT_METRIC_groups_broken, 1);
    if (conn != NULL && rpc_oneway(conn, WIRE_group_broken, &message) != SNOW_OK)
        rpc_peer_reset(&op->base.client->master);
}

static void on_read(struct client_get_op *get)
{
    struct client_group_get_op *op = list_entry(get, struct client_group_get_op, get);
    enum snow_status status = SNOW_OK;

    op->reading = false;
    for (size_t i = 0; i < op->count && status == SNOW_OK; i++) {
        status = op->items[i].status;
        if (status != SNOW_NOT_FOUND)
            continue;
        status = SNOW_GROUP_BROKEN;
        op->group->broken = index_of(op, i);
        report(op, op->group->broken);
    }
    finish(op, status);
}

static void read_members(struct client_group_get_op *op)
{
    uint64_t now_ns = client_now_ns(op->base.client);
    uint64_t left_ns = op->base.deadline_ns > now_ns ? op->base.deadline_ns - now_ns : 0;
    struct snow_call call = {.deadline_ms = (uint32_t)(left_ns / NS_PER_MS + 1)};

    op->get = (struct client_get_op){.on_done = on_read,
                                     .items = op->items,
                                     .count = op->count,
                                     .worker = op->worker,
                                     .given = op->founds};
    op->reading = true;
    client_get_start(op->base.client, &op->get, &call);
}

/* ---- asking --------------------------------------------------------------------------------- */

static size_t measure(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return op_of(ask)->group->id.size;
}

static const void *build(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         struct arena *arena)
{
    struct client_group_get_op *op = op_of(ask);
    struct wire_group_get_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->operation = op->base.operation;
    message->flags = WIRE_LOOKUP_LEASE | WIRE_LOOKUP_TOUCH;
    message->ggen = op->group->ggen;
    message->version = op->group->version;
    message->hold = op->group->hold;
    message->id = client_key_bytes(&op->group->id);
    message->first = op->next;
    if (op->group->indexes == NULL)
        return message;
    message->indexes_count =
        (uint32_t)(op->count - op->taken < LIMIT_BATCH_ITEMS ? op->count - op->taken
                                                             : LIMIT_BATCH_ITEMS);
    message->indexes = arena_array(arena, message->indexes_count, sizeof(*message->indexes));
    for (uint32_t i = 0; i < message->indexes_count && message->indexes != NULL; i++)
        message->indexes[i].index = op->group->indexes[op->taken + i];
    return message->indexes == NULL ? NULL : message;
}

static struct bytes keep(struct client_group_get_op *op, struct bytes from)
{
    uint8_t *at = arena_take(&op->base.arena, from.size == 0 ? 1 : from.size);

    if (at != NULL && from.size > 0)
        memcpy(at, from.at, from.size);
    return bytes_of(at, at == NULL ? 0 : from.size);
}

/* For longer than the reply. */
static bool take_member(struct client_group_get_op *op, const struct wire_group_member *member)
{
    size_t at = op->taken;
    struct wire_found *found = &op->founds[at];
    struct bytes key = keep(op, member->key);
    size_t size = member->places_count * sizeof(*found->places);

    if (member->index != index_of(op, at) || key.size == 0)
        return false;
    *found = (struct wire_found){.gen = member->gen,
                                 .size = member->size,
                                 .places_count = member->places_count};
    found->places = arena_take(&op->base.arena, size == 0 ? 1 : size);
    if (found->places == NULL)
        return false;
    if (size > 0)
        memcpy(found->places, member->places, size);
    op->items[at].key = (struct snow_key){.at = key.at, .size = key.size};
    if (at == 0 || member->gen < op->oldest_gen)
        op->oldest_gen = member->gen;
    op->taken++;
    return true;
}

static enum snow_status take_page(struct client_group_get_op *op,
                                  const struct wire_group_get_rep *reply)
{
    struct snow_group_read *group = op->group;

    group->state = reply->state;
    group->ggen = reply->ggen;
    group->version = reply->version;
    group->size = reply->size;
    group->broken = reply->broken;
    if (reply->status != SNOW_OK)
        return status_is_known(reply->status) ? (enum snow_status)reply->status : SNOW_INVALID;
    if (group->indexes == NULL && reply->size != op->count)
        return SNOW_INVALID; /* there have to be as many items as members */
    op->leased = op->leased || reply->lease_ms > 0;
    for (uint32_t i = 0; i < reply->members_count; i++) {
        if (op->taken == op->count || !take_member(op, &reply->members[i]))
            return SNOW_INVALID;
    }
    op->next = reply->next;
    if (op->taken < op->count && reply->members_count == 0)
        return SNOW_INVALID;
    if (op->taken < op->count)
        op->next = index_of(op, op->taken);
    return SNOW_OK;
}

static void on_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_group_get_op *op = op_of(ask);
    enum snow_status status = take_page(op, message);

    (void)items;
    (void)count;
    if (status == SNOW_UNKNOWN && client_ask_again(ask, 0, status, false, 50, op->base.deadline_ns))
        return;
    if (ask->states[0] == ASK_SENT)
        client_ask_close(ask, 0);
    op->status = status;
    if (status == SNOW_OK && op->taken < op->count)
        client_ask_open(ask, 0);
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    (void)item;
    op_of(ask)->status = status;
}

static void on_event(struct client_ask *ask)
{
    struct client_group_get_op *op = op_of(ask);

    if (ask->waiting > 0 && ask->sent == 0) {
        client_ask_pump(ask);
        return;
    }
    if (ask->waiting + ask->sent + ask->delayed > 0)
        return;
    if (op->status != SNOW_OK)
        finish(op, op->status);
    else
        read_members(op);
}

static const struct client_ask_ops get_ops = {.type = WIRE_group_get,
                                              .on_measure = measure,
                                              .on_build = build,
                                              .on_reply = on_reply,
                                              .on_failed = on_failed,
                                              .on_event = on_event};

static bool is_valid(const struct client_group_get_op *op)
{
    const struct snow_group_read *group = op->group;

    if (CLIENT_RESERVED(group) != SNOW_OK || group->id.at == NULL || group->id.size < 1 ||
        group->id.size > LIMIT_GROUP_ID_SIZE || op->count == 0 || op->count > LIMIT_GROUP_SIZE)
        return false;
    for (size_t i = 1; i < op->count && group->indexes != NULL; i++) {
        if (group->indexes[i] <= group->indexes[i - 1])
            return false;
    }
    return true;
}

void client_group_get_start(struct client *client, struct client_group_get_op *op,
                            const struct snow_call *call)
{
    struct snow_group_read *group = op->group;

    client_op_begin(client, &op->base, call, on_timer);
    op->taken = 0;
    op->oldest_gen = 0;
    op->next = 0;
    op->leased = false;
    op->reading = false;
    op->status = is_valid(op) ? SNOW_OK : SNOW_INVALID;
    group->ggen = 0;
    group->version = 0;
    group->state = SNOW_GROUP_NONE;
    group->size = 0;
    group->broken = SNOW_GROUP_INDEX_ANY;
    for (size_t i = 0; i < op->count; i++)
        op->items[i].status = SNOW_NOT_READY;
    if (op->status == SNOW_OK) {
        op->founds = arena_array(&op->base.arena, op->count, sizeof(*op->founds));
        if (op->founds == NULL || client_ask_init(&op->ask, client, &get_ops, 1,
                                                  op->base.deadline_ns, &op->base.arena) != SNOW_OK)
            op->status = SNOW_NO_MEMORY;
    }
    if (op->status != SNOW_OK) {
        client_op_hurry(&op->base);
        return;
    }
    client_ask_open(&op->ask, 0);
    client_ask_pump(&op->ask);
}
