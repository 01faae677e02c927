/* Reuse-rate classes: the unit goes whose reuse is to be expected latest.
 *
 * Idea.  One list a class (reuse.h) in LRU order; the victim is the one of the lists' old ends
 *        that scores lowest.  Ties: older, less used, deeper.  Sizes do not enter: value is
 *        proportional to bytes.  Units that were evicted are remembered (ghosts.h), twice as many
 *        as the pool holds: one that is put again goes on with its count.
 * Rules. The trial (trial.h) may hand over to another rule: the oldest of all goes (LRU); or those
 *        that were put last and not used since (a list of their own), so that a loop larger than
 *        the pool hits what is kept of it. */
#include "core/policy.h"

#include "core/inside.h"

#define GHOSTS_PER_UNIT 2u
#define SCORE_UNIT 1099511627776.0f /* 2^40: one reuse a touch */

_Static_assert(SHADOW_LISTS <= POLICY_LISTS, "each class has its list");

static uint32_t class_of(const struct object *object)
{
    return reuse_class(object->uses, object->depth);
}

static uint32_t age_of(const struct core *core, const struct object *object)
{
    return (uint32_t)core->touches - object->last_touch;
}

static struct victim_list *list_of(struct segment *segment, const struct object *object)
{
    return &segment->lists[object->flags & OBJECT_NEW ? SHADOW_NEW : class_of(object)];
}

/* Whether a unit that is put now is among the first to go. */
static bool starts_as_new(struct core *core)
{
    return core->trial.rule == SHADOW_KEEP &&
           core->inserted++ % SHADOW_KEEP_ROUND >= SHADOW_KEEP_PART;
}

static void rrc_insert(struct core *core, struct segment *segment, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct ghost ghost;

    if (ghosts_count(&core->ghosts) > 0 &&
        ghosts_take(&core->ghosts, core_object_hash(core, number), &ghost)) {
        reuse_used(&core->reuse, ghost.class, (uint32_t)core->touches - ghost.last_touch);
        object->uses = (ghost.uses < OBJECT_USES_MAX ? ghost.uses + 1u : OBJECT_USES_MAX) & 15;
    }
    reuse_entered(&core->reuse, class_of(object));
    if (starts_as_new(core))
        object_flag(object, OBJECT_NEW);
    policy_push_young(core, list_of(segment, object), number);
}

static void rrc_leave(struct core *core, struct segment *segment, uint32_t number)
{
    policy_unlink(core, list_of(segment, core_object(core, number)), number);
}

static void rrc_come_back(struct core *core, struct segment *segment, uint32_t number)
{
    policy_push_young(core, list_of(segment, core_object(core, number)), number);
}

/* The class of an object once it is used. */
static uint32_t count_use(struct core *core, struct object *object, bool counts)
{
    uint32_t class = reuse_class(object->uses + counts, object->depth);

    if (counts) {
        object_unflag(object, OBJECT_NEW);
        reuse_used(&core->reuse, class_of(object), age_of(core, object));
        reuse_entered(&core->reuse, class);
    }
    return class;
}

static void rrc_touch(struct core *core, struct segment *segment, uint32_t number, bool counts)
{
    struct object *object = core_object(core, number);

    rrc_leave(core, segment, number);
    uint32_t class = count_use(core, object, counts);

    policy_push_young(core, &segment->lists[object->flags & OBJECT_NEW ? SHADOW_NEW : class],
                      number);
}

static void rrc_touch_away(struct core *core, struct segment *segment, uint32_t number, bool counts)
{
    (void)segment;
    count_use(core, core_object(core, number), counts);
}

static void rrc_demote(struct core *core, struct segment *segment, uint32_t number)
{
    policy_demote(core, list_of(segment, core_object(core, number)), number);
}

static void rrc_evicted(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);
    struct ghost ghost = {.last_touch = object->last_touch,
                          .class = (uint16_t)class_of(object),
                          .uses = (uint8_t)object->uses};

    ghosts_add(&core->ghosts, core_object_hash(core, number), &ghost,
               GHOSTS_PER_UNIT * ((uint64_t)core->readable + core->writing));
}

static float score_of(const struct core *core, const struct object *object)
{
    return reuse_score(&core->reuse, class_of(object), age_of(core, object));
}

/* What decides between two units. */
struct rank {
    float score;
    uint32_t age;
    uint16_t uses;
    uint16_t depth;
};

static struct rank rank_of(const struct core *core, const struct object *object, uint32_t class)
{
    uint32_t age = age_of(core, object);
    bool oldest = core->trial.rule == SHADOW_OLDEST;

    return (struct rank){.score = oldest ? 0 : reuse_score(&core->reuse, class, age),
                         .age = age,
                         .uses = object->uses,
                         .depth = object->depth};
}

static bool goes_before(const struct rank *left, const struct rank *right)
{
    if (left->score < right->score || left->score > right->score)
        return left->score < right->score;
    if (left->age != right->age)
        return left->age > right->age;
    return left->uses != right->uses ? left->uses < right->uses : left->depth > right->depth;
}

static bool rrc_before(struct core *core, uint32_t a, uint32_t b)
{
    const struct object *left = core_object(core, a);
    const struct object *right = core_object(core, b);
    struct rank left_rank = rank_of(core, left, class_of(left));
    struct rank right_rank = rank_of(core, right, class_of(right));

    return goes_before(&left_rank, &right_rank);
}

static uint32_t rrc_victim(struct core *core, struct segment *segment)
{
    struct rank best_rank = {0};
    uint32_t best = 0;

    reuse_prepare(&core->reuse, core->touches, core->units_max);
    if (core->trial.rule == SHADOW_KEEP && segment->lists[SHADOW_NEW].old != 0)
        return segment->lists[SHADOW_NEW].old;
    for (uint32_t list = 0; list < SHADOW_LISTS; list++) {
        uint32_t tail = segment->lists[list].old;

        if (tail == 0)
            continue;
        const struct object *object = core_object(core, tail);
        struct rank rank = rank_of(core, object, list == SHADOW_NEW ? class_of(object) : list);

        if (best == 0 || goes_before(&rank, &best_rank)) {
            best = tail;
            best_rank = rank;
        }
    }
    return best;
}

static uint32_t rrc_after(struct core *core, struct segment *segment, uint32_t number)
{
    (void)segment;
    return core_object(core, number)->next;
}

static uint64_t rrc_score(struct core *core, uint32_t next, uint32_t number)
{
    (void)next;
    return (uint64_t)(score_of(core, core_object(core, number)) * SCORE_UNIT);
}

const struct policy_ops policy_rrc = {
    .name = "rrc",
    .tried = true,
    .insert = rrc_insert,
    .touch = rrc_touch,
    .touch_away = rrc_touch_away,
    .leave = rrc_leave,
    .come_back = rrc_come_back,
    .demote = rrc_demote,
    .evicted = rrc_evicted,
    .victim = rrc_victim,
    .after = rrc_after,
    .before = rrc_before,
    .score = rrc_score,
};
