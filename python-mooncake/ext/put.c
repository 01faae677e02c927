/* Puts and upserts: of buffers, of pointers, of many pieces under one key.
 *
 * Waiting.  For room ROOM_MS, then it is "no space"; for another writer of the same key until the
 *           deadline: committed, it is there; failed, this put takes over. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MS 300
#define REPLICAS_MAX 16

enum soft_pin { SOFT_PIN_PRESERVE, SOFT_PIN_ENABLE, SOFT_PIN_DISABLE };

/* ---- the configuration ---------------------------------------------------------------------- */

static PyObject *attribute(PyObject *config, const char *name)
{
    PyObject *value = PyObject_GetAttrString(config, name);

    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Format(PyExc_TypeError,
                     "incompatible function arguments: config is no ReplicateConfig: %R", config);
    return value;
}

static bool attribute_number(PyObject *config, const char *name, uint64_t *to)
{
    PyObject *value = attribute(config, name);
    bool good = value != NULL && (value == Py_None || take_uint64(value, name, to));

    Py_XDECREF(value);
    return good;
}

/* 1, 0 or -1 as put_options_take. */
static int take_pins(PyObject *config, struct put_options *options)
{
    uint64_t hard = 0;
    uint64_t soft = SOFT_PIN_PRESERVE;
    uint64_t soft_ms = UINT64_MAX;

    if (!attribute_number(config, "with_hard_pin", &hard) ||
        !attribute_number(config, "soft_pin_action", &soft) ||
        !attribute_number(config, "soft_pin_ttl_ms", &soft_ms))
        return -1;
    if (soft_ms != UINT64_MAX && (soft != SOFT_PIN_ENABLE || soft_ms >= SNOW_PIN_CLUSTER))
        return 0; /* what the master lets be it says itself */
    if (hard != 0) {
        options->pin = SNOW_PIN_HARD;
    } else if (soft == SOFT_PIN_ENABLE) {
        options->pin = SNOW_PIN_SOFT;
        options->pin_ms = soft_ms == UINT64_MAX ? SNOW_PIN_CLUSTER
                          : soft_ms == 0        ? 1 /* 0 would be without an end */
                                                : (uint32_t)soft_ms;
    }
    return 1;
}

/* `preferred_segment`, else the first of `preferred_segments`, else none.  False with an
 * exception. */
static bool take_segment(PyObject *config, struct put_options *options)
{
    PyObject *segments;

    options->kept = attribute(config, "preferred_segment");
    if (options->kept == NULL)
        return false;
    if (PyObject_Size(options->kept) > 0)
        return args_text(options->kept, "preferred_segment", &options->segment);
    segments = attribute(config, "preferred_segments");
    if (segments == NULL)
        return false;
    if (PySequence_Size(segments) > 0) {
        Py_DECREF(options->kept);
        options->kept = PySequence_GetItem(segments, 0);
        if (options->kept != NULL)
            (void)args_text(options->kept, "preferred_segments", &options->segment);
    }
    Py_DECREF(segments);
    if (options->segment != NULL && options->segment[0] == 0)
        options->segment = NULL;
    return PyErr_Occurred() == NULL;
}

int put_options_take(PyObject *config, Py_ssize_t count, struct put_options *options)
{
    uint64_t replicas = 1;
    int good;

    *options = (struct put_options){.replicas = 1};
    if (!args_is_given(config))
        return 1;
    if (!attribute_number(config, "replica_num", &replicas))
        return -1;
    if (replicas == 0)
        return 0;
    good = take_pins(config, options);
    if (good == 1)
        good = members_take(config, count, &options->members);
    if (good != 1)
        return good;
    options->replicas = (uint8_t)(replicas < REPLICAS_MAX ? replicas : REPLICAS_MAX);
    if (take_segment(config, options))
        return 1;
    put_options_drop(options);
    return -1;
}

void put_options_drop(struct put_options *options)
{
    members_drop(&options->members);
    Py_CLEAR(options->kept);
}

void put_options_set(const struct put_options *options, Py_ssize_t index, struct snow_put *item)
{
    item->depth = SNOW_DEPTH_UNKNOWN;
    item->replicas = options->replicas;
    item->pin = options->pin;
    item->pin_ms = options->pin_ms;
    item->member = members_of(&options->members, index);
}

/* ---- the call ------------------------------------------------------------------------------- */

/* Those that another writer is at, once more.  How many there were. */
static size_t put_again(struct link *link, struct snow_put *items, size_t count,
                        const struct snow_call *call)
{
    struct snow_put *again;
    size_t waiting = 0;

    for (size_t i = 0; i < count; i++)
        waiting += items[i].status == SNOW_IN_PROGRESS;
    again = waiting == 0 ? NULL : malloc(waiting * sizeof(*again));
    if (again == NULL)
        return 0;
    waiting = 0;
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == SNOW_IN_PROGRESS)
            again[waiting++] = items[i];
    }
    (void)snow_put(link->client, again, waiting, call);
    waiting = 0;
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == SNOW_IN_PROGRESS)
            items[i].status = again[waiting++].status;
    }
    free(again);
    return waiting;
}

/* Without the interpreter lock. */
static void put_run(struct link *link, struct snow_put *items, size_t count, const char *segment)
{
    uint64_t bytes = 0;
    uint64_t until_ms = now_ms() + link->deadline_ms;
    struct snow_call call;

    for (size_t i = 0; i < count; i++)
        bytes += items[i].size;
    call = link_call(link, bytes);
    call.wait_ms = ROOM_MS;
    call.segment = segment;
    (void)snow_put(link->client, items, count, &call);
    while (now_ms() < until_ms && put_again(link, items, count, &call) > 0)
        ;
}

/* Puts items and sets a code for each.  The link may be NULL. */
static void put_items(struct link *link, struct snow_put *items, int64_t *codes, Py_ssize_t count,
                      const struct put_options *options)
{
    bool unreachable = false;

    Py_BEGIN_ALLOW_THREADS;
    put_run(link, items, (size_t)count, options->segment);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++) {
        codes[i] = code_of(items[i].status, KIND_PUT);
        if (codes[i] == 0) {
            link->written_bytes += items[i].size;
            link->written_count++;
        }
        unreachable = unreachable || items[i].status == SNOW_UNREACHABLE;
    }
    if (!unreachable || link_doubt(link))
        return;
    for (Py_ssize_t i = 0; i < count; i++) { /* its nodes, then: there is no room elsewhere */
        if (items[i].status == SNOW_UNREACHABLE)
            codes[i] = CODE_NO_SPACE;
    }
}

/* ---- of buffers ----------------------------------------------------------------------------- */

/* The memory of one value, of bytes of any type.  False with an exception. */
static bool value_take(PyObject *value, Py_buffer *view)
{
    if (PyObject_GetBuffer(value, view, PyBUF_SIMPLE) == 0)
        return true;
    if (!PyObject_CheckBuffer(value))
        PyErr_Format(PyExc_TypeError, "incompatible function arguments: value shows no buffer: %R",
                     Py_TYPE(value));
    return false;
}

/* A put of one key: a value, or parts of one.  Its code; -2 with an exception. */
static int64_t put_one(PyObject *self, PyObject *key, const struct snow_buffer *parts,
                       size_t part_count, PyObject *config, uint32_t replace)
{
    struct store *store = (struct store *)self;
    struct put_options options;
    struct snow_put item = {.buffers = parts, .buffer_count = part_count, .replace = replace};
    struct link *link;
    int64_t code = CODE_INVALID;
    int taken;

    for (size_t i = 0; i < part_count; i++)
        item.size += parts[i].size;
    if (!args_key(key, &item.key) || (taken = put_options_take(config, 1, &options)) < 0)
        return -2;
    link = link_take(store);
    if (link != NULL && taken == 1 && item.size <= link->local_bytes) {
        put_options_set(&options, 0, &item);
        put_items(link, &item, &code, 1, &options);
    }
    if (link != NULL)
        link_drop(link);
    put_options_drop(&options);
    return code;
}

static PyObject *code_or_error(int64_t code)
{
    return code == -2 ? NULL : PyLong_FromLongLong(code);
}

static PyObject *put_value(PyObject *self, PyObject **values, uint32_t replace)
{
    struct snow_buffer part;
    Py_buffer view;
    int64_t code;

    if (!value_take(values[1], &view))
        return NULL;
    part = (struct snow_buffer){.at = view.buf, .size = (size_t)view.len};
    code = part.size == 0 ? CODE_INVALID : put_one(self, values[0], &part, 1, values[2], replace);
    PyBuffer_Release(&view);
    return code_or_error(code);
}

PyObject *store_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"put", 2, 3, {"key", "value", "config", NULL}};
    PyObject *values[ARGS_MAX];

    return args_take(&spec, args, count, names, values) ? put_value(self, values, 0) : NULL;
}

PyObject *store_upsert(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {"upsert", 2, 3, {"key", "value", "config", NULL}};
    PyObject *values[ARGS_MAX];

    return args_take(&spec, args, count, names, values) ? put_value(self, values, 1) : NULL;
}

/* ---- of parts ---- */

/* Parts are rows of bytes, of any format of one byte.  False with an exception. */
static bool part_take(PyObject *part, Py_buffer *view)
{
    if (PyObject_GetBuffer(part, view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        if (!PyObject_CheckBuffer(part))
            PyErr_Format(PyExc_RuntimeError, "parts must be 1-D bytes-like, not %R", Py_TYPE(part));
        return false;
    }
    if (view->ndim == 1 && view->itemsize == 1 && PyBuffer_IsContiguous(view, 'C'))
        return true;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_RuntimeError, "parts must be 1-D bytes-like");
    return false;
}

static PyObject *put_parts(const char *function, PyObject *self, PyObject *const *args,
                           Py_ssize_t count, PyObject *names, uint32_t replace)
{
    const struct args_spec spec = {function, 0, 0, {"config", NULL}};
    PyObject *values[ARGS_MAX];
    struct memory memory;
    Py_ssize_t parts = count - 1;
    Py_ssize_t taken = 0;
    Py_buffer *views;
    struct snow_buffer *buffers;
    PyObject *result = NULL;

    if (count < 1) {
        PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments: key is missing",
                     function);
        return NULL;
    }
    if (!args_take(&spec, args + count, 0, names, values))
        return NULL;
    views =
        memory_take(&memory, (size_t)(parts + 1) * (sizeof(*views) + sizeof(struct snow_buffer)));
    if (views == NULL)
        return NULL;
    buffers = (struct snow_buffer *)(views + parts + 1);
    while (taken < parts && part_take(args[1 + taken], &views[taken])) {
        buffers[taken].at = views[taken].buf;
        buffers[taken].size = (size_t)views[taken].len;
        taken++;
    }
    if (taken == parts) /* nothing at all is an empty object */
        result = code_or_error(
            put_one(self, args[0], buffers, (size_t)(parts == 0 ? 1 : parts), values[0], replace));
    while (taken > 0)
        PyBuffer_Release(&views[--taken]);
    memory_drop(&memory);
    return result;
}

PyObject *store_put_parts(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return put_parts("put_parts", self, args, count, names, 0);
}

PyObject *store_upsert_parts(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    return put_parts("upsert_parts", self, args, count, names, 1);
}

/* ---- of many ---- */

/* The library is to refuse this item, and only this one. */
static void refuse(struct snow_put *item)
{
    item->key.size = 0;
}

/* A batch: its lists, its items with their codes, and what they are to be. */
struct puts {
    struct lists lists;
    struct memory memory;
    struct snow_put *items;
    int64_t *codes;
    struct put_options options;
    struct link *link;
    int taken; /* of the options: 1, 0 (invalid), -1 (exception) */
};

/* False with an exception; else puts_drop ends it. */
static bool puts_take(struct puts *puts, PyObject *self, PyObject **values,
                      const char *const *names, int lists)
{
    size_t count;

    puts->link = NULL;
    puts->options = (struct put_options){0};
    if (!lists_take(&puts->lists, values, names, lists))
        return false;
    count = (size_t)puts->lists.length;
    puts->items =
        memory_take(&puts->memory, (count + 1) * (sizeof(*puts->items) + sizeof(int64_t)));
    puts->taken = puts->items == NULL
                      ? -1
                      : put_options_take(values[lists], puts->lists.length, &puts->options);
    if (puts->taken < 0) {
        lists_drop(&puts->lists);
        if (puts->items != NULL)
            memory_drop(&puts->memory);
        return false;
    }
    puts->codes = (int64_t *)(puts->items + count + 1);
    puts->link = link_take((struct store *)self);
    for (size_t i = 0; i < count; i++)
        put_options_set(&puts->options, (Py_ssize_t)i, &puts->items[i]);
    return true;
}

static void puts_drop(struct puts *puts)
{
    if (puts->link != NULL)
        link_drop(puts->link);
    put_options_drop(&puts->options);
    memory_drop(&puts->memory);
    lists_drop(&puts->lists);
}

/* Whether there is anything to put. */
static bool puts_can(const struct puts *puts)
{
    return puts->link != NULL && puts->taken == 1 && puts->lists.equal;
}

static bool fill_key(struct puts *puts, Py_ssize_t index, uint32_t replace)
{
    puts->items[index].replace = replace;
    return args_key(PyTuple_GetItem(puts->lists.of[0], index), &puts->items[index].key);
}

/* Does it, and makes the list. */
static PyObject *puts_result(struct puts *puts)
{
    Py_ssize_t count = puts->lists.length;

    if (!puts_can(puts))
        return list_of_same(CODE_INVALID, count);
    if (count > 0)
        put_items(puts->link, puts->items, puts->codes, count, &puts->options);
    return list_of(puts->codes, count);
}

/* ---- put_batch, upsert_batch ---- */

/* Exports of all values; how many were taken, fewer with an exception. */
static Py_ssize_t take_values(struct puts *puts, Py_buffer *views, uint32_t replace)
{
    Py_ssize_t taken = 0;

    for (; taken < puts->lists.length; taken++) {
        Py_buffer *view = &views[taken];
        struct snow_put *item = &puts->items[taken];

        if (!value_take(PyTuple_GetItem(puts->lists.of[1], taken), view))
            break;
        if (!fill_key(puts, taken, replace)) {
            PyBuffer_Release(view);
            break;
        }
        item->from = view->buf;
        item->size = (size_t)view->len;
        if (item->size == 0 || item->size > puts->link->local_bytes)
            refuse(item);
    }
    return taken;
}

/* The first code that is not 0. */
static int64_t first_error(const struct puts *puts)
{
    for (Py_ssize_t i = 0; i < puts->lists.length; i++) {
        if (puts->codes[i] != 0)
            return puts->codes[i];
    }
    return 0;
}

static int64_t put_values(struct puts *puts, uint32_t replace)
{
    struct memory memory;
    Py_buffer *views;
    Py_ssize_t taken;
    int64_t code = -2;

    if (!puts_can(puts))
        return CODE_INVALID;
    views = memory_take(&memory, (size_t)(puts->lists.length + 1) * sizeof(*views));
    if (views == NULL)
        return -2;
    taken = take_values(puts, views, replace);
    if (taken == puts->lists.length) {
        if (taken > 0)
            put_items(puts->link, puts->items, puts->codes, taken, &puts->options);
        code = first_error(puts);
    }
    while (taken > 0)
        PyBuffer_Release(&views[--taken]);
    memory_drop(&memory);
    return code;
}

static PyObject *put_batch(const char *function, PyObject *self, PyObject *const *args,
                           Py_ssize_t count, PyObject *names, uint32_t replace)
{
    const struct args_spec spec = {function, 2, 3, {"keys", "values", "config", NULL}};
    PyObject *values[ARGS_MAX];
    struct puts puts;
    int64_t code;

    if (!args_take(&spec, args, count, names, values) ||
        !puts_take(&puts, self, values, spec.names, 2))
        return NULL;
    code = put_values(&puts, replace);
    puts_drop(&puts);
    return code_or_error(code);
}

PyObject *store_put_batch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return put_batch("put_batch", self, args, count, names, 0);
}

PyObject *store_upsert_batch(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names)
{
    return put_batch("upsert_batch", self, args, count, names, 1);
}

/* ---- of pointers ---------------------------------------------------------------------------- */

static bool fill_pointer(PyObject *pointer, PyObject *size, struct snow_put *item)
{
    uint64_t at = 0;
    uint64_t bytes = 0;

    if (!take_uint64(pointer, "buffer_ptr", &at) || !take_uint64(size, "size", &bytes))
        return false;
    item->from = (const void *)(uintptr_t)at;
    item->size = bytes;
    if (at == 0 && bytes > 0)
        refuse(item);
    return true;
}

static PyObject *put_from(const char *function, PyObject *self, PyObject *const *args,
                          Py_ssize_t count, PyObject *names, uint32_t replace)
{
    const struct args_spec spec = {function, 3, 4, {"key", "buffer_ptr", "size", "config", NULL}};
    PyObject *values[ARGS_MAX];
    struct put_options options;
    struct snow_put item = {.replace = replace};
    struct link *link;
    int64_t code = CODE_INVALID;
    int taken;

    if (!args_take(&spec, args, count, names, values) || !args_key(values[0], &item.key) ||
        !fill_pointer(values[1], values[2], &item))
        return NULL;
    taken = put_options_take(values[3], 1, &options);
    if (taken < 0)
        return NULL;
    put_options_set(&options, 0, &item);
    link = link_take((struct store *)self);
    if (link != NULL && taken == 1)
        put_items(link, &item, &code, 1, &options);
    if (link != NULL)
        link_drop(link);
    put_options_drop(&options);
    return PyLong_FromLongLong(code);
}

PyObject *store_put_from(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return put_from("put_from", self, args, count, names, 0);
}

PyObject *store_upsert_from(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names)
{
    return put_from("upsert_from", self, args, count, names, 1);
}

static PyObject *batch_put_from(const char *function, PyObject *self, PyObject *const *args,
                                Py_ssize_t count, PyObject *names, uint32_t replace)
{
    const struct args_spec spec = {
        function, 3, 4, {"keys", "buffer_ptrs", "sizes", "config", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    struct puts puts;
    bool good = true;

    if (!args_take(&spec, args, count, names, values) ||
        !puts_take(&puts, self, values, spec.names, 3))
        return NULL;
    for (Py_ssize_t i = 0; i < puts.lists.length && good && puts_can(&puts); i++)
        good = fill_key(&puts, i, replace) &&
               fill_pointer(PyTuple_GetItem(puts.lists.of[1], i),
                            PyTuple_GetItem(puts.lists.of[2], i), &puts.items[i]);
    if (good)
        result = puts_result(&puts);
    puts_drop(&puts);
    return result;
}

PyObject *store_batch_put_from(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names)
{
    return batch_put_from("batch_put_from", self, args, count, names, 0);
}

PyObject *store_batch_upsert_from(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names)
{
    return batch_put_from("batch_upsert_from", self, args, count, names, 1);
}

/* ---- of pieces ---- */

/* An item of the pieces that the two inner lists tell.  False with an exception. */
static bool fill_pieces(struct puts *puts, Py_ssize_t index, struct pieces *pieces,
                        uint32_t replace)
{
    struct snow_put *item = &puts->items[index];

    if (!fill_key(puts, index, replace))
        return false;
    switch (pieces_next(pieces, index, &item->buffers, &item->buffer_count, &item->size)) {
    case 0:
        refuse(item);
        return true;
    case 1:
        return true;
    default:
        return false;
    }
}

static PyObject *batch_put_pieces(const char *function, PyObject *self, PyObject *const *args,
                                  Py_ssize_t count, PyObject *names, uint32_t replace)
{
    const struct args_spec spec = {
        function, 3, 4, {"keys", "all_buffer_ptrs", "all_sizes", "config", NULL}};
    PyObject *values[ARGS_MAX];
    PyObject *result = NULL;
    struct pieces pieces = {0};
    struct puts puts;
    bool good;

    if (!args_take(&spec, args, count, names, values) ||
        !puts_take(&puts, self, values, spec.names, 3))
        return NULL;
    good = !puts_can(&puts) || pieces_take(&pieces, puts.lists.of[1], puts.lists.of[2]);
    for (Py_ssize_t i = 0; i < puts.lists.length && good && puts_can(&puts); i++)
        good = fill_pieces(&puts, i, &pieces, replace);
    if (good)
        result = puts_result(&puts);
    pieces_drop(&pieces);
    puts_drop(&puts);
    return result;
}

PyObject *store_batch_put_from_multi_buffers(PyObject *self, PyObject *const *args,
                                             Py_ssize_t count, PyObject *names)
{
    return batch_put_pieces("batch_put_from_multi_buffers", self, args, count, names, 0);
}

PyObject *store_batch_upsert_from_multi_buffers(PyObject *self, PyObject *const *args,
                                                Py_ssize_t count, PyObject *names)
{
    return batch_put_pieces("_batch_upsert_from_multi_buffers", self, args, count, names, 1);
}
