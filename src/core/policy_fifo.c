/* First in, first out: one list a segment in order of generation, uses change nothing.  For
 * comparison.
 *
 * An object that was away (leased) comes back to where its generation belongs: found from the
 * nearer end, within a
 * bounded number of steps, so a rare one among many may land a little too young. */
#include "core/policy.h"
#include "core/state.h"

#define STEPS_MAX 64u

static void fifo_insert(struct core *core, struct segment *segment, uint32_t object)
{
    policy_push_young(core, &segment->lists[0], object);
}

static void fifo_touch(struct core *core, struct segment *segment, uint32_t object, bool counts)
{
    (void)core;
    (void)segment;
    (void)object;
    (void)counts;
}

static void fifo_leave(struct core *core, struct segment *segment, uint32_t object)
{
    policy_unlink(core, &segment->lists[0], object);
}

static void fifo_come_back(struct core *core, struct segment *segment, uint32_t number)
{
    struct victim_list *list = &segment->lists[0];
    uint64_t gen = core_object(core, number)->gen;
    uint32_t old = list->old;
    uint32_t young = list->young;

    for (uint32_t step = 0; step < STEPS_MAX && old != 0; step++) {
        const struct object *from_old = core_object(core, old);

        if (from_old->gen > gen) {
            if (from_old->prev == 0)
                policy_push_old(core, list, number);
            else
                policy_insert_after(core, list, from_old->prev, number);
            return;
        }
        if (core_object(core, young)->gen < gen) {
            policy_insert_after(core, list, young, number);
            return;
        }
        old = from_old->next;
        if (core_object(core, young)->prev != 0)
            young = core_object(core, young)->prev;
    }
    policy_push_young(core, list, number);
}

static void fifo_demote(struct core *core, struct segment *segment, uint32_t number)
{
    policy_demote(core, &segment->lists[0], number);
}

static uint32_t fifo_victim(struct core *core, struct segment *segment)
{
    (void)core;
    return segment->lists[0].old;
}

static uint32_t fifo_after(struct core *core, struct segment *segment, uint32_t object)
{
    (void)segment;
    return core_object(core, object)->next;
}

static bool fifo_before(struct core *core, uint32_t a, uint32_t b)
{
    return core_object(core, a)->gen < core_object(core, b)->gen;
}

static uint64_t fifo_score(struct core *core, uint32_t next, uint32_t object)
{
    uint64_t gen = core_object(core, object)->gen;
    uint64_t first = next == 0 ? gen : core_object(core, next)->gen;

    uint64_t later = gen > first ? gen - first : 0;

    return later < POLICY_SCORE_MAX ? later : POLICY_SCORE_MAX;
}

const struct policy_ops policy_fifo = {
    .name = "fifo",
    .insert = fifo_insert,
    .touch = fifo_touch,
    .touch_away = fifo_touch,
    .leave = fifo_leave,
    .come_back = fifo_come_back,
    .demote = fifo_demote,
    .victim = fifo_victim,
    .after = fifo_after,
    .before = fifo_before,
    .score = fifo_score,
};
