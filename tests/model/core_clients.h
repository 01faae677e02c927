/* What the clients of the model do: put, write, end, abort, look up, remove, pin, vanish, return.
 * Part of model_core.c. */
#ifndef TESTS_MODEL_CORE_CLIENTS_H
#define TESTS_MODEL_CORE_CLIENTS_H

#include "core_model.h"

/* ---- requests ---- */

static inline struct model_request *open_request(struct model *model, uint16_t type,
                                                 uint32_t session)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct model_request *request = &model->requests[i];

        if (request->used)
            continue;
        *request = (struct model_request){
            .used = true, .type = type, .token = ++model->token, .session = session};
        arena_init(&request->arena, 0);
        request->deadline_ns = model->now_ns + rng_between(&model->rng, 1, 3000) * NS_PER_MS;
        return request;
    }
    return NULL;
}

static inline void *take(struct model_request *request, size_t count, size_t size)
{
    void *at = arena_array(&request->arena, count, size);

    assert_non_null(at);
    return at;
}

static inline void send(struct model *model, struct model_request *request)
{
    struct core_input input = {.kind = CORE_MESSAGE,
                               .from = model->sessions[request->session],
                               .token = request->token,
                               .type = request->type,
                               .message = request->message,
                               .deadline_ns = request->deadline_ns};

    request->began = model->event + 1;
    request->version_count = model->version_count;
    step(model, &input, NULL);
    check_deadlines(model);
}

static inline uint32_t random_key(struct model *model)
{
    return (uint32_t)rng_below(&model->rng, KEYS);
}

static inline uint64_t random_size(struct model *model)
{
    if (model->plan.roomy)
        return rng_below(&model->rng, 2000);
    if (rng_chance(&model->rng, 1, 20))
        return rng_below(&model->rng, 900 * KIB);
    return rng_chance(&model->rng, 1, 2) ? rng_below(&model->rng, 20000)
                                         : 4096 * rng_below(&model->rng, 16);
}

static inline void put_start(struct model *model, uint32_t session)
{
    struct model_request *request = open_request(model, WIRE_put_start, session);

    if (request == NULL)
        return;
    struct wire_put_start_req *put = take(request, 1, sizeof(*put));

    request->message = put;
    request->items = put->items_count = (uint32_t)rng_between(&model->rng, 0, ITEMS);
    put->items = take(request, ITEMS, sizeof(*put->items));
    put->operation = ++model->operation;
    put->continues = rng_below(&model->rng, model->operation + 1);
    put->wait_ms = rng_chance(&model->rng, 1, 3) ? 0 : (uint32_t)rng_below(&model->rng, 2000);
    put->wait_writer = rng_chance(&model->rng, 1, 2);
    for (uint32_t i = 0; i < put->items_count; i++)
        put->items[i] = (struct wire_put_item){
            .key = key_of(model, random_key(model)),
            .size = random_size(model),
            .depth = WIRE_DEPTH_UNKNOWN,
            .replicas = (uint8_t)(rng_chance(&model->rng, 3, 4) ? 1 : 2),
            .pin = (uint8_t)(rng_chance(&model->rng, 1, 10) ? 1 + rng_below(&model->rng, 2) : 0),
            .pin_ms = (uint32_t)rng_below(&model->rng, 3000),
            .flags = rng_chance(&model->rng, 1, 3) ? WIRE_PUT_REPLACE : 0};
    send(model, request);
}

/* A version that is open, a young one. */
static inline struct version *open_version(struct model *model)
{
    for (uint32_t tries = 0; tries < 8 && model->version_count > 0; tries++) {
        uint32_t back = (uint32_t)rng_below(&model->rng, 24);
        struct version *version =
            &model->versions[back < model->version_count ? model->version_count - 1 - back : 0];

        if (version->state == GRANTED)
            return version;
    }
    return NULL;
}

/* P3: nothing that is not free lies in these bytes. */
static inline void check_free_bytes(const struct model_node *node, const struct wire_place *place)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct wire_inventory_row *row = &node->slots[i].row;

        if (row->state == WIRE_SLOT_FREE || i == place->slot)
            continue;
        assert_true(row->offset + row->length <= place->offset ||
                    place->offset + place->length <= row->offset);
    }
}

/* A client writes a part: the node takes it if the grant is its own and above the floor. */
static inline void write_part(struct model *model, struct version *version,
                              const struct wire_place *place)
{
    struct model_node *node = find_node(model, place->node);
    struct hash128 hash = hash_key(0, key_of(model, version->key));
    struct grant_fields fields = {.segment = place->segment,
                                  .slot = place->slot,
                                  .gen = version->gen,
                                  .offset = place->offset,
                                  .length = place->length,
                                  .object_size = version->size,
                                  .object_offset = place->object_offset,
                                  .part = place->part,
                                  .parts = place->parts,
                                  .replica = place->replica,
                                  .key = hash};

    if (node == NULL || !node->has_secret)
        return;
    for (fields.flags = 0; fields.flags < 8; fields.flags++) {
        if (grant_write_mac(&node->secret, &fields) == place->mac)
            break;
    }
    if (fields.flags == 8)
        return; /* of an older process or term: STALE */
    struct model_slot *slot = &node->slots[place->slot];

    if (slot->row.gen == version->gen && slot->row.state == WIRE_SLOT_WRITTEN)
        return; /* written already */
    if (version->gen <= slot->floor)
        return;
    assert_int_equal(slot->row.state, WIRE_SLOT_FREE);
    check_free_bytes(node, place);
    slot->row = (struct wire_inventory_row){.slot = place->slot,
                                            .gen = version->gen,
                                            .state = WIRE_SLOT_WRITTEN,
                                            .replica = place->replica,
                                            .part = place->part,
                                            .parts = place->parts,
                                            .flags = fields.flags,
                                            .offset = place->offset,
                                            .length = place->length,
                                            .object_size = version->size,
                                            .object_offset = place->object_offset,
                                            .key_hash_low = hash.low,
                                            .key_hash_high = hash.high};
    if (place->part == 0)
        slot->row.key = key_of(model, version->key);
}

static inline bool is_written(struct model *model, const struct version *version,
                              const struct wire_place *place)
{
    struct model_node *node = find_node(model, place->node);

    return node != NULL && node->slots[place->slot].row.gen == version->gen &&
           node->slots[place->slot].row.state == WIRE_SLOT_WRITTEN;
}

static inline void write_version(struct model *model)
{
    struct version *version = open_version(model);
    uint16_t missing = 0;
    uint16_t there = 0;

    if (version == NULL)
        return;
    for (uint32_t i = 0; i < version->place_count; i++) {
        if (rng_chance(&model->rng, 9, 10))
            write_part(model, version, &version->places[i]);
    }
    for (uint32_t i = 0; i < version->place_count; i++) {
        uint16_t bit = (uint16_t)(1u << version->places[i].replica);

        there |= bit;
        if (!is_written(model, version, &version->places[i]))
            missing |= bit;
    }
    version->written = (uint16_t)(there & ~missing);
    version->whole = version->whole || version->written != 0;
}

static inline void end_version(struct model *model)
{
    struct version *version = open_version(model);

    if (version == NULL || (version->written == 0 && rng_chance(&model->rng, 9, 10)))
        return;
    struct model_request *request = open_request(model, WIRE_put_end, version->session);

    if (request == NULL)
        return;
    struct wire_put_end_req *end = take(request, 1, sizeof(*end));

    request->message = end;
    request->items = end->items_count = 1;
    end->items = take(request, 1, sizeof(*end->items));
    end->items[0] = (struct wire_written){.key = key_of(model, version->key),
                                          .gen = version->gen,
                                          .replicas = version->written};
    end->continues = rng_below(&model->rng, model->operation + 1);
    /* It takes effect in this step, whenever the answer comes; unless the answer says no. */
    uint64_t before = version->ended;

    version->state = ENDED;
    version->ended = model->event + 1;
    struct core_input input = {.kind = CORE_MESSAGE,
                               .from = model->sessions[version->session],
                               .token = request->token,
                               .type = WIRE_put_end,
                               .message = end,
                               .deadline_ns = request->deadline_ns};
    struct caught caught = {.token = request->token};

    step(model, &input, &caught);
    const struct wire_put_end_rep *reply = caught.message;
    int32_t status = reply == NULL ? (int32_t)caught.status : reply->items[0].status;

    if (reply != NULL || caught.status != SNOW_OK)
        request->done = true;
    if (status != SNOW_OK && status != SNOW_UNCERTAIN) {
        version->state = GRANTED;
        version->ended = before;
        return;
    }
    assert_true(version->written != 0 || version->term < core_term(model->core));
    model->ended++;
    if (version->gen > model->current[version->key])
        model->current[version->key] = version->gen;
}

static inline void abort_version(struct model *model)
{
    struct version *version = open_version(model);
    struct model_request *request =
        version == NULL ? NULL : open_request(model, WIRE_put_abort, version->session);

    if (request == NULL)
        return;
    struct wire_put_abort_req *abort = take(request, 1, sizeof(*abort));

    request->message = abort;
    request->items = abort->items_count = 1;
    abort->items = take(request, 1, sizeof(*abort->items));
    abort->items[0] =
        (struct wire_key_gen){.key = key_of(model, version->key), .gen = version->gen};
    send(model, request);
}

/* ---- look-ups ---- */

static inline void check_places(struct model *model, const struct version *version,
                                const struct wire_found *found)
{
    for (uint32_t i = 0; i < found->places_count; i++) {
        const struct wire_place *place = &found->places[i];
        const struct model_node *node = find_node(model, place->node);
        struct grant_fields fields = {.segment = place->segment,
                                      .slot = place->slot,
                                      .gen = version->gen,
                                      .offset = place->offset,
                                      .length = place->length};

        assert_non_null(node);
        const struct model_slot *slot = &node->slots[place->slot];

        if (node->has_secret && node->linked)
            assert_int_equal(place->mac, grant_read_mac(&node->secret, &fields));
        if (node->lossy || version->lost)
            continue;
        assert_int_equal(slot->row.gen, version->gen);
        assert_int_equal(slot->row.state, WIRE_SLOT_WRITTEN);
        assert_int_equal(slot->row.offset, place->offset);
    }
}

static inline void check_found(struct model *model, uint32_t key, const struct wire_found *found)
{
    const struct version *version;

    if (found->status != SNOW_OK) {
        assert_true(found->status == SNOW_NOT_FOUND || found->status == SNOW_UNKNOWN);
        assert_true(!model->plan.roomy || model->current[key] == 0);
        return;
    }
    version = find_version(model, found->gen);
    assert_non_null(version);
    assert_int_equal(version->key, key);
    assert_int_equal(version->size, found->size);
    assert_int_not_equal(version->state, GONE);
    assert_true(version->state == ENDED ||
                (version->whole && version->term < core_term(model->core)));
    assert_true(!model->plan.roomy || model->current[key] == found->gen);
    assert_true(model->plan.masters_restart || found->gen >= model->last_seen[key] ||
                version->ended > model->last_seen_at[key]);
    model->last_seen[key] = found->gen;
    model->last_seen_at[key] = model->event;
    check_places(model, version, found);
    model->found++;
}

static inline void look_up(struct model *model, uint32_t session)
{
    struct wire_key items[ITEMS];
    uint32_t keys[ITEMS];
    struct wire_lookup_req lookup = {.keys = items};
    struct caught caught = {.token = ++model->token};

    lookup.keys_count = (uint32_t)rng_between(&model->rng, 1, ITEMS);
    lookup.operation = rng_chance(&model->rng, 1, 4) ? rng_below(&model->rng, model->operation + 1)
                                                     : ++model->operation;
    lookup.flags = (uint32_t)rng_below(&model->rng, 16) & ~(uint32_t)WIRE_LOOKUP_GUARD;
    if (rng_chance(&model->rng, 1, 8)) {
        lookup.flags |= WIRE_LOOKUP_GUARD;
        lookup.guard_ms = (uint32_t)rng_below(&model->rng, 300);
    }
    lookup.position = (uint32_t)rng_below(&model->rng, 20);
    for (uint32_t i = 0; i < lookup.keys_count; i++) {
        keys[i] = random_key(model);
        items[i].key = key_of(model, keys[i]);
    }
    struct core_input input = {.kind = CORE_MESSAGE,
                               .from = model->sessions[session],
                               .token = caught.token,
                               .type = WIRE_lookup,
                               .message = &lookup};

    step(model, &input, &caught);
    if (caught.message == NULL) {
        assert_int_equal(caught.status, SNOW_GONE); /* its session ended */
        return;
    }
    const struct wire_lookup_rep *reply = caught.message;

    assert_int_equal(reply->items_count, lookup.keys_count);
    for (uint32_t i = 0; i < lookup.keys_count; i++)
        check_found(model, keys[i], &reply->items[i]);
}

static inline void return_lease(struct model *model, uint32_t session)
{
    struct wire_id id = {.id = rng_below(&model->rng, model->operation + 1)};
    struct wire_lease_return_msg message = {.operations = &id, .operations_count = 1};

    if (rng_chance(&model->rng, 1, 2))
        id.id = model->operation;
    step(model,
         &(struct core_input){.kind = CORE_MESSAGE,
                              .from = model->sessions[session],
                              .type = WIRE_lease_return,
                              .message = &message},
         NULL);
}

/* ---- removals ---- */

static inline void remove_keys(struct model *model, uint32_t session)
{
    struct model_request *request = open_request(model, WIRE_remove, session);

    if (request == NULL)
        return;
    struct wire_remove_req *message = take(request, 1, sizeof(*message));

    request->message = message;
    request->items = message->keys_count = (uint32_t)rng_between(&model->rng, 1, 3);
    message->keys = take(request, 3, sizeof(*message->keys));
    message->flags = WIRE_REMOVE_FORCE;
    for (uint32_t i = 0; i < message->keys_count; i++) {
        request->keys[i] = random_key(model);
        message->keys[i].key = key_of(model, request->keys[i]);
        model->current[request->keys[i]] = 0;
    }
    send(model, request);
}

static inline void remove_match(struct model *model, uint32_t session)
{
    struct model_request *request = open_request(model, WIRE_remove_match, session);

    if (request == NULL)
        return;
    struct wire_remove_match_req *message = take(request, 1, sizeof(*message));

    request->message = message;
    request->items = 1;
    message->flags = rng_chance(&model->rng, 1, 2) ? WIRE_REMOVE_FORCE : 0;
    message->kind = (uint8_t)rng_below(&model->rng, 2);
    message->pattern = message->kind == WIRE_MATCH_ALL ? bytes_of(NULL, 0) : bytes_of("a", 1);
    send(model, request);
}

static inline void pin_keys(struct model *model, uint32_t session)
{
    struct model_request *request = open_request(model, WIRE_pin, session);

    if (request == NULL)
        return;
    struct wire_pin_req *message = take(request, 1, sizeof(*message));

    request->message = message;
    request->items = message->keys_count = 1;
    message->keys = take(request, 1, sizeof(*message->keys));
    message->keys[0].key = key_of(model, random_key(model));
    message->pin = (uint8_t)rng_below(&model->rng, 3);
    message->pin_ms = (uint32_t)rng_below(&model->rng, 2000);
    send(model, request);
}

static inline void cancel_request(struct model *model)
{
    struct model_request *request = &model->requests[rng_below(&model->rng, REQUESTS)];

    if (!request->used || request->done)
        return;
    step(model, &(struct core_input){.kind = CORE_CANCEL, .token = request->token}, NULL);
    request->done = true;
    check_deadlines(model);
}

/* ---- sessions ---- */

static inline void forget_requests(struct model *model, uint32_t session)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        if (model->requests[i].used && model->requests[i].session == session)
            model->requests[i].done = true;
    }
    check_deadlines(model);
}

static inline void turn_session(struct model *model, uint32_t session)
{
    if (model->session_linked[session]) {
        step(model,
             &(struct core_input){.kind = CORE_SESSION_BREAK, .from = model->sessions[session]},
             NULL);
        model->session_linked[session] = false;
        forget_requests(model, session);
        return;
    }
    step(model, &(struct core_input){.kind = CORE_SESSION_OPEN, .from = model->sessions[session]},
         NULL);
    assert_true(model->opened != 0);
    model->sessions[session] = model->opened;
    model->session_linked[session] = true;
}

#endif
