/* What the model of the core knows: versions, requests under way, nodes; a step of the core with
 * every reply checked.  Part of model_core.c. */
#ifndef TESTS_MODEL_CORE_MODEL_H
#define TESTS_MODEL_CORE_MODEL_H

#include "base/limits.h"
#include "base/rng.h"
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

#define KEYS 24u
#define SESSIONS 4u
#define NODES 3u
#define SLOTS 640u /* at most */
#define NODE_BYTES (640 * KIB)
#define REQUESTS 256u
#define ITEMS 6u
#define VERSIONS (1u << 17)
#define QUEUE 4096u
#define PARTS 32u
#define LATE_NS (5 * NS_PER_MS)

/* ---- what the model knows ---- */

enum version_state { GRANTED, ENDED, GONE };

struct version {
    uint64_t gen;
    uint64_t size;
    uint64_t ended; /* event */
    uint32_t key;
    uint32_t session; /* index */
    uint32_t term;    /* of the master that granted it */
    uint8_t state;
    bool whole; /* all parts of a replica were written */
    bool lost;  /* a part was, and the client does not know */
    uint16_t flags;
    uint16_t written; /* bits of replicas */
    uint32_t place_count;
    struct wire_place places[PARTS];
};

struct model_request {
    bool used;
    bool done;
    uint16_t type;
    uint64_t token;
    uint64_t deadline_ns;
    uint32_t session;
    uint32_t items;
    uint32_t answered;
    bool seen[ITEMS];
    uint64_t began; /* event */
    struct arena arena;
    void *message;
    /* What a removal takes away, once it is answered OK: by item, versions up to here. */
    uint32_t keys[ITEMS];
    uint32_t version_count;
};

/* ---- nodes ---- */

struct model_slot {
    struct wire_inventory_row row; /* state FREE: nothing */
    uint64_t floor;
    uint32_t written; /* version whose part it is */
};

enum node_message { SEND_CLOSED, SEND_FREED, SEND_ROWS, SEND_GROWN };

struct to_master {
    enum node_message kind;
    struct wire_closed closed;
    uint32_t first;
    uint32_t end;
    bool last;
    uint32_t row_count;
    struct wire_inventory_row rows[32];
    struct wire_grown_msg grown;
};

struct model_node {
    uint64_t incarnation;
    uint64_t process;
    uint64_t number;
    struct hash128 secret;
    bool has_secret;
    bool linked;
    bool telling;
    uint32_t tell_slot;
    uint32_t tell_end;
    uint64_t ready; /* bytes */
    uint32_t slots_ready;
    uint64_t asked; /* by the master, on the way or arrived */
    uint32_t asked_slots;
    bool lossy; /* lost slots that the master still counts on */
    struct model_slot slots[SLOTS];
    struct wire_slot_gen forgets[QUEUE]; /* on the way to it, in order */
    uint32_t forget_count;
    struct to_master *queue; /* on the way to the master, in order */
    uint32_t queue_count;
};

/* What may happen in a run. */
struct plan {
    uint64_t seed;
    bool nodes_fail; /* connections break, processes restart */
    bool nodes_lose; /* and slots are lost */
    bool masters_restart;
    uint32_t slots; /* of each node */
    bool grows;     /* nodes commit their memory as they are asked to */
    bool roomy;     /* nothing is evicted or lost: a look-up finds exactly what the model has */
    uint32_t operations;
    uint64_t dead_after_ns;
};

struct model {
    struct plan plan;
    struct core_options options;
    struct core_start start;
    struct core_expected expected[NODES];
    struct core *core;
    struct core_outputs outputs;
    struct rng rng;
    uint64_t now_ns;
    uint64_t event;
    uint64_t token;
    uint64_t operation;
    uint64_t sessions[SESSIONS];
    bool session_linked[SESSIONS];
    uint64_t opened; /* by the last CORE_OUT_SESSION */
    struct model_node nodes[NODES];
    struct model_request requests[REQUESTS];
    struct version *versions;
    uint32_t version_count;
    char keys[KEYS][128];
    uint64_t current[KEYS];      /* roomy: the gen that is readable */
    uint64_t last_seen[KEYS];    /* by a look-up */
    uint64_t last_seen_at[KEYS]; /* event */
    uint8_t *frame;
    uint64_t found;
    uint64_t ended;
    uint64_t restarts;
    uint64_t grown; /* messages of nodes */
};

static inline struct bytes key_of(const struct model *model, uint32_t key)
{
    return bytes_of_string(model->keys[key]);
}

static inline uint32_t number_of_key(const struct model *model, struct bytes key)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (bytes_equal(key, key_of(model, i)))
            return i;
    }
    fail_msg("an unknown key");
    return 0;
}

static inline struct version *find_version(struct model *model, uint64_t gen)
{
    for (uint32_t i = model->version_count; i-- > 0;) {
        if (model->versions[i].gen == gen)
            return &model->versions[i];
    }
    return NULL;
}

static inline struct model_node *find_node(struct model *model, uint64_t number)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (model->nodes[i].number == number)
            return &model->nodes[i];
    }
    return NULL;
}

/* ---- replies ---- */

/* These versions are never to be seen again. */
static inline void rule_out(struct model *model, const struct model_request *request, uint32_t key)
{
    for (uint32_t i = 0; i < request->version_count; i++) {
        struct version *version = &model->versions[i];
        bool over = version->state == ENDED || version->term < core_term(model->core);

        /* One that ended after the removal began lives on; an open one may still end. */
        if (version->key == key && over && version->ended < request->began)
            version->state = GONE;
    }
}

static inline void on_grant(struct model *model, struct model_request *request,
                            const struct wire_put_grant *grant)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[grant->index];

    if (grant->status == SNOW_NO_SPACE)
        assert_true(grant->reason.size > 0);
    if (grant->status != SNOW_OK || find_version(model, grant->gen) != NULL)
        return;
    assert_true(grant->places_count > 0 && grant->places_count <= PARTS);
    assert_true(model->version_count < VERSIONS);
    struct version *version = &model->versions[model->version_count++];

    *version = (struct version){.gen = grant->gen,
                                .size = item->size,
                                .key = number_of_key(model, item->key),
                                .session = request->session,
                                .term = core_term(model->core),
                                .place_count = grant->places_count};
    memcpy(version->places, grant->places, grant->places_count * sizeof(version->places[0]));
}

static inline void on_status(struct model *model, struct model_request *request,
                             const struct wire_item_status *item)
{
    bool gone = item->status == SNOW_OK;

    if (request->type == WIRE_remove && (gone || item->status == SNOW_NOT_FOUND))
        rule_out(model, request, request->keys[item->index]);
    if (request->type == WIRE_put_abort && gone) {
        const struct wire_put_abort_req *abort = request->message;
        struct version *version = find_version(model, abort->items[item->index].gen);

        assert_non_null(version);
        version->state = GONE;
    }
}

static inline void on_items(struct model *model, struct model_request *request, const void *message)
{
    /* All replies that are lists of item_status have one shape. */
    const struct wire_remove_rep *reply = message;
    const struct wire_put_start_rep *grants = message;

    for (uint32_t i = 0; i < reply->items_count; i++) {
        bool is_put = request->type == WIRE_put_start;
        uint32_t index = is_put ? grants->items[i].index : reply->items[i].index;

        assert_true(index < request->items && !request->seen[index]);
        request->seen[index] = true;
        request->answered++;
        if (is_put)
            on_grant(model, request, &grants->items[i]);
        else
            on_status(model, request, &reply->items[i]);
    }
}

static inline void on_matched(struct model *model, struct model_request *request,
                              const void *message)
{
    const struct wire_remove_match_rep *reply = message;
    const struct wire_remove_match_req *match = request->message;

    request->answered = 1;
    if (reply->status != SNOW_OK || reply->guarded > 0)
        return;
    for (uint32_t key = 0; key < KEYS; key++) {
        if (match->kind == WIRE_MATCH_ALL || model->keys[key][0] == (char)match->pattern.at[0])
            rule_out(model, request, key);
    }
}

static inline void on_reply(struct model *model, const struct core_output *output)
{
    struct model_request *request = NULL;
    struct writer writer;

    for (uint32_t i = 0; i < REQUESTS; i++) {
        if (model->requests[i].used && model->requests[i].token == output->token)
            request = &model->requests[i];
    }
    assert_non_null(request);
    assert_int_equal(request->type, output->type);
    request->done = output->last;
    if (output->status != SNOW_OK) {
        assert_true(output->last && request->answered == 0);
        return;
    }
    writer_init(&writer, model->frame, LIMIT_BODY_SIZE, WIRE_VERSION);
    assert_int_equal(wire_reply_encode(output->type, output->message, &writer), SNOW_OK);
    if (output->type == WIRE_remove_match)
        on_matched(model, request, output->message);
    else
        on_items(model, request, output->message);
    assert_true(!output->last || request->answered == request->items);
}

static inline void on_forget(struct model *model, const struct core_output *output)
{
    struct model_node *node = find_node(model, output->to);
    const struct wire_forget_req *forget = output->message;

    assert_non_null(node);
    assert_true(node->linked);
    for (uint32_t i = 0; i < forget->items_count; i++) {
        assert_true(node->forget_count < QUEUE);
        node->forgets[node->forget_count++] = forget->items[i];
    }
}

static inline void on_grow(struct model *model, const struct core_output *output)
{
    struct model_node *node = find_node(model, output->to);
    const struct wire_grow_msg *grow = output->message;

    assert_non_null(node);
    assert_true(node->linked && grow->segment == 0);
    assert_true(grow->ready <= NODE_BYTES && grow->slots_ready <= model->plan.slots);
    assert_true(grow->ready > node->asked || grow->slots_ready > node->asked_slots);
    node->asked = grow->ready;
    node->asked_slots = grow->slots_ready;
}

/* Replies to these go to the caller, who stands above this on the stack. */
struct caught {
    uint64_t token;
    enum snow_status status;
    const void *message;
};

static inline void step(struct model *model, const struct core_input *input, struct caught *caught)
{
    core_outputs_reset(&model->outputs);
    core_step(model->core, model->now_ns, input, &model->outputs);
    model->event++;
    for (struct core_output *output = model->outputs.first; output != NULL; output = output->next) {
        if (output->kind == CORE_OUT_SESSION) {
            model->opened = output->to;
        } else if (output->kind == CORE_OUT_FORGET) {
            on_forget(model, output);
        } else if (output->kind == CORE_OUT_GROW) {
            on_grow(model, output);
        } else if (output->kind == CORE_OUT_REPLY) {
            if (caught != NULL && output->token == caught->token) {
                caught->status = output->status;
                caught->message = output->message;
            } else {
                on_reply(model, output);
            }
        }
    }
}

static inline void check_deadlines(struct model *model)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct model_request *request = &model->requests[i];

        if (request->used && request->done) {
            arena_deinit(&request->arena);
            request->used = false;
        }
        assert_true(!request->used || model->now_ns < request->deadline_ns + LATE_NS);
    }
}

/* Lets time pass, in the steps that the core asks for. */
static inline void pass(struct model *model, uint64_t for_ns)
{
    uint64_t until_ns = model->now_ns + for_ns;
    struct core_input tick = {.kind = CORE_TICK};
    uint32_t steps = 0;

    while (core_wake_ns(model->core) <= until_ns) {
        uint64_t wake_ns = core_wake_ns(model->core);

        model->now_ns = wake_ns > model->now_ns ? wake_ns : model->now_ns;
        step(model, &tick, NULL);
        assert_true(++steps < 100000);
    }
    model->now_ns = until_ns;
    step(model, &tick, NULL);
    check_deadlines(model);
}

#endif
