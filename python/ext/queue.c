/* Queue: calls without waiting, for event loops (snowskin.aio). */
#include "batch.h"
#include "move.h"

#define POLL_MAX 256

/* A call under way. */
struct submission {
    struct submission *prev;
    struct submission *next;
    const struct operation *operation;
    PyObject *token;
    struct batch batch;
};

struct queue {
    PyObject_HEAD struct store *store; /* it counts as a call in it: X2 */
    struct snow_queue *queue;          /* NULL: closed */
    struct submission *first;
};

static void submission_free(struct queue *queue, struct submission *submission)
{
    if (submission->prev != NULL)
        submission->prev->next = submission->next;
    else
        queue->first = submission->next;
    if (submission->next != NULL)
        submission->next->prev = submission->prev;
    batch_deinit(&submission->batch);
    Py_DECREF(submission->token);
    PyMem_Free(submission);
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"store", "depth", NULL};
    struct state *state = state_of_type(type);
    struct snow_queue_options options = {0};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *store = NULL;
    struct snow_client *client;
    struct queue *queue;
    enum snow_status status;

    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "O!|I", names, state->store,
                                                      &store, &options.depth))
        return NULL;
    client = store_enter((struct store *)store);
    if (client == NULL)
        return NULL;
    queue = (struct queue *)allocate(type, 0);
    status = queue == NULL ? SNOW_NO_MEMORY : snow_queue_create(client, &options, &queue->queue);
    if (status == SNOW_OK) {
        Py_INCREF(store);
        queue->store = (struct store *)store;
        return (PyObject *)queue;
    }
    store_leave((struct store *)store);
    Py_XDECREF((PyObject *)queue);
    return error_raise(state, status, snow_reason(), NULL);
}

static void end(struct queue *queue)
{
    if (queue->queue != NULL)
        snow_queue_destroy(queue->queue);
    queue->queue = NULL;
    while (queue->first != NULL) {
        queue->first->batch.drop = queue->first->operation->drop;
        submission_free(queue, queue->first);
    }
    if (queue->store == NULL)
        return;
    store_leave(queue->store);
    Py_CLEAR(queue->store);
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    end((struct queue *)self);
    release(self);
    Py_DECREF(type);
}

static PyObject *queue_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    end((struct queue *)self);
    Py_RETURN_NONE;
}

static PyObject *raise_closed(PyObject *self)
{
    return error_raise(state_of_type(Py_TYPE(self)), SNOW_CLOSED, "the queue is closed", NULL);
}

static PyObject *queue_fileno(PyObject *self, PyObject *unused)
{
    const struct queue *queue = (struct queue *)self;

    (void)unused;
    if (queue->queue == NULL)
        return raise_closed(self);
    return PyLong_FromLong(snow_queue_fd(queue->queue));
}

/* ---- submitting ----------------------------------------------------------------------------- */

/* The first argument is the token, the second tells whether there are many keys. */
static PyObject *submit(PyObject *self, const struct operation *operation,
                        const struct args_spec *spec, PyObject *const *args, Py_ssize_t count,
                        PyObject *names)
{
    struct queue *queue = (struct queue *)self;
    struct submission *made;
    enum snow_status status;

    if (queue->queue == NULL)
        return raise_closed(self);
    if (count < 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes a token, many, and what the store's call does",
                     spec->function);
        return NULL;
    }
    made = PyMem_Calloc(1, sizeof(*made));
    if (made == NULL)
        return PyErr_NoMemory();
    if (!operation_begin(operation, spec, args[1] == Py_True, (PyObject *)queue->store, args + 2,
                         count - 2, names, &made->batch)) {
        PyMem_Free(made);
        return NULL;
    }
    made->operation = operation;
    made->token = args[0];
    Py_INCREF(made->token);
    made->next = queue->first;
    if (made->next != NULL)
        made->next->prev = made;
    queue->first = made;
    status = operation->submit(&made->batch, queue->queue, (uint64_t)(uintptr_t)made);
    if (status == SNOW_OK)
        Py_RETURN_NONE;
    submission_free(queue, made);
    return error_raise(queue->store->state, status, snow_reason(), NULL);
}

static PyObject *submit_put(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {
        "submit_put", 2, 2, {"keys", "values", PUT_OPTIONS, NULL}};

    return submit(self, &operation_put, &spec, args, count, names);
}

static PyObject *submit_get(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {
        "submit_get", 1, 1, {"keys", "timeout", "unordered", NULL}};

    return submit(self, &operation_get, &spec, args, count, names);
}

static PyObject *submit_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    static const struct args_spec spec = {
        "submit_get_into", 2, 2, {"keys", "buffers", "timeout", "unordered", NULL}};

    return submit(self, &operation_get_into, &spec, args, count, names);
}

static PyObject *submit_exists(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    static const struct args_spec spec = {
        "submit_exists", 1, 1, {"keys", "timeout", "unordered", "touch", "lease", "group", NULL}};

    return submit(self, &operation_exists, &spec, args, count, names);
}

static PyObject *submit_remove(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    static const struct args_spec spec = {
        "submit_remove", 1, 1, {"keys", "timeout", "force", "group", NULL}};

    return submit(self, &operation_remove, &spec, args, count, names);
}

/* ---- polling -------------------------------------------------------------------------------- */

static int add(struct queue *queue, PyObject *to, const struct snow_completion *completion)
{
    struct submission *submission = (struct submission *)(uintptr_t)completion->tag;
    PyObject *result =
        submission->operation->result(&submission->batch, (Py_ssize_t)completion->index);
    PyObject *row = result == NULL ? NULL
                                   : Py_BuildValue("(OKNO)", submission->token,
                                                   (unsigned long long)completion->index, result,
                                                   completion->last ? Py_True : Py_False);
    int failed = row == NULL ? -1 : PyList_Append(to, row);

    Py_XDECREF(row);
    if (completion->last) {
        submission->batch.drop = submission->operation->drop;
        submission_free(queue, submission);
    }
    return failed;
}

static PyObject *queue_poll(PyObject *self, PyObject *unused)
{
    struct queue *queue = (struct queue *)self;
    struct snow_completion completions[POLL_MAX];
    PyObject *rows = PyList_New(0);
    size_t count = 0;

    (void)unused;
    if (queue->queue == NULL) {
        Py_XDECREF(rows);
        return raise_closed(self);
    }
    if (rows == NULL || snow_queue_poll(queue->queue, completions, POLL_MAX, 0, &count) != SNOW_OK)
        return rows;
    for (size_t i = 0; i < count; i++) {
        if (add(queue, rows, &completions[i]) < 0) {
            Py_DECREF(rows);
            return NULL;
        }
    }
    return rows;
}

static PyMethodDef methods[] = {
    {"fileno", queue_fileno, METH_NOARGS,
     "fileno()\n--\n\nReadable when poll() has something to do."},
    {"poll", queue_poll, METH_NOARGS,
     "poll()\n--\n\nWork a moment; (token, index, result, last) of items that have ended."},
    {"submit_put", FAST(submit_put), "submit_put(token, many, key, value, ...)"},
    {"submit_get", FAST(submit_get), "submit_get(token, many, key, ...)"},
    {"submit_get_into", FAST(submit_get_into), "submit_get_into(token, many, key, buffer, ...)"},
    {"submit_exists", FAST(submit_exists), "submit_exists(token, many, key, ...)"},
    {"submit_remove", FAST(submit_remove), "submit_remove(token, many, key, ...)"},
    {"close", queue_close, METH_NOARGS, "close()\n--\n\nCancel what is under way, and end."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Queue(store, depth=0)\n--\n\n"
                "Calls of a store without waiting for them; used by snowskin.aio."},
    {Py_tp_new, queue_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "snowskin.Queue",
    .basicsize = sizeof(struct queue),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyTypeObject *queue_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
