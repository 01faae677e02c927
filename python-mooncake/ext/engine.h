/* The transfer engine: memory of one process read and written by another, over TCP, or within a
 * host by the kernel (engine_move.c).
 *
 * Problem.  A prefill process puts pages straight into the memory of a decode process, which does
 *           nothing for it; whatever its interpreter is doing, it must not hold transfers up.
 * Idea.     Each engine listens, and serves every connection by a thread without the interpreter
 *           lock: it moves bytes between the socket and memory that was registered, and no other.
 *           Who asks does so in the calling thread, over connections that are kept for the next.
 *
 *   request:  head, count ranges {address, size}; of a write their bytes follow
 *   answer:   head with a status; of a read the bytes follow
 *   near:     enter, with ranges ─► answer; the one who asks moves the bytes; leave
 *
 * Invariants.
 *   T1  A range is touched only while it lies in a registered region, and a region goes only when
 *       no thread is inside it.
 *   T2  A transfer ends by its timeout; a call that answered 0 has moved every byte, and one that
 *       did not has closed its connection.
 * Threads.  `mutex` guards what stands behind it. */
#ifndef ENGINE_H
#define ENGINE_H

#include "core.h"
#include "env/linux/device.h"

enum engine_kind {
    ENGINE_WRITE = 1, /* into the memory of the one that is asked */
    ENGINE_READ = 2,
    ENGINE_NOTIFY = 3, /* count: bytes of the name; bytes: of name and message */
    ENGINE_PROBE = 4,  /* answer: bytes: where its first region begins, or 0 */
    ENGINE_NEAR = 5,   /* answer: a struct engine_near follows */
    ENGINE_ENTER = 6,  /* the ranges will be read or written until leave, or the connection ends */
    ENGINE_LEAVE = 7   /* no answer */
};

#define ENGINE_FAILED (-1)
#define ENGINE_BY_SOCKET (-3) /* of enter: memory that only this process can touch */

#define ENGINE_MAGIC 0x31454e53u /* "SNE1" */
#define ENGINE_RANGES_MAX 4096u  /* of a request; more are several requests */
#define ENGINE_NOTICE_MAX 65536u /* bytes of a name and message */
#define ENGINE_NOTICES_MAX 4096u /* that nobody has taken */
#define ENGINE_SERVED_MAX 256u   /* connections */
#define ENGINE_KEPT_MAX 64u      /* connections kept for the next transfer */
#define ENGINE_WORKERS 4u        /* of transfers that nobody waits for */
#define ENGINE_JOBS_MAX 65536u   /* of these, whose end nobody has asked for */

/* Little endian, as every machine this runs on. */
struct engine_head {
    uint32_t magic;
    uint16_t kind;
    int16_t status; /* of an answer: 0, or -1 */
    uint32_t count;
    uint32_t spare;
    uint64_t bytes;
};

struct engine_range {
    uint64_t at;
    uint64_t size;
};

/* Who an engine is. */
struct engine_near {
    char host[40]; /* boot id */
    uint64_t pid;
    uint64_t nonce_at; /* where this number lies in its memory */
    uint64_t nonce[2];
};

struct engine_served;
struct engine_job;

struct engine_notice {
    struct engine_notice *next;
    uint32_t name_size;
    uint32_t size;
    char bytes[];
};

/* A connection to another engine. */
struct engine_conn {
    int fd;
    pid_t near; /* its process, where the kernel moves bytes; 0: by the socket */
};

struct engine_kept {
    char target[280];
    struct engine_conn conn;
};

struct engine {
    uint32_t timeout_ms;
    bool any_memory; /* others may name memory that is not registered */
    bool near;       /* use what the kernel offers within a host */
    uint64_t nonce[2];
    struct devices *devices;
    atomic_ullong near_bytes; /* that this engine moved for itself */
    atomic_ullong far_bytes;
    int listener;
    uint16_t port;
    pthread_t acceptor;
    pthread_t workers[ENGINE_WORKERS];

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a thread left a region, a job came or ended */
    bool stopping;
    bool closing; /* no further request is served */
    struct engine_range *regions;
    size_t region_count;
    struct engine_served *served;
    uint32_t served_count;
    struct engine_kept kept[ENGINE_KEPT_MAX];
    uint32_t kept_count;
    struct engine_notice *notices;
    struct engine_notice **notices_end;
    uint32_t notice_count;
    struct engine_job *jobs; /* all whose end nobody has asked for, newest first */
    uint32_t job_count;
    uint32_t worker_count;
    uint64_t next_job;
};

/* NULL: no memory. */
struct engine *engine_create(uint32_t timeout_ms, bool any_memory, bool near);
/* Waits for its threads. */
void engine_destroy(struct engine *engine);

/* ---- engine_serve.c ---- */

/* 0, or -1: the address is not to be had. */
int engine_listen(struct engine *engine, const char *address, uint16_t port);
void engine_serve_stop(struct engine *engine);
/* 0; -7: some of it is registered; -1: nothing, or no memory. */
int engine_register(struct engine *engine, uint64_t at, uint64_t size);
/* Waits until nobody is inside it.  0; -1: none begins there. */
int engine_unregister(struct engine *engine, uint64_t at);

/* ---- engine_move.c ---- */

/* All bytes, by its deadline of silence.  False: the connection is of no use any more. */
bool engine_send(int fd, const void *from, uint64_t size, bool more);
bool engine_receive(int fd, void *to, uint64_t size);
/* Own memory, also of devices, out to the socket or in from it. */
bool engine_move(struct engine *engine, int fd, const struct engine_range *own, uint32_t count,
                 bool out);
bool engine_has_device(struct engine *engine, const struct engine_range *ranges, uint32_t count);
void engine_near_tell(const struct engine *engine, struct engine_near *near);
/* The kernel lets this process read and write the other. */
bool engine_near_can(const struct engine *engine, const struct engine_near *other);
/* False: some of it is not mapped there, or the process is gone. */
bool engine_near_move(pid_t pid, bool out, const struct engine_range *own,
                      const struct engine_range *others, uint32_t count);

/* ---- engine_ask.c: in the calling thread, without the interpreter lock ---- */

/* One transfer of count pieces: 0, -1, or -2: it took too long. */
int engine_transfer(struct engine *engine, enum engine_kind kind, const char *target,
                    const struct engine_range *own, const struct engine_range *others,
                    size_t count);
int engine_notify(struct engine *engine, const char *target, const char *name, size_t name_size,
                  const char *message, size_t size);
/* 0, or -102: nobody is there. */
int engine_probe(struct engine *engine, const char *target, uint64_t *first);
void engine_ask_stop(struct engine *engine);

/* ---- engine_jobs.c ---- */

/* Takes own and others (malloced) over.  A number above 0; 0: not started. */
uint64_t engine_submit(struct engine *engine, enum engine_kind kind, const char *target,
                       struct engine_range *own, struct engine_range *others, size_t count);
/* 1: done, 0: running, -1: failed, or no such, -2: it took too long.  An end is told once. */
int engine_check(struct engine *engine, uint64_t id, bool wait);
void engine_jobs_stop(struct engine *engine);

/* engine.c */
PyTypeObject *engine_type(PyObject *module);

#endif
