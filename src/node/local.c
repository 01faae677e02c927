/* Clients of this host: they get the memory itself, and mark what they use of it.
 *
 * Problem.  Who maps the memory reads and writes without a word; what it has inside must not be
 *           given out again, and it may stop in the middle or die.
 * Idea.     Each such client hands over a table of marks (wire/marks.h).  Whoever is about to give
 *           an extent up changes its slot first and looks at the marks then; a marked one stays
 *           CLOSED until the mark is gone, which is looked for by a timer, or its process is.
 *           An extent that was granted and never sealed has no slot yet; its mark tells where it
 *           is, and it becomes a CLOSED slot.
 *           Under a new key of grants, those of the old one have ended: what is being written under
 *           them is found by its marks, and a client that marks later sees the new key's id.
 * Invariants.
 *   L1  A client's marks are looked at until it has none, or its process is dead: also when its
 *       connection is lost.
 *   L2  An activity is in node->marked while and only while it is `marked`.
 * Threads.  The service loop. */
#include "node/inside.h"
#include "wire/marks.h"

#include <stdlib.h>

#define LOOK_NS_MIN (1 * NS_PER_MS)
#define LOOK_NS_MAX (20 * NS_PER_MS)

/* A client of this host. */
struct local_peer {
    struct list_link link;    /* in node->locals */
    struct rpc_conn *conn;    /* NULL: lost; its marks may still stand */
    struct env_peer *process; /* of the client */
    struct env_memory marks;
    bool writes; /* it has data mapped writable */
};

/* ---- looking at marks ----------------------------------------------------------------------- */

struct seen_mark {
    uint64_t gen;
    uint64_t offset;
    uint64_t length;
    uint32_t segment;
    uint32_t slot;
};

static int by_place(const void *a, const void *b)
{
    const struct seen_mark *left = a;
    const struct seen_mark *right = b;

    if (left->segment != right->segment)
        return left->segment < right->segment ? -1 : 1;
    if (left->slot != right->slot)
        return left->slot < right->slot ? -1 : 1;
    return left->gen < right->gen ? -1 : left->gen > right->gen;
}

static struct seen_mark *add_marks(const struct local_peer *peer, struct seen_mark *to)
{
    const struct marks *marks = (const void *)peer->marks.at;
    uint32_t end = __atomic_load_n(&marks->end, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < end && i < MARKS_COUNT; i++) {
        const struct mark *mark = &marks->marks[i];
        uint64_t gen = __atomic_load_n(&mark->gen, __ATOMIC_ACQUIRE);

        if (gen == 0)
            continue;
        *to++ = (struct seen_mark){.gen = gen,
                                   .offset = mark->offset,
                                   .length = mark->length,
                                   .segment = mark->segment,
                                   .slot = mark->slot};
    }
    return to;
}

/* Room for all marks of all clients; false: no memory. */
static bool make_room(struct node *node)
{
    uint32_t wanted = node->local_count * MARKS_COUNT;
    struct seen_mark *larger;

    if (wanted <= node->seen_capacity)
        return true;
    larger = realloc(node->seen, wanted * sizeof(*larger));
    if (larger == NULL)
        return false;
    node->seen = larger;
    node->seen_capacity = wanted;
    return true;
}

void node_marks_look(struct node *node)
{
    struct seen_mark *end;

    node->seen_count = 0;
    if (node->local_count == 0)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    end = node->seen;
    list_each (&node->locals, link, next)
        end = add_marks(list_entry(link, struct local_peer, link), end);
    node->seen_count = (uint32_t)(end - node->seen);
    if (node->seen_count > 1)
        qsort(node->seen, node->seen_count, sizeof(*node->seen), by_place);
}

/* The first mark that was seen on this slot; NULL: none. */
static const struct seen_mark *find_mark(const struct node *node, uint32_t segment, uint32_t slot)
{
    uint32_t low = 0;
    uint32_t high = node->seen_count;
    const struct seen_mark wanted = {.segment = segment, .slot = slot};

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (by_place(&node->seen[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < node->seen_count && node->seen[low].segment == segment &&
        node->seen[low].slot == slot)
        return &node->seen[low];
    return NULL;
}

bool node_marks_has(const struct node *node, uint32_t segment, uint32_t slot, uint64_t gen)
{
    const struct seen_mark *mark = find_mark(node, segment, slot);

    return mark != NULL && mark->gen <= gen && !FAULT(node->faults, mark_unseen);
}

/* ---- extents that wait for their marks ------------------------------------------------------ */

static void look_soon(struct node *node, uint64_t after_ns)
{
    node->look_ns = after_ns;
    env_timer_arm(node->loop, &node->look_timer, env_now_ns(node->env) + after_ns);
}

void node_marked_add(struct node *node, struct activity *activity)
{
    if (activity->marked)
        return;
    activity->marked = true;
    list_push(&node->marked, &activity->marked_link);
    node_count(node, NODE_METRIC_marked_held, 1);
    look_soon(node, LOOK_NS_MIN);
}

/* The slot is FREE, but somebody writes where its grant said: it is CLOSED until that is over. */
bool node_marked_quarantine(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen)
{
    const struct seen_mark *mark = find_mark(node, segment, slot);
    struct activity *activity;

    if (mark == NULL || mark->gen > gen || FAULT(node->faults, mark_unseen) ||
        !slots_quarantine(&node->segments[segment], slot, mark->offset, mark->length))
        return false;
    activity = node_activity_open(node, segment, slot, mark->gen);
    if (activity == NULL) {
        slots_free(&node->segments[segment], slot);
        return false;
    }
    activity->closed = true;
    node_marked_add(node, activity);
    return true;
}

static void drop_peer(struct node *node, struct local_peer *peer)
{
    env_memory_close(node->env, &peer->marks);
    env_peer_close(peer->process);
    list_remove(&peer->link);
    node->local_count--;
    free(peer);
}

static bool has_marks(const struct local_peer *peer)
{
    const struct marks *marks = (const void *)peer->marks.at;

    for (uint32_t i = 0; i < MARKS_COUNT; i++) {
        if (__atomic_load_n(&marks->marks[i].gen, __ATOMIC_ACQUIRE) != 0)
            return true;
    }
    return false;
}

/* Lost clients that use nothing any more. */
static void drop_lost(struct node *node)
{
    list_each (&node->locals, link, next) {
        struct local_peer *peer = list_entry(link, struct local_peer, link);

        if (peer->conn == NULL && (!env_peer_is_alive(peer->process) || !has_marks(peer)))
            drop_peer(node, peer);
    }
}

static bool has_lost(const struct node *node)
{
    list_each (&node->locals, link, next) {
        if (list_entry(link, struct local_peer, link)->conn == NULL)
            return true;
    }
    return false;
}

static void on_look(struct env_timer *timer)
{
    struct node *node = list_entry(timer, struct node, look_timer);
    uint64_t next_ns = node->look_ns * 2 < LOOK_NS_MAX ? node->look_ns * 2 : LOOK_NS_MAX;

    drop_lost(node);
    node_marks_look(node);
    list_each (&node->marked, link, next) {
        struct activity *activity = list_entry(link, struct activity, marked_link);

        if (node_marks_has(node, activity->segment, activity->slot, activity->gen))
            continue;
        list_remove(link);
        activity->marked = false;
        next_ns = LOOK_NS_MIN;
        node_activity_settle(node, activity);
    }
    if (!list_is_empty(&node->marked) || has_lost(node))
        look_soon(node, next_ns);
}

/* ---- grants that have ended ----------------------------------------------------------------- */

static void publish_key(struct node *node)
{
    uint32_t key_id = grant_key_id(&node->secret);

    for (uint32_t i = 0; i < node->segment_count; i++) {
        uint8_t *at = node->segments[i].meta.at + SEGMENT_KEY_OFFSET;

        __atomic_store_n((uint32_t *)(void *)at, key_id, __ATOMIC_RELEASE);
    }
}

void node_marks_fence(struct node *node)
{
    publish_key(node);
    node_marks_look(node);
    for (uint32_t i = 0; i < node->seen_count; i++) {
        const struct seen_mark mark = node->seen[i];

        if (mark.segment >= node->segment_count ||
            mark.slot >= node->segments[mark.segment].slots_ready ||
            !slot_awaits(&node->segments[mark.segment].table[mark.slot], mark.gen))
            continue;
        slots_floor_raise(&node->segments[mark.segment], mark.slot, mark.gen);
        node_marked_quarantine(node, mark.segment, mark.slot, mark.gen);
    }
}

/* ---- attaching ------------------------------------------------------------------------------ */

/* NULL: *status says why. */
static struct local_peer *make_peer(struct node *node, struct rpc_conn *conn,
                                    enum snow_status *status)
{
    struct local_peer *peer = calloc(1, sizeof(*peer));

    *status =
        peer == NULL ? SNOW_NO_MEMORY : env_memory_take(rpc_conn_stream(conn), false, &peer->marks);
    if (*status != SNOW_OK) {
        free(peer);
        return NULL;
    }
    peer->process = env_peer_open(rpc_conn_stream(conn));
    peer->conn = conn;
    list_push(&node->locals, &peer->link);
    node->local_count++;
    if (peer->process == NULL)
        *status = SNOW_REFUSED;
    else if (peer->marks.size < sizeof(struct marks))
        *status = SNOW_INVALID;
    else if (!make_room(node))
        *status = SNOW_NO_MEMORY;
    if (*status == SNOW_OK)
        return peer;
    env_memory_close(node->env, &peer->marks);
    if (peer->process != NULL)
        env_peer_close(peer->process);
    list_remove(&peer->link);
    node->local_count--;
    free(peer);
    return NULL;
}

static enum snow_status hand_over(struct node *node, struct local_peer *peer)
{
    struct env_conn *stream = rpc_conn_stream(peer->conn);
    enum snow_status status = SNOW_OK;

    for (uint32_t i = 0; i < node->segment_count && status == SNOW_OK; i++) {
        status = env_memory_send(stream, &node->segments[i].meta, false);
        if (status == SNOW_OK)
            status = env_memory_send(stream, &node->segments[i].data, peer->writes);
    }
    return status;
}

static struct local_peer *peer_of(struct node *node, const struct rpc_conn *conn)
{
    list_each (&node->locals, link, next) {
        struct local_peer *peer = list_entry(link, struct local_peer, link);

        if (peer->conn == conn)
            return peer;
    }
    return NULL;
}

void node_attach(struct node *node, struct rpc_request *request,
                 const struct wire_attach_req *attach)
{
    struct rpc_conn *conn = rpc_request_conn(request);
    bool same_user = env_conn_is_same_user(rpc_conn_stream(conn));
    struct wire_attached attached[LIMIT_SEGMENTS_PER_NODE];
    struct wire_attach_rep reply = {.segments = attached, .segments_count = node->segment_count};
    enum snow_status status = SNOW_OK;
    struct local_peer *peer = NULL;

    if (peer_of(node, conn) != NULL)
        status = SNOW_INVALID;
    else if (!same_user && node->options.shm_peers == NODE_SHM_SAME_USER)
        status = SNOW_REFUSED;
    else
        peer = make_peer(node, conn, &status);
    if (peer != NULL) {
        peer->writes = same_user && attach->write != 0;
        reply.write = peer->writes;
        status = hand_over(node, peer);
    }
    if (status != SNOW_OK) {
        rpc_fail(request, status);
        return;
    }
    for (uint32_t i = 0; i < node->segment_count; i++)
        attached[i] = (struct wire_attached){.size = node->segments[i].data.size,
                                             .slot_count = node->segments[i].count};
    node_count(node, NODE_METRIC_attached, 1);
    rpc_reply(request, &reply, true);
}

void node_local_closed(struct node *node, const struct rpc_conn *conn)
{
    struct local_peer *peer = peer_of(node, conn);

    if (peer == NULL)
        return;
    peer->conn = NULL;
    look_soon(node, 0);
}

/* ---- sealing -------------------------------------------------------------------------------- */

static enum snow_status seal_one(struct node *node, const struct wire_seal_item *seal,
                                 struct wire_write_done *done)
{
    const struct wire_write_item item = {.segment = seal->segment,
                                         .slot = seal->slot,
                                         .gen = seal->gen,
                                         .offset = seal->offset,
                                         .length = seal->length,
                                         .object_size = seal->object_size,
                                         .object_offset = seal->object_offset,
                                         .part = seal->part,
                                         .parts = seal->parts,
                                         .replica = seal->replica,
                                         .flags = seal->flags,
                                         .tenant = seal->tenant,
                                         .mac = seal->mac,
                                         .key = seal->key,
                                         .extra = seal->extra};
    enum snow_status status = node_write_check(node, &item);

    if (status != SNOW_OK)
        return status;
    struct slots *slots = &node->segments[item.segment];
    const struct slot *slot = &slots->table[item.slot];

    done->written = 1;
    if (slot->state == WIRE_SLOT_WRITTEN && slot->gen == item.gen)
        return SNOW_OK; /* asked again */
    status = slots_begin(slots, &item);
    done->written = status == SNOW_OK;
    if (status != SNOW_OK)
        return status;
    slots_seal(slots, item.slot, seal->crc, seal->checked != 0);
    node_count(node, NODE_METRIC_sealed, 1);
    node_count(node, NODE_METRIC_sealed_bytes, item.length);
    return SNOW_OK;
}

void node_seal(struct node *node, struct rpc_request *request, const struct wire_seal_req *seal)
{
    struct wire_write_done *done = calloc(seal->items_count + 1, sizeof(*done));
    struct wire_seal_rep reply = {.items = done, .items_count = seal->items_count};
    const struct local_peer *peer = peer_of(node, rpc_request_conn(request));

    if (done == NULL || peer == NULL || !peer->writes) {
        rpc_fail(request, done == NULL ? SNOW_NO_MEMORY : SNOW_INVALID);
        free(done);
        return;
    }
    for (uint32_t i = 0; i < seal->items_count; i++) {
        enum snow_status status = seal_one(node, &seal->items[i], &done[i]);

        done[i].status = (int32_t)status;
        node_count(node, NODE_METRIC_writes_refused, status != SNOW_OK);
    }
    rpc_reply(request, &reply, true);
    free(done);
}

/* ---- life ----------------------------------------------------------------------------------- */

enum snow_status node_local_open(struct node *node)
{
    node->look_timer.on_event = on_look;
    for (uint32_t i = 0; i < node->segment_count; i++)
        env_memory_seal(&node->segments[i].meta);
    if (node->options.near[0] == 0 || node->options.shm_peers == NODE_SHM_NONE)
        return SNOW_OK;
    return rpc_listen_near(node->rpc, node->options.near);
}

void node_local_close(struct node *node)
{
    struct list_link *link;

    env_timer_cancel(&node->look_timer);
    while ((link = list_first(&node->locals)) != NULL)
        drop_peer(node, list_entry(link, struct local_peer, link));
    free(node->seen);
}
