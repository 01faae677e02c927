/* Views: objects looked at where they lie.
 *
 * Problem.  A view lives as long as its owner likes, ends on any thread, may outlive the client;
 *           and the master has to learn when the last view of a call has ended.
 * Idea.     A call's views share a group that counts them.  The last one returns what the master
 *           holds for the call, through the client, if there still is one: groups know a home that
 *           outlives both.
 * Invariants.
 *   W1  home->client is NULL or alive: snow_close, and no other call at the same time, clears it.
 *   W2  The memory of a view is let go before its hold is returned.
 * Threads.  Any.
 */
#include "client/views.h"

#include "client/inside.h"
#include "client/turns.h"

#include <stdlib.h>

struct views_home {
    struct snow_client *client; /* atomic */
    uint32_t users;             /* atomic: groups, and the client */
    uint64_t fork_count;
};

/* The views of one call. */
struct group {
    struct views_home *home;
    uint64_t operation; /* that is held; 0: nothing is */
    uint32_t users;     /* atomic: views, and the call itself */
};

struct handle {
    struct transport_view view; /* its space NULL: copied */
    void *copy;
    struct group *group;
};

static void home_release(struct views_home *home)
{
    if (home != NULL && __atomic_sub_fetch(&home->users, 1, __ATOMIC_ACQ_REL) == 0)
        free(home);
}

void views_leave(struct snow_client *client)
{
    if (client->views == NULL)
        return;
    __atomic_store_n(&client->views->client, NULL, __ATOMIC_RELEASE);
    home_release(client->views);
    client->views = NULL;
}

/* NULL: no memory. */
static struct views_home *home_of(struct snow_client *client)
{
    struct views_home *home;

    env_mutex_lock(client->mutex);
    home = client->views;
    if (home == NULL)
        home = calloc(1, sizeof(*home));
    if (home != NULL && client->views == NULL) {
        home->client = client;
        home->users = 1;
        home->fork_count = client->fork_count;
        client->views = home;
    }
    if (home != NULL)
        __atomic_fetch_add(&home->users, 1, __ATOMIC_RELAXED);
    env_mutex_unlock(client->mutex);
    return home;
}

/* ---- ending --------------------------------------------------------------------------------- */

struct return_call {
    struct ticket ticket;
    struct env_task task;
    uint64_t operation;
};

/* In the next turn, so that there is one, at whose end the message leaves. */
static void on_returned(struct env_task *task)
{
    turns_done(&list_entry(task, struct return_call, task)->ticket);
}

static void start_return(struct ticket *ticket)
{
    struct return_call *call = list_entry(ticket, struct return_call, ticket);

    client_hold_return(ticket->client->client, call->operation);
    call->task.on_event = on_returned;
    env_loop_post(ticket->client->loop, &call->task);
}

static void group_release(struct group *group)
{
    struct return_call call = {.operation = group->operation};
    struct snow_client *client;

    if (__atomic_sub_fetch(&group->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    client = __atomic_load_n(&group->home->client, __ATOMIC_ACQUIRE);
    if (group->operation != 0 && client != NULL &&
        turns_run(client, &call.ticket, NULL, 0, start_return) != SNOW_OK)
        client = NULL; /* no memory: it ends with the session */
    home_release(group->home);
    free(group);
}

static void end_one(struct handle *handle)
{
    bool forked = env_fork_count() != handle->group->home->fork_count;

    if (handle->view.space != NULL && !forked)
        transport_view_end(&handle->view);
    free(handle->copy);
    if (!forked) /* else the group is the parent's to end */
        group_release(handle->group);
    free(handle);
}

void snow_view_end(struct snow_view *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].handle != NULL)
            end_one(items[i].handle);
        items[i].handle = NULL;
        items[i].at = NULL;
    }
}

/* ---- beginning ------------------------------------------------------------------------------ */

struct view_call {
    struct ticket ticket;
    struct client_get_op op;
};

static void on_get(struct client_get_op *op)
{
    turns_done(&list_entry(op, struct view_call, op)->ticket);
}

static void start(struct ticket *ticket)
{
    struct view_call *call = list_entry(ticket, struct view_call, ticket);

    call->op.worker = ticket->seat->worker;
    client_get_start(ticket->client->client, &call->op, ticket->call);
}

/* A view that is open, as the caller sees it.  NO_MEMORY: it is closed again. */
static enum snow_status give(struct snow_view *item, struct snow_get *get,
                             struct transport_view *view, struct group *group)
{
    struct handle *handle = calloc(1, sizeof(*handle));

    if (handle == NULL) {
        if (view->space != NULL)
            transport_view_end(view);
        else
            free(get->to);
        return SNOW_NO_MEMORY;
    }
    __atomic_fetch_add(&group->users, 1, __ATOMIC_RELAXED);
    handle->group = group;
    handle->view = *view;
    handle->copy = view->space == NULL ? get->to : NULL;
    item->at = get->to;
    item->size = get->size;
    item->copied = view->space == NULL;
    item->handle = handle;
    return SNOW_OK;
}

static enum snow_status give_all(struct view_call *call, struct snow_view *items,
                                 struct group *group)
{
    enum snow_status status = SNOW_OK;

    if (call->op.viewed > 0)
        group->operation = call->op.base.operation;
    for (size_t i = 0; i < call->op.count; i++) {
        struct snow_view *item = &items[i];

        item->status = call->op.items[i].status;
        if (item->status == SNOW_OK)
            item->status = give(item, &call->op.items[i], &call->op.views[i], group);
        if (status == SNOW_OK)
            status = item->status;
    }
    return status;
}

/* What a call works on.  False: no memory. */
static bool prepare(struct snow_client *client, struct view_call *call,
                    const struct snow_view *items, size_t count, struct group **group)
{
    *group = calloc(1, sizeof(**group));
    if (*group != NULL) {
        (*group)->users = 1;
        (*group)->home = home_of(client);
    }
    call->op.items = calloc(count + 1, sizeof(*call->op.items));
    call->op.views = calloc(count + 1, sizeof(*call->op.views));
    if (*group == NULL || (*group)->home == NULL || call->op.items == NULL ||
        call->op.views == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        call->op.items[i].key = items[i].key;
    return true;
}

static enum snow_status check_items(const struct snow_view *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (CLIENT_RESERVED(&items[i]) != SNOW_OK)
            return SNOW_INVALID;
    }
    return SNOW_OK;
}

enum snow_status snow_view(struct snow_client *client, struct snow_view *items, size_t count,
                           const struct snow_call *call)
{
    struct view_call view = {.op = {.on_done = on_get, .count = count}};
    struct group *group = NULL;
    enum snow_status status = turns_check(client, call, SNOW_CALL_UNORDERED);

    if (status == SNOW_OK)
        status = check_items(items, count);
    for (size_t i = 0; i < count; i++) {
        items[i].at = NULL;
        items[i].size = 0;
        items[i].copied = 0;
        items[i].handle = NULL;
    }
    if (status == SNOW_OK)
        status = prepare(client, &view, items, count, &group)
                     ? turns_run(client, &view.ticket, call, SNOW_CALL_UNORDERED, start)
                     : SNOW_NO_MEMORY;
    for (size_t i = 0; i < count && status != SNOW_OK; i++)
        items[i].status = status;
    if (status == SNOW_OK)
        status = give_all(&view, items, group);
    if (group != NULL && group->home != NULL)
        group_release(group);
    else
        free(group);
    free(view.op.items);
    free(view.op.views);
    return status;
}
