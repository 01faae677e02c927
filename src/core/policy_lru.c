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

static uint32_t lru_victim(struct core *core, struct segment *segment)
{
    (void)core;
    return segment->lists[0].old;
}

const struct policy_ops policy_lru = {
    .name = "lru",
    .insert = lru_insert,
    .touch = lru_touch,
    .touch_away = lru_touch_away,
    .leave = lru_leave,
    .come_back = lru_insert,
    .victim = lru_victim,
};
