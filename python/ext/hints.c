/* Store: touch, expire; what they and puts say about how long something is worth keeping. */
#include "hints.h"

bool hints_priority(PyObject *value, uint32_t *to)
{
    if (!args_uint32(value, "priority", to))
        return false;
    if (*to <= SNOW_PRIORITY_MAX)
        return true;
    PyErr_Format(PyExc_ValueError, "priority: %R is not 0 to 7", value);
    return false;
}

/* ---- touch ---- */

enum touch_arg { TOUCH_KEY, TOUCH_PRIORITY, TOUCH_EXPIRES, TOUCH_LASTS, TOUCH_DONE, TOUCH_TIMEOUT };

static void run_touch(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_touch(client, batch->items, (size_t)batch->count, &batch->hints,
                                   &batch->call));
}

static bool prepare_touch(struct batch *batch, PyObject **values)
{
    struct snow_hints *hints = &batch->hints;

    if (args_is_given(values[TOUCH_PRIORITY]))
        hints->flags |= SNOW_HINT_PRIORITY;
    if (args_is_given(values[TOUCH_EXPIRES]))
        hints->flags |= SNOW_HINT_EXPIRES;
    return hints_priority(values[TOUCH_PRIORITY], &hints->priority) &&
           args_seconds(values[TOUCH_EXPIRES], "expires_after", &hints->expires_after_ms) &&
           args_flag(values[TOUCH_LASTS], SNOW_HINT_LASTS, &hints->flags) &&
           args_flag(values[TOUCH_DONE], SNOW_HINT_DONE, &hints->flags) &&
           args_seconds(values[TOUCH_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
           batch_fill_items(batch);
}

static const struct operation operation_touch = {
    .item_size = sizeof(struct snow_item),
    .prepare = prepare_touch,
    .run = run_touch,
    .result = batch_item_result,
};

#define TOUCH_OPTIONS "priority", "expires_after", "lasts", "done", "timeout"

PyObject *store_touch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"touch", 1, 1, {"key", TOUCH_OPTIONS, NULL}};

    return operation_call(&operation_touch, &spec, false, self, args, count, names);
}

PyObject *store_touch_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"touch_many", 1, 1, {"keys", TOUCH_OPTIONS, NULL}};

    return operation_call(&operation_touch, &spec, true, self, args, count, names);
}

/* ---- expire ---- */

enum expire_arg { EXPIRE_KEY, EXPIRE_AFTER, EXPIRE_TIMEOUT };

static void run_expire(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_expire(client, batch->items, (size_t)batch->count,
                                    batch->hints.expires_after_ms, &batch->call));
}

/* after: seconds; 0: at once; None: not any more. */
static bool take_after(PyObject *value, uint32_t *to_ms)
{
    double seconds;

    *to_ms = UINT32_MAX;
    if (value == Py_None)
        return true;
    seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred() != NULL)
        return false;
    if (seconds != 0)
        return args_seconds(value, "after", to_ms);
    *to_ms = 0;
    return true;
}

static bool prepare_expire(struct batch *batch, PyObject **values)
{
    return take_after(values[EXPIRE_AFTER], &batch->hints.expires_after_ms) &&
           args_seconds(values[EXPIRE_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
           batch_fill_items(batch);
}

static const struct operation operation_expire = {
    .item_size = sizeof(struct snow_item),
    .prepare = prepare_expire,
    .run = run_expire,
    .result = batch_item_result,
};

PyObject *store_expire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"expire", 2, 2, {"key", "after", "timeout", NULL}};

    return operation_call(&operation_expire, &spec, false, self, args, count, names);
}

PyObject *store_expire_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {"expire_many", 2, 2, {"keys", "after", "timeout", NULL}};

    return operation_call(&operation_expire, &spec, true, self, args, count, names);
}
