#include "core/reuse.h"

#include "core/state.h"

#include <math.h>
#include <string.h>

#define PRIOR_ENTRIES 1.0
#define PRIOR_REUSES 0.5
#define PRIOR_TURNOVERS 4.0 /* time to reuse, until one was seen: in units that the pool holds */
#define PER_DOUBLING 4u
#define SURE 0.95 /* nothing is surer to be used again: age always tells */

void reuse_init(struct reuse *reuse)
{
    memset(reuse, 0, sizeof(*reuse));
    reuse->prior = PRIOR_REUSES;
    for (uint32_t i = 0; i < REUSE_CLASSES; i++) {
        reuse->counts[i].entries = PRIOR_ENTRIES;
        reuse->counts[i].reuses = PRIOR_REUSES;
    }
}

static uint32_t depth_class(uint16_t depth)
{
    if (depth == CORE_DEPTH_UNKNOWN)
        return REUSE_UNKNOWN;
    return depth == 0 ? 0 : depth < 8 ? 1 : depth < 32 ? 2 : 3;
}

uint32_t reuse_class(uint32_t uses, uint16_t depth)
{
    uint32_t row = uses < 1 ? 0 : uses > REUSE_USES ? REUSE_USES - 1 : uses - 1;

    return row * REUSE_DEPTHS + depth_class(depth);
}

void reuse_entered(struct reuse *reuse, uint32_t class)
{
    reuse->counts[class].entries++;
    if (++reuse->entries < REUSE_HALVING)
        return;
    reuse->entries = 0;
    reuse->prior /= 2;
    for (uint32_t i = 0; i < REUSE_CLASSES; i++) {
        reuse->counts[i].entries /= 2;
        reuse->counts[i].reuses /= 2;
        reuse->counts[i].time /= 2;
    }
}

void reuse_used(struct reuse *reuse, uint32_t class, uint32_t after)
{
    reuse->counts[class].reuses++;
    reuse->counts[class].time += after;
}

uint32_t reuse_bin(uint32_t age)
{
    /* 2^(1/4), 2^(2/4), 2^(3/4), of 2^31. */
    static const uint32_t quarters[] = {2553802834u, 3037000500u, 3611622603u};
    uint32_t bin = 2 * PER_DOUBLING; /* ages begin at a quarter */
    uint32_t high;

    if (age == 0)
        return 0;
    high = 31u - (uint32_t)__builtin_clz(age);
    bin += PER_DOUBLING * high;
    for (uint32_t i = 0; i < 3; i++)
        bin += age << (31 - high) >= quarters[i];
    return bin < REUSE_BINS ? bin : REUSE_BINS - 1;
}

/* What a class is judged by. */
static struct reuse_counts counts_of(const struct reuse *reuse, uint32_t class)
{
    uint32_t row = class / REUSE_DEPTHS;
    struct reuse_counts all = {0};

    if (class % REUSE_DEPTHS != REUSE_UNKNOWN)
        return reuse->counts[class];
    for (uint32_t i = 0; i < REUSE_DEPTHS; i++) {
        all.entries += reuse->counts[row * REUSE_DEPTHS + i].entries;
        all.reuses += reuse->counts[row * REUSE_DEPTHS + i].reuses;
        all.time += reuse->counts[row * REUSE_DEPTHS + i].time;
    }
    return all;
}

static void score_class(struct reuse *reuse, uint32_t class)
{
    struct reuse_counts counts = counts_of(reuse, class);
    double p = counts.reuses / counts.entries;
    double t = counts.time > counts.reuses ? counts.time / counts.reuses : 1;
    double kept[REUSE_BINS]; /* exp(-a / t): that of twice the age is its square */

    p = p < SURE ? p : SURE;
    for (uint32_t bin = 0; bin < REUSE_BINS; bin++) {
        kept[bin] = bin < PER_DOUBLING ? exp(-0.25 * exp2((bin + 0.5) / PER_DOUBLING) / t)
                                       : kept[bin - PER_DOUBLING] * kept[bin - PER_DOUBLING];
        double e = p * kept[bin];

        reuse->scores[class][bin] = (float)(e / (e + 1 - p) / t);
    }
}

static void raise_to(float *score, float other)
{
    if (*score < other)
        *score = other;
}

/* U2 */
static void close_table(struct reuse *reuse)
{
    for (uint32_t row = 0; row < REUSE_USES; row++) {
        for (uint32_t depth = REUSE_DEPTHS; depth-- > 0;) {
            uint32_t class = row * REUSE_DEPTHS + depth;

            for (uint32_t bin = REUSE_BINS; bin-- > 0;) {
                float *score = &reuse->scores[class][bin];

                if (row > 0)
                    raise_to(score, reuse->scores[class - REUSE_DEPTHS][bin]);
                if (depth + 1 < REUSE_UNKNOWN)
                    raise_to(score, reuse->scores[class + 1][bin]);
                if (bin + 1 < REUSE_BINS)
                    raise_to(score, reuse->scores[class][bin + 1]);
            }
        }
    }
}

void reuse_prepare(struct reuse *reuse, uint64_t touches, uint64_t units)
{
    if (reuse->built && touches - reuse->built_at < REUSE_REBUILD)
        return;
    /* How many units the pool holds shows only when it is full: at the first victim. */
    for (uint32_t i = 0; i < REUSE_CLASSES && !reuse->built; i++)
        reuse->counts[i].time += reuse->prior * PRIOR_TURNOVERS * (double)units;
    for (uint32_t i = 0; i < REUSE_CLASSES; i++)
        score_class(reuse, i);
    close_table(reuse);
    reuse->built = true;
    reuse->built_at = touches;
}
