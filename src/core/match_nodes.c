/* Which nodes hold how much of a chain: what who sends requests to where their cache is asks for.
 *
 * Idea.     While the blocks of a match are walked, each node that can be read now has a row.  It
 *           holds a block when every byte of a copy is there, of a group those of every member;
 *           bytes are counted wherever they are.
 * Threads.  The core's own. */
#include "core/group.h"

struct match_nodes {
    struct wire_match_node *rows; /* of the reply */
    uint32_t count;
    uint32_t *held; /* of the block that is walked: objects whole at each of them */
    uint32_t *last; /* the last of these: two copies at one node are one */
};

struct match_nodes *core_match_nodes_create(struct core *core, struct wire_match_rep *reply)
{
    struct match_nodes *nodes = core_out(core, 1, sizeof(*nodes));

    nodes->count = 0;
    nodes->held = core_out(core, core->segment_count, sizeof(*nodes->held));
    nodes->last = core_out(core, core->segment_count, sizeof(*nodes->last));
    nodes->rows = reply->nodes = core_out(core, core->segment_count, sizeof(*reply->nodes));
    return nodes;
}

static uint32_t row_of(const struct core *core, struct match_nodes *nodes, uint16_t segment_index)
{
    const struct segment *segment = core->segments[segment_index];
    uint32_t number = core->nodes[segment->node]->number;
    uint32_t at = 0;

    while (at < nodes->count &&
           (nodes->rows[at].node != number || nodes->rows[at].tier != segment->tier))
        at++;
    if (at == nodes->count) {
        nodes->rows[at] = (struct wire_match_node){.node = number, .tier = segment->tier};
        nodes->held[at] = nodes->last[at] = 0;
        nodes->count++;
    }
    return at;
}

static void add_object(const struct core *core, struct match_nodes *nodes, uint32_t number)
{
    enum access accesses[LIMIT_REPLICAS];
    uint32_t count = core_part_count(core, number);
    uint32_t first = 0; /* row of part 0 of the replica */
    bool whole = false; /* its parts so far are all at that one */

    core_replica_accesses(core, number, accesses);
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        uint32_t row;

        if (accesses[part.replica] != ACCESS_NOW)
            continue;
        row = row_of(core, nodes, part.segment);
        nodes->rows[row].bytes += part.length;
        whole = part.part == 0 || (whole && row == first);
        first = part.part == 0 ? row : first;
        if (!whole || part.part + 1u != part.parts || nodes->last[row] == number)
            continue;
        nodes->held[row]++;
        nodes->last[row] = number;
    }
}

void core_match_nodes_add(struct core *core, struct match_nodes *nodes,
                          struct wire_match_rep *reply, const uint32_t *objects, uint32_t count)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->held[i] = nodes->last[i] = 0;
    for (uint32_t i = 0; i < count; i++)
        add_object(core, nodes, objects[i]);
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct wire_match_node *row = &nodes->rows[i];

        if (nodes->held[i] != count)
            continue;
        row->leading += row->leading == reply->matched;
        row->blocks++;
    }
    reply->nodes_count = nodes->count;
}
