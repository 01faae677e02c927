/* Reading: where the bytes are, leases that keep them there for a while, and what `continues`
 * names.
 *
 * Problem.  Between learning a place and reading it, eviction may come; and the objects of one
 *           prompt are a chain whose end must go before its beginning.
 * Idea.     One record a read: {operation of the session, objects with their generations}.  While
 *           its lease runs its objects are in no victim list.  Afterwards a put that continues the
 *           read finds the chain in it.
 * Invariants.
 *   L1  A lease ends by its expiry, its return, its session's end, or when pressure breaks it
 *       (counted).  A hold, which stands for views, ends only by its return or its session's end.
 *   L2  object->leases = entries of leased reads that name it with its generation.
 *   L3  A session keeps at most LIMIT_READS_PER_SESSION reads, all together LIMIT_READ_ENTRIES
 *       entries; oldest go first.  Holds are apart, at most LIMIT_HOLDS_PER_SESSION.
 * Correctness does not rest on leases: readers are checked by generation (P1, P3).
 * Threads.  The core's own.   State.  Soft. */
#include "base/cache.h"
#include "core/group.h"
#include "wire/grant.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_NS_PER_BYTE 10u /* 100 MB/s */

/* ---- reads ---- */

static struct object *entry_object(struct core *core, const struct read_entry *entry)
{
    struct object *object = core_object(core, entry->object);

    return object->state == OBJECT_READABLE && object->gen == entry->gen ? object : NULL;
}

static int by_position(const void *a, const void *b)
{
    const struct read_entry *left = a;
    const struct read_entry *right = b;

    if (left->position != right->position)
        return left->position < right->position ? -1 : 1;
    return left->object < right->object ? -1 : left->object > right->object; /* of one group */
}

static void sort_entries(struct read *read)
{
    if (!read->sorted && read->count > 0)
        qsort(read->entries, read->count, sizeof(*read->entries), by_position);
    read->sorted = true;
}

/* Objects return to the young end of their lists, the deepest first. */
static void end_lease(struct core *core, struct read *read)
{
    struct session *session = core->sessions[read->session];

    if (!list_is_linked(&read->by_age))
        return;
    list_remove(&read->by_age);
    wheel_cancel(&core->wheel, &read->timer);
    sort_entries(read);
    for (uint32_t i = read->count; i-- > 0;) {
        struct read_entry *entry = &read->entries[i];
        struct object *object = core_object(core, entry->object);
        bool leased = entry->leased && object->gen == entry->gen;

        entry->leased = 0;
        if (leased)
            core_object_unlease(core, entry->object);
    }
    session->leased_bytes -= read->bytes;
    core->leased_bytes -= read->bytes;
    read->bytes = 0;
    core->room_changed = true;
}

void core_read_free(struct core *core, struct read *read)
{
    end_lease(core, read);
    list_remove(&read->of_session);
    if (read->kind == LEASE_HOLD) {
        core->sessions[read->session]->hold_count--;
    } else {
        core->sessions[read->session]->read_count--;
        core->read_entries -= read->count;
        list_remove(&read->of_core);
    }
    free(read->entries);
    free(read);
}

static void on_lease_end(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;

    core_count(core, CORE_METRIC_leases_expired, 1);
    end_lease(core, list_entry(timer, struct read, timer));
}

static struct read *find_read(struct core *core, uint32_t session, uint64_t operation)
{
    struct session *owner = core->sessions[session];

    for (struct list_link *link = owner->reads.head.prev; link != &owner->reads.head;
         link = link->prev) {
        struct read *read = list_entry(link, struct read, of_session);

        if (read->operation == operation)
            return read;
    }
    return NULL;
}

static struct list *holds_of(struct session *session, uint64_t operation)
{
    return &session->holds[operation % CORE_HOLD_LISTS];
}

static struct read *find_hold(struct core *core, uint32_t session, uint64_t operation)
{
    struct session *owner = core->sessions[session];

    if (owner->holds == NULL)
        return NULL;
    list_each (holds_of(owner, operation), link, next) {
        struct read *read = list_entry(link, struct read, of_session);

        if (read->operation == operation)
            return read;
    }
    return NULL;
}

/* NULL: no memory, or too many. */
static struct read *open_hold(struct core *core, uint32_t session, uint64_t operation)
{
    struct session *owner = core->sessions[session];
    struct read *read;

    if (owner->hold_count >= LIMIT_HOLDS_PER_SESSION)
        return NULL;
    if (owner->holds == NULL) {
        owner->holds = malloc(CORE_HOLD_LISTS * sizeof(*owner->holds));
        for (uint32_t i = 0; i < CORE_HOLD_LISTS && owner->holds != NULL; i++)
            list_init(&owner->holds[i]);
    }
    read = owner->holds == NULL ? NULL : calloc(1, sizeof(*read));
    if (read == NULL)
        return NULL;
    read->operation = operation;
    read->session = session;
    read->kind = LEASE_HOLD;
    read->sorted = true;
    read->timer.on_event = on_lease_end;
    list_push(holds_of(owner, operation), &read->of_session);
    owner->hold_count++;
    return read;
}

void core_holds_free(struct core *core, struct session *session)
{
    struct list_link *link;

    for (uint32_t i = 0; i < CORE_HOLD_LISTS && session->holds != NULL; i++) {
        while ((link = list_first(&session->holds[i])) != NULL)
            core_read_free(core, list_entry(link, struct read, of_session));
    }
    free(session->holds);
    session->holds = NULL;
}

static void drop_oldest(struct core *core, struct session *session)
{
    core_read_free(core, list_entry(list_first(&session->reads), struct read, of_session));
}

static struct read *open_read(struct core *core, uint32_t session, uint64_t operation,
                              enum lease_kind kind)
{
    struct session *owner = core->sessions[session];
    struct read *read;

    while (owner->read_count >= LIMIT_READS_PER_SESSION)
        drop_oldest(core, owner);
    read = calloc(1, sizeof(*read));
    if (read == NULL)
        return NULL;
    read->operation = operation;
    read->session = session;
    read->kind = (uint8_t)kind;
    read->sorted = true;
    read->timer.on_event = on_lease_end;
    list_push(&owner->reads, &read->of_session);
    list_push(&core->reads, &read->of_core);
    owner->read_count++;
    return read;
}

/* A look-up that is asked again brings positions that are there: the earlier entries stand. */
static bool is_repeated(const struct read *read, uint32_t position, uint32_t count)
{
    for (uint32_t i = 0; i < read->count; i++) {
        if (read->entries[i].position - position < count)
            return true;
    }
    return false;
}

/* Room for count more entries, within the bounds: the oldest reads of all sessions make it.  False:
 * the read goes on without. */
static bool reserve_entries(struct core *core, struct read *read, uint32_t count)
{
    while (read->kind != LEASE_HOLD && core->read_entries + count > LIMIT_READ_ENTRIES) {
        struct read *oldest = list_entry(list_first(&core->reads), struct read, of_core);

        if (oldest == read)
            return false;
        core_read_free(core, oldest);
    }
    if (read->count + count > read->capacity) {
        struct read_entry *grown = realloc(read->entries, (read->count + count) * sizeof(*grown));

        if (grown == NULL)
            return false;
        read->entries = grown;
        read->capacity = read->count + count;
    }
    return true;
}

/* Takes leases for the entries from `first` on.  The whole read has one time-out. */
static uint32_t take_lease(struct core *core, struct read *read, uint32_t first)
{
    struct session *session = core->sessions[read->session];
    uint64_t bytes = 0;

    for (uint32_t i = first; i < read->count; i++)
        bytes += core_object_bytes(core, read->entries[i].object);
    if (session->leased_bytes + bytes > core->pool_bytes / LIMIT_LEASE_SHARE) {
        core_count(core, CORE_METRIC_leases_refused, 1);
        return 0;
    }
    for (uint32_t i = first; i < read->count; i++) {
        struct object *object = core_object(core, read->entries[i].object);

        if (object->leases == UINT16_MAX)
            continue;
        read->entries[i].leased = 1;
        if (object->leases++ == 0)
            core_victim_leave(core, read->entries[i].object);
    }
    read->bytes += bytes;
    session->leased_bytes += bytes;
    core->leased_bytes += bytes;
    if (!list_is_linked(&read->by_age))
        list_push(&core->leases[read->kind], &read->by_age);
    core_count(core, CORE_METRIC_leases_granted, 1);
    if (read->kind == LEASE_HOLD)
        return UINT32_MAX;
    uint64_t lease_ns = core->options.lease_min_ns + read->bytes * LEASE_NS_PER_BYTE;

    if (lease_ns > core->options.lease_max_ns)
        lease_ns = core->options.lease_max_ns;
    wheel_arm(&core->wheel, &read->timer, core->now_ns + lease_ns);
    return (uint32_t)(lease_ns / NS_PER_MS);
}

/* ---- places ---- */

uint16_t core_grant_flags(const struct core *core, uint32_t number)
{
    uint8_t pin = core_write_of(core, number)->pin;
    bool replaced = (core_object(core, number)->flags & OBJECT_REPLACED) != 0;

    return (uint16_t)((replaced ? WIRE_SLOT_REPLACED : 0u) |
                      (pin == WIRE_PIN_SOFT   ? WIRE_SLOT_SOFT_PIN
                       : pin == WIRE_PIN_HARD ? WIRE_SLOT_HARD_PIN
                                              : 0u));
}

/* What a grant to write covers beside the place. */
struct named {
    struct hash128 key;
    struct hash128 extra;
};

/* named: of a grant to write; NULL: of a location. */
static void fill_place(const struct core *core, uint32_t number, const struct part *part,
                       const struct named *named, struct wire_place *place)
{
    const struct object *object = core_object(core, number);
    const struct segment *segment = core->segments[part->segment];
    const struct node *node = core->nodes[segment->node];
    struct grant_fields fields = {.segment = segment->on_node,
                                  .slot = part->slot,
                                  .gen = part->gen,
                                  .offset = space_offset(segment->space, part->slot),
                                  .length = part->length,
                                  .object_size = object->size,
                                  .object_offset = part->object_offset,
                                  .part = part->part,
                                  .parts = part->parts,
                                  .replica = part->replica,
                                  .tenant = CORE_TENANT};

    place->node = node->number;
    place->segment = fields.segment;
    place->slot = fields.slot;
    place->offset = fields.offset;
    place->length = fields.length;
    place->object_offset = fields.object_offset;
    place->part = fields.part;
    place->parts = fields.parts;
    place->replica = fields.replica;
    place->key_id = node->key_id;
    place->gen = part->gen;
    if (named != NULL) {
        fields.flags = core_grant_flags(core, number);
        fields.key = named->key;
        if (part->part == 0)
            fields.extra = named->extra;
        place->mac = grant_write_mac(&node->secret, &fields);
    } else {
        place->mac = grant_read_mac(&node->secret, &fields);
    }
}

void core_read_place(const struct core *core, uint32_t number, const struct part *part,
                     struct wire_place *place)
{
    fill_place(core, number, part, NULL, place);
}

/* Bits of the replicas with exactly this access. */
static uint16_t replicas_with(const struct core *core, uint32_t number, enum access access)
{
    enum access accesses[LIMIT_REPLICAS];
    uint16_t mask = 0;

    core_replica_accesses(core, number, accesses);
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++) {
        if (accesses[replica] == access)
            mask = (uint16_t)(mask | 1u << replica);
    }
    return mask;
}

static uint32_t fill_replicas(const struct core *core, uint32_t number, uint16_t mask,
                              const struct named *named, struct wire_place *list)
{
    uint32_t part_count = core_part_count(core, number);
    uint32_t at = 0;

    for (uint32_t i = 0; i < part_count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && (mask >> part.replica & 1))
            fill_place(core, number, &part, named, &list[at++]);
    }
    return at;
}

void core_grant_places(struct core *core, uint32_t number, const struct hash128 *key,
                       struct bytes extra, struct wire_place **places, uint32_t *count)
{
    struct named named = {.key = *key, .extra = grant_extra_hash(CORE_TENANT, extra)};

    *places = core_out(core, core_part_count(core, number), sizeof(**places));
    *count = fill_replicas(core, number, UINT16_MAX, &named, *places);
}

/* Places of whole replicas, reachable ones first; of one replica only when the reply has no room
 * for more than max. */
void core_read_places(struct core *core, uint32_t number, uint32_t max, struct wire_found *found)
{
    uint16_t alive = 1; /* it is told of only when one is */
    uint16_t suspect = 0;

    found->places = core_out(core, core_part_count(core, number), sizeof(*found->places));
    if (core_object(core, number)->flags & OBJECT_SPREAD) {
        alive = replicas_with(core, number, ACCESS_NOW);
        suspect = replicas_with(core, number, ACCESS_SUSPECT);
    }
    if (core_part_count(core, number) > max) {
        alive = (uint16_t)(alive & -alive);
        suspect = 0;
    }
    found->places_count = fill_replicas(core, number, alive, NULL, found->places);
    if (suspect != 0)
        found->places_count +=
            fill_replicas(core, number, suspect, NULL, &found->places[found->places_count]);
}

/* ---- look-ups ---- */

uint32_t core_found_flags(const struct object *object)
{
    return (object->flags & OBJECT_SOFT_PIN ? WIRE_FOUND_SOFT_PIN : 0) |
           (object->flags & OBJECT_HARD_PIN ? WIRE_FOUND_HARD_PIN : 0) |
           (object->flags & OBJECT_REPLACED ? WIRE_FOUND_REPLACED : 0) |
           (object->leases > 0 ? WIRE_FOUND_LEASED : 0) | (object->grouped ? WIRE_FOUND_MEMBER : 0);
}

static void guard_object(struct core *core, struct object *object, uint32_t guard_ms)
{
    uint64_t for_ns =
        guard_ms == WIRE_GUARD_CLUSTER ? core->options.guard_ns : guard_ms * NS_PER_MS;
    uint64_t until = core_guard_tick(core, core->now_ns + for_ns) + 1;

    if (until > UINT32_MAX)
        until = UINT32_MAX;
    if (until > object->guard)
        object->guard = (uint32_t)until;
    if (object->grouped && until > core_object(core, object->prev)->guard)
        core_object(core, object->prev)->guard = (uint32_t)until;
}

/* Places that a reply may hold beyond one replica of LIMIT_PARTS parts of each key: for copies, and
 * for replicas of more parts.  Below 0: it does not fit. */
static int64_t spare_places(uint32_t keys_count)
{
    uint32_t needed =
        CORE_REPLY_BYTES + keys_count * (CORE_ROW_BYTES + LIMIT_PARTS * CORE_PLACE_BYTES);

    return needed < LIMIT_BODY_SIZE ? (LIMIT_BODY_SIZE - needed) / CORE_PLACE_BYTES : 0;
}

_Static_assert(CORE_REPLY_BYTES +
                       LIMIT_BATCH_ITEMS * (CORE_ROW_BYTES + LIMIT_PARTS * CORE_PLACE_BYTES) <=
                   LIMIT_BODY_SIZE,
               "one replica of every key of a batch fits in a reply");
_Static_assert(CORE_REPLY_BYTES + CORE_ROW_BYTES + LIMIT_EXTENTS * CORE_PLACE_BYTES <=
                   LIMIT_BODY_SIZE,
               "and one object alone always does");

/* Answers one key; returns its object, or 0. */
static uint32_t look_up(struct core *core, const struct wire_lookup_req *lookup,
                        struct sought *sought, int64_t *spare, struct wire_found *found)
{
    enum snow_status status;
    uint32_t number = core_seek_readable(core, sought, lookup->flags, &status, &found->flags);

    found->status = (int32_t)status;
    if (status == SNOW_UNKNOWN)
        found->hint_ms = 50;
    if (number == 0)
        return 0;
    struct object *object = core_object(core, number);

    found->gen = object->gen;
    found->size = object->size;
    found->flags = core_found_flags(object);
    if (lookup->flags & WIRE_LOOKUP_PLACES) {
        core_read_places(core, number, *spare < 0 ? 0 : (uint32_t)(LIMIT_PARTS + *spare), found);
        *spare -= found->places_count > LIMIT_PARTS ? found->places_count - LIMIT_PARTS : 0;
    }
    if (lookup->flags & WIRE_LOOKUP_GUARD)
        guard_object(core, object, lookup->guard_ms);
    core_count(core, CORE_METRIC_keys_found, 1);
    return number;
}

/* The lease of a read that is asked again. */
static uint32_t lease_left_ms(const struct core *core, const struct read *read)
{
    if (read->kind == LEASE_HOLD)
        return list_is_linked(&read->by_age) ? UINT32_MAX : 0;
    if (!wheel_is_armed(&read->timer) || read->timer.at_ns <= core->now_ns)
        return 0;
    return (uint32_t)((read->timer.at_ns - core->now_ns) / NS_PER_MS);
}

uint32_t core_read_remember(struct core *core, const struct wire_lookup_req *lookup,
                            uint32_t session, const struct read_found *found)
{
    enum lease_kind kind = lookup->flags & WIRE_LOOKUP_PLACES ? LEASE_READ : LEASE_PROBE;
    bool hold = (lookup->flags & WIRE_LOOKUP_HOLD) != 0;
    struct read *read = hold ? find_hold(core, session, lookup->operation)
                             : find_read(core, session, lookup->operation);
    bool further = read != NULL;

    if (further && is_repeated(read, lookup->position, lookup->keys_count))
        return lease_left_ms(core, read);
    if (read == NULL)
        read = hold ? open_hold(core, session, lookup->operation)
                    : open_read(core, session, lookup->operation, kind);
    if (read == NULL || !reserve_entries(core, read, found->count))
        return 0;
    uint32_t first = read->count;

    for (uint32_t i = 0; i < found->count; i++) {
        uint32_t number = found->numbers[i];
        uint32_t position = found->positions == NULL ? i : found->positions[i];

        if (number == 0)
            continue;
        read->entries[read->count++] =
            (struct read_entry){.gen = core_object(core, number)->gen,
                                .object = number,
                                .position = (lookup->position + position) & 0x7fffffff};
    }
    if (!hold)
        core->read_entries += read->count - first;
    read->sorted = read->sorted && !further && found->positions == NULL;
    if ((lookup->flags & (WIRE_LOOKUP_LEASE | WIRE_LOOKUP_HOLD)) == 0 || read->count == first)
        return 0;
    uint32_t lease_ms = take_lease(core, read, first);

    if (hold && !list_is_linked(&read->by_age))
        core_read_free(core, read); /* above the session's bound: nothing is held */
    return lease_ms;
}

void core_read_touch_found(struct core *core, const struct wire_lookup_req *lookup,
                           const uint32_t *numbers)
{
    bool counts = (lookup->flags & WIRE_LOOKUP_TOUCH) != 0;

    if ((lookup->flags & (WIRE_LOOKUP_TOUCH | WIRE_LOOKUP_REFRESH)) == 0)
        return;
    for (uint32_t i = lookup->keys_count; i-- > 0;) {
        if (numbers[i] != 0)
            core_victim_touch(core, numbers[i], counts);
    }
}

/* Prefix hits, apart from those of objects: what a reader can use of a chain.  Reads of what was
 * found before say nothing of it. */
static void count_prefix(struct core *core, const struct wire_lookup_req *lookup,
                         const uint32_t *numbers)
{
    uint32_t hits = 0;

    if (lookup->keys_count < 2 || lookup->position != 0 ||
        (lookup->flags & (WIRE_LOOKUP_PLACES | WIRE_LOOKUP_UNORDERED)) != 0)
        return;
    while (hits < lookup->keys_count && numbers[hits] != 0)
        hits++;
    core_count(core, CORE_METRIC_prefix_hits, hits);
    core_count(core, CORE_METRIC_prefix_misses, lookup->keys_count - hits);
}

/* Of each key its group; with a lease, all members of these are what was found.  spare: places that
 * the reply has room for.  False: the groups do not fit as well. */
static bool look_up_groups(struct core *core, const struct wire_lookup_req *lookup, int64_t spare,
                           struct wire_lookup_rep *reply, struct read_found *found)
{
    uint32_t *units = core_out(core, lookup->keys_count, sizeof(*units));
    int64_t bytes = 0;

    core_groups_of_keys(core, lookup, reply, units);
    for (uint32_t i = 0; i < lookup->keys_count; i++)
        bytes += CORE_GROUP_BYTES + (int64_t)reply->groups[i].id.size;
    if ((lookup->flags & WIRE_LOOKUP_PLACES) && bytes > spare * CORE_PLACE_BYTES)
        return false;
    if (lookup->flags & WIRE_LOOKUP_LEASE)
        core_group_members_of(core, units, lookup->keys_count, found);
    return true;
}

void core_lookup(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_lookup_req *lookup = input->message;
    struct wire_lookup_rep *reply = core_out(core, 1, sizeof(*reply));
    uint32_t *numbers = core_out(core, lookup->keys_count, sizeof(*numbers));
    struct sought group[CORE_SEEK_KEYS];
    int64_t spare = spare_places(lookup->keys_count);

    reply->items = core_out(core, lookup->keys_count, sizeof(*reply->items));
    reply->items_count = lookup->keys_count;
    for (uint32_t i = 0; i < lookup->keys_count; i++) {
        uint32_t left = lookup->keys_count - i;

        if (i % CORE_SEEK_KEYS == 0)
            core_seek(core, &lookup->keys[i], left < CORE_SEEK_KEYS ? left : CORE_SEEK_KEYS,
                      lookup->flags, group);
        numbers[i] = look_up(core, lookup, &group[i % CORE_SEEK_KEYS], &spare, &reply->items[i]);
    }
    if (spare < 0) { /* objects of very many parts: the client asks for fewer at a time */
        core_fail(core, input->token, WIRE_lookup, SNOW_LIMIT);
        return;
    }
    core_count(core, CORE_METRIC_keys_looked_up, lookup->keys_count);
    count_prefix(core, lookup, numbers);
    core_read_touch_found(core, lookup, numbers);
    struct read_found found = {.numbers = numbers, .count = lookup->keys_count};

    if ((lookup->flags & WIRE_LOOKUP_GROUPS) &&
        !look_up_groups(core, lookup, spare, reply, &found)) {
        core_fail(core, input->token, WIRE_lookup, SNOW_LIMIT);
        return;
    }
    if (lookup->operation != 0)
        reply->lease_ms = core_read_remember(core, lookup, session, &found);
    core_reply(core, input->token, WIRE_lookup, reply);
}

void core_lease_return(struct core *core, const struct wire_lease_return_msg *message,
                       uint32_t session)
{
    for (uint32_t i = 0; i < message->operations_count; i++) {
        struct read *read = find_read(core, session, message->operations[i].id);

        if (read != NULL)
            end_lease(core, read);
    }
}

void core_hold_return(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_hold_return_req *message = input->message;
    struct wire_hold_return_rep *reply = core_out(core, 1, sizeof(*reply));

    for (uint32_t i = 0; i < message->operations_count; i++) {
        struct read *hold = find_hold(core, session, message->operations[i].id);

        if (hold == NULL)
            continue;
        core_read_free(core, hold);
        reply->returned++;
    }
    core_reply(core, input->token, WIRE_hold_return, reply);
}

uint32_t core_lease_break(struct core *core, enum lease_kind kind, uint64_t bytes)
{
    uint64_t freed = 0;
    uint32_t broken = 0;
    struct list_link *link;

    while (freed < bytes && (link = list_first(&core->leases[kind])) != NULL) {
        struct read *read = list_entry(link, struct read, by_age);

        freed += read->bytes;
        end_lease(core, read);
        core_count(core, CORE_METRIC_leases_broken, 1);
        broken++;
    }
    return broken;
}

/* ---- continues ---- */

void core_read_touch(struct core *core, uint32_t session, uint64_t operation)
{
    struct read *read = find_read(core, session, operation);

    if (read == NULL) {
        core_count(core, CORE_METRIC_continues_unknown, 1);
        return;
    }
    core_count(core, CORE_METRIC_continues_known, 1);
    sort_entries(read);
    for (uint32_t i = read->count; i-- > 0;) {
        if (entry_object(core, &read->entries[i]) != NULL)
            core_victim_touch(core, read->entries[i].object, false);
    }
}

void core_read_continued(struct core *core, uint32_t session, uint64_t operation)
{
    struct read *read = operation == 0 ? NULL : find_read(core, session, operation);

    if (read == NULL || read->continued)
        return;
    core_count(core, CORE_METRIC_continued_hits, read->count);
    read->continued = true;
}

/* The last key that the read found; NULL: no such read, or it found nothing. */
static const struct read_entry *last_entry(struct core *core, uint32_t session, uint64_t operation)
{
    struct read *read = find_read(core, session, operation);

    if (read == NULL || read->count == 0)
        return NULL;
    sort_entries(read);
    return &read->entries[read->count - 1];
}

bool core_read_depth(struct core *core, uint32_t session, uint64_t operation, uint32_t *depth)
{
    const struct read_entry *last = last_entry(core, session, operation);

    if (last == NULL)
        return false;
    const struct object *object = entry_object(core, last);

    *depth = object != NULL && object->depth != CORE_DEPTH_UNKNOWN ? object->depth : last->position;
    return true;
}

uint16_t core_read_segment(struct core *core, uint32_t session, uint64_t operation)
{
    const struct read_entry *last = last_entry(core, session, operation);
    const struct object *object = last == NULL ? NULL : entry_object(core, last);

    return object == NULL || object->uses >= CORE_SHARED_USES ? UINT16_MAX : object->segment;
}
