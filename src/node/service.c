/* The data service: bytes into and out of extents, as grants and locations allow.
 *
 * Problem.  Writers that stop in the middle and come back, readers that are slow, forgets that
 *           arrive in between.
 * Idea.     An activity counts what is inside an extent.  Bytes of a frame go straight into the
 *           extent; a forget, or the same writer on a new connection, turns what still comes into
 *           waste before anything else happens there.
 * Invariants.
 *   S1  Pieces that arrive in an extent at the same time do not overlap, nor do they touch bytes
 *       that are covered: what is sent again is drained.
 *   S2  The covered ranges of a WRITING slot have arrived and have the crc that stands there.
 *   S3  A slot is sealed only when all its bytes are covered.
 * Threads.  The service loop. */
#include "base/cache.h"
#include "node/inside.h"
#include "transport/crc.h"

#include <stdlib.h>

/* ---- activities ---- */

static struct list *bucket_of(struct node *node, uint32_t segment, uint32_t slot)
{
    return &node->buckets[(slot ^ segment * 0x9e37u) % NODE_BUCKETS];
}

struct activity *node_activity_find(struct node *node, uint32_t segment, uint32_t slot)
{
    list_each (bucket_of(node, segment, slot), link, next) {
        struct activity *activity = list_entry(link, struct activity, in_bucket);

        if (activity->segment == segment && activity->slot == slot)
            return activity;
    }
    return NULL;
}

/* One comes and goes with each write and each read: some are kept for the next. */
static struct activity *activity_take(struct node *node)
{
    struct list_link *link = list_pop(&node->spare);

    if (link == NULL)
        return calloc(1, sizeof(struct activity));
    node->spare_count--;
    struct activity *activity = list_entry(link, struct activity, in_bucket);

    *activity = (struct activity){0};
    return activity;
}

static void activity_give(struct node *node, struct activity *activity)
{
    list_remove(&activity->in_bucket);
    ranges_deinit(&activity->covered);
    if (node->spare_count == NODE_SPARE_MAX) {
        free(activity);
        return;
    }
    list_push_front(&node->spare, &activity->in_bucket);
    node->spare_count++;
}

struct activity *node_activity_open(struct node *node, uint32_t segment, uint32_t slot,
                                    uint64_t gen)
{
    struct activity *activity = node_activity_find(node, segment, slot);

    if (activity != NULL)
        return activity;
    activity = activity_take(node);
    if (activity == NULL)
        return NULL;
    activity->segment = segment;
    activity->slot = slot;
    activity->gen = gen;
    list_init(&activity->writers);
    ranges_init(&activity->covered, LIMIT_WRITE_RANGES);
    list_push(bucket_of(node, segment, slot), &activity->in_bucket);
    return activity;
}

void node_activity_settle(struct node *node, struct activity *activity)
{
    struct slots *slots = &node->segments[activity->segment];

    if (activity->readers > 0 || !list_is_empty(&activity->writers) || activity->marked ||
        activity->fetch != NULL)
        return;
    if (activity->closed) {
        slots_free(slots, activity->slot);
        node_say_freed(node, activity->segment, activity->slot, activity->gen);
    } else if (slots->table[activity->slot].state == WIRE_SLOT_WRITING) {
        return;
    }
    activity_give(node, activity);
}

void node_transfers_count(struct node *node, int change)
{
    __atomic_fetch_add(&node->transfers, (uint32_t)change, __ATOMIC_RELEASE);
}

/* Slots are cold and lie anywhere: those of a batch are brought into the cache together. */
static void slot_touch(const struct node *node, uint32_t segment, uint32_t slot)
{
    const struct slot *at;

    if (segment >= node->segment_count || slot >= node->segments[segment].slots_ready)
        return;
    at = &node->segments[segment].table[slot];
    cache_touch(&at->gen);
    cache_touch(&at->state);
}

/* ---- writing ---- */

struct write_piece {
    struct write_batch *batch;
    struct activity *activity;    /* NULL: its bytes are drained */
    struct list_link of_activity; /* in activity->writers */
    enum snow_status status;
    bool written;
    uint64_t arrived; /* bytes */
    uint32_t crc;     /* of those */
};

struct write_batch {
    struct node *node;
    struct rpc_request *request;
    const struct wire_write_req *write;
    uint32_t current; /* piece that arrives now */
    struct rpc_payload payload;
    struct write_piece pieces[];
};

static uint8_t *piece_at(const struct node *node, const struct wire_write_item *item)
{
    return node->segments[item->segment].data.at + item->offset + item->start;
}

static void piece_leave(struct write_piece *piece)
{
    list_remove(&piece->of_activity);
    piece->activity = NULL;
}

static const struct wire_write_item *item_of(const struct write_piece *piece)
{
    return &piece->batch->write->items[piece - piece->batch->pieces];
}

/* What still arrives for this piece is waste; it answers status. */
static void displace(struct write_piece *piece, enum snow_status status)
{
    struct write_batch *batch = piece->batch;
    const struct wire_write_item *item = item_of(piece);

    rpc_request_cut(batch->request, piece_at(batch->node, item), item->size);
    node_count(batch->node, NODE_METRIC_writes_refused, 1);
    piece->status = status;
    piece_leave(piece);
}

/* Pieces that arrive where this one will: its writer has come back on another connection. */
static void displace_overlapping(struct activity *activity, const struct wire_write_item *item)
{
    list_each (&activity->writers, link, next) {
        struct write_piece *piece = list_entry(link, struct write_piece, of_activity);
        const struct wire_write_item *other = item_of(piece);

        if (other->start < item->start + item->size && item->start < other->start + other->size)
            displace(piece, SNOW_STALE);
    }
}

static bool grant_holds(const struct node *node, const struct wire_write_item *item)
{
    struct grant_fields fields = {.segment = item->segment,
                                  .slot = item->slot,
                                  .gen = item->gen,
                                  .offset = item->offset,
                                  .length = item->length,
                                  .object_size = item->object_size,
                                  .object_offset = item->object_offset,
                                  .part = item->part,
                                  .parts = item->parts,
                                  .replica = item->replica,
                                  .flags = item->flags,
                                  .tenant = item->tenant,
                                  .key = hash_key(item->tenant, item->key),
                                  .extra = grant_extra_hash(item->tenant, item->extra)};

    return node->has_secret && grant_write_mac(&node->secret, &fields) == item->mac;
}

bool node_slot_is_ready(const struct node *node, uint32_t segment, uint32_t slot)
{
    return segment < node->segment_count && slot < node->segments[segment].slots_ready;
}

enum snow_status node_write_check(struct node *node, const struct wire_write_item *item)
{
    if (!node_slot_is_ready(node, item->segment, item->slot) || item->key.size < 1 ||
        item->key.size > LIMIT_KEY_SIZE || item->start > item->length ||
        item->size > item->length - item->start || item->extra.size > LIMIT_EXTRA_SIZE ||
        (item->part > 0 && item->extra.size > 0))
        return SNOW_INVALID;
    if (!grant_holds(node, item)) {
        node_count(node, NODE_METRIC_bad_grants, 1);
        return SNOW_STALE;
    }
    return SNOW_OK;
}

static enum snow_status begin_piece(struct node *node, struct write_piece *piece,
                                    const struct wire_write_item *item)
{
    enum snow_status status = node_write_check(node, item);

    if (status != SNOW_OK)
        return status;
    struct slots *slots = &node->segments[item->segment];
    struct slot *slot = &slots->table[item->slot];
    struct activity *activity = node_activity_find(node, item->segment, item->slot);

    if (slot->state == WIRE_SLOT_WRITTEN && slot->gen == item->gen) {
        piece->written = true; /* asked again: its bytes are here */
        return SNOW_OK;
    }
    if (slot->state == WIRE_SLOT_WRITING && slot->gen == item->gen && activity != NULL) {
        status = ranges_look(&activity->covered, item->start, item->size);
        if (status == SNOW_EXISTS)
            return SNOW_OK; /* asked again: these bytes are here, with their crc */
        if (status == SNOW_OK)
            displace_overlapping(activity, item);
    } else {
        status = slots_begin(slots, item);
        if (status == SNOW_OK)
            activity = node_activity_open(node, item->segment, item->slot, item->gen);
        if (status == SNOW_OK && activity == NULL)
            return SNOW_NO_MEMORY;
    }
    if (status != SNOW_OK)
        return status;
    list_push(&activity->writers, &piece->of_activity);
    piece->activity = activity;
    return SNOW_OK;
}

/* Bytes have come into an extent.  Those of a piece without one, and what comes for a piece after
 * it was displaced, are drained and not told. */
static void on_write_piece(struct rpc_request *request, const uint8_t *at, size_t size)
{
    struct write_batch *batch = rpc_request_owner(request);

    while (size > 0) {
        ASSERT(batch->current < batch->write->items_count);
        const struct wire_write_item *item = &batch->write->items[batch->current];
        struct write_piece *piece = &batch->pieces[batch->current];
        uint64_t left = item->size - piece->arrived;

        if (piece->activity == NULL || left == 0) {
            batch->current++;
            continue;
        }
        size_t part = size < left ? size : left;

        piece->crc = crc32c(piece->crc, at, part);
        piece->arrived += part;
        at += part;
        size -= part;
    }
}

/* A slot of which all bytes have come. */
static void seal(struct node *node, struct activity *activity)
{
    struct slots *slots = &node->segments[activity->segment];
    const struct ranges *covered = &activity->covered;

    if (slots->table[activity->slot].state != WIRE_SLOT_WRITING)
        return;
    slots_seal(slots, activity->slot, covered->count == 0 ? 0 : covered->list[0].crc, true);
    node_count(node, NODE_METRIC_sealed, 1);
}

/* All bytes of a piece are there. */
static void end_piece(struct node *node, struct write_piece *piece,
                      const struct wire_write_item *item)
{
    struct activity *activity = piece->activity;

    if (activity == NULL)
        return;
    piece_leave(piece);
    if (piece->crc != item->crc) {
        node_count(node, NODE_METRIC_corrupt_pieces, 1);
        piece->status = SNOW_CORRUPT;
        return;
    }
    piece->status =
        ranges_add(&activity->covered, item->start, item->size, piece->crc, crc_combine);
    if (piece->status != SNOW_OK)
        return;
    node_count(node, NODE_METRIC_writes, 1);
    node_count(node, NODE_METRIC_written_bytes, item->size);
    if (ranges_cover(&activity->covered, item->length)) {
        seal(node, activity);
        piece->written = true;
        node_activity_settle(node, activity);
    }
}

static void free_batch(struct write_batch *batch)
{
    node_transfers_count(batch->node, -1);
    free(batch->payload.iov);
    free(batch);
}

static void answer_write(struct write_batch *batch)
{
    uint32_t count = batch->write->items_count;
    struct wire_write_done *done = calloc(count, sizeof(*done));
    struct wire_write_rep reply = {.items = done, .items_count = count};

    if (done == NULL) {
        rpc_fail(batch->request, SNOW_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        done[i].status = (int32_t)batch->pieces[i].status;
        done[i].written = batch->pieces[i].written;
    }
    rpc_reply(batch->request, &reply, true);
    free(done);
}

static void on_write_end(struct rpc_request *request, enum snow_status status)
{
    struct write_batch *batch = rpc_request_owner(request);

    if (status != SNOW_OK)
        return; /* the request is gone right after */
    for (uint32_t i = 0; i < batch->write->items_count; i++)
        end_piece(batch->node, &batch->pieces[i], &batch->write->items[i]);
    rpc_request_set_owner(request, NULL);
    answer_write(batch);
    free_batch(batch);
}

/* It ended in the middle: what earlier messages brought stays, this one's bytes come again. */
void node_write_gone(struct node *node, struct rpc_request *request)
{
    struct write_batch *batch = rpc_request_owner(request);

    (void)node;
    if (batch == NULL)
        return;
    for (uint32_t i = 0; i < batch->write->items_count; i++) {
        if (batch->pieces[i].activity != NULL)
            piece_leave(&batch->pieces[i]);
    }
    free_batch(batch);
}

/* Where each piece goes: into its extent, or nowhere. */
static bool aim(struct node *node, struct write_batch *batch)
{
    const struct wire_write_req *write = batch->write;

    batch->payload.iov = calloc(write->items_count, sizeof(*batch->payload.iov));
    if (batch->payload.iov == NULL)
        return false;
    for (uint32_t i = 0; i < write->items_count; i++) {
        const struct wire_write_item *item = &write->items[i];
        bool taken = batch->pieces[i].activity != NULL;

        batch->payload.iov[batch->payload.iov_count++] =
            (struct iovec){.iov_base = taken ? piece_at(node, item) : NULL, .iov_len = item->size};
    }
    return true;
}

static uint64_t sum_of_pieces(const struct wire_write_req *write)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < write->items_count; i++) {
        if (write->items[i].size > LIMIT_PAYLOAD_SIZE)
            return UINT64_MAX;
        size += write->items[i].size;
    }
    return size;
}

void node_write(struct node *node, struct rpc_request *request, const struct wire_write_req *write,
                uint64_t payload_size)
{
    uint32_t count = write->items_count;
    struct write_batch *batch;

    if (count == 0 || sum_of_pieces(write) != payload_size) {
        rpc_fail(request, SNOW_INVALID);
        return;
    }
    batch = calloc(1, sizeof(*batch) + count * sizeof(batch->pieces[0]));
    if (batch == NULL) {
        rpc_fail(request, SNOW_NO_MEMORY);
        return;
    }
    batch->node = node;
    node_transfers_count(node, 1);
    batch->request = request;
    batch->write = write; /* kept (node.c) */
    for (uint32_t i = 0; i < count; i++)
        slot_touch(node, write->items[i].segment, write->items[i].slot);
    for (uint32_t i = 0; i < count; i++) {
        struct write_piece *piece = &batch->pieces[i];

        piece->batch = batch;
        piece->status = begin_piece(node, piece, &batch->write->items[i]);
        node_count(node, NODE_METRIC_writes_refused, piece->status != SNOW_OK);
    }
    rpc_request_set_owner(request, batch);
    batch->payload.size = payload_size;
    if (!aim(node, batch)) {
        node_write_gone(node, request);
        rpc_request_set_owner(request, NULL);
        rpc_fail(request, SNOW_NO_MEMORY);
    } else if (payload_size == 0) {
        on_write_end(request, SNOW_OK);
    } else {
        rpc_request_receive(request, &batch->payload, on_write_piece, on_write_end);
    }
}

/* ---- reading ---- */

struct read_batch {
    struct node *node;
    struct rpc_payload payload;
    uint32_t count;
    struct {
        struct activity *activity; /* NULL: not held */
    } held[];
};

static enum snow_status check_read(struct node *node, const struct wire_read_item *item)
{
    if (!node_slot_is_ready(node, item->segment, item->slot) || item->start > item->length ||
        item->size > item->length - item->start)
        return SNOW_INVALID;
    struct grant_fields fields = {.segment = item->segment,
                                  .slot = item->slot,
                                  .gen = item->gen,
                                  .offset = item->offset,
                                  .length = item->length};
    const struct slot *slot = &node->segments[item->segment].table[item->slot];

    if (!node->has_secret || grant_read_mac(&node->secret, &fields) != item->mac) {
        node_count(node, NODE_METRIC_bad_grants, 1);
        return SNOW_STALE;
    }
    if (slot->state != WIRE_SLOT_WRITTEN || slot->gen != item->gen ||
        slot->offset != item->offset || slot->length != item->length)
        return SNOW_STALE;
    return SNOW_OK;
}

static struct activity *hold(struct node *node, const struct wire_read_item *item)
{
    struct activity *activity = node_activity_open(node, item->segment, item->slot, item->gen);

    if (activity != NULL)
        activity->readers++;
    return activity;
}

static void on_read_sent(void *owner, enum snow_status status)
{
    struct read_batch *batch = owner;

    (void)status; /* sent or not: nothing reads the extents any more */
    for (uint32_t i = 0; i < batch->count; i++) {
        struct activity *activity = batch->held[i].activity;

        if (activity == NULL)
            continue;
        activity->readers--;
        node_activity_settle(batch->node, activity);
    }
    node_transfers_count(batch->node, -1);
    free(batch->payload.iov);
    free(batch);
}

static void read_piece(struct node *node, struct read_batch *batch,
                       const struct wire_read_item *item, struct wire_read_done *done)
{
    enum snow_status status = check_read(node, item);
    const struct slots *slots;

    if (status == SNOW_OK && batch->payload.size + item->size > LIMIT_PAYLOAD_SIZE)
        status = SNOW_LIMIT;
    if (status == SNOW_OK && !FAULT(node->faults, torn_read)) {
        struct activity *activity = hold(node, item);

        batch->held[batch->count++].activity = activity;
        status = activity == NULL ? SNOW_NO_MEMORY : SNOW_OK;
    }
    done->status = (int32_t)status;
    if (status != SNOW_OK) {
        node_count(node, NODE_METRIC_reads_refused, 1);
        return;
    }
    slots = &node->segments[item->segment];
    done->size = item->size;
    done->own_crc = item->own_crc != 0;
    done->crc = item->own_crc ? crc32c(0, slots->data.at + item->offset + item->start, item->size)
                              : slots_data_crc(&node->segments[item->segment], item->slot);
    if (item->size > 0)
        batch->payload.iov[batch->payload.iov_count++] =
            (struct iovec){.iov_base = slots->data.at + item->offset + item->start,
                           .iov_len = item->size};
    batch->payload.size += item->size;
    node_count(node, NODE_METRIC_reads, 1);
    node_count(node, NODE_METRIC_read_bytes, item->size);
}

void node_read(struct node *node, struct rpc_request *request, const struct wire_read_req *read)
{
    uint32_t count = read->items_count;
    struct read_batch *batch = calloc(1, sizeof(*batch) + count * sizeof(batch->held[0]));
    struct iovec *iov = calloc(count == 0 ? 1 : count, sizeof(*iov));
    struct wire_read_done *done = calloc(count == 0 ? 1 : count, sizeof(*done));
    struct wire_read_rep reply = {.items = done, .items_count = count};

    if (batch == NULL || iov == NULL || done == NULL) {
        free(batch);
        free(iov);
        rpc_fail(request, SNOW_NO_MEMORY);
    } else {
        batch->node = node;
        node_transfers_count(node, 1);
        batch->payload.iov = iov;
        for (uint32_t i = 0; i < count; i++)
            slot_touch(node, read->items[i].segment, read->items[i].slot);
        for (uint32_t i = 0; i < count; i++)
            read_piece(node, batch, &read->items[i], &done[i]);
        rpc_reply_payload(request, &reply, &batch->payload, on_read_sent, batch);
    }
    free(done);
}

/* ---- forgetting ---- */

static bool close_slot(struct node *node, struct slots *slots, uint32_t segment, uint32_t slot,
                       uint64_t gen)
{
    struct activity *activity = node_activity_find(node, segment, slot);
    uint64_t floor = FAULT(node->faults, floor_not_raised) ? 0 : gen;

    slots_close(slots, slot, floor);
    if (activity == NULL)
        return true;
    if (activity->fetch != NULL)
        node_fetch_cut(activity->fetch);
    while (!list_is_empty(&activity->writers))
        displace(list_entry(list_first(&activity->writers), struct write_piece, of_activity),
                 SNOW_GONE);
    if (activity->readers > 0) {
        node_count(node, NODE_METRIC_forgets_held, 1);
        if (FAULT(node->faults, early_free))
            return true;
        activity->closed = true;
        return false;
    }
    activity_give(node, activity);
    return true;
}

bool node_close_slot(struct node *node, uint32_t segment, uint32_t index, uint64_t gen)
{
    struct slots *slots = &node->segments[segment];
    struct slot *slot = &slots->table[index];

    node_count(node, NODE_METRIC_forgets, 1);
    switch ((enum wire_slot_state)slot->state) {
    case WIRE_SLOT_WRITING:
    case WIRE_SLOT_WRITTEN:
        if (slot->gen <= gen)
            return close_slot(node, slots, segment, index, gen);
        slots_floor_raise(slots, index, gen);
        return true; /* a younger one lives there: the forgotten one is long gone */
    case WIRE_SLOT_CLOSED:
        slots_floor_raise(slots, index, gen);
        return false;
    case WIRE_SLOT_FREE:
        break;
    }
    if (!FAULT(node->faults, floor_not_raised))
        slots_floor_raise(slots, index, gen);
    return true;
}

bool node_free_slot(struct node *node, uint32_t segment, uint32_t index, uint64_t gen, bool quiet)
{
    struct slots *slots = &node->segments[segment];
    uint8_t state = slots->table[index].state;
    struct activity *activity;

    if (state == WIRE_SLOT_FREE && quiet)
        return !node_marked_quarantine(node, segment, index, gen);
    if (state != WIRE_SLOT_CLOSED)
        return quiet;
    if (node_marks_has(node, segment, index, gen)) {
        activity = node_activity_open(node, segment, index, gen);
        if (activity == NULL)
            return false; /* CLOSED for ever rather than given out too early */
        activity->closed = true;
        node_marked_add(node, activity);
        return false;
    }
    if (quiet)
        slots_free(slots, index);
    return quiet;
}
