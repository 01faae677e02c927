/* Least recently used: one list a segment, uses move to the young end.  With chains touched from
 * the deepest to the
 * first this is leaf-first LRU without a tree. */
#include "core/policy.h"
#include "core/state.h"

static void lru_insert(struct core *core, struct segment *segment, uint32_t object)
{
    policy_push_young(core, &segment->lists[0], object);
}

static void lru_touch(struct core *core, struct segment *segment, uint32_t object, bool counts)
{
    (void)counts;
    policy_unlink(core, &segment->lists[0], object);
    policy_push_young(core, &segment->lists[0], object);
}

static void lru_touch_away(struct core *core, struct segment *segment, uint32_t object, bool counts)
{
    (void)core;
    (void)segment;
    (void)object;
    (void)counts; /* it comes back to the young end anyway */
}

static void lru_leave(struct core *core, struct segment *segment, uint32_t object)
{
    policy_unlink(core, &segment->lists[0], object);
}

static void lru_demote(struct core *core, struct segment *segment, uint32_t number)
{
    policy_demote(core, &segment->lists[0], number);
}

static uint32_t lru_victim(struct core *core, struct segment *segment)
{
    (void)core;
    return segment->lists[0].old;
}

static uint32_t lru_after(struct core *core, struct segment *segment, uint32_t object)
{
    (void)segment;
    return core_object(core, object)->next;
}

static bool lru_before(struct core *core, uint32_t a, uint32_t b)
{
    uint32_t now = (uint32_t)core->touches;

    return now - core_object(core, a)->last_touch > now - core_object(core, b)->last_touch;
}

static uint64_t lru_score(struct core *core, uint32_t next, uint32_t object)
{
    return next == 0 ? 0
                     : core_object(core, object)->last_touch - core_object(core, next)->last_touch;
}

const struct policy_ops policy_lru = {
    .name = "lru",
    .tried = true,
    .insert = lru_insert,
    .touch = lru_touch,
    .touch_away = lru_touch_away,
    .leave = lru_leave,
    .come_back = lru_insert,
    .demote = lru_demote,
    .victim = lru_victim,
    .after = lru_after,
    .before = lru_before,
    .score = lru_score,
};
