/* What stands in which victim list: the one place that knows which objects may be evicted (K3). */
#include "core/inside.h"

static bool may_go(const struct object *object)
{
    return object->state == OBJECT_READABLE && object->leases == 0 &&
           (object->flags & OBJECT_HARD_PIN) == 0;
}

void core_victim_enter(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];

    object->last_touch = (uint32_t)++core->touches;
    if (!may_go(object))
        return;
    if (object->flags & OBJECT_SOFT_PIN)
        policy_push_young(core, &segment->soft, number);
    else
        core->policy->insert(core, segment, number);
}

void core_victim_return(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];

    if ((object->flags & OBJECT_LISTED) || !may_go(object))
        return;
    if (object->flags & OBJECT_SOFT_PIN)
        policy_push_young(core, &segment->soft, number);
    else
        core->policy->come_back(core, segment, number);
}

void core_victim_leave(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];

    if ((object->flags & OBJECT_LISTED) == 0)
        return;
    if (object->flags & OBJECT_SOFT_PIN)
        policy_unlink(core, &segment->soft, number);
    else
        core->policy->leave(core, segment, number);
}

void core_victim_touch(struct core *core, uint32_t number, bool counts)
{
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];

    core->touches++;
    if (object->flags & OBJECT_SOFT_PIN) {
        if (object->flags & OBJECT_LISTED) {
            policy_unlink(core, &segment->soft, number);
            policy_push_young(core, &segment->soft, number);
        }
    } else if (object->flags & OBJECT_LISTED) {
        core->policy->touch(core, segment, number, counts);
    } else {
        core->policy->touch_away(core, segment, number, counts);
    }
    object->last_touch = (uint32_t)core->touches;
    if (counts && object->uses < OBJECT_USES_MAX)
        object->uses = (object->uses + 1u) & 15;
}

uint32_t core_victim_next(struct core *core, struct segment *segment)
{
    uint32_t number = core->policy->victim(core, segment);

    return number != 0 ? number : segment->soft.old;
}

void core_victim_evict(struct core *core, uint32_t number)
{
    if (core->policy->evicted != NULL)
        core->policy->evicted(core, number);
    core_close(core, number, CLOSE_EVICTED);
}
