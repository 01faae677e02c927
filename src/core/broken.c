/* Members that readers could not read though they were told of.
 *
 * Problem.  A reader that fails may be the one at fault: cut off, slow, out of memory.  What one
 *           says of a group is not to break it for all others.
 * Idea.     The nodes are asked whether the bytes are there and as they were written; what a node
 *           says of its own memory is believed at once, copy by copy.  Where no node can tell (no
 *           checksum was computed, or it does not answer), a second session that says the same is.
 * Invariants.
 *   R1  A copy is given up by its node's word, or the whole by that of two sessions; never by one
 *       session's alone.
 *   R2  A late answer changes nothing: it names slot and generation, which are the object's or not.
 * Threads.  The core's own. */
#include "core/group.h"

static void ask_node(struct core *core, const struct part *part)
{
    const struct segment *segment = core->segments[part->segment];
    const struct node *node = core->nodes[segment->node];

    if (!part->present || !node->linked)
        return;
    struct core_output *output = core_output_add(core, CORE_OUT_VERIFY);
    struct wire_verify_req *request = core_out(core, 1, sizeof(*request));

    *request =
        (struct wire_verify_req){.segment = segment->on_node, .slot = part->slot, .gen = part->gen};
    output->to = node->number;
    output->type = WIRE_verify;
    output->message = request;
}

static void ask_nodes(struct core *core, uint32_t number)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count && i < LIMIT_VERIFY_PARTS; i++) {
        struct part part = core_part_at(core, number, i);

        ask_node(core, &part);
    }
}

/* Another session has said the same of this version before. */
static bool is_second(struct core *core, uint64_t gen, uint64_t reporter)
{
    for (uint32_t i = 0; i < CORE_BROKEN_REPORTS; i++) {
        if (core->broken[i].gen == gen)
            return core->broken[i].reporter != reporter;
    }
    core->broken[core->broken_count++ % CORE_BROKEN_REPORTS] =
        (struct broken_report){.gen = gen, .reporter = reporter};
    return false;
}

void core_group_broken(struct core *core, const struct wire_group_broken_msg *message,
                       uint32_t session)
{
    struct key_hash id = core_key_hash(message->id);
    uint32_t record = core_group_find(core, &id);
    struct group *group = record == 0 ? NULL : core_group_at(core, record);
    uint32_t number = group == NULL ? 0 : core_group_member(group, message->index);

    if (group == NULL || group->ggen != message->ggen || number == 0 ||
        core_object(core, number)->state != OBJECT_READABLE)
        return;
    if (!is_second(core, core_object(core, number)->gen, core->sessions[session]->id)) {
        ask_nodes(core, number);
        return;
    }
    core_count(core, CORE_METRIC_groups_broken, 1);
    core_close(core, number, CLOSE_STRAY);
}

/* The READABLE object whose part that is; 0: none (an old answer). */
static uint32_t object_in_slot(const struct core *core, const struct segment *segment,
                               const struct wire_verify_rep *reply, struct part *part)
{
    uint32_t index;

    if (segment->space == NULL || reply->slot >= space_slot_count(segment->space) ||
        !space_is_used(segment->space, reply->slot))
        return 0;
    uint32_t number = space_owner(segment->space, reply->slot);

    if (number == 0 || core_object(core, number)->state != OBJECT_READABLE ||
        !core_part_find(core, number, segment->index, reply->slot, &index))
        return 0;
    *part = core_part_at(core, number, index);
    return part->present && part->gen == reply->gen ? number : 0;
}

void core_verify_reply(struct core *core, const struct node *node,
                       const struct wire_verify_rep *reply)
{
    struct part part;

    if ((reply->status != SNOW_CORRUPT && reply->status != SNOW_STALE) ||
        reply->segment >= node->segment_count)
        return;
    const struct segment *segment = core->segments[node->first_segment + reply->segment];
    uint32_t number = object_in_slot(core, segment, reply, &part);

    if (number == 0)
        return;
    core_count(core, CORE_METRIC_copies_broken, 1);
    if (core_replica_count(core, number) > 1) {
        core_copies_give_up(core, number, (uint16_t)(1u << part.replica));
        return;
    }
    core_count(core, CORE_METRIC_groups_broken, core_object(core, number)->grouped);
    core_close(core, number, CLOSE_STRAY);
}
