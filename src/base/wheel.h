/* Hierarchical timer wheel: each deadline costs O(1) to arm, cancel and fire (Varghese and Lauck,
 * 1987).
 *
 * Idea.  Levels of 64 slots; level k has slots of 64^k ticks.  Firing is in order of tick; within a
 *        tick in order of arming.  Pure: time comes as an argument.
 * Invariants.
 *   W1  A timer fires at the first advance to its time or later, never before.
 *   W2  on_event may arm and cancel any timer, its own too. */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_LEVELS 6
#define WHEEL_SLOTS 64

struct wheel_timer {
    struct list_link link; /* the wheel's */
    uint64_t at_ns;
    void (*on_event)(struct wheel_timer *timer, void *owner); /* owner: as given to wheel_advance */
};

struct wheel {
    uint64_t tick_ns;
    uint64_t now_tick;
    uint64_t occupied[WHEEL_LEVELS]; /* bit s: slot s is not empty */
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
    struct list due;      /* about to fire, in order; what is left here was above max */
    struct list far_away; /* beyond the top level */
    uint32_t armed;       /* timers in all lists */
};

void wheel_init(struct wheel *wheel, uint64_t tick_ns, uint64_t now_ns);
/* armed already: moved */
void wheel_arm(struct wheel *wheel, struct wheel_timer *timer, uint64_t at_ns);
/* not armed: nothing */
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);
static inline bool wheel_is_armed(const struct wheel_timer *timer)
{
    return list_is_linked(&timer->link);
}
/* Fires all that is due at now_ns, at most max of them; returns how many.  What on_event arms for a
 * time that has come fires in the same advance, within max. */
uint32_t wheel_advance(struct wheel *wheel, uint64_t now_ns, uint32_t max, void *owner);
/* A time at which to advance next: not after the earliest timer (it may be earlier).
 * UINT64_MAX: none. */
uint64_t wheel_next_ns(const struct wheel *wheel);

#endif
