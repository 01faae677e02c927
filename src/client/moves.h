/* Moves: extents to and from many nodes at once.
 *
 * Problem.  The places of a batch are on many nodes, some of them unknown yet, some known as bad.
 * Idea.     Items are gathered by node, then go to all nodes in parallel, one operation of the
 *           transport each.  A node that is not known is asked for; one that did not answer lately
 *           is not tried again for a while (P7).
 * Invariants.
 *   V1  Each item that was added and gone ends by on_item, or by cancel.
 *   V2  on_event comes after everything else of an event; it may end the owner.  No callback runs
 *       inside a function that the owner calls.
 * Threads.  The loop's.   Private to client/. */
#ifndef CLIENT_MOVES_H
#define CLIENT_MOVES_H

#include "transport/transport.h"

struct client;
struct client_moves;

struct client_moves_ops {
    bool write;
    void (*on_item)(struct client_moves *moves, struct transport_item *item);
    void (*on_event)(struct client_moves *moves);
};

struct client_moves {
    const struct client_moves_ops *ops;
    struct client *client;
    struct arena *arena;
    struct env_worker *worker; /* who copies; NULL: the loop */
    uint64_t deadline_ns;
    struct list gathered;  /* struct transfer: not gone */
    struct list under_way; /* struct transfer */
};

void client_moves_init(struct client_moves *moves, struct client *client,
                       const struct client_moves_ops *ops, uint64_t deadline_ns,
                       struct arena *arena);
/* Ends all that is under way.  Does nothing to one that was not inited. */
void client_moves_cancel(struct client_moves *moves);

/* item stays until it ended.  NO_MEMORY. */
MUST_CHECK enum snow_status client_moves_add(struct client_moves *moves,
                                             struct transport_item *item);
/* What was added starts. */
void client_moves_go(struct client_moves *moves);

#endif
