/* Widened victims: one run made of neighbours, where free bytes alone do not serve.
 *
 * Problem.  Evicting in the policy's order frees bytes, not runs: a large object may find none long
 *           enough though much is free.
 * Idea.     From the policy's next victims outwards: physical neighbours that may be evicted, are
 *           free, or are on their way out.  Of all windows of them that would serve, the one with
 *           the lowest sum of scores goes, whole.  A score is how much later than the next victim
 *           its object would go (policy.h).
 * Invariants.
 *   D1  A window without its first and its last extent is shorter than what is to fit in it: what
 *       goes is bounded by that and two more objects.
 *   D2  A call looks at ANCHORS x 2 x SIDE runs at most; where that finds no window, none is looked
 *       for in this segment for a while (the policy's order goes on).
 * Threads.  The core's own. */
#include "core/group.h"

#define ANCHORS 8u /* victims from which windows are looked for */
#define SIDE 1024u /* runs on either side of one */
#define SPLITS 16u /* a window for the whole object, else for this part of it */
#define PIECE_MIN (64 * KIB)
#define AGAIN_NS (10 * NS_PER_MS)
#define SOFT_SCORE (POLICY_SCORE_MAX * 4 * SIDE) /* soft-pinned objects go last */
#define BLOCKED UINT64_MAX

_Static_assert(SOFT_SCORE <= BLOCKED / (2 * SIDE + 2), "a row of soft-pinned ones can be summed");

struct neighbour {
    uint64_t start; /* bytes */
    uint64_t score;
    uint32_t slot;
};

/* Neighbours in the order of memory; the end of one is the start of the next. */
struct row {
    struct neighbour at[2 * SIDE + 2];
    uint32_t count;
};

struct window {
    uint64_t score;
    uint64_t bytes;
    uint32_t first; /* slots */
    uint32_t last;
};

/* What it costs to have this run free; BLOCKED: it stays. */
static uint64_t score_of(struct core *core, const struct segment *segment, uint32_t slot,
                         uint32_t next_victim)
{
    if (!space_is_used(segment->space, slot))
        return 0;
    uint32_t number = space_owner(segment->space, slot);
    const struct object *object = core_object(core, number);

    if (object->state == OBJECT_CLOSING)
        return 0;
    if (object->state != OBJECT_READABLE)
        return BLOCKED;
    number = core_unit_of(core, number);
    object = core_object(core, number);
    if ((object->flags & OBJECT_LISTED) == 0)
        return BLOCKED;
    if ((object->flags & OBJECT_SOFT_PIN) && !core->options.evict_soft_pinned)
        return BLOCKED;
    if (object->flags & (OBJECT_SOFT_PIN | OBJECT_PRIORITY))
        return SOFT_SCORE;
    if (object->flags & OBJECT_DONE)
        return 1;
    return 1 + core->policy->score(core, next_victim, number);
}

static struct neighbour neighbour_at(struct core *core, const struct segment *segment,
                                     uint32_t slot, uint32_t next_victim)
{
    return (struct neighbour){.start = space_offset(segment->space, slot),
                              .score = score_of(core, segment, slot, next_victim),
                              .slot = slot};
}

/* The neighbours around a slot, as far as `bytes` reach or one stays; the row's end is marked by
 * one more entry without a slot. */
static void gather(struct core *core, const struct segment *segment, uint32_t anchor,
                   uint32_t next_victim, uint64_t bytes, struct row *row)
{
    const struct space *space = segment->space;
    uint64_t middle = space_offset(space, anchor);
    uint64_t end = middle + space_capacity(space, anchor);
    uint32_t first = anchor;
    uint32_t before = space_before(space, anchor);
    uint32_t looked = 0;

    for (; before != SPACE_NONE && looked < SIDE && middle - space_offset(space, first) < bytes;
         looked++) {
        if (score_of(core, segment, before, next_victim) == BLOCKED)
            break;
        first = before;
        before = space_before(space, before);
    }
    row->count = 0;
    looked = 0;
    for (uint32_t slot = first; slot != SPACE_NONE; slot = space_after(space, slot)) {
        struct neighbour next = neighbour_at(core, segment, slot, next_victim);

        if (next.score == BLOCKED || looked == SIDE || next.start >= end + bytes)
            break;
        looked += next.start > middle;
        row->at[row->count++] = next;
    }
    uint32_t last = row->at[row->count - 1].slot;

    row->at[row->count] =
        (struct neighbour){.start = space_offset(space, last) + space_capacity(space, last),
                           .slot = SPACE_NONE};
}

/* Bytes that an object finds in [start, end) at its alignment. */
static uint64_t usable(uint64_t start, uint64_t end, bool aligned)
{
    uint64_t from = aligned ? (start + SPACE_ALIGN - 1) / SPACE_ALIGN * SPACE_ALIGN : start;

    return end > from ? end - from : 0;
}

/* Slides over the row: for each end the shortest window that serves. */
static void find_best(const struct row *row, uint64_t bytes, struct window *best)
{
    bool aligned = bytes % SPACE_ALIGN == 0;
    uint64_t score = 0;
    uint32_t from = 0;

    for (uint32_t to = 0; to < row->count; to++) {
        uint64_t end = row->at[to + 1].start;

        score += row->at[to].score;
        if (usable(row->at[from].start, end, aligned) < bytes)
            continue;
        while (from < to && usable(row->at[from + 1].start, end, aligned) >= bytes)
            score -= row->at[from++].score;
        if (score < best->score ||
            (score == best->score && end - row->at[from].start < best->bytes))
            *best = (struct window){.score = score,
                                    .bytes = end - row->at[from].start,
                                    .first = row->at[from].slot,
                                    .last = row->at[to].slot};
    }
}

/* Where a victim lies in this segment. */
static uint32_t slot_in(const struct core *core, const struct segment *segment, uint32_t number)
{
    if (core_object(core, number)->state == OBJECT_GROUP)
        number = core_group_first_member(core, number);
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && part.segment == segment->index)
            return part.slot;
    }
    return SPACE_NONE;
}

static bool find_window(struct core *core, struct segment *segment, uint64_t bytes,
                        struct window *best)
{
    struct row *row = core_out(core, 1, sizeof(*row));
    uint32_t next_victim = core->policy->victim(core, segment);
    uint32_t anchor = core_victim_next(core, segment);

    best->score = BLOCKED;
    for (uint32_t i = 0; i < ANCHORS && anchor != 0; i++) {
        uint32_t slot = slot_in(core, segment, anchor);

        if (slot != SPACE_NONE) {
            gather(core, segment, slot, next_victim, bytes, row);
            find_best(row, bytes, best);
        }
        anchor = core->policy->after(core, segment, anchor);
    }
    return best->score != BLOCKED;
}

/* Evicts what is in the window: extents of one object may lie in it more than once. */
static void evict_window(struct core *core, struct segment *segment, const struct window *window)
{
    uint32_t slot = window->first;

    for (bool more = true; more; slot = space_after(segment->space, slot)) {
        more = slot != window->last;
        if (!space_is_used(segment->space, slot))
            continue;
        uint32_t number = space_owner(segment->space, slot);

        if (core_object(core, number)->state != OBJECT_READABLE)
            continue;
        core_count(core, CORE_METRIC_widened_objects, 1);
        core_count(core, CORE_METRIC_widened_bytes, core_object_bytes(core, number));
        core->evictions_left -= core->evictions_left > 0;
        core_victim_evict(core, number);
    }
}

bool core_widen(struct core *core, struct segment *segment, uint64_t bytes)
{
    uint64_t wanted = bytes;
    struct window window;

    if (core->now_ns < segment->widen_after_ns || core->evictions_left == 0)
        return false;
    if (!find_window(core, segment, wanted, &window)) {
        wanted = (bytes / SPLITS + SPACE_ALIGN) / SPACE_ALIGN * SPACE_ALIGN;
        if (wanted < PIECE_MIN || !find_window(core, segment, wanted, &window)) {
            segment->widen_after_ns = core->now_ns + AGAIN_NS;
            return false;
        }
    }
    evict_window(core, segment, &window);
    return true;
}

/* ---- what is in the way ---- */

void core_widen_blockers(const struct core *core, const struct segment *segment,
                         struct blockers *blockers)
{
    uint32_t slot = space_first(segment->space);

    *blockers = (struct blockers){0};
    for (uint32_t i = 0; i < 2 * SIDE && slot != SPACE_NONE; i++) {
        uint64_t bytes = space_capacity(segment->space, slot);

        if (space_is_used(segment->space, slot)) {
            const struct object *object = core_object(core, space_owner(segment->space, slot));

            if (object->state == OBJECT_WRITING)
                blockers->writing_bytes += bytes;
            else if (object->state == OBJECT_CLOSING)
                blockers->closing_bytes += bytes;
            else if (object->leases > 0)
                blockers->leased_bytes += bytes;
            else if (object->flags & OBJECT_HARD_PIN)
                blockers->pinned_bytes += bytes;
        }
        slot = space_after(segment->space, slot);
    }
    blockers->whole = slot == SPACE_NONE;
}
