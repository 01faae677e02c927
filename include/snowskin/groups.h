/* Groups: objects that are parts of one entity (K and V, layers, ranks of a block), put and read by
 * different processes, which live and die together.  Included by snowskin.h; docs/groups.md tells
 * what they promise. */
#ifndef SNOWSKIN_GROUPS_H
#define SNOWSKIN_GROUPS_H

#include "snowskin/snowskin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNOW_GROUP_ATOMIC (1u << 0)  /* members are not seen before the group is complete */
#define SNOW_GROUP_CASCADE (1u << 1) /* removing one member removes all */
#define SNOW_GROUP_ADOPT (1u << 2)   /* what is there and in no group becomes a member as it is */
/* It is dropped when it is evicted, not moved to a slower tier.  There is none yet: it is kept and
 * told, and changes nothing. */
#define SNOW_GROUP_NO_OFFLOAD (1u << 3)
#define SNOW_GROUP_INDEX_ANY UINT32_MAX

/* What a put says of the group that its object is a member of (snow_put.member).  The first put
 * makes the group; others have to say the same size and flags.  GROUP_SIZE_MISMATCH,
 * GROUP_INDEX_CONFLICT, INVALID, LIMIT (the whole is larger than the pool): the put fails, for
 * sized groups; what is wrong with an open one fails no put: it is stored without. */
struct snow_member {
    struct snow_key group;  /* id, 1 to 256 bytes */
    uint32_t size;          /* members of the whole, at most 65535; 0: open, never complete */
    uint32_t index;         /* 0 .. size-1; SNOW_GROUP_INDEX_ANY: one that is free */
    uint32_t flags;         /* SNOW_GROUP_* */
    uint32_t form_ttl_ms;   /* closed when no member came for so long; 0: as the master is set */
    struct snow_key parent; /* id of the group before it in the chain; size 0: none */
    uint64_t reserved[2];
};

/* How the keys of an engine tell blocks from what differs between their members. */
enum snow_key_rule {
    SNOW_KEY_RULE_OFF = 0,
    SNOW_KEY_RULE_SGLANG = 1,  /* an optional tag, 64 hexadecimal digits; the rest differs */
    SNOW_KEY_RULE_VLLM = 2,    /* tp_rank, pp_rank and group differ */
    SNOW_KEY_RULE_LMCACHE = 3, /* the worker's number differs */
    SNOW_KEY_RULE_CUSTOM = 4   /* by a pattern */
};

/* Groups for engines that know nothing of them (snow_options.key_rules): a put without a member
 * becomes one when its key is as the rule says, and so do the keys in chains of groups.  Other keys
 * are as ever. */
struct snow_key_rules {
    uint32_t rule;       /* enum snow_key_rule */
    uint32_t members;    /* of each group; 0: they are open */
    const char *pattern; /* custom: a regular expression (Perl's) that matches the whole key.  Its
                          * fields (?<part>...), (?<part1>...) ... differ between the members; the
                          * group's id is the key without them, or the field (?<id>...).  The field
                          * (?<index>...) is the member's number. */
    uint32_t no_adopt;   /* 1: what is there and in no group stays so */
    uint32_t spare;      /* 0 */
    uint64_t reserved[4];
};

enum snow_group_state {
    SNOW_GROUP_NONE = 0,
    SNOW_GROUP_FORMING = 1,    /* members are still to come */
    SNOW_GROUP_OPEN = 2,       /* of no size: never complete */
    SNOW_GROUP_COMPLETE = 3,   /* every member can be read */
    SNOW_GROUP_DEGRADED = 4,   /* it was whole and has lost a member */
    SNOW_GROUP_RECOVERING = 5, /* the master has started again and does not know all yet */
    SNOW_GROUP_CLOSING = 6
};

#define SNOW_GROUP_MISSING 64u
#define SNOW_GROUP_ID 256u /* bytes of an id at most */

/* What else may be told of a group, for who wants it. */
struct snow_group_more {
    uint64_t reserved[2];
    /* out */
    uint32_t lease_ms; /* with SNOW_CALL_LEASE: how long its members are kept from eviction; 0: they
                        * are not, it would be above the session's share of the pool */
    uint32_t id_size;  /* 0: the object is in no group */
    uint8_t id[SNOW_GROUP_ID];
};

struct snow_group_info {
    struct snow_key id;           /* or with by_key the key of a member */
    uint32_t by_key;              /* 1: asks for the group of an object; one that is in none is a
                                   * complete group of one, itself */
    uint32_t missing_from;        /* missing members from this index on */
    struct snow_group_more *more; /* NULL: not wanted */
    /* out */
    enum snow_status status; /* OK, NOT_FOUND, UNKNOWN */
    uint32_t state;          /* enum snow_group_state */
    uint32_t flags;          /* SNOW_GROUP_* */
    uint32_t version;        /* rises when a member is replaced */
    uint64_t ggen;           /* names this incarnation of the id */
    uint32_t size;           /* 0: open */
    uint32_t present;        /* members that can be read */
    uint64_t bytes;          /* of these */
    uint32_t missing_count;  /* of the indexes that follow */
    uint32_t missing[SNOW_GROUP_MISSING];
    uint32_t missing_next; /* to ask from for further ones; SNOW_GROUP_INDEX_ANY: there are none */
};

/* What groups are.  With call->wait_ms those that are being formed, or not begun, are waited for so
 * long; the deadline has to be later.  SNOW_CALL_LEASE as of snow_exists, for all their members.
 *
 * snow_exists with call->groups tells the same of the group of each key, at the same instant, but
 * does not wait and leaves out `missing` (missing_next says where they begin).  There `id`, by_key
 * and missing_from are not looked at. */
SNOW_API enum snow_status snow_group_stat(struct snow_client *client, struct snow_group_info *items,
                                          size_t count, const struct snow_call *call);

/* Members of one group, all of one version of it. */
struct snow_group_read {
    struct snow_key id;
    const uint32_t *indexes; /* of the items, ascending; NULL: item i is member i, all of them */
    uint64_t hold;           /* read under this hold; 0: none */
    uint64_t reserved[2];
    /* out */
    enum snow_status status; /* OK: every item is; else why none can be relied on: NOT_FOUND,
                              * NOT_READY (it is being formed), GROUP_BROKEN (see broken), CHANGED
                              * (another version than that of the hold), UNKNOWN ... */
    uint32_t state;          /* enum snow_group_state */
    uint64_t ggen;
    uint32_t version;
    uint32_t size;
    uint32_t broken; /* index of the member that can not be read */
    uint32_t spare;
};

/* items: where each member is to go, as of snow_get; their keys are not looked at.  Open groups are
 * read by indexes. */
SNOW_API enum snow_status snow_group_get(struct snow_client *client, struct snow_group_read *group,
                                         struct snow_get *items, size_t count,
                                         const struct snow_call *call);

/* A promise that one version of a group is not evicted: until for_ms from its last mark, at most 30
 * s.  Its number may be told to other processes: each leaves a mark of its own by joining, and it
 * ends with the last mark.  A session that ends leaves. */
struct snow_group_hold {
    struct snow_key id; /* of the group, for a new one */
    uint64_t hold;      /* in: the one to join or renew; 0: a new one.  out */
    uint32_t for_ms;    /* 0: leave it */
    uint32_t spare;     /* 0 */
    uint64_t reserved[2];
    /* out */
    uint64_t ggen;
    uint32_t version;
    uint32_t left_ms;
};

/* OK; NOT_FOUND; NOT_READY; GONE: it has ended; CHANGED: a member was replaced since; LIMIT: the
 * session's share of the pool. */
SNOW_API enum snow_status snow_group_hold(struct snow_client *client, struct snow_group_hold *hold,
                                          const struct snow_call *call);

/* Groups whole, by id; as snow_remove.  IN_USE: a member is guarded; SNOW_CALL_FORCE as there. */
SNOW_API enum snow_status snow_group_remove(struct snow_client *client, struct snow_item *items,
                                            size_t count, const struct snow_call *call);

/* Blocks of a chain, one after the other, whose first bytes lie on one node. */
struct snow_match_run {
    uint32_t node; /* number */
    uint32_t tier; /* 1: memory */
    uint32_t count;
    uint32_t spare;
};

/* What a node holds of a chain's blocks that matched, on one tier, and can be read now; copies
 * count, also those that no run tells. */
struct snow_match_node {
    uint32_t node;    /* number */
    uint32_t tier;    /* 1: memory */
    uint32_t leading; /* blocks from the first on that are whole there: of groups every member */
    uint32_t blocks;  /* that are whole there, with holes between them */
    uint64_t bytes;   /* of all blocks, those that are in part elsewhere too */
};

/* How much of a chain is there, from its start to the first hole. */
struct snow_chain {
    const struct snow_key *blocks; /* keys, or ids of groups, in order */
    size_t count;
    uint32_t groups;             /* 1: they are ids (with key rules also keys of members); a block
                                  * is there when its group is complete */
    uint32_t members;            /* that open groups must have to count; 0: they never do */
    struct snow_match_run *runs; /* where to tell them; NULL: not wanted */
    size_t run_room;
    struct snow_match_node *nodes; /* where to tell what each of them holds, for who sends requests
                                    * there: most leading blocks first; NULL: not wanted */
    size_t node_room;
    uint64_t reserved[2];
    /* out */
    size_t matched;        /* leading blocks that can be read */
    size_t run_count;      /* of all of them, also when there is room for fewer */
    size_t node_count;     /* likewise */
    enum snow_status stop; /* what the next one is: NOT_FOUND, NOT_READY, GROUP_BROKEN, UNKNOWN;
                            * OK: there is none */
    uint32_t spare;
};

/* SNOW_CALL_TOUCH and SNOW_CALL_LEASE as of snow_exists. */
SNOW_API enum snow_status snow_match_prefix(struct snow_client *client, struct snow_chain *chain,
                                            const struct snow_call *call);

struct snow_group_listed {
    struct snow_key id; /* lives until the callback returns */
    uint32_t state;     /* enum snow_group_state */
    uint32_t flags;
    uint64_t ggen;
    uint32_t size;
    uint32_t present;
    uint32_t depth;
    uint32_t uses;
    uint64_t bytes;
};

/* As snow_list. */
SNOW_API enum snow_status snow_group_list(struct snow_client *client, struct snow_key prefix,
                                          int (*on_row)(void *owner,
                                                        const struct snow_group_listed *row),
                                          void *owner, const struct snow_call *call);

/* "complete"; "?" for a number that is none.  Static text. */
SNOW_API const char *snow_group_state_name(uint32_t state);

#ifdef __cplusplus
}
#endif

#endif
