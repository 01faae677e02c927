/* What the files of node/ share.  Private to node/. */
#ifndef NODE_INSIDE_H
#define NODE_INSIDE_H

#include "base/fault.h"
#include "base/list.h"
#include "base/ranges.h"
#include "node/node.h"
#include "node/slots.h"
#include "rpc/peer.h"
#include "rpc/rpc.h"
#include "wire/grant.h"

#define NODE_BUCKETS 4096u
#define NODE_SPARE_MAX 1024u /* activities kept for the next */

/* Something is inside an extent, or it is being written: lives from then until neither holds. */
struct activity {
    struct list_link in_bucket;
    struct list writers; /* struct write_piece: those that arrive now */
    uint64_t gen;
    struct ranges covered; /* bytes that have arrived, with their crc32c */
    uint32_t segment;
    uint32_t slot;
    uint32_t readers;             /* reads that are being sent */
    bool closed;                  /* forgotten: FREED is said when nothing is inside */
    bool marked;                  /* closed, and a client of this host may still use it */
    struct fetch_part *fetch;     /* its bytes come from another node; NULL: not */
    struct list_link marked_link; /* in node->marked */
};

/* How far a segment is to grow. */
struct growth {
    uint64_t ready_target; /* bytes */
    uint32_t slots_target;
    bool stuck; /* the host has no more memory: what is ready is what is offered */
};

/* Memory that is being made present. */
struct grow_step {
    struct env_task work; /* to the growth loop */
    struct env_task done; /* and back */
    bool of_meta;
    uint32_t segment;
    uint64_t from; /* bytes */
    uint64_t size;
    uint64_t present; /* bytes of it, when it is done */
    enum snow_status status;
};

enum node_metric {
#define METRIC(name, kind, text) NODE_METRIC_##name,
#include "node/node_metrics.def"
#undef METRIC
    NODE_METRIC_COUNT
};

struct node {
    struct env *env;
    struct obs_log *log;
    struct node_options options;
    fault_set faults;
    struct slots segments[LIMIT_SEGMENTS_PER_NODE];
    uint32_t segment_count;
    struct list buckets[NODE_BUCKETS]; /* of activities */
    struct list spare;                 /* activities that nothing needs */
    uint32_t spare_count;
    uint64_t counters[NODE_METRIC_COUNT];
    uint32_t transfers; /* batches of writes and reads under way; read by any thread */

    /* Service loop. */
    struct env_loop *loop;
    struct rpc *rpc;
    struct rpc_peer master;
    struct rpc_call mount_call;
    struct rpc_call inventory_call;
    struct env_timer mount_timer; /* try to mount again */
    struct env_hook hook;         /* sends FREED at the end of a turn */
    struct list freed;            /* struct freed_note */
    struct hash128 secret;        /* of grants */
    bool has_secret;
    enum snow_status told; /* why the master is out of reach, as the log says; OK: it is not */
    bool telling;          /* an inventory is under way */
    uint32_t tell_segment; /* next slot to tell */
    uint32_t tell_slot;
    uint32_t tell_end;                               /* slots below are told */
    uint32_t mounted_slots[LIMIT_SEGMENTS_PER_NODE]; /* ready ones, as the last mount said */
    uint32_t number;                                 /* at the master */
    uint64_t incarnation;
    uint64_t process;
    /* local.c */
    struct list locals; /* struct local_peer */
    uint32_t local_count;
    struct list marked; /* struct activity */
    struct env_timer look_timer;
    uint64_t look_ns;       /* until the next look at marks */
    struct seen_mark *seen; /* by the last look, in order of segment, slot, gen */
    uint32_t seen_count;
    uint32_t seen_capacity;

    /* fetch.c */
    struct transport *transport; /* to other nodes */
    struct list fetches;         /* struct fetch */
    struct list sources;         /* struct fetch_source */
    uint32_t source_count;

    bool mounted; /* read by any thread */
    struct env_task leave_task;
    struct rpc_call leave_call;
    bool leave_asked; /* by any thread */
    bool leaving;     /* it mounts no more */
    bool left;        /* read by any thread */
    bool drained;     /* it was emptied, the master takes it in no more; read by any thread */
    bool remount;     /* set by the heartbeat loop: the master does not know us */

    /* Growth: driven by the service loop, done by a loop of its own. */
    struct env_loop *grow_loop;
    struct env_timer grow_timer; /* try again where the host had no memory */
    struct growth growth[LIMIT_SEGMENTS_PER_NODE];
    struct grow_step step; /* the one under way */
    bool growing;          /* one is; read by any thread */

    /* Heartbeat loop. */
    struct env_loop *beat_loop;
    struct rpc *beat_rpc;
    struct rpc_peer beat_master;
    struct rpc_call beat_call;
    struct env_timer beat_timer;
    uint64_t beat_turns; /* of the service loop, when last seen to turn */
    uint64_t beat_turned_ns;
    struct env_task nudge; /* to the service loop: it is alive when it answers */
    bool nudged;
};

static inline void node_count(struct node *node, enum node_metric metric, uint64_t by)
{
    __atomic_fetch_add(&node->counters[metric], by, __ATOMIC_RELAXED);
}

/* ---- service.c ---- */

void node_write(struct node *node, struct rpc_request *request, const struct wire_write_req *write,
                uint64_t payload_size);
void node_read(struct node *node, struct rpc_request *request, const struct wire_read_req *read);
void node_write_gone(struct node *node, struct rpc_request *request);
/* OK, INVALID, or STALE: not granted under the present key. */
MUST_CHECK enum snow_status node_write_check(struct node *node, const struct wire_write_item *item);
/* CLOSED from now on.  True: no transfer is inside. */
bool node_close_slot(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen);
/* After all were closed and the marks were looked at: FREED, unless clients of this host are inside
 * (false).  quiet: as node_close_slot said. */
bool node_free_slot(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen, bool quiet);
struct activity *node_activity_find(struct node *node, uint32_t segment, uint32_t slot);
/* Found or made; NULL: no memory. */
struct activity *node_activity_open(struct node *node, uint32_t segment, uint32_t slot,
                                    uint64_t gen);
/* Ends it when nothing is inside and no write is open. */
void node_activity_settle(struct node *node, struct activity *activity);

/* The segment has that slot, and it may be used. */
bool node_slot_is_ready(const struct node *node, uint32_t segment, uint32_t slot);
/* Batches under way: a node that is told to stop waits for them. */
void node_transfers_count(struct node *node, int change);

/* ---- fetch.c: copies from other nodes ---- */

MUST_CHECK enum snow_status node_fetch_open(struct node *node);
void node_fetch_close(struct node *node);
void node_copy(struct node *node, struct rpc_request *request, const struct wire_copy_req *copy);
void node_copy_gone(struct node *node, struct rpc_request *request);
/* The slot of this part was closed: the fetch ends. */
void node_fetch_cut(struct fetch_part *part);

/* ---- local.c: clients of this host ---- */

MUST_CHECK enum snow_status node_local_open(struct node *node);
void node_local_close(struct node *node);
void node_attach(struct node *node, struct rpc_request *request,
                 const struct wire_attach_req *attach);
void node_seal(struct node *node, struct rpc_request *request, const struct wire_seal_req *seal);
void node_local_closed(struct node *node, const struct rpc_conn *conn);
/* Looks at all marks: what node_marks_has answers from until the next look. */
void node_marks_look(struct node *node);
/* Somebody marked this version, or an older one. */
bool node_marks_has(const struct node *node, uint32_t segment, uint32_t slot, uint64_t gen);
/* A closed activity waits for its mark. */
void node_marked_add(struct node *node, struct activity *activity);
/* A FREE slot is CLOSED from now on, until the mark on it (of gen or older) is gone; false: there
 * is none. */
bool node_marked_quarantine(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen);
/* Grants under another key have ended: what is still being written under them is CLOSED. */
void node_marks_fence(struct node *node);

/* ---- link.c: the master ---- */

MUST_CHECK enum snow_status node_link_open(struct node *node);
void node_link_close(struct node *node);
void node_verify(const struct node *node, struct rpc_request *request,
                 const struct wire_verify_req *verify);
void node_forget(struct node *node, struct rpc_request *request,
                 const struct wire_forget_req *forget);
/* FREED of this slot leaves at the end of the turn. */
void node_say_freed(struct node *node, uint32_t segment, uint32_t slot, uint64_t gen);
/* Nobody will be told what still waits. */
void node_freed_drop(struct node *node);

/* ---- grow.c ---- */

/* Before the loops turn; closed after they stopped. */
void node_grow_open(struct node *node);
void node_grow_close(struct node *node);
/* The master wants more of a segment. */
void node_grow(struct node *node, const struct wire_grow_msg *grow);
/* Says how far a segment is, if the master knows it. */
void node_grow_tell(struct node *node, uint32_t segment);

/* ---- heartbeat.c ---- */

MUST_CHECK enum snow_status node_heartbeat_open(struct node *node);
void node_heartbeat_close(struct node *node);

#endif
