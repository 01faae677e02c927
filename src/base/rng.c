#include "base/rng.h"

#include "base/assert.h"

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t mixed = seed;

        mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->state[i] = mixed ^ (mixed >> 31);
    }
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *state = rng->state;
    uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    ASSERT(bound > 0);
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}

uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high)
{
    ASSERT(low <= high);
    return high - low == UINT64_MAX ? rng_next(rng) : low + rng_below(rng, high - low + 1);
}

bool rng_chance(struct rng *rng, uint64_t numerator, uint64_t denominator)
{
    return rng_below(rng, denominator) < numerator;
}
