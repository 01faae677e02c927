/* Victim lists: the primitives of all policies, and the table of policies. */
#include "core/policy.h"

#include "core/state.h"

void policy_push_young(struct core *core, struct victim_list *list, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT((object->flags & OBJECT_LISTED) == 0);
    object_flag(object, OBJECT_LISTED);
    object->next = 0;
    object->prev = list->young;
    if (list->young != 0)
        core_object(core, list->young)->next = number;
    else
        list->old = number;
    list->young = number;
    list->count++;
}

void policy_push_old(struct core *core, struct victim_list *list, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT((object->flags & OBJECT_LISTED) == 0);
    object_flag(object, OBJECT_LISTED);
    object->prev = 0;
    object->next = list->old;
    if (list->old != 0)
        core_object(core, list->old)->prev = number;
    else
        list->young = number;
    list->old = number;
    list->count++;
}

void policy_insert_after(struct core *core, struct victim_list *list, uint32_t older,
                         uint32_t number)
{
    struct object *object = core_object(core, number);
    struct object *before = core_object(core, older);

    if (before->next == 0) {
        policy_push_young(core, list, number);
        return;
    }
    ASSERT((object->flags & OBJECT_LISTED) == 0);
    object_flag(object, OBJECT_LISTED);
    object->prev = older;
    object->next = before->next;
    core_object(core, before->next)->prev = number;
    before->next = number;
    list->count++;
}

void policy_unlink(struct core *core, struct victim_list *list, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT(object->flags & OBJECT_LISTED);
    if (object->prev != 0)
        core_object(core, object->prev)->next = object->next;
    else
        list->old = object->next;
    if (object->next != 0)
        core_object(core, object->next)->prev = object->prev;
    else
        list->young = object->prev;
    object->prev = 0;
    object->next = 0;
    object_unflag(object, OBJECT_LISTED);
    list->count--;
}

void policy_demote(struct core *core, struct victim_list *list, uint32_t number)
{
    core_object(core, number)->last_touch = core_object(core, list->old)->last_touch;
    policy_unlink(core, list, number);
    policy_push_old(core, list, number);
}

uint32_t policy_count(const struct segment *segment)
{
    uint32_t count = segment->soft.count + segment->done.count;

    for (uint32_t i = 0; i < WIRE_PRIORITY_MAX; i++)
        count += segment->kept[i].count;

    for (uint32_t i = 0; i < POLICY_LISTS; i++)
        count += segment->lists[i].count;
    return count;
}

static void check_list(struct core *core, const struct segment *segment,
                       const struct victim_list *list)
{
    uint32_t before = 0;
    uint32_t count = 0;

    for (uint32_t number = list->old; number != 0; number = core_object(core, number)->next) {
        const struct object *object = core_object(core, number);

        ASSERT(object->flags & OBJECT_LISTED);
        ASSERT(object->state == OBJECT_READABLE || object->state == OBJECT_GROUP);
        ASSERT(!object->grouped);
        ASSERT(object->leases == 0 && (object->flags & OBJECT_HARD_PIN) == 0);
        ASSERT(object->segment == segment->index);
        ASSERT(object->prev == before);
        before = number;
        count++;
    }
    ASSERT(list->young == before);
    ASSERT(list->count == count);
}

void policy_check(struct core *core, struct segment *segment)
{
    check_list(core, segment, &segment->soft);
    check_list(core, segment, &segment->done);
    for (uint32_t i = 0; i < WIRE_PRIORITY_MAX; i++)
        check_list(core, segment, &segment->kept[i]);
    for (uint32_t i = 0; i < POLICY_LISTS; i++)
        check_list(core, segment, &segment->lists[i]);
}

const struct policy_ops *policy_ops(uint32_t policy)
{
    switch (policy) {
    case CORE_POLICY_FIFO:
        return &policy_fifo;
    case CORE_POLICY_RRC:
        return &policy_rrc;
    case CORE_POLICY_S3FIFO:
        return &policy_s3fifo;
    default:
        return &policy_lru;
    }
}

const char *core_policy_name(uint32_t policy)
{
    return policy_ops(policy)->name;
}
