/* Tasks: copies and moves that nodes make among themselves. */
#include "core.h"

#include <stdio.h>

/* _task_start(kind, key, from, to): (status, id). */
PyObject *store_task_start(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"_task_start", 4, 4, {"kind", "key", "from", "to", NULL}};
    struct link *link;
    PyObject *values[ARGS_MAX];
    struct snow_task task = {.kind = 0};
    enum snow_status status;
    uint64_t id = 0;

    if (!args_take(&spec, args, count, names, values) ||
        !args_uint32(values[0], "kind", &task.kind) || !args_key(values[1], &task.key) ||
        !args_uint32(values[2], "from", &task.from) || !args_uint32(values[3], "to", &task.to))
        return NULL;
    link = link_take((struct store *)self);
    if (link == NULL)
        return Py_BuildValue("(iK)", CODE_INVALID, 0ULL);
    struct snow_call call = link_call(link, 0);

    Py_BEGIN_ALLOW_THREADS;
    status = snow_task_start(link->client, &task, &call, &id);
    Py_END_ALLOW_THREADS;
    if (status == SNOW_UNREACHABLE)
        (void)link_doubt(link);
    link_drop(link);
    return Py_BuildValue("(iK)", code_of(status, KIND_OTHER), (unsigned long long)id);
}

struct told {
    char state[16];
    char reason[256];
    bool found;
};

static int on_task(void *owner, const struct snow_task_info *row)
{
    struct told *told = owner;

    snprintf(told->state, sizeof(told->state), "%s", row->state);
    snprintf(told->reason, sizeof(told->reason), "%s", row->reason);
    told->found = true;
    return 0;
}

/* _task(id): (state, reason); None: not known, or not now. */
PyObject *store_task(PyObject *self, PyObject *value)
{
    struct link *link;
    struct told told = {.found = false};
    uint64_t id = 0;

    if (!take_uint64(value, "id", &id))
        return NULL;
    link = link_take((struct store *)self);
    if (link != NULL) {
        struct snow_call call = link_call(link, 0);

        Py_BEGIN_ALLOW_THREADS;
        (void)snow_tasks(link->client, id, on_task, &told, &call);
        Py_END_ALLOW_THREADS;
        link_drop(link);
    }
    if (!told.found)
        Py_RETURN_NONE;
    return Py_BuildValue("(ss)", told.state, told.reason);
}
