/* Frames: operations cut into messages, and what their replies mean.
 *
 * Problem.  A batch is a thousand pages or one object of a terabyte; a message has bounds, and its
 *           checksums are cheap only while the bytes are in the cache.
 * Idea.     Small items gather in one frame until a bound is reached; items above piece_bytes are
 *           pieces with a frame each.  Written pieces get their crc right before they are sent,
 *           read ones while they arrive; crc_combine makes the extent's crc from those of its
 *           pieces.
 *           A range of an extent has no crc from its writer: the node computes one for each piece.
 * Invariants.
 *   F1  A frame has at most one piece of an item.
 *   F2  The pieces of a written item are on one lane, in order; those of a read one on any.
 *   F3  An item ends when none of its pieces is under way or waits (T2).
 * Threads.  The loop's.
 */
#include "base/hash.h"
#include "transport/crc.h"
#include "transport/tcp.h"

#define SMALL_BYTES (64 * KIB)               /* items up to it go by the first lane */
#define GATHER_BYTES (256 * KIB)             /* of a frame with several items */
#define BODY_MAX (LIMIT_BODY_SIZE - 4 * KIB) /* of a message */

/* ---- cutting -------------------------------------------------------------------------------- */

struct cut {
    struct tcp_link *link;
    struct transport_op *op;
    struct tcp_frame *current[TRANSPORT_LANES_MAX]; /* not full yet; NULL: none */
    uint64_t load[TRANSPORT_LANES_MAX];             /* bytes of the new frames */
};

static const struct transport_options *options_of(const struct tcp_link *link)
{
    return &((const struct tcp *)link->base.transport)->options;
}

static size_t message_size(const struct transport_op *op, const struct transport_item *item)
{
    return op->write ? wire_write_item_size_min(WIRE_VERSION) + item->key.size + item->extra.size
                     : wire_read_item_size_min(WIRE_VERSION);
}

static uint32_t least_loaded(const struct cut *cut)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < options_of(cut->link)->lanes; i++) {
        if (cut->link->lanes[i].load + cut->load[i] < cut->link->lanes[best].load + cut->load[best])
            best = i;
    }
    return best;
}

static struct tcp_frame *frame_create(struct cut *cut, uint32_t lane)
{
    struct tcp_frame *frame = arena_take(&cut->op->arena, sizeof(*frame));

    if (frame == NULL)
        return NULL;
    frame->op = cut->op;
    frame->lane = &cut->link->lanes[lane];
    list_push(&cut->op->frames, &frame->of_op);
    return frame;
}

static void frame_add(struct cut *cut, struct tcp_frame *frame, struct tcp_piece *piece)
{
    if (frame->last == NULL)
        frame->first = piece;
    else
        frame->last->next = piece;
    frame->last = piece;
    frame->count++;
    frame->iov_count += piece->memory_count;
    frame->bytes += piece->size;
    frame->body_size += message_size(cut->op, piece->item);
    cut->load[frame->lane - cut->link->lanes] += piece->size;
}

static bool frame_has_room(const struct cut *cut, const struct tcp_frame *frame,
                           const struct transport_item *item)
{
    uint64_t piece_bytes = options_of(cut->link)->piece_bytes;

    return frame->count < LIMIT_BATCH_ITEMS &&
           frame->bytes + item->size <= (piece_bytes < GATHER_BYTES ? piece_bytes : GATHER_BYTES) &&
           frame->body_size + message_size(cut->op, item) <= BODY_MAX;
}

/* Where the next piece of an item begins in the item's memory. */
struct reached {
    uint32_t memory;
    uint64_t start;
};

/* Finds the memory of a piece; *reached goes on to the piece that follows. */
static void find_memory(struct tcp_piece *piece, struct reached *reached)
{
    const struct transport_item *item = piece->item;
    uint64_t left = piece->size;

    piece->memory = reached->memory;
    piece->memory_start = reached->start;
    piece->memory_count = 0;
    while (left > 0) {
        ASSERT(reached->memory < item->memory_count);
        uint64_t here = item->memory[reached->memory].iov_len - reached->start;

        piece->memory_count++;
        if (left < here) {
            reached->start += left;
            return;
        }
        left -= here;
        reached->start = 0;
        reached->memory++;
    }
}

/* Adds the piece's memory to iov. */
static uint32_t add_memory(const struct tcp_piece *piece, struct iovec *iov)
{
    const struct iovec *memory = piece->item->memory + piece->memory;
    uint64_t start = piece->memory_start;
    uint64_t left = piece->size;
    uint32_t count = 0;

    for (uint32_t i = 0; i < piece->memory_count; i++) {
        uint64_t here = memory[i].iov_len - start;
        uint64_t size = here < left ? here : left;

        if (size > 0)
            iov[count++] = (struct iovec){.iov_base = (uint8_t *)memory[i].iov_base + start,
                                          .iov_len = (size_t)size};
        left -= size;
        start = 0;
    }
    return count;
}

static bool cut_small(struct cut *cut, struct transport_item *item)
{
    uint32_t lane = item->size <= SMALL_BYTES ? 0 : least_loaded(cut);
    struct tcp_frame *frame = cut->current[lane];
    struct tcp_piece *piece = item->pieces;

    if (frame == NULL || !frame_has_room(cut, frame, item))
        frame = cut->current[lane] = frame_create(cut, lane);
    if (frame == NULL)
        return false;
    piece->start = item->start;
    piece->size = item->size;
    find_memory(piece, &(struct reached){0});
    frame_add(cut, frame, piece);
    return true;
}

static bool cut_large(struct cut *cut, struct transport_item *item)
{
    uint64_t piece_bytes = options_of(cut->link)->piece_bytes;
    struct tcp_piece *pieces = item->pieces;
    uint32_t lane = least_loaded(cut);
    struct reached reached = {0};

    for (uint32_t i = 0; i < item->piece_count; i++) {
        uint64_t left = item->size - i * piece_bytes;
        struct tcp_frame *frame;

        if (!cut->op->write)
            lane = least_loaded(cut);
        frame = frame_create(cut, lane);
        if (frame == NULL)
            return false;
        pieces[i].item = item;
        pieces[i].start = item->start + i * piece_bytes;
        pieces[i].size = left < piece_bytes ? left : piece_bytes;
        find_memory(&pieces[i], &reached);
        frame_add(cut, frame, &pieces[i]);
    }
    return true;
}

static bool cut_item(struct cut *cut, struct transport_item *item)
{
    uint64_t piece_bytes = options_of(cut->link)->piece_bytes;
    uint64_t count = item->size == 0 ? 1 : (item->size - 1) / piece_bytes + 1;
    struct tcp_piece *pieces =
        count > UINT32_MAX ? NULL : arena_array(&cut->op->arena, (size_t)count, sizeof(*pieces));

    if (pieces == NULL)
        return false;
    item->status = SNOW_OK;
    item->written = false;
    item->crc = 0;
    item->pieces = pieces;
    item->piece_count = (uint32_t)count;
    item->pieces_left = (uint32_t)count;
    pieces[0].item = item;
    cut->op->open++;
    return count == 1 ? cut_small(cut, item) : cut_large(cut, item);
}

enum snow_status tcp_frame_cut(struct tcp_link *link, struct transport_op *op)
{
    struct cut cut = {.link = link, .op = op};

    arena_init(&op->arena, 0);
    list_init(&op->frames);
    op->open = 0;
    for (struct transport_item *item = op->first; item != NULL; item = item->next) {
        if (!cut_item(&cut, item)) {
            arena_deinit(&op->arena);
            return SNOW_NO_MEMORY;
        }
    }
    list_each (&op->frames, at, next) {
        struct tcp_frame *frame = list_entry(at, struct tcp_frame, of_op);

        list_push(&frame->lane->queue, &frame->link);
        frame->lane->load += frame->bytes;
    }
    return SNOW_OK;
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool is_whole(const struct transport_item *item)
{
    return item->size == item->place->length;
}

static enum snow_status send_read(struct tcp_frame *frame, struct rpc_conn *conn,
                                  struct arena *scratch)
{
    struct wire_read_req read = {.items_count = frame->count};

    read.items = arena_array(scratch, frame->count, sizeof(*read.items));
    if (read.items == NULL)
        return SNOW_NO_MEMORY;
    uint32_t at = 0;

    for (struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        const struct wire_place *place = piece->item->place;

        read.items[at++] = (struct wire_read_item){.segment = place->segment,
                                                   .slot = place->slot,
                                                   .gen = piece->item->gen,
                                                   .offset = place->offset,
                                                   .length = place->length,
                                                   .mac = place->mac,
                                                   .start = piece->start,
                                                   .size = piece->size,
                                                   .own_crc = !is_whole(piece->item)};
    }
    return rpc_call_start(conn, &frame->call, WIRE_read, &read, NULL, frame->op->deadline_ns);
}

static struct wire_write_item write_item(struct tcp_piece *piece)
{
    const struct transport_item *item = piece->item;
    const struct wire_place *place = item->place;

    return (struct wire_write_item){.segment = place->segment,
                                    .slot = place->slot,
                                    .gen = item->gen,
                                    .offset = place->offset,
                                    .length = place->length,
                                    .object_size = item->object_size,
                                    .object_offset = place->object_offset,
                                    .part = place->part,
                                    .parts = place->parts,
                                    .replica = place->replica,
                                    .flags = item->flags,
                                    .mac = place->mac,
                                    .key = item->key,
                                    .extra = item->extra,
                                    .start = piece->start,
                                    .size = piece->size,
                                    .crc = piece->crc};
}

static enum snow_status send_write(struct tcp_frame *frame, struct rpc_conn *conn,
                                   struct arena *scratch)
{
    struct wire_write_req write = {.items_count = frame->count};
    struct rpc_payload payload = {.iov = frame->iov, .size = frame->bytes};

    write.items = arena_array(scratch, frame->count, sizeof(*write.items));
    if (write.items == NULL)
        return SNOW_NO_MEMORY;
    uint32_t at = 0;

    for (struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        struct iovec *iov = frame->iov + payload.iov_count;
        uint32_t count = add_memory(piece, iov);

        piece->crc = 0;
        for (uint32_t i = 0; i < count; i++)
            piece->crc = crc32c(piece->crc, iov[i].iov_base, iov[i].iov_len);
        write.items[at++] = write_item(piece);
        payload.iov_count += count;
    }
    return rpc_call_start(conn, &frame->call, WIRE_write, &write, &payload, frame->op->deadline_ns);
}

/* ---- bytes of a reply ----------------------------------------------------------------------- */

/* A reply that fits its request names for each piece all its bytes, or none. */
static bool reply_fits(const struct tcp_frame *frame, const struct wire_read_rep *reply)
{
    uint32_t at = 0;

    if (reply->items_count != frame->count)
        return false;
    for (const struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        const struct wire_read_done *done = &reply->items[at++];

        if (done->size != (done->status == SNOW_OK ? piece->size : 0))
            return false;
    }
    return true;
}

static bool on_payload(struct rpc_call *call, const void *message, uint64_t payload_size,
                       struct rpc_payload *to)
{
    struct tcp_frame *frame = list_entry(call, struct tcp_frame, call);
    const struct wire_read_rep *reply = message;
    uint64_t size = 0;
    uint32_t at = 0;

    if (frame->op->write || !reply_fits(frame, reply))
        return false;
    for (struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next)
        size += reply->items[at++].size;
    if (size != payload_size)
        return false;
    *to = (struct rpc_payload){.iov = frame->iov, .size = size};
    at = 0;
    for (struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        piece->wanted = reply->items[at++].size;
        if (piece->wanted > 0)
            to->iov_count += add_memory(piece, frame->iov + to->iov_count);
    }
    frame->arriving = frame->first;
    return true;
}

static void on_piece(struct rpc_call *call, const uint8_t *at, size_t size)
{
    struct tcp_frame *frame = list_entry(call, struct tcp_frame, call);
    const struct transport_options *options = options_of(frame->lane->link);

    while (size > 0 && frame->arriving != NULL) {
        struct tcp_piece *piece = frame->arriving;
        uint64_t left = piece->wanted - piece->got;

        if (left == 0) {
            frame->arriving = piece->next;
            continue;
        }
        size_t part = size < left ? size : (size_t)left;

        if (options->verify)
            piece->crc = crc32c(piece->crc, at, part);
        piece->got += part;
        at += part;
        size -= part;
    }
}

enum snow_status tcp_frame_send(struct tcp_frame *frame, struct rpc_conn *conn)
{
    struct tcp *tcp = (struct tcp *)frame->lane->link->base.transport;
    enum snow_status status;

    if (frame->iov == NULL)
        frame->iov = arena_array(&frame->op->arena, frame->iov_count, sizeof(*frame->iov));
    if (frame->iov == NULL)
        return SNOW_NO_MEMORY;
    frame->call.on_reply = tcp_on_reply;
    frame->call.on_payload = on_payload;
    frame->call.on_piece = on_piece;
    arena_reset(&tcp->scratch);
    status = frame->op->write ? send_write(frame, conn, &tcp->scratch)
                              : send_read(frame, conn, &tcp->scratch);
    return status;
}

/* ---- ends ----------------------------------------------------------------------------------- */

bool tcp_frame_is_vain(const struct tcp_frame *frame)
{
    for (const struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        if (piece->item->status == SNOW_OK)
            return false;
    }
    return true;
}

static uint32_t crc_of(const struct transport_item *item)
{
    const struct tcp_piece *pieces = item->pieces;
    uint32_t crc = pieces[0].crc;

    for (uint32_t i = 1; i < item->piece_count; i++)
        crc = crc_combine(crc, pieces[i].crc, pieces[i].size);
    return crc;
}

static void end_item(const struct tcp_link *link, struct transport_op *op,
                     struct transport_item *item)
{
    if (item->status == SNOW_OK && op->write && is_whole(item) && !item->written)
        item->status = SNOW_INVALID; /* all was taken, and yet it does not hold it */
    if (item->status == SNOW_OK && !op->write && options_of(link)->verify && is_whole(item) &&
        crc_of(item) != item->crc)
        item->status = SNOW_CORRUPT;
    op->open--;
    if (op->on_item != NULL)
        op->on_item(op, item);
}

static enum snow_status known(int32_t status)
{
    return status_is_known(status) ? (enum snow_status)status : SNOW_INVALID;
}

static enum snow_status write_result(struct tcp_piece *piece, const struct wire_write_done *done)
{
    if (done->written)
        piece->item->written = true;
    return known(done->status);
}

static enum snow_status read_result(const struct tcp_link *link, struct tcp_piece *piece,
                                    const struct wire_read_done *done)
{
    enum snow_status status = known(done->status);

    if (status == SNOW_OK && piece->got != piece->size)
        return SNOW_INVALID;
    piece->item->crc = done->crc;
    if (status != SNOW_OK || is_whole(piece->item) || !options_of(link)->verify)
        return status;
    if (!done->own_crc)
        return SNOW_INVALID; /* of a version that can not */
    return piece->crc == done->crc ? SNOW_OK : SNOW_CORRUPT;
}

void tcp_frame_end(struct tcp_frame *frame, enum snow_status status, const void *reply)
{
    struct tcp_link *link = frame->lane->link;
    struct transport_op *op = frame->op;
    const struct wire_write_rep *write = op->write ? reply : NULL;
    const struct wire_read_rep *read = op->write ? NULL : reply;
    uint32_t at = 0;

    if ((write != NULL && write->items_count != frame->count) ||
        (read != NULL && !reply_fits(frame, read))) {
        status = SNOW_INVALID;
        write = NULL;
        read = NULL;
    }
    list_remove(&frame->of_op);
    for (struct tcp_piece *piece = frame->first; piece != NULL; piece = piece->next) {
        struct transport_item *item = piece->item;
        enum snow_status result = write != NULL  ? write_result(piece, &write->items[at])
                                  : read != NULL ? read_result(link, piece, &read->items[at])
                                                 : status;

        at++;
        if (item->status == SNOW_OK)
            item->status = result;
        if (--item->pieces_left == 0)
            end_item(link, op, item);
    }
}
