/* S3-FIFO (Yang et al., SOSP 2023): a small queue for new units, a main one for those that were
 * used more than once in it, and ghosts of what the small one gave up.  For comparison.
 *
 * Each unit has a count of uses, up to 3, since it last moved.  The small queue gives way while it
 * holds more than a tenth; its oldest goes to the main queue if it was used more than once, else it
 * is evicted.  The oldest of the main queue goes round once more for each use it has.  A unit that
 * was away (leased) comes back young: to the small queue, or to the main one. */
#include "core/policy.h"

#include "core/inside.h"

#define SMALL 0u
#define MAIN 1u
#define SMALL_SHARE 10u /* of all units: one in so many */
#define HEAT_MAX 3u
#define STEPS_MAX 256u /* moves in search of a victim; then the oldest goes as it is */

/* The policy's four bits of a record: queue (1), heat (2). */
static uint32_t queue_of(const struct object *object)
{
    return object->policy & 1;
}

static uint32_t heat_of(const struct object *object)
{
    return object->policy >> 1 & HEAT_MAX;
}

static void set_mark(struct object *object, uint32_t queue, uint32_t heat)
{
    object->policy = (queue | heat << 1) & 15;
}

static void s3fifo_insert(struct core *core, struct segment *segment, uint32_t number)
{
    struct object *object = core_object(core, number);
    struct ghost ghost;
    bool known = ghosts_count(&core->ghosts) > 0 &&
                 ghosts_take(&core->ghosts, core_object_hash(core, number), &ghost);

    set_mark(object, known ? MAIN : SMALL, 0);
    policy_push_young(core, &segment->lists[queue_of(object)], number);
}

static void s3fifo_touch(struct core *core, struct segment *segment, uint32_t number, bool counts)
{
    struct object *object = core_object(core, number);

    (void)segment;
    if (counts && heat_of(object) < HEAT_MAX)
        set_mark(object, queue_of(object), heat_of(object) + 1);
}

static void s3fifo_leave(struct core *core, struct segment *segment, uint32_t number)
{
    policy_unlink(core, &segment->lists[queue_of(core_object(core, number))], number);
}

static void s3fifo_come_back(struct core *core, struct segment *segment, uint32_t number)
{
    policy_push_young(core, &segment->lists[queue_of(core_object(core, number))], number);
}

static void s3fifo_demote(struct core *core, struct segment *segment, uint32_t number)
{
    policy_demote(core, &segment->lists[queue_of(core_object(core, number))], number);
}

static void s3fifo_evicted(struct core *core, uint32_t number)
{
    const struct object *object = core_object(core, number);
    struct ghost ghost = {.last_touch = object->last_touch, .uses = (uint8_t)object->uses};

    if (queue_of(object) == SMALL)
        ghosts_add(&core->ghosts, core_object_hash(core, number), &ghost,
                   (uint64_t)core->readable + core->writing);
}

/* The oldest of a queue moves to the young end of the main one. */
static void move_oldest(struct core *core, struct segment *segment, uint32_t queue, uint32_t heat)
{
    uint32_t number = segment->lists[queue].old;

    policy_unlink(core, &segment->lists[queue], number);
    set_mark(core_object(core, number), MAIN, heat);
    policy_push_young(core, &segment->lists[MAIN], number);
}

static uint32_t s3fifo_victim(struct core *core, struct segment *segment)
{
    const struct victim_list *small = &segment->lists[SMALL];
    const struct victim_list *main = &segment->lists[MAIN];

    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        bool from_small =
            main->count == 0 || small->count > (small->count + main->count) / SMALL_SHARE;
        uint32_t number = from_small ? small->old : main->old;
        uint32_t heat = number == 0 ? 0 : heat_of(core_object(core, number));

        if (heat == 0 || (from_small && heat == 1))
            return number;
        move_oldest(core, segment, from_small ? SMALL : MAIN, from_small ? 0 : heat - 1);
    }
    return small->old != 0 ? small->old : main->old;
}

static uint32_t s3fifo_after(struct core *core, struct segment *segment, uint32_t number)
{
    (void)segment;
    return core_object(core, number)->next;
}

static bool s3fifo_before(struct core *core, uint32_t a, uint32_t b)
{
    uint32_t now = (uint32_t)core->touches;

    return now - core_object(core, a)->last_touch > now - core_object(core, b)->last_touch;
}

static uint64_t s3fifo_score(struct core *core, uint32_t next, uint32_t number)
{
    const struct object *object = core_object(core, number);

    (void)next;
    return heat_of(object) + (queue_of(object) == MAIN ? HEAT_MAX : 0);
}

const struct policy_ops policy_s3fifo = {
    .name = "s3fifo",
    .insert = s3fifo_insert,
    .touch = s3fifo_touch,
    .touch_away = s3fifo_touch,
    .leave = s3fifo_leave,
    .come_back = s3fifo_come_back,
    .demote = s3fifo_demote,
    .evicted = s3fifo_evicted,
    .victim = s3fifo_victim,
    .after = s3fifo_after,
    .before = s3fifo_before,
    .score = s3fifo_score,
};
