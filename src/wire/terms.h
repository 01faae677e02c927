/* Numbers and bits that messages carry.  They travel on the wire: append, never renumber. */
#ifndef WIRE_TERMS_H
#define WIRE_TERMS_H

#include <stdint.h>

#define WIRE_DEPTH_UNKNOWN UINT32_MAX
/* What is longer, key and extra block together, lies behind the bytes of part 0 in its extent. */
#define WIRE_KEY_INLINE 96u

enum wire_role {
    WIRE_ROLE_CLIENT = 1,
    WIRE_ROLE_NODE = 2,
    WIRE_ROLE_HEARTBEAT = 3,
    WIRE_ROLE_MASTER = 4
};
enum wire_tier { WIRE_TIER_DRAM = 1, WIRE_TIER_SSD = 2, WIRE_TIER_VRAM = 3 };
enum wire_pin { WIRE_PIN_NONE = 0, WIRE_PIN_SOFT = 1, WIRE_PIN_HARD = 2 };
enum wire_match { WIRE_MATCH_ALL = 0, WIRE_MATCH_PREFIX = 1, WIRE_MATCH_REGEX = 2 };
enum wire_node_state {
    WIRE_NODE_ALIVE = 1,
    WIRE_NODE_SUSPECT = 2,
    WIRE_NODE_RECOVERING = 3,
    WIRE_NODE_DEAD = 4,
    WIRE_NODE_DRAINING = 5 /* alive, and being emptied */
};
enum wire_task_kind { WIRE_TASK_COPY = 1, WIRE_TASK_MOVE = 2, WIRE_TASK_DRAIN = 3 };
enum wire_task_state {
    WIRE_TASK_RUNNING = 1,
    WIRE_TASK_DONE = 2,
    WIRE_TASK_FAILED = 3,
    WIRE_TASK_CANCELLED = 4
};
enum wire_slot_state {
    WIRE_SLOT_FREE = 0,
    WIRE_SLOT_WRITING = 1,
    WIRE_SLOT_WRITTEN = 2,
    WIRE_SLOT_CLOSED = 3
};

/* put_item.flags */
#define WIRE_PUT_REPLACE (1u << 0) /* write beside an existing value and take its place */
#define WIRE_PUT_DONE (1u << 1)    /* its chain is not continued: it goes first */
#define WIRE_PUT_EXPIRES (1u << 2) /* after expires_ms */

/* put_grant.flags of an item that EXISTS */
#define WIRE_EXISTS_ELSEWHERE (1u << 0) /* it is not in the group that was said */

/* put_group.flags */
#define WIRE_GROUP_ATOMIC (1u << 0)  /* members are not seen before the group is complete */
#define WIRE_GROUP_CASCADE (1u << 1) /* removing one member removes all */
#define WIRE_GROUP_ADOPT (1u << 2)   /* what is there and in no group becomes a member as it is */
#define WIRE_GROUP_NO_OFFLOAD (1u << 3) /* it is dropped, not moved to a slower tier */
#define WIRE_GROUP_ALL 0xfu
#define WIRE_GROUP_INDEX_ANY UINT32_MAX
#define WIRE_GROUP_MISSING_MAX 64u

enum wire_group_state {
    WIRE_GROUP_NONE = 0,
    WIRE_GROUP_FORMING = 1,
    WIRE_GROUP_OPEN = 2,
    WIRE_GROUP_COMPLETE = 3,
    WIRE_GROUP_DEGRADED = 4,
    WIRE_GROUP_RECOVERING = 5,
    WIRE_GROUP_CLOSING = 6
};
enum wire_group_hold {
    WIRE_GROUP_HOLD_NEW = 0,
    WIRE_GROUP_HOLD_JOIN = 1, /* or renew */
    WIRE_GROUP_HOLD_LEAVE = 2
};

/* group_asked.flags */
#define WIRE_STAT_KEY (1u << 0) /* by the key of an object: its group, or itself alone */

/* match_req.flags, above those of look-ups */
#define WIRE_MATCH_GROUPS (1u << 16) /* the keys are ids of groups */
#define WIRE_MATCH_NODES (1u << 17)  /* tell what each node holds */

/* hint_req.flags */
#define WIRE_HINT_TOUCH (1u << 0)    /* counts a use */
#define WIRE_HINT_PRIORITY (1u << 1) /* sets it, else it stays */
#define WIRE_HINT_EXPIRES (1u << 2)  /* after expires_ms */
#define WIRE_HINT_LASTS (1u << 3)    /* expires no more */
#define WIRE_HINT_DONE (1u << 4)     /* its chain is not continued: it goes first */
#define WIRE_HINT_ALL 0x1fu
#define WIRE_PRIORITY_MAX 7u

#define WIRE_PIN_CLUSTER UINT32_MAX /* pin_ms: as long as the master is set to */

/* lookup_req.flags */
#define WIRE_LOOKUP_PLACES (1u << 0)    /* answer where the bytes are */
#define WIRE_LOOKUP_LEASE (1u << 1)     /* do not evict what was found for a while */
#define WIRE_LOOKUP_TOUCH (1u << 2)     /* count a use and move to the young end, deepest first */
#define WIRE_LOOKUP_REFRESH (1u << 3)   /* move to the young end, count no use */
#define WIRE_LOOKUP_GUARD (1u << 4)     /* refuse a remove that is not forced, for guard_ms */
#define WIRE_GUARD_CLUSTER UINT32_MAX   /* guard_ms: as long as the master is set to */
#define WIRE_LOOKUP_UNORDERED (1u << 5) /* the keys are no chain */
#define WIRE_LOOKUP_STALE_OK \
    (1u << 6) /* during recovery, a value that may have been replaced will do */
#define WIRE_LOOKUP_HOLD \
    (1u << 7) /* do not evict what was found until the lease is returned or the session ends */

#define WIRE_LOOKUP_GROUPS \
    (1u << 8) /* tell the group of each key too; a lease is on whole groups */

/* found.flags, listed.flags */
#define WIRE_FOUND_SOFT_PIN (1u << 0)
#define WIRE_FOUND_HARD_PIN (1u << 1)
#define WIRE_FOUND_LEASED (1u << 2)
#define WIRE_FOUND_REPLACED (1u << 3)
#define WIRE_FOUND_SUSPECT (1u << 4) /* with NOT_FOUND: it is only on nodes that are silent */
#define WIRE_FOUND_MEMBER (1u << 5)  /* of a group */

/* remove_req.flags */
#define WIRE_REMOVE_FORCE (1u << 0) /* guarded ones too */
#define WIRE_REMOVE_GROUP (1u << 1) /* of members, their groups whole */

/* write_item.flags, inventory_row.flags */
#define WIRE_SLOT_REPLACED (1u << 0)
#define WIRE_SLOT_SOFT_PIN (1u << 1)
#define WIRE_SLOT_HARD_PIN (1u << 2)

/* gen = term:24 | counter:40 */
#define WIRE_GEN(term, counter) (((uint64_t)(term) << 40) | (uint64_t)(counter))
#define WIRE_GEN_TERM(gen) ((uint32_t)((gen) >> 40))
#define WIRE_GEN_COUNTER(gen) ((gen) & ((UINT64_C(1) << 40) - 1))
#define WIRE_TERM_MAX 0xffffffu

#endif
