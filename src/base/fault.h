/* Planted faults: places in the code that misbehave when the simulator asks, never elsewhere. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdint.h>

enum fault {
#define FAULT_ROW(name, checker, text) FAULT_##name,
#include "base/faults.def"
#undef FAULT_ROW
    FAULT_COUNT
};

/* A set of planted faults: bit by bit.  0 outside the simulator. */
typedef uint32_t fault_set;

/* True when this fault is planted in the set. */
#define FAULT(set, name) (__builtin_expect(((set) >> FAULT_##name) & 1u, 0))

#endif
