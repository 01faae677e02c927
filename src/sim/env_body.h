/* What the files of the simulated env share.
 *
 *   world.c          the queue, the clock, the hash, the transcript
 *   world_process.c  hosts and processes: start, pause, crash, end
 *   env_loop.c       loops: turns, timers, tasks, hooks
 *   env_copy.c       copies in pieces       env_memory.c, env_file.c   what a host keeps
 *   net.c            connections: bytes     net_dial.c  dialling and listening
 *   net_fault.c      cuts, silence, resets
 */
#ifndef SIM_ENV_BODY_H
#define SIM_ENV_BODY_H

#include "base/assert.h"
#include "base/limits.h"
#include "sim/world.h"

/* What kind of thing happens, for the hash and for people. */
enum sim_kind {
    SIM_ALARM = 1, /* of the scenario */
    SIM_WAKE,      /* a loop that was busy turns again */
    SIM_TIMERS,
    SIM_POSTED,
    SIM_TELL,   /* a connection tells its owner */
    SIM_ACCEPT, /* a listener tells its owner */
    SIM_COPY,
    SIM_DELIVER,
    SIM_WINDOW,
    SIM_RESET,
    SIM_DEATH,
    SIM_DIAL,
    SIM_NOTE /* no event: something else that the hash is to hold */
};

#define SIM_LINES_MAX 2000 /* lines of the transcript that are kept */

struct world {
    struct heap queue;
    uint64_t order;
    uint64_t now_ns;
    uint64_t hash;
    uint64_t event_count;
    uint64_t next_id;        /* of connections, loops, processes */
    struct rng rng;          /* the world's: network, scheduling */
    struct rng scenario_rng; /* world_rng */
    struct world_net net;
    fault_set faults; /* planted in processes that start */
    struct world_host *hosts[WORLD_HOSTS_MAX];
    uint32_t host_count;
    struct list streams; /* struct net_stream */
    char *lines[SIM_LINES_MAX];
    uint64_t line_count;
    void (*on_line)(void *owner, uint64_t at_ns, const char *process, const char *line);
    void *line_owner;
};

struct world_host {
    struct world *world;
    char name[64];
    char boot_name[96]; /* env_host */
    uint32_t index;
    uint32_t boots;
    bool up;
    uint64_t cut; /* bit i: nothing passes to host i */
    uint32_t slow;
    uint64_t memory_max;
    uint64_t memory_used;  /* populated bytes */
    struct list processes; /* struct env */
    struct list listeners; /* struct env_listener */
    struct list memories;  /* struct sim_memory */
    struct list files;     /* struct sim_file */
    uint16_t next_port;
};

struct env {
    struct world *world;
    struct world_host *host;
    struct list_link link; /* in host->processes */
    char name[64];
    uint64_t id;
    struct rng rng;
    uint64_t clock_offset_ns; /* its clock is ahead of the world's by this */
    fault_set faults;
    bool paused;
    bool dead;
    struct list loops;    /* struct env_loop */
    struct list mappings; /* struct sim_mapping */
    struct list locks;    /* struct sim_lock */
};

struct env_loop {
    struct env *env;
    struct list_link link; /* in env->loops */
    char name[16];
    uint64_t id;
    bool started;
    bool stop;
    bool turning;
    uint64_t busy_until_ns; /* no turn before */
    struct list ready;      /* struct sim_event: due */
    struct sim_event wake;
    struct heap timers; /* struct env_timer, in the process's time */
    uint64_t timer_order;
    struct sim_event timer_event;
    struct env_task *posted_first;
    struct env_task *posted_last;
    struct sim_event posted_event;
    struct list hooks;
    struct list conns;     /* struct env_conn */
    struct list listeners; /* struct env_listener, by loop_link */
    struct list copies;    /* struct sim_copy */
    uint64_t turns;
};

/* ---- world.c ---- */

void sim_event_init(struct sim_event *event, struct world *world, struct env_loop *loop,
                    enum sim_kind kind, uint64_t id, void (*on_event)(struct sim_event *event));
/* Not before now; one that waits is moved. */
void sim_event_at(struct sim_event *event, uint64_t at_ns);
void sim_event_cancel(struct sim_event *event);
static inline bool sim_event_waits(const struct sim_event *event)
{
    return event->link.queued || list_is_linked(&event->ready_link);
}
void sim_hash(struct world *world, enum sim_kind kind, uint64_t a, uint64_t b);
void sim_hash_bytes(struct world *world, const void *data, size_t size);
void sim_log(struct world *world, const char *process, const char *line);

/* ---- env_loop.c ---- */

/* An event of this loop is due. */
void sim_loop_due(struct env_loop *loop, struct sim_event *event);
/* It may turn again: its process was resumed. */
void sim_loop_wake(struct env_loop *loop);
/* Its process is dead: nothing of it is due any more. */
void sim_loop_kill(struct env_loop *loop);

/* ---- env_copy.c ---- */

void sim_copy_kill(struct env_loop *loop);

/* ---- env_memory.c ---- */

/* The process is dead: its mappings become copies of its own. */
void sim_memory_kill(struct env *env);
/* Forgets what the host holds. */
void sim_memory_lose(struct world_host *host);
/* Frees what a process that ends still has open. */
void sim_memory_free_mappings(struct env *env);

/* ---- env_file.c ---- */

void sim_file_unlock(struct env *env);
void sim_file_free(struct world_host *host);

/* ---- net ---- */

/* The loop's process is dead.  silent: its host as well, so nobody is told. */
void net_kill(struct env_loop *loop, bool silent);
/* Frees connections and listeners that are left. */
void net_free_loop(struct env_loop *loop);
void net_free_world(struct world *world);
/* Something between these two hosts has changed: up, down, cut, healed. */
void net_check_silence(struct world *world);

#endif
