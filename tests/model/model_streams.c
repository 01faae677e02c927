/* Streams that one rule of eviction alone does not serve: what reuse-rate classes and their trial
 * make of them, on a real core.  docs/eviction.md names them. */
#include "client/depths.h"
#include "eviction_core.h"

/* A chain of keys in a row from `first` on. */
static uint32_t play_chain(struct bed *bed, uint32_t first, uint32_t count, uint32_t depth)
{
    uint32_t keys[BED_ITEMS];

    for (uint32_t i = 0; i < count; i++)
        keys[i] = first + i;
    return bed_play(bed, keys, count, BED_ITEMS, depth);
}

static double percent(uint64_t part, uint64_t whole)
{
    return 100 * (double)part / (double)whole;
}

/* ---- a loop that does not fit ---- */

#define LOOP_POOL 5000u

static double play_loop(uint32_t policy, uint32_t length, uint32_t depth, uint32_t passes)
{
    struct bed *bed = bed_open(policy, LOOP_POOL, BED_RESERVE, 2 * LOOP_POOL);
    uint32_t chains = LOOP_POOL * 11 / 10 / length;
    uint64_t hits = 0;

    for (uint32_t pass = 0; pass < passes; pass++) {
        for (uint32_t chain = 0; chain < chains; chain++)
            hits += play_chain(bed, chain * length, length, depth);
    }
    bed_close(bed);
    return percent(hits, (uint64_t)passes * chains * length);
}

static void test_loop(void **state)
{
    (void)state;
    for (uint32_t length = 1; length <= 128; length *= 16) {
        assert_true(play_loop(CORE_POLICY_RRC, length, 0, 12) >= 70);
        assert_true(play_loop(CORE_POLICY_RRC, length, BED_UNKNOWN, 12) >= 70);
    }
    assert_true(play_loop(CORE_POLICY_LRU, 16, 0, 3) < 1); /* so it is hard */
}

/* ---- a scan ---- */

#define SCAN_POOL 4000u
#define SCAN_HOT 1000u
#define SCAN_KEYS 1000000u

/* Hits of the hot set while others are put once each, one chain of 50 for each of the hot set. */
static double play_scan(uint32_t policy, uint32_t scanned)
{
    struct bed *bed = bed_open(policy, SCAN_POOL, BED_RESERVE, SCAN_HOT + scanned + BED_ITEMS);
    struct rng rng;
    uint64_t hits = 0;
    uint64_t uses = 0;

    rng_init(&rng, 11);
    for (uint32_t i = 0; i < 10 * SCAN_HOT / 10; i++)
        play_chain(bed, (uint32_t)rng_below(&rng, SCAN_HOT / 10) * 10, 10, 0);
    for (uint32_t at = 0; at < scanned; at += 50) {
        play_chain(bed, SCAN_HOT + at, 50, 0);
        hits += play_chain(bed, (uint32_t)rng_below(&rng, SCAN_HOT / 10) * 10, 10, 0);
        uses += 10;
    }
    bed_close(bed);
    return percent(hits, uses);
}

static void test_scan(void **state)
{
    (void)state;
    assert_true(play_scan(CORE_POLICY_RRC, SCAN_KEYS) >= 95);
    assert_true(play_scan(CORE_POLICY_LRU, SCAN_KEYS / 20) < 75);
}

/* ---- the hot set changes at once ---- */

#define HOT_POOL 5000u
#define HOT_CHAIN 10u

struct phase {
    double before;
    double after;
};

/* Chains of a hot set of 0.8 pools with a part that comes once; then another hot set. */
static struct phase play_change(uint32_t policy, uint32_t share)
{
    struct bed *bed = bed_open(policy, HOT_POOL, BED_RESERVE, 2000000);
    uint32_t chains = HOT_POOL / 100 * share / HOT_CHAIN;
    uint32_t cold = 100000;
    uint64_t hits = 0;
    uint64_t uses = 0;
    struct phase phase = {0};
    struct rng rng;

    rng_init(&rng, 13);
    for (uint32_t part = 0; part < 2; part++) {
        uint64_t start;

        for (uint32_t i = 0; part == 0 && i < 20 * chains; i++) {
            if (i == 10 * chains)
                hits = uses = 0;
            hits += play_chain(bed, (uint32_t)rng_below(&rng, chains) * HOT_CHAIN, HOT_CHAIN, 0);
            play_chain(bed, cold, HOT_CHAIN, 0);
            cold += HOT_CHAIN;
            uses += 2 * HOT_CHAIN;
        }
        if (part == 0)
            phase.before = percent(hits, uses);
        hits = uses = 0;
        start = bed->evictions;
        while (part == 1 && bed->evictions - start < 2 * HOT_POOL) {
            hits += play_chain(bed, 50000 + (uint32_t)rng_below(&rng, chains) * HOT_CHAIN,
                               HOT_CHAIN, 0);
            play_chain(bed, cold, HOT_CHAIN, 0);
            cold += HOT_CHAIN;
            uses += 2 * HOT_CHAIN;
        }
    }
    phase.after = percent(hits, uses);
    bed_close(bed);
    return phase;
}

/* Points by which it is behind LRU over the two turnovers after the change. */
static double falls_behind(uint32_t share)
{
    struct phase rrc = play_change(CORE_POLICY_RRC, share);
    struct phase lru = play_change(CORE_POLICY_LRU, share);

    assert_true(rrc.before >= lru.before - 1);
    return lru.after - rrc.after;
}

static void test_change(void **state)
{
    (void)state;
    for (uint32_t share = 10; share <= 100; share += 20)
        assert_true(falls_behind(share) <= 2);
}

/* ---- speed, and calls of other lengths ---- */

struct played {
    double hits;      /* percent */
    uint64_t evicted; /* a hash over what was evicted, in order */
};

static struct played play_requests(uint64_t step_ns, uint32_t split)
{
    struct bed *bed = bed_open(CORE_POLICY_RRC, 1000, BED_RESERVE, 1u << 18);
    FILE *file = bed_trace_open("conversation");
    uint32_t keys[BED_ITEMS];
    uint64_t hits = 0;
    uint64_t uses = 0;

    bed->step_ns = step_ns;
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t count = bed_trace_next(file, keys);

        hits += bed_play(bed, keys, count, split, 0);
        uses += count;
    }
    fclose(file);
    struct played played = {.hits = percent(hits, uses), .evicted = bed->evicted_hash};

    assert_true(bed->evictions > 40000);
    bed_close(bed);
    return played;
}

static void test_speed(void **state)
{
    struct played once = play_requests(1000, BED_ITEMS);
    struct played slow = play_requests(10 * 1000, BED_ITEMS);
    struct played fast = play_requests(10, BED_ITEMS);

    (void)state;
    assert_int_equal(once.evicted, slow.evicted);
    assert_int_equal(once.evicted, fast.evicted);
}

static void test_splits(void **state)
{
    struct played whole = play_requests(1000, BED_ITEMS);

    (void)state;
    for (uint32_t split = 128; split > 0; split = split == 128 ? 16 : split == 16 ? 1 : 0) {
        assert_true(play_requests(1000, split).hits > whole.hits - 0.25);
    }
}

/* ---- depths that only look-ups told ---- */

enum depth_from { FROM_NOTHING, FROM_CALLER, FROM_LOOK_UP };

/* The chain is looked up whole; what is not there is put page by page, and continues nothing. */
static uint32_t play_pages(struct bed *bed, const uint32_t *keys, uint32_t count,
                           enum depth_from from, struct client_depths *depths)
{
    uint32_t found = bed_look_up(bed, keys, count, 0, 0);

    for (uint32_t i = 0; i < count; i++) {
        if (!bed->there[keys[i]])
            client_depths_note(depths, bed_name(keys[i], 0), i);
    }
    if (found > 0)
        bed_look_up(bed, keys, found, WIRE_LOOKUP_TOUCH, ++bed->operation);
    for (uint32_t i = found; i < count; i++) {
        uint32_t depth = from == FROM_CALLER    ? i
                         : from == FROM_LOOK_UP ? client_depths_find(depths, bed_name(keys[i], 0))
                                                : BED_UNKNOWN;

        bed_put_start(bed, keys + i, 1, depth, 0);
        bed_put_end(bed, keys + i, 1, 0);
    }
    return found;
}

static double play_depths(enum depth_from from)
{
    struct bed *bed = bed_open(CORE_POLICY_RRC, 1000, BED_RESERVE, 1u << 18);
    FILE *file = bed_trace_open("conversation");
    struct client_depths depths = {0};
    uint32_t keys[BED_ITEMS];
    uint64_t hits = 0;
    uint64_t uses = 0;

    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t count = bed_trace_next(file, keys);

        hits += play_pages(bed, keys, count, from, &depths);
        uses += count;
    }
    fclose(file);
    bed_close(bed);
    client_depths_deinit(&depths);
    return percent(hits, uses);
}

static void test_depths(void **state)
{
    double remembered = play_depths(FROM_LOOK_UP);

    (void)state;
    assert_true(remembered > play_depths(FROM_CALLER) - 0.25);
    assert_true(remembered > play_depths(FROM_NOTHING) + 0.4);
}

/* ---- the curve ---- */

/* Hit ratio of objects, in percent, of chains of which some are used far more often than others. */
static double play_skewed(struct bed *bed)
{
    uint64_t before_uses = 0;
    uint64_t before_hits = 0;
    uint64_t uses = 0;
    uint64_t hits = 0;
    struct rng rng;

    rng_init(&rng, 17);
    for (uint32_t i = 0; i < 40000; i++) {
        uint32_t chain = (uint32_t)rng_below(&rng, rng_below(&rng, rng_below(&rng, 20000) + 1) + 1);

        if (i == 20000) {
            before_uses = uses;
            before_hits = hits;
        }
        for (uint32_t j = 0; j < 5; j++)
            hits += bed->there[chain * 5 + j];
        play_chain(bed, chain * 5, 5, 0);
        uses += 5;
    }
    return percent(hits - before_hits, uses - before_uses);
}

static void compare_curve(uint32_t policy, uint64_t capacity)
{
    struct bed *bed = bed_open(policy, capacity, BED_RESERVE, 100000);
    struct trial *trial = &bed->core->trial;
    double now = play_skewed(bed);
    double at_half = trial_ratio(trial, TRIAL_HALF) / 100.0;
    double at_once = trial_ratio(trial, (enum trial_shadow)trial->rule) / 100.0;
    double at_double = trial_ratio(trial, TRIAL_DOUBLE) / 100.0;
    double at_fourfold = trial_ratio(trial, TRIAL_FOURFOLD) / 100.0;

    assert_true(trial_memory(trial) < 2 * MIB);
    bed_close(bed);
    bed = bed_open(policy, capacity * 2, BED_RESERVE, 100000);
    double twice = play_skewed(bed);

    bed_close(bed);
    bed = bed_open(policy, capacity / 2, BED_RESERVE, 100000);
    double half = play_skewed(bed);

    bed_close(bed);
    assert_true(at_half > half - 3 && at_half < half + 3);
    assert_true(at_once > now - 3 && at_once < now + 3);
    assert_true(at_double > twice - 3 && at_double < twice + 3);
    assert_true(at_fourfold >= at_double);
}

static void test_curve(void **state)
{
    (void)state;
    compare_curve(CORE_POLICY_RRC, 12000); /* of a sample */
    compare_curve(CORE_POLICY_LRU, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),  cmocka_unit_test(test_scan),   cmocka_unit_test(test_change),
        cmocka_unit_test(test_speed), cmocka_unit_test(test_splits), cmocka_unit_test(test_depths),
        cmocka_unit_test(test_curve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
