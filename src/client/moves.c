#include "client/moves.h"

#include "client/inside.h"
#include "client/stages.h"

/* What goes to or comes from one node. */
struct transfer {
    struct transport_op op;
    struct list_link link; /* in moves->gathered or ->under_way */
    struct client_moves *moves;
    struct client_node *node;
    struct transport_link *way;
    struct transport_item *last;
    struct list_link of_node; /* in node->waiting */
    struct env_timer timer;   /* ends it in the next turn: it could not start */
    enum snow_status failure;
    uint64_t began_ns;
    bool posted;
    void *stage; /* stages.h; NULL: none */
};

void client_moves_init(struct client_moves *moves, struct client *client,
                       const struct client_moves_ops *ops, uint64_t deadline_ns,
                       struct arena *arena)
{
    moves->ops = ops;
    moves->client = client;
    moves->arena = arena;
    moves->deadline_ns = deadline_ns;
    list_init(&moves->gathered);
    list_init(&moves->under_way);
}

static void detach(struct transfer *transfer)
{
    env_timer_cancel(&transfer->timer);
    if (list_is_linked(&transfer->of_node))
        list_remove(&transfer->of_node);
    list_remove(&transfer->link);
    client_stage_end(transfer->moves->client, &transfer->stage);
    if (transfer->posted)
        transfer->node->users--;
    transfer->posted = false;
}

void client_moves_cancel(struct client_moves *moves)
{
    struct list_link *link;

    if (moves->ops == NULL)
        return;
    while ((link = list_first(&moves->under_way)) != NULL) {
        struct transfer *transfer = list_entry(link, struct transfer, link);

        if (transfer->posted)
            transfer->way->transport->ops->cancel(&transfer->op);
        detach(transfer);
    }
    list_init(&moves->gathered);
    moves->ops = NULL;
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void on_item(struct transport_op *op, struct transport_item *item)
{
    struct client_moves *moves = list_entry(op, struct transfer, op)->moves;

    client_stage_item(moves->client, op, item);
    moves->ops->on_item(moves, item);
}

static void on_done(struct transport_op *op)
{
    struct transfer *transfer = list_entry(op, struct transfer, op);
    struct client_moves *moves = transfer->moves;
    struct client_node *node = transfer->node;
    bool worked = false;
    bool failed = false;

    for (const struct transport_item *item = op->first; item != NULL; item = item->next) {
        worked = worked || item->status == SNOW_OK;
        failed = failed || item->status == SNOW_UNREACHABLE;
    }
    detach(transfer);
    if (failed)
        client_node_failed(moves->client, node, client_now_ns(moves->client) - transfer->began_ns);
    else if (worked)
        client_node_worked(node);
    moves->ops->on_event(moves);
}

/* It could not start. */
static void on_timer(struct env_timer *timer)
{
    struct transfer *transfer = list_entry(timer, struct transfer, timer);
    struct client_moves *moves = transfer->moves;
    struct transport_item *next;

    detach(transfer);
    for (struct transport_item *item = transfer->op.first; item != NULL; item = next) {
        next = item->next; /* it may be added again */
        item->status = transfer->failure;
        moves->ops->on_item(moves, item);
    }
    moves->ops->on_event(moves);
}

/* ---- starts --------------------------------------------------------------------------------- */

static void fail_soon(struct transfer *transfer, enum snow_status status)
{
    transfer->failure = status;
    env_timer_arm(transfer->moves->client->loop, &transfer->timer, 0);
}

static void start(struct transfer *transfer)
{
    struct client *client = transfer->moves->client;
    struct client_node *node = transfer->node;
    enum snow_status status;

    status = client_node_connect(client, node, &transfer->way);
    env_device_look(client->env);
    if (status == SNOW_OK && !transfer->way->transport->ops->takes_devices)
        status = client_stage_begin(client, &transfer->op, &transfer->stage);
    if (status == SNOW_OK)
        status = transfer->way->transport->ops->post(transfer->way, &transfer->op);
    if (status != SNOW_OK) {
        fail_soon(transfer, status);
        return;
    }
    transfer->posted = true;
    transfer->began_ns = client_now_ns(client);
    node->users++;
}

void client_moves_resume(struct client *client, struct client_node *node)
{
    struct list_link *link;

    (void)client;
    while ((link = list_pop(&node->waiting)) != NULL) {
        struct transfer *transfer = list_entry(link, struct transfer, of_node);

        if (node->known)
            start(transfer);
        else
            fail_soon(transfer, SNOW_UNREACHABLE);
    }
}

void client_moves_go(struct client_moves *moves)
{
    struct client *client = moves->client;
    struct list_link *link;

    while ((link = list_pop(&moves->gathered)) != NULL) {
        struct transfer *transfer = list_entry(link, struct transfer, link);
        struct client_node *node = transfer->node;

        list_push(&moves->under_way, link);
        if (client_now_ns(client) < node->avoid_until_ns) {
            client_count(client, CLIENT_METRIC_moves_avoided, 1);
            fail_soon(transfer, SNOW_UNREACHABLE);
        } else if (!node->known) {
            list_push(&node->waiting, &transfer->of_node);
            client_nodes_refresh(client);
        } else {
            start(transfer);
        }
    }
}

static struct transfer *transfer_to(struct client_moves *moves, uint32_t number)
{
    list_each (&moves->gathered, link, next) {
        struct transfer *transfer = list_entry(link, struct transfer, link);

        if (transfer->node->number == number)
            return transfer;
    }
    struct client_node *node = client_node_find(moves->client, number);
    struct transfer *transfer = node == NULL ? NULL : arena_take(moves->arena, sizeof(*transfer));

    if (transfer == NULL)
        return NULL;
    transfer->moves = moves;
    transfer->node = node;
    transfer->timer.on_event = on_timer;
    transfer->op.on_item = on_item;
    transfer->op.on_done = on_done;
    transfer->op.write = moves->ops->write;
    transfer->op.worker = moves->worker;
    transfer->op.deadline_ns = moves->deadline_ns;
    list_push(&moves->gathered, &transfer->link);
    return transfer;
}

enum snow_status client_moves_add(struct client_moves *moves, struct transport_item *item)
{
    struct transfer *transfer = transfer_to(moves, item->place->node);

    if (transfer == NULL)
        return SNOW_NO_MEMORY;
    item->next = NULL;
    if (transfer->last == NULL)
        transfer->op.first = item;
    else
        transfer->last->next = item;
    transfer->last = item;
    return SNOW_OK;
}
