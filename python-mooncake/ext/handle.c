/* BufferHandle: a copy of an object that is the caller's, by the buffer protocol, writable. */
#include "core.h"

struct handle {
    PyObject_HEAD void *at;
    size_t size;
};

PyObject *handle_make(struct state *state, void *at, size_t size)
{
    struct handle *made = PyObject_New(struct handle, state->handle);

    if (made == NULL) {
        snow_free(at);
        return NULL;
    }
    made->at = at;
    made->size = size;
    return (PyObject *)made;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    snow_free(((struct handle *)self)->at);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    static char format[] = "b";
    struct handle *handle = (struct handle *)self;

    if (PyBuffer_FillInfo(buffer, self, handle->at, (Py_ssize_t)handle->size, 0, flags) < 0)
        return -1;
    if (buffer->format != NULL)
        buffer->format = format;
    return 0;
}

static PyObject *get_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct handle *)self)->at);
}

static PyObject *get_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct handle *)self)->size);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)((struct handle *)self)->size;
}

static PyMethodDef methods[] = {
    {"ptr", get_ptr, METH_NOARGS, "ptr()\n--\n\nWhere its bytes begin."},
    {"size", get_size, METH_NOARGS, "size()\n--\n\nHow many there are."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A copy of an object's bytes (buffer protocol, writable, one dimension)."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_sq_length, length},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "mooncake.store.BufferHandle",
    .basicsize = sizeof(struct handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

PyTypeObject *handle_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
