#include "args.h"

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

bool args_other_key(PyObject *value, struct snow_key *to)
{
    Py_ssize_t size;
    char *bytes;

    /* The exact type first: to look for a subclass costs a call. */
    if (!PyBytes_CheckExact(value) && PyUnicode_Check(value))
        return args_str_key(value, to);
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
