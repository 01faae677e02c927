/* A small seeded generator (xoshiro256**, Blackman and Vigna, public domain; seeded by splitmix64).
 * Not for secrets: those come from env_random. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* Uniform in 0 .. bound-1; bound > 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* Uniform in low .. high, both included. */
uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high);
/* True with a chance of numerator / denominator. */
bool rng_chance(struct rng *rng, uint64_t numerator, uint64_t denominator);

#endif
