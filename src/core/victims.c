/* What stands in which victim list: the one place that knows which objects may be evicted (K3). */
#include "core/group.h"

#define LOOK_TOUCHES 2000u /* between two looks at what the pool can hold */

/* An object, or the record of a group. */
static bool may_go(const struct core *core, const struct object *object)
{
    if (object->state == OBJECT_GROUP)
        return core_group_may_go(core, object);
    return object->state == OBJECT_READABLE && object->leases == 0 &&
           (object->flags & OBJECT_HARD_PIN) == 0;
}

/* At the sizes of those that it holds. */
static uint64_t units_max(const struct core *core)
{
    uint64_t units =
        (uint64_t)core->readable - core->group_members + core->group_count + core->writing;
    uint64_t used = core->ready_bytes - core->free_bytes;
    uint64_t usable = core->pool_bytes;

    used = used > core->closing_bytes ? used - core->closing_bytes : 0;
    if (used < units || units == 0)
        return 0;
    for (uint32_t i = 0; i < core->segment_count; i++) {
        if (core->segments[i]->space != NULL)
            usable -= core_room_reserve(core, core->segments[i]);
    }
    return usable / (used / units);
}

/* The trial sees the uses of its sample.  hit: the unit was there. */
static void try_use(struct core *core, uint32_t number, bool counts, bool hit)
{
    struct object *object = core_object(core, number);
    struct shadow_use use = {.now = (uint32_t)core->touches, .counts = counts};

    if (core->touches >= core->units_max_at) {
        core->units_max = units_max(core);
        trial_resize(&core->trial, core->units_max);
        /* More often while there is little to judge by. */
        core->units_max_at = core->touches + 1 +
                             (core->touches / 4 < LOOK_TOUCHES ? core->touches / 4 : LOOK_TOUCHES);
    }
    if (2 * ((uint64_t)core->readable + core->writing) >= core->units_max)
        reuse_prepare(&core->reuse, core->touches, core->units_max);
    if (counts)
        trial_count(&core->trial, hit);
    if ((object->flags & OBJECT_SAMPLED) == 0)
        return;
    use.hash = core_object_hash(core, number);
    use.depth = object->depth;
    /* If not, it was put when more were sampled. */
    if (trial_samples(&core->trial, use.hash) &&
        trial_use(&core->trial, &core->reuse, &use, core->units_max))
        core_count(core, CORE_METRIC_rule_changes, 1);
}

/* The list of an object that the policy does not order; NULL: it does. */
static struct victim_list *list_apart(struct segment *segment, const struct object *object)
{
    uint32_t priority = (uint32_t)object->flags >> OBJECT_PRIORITY_SHIFT & WIRE_PRIORITY_MAX;

    if (object->flags & OBJECT_SOFT_PIN)
        return &segment->soft;
    if (object->flags & OBJECT_DONE)
        return &segment->done;
    return priority > 0 ? &segment->kept[priority - 1] : NULL;
}

/* ---- members: what they may go with is their group ---- */

static void member_listed(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    if ((object->flags & OBJECT_LISTED) || !may_go(core, object))
        return;
    object_flag(object, OBJECT_LISTED);
    core_group_of(core, object)->listed++;
}

static void member_enter(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct group *group = core_group_of(core, object);

    object->last_touch = (uint32_t)core->touches;
    member_listed(core, number);
    if (group->state == WIRE_GROUP_FORMING || group->state == WIRE_GROUP_RECOVERING)
        return;
    if (group->flags & GROUP_ENTERED)
        core_victim_return(core, group->record);
    else
        core_victim_enter(core, group->record);
}

static void member_leave(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct group *group = core_group_of(core, object);

    if ((object->flags & OBJECT_LISTED) == 0)
        return;
    object_unflag(object, OBJECT_LISTED);
    group->listed--;
    core_victim_leave(core, group->record);
}

/* Its members are used one after the other, by one reader or by several: that is one use of the
 * group.  A member that was used since the last one begins the next. */
static void member_touch(struct core *core, uint32_t number, bool counts)
{
    struct object *object = core_object(core, number);
    struct group *group = core_group_of(core, object);
    bool again = (int32_t)(object->last_touch - group->counted) >= 0;

    if (again && (group->flags & GROUP_ENTERED)) {
        core_victim_touch(core, group->record, counts);
        group->counted = (uint32_t)core->touches;
    }
    object->last_touch = (uint32_t)core->touches;
    if (counts && object->uses < OBJECT_USES_MAX)
        object->uses = (object->uses + 1u) & 15;
    if (counts && object->uses >= 8)
        core_second_used(core, number);
}

/* ---- units ---- */

void core_victim_enter(struct core *core, uint32_t number)
{
    if (core_object(core, number)->grouped) {
        member_enter(core, number);
        return;
    }
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];
    struct victim_list *apart = list_apart(segment, object);

    object->last_touch = (uint32_t)++core->touches;
    if (object->state == OBJECT_GROUP) {
        core_group_at(core, number)->flags |= GROUP_ENTERED;
        object->uses = 1;
    }
    if (!may_go(core, object))
        return;
    if (apart != NULL)
        policy_push_young(core, apart, number);
    else
        core->policy->insert(core, segment, number);
    if (!core->policy->tried)
        return;
    if (object->state == OBJECT_GROUP &&
        trial_samples(&core->trial, core_object_hash(core, number)))
        object_flag(object, OBJECT_SAMPLED);
    try_use(core, number, true, false);
}

void core_victim_return(struct core *core, uint32_t number)
{
    if (core_object(core, number)->grouped) {
        member_listed(core, number);
        core_victim_return(core, core_object(core, number)->prev);
        return;
    }
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];
    struct victim_list *apart = list_apart(segment, object);

    if ((object->flags & OBJECT_LISTED) || !may_go(core, object))
        return;
    if (apart != NULL)
        policy_push_young(core, apart, number);
    else
        core->policy->come_back(core, segment, number);
}

void core_victim_leave(struct core *core, uint32_t number)
{
    if (core_object(core, number)->grouped) {
        member_leave(core, number);
        return;
    }
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];
    struct victim_list *apart = list_apart(segment, object);

    if ((object->flags & OBJECT_LISTED) == 0)
        return;
    if (apart != NULL)
        policy_unlink(core, apart, number);
    else
        core->policy->leave(core, segment, number);
}

/* A use shows that its chain goes on. */
static void not_done(struct core *core, uint32_t number)
{
    core_victim_leave(core, number);
    object_unflag(core_object(core, number), OBJECT_DONE);
    core_victim_return(core, number);
}

void core_victim_touch(struct core *core, uint32_t number, bool counts)
{
    if (core_object(core, number)->grouped) {
        member_touch(core, number, counts);
        return;
    }
    struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];
    struct victim_list *apart;

    core->touches++;
    if (counts && (object->flags & OBJECT_DONE))
        not_done(core, number);
    apart = list_apart(segment, object);
    if (apart != NULL) {
        if (object->flags & OBJECT_LISTED) {
            policy_unlink(core, apart, number);
            policy_push_young(core, apart, number);
        }
    } else if (object->flags & OBJECT_LISTED) {
        core->policy->touch(core, segment, number, counts);
    } else {
        core->policy->touch_away(core, segment, number, counts);
    }
    object->last_touch = (uint32_t)core->touches;
    if (counts && object->uses < OBJECT_USES_MAX)
        object->uses = (object->uses + 1u) & 15;
    if (counts && object->uses >= 8)
        core_second_used(core, number);
    if (core->policy->tried)
        try_use(core, number, counts, true);
}

uint32_t core_victim_next(struct core *core, struct segment *segment)
{
    uint32_t number = segment->done.old;

    if (number == 0)
        number = core->policy->victim(core, segment);
    for (uint32_t i = 0; i < WIRE_PRIORITY_MAX && number == 0; i++)
        number = segment->kept[i].old;
    if (number == 0 && core->options.evict_soft_pinned)
        number = segment->soft.old;
    return number != 0 && core_object(core, number)->state == OBJECT_GROUP
               ? core_group_leaf(core, number)
               : number;
}

void core_victim_demote(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);
    struct segment *segment = core->segments[object->segment];

    if ((object->flags & OBJECT_LISTED) && list_apart(segment, object) == NULL)
        core->policy->demote(core, segment, number);
}

uint32_t core_unit_of(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    return object->grouped ? object->prev : number;
}

uint32_t core_victim_rank(const struct object *object)
{
    if (object->flags & OBJECT_HARD_PIN)
        return VICTIM_RANK_HARD;
    if (object->flags & OBJECT_SOFT_PIN)
        return VICTIM_RANK_SOFT;
    if (object->flags & OBJECT_DONE)
        return VICTIM_RANK_DONE;
    return VICTIM_RANK_POLICY +
           ((uint32_t)object->flags >> OBJECT_PRIORITY_SHIFT & WIRE_PRIORITY_MAX);
}

bool core_victim_before(struct core *core, uint32_t a, uint32_t b)
{
    const struct object *left = core_object(core, a = core_unit_of(core, a));
    const struct object *right = core_object(core, b = core_unit_of(core, b));
    uint32_t left_rank = core_victim_rank(left);
    uint32_t right_rank = core_victim_rank(right);
    uint32_t now = (uint32_t)core->touches;

    if (a == b)
        return false;
    if (left_rank != right_rank)
        return left_rank < right_rank;
    if (left_rank == VICTIM_RANK_POLICY)
        return core->policy->before(core, a, b);
    return now - left->last_touch > now - right->last_touch;
}

void core_victim_evict(struct core *core, uint32_t number)
{
    number = core_unit_of(core, number);
    if (FAULT(core->faults, member_alone) && core_object(core, number)->state == OBJECT_GROUP)
        number = core_group_first_member(core, number);
    if (core->policy->evicted != NULL)
        core->policy->evicted(core, number);
    core->trial.evicted++;
    if (core_object(core, number)->state == OBJECT_GROUP)
        core_group_close(core, number, CLOSE_EVICTED);
    else
        core_close(core, number, CLOSE_EVICTED);
}
