/* bench groups: what it costs that objects are members of groups, and what matching spares.
 *
 * Idea.     Each row has two sides that ask the same cluster by the same client: puts of members
 *           beside puts of as many objects without a group, match_prefix beside exists of every
 *           key.  Their rounds alternate, and the ratio of their medians is what counts.
 * Threads.  The main thread. */
#include "cli/bench.h"
#include "snowskin/groups.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_SIZE 64u
#define OBJECT_SIZE (4 * KIB) /* bytes that are put, when none are chosen */
#define MATCH_SIZE 256u       /* bytes of what is looked up */
#define BLOCKS 4096u          /* of a chain */
#define PUT_SPAN 8192u        /* objects of a side that are put before they are removed again */
#define LOAD_BATCH 1024u
#define POOL_BYTES (256 * MIB)
#define POOL_SLOT 256u
#define OBJECT_SIZE_MAX (4 * KIB)
#define LOAD_MS 60000u /* that a call may take while the node commits its memory */

enum groups_op { GROUPS_PUT, GROUPS_MATCH };

struct groups_row {
    enum groups_op op;
    uint32_t members; /* of a group; 0: blocks are objects */
    uint32_t percent; /* leading blocks of the chain that are there */
    double aim;       /* ratio */
};

static const struct groups_row rows[] = {
    {GROUPS_PUT, 1, 0, 0.85},  {GROUPS_PUT, 2, 0, 0.85},    {GROUPS_PUT, 8, 0, 0.85},
    {GROUPS_PUT, 64, 0, 0.85}, {GROUPS_MATCH, 0, 100, 0.9}, {GROUPS_MATCH, 0, 10, 5},
    {GROUPS_MATCH, 8, 100, 6},
};

/* One side of a row: objects, and the calls over them. */
struct groups_side {
    bool grouped;
    uint32_t objects;
    uint32_t blocks;
    uint32_t next; /* of the objects that are put */
    uint8_t *keys;
    uint8_t *ids;
    struct snow_put *puts;
    struct snow_member *members;
    struct snow_stat *stats;
    struct snow_key *chain;
    double rates[BENCH_ROUNDS_MAX]; /* objects a second */
    double cpu_ns[BENCH_ROUNDS_MAX];
};

struct groups {
    struct bench *bench;
    struct snow_client *client;
    const struct groups_row *row;
    uint64_t size; /* bytes of an object */
    uint8_t *bytes;
    uint64_t names;             /* number of the next object, over all rows */
    struct groups_side side[2]; /* grouped; plain */
};

static bool failed(const struct groups *groups, const char *what, enum snow_status status)
{
    cli_error(groups->bench->cli, "%s: %s (%s) %s", what, snow_status_text(status),
              snow_status_name(status), snow_reason());
    return false;
}

/* ---- objects of a row ----------------------------------------------------------------------- */

static uint32_t members_of(const struct groups_row *row)
{
    return row->members == 0 ? 1 : row->members;
}

/* Blocks of the chain that are there. */
static uint32_t blocks_there(const struct groups_row *row)
{
    return (BLOCKS * row->percent + 99) / 100;
}

static bool make_room(struct groups_side *side)
{
    side->keys = calloc(side->objects, BENCH_KEY_SIZE);
    side->ids = calloc(side->blocks, ID_SIZE);
    side->puts = calloc(side->objects, sizeof(*side->puts));
    side->members = calloc(side->objects, sizeof(*side->members));
    side->stats = calloc(side->objects, sizeof(*side->stats));
    side->chain = calloc(side->blocks, sizeof(*side->chain));
    return side->keys != NULL && side->ids != NULL && side->puts != NULL && side->members != NULL &&
           side->stats != NULL && side->chain != NULL;
}

/* Everything that calls name, made before any is timed. */
static void name_objects(struct groups *groups, struct groups_side *side)
{
    uint32_t members = members_of(groups->row);

    for (uint32_t i = 0; i < side->objects; i++) {
        uint8_t *key = side->keys + (size_t)i * BENCH_KEY_SIZE;
        uint32_t block = i / members;
        struct snow_key id = {.at = side->ids + (size_t)block * ID_SIZE, .size = ID_SIZE};

        bench_key(groups->bench->run, groups->names + i, key, BENCH_KEY_SIZE);
        if (i % members == 0)
            bench_key(~groups->bench->run, groups->names + i, side->ids + (size_t)block * ID_SIZE,
                      ID_SIZE);
        side->puts[i] = (struct snow_put){.key = {.at = key, .size = BENCH_KEY_SIZE},
                                          .from = groups->bytes,
                                          .size = groups->size,
                                          .depth = block};
        side->stats[i].key = side->puts[i].key;
        side->chain[block] = groups->row->members == 0 ? side->puts[i].key : id;
        side->members[i] = (struct snow_member){.group = id, .size = members, .index = i % members};
        if (side->grouped)
            side->puts[i].member = &side->members[i];
    }
    groups->names += side->objects;
}

static void close_sides(struct groups *groups)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct groups_side *side = &groups->side[i];

        free(side->keys);
        free(side->ids);
        free(side->puts);
        free(side->members);
        free(side->stats);
        free(side->chain);
        *side = (struct groups_side){0};
    }
}

static bool put_all(struct groups *groups, struct groups_side *side, uint32_t count)
{
    const struct snow_call call = {.deadline_ms = LOAD_MS};
    enum snow_status status = SNOW_OK;

    for (uint32_t at = 0; at < count && status == SNOW_OK; at += LOAD_BATCH)
        status = snow_put(groups->client, side->puts + at,
                          count - at < LOAD_BATCH ? count - at : LOAD_BATCH, &call);
    return status == SNOW_OK || failed(groups, "can not load objects", status);
}

static bool remove_all(struct groups *groups, struct groups_side *side, uint32_t count)
{
    uint32_t step = side->grouped ? members_of(groups->row) : 1;
    struct snow_item *items = calloc(LOAD_BATCH, sizeof(*items));
    enum snow_status status = items == NULL ? SNOW_NO_MEMORY : SNOW_OK;

    for (uint32_t at = 0; at < count && status == SNOW_OK;) {
        uint32_t part = 0;

        for (; part < LOAD_BATCH && at < count; part++, at += step)
            items[part] = (struct snow_item){.key = side->grouped ? side->members[at].group
                                                                  : side->puts[at].key};
        status = side->grouped ? snow_group_remove(groups->client, items, part, NULL)
                               : snow_remove(groups->client, items, part, NULL);
    }
    free(items);
    return status == SNOW_OK || failed(groups, "can not remove objects", status);
}

/* Puts have objects of their own on each side, and memory that was used before; look-ups of both
 * ask for the same. */
static bool open_sides(struct groups *groups)
{
    const struct groups_row *row = groups->row;
    uint32_t sides = row->op == GROUPS_PUT ? 2 : 1;

    groups->size = row->op == GROUPS_MATCH                    ? MATCH_SIZE
                   : groups->bench->cli->bench.size_bytes > 0 ? groups->bench->cli->bench.size_bytes
                                                              : OBJECT_SIZE;
    for (uint32_t i = 0; i < sides; i++) {
        struct groups_side *side = &groups->side[i];

        side->grouped = row->members > 0 && i == 0;
        side->objects = row->op == GROUPS_PUT ? PUT_SPAN : BLOCKS * members_of(row);
        side->blocks = side->objects / members_of(row);
        if (!make_room(side)) {
            cli_error(groups->bench->cli, "out of memory");
            return false;
        }
        name_objects(groups, side);
        if (row->op == GROUPS_PUT &&
            !(put_all(groups, side, side->objects) && remove_all(groups, side, side->objects)))
            return false;
    }
    return row->op == GROUPS_PUT ||
           put_all(groups, &groups->side[0], blocks_there(row) * members_of(row));
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* One call; how many objects it was about, 0: told why it failed. */
static uint32_t put_once(struct groups *groups, struct groups_side *side)
{
    uint32_t count = members_of(groups->row);
    enum snow_status status = snow_put(groups->client, side->puts + side->next, count, NULL);

    side->next += count;
    return status == SNOW_OK || failed(groups, "put", status) ? count : 0;
}

static uint32_t match_once(struct groups *groups)
{
    const struct groups_side *side = &groups->side[0];
    uint32_t there = blocks_there(groups->row);
    struct snow_chain chain = {.blocks = side->chain,
                               .count = side->blocks,
                               .groups = groups->row->members > 0};
    enum snow_status status = snow_match_prefix(groups->client, &chain, NULL);

    if (status == SNOW_OK && chain.matched == there)
        return side->objects;
    if (status != SNOW_OK)
        (void)failed(groups, "match_prefix", status);
    else
        cli_error(groups->bench->cli, "match_prefix finds %zu blocks of %u", chain.matched, there);
    return 0;
}

static uint32_t exists_once(struct groups *groups)
{
    const struct groups_side *side = &groups->side[0];
    uint32_t there = blocks_there(groups->row) * members_of(groups->row);
    enum snow_status status = snow_exists(groups->client, side->stats, side->objects, NULL);
    enum snow_status expected = there == side->objects ? SNOW_OK : SNOW_NOT_FOUND;

    if (status == expected && side->stats[there - 1].status == SNOW_OK)
        return side->objects;
    (void)failed(groups, "exists", status);
    return 0;
}

/* Of the second side, or of the first. */
static uint32_t call_once(struct groups *groups, uint32_t index)
{
    if (groups->row->op == GROUPS_PUT)
        return put_once(groups, &groups->side[index]);
    return index == 0 ? match_once(groups) : exists_once(groups);
}

/* Removes what was put, which does not count. */
static bool start_over(struct groups *groups, uint32_t index, uint64_t *from_ns, uint64_t *cpu_ns)
{
    struct groups_side *side = &groups->side[index];
    struct env *env = groups->bench->cli->env;
    uint64_t before_ns = env_now_ns(env);
    uint64_t before_cpu_ns = env_cpu_ns() + bench_cluster_cpu_ns(groups->bench);

    if (side->next < side->objects)
        return true;
    if (!remove_all(groups, side, side->next))
        return false;
    side->next = 0;
    *from_ns += env_now_ns(env) - before_ns;
    *cpu_ns += env_cpu_ns() + bench_cluster_cpu_ns(groups->bench) - before_cpu_ns;
    return true;
}

static bool run_window(struct groups *groups, uint32_t index, uint64_t window_ns, double *rate,
                       double *cpu_ns)
{
    struct env *env = groups->bench->cli->env;
    uint64_t before_ns = env_cpu_ns() + bench_cluster_cpu_ns(groups->bench);
    uint64_t from_ns = env_now_ns(env);
    uint64_t now_ns = from_ns;
    uint64_t objects = 0;

    while (now_ns - from_ns < window_ns) {
        uint32_t count;

        if (groups->row->op == GROUPS_PUT && !start_over(groups, index, &from_ns, &before_ns))
            return false;
        count = call_once(groups, index);
        if (count == 0)
            return false;
        objects += count;
        now_ns = env_now_ns(env);
    }
    *rate = (double)objects * 1e9 / (double)(now_ns - from_ns);
    *cpu_ns =
        (double)(env_cpu_ns() + bench_cluster_cpu_ns(groups->bench) - before_ns) / (double)objects;
    return true;
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct groups_result {
    double rate[2][3]; /* of each side: least, median, most */
    double cpu_ns[2];
    double ratio;
};

static void print(const struct groups *groups, const struct groups_result *result)
{
    const struct groups_row *row = groups->row;
    bool is_put = row->op == GROUPS_PUT;
    json_t *json;
    char *text;

    if (!groups->bench->cli->options.json) {
        char what[64];

        snprintf(what, sizeof(what), "%s, %u member%s%s", is_put ? "put" : "match_prefix",
                 row->members, row->members == 1 ? "" : "s",
                 !is_put && row->percent < 100 ? ", breaks at 10 %" : "");
        printf("%-36s %12.0f %12.0f %8.2f %8.2f %8.2f\n", what, result->rate[0][1],
               result->rate[1][1], result->ratio, row->aim, result->cpu_ns[1] / result->cpu_ns[0]);
        fflush(stdout);
        return;
    }
    json = json_pack("{s:s, s:i, s:i, s:I, s:i, s:s, s:f, s:f, s:f}", "op",
                     is_put ? "group_put" : "match_prefix", "members", (int)row->members, "blocks",
                     is_put ? 1 : (int)BLOCKS, "size", (json_int_t)groups->size, "percent_there",
                     is_put ? 0 : (int)row->percent, "transport",
                     bench_transport_name(groups->bench->cli->options.transport), "items_per_s",
                     result->rate[0][1], "items_per_s_min", result->rate[0][0], "items_per_s_max",
                     result->rate[0][2]);
    json_object_set_new(json, "base", json_string(is_put ? "put" : "exists"));
    json_object_set_new(json, "base_per_s", json_real(result->rate[1][1]));
    json_object_set_new(json, "base_per_s_min", json_real(result->rate[1][0]));
    json_object_set_new(json, "base_per_s_max", json_real(result->rate[1][2]));
    json_object_set_new(json, "ratio", json_real(result->ratio));
    json_object_set_new(json, "target", json_real(row->aim));
    json_object_set_new(json, "cpu_ns_per_item", json_real(result->cpu_ns[0]));
    json_object_set_new(json, "base_cpu_ns_per_item", json_real(result->cpu_ns[1]));
    text = json_dumps(json, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    puts(text == NULL ? "{}" : text);
    fflush(stdout);
    free(text);
    json_decref(json);
}

static bool run_rounds(struct groups *groups, struct groups_result *result)
{
    const struct bench_options *options = &groups->bench->cli->bench;
    uint32_t rounds = (uint32_t)options->rounds;

    for (uint32_t i = 0; i < 2; i++) {
        double ignored[2];

        if (options->warm_ns > 0 &&
            !run_window(groups, i, options->warm_ns, &ignored[0], &ignored[1]))
            return false;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            /* Whoever is first meets what the other left: they take turns at that, too. */
            uint32_t index = (round + i) % 2;
            struct groups_side *side = &groups->side[index];

            if (!run_window(groups, index, options->window_ns, &side->rates[round],
                            &side->cpu_ns[round]))
                return false;
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        double spread[3];

        bench_spread(groups->side[i].rates, rounds, result->rate[i]);
        bench_spread(groups->side[i].cpu_ns, rounds, spread);
        result->cpu_ns[i] = spread[1];
    }
    result->ratio = result->rate[0][1] / result->rate[1][1];
    return true;
}

static bool run_row(struct groups *groups, const struct groups_row *row)
{
    struct groups_result result;
    bool good;

    groups->row = row;
    good = open_sides(groups) && run_rounds(groups, &result);
    for (uint32_t i = 0; i < 2 && good; i++) {
        struct groups_side *side = &groups->side[i];

        good = remove_all(groups, side,
                          row->op == GROUPS_PUT ? side->next
                          : i == 0              ? blocks_there(row) * members_of(row)
                                                : 0);
    }
    if (good)
        print(groups, &result);
    close_sides(groups);
    return good;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool is_chosen(const struct bench_options *options, const struct groups_row *row)
{
    return (options->op == BENCH_ANY || (options->op == BENCH_PUT && row->op == GROUPS_PUT) ||
            (options->op == BENCH_EXISTS && row->op == GROUPS_MATCH)) &&
           (options->batch == 0 || options->batch == row->members);
}

static bool options_are_valid(const struct cli *cli)
{
    const struct bench_options *options = &cli->bench;

    if (options->op != BENCH_ANY && options->op != BENCH_PUT && options->op != BENCH_EXISTS) {
        cli_error(cli, "groups: --op put chooses the puts, --op exists the matches");
        return false;
    }
    if (options->size_bytes > OBJECT_SIZE_MAX) {
        cli_error(cli, "groups: --size is at most 4 KiB: what is measured is the work beside the "
                       "bytes");
        return false;
    }
    return true;
}

int bench_groups(struct bench *bench)
{
    const struct bench_options *options = &bench->cli->bench;
    struct groups groups = {.bench = bench};
    bool good;

    if (!options_are_valid(bench->cli))
        return CLI_USAGE;
    groups.bytes = calloc(1, OBJECT_SIZE_MAX);
    good = groups.bytes != NULL && bench_cluster_need(bench, 1, POOL_BYTES, POOL_SLOT);
    if (good) {
        bench->cli->options.master = bench->cluster.address;
        good = cli_client_open(bench->cli, &groups.client) == CLI_DONE;
    }
    if (good && !bench->cli->options.json)
        printf("%-36s %12s %12s %8s %8s %8s\n", "groups", "items/s", "without", "ratio", "aim",
               "cpu");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && good; i++) {
        if (is_chosen(options, &rows[i]))
            good = run_row(&groups, &rows[i]);
    }
    if (good && !bench->cli->options.json)
        printf("\nwithout: puts of as many objects in no group; of match_prefix: exists of every "
               "key.\nratio: items/s to those; cpu: processor time an item of all processes, "
               "theirs to ours.\n");
    if (groups.client != NULL)
        snow_close(groups.client);
    free(groups.bytes);
    bench_cluster_stop(bench);
    return good ? CLI_DONE : CLI_FAILED;
}
