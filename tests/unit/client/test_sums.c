/* Checksums of what is put within the host: stored, compared by who asks for it, and left out. */
#include "cluster.h"
#include "node/inside.h"

static struct snow_client *open_by(struct cluster *cluster, uint32_t transport, uint32_t verify,
                                   uint32_t no_checksum)
{
    struct snow_options options;
    struct snow_client *client = NULL;

    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.transport = transport;
    options.verify = verify;
    options.no_checksum = no_checksum;
    options.copy_threads = 3;
    assert_int_equal(snow_open(&options, &client, NULL), SNOW_OK);
    return client;
}

/* The one slot of a node that is WRITTEN with an object of that size; NULL: none.  The node's
 * thread wrote it before its state, as readers of other processes rely on too. */
static struct slot *slot_of(struct cluster *cluster, int node, uint64_t size)
{
    struct slots *slots = &cluster->nodes[node]->segments[0];

    for (uint32_t i = 0; i < slots->slots_ready; i++) {
        struct slot *slot = &slots->table[i];

        if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == WIRE_SLOT_WRITTEN &&
            slot->object_size == size)
            return slot;
    }
    return NULL;
}

static void damage(struct cluster *cluster, int node, const struct slot *slot)
{
    cluster->nodes[node]->segments[0].data.at[slot->offset + slot->length / 2] ^= 4;
}

static enum snow_status get(struct snow_client *client, const char *key)
{
    struct snow_get get = {.key = key_of(key)};
    enum snow_status status = snow_get(client, &get, 1, NULL);

    if (status == SNOW_OK)
        snow_free(get.to);
    return status;
}

/* In one piece or several, of any size, by one thread or more. */
static void what_is_stored(void **state)
{
    static const size_t sizes[] = {0,           1,          4096, 100000, 256 * KIB, 256 * KIB + 1,
                                   3 * MIB + 5, 7 * MIB - 3};
    struct cluster *cluster = open_cluster(1, 64 * MIB);
    struct snow_client *client = open_by(cluster, SNOW_TRANSPORT_SHM, SNOW_VERIFY_OTHERS, 0);
    struct snow_client *checks = open_by(cluster, SNOW_TRANSPORT_SHM, SNOW_VERIFY_EVERYWHERE, 0);
    uint8_t *bytes = malloc(7 * MIB);

    (void)state;
    fill(bytes, 7 * MIB, 5);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t third = sizes[i] / 3;
        struct snow_buffer parts[3] = {{.at = bytes, .size = third},
                                       {.at = bytes + third, .size = 0},
                                       {.at = bytes + third, .size = sizes[i] - third}};
        struct snow_put put = {.key = key_of(i % 2 == 0 ? "even" : "odd"),
                               .from = i % 2 == 0 ? bytes : NULL,
                               .size = sizes[i],
                               .buffers = i % 2 == 0 ? NULL : parts,
                               .buffer_count = i % 2 == 0 ? 0 : 3,
                               .replace = 1};

        assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_OK);
        const struct slot *slot = slot_of(cluster, 0, sizes[i]);

        assert_non_null(slot);
        assert_int_equal(slot->unchecked, 0);
        assert_int_equal(slot->data_crc, crc32c(0, bytes, sizes[i]));
        assert_int_equal(get(checks, i % 2 == 0 ? "even" : "odd"), SNOW_OK);
    }
    free(bytes);
    snow_close(checks);
    snow_close(client);
    close_cluster(cluster);
}

static void damaged_memory(void **state)
{
    struct cluster *cluster = open_cluster(2, 16 * MIB);
    struct snow_client *plain = open_by(cluster, SNOW_TRANSPORT_SHM, SNOW_VERIFY_OTHERS, 0);
    struct snow_client *checks = open_by(cluster, SNOW_TRANSPORT_SHM, SNOW_VERIFY_EVERYWHERE, 0);
    struct snow_client *far = open_by(cluster, SNOW_TRANSPORT_TCP, SNOW_VERIFY_OTHERS, 0);
    struct snow_client *none = open_by(cluster, SNOW_TRANSPORT_SHM, SNOW_VERIFY_OTHERS, 1);
    uint8_t *bytes = malloc(MIB);
    struct snow_put one = {.key = key_of("one"), .from = bytes, .size = MIB};
    struct snow_put two = {.key = key_of("two"), .from = bytes, .size = 99999, .replicas = 2};
    struct snow_put unsummed = {.key = key_of("unsummed"), .from = bytes, .size = 77777};
    struct snow_call call = {.segment = "first"};

    (void)state;
    fill(bytes, MIB, 9);
    assert_int_equal(snow_put(plain, &one, 1, &call), SNOW_OK);
    assert_int_equal(snow_put(plain, &two, 1, NULL), SNOW_OK);
    assert_int_equal(snow_put(none, &unsummed, 1, &call), SNOW_OK);
    assert_int_equal(slot_of(cluster, 0, 77777)->unchecked, 1);
    assert_int_equal(get(checks, "one"), SNOW_OK);
    damage(cluster, 0, slot_of(cluster, 0, MIB));
    damage(cluster, 0, slot_of(cluster, 0, 99999));
    damage(cluster, 0, slot_of(cluster, 0, 77777));
    assert_int_equal(get(plain, "one"), SNOW_OK); /* nobody looked */
    assert_int_equal(get(checks, "one"), SNOW_NOT_FOUND);
    assert_int_equal(get(far, "one"), SNOW_NOT_FOUND);
    /* The other copy is good. */
    struct snow_get got = {.key = key_of("two")};

    assert_int_equal(snow_get(checks, &got, 1, NULL), SNOW_OK);
    assert_memory_equal(got.to, bytes, 99999);
    snow_free(got.to);
    /* What has no checksum can not be compared with it. */
    assert_int_equal(get(checks, "unsummed"), SNOW_OK);
    assert_int_equal(get(far, "unsummed"), SNOW_OK);
    free(bytes);
    snow_close(none);
    snow_close(far);
    snow_close(checks);
    snow_close(plain);
    close_cluster(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored),
        cmocka_unit_test(damaged_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
