/* Client: puts and gets, driven by events.
 *
 * Problem.  One process asks for a thousand things at once, of a master that may restart and of
 *           nodes that may die; each must end in time, with the truth.
 * Idea.     Every operation is a struct that lives in its owner's object and ends by a callback.
 *           All go over one link to the master and a few to each node.  What a lost answer leaves
 *           open is asked again, by the one retry policy, until the operation's deadline.
 * Invariants.
 *   C1  An operation that was started ends by on_done or by cancel, never both, at its deadline at
 *       the latest.  No callback runs inside start or cancel.
 *   C2  When it has ended, its items have their status, and the memory they name is not touched
 *       any more.
 *   C3  A get that ends OK has filled exactly the object's bytes, checked (P1); any other says so.
 *       on_item, where it is set, tells of items on the way: the item has its status then, and its
 *       memory is the owner's.  Items of which it has not told have theirs at the end.
 *   C4  An item is answered by the first truth: what an earlier answer settled is not asked again.
 * Threads.  All on the loop.  client/wait.c and queue.c put calls from any thread above it.
 *
 * The items of snowskin.h are used as they are: outputs are set in place. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/limits.h"
#include "base/status.h"
#include "client/ask.h"
#include "client/moves.h"
#include "env/env.h"
#include "snowskin/groups.h"
#include "snowskin/snowskin.h"
#include "transport/transport.h"

struct client;

/* How to reach what is on the same host. */
enum client_way {
    CLIENT_WAY_ANY = SNOW_TRANSPORT_ANY,
    CLIENT_WAY_TCP = SNOW_TRANSPORT_TCP,
    CLIENT_WAY_SHM = SNOW_TRANSPORT_SHM
};

struct client_options {
    const char *master;   /* "host:port" */
    struct bytes token;   /* of the cluster, may be empty */
    struct bytes name;    /* for people */
    uint32_t deadline_ms; /* of an operation that names none; 0: 5000 */
    uint32_t wait_ms;     /* of a put for room or another writer; 0: half the deadline */
    uint32_t guard_ms;    /* look-ups keep others from removing what was found; 0: not */
    bool local_first;     /* puts go to nodes of this host, reads come from there, while they can */
    enum client_way way;
    struct transport_options transport;
    struct env_socket_options socket;       /* of all its connections; congestion is copied */
    const struct snow_key_rules *key_rules; /* NULL: none; need not outlive the call */
};

/* Options of a client that says nothing. */
void client_options_init(struct client_options *options);

/* Begins to dial the master; operations may be started at once.  INVALID: no address, or options
 * out of range.  *reason (static) says what is wrong. */
MUST_CHECK enum snow_status client_create(struct env_loop *loop,
                                          const struct client_options *options,
                                          struct client **client, const char **reason);
/* Its operations have ended.  Not from a callback. */
void client_destroy(struct client *client);

/* This process gives memory itself, as the node of this incarnation: the nearest of all. */
void client_own_node_set(struct client *client, uint64_t incarnation);

/* OK: the link to the master is up.  NOT_READY: no try has ended yet.  Else why the last one
 * failed; *reason (may be ""; until the next turn) is what the master said. */
enum snow_status client_link_status(const struct client *client, const char **reason);

/* Its endpoint: whose counters tell what went over its connections. */
const struct rpc *client_rpc(const struct client *client);

/* Counters of client_metrics.def, in its order. */
const uint64_t *client_metrics(const struct client *client);
uint32_t client_metric_count(void);
const char *client_metric_name(uint32_t index);

/* ---- operations ----------------------------------------------------------------------------- */

/* What all operations have. */
struct client_op {
    struct client *client;      /* NULL: not under way */
    struct list_link of_client; /* in client->ops, in the order in which they began */
    /* Whether it may still touch some of this memory; NULL: it touches none. */
    bool (*uses)(const struct client_op *op, const uint8_t *at, size_t size);
    struct env_timer timer;
    struct arena arena;
    uint64_t deadline_ns;
    uint64_t patience_ns; /* without a link to the master; 0: until the deadline */
    uint64_t operation;   /* its number at the master */
};

/* Zeroed, the first members set by the owner; `call` is read by start and not kept. */
struct client_put_op {
    void (*on_done)(struct client_put_op *op);
    void (*on_item)(struct client_put_op *op, uint32_t index); /* may be NULL */
    struct snow_put *items;
    size_t count;
    struct env_worker *worker; /* who copies within the host; NULL: the loop */
    char reason[192];          /* out: what was in the way of the first item that failed, or "" */

    struct client_op base;
    struct client_ask start; /* put_start of items without a grant */
    struct client_ask end;   /* put_end of written ones */
    struct client_moves moves;
    struct put_item *puts;       /* one an item */
    struct snow_member *derived; /* by key rules; NULL: there are none */
    struct wire_key_gen *aborts; /* grants to be given back at the end of this event */
    uint32_t abort_count;
    uint64_t wait_until_ns;
    uint64_t continues;
    uint64_t anew;          /* operation of the items that begin anew in this event; 0: none yet */
    uint64_t written_bytes; /* of items whose put_end has not been sent yet */
    uint32_t open;          /* items without a result */
    uint32_t reason_of;     /* the item that `reason` is of */
    uint32_t flags;         /* SNOW_CALL_* */
    char segment[LIMIT_NAME_SIZE + 1];
};

void client_put_start(struct client *client, struct client_put_op *op,
                      const struct snow_call *call);
void client_put_cancel(struct client_put_op *op);

/* A put that spans calls: opened, written in ranges, committed or given up.  Its own; no operation
 * of it is under way when it is closed. */
struct client_writer;

/* Opening, renewing, committing. */
struct client_writer_op {
    void (*on_done)(struct client_writer_op *op);
    struct client_writer *writer; /* in; of an opening: out, with OK */
    uint32_t hold_ms;             /* of an opening or renewing: how long the grant is to last */

    enum snow_status status; /* out */
    uint32_t shortfall;      /* out, of a commit: copies fewer than asked */
    uint32_t elsewhere;      /* out, of an opening: it EXISTS, but not in its group */
    char reason[192];        /* out: what was in the way, or "" */

    struct client_op base;
    struct client_ask ask;       /* put_start, put_end */
    struct client_ask renew;     /* of an opening too: it is to outlast its call */
    const struct snow_put *item; /* of an opening; stays until its end */
    struct snow_member *derived; /* by key rules; NULL: there are none */
    uint64_t wait_until_ns;
    uint64_t continues;
    uint32_t flags; /* SNOW_CALL_* */
    char segment[LIMIT_NAME_SIZE + 1];
};

/* item: key, size and how to store it; it names no memory.  EXISTS: there is a value. */
void client_writer_open_start(struct client *client, struct client_writer_op *op,
                              const struct snow_put *item, const struct snow_call *call);
void client_writer_renew_start(struct client *client, struct client_writer_op *op,
                               const struct snow_call *call);
/* INVALID: bytes are missing, or ranges are under way; the write stays open. */
void client_writer_commit_start(struct client *client, struct client_writer_op *op,
                                const struct snow_call *call);
void client_writer_op_cancel(struct client_writer_op *op);
/* Gives the grant back, unless it was committed. */
void client_writer_close(struct client_writer *writer);

/* Ranges of it. */
struct client_write_op {
    void (*on_done)(struct client_write_op *op);
    void (*on_item)(struct client_write_op *op, uint32_t index); /* may be NULL */
    struct snow_write *items;
    size_t count;
    struct client_writer *writer;
    struct env_worker *worker; /* who copies within the host; NULL: the loop */

    struct client_op base;
    struct client_ask renew; /* the grant, when half of its time has gone */
    struct client_moves moves;
    struct write_range *ranges; /* one an item */
    uint32_t open;              /* items without a result, and the renewal */
};

void client_write_start(struct client *client, struct client_write_op *op,
                        const struct snow_call *call);
void client_write_cancel(struct client_write_op *op);

struct client_get_op {
    void (*on_done)(struct client_get_op *op);
    void (*on_item)(struct client_get_op *op, uint32_t index); /* may be NULL */
    struct snow_get *items;
    size_t count;
    struct env_worker *worker; /* who copies within the host; NULL: the loop */

    /* One an item, zeroed: objects that lie in this host's memory are looked at there, and `to` is
     * where; NULL: all are copied. */
    struct transport_view *views;

    /* One an item: where the objects are, known already; no other version will do.  NULL: the
     * master is asked. */
    const struct wire_found *given;

    struct client_op base;
    struct client_ask lookup;
    struct client_moves moves;
    struct get_item *gets; /* one an item */
    uint32_t open;         /* items without a result */
    uint32_t flags;        /* WIRE_LOOKUP_* */
    bool leased;           /* a lease has to be returned */
    bool holds;            /* what this message found is held */
    uint32_t viewed;       /* out: views that were opened.  Not 0: client_hold_return of
                            * base.operation when the last of them has ended */
};

void client_get_start(struct client *client, struct client_get_op *op,
                      const struct snow_call *call);
void client_get_cancel(struct client_get_op *op);
/* The views that a get with this base.operation opened have ended; said again when the link to the
 * master is down. */
void client_hold_return(struct client *client, uint64_t operation);

struct client_exists_op {
    void (*on_done)(struct client_exists_op *op);
    void (*on_item)(struct client_exists_op *op, uint32_t index); /* may be NULL */
    struct snow_stat *items;
    size_t count;

    struct client_op base;
    struct client_ask lookup;
    struct snow_group_info *groups; /* one an item; NULL: they are not asked for */
    uint32_t open;
    uint32_t flags; /* WIRE_LOOKUP_* */
};

void client_exists_start(struct client *client, struct client_exists_op *op,
                         const struct snow_call *call);
void client_exists_cancel(struct client_exists_op *op);

/* Keys that are removed, or pinned, or of which hints are given. */
struct client_keys_op {
    void (*on_done)(struct client_keys_op *op);
    void (*on_item)(struct client_keys_op *op, uint32_t index); /* may be NULL */
    struct snow_item *items;
    size_t count;

    struct client_op base;
    struct client_ask ask;
    uint32_t open;
    uint32_t flags;  /* WIRE_REMOVE_*, WIRE_HINT_* */
    uint32_t pin_ms; /* of a soft pin */
    uint8_t pin;     /* enum snow_pin */
    uint8_t priority;
    uint32_t expires_ms;
    bool wrong; /* what was asked is INVALID */
};

void client_remove_start(struct client *client, struct client_keys_op *op,
                         const struct snow_call *call);
void client_pin_start(struct client *client, struct client_keys_op *op, enum snow_pin pin,
                      uint32_t pin_ms, const struct snow_call *call);
/* hint_flags: WIRE_HINT_*; priority and expires_ms stand in the operation. */
void client_hint_start(struct client *client, struct client_keys_op *op, uint32_t hint_flags,
                       const struct snow_call *call);
void client_keys_cancel(struct client_keys_op *op);

/* Groups whole, by id. */
void client_group_remove_start(struct client *client, struct client_keys_op *op,
                               const struct snow_call *call);

struct client_group_stat_op {
    void (*on_done)(struct client_group_stat_op *op);
    struct snow_group_info *items;
    size_t count;

    struct client_op base;
    struct client_ask ask;
    uint64_t wait_until_ns; /* for those that are being formed */
    uint32_t open;          /* items without an answer */
    uint32_t flags;         /* WIRE_LOOKUP_* */
};

void client_group_stat_start(struct client *client, struct client_group_stat_op *op,
                             const struct snow_call *call);
void client_group_stat_cancel(struct client_group_stat_op *op);

struct client_match_op {
    void (*on_done)(struct client_match_op *op);
    struct snow_chain *chain;
    enum snow_status status; /* out: why the chain could not be followed */

    struct client_op base;
    struct client_ask ask;
    struct match_block *blocks; /* one a block */
    struct bytes *ids;          /* by key rules, of size 0: none; NULL: there are no rules */
    struct told_nodes *told;    /* what messages said of nodes, in order of their blocks */
    struct snow_match_run last; /* the one that goes on */
    uint32_t opened;            /* blocks that may be asked for */
    uint32_t flags;             /* WIRE_LOOKUP_*, WIRE_MATCH_* */
};

void client_match_start(struct client *client, struct client_match_op *op,
                        const struct snow_call *call);
void client_match_cancel(struct client_match_op *op);

struct client_group_get_op {
    void (*on_done)(struct client_group_get_op *op);
    struct snow_group_read *group;
    struct snow_get *items;
    size_t count;
    struct env_worker *worker; /* who copies within the host; NULL: the loop */

    struct client_op base;
    struct client_ask ask;
    struct client_get_op get;  /* while reading */
    struct wire_found *founds; /* one an item, as far as they are told */
    size_t taken;
    uint64_t oldest_gen; /* of the members that were told: all are younger than their group */
    uint32_t next;       /* index to go on with */
    enum snow_status status;
    bool reading;
    bool leased;
};

void client_group_get_start(struct client *client, struct client_group_get_op *op,
                            const struct snow_call *call);
void client_group_get_cancel(struct client_group_get_op *op);

/* Waits for what runs on a piece of memory: operations that began before and touch it. */
struct client_quiet_op {
    void (*on_done)(struct client_quiet_op *op);
    const uint8_t *at;
    size_t size;
    enum snow_status status; /* out: OK; TIMEOUT: something still runs */

    struct client_op base;
    struct list_link of_client; /* in client->quiets */
};

void client_quiet_start(struct client *client, struct client_quiet_op *op,
                        const struct snow_call *call);

/* One question, one answer. */
struct client_query_op {
    void (*on_done)(struct client_query_op *op);

    /* In: of what is asked. */
    struct snow_key key;   /* pattern, or prefix; stays until the end */
    enum snow_match match; /* of a removal */
    uint64_t cursor; /* of a list: 0, then as the last page says; of nodes: the lowest number; of
                      * tasks: the last id */
    uint64_t task;   /* of tasks: this one alone, 0: all; to be cancelled; out: that was started */
    struct snow_task wish; /* to be started */

    /* Out, until client_query_end. */
    enum snow_status status;
    struct snow_matched matched;
    const char *reason;         /* of a task that was not started, else "" */
    struct snow_listed *listed; /* a page; cursor 0 afterwards: it was the last */
    struct snow_node *nodes;
    struct snow_task_info *tasks;
    struct client_value {
        const char *name;
        uint64_t value;
    } * values;
    struct snow_group_listed *groups;
    uint32_t count;               /* of listed, nodes, tasks, values or groups */
    struct snow_group_hold *hold; /* in and out; the caller's */

    struct client_op base;
    struct client_ask ask;
    uint32_t flags;
};

void client_remove_match_start(struct client *client, struct client_query_op *op,
                               const struct snow_call *call);
void client_list_start(struct client *client, struct client_query_op *op,
                       const struct snow_call *call);
void client_nodes_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call);
void client_stats_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call);
void client_task_start(struct client *client, struct client_query_op *op,
                       const struct snow_call *call);
void client_task_cancel_start(struct client *client, struct client_query_op *op,
                              const struct snow_call *call);
void client_tasks_start(struct client *client, struct client_query_op *op,
                        const struct snow_call *call);
void client_group_list_start(struct client *client, struct client_query_op *op,
                             const struct snow_call *call);
void client_group_hold_start(struct client *client, struct client_query_op *op,
                             const struct snow_call *call);
void client_query_cancel(struct client_query_op *op);
/* Frees what the outputs point to; then it may be started again. */
void client_query_end(struct client_query_op *op);

#endif
