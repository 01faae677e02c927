/* The transport within a host: the node's memory is mapped here, and the caller's thread copies.
 *
 * Problem.  The bytes need no node to move them, but its memory changes hands under us.
 * Idea.     A read looks at the slot before and after the copy: the same version both times, or it
 *           is STALE.  A write marks the extent, sees whether its grant still stands, copies, takes
 *           the mark away, and, when that was all of the extent, has the node seal the slot, many
 *           in one message.
 *           The link is dialled when first needed; operations wait for it.  When it is lost, what
 *           was under way ends with CLOSED, and whoever asks again finds another way.
 *
 *   item: waiting ─copy─► copied ─(write, extent whole: seal)─► ended
 * Invariants.
 *   H1  Bytes are written into the node's memory only between mark_set with the look after it, and
 *       mark_clear.
 *   H2  An item ends only when no copy of it is under way (T2).
 *   H3  At most CHUNK items, or CHUNK_BYTES, of an operation are copied at a time.
 * Threads.  The loop's; copies by workers.
 */
#include "transport/shm.h"

#include "base/hash.h"
#include "rpc/peer.h"
#include "transport/crc.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64u
#define CHUNK_BYTES (64 * MIB)
#define ATTACH_NS (2 * NS_PER_S)
#define SEAL_BODY_MAX (LIMIT_BODY_SIZE - 4 * KIB)
#define MARKS_RETRY_NS (200 * NS_PER_US)

struct shm {
    struct transport base; /* first */
    struct rpc *rpc;
    struct env_loop *loop;
    struct transport_options options;
    struct arena scratch; /* a message being made */
};

enum link_state { LINK_IDLE, LINK_DIALLING, LINK_UP, LINK_FAILED };

struct shm_link {
    struct transport_link base; /* first */
    uint64_t incarnation;
    char address[LIMIT_NAME_SIZE + 1];
    enum link_state state;
    struct rpc_peer peer;
    struct rpc_call attach;
    struct shm_space *space; /* NULL: not attached */
    struct list ops;         /* struct shm_op: all that are under way */
    struct env_timer kick;   /* starts and ends what could not inside a call */
};

/* A piece of the caller's memory. */
struct shm_piece {
    struct env_copy copy;
    uint32_t *sums; /* of it; NULL: nobody wants them */
    struct shm_copy *of;
    bool running;
};

/* An item that is copied, or was. */
struct shm_copy {
    struct shm_op *op;
    struct transport_item *item;
    const struct slot *slot;
    struct mark *mark;        /* of a write, while it is copied */
    struct shm_piece *pieces; /* one for each of the item's memory */
    bool summed;              /* with their checksums */
    uint32_t running;
};

/* A message that seals. */
struct shm_seal {
    struct rpc_call call;
    struct shm_op *op;
    struct shm_copy **copies;
    uint32_t count;
    bool lost; /* its connection was, before its answer */
};

struct shm_op {
    struct transport_op *op;
    struct shm_link *link;
    struct list_link link_of; /* in link->ops */
    struct shm_space *space;  /* NULL: not begun */
    struct shm_copy *copies;  /* one an item */
    uint32_t count;
    uint32_t next;    /* first item that was not begun */
    uint32_t copying; /* begun and not ended */
    uint32_t unsealed_first;
    uint32_t unsealed; /* copied, from unsealed_first on, in shm_op.to_seal */
    struct shm_copy **to_seal;
    struct shm_seal *seals;
    uint32_t seal_count;
};

static struct shm *shm_of(const struct shm_link *link)
{
    return (struct shm *)link->base.transport;
}

static uint64_t now_ns(const struct shm_link *link)
{
    return env_now_ns(env_loop_env(shm_of(link)->loop));
}

static void kick(struct shm_link *link, uint64_t after_ns)
{
    if (link->kick.loop == NULL || after_ns == 0)
        env_timer_arm(shm_of(link)->loop, &link->kick, after_ns == 0 ? 0 : now_ns(link) + after_ns);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void end_item(struct shm_op *op, struct transport_item *item, enum snow_status status)
{
    item->status = status;
    op->op->open--;
    if (op->op->on_item != NULL)
        op->op->on_item(op->op, item);
}

static void free_op(struct shm_op *op)
{
    struct transport_op *base = op->op;

    list_remove(&op->link_of);
    shm_space_release(op->space);
    base->link = NULL;
    base->state = NULL;
    arena_deinit(&base->arena);
}

/* The last thing of an event: the operation may be started again by what this calls. */
static void settle(struct shm_op *op)
{
    struct transport_op *base = op->op;

    if (base->open > 0)
        return;
    free_op(op);
    base->on_done(base);
}

/* ---- sealing -------------------------------------------------------------------------------- */

static void end_seal(struct shm_seal *seal, enum snow_status status,
                     const struct wire_seal_rep *done)
{
    for (uint32_t i = 0; i < seal->count; i++) {
        struct transport_item *item = seal->copies[i]->item;
        enum snow_status of_item = status;

        if (status == SNOW_OK)
            of_item = status_is_known(done->items[i].status)
                          ? (enum snow_status)done->items[i].status
                          : SNOW_INVALID;
        item->written = of_item == SNOW_OK && done->items[i].written != 0;
        if (of_item == SNOW_OK && !item->written)
            of_item = SNOW_INVALID;
        end_item(seal->op, item, of_item);
    }
}

static void on_sealed(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct shm_seal *seal = list_entry(call, struct shm_seal, call);
    const struct wire_seal_rep *done = reply;
    struct shm_op *op = seal->op;

    if (!last) { /* no node does that */
        rpc_call_cancel(call);
        status = SNOW_INVALID;
    }
    if (status == SNOW_OK && done->items_count != seal->count)
        status = SNOW_INVALID;
    if (status == SNOW_TIMEOUT && now_ns(op->link) < op->op->deadline_ns)
        status = SNOW_UNREACHABLE; /* it stands still */
    end_seal(seal, status, done);
    settle(op);
}

static void fill_seal(const struct shm_copy *copy, struct wire_seal_item *to)
{
    const struct transport_item *item = copy->item;
    const struct wire_place *place = item->place;

    *to = (struct wire_seal_item){.segment = place->segment,
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
                                  .checked = item->checked,
                                  .crc = item->crc};
}

/* How many of those that were copied fit in one message. */
static uint32_t count_fitting(const struct shm_op *op)
{
    size_t size = 0;
    uint32_t count = 0;

    while (count < op->unsealed && count < LIMIT_BATCH_ITEMS) {
        const struct transport_item *item = op->to_seal[op->unsealed_first + count]->item;

        size += wire_seal_item_size_min(WIRE_VERSION) + item->key.size + item->extra.size;
        if (size > SEAL_BODY_MAX)
            break;
        count++;
    }
    return count;
}

/* A node that does not answer until then stands still. */
static uint64_t answer_by_ns(const struct shm_op *op)
{
    uint64_t stall_ns = shm_of(op->link)->options.stall_ns;
    uint64_t deadline_ns = op->op->deadline_ns;
    uint64_t until_ns = now_ns(op->link) + stall_ns;

    if (stall_ns == 0)
        return deadline_ns;
    return deadline_ns != 0 && deadline_ns < until_ns ? deadline_ns : until_ns;
}

/* Sends one message for what was copied. */
static enum snow_status send_seal(struct shm_op *op, struct shm_seal *seal)
{
    struct shm *shm = shm_of(op->link);
    struct rpc_conn *conn = rpc_peer_conn(&op->link->peer);
    struct wire_seal_req message = {.items_count = seal->count};

    arena_reset(&shm->scratch);
    message.items = arena_array(&shm->scratch, seal->count, sizeof(*message.items));
    if (message.items == NULL)
        return SNOW_NO_MEMORY;
    if (conn == NULL)
        return SNOW_CLOSED;
    for (uint32_t i = 0; i < seal->count; i++)
        fill_seal(seal->copies[i], &message.items[i]);
    return rpc_call_start(conn, &seal->call, WIRE_seal, &message, NULL, answer_by_ns(op));
}

/* All that was copied goes to the node; may end items, and not the operation. */
static void seal_copied(struct shm_op *op)
{
    while (op->unsealed > 0) {
        struct shm_seal *seal = &op->seals[op->seal_count++];

        seal->op = op;
        seal->call.on_reply = on_sealed;
        seal->copies = op->to_seal + op->unsealed_first;
        seal->count = count_fitting(op);
        op->unsealed_first += seal->count;
        op->unsealed -= seal->count;
        enum snow_status status = send_seal(op, seal);

        for (uint32_t i = 0; i < seal->count && status != SNOW_OK; i++)
            end_item(op, seal->copies[i]->item, status);
    }
}

/* ---- copying -------------------------------------------------------------------------------- */

/* Of all its bytes, from the sums of its pieces. */
static uint32_t crc_of(const struct shm_copy *copy)
{
    uint32_t crc = 0;

    for (uint32_t i = 0; i < copy->item->memory_count; i++)
        crc = crc_append(crc, copy->pieces[i].sums, ENV_SUM_BYTES, copy->item->memory[i].iov_len);
    return crc;
}

static bool is_whole(const struct transport_item *item)
{
    return item->size == item->place->length;
}

/* What it compares with is the slot's, while that holds the version (who looks at it after this
 * tells). */
static bool is_damaged(const struct shm_copy *copy)
{
    return copy->summed && copy->slot->unchecked == 0 && crc_of(copy) != copy->slot->data_crc;
}

static bool is_refused(const struct shm_copy *copy)
{
    for (uint32_t i = 0; i < copy->item->memory_count; i++) {
        if (copy->pieces[i].copy.failed)
            return true;
    }
    return false;
}

/* A copy has ended. */
static void end_copy(struct shm_copy *copy)
{
    struct shm_op *op = copy->op;
    struct transport_item *item = copy->item;
    enum snow_status status = SNOW_OK;

    op->copying--;
    item->refused = is_refused(copy);
    if (item->refused)
        status = SNOW_INVALID;
    if (op->op->write) {
        mark_clear(copy->mark);
        if (item->refused) {
            end_item(op, item, status);
            return;
        }
        item->checked = copy->summed;
        item->crc = copy->summed ? crc_of(copy) : 0;
        if (is_whole(item) || item->covered)
            op->to_seal[op->unsealed_first + op->unsealed++] = copy;
        else
            end_item(op, item, SNOW_OK);
        return;
    }
    if (!item->refused && is_damaged(copy))
        status = SNOW_CORRUPT;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!slot_holds(copy->slot, item->gen, item->place->offset, item->place->length))
        status = SNOW_STALE; /* damaged or not, it was something else */
    end_item(op, item, FAULT(env_faults(op->space->env), torn_read) ? SNOW_OK : status);
}

static void go_on(struct shm_op *op);

static void on_copied(struct env_copy *env)
{
    struct shm_piece *piece = list_entry(env, struct shm_piece, copy);
    struct shm_copy *copy = piece->of;
    struct shm_op *op = copy->op;

    piece->running = false;
    if (--copy->running > 0)
        return;
    end_copy(copy);
    go_on(op);
    settle(op);
}

/* The grant stands, and the node knows that we write now; else not OK. */
static enum snow_status mark_write(struct shm_op *op, struct shm_copy *copy)
{
    const struct wire_place *place = copy->item->place;

    if (!op->space->writes)
        return SNOW_REFUSED;
    copy->mark = shm_space_mark(op->space, place, copy->item->gen);
    if (copy->mark == NULL)
        return SNOW_BUSY;
    if (place->key_id == shm_space_key_id(op->space, place->segment) &&
        slot_awaits(copy->slot, copy->item->gen))
        return SNOW_OK;
    mark_clear(copy->mark);
    return SNOW_STALE;
}

static void start_pieces(struct shm_copy *copy, uint8_t *at)
{
    const struct transport_item *item = copy->item;
    const struct transport_op *op = copy->op->op;
    struct env *env = copy->op->space->env;

    for (uint32_t i = 0; i < item->memory_count; i++) {
        struct shm_piece *piece = &copy->pieces[i];
        const struct iovec *memory = &item->memory[i];
        bool device = memory->iov_len > 0 && env_device_has(env, memory->iov_base);

        piece->of = copy;
        piece->copy = (struct env_copy){.to = op->write ? (void *)at : memory->iov_base,
                                        .from = op->write ? memory->iov_base : (void *)at,
                                        .size = memory->iov_len,
                                        .worker = op->worker,
                                        .sums = piece->sums,
                                        .sum_of = device ? at : memory->iov_base,
                                        .device = device ? env : NULL,
                                        .to_device = !op->write,
                                        .on_event = on_copied};
        piece->running = !env_copy(shm_of(copy->op->link)->loop, &piece->copy);
        copy->running += piece->running;
        at += memory->iov_len;
    }
}

/* Begins an item; false: it has to wait. */
static bool begin_item(struct shm_op *op, struct shm_copy *copy)
{
    struct transport_item *item = copy->item;
    uint8_t *at;
    enum snow_status status = shm_space_find(op->space, item->place, &copy->slot, &at);

    if (status == SNOW_OK && op->op->write)
        status = mark_write(op, copy);
    else if (status == SNOW_OK &&
             !slot_holds(copy->slot, item->gen, item->place->offset, item->place->length))
        status = SNOW_STALE;
    if (status == SNOW_BUSY)
        return false;
    if (status != SNOW_OK) {
        end_item(op, item, status);
        return true;
    }
    op->copying++;
    start_pieces(copy, at + item->start);
    if (copy->running == 0)
        end_copy(copy);
    return true;
}

/* Ends what was not begun. */
static void fail_rest(struct shm_op *op, enum snow_status status)
{
    for (; op->next < op->count; op->next++)
        end_item(op, op->copies[op->next].item, status);
}

/* Begins the next chunk when the last one is through.  Items may end, the operation does not. */
static void go_on(struct shm_op *op)
{
    uint64_t bytes = 0;
    uint32_t begun = 0;

    if (op->copying > 0)
        return;
    seal_copied(op);
    if (op->space != op->link->space) { /* the node is another one now, or gone */
        fail_rest(op, SNOW_CLOSED);
        return;
    }
    while (op->next < op->count && begun < CHUNK && bytes < CHUNK_BYTES) {
        struct shm_copy *copy = &op->copies[op->next];

        if (!begin_item(op, copy)) {
            if (op->copying == 0)
                kick(op->link, MARKS_RETRY_NS);
            break;
        }
        bytes += copy->item->size;
        begun++;
        op->next++;
    }
    if (op->copying == 0 && (begun > 0 || op->unsealed > 0)) {
        seal_copied(op);
        if (op->next < op->count)
            kick(op->link, 0);
    }
}

/* ---- the link ------------------------------------------------------------------------------- */

static void link_fail(struct shm_link *link);

/* Seals whose answer never comes. */
static bool has_lost_seal(const struct shm_op *op)
{
    for (uint32_t i = 0; i < op->seal_count; i++) {
        if (op->seals[i].lost)
            return true;
    }
    return false;
}

static void end_lost_seals(struct shm_op *op)
{
    for (uint32_t i = 0; i < op->seal_count; i++) {
        struct shm_seal *seal = &op->seals[i];

        if (!seal->lost)
            continue;
        seal->lost = false;
        end_seal(seal, SNOW_CLOSED, NULL);
    }
}

/* The first operation that something is to be done for; NULL: none. */
static struct shm_op *next_op(struct shm_link *link)
{
    list_each (&link->ops, at, next) {
        struct shm_op *op = list_entry(at, struct shm_op, link_of);

        if ((op->copying == 0 && op->next < op->count) || has_lost_seal(op))
            return op;
    }
    return NULL;
}

/* Begins, goes on with, or ends what is under way. */
static void on_kick(struct env_timer *timer)
{
    struct shm_link *link = list_entry(timer, struct shm_link, kick);
    struct shm_op *op = next_op(link);

    if (link->state == LINK_DIALLING) { /* it took too long */
        link_fail(link);
        return;
    }
    if (op == NULL)
        return;
    /* One an event: it may end, and what it calls may change the list. */
    list_remove(&op->link_of);
    list_push(&link->ops, &op->link_of);
    kick(link, 0);
    end_lost_seals(op);
    if (op->space == NULL && link->state == LINK_UP) {
        op->space = link->space;
        shm_space_use(link->space);
    }
    if (op->space == NULL)
        fail_rest(op, SNOW_CLOSED);
    else
        go_on(op);
    settle(op);
}

/* Nothing moves on it any more; what is under way ends in the next turns, what is copied now when
 * that is over. */
static void link_fail(struct shm_link *link)
{
    list_each (&link->ops, at, next) {
        struct shm_op *op = list_entry(at, struct shm_op, link_of);

        for (uint32_t i = 0; i < op->seal_count; i++) {
            struct shm_seal *seal = &op->seals[i];

            seal->lost = seal->lost || rpc_call_is_open(&seal->call);
            rpc_call_cancel(&seal->call);
        }
    }
    rpc_call_cancel(&link->attach);
    rpc_peer_close(&link->peer);
    shm_space_release(link->space);
    link->space = NULL;
    link->state = LINK_FAILED;
    kick(link, 0);
}

static void on_attached(struct rpc_call *call, enum snow_status status, const void *reply,
                        bool last)
{
    struct shm_link *link = list_entry(call, struct shm_link, attach);
    struct rpc_conn *conn = rpc_peer_conn(&link->peer);

    if (status == SNOW_OK && (!last || conn == NULL))
        status = SNOW_INVALID;
    if (status == SNOW_OK)
        status = shm_space_fill(link->space, rpc_conn_stream(conn), reply);
    if (status != SNOW_OK) {
        link_fail(link);
        return;
    }
    link->state = LINK_UP;
    kick(link, 0);
}

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct shm_link *link = list_entry(peer, struct shm_link, peer);
    struct wire_attach_req attach = {.write = 1};
    struct rpc_conn *conn = rpc_peer_conn(peer);
    enum snow_status status = SNOW_NO_MEMORY;

    (void)hello;
    link->space = shm_space_create(env_loop_env(shm_of(link)->loop));
    if (link->space != NULL)
        status = env_memory_send(rpc_conn_stream(conn), &link->space->memory, false);
    if (status == SNOW_OK)
        status = rpc_call_start(conn, &link->attach, WIRE_attach, &attach, NULL,
                                now_ns(link) + ATTACH_NS);
    if (status != SNOW_OK)
        link_fail(link);
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    (void)status;
    link_fail(list_entry(peer, struct shm_link, peer));
}

static void on_failed(struct rpc_peer *peer, enum snow_status status, struct bytes reason)
{
    (void)status;
    (void)reason;
    link_fail(list_entry(peer, struct shm_link, peer));
}

/* ---- the table ------------------------------------------------------------------------------ */

static enum snow_status shm_open(struct rpc *rpc, const struct transport_options *options,
                                 struct transport **transport)
{
    struct shm *shm = calloc(1, sizeof(*shm));

    if (shm == NULL)
        return SNOW_NO_MEMORY;
    shm->base.ops = &transport_shm;
    shm->rpc = rpc;
    shm->loop = rpc_loop(rpc);
    shm->options = *options;
    arena_init(&shm->scratch, 0);
    *transport = &shm->base;
    return SNOW_OK;
}

static void shm_close(struct transport *transport)
{
    struct shm *shm = (struct shm *)transport;

    arena_deinit(&shm->scratch);
    free(shm);
}

static enum snow_status shm_connect(struct transport *transport, const struct transport_node *node,
                                    struct transport_link **connected)
{
    size_t size = strlen(node->address);
    struct shm_link *link;

    if (size > LIMIT_NAME_SIZE)
        return SNOW_INVALID;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return SNOW_NO_MEMORY;
    link->base.transport = transport;
    link->incarnation = node->incarnation;
    memcpy(link->address, node->address, size + 1);
    list_init(&link->ops);
    link->kick.on_event = on_kick;
    link->attach.on_reply = on_attached;
    link->peer.on_up = on_up;
    link->peer.on_down = on_down;
    link->peer.on_failed = on_failed;
    *connected = &link->base;
    return SNOW_OK;
}

static void shm_disconnect(struct transport_link *base)
{
    struct shm_link *link = (struct shm_link *)base;

    ASSERT(list_is_empty(&link->ops));
    rpc_call_cancel(&link->attach);
    rpc_peer_close(&link->peer);
    env_timer_cancel(&link->kick);
    shm_space_release(link->space);
    free(link);
}

/* Room for the checksums of an item's pieces; false: no memory. */
static bool prepare_sums(struct shm_op *op, struct shm_copy *copy)
{
    const struct transport_options *options = &shm_of(op->link)->options;
    const struct transport_item *item = copy->item;

    copy->summed = is_whole(item) && (op->op->write ? options->sum_near : options->verify_near);
    for (uint32_t i = 0; i < item->memory_count && copy->summed; i++) {
        size_t count = item->memory[i].iov_len / ENV_SUM_BYTES + 1;

        copy->pieces[i].sums = arena_array(&op->op->arena, count, sizeof(uint32_t));
        if (copy->pieces[i].sums == NULL)
            return false;
    }
    return true;
}

/* False: no memory. */
static bool prepare(struct shm_link *link, struct transport_op *base)
{
    struct shm_op *op;
    struct shm_piece *pieces;
    uint32_t count = 0;
    size_t piece_count = 0;

    for (const struct transport_item *item = base->first; item != NULL; item = item->next) {
        count++;
        piece_count += item->memory_count;
    }
    arena_init(&base->arena, 0);
    op = arena_take(&base->arena, sizeof(*op));
    if (op == NULL)
        return false;
    op->copies = arena_array(&base->arena, count, sizeof(*op->copies));
    pieces = arena_array(&base->arena, piece_count, sizeof(*pieces));
    if (op->copies == NULL || pieces == NULL)
        return false;
    if (base->write) { /* a read seals nothing */
        op->to_seal = arena_array(&base->arena, count, sizeof(struct shm_copy *));
        op->seals = arena_array(&base->arena, count, sizeof(*op->seals));
        if (op->to_seal == NULL || op->seals == NULL)
            return false;
    }
    op->op = base;
    op->link = link;
    op->count = count;
    count = 0;
    for (struct transport_item *item = base->first; item != NULL; item = item->next) {
        op->copies[count].op = op;
        op->copies[count].pieces = pieces;
        op->copies[count].item = item;
        pieces += item->memory_count;
        if (!prepare_sums(op, &op->copies[count++]))
            return false;
    }
    base->open = count;
    base->state = op;
    list_push(&link->ops, &op->link_of);
    return true;
}

static enum snow_status shm_post(struct transport_link *base, struct transport_op *op)
{
    struct shm_link *link = (struct shm_link *)base;
    enum snow_status status = SNOW_OK;

    if (link->state == LINK_IDLE) {
        status = rpc_peer_open(&link->peer, shm_of(link)->rpc, link->address, link->incarnation);
        if (status != SNOW_OK)
            return status;
        link->state = LINK_DIALLING;
        kick(link, shm_of(link)->options.stall_ns > 0 ? shm_of(link)->options.stall_ns : ATTACH_NS);
    }
    if (!prepare(link, op)) {
        arena_deinit(&op->arena);
        return SNOW_NO_MEMORY;
    }
    op->link = base;
    if (link->state != LINK_DIALLING)
        kick(link, 0);
    return SNOW_OK;
}

static void shm_cancel(struct transport_op *base)
{
    struct shm_op *op = base->state;

    if (base->link == NULL)
        return;
    for (uint32_t i = 0; i < op->next; i++) {
        struct shm_copy *copy = &op->copies[i];

        if (copy->running == 0)
            continue;
        for (uint32_t k = 0; k < copy->item->memory_count; k++) {
            if (copy->pieces[k].running)
                env_copy_cancel(&copy->pieces[k].copy);
        }
        if (copy->mark != NULL)
            mark_clear(copy->mark);
    }
    for (uint32_t i = 0; i < op->seal_count; i++)
        rpc_call_cancel(&op->seals[i].call);
    free_op(op);
}

static bool shm_is_lost(const struct transport_link *base)
{
    return ((const struct shm_link *)base)->state == LINK_FAILED;
}

/* ---- views ---------------------------------------------------------------------------------- */

static enum snow_status shm_view(struct transport_link *base, const struct wire_place *place,
                                 uint64_t gen, struct transport_view *view)
{
    struct shm_link *link = (struct shm_link *)base;

    return link->state == LINK_UP ? shm_space_view(link->space, place, gen, view) : SNOW_NOT_READY;
}

const struct transport_ops transport_shm = {
    .name = "shm",
    .takes_devices = true,
    .open = shm_open,
    .close = shm_close,
    .connect = shm_connect,
    .disconnect = shm_disconnect,
    .post = shm_post,
    .cancel = shm_cancel,
    .is_lost = shm_is_lost,
    .view = shm_view,
};
