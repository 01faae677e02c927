/* A master that starts again. */
#ifndef TESTS_UNIT_CORE_RESTART_H
#define TESTS_UNIT_CORE_RESTART_H

#include "harness.h"

/* The master is gone and comes back with the next term; it expects these nodes. */
static inline void world_restart(struct world *world)
{
    static struct core_expected expected[LIMIT_NODES];

    world->start.expected_count = core_expected_count(world->core);
    for (uint32_t i = 0; i < world->start.expected_count; i++)
        expected[i] = core_expected_at(world->core, i);
    world->start.expected = expected;
    world->start.term = core_term(world->core) + 1;
    world_close(world);
    for (uint32_t i = 0; i < world->node_count; i++)
        world->nodes[i].linked = false;
    world_open(world);
}

#endif
