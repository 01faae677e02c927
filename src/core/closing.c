/* Forgetting: from the decision that a version goes to the moment its extents may be given out
 * again.
 *
 * Problem.  A node may still be reading or receiving what the master has given up (P3); and what
 *           was removed must not come back when the master restarts.
 * Idea.     Two acknowledgements.  CLOSED: no new reader or writer, never again WRITTEN in an
 *           inventory; what waited for the removal is answered.  FREED: nothing is inside; the
 *           extent goes back to its segment.
 * Invariants.
 *   C1  A CLOSING object keeps all extents that were not FREED.
 *   C2  A waiter is answered once, when no version of the key is left that a reachable holder has
 *       not acknowledged: with its own answer, or UNCERTAIN when unreachable ones are missing.
 *   C3  Bytes count as coming for 50 ms after the forget left, then no more.
 *
 *   READABLE, WRITING, RECOVERING ─core_close─► CLOSING ─core_part_closed (all)─► waiters answered
 *                                                  └─core_part_freed (all)─► record freed
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>

#define COMING_NS (50 * NS_PER_MS)
#define STEP_CLOSINGS (16 * LIMIT_STEP_OBJECTS)

static struct closing *closing_of(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    ASSERT(object->state == OBJECT_CLOSING);
    return pool_at(&core->closings_pool, object->next);
}

static struct node *node_of_part(const struct core *core, const struct part *part)
{
    return core->nodes[core->segments[part->segment]->node];
}

/* ---- telling the nodes ---- */

void core_forget_slot(struct core *core, uint32_t segment_index, uint32_t slot, uint64_t gen)
{
    struct segment *segment = core->segments[segment_index];

    if (!core->nodes[segment->node]->linked)
        return; /* its inventory will ask for it again */
    if (segment->forget_count == segment->forget_capacity) {
        uint32_t capacity = segment->forget_capacity == 0 ? 64 : segment->forget_capacity * 2;
        struct wire_slot_gen *grown = realloc(segment->forgets, capacity * sizeof(*grown));

        ASSERT(grown != NULL);
        segment->forgets = grown;
        segment->forget_capacity = capacity;
    }
    segment->forgets[segment->forget_count++] = (struct wire_slot_gen){.slot = slot, .gen = gen};
    if (!list_is_linked(&segment->forgetting))
        list_push(&core->forgetting, &segment->forgetting);
    core_count(core, CORE_METRIC_forgets_sent, 1);
}

static void flush_batch(struct core *core, struct segment *segment, uint32_t from, uint32_t count)
{
    struct core_output *output = core_output_add(core, CORE_OUT_FORGET);
    struct wire_forget_req *request = core_out(core, 1, sizeof(*request));

    request->segment = segment->on_node;
    request->items = core_out(core, count, sizeof(*request->items));
    request->items_count = count;
    for (uint32_t i = 0; i < count; i++)
        request->items[i] = segment->forgets[from + i];
    output->to = core->nodes[segment->node]->number;
    output->type = WIRE_forget;
    output->message = request;
}

/* At the end of a step: never held to fill a batch. */
void core_forgets_flush(struct core *core)
{
    list_each (&core->forgetting, link, next) {
        struct segment *segment = list_entry(link, struct segment, forgetting);
        bool linked = core->nodes[segment->node]->linked;

        for (uint32_t from = 0; linked && from < segment->forget_count;) {
            uint32_t left = segment->forget_count - from;
            uint32_t count = left < LIMIT_BATCH_ITEMS ? left : LIMIT_BATCH_ITEMS;

            flush_batch(core, segment, from, count);
            from += count;
        }
        segment->forget_count = 0;
        list_remove(link);
    }
}

/* ---- bytes on their way back ---- */

/* Bytes of an extent as the segment's coming_bytes count them; 0: it has none to give. */
static uint64_t coming_of(const struct core *core, const struct part *part)
{
    const struct segment *segment = core->segments[part->segment];

    return part->present ? space_capacity(segment->space, part->slot) : 0;
}

static void start_counting(struct core *core, struct closing *closing)
{
    uint32_t count = core_part_count(core, closing->object);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, closing->object, i);

        /* Not while a segment recovers: what it holds is not the pool's yet. */
        if (part.present && (!node_of_part(core, &part)->linked ||
                             space_is_recovering(core->segments[part.segment]->space)))
            return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, closing->object, i);

        core->segments[part.segment]->coming_bytes += coming_of(core, &part);
    }
    closing->counted = true;
    list_push(&core->closings, &closing->by_age);
}

static void stop_counting(struct core *core, struct closing *closing)
{
    uint32_t count = core_part_count(core, closing->object);

    if (!closing->counted)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, closing->object, i);

        core->segments[part.segment]->coming_bytes -= coming_of(core, &part);
    }
    closing->counted = false;
    list_remove(&closing->by_age);
}

void core_closing_age(struct core *core)
{
    struct list_link *link;

    for (uint32_t i = 0; i < STEP_CLOSINGS && (link = list_first(&core->closings)) != NULL; i++) {
        struct closing *closing = list_entry(link, struct closing, by_age);

        if (core->now_ns < closing->since_ns + COMING_NS)
            return;
        stop_counting(core, closing);
        core->room_changed = true; /* who counted on it may have to evict more */
    }
}

uint64_t core_closing_age_ns(const struct core *core)
{
    struct list_link *link = list_first(&core->closings);

    return link == NULL ? UINT64_MAX
                        : list_entry(link, struct closing, by_age)->since_ns + COMING_NS;
}

/* ---- closing ---- */

void core_close(struct core *core, uint32_t number, enum close_reason reason)
{
    struct object *object = core_object(core, number);
    uint32_t count = core_part_count(core, number);
    uint32_t index;

    ASSERT(object->state != OBJECT_CLOSING);
    core_apply_withdraw(core, number, reason);
    enum snow_status status = pool_take(&core->closings_pool, &index);

    ASSERT(status == SNOW_OK); /* as many as objects */
    struct closing *closing = pool_at(&core->closings_pool, index);

    list_init(&closing->waiters);
    closing->object = number;
    closing->since_ns = core->now_ns;
    object->next = index;
    core->closing++;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (!part.present)
            continue;
        closing->open++;
        closing->held++;
        closing->bytes += core_part_bytes(&part);
        core->segments[part.segment]->closing_bytes += core_part_bytes(&part);
        core_forget_slot(core, part.segment, part.slot, part.gen);
    }
    core->closing_bytes += closing->bytes;
    if (closing->held > 0)
        start_counting(core, closing);
    else
        core_part_freed(core, number, UINT32_MAX);
}

void core_close_extent(struct core *core, const struct part *part, uint64_t gen)
{
    core_close_copy(core, part, gen,
                    (struct key_hash){.key = bytes_of(NULL, 0), .hash = core_mix(gen)});
}

void core_close_copy(struct core *core, const struct part *part, uint64_t gen, struct key_hash key)
{
    struct part alone = *part;
    uint32_t number = core_object_create(core, key.key, key.hash);

    ASSERT(number != 0);
    core_object(core, number)->gen = gen;
    core_object(core, number)->size = part->length & OBJECT_SIZE_MASK;
    alone.replica = 0;
    alone.part = 0;
    alone.parts = 1;
    alone.object_offset = 0;
    alone.closed = false;
    alone.gen = gen;
    enum snow_status status = core_parts_set(core, number, &alone, 1);

    ASSERT(status == SNOW_OK);
    space_set_owner(core->segments[part->segment]->space, part->slot, number);
    core_close(core, number, CLOSE_STRAY);
}

/* ---- who waits for it ---- */

/* A node that holds an unacknowledged part and is reachable (true), or only unreachable ones
 * (false, *away names one). */
static bool waits_for_reachable(struct core *core, uint32_t number, uint32_t *away)
{
    uint32_t count = core_part_count(core, number);

    if (closing_of(core, number)->open == 0)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (!part.present || part.closed)
            continue;
        const struct node *node = node_of_part(core, &part);

        if (core_node_is_reachable(core, node))
            return true;
        *away = node->number;
    }
    return false;
}

/* A version of the key that a reachable holder has not acknowledged; 0: none (*away: the number of
 * a node out of reach that has not, if there is one). */
static uint32_t unacknowledged(struct core *core, struct bytes key, uint64_t hash, uint32_t *away)
{
    struct object_cursor cursor;
    uint32_t number = core_object_first(core, key, hash, &cursor);

    for (; number != 0; number = core_object_next(&cursor)) {
        if (core_object(core, number)->state == OBJECT_CLOSING &&
            waits_for_reachable(core, number, away))
            return number;
    }
    return 0;
}

static void answer_item(struct core *core, struct request *request, uint32_t item,
                        const struct waiter *waiter, uint32_t away)
{
    enum snow_status status = away != 0 ? SNOW_UNCERTAIN : waiter->answer;

    if (request->type == WIRE_remove_match)
        core_remove_match_done(core, request, waiter->answer == SNOW_OK, status);
    else if (request->type == WIRE_group_remove)
        core_group_remove_done(core, request, item, status);
    else
        core_answer_status(core, request, item, status, waiter->shortfall + (away != 0), away);
}

static void answer_when_closed(struct core *core, uint32_t number)
{
    struct closing *closing = closing_of(core, number);
    struct bytes key = core_object_key(core, number);
    uint32_t away = 0;
    uint32_t other;
    struct list_link *link;

    if (list_is_empty(&closing->waiters) || waits_for_reachable(core, number, &away))
        return;
    other = unacknowledged(core, key, core_object_hash(core, number), &away);
    while ((link = list_first(&closing->waiters)) != NULL) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        if (other != 0) {
            list_remove(link);
            core_await(core, other, waiter);
            continue;
        }
        answer_item(core, waiter->request, waiter->item, waiter, away);
        core_waiter_end(core, waiter);
    }
}

void core_await(struct core *core, uint32_t number, struct waiter *waiter)
{
    struct closing *closing = closing_of(core, number);

    list_push(&closing->waiters, &waiter->link);
    if (!list_is_linked(&closing->awaited))
        list_push(&core->awaited, &closing->awaited);
}

void core_close_wait(struct core *core, struct key_hash key, struct request *request, uint32_t item,
                     enum snow_status answer, uint32_t shortfall)
{
    struct waiter now = {.answer = answer, .shortfall = shortfall};
    uint32_t away = 0;
    uint32_t number = unacknowledged(core, key.key, key.hash, &away);

    if (number == 0 || FAULT(core->faults, removed_returns)) {
        answer_item(core, request, item, &now, away);
        return;
    }
    struct waiter *waiter = core_waiter_create(core, request, item);

    if (waiter == NULL) { /* a bound: it is on its way, but this request is not told */
        if (request->type == WIRE_remove_match)
            core_remove_match_done(core, request, answer == SNOW_OK, SNOW_UNCERTAIN);
        else if (request->type == WIRE_group_remove)
            core_group_remove_done(core, request, item, SNOW_UNCERTAIN);
        else
            core_answer_status(core, request, item, SNOW_BUSY, shortfall, 0);
        return;
    }
    waiter->answer = answer;
    waiter->shortfall = shortfall;
    core_await(core, number, waiter);
}

void core_closings_recheck(struct core *core)
{
    list_each (&core->awaited, link, next) {
        answer_when_closed(core, list_entry(link, struct closing, awaited)->object);
    }
}

/* ---- acknowledgements ---- */

void core_part_closed(struct core *core, uint32_t number, uint32_t index)
{
    struct object *object = core_object(core, number);
    struct closing *closing = closing_of(core, number);

    if (object->flags & OBJECT_SPREAD) {
        struct spread *spread = pool_at(&core->spreads, object->place);

        if (spread->parts[index].closed)
            return;
        spread->parts[index].closed = true;
    } else if (closing->open == 0) {
        return;
    }
    closing->open--;
    answer_when_closed(core, number);
}

static void finish(struct core *core, uint32_t number)
{
    struct closing *closing = closing_of(core, number);
    uint32_t index = core_object(core, number)->next;
    uint64_t took_ns = core->now_ns - closing->since_ns;

    if (took_ns > COMING_NS)
        took_ns = COMING_NS; /* later ones count as coming no more */

    stop_counting(core, closing);
    answer_when_closed(core, number);
    ASSERT(list_is_empty(&closing->waiters) && closing->bytes == 0);
    if (list_is_linked(&closing->awaited))
        list_remove(&closing->awaited);
    core->forget_ns = core->forget_ns - core->forget_ns / 16 + took_ns / 16;
    core->closing--;
    pool_give(&core->closings_pool, index);
    core_object_free(core, number);
}

void core_extent_give(struct core *core, const struct part *part, uint32_t number)
{
    struct segment *segment = core->segments[part->segment];
    struct space *space = segment->space;

    if (!space_is_used(space, part->slot) || space_owner(space, part->slot) != number)
        return;
    if (space_is_recovering(space)) {
        space_unclaim(space, part->slot);
        return;
    }
    if (!segment->dropping)
        core->free_bytes += space_capacity(space, part->slot);
    space_give(space, part->slot);
    if (segment->ready > space_size(space) && !segment->dropping)
        core_grow_apply(core, segment); /* it waited for a slot */
    core->room_changed = true;
    core->copies_due = core->copies_due || core->tasks_running > 0;
}

void core_part_freed(struct core *core, uint32_t number, uint32_t index)
{
    struct closing *closing = closing_of(core, number);

    if (index != UINT32_MAX) {
        core_part_closed(core, number, index);
        struct part part = core_part_at(core, number, index);
        struct segment *segment = core->segments[part.segment];

        if (closing->counted)
            segment->coming_bytes -= coming_of(core, &part);
        closing->bytes -= core_part_bytes(&part);
        segment->closing_bytes -= core_part_bytes(&part);
        core->closing_bytes -= core_part_bytes(&part);
        core_extent_give(core, &part, number);
        core_part_clear(core, number, index);
        closing->held--;
        core_node_settle(core, core->nodes[segment->node]);
    }
    if (closing->held == 0)
        finish(core, number);
}

/* The CLOSING object whose part lies in this slot with this generation; 0: none (an old
 * acknowledgement). */
static uint32_t closing_in_slot(struct core *core, const struct node *node, uint32_t on_node,
                                uint32_t slot, uint64_t gen, uint32_t *index)
{
    if (on_node >= node->segment_count)
        return 0;
    const struct segment *segment = core->segments[node->first_segment + on_node];

    if (segment->space == NULL || slot >= space_slot_count(segment->space) ||
        !space_is_used(segment->space, slot))
        return 0;
    uint32_t number = space_owner(segment->space, slot);
    const struct object *object = core_object(core, number);

    if (object->state != OBJECT_CLOSING ||
        !core_part_find(core, number, segment->index, slot, index) ||
        core_part_at(core, number, *index).gen != gen)
        return 0;
    return number;
}

void core_forget_reply(struct core *core, struct node *node, const struct wire_forget_rep *reply)
{
    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_closed *item = &reply->items[i];
        uint32_t index;
        uint32_t number =
            closing_in_slot(core, node, reply->segment, item->slot, item->gen, &index);

        if (number == 0)
            continue;
        if (item->freed)
            core_part_freed(core, number, index);
        else
            core_part_closed(core, number, index);
    }
}

void core_freed(struct core *core, struct node *node, const struct wire_freed_msg *message)
{
    for (uint32_t i = 0; i < message->items_count; i++) {
        const struct wire_slot_gen *item = &message->items[i];
        uint32_t index;
        uint32_t number =
            closing_in_slot(core, node, message->segment, item->slot, item->gen, &index);

        if (number != 0)
            core_part_freed(core, number, index);
    }
}
