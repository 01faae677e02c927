/* Inventories: learning again from a node what it holds.
 *
 * Problem.  A restarted master knows nothing; a node that was away may have lost, kept, or never
 *           seen what we think it holds; removed values must not come back (P5).
 * Idea.     The node tells all its slots in order, on the connection that also carries
 *           acknowledgements: order is truth.  Known segment: each slot is compared.  Unknown
 *           segment: WRITTEN rows become objects once all their parts are in.
 * Rules, core's state against the row:
 *   CLOSING                       forget again
 *   WRITING    any row            the grant stands
 *   READABLE   WRITTEN            nothing
 *   READABLE   another, or none   that copy is lost, unless its put_end came after the node had
 *                                 begun to tell; the extent is held until the node has forgotten it
 *   unknown    WRITTEN            adopted when complete, unless a younger complete version of the
 *                                 key is known
 *   unknown    another row        the extent is held until the row is forgotten
 * A slot of an unknown segment that was told before (the message was repeated, or the node was away
 * in between) is compared like one of a known segment.
 * Invariants.
 *   I1  Nothing of an unknown segment is given out before its inventory is complete.
 *   I2  When no inventory is awaited any more, what is still incomplete is forgotten.
 * Threads.  The core's own. */
#include "core/group.h"

/* ---- an unknown segment ---- */

/* The generation of the object: a copy was written under a later one of its own. */
static uint64_t version_of(const struct wire_inventory_row *row)
{
    return row->version == 0 ? row->gen : row->version;
}

/* A part of an object that somebody completed: no generation that this core has yet to give. */
static bool row_is_whole(const struct core *core, const struct wire_inventory_row *row)
{
    if (row->state != WIRE_SLOT_WRITTEN || row->parts < 1 || row->parts > LIMIT_EXTENTS ||
        row->part >= row->parts || row->replica >= LIMIT_REPLICAS || row->gen == 0 ||
        row->gen > WIRE_GEN(core->term, core->next_counter) || version_of(row) > row->gen ||
        row->tenant != CORE_TENANT || row->object_size > LIMIT_OBJECT_SIZE ||
        row->object_offset > row->object_size ||
        row->length > row->object_size - row->object_offset)
        return false;
    if (row->part > 0)
        return true;
    if (row->key.size < 1 || row->key.size > LIMIT_KEY_SIZE)
        return false;
    struct hash128 hash = hash_key(CORE_TENANT, row->key);

    return hash.low == row->key_hash_low && hash.high == row->key_hash_high;
}

static uint32_t find_gen_under(const struct core *core, uint64_t hash, uint64_t gen)
{
    struct index_cursor cursor;
    uint32_t number = index_first(core->index, hash, &cursor);
    uint32_t closing = 0;

    for (; number != 0; number = index_next(&cursor)) {
        const struct object *object = core_object(core, number);

        if (object->gen == gen && object->state != OBJECT_CLOSING)
            return number;
        if (object->gen == gen)
            closing = number;
    }
    return closing;
}

/* The record of the row's version, under its key or still without one. */
static uint32_t find_version(const struct core *core, const struct wire_inventory_row *row)
{
    uint64_t version = version_of(row);
    uint32_t number = find_gen_under(core, row->key_hash_low, version);

    return number != 0 ? number : find_gen_under(core, core_mix(version), version);
}

static struct part part_of(const struct segment *segment, const struct wire_inventory_row *row)
{
    return (struct part){.segment = (uint16_t)segment->index,
                         .replica = row->replica,
                         .present = true,
                         .part = row->part,
                         .parts = row->parts,
                         .slot = row->slot,
                         .length = row->length,
                         .object_offset = row->object_offset,
                         .gen = row->gen};
}

static bool has_whole_replica(const struct core *core, uint32_t number)
{
    return core_replica_count(core, number) > 0;
}

/* It can be read from now on. */
static void publish_version(struct core *core, uint32_t number, uint16_t row_flags)
{
    if (row_flags & WIRE_SLOT_REPLACED)
        object_flag(core_object(core, number), OBJECT_REPLACED);
    core_apply_publish(core, number);
    core_group_learned(core, number, true);
    core_victim_enter(core, number);
    core_count(core, CORE_METRIC_adopted_objects, 1);
    if (row_flags & (WIRE_SLOT_SOFT_PIN | WIRE_SLOT_HARD_PIN))
        core_apply_pin(core, number,
                       row_flags & WIRE_SLOT_HARD_PIN ? OBJECT_HARD_PIN : OBJECT_SOFT_PIN);
    core_group_waits_came(core, number);
}

/* Of two versions of a key the younger complete one wins; of two that are members of incarnations
 * of one atomic group that of the group which wins, once all of it is known. */
static void settle_versions(struct core *core, uint32_t number, uint16_t row_flags)
{
    uint64_t gen = core_object(core, number)->gen;
    struct bytes key = core_object_key(core, number);
    uint32_t other = core_object_find(core, key, core_object_hash(core, number), OBJECT_READABLE);

    if (other != 0 && core_group_keep_rival(core, number, other, row_flags))
        return;
    core_record_unlink(core, &core->recovering, number);
    if (other != 0 && core_object(core, other)->gen > gen) {
        core_close(core, number, CLOSE_STRAY);
        return;
    }
    if (other != 0)
        core_close(core, other, CLOSE_STRAY);
    publish_version(core, number, row_flags);
}

/* All inventories are in. */
static void settle_rival(struct core *core, uint32_t number, uint16_t slot_flags)
{
    struct key_hash key = core_copy_key(core, number);
    uint32_t other;

    core_object_find_gen(core, &key, 0, &other);
    bool wins = core_group_rival_wins(core, number, other);

    if (core_object(core, number)->state != OBJECT_RECOVERING)
        return; /* gone with its group */
    core_object_find_gen(core, &key, 0, &other);
    core_record_unlink(core, &core->recovering, number);
    if (!wins || (other != 0 && core_object_state(core, other) == OBJECT_READABLE &&
                  core_object(core, other)->gen > core_object(core, number)->gen)) {
        core_close(core, number, CLOSE_STRAY);
        return;
    }
    if (other != 0)
        core_close(core, other, CLOSE_STRAY);
    publish_version(core, number, slot_flags);
}

static uint32_t new_version(struct core *core, const struct wire_inventory_row *row)
{
    struct bytes key = row->part == 0 ? row->key : bytes_of(NULL, 0);
    uint32_t number =
        core_object_create(core, key, key.size > 0 ? row->key_hash_low : core_mix(version_of(row)));

    if (number == 0)
        return 0;
    struct object *object = core_object(core, number);

    object->gen = version_of(row);
    object->size = row->object_size & OBJECT_SIZE_MASK;
    object->state = OBJECT_RECOVERING;
    core_record_link(core, &core->recovering, number);
    return number;
}

/* Adds a part to an object that can be read or is still incomplete. */
static bool add_part(struct core *core, uint32_t number, const struct part *part)
{
    struct object *object = core_object(core, number);
    bool readable = object->state == OBJECT_READABLE;
    bool hard = core_pin_counts(core, number);
    uint64_t before = core_object_bytes(core, number);

    core_victim_leave(core, number); /* its first segment may be another one then */
    bool added = core_part_add(core, number, part) == SNOW_OK;

    if (readable)
        core_victim_return(core, number);
    core->hard_pinned_bytes += hard ? core_object_bytes(core, number) - before : 0;
    return added;
}

/* Adds the part to its version; false: it does not fit, or the version is on its way out. */
static bool join_version(struct core *core, struct segment *segment,
                         const struct wire_inventory_row *row, uint32_t *joined)
{
    struct part part = part_of(segment, row);
    uint32_t number = find_version(core, row);

    if (number == 0)
        number = new_version(core, row);
    if (number == 0)
        return false;
    struct object *object = core_object(core, number);

    if ((object->state != OBJECT_RECOVERING && object->state != OBJECT_READABLE) ||
        object->size != row->object_size)
        return false;
    if (row->part == 0 && object->key != 0 && !bytes_equal(core_object_key(core, number), row->key))
        return false;
    if (row->part == 0 && object->key == 0 && core_object_name(core, number, row->key) != SNOW_OK)
        return false;
    *joined = number;
    return add_part(core, number, &part);
}

/* A long key, or extra block, lies behind the bytes of part 0. */
static uint64_t claimed_bytes(const struct wire_inventory_row *row)
{
    uint64_t tail = row->key.size + row->extra.size;

    if (row->part > 0 || tail <= WIRE_KEY_INLINE || row->length > LIMIT_OBJECT_SIZE)
        return row->length; /* too much is not to turn little by adding to it */
    return row->length + tail;
}

static void adopt_row(struct core *core, struct segment *segment,
                      const struct wire_inventory_row *row)
{
    struct part part = part_of(segment, row);
    uint32_t number;

    if (space_claim(segment->space, row->slot, row->offset, claimed_bytes(row), 0) != SNOW_OK) {
        core_count(core, CORE_METRIC_inventory_conflicts, 1);
        core_forget_slot(core, segment->index, row->slot, row->gen);
        return;
    }
    if (!core->nodes[segment->node]->adopts || !row_is_whole(core, row)) {
        core_close_extent(core, &part, row->gen);
        return;
    }
    if (!join_version(core, segment, row, &number)) {
        struct key_hash key = {.key = row->part == 0 ? row->key : bytes_of(NULL, 0),
                               .hash = row->part == 0 ? row->key_hash_low : core_mix(row->gen)};

        core_close_copy(core, &part, row->gen, key);
        return;
    }
    space_set_owner(segment->space, row->slot, number);
    if (row->part == 0)
        core_group_learn(core, number, row->extra);
    if (core_object(core, number)->state == OBJECT_RECOVERING &&
        core_object(core, number)->key != 0 && has_whole_replica(core, number))
        settle_versions(core, number, row->flags);
}

/* Claims that overlap an earlier one, dropped by the space already. */
struct overlaps {
    struct core *core;
    uint32_t *owners; /* in the outputs' arena, as slots is */
    uint32_t *slots;
    uint32_t count;
    uint32_t capacity;
    uint32_t segment;
};

static void on_overlap(void *context, uint32_t slot, uint32_t owner)
{
    struct overlaps *overlaps = context;

    if (overlaps->count == overlaps->capacity) {
        uint32_t capacity = overlaps->capacity == 0 ? 16 : overlaps->capacity * 2;
        uint32_t *owners = core_out(overlaps->core, capacity, sizeof(*owners));
        uint32_t *slots = core_out(overlaps->core, capacity, sizeof(*slots));

        for (uint32_t i = 0; i < overlaps->count; i++) {
            owners[i] = overlaps->owners[i];
            slots[i] = overlaps->slots[i];
        }
        overlaps->owners = owners;
        overlaps->slots = slots;
        overlaps->capacity = capacity;
    }
    overlaps->owners[overlaps->count] = owner;
    overlaps->slots[overlaps->count++] = slot;
}

/* A record loses the part whose bytes are not its own: the extent is another's or free. */
static void lose_overlaps(struct core *core, const struct overlaps *overlaps)
{
    for (uint32_t i = 0; i < overlaps->count; i++) {
        uint32_t owner = overlaps->owners[i];
        uint32_t index;

        core_count(core, CORE_METRIC_inventory_conflicts, 1);
        if (!core_part_find(core, owner, overlaps->segment, overlaps->slots[i], &index))
            continue;
        core_forget_slot(core, overlaps->segment, overlaps->slots[i],
                         core_part_at(core, owner, index).gen);
        if (core_object(core, owner)->state == OBJECT_CLOSING)
            core_part_freed(core, owner, index);
        else
            core_part_lost(core, owner, index);
    }
}

static enum snow_status open_space(struct core *core, struct segment *segment)
{
    struct overlaps overlaps = {.core = core, .segment = segment->index};
    enum snow_status status = space_recovered(segment->space, on_overlap, &overlaps);

    if (status != SNOW_OK)
        return status;
    core->pool_bytes += segment->size;
    core->ready_bytes += space_size(segment->space);
    core->free_bytes += space_free_bytes(segment->space);
    lose_overlaps(core, &overlaps);
    return SNOW_OK;
}

/* ---- slots that are known ---- */

/* The copy in this slot is not what the object's readers are promised; what the node has there
 * instead goes first. */
static void replace_copy(struct core *core, uint32_t number, uint32_t index, uint64_t row_gen)
{
    struct part part = core_part_at(core, number, index);

    core_close_extent(core, &part, row_gen);
    core_part_lost(core, number, index);
}

/* A client's word that the part is WRITTEN came after the node had begun to tell: a row from before
 * says nothing against it. */
static bool came_meanwhile(const struct core *core, const struct segment *segment, uint32_t slot,
                           uint64_t gen)
{
    const struct node *node = core->nodes[segment->node];

    for (uint32_t i = 0; i < node->ended_count; i++) {
        const struct ended_part *part = &node->ended[i];

        if (part->segment == segment->index && part->slot == slot && part->gen == gen)
            return true;
    }
    return false;
}

/* row NULL: FREE on the node. */
static void compare_slot(struct core *core, struct segment *segment, uint32_t slot,
                         const struct wire_inventory_row *row)
{
    uint32_t number = space_owner(segment->space, slot);
    const struct object *object = core_object(core, number);
    uint32_t index;

    if (!core_part_find(core, number, segment->index, slot, &index))
        return;
    uint64_t gen = core_part_at(core, number, index).gen;
    bool same = row != NULL && row->gen == gen;

    core_count(core, CORE_METRIC_inventory_conflicts, row != NULL && !same);
    if (object->state == OBJECT_READABLE || object->state == OBJECT_RECOVERING ||
        (object->state == OBJECT_WRITING && core_write_of(core, number)->ended)) {
        if ((same && row->state == WIRE_SLOT_WRITTEN) ||
            ((row == NULL || same) && came_meanwhile(core, segment, slot, gen)))
            return;
        replace_copy(core, number, index, row == NULL ? gen : row->gen);
        return;
    }
    /* WRITING, COPYING: the grant stands; what lies in its place goes. */
    if (row != NULL && !same)
        core_forget_slot(core, segment->index, slot, row->gen);
    if (object->state == OBJECT_CLOSING)
        core_forget_slot(core, segment->index, slot, gen);
}

static void take_slot(struct core *core, struct segment *segment, uint32_t slot,
                      const struct wire_inventory_row *row)
{
    if (space_is_used(segment->space, slot)) {
        compare_slot(core, segment, slot, row);
    } else if (row != NULL && space_is_recovering(segment->space)) {
        adopt_row(core, segment, row);
    } else if (row != NULL) {
        core_count(core, CORE_METRIC_inventory_conflicts, 1);
        core_forget_slot(core, segment->index, slot, row->gen);
    }
}

static void take_rows(struct core *core, struct segment *segment,
                      const struct wire_inventory_req *inventory)
{
    uint32_t at = 0;

    for (uint32_t slot = inventory->first_slot; slot < inventory->end_slot; slot++) {
        const struct wire_inventory_row *row = NULL;

        if (at < inventory->rows_count && inventory->rows[at].slot == slot)
            row = &inventory->rows[at++];
        take_slot(core, segment, slot, row);
    }
    core_count(core, CORE_METRIC_inventory_rows, inventory->rows_count);
}

/* ---- one message ---- */

static bool inventory_is_valid(const struct segment *segment,
                               const struct wire_inventory_req *inventory)
{
    uint32_t next = inventory->first_slot;

    if (inventory->rows_count > LIMIT_INVENTORY_ROWS ||
        inventory->first_slot > inventory->end_slot ||
        inventory->end_slot - inventory->first_slot > LIMIT_INVENTORY_SLOTS ||
        inventory->end_slot > segment->told_end ||
        inventory->first_slot > segment->told_slots || /* repeated, but nothing left out (I1) */
        (inventory->last && inventory->end_slot != segment->told_end))
        return false;
    for (uint32_t i = 0; i < inventory->rows_count; i++) {
        if (inventory->rows[i].slot < next || inventory->rows[i].slot >= inventory->end_slot)
            return false;
        next = inventory->rows[i].slot + 1;
    }
    return true;
}

static enum snow_status take_inventory(struct core *core, struct node *node,
                                       const struct wire_inventory_req *inventory)
{
    struct segment *segment;

    if (inventory->segment >= node->segment_count)
        return SNOW_INVALID;
    segment = core->segments[node->first_segment + inventory->segment];
    if (segment->space == NULL || !node->inventory_due)
        return SNOW_STALE;
    if (!inventory_is_valid(segment, inventory))
        return SNOW_INVALID;
    take_rows(core, segment, inventory);
    if (inventory->end_slot > segment->told_slots)
        segment->told_slots = inventory->end_slot;
    if (!inventory->last || segment->told)
        return SNOW_OK;
    if (space_is_recovering(segment->space) && open_space(core, segment) != SNOW_OK)
        return SNOW_NO_MEMORY;
    segment->told = true;
    node->inventories++;
    core_node_settle(core, node);
    return SNOW_OK;
}

void core_inventory(struct core *core, const struct core_input *input, struct node *node)
{
    const struct wire_inventory_req *inventory = input->message;
    enum snow_status status = take_inventory(core, node, inventory);

    if (status != SNOW_OK) {
        core_fail(core, input->token, WIRE_inventory, status);
        return;
    }
    struct wire_inventory_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->end_slot = inventory->end_slot;
    core_reply(core, input->token, WIRE_inventory, reply);
}

static bool inventory_under_way(const struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i]->inventory_due)
            return true;
    }
    return core->missing > 0;
}

bool core_recovering_can_go(const struct core *core)
{
    return (core->recovering != 0 || core->groups_recovering != 0) && !inventory_under_way(core);
}

/* When nothing is awaited any more: incomplete versions go, a bounded number a step. */
void core_inventories_done(struct core *core)
{
    if (!core_recovering_can_go(core))
        return;
    for (uint32_t i = 0; i < LIMIT_STEP_OBJECTS && core->recovering != 0; i++) {
        uint32_t number = core->recovering;
        uint16_t slot_flags;

        if (core_group_is_rival(core, number, &slot_flags)) {
            settle_rival(core, number, slot_flags);
            continue;
        }
        core_record_unlink(core, &core->recovering, number);
        core_close(core, number, CLOSE_STRAY);
    }
    if (core->recovering == 0)
        core_groups_recover_step(core);
}
