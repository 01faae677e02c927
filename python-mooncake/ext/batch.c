/* What the calls share: numbers, lists, memory. */
#include "core.h"

#include <string.h>

bool take_uint64(PyObject *value, const char *name, uint64_t *to)
{
    unsigned long long number;
    PyObject *index;

    if (PyLong_CheckExact(value)) {
        number = PyLong_AsUnsignedLongLong(value);
    } else {
        index = PyNumber_Index(value); /* neither a float nor None has one */
        if (index == NULL)
            return false;
        number = PyLong_AsUnsignedLongLong(index);
        Py_DECREF(index);
    }
    if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "incompatible function arguments: %s: %R is no unsigned number of 64 bits",
                     name, value);
        return false;
    }
    *to = number;
    return true;
}

bool lists_take(struct lists *lists, PyObject *const *values, const char *const *names, int count)
{
    *lists = (struct lists){.equal = true};
    for (int i = 0; i < count; i++) {
        lists->of[i] = args_items(values[i], names[i]);
        if (lists->of[i] == NULL) {
            lists_drop(lists);
            return false;
        }
        lists->count = i + 1;
        if (PyTuple_Size(lists->of[i]) != PyTuple_Size(lists->of[0]))
            lists->equal = false;
    }
    lists->length = PyTuple_Size(lists->of[0]);
    return true;
}

void lists_drop(struct lists *lists)
{
    for (int i = 0; i < lists->count; i++)
        Py_DECREF(lists->of[i]);
    lists->count = 0;
}

void *memory_take(struct memory *memory, size_t size)
{
    if (size <= FEW_BYTES)
        return memory->at = memset(memory->few, 0, size);
    memory->at = PyMem_Calloc(1, size);
    if (memory->at == NULL)
        PyErr_NoMemory();
    return memory->at;
}

void memory_drop(struct memory *memory)
{
    if (memory->at != memory->few)
        PyMem_Free(memory->at);
    memory->at = NULL;
}

/* ---- pieces --------------------------------------------------------------------------------- */

bool pieces_take(struct pieces *pieces, PyObject *pointers, PyObject *sizes)
{
    Py_ssize_t count = PyTuple_Size(pointers);

    *pieces = (struct pieces){.pointers = pointers, .sizes = sizes};
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t length = PySequence_Size(PyTuple_GetItem(pointers, i));

        if (length < 0)
            return false;
        pieces->room += (size_t)length;
    }
    pieces->at = PyMem_Malloc((pieces->room + 1) * sizeof(*pieces->at));
    if (pieces->at == NULL)
        PyErr_NoMemory();
    return pieces->at != NULL;
}

void pieces_drop(struct pieces *pieces)
{
    PyMem_Free(pieces->at);
    pieces->at = NULL;
}

/* As pieces_next; the lists are tuples now. */
static int fill(struct pieces *pieces, const struct lists *lists, size_t *size)
{
    struct snow_buffer *to = pieces->at + pieces->count;
    int good = 1;

    if (!lists->equal || (size_t)lists->length > pieces->room - pieces->count)
        return 0; /* or they grew meanwhile */
    *size = 0;
    for (Py_ssize_t i = 0; i < lists->length; i++) {
        uint64_t at = 0;
        uint64_t bytes = 0;

        if (!take_uint64(PyTuple_GetItem(lists->of[0], i), "all_buffer_ptrs", &at) ||
            !take_uint64(PyTuple_GetItem(lists->of[1], i), "all_sizes", &bytes))
            return -1;
        to[i] = (struct snow_buffer){.at = (void *)(uintptr_t)at, .size = bytes};
        if ((at == 0 && bytes > 0) || bytes > SIZE_MAX - *size)
            good = 0;
        *size += bytes;
    }
    return good;
}

int pieces_next(struct pieces *pieces, Py_ssize_t index, const struct snow_buffer **buffers,
                size_t *buffer_count, size_t *size)
{
    static const char *const names[] = {"all_buffer_ptrs", "all_sizes"};
    PyObject *values[] = {PyTuple_GetItem(pieces->pointers, index),
                          PyTuple_GetItem(pieces->sizes, index)};
    struct lists lists;
    int good;

    if (!lists_take(&lists, values, names, 2))
        return -1;
    good = fill(pieces, &lists, size);
    *buffers = pieces->at + pieces->count;
    *buffer_count = (size_t)lists.length;
    if (good == 1)
        pieces->count += (size_t)lists.length;
    lists_drop(&lists);
    return good;
}

/* ---- results -------------------------------------------------------------------------------- */

PyObject *list_of(const int64_t *values, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);

    for (Py_ssize_t i = 0; i < count && list != NULL; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);

        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *list_of_same(int64_t value, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);

    for (Py_ssize_t i = 0; i < count && list != NULL; i++) {
        PyObject *number = PyLong_FromLongLong(value);

        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}
