/* Reuse-rate classes: how soon a unit is used again, by how often it was used and how deep it
 * stands in its chain.
 *
 * Problem.  What will be used soonest should stay; only the past is known.
 * Idea.     Units of one class (5 of use counts x 5 of depths) behave alike.  Each class counts
 *           entries n, reuses r, and the sum s of the times to reuse.  With p = r / n, t = s / r
 *           and age a:  e = p exp(-a / t),  score = e / (e + 1 - p) / t:  the rate of reuse that is
 *           to be expected now.  docs/eviction.md has the figures.
 * Invariants.
 *   U1  Time is the number of touches (core->touches), never the clock.
 *   U2  In the table of scores more uses, less depth and less age never score lower; the class of
 *       unknown depth keeps this for uses and age.
 *   U3  Counts are halved every REUSE_HALVING entries: the past fades.
 * Threads.  The core's own. */
#ifndef CORE_REUSE_H
#define CORE_REUSE_H

#include <stdbool.h>
#include <stdint.h>

#define REUSE_USES 5u    /* 1, 2, 3, 4, 5 or more uses */
#define REUSE_DEPTHS 5u  /* 0, 1-7, 8-31, 32 or more, unknown */
#define REUSE_UNKNOWN 4u /* depth class; its statistics are those of all depths */
#define REUSE_BINS 132u  /* of ages: four per doubling, from a quarter of a touch */
#define REUSE_CLASSES (REUSE_USES * REUSE_DEPTHS)
#define REUSE_HALVING 20000u /* entries */
#define REUSE_REBUILD 2000u  /* touches between two tables of scores */

struct reuse_counts {
    double entries;
    double reuses;
    double time; /* touches to these reuses, added up */
};

struct reuse {
    struct reuse_counts counts[REUSE_CLASSES];
    double prior;      /* reuses that are left of those that each class began with */
    uint32_t entries;  /* since the last halving */
    bool built;        /* there is a table of scores */
    uint64_t built_at; /* touches */
    float scores[REUSE_CLASSES][REUSE_BINS];
};

void reuse_init(struct reuse *reuse);

/* Class of a unit: uses from 1 on, depth as an object keeps it. */
uint32_t reuse_class(uint32_t uses, uint16_t depth);

/* A unit became one of this class. */
void reuse_entered(struct reuse *reuse, uint32_t class);
/* A unit of this class was used again, so many touches after the last time. */
void reuse_used(struct reuse *reuse, uint32_t class, uint32_t after);
/* Makes the table of scores if it is time to.  units: that the pool holds. */
void reuse_prepare(struct reuse *reuse, uint64_t touches, uint64_t units);

/* Bin of an age in touches. */
uint32_t reuse_bin(uint32_t age);

static inline float reuse_score(const struct reuse *reuse, uint32_t class, uint32_t age)
{
    return reuse->scores[class][reuse_bin(age)];
}

#endif
