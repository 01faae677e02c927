/* Snowskin: put and get KV-cache pages in a cluster's memory.
 *
 * Every call takes many items; a single one is a batch of one.  Each item has a status of its own;
 * a call returns SNOW_OK when all its items are DONE (OK, EXISTS, UNCERTAIN), else the status of
 * the first that is not.
 *
 * Threads.    A client may be used by any number of threads at once; nothing starts a thread unless
 *             asked to (SNOW_QUEUE_THREAD, options.segment), but for helpers of large
 *             copies (options.copy_threads).
 *             snow_close: when no other call is under way.
 * Forks.      The child of a fork has none of the library's connections: every call on what its
 *             parent opened answers SNOW_CLOSED, closing it does nothing.  It may open its own.
 * Exit.       A process may exit, or die, with calls under way in other threads.  Signals do not
 *             disturb calls; SIGPIPE is never raised by them.
 * Deadlines.  Every call ends by its deadline (options.deadline_ms, or the call's own).  A call
 *             that ended touches the caller's memory no more.
 * Keys.       1 .. 4096 bytes, any bytes.  Sizes and offsets are bytes.
 * Structs.    Zeroed, then filled in: what is zero has its default.  Members called `reserved` must
 *             be zero; a later version may give them a meaning, and a library that does not know it
 *             answers INVALID. */
#ifndef SNOWSKIN_SNOWSKIN_H
#define SNOWSKIN_SNOWSKIN_H

#include "snowskin/api.h"
#include "snowskin/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNOW_DEPTH_UNKNOWN UINT32_MAX

/* "0.1.0": of the library that the program runs with.  Static. */
SNOW_API const char *snow_version(void);

struct snow_client;
struct snow_group_info;

/* Names a look-up of this client, for `continues`; 0: none. */
typedef uint64_t snow_read_id;

/* How to reach masters and nodes. */
enum snow_transport {
    SNOW_TRANSPORT_ANY = 0, /* shared memory on this host where that can be, else TCP */
    SNOW_TRANSPORT_TCP = 1, /* always TCP */
    SNOW_TRANSPORT_SHM = 2  /* only shared memory: objects on other hosts are out of reach */
};

/* Of what the checksum that its writer computed is compared by who reads it. */
enum snow_verify {
    SNOW_VERIFY_NOTHING = 0,
    SNOW_VERIFY_OTHERS = 1, /* what comes from other hosts: the default of snow_options_init */
    /* Also whole objects that are read within the host, where nothing but the memory itself could
     * have changed them; not views, nor parts, nor what was put without a checksum. */
    SNOW_VERIFY_EVERYWHERE = 2
};

enum snow_populate {
    SNOW_POPULATE_AHEAD = 0, /* memory is committed as it is needed */
    SNOW_POPULATE_ALL = 1    /* all of it, from the start on, behind the work */
};

/* Memory that this process gives to the pool, from snow_open to snow_close: what lies in it is for
 * everybody, and gone when the client is closed or the process ends.  Three threads of the library
 * serve it, whatever the program's own threads do.  Zeroed, then filled in. */
struct snow_segment {
    uint64_t size;      /* bytes, 1 MiB .. 1 TiB; may be more than the host has free now */
    const char *name;   /* for people, and for puts that prefer it; NULL: none */
    const char *domain; /* failure domain, a rack or a zone; NULL: the host */
    const char *listen; /* where other hosts reach it; NULL: "127.0.0.1:0", this host alone */
    uint32_t populate;  /* enum snow_populate */
    uint32_t spare;     /* 0 */
    uint64_t reserved[4];
};

#define SNOW_GUARD_CLUSTER UINT32_MAX

struct snow_key_rules;

struct snow_options {
    const char *master;   /* "host:port" */
    const char *token;    /* cluster token, NULL: none */
    const char *name;     /* of this client, for people; NULL: host and process */
    uint32_t deadline_ms; /* of a call that names none; 0: 5000 */
    /* Of a put for room or another writer; 0: half the deadline.  For memory that a node is still
     * committing puts wait until 7/8 of the deadline, unless they are not to wait at all. */
    uint32_t wait_ms;
    /* exists and get keep others from removing what was found without force; 0: not;
     * SNOW_GUARD_CLUSTER: for as long as the master is set to. */
    uint32_t guard_ms;
    uint32_t verify;    /* enum snow_verify */
    uint32_t transport; /* enum snow_transport */
    /* TCP.  Congestion control, as the kernel names it; NULL: cubic to peers on loopback and
     * private addresses, else the system's. */
    const char *congestion;
    uint32_t connections;     /* to each node; 0: 2 */
    uint32_t user_timeout_ms; /* a peer that acknowledges nothing so long is given up; 0: 10000 */
    uint32_t send_buffer;     /* bytes of a connection's; 0: as the system grows them */
    uint32_t receive_buffer;
    const struct snow_segment *segment; /* NULL: this process gives no memory */
    /* 1: what is put goes to the segment of this process, else to one of this host, while they have
     * room or can make it; a put's own `segment` comes before.  Second copies go to other hosts. */
    uint32_t local_first;
    /* That a large copy within the host is split over, the caller's among them, 1 to 64; 0: 4, or
     * as many as there are CPUs.  The others are started when they are first needed. */
    uint32_t copy_threads;
    /* 1: puts within the host compute no checksum, which takes about a tenth of their time.  Who
     * reads such an object from another host checks what happened on the way, not what happened
     * before.  (Long puts within a host have none either.) */
    uint32_t no_checksum;
    uint32_t spare; /* 0 */
    /* Groups by the keys of engines that name none (groups.h); NULL: objects are in the groups that
     * puts say. */
    const struct snow_key_rules *key_rules;
    uint64_t reserved[1];
};

SNOW_API void snow_options_init(struct snow_options *options);

/* Connects to the master, and has it take the segment in, waiting at most the deadline.  INVALID
 * (options, *reason says what), UNREACHABLE (*reason names the address), REFUSED (version, cluster
 * or token; *reason says what to do), NO_SPACE (the segment), NO_MEMORY.  reason may be NULL; its
 * text is static or lives until the next call of this thread. */
SNOW_API enum snow_status snow_open(const struct snow_options *options, struct snow_client **client,
                                    const char **reason);
/* What its segment holds is gone; waits at most a second for the master to know. */
SNOW_API void snow_close(struct snow_client *client);

/* The segment that this client gives. */
struct snow_hosted {
    uint64_t size;        /* bytes, in whole pages of 2 MiB where it is as large */
    uint64_t ready;       /* of these, committed so far */
    uint64_t incarnation; /* as snow_nodes tells it */
    const char *address;  /* where its node listens; lives as long as the client */
    uint32_t mounted;     /* 1: the master has it now */
    uint32_t spare;
    uint64_t reserved[4]; /* 0 */
};

/* NOT_FOUND: it gives none.  CLOSED. */
SNOW_API enum snow_status snow_hosted(struct snow_client *client, struct snow_hosted *hosted);

struct snow_key {
    const void *at;
    size_t size;
};

/* For people: what was in the way of this thread's last call, when that did not return SNOW_OK and
 * there is more to say than its status; else "".  Lives until the next call of this thread. */
SNOW_API const char *snow_reason(void);

/* What a call may say beside its items; zeroed: all defaults. */
struct snow_call {
    uint32_t deadline_ms;   /* 0: the client's */
    uint32_t wait_ms;       /* puts; 0: the client's; UINT32_MAX: do not wait */
    snow_read_id continues; /* puts: the read that found the prefix */
    const char *segment;    /* puts: preferred segment, NULL: none */
    uint32_t flags;         /* SNOW_CALL_*; one that the call does not know is INVALID */
    snow_read_id *read_id;  /* out, get and exists: names this read; may be NULL */
    /* UNREACHABLE, without waiting for the deadline, once the link to the master has been down for
     * so long; at once, when it has been already.  0: only at the deadline. */
    uint32_t patience_ms;
    uint32_t spare; /* 0 */
    /* exists: where to tell the group of each item (groups.h), one an item; a lease is on all of
     * its members then.  NULL: not wanted. */
    struct snow_group_info *groups;
    uint64_t reserved[2];
};

#define SNOW_CALL_UNORDERED (1u << 0) /* the keys are no chain */
#define SNOW_CALL_FORCE (1u << 1) /* remove: guarded objects too, and groups with such members */
#define SNOW_CALL_TOUCH (1u << 2) /* exists: makes what was found young, counts no use */
#define SNOW_CALL_LEASE (1u << 3) /* exists: keeps what was found from eviction for a while */
#define SNOW_CALL_GROUP (1u << 5) /* remove: members with their groups */
#define SNOW_CALL_NO_WAIT_WRITER \
    (1u << 4) /* puts: answer IN_PROGRESS instead of waiting for another writer */

/* A piece of the caller's memory.  A put only reads it. */
struct snow_buffer {
    void *at;
    size_t size;
};

enum snow_pin { SNOW_PIN_NONE = 0, SNOW_PIN_SOFT = 1, SNOW_PIN_HARD = 2 };

#define SNOW_PIN_CLUSTER UINT32_MAX /* pin_ms: as long as the master is set to */

/* ---- registered memory ---- */

/* Memory that puts and gets will use again and again: a hint, all other memory works too.  Its
 * pages are made present now, so that the first use does not have to; transports to come will know
 * them.  It stays mapped until it is unregistered, or the client closed.  INVALID: nothing, or it
 * overlaps what is registered (snow_reason tells); LIMIT: 4,096 ranges; NO_MEMORY. */
SNOW_API enum snow_status snow_register(struct snow_client *client, void *at, size_t size);
/* Waits until no call that began before touches it.  NOT_FOUND: no registered range begins there;
 * TIMEOUT: something still runs on it, and it stays registered. */
SNOW_API enum snow_status snow_unregister(struct snow_client *client, void *at,
                                          const struct snow_call *call);

/* ---- put ---- */

struct snow_member;

struct snow_put {
    struct snow_key key;
    const void *from;
    size_t size; /* bytes at `from`, or of the buffers in all */
    /* instead of `from`: the object is these, one after the other; 65,536 at most */
    const struct snow_buffer *buffers;
    size_t buffer_count;
    uint32_t depth;   /* position along the chain, or SNOW_DEPTH_UNKNOWN: as look-ups told */
    uint8_t replicas; /* copies; 0: 1 */
    uint8_t pin;      /* enum snow_pin */
    uint32_t pin_ms;  /* of a soft pin; 0: no deadline; or SNOW_PIN_CLUSTER */
    uint32_t replace; /* 1: take the place of an existing value */
    /* Hints, as in struct snow_hints. */
    uint32_t expires_after_ms; /* from this call on; 0: it does not */
    uint8_t priority;
    uint8_t done;                     /* 0 or 1 */
    uint16_t spare;                   /* 0 */
    const struct snow_member *member; /* of a group (groups.h); NULL: of none */
    uint64_t reserved[1];
    /* out */
    uint32_t elsewhere; /* 1: it EXISTS, but is not in the group that `member` says */
    uint32_t unused;
    enum snow_status status; /* OK, EXISTS, UNCERTAIN; else why not */
    uint32_t shortfall;      /* copies fewer than asked */
};

SNOW_API enum snow_status snow_put(struct snow_client *client, struct snow_put *items, size_t count,
                                   const struct snow_call *call);

/* ---- put, in several calls ---- */

/* A put whose bytes come one after the other, as the layers of a model do: opened with its whole
 * size, written in ranges, then committed.  Nobody sees it before; but a master that restarts
 * takes what nodes hold whole for stored: a put all of whose bytes were written may show then,
 * whole, though it was not committed.
 *
 * Time.     The grant lasts hold_ms from its opening, from each renewal, and from each write that
 *           comes when half of that has gone; ten minutes in all.
 * Failures. A copy of which a range could not be written within its call is given up; when none is
 *           left every call says why, and a new put has to be begun.  Bytes of open puts count
 *           against the session's share of the pool, a quarter.
 * Threads.  Ranges may be written by several threads at once. */
struct snow_writer;

/* item: as of a put, without memory; size is that of the whole, and not 0.  hold_ms 0: 60000.  OK:
 * *writer is open.  EXISTS, UNCERTAIN ... as snow_put: *writer is NULL. */
SNOW_API enum snow_status snow_writer_open(struct snow_client *client, struct snow_put *item,
                                           uint32_t hold_ms, const struct snow_call *call,
                                           struct snow_writer **writer);

/* Bytes of the object from offset on.  In any order; each byte once. */
struct snow_write {
    uint64_t offset;
    const void *from;
    size_t size;
    const struct snow_buffer *buffers; /* as in snow_put */
    size_t buffer_count;
    uint64_t reserved[2];
    /* out: OK; INVALID: a range that is not in the object, or touches bytes that were written;
     * LIMIT: more than 1,024 ranges with gaps between them; else what ended the put */
    enum snow_status status;
};

SNOW_API enum snow_status snow_writer_write(struct snow_writer *writer, struct snow_write *items,
                                            size_t count, const struct snow_call *call);
/* More time.  GONE: the grant has ended; LIMIT: it is ten minutes old. */
SNOW_API enum snow_status snow_writer_renew(struct snow_writer *writer, uint32_t hold_ms,
                                            const struct snow_call *call);
/* The object is there.  INVALID: bytes are missing (snow_reason says how many), or ranges are being
 * written: the put stays open.  TIMEOUT, UNREACHABLE: not known; it may be committed again.
 * shortfall (may be NULL): copies fewer than asked. */
SNOW_API enum snow_status snow_writer_commit(struct snow_writer *writer, uint32_t *shortfall,
                                             const struct snow_call *call);
/* Frees it; what was not committed is given up.  When no other call of it is under way; before
 * snow_close. */
SNOW_API void snow_writer_close(struct snow_writer *writer);

/* ---- get ---- */

struct snow_get {
    struct snow_key key;
    /* NULL with room 0 and no buffers: the library allocates; free it by snow_free */
    void *to;
    size_t room; /* bytes at `to`, or of the buffers in all */
    /* instead of `to`: filled one after the other; 65,536 at most */
    const struct snow_buffer *buffers;
    size_t buffer_count;
    /* Part of the object: bytes from offset on.  Length 0: to its end.  Over TCP such a range is
     * checked against what the node sent, not against what the writer put: that checksum is of
     * the whole. */
    uint64_t offset;
    uint64_t length;
    uint64_t reserved[4];
    /* out */
    /* OK; NOT_FOUND; LIMIT: room is too small (size says how much is needed; nothing written);
     * INVALID: among other things, a range that is not inside the object (see object_size) */
    enum snow_status status;
    size_t size; /* bytes that were read, or with LIMIT would be */
    uint64_t object_size;
};

SNOW_API enum snow_status snow_get(struct snow_client *client, struct snow_get *items, size_t count,
                                   const struct snow_call *call);
SNOW_API void snow_free(void *data);

/* ---- views ---- */

/* An object, looked at without a copy: in the memory of a node on this host.  One that lies on
 * another host, or in several parts, is copied to memory of the view's own.  The bytes stay as they
 * are until the view ends, whatever happens to the object, to its node or to the client: removal
 * and eviction leave the memory alone that long.  So end views soon: what is viewed is not
 * evicted, and a session may hold a quarter of the pool so (above it: LIMIT; snow_get works). */
struct snow_view {
    struct snow_key key;
    uint64_t reserved[2];
    /* out */
    enum snow_status status; /* OK, NOT_FOUND, LIMIT ... */
    const void *at;          /* only to be read */
    size_t size;
    uint32_t copied; /* 1: to memory of its own */
    void *handle;    /* the library's; NULL: nothing has to be ended */
};

SNOW_API enum snow_status snow_view(struct snow_client *client, struct snow_view *items,
                                    size_t count, const struct snow_call *call);

/* Ends views, in any order; those without a handle are passed over.  Any thread; also after
 * snow_close, not during it.  In the child of a fork it only forgets them. */
SNOW_API void snow_view_end(struct snow_view *items, size_t count);

/* ---- exists, size ---- */

struct snow_stat {
    struct snow_key key;
    /* Where the numbers (snow_node.number) of the nodes that hold its copies are put, one a copy,
     * that of its first part; NULL: not asked for. */
    uint32_t *nodes;
    uint32_t node_room; /* as many as fit */
    /* out */
    uint32_t copies;         /* with `nodes`: how many there are, also more than fit */
    enum snow_status status; /* OK, NOT_FOUND, UNKNOWN */
    uint64_t size;
    uint64_t gen; /* names this version of the value */
    uint32_t pin; /* enum snow_pin */
};

SNOW_API enum snow_status snow_exists(struct snow_client *client, struct snow_stat *items,
                                      size_t count, const struct snow_call *call);

/* ---- remove, pin ---- */

struct snow_item {
    struct snow_key key;
    uint64_t reserved[2];
    enum snow_status status; /* out */
};

/* OK: gone, and it will not come back.  NOT_FOUND: there was none.  IN_USE: guarded.  UNCERTAIN: a
 * holder is out of reach. */
SNOW_API enum snow_status snow_remove(struct snow_client *client, struct snow_item *items,
                                      size_t count, const struct snow_call *call);

enum snow_match { SNOW_MATCH_ALL = 0, SNOW_MATCH_PREFIX = 1, SNOW_MATCH_REGEX = 2 };

struct snow_matched {
    uint64_t removed;
    uint64_t guarded;   /* skipped */
    uint64_t uncertain; /* removed, a holder is out of reach */
    char reason[256];   /* of INVALID: what is wrong with the pattern */
    uint64_t reserved[4];
};

SNOW_API enum snow_status snow_remove_match(struct snow_client *client, enum snow_match match,
                                            struct snow_key pattern, const struct snow_call *call,
                                            struct snow_matched *matched);

SNOW_API enum snow_status snow_pin(struct snow_client *client, struct snow_item *items,
                                   size_t count, enum snow_pin pin, uint32_t pin_ms,
                                   const struct snow_call *call);

/* What the caller knows of the future of objects; a master that restarts does not know it any more.
 * Wrong values are INVALID. */
struct snow_hints {
    uint32_t flags;            /* SNOW_HINT_* */
    uint32_t priority;         /* up to SNOW_PRIORITY_MAX: evicted later than all of lower ones */
    uint32_t expires_after_ms; /* from this call on; use does not extend it; 0: at once */
    uint32_t spare;            /* 0 */
    uint64_t reserved[2];
};

#define SNOW_PRIORITY_MAX 7u
#define SNOW_HINT_PRIORITY (1u << 0) /* sets the priority; else it stays */
#define SNOW_HINT_EXPIRES (1u << 1)  /* sets the end */
#define SNOW_HINT_LASTS (1u << 2)    /* takes the end away */
#define SNOW_HINT_DONE (1u << 3) /* this chain is not continued: first to go, until it is used */

/* Counts a use of objects, in the order of their chain, and takes hints (may be NULL).  OK or
 * NOT_FOUND, each. */
SNOW_API enum snow_status snow_touch(struct snow_client *client, struct snow_item *items,
                                     size_t count, const struct snow_hints *hints,
                                     const struct snow_call *call);
/* Objects end after_ms from this call on; 0: at once; UINT32_MAX: not any more.  No use is
 * counted. */
SNOW_API enum snow_status snow_expire(struct snow_client *client, struct snow_item *items,
                                      size_t count, uint32_t after_ms,
                                      const struct snow_call *call);

/* ---- what is there ---- */

struct snow_listed {
    struct snow_key key; /* lives until the callback returns */
    uint64_t size;
    uint64_t gen;
    uint32_t depth;
    uint32_t pin; /* enum snow_pin */
    uint32_t copies;
    uint32_t uses;
};

/* Calls on_row for every object whose key begins with prefix, in no order; objects that come or go
 * meanwhile may be missed.  on_row returns 0 to go on; its time does not count for the deadline. */
SNOW_API enum snow_status snow_list(struct snow_client *client, struct snow_key prefix,
                                    int (*on_row)(void *owner, const struct snow_listed *row),
                                    void *owner, const struct snow_call *call);

struct snow_node {
    uint32_t number;
    const char *state;   /* "alive", "draining", "suspect", "recovering", "dead" */
    const char *address; /* these texts live until the callback returns */
    const char *name;
    uint64_t incarnation;
    uint64_t size;
    uint64_t used;
    uint64_t closing;
};

SNOW_API enum snow_status snow_nodes(struct snow_client *client,
                                     int (*on_row)(void *owner, const struct snow_node *row),
                                     void *owner, const struct snow_call *call);

/* The master's counters, by name. */
SNOW_API enum snow_status snow_stats(struct snow_client *client,
                                     int (*on_row)(void *owner, const char *name, uint64_t value),
                                     void *owner, const struct snow_call *call);

/* ---- for operators -------------------------------------------------------------------------- */

enum snow_task_kind {
    SNOW_TASK_COPY = 1, /* one more copy of an object, on node `to` */
    SNOW_TASK_MOVE = 2, /* what lies on node `from` goes to node `to` */
    SNOW_TASK_DRAIN = 3 /* node `from` is emptied and leaves: what is worth it goes to others */
};

/* What nodes are to do among themselves.  Zeroed, then what the kind needs. */
struct snow_task {
    uint32_t kind; /* enum snow_task_kind */
    uint32_t from; /* numbers of nodes, as snow_nodes tells them */
    uint32_t to;
    uint32_t spare;
    struct snow_key key;  /* of a copy, a move */
    uint64_t rate;        /* bytes a second; 0: as the master was told */
    uint64_t reserved[4]; /* 0 */
};

/* Begins one; it goes on without this client.  Started again while it runs: the same.  *id: to ask
 * for it.  NOT_FOUND (no such object, no such node), EXISTS (the node has a copy already), INVALID,
 * BUSY: snow_reason says more. */
SNOW_API enum snow_status snow_task_start(struct snow_client *client, const struct snow_task *task,
                                          const struct snow_call *call, uint64_t *id);
/* OK: it is over, by this or before; what was moved stays where it is.  NOT_FOUND. */
SNOW_API enum snow_status snow_task_cancel(struct snow_client *client, uint64_t id,
                                           const struct snow_call *call);

/* How far one is.  Texts and key live until the callback returns. */
struct snow_task_info {
    uint64_t id;
    const char *kind;        /* "copy", "move", "drain" */
    const char *state;       /* "running", "done", "failed", "cancelled" */
    const char *reason;      /* of one that failed, or what one that runs waits for; else "" */
    enum snow_status status; /* of one that failed */
    uint32_t from;
    uint32_t to;
    uint32_t spare;
    struct snow_key key;
    uint64_t rate; /* bytes a second; 0: as fast as it goes */
    uint64_t elapsed_ms;
    uint64_t left_ms; /* at the speed so far; UINT64_MAX: not known */
    uint64_t objects; /* copied, moved */
    uint64_t bytes;
    uint64_t dropped_objects; /* worth less than all that they would have taken the place of */
    uint64_t dropped_bytes;
    uint64_t left_objects; /* as far as is known */
    uint64_t left_bytes;
    uint64_t reserved[4];
};

/* Calls on_row for the task of this id, or for all when it is 0: those that run and the last ones
 * that have ended.  on_row returns 0 to go on. */
SNOW_API enum snow_status snow_tasks(struct snow_client *client, uint64_t id,
                                     int (*on_row)(void *owner, const struct snow_task_info *row),
                                     void *owner, const struct snow_call *call);

/* ---- without waiting ------------------------------------------------------------------------ */

/* A queue takes the same calls without waiting for them and tells of each item as it ends: the
 * first pages of a long get can be used while the others are still on their way.
 *
 * Who works.  The threads that are in a call: snow_queue_poll, a blocking call, for a moment
 *             snow_submit_*.  While none is, nothing moves; snow_queue_fd is readable when there is
 *             something to do or to tell.  With SNOW_QUEUE_THREAD a thread of the library works all
 *             the time; blocking calls of the same client then wait for it, a little longer than
 *             they would take by themselves.
 * Memory.     An item's buffers are the caller's again with its completion; the array of items, and
 *             all that it and the call point to, with the one that says `last`.  snow_call itself
 *             and the name of a segment are copied.
 * Threads.    Any may submit and poll at once.  snow_queue_destroy: when no other call is under way
 *             on it; before snow_close, which else does it. */
struct snow_queue;

#define SNOW_QUEUE_THREAD (1u << 0) /* a thread of the library works */

/* Zeroed: all defaults. */
struct snow_queue_options {
    uint32_t depth; /* items under way and completions not taken, at most; 0: 4096; max 1048576 */
    uint32_t flags; /* SNOW_QUEUE_* */
    uint64_t reserved[4];
};

/* options may be NULL.  INVALID, LIMIT (descriptors, threads), NO_MEMORY. */
SNOW_API enum snow_status snow_queue_create(struct snow_client *client,
                                            const struct snow_queue_options *options,
                                            struct snow_queue **queue);
/* What is under way is cancelled; its completions are dropped, its memory is the caller's. */
SNOW_API void snow_queue_destroy(struct snow_queue *queue);

/* For select, poll, epoll: readable when snow_queue_poll has something to do.  It may be readable
 * without that, for a moment.  Only to be watched; the queue's. */
SNOW_API int snow_queue_fd(const struct snow_queue *queue);

/* Start what the calls of the same names do.  tag comes back in the completions.  OK: each item
 * will have one completion, also those that are wrong.  BUSY: no room in the queue, poll it.
 * INVALID (no items, more than the queue's depth, flags), CLOSED, NO_MEMORY: nothing was
 * started. */
SNOW_API enum snow_status snow_submit_put(struct snow_queue *queue, struct snow_put *items,
                                          size_t count, const struct snow_call *call, uint64_t tag);
SNOW_API enum snow_status snow_submit_get(struct snow_queue *queue, struct snow_get *items,
                                          size_t count, const struct snow_call *call, uint64_t tag);
SNOW_API enum snow_status snow_submit_exists(struct snow_queue *queue, struct snow_stat *items,
                                             size_t count, const struct snow_call *call,
                                             uint64_t tag);
SNOW_API enum snow_status snow_submit_remove(struct snow_queue *queue, struct snow_item *items,
                                             size_t count, const struct snow_call *call,
                                             uint64_t tag);

/* Of a writer of the queue's client. */
SNOW_API enum snow_status snow_submit_write(struct snow_queue *queue, struct snow_writer *writer,
                                            struct snow_write *items, size_t count,
                                            const struct snow_call *call, uint64_t tag);

struct snow_completion {
    uint64_t tag;
    uint64_t index;          /* of the item in its call */
    enum snow_status status; /* as in the item */
    uint32_t last;           /* 1: the last one of its call */
    uint64_t reserved[2];    /* 0 */
};

/* Takes up to max completions, in the order in which items ended; waits at most timeout_ms for the
 * first (0: does what can be done at once; UINT32_MAX: for ever).  OK: *count is 1 or more.
 * TIMEOUT: there was none.  INVALID, CLOSED, NO_MEMORY. */
SNOW_API enum snow_status snow_queue_poll(struct snow_queue *queue,
                                          struct snow_completion *completions, size_t max,
                                          uint32_t timeout_ms, size_t *count);

/* Ends all calls with this tag early: their items that have not ended complete as CANCELLED, soon.
 * What a put or remove has done by then stays done.  NOT_FOUND: none is under way; CLOSED. */
SNOW_API enum snow_status snow_queue_cancel(struct snow_queue *queue, uint64_t tag);

#ifdef __cplusplus
}
#endif
#endif
