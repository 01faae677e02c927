/* Door of the simulator: a world of hosts and processes on virtual time, from one seed.
 *
 * Problem.  The bugs that matter need a crash, a pause or a cut at one moment in a million, and
 *           must then be seen again.
 * Idea.     One queue of events ordered by (time, order of making).  A process is a struct env: the
 *           code under test runs on it unchanged.  Time passes only between events; what a network,
 *           a disk or a scheduler decides, the seed decides.
 * Invariants.
 *   V1  Same seed and same calls, same run: world_hash tells.  Nothing depends on addresses.
 *   V2  What a process did before its crash stays; nothing it does after has an effect: the owner
 *       of its objects may close them as usual, to get their memory back.
 *   V3  A connection delivers what was sent, in order, or it ends; never other bytes.
 * Threads.  One. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/rng.h"
#include "env/env.h"

struct world;
struct world_host;

/* ---- the world ------------------------------------------------------------------------------ */

/* NULL: out of memory. */
struct world *world_create(uint64_t seed);
/* Ends all processes that are left and frees everything of the world's. */
void world_destroy(struct world *world);

/* Virtual nanoseconds since the world was made. */
uint64_t world_now_ns(const struct world *world);

/* The scenario's own random numbers; the network and the processes have theirs. */
struct rng *world_rng(struct world *world);

/* Runs on: over every event so far, and what world_note was given. */
uint64_t world_hash(const struct world *world);
void world_note(struct world *world, const void *data, size_t size);
uint64_t world_event_count(const struct world *world);

/* One event; false: there is nothing left to happen. */
bool world_step(struct world *world);
/* All events up to and at until_ns; then it is until_ns. */
void world_run_until(struct world *world, uint64_t until_ns);
/* Until done says so (asked after each event): true; or it is until_ns: false. */
bool world_run(struct world *world, bool (*done)(void *owner), void *owner, uint64_t until_ns);

/* Plants faults: processes that start from now on have them (env_faults). */
void world_set_faults(struct world *world, fault_set faults);

/* Something that will happen: the simulator's own; others only embed it. */
struct sim_event {
    void (*on_event)(struct sim_event *event);
    struct heap_link link;       /* in the world's queue; then, if it belongs to a loop, ... */
    struct list_link ready_link; /* ... on that loop's ready list until its next turn */
    struct world *world;
    struct env_loop *loop; /* NULL: the world's own */
    uint8_t kind;          /* enum sim_kind */
    uint64_t id;           /* of what it happens to */
};

/* Something of the scenario that happens at a time.  Lives in the caller's object, zeroed before
 * first use; on_event set by the owner.  Arming an armed one moves it. */
struct world_alarm {
    void (*on_event)(struct world_alarm *alarm);
    struct sim_event event; /* the world's */
};
void world_alarm_arm(struct world *world, struct world_alarm *alarm, uint64_t at_ns);
void world_alarm_cancel(struct world_alarm *alarm);

/* Lines that processes log, as they come.  The last ones are kept too,
 * for the report of a run that failed. */
void world_on_line(struct world *world,
                   void (*on_line)(void *owner, uint64_t at_ns, const char *process,
                                   const char *line),
                   void *owner);
void world_transcript(struct world *world, void (*on_line)(void *owner, const char *line),
                      void *owner);

/* ---- hosts ---------------------------------------------------------------------------------- */

#define WORLD_HOSTS_MAX 96

/* A host that is up.  name: what others dial, at most 63 bytes of [a-z0-9-]. */
struct world_host *world_host_create(struct world *world, const char *name);

/* All its processes crash and nothing is sent: peers notice by time-outs.  Files stay; memory of
 * env_memory_open stays when kept. */
void world_host_crash(struct world_host *host, bool keep_memory);
/* It answers again (with resets, until something listens); env_host has changed. */
void world_host_boot(struct world_host *host);

/* Each turn of a loop on it takes this many times as long; 1: as usual. */
void world_host_slow(struct world_host *host, uint32_t times);

/* Bytes of memory that env_memory_populate can make present on it; 0: no bound. */
void world_host_memory(struct world_host *host, uint64_t bytes);

/* ---- processes ------------------------------------------------------------------------------ */

/* A new process on a host that is up.  NULL: out of memory. */
struct env *world_process_start(struct world_host *host, const char *name);
struct world_host *world_process_host(struct env *env);
bool world_process_alive(const struct env *env);

/* It stops to exist: peers see its connections end, its memory objects keep what was written.  The
 * env stays for V2, until world_process_end. */
void world_process_crash(struct env *env);
/* It gets no turn until it is resumed; its kernel goes on. */
void world_process_pause(struct env *env);
void world_process_resume(struct env *env);
/* Crashes it if it lives, and frees the env and all that hangs off it. */
void world_process_end(struct env *env);

/* No turn of this loop for a while: its thread is busy elsewhere. */
void world_loop_stall(struct env_loop *loop, uint64_t duration_ns);

/* ---- network -------------------------------------------------------------------------------- */

struct world_net {
    uint64_t latency_ns_min; /* of a piece, one way */
    uint64_t latency_ns_max;
    uint64_t bytes_per_us;      /* of one connection */
    uint32_t loss_per_million;  /* pieces that are sent again, 40 to 800 ms later */
    uint32_t reset_per_million; /* pieces at which the connection is reset */
    uint32_t buffer_min; /* bytes that a connection takes before its reader reads, each way */
    uint32_t buffer_max;
};

struct world_net world_net_calm(void);
struct world_net world_net_lossy(void);
void world_set_net(struct world *world, const struct world_net *net);

/* Nothing passes between two hosts; what is under way waits.  Connections break by their
 * keepalive and user time-out.  May be repeated. */
void world_cut(struct world_host *a, struct world_host *b);
void world_heal(struct world_host *a, struct world_host *b);
void world_heal_all(struct world *world);

#endif
