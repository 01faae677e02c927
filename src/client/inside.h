/* What the files of client/ share.  Private to client/. */
#ifndef CLIENT_INSIDE_H
#define CLIENT_INSIDE_H

#include "base/assert.h"
#include "base/limits.h"
#include "client/buffers.h"
#include "client/client.h"
#include "client/depths.h"
#include "client/rules.h"
#include "rpc/peer.h"

/* Items of a message that bytes follow: they move while the master answers the next one. */
#define CLIENT_PART_ITEMS 64u
#define CLIENT_PARTS_MAX 4u         /* messages of one operation to the master under way */
#define CLIENT_ABORTS_MAX 256u      /* put_aborts under way */
#define CLIENT_HOLD_RETURNS_MAX 64u /* hold_returns under way */
#define CLIENT_NODE_BUCKETS 64u

enum client_metric {
#define METRIC(name, kind, text) CLIENT_METRIC_##name,
#include "client/client_metrics.def"
#undef METRIC
    CLIENT_METRIC_COUNT
};

/* A node as far as this client knows it. */
struct client_node {
    struct list_link of_client;
    uint32_t number;
    bool known; /* address and incarnation are as the master told */
    bool told;  /* the last answer of the master told of it */
    uint64_t incarnation;
    bool on_host;                /* on this one */
    bool moved;                  /* since the links were made */
    struct transport_link *link; /* NULL: not connected yet */
    struct transport_link *near; /* its memory, on this host; NULL: not connected yet */
    uint64_t near_after_ns;      /* not by `near` before */
    uint32_t users;              /* transfers on its links */
    struct list waiting;         /* struct transfer: until it is known */
    uint64_t avoid_until_ns;
    uint32_t failures; /* since it last moved something */
    char address[LIMIT_NAME_SIZE + 1];
    char near_address[LIMIT_NAME_SIZE + 1]; /* "": not on this host */
};

struct client {
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc;
    struct rpc_peer master;
    uint64_t own_node; /* incarnation of the node in this process; 0: none */
    uint32_t term;     /* of the master that the numbers of nodes are from */
    struct client_options options;
    struct client_rules *rules; /* NULL: none */
    char congestion[ENV_CONGESTION_SIZE];
    struct rng rng;
    struct transport *transport;
    struct transport *near; /* within this host */
    struct arena scratch;   /* a message being made */
    uint64_t next_operation;
    enum snow_status link_failure; /* of the last try to reach the master */
    char reason[192];              /* what it said */
    struct list ops;               /* struct client_op: all that are under way */
    struct list quiets;            /* struct client_quiet_op: they wait for some of these */
    struct list asking;            /* struct client_ask: wait for the link */
    uint64_t down_since_ns;        /* the link to the master; while it is not up */
    struct env_timer patience;     /* armed while it is down: some operation gives up then */
    uint64_t patience_at_ns;       /* when that is */
    struct list aborts;            /* struct abort under way */
    uint32_t abort_count;
    uint64_t *owed; /* operations whose holds the master still has to take back */
    size_t owed_count;
    size_t owed_capacity;
    struct list hold_returns; /* struct hold_return: asked to, not answered */
    uint32_t hold_return_count;
    struct client_depths depths; /* of what look-ups did not find */
    uint64_t unknown_since_ns;   /* the master misses an inventory since then; 0: not */
    uint64_t counters[CLIENT_METRIC_COUNT];

    /* nodes.c */
    struct list nodes[CLIENT_NODE_BUCKETS]; /* struct client_node */
    uint32_t node_count;
    struct rpc_call nodes_call;
    struct rpc_retry nodes_retry;
    struct env_timer nodes_timer; /* asks again */
    bool nodes_asked;             /* an answer is awaited */
    uint32_t nodes_next;          /* lowest number of the page that is asked for */
};

static inline void client_count(struct client *client, enum client_metric metric, uint64_t by)
{
    client->counters[metric] += by;
}

/* ---- client.c ---- */

/* Numbers are never 0 and, by their random start, not those of an earlier client. */
uint64_t client_next_operation(struct client *client);

/* Begins an operation: deadline, arena.  on_timer comes at the deadline. */
void client_op_begin(struct client *client, struct client_op *op, const struct snow_call *call,
                     void (*on_timer)(struct env_timer *timer));
/* on_timer comes in the next turn instead: all is known already. */
void client_op_hurry(struct client_op *op);
/* How what is open then ends: TIMEOUT, or why there is no master. */
enum snow_status client_op_late_status(struct client_op *op);
void client_op_end(struct client_op *op);
/* The same, but what lies in its arena stays. */
void client_op_leave(struct client_op *op);

/* OK, or INVALID. */
enum snow_status client_key_check(const struct snow_key *key);

/* INVALID: a reserved member is set, by a program that knows more than this library. */
static inline enum snow_status client_reserved_check(const uint64_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (reserved[i] != 0)
            return SNOW_INVALID;
    }
    return SNOW_OK;
}

#define CLIENT_RESERVED(item) \
    client_reserved_check((item)->reserved, sizeof((item)->reserved) / sizeof((item)->reserved[0]))

static inline struct bytes client_key_bytes(const struct snow_key *key)
{
    return bytes_of(key->at, key->size);
}

static inline uint64_t client_now_ns(const struct client *client)
{
    return env_now_ns(client->env);
}

/* The read with this number is over. */
void client_lease_return(struct client *client, uint64_t operation);

/* Gives grants back without waiting for the answer: {key, gen} of count items. */
void client_abort(struct client *client, const struct wire_key_gen *items, uint32_t count);

/* Whether places make whole replicas of size bytes; *replicas: bit r for each. */
bool client_places_check(const struct wire_place *places, uint32_t count, uint64_t size,
                         uint16_t *replicas);

/* ---- quiet.c ---- */

/* An operation has ended: who waited for it looks again. */
void client_quiet_look(struct client *client);

/* ---- put.c: what writer.c does alike ---- */

enum snow_status client_put_check(const struct snow_put *item, struct client_buffers *buffers);
struct wire_put_item client_put_wire(const struct client *client, const struct snow_put *item,
                                     uint64_t continues);
/* Where the caller wants it. */
void client_put_place(const struct client *client, const char *segment,
                      struct wire_put_start_req *message);
/* That the slots of this grant store. */
uint16_t client_put_slot_flags(const struct snow_put *item, const struct wire_put_grant *grant);
/* 1: the object of an item that EXISTS is not in the group that was said. */
static inline uint32_t client_put_elsewhere(const struct wire_put_grant *grant)
{
    return grant->status == SNOW_EXISTS && (grant->flags & WIRE_EXISTS_ELSEWHERE) != 0;
}
/* What a grant's slots store behind the key, for longer than its reply.  False: no memory. */
bool client_extra_copy(struct arena *arena, struct bytes extra, struct bytes *copy);
/* Until when an operation of that deadline waits for room or another writer. */
uint64_t client_put_wait_until(struct client *client, const struct snow_call *call,
                               uint64_t deadline_ns);

/* ---- group.c: what groups are, what puts say of them ---- */

void client_group_info_take(struct snow_group_info *item, const struct wire_group_info *info);

/* Members of puts that say none, by the key rules; *derived NULL: there are no rules. */
MUST_CHECK enum snow_status client_members_derive(struct client *client,
                                                  const struct snow_put *items, size_t count,
                                                  struct arena *arena,
                                                  struct snow_member **derived);
/* What a put says, or the rules; NULL: it is in no group. */
const struct snow_member *client_member(const struct snow_put *items,
                                        const struct snow_member *derived, size_t index);
size_t client_member_size(const struct snow_member *member); /* bytes in a message */
enum snow_status client_member_check(const struct snow_member *member);
/* Groups and members of the items with these indexes.  False: no memory. */
bool client_members_build(struct wire_put_start_req *message, const struct snow_put *items,
                          const struct snow_member *derived, const uint32_t *indexes,
                          uint32_t count, struct arena *arena);

/* ---- nodes.c ---- */

/* NULL: out of memory, or too many. */
struct client_node *client_node_find(struct client *client, uint32_t number);
/* Another master: all that is known of nodes has to be asked for again. */
void client_nodes_doubt(struct client *client);
/* Asks the master for addresses, unless that is under way. */
void client_nodes_refresh(struct client *client);
/* Which one is read from first. */
enum node_rank {
    NODE_OWN,     /* in this process */
    NODE_NEAR,    /* on this host */
    NODE_WORKS,   /* as far as is known */
    NODE_DOUBTED, /* it has failed and not worked since: whoever can goes round it */
    NODE_AVOIDED  /* it has failed a moment ago */
};
enum node_rank client_node_rank(struct client *client, uint32_t number);
/* It could not be reached; it moved something. */
/* took_ns: how long it took to see that. */
void client_node_failed(struct client *client, struct client_node *node, uint64_t took_ns);
void client_node_worked(struct client_node *node);
/* The way to a known node.  UNREACHABLE: by none that the options allow; NO_MEMORY, INVALID. */
MUST_CHECK enum snow_status client_node_connect(struct client *client, struct client_node *node,
                                                struct transport_link **link);
void client_nodes_open(struct client *client);
void client_nodes_close(struct client *client);

/* ---- moves.c ---- */

/* The node of these transfers is known now, or never will be. */
void client_moves_resume(struct client *client, struct client_node *node);

#endif
