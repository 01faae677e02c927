/* Links to a cluster: opening, ending, and a master that is gone.
 *
 * A master that is gone costs the first call PATIENCE_MS and later ones nothing: each call says so
 * (snow_call.patience_ms).  Nobody may call for a long time then, and the library works only while
 * somebody does; so a thread asks, without that patience, until the master has answered. */
#include "core.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS 400
#define OPEN_MS 4500
#define PROBE_MS 300             /* a turn of the probe: how long close may wait for it */
#define BYTES_PER_MS 200000      /* that any way of moving them makes */
#define QUESTION_MS 450          /* of health_check */
#define DEADLINE_MS_MAX 86400000 /* a day */

struct snow_call link_call(const struct link *link, uint64_t bytes)
{
    uint64_t more_ms = bytes / BYTES_PER_MS;

    if (more_ms > DEADLINE_MS_MAX)
        more_ms = DEADLINE_MS_MAX;
    return (struct snow_call){.deadline_ms = link->deadline_ms + (uint32_t)more_ms,
                              .patience_ms = PATIENCE_MS};
}

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the probe ------------------------------------------------------------------------------ */

static enum snow_status ask(struct link *link, uint32_t deadline_ms, uint32_t patience_ms)
{
    struct snow_stat item = {.key = {.at = "?", .size = 1}};
    struct snow_call call = {.deadline_ms = deadline_ms, .patience_ms = patience_ms};

    (void)snow_exists(link->client, &item, 1, &call);
    return item.status == SNOW_NOT_FOUND || item.status == SNOW_UNKNOWN ? SNOW_OK : item.status;
}

static void *probe(void *owner)
{
    struct link *link = owner;

    while (!atomic_load(&link->stop)) {
        struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};

        if (ask(link, PROBE_MS, 0) == SNOW_OK)
            break;
        nanosleep(&pause, NULL);
    }
    atomic_store(&link->lost, false);
    return NULL;
}

static void probe_start(struct link *link)
{
    sigset_t all, before;

    if (link->probing)
        pthread_join(link->probe, NULL); /* it has ended, or is about to */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&link->lost, true);
    link->probing = pthread_create(&link->probe, NULL, probe, link) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!link->probing)
        atomic_store(&link->lost, false);
}

bool link_doubt(struct link *link)
{
    enum snow_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = ask(link, QUESTION_MS, PATIENCE_MS);
    Py_END_ALLOW_THREADS;
    if (status == SNOW_OK)
        return false;
    if (!atomic_load(&link->lost))
        probe_start(link);
    return true;
}

/* ---- use ------------------------------------------------------------------------------------ */

struct link *link_take(struct store *store)
{
    if (store->link != NULL)
        store->link->users++;
    return store->link;
}

void link_drop(struct link *link)
{
    if (--link->users > 0)
        return;
    Py_BEGIN_ALLOW_THREADS;
    atomic_store(&link->stop, true);
    if (link->probing)
        pthread_join(link->probe, NULL);
    snow_close(link->client);
    Py_END_ALLOW_THREADS;
    free(link);
}

/* ---- opening and closing -------------------------------------------------------------------- */

enum open_arg {
    OPEN_MASTER,
    OPEN_TOKEN,
    OPEN_NAME,
    OPEN_SEGMENT_SIZE,
    OPEN_SEGMENT_NAME,
    OPEN_SEGMENT_LISTEN,
    OPEN_LOCAL_BYTES,
    OPEN_DEADLINE_MS,
    OPEN_KEY_RULES,
    OPEN_KEY_PATTERN,
    OPEN_KEY_MEMBERS
};

static bool take_options(PyObject **values, struct snow_options *options,
                         struct snow_segment *segment, struct snow_key_rules *rules,
                         struct link *link)
{
    snow_options_init(options);
    options->key_rules = rules;
    options->deadline_ms = OPEN_MS;
    options->guard_ms = SNOW_GUARD_CLUSTER;
    options->local_first = 1;
    if (!args_text(values[OPEN_MASTER], "master", &options->master) ||
        !args_text(values[OPEN_TOKEN], "token", &options->token) ||
        !args_text(values[OPEN_NAME], "name", &options->name) ||
        !args_uint64(values[OPEN_SEGMENT_SIZE], "segment_size", &segment->size) ||
        !args_text(values[OPEN_SEGMENT_NAME], "segment_name", &segment->name) ||
        !args_text(values[OPEN_SEGMENT_LISTEN], "segment_listen", &segment->listen) ||
        !args_uint64(values[OPEN_LOCAL_BYTES], "local_bytes", &link->local_bytes) ||
        !args_uint32(values[OPEN_DEADLINE_MS], "deadline_ms", &link->deadline_ms) ||
        !args_uint32(values[OPEN_KEY_RULES], "key_rules", &rules->rule) ||
        !args_text(values[OPEN_KEY_PATTERN], "key_pattern", &rules->pattern) ||
        !args_uint32(values[OPEN_KEY_MEMBERS], "key_members", &rules->members))
        return false;
    if (segment->size != 0)
        options->segment = segment;
    return true;
}

/* _open(...): (status, reason).  What was open before is let go of after that. */
PyObject *store_open(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct args_spec spec = {
        "_open",
        11,
        11,
        {"master", "token", "name", "segment_size", "segment_name", "segment_listen", "local_bytes",
         "deadline_ms", "key_rules", "key_pattern", "key_members", NULL}};
    struct store *store = (struct store *)self;
    PyObject *values[ARGS_MAX];
    struct snow_options options;
    struct snow_segment segment = {0};
    struct snow_key_rules rules = {0};
    const char *reason = "out of memory";
    enum snow_status status = SNOW_NO_MEMORY;
    struct link *before = store->link;
    struct link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return PyErr_NoMemory();
    if (!args_take(&spec, args, count, names, values) ||
        !take_options(values, &options, &segment, &rules, link)) {
        free(link);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = snow_open(&options, &link->client, &reason);
    Py_END_ALLOW_THREADS;
    store->failed = status != SNOW_OK;
    if (status != SNOW_OK) {
        free(link);
        return Py_BuildValue("(is)", (int)status, reason);
    }
    link->users = 1;
    before = store->link; /* another thread may have been quicker */
    store->link = link;
    if (before != NULL)
        link_drop(before);
    return Py_BuildValue("(is)", 0, "");
}

PyObject *store_close(PyObject *self, PyObject *unused)
{
    struct store *store = (struct store *)self;
    struct link *link = store->link;

    (void)unused;
    store->link = NULL;
    store->failed = false;
    if (link != NULL)
        link_drop(link);
    return PyLong_FromLong(0);
}

PyObject *store_health(PyObject *self, PyObject *unused)
{
    struct link *link = link_take((struct store *)self);
    bool lost;

    (void)unused;
    if (link == NULL)
        return PyLong_FromLong(1);
    lost = link_doubt(link);
    link_drop(link);
    return PyLong_FromLong(lost ? 2 : 0);
}

/* _hosted(): (size, address) of the segment that this store gives, or None. */
PyObject *store_hosted(PyObject *self, PyObject *unused)
{
    struct link *link = link_take((struct store *)self);
    struct snow_hosted hosted;
    PyObject *made = NULL;

    (void)unused;
    if (link != NULL && snow_hosted(link->client, &hosted) == SNOW_OK)
        made = Py_BuildValue("(Ks)", (unsigned long long)hosted.size, hosted.address);
    if (link != NULL)
        link_drop(link);
    if (made == NULL && PyErr_Occurred() == NULL)
        Py_RETURN_NONE;
    return made;
}

/* _counters(): bytes and objects that were read, and written; hidden answers of is_exist. */
PyObject *store_counters(PyObject *self, PyObject *unused)
{
    const struct link *link = ((struct store *)self)->link;
    static const struct link none;

    (void)unused;
    if (link == NULL)
        link = &none;
    return Py_BuildValue("(KKKKK)", (unsigned long long)link->read_bytes,
                         (unsigned long long)link->read_count,
                         (unsigned long long)link->written_bytes,
                         (unsigned long long)link->written_count,
                         (unsigned long long)((struct store *)self)->hidden);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

struct rows {
    PyThreadState *thread;
    PyObject *to;
};

static int on_node(void *owner, const struct snow_node *node)
{
    struct rows *rows = owner;
    PyObject *row;
    int failed;

    PyEval_RestoreThread(rows->thread);
    row = Py_BuildValue("(IsssKK)", node->number, node->state, node->name, node->address,
                        (unsigned long long)node->size, (unsigned long long)node->used);
    failed = row == NULL || PyList_Append(rows->to, row) < 0;
    Py_XDECREF(row);
    rows->thread = PyEval_SaveThread();
    return failed;
}

/* _nodes(): [(number, state, name, address, size, used)]; None: not known now. */
PyObject *store_nodes(PyObject *self, PyObject *unused)
{
    struct link *link = link_take((struct store *)self);
    struct rows rows = {.to = NULL};
    enum snow_status status = SNOW_CLOSED;

    (void)unused;
    if (link == NULL)
        Py_RETURN_NONE;
    rows.to = PyList_New(0);
    if (rows.to != NULL) {
        struct snow_call call = link_call(link, 0);

        rows.thread = PyEval_SaveThread();
        status = snow_nodes(link->client, on_node, &rows, &call);
        PyEval_RestoreThread(rows.thread);
    }
    link_drop(link);
    if (PyErr_Occurred() != NULL) {
        Py_XDECREF(rows.to);
        return NULL;
    }
    if (status == SNOW_OK)
        return rows.to;
    Py_DECREF(rows.to);
    Py_RETURN_NONE;
}
