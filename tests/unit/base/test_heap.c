#include "base/heap.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT 500

static bool is_before(const struct heap_link *a, const struct heap_link *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

/* The least queued link, by looking at all. */
static struct heap_link *least(struct heap_link *links)
{
    struct heap_link *found = NULL;

    for (int i = 0; i < COUNT; i++) {
        if (links[i].queued && (found == NULL || is_before(&links[i], found)))
            found = &links[i];
    }
    return found;
}

static void test_against_the_naive_one(void **state)
{
    static struct heap_link links[COUNT];
    struct heap heap = {0};
    struct rng rng;
    uint64_t order = 0;
    size_t queued = 0;

    (void)state;
    rng_init(&rng, 7);
    for (int step = 0; step < 30000; step++) {
        struct heap_link *link = &links[rng_below(&rng, COUNT)];

        if (link->queued) {
            heap_remove(&heap, link);
            queued--;
        } else {
            link->at_ns = rng_below(&rng, 50);
            link->order = order++;
            heap_push(&heap, link);
            queued++;
        }
        if (rng_chance(&rng, 1, 4) && heap.first != NULL) {
            heap_remove(&heap, heap.first);
            queued--;
        }
        assert_ptr_equal(heap.first, least(links));
        assert_int_equal(heap.count, queued);
    }
}

static void test_comes_out_in_order(void **state)
{
    static struct heap_link links[COUNT];
    struct heap heap = {0};
    struct heap_link before = {0};
    struct rng rng;

    (void)state;
    rng_init(&rng, 8);
    for (int i = 0; i < COUNT; i++) {
        links[i].at_ns = 1 + rng_below(&rng, 20);
        links[i].order = (uint64_t)i;
        heap_push(&heap, &links[i]);
    }
    while (heap.first != NULL) {
        struct heap_link *link = heap.first;

        heap_remove(&heap, link);
        assert_true(is_before(&before, link));
        before = *link;
    }
    assert_int_equal(heap.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_naive_one),
        cmocka_unit_test(test_comes_out_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
