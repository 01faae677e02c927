/* The timer wheel against a naive array: 100,000 random arms, cancels and advances; callbacks arm
 * and cancel too.  Checks that each timer fires at the first advance to its time, in order. */
#include "base/rng.h"
#include "base/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { STEPS = 100000, TIMERS = 200 };

struct world {
    struct wheel wheel;
    struct wheel_timer timers[TIMERS];
    bool armed[TIMERS];
    uint64_t order[TIMERS]; /* number of the arming */
    uint64_t arms;
    uint64_t now_ns;
    uint64_t last_tick; /* of what fired last in this advance */
    uint64_t last_order;
    struct rng *rng;
};

static uint64_t tick_of(const struct world *world, const struct wheel_timer *timer)
{
    return timer->at_ns / world->wheel.tick_ns;
}

static void arm(struct world *world, uint32_t i, uint64_t at_ns)
{
    wheel_arm(&world->wheel, &world->timers[i], at_ns);
    world->armed[i] = true;
    world->order[i] = ++world->arms;
}

static void cancel(struct world *world, uint32_t i)
{
    wheel_cancel(&world->wheel, &world->timers[i]);
    world->armed[i] = false;
}

static uint64_t random_delay(struct rng *rng)
{
    uint64_t bound = UINT64_C(1) << rng_below(rng, 50);

    return rng_below(rng, bound);
}

static void on_timer(struct wheel_timer *timer, void *owner)
{
    struct world *world = owner;
    uint32_t i = (uint32_t)(timer - world->timers);
    uint64_t tick = tick_of(world, timer);

    assert_true(world->armed[i] && !wheel_is_armed(timer));
    assert_true(timer->at_ns <= world->now_ns);
    assert_true(tick >= world->last_tick);
    assert_true(tick > world->last_tick || world->order[i] > world->last_order);
    world->last_tick = tick;
    world->last_order = world->order[i];
    world->armed[i] = false;
    if (rng_chance(world->rng, 1, 4))
        cancel(world, (uint32_t)rng_below(world->rng, TIMERS));
    if (rng_chance(world->rng, 1, 4))
        arm(world, (uint32_t)rng_below(world->rng, TIMERS),
            world->now_ns + 1 + random_delay(world->rng));
}

/* The earliest armed time, UINT64_MAX: none. */
static uint64_t earliest(const struct world *world)
{
    uint64_t at_ns = UINT64_MAX;

    for (uint32_t i = 0; i < TIMERS; i++) {
        if (world->armed[i] && world->timers[i].at_ns < at_ns)
            at_ns = world->timers[i].at_ns;
    }
    return at_ns;
}

static void advance(struct world *world)
{
    uint64_t next = wheel_next_ns(&world->wheel);
    uint32_t max = (uint32_t)rng_between(world->rng, 1, 20);
    uint32_t fired;

    assert_true(next <= earliest(world));
    assert_int_equal(next == UINT64_MAX, earliest(world) == UINT64_MAX);
    if (next != UINT64_MAX && rng_chance(world->rng, 1, 2))
        world->now_ns = next > world->now_ns ? next : world->now_ns;
    else
        world->now_ns += random_delay(world->rng) >> rng_below(world->rng, 20);
    world->last_tick = 0;
    world->last_order = 0;
    do
        fired = wheel_advance(&world->wheel, world->now_ns, max, world);
    while (fired == max);
    assert_true(earliest(world) > world->now_ns);
}

static void run(uint64_t seed, uint64_t tick_ns)
{
    struct rng rng;
    struct world world = {.now_ns = UINT64_C(1) << 33, .rng = &rng};
    uint32_t count = 0;

    rng_init(&rng, seed);
    wheel_init(&world.wheel, tick_ns, world.now_ns);
    for (uint32_t i = 0; i < TIMERS; i++)
        world.timers[i].on_event = on_timer;
    for (uint32_t step = 0; step < STEPS / 4; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, TIMERS);

        switch (rng_below(&rng, 4)) {
        case 0:
            advance(&world);
            break;
        case 1:
            cancel(&world, i);
            break;
        default:
            arm(&world, i, world.now_ns + 1 + random_delay(&rng));
        }
    }
    for (uint32_t i = 0; i < TIMERS; i++) {
        assert_int_equal(world.armed[i], wheel_is_armed(&world.timers[i]));
        count += world.armed[i];
    }
    assert_int_equal(world.wheel.armed, count);
}

static void test_random_operations(void **state)
{
    (void)state;
    run(1, 1);
    run(2, 1000);
    run(3, 1000000);
    run(4, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
