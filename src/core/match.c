/* Matching: how much of a chain is there, in one question.
 *
 * Problem.  Engines ask for the longest cached prefix of thousands of blocks, a block being one
 *           object or a group of them.
 * Idea.     The blocks are walked in order and the walk ends at the first hole, so what is not
 *           there costs nothing.  Blocks that lie on one node after each other are told as one run.
 * Threads.  The core's own. */
#include "base/cache.h"
#include "core/group.h"

/* A walk along a chain. */
struct walk {
    const struct wire_match_req *message;
    struct wire_match_rep *reply;
    uint32_t *numbers;         /* what was found: objects, or records of groups */
    struct match_nodes *nodes; /* what each node holds; NULL: nobody asks */
    bool away;                 /* some node is silent */
};

/* Members of a group that can be read; *count of them. */
static uint32_t *readable_members(struct core *core, const struct group *group, uint32_t *count)
{
    uint32_t *numbers = core_out(core, group->capacity, sizeof(*numbers));

    *count = 0;
    for (uint32_t index = 0; index < group->capacity; index++) {
        uint32_t number = group->members[index];

        if (number != 0 && core_object(core, number)->state == OBJECT_READABLE)
            numbers[(*count)++] = number;
    }
    return numbers;
}

static void add_nodes(struct core *core, struct walk *walk, uint32_t number)
{
    uint32_t count = 1;
    const uint32_t *objects = &number;

    if (walk->message->flags & WIRE_MATCH_GROUPS)
        objects = readable_members(core, core_group_at(core, number), &count);
    core_match_nodes_add(core, walk->nodes, walk->reply, objects, count);
}

static void add_block(struct core *core, struct walk *walk, uint32_t number, uint16_t segment_index)
{
    const struct segment *segment = core->segments[segment_index];
    uint32_t node = core->nodes[segment->node]->number;
    struct wire_match_rep *reply = walk->reply;
    struct wire_match_run *last =
        reply->runs_count == 0 ? NULL : &reply->runs[reply->runs_count - 1];

    if (last == NULL || last->node != node || last->tier != segment->tier) {
        last = &reply->runs[reply->runs_count++];
        *last = (struct wire_match_run){.node = node, .tier = segment->tier};
    }
    last->count++;
    if (walk->nodes != NULL)
        add_nodes(core, walk, number);
    walk->numbers[reply->matched++] = number;
}

static void stop(struct walk *walk, enum snow_status status)
{
    walk->reply->stop = (int32_t)status;
}

/* ---- keys ---- */

static bool match_keys(struct core *core, struct walk *walk, uint32_t first, uint32_t count)
{
    struct sought group[CORE_SEEK_KEYS];
    enum snow_status status;
    uint32_t why = 0;

    core_seek(core, &walk->message->keys[first], count, walk->message->flags, group);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = core_seek_readable(core, &group[i], walk->message->flags, &status, &why);

        if (number == 0) {
            stop(walk, status);
            return false;
        }
        add_block(core, walk, number, core_object(core, number)->segment);
    }
    return true;
}

/* ---- groups ---- */

/* OK: every member that the caller needs can be read now. */
static enum snow_status is_whole(const struct core *core, const struct walk *walk,
                                 const struct group *group)
{
    enum wire_group_state state = core_group_state_now(core, group, walk->away);

    switch (state) {
    case WIRE_GROUP_COMPLETE:
        return SNOW_OK;
    case WIRE_GROUP_OPEN:
        return walk->message->members > 0 && group->present >= walk->message->members
                   ? SNOW_OK
                   : SNOW_NOT_READY;
    case WIRE_GROUP_FORMING:
        return SNOW_NOT_READY;
    case WIRE_GROUP_RECOVERING:
        return SNOW_UNKNOWN;
    default:
        return SNOW_GROUP_BROKEN;
    }
}

/* at: the first that the index tells; the one, but for collisions, shadows and while inventories
 * come in. */
static uint32_t seek_group(const struct core *core, const struct key_hash *id, uint32_t at)
{
    if (at == 0 || (core->groups_recovering == 0 && bytes_equal(core_group_id(core, at), id->key) &&
                    (core_group_at(core, at)->flags & GROUP_SHADOW) == 0))
        return at;
    return core_group_find(core, id);
}

static bool match_groups(struct core *core, struct walk *walk, uint32_t first, uint32_t count)
{
    struct key_hash ids[CORE_SEEK_KEYS];
    uint32_t at[CORE_SEEK_KEYS];
    struct index_cursor cursor;

    for (uint32_t i = 0; i < count; i++) {
        ids[i] = core_key_hash(walk->message->keys[first + i].key);
        index_touch(core->group_ids, ids[i].hash);
    }
    for (uint32_t i = 0; i < count; i++) {
        at[i] = index_first(core->group_ids, ids[i].hash, &cursor);
        if (at[i] != 0)
            cache_touch(core_object(core, at[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (at[i] == 0)
            continue;
        cache_touch(pool_at(&core->groups, core_object(core, at[i])->place));
        keys_touch(core->keys, core_object(core, at[i])->key);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t record = seek_group(core, &ids[i], at[i]);
        enum snow_status status = core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN;

        if (record != 0 && !core_expire_due(core, record))
            status = is_whole(core, walk, core_group_at(core, record));
        if (status != SNOW_OK) {
            stop(walk, status);
            return false;
        }
        add_block(core, walk, record, core_object(core, record)->segment);
    }
    return true;
}

/* ---- the answer ---- */

static void touch(struct core *core, const struct walk *walk)
{
    uint32_t flags = walk->message->flags;

    if ((flags & (WIRE_LOOKUP_TOUCH | WIRE_LOOKUP_REFRESH)) == 0)
        return;
    for (uint32_t i = walk->reply->matched; i-- > 0;) {
        uint32_t number = walk->numbers[i];

        core_victim_touch(core, number, (flags & WIRE_LOOKUP_TOUCH) != 0);
        if (flags & WIRE_MATCH_GROUPS)
            core_group_at(core, number)->counted = (uint32_t)core->touches;
    }
}

void core_match(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_match_req *message = input->message;
    struct wire_match_rep *reply = core_out(core, 1, sizeof(*reply));
    struct walk walk = {.message = message, .reply = reply};
    bool groups = (message->flags & WIRE_MATCH_GROUPS) != 0;

    reply->runs = core_out(core, message->keys_count, sizeof(*reply->runs));
    walk.numbers = core_out(core, message->keys_count, sizeof(*walk.numbers));
    walk.away = groups && core_some_node_is_away(core);
    if (message->flags & WIRE_MATCH_NODES)
        walk.nodes = core_match_nodes_create(core, reply);
    for (uint32_t i = 0; i < message->keys_count; i += CORE_SEEK_KEYS) {
        uint32_t left = message->keys_count - i;
        uint32_t count = left < CORE_SEEK_KEYS ? left : CORE_SEEK_KEYS;

        if (!(groups ? match_groups(core, &walk, i, count) : match_keys(core, &walk, i, count)))
            break;
    }
    core_count(core, CORE_METRIC_blocks_matched, reply->matched);
    touch(core, &walk);
    if (message->operation != 0 && reply->matched > 0) {
        struct wire_lookup_req as_lookup = {.operation = message->operation,
                                            .position = message->position,
                                            .flags = message->flags & 0xffffu,
                                            .keys_count = reply->matched};
        struct read_found found = {.numbers = walk.numbers, .count = reply->matched};

        if (groups)
            core_group_members_of(core, walk.numbers, reply->matched, &found);
        reply->lease_ms = core_read_remember(core, &as_lookup, session, &found);
    }
    core_reply(core, input->token, WIRE_match, reply);
}
