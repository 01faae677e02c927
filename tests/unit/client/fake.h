/* A master and two nodes that do what the test says, and a client, all on one loop.
 *
 * Each request takes the next word of its kind from a script; without one it is answered well. */
#ifndef TESTS_CLIENT_FAKE_H
#define TESTS_CLIENT_FAKE_H

#include "base/hash.h"
#include "base/limits.h"
#include "client/client.h"
#include "env/linux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FAKE_NODES 2
#define FAKE_MEMORY ((size_t)(48 * MIB))
#define FAKE_SLOTS 8192
#define FAKE_SEEN 1024
#define FAKE_STALL_NS (500 * NS_PER_MS) /* all is on one loop: it must be patient with itself */
#define PATIENCE_NS (20 * NS_PER_S)

/* Words of a script beside statuses. */
#define SAY_CLOSE 1000   /* close the connection without an answer */
#define SAY_NOTHING 1001 /* no answer, ever */
#define SAY_CORRUPT 1002 /* of a read: bytes that are not those of the checksum */
#define SAY_SHORT 1003   /* of a read: fewer bytes than asked */
#define SAY_OUTSIDE 1004 /* of a put_start or lookup: places that do not fit the object */
#define SAY_LIMIT 1005   /* the whole request fails with LIMIT */
#define SAY_OLD 1007     /* of a read: as a node that computes no checksum of a range */
#define SAY_ONE 1006     /* of a put_start: one grant now, the others by fake_release */

struct fake;

struct fake_script {
    int words[64];
    int count;
    int next;
};

struct fake_object {
    char key[64];
    size_t key_size;
    uint64_t gen;
    uint64_t size;
    bool ended;
    struct wire_place places[4];
    uint32_t place_count;
};

struct fake_slot {
    uint64_t gen;
    uint64_t covered;
    uint32_t crc;
    bool written;
};

struct fake_node {
    struct fake *fake;
    int index;
    struct rpc *rpc;
    uint8_t *memory;
    uint64_t used;
    struct fake_slot slots[FAKE_SLOTS];
    uint32_t slot_count;
    struct fake_script writes;
    struct fake_script reads;
    int write_count; /* requests */
    int read_count;
};

/* What the master was asked. */
struct fake_seen {
    uint16_t type;
    uint64_t operation;
    uint64_t continues;
    uint32_t position;
    uint32_t count;
    uint32_t wait_ms;
    uint16_t replicas; /* of a put_end's first item */
    uint32_t depth;    /* of a put_start's first item */
};

struct fake {
    struct env *env;
    struct env_loop *loop;
    struct rpc *master;
    struct client *client;
    struct fake_node nodes[FAKE_NODES];
    bool on_host[FAKE_NODES];
    const char *addresses[FAKE_NODES]; /* told instead of the real one, when set */
    struct fake_object *objects;
    int object_count;
    uint64_t gen;
    int first_node; /* where replica 0 of the next grants goes */
    uint32_t parts; /* of an object, 1 or 2 */
    uint32_t lease_ms;
    uint32_t replaced; /* so many look-ups tell of values that others have replaced since */
    struct fake_script put_starts, put_ends, lookups, removes;
    struct fake_seen seen[FAKE_SEEN];
    int seen_count;
    int aborted; /* items */
    int reports;
    int leases_returned;
    struct rpc_request *held; /* of SAY_ONE */
    uint32_t held_from;
};

#define TURN_UNTIL(fake, condition) \
    do { \
        uint64_t until_ns = env_now_ns((fake)->env) + PATIENCE_NS; \
        while (!(condition)) { \
            assert_true(env_now_ns((fake)->env) < until_ns); \
            env_loop_turn((fake)->loop, 10 * NS_PER_MS, 0); \
        } \
    } while (0)

static inline void say(struct fake_script *script, int word)
{
    assert_true(script->count < 64);
    script->words[script->count++] = word;
}

static inline int next_word(struct fake_script *script)
{
    return script->next < script->count ? script->words[script->next++] : SNOW_OK;
}

/* How often the master was asked this. */
static inline int times(const struct fake *fake, uint16_t type)
{
    int count = 0;

    for (int i = 0; i < fake->seen_count; i++)
        count += fake->seen[i].type == type;
    return count;
}

static inline const struct fake_seen *nth(const struct fake *fake, uint16_t type, int index)
{
    for (int i = 0; i < fake->seen_count; i++) {
        if (fake->seen[i].type == type && index-- == 0)
            return &fake->seen[i];
    }
    fail_msg("not asked that often");
    return NULL;
}

/* ---- the master ----------------------------------------------------------------------------- */

static inline struct fake_object *find_object(struct fake *fake, struct bytes key)
{
    for (int i = fake->object_count - 1; i >= 0; i--) {
        if (bytes_equal(bytes_of(fake->objects[i].key, fake->objects[i].key_size), key))
            return &fake->objects[i];
    }
    return NULL;
}

static inline void add_place(struct fake *fake, struct fake_object *object, int replica,
                             uint32_t part, uint64_t offset, uint64_t length)
{
    int index = (fake->first_node + replica) % FAKE_NODES;
    struct fake_node *node = &fake->nodes[index];

    assert_true(node->slot_count < FAKE_SLOTS && node->used + length <= FAKE_MEMORY);
    object->places[object->place_count++] = (struct wire_place){.node = (uint32_t)index + 1,
                                                                .slot = node->slot_count++,
                                                                .offset = node->used,
                                                                .length = length,
                                                                .object_offset = offset,
                                                                .part = (uint16_t)part,
                                                                .parts = (uint16_t)fake->parts,
                                                                .replica = (uint8_t)replica,
                                                                .mac = 4711};
    node->used += (length + 255) / 256 * 256;
}

static inline struct fake_object *new_object(struct fake *fake, struct bytes key, uint64_t size,
                                             int replicas)
{
    struct fake_object *object = &fake->objects[fake->object_count++];
    uint64_t first = fake->parts == 1 ? size : size / 3;

    assert_true(fake->object_count < FAKE_SLOTS && key.size < sizeof(object->key));
    memcpy(object->key, key.at, key.size);
    object->key_size = key.size;
    object->gen = ++fake->gen;
    object->size = size;
    for (int replica = 0; replica < replicas; replica++) {
        add_place(fake, object, replica, 0, 0, first);
        if (fake->parts == 2)
            add_place(fake, object, replica, 1, first, size - first);
    }
    return object;
}

static inline struct wire_put_grant
grant_of(struct fake *fake, const struct wire_put_start_req *put, uint32_t index, int word)
{
    const struct wire_put_item *item = &put->items[index];
    struct wire_put_grant grant = {.index = index, .status = SNOW_OK};
    struct fake_object *object;

    if (word != SNOW_OK && word < SAY_CLOSE) {
        grant.status = word;
        grant.hint_ms = 5;
        grant.reason = bytes_of_string("in the way");
        return grant;
    }
    object = new_object(fake, item->key, item->size, item->replicas);
    if (word == SAY_OUTSIDE)
        object->places[0].object_offset = 1;
    grant.gen = object->gen;
    grant.places = object->places;
    grant.places_count = object->place_count;
    return grant;
}

static inline void grant_from(struct fake *fake, struct rpc_request *request, uint32_t from,
                              uint32_t until, int word)
{
    const struct wire_put_start_req *put = rpc_request_message(request);
    struct wire_put_grant *grants = calloc(until - from, sizeof(*grants));
    struct wire_put_start_rep reply = {.items = grants, .items_count = until - from};

    for (uint32_t i = from; i < until; i++)
        grants[i - from] = grant_of(fake, put, i, word);
    rpc_reply(request, &reply, until == put->items_count);
    free(grants);
}

/* The rest of what SAY_ONE held back. */
static inline void fake_release(struct fake *fake)
{
    const struct wire_put_start_req *put = rpc_request_message(fake->held);

    grant_from(fake, fake->held, fake->held_from, put->items_count, SNOW_OK);
    fake->held = NULL;
}

static inline void answer_put_start(struct fake *fake, struct rpc_request *request, int word)
{
    const struct wire_put_start_req *put = rpc_request_message(request);

    if (word == SAY_ONE) {
        fake->held = request;
        fake->held_from = 1;
        grant_from(fake, request, 0, 1, SNOW_OK);
    } else {
        grant_from(fake, request, 0, put->items_count, word);
    }
}

static inline void answer_put_end(struct fake *fake, struct rpc_request *request, int word)
{
    const struct wire_put_end_req *end = rpc_request_message(request);
    struct wire_item_status *items = calloc(end->items_count, sizeof(*items));
    struct wire_put_end_rep reply = {.items = items, .items_count = end->items_count};

    for (uint32_t i = 0; i < end->items_count; i++) {
        struct fake_object *object = &fake->objects[end->items[i].gen - 1];

        assert_true(end->items[i].gen <= fake->gen);
        items[i].index = i;
        items[i].status = word;
        items[i].shortfall = object->place_count / fake->parts -
                             (uint32_t)__builtin_popcount(end->items[i].replicas);
        object->ended = word == SNOW_OK;
    }
    rpc_reply(request, &reply, true);
    free(items);
}

static inline void answer_lookup(struct fake *fake, struct rpc_request *request, int word)
{
    const struct wire_lookup_req *lookup = rpc_request_message(request);
    struct wire_found *items = calloc(lookup->keys_count, sizeof(*items));
    struct wire_lookup_rep reply = {.lease_ms = fake->lease_ms,
                                    .items = items,
                                    .items_count = lookup->keys_count};

    for (uint32_t i = 0; i < lookup->keys_count; i++) {
        struct fake_object *object = find_object(fake, lookup->keys[i].key);

        items[i].status = word != SNOW_OK && word < SAY_CLOSE ? word : SNOW_OK;
        items[i].hint_ms = 5;
        if (object == NULL)
            items[i].status = SNOW_NOT_FOUND;
        if (items[i].status != SNOW_OK)
            continue;
        items[i].gen = fake->replaced == 0 ? object->gen : 1000000 - fake->replaced--;
        items[i].size = word == SAY_OUTSIDE ? object->size - 1 : object->size;
        items[i].places = object->places;
        items[i].places_count = object->place_count;
    }
    rpc_reply(request, &reply, true);
    free(items);
}

static inline void answer_remove(struct rpc_request *request, int word)
{
    const struct wire_remove_req *remove = rpc_request_message(request);
    struct wire_item_status *items = calloc(remove->keys_count, sizeof(*items));
    struct wire_remove_rep reply = {.items = items, .items_count = remove->keys_count};

    for (uint32_t i = 0; i < remove->keys_count; i++)
        items[i] = (struct wire_item_status){.index = i, .status = word};
    rpc_reply(request, &reply, true);
    free(items);
}

static inline void answer_nodes(struct fake *fake, struct rpc_request *request)
{
    struct wire_node_info nodes[FAKE_NODES] = {{0}};
    struct wire_nodes_rep reply = {.nodes = nodes, .nodes_count = FAKE_NODES};

    for (int i = 0; i < FAKE_NODES; i++)
        nodes[i] = (struct wire_node_info){
            .node = (uint32_t)i + 1,
            .state = WIRE_NODE_ALIVE,
            .incarnation = 100 + (uint64_t)i,
            .host = bytes_of_string(fake->on_host[i] ? env_host(fake->env) : "other"),
            .address = bytes_of_string(fake->addresses[i] != NULL
                                           ? fake->addresses[i]
                                           : rpc_listen_address(fake->nodes[i].rpc))};
    rpc_reply(request, &reply, true);
}

static inline void note(struct fake *fake, uint16_t type, const void *message)
{
    struct fake_seen *seen = &fake->seen[fake->seen_count++];

    assert_true(fake->seen_count < FAKE_SEEN);
    seen->type = type;
    if (type == WIRE_put_start) {
        const struct wire_put_start_req *put = message;

        seen->operation = put->operation;
        seen->continues = put->continues;
        seen->position = put->position;
        seen->count = put->items_count;
        seen->wait_ms = put->wait_ms;
        seen->depth = put->items[0].depth;
    } else if (type == WIRE_put_end) {
        const struct wire_put_end_req *end = message;

        seen->operation = end->operation;
        seen->continues = end->continues;
        seen->count = end->items_count;
        seen->replicas = end->items[0].replicas;
    } else if (type == WIRE_lookup) {
        const struct wire_lookup_req *lookup = message;

        seen->operation = lookup->operation;
        seen->position = lookup->position;
        seen->count = lookup->keys_count;
    } else if (type == WIRE_remove) {
        seen->count = ((const struct wire_remove_req *)message)->keys_count;
    }
}

static inline void on_master_request(void *owner, struct rpc_conn *conn,
                                     struct rpc_request *request, uint16_t type,
                                     const void *message, uint64_t payload_size)
{
    struct fake *fake = owner;
    struct fake_script none = {.count = 0};
    struct fake_script *script = type == WIRE_put_start ? &fake->put_starts
                                 : type == WIRE_put_end ? &fake->put_ends
                                 : type == WIRE_lookup  ? &fake->lookups
                                 : type == WIRE_remove  ? &fake->removes
                                                        : &none;
    int word = next_word(script);

    assert_int_equal(payload_size, 0);
    note(fake, type, message);
    rpc_request_keep(request);
    if (word == SAY_CLOSE) {
        rpc_conn_close(conn);
    } else if (word == SAY_LIMIT) {
        rpc_fail(request, SNOW_LIMIT);
    } else if (word == SAY_NOTHING) {
        return;
    } else if (type == WIRE_put_start) {
        answer_put_start(fake, request, word);
    } else if (type == WIRE_put_end) {
        answer_put_end(fake, request, word);
    } else if (type == WIRE_lookup) {
        answer_lookup(fake, request, word);
    } else if (type == WIRE_remove) {
        answer_remove(request, word);
    } else if (type == WIRE_nodes) {
        answer_nodes(fake, request);
    } else if (type == WIRE_put_abort) {
        struct wire_put_abort_rep reply = {0};

        fake->aborted +=
            (int)((const struct wire_put_abort_req *)rpc_request_message(request))->items_count;
        rpc_reply(request, &reply, true);
    } else {
        rpc_fail(request, SNOW_INVALID);
    }
}

static inline void on_master_oneway(void *owner, struct rpc_conn *conn, uint16_t type,
                                    const void *message)
{
    struct fake *fake = owner;

    (void)conn;
    if (type == WIRE_report_peer)
        fake->reports++;
    if (type == WIRE_lease_return)
        fake->leases_returned +=
            (int)((const struct wire_lease_return_msg *)message)->operations_count;
}

static inline enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                        const struct wire_hello_req *hello,
                                        struct wire_hello_rep *reply)
{
    (void)owner;
    (void)conn;
    assert_int_equal(hello->role, WIRE_ROLE_CLIENT);
    reply->session = hello->session == 0 ? 31 : hello->session;
    return SNOW_OK;
}

static inline void on_request_gone(void *owner, struct rpc_request *request)
{
    (void)owner;
    free(rpc_request_owner(request));
}

static inline void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    (void)owner;
    (void)conn;
    (void)status;
}

/* ---- the nodes ------------------------------------------------------------------------------ */

/* A write that arrives. */
struct fake_write {
    struct fake_node *node;
    int word;
    struct iovec iov[];
};

static inline struct wire_write_done write_done(struct fake_node *node,
                                                const struct wire_write_item *item, int word)
{
    struct fake_slot *slot = &node->slots[item->slot];
    const uint8_t *at = node->memory + item->offset + item->start;

    if (word != SNOW_OK)
        return (struct wire_write_done){.status = word};
    assert_int_equal(item->crc, crc32c(0, at, item->size));
    assert_int_equal(item->mac, 4711);
    if (slot->gen != item->gen || item->start == 0)
        *slot = (struct fake_slot){.gen = item->gen};
    assert_int_equal(slot->covered, item->start); /* pieces come in order */
    slot->covered += item->size;
    slot->crc = crc32c(slot->crc, at, item->size);
    slot->written = slot->covered == item->length;
    return (struct wire_write_done){.status = SNOW_OK, .written = slot->written};
}

static inline void on_written(struct rpc_request *request, enum snow_status status)
{
    struct fake_write *arrived = rpc_request_owner(request);
    const struct wire_write_req *write = rpc_request_message(request);
    struct wire_write_done *done = calloc(write->items_count, sizeof(*done));
    struct wire_write_rep reply = {.items = done, .items_count = write->items_count};

    if (status == SNOW_OK) {
        for (uint32_t i = 0; i < write->items_count; i++)
            done[i] = write_done(arrived->node, &write->items[i], arrived->word);
        rpc_request_set_owner(request, NULL);
        rpc_reply(request, &reply, true);
        free(arrived);
    }
    free(done);
}

static inline void serve_write(struct fake_node *node, struct rpc_request *request, int word,
                               uint64_t payload_size)
{
    const struct wire_write_req *write = rpc_request_message(request);
    struct fake_write *arrived =
        calloc(1, sizeof(*arrived) + write->items_count * sizeof(arrived->iov[0]));
    struct rpc_payload to = {.iov = arrived->iov, .size = payload_size};

    arrived->node = node;
    arrived->word = word;
    for (uint32_t i = 0; i < write->items_count; i++) {
        const struct wire_write_item *item = &write->items[i];

        if (item->size > 0)
            arrived->iov[to.iov_count++] =
                (struct iovec){.iov_base = node->memory + item->offset + item->start,
                               .iov_len = item->size};
    }
    rpc_request_set_owner(request, arrived);
    if (payload_size == 0)
        on_written(request, SNOW_OK);
    else
        rpc_request_receive(request, &to, NULL, on_written);
}

static inline void on_sent(void *sent_owner, enum snow_status status)
{
    (void)status;
    free(sent_owner);
}

static inline void serve_read(struct fake_node *node, struct rpc_request *request, int word)
{
    const struct wire_read_req *read = rpc_request_message(request);
    struct wire_read_done *done = calloc(read->items_count, sizeof(*done));
    struct iovec *iov = calloc(read->items_count, sizeof(*iov));
    struct wire_read_rep reply = {.items = done, .items_count = read->items_count};
    struct rpc_payload payload = {.iov = iov};

    for (uint32_t i = 0; i < read->items_count; i++) {
        const struct wire_read_item *item = &read->items[i];
        const struct fake_slot *slot = &node->slots[item->slot];

        done[i].status = word < SAY_CLOSE ? word : SNOW_OK;
        if (!slot->written || slot->gen != item->gen)
            done[i].status = SNOW_STALE;
        if (done[i].status != SNOW_OK)
            continue;
        done[i].size = word == SAY_SHORT ? item->size - 1 : item->size;
        done[i].own_crc = item->own_crc && word != SAY_OLD;
        done[i].crc = done[i].own_crc
                          ? crc32c(0, node->memory + item->offset + item->start, item->size)
                          : slot->crc;
        done[i].crc += word == SAY_CORRUPT;
        if (done[i].size > 0)
            iov[payload.iov_count++] =
                (struct iovec){.iov_base = node->memory + item->offset + item->start,
                               .iov_len = done[i].size};
        payload.size += done[i].size;
    }
    if (payload.size == 0) {
        rpc_reply(request, &reply, true);
        free(iov);
    } else {
        rpc_reply_payload(request, &reply, &payload, on_sent, iov);
    }
    free(done);
}

static inline void on_node_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                                   uint16_t type, const void *message, uint64_t payload_size)
{
    struct fake_node *node = owner;
    int word = next_word(type == WIRE_write ? &node->writes : &node->reads);

    (void)message;
    rpc_request_keep(request);
    node->write_count += type == WIRE_write;
    node->read_count += type == WIRE_read;
    if (word == SAY_CLOSE)
        rpc_conn_close(conn);
    else if (word == SAY_NOTHING)
        return;
    else if (type == WIRE_write)
        serve_write(node, request, word, payload_size);
    else
        serve_read(node, request, word);
}

/* ---- life ----------------------------------------------------------------------------------- */

static const struct rpc_service fake_master_service = {.on_hello = on_hello,
                                                       .on_request = on_master_request,
                                                       .on_oneway = on_master_oneway,
                                                       .on_request_gone = on_request_gone,
                                                       .on_close = on_close};
static const struct rpc_service fake_node_service = {.on_hello = on_hello,
                                                     .on_request = on_node_request,
                                                     .on_oneway = on_master_oneway,
                                                     .on_request_gone = on_request_gone,
                                                     .on_close = on_close};

static inline void fake_client(struct fake *fake, const struct client_options *options)
{
    const char *reason;

    if (fake->client != NULL)
        client_destroy(fake->client);
    assert_int_equal(client_create(fake->loop, options, &fake->client, &reason), SNOW_OK);
}

static inline struct client_options fake_options(struct fake *fake)
{
    struct client_options options;

    client_options_init(&options);
    options.master = rpc_listen_address(fake->master);
    options.transport.stall_ns = FAKE_STALL_NS;
    return options;
}

static inline int fake_setup(void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    struct rpc_options options = {.hello_timeout_ms = 2000, .progress_timeout_ms = 5000};
    struct rpc_identity identity = {.role = WIRE_ROLE_MASTER, .cluster = 8};

    *state = fake;
    fake->parts = 1;
    fake->objects = calloc(FAKE_SLOTS, sizeof(*fake->objects));
    fake->env = env_linux_create();
    assert_int_equal(env_loop_create(fake->env, "test", &fake->loop), SNOW_OK);
    assert_int_equal(rpc_create(fake->loop, &identity, &options, &fake_master_service, fake,
                                &fake->master),
                     SNOW_OK);
    assert_int_equal(rpc_listen(fake->master, "127.0.0.1:0"), SNOW_OK);
    for (int i = 0; i < FAKE_NODES; i++) {
        struct fake_node *node = &fake->nodes[i];

        node->fake = fake;
        node->index = i;
        node->memory = calloc(1, FAKE_MEMORY);
        identity.role = WIRE_ROLE_NODE;
        identity.incarnation = 100 + (uint64_t)i;
        assert_int_equal(rpc_create(fake->loop, &identity, &options, &fake_node_service, node,
                                    &node->rpc),
                         SNOW_OK);
        assert_int_equal(rpc_listen(node->rpc, "127.0.0.1:0"), SNOW_OK);
    }
    struct client_options client_options = fake_options(fake);

    fake_client(fake, &client_options);
    return 0;
}

static inline int fake_teardown(void **state)
{
    struct fake *fake = *state;

    client_destroy(fake->client);
    rpc_destroy(fake->master);
    for (int i = 0; i < FAKE_NODES; i++) {
        rpc_destroy(fake->nodes[i].rpc);
        free(fake->nodes[i].memory);
    }
    env_loop_destroy(fake->loop);
    env_linux_destroy(fake->env);
    free(fake->objects);
    free(fake);
    return 0;
}

/* ---- operations ----------------------------------------------------------------------------- */

struct fake_put {
    struct client_put_op op;
    int done;
};

static inline void on_put_done(struct client_put_op *op)
{
    ((struct fake_put *)op)->done++; /* its first member */
}

static inline void put_all(struct fake *fake, struct fake_put *put, struct snow_put *items,
                           size_t count, const struct snow_call *call)
{
    static const struct snow_call plain;

    put->op.on_done = on_put_done;
    put->op.items = items;
    put->op.count = count;
    client_put_start(fake->client, &put->op, call == NULL ? &plain : call);
    assert_int_equal(put->done, 0);
}

static inline enum snow_status put_one(struct fake *fake, const char *key, const void *from,
                                       size_t size, uint8_t replicas)
{
    struct fake_put put = {.done = 0};
    struct snow_put item = {
        .key = {.at = key, .size = strlen(key)}, .from = from, .size = size, .replicas = replicas};

    put_all(fake, &put, &item, 1, NULL);
    TURN_UNTIL(fake, put.done == 1);
    return item.status;
}

struct fake_get {
    struct client_get_op op;
    int done;
};

static inline void on_get_done(struct client_get_op *op)
{
    ((struct fake_get *)op)->done++; /* its first member */
}

static inline void get_all(struct fake *fake, struct fake_get *get, struct snow_get *items,
                           size_t count, const struct snow_call *call)
{
    static const struct snow_call plain;

    get->op.on_done = on_get_done;
    get->op.items = items;
    get->op.count = count;
    client_get_start(fake->client, &get->op, call == NULL ? &plain : call);
    assert_int_equal(get->done, 0);
}

static inline enum snow_status get_item(struct fake *fake, struct snow_get *item)
{
    struct fake_get get = {.done = 0};

    get_all(fake, &get, item, 1, NULL);
    TURN_UNTIL(fake, get.done == 1);
    return item->status;
}

static inline enum snow_status get_one(struct fake *fake, const char *key, void *to, size_t room)
{
    struct snow_get item = {.key = {.at = key, .size = strlen(key)}, .to = to, .room = room};

    return get_item(fake, &item);
}

static inline uint64_t metric(const struct fake *fake, const char *name)
{
    for (uint32_t i = 0; i < client_metric_count(); i++) {
        if (strcmp(client_metric_name(i), name) == 0)
            return client_metrics(fake->client)[i];
    }
    fail_msg("no counter %s", name);
    return 0;
}

#endif
