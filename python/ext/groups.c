/* Store: groups of objects, and how much of a chain is there. */
#include "groups.h"

#include <stdio.h>

#define NODES_MAX 1024u /* of a cluster */

/* ---- members of puts ---- */

enum member_field {
    MEMBER_GROUP,
    MEMBER_SIZE,
    MEMBER_INDEX,
    MEMBER_ATOMIC,
    MEMBER_CASCADE,
    MEMBER_ADOPT,
    MEMBER_FORM_TTL,
    MEMBER_PARENT,
    MEMBER_NO_OFFLOAD,
    MEMBER_FIELDS
};

static bool fill_member(PyObject *value, struct snow_member *member)
{
    PyObject *field[MEMBER_FIELDS];

    if (!PyTuple_Check(value) || PyTuple_Size(value) != MEMBER_FIELDS) {
        PyErr_Format(PyExc_TypeError, "member: %R is no snowskin.Member", value);
        return false;
    }
    for (int i = 0; i < MEMBER_FIELDS; i++)
        field[i] = PyTuple_GetItem(value, i);
    *member = (struct snow_member){.index = SNOW_GROUP_INDEX_ANY};
    return args_key(field[MEMBER_GROUP], &member->group) &&
           args_uint32(field[MEMBER_SIZE], "size", &member->size) &&
           args_uint32(field[MEMBER_INDEX], "index", &member->index) &&
           args_flag(field[MEMBER_ATOMIC], SNOW_GROUP_ATOMIC, &member->flags) &&
           args_flag(field[MEMBER_CASCADE], SNOW_GROUP_CASCADE, &member->flags) &&
           args_flag(field[MEMBER_ADOPT], SNOW_GROUP_ADOPT, &member->flags) &&
           args_flag(field[MEMBER_NO_OFFLOAD], SNOW_GROUP_NO_OFFLOAD, &member->flags) &&
           args_seconds(field[MEMBER_FORM_TTL], "form_ttl", &member->form_ttl_ms) &&
           (!args_is_given(field[MEMBER_PARENT]) ||
            args_key(field[MEMBER_PARENT], &member->parent));
}

bool groups_take(struct batch *batch, PyObject *value)
{
    bool good = true;

    if (!args_is_given(value))
        return true;
    batch->member_list =
        batch->single != NULL ? PyTuple_Pack(1, value) : args_items(value, "member");
    if (batch->member_list == NULL)
        return false;
    if (PyTuple_Size(batch->member_list) != batch->count) {
        PyErr_Format(PyExc_ValueError, "%zd keys, but %zd members", batch->count,
                     PyTuple_Size(batch->member_list));
        return false;
    }
    batch->members = PyMem_Calloc((size_t)batch->count + 1, sizeof(struct snow_member));
    if (batch->members == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < batch->count && good; i++) {
        PyObject *one = PyTuple_GetItem(batch->member_list, i);

        good = one == Py_None || fill_member(one, &batch->members[i]);
    }
    return good;
}

const struct snow_member *groups_member(const struct batch *batch, Py_ssize_t index)
{
    return batch->members == NULL || batch->members[index].group.size == 0 ? NULL
                                                                           : &batch->members[index];
}

void groups_forget(struct batch *batch)
{
    PyMem_Free(batch->members);
    Py_XDECREF(batch->member_list);
}

/* ---- what a group is ---- */

/* by_key: its id is not what was asked for. */
static PyObject *info_dict(const struct snow_group_info *info, bool by_key)
{
    const struct snow_group_more *more = info->more;
    PyObject *missing = PyList_New(info->missing_count);

    for (uint32_t i = 0; i < info->missing_count && missing != NULL; i++) {
        PyObject *index = PyLong_FromUnsignedLong(info->missing[i]);

        if (index == NULL || PyList_SetItem(missing, i, index) < 0)
            Py_CLEAR(missing);
    }
    if (missing == NULL)
        return NULL;
    PyObject *dict =
        Py_BuildValue("{s:s,s:I,s:I,s:N,s:K,s:I,s:K,s:N,s:N,s:N,s:d}", "state",
                      snow_group_state_name(info->state), "size", info->size, "present",
                      info->present, "missing", missing, "ggen", (unsigned long long)info->ggen,
                      "version", info->version, "bytes", (unsigned long long)info->bytes, "atomic",
                      PyBool_FromLong((info->flags & SNOW_GROUP_ATOMIC) != 0), "cascade",
                      PyBool_FromLong((info->flags & SNOW_GROUP_CASCADE) != 0), "no_offload",
                      PyBool_FromLong((info->flags & SNOW_GROUP_NO_OFFLOAD) != 0), "lease",
                      more->lease_ms / 1000.0);

    if (dict == NULL)
        return NULL;
    PyObject *next = info->missing_next == SNOW_GROUP_INDEX_ANY
                         ? Py_NewRef(Py_None)
                         : PyLong_FromUnsignedLong(info->missing_next);
    PyObject *group = !by_key ? NULL
                      : more->id_size == 0
                          ? Py_NewRef(Py_None)
                          : PyBytes_FromStringAndSize((const char *)more->id, more->id_size);

    if (next == NULL || PyDict_SetItemString(dict, "missing_next", next) < 0 ||
        (by_key && (group == NULL || PyDict_SetItemString(dict, "group", group) < 0)))
        Py_CLEAR(dict);
    Py_XDECREF(next);
    Py_XDECREF(group);
    return dict;
}

/* Of the group of a key that is not there, None. */
static PyObject *info_result(struct batch *batch, const struct snow_group_info *info, bool by_key,
                             Py_ssize_t index)
{
    if (info->status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    return info->status == SNOW_OK ? info_dict(info, by_key)
                                   : batch_error(batch, info->status, index);
}

/* Each of them is to tell more.  False with an exception. */
static bool want_more(struct batch *batch, struct snow_group_info *infos)
{
    batch->mores = PyMem_Calloc((size_t)batch->count + 1, sizeof(*batch->mores));
    if (batch->mores == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < batch->count; i++)
        infos[i].more = &batch->mores[i];
    return true;
}

bool groups_ask(struct batch *batch)
{
    batch->infos = PyMem_Calloc((size_t)batch->count + 1, sizeof(*batch->infos));
    if (batch->infos == NULL) {
        PyErr_NoMemory();
        return false;
    }
    batch->call.groups = batch->infos;
    return want_more(batch, batch->infos);
}

PyObject *groups_told(struct batch *batch, Py_ssize_t index)
{
    return info_result(batch, &batch->infos[index], true, index);
}

enum stat_arg { STAT_GROUP, STAT_WAIT, STAT_TIMEOUT, STAT_BY_KEY, STAT_LEASE, STAT_MISSING_FROM };

static bool prepare_stat(struct batch *batch, PyObject **values)
{
    struct snow_group_info *items = batch->items;
    uint32_t by_key = 0;
    uint32_t from = 0;

    if (!args_seconds(values[STAT_WAIT], "wait", &batch->call.wait_ms) ||
        !args_seconds(values[STAT_TIMEOUT], "timeout", &batch->call.deadline_ms) ||
        !args_flag(values[STAT_BY_KEY], 1, &by_key) ||
        !args_flag(values[STAT_LEASE], SNOW_CALL_LEASE, &batch->call.flags) ||
        !args_uint32(values[STAT_MISSING_FROM], "missing_from", &from) || !want_more(batch, items))
        return false;
    for (Py_ssize_t i = 0; i < batch->count; i++) {
        items[i].by_key = by_key;
        items[i].missing_from = from;
        if (!args_key(batch_key(batch, i), &items[i].id))
            return false;
    }
    return true;
}

static void run_stat(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_group_stat(client, batch->items, (size_t)batch->count, &batch->call));
}

static PyObject *stat_result(struct batch *batch, Py_ssize_t index)
{
    const struct snow_group_info *info = (struct snow_group_info *)batch->items + index;

    return info_result(batch, info, info->by_key == 1, index);
}

static const struct operation operation_stat = {
    .item_size = sizeof(struct snow_group_info),
    .prepare = prepare_stat,
    .run = run_stat,
    .result = stat_result,
};

PyObject *store_group_stat(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "group_stat", 1, 1, {"group", "wait", "timeout", "by_key", "lease", "missing_from", NULL}};

    return operation_call(&operation_stat, &spec, false, self, args, count, names);
}

PyObject *store_group_stat_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    static const struct args_spec spec = {"group_stat_many",
                                          1,
                                          1,
                                          {"groups", "wait", "timeout", "by_key", "lease",
                                           "missing_from", NULL}};

    return operation_call(&operation_stat, &spec, true, self, args, count, names);
}

/* ---- removing ---- */

static bool prepare_remove(struct batch *batch, PyObject **values)
{
    return args_seconds(values[1], "timeout", &batch->call.deadline_ms) &&
           args_flag(values[2], SNOW_CALL_FORCE, &batch->call.flags) && batch_fill_items(batch);
}

static void run_remove(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch,
                 snow_group_remove(client, batch->items, (size_t)batch->count, &batch->call));
}

static const struct operation operation_remove = {
    .item_size = sizeof(struct snow_item),
    .prepare = prepare_remove,
    .run = run_remove,
    .result = batch_item_result,
};

PyObject *store_group_remove(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    static const struct args_spec spec = {
        "group_remove", 1, 1, {"group", "timeout", "force", NULL}};

    return operation_call(&operation_remove, &spec, false, self, args, count, names);
}

PyObject *store_group_remove_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names)
{
    static const struct args_spec spec = {
        "group_remove_many", 1, 1, {"groups", "timeout", "force", NULL}};

    return operation_call(&operation_remove, &spec, true, self, args, count, names);
}

/* ---- reading ---- */

/* A read of members: as many items as buffers, or as indexes. */
struct reading {
    struct store *store;
    struct snow_group_read group;
    struct snow_call call;
    struct snow_get *items;
    uint32_t *indexes;
    Py_ssize_t count;
    struct buffers buffers;
};

static void reading_deinit(struct reading *reading)
{
    for (Py_ssize_t i = 0; i < reading->count && reading->items != NULL; i++) {
        if (reading->items[i].room == 0 && reading->items[i].buffers == NULL)
            snow_free(reading->items[i].to); /* the library's */
    }
    PyMem_Free(reading->items);
    PyMem_Free(reading->indexes);
    if (reading->buffers.views != NULL)
        buffers_deinit(&reading->buffers);
}

static bool take_indexes(struct reading *reading, PyObject *value)
{
    PyObject *list;
    bool good = true;

    if (!args_is_given(value))
        return true;
    list = args_items(value, "indexes");
    if (list == NULL)
        return false;
    if (reading->count < 0)
        reading->count = PyTuple_Size(list);
    if (PyTuple_Size(list) != reading->count) {
        PyErr_Format(PyExc_ValueError, "%zd buffers, but %zd indexes", reading->count,
                     PyTuple_Size(list));
        good = false;
    }
    reading->indexes = PyMem_Calloc((size_t)reading->count + 1, sizeof(uint32_t));
    if (good && reading->indexes == NULL) {
        PyErr_NoMemory();
        good = false;
    }
    for (Py_ssize_t i = 0; i < reading->count && good; i++)
        good = args_uint32(PyTuple_GetItem(list, i), "indexes", &reading->indexes[i]);
    Py_DECREF(list);
    reading->group.indexes = reading->indexes;
    return good;
}

static bool take_items(struct reading *reading, PyObject *buffers)
{
    bool good = true;

    reading->items = PyMem_Calloc((size_t)reading->count + 1, sizeof(struct snow_get));
    if (reading->items == NULL) {
        PyErr_NoMemory();
        return false;
    }
    if (buffers == NULL)
        return true;
    good = buffers_init(&reading->buffers, reading->store->state, reading->count);
    for (Py_ssize_t i = 0; i < reading->count && good; i++) {
        struct snow_get *item = &reading->items[i];

        if (buffers_of(PyTuple_GetItem(buffers, i)) != 1) {
            PyErr_SetString(PyExc_ValueError, "buffers: one a member");
            return false;
        }
        good = buffers_add(&reading->buffers, PyTuple_GetItem(buffers, i), true, &item->to,
                           &item->room, &item->buffers, &item->buffer_count);
    }
    return good;
}

/* False with an exception. */
static bool read_group(struct reading *reading, PyObject *about)
{
    struct snow_client *client = store_enter(reading->store);
    enum snow_status status;
    char reason[256] = "";

    if (client == NULL)
        return false;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_group_get(client, &reading->group, reading->items, (size_t)reading->count,
                            &reading->call);
    if (status == SNOW_GROUP_BROKEN)
        snprintf(reason, sizeof(reason), "member %u", reading->group.broken);
    else
        snprintf(reason, sizeof(reason), "%s", snow_reason());
    Py_END_ALLOW_THREADS;
    store_leave(reading->store);
    if (status != SNOW_OK)
        error_raise(reading->store->state, status, reason, about);
    return status == SNOW_OK;
}

/* How many members the group has, when the caller does not say which. */
static bool ask_size(struct reading *reading, PyObject *about)
{
    struct snow_group_info info = {.id = reading->group.id};
    struct snow_client *client;
    enum snow_status status;

    if (reading->count >= 0)
        return true;
    client = store_enter(reading->store);
    if (client == NULL)
        return false;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_group_stat(client, &info, 1, &reading->call);
    Py_END_ALLOW_THREADS;
    store_leave(reading->store);
    if (status != SNOW_OK) {
        error_raise(reading->store->state, status, "", about);
        return false;
    }
    reading->count = info.size;
    if (info.size > 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "an open group is read by indexes");
    return false;
}

enum read_arg { READ_GROUP, READ_BUFFERS, READ_INDEXES, READ_HOLD, READ_TIMEOUT };

static bool begin_reading(struct reading *reading, PyObject *self, PyObject **values,
                          PyObject *buffers)
{
    *reading = (struct reading){.store = (struct store *)self,
                                .count = buffers == NULL ? -1 : PyTuple_Size(buffers)};
    return args_key(values[READ_GROUP], &reading->group.id) &&
           args_uint64(values[READ_HOLD], "hold", &reading->group.hold) &&
           args_seconds(values[READ_TIMEOUT], "timeout", &reading->call.deadline_ms) &&
           take_indexes(reading, values[READ_INDEXES]) && ask_size(reading, values[READ_GROUP]) &&
           take_items(reading, buffers) && read_group(reading, values[READ_GROUP]);
}

PyObject *store_group_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "group_get", 1, 1, {"group", "indexes", "hold", "timeout", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *sorted[ARGS_MAX];
    PyObject *list = NULL;
    struct reading reading = {0};

    if (!args_take(&spec, args, count, names, values))
        return NULL;
    sorted[READ_GROUP] = values[0];
    sorted[READ_INDEXES] = values[1];
    sorted[READ_HOLD] = values[2];
    sorted[READ_TIMEOUT] = values[3];
    if (begin_reading(&reading, self, sorted, NULL))
        list = PyList_New(reading.count);
    for (Py_ssize_t i = 0; i < reading.count && list != NULL; i++) {
        PyObject *bytes =
            PyBytes_FromStringAndSize(reading.items[i].to, (Py_ssize_t)reading.items[i].size);

        if (bytes == NULL || PyList_SetItem(list, i, bytes) < 0)
            Py_CLEAR(list);
    }
    reading_deinit(&reading);
    return list;
}

PyObject *store_group_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    static const struct args_spec spec = {
        "group_get_into", 2, 2, {"group", "buffers", "indexes", "hold", "timeout", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *buffers;
    PyObject *list = NULL;
    struct reading reading = {0};

    if (!args_take(&spec, args, count, names, values))
        return NULL;
    buffers = args_items(values[READ_BUFFERS], "buffers");
    if (buffers == NULL)
        return NULL;
    if (begin_reading(&reading, self, values, buffers))
        list = PyList_New(reading.count);
    for (Py_ssize_t i = 0; i < reading.count && list != NULL; i++) {
        PyObject *size = PyLong_FromSize_t(reading.items[i].size);

        if (size == NULL || PyList_SetItem(list, i, size) < 0)
            Py_CLEAR(list);
    }
    reading_deinit(&reading);
    Py_DECREF(buffers);
    return list;
}

/* ---- holding ---- */

static PyObject *run_hold(PyObject *self, struct snow_group_hold *hold, PyObject *about,
                          PyObject *timeout)
{
    struct store *store = (struct store *)self;
    struct snow_call call = {0};
    struct snow_client *client;
    enum snow_status status;

    if (!args_seconds(timeout, "timeout", &call.deadline_ms))
        return NULL;
    client = store_enter(store);
    if (client == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_group_hold(client, hold, &call);
    Py_END_ALLOW_THREADS;
    store_leave(store);
    if (status != SNOW_OK)
        return error_raise(store->state, status, "", about);
    return PyLong_FromUnsignedLongLong(hold->hold);
}

PyObject *store_group_hold(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "group_hold", 2, 2, {"group", "seconds", "timeout", NULL}};
    struct snow_group_hold hold = {0};
    PyObject *values[ARGS_MAX];

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &hold.id) ||
        !args_seconds(values[1], "seconds", &hold.for_ms))
        return NULL;
    return run_hold(self, &hold, values[0], values[2]);
}

PyObject *store_group_hold_join(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    static const struct args_spec spec = {
        "group_hold_join", 2, 2, {"hold", "seconds", "timeout", NULL}};
    struct snow_group_hold hold = {0};
    PyObject *values[ARGS_MAX];

    if (!args_take(&spec, args, count, names, values) ||
        !args_uint64(values[0], "hold", &hold.hold) ||
        !args_seconds(values[1], "seconds", &hold.for_ms))
        return NULL;
    return run_hold(self, &hold, values[0], values[2]);
}

/* True: it was there. */
PyObject *store_group_hold_leave(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names)
{
    static const struct args_spec spec = {"group_hold_leave", 1, 1, {"hold", "timeout", NULL}};
    struct store *store = (struct store *)self;
    struct snow_group_hold hold = {0};
    PyObject *values[ARGS_MAX];
    PyObject *left;

    if (!args_take(&spec, args, count, names, values) ||
        !args_uint64(values[0], "hold", &hold.hold))
        return NULL;
    left = run_hold(self, &hold, values[0], values[1]);
    if (left == NULL && PyErr_ExceptionMatches(store->state->errors[ERROR_GONE])) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    if (left == NULL)
        return NULL;
    Py_DECREF(left);
    Py_RETURN_TRUE;
}

/* ---- chains ---- */

static PyObject *runs_of(const struct snow_chain *chain, bool names)
{
    size_t told = chain->run_count < chain->run_room ? chain->run_count : chain->run_room;
    PyObject *runs = PyList_New((Py_ssize_t)told);

    for (size_t i = 0; i < told && runs != NULL; i++) {
        const struct snow_match_run *from = &chain->runs[i];
        PyObject *run = names ? Py_BuildValue("{s:I,s:I,s:I}", "node", from->node, "tier",
                                              from->tier, "count", from->count)
                              : Py_BuildValue("(III)", from->node, from->tier, from->count);

        if (run == NULL || PyList_SetItem(runs, (Py_ssize_t)i, run) < 0)
            Py_CLEAR(runs);
    }
    return runs;
}

static PyObject *nodes_of(const struct snow_chain *chain)
{
    size_t told = chain->node_count < chain->node_room ? chain->node_count : chain->node_room;
    PyObject *nodes = PyList_New((Py_ssize_t)told);

    for (size_t i = 0; i < told && nodes != NULL; i++) {
        const struct snow_match_node *from = &chain->nodes[i];
        PyObject *node = Py_BuildValue("{s:I,s:I,s:I,s:I,s:K}", "node", from->node, "tier",
                                       from->tier, "leading", from->leading, "blocks", from->blocks,
                                       "bytes", (unsigned long long)from->bytes);

        if (node == NULL || PyList_SetItem(nodes, (Py_ssize_t)i, node) < 0)
            Py_CLEAR(nodes);
    }
    return nodes;
}

/* A tuple; of a chain that asks for nodes, what JSON prints as it is. */
static PyObject *match_result(const struct snow_chain *chain)
{
    const char *stop = chain->stop == SNOW_OK ? NULL : snow_status_name(chain->stop);
    PyObject *runs = runs_of(chain, chain->nodes != NULL);
    PyObject *nodes;

    if (runs == NULL)
        return NULL;
    if (chain->nodes == NULL)
        return Py_BuildValue("(nsN)", (Py_ssize_t)chain->matched, stop, runs);
    nodes = nodes_of(chain);
    if (nodes == NULL) {
        Py_DECREF(runs);
        return NULL;
    }
    return Py_BuildValue("{s:n,s:n,s:s,s:N,s:N}", "blocks", (Py_ssize_t)chain->count, "matched",
                         (Py_ssize_t)chain->matched, "stop", stop, "runs", runs, "nodes", nodes);
}

enum match_arg { MATCH_KEYS, MATCH_GROUPS, MATCH_MEMBERS, MATCH_TOUCH, MATCH_LEASE, MATCH_TIMEOUT };

static bool take_chain(PyObject *keys, struct snow_chain *chain)
{
    struct snow_key *blocks;

    chain->count = (size_t)PyTuple_Size(keys);
    blocks = PyMem_Calloc(chain->count + 1, sizeof(*blocks));
    chain->blocks = blocks;
    chain->runs = PyMem_Calloc(chain->count + 1, sizeof(*chain->runs));
    chain->run_room = chain->count + 1;
    if (blocks == NULL || chain->runs == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < chain->count; i++) {
        if (!args_key(PyTuple_GetItem(keys, (Py_ssize_t)i), &blocks[i]))
            return false;
    }
    return true;
}

static PyObject *match(PyObject *self, const struct args_spec *spec, struct snow_match_node *nodes,
                       size_t node_room, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct store *store = (struct store *)self;
    struct snow_chain chain = {.nodes = nodes, .node_room = node_room};
    struct snow_call call = {0};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    PyObject *keys;
    struct snow_client *client = NULL;
    enum snow_status status = SNOW_OK;

    if (!args_take(spec, args, count, names, values))
        return NULL;
    keys = args_items(values[MATCH_KEYS], "keys");
    if (keys == NULL)
        return NULL;
    if (take_chain(keys, &chain) && args_flag(values[MATCH_GROUPS], 1, &chain.groups) &&
        args_uint32(values[MATCH_MEMBERS], "members", &chain.members) &&
        args_flag(values[MATCH_TOUCH], SNOW_CALL_TOUCH, &call.flags) &&
        args_flag(values[MATCH_LEASE], SNOW_CALL_LEASE, &call.flags) &&
        args_seconds(values[MATCH_TIMEOUT], "timeout", &call.deadline_ms))
        client = store_enter(store);
    if (client != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        status = snow_match_prefix(client, &chain, &call);
        Py_END_ALLOW_THREADS;
        store_leave(store);
        result = status == SNOW_OK ? match_result(&chain)
                                   : error_raise(store->state, status, snow_reason(), NULL);
    }
    PyMem_Free((void *)(uintptr_t)chain.blocks);
    PyMem_Free(chain.runs);
    Py_DECREF(keys);
    return result;
}

PyObject *store_match_prefix(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    static const struct args_spec spec = {
        "match_prefix", 1, 1, {"keys", "groups", "members", "touch", "lease", "timeout", NULL}};

    return match(self, &spec, NULL, 0, args, count, names);
}

PyObject *store_locate_prefix(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    static const struct args_spec spec = {
        "locate_prefix", 1, 1, {"keys", "groups", "members", "touch", "lease", "timeout", NULL}};
    struct snow_match_node *nodes = PyMem_Calloc(NODES_MAX, sizeof(*nodes));
    PyObject *result;

    if (nodes == NULL)
        return PyErr_NoMemory();
    result = match(self, &spec, nodes, NODES_MAX, args, count, names);
    PyMem_Free(nodes);
    return result;
}
