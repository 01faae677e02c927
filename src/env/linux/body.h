/* What the files of env/linux share: the process, its loops, and what waits on them.
 *
 * Idea.     Everything that epoll can wake is a struct source.  The kernel's events only put
 *           sources on the loop's ready list; the turn then runs that list one by one, so that a
 *           stop or a close in between loses nothing.
 * Invariants.
 *   B1  A source on the ready list is alive: whoever frees it takes it off first.
 *   B2  What becomes ready while the list runs waits for the next turn (E2 of env.h).
 * Threads.  A loop's own, except `posted`, `stop`, `asleep`, `turns` and `wake`.
 */
#ifndef ENV_LINUX_BODY_H
#define ENV_LINUX_BODY_H

#include "base/assert.h"
#include "base/limits.h"
#include "env/env.h"
#include "env/linux/descriptors.h"
#include "env/linux/device.h"

#include <pthread.h>
#include <stdatomic.h>

struct env {
    char host[64];         /* boot id */
    pthread_mutex_t mutex; /* guards locked_dirs */
    int *locked_dirs;      /* descriptors of folders held by env_dir_lock */
    size_t locked_dir_count;
    struct devices *devices;
};

/* Something that epoll wakes. */
struct source {
    void (*on_ready)(struct source *source);
    struct list_link ready_link; /* in loop->ready */
    uint32_t events;             /* EPOLL* bits gathered since on_ready last ran */
    int descriptor;              /* -1: none yet */
    struct env_loop *loop;
};

struct env_loop {
    struct env *env;
    char name[16];
    int epoll;
    struct source wake; /* eventfd: written by post and stop */
    struct list ready;  /* struct source */
    struct heap timers; /* struct env_timer */
    uint64_t timer_order;
    uint64_t now_ns; /* when the timers of this turn were looked at */
    struct list hooks;
    struct list conns;     /* struct env_conn */
    struct list listeners; /* struct env_listener */
    struct list resolves;  /* struct resolve: names being looked up */
    struct list hot;       /* struct local: rings that are looked at without being told */
    uint64_t ring_gap_ns;  /* how long rings stayed empty until more came, on average */
    uint64_t looked_ns;    /* when epoll was last asked */
    bool may_spin;         /* more than one CPU */
    pthread_t thread;
    bool started;                      /* `thread` runs or waits to be joined */
    _Atomic(struct env_task *) posted; /* newest first */
    atomic_bool stop;
    atomic_bool asleep; /* a post has to wake it */
    _Atomic uint64_t turns;
};

/* Registers the source's descriptor with the loop for edge-triggered events. */
MUST_CHECK bool loop_watch(struct env_loop *loop, struct source *source, uint32_t events);

/* Takes a source off the ready list and off epoll; its descriptor stays open. */
void loop_unwatch(struct source *source);

/* Puts it on the ready list with these events, as if the kernel had told them. */
void loop_make_ready(struct source *source, uint32_t events);

/* Looks at the rings that are hot and makes ready what has something to tell; true: there is. */
bool local_look(struct env_loop *loop);

/* Every ring's peer has to wake the loop from now on.  True: there is something to tell first. */
bool local_sleep(struct env_loop *loop);

/* Closes what the loop still has of the network. */
void net_close_all(struct env_loop *loop);

/* Makes the fork counter count; repeated calls do nothing more. */
void thread_watch_forks(void);

#endif
