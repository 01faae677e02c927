/* Questions with one answer: removal by pattern, a page of the list, the nodes, the counters, the
 * tasks of operators.
 *
 * Each is an ask of one item.  Outputs lie in the operation's arena until client_query_end.
 * Threads.  The loop's.
 */
#include "client/inside.h"

static struct client_query_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_query_op, ask);
}

static void finish(struct client_query_op *op, enum snow_status status)
{
    op->status = status;
    client_ask_cancel(&op->ask);
    client_op_leave(&op->base); /* the arena stays */
    op->on_done(op);
}

static void on_timer(struct env_timer *timer)
{
    struct client_query_op *op = list_entry(timer, struct client_query_op, base.timer);

    finish(op, op->status == SNOW_OK ? client_op_late_status(&op->base) : op->status);
}

void client_query_cancel(struct client_query_op *op)
{
    if (op->base.client == NULL)
        return;
    client_ask_cancel(&op->ask);
    client_op_end(&op->base);
}

void client_query_end(struct client_query_op *op)
{
    arena_deinit(&op->base.arena);
    op->listed = NULL;
    op->nodes = NULL;
    op->tasks = NULL;
    op->values = NULL;
    op->groups = NULL;
    op->count = 0;
}

static void answered(struct client_ask *ask, enum snow_status status)
{
    client_ask_close(ask, 0);
    op_of(ask)->status = status;
}

static size_t measure(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return op_of(ask)->key.size;
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    (void)item;
    op_of(ask)->status = status;
}

static void on_event(struct client_ask *ask)
{
    if (ask->waiting + ask->sent + ask->delayed == 0)
        finish(op_of(ask), op_of(ask)->status);
}

static void start(struct client *client, struct client_query_op *op,
                  const struct client_ask_ops *ops, const struct snow_call *call, bool valid)
{
    client_op_begin(client, &op->base, call, on_timer);
    op->status = client_ask_init(&op->ask, client, ops, 1, op->base.deadline_ns, &op->base.arena);
    op->listed = NULL;
    op->nodes = NULL;
    op->tasks = NULL;
    op->values = NULL;
    op->groups = NULL;
    op->reason = "";
    op->count = 0;
    if (!valid || (op->key.at == NULL && op->key.size > 0))
        op->status = SNOW_INVALID;
    if (op->status != SNOW_OK) {
        client_op_hurry(&op->base);
        return;
    }
    client_ask_open(&op->ask, 0);
    client_ask_pump(&op->ask);
}

static struct bytes copy_bytes(struct client_query_op *op, struct bytes from)
{
    char *at = arena_take(&op->base.arena, from.size + 1);

    if (at != NULL && from.size > 0)
        memcpy(at, from.at, from.size);
    return bytes_of(at, at == NULL ? 0 : from.size);
}

/* "" when there is no memory. */
static const char *copy_text(struct client_query_op *op, struct bytes from)
{
    struct bytes copy = copy_bytes(op, from);

    return copy.at == NULL ? "" : (const char *)copy.at;
}

/* ---- removal by pattern --------------------------------------------------------------------- */

static const void *build_match(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct wire_remove_match_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->kind = (uint8_t)op_of(ask)->match;
    message->flags = op_of(ask)->flags;
    message->pattern = client_key_bytes(&op_of(ask)->key);
    return message;
}

static void on_matched(struct client_ask *ask, const uint32_t *items, uint32_t count,
                       const void *reply_message)
{
    const struct wire_remove_match_rep *reply = reply_message;
    struct snow_matched *matched = &op_of(ask)->matched;
    size_t size = reply->reason.size < sizeof(matched->reason) ? reply->reason.size
                                                               : sizeof(matched->reason) - 1;

    (void)items;
    (void)count;
    matched->removed = reply->removed;
    matched->guarded = reply->guarded;
    matched->uncertain = reply->uncertain;
    if (size > 0)
        memcpy(matched->reason, reply->reason.at, size);
    matched->reason[size] = 0;
    answered(ask, status_is_known(reply->status) ? (enum snow_status)reply->status : SNOW_INVALID);
}

static const struct client_ask_ops match_ops = {
    .type = WIRE_remove_match,
    .on_measure = measure,
    .on_build = build_match,
    .on_reply = on_matched,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_remove_match_start(struct client *client, struct client_query_op *op,
                               const struct snow_call *call)
{
    bool valid = op->key.size <= LIMIT_PATTERN_SIZE && (unsigned)op->match <= SNOW_MATCH_REGEX;

    op->flags = (call->flags & SNOW_CALL_FORCE ? WIRE_REMOVE_FORCE : 0) |
                (call->flags & SNOW_CALL_GROUP ? WIRE_REMOVE_GROUP : 0);
    op->matched = (struct snow_matched){0};
    start(client, op, &match_ops, call, valid);
}

/* ---- list ----------------------------------------------------------------------------------- */

static const void *build_list(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              struct arena *arena)
{
    struct wire_list_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->cursor = op_of(ask)->cursor;
    message->limit = LIMIT_LIST_ROWS;
    message->prefix = client_key_bytes(&op_of(ask)->key);
    return message;
}

static void on_listed(struct client_ask *ask, const uint32_t *items, uint32_t count,
                      const void *message)
{
    struct client_query_op *op = op_of(ask);
    const struct wire_list_rep *reply = message;

    (void)items;
    (void)count;
    op->listed = arena_array(&op->base.arena, reply->items_count, sizeof(*op->listed));
    if (op->listed == NULL) {
        answered(ask, SNOW_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_listed *row = &reply->items[i];
        struct bytes key = copy_bytes(op, row->key);

        op->listed[op->count++] =
            (struct snow_listed){.key = {.at = key.at, .size = key.size},
                                 .size = row->size,
                                 .gen = row->gen,
                                 .depth = row->depth,
                                 .pin = row->flags & WIRE_FOUND_HARD_PIN   ? SNOW_PIN_HARD
                                        : row->flags & WIRE_FOUND_SOFT_PIN ? SNOW_PIN_SOFT
                                                                           : SNOW_PIN_NONE,
                                 .copies = row->replicas,
                                 .uses = row->uses};
    }
    op->cursor = reply->cursor;
    answered(ask, SNOW_OK);
}

static const struct client_ask_ops list_ops = {
    .type = WIRE_list,
    .on_measure = measure,
    .on_build = build_list,
    .on_reply = on_listed,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_list_start(struct client *client, struct client_query_op *op,
                       const struct snow_call *call)
{
    start(client, op, &list_ops, call, op->key.size <= LIMIT_KEY_SIZE);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static const char *state_name(uint8_t state)
{
    switch (state) {
    case WIRE_NODE_ALIVE:
        return "alive";
    case WIRE_NODE_SUSPECT:
        return "suspect";
    case WIRE_NODE_RECOVERING:
        return "recovering";
    case WIRE_NODE_DEAD:
        return "dead";
    case WIRE_NODE_DRAINING:
        return "draining";
    default:
        return "unknown";
    }
}

static const void *build_nodes(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct wire_nodes_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message != NULL)
        message->first = (uint32_t)op_of(ask)->cursor;
    return message;
}

static void on_nodes(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_query_op *op = op_of(ask);
    const struct wire_nodes_rep *reply = message;

    (void)items;
    (void)count;
    op->nodes = arena_array(&op->base.arena, reply->nodes_count, sizeof(*op->nodes));
    if (op->nodes == NULL) {
        answered(ask, SNOW_NO_MEMORY);
        return;
    }
    op->cursor = 0;
    for (uint32_t i = 0; i < reply->nodes_count; i++) {
        const struct wire_node_info *info = &reply->nodes[i];

        op->nodes[op->count++] = (struct snow_node){.number = info->node,
                                                    .state = state_name(info->state),
                                                    .address = copy_text(op, info->address),
                                                    .name = copy_text(op, info->name),
                                                    .incarnation = info->incarnation,
                                                    .size = info->size,
                                                    .used = info->used,
                                                    .closing = info->closing};
        if (reply->nodes_count == LIMIT_BATCH_ITEMS)
            op->cursor = (uint64_t)info->node + 1; /* there may be more */
    }
    answered(ask, SNOW_OK);
}

static const struct client_ask_ops nodes_ops = {
    .type = WIRE_nodes,
    .on_measure = measure,
    .on_build = build_nodes,
    .on_reply = on_nodes,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_nodes_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call)
{
    start(client, op, &nodes_ops, call, op->cursor <= UINT32_MAX);
}

/* ---- counters ------------------------------------------------------------------------------- */

static const void *build_stats(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    (void)ask;
    (void)items;
    (void)count;
    return arena_take(arena, sizeof(struct wire_stats_req));
}

static void on_stats(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_query_op *op = op_of(ask);
    const struct wire_stats_rep *reply = message;

    (void)items;
    (void)count;
    op->values = arena_array(&op->base.arena, reply->values_count, sizeof(*op->values));
    if (op->values == NULL) {
        answered(ask, SNOW_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < reply->values_count; i++) {
        op->values[op->count].name = copy_text(op, reply->values[i].name);
        op->values[op->count++].value = reply->values[i].value;
    }
    answered(ask, SNOW_OK);
}

static const struct client_ask_ops stats_ops = {
    .type = WIRE_stats,
    .on_measure = measure,
    .on_build = build_stats,
    .on_reply = on_stats,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_stats_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call)
{
    start(client, op, &stats_ops, call, true);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static enum snow_status status_of(int32_t status)
{
    return status_is_known(status) ? (enum snow_status)status : SNOW_INVALID;
}

static size_t measure_task(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return op_of(ask)->wish.key.size;
}

static const void *build_task(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              struct arena *arena)
{
    struct wire_task_start_req *message = arena_take(arena, sizeof(*message));
    const struct snow_task *wish = &op_of(ask)->wish;

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->kind = (uint8_t)wish->kind;
    message->from = wish->from;
    message->to = wish->to;
    message->rate = wish->rate;
    message->key = client_key_bytes(&wish->key);
    return message;
}

static void on_task(struct client_ask *ask, const uint32_t *items, uint32_t count,
                    const void *message)
{
    const struct wire_task_start_rep *reply = message;

    (void)items;
    (void)count;
    op_of(ask)->task = reply->task;
    op_of(ask)->reason = copy_text(op_of(ask), reply->reason);
    answered(ask, status_of(reply->status));
}

static const struct client_ask_ops task_ops = {
    .type = WIRE_task_start,
    .on_measure = measure_task,
    .on_build = build_task,
    .on_reply = on_task,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_task_start(struct client *client, struct client_query_op *op,
                       const struct snow_call *call)
{
    const struct snow_task *wish = &op->wish;
    bool valid = wish->key.size <= LIMIT_KEY_SIZE && wish->kind <= SNOW_TASK_DRAIN &&
                 (wish->key.at != NULL || wish->key.size == 0) && wish->spare == 0 &&
                 CLIENT_RESERVED(wish) == SNOW_OK;

    start(client, op, &task_ops, call, valid);
}

static const void *build_cancel(struct client_ask *ask, const uint32_t *items, uint32_t count,
                                struct arena *arena)
{
    struct wire_task_cancel_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message != NULL)
        message->task = op_of(ask)->task;
    return message;
}

static void on_cancelled(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         const void *message)
{
    (void)items;
    (void)count;
    answered(ask, status_of(((const struct wire_task_cancel_rep *)message)->status));
}

static const struct client_ask_ops cancel_ops = {
    .type = WIRE_task_cancel,
    .on_measure = measure,
    .on_build = build_cancel,
    .on_reply = on_cancelled,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_task_cancel_start(struct client *client, struct client_query_op *op,
                              const struct snow_call *call)
{
    start(client, op, &cancel_ops, call, true);
}

static const void *build_tasks(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct wire_tasks_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->task = op_of(ask)->task;
    message->after = op_of(ask)->cursor;
    return message;
}

static const char *kind_name(uint8_t kind)
{
    return kind == WIRE_TASK_COPY    ? "copy"
           : kind == WIRE_TASK_MOVE  ? "move"
           : kind == WIRE_TASK_DRAIN ? "drain"
                                     : "unknown";
}

static const char *task_state_name(uint8_t state)
{
    switch (state) {
    case WIRE_TASK_RUNNING:
        return "running";
    case WIRE_TASK_DONE:
        return "done";
    case WIRE_TASK_FAILED:
        return "failed";
    case WIRE_TASK_CANCELLED:
        return "cancelled";
    default:
        return "unknown";
    }
}

static struct snow_task_info told_task(struct client_query_op *op,
                                       const struct wire_task_info *info)
{
    struct bytes key = copy_bytes(op, info->key);

    return (struct snow_task_info){.id = info->task,
                                   .kind = kind_name(info->kind),
                                   .state = task_state_name(info->state),
                                   .reason = copy_text(op, info->reason),
                                   .status = status_of(info->status),
                                   .from = info->from,
                                   .to = info->to,
                                   .key = {.at = key.at, .size = key.size},
                                   .rate = info->rate,
                                   .elapsed_ms = info->elapsed_ms,
                                   .left_ms = info->left_ms,
                                   .objects = info->objects,
                                   .bytes = info->bytes,
                                   .dropped_objects = info->dropped_objects,
                                   .dropped_bytes = info->dropped_bytes,
                                   .left_objects = info->left_objects,
                                   .left_bytes = info->left_bytes};
}

static void on_tasks(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_query_op *op = op_of(ask);
    const struct wire_tasks_rep *reply = message;

    (void)items;
    (void)count;
    op->tasks = arena_array(&op->base.arena, reply->tasks_count, sizeof(*op->tasks));
    if (op->tasks == NULL) {
        answered(ask, SNOW_NO_MEMORY);
        return;
    }
    op->cursor = 0;
    for (uint32_t i = 0; i < reply->tasks_count; i++) {
        op->tasks[op->count++] = told_task(op, &reply->tasks[i]);
        if (reply->tasks_count == LIMIT_LIST_ROWS)
            op->cursor = reply->tasks[i].task; /* there may be more */
    }
    answered(ask, SNOW_OK);
}

static const struct client_ask_ops tasks_ops = {
    .type = WIRE_tasks,
    .on_measure = measure,
    .on_build = build_tasks,
    .on_reply = on_tasks,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_tasks_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call)
{
    start(client, op, &tasks_ops, call, true);
}

/* ---- groups --------------------------------------------------------------------------------- */

static const void *build_groups(struct client_ask *ask, const uint32_t *items, uint32_t count,
                                struct arena *arena)
{
    struct wire_group_list_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->cursor = op_of(ask)->cursor;
    message->limit = LIMIT_LIST_ROWS;
    message->prefix = client_key_bytes(&op_of(ask)->key);
    return message;
}

static void on_groups(struct client_ask *ask, const uint32_t *items, uint32_t count,
                      const void *message)
{
    struct client_query_op *op = op_of(ask);
    const struct wire_group_list_rep *reply = message;

    (void)items;
    (void)count;
    op->groups = arena_array(&op->base.arena, reply->items_count, sizeof(*op->groups));
    if (op->groups == NULL) {
        answered(ask, SNOW_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_group_listed *row = &reply->items[i];
        struct bytes id = copy_bytes(op, row->id);

        op->groups[op->count++] = (struct snow_group_listed){.id = {.at = id.at, .size = id.size},
                                                             .state = row->state,
                                                             .flags = row->flags,
                                                             .ggen = row->ggen,
                                                             .size = row->size,
                                                             .present = row->present,
                                                             .depth = row->depth,
                                                             .uses = row->uses,
                                                             .bytes = row->bytes};
    }
    op->cursor = reply->cursor;
    answered(ask, SNOW_OK);
}

static const struct client_ask_ops group_list_ops = {
    .type = WIRE_group_list,
    .on_measure = measure,
    .on_build = build_groups,
    .on_reply = on_groups,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_group_list_start(struct client *client, struct client_query_op *op,
                             const struct snow_call *call)
{
    start(client, op, &group_list_ops, call, op->key.size <= LIMIT_GROUP_ID_SIZE);
}

static const void *build_hold(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              struct arena *arena)
{
    const struct snow_group_hold *hold = op_of(ask)->hold;
    struct wire_group_hold_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->what = (uint8_t)(hold->hold == 0     ? WIRE_GROUP_HOLD_NEW
                              : hold->for_ms == 0 ? WIRE_GROUP_HOLD_LEAVE
                                                  : WIRE_GROUP_HOLD_JOIN);
    message->hold = hold->hold;
    message->for_ms = hold->for_ms;
    if (hold->hold == 0)
        message->id = client_key_bytes(&hold->id);
    return message;
}

static void on_held(struct client_ask *ask, const uint32_t *items, uint32_t count,
                    const void *message)
{
    struct snow_group_hold *hold = op_of(ask)->hold;
    const struct wire_group_hold_rep *reply = message;

    (void)items;
    (void)count;
    if (reply->status == SNOW_OK && reply->hold != 0) {
        hold->hold = reply->hold;
        hold->ggen = reply->ggen;
        hold->version = reply->version;
        hold->left_ms = reply->left_ms;
    }
    answered(ask, status_is_known(reply->status) ? (enum snow_status)reply->status : SNOW_INVALID);
}

static const struct client_ask_ops group_hold_ops = {
    .type = WIRE_group_hold,
    .on_measure = measure,
    .on_build = build_hold,
    .on_reply = on_held,
    .on_failed = on_failed,
    .on_event = on_event,
};

void client_group_hold_start(struct client *client, struct client_query_op *op,
                             const struct snow_call *call)
{
    const struct snow_group_hold *hold = op->hold;

    op->key = hold->id;
    start(client, op, &group_hold_ops, call,
          CLIENT_RESERVED(hold) == SNOW_OK && hold->spare == 0 &&
              (hold->hold != 0 || (hold->id.size >= 1 && hold->id.size <= LIMIT_GROUP_ID_SIZE &&
                                   hold->id.at != NULL && hold->for_ms > 0)));
}
