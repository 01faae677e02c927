/* Gets: into new memory, into pointers, into pieces, of ranges. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define HELD_BYTES ((size_t)64 << 10) /* larger results are copied without the interpreter lock */

/* Gets items and sets what each came to: its size, or a code.  bytes: as much as may move. */
static void get_items(struct link *link, struct snow_get *items, int64_t *results, Py_ssize_t count,
                      uint64_t bytes)
{
    struct snow_call call = link_call(link, bytes);
    bool unreachable = false;
    bool lost;

    Py_BEGIN_ALLOW_THREADS;
    (void)snow_get(link->client, items, (size_t)count, &call);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++) {
        enum snow_status status = items[i].status;

        results[i] = status == SNOW_OK ? (int64_t)items[i].size : code_of(status, KIND_GET);
        if (status == SNOW_OK) {
            link->read_bytes += items[i].size;
            link->read_count++;
        }
        unreachable = unreachable || status == SNOW_UNREACHABLE || status == SNOW_TIMEOUT;
    }
    if (!unreachable)
        return;
    lost = link_doubt(link);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (items[i].status == SNOW_UNREACHABLE)
            results[i] = lost ? CODE_NO_MASTER : CODE_NO_REPLICA;
        else if (items[i].status == SNOW_TIMEOUT && !lost)
            results[i] = CODE_NO_REPLICA;
    }
}

/* A batch of gets. */
struct gets {
    struct lists lists;
    struct memory memory;
    struct snow_get *items;
    int64_t *results;
    struct link *link;
};

/* False with an exception; else gets_drop ends it. */
static bool gets_take(struct gets *gets, PyObject *self, PyObject *const *values,
                      const char *const *names, int lists)
{
    size_t count;

    if (!lists_take(&gets->lists, values, names, lists))
        return false;
    count = (size_t)gets->lists.length;
    gets->items =
        memory_take(&gets->memory, (count + 1) * (sizeof(*gets->items) + sizeof(int64_t)));
    for (size_t i = 0; i < count && gets->items != NULL; i++) {
        if (!args_key(PyTuple_GetItem(gets->lists.of[0], (Py_ssize_t)i), &gets->items[i].key)) {
            memory_drop(&gets->memory);
            gets->items = NULL;
        }
    }
    if (gets->items == NULL) {
        lists_drop(&gets->lists);
        return false;
    }
    gets->results = (int64_t *)(gets->items + count + 1);
    gets->link = link_take((struct store *)self);
    return true;
}

static void gets_drop(struct gets *gets)
{
    if (gets->link != NULL)
        link_drop(gets->link);
    memory_drop(&gets->memory);
    lists_drop(&gets->lists);
}

/* ---- into new memory ------------------------------------------------------------------------ */

/* What get and get_buffer make of an item; takes its memory.  NULL with an exception. */
typedef PyObject *make_value(struct store *store, void *at, size_t size);

static PyObject *make_bytes(struct store *store, void *at, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *to = bytes == NULL ? NULL : PyBytes_AsString(bytes);

    (void)store;
    if (to != NULL && size > HELD_BYTES) { /* nobody else knows of it yet */
        Py_BEGIN_ALLOW_THREADS;
        memcpy(to, at, size);
        snow_free(at);
        Py_END_ALLOW_THREADS;
        return bytes;
    }
    if (to != NULL && size > 0)
        memcpy(to, at, size);
    snow_free(at);
    return bytes;
}

static PyObject *make_handle(struct store *store, void *at, size_t size)
{
    return handle_make(store->state, at, size);
}

static PyObject *make_nothing(make_value *make)
{
    if (make == make_bytes)
        return PyBytes_FromStringAndSize("", 0);
    Py_RETURN_NONE;
}

/* What one item came to.  Objects above the local buffer are refused, as puts of them are. */
static PyObject *take_value(struct store *store, const struct link *link, struct snow_get *item,
                            make_value *make)
{
    void *at = item->to;

    item->to = NULL;
    if (item->status != SNOW_OK)
        return make_nothing(make);
    if (item->size <= link->local_bytes)
        return make(store, at, item->size);
    snow_free(at);
    return make_nothing(make);
}

static PyObject *get_one(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names,
                         const char *function, make_value *make)
{
    const struct args_spec spec = {function, 1, 1, {"key", NULL}};
    PyObject *values[ARGS_MAX];
    struct snow_get item = {.to = NULL};
    struct link *link;
    PyObject *made;
    int64_t result;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key))
        return NULL;
    link = link_take((struct store *)self);
    if (link == NULL)
        return make_nothing(make);
    get_items(link, &item, &result, 1, link->local_bytes);
    made = take_value((struct store *)self, link, &item, make);
    link_drop(link);
    return made;
}

PyObject *store_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return get_one(self, args, count, names, "get", make_bytes);
}

PyObject *store_get_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return get_one(self, args, count, names, "get_buffer", make_handle);
}

static PyObject *get_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names,
                          const char *function, make_value *make)
{
    const struct args_spec spec = {function, 1, 1, {"keys", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *list;
    struct gets gets;

    if (!args_take(&spec, args, count, names, values) ||
        !gets_take(&gets, self, values, spec.names, 1))
        return NULL;
    if (gets.link != NULL && gets.lists.length > 0)
        get_items(gets.link, gets.items, gets.results, gets.lists.length, gets.link->local_bytes);
    list = PyList_New(gets.lists.length);
    for (Py_ssize_t i = 0; i < gets.lists.length && list != NULL; i++) {
        PyObject *value = gets.link == NULL
                              ? make_nothing(make)
                              : take_value((struct store *)self, gets.link, &gets.items[i], make);

        if (value == NULL || PyList_SetItem(list, i, value) < 0)
            Py_CLEAR(list);
    }
    for (Py_ssize_t i = 0; i < gets.lists.length; i++) { /* what no value took over */
        if (gets.items[i].status == SNOW_OK)
            snow_free(gets.items[i].to);
    }
    gets_drop(&gets);
    return list;
}

PyObject *store_get_batch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *list = get_many(self, args, count, names, "get_batch", make_bytes);

    if (list == NULL || PyList_Size(list) > 0)
        return list;
    Py_DECREF(list);
    return Py_BuildValue("[y#]", "", (Py_ssize_t)0); /* of no keys too */
}

PyObject *store_batch_get_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    return get_many(self, args, count, names, "batch_get_buffer", make_handle);
}

/* ---- into pointers -------------------------------------------------------------------------- */

/* An item without memory would have the library allocate: its key is refused instead. */
static bool fill_into(PyObject *pointer, PyObject *size, struct snow_get *item, uint64_t *bytes)
{
    uint64_t at = 0;
    uint64_t room = 0;

    if (!take_uint64(pointer, "buffer_ptr", &at) || !take_uint64(size, "size", &room))
        return false;
    if (at == 0)
        item->key.size = 0;
    item->to = (void *)(uintptr_t)at;
    item->room = at == 0 ? 0 : room;
    *bytes += item->room;
    return true;
}

PyObject *store_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"get_into", 3, 3, {"key", "buffer_ptr", "size", NULL}};
    PyObject *values[ARGS_MAX];
    struct snow_get item = {.to = NULL};
    uint64_t bytes = 0;
    int64_t result = CODE_INVALID;
    struct link *link;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key) ||
        !fill_into(values[1], values[2], &item, &bytes))
        return NULL;
    link = link_take((struct store *)self);
    if (link != NULL) {
        get_items(link, &item, &result, 1, bytes);
        link_drop(link);
    }
    return PyLong_FromLongLong(result);
}

/* Of a batch whose items are filled. */
static PyObject *gets_result(struct gets *gets, uint64_t bytes)
{
    if (gets->link == NULL || !gets->lists.equal)
        return list_of_same(CODE_INVALID, gets->lists.length);
    if (gets->lists.length > 0)
        get_items(gets->link, gets->items, gets->results, gets->lists.length, bytes);
    return list_of(gets->results, gets->lists.length);
}

PyObject *store_batch_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    static const struct args_spec spec = {
        "batch_get_into", 3, 3, {"keys", "buffer_ptrs", "sizes", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    uint64_t bytes = 0;
    struct gets gets;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) ||
        !gets_take(&gets, self, values, spec.names, 3))
        return NULL;
    for (Py_ssize_t i = 0; i < gets.lists.length && good && gets.lists.equal; i++)
        good = fill_into(PyTuple_GetItem(gets.lists.of[1], i), PyTuple_GetItem(gets.lists.of[2], i),
                         &gets.items[i], &bytes);
    if (good)
        result = gets_result(&gets, bytes);
    gets_drop(&gets);
    return result;
}

/* ---- into pieces ---- */

static bool fill_pieces(struct gets *gets, struct pieces *pieces, uint64_t *bytes)
{
    for (Py_ssize_t i = 0; i < gets->lists.length; i++) {
        struct snow_get *item = &gets->items[i];
        int taken = pieces_next(pieces, i, &item->buffers, &item->buffer_count, &item->room);

        if (taken < 0)
            return false;
        if (taken == 0 || item->buffer_count == 0) {
            item->key.size = 0;
            item->buffers = NULL;
            item->buffer_count = item->room = 0;
        }
        *bytes += item->room;
    }
    return true;
}

PyObject *store_batch_get_into_multi_buffers(PyObject *self, PyObject *const *args,
                                             Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"batch_get_into_multi_buffers",
                                          3,
                                          4,
                                          {"keys", "all_buffer_ptrs", "all_sizes",
                                           "prefer_alloc_in_same_node", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    struct pieces pieces = {0};
    uint64_t bytes = 0;
    struct gets gets;

    if (!args_take(&spec, args, count, names, values) ||
        !gets_take(&gets, self, values, spec.names, 3))
        return NULL;
    if (!gets.lists.equal || (pieces_take(&pieces, gets.lists.of[1], gets.lists.of[2]) &&
                              fill_pieces(&gets, &pieces, &bytes)))
        result = gets_result(&gets, bytes);
    pieces_drop(&pieces);
    gets_drop(&gets);
    return result;
}

/* ---- of ranges ------------------------------------------------------------------------------ */

/* A range of no bytes is not asked for: the library would take it for all that follows. */
static bool fill_range(struct gets *gets, Py_ssize_t index, uint64_t *bytes)
{
    struct snow_get *item = &gets->items[index];

    if (!fill_into(PyTuple_GetItem(gets->lists.of[1], index),
                   PyTuple_GetItem(gets->lists.of[2], index), item, bytes) ||
        !take_uint64(PyTuple_GetItem(gets->lists.of[3], index), "offset", &item->offset))
        return false;
    item->length = item->room;
    if (item->room == 0)
        item->key.size = 0;
    return true;
}

/* _read_ranges(keys, pointers, sizes, offsets): bytes or a code, each; all lists are equal. */
PyObject *store_read_ranges(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {
        "_read_ranges", 4, 4, {"keys", "pointers", "sizes", "offsets", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    uint64_t bytes = 0;
    struct gets gets;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) ||
        !gets_take(&gets, self, values, spec.names, 4))
        return NULL;
    for (Py_ssize_t i = 0; i < gets.lists.length && good && gets.lists.equal; i++)
        good = fill_range(&gets, i, &bytes);
    if (good)
        result = gets_result(&gets, bytes);
    gets_drop(&gets);
    return result;
}
