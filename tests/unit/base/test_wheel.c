/* Timer wheel: nothing early, nothing missed, order kept, callbacks may do anything. */
#include "base/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TICK 1000u

struct fixture {
    struct wheel wheel;
    uint32_t fired[64]; /* ids in order */
    uint32_t count;
    struct timer_of_test *timers;
};

struct timer_of_test {
    struct wheel_timer timer;
    uint32_t id;
    struct timer_of_test *to_cancel;
    uint64_t again_at_ns; /* 0: not again */
};

static void on_timer(struct wheel_timer *timer, void *owner)
{
    struct fixture *fixture = owner;
    struct timer_of_test *mine = (struct timer_of_test *)(void *)timer;

    assert_false(wheel_is_armed(timer));
    assert_true(fixture->count < 64);
    fixture->fired[fixture->count++] = mine->id;
    if (mine->to_cancel != NULL)
        wheel_cancel(&fixture->wheel, &mine->to_cancel->timer);
    if (mine->again_at_ns != 0)
        wheel_arm(&fixture->wheel, timer, mine->again_at_ns);
    mine->again_at_ns = 0;
}

static uint32_t advance(struct fixture *fixture, uint64_t now_ns)
{
    return wheel_advance(&fixture->wheel, now_ns, UINT32_MAX, fixture);
}

#define TIMER(number) \
    { \
        .timer = {.on_event = on_timer}, .id = (number) \
    }

static void test_fires_at_its_time(void **state)
{
    static const uint64_t delays[] = {0,       1,       999,       1000,
                                      1001,    63999,   64000,     64001,
                                      4095999, 4096000, 300000000, UINT64_C(70000000000000)};
    uint64_t start = 12345678;

    (void)state;
    for (uint32_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
        struct fixture fixture = {.count = 0};
        struct timer_of_test timer = TIMER(1);
        uint64_t at = start + delays[i];

        wheel_init(&fixture.wheel, TICK, start);
        assert_true(wheel_next_ns(&fixture.wheel) == UINT64_MAX);
        wheel_arm(&fixture.wheel, &timer.timer, at);
        assert_int_equal(fixture.wheel.armed, 1);
        if (delays[i] > 0)
            assert_int_equal(advance(&fixture, at - 1), 0);
        assert_true(wheel_next_ns(&fixture.wheel) == at);
        assert_int_equal(advance(&fixture, at), 1);
        assert_int_equal(fixture.wheel.armed, 0);
        assert_int_equal(advance(&fixture, at + 1), 0);
    }
}

/* Following wheel_next_ns reaches a timer in few steps and never passes it. */
static void test_next_leads_there(void **state)
{
    struct fixture fixture = {.count = 0};
    struct timer_of_test timer = TIMER(1);
    uint64_t at = UINT64_C(987654321987654321);
    uint64_t now = 0;
    uint32_t steps = 0;

    (void)state;
    wheel_init(&fixture.wheel, TICK, now);
    wheel_arm(&fixture.wheel, &timer.timer, at);
    while (fixture.count == 0) {
        uint64_t next = wheel_next_ns(&fixture.wheel);

        assert_true(next > now && next <= at);
        now = next;
        advance(&fixture, now);
        steps++;
        if (steps == 1 && now < at / 2) /* far away: one step a round of the top level */
            advance(&fixture, now = at - 5000000000000);
    }
    assert_true(now == at && steps < 20);
}

static void test_order(void **state)
{
    struct fixture fixture = {.count = 0};
    struct timer_of_test timers[4] = {TIMER(0), TIMER(1), TIMER(2), TIMER(3)};

    (void)state;
    wheel_init(&fixture.wheel, TICK, 0);
    wheel_arm(&fixture.wheel, &timers[0].timer, 100500); /* from a higher level */
    wheel_arm(&fixture.wheel, &timers[1].timer, 90000);
    advance(&fixture, 65000);
    wheel_arm(&fixture.wheel, &timers[2].timer, 100400);
    wheel_arm(&fixture.wheel, &timers[3].timer, 99000);
    assert_int_equal(advance(&fixture, 1000000), 4);
    assert_int_equal(fixture.fired[0], 1);
    assert_int_equal(fixture.fired[1], 3);
    assert_int_equal(fixture.fired[2], 0); /* same tick: in order of arming */
    assert_int_equal(fixture.fired[3], 2);
}

static void test_cancel_and_move(void **state)
{
    struct fixture fixture = {.count = 0};
    struct timer_of_test timers[2] = {TIMER(0), TIMER(1)};

    (void)state;
    wheel_init(&fixture.wheel, TICK, 0);
    wheel_cancel(&fixture.wheel, &timers[0].timer);
    wheel_arm(&fixture.wheel, &timers[0].timer, 5000);
    wheel_arm(&fixture.wheel, &timers[1].timer, 5000);
    wheel_arm(&fixture.wheel, &timers[1].timer, 900000);
    wheel_cancel(&fixture.wheel, &timers[0].timer);
    assert_int_equal(fixture.wheel.armed, 1);
    assert_true(wheel_next_ns(&fixture.wheel) > 5000);
    assert_int_equal(advance(&fixture, 899999), 0);
    assert_int_equal(advance(&fixture, 900000), 1);
    assert_true(wheel_next_ns(&fixture.wheel) == UINT64_MAX);
}

static void test_callbacks_arm_and_cancel(void **state)
{
    struct fixture fixture = {.count = 0};
    struct timer_of_test timers[3] = {TIMER(0), TIMER(1), TIMER(2)};

    (void)state;
    wheel_init(&fixture.wheel, TICK, 0);
    for (uint32_t i = 0; i < 3; i++)
        wheel_arm(&fixture.wheel, &timers[i].timer, 7000);
    timers[0].to_cancel = &timers[1]; /* due already */
    timers[0].again_at_ns = 7500;
    timers[2].again_at_ns = 200000;
    assert_int_equal(advance(&fixture, 7400), 2);
    assert_int_equal(fixture.fired[1], 2);
    assert_int_equal(advance(&fixture, 7500), 1);
    assert_int_equal(advance(&fixture, 300000), 1);
    assert_int_equal(fixture.wheel.armed, 0);
}

static void test_max_leaves_the_rest(void **state)
{
    struct fixture fixture = {.count = 0};
    struct timer_of_test timers[5] = {TIMER(0), TIMER(1), TIMER(2), TIMER(3), TIMER(4)};

    (void)state;
    wheel_init(&fixture.wheel, TICK, 0);
    for (uint32_t i = 0; i < 5; i++)
        wheel_arm(&fixture.wheel, &timers[i].timer, 7000 + (i / 3) * 1000);
    assert_int_equal(wheel_advance(&fixture.wheel, 50000, 2, &fixture), 2);
    assert_true(wheel_next_ns(&fixture.wheel) <= 50000);
    wheel_cancel(&fixture.wheel, &timers[2].timer);
    assert_int_equal(wheel_advance(&fixture.wheel, 50000, 1, &fixture), 1);
    assert_int_equal(wheel_advance(&fixture.wheel, 50000, 2, &fixture), 1);
    assert_int_equal(fixture.fired[2], 3);
    assert_int_equal(fixture.fired[3], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_at_its_time),
        cmocka_unit_test(test_next_leads_there),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_cancel_and_move),
        cmocka_unit_test(test_callbacks_arm_and_cancel),
        cmocka_unit_test(test_max_leaves_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
