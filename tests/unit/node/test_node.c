/* A master and a node in one process, and a client that speaks the messages by hand:
 * what the two do together. */
#include "cluster.h"
#include "node/inside.h"
#include "wire/frame.h"

static void a_put_and_a_get(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct rpc_conn *node = dial_to(cluster, node_address(cluster->node));
    struct ask a = {0};
    uint8_t bytes[10000];
    uint8_t got[10000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    struct wire_put_grant grant = start_put(cluster, master, &a, "key", sizeof(bytes));

    assert_int_equal(grant.status, SNOW_OK);
    struct wire_write_item item = write_item("key", &grant, bytes);
    struct wire_write_done done = write_bytes(cluster, node, &a, &item, bytes);

    assert_int_equal(done.status, SNOW_OK);
    assert_int_equal(done.written, 1);
    struct wire_written written = {.key = bytes_of_string("key"), .gen = grant.gen, .replicas = 1};
    struct wire_put_end_req end = {.operation = 1, .items = &written, .items_count = 1};

    ask(cluster, master, &a, WIRE_put_end, &end, NULL, 0);
    assert_int_equal(((struct wire_put_end_rep *)a.reply)->items[0].status, SNOW_OK);
    struct wire_key key = {.key = bytes_of_string("key")};
    struct wire_lookup_req lookup = {.operation = 2,
                                     .flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_LEASE,
                                     .keys = &key,
                                     .keys_count = 1};

    ask(cluster, master, &a, WIRE_lookup, &lookup, NULL, 0);
    struct wire_found *found = ((struct wire_lookup_rep *)a.reply)->items;

    assert_int_equal(found->status, SNOW_OK);
    assert_int_equal(found->size, sizeof(bytes));
    assert_int_equal(found->places_count, 1);
    struct wire_read_item read = {.segment = found->places[0].segment,
                                  .slot = found->places[0].slot,
                                  .gen = found->gen,
                                  .offset = found->places[0].offset,
                                  .length = found->places[0].length,
                                  .mac = found->places[0].mac,
                                  .size = sizeof(bytes)};
    struct wire_read_req reads = {.items = &read, .items_count = 1};

    a.payload = got;
    ask(cluster, node, &a, WIRE_read, &reads, NULL, 0);
    assert_int_equal(((struct wire_read_rep *)a.reply)->items[0].status, SNOW_OK);
    assert_memory_equal(got, bytes, sizeof(bytes));
    read.mac ^= 1;
    ask(cluster, node, &a, WIRE_read, &reads, NULL, 0);
    assert_int_equal(((struct wire_read_rep *)a.reply)->items[0].status, SNOW_STALE);
    struct wire_remove_req remove = {.keys = &key, .keys_count = 1};

    ask(cluster, master, &a, WIRE_remove, &remove, NULL, 0);
    assert_int_equal(((struct wire_remove_rep *)a.reply)->items[0].status, SNOW_OK);
    read.mac ^= 1;
    ask(cluster, node, &a, WIRE_read, &reads, NULL, 0);
    assert_int_equal(((struct wire_read_rep *)a.reply)->items[0].status, SNOW_STALE);
    arena_deinit(&a.arena);
}

static void forged_replayed_and_corrupt_writes_are_refused(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct rpc_conn *node = dial_to(cluster, node_address(cluster->node));
    struct ask a = {0};
    uint8_t bytes[5000];

    memset(bytes, 42, sizeof(bytes));
    struct wire_put_grant grant = start_put(cluster, master, &a, "key", sizeof(bytes));
    struct wire_write_item good = write_item("key", &grant, bytes);
    struct wire_write_item item = good;

    item.offset += 256;
    assert_int_equal(write_bytes(cluster, node, &a, &item, bytes).status, SNOW_STALE);
    item = good;
    item.key = bytes_of_string("kez");
    assert_int_equal(write_bytes(cluster, node, &a, &item, bytes).status, SNOW_STALE);
    item = good;
    item.slot = UINT32_MAX;
    assert_int_equal(write_bytes(cluster, node, &a, &item, bytes).status, SNOW_INVALID);
    item = good;
    item.crc ^= 1;
    assert_int_equal(write_bytes(cluster, node, &a, &item, bytes).status, SNOW_CORRUPT);
    item = good;
    item.start = item.length - 10; /* beyond its end */
    assert_int_equal(write_bytes(cluster, node, &a, &item, bytes).status, SNOW_INVALID);
    assert_int_equal(write_bytes(cluster, node, &a, &good, bytes).written, 1);
    assert_int_equal(write_bytes(cluster, node, &a, &good, bytes).written, 1); /* again: no harm */
    struct wire_key_gen aborted = {.key = bytes_of_string("key"), .gen = grant.gen};
    struct wire_put_abort_req abort = {.items = &aborted, .items_count = 1};

    ask(cluster, master, &a, WIRE_put_abort, &abort, NULL, 0);
    assert_int_equal(((struct wire_put_abort_rep *)a.reply)->items[0].status, SNOW_OK);
    assert_int_equal(write_bytes(cluster, node, &a, &good, bytes).status, SNOW_GONE); /* replayed */
    arena_deinit(&a.arena);
}

/* Bytes [start, start+size) of an extent. */
static struct wire_write_done write_range(struct cluster *cluster, struct rpc_conn *node,
                                          struct ask *a, const struct wire_write_item *whole,
                                          uint8_t *bytes, uint64_t start, uint64_t size)
{
    struct wire_write_item item = *whole;

    item.start = start;
    item.size = size;
    item.crc = crc32c(0, bytes + start, (size_t)size);
    return write_bytes(cluster, node, a, &item, bytes + start);
}

static void ranges_in_any_order(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct rpc_conn *node = dial_to(cluster, node_address(cluster->node));
    struct ask a = {0};
    uint8_t bytes[5000];
    uint8_t other[5000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    memset(other, 42, sizeof(other));
    struct wire_put_grant grant = start_put(cluster, master, &a, "any", sizeof(bytes));
    struct wire_write_item whole = write_item("any", &grant, bytes);

    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 4000, 1000).status, SNOW_OK);
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 1000, 500).status, SNOW_OK);
    /* Sent again: it is here already, and stays as it is. */
    assert_int_equal(write_range(cluster, node, &a, &whole, other, 4100, 200).status, SNOW_OK);
    /* What covers a part of it would not be the writer's own piece. */
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 3900, 200).status, SNOW_INVALID);
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 0, 1000).written, 0);
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 2000, 2000).written, 0);
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 2000, 0).written, 0);
    assert_int_equal(write_range(cluster, node, &a, &whole, bytes, 1500, 500).written, 1);
    assert_int_equal(write_range(cluster, node, &a, &whole, other, 1500, 500).written, 1);

    const struct slot *slot = &cluster->node->segments[0].table[whole.slot];

    assert_int_equal(slot->data_crc, crc32c(0, bytes, sizeof(bytes)));
    assert_memory_equal(cluster->node->segments[0].data.at + whole.offset, bytes, sizeof(bytes));
    arena_deinit(&a.arena);
}

/* A stream that speaks frames by hand, so that it can stop in the middle of one. */
struct raw {
    struct env_conn *conn;
    bool open;
    uint8_t got[1024];
    size_t got_size;
};

static void on_raw_open(void *owner, enum snow_status status)
{
    assert_int_equal(status, SNOW_OK);
    ((struct raw *)owner)->open = true;
}

static void on_raw_readable(void *owner)
{
    struct raw *raw = owner;
    ssize_t got;

    do {
        struct iovec iov = {raw->got + raw->got_size, sizeof(raw->got) - raw->got_size};

        got = env_conn_receive(raw->conn, &iov, 1);
        raw->got_size += got > 0 ? (size_t)got : 0;
    } while (got > 0);
}

static void on_raw_writable(void *owner)
{
    (void)owner;
}

static void raw_send(struct raw *raw, uint16_t type, uint64_t id, const void *message,
                     uint64_t payload_size)
{
    uint8_t frame[FRAME_HEADER_SIZE + 1024];
    struct frame_header header = {.version = WIRE_VERSION_MIN,
                                  .kind = FRAME_REQUEST,
                                  .type = type,
                                  .request_id = id,
                                  .payload_size = payload_size};
    struct writer writer;

    writer_init(&writer, frame + FRAME_HEADER_SIZE, 1024, WIRE_VERSION_MIN);
    assert_int_equal(wire_request_encode(type, message, &writer), SNOW_OK);
    frame_header_set_body(&header, bytes_of(frame + FRAME_HEADER_SIZE, writer_size(&writer)));
    frame_header_encode(&header, frame);
    struct iovec iov = {frame, FRAME_HEADER_SIZE + writer_size(&writer)};

    assert_int_equal(env_conn_send(raw->conn, &iov, 1), iov.iov_len);
}

static void raw_send_bytes(struct raw *raw, const uint8_t *at, size_t size)
{
    struct iovec iov = {(void *)(uintptr_t)at, size};

    assert_int_equal(env_conn_send(raw->conn, &iov, 1), size);
}

static void raw_wait(struct cluster *cluster, const struct raw *raw, size_t size)
{
    uint64_t end_ns = env_now_ns(cluster->env) + WAIT_NS;

    while (!raw->open || raw->got_size < size) {
        assert_true(env_now_ns(cluster->env) < end_ns);
        env_loop_turn(cluster->loop, 10 * NS_PER_MS, 0);
    }
}

/* A writer that stopped in the middle of a message is overtaken, by itself on another connection:
 * what it still sends for that extent is drained, and the others of the message are taken whole. */
static void a_displaced_piece_harms_no_other(void **state)
{
    static const struct env_conn_ops ops = {on_raw_open, on_raw_readable, on_raw_writable};
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct rpc_conn *node = dial_to(cluster, node_address(cluster->node));
    struct wire_hello_req hello = {.version_min = 1, .version_max = 1, .role = WIRE_ROLE_CLIENT};
    struct ask a = {0};
    struct raw raw = {0};
    uint8_t bytes[9000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 5 + i / 253);
    struct wire_put_grant first = start_put(cluster, master, &a, "first", 5000);
    struct wire_write_item items[2] = {write_item("first", &first, bytes)};
    struct wire_put_grant second = start_put_number(cluster, master, &a, 2, "second", 4000);

    items[1] = write_item("second", &second, bytes + 5000);
    struct wire_write_req write = {.items = items, .items_count = 2};

    assert_int_equal(
        env_dial(cluster->loop, node_address(cluster->node), NULL, &ops, &raw, &raw.conn), SNOW_OK);
    raw_wait(cluster, &raw, 0);
    raw_send(&raw, WIRE_hello, 0, &hello, 0);
    raw_wait(cluster, &raw, FRAME_HEADER_SIZE + 1);
    env_loop_turn(cluster->loop, 0, 0);
    raw.got_size = 0;
    raw_send(&raw, WIRE_write, 1 << 10, &write, 9000);
    raw_send_bytes(&raw, bytes, 2000);
    while (node_is_idle(cluster->node))
        env_loop_turn(cluster->loop, NS_PER_MS, 0);
    assert_int_equal(write_bytes(cluster, node, &a, &items[0], bytes).written, 1);
    raw_send_bytes(&raw, bytes + 2000, 7000);
    raw_wait(cluster, &raw, FRAME_HEADER_SIZE + 2 + 2 * 5);
    struct arena arena;
    void *reply;

    arena_init(&arena, 0);
    assert_int_equal(wire_reply_decode(WIRE_write,
                                       bytes_of(raw.got + FRAME_HEADER_SIZE,
                                                raw.got_size - FRAME_HEADER_SIZE),
                                       WIRE_VERSION, &arena, &reply),
                     SNOW_OK);
    assert_int_equal(((struct wire_write_rep *)reply)->items[0].status, SNOW_STALE);
    assert_int_equal(((struct wire_write_rep *)reply)->items[1].status, SNOW_OK);
    assert_int_equal(((struct wire_write_rep *)reply)->items[1].written, 1);
    arena_deinit(&arena);
    arena_deinit(&a.arena);
    env_conn_close(raw.conn, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_put_and_a_get, open_cluster, close_cluster),
        cmocka_unit_test_setup_teardown(forged_replayed_and_corrupt_writes_are_refused,
                                        open_cluster, close_cluster),
        cmocka_unit_test_setup_teardown(ranges_in_any_order, open_cluster, close_cluster),
        cmocka_unit_test_setup_teardown(a_displaced_piece_harms_no_other, open_cluster,
                                        close_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
