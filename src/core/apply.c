/* Durable state changes here and nowhere else: the same functions run live and while rebuilding
 * from inventories.
 *
 * Durable is: which versions can be read, from where, and their pins.  Each function is one kind
 * of record. */
#include "core/group.h"

/* A version can be read from now on. */
void core_apply_publish(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT(object->state != OBJECT_READABLE);
    object->state = OBJECT_READABLE;
    object->prev = 0;
    object->next = 0;
    core->readable++;
}

/* A version can not be read any more; its extents are still to be forgotten. */
void core_apply_withdraw(struct core *core, uint32_t number, enum close_reason reason)
{
    struct object *object = core_object(core, number);

    /* P4, Y4: what is evicted of a group goes with it. */
    ASSERT(reason != CLOSE_EVICTED || FAULT(core->faults, member_alone) ||
           core_object_state(core, number) == OBJECT_CLOSING ||
           core_group_of(core, object) == NULL);
    if (object->state == OBJECT_READABLE) {
        core_copy_object_gone(core, number);
        core_second_object_gone(core, number);
        core->readable--;
        core_victim_leave(core, number);
        core_pin_forget(core, number);
        core_expiry_forget(core, number);
        core_group_leave(core, number);
    } else if (object->state == OBJECT_RECOVERING) {
        core_group_learned(core, number, false);
    }
    object->state = OBJECT_CLOSING;
    if (reason == CLOSE_EVICTED) {
        core_count(core, CORE_METRIC_evicted_objects, 1);
        core_count(core, CORE_METRIC_evicted_bytes, core_object_bytes(core, number));
        if (core->on_evicted != NULL)
            core->on_evicted(core->evicted_owner, core_object_key(core, number));
    } else if (reason == CLOSE_EXPIRED) {
        core_count(core, CORE_METRIC_expired_objects, 1);
    } else if (reason == CLOSE_REMOVED) {
        core_count(core, CORE_METRIC_removed_objects, 1);
    } else if (reason == CLOSE_REPLACED) {
        core_count(core, CORE_METRIC_replaced_objects, 1);
    }
}

/* The last copy of a version is gone: there is nothing to forget. */
void core_apply_lost(struct core *core, uint32_t number)
{
    struct object *object = core_object(core, number);

    ASSERT(object->state == OBJECT_READABLE);
    core_copy_object_gone(core, number);
    core_second_object_gone(core, number);
    core->readable--;
    core_victim_leave(core, number);
    core_pin_forget(core, number);
    core_expiry_forget(core, number);
    core_group_leave(core, number);
    object->state = OBJECT_ABSENT;
    core_count(core, CORE_METRIC_lost_objects, 1);
}

/* pin_flags: OBJECT_SOFT_PIN, OBJECT_HARD_PIN or 0. */
void core_apply_pin(struct core *core, uint32_t number, uint16_t pin_flags)
{
    struct object *object = core_object(core, number);
    uint16_t pins = OBJECT_SOFT_PIN | OBJECT_HARD_PIN;
    bool changes = (object->flags & pins) != pin_flags;

    if (core_pin_counts(core, number))
        core->hard_pinned_bytes -= core_object_bytes(core, number);
    core_victim_leave(core, number);
    object_unflag(object, pins);
    object_flag(object, pin_flags);
    if (core_pin_counts(core, number))
        core->hard_pinned_bytes += core_object_bytes(core, number);
    if (object->grouped && changes)
        core_group_pin(core, object->prev);
    core_victim_return(core, number);
}
