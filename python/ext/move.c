/* Store: put, get, get_into, view. */
#include "move.h"
#include "batch.h"
#include "groups.h"
#include "hints.h"

#include <stdio.h>
#include <string.h>

#define HELD_BYTES ((size_t)64 << 10) /* larger results are moved without the interpreter lock */

/* ---- put ---- */

const char *const pin_names[] = {"none", "soft", "hard", NULL};

enum put_arg {
    PUT_KEY,
    PUT_VALUE,
    PUT_REPLACE,
    PUT_REPLICAS,
    PUT_PIN,
    PUT_PIN_TIMEOUT,
    PUT_DEPTH,
    PUT_SEGMENT,
    PUT_WAIT,
    PUT_WAIT_WRITER,
    PUT_TIMEOUT,
    PUT_PRIORITY,
    PUT_EXPIRES,
    PUT_DONE,
    PUT_MEMBER
};

static void run_put(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_put(client, batch->items, (size_t)batch->count, &batch->call));
}

/* What all items of a put have in common. */
struct put_options {
    uint32_t replicas;
    uint32_t pin;
    uint32_t pin_ms;
    uint32_t depth;
    bool chained; /* depth counts up from item to item */
    uint32_t replace;
    uint32_t priority;
    uint32_t expires_ms;
    uint32_t done;
};

static bool take_put_options(PyObject **values, struct put_options *options, struct snow_call *call)
{
    uint32_t no_wait_writer = 0;

    *options = (struct put_options){.replicas = 1, .depth = SNOW_DEPTH_UNKNOWN};
    options->chained = args_is_given(values[PUT_DEPTH]);
    if (!args_flag(values[PUT_REPLACE], 1, &options->replace) ||
        !args_uint32(values[PUT_REPLICAS], "replicas", &options->replicas) ||
        !args_choice(values[PUT_PIN], "pin", pin_names, &options->pin) ||
        !args_seconds(values[PUT_PIN_TIMEOUT], "pin_timeout", &options->pin_ms) ||
        !args_uint32(values[PUT_DEPTH], "depth", &options->depth) ||
        !args_text(values[PUT_SEGMENT], "segment", &call->segment) ||
        !args_seconds(values[PUT_TIMEOUT], "timeout", &call->deadline_ms) ||
        !hints_priority(values[PUT_PRIORITY], &options->priority) ||
        !args_seconds(values[PUT_EXPIRES], "expires_after", &options->expires_ms) ||
        !args_flag(values[PUT_DONE], 1, &options->done))
        return false;
    if (values[PUT_WAIT] == Py_False)
        call->wait_ms = UINT32_MAX;
    else if (values[PUT_WAIT] != Py_True && !args_seconds(values[PUT_WAIT], "wait", &call->wait_ms))
        return false;
    if (values[PUT_WAIT_WRITER] == Py_False)
        no_wait_writer = SNOW_CALL_NO_WAIT_WRITER;
    call->flags |= no_wait_writer;
    if (options->replicas >= 1 && options->replicas <= UINT8_MAX)
        return true;
    PyErr_Format(PyExc_ValueError, "replicas: %R is out of range", values[PUT_REPLICAS]);
    return false;
}

static bool fill_put(struct batch *batch, PyObject *value, Py_ssize_t index,
                     const struct put_options *options)
{
    struct snow_put *item = (struct snow_put *)batch->items + index;
    void *from = NULL;

    item->depth = options->chained ? options->depth + (uint32_t)index : options->depth;
    item->replicas = (uint8_t)options->replicas;
    item->pin = (uint8_t)options->pin;
    item->pin_ms = options->pin_ms;
    item->replace = options->replace;
    item->priority = (uint8_t)options->priority;
    item->expires_after_ms = options->expires_ms;
    item->done = (uint8_t)options->done;
    item->member = groups_member(batch, index);
    if (!args_key(batch_key(batch, index), &item->key) ||
        !buffers_add(&batch->buffers, value, false, &from, &item->size, &item->buffers,
                     &item->buffer_count))
        return false;
    item->from = from;
    return true;
}

/* Who said nothing of groups (key rules did) is told nothing of them. */
static PyObject *put_result(struct batch *batch, Py_ssize_t index)
{
    const struct snow_put *item = (struct snow_put *)batch->items + index;

    if (item->status == SNOW_EXISTS && item->elsewhere != 0 && item->member != NULL)
        Py_RETURN_NONE;
    return batch_bool(batch, item->status, index, SNOW_EXISTS);
}

/* The values of keys, as a tuple; of a single key its value.  NULL with an exception. */
static PyObject *take_values(const struct batch *batch, PyObject *values, const char *name)
{
    PyObject *taken = batch->single == NULL ? args_items(values, name) : PyTuple_Pack(1, values);

    if (taken == NULL || PyTuple_Size(taken) == batch->count)
        return taken;
    PyErr_Format(PyExc_ValueError, "%zd keys, but %zd %s", batch->count, PyTuple_Size(taken), name);
    Py_DECREF(taken);
    return NULL;
}

static Py_ssize_t count_buffers(PyObject *values)
{
    Py_ssize_t buffers = 0;

    for (Py_ssize_t i = 0; i < PyTuple_Size(values); i++)
        buffers += buffers_of(PyTuple_GetItem(values, i));
    return buffers;
}

static bool prepare_put(struct batch *batch, PyObject **values)
{
    struct put_options options;
    PyObject *bytes = take_values(batch, values[PUT_VALUE], "values");
    bool good = bytes != NULL && take_put_options(values, &options, &batch->call) &&
                groups_take(batch, values[PUT_MEMBER]) &&
                buffers_init(&batch->buffers, batch->state, count_buffers(bytes));

    for (Py_ssize_t i = 0; i < batch->count && good; i++)
        good = fill_put(batch, PyTuple_GetItem(bytes, i), i, &options);
    Py_XDECREF(bytes); /* the buffers keep their memory */
    return good;
}

static enum snow_status submit_put(struct batch *batch, struct snow_queue *queue, uint64_t tag)
{
    return snow_submit_put(queue, batch->items, (size_t)batch->count, &batch->call, tag);
}

const struct operation operation_put = {
    .item_size = sizeof(struct snow_put),
    .prepare = prepare_put,
    .run = run_put,
    .submit = submit_put,
    .result = put_result,
};

PyObject *store_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"put", 2, 2, {"key", "value", PUT_OPTIONS, NULL}};

    return operation_call(&operation_put, &spec, false, self, args, count, names);
}

PyObject *store_put_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"put_many", 2, 2, {"keys", "values", PUT_OPTIONS, NULL}};

    return operation_call(&operation_put, &spec, true, self, args, count, names);
}

/* ---- get ---- */

enum get_arg { GET_KEY, GET_TIMEOUT, GET_UNORDERED };

static void run_get(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_get(client, batch->items, (size_t)batch->count, &batch->call));
}

/* Giving large memory back to the system takes as long as the copy: without the lock, too. */
static PyObject *bytes_of_get(struct snow_get *item)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)item->size);
    char *to = bytes == NULL ? NULL : PyBytes_AsString(bytes);

    if (to != NULL && item->size > HELD_BYTES) { /* nobody else knows of it yet */
        Py_BEGIN_ALLOW_THREADS;
        memcpy(to, item->to, item->size);
        snow_free(item->to);
        item->to = NULL;
        Py_END_ALLOW_THREADS;
    } else if (to != NULL) {
        memcpy(to, item->to, item->size);
    }
    return bytes;
}

static PyObject *get_result(struct batch *batch, Py_ssize_t index)
{
    struct snow_get *item = (struct snow_get *)batch->items + index;

    if (item->status == SNOW_OK)
        return bytes_of_get(item);
    if (item->status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    return batch_error(batch, item->status, index);
}

static bool fill_keys_of_get(struct batch *batch)
{
    struct snow_get *items = batch->items;

    for (Py_ssize_t i = 0; i < batch->count; i++) {
        if (!args_key(batch_key(batch, i), &items[i].key))
            return false;
    }
    return true;
}

static void drop_gets(struct batch *batch)
{
    struct snow_get *items = batch->items;

    for (Py_ssize_t i = 0; i < batch->count; i++) {
        if (items[i].status == SNOW_OK)
            snow_free(items[i].to);
    }
}

static bool prepare_get(struct batch *batch, PyObject **values)
{
    return args_seconds(values[GET_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
           args_flag(values[GET_UNORDERED], SNOW_CALL_UNORDERED, &batch->call.flags) &&
           fill_keys_of_get(batch);
}

static enum snow_status submit_get(struct batch *batch, struct snow_queue *queue, uint64_t tag)
{
    return snow_submit_get(queue, batch->items, (size_t)batch->count, &batch->call, tag);
}

const struct operation operation_get = {
    .item_size = sizeof(struct snow_get),
    .prepare = prepare_get,
    .run = run_get,
    .submit = submit_get,
    .result = get_result,
    .drop = drop_gets,
};

PyObject *store_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"get", 1, 1, {"key", "timeout", NULL}};

    return operation_call(&operation_get, &spec, false, self, args, count, names);
}

PyObject *store_get_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"get_many", 1, 1, {"keys", "timeout", "unordered", NULL}};

    return operation_call(&operation_get, &spec, true, self, args, count, names);
}

/* ---- get_into ---- */

enum into_arg { INTO_KEY, INTO_BUFFER, INTO_TIMEOUT, INTO_UNORDERED, INTO_OFFSET, INTO_LENGTH };

static PyObject *into_result(struct batch *batch, Py_ssize_t index)
{
    const struct snow_get *item = (struct snow_get *)batch->items + index;

    if (item->status == SNOW_OK)
        return PyLong_FromSize_t(item->size);
    if (item->status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    if (item->status == SNOW_LIMIT && batch->reason[0] == 0)
        snprintf(batch->reason, sizeof(batch->reason), "the buffer has %zu bytes, %zu are needed",
                 item->room, item->size);
    return batch_error(batch, item->status, index);
}

static bool prepare_into(struct batch *batch, PyObject **values)
{
    struct snow_get *items = batch->items;
    PyObject *to = take_values(batch, values[INTO_BUFFER], "buffers");
    bool good = to != NULL && buffers_init(&batch->buffers, batch->state, count_buffers(to)) &&
                args_seconds(values[INTO_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
                args_flag(values[INTO_UNORDERED], SNOW_CALL_UNORDERED, &batch->call.flags) &&
                args_uint64(values[INTO_OFFSET], "offset", &items[0].offset) &&
                args_uint64(values[INTO_LENGTH], "length", &items[0].length) &&
                fill_keys_of_get(batch);

    for (Py_ssize_t i = 0; i < batch->count && good; i++)
        good = buffers_add(&batch->buffers, PyTuple_GetItem(to, i), true, &items[i].to,
                           &items[i].room, &items[i].buffers, &items[i].buffer_count);
    Py_XDECREF(to); /* the buffers keep their memory */
    return good;
}

const struct operation operation_get_into = {
    .item_size = sizeof(struct snow_get),
    .prepare = prepare_into,
    .run = run_get,
    .submit = submit_get,
    .result = into_result,
};

PyObject *store_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "get_into", 2, 2, {"key", "buffer", "timeout", "unordered", "offset", "length", NULL}};

    return operation_call(&operation_get_into, &spec, false, self, args, count, names);
}

PyObject *store_get_into_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    static const struct args_spec spec = {
        "get_into_many", 2, 2, {"keys", "buffers", "timeout", "unordered", NULL}};

    return operation_call(&operation_get_into, &spec, true, self, args, count, names);
}

/* ---- view ---- */

static void run_view(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_view(client, batch->items, (size_t)batch->count, &batch->call));
}

static PyObject *view_result(struct batch *batch, Py_ssize_t index)
{
    struct snow_view *item = (struct snow_view *)batch->items + index;
    struct snow_view taken = *item;

    item->handle = NULL; /* the object has it now */
    if (taken.status == SNOW_OK)
        return view_make(batch->state, &taken);
    if (taken.status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    return batch_error(batch, taken.status, index);
}

/* Those that no object has taken over. */
static void drop_views(struct batch *batch)
{
    snow_view_end(batch->items, (size_t)batch->count);
}

static bool prepare_view(struct batch *batch, PyObject **values)
{
    struct snow_view *items = batch->items;
    bool good = args_seconds(values[GET_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
                args_flag(values[GET_UNORDERED], SNOW_CALL_UNORDERED, &batch->call.flags);

    for (Py_ssize_t i = 0; i < batch->count && good; i++)
        good = args_key(batch_key(batch, i), &items[i].key);
    return good;
}

static const struct operation operation_view = {
    .item_size = sizeof(struct snow_view),
    .prepare = prepare_view,
    .run = run_view,
    .result = view_result,
    .drop = drop_views,
};

PyObject *store_view(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"view", 1, 1, {"key", "timeout", NULL}};

    return operation_call(&operation_view, &spec, false, self, args, count, names);
}

PyObject *store_view_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "view_many", 1, 1, {"keys", "timeout", "unordered", NULL}};

    return operation_call(&operation_view, &spec, true, self, args, count, names);
}
