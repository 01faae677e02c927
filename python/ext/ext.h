/* The extension `snowskin._snowskin`: the C library behind Python objects.
 *
 * Problem.  A call from Python should cost little more than the library's, hold up no other
 *           thread, and keep alive what the library works on until it has ended.
 * Idea.     Hand-written over the limited API (abi3, Python 3.11): fast calls, one C call for a
 *           whole batch.  Each call takes references to its keys and buffers first, then works
 *           without the interpreter lock, then makes its results.
 * Invariants.
 *   X1  No object of Python is touched while the lock is released.
 *   X2  A Store's client is closed when no call is in it: by close(), or by the last call that
 *       leaves after it.
 *   X3  No state outside of the module's and the objects'.
 * Threads.  The interpreter lock guards all members; calls of the library run without it. */
#ifndef EXT_H
#define EXT_H

#include "args.h"

enum error_index {
#define STATUS(name, code, verdict, text) ERROR_##name,
#include <snowskin/status.def>
#undef STATUS
    ERROR_COUNT
};

/* Of the module. */
struct state {
    PyObject *error;               /* snowskin.Error */
    PyObject *verdicts[4];         /* its subclasses, by enum snow_verdict */
    PyObject *errors[ERROR_COUNT]; /* theirs, one a status that is not DONE; NULL: DONE */
    PyTypeObject *store;
    PyTypeObject *view;
    PyTypeObject *queue;
    PyObject *as_buffer; /* for objects without the buffer protocol; NULL: not looked up yet */
    PyObject *shower;    /* batch.c: a function that is shown the items of a tuple */
    struct batch *shown; /* whose keys it is shown */
};

/* The state of the module that defined type, or a base of it.  NULL with an exception. */
struct state *state_of_type(PyTypeObject *type);

/* ---- batch.c ---- */

/* Makes what calls of many keys need. */
int batch_setup(PyObject *module, struct state *state);

/* ---- errors.c ---- */

/* Makes the classes and adds them to the module. */
int errors_init(PyObject *module, struct state *state);
/* An exception object; about (may be NULL) is named in it.  NULL with an exception. */
PyObject *error_make(struct state *state, enum snow_status status, const char *reason,
                     PyObject *about);
/* Raises it; returns NULL. */
PyObject *error_raise(struct state *state, enum snow_status status, const char *reason,
                      PyObject *about);

/* ---- buffers.c ---- */

/* The buffers of a call. */
struct buffers {
    struct state *state;
    Py_buffer *views;
    Py_ssize_t count;
    Py_ssize_t capacity;
    struct snow_buffer *lists; /* for items that are several buffers */
    Py_ssize_t list_count;
};

/* Room for so many buffers in all.  False with an exception. */
bool buffers_init(struct buffers *buffers, struct state *state, Py_ssize_t capacity);
void buffers_deinit(struct buffers *buffers);
/* How many buffers an item is: 1, or the length of a list or tuple. */
Py_ssize_t buffers_of(PyObject *item);
/* Takes the memory of an item: one buffer at *at, or (*list) several.  False with an exception. */
bool buffers_add(struct buffers *buffers, PyObject *item, bool writable, void **at, size_t *size,
                 const struct snow_buffer **list, size_t *list_count);

/* ---- the types ---- */

struct store {
    PyObject_HEAD struct state *state;
    struct snow_client *client; /* NULL: closed */
    Py_ssize_t calls;           /* in it now */
    bool closing;
    struct registered *registered; /* memory.c */
};

PyTypeObject *store_type(PyObject *module);
/* The client for a call; NULL with an exception: it is closed. */
struct snow_client *store_enter(struct store *store);
void store_leave(struct store *store);

/* Of memory that was registered with it. */
PyObject *store_register(PyObject *self, PyObject *buffer);
PyObject *store_unregister(PyObject *self, PyObject *buffer);
void memory_release_all(struct store *store);

PyTypeObject *view_type(PyObject *module);
/* Takes the view over.  NULL with an exception; then it has ended. */
PyObject *view_make(struct state *state, struct snow_view *view);

PyTypeObject *queue_type(PyObject *module);

/* timing.c: what the same calls cost without Python. */
extern PyMethodDef timing_methods[];

#endif
