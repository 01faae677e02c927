/* Memory of devices: puts and gets of what the CPU can not touch, by a driver that is a fake. */
#include "cluster.h"
#include "cuda.h"

#define SIZE ((size_t)(3 * MIB + 12345))
#define PIECE ((size_t)5000)

static int setup_near(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_SHM, 1, 64 * MIB);
    return 0;
}

static int setup_far(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_TCP, 1, 64 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    assert_int_equal(fake_pinned(), 0);
    return 0;
}

static uint8_t *device_of(size_t size, uint64_t seed)
{
    uint8_t *at = fake_alloc(size, 0);

    fill(fake_view(at), size, seed);
    return at;
}

static enum snow_status put(struct cluster *cluster, const char *key, const void *from, size_t size)
{
    struct snow_put item = {.key = key_of(key), .from = from, .size = size};

    (void)snow_put(cluster->client, &item, 1, NULL);
    return item.status;
}

static enum snow_status get(struct cluster *cluster, const char *key, void *to, size_t room)
{
    struct snow_get item = {.key = key_of(key), .to = to, .room = room};

    (void)snow_get(cluster->client, &item, 1, NULL);
    return item.status;
}

/* From a device to the host, and back to a device; at odd places. */
static void there_and_back(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *from = device_of(SIZE + 1, 7);
    uint8_t *to = device_of(SIZE + 3, 8);
    uint8_t *host = malloc(SIZE);
    int before = fake_copies();

    assert_int_equal(put(cluster, "k", from + 1, SIZE), SNOW_OK);
    assert_int_equal(get(cluster, "k", host, SIZE), SNOW_OK);
    assert_memory_equal(host, fake_view(from + 1), SIZE);
    assert_int_equal(get(cluster, "k", to + 3, SIZE), SNOW_OK);
    assert_memory_equal(fake_view(to + 3), host, SIZE);
    assert_true(fake_copies() > before);
    assert_int_equal(put(cluster, "small", from, 1), SNOW_OK);
    assert_int_equal(get(cluster, "small", to, 1), SNOW_OK);
    assert_int_equal(fake_view(to)[0], fake_view(from)[0]);
    free(host);
    fake_free(from);
    fake_free(to);
}

/* Registered: what it is was found out once; its pages are not touched. */
static void registered(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *device = device_of(SIZE, 1);
    uint8_t *host = malloc(SIZE);

    assert_int_equal(snow_register(cluster->client, device, SIZE), SNOW_OK);
    assert_int_equal(snow_register(cluster->client, host, SIZE), SNOW_OK);
    assert_int_equal(put(cluster, "k", device, SIZE), SNOW_OK);
    assert_int_equal(get(cluster, "k", host, SIZE), SNOW_OK);
    assert_memory_equal(host, fake_view(device), SIZE);
    assert_int_equal(put(cluster, "part", device + SIZE - PIECE, PIECE), SNOW_OK);
    assert_int_equal(snow_unregister(cluster->client, device, NULL), SNOW_OK);
    assert_int_equal(snow_unregister(cluster->client, host, NULL), SNOW_OK);
    fake_free(device);
    free(host);
}

/* Pieces of both kinds under one key, many keys, parts of them. */
static void pieces(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *device = device_of(2 * PIECE * 40, 3);
    uint8_t *target = device_of(2 * PIECE * 40, 4);
    uint8_t head[PIECE], got[PIECE];
    struct snow_buffer from[40][3], to[40][3];
    struct snow_put puts[40] = {0};
    struct snow_get gets[40] = {0};
    char keys[40][8];

    fill(head, sizeof(head), 9);
    for (size_t i = 0; i < 40; i++) {
        uint8_t *at = device + 2 * PIECE * i;
        uint8_t *into = target + 2 * PIECE * i;

        snprintf(keys[i], sizeof(keys[i]), "m%zu", i);
        from[i][0] = (struct snow_buffer){.at = at, .size = PIECE};
        from[i][1] = (struct snow_buffer){.at = head, .size = sizeof(head)};
        from[i][2] = (struct snow_buffer){.at = at + PIECE, .size = PIECE};
        to[i][0] = (struct snow_buffer){.at = into, .size = PIECE};
        to[i][1] = (struct snow_buffer){.at = got, .size = i == 39 ? sizeof(got) : 0};
        to[i][2] = (struct snow_buffer){.at = into + PIECE, .size = PIECE};
        puts[i] = (struct snow_put){
            .key = key_of(keys[i]), .size = 3 * PIECE, .buffers = from[i], .buffer_count = 3};
        gets[i] = (struct snow_get){.key = key_of(keys[i]),
                                    .room = 2 * PIECE + to[i][1].size,
                                    .buffers = to[i],
                                    .buffer_count = 3,
                                    .length = i == 39 ? 3 * PIECE : 2 * PIECE};
    }
    assert_int_equal(snow_put(cluster->client, puts, 40, NULL), SNOW_OK);
    assert_int_equal(snow_get(cluster->client, gets, 40, NULL), SNOW_OK);
    for (size_t i = 0; i < 39; i++) { /* a part: the first piece, then what was host memory */
        assert_memory_equal(fake_view(target + 2 * PIECE * i), fake_view(device + 2 * PIECE * i),
                            PIECE);
        assert_memory_equal(fake_view(target + 2 * PIECE * i + PIECE), head, PIECE);
    }
    assert_memory_equal(got, head, sizeof(head));
    assert_memory_equal(fake_view(target + 2 * PIECE * 39), fake_view(device + 2 * PIECE * 39),
                        2 * PIECE);
    fake_free(device);
    fake_free(target);
}

static void long_puts(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *device = device_of(SIZE, 5);
    uint8_t *host = malloc(SIZE);
    struct snow_put item = {.key = key_of("long"), .size = SIZE};
    struct snow_write writes[2] = {
        {.offset = PIECE, .from = device + PIECE, .size = SIZE - PIECE},
        {.offset = 0, .from = device, .size = PIECE},
    };
    struct snow_writer *writer;

    assert_int_equal(snow_writer_open(cluster->client, &item, 0, NULL, &writer), SNOW_OK);
    assert_int_equal(snow_writer_write(writer, writes, 2, NULL), SNOW_OK);
    assert_int_equal(snow_writer_commit(writer, NULL, NULL), SNOW_OK);
    snow_writer_close(writer);
    assert_int_equal(get(cluster, "long", host, SIZE), SNOW_OK);
    assert_memory_equal(host, fake_view(device), SIZE);
    fake_free(device);
    free(host);
}

/* A copy that the driver refuses is a status; nothing is stored, and the next one works. */
static void refused_copies(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *device = device_of(SIZE, 6);
    uint8_t *host = calloc(1, SIZE);

    fake_refuse(1);
    assert_int_equal(put(cluster, "k", device, SIZE), SNOW_INVALID);
    assert_int_equal(get(cluster, "k", host, SIZE), SNOW_NOT_FOUND);
    assert_int_equal(put(cluster, "k", device, SIZE), SNOW_OK);
    fake_refuse(1);
    assert_int_equal(get(cluster, "k", device, SIZE), SNOW_INVALID);
    assert_int_equal(get(cluster, "k", device, SIZE), SNOW_OK);
    assert_int_equal(get(cluster, "k", host, SIZE), SNOW_OK);
    assert_memory_equal(host, fake_view(device), SIZE);
    fake_free(device);
    free(host);
}

/* What the host may touch is not the driver's work. */
static void managed_memory(void **state)
{
    struct cluster *cluster = *state;
    uint8_t *managed = fake_alloc(SIZE, 1);
    int before = fake_copies();

    fill(managed, SIZE, 2);
    assert_int_equal(snow_register(cluster->client, managed, SIZE), SNOW_OK);
    assert_int_equal(put(cluster, "m", managed, SIZE), SNOW_OK);
    assert_int_equal(get(cluster, "m", managed, SIZE), SNOW_OK);
    assert_int_equal(fake_copies(), before);
    assert_int_equal(snow_unregister(cluster->client, managed, NULL), SNOW_OK);
    fake_free(managed);
}

/* The checksum of what a device's memory held is the one that others compare with. */
static void checksums(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *near = cluster->client;
    uint8_t *device = device_of(SIZE, 11);

    assert_int_equal(put(cluster, "sum", device, SIZE), SNOW_OK);
    cluster->transport = SNOW_TRANSPORT_TCP;
    cluster->client = open_client(cluster, 0);
    assert_int_equal(get(cluster, "sum", device, SIZE), SNOW_OK);
    snow_close(cluster->client);
    cluster->client = near;
    fake_free(device);
}

#define BOTH(name) \
    {#name " near", name, setup_near, teardown, NULL}, \
    { \
#name " far", name, setup_far, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(there_and_back),
        BOTH(registered),
        BOTH(pieces),
        BOTH(long_puts),
        BOTH(refused_copies),
        BOTH(managed_memory),
        cmocka_unit_test_setup_teardown(checksums, setup_near, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
