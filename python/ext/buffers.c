/* The buffers of a call: what Python objects show of their memory. */
#include "ext.h"

bool buffers_init(struct buffers *buffers, struct state *state, Py_ssize_t capacity)
{
    size_t room = (size_t)capacity + 1;

    *buffers = (struct buffers){.state = state, .capacity = capacity};
    buffers->views = PyMem_Malloc(room * sizeof(*buffers->views));
    buffers->lists = PyMem_Malloc(room * sizeof(*buffers->lists));
    if (buffers->views != NULL && buffers->lists != NULL)
        return true;
    buffers_deinit(buffers);
    PyErr_NoMemory();
    return false;
}

void buffers_deinit(struct buffers *buffers)
{
    for (Py_ssize_t i = 0; i < buffers->count; i++)
        PyBuffer_Release(&buffers->views[i]);
    PyMem_Free(buffers->views);
    PyMem_Free(buffers->lists);
    *buffers = (struct buffers){0};
}

Py_ssize_t buffers_of(PyObject *item)
{
    return PyList_Check(item) ? PyList_Size(item) : PyTuple_Check(item) ? PyTuple_Size(item) : 1;
}

/* Something else that shows its memory as a buffer (tensors): python/snowskin/_buffers.py knows. */
static PyObject *find_buffer(struct state *state, PyObject *item)
{
    if (state->as_buffer == NULL) {
        PyObject *module = PyImport_ImportModule("snowskin._buffers");

        if (module == NULL)
            return NULL;
        state->as_buffer = PyObject_GetAttrString(module, "as_buffer");
        Py_DECREF(module);
        if (state->as_buffer == NULL)
            return NULL;
    }
    return PyObject_CallFunctionObjArgs(state->as_buffer, item, NULL);
}

/* A view of memory that is told as (address, size), which `item` keeps. */
static int view_of(PyObject *item, PyObject *told, Py_buffer *view)
{
    unsigned long long at;
    Py_ssize_t size;

    if (!PyArg_ParseTuple(told, "Kn", &at, &size))
        return -1;
    return PyBuffer_FillInfo(view, item, (void *)(uintptr_t)at, size, 0, PyBUF_WRITABLE);
}

static bool add_one(struct buffers *buffers, PyObject *item, bool writable, struct snow_buffer *to)
{
    Py_buffer *view = &buffers->views[buffers->count];
    PyObject *found = NULL;
    int failed;

    if (buffers->count == buffers->capacity) { /* a list grew while we looked at it */
        PyErr_SetString(PyExc_RuntimeError, "a list of buffers changed during the call");
        return false;
    }
    if (!PyObject_CheckBuffer(item)) {
        found = find_buffer(buffers->state, item);
        if (found == NULL)
            return false;
    }
    if (found != NULL && PyTuple_Check(found))
        failed = view_of(item, found, view);
    else
        failed = PyObject_GetBuffer(found != NULL ? found : item, view,
                                    writable ? PyBUF_WRITABLE : PyBUF_SIMPLE);
    Py_XDECREF(found); /* the view keeps it */
    if (failed != 0)
        return false;
    buffers->count++;
    *to = (struct snow_buffer){.at = view->buf, .size = (size_t)view->len};
    return true;
}

bool buffers_add(struct buffers *buffers, PyObject *item, bool writable, void **at, size_t *size,
                 const struct snow_buffer **list, size_t *list_count)
{
    bool several = PyList_Check(item) || PyTuple_Check(item);
    Py_ssize_t count = buffers_of(item);
    struct snow_buffer one;

    if (!several) {
        if (!add_one(buffers, item, writable, &one))
            return false;
        *at = one.at;
        *size = one.size;
        return true;
    }
    *list = &buffers->lists[buffers->list_count];
    *list_count = (size_t)count;
    *size = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *part = PyList_Check(item) ? PyList_GetItem(item, i) : PyTuple_GetItem(item, i);
        struct snow_buffer *to = &buffers->lists[buffers->list_count];

        if (part == NULL || !add_one(buffers, part, writable, to))
            return false;
        buffers->list_count++;
        *size += to->size;
    }
    return true;
}
