/* Getting: places from the master, bytes from the nodes.
 *
 * Problem.  A place may be given to another object between the answer and the read; nodes die;
 *           bytes rot.  The caller gets the object or a miss, never something else (P1).
 * Idea.     Each item reads one copy, all items in parallel.  A copy that fails is followed by the
 *           next one; when there is none left the master is asked once more; then it is a miss.
 *           But a value that is replaced while it is read has not gone: as long as each answer
 *           names a newer one, the master is asked, ASKED_MAX times.
 *           Correctness rests on the generation that the node checks and on the checksum; leases
 *           only make it likely.
 *
 *   ASKING ─places─► READING ─all parts, checked─► DONE (OK)
 *      ▲                │ failed: next copy, or once
 *      └────────────────┴─ none left ─► DONE (NOT_FOUND)
 * Invariants.
 *   G1  A copy is begun only when no read of another one of this item is under way: they go to the
 *       same memory.
 *   G2  open = items that are not DONE.
 * Threads.  The loop's.
 */
#include "client/buffers.h"
#include "client/inside.h"

#include <stdlib.h>

#define ASKED_MAX 32u
#define UNKNOWN_NS (2 * NS_PER_S) /* how long after a master's start its UNKNOWN is waited for */

enum get_state { GET_ASKING, GET_READING, GET_DONE };

/* A part on its way. */
struct get_read {
    struct transport_item item;
    uint32_t index; /* of the item */
};

struct get_item {
    struct client_buffers buffers;
    struct wire_place *places; /* of all copies, the better ones first */
    uint32_t place_count;
    uint32_t reads_open;
    uint64_t gen;
    uint16_t tried;           /* bit r: copy r has failed, or its node is avoided */
    uint8_t state;            /* enum get_state */
    uint8_t asked;            /* how often the master was, for other places than it first told */
    uint64_t failed_gen;      /* of the copies that could not be read */
    bool refused;             /* the caller's memory can not be copied to */
    bool allocated;           /* `to` is ours until the item ends OK */
    enum snow_status failure; /* of the copy that is read, then of the last one */
};

static struct client_get_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_get_op, lookup);
}

/* ---- results -------------------------------------------------------------------------------- */

static void end_item(struct client_get_op *op, uint32_t index, enum snow_status status)
{
    struct client *client = op->base.client;
    struct get_item *get = &op->gets[index];
    struct snow_get *item = &op->items[index];

    ASSERT(get->state != GET_DONE);
    get->state = GET_DONE;
    item->status = status;
    op->open--;
    if (status != SNOW_OK && get->allocated) {
        free(item->to);
        item->to = NULL;
    }
    client_count(client,
                 status == SNOW_OK          ? CLIENT_METRIC_gets
                 : status == SNOW_NOT_FOUND ? CLIENT_METRIC_gets_missed
                                            : CLIENT_METRIC_gets_failed,
                 1);
    if (status == SNOW_OK)
        client_count(client, CLIENT_METRIC_get_bytes, item->size);
}

static void finish_item(struct client_get_op *op, uint32_t index, enum snow_status status)
{
    end_item(op, index, status);
    if (op->on_item != NULL)
        op->on_item(op, index);
}

static void stop(struct client_get_op *op)
{
    client_ask_cancel(&op->lookup);
    client_moves_cancel(&op->moves);
    /* A hold runs out by nothing: it is returned also when its answer may have been lost. */
    if (op->views != NULL && op->viewed == 0)
        client_hold_return(op->base.client, op->base.operation);
    else if (op->views == NULL && op->leased)
        client_lease_return(op->base.client, op->base.operation);
}

static void finish_all(struct client_get_op *op, enum snow_status status)
{
    client_moves_cancel(&op->moves); /* before memory of ours is freed */
    for (uint32_t i = 0; i < op->count && op->open > 0; i++) {
        if (op->gets[i].state != GET_DONE)
            end_item(op, i, status);
    }
}

static void finish(struct client_get_op *op)
{
    stop(op);
    client_op_end(&op->base);
    op->on_done(op);
}

static void settle(struct client_get_op *op)
{
    if (op->open == 0) {
        finish(op);
        return;
    }
    client_moves_go(&op->moves);
    client_ask_pump(&op->lookup);
}

static void on_timer(struct env_timer *timer)
{
    struct client_get_op *op = list_entry(timer, struct client_get_op, base.timer);

    if (op->open > 0)
        finish_all(op, client_op_late_status(&op->base));
    finish(op);
}

void client_get_cancel(struct client_get_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->open > 0)
        finish_all(op, SNOW_CANCELLED);
    stop(op);
    client_op_end(&op->base);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void miss(struct client_get_op *op, uint32_t index)
{
    enum snow_status failure = op->gets[index].failure;

    if (failure == SNOW_CORRUPT)
        client_count(op->base.client, CLIENT_METRIC_misses_corrupt, 1);
    else if (failure == SNOW_UNREACHABLE || failure == SNOW_CLOSED)
        client_count(op->base.client, CLIENT_METRIC_misses_unreachable, 1);
    else
        client_count(op->base.client, CLIENT_METRIC_misses_stale, 1);
    finish_item(op, index, SNOW_NOT_FOUND);
}

/* The rank of a copy is that of the worst of its nodes; `from`: its first place. */
static enum node_rank rank_copy(const struct client_get_op *op, const struct get_item *get,
                                uint32_t from)
{
    enum node_rank worst = NODE_OWN;

    for (uint32_t i = from; i < get->place_count; i++) {
        enum node_rank rank;

        if (get->places[i].replica != get->places[from].replica)
            continue;
        rank = client_node_rank(op->base.client, get->places[i].node);
        if (rank > worst)
            worst = rank;
    }
    return worst;
}

/* Of the copies that were not tried, the nearest whose nodes have not failed lately, else one whose
 * nodes are at least not avoided; false: none. */
static bool next_copy(struct client_get_op *op, struct get_item *get, uint8_t *replica)
{
    enum node_rank best = NODE_AVOIDED;
    uint16_t seen = get->tried;

    for (uint32_t i = 0; i < get->place_count; i++) {
        uint8_t candidate = get->places[i].replica;
        enum node_rank rank;

        if (seen & 1u << candidate)
            continue;
        seen = (uint16_t)(seen | 1u << candidate);
        rank = rank_copy(op, get, i);
        if (rank == NODE_AVOIDED) {
            client_count(op->base.client, CLIENT_METRIC_moves_avoided, 1);
            get->tried = (uint16_t)(get->tried | 1u << candidate);
            get->failure = SNOW_UNREACHABLE;
        } else if (rank < best) {
            best = rank;
            *replica = candidate;
        }
    }
    return best < NODE_AVOIDED;
}

/* Cuts out of a place what is wanted of it; false: nothing. */
static bool want(const struct snow_get *item, const struct wire_place *place,
                 struct transport_item *read, uint64_t *to)
{
    uint64_t end = item->offset + item->size;
    uint64_t from = place->object_offset;
    uint64_t until = from + place->length;

    if (item->size == 0) { /* no byte: that this value is there is checked all the same */
        *to = 0;
        return place->part == 0;
    }
    if (from < item->offset)
        from = item->offset;
    if (until > end)
        until = end;
    if (from >= until)
        return false;
    read->start = from - place->object_offset;
    read->size = until - from;
    *to = from - item->offset;
    return true;
}

/* Begins to read a copy; false: no memory. */
/* What the slot there holds: a copy was written under a generation of its own. */
static uint64_t gen_at(const struct wire_place *place, uint64_t object_gen)
{
    return place->gen != 0 ? place->gen : object_gen;
}

static bool read_copy(struct client_get_op *op, uint32_t index, uint8_t replica)
{
    struct get_item *get = &op->gets[index];
    struct get_read *reads = arena_array(&op->base.arena, get->place_count, sizeof(*reads));

    get->tried = (uint16_t)(get->tried | 1u << replica);
    get->failure = SNOW_OK;
    for (uint32_t i = 0; i < get->place_count && reads != NULL; i++) {
        const struct wire_place *place = &get->places[i];
        struct transport_item *read = &reads[i].item;
        uint64_t to;

        reads[i].index = index;
        *read = (struct transport_item){.place = place, .gen = gen_at(place, get->gen)};
        if (place->replica != replica || !want(&op->items[index], place, read, &to))
            continue;
        if (client_buffers_cut(&get->buffers, to, &op->base.arena, read) == SNOW_OK &&
            client_moves_add(&op->moves, read) == SNOW_OK)
            get->reads_open++;
        else
            get->failure = SNOW_NO_MEMORY;
    }
    return get->reads_open > 0;
}

static bool may_ask_again(const struct get_item *get)
{
    return get->asked == 0 ||
           (get->failure == SNOW_STALE && get->gen != get->failed_gen && get->asked < ASKED_MAX);
}

/* Reads the next copy, or asks again, or misses. */
static void go_on(struct client_get_op *op, uint32_t index)
{
    struct get_item *get = &op->gets[index];
    bool first = get->tried == 0;
    uint8_t replica = 0;

    if (next_copy(op, get, &replica)) {
        if (!first)
            client_count(op->base.client, CLIENT_METRIC_reads_next_copy, 1);
        if (!read_copy(op, index, replica))
            finish_item(op, index, SNOW_NO_MEMORY);
        return;
    }
    if (get->failure == SNOW_TIMEOUT) { /* the deadline is here */
        finish_item(op, index, SNOW_TIMEOUT);
        return;
    }
    if (!may_ask_again(get)) {
        miss(op, index);
        return;
    }
    get->asked++;
    get->failed_gen = get->gen;
    get->state = GET_ASKING;
    client_count(op->base.client, CLIENT_METRIC_reads_asked_again, 1);
    client_ask_open(&op->lookup, index);
}

static void on_item(struct client_moves *moves, struct transport_item *item)
{
    struct client_get_op *op = list_entry(moves, struct client_get_op, moves);
    uint32_t index = list_entry(item, struct get_read, item)->index;
    struct get_item *get = &op->gets[index];

    if (item->status != SNOW_OK)
        get->failure = item->status;
    get->refused = get->refused || item->refused;
    if (--get->reads_open > 0)
        return;
    if (get->refused) {
        finish_item(op, index, SNOW_INVALID);
        return;
    }
    if (get->failure == SNOW_OK)
        finish_item(op, index, SNOW_OK);
    else
        go_on(op, index);
}

static void on_moved(struct client_moves *moves)
{
    settle(list_entry(moves, struct client_get_op, moves));
}

static const struct client_moves_ops move_ops = {.on_item = on_item, .on_event = on_moved};

/* ---- asking --------------------------------------------------------------------------------- */

static size_t measure(struct client_ask *ask, uint32_t item)
{
    return wire_key_size_min(WIRE_VERSION) + op_of(ask)->items[item].key.size;
}

/* One position names all keys of a message. */
static bool join(struct client_ask *ask, uint32_t before, uint32_t item)
{
    (void)ask;
    return item == before + 1;
}

static const void *build(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         struct arena *arena)
{
    struct client_get_op *op = op_of(ask);
    struct wire_lookup_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->operation = op->base.operation;
    message->position = items[0];
    message->flags = op->flags;
    message->guard_ms = op->base.client->options.guard_ms;
    message->keys = arena_array(arena, count, sizeof(*message->keys));
    if (message->keys == NULL)
        return NULL;
    message->keys_count = count;
    for (uint32_t i = 0; i < count; i++)
        message->keys[i].key = client_key_bytes(&op->items[items[i]].key);
    return message;
}

/* What the item wants of an object of that size.  INVALID: a range that is not in it. */
static enum snow_status range_of(const struct snow_get *item, uint64_t size, uint64_t *wanted)
{
    if (item->offset > size || item->length > size - item->offset)
        return SNOW_INVALID;
    *wanted = item->length == 0 ? size - item->offset : item->length;
    return SNOW_OK;
}

/* What was allocated for an earlier answer: this one may be of another version. */
static void drop_allocated(struct client_get_op *op, uint32_t index)
{
    if (!op->gets[index].allocated)
        return;
    free(op->items[index].to);
    op->items[index].to = NULL;
    op->gets[index].allocated = false;
}

/* Makes sure that what is wanted fits where it is to go; else the item ends. */
static bool make_room(struct client_get_op *op, uint32_t index, uint64_t object_size)
{
    struct get_item *get = &op->gets[index];
    struct snow_get *item = &op->items[index];
    uint64_t size = 0;
    enum snow_status status = range_of(item, object_size, &size);

    item->object_size = object_size;
    item->size = (size_t)size;
    if (status == SNOW_OK && item->to == NULL && item->buffers == NULL && item->room == 0) {
        item->to = malloc(size == 0 ? 1 : (size_t)size);
        get->allocated = item->to != NULL;
        get->buffers.only = (struct snow_buffer){.at = item->to, .size = (size_t)size};
        status = get->allocated ? SNOW_OK : SNOW_NO_MEMORY;
    } else if (status == SNOW_OK && size > item->room) {
        status = SNOW_LIMIT;
    }
    if (status != SNOW_OK)
        finish_item(op, index, status);
    return status == SNOW_OK;
}

/* Looks at the object where it lies, when that is on this host and in one piece.  True: the item
 * has ended. */
static bool view(struct client_get_op *op, uint32_t index, const struct wire_found *found)
{
    struct snow_get *item = &op->items[index];
    enum snow_status status = SNOW_NOT_READY;

    for (uint32_t i = 0; i < found->places_count && status == SNOW_NOT_READY; i++) {
        const struct wire_place *place = &found->places[i];
        struct client_node *node = client_node_find(op->base.client, place->node);

        if (node == NULL || node->near == NULL || place->parts != 1)
            continue;
        status = !op->holds ? SNOW_LIMIT
                            : node->near->transport->ops->view(node->near, place,
                                                               gen_at(place, found->gen),
                                                               &op->views[index]);
    }
    if (status != SNOW_OK && status != SNOW_LIMIT)
        return false; /* it is copied: another copy may serve, or a newer version */
    if (status == SNOW_OK) {
        op->viewed++;
        item->to = (void *)(uintptr_t)op->views[index].at;
        item->size = (size_t)found->size;
        item->object_size = found->size;
        client_count(op->base.client, CLIENT_METRIC_views, 1);
    }
    finish_item(op, index, status);
    return true;
}

static void take_found(struct client_get_op *op, uint32_t index, const struct wire_found *found)
{
    struct get_item *get = &op->gets[index];
    uint16_t replicas;

    if (client_ask_is_sent(&op->lookup, index))
        client_ask_close(&op->lookup, index);
    if (op->given != NULL && found->gen != op->given[index].gen) {
        finish_item(op, index, SNOW_CHANGED);
        return;
    }
    if (!client_places_check(found->places, found->places_count, found->size, &replicas) ||
        found->size > LIMIT_OBJECT_SIZE) {
        client_count(op->base.client, CLIENT_METRIC_bad_places, 1);
        finish_item(op, index, SNOW_INVALID);
        return;
    }
    drop_allocated(op, index);
    if (op->views != NULL && view(op, index, found))
        return;
    if (!make_room(op, index, found->size))
        return;
    get->places = arena_array(&op->base.arena, found->places_count, sizeof(*get->places));
    if (get->places == NULL) {
        finish_item(op, index, SNOW_NO_MEMORY);
        return;
    }
    memcpy(get->places, found->places, found->places_count * sizeof(*get->places));
    get->place_count = found->places_count;
    get->gen = found->gen;
    get->tried = 0;
    get->state = GET_READING;
    go_on(op, index);
}

static void take_absent(struct client_get_op *op, uint32_t index, const struct wire_found *found,
                        enum snow_status status)
{
    struct client *client = op->base.client;
    uint64_t until_ns = op->base.deadline_ns;

    /* A master that has just started will know soon; one that waits for a node that is gone will
     * not: that is waited for once, not by each get. */
    if (status == SNOW_NOT_FOUND) {
        client->unknown_since_ns = 0;
        if (op->count > 1 && (op->flags & WIRE_LOOKUP_UNORDERED) == 0)
            client_depths_note(&client->depths, client_key_bytes(&op->items[index].key), index);
    }
    if (status == SNOW_UNKNOWN && client->unknown_since_ns == 0)
        client->unknown_since_ns = client_now_ns(client);
    if (status == SNOW_UNKNOWN && client->unknown_since_ns + UNKNOWN_NS < until_ns)
        until_ns = client->unknown_since_ns + UNKNOWN_NS;
    if (snow_status_verdict(status) == SNOW_RETRY) {
        if (client_ask_again(&op->lookup, index, status, false, found->hint_ms, until_ns))
            return;
    } else {
        client_ask_close(&op->lookup, index);
    }
    if (status == SNOW_NOT_FOUND && (found->flags & WIRE_FOUND_SUSPECT))
        client_count(client, CLIENT_METRIC_misses_suspect, 1);
    if (status == SNOW_NOT_FOUND && op->gets[index].asked > 0)
        miss(op, index);
    else
        finish_item(op, index, status);
}

static void on_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *message)
{
    struct client_get_op *op = op_of(ask);
    const struct wire_lookup_rep *reply = message;

    op->holds = reply->lease_ms > 0;
    op->leased = op->leased || op->holds;
    for (uint32_t i = 0; i < count && i < reply->items_count; i++) {
        const struct wire_found *found = &reply->items[i];
        enum snow_status status =
            status_is_known(found->status) ? (enum snow_status)found->status : SNOW_INVALID;

        if (!client_ask_is_sent(ask, items[i]))
            continue;
        if (status == SNOW_OK)
            take_found(op, items[i], found);
        else
            take_absent(op, items[i], found, status);
    }
    client_moves_go(&op->moves);
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    finish_item(op_of(ask), item, status);
}

static void on_event(struct client_ask *ask)
{
    settle(op_of(ask));
}

static const struct client_ask_ops lookup_ops = {
    .type = WIRE_lookup,
    .part_items = CLIENT_PART_ITEMS,
    .from_end = true, /* touched from the deepest to the first */
    .on_measure = measure,
    .on_join = join,
    .on_build = build,
    .on_reply = on_reply,
    .on_failed = on_failed,
    .on_event = on_event,
};

/* ---- start ---------------------------------------------------------------------------------- */

static enum snow_status begin(struct client_get_op *op, const struct snow_call *call)
{
    struct client *client = op->base.client;
    struct arena *arena = &op->base.arena;

    op->gets = NULL;
    op->open = 0;
    op->leased = false;
    op->viewed = 0;
    op->flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_TOUCH |
                (op->views != NULL ? WIRE_LOOKUP_HOLD : WIRE_LOOKUP_LEASE);
    if (client->options.guard_ms > 0)
        op->flags |= WIRE_LOOKUP_GUARD;
    if (call->flags & SNOW_CALL_UNORDERED)
        op->flags |= WIRE_LOOKUP_UNORDERED;
    if (op->count > UINT32_MAX / 2)
        return SNOW_INVALID;
    op->gets = arena_array(arena, op->count, sizeof(*op->gets));
    client_moves_init(&op->moves, client, &move_ops, op->base.deadline_ns, arena);
    op->moves.worker = op->worker;
    if (op->gets == NULL || client_ask_init(&op->lookup, client, &lookup_ops, (uint32_t)op->count,
                                            op->base.deadline_ns, arena) != SNOW_OK)
        return SNOW_NO_MEMORY;
    return SNOW_OK;
}

static enum snow_status check_item(const struct snow_get *item, struct client_buffers *buffers)
{
    enum snow_status status =
        client_buffers_set(buffers, item->to, item->room, item->buffers, item->buffer_count);

    if (client_key_check(&item->key) != SNOW_OK || CLIENT_RESERVED(item) != SNOW_OK)
        return SNOW_INVALID;
    return status;
}

static bool uses(const struct client_op *base, const uint8_t *at, size_t size)
{
    const struct client_get_op *op = list_entry(base, struct client_get_op, base);

    for (size_t i = 0; i < op->count && op->gets != NULL; i++) {
        if (op->gets[i].state != GET_DONE && client_buffers_meet(&op->gets[i].buffers, at, size))
            return true;
    }
    return false;
}

void client_get_start(struct client *client, struct client_get_op *op, const struct snow_call *call)
{
    enum snow_status status;

    client_op_begin(client, &op->base, call, on_timer);
    op->base.uses = uses;
    if (call->read_id != NULL)
        *call->read_id = op->base.operation;
    status = begin(op, call);
    for (size_t i = 0; i < op->count; i++) {
        struct snow_get *item = &op->items[i];

        item->size = 0;
        item->object_size = 0;
        item->status = status;
        if (status != SNOW_OK)
            continue;
        item->status = check_item(item, &op->gets[i].buffers);
        if (item->status != SNOW_OK) {
            op->gets[i].state = GET_DONE;
            continue;
        }
        op->open++;
        if (op->given == NULL)
            client_ask_open(&op->lookup, (uint32_t)i);
    }
    for (size_t i = 0; i < op->count && op->given != NULL && status == SNOW_OK; i++) {
        if (op->gets[i].state == GET_ASKING)
            take_found(op, (uint32_t)i, &op->given[i]);
    }
    if (op->open == 0) {
        client_op_hurry(&op->base);
        return;
    }
    client_moves_go(&op->moves);
    client_ask_pump(&op->lookup);
}
