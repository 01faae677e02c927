/* Writing ranges of an open put to all its copies.
 *
 * Problem.  A range lies in several extents, on several nodes; one of these may be slow or gone.
 * Idea.     A piece for each extent that it touches.  A piece that fails costs its copy; the range
 *           is written when every piece has ended and a copy is left.  A piece is repeated after a
 *           lost connection only within its call: with the same bytes (W2).  Within a host nobody
 *           counts what came but the writer: with the last bytes of an extent, or when the pieces
 *           of several calls have met, by a piece of no bytes, it says that the extent is whole.
 * Threads.  The loop's.
 */
#include "client/writer.h"

#define TRIES 3u /* of a piece whose connection is lost */

/* ---- writing -------------------------------------------------------------------------------- */

/* What of a range goes to one place. */
struct write_piece {
    struct transport_item item;
    uint32_t place; /* index in the writer's */
    uint32_t index; /* of the range */
    uint32_t tries;
    bool open; /* under way */
};

/* A range on its way. */
struct write_range {
    struct client_buffers buffers;
    struct write_piece *pieces; /* one a place of the writer; NULL: out of memory */
    uint32_t open;              /* pieces under way */
    bool done;
};

static struct client_write_op *write_of(struct client_moves *moves)
{
    return list_entry(moves, struct client_write_op, moves);
}

static void fail_copy(struct client_writer *writer, uint8_t replica, enum snow_status status)
{
    writer->failed = (uint16_t)(writer->failed | 1u << replica);
    writer->failure = status;
}

static void end_range(struct client_write_op *op, uint32_t index, enum snow_status status)
{
    op->ranges[index].done = true;
    op->writer->under_way--;
    op->items[index].status = status;
    op->open--;
}

/* Ends what is under way: copies on which a piece did not arrive are given up. */
static void give_up(struct client_write_op *op, enum snow_status status)
{
    struct client_writer *writer = op->writer;

    client_moves_cancel(&op->moves);
    client_ask_cancel(&op->renew);
    for (uint32_t i = 0; i < op->count && op->ranges != NULL; i++) {
        struct write_range *range = &op->ranges[i];

        if (range->done)
            continue;
        for (uint32_t k = 0; k < writer->place_count; k++) {
            if (range->pieces[k].open)
                fail_copy(writer, writer->places[k].replica, status);
        }
        end_range(op, i, client_writer_state(writer));
    }
}

static void write_stop(struct client_write_op *op)
{
    client_moves_cancel(&op->moves);
    client_ask_cancel(&op->renew);
    client_op_end(&op->base);
}

static void write_settle(struct client_write_op *op)
{
    if (op->open > 0) {
        client_moves_go(&op->moves);
        return;
    }
    write_stop(op);
    op->on_done(op);
}

static void on_write_timer(struct env_timer *timer)
{
    struct client_write_op *op = list_entry(timer, struct client_write_op, base.timer);

    if (op->open > 0)
        give_up(op, client_op_late_status(&op->base));
    write_stop(op);
    op->on_done(op);
}

void client_write_cancel(struct client_write_op *op)
{
    if (op->base.client == NULL)
        return;
    if (op->open > 0)
        give_up(op, SNOW_CANCELLED);
    write_stop(op);
}

/* A piece has landed.  True: with it all bytes of its extent have, by several calls at once, and
 * nobody has said so: it does, by going once more without bytes. */
static bool add_seal(struct client_write_op *op, struct write_piece *piece)
{
    struct client_writer *writer = op->writer;
    struct transport_item *item = &piece->item;
    bool whole;

    writer->landed[piece->place] += item->size;
    writer->written[piece->place] = writer->written[piece->place] || item->written;
    whole = writer->landed[piece->place] == item->place->length;
    if (!whole || writer->written[piece->place] || item->covered)
        return false;
    item->start = item->size = 0;
    item->memory_count = 0;
    item->covered = true;
    return client_moves_add(&op->moves, item) == SNOW_OK;
}

static void on_piece(struct client_moves *moves, struct transport_item *item)
{
    struct client_write_op *op = write_of(moves);
    struct write_piece *piece = list_entry(item, struct write_piece, item);
    struct client_writer *writer = op->writer;
    struct write_range *range = &op->ranges[piece->index];

    if (item->status == SNOW_CLOSED && ++piece->tries < TRIES &&
        client_moves_add(&op->moves, item) == SNOW_OK) {
        client_count(op->base.client, CLIENT_METRIC_writes_again, 1);
        return;
    }
    if (item->status == SNOW_OK && add_seal(op, piece))
        return;
    piece->open = false;
    if (item->status != SNOW_OK)
        fail_copy(writer, item->place->replica, item->status);
    if (--range->open > 0)
        return;
    end_range(op, piece->index, client_writer_state(writer));
    if (op->on_item != NULL)
        op->on_item(op, piece->index);
}

static void on_moved(struct client_moves *moves)
{
    write_settle(write_of(moves));
}

static const struct client_moves_ops move_ops = {.write = true,
                                                 .on_item = on_piece,
                                                 .on_event = on_moved};

/* Adds the pieces of a range; false: none could be. */
static bool add_pieces(struct client_write_op *op, uint32_t index)
{
    const struct snow_write *item = &op->items[index];
    struct client_writer *writer = op->writer;
    struct write_range *range = &op->ranges[index];
    struct arena *arena = &op->base.arena;

    range->pieces = arena_array(arena, writer->place_count, sizeof(*range->pieces));
    for (uint32_t i = 0; i < writer->place_count; i++) {
        const struct wire_place *place = &writer->places[i];
        uint64_t end = place->object_offset + place->length;
        uint64_t from = item->offset > place->object_offset ? item->offset : place->object_offset;
        uint64_t until = item->offset + item->size < end ? item->offset + item->size : end;

        if (from >= until || (writer->failed & 1u << place->replica) != 0)
            continue;
        if (range->pieces == NULL) {
            fail_copy(writer, place->replica, SNOW_NO_MEMORY);
            continue;
        }
        struct write_piece *piece = &range->pieces[i];

        *piece = (struct write_piece){.place = i, .index = index};
        piece->item =
            (struct transport_item){.place = place,
                                    .gen = writer->gen,
                                    .start = from - place->object_offset,
                                    .size = until - from,
                                    .key = client_writer_key(writer),
                                    .extra = place->part == 0 ? client_writer_extra(writer)
                                                              : bytes_of(NULL, 0),
                                    .object_size = writer->size,
                                    .flags = writer->flags,
                                    .covered = writer->landed[i] + (until - from) == place->length};
        piece->open = client_buffers_cut(&range->buffers, from - item->offset, arena,
                                         &piece->item) == SNOW_OK &&
                      client_moves_add(&op->moves, &piece->item) == SNOW_OK;
        range->open += piece->open;
        if (!piece->open)
            fail_copy(writer, place->replica, SNOW_NO_MEMORY);
    }
    return range->open > 0;
}

/* OK: its bytes are claimed. */
static enum snow_status claim(struct client_writer *writer, const struct snow_write *item,
                              struct client_buffers *buffers)
{
    enum snow_status status = client_writer_state(writer);

    if (status == SNOW_OK)
        status =
            client_buffers_set(buffers, item->from, item->size, item->buffers, item->buffer_count);
    if (status != SNOW_OK)
        return status;
    if (CLIENT_RESERVED(item) != SNOW_OK || item->offset > writer->size ||
        item->size > writer->size - item->offset)
        return SNOW_INVALID;
    status = ranges_add(&writer->claimed, item->offset, item->size, 0, NULL);
    return status == SNOW_EXISTS ? SNOW_INVALID : status;
}

static struct client_write_op *write_of_renewal(struct client_ask *ask)
{
    return list_entry(ask, struct client_write_op, renew);
}

static size_t measure_write_renewal(struct client_ask *ask, uint32_t item)
{
    (void)item;
    return wire_key_gen_size_min(WIRE_VERSION) + write_of_renewal(ask)->writer->key_size;
}

static const void *build_write_renewal(struct client_ask *ask, const uint32_t *items,
                                       uint32_t count, struct arena *arena)
{
    const struct client_writer *writer = write_of_renewal(ask)->writer;

    (void)items;
    (void)count;
    return client_writer_build_renewal(writer, writer->hold_ms, arena);
}

static void on_write_renewed(struct client_ask *ask, const uint32_t *items, uint32_t count,
                             const void *reply)
{
    struct client_write_op *op = write_of_renewal(ask);
    const struct wire_item_status *answer = client_writer_answer(ask, reply);
    enum snow_status status;

    (void)items;
    (void)count;
    if (answer == NULL)
        return;
    status = client_writer_settle(ask, answer->status, 0, op->base.deadline_ns);
    client_writer_take_renewal(op->writer, op->writer->hold_ms, status);
    if (status != SNOW_NOT_READY)
        op->open--;
}

static void on_write_renewal_failed(struct client_ask *ask, uint32_t item, enum snow_status status)
{
    (void)item; /* the next call tries again; until then the grant may last */
    (void)status;
    write_of_renewal(ask)->open--;
}

static void on_write_renewal_event(struct client_ask *ask)
{
    write_settle(write_of_renewal(ask));
}

static const struct client_ask_ops write_renew_ops = {.type = WIRE_put_renew,
                                                      .on_measure = measure_write_renewal,
                                                      .on_build = build_write_renewal,
                                                      .on_reply = on_write_renewed,
                                                      .on_failed = on_write_renewal_failed,
                                                      .on_event = on_write_renewal_event};

/* Half of the grant's time has gone: the write gives it more. */
static void renew_in_time(struct client_write_op *op)
{
    struct client_writer *writer = op->writer;
    struct client *client = op->base.client;

    if (client_now_ns(client) < writer->renewed_ns + writer->hold_ms * NS_PER_MS / 2 ||
        client_ask_init(&op->renew, client, &write_renew_ops, 1, op->base.deadline_ns,
                        &op->base.arena) != SNOW_OK)
        return;
    op->open++;
    client_ask_open(&op->renew, 0);
    client_ask_pump(&op->renew);
}

static bool uses(const struct client_op *base, const uint8_t *at, size_t size)
{
    const struct client_write_op *op = list_entry(base, struct client_write_op, base);

    for (size_t i = 0; i < op->count && op->ranges != NULL; i++) {
        if (!op->ranges[i].done && client_buffers_meet(&op->ranges[i].buffers, at, size))
            return true;
    }
    return false;
}

void client_write_start(struct client *client, struct client_write_op *op,
                        const struct snow_call *call)
{
    client_op_begin(client, &op->base, call, on_write_timer);
    op->base.uses = uses;
    client_moves_init(&op->moves, client, &move_ops, op->base.deadline_ns, &op->base.arena);
    op->moves.worker = op->worker;
    op->renew.ops = NULL;
    op->open = 0;
    op->ranges = op->count > UINT32_MAX / 2
                     ? NULL
                     : arena_array(&op->base.arena, op->count, sizeof(*op->ranges));
    for (size_t i = 0; i < op->count; i++) {
        struct snow_write *item = &op->items[i];

        item->status =
            op->ranges == NULL ? SNOW_NO_MEMORY : claim(op->writer, item, &op->ranges[i].buffers);
        if (op->ranges == NULL)
            continue;
        op->ranges[i].done = item->status != SNOW_OK || item->size == 0;
        if (op->ranges[i].done)
            continue;
        op->open++;
        op->writer->under_way++;
        if (!add_pieces(op, (uint32_t)i))
            end_range(op, (uint32_t)i, client_writer_state(op->writer));
    }
    if (op->open == 0) {
        client_op_hurry(&op->base);
        return;
    }
    client_moves_go(&op->moves);
    renew_in_time(op);
}
