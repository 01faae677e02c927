/* Clients of the node's host: what they map, mark and seal, and what a forget waits for. */
#include "cluster.h"
#include "wire/marks.h"
#include "wire/segment.h"

/* What a client of the host has. */
struct near {
    struct rpc_conn *conn;
    struct env_memory marks_memory;
    struct env_memory meta;
    struct env_memory data;
    struct marks *marks;
    const struct slot *slots;
};

static const char *near_address(struct cluster *cluster, struct ask *a)
{
    struct rpc_conn *conn = dial_to(cluster, node_address(cluster->node));
    struct wire_near_req elsewhere = {.host = bytes_of_string("elsewhere")};
    struct wire_near_req here = {.host = bytes_of_string(env_host(cluster->env))};
    struct wire_near_rep *reply;
    static char address[128];

    ask(cluster, conn, a, WIRE_near, &elsewhere, NULL, 0);
    assert_int_equal(((struct wire_near_rep *)a->reply)->address.size, 0);
    ask(cluster, conn, a, WIRE_near, &here, NULL, 0);
    reply = a->reply;
    assert_in_range(reply->address.size, 1, sizeof(address) - 1);
    memcpy(address, reply->address.at, reply->address.size);
    address[reply->address.size] = 0;
    rpc_conn_close(conn);
    return address;
}

static void attach(struct cluster *cluster, struct ask *a, struct near *near)
{
    struct wire_attach_req attach = {.write = 1};
    struct wire_attach_rep *reply;

    near->conn = dial_to(cluster, near_address(cluster, a));
    assert_int_equal(env_memory_open(cluster->env, NULL, "marks", sizeof(struct marks),
                                     &near->marks_memory),
                     SNOW_OK);
    near->marks = (void *)near->marks_memory.at;
    assert_int_equal(env_memory_send(rpc_conn_stream(near->conn), &near->marks_memory, false),
                     SNOW_OK);
    ask(cluster, near->conn, a, WIRE_attach, &attach, NULL, 0);
    assert_int_equal(a->status, SNOW_OK);
    reply = a->reply;
    assert_int_equal(reply->write, 1);
    assert_int_equal(reply->segments_count, 1);
    assert_int_equal(env_memory_take(rpc_conn_stream(near->conn), true, &near->meta), SNOW_OK);
    assert_int_equal(env_memory_take(rpc_conn_stream(near->conn), true, &near->data), SNOW_OK);
    assert_int_equal(near->data.size, 8 * MIB);
    near->slots = (void *)(near->meta.at + SEGMENT_HEADER_BYTES);
}

static void detach(struct cluster *cluster, struct near *near)
{
    env_memory_close(cluster->env, &near->meta);
    env_memory_close(cluster->env, &near->data);
    env_memory_close(cluster->env, &near->marks_memory);
}

static void mark(struct near *near, uint32_t at, const struct wire_put_grant *grant)
{
    const struct wire_place *place = &grant->places[0];

    near->marks->end = at + 1;
    mark_set(&near->marks->marks[at], place->segment, place->slot, grant->gen, place->offset,
             place->length);
}

static struct wire_seal_item seal_item(const char *key, const struct wire_put_grant *grant)
{
    const struct wire_place *place = &grant->places[0];

    return (struct wire_seal_item){.segment = place->segment,
                                   .slot = place->slot,
                                   .gen = grant->gen,
                                   .offset = place->offset,
                                   .length = place->length,
                                   .object_size = place->length,
                                   .part = place->part,
                                   .parts = place->parts,
                                   .mac = place->mac,
                                   .key = bytes_of_string(key)};
}

static struct wire_write_done seal(struct cluster *cluster, struct rpc_conn *conn, struct ask *a,
                                   struct wire_seal_item *item)
{
    struct wire_seal_req req = {.items = item, .items_count = 1};

    ask(cluster, conn, a, WIRE_seal, &req, NULL, 0);
    if (a->status != SNOW_OK)
        return (struct wire_write_done){.status = (int32_t)a->status};
    return ((struct wire_seal_rep *)a->reply)->items[0];
}

static void end_put(struct cluster *cluster, struct rpc_conn *master, struct ask *a,
                    const char *key, uint64_t gen)
{
    struct wire_written written = {.key = bytes_of_string(key), .gen = gen, .replicas = 1};
    struct wire_put_end_req end = {.operation = 1, .items = &written, .items_count = 1};

    ask(cluster, master, a, WIRE_put_end, &end, NULL, 0);
    assert_int_equal(((struct wire_put_end_rep *)a->reply)->items[0].status, SNOW_OK);
}

static void abort_put(struct cluster *cluster, struct rpc_conn *master, struct ask *a,
                      const char *key, uint64_t gen)
{
    struct wire_key_gen aborted = {.key = bytes_of_string(key), .gen = gen};
    struct wire_put_abort_req abort = {.items = &aborted, .items_count = 1};

    ask(cluster, master, a, WIRE_put_abort, &abort, NULL, 0);
    assert_int_equal(a->status, SNOW_OK);
}

static uint64_t metric(struct cluster *cluster, const char *name)
{
    uint64_t values[64];

    assert_in_range(node_metric_count(), 1, 64);
    node_metrics(cluster->node, values);
    for (uint32_t i = 0; i < node_metric_count(); i++) {
        if (strcmp(node_metric_name(i), name) == 0)
            return values[i];
    }
    fail();
    return 0;
}

static uint8_t state_of(const struct near *near, uint32_t slot)
{
    return __atomic_load_n(&near->slots[slot].state, __ATOMIC_ACQUIRE);
}

static void wait_for_state(struct cluster *cluster, const struct near *near, uint32_t slot,
                           uint8_t state)
{
    uint64_t end_ns = env_now_ns(cluster->env) + WAIT_NS;

    while (state_of(near, slot) != state) {
        assert_true(env_now_ns(cluster->env) < end_ns);
        env_loop_turn(cluster->loop, NS_PER_MS, 0);
    }
}

/* Long enough for a node that does not wait for marks to have said FREED. */
static void stays_closed(struct cluster *cluster, const struct near *near, uint32_t slot)
{
    for (int i = 0; i < 50; i++) {
        env_loop_turn(cluster->loop, NS_PER_MS, 0);
        assert_int_equal(state_of(near, slot), WIRE_SLOT_CLOSED);
    }
}

static void what_is_written_is_sealed_and_read_by_others(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct rpc_conn *far = dial_to(cluster, node_address(cluster->node));
    struct ask a = {0};
    struct near near;
    uint8_t bytes[5000];
    uint8_t got[5000];

    attach(cluster, &a, &near);
    memset(bytes, 42, sizeof(bytes));
    struct wire_put_grant grant = start_put(cluster, master, &a, "key", sizeof(bytes));
    const struct wire_place *place = &grant.places[0];
    const uint32_t *key_id = (const void *)(near.meta.at + SEGMENT_KEY_OFFSET);

    assert_int_equal(*key_id, place->key_id);
    assert_true(slot_awaits(&near.slots[place->slot], grant.gen));
    memcpy(near.data.at + place->offset, bytes, sizeof(bytes));
    struct wire_seal_item item = seal_item("key", &grant);
    struct wire_seal_item forged = item;

    forged.offset += 256;
    assert_int_equal(seal(cluster, near.conn, &a, &forged).status, SNOW_STALE);
    /* Who has not mapped the memory has nothing to seal. */
    assert_int_equal(seal(cluster, far, &a, &item).status, SNOW_INVALID);
    assert_int_equal(seal(cluster, near.conn, &a, &item).written, 1);
    assert_int_equal(seal(cluster, near.conn, &a, &item).written, 1); /* again: no harm */
    assert_true(slot_holds(&near.slots[place->slot], grant.gen, place->offset, place->length));
    end_put(cluster, master, &a, "key", grant.gen);
    struct wire_key key = {.key = bytes_of_string("key")};
    struct wire_lookup_req lookup = {
        .operation = 2, .flags = WIRE_LOOKUP_PLACES, .keys = &key, .keys_count = 1};

    ask(cluster, master, &a, WIRE_lookup, &lookup, NULL, 0);
    const struct wire_place *found = ((struct wire_lookup_rep *)a.reply)->items[0].places;
    struct wire_read_item read = {.segment = found->segment,
                                  .slot = found->slot,
                                  .gen = grant.gen,
                                  .offset = found->offset,
                                  .length = found->length,
                                  .mac = found->mac,
                                  .size = sizeof(bytes)};
    struct wire_read_req reads = {.items = &read, .items_count = 1};

    a.payload = got;
    for (int i = 0; i < 2; i++) { /* the checksum is computed once, and remembered */
        ask(cluster, far, &a, WIRE_read, &reads, NULL, 0);
        assert_int_equal(((struct wire_read_rep *)a.reply)->items[0].status, SNOW_OK);
        assert_int_equal(((struct wire_read_rep *)a.reply)->items[0].crc,
                         crc32c(0, bytes, sizeof(bytes)));
        assert_memory_equal(got, bytes, sizeof(bytes));
    }
    detach(cluster, &near);
    arena_deinit(&a.arena);
}

static void a_forget_waits_for_marks(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct ask a = {0};
    struct near near;

    attach(cluster, &a, &near);
    struct wire_put_grant viewed = start_put_number(cluster, master, &a, 1, "viewed", 5000);
    struct wire_place viewed_at = viewed.places[0];
    struct wire_seal_item item = seal_item("viewed", &viewed);

    mark(&near, 0, &viewed);
    assert_int_equal(seal(cluster, near.conn, &a, &item).written, 1);
    end_put(cluster, master, &a, "viewed", viewed.gen);
    struct wire_put_grant written = start_put_number(cluster, master, &a, 2, "written", 5000);
    struct wire_place written_at = written.places[0];

    mark(&near, 1, &written);
    /* One that was sealed and is viewed, one that is still being written: both are forgotten. */
    struct wire_key key = {.key = bytes_of_string("viewed")};
    struct wire_remove_req remove = {.keys = &key, .keys_count = 1};

    ask(cluster, master, &a, WIRE_remove, &remove, NULL, 0);
    assert_int_equal(((struct wire_remove_rep *)a.reply)->items[0].status, SNOW_OK);
    abort_put(cluster, master, &a, "written", written.gen);
    assert_false(slot_awaits(&near.slots[written_at.slot], written.gen));
    assert_int_equal(near.slots[written_at.slot].offset, written_at.offset);
    stays_closed(cluster, &near, viewed_at.slot);
    stays_closed(cluster, &near, written_at.slot);
    assert_int_equal(metric(cluster, "marked_held"), 2);
    mark_clear(&near.marks->marks[0]);
    wait_for_state(cluster, &near, viewed_at.slot, WIRE_SLOT_FREE);
    stays_closed(cluster, &near, written_at.slot);
    mark_clear(&near.marks->marks[1]);
    wait_for_state(cluster, &near, written_at.slot, WIRE_SLOT_FREE);
    detach(cluster, &near);
    arena_deinit(&a.arena);
}

/* The connection is lost, the process lives on and is still inside. */
static void marks_outlive_their_connection(void **state)
{
    struct cluster *cluster = *state;
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct ask a = {0};
    struct near near;

    attach(cluster, &a, &near);
    struct wire_put_grant written = start_put(cluster, master, &a, "written", 5000);
    uint32_t slot = written.places[0].slot;

    mark(&near, 7, &written);
    rpc_conn_close(near.conn);
    abort_put(cluster, master, &a, "written", written.gen);
    stays_closed(cluster, &near, slot);
    mark_clear(&near.marks->marks[7]);
    wait_for_state(cluster, &near, slot, WIRE_SLOT_FREE);
    detach(cluster, &near);
    arena_deinit(&a.arena);
}

static void nonsense_is_refused(void **state)
{
    struct cluster *cluster = *state;
    struct ask a = {0};
    struct near near;
    struct wire_attach_req attach_req = {.write = 1};
    const char *address = near_address(cluster, &a);
    struct rpc_conn *without = dial_to(cluster, address);
    struct rpc_conn *small = dial_to(cluster, address);
    struct env_memory memory;

    /* No marks, and a table that is too small. */
    ask(cluster, without, &a, WIRE_attach, &attach_req, NULL, 0);
    assert_int_equal(a.status, SNOW_NOT_READY);
    assert_int_equal(env_memory_open(cluster->env, NULL, "small", 4096, &memory), SNOW_OK);
    assert_int_equal(env_memory_send(rpc_conn_stream(small), &memory, false), SNOW_OK);
    ask(cluster, small, &a, WIRE_attach, &attach_req, NULL, 0);
    assert_int_equal(a.status, SNOW_INVALID);
    env_memory_close(cluster->env, &memory);
    attach(cluster, &a, &near);
    ask(cluster, near.conn, &a, WIRE_attach, &attach_req, NULL, 0); /* twice */
    assert_int_equal(a.status, SNOW_INVALID);
    /* Marks that say anything at all: nothing but their own node's time is spent. */
    near.marks->end = UINT32_MAX;
    for (uint32_t i = 0; i < MARKS_COUNT; i++)
        near.marks->marks[i] = (struct mark){.gen = UINT64_MAX - i,
                                             .offset = UINT64_MAX / 2 * i,
                                             .length = UINT64_MAX,
                                             .segment = i * 977,
                                             .slot = i * 7919};
    struct rpc_conn *master = dial_to(cluster, master_address(cluster->master));
    struct wire_put_grant grant = start_put(cluster, master, &a, "key", 5000);

    abort_put(cluster, master, &a, "key", grant.gen);
    detach(cluster, &near);
    arena_deinit(&a.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_sealed_and_read_by_others, open_cluster,
                                        close_cluster),
        cmocka_unit_test_setup_teardown(a_forget_waits_for_marks, open_cluster, close_cluster),
        cmocka_unit_test_setup_teardown(marks_outlive_their_connection, open_cluster,
                                        close_cluster),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, open_cluster, close_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
