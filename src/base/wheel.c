/* Where a timer stands follows from its tick and from now_tick alone: the level is that of the
 * highest 6-bit digit in which the two differ, the slot is the timer's digit there.  When now_tick
 * reaches a slot of level k > 0, its timers move to lower levels (they cascade).
 *
 * Invariants, beside those of the header.
 *   W3  On each level above 0 the slot of now_tick's own digit is empty.
 *   W4  Timers of one tick stand in the order in which they were armed: an earlier one is never on
 * a lower level than a later one, and cascading keeps the order. W5  A bit of occupied is set if
 * and only if its slot is not empty. */
#include "base/wheel.h"

#include "base/assert.h"

#include <stddef.h>

#define DIGIT_BITS 6
#define TOP_BITS (DIGIT_BITS * WHEEL_LEVELS)

static struct wheel_timer *timer_of(struct list_link *link)
{
    return list_entry(link, struct wheel_timer, link);
}

static uint32_t digit_of(uint64_t tick, uint32_t level)
{
    return (uint32_t)(tick >> (DIGIT_BITS * level)) & (WHEEL_SLOTS - 1);
}

void wheel_init(struct wheel *wheel, uint64_t tick_ns, uint64_t now_ns)
{
    ASSERT(tick_ns > 0);
    wheel->tick_ns = tick_ns;
    wheel->now_tick = now_ns / tick_ns;
    wheel->armed = 0;
    for (uint32_t level = 0; level < WHEEL_LEVELS; level++) {
        wheel->occupied[level] = 0;
        for (uint32_t slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&wheel->slots[level][slot]);
    }
    list_init(&wheel->due);
    list_init(&wheel->far_away);
}

/* Puts an unlinked timer where its tick belongs; one that is late goes to the slot of now. */
static void place(struct wheel *wheel, struct wheel_timer *timer)
{
    uint64_t tick = timer->at_ns / wheel->tick_ns;
    uint64_t differing;
    uint32_t level = 0;
    uint32_t slot;

    if (tick < wheel->now_tick)
        tick = wheel->now_tick;
    differing = tick ^ wheel->now_tick;
    if (differing >> TOP_BITS != 0) {
        list_push(&wheel->far_away, &timer->link);
        return;
    }
    if (differing != 0)
        level = (uint32_t)(63 - __builtin_clzll(differing)) / DIGIT_BITS;
    slot = digit_of(tick, level);
    list_push(&wheel->slots[level][slot], &timer->link);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

/* Takes a timer out of whatever list it is in, and keeps W5. */
static void unlink_timer(struct wheel *wheel, struct wheel_timer *timer)
{
    struct list_link *before = timer->link.prev;
    bool is_last = before == timer->link.next;

    list_remove(&timer->link);
    if (!is_last)
        return;
    /* The only link of its list: `before` is the head, and its place tells which slot it is. */
    const struct list *first = &wheel->slots[0][0];
    const struct list *list = list_entry(before, struct list, head);

    if (list >= first && list < first + WHEEL_LEVELS * WHEEL_SLOTS) {
        uint32_t position = (uint32_t)(list - first);

        wheel->occupied[position / WHEEL_SLOTS] &= ~(UINT64_C(1) << position % WHEEL_SLOTS);
    }
}

void wheel_arm(struct wheel *wheel, struct wheel_timer *timer, uint64_t at_ns)
{
    wheel_cancel(wheel, timer);
    timer->at_ns = at_ns;
    place(wheel, timer);
    wheel->armed++;
}

void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer)
{
    if (!wheel_is_armed(timer))
        return;
    unlink_timer(wheel, timer);
    wheel->armed--;
}

/* Places every timer of a list again, in order. */
static void place_again(struct wheel *wheel, struct list *list)
{
    struct list_link *last = list_last(list); /* some may come back to this list, behind it */
    bool is_done = last == NULL;

    while (!is_done) {
        struct wheel_timer *timer = timer_of(list_first(list));

        is_done = &timer->link == last;
        unlink_timer(wheel, timer);
        place(wheel, timer);
    }
}

/* The next tick after now_tick at which a slot starts that is not empty; UINT64_MAX: none. */
static uint64_t next_tick(const struct wheel *wheel)
{
    for (uint32_t level = 0; level < WHEEL_LEVELS; level++) {
        uint32_t digit = digit_of(wheel->now_tick, level);
        uint64_t later = wheel->occupied[level] & ~((UINT64_C(2) << digit) - 1);
        uint32_t shift = DIGIT_BITS * level;

        if (later != 0) {
            uint64_t above = wheel->now_tick >> shift >> DIGIT_BITS << DIGIT_BITS;

            return (above | (uint64_t)__builtin_ctzll(later)) << shift;
        }
    }
    if (!list_is_empty(&wheel->far_away))
        return ((wheel->now_tick >> TOP_BITS) + 1) << TOP_BITS;
    return UINT64_MAX;
}

/* now_tick moves on; nothing stands between its old and its new place. */
static void move_to(struct wheel *wheel, uint64_t tick)
{
    bool is_round = tick >> TOP_BITS != wheel->now_tick >> TOP_BITS;

    wheel->now_tick = tick;
    if (is_round)
        place_again(wheel, &wheel->far_away);
    for (uint32_t level = WHEEL_LEVELS - 1; level > 0; level--) {
        uint32_t slot = digit_of(tick, level);

        if (wheel->occupied[level] >> slot & 1)
            place_again(wheel, &wheel->slots[level][slot]);
    }
}

/* Moves what is due in the slot of now_tick to the list of due timers. */
static void collect(struct wheel *wheel, uint64_t now_ns)
{
    uint32_t slot = digit_of(wheel->now_tick, 0);

    if (!(wheel->occupied[0] >> slot & 1))
        return;
    list_each (&wheel->slots[0][slot], link, following) {
        struct wheel_timer *timer = timer_of(link);

        if (timer->at_ns <= now_ns) {
            unlink_timer(wheel, timer);
            list_push(&wheel->due, link);
        }
    }
}

uint32_t wheel_advance(struct wheel *wheel, uint64_t now_ns, uint32_t max, void *owner)
{
    uint64_t target = now_ns / wheel->tick_ns;
    uint32_t fired = 0;

    for (;;) {
        if (list_is_empty(&wheel->due))
            collect(wheel, now_ns);
        if (!list_is_empty(&wheel->due)) {
            struct wheel_timer *timer = timer_of(list_first(&wheel->due));

            if (fired == max)
                return fired;
            wheel_cancel(wheel, timer);
            fired++;
            timer->on_event(timer, owner);
            continue;
        }
        if (wheel->now_tick >= target)
            return fired;

        uint64_t tick = next_tick(wheel);

        move_to(wheel, tick < target ? tick : target);
    }
}

/* The earliest time in a slot of level 0. */
static uint64_t earliest(const struct list *list)
{
    uint64_t at_ns = UINT64_MAX - 1;

    list_each (list, link, following) {
        uint64_t candidate = timer_of(link)->at_ns;

        if (candidate < at_ns)
            at_ns = candidate;
    }
    return at_ns;
}

uint64_t wheel_next_ns(const struct wheel *wheel)
{
    uint32_t slot = digit_of(wheel->now_tick, 0);
    uint64_t tick;
    uint64_t at_ns;

    if (!list_is_empty(&wheel->due))
        return wheel->now_tick * wheel->tick_ns;
    if (wheel->occupied[0] >> slot & 1)
        return earliest(&wheel->slots[0][slot]);
    tick = next_tick(wheel);
    if (tick == UINT64_MAX)
        return UINT64_MAX;
    if ((tick ^ wheel->now_tick) < WHEEL_SLOTS)
        return earliest(&wheel->slots[0][digit_of(tick, 0)]);
    if (__builtin_mul_overflow(tick, wheel->tick_ns, &at_ns))
        return UINT64_MAX - 1;
    return at_ns;
}
