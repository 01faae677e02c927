/* What the nodes of the model do: mount, tell, acknowledge late, break, restart, lose.  Part of
 * model_core.c. */
#ifndef TESTS_MODEL_CORE_NODES_H
#define TESTS_MODEL_CORE_NODES_H

#include "core_model.h"

/* ---- nodes ---- */

static inline void drop_link(struct model_node *node)
{
    node->linked = false;
    node->telling = false;
    node->forget_count = 0;
    node->queue_count = 0;
}

static inline void break_node(struct model *model, struct model_node *node)
{
    if (!node->linked)
        return;
    drop_link(node);
    step(model, &(struct core_input){.kind = CORE_NODE_BREAK, .from = node->number}, NULL);
}

static inline void mount_node(struct model *model, struct model_node *node)
{
    struct wire_segment_info info = {.incarnation = node->incarnation,
                                     .tier = WIRE_TIER_DRAM,
                                     .size = NODE_BYTES,
                                     .ready = node->ready,
                                     .slot_count = model->plan.slots,
                                     .slots_ready = node->slots_ready};
    struct wire_mount_req mount = {.incarnation = node->incarnation,
                                   .process = node->process,
                                   .address = bytes_of_string("here"),
                                   .segments = &info,
                                   .segments_count = 1};
    struct caught caught = {.token = ++model->token};

    if (node->linked && rng_chance(&model->rng, 9, 10))
        return;
    drop_link(node); /* it may come anew before the old connection was seen to break */
    node->linked = true;
    node->asked = node->ready;
    node->asked_slots = node->slots_ready;
    node->tell_end = node->slots_ready;
    step(model,
         &(struct core_input){
             .kind = CORE_MESSAGE, .token = caught.token, .type = WIRE_mount, .message = &mount},
         &caught);
    if (caught.status == SNOW_BUSY) {
        node->linked = false;
        return;
    }
    assert_int_equal(caught.status, SNOW_OK);
    const struct wire_mount_rep *reply = caught.message;

    node->number = reply->node;
    node->secret = (struct hash128){reply->key_low, reply->key_high};
    node->has_secret = true;
    node->telling = true;
    node->tell_slot = 0;
}

static inline void restart_node(struct model *model, struct model_node *node, bool loses)
{
    break_node(model, node);
    node->process++;
    node->has_secret = false;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct wire_inventory_row *row = &node->slots[i].row;

        if (row->state == WIRE_SLOT_FREE ||
            (row->state != WIRE_SLOT_CLOSED && (!loses || rng_chance(&model->rng, 1, 2))))
            continue;
        struct version *version = find_version(model, row->gen);

        if (version != NULL)
            version->lost = true;
        row->state = WIRE_SLOT_FREE;
    }
    node->lossy = node->lossy || loses;
}

static inline void beat(struct model *model, struct model_node *node)
{
    struct wire_heartbeat_req message = {.incarnation = node->incarnation,
                                         .process = node->process};
    struct caught caught = {.token = ++model->token};

    step(model,
         &(struct core_input){.kind = CORE_MESSAGE,
                              .token = caught.token,
                              .type = WIRE_heartbeat,
                              .message = &message},
         &caught);
    if (!((const struct wire_heartbeat_rep *)caught.message)->mounted && node->linked)
        break_node(model, node);
}

/* The node reads its next forget. */
static inline void read_forget(struct model *model, struct model_node *node)
{
    struct wire_slot_gen item = node->forgets[0];
    struct model_slot *slot = &node->slots[item.slot];
    bool here = slot->row.state != WIRE_SLOT_FREE && slot->row.gen <= item.gen;
    struct to_master *message = &node->queue[node->queue_count++];

    assert_true(node->queue_count < QUEUE);
    node->forget_count--;
    memmove(node->forgets, node->forgets + 1, node->forget_count * sizeof(item));
    if (slot->floor < item.gen)
        slot->floor = item.gen;
    *message = (struct to_master){.kind = SEND_CLOSED,
                                  .closed = {.slot = item.slot, .gen = item.gen, .freed = 1}};
    if (!here)
        return;
    if (rng_chance(&model->rng, 1, 2)) {
        slot->row.state = WIRE_SLOT_FREE;
    } else { /* a reader is inside */
        slot->row.state = WIRE_SLOT_CLOSED;
        message->closed.freed = 0;
    }
}

/* The last reader leaves a closed slot. */
static inline void leave_slot(struct model *model, struct model_node *node)
{
    uint32_t start = (uint32_t)rng_below(&model->rng, SLOTS);

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct wire_inventory_row *row = &node->slots[(start + i) % SLOTS].row;

        if (row->state != WIRE_SLOT_CLOSED)
            continue;
        row->state = WIRE_SLOT_FREE;
        if (!node->linked)
            return;
        assert_true(node->queue_count < QUEUE - 1);
        node->queue[node->queue_count++] =
            (struct to_master){.kind = SEND_FREED, .closed = {.slot = row->slot, .gen = row->gen}};
        return;
    }
}

/* The next rows go on their way, as they are now. */
static inline void tell_rows(struct model_node *node)
{
    struct to_master *message = &node->queue[node->queue_count++];

    assert_true(node->queue_count < QUEUE);
    *message = (struct to_master){.kind = SEND_ROWS, .first = node->tell_slot};
    message->end = node->tell_slot + 32;
    if (message->end >= node->tell_end) {
        message->end = node->tell_end;
        message->last = true;
    }
    for (uint32_t slot = message->first; slot < message->end; slot++) {
        if (node->slots[slot].row.state != WIRE_SLOT_FREE)
            message->rows[message->row_count++] = node->slots[slot].row;
    }
    node->tell_slot = message->end;
    node->telling = !message->last;
}

/* The node commits some of what it was asked for; says so, or says the same again. */
static inline void grow(struct model *model, struct model_node *node)
{
    uint64_t bytes = rng_below(&model->rng, 20) * 4 * KIB;
    uint32_t slots = (uint32_t)rng_below(&model->rng, 40);
    struct to_master *message;

    node->ready += bytes < node->asked - node->ready ? bytes : node->asked - node->ready;
    node->slots_ready += slots < node->asked_slots - node->slots_ready
                             ? slots
                             : node->asked_slots - node->slots_ready;
    if (!node->linked || node->number == 0)
        return;
    message = &node->queue[node->queue_count++];
    assert_true(node->queue_count < QUEUE);
    *message = (struct to_master){.kind = SEND_GROWN,
                                  .grown = {.size = NODE_BYTES,
                                            .ready = node->ready,
                                            .slot_count = model->plan.slots,
                                            .slots_ready = node->slots_ready}};
}

/* The master reads what the node sent first. */
static inline void read_from_node(struct model *model, struct model_node *node)
{
    static struct to_master message;
    struct caught caught = {.token = ++model->token};
    struct core_input input = {.kind = CORE_MESSAGE, .from = node->number};

    message = node->queue[0];
    node->queue_count--;
    memmove(node->queue, node->queue + 1, node->queue_count * sizeof(message));
    struct wire_forget_rep closed = {.items = &message.closed, .items_count = 1};
    struct wire_slot_gen item = {.slot = message.closed.slot, .gen = message.closed.gen};
    struct wire_freed_msg freed = {.items = &item, .items_count = 1};
    struct wire_inventory_req rows = {.first_slot = message.first,
                                      .end_slot = message.end,
                                      .last = message.last,
                                      .rows = message.rows,
                                      .rows_count = message.row_count};

    if (message.kind == SEND_CLOSED) {
        input.type = WIRE_forget;
        input.message = &closed;
    } else if (message.kind == SEND_FREED) {
        input.type = WIRE_freed;
        input.message = &freed;
    } else if (message.kind == SEND_GROWN) {
        input.type = WIRE_grown;
        input.message = &message.grown;
        model->grown++;
    } else {
        input.type = WIRE_inventory;
        input.token = caught.token;
        input.message = &rows;
    }
    step(model, &input, &caught);
    if (message.kind == SEND_ROWS) {
        assert_int_equal(caught.status, SNOW_OK);
        if (rows.last)
            node->lossy = false;
    }
}

static inline void node_moves(struct model *model, struct model_node *node)
{
    switch (rng_below(&model->rng, model->plan.grows ? 9 : 8)) {
    case 8:
        grow(model, node);
        break;
    case 0:
        beat(model, node);
        break;
    case 1:
        leave_slot(model, node);
        break;
    case 2:
        if (node->telling)
            tell_rows(node);
        break;
    case 3:
    case 4:
        if (node->forget_count > 0)
            read_forget(model, node);
        break;
    case 5:
        if (!node->linked)
            mount_node(model, node);
        break;
    default:
        if (node->queue_count > 0)
            read_from_node(model, node);
        break;
    }
}

static inline void node_fails(struct model *model, struct model_node *node)
{
    switch (rng_below(&model->rng, 4)) {
    case 0:
        break_node(model, node);
        break;
    case 1:
        mount_node(model, node);
        break;
    case 2:
        restart_node(model, node, model->plan.nodes_lose);
        break;
    default:
        for (uint32_t i = 0; i < 2; i++) {
            struct wire_report_peer_msg report = {.node = (uint32_t)node->number};

            step(model,
                 &(struct core_input){.kind = CORE_MESSAGE,
                                      .from = model->sessions[i],
                                      .type = WIRE_report_peer,
                                      .message = &report},
                 NULL);
        }
        break;
    }
}

#endif
