/* Store: opening and closing, questions, and the table of its methods. */
#include "batch.h"
#include "exists.h"
#include "groups.h"
#include "hints.h"
#include "move.h"

#include <stdio.h>
#include <string.h>

/* ---- opening and closing -------------------------------------------------------------------- */

enum open_arg {
    OPEN_MASTER,
    OPEN_TOKEN,
    OPEN_NAME,
    OPEN_TIMEOUT,
    OPEN_WAIT,
    OPEN_GUARD,
    OPEN_VERIFY,
    OPEN_TRANSPORT,
    OPEN_SEGMENT_SIZE,
    OPEN_SEGMENT_NAME,
    OPEN_SEGMENT_DOMAIN,
    OPEN_SEGMENT_LISTEN,
    OPEN_SEGMENT_POPULATE,
    OPEN_LOCAL_FIRST,
    OPEN_COPY_THREADS,
    OPEN_CHECKSUM,
    OPEN_KEY_RULES,
    OPEN_KEY_PATTERN,
    OPEN_KEY_MEMBERS,
    OPEN_ARGS
};

static const char *const transports[] = {"any", "tcp", "shm", NULL};

static const char *const populates[] = {"ahead", "all", NULL};

/* The memory that this process is to give; what is said of it without a size is a mistake. */
static bool take_segment(PyObject **values, struct snow_segment *segment,
                         struct snow_options *options)
{
    if (!args_uint64(values[OPEN_SEGMENT_SIZE], "segment_size", &segment->size) ||
        !args_text(values[OPEN_SEGMENT_NAME], "segment_name", &segment->name) ||
        !args_text(values[OPEN_SEGMENT_DOMAIN], "segment_domain", &segment->domain) ||
        !args_text(values[OPEN_SEGMENT_LISTEN], "segment_listen", &segment->listen) ||
        !args_choice(values[OPEN_SEGMENT_POPULATE], "segment_populate", populates,
                     &segment->populate))
        return false;
    if (segment->size != 0) {
        options->segment = segment;
        return true;
    }
    if (segment->name == NULL && segment->domain == NULL && segment->listen == NULL &&
        segment->populate == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "segment_size is missing: its name, domain, listen and "
                                      "populate tell of a segment");
    return false;
}

/* True, False, or "everywhere". */
static bool take_verify(PyObject *value, uint32_t *verify)
{
    static const char *const choices[] = {"nothing", "others", "everywhere", NULL};
    int is_true;

    if (value == NULL || PyUnicode_Check(value))
        return args_choice(value, "verify", choices, verify);
    is_true = PyObject_IsTrue(value);
    if (is_true < 0)
        return false;
    *verify = is_true ? SNOW_VERIFY_OTHERS : SNOW_VERIFY_NOTHING;
    return true;
}

static bool take_key_rules(PyObject **values, struct snow_key_rules *rules,
                           struct snow_options *options)
{
    static const char *const choices[] = {"off", "sglang", "vllm", "lmcache", "custom", NULL};

    options->key_rules = rules;
    return args_choice(values[OPEN_KEY_RULES], "key_rules", choices, &rules->rule) &&
           args_text(values[OPEN_KEY_PATTERN], "key_pattern", &rules->pattern) &&
           args_uint32(values[OPEN_KEY_MEMBERS], "key_members", &rules->members);
}

static bool take_options(PyObject *args, PyObject *keywords, struct snow_options *options,
                         struct snow_segment *segment, struct snow_key_rules *rules)
{
    /* In the order of enum open_arg. */
    static char *names[] = {"master",
                            "token",
                            "name",
                            "timeout",
                            "wait",
                            "guard",
                            "verify",
                            "transport",
                            "segment_size",
                            "segment_name",
                            "segment_domain",
                            "segment_listen",
                            "segment_populate",
                            "local_first",
                            "copy_threads",
                            "checksum",
                            "key_rules",
                            "key_pattern",
                            "key_members",
                            NULL};
    PyObject *values[OPEN_ARGS] = {NULL};
    PyObject **at = values;
    uint32_t checksum = 0;

    snow_options_init(options);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OOOOOOOOOOOOOOOOOO", names, at, at + 1,
                                     at + 2, at + 3, at + 4, at + 5, at + 6, at + 7, at + 8, at + 9,
                                     at + 10, at + 11, at + 12, at + 13, at + 14, at + 15, at + 16,
                                     at + 17, at + 18))
        return false;
    if (!take_verify(values[OPEN_VERIFY], &options->verify) ||
        !args_flag(values[OPEN_CHECKSUM], 1, &checksum))
        return false;
    options->no_checksum = values[OPEN_CHECKSUM] != NULL && checksum == 0;
    return args_text(values[OPEN_MASTER], "master", &options->master) &&
           args_text(values[OPEN_TOKEN], "token", &options->token) &&
           args_text(values[OPEN_NAME], "name", &options->name) &&
           args_seconds(values[OPEN_TIMEOUT], "timeout", &options->deadline_ms) &&
           args_seconds(values[OPEN_WAIT], "wait", &options->wait_ms) &&
           args_seconds(values[OPEN_GUARD], "guard", &options->guard_ms) &&
           args_choice(values[OPEN_TRANSPORT], "transport", transports, &options->transport) &&
           args_flag(values[OPEN_LOCAL_FIRST], 1, &options->local_first) &&
           args_uint32(values[OPEN_COPY_THREADS], "copy_threads", &options->copy_threads) &&
           take_key_rules(values, rules, options) && take_segment(values, segment, options);
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    struct state *state = state_of_type(type);
    struct snow_options options;
    struct snow_segment segment = {0};
    struct snow_key_rules rules = {0};
    struct snow_client *client = NULL;
    const char *reason = NULL;
    enum snow_status status;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct store *store;

    if (state == NULL || !take_options(args, keywords, &options, &segment, &rules))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_open(&options, &client, &reason);
    Py_END_ALLOW_THREADS;
    if (status != SNOW_OK)
        return error_raise(state, status, reason, NULL);
    store = (struct store *)allocate(type, 0);
    if (store == NULL) {
        snow_close(client);
        return NULL;
    }
    store->state = state;
    store->client = client;
    return (PyObject *)store;
}

/* With the interpreter lock: views end under it too, so that none does meanwhile. */
static void close_client(struct store *store)
{
    struct snow_client *client = store->client;

    store->client = NULL;
    snow_close(client);
    memory_release_all(store);
}

struct snow_client *store_enter(struct store *store)
{
    if (store->client == NULL || store->closing) {
        error_raise(store->state, SNOW_CLOSED, "the store is closed", NULL);
        return NULL;
    }
    store->calls++;
    return store->client;
}

void store_leave(struct store *store)
{
    if (--store->calls == 0 && store->closing)
        close_client(store);
}

static PyObject *store_close(PyObject *self, PyObject *unused)
{
    struct store *store = (struct store *)self;

    (void)unused;
    store->closing = true;
    if (store->calls == 0)
        close_client(store);
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    close_client((struct store *)self);
    release(self);
    Py_DECREF(type);
}

static PyObject *store_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return store_close(self, NULL);
}

static PyObject *store_self(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    const struct store *store = (struct store *)self;

    (void)unused;
    return PyBool_FromLong(store->client == NULL || store->closing);
}

static PyObject *get_segment(PyObject *self, void *unused)
{
    struct store *store = (struct store *)self;
    struct snow_client *client = store_enter(store);
    struct snow_hosted hosted;
    enum snow_status status;

    (void)unused;
    if (client == NULL)
        return NULL;
    status = snow_hosted(client, &hosted);
    PyObject *made =
        status == SNOW_OK
            ? Py_BuildValue("{s:K,s:K,s:s,s:K,s:O}", "size", (unsigned long long)hosted.size,
                            "ready", (unsigned long long)hosted.ready, "address", hosted.address,
                            "incarnation", (unsigned long long)hosted.incarnation, "mounted",
                            hosted.mounted ? Py_True : Py_False)
            : NULL;

    store_leave(store);
    if (status == SNOW_NOT_FOUND)
        Py_RETURN_NONE;
    return status == SNOW_OK ? made : error_raise(store->state, status, snow_reason(), NULL);
}

/* ---- remove, pin ---------------------------------------------------------------------------- */

enum remove_arg { REMOVE_KEY, REMOVE_TIMEOUT, REMOVE_FORCE, REMOVE_GROUP };

static void run_remove(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_remove(client, batch->items, (size_t)batch->count, &batch->call));
}

static bool prepare_remove(struct batch *batch, PyObject **values)
{
    return args_seconds(values[REMOVE_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
           args_flag(values[REMOVE_FORCE], SNOW_CALL_FORCE, &batch->call.flags) &&
           args_flag(values[REMOVE_GROUP], SNOW_CALL_GROUP, &batch->call.flags) &&
           batch_fill_items(batch);
}

static enum snow_status submit_remove(struct batch *batch, struct snow_queue *queue, uint64_t tag)
{
    return snow_submit_remove(queue, batch->items, (size_t)batch->count, &batch->call, tag);
}

const struct operation operation_remove = {
    .item_size = sizeof(struct snow_item),
    .prepare = prepare_remove,
    .run = run_remove,
    .submit = submit_remove,
    .result = batch_item_result,
};

static PyObject *store_remove(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    static const struct args_spec spec = {
        "remove", 1, 1, {"key", "timeout", "force", "group", NULL}};

    return operation_call(&operation_remove, &spec, false, self, args, count, names);
}

static PyObject *store_remove_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                   PyObject *names)
{
    static const struct args_spec spec = {
        "remove_many", 1, 1, {"keys", "timeout", "force", "group", NULL}};

    return operation_call(&operation_remove, &spec, true, self, args, count, names);
}

/* remove_match("all" | "prefix" | "regex", pattern): how many. */
enum match_arg { MATCH_KIND, MATCH_PATTERN, MATCH_TIMEOUT, MATCH_FORCE, MATCH_GROUP };

static PyObject *store_remove_match(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                    PyObject *names)
{
    static const char *const kinds[] = {"all", "prefix", "regex", NULL};
    static const struct args_spec spec = {
        "remove_match", 2, 2, {"kind", "pattern", "timeout", "force", "group", NULL}};
    struct store *store = (struct store *)self;
    PyObject *values[ARGS_MAX];
    struct snow_key pattern;
    struct snow_matched matched = {0};
    struct snow_call call = {0};
    struct snow_client *client;
    enum snow_status status;
    uint32_t kind = 0;

    if (!args_take(&spec, args, count, names, values) ||
        !args_choice(values[MATCH_KIND], "kind", kinds, &kind) ||
        !args_key(values[MATCH_PATTERN], &pattern) ||
        !args_seconds(values[MATCH_TIMEOUT], "timeout", &call.deadline_ms) ||
        !args_flag(values[MATCH_FORCE], SNOW_CALL_FORCE, &call.flags) ||
        !args_flag(values[MATCH_GROUP], SNOW_CALL_GROUP, &call.flags))
        return NULL;
    client = store_enter(store);
    if (client == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = snow_remove_match(client, (enum snow_match)kind, pattern, &call, &matched);
    Py_END_ALLOW_THREADS;
    store_leave(store);
    if (snow_status_verdict(status) != SNOW_DONE)
        return error_raise(store->state, status,
                           matched.reason[0] != 0 ? matched.reason : snow_reason(),
                           values[MATCH_PATTERN]);
    return PyLong_FromUnsignedLongLong(matched.removed);
}

enum pin_arg { PIN_KEY, PIN_KIND, PIN_FOR, PIN_TIMEOUT };

static void run_pin(struct batch *batch, struct snow_client *client)
{
    batch_reason(batch, snow_pin(client, batch->items, (size_t)batch->count,
                                 (enum snow_pin)batch->pin, batch->pin_ms, &batch->call));
}

static bool prepare_pin(struct batch *batch, PyObject **values)
{
    batch->pin = SNOW_PIN_SOFT;
    return args_choice(values[PIN_KIND], "kind", pin_names, &batch->pin) &&
           args_seconds(values[PIN_FOR], "duration", &batch->pin_ms) &&
           args_seconds(values[PIN_TIMEOUT], "timeout", &batch->call.deadline_ms) &&
           batch_fill_items(batch);
}

static const struct operation operation_pin = {
    .item_size = sizeof(struct snow_item),
    .prepare = prepare_pin,
    .run = run_pin,
    .result = batch_item_result,
};

static PyObject *store_pin(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "pin", 1, 2, {"key", "kind", "duration", "timeout", NULL}};

    return operation_call(&operation_pin, &spec, false, self, args, count, names);
}

static PyObject *store_pin_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    static const struct args_spec spec = {
        "pin_many", 1, 2, {"keys", "kind", "duration", "timeout", NULL}};

    return operation_call(&operation_pin, &spec, true, self, args, count, names);
}

/* ---- what is there -------------------------------------------------------------------------- */

/* Rows that come while the lock is released. */
struct rows {
    PyThreadState *thread;
    PyObject *to;
};

/* Adds a row that `make` makes with the lock; 1 to stop: an exception is set. */
static int add_row(struct rows *rows, PyObject *(*make)(const void *row), const void *row)
{
    int failed;

    PyEval_RestoreThread(rows->thread);
    PyObject *made = make(row);

    failed = made == NULL || PyList_Append(rows->to, made) < 0;
    Py_XDECREF(made);
    rows->thread = PyEval_SaveThread();
    return failed;
}

static PyObject *make_listed(const void *row)
{
    const struct snow_listed *listed = row;

    return Py_BuildValue("(y#K)", listed->key.at, (Py_ssize_t)listed->key.size,
                         (unsigned long long)listed->size);
}

static int on_listed(void *owner, const struct snow_listed *row)
{
    return add_row(owner, make_listed, row);
}

static PyObject *make_node(const void *row)
{
    const struct snow_node *node = row;

    return Py_BuildValue("{s:I,s:s,s:s,s:s,s:K,s:K,s:K}", "number", node->number, "state",
                         node->state, "address", node->address, "name", node->name, "size",
                         (unsigned long long)node->size, "used", (unsigned long long)node->used,
                         "closing", (unsigned long long)node->closing);
}

static int on_node(void *owner, const struct snow_node *row)
{
    return add_row(owner, make_node, row);
}

struct value {
    const char *name;
    uint64_t number;
};

static PyObject *make_value(const void *row)
{
    const struct value *value = row;

    return Py_BuildValue("(sK)", value->name, (unsigned long long)value->number);
}

static int on_value(void *owner, const char *name, uint64_t number)
{
    struct value value = {.name = name, .number = number};

    return add_row(owner, make_value, &value);
}

enum rows_kind { ROWS_LIST, ROWS_NODES, ROWS_STATS };

static PyObject *ask_rows(PyObject *self, PyObject *prefix, enum rows_kind kind)
{
    struct store *store = (struct store *)self;
    struct rows rows = {.to = NULL};
    struct snow_key key = {.at = "", .size = 0};
    enum snow_status status;
    struct snow_client *client;

    if (prefix != NULL && !args_key(prefix, &key))
        return NULL;
    client = store_enter(store);
    rows.to = client == NULL ? NULL : PyList_New(0);
    if (rows.to == NULL) {
        if (client != NULL)
            store_leave(store);
        return NULL;
    }
    rows.thread = PyEval_SaveThread();
    status = kind == ROWS_LIST    ? snow_list(client, key, on_listed, &rows, NULL)
             : kind == ROWS_NODES ? snow_nodes(client, on_node, &rows, NULL)
                                  : snow_stats(client, on_value, &rows, NULL);
    PyEval_RestoreThread(rows.thread);
    store_leave(store);
    if (PyErr_Occurred() == NULL && status == SNOW_OK)
        return rows.to;
    Py_DECREF(rows.to);
    return PyErr_Occurred() != NULL ? NULL : error_raise(store->state, status, snow_reason(), NULL);
}

static PyObject *store_list(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    static const struct args_spec spec = {"list", 0, 1, {"prefix", NULL}};
    PyObject *values[ARGS_MAX];

    return args_take(&spec, args, count, names, values) ? ask_rows(self, values[0], ROWS_LIST)
                                                        : NULL;
}

static PyObject *store_nodes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return ask_rows(self, NULL, ROWS_NODES);
}

static PyObject *store_stats(PyObject *self, PyObject *unused)
{
    PyObject *rows = ask_rows(self, NULL, ROWS_STATS);
    PyObject *stats = rows == NULL ? NULL : PyDict_New();

    (void)unused;
    if (stats != NULL && PyDict_MergeFromSeq2(stats, rows, 1) < 0)
        Py_CLEAR(stats);
    Py_XDECREF(rows);
    return stats;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define MANY \
    "\n\nAnswers a list, one a key, in order; an item that failed is an exception there, which " \
    "is\n" \
    "not raised."

static PyMethodDef methods[] = {
    {"put", FAST(store_put),
     "put(key, value, *, replace=False, replicas=1, pin=None, pin_timeout=None, depth=None,\n"
     "    segment=None, wait=None, wait_writer=True, timeout=None, priority=0,\n"
     "    expires_after=None, done=False, member=None)\n--\n\n"
     "Store a value: any buffer (bytes, numpy array, CPU tensor), or a list of buffers one after\n"
     "the other. True: stored; False: the key has a value already. member: a snowskin.Member, "
     "when\n"
     "it is part of a group; then False: the key is in that group already, and counts as present;\n"
     "None: it has a value, but in another group or in none, and stays there."},
    {"put_many", FAST(store_put_many),
     "put_many(keys, values, *, replace=False, replicas=1, pin=None, pin_timeout=None,\n"
     "         depth=None, segment=None, wait=None, wait_writer=True, timeout=None, priority=0,\n"
     "         expires_after=None, done=False, member=None)\n--\n\n"
     "put() of many; depth is the first one's position along a chain." MANY},
    {"get", FAST(store_get),
     "get(key, *, timeout=None)\n--\n\nThe value as bytes; None: there is none."},
    {"get_many", FAST(store_get_many),
     "get_many(keys, *, timeout=None, unordered=False)\n--\n\nget() of many." MANY},
    {"get_into", FAST(store_get_into),
     "get_into(key, buffer, *, timeout=None, unordered=False, offset=0, length=0)\n--\n\n"
     "Read into a writable buffer, or a list of them: how many bytes; None: there is no value.\n"
     "With offset and length (0: to the end) a part of it."},
    {"get_into_many", FAST(store_get_into_many),
     "get_into_many(keys, buffers, *, timeout=None, unordered=False)\n--\n\n"
     "get_into() of many." MANY},
    {"view", FAST(store_view),
     "view(key, *, timeout=None)\n--\n\n"
     "The value where it lies, without a copy when that is on this host; None: there is none."},
    {"view_many", FAST(store_view_many),
     "view_many(keys, *, timeout=None, unordered=False)\n--\n\nview() of many." MANY},
    {"exists", FAST(store_exists),
     "exists(key, *, timeout=None, unordered=False, touch=False, lease=False, group=False)\n--\n\n"
     "Whether there is a value. touch: makes it young; lease: keeps it from eviction for a while.\n"
     "group: (whether there is one, its group as group_stat(key, by_key=True) tells it without\n"
     "`missing`), at one instant; the lease is on the whole group then."},
    {"exists_many", FAST(store_exists_many),
     "exists_many(keys, *, timeout=None, unordered=False, touch=False, lease=False,\n"
     "            group=False)\n--\n\n"
     "exists() of many." MANY},
    {"size", FAST(store_size),
     "size(key, *, timeout=None)\n--\n\nBytes of the value; None: there is none."},
    {"size_many", FAST(store_size_many),
     "size_many(keys, *, timeout=None)\n--\n\nsize() of many." MANY},
    {"remove", FAST(store_remove),
     "remove(key, *, timeout=None, force=False, group=False)\n--\n\n"
     "True: removed, and it will not come back; False: there was none. force: guarded ones too.\n"
     "group: with its group, all members of it."},
    {"remove_many", FAST(store_remove_many),
     "remove_many(keys, *, timeout=None, force=False, group=False)\n--\n\nremove() of many." MANY},
    {"remove_match", FAST(store_remove_match),
     "remove_match(kind, pattern, *, timeout=None, force=False, group=False)\n--\n\n"
     "Remove by pattern: kind is 'all', 'prefix' or 'regex'. How many were removed. group: "
     "members\n"
     "with their groups, whatever the keys of the others are."},
    {"pin", FAST(store_pin),
     "pin(key, kind='soft', *, duration=None, timeout=None)\n--\n\n"
     "kind: 'soft' (evicted last, for a duration in seconds), 'hard' (never), 'none'.\n"
     "False: there is no value."},
    {"pin_many", FAST(store_pin_many),
     "pin_many(keys, kind='soft', *, duration=None, timeout=None)\n--\n\npin() of many." MANY},
    {"touch", FAST(store_touch),
     "touch(key, *, priority=None, expires_after=None, lasts=False, done=False, timeout=None)\n"
     "--\n\n"
     "Count a use, and tell how long the value is worth keeping: priority 0 to 7 (evicted later\n"
     "than all of lower ones), expires_after (seconds from now; use does not extend it), lasts\n"
     "(no end any more), done (this chain is not continued: first to go, until it is used).\n"
     "False: there is no value."},
    {"touch_many", FAST(store_touch_many),
     "touch_many(keys, *, priority=None, expires_after=None, lasts=False, done=False,\n"
     "           timeout=None)\n--\n\n"
     "touch() of many, in the order of their chain." MANY},
    {"expire", FAST(store_expire),
     "expire(key, after, *, timeout=None)\n--\n\n"
     "End a value after so many seconds, 0: at once, None: not any more. No use is counted.\n"
     "False: there is no value."},
    {"expire_many", FAST(store_expire_many),
     "expire_many(keys, after, *, timeout=None)\n--\n\nexpire() of many." MANY},
    {"register", store_register, METH_O,
     "register(buffer)\n--\n\n"
     "A hint: this memory will be used again and again. It stays alive until unregister()."},
    {"unregister", store_unregister, METH_O,
     "unregister(buffer)\n--\n\nWaits for calls that use it."},
    {"list", FAST(store_list),
     "list(prefix='')\n--\n\n(key, size) of all objects whose keys begin so, in no order."},
    {"nodes", store_nodes, METH_NOARGS, "nodes()\n--\n\nThe nodes of the cluster, a dict each."},
    {"stats", store_stats, METH_NOARGS, "stats()\n--\n\nThe master's counters by name."},
    {"group_stat", FAST(store_group_stat),
     "group_stat(group, *, wait=None, timeout=None, by_key=False, lease=False,\n"
     "           missing_from=0)\n--\n\n"
     "What a group is, as a dict; None: there is none. wait: seconds for one that is being formed\n"
     "to be complete."},
    {"group_stat_many", FAST(store_group_stat_many),
     "group_stat_many(groups, *, wait=None, timeout=None, by_key=False, lease=False,\n"
     "                missing_from=0)\n--\n\ngroup_stat() of many."},
    {"group_get", FAST(store_group_get),
     "group_get(group, *, indexes=None, hold=0, timeout=None)\n--\n\n"
     "The members of one version of a group, all or those of ascending indexes, as a list of\n"
     "bytes. NotFoundError, NotReadyError, GroupBrokenError, ChangedError: none of them."},
    {"group_get_into", FAST(store_group_get_into),
     "group_get_into(group, buffers, *, indexes=None, hold=0, timeout=None)\n--\n\n"
     "group_get() into writable buffers, one a member: their sizes."},
    {"group_hold", FAST(store_group_hold),
     "group_hold(group, seconds, *, timeout=None)\n--\n\n"
     "Keep this version of a group from eviction, for at most 30 s: the number of the hold, which\n"
     "other processes can join."},
    {"group_hold_join", FAST(store_group_hold_join),
     "group_hold_join(hold, seconds, *, timeout=None)\n--\n\nJoin a hold, or renew it."},
    {"group_hold_leave", FAST(store_group_hold_leave),
     "group_hold_leave(hold, *, timeout=None)\n--\n\n"
     "The hold ends with the last that leaves it. False: it had ended."},
    {"group_remove", FAST(store_group_remove),
     "group_remove(group, *, timeout=None, force=False)\n--\n\n"
     "Remove a group whole. False: there was none. force: also when a member is guarded."},
    {"group_remove_many", FAST(store_group_remove_many),
     "group_remove_many(groups, *, timeout=None, force=False)\n--\n\ngroup_remove() of many."},
    {"match_prefix", FAST(store_match_prefix),
     "match_prefix(keys, *, groups=False, members=0, touch=False, lease=False, timeout=None)\n"
     "--\n\n"
     "How much of a chain is there: (leading blocks, what the next one is or None, runs of\n"
     "(node, tier, count)). With groups the keys are ids of groups."},
    {"locate_prefix", FAST(store_locate_prefix),
     "locate_prefix(keys, *, groups=False, members=0, touch=False, lease=False, timeout=None)\n"
     "--\n\n"
     "The same as a dict, for JSON: blocks (asked for), matched, stop, runs, and nodes: of each "
     "how\n"
     "many leading blocks are whole there, how many in all, and bytes; most leading ones first."},
    {"close", store_close, METH_NOARGS,
     "close()\n--\n\nEnd; calls of other threads that are under way end first. Views stay."},
    {"__enter__", store_self, METH_NOARGS, NULL},
    {"__exit__", store_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef members[] = {
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {"segment", get_segment, NULL,
     "The memory that this store gives to the cluster: size, ready (committed so far), address,\n"
     "incarnation, mounted (the master has it). None: it gives none.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Store(master='127.0.0.1:7600', *, token=None, name=None, timeout=5.0, wait=None, "
     "guard=None,\n"
     "      verify=True, transport='any', segment_size=0, segment_name=None,\n"
     "      segment_domain=None, segment_listen=None, segment_populate='ahead',\n"
     "      local_first=False, copy_threads=0, checksum=True, key_rules='off',\n"
     "      key_pattern=None, key_members=0)\n--\n\n"
     "A connection to a cluster. Any number of threads may use one at once.\n\n"
     "timeout: seconds a call may take, if it names none. wait: of those, how long a put waits "
     "for\n"
     "room or another writer. guard: seconds for which what was found can not be removed without\n"
     "force. verify: compare checksums of what comes from other hosts ('everywhere': from this\n"
     "one too). checksum: False: puts within the host compute none. transport: 'any', 'tcp' or\n"
     "'shm'. segment_size: bytes that this process gives to the cluster until close(), committed\n"
     "as they are needed ('ahead') or all; segment_listen: where other hosts reach them,\n"
     "'127.0.0.1:0' if not given. local_first: puts go to this process's segment, else to one of "
     "this\n"
     "host, while these can take them. copy_threads: that a large copy is split over; 0: 4, or as\n"
     "many as there are CPUs. key_rules: groups by the keys of an engine that names none:\n"
     "'sglang', 'vllm', 'lmcache', or 'custom' with key_pattern, a regular expression for the "
     "whole\n"
     "key with fields (?<part>...) that differ between members, or (?<id>...); key_members: of "
     "each\n"
     "group, 0: they are open. Keys are str (as UTF-8) or bytes, 1 to 4096 bytes. Errors:\n"
     "snowskin.Error and its subclasses."},
    {Py_tp_new, store_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "snowskin.Store",
    .basicsize = sizeof(struct store),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

PyTypeObject *store_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
