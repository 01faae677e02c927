/* What a client remembers of depths: on its own, and in the puts that it makes of it. */
#include "client/depths.h"

#include "fake.h"
#include "snowskin/snowskin.h"

#include <string.h>

static struct bytes name(char *to, const char *format, uint32_t number)
{
    snprintf(to, 300, format, number);
    return bytes_of_string(to);
}

/* Keys as engines make them. */
static const char *const formats[] = {
    "%u",
    "block-%08u",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15%08x_0_k",
    "vllm@some-model/of-some-size@1@0@%064u",
    "%08x-the-rest-is-the-same-for-all-of-them-and-so-long-that-nobody-would-look-at-all-of-it",
};

static void keys_are_told_apart(void **state)
{
    char text[300];

    (void)state;
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++) {
        struct client_depths depths = {0};
        uint32_t right = 0;

        assert_int_equal(client_depths_find(&depths, name(text, formats[f], 1)),
                         SNOW_DEPTH_UNKNOWN);
        for (uint32_t i = 0; i < 1000; i++)
            client_depths_note(&depths, name(text, formats[f], i * 7919), i);
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t depth = client_depths_find(&depths, name(text, formats[f], i * 7919));

            assert_true(depth == i || depth == SNOW_DEPTH_UNKNOWN);
            right += depth == i;
        }
        assert_true(right > 970); /* the others gave their places to younger ones */
        for (uint32_t i = 0; i < 1000; i++)
            assert_int_equal(client_depths_find(&depths, name(text, formats[f], 1 + i * 7919)),
                             SNOW_DEPTH_UNKNOWN);
        client_depths_deinit(&depths);
    }
}

/* They differ where nobody looks: whole keys are hashed from then on. */
static void keys_that_look_alike_are_told_apart_too(void **state)
{
    static const char format[] =
        "the number %08u stands where nobody looks, long before the middle";
    struct client_depths depths = {0};
    char text[300];

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        client_depths_note(&depths, name(text, format, i), i);
    assert_true(depths.whole);
    for (uint32_t i = 1; i < 100; i++)
        assert_int_equal(client_depths_find(&depths, name(text, format, i)), i);
    client_depths_deinit(&depths);
}

static void the_youngest_are_remembered(void **state)
{
    struct client_depths depths = {0};
    uint32_t right = 0;
    char text[300];

    (void)state;
    for (uint32_t i = 0; i < 4 * CLIENT_DEPTHS; i++)
        client_depths_note(&depths, name(text, "block-%08u", i), i % 1000);
    for (uint32_t i = 4 * CLIENT_DEPTHS - CLIENT_DEPTHS / 8; i < 4 * CLIENT_DEPTHS; i++)
        right += client_depths_find(&depths, name(text, "block-%08u", i)) == i % 1000;
    assert_true(right > CLIENT_DEPTHS / 8 * 9 / 10);
    client_depths_deinit(&depths);
}

/* ---- in the messages to the master ---- */

struct look {
    struct client_exists_op op;
    struct snow_stat stats[4];
    bool done;
};

static void on_looked(struct client_exists_op *op)
{
    list_entry(op, struct look, op)->done = true;
}

static void look_up(struct fake *fake, uint32_t first, uint32_t count, uint32_t flags)
{
    static const char *const keys[] = {"chain-0", "chain-1", "chain-2", "chain-3"};
    struct look look = {.op = {.on_done = on_looked, .count = count}};
    struct snow_call call = {.flags = flags};

    look.op.items = look.stats;
    for (uint32_t i = 0; i < count; i++)
        look.stats[i].key = (struct snow_key){.at = keys[first + i], .size = 7};
    client_exists_start(fake->client, &look.op, &call);
    TURN_UNTIL(fake, look.done);
}

/* The depth that the master is told of a put of this key. */
static uint32_t depth_put(struct fake *fake, const char *key, uint32_t depth, uint64_t continues)
{
    struct fake_put put = {.done = 0};
    struct snow_put item = {
        .key = {.at = key, .size = strlen(key)}, .from = "value", .size = 5, .depth = depth};
    struct snow_call call = {.continues = continues};

    put_all(fake, &put, &item, 1, &call);
    TURN_UNTIL(fake, put.done == 1);
    assert_int_equal(item.status, SNOW_OK);
    return nth(fake, WIRE_put_start, times(fake, WIRE_put_start) - 1)->depth;
}

static void a_put_goes_by_the_last_look_up(void **state)
{
    struct fake *fake = *state;

    assert_int_equal(depth_put(fake, "chain-0", SNOW_DEPTH_UNKNOWN, 0), SNOW_DEPTH_UNKNOWN);
    look_up(fake, 0, 4, 0);
    assert_int_equal(depth_put(fake, "chain-2", SNOW_DEPTH_UNKNOWN, 0), 2);
    assert_int_equal(depth_put(fake, "chain-3", 77, 0), 77);
    assert_int_equal(depth_put(fake, "chain-1", SNOW_DEPTH_UNKNOWN, 5), SNOW_DEPTH_UNKNOWN);
    assert_int_equal(depth_put(fake, "other", SNOW_DEPTH_UNKNOWN, 0), SNOW_DEPTH_UNKNOWN);
}

static void look_ups_that_are_no_chains_tell_nothing(void **state)
{
    struct fake *fake = *state;

    look_up(fake, 1, 1, 0);
    look_up(fake, 2, 2, SNOW_CALL_UNORDERED);
    assert_int_equal(depth_put(fake, "chain-1", SNOW_DEPTH_UNKNOWN, 0), SNOW_DEPTH_UNKNOWN);
    assert_int_equal(depth_put(fake, "chain-3", SNOW_DEPTH_UNKNOWN, 0), SNOW_DEPTH_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_told_apart),
        cmocka_unit_test(keys_that_look_alike_are_told_apart_too),
        cmocka_unit_test(the_youngest_are_remembered),
        cmocka_unit_test_setup_teardown(a_put_goes_by_the_last_look_up, fake_setup, fake_teardown),
        cmocka_unit_test_setup_teardown(look_ups_that_are_no_chains_tell_nothing, fake_setup,
                                        fake_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
