/* Reuse-rate classes as docs/eviction.md tells them, the slow and plain way: every unit in one
 * table, every victim by looking at all of them.  Part of model_eviction.c. */
#ifndef TESTS_MODEL_EVICTION_MODEL_H
#define TESTS_MODEL_EVICTION_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_KEYS 262144u
#define PLAIN_DEPTH_UNKNOWN 65535u

struct plain_counts {
    double n;
    double r;
    double s;
};

struct plain_unit {
    bool readable;
    bool writing;
    uint32_t leases;
    uint32_t uses;
    uint32_t depth;
    uint32_t size;  /* units of memory */
    uint64_t last;  /* touch */
    uint64_t order; /* in which it entered the list of its class */
    uint32_t at;    /* in there, while it is readable */
};

struct plain_ghost {
    uint32_t key;
    uint32_t reuse_class;
    uint32_t uses;
    uint64_t last;
    bool taken;
};

struct plain {
    struct plain_unit units[PLAIN_KEYS];
    uint32_t there[PLAIN_KEYS]; /* keys of those that are readable, in any order */
    uint32_t readable;          /* how many */
    uint32_t writing;
    uint32_t capacity; /* units of memory; as many objects, when all take one */
    uint64_t used;     /* of it, being written ones included */
    uint64_t touches;
    uint64_t orders;
    struct plain_ghost *ghosts; /* oldest first, from ghost_first on */
    uint64_t ghost_first;
    uint64_t ghost_end;
    uint64_t ghost_room;
    struct plain_counts counts[5][5];
    double prior;
    uint32_t entries;
    bool built;
    uint64_t built_at;
    float scores[5][5][132];
};

static inline void plain_init(struct plain *plain, uint32_t capacity)
{
    memset(plain, 0, sizeof(*plain));
    plain->capacity = capacity;
    for (uint32_t i = 0; i < 25; i++)
        plain->counts[i / 5][i % 5] = (struct plain_counts){.n = 1, .r = 0.5};
    plain->prior = 0.5;
}

static inline uint32_t plain_class(uint32_t uses, uint32_t depth)
{
    uint32_t deep = depth == PLAIN_DEPTH_UNKNOWN ? 4
                    : depth >= 32                ? 3
                    : depth >= 8                 ? 2
                    : depth >= 1                 ? 1
                                                 : 0;

    return (uses > 5 ? 5 : uses < 1 ? 1 : uses) * 5 - 5 + deep;
}

static inline void plain_entered(struct plain *plain, uint32_t class)
{
    plain->counts[class / 5][class % 5].n += 1;
    if (++plain->entries % 20000 != 0)
        return;
    plain->prior /= 2;
    for (uint32_t i = 0; i < 25; i++) {
        plain->counts[i / 5][i % 5].n /= 2;
        plain->counts[i / 5][i % 5].r /= 2;
        plain->counts[i / 5][i % 5].s /= 2;
    }
}

static inline void plain_used(struct plain *plain, uint32_t class, uint64_t after)
{
    plain->counts[class / 5][class % 5].r += 1;
    plain->counts[class / 5][class % 5].s += (double)after;
}

static inline void plain_build(struct plain *plain)
{
    if (plain->built && plain->touches - plain->built_at < 2000)
        return;
    for (uint32_t i = 0; i < 25 && !plain->built; i++)
        plain->counts[i / 5][i % 5].s += plain->prior * 4 * plain->capacity;
    plain->built = true;
    plain->built_at = plain->touches;
    for (uint32_t use = 0; use < 5; use++) {
        for (uint32_t deep = 0; deep < 5; deep++) {
            struct plain_counts of = plain->counts[use][deep];
            double kept[132];

            if (deep == 4) {
                of = (struct plain_counts){0};
                for (uint32_t i = 0; i < 5; i++) {
                    of.n += plain->counts[use][i].n;
                    of.r += plain->counts[use][i].r;
                    of.s += plain->counts[use][i].s;
                }
            }
            double p = fmin(0.95, of.r / of.n);
            double t = fmax(1, of.s / of.r);

            for (uint32_t bin = 0; bin < 132; bin++) {
                kept[bin] = bin < 4 ? exp(-0.25 * exp2((bin + 0.5) / 4) / t)
                                    : kept[bin - 4] * kept[bin - 4];
                double e = p * kept[bin];

                plain->scores[use][deep][bin] = (float)(e / (e + 1 - p) / t);
            }
        }
    }
    /* A score is at least that of every one that may not be higher. */
    for (uint32_t use = 0; use < 5; use++) {
        for (uint32_t deep = 5; deep-- > 0;) {
            for (uint32_t bin = 132; bin-- > 0;) {
                float *score = &plain->scores[use][deep][bin];

                if (use > 0)
                    *score = fmaxf(*score, plain->scores[use - 1][deep][bin]);
                if (deep < 3)
                    *score = fmaxf(*score, plain->scores[use][deep + 1][bin]);
                if (bin < 131)
                    *score = fmaxf(*score, plain->scores[use][deep][bin + 1]);
            }
        }
    }
}

static inline float plain_score(const struct plain *plain, const struct plain_unit *unit)
{
    uint64_t age = plain->touches - unit->last;
    uint32_t class = plain_class(unit->uses, unit->depth);
    uint32_t bin = age == 0 ? 0 : (uint32_t)floor(4 * log2(4 * (double)age));

    return plain->scores[class / 5][class % 5][bin < 132 ? bin : 131];
}

/* Whether a goes before b: both are the oldest of their classes. */
static inline bool plain_before(const struct plain *plain, const struct plain_unit *a,
                                const struct plain_unit *b)
{
    float left = plain_score(plain, a);
    float right = plain_score(plain, b);

    if (left < right || left > right)
        return left < right;
    if (a->last != b->last)
        return a->last < b->last;
    return a->uses != b->uses ? a->uses < b->uses : a->depth > b->depth;
}

/* The key that goes next; PLAIN_KEYS: none. */
static inline uint32_t plain_victim(struct plain *plain)
{
    uint32_t oldest[25];
    uint32_t best = PLAIN_KEYS;

    plain_build(plain);
    for (uint32_t i = 0; i < 25; i++)
        oldest[i] = PLAIN_KEYS;
    for (uint32_t i = 0; i < plain->readable; i++) {
        uint32_t key = plain->there[i];
        const struct plain_unit *unit = &plain->units[key];
        uint32_t class = plain_class(unit->uses, unit->depth);

        if (unit->leases == 0 &&
            (oldest[class] == PLAIN_KEYS || unit->order < plain->units[oldest[class]].order))
            oldest[class] = key;
    }
    for (uint32_t i = 0; i < 25; i++) {
        if (oldest[i] != PLAIN_KEYS &&
            (best == PLAIN_KEYS ||
             plain_before(plain, &plain->units[oldest[i]], &plain->units[best])))
            best = oldest[i];
    }
    return best;
}

static inline void plain_remember(struct plain *plain, uint32_t key)
{
    const struct plain_unit *unit = &plain->units[key];
    uint64_t most = 2 * ((uint64_t)plain->readable + plain->writing);

    for (uint32_t i = 0; i < 2 && plain->ghost_end - plain->ghost_first >= most &&
                         plain->ghost_first < plain->ghost_end;
         i++)
        plain->ghost_first++;
    if (plain->ghost_end == plain->ghost_room) {
        plain->ghost_room = plain->ghost_room * 2 + 1024;
        plain->ghosts = realloc(plain->ghosts, plain->ghost_room * sizeof(*plain->ghosts));
    }
    plain->ghosts[plain->ghost_end++] =
        (struct plain_ghost){.key = key,
                             .reuse_class = plain_class(unit->uses, unit->depth),
                             .uses = unit->uses,
                             .last = unit->last};
}

static inline void plain_evict(struct plain *plain, uint32_t key)
{
    uint32_t at = plain->units[key].at;

    plain_remember(plain, key);
    plain->used -= plain->units[key].size;
    plain->units[key].readable = false;
    plain->there[at] = plain->there[--plain->readable];
    plain->units[plain->there[at]].at = at;
}

static inline void plain_touch(struct plain *plain, uint32_t key, bool counts)
{
    struct plain_unit *unit = &plain->units[key];

    plain->touches++;
    if (counts) {
        plain_used(plain, plain_class(unit->uses, unit->depth), plain->touches - unit->last);
        unit->uses += unit->uses < 15;
        plain_entered(plain, plain_class(unit->uses, unit->depth));
    }
    unit->last = plain->touches;
    unit->order = ++plain->orders;
    if (2 * (plain->readable + plain->writing) >= plain->capacity)
        plain_build(plain);
}

/* A write of it ended. */
static inline void plain_insert(struct plain *plain, uint32_t key)
{
    struct plain_unit *unit = &plain->units[key];

    plain->touches++;
    unit->writing = false;
    unit->readable = true;
    plain->writing--;
    unit->at = plain->readable;
    plain->there[plain->readable++] = key;
    unit->uses = 1;
    for (uint64_t i = plain->ghost_first; i < plain->ghost_end; i++) {
        struct plain_ghost *ghost = &plain->ghosts[i];

        if (ghost->key != key || ghost->taken)
            continue;
        ghost->taken = true;
        plain_used(plain, ghost->reuse_class, plain->touches - ghost->last);
        unit->uses = ghost->uses < 15 ? ghost->uses + 1 : 15;
        break;
    }
    plain_entered(plain, plain_class(unit->uses, unit->depth));
    unit->last = plain->touches;
    unit->order = ++plain->orders;
    if (2 * (plain->readable + plain->writing) >= plain->capacity)
        plain_build(plain);
}

#endif
