/* What tests of the core do in their world (harness_world.h): sessions ask, nodes mount, tell. */
#ifndef TESTS_UNIT_CORE_HARNESS_H
#define TESTS_UNIT_CORE_HARNESS_H

#include "harness_world.h"

/* ---- sessions and requests ---- */

static inline uint64_t session_open(struct world *world, uint64_t returning)
{
    world_step(world, &(struct core_input){.kind = CORE_SESSION_OPEN, .from = returning});
    assert_true(world->session != 0);
    return world->session;
}

static inline void session_break(struct world *world, uint64_t session)
{
    world_step(world, &(struct core_input){.kind = CORE_SESSION_BREAK, .from = session});
}

/* Sends a request that is answered within timeout_ms; returns what becomes of it. */
static inline struct world_request *world_ask(struct world *world, uint64_t session, uint16_t type,
                                              const void *message, uint32_t items,
                                              uint64_t timeout_ms)
{
    struct world_request *request = &world->requests[++world->token];

    assert_true(world->token < WORLD_TOKENS);
    request->type = type;
    request->items = items;
    request->seen = world_take(world, items, 1);
    request->grants = world_take(world, items, sizeof(*request->grants));
    request->statuses = world_take(world, items, sizeof(*request->statuses));
    world_step(world, &(struct core_input){.kind = CORE_MESSAGE,
                                           .from = session,
                                           .token = world->token,
                                           .type = type,
                                           .message = message,
                                           .deadline_ns = world->now_ns + timeout_ms * NS_PER_MS});
    return request;
}

static inline struct bytes world_key(const char *text)
{
    return bytes_of_string(text);
}

/* ---- puts: one item, or a batch of keys "<name><number>" ---- */

static inline struct wire_put_start_req *put_message(struct world *world, uint64_t operation,
                                                     const char *key, uint64_t size)
{
    struct wire_put_start_req *put = world_take(world, 1, sizeof(*put));

    put->operation = operation;
    put->items = world_take(world, 1, sizeof(*put->items));
    put->items_count = 1;
    put->items[0] = (struct wire_put_item){
        .key = world_key(key), .size = size, .depth = WIRE_DEPTH_UNKNOWN, .replicas = 1};
    return put;
}

static inline struct world_request *put_send(struct world *world, uint64_t session,
                                             struct wire_put_start_req *put, uint32_t wait_ms)
{
    put->wait_ms = wait_ms;
    return world_ask(world, session, WIRE_put_start, put, put->items_count, 10000);
}

static inline struct world_request *put_start(struct world *world, uint64_t session,
                                              uint64_t operation, const char *key, uint64_t size)
{
    return put_send(world, session, put_message(world, operation, key, size), 0);
}

/* As a node keeps what it is given. */
static inline struct bytes world_keep(struct world *world, struct bytes data)
{
    uint8_t *copy = world_take(world, data.size, 1);

    return bytes_of(data.size == 0 ? copy : memcpy(copy, data.at, data.size), data.size);
}

/* The client writes the bytes: the nodes' slots turn WRITTEN, if the grant is one. */
static inline void grant_write(struct world *world, struct bytes key, uint64_t size,
                               const struct wire_put_grant *grant, uint16_t flags)
{
    struct hash128 hash = hash_key(0, key);

    assert_int_equal(grant->flags, flags);
    for (uint32_t i = 0; i < grant->places_count; i++) {
        const struct wire_place *place = &grant->places[i];
        struct world_node *node = NULL;

        for (uint32_t j = 0; j < world->node_count; j++) {
            if (world->nodes[j].number == place->node)
                node = &world->nodes[j];
        }
        assert_non_null(node);
        struct grant_fields fields = {.segment = place->segment,
                                      .slot = place->slot,
                                      .gen = grant->gen,
                                      .offset = place->offset,
                                      .length = place->length,
                                      .object_size = size,
                                      .object_offset = place->object_offset,
                                      .part = place->part,
                                      .parts = place->parts,
                                      .replica = place->replica,
                                      .flags = flags,
                                      .key = hash};

        if (place->part == 0)
            fields.extra = grant_extra_hash(0, grant->extra);
        assert_int_equal(place->mac, grant_write_mac(&node->secret, &fields));
        struct world_slot *slot = &node->slots[place->segment][place->slot];

        assert_true(slot->row.state == WIRE_SLOT_FREE);
        slot->row = (struct wire_inventory_row){.slot = place->slot,
                                                .gen = grant->gen,
                                                .state = WIRE_SLOT_WRITTEN,
                                                .replica = place->replica,
                                                .part = place->part,
                                                .parts = place->parts,
                                                .flags = flags,
                                                .offset = place->offset,
                                                .length = place->length,
                                                .object_size = size,
                                                .object_offset = place->object_offset,
                                                .key_hash_low = hash.low,
                                                .key_hash_high = hash.high};
        if (place->part == 0) {
            slot->row.key = key;
            slot->row.extra = world_keep(world, grant->extra);
        }
    }
}

static inline struct world_request *put_end_gen(struct world *world, uint64_t session,
                                                const char *key, uint64_t gen, uint16_t replicas)
{
    struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

    end->items = world_take(world, 1, sizeof(*end->items));
    end->items_count = 1;
    end->items[0] = (struct wire_written){.key = world_key(key), .gen = gen, .replicas = replicas};
    return world_ask(world, session, WIRE_put_end, end, 1, 10000);
}

static inline struct world_request *put_renew_gen(struct world *world, uint64_t session,
                                                  const char *key, uint64_t gen, uint32_t for_ms)
{
    struct wire_put_renew_req *renew = world_take(world, 1, sizeof(*renew));

    renew->for_ms = for_ms;
    renew->items = world_take(world, 1, sizeof(*renew->items));
    renew->items_count = 1;
    renew->items[0] = (struct wire_key_gen){.key = world_key(key), .gen = gen};
    return world_ask(world, session, WIRE_put_renew, renew, 1, 10000);
}

static inline struct world_request *put_abort_gen(struct world *world, uint64_t session,
                                                  const char *key, uint64_t gen)
{
    struct wire_put_abort_req *abort = world_take(world, 1, sizeof(*abort));

    abort->items = world_take(world, 1, sizeof(*abort->items));
    abort->items_count = 1;
    abort->items[0] = (struct wire_key_gen){.key = world_key(key), .gen = gen};
    return world_ask(world, session, WIRE_put_abort, abort, 1, 10000);
}

/* The whole put; returns the generation. */
static inline uint64_t put(struct world *world, uint64_t session, const char *key, uint64_t size)
{
    struct world_request *request =
        put_send(world, session, put_message(world, world->token + 1, key, size), 1000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    uint64_t gen = request->grants[0].gen;

    grant_write(world, world_key(key), size, &request->grants[0], 0);
    request = put_end_gen(world, session, key, gen, 1);
    assert_true(request->done);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    return gen;
}

/* ---- look-ups and removals of one key ---- */

static inline struct wire_lookup_rep *lookup_send(struct world *world, uint64_t session,
                                                  uint64_t operation, uint32_t flags,
                                                  const char *const *keys, uint32_t count)
{
    struct wire_lookup_req *lookup = world_take(world, 1, sizeof(*lookup));

    lookup->operation = operation;
    lookup->flags = flags;
    lookup->keys = world_take(world, count, sizeof(*lookup->keys));
    lookup->keys_count = count;
    for (uint32_t i = 0; i < count; i++)
        lookup->keys[i].key = world_key(keys[i]);
    struct world_request *request = world_ask(world, session, WIRE_lookup, lookup, count, 10000);

    assert_true(request->done);
    assert_int_equal(request->status, SNOW_OK);
    return request->message;
}

static inline const struct wire_found *lookup(struct world *world, uint64_t session,
                                              const char *key)
{
    return &lookup_send(world, session, 0, WIRE_LOOKUP_PLACES, &key, 1)->items[0];
}

static inline enum snow_status lookup_status(struct world *world, uint64_t session, const char *key)
{
    return (enum snow_status)lookup(world, session, key)->status;
}

static inline struct world_request *remove_send(struct world *world, uint64_t session,
                                                const char *key, uint32_t flags)
{
    struct wire_remove_req *message = world_take(world, 1, sizeof(*message));

    message->flags = flags;
    message->keys = world_take(world, 1, sizeof(*message->keys));
    message->keys[0].key = world_key(key);
    message->keys_count = 1;
    return world_ask(world, session, WIRE_remove, message, 1, 10000);
}

static inline enum snow_status remove_key(struct world *world, uint64_t session, const char *key)
{
    struct world_request *request = remove_send(world, session, key, 0);

    assert_true(request->done);
    return (enum snow_status)request->statuses[0].status;
}

static inline uint64_t world_metric(struct world *world, const char *name)
{
    uint64_t *values = world_take(world, core_metric_count(), sizeof(*values));

    core_metrics(world->core, values);
    for (uint32_t i = 0; i < core_metric_count(); i++) {
        if (strcmp(core_metric_name(i), name) == 0)
            return values[i];
    }
    fail_msg("no metric %s", name);
    return 0;
}

/* ---- nodes ---- */

static inline struct world_node *node_add(struct world *world, uint64_t size, uint32_t slot_count)
{
    struct world_node *node = &world->nodes[world->node_count];

    assert_true(world->node_count < WORLD_NODES);
    *node = (struct world_node){.incarnation = 100 + world->node_count,
                                .process = 1,
                                .host = "host",
                                .size = size,
                                .ready = size,
                                .slot_count = slot_count,
                                .slots_ready = slot_count,
                                .segment_count = 1};
    node->slots[0] = calloc(slot_count, sizeof(*node->slots[0]));
    assert_non_null(node->slots[0]);
    world->node_count++;
    return node;
}

static inline struct world_request *node_mount_send(struct world *world, struct world_node *node)
{
    struct wire_mount_req *mount = world_take(world, 1, sizeof(*mount));

    mount->incarnation = node->incarnation;
    mount->process = node->process;
    mount->address = world_key("127.0.0.1:1");
    mount->host = world_key(node->host);
    if (node->domain != NULL)
        mount->domain = world_key(node->domain);
    mount->segments_count = node->segment_count;
    mount->segments = world_take(world, node->segment_count, sizeof(*mount->segments));
    for (uint32_t i = 0; i < node->segment_count; i++)
        mount->segments[i] =
            (struct wire_segment_info){.incarnation = node->incarnation * 10 + i,
                                       .tier = WIRE_TIER_DRAM,
                                       .size = node->size,
                                       .ready = node->ready,
                                       .slot_count = node->slot_count,
                                       .slots_ready = node->slots_ready,
                                       .name = world_key(i == 0 ? "first" : "second")};
    node->linked = true;
    node->forget_count = 0;
    node->copy_count = 0;
    return world_ask(world, 0, WIRE_mount, mount, 1, 10000);
}

static inline void node_mount(struct world *world, struct world_node *node)
{
    struct world_request *request = node_mount_send(world, node);

    assert_true(request->done);
    assert_int_equal(request->status, SNOW_OK);
    const struct wire_mount_rep *reply = request->message;

    assert_int_equal(reply->inventory, 1);
    node->number = reply->node;
    node->secret = (struct hash128){reply->key_low, reply->key_high};
}

/* Tells slots first .. end-1 of a segment. */
static inline enum snow_status node_tell(struct world *world, struct world_node *node,
                                         uint32_t segment, uint32_t first, uint32_t end, bool last)
{
    struct wire_inventory_req *inventory = world_take(world, 1, sizeof(*inventory));

    inventory->segment = segment;
    inventory->last = last;
    inventory->first_slot = first;
    inventory->end_slot = end;
    inventory->rows = world_take(world, end - first, sizeof(*inventory->rows));
    for (uint32_t slot = first; slot < end; slot++) {
        if (node->slots[segment][slot].row.state != WIRE_SLOT_FREE)
            inventory->rows[inventory->rows_count++] = node->slots[segment][slot].row;
    }
    struct world_request *request =
        world_ask(world, node->number, WIRE_inventory, inventory, 1, 10000);

    assert_true(request->done);
    return request->status;
}

static inline void node_tell_all(struct world *world, struct world_node *node)
{
    for (uint32_t segment = 0; segment < node->segment_count; segment++) {
        uint32_t count = node->slots_ready;

        for (uint32_t slot = 0; slot < count; slot += 128) {
            uint32_t end = slot + 128 < count ? slot + 128 : count;

            assert_int_equal(node_tell(world, node, segment, slot, end, end == count), SNOW_OK);
        }
    }
}

/* The node says how far segment 0 has come; size and slot_count: what it offers. */
static inline void node_say_grown(struct world *world, struct world_node *node, uint64_t size,
                                  uint64_t ready, uint32_t slot_count, uint32_t slots_ready)
{
    struct wire_grown_msg grown = {
        .size = size, .ready = ready, .slot_count = slot_count, .slots_ready = slots_ready};

    node->ready = ready;
    node->slots_ready = slots_ready;
    world_step(world, &(struct core_input){.kind = CORE_MESSAGE,
                                           .from = node->number,
                                           .type = WIRE_grown,
                                           .message = &grown});
}

/* It does what it was asked for. */
static inline void node_grow(struct world *world, struct world_node *node)
{
    node_say_grown(world, node, node->size, node->asked > node->ready ? node->asked : node->ready,
                   node->slot_count,
                   node->asked_slots > node->slots_ready ? node->asked_slots : node->slots_ready);
}

/* A node that is mounted, told and ALIVE. */
static inline struct world_node *node_start(struct world *world, uint64_t size, uint32_t slot_count)
{
    struct world_node *node = node_add(world, size, slot_count);

    node_mount(world, node);
    node_tell_all(world, node);
    return node;
}

static inline void node_break(struct world *world, struct world_node *node)
{
    node->linked = false;
    node->forget_count = 0;
    node->copy_count = 0;
    world_step(world, &(struct core_input){.kind = CORE_NODE_BREAK, .from = node->number});
}

static inline bool node_beat(struct world *world, struct world_node *node)
{
    struct wire_heartbeat_req *beat = world_take(world, 1, sizeof(*beat));

    beat->incarnation = node->incarnation;
    beat->process = node->process;
    struct world_request *request = world_ask(world, 0, WIRE_heartbeat, beat, 1, 10000);

    assert_true(request->done);
    return ((const struct wire_heartbeat_rep *)request->message)->mounted;
}

/* Time passes, and the linked nodes say each second that they live. */
static inline void world_live(struct world *world, uint64_t for_ns)
{
    while (for_ns > 0) {
        uint64_t step_ns = for_ns < NS_PER_S ? for_ns : NS_PER_S;

        world_run(world, step_ns);
        for (uint32_t i = 0; i < world->node_count; i++) {
            if (world->nodes[i].linked)
                node_beat(world, &world->nodes[i]);
        }
        for_ns -= step_ns;
    }
}

/* ---- the usual beginning ---- */

struct small_world {
    struct world world;
    struct world_node *node;
    uint64_t session;
};

static inline void small_open(struct small_world *small, uint64_t size)
{
    world_init(&small->world);
    world_open(&small->world);
    small->node = node_start(&small->world, size, (uint32_t)(size / 4096));
    small->session = session_open(&small->world, 0);
}

#endif
