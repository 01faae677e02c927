/* Questions that change nothing: the list of objects, the nodes, the counters. */
#include "core/inside.h"

#define PAGE_OBJECTS (16 * LIMIT_STEP_OBJECTS)

/* The cursor is the number of the next record to look at: a page looks at a bounded number of
 * them, and may be empty before the end. */
void core_list(struct core *core, const struct core_input *input)
{
    const struct wire_list_req *list = input->message;
    struct wire_list_rep *reply = core_out(core, 1, sizeof(*reply));
    uint32_t limit =
        list->limit > 0 && list->limit < LIMIT_LIST_ROWS ? list->limit : LIMIT_LIST_ROWS;
    uint64_t number = list->cursor == 0 ? 1 : list->cursor;
    uint32_t looked = 0;

    reply->items = core_out(core, limit, sizeof(*reply->items));
    for (; number < core->objects.fresh && reply->items_count < limit; number++) {
        const struct object *object = core_object(core, (uint32_t)number);

        if (++looked > PAGE_OBJECTS)
            break;
        if (core_object_state(core, (uint32_t)number) != OBJECT_READABLE)
            continue;
        struct bytes key = core_object_key(core, (uint32_t)number);

        if (key.size < list->prefix.size ||
            !bytes_equal(bytes_of(key.at, list->prefix.size), list->prefix))
            continue;
        struct wire_listed *row = &reply->items[reply->items_count++];

        row->key = key;
        row->gen = object->gen;
        row->size = object->size;
        row->flags = core_found_flags(object);
        row->depth = object->depth == CORE_DEPTH_UNKNOWN ? WIRE_DEPTH_UNKNOWN : object->depth;
        row->replicas = (uint8_t)core_replica_count(core, (uint32_t)number);
        row->uses = (uint8_t)object->uses;
    }
    reply->cursor = number < core->objects.fresh ? number : 0;
    core_reply(core, input->token, WIRE_list, reply);
}

static uint8_t wire_state(const struct node *node)
{
    if (node->draining && node->state == NODE_ALIVE)
        return WIRE_NODE_DRAINING;
    switch ((enum node_state)node->state) {
    case NODE_ALIVE:
        return WIRE_NODE_ALIVE;
    case NODE_SUSPECT:
        return WIRE_NODE_SUSPECT;
    case NODE_RECOVERING:
        return WIRE_NODE_RECOVERING;
    default:
        return WIRE_NODE_DEAD;
    }
}

static void fill_node(const struct core *core, const struct node *node, struct wire_node_info *info)
{
    info->node = node->number;
    info->state = wire_state(node);
    info->incarnation = node->incarnation;
    info->segments = node->segment_count;
    info->address = bytes_of_string(node->address);
    info->host = bytes_of_string(node->host);
    info->near = bytes_of_string(node->near);
    info->name = bytes_of_string(node->name);
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct segment *segment = core->segments[node->first_segment + i];

        if (segment->space == NULL)
            continue;
        info->size += segment->size;
        if (!space_is_recovering(segment->space))
            info->used += space_size(segment->space) - space_free_bytes(segment->space);
        info->closing += segment->closing_bytes;
    }
}

void core_nodes(struct core *core, const struct core_input *input)
{
    const struct wire_nodes_req *nodes = input->message;
    struct wire_nodes_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->nodes = core_out(core, core->node_count, sizeof(*reply->nodes));
    for (uint32_t i = 0; i < core->node_count && reply->nodes_count < LIMIT_BATCH_ITEMS; i++) {
        if (core->nodes[i]->number >= nodes->first)
            fill_node(core, core->nodes[i], &reply->nodes[reply->nodes_count++]);
    }
    core_reply(core, input->token, WIRE_nodes, reply);
}

/* ---- metrics ---- */

void core_watch_evicted(struct core *core, void (*on_evicted)(void *owner, struct bytes key),
                        void *owner)
{
    core->on_evicted = on_evicted;
    core->evicted_owner = owner;
}

uint32_t core_metric_count(void)
{
    return CORE_METRIC_COUNT;
}

const char *core_metric_name(uint32_t index)
{
    static const char *const names[] = {
#define METRIC(name, kind, text) #name,
#include "core/core_metrics.def"
#undef METRIC
    };

    return index < CORE_METRIC_COUNT ? names[index] : NULL;
}

uint64_t core_memory(const struct core *core)
{
    return pool_bytes(&core->objects) + pool_bytes(&core->spreads) + pool_bytes(&core->writes) +
           pool_bytes(&core->closings_pool) + pool_bytes(&core->request_pool) +
           pool_bytes(&core->pin_pool) + pool_bytes(&core->expiry_pool) +
           pool_bytes(&core->copy_pool) + pool_bytes(&core->groups) +
           pool_bytes(&core->group_timers) + pool_bytes(&core->group_hold_pool) +
           pool_bytes(&core->group_writer_pool) + pool_bytes(&core->group_absent_pool) +
           index_memory(core->group_ids) + index_memory(core->group_writers) +
           index_memory(core->group_absents) + core->group_table_bytes + index_memory(core->index) +
           keys_memory(core->keys) + core->read_entries * sizeof(struct read_entry);
}

/* A silent node may return with all it holds, so the core keeps it; but neither its room nor its
 * bytes are of use now. */
static void tell_silent(const struct core *core, const struct node *node, uint64_t *values)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct segment *segment = core->segments[node->first_segment + i];

        if (space_is_recovering(segment->space))
            continue;
        uint64_t ready = space_size(segment->space);
        uint64_t free_bytes = space_free_bytes(segment->space);

        values[CORE_METRIC_pool_bytes] -= segment->size;
        values[CORE_METRIC_ready_bytes] -= ready;
        values[CORE_METRIC_free_bytes] -= free_bytes;
        values[CORE_METRIC_used_bytes] -= ready - free_bytes;
        values[CORE_METRIC_closing_bytes] -= segment->closing_bytes;
        values[CORE_METRIC_silent_bytes] += ready - free_bytes;
    }
}

static void tell_nodes(const struct core *core, uint64_t *values)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = core->nodes[i];

        values[CORE_METRIC_nodes_alive] += node->state == NODE_ALIVE;
        values[CORE_METRIC_nodes_suspect] += node->state == NODE_SUSPECT;
        if (node->state == NODE_SUSPECT)
            tell_silent(core, node, values);
    }
}

void core_metrics(struct core *core, uint64_t *values)
{
    for (uint32_t i = 0; i < CORE_METRIC_COUNT; i++)
        values[i] = core->counters[i];
    values[CORE_METRIC_objects] = core->readable;
    values[CORE_METRIC_groups] = core->group_count;
    values[CORE_METRIC_group_members] = core->group_members;
    values[CORE_METRIC_groups_forming] = core->forming_count;
    values[CORE_METRIC_group_parents_absent] = core->group_absent_pool.used;
    values[CORE_METRIC_forming_bytes] = core->forming_bytes;
    values[CORE_METRIC_objects_writing] = core->writing;
    values[CORE_METRIC_objects_closing] = core->closing;
    values[CORE_METRIC_pool_bytes] = core->pool_bytes;
    values[CORE_METRIC_ready_bytes] = core->ready_bytes;
    values[CORE_METRIC_used_bytes] = core->ready_bytes - core->free_bytes;
    values[CORE_METRIC_free_bytes] = core->free_bytes;
    values[CORE_METRIC_closing_bytes] = core->closing_bytes;
    values[CORE_METRIC_leased_bytes] = core->leased_bytes;
    values[CORE_METRIC_hard_pinned_bytes] = core->hard_pinned_bytes;
    values[CORE_METRIC_sessions] = core->sessions_open;
    tell_nodes(core, values);
    values[CORE_METRIC_copies_under_way] = core->copy_pool.used;
    values[CORE_METRIC_second_copies] = core->second_pool.used;
    values[CORE_METRIC_second_copy_bytes] = core->second_bytes;
    values[CORE_METRIC_tasks_running] = core->tasks_running;
    values[CORE_METRIC_nodes_missing] = core->missing;
    values[CORE_METRIC_waiters] = core->waiters;
    values[CORE_METRIC_memory_bytes] = core_memory(core);
    values[CORE_METRIC_shadow_bytes] = trial_memory(&core->trial);
    values[CORE_METRIC_hits_at_half] = trial_ratio(&core->trial, TRIAL_HALF);
    values[CORE_METRIC_hits_at_once] =
        trial_ratio(&core->trial, (enum trial_shadow)core->trial.rule);
    values[CORE_METRIC_hits_at_double] = trial_ratio(&core->trial, TRIAL_DOUBLE);
    values[CORE_METRIC_hits_at_fourfold] = trial_ratio(&core->trial, TRIAL_FOURFOLD);
    values[CORE_METRIC_rule] = core->trial.rule;
    values[CORE_METRIC_ghosts] = ghosts_count(&core->ghosts);
    values[CORE_METRIC_ghost_bytes] = ghosts_memory(&core->ghosts);
    for (uint32_t i = 0; i < core->segment_count; i++) {
        if (core->segments[i]->space == NULL)
            continue;
        values[CORE_METRIC_memory_bytes] += space_memory(core->segments[i]->space);
        values[CORE_METRIC_reserve_bytes] += core_room_reserve(core, core->segments[i]);
    }
}

void core_stats(struct core *core, const struct core_input *input)
{
    struct wire_stats_rep *reply = core_out(core, 1, sizeof(*reply));
    uint64_t *values = core_out(core, CORE_METRIC_COUNT, sizeof(*values));

    core_metrics(core, values);
    reply->values = core_out(core, CORE_METRIC_COUNT, sizeof(*reply->values));
    reply->values_count = CORE_METRIC_COUNT;
    for (uint32_t i = 0; i < CORE_METRIC_COUNT; i++) {
        reply->values[i].name = bytes_of_string(core_metric_name(i));
        reply->values[i].value = values[i];
    }
    core_reply(core, input->token, WIRE_stats, reply);
}
