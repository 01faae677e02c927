/* Copies: this node fetches extents from other nodes, as the master says.
 *
 * Problem.  Bytes come over a while from nodes that may be slow or gone; meanwhile the master may
 *           have the place forgotten, and a slot must never be WRITTEN before all its bytes came.
 * Idea.     A fetch is the master's request: a slot WRITING for each part, and an operation of the
 *           ordinary transport that reads the source's extent into it, checked by the writer's
 *           checksum.  It answers when all parts are WRITTEN; what ends it earlier closes them all.
 * Invariants.
 *   F1  While bytes may arrive in an extent its slot is WRITING and its activity names the part.
 *   F2  A forget of one of its slots ends the fetch; the operation was cancelled then, so nothing
 *       is inside.
 *   F3  A fetch ends with its request: a master that is gone has forgotten the copy, or will.
 * Threads.  The service loop. */
#include "node/inside.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (1 * MIB)
#define WINDOW_BYTES (16 * MIB)
#define STALL_NS (2 * NS_PER_S)
#define SOURCES_IDLE_MAX 8u /* links without a fetch that are kept */

/* A node that others are copied from. */
struct fetch_source {
    struct list_link of_node; /* in node->sources, the last used one first */
    struct transport_link *link;
    uint64_t incarnation;
    uint32_t users;
    char address[LIMIT_NAME_SIZE + 1];
};

struct fetch_part {
    struct fetch *fetch;
    struct fetch_source *source; /* NULL: no operation */
    struct activity *activity;   /* NULL: its slot is no more this fetch's */
    struct transport_op op;
    struct transport_item item;
    struct wire_place place; /* at the source */
    uint32_t segment;
    uint32_t slot;
};

struct fetch {
    struct list_link of_node; /* in node->fetches */
    struct node *node;
    struct rpc_request *request;      /* NULL: answered */
    const struct wire_copy_req *copy; /* the request's; it is kept */
    uint64_t gen;
    uint64_t bytes;
    uint32_t open; /* parts under way */
    uint32_t count;
    struct fetch_part parts[];
};

/* ---- sources ---- */

static void source_close(struct node *node, struct fetch_source *source)
{
    source->link->transport->ops->disconnect(source->link);
    list_remove(&source->of_node);
    node->source_count--;
    free(source);
}

static void close_idle(struct node *node, uint32_t keep)
{
    uint32_t idle = 0;

    list_each (&node->sources, link, next) {
        struct fetch_source *source = list_entry(link, struct fetch_source, of_node);

        if (source->users == 0 && ++idle > keep)
            source_close(node, source);
    }
}

static struct fetch_source *source_open(struct node *node, const struct wire_copy_part *part)
{
    struct transport_node to = {.incarnation = part->from_node};
    struct fetch_source *source;

    list_each (&node->sources, link, next) {
        source = list_entry(link, struct fetch_source, of_node);
        if (source->incarnation != part->from_node ||
            !bytes_equal(bytes_of_string(source->address), part->from_address))
            continue;
        list_remove(link);
        list_push_front(&node->sources, link);
        return source;
    }
    source = part->from_address.size > LIMIT_NAME_SIZE ? NULL : calloc(1, sizeof(*source));
    if (source == NULL)
        return NULL;
    memcpy(source->address, part->from_address.at, part->from_address.size);
    source->incarnation = part->from_node;
    to.address = source->address;
    if (node->transport->ops->connect(node->transport, &to, &source->link) != SNOW_OK) {
        free(source);
        return NULL;
    }
    list_push_front(&node->sources, &source->of_node);
    node->source_count++;
    return source;
}

static void source_leave(struct fetch_part *part)
{
    struct node *node = part->fetch->node;

    part->source->users--;
    part->source = NULL;
    if (node->source_count > SOURCES_IDLE_MAX)
        close_idle(node, SOURCES_IDLE_MAX);
}

/* ---- ends ---- */

static void answer(struct fetch *fetch, enum snow_status status)
{
    struct wire_copy_rep reply = {.status = (int32_t)status};
    struct rpc_request *request = fetch->request;

    if (request == NULL)
        return;
    reply.copy = fetch->copy->copy;
    fetch->request = NULL;
    fetch->copy = NULL;
    rpc_request_set_owner(request, NULL);
    rpc_reply(request, &reply, true);
}

static void fetch_free(struct fetch *fetch)
{
    list_remove(&fetch->of_node);
    node_transfers_count(fetch->node, -1);
    free(fetch);
}

/* Its operation is over or cancelled; the extent is no more its business. */
static void part_leave(struct fetch_part *part)
{
    if (part->source != NULL) {
        part->source->link->transport->ops->cancel(&part->op);
        source_leave(part);
    }
    if (part->activity != NULL)
        part->activity->fetch = NULL;
    part->activity = NULL;
}

/* All that it has written goes; nobody knows of it but the master. */
static void fetch_fail(struct fetch *fetch, enum snow_status status)
{
    struct node *node = fetch->node;

    node_count(node, NODE_METRIC_copies_failed, 1);
    for (uint32_t i = 0; i < fetch->count; i++) {
        struct fetch_part *part = &fetch->parts[i];
        bool ours = part->activity != NULL;

        part_leave(part);
        if (ours)
            node_free_slot(node, part->segment, part->slot, fetch->gen,
                           node_close_slot(node, part->segment, part->slot, fetch->gen));
    }
    answer(fetch, status);
    fetch_free(fetch);
}

void node_fetch_cut(struct fetch_part *part)
{
    struct fetch *fetch = part->fetch;

    part_leave(part); /* its slot is closed already */
    fetch_fail(fetch, SNOW_GONE);
}

void node_copy_gone(struct node *node, struct rpc_request *request)
{
    struct fetch *fetch = rpc_request_owner(request);

    (void)node;
    if (fetch == NULL)
        return;
    fetch->request = NULL;
    fetch_fail(fetch, SNOW_CLOSED);
}

static void finish(struct fetch *fetch)
{
    struct node *node = fetch->node;

    for (uint32_t i = 0; i < fetch->count; i++) {
        struct activity *activity = fetch->parts[i].activity;

        part_leave(&fetch->parts[i]);
        if (activity != NULL)
            node_activity_settle(node, activity);
    }
    node_count(node, NODE_METRIC_copies, 1);
    node_count(node, NODE_METRIC_copied_bytes, fetch->bytes);
    answer(fetch, SNOW_OK);
    fetch_free(fetch);
}

/* All bytes of a part are here. */
static void on_part(struct transport_op *op)
{
    struct fetch_part *part = list_entry(op, struct fetch_part, op);
    struct fetch *fetch = part->fetch;
    struct slots *slots = &fetch->node->segments[part->segment];

    source_leave(part);
    if (part->item.status != SNOW_OK) {
        fetch_fail(fetch, part->item.status);
        return;
    }
    if (slots->table[part->slot].state == WIRE_SLOT_WRITING)
        slots_seal(slots, part->slot, part->item.crc, true);
    fetch->bytes += part->item.size;
    if (--fetch->open == 0)
        finish(fetch);
}

/* ---- beginning ---- */

static enum snow_status begin_slot(struct fetch *fetch, struct fetch_part *part,
                                   const struct wire_copy_part *told)
{
    const struct wire_copy_req *copy = fetch->copy;
    struct node *node = fetch->node;
    struct wire_write_item item = {.segment = told->segment,
                                   .slot = told->slot,
                                   .gen = copy->gen,
                                   .offset = told->offset,
                                   .length = told->length,
                                   .object_size = copy->object_size,
                                   .object_offset = told->object_offset,
                                   .part = told->part,
                                   .parts = told->parts,
                                   .replica = told->replica,
                                   .flags = copy->flags,
                                   .tenant = copy->tenant,
                                   .key = copy->key,
                                   .extra = told->part == 0 ? copy->extra : bytes_of(NULL, 0)};

    if (!node_slot_is_ready(node, told->segment, told->slot))
        return SNOW_INVALID;
    struct slots *slots = &node->segments[told->segment];
    enum snow_status status = slots_begin(slots, &item);

    if (status != SNOW_OK)
        return status;
    slots_version_set(slots, told->slot, copy->version);
    part->segment = told->segment;
    part->slot = told->slot;
    part->activity = node_activity_open(node, told->segment, told->slot, copy->gen);
    if (part->activity == NULL) {
        slots_close(slots, told->slot, copy->gen);
        slots_free(slots, told->slot);
        return SNOW_NO_MEMORY;
    }
    part->activity->fetch = part;
    /* What nobody summed up has the checksum of whatever lies there. */
    if (FAULT(node->faults, copy_early))
        slots_seal(slots, told->slot, 0, false);
    return SNOW_OK;
}

static enum snow_status begin_read(struct fetch *fetch, struct fetch_part *part,
                                   const struct wire_copy_part *told)
{
    struct slots *slots = &fetch->node->segments[told->segment];
    struct fetch_source *source = source_open(fetch->node, told);

    if (source == NULL)
        return SNOW_NO_MEMORY;
    part->place = (struct wire_place){.segment = told->from_segment,
                                      .slot = told->from_slot,
                                      .offset = told->from_offset,
                                      .length = told->length,
                                      .mac = told->from_mac};
    part->item =
        (struct transport_item){.place = &part->place, .gen = told->from_gen, .size = told->length};
    transport_item_set_memory(&part->item, slots->data.at + told->offset);
    part->op.on_done = on_part;
    part->op.first = &part->item;
    enum snow_status status = source->link->transport->ops->post(source->link, &part->op);

    if (status != SNOW_OK)
        return status;
    part->source = source;
    source->users++;
    fetch->open++;
    return SNOW_OK;
}

static bool copy_is_valid(const struct wire_copy_req *copy)
{
    return copy->parts_count > 0 && copy->parts_count <= LIMIT_EXTENTS && copy->key.size >= 1 &&
           copy->key.size <= LIMIT_KEY_SIZE && copy->extra.size <= LIMIT_EXTRA_SIZE &&
           copy->version > 0 && copy->version <= copy->gen && copy->version <= SLOT_VERSION_MAX;
}

void node_copy(struct node *node, struct rpc_request *request, const struct wire_copy_req *copy)
{
    uint32_t count = copy->parts_count;
    enum snow_status status = SNOW_OK;
    struct fetch *fetch;

    fetch =
        !copy_is_valid(copy) ? NULL : calloc(1, sizeof(*fetch) + count * sizeof(fetch->parts[0]));
    if (fetch == NULL) {
        struct wire_copy_rep reply = {.copy = copy->copy, .status = SNOW_INVALID};

        rpc_reply(request, &reply, true);
        return;
    }
    fetch->node = node;
    fetch->request = request;
    fetch->copy = copy; /* kept (node.c) */
    fetch->gen = copy->gen;
    fetch->count = count;
    node_transfers_count(node, 1);
    list_push(&node->fetches, &fetch->of_node);
    rpc_request_set_owner(request, fetch);
    for (uint32_t i = 0; i < count && status == SNOW_OK; i++) {
        fetch->parts[i].fetch = fetch;
        status = begin_slot(fetch, &fetch->parts[i], &copy->parts[i]);
    }
    for (uint32_t i = 0; i < count && status == SNOW_OK; i++)
        status = begin_read(fetch, &fetch->parts[i], &copy->parts[i]);
    if (status != SNOW_OK)
        fetch_fail(fetch, status);
    else if (FAULT(node->faults, copy_early))
        answer(fetch, SNOW_OK);
}

/* ---- life ---- */

enum snow_status node_fetch_open(struct node *node)
{
    struct transport_options options = {.lanes = 1,
                                        .piece_bytes = PIECE_BYTES,
                                        .window_bytes = WINDOW_BYTES,
                                        .stall_ns = STALL_NS,
                                        .verify = true};

    return transport_tcp.open(node->rpc, &options, &node->transport);
}

void node_fetch_close(struct node *node)
{
    struct list_link *link;

    while ((link = list_first(&node->fetches)) != NULL) {
        struct fetch *fetch = list_entry(link, struct fetch, of_node);

        for (uint32_t i = 0; i < fetch->count; i++)
            part_leave(&fetch->parts[i]);
        if (fetch->request != NULL)
            rpc_request_set_owner(fetch->request, NULL);
        fetch_free(fetch);
    }
    close_idle(node, 0);
    if (node->transport != NULL)
        node->transport->ops->close(node->transport);
    node->transport = NULL;
}
