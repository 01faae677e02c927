/* Room: what is evicted for a put, and who waits.  (Where objects go: place.c.)
 *
 * Problem.  A full pool is not an error (P6): a put takes what is free, else what eviction makes
 *           free, in order, within its wait time; and it never evicts more than it needs.
 * Idea.     Just in time: a grant evicts ahead until free + coming reaches the reserve.  When a
 *           put finds no run it evicts for itself and stands in one queue; each freed extent is
 *           offered to its head.
 * Invariants.
 *   M1  coming_bytes of a segment = bytes of its CLOSING extents that count (closing.c).
 *   M2  wanted_bytes of a segment = bytes of the waiters that make room there.
 *   M3  A waiter is passed at most 16 times.
 *   M4  Who waits for its own session's open writes stands in the session's queue and blocks
 *       nobody else.  Somebody stands there only while the session has open writes or others of it
 *       stand in the queue for room.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdio.h>

#define PASSED_MAX 16u
#define LOOK_AHEAD 8u
#define STEP_WAITERS (4 * LIMIT_STEP_OBJECTS)
#define RESERVE_MAX (256 * MIB)
#define RATE_WINDOW_NS (100 * NS_PER_MS)
#define BREAK_PROBES_NS (50 * NS_PER_MS)
#define BREAK_READS_NS (500 * NS_PER_MS)
#define REASON_SIZE 384u
#define LARGE (1 * MIB) /* objects that have neighbours go rather than whatever is next */
#define SLOTS_FEW 3u    /* an extent may need so many */

/* ---- the reserve ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t core_room_reserve(const struct core *core, const struct segment *segment)
{
    uint64_t size = segment->size;
    uint64_t ahead = segment->rate / 1000 * (2 * core->forget_ns / 1000) / 1000;

    if (core->options.reserve_bytes != 0)
        return smaller(core->options.reserve_bytes, size);
    uint64_t wanted = larger(size / 100, larger(2 * core->largest_recent, ahead));

    return smaller(wanted, smaller(size / 20, RESERVE_MAX));
}

/* Bytes granted a second, over windows of 100 ms. */
static void note_rate(struct core *core, struct segment *segment, uint64_t bytes)
{
    uint64_t elapsed_ns = core->now_ns - segment->rate_since_ns;

    segment->rate_bytes += bytes;
    if (elapsed_ns < RATE_WINDOW_NS)
        return;
    uint64_t now = segment->rate_bytes / (elapsed_ns / NS_PER_MS) * 1000;

    segment->rate = elapsed_ns > NS_PER_S ? now : segment->rate / 2 + now / 2;
    segment->rate_bytes = 0;
    segment->rate_since_ns = core->now_ns;
}

/* ---- evicting ---- */

/* Evicts until free + coming reaches bytes; false: nothing more may go.  What a step may not do
 * any more is done in the next.  Where there is memory that is not ready yet, that is asked for
 * instead. */
static bool evict(struct core *core, struct segment *segment, uint64_t bytes)
{
    if (core_segment_can_grow(segment)) {
        core_grow(core, segment, bytes);
        return true;
    }
    while (space_free_bytes(segment->space) + segment->coming_bytes < bytes) {
        uint32_t victim = core_victim_next(core, segment);

        if (core->evictions_left > 0 && core_second_gives_way(core, segment, victim)) {
            core->evictions_left--;
            continue;
        }
        if (victim == 0)
            return false;
        if (core->evictions_left == 0)
            return true;
        core->evictions_left--;
        core_victim_evict(core, victim);
    }
    return true;
}

void core_room_ahead(struct core *core, const struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = core->segments[parts[i].segment];

        note_rate(core, segment, core_part_bytes(&parts[i]));
        if (i == 0 || parts[i - 1].segment != parts[i].segment)
            evict(core, segment, core_room_reserve(core, segment) + segment->wanted_bytes);
    }
}

/* An object larger than a segment takes what others can give as well. */
static bool evict_elsewhere(struct core *core, const struct segment *segment, uint64_t left)
{
    bool made = false;

    for (uint32_t i = 0; i < core->segment_count && left > 0; i++) {
        struct segment *other = core->segments[i];

        if (other == segment || !core_segment_open(core, other))
            continue;
        uint64_t bytes = smaller(left, other->size);

        made = evict(core, other, bytes) || made;
        left -= bytes;
    }
    return made;
}

/* Evicts for an object of that many bytes; wanted: what is wanted there in all.  A large object,
 * or one that finds no run among enough free bytes, has neighbours go; where those do not serve it
 * is to take pieces of any size (*scraps, unless NULL), before others go for nothing. */
bool core_room_make(struct core *core, struct segment *segment, uint64_t bytes, uint64_t wanted,
                    bool *scraps)
{
    uint64_t size = segment->size;
    uint64_t free_bytes = space_free_bytes(segment->space);
    uint64_t target = smaller(wanted, size);
    bool fragmented = free_bytes >= target && segment->coming_bytes == 0;
    bool large = bytes >= LARGE && free_bytes + segment->coming_bytes < target;
    bool made = (fragmented || large) && bytes <= size && !core_segment_can_grow(segment) &&
                space_slots_free(segment->space) >= SLOTS_FEW && core_widen(core, segment, bytes);

    if (fragmented && !made && scraps != NULL && !*scraps && free_bytes >= bytes) {
        *scraps = true;
        return true;
    }
    /* Without such neighbours and with too many pieces, or without slots, more goes in the policy's
     * order. */
    if (fragmented && !made)
        target = free_bytes + smaller(bytes, size);
    made = evict(core, segment, target) || made;
    return bytes > size ? evict_elsewhere(core, segment, bytes - size) || made : made;
}

/* ---- the queue ---- */

bool core_session_is_full(const struct core *core, const struct session *session, uint64_t bytes)
{
    return session->writing_bytes > 0 &&
           session->writing_bytes + bytes > core->pool_bytes / LIMIT_OPEN_WRITE_SHARE;
}

static const struct wire_put_item *item_of(const struct waiter *waiter)
{
    const struct wire_put_start_req *put = waiter->request->message;

    return &put->items[waiter->item];
}

static const struct wire_put_start_req *put_of(const struct waiter *waiter)
{
    return waiter->request->message;
}

static uint64_t bytes_of_waiter(const struct waiter *waiter)
{
    return core_place_bytes(put_of(waiter), waiter->item);
}

static struct session *session_of(const struct core *core, const struct waiter *waiter)
{
    return core->sessions[waiter->request->session];
}

static void unwant(struct core *core, struct waiter *waiter)
{
    if (waiter->segment == UINT16_MAX)
        return;
    core->segments[waiter->segment]->wanted_bytes -= waiter->bytes;
    waiter->segment = UINT16_MAX;
}

static void mark_wanted(struct waiter *waiter, struct segment *segment)
{
    waiter->segment = (uint16_t)segment->index;
    waiter->bytes = bytes_of_waiter(waiter);
    segment->wanted_bytes += waiter->bytes;
}

static bool want_in(struct core *core, struct waiter *waiter, struct segment *segment)
{
    unwant(core, waiter);
    mark_wanted(waiter, segment);
    return core_room_make(core, segment, waiter->bytes, segment->wanted_bytes,
                          &waiter->request->scraps);
}

/* A value and what replaces it that can not be there together: the old one goes before anything
 * else does, if it may. */
static void evict_replaced(struct core *core, const struct wire_put_start_req *put, uint32_t index)
{
    const struct wire_put_item *item = &put->items[index];
    uint64_t bytes = core_place_bytes(put, index) * item->replicas;

    if ((item->flags & WIRE_PUT_REPLACE) == 0)
        return;
    struct key_hash key = core_key_hash(item->key);
    uint32_t old = core_object_find(core, key.key, key.hash, OBJECT_READABLE);

    if (old == 0 || core_object(core, old)->grouped ||
        (core_object(core, old)->flags & OBJECT_LISTED) == 0 ||
        bytes + core_object_bytes(core, old) + core->hard_pinned_bytes <= core->pool_bytes)
        return;
    core_count(core, CORE_METRIC_replaced_first, 1);
    core_close(core, old, CLOSE_EVICTED);
}

/* Chooses where the waiter's room is to come from and evicts there; false: no victim. */
static bool want(struct core *core, struct waiter *waiter)
{
    struct request *request = waiter->request;
    struct segment *segment = core_place_lacking(core, request);

    evict_replaced(core, put_of(waiter), waiter->item);

    if (segment == NULL) {
        unwant(core, waiter);
        return false;
    }
    if (want_in(core, waiter, segment))
        return true;
    segment = core_place_elsewhere(core, request, bytes_of_waiter(waiter));
    return segment != NULL && want_in(core, waiter, segment);
}

static bool larger_than_the_pool(const struct core *core, const struct wire_put_start_req *put,
                                 uint32_t index)
{
    return core->pool_bytes > 0 && core->missing == 0 &&
           core_place_bytes(put, index) > core->pool_bytes;
}

/* No waiting: for want of time, of any hope, or of a place among the waiters. */
static void refuse(struct core *core, struct request *request, uint32_t index, bool hopeless)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    bool bound = request->wait_ns > 0 && !hopeless;
    struct wire_put_grant *grant =
        core_answer_grant(core, request, index, bound ? SNOW_BUSY : SNOW_NO_SPACE);

    grant->hint_ms = bound ? 100 : 0;
    grant->reason = bytes_of_string(core_room_reason(core, request, index));
    core_count(core, bound ? CORE_METRIC_busy : CORE_METRIC_puts_refused_space, 1);
    if (hopeless || core_session_is_full(core, core->sessions[request->session], item->size))
        return;
    struct segment *segment = core_place_lacking(core, request);

    /* The next attempt is to find room. */
    evict_replaced(core, put, index);
    if (segment != NULL)
        core_room_make(core, segment, core_place_bytes(put, index),
                       segment->wanted_bytes + core_place_bytes(put, index), NULL);
}

static bool stands_before(const struct list_link *link, uint64_t admitted)
{
    const struct waiter *waiter = list_entry(link, struct waiter, link);

    return waiter->admitted != 0 && waiter->admitted <= admitted;
}

/* Members of groups that are being formed stand before all others, in the order in which their
 * groups were admitted. */
void core_room_enter(struct core *core, struct waiter *waiter)
{
    struct list_link *at = &core->room.head;

    waiter->admitted = put_of(waiter)->members_count == 0
                           ? 0
                           : core_group_admitted(core, waiter->request, waiter->item);
    while (waiter->admitted != 0 && at->next != &core->room.head &&
           stands_before(at->next, waiter->admitted))
        at = at->next;
    if (waiter->admitted != 0)
        list_insert_after(at, &waiter->link);
    else
        list_push(&core->room, &waiter->link);
}

void core_room_wait(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct session *session = core->sessions[request->session];
    bool hopeless = larger_than_the_pool(core, put, index);
    struct waiter *waiter = NULL;

    if (request->wait_ns > 0 && !hopeless)
        waiter = core_waiter_create(core, request, index);
    if (waiter == NULL) {
        refuse(core, request, index, hopeless);
        return;
    }
    waiter->on_room = true;
    waiter->size = item->size;
    core_count(core, CORE_METRIC_puts_waited, 1);
    if (put->members_count > 0 && core_group_must_wait(core, request, index)) {
        list_push(&core->forming_room, &waiter->link);
        return;
    }
    if (!list_is_empty(&session->room) || core_session_is_full(core, session, item->size)) {
        list_push(&session->room, &waiter->link);
        return;
    }
    core_room_enter(core, waiter);
    want(core, waiter);
    core->room_changed = true; /* served, or its breaking of leases timed, at the end of the step */
}

void core_room_leave(struct core *core, struct waiter *waiter)
{
    ASSERT(waiter->on_room);
    unwant(core, waiter);
    waiter->on_room = false;
    list_remove(&waiter->link);
    core->room_changed = true;
    core_room_return(core, session_of(core, waiter));
}

void core_room_return(struct core *core, struct session *session)
{
    uint64_t share = core->pool_bytes / LIMIT_OPEN_WRITE_SHARE;
    uint64_t taken = session->writing_bytes;
    struct list_link *link;

    while ((link = list_first(&session->room)) != NULL) {
        uint64_t size = list_entry(link, struct waiter, link)->size;

        if (taken > 0 && taken + size > share)
            return;
        taken += size;
        list_remove(link);
        core_room_enter(core, list_entry(link, struct waiter, link));
        core->room_changed = true;
    }
}

static void give_up_in(struct core *core, struct list *queue, struct bytes id)
{
    list_each (queue, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, link);
        const struct wire_put_start_req *put = put_of(waiter);
        const struct wire_put_member *member =
            put->members_count == 0 ? NULL : core_member_of(put, waiter->item);

        if (member == NULL || !bytes_equal(put->groups[member->group].id, id))
            continue;
        struct wire_put_grant *grant =
            core_answer_grant(core, waiter->request, waiter->item, SNOW_BUSY);

        grant->hint_ms = 100;
        grant->reason = bytes_of_string("the group was given up before it was whole");
        core_count(core, CORE_METRIC_busy, 1);
        unwant(core, waiter);
        waiter->on_room = false; /* its session's queue is looked at when all are answered */
        core_waiter_end(core, waiter);
    }
}

void core_room_give_up(struct core *core, struct bytes id)
{
    give_up_in(core, &core->room, id);
    give_up_in(core, &core->forming_room, id);
    for (uint32_t i = 0; i < core->session_count; i++) {
        if (core->sessions[i] == NULL)
            continue;
        give_up_in(core, &core->sessions[i]->room, id);
        core_room_return(core, core->sessions[i]);
    }
    core->room_changed = true;
}

/* Gives a waiter its grant if there is room for it now. */
static bool serve(struct core *core, struct waiter *waiter)
{
    uint16_t segment = waiter->segment;

    unwant(core, waiter); /* what it gets is not to be made once more */
    if (core_room_try(core, waiter->request, waiter->item)) {
        core_waiter_end(core, waiter);
        return true;
    }
    if (segment != UINT16_MAX)
        mark_wanted(waiter, core->segments[segment]);
    return false;
}

/* Chooses again where room is to come from.  True: where it is now that was there, and it has its
 * grant.  No event would tell of such room: it came free before. */
static bool want_and_serve(struct core *core, struct waiter *waiter, bool *hopeful)
{
    const struct request *request = waiter->request;
    uint16_t lacking = request->lacking;
    bool scraps = request->scraps;

    *hopeful = want(core, waiter);
    return (request->lacking != lacking || request->scraps != scraps) && serve(core, waiter);
}

/* Under pressure leases yield: probes first, then reads; when they had to, at once for the next
 * second.  Then groups that are being formed.  True: it was served, or others stand in the queue
 * now. */
static bool break_leases(struct core *core, struct waiter *waiter)
{
    uint64_t waited_ns = core->now_ns - waiter->since_ns;
    uint64_t probes_ns = smaller(waiter->request->wait_ns / 4, BREAK_PROBES_NS);
    uint64_t reads_ns = smaller(waiter->request->wait_ns / 2, BREAK_READS_NS);
    bool at_once = core->now_ns < core->breaking_until_ns;
    uint64_t bytes = bytes_of_waiter(waiter);
    uint32_t broken = 0;

    if (at_once || waited_ns >= probes_ns)
        broken = core_lease_break(core, LEASE_PROBE, bytes);
    if (broken == 0 && (at_once || waited_ns >= reads_ns))
        broken = core_lease_break(core, LEASE_READ, bytes);
    if (broken == 0 && waited_ns >= reads_ns && waiter->admitted != 0 &&
        core_group_yield(core, waiter->admitted))
        return true;
    if (broken > 0) {
        bool hopeful;

        core->breaking_until_ns = core->now_ns + NS_PER_S;
        return want_and_serve(core, waiter, &hopeful);
    }
    uint64_t next_ns = waiter->since_ns + (waited_ns < probes_ns ? probes_ns : reads_ns);

    if (next_ns > core->now_ns)
        wheel_arm(&core->wheel, &core->room_timer, next_ns);
    return false;
}

/* Smaller ones behind the head take what does not serve it, 16 times at most; who came back from
 * its session's queue begins to make room. */
static void serve_behind(struct core *core, struct waiter *head)
{
    uint64_t bytes = bytes_of_waiter(head);
    struct list_link *link = head->link.next;

    for (uint32_t i = 0; i < LOOK_AHEAD && link != &core->room.head; i++) {
        struct waiter *waiter = list_entry(link, struct waiter, link);

        link = link->next;
        if (head->passed < PASSED_MAX && bytes_of_waiter(waiter) < bytes && serve(core, waiter))
            head->passed++;
        else if (waiter->segment == UINT16_MAX)
            want(core, waiter);
    }
}

void core_room_serve(struct core *core)
{
    struct list_link *link;
    uint32_t looked = 0;

    core->room_changed = false;
    if (FAULT(core->faults, lost_wakeup))
        return;
    while ((link = list_first(&core->room)) != NULL && looked++ < STEP_WAITERS) {
        /* Whoever is served may let others in: the first one anew each time. */
        struct waiter *waiter = list_entry(link, struct waiter, link);
        struct session *session = session_of(core, waiter);

        if (put_of(waiter)->members_count > 0 &&
            core_group_must_wait(core, waiter->request, waiter->item)) {
            unwant(core, waiter);
            list_remove(&waiter->link);
            list_push(&core->forming_room, &waiter->link);
        } else if (core_session_is_full(core, session, item_of(waiter)->size)) {
            unwant(core, waiter);
            list_remove(&waiter->link);
            list_push(&session->room, &waiter->link);
        } else if (!serve(core, waiter)) {
            bool hopeful;

            if (want_and_serve(core, waiter, &hopeful))
                continue;
            if (!hopeful && break_leases(core, waiter))
                continue;
            serve_behind(core, waiter);
            break;
        }
    }
    core->room_changed = core->evictions_left == 0 || looked > STEP_WAITERS;
}

/* ---- reasons ---- */

/* Where it was to go; NULL: nowhere, or that is closed now. */
static const struct segment *lacking_of(const struct core *core, const struct request *request)
{
    const struct segment *segment =
        request->lacking == UINT16_MAX ? NULL : core->segments[request->lacking];

    return segment != NULL && core_segment_open(core, segment) ? segment : NULL;
}

static void tell_fragments(const struct core *core, const struct segment *segment, char *text)
{
    struct blockers blockers;

    core_widen_blockers(core, segment, &blockers);
    snprintf(text, REASON_SIZE,
             "fragmented: %llu bytes of a segment are free, the longest run is %llu; between them "
             "%s%llu leased, %llu hard-pinned, %llu being written, %llu waiting for an "
             "acknowledgement",
             (unsigned long long)space_free_bytes(segment->space),
             (unsigned long long)space_largest_run(segment->space),
             blockers.whole ? "" : "at least ", (unsigned long long)blockers.leased_bytes,
             (unsigned long long)blockers.pinned_bytes, (unsigned long long)blockers.writing_bytes,
             (unsigned long long)blockers.closing_bytes);
}

bool core_room_grows(const struct core *core, const struct request *request)
{
    const struct segment *lacking = lacking_of(core, request);

    return lacking != NULL && core_segment_can_grow(lacking);
}

const char *core_room_reason(struct core *core, const struct request *request, uint32_t index)
{
    const struct wire_put_start_req *put = request->message;
    const struct session *session = core->sessions[request->session];
    const struct segment *lacking = lacking_of(core, request);
    char *text = core_out(core, 1, REASON_SIZE);

    if (core->pool_bytes == 0)
        return "no node has given memory";
    if (larger_than_the_pool(core, put, index))
        snprintf(text, REASON_SIZE, "the object (%llu bytes) is larger than the pool (%llu bytes)",
                 (unsigned long long)put->items[index].size, (unsigned long long)core->pool_bytes);
    else if (core_session_is_full(core, session, put->items[index].size))
        snprintf(text, REASON_SIZE,
                 "the session's own open writes (%llu bytes) fill its share of the pool",
                 (unsigned long long)session->writing_bytes);
    else if (lacking != NULL && space_slots_free(lacking->space) < SLOTS_FEW &&
             !core_room_grows(core, request))
        snprintf(text, REASON_SIZE, "all %u slots of a segment are taken: more of them are needed",
                 space_slot_count(lacking->space));
    else if (core_room_grows(core, request))
        snprintf(text, REASON_SIZE,
                 "a node is still committing memory: %llu of %llu bytes of a segment are ready",
                 (unsigned long long)lacking->ready, (unsigned long long)lacking->size);
    else if (lacking != NULL && space_free_bytes(lacking->space) >= core_place_bytes(put, index))
        tell_fragments(core, lacking, text);
    else
        snprintf(text, REASON_SIZE,
                 "of %llu bytes: %llu free in runs that do not fit, %llu leased, %llu hard-pinned, "
                 "%llu being written, %llu waiting for an acknowledgement",
                 (unsigned long long)core->pool_bytes, (unsigned long long)core->free_bytes,
                 (unsigned long long)core->leased_bytes,
                 (unsigned long long)core->hard_pinned_bytes,
                 (unsigned long long)core->writing_bytes, (unsigned long long)core->closing_bytes);
    return text;
}
