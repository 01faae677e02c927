/* Registered memory: an ascending list of ranges, none of which meets another.
 *
 * Threads.  Any; the client's mutex guards the list.
 */
#include "client/inside.h"
#include "client/turns.h"

#include <stdio.h>
#include <stdlib.h>

/* The first range that ends above `at`. */
static size_t find(const struct snow_client *client, const void *at)
{
    size_t low = 0;
    size_t high = client->registered_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct snow_buffer *range = &client->registered[middle];

        if ((uintptr_t)range->at + range->size <= (uintptr_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* With the mutex. */
static enum snow_status insert(struct snow_client *client, void *at, size_t size)
{
    size_t index = find(client, at);
    struct snow_buffer *grown;
    char text[128];

    if (index < client->registered_count &&
        (uintptr_t)client->registered[index].at < (uintptr_t)at + size) {
        snprintf(text, sizeof(text), "memory: overlaps %zu registered bytes at %p",
                 client->registered[index].size, client->registered[index].at);
        turns_reason_set(text);
        return SNOW_INVALID;
    }
    if (client->registered_count == LIMIT_REGISTERED_RANGES) {
        turns_reason_set("memory: 4,096 ranges are registered, which is the limit");
        return SNOW_LIMIT;
    }
    grown = realloc(client->registered, (client->registered_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return SNOW_NO_MEMORY;
    client->registered = grown;
    memmove(&grown[index + 1], &grown[index], (client->registered_count - index) * sizeof(*grown));
    grown[index] = (struct snow_buffer){.at = at, .size = size};
    client->registered_count++;
    return SNOW_OK;
}

enum snow_status snow_register(struct snow_client *client, void *at, size_t size)
{
    enum snow_status status = turns_check(client, NULL, 0);

    if (status != SNOW_OK)
        return status;
    if (at == NULL || size == 0 || size > UINTPTR_MAX - (uintptr_t)at) {
        turns_reason_set("memory: there is none, or it goes beyond the last address");
        return SNOW_INVALID;
    }
    env_mutex_lock(client->mutex);
    status = insert(client, at, size);
    env_mutex_unlock(client->mutex);
    if (status != SNOW_OK)
        return status;
    env_device_learn(client->env, at, size);
    if (!env_device_has(client->env, at))
        env_touch(at, size);
    return SNOW_OK;
}

struct quiet_call {
    struct ticket ticket;
    struct client_quiet_op op;
};

static void on_quiet(struct client_quiet_op *op)
{
    turns_done(&list_entry(op, struct quiet_call, op)->ticket);
}

static void start_quiet(struct ticket *ticket)
{
    client_quiet_start(ticket->client->client, &list_entry(ticket, struct quiet_call, ticket)->op,
                       ticket->call);
}

/* The range that begins there, taken out of the list or not; false: there is none. */
static bool look_up(struct snow_client *client, const void *at, bool take,
                    struct snow_buffer *range)
{
    size_t index;
    bool found;

    env_mutex_lock(client->mutex);
    index = find(client, at);
    found = index < client->registered_count && client->registered[index].at == at;
    if (found)
        *range = client->registered[index];
    if (found && take) {
        client->registered_count--;
        memmove(&client->registered[index], &client->registered[index + 1],
                (client->registered_count - index) * sizeof(*range));
    }
    env_mutex_unlock(client->mutex);
    return found;
}

enum snow_status snow_unregister(struct snow_client *client, void *at, const struct snow_call *call)
{
    struct quiet_call quiet = {.op = {.on_done = on_quiet}};
    enum snow_status status = turns_check(client, call, 0);
    struct snow_buffer range = {0};

    if (status != SNOW_OK)
        return status;
    if (look_up(client, at, false, &range)) {
        quiet.op.at = range.at;
        quiet.op.size = range.size;
        status = turns_run(client, &quiet.ticket, call, 0, start_quiet);
        if (status == SNOW_OK)
            status = quiet.op.status;
        if (status != SNOW_OK)
            return status;
        if (look_up(client, at, true, &range)) {
            env_device_forget(client->env, at);
            return SNOW_OK;
        }
    }
    turns_reason_set("memory: no registered range begins there");
    return SNOW_NOT_FOUND;
}
