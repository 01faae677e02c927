/* Options of the core, one row each in core_options.def. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include <stdint.h>

struct core_options {
    uint32_t policy;            /* enum core_policy */
    uint64_t reserve_bytes;     /* kept free ahead of puts; 0: by the formula */
    uint64_t dead_after_ns;     /* silence after which a node is DEAD */
    uint64_t suspect_after_ns;  /* silence after which a node is SUSPECT */
    uint64_t session_return_ns; /* after a break, before open writes are aborted */
    uint64_t session_end_ns;    /* after a break, before leases and the session end */
    uint64_t lease_min_ns;
    uint64_t lease_max_ns;
    uint64_t hard_pin_percent;  /* of the pool */
};

enum core_policy { CORE_POLICY_LRU, CORE_POLICY_FIFO };

#endif
