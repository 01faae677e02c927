/* The judge of all simulations: which answers it allows, and which it does not. */
#include "sim/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KEY 7u
#define OTHER_KEY 8u
#define SIZE 100u
#define BYTES_WRONG "bytes: "
#define REMOVED_WRONG "removed: "
#define EXPIRED_WRONG "expired: "

static int set_up(void **state)
{
    *state = history_create();
    return *state == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    history_destroy(*state);
    return 0;
}

/* A put of KEY, begun and answered. */
static uint64_t put(struct history *history, bool replace, enum history_end end, uint64_t began_ns,
                    uint64_t ended_ns)
{
    uint64_t attempt = history_put_begin(history, KEY, SIZE, replace, began_ns);

    history_put_end(history, attempt, end, 0, ended_ns);
    return attempt;
}

/* What the history says of a get of key, begun at began_ns, that returned the attempt's bytes. */
static const char *got(struct history *history, uint32_t key, uint64_t attempt, uint64_t began_ns)
{
    uint8_t data[SIZE];

    history_fill(attempt, data, sizeof(data));
    return history_got(history, key, began_ns, data, sizeof(data));
}

static void allowed(struct history *history, uint64_t attempt, uint64_t began_ns)
{
    const char *wrong = got(history, KEY, attempt, began_ns);

    if (wrong != NULL)
        fail_msg("not allowed: %s", wrong);
}

static void forbidden(struct history *history, uint64_t attempt, uint64_t began_ns,
                      const char *checker)
{
    const char *wrong = got(history, KEY, attempt, began_ns);

    assert_non_null(wrong);
    assert_memory_equal(wrong, checker, strlen(checker));
}

/* ---- bytes ---- */

static void stored_bytes_may_be_read(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);

    allowed(*state, attempt, 30);
    allowed(*state, attempt, 15); /* the get began before the put was answered */
}

static void bytes_of_another_key_may_not(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);
    const char *wrong = got(*state, OTHER_KEY, attempt, 30);

    assert_non_null(wrong);
    assert_memory_equal(wrong, BYTES_WRONG, strlen(BYTES_WRONG));
}

static void bytes_of_no_attempt_may_not(void **state)
{
    put(*state, false, HISTORY_STORED, 10, 20);
    forbidden(*state, 12345, 30, BYTES_WRONG);
}

static void part_of_the_bytes_may_not(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);
    uint8_t data[SIZE];

    history_fill(attempt, data, SIZE);
    assert_non_null(history_got(*state, KEY, 30, data, SIZE - 1));
    assert_non_null(history_got(*state, KEY, 30, data, 0));
    for (uint32_t i = 0; i < SIZE; i++) {
        data[i] ^= 1;
        assert_non_null(history_got(*state, KEY, 30, data, SIZE));
        data[i] ^= 1;
    }
    assert_null(history_got(*state, KEY, 30, data, SIZE));
}

static void two_attempts_mixed_may_not(void **state)
{
    uint64_t first = put(*state, false, HISTORY_STORED, 10, 20);
    uint64_t second = put(*state, true, HISTORY_STORED, 15, 25);
    uint8_t data[SIZE];
    uint8_t tail[SIZE];

    history_fill(first, data, SIZE);
    history_fill(second, tail, SIZE);
    memcpy(data + SIZE / 2, tail + SIZE / 2, SIZE - SIZE / 2);
    assert_non_null(history_got(*state, KEY, 18, data, SIZE));
}

static void an_empty_value_is_a_value(void **state)
{
    uint8_t nothing = 0;
    uint64_t attempt;

    assert_non_null(history_got(*state, KEY, 5, &nothing, 0));
    attempt = history_put_begin(*state, KEY, 0, false, 10);
    history_put_end(*state, attempt, HISTORY_STORED, 0, 20);
    assert_null(history_got(*state, KEY, 30, &nothing, 0));
}

/* ---- attempts that ended without being stored, or without an answer ---- */

static void what_was_not_stored_may_not_be_read_later(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_NOT_STORED, 10, 20);

    forbidden(*state, attempt, 21, BYTES_WRONG);
}

static void what_was_not_stored_may_not_be_seen_before_its_answer_either(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_NOT_STORED, 10, 20);

    forbidden(*state, attempt, 15, BYTES_WRONG);
}

static void what_was_seen_may_not_turn_out_not_stored(void **state)
{
    uint64_t attempt = history_put_begin(*state, KEY, SIZE, false, 10);

    allowed(*state, attempt, 12);
    assert_non_null(history_put_end(*state, attempt, HISTORY_NOT_STORED, 0, 20));
}

static void an_attempt_under_way_may_be_read(void **state)
{
    uint64_t attempt = history_put_begin(*state, KEY, SIZE, false, 10);

    allowed(*state, attempt, 12);
}

static void an_attempt_without_an_answer_may_appear_whenever(void **state)
{
    uint64_t unknown = put(*state, false, HISTORY_UNKNOWN, 10, 20);

    allowed(*state, unknown, 1000);
    history_removed(*state, KEY, 2000, 2010); /* its writer may still be at work */
    allowed(*state, unknown, 3000);
}

/* ---- removes ---- */

static void what_was_removed_may_not_come_back(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);

    history_removed(*state, KEY, 30, 40);
    forbidden(*state, attempt, 41, REMOVED_WRONG);
    forbidden(*state, attempt, 100000, REMOVED_WRONG);
}

static void a_get_that_overlaps_the_remove_may_see_it(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);

    history_removed(*state, KEY, 30, 40);
    allowed(*state, attempt, 25);
    allowed(*state, attempt, 35);
    allowed(*state, attempt, 40);
}

static void a_remove_that_overlaps_the_put_proves_nothing(void **state)
{
    uint64_t attempt = history_put_begin(*state, KEY, SIZE, false, 10);

    history_removed(*state, KEY, 15, 25);
    history_put_end(*state, attempt, HISTORY_STORED, 0, 20);
    allowed(*state, attempt, 100);
    history_removed(*state, KEY, 20, 30); /* began as the put was answered */
    allowed(*state, attempt, 100);
    history_removed(*state, KEY, 21, 31);
    forbidden(*state, attempt, 100, REMOVED_WRONG);
}

static void a_remove_is_of_its_key(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);

    history_removed(*state, OTHER_KEY, 30, 40);
    allowed(*state, attempt, 100);
}

static void a_put_after_the_remove_may_be_read(void **state)
{
    uint64_t before = put(*state, false, HISTORY_STORED, 10, 20);
    uint64_t after;

    history_removed(*state, KEY, 30, 40);
    after = put(*state, false, HISTORY_STORED, 50, 60);
    allowed(*state, after, 70);
    forbidden(*state, before, 70, REMOVED_WRONG);
}

static void a_later_remove_takes_nothing_back(void **state)
{
    uint64_t attempt = put(*state, false, HISTORY_STORED, 10, 20);

    history_removed(*state, KEY, 30, 40);
    history_removed(*state, KEY, 50, 60);
    forbidden(*state, attempt, 45, REMOVED_WRONG);
}

/* ---- replacing puts ---- */

static void what_was_replaced_may_not_come_back(void **state)
{
    uint64_t old = put(*state, false, HISTORY_STORED, 10, 20);
    uint64_t new = put(*state, true, HISTORY_STORED, 30, 40);

    allowed(*state, old, 35);
    forbidden(*state, old, 41, REMOVED_WRONG);
    allowed(*state, new, 41);
}

static void only_a_stored_replacement_rules_out(void **state)
{
    uint64_t old = put(*state, false, HISTORY_STORED, 10, 20);

    put(*state, true, HISTORY_NOT_STORED, 30, 40);
    put(*state, true, HISTORY_UNKNOWN, 50, 60);
    put(*state, true, HISTORY_STORED_UNCERTAIN, 70, 80);
    allowed(*state, old, 1000);
}

static void an_uncertain_replacement_may_be_read(void **state)
{
    uint64_t uncertain = put(*state, true, HISTORY_STORED_UNCERTAIN, 10, 20);

    allowed(*state, uncertain, 30);
    history_removed(*state, KEY, 40, 50);
    forbidden(*state, uncertain, 60, REMOVED_WRONG);
}

static void a_put_that_does_not_replace_rules_nothing_out(void **state)
{
    uint64_t first = put(*state, false, HISTORY_STORED, 10, 20);

    put(*state, false, HISTORY_STORED, 30,
        40); /* the first had been evicted, and may be read yet */
    allowed(*state, first, 100);
}

static void of_two_replacements_at_once_either_may_be_read(void **state)
{
    uint64_t a = history_put_begin(*state, KEY, SIZE, true, 10);
    uint64_t b = history_put_begin(*state, KEY, SIZE, true, 12);

    history_put_end(*state, a, HISTORY_STORED, 0, 20);
    history_put_end(*state, b, HISTORY_STORED, 0, 22);
    allowed(*state, a, 100);
    allowed(*state, b, 100);
    put(*state, true, HISTORY_STORED, 200, 210);
    forbidden(*state, a, 211, REMOVED_WRONG);
    forbidden(*state, b, 211, REMOVED_WRONG);
}

/* ---- ends ---- */

static uint64_t put_to_last(struct history *history, uint64_t expires_ns, uint64_t began_ns,
                            uint64_t ended_ns)
{
    uint64_t attempt = history_put_begin(history, KEY, SIZE, false, began_ns);

    history_put_end(history, attempt, HISTORY_STORED, expires_ns, ended_ns);
    return attempt;
}

static void what_has_ended_may_not_be_read(void **state)
{
    uint64_t attempt = put_to_last(*state, 100, 10, 20);

    allowed(*state, attempt, 120);
    forbidden(*state, attempt, 121, EXPIRED_WRONG);
}

static void a_hint_may_change_an_end(void **state)
{
    uint64_t attempt = put_to_last(*state, 100, 10, 20);
    uint64_t hint = history_hint_begin(*state, KEY, 30);

    allowed(*state, attempt, 500); /* it lasts, perhaps */
    history_hint_end(*state, KEY, hint, 30, 0, 40);
    allowed(*state, attempt, 500);
    hint = history_hint_begin(*state, KEY, 50);
    history_hint_end(*state, KEY, hint, 50, 100, 60);
    allowed(*state, attempt, 160);
    forbidden(*state, attempt, 161, EXPIRED_WRONG);
}

static void a_hint_brings_nothing_back(void **state)
{
    uint64_t attempt = put_to_last(*state, 100, 10, 20);
    uint64_t hint = history_hint_begin(*state, KEY, 130);

    history_hint_end(*state, KEY, hint, 130, 1000, 140);
    forbidden(*state, attempt, 150, EXPIRED_WRONG);
}

static void hints_at_once_prove_nothing(void **state)
{
    uint64_t attempt = put_to_last(*state, 100, 10, 20);
    uint64_t a = history_hint_begin(*state, KEY, 30);
    uint64_t b = history_hint_begin(*state, KEY, 35);

    history_hint_end(*state, KEY, a, 30, 10, 40);
    history_hint_end(*state, KEY, b, 35, 10, 45);
    allowed(*state, attempt, 500);
}

static void a_hint_during_the_put_proves_nothing(void **state)
{
    uint64_t attempt = history_put_begin(*state, KEY, SIZE, false, 10);
    uint64_t hint = history_hint_begin(*state, KEY, 12);

    history_hint_end(*state, KEY, hint, 12, 5, 14);
    history_put_end(*state, attempt, HISTORY_STORED, 100, 20);
    allowed(*state, attempt, 500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(stored_bytes_may_be_read),
        TEST(bytes_of_another_key_may_not),
        TEST(bytes_of_no_attempt_may_not),
        TEST(part_of_the_bytes_may_not),
        TEST(two_attempts_mixed_may_not),
        TEST(an_empty_value_is_a_value),
        TEST(what_was_not_stored_may_not_be_read_later),
        TEST(what_was_not_stored_may_not_be_seen_before_its_answer_either),
        TEST(what_was_seen_may_not_turn_out_not_stored),
        TEST(an_attempt_under_way_may_be_read),
        TEST(an_attempt_without_an_answer_may_appear_whenever),
        TEST(what_was_removed_may_not_come_back),
        TEST(a_get_that_overlaps_the_remove_may_see_it),
        TEST(a_remove_that_overlaps_the_put_proves_nothing),
        TEST(a_remove_is_of_its_key),
        TEST(a_put_after_the_remove_may_be_read),
        TEST(a_later_remove_takes_nothing_back),
        TEST(what_was_replaced_may_not_come_back),
        TEST(only_a_stored_replacement_rules_out),
        TEST(an_uncertain_replacement_may_be_read),
        TEST(a_put_that_does_not_replace_rules_nothing_out),
        TEST(of_two_replacements_at_once_either_may_be_read),
        TEST(what_has_ended_may_not_be_read),
        TEST(a_hint_may_change_an_end),
        TEST(a_hint_brings_nothing_back),
        TEST(hints_at_once_prove_nothing),
        TEST(a_hint_during_the_put_proves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
