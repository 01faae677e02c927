/* Door of env/linux: how a real process makes its env.  For main, cli and the blocking face of
 * client only. */
#ifndef ENV_LINUX_H
#define ENV_LINUX_H

#include "env/env.h"

/* The env of this process; destroy closes everything that is left. */
struct env *env_linux_create(void);
void env_linux_destroy(struct env *env);

/* Runs on_event on the loop for each SIGTERM or SIGINT from now on; SIGPIPE is ignored.  Call
 * before other threads start. */
struct env_signals {
    void (*on_event)(struct env_signals *signals, int signal_number);
    struct env_loop *loop;
    int descriptor;      /* the body's */
    void *private_state; /* the body's */
};
MUST_CHECK enum snow_status env_signals_watch(struct env_loop *loop, struct env_signals *signals);
void env_signals_unwatch(struct env_signals *signals);

/* A child process that runs this binary again with other arguments. */
struct env_child {
    int pid;
    int output;       /* descriptor: its standard output, for the parent to read */
    bool with_errors; /* in: its standard error goes there too */
};
/* argv[0] is ignored (this binary is run); argv ends with NULL.  The child dies with the thread
 * that started it: start children from the main thread. */
MUST_CHECK enum snow_status env_child_start(char *const argv[], struct env_child *child);
/* Reads at most size bytes of its output, waiting for them; 0: it closed it. */
ssize_t env_child_read(struct env_child *child, void *to, size_t size);
/* Waits for its end and returns its exit status (128 + signal when a signal ended it). */
int env_child_wait(struct env_child *child);
void env_child_kill(struct env_child *child, int signal_number);
/* CPU nanoseconds that it has used so far, and bytes of it that are in memory now; 0: not known. */
uint64_t env_child_cpu_ns(const struct env_child *child);
uint64_t env_child_resident_bytes(const struct env_child *child);

/* Threads that help workers with large copies.  They are started when they are first needed, block
 * all signals, and sleep while nobody needs them. */
#define ENV_CREW_MAX 63u
struct env_crew *env_crew_create(uint32_t count); /* NULL: no memory */
/* Its workers have nothing under way. */
void env_crew_destroy(struct env_crew *crew);

/* A thread that copies for a loop (env_copy): what waits for an operation does its bytes itself, so
 * that many threads copy at once.  on_work: there is something to copy; called on the loop, once
 * until env_worker_run has run.  crew: who helps it, NULL: nobody. */
struct env_worker *env_worker_create(struct env_loop *loop, struct env_crew *crew,
                                     void (*on_work)(void *owner), void *owner);
/* Nothing of it is under way. */
void env_worker_destroy(struct env_worker *worker);
/* By its thread: copies what there is, but for parts that others have taken and still copy; the
 * loop is told (on_event of each). */
void env_worker_run(struct env_worker *worker);
bool env_worker_has_work(struct env_worker *worker);

/* For a loop that nobody turns for a while: its beacons, and posts and rings, know of it from then
 * on.  Returns when it has something to do by itself: 0 now, UINT64_MAX not at all.  By the thread
 * that turned it last. */
uint64_t env_loop_rest(struct env_loop *loop);

/* A descriptor that somebody else's poll or epoll can wait on: it is readable while the loop, which
 * rests, has something to do, from a given time on, or while it is lit. */
struct env_beacon;
/* LIMIT: descriptors; NO_MEMORY. */
MUST_CHECK enum snow_status env_beacon_create(struct env_loop *loop, struct env_beacon **beacon);
void env_beacon_destroy(struct env_beacon *beacon);
int env_beacon_descriptor(const struct env_beacon *beacon);
/* These two by one thread at a time.  at_ns: as env_now_ns counts; UINT64_MAX: never. */
void env_beacon_light(struct env_beacon *beacon, bool lit);
void env_beacon_arm(struct env_beacon *beacon, uint64_t at_ns);

/* "host:process", for people. */
void env_process_name(char *name, size_t size);

/* CPUs that this process may run on. */
uint32_t env_cpu_count(void);

/* True when descriptor (1 or 2) is a terminal. */
bool env_is_terminal(int descriptor);

/* Makes the pages of some memory present, as far as that can be: its bytes stay as they are. */
void env_touch(void *at, size_t size);

/* Bytes of this process that are in memory now, and CPU nanoseconds it has used. */
uint64_t env_resident_bytes(void);
uint64_t env_cpu_ns(void);

/* Counts the instructions that this thread executes in user mode from now on; -1: the machine does
 * not tell.  env_raw_close ends it. */
int env_instructions_open(void);
uint64_t env_instructions_read(int counter);

/* Whether connections can have this congestion control. */
bool env_congestion_is_usable(const char *name);

/* Bytes of the largest cache; a guess where the kernel does not tell. */
uint64_t env_cache_bytes(void);

/* ---- plain sockets ---- */

/* For the limit programs of `bench` and the processes of `replay`: one system call each, over
 * loopback. */
MUST_CHECK enum snow_status env_raw_listen(char *address, size_t size, int *listener);
/* Wait until there is a connection; its descriptor, or -1. */
int env_raw_accept(int listener, const struct env_socket_options *options);
int env_raw_dial(const char *address, const struct env_socket_options *options);
/* Bytes; 0: none now (receive with wait: waits for some); -1: the end, or an error. */
ssize_t env_raw_send(int descriptor, const struct iovec *iov, int count);
ssize_t env_raw_receive(int descriptor, const struct iovec *iov, int count, bool wait);
void env_raw_close(int descriptor);

/* What is waited for; afterwards: what can be done. */
struct env_raw_want {
    int descriptor;
    bool receive;
    bool send;
};
#define ENV_RAW_WANTS_MAX 128u
bool env_raw_wait(struct env_raw_want *wants, uint32_t count);

#endif
