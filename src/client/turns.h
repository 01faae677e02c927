/* Taking turns: many threads, one loop, no thread of our own.
 *
 * Problem.  The client is driven by events on one loop; applications call from any thread and want
 *           to wait.
 * Idea.     Whoever calls while nobody turns the loop takes that role: it starts its operation and
 *           turns until that has ended, for all others too.  The others post theirs to the loop and
 *           wait; the role is passed to one of them when its holder is done.  Copies of bytes are
 *           done by the thread whose operation they are of (env_worker), the role passed on
 *           meanwhile: so many threads copy at once.  When nobody is left
 *           the loop rests, and beacons tell whoever watches them that it has something to do.
 * Invariants.
 *   B1  `turning`: exactly one thread is the loop's.  It is passed on while any waits.
 *   B2  A ticket that waits is in `waiting` until it is done, leads, or copies.
 *   B3  After a fork the child touches nothing: its descriptors of ours are closed already
 *       (env/linux/descriptors.h), every call answers CLOSED, what is closed or destroyed there
 *       stays in memory: another thread may have been in the middle of anything.
 *   B4  While nobody turns, every beacon is armed for what the loop has to do.
 * Threads.  Any.  `mutex` guards the members of snow_client that say so; the loop and all on it
 *           belong to the thread that turns.   Private to client/, over env/linux alone. */
#ifndef CLIENT_TURNS_H
#define CLIENT_TURNS_H

#include "client/client.h"
#include "env/linux.h"
#include "env/thread.h"

/* Where a thread waits: kept for the next one. */
struct turns_seat {
    struct list_link link; /* in snow_client.seats */
    struct env_condition *condition;
    struct env_worker *worker; /* copies by the thread that sits here */
    struct snow_client *client;
    bool work; /* mutex: there is something to copy */
};

/* Somebody else's loop looks at it while nobody turns ours. */
struct turns_beacon {
    struct list_link link; /* in snow_client.beacons */
    struct env_beacon *beacon;
};

struct snow_client {
    struct env *env;
    struct env_loop *loop;
    struct client *client;
    uint64_t fork_count; /* of the process that opened it */
    bool may_spin;
    uint32_t deadline_ms; /* of a call that names none */
    uint64_t wait_ns;     /* turner's: how long the last waits took, on average */
    struct env_mutex *mutex;
    bool turning;                   /* mutex */
    struct list waiting;            /* mutex; struct ticket, longest first */
    struct list seats;              /* mutex; free ones */
    struct list beacons;            /* mutex; struct turns_beacon of the queues */
    size_t under_way;               /* mutex; submissions to queues that have not ended */
    struct snow_buffer *registered; /* mutex; ranges, ascending, none meets another */
    size_t registered_count;
    struct env_crew *crew;    /* who helps with large copies; NULL: nobody */
    struct host *host;        /* NULL: this process gives no memory */
    struct views_home *views; /* NULL: there were none yet; mutex */
};

struct snow_writer {
    struct snow_client *client;
    struct client_writer *writer; /* the loop's */
};

/* One call of one thread.  Zeroed. */
struct ticket {
    struct snow_client *client;
    const struct snow_call *call;
    void (*start)(struct ticket *ticket); /* on the loop */
    struct env_task task;
    struct list_link link;   /* in waiting; mutex */
    struct turns_seat *seat; /* from its beginning to its end */
    bool done;               /* mutex, or the turner's own */
    bool leads;              /* mutex: its thread has the role */
};

void turns_init(struct snow_client *client);
void turns_deinit(struct snow_client *client);

/* What snow_reason of this thread tells. */
void turns_reason_set(const char *reason);

/* OK, CLOSED (after a fork), INVALID (call: a flag that is not among these, or one that this
 * library does not know).  Sets the reason; clears it when OK. */
MUST_CHECK enum snow_status turns_check(const struct snow_client *client,
                                        const struct snow_call *call, uint32_t flags);

/* Of a call that takes snow_call.groups. */
#define TURNS_GROUPS (1u << 31)

/* Runs an operation to its end.  What turns_check says, or NO_MEMORY: it was not started. */
MUST_CHECK enum snow_status turns_run(struct snow_client *client, struct ticket *ticket,
                                      const struct snow_call *call, uint32_t flags,
                                      void (*start)(struct ticket *ticket));
/* The operation of a ticket has ended; called on the loop. */
void turns_done(struct ticket *ticket);

/* ---- for who waits for something else than one operation; the mutex is held ------------------ */

/* Takes a seat and stands in line for the role.  ticket->client is set.  NO_MEMORY. */
MUST_CHECK enum snow_status turns_queue(struct ticket *ticket);
/* Then waits until ticket->done, the role is this thread's (true), or the time has come. */
MUST_CHECK bool turns_sit(struct ticket *ticket, uint64_t until_ns);
/* Ends the waiting of a ticket, if it waits. */
void turns_wake(struct ticket *ticket);
/* Passes the role on, or lets the loop rest. */
void turns_pass(struct snow_client *client);

/* The loop turns once; by who has the role, without the mutex. */
void turns_turn(struct snow_client *client, uint64_t timeout_ns);

#endif
