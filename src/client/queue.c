/* Queues: operations without a thread that waits for them.
 *
 * Problem.  An engine wants to go on computing while pages are on their way, and to use the first
 *           ones before the last have come; an event loop wants a descriptor, no thread.
 * Idea.     A submission is an operation of client.h that lives here.  As its items end,
 *           completions go into a ring from which polls take them.  A poll turns the client's loop
 *           when nobody does; in between a beacon tells that there is something to do.
 * Invariants.
 *   Q1  taken = items of submissions that have no completion yet + completions in the ring, at most
 *       depth: the ring has always room.
 *   Q2  Each item of a submission gets one completion; the last one comes when the operation has
 *       ended.
 *   Q3  The beacon is lit while completions are in the ring.
 *   Q4  A submission is freed by who ends it, unless a cancel is on its way: then by that.
 * Threads.  Any.  The client's mutex guards what says so; the rest is the loop's.
 */
#include "client/queue.h"

#include "base/assert.h"
#include "client/inside.h"
#include "client/turns.h"

#include <stdatomic.h>
#include <stdlib.h>

#define DEPTH 4096u

struct snow_queue {
    struct turns_beacon beacon; /* first; in client->beacons: mutex */
    struct snow_client *client;
    size_t depth;
    size_t taken;                 /* mutex */
    struct snow_completion *ring; /* mutex: depth of them */
    size_t first;                 /* mutex: index of the oldest */
    size_t count;                 /* mutex: completions in it */
    struct list submissions;      /* mutex */
    struct list pollers;          /* mutex; struct poller that wait */

    /* With SNOW_QUEUE_THREAD. */
    struct env_loop *helper; /* its thread runs help() once */
    struct env_task help;
    struct ticket turn; /* the helper's, while it waits for the role */
    atomic_bool stop;
    struct env_task nudge; /* to the client's loop */
};

struct poller {
    struct ticket ticket;
    struct list_link link; /* in queue->pollers */
};

struct submission;

struct kind {
    uint32_t flags; /* SNOW_CALL_* that it knows */
    void (*set_items)(struct submission *submission, void *items);
    void (*start)(struct submission *submission);
    void (*cancel)(struct submission *submission);
    enum snow_status (*status)(const struct submission *submission, uint32_t index);
};

struct submission {
    const struct kind *kind;
    struct snow_queue *queue;
    struct list_link link; /* in queue->submissions; mutex */
    uint64_t tag;
    struct env_task start;
    struct env_task cancel;
    bool cancelled; /* mutex: `cancel` is posted */
    bool ended;     /* and finds it so */
    uint32_t count;
    uint32_t told_count;
    struct snow_call call;
    char segment[LIMIT_NAME_SIZE + 1];
    union {
        struct client_put_op put;
        struct client_get_op get;
        struct client_exists_op exists;
        struct client_keys_op keys;
        struct client_write_op write;
    } op;
    bool told[]; /* one an item */
};

struct snow_queue *queue_of(struct list_link *link)
{
    return list_entry(list_entry(link, struct turns_beacon, link), struct snow_queue, beacon);
}

/* ---- completions ---------------------------------------------------------------------------- */

static void push(struct submission *submission, uint32_t index, bool last)
{
    struct snow_queue *queue = submission->queue;

    ASSERT(queue->count < queue->depth);
    queue->ring[(queue->first + queue->count++) % queue->depth] =
        (struct snow_completion){.tag = submission->tag,
                                 .index = index,
                                 .status = submission->kind->status(submission, index),
                                 .last = last};
    submission->told[index] = true;
    submission->told_count++;
    env_beacon_light(queue->beacon.beacon, true);
    while (!list_is_empty(&queue->pollers)) {
        struct poller *poller = list_entry(list_pop(&queue->pollers), struct poller, link);

        turns_wake(&poller->ticket);
    }
}

/* An item has ended.  The last one is told when the operation has. */
static void tell(struct submission *submission, uint32_t index)
{
    struct env_mutex *mutex = submission->queue->client->mutex;

    if (submission->told_count + 1 == submission->count)
        return;
    env_mutex_lock(mutex);
    push(submission, index, false);
    env_mutex_unlock(mutex);
}

/* The operation has ended. */
static void end(struct submission *submission)
{
    struct snow_queue *queue = submission->queue;
    bool posted;

    env_mutex_lock(queue->client->mutex);
    for (uint32_t i = 0; i < submission->count; i++) {
        if (!submission->told[i])
            push(submission, i, submission->told_count + 1 == submission->count);
    }
    list_remove(&submission->link);
    queue->client->under_way--;
    submission->ended = true;
    posted = submission->cancelled;
    env_mutex_unlock(queue->client->mutex);
    if (!posted)
        free(submission);
}

/* ---- kinds ---------------------------------------------------------------------------------- */

#define SUBMISSION(name, pointer) list_entry(pointer, struct submission, op.name)

/* on_<name>_item, on_<name>_done, set_<name>, cancel_<name>, status_<name> of an operation
 * client_<name>_op that is op.<name>. */
#define KIND(name) \
    static void on_##name##_item(struct client_##name##_op *op, uint32_t index) \
    { \
        tell(SUBMISSION(name, op), index); \
    } \
    static void on_##name##_done(struct client_##name##_op *op) \
    { \
        end(SUBMISSION(name, op)); \
    } \
    static void set_##name(struct submission *submission, void *items) \
    { \
        submission->op.name.items = items; \
        submission->op.name.count = submission->count; \
        submission->op.name.on_item = on_##name##_item; \
        submission->op.name.on_done = on_##name##_done; \
    } \
    static void cancel_##name(struct submission *submission) \
    { \
        client_##name##_cancel(&submission->op.name); \
    } \
    static enum snow_status status_##name(const struct submission *submission, uint32_t index) \
    { \
        return submission->op.name.items[index].status; \
    }

KIND(put)
KIND(get)
KIND(exists)
KIND(keys)
KIND(write)

static void start_put(struct submission *submission)
{
    client_put_start(submission->queue->client->client, &submission->op.put, &submission->call);
}

static void start_get(struct submission *submission)
{
    client_get_start(submission->queue->client->client, &submission->op.get, &submission->call);
}

static void start_exists(struct submission *submission)
{
    client_exists_start(submission->queue->client->client, &submission->op.exists,
                        &submission->call);
}

static void start_remove(struct submission *submission)
{
    client_remove_start(submission->queue->client->client, &submission->op.keys, &submission->call);
}

static void start_write(struct submission *submission)
{
    client_write_start(submission->queue->client->client, &submission->op.write, &submission->call);
}

static const struct kind put_kind = {.flags = SNOW_CALL_NO_WAIT_WRITER,
                                     .set_items = set_put,
                                     .start = start_put,
                                     .cancel = cancel_put,
                                     .status = status_put};
static const struct kind get_kind = {.flags = SNOW_CALL_UNORDERED,
                                     .set_items = set_get,
                                     .start = start_get,
                                     .cancel = cancel_get,
                                     .status = status_get};
static const struct kind exists_kind = {.flags = SNOW_CALL_UNORDERED | SNOW_CALL_TOUCH |
                                                 SNOW_CALL_LEASE | TURNS_GROUPS,
                                        .set_items = set_exists,
                                        .start = start_exists,
                                        .cancel = cancel_exists,
                                        .status = status_exists};
static const struct kind remove_kind = {.flags = SNOW_CALL_FORCE | SNOW_CALL_GROUP,
                                        .set_items = set_keys,
                                        .start = start_remove,
                                        .cancel = cancel_keys,
                                        .status = status_keys};

static const struct kind write_kind = {
    .set_items = set_write, .start = start_write, .cancel = cancel_write, .status = status_write};

/* ---- submitting ----------------------------------------------------------------------------- */

static void on_start(struct env_task *task)
{
    struct submission *submission = list_entry(task, struct submission, start);

    submission->kind->start(submission);
}

/* Ends a submission early, unless it has ended meanwhile. */
static void on_cancel(struct env_task *task)
{
    struct submission *submission = list_entry(task, struct submission, cancel);

    if (!submission->ended) {
        submission->kind->cancel(submission);
        end(submission);
    }
    free(submission);
}

/* NULL: out of memory. */
static struct submission *submission_create(struct snow_queue *queue, const struct kind *kind,
                                            size_t count, const struct snow_call *call,
                                            uint64_t tag)
{
    struct submission *submission = calloc(1, sizeof(*submission) + count * sizeof(bool));

    if (submission == NULL)
        return NULL;
    submission->kind = kind;
    submission->queue = queue;
    submission->tag = tag;
    submission->count = (uint32_t)count;
    submission->start.on_event = on_start;
    submission->cancel.on_event = on_cancel;
    if (call != NULL)
        submission->call = *call;
    if (submission->call.segment != NULL) {
        memcpy(submission->segment, call->segment, strlen(call->segment));
        submission->call.segment = submission->segment;
    }
    return submission;
}

/* OK, or why nothing can be submitted so; the reason is set. */
static enum snow_status check(const struct snow_queue *queue, const struct kind *kind, size_t count,
                              const struct snow_call *call)
{
    enum snow_status status = turns_check(queue->client, call, kind->flags);

    if (status != SNOW_OK)
        return status;
    if (count == 0 || count > queue->depth) {
        turns_reason_set("items: none, or more than the queue's depth");
        return SNOW_INVALID;
    }
    if (call != NULL && call->segment != NULL && strlen(call->segment) > LIMIT_NAME_SIZE) {
        turns_reason_set("segment: a name has at most 256 bytes");
        return SNOW_INVALID;
    }
    return SNOW_OK;
}

/* Takes it in, and works for a moment: what has to be sent leaves at once. */
static enum snow_status submit(struct submission *submission)
{
    struct snow_queue *queue = submission->queue;
    struct snow_client *client = queue->client;
    bool leads;

    env_mutex_lock(client->mutex);
    if (submission->count > queue->depth - queue->taken) {
        env_mutex_unlock(client->mutex);
        free(submission);
        turns_reason_set("the queue is full: poll it");
        return SNOW_BUSY;
    }
    queue->taken += submission->count;
    client->under_way++;
    list_push(&queue->submissions, &submission->link);
    leads = !client->turning;
    client->turning = true;
    env_mutex_unlock(client->mutex);
    if (!leads) {
        env_loop_post(client->loop, &submission->start);
        return SNOW_OK;
    }
    submission->kind->start(submission);
    turns_turn(client, 0);
    env_mutex_lock(client->mutex);
    turns_pass(client);
    env_mutex_unlock(client->mutex);
    return SNOW_OK;
}

/* writer: of a write, else NULL. */
static enum snow_status submit_items(struct snow_queue *queue, const struct kind *kind,
                                     struct client_writer *writer, void *items, size_t count,
                                     const struct snow_call *call, uint64_t tag)
{
    enum snow_status status = check(queue, kind, count, call);
    struct submission *submission;

    if (status != SNOW_OK)
        return status;
    submission = submission_create(queue, kind, count, call, tag);
    if (submission == NULL) {
        turns_reason_set("out of memory");
        return SNOW_NO_MEMORY;
    }
    kind->set_items(submission, items);
    if (writer != NULL)
        submission->op.write.writer = writer;
    return submit(submission);
}

enum snow_status snow_submit_put(struct snow_queue *queue, struct snow_put *items, size_t count,
                                 const struct snow_call *call, uint64_t tag)
{
    return submit_items(queue, &put_kind, NULL, items, count, call, tag);
}

enum snow_status snow_submit_get(struct snow_queue *queue, struct snow_get *items, size_t count,
                                 const struct snow_call *call, uint64_t tag)
{
    return submit_items(queue, &get_kind, NULL, items, count, call, tag);
}

enum snow_status snow_submit_exists(struct snow_queue *queue, struct snow_stat *items, size_t count,
                                    const struct snow_call *call, uint64_t tag)
{
    return submit_items(queue, &exists_kind, NULL, items, count, call, tag);
}

enum snow_status snow_submit_remove(struct snow_queue *queue, struct snow_item *items, size_t count,
                                    const struct snow_call *call, uint64_t tag)
{
    return submit_items(queue, &remove_kind, NULL, items, count, call, tag);
}

enum snow_status snow_submit_write(struct snow_queue *queue, struct snow_writer *writer,
                                   struct snow_write *items, size_t count,
                                   const struct snow_call *call, uint64_t tag)
{
    if (writer->client != queue->client) {
        turns_reason_set("the writer is another client's than the queue");
        return SNOW_INVALID;
    }
    return submit_items(queue, &write_kind, writer->writer, items, count, call, tag);
}

/* ---- polling -------------------------------------------------------------------------------- */

static size_t take(struct snow_queue *queue, struct snow_completion *completions, size_t max)
{
    size_t count = 0;

    while (count < max && queue->count > 0) {
        completions[count++] = queue->ring[queue->first];
        queue->first = (queue->first + 1) % queue->depth;
        queue->count--;
    }
    queue->taken -= count;
    if (queue->count == 0)
        env_beacon_light(queue->beacon.beacon, false);
    return count;
}

/* Waits for completions while somebody else turns the loop; *leads: nobody does any more.  The
 * mutex is held. */
static enum snow_status wait_in_line(struct snow_queue *queue, uint64_t until_ns, bool *leads)
{
    struct poller poller = {.ticket = {.client = queue->client}};
    enum snow_status status = turns_queue(&poller.ticket);

    if (status != SNOW_OK)
        return status;
    list_push(&queue->pollers, &poller.link);
    *leads = turns_sit(&poller.ticket, until_ns);
    if (list_is_linked(&poller.link))
        list_remove(&poller.link);
    return SNOW_OK;
}

/* Works, or waits, until there are completions or the time has come; works at least once when
 * nobody else does.  The mutex is held. */
static enum snow_status wait_for_completions(struct snow_queue *queue, uint64_t until_ns)
{
    struct snow_client *client = queue->client;
    uint64_t now_ns = env_now_ns(client->env);
    enum snow_status status = SNOW_OK;
    bool leads = !client->turning;
    bool looked = false;

    client->turning = true;
    while (status == SNOW_OK && ((leads && !looked) || (queue->count == 0 && now_ns < until_ns))) {
        if (leads) {
            bool wait = queue->count == 0 && now_ns < until_ns;

            env_mutex_unlock(client->mutex);
            turns_turn(client, !wait ? 0 : until_ns == UINT64_MAX ? UINT64_MAX : until_ns - now_ns);
            env_mutex_lock(client->mutex);
            looked = true;
        } else {
            status = wait_in_line(queue, until_ns, &leads);
        }
        now_ns = env_now_ns(client->env);
    }
    if (leads)
        turns_pass(client);
    else
        env_beacon_arm(queue->beacon.beacon, UINT64_MAX); /* who turns sees to it */
    return status;
}

enum snow_status snow_queue_poll(struct snow_queue *queue, struct snow_completion *completions,
                                 size_t max, uint32_t timeout_ms, size_t *count)
{
    struct snow_client *client = queue->client;
    enum snow_status status = turns_check(client, NULL, 0);
    uint64_t until_ns = UINT64_MAX;

    *count = 0;
    if (status != SNOW_OK)
        return status;
    if (max == 0) {
        turns_reason_set("max: no room for a completion");
        return SNOW_INVALID;
    }
    if (timeout_ms != UINT32_MAX)
        until_ns = env_now_ns(client->env) + timeout_ms * NS_PER_MS;
    env_mutex_lock(client->mutex);
    if (queue->count < max)
        status = wait_for_completions(queue, until_ns);
    *count = take(queue, completions, max);
    env_mutex_unlock(client->mutex);
    if (*count > 0)
        return SNOW_OK;
    return status == SNOW_OK ? SNOW_TIMEOUT : status;
}

/* ---- cancelling ----------------------------------------------------------------------------- */

/* Turns once if nobody does: what was posted runs. */
static void work(struct snow_client *client)
{
    bool leads;

    env_mutex_lock(client->mutex);
    leads = !client->turning;
    client->turning = true;
    env_mutex_unlock(client->mutex);
    if (!leads)
        return;
    turns_turn(client, 0);
    env_mutex_lock(client->mutex);
    turns_pass(client);
    env_mutex_unlock(client->mutex);
}

enum snow_status snow_queue_cancel(struct snow_queue *queue, uint64_t tag)
{
    struct snow_client *client = queue->client;
    enum snow_status status = turns_check(client, NULL, 0);
    bool found = false;

    if (status != SNOW_OK)
        return status;
    env_mutex_lock(client->mutex);
    list_each (&queue->submissions, link, next) {
        struct submission *submission = list_entry(link, struct submission, link);

        if (submission->tag != tag || submission->cancelled)
            continue;
        found = true;
        submission->cancelled = true;
        env_loop_post(client->loop, &submission->cancel); /* behind its start */
    }
    env_mutex_unlock(client->mutex);
    if (found)
        work(client);
    return found ? SNOW_OK : SNOW_NOT_FOUND;
}

/* ---- the helper ----------------------------------------------------------------------------- */

/* Turns the loop until the queue ends. */
static void help(struct env_task *task)
{
    struct snow_queue *queue = list_entry(task, struct snow_queue, help);
    struct snow_client *client = queue->client;
    bool leads;

    env_mutex_lock(client->mutex);
    leads = !client->turning;
    client->turning = true;
    while (!atomic_load(&queue->stop)) {
        if (!leads) {
            if (turns_queue(&queue->turn) != SNOW_OK)
                break; /* without memory nobody helps; polls work all the same */
            leads = turns_sit(&queue->turn, UINT64_MAX);
            continue;
        }
        env_mutex_unlock(client->mutex);
        turns_turn(client, UINT64_MAX);
        env_mutex_lock(client->mutex);
    }
    if (leads)
        turns_pass(client);
    env_mutex_unlock(client->mutex);
}

static void on_nudge(struct env_task *task)
{
    (void)task; /* the loop has turned */
}

static enum snow_status helper_open(struct snow_queue *queue)
{
    enum snow_status status = env_loop_create(queue->client->env, "snow-queue", &queue->helper);

    if (status != SNOW_OK)
        return status;
    queue->turn.client = queue->client;
    queue->help.on_event = help;
    queue->nudge.on_event = on_nudge;
    status = env_loop_start(queue->helper);
    if (status == SNOW_OK) {
        env_loop_post(queue->helper, &queue->help);
    } else {
        env_loop_destroy(queue->helper);
        queue->helper = NULL;
    }
    return status;
}

static void helper_close(struct snow_queue *queue)
{
    struct snow_client *client = queue->client;

    if (queue->helper == NULL)
        return;
    env_mutex_lock(client->mutex);
    atomic_store(&queue->stop, true);
    turns_wake(&queue->turn);
    env_mutex_unlock(client->mutex);
    env_loop_post(client->loop, &queue->nudge);
    env_loop_stop(queue->helper);
    env_loop_join(queue->helper);
    env_loop_destroy(queue->helper);
}

/* ---- life ----------------------------------------------------------------------------------- */

static enum snow_status check_options(const struct snow_client *client,
                                      const struct snow_queue_options *options)
{
    enum snow_status status = turns_check(client, NULL, 0);

    if (status != SNOW_OK)
        return status;
    if (options->depth <= LIMIT_QUEUE_ITEMS && (options->flags & ~SNOW_QUEUE_THREAD) == 0 &&
        CLIENT_RESERVED(options) == SNOW_OK)
        return SNOW_OK;
    turns_reason_set("options: a depth above 1048576, or what this library does not know");
    return SNOW_INVALID;
}

enum snow_status snow_queue_create(struct snow_client *client,
                                   const struct snow_queue_options *given, struct snow_queue **made)
{
    struct snow_queue_options options = given == NULL ? (struct snow_queue_options){0} : *given;
    enum snow_status status = check_options(client, &options);
    struct snow_queue *queue;

    if (status != SNOW_OK)
        return status;
    queue = calloc(1, sizeof(*queue));
    turns_reason_set("out of memory, descriptors or threads");
    if (queue == NULL)
        return SNOW_NO_MEMORY;
    queue->client = client;
    queue->depth = options.depth == 0 ? DEPTH : options.depth;
    list_init(&queue->submissions);
    list_init(&queue->pollers);
    queue->ring = calloc(queue->depth, sizeof(*queue->ring));
    status = queue->ring == NULL ? SNOW_NO_MEMORY
                                 : env_beacon_create(client->loop, &queue->beacon.beacon);
    if (status == SNOW_OK && (options.flags & SNOW_QUEUE_THREAD) != 0)
        status = helper_open(queue);
    if (status != SNOW_OK) {
        if (queue->beacon.beacon != NULL)
            env_beacon_destroy(queue->beacon.beacon);
        free(queue->ring);
        free(queue);
        return status;
    }
    turns_reason_set("");
    env_mutex_lock(client->mutex);
    list_push(&client->beacons, &queue->beacon.link);
    env_mutex_unlock(client->mutex);
    *made = queue;
    return SNOW_OK;
}

int snow_queue_fd(const struct snow_queue *queue)
{
    return env_beacon_descriptor(queue->beacon.beacon);
}

struct sweep {
    struct ticket ticket;
    struct env_task task;
    struct snow_queue *queue;
};

/* All that was posted for the queue has run: nothing names its submissions any more. */
static void on_sweep(struct env_task *task)
{
    struct sweep *sweep = list_entry(task, struct sweep, task);
    struct list_link *link;

    while ((link = list_first(&sweep->queue->submissions)) != NULL) {
        struct submission *submission = list_entry(link, struct submission, link);

        submission->kind->cancel(submission);
        end(submission);
    }
    turns_done(&sweep->ticket);
}

static void start_sweep(struct ticket *ticket)
{
    struct sweep *sweep = list_entry(ticket, struct sweep, ticket);

    sweep->task.on_event = on_sweep;
    env_loop_post(ticket->client->loop, &sweep->task);
}

static void free_queue(struct snow_queue *queue)
{
    list_remove(&queue->beacon.link);
    env_beacon_destroy(queue->beacon.beacon);
    free(queue->ring);
    free(queue);
}

void snow_queue_destroy(struct snow_queue *queue)
{
    struct snow_client *client;
    struct sweep sweep = {.queue = queue};
    enum snow_status status;

    if (queue == NULL)
        return;
    client = queue->client;
    if (env_fork_count() != client->fork_count)
        return; /* B3 */
    helper_close(queue);
    do
        status = turns_run(client, &sweep.ticket, NULL, 0, start_sweep);
    while (status == SNOW_NO_MEMORY);
    env_mutex_lock(client->mutex);
    ASSERT(list_is_empty(&queue->submissions) && list_is_empty(&queue->pollers));
    free_queue(queue);
    env_mutex_unlock(client->mutex);
}
