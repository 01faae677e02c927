/* Nodes: who gives memory, who is silent, who is gone.
 *
 *   (none) ─core_mount─► RECOVERING ─all inventories─► ALIVE ⇄ SUSPECT (silence, or a broken
 *                            ▲  ▲                                │      connection)
 *                            │  └───────core_mount───────────────┤
 *                            └──────────core_mount──── DEAD ◄────┘ dead_after, or core_unmount
 *
 * Invariants.
 *   E1  Nothing is placed on a node that is not ALIVE and linked (P5).
 *   E2  A SUSPECT node loses nothing: its objects are hidden until it returns.
 *   E3  The extents of a DEAD node are dropped in bounded steps.
 *   E4  A node that comes back with other segments has lost the old ones: they are dropped first.
 *   E5  A node whose contents are not believed gets nothing, and is not in the state file, until it
 *       has forgotten them all: a master that starts again in between must not believe the rest.
 * A node that was DEAD and is dropped gives its place to the next new one; its number is never
 * used again.
 * Threads.  The core's own. */
#include "core/group.h"
#include "wire/grant.h"

#include <stdlib.h>
#include <string.h>

#define DROP_SLOTS (16 * LIMIT_STEP_OBJECTS)

struct node *core_node_at(struct core *core, uint64_t number)
{
    uint64_t index = (number - 1) % LIMIT_NODES;

    if (number == 0 || index >= core->node_count || core->nodes[index]->number != number)
        return NULL;
    return core->nodes[index];
}

static struct node *find_incarnation(struct core *core, uint64_t incarnation)
{
    for (uint32_t i = 0; i < core->node_count && incarnation != 0; i++) {
        if (core->nodes[i]->incarnation == incarnation)
            return core->nodes[i];
    }
    return NULL;
}

bool core_knows_node(struct core *core, uint64_t incarnation)
{
    return find_incarnation(core, incarnation) != NULL;
}

/* ---- what the state file lists ---- */

static bool is_expected(const struct core *core, uint64_t incarnation)
{
    for (uint32_t i = 0; i < core->expected_count; i++) {
        if (core->expected[i].incarnation == incarnation)
            return true;
    }
    return false;
}

static void expect(struct core *core, uint64_t incarnation)
{
    if (is_expected(core, incarnation))
        return;
    ASSERT(core->expected_count < LIMIT_NODES); /* core_mount has looked */
    core->missing_known[core->expected_count] = true;
    core->expected[core->expected_count++].incarnation = incarnation;
    core_output_add(core, CORE_OUT_PERSIST);
}

/* What was removed or replaced while it was away may be on it: if it returns it is emptied. */
static void give_up(struct core *core, uint64_t incarnation)
{
    core->given_up[core->given_up_count++ % LIMIT_NODES] = incarnation;
}

static bool was_given_up(const struct core *core, uint64_t incarnation)
{
    for (uint32_t i = 0; i < core->given_up_count && i < LIMIT_NODES; i++) {
        if (core->given_up[i] == incarnation)
            return true;
    }
    return false;
}

static void expect_no_more(struct core *core, uint64_t incarnation)
{
    for (uint32_t i = 0; i < core->expected_count; i++) {
        if (core->expected[i].incarnation != incarnation)
            continue;
        core->missing -= !core->missing_known[i];
        core->expected_count--;
        core->expected[i] = core->expected[core->expected_count];
        core->missing_known[i] = core->missing_known[core->expected_count];
        core_output_add(core, CORE_OUT_PERSIST);
        return;
    }
}

void core_expected_in(struct core *core, uint64_t incarnation)
{
    for (uint32_t i = 0; i < core->expected_count; i++) {
        if (core->expected[i].incarnation != incarnation || core->missing_known[i])
            continue;
        core->missing_known[i] = true;
        core->missing--;
    }
}

static void on_missing_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;

    (void)timer;
    for (uint32_t i = core->expected_count; i-- > 0;) {
        const struct node *node = find_incarnation(core, core->expected[i].incarnation);

        /* One that is here is judged by its own silence. */
        if (!core->missing_known[i] && (node == NULL || node->state == NODE_DEAD)) {
            give_up(core, core->expected[i].incarnation);
            expect_no_more(core, core->expected[i].incarnation);
        }
    }
}

void core_expected_start(struct core *core, const struct core_start *start)
{
    for (uint32_t i = 0; i < start->expected_count && i < LIMIT_NODES; i++)
        core->expected[core->expected_count++] = start->expected[i];
    core->missing = core->expected_count;
    core->missing_timer.on_event = on_missing_end;
    if (core->missing > 0)
        wheel_arm(&core->wheel, &core->missing_timer, core->now_ns + core->options.dead_after_ns);
}

/* ---- silence ---- */

/* It gets no new objects, and readers do not see what it alone holds. */
static void suspect(struct core *core, struct node *node)
{
    if (node->state != NODE_ALIVE && node->state != NODE_RECOVERING)
        return;
    node->state = NODE_SUSPECT;
    core_count(core, CORE_METRIC_suspects, 1);
    core->room_changed = true; /* who waits for room there goes elsewhere */
    core_closings_recheck(core);
}

bool core_node_is_reachable(const struct core *core, const struct node *node)
{
    return node->linked && core->now_ns - node->heard_ns < core->options.suspect_after_ns;
}

void core_node_break(struct core *core, struct node *node)
{
    node->linked = false;
    node->reporter = 0;
    core_copy_node_gone(core, node);
    suspect(core, node);
    core_closings_recheck(core);
}

static void kill_node(struct core *core, struct node *node)
{
    core_drain_node_gone(core, node);
    core_copy_node_gone(core, node);
    node->state = NODE_DEAD;
    node->linked = false;
    node->inventory_due = false;
    wheel_cancel(&core->wheel, &node->timer);
    for (uint32_t i = 0; i < node->segment_count; i++) {
        struct segment *segment = core->segments[node->first_segment + i];

        if (!space_is_recovering(segment->space)) {
            core->pool_bytes -= segment->size;
            core->ready_bytes -= space_size(segment->space);
            core->free_bytes -= space_free_bytes(segment->space);
        }
        segment->dropping = true;
        segment->drop_cursor = 0;
        core->drops++;
    }
    give_up(core, node->incarnation);
    expect_no_more(core, node->incarnation);
    core->room_changed = true;
    core_closings_recheck(core);
}

void core_node_retire(struct core *core, struct node *node)
{
    core->drained[core->drained_count++ % LIMIT_NODES] =
        (struct drained){.incarnation = node->incarnation, .process = node->process};
    core_count(core, CORE_METRIC_nodes_drained, 1);
    kill_node(core, node);
}

static bool was_drained(const struct core *core, const struct wire_mount_req *mount)
{
    for (uint32_t i = 0; i < core->drained_count && i < LIMIT_NODES; i++) {
        if (core->drained[i].incarnation == mount->incarnation &&
            core->drained[i].process == mount->process)
            return true;
    }
    return false;
}

static void on_silence(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    struct node *node = list_entry(timer, struct node, timer);
    uint64_t silent_ns = core->now_ns - node->heard_ns;

    if (silent_ns >= core->options.dead_after_ns) {
        kill_node(core, node);
        return;
    }
    if (silent_ns >= core->options.suspect_after_ns)
        suspect(core, node);
    uint64_t next_ns = silent_ns >= core->options.suspect_after_ns ? core->options.dead_after_ns
                                                                   : core->options.suspect_after_ns;

    wheel_arm(&core->wheel, &node->timer, node->heard_ns + next_ns);
}

static void hear(struct core *core, struct node *node)
{
    node->heard_ns = core->now_ns;
    node->reporter = 0;
    if (node->state == NODE_SUSPECT && node->linked) {
        node->state = node->inventory_due ? NODE_RECOVERING : NODE_ALIVE;
        core->room_changed = true;
        core->copies_due = true;
    }
    wheel_arm(&core->wheel, &node->timer, core->now_ns + core->options.suspect_after_ns);
}

/* Reports of two clients make a SUSPECT, however often each says so; a heartbeat clears them. */
void core_node_report(struct core *core, const struct wire_report_peer_msg *message,
                      uint64_t session)
{
    struct node *node = core_node_at(core, message->node);

    if (node == NULL || node->state != NODE_ALIVE)
        return;
    if (node->reporter == 0)
        node->reporter = session;
    else if (node->reporter != session)
        suspect(core, node);
}

void core_heartbeat(struct core *core, const struct core_input *input)
{
    const struct wire_heartbeat_req *beat = input->message;
    struct wire_heartbeat_rep *reply = core_out(core, 1, sizeof(*reply));
    struct node *node = find_incarnation(core, beat->incarnation);
    bool known = node != NULL && node->state != NODE_DEAD && node->process == beat->process;

    reply->mounted = known && node->linked;
    if (known && beat->stalled_ms * NS_PER_MS < core->options.suspect_after_ns)
        hear(core, node);
    core_reply(core, input->token, WIRE_heartbeat, reply);
}

enum snow_status core_node_note_ended(struct core *core, uint32_t number)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        struct node *node = core->nodes[core->segments[part.segment]->node];

        if (!part.present || !node->inventory_due)
            continue;
        if (node->ended_count == node->ended_capacity) {
            uint32_t capacity = node->ended_capacity == 0 ? 16 : node->ended_capacity * 2;
            struct ended_part *grown = realloc(node->ended, capacity * sizeof(*grown));

            if (grown == NULL)
                return SNOW_NO_MEMORY;
            node->ended = grown;
            node->ended_capacity = capacity;
        }
        node->ended[node->ended_count++] =
            (struct ended_part){.segment = part.segment, .slot = part.slot, .gen = part.gen};
    }
    return SNOW_OK;
}

static bool holds_strays(const struct core *core, const struct node *node)
{
    for (uint32_t i = 0; i < node->segment_count && !node->adopts; i++) {
        if (core->segments[node->first_segment + i]->closing_bytes > 0)
            return true;
    }
    return false;
}

void core_node_settle(struct core *core, struct node *node)
{
    if (!node->inventory_due || !node->linked || node->inventories < node->segment_count ||
        holds_strays(core, node))
        return;
    node->inventory_due = false;
    node->adopts = true; /* from now on it holds what this core has placed there */
    node->state = NODE_ALIVE;
    expect(core, node->incarnation);
    core_expected_in(core, node->incarnation);
    core->room_changed = true;
    hear(core, node);
}

/* ---- mounting ---- */

static void copy_text(char *to, struct bytes text)
{
    size_t size = text.size < LIMIT_NAME_SIZE ? text.size : LIMIT_NAME_SIZE;

    if (size > 0)
        memcpy(to, text.at, size);
    to[size] = 0;
}

static bool segment_is_valid(const struct wire_segment_info *info)
{
    return info->size > 0 && info->size % SPACE_ALIGN == 0 && info->size <= LIMIT_SEGMENT_SIZE &&
           info->ready > 0 && info->ready % SPACE_ALIGN == 0 && info->ready <= info->size &&
           info->slot_count <= info->size / SPACE_GRANULE && info->slots_ready > 0 &&
           info->slots_ready <= info->slot_count && info->tier == WIRE_TIER_DRAM &&
           info->name.size <= LIMIT_NAME_SIZE;
}

static bool mount_is_valid(const struct wire_mount_req *mount)
{
    if (mount->incarnation == 0 || mount->segments_count == 0 ||
        mount->segments_count > LIMIT_SEGMENTS_PER_NODE || mount->address.size == 0 ||
        mount->address.size > LIMIT_NAME_SIZE || mount->near.size > LIMIT_NAME_SIZE)
        return false;
    for (uint32_t i = 0; i < mount->segments_count; i++) {
        if (!segment_is_valid(&mount->segments[i]))
            return false;
    }
    return true;
}

static bool is_dropped(const struct core *core, const struct node *node)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        if (core->segments[node->first_segment + i]->space != NULL)
            return false;
    }
    return node->state == NODE_DEAD;
}

static struct node *add_node(struct core *core, uint32_t segment_count)
{
    struct node *node;

    if (core->node_count == LIMIT_NODES || core->segment_count + segment_count > LIMIT_SEGMENTS)
        return NULL;
    node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->state = NODE_DEAD;
    node->first_segment = core->segment_count;
    for (uint32_t i = 0; i < segment_count; i++) {
        struct segment *segment = calloc(1, sizeof(*segment));

        if (segment == NULL) {
            while (i-- > 0)
                free(core->segments[--core->segment_count]);
            free(node);
            return NULL;
        }
        list_init(&segment->seconds);
        segment->index = core->segment_count;
        segment->on_node = i;
        segment->node = core->node_count;
        core->segments[core->segment_count++] = segment;
    }
    node->segment_count = segment_count;
    node->number = core->node_count + 1;
    core->nodes[core->node_count++] = node;
    return node;
}

/* A place of the table: one whose node is DEAD and dropped and had as many segments, or a new
 * one. */
static struct node *take_node(struct core *core, uint32_t segment_count)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = core->nodes[i];

        if (node->segment_count == segment_count && is_dropped(core, node)) {
            node->number += LIMIT_NODES;
            return node;
        }
    }
    return add_node(core, segment_count);
}

static void close_segments(struct core *core, struct node *node)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        struct segment *segment = core->segments[node->first_segment + i];

        space_destroy(segment->space);
        segment->space = NULL;
    }
}

static enum snow_status open_segments(struct core *core, struct node *node,
                                      const struct wire_mount_req *mount)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        struct segment *segment = core->segments[node->first_segment + i];
        const struct wire_segment_info *info = &mount->segments[i];
        enum snow_status status =
            space_create(&core->region, info->ready, info->slot_count, true, &segment->space);

        if (status != SNOW_OK) {
            close_segments(core, node);
            return status;
        }
        space_limit(segment->space, info->slots_ready);
        segment->mounted_size = info->size;
        segment->size = info->size;
        segment->slot_count = info->slot_count;
        segment->ready = info->ready;
        segment->slots_ready = info->slots_ready;
        segment->incarnation = info->incarnation;
        segment->tier = info->tier;
        copy_text(segment->name, info->name);
    }
    return SNOW_OK;
}

static bool same_segments(const struct core *core, const struct node *node,
                          const struct wire_mount_req *mount)
{
    if (node->segment_count != mount->segments_count)
        return false;
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct segment *segment = core->segments[node->first_segment + i];

        if (segment->space == NULL || segment->incarnation != mount->segments[i].incarnation ||
            segment->mounted_size != mount->segments[i].size ||
            space_slot_count(segment->space) != mount->segments[i].slot_count ||
            segment->ready > mount->segments[i].ready ||
            segment->slots_ready > mount->segments[i].slots_ready)
            return false;
    }
    return true;
}

/* Never one from before: a node that was given up may return with its number and its process, and
 * extents that were granted then were never forgotten there. */
static struct hash128 make_secret(struct core *core, const struct node *node)
{
    uint64_t data[4] = {core->term, ++core->secrets, node->number, 0};
    struct hash128 secret;

    secret.low = siphash(&core->secret, data, sizeof(data));
    data[3] = 1;
    secret.high = siphash(&core->secret, data, sizeof(data));
    return secret;
}

/* Nodes that will be expected once they are emptied. */
static uint32_t emptying(const struct core *core)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < core->node_count; i++)
        count += core->nodes[i]->state != NODE_DEAD && !core->nodes[i]->adopts;
    return count;
}

/* The node of a mount, its segments open. */
static enum snow_status find_or_take(struct core *core, const struct wire_mount_req *mount,
                                     struct node **found)
{
    struct node *node = find_incarnation(core, mount->incarnation);

    if (!mount_is_valid(mount))
        return SNOW_INVALID;
    if (node != NULL && node->state != NODE_DEAD) {
        *found = node;
        if (same_segments(core, node, mount))
            return SNOW_OK;
        kill_node(core, node);
    }
    if (node != NULL && !is_dropped(core, node))
        return SNOW_BUSY; /* its extents are still being dropped */
    if (core->expected_count + emptying(core) >= LIMIT_NODES &&
        !is_expected(core, mount->incarnation))
        return SNOW_LIMIT;
    if (node != NULL && node->segment_count != mount->segments_count) {
        node->incarnation = 0; /* its place is for others */
        node = NULL;
    }
    if (node == NULL)
        node = take_node(core, mount->segments_count);
    if (node == NULL)
        return SNOW_LIMIT;
    *found = node;
    node->adopts = is_expected(core, mount->incarnation) ||
                   (core->adopts_strangers && !was_given_up(core, mount->incarnation));
    return open_segments(core, node, mount);
}

/* A mount tells how far the segment has grown; its inventory is to come. */
static void expect_inventory(struct core *core, struct segment *segment,
                             const struct wire_segment_info *info)
{
    segment->told = false;
    segment->told_slots = 0;
    segment->told_end = info->slots_ready; /* those that become ready later are FREE */
    segment->ready = info->ready;
    segment->slots_ready = info->slots_ready;
    segment->asked = info->ready;
    segment->asked_slots = info->slots_ready;
    core_grow_apply(core, segment);
}

void core_mount(struct core *core, const struct core_input *input)
{
    const struct wire_mount_req *mount = input->message;
    struct node *node = NULL;
    enum snow_status status =
        was_drained(core, mount) ? SNOW_GONE : find_or_take(core, mount, &node);

    if (status != SNOW_OK) {
        core_fail(core, input->token, WIRE_mount, status);
        return;
    }
    bool new_process = node->process != mount->process || node->state == NODE_DEAD;

    core_copy_node_gone(core, node);

    node->incarnation = mount->incarnation;
    node->process = mount->process;
    node->linked = true;
    node->inventory_due = true;
    node->inventories = 0;
    node->ended_count = 0;
    node->state = NODE_RECOVERING;
    node->timer.on_event = on_silence;
    copy_text(node->address, mount->address);
    copy_text(node->host, mount->host);
    copy_text(node->domain, mount->domain.size > 0 ? mount->domain : mount->host);
    copy_text(node->near, mount->near);
    copy_text(node->name, mount->name);
    if (new_process || node->secret_term != core->term)
        node->secret = make_secret(core, node);
    node->secret_term = core->term;
    node->key_id = grant_key_id(&node->secret);
    for (uint32_t i = 0; i < node->segment_count; i++)
        expect_inventory(core, core->segments[node->first_segment + i], &mount->segments[i]);
    hear(core, node);
    if (node->adopts)
        expect(core, node->incarnation);
    struct wire_mount_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->node = node->number;
    reply->term = core->term;
    reply->key_low = node->secret.low;
    reply->key_high = node->secret.high;
    reply->inventory = 1;
    core_reply(core, input->token, WIRE_mount, reply);
}

void core_unmount(struct core *core, const struct core_input *input, struct node *node)
{
    const struct wire_unmount_req *unmount = input->message;
    struct wire_unmount_rep *reply = core_out(core, 1, sizeof(*reply));

    if (node != NULL && node->linked && node->incarnation == unmount->incarnation) {
        core_count(core, CORE_METRIC_unmounts, 1);
        kill_node(core, node);
        reply->known = 1;
    }
    core_reply(core, input->token, WIRE_unmount, reply);
}

/* ---- dropping what a DEAD node held ---- */

void core_copy_lost(struct core *core, uint32_t number, uint32_t index)
{
    struct part part = core_part_at(core, number, index);

    core_extent_give(core, &part, number);
    core_part_lost(core, number, index);
}

void core_part_lost(struct core *core, uint32_t number, uint32_t index)
{
    struct object *object = core_object(core, number);
    bool hard = core_pin_counts(core, number);

    core_victim_leave(core, number);
    core->hard_pinned_bytes -= hard ? core_object_bytes(core, number) : 0;
    core_part_clear(core, number, index);
    core->hard_pinned_bytes += hard ? core_object_bytes(core, number) : 0;
    core_count(core, CORE_METRIC_lost_copies, 1);
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part other = core_part_at(core, number, i);

        if (other.present) {
            object->segment = other.segment;
            break;
        }
    }
    if (core_replica_count(core, number) > 0) {
        core_group_moved(core, number);
        core_victim_return(core, number);
        core_second_refresh(core, number);
    } else if (object->state == OBJECT_WRITING) {
        core_count(core, CORE_METRIC_puts_expired, 1);
        core_write_fail(core, number);
    } else if (object->state == OBJECT_READABLE) {
        core_count(core, CORE_METRIC_lost_objects, 1);
        core_close(core, number, CLOSE_STRAY);
    }
}

static void drop_slot(struct core *core, struct segment *segment, uint32_t slot)
{
    uint32_t number = space_owner(segment->space, slot);
    uint32_t index;

    if (!core_part_find(core, number, segment->index, slot, &index))
        return;
    if (core_object(core, number)->state == OBJECT_CLOSING)
        core_part_freed(core, number, index);
    else
        core_copy_lost(core, number, index);
}

static void drop_step(struct core *core, struct segment *segment)
{
    uint32_t count = space_slot_count(segment->space);
    uint32_t dropped = 0;

    for (uint32_t i = 0; i < DROP_SLOTS && segment->drop_cursor < count; i++) {
        uint32_t slot = segment->drop_cursor;

        if (dropped == LIMIT_STEP_OBJECTS)
            return;
        segment->drop_cursor++;
        if (space_is_used(segment->space, slot)) {
            drop_slot(core, segment, slot);
            dropped++;
        }
    }
    if (segment->drop_cursor < count)
        return;
    space_destroy(segment->space);
    segment->space = NULL;
    segment->dropping = false;
    core->drops--;
}

void core_drops_run(struct core *core)
{
    for (uint32_t i = 0; i < core->segment_count && core->drops > 0; i++) {
        if (core->segments[i]->dropping) {
            drop_step(core, core->segments[i]);
            return; /* one segment a step */
        }
    }
}
