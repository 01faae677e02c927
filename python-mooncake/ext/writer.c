/* Writer: an object that is written in ranges by several calls (put sessions). */
#include "core.h"

#define HOLD_MS 600000 /* the longest that a grant lasts */

struct writer {
    PyObject_HEAD struct link *link;
    struct snow_writer *writer; /* NULL: ended */
    Py_ssize_t calls;           /* in it now */
};

static int open_code(enum snow_status status)
{
    return status == SNOW_EXISTS ? CODE_EXISTS : code_of(status, KIND_PUT);
}

/* _writer(key, size, config, index, count): a Writer, or a code.  The key is the index-th of count
 * that the configuration is for. */
PyObject *store_writer(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "_writer", 5, 5, {"key", "size", "config", "index", "count", NULL}};
    struct store *store = (struct store *)self;
    PyObject *values[ARGS_MAX];
    struct put_options options;
    struct snow_put item = {.size = 0};
    struct snow_writer *opened = NULL;
    enum snow_status status;
    uint64_t size = 0;
    uint64_t index = 0;
    uint64_t keys = 0;
    struct link *link;
    struct writer *made;
    int taken;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key) ||
        !take_uint64(values[1], "size", &size) || !take_uint64(values[3], "index", &index) ||
        !take_uint64(values[4], "count", &keys) ||
        (taken = put_options_take(values[2], (Py_ssize_t)keys, &options)) < 0)
        return NULL;
    link = taken == 1 && index < keys ? link_take(store) : NULL;
    if (link == NULL) {
        put_options_drop(&options);
        return PyLong_FromLong(CODE_INVALID);
    }
    struct snow_call call = link_call(link, 0);

    item.size = size;
    put_options_set(&options, (Py_ssize_t)index, &item);
    call.segment = options.segment;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_writer_open(link->client, &item, HOLD_MS, &call, &opened);
    Py_END_ALLOW_THREADS;
    put_options_drop(&options);
    made = opened == NULL ? NULL : PyObject_New(struct writer, store->state->writer);
    if (made == NULL) {
        if (opened != NULL)
            snow_writer_close(opened);
        if (status == SNOW_UNREACHABLE)
            (void)link_doubt(link);
        link_drop(link);
        return opened != NULL ? NULL : PyLong_FromLong(open_code(status));
    }
    made->link = link;
    made->writer = opened;
    made->calls = 0;
    return (PyObject *)made;
}

static void end(struct writer *writer)
{
    struct snow_writer *opened = writer->writer;

    writer->writer = NULL;
    if (opened == NULL)
        return;
    Py_BEGIN_ALLOW_THREADS;
    snow_writer_close(opened);
    Py_END_ALLOW_THREADS;
}

static void dealloc(PyObject *self)
{
    struct writer *writer = (struct writer *)self;
    PyTypeObject *type = Py_TYPE(self);

    end(writer);
    link_drop(writer->link);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* write(pointers, sizes, offsets): bytes written, or a code. */
static PyObject *writer_write(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    static const struct args_spec spec = {"write", 3, 3, {"pointers", "sizes", "offsets", NULL}};
    struct writer *writer = (struct writer *)self;
    PyObject *values[ARGS_MAX];
    struct lists lists;
    struct memory memory;
    struct snow_write *items = NULL;
    enum snow_status status = SNOW_INVALID;
    uint64_t bytes = 0;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) || !lists_take(&lists, values, spec.names, 3))
        return NULL;
    items = memory_take(&memory, (size_t)(lists.length + 1) * sizeof(*items));
    for (Py_ssize_t i = 0; i < lists.length && items != NULL && good && lists.equal; i++) {
        uint64_t at = 0;
        uint64_t size = 0;

        good = take_uint64(PyTuple_GetItem(lists.of[0], i), "pointers", &at) &&
               take_uint64(PyTuple_GetItem(lists.of[1], i), "sizes", &size) &&
               take_uint64(PyTuple_GetItem(lists.of[2], i), "offsets", &items[i].offset);
        items[i].from = (const void *)(uintptr_t)at;
        items[i].size = size;
        bytes += size;
    }
    if (items != NULL && good && lists.equal && writer->writer != NULL) {
        struct snow_call call = link_call(writer->link, bytes);

        writer->calls++;
        Py_BEGIN_ALLOW_THREADS;
        status = snow_writer_write(writer->writer, items, (size_t)lists.length, &call);
        Py_END_ALLOW_THREADS;
        writer->calls--;
    }
    if (items != NULL)
        memory_drop(&memory);
    lists_drop(&lists);
    if (items == NULL || !good)
        return NULL;
    if (status == SNOW_OK)
        return PyLong_FromUnsignedLongLong(bytes);
    return PyLong_FromLong(code_of(status, KIND_PUT));
}

/* commit(): a code.  0: it is there, and the writer has ended. */
static PyObject *writer_commit(PyObject *self, PyObject *unused)
{
    struct writer *writer = (struct writer *)self;
    enum snow_status status = SNOW_INVALID;

    (void)unused;
    if (writer->writer != NULL && writer->calls == 0) {
        struct snow_call call = link_call(writer->link, 0);

        writer->calls++;
        Py_BEGIN_ALLOW_THREADS;
        status = snow_writer_commit(writer->writer, NULL, &call);
        Py_END_ALLOW_THREADS;
        writer->calls--;
        if (snow_status_verdict(status) == SNOW_DONE)
            end(writer);
    }
    return PyLong_FromLong(code_of(status, KIND_PUT));
}

/* abort(): True; False: a call is in it. */
static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
    struct writer *writer = (struct writer *)self;

    (void)unused;
    if (writer->calls > 0)
        Py_RETURN_FALSE;
    end(writer);
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"write", FAST(writer_write), NULL},
    {"commit", writer_commit, METH_NOARGS, NULL},
    {"abort", writer_abort, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "mooncake._core.Writer",
    .basicsize = sizeof(struct writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

PyTypeObject *writer_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
