/* Writers: puts that span calls.
 *
 * Problem.  The bytes of a value come layer by layer, over seconds; until the last one nobody may
 *           see it, and what is missing must never show.
 * Idea.     The grant of an ordinary put, kept: ranges are written to all its copies as they come,
 *           in any order (write.c); put_end tells the master when every byte was written once.
 * Threads.  The loop's.
 */
#include "client/writer.h"

#include <stdio.h>
#include <stdlib.h>

#define HOLD_MS 60000u

enum snow_status client_writer_state(const struct client_writer *writer)
{
    if (writer->ended)
        return SNOW_GONE;
    return (writer->replicas & ~writer->failed) != 0 ? SNOW_OK : writer->failure;
}

void client_writer_close(struct client_writer *writer)
{
    struct wire_key_gen item = {.key = client_writer_key(writer), .gen = writer->gen};

    ASSERT(writer->under_way == 0);
    if (!writer->ended)
        client_abort(writer->client, &item, 1);
    ranges_deinit(&writer->claimed);
    free(writer->places);
    free(writer->written);
    free(writer->landed);
    free(writer);
}

/* ---- one question --------------------------------------------------------------------------- */

static struct client_writer_op *op_of(struct client_ask *ask)
{
    return list_entry(ask, struct client_writer_op, ask);
}

static struct client_writer_op *op_of_renewal(struct client_ask *ask)
{
    return list_entry(ask, struct client_writer_op, renew);
}

static void note_reason(struct client_writer_op *op, struct bytes reason)
{
    size_t size = reason.size < sizeof(op->reason) ? reason.size : sizeof(op->reason) - 1;

    if (size > 0)
        memcpy(op->reason, reason.at, size);
    op->reason[size] = 0;
}

/* NOT_READY: it has no result yet. */
static bool is_open(const struct client_writer_op *op)
{
    return op->status == SNOW_NOT_READY;
}

static void stop(struct client_writer_op *op)
{
    client_ask_cancel(&op->ask);
    client_ask_cancel(&op->renew);
    client_op_end(&op->base);
    if (op->item == NULL || op->writer == NULL || op->status == SNOW_OK)
        return;
    client_writer_close(op->writer); /* an opening that came half way */
    op->writer = NULL;
}

static void settle(struct client_writer_op *op)
{
    if (is_open(op))
        return;
    stop(op);
    op->on_done(op);
}

static void on_event(struct client_ask *ask)
{
    settle(op_of(ask));
}

static void on_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    (void)item;
    op_of(ask)->status = status;
}

static void on_timer(struct env_timer *timer)
{
    struct client_writer_op *op = list_entry(timer, struct client_writer_op, base.timer);

    if (is_open(op))
        op->status = client_op_late_status(&op->base);
    settle(op);
}

void client_writer_op_cancel(struct client_writer_op *op)
{
    if (op->base.client == NULL)
        return;
    if (is_open(op))
        op->status = SNOW_CANCELLED;
    stop(op);
}

/* Asks by one of the operation's two, or ends it soon with a status that is not OK. */
static void begin(struct client_writer_op *op, struct client_ask *ask,
                  const struct client_ask_ops *ops, enum snow_status status)
{
    if (status == SNOW_OK)
        status =
            client_ask_init(ask, op->base.client, ops, 1, op->base.deadline_ns, &op->base.arena);
    op->status = status == SNOW_OK ? SNOW_NOT_READY : status;
    if (status != SNOW_OK) {
        client_op_hurry(&op->base);
        return;
    }
    client_ask_open(ask, 0);
    client_ask_pump(ask);
}

static void op_init(struct client *client, struct client_writer_op *op,
                    const struct snow_call *call)
{
    client_op_begin(client, &op->base, call, on_timer);
    op->ask.ops = NULL;
    op->renew.ops = NULL;
    op->item = NULL;
    op->shortfall = 0;
    op->elsewhere = 0;
    op->reason[0] = 0;
    op->flags = call->flags;
    op->continues = call->continues;
}

const struct wire_item_status *client_writer_answer(struct client_ask *ask,
                                                    const struct wire_put_end_rep *reply)
{
    for (uint32_t i = 0; i < reply->items_count; i++) {
        if (reply->items[i].index == 0 && client_ask_is_sent(ask, 0))
            return &reply->items[i];
    }
    return NULL;
}

static enum snow_status known(int32_t status)
{
    return status_is_known(status) ? (enum snow_status)status : SNOW_INVALID;
}

enum snow_status client_writer_settle(struct client_ask *ask, int32_t code, uint32_t hint_ms,
                                      uint64_t until_ns)
{
    enum snow_status status = known(code);

    if (snow_status_verdict(status) != SNOW_RETRY)
        client_ask_close(ask, 0);
    else if (client_ask_again(ask, 0, status, false, hint_ms, until_ns))
        return SNOW_NOT_READY;
    return status;
}

/* ---- renewing ------------------------------------------------------------------------------- */

const void *client_writer_build_renewal(const struct client_writer *writer, uint32_t hold_ms,
                                        struct arena *arena)
{
    struct wire_put_renew_req *message = arena_take(arena, sizeof(*message));

    if (message == NULL)
        return NULL;
    message->for_ms = hold_ms;
    message->items_count = 1;
    message->items = arena_take(arena, sizeof(*message->items));
    if (message->items == NULL)
        return NULL;
    message->items[0] = (struct wire_key_gen){.key = client_writer_key(writer), .gen = writer->gen};
    return message;
}

void client_writer_take_renewal(struct client_writer *writer, uint32_t hold_ms,
                                enum snow_status status)
{
    if (status == SNOW_OK) {
        writer->hold_ms = hold_ms;
        writer->renewed_ns = client_now_ns(writer->client);
    } else if (status == SNOW_GONE) {
        writer->ended = true;
    }
}

static size_t measure_renewal(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return wire_key_gen_size_min(WIRE_VERSION) + op_of_renewal(ask)->writer->key_size;
}

static const void *build_renew(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    (void)items;
    (void)count;
    return client_writer_build_renewal(op_of_renewal(ask)->writer, op_of_renewal(ask)->hold_ms,
                                       arena);
}

static void on_renewed(struct client_ask *ask, const uint32_t *items, uint32_t count,
                       const void *reply)
{
    struct client_writer_op *op = op_of_renewal(ask);
    const struct wire_item_status *answer = client_writer_answer(ask, reply);

    (void)items;
    (void)count;
    if (answer == NULL)
        return;
    op->status = client_writer_settle(ask, answer->status, 0, op->base.deadline_ns);
    client_writer_take_renewal(op->writer, op->hold_ms, op->status);
}

static void on_renewal_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    (void)item;
    op_of_renewal(ask)->status = status;
}

static void on_renewal_event(struct client_ask *ask)
{
    settle(op_of_renewal(ask));
}

static const struct client_ask_ops renew_ops = {.type = WIRE_put_renew,
                                                .on_measure = measure_renewal,
                                                .on_build = build_renew,
                                                .on_reply = on_renewed,
                                                .on_failed = on_renewal_failed,
                                                .on_event = on_renewal_event};

void client_writer_renew_start(struct client *client, struct client_writer_op *op,
                               const struct snow_call *call)
{
    op_init(client, op, call);
    if (op->hold_ms == 0)
        op->hold_ms = HOLD_MS;
    begin(op, &op->renew, &renew_ops, client_writer_state(op->writer));
}

/* ---- opening -------------------------------------------------------------------------------- */

static size_t measure_start(struct client_ask *ask, uint32_t item)
{
    const struct client_writer_op *op = op_of(ask);

    return wire_put_item_size_min(WIRE_VERSION) + op->item->key.size +
           client_member_size(client_member(op->item, op->derived, item));
}

static const void *build_start(struct client_ask *ask, const uint32_t *items, uint32_t count,
                               struct arena *arena)
{
    struct client_writer_op *op = op_of(ask);
    struct wire_put_start_req *message = arena_take(arena, sizeof(*message));
    uint64_t now_ns = client_now_ns(op->base.client);

    (void)count;
    if (message == NULL)
        return NULL;
    message->operation = op->base.operation;
    message->continues = op->continues;
    if (now_ns < op->wait_until_ns)
        message->wait_ms = (uint32_t)((op->wait_until_ns - now_ns) / NS_PER_MS);
    message->wait_writer = (op->flags & SNOW_CALL_NO_WAIT_WRITER) == 0;
    client_put_place(op->base.client, op->segment, message);
    message->items = arena_take(arena, sizeof(*message->items));
    if (message->items == NULL)
        return NULL;
    message->items_count = 1;
    message->items[0] = client_put_wire(op->base.client, op->item, op->continues);
    return client_members_build(message, op->item, op->derived, items, 1, arena) ? message : NULL;
}

/* NULL: out of memory. */
static struct client_writer *writer_create(struct client_writer_op *op,
                                           const struct wire_put_grant *grant)
{
    const struct snow_put *item = op->item;
    struct client_writer *writer = calloc(1, sizeof(*writer) + item->key.size + grant->extra.size);

    if (writer == NULL)
        return NULL;
    writer->client = op->base.client;
    writer->operation = op->base.operation;
    writer->gen = grant->gen;
    writer->size = item->size;
    writer->place_count = grant->places_count;
    writer->flags = client_put_slot_flags(item, grant);
    writer->hold_ms = op->hold_ms;
    writer->key_size = item->key.size;
    memcpy(writer->key, item->key.at, item->key.size);
    writer->extra_size = grant->extra.size;
    if (grant->extra.size > 0)
        memcpy(writer->key + writer->key_size, grant->extra.at, grant->extra.size);
    ranges_init(&writer->claimed, LIMIT_WRITE_RANGES);
    writer->places = calloc(writer->place_count, sizeof(*writer->places));
    writer->written = calloc(writer->place_count, sizeof(*writer->written));
    writer->landed = calloc(writer->place_count, sizeof(*writer->landed));
    if (writer->places == NULL || writer->written == NULL || writer->landed == NULL) {
        writer->ended = true; /* the caller gives the grant back */
        client_writer_close(writer);
        return NULL;
    }
    memcpy(writer->places, grant->places, writer->place_count * sizeof(*writer->places));
    return writer;
}

static void take_grant(struct client_writer_op *op, const struct wire_put_grant *grant)
{
    struct client *client = op->base.client;
    struct wire_key_gen given = {.key = client_key_bytes(&op->item->key), .gen = grant->gen};
    uint16_t replicas;
    enum snow_status status = SNOW_NO_MEMORY;

    if (!client_places_check(grant->places, grant->places_count, op->item->size, &replicas)) {
        client_count(client, CLIENT_METRIC_bad_places, 1);
        status = SNOW_INVALID;
    } else {
        op->writer = writer_create(op, grant);
    }
    if (op->writer == NULL) {
        client_abort(client, &given, 1);
        op->status = status;
        return;
    }
    op->writer->replicas = replicas;
    begin(op, &op->renew, &renew_ops, SNOW_OK); /* the grant is for this call only */
}

static void on_started(struct client_ask *ask, const uint32_t *items, uint32_t count,
                       const void *message)
{
    struct client_writer_op *op = op_of(ask);
    const struct wire_put_start_rep *reply = message;

    (void)items;
    (void)count;
    for (uint32_t i = 0; i < reply->items_count; i++) {
        const struct wire_put_grant *grant = &reply->items[i];
        enum snow_status status = known(grant->status);

        if (grant->index != 0 || !client_ask_is_sent(ask, 0))
            continue;
        if (status == SNOW_OK) {
            client_ask_close(ask, 0);
            take_grant(op, grant);
            return;
        }
        note_reason(op, grant->reason);
        op->elsewhere = client_put_elsewhere(grant);
        if (status == SNOW_IN_PROGRESS && (op->flags & SNOW_CALL_NO_WAIT_WRITER))
            client_ask_close(ask, 0);
        else
            status = client_writer_settle(ask, grant->status, grant->hint_ms, op->wait_until_ns);
        op->status = status;
    }
}

static const struct client_ask_ops start_ops = {.type = WIRE_put_start,
                                                .on_measure = measure_start,
                                                .on_build = build_start,
                                                .on_reply = on_started,
                                                .on_failed = on_failed,
                                                .on_event = on_event};

static enum snow_status check_opening(struct client_writer_op *op, const struct snow_put *item,
                                      const struct snow_call *call)
{
    struct client_buffers none;
    struct snow_put named = *item;
    enum snow_status status;
    size_t name_size = call->segment == NULL ? 0 : strlen(call->segment);

    if (item->from != NULL || item->buffers != NULL || item->buffer_count != 0 || item->size == 0 ||
        name_size > LIMIT_NAME_SIZE)
        return SNOW_INVALID;
    memcpy(op->segment, call->segment == NULL ? "" : call->segment, name_size);
    op->segment[name_size] = 0;
    named.from = op; /* as if it had memory: everything else is checked alike */
    status = client_put_check(&named, &none);
    if (status != SNOW_OK)
        return status;
    return client_members_derive(op->base.client, item, 1, &op->base.arena, &op->derived);
}

void client_writer_open_start(struct client *client, struct client_writer_op *op,
                              const struct snow_put *item, const struct snow_call *call)
{
    op_init(client, op, call);
    op->item = item;
    op->derived = NULL;
    op->writer = NULL;
    if (op->hold_ms == 0)
        op->hold_ms = HOLD_MS;
    op->wait_until_ns = client_put_wait_until(client, call, op->base.deadline_ns);
    begin(op, &op->ask, &start_ops, check_opening(op, item, call));
}

/* ---- committing ----------------------------------------------------------------------------- */

/* Copies of which every part is there. */
static uint16_t whole_copies(const struct client_writer *writer)
{
    uint16_t whole = (uint16_t)(writer->replicas & ~writer->failed);

    for (uint32_t i = 0; i < writer->place_count; i++) {
        if (!writer->written[i])
            whole = (uint16_t)(whole & ~(1u << writer->places[i].replica));
    }
    return whole;
}

static enum snow_status check_commit(struct client_writer_op *op)
{
    const struct client_writer *writer = op->writer;
    enum snow_status status = client_writer_state(writer);

    if (status != SNOW_OK)
        return status;
    if (writer->under_way > 0)
        snprintf(op->reason, sizeof(op->reason), "ranges are still being written");
    else if (!ranges_cover(&writer->claimed, writer->size))
        snprintf(op->reason, sizeof(op->reason), "%llu of %llu bytes are missing",
                 (unsigned long long)(writer->size - ranges_total(&writer->claimed)),
                 (unsigned long long)writer->size);
    else
        return whole_copies(writer) != 0 ? SNOW_OK : SNOW_GONE; /* no node has it all */
    return SNOW_INVALID;
}

static size_t measure_end(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return wire_written_size_min(WIRE_VERSION) + op_of(ask)->writer->key_size;
}

static const void *build_end(struct client_ask *ask, const uint32_t *items, uint32_t count,
                             struct arena *arena)
{
    const struct client_writer *writer = op_of(ask)->writer;
    struct wire_put_end_req *message = arena_take(arena, sizeof(*message));

    (void)items;
    (void)count;
    if (message == NULL)
        return NULL;
    message->operation = writer->operation;
    message->continues = op_of(ask)->continues;
    message->items = arena_take(arena, sizeof(*message->items));
    if (message->items == NULL)
        return NULL;
    message->items_count = 1;
    message->items[0] = (struct wire_written){.key = client_writer_key(writer),
                                              .gen = writer->gen,
                                              .replicas = whole_copies(writer)};
    return message;
}

static void on_ended(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *reply)
{
    struct client_writer_op *op = op_of(ask);
    const struct wire_item_status *answer = client_writer_answer(ask, reply);

    (void)items;
    (void)count;
    if (answer == NULL)
        return;
    op->status = client_writer_settle(ask, answer->status, 0, op->base.deadline_ns);
    op->shortfall = answer->shortfall;
    if (snow_status_verdict(op->status) == SNOW_DONE || op->status == SNOW_GONE)
        op->writer->ended = true;
    if (snow_status_verdict(op->status) != SNOW_DONE)
        return;
    client_count(op->base.client, CLIENT_METRIC_puts, 1);
    client_count(op->base.client, CLIENT_METRIC_put_bytes, op->writer->size);
    client_count(op->base.client, CLIENT_METRIC_puts_short, op->shortfall > 0);
}

static const struct client_ask_ops end_ops = {.type = WIRE_put_end,
                                              .on_measure = measure_end,
                                              .on_build = build_end,
                                              .on_reply = on_ended,
                                              .on_failed = on_failed,
                                              .on_event = on_event};

void client_writer_commit_start(struct client *client, struct client_writer_op *op,
                                const struct snow_call *call)
{
    op_init(client, op, call);
    begin(op, &op->ask, &end_ops, check_commit(op));
}
