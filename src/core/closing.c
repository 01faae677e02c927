/* Forgetting: from the decision that a version goes to the moment its extents may be given out
 * again.
 *
 * Problem.  A node may still be reading or receiving what the master has given up (P3); and what
 * was removed must not
 *           come back when the master restarts.
 * Idea.     Two acknowledgements.  CLOSED: no new reader or writer, never again WRITTEN in an
 * inventory; what waited for
 *           the removal is answered.  FREED: nothing is inside; the extent goes back to its
 *           segment.
 * Invariants.
 *   C1  A CLOSING object keeps all extents that were not FREED.
 *   C2  A waiter is answered once: OK when all holders acknowledged, UNCERTAIN when only
 *       unreachable ones are missing.
 *   C3  Bytes count as coming for 50 ms after the forget left, then no more.
 *
 *   READABLE, WRITING, RECOVERING ─core_close─► CLOSING ─core_part_closed (all)─► waiters answered
 *                                                  └─core_part_freed (all)─► record freed
 * Threads.  The core's own. */
#include "core/inside.h"

#include <stdlib.h>

#define COMING_NS (50 * NS_PER_MS)

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

void core_forget_part(struct core *core, const struct part *part, uint64_t gen)
{
    struct segment *segment = core->segments[part->segment];

    if (!node_of_part(core, part)->linked)
        return; /* its inventory will ask for it again */
    if (segment->forget_count == segment->forget_capacity) {
        uint32_t capacity = segment->forget_capacity == 0 ? 64 : segment->forget_capacity * 2;
        struct wire_slot_gen *grown = realloc(segment->forgets, capacity * sizeof(*grown));

        ASSERT(grown != NULL);
        segment->forgets = grown;
        segment->forget_capacity = capacity;
    }
    segment->forgets[segment->forget_count++] =
        (struct wire_slot_gen){.slot = part->slot, .gen = gen};
    if (!list_is_linked(&segment->forgetting))
        list_push(&core->forgetting, &segment->forgetting);
    core_count(core, CORE_METRIC_forgets_sent, 1);
}

/* At the end of a step: never held to fill a batch. */
void core_forgets_flush(struct core *core)
{
    list_each (&core->forgetting, link, next) {
        struct segment *segment = list_entry(link, struct segment, forgetting);
        struct node *node = core->nodes[segment->node];

        for (uint32_t from = 0; from < segment->forget_count && node->linked;) {
            uint32_t count = segment->forget_count - from;

            if (count > LIMIT_BATCH_ITEMS)
                count = LIMIT_BATCH_ITEMS;
            struct core_output *output = core_output_add(core, CORE_OUT_FORGET);
            struct wire_forget_req *request = core_out(core, 1, sizeof(*request));

            request->segment = segment->on_node;
            request->items = core_out(core, count, sizeof(*request->items));
            request->items_count = count;
            for (uint32_t i = 0; i < count; i++)
                request->items[i] = segment->forgets[from + i];
            output->to = node->number;
            output->type = WIRE_forget;
            output->message = request;
            from += count;
        }
        segment->forget_count = 0;
        list_remove(link);
    }
}

static void count_coming(struct core *core, uint32_t number, bool coming)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        struct segment *segment = core->segments[part.segment];

        if (!part.present || segment->space == NULL || space_is_recovering(segment->space))
            continue;
        uint64_t bytes = space_capacity(segment->space, part.slot);

        if (coming)
            segment->coming_bytes += bytes;
        else
            segment->coming_bytes -= bytes;
    }
}

static void stop_counting(struct core *core, struct closing *closing)
{
    if (!closing->counted)
        return;
    count_coming(core, closing->object, false);
    closing->counted = false;
    list_remove(&closing->by_age);
}

void core_closing_age(struct core *core)
{
    struct list_link *link;

    while ((link = list_first(&core->closings)) != NULL) {
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

void core_close(struct core *core, uint32_t number, enum close_reason reason)
{
    struct object *object = core_object(core, number);
    uint32_t count = core_part_count(core, number);
    uint64_t bytes = core_object_bytes(core, number);
    uint32_t index;

    ASSERT(object->state != OBJECT_CLOSING);
    core_apply_withdraw(core, number, reason);
    enum snow_status status = pool_take(&core->closings_pool, &index);

    ASSERT(status == SNOW_OK); /* as many as objects */
    struct closing *closing = pool_at(&core->closings_pool, index);

    list_init(&closing->waiters);
    closing->object = number;
    closing->since_ns = core->now_ns;
    closing->bytes = bytes;
    closing->reason = (uint8_t)reason;
    object->next = index;
    core->closing++;
    core->closing_bytes += bytes;
    bool reachable = true;

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (!part.present)
            continue;
        closing->open++;
        closing->held++;
        reachable = reachable && node_of_part(core, &part)->linked;
        core_forget_part(core, &part, object->gen);
    }
    if (reachable && closing->held > 0) {
        closing->counted = true;
        list_push(&core->closings, &closing->by_age);
        count_coming(core, number, true);
    }
    if (closing->held == 0)
        core_part_freed(core, number, UINT32_MAX);
}

/* A node that holds an unacknowledged part and is reachable (true), or only unreachable ones
 * (false, *away names one). */
static bool waits_for_reachable(struct core *core, uint32_t number, uint32_t *away)
{
    uint32_t count = core_part_count(core, number);
    bool plain = (core_object(core, number)->flags & OBJECT_SPREAD) == 0;

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (!part.present || (!plain && part.closed))
            continue;
        const struct node *node = node_of_part(core, &part);

        if (node->linked)
            return true;
        *away = node->number;
    }
    return false;
}

static void answer_waiter(struct core *core, struct waiter *waiter, uint32_t away)
{
    struct request *request = waiter->request;
    bool uncertain = away != 0;

    if (request->type == WIRE_remove_match) {
        core_waiter_end(core, waiter);
        core_remove_match_done(core, request, uncertain ? SNOW_UNCERTAIN : SNOW_OK);
        return;
    }
    core_answer_status(core, request, waiter->item, uncertain ? SNOW_UNCERTAIN : waiter->answer,
                       waiter->shortfall + (uncertain ? 1 : 0), away);
    core_waiter_end(core, waiter);
}

/* Answers those that wait, if all holders that can be reached have acknowledged. */
static void answer_when_closed(struct core *core, uint32_t number)
{
    struct closing *closing = closing_of(core, number);
    uint32_t away = 0;
    struct list_link *link;

    if (closing->open > 0 && waits_for_reachable(core, number, &away))
        return;
    while ((link = list_first(&closing->waiters)) != NULL)
        answer_waiter(core, list_entry(link, struct waiter, link), away);
}

/* A close of something that held no extent is over at once: its record is free, or another's
 * already. */
bool core_object_is_closing(const struct core *core, uint32_t number)
{
    return core_object(core, number)->state == OBJECT_CLOSING;
}

bool core_close_wait(struct core *core, uint32_t number, struct request *request, uint32_t item,
                     enum snow_status answer, uint32_t shortfall)
{
    struct closing *closing = closing_of(core, number);
    struct waiter *waiter = core_waiter_create(core, request, item);

    if (waiter == NULL)
        return false;
    waiter->closing = number;
    waiter->answer = answer;
    waiter->shortfall = shortfall;
    list_push(&closing->waiters, &waiter->link);
    answer_when_closed(core, number);
    return true;
}

void core_closing_recheck(struct core *core, uint32_t number)
{
    answer_when_closed(core, number);
}

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

    stop_counting(core, closing);
    answer_when_closed(core, number);
    ASSERT(list_is_empty(&closing->waiters));
    core->closing--;
    pool_give(&core->closings_pool, index);
    core_object_free(core, number);
}

/* Gives the extent of a part back to its segment; returns its bytes.  An extent that is the
 * object's no more (two
 * inventories claimed it) is left alone. */
uint64_t core_extent_give(struct core *core, const struct part *part, uint32_t number)
{
    struct segment *segment = core->segments[part->segment];
    struct space *space = segment->space;

    if (space == NULL || !space_is_used(space, part->slot) ||
        space_owner(space, part->slot) != number)
        return space_round(part->length);
    if (space_is_recovering(space)) {
        space_unclaim(space, part->slot);
        return space_round(part->length);
    }
    uint64_t bytes = space_capacity(space, part->slot);

    space_give(space, part->slot);
    if (!segment->dropping)
        core->free_bytes += bytes;
    core->room_changed = true;
    return bytes;
}

/* index UINT32_MAX: there was nothing to free. */
void core_part_freed(struct core *core, uint32_t number, uint32_t index)
{
    struct closing *closing = closing_of(core, number);

    if (index != UINT32_MAX) {
        struct part part = core_part_at(core, number, index);

        core_part_closed(core, number, index);
        uint64_t bytes = core_extent_give(core, &part, number);

        if (closing->counted)
            core->segments[part.segment]->coming_bytes -= bytes;
        bytes = bytes < closing->bytes ? bytes : closing->bytes;
        closing->bytes -= bytes;
        core->closing_bytes -= bytes;
        core_part_clear(core, number, index);
        closing->held--;
    }
    if (closing->held == 0) {
        core->closing_bytes -= closing->bytes;
        closing->bytes = 0;
        finish(core, number);
    }
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

    if (object->state != OBJECT_CLOSING || object->gen != gen ||
        !core_part_find(core, number, segment->index, slot, index))
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
