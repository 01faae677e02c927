/* Space of a segment: alignment, joining, slots, limits, recovery. */
#include "base/limits.h"
#include "core/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct space *create(uint64_t size, uint32_t slot_count, bool recovering)
{
    struct space *space;

    assert_int_equal(space_create(NULL, size, slot_count, recovering, &space), SNOW_OK);
    return space;
}

static uint32_t take(struct space *space, uint64_t size, uint32_t owner)
{
    uint32_t slot;

    assert_int_equal(space_take(space, size, owner, &slot), SNOW_OK);
    space_check(space);
    assert_true(space_is_used(space, slot) && space_owner(space, slot) == owner);
    assert_true(space_capacity(space, slot) >= size);
    return slot;
}

static void give(struct space *space, uint32_t slot)
{
    space_give(space, slot);
    space_check(space);
}

static void test_create(void **state)
{
    struct space *space;

    (void)state;
    assert_int_equal(space_create(NULL, 0, 10, false, &space), SNOW_INVALID);
    assert_int_equal(space_create(NULL, 4097, 10, false, &space), SNOW_INVALID);
    assert_int_equal(space_create(NULL, 2 * TIB, 10, false, &space), SNOW_INVALID);
    assert_int_equal(space_create(NULL, 4096, 0, false, &space), SNOW_INVALID);
    assert_int_equal(space_create(NULL, 4096, UINT32_MAX, false, &space), SNOW_INVALID);
    space = create(1 * TIB, 256 * 1024 * 1024, false);
    assert_true(space_size(space) == TIB && space_free_bytes(space) == TIB);
    assert_true(space_largest_run(space) == TIB);
    assert_int_equal(space_first(space), 0);
    assert_int_equal(space_slots_free(space), space_slot_count(space) - 1);
    take(space, TIB, 1);
    assert_true(space_free_bytes(space) == 0 && space_largest_run(space) == 0);
    space_destroy(space);
}

static void test_alignment_and_order(void **state)
{
    struct space *space = create(MIB, 256, false);
    uint32_t small = take(space, 100, 1);
    uint32_t page = take(space, 8192, 2);
    uint32_t odd = take(space, 4097, 3);
    uint32_t other = take(space, 3840, 4);

    (void)state;
    assert_true(space_offset(space, small) == 0 && space_capacity(space, small) == 256);
    assert_true(space_offset(space, page) == 4096 && space_capacity(space, page) == 8192);
    assert_true(space_offset(space, odd) == 4096 + 8192 && space_capacity(space, odd) == 4352);
    assert_true(space_offset(space, other) == 256); /* exactly the lead of the page */
    assert_int_equal(space_first(space), small);
    assert_int_equal(space_after(space, small), other);
    assert_int_equal(space_before(space, small), SPACE_NONE);
    assert_int_equal(space_before(space, page), other);
    space_set_owner(space, page, 77);
    assert_int_equal(space_owner(space, page), 77);
    give(space, other);
    give(space, page);
    give(space, small);
    give(space, odd);
    assert_true(space_free_bytes(space) == MIB && space_largest_run(space) == MIB);
    assert_int_equal(space_slots_free(space), 255);
    assert_int_equal(space_first(space), 0);
    space_destroy(space);
}

static void test_lowest_slots(void **state)
{
    struct space *space = create(MIB, 256, false);
    uint32_t slots[100];

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        slots[i] = take(space, 4096, i);
        assert_int_equal(slots[i], i);
    }
    give(space, slots[10]);
    give(space, slots[12]);
    give(space, slots[11]); /* three free runs become one under slot 10 */
    assert_false(space_is_used(space, 11));
    assert_int_equal(take(space, 3 * 4096, 200), 10);
    /* The segment's rest takes the lowest slots that came free. */
    assert_int_equal(take(space, 8192, 201), 11);
    space_destroy(space);
}

static void test_no_space(void **state)
{
    struct space *space = create(64 * KIB, 64, false);
    uint32_t slot;
    uint32_t first = take(space, 32 * KIB, 1);

    (void)state;
    take(space, 32 * KIB, 2);
    assert_int_equal(space_take(space, 0, 3, &slot), SNOW_NO_SPACE);
    give(space, first);
    assert_int_equal(space_take(space, 32 * KIB + 1, 3, &slot), SNOW_NO_SPACE);
    assert_int_equal(space_take(space, UINT64_MAX, 3, &slot), SNOW_NO_SPACE);
    take(space, 32 * KIB, 3);
    space_destroy(space);
}

static void test_slots_run_out(void **state)
{
    struct space *space = create(MIB, 4, false);
    uint32_t slots[4];
    uint32_t slot;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        slots[i] = take(space, 1024, i);
    assert_int_equal(space_slots_free(space), 0);
    assert_int_equal(space_take(space, 1024, 9, &slot), SNOW_LIMIT);
    /* A short rest is given along. */
    give(space, slots[1]);
    slot = take(space, 512, 9);
    assert_int_equal(space_capacity(space, slot), 1024);
    /* So is that of the segment, if it is not much more (unaligned: a lead would need a slot). */
    assert_int_equal(space_take(space, 400 * KIB + 1, 9, &slot), SNOW_LIMIT);
    slots[3] = take(space, 600 * KIB + 1, 9);
    assert_true(space_free_bytes(space) == 0);
    space_destroy(space);
}

static void test_largest_run_is_a_promise(void **state)
{
    struct space *space = create(MIB, 256, false);
    uint32_t low = take(space, 256, 1);
    uint32_t middle = take(space, 40 * KIB, 2);
    uint64_t largest;
    uint32_t slot;

    (void)state;
    take(space, MIB - 44 * KIB, 3); /* leaves 3840 bytes at 256 */
    assert_int_equal(space_largest_run(space), 3840);
    give(space, middle); /* 256 .. 44 KiB: 40 KiB aligned, 43.75 KiB in all */
    largest = space_largest_run(space);
    assert_int_equal(largest, 43 * KIB + 768);
    assert_int_equal(space_take(space, 44 * KIB, 4, &slot), SNOW_NO_SPACE);
    slot = take(space, 40 * KIB, 4);
    give(space, slot);
    slot = take(space, largest, 4);
    give(space, slot);
    give(space, low);
    assert_int_equal(space_largest_run(space), 44 * KIB);
    space_destroy(space);
}

struct dropped {
    uint32_t slots[8];
    uint32_t count;
};

static void on_overlap(void *context, uint32_t slot, uint32_t owner)
{
    struct dropped *dropped = context;

    assert_int_equal(owner, slot + 100);
    assert_true(dropped->count < 8);
    dropped->slots[dropped->count++] = slot;
}

static enum snow_status claim(struct space *space, uint32_t slot, uint64_t offset, uint64_t length)
{
    return space_claim(space, slot, offset, length, slot + 100);
}

static void test_recovery(void **state)
{
    struct space *space = create(MIB, 64, true);
    struct dropped dropped = {.count = 0};
    uint32_t slot;

    (void)state;
    assert_true(space_is_recovering(space) && space_first(space) == SPACE_NONE);
    assert_int_equal(space_take(space, 256, 1, &slot), SNOW_NO_SPACE);
    assert_int_equal(claim(space, 64, 0, 256), SNOW_INVALID);
    assert_int_equal(claim(space, 1, 100, 256), SNOW_INVALID);
    assert_int_equal(claim(space, 1, 256, 4096), SNOW_INVALID);
    assert_int_equal(claim(space, 1, MIB, 1), SNOW_INVALID);
    assert_int_equal(claim(space, 1, MIB - 256, 257), SNOW_INVALID);
    assert_int_equal(claim(space, 1, UINT64_MAX - 255, 512), SNOW_INVALID);
    assert_int_equal(claim(space, 1, 0, UINT64_MAX), SNOW_INVALID);
    assert_int_equal(claim(space, 5, 65536, 8192), SNOW_OK);
    assert_int_equal(claim(space, 5, 0, 256), SNOW_INVALID);
    assert_int_equal(claim(space, 1, 69632, 4096), SNOW_OK); /* overlaps 5 */
    assert_int_equal(claim(space, 9, 4352, 0), SNOW_OK);
    assert_int_equal(claim(space, 3, 65536, 256), SNOW_OK); /* same offset: lower slot first */
    assert_int_equal(claim(space, 7, 73728, 300), SNOW_OK);
    assert_int_equal(space_capacity(space, 7), 512);
    assert_int_equal(space_recovered(space, on_overlap, &dropped), SNOW_OK);
    space_check(space);
    assert_int_equal(dropped.count, 1);
    assert_int_equal(dropped.slots[0], 5);
    assert_true(space_is_used(space, 1) && space_is_used(space, 3) && space_is_used(space, 9));
    assert_false(space_is_used(space, 5));
    assert_int_equal(space_first(space), 0); /* a free run */
    assert_true(space_free_bytes(space) == MIB - 256 - 256 - 4096 - 512);
    assert_int_equal(space_offset(space, 9), 4352);
    take(space, 900 * KIB, 1);
    space_destroy(space);
}

static void test_recovery_without_slots_for_gaps(void **state)
{
    struct space *space = create(MIB, 3, true);
    struct dropped dropped = {.count = 0};

    (void)state;
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_int_equal(claim(space, slot, (slot + 1) * 8192, 4096), SNOW_OK);
    assert_int_equal(space_recovered(space, on_overlap, &dropped), SNOW_OK);
    space_check(space);
    assert_int_equal(dropped.count, 1); /* the first: nothing else could describe offset 0 */
    assert_int_equal(dropped.slots[0], 0);
    assert_int_equal(space_capacity(space, 1), 8192); /* the gap behind it */
    assert_true(space_capacity(space, 2) == MIB - 3 * 8192);
    space_destroy(space);
}

static void test_growth(void **state)
{
    struct space *space = create(64 * KIB, 8, false);
    uint32_t slot;

    (void)state;
    space_limit(space, 4);
    assert_int_equal(space_slots_free(space), 3);
    take(space, 40 * KIB, 1);
    /* A free run at the end becomes longer. */
    assert_int_equal(space_grow(space, 128 * KIB, 4), SNOW_OK);
    space_check(space);
    assert_int_equal(space_largest_run(space), 88 * KIB);
    slot = take(space, 88 * KIB, 2);
    /* Behind a used one there is a new run. */
    assert_int_equal(space_grow(space, 192 * KIB, 4), SNOW_OK);
    space_check(space);
    assert_int_equal(space_size(space), 192 * KIB);
    take(space, 20 * KIB, 3);
    take(space, 44 * KIB, 4);
    assert_int_equal(space_slots_free(space), 0);
    /* Without a slot for it, it has to wait; slots that come along serve. */
    assert_int_equal(space_grow(space, 256 * KIB, 4), SNOW_LIMIT);
    assert_int_equal(space_size(space), 192 * KIB);
    space_check(space);
    assert_int_equal(space_grow(space, 256 * KIB, 5), SNOW_OK);
    space_check(space);
    assert_int_equal(space_free_bytes(space), 64 * KIB);
    give(space, slot);
    /* Nothing shrinks, and there are bounds. */
    assert_int_equal(space_grow(space, 4096, 2), SNOW_OK);
    assert_int_equal(space_size(space), 256 * KIB);
    assert_int_equal(space_slots_ready(space), 5);
    assert_int_equal(space_grow(space, 256 * KIB + 1, 5), SNOW_INVALID);
    assert_int_equal(space_grow(space, 2 * TIB, 5), SNOW_INVALID);
    assert_int_equal(space_grow(space, 256 * KIB, 9), SNOW_INVALID);
    space_destroy(space);
}

static void test_growth_while_recovering(void **state)
{
    struct space *space = create(64 * KIB, 8, true);

    (void)state;
    space_limit(space, 2);
    assert_int_equal(space_claim(space, 2, 0, 4096, 1), SNOW_INVALID); /* not ready */
    assert_int_equal(space_claim(space, 1, 64 * KIB, 4096, 1), SNOW_INVALID);
    assert_int_equal(space_grow(space, 128 * KIB, 3), SNOW_OK);
    assert_int_equal(space_claim(space, 1, 64 * KIB, 4096, 1), SNOW_OK);
    assert_int_equal(space_recovered(space, NULL, NULL), SNOW_OK);
    space_check(space);
    assert_int_equal(space_free_bytes(space), 124 * KIB);
    space_destroy(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_alignment_and_order),
        cmocka_unit_test(test_lowest_slots),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_slots_run_out),
        cmocka_unit_test(test_largest_run_is_a_promise),
        cmocka_unit_test(test_recovery),
        cmocka_unit_test(test_recovery_without_slots_for_gaps),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_growth_while_recovering),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
