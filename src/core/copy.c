/* Copies: a version gets extents at another node, and these become its.
 *
 * Problem.  Bytes have to get from node to node while they are read, removed and replaced, and
 *           while nodes come and go; nothing that was removed may come back by a copy, and no
 *           reader may see bytes that have not come.
 * Idea.     The destination fetches the bytes.  A copy is a write attempt of its own: its extents
 *           have a generation of their own, by which nodes fence, readers check and the core
 *           forgets, and their slots say of which version they are.  Until its node says that all
 *           are WRITTEN they belong to a COPYING record under the key; then they are the object's.
 *           A move then gives up the extents that it replaces.
 * Invariants.
 *   Y1  A version has at most one copy under way, and is READABLE while it has.
 *   Y2  When a version ceases to be READABLE its copy closes with it: who removes the key waits for
 *       both.
 *   Y3  The extents that a move gives up are closed after the new ones became the object's.
 *   Y4  At most LIMIT_COPIES_PER_NODE copies are under way to a node, and from one.
 *   Y5  A copy ends when its connection does: what its node then holds is told by its inventory.
 *
 *   (none) ─core_copy_start─► COPYING ─core_copy_reply (OK)─► extents are the object's
 *                                └─core_copy_end─► CLOSING
 * Threads.  The core's own.   State.  Soft, but for the extents of what is done. */
#include "core/group.h"

#include "wire/segment.h"

#include <string.h>

#define COPY_NS (10 * NS_PER_S) /* the shortest time after which a copy is given up ... */
#define COPY_NS_PER_BYTE 100u   /* ... and the more the larger it is */

static uint16_t node_at(const struct core *core, const struct part *part)
{
    return (uint16_t)core->segments[part->segment]->node;
}

static uint16_t index_of(const struct node *node)
{
    return (uint16_t)((node->number - 1) % LIMIT_NODES);
}

/* ---- which copies are under way ---- */

struct copy *core_copy_of(const struct core *core, uint32_t number)
{
    struct index_cursor cursor;
    uint32_t at;

    if (core->copy_pool.used == 0)
        return NULL;
    for (at = index_first(core->copying, core_mix(number), &cursor); at != 0;
         at = index_next(&cursor)) {
        struct copy *copy = pool_at(&core->copy_pool, at);

        if (copy->object == number)
            return copy;
    }
    return NULL;
}

static void forget_copy(struct core *core, struct copy *copy)
{
    index_remove(core->copying, core_mix(copy->object), copy->number);
    list_remove(&copy->link);
    wheel_cancel(&core->wheel, &copy->timer);
    core->nodes[copy->from]->copies_out--;
    core->nodes[copy->to]->copies_in--;
    core->copies_due = true;
    copy->gen = 0;
    pool_give(&core->copy_pool, copy->number);
}

void core_copy_end(struct core *core, struct copy *copy, enum snow_status status)
{
    struct copy_end end = {.object = copy->object, .bytes = copy->bytes, .status = status};
    uint32_t record = copy->record;
    uint64_t task = copy->task;

    core_count(core, CORE_METRIC_copies_ended, 1);
    forget_copy(core, copy);
    core_close(core, record, CLOSE_ABORTED);
    core_task_copied(core, task, &end);
}

static void on_late(struct wheel_timer *timer, void *owner)
{
    core_copy_end(owner, list_entry(timer, struct copy, timer), SNOW_TIMEOUT);
}

void core_copy_object_gone(struct core *core, uint32_t number)
{
    struct copy *copy = core_copy_of(core, number);

    if (copy != NULL)
        core_copy_end(core, copy, SNOW_GONE);
}

void core_copy_node_gone(struct core *core, const struct node *node)
{
    uint16_t index = index_of(node);

    list_each (&core->copies, link, next) {
        struct copy *copy = list_entry(link, struct copy, link);

        if (copy->from == index || copy->to == index)
            core_copy_end(core, copy, SNOW_UNREACHABLE);
    }
}

/* ---- from where ---- */

/* What is to be copied: parts of one version, and how they will be told apart from others. */
struct source {
    struct part parts[LIMIT_EXTENTS];
    uint32_t count;
    struct part taken[LIMIT_EXTENTS]; /* of other copies: where they are the new one may not be */
    uint32_t taken_count;
    uint64_t bytes;
    struct bytes extra; /* that its slot of part 0 keeps */
    uint8_t replica;    /* of the new copy; of a move: as it was */
};

static bool is_up(const struct core *core, const struct part *part)
{
    const struct node *node = core->nodes[node_at(core, part)];

    return node->linked && (node->state == NODE_ALIVE || node->state == NODE_RECOVERING);
}

static void add_source(struct source *source, const struct part *part)
{
    source->parts[source->count++] = *part;
    source->bytes += core_part_bytes(part);
}

/* The parts that lie on the node that is to be left; other copies stay apart from them. */
static void gather_move(struct core *core, const struct copy_wish *wish, struct source *source)
{
    uint32_t count = core_part_count(core, wish->object);
    uint16_t moved = 0; /* bits of copies */

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, wish->object, i);

        if (!part.present || node_at(core, &part) != wish->from)
            continue;
        add_source(source, &part);
        moved = (uint16_t)(moved | 1u << part.replica);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, wish->object, i);

        if (part.present && (moved >> part.replica & 1) == 0)
            source->taken[source->taken_count++] = part;
    }
}

/* A whole copy that can be read, to make one more of. */
static enum snow_status gather_copy(struct core *core, const struct copy_wish *wish,
                                    struct source *source)
{
    uint32_t count = core_part_count(core, wish->object);
    enum access accesses[LIMIT_REPLICAS];
    uint8_t from = 0;
    uint16_t used = 0;

    core_replica_accesses(core, wish->object, accesses);
    while (from < LIMIT_REPLICAS && accesses[from] != ACCESS_NOW)
        from++;
    if (from == LIMIT_REPLICAS)
        return SNOW_UNREACHABLE;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, wish->object, i);

        if (!part.present)
            continue;
        used = (uint16_t)(used | 1u << part.replica);
        source->taken[source->taken_count++] = part;
        if (part.replica == from)
            add_source(source, &part);
    }
    if (used == UINT16_MAX)
        return SNOW_LIMIT; /* no number is left for one more */
    source->replica = (uint8_t)__builtin_ctz(~(uint32_t)used);
    return SNOW_OK;
}

static enum snow_status gather(struct core *core, const struct copy_wish *wish,
                               struct source *source)
{
    enum snow_status status = SNOW_OK;

    if (wish->move)
        gather_move(core, wish, source);
    else
        status = gather_copy(core, wish, source);
    if (status != SNOW_OK)
        return status;
    for (uint32_t i = 0; i < source->count; i++) {
        if (!is_up(core, &source->parts[i]))
            return SNOW_UNREACHABLE;
    }
    return source->count == 0 ? SNOW_NOT_FOUND : SNOW_OK;
}

/* ---- to where ---- */

struct spot {
    struct segment *segment; /* NULL: none yet */
    uint32_t distance;       /* from the other copies */
    bool fits;               /* nothing has to be evicted */
    uint32_t victim;         /* else: what goes first */
};

static bool spot_serves(struct core *core, const struct copy_wish *wish,
                        const struct source *source, struct segment *segment, struct spot *spot)
{
    if (!core_segment_open(core, segment) || (wish->move && segment->node == wish->from) ||
        (wish->to != COPY_ANYWHERE && segment->node != wish->to))
        return false;
    for (uint32_t i = 0; i < source->taken_count; i++) {
        if (node_at(core, &source->taken[i]) == segment->node)
            return false;
    }
    uint64_t wanted = core_room_reserve(core, segment) + segment->wanted_bytes + source->bytes;

    *spot = (struct spot){.segment = segment};
    spot->distance = core_place_distance(core, source->taken, source->taken_count, segment);
    spot->fits = core_segment_can_grow(segment) ||
                 space_free_bytes(segment->space) + segment->coming_bytes >= wanted;
    if (spot->fits)
        return true;
    spot->victim = core_victim_next(core, segment);
    return spot->victim != 0 &&
           (wish->force || core_victim_before(core, spot->victim, wish->object));
}

static bool is_better(struct core *core, const struct spot *spot, const struct spot *best)
{
    if (best->segment == NULL || spot->distance != best->distance)
        return best->segment == NULL || spot->distance > best->distance;
    if (spot->fits != best->fits)
        return spot->fits;
    if (spot->fits)
        return core_place_free_share(spot->segment) > core_place_free_share(best->segment);
    return core_victim_before(core, spot->victim, best->victim);
}

/* NULL: nowhere is it worth more than what it would take the place of.  busy: it would be where
 * as much is under way as may be. */
static struct segment *choose(struct core *core, const struct copy_wish *wish,
                              const struct source *source, bool *busy)
{
    struct spot best = {0};

    *busy = false;
    for (uint32_t i = 0; i < core->segment_count; i++) {
        struct spot spot;

        if (!spot_serves(core, wish, source, core->segments[i], &spot))
            continue;
        if (core->nodes[core->segments[i]->node]->copies_in >= LIMIT_COPIES_PER_NODE)
            *busy = true;
        else if (is_better(core, &spot, &best))
            best = spot;
    }
    return best.segment;
}

/* ---- starting ---- */

/* An extent for each part, owned by the record; false: no room now. */
static bool take_extents(struct core *core, struct segment *segment, const struct source *source,
                         bool move, uint32_t record, struct part *parts)
{
    size_t names = core_object_key(core, record).size + source->extra.size;

    for (uint32_t i = 0; i < source->count; i++) {
        const struct part *from = &source->parts[i];
        uint64_t tail = from->part == 0 && names > WIRE_KEY_INLINE ? names : 0;

        if (!core_place_one(core, segment, from->length, tail, record, &parts[i])) {
            core_place_undo(core, parts, i);
            return false;
        }
        parts[i].replica = move ? from->replica : source->replica;
        parts[i].part = from->part;
        parts[i].parts = from->parts;
        parts[i].object_offset = from->object_offset;
    }
    return true;
}

static uint16_t slot_flags(const struct object *object)
{
    return (uint16_t)((object->flags & OBJECT_REPLACED ? WIRE_SLOT_REPLACED : 0u) |
                      (object->flags & OBJECT_SOFT_PIN   ? WIRE_SLOT_SOFT_PIN
                       : object->flags & OBJECT_HARD_PIN ? WIRE_SLOT_HARD_PIN
                                                         : 0u));
}

static void tell_part(struct core *core, const struct copy *copy, const struct part *from,
                      const struct part *to, struct wire_copy_part *told)
{
    const struct segment *segment = core->segments[to->segment];
    const struct node *node = core->nodes[node_at(core, from)];
    struct wire_place place = {0};

    core_read_place(core, copy->object, from, &place);
    *told = (struct wire_copy_part){.from_segment = place.segment,
                                    .from_slot = place.slot,
                                    .from_gen = from->gen,
                                    .from_offset = place.offset,
                                    .from_mac = place.mac,
                                    .from_node = node->incarnation,
                                    .from_address = bytes_of_string(node->address),
                                    .segment = segment->on_node,
                                    .slot = to->slot,
                                    .offset = space_offset(segment->space, to->slot),
                                    .length = to->length,
                                    .object_offset = to->object_offset,
                                    .part = to->part,
                                    .parts = to->parts,
                                    .replica = to->replica};
}

/* The key is copied: what is evicted for the copy may end the object before this is sent. */
static void tell_node(struct core *core, const struct copy *copy, const struct source *source,
                      const struct part *parts)
{
    const struct object *object = core_object(core, copy->object);
    struct core_output *output = core_output_add(core, CORE_OUT_COPY);
    struct wire_copy_req *message = core_out(core, 1, sizeof(*message));

    message->copy = (copy->gen << 32) | copy->number;
    message->gen = copy->gen;
    message->version = object->gen;
    message->object_size = object->size;
    message->flags = slot_flags(object);
    message->tenant = CORE_TENANT;
    message->key = core_copy_key(core, copy->object).key;
    message->extra = source->extra;
    message->parts = core_out(core, source->count, sizeof(*message->parts));
    message->parts_count = source->count;
    for (uint32_t i = 0; i < source->count; i++)
        tell_part(core, copy, &source->parts[i], &parts[i], &message->parts[i]);
    output->to = core->nodes[copy->to]->number;
    output->type = WIRE_copy;
    output->message = message;
}

static void enter_copy(struct core *core, const struct copy_wish *wish, const struct source *source,
                       struct copy *copy)
{
    copy->object = wish->object;
    copy->gen = core_object(core, copy->record)->gen;
    copy->bytes = source->bytes;
    copy->task = wish->task;
    copy->move = wish->move;
    copy->second = wish->second;
    copy->from = node_at(core, &source->parts[0]);
    copy->timer.on_event = on_late;
    wheel_arm(&core->wheel, &copy->timer, core->now_ns + COPY_NS + copy->bytes * COPY_NS_PER_BYTE);
    list_push(&core->copies, &copy->link);
    core->nodes[copy->from]->copies_out++;
    core->nodes[copy->to]->copies_in++;
    core_object(core, copy->record)->state = OBJECT_COPYING;
    core_object(core, copy->record)->next = copy->number;
    core_count(core, CORE_METRIC_copies_started, 1);
}

/* The record of the new extents: 0: no room (*full), or no memory. */
static uint32_t make_record(struct core *core, const struct copy_wish *wish,
                            struct segment *segment, const struct source *source,
                            struct part *parts, bool *full)
{
    uint32_t record = core_object_create(core, core_object_key(core, wish->object),
                                         core_object_hash(core, wish->object));

    *full = false;
    if (record == 0)
        return 0;
    core_object(core, record)->size = core_object(core, wish->object)->size;
    *full = !take_extents(core, segment, source, wish->move, record, parts);
    if (!*full && core_parts_set(core, record, parts, source->count) == SNOW_OK)
        return record;
    if (!*full)
        core_place_undo(core, parts, source->count);
    core_object_free(core, record);
    return 0;
}

static bool take_number(struct core *core, uint32_t object, uint32_t *number)
{
    if (pool_take(&core->copy_pool, number) != SNOW_OK)
        return false;
    if (index_insert(core->copying, core_mix(object), *number) == SNOW_OK)
        return true;
    pool_give(&core->copy_pool, *number);
    return false;
}

static enum snow_status begin(struct core *core, const struct copy_wish *wish,
                              struct segment *segment, const struct source *source)
{
    struct part parts[LIMIT_EXTENTS];
    uint32_t number;
    bool full;
    uint32_t record = make_record(core, wish, segment, source, parts, &full);

    if (record == 0) {
        if (full)
            core_room_make(core, segment, source->bytes, segment->wanted_bytes + source->bytes,
                           NULL);
        return SNOW_BUSY;
    }
    if (!take_number(core, wish->object, &number)) {
        core_parts_drop(core, record);
        core_object_free(core, record);
        core_place_undo(core, parts, source->count);
        return SNOW_BUSY;
    }
    struct copy *copy = pool_at(&core->copy_pool, number);

    core_object(core, record)->gen = core_next_gen(core);
    copy->number = number;
    copy->record = record;
    copy->to = (uint16_t)segment->node;
    enter_copy(core, wish, source, copy);
    tell_node(core, copy, source, parts);
    core_room_ahead(core, parts, source->count);
    return SNOW_OK;
}

enum snow_status core_copy_start(struct core *core, const struct copy_wish *wish, uint64_t *bytes)
{
    struct source *source;
    bool busy;

    if (core_object_state(core, wish->object) != OBJECT_READABLE)
        return SNOW_NOT_FOUND;
    if (core_object(core, wish->object)->gen > SLOT_VERSION_MAX)
        return SNOW_LIMIT;
    if (core_copy_of(core, wish->object) != NULL)
        return SNOW_BUSY;
    source = core_out(core, 1, sizeof(*source));
    enum snow_status status = gather(core, wish, source);

    *bytes = source->bytes;
    source->extra = core_group_member_extra(core, wish->object);
    if (status != SNOW_OK)
        return status;
    struct segment *segment = choose(core, wish, source, &busy);

    if (segment == NULL)
        return busy ? SNOW_BUSY : SNOW_NO_SPACE;
    if (core->nodes[node_at(core, &source->parts[0])]->copies_out >= LIMIT_COPIES_PER_NODE)
        return SNOW_BUSY;
    return begin(core, wish, segment, source);
}

/* ---- copies that are given up ---- */

void core_copies_give_up(struct core *core, uint32_t number, uint16_t replicas)
{
    bool hard = core_pin_counts(core, number);
    uint64_t before = core_object_bytes(core, number);

    core_victim_leave(core, number);
    if (core_parts_split(core, number, (uint16_t)~replicas) == SNOW_OK && hard)
        core->hard_pinned_bytes -= before - core_object_bytes(core, number);
    core_group_moved(core, number);
    core_victim_return(core, number);
    core_second_refresh(core, number);
}

/* ---- its end ---- */

/* Adds a part in the order of copies and parts, in place of an older one of that number. */
static uint32_t insert_part(struct part *all, uint32_t count, const struct part *part)
{
    uint32_t at = count;

    while (at > 0 && (all[at - 1].replica > part->replica ||
                      (all[at - 1].replica == part->replica && all[at - 1].part > part->part))) {
        all[at] = all[at - 1];
        at--;
    }
    all[at] = *part;
    return count + 1;
}

/* The object's parts when the copy is among them; *left: those that a move gives up. */
static uint32_t merge(struct core *core, const struct copy *copy, struct part *all,
                      struct part *left, uint32_t *left_count)
{
    uint32_t known = core_part_count(core, copy->object);
    uint32_t come = core_part_count(core, copy->record);
    uint32_t count = 0;

    *left_count = 0;
    for (uint32_t i = 0; i < known; i++) {
        struct part part = core_part_at(core, copy->object, i);

        if (!part.present)
            continue;
        if (copy->move && node_at(core, &part) == copy->from)
            left[(*left_count)++] = part;
        else
            all[count++] = part;
    }
    if (count + come > LIMIT_EXTENTS)
        return 0;
    for (uint32_t i = 0; i < come; i++) {
        struct part part = core_part_at(core, copy->record, i);

        count = insert_part(all, count, &part);
    }
    return count;
}

/* The extents of a copy are the object's from now on.  False: no memory, nothing changed. */
static bool publish(struct core *core, const struct copy *copy)
{
    struct part *all = core_out(core, LIMIT_EXTENTS, sizeof(*all));
    struct part *left = core_out(core, LIMIT_EXTENTS, sizeof(*left));
    uint32_t number = copy->object;
    bool hard = core_pin_counts(core, number);
    uint32_t left_count;
    uint32_t count = merge(core, copy, all, left, &left_count);
    uint64_t before = core_object_bytes(core, number);

    core_victim_leave(core, number); /* its first segment may be another one then */
    bool set = count > 0 && core_parts_set(core, number, all, count) == SNOW_OK;

    for (uint32_t i = 0; i < count && set; i++)
        space_set_owner(core->segments[all[i].segment]->space, all[i].slot, number);
    core_group_moved(core, number);
    core_victim_return(core, number);
    if (!set)
        return false;
    core->hard_pinned_bytes += hard ? core_object_bytes(core, number) - before : 0;
    uint8_t replica = core_part_at(core, copy->record, 0).replica;

    core_parts_drop(core, copy->record);
    core_object_free(core, copy->record);
    for (uint32_t i = 0; i < left_count; i++) {
        struct key_hash key = {.key = core_object_key(core, number),
                               .hash = core_object_hash(core, number)};

        core_close_copy(core, &left[i], left[i].gen, key);
    }
    core_second_refresh(core, number);
    if (copy->second)
        core_second_made(core, number, replica);
    return true;
}

static void finish(struct core *core, struct copy *copy)
{
    struct copy_end end = {.object = copy->object, .bytes = copy->bytes, .status = SNOW_OK};
    uint64_t task = copy->task;

    if (core_object_state(core, copy->object) != OBJECT_READABLE) { /* its group is closing */
        core_copy_end(core, copy, SNOW_GONE);
        return;
    }
    if (!publish(core, copy)) {
        core_copy_end(core, copy, SNOW_NO_MEMORY);
        return;
    }
    core_count(core, CORE_METRIC_copies_done, 1);
    core_count(core, CORE_METRIC_copied_bytes, copy->bytes);
    core_count(core, CORE_METRIC_copies_moved, copy->move);
    forget_copy(core, copy);
    core_task_copied(core, task, &end);
}

void core_copy_reply(struct core *core, const struct node *node, const struct wire_copy_rep *reply)
{
    uint32_t number = (uint32_t)reply->copy;
    struct copy *copy;

    if (number == 0 || number >= core->copy_pool.fresh)
        return;
    copy = pool_at(&core->copy_pool, number);
    if (copy->gen == 0 || (copy->gen & UINT32_MAX) != reply->copy >> 32 ||
        copy->to != index_of(node))
        return; /* one that has ended */
    if (reply->status == SNOW_OK)
        finish(core, copy);
    else
        core_copy_end(core, copy,
                      status_is_known(reply->status) ? (enum snow_status)reply->status
                                                     : SNOW_INVALID);
}

void core_copy_check(struct core *core, uint32_t record)
{
    const struct copy *copy = pool_at(&core->copy_pool, core_object(core, record)->next);
    const struct object *object = core_object(core, copy->object);

    ASSERT(copy->record == record && copy->gen == core_object(core, record)->gen);
    ASSERT(object->state == OBJECT_READABLE); /* Y1, Y2 */
    ASSERT(core_copy_of(core, copy->object) == copy);
    ASSERT(wheel_is_armed(&copy->timer) && core->nodes[copy->to]->linked);
    ASSERT(core->nodes[copy->to]->copies_in <= LIMIT_COPIES_PER_NODE);
    ASSERT(core->nodes[copy->from]->copies_out <= LIMIT_COPIES_PER_NODE);
}
