/* Ask: questions about many items to the master, repeated until each is answered.
 *
 * Problem.  Messages are bounded, answers come in pieces and out of order, connections are lost in
 *           between; what was answered must not be asked again, what was not must be.
 * Idea.     Each item has a state.  Those that wait are gathered into messages, a few of them under
 *           way at a time.  The owner says what a message looks like and what a reply means.
 * Invariants.
 *   A1  An item is in at most one message under way.
 *   A2  waiting, sent and delayed count the items in these states.
 *   A3  on_event comes after everything else of an event; it may end the owner.  No callback runs
 *       inside a function of this file that the owner calls.
 *
 *   IDLE ─client_ask_open─► WAITING ─sent─► SENT ─client_ask_close─► IDLE
 *                              ▲              │ client_ask_again, a lost answer
 *                              └────timer──── DELAYED
 * Threads.  The loop's.   Private to client/. */
#ifndef CLIENT_ASK_H
#define CLIENT_ASK_H

#include "base/arena.h"
#include "rpc/retry.h"
#include "rpc/rpc.h"

struct client;
struct client_ask;

/* What an owner says of its questions. */
struct client_ask_ops {
    uint16_t type;
    uint16_t part_items; /* of one message; 0: as many as it holds */
    bool from_end; /* messages from the last item to the first; inside a message always ascending */
    /* Bytes of the item in the request. */
    size_t (*on_measure)(struct client_ask *ask, uint32_t item);
    /* Whether `item` may stand right behind `before` in a message (before < item).  NULL: yes. */
    bool (*on_join)(struct client_ask *ask, uint32_t before, uint32_t item);
    /* The request, in the arena.  NULL: out of memory. */
    const void *(*on_build)(struct client_ask *ask, const uint32_t *items, uint32_t count,
                            struct arena *arena);
    /* A reply to the message that had these items: closes, or asks again, those it answers. */
    void (*on_reply)(struct client_ask *ask, const uint32_t *items, uint32_t count,
                     const void *reply);
    /* The item will not be answered; it is IDLE. */
    void (*on_failed)(struct client_ask *ask, uint32_t item, enum snow_status status);
    void (*on_event)(struct client_ask *ask);
};

enum client_ask_state { ASK_IDLE, ASK_WAITING, ASK_SENT, ASK_DELAYED };

struct client_ask {
    const struct client_ask_ops *ops;
    struct client *client;
    uint64_t deadline_ns;
    uint8_t *states; /* enum client_ask_state, one an item */
    uint32_t count;
    uint32_t waiting;
    uint32_t sent;
    uint32_t delayed;
    uint32_t cursor;     /* items before it (behind it, from_end) do not wait */
    uint32_t part_items; /* of one message at most */
    struct list parts;   /* messages under way */
    uint32_t part_count;
    struct list_link of_client; /* while it waits for the link to the master */
    struct env_timer timer;     /* while items are DELAYED */
    uint64_t at_ns;             /* when it fires */
    struct rpc_retry retry;
};

/* All items are IDLE.  arena: where the states live.  NO_MEMORY. */
MUST_CHECK enum snow_status client_ask_init(struct client_ask *ask, struct client *client,
                                            const struct client_ask_ops *ops, uint32_t count,
                                            uint64_t deadline_ns, struct arena *arena);
/* Ends all that is under way.  Does nothing to one that was not inited. */
void client_ask_cancel(struct client_ask *ask);

/* IDLE or DELAYED -> WAITING.  Sent by the next pump. */
void client_ask_open(struct client_ask *ask, uint32_t item);
/* SENT -> IDLE: it is answered. */
void client_ask_close(struct client_ask *ask, uint32_t item);
/* SENT or IDLE -> DELAYED: asked again after a while if the policy has it so for this status and
 * before until_ns; else IDLE, and false. */
bool client_ask_again(struct client_ask *ask, uint32_t item, enum snow_status status,
                      bool lost_peer, uint32_t hint_ms, uint64_t until_ns);
/* The item is in a message under way: an answer for it is one to take. */
static inline bool client_ask_is_sent(const struct client_ask *ask, uint32_t item)
{
    return ask->states[item] == ASK_SENT;
}
/* Sends what waits, as far as bounds allow. */
void client_ask_pump(struct client_ask *ask);

#endif
