/* The limit of bytes in shared memory: copying from random places. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

#define REGION_CACHES 4u /* the region is that many times the largest cache: nothing is hot */
#define COPY_PER_LOOK (64 * KIB)
#define CALLS_PER_LOOK 16u /* at the clock */

struct copier {
    struct copy_side *side;
    struct rng rng;
    uint8_t *to;
    uint64_t window_ns;
    struct bench_samples *samples; /* NULL: of another thread */
    uint64_t calls;
    uint64_t elapsed_ns;
};

struct copy_side {
    struct bench *bench;
    struct bench_row row;
    struct env_memory region;
    struct copier copiers[BENCH_THREADS_MAX];
};

static void copy_close(void *pointer)
{
    struct copy_side *side = pointer;

    for (uint32_t i = 0; i < side->row.threads; i++)
        free(side->copiers[i].to);
    if (side->region.at != NULL)
        env_memory_close(side->bench->cli->env, &side->region);
    free(side);
}

static void *copy_open(struct bench *bench, const struct bench_row *row)
{
    struct copy_side *side = calloc(1, sizeof(*side));
    uint64_t size = REGION_CACHES * env_cache_bytes() * 2;
    size_t done;
    bool good = side != NULL;

    if (good) {
        side->bench = bench;
        side->row = *row;
        if (size < row->size * 2)
            size = row->size * 2;
        good = env_memory_open(bench->cli->env, NULL, "bench", size, &side->region) == SNOW_OK &&
               env_memory_populate(bench->cli->env, &side->region, 0, size, &done) == SNOW_OK;
        if (good)
            memset(side->region.at, 1, size);
        for (uint32_t i = 0; i < row->threads && good; i++) {
            side->copiers[i].side = side;
            side->copiers[i].to = calloc(row->batch, row->size);
            good = side->copiers[i].to != NULL;
            rng_init(&side->copiers[i].rng, i + 1);
        }
    }
    if (good)
        return side;
    if (side != NULL)
        copy_close(side);
    cli_error(bench->cli, "no memory for a region of %llu bytes", (unsigned long long)size);
    return NULL;
}

static void copy_batch(struct copier *copier)
{
    const struct copy_side *side = copier->side;
    uint64_t size = side->row.size;
    uint64_t places = (side->region.size - size) / 256;

    for (uint32_t i = 0; i < side->row.batch; i++)
        memcpy(copier->to + i * size, side->region.at + rng_below(&copier->rng, places) * 256,
               size);
}

static void copy_work(void *argument)
{
    struct copier *copier = argument;
    struct env *env = copier->side->bench->cli->env;
    const struct bench_row *row = &copier->side->row;
    uint32_t calls = row->batch * row->size >= COPY_PER_LOOK ? 1 : CALLS_PER_LOOK;
    uint64_t from_ns = env_now_ns(env);
    uint64_t now_ns = from_ns;

    copier->calls = 0;
    while (now_ns - from_ns < copier->window_ns) {
        uint64_t began_ns = now_ns;

        for (uint32_t i = 0; i < calls; i++)
            copy_batch(copier);
        copier->calls += calls;
        now_ns = env_now_ns(env);
        if (copier->samples != NULL)
            bench_sample(copier->samples, (now_ns - began_ns) / calls);
    }
    copier->elapsed_ns = now_ns - from_ns;
}

static bool copy_run(void *pointer, uint64_t window_ns, struct bench_round *round,
                     struct bench_samples *samples)
{
    struct copy_side *side = pointer;

    for (uint32_t i = 0; i < side->row.threads; i++) {
        side->copiers[i].window_ns = window_ns;
        side->copiers[i].samples = i == 0 ? samples : NULL;
    }
    if (!bench_threads_run(side->bench, side->row.threads, copy_work, side->copiers,
                           sizeof(side->copiers[0])))
        return false;
    *round = (struct bench_round){0};
    for (uint32_t i = 0; i < side->row.threads; i++) {
        round->items += side->copiers[i].calls * side->row.batch;
        round->elapsed_ns += side->copiers[i].elapsed_ns / side->row.threads;
    }
    return true;
}

const struct bench_side_ops bench_memcpy = {
    .name = "memcpy", .open = copy_open, .run = copy_run, .close = copy_close};
