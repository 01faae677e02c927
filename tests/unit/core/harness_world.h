/* A small world around one core: sessions, and nodes that do what they are told.
 *
 * Every step is followed by core_check.  Every reply is checked: it encodes into a frame, each item
 * of a request is answered once, the last reply is marked and nothing comes after it.  A node keeps
 * the state of its slots, as an inventory would tell it; it acknowledges forgets at once unless
 * told to wait. */
#ifndef TESTS_UNIT_CORE_HARNESS_WORLD_H
#define TESTS_UNIT_CORE_HARNESS_WORLD_H

#include "base/limits.h"
#include "core/core.h"
#include "wire/grant.h"
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORLD_NODES 4u
#define WORLD_SEGMENTS 2u
#define WORLD_TOKENS 50000u
#define WORLD_VERIFIES 16u
#define WORLD_FORGETS 8192u

/* One slot of a segment, as its node has it; state FREE: nothing there. */
struct world_slot {
    struct wire_inventory_row row;
    char key[64]; /* the row's, when it is short enough */
};

struct world_forget {
    uint32_t segment;
    struct wire_slot_gen item;
    bool closed; /* the first acknowledgement was given */
};

struct world_node {
    uint64_t number;
    uint64_t incarnation;
    uint64_t process;
    const char *host;
    const char *domain; /* NULL: none */
    uint64_t size;
    uint64_t ready; /* of each segment, when it is mounted */
    uint32_t slot_count;
    uint32_t slots_ready;
    uint64_t asked; /* by the last grow message */
    uint32_t asked_slots;
    uint32_t asks;
    uint32_t segment_count;
    struct world_slot *slots[WORLD_SEGMENTS];
    struct hash128 secret;
    bool linked;
    bool holds_closed; /* acknowledges nothing by itself */
    bool holds_freed;  /* acknowledges CLOSED, not FREED */
    struct world_forget forgets[WORLD_FORGETS];
    uint32_t forget_count;
    bool holds_copies;                                         /* fetches nothing by itself */
    const struct wire_copy_req *copies[LIMIT_COPIES_PER_NODE]; /* to be fetched */
    uint32_t copy_count;
    uint64_t copies_told;
};

struct world_request {
    uint16_t type;
    uint32_t items;
    uint32_t answered;
    bool done;
    bool cancelled;
    enum snow_status status; /* of the request as a whole */
    uint8_t *seen;           /* by item */
    struct wire_put_grant *grants;
    struct wire_item_status *statuses;
    void *message; /* of the last reply */
};

struct world {
    struct core *core;
    struct core_options options;
    struct core_start start;
    struct core_outputs outputs;
    struct core_output **unread; /* the first output that is not looked at yet */
    uint64_t now_ns;
    uint32_t persists;
    uint64_t session; /* of the last CORE_OUT_SESSION */
    struct arena arena;
    struct world_node nodes[WORLD_NODES];
    uint32_t node_count;
    struct world_request *requests; /* by token */
    uint64_t token;                 /* last one used */
    uint8_t *frame;
    bool unchecked;                                  /* leaves core_check to the test */
    struct wire_verify_req verifies[WORLD_VERIFIES]; /* nodes are to look at these extents */
    uint64_t verify_nodes[WORLD_VERIFIES];           /* numbers */
    uint32_t verify_count;
};

static inline void world_open(struct world *world)
{
    struct core *core = NULL;

    world->start.now_ns = world->now_ns;
    assert_int_equal(core_create(&world->options, &world->start, &core), SNOW_OK);
    world->core = core;
}

static inline void world_init(struct world *world)
{
    memset(world, 0, sizeof(*world));
    world->options = core_options_default();
    world->options.reserve_bytes = 1;        /* nothing is evicted ahead unless a test wants it */
    world->options.policy = CORE_POLICY_LRU; /* what goes is easy to tell */
    world->start = (struct core_start){
        .cluster = 1, .term = 1, .adopts_strangers = true, .secret_low = 2, .secret_high = 3};
    world->now_ns = 1000 * NS_PER_S;
    core_outputs_init(&world->outputs);
    world->unread = &world->outputs.first;
    arena_init(&world->arena, 0);
    world->requests = calloc(WORLD_TOKENS, sizeof(*world->requests));
    world->frame = malloc(LIMIT_BODY_SIZE);
    assert_non_null(world->requests);
    assert_non_null(world->frame);
}

static inline void world_close(struct world *world)
{
    core_destroy(world->core);
    world->core = NULL;
}

static inline void world_deinit(struct world *world)
{
    if (world->core != NULL)
        world_close(world);
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t j = 0; j < world->nodes[i].segment_count; j++)
            free(world->nodes[i].slots[j]);
    }
    core_outputs_deinit(&world->outputs);
    arena_deinit(&world->arena);
    free(world->requests);
    free(world->frame);
}

static inline void *world_take(struct world *world, size_t count, size_t size)
{
    void *at = arena_array(&world->arena, count == 0 ? 1 : count, size);

    assert_non_null(at);
    return at;
}

/* ---- replies ---- */

static inline void world_answer(struct world_request *request, uint32_t index)
{
    assert_true(index < request->items);
    assert_int_equal(request->seen[index], 0);
    request->seen[index] = 1;
    request->answered++;
}

static inline void world_reply(struct world *world, const struct core_output *output)
{
    struct world_request *request = &world->requests[output->token];
    struct writer writer;

    assert_true(output->token > 0 && output->token <= world->token);
    assert_false(request->done || request->cancelled);
    assert_int_equal(request->type, output->type);
    request->done = output->last;
    request->status = output->status;
    request->message = output->message;
    if (output->status != SNOW_OK) {
        assert_true(output->last);
        return;
    }
    writer_init(&writer, world->frame, LIMIT_BODY_SIZE, WIRE_VERSION);
    assert_int_equal(wire_reply_encode(output->type, output->message, &writer), SNOW_OK);
    if (output->type == WIRE_put_start) {
        const struct wire_put_start_rep *reply = output->message;

        for (uint32_t i = 0; i < reply->items_count; i++) {
            world_answer(request, reply->items[i].index);
            request->grants[reply->items[i].index] = reply->items[i];
        }
    } else if (output->type == WIRE_put_end || output->type == WIRE_put_abort ||
               output->type == WIRE_put_renew || output->type == WIRE_remove ||
               output->type == WIRE_pin || output->type == WIRE_hint ||
               output->type == WIRE_group_remove) {
        const struct wire_put_end_rep *reply = output->message;

        for (uint32_t i = 0; i < reply->items_count; i++) {
            world_answer(request, reply->items[i].index);
            request->statuses[reply->items[i].index] = reply->items[i];
        }
    } else {
        request->answered = request->items;
    }
    assert_true(!output->last || request->answered == request->items);
}

static inline void world_note_forget(struct world *world, const struct core_output *output)
{
    const struct wire_forget_req *forget = output->message;

    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];

        if (node->number != output->to)
            continue;
        assert_true(node->linked);
        assert_true(forget->items_count <= LIMIT_BATCH_ITEMS && forget->items_count > 0);
        for (uint32_t j = 0; j < forget->items_count; j++) {
            assert_true(node->forget_count < WORLD_FORGETS);
            node->forgets[node->forget_count++] =
                (struct world_forget){.segment = forget->segment, .item = forget->items[j]};
        }
        return;
    }
    fail_msg("a forget to an unknown node");
}

static inline void world_note_grow(struct world *world, const struct core_output *output)
{
    const struct wire_grow_msg *grow = output->message;

    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];

        if (node->number != output->to)
            continue;
        assert_true(node->linked && grow->segment < node->segment_count);
        assert_true(grow->ready <= node->size && grow->slots_ready <= node->slot_count);
        node->asked = grow->ready;
        node->asked_slots = grow->slots_ready;
        node->asks++;
        return;
    }
    fail_msg("a grow message to an unknown node");
}

static inline struct world_node *world_node_of(struct world *world, uint64_t number)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (world->nodes[i].number == number)
            return &world->nodes[i];
    }
    fail_msg("an unknown node");
    return NULL;
}

static inline void world_note_copy(struct world *world, const struct core_output *output)
{
    const struct wire_copy_req *copy = output->message;
    struct world_node *node = world_node_of(world, output->to);
    struct writer writer;

    writer_init(&writer, world->frame, LIMIT_BODY_SIZE, WIRE_VERSION);
    assert_int_equal(wire_request_encode(WIRE_copy, copy, &writer), SNOW_OK);
    assert_true(node->linked && node->copy_count < LIMIT_COPIES_PER_NODE);
    node->copies[node->copy_count++] = copy;
    node->copies_told++;
}

static inline void world_read_outputs(struct world *world)
{
    while (*world->unread != NULL) {
        struct core_output *output = *world->unread;

        world->unread = &output->next;
        switch (output->kind) {
        case CORE_OUT_PERSIST:
            world->persists++;
            break;
        case CORE_OUT_SESSION:
            world->session = output->status == SNOW_OK ? output->to : 0;
            break;
        case CORE_OUT_REPLY:
            world_reply(world, output);
            break;
        case CORE_OUT_FORGET:
            world_note_forget(world, output);
            break;
        case CORE_OUT_GROW:
            world_note_grow(world, output);
            break;
        case CORE_OUT_COPY:
            world_note_copy(world, output);
            break;
        case CORE_OUT_VERIFY:
            assert_true(world->verify_count < WORLD_VERIFIES);
            world->verify_nodes[world->verify_count] = output->to;
            world->verifies[world->verify_count++] =
                *(const struct wire_verify_req *)output->message;
            break;
        }
    }
}

/* ---- steps ---- */

static inline void world_step_alone(struct world *world, const struct core_input *input)
{
    core_step(world->core, world->now_ns, input, &world->outputs);
    world_read_outputs(world);
    if (!world->unchecked)
        core_check(world->core);
}

static inline void node_forget_slot(struct world_node *node, uint32_t segment,
                                    const struct wire_slot_gen *item)
{
    struct wire_inventory_row *row = &node->slots[segment][item->slot].row;

    if (row->gen <= item->gen) {
        row->state = WIRE_SLOT_FREE;
        row->gen = item->gen; /* as the floor */
    }
}

/* Sends the acknowledgement of the forget at this place of the node's queue. */
static inline void node_acknowledge(struct world *world, struct world_node *node, uint32_t at,
                                    bool freed)
{
    struct world_forget forget = node->forgets[at];
    struct wire_closed closed = {.slot = forget.item.slot, .gen = forget.item.gen, .freed = freed};
    struct wire_forget_rep reply = {.segment = forget.segment, .items = &closed, .items_count = 1};
    struct core_input input = {
        .kind = CORE_MESSAGE, .from = node->number, .type = WIRE_forget, .message = &reply};

    node_forget_slot(node, forget.segment, &forget.item);
    if (freed) {
        node->forget_count--;
        memmove(&node->forgets[at], &node->forgets[at + 1],
                (node->forget_count - at) * sizeof(forget));
    } else {
        node->forgets[at].closed = true;
    }
    world_step_alone(world, &input);
}

/* Second acknowledgement alone. */
static inline void node_free(struct world *world, struct world_node *node, uint32_t at)
{
    struct world_forget forget = node->forgets[at];
    struct wire_freed_msg freed = {.segment = forget.segment,
                                   .items = &forget.item,
                                   .items_count = 1};
    struct core_input input = {
        .kind = CORE_MESSAGE, .from = node->number, .type = WIRE_freed, .message = &freed};

    assert_true(forget.closed);
    node->forget_count--;
    memmove(&node->forgets[at], &node->forgets[at + 1], (node->forget_count - at) * sizeof(forget));
    world_step_alone(world, &input);
}

/* The slot of the source holds what it is to be copied from; the master said so under its key. */
static inline void copy_check_source(struct world *world, const struct wire_copy_req *copy,
                                     const struct wire_copy_part *part)
{
    struct grant_fields fields = {.segment = part->from_segment,
                                  .slot = part->from_slot,
                                  .gen = part->from_gen,
                                  .offset = part->from_offset,
                                  .length = part->length};

    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];

        if (node->incarnation != part->from_node)
            continue;
        const struct wire_inventory_row *row =
            &node->slots[part->from_segment][part->from_slot].row;
        uint64_t version = row->version == 0 ? row->gen : row->version;

        assert_true(part->from_mac == grant_read_mac(&node->secret, &fields));
        assert_int_equal(row->state, WIRE_SLOT_WRITTEN);
        assert_true(row->gen == part->from_gen && version == copy->version);
        assert_true(row->length == part->length && row->object_offset == part->object_offset);
        return;
    }
    fail_msg("copied from an unknown node");
}

/* Ends a copy that the node was told to make: with OK its slots are WRITTEN before that is said. */
static inline void node_end_copy(struct world *world, struct world_node *node, uint32_t at,
                                 enum snow_status status)
{
    const struct wire_copy_req *copy = node->copies[at];
    struct wire_copy_rep reply = {.copy = copy->copy, .status = (int32_t)status};
    struct hash128 hash = hash_key(0, copy->key);
    struct core_input input = {
        .kind = CORE_MESSAGE, .from = node->number, .type = WIRE_copy, .message = &reply};

    for (uint32_t i = 0; i < copy->parts_count && status == SNOW_OK; i++) {
        const struct wire_copy_part *part = &copy->parts[i];
        struct world_slot *slot = &node->slots[part->segment][part->slot];

        copy_check_source(world, copy, part);
        assert_int_equal(slot->row.state, WIRE_SLOT_FREE);
        assert_true(slot->row.gen < copy->gen);
        slot->row = (struct wire_inventory_row){.slot = part->slot,
                                                .gen = copy->gen,
                                                .version = copy->version,
                                                .state = WIRE_SLOT_WRITTEN,
                                                .replica = part->replica,
                                                .part = part->part,
                                                .parts = part->parts,
                                                .flags = copy->flags,
                                                .offset = part->offset,
                                                .length = part->length,
                                                .object_size = copy->object_size,
                                                .object_offset = part->object_offset,
                                                .key_hash_low = hash.low,
                                                .key_hash_high = hash.high};
        if (part->part == 0)
            slot->row.key = copy->key, slot->row.extra = copy->extra;
    }
    node->copy_count--;
    memmove(&node->copies[at], &node->copies[at + 1],
            (node->copy_count - at) * sizeof(node->copies[0]));
    world_step_alone(world, &input);
}

/* What was forgotten since is not fetched. */
static inline void node_fetch(struct world *world, struct world_node *node)
{
    const struct wire_copy_req *copy = node->copies[0];
    bool forgotten = false;

    for (uint32_t i = 0; i < node->forget_count; i++)
        forgotten = forgotten || node->forgets[i].item.gen == copy->gen;
    for (uint32_t i = 0; i < copy->parts_count; i++)
        forgotten = forgotten ||
                    node->slots[copy->parts[i].segment][copy->parts[i].slot].row.gen >= copy->gen;
    node_end_copy(world, node, 0, forgotten ? SNOW_GONE : SNOW_OK);
}

static inline void world_settle_forgets(struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        uint32_t at = 0;

        while (at < node->forget_count && node->linked && !node->holds_closed) {
            if (node->holds_freed) {
                if (!node->forgets[at].closed)
                    node_acknowledge(world, node, at, false);
                at++;
            } else if (node->forgets[at].closed) {
                node_free(world, node, at);
            } else {
                node_acknowledge(world, node, at, true);
            }
            i = 0;
            node = &world->nodes[i];
            at = node->holds_freed ? at : 0;
        }
    }
}

/* Nodes do what they are told until nothing is left to do. */
static inline void world_settle(struct world *world)
{
    bool more = true;

    while (more) {
        more = false;
        world_settle_forgets(world);
        for (uint32_t i = 0; i < world->node_count && !more; i++) {
            struct world_node *node = &world->nodes[i];

            more = node->linked && node->copy_count > 0 && !node->holds_copies;
            if (more)
                node_fetch(world, node);
        }
    }
}

static inline void world_step(struct world *world, const struct core_input *input)
{
    world_step_alone(world, input);
    world_settle(world);
}

static inline void world_tick(struct world *world)
{
    world_step(world, &(struct core_input){.kind = CORE_TICK});
}

/* Ticks when the core asks for it, until that time. */
static inline void world_run(struct world *world, uint64_t for_ns)
{
    uint64_t until_ns = world->now_ns + for_ns;

    for (uint32_t steps = 0; core_wake_ns(world->core) <= until_ns; steps++) {
        uint64_t wake_ns = core_wake_ns(world->core);

        assert_true(steps < 200000);
        if (wake_ns > world->now_ns)
            world->now_ns = wake_ns;
        world_tick(world);
    }
    world->now_ns = until_ns;
    world_tick(world);
}

#endif
