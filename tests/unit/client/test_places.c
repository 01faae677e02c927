/* Places from a master are believed only when they make whole objects. */
#include "client/inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct wire_place place(uint8_t replica, uint16_t part, uint16_t parts, uint64_t offset,
                               uint64_t length)
{
    return (struct wire_place){.replica = replica,
                               .part = part,
                               .parts = parts,
                               .object_offset = offset,
                               .length = length};
}

static void whole_objects(void **state)
{
    struct wire_place places[4] = {place(0, 0, 2, 0, 60), place(0, 1, 2, 60, 40),
                                   place(3, 1, 2, 10, 90), place(3, 0, 2, 0, 10)};
    uint16_t replicas;

    (void)state;
    assert_true(client_places_check(places, 4, 100, &replicas));
    assert_int_equal(replicas, 9);
    assert_true(client_places_check(places, 2, 100, &replicas));
    assert_int_equal(replicas, 1);
    places[0] = place(0, 0, 1, 0, 0);
    assert_true(client_places_check(places, 1, 0, &replicas)); /* an empty object */
}

static void what_makes_no_object(void **state)
{
    static const struct {
        struct wire_place places[2];
        uint32_t count;
    } cases[] = {
        {{{0}}, 0},                                                    /* nothing */
        {{{.parts = 1, .length = 99}}, 1},                             /* too short */
        {{{.parts = 1, .length = 101}}, 1},                            /* too long */
        {{{.parts = 1, .length = UINT64_MAX}}, 1},                     /* far too long */
        {{{.parts = 2, .length = 100}}, 1},                            /* a part is missing */
        {{{.parts = 1, .object_offset = 1, .length = 100}}, 1},        /* beyond the end */
        {{{.parts = 1, .length = 100, .replica = LIMIT_REPLICAS}}, 1}, /* no such copy */
        {{{.parts = 2, .length = 50}, {.parts = 2, .length = 50}}, 2}, /* the same part twice */
        {{{.parts = 2, .length = 50}, {.parts = 2, .part = 1, .object_offset = 40, .length = 50}},
         2}, /* overlapping */
        {{{.parts = 2, .length = 50}, {.parts = 2, .part = 1, .object_offset = 60, .length = 40}},
         2}, /* a gap */
        {{{.parts = 2, .length = 100},
          {.parts = 2, .part = 1, .object_offset = 100, .length = UINT64_MAX}},
         2}, /* a sum that wraps */
    };
    uint16_t replicas;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_false(client_places_check(cases[i].places, cases[i].count, 100, &replicas));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_objects),
                                       cmocka_unit_test(what_makes_no_object)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
