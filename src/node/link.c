/* The master: mounting, telling what is here, forgetting what it says.
 *
 * Problem.  Masters restart and connections break; what this node holds and what a master believes
 *           must meet again.
 * Idea.     Each new connection mounts anew and tells the whole inventory on it, in slot order;
 *           acknowledgements of forgets go on the same connection: order is truth.
 *
 *   (node_leave, from any: it mounts no more, and the master is told)
 *
 *   DOWN ─link up─► MOUNTING ─mount reply─► TELLING ─last slot─► MOUNTED
 *    ▲────────────── link lost, or the master does not know us ──────┘
 * Invariants.
 *   L1  No grant is honoured before a mount gave its key; a new master's key ends the old grants.
 *   L2  A row tells a slot as it is when the message is encoded; what changes later is told by
 *       acknowledgements.
 * Threads.  The service loop. */
#include "node/inside.h"

#include <stdlib.h>

#define REASON_BYTES 96 /* of what a master says against us, in the log */
#define MOUNT_RETRY_NS (200 * NS_PER_MS)
#define CALL_NS (30 * NS_PER_S)
#define LEAVE_NS NS_PER_S
#define ROW_BYTES 128u                            /* of an encoded row without its key, at most */
#define ROWS_BYTES (LIMIT_BODY_SIZE - 64 * 1024u) /* of the rows of one message */

/* FREED of one slot, until the end of the turn. */
struct freed_note {
    struct list_link link;
    uint32_t segment;
    struct wire_slot_gen item;
};

/* ---- inventory ---- */

static void tell_more(struct node *node);

static void set_mounted(struct node *node, bool mounted)
{
    __atomic_store_n(&node->mounted, mounted, __ATOMIC_RELEASE);
}

static bool fill_row(struct node *node, uint32_t segment, uint32_t index,
                     struct wire_inventory_row *row)
{
    const struct slots *slots = &node->segments[segment];
    const struct slot *slot = &slots->table[index];

    if (slot->state == WIRE_SLOT_FREE)
        return false;
    *row = (struct wire_inventory_row){.slot = index,
                                       .gen = slot->gen,
                                       .state = slot->state,
                                       .replica = slot->replica,
                                       .part = slot->part,
                                       .parts = slot->parts,
                                       .flags = slot->flags,
                                       .tenant = slot->tenant,
                                       .offset = slot->offset,
                                       .length = slot->length,
                                       .object_size = slot->object_size,
                                       .object_offset = slot->object_offset,
                                       .key_hash_low = slot->key_hash_low,
                                       .key_hash_high = slot->key_hash_high,
                                       .version = slot_version(slot),
                                       .key = slots_key(slots, index),
                                       .extra = slots_extra(slots, index)};
    if (slot->state == WIRE_SLOT_CLOSED) {
        /* Something is still inside: the master must hold the extent until FREED (N3). */
        const struct activity *activity = node_activity_find(node, segment, index);

        row->gen = activity == NULL ? slot->floor_gen : activity->gen;
    }
    return true;
}

static void on_told(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct node *node = list_entry(call, struct node, inventory_call);

    (void)reply;
    if (!last)
        return;
    if (status != SNOW_OK) {
        if (rpc_peer_conn(&node->master) != NULL)
            rpc_peer_reset(&node->master);
        return;
    }
    if (node->tell_segment < node->segment_count) {
        tell_more(node);
        return;
    }
    node->telling = false;
    set_mounted(node, true);
    node->told = SNOW_OK;
    obs_log_write(node->log, OBS_INFO, "node", "mounted", "number=%u master=%s", node->number,
                  node->options.master);
}

/* Slots that become ready after the mount are FREE: their growth is told, not they. */
static void begin_segment(struct node *node, uint32_t segment)
{
    node->tell_segment = segment;
    node->tell_slot = 0;
    node->tell_end = segment < node->segment_count ? node->mounted_slots[segment] : 0;
}

/* The next slots: as many rows as a message takes, and not too many slots. */
static void tell_more(struct node *node)
{
    struct wire_inventory_row *rows = calloc(LIMIT_INVENTORY_ROWS, sizeof(*rows));
    struct wire_inventory_req message = {.segment = node->tell_segment,
                                         .first_slot = node->tell_slot,
                                         .rows = rows};
    uint32_t at = node->tell_slot;
    size_t bytes = 0;

    if (rows == NULL) {
        rpc_peer_reset(&node->master);
        return;
    }
    while (at < node->tell_end && at - message.first_slot < LIMIT_INVENTORY_SLOTS &&
           message.rows_count < LIMIT_INVENTORY_ROWS &&
           bytes + ROW_BYTES + LIMIT_KEY_SIZE + LIMIT_EXTRA_SIZE < ROWS_BYTES) {
        struct wire_inventory_row *row = &rows[message.rows_count];

        if (fill_row(node, node->tell_segment, at++, row)) {
            bytes += ROW_BYTES + row->key.size + row->extra.size;
            message.rows_count++;
        }
    }
    message.end_slot = at;
    message.last = at == node->tell_end;
    node->tell_slot = at;
    if (message.last)
        begin_segment(node, node->tell_segment + 1);
    node_count(node, NODE_METRIC_inventory_rows, message.rows_count);
    if (rpc_call_start(rpc_peer_conn(&node->master), &node->inventory_call, WIRE_inventory,
                       &message, NULL, env_now_ns(node->env) + CALL_NS) != SNOW_OK)
        rpc_peer_reset(&node->master);
    free(rows);
}

/* ---- mounting ---- */

static void on_mounted(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct node *node = list_entry(call, struct node, mount_call);
    const struct wire_mount_rep *mount = reply;

    if (!last)
        return;
    if (status == SNOW_GONE) {
        node->leaving = true;
        __atomic_store_n(&node->left, true, __ATOMIC_RELEASE);
        __atomic_store_n(&node->drained, true, __ATOMIC_RELEASE);
        obs_log_write(node->log, OBS_INFO, "node", "drained: its part in the cluster is over",
                      "master=%s", node->options.master);
        return;
    }
    if (status != SNOW_OK) {
        obs_log_write(node->log, OBS_INFO, "node", "mount refused", "status=%s",
                      snow_status_name(status));
        env_timer_arm(node->loop, &node->mount_timer, env_now_ns(node->env) + MOUNT_RETRY_NS);
        return;
    }
    node->number = mount->node;
    node->secret = (struct hash128){mount->key_low, mount->key_high};
    node->has_secret = true;
    node_marks_fence(node);
    for (uint32_t i = 0; i < node->segment_count; i++)
        slots_term_set(&node->segments[i], mount->term);
    node_count(node, NODE_METRIC_mounts, 1);
    node->telling = true;
    begin_segment(node, 0);
    tell_more(node);
    for (uint32_t i = 0; i < node->segment_count; i++)
        node_grow_tell(node, i); /* what has become ready since the mount left */
}

static void mount(struct node *node)
{
    struct wire_segment_info infos[LIMIT_SEGMENTS_PER_NODE];
    struct wire_mount_req message = {.incarnation = node->incarnation,
                                     .process = node->process,
                                     .address = bytes_of_string(node_address(node)),
                                     .host = bytes_of_string(env_host(node->env)),
                                     .name = bytes_of_string(node->options.name),
                                     .domain = bytes_of_string(node->options.domain),
                                     .segments = infos,
                                     .segments_count = node->segment_count,
                                     .near = bytes_of_string(rpc_near_address(node->rpc))};

    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct slots *slots = &node->segments[i];

        infos[i] = (struct wire_segment_info){.incarnation = slots->header->incarnation,
                                              .tier = WIRE_TIER_DRAM,
                                              .size = slots->header->data_size,
                                              .ready = slots->ready,
                                              .slot_count = slots->count,
                                              .slots_ready = slots->slots_ready,
                                              .name = message.name};
        node->mounted_slots[i] = slots->slots_ready;
    }
    if (rpc_call_start(rpc_peer_conn(&node->master), &node->mount_call, WIRE_mount, &message, NULL,
                       env_now_ns(node->env) + CALL_NS) != SNOW_OK)
        rpc_peer_reset(&node->master);
}

static void on_mount_timer(struct env_timer *timer)
{
    struct node *node = list_entry(timer, struct node, mount_timer);

    if (rpc_peer_conn(&node->master) != NULL && !rpc_call_is_open(&node->mount_call))
        mount(node);
}

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct node *node = list_entry(peer, struct node, master);

    (void)hello;
    if (!node->leaving)
        mount(node);
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    struct node *node = list_entry(peer, struct node, master);

    node->telling = false;
    set_mounted(node, false);
    env_timer_cancel(&node->mount_timer);
    obs_log_write(node->log, OBS_INFO, "node", "lost the master", "status=%s",
                  snow_status_name(status));
}

static void on_failed(struct rpc_peer *peer, enum snow_status status, struct bytes reason)
{
    struct node *node = list_entry(peer, struct node, master);
    enum obs_level level = status == SNOW_REFUSED ? OBS_WARNING : OBS_INFO;
    char shown[4 * REASON_BYTES + 16];
    struct text text;

    text_init(&text, shown, sizeof(shown));
    text_add_bytes(&text, reason, REASON_BYTES);
    obs_log_write(node->log, status == node->told ? OBS_DEBUG : level, "node",
                  "can not reach the master", "address=%s status=%s reason=%s",
                  node->options.master, snow_status_name(status), shown);
    node->told = status;
}

/* ---- leaving ---- */

static void set_left(struct node *node)
{
    __atomic_store_n(&node->left, true, __ATOMIC_RELEASE);
}

static void on_left(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    (void)status; /* a master that did not hear it sees the silence */
    (void)reply;
    if (last)
        set_left(list_entry(call, struct node, leave_call));
}

static void on_leave(struct env_task *task)
{
    struct node *node = list_entry(task, struct node, leave_task);
    struct wire_unmount_req message = {.incarnation = node->incarnation};
    struct rpc_conn *conn = rpc_peer_conn(&node->master);

    node->leaving = true;
    node->telling = false;
    set_mounted(node, false);
    env_timer_cancel(&node->mount_timer);
    rpc_call_cancel(&node->mount_call);
    rpc_call_cancel(&node->inventory_call);
    node->leave_call.on_reply = on_left;
    if (node->options.segment_dir[0] != 0 || conn == NULL ||
        rpc_call_start(conn, &node->leave_call, WIRE_unmount, &message, NULL,
                       env_now_ns(node->env) + LEAVE_NS) != SNOW_OK)
        set_left(node);
}

void node_leave(struct node *node)
{
    if (!__atomic_exchange_n(&node->leave_asked, true, __ATOMIC_ACQ_REL))
        env_loop_post(node->loop, &node->leave_task);
}

bool node_has_left(const struct node *node)
{
    return __atomic_load_n(&node->left, __ATOMIC_ACQUIRE);
}

/* ---- forgetting ---- */

void node_forget(struct node *node, struct rpc_request *request,
                 const struct wire_forget_req *forget)
{
    struct wire_closed *closed = calloc(forget->items_count + 1, sizeof(*closed));
    struct wire_forget_rep reply = {.segment = forget->segment,
                                    .items = closed,
                                    .items_count = forget->items_count};

    if (closed == NULL || forget->segment >= node->segment_count) {
        rpc_fail(request, closed == NULL ? SNOW_NO_MEMORY : SNOW_INVALID);
        free(closed);
        return;
    }
    for (uint32_t i = 0; i < forget->items_count; i++) {
        const struct wire_slot_gen *item = &forget->items[i];

        closed[i].slot = item->slot;
        closed[i].gen = item->gen;
        closed[i].freed = item->slot >= node->segments[forget->segment].slots_ready ||
                          node_close_slot(node, forget->segment, item->slot, item->gen);
    }
    node_marks_look(node);
    for (uint32_t i = 0; i < forget->items_count; i++) {
        if (closed[i].slot < node->segments[forget->segment].slots_ready)
            closed[i].freed = node_free_slot(node, forget->segment, closed[i].slot, closed[i].gen,
                                             closed[i].freed);
    }
    rpc_reply(request, &reply, true);
    free(closed);
}

/* A slot that is not ready holds nothing. */
void node_verify(const struct node *node, struct rpc_request *request,
                 const struct wire_verify_req *verify)
{
    struct wire_verify_rep reply = {
        .segment = verify->segment, .slot = verify->slot, .gen = verify->gen, .status = SNOW_STALE};

    if (node_slot_is_ready(node, verify->segment, verify->slot))
        reply.status =
            (int32_t)slots_verify(&node->segments[verify->segment], verify->slot, verify->gen);
    rpc_reply(request, &reply, true);
}

void node_say_freed(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen)
{
    struct freed_note *note = calloc(1, sizeof(*note));

    if (note == NULL)
        return; /* told by the next inventory, or asked for again */
    note->segment = segment;
    note->item = (struct wire_slot_gen){.slot = slot, .gen = gen};
    list_push(&node->freed, &note->link);
}

/* One message a segment and at most a batch of slots; what is left goes with the next turn. */
static void on_turn_end(struct env_hook *hook)
{
    struct node *node = list_entry(hook, struct node, hook);
    struct wire_slot_gen items[64];
    struct list_link *link;

    while ((link = list_first(&node->freed)) != NULL) {
        struct wire_freed_msg message = {
            .segment = list_entry(link, struct freed_note, link)->segment, .items = items};

        while (link != NULL && message.items_count < 64) {
            struct freed_note *note = list_entry(link, struct freed_note, link);

            if (note->segment != message.segment)
                break;
            items[message.items_count++] = note->item;
            list_remove(link);
            free(note);
            link = list_first(&node->freed);
        }
        /* With the master away nothing is lost: its next forget is answered FREED. */
        if (rpc_peer_conn(&node->master) != NULL &&
            rpc_oneway(rpc_peer_conn(&node->master), WIRE_freed, &message) != SNOW_OK)
            rpc_peer_reset(&node->master);
    }
}

enum snow_status node_link_open(struct node *node)
{
    node->mount_call.on_reply = on_mounted;
    node->inventory_call.on_reply = on_told;
    node->mount_timer.on_event = on_mount_timer;
    node->hook.on_event = on_turn_end;
    node->leave_task.on_event = on_leave;
    node->master.on_up = on_up;
    node->master.on_down = on_down;
    node->master.on_failed = on_failed;
    env_hook_add(node->loop, &node->hook);
    return rpc_peer_open(&node->master, node->rpc, node->options.master, 0);
}

void node_link_close(struct node *node)
{
    rpc_peer_close(&node->master);
    env_timer_cancel(&node->mount_timer);
    env_hook_remove(&node->hook);
}

void node_freed_drop(struct node *node)
{
    struct list_link *link;

    while ((link = list_pop(&node->freed)) != NULL)
        free(list_entry(link, struct freed_note, link));
}
