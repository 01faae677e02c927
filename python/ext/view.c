/* View: an object's bytes where they lie, by the buffer protocol, read only. */
#include "ext.h"

struct view {
    PyObject_HEAD struct state *state;
    struct snow_view view;
    Py_ssize_t exports; /* buffers that others have of it */
};

PyObject *view_make(struct state *state, struct snow_view *from)
{
    struct view *made = PyObject_New(struct view, state->view);

    if (made == NULL) {
        snow_view_end(from, 1);
        return NULL;
    }
    made->state = state;
    made->view = *from;
    made->exports = 0;
    return (PyObject *)made;
}

static void dealloc(PyObject *self)
{
    struct view *view = (struct view *)self;
    PyTypeObject *type = Py_TYPE(self);

    snow_view_end(&view->view, 1); /* with the lock: snow_close has it too, so never both */
    PyObject_Free(self);
    Py_DECREF(type);
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct view *view = (struct view *)self;

    if (view->view.handle == NULL) {
        PyErr_SetString(PyExc_ValueError, "the view was released");
        buffer->obj = NULL;
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, (void *)(uintptr_t)view->view.at,
                          (Py_ssize_t)view->view.size, 1, flags) < 0)
        return -1;
    view->exports++;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)buffer;
    ((struct view *)self)->exports--;
}

static PyObject *release(PyObject *self, PyObject *unused)
{
    struct view *view = (struct view *)self;

    (void)unused;
    if (view->exports > 0) {
        PyErr_SetString(PyExc_BufferError, "the view's memory is in use (a memoryview or array)");
        return NULL;
    }
    snow_view_end(&view->view, 1);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)args;
    return release(self, NULL);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)((struct view *)self)->view.size;
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct view *)self)->view.size);
}

static PyObject *get_copied(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct view *)self)->view.copied != 0);
}

static PyMethodDef methods[] = {
    {"release", release, METH_NOARGS,
     "release()\n--\n\nEnd the view; no memoryview or array of it may be left."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef members[] = {
    {"nbytes", get_nbytes, NULL, "Bytes of the object.", NULL},
    {"copied", get_copied, NULL,
     "True: the object lies on another host, or in parts, and was copied.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An object's bytes where they lie (buffer protocol, read only).\n\n"
                "They stay as they are until the view ends: by release(), the end of a `with`\n"
                "block, or when nothing refers to it. What is viewed is not evicted, so end views\n"
                "soon."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_sq_length, length},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "snowskin.View",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

PyTypeObject *view_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
