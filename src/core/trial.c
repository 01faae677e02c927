#include "core/trial.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

#define LEAD_DEVIATIONS 3.0
#define LEAD_RATIO 0.01
#define BACK_DEVIATIONS 1.0 /* over SHADOW_KEEP, which is for loops alone, and leads by far there */
#define SOON_RATIO 0.1
#define SOON_SHARE 0.25    /* of the pool: uses over which at least it is to lead so much */
#define BATCH 32u          /* uses: blocks of a chain hit or miss together */
#define FALL_BATCHES 128.0 /* that are remembered, about */
#define FALL_BATCHES_MIN 64.0
#define FALL_HITS_MIN 4.0   /* of a batch in the mean: else there is little to lose */
#define FALL_RATIO 0.2      /* of the mean: a batch with less is poor */
#define FALL_DEVIATIONS 3.0 /* and so far below the mean */
#define FALL_RUN 2u         /* poor ones in a row */
#define CURVE_TURNOVERS 2.0 /* uses of so many times the sample, then their weight is halved */
#define CURVE_USES_MIN 3000.0
#define RATIO_UNIT 10000.0

enum snow_status trial_init(struct trial *trial, enum shadow_rule rule, bool fixed)
{
    enum snow_status status = SNOW_OK;

    memset(trial, 0, sizeof(*trial));
    trial->rule = rule;
    trial->fixed = fixed;
    for (uint32_t i = 0; i < TRIAL_SHADOWS && status == SNOW_OK; i++)
        status = shadow_init(&trial->shadows[i]);
    return status;
}

void trial_deinit(struct trial *trial)
{
    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        shadow_deinit(&trial->shadows[i]);
}

static uint64_t share_of(uint32_t shadow, uint64_t sampled)
{
    switch (shadow) {
    case TRIAL_HALF:
        return sampled / 2;
    case TRIAL_DOUBLE:
        return sampled * 2;
    case TRIAL_FOURFOLD:
        return sampled * 4;
    default:
        return sampled;
    }
}

void trial_resize(struct trial *trial, uint64_t units)
{
    while (units >> trial->shift >= TRIAL_SAMPLE_END)
        trial->shift++;
    while (trial->shift > 0 && units >> trial->shift < TRIAL_SAMPLE_MIN)
        trial->shift--;
    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        trial->shadows[i].capacity =
            (uint32_t)share_of(i, units >> (trial->shift + (i >= SHADOW_RULES)));
}

bool trial_samples(const struct trial *trial, uint64_t hash)
{
    /* The index takes the upper half of a hash for its tags. */
    return (hash & ((UINT64_C(1) << trial->shift) - 1)) == 0;
}

/* Of the sample, the half that the curve is made of. */
static bool is_of_curve(const struct trial *trial, uint64_t hash)
{
    return (hash >> trial->shift & 1) == 0;
}

/* It leads clearly enough to be handed the pool, which can hold so many units. */
static bool wins(const struct trial *trial, enum shadow_rule rule, uint64_t units)
{
    const struct trial_race *race = &trial->races[rule];
    double most = race->uses > trial->shadows[0].capacity * SOON_SHARE
                      ? race->uses
                      : trial->shadows[0].capacity * SOON_SHARE;

    if (trial->rule == SHADOW_KEEP)
        return race->lead >= BACK_DEVIATIONS * sqrt(race->spread) &&
               race->lead >= LEAD_RATIO * most;
    if (race->lead < LEAD_DEVIATIONS * sqrt(race->spread))
        return false;
    if (race->lead >= SOON_RATIO * most)
        return true;
    return rule != SHADOW_KEEP && race->lead >= LEAD_RATIO * race->uses &&
           trial->evicted - race->evicted >= units;
}

static void begin_race(struct trial *trial, enum shadow_rule rule)
{
    trial->races[rule] = (struct trial_race){.evicted = trial->evicted};
}

/* At the end of a batch: hardly anything of what was hit up to now is used any more. */
static bool has_fallen(struct trial *trial)
{
    struct trial_fall *fall = &trial->fall;
    double below = fall->hits - trial->hits;
    bool poor =
        trial->hits < fall->hits * FALL_RATIO && below >= FALL_DEVIATIONS * sqrt(fall->variance);

    fall->run = poor ? fall->run + 1 : 0;
    if (fall->run >= FALL_RUN && fall->hits >= FALL_HITS_MIN && fall->batches >= FALL_BATCHES_MIN)
        return true;
    if (poor)
        return false; /* the next one tells whether it belongs to what was */
    fall->batches = fall->batches < FALL_BATCHES ? fall->batches + 1 : FALL_BATCHES;
    fall->hits -= below / fall->batches;
    fall->variance += (below * below - fall->variance) / fall->batches;
    return false;
}

/* At the end of a batch: the rule that the pool is to have. */
static enum shadow_rule leader(struct trial *trial, uint64_t units)
{
    enum shadow_rule best = trial->rule;

    for (uint32_t rule = 0; rule < SHADOW_RULES; rule++) {
        struct trial_race *race = &trial->races[rule];

        race->uses += BATCH;
        race->lead += race->batch;
        race->spread += (double)race->batch * race->batch;
        race->batch = 0;
        if (race->lead <= 0)
            begin_race(trial, (enum shadow_rule)rule);
        else if (wins(trial, (enum shadow_rule)rule, units) && race->lead > trial->races[best].lead)
            best = (enum shadow_rule)rule;
    }
    return best;
}

static void count_curve(struct trial *trial, const bool *hit)
{
    double most = CURVE_TURNOVERS * (double)trial->shadows[0].capacity;

    trial->curve_uses++;
    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        trial->curve_hits[i] += hit[i];
    if (trial->curve_uses < most || trial->curve_uses < CURVE_USES_MIN)
        return;
    trial->curve_uses /= 2;
    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        trial->curve_hits[i] /= 2;
    trial->pool_uses /= 2;
    trial->pool_hits /= 2;
}

bool trial_use(struct trial *trial, const struct reuse *reuse, const struct shadow_use *use,
               uint64_t units)
{
    bool of_curve = is_of_curve(trial, use->hash);
    bool hit[TRIAL_SHADOWS];

    for (uint32_t i = 0; i < (of_curve ? TRIAL_SHADOWS : SHADOW_RULES); i++) {
        enum shadow_rule rule = i < SHADOW_RULES ? (enum shadow_rule)i : trial->rule;
        bool idle = trial->fixed && rule != trial->rule;

        hit[i] = !idle && shadow_use(&trial->shadows[i], reuse, rule, use);
    }
    if (!use->counts)
        return false;
    if (of_curve)
        count_curve(trial, hit);
    trial->hits += hit[trial->rule];
    for (uint32_t rule = 0; rule < SHADOW_RULES && !trial->fixed; rule++)
        trial->races[rule].batch += hit[rule] - hit[trial->rule];
    if (trial->fixed || ++trial->batch < BATCH)
        return false;
    trial->batch = 0;
    enum shadow_rule best = leader(trial, units);

    if (has_fallen(trial) && trial->rule == SHADOW_SCORE)
        best = SHADOW_OLDEST;
    trial->hits = 0;
    if (best == trial->rule)
        return false;
    trial->rule = best;
    trial->fall = (struct trial_fall){0};
    for (uint32_t rule = 0; rule < SHADOW_RULES; rule++)
        begin_race(trial, (enum shadow_rule)rule);
    return true;
}

uint32_t trial_ratio(const struct trial *trial, enum trial_shadow shadow)
{
    double more = trial->curve_hits[shadow] - trial->curve_hits[trial->rule];
    double ratio;

    if (trial->curve_uses < 1 || trial->pool_uses < 1)
        return 0;
    ratio = trial->pool_hits / trial->pool_uses + more / trial->curve_uses;
    ratio = ratio < 0 ? 0 : ratio > 1 ? 1 : ratio;
    return (uint32_t)(ratio * RATIO_UNIT);
}

uint64_t trial_memory(const struct trial *trial)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        bytes += shadow_memory(&trial->shadows[i]);
    return bytes;
}

void trial_check(const struct trial *trial)
{
    for (uint32_t i = 0; i < TRIAL_SHADOWS; i++)
        shadow_check(&trial->shadows[i]);
}
