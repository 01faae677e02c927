/* What the methods of Store share: many keys or one, by the same way. */
#ifndef BATCH_H
#define BATCH_H

#include "ext.h"

#define BATCH_FEW 512
#define SHOWN_MIN 8 /* keys: below, to be shown them costs more than it spares */

struct operation;

struct batch {
    const struct operation *operation;
    PyObject **values; /* its arguments, while it is prepared */
    struct store *store;
    struct state *state;
    PyObject *single;       /* borrowed; NULL: many */
    PyObject *keys;         /* tuple of many */
    PyObject *const *shown; /* its items, while they are shown; else NULL */
    Py_ssize_t count;
    bool options; /* arguments other than the first are given */
    struct snow_call call;
    uint32_t pin; /* of a pin */
    uint32_t pin_ms;
    struct snow_hints hints; /* of a touch; of an expire the time */
    void *items;
    uint64_t few[BATCH_FEW / sizeof(uint64_t)]; /* where items may be, when they fit */
    struct buffers buffers;
    PyObject *member_list;             /* groups.c: what `members` point into; NULL: none */
    struct snow_member *members;       /* one an item; NULL: none is of a group */
    struct snow_group_info *infos;     /* of an exists: the groups of its keys; NULL: not wanted */
    struct snow_group_more *mores;     /* and more of groups; NULL: not wanted */
    void (*drop)(struct batch *batch); /* frees what the library gave with the items; may be NULL */
    char reason[256];                  /* of what failed */
};

/* A kind of call.  values: its arguments, the key or keys first. */
struct operation {
    size_t item_size;
    /* Fills the items and the call.  False with an exception. */
    bool (*prepare)(struct batch *batch, PyObject **values);
    /* Calls the library and waits. */
    void (*run)(struct batch *batch, struct snow_client *client);
    /* Calls it without waiting; NULL: it can not be. */
    enum snow_status (*submit)(struct batch *batch, struct snow_queue *queue, uint64_t tag);
    PyObject *(*result)(struct batch *batch, Py_ssize_t index);
    /* Items are struct snow_stat, and True is the result of those that are OK, unless groups are
     * asked for. */
    bool is_bool;
    /* Frees what the library gave with the items; may be NULL. */
    void (*drop)(struct batch *batch);
};

/* Takes arguments.  False with an exception; else batch_deinit ends it. */
bool operation_begin(const struct operation *operation, const struct args_spec *spec, bool many,
                     PyObject *store, PyObject *const *args, Py_ssize_t count, PyObject *names,
                     struct batch *batch);
/* The whole call: a list of results, or of a single key its result, raised if it is an
 * exception. */
PyObject *operation_call(const struct operation *operation, const struct args_spec *spec, bool many,
                         PyObject *store, PyObject *const *args, Py_ssize_t count, PyObject *names);

void batch_deinit(struct batch *batch);

/* Borrowed. */
static inline PyObject *batch_key(const struct batch *batch, Py_ssize_t index)
{
    if (batch->single != NULL)
        return batch->single;
    return batch->shown != NULL ? batch->shown[index] : PyTuple_GetItem(batch->keys, index);
}

/* Items that are struct snow_item: their keys (false with an exception), and what one of them came
 * to. */
bool batch_fill_items(struct batch *batch);
PyObject *batch_item_result(struct batch *batch, Py_ssize_t index);

/* After a call of the library, by its thread: why it failed. */
void batch_reason(struct batch *batch, enum snow_status status);

/* The exception for an item; items are asked for in their order. */
PyObject *batch_error(struct batch *batch, enum snow_status status, Py_ssize_t index);
/* True for OK and EXISTS and UNCERTAIN, False for what `none` says, else an exception. */
PyObject *batch_bool(struct batch *batch, enum snow_status status, Py_ssize_t index,
                     enum snow_status none);

#endif
