#include "client/turns.h"

#include "client/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define SPIN_NS (100 * NS_PER_US) /* answers that come within it are waited for without sleeping */

static const struct snow_call no_call;

/* ---- reasons -------------------------------------------------------------------------------- */

/* The only state outside of structs: what snow_reason of a thread tells. */
static _Thread_local char thread_reason[256];

void turns_reason_set(const char *reason)
{
    snprintf(thread_reason, sizeof(thread_reason), "%s", reason);
}

const char *snow_reason(void)
{
    return thread_reason;
}

/* ---- seats ---------------------------------------------------------------------------------- */

void turns_init(struct snow_client *client)
{
    list_init(&client->waiting);
    list_init(&client->seats);
    list_init(&client->beacons);
}

static void seat_free(struct turns_seat *seat)
{
    if (seat->condition != NULL)
        env_condition_destroy(seat->condition);
    if (seat->worker != NULL)
        env_worker_destroy(seat->worker);
    free(seat);
}

void turns_deinit(struct snow_client *client)
{
    struct list_link *link;

    while ((link = list_pop(&client->seats)) != NULL)
        seat_free(list_entry(link, struct turns_seat, link));
}

/* There is something to copy for who sits here; called on the loop. */
static void on_work(void *owner)
{
    struct turns_seat *seat = owner;

    env_mutex_lock(seat->client->mutex);
    seat->work = true;
    env_condition_wake_all(seat->condition);
    env_mutex_unlock(seat->client->mutex);
}

static struct turns_seat *seat_take(struct snow_client *client)
{
    struct list_link *link = list_pop(&client->seats);
    struct turns_seat *seat;

    if (link != NULL)
        return list_entry(link, struct turns_seat, link);
    seat = calloc(1, sizeof(*seat));
    if (seat == NULL)
        return NULL;
    seat->client = client;
    seat->condition = env_condition_create();
    seat->worker = env_worker_create(client->loop, client->crew, on_work, seat);
    if (seat->condition == NULL || seat->worker == NULL) {
        seat_free(seat);
        return NULL;
    }
    return seat;
}

/* ---- turning and waiting -------------------------------------------------------------------- */

void turns_wake(struct ticket *ticket)
{
    ticket->done = true;
    if (list_is_linked(&ticket->link))
        list_remove(&ticket->link);
    if (ticket->seat != NULL)
        env_condition_wake_all(ticket->seat->condition);
}

void turns_done(struct ticket *ticket)
{
    struct env_mutex *mutex = ticket->client->mutex;

    env_mutex_lock(mutex);
    turns_wake(ticket);
    env_mutex_unlock(mutex); /* the ticket is its thread's again */
}

/* B4 */
static void rest(struct snow_client *client)
{
    uint64_t due_ns;

    if (list_is_empty(&client->beacons))
        return;
    due_ns = env_loop_rest(client->loop);
    list_each (&client->beacons, link, next)
        env_beacon_arm(list_entry(link, struct turns_beacon, link)->beacon, due_ns);
}

void turns_pass(struct snow_client *client)
{
    struct list_link *link = list_pop(&client->waiting);

    client->turning = link != NULL;
    if (link != NULL) {
        struct ticket *next = list_entry(link, struct ticket, link);

        next->leads = true;
        env_condition_wake_all(next->seat->condition);
    } else {
        rest(client);
    }
}

void turns_turn(struct snow_client *client, uint64_t timeout_ns)
{
    uint64_t from_ns = env_now_ns(client->env);
    bool spin = client->may_spin && timeout_ns > 0 && client->wait_ns < SPIN_NS;

    if (env_loop_turn(client->loop, timeout_ns, spin ? SPIN_NS : 0) > 0 && timeout_ns > 0)
        client->wait_ns = (client->wait_ns * 7 + env_now_ns(client->env) - from_ns) / 8;
}

/* By the thread that has the role, with the mutex: turns until its own operation has ended, or has
 * something to copy; then the role is others'. */
static void lead(struct ticket *ticket)
{
    struct snow_client *client = ticket->client;

    env_mutex_unlock(client->mutex);
    while (!ticket->done && !ticket->seat->work)
        turns_turn(client, UINT64_MAX);
    env_mutex_lock(client->mutex);
    ticket->leads = false;
    turns_pass(client);
}

/* With the mutex, which is left meanwhile. */
static void copy(struct ticket *ticket)
{
    struct snow_client *client = ticket->client;

    if (list_is_linked(&ticket->link))
        list_remove(&ticket->link);
    ticket->seat->work = false;
    env_mutex_unlock(client->mutex);
    env_worker_run(ticket->seat->worker);
    env_mutex_lock(client->mutex);
    if (ticket->done)
        return;
    ticket->leads = !client->turning;
    if (client->turning)
        list_push(&client->waiting, &ticket->link);
    client->turning = true;
}

/* With the mutex. */
static void wait_for_end(struct ticket *ticket)
{
    while (!ticket->done) {
        if (ticket->leads)
            lead(ticket);
        else if (ticket->seat->work)
            copy(ticket);
        else
            env_condition_wait(ticket->seat->condition, ticket->client->mutex, UINT64_MAX);
    }
    if (ticket->leads)
        turns_pass(ticket->client);
    list_push_front(&ticket->client->seats, &ticket->seat->link);
}

static void on_task(struct env_task *task)
{
    struct ticket *ticket = list_entry(task, struct ticket, task);

    ticket->start(ticket);
}

enum snow_status turns_queue(struct ticket *ticket)
{
    ticket->seat = seat_take(ticket->client);
    if (ticket->seat == NULL)
        return SNOW_NO_MEMORY;
    ticket->done = false;
    ticket->leads = false;
    list_push(&ticket->client->waiting, &ticket->link);
    return SNOW_OK;
}

bool turns_sit(struct ticket *ticket, uint64_t until_ns)
{
    struct snow_client *client = ticket->client;
    uint64_t now_ns = until_ns == UINT64_MAX ? 0 : env_now_ns(client->env);

    while (!ticket->done && !ticket->leads && now_ns < until_ns) {
        env_condition_wait(ticket->seat->condition, client->mutex, until_ns - now_ns);
        now_ns = until_ns == UINT64_MAX ? 0 : env_now_ns(client->env);
    }
    if (list_is_linked(&ticket->link))
        list_remove(&ticket->link);
    list_push_front(&client->seats, &ticket->seat->link);
    ticket->seat = NULL;
    return ticket->leads;
}

enum snow_status turns_check(const struct snow_client *client, const struct snow_call *call,
                             uint32_t flags)
{
    thread_reason[0] = 0;
    if (env_fork_count() != client->fork_count) {
        turns_reason_set("opened before a fork: open a client in this process");
        return SNOW_CLOSED;
    }
    if (call != NULL && (call->flags & ~(flags & ~TURNS_GROUPS)) != 0) {
        turns_reason_set("flags: one that this call does not know");
        return SNOW_INVALID;
    }
    if (call != NULL && call->groups != NULL && (flags & TURNS_GROUPS) == 0) {
        turns_reason_set("groups: this call tells none");
        return SNOW_INVALID;
    }
    if (call != NULL && (CLIENT_RESERVED(call) != SNOW_OK || call->spare != 0)) {
        turns_reason_set("reserved: set by a program that is newer than this library");
        return SNOW_INVALID;
    }
    return SNOW_OK;
}

enum snow_status turns_run(struct snow_client *client, struct ticket *ticket,
                           const struct snow_call *call, uint32_t flags,
                           void (*start)(struct ticket *ticket))
{
    enum snow_status status = turns_check(client, call, flags);

    if (status != SNOW_OK)
        return status;
    ticket->client = client;
    ticket->call = call == NULL ? &no_call : call;
    ticket->start = start;
    ticket->task.on_event = on_task;
    env_mutex_lock(client->mutex);
    bool first = !client->turning;

    status = turns_queue(ticket);
    if (status == SNOW_OK && first) {
        list_remove(&ticket->link);
        ticket->leads = client->turning = true;
    }
    env_mutex_unlock(client->mutex);
    if (status != SNOW_OK)
        return status;
    if (first)
        start(ticket);
    else
        env_loop_post(client->loop, &ticket->task);
    env_mutex_lock(client->mutex);
    wait_for_end(ticket);
    env_mutex_unlock(client->mutex);
    return SNOW_OK;
}
