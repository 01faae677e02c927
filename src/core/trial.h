/* Trials: shadows beside the pool, on a sample of its units; which rule serves best, and what more
 * or less memory would hit.
 *
 * Problem.  No rule wins everywhere: reuse-rate classes learn from the past, which may end at once;
 *           a loop larger than the pool never hits whatever keeps to the order of uses.
 * Idea.     All rules run as shadows of the pool's size.  Each races against the one that the pool
 *           has: from the time when it last was behind.  The pool is handed to one that leads by 3
 *           deviations (uses are counted in batches, since the blocks of a chain hit or miss
 *           together) and by one point of hit ratio, over at least one turnover; or by ten points
 *           over a quarter of the pool.  When the scores cease to hit, from one batch to the next
 *           and for two of them, the hot set changed: the oldest go first until the scores have
 *           won again.  Shadows of 1/2, 2 and 4 times the size with the pool's rule give the
 *           miss-ratio curve, on half of the sample: what they hit more or less than the shadow of
 *           the pool is added to what the pool itself hits, so that which units are in the sample
 *           hardly matters.
 * Invariants.
 *   T1  The sample holds at least TRIAL_SAMPLE_MIN units of a full pool, or all of them, and less
 *       than TRIAL_SAMPLE_END: memory is bounded, and so is what trials cost a use: in pools of
 *       more than a few thousand units, a small part of what its eviction costs.
 * Threads.  The core's own. */
#ifndef CORE_TRIAL_H
#define CORE_TRIAL_H

#include "core/shadow.h"

#define TRIAL_SAMPLE_MIN 512u  /* units */
#define TRIAL_SAMPLE_END 1152u /* of a larger sample half is left out */

/* The shadows: one for each rule, then the other sizes. */
enum trial_shadow { TRIAL_HALF = SHADOW_RULES, TRIAL_DOUBLE, TRIAL_FOURFOLD, TRIAL_SHADOWS };

/* What a rule gained on the pool's since it last was behind. */
struct trial_race {
    double uses;
    double lead;      /* hits more than the pool's rule */
    double spread;    /* squares of the leads of all batches, added up */
    uint64_t evicted; /* trial->evicted when it began */
    int32_t batch;    /* lead in the batch under way */
};

/* Whether the pool's rule has ceased to hit at all. */
struct trial_fall {
    double batches;  /* that the means are of; at most FALL_BATCHES */
    double hits;     /* of a batch, in the mean */
    double variance; /* of these */
    uint32_t run;    /* batches in a row, up to the last, that hit next to nothing */
};

struct trial {
    struct shadow shadows[TRIAL_SHADOWS];
    enum shadow_rule rule; /* of the pool */
    bool fixed;            /* the rule stays */
    uint32_t shift;        /* one unit of 2^shift is in the sample */
    struct trial_race races[SHADOW_RULES];
    struct trial_fall fall;
    uint32_t batch;   /* uses in the batch under way */
    uint32_t hits;    /* of the pool's rule in it */
    uint64_t evicted; /* units, of the whole pool, so far */
    /* Of the curve: halved every so many uses. */
    double curve_uses;
    double curve_hits[TRIAL_SHADOWS];
    double pool_uses; /* of all units, for as long */
    double pool_hits;
};

/* fixed: the pool keeps this rule, whatever leads. */
MUST_CHECK enum snow_status trial_init(struct trial *trial, enum shadow_rule rule, bool fixed);
void trial_deinit(struct trial *trial);

/* The pool can hold so many units now. */
void trial_resize(struct trial *trial, uint64_t units);
bool trial_samples(const struct trial *trial, uint64_t hash);
/* A real use of any unit.  hit: the pool had it. */
static inline void trial_count(struct trial *trial, bool hit)
{
    trial->pool_uses++;
    trial->pool_hits += hit;
}

/* A use of a unit of the sample.  True: the pool is to have another rule from now on. */
bool trial_use(struct trial *trial, const struct reuse *reuse, const struct shadow_use *use,
               uint64_t units);
/* Hit ratio of units in parts of 10,000, of a pool of this size. */
uint32_t trial_ratio(const struct trial *trial, enum trial_shadow shadow);
uint64_t trial_memory(const struct trial *trial); /* bytes */
void trial_check(const struct trial *trial);

#endif
