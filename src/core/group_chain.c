/* Chains of groups: parents and children, such as are not there, and orphans.
 *
 * Problem.  A chain is usable from its start, so its end has to go first; but a child may come
 *           before its parent does, and a parent may go and come again.
 * Idea.     A child names its parent by the hash of its id.  It is bound while the parent is there
 *           and not as deep.  A parent that is not there has a record of its own, at which its
 *           children wait; there is a bounded number of these, the one that was not asked for
 *           longest goes.  A child that waits is an orphan: nothing but a flag.  One that was not
 *           used for a turnover of the pool (as many bytes evicted as it holds) goes before others
 *           of its class.
 * Invariants.
 *   P1  A bound child is deeper than its parent, so links have no cycle.
 *   P2  A group with a parent is among the children of it, or of the record of the absent one
 *       (GROUP_ORPHAN), exactly once.
 *   P3  An absent parent has children, 1 to LIMIT_GROUP_WAITING; there are LIMIT_GROUPS_ABSENT of
 *       these at most.
 *   P4  What is not bound and waits no more was counted (parents_dropped).
 * Threads.  The core's own.   State.  Soft but for the hash, which the slots keep. */
#include "core/group.h"

#define LEAF_STEPS LIMIT_STEP_OBJECTS
#define STEP_CHILDREN LIMIT_STEP_OBJECTS

/* A parent that is not there. */
struct group_absent {
    struct hash128 id;    /* hash of its id */
    struct list_link age; /* in core->groups_absent, the one not asked for longest first */
    uint32_t child;       /* records of groups, linked by elder and younger */
    uint32_t children;
    uint32_t number; /* in core->group_absent_pool */
};

void core_group_chains_init(struct core *core)
{
    pool_init(&core->group_absent_pool, &core->region, sizeof(struct group_absent), 6,
              LIMIT_GROUPS_ABSENT + 1);
    list_init(&core->groups_absent);
}

static struct group_absent *absent_at(const struct core *core, uint32_t number)
{
    return pool_at(&core->group_absent_pool, number);
}

static struct group_absent *find_absent(const struct core *core, struct hash128 id)
{
    struct index_cursor cursor;
    uint32_t number = index_first(core->group_absents, id.low, &cursor);

    for (; number != 0; number = index_next(&cursor)) {
        struct group_absent *absent = absent_at(core, number);

        if (absent->id.low == id.low && absent->id.high == id.high)
            return absent;
    }
    return NULL;
}

static struct hash128 hash_of(const struct core *core, uint32_t record)
{
    return hash_key(CORE_TENANT, core_group_id(core, record));
}

/* ---- links ---- */

static void link_child(struct core *core, uint32_t *first, struct group *child)
{
    child->elder = 0;
    child->younger = *first;
    if (*first != 0)
        core_group_at(core, *first)->elder = child->record;
    *first = child->record;
}

static void unlink_child(struct core *core, uint32_t *first, struct group *child)
{
    if (child->elder != 0)
        core_group_at(core, child->elder)->younger = child->younger;
    else
        *first = child->younger;
    if (child->younger != 0)
        core_group_at(core, child->younger)->elder = child->elder;
    child->elder = 0;
    child->younger = 0;
    child->parent = 0;
    child->flags &= (uint8_t)~GROUP_ORPHAN;
}

static void free_absent(struct core *core, struct group_absent *absent)
{
    list_remove(&absent->age);
    index_remove(core->group_absents, absent->id.low, absent->number);
    pool_give(&core->group_absent_pool, absent->number);
}

void core_group_unbind(struct core *core, struct group *group)
{
    if (group->parent == 0)
        return;
    if ((group->flags & GROUP_ORPHAN) == 0) {
        unlink_child(core, &core_group_at(core, group->parent)->child, group);
        return;
    }
    struct group_absent *absent = absent_at(core, group->parent);

    unlink_child(core, &absent->child, group);
    if (--absent->children == 0)
        free_absent(core, absent);
}

static void drop_link(struct core *core, struct group *group)
{
    core_group_unbind(core, group);
    core_count(core, CORE_METRIC_parents_dropped, 1);
}

/* ---- binding ---- */

/* The group of that id, whose depth is settled; 0: it is not there. */
static uint32_t find_parent(const struct core *core, struct hash128 id)
{
    struct index_cursor cursor;
    uint32_t record = index_first(core->group_ids, id.low, &cursor);

    for (; record != 0; record = index_next(&cursor)) {
        struct hash128 hash = hash_of(core, record);
        const struct group *group = core_group_at(core, record);

        if (hash.low == id.low && hash.high == id.high && (group->flags & GROUP_SHADOW) == 0 &&
            (group->present > 0 || core_object(core, record)->depth != CORE_DEPTH_UNKNOWN))
            return record;
    }
    return 0;
}

/* Bound, or dropped. */
static void bind_to(struct core *core, struct group *child, uint32_t parent)
{
    uint32_t depth = core_object(core, child->record)->depth;

    if (depth == CORE_DEPTH_UNKNOWN || core_object(core, parent)->depth >= depth) {
        core_count(core, CORE_METRIC_parents_dropped, 1);
        return;
    }
    child->parent = parent;
    link_child(core, &core_group_at(core, parent)->child, child);
}

/* NULL: out of memory. */
static struct group_absent *new_absent(struct core *core, struct hash128 id)
{
    struct group_absent *absent;
    uint32_t number;

    if (core->group_absent_pool.used >= LIMIT_GROUPS_ABSENT) {
        absent = list_entry(list_first(&core->groups_absent), struct group_absent, age);
        number = absent->number;
        for (uint32_t left = absent->children; left > 0; left--) /* the last one frees it */
            drop_link(core, core_group_at(core, absent->child));
    }
    if (pool_take(&core->group_absent_pool, &number) != SNOW_OK)
        return NULL;
    absent = absent_at(core, number);
    if (index_insert(core->group_absents, id.low, number) != SNOW_OK) {
        pool_give(&core->group_absent_pool, number);
        return NULL;
    }
    absent->id = id;
    absent->number = number;
    list_push(&core->groups_absent, &absent->age);
    return absent;
}

static void wait_for_parent(struct core *core, struct group *child, struct hash128 parent)
{
    struct group_absent *absent = find_absent(core, parent);

    if (absent == NULL)
        absent = new_absent(core, parent);
    if (absent == NULL || absent->children == LIMIT_GROUP_WAITING) {
        core_count(core, CORE_METRIC_parents_dropped, 1);
        return;
    }
    list_remove(&absent->age);
    list_push(&core->groups_absent, &absent->age);
    absent->children++;
    child->parent = absent->number;
    child->flags |= GROUP_ORPHAN;
    link_child(core, &absent->child, child);
}

void core_group_bind(struct core *core, uint32_t record, struct hash128 parent)
{
    struct group *group = core_group_at(core, record);
    uint32_t there;

    if (group->parent != 0 || (parent.low == 0 && parent.high == 0))
        return;
    there = find_parent(core, parent);
    if (there != 0 || core_object(core, record)->depth == CORE_DEPTH_UNKNOWN)
        bind_to(core, group, there);
    else
        wait_for_parent(core, group, parent);
}

void core_group_arrived(struct core *core, uint32_t record)
{
    struct group_absent *absent;
    uint32_t left;

    if (core->group_absent_pool.used == 0)
        return;
    absent = find_absent(core, hash_of(core, record));
    left = absent == NULL ? 0 : absent->children;
    for (; left > 0; left--) { /* the last one frees it */
        struct group *child = core_group_at(core, absent->child);

        core_group_unbind(core, child);
        bind_to(core, child, record);
    }
}

bool core_group_part(struct core *core, struct group *group)
{
    struct hash128 id;

    if (group->child == 0)
        return true;
    id = hash_of(core, group->record);
    for (uint32_t i = 0; i < STEP_CHILDREN && group->child != 0; i++) {
        struct group *child = core_group_at(core, group->child);

        core_group_unbind(core, child);
        core_group_bind(core, child->record, id);
    }
    return group->child == 0;
}

struct hash128 core_group_parent(const struct core *core, const struct group *group)
{
    if (group->parent == 0)
        return (struct hash128){0};
    return group->flags & GROUP_ORPHAN ? absent_at(core, group->parent)->id
                                       : hash_of(core, group->parent);
}

/* ---- what goes first ---- */

static bool may_lead(const struct core *core, uint32_t record)
{
    uint16_t flags = core_object(core, record)->flags;

    return (flags & OBJECT_LISTED) != 0 &&
           ((flags & OBJECT_SOFT_PIN) == 0 || core->options.evict_soft_pinned);
}

/* A child goes before its parent: the first leaf below it that may go. */
uint32_t core_group_leaf(const struct core *core, uint32_t record)
{
    uint32_t at = record;
    uint32_t child = core_group_at(core, at)->child;

    for (uint32_t i = 0; i < LEAF_STEPS && child != 0; i++) {
        if (may_lead(core, child)) {
            at = child;
            child = core_group_at(core, at)->child;
        } else {
            child = core_group_at(core, child)->younger;
        }
    }
    return at;
}

/* A quarter of a turnover is over: orphans are looked at. */
static void note_turnover(struct core *core)
{
    struct turnover *turnover = &core->turnover;
    uint64_t evicted = core->counters[CORE_METRIC_evicted_bytes];

    if (evicted < turnover->next_bytes || core->pool_bytes == 0)
        return;
    turnover->next_bytes = evicted + core->pool_bytes / (CORE_TURNOVER_MARKS - 1);
    turnover->marks[turnover->count++ % CORE_TURNOVER_MARKS] = (uint32_t)core->touches;
    turnover->cursor = turnover->count > CORE_TURNOVER_MARKS ? 1 : 0;
}

void core_orphans_step(struct core *core)
{
    struct turnover *turnover = &core->turnover;
    uint32_t looked = 0;

    note_turnover(core);
    if (turnover->cursor == 0)
        return;
    uint32_t since = turnover->marks[turnover->count % CORE_TURNOVER_MARKS]; /* the oldest */

    while (turnover->cursor < core->group_absent_pool.fresh && looked < STEP_CHILDREN) {
        const struct group_absent *absent = absent_at(core, turnover->cursor++);
        uint32_t child = list_is_linked(&absent->age) ? absent->child : 0;

        looked++;
        for (; child != 0; child = core_group_at(core, child)->younger) {
            if ((int32_t)(core_object(core, child)->last_touch - since) < 0)
                core_victim_demote(core, child);
            looked++;
        }
    }
    if (turnover->cursor >= core->group_absent_pool.fresh)
        turnover->cursor = 0;
}

/* ---- check ---- */

static void check_children(const struct core *core, uint32_t first, uint32_t parent, uint8_t orphan,
                           uint32_t *count)
{
    uint32_t elder = 0;

    for (uint32_t child = first; child != 0; child = core_group_at(core, child)->younger) {
        const struct group *group = core_group_at(core, child);

        ASSERT(group->parent == parent && (group->flags & GROUP_ORPHAN) == orphan); /* P2 */
        ASSERT(group->elder == elder);
        elder = child;
        (*count)++;
    }
}

void core_group_chain_check(const struct core *core, uint32_t record, uint32_t *bound)
{
    const struct group *group = core_group_at(core, record);

    check_children(core, group->child, record, 0, bound);
    if (group->parent != 0 && (group->flags & GROUP_ORPHAN) == 0)
        ASSERT(core_object(core, group->parent)->depth < core_object(core, record)->depth);
}

void core_group_chains_check(const struct core *core, uint32_t bound, uint32_t with_parent)
{
    uint32_t count = 0;
    uint32_t waiting = 0;

    list_each (&core->groups_absent, link, next) {
        const struct group_absent *absent = list_entry(link, struct group_absent, age);
        uint32_t children = 0;

        check_children(core, absent->child, absent->number, GROUP_ORPHAN, &children);
        ASSERT(children == absent->children);
        ASSERT(children >= 1 && children <= LIMIT_GROUP_WAITING); /* P3 */
        ASSERT(find_absent(core, absent->id) == absent);
        waiting += children;
        count++;
    }
    ASSERT(count == core->group_absent_pool.used && count <= LIMIT_GROUPS_ABSENT);
    ASSERT(index_count(core->group_absents) == count);
    ASSERT(bound + waiting == with_parent); /* P2 */
}
