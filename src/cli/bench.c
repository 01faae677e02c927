/* bench: which rows, their rounds in turn, their medians. */
#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX ((size_t)1 << 20)

const char *bench_op_name(enum bench_op op)
{
    static const char *const names[] = {"any",  "put",    "get",  "exists",
                                        "view", "memcpy", "ring", "idle"};

    return names[op];
}

const char *bench_transport_name(enum snow_transport transport)
{
    static const char *const names[] = {"any", "tcp", "shm"};

    return names[transport];
}

/* ---- samples -------------------------------------------------------------------------------- */

void bench_sample(struct bench_samples *samples, uint64_t ns)
{
    if (samples->count < samples->room)
        samples->ns[samples->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static int by_time(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static int by_rate(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static void quantiles(struct bench_samples *samples, double *p50_us, double *p99_us)
{
    if (samples->count == 0)
        return;
    qsort(samples->ns, samples->count, sizeof(samples->ns[0]), by_time);
    *p50_us = samples->ns[samples->count / 2] / 1e3;
    *p99_us = samples->ns[samples->count * 99 / 100] / 1e3;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* One side while its row is measured. */
struct side {
    const struct bench_side_ops *ops; /* NULL: there is none */
    void *state;
    struct bench_samples samples;
    double rates[BENCH_ROUNDS_MAX];
    double cpu_ns[BENCH_ROUNDS_MAX]; /* an item */
    uint64_t wire_bytes;
};

/* The operation's, then its limit's. */
static void choose_sides(const struct bench_row *row, struct side sides[2])
{
    switch (row->op) {
    case BENCH_MEMCPY:
        sides[0].ops = &bench_memcpy;
        break;
    case BENCH_RING:
        sides[0].ops = &bench_ring;
        break;
    default:
        sides[0].ops = &bench_client;
        sides[1].ops = row->transport == SNOW_TRANSPORT_TCP               ? &bench_raw
                       : row->op == BENCH_EXISTS || row->op == BENCH_VIEW ? &bench_ring
                                                                          : &bench_memcpy;
        break;
    }
}

static bool open_side(struct bench *bench, const struct bench_row *row, struct side *side)
{
    struct bench_round ignored;

    side->samples.ns = calloc(SAMPLES_MAX, sizeof(*side->samples.ns));
    side->samples.room = SAMPLES_MAX;
    if (side->samples.ns == NULL) {
        cli_error(bench->cli, "out of memory");
        return false;
    }
    side->state = side->ops->open(bench, row);
    if (side->state == NULL)
        return false;
    if (bench->cli->bench.warm_ns > 0 &&
        !side->ops->run(side->state, bench->cli->bench.warm_ns, &ignored, &side->samples))
        return false;
    side->samples.count = 0;
    return true;
}

static void close_side(struct side *side)
{
    if (side->state != NULL)
        side->ops->close(side->state);
    free(side->samples.ns);
}

static bool run_round(struct bench *bench, struct side *side, uint32_t index)
{
    struct bench_round round;

    if (!side->ops->run(side->state, bench->cli->bench.window_ns, &round, &side->samples))
        return false;
    side->rates[index] =
        round.elapsed_ns == 0 ? 0 : (double)round.items * 1e9 / (double)round.elapsed_ns;
    side->cpu_ns[index] = round.items == 0 ? 0 : (double)round.cpu_ns / (double)round.items;
    side->wire_bytes = round.wire_bytes;
    bench->last_items = round.items;
    return true;
}

/* The master's share of a round of the operation. */
static bool run_operation(struct bench *bench, struct side *side, uint32_t index, double *server_ns)
{
    const struct bench_cluster *cluster = &bench->cluster;
    uint64_t before_ns = cluster->master_runs ? env_child_cpu_ns(&cluster->master) : 0;

    if (!run_round(bench, side, index))
        return false;
    if (before_ns > 0 && bench->last_items > 0)
        server_ns[index] =
            (double)(env_child_cpu_ns(&cluster->master) - before_ns) / (double)bench->last_items;
    return true;
}

static void show_progress(const struct bench *bench, const struct bench_row *row, uint32_t done)
{
    char size[32];

    if (!env_is_terminal(2))
        return;
    fprintf(stderr, "\r\033[K%s %s x %u, %s: round %u of %u", bench_op_name(row->op),
            cli_bytes_text(row->size, size), row->batch, bench_transport_name(row->transport), done,
            (uint32_t)bench->cli->bench.rounds);
}

static void clear_progress(void)
{
    if (env_is_terminal(2))
        fputs("\r\033[K", stderr);
}

void bench_spread(double *rates, uint32_t count, double to[3])
{
    qsort(rates, count, sizeof(rates[0]), by_rate);
    to[0] = rates[0];
    to[1] = rates[count / 2];
    to[2] = rates[count - 1];
}

static bool run_rounds(struct bench *bench, const struct bench_row *row, struct side sides[2],
                       struct bench_result *result)
{
    uint32_t rounds = (uint32_t)bench->cli->bench.rounds;
    double server_ns[BENCH_ROUNDS_MAX] = {0};
    double spread_ns[3];

    for (uint32_t i = 0; i < rounds; i++) {
        show_progress(bench, row, i + 1);
        if (!run_operation(bench, &sides[0], i, server_ns) ||
            (sides[1].ops != NULL && !run_round(bench, &sides[1], i)))
            return false;
    }
    bench_spread(sides[0].rates, rounds, result->rate);
    quantiles(&sides[0].samples, &result->p50_us, &result->p99_us);
    result->wire_bytes = sides[0].wire_bytes;
    bench_spread(sides[0].cpu_ns, rounds, spread_ns);
    result->cpu_ns = spread_ns[1];
    if (sides[1].ops != NULL) {
        result->limit = sides[1].ops->name;
        bench_spread(sides[1].rates, rounds, result->limit_rate);
        quantiles(&sides[1].samples, &result->limit_p50_us, &result->limit_p99_us);
        result->limit_wire_bytes = sides[1].wire_bytes;
        bench_spread(sides[1].cpu_ns, rounds, spread_ns);
        result->limit_cpu_ns = spread_ns[1];
    }
    if (row->op == BENCH_EXISTS) {
        bench_spread(server_ns, rounds, spread_ns);
        result->server_ns_per_key = spread_ns[1];
    }
    return true;
}

/* The table alone, in the same minutes as the master's. */
static bool measure_table(struct bench *bench, const struct bench_row *row,
                          struct bench_result *result)
{
    double bytes;

    if (row->op != BENCH_EXISTS)
        return true;
    show_progress(bench, row, 0);
    result->table_ns_per_key =
        bench_table_measure(bench, bench->objects, BENCH_KEY_SIZE, row->batch, &bytes);
    return result->table_ns_per_key > 0;
}

/* A limit program that says less than the operation is none. */
static bool is_honest(struct bench *bench, const struct bench_result *result)
{
    double more = (double)result->wire_bytes;
    double less = (double)result->limit_wire_bytes;

    if (bench->cli->master_given || result->limit == NULL || less == 0 ||
        (less > more * 0.99 && less < more * 1.01))
        return true;
    cli_error(bench->cli,
              "the limit program moves %.0f bytes a call, the operation %.0f: "
              "their ratio would mean nothing",
              less, more);
    return false;
}

static int run_row(struct bench *bench, const struct bench_row *row)
{
    struct bench_result result = {0};
    struct side sides[2] = {0};
    bool good;

    choose_sides(row, sides);
    show_progress(bench, row, 0);
    good = open_side(bench, row, &sides[0]) &&
           (sides[1].ops == NULL || open_side(bench, row, &sides[1])) &&
           run_rounds(bench, row, sides, &result);
    close_side(&sides[0]);
    close_side(&sides[1]);
    good = good && measure_table(bench, row, &result);
    clear_progress();
    if (!good || !is_honest(bench, &result))
        return CLI_FAILED;
    bench_report_row(bench, row, &result);
    return CLI_DONE;
}

/* ---- which rows ----------------------------------------------------------------------------- */

static const struct bench_row rows[] = {
#define ROW(op, size, batch, threads, transport, depth, replicas, target) \
    {BENCH_##op, size, batch, threads, SNOW_TRANSPORT_##transport, depth, replicas, target},
#include "cli/bench_rows.def"
#undef ROW
};

static bool is_chosen(const struct bench *bench, const struct bench_row *row)
{
    const struct bench_options *options = &bench->cli->bench;

    return (options->op == BENCH_ANY || options->op == (uint32_t)row->op) &&
           (options->size_bytes == 0 || options->size_bytes == row->size) &&
           (options->batch == 0 || options->batch == row->batch) &&
           (options->threads == 0 || options->threads == row->threads) &&
           (bench->cli->options.transport == SNOW_TRANSPORT_ANY ||
            bench->cli->options.transport == (uint32_t)row->transport) &&
           (options->depth == 0 || options->depth == row->depth) &&
           (options->copies == 0 || options->copies == row->replicas);
}

static uint32_t or_else(uint64_t chosen, uint32_t usual)
{
    return chosen == 0 ? usual : (uint32_t)chosen;
}

/* No row of the list is like that: one of its own. */
static bool make_row(const struct bench *bench, struct bench_row *row)
{
    const struct bench_options *options = &bench->cli->bench;
    bool moves = options->op == BENCH_PUT || options->op == BENCH_GET;

    *row =
        (struct bench_row){.op = (enum bench_op)or_else(options->op, BENCH_GET),
                           .size = options->size_bytes == 0 ? 1 * MIB : options->size_bytes,
                           .batch = or_else(options->batch, moves ? 32 : 1),
                           .threads = or_else(options->threads, 1),
                           .transport = (enum snow_transport)or_else(bench->cli->options.transport,
                                                                     SNOW_TRANSPORT_TCP),
                           .depth = or_else(options->depth, 1),
                           .replicas = or_else(options->copies, 1)};
    if (row->op == BENCH_EXISTS || row->op == BENCH_RING)
        row->size = 0;
    if (row->op == BENCH_VIEW)
        row->transport = SNOW_TRANSPORT_SHM;
    if (row->op == BENCH_MEMCPY || row->op == BENCH_RING) {
        row->transport = SNOW_TRANSPORT_SHM;
        return row->depth == 1 && row->replicas == 1 &&
               (row->op == BENCH_MEMCPY || row->threads == 1);
    }
    return (row->op == BENCH_PUT || row->replicas == 1) &&
           (row->op != BENCH_VIEW || row->depth == 1) &&
           row->size * row->batch * row->depth * row->threads <= 4 * GIB;
}

static int run_rows(struct bench *bench)
{
    struct bench_row own;
    uint32_t chosen = 0;
    int result = CLI_DONE;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        chosen += is_chosen(bench, &rows[i]);
    if (chosen == 0 && !make_row(bench, &own)) {
        cli_error(bench->cli, "there is no such row: get, exists and view know one copy, view, "
                              "memcpy and ring no depth, and a call has at most 4 GiB");
        return CLI_USAGE;
    }
    bench_report_begin(bench);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && result == CLI_DONE; i++) {
        if (is_chosen(bench, &rows[i]))
            result = run_row(bench, &rows[i]);
    }
    if (chosen == 0)
        result = run_row(bench, &own);
    bench_report_end(bench);
    return result;
}

int command_bench(struct cli *cli)
{
    struct bench bench = {.cli = cli};
    int result;

    if (cli->argument_count > 0 && strcmp(cli->arguments[0], "core") == 0)
        return bench_core(cli);
    if (cli->argument_count > 0 && strcmp(cli->arguments[0], "evict") == 0)
        return bench_evict(&bench);
    if (cli->argument_count > 0 && strcmp(cli->arguments[0], "groups") == 0) {
        bench.run = env_random(cli->env);
        return bench_groups(&bench);
    }
    if (cli->argument_count > 0) {
        cli_error(cli,
                  "%s: measures nothing; there is: core, evict, groups, or nothing for operations",
                  cli->arguments[0]);
        return CLI_USAGE;
    }
    if (cli->bench.peer_bytes > 0)
        return bench_peer(cli);
    bench.objects = cli->bench.objects;
    bench.run = env_random(cli->env);
    result = cli->bench.op == BENCH_IDLE ? bench_idle(&bench) : run_rows(&bench);
    bench_cluster_stop(&bench);
    return result;
}
