/* bench core: what an object costs the master in memory, and how many look-ups one core does a
 * second.
 *
 * The core alone, driven by messages as the master's loop drives it: no network.  One node of the
 * size that the objects need is played by answering; its memory does not exist. */
#include "cli/cli.h"
#include "core/core.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SIZE 64u
#define OBJECT_SIZE 4096u
#define FILL_BATCH 1024u
#define LOOK_UP_BATCH 128u
#define LOOK_UPS 20000u /* batches */
#define ROUNDS 7u

struct bench {
    struct core *core;
    struct core_outputs outputs;
    uint64_t session;
    uint64_t node;
    uint64_t token;
    uint64_t now_ns;
    uint8_t (*keys)[KEY_SIZE]; /* of one batch */
};

static void key_of(uint64_t number, uint8_t *key)
{
    char text[KEY_SIZE + 1];

    snprintf(text, sizeof(text), "model@tp0@%016" PRIx64 "@%037" PRIu64,
             number * UINT64_C(0x9e3779b97f4a7c15), number);
    memcpy(key, text, KEY_SIZE);
}

static const struct core_output *step(struct bench *bench, uint64_t from, uint16_t type,
                                      const void *message)
{
    struct core_input input = {.kind = type == 0 ? CORE_SESSION_OPEN : CORE_MESSAGE,
                               .from = from,
                               .token = ++bench->token,
                               .type = type,
                               .message = message,
                               .deadline_ns = UINT64_MAX};

    core_outputs_reset(&bench->outputs);
    core_step(bench->core, bench->now_ns, &input, &bench->outputs);
    bench->now_ns += 1000;
    for (const struct core_output *output = bench->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind == CORE_OUT_REPLY || output->kind == CORE_OUT_SESSION)
            return output;
    }
    return NULL;
}

/* ---- filling ---- */

static void mount(struct bench *bench, uint64_t objects)
{
    struct wire_segment_info info = {.incarnation = 2,
                                     .tier = WIRE_TIER_DRAM,
                                     .size = objects * OBJECT_SIZE * 2,
                                     .ready = objects * OBJECT_SIZE * 2,
                                     .slot_count = (uint32_t)objects + FILL_BATCH,
                                     .slots_ready = (uint32_t)objects + FILL_BATCH};
    struct wire_mount_req message = {.incarnation = 1,
                                     .process = 1,
                                     .address = bytes_of_string("bench:1"),
                                     .segments = &info,
                                     .segments_count = 1};
    const struct core_output *reply = step(bench, 0, WIRE_mount, &message);

    bench->node = ((const struct wire_mount_rep *)reply->message)->node;
    for (uint32_t at = 0; at < info.slot_count; at += LIMIT_INVENTORY_SLOTS) {
        uint32_t end = info.slot_count - at < LIMIT_INVENTORY_SLOTS ? info.slot_count
                                                                    : at + LIMIT_INVENTORY_SLOTS;
        struct wire_inventory_req inventory = {.first_slot = at,
                                               .end_slot = end,
                                               .last = end == info.slot_count};

        step(bench, bench->node, WIRE_inventory, &inventory);
    }
    bench->session = step(bench, 0, 0, NULL)->to;
}

static bool fill_batch(struct bench *bench, uint64_t first, uint32_t count,
                       struct wire_put_item *items, struct wire_written *written)
{
    struct wire_put_start_req start = {.operation = first + 1,
                                       .items = items,
                                       .items_count = count};
    struct wire_put_end_req end = {.operation = first + 1, .items = written, .items_count = count};
    const struct wire_put_start_rep *grants;

    for (uint32_t i = 0; i < count; i++) {
        key_of(first + i, bench->keys[i]);
        items[i] = (struct wire_put_item){.key = bytes_of(bench->keys[i], KEY_SIZE),
                                          .size = OBJECT_SIZE,
                                          .depth = i,
                                          .replicas = 1};
    }
    grants = step(bench, bench->session, WIRE_put_start, &start)->message;
    for (uint32_t i = 0; i < grants->items_count; i++) {
        const struct wire_put_grant *grant = &grants->items[i];

        if (grant->status != SNOW_OK)
            return false;
        written[grant->index] =
            (struct wire_written){.key = items[grant->index].key, .gen = grant->gen, .replicas = 1};
    }
    return grants->items_count == count && step(bench, bench->session, WIRE_put_end, &end) != NULL;
}

static bool fill(struct bench *bench, uint64_t objects)
{
    struct wire_put_item *items = calloc(FILL_BATCH, sizeof(*items));
    struct wire_written *written = calloc(FILL_BATCH, sizeof(*written));
    bool good = items != NULL && written != NULL;

    for (uint64_t at = 0; at < objects && good; at += FILL_BATCH) {
        uint64_t count = objects - at < FILL_BATCH ? objects - at : FILL_BATCH;

        good = fill_batch(bench, at, (uint32_t)count, items, written);
    }
    free(items);
    free(written);
    return good;
}

/* ---- looking up ---- */

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* Keys a second of processor time of one round: random keys, all there. */
static double look_up_round(struct bench *bench, uint64_t objects, struct rng *rng,
                            struct wire_key *keys)
{
    struct wire_lookup_req lookup = {.flags = WIRE_LOOKUP_UNORDERED,
                                     .keys = keys,
                                     .keys_count = LOOK_UP_BATCH};
    uint64_t spent_ns = 0;

    for (uint32_t batch = 0; batch < LOOK_UPS; batch++) {
        for (uint32_t i = 0; i < LOOK_UP_BATCH; i++) {
            key_of(rng_below(rng, objects), bench->keys[i]);
            keys[i].key = bytes_of(bench->keys[i], KEY_SIZE);
        }
        uint64_t before_ns = env_cpu_ns();

        step(bench, bench->session, WIRE_lookup, &lookup);
        spent_ns += env_cpu_ns() - before_ns;
    }
    return (double)LOOK_UPS * LOOK_UP_BATCH * 1e9 / (double)spent_ns;
}

static double look_up(struct bench *bench, uint64_t objects)
{
    struct wire_key *keys = calloc(LOOK_UP_BATCH, sizeof(*keys));
    double rates[ROUNDS] = {0};
    struct rng rng;

    if (keys == NULL)
        return 0;
    rng_init(&rng, 1);
    for (uint32_t round = 0; round < ROUNDS; round++)
        rates[round] = look_up_round(bench, objects, &rng, keys);
    free(keys);
    qsort(rates, ROUNDS, sizeof(rates[0]), by_value);
    return rates[ROUNDS / 2];
}

static void print_result(const struct cli *cli, double rate, double bytes)
{
    if (cli->bench.json) {
        json_t *row = json_pack("{s:s, s:I, s:f, s:f}", "op", "core", "objects",
                                (json_int_t)cli->bench.objects, "keys_per_s", rate,
                                "bytes_per_object", bytes);
        char *text = json_dumps(row, JSON_PRESERVE_ORDER);

        puts(text == NULL ? "{}" : text);
        free(text);
        json_decref(row);
        return;
    }
    printf("objects            %" PRIu64 " with %u-byte keys\n", cli->bench.objects, KEY_SIZE);
    printf("bytes per object   %.1f (key included; growth of resident memory)\n", bytes);
    printf("look-ups           %.2f million keys a second on one core, batches of %u\n", rate / 1e6,
           LOOK_UP_BATCH);
}

static int run_core(struct cli *cli, struct bench *bench)
{
    uint64_t before = env_resident_bytes();
    double bytes;
    double rate;

    mount(bench, cli->bench.objects);
    if (!fill(bench, cli->bench.objects)) {
        cli_error(cli, "the core refused to hold %" PRIu64 " objects", cli->bench.objects);
        return CLI_FAILED;
    }
    core_outputs_reset(&bench->outputs);
    bytes = (double)(env_resident_bytes() - before) / (double)cli->bench.objects;
    rate = look_up(bench, cli->bench.objects);
    print_result(cli, rate, bytes);
    return CLI_DONE;
}

int command_bench(struct cli *cli)
{
    struct bench bench = {.now_ns = NS_PER_S};
    struct core_options options = core_options_default();
    struct core_start start = {
        .cluster = 1, .term = 1, .adopts_strangers = true, .now_ns = bench.now_ns};
    int result = CLI_FAILED;

    if (strcmp(cli->arguments[0], "core") != 0) {
        cli_error(cli, "%s: measures nothing; there is: core", cli->arguments[0]);
        return CLI_USAGE;
    }
    bench.keys = calloc(FILL_BATCH, sizeof(*bench.keys));
    core_outputs_init(&bench.outputs);
    if (bench.keys != NULL && core_create(&options, &start, &bench.core) == SNOW_OK) {
        result = run_core(cli, &bench);
        core_destroy(bench.core);
    }
    core_outputs_deinit(&bench.outputs);
    free(bench.keys);
    return result;
}
