/* Putting: places from the master, bytes to the nodes, word to the master.
 *
 * Problem.  Items of a batch get their places at different times; nodes fail while they are
 *           written, grants end, answers are lost; a key may stand twice in a batch.
 * Idea.     Each item goes its own way; they meet only in messages.  Grants of a reply are written
 *           at once, all copies on all nodes in parallel; what is written is ended at once, so that
 *           nothing waits for the rest of the batch (P6).
 *
 *   ASKING ─grant─► WRITING ─a copy is whole─► ENDING ─put_end─► DONE
 *      ▲               │ none: STALE, lost connection: the same operation, the same grant again
 *      │◄──────────────┤ none: unreachable: given back, a new operation
 *      └───────────────────────────────────────── GONE: the attempt has ended: a new operation
 * Invariants.
 *   P1  open = items that are not DONE; twins (same key as one that is sent) are not.
 *   P2  A repeated question says the same {operation, position of the item}: the master gives the
 *       same grant, not a second one.
 *   P3  A grant that will not be ended is given back.
 * Threads.  The loop's.
 */
#include "base/hash.h"
#include "client/buffers.h"
#include "client/inside.h"

#define END_BYTES (32 * MIB) /* written: put_end leaves without waiting for more */

enum put_state { PUT_ASKING, PUT_WRITING, PUT_ENDING, PUT_DONE };

/* A part of a copy on its way. */
struct put_write {
    struct transport_item item;
    uint32_t index; /* of the item */
};

struct put_item {
    struct client_buffers buffers;
    uint64_t operation;
    uint64_t gen;  /* of the grant; 0: none */
    uint32_t twin; /* the item with the same key that is sent: itself, mostly */
    uint32_t writes_open;
    uint32_t end_tries; /* put_ends sent */
    uint16_t replicas;  /* bit r: the grant has replica r */
    uint16_t failed;    /* bit r: a part of it was not written */
    uint8_t state;      /* enum put_state */
    bool again;         /* a failed copy was refused as out of date, or its connection was lost */
    enum snow_status failure;
};

static struct client_put_op *op_of_start(struct client_ask *ask)
{
    return list_entry(ask, struct client_put_op, start);
}

static struct client_put_op *op_of_end(struct client_ask *ask)
{
    return list_entry(ask, struct client_put_op, end);
}

/* ---- results -------------------------------------------------------------------------------- */

static void count_result(struct client *client, const struct snow_put *item)
{
    if (item->status == SNOW_EXISTS)
        client_count(client, CLIENT_METRIC_puts_existed, 1);
    else if (snow_status_verdict(item->status) != SNOW_DONE)
        client_count(client, CLIENT_METRIC_puts_failed, 1);
    else
        client_count(client, CLIENT_METRIC_puts, 1);
    if (item->status == SNOW_OK)
        client_count(client, CLIENT_METRIC_put_bytes, item->size);
    client_count(client, CLIENT_METRIC_puts_short, item->shortfall > 0);
}

static void end_item(struct client_put_op *op, uint32_t index, enum snow_status status)
{
    ASSERT(op->puts[index].state != PUT_DONE);
    op->puts[index].state = PUT_DONE;
    op->items[index].status = status;
    op->open--;
    count_result(op->base.client, &op->items[index]);
}

static void finish_item(struct client_put_op *op, uint32_t index, enum snow_status status)
{
    end_item(op, index, status);
    if (op->on_item != NULL)
        op->on_item(op, index);
}

/* The grant is given back at the end of this event. */
static void give_back(struct client_put_op *op, uint32_t index)
{
    struct put_item *put = &op->puts[index];

    if (put->gen == 0)
        return;
    op->aborts[op->abort_count++] =
        (struct wire_key_gen){.key = client_key_bytes(&op->items[index].key), .gen = put->gen};
    put->gen = 0;
}

static void send_aborts(struct client_put_op *op)
{
    client_abort(op->base.client, op->aborts, op->abort_count);
    op->abort_count = 0;
}

static void note_reason(struct client_put_op *op, uint32_t index, struct bytes reason)
{
    size_t size = reason.size < sizeof(op->reason) ? reason.size : sizeof(op->reason) - 1;

    if (index > op->reason_of)
        return;
    op->reason_of = index;
    if (size > 0)
        memcpy(op->reason, reason.at, size);
    op->reason[size] = 0;
}

/* Ends all that is under way. */
static void stop(struct client_put_op *op)
{
    client_ask_cancel(&op->start);
    client_ask_cancel(&op->end);
    client_moves_cancel(&op->moves);
    if (op->aborts != NULL)
        send_aborts(op);
}

static void copy_to_twins(struct client_put_op *op)
{
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t twin = op->puts[i].twin;

        if (twin == i)
            continue;
        op->items[i].status = op->items[twin].status;
        op->items[i].shortfall = op->items[twin].shortfall;
        op->items[i].elsewhere = op->items[twin].elsewhere;
    }
}

/* Items end in any order, and some without a reason. */
static void drop_reason_of_later(struct client_put_op *op)
{
    for (uint32_t i = 0; i < op->count && i < op->reason_of; i++) {
        if (snow_status_verdict(op->items[i].status) != SNOW_DONE)
            op->reason[0] = 0;
    }
}

static void finish(struct client_put_op *op)
{
    stop(op);
    if (op->puts != NULL)
        copy_to_twins(op);
    drop_reason_of_later(op);
    client_op_end(&op->base);
    op->on_done(op);
}

/* The end of an event. */
static void settle(struct client_put_op *op)
{
    if (op->open == 0) {
        finish(op);
        return;
    }
    if (op->abort_count > 0)
        send_aborts(op);
    op->anew = 0;
    op->written_bytes = 0;
    client_ask_pump(&op->end);
    client_ask_pump(&op->start);
}

/* Every item that has no result gets this one. */
static void finish_all(struct client_put_op *op, enum snow_status status)
{
    for (uint32_t i = 0; i < op->count && op->open > 0; i++) {
        if (op->puts[i].state == PUT_DONE || op->puts[i].twin != i)
            continue;
        give_back(op, i);
        end_item(op, i, status);
    }
}

static void on_timer(struct env_timer *timer)
{
    struct client_put_op *op = list_entry(timer, struct client_put_op, base.timer);

    if (op->open > 0)
        finish_all(op, client_op_late_status(&op->base));
    finish(op);
}

void client_put_cancel(struct client_put_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->open > 0)
        finish_all(op, SNOW_CANCELLED);
    stop(op);
    if (op->puts != NULL)
        copy_to_twins(op);
    client_op_end(&op->base);
}

/* ---- asking for places ---------------------------------------------------------------------- */

static size_t measure_start(struct client_ask *ask, uint32_t item)
{
    const struct client_put_op *op = op_of_start(ask);
    const struct snow_put *put = &op->items[item];

    return wire_put_item_size_min(WIRE_VERSION) + put->key.size +
           client_member_size(client_member(op->items, op->derived, item));
}

/* One position and one operation name all items of a message. */
static bool join_start(struct client_ask *ask, uint32_t before, uint32_t item)
{
    const struct put_item *puts = op_of_start(ask)->puts;

    return item == before + 1 && puts[item].operation == puts[before].operation;
}

/* The caller's; behind the read that it continues, the master knows; else what a look-up told. */
static uint32_t depth_of(const struct client *client, const struct snow_put *item,
                         uint64_t continues)
{
    if (item->depth != SNOW_DEPTH_UNKNOWN || continues != 0)
        return item->depth;
    return client_depths_find(&client->depths, client_key_bytes(&item->key));
}

struct wire_put_item client_put_wire(const struct client *client, const struct snow_put *item,
                                     uint64_t continues)
{
    return (struct wire_put_item){.key = client_key_bytes(&item->key),
                                  .size = item->size,
                                  .depth = depth_of(client, item, continues),
                                  .replicas = item->replicas == 0 ? 1 : item->replicas,
                                  .pin = item->pin,
                                  .pin_ms = item->pin_ms,
                                  .flags = (item->replace ? WIRE_PUT_REPLACE : 0) |
                                           (item->done ? WIRE_PUT_DONE : 0) |
                                           (item->expires_after_ms > 0 ? WIRE_PUT_EXPIRES : 0),
                                  .expires_ms = item->expires_after_ms,
                                  .priority = item->priority};
}

void client_put_place(const struct client *client, const char *segment,
                      struct wire_put_start_req *message)
{
    message->segment = bytes_of_string(segment);
    if (!client->options.local_first)
        return;
    message->host = bytes_of_string(env_host(client->env));
    message->own_node = client->own_node;
}

static const void *build_start(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct client_put_op *op = op_of_start(ask);
    struct wire_put_start_req *message = arena_take(arena, sizeof(*message));
    uint64_t now_ns = client_now_ns(op->base.client);

    if (message == NULL)
        return NULL;
    message->operation = op->puts[items[0]].operation;
    message->continues = op->continues;
    message->position = items[0];
    if (now_ns < op->wait_until_ns)
        message->wait_ms = (uint32_t)((op->wait_until_ns - now_ns) / NS_PER_MS);
    message->wait_writer = (op->flags & SNOW_CALL_NO_WAIT_WRITER) == 0;
    client_put_place(op->base.client, op->segment, message);
    message->items = arena_array(arena, count, sizeof(*message->items));
    if (message->items == NULL)
        return NULL;
    message->items_count = count;
    for (uint32_t i = 0; i < count; i++)
        message->items[i] = client_put_wire(op->base.client, &op->items[items[i]], op->continues);
    return client_members_build(message, op->items, op->derived, items, count, arena) ? message
                                                                                      : NULL;
}

/* Asks once more: for the same grant, or (anew) for another. */
static void ask_again(struct client_put_op *op, uint32_t index, enum snow_status status, bool anew)
{
    struct put_item *put = &op->puts[index];

    put->state = PUT_ASKING;
    if (anew) {
        give_back(op, index);
        if (op->anew == 0)
            op->anew = client_next_operation(op->base.client);
        put->operation = op->anew;
        put->end_tries = 0;
    }
    client_count(op->base.client,
                 anew ? CLIENT_METRIC_writes_elsewhere : CLIENT_METRIC_writes_again, 1);
    if (client_ask_again(&op->start, index, anew ? SNOW_UNREACHABLE : SNOW_STALE, true, 0,
                         op->base.deadline_ns))
        return;
    give_back(op, index);
    finish_item(op, index, status);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void settle_writes(struct client_put_op *op, uint32_t index)
{
    struct put_item *put = &op->puts[index];
    enum snow_status failure = put->failure;

    if ((put->replicas & ~put->failed) != 0) {
        put->state = PUT_ENDING;
        client_ask_open(&op->end, index);
        op->written_bytes += op->items[index].size;
        return;
    }
    if (put->again) {
        ask_again(op, index, failure == SNOW_CLOSED ? SNOW_UNREACHABLE : failure, false);
    } else if (failure == SNOW_UNREACHABLE || failure == SNOW_CORRUPT) {
        ask_again(op, index, failure, true);
    } else {
        give_back(op, index);
        finish_item(op, index, failure);
    }
}

static void on_item(struct client_moves *moves, struct transport_item *item)
{
    struct client_put_op *op = list_entry(moves, struct client_put_op, moves);
    struct put_write *write = list_entry(item, struct put_write, item);
    struct put_item *put = &op->puts[write->index];

    if (item->status != SNOW_OK) {
        put->failed = (uint16_t)(put->failed | 1u << item->place->replica);
        put->failure = item->status;
        /* GONE: the master closed the attempt while it was written. */
        put->again = put->again || snow_status_verdict(item->status) == SNOW_RETRY ||
                     item->status == SNOW_CLOSED || item->status == SNOW_GONE;
    }
    if (--put->writes_open > 0)
        return;
    settle_writes(op, write->index);
    if (op->written_bytes < END_BYTES)
        return;
    op->written_bytes = 0;
    client_ask_pump(&op->end);
}

static void on_moved(struct client_moves *moves)
{
    settle(list_entry(moves, struct client_put_op, moves));
}

uint16_t client_put_slot_flags(const struct snow_put *item, const struct wire_put_grant *grant)
{
    /* What the master says; one of version 2 leaves it to be guessed. */
    return (uint16_t)(grant->flags | (item->replace ? WIRE_SLOT_REPLACED : 0u) |
                      (item->pin == SNOW_PIN_SOFT   ? WIRE_SLOT_SOFT_PIN
                       : item->pin == SNOW_PIN_HARD ? WIRE_SLOT_HARD_PIN
                                                    : 0u));
}

bool client_extra_copy(struct arena *arena, struct bytes extra, struct bytes *copy)
{
    uint8_t *at = extra.size == 0 ? NULL : arena_array(arena, extra.size, 1);

    if (extra.size > 0 && at == NULL)
        return false;
    if (extra.size > 0)
        memcpy(at, extra.at, extra.size);
    *copy = bytes_of(at, extra.size);
    return true;
}

/* Adds the writes of a grant to those that start at the end of the reply. */
static void begin_writes(struct client_put_op *op, uint32_t index,
                         const struct wire_put_grant *grant)
{
    struct snow_put *item = &op->items[index];
    struct put_item *put = &op->puts[index];
    uint32_t count = grant->places_count;
    struct wire_place *places = arena_array(&op->base.arena, count, sizeof(*places));
    struct put_write *writes = arena_array(&op->base.arena, count, sizeof(*writes));

    struct bytes extra = {0}; /* outlives the reply */

    put->failure = SNOW_NO_MEMORY;
    if (!client_extra_copy(&op->base.arena, grant->extra, &extra))
        places = NULL;
    for (uint32_t i = 0; i < count && places != NULL && writes != NULL; i++) {
        places[i] = grant->places[i];
        writes[i].index = index;
        writes[i].item =
            (struct transport_item){.place = &places[i],
                                    .gen = put->gen,
                                    .size = places[i].length,
                                    .key = client_key_bytes(&item->key),
                                    .extra = places[i].part == 0 ? extra : bytes_of(NULL, 0),
                                    .object_size = item->size,
                                    .flags = client_put_slot_flags(item, grant)};
        if (client_buffers_cut(&put->buffers, places[i].object_offset, &op->base.arena,
                               &writes[i].item) == SNOW_OK &&
            client_moves_add(&op->moves, &writes[i].item) == SNOW_OK)
            put->writes_open++;
        else
            put->failed = (uint16_t)(put->failed | 1u << places[i].replica);
    }
    if (put->writes_open > 0)
        return;
    put->failed = put->replicas;
    settle_writes(op, index);
}

static void take_grant(struct client_put_op *op, uint32_t index, const struct wire_put_grant *grant)
{
    struct put_item *put = &op->puts[index];

    client_ask_close(&op->start, index);
    if (put->gen != 0 && put->gen != grant->gen)
        give_back(op, index); /* of an attempt that the master has given up, most likely */
    put->gen = grant->gen;
    put->state = PUT_WRITING;
    put->failed = 0;
    put->again = false;
    put->writes_open = 0;
    if (!client_places_check(grant->places, grant->places_count, op->items[index].size,
                             &put->replicas)) {
        client_count(op->base.client, CLIENT_METRIC_bad_places, 1);
        give_back(op, index);
        finish_item(op, index, SNOW_INVALID);
        return;
    }
    begin_writes(op, index, grant);
}

static void take_refusal(struct client_put_op *op, uint32_t index,
                         const struct wire_put_grant *grant, enum snow_status status)
{
    bool waits = snow_status_verdict(status) == SNOW_RETRY &&
                 !(status == SNOW_IN_PROGRESS && (op->flags & SNOW_CALL_NO_WAIT_WRITER));

    if (waits &&
        client_ask_again(&op->start, index, status, false, grant->hint_ms, op->wait_until_ns))
        return;
    if (!waits)
        client_ask_close(&op->start, index);
    if (snow_status_verdict(status) != SNOW_DONE)
        note_reason(op, index, grant->reason);
    op->items[index].elsewhere = client_put_elsewhere(grant);
    give_back(op, index); /* of an earlier attempt */
    finish_item(op, index, status);
}

static void on_start_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                           const void *message)
{
    struct client_put_op *op = op_of_start(ask);
    const struct wire_put_start_rep *reply = message;

    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_put_grant *grant = &reply->items[i];

        if (grant->index >= count || !client_ask_is_sent(ask, items[grant->index]))
            continue;
        if (grant->status == SNOW_OK)
            take_grant(op, items[grant->index], grant);
        else
            take_refusal(op, items[grant->index], grant,
                         status_is_known(grant->status) ? (enum snow_status)grant->status
                                                        : SNOW_INVALID);
    }
    client_moves_go(&op->moves);
}

static void on_start_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    struct client_put_op *op = op_of_start(ask);

    give_back(op, item);
    finish_item(op, item, status);
}

static void on_start_event(struct client_ask *ask)
{
    settle(op_of_start(ask));
}

static const struct client_ask_ops start_ops = {
    .type = WIRE_put_start,
    .part_items = CLIENT_PART_ITEMS,
    .on_measure = measure_start,
    .on_join = join_start,
    .on_build = build_start,
    .on_reply = on_start_reply,
    .on_failed = on_start_failed,
    .on_event = on_start_event,
};

/* ---- telling that they are there ------------------------------------------------------------ */

static size_t measure_end(struct client_ask *ask, uint32_t item)
{
    return wire_written_size_min(WIRE_VERSION) + op_of_end(ask)->items[item].key.size;
}

static bool join_end(struct client_ask *ask, uint32_t before, uint32_t item)
{
    const struct put_item *puts = op_of_end(ask)->puts;

    return puts[item].operation == puts[before].operation;
}

static const void *build_end(struct client_ask *ask, const uint32_t *items, uint32_t count,
                             struct arena *arena)
{
    struct client_put_op *op = op_of_end(ask);
    struct wire_put_end_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->operation = op->puts[items[0]].operation;
    message->continues = op->continues;
    message->items = arena_array(arena, count, sizeof(*message->items));
    if (message->items == NULL)
        return NULL;
    message->items_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct put_item *put = &op->puts[items[i]];

        put->end_tries++;
        message->items[i] =
            (struct wire_written){.key = client_key_bytes(&op->items[items[i]].key),
                                  .gen = put->gen,
                                  .replicas = (uint16_t)(put->replicas & ~put->failed)};
    }
    return message;
}

static void take_end(struct client_put_op *op, uint32_t index,
                     const struct wire_item_status *answer)
{
    struct put_item *put = &op->puts[index];
    enum snow_status status =
        status_is_known(answer->status) ? (enum snow_status)answer->status : SNOW_INVALID;

    if (snow_status_verdict(status) == SNOW_RETRY &&
        client_ask_again(&op->end, index, status, false, 0, op->base.deadline_ns))
        return;
    if (snow_status_verdict(status) != SNOW_RETRY)
        client_ask_close(&op->end, index);
    if (snow_status_verdict(status) == SNOW_DONE) {
        put->gen = 0;
        op->items[index].shortfall = answer->shortfall;
    } else if (status == SNOW_GONE && !(op->items[index].replace && put->end_tries > 1)) {
        /* A value that replaces is not written twice: the first put_end may have had its effect
         * and another writer have replaced it since. */
        put->gen = 0;
        ask_again(op, index, status, true);
        return;
    }
    give_back(op, index);
    finish_item(op, index, status);
}

static void on_end_reply(struct client_ask *ask, const uint32_t *items, uint32_t count,
                         const void *message)
{
    const struct wire_put_end_rep *reply = message;

    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_item_status *answer = &reply->items[i];

        if (answer->index < count && client_ask_is_sent(ask, items[answer->index]))
            take_end(op_of_end(ask), items[answer->index], answer);
    }
}

static void on_end_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    struct client_put_op *op = op_of_end(ask);

    give_back(op, item);
    finish_item(op, item, status);
}

static void on_end_event(struct client_ask *ask)
{
    settle(op_of_end(ask));
}

static const struct client_ask_ops end_ops = {
    .type = WIRE_put_end,
    .on_measure = measure_end,
    .on_join = join_end,
    .on_build = build_end,
    .on_reply = on_end_reply,
    .on_failed = on_end_failed,
    .on_event = on_end_event,
};

static const struct client_moves_ops move_ops = {.write = true,
                                                 .on_item = on_item,
                                                 .on_event = on_moved};

/* ---- start ---------------------------------------------------------------------------------- */

enum snow_status client_put_check(const struct snow_put *item, struct client_buffers *buffers)
{
    enum snow_status status =
        client_buffers_set(buffers, item->from, item->size, item->buffers, item->buffer_count);

    if (client_key_check(&item->key) != SNOW_OK || CLIENT_RESERVED(item) != SNOW_OK ||
        item->replicas > LIMIT_REPLICAS || item->pin > SNOW_PIN_HARD ||
        item->priority > SNOW_PRIORITY_MAX || item->done > 1 || item->spare != 0 ||
        client_member_check(item->member) != SNOW_OK)
        return SNOW_INVALID;
    return status == SNOW_OK && item->size > LIMIT_OBJECT_SIZE ? SNOW_LIMIT : status;
}

/* Of items with the same key one is sent, and all get its result: the last that replaces, since
 * that is what a reader must find afterwards; without one the first. */
static bool find_twins(struct client_put_op *op)
{
    uint32_t count = (uint32_t)op->count;
    uint64_t seed = rng_next(&op->base.client->rng);
    uint32_t capacity = 4;

    while (capacity < 2 * (uint64_t)count)
        capacity *= 2;
    uint32_t *table = arena_array(&op->base.arena, capacity, sizeof(*table)); /* index + 1 */

    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct bytes key = client_key_bytes(&op->items[i].key);

        if (op->puts[i].state == PUT_DONE)
            continue;
        uint32_t at = (uint32_t)hash_seeded(key, seed) & (capacity - 1);

        while (table[at] != 0 && !bytes_equal(key, client_key_bytes(&op->items[table[at] - 1].key)))
            at = (at + 1) & (capacity - 1);
        if (table[at] == 0 || op->items[i].replace)
            table[at] = i + 1;
        op->puts[i].twin = at; /* until all are known */
    }
    for (uint32_t i = 0; i < count; i++) {
        if (op->puts[i].state != PUT_DONE)
            op->puts[i].twin = table[op->puts[i].twin] - 1;
    }
    return true;
}

uint64_t client_put_wait_until(struct client *client, const struct snow_call *call,
                               uint64_t deadline_ns)
{
    uint64_t now_ns = client_now_ns(client);
    uint64_t time_ns = deadline_ns - now_ns;
    uint64_t wait_ns = client->options.wait_ms * NS_PER_MS;

    if (call->wait_ms == UINT32_MAX)
        wait_ns = 0;
    else if (call->wait_ms != 0)
        wait_ns = call->wait_ms * NS_PER_MS;
    else if (wait_ns == 0)
        wait_ns = time_ns / 2;
    if (wait_ns > time_ns - time_ns / 8)
        wait_ns = time_ns - time_ns / 8; /* the answer, and the bytes, take time too */
    return now_ns + wait_ns;
}

static enum snow_status prepare(struct client_put_op *op, const struct snow_call *call)
{
    struct arena *arena = &op->base.arena;
    size_t name_size = call->segment == NULL ? 0 : strlen(call->segment);

    op->puts = NULL;
    op->derived = NULL;
    op->aborts = NULL;
    op->abort_count = 0;
    op->anew = 0;
    op->written_bytes = 0;
    op->open = 0;
    op->reason[0] = 0;
    op->reason_of = UINT32_MAX;
    op->continues = call->continues;
    op->flags = call->flags;
    if (op->count > UINT32_MAX / 2 || name_size > LIMIT_NAME_SIZE)
        return SNOW_INVALID;
    memcpy(op->segment, call->segment == NULL ? "" : call->segment, name_size);
    op->segment[name_size] = 0;
    op->wait_until_ns = client_put_wait_until(op->base.client, call, op->base.deadline_ns);
    op->puts = arena_array(arena, op->count, sizeof(*op->puts));
    op->aborts = arena_array(arena, op->count, sizeof(*op->aborts));
    client_moves_init(&op->moves, op->base.client, &move_ops, op->base.deadline_ns, arena);
    op->moves.worker = op->worker;
    if (op->puts == NULL || op->aborts == NULL ||
        client_ask_init(&op->start, op->base.client, &start_ops, (uint32_t)op->count,
                        op->base.deadline_ns, arena) != SNOW_OK ||
        client_ask_init(&op->end, op->base.client, &end_ops, (uint32_t)op->count,
                        op->base.deadline_ns, arena) != SNOW_OK)
        return SNOW_NO_MEMORY;
    return client_members_derive(op->base.client, op->items, op->count, arena, &op->derived);
}

static enum snow_status begin(struct client_put_op *op, const struct snow_call *call)
{
    enum snow_status status = prepare(op, call);

    for (uint32_t i = 0; status == SNOW_OK && i < op->count; i++) {
        op->puts[i].operation = op->base.operation;
        op->puts[i].twin = i;
        op->items[i].shortfall = 0;
        op->items[i].elsewhere = 0;
        op->items[i].status = client_put_check(&op->items[i], &op->puts[i].buffers);
        if (op->items[i].status != SNOW_OK)
            op->puts[i].state = PUT_DONE;
    }
    if (status == SNOW_OK && op->count > 1 && !find_twins(op))
        status = SNOW_NO_MEMORY;
    for (uint32_t i = 0; status == SNOW_OK && i < op->count; i++) {
        if (op->puts[i].state == PUT_DONE || op->puts[i].twin != i)
            continue;
        op->open++;
        client_ask_open(&op->start, i);
    }
    return status;
}

static bool uses(const struct client_op *base, const uint8_t *at, size_t size)
{
    const struct client_put_op *op = list_entry(base, struct client_put_op, base);

    for (size_t i = 0; i < op->count && op->puts != NULL; i++) {
        if (op->puts[i].state != PUT_DONE && client_buffers_meet(&op->puts[i].buffers, at, size))
            return true;
    }
    return false;
}

void client_put_start(struct client *client, struct client_put_op *op, const struct snow_call *call)
{
    enum snow_status status;

    client_op_begin(client, &op->base, call, on_timer);
    op->base.uses = uses;
    status = begin(op, call);
    if (status != SNOW_OK) {
        op->puts = NULL;
        for (size_t i = 0; i < op->count; i++) {
            op->items[i].status = status;
            op->items[i].shortfall = 0;
            op->items[i].elsewhere = 0;
        }
    }
    if (op->open == 0)
        client_op_hurry(&op->base);
    else
        client_ask_pump(&op->start);
}
