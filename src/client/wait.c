/* The blocking calls of snowskin.h: opening, and a call for each kind of operation.
 *
 * Idea.     Each call makes a ticket with its operation and runs it (client/turns.h).
 * Threads.  Any.
 */
#include "base/limits.h"
#include "client/client.h"
#include "client/host.h"
#include "client/inside.h"
#include "client/queue.h"
#include "client/turns.h"
#include "client/views.h"
#include "env/linux.h"
#include "env/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALL_NS_MAX (2 * NS_PER_S)
#define COPY_THREADS 4u /* of a large copy, when nothing is said */

/* ---- opening -------------------------------------------------------------------------------- */

void snow_options_init(struct snow_options *options)
{
    *options = (struct snow_options){.master = "127.0.0.1:7600", .verify = SNOW_VERIFY_OTHERS};
}

static void free_all(struct snow_client *client)
{
    views_leave(client);
    if (client->crew != NULL)
        env_crew_destroy(client->crew);
    if (client->host != NULL) /* while there is a loop to turn: nothing of it is asked any more */
        host_close(client->host, client->loop);
    if (client->client != NULL)
        client_destroy(client->client);
    if (client->loop != NULL)
        env_loop_destroy(client->loop);
    if (client->env != NULL)
        env_linux_destroy(client->env);
    turns_deinit(client);
    free(client->registered);
    if (client->mutex != NULL)
        env_mutex_destroy(client->mutex);
    free(client);
}

static void fill_options(const struct snow_options *from, const char *name,
                         struct client_options *to)
{
    client_options_init(to);
    to->master = from->master;
    to->token = from->token == NULL ? bytes_of(NULL, 0) : bytes_of_string(from->token);
    to->name = bytes_of_string(from->name == NULL ? name : from->name);
    if (from->deadline_ms != 0)
        to->deadline_ms = from->deadline_ms;
    to->wait_ms = from->wait_ms;
    to->guard_ms = from->guard_ms;
    to->way = (enum client_way)from->transport;
    to->local_first = from->local_first != 0;
    to->key_rules = from->key_rules;
    if (from->connections != 0)
        to->transport.lanes = from->connections;
    to->socket.congestion = from->congestion;
    to->socket.send_buffer = from->send_buffer;
    to->socket.receive_buffer = from->receive_buffer;
    if (from->user_timeout_ms != 0)
        to->socket.user_timeout_ms = from->user_timeout_ms;
    to->transport.verify = from->verify != SNOW_VERIFY_NOTHING;
    to->transport.verify_near = from->verify == SNOW_VERIFY_EVERYWHERE;
    to->transport.sum_near = from->no_checksum == 0;
    /* A node that stands still must leave time for another one. */
    to->transport.stall_ns = to->deadline_ms * NS_PER_MS / 4;
    if (to->transport.stall_ns > STALL_NS_MAX)
        to->transport.stall_ns = STALL_NS_MAX;
}

/* Waits for the link to the master. */
static enum snow_status wait_for_master(struct snow_client *client,
                                        const struct client_options *options)
{
    uint64_t now_ns = env_now_ns(client->env);
    uint64_t until_ns = now_ns + options->deadline_ms * NS_PER_MS;
    char text[512];
    const char *said;
    enum snow_status status = client_link_status(client->client, &said);

    while (status != SNOW_OK && status != SNOW_REFUSED && now_ns < until_ns) {
        env_loop_turn(client->loop, until_ns - now_ns, 0);
        status = client_link_status(client->client, &said);
        now_ns = env_now_ns(client->env);
    }
    if (status == SNOW_OK)
        return SNOW_OK;
    if (status != SNOW_REFUSED)
        status = SNOW_UNREACHABLE;
    snprintf(text, sizeof(text), "the master at %s %s%s%s", options->master,
             status == SNOW_REFUSED ? "refuses this client" : "can not be reached",
             said[0] == 0 ? "" : ": ", said);
    turns_reason_set(text);
    return status;
}

/* Who helps with large copies: so many threads in all, the caller's among them.  False: no
 * memory. */
static bool open_crew(struct snow_client *client, uint32_t threads)
{
    if (threads == 0)
        threads = env_cpu_count() < COPY_THREADS ? env_cpu_count() : COPY_THREADS;
    if (threads == 1)
        return true;
    client->crew = env_crew_create(threads - 1);
    return client->crew != NULL;
}

/* Opens the segment that this process is to give, and waits until the master has it. */
static enum snow_status open_host(struct snow_client *client, const struct snow_options *options,
                                  uint32_t deadline_ms)
{
    uint64_t until_ns = env_now_ns(client->env) + deadline_ms * NS_PER_MS;
    const char *reason = "";
    char text[256];
    enum snow_status status = host_open(client->env, options, &client->host, &reason);

    if (status != SNOW_OK) {
        snprintf(text, sizeof(text), "the segment can not be opened: %s", reason);
        turns_reason_set(text);
        return status;
    }
    while (!host_is_mounted(client->host)) {
        if (env_now_ns(client->env) >= until_ns) {
            turns_reason_set("the master has not taken the segment in, within the deadline");
            return SNOW_UNREACHABLE;
        }
        env_loop_turn(client->loop, NS_PER_MS, 0);
    }
    client_own_node_set(client->client, host_incarnation(client->host));
    return SNOW_OK;
}

static enum snow_status open_all(struct snow_client *client, const struct snow_options *asked,
                                 const struct client_options *options)
{
    const char *reason = "out of memory";
    enum snow_status status = SNOW_NO_MEMORY;

    client->mutex = env_mutex_create();
    client->env = env_linux_create();
    if (client->mutex != NULL && client->env != NULL)
        status = env_loop_create(client->env, "snowskin", &client->loop);
    if (status == SNOW_OK)
        status = client_create(client->loop, options, &client->client, &reason);
    if (status != SNOW_OK) {
        turns_reason_set(reason);
        return status;
    }
    client->deadline_ms = options->deadline_ms;
    client->fork_count = env_fork_count();
    client->may_spin = env_cpu_count() > 1;
    if (asked->copy_threads != 1 && !open_crew(client, asked->copy_threads)) {
        turns_reason_set("out of memory");
        return SNOW_NO_MEMORY;
    }
    status = wait_for_master(client, options);
    if (status == SNOW_OK && asked->segment != NULL)
        status = open_host(client, asked, options->deadline_ms);
    return status;
}

enum snow_status snow_open(const struct snow_options *options, struct snow_client **opened,
                           const char **reason)
{
    struct client_options filled;
    char name[LIMIT_NAME_SIZE];
    enum snow_status status = SNOW_INVALID;
    struct snow_client *client;
    const char *wrong = "";

    turns_reason_set("");
    if (reason != NULL)
        *reason = snow_reason();
    if (options == NULL || options->master == NULL || opened == NULL) {
        turns_reason_set("options: the address of the master is missing");
        return SNOW_INVALID;
    }
    if (CLIENT_RESERVED(options) != SNOW_OK || options->spare != 0) {
        turns_reason_set("options.reserved: set by a program that is newer than this library");
        return SNOW_INVALID;
    }
    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        turns_reason_set("out of memory");
        return SNOW_NO_MEMORY;
    }
    turns_init(client);
    env_process_name(name, sizeof(name));
    fill_options(options, name, &filled);
    if (options->verify > SNOW_VERIFY_EVERYWHERE)
        turns_reason_set("options: verify is none of nothing, others, everywhere");
    else if (options->local_first > 1 || options->no_checksum > 1)
        turns_reason_set("options: local_first and no_checksum are 0 or 1");
    else if (options->copy_threads > ENV_CREW_MAX + 1)
        turns_reason_set("options: copy_threads are 1 to 64");
    else if (options->transport > SNOW_TRANSPORT_SHM)
        turns_reason_set("options: transport is none of any, tcp, shm");
    else if (options->congestion != NULL && !env_congestion_is_usable(options->congestion))
        turns_reason_set("options: the kernel does not give that congestion control");
    else if (filled.token.size > LIMIT_NAME_SIZE || filled.name.size > LIMIT_NAME_SIZE)
        turns_reason_set("options: token and name have at most 256 bytes");
    else if (host_check(options->segment, &wrong) != SNOW_OK)
        turns_reason_set(wrong);
    else
        status = open_all(client, options, &filled);
    if (status != SNOW_OK) {
        free_all(client);
        return status;
    }
    *opened = client;
    return SNOW_OK;
}

void snow_close(struct snow_client *client)
{
    if (client == NULL)
        return;
    if (env_fork_count() != client->fork_count)
        return; /* B3 */
    while (!list_is_empty(&client->beacons))
        snow_queue_destroy(queue_of(list_first(&client->beacons)));
    free_all(client);
}

enum snow_status snow_hosted(struct snow_client *client, struct snow_hosted *hosted)
{
    enum snow_status status = turns_check(client, NULL, 0);

    if (status != SNOW_OK)
        return status;
    if (client->host == NULL) {
        turns_reason_set("this client gives no segment: options.segment of snow_open");
        return SNOW_NOT_FOUND;
    }
    host_tell(client->host, hosted);
    return SNOW_OK;
}

_Static_assert(LIMIT_KEY_SIZE == 4096, "the text below tells it");

/* Of an item: OK when it is DONE, else its status, with a reason where that is its key. */
static enum snow_status failure_of(enum snow_status status, const struct snow_key *key)
{
    if (snow_status_verdict(status) == SNOW_DONE)
        return SNOW_OK;
    if (status == SNOW_INVALID && client_key_check(key) != SNOW_OK)
        turns_reason_set("a key has 1 to 4096 bytes");
    return status;
}

/* ---- put ------------------------------------------------------------------------------------ */

struct put_call {
    struct ticket ticket;
    struct client_put_op op;
};

static void on_put(struct client_put_op *op)
{
    turns_done(&list_entry(op, struct put_call, op)->ticket);
}

static void start_put(struct ticket *ticket)
{
    struct put_call *put = list_entry(ticket, struct put_call, ticket);

    put->op.worker = ticket->seat->worker;
    client_put_start(ticket->client->client, &put->op, ticket->call);
}

enum snow_status snow_put(struct snow_client *client, struct snow_put *items, size_t count,
                          const struct snow_call *call)
{
    struct put_call put = {.op = {.on_done = on_put, .items = items, .count = count}};
    enum snow_status status =
        turns_run(client, &put.ticket, call, SNOW_CALL_NO_WAIT_WRITER, start_put);

    for (size_t i = 0; i < count && status != SNOW_OK; i++)
        items[i].status = status;
    for (size_t i = 0; i < count && status == SNOW_OK; i++)
        status = failure_of(items[i].status, &items[i].key);
    if (status != SNOW_OK && snow_reason()[0] == 0)
        turns_reason_set(put.op.reason);
    return status;
}

/* ---- get ------------------------------------------------------------------------------------ */

struct get_call {
    struct ticket ticket;
    struct client_get_op op;
};

static void on_get(struct client_get_op *op)
{
    turns_done(&list_entry(op, struct get_call, op)->ticket);
}

static void start_get(struct ticket *ticket)
{
    struct get_call *get = list_entry(ticket, struct get_call, ticket);

    get->op.worker = ticket->seat->worker;
    client_get_start(ticket->client->client, &get->op, ticket->call);
}

enum snow_status snow_get(struct snow_client *client, struct snow_get *items, size_t count,
                          const struct snow_call *call)
{
    struct get_call get = {.op = {.on_done = on_get, .items = items, .count = count}};
    enum snow_status status = turns_run(client, &get.ticket, call, SNOW_CALL_UNORDERED, start_get);

    for (size_t i = 0; i < count && status != SNOW_OK; i++) {
        items[i].status = status;
        items[i].size = 0;
    }
    for (size_t i = 0; i < count && status == SNOW_OK; i++)
        status = failure_of(items[i].status, &items[i].key);
    return status;
}

void snow_free(void *data)
{
    free(data);
}

/* ---- exists --------------------------------------------------------------------------------- */

struct exists_call {
    struct ticket ticket;
    struct client_exists_op op;
};

static void on_exists(struct client_exists_op *op)
{
    turns_done(&list_entry(op, struct exists_call, op)->ticket);
}

static void start_exists(struct ticket *ticket)
{
    client_exists_start(ticket->client->client, &list_entry(ticket, struct exists_call, ticket)->op,
                        ticket->call);
}

enum snow_status snow_exists(struct snow_client *client, struct snow_stat *items, size_t count,
                             const struct snow_call *call)
{
    struct exists_call exists = {.op = {.on_done = on_exists, .items = items, .count = count}};
    enum snow_status status =
        turns_run(client, &exists.ticket, call,
                  SNOW_CALL_UNORDERED | SNOW_CALL_TOUCH | SNOW_CALL_LEASE | TURNS_GROUPS,
                  start_exists);

    for (size_t i = 0; i < count && status != SNOW_OK; i++) {
        items[i].status = status;
        if (call != NULL && call->groups != NULL)
            call->groups[i].status = status;
    }
    for (size_t i = 0; i < count && status == SNOW_OK; i++)
        status = failure_of(items[i].status, &items[i].key);
    return status;
}

/* ---- remove, pin ---------------------------------------------------------------------------- */

struct keys_call {
    struct ticket ticket;
    struct client_keys_op op;
    enum snow_pin pin;
    uint32_t pin_ms;
    uint32_t hint_flags; /* WIRE_HINT_* */
};

static void on_keys(struct client_keys_op *op)
{
    turns_done(&list_entry(op, struct keys_call, op)->ticket);
}

static void start_remove(struct ticket *ticket)
{
    client_remove_start(ticket->client->client, &list_entry(ticket, struct keys_call, ticket)->op,
                        ticket->call);
}

static void start_pin(struct ticket *ticket)
{
    struct keys_call *keys = list_entry(ticket, struct keys_call, ticket);

    client_pin_start(ticket->client->client, &keys->op, keys->pin, keys->pin_ms, ticket->call);
}

static enum snow_status run_keys(struct snow_client *client, struct keys_call *keys,
                                 const struct snow_call *call, uint32_t flags,
                                 void (*start)(struct ticket *ticket))
{
    enum snow_status status = turns_run(client, &keys->ticket, call, flags, start);
    struct snow_item *items = keys->op.items;

    for (size_t i = 0; i < keys->op.count && status != SNOW_OK; i++)
        items[i].status = status;
    for (size_t i = 0; i < keys->op.count && status == SNOW_OK; i++)
        status = failure_of(items[i].status, &items[i].key);
    return status;
}

enum snow_status snow_remove(struct snow_client *client, struct snow_item *items, size_t count,
                             const struct snow_call *call)
{
    struct keys_call keys = {.op = {.on_done = on_keys, .items = items, .count = count}};

    return run_keys(client, &keys, call, SNOW_CALL_FORCE | SNOW_CALL_GROUP, start_remove);
}

static void start_group_remove(struct ticket *ticket)
{
    client_group_remove_start(ticket->client->client,
                              &list_entry(ticket, struct keys_call, ticket)->op, ticket->call);
}

enum snow_status snow_group_remove(struct snow_client *client, struct snow_item *items,
                                   size_t count, const struct snow_call *call)
{
    struct keys_call keys = {.op = {.on_done = on_keys, .items = items, .count = count}};

    return run_keys(client, &keys, call, SNOW_CALL_FORCE, start_group_remove);
}

enum snow_status snow_pin(struct snow_client *client, struct snow_item *items, size_t count,
                          enum snow_pin pin, uint32_t pin_ms, const struct snow_call *call)
{
    struct keys_call keys = {.op = {.on_done = on_keys, .items = items, .count = count},
                             .pin = pin,
                             .pin_ms = pin_ms};

    return run_keys(client, &keys, call, 0, start_pin);
}

static void start_hint(struct ticket *ticket)
{
    struct keys_call *keys = list_entry(ticket, struct keys_call, ticket);

    client_hint_start(ticket->client->client, &keys->op, keys->hint_flags, ticket->call);
}

enum snow_status snow_touch(struct snow_client *client, struct snow_item *items, size_t count,
                            const struct snow_hints *hints, const struct snow_call *call)
{
    static const struct snow_hints none;
    const struct snow_hints *of = hints == NULL ? &none : hints;
    uint32_t known = SNOW_HINT_PRIORITY | SNOW_HINT_EXPIRES | SNOW_HINT_LASTS | SNOW_HINT_DONE;
    struct keys_call keys = {
        .op = {.on_done = on_keys,
               .items = items,
               .count = count,
               .priority = (uint8_t)of->priority,
               .expires_ms = of->expires_after_ms,
               .wrong = (of->flags & ~known) != 0 || of->priority > SNOW_PRIORITY_MAX ||
                        of->spare != 0 || of->reserved[0] != 0 || of->reserved[1] != 0},
        .hint_flags = WIRE_HINT_TOUCH | (of->flags & SNOW_HINT_PRIORITY ? WIRE_HINT_PRIORITY : 0) |
                      (of->flags & SNOW_HINT_EXPIRES ? WIRE_HINT_EXPIRES : 0) |
                      (of->flags & SNOW_HINT_LASTS ? WIRE_HINT_LASTS : 0) |
                      (of->flags & SNOW_HINT_DONE ? WIRE_HINT_DONE : 0)};

    return run_keys(client, &keys, call, 0, start_hint);
}

enum snow_status snow_expire(struct snow_client *client, struct snow_item *items, size_t count,
                             uint32_t after_ms, const struct snow_call *call)
{
    struct keys_call keys = {
        .op = {.on_done = on_keys, .items = items, .count = count, .expires_ms = after_ms},
        .hint_flags = after_ms == UINT32_MAX ? WIRE_HINT_LASTS : WIRE_HINT_EXPIRES};

    return run_keys(client, &keys, call, 0, start_hint);
}

/* ---- one question, one answer --------------------------------------------------------------- */

struct query_call {
    struct ticket ticket;
    struct client_query_op op;
    void (*begin)(struct client *client, struct client_query_op *op, const struct snow_call *call);
};

static void on_query(struct client_query_op *op)
{
    turns_done(&list_entry(op, struct query_call, op)->ticket);
}

static void start_query(struct ticket *ticket)
{
    struct query_call *query = list_entry(ticket, struct query_call, ticket);

    query->begin(ticket->client->client, &query->op, ticket->call);
}

static enum snow_status run_query(struct snow_client *client, struct query_call *query,
                                  const struct snow_call *call, uint32_t flags)
{
    enum snow_status status;

    query->ticket = (struct ticket){0};
    query->op.on_done = on_query;
    status = turns_run(client, &query->ticket, call, flags, start_query);
    return status == SNOW_OK ? query->op.status : status;
}

enum snow_status snow_remove_match(struct snow_client *client, enum snow_match match,
                                   struct snow_key pattern, const struct snow_call *call,
                                   struct snow_matched *matched)
{
    struct query_call query = {.op = {.key = pattern, .match = match},
                               .begin = client_remove_match_start};
    enum snow_status status = run_query(client, &query, call, SNOW_CALL_FORCE | SNOW_CALL_GROUP);

    if (matched != NULL)
        *matched = query.op.matched;
    if (snow_reason()[0] == 0)
        turns_reason_set(query.op.matched.reason);
    client_query_end(&query.op);
    return status;
}

/* Asks page after page until on_page says stop or there is no more, within one deadline: the time
 * that on_page takes is the caller's. */
static enum snow_status run_pages(struct snow_client *client, struct query_call *query,
                                  const struct snow_call *call,
                                  bool (*on_page)(const struct client_query_op *op, void *to),
                                  void *to)
{
    struct snow_call page = call == NULL ? (struct snow_call){0} : *call;
    uint32_t deadline_ms = page.deadline_ms != 0 ? page.deadline_ms : client->deadline_ms;
    uint64_t left_ns = deadline_ms * NS_PER_MS;
    enum snow_status status = SNOW_TIMEOUT;
    bool more = true;

    while (more && left_ns > 0) {
        uint64_t from_ns = env_now_ns(client->env);

        page.deadline_ms = (uint32_t)((left_ns + NS_PER_MS - 1) / NS_PER_MS);
        status = run_query(client, query, &page, 0);
        uint64_t took_ns = env_now_ns(client->env) - from_ns;

        left_ns = took_ns < left_ns ? left_ns - took_ns : 0;
        more = status == SNOW_OK && on_page(&query->op, to) && query->op.cursor != 0;
        client_query_end(&query->op);
    }
    return more ? SNOW_TIMEOUT : status;
}

struct list_rows {
    int (*on_row)(void *owner, const struct snow_listed *row);
    void *owner;
};

static bool tell_listed(const struct client_query_op *op, void *to)
{
    const struct list_rows *rows = to;
    bool more = true;

    for (uint32_t i = 0; i < op->count && more; i++)
        more = rows->on_row(rows->owner, &op->listed[i]) == 0;
    return more;
}

enum snow_status snow_list(struct snow_client *client, struct snow_key prefix,
                           int (*on_row)(void *owner, const struct snow_listed *row), void *owner,
                           const struct snow_call *call)
{
    struct query_call query = {.op = {.key = prefix}, .begin = client_list_start};
    struct list_rows rows = {.on_row = on_row, .owner = owner};

    return run_pages(client, &query, call, tell_listed, &rows);
}

struct group_rows {
    int (*on_row)(void *owner, const struct snow_group_listed *row);
    void *owner;
};

static bool tell_groups(const struct client_query_op *op, void *to)
{
    const struct group_rows *rows = to;
    bool more = true;

    for (uint32_t i = 0; i < op->count && more; i++)
        more = rows->on_row(rows->owner, &op->groups[i]) == 0;
    return more;
}

enum snow_status snow_group_list(struct snow_client *client, struct snow_key prefix,
                                 int (*on_row)(void *owner, const struct snow_group_listed *row),
                                 void *owner, const struct snow_call *call)
{
    struct query_call query = {.op = {.key = prefix}, .begin = client_group_list_start};
    struct group_rows rows = {.on_row = on_row, .owner = owner};

    return run_pages(client, &query, call, tell_groups, &rows);
}

enum snow_status snow_group_hold(struct snow_client *client, struct snow_group_hold *hold,
                                 const struct snow_call *call)
{
    struct query_call query = {.op = {.hold = hold}, .begin = client_group_hold_start};
    enum snow_status status = run_query(client, &query, call, 0);

    client_query_end(&query.op);
    return status;
}

struct node_rows {
    int (*on_row)(void *owner, const struct snow_node *row);
    void *owner;
};

static bool tell_nodes(const struct client_query_op *op, void *to)
{
    const struct node_rows *rows = to;
    bool more = true;

    for (uint32_t i = 0; i < op->count && more; i++)
        more = rows->on_row(rows->owner, &op->nodes[i]) == 0;
    return more;
}

enum snow_status snow_nodes(struct snow_client *client,
                            int (*on_row)(void *owner, const struct snow_node *row), void *owner,
                            const struct snow_call *call)
{
    struct query_call query = {.begin = client_nodes_start};
    struct node_rows rows = {.on_row = on_row, .owner = owner};

    return run_pages(client, &query, call, tell_nodes, &rows);
}

struct value_rows {
    int (*on_row)(void *owner, const char *name, uint64_t value);
    void *owner;
};

static bool tell_values(const struct client_query_op *op, void *to)
{
    const struct value_rows *rows = to;
    bool more = true;

    for (uint32_t i = 0; i < op->count && more; i++)
        more = rows->on_row(rows->owner, op->values[i].name, op->values[i].value) == 0;
    return more;
}

enum snow_status snow_stats(struct snow_client *client,
                            int (*on_row)(void *owner, const char *name, uint64_t value),
                            void *owner, const struct snow_call *call)
{
    struct query_call query = {.begin = client_stats_start};
    struct value_rows rows = {.on_row = on_row, .owner = owner};

    return run_pages(client, &query, call, tell_values, &rows);
}

/* ---- tasks ---- */

enum snow_status snow_task_start(struct snow_client *client, const struct snow_task *task,
                                 const struct snow_call *call, uint64_t *id)
{
    struct query_call query = {.op = {.wish = *task}, .begin = client_task_start};
    enum snow_status status = run_query(client, &query, call, 0);

    if (status == SNOW_OK)
        *id = query.op.task;
    else if (snow_reason()[0] == 0 && query.op.reason != NULL)
        turns_reason_set(query.op.reason);
    client_query_end(&query.op);
    return status;
}

enum snow_status snow_task_cancel(struct snow_client *client, uint64_t id,
                                  const struct snow_call *call)
{
    struct query_call query = {.op = {.task = id}, .begin = client_task_cancel_start};
    enum snow_status status = run_query(client, &query, call, 0);

    client_query_end(&query.op);
    return status;
}

struct task_rows {
    int (*on_row)(void *owner, const struct snow_task_info *row);
    void *owner;
};

static bool tell_tasks(const struct client_query_op *op, void *to)
{
    const struct task_rows *rows = to;
    bool more = true;

    for (uint32_t i = 0; i < op->count && more; i++)
        more = rows->on_row(rows->owner, &op->tasks[i]) == 0;
    return more;
}

enum snow_status snow_tasks(struct snow_client *client, uint64_t id,
                            int (*on_row)(void *owner, const struct snow_task_info *row),
                            void *owner, const struct snow_call *call)
{
    struct query_call query = {.op = {.task = id}, .begin = client_tasks_start};
    struct task_rows rows = {.on_row = on_row, .owner = owner};

    return run_pages(client, &query, call, tell_tasks, &rows);
}
