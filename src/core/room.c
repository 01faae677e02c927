/* Room: where a new object goes, what is evicted for it, and who waits.
 *
 * Problem.  A full pool is not an error (P6): a put takes what is free, else what eviction makes
 * free, in order, within
 *           its wait time; and it never evicts more than it needs.
 * Idea.     Just in time: a grant evicts ahead until free + coming reaches the reserve.  When a
 * put finds no run it
 *           evicts for itself and stands in one queue; each freed extent is offered to its head.
 * Invariants.
 *   M1  coming_bytes of a segment = bytes of its CLOSING extents that count (closing.c).
 *   M2  wanted_bytes of a segment = bytes of the waiters that evicted there.
 *   M3  A waiter is passed at most 16 times.
 * The objects of a request go to one segment until 64 MiB, then to the next: a chain is usable
 * only to its first hole.
 * Threads.  The core's own. */
#include "core/inside.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_SHARE (64 * MIB)
#define PASSED_MAX 16u
#define LOOK_AHEAD 8u
#define RESERVE_MAX (256 * MIB)
#define BREAK_PROBES_NS (50 * NS_PER_MS)
#define BREAK_READS_NS (500 * NS_PER_MS)
#define PIECE_MIN (64 * KIB)

bool core_segment_open(const struct core *core, const struct segment *segment)
{
    if (segment->space == NULL || space_is_recovering(segment->space))
        return false;
    const struct node *node = core->nodes[segment->node];

    return node->state == NODE_ALIVE && node->linked;
}

static uint64_t reserve_of(const struct core *core, const struct segment *segment)
{
    uint64_t size = space_size(segment->space);
    uint64_t reserve = core->options.reserve_bytes;

    if (reserve == 0) {
        reserve = size / 100;
        if (reserve < 2 * core->largest_recent)
            reserve = 2 * core->largest_recent;
        if (reserve > size / 20)
            reserve = size / 20;
        if (reserve > RESERVE_MAX)
            reserve = RESERVE_MAX;
    }
    return reserve;
}

/* ---- choosing a segment ---- */

struct choice {
    const struct part *taken; /* parts of earlier replicas: other nodes, then other hosts */
    uint32_t taken_count;
    struct bytes name; /* preferred, may be empty */
};

static bool node_taken(const struct core *core, const struct choice *choice, uint32_t node)
{
    for (uint32_t i = 0; i < choice->taken_count; i++) {
        if (core->segments[choice->taken[i].segment]->node == node)
            return true;
    }
    return false;
}

static bool host_taken(const struct core *core, const struct choice *choice, uint32_t node)
{
    for (uint32_t i = 0; i < choice->taken_count; i++) {
        const struct segment *segment = core->segments[choice->taken[i].segment];

        if (strcmp(core->nodes[segment->node]->host, core->nodes[node]->host) == 0)
            return true;
    }
    return false;
}

/* The better of two candidates: not on a host that has a copy, more free, an older victim. */
static struct segment *better(struct core *core, const struct choice *choice, struct segment *a,
                              struct segment *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    bool a_host = host_taken(core, choice, a->node);
    bool b_host = host_taken(core, choice, b->node);

    if (a_host != b_host)
        return a_host ? b : a;
    uint64_t a_free = (space_free_bytes(a->space) >> 8) * 1000 / (space_size(a->space) >> 8);
    uint64_t b_free = (space_free_bytes(b->space) >> 8) * 1000 / (space_size(b->space) >> 8);

    if (a_free > 50 || b_free > 50)
        return a_free >= b_free ? a : b;
    uint32_t a_victim = core_victim_next(core, a);
    uint32_t b_victim = core_victim_next(core, b);

    if (a_victim == 0 || b_victim == 0)
        return a_victim == 0 ? b : a;
    uint32_t now = (uint32_t)core->touches;

    return now - core_object(core, a_victim)->last_touch >=
                   now - core_object(core, b_victim)->last_touch
               ? a
               : b;
}

static bool may_serve(struct core *core, const struct choice *choice, struct segment *segment)
{
    return core_segment_open(core, segment) && !node_taken(core, choice, segment->node);
}

/* One that may serve, from a random start on. */
static struct segment *random_segment(struct core *core, const struct choice *choice)
{
    uint32_t start;

    if (core->segment_count == 0)
        return NULL;
    start = (uint32_t)rng_below(&core->rng, core->segment_count);
    for (uint32_t i = 0; i < core->segment_count; i++) {
        struct segment *segment = core->segments[(start + i) % core->segment_count];

        if (may_serve(core, choice, segment))
            return segment;
    }
    return NULL;
}

static struct segment *choose(struct core *core, struct request *request,
                              const struct choice *choice)
{
    if (choice->taken_count == 0 && request->segment != UINT16_MAX &&
        request->placed < REQUEST_SHARE &&
        may_serve(core, choice, core->segments[request->segment]))
        return core->segments[request->segment];
    for (uint32_t i = 0; i < core->segment_count && choice->name.size > 0; i++) {
        struct segment *segment = core->segments[i];

        if (may_serve(core, choice, segment) &&
            bytes_equal(choice->name, bytes_of_string(segment->name)))
            return segment;
    }
    struct segment *first = random_segment(core, choice);

    if (core->segment_count < 2)
        return first;
    return better(core, choice, first, random_segment(core, choice));
}

/* ---- taking ---- */

static uint64_t key_tail(const struct wire_put_item *item)
{
    return item->key.size > WIRE_KEY_INLINE ? item->key.size : 0;
}

void core_place_undo(struct core *core, const struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = core->segments[parts[i].segment];

        core->free_bytes += space_capacity(segment->space, parts[i].slot);
        space_give(segment->space, parts[i].slot);
    }
}

/* size: bytes of the object; tail: bytes that its key needs behind them. */
static bool take_one(struct core *core, struct segment *segment, uint64_t size, uint64_t tail,
                     uint32_t owner, struct part *part)
{
    uint32_t slot;

    if (space_take(segment->space, size + tail, owner, &slot) != SNOW_OK)
        return false;
    core->free_bytes -= space_capacity(segment->space, slot);
    *part = (struct part){
        .segment = (uint16_t)segment->index, .present = true, .slot = slot, .length = size};
    return true;
}

/* What is to be placed. */
struct load {
    uint64_t size; /* bytes of the object */
    uint64_t tail; /* bytes of a long key, in the extent of part 0 */
    uint32_t owner;
};

/* Several extents of one segment, largest runs first; adds to parts and returns the bytes still
 * missing. */
static uint64_t take_pieces(struct core *core, struct segment *segment, uint64_t left,
                            const struct load *load, struct part *parts, uint32_t *count)
{
    while (left > 0 && *count < LIMIT_PARTS) {
        uint64_t tail = *count == 0 ? load->tail : 0;
        uint64_t run = space_largest_run(segment->space) / SPACE_ALIGN * SPACE_ALIGN;
        uint64_t piece = run < left + tail ? run : left + tail;

        if (piece < left + tail && piece < PIECE_MIN)
            break;
        if (!take_one(core, segment, piece - tail, tail, load->owner, &parts[*count]))
            break;
        left -= piece - tail;
        (*count)++;
    }
    return left;
}

/* One replica: one extent of the chosen segment, else pieces of it, else pieces of others too. */
static bool take_replica(struct core *core, struct segment *segment, const struct choice *choice,
                         const struct load *load, struct part *parts, uint32_t *count)
{
    uint64_t size = load->size;

    *count = 0;
    if (take_one(core, segment, size, load->tail, load->owner, &parts[0])) {
        *count = 1;
        return true;
    }
    uint64_t left = take_pieces(core, segment, size, load, parts, count);

    /* Elsewhere only when the segment is too small for it: else eviction there makes room. */
    for (uint32_t i = 0; i < core->segment_count && left > 0 &&
                         size + load->tail > space_size(segment->space) - reserve_of(core, segment);
         i++) {
        struct segment *other = core->segments[i];

        if (other != segment && may_serve(core, choice, other))
            left = take_pieces(core, other, left, load, parts, count);
    }
    if (left == 0 && *count > 0)
        return true;
    core_place_undo(core, parts, *count);
    *count = 0;
    return false;
}

static void number_parts(struct part *parts, uint32_t count, uint8_t replica)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < count; i++) {
        parts[i].replica = replica;
        parts[i].part = (uint16_t)i;
        parts[i].parts = (uint16_t)count;
        parts[i].object_offset = offset;
        offset += parts[i].length;
    }
}

/* A session whose open writes fill their share has to end some first, if it has any. */
static bool session_is_full(const struct core *core, const struct request *request, uint64_t size)
{
    const struct session *session = core->sessions[request->session];

    return session->writing_bytes > 0 &&
           session->writing_bytes + size > core->pool_bytes / LIMIT_OPEN_WRITE_SHARE;
}

enum snow_status core_place(struct core *core, struct request *request, uint32_t item,
                            uint32_t owner, struct part *parts, uint32_t *count)
{
    const struct wire_put_start_req *put = request->message;
    uint64_t size = put->items[item].size;
    uint8_t replicas = put->items[item].replicas;
    struct load load = {.size = size, .tail = key_tail(&put->items[item]), .owner = owner};
    struct choice choice = {.taken = parts, .name = put->segment};

    *count = 0;
    if (session_is_full(core, request, size))
        return SNOW_NO_SPACE;
    for (uint8_t replica = 0; replica < replicas; replica++) {
        struct segment *segment;
        uint32_t taken = 0;

        choice.taken_count = *count;
        segment = choose(core, request, &choice);
        if (segment == NULL && replica > 0)
            break; /* fewer nodes than copies: a shortfall */
        if (replica == 0 && segment != NULL) {
            request->placed = request->segment == segment->index ? request->placed : 0;
            request->segment = (uint16_t)segment->index;
        }
        if (segment == NULL ||
            !take_replica(core, segment, &choice, &load, &parts[*count], &taken)) {
            core_place_undo(core, parts, *count);
            *count = 0;
            return SNOW_NO_SPACE;
        }
        number_parts(&parts[*count], taken, replica);
        *count += taken;
    }
    request->placed += size;
    return SNOW_OK;
}

/* ---- evicting ---- */

/* Evicts until free + coming reaches bytes; false: nothing more may go. */
static bool evict(struct core *core, struct segment *segment, uint64_t bytes)
{
    while (space_free_bytes(segment->space) + segment->coming_bytes < bytes) {
        uint32_t victim = core_victim_next(core, segment);

        if (victim == 0)
            return false;
        core_close(core, victim, CLOSE_EVICTED);
    }
    return true;
}

void core_room_ahead(struct core *core, struct segment *segment)
{
    evict(core, segment, reserve_of(core, segment) + segment->wanted_bytes);
}

/* ---- the queue ---- */

static uint64_t item_bytes(const struct waiter *waiter)
{
    const struct wire_put_start_req *put = waiter->request->message;

    const struct wire_put_item *item = &put->items[waiter->item];

    return space_round(item->size + key_tail(item));
}

static void room_unwant(struct core *core, struct waiter *waiter)
{
    if (waiter->segment == UINT16_MAX)
        return;
    core->segments[waiter->segment]->wanted_bytes -= waiter->bytes;
    waiter->segment = UINT16_MAX;
}

/* Chooses where the waiter's room is to come from and evicts there; false: no victim. */
static bool room_want(struct core *core, struct waiter *waiter)
{
    struct request *request = waiter->request;
    const struct wire_put_start_req *put = request->message;
    struct choice choice = {.name = put->segment};

    room_unwant(core, waiter);
    if (session_is_full(core, request, put->items[waiter->item].size))
        return true; /* it waits for its own writes */
    struct segment *segment = choose(core, request, &choice);

    if (segment == NULL)
        return false;
    request->segment = (uint16_t)segment->index;
    waiter->segment = (uint16_t)segment->index;
    waiter->bytes = item_bytes(waiter);
    segment->wanted_bytes += waiter->bytes;
    uint64_t target = segment->wanted_bytes;

    /* Enough bytes but no fitting run: make the next victim go as well. */
    if (space_free_bytes(segment->space) >= target && segment->coming_bytes == 0)
        target = space_free_bytes(segment->space) + waiter->bytes;
    return evict(core, segment, target);
}

static bool larger_than_the_pool(const struct core *core, uint64_t size)
{
    return core->pool_bytes > 0 && core->missing == 0 && space_round(size) > core->pool_bytes;
}

void core_room_wait(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;
    uint64_t size = put->items[index].size;
    struct waiter *waiter = NULL;

    if (request->wait_ns > 0 && !larger_than_the_pool(core, size))
        waiter = core_waiter_create(core, request, index);
    if (waiter == NULL) {
        bool bound = request->wait_ns > 0 && !larger_than_the_pool(core, size);
        struct wire_put_grant *grant =
            core_answer_grant(core, request, index, bound ? SNOW_BUSY : SNOW_NO_SPACE);

        grant->hint_ms = bound ? 100 : 0;
        grant->reason = bytes_of_string(core_room_reason(core, size));
        core_count(core, bound ? CORE_METRIC_busy : CORE_METRIC_puts_refused_space, 1);
        return;
    }
    waiter->on_room = true;
    waiter->segment = UINT16_MAX;
    list_push(&core->room, &waiter->link);
    core_count(core, CORE_METRIC_puts_waited, 1);
    room_want(core, waiter);
    core->room_changed = true; /* served, or its breaking of leases timed, at the end of the step */
}

void core_room_leave(struct core *core, struct waiter *waiter)
{
    ASSERT(waiter->on_room);
    room_unwant(core, waiter);
    waiter->on_room = false;
    list_remove(&waiter->link);
    core->room_changed = true;
}

/* Gives a waiter its grant if there is room for it now. */
static bool serve(struct core *core, struct waiter *waiter)
{
    struct request *request = waiter->request;
    uint32_t item = waiter->item;

    if (!core_room_try(core, request, item))
        return false;
    core_waiter_end(core, waiter);
    return true;
}

/* Under pressure leases yield: probes first, then reads; when they had to, at once for the next
 * second. */
static void break_leases(struct core *core, struct waiter *waiter)
{
    uint64_t waited_ns = core->now_ns - waiter->since_ns;
    uint64_t wait_ns = waiter->request->wait_ns;
    uint64_t probes_ns = wait_ns / 4 < BREAK_PROBES_NS ? wait_ns / 4 : BREAK_PROBES_NS;
    uint64_t reads_ns = wait_ns / 2 < BREAK_READS_NS ? wait_ns / 2 : BREAK_READS_NS;
    bool at_once = core->now_ns < core->breaking_until_ns;
    uint64_t bytes = item_bytes(waiter);
    uint32_t broken = 0;

    if (at_once || waited_ns >= probes_ns)
        broken += core_lease_break(core, LEASE_PROBE, bytes);
    if (broken == 0 && (at_once || waited_ns >= reads_ns))
        broken += core_lease_break(core, LEASE_READ, bytes);
    if (broken > 0) {
        core->breaking_until_ns = core->now_ns + NS_PER_S;
        room_want(core, waiter);
        return;
    }
    uint64_t next_ns = waiter->since_ns + (waited_ns < probes_ns ? probes_ns : reads_ns);

    if (next_ns > core->now_ns)
        wheel_arm(&core->wheel, &core->room_timer, next_ns);
}

/* The first that does not wait for its own session's writes. */
static struct waiter *head_of_room(struct core *core)
{
    list_each (&core->room, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        if (!session_is_full(core, waiter->request, item_bytes(waiter)))
            return waiter;
    }
    return NULL;
}

/* Smaller ones behind the head take what does not serve it, 16 times at most. */
static void serve_behind(struct core *core, struct waiter *head)
{
    uint32_t looked = 0;

    for (struct list_link *link = head->link.next; link != &core->room.head;) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        link = link->next;
        if (head->passed >= PASSED_MAX || looked++ >= LOOK_AHEAD)
            return;
        if (item_bytes(waiter) < item_bytes(head) && serve(core, waiter))
            head->passed++;
    }
}

void core_room_serve(struct core *core)
{
    struct waiter *head;

    core->room_changed = false;
    while ((head = head_of_room(core)) != NULL && serve(core, head))
        ;
    if (head == NULL)
        return;
    if (!room_want(core, head))
        break_leases(core, head);
    serve_behind(core, head);
}

/* What is in the way, for people: told with NO_SPACE.  Lives until the outputs are reset. */
const char *core_room_reason(struct core *core, uint64_t size)
{
    char *text = core_out(core, 1, 256);

    if (core->pool_bytes == 0)
        return "no node has given memory";
    if (larger_than_the_pool(core, size)) {
        snprintf(text, 256, "the object (%llu bytes) is larger than the pool (%llu bytes)",
                 (unsigned long long)size, (unsigned long long)core->pool_bytes);
        return text;
    }
    uint64_t writing = 0;

    for (uint32_t i = 0; i < core->session_count; i++) {
        if (core->sessions[i] != NULL)
            writing += core->sessions[i]->writing_bytes;
    }
    snprintf(text, 256,
             "of %llu bytes: %llu free in runs that do not fit, %llu leased, %llu hard-pinned, "
             "%llu being written, %llu waiting for an acknowledgement",
             (unsigned long long)core->pool_bytes, (unsigned long long)core->free_bytes,
             (unsigned long long)core->leased_bytes, (unsigned long long)core->hard_pinned_bytes,
             (unsigned long long)writing, (unsigned long long)core->closing_bytes);
    return text;
}
