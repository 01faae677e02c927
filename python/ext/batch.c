#include "batch.h"

#include "groups.h"

#include <stdio.h>
#include <string.h>

/* Takes the keys (or the one), and room for as many items.  False with an exception. */
static bool batch_init(struct batch *batch, PyObject *self, PyObject *keys, bool many,
                       size_t item_size)
{
    struct store *store = (struct store *)self;

    batch->store = store;
    batch->state = store->state;
    batch->single = many ? NULL : keys;
    batch->keys = many ? args_items(keys, "keys") : NULL;
    batch->count = 1;
    batch->items = NULL;
    batch->pin = batch->pin_ms = 0;
    batch->hints = (struct snow_hints){0};
    batch->drop = NULL;
    batch->member_list = NULL;
    batch->members = NULL;
    batch->infos = NULL;
    batch->mores = NULL;
    batch->call = (struct snow_call){0};
    batch->buffers = (struct buffers){0};
    batch->reason[0] = 0;
    if (many && batch->keys == NULL)
        return false;
    if (many)
        batch->count = PyTuple_Size(batch->keys);
    size_t size = ((size_t)batch->count + 1) * item_size;

    batch->items = size <= BATCH_FEW ? batch->few : PyMem_Malloc(size);
    if (batch->items != NULL) {
        memset(batch->items, 0, size);
        return true;
    }
    Py_XDECREF(batch->keys);
    PyErr_NoMemory();
    return false;
}

void batch_deinit(struct batch *batch)
{
    if (batch->drop != NULL)
        batch->drop(batch);
    if (batch->buffers.views != NULL)
        buffers_deinit(&batch->buffers);
    if (batch->items != batch->few)
        PyMem_Free(batch->items);
    if (batch->member_list != NULL)
        groups_forget(batch);
    PyMem_Free(batch->infos);
    PyMem_Free(batch->mores);
    Py_XDECREF(batch->keys);
}

PyObject *batch_key(const struct batch *batch, Py_ssize_t index)
{
    return batch->single != NULL ? batch->single : PyTuple_GetItem(batch->keys, index);
}

bool operation_begin(const struct operation *operation, const struct args_spec *spec, bool many,
                     PyObject *store, PyObject *const *args, Py_ssize_t count, PyObject *names,
                     struct batch *batch)
{
    PyObject *values[ARGS_MAX];

    if (!args_take(spec, args, count, names, values) ||
        !batch_init(batch, store, values[0], many, operation->item_size))
        return false;
    batch->options = count > 1 || names != NULL;
    if (operation->prepare(batch, values))
        return true;
    batch_deinit(batch);
    return false;
}

/* Without the interpreter lock.  False with an exception: the store is closed. */
static bool run(const struct operation *operation, struct batch *batch)
{
    struct snow_client *client;
    PyThreadState *thread;

    if (batch->count == 0)
        return true;
    client = store_enter(batch->store);
    if (client == NULL)
        return false;
    thread = PyEval_SaveThread();
    operation->run(batch, client);
    PyEval_RestoreThread(thread);
    batch->drop = operation->drop;
    store_leave(batch->store);
    return true;
}

PyObject *operation_call(const struct operation *operation, const struct args_spec *spec, bool many,
                         PyObject *store, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *results = NULL;
    struct batch batch;

    if (!operation_begin(operation, spec, many, store, args, count, names, &batch))
        return NULL;
    if (run(operation, &batch))
        results = many ? PyList_New(batch.count) : operation->result(&batch, 0);
    for (Py_ssize_t i = 0; i < batch.count && many && results != NULL; i++) {
        PyObject *one = operation->result(&batch, i);

        if (one == NULL || PyList_SetItem(results, i, one) < 0)
            Py_CLEAR(results);
    }
    if (!many && results != NULL && PyExceptionInstance_Check(results)) {
        PyErr_SetObject((PyObject *)Py_TYPE(results), results);
        Py_CLEAR(results);
    }
    batch_deinit(&batch);
    return results;
}

bool batch_fill_items(struct batch *batch)
{
    struct snow_item *items = batch->items;

    for (Py_ssize_t i = 0; i < batch->count; i++) {
        if (!args_key(batch_key(batch, i), &items[i].key))
            return false;
    }
    return true;
}

PyObject *batch_item_result(struct batch *batch, Py_ssize_t index)
{
    return batch_bool(batch, ((struct snow_item *)batch->items)[index].status, index,
                      SNOW_NOT_FOUND);
}

void batch_reason(struct batch *batch, enum snow_status status)
{
    if (snow_status_verdict(status) != SNOW_DONE)
        snprintf(batch->reason, sizeof(batch->reason), "%s", snow_reason());
}

PyObject *batch_error(struct batch *batch, enum snow_status status, Py_ssize_t index)
{
    PyObject *error = error_make(batch->state, status, batch->reason, batch_key(batch, index));

    batch->reason[0] = 0; /* it was the first failed item's */
    return error;
}

PyObject *batch_bool(struct batch *batch, enum snow_status status, Py_ssize_t index,
                     enum snow_status none)
{
    if (status == SNOW_OK)
        Py_RETURN_TRUE;
    if (status == none)
        Py_RETURN_FALSE;
    if (snow_status_verdict(status) == SNOW_DONE)
        Py_RETURN_TRUE;
    return batch_error(batch, status, index);
}
