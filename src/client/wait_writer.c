/* The blocking calls of snowskin.h on puts that span calls.
 *
 * Threads.  Any.
 */
#include "base/assert.h"
#include "client/turns.h"

#include <stdlib.h>

struct writer_call {
    struct ticket ticket;
    struct client_writer_op op;
    struct snow_put *item; /* of an opening */
    struct env_task close; /* of a closing */
    struct client_writer *closed;
};

static void on_writer(struct client_writer_op *op)
{
    turns_done(&list_entry(op, struct writer_call, op)->ticket);
}

static void start_open(struct ticket *ticket)
{
    struct writer_call *call = list_entry(ticket, struct writer_call, ticket);

    client_writer_open_start(ticket->client->client, &call->op, call->item, ticket->call);
}

static void start_renew(struct ticket *ticket)
{
    client_writer_renew_start(ticket->client->client,
                              &list_entry(ticket, struct writer_call, ticket)->op, ticket->call);
}

static void start_commit(struct ticket *ticket)
{
    client_writer_commit_start(ticket->client->client,
                               &list_entry(ticket, struct writer_call, ticket)->op, ticket->call);
}

/* What the calls end with. */
static enum snow_status result_of(enum snow_status status, const struct writer_call *call)
{
    if (status != SNOW_OK)
        return status;
    if (call->op.status != SNOW_OK)
        turns_reason_set(call->op.reason);
    return call->op.status;
}

enum snow_status snow_writer_open(struct snow_client *client, struct snow_put *item,
                                  uint32_t hold_ms, const struct snow_call *options,
                                  struct snow_writer **opened)
{
    struct writer_call call = {.op = {.on_done = on_writer, .hold_ms = hold_ms}, .item = item};
    struct snow_writer *writer = calloc(1, sizeof(*writer));
    enum snow_status status = SNOW_NO_MEMORY;

    *opened = NULL;
    item->shortfall = 0;
    if (writer != NULL)
        status = result_of(
            turns_run(client, &call.ticket, options, SNOW_CALL_NO_WAIT_WRITER, start_open), &call);
    item->status = status;
    item->elsewhere = call.op.elsewhere;
    if (status != SNOW_OK) {
        free(writer);
        return status;
    }
    writer->client = client;
    writer->writer = call.op.writer;
    *opened = writer;
    return SNOW_OK;
}

enum snow_status snow_writer_renew(struct snow_writer *writer, uint32_t hold_ms,
                                   const struct snow_call *options)
{
    struct writer_call call = {
        .op = {.on_done = on_writer, .hold_ms = hold_ms, .writer = writer->writer}};

    return result_of(turns_run(writer->client, &call.ticket, options, 0, start_renew), &call);
}

enum snow_status snow_writer_commit(struct snow_writer *writer, uint32_t *shortfall,
                                    const struct snow_call *options)
{
    struct writer_call call = {.op = {.on_done = on_writer, .writer = writer->writer}};
    enum snow_status status =
        result_of(turns_run(writer->client, &call.ticket, options, 0, start_commit), &call);

    if (shortfall != NULL)
        *shortfall = call.op.shortfall;
    return status;
}

/* ---- closing -------------------------------------------------------------------------------- */

static void on_close(struct env_task *task)
{
    struct writer_call *call = list_entry(task, struct writer_call, close);

    client_writer_close(call->closed);
    turns_done(&call->ticket);
}

/* A turn later, so that what it sends leaves. */
static void start_close(struct ticket *ticket)
{
    struct writer_call *call = list_entry(ticket, struct writer_call, ticket);

    call->close.on_event = on_close;
    env_loop_post(ticket->client->loop, &call->close);
}

void snow_writer_close(struct snow_writer *writer)
{
    struct writer_call call = {0};
    enum snow_status status;

    if (writer == NULL)
        return;
    call.closed = writer->writer;
    do
        status = turns_run(writer->client, &call.ticket, NULL, 0, start_close);
    while (status == SNOW_NO_MEMORY);
    free(writer); /* after a fork what lies behind it is the parent's (B3) */
}

/* ---- writing -------------------------------------------------------------------------------- */

struct write_call {
    struct ticket ticket;
    struct client_write_op op;
};

static void on_write(struct client_write_op *op)
{
    turns_done(&list_entry(op, struct write_call, op)->ticket);
}

static void start_write(struct ticket *ticket)
{
    struct write_call *write = list_entry(ticket, struct write_call, ticket);

    write->op.worker = ticket->seat->worker;
    client_write_start(ticket->client->client, &write->op, ticket->call);
}

enum snow_status snow_writer_write(struct snow_writer *writer, struct snow_write *items,
                                   size_t count, const struct snow_call *call)
{
    struct write_call write = {
        .op = {.on_done = on_write, .items = items, .count = count, .writer = writer->writer}};
    enum snow_status status = turns_run(writer->client, &write.ticket, call, 0, start_write);

    for (size_t i = 0; i < count && status != SNOW_OK; i++)
        items[i].status = status;
    for (size_t i = 0; i < count && status == SNOW_OK; i++)
        status = items[i].status;
    return status;
}
