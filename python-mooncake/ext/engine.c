/* Engine: the transfer engine as an object of Python; mooncake/engine.py makes TransferEngine of
 * it. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct engine *engine_create(uint32_t timeout_ms, bool any_memory, bool near)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->devices = device_open();
    if (engine->devices == NULL) {
        free(engine);
        return NULL;
    }
    engine->timeout_ms = timeout_ms;
    engine->any_memory = any_memory;
    engine->near = near && getrandom(engine->nonce, sizeof(engine->nonce), 0) ==
                               (ssize_t)sizeof(engine->nonce);
    engine->listener = -1;
    engine->notices_end = &engine->notices;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->changed, NULL);
    return engine;
}

void engine_destroy(struct engine *engine)
{
    engine_jobs_stop(engine);
    engine_serve_stop(engine);
    engine_ask_stop(engine);
    while (engine->notices != NULL) {
        struct engine_notice *notice = engine->notices;

        engine->notices = notice->next;
        free(notice);
    }
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
    device_close(engine->devices);
    free(engine->regions);
    free(engine);
}

struct object {
    PyObject_HEAD struct engine *engine;
};

static struct engine *engine_of(PyObject *self)
{
    return ((struct object *)self)->engine;
}

static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout_ms", "any_memory", "near", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    unsigned int timeout_ms = 0;
    int any_memory = 0;
    int near = 1;
    struct object *made;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "I|pp", names, &timeout_ms, &any_memory,
                                     &near))
        return NULL;
    made = (struct object *)allocate(type, 0);
    if (made == NULL)
        return NULL;
    made->engine = engine_create(timeout_ms, any_memory != 0, near != 0);
    if (made->engine != NULL)
        return (PyObject *)made;
    Py_DECREF(made);
    return PyErr_NoMemory();
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    struct engine *engine = engine_of(self);

    if (engine != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        engine_destroy(engine);
        Py_END_ALLOW_THREADS;
    }
    release(self);
    Py_DECREF(type);
}

/* listen(address, port): 0, or -1. */
static PyObject *object_listen(PyObject *self, PyObject *args)
{
    struct engine *engine = engine_of(self);
    const char *address;
    unsigned int port;

    if (!PyArg_ParseTuple(args, "sI", &address, &port))
        return NULL;
    if (engine->listener >= 0 || port == 0 || port > UINT16_MAX)
        return PyLong_FromLong(-1);
    return PyLong_FromLong(engine_listen(engine, address, (uint16_t)port));
}

/* moved(): bytes that this engine asked for, (by the kernel, over sockets). */
static PyObject *object_moved(PyObject *self, PyObject *unused)
{
    struct engine *engine = engine_of(self);

    (void)unused;
    return Py_BuildValue("KK", atomic_load(&engine->near_bytes), atomic_load(&engine->far_bytes));
}

/* register(at, size): 0, -1, -7. */
static PyObject *object_register(PyObject *self, PyObject *args)
{
    PyObject *values[2];
    uint64_t at = 0;
    uint64_t size = 0;

    if (!PyArg_ParseTuple(args, "OO", &values[0], &values[1]) ||
        !take_uint64(values[0], "buffer_addr", &at) || !take_uint64(values[1], "capacity", &size))
        return NULL;
    return PyLong_FromLong(engine_register(engine_of(self), at, size));
}

/* unregister(at): 0, -1. */
static PyObject *object_unregister(PyObject *self, PyObject *value)
{
    struct engine *engine = engine_of(self);
    uint64_t at = 0;
    int result;

    if (!take_uint64(value, "addr", &at))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    result = engine_unregister(engine, at);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(result);
}

/* ---- transfers ------------------------------------------------------------------------------ */

/* A transfer that is asked for. */
struct wanted {
    enum engine_kind kind;
    const char *target;
    struct engine_range *own;
    struct engine_range *others;
    size_t count;
};

static void wanted_drop(struct wanted *wanted)
{
    free(wanted->own);
    free(wanted->others);
}

static bool fill(struct wanted *wanted, const struct lists *lists)
{
    wanted->count = (size_t)lists->length;
    wanted->own = calloc(wanted->count + 1, sizeof(*wanted->own));
    wanted->others = calloc(wanted->count + 1, sizeof(*wanted->others));
    if (wanted->own == NULL || wanted->others == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < lists->length; i++) {
        uint64_t size = 0;

        if (!take_uint64(PyTuple_GetItem(lists->of[0], i), "buffers", &wanted->own[i].at) ||
            !take_uint64(PyTuple_GetItem(lists->of[1], i), "peer_buffer_addresses",
                         &wanted->others[i].at) ||
            !take_uint64(PyTuple_GetItem(lists->of[2], i), "lengths", &size))
            return false;
        wanted->own[i].size = wanted->others[i].size = size;
    }
    return true;
}

/* (kind, target, buffers, peers, lengths).  1; 0: lists of different lengths; -1 with an
 * exception. */
static int take(PyObject *args, struct wanted *wanted)
{
    static const char *const names[] = {"buffers", "peer_buffer_addresses", "lengths"};
    PyObject *values[3];
    struct lists lists;
    int kind;
    bool good;

    *wanted = (struct wanted){.own = NULL};
    if (!PyArg_ParseTuple(args, "isOOO", &kind, &wanted->target, &values[0], &values[1],
                          &values[2]) ||
        !lists_take(&lists, values, names, 3))
        return -1;
    wanted->kind = kind == ENGINE_READ ? ENGINE_READ : ENGINE_WRITE;
    good = !lists.equal || fill(wanted, &lists);
    lists_drop(&lists);
    if (good)
        return lists.equal;
    wanted_drop(wanted);
    return -1;
}

static PyObject *object_transfer(PyObject *self, PyObject *args)
{
    struct engine *engine = engine_of(self);
    struct wanted wanted;
    int taken = take(args, &wanted);
    int result = -1;

    if (taken < 0)
        return NULL;
    if (taken == 1) {
        Py_BEGIN_ALLOW_THREADS;
        result = engine_transfer(engine, wanted.kind, wanted.target, wanted.own, wanted.others,
                                 wanted.count);
        Py_END_ALLOW_THREADS;
    }
    wanted_drop(&wanted);
    return PyLong_FromLong(result == 0 ? 0 : -1);
}

static PyObject *object_submit(PyObject *self, PyObject *args)
{
    struct wanted wanted;
    int taken = take(args, &wanted);

    if (taken < 0)
        return NULL;
    if (taken == 0)
        return PyLong_FromLong(0);
    return PyLong_FromUnsignedLongLong(engine_submit(engine_of(self), wanted.kind, wanted.target,
                                                     wanted.own, wanted.others, wanted.count));
}

/* check(id, wait): 1, 0, -1, -2. */
static PyObject *object_check(PyObject *self, PyObject *args)
{
    struct engine *engine = engine_of(self);
    PyObject *value;
    uint64_t id = 0;
    int wait;
    int result;

    if (!PyArg_ParseTuple(args, "Op", &value, &wait) || !take_uint64(value, "id", &id))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    result = engine_check(engine, id, wait != 0);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(result);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* probe(target): (0 or -102, where its first region begins or 0). */
static PyObject *object_probe(PyObject *self, PyObject *args)
{
    struct engine *engine = engine_of(self);
    const char *target;
    uint64_t first = 0;
    int result;

    if (!PyArg_ParseTuple(args, "s", &target))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    result = engine_probe(engine, target, &first);
    Py_END_ALLOW_THREADS;
    return Py_BuildValue("(iK)", result, (unsigned long long)first);
}

/* notify(target, name, message): 0, -1. */
static PyObject *object_notify(PyObject *self, PyObject *args)
{
    struct engine *engine = engine_of(self);
    const char *target;
    const char *name;
    const char *message;
    Py_ssize_t name_size;
    Py_ssize_t size;
    int result;

    if (!PyArg_ParseTuple(args, "ss#s#", &target, &name, &name_size, &message, &size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    result = engine_notify(engine, target, name, (size_t)name_size, message, (size_t)size);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(result);
}

/* notices(): [(name, message)], bytes, that came since. */
static PyObject *object_notices(PyObject *self, PyObject *unused)
{
    struct engine *engine = engine_of(self);
    PyObject *list = PyList_New(0);
    struct engine_notice *notice;

    (void)unused;
    pthread_mutex_lock(&engine->mutex);
    notice = engine->notices;
    engine->notices = NULL;
    engine->notices_end = &engine->notices;
    engine->notice_count = 0;
    pthread_mutex_unlock(&engine->mutex);
    while (notice != NULL) {
        struct engine_notice *next = notice->next;
        PyObject *row = list == NULL
                            ? NULL
                            : Py_BuildValue("(y#y#)", notice->bytes, (Py_ssize_t)notice->name_size,
                                            notice->bytes + notice->name_size,
                                            (Py_ssize_t)(notice->size - notice->name_size));

        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
        free(notice);
        notice = next;
    }
    return list;
}

static PyObject *object_port(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(engine_of(self)->port);
}

static PyMethodDef methods[] = {
    {"listen", object_listen, METH_VARARGS, NULL},
    {"port", object_port, METH_NOARGS, NULL},
    {"moved", object_moved, METH_NOARGS, NULL},
    {"register", object_register, METH_VARARGS, NULL},
    {"unregister", object_unregister, METH_O, NULL},
    {"transfer", object_transfer, METH_VARARGS, NULL},
    {"submit", object_submit, METH_VARARGS, NULL},
    {"check", object_check, METH_VARARGS, NULL},
    {"probe", object_probe, METH_VARARGS, NULL},
    {"notify", object_notify, METH_VARARGS, NULL},
    {"notices", object_notices, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, object_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "mooncake._core.Engine",
    .basicsize = sizeof(struct object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyTypeObject *engine_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
