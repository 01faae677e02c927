/* Groups: what puts say of them, what they are, how much of a chain is there.
 *
 * Idea.     A match is cut into messages, of which two are under way once the first has found its
 *           blocks: most chains break early, and what lies behind a hole is not asked for.  What
 *           counts is how far the answers reach without a gap, so the first hole ends it, whatever
 *           the others still say.
 * Threads.  The loop's.
 */
#include "client/inside.h"

#include <stdlib.h>

#define MATCH_FIRST_ITEMS 512u /* blocks of the first message */
#define MATCH_PARTS 2u         /* messages under way, when the first has found its blocks */

const char *snow_group_state_name(uint32_t state)
{
    static const char *const names[] = {"none",     "forming",    "open",   "complete",
                                        "degraded", "recovering", "closing"};

    return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

/* ---- members of puts ------------------------------------------------------------------------ */

enum snow_status client_members_derive(struct client *client, const struct snow_put *items,
                                       size_t count, struct arena *arena,
                                       struct snow_member **derived)
{
    *derived = NULL;
    if (client->rules == NULL)
        return SNOW_OK;
    *derived = arena_array(arena, count, sizeof(**derived));
    if (*derived == NULL)
        return SNOW_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (items[i].member == NULL && client_key_check(&items[i].key) == SNOW_OK)
            (*derived)[i] = client_rules_member(client->rules, &items[i].key, arena);
    }
    return SNOW_OK;
}

const struct snow_member *client_member(const struct snow_put *items,
                                        const struct snow_member *derived, size_t index)
{
    if (items[index].member != NULL || derived == NULL || derived[index].group.size == 0)
        return items[index].member;
    return &derived[index];
}

size_t client_member_size(const struct snow_member *member)
{
    if (member == NULL)
        return 0;
    return wire_put_group_size_min(WIRE_VERSION) + wire_put_member_size_min(WIRE_VERSION) +
           member->group.size + member->parent.size;
}

enum snow_status client_member_check(const struct snow_member *member)
{
    if (member == NULL)
        return SNOW_OK;
    if (CLIENT_RESERVED(member) != SNOW_OK || member->group.at == NULL || member->group.size < 1 ||
        member->group.size > LIMIT_GROUP_ID_SIZE || member->size > LIMIT_GROUP_SIZE ||
        (member->flags & ~WIRE_GROUP_ALL) != 0 || member->parent.size > LIMIT_GROUP_ID_SIZE ||
        (member->parent.size > 0 && member->parent.at == NULL))
        return SNOW_INVALID;
    return SNOW_OK;
}

static bool is_of_group(const struct wire_put_group *group, const struct snow_member *member)
{
    return group->size == member->size && group->flags == member->flags &&
           group->form_ms == member->form_ttl_ms &&
           bytes_equal(group->id, client_key_bytes(&member->group)) &&
           bytes_equal(group->parent, client_key_bytes(&member->parent));
}

bool client_members_build(struct wire_put_start_req *message, const struct snow_put *items,
                          const struct snow_member *derived, const uint32_t *indexes,
                          uint32_t count, struct arena *arena)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < count; i++)
        members += client_member(items, derived, indexes[i]) != NULL;
    if (members == 0)
        return true;
    message->groups = arena_array(arena, members, sizeof(*message->groups));
    message->members = arena_array(arena, members, sizeof(*message->members));
    if (message->groups == NULL || message->members == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct snow_member *member = client_member(items, derived, indexes[i]);

        if (member == NULL)
            continue;
        if (message->groups_count == 0 ||
            !is_of_group(&message->groups[message->groups_count - 1], member))
            message->groups[message->groups_count++] =
                (struct wire_put_group){.id = client_key_bytes(&member->group),
                                        .size = member->size,
                                        .flags = member->flags,
                                        .form_ms = member->form_ttl_ms,
                                        .parent = client_key_bytes(&member->parent)};
        message->members[message->members_count++] = (struct wire_put_member){
            .item = i, .group = message->groups_count - 1, .index = member->index};
    }
    return true;
}

/* ---- what groups are ------------------------------------------------------------------------ */

static struct client_group_stat_op *stat_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_group_stat_op, ask);
}

static void stop_stat(struct client_group_stat_op *op)
{
    client_ask_cancel(&op->ask);
    client_op_end(&op->base);
}

static void end_stat(struct client_group_stat_op *op, enum snow_status status)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->ask.states[i] != ASK_IDLE)
            op->items[i].status = status;
    }
}

static void on_stat_timer(struct env_timer *timer)
{
    struct client_group_stat_op *op = list_entry(timer, struct client_group_stat_op, base.timer);

    if (op->open > 0)
        end_stat(op, client_op_late_status(&op->base));
    stop_stat(op);
    op->on_done(op);
}

void client_group_stat_cancel(struct client_group_stat_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->open > 0)
        end_stat(op, SNOW_CANCELLED);
    stop_stat(op);
}

static size_t measure_stat(struct client_ask *ask, uint32_t item)
{
    return wire_group_asked_size_min(WIRE_VERSION) + stat_of(ask)->items[item].id.size;
}

/* One position names all of a message. */
static bool join_next(struct client_ask *ask, uint32_t before, uint32_t item)
{
    (void)ask;
    return item == before + 1;
}

static const void *build_stat(struct client_ask *ask, const uint32_t *items, uint32_t count,
                              struct arena *arena)
{
    struct client_group_stat_op *op = stat_of(ask);
    struct wire_group_stat_req *message = arena_take(arena, sizeof(*message));
    uint64_t now_ns = client_now_ns(op->base.client);

    if (message == NULL)
        return NULL;
    message->groups = arena_array(arena, count, sizeof(*message->groups));
    if (message->groups == NULL)
        return NULL;
    message->groups_count = count;
    message->operation = op->base.operation;
    message->position = items[0];
    message->flags = op->flags;
    if (now_ns < op->wait_until_ns)
        message->wait_ms = (uint32_t)((op->wait_until_ns - now_ns) / NS_PER_MS);
    for (uint32_t i = 0; i < count; i++) {
        const struct snow_group_info *item = &op->items[items[i]];

        message->groups[i] =
            (struct wire_group_asked){.id = client_key_bytes(&item->id),
                                      .flags = item->by_key == 1 ? WIRE_STAT_KEY : 0,
                                      .from = item->missing_from};
    }
    return message;
}

void client_group_info_take(struct snow_group_info *item, const struct wire_group_info *info)
{
    struct snow_group_more *more = item->more;
    uint32_t count =
        info->missing_count < SNOW_GROUP_MISSING ? info->missing_count : SNOW_GROUP_MISSING;

    item->status = status_is_known(info->status) ? (enum snow_status)info->status : SNOW_INVALID;
    item->state = info->state;
    item->flags = info->flags;
    item->version = info->version;
    item->ggen = info->ggen;
    item->size = info->size;
    item->present = info->present;
    item->bytes = info->bytes;
    item->missing_count = count;
    for (uint32_t i = 0; i < count; i++)
        item->missing[i] = info->missing[i].index;
    item->missing_next = info->next;
    if (more == NULL)
        return;
    more->lease_ms = info->lease_ms;
    more->id_size = (uint32_t)(info->id.size <= SNOW_GROUP_ID ? info->id.size : 0);
    if (more->id_size > 0)
        memcpy(more->id, info->id.at, more->id_size);
}

static void on_stat_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                          const void *message)
{
    struct client_group_stat_op *op = stat_of(ask);
    const struct wire_group_stat_rep *reply = message;

    for (uint32_t i = 0; i < reply->items_count; i++) {
        uint32_t index = reply->items[i].index;

        if (index >= count || !client_ask_is_sent(ask, items[index]))
            continue;
        client_ask_close(ask, items[index]);
        client_group_info_take(&op->items[items[index]], &reply->items[i]);
        op->open--;
    }
}

static void on_stat_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    stat_of(ask)->items[item].status = status;
    stat_of(ask)->open--;
}

static void on_stat_event(struct client_ask *ask)
{
    struct client_group_stat_op *op = stat_of(ask);

    if (op->open > 0)
        return;
    stop_stat(op);
    op->on_done(op);
}

static const struct client_ask_ops stat_ops = {.type = WIRE_group_stat,
                                               .on_measure = measure_stat,
                                               .on_join = join_next,
                                               .on_build = build_stat,
                                               .on_reply = on_stat_reply,
                                               .on_failed = on_stat_failed,
                                               .on_event = on_stat_event};

static bool question_is_valid(const struct snow_group_info *item)
{
    if (item->by_key > 1 || (item->more != NULL && CLIENT_RESERVED(item->more) != SNOW_OK))
        return false;
    if (item->by_key == 1)
        return client_key_check(&item->id) == SNOW_OK;
    return item->id.at != NULL && item->id.size >= 1 && item->id.size <= LIMIT_GROUP_ID_SIZE;
}

void client_group_stat_start(struct client *client, struct client_group_stat_op *op,
                             const struct snow_call *call)
{
    enum snow_status status = op->count > UINT32_MAX / 2 ? SNOW_INVALID : SNOW_OK;

    client_op_begin(client, &op->base, call, on_stat_timer);
    if (call->read_id != NULL)
        *call->read_id = op->base.operation;
    op->flags = call->flags & SNOW_CALL_LEASE ? WIRE_LOOKUP_LEASE : 0;
    op->open = 0;
    op->wait_until_ns = client_now_ns(client) + call->wait_ms * NS_PER_MS;
    if (status == SNOW_OK)
        status = client_ask_init(&op->ask, client, &stat_ops, (uint32_t)op->count,
                                 op->base.deadline_ns, &op->base.arena);
    for (size_t i = 0; i < op->count; i++) {
        struct snow_group_info *item = &op->items[i];

        item->status = status;
        if (item->status == SNOW_OK && !question_is_valid(item))
            item->status = SNOW_INVALID;
        if (item->status != SNOW_OK)
            continue;
        op->open++;
        client_ask_open(&op->ask, (uint32_t)i);
    }
    if (op->open == 0)
        client_op_hurry(&op->base);
    else
        client_ask_pump(&op->ask);
}

/* ---- chains --------------------------------------------------------------------------------- */

struct match_block {
    uint32_t node;
    uint8_t tier;
    bool matched;
    enum snow_status stop; /* of one that is known not to be there; OK: not known yet */
};

static struct client_match_op *match_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_match_op, ask);
}

static bool sum_nodes(struct client_match_op *op);

static void finish_match(struct client_match_op *op, enum snow_status status)
{
    op->status = status == SNOW_OK && !sum_nodes(op) ? SNOW_NO_MEMORY : status;
    client_ask_cancel(&op->ask);
    client_op_end(&op->base);
    op->on_done(op);
}

static void on_match_timer(struct env_timer *timer)
{
    struct client_match_op *op = list_entry(timer, struct client_match_op, base.timer);

    if (op->status == SNOW_OK && op->chain->count > 0)
        op->status = client_op_late_status(&op->base);
    finish_match(op, op->status);
}

void client_match_cancel(struct client_match_op *op)
{
    if (op->base.client == NULL)
        return;
    client_ask_cancel(&op->ask);
    client_op_end(&op->base);
}

/* What names it: with key rules perhaps the group of its key. */
static struct bytes block_of(const struct client_match_op *op, uint32_t item)
{
    return op->ids != NULL && op->ids[item].size > 0 ? op->ids[item]
                                                     : client_key_bytes(&op->chain->blocks[item]);
}

static size_t measure_match(struct client_ask *ask, uint32_t item)
{
    return wire_key_size_min(WIRE_VERSION) + block_of(match_of(ask), item).size;
}

static const void *build_match(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct client_match_op *op = match_of(ask);
    struct wire_match_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->keys = arena_array(arena, count, sizeof(*message->keys));
    if (message->keys == NULL)
        return NULL;
    message->operation = op->base.operation;
    message->position = items[0];
    message->flags = op->flags;
    message->members = op->chain->members;
    message->keys_count = count;
    for (uint32_t i = 0; i < count; i++)
        message->keys[i].key = block_of(op, items[i]);
    return message;
}

/* Blocks that may be asked for by now. */
static void open_parts(struct client_match_op *op)
{
    const struct snow_chain *chain = op->chain;
    size_t end = chain->matched == 0 ? MATCH_FIRST_ITEMS
                                     : chain->matched + (size_t)MATCH_PARTS * LIMIT_BATCH_ITEMS;

    if (chain->matched < chain->count && op->blocks[chain->matched].stop != SNOW_OK)
        return;
    while (op->opened < end && op->opened < chain->count)
        client_ask_open(&op->ask, op->opened++);
}

/* How far it is known to be there. */
static void advance(struct client_match_op *op)
{
    struct snow_chain *chain = op->chain;

    while (chain->matched < chain->count && op->blocks[chain->matched].matched) {
        const struct match_block *block = &op->blocks[chain->matched++];
        struct snow_match_run *last = &op->last;

        if (chain->run_count == 0 || last->node != block->node || last->tier != block->tier) {
            chain->run_count++;
            *last = (struct snow_match_run){.node = block->node, .tier = block->tier};
        }
        last->count++;
        if (chain->runs != NULL && chain->run_count <= chain->run_room)
            chain->runs[chain->run_count - 1] = *last;
    }
}

/* What one message said of nodes. */
struct told_nodes {
    struct told_nodes *next; /* of blocks behind these */
    uint32_t first;          /* block */
    uint32_t count;
    struct snow_match_node rows[];
};

static void note_nodes(struct client_match_op *op, uint32_t first,
                       const struct wire_match_rep *reply)
{
    struct told_nodes **at = &op->told;
    struct told_nodes *told;

    if (reply->nodes_count == 0 || op->chain->nodes == NULL)
        return;
    told = arena_take(&op->base.arena, sizeof(*told) + reply->nodes_count * sizeof(told->rows[0]));
    if (told == NULL) {
        op->status = SNOW_NO_MEMORY;
        return;
    }
    told->first = first;
    told->count = reply->nodes_count;
    for (uint32_t i = 0; i < told->count; i++) {
        const struct wire_match_node *row = &reply->nodes[i];

        told->rows[i] = (struct snow_match_node){.node = row->node,
                                                 .tier = row->tier,
                                                 .leading = row->leading,
                                                 .blocks = row->blocks,
                                                 .bytes = row->bytes};
    }
    while (*at != NULL && (*at)->first < first)
        at = &(*at)->next;
    told->next = *at;
    *at = told;
}

static int by_leading(const void *a, const void *b)
{
    const struct snow_match_node *left = a;
    const struct snow_match_node *right = b;

    if (left->leading != right->leading)
        return left->leading > right->leading ? -1 : 1;
    if (left->blocks != right->blocks)
        return left->blocks > right->blocks ? -1 : 1;
    if (left->node != right->node)
        return left->node < right->node ? -1 : 1;
    return left->tier < right->tier ? -1 : left->tier > right->tier;
}

static void add_row(struct snow_match_node *all, size_t *count, uint32_t first,
                    const struct snow_match_node *row)
{
    size_t at = 0;

    while (at < *count && (all[at].node != row->node || all[at].tier != row->tier))
        at++;
    if (at == *count)
        all[(*count)++] = (struct snow_match_node){.node = row->node, .tier = row->tier};
    if (all[at].leading == first)
        all[at].leading += row->leading;
    all[at].blocks += row->blocks;
    all[at].bytes += row->bytes;
}

/* What the messages up to the first hole said, for each node; false: no memory. */
static bool sum_nodes(struct client_match_op *op)
{
    struct snow_chain *chain = op->chain;
    struct snow_match_node *all;
    size_t rows = 0;
    size_t count = 0;

    for (const struct told_nodes *told = op->told; told != NULL; told = told->next)
        rows += told->count;
    if (rows == 0)
        return true;
    all = arena_array(&op->base.arena, rows, sizeof(*all));
    if (all == NULL)
        return false;
    for (const struct told_nodes *told = op->told; told != NULL; told = told->next) {
        for (uint32_t i = 0; i < told->count && told->first < chain->matched; i++)
            add_row(all, &count, told->first, &told->rows[i]);
    }
    qsort(all, count, sizeof(*all), by_leading);
    chain->node_count = count;
    memcpy(chain->nodes, all, (count < chain->node_room ? count : chain->node_room) * sizeof(*all));
    return true;
}

static void on_match_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                           const void *reply_message)
{
    struct client_match_op *op = match_of(ask);
    const struct wire_match_rep *reply = reply_message;
    uint32_t at = 0;

    for (uint32_t i = 0; i < reply->runs_count; i++) {
        for (uint32_t j = 0; j < reply->runs[i].count && at < count; j++, at++) {
            if (!client_ask_is_sent(ask, items[at]))
                continue;
            client_ask_close(ask, items[at]);
            op->blocks[items[at]] = (struct match_block){.node = reply->runs[i].node,
                                                         .tier = reply->runs[i].tier,
                                                         .matched = true};
        }
    }
    for (uint32_t i = at; i < count; i++) {
        if (!client_ask_is_sent(ask, items[i]))
            continue;
        client_ask_close(ask, items[i]);
        op->blocks[items[i]].stop = status_is_known(reply->stop) && reply->stop != SNOW_OK
                                        ? (enum snow_status)reply->stop
                                        : SNOW_INVALID;
    }
    note_nodes(op, items[0], reply);
    advance(op);
    open_parts(op);
}

static void on_match_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    match_of(ask)->blocks[item].stop = status;
    match_of(ask)->status = status;
}

static void on_match_event(struct client_ask *ask)
{
    struct client_match_op *op = match_of(ask);
    struct snow_chain *chain = op->chain;

    if (chain->matched == chain->count) {
        finish_match(op, SNOW_OK);
    } else if (op->blocks[chain->matched].stop != SNOW_OK) {
        chain->stop = op->blocks[chain->matched].stop;
        finish_match(op, op->status);
    } else if (op->ask.waiting > 0) {
        client_ask_pump(&op->ask);
    }
}

static const struct client_ask_ops match_ops = {.type = WIRE_match,
                                                .on_measure = measure_match,
                                                .on_join = join_next,
                                                .on_build = build_match,
                                                .on_reply = on_match_reply,
                                                .on_failed = on_match_failed,
                                                .on_event = on_match_event};

static bool chain_is_valid(const struct client_match_op *op)
{
    const struct snow_chain *chain = op->chain;
    size_t limit = chain->groups ? LIMIT_GROUP_ID_SIZE : LIMIT_KEY_SIZE;

    if (CLIENT_RESERVED(chain) != SNOW_OK || chain->groups > 1 || chain->count > UINT32_MAX / 2 ||
        (chain->blocks == NULL && chain->count > 0) ||
        (chain->runs == NULL && chain->run_room > 0) ||
        (chain->nodes == NULL && chain->node_room > 0))
        return false;
    for (size_t i = 0; i < chain->count; i++) {
        if (client_key_check(&chain->blocks[i]) != SNOW_OK ||
            block_of(op, (uint32_t)i).size > limit)
            return false;
    }
    return true;
}

/* Ids of the groups that keys of members name.  False: no memory. */
static bool find_ids(struct client_match_op *op)
{
    const struct client_rules *rules = op->base.client->rules;
    const struct snow_chain *chain = op->chain;

    op->ids = NULL;
    if (rules == NULL || chain->groups != 1 || chain->blocks == NULL || chain->count == 0)
        return true;
    op->ids = arena_array(&op->base.arena, chain->count, sizeof(*op->ids));
    if (op->ids == NULL)
        return false;
    for (size_t i = 0; i < chain->count; i++) {
        if (client_key_check(&chain->blocks[i]) == SNOW_OK)
            op->ids[i] = client_rules_group(rules, client_key_bytes(&chain->blocks[i]),
                                            &op->base.arena, NULL);
    }
    return true;
}

void client_match_start(struct client *client, struct client_match_op *op,
                        const struct snow_call *call)
{
    struct snow_chain *chain = op->chain;

    client_op_begin(client, &op->base, call, on_match_timer);
    if (call->read_id != NULL)
        *call->read_id = op->base.operation;
    else if ((call->flags & SNOW_CALL_LEASE) == 0)
        op->base.operation = 0;
    chain->matched = 0;
    chain->run_count = 0;
    chain->node_count = 0;
    chain->stop = SNOW_OK;
    op->told = NULL;
    op->flags = (chain->groups ? WIRE_MATCH_GROUPS : 0) |
                (chain->nodes != NULL ? WIRE_MATCH_NODES : 0) |
                (call->flags & SNOW_CALL_TOUCH ? WIRE_LOOKUP_REFRESH : 0) |
                (call->flags & SNOW_CALL_LEASE ? WIRE_LOOKUP_LEASE : 0);
    op->status = SNOW_OK;
    if (!find_ids(op)) {
        op->status = SNOW_NO_MEMORY;
        client_op_hurry(&op->base);
        return;
    }
    if (!chain_is_valid(op)) {
        op->status = SNOW_INVALID;
        client_op_hurry(&op->base);
        return;
    }
    op->blocks = arena_array(&op->base.arena, chain->count, sizeof(*op->blocks));
    if (op->blocks == NULL || client_ask_init(&op->ask, client, &match_ops, (uint32_t)chain->count,
                                              op->base.deadline_ns, &op->base.arena) != SNOW_OK) {
        op->status = SNOW_NO_MEMORY;
        client_op_hurry(&op->base);
        return;
    }
    op->opened = 0;
    open_parts(op);
    if (chain->count == 0)
        client_op_hurry(&op->base);
    else
        client_ask_pump(&op->ask);
}
