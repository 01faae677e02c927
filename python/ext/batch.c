/* Calls of many keys.  A function of the limited API for each key costs 4 to 5 ns, half of what a
 * key costs here: so keys are read from the array that a call with a tuple's items has (show), and
 * the list of results begins as one that holds True for all. */
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
    batch->shown = NULL;
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

/* Called with the keys of a batch as its arguments. */
static PyObject *show(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct state *state = PyModule_GetState(module);
    struct batch *batch = state->shown;

    state->shown = NULL; /* what is prepared may run Python code, and that other calls */
    if (batch == NULL || count != batch->count) {
        PyErr_SetString(PyExc_SystemError, "this function is the extension's own");
        return NULL;
    }
    batch->shown = args;
    bool good = batch->operation->prepare(batch, batch->values);

    batch->shown = NULL;
    return good ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef show_method = {"_show", (PyCFunction)(void (*)(void))show, METH_FASTCALL, NULL};

int batch_setup(PyObject *module, struct state *state)
{
    state->shower = PyCFunction_New(&show_method, module);
    return state->shower == NULL ? -1 : 0;
}

static bool prepare(struct batch *batch)
{
    struct state *state = batch->state;

    if (batch->count < SHOWN_MIN)
        return batch->operation->prepare(batch, batch->values);
    state->shown = batch;
    PyObject *result = PyObject_Call(state->shower, batch->keys, NULL);

    state->shown = NULL;
    Py_XDECREF(result);
    return result != NULL;
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
    batch->operation = operation;
    batch->values = values;
    if (prepare(batch))
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

static PyObject *all_true(Py_ssize_t count)
{
    PyObject *one = PyList_New(1);
    PyObject *all;

    if (one == NULL || PyList_SetItem(one, 0, Py_NewRef(Py_True)) < 0)
        return NULL;
    all = PySequence_Repeat(one, count);
    Py_DECREF(one);
    return all;
}

static PyObject *make_results(const struct operation *operation, struct batch *batch)
{
    const struct snow_stat *stats =
        operation->is_bool && batch->infos == NULL ? batch->items : NULL;
    PyObject *results = stats == NULL ? PyList_New(batch->count) : all_true(batch->count);

    for (Py_ssize_t i = 0; i < batch->count && results != NULL; i++) {
        if (stats != NULL && stats[i].status == SNOW_OK)
            continue;
        PyObject *one = operation->result(batch, i);

        if (one == NULL || PyList_SetItem(results, i, one) < 0)
            Py_CLEAR(results);
    }
    return results;
}

PyObject *operation_call(const struct operation *operation, const struct args_spec *spec, bool many,
                         PyObject *store, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *results = NULL;
    struct batch batch;

    if (!operation_begin(operation, spec, many, store, args, count, names, &batch))
        return NULL;
    if (run(operation, &batch))
        results = many ? make_results(operation, &batch) : operation->result(&batch, 0);
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
