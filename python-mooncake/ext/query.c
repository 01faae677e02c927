/* Questions, removal, registered memory. */
#include "core.h"

#define COPIES_MAX 16
#define SWEEP_MS 60000 /* of a removal that goes through all objects */
#define TELL_MS 60000

/* ---- exists --------------------------------------------------------------------------------- */

/* True: some could not be asked, and it is the master that is missing. */
static bool stat_items(struct link *link, struct snow_stat *items, Py_ssize_t count)
{
    struct snow_call call = link_call(link, 0);
    bool unreachable = false;

    call.flags = SNOW_CALL_TOUCH;
    Py_BEGIN_ALLOW_THREADS;
    (void)snow_exists(link->client, items, (size_t)count, &call);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++)
        unreachable = unreachable || items[i].status == SNOW_UNREACHABLE;
    return unreachable && link_doubt(link);
}

/* 1, 0, or a code. */
static int64_t is_there(enum snow_status status)
{
    if (status == SNOW_OK)
        return 1;
    return status == SNOW_NOT_FOUND || status == SNOW_UNKNOWN ? 0 : code_of(status, KIND_OTHER);
}

/* Of a single key, anything but 0 is taken for a hit: what a missing master hides is none.  It is
 * counted, and logged once a minute. */
static PyObject *answer_hidden(struct store *store)
{
    uint64_t at_ms = now_ms() + 1;
    PyObject *done;

    store->hidden++;
    if (store->told_ms != 0 && at_ms - store->told_ms < TELL_MS)
        return PyLong_FromLong(0);
    store->told_ms = at_ms;
    done = PyObject_CallMethod((PyObject *)store, "_warn_hidden", "K",
                               (unsigned long long)store->hidden);
    if (done == NULL)
        PyErr_Clear();
    Py_XDECREF(done);
    return PyLong_FromLong(0);
}

PyObject *store_is_exist(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"is_exist", 1, 1, {"key", NULL}};
    struct store *store = (struct store *)self;
    PyObject *values[ARGS_MAX];
    struct snow_stat item = {.size = 0};
    struct link *link;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key))
        return NULL;
    link = link_take(store);
    if (link == NULL)
        return store->failed ? answer_hidden(store) : PyLong_FromLong(CODE_INVALID);
    (void)stat_items(link, &item, 1);
    link_drop(link);
    return item.status == SNOW_UNREACHABLE ? answer_hidden(store)
                                           : PyLong_FromLongLong(is_there(item.status));
}

/* What a question about many keys answers for one. */
typedef PyObject *make_answer(const struct snow_stat *item);

static PyObject *answer_exists(const struct snow_stat *item)
{
    return PyLong_FromLongLong(is_there(item->status));
}

/* (gen, size), or a code. */
static PyObject *answer_version(const struct snow_stat *item)
{
    if (item->status == SNOW_OK)
        return Py_BuildValue("(KK)", (unsigned long long)item->gen, (unsigned long long)item->size);
    return PyLong_FromLong(code_of(item->status, KIND_OTHER));
}

/* (size, [node]), or a code. */
static PyObject *answer_holders(const struct snow_stat *item)
{
    uint32_t copies = item->copies < item->node_room ? item->copies : item->node_room;
    PyObject *nodes = PyList_New(0);

    if (item->status != SNOW_OK) {
        Py_XDECREF(nodes);
        return PyLong_FromLong(code_of(item->status, KIND_OTHER));
    }
    for (uint32_t i = 0; i < copies && nodes != NULL; i++) {
        PyObject *number = PyLong_FromUnsignedLong(item->nodes[i]);

        if (number == NULL || PyList_Append(nodes, number) < 0)
            Py_CLEAR(nodes);
        Py_XDECREF(number);
    }
    return nodes == NULL ? NULL : Py_BuildValue("(KN)", (unsigned long long)item->size, nodes);
}

static PyObject *ask_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names,
                          const char *function, make_answer *make)
{
    const struct args_spec spec = {function, 1, 1, {"keys", NULL}};
    PyObject *values[ARGS_MAX];
    struct lists lists;
    struct memory memory;
    size_t room = make == answer_holders ? COPIES_MAX * sizeof(uint32_t) : 0;
    struct snow_stat *items;
    uint32_t *nodes;
    struct link *link;
    PyObject *list = NULL;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) || !lists_take(&lists, values, spec.names, 1))
        return NULL;
    items = memory_take(&memory, (size_t)(lists.length + 1) * (sizeof(*items) + room));
    nodes = items == NULL ? NULL : (uint32_t *)(items + lists.length + 1);
    for (Py_ssize_t i = 0; i < lists.length && good && items != NULL; i++) {
        good = args_key(PyTuple_GetItem(lists.of[0], i), &items[i].key);
        items[i].nodes = room == 0 ? NULL : nodes + i * COPIES_MAX;
        items[i].node_room = room == 0 ? 0 : COPIES_MAX;
    }
    link = items != NULL && good ? link_take((struct store *)self) : NULL;
    if (link != NULL && lists.length > 0)
        (void)stat_items(link, items, lists.length);
    if (items != NULL && good)
        list = link == NULL ? list_of_same(CODE_INVALID, lists.length) : PyList_New(lists.length);
    for (Py_ssize_t i = 0; i < lists.length && link != NULL && list != NULL; i++) {
        PyObject *answer = make(&items[i]);

        if (answer == NULL || PyList_SetItem(list, i, answer) < 0)
            Py_CLEAR(list);
    }
    if (link != NULL)
        link_drop(link);
    if (items != NULL)
        memory_drop(&memory);
    lists_drop(&lists);
    return list;
}

PyObject *store_batch_is_exist(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    return ask_many(self, args, count, names, "batch_is_exist", answer_exists);
}

PyObject *store_versions(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return ask_many(self, args, count, names, "_versions", answer_version);
}

PyObject *store_holders(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return ask_many(self, args, count, names, "_holders", answer_holders);
}

PyObject *store_get_size(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"get_size", 1, 1, {"key", NULL}};
    PyObject *values[ARGS_MAX];
    struct snow_stat item = {.size = 0};
    struct link *link;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key))
        return NULL;
    link = link_take((struct store *)self);
    if (link == NULL)
        return PyLong_FromLong(CODE_INVALID);
    (void)stat_items(link, &item, 1);
    link_drop(link);
    if (item.status == SNOW_OK)
        return PyLong_FromUnsignedLongLong(item.size);
    return PyLong_FromLong(code_of(item.status, KIND_OTHER));
}

/* ---- remove --------------------------------------------------------------------------------- */

/* Removes items and sets a code for each. */
static void remove_items(struct link *link, struct snow_item *items, int64_t *codes,
                         Py_ssize_t count, uint32_t flags)
{
    struct snow_call call = link_call(link, 0);
    bool unreachable = false;

    call.flags = flags;
    Py_BEGIN_ALLOW_THREADS;
    (void)snow_remove(link->client, items, (size_t)count, &call);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++) {
        codes[i] = code_of(items[i].status, KIND_OTHER);
        unreachable = unreachable || items[i].status == SNOW_UNREACHABLE;
    }
    if (unreachable)
        (void)link_doubt(link);
}

PyObject *store_remove(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"remove", 1, 2, {"key", "force", NULL}};
    PyObject *values[ARGS_MAX];
    struct snow_item item = {.status = SNOW_OK};
    uint32_t flags = 0;
    int64_t code = CODE_INVALID;
    struct link *link;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key) ||
        !args_flag(values[1], SNOW_CALL_FORCE, &flags))
        return NULL;
    link = link_take((struct store *)self);
    if (link != NULL) {
        remove_items(link, &item, &code, 1, flags);
        link_drop(link);
    }
    return PyLong_FromLongLong(code);
}

PyObject *store_batch_remove(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    static const struct args_spec spec = {"batch_remove", 1, 2, {"keys", "force", NULL}};
    PyObject *values[ARGS_MAX];
    struct lists lists;
    struct memory memory;
    struct snow_item *items;
    struct link *link = NULL;
    uint32_t flags = 0;
    PyObject *list = NULL;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) ||
        !args_flag(values[1], SNOW_CALL_FORCE, &flags) ||
        !lists_take(&lists, values, spec.names, 1))
        return NULL;
    items = memory_take(&memory, (size_t)(lists.length + 1) * (sizeof(*items) + sizeof(int64_t)));
    for (Py_ssize_t i = 0; i < lists.length && good && items != NULL; i++)
        good = args_key(PyTuple_GetItem(lists.of[0], i), &items[i].key);
    if (items != NULL && good) {
        int64_t *codes = (int64_t *)(items + lists.length + 1);

        link = link_take((struct store *)self);
        if (link != NULL && lists.length > 0)
            remove_items(link, items, codes, lists.length, flags);
        list =
            link == NULL ? list_of_same(CODE_INVALID, lists.length) : list_of(codes, lists.length);
    }
    if (link != NULL)
        link_drop(link);
    if (items != NULL)
        memory_drop(&memory);
    lists_drop(&lists);
    return list;
}

static PyObject *remove_match(PyObject *self, enum snow_match match, struct snow_key pattern,
                              uint32_t flags)
{
    struct link *link = link_take((struct store *)self);
    struct snow_matched matched = {0};
    enum snow_status status;

    if (link == NULL)
        return PyLong_FromLong(CODE_INVALID);
    struct snow_call call = link_call(link, 0);

    call.flags = flags;
    if (call.deadline_ms < SWEEP_MS)
        call.deadline_ms = SWEEP_MS;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_remove_match(link->client, match, pattern, &call, &matched);
    Py_END_ALLOW_THREADS;
    if (status == SNOW_UNREACHABLE)
        (void)link_doubt(link);
    link_drop(link);
    if (snow_status_verdict(status) == SNOW_DONE)
        return PyLong_FromUnsignedLongLong(matched.removed);
    return PyLong_FromLong(code_of(status, KIND_OTHER));
}

PyObject *store_remove_by_regex(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    static const struct args_spec spec = {
        "remove_by_regex", 1, 2, {"regex_pattern", "force", NULL}};
    PyObject *values[ARGS_MAX];
    struct snow_key pattern;
    uint32_t flags = 0;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &pattern) ||
        !args_flag(values[1], SNOW_CALL_FORCE, &flags))
        return NULL;
    return remove_match(self, SNOW_MATCH_REGEX, pattern, flags);
}

PyObject *store_remove_all(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"remove_all", 0, 1, {"force", NULL}};
    PyObject *values[ARGS_MAX];
    uint32_t flags = 0;

    if (!args_take(&spec, args, count, names, values) ||
        !args_flag(values[0], SNOW_CALL_FORCE, &flags))
        return NULL;
    return remove_match(self, SNOW_MATCH_ALL, (struct snow_key){.at = "", .size = 0}, flags);
}

/* ---- registered memory ---------------------------------------------------------------------- */

PyObject *store_register_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    static const struct args_spec spec = {"register_buffer", 2, 2, {"buffer_ptr", "size", NULL}};
    PyObject *values[ARGS_MAX];
    uint64_t at = 0;
    uint64_t size = 0;
    enum snow_status status = SNOW_CLOSED;
    struct link *link;

    if (!args_take(&spec, args, count, names, values) ||
        !take_uint64(values[0], "buffer_ptr", &at) || !take_uint64(values[1], "size", &size))
        return NULL;
    link = link_take((struct store *)self);
    if (link != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        status = snow_register(link->client, (void *)(uintptr_t)at, size);
        Py_END_ALLOW_THREADS;
        link_drop(link);
    }
    return PyLong_FromLong(status == SNOW_OK ? 0 : CODE_INVALID);
}

PyObject *store_unregister_buffer(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names)
{
    static const struct args_spec spec = {"unregister_buffer", 1, 1, {"buffer_ptr", NULL}};
    PyObject *values[ARGS_MAX];
    uint64_t at = 0;
    enum snow_status status = SNOW_CLOSED;
    struct link *link;

    if (!args_take(&spec, args, count, names, values) || !take_uint64(values[0], "buffer_ptr", &at))
        return NULL;
    link = link_take((struct store *)self);
    if (link != NULL) {
        struct snow_call call = link_call(link, 0);

        Py_BEGIN_ALLOW_THREADS;
        status = snow_unregister(link->client, (void *)(uintptr_t)at, &call);
        Py_END_ALLOW_THREADS;
        link_drop(link);
    }
    return PyLong_FromLong(status == SNOW_OK ? 0 : CODE_INVALID);
}
