/* Store: what is there, and how large it is. */
#include "exists.h"

#include "groups.h"
#include "move.h"

enum exists_arg {
    EXISTS_KEY,
    EXISTS_TIMEOUT,
    EXISTS_UNORDERED,
    EXISTS_TOUCH,
    EXISTS_LEASE,
    EXISTS_GROUP
};

static void run_exists(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_exists(client, batch->items, (size_t)batch->count, &batch->call));
}

static PyObject *exists_result(struct batch *batch, Py_ssize_t index)
{
    PyObject *found =
        batch_bool(batch, ((struct snow_stat *)batch->items)[index].status, index, SNOW_NOT_FOUND);
    PyObject *group;

    if (batch->infos == NULL || found == NULL || PyExceptionInstance_Check(found))
        return found;
    group = groups_told(batch, index);
    if (group != NULL && !PyExceptionInstance_Check(group))
        return Py_BuildValue("(NN)", found, group);
    Py_DECREF(found);
    return group;
}

static PyObject *size_result(struct batch *batch, Py_ssize_t index)
{
    const struct snow_stat *item = (struct snow_stat *)batch->items + index;

    if (item->status == SNOW_OK)
        return PyLong_FromUnsignedLongLong(item->size);
    if (item->status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    return batch_error(batch, item->status, index);
}

static bool prepare_exists(struct batch *batch, PyObject **values)
{
    struct snow_stat *items = batch->items;
    uint32_t group = 0;
    bool good = !batch->options ||
                (args_seconds(values[EXISTS_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
                 args_flag(values[EXISTS_UNORDERED], SNOW_CALL_UNORDERED, &batch->call.flags) &&
                 args_flag(values[EXISTS_TOUCH], SNOW_CALL_TOUCH, &batch->call.flags) &&
                 args_flag(values[EXISTS_LEASE], SNOW_CALL_LEASE, &batch->call.flags) &&
                 args_flag(values[EXISTS_GROUP], 1, &group));

    if (good && group != 0)
        good = groups_ask(batch);
    for (Py_ssize_t i = 0; i < batch->count && good; i++)
        good = args_key(batch_key(batch, i), &items[i].key);
    return good;
}

static enum snow_status submit_exists(struct batch *batch, struct snow_queue *queue, uint64_t tag)
{
    return snow_submit_exists(queue, batch->items, (size_t)batch->count, &batch->call, tag);
}

const struct operation operation_exists = {
    .item_size = sizeof(struct snow_stat),
    .prepare = prepare_exists,
    .run = run_exists,
    .submit = submit_exists,
    .result = exists_result,
    .is_bool = true,
};

static const struct operation operation_size = {
    .item_size = sizeof(struct snow_stat),
    .prepare = prepare_exists,
    .run = run_exists,
    .result = size_result,
};

PyObject *store_exists(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "exists", 1, 1, {"key", "timeout", "unordered", "touch", "lease", "group", NULL}};

    return operation_call(&operation_exists, &spec, false, self, args, count, names);
}

PyObject *store_exists_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {
        "exists_many", 1, 1, {"keys", "timeout", "unordered", "touch", "lease", "group", NULL}};

    return operation_call(&operation_exists, &spec, true, self, args, count, names);
}

PyObject *store_size(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"size", 1, 1, {"key", "timeout", NULL}};

    return operation_call(&operation_size, &spec, false, self, args, count, names);
}

PyObject *store_size_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"size_many", 1, 1, {"keys", "timeout", NULL}};

    return operation_call(&operation_size, &spec, true, self, args, count, names);
}
