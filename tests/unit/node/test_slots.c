/* The slot table: what a crash at any store leaves, and that floors and checksums hold. */
#include "env/linux.h"
#include "node/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct env *env;
    struct slots slots;
    struct slots_request request;
    char dir[64];
};

static int open_slots(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    const char *reason;

    snprintf(fixture->dir, sizeof(fixture->dir), "/dev/shm/snowskin-slots-%d", (int)getpid());
    fixture->env = env_linux_create();
    fixture->request =
        (struct slots_request){.dir = fixture->dir, .data_size = 2 * MIB, .slot_bytes = 4 * KIB};
    assert_int_equal(slots_open(fixture->env, &fixture->request, &fixture->slots, &reason),
                     SNOW_OK);
    *state = fixture;
    return 0;
}

static void reopen(struct fixture *fixture)
{
    const char *reason;

    slots_close_memory(&fixture->slots);
    assert_int_equal(slots_open(fixture->env, &fixture->request, &fixture->slots, &reason),
                     SNOW_OK);
}

static int close_slots(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    slots_close_memory(&fixture->slots);
    snprintf(path, sizeof(path), "%s/meta-0", fixture->dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/data-0", fixture->dir);
    unlink(path);
    rmdir(fixture->dir);
    env_linux_destroy(fixture->env);
    free(fixture);
    return 0;
}

static struct wire_write_item item_of(uint32_t slot, uint64_t gen, const char *key)
{
    return (struct wire_write_item){.slot = slot,
                                    .gen = gen,
                                    .offset = slot * 4 * KIB,
                                    .length = 1000,
                                    .object_size = 1000,
                                    .parts = 1,
                                    .key = bytes_of_string(key)};
}

static void a_written_slot_survives_and_others_do_not(void **state)
{
    struct fixture *fixture = *state;
    struct wire_write_item written = item_of(1, 10, "written");
    struct wire_write_item writing = item_of(2, 11, "writing");
    struct wire_write_item closed = item_of(3, 12, "closed");

    assert_int_equal(slots_begin(&fixture->slots, &written), SNOW_OK);
    slots_seal(&fixture->slots, 1, 77, true);
    assert_int_equal(slots_begin(&fixture->slots, &writing), SNOW_OK);
    assert_int_equal(slots_begin(&fixture->slots, &closed), SNOW_OK);
    slots_seal(&fixture->slots, 3, 78, true);
    assert_int_equal(slots_close(&fixture->slots, 3, 12), 12);
    assert_null(slots_check(&fixture->slots));
    uint64_t incarnation = fixture->slots.header->incarnation;

    reopen(fixture);
    assert_int_equal(fixture->slots.header->incarnation, incarnation);
    assert_int_equal(fixture->slots.table[1].state, WIRE_SLOT_WRITTEN);
    assert_int_equal(fixture->slots.table[1].data_crc, 77);
    assert_true(bytes_equal(slots_key(&fixture->slots, 1), bytes_of_string("written")));
    assert_int_equal(fixture->slots.table[2].state, WIRE_SLOT_FREE);
    assert_int_equal(fixture->slots.table[3].state, WIRE_SLOT_FREE);
    /* The floor stays: a stopped writer of the old grant comes back in vain. */
    assert_int_equal(slots_begin(&fixture->slots, &closed), SNOW_GONE);
    assert_int_equal(slots_begin(&fixture->slots, &writing), SNOW_OK);
}

/* Whatever byte of a WRITTEN slot is damaged, it is dropped; the floor is no part of it. */
static void a_damaged_slot_is_dropped(void **state)
{
    struct fixture *fixture = *state;
    struct wire_write_item item = item_of(5, 20, "key");

    for (size_t byte = 0; byte < sizeof(struct slot); byte++) {
        bool in_floor =
            byte >= offsetof(struct slot, floor_gen) && byte < offsetof(struct slot, floor_gen) + 8;

        if (in_floor)
            continue;
        item.gen++;
        assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_OK);
        slots_seal(&fixture->slots, 5, 1, true);
        ((uint8_t *)&fixture->slots.table[5])[byte] ^= 0x41;
        reopen(fixture);
        assert_int_equal(fixture->slots.table[5].state, WIRE_SLOT_FREE);
    }
}

static void a_long_key_lies_behind_the_object(void **state)
{
    struct fixture *fixture = *state;
    char key[4097];
    struct wire_write_item item;

    memset(key, 'k', 4096);
    key[4096] = 0;
    item = item_of(0, 1, key);
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_OK);
    slots_seal(&fixture->slots, 0, 0, true);
    reopen(fixture);
    assert_true(bytes_equal(slots_key(&fixture->slots, 0), bytes_of_string(key)));
    assert_memory_equal(fixture->slots.data.at + 1000, key, 4096);
}

static void a_write_needs_a_free_slot_above_the_floor_inside_the_segment(void **state)
{
    struct fixture *fixture = *state;
    struct wire_write_item item = item_of(7, 30, "key");

    slots_floor_raise(&fixture->slots, 7, 30);
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_GONE);
    item.gen = 31;
    item.offset = 2 * MIB - 999;
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_INVALID);
    item.offset = UINT64_MAX - 5;
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_INVALID);
    item.offset = 2 * MIB - 1000;
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_OK);
    item.gen = 32;
    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_STALE);
}

static void slots_without_their_data_are_given_up(void **state)
{
    struct fixture *fixture = *state;
    struct wire_write_item item = item_of(1, 10, "key");
    char path[128];

    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_OK);
    slots_seal(&fixture->slots, 1, 77, true);
    uint64_t incarnation = fixture->slots.header->incarnation;

    snprintf(path, sizeof(path), "%s/data-0", fixture->dir);
    assert_int_equal(unlink(path), 0);
    reopen(fixture);
    assert_int_not_equal(fixture->slots.header->incarnation, incarnation);
    assert_int_equal(fixture->slots.table[1].state, WIRE_SLOT_FREE);
}

/* A length that no key has would not fit in an inventory either. */
static void a_slot_with_an_impossible_key_is_dropped(void **state)
{
    struct fixture *fixture = *state;
    struct wire_write_item item = item_of(1, 10, "key");

    assert_int_equal(slots_begin(&fixture->slots, &item), SNOW_OK);
    fixture->slots.table[1].key_length = LIMIT_KEY_SIZE + 1;
    slots_seal(&fixture->slots, 1, 77, true);
    reopen(fixture);
    assert_int_equal(fixture->slots.table[1].state, WIRE_SLOT_FREE);
    assert_int_equal(fixture->slots.dropped, 1);
}

static void a_refusal_says_why(void **state)
{
    struct fixture *fixture = *state;
    struct slots_request request = fixture->request;
    struct slots second;
    const char *reason;

    assert_int_equal(slots_open(fixture->env, &request, &second, &reason), SNOW_IN_USE);
    assert_non_null(strstr(reason, "another process"));
    request.slot_bytes = 4 * MIB;
    assert_int_equal(slots_open(fixture->env, &request, &second, &reason), SNOW_INVALID);
    assert_non_null(strstr(reason, "slots"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_slot_survives_and_others_do_not, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_damaged_slot_is_dropped, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(a_long_key_lies_behind_the_object, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(
            a_write_needs_a_free_slot_above_the_floor_inside_the_segment, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(slots_without_their_data_are_given_up, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_slot_with_an_impossible_key_is_dropped, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_refusal_says_why, open_slots, close_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
