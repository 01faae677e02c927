/* core_check: every invariant of the core, verified from scratch.  For debug builds, tests and the
 * simulator. */
#include "core/inside.h"

struct totals {
    uint64_t free_bytes;
    uint64_t pool_bytes;
    uint64_t hard_pinned_bytes;
    uint64_t closing_bytes;
    uint32_t readable;
    uint32_t writing;
    uint32_t closing;
    uint32_t listed;
    uint32_t extents;
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

static void check_state(struct core *core, uint32_t number, struct totals *totals)
{
    const struct object *object = core_object(core, number);
    bool listed = (object->flags & OBJECT_LISTED) != 0;

    switch ((enum object_state)object->state) {
    case OBJECT_READABLE:
        totals->readable++;
        totals->listed += listed;
        /* K3: in a victim list exactly when nothing protects it. */
        ASSERT(listed == (object->leases == 0 && (object->flags & OBJECT_HARD_PIN) == 0));
        ASSERT(core_replica_count(core, number) > 0);
        if (object->flags & OBJECT_HARD_PIN)
            totals->hard_pinned_bytes += core_object_bytes(core, number);
        break;
    case OBJECT_WRITING:
        totals->writing++;
        ASSERT(!listed && core_write_of(core, number)->object == number);
        break;
    case OBJECT_CLOSING:
        totals->closing++;
        ASSERT(!listed);
        totals->closing_bytes +=
            ((struct closing *)pool_at(&core->closings_pool, object->next))->bytes;
        break;
    case OBJECT_RECOVERING:
        ASSERT(!listed);
        break;
    case OBJECT_ABSENT:
        ASSERT(false);
    }
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

static void check_segments(struct core *core, struct totals *totals)
{
    uint32_t listed = 0;
    uint32_t used = 0;

    for (uint32_t i = 0; i < core->segment_count; i++) {
        struct segment *segment = core->segments[i];

        policy_check(core, segment);
        listed += policy_count(segment);
        if (segment->space == NULL)
            continue;
        space_check(segment->space);
        for (uint32_t slot = 0; slot < space_slot_count(segment->space); slot++)
            used += space_is_used(segment->space, slot);
        if (space_is_recovering(segment->space) || segment->dropping)
            continue;
        totals->free_bytes += space_free_bytes(segment->space);
        totals->pool_bytes += space_size(segment->space);
    }
    ASSERT(listed == totals->listed);
    /* No byte belongs to two objects, and none to nobody: space_check says extents do not overlap.
     * */
    ASSERT(used == totals->extents);
}

static void check_sessions(struct core *core)
{
    uint64_t leased = 0;
    uint64_t entries = 0;

    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        uint64_t writing = 0;

        if (session == NULL)
            continue;
        leased += session->leased_bytes;
        list_each (&session->writes, link, next) {
            writing += list_entry(link, struct write, of_session)->bytes;
        }
        ASSERT(writing == session->writing_bytes);
        list_each (&session->reads, link, next) {
            entries += list_entry(link, struct read, of_session)->count;
        }
        ASSERT(session->read_count <= LIMIT_READS_PER_SESSION);
    }
    ASSERT(leased == core->leased_bytes);
    ASSERT(entries == core->read_entries);
}

void core_check(struct core *core)
{
    struct totals totals = {0};

    index_check(core->index);
    for (uint32_t number = 1; number < core->objects.fresh; number++) {
        if (core_object(core, number)->state == OBJECT_ABSENT)
            continue;
        check_state(core, number, &totals);
        check_parts(core, number, &totals);
        check_key(core, number);
    }
    check_segments(core, &totals);
    check_sessions(core);
    ASSERT(totals.readable == core->readable);
    ASSERT(totals.writing == core->writing);
    ASSERT(totals.closing == core->closing);
    ASSERT(totals.closing_bytes == core->closing_bytes);
    ASSERT(totals.free_bytes == core->free_bytes);
    ASSERT(totals.pool_bytes == core->pool_bytes);
    ASSERT(totals.hard_pinned_bytes == core->hard_pinned_bytes);
}
