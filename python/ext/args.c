#include "ext.h"

#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------ */

static int index_of(const struct args_spec *spec, PyObject *name)
{
    for (int i = 0; spec->names[i] != NULL; i++) {
        if (PyUnicode_CompareWithASCIIString(name, spec->names[i]) == 0)
            return i;
    }
    return -1;
}

static bool take_named(const struct args_spec *spec, PyObject *const *args, PyObject *names,
                       PyObject **values)
{
    Py_ssize_t count = names == NULL ? 0 : PyTuple_Size(names);

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int index = index_of(spec, name);

        if (index < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                         spec->function, name);
            return false;
        }
        if (values[index] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument %R",
                         spec->function, name);
            return false;
        }
        values[index] = args[i];
    }
    return true;
}

bool args_take(const struct args_spec *spec, PyObject *const *args, Py_ssize_t count,
               PyObject *names, PyObject **values)
{
    if (count > spec->keywords) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)",
                     spec->function, spec->keywords, count);
        return false;
    }
    memset(values, 0, ARGS_MAX * sizeof(*values));
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = args[i];
    if (names != NULL && !take_named(spec, args + count, names, values))
        return false;
    for (int i = 0; i < spec->required; i++) {
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", spec->function,
                         spec->names[i]);
            return false;
        }
    }
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

bool args_is_given(PyObject *value)
{
    return value != NULL && value != Py_None;
}

bool args_uint64(PyObject *value, const char *name, uint64_t *to)
{
    unsigned long long number;

    if (!args_is_given(value))
        return true;
    number = PyLong_AsUnsignedLongLong(value);
    if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_ValueError, "%s: %R is out of range", name, value);
        return false;
    }
    *to = number;
    return true;
}

bool args_uint32(PyObject *value, const char *name, uint32_t *to)
{
    uint64_t number = *to;

    if (!args_uint64(value, name, &number))
        return false;
    if (number > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %R is out of range", name, value);
        return false;
    }
    *to = (uint32_t)number;
    return true;
}

bool args_flag(PyObject *value, uint32_t flag, uint32_t *to)
{
    int is_true = args_is_given(value) ? PyObject_IsTrue(value) : 0;

    if (is_true < 0)
        return false;
    if (is_true)
        *to |= flag;
    return true;
}

bool args_seconds(PyObject *value, const char *name, uint32_t *to_ms)
{
    double seconds;

    if (!args_is_given(value))
        return true;
    seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred() != NULL)
        return false;
    if (!(seconds > 0) || seconds > 4294967.0) {
        PyErr_Format(PyExc_ValueError, "%s: %R is not a time in seconds above 0", name, value);
        return false;
    }
    *to_ms = (uint32_t)(seconds * 1000.0 + 0.999999);
    return true;
}

bool args_text(PyObject *value, const char *name, const char **to)
{
    Py_ssize_t size;

    if (!args_is_given(value))
        return true;
    *to = PyUnicode_AsUTF8AndSize(value, &size);
    if (*to == NULL)
        return false;
    if (strlen(*to) == (size_t)size)
        return true;
    PyErr_Format(PyExc_ValueError, "%s: a null character", name);
    return false;
}

bool args_choice(PyObject *value, const char *name, const char *const *choices, uint32_t *to)
{
    const char *text = NULL;

    if (!args_text(value, name, &text))
        return false;
    if (text == NULL)
        return true;
    for (uint32_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *to = i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "%s: %R is none of its choices", name, value);
    return false;
}

bool args_key(PyObject *value, struct snow_key *to)
{
    Py_ssize_t size;
    char *bytes;

    /* The exact types first: to look for a subclass costs a call. */
    if (PyUnicode_CheckExact(value) || (!PyBytes_CheckExact(value) && PyUnicode_Check(value))) {
        to->at = PyUnicode_AsUTF8AndSize(value, &size);
        to->size = (size_t)size;
        return to->at != NULL;
    }
    if (!PyBytes_CheckExact(value) && !PyBytes_Check(value)) {
        PyErr_Format(PyExc_TypeError, "a key is str or bytes, not %R", Py_TYPE(value));
        return false;
    }
    if (PyBytes_AsStringAndSize(value, &bytes, &size) < 0)
        return false;
    to->at = bytes;
    to->size = (size_t)size;
    return true;
}

PyObject *args_items(PyObject *value, const char *name)
{
    PyObject *items;

    if (PyList_CheckExact(value))
        return PyList_AsTuple(value);
    if (PyUnicode_Check(value) || PyBytes_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: a sequence is wanted, not a single %R", name,
                     Py_TYPE(value));
        return NULL;
    }
    items = PySequence_Tuple(value);
    if (items == NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s: a sequence is wanted, not %R", name, Py_TYPE(value));
    return items;
}

/* ---- buffers -------------------------------------------------------------------------------- */

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
        item = found;
    }
    failed = PyObject_GetBuffer(item, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE);
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
