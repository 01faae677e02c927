/* Any dialogue with a core: messages that are valid by the wire, their contents arbitrary, from
 * sessions and
 * nodes that exist or not; acknowledgements that were asked for or never were.  No assertion
 * trips, the
 * invariants hold after each step, and every request is answered or cancelled.
 *
 * Three bytes a step: what comes, its variant, and a seed of its contents. */
#include "base/assert.h"
#include "base/hash.h"
#include "base/limits.h"
#include "core/core.h"
#include "wire/messages.h"

#include <stdlib.h>

#define SEGMENT_SIZE (256 * KIB)
#define SLOTS 64u
#define READY_SIZE (64 * KIB) /* when it is mounted */
#define SLOTS_READY 16u
#define STEPS_MAX 400u
#define FORGETS_MAX 256u
#define KEYS 6u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct dialogue {
    struct core *core;
    struct core_outputs outputs;
    struct arena arena; /* messages live as long as the dialogue */
    struct rng rng;
    uint64_t now_ns;
    uint64_t token;
    uint64_t sessions[3];
    uint64_t nodes[2];
    uint64_t gens[8]; /* that grants named lately */
    uint32_t gen_count;
    struct {
        uint64_t node;
        uint32_t segment;
        struct wire_slot_gen item;
    } forgets[FORGETS_MAX]; /* to be acknowledged */
    uint32_t forget_count;
};

static const char *const keys[KEYS] = {"a", "b", "chain-1", "chain-2", "chain-3", "z"};

static struct bytes any_key(struct dialogue *dialogue)
{
    return bytes_of_string(keys[rng_below(&dialogue->rng, KEYS)]);
}

/* ---- what the core says ---- */

static void note_grants(struct dialogue *dialogue, const struct wire_put_start_rep *reply)
{
    for (uint32_t i = 0; i < reply->items_count; i++) {
        if (reply->items[i].status == SNOW_OK)
            dialogue->gens[dialogue->gen_count++ % 8] = reply->items[i].gen;
    }
}

static void note_forget(struct dialogue *dialogue, const struct core_output *output)
{
    const struct wire_forget_req *forget = output->message;

    for (uint32_t i = 0; i < forget->items_count; i++) {
        if (dialogue->forget_count == FORGETS_MAX)
            return;
        dialogue->forgets[dialogue->forget_count].node = output->to;
        dialogue->forgets[dialogue->forget_count].segment = forget->segment;
        dialogue->forgets[dialogue->forget_count++].item = forget->items[i];
    }
}

static void step(struct dialogue *dialogue, const struct core_input *input)
{
    core_outputs_reset(&dialogue->outputs);
    core_step(dialogue->core, dialogue->now_ns, input, &dialogue->outputs);
    core_check(dialogue->core);
    for (const struct core_output *output = dialogue->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind == CORE_OUT_FORGET)
            note_forget(dialogue, output);
        else if (output->kind == CORE_OUT_SESSION && output->status == SNOW_OK)
            dialogue->sessions[output->token % 3] = output->to;
        else if (output->kind == CORE_OUT_REPLY && output->type == WIRE_mount &&
                 output->status == SNOW_OK)
            dialogue->nodes[output->token % 2] =
                ((const struct wire_mount_rep *)output->message)->node;
        else if (output->kind == CORE_OUT_REPLY && output->type == WIRE_put_start &&
                 output->status == SNOW_OK)
            note_grants(dialogue, output->message);
    }
}

/* ---- what comes ---- */

static void send(struct dialogue *dialogue, uint64_t from, uint16_t type, const void *message)
{
    struct core_input input = {.kind = CORE_MESSAGE,
                               .from = from,
                               .token = dialogue->token += 6,
                               .type = type,
                               .message = message,
                               .deadline_ns =
                                   dialogue->now_ns + rng_below(&dialogue->rng, 5) * NS_PER_S};

    step(dialogue, &input);
}

static void *take(struct dialogue *dialogue, size_t size)
{
    void *at = arena_take(&dialogue->arena, size);

    ASSERT(at != NULL);
    return at;
}

static void mount(struct dialogue *dialogue, uint64_t which)
{
    struct wire_segment_info *info = take(dialogue, sizeof(*info));
    struct wire_mount_req *message = take(dialogue, sizeof(*message));

    *info = (struct wire_segment_info){.incarnation = 100 + which,
                                       .tier = WIRE_TIER_DRAM,
                                       .size = SEGMENT_SIZE,
                                       .ready = READY_SIZE,
                                       .slot_count = SLOTS,
                                       .slots_ready = SLOTS_READY};
    *message = (struct wire_mount_req){.incarnation = 10 + which,
                                       .process = 1 + rng_below(&dialogue->rng, 2),
                                       .address = bytes_of_string("node:1"),
                                       .segments = info,
                                       .segments_count = 1};
    dialogue->token += (which + dialogue->token) % 2; /* its parity names the node */
    send(dialogue, 0, WIRE_mount, message);
}

static void tell(struct dialogue *dialogue, uint64_t node, bool empty)
{
    struct wire_inventory_req *message = take(dialogue, sizeof(*message));

    *message = (struct wire_inventory_req){.last = 1, .end_slot = SLOTS_READY};
    message->rows = take(dialogue, 4 * sizeof(*message->rows));
    message->rows_count = empty ? 0 : (uint32_t)rng_below(&dialogue->rng, 5);
    for (uint32_t i = 0; i < message->rows_count; i++) {
        struct wire_inventory_row *row = &message->rows[i];
        struct bytes key = any_key(dialogue);
        struct hash128 hash = hash_key(0, key);

        *row = (struct wire_inventory_row){.slot = i * 3 + (uint32_t)rng_below(&dialogue->rng, 3),
                                           .gen = rng_chance(&dialogue->rng, 1, 2)
                                                      ? dialogue->gens[rng_below(&dialogue->rng, 8)]
                                                      : rng_below(&dialogue->rng, 50),
                                           .state = (uint8_t)rng_below(&dialogue->rng, 4),
                                           .replica = (uint8_t)rng_below(&dialogue->rng, 3),
                                           .part = (uint16_t)rng_below(&dialogue->rng, 2),
                                           .parts = (uint16_t)rng_below(&dialogue->rng, 3),
                                           .flags = (uint16_t)rng_below(&dialogue->rng, 8),
                                           .offset = rng_below(&dialogue->rng, 70) * 4096,
                                           .length = rng_below(&dialogue->rng, 9000),
                                           .object_size = rng_below(&dialogue->rng, 9000),
                                           .key_hash_low = hash.low,
                                           .key_hash_high = hash.high,
                                           .key = key};
    }
    send(dialogue, node, WIRE_inventory, message);
}

static void acknowledge(struct dialogue *dialogue, bool freed_alone)
{
    uint32_t at;

    if (dialogue->forget_count == 0)
        return;
    at = (uint32_t)rng_below(&dialogue->rng, dialogue->forget_count);
    struct wire_slot_gen *item = take(dialogue, sizeof(*item));
    struct wire_closed *closed = take(dialogue, sizeof(*closed));
    struct wire_freed_msg freed = {.segment = dialogue->forgets[at].segment,
                                   .items = item,
                                   .items_count = 1};
    struct wire_forget_rep reply = {.segment = dialogue->forgets[at].segment,
                                    .items = closed,
                                    .items_count = 1};

    *item = dialogue->forgets[at].item;
    *closed = (struct wire_closed){.slot = item->slot,
                                   .gen = item->gen,
                                   .freed = (uint8_t)rng_below(&dialogue->rng, 2)};
    if (freed_alone)
        send(dialogue, dialogue->forgets[at].node, WIRE_freed, &freed);
    else
        send(dialogue, dialogue->forgets[at].node, WIRE_forget, &reply);
    if (freed_alone || closed->freed)
        dialogue->forgets[at] = dialogue->forgets[--dialogue->forget_count];
}

static void bring_stat_near(struct dialogue *dialogue, struct wire_group_stat_req *stat)
{
    stat->operation = rng_below(&dialogue->rng, 6);
    for (uint32_t i = 0; i < stat->groups_count; i++)
        stat->groups[i] =
            (struct wire_group_asked){.id = any_key(dialogue),
                                      .flags = (uint32_t)rng_below(&dialogue->rng, 2)};
}

/* Random contents, brought near what the core knows so that they meet. */
static void bring_near(struct dialogue *dialogue, uint16_t type, void *message)
{
    struct rng *rng = &dialogue->rng;

    if (type == WIRE_put_start) {
        struct wire_put_start_req *put = message;

        put->operation = rng_below(rng, 6);
        put->continues = rng_below(rng, 6);
        for (uint32_t i = 0; i < put->items_count; i++) {
            put->items[i].key = any_key(dialogue);
            put->items[i].size = rng_chance(rng, 1, 9) ? put->items[i].size : rng_below(rng, 90000);
            put->items[i].replicas = (uint8_t)rng_below(rng, 4);
            put->items[i].pin = (uint8_t)rng_below(rng, 4);
            put->items[i].flags = (uint32_t)rng_below(rng, 2);
        }
    } else if (type == WIRE_put_end) {
        struct wire_put_end_req *end = message;

        end->continues = rng_below(rng, 6);
        for (uint32_t i = 0; i < end->items_count; i++)
            end->items[i] = (struct wire_written){.key = any_key(dialogue),
                                                  .gen = dialogue->gens[rng_below(rng, 8)],
                                                  .replicas = (uint16_t)rng_below(rng, 4)};
    } else if (type == WIRE_put_abort) {
        struct wire_put_abort_req *abort = message;

        for (uint32_t i = 0; i < abort->items_count; i++)
            abort->items[i] = (struct wire_key_gen){.key = any_key(dialogue),
                                                    .gen = dialogue->gens[rng_below(rng, 8)]};
    } else if (type == WIRE_put_renew) {
        struct wire_put_renew_req *renew = message;

        for (uint32_t i = 0; i < renew->items_count; i++)
            renew->items[i] = (struct wire_key_gen){.key = any_key(dialogue),
                                                    .gen = dialogue->gens[rng_below(rng, 8)]};
    } else if (type == WIRE_lookup) {
        struct wire_lookup_req *lookup = message;

        lookup->operation = rng_below(rng, 6);
        lookup->flags &= 0x7f | WIRE_LOOKUP_GROUPS;
        for (uint32_t i = 0; i < lookup->keys_count; i++)
            lookup->keys[i].key = any_key(dialogue);
    } else if (type == WIRE_grown) {
        *(struct wire_grown_msg *)message =
            (struct wire_grown_msg){.size = rng_chance(rng, 3, 4) ? SEGMENT_SIZE : READY_SIZE * 2,
                                    .ready = READY_SIZE + rng_below(rng, 50) * 4 * KIB,
                                    .slot_count = SLOTS,
                                    .slots_ready = (uint32_t)rng_between(rng, SLOTS_READY, SLOTS)};
    } else if (type == WIRE_group_stat) {
        bring_stat_near(dialogue, message);
    } else if (type == WIRE_verify) {
        *(struct wire_verify_rep *)message =
            (struct wire_verify_rep){.slot = (uint32_t)rng_below(rng, 8),
                                     .gen = dialogue->gens[rng_below(rng, 8)],
                                     .status = rng_chance(rng, 1, 2) ? SNOW_CORRUPT : SNOW_STALE};
    } else if (type == WIRE_unmount) {
        ((struct wire_unmount_req *)message)->incarnation = 10 + rng_below(rng, 2);
    } else if (type == WIRE_remove || type == WIRE_pin) {
        struct wire_key *list = type == WIRE_remove ? ((struct wire_remove_req *)message)->keys
                                                    : ((struct wire_pin_req *)message)->keys;
        uint32_t count = type == WIRE_remove ? ((struct wire_remove_req *)message)->keys_count
                                             : ((struct wire_pin_req *)message)->keys_count;

        for (uint32_t i = 0; i < count; i++)
            list[i].key = any_key(dialogue);
    }
}

static void any_message(struct dialogue *dialogue, uint8_t variant)
{
    const struct wire_message_type *row = wire_type_at(variant % wire_type_count());
    bool answers = row->number == WIRE_verify; /* the core takes its reply, not the request */
    const struct wire_record *record = answers ? row->reply : row->request;
    void *message = take(dialogue, record->size);
    uint64_t from = dialogue->sessions[rng_below(&dialogue->rng, 3)];

    record->random(&dialogue->rng, &dialogue->arena, message);
    if (rng_chance(&dialogue->rng, 7, 8))
        bring_near(dialogue, row->number, message);
    if (row->number == WIRE_forget) /* likewise, and send_closed knows what to say */
        return;
    if (row->number == WIRE_inventory || row->number == WIRE_freed || row->number == WIRE_grown ||
        row->number == WIRE_unmount || answers)
        from = dialogue->nodes[rng_below(&dialogue->rng, 2)];
    else if (rng_chance(&dialogue->rng, 1, 30))
        from = rng_next(&dialogue->rng);
    send(dialogue, from, row->number, message);
}

static void take_step(struct dialogue *dialogue, uint8_t what, uint8_t variant)
{
    static const uint16_t usual[] = {WIRE_put_start, WIRE_put_start, WIRE_put_end,   WIRE_put_end,
                                     WIRE_lookup,    WIRE_remove,    WIRE_put_abort, WIRE_pin,
                                     WIRE_grown,     WIRE_put_renew};
    struct core_input input = {0};
    uint32_t at = 0;

    switch (what % 10) {
    case 0:
        mount(dialogue, variant % 2);
        return;
    case 1:
        tell(dialogue, dialogue->nodes[variant % 2], variant & 2);
        return;
    case 2:
        input.kind = variant & 1 ? CORE_SESSION_OPEN : CORE_SESSION_BREAK;
        input.from = dialogue->sessions[variant / 2 % 3];
        input.token = dialogue->token += 1;
        step(dialogue, &input);
        return;
    case 3:
        input.kind = variant & 1 ? CORE_NODE_BREAK : CORE_TICK;
        input.from = dialogue->nodes[variant / 2 % 2];
        dialogue->now_ns += variant & 4 ? variant * NS_PER_S : variant * NS_PER_MS;
        step(dialogue, &input);
        return;
    case 4:
    case 5:
        acknowledge(dialogue, variant & 1);
        return;
    case 6:
        any_message(dialogue, variant);
        return;
    case 7:
        input = (struct core_input){.kind = CORE_CANCEL, .token = dialogue->token - variant % 30};
        step(dialogue, &input);
        return;
    default:
        while (wire_type_at(at)->number != usual[variant % 9])
            at++;
        any_message(dialogue, (uint8_t)at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core_options options = core_options_default();
    struct dialogue *dialogue = calloc(1, sizeof(*dialogue));
    struct core_expected expected = {.incarnation = 11};
    struct core_start start = {.cluster = 1,
                               .term = 1,
                               .adopts_strangers = size % 2 == 0,
                               .expected = &expected,
                               .expected_count = size % 3 == 0,
                               .now_ns = NS_PER_S};

    ASSERT(dialogue != NULL);
    options.policy = size % 2 ? CORE_POLICY_LRU : CORE_POLICY_FIFO;
    dialogue->now_ns = NS_PER_S;
    arena_init(&dialogue->arena, 0);
    core_outputs_init(&dialogue->outputs);
    if (core_create(&options, &start, &dialogue->core) != SNOW_OK)
        abort();
    rng_init(&dialogue->rng, 1);
    mount(dialogue, 0);
    tell(dialogue, dialogue->nodes[0], true);
    take_step(dialogue, 2, 1);
    for (size_t at = 0; at + 3 <= size && at < STEPS_MAX * 3; at += 3) {
        rng_init(&dialogue->rng, data[at + 2]);
        take_step(dialogue, data[at], data[at + 1]);
    }
    core_destroy(dialogue->core);
    core_outputs_deinit(&dialogue->outputs);
    arena_deinit(&dialogue->arena);
    free(dialogue);
    return 0;
}
