/* Growth: memory that nodes commit only as it is needed.
 *
 * Problem.  Committing memory is slow, and a node inside an application must not take what nobody
 *           uses; yet a put shall not wait for it, and nothing shall be evicted while there is
 *           more.
 * Idea.     A segment has a size, which its node offers, and `ready` bytes, which are committed:
 *           only these are in its space.  When free bytes or slots run low the node is asked for
 *           more; it says how far it came, step by step, and room is offered to who waits.  A node
 *           that finds no more memory lowers its offer to what is ready: from then on the segment
 *           is full when that is full.
 * Invariants.
 *   G1  space_size <= ready <= size; pool_bytes counts sizes, ready_bytes what spaces have.
 *   G2  A segment that can grow evicts nothing (room.c): it grows.
 *   G3  What is asked for never shrinks while the node's connection stands: a message lost with the
 *       connection is made good by the next mount, which tells ready and clears what was asked.
 * Threads.  The core's own.   State.  Soft. */
#include "core/inside.h"

#define GROW_STEP (2 * MIB)    /* what is asked for is a multiple of it ... */
#define GROW_STEPS 32u         /* ... or of this part of a small segment */
#define GROW_AHEAD (8 * MIB)   /* kept free ahead of puts, if not more is wanted ... */
#define GROW_SHARE 16u         /* ... but at most this part of the segment */
#define GROW_SLOTS_AHEAD 1024u /* slots kept free, likewise */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t slots_ahead(const struct segment *segment)
{
    return (uint32_t)smaller(segment->slot_count / GROW_SHARE + 1, GROW_SLOTS_AHEAD);
}

/* Its slots are all taken, though others may become ready. */
static bool slots_can_grow(const struct segment *segment)
{
    return space_slots_ready(segment->space) < segment->slot_count;
}

bool core_segment_can_grow(const struct segment *segment)
{
    const struct space *space = segment->space;
    bool few = space_slots_free(space) < 3; /* an extent may need that many */

    if (few)
        return slots_can_grow(segment);
    return space_size(space) < segment->size;
}

static void ask(struct core *core, struct segment *segment, uint64_t ready, uint32_t slots_ready)
{
    struct core_output *output;
    struct wire_grow_msg *message;

    if (!core->nodes[segment->node]->linked ||
        (ready <= segment->asked && slots_ready <= segment->asked_slots))
        return;
    segment->asked = larger(ready, segment->asked);
    segment->asked_slots = (uint32_t)larger(slots_ready, segment->asked_slots);
    message = core_out(core, 1, sizeof(*message));
    message->segment = segment->on_node;
    message->ready = segment->asked;
    message->slots_ready = segment->asked_slots;
    output = core_output_add(core, CORE_OUT_GROW);
    output->to = core->nodes[segment->node]->number;
    output->type = WIRE_grow;
    output->message = message;
    core_count(core, CORE_METRIC_grows_asked, 1);
}

static uint64_t step_of(const struct segment *segment)
{
    uint64_t part = segment->size / GROW_STEPS / SPACE_ALIGN * SPACE_ALIGN;

    return part < SPACE_ALIGN ? SPACE_ALIGN : smaller(part, GROW_STEP);
}

void core_grow(struct core *core, struct segment *segment, uint64_t free_wanted)
{
    const struct space *space = segment->space;
    uint64_t step = step_of(segment);
    uint64_t size = space_size(space);
    uint64_t free_bytes = space_free_bytes(space);
    uint64_t wanted = larger(free_wanted, smaller(GROW_AHEAD, segment->size / GROW_SHARE));
    uint32_t slots = space_slots_ready(space);

    if (wanted > free_bytes)
        size = (size + smaller(wanted - free_bytes, segment->size) + step - 1) / step * step;
    if (space_slots_free(space) < slots_ahead(segment))
        slots = (uint32_t)smaller(segment->slot_count, (uint64_t)slots + slots_ahead(segment));
    ask(core, segment, smaller(size, segment->size), slots);
}

void core_grow_apply(struct core *core, struct segment *segment)
{
    uint64_t size = space_size(segment->space);
    uint64_t free_bytes = space_free_bytes(segment->space);
    uint32_t slots = space_slots_ready(segment->space);
    /* LIMIT: again when a slot is given back; NO_MEMORY: when one is, or at the next message. */
    enum snow_status status = space_grow(segment->space, segment->ready, segment->slots_ready);

    core_count(core, CORE_METRIC_grows_delayed, status != SNOW_OK);
    if (space_is_recovering(segment->space) || segment->dropping)
        return;
    core->ready_bytes += space_size(segment->space) - size;
    core->free_bytes += space_free_bytes(segment->space) - free_bytes;
    if (space_size(segment->space) > size || space_slots_ready(segment->space) > slots)
        core->room_changed = true;
}

/* What a node offers may fall to what is ready, and rise again up to what it was. */
static void take_offer(struct core *core, struct segment *segment, uint64_t size,
                       uint32_t slot_count)
{
    if (size == segment->size && slot_count == segment->slot_count)
        return;
    core_count(core, CORE_METRIC_offers_shrunk, size < segment->size);
    if (!space_is_recovering(segment->space) && !segment->dropping)
        core->pool_bytes += size - segment->size;
    segment->size = size;
    segment->slot_count = slot_count;
    core->room_changed = true; /* who waited for growth may evict now */
}

static bool grown_is_valid(const struct segment *segment, const struct wire_grown_msg *grown)
{
    return grown->size % SPACE_ALIGN == 0 && grown->ready % SPACE_ALIGN == 0 &&
           grown->ready <= grown->size && grown->size <= segment->mounted_size &&
           grown->slots_ready <= grown->slot_count &&
           grown->slot_count <= space_slot_count(segment->space) &&
           grown->ready >= segment->ready && grown->slots_ready >= segment->slots_ready;
}

void core_grown(struct core *core, struct node *node, const struct wire_grown_msg *grown)
{
    struct segment *segment;

    if (grown->segment >= node->segment_count)
        return;
    segment = core->segments[node->first_segment + grown->segment];
    if (segment->space == NULL || !grown_is_valid(segment, grown)) {
        core_count(core, CORE_METRIC_bad_requests, 1);
        return;
    }
    core_count(core, CORE_METRIC_grown_bytes, grown->ready - segment->ready);
    segment->ready = grown->ready;
    segment->slots_ready = grown->slots_ready;
    core_grow_apply(core, segment);
    take_offer(core, segment, grown->size, grown->slot_count);
}
