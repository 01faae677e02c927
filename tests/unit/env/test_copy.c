/* Copies by a worker and those who help it: every byte once, also when some are cancelled. */
#include "base/limits.h"
#include "base/rng.h"
#include "env/linux.h"
#include "env/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COPIES 24
#define SIZE_LARGEST ((size_t)(3 * MIB))
#define PATIENCE_NS (20 * NS_PER_S)

struct one {
    struct env_copy copy;
    uint8_t *to;
    uint8_t *from;
    bool done;
    bool cancelled;
};

struct fixture {
    struct env *env;
    struct env_loop *loop;
    struct env_crew *crew;
    struct env_worker *worker;
    struct one ones[COPIES];
    int told;
};

static void on_work(void *owner)
{
    ((struct fixture *)owner)->told++;
}

static void on_copied(struct env_copy *copy)
{
    struct one *one = list_entry(copy, struct one, copy);

    assert_false(one->done || one->cancelled);
    one->done = true;
}

static void open_fixture(struct fixture *fixture, uint32_t helpers)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->env = env_linux_create();
    assert_int_equal(env_loop_create(fixture->env, "test", &fixture->loop), SNOW_OK);
    fixture->crew = helpers == 0 ? NULL : env_crew_create(helpers);
    fixture->worker = env_worker_create(fixture->loop, fixture->crew, on_work, fixture);
    assert_non_null(fixture->worker);
    for (int i = 0; i < COPIES; i++) {
        fixture->ones[i].to = malloc(SIZE_LARGEST);
        fixture->ones[i].from = malloc(SIZE_LARGEST);
    }
}

static void close_fixture(struct fixture *fixture)
{
    if (fixture->crew != NULL)
        env_crew_destroy(fixture->crew);
    for (int i = 0; i < COPIES; i++) {
        free(fixture->ones[i].to);
        free(fixture->ones[i].from);
    }
    env_worker_destroy(fixture->worker);
    env_loop_destroy(fixture->loop);
    env_linux_destroy(fixture->env);
}

static void begin(struct fixture *fixture, struct one *one, struct rng *rng, size_t size)
{
    size_t words = size / 8 + 1;

    for (size_t i = 0; i < words && i * 8 < SIZE_LARGEST; i++)
        ((uint64_t *)(void *)one->from)[i] = rng_next(rng);
    memset(one->to, 0, SIZE_LARGEST);
    one->done = one->cancelled = false;
    one->copy = (struct env_copy){.to = one->to,
                                  .from = one->from,
                                  .size = size,
                                  .worker = fixture->worker,
                                  .on_event = on_copied};
    assert_false(env_copy(fixture->loop, &one->copy));
}

static bool all_ended(const struct fixture *fixture, int count)
{
    for (int i = 0; i < count; i++) {
        if (!fixture->ones[i].done && !fixture->ones[i].cancelled)
            return false;
    }
    return true;
}

/* Cancelled ones are not touched any more: their memory may be anything else at once. */
static void round_of(struct fixture *fixture, struct rng *rng, int count, bool cancels)
{
    uint64_t until_ns = env_now_ns(fixture->env) + PATIENCE_NS;
    int before = fixture->told;

    for (int i = 0; i < count; i++)
        begin(fixture, &fixture->ones[i], rng, (size_t)rng_between(rng, 1, SIZE_LARGEST));
    assert_int_equal(fixture->told, before + 1);
    for (int i = 0; i < count && cancels; i += 5) {
        env_copy_cancel(&fixture->ones[i].copy);
        fixture->ones[i].cancelled = true;
    }
    env_worker_run(fixture->worker);
    for (int i = 1; i < count && cancels; i += 5) { /* some of it may be under way with a helper */
        struct one *one = &fixture->ones[i];

        env_copy_cancel(&one->copy);
        one->cancelled = true;
        memset(one->to, 0xee, SIZE_LARGEST);
    }
    while (!all_ended(fixture, count)) {
        assert_true(env_now_ns(fixture->env) < until_ns);
        env_loop_turn(fixture->loop, NS_PER_MS, 0);
    }
    for (int i = 0; i < count; i++) {
        struct one *one = &fixture->ones[i];

        if (one->done) {
            assert_memory_equal(one->to, one->from, one->copy.size);
            assert_true(one->copy.size == SIZE_LARGEST || one->to[one->copy.size] == 0);
        } else if (i % 5 == 1) {
            assert_int_equal(one->to[0], 0xee);
            assert_memory_equal(one->to, one->to + 1, SIZE_LARGEST - 1);
        }
    }
}

static void with_helpers(uint32_t helpers)
{
    struct fixture fixture;
    struct rng rng;

    open_fixture(&fixture, helpers);
    rng_init(&rng, helpers);
    for (int i = 0; i < 12; i++)
        round_of(&fixture, &rng, i % 3 == 0 ? 1 : COPIES, i % 2 == 1);
    close_fixture(&fixture);
}

static void by_the_caller_alone(void **state)
{
    (void)state;
    with_helpers(0);
}

static void with_one_helper(void **state)
{
    (void)state;
    with_helpers(1);
}

static void with_several_helpers(void **state)
{
    (void)state;
    with_helpers(5);
}

/* What nobody needed was never started; what was, sleeps and ends. */
static void helpers_are_started_when_needed(void **state)
{
    struct fixture fixture;
    struct rng rng;

    (void)state;
    open_fixture(&fixture, ENV_CREW_MAX);
    rng_init(&rng, 3);
    begin(&fixture, &fixture.ones[0], &rng, 64 * KIB);
    env_worker_run(fixture.worker);
    while (!fixture.ones[0].done)
        env_loop_turn(fixture.loop, NS_PER_MS, 0);
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_caller_alone),
        cmocka_unit_test(with_one_helper),
        cmocka_unit_test(with_several_helpers),
        cmocka_unit_test(helpers_are_started_when_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
