/* Registered memory: buffers that stay exported until they are unregistered, or the store ends. */
#include "ext.h"

struct registered {
    struct registered *next;
    struct buffers buffers; /* one */
    void *at;
    size_t size;
};

static void release(struct registered *made)
{
    buffers_deinit(&made->buffers);
    PyMem_Free(made);
}

void memory_release_all(struct store *store)
{
    while (store->registered != NULL) {
        struct registered *made = store->registered;

        store->registered = made->next;
        release(made);
    }
}

/* NULL: with an exception. */
static struct registered *take(struct store *store, PyObject *buffer)
{
    struct registered *made;
    const struct snow_buffer *list = NULL;
    size_t count = 0;

    if (PyList_Check(buffer) || PyTuple_Check(buffer)) {
        PyErr_SetString(PyExc_TypeError, "one buffer is wanted, not a list of them");
        return NULL;
    }
    made = PyMem_Calloc(1, sizeof(*made));
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (!buffers_init(&made->buffers, store->state, 1)) {
        PyMem_Free(made);
        return NULL;
    }
    if (!buffers_add(&made->buffers, buffer, false, &made->at, &made->size, &list, &count)) {
        release(made);
        return NULL;
    }
    return made;
}

PyObject *store_register(PyObject *self, PyObject *buffer)
{
    struct store *store = (struct store *)self;
    struct registered *made = take(store, buffer);
    struct snow_client *client = made == NULL ? NULL : store_enter(store);
    enum snow_status status;

    if (client == NULL) {
        if (made != NULL)
            release(made);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = snow_register(client, made->at, made->size);
    Py_END_ALLOW_THREADS;
    if (status == SNOW_OK) {
        made->next = store->registered;
        store->registered = made;
    } else {
        error_raise(store->state, status, snow_reason(), NULL);
        release(made);
    }
    store_leave(store);
    if (status != SNOW_OK)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *store_unregister(PyObject *self, PyObject *buffer)
{
    struct store *store = (struct store *)self;
    struct registered *named = take(store, buffer);
    struct snow_client *client = named == NULL ? NULL : store_enter(store);
    enum snow_status status;

    if (client == NULL) {
        if (named != NULL)
            release(named);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = snow_unregister(client, named->at, NULL);
    Py_END_ALLOW_THREADS;
    for (struct registered **link = &store->registered; status == SNOW_OK && *link != NULL;
         link = &(*link)->next) {
        struct registered *made = *link;

        if (made->at != named->at)
            continue;
        *link = made->next;
        release(made);
        break;
    }
    if (status != SNOW_OK)
        error_raise(store->state, status, snow_reason(), NULL);
    release(named);
    store_leave(store);
    if (status != SNOW_OK)
        return NULL;
    Py_RETURN_NONE;
}
