/* How much of a pool is of use: pages of mixed models, put until a pool is full and then for many
 * times its size.  What is in use when a put finds no room is the usable share; what is in use all
 * the time tells what making runs costs. */
#include "../unit/core/harness.h"

#include "base/rng.h"

#define POOL (2 * GIB)
#define PUTS 9000u
#define PHASE 600u /* puts, then others are the most frequent sizes */
#define PHASE_LEVELS 3u
#define PHASE_STEP 9u
#define LEVELS 14u /* sizes from 4 KiB to 32 MiB, as many on each level */

struct shares {
    double sum;
    double always; /* sum over all puts of the second half */
    double lowest;
    uint32_t count;
};

/* KV pages of mixed models: log-uniform, multiples of 4 KiB; now and then one that is none.
 * When they change, most are of a few sizes for a while, then of others. */
static uint64_t page_size(struct rng *rng, uint32_t number, bool changing)
{
    uint64_t level = rng_below(rng, LEVELS);

    if (changing && rng_chance(rng, 3, 4))
        level = (number / PHASE * PHASE_STEP + level % PHASE_LEVELS) % LEVELS;
    uint64_t size = 4 * KIB << level;

    size += rng_below(rng, size) / (4 * KIB) * (4 * KIB);
    return rng_chance(rng, 1, 8) ? size - rng_below(rng, 4 * KIB) : size;
}

static void put_page(struct world *world, uint64_t session, uint32_t number, uint64_t size,
                     struct shares *shares)
{
    uint64_t evicted = world_metric(world, "evicted_objects");
    double used = (double)world_metric(world, "used_bytes") / (double)POOL;
    char *key = world_take(world, 1, 16);
    struct world_request *request;

    snprintf(key, 16, "p%u", number);
    request = put_send(world, session, put_message(world, number + 1, key, size), 1000);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), size, &request->grants[0], 0);
    request = put_end_gen(world, session, key, request->grants[0].gen, 1);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    if (number >= PUTS / 2)
        shares->always += (double)world_metric(world, "used_bytes") / (double)POOL;
    if (world_metric(world, "evicted_objects") == evicted)
        return;
    shares->sum += used;
    shares->lowest = used < shares->lowest ? used : shares->lowest;
    shares->count++;
}

/* Half of the uses are of what is young: the order of victims is not that of places. */
static void use(struct world *world, uint64_t session, uint32_t put_count, struct rng *rng)
{
    char *name = world_take(world, 1, 16);
    const char *key = name;

    snprintf(name, 16, "p%u", (uint32_t)rng_below(rng, put_count));
    lookup_send(world, session, 0, WIRE_LOOKUP_TOUCH, &key, 1);
}

static void play(bool changing)
{
    struct shares shares = {.lowest = 1};
    struct small_world *small = calloc(1, sizeof(*small));
    struct world *world = &small->world;
    uint64_t put_bytes = 0;
    struct rng rng;

    rng_init(&rng, 1);
    world_init(world);
    world_open(world);
    world->unchecked = true;
    small->node = node_start(world, POOL, 65536);
    small->session = session_open(world, 0);
    for (uint32_t i = 0; i < PUTS; i++) {
        uint64_t size = page_size(&rng, i, changing);

        put_page(world, small->session, i, size, &shares);
        put_bytes += size;
        if (i % 9 == 0 && world->token + 4 * PUTS < 4 * WORLD_TOKENS)
            use(world, small->session, i + 1, &rng);
        if (i % 1000 == 0)
            core_check(world->core);
    }
    core_check(world->core);
    uint64_t evicted = world_metric(world, "evicted_bytes");

    print_message(
        "usable: %.2f %% on average, %.2f %% at least, when %u of %u puts had to evict; in "
        "use all the time: %.2f %%; %.1f turnovers, %.1f %% of the evicted bytes for "
        "their place\n",
        100 * shares.sum / shares.count, 100 * shares.lowest, shares.count, PUTS,
        100 * shares.always / (PUTS - PUTS / 2), (double)put_bytes / (double)POOL,
        100 * (double)world_metric(world, "widened_bytes") / (double)evicted);
    assert_true(shares.sum / shares.count >= 0.98);
    world_deinit(world);
    free(small);
}

static void test_usable_share(void **state)
{
    (void)state;
    play(false);
}

static void test_sizes_that_change(void **state)
{
    (void)state;
    play(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usable_share),
        cmocka_unit_test(test_sizes_that_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
