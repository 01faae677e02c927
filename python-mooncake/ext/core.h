/* The extension `mooncake._core`: the C library behind the calls of the package `mooncake`.
 *
 * Problem.  Engines call batch_is_exist, batch_put_from and batch_get_into with hundreds of keys
 *           for each step of a model: what Python itself costs a key must be little.
 * Idea.     Each call is one C function: lists in, one call of the library without the interpreter
 *           lock, a list of numbers out.  What needs no speed (set-up, tensors, sessions) is
 *           Python above it.
 * Invariants.
 *   M1  No object of Python is touched while the lock is released.
 *   M2  A call on a store that is not set up, or closed meanwhile, answers what stands in
 *       docs/mooncake.md; a link ends when its store has let go of it and no call is in it.
 *   M3  Only wrong arguments raise; what goes wrong in the store is a number (codes.c).
 * Threads.  The interpreter lock guards all members; calls of the library run without it. */
#ifndef CORE_H
#define CORE_H

#include "args.h"
#include "snowskin/groups.h"

#include <pthread.h>
#include <stdatomic.h>

enum code {
    CODE_INTERNAL = -1,
    CODE_NO_SPACE = -200,
    CODE_INVALID = -600,
    CODE_NO_REPLICA = -702,
    CODE_NOT_READY = -703,
    CODE_NOT_FOUND = -704,
    CODE_EXISTS = -705,
    CODE_GUARDED = -706,
    CODE_LEASE_EXPIRED = -707,
    CODE_NO_MASTER = -900,
    CODE_TIMEOUT = -901
};

/* Of the module. */
struct state {
    PyTypeObject *store;
    PyTypeObject *handle;
    PyTypeObject *writer;
    PyTypeObject *engine;
};

/* A client of the cluster, as long as anything uses it. */
struct link {
    struct snow_client *client;
    uint64_t local_bytes; /* the most that put and get copy */
    uint32_t deadline_ms; /* of a call, without the time that its bytes take */
    Py_ssize_t users;     /* the store, calls, writers */
    uint64_t read_bytes, read_count, written_bytes, written_count; /* objects, that went well */
    bool probing;     /* the thread below was started */
    pthread_t probe;  /* asks until the master is there again: link.c */
    atomic_bool stop; /* it is to end */
    atomic_bool lost; /* it is at work */
};

struct store {
    PyObject_HEAD struct state *state;
    struct link *link; /* NULL: not set up */
    bool failed;       /* the last set-up failed */
    uint64_t hidden;   /* answers of is_exist that were 0 because nobody could be asked */
    uint64_t told_ms;  /* when that was last logged; 0: never */
};

/* ---- codes.c: what a status is in this package ---- */

enum kind { KIND_PUT, KIND_GET, KIND_OTHER };

/* 0 for DONE, else a negative code. */
int code_of(enum snow_status status, enum kind kind);

/* ---- link.c ---- */

/* For a call: NULL when the store has none.  Each one taken is dropped. */
struct link *link_take(struct store *store);
void link_drop(struct link *link);
/* UNREACHABLE was answered: has a thread look for the master; true: it is the master that is
 * missing (else a node). */
bool link_doubt(struct link *link);
/* Of a clock that only goes on. */
uint64_t now_ms(void);
/* What every call says: patience, and a deadline for so many bytes. */
struct snow_call link_call(const struct link *link, uint64_t bytes);

PyObject *store_open(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_close(PyObject *self, PyObject *unused);
PyObject *store_health(PyObject *self, PyObject *unused);
PyObject *store_hosted(PyObject *self, PyObject *unused);
PyObject *store_nodes(PyObject *self, PyObject *unused);
PyObject *store_counters(PyObject *self, PyObject *unused);

/* ---- batch.c ---- */

/* An unsigned number of anything with __index__.  False with a TypeError. */
bool take_uint64(PyObject *value, const char *name, uint64_t *to);

/* Lists of the same length, the keys first. */
struct lists {
    PyObject *of[4]; /* tuples */
    int count;
    Py_ssize_t length; /* of the keys */
    bool equal;        /* all have it */
};

/* False with an exception. */
bool lists_take(struct lists *lists, PyObject *const *values, const char *const *names, int count);
void lists_drop(struct lists *lists);

/* Memory of one call: items, results, buffers; small ones lie in the caller's frame. */
#define FEW_BYTES 1024
struct memory {
    void *at;
    uint64_t few[FEW_BYTES / sizeof(uint64_t)];
};
/* Zeroed.  NULL with an exception. */
void *memory_take(struct memory *memory, size_t size);
void memory_drop(struct memory *memory);

/* The pieces of items: for each a list of pointers and one of sizes, in two lists. */
struct pieces {
    PyObject *pointers; /* borrowed tuples of sequences */
    PyObject *sizes;
    struct snow_buffer *at;
    size_t count; /* filled so far */
    size_t room;
};

/* Room for all.  False with an exception. */
bool pieces_take(struct pieces *pieces, PyObject *pointers, PyObject *sizes);
/* Those of one item, one after the other: 1; 0: its two lists do not fit each other, or a pointer
 * is NULL; -1 with an exception.  *size: their bytes. */
int pieces_next(struct pieces *pieces, Py_ssize_t index, const struct snow_buffer **buffers,
                size_t *buffer_count, size_t *size);
void pieces_drop(struct pieces *pieces);

PyObject *list_of(const int64_t *values, Py_ssize_t count);
PyObject *list_of_same(int64_t value, Py_ssize_t count);

/* ---- the calls, by file ---- */

#define CALL(name) \
    PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)

/* members.c */
#define GROUP_ID_SIZE_MAX 256u

struct put_members {
    struct snow_member *at; /* one a key; NULL: of no groups */
    PyObject *ids;          /* whose texts they point to */
    PyObject *parents;
};
/* 1: taken; 0: lists that do not fit; -1 with an exception. */
int members_take(PyObject *config, Py_ssize_t count, struct put_members *members);
void members_drop(struct put_members *members);
/* That of a key; NULL: none. */
const struct snow_member *members_of(const struct put_members *members, Py_ssize_t index);

/* put.c */
struct put_options {
    uint8_t replicas;
    uint8_t pin;
    uint32_t pin_ms;
    struct put_members members;
    const char *segment; /* lives as long as the configuration */
    PyObject *kept;      /* what keeps it alive */
};
/* 1: taken; 0: a value is invalid; -1 with an exception.  count: keys that it is for. */
int put_options_take(PyObject *config, Py_ssize_t count, struct put_options *options);
void put_options_drop(struct put_options *options);
/* index: of the item among those that they were taken for. */
void put_options_set(const struct put_options *options, Py_ssize_t index, struct snow_put *item);

CALL(store_put);
CALL(store_put_parts);
CALL(store_put_batch);
CALL(store_put_from);
CALL(store_batch_put_from);
CALL(store_batch_put_from_multi_buffers);
CALL(store_upsert);
CALL(store_upsert_parts);
CALL(store_upsert_batch);
CALL(store_upsert_from);
CALL(store_batch_upsert_from);
CALL(store_batch_upsert_from_multi_buffers);

/* get.c */
CALL(store_get);
CALL(store_get_batch);
CALL(store_get_buffer);
CALL(store_batch_get_buffer);
CALL(store_get_into);
CALL(store_batch_get_into);
CALL(store_batch_get_into_multi_buffers);
CALL(store_read_ranges);

/* query.c */
CALL(store_is_exist);
CALL(store_batch_is_exist);
CALL(store_get_size);
CALL(store_versions);
CALL(store_holders);
CALL(store_remove);
CALL(store_batch_remove);
CALL(store_remove_by_regex);
CALL(store_remove_all);
CALL(store_register_buffer);
CALL(store_unregister_buffer);

/* tasks.c */
CALL(store_task_start);
PyObject *store_task(PyObject *self, PyObject *value);

/* writer.c */
CALL(store_writer);
PyTypeObject *writer_type(PyObject *module);

/* handle.c: takes what the library allocated.  NULL with an exception; then it is freed. */
PyObject *handle_make(struct state *state, void *at, size_t size);
PyTypeObject *handle_type(PyObject *module);

/* store.c */
PyTypeObject *store_type(PyObject *module);

#endif
