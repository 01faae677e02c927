/* What calls cost without Python: tools/bench_python compares. */
#include "ext.h"

#include <time.h>

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static bool fill_keys(PyObject *keys, void *items, size_t item_size)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(keys); i++) {
        if (!args_key(PyTuple_GetItem(keys, i), (void *)((char *)items + (size_t)i * item_size)))
            return false;
    }
    return true;
}

/* _time_exists(store, keys, rounds): nanoseconds a call. */
static PyObject *time_exists(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    PyObject *store;
    PyObject *keys;
    unsigned rounds;
    struct snow_client *client;
    struct snow_stat *items;
    double ns = 0;

    if (!PyArg_ParseTuple(args, "O!O!I", state->store, &store, &PyTuple_Type, &keys, &rounds))
        return NULL;
    items = PyMem_Calloc((size_t)PyTuple_Size(keys) + 1, sizeof(*items));
    if (items == NULL)
        return PyErr_NoMemory();
    client = fill_keys(keys, items, sizeof(*items)) ? store_enter((struct store *)store) : NULL;
    if (client != NULL) {
        double from_ns = now_ns();

        for (unsigned i = 0; i < rounds; i++)
            snow_exists(client, items, (size_t)PyTuple_Size(keys), NULL);
        ns = (now_ns() - from_ns) / rounds;
        store_leave((struct store *)store);
    }
    PyMem_Free(items);
    return client == NULL ? NULL : PyFloat_FromDouble(ns);
}

/* _time_get_into(store, keys, buffers, rounds): nanoseconds a call. */
static PyObject *time_get_into(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    PyObject *store;
    PyObject *keys;
    PyObject *to;
    unsigned rounds;
    struct buffers buffers;
    struct snow_client *client = NULL;
    struct snow_get *items;
    double ns = 0;
    bool good;

    if (!PyArg_ParseTuple(args, "O!O!O!I", state->store, &store, &PyTuple_Type, &keys,
                          &PyTuple_Type, &to, &rounds) ||
        !buffers_init(&buffers, state, PyTuple_Size(to)))
        return NULL;
    items = PyMem_Calloc((size_t)PyTuple_Size(keys) + 1, sizeof(*items));
    good = items != NULL && PyTuple_Size(to) == PyTuple_Size(keys) &&
           fill_keys(keys, items, sizeof(*items));
    for (Py_ssize_t i = 0; good && i < PyTuple_Size(to); i++)
        good = buffers_add(&buffers, PyTuple_GetItem(to, i), true, &items[i].to, &items[i].room,
                           &items[i].buffers, &items[i].buffer_count);
    client = good ? store_enter((struct store *)store) : NULL;
    if (client != NULL) {
        double from_ns = now_ns();

        for (unsigned i = 0; i < rounds; i++)
            snow_get(client, items, (size_t)PyTuple_Size(keys), NULL);
        ns = (now_ns() - from_ns) / rounds;
        store_leave((struct store *)store);
    }
    PyMem_Free(items);
    buffers_deinit(&buffers);
    if (client == NULL && PyErr_Occurred() == NULL)
        PyErr_SetString(PyExc_ValueError, "as many buffers as keys are wanted");
    return client == NULL ? NULL : PyFloat_FromDouble(ns);
}

PyMethodDef timing_methods[] = {
    {"_time_exists", time_exists, METH_VARARGS, NULL},
    {"_time_get_into", time_get_into, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
