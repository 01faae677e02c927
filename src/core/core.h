/* The core: all metadata of a cluster as a pure, deterministic state machine.
 *
 * Problem.  Who has what, where there is room, who may write where, what may go: one consistent
 *           answer, millions of times a second, testable to the last corner.
 * Idea.     core_step(now, input) -> outputs.  No clock, no I/O, no threads, no randomness of its
 *           own: time is an argument, randomness a seed.
 * Invariants (core_check verifies them).
 *   K1  An object is ABSENT, WRITING, READABLE, CLOSING, RECOVERING or COPYING; look-ups tell of
 *       READABLE ones only (P1, P2).
 *   K2  An extent is given again only after its node said FREED for its generation (P3).
 *   K3  A READABLE object is in exactly one victim list, or in none while it is leased or hard
 *       pinned; an object in any other state is in none.
 *   K4  Every deadline is on the wheel; every bound is in base/limits.h (P8).
 *   K5  Each item of a request is answered exactly once; a request gets its last reply or is
 *       cancelled.
 *   K6  A step looks at a bounded number of objects; what is left is done at the next tick, which
 *       core_wake_ns asks for at once.
 * Threads.  The caller's one.   State.  Durable: apply.c; soft: everything else. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/region.h"
#include "base/status.h"
#include "core/options.h"
#include "wire/messages.h"

#include <stdbool.h>
#include <stdint.h>

struct core;

/* ---- inputs ---- */

enum core_input_kind {
    CORE_TICK, /* time has passed */
    /* A client greets; from: the session it returns to, or 0.  Answer: CORE_OUT_SESSION. */
    CORE_SESSION_OPEN,
    /* The connection of session `from` ended; not when the session is on a newer one already. */
    CORE_SESSION_BREAK,
    /* A request, a one-way message or the reply to a forget or a copy; from: session or node by
     * its type. */
    CORE_MESSAGE,
    /* The request of this token is gone: no reply, its message is not touched again. */
    CORE_CANCEL,
    /* The connection of node `from` ended; not when the node is on a newer one already. */
    CORE_NODE_BREAK
};

struct core_input {
    enum core_input_kind kind;
    uint64_t from;  /* session, or number of a node (0 for a mount) */
    uint64_t token; /* of a request: comes back with its replies; unique while it is open */
    uint16_t type;  /* of the message */
    /* Decoded; of a request of a type that core_keeps: stays until its last reply or CORE_CANCEL */
    const void *message;
    uint64_t deadline_ns; /* of a request, in core time; UINT64_MAX: none */
};

/* ---- outputs ---- */

enum core_output_kind {
    CORE_OUT_PERSIST, /* write the state file before acting on the outputs that follow */
    CORE_OUT_SESSION, /* token: of the input; to: the session */
    CORE_OUT_REPLY,   /* to the request `token`; message of `type` when status is OK */
    CORE_OUT_FORGET,  /* to node `to`: a forget request; its reply comes back as CORE_MESSAGE */
    CORE_OUT_COPY,    /* to node `to`: a copy request; its reply comes back as CORE_MESSAGE */
    CORE_OUT_VERIFY,  /* to node `to`: a verify request; its reply comes back as CORE_MESSAGE */
    CORE_OUT_GROW     /* to node `to`: a grow message */
};

struct core_output {
    enum core_output_kind kind;
    uint64_t token;
    uint64_t to;
    uint16_t type;
    bool last;
    enum snow_status status;
    void *message; /* lives until core_outputs_reset */
    struct core_output *next;
};

/* Outputs in the order in which they are to be carried out. */
struct core_outputs {
    struct arena arena;
    struct core_output *first;
    struct core_output **end;
};

void core_outputs_init(struct core_outputs *outputs);
void core_outputs_reset(struct core_outputs *outputs);
void core_outputs_deinit(struct core_outputs *outputs);

/* ---- the machine ---- */

/* A node that a restarted master waits for. */
struct core_expected {
    uint64_t incarnation;
};

/* What survives the master: kept in its state file. */
struct core_start {
    uint64_t cluster;    /* id of the cluster, not 0 */
    uint32_t term;       /* this master's: higher than any before */
    uint64_t secret_low; /* randomness: secrets of grants derive from it */
    uint64_t secret_high;
    const struct core_expected *expected; /* nodes whose inventory is to come */
    uint32_t expected_count;
    bool adopts_strangers; /* there was no state file: nodes that are not expected are believed */
    uint64_t now_ns;
    fault_set faults;                   /* planted by the simulator, else 0 */
    const struct region_source *memory; /* where tables grow; NULL: malloc */
};

MUST_CHECK enum snow_status core_create(const struct core_options *options,
                                        const struct core_start *start, struct core **core);
void core_destroy(struct core *core);

/* Whether requests of this type may have to wait: others are answered whole by their step. */
bool core_keeps(uint16_t type);

void core_step(struct core *core, uint64_t now_ns, const struct core_input *input,
               struct core_outputs *outputs);

/* When to send the next CORE_TICK; 0: at once, UINT64_MAX: never. */
uint64_t core_wake_ns(const struct core *core);

/* What the state file must hold now. */
uint64_t core_cluster(const struct core *core);
uint32_t core_term(const struct core *core);
uint32_t core_expected_count(const struct core *core);
struct core_expected core_expected_at(const struct core *core, uint32_t index);

/* A node that this core has not seen knows this term, of another master: ours rises above it, so
 * that no generation is given twice (asks for CORE_OUT_PERSIST).  A lower term changes nothing. */
void core_term_raise(struct core *core, uint32_t term, struct core_outputs *outputs);

/* True when a node of this incarnation has mounted since this core began. */
bool core_knows_node(struct core *core, uint64_t incarnation);

/* True when every expected node's inventory is in, or the node is DEAD. */
bool core_is_ready(const struct core *core);

/* Name of an eviction policy (enum core_policy). */
const char *core_policy_name(uint32_t policy);

/* Counters and gauges of core_metrics.def, in its order. */
void core_metrics(struct core *core, uint64_t *values);
uint32_t core_metric_count(void);
const char *core_metric_name(uint32_t index);

/* For checkers: told of each object that is evicted, in order, while it can still be looked at.
 * NULL: nobody is. */
void core_watch_evicted(struct core *core, void (*on_evicted)(void *owner, struct bytes key),
                        void *owner);

/* Verifies K1-K5 and the invariants of its parts; ASSERTs.  Costs O(everything). */
void core_check(struct core *core);

#endif
