/* What the core's files share: the structs of its state and the few lookups that all need.
 * Private to core/. */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/pattern.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/wheel.h"
#include "core/core.h"
#include "core/ghosts.h"
#include "core/index.h"
#include "core/keys.h"
#include "core/policy.h"
#include "core/reuse.h"
#include "core/space.h"
#include "core/trial.h"

#define CORE_TICK_NS (1 * NS_PER_MS)
#define CORE_GUARD_TICK_NS (10 * NS_PER_MS)
#define CORE_DEPTH_UNKNOWN UINT16_MAX
#define CORE_TENANT 0u /* the one name space until tenants come */

/* A key with its hash, computed once. */
struct key_hash {
    struct bytes key;
    uint64_t hash; /* hash_key(CORE_TENANT, key).low */
    uint64_t high; /* its other half; 0 where `hash` is no key's */
};

/* ---- objects ---- */

enum object_state {
    OBJECT_ABSENT,
    OBJECT_WRITING,    /* next: its struct write */
    OBJECT_READABLE,   /* prev, next: its victim list, if OBJECT_LISTED */
    OBJECT_CLOSING,    /* next: its struct closing */
    OBJECT_RECOVERING, /* parts of it are known from inventories, not yet all */
    OBJECT_GROUP,      /* no object: it stands for a group among the victims; place: struct group */
    OBJECT_COPYING     /* extents of a copy that is under way; next: its struct copy */
};

#define OBJECT_SPREAD (1u << 0)   /* several extents: place is a struct spread */
#define OBJECT_REPLACED (1u << 1) /* written by a replace */
#define OBJECT_SOFT_PIN (1u << 2)
#define OBJECT_HARD_PIN (1u << 3)
#define OBJECT_LISTED (1u << 4)  /* in a victim list */
#define OBJECT_SAMPLED (1u << 5) /* its uses go to the trial */
#define OBJECT_EXPIRES (1u << 7) /* it has a struct expiry */
#define OBJECT_DONE (1u << 8)    /* its chain is not continued: goes first */
#define OBJECT_PRIORITY_SHIFT 9  /* three bits */
#define OBJECT_PRIORITY (7u << OBJECT_PRIORITY_SHIFT)
#define OBJECT_NEW (1u << 6) /* the policy's: not used since it was put, goes first */

#define OBJECT_USES_MAX 15u

#define OBJECT_SIZE_MASK ((UINT64_C(1) << 41) - 1)

/* 48 bytes: the table of millions of them is what the master's memory is. */
struct object {
    uint64_t gen;        /* number of the write attempt: names this version for ever */
    uint64_t size : 41;  /* bytes */
    uint64_t state : 3;  /* enum object_state */
    uint64_t depth : 16; /* position along its chain, saturating; CORE_DEPTH_UNKNOWN */
    uint64_t policy : 4; /* the policy's own */
    uint32_t key;        /* reference in core->keys; 0 while part 0 is not known */
    uint32_t place;      /* slot of its one extent, or index of its struct spread */
    uint32_t prev;
    uint32_t next;
    uint32_t last_touch; /* core->touches at its last use */
    uint16_t leases;     /* reads that hold it */
    uint16_t tenant : 15;
    uint16_t grouped : 1; /* READABLE, a member.  prev: the record of its group, next: its index */
    uint16_t uses : 4;    /* up to OBJECT_USES_MAX */
    uint16_t flags : 12;  /* OBJECT_* */
    uint16_t segment;     /* of its first extent: the one in whose lists it stands */
    uint32_t guard;       /* until this tick of 10 ms a remove needs force; 0: none.  Of a group:
                           * the latest of its members */
};
_Static_assert(sizeof(struct object) == 48, "the object record has a budget");

static inline void object_flag(struct object *object, uint32_t flags)
{
    object->flags = (object->flags | flags) & 0xfff;
}

static inline void object_unflag(struct object *object, uint32_t flags)
{
    object->flags = object->flags & ~flags & 0xfff;
}

/* One extent of an object. */
struct part {
    uint16_t segment; /* index in core->segments */
    uint8_t replica;
    bool present; /* false: lost, or not known yet */
    bool closed;  /* of a CLOSING object: its node has acknowledged CLOSED */
    uint16_t part;
    uint16_t parts;
    uint32_t slot;
    uint64_t length;        /* bytes of the object in it */
    uint64_t object_offset; /* bytes */
    uint64_t gen;           /* of the extent: a copy's own; 0: the object's */
};

/* Side record of an object with several extents: parts of replica 0, of replica 1, ... */
struct spread {
    struct part *parts; /* malloc'd */
    uint32_t count;
};

/* What a caller said of an object's future. */
struct hint {
    uint32_t flags; /* WIRE_HINT_* */
    uint8_t priority;
    uint64_t expires_ns;
};

/* Side record of an object that expires. */
struct expiry {
    struct wheel_timer timer;
    uint64_t at_ns;
    uint32_t object;
};

/* ---- groups ---- */

/* Side record of a group; what orders it among the victims is its object record. */
struct group {
    uint64_t ggen;     /* number of this incarnation of the id */
    uint32_t *members; /* malloc'd: objects by index, WRITING or READABLE ones; 0: none */
    uint32_t capacity; /* of members */
    uint32_t record;   /* its object */
    uint32_t parent;   /* record of a group; GROUP_ORPHAN: a struct group_absent; 0: none */
    uint32_t child;    /* one of those whose parent it is; they are linked by elder and younger */
    uint32_t elder;
    uint32_t younger;
    uint32_t counted; /* core->touches at the last use that counted; CLOSING: enum close_reason */
    uint32_t version; /* rises when a member is replaced; CLOSING: the next index to close */
    uint16_t size;    /* members of the whole; 0: open */
    uint16_t present; /* READABLE members */
    uint16_t listed;  /* of these, such as may be evicted */
    uint16_t writing; /* members being written */
    uint16_t holds;   /* struct group_hold of it */
    uint8_t state;    /* enum wire_group_state */
    uint8_t flags;    /* WIRE_GROUP_*, GROUP_* */
    uint32_t timer;   /* its struct group_timer; 0: none */
};
_Static_assert(sizeof(struct group) == 64, "the group record has a budget");

#define GROUP_ORPHAN (1u << 4)   /* its parent is not there */
#define GROUP_IN_STEPS (1u << 5) /* CLOSING: in core->groups_closing */
#define GROUP_ENTERED (1u << 6)  /* it has been among the victims */
#define GROUP_SHADOW (1u << 7)   /* it is to take the place of the one that is there */

/* While a group is being formed, and for a while when it has lost a member. */
struct group_timer {
    struct wheel_timer timer;
    struct list_link forming; /* in core->forming, oldest first, once admitted */
    struct list writers;      /* struct group_writer */
    uint64_t form_ns;         /* without progress: then it is closed */
    uint64_t progress_ns;     /* the last member came, or it was begun */
    uint64_t left_ns;         /* since then it had no writer */
    uint32_t linked;          /* writers whose connections stand */
    uint32_t ended;           /* members of a shadow that are written */
    uint64_t largest;         /* bytes of its largest member so far */
    uint64_t reserved;        /* bytes of the whole, as far as is known: in core->forming_bytes */
    uint32_t record;
};

/* The promise that one version of a group stays: made, joined, left by any session. */
struct group_hold {
    struct wheel_timer timer;
    struct list marks; /* struct group_mark: it ends with the last one */
    uint64_t id;
    uint32_t record;
    uint32_t version;
    uint32_t number; /* in core->group_hold_pool */
};

/* What an inventory said of a RECOVERING version: it is to be this member. */
struct group_claim {
    uint32_t object;
    uint32_t record;
    uint32_t index;
    uint16_t slot_flags; /* WIRE_SLOT_* */
    bool rival;          /* whole, but the key has a version of another incarnation too */
};

/* ---- open writes ---- */

struct write {
    struct wheel_timer timer;    /* end of the grant */
    struct list_link of_session; /* in session->writes */
    struct list waiters;         /* put items that wait for its outcome */
    uint64_t operation;
    uint64_t since_ns;
    uint64_t bytes; /* of its extents: counted in session->writing_bytes */
    uint32_t session;
    uint32_t object;
    uint32_t item; /* index in its put */
    uint8_t replicas_asked;
    uint8_t pin; /* enum wire_pin: takes effect with put_end */
    uint32_t pin_ms;
    struct hint hint; /* takes effect with put_end */
    bool replace;
    bool ended;     /* it is WRITTEN, and waits for the others of its shadow; no session has it */
    uint32_t group; /* record of the group that it is to be a member of; 0: none */
    uint32_t group_index;
    struct hash128 group_parent; /* hash of the id of that group's parent; zeros: none */
};

/* ---- copies, tasks ---- */

#define COPY_ANYWHERE UINT16_MAX

/* A copy that is under way. */
struct copy {
    struct wheel_timer timer; /* given up then */
    struct list_link link;    /* in core->copies */
    uint32_t number;          /* in core->copy_pool */
    uint32_t object;          /* what it is of */
    uint32_t record;          /* COPYING: has the new extents until they are the object's */
    uint64_t gen;             /* of these; 0: it has ended */
    uint64_t bytes;           /* of these */
    uint64_t task;            /* who asked for it; 0: nobody */
    uint16_t from;            /* index in core->nodes: of a move, the one that is left */
    uint16_t to;
    bool move;   /* the extents on `from` are given up then */
    bool second; /* made for what is used often */
};

/* What is to be copied. */
struct copy_wish {
    uint64_t task;
    uint32_t object;
    uint16_t from; /* of a move: index in core->nodes */
    uint16_t to;   /* index in core->nodes; COPY_ANYWHERE */
    bool move;
    bool second;
    bool force; /* evicts for it whatever may go, not only what is worth less */
};

/* A second copy: side record of an object that is used often. */
struct second {
    struct list_link of_segment; /* in segment->seconds, longest unused first */
    uint64_t bytes;
    uint64_t touched; /* core->touches at the object's last use that counted */
    uint32_t number;  /* in core->second_pool */
    uint32_t object;
    uint8_t replica; /* that is the second one */
};

#define CORE_SECONDS_WANTED 256u /* objects that wait for theirs */

struct copy_end {
    uint32_t object; /* its record may be gone or another's, unless status is OK */
    uint64_t bytes;
    enum snow_status status;
};

/* Bytes a second, kept by when the next may begin. */
struct pace {
    uint64_t next_ns;
};

struct drain; /* drain.c */

/* What an operator asked for: a copy, a move, or to empty a node. */
struct task {
    struct list_link link; /* in core->tasks, oldest first */
    uint64_t id;
    uint8_t kind;  /* enum wire_task_kind */
    uint8_t state; /* enum wire_task_state */
    enum snow_status status;
    const char *reason; /* static */
    uint32_t from;      /* numbers of nodes; 0: none */
    uint32_t to;
    uint8_t *key; /* malloc'd; NULL: none */
    uint32_t key_size;
    uint32_t under_way; /* copies */
    uint32_t tries;     /* copies that failed */
    uint64_t rate;      /* bytes a second; 0: as fast as it goes */
    struct pace pace;
    uint64_t started_ns;
    uint64_t ended_ns;
    uint64_t objects; /* copied, moved */
    uint64_t bytes;
    uint64_t dropped_objects; /* not worth what they would have taken the place of */
    uint64_t dropped_bytes;
    struct drain *drain; /* of one that runs */
};

/* ---- removals ---- */

enum close_reason {
    CLOSE_EXPIRED,
    CLOSE_EVICTED,
    CLOSE_REMOVED,
    CLOSE_REPLACED,
    CLOSE_ABORTED,
    CLOSE_STRAY
};

/* An object on its way out: its extents wait for CLOSED, then for FREED. */
struct closing {
    struct list waiters;      /* items of requests to be answered when all are CLOSED */
    struct list_link awaited; /* in core->awaited, once somebody waited for it */
    struct list_link by_age;  /* in core->closings: those counted as coming, oldest first */
    uint64_t since_ns;
    uint64_t bytes; /* of its extents that are not freed yet */
    uint32_t object;
    uint16_t open;  /* extents not CLOSED yet */
    uint16_t held;  /* extents not FREED yet */
    uint8_t reason; /* enum close_reason */
    bool counted;   /* its bytes count as coming */
};

/* An item of a request that waits: for a closing, for another's write, or for room. */
struct waiter {
    struct list_link link; /* in closing->waiters, write->waiters, core->room or session->room */
    struct list_link of_request; /* in request->waiters */
    struct request *request;
    uint32_t item;
    /* For a closing. */
    uint32_t shortfall;      /* put_end of a replace: copies fewer than asked */
    enum snow_status answer; /* when all holders have acknowledged */
    /* For room. */
    uint64_t since_ns;
    uint64_t size;     /* of its object */
    uint64_t bytes;    /* counted in wanted_bytes of its segment */
    uint32_t passed;   /* times a smaller one was served before it */
    uint64_t admitted; /* ggen of its group, which is being formed; else 0 */
    uint16_t segment;  /* where room is made for it; UINT16_MAX: nowhere */
    bool on_room;      /* in core->room or session->room */
};

/* ---- requests ---- */

/* An answer to one item, until the end of the step. */
struct answer {
    struct answer *next;
    void *item; /* struct wire_put_grant or wire_item_status, in the outputs' arena */
};

struct request {
    struct wheel_timer timer; /* deadline, or end of the wait time */
    struct list_link of_session;
    struct list_link dirty; /* in core->dirty: has answers to send */
    struct list waiters;
    struct answer *first;
    struct answer **end;
    uint32_t answers; /* in the chain */
    uint32_t open;    /* items not answered yet */
    uint32_t number;  /* in core->request_pool */
    uint64_t token;
    uint64_t deadline_ns;
    uint64_t started_ns;
    uint64_t wait_ns; /* put: how long items may wait */
    uint32_t session;
    uint16_t type;
    uint16_t segment; /* put: where the request's objects go now; UINT16_MAX: not chosen */
    uint16_t lacking; /* put: the segment that lacked room at the last attempt; UINT16_MAX: none */
    bool lacking_first;   /* that was for replica 0 */
    bool scraps;          /* put: no window was found, its objects take pieces of any size */
    uint64_t placed;      /* put: bytes placed in `segment` so far */
    struct key_hash said; /* put: id of the group of the last member that was looked at */
    uint32_t said_of;     /* of that group, and 1; 0: none yet */
    uint32_t said_record; /* that group; 0: none, or not known */
    uint64_t said_ggen;   /* its ggen: whether said_record still is it */
    const void *message;
    /* remove_match: its job. */
    struct list_link job;    /* in core->jobs */
    struct pattern *pattern; /* or NULL */
    uint32_t cursor;         /* next object to look at */
    uint32_t cursor_end;     /* objects at and above came later */
    uint32_t pending;        /* closings under way */
    uint32_t gave_up;        /* keys on which the pattern took too many steps */
    bool unsure;             /* something may come back: a node is missing or out of reach */
    bool timed_out;          /* its deadline came before its end */
    uint32_t *items_open;    /* group_remove: malloc'd, members not acknowledged of each */
    uint64_t removed;
    uint64_t guarded;
    uint64_t uncertain;
};

/* ---- reads: leases and what `continues` names ---- */

struct read_entry {
    uint64_t gen;
    uint32_t object;
    uint32_t position : 31; /* in the read */
    uint32_t leased : 1;    /* counted in object->leases */
};

struct read {
    struct wheel_timer timer;    /* end of the lease */
    struct list_link of_session; /* in session->reads, oldest first; a hold: in a list of holds */
    struct list_link of_core;    /* in core->reads, oldest first; a hold is not */
    struct list_link by_age;     /* in core->leases[kind], oldest first, while leased */
    uint64_t operation;
    uint64_t bytes;             /* leased */
    struct read_entry *entries; /* malloc'd, ascending by position once sorted */
    uint32_t count;
    uint32_t capacity;
    uint32_t session;
    uint8_t kind; /* enum lease_kind */
    bool sorted;
    bool continued; /* by a put: its keys are counted */
};

/* A hold (of views) ends when it is returned, or with its session; it is never broken. */
enum lease_kind { LEASE_PROBE, LEASE_READ, LEASE_HOLD, LEASE_KINDS };

#define CORE_HOLD_LISTS 256u

/* ---- sessions, nodes, segments ---- */

struct session {
    struct wheel_timer timer; /* after a break */
    struct list writes;
    struct list reads;
    struct list requests;
    struct list group_marks;   /* struct group_mark */
    struct list group_writers; /* struct group_writer: of groups that it helps to form */
    uint32_t group_mark_count;
    struct list *holds; /* CORE_HOLD_LISTS of struct read, by operation; NULL: none yet */
    uint32_t hold_count;
    struct list room; /* put items that wait for its own open writes to end, in order */
    uint64_t id;
    uint64_t writing_bytes;
    uint64_t leased_bytes;
    uint32_t read_count;
    uint32_t waiters;
    /* Where the objects of its last put went: the other messages of that put follow. */
    uint64_t put_operation;
    uint64_t put_placed;  /* bytes */
    uint16_t put_segment; /* index in core->segments; UINT16_MAX: none */
    bool linked;          /* its connection stands */
    bool writes_ended;    /* after a break: open writes were aborted */
};

enum node_state { NODE_UNUSED, NODE_RECOVERING, NODE_ALIVE, NODE_SUSPECT, NODE_DEAD };

struct ended_part {
    uint16_t segment; /* index in core->segments */
    uint32_t slot;
    uint64_t gen;
};

struct node {
    struct wheel_timer timer; /* silence */
    uint64_t incarnation;
    uint64_t process;
    struct hash128 secret; /* of grants */
    uint32_t key_id;       /* of that secret */
    uint64_t heard_ns;
    uint32_t number;
    uint32_t first_segment; /* index in core->segments */
    uint32_t segment_count;
    uint8_t state;        /* enum node_state */
    bool linked;          /* its connection stands */
    bool inventory_due;   /* an inventory is under way: first of this master, or after a return */
    uint32_t inventories; /* segments told whole since the mount */
    /* Parts here whose put_end came while the inventory is under way. */
    struct ended_part *ended; /* malloc'd */
    uint32_t ended_count;
    uint32_t ended_capacity;
    bool adopts;          /* what it holds may be believed: it was not given up before */
    bool draining;        /* it is being emptied: nothing is placed on it */
    uint32_t copies_in;   /* under way to it */
    uint32_t copies_out;  /* and from it */
    uint64_t reporter;    /* session that could not reach it, since its last heartbeat; 0: none */
    uint32_t secret_term; /* the term its secret was made in */
    char address[LIMIT_NAME_SIZE + 1];
    char host[LIMIT_NAME_SIZE + 1];
    char domain[LIMIT_NAME_SIZE + 1]; /* what fails with it: its host's name if it names none */
    char near[LIMIT_NAME_SIZE + 1];   /* address from within the host, may be empty */
    char name[LIMIT_NAME_SIZE + 1];
};

struct segment {
    struct space *space; /* what is ready of it; NULL: its node is DEAD and it was dropped */
    struct list seconds; /* struct second: copies that lie here */
    struct victim_list lists[POLICY_LISTS];
    struct victim_list soft;                    /* soft-pinned objects, LRU order */
    struct victim_list done;                    /* those that go first, LRU order */
    struct victim_list kept[WIRE_PRIORITY_MAX]; /* of priority 1 .., LRU order each */
    uint64_t incarnation;
    uint64_t mounted_size;  /* bytes of its memory; what the node offers may fall below */
    uint64_t size;          /* bytes that its node offers */
    uint64_t ready;         /* of these, committed, as its node said (G1) */
    uint64_t asked;         /* its node was asked to commit so many, since the mount */
    uint32_t slot_count;    /* that its node offers */
    uint32_t slots_ready;   /* as ready */
    uint32_t asked_slots;   /* as asked */
    uint32_t told_end;      /* the inventory under way tells the slots below */
    uint64_t coming_bytes;  /* of CLOSING objects, expected back within 50 ms */
    uint64_t closing_bytes; /* of CLOSING objects, all of them */
    uint64_t wanted_bytes;  /* of put items that wait for room here */
    uint64_t rate;          /* bytes granted a second, smoothed */
    uint64_t rate_bytes;    /* granted since rate_since_ns */
    uint64_t rate_since_ns;
    uint64_t widen_after_ns; /* no window of neighbours is looked for before */
    uint32_t index;          /* in core->segments */
    uint32_t on_node;        /* index on the node */
    uint32_t node;           /* index in core->nodes */
    uint32_t drop_cursor;    /* DEAD: next slot to look at */
    bool dropping;           /* DEAD: its extents are being dropped in steps */
    bool told;               /* its inventory is complete */
    uint32_t told_slots;     /* from slot 0 on, since the mount */
    uint8_t tier;
    char name[LIMIT_NAME_SIZE + 1];
    /* Forgets gathered in this step. */
    struct wire_slot_gen *forgets; /* malloc'd */
    uint32_t forget_count;
    uint32_t forget_capacity;
    struct list_link forgetting; /* in core->forgetting */
};

/* A pin with a deadline: side record of an object. */
struct pin {
    struct wheel_timer timer;
    uint32_t object;
};

/* A process of a node that was emptied: it is not taken in again. */
struct drained {
    uint64_t incarnation;
    uint64_t process;
};

/* A member that a session could not read. */
struct broken_report {
    uint64_t gen;
    uint64_t reporter; /* id of the session */
};

#define CORE_BROKEN_REPORTS 64u

/* As many bytes evicted as the pool holds. */
#define CORE_TURNOVER_MARKS 5u

struct turnover {
    uint64_t next_bytes;                 /* evicted in all: then the next quarter of one is over */
    uint64_t count;                      /* of quarters */
    uint32_t marks[CORE_TURNOVER_MARKS]; /* a ring: core->touches at the ends of the last ones */
    uint32_t cursor; /* the next absent parent whose children are looked at; 0: none */
};

/* ---- the core ---- */

struct core {
    struct core_options options;
    struct rng rng;
    struct hash128 secret;
    struct wheel wheel;
    fault_set faults;
    uint64_t start_ns; /* guards count their ticks from here */
    uint64_t now_ns;
    struct core_outputs *outputs; /* of this step */
    const struct policy_ops *policy;

    struct region region;      /* of what follows, the index, the keys and the spaces */
    struct pool objects;       /* struct object */
    struct pool spreads;       /* struct spread */
    struct pool writes;        /* struct write */
    struct pool closings_pool; /* struct closing */
    struct index *index;       /* hash_key(...).low -> object */
    struct index *pins;        /* hash of an object number -> struct pin in pin_pool */
    struct pool pin_pool;
    struct index *expiries; /* as pins -> struct expiry in expiry_pool */
    struct pool expiry_pool;
    struct keys *keys;

    struct pool second_pool; /* struct second */
    struct index *seconds;   /* as pins -> struct second in second_pool */
    uint64_t second_bytes;
    struct pace second_pace;
    uint32_t wanting[CORE_SECONDS_WANTED]; /* a ring: objects that want one, as they were used */
    uint32_t wanting_first;
    uint32_t wanting_count;
    struct pool copy_pool; /* struct copy */
    struct index *copying; /* as pins -> struct copy in copy_pool */
    struct list copies;    /* under way */
    struct list tasks;     /* struct task */
    uint32_t task_count;
    uint32_t tasks_running;
    uint64_t next_task;
    struct wheel_timer copies_timer; /* when the pace lets the next begin */
    bool copies_due;                 /* tasks are to be looked at */
    struct drained drained[LIMIT_NODES];
    uint32_t drained_count; /* so far */

    struct session **sessions; /* by index; NULL: unused */
    uint32_t session_count;    /* slots in use or used before */
    uint32_t sessions_open;
    struct node *nodes[LIMIT_NODES]; /* by number - 1 */
    uint32_t node_count;
    struct segment *segments[LIMIT_SEGMENTS];
    uint32_t segment_count;
    struct core_expected expected[LIMIT_NODES];
    uint32_t expected_count;          /* nodes in the state file: mounted, not DEAD */
    uint32_t missing;                 /* of those that a restart waits for, not in yet */
    struct wheel_timer missing_timer; /* then they count as DEAD */
    uint32_t recovering;              /* first RECOVERING record, linked by prev and next */
    uint32_t drops;                   /* segments of DEAD nodes being dropped */
    bool missing_known[LIMIT_NODES];  /* expected[i] has told its inventory or never had to */

    struct index *requests;   /* token -> number in request_pool */
    struct pool request_pool; /* struct request */
    struct list dirty;        /* requests with answers */
    struct list jobs;         /* remove_match under way, the next one to run first */
    struct list forgetting;   /* segments with forgets to send */
    struct list room;         /* waiters for room, in order */
    uint32_t waiters;
    uint32_t evictions_left;       /* in this step */
    bool room_changed;             /* the queue for room is to be looked at */
    uint64_t breaking_until_ns;    /* leases are broken without waiting until then */
    struct wheel_timer room_timer; /* when the head of the queue may break leases */

    struct list closings; /* counted as coming, oldest first */
    struct list awaited;  /* closings that somebody waits for, or did */
    uint64_t forget_ns;   /* from a forget to FREED, smoothed */
    struct list reads;    /* of all sessions, oldest first */
    struct list leases[LEASE_KINDS];
    uint64_t read_entries;

    uint64_t given_up[LIMIT_NODES]; /* incarnations that were DEAD, the last ones */
    uint32_t given_up_count;        /* so far */
    bool adopts_strangers;

    uint64_t cluster;
    uint32_t term;
    uint64_t next_counter; /* of generations */
    uint64_t secrets;      /* made for nodes so far */
    uint64_t touches;      /* time of the policies */
    struct reuse reuse;    /* of policies that judge by classes */
    struct ghosts ghosts;  /* of policies that remember what they evicted */
    struct trial trial;    /* of policies that can be other sizes, or another rule, in shadow */
    uint64_t units_max;    /* that the pool can hold, at the sizes of those that it holds */
    uint64_t units_max_at; /* touches: to be looked at again */
    uint32_t inserted;     /* units, by policies that keep some of them */

    uint64_t largest_recent; /* bytes of the largest recent object, decays */
    uint64_t free_bytes;     /* of all segments that may be given out */
    uint64_t ready_bytes;    /* of these segments, free or used */
    uint64_t pool_bytes;     /* that they may grow to */
    uint64_t closing_bytes;
    uint64_t writing_bytes;
    uint64_t leased_bytes;
    uint64_t hard_pinned_bytes;
    uint32_t readable;
    uint32_t writing;
    uint32_t closing;
    uint64_t counters[128]; /* COUNTER rows by CORE_METRIC_* */

    struct pool groups;            /* struct group */
    struct pool group_timers;      /* struct group_timer */
    struct index *group_ids;       /* hash_key of an id -> record of a group that is not CLOSING */
    struct list forming;           /* admitted groups that are being formed, oldest first */
    struct list forming_room;      /* put items of groups that are not admitted yet, in order */
    uint64_t forming_bytes;        /* reserved by those in `forming` */
    uint32_t forming_count;        /* of these */
    struct index *group_holds;     /* id of a hold -> struct group_hold */
    struct index *holds_of_groups; /* record of a group -> struct group_hold of it */
    struct pool group_hold_pool;
    struct list group_waits;     /* items that wait for a group to be complete, by its id */
    struct list group_key_waits; /* the same by the key of a member */
    struct pool group_writer_pool;
    struct index *group_writers; /* timer and session -> struct group_writer */
    struct pool group_absent_pool;
    struct index *group_absents; /* hash of an id -> struct group_absent */
    struct list groups_absent;   /* the one that was not asked for longest first */
    struct turnover turnover;
    struct index *group_claims; /* as pins -> struct group_claim */
    struct pool group_claim_pool;
    struct broken_report broken[CORE_BROKEN_REPORTS]; /* a ring */
    uint32_t broken_count;                            /* so far */
    uint32_t groups_recovering; /* first RECOVERING record, linked by prev and next */
    uint32_t groups_closing;    /* first record of CLOSING groups with members, linked by next */
    uint32_t group_count;       /* records in use */
    uint64_t group_table_bytes; /* of their tables of members */
    uint32_t group_members;     /* READABLE objects that are members */

    void (*on_evicted)(void *owner, struct bytes key); /* core_watch_evicted; NULL: nobody */
    void *evicted_owner;
};

enum core_metric {
#define METRIC(name, kind, text) CORE_METRIC_##name,
#include "core/core_metrics.def"
#undef METRIC
    CORE_METRIC_COUNT
};

static inline void core_count(struct core *core, enum core_metric metric, uint64_t by)
{
    core->counters[metric] += by;
}

/* Spreads numbers over an index, which looks at the upper half of a hash. */
static inline uint64_t core_mix(uint64_t number)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct object *core_object(const struct core *core, uint32_t number)
{
    return (struct object *)pool_at(&core->objects, number);
}

#endif
