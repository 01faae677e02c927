/* core_check: every invariant of the core, verified from scratch.  For debug builds, tests and the
 * simulator. */
#include "core/group.h"

#include <stdlib.h>

/* What the records of a segment add up to. */
struct segment_totals {
    uint64_t coming_bytes;
    uint64_t closing_bytes;
    uint64_t wanted_bytes;
};

struct totals {
    struct segment_totals *segments; /* by index */
    uint32_t *leases;                /* by object */
    uint64_t free_bytes;
    uint64_t ready_bytes;
    uint64_t pool_bytes;
    uint64_t hard_pinned_bytes;
    uint64_t closing_bytes;
    uint32_t readable;
    uint32_t writing;
    uint32_t closing;
    uint32_t recovering;
    uint32_t copying;
    uint32_t listed;
    uint32_t groups;
    uint32_t members;
    uint32_t bound;       /* groups with a parent that is there */
    uint32_t with_parent; /* or is not */
    uint32_t extents;
    uint32_t waiters;
};

/* Each part lies in a used extent that is owned by the object (O2), and nowhere else. */
static void check_parts(struct core *core, uint32_t number, struct totals *totals)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        const struct segment *segment = core->segments[part.segment];

        if (!part.present)
            continue;
        ASSERT(segment->space != NULL);
        ASSERT(space_is_used(segment->space, part.slot));
        ASSERT(space_owner(segment->space, part.slot) == number);
        totals->extents++;
    }
}

/* C1, M1. */
static void check_closing(struct core *core, uint32_t number, struct totals *totals)
{
    struct closing *closing = pool_at(&core->closings_pool, core_object(core, number)->next);
    bool is_plain = (core_object(core, number)->flags & OBJECT_SPREAD) == 0;
    uint32_t count = core_part_count(core, number);
    uint64_t bytes = 0;
    uint32_t held = 0;
    uint32_t open = 0;

    ASSERT(closing->object == number);
    ASSERT(closing->counted == list_is_linked(&closing->by_age));
    ASSERT(list_is_empty(&closing->waiters) || list_is_linked(&closing->awaited));
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);
        struct segment_totals *segment = &totals->segments[part.segment];

        if (!part.present)
            continue;
        held++;
        open += !part.closed;
        bytes += core_part_bytes(&part);
        segment->closing_bytes += core_part_bytes(&part);
        if (closing->counted)
            segment->coming_bytes += space_capacity(core->segments[part.segment]->space, part.slot);
    }
    ASSERT(closing->held == held && held > 0 && closing->bytes == bytes);
    ASSERT(is_plain ? closing->open <= 1 : closing->open == open);
    totals->closing_bytes += bytes;
}

static bool is_being_dropped(const struct core *core, uint32_t number)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && core->segments[part.segment]->dropping)
            return true;
    }
    return false;
}

static void check_state(struct core *core, uint32_t number, struct totals *totals)
{
    const struct object *object = core_object(core, number);
    bool listed = (object->flags & OBJECT_LISTED) != 0;

    switch ((enum object_state)object->state) {
    case OBJECT_READABLE:
        totals->readable++;
        totals->members += object->grouped;
        totals->listed += listed && !object->grouped;
        /* K3: in a victim list exactly when nothing protects it. */
        ASSERT(listed == (object->leases == 0 && (object->flags & OBJECT_HARD_PIN) == 0));
        ASSERT(core_replica_count(core, number) > 0 || is_being_dropped(core, number));
        if (core_pin_counts(core, number))
            totals->hard_pinned_bytes += core_object_bytes(core, number);
        break;
    case OBJECT_WRITING:
        totals->writing++;
        ASSERT(!listed && core_write_of(core, number)->object == number);
        ASSERT(core_write_of(core, number)->ended ||
               wheel_is_armed(&core_write_of(core, number)->timer));
        ASSERT(core_replica_count(core, number) > 0 || is_being_dropped(core, number));
        break;
    case OBJECT_CLOSING:
        totals->closing++;
        ASSERT(!listed);
        check_closing(core, number, totals);
        break;
    case OBJECT_GROUP:
        totals->listed += listed;
        totals->groups++;
        totals->with_parent += core_group_at(core, number)->parent != 0;
        core_group_chain_check(core, number, &totals->bound);
        core_group_check(core, number);
        break;
    case OBJECT_RECOVERING:
        totals->recovering++;
        ASSERT(!listed);
        break;
    case OBJECT_COPYING:
        totals->copying++;
        ASSERT(!listed);
        core_copy_check(core, number);
        break;
    case OBJECT_ABSENT:
        ASSERT(false);
    }
}

/* F1, F2. */
static void check_forming(const struct core *core)
{
    uint64_t bytes = 0;
    uint32_t count = 0;

    list_each (&core->forming, link, next) {
        const struct group_timer *timer = list_entry(link, struct group_timer, forming);

        ASSERT(core_group_at(core, timer->record)->state == WIRE_GROUP_FORMING);
        ASSERT(wheel_is_armed(&timer->timer));
        bytes += timer->reserved;
        count++;
    }
    ASSERT(count == core->forming_count);
    ASSERT(bytes == core->forming_bytes);
}

/* O1: one readable version of a key; W1: one write of it that is no replace. */
static void check_key(struct core *core, uint32_t number)
{
    struct object_cursor cursor;
    uint32_t readable = 0;
    uint32_t writing = 0;
    uint32_t at;

    if (core_object(core, number)->key == 0)
        return;
    at = core_object_first(core, core_object_key(core, number), core_object_hash(core, number),
                           &cursor);
    for (; at != 0; at = core_object_next(&cursor)) {
        readable += core_object(core, at)->state == OBJECT_READABLE;
        writing +=
            core_object(core, at)->state == OBJECT_WRITING && !core_write_of(core, at)->replace;
    }
    ASSERT(readable <= 1 && writing <= 1);
}

/* G1. */
static void check_growth(const struct segment *segment)
{
    ASSERT(space_size(segment->space) <= segment->ready && segment->ready <= segment->size);
    ASSERT(segment->size <= segment->mounted_size);
    ASSERT(space_slots_ready(segment->space) == segment->slots_ready);
    ASSERT(segment->slots_ready <= segment->slot_count);
    ASSERT(segment->slot_count <= space_slot_count(segment->space));
}

static void check_segments(struct core *core, struct totals *totals)
{
    uint32_t listed = 0;
    uint32_t used = 0;

    for (uint32_t i = 0; i < core->segment_count; i++) {
        struct segment *segment = core->segments[i];
        const struct segment_totals *sums = &totals->segments[i];

        policy_check(core, segment);
        listed += policy_count(segment);
        ASSERT(segment->coming_bytes == sums->coming_bytes);
        ASSERT(segment->closing_bytes == sums->closing_bytes);
        ASSERT(segment->wanted_bytes == sums->wanted_bytes);
        ASSERT(segment->forget_count == 0);
        if (segment->space == NULL)
            continue;
        space_check(segment->space);
        check_growth(segment);
        for (uint32_t slot = 0; slot < space_slot_count(segment->space); slot++)
            used += space_is_used(segment->space, slot);
        if (space_is_recovering(segment->space) || segment->dropping)
            continue;
        totals->free_bytes += space_free_bytes(segment->space);
        totals->ready_bytes += space_size(segment->space);
        totals->pool_bytes += segment->size;
    }
    ASSERT(listed == totals->listed);
    /* No byte belongs to two objects (space_check: extents do not overlap), and none to nobody. */
    ASSERT(used == totals->extents);
}

/* Q1, Q2, M2: every waiter of a request stands in one queue and belongs to one open item. */
static void check_request(struct core *core, const struct request *request, struct totals *totals)
{
    uint32_t waiters = 0;

    list_each (&request->waiters, link, next) {
        const struct waiter *waiter = list_entry(link, struct waiter, of_request);

        waiters++;
        ASSERT(waiter->request == request && list_is_linked(&waiter->link));
        ASSERT(waiter->segment == UINT16_MAX || waiter->on_room);
        if (waiter->segment != UINT16_MAX)
            totals->segments[waiter->segment].wanted_bytes += waiter->bytes;
    }
    ASSERT(request->answers == 0);
    if (request->type == WIRE_remove_match)
        ASSERT(request->pending == waiters && request->open == 1);
    else if (request->type == WIRE_group_remove)
        ASSERT(request->open > 0 && request->open <= waiters);
    else
        ASSERT(request->open == waiters && waiters > 0);
    ASSERT(request->deadline_ns == UINT64_MAX || wheel_is_armed(&request->timer));
    ASSERT(core_request_find((struct core *)core, request->token) == request);
    totals->waiters += waiters;
}

/* M4: something will let the session's own queue go on. */
static bool queue_goes_on(const struct core *core, const struct session *session)
{
    if (list_is_empty(&session->room) || session->writing_bytes > 0)
        return true;
    list_each (&core->room, link, next) {
        if (core->sessions[list_entry(link, struct waiter, link)->request->session] == session)
            return true;
    }
    return false;
}

/* Counts what a read leases; returns its bytes. */
static uint64_t check_read(struct core *core, const struct read *read, struct totals *totals)
{
    for (uint32_t i = 0; i < read->count; i++) {
        const struct read_entry *entry = &read->entries[i];

        if (entry->leased && core_object(core, entry->object)->gen == entry->gen)
            totals->leases[entry->object]++;
    }
    return read->bytes;
}

static uint64_t check_holds(struct core *core, const struct session *session, struct totals *totals)
{
    uint64_t leased = 0;
    uint32_t holds = 0;

    for (uint32_t i = 0; i < CORE_HOLD_LISTS && session->holds != NULL; i++) {
        list_each (&session->holds[i], link, next) {
            leased += check_read(core, list_entry(link, struct read, of_session), totals);
            holds++;
        }
    }
    ASSERT(session->hold_count == holds && holds <= LIMIT_HOLDS_PER_SESSION);
    return leased;
}

static void check_session(struct core *core, const struct session *session, struct totals *totals)
{
    uint64_t writing = 0;
    uint64_t leased = 0;
    uint32_t reads = 0;
    uint32_t waiters = totals->waiters;

    list_each (&session->writes, write_link, next_write) {
        writing += list_entry(write_link, struct write, of_session)->bytes;
    }
    list_each (&session->reads, read_link, next_read) {
        reads++;
        leased += check_read(core, list_entry(read_link, struct read, of_session), totals);
    }
    leased += check_holds(core, session, totals);
    leased += core_group_marks_check(core, session);
    list_each (&session->requests, request_link, next_request) {
        check_request(core, list_entry(request_link, struct request, of_session), totals);
    }
    ASSERT(session->linked || list_is_empty(&session->requests));
    ASSERT(queue_goes_on(core, session));
    ASSERT(session->waiters == totals->waiters - waiters);
    ASSERT(session->writing_bytes == writing && session->leased_bytes == leased);
    ASSERT(session->read_count == reads && reads <= LIMIT_READS_PER_SESSION);
}

static void check_sessions(struct core *core, struct totals *totals)
{
    uint64_t leased = 0;
    uint64_t entries = 0;
    uint64_t writing = 0;

    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];

        if (session == NULL)
            continue;
        check_session(core, session, totals);
        leased += session->leased_bytes;
        writing += session->writing_bytes;
    }
    list_each (&core->reads, link, next) {
        entries += list_entry(link, struct read, of_core)->count;
    }
    ASSERT(leased == core->leased_bytes && writing == core->writing_bytes);
    ASSERT(entries == core->read_entries && entries <= LIMIT_READ_ENTRIES);
    ASSERT(totals->waiters == core->waiters && list_is_empty(&core->dirty));
}

static void check_nodes(const struct core *core)
{
    uint32_t missing = 0;

    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = core->nodes[i];
        bool lives = node->state != NODE_DEAD;

        ASSERT(node->state != NODE_ALIVE || (node->linked && !node->inventory_due));
        ASSERT(lives == wheel_is_armed(&node->timer));
        ASSERT(lives || !node->linked);
    }
    for (uint32_t i = 0; i < core->expected_count; i++)
        missing += !core->missing_known[i];
    ASSERT(missing == core->missing);
}

void core_check(struct core *core)
{
    struct totals totals = {0};

    totals.segments = calloc(LIMIT_SEGMENTS, sizeof(*totals.segments));
    totals.leases = calloc(core->objects.fresh, sizeof(*totals.leases));
    ASSERT(totals.segments != NULL && totals.leases != NULL);
    index_check(core->index);
    check_nodes(core);
    check_sessions(core, &totals);
    for (uint32_t number = 1; number < core->objects.fresh; number++) {
        ASSERT(core_object(core, number)->leases == totals.leases[number]); /* L2 */
        if (core_object(core, number)->state == OBJECT_ABSENT)
            continue;
        check_state(core, number, &totals);
        if (core_object(core, number)->state == OBJECT_GROUP)
            continue;
        check_parts(core, number, &totals);
        check_key(core, number);
    }
    ASSERT(totals.groups == core->group_count && totals.members == core->group_members);
    check_forming(core);
    core_group_chains_check(core, totals.bound, totals.with_parent);
    check_segments(core, &totals);
    ASSERT(totals.readable == core->readable && totals.writing == core->writing);
    ASSERT(totals.closing == core->closing && totals.closing_bytes == core->closing_bytes);
    ASSERT(totals.free_bytes == core->free_bytes && totals.pool_bytes == core->pool_bytes);
    ASSERT(totals.ready_bytes == core->ready_bytes);
    ASSERT(totals.hard_pinned_bytes == core->hard_pinned_bytes);
    ghosts_check(&core->ghosts);
    trial_check(&core->trial);
    ASSERT(totals.copying == core->copy_pool.used);
    core_seconds_check(core);
    ASSERT((totals.recovering == 0) == (core->recovering == 0));
    ASSERT(index_count(core->expiries) == core->expiry_pool.used);
    ASSERT(core->pins != NULL && index_count(core->pins) == core->pin_pool.used);
    free(totals.segments);
    free(totals.leases);
}
