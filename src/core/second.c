/* Second copies: what is used often lies on two nodes, so that one may be lost.
 *
 * Problem.  A few objects (the heads of prompts) make most of the hits, and a chain is of use only
 *           to its first hole: with one node they go.  Copies of everything would halve the pool.
 * Idea.     An object of CORE_SHARED_USES uses, in one extent, gets one more copy on another node,
 *           while all these take no more than a share of the pool.  They are what goes first: a
 *           second copy gives way when its object would be evicted before what else is in its
 *           segment, and when the object was not used for as long as the pool turns over.
 * Invariants.
 *   B1  A second copy is one of several whole ones: the last one is never given up as such.
 *   B2  core->second_bytes is the sum of their bytes; each stands in the list of its segment,
 *       longest unused first.
 *   B3  What wants one waits in a ring of bounded size; the latest are left out.
 * Threads.  The core's own.   State.  Soft: a restarted master takes them for ordinary copies. */
#include "core/group.h"

#define UNDER_WAY_MAX 8u
#define STEP_LOOKS 64u

static struct second *second_of(const struct core *core, uint32_t number)
{
    struct index_cursor cursor;
    uint32_t at;

    if (core->second_pool.used == 0)
        return NULL;
    for (at = index_first(core->seconds, core_mix(number), &cursor); at != 0;
         at = index_next(&cursor)) {
        struct second *second = pool_at(&core->second_pool, at);

        if (second->object == number)
            return second;
    }
    return NULL;
}

static uint64_t budget(const struct core *core)
{
    return core->pool_bytes / 100 * core->options.second_copies_percent;
}

static void forget(struct core *core, struct second *second)
{
    index_remove(core->seconds, core_mix(second->object), second->number);
    list_remove(&second->of_segment);
    core->second_bytes -= second->bytes;
    pool_give(&core->second_pool, second->number);
}

void core_second_object_gone(struct core *core, uint32_t number)
{
    struct second *second = second_of(core, number);

    if (second != NULL)
        forget(core, second);
}

/* The part that is the second copy; false: it is gone. */
static bool find_part(const struct core *core, const struct second *second, struct part *found)
{
    uint32_t count = core_part_count(core, second->object);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, second->object, i);

        if (part.present && part.replica == second->replica) {
            *found = part;
            return true;
        }
    }
    return false;
}

void core_second_refresh(struct core *core, uint32_t number)
{
    struct second *second = second_of(core, number);
    struct part part;

    if (second == NULL)
        return;
    if (!find_part(core, second, &part) || core_replica_count(core, number) < 2) {
        forget(core, second);
        return;
    }
    list_remove(&second->of_segment);
    list_push(&core->segments[part.segment]->seconds, &second->of_segment);
}

void core_second_made(struct core *core, uint32_t number, uint8_t replica)
{
    struct second *second;
    uint32_t at;

    if (second_of(core, number) != NULL || pool_take(&core->second_pool, &at) != SNOW_OK)
        return; /* an ordinary copy then */
    second = pool_at(&core->second_pool, at);
    second->number = at;
    second->object = number;
    second->replica = replica;
    second->touched = core->touches;
    struct part part;

    if (!find_part(core, second, &part) ||
        index_insert(core->seconds, core_mix(number), at) != SNOW_OK) {
        pool_give(&core->second_pool, at);
        return;
    }
    second->bytes = core_part_bytes(&part);
    core->second_bytes += second->bytes;
    list_push(&core->segments[part.segment]->seconds, &second->of_segment);
    core_count(core, CORE_METRIC_second_copies_made, 1);
}

/* ---- who gets one ---- */

void core_second_used(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);
    struct second *second;

    if (object->uses < CORE_SHARED_USES || core->options.second_copies_percent == 0 ||
        object->state != OBJECT_READABLE)
        return;
    second = object->flags & OBJECT_SPREAD ? second_of(core, number) : NULL;
    if (second != NULL) {
        struct part part;

        second->touched = core->touches;
        if (find_part(core, second, &part)) {
            list_remove(&second->of_segment);
            list_push(&core->segments[part.segment]->seconds, &second->of_segment);
        }
        return;
    }
    if (core->node_count < 2 || core->wanting_count == CORE_SECONDS_WANTED ||
        core->second_bytes + object->size > budget(core) || core_part_count(core, number) != 1)
        return;
    core->wanting[(core->wanting_first + core->wanting_count++) % CORE_SECONDS_WANTED] = number;
    core->copies_due = true;
}

static uint32_t under_way(const struct core *core)
{
    uint32_t count = 0;

    list_each (&core->copies, link, next)
        count += list_entry(link, struct copy, link)->second;
    return count;
}

/* What was used often and is still there, in one extent, without a copy under way. */
static bool still_wants(const struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);

    return core_object_state(core, number) == OBJECT_READABLE && object->uses >= CORE_SHARED_USES &&
           core_part_count(core, number) == 1 && core_part_at(core, number, 0).parts == 1 &&
           core_copy_of(core, number) == NULL && core->second_bytes + object->size <= budget(core);
}

static void drop(struct core *core, struct second *second)
{
    uint32_t number = second->object;
    uint16_t replica = (uint16_t)(1u << second->replica);

    forget(core, second);
    core_count(core, CORE_METRIC_second_copies_dropped, 1);
    core_copies_give_up(core, number, replica);
}

/* There is another one that can be read now. */
static bool may_drop(const struct core *core, const struct second *second)
{
    enum access accesses[LIMIT_REPLICAS];

    core_replica_accesses(core, second->object, accesses);
    for (uint32_t replica = 0; replica < LIMIT_REPLICAS; replica++) {
        if (replica != second->replica && accesses[replica] == ACCESS_NOW)
            return true;
    }
    return false;
}

bool core_second_gives_way(struct core *core, struct segment *segment, uint32_t victim)
{
    struct list_link *link = list_first(&segment->seconds);
    struct second *second = link == NULL ? NULL : list_entry(link, struct second, of_segment);

    if (second == NULL || !may_drop(core, second) || core_copy_of(core, second->object) != NULL)
        return false;
    if (victim != 0 && core->touches - second->touched <= core->units_max &&
        core->second_bytes <= budget(core) && !core_victim_before(core, second->object, victim))
        return false;
    drop(core, second);
    return true;
}

void core_seconds_run(struct core *core)
{
    uint32_t started = under_way(core);

    for (uint32_t i = 0; i < STEP_LOOKS && core->wanting_count > 0; i++) {
        uint32_t number = core->wanting[core->wanting_first];
        struct copy_wish wish = {.object = number, .to = COPY_ANYWHERE, .second = true};
        uint64_t bytes;

        if (started >= UNDER_WAY_MAX || !core_pace_allows(core, &core->second_pace))
            return; /* looked at again when one ends, or then */
        core->wanting_first = (core->wanting_first + 1) % CORE_SECONDS_WANTED;
        core->wanting_count--;
        if (!still_wants(core, number) || core_copy_start(core, &wish, &bytes) != SNOW_OK)
            continue; /* its next use asks again */
        started++;
        core_pace_spend(core, &core->second_pace, core->options.copy_rate_bytes, bytes);
    }
    core->copies_due = core->copies_due || core->wanting_count > 0;
}

/* B1, B2. */
void core_seconds_check(struct core *core)
{
    uint64_t bytes = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < core->segment_count; i++) {
        list_each (&core->segments[i]->seconds, link, next) {
            const struct second *second = list_entry(link, struct second, of_segment);
            struct part part;

            ASSERT(find_part(core, second, &part) && part.segment == i);
            ASSERT(core_object(core, second->object)->state == OBJECT_READABLE);
            ASSERT(core_replica_count(core, second->object) > 1);
            ASSERT(second_of(core, second->object) == second);
            bytes += second->bytes;
            count++;
        }
    }
    ASSERT(bytes == core->second_bytes && count == core->second_pool.used);
}
