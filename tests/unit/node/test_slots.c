/* The slot table: what a crash at any store leaves, and that floors and checksums hold. */
#include "env/linux.h"
#include "node/slots.h"
#include "transport/crc.h"

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

/* With its memory closed. */
static void open_again(struct fixture *fixture, enum snow_status expected)
{
    const char *reason;

    assert_int_equal(slots_open(fixture->env, &fixture->request, &fixture->slots, &reason),
                     expected);
}

static void unlink_files(const struct fixture *fixture)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/meta-0", fixture->dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/data-0", fixture->dir);
    unlink(path);
    rmdir(fixture->dir);
}

static int close_slots(void **state)
{
    struct fixture *fixture = *state;

    slots_close_memory(&fixture->slots);
    unlink_files(fixture);
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

static void bytes_are_verified(void **state)
{
    struct slots *slots = &((struct fixture *)*state)->slots;
    struct wire_write_item item = item_of(1, 10, "written");
    struct wire_write_item other = item_of(2, 11, "unchecked");
    uint8_t *bytes = slots->data.at + item.offset;

    memset(bytes, 7, 1000);
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_STALE); /* it holds nothing yet */
    assert_int_equal(slots_begin(slots, &item), SNOW_OK);
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_STALE);
    slots_seal(slots, 1, crc32c(0, bytes, 1000), true);
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_OK);
    assert_int_equal(slots_verify(slots, 1, 11), SNOW_STALE);
    bytes[999] ^= 1;
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_CORRUPT);
    bytes[999] ^= 1;
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_OK);
    assert_int_equal(slots_close(slots, 1, 10), 10);
    assert_int_equal(slots_verify(slots, 1, 10), SNOW_STALE);
    assert_int_equal(slots_begin(slots, &other), SNOW_OK);
    slots_seal(slots, 2, 0, false); /* its writer computed none */
    assert_int_equal(slots_verify(slots, 2, 11), SNOW_UNKNOWN);
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

/* What was ready under an earlier process is so again, and no more than that. */
static void a_segment_grows_and_keeps_how_far_it_came(void **state)
{
    struct fixture *fixture = *state;
    struct slots *slots = &fixture->slots;
    struct wire_write_item item = item_of(1, 10, "key");
    uint64_t done;

    slots_close_memory(slots);
    unlink_files(fixture);
    fixture->request.step = 128 * KIB;
    fixture->request.data_size = 4 * MIB;
    open_again(fixture, SNOW_OK);
    assert_int_equal(slots->ready, 128 * KIB);
    assert_int_equal(slots->slots_ready, (128 * KIB - SEGMENT_HEADER_BYTES) / sizeof(struct slot));
    item.offset = 128 * KIB - 512; /* reaches above */
    assert_int_equal(slots_begin(slots, &item), SNOW_INVALID);
    assert_int_equal(slots_populate(slots, false, 128 * KIB, 64 * KIB, &done), SNOW_OK);
    assert_int_equal(slots->ready, 128 * KIB); /* not before it is taken */
    slots_take_present(slots, false, 128 * KIB + done + 100);
    assert_int_equal(slots->ready, 192 * KIB); /* whole pages */
    assert_int_equal(slots_begin(slots, &item), SNOW_OK);
    slots_seal(slots, 1, 5, true);
    assert_int_equal(
        slots_populate(slots, true, 128 * KIB, slots_meta_size(slots) - 128 * KIB, &done), SNOW_OK);
    slots_take_present(slots, true, 128 * KIB + done);
    assert_int_equal(slots->slots_ready, slots->count);
    slots_close_memory(slots);
    open_again(fixture, SNOW_OK);
    assert_int_equal(slots->ready, 192 * KIB);
    assert_int_equal(slots->slots_ready, slots->count);
    assert_int_equal(slots->table[1].state, WIRE_SLOT_WRITTEN);
    /* A header that claims more than there is. */
    slots->header->ready = 8 * MIB;
    slots_close_memory(slots);
    open_again(fixture, SNOW_INVALID);
    unlink_files(fixture);
    open_again(fixture, SNOW_OK);
}

/* Files of before segments grew: all of them is ready. */
static void a_segment_of_version_1_is_whole(void **state)
{
    struct fixture *fixture = *state;
    struct slots *slots = &fixture->slots;

    slots->header->version = 1;
    slots->header->crc = crc32c(0, slots->header, offsetof(struct slots_header, crc));
    slots->header->slots_ready = 0;
    slots->header->ready = 0;
    slots_close_memory(slots);
    fixture->request.step = 64 * KIB;
    open_again(fixture, SNOW_OK);
    assert_int_equal(slots->ready, 2 * MIB);
    assert_int_equal(slots->slots_ready, slots->count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_written_slot_survives_and_others_do_not, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(bytes_are_verified, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(a_damaged_slot_is_dropped, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(a_long_key_lies_behind_the_object, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(
            a_write_needs_a_free_slot_above_the_floor_inside_the_segment, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(slots_without_their_data_are_given_up, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_slot_with_an_impossible_key_is_dropped, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_refusal_says_why, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(a_segment_grows_and_keeps_how_far_it_came, open_slots,
                                        close_slots),
        cmocka_unit_test_setup_teardown(a_segment_of_version_1_is_whole, open_slots, close_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
