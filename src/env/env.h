/* The only way to the clock, the network, files, memory and threads.
 *
 * Problem.  A whole cluster must run in one process, from one seed, on virtual time, with the code
 *           that runs in production; and in production on a real machine, without a layer that
 *           costs.
 * Idea.     One interface, two bodies that the linker chooses: env/linux/ (epoll, sockets, memfd,
 *           pthreads) and sim/ (virtual time, simulated network with delay, loss and partitions,
 *           crashes).
 * Invariants.
 *   E1  Everything hangs off a struct env (one process) or a struct env_loop (one thread of it).
 *   E2  All callbacks of a loop run on its thread, one after the other, to completion; none runs
 *       inside the call that caused it (a timer armed for the past, a dial that fails at once: the
 *       next turn).
 *   E3  After close, cancel or deinit of a thing, none of its callbacks runs any more.
 *   E4  Only env_loop_post and env_loop_stop may be called from other threads.
 * Threads.  A loop is turned by its own thread (env_loop_start), by the caller (env_loop_run,
 *           env_loop_turn: Linux only), or by the simulator. */
#ifndef ENV_ENV_H
#define ENV_ENV_H

#include "base/bytes.h"
#include "base/fault.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/region.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct env;      /* one process */
struct env_loop; /* one thread of it */

/* ---- the process ---------------------------------------------------------------------------- */

/* Monotonic nanoseconds since some start; never goes back. */
uint64_t env_now_ns(struct env *env);

/* Wall-clock milliseconds since 1970, for people's eyes only. */
uint64_t env_wall_ms(struct env *env);

/* Random numbers: from the kernel on Linux, from the seed in the simulator. */
uint64_t env_random(struct env *env);

/* Faults that the simulator has planted in this process; none on Linux. */
fault_set env_faults(struct env *env);

/* Text that names this host (boot id): equal on one host, different on others. */
const char *env_host(struct env *env);

/* ---- loops and threads ---------------------------------------------------------------------- */

/* A loop that is not turning yet. name: for logs and the thread, at most 15 bytes, copied. */
MUST_CHECK enum snow_status env_loop_create(struct env *env, const char *name,
                                            struct env_loop **loop);

/* Turns the loop on a thread of its own (all signals blocked there) until env_loop_stop. */
MUST_CHECK enum snow_status env_loop_start(struct env_loop *loop);

/* Asks the loop to return from its turning after the current event. Any thread, repeatable. */
void env_loop_stop(struct env_loop *loop);

/* Waits until a started loop has stopped.  Not from the loop itself. */
void env_loop_join(struct env_loop *loop);

/* Frees a loop that does not turn (stopped and joined, or never started). Its timers and
 * connections are closed before. */
void env_loop_destroy(struct env_loop *loop);

struct env *env_loop_env(struct env_loop *loop);

/* Linux only: turns the loop on the calling thread until env_loop_stop. */
void env_loop_run(struct env_loop *loop);

/* Linux only: runs what is ready, waiting at most timeout_ns for something (0: do not wait), the
 * first spin_ns of it by spinning.  One thread at a time.  Returns the number of events that
 * ran. */
uint32_t env_loop_turn(struct env_loop *loop, uint64_t timeout_ns, uint64_t spin_ns);

/* Counts up each time the loop turns: whoever reads it from outside sees whether the loop is alive.
 * Any thread. */
uint64_t env_loop_turns(const struct env_loop *loop);

/* A task that runs once on a loop, posted from any thread. Lives in the caller's object; not
 * posted twice at a time. */
struct env_task {
    void (*on_event)(struct env_task *task);
    struct env_task *next; /* the loop's */
};

void env_loop_post(struct env_loop *loop, struct env_task *task);

/* A hook that runs at the end of each turn, after its events: where what a turn gathered leaves in
 * one piece. Owned by the caller; added and removed on the loop's thread or before it turns. */
struct env_hook {
    void (*on_event)(struct env_hook *hook);
    struct list_link link; /* the loop's */
};

void env_hook_add(struct env_loop *loop, struct env_hook *hook);
void env_hook_remove(struct env_hook *hook);

/* ---- timers --------------------------------------------------------------------------------- */

/* Lives in the caller's object, zeroed before first use; on_event set by the owner.
 * Loop thread only. */
struct env_timer {
    void (*on_event)(struct env_timer *timer);
    struct env_loop *loop; /* NULL: not armed */
    struct heap_link link; /* when it fires; among equal times: first armed, first fired */
};

/* Fires once at at_ns or soon after; arming an armed timer moves it. */
void env_timer_arm(struct env_loop *loop, struct env_timer *timer, uint64_t at_ns);
void env_timer_cancel(struct env_timer *timer); /* nothing happens when it is not armed */

/* ---- network: byte streams ------------------------------------------------------------------ */

/* Addresses are text: "host:port", "1.2.3.4:port", "[v6]:port";
 * port 0 when listening: any free one.
 *
 * "unix:@name" and "unix:/path" name a process of this host.  What connects there is a stream like
 * any other, whose bytes pass through shared memory: no system call while both sides are awake.
 * Memory objects can be handed over on it (below).  "unix:@" when listening: any free name. */

#define ENV_CONGESTION_SIZE 16u /* bytes of a name, with its end */

struct env_socket_options {
    /* NULL: cubic towards loopback and private addresses, else the system's */
    const char *congestion;
    uint32_t send_buffer;     /* bytes, 0: the system's */
    uint32_t receive_buffer;  /* bytes, 0: the system's */
    uint32_t user_timeout_ms; /* give up on a peer that acknowledges nothing; 0: the system's */
    bool keepalive;           /* probe an idle peer: 5 s, then 3 x 2 s */
};

struct env_conn;

/* Called on the loop.  owner: as given to env_dial or env_conn_own. */
struct env_conn_ops {
    /* End of a dial: OK, or UNREACHABLE and the connection can only be closed.
     * Not called for accepted ones. */
    void (*on_open)(void *owner, enum snow_status status);
    /* env_conn_receive has bytes, or the end, to tell. */
    void (*on_readable)(void *owner);
    /* There is room again after a send that took less than given. */
    void (*on_writable)(void *owner);
};

/* Starts to connect; on_open tells how it ended. options may be NULL. INVALID: the address is no
 * address. Host names are resolved off the loop. */
MUST_CHECK enum snow_status env_dial(struct env_loop *loop, const char *address,
                                     const struct env_socket_options *options,
                                     const struct env_conn_ops *ops, void *owner,
                                     struct env_conn **conn);

/* Gives an accepted connection its owner; before this its events wait. */
void env_conn_own(struct env_conn *conn, const struct env_conn_ops *ops, void *owner);

#define ENV_AGAIN 0  /* nothing now: on_readable or on_writable will tell */
#define ENV_END (-1) /* the peer closed, or the connection broke: close it */

/* Receives what is there into iov, in order; sends what the stream takes at once. Bytes > 0,
 * ENV_AGAIN or ENV_END. Neither blocks. on_readable is edge-like: it comes again only after a
 * receive returned ENV_AGAIN. A send that took less than given makes on_writable come once. */
ssize_t env_conn_receive(struct env_conn *conn, const struct iovec *iov, int iov_count);
ssize_t env_conn_send(struct env_conn *conn, const struct iovec *iov, int iov_count);

/* Closes and frees.  What was sent still goes out, unless reset. */
void env_conn_close(struct env_conn *conn, bool reset);

/* "1.2.3.4:5" of the other side, for logs; lives as long as the connection. */
const char *env_conn_peer(const struct env_conn *conn);

/* The process at the other end is on this host and runs as the user of this one: it could do to
 * this process what it likes. */
bool env_conn_is_same_user(const struct env_conn *conn);

/* The process that dialled an accepted "unix:" connection: known also after the end of that.  NULL:
 * there is no way to know it. */
struct env_peer;
struct env_peer *env_peer_open(struct env_conn *conn);
bool env_peer_is_alive(const struct env_peer *peer);
void env_peer_close(struct env_peer *peer);

struct env_listener;

/* Accepts connections until closed. INVALID: no address;
 * UNREACHABLE: can not bind (the reason is logged). */
MUST_CHECK enum snow_status env_listen(struct env_loop *loop, const char *address,
                                       const struct env_socket_options *options,
                                       void (*on_accept)(void *owner, struct env_conn *conn),
                                       void *owner, struct env_listener **listener);

/* The address it is bound to, with the real port. */
const char *env_listener_address(const struct env_listener *listener);
void env_listener_close(struct env_listener *listener);

/* ---- memory --------------------------------------------------------------------------------- */

/* A shared-memory object mapped into this process: a segment's meta or data. */
struct env_memory {
    uint8_t *at;         /* page aligned; data: aligned to 2 MiB */
    size_t size;         /* bytes, as asked */
    size_t page_size;    /* bytes of the pages that back most of it */
    bool existed;        /* opened with the bytes of an earlier process */
    int descriptor;      /* the body's */
    void *private_state; /* the body's */
};

/* Where tables of this process that grow take memory from: large pages if the system has them;
 * NULL: malloc. */
const struct region_source *env_large_pages(void);

/* Bytes that the host, or the container, has in all: what is opened may be larger than that, or
 * than what is free, as long as it is not all populated. */
uint64_t env_memory_total(struct env *env);

/* Opens or makes the object. dir NULL: anonymous (memfd), gone with the process; else a file of
 * that name in dir (0700), exclusively locked, which survives it. name: at most 63 bytes of
 * [a-z0-9.-]. IN_USE: another process holds it. NO_SPACE: there is no room for its addresses.
 * INVALID: it exists with another size. */
MUST_CHECK enum snow_status env_memory_open(struct env *env, const char *dir, const char *name,
                                            size_t size, struct env_memory *memory);

/* Makes [from, from+size) of it present in memory, 2 MiB pages where it can. Slow; never later a
 * SIGBUS. NO_SPACE: not all of it; *done tells how many bytes are. */
MUST_CHECK enum snow_status env_memory_populate(struct env *env, struct env_memory *memory,
                                                size_t from, size_t size, size_t *done);
void env_memory_close(struct env *env, struct env_memory *memory);

/* From now on nobody can map it writable any more; mappings that are stay. Of files: nothing. */
void env_memory_seal(struct env_memory *memory);

/* Hands an object over to the process at the other end of a "unix:" connection, to map writable or
 * not; they are taken there in the order they were handed over. INVALID: no such connection; BUSY:
 * too many are under way; CLOSED. */
MUST_CHECK enum snow_status env_memory_send(struct env_conn *conn, const struct env_memory *memory,
                                            bool writable);

/* Maps the next object that the peer handed over, writable where it said so; what was handed over
 * before bytes were sent is there when these have come. trusted false: it must be an object that
 * nobody can shrink. NOT_READY: none has come; INVALID: not to be trusted; NO_MEMORY. An object
 * that a file lies behind is IN_USE for env_memory_open as long as any process has it mapped. */
MUST_CHECK enum snow_status env_memory_take(struct env_conn *conn, bool trusted,
                                            struct env_memory *memory);

/* ---- memory of devices ---- */

/* Memory that the CPU can not touch: the device's driver has to copy it (linux/device.h).  The
 * simulator has none. */

/* Looks whether there are devices; before a group of questions. */
void env_device_look(struct env *env);
bool env_device_has(struct env *env, const void *at);
/* Registered memory, of one kind. */
void env_device_learn(struct env *env, const void *at, size_t size);
void env_device_forget(struct env *env, const void *at);
/* Between the host's memory and a device's; waits.  False: the driver refuses. */
MUST_CHECK bool env_device_copy(struct env *env, void *to, const void *from, size_t size,
                                bool to_device);
/* Memory of the host for copies to and from devices.  NULL: none. */
void *env_device_stage(struct env *env, size_t size);
void env_device_unstage(struct env *env, void *at);

/* ---- copies ---- */

struct env_worker; /* a thread that copies: linux.h */

/* Copies bytes between a segment and a caller's memory: the only function that does. Linux: a
 * memcpy by the worker's thread, or (NULL) one that is done when the call returns. Simulator: 1 to
 * 8 pieces at different virtual times, with other events (and maybe a pause or a crash) in between:
 * a torn read or write can show. Returns true when it is done already (on_event is not called),
 * false when on_event will tell, on the loop. Zeroed, the first members set. */
#define ENV_SUM_BYTES ((size_t)256 << 10)

struct env_copy {
    void *to;
    const void *from;
    size_t size;
    struct env_worker *worker; /* whose thread copies; NULL: the loop's */
    void (*on_event)(struct env_copy *copy);
    /* Not NULL: the crc32c of each ENV_SUM_BYTES of what lies at sum_of (which is `to` or `from`)
     * goes here, computed while these bytes are in the cache. */
    uint32_t *sums;
    const void *sum_of;
    /* Not NULL: `to` (to_device) or `from` lies on a device, whose driver copies it. */
    struct env *device;
    bool to_device;
    bool failed;         /* out: the driver refused; the bytes of `to` are unspecified */
    void *private_state; /* the body's, and all that follows */
    struct list_link link;
    size_t taken;     /* bytes that some thread has copied, or copies */
    uint32_t runners; /* threads that copy parts of it */
    bool cancelled;
};

bool env_copy(struct env_loop *loop, struct env_copy *copy);

/* A copy under way will not write another byte, and its on_event does not run. Waits, when a worker
 * is in the middle of it, for less than a MiB. */
void env_copy_cancel(struct env_copy *copy);

/* ---- files ---------------------------------------------------------------------------------- */

/* Reads a whole file, at most size_max bytes; *data is malloc'd, for the caller to free.
 * NOT_FOUND, LIMIT, INVALID. */
MUST_CHECK enum snow_status env_file_read(struct env *env, const char *path, size_t size_max,
                                          uint8_t **data, size_t *size);

/* Replaces a file as one step that survives a crash: temporary file, fsync, rename,
 * fsync of the folder. */
MUST_CHECK enum snow_status env_file_replace(struct env *env, const char *path, struct bytes data);

/* Makes the folder (0700) if it is missing and locks it for this process until the process ends.
 * IN_USE: another holds it. */
MUST_CHECK enum snow_status env_dir_lock(struct env *env, const char *path);

/* ---- log sink ------------------------------------------------------------------------------- */

/* Writes one line (no newline in it) to the process's log: standard error on Linux, the run's
 * transcript in the simulator. */
void env_log_line(struct env *env, const char *line);

#endif
