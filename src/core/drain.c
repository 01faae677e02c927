/* Drain: a node is emptied while it is used, and leaves.
 *
 * Problem.  What a node holds is to outlive it as far as it is worth that, at a speed that its
 *           neighbours bear, without a get that fails.
 * Idea.     Nothing new is placed on the node.  Its objects are sorted once by how late they would
 *           be evicted, in classes, and moved from the most valuable on: where there is room, else
 *           where something goes that is worth less; what is worth less than all others would give
 *           up is dropped.  Then the node is looked through again, until nothing is left on it.
 * Invariants.
 *   Z1  The node leaves when no extent of it is used and none is closing.
 *   Z2  What is hard-pinned is moved or stays, and the drain with it; what is read now is dropped
 *       only when its readers have had time.
 *   Z3  A step looks at LIMIT_STEP_OBJECTS objects at most.
 *
 *   SORTING ─all of the node was looked at─► MOVING ─nothing left to move─► RESTING ─► SORTING ...
 *      └── the node is empty: it is retired, the task DONE
 * Threads.  The core's own.   State.  Soft: a master that restarts has forgotten the drain. */
#include "core/group.h"

#include <stdlib.h>

#define SCORE_STEPS 4u /* classes for each factor of two of a score */
#define SCORE_CLASSES (SCORE_STEPS * 42u)
#define CLASSES (SCORE_CLASSES + VICTIM_RANKS)
#define STEP_SLOTS (16 * LIMIT_STEP_OBJECTS)
#define REST_NS (100 * NS_PER_MS)
#define AGAIN_NS (2 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S) /* what is leased is not dropped before */
#define WAIT_NS (2 * NS_PER_S)     /* for the room of one object */

enum drain_phase { DRAIN_SORTING, DRAIN_MOVING, DRAIN_RESTING };

/* Objects of one class. */
struct bucket {
    uint32_t *numbers; /* malloc'd */
    uint32_t count;
    uint32_t capacity;
};

struct drain {
    struct bucket buckets[CLASSES];
    uint32_t class; /* of those that are moved now: all above are */
    uint32_t sorted;
    uint32_t segment; /* that is sorted now: index on the node */
    uint32_t slot;    /* the next one */
    uint32_t waiting; /* the object for which room is coming; 0: none */
    uint64_t waiting_since_ns;
    uint64_t rest_until_ns;
    uint64_t patience_ns;
    enum drain_phase phase;
};

static struct node *node_of(const struct core *core, const struct task *task)
{
    return core->nodes[(task->from - 1) % LIMIT_NODES];
}

enum snow_status core_drain_open(struct core *core, struct task *task, struct node *node)
{
    task->drain = calloc(1, sizeof(*task->drain));
    if (task->drain == NULL)
        return SNOW_NO_MEMORY;
    node->draining = true;
    task->drain->patience_ns = core->now_ns + PATIENCE_NS;
    core->room_changed = true; /* who waits for room there goes elsewhere */
    return SNOW_OK;
}

static void clear_buckets(struct drain *drain)
{
    for (uint32_t i = 0; i < CLASSES; i++) {
        free(drain->buckets[i].numbers);
        drain->buckets[i] = (struct bucket){0};
    }
    drain->sorted = 0;
}

void core_drain_close(struct core *core, struct task *task)
{
    if (task->drain == NULL)
        return;
    node_of(core, task)->draining = false;
    clear_buckets(task->drain);
    free(task->drain);
    task->drain = NULL;
    core->room_changed = true;
}

void core_drain_node_gone(struct core *core, const struct node *node)
{
    list_each (&core->tasks, link, next) {
        struct task *task = list_entry(link, struct task, link);

        if (task->drain != NULL && node_of(core, task) == node)
            core_task_end(core, task, WIRE_TASK_FAILED, SNOW_UNREACHABLE, "the node was lost");
    }
}

void core_drain_left(const struct core *core, const struct task *task, uint64_t *objects,
                     uint64_t *bytes)
{
    const struct node *node = node_of(core, task);

    *objects = task->drain->sorted + task->under_way + (task->drain->waiting != 0);
    *bytes = 0;
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct segment *segment = core->segments[node->first_segment + i];

        if (segment->space != NULL)
            *bytes += space_size(segment->space) - space_free_bytes(segment->space);
    }
}

/* ---- sorting ---- */

static uint32_t class_of_score(uint64_t score)
{
    uint32_t top;

    if (score < SCORE_STEPS)
        return (uint32_t)score;
    top = 63u - (uint32_t)__builtin_clzll(score);
    uint32_t class = top * SCORE_STEPS + (uint32_t)(score >> (top - 2) & 3);

    return class < SCORE_CLASSES ? class : SCORE_CLASSES - 1;
}

static uint32_t class_of(struct core *core, uint32_t number, uint32_t next_victim)
{
    uint32_t unit = core_unit_of(core, number);
    uint32_t rank = core_victim_rank(core_object(core, unit));

    if (rank == VICTIM_RANK_DONE)
        return 0;
    if (rank == VICTIM_RANK_POLICY)
        return 1 + class_of_score(core->policy->score(core, next_victim, unit));
    return SCORE_CLASSES + rank - 1;
}

_Static_assert(CLASSES >= SCORE_CLASSES + VICTIM_RANK_HARD, "each rank has its class");

static bool bucket_add(struct bucket *bucket, uint32_t number)
{
    if (bucket->count == bucket->capacity) {
        uint32_t capacity = bucket->capacity == 0 ? 64 : bucket->capacity * 2;
        uint32_t *grown = realloc(bucket->numbers, capacity * sizeof(*grown));

        if (grown == NULL)
            return false; /* it is found when the node is looked through again */
        bucket->numbers = grown;
        bucket->capacity = capacity;
    }
    bucket->numbers[bucket->count++] = number;
    return true;
}

static bool next_segment(struct drain *drain, const struct node *node)
{
    drain->slot = 0;
    if (++drain->segment < node->segment_count)
        return true;
    drain->segment = 0;
    drain->class = CLASSES - 1;
    drain->phase = DRAIN_MOVING;
    return false;
}

/* An object of several extents there is sorted several times, and moved once. */
static void sort(struct core *core, struct task *task, const struct node *node)
{
    struct drain *drain = task->drain;
    struct segment *segment = core->segments[node->first_segment + drain->segment];
    uint32_t next_victim = core->policy->victim(core, segment);
    uint32_t count = space_slot_count(segment->space);
    uint32_t looked = 0;

    for (uint32_t i = 0; i < STEP_SLOTS && looked < LIMIT_STEP_OBJECTS; i++) {
        if (drain->slot >= count) {
            next_segment(drain, node);
            break;
        }
        uint32_t slot = drain->slot++;

        if (!space_is_used(segment->space, slot))
            continue;
        uint32_t number = space_owner(segment->space, slot);

        looked++;
        if (core_object_state(core, number) == OBJECT_READABLE)
            drain->sorted +=
                bucket_add(&drain->buckets[class_of(core, number, next_victim)], number);
    }
    core->copies_due = true;
}

/* ---- moving ---- */

/* Bits of the copies that have a part there, and of whole ones elsewhere that can be read. */
static void look_at_copies(const struct core *core, uint32_t number, uint16_t node, uint16_t *here,
                           uint16_t *elsewhere)
{
    enum access accesses[LIMIT_REPLICAS];
    uint32_t count = core_part_count(core, number);

    *here = 0;
    *elsewhere = 0;
    core_replica_accesses(core, number, accesses);
    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && core->segments[part.segment]->node == node)
            *here = (uint16_t)(*here | 1u << part.replica);
    }
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++) {
        if (accesses[replica] == ACCESS_NOW && (*here >> replica & 1) == 0)
            *elsewhere = (uint16_t)(*elsewhere | 1u << replica);
    }
}

/* It is not worth what would have to go for it. */
static void drop(struct core *core, struct task *task, uint32_t number)
{
    const struct object *object = core_object(core, number);
    uint16_t here;
    uint16_t elsewhere;

    look_at_copies(core, number, (uint16_t)((task->from - 1) % LIMIT_NODES), &here, &elsewhere);
    if (elsewhere != 0) {
        core_copies_give_up(core, number, here);
        return;
    }
    if (object->flags & OBJECT_HARD_PIN) {
        task->reason = "hard-pinned objects find no room elsewhere";
        return;
    }
    if (object->leases > 0 && core->now_ns < task->drain->patience_ns)
        return;
    task->dropped_objects++;
    task->dropped_bytes += core_object_bytes(core, number);
    core_count(core, CORE_METRIC_drain_dropped, 1);
    core_victim_evict(core, number);
}

/* True: it needs no more; false: room is coming, or its turn. */
static bool move_one(struct core *core, struct task *task, uint32_t number)
{
    struct drain *drain = task->drain;
    struct copy_wish wish = {.task = task->id,
                             .object = number,
                             .from = (uint16_t)((task->from - 1) % LIMIT_NODES),
                             .to = COPY_ANYWHERE,
                             .move = true};
    bool tired = drain->waiting != 0 && task->under_way == 0 &&
                 core->now_ns >= drain->waiting_since_ns + WAIT_NS;
    uint64_t bytes;

    if (core_copy_of(core, number) != NULL)
        return true;
    wish.force = (core_object(core, number)->flags & OBJECT_HARD_PIN) != 0;
    enum snow_status status = core_copy_start(core, &wish, &bytes);

    if (status == SNOW_OK) {
        task->under_way++;
        core_pace_spend(core, &task->pace, task->rate, bytes);
    } else if (status == SNOW_BUSY && !tired) {
        return false;
    } else if (status == SNOW_BUSY || status == SNOW_NO_SPACE || status == SNOW_LIMIT) {
        drop(core, task, number);
    }
    return true; /* NOT_FOUND: it is gone from there; UNREACHABLE: the next look finds it */
}

static uint32_t next_object(struct drain *drain)
{
    struct bucket *bucket = &drain->buckets[drain->class];

    while (bucket->count == 0) {
        free(bucket->numbers);
        *bucket = (struct bucket){0};
        if (drain->class == 0)
            return 0;
        bucket = &drain->buckets[--drain->class];
    }
    drain->sorted--;
    return bucket->numbers[--bucket->count];
}

static void move(struct core *core, struct task *task)
{
    struct drain *drain = task->drain;

    for (uint32_t i = 0; i < LIMIT_STEP_OBJECTS; i++) {
        uint32_t number = drain->waiting;

        if (!core_pace_allows(core, &task->pace))
            return;
        if (number == 0)
            number = next_object(drain);
        if (number == 0) {
            drain->phase = DRAIN_RESTING;
            drain->rest_until_ns = core->now_ns + REST_NS;
            core_tasks_wake(core, drain->rest_until_ns);
            return;
        }
        if (!move_one(core, task, number)) {
            if (drain->waiting == 0)
                drain->waiting_since_ns = core->now_ns;
            drain->waiting = number;
            core_tasks_wake(core, core->now_ns + AGAIN_NS);
            return;
        }
        drain->waiting = 0;
    }
    core->copies_due = true;
}

/* ---- the whole ---- */

static bool is_empty(const struct core *core, const struct node *node)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const struct segment *segment = core->segments[node->first_segment + i];

        if (space_free_bytes(segment->space) < space_size(segment->space))
            return false;
    }
    return true;
}

void core_drain_run(struct core *core, struct task *task)
{
    struct node *node = node_of(core, task);
    struct drain *drain = task->drain;

    if (node->state != NODE_ALIVE || !node->linked)
        return; /* it goes on when the node is back */
    if (task->under_way == 0 && is_empty(core, node)) {
        core_task_end(core, task, WIRE_TASK_DONE, SNOW_OK, "");
        core_node_retire(core, node);
        return;
    }
    if (drain->phase == DRAIN_RESTING && core->now_ns >= drain->rest_until_ns) {
        drain->phase = DRAIN_SORTING;
        task->reason = "";
    }
    if (drain->phase == DRAIN_SORTING)
        sort(core, task, node);
    else if (drain->phase == DRAIN_MOVING)
        move(core, task);
    else
        core_tasks_wake(core, drain->rest_until_ns);
}
