/* The calls about groups that wait for their end: see turns.h. */
#include "client/turns.h"
#include "snowskin/groups.h"

struct group_stat_call {
    struct ticket ticket;
    struct client_group_stat_op op;
};

static void on_stat(struct client_group_stat_op *op)
{
    turns_done(&list_entry(op, struct group_stat_call, op)->ticket);
}

static void start_stat(struct ticket *ticket)
{
    client_group_stat_start(ticket->client->client,
                            &list_entry(ticket, struct group_stat_call, ticket)->op, ticket->call);
}

static enum snow_status first_failure(enum snow_status all, enum snow_status item)
{
    return all != SNOW_OK || snow_status_verdict(item) == SNOW_DONE ? all : item;
}

enum snow_status snow_group_stat(struct snow_client *client, struct snow_group_info *items,
                                 size_t count, const struct snow_call *call)
{
    struct group_stat_call stat = {.op = {.on_done = on_stat, .items = items, .count = count}};
    enum snow_status run = turns_run(client, &stat.ticket, call, SNOW_CALL_LEASE, start_stat);
    enum snow_status status = run;

    for (size_t i = 0; i < count; i++) {
        if (run != SNOW_OK)
            items[i].status = run;
        status = first_failure(status, items[i].status);
    }
    return status;
}

struct group_get_call {
    struct ticket ticket;
    struct client_group_get_op op;
};

static void on_get(struct client_group_get_op *op)
{
    turns_done(&list_entry(op, struct group_get_call, op)->ticket);
}

static void start_get(struct ticket *ticket)
{
    struct group_get_call *get = list_entry(ticket, struct group_get_call, ticket);

    get->op.worker = ticket->seat->worker;
    client_group_get_start(ticket->client->client, &get->op, ticket->call);
}

enum snow_status snow_group_get(struct snow_client *client, struct snow_group_read *group,
                                struct snow_get *items, size_t count, const struct snow_call *call)
{
    struct group_get_call get = {
        .op = {.on_done = on_get, .group = group, .items = items, .count = count}};
    enum snow_status status = turns_run(client, &get.ticket, call, 0, start_get);

    for (size_t i = 0; i < count && status != SNOW_OK; i++)
        items[i].status = status;
    if (status != SNOW_OK)
        group->status = status;
    return group->status;
}

struct match_call {
    struct ticket ticket;
    struct client_match_op op;
};

static void on_match(struct client_match_op *op)
{
    turns_done(&list_entry(op, struct match_call, op)->ticket);
}

static void start_match(struct ticket *ticket)
{
    client_match_start(ticket->client->client, &list_entry(ticket, struct match_call, ticket)->op,
                       ticket->call);
}

enum snow_status snow_match_prefix(struct snow_client *client, struct snow_chain *chain,
                                   const struct snow_call *call)
{
    struct match_call match = {.op = {.on_done = on_match, .chain = chain}};
    enum snow_status status =
        turns_run(client, &match.ticket, call, SNOW_CALL_TOUCH | SNOW_CALL_LEASE, start_match);

    if (status != SNOW_OK) {
        chain->matched = 0;
        chain->run_count = 0;
        chain->node_count = 0;
        chain->stop = status;
        return status;
    }
    return match.op.status;
}
