/* bench evict: what it costs the master to make room, among few objects and among many.
 *
 * A full segment; every object that is put has another one go.  Beside it the same puts into a
 * segment with room, so that the difference is what going costs; and look-ups, in between and
 * alone. */
#include "cli/bench_table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_SIZE 64u
#define BATCH 128u    /* of a look-up */
#define PUT_BATCH 32u /* less than is kept free in the smallest table: no put waits */
#define PUTS 38400u   /* that are measured: whole batches in each round */
#define LOOKS 2000u   /* look-ups that are timed, of each kind */
#define ROUNDS 5u

struct evict {
    struct bench *bench;
    uint64_t objects;
    int counter; /* of instructions; -1: none */
    struct bench_table table;
    struct rng rng;
    uint64_t next; /* number of the next object that is put */
    uint64_t now_ns;
};

struct cost {
    double ns;           /* of processor time */
    double instructions; /* 0: not known */
};

/* Puts that many objects; what one of them costs. */
static bool put_many(struct evict *evict, uint32_t count, struct cost *cost)
{
    uint64_t before_ns = env_cpu_ns();
    uint64_t before = evict->counter < 0 ? 0 : env_instructions_read(evict->counter);

    for (uint32_t done = 0; done < count; done += PUT_BATCH) {
        if (!bench_table_put(&evict->table, evict->next, PUT_BATCH))
            return false;
        evict->next += PUT_BATCH;
    }
    cost->ns = (double)(env_cpu_ns() - before_ns) / count;
    cost->instructions =
        evict->counter < 0 ? 0 : (double)(env_instructions_read(evict->counter) - before) / count;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* The 99th of 100 of look-ups of BATCH keys among the youngest half, in microseconds; between each
 * two of them a batch is put, or not.  0: failed. */
static double look_many(struct evict *evict, bool puts)
{
    struct env *env = evict->bench->cli->env;
    struct wire_key keys[BATCH];
    uint8_t bytes[BATCH * KEY_SIZE];
    double *took = calloc(LOOKS, sizeof(*took));
    double p99 = 0;
    bool good = took != NULL;

    for (uint32_t i = 0; i < LOOKS && good; i++) {
        struct wire_lookup_req lookup = {.flags = WIRE_LOOKUP_UNORDERED,
                                         .keys = keys,
                                         .keys_count = BATCH};
        uint64_t from_ns;

        if (puts)
            good = bench_table_put(&evict->table, evict->next, PUT_BATCH);
        evict->next += puts ? PUT_BATCH : 0;
        for (uint32_t k = 0; k < BATCH; k++) {
            uint64_t number = evict->next - 1 - rng_below(&evict->rng, evict->objects / 2);

            bench_key(0, number, bytes + k * KEY_SIZE, KEY_SIZE);
            keys[k].key = bytes_of(bytes + k * KEY_SIZE, KEY_SIZE);
        }
        from_ns = env_now_ns(env);
        bench_table_step(&evict->table, WIRE_lookup, &lookup);
        took[i] = (double)(env_now_ns(env) - from_ns) / 1e3;
    }
    if (good) {
        qsort(took, LOOKS, sizeof(took[0]), by_value);
        p99 = took[LOOKS * 99 / 100];
    }
    free(took);
    return p99;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

static bool open_filled(struct evict *evict, uint64_t slots)
{
    bool good = bench_table_open(&evict->table, KEY_SIZE, slots * BENCH_OBJECT_SIZE,
                                 (uint32_t)slots + LIMIT_BATCH_ITEMS);

    evict->next = 0;
    while (good && evict->next < evict->objects) {
        good = bench_table_put(&evict->table, evict->next, BATCH);
        evict->next += BATCH;
    }
    return good;
}

/* Two names for one thing: profilers count the instructions under each (tools/bench_evict).  The
 * lines of assembly, which are comments, keep the compiler from making one function of both, or
 * from leaving them by a jump, which a profiler does not see. */
__attribute__((noinline)) static bool put_with_room(struct evict *evict, struct cost *cost)
{
    bool good = put_many(evict, PUTS / ROUNDS, cost);

    __asm__ volatile("# with room" ::: "memory");
    return good;
}

__attribute__((noinline)) static bool put_when_full(struct evict *evict, struct cost *cost)
{
    bool good = put_many(evict, PUTS / ROUNDS, cost);

    __asm__ volatile("# when full" ::: "memory");
    return good;
}

/* Medians of rounds of puts; *evicted: objects that went for each one that came. */
static bool measure_puts(struct evict *evict, bool (*put)(struct evict *evict, struct cost *cost),
                         struct cost *cost, double *evicted)
{
    double ns[ROUNDS];
    double instructions[ROUNDS];
    uint64_t before = evict->table.forgotten;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct cost one;

        if (!put(evict, &one))
            return false;
        ns[i] = one.ns;
        instructions[i] = one.instructions;
    }
    *cost = (struct cost){.ns = median(ns), .instructions = median(instructions)};
    *evicted = (double)(evict->table.forgotten - before) / PUTS;
    return true;
}

static void print(const struct evict *evict, const struct cost *full, const struct cost *roomy,
                  double evicted, double alone_us, double evicting_us)
{
    double ns = (full->ns - roomy->ns) / evicted;
    double instructions = (full->instructions - roomy->instructions) / evicted;

    if (evict->bench->cli->options.json) {
        json_t *row =
            json_pack("{s:s, s:I, s:i, s:o, s:f, s:f, s:f, s:f, s:f}", "op", "evict", "objects",
                      (json_int_t)evict->objects, "puts", (int)PUTS, "instructions_per_evicted",
                      evict->counter < 0 ? json_null() : json_real(instructions), "ns_per_evicted",
                      ns, "ns_per_put", roomy->ns, "evicted_per_put", evicted, "lookup_p99_us",
                      alone_us, "lookup_p99_us_evicting", evicting_us);
        char *text = json_dumps(row, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));

        puts(text == NULL ? "{}" : text);
        free(text);
        json_decref(row);
    } else {
        char counted[32] = "-";

        if (evict->counter >= 0)
            snprintf(counted, sizeof(counted), "%.0f", instructions);
        printf("%12" PRIu64 " %14s %12.0f %12.0f %14.1f %14.1f %8.2f\n", evict->objects, counted,
               ns, roomy->ns, alone_us, evicting_us, evicting_us / alone_us);
    }
    fflush(stdout);
}

/* In a table with room, then in a full one. */
static bool measure(struct evict *evict)
{
    struct cost roomy;
    struct cost full;
    double evicted;
    double ignored;
    double alone_us;
    double evicting_us;
    bool good;

    good = open_filled(evict, evict->objects + 2 * PUTS + LIMIT_BATCH_ITEMS * 8) &&
           measure_puts(evict, put_with_room, &roomy, &ignored);
    bench_table_close(&evict->table);
    if (!good)
        return false;
    good = open_filled(evict, evict->objects) &&
           measure_puts(evict, put_when_full, &full, &evicted) && evicted > 0.5;
    alone_us = good ? look_many(evict, false) : 0;
    evicting_us = good ? look_many(evict, true) : 0;
    bench_table_close(&evict->table);
    if (!good || alone_us == 0 || evicting_us == 0)
        return false;
    print(evict, &full, &roomy, evicted, alone_us, evicting_us);
    return true;
}

int bench_evict(struct bench *bench)
{
    static const uint64_t sizes[] = {10000, 100000, 1000000, 10000000};
    struct evict evict = {.bench = bench, .counter = env_instructions_open()};
    int result = CLI_DONE;

    if (!bench->cli->options.json)
        printf("%12s %14s %12s %12s %14s %14s %8s\n", "objects", "instr/evicted", "ns/evicted",
               "ns/put", "lookup p99 us", "while evicting", "ratio");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && result == CLI_DONE; i++) {
        if (sizes[i] > bench->cli->bench.objects ||
            (bench->cli->bench.only && sizes[i] != bench->cli->bench.objects))
            continue;
        evict.objects = sizes[i] / BATCH * BATCH;
        rng_init(&evict.rng, 1);
        if (measure(&evict))
            continue;
        cli_error(bench->cli, "%" PRIu64 " objects: out of memory, or a put was refused", sizes[i]);
        result = CLI_FAILED;
    }
    if (evict.counter >= 0)
        env_raw_close(evict.counter);
    return result;
}
