/* Nodes as this client knows them: addresses, links, and who is avoided.
 *
 * Problem.  A place names a node by number; numbers have addresses that change, and nodes that do
 *           not answer cost each caller a time-out.
 * Idea.     Addresses come from the master, asked for when a number is new or a node has failed.
 *           One that failed is reported and avoided, for 250 ms first and twice as long each time
 *           until it works again: one caller pays, the others go round it (P7).  One that hangs,
 *           which takes long to see, is avoided the longer; and until it has worked again, reads
 *           go to other copies first.
 * Invariants.
 *   N1  Transfers wait at a node only while nodes_asked.
 *   N2  A link is made anew only when no transfer is on the old one.
 * Threads.  The loop's.
 */
#include "client/inside.h"

#include <stdlib.h>

#define AVOID_NS_MIN (250 * NS_PER_MS)
#define AVOID_NS_MAX (8 * NS_PER_S)
#define AVOID_COST 4u /* ... and at least so many times as long as it took to see that it fails */
#define NEAR_AGAIN_NS (1 * NS_PER_S) /* a way that was lost is not tried before */
#define REFRESH_NS_MAX (30 * NS_PER_S)

struct client_node *client_node_find(struct client *client, uint32_t number)
{
    struct list *bucket = &client->nodes[number % CLIENT_NODE_BUCKETS];

    list_each (bucket, link, next) {
        struct client_node *node = list_entry(link, struct client_node, of_client);

        if (node->number == number)
            return node;
    }
    if (client->node_count >= LIMIT_NODES)
        return NULL;
    struct client_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->number = number;
    list_init(&node->waiting);
    list_push(bucket, &node->of_client);
    client->node_count++;
    return node;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* Whether it is on this host, and where. */
static void set_near(const struct client *client, struct client_node *node,
                     const struct wire_node_info *info)
{
    node->near_address[0] = 0;
    node->on_host = bytes_equal(info->host, bytes_of_string(env_host(client->env)));
    if (client->options.way == CLIENT_WAY_TCP || info->near.size > LIMIT_NAME_SIZE ||
        !node->on_host)
        return;
    memcpy(node->near_address, info->near.at, info->near.size);
    node->near_address[info->near.size] = 0;
}

static void learn(struct client *client, const struct wire_node_info *info)
{
    struct client_node *node;

    if (info->address.size > LIMIT_NAME_SIZE || info->address.size == 0)
        return;
    node = client_node_find(client, info->node);
    if (node == NULL)
        return;
    node->told = true;
    set_near(client, node, info);
    if (node->incarnation == info->incarnation &&
        bytes_equal(bytes_of_string(node->address), info->address)) {
        node->known = true;
        return;
    }
    memcpy(node->address, info->address.at, info->address.size);
    node->address[info->address.size] = 0;
    node->incarnation = info->incarnation;
    node->moved = node->link != NULL || node->near != NULL;
    node->near_after_ns = 0;
    node->known = true;
    node->avoid_until_ns = 0;
    node->failures = 0;
}

/* The answer is complete, or there is none: who waits goes on, or ends. */
static void finish(struct client *client)
{
    client->nodes_asked = false;
    client->nodes_retry.attempts = 0;
    for (uint32_t i = 0; i < CLIENT_NODE_BUCKETS; i++) {
        list_each (&client->nodes[i], link, next) {
            struct client_node *node = list_entry(link, struct client_node, of_client);

            if (!list_is_empty(&node->waiting))
                client_moves_resume(client, node);
        }
    }
}

static void ask_page(struct client *client);

static void ask_later(struct client *client, enum snow_status status)
{
    uint64_t at_ns;

    if (rpc_retry_again(&client->nodes_retry, status, true, 0, client_now_ns(client), &at_ns))
        env_timer_arm(client->loop, &client->nodes_timer, at_ns);
    else
        finish(client);
}

static void on_nodes(struct rpc_call *call, enum snow_status status, const void *message, bool last)
{
    struct client *client = list_entry(call, struct client, nodes_call);
    const struct wire_nodes_rep *reply = message;

    if (status != SNOW_OK) {
        ask_later(client, status);
        return;
    }
    for (uint32_t i = 0; i < reply->nodes_count; i++) {
        learn(client, &reply->nodes[i]);
        client->nodes_next = reply->nodes[i].node + 1;
    }
    if (!last)
        return;
    if (reply->nodes_count == LIMIT_BATCH_ITEMS && client->nodes_next != 0)
        ask_page(client);
    else
        finish(client);
}

static void ask_page(struct client *client)
{
    struct rpc_conn *conn = rpc_peer_conn(&client->master);
    struct wire_nodes_req nodes = {.first = client->nodes_next};
    enum snow_status status = SNOW_CLOSED;

    if (conn != NULL)
        status = rpc_call_start(conn, &client->nodes_call, WIRE_nodes, &nodes, NULL,
                                client_now_ns(client) + REFRESH_NS_MAX);
    if (status != SNOW_OK)
        env_timer_arm(client->loop, &client->nodes_timer, client_now_ns(client) + 10 * NS_PER_MS);
}

static void on_nodes_timer(struct env_timer *timer)
{
    struct client *client = list_entry(timer, struct client, nodes_timer);

    if (client_now_ns(client) >= client->nodes_retry.deadline_ns)
        finish(client);
    else
        ask_page(client);
}

void client_nodes_refresh(struct client *client)
{
    if (client->nodes_asked)
        return;
    client->nodes_asked = true;
    client->nodes_next = 0;
    client->nodes_retry.attempts = 0;
    client->nodes_retry.deadline_ns = client_now_ns(client) + REFRESH_NS_MAX;
    ask_page(client);
}

/* Another master, or another reign: the same number may be another node now. */
void client_nodes_doubt(struct client *client)
{
    for (uint32_t i = 0; i < CLIENT_NODE_BUCKETS; i++) {
        list_each (&client->nodes[i], link, next)
            list_entry(link, struct client_node, of_client)->known = false;
    }
}

/* ---- health --------------------------------------------------------------------------------- */

enum node_rank client_node_rank(struct client *client, uint32_t number)
{
    const struct client_node *node = client_node_find(client, number);

    if (node == NULL)
        return NODE_WORKS;
    /* Asked for each item: most nodes never failed, and the clock costs more than the rest. */
    if (node->failures == 0)
        return !node->on_host                          ? NODE_WORKS
               : node->incarnation == client->own_node ? NODE_OWN
                                                       : NODE_NEAR;
    return client_now_ns(client) < node->avoid_until_ns ? NODE_AVOIDED : NODE_DOUBTED;
}

void client_node_failed(struct client *client, struct client_node *node, uint64_t took_ns)
{
    struct wire_report_peer_msg report = {.node = node->number, .status = SNOW_UNREACHABLE};
    struct rpc_conn *conn = rpc_peer_conn(&client->master);
    uint64_t now_ns = client_now_ns(client);
    uint64_t avoid_ns = AVOID_NS_MAX;

    if (now_ns < node->avoid_until_ns)
        return; /* several transfers end by one failure */
    if (node->failures < 5)
        avoid_ns = AVOID_NS_MIN << node->failures;
    if (took_ns > client->options.transport.stall_ns)
        took_ns = client->options.transport.stall_ns; /* before, it moved */
    if (avoid_ns < took_ns * AVOID_COST)
        avoid_ns = took_ns * AVOID_COST < AVOID_NS_MAX ? took_ns * AVOID_COST : AVOID_NS_MAX;
    node->failures++;
    node->avoid_until_ns = now_ns + avoid_ns;
    client_count(client, CLIENT_METRIC_nodes_failed, 1);
    /* A report that does not leave is one that another client makes. */
    if (conn != NULL && rpc_oneway(conn, WIRE_report_peer, &report) != SNOW_OK)
        conn = NULL;
    client_nodes_refresh(client);
}

void client_node_worked(struct client_node *node)
{
    node->failures = 0;
    node->avoid_until_ns = 0;
}

static void disconnect(struct transport_link **link)
{
    if (*link != NULL)
        (*link)->transport->ops->disconnect(*link);
    *link = NULL;
}

/* By the node's memory, when it is on this host.  Not OK: another way. */
static enum snow_status connect_near(struct client *client, struct client_node *node)
{
    struct transport_node to = {.incarnation = node->incarnation, .address = node->near_address};

    if (node->near != NULL && client->near->ops->is_lost(node->near)) {
        /* What was lost is tried again after a while; meanwhile there is the other way. */
        if (node->near_after_ns == 0) {
            node->near_after_ns = client_now_ns(client) + NEAR_AGAIN_NS;
            client_nodes_refresh(client); /* a new process of the node has a new address */
        }
        if (node->users > 0)
            return SNOW_UNREACHABLE;
        disconnect(&node->near);
    }
    if (node->near_address[0] == 0 || client_now_ns(client) < node->near_after_ns)
        return SNOW_UNREACHABLE;
    node->near_after_ns = 0;
    if (node->near != NULL)
        return SNOW_OK;
    return client->near->ops->connect(client->near, &to, &node->near);
}

enum snow_status client_node_connect(struct client *client, struct client_node *node,
                                     struct transport_link **link)
{
    struct transport_node to = {.incarnation = node->incarnation, .address = node->address};
    enum snow_status status = SNOW_UNREACHABLE;

    if (node->moved && node->users == 0) {
        disconnect(&node->link);
        disconnect(&node->near);
        node->moved = false;
    }
    if (client->options.way != CLIENT_WAY_TCP)
        status = connect_near(client, node);
    *link = node->near;
    if (status == SNOW_OK || client->options.way == CLIENT_WAY_SHM)
        return status;
    status = SNOW_OK;
    if (node->link == NULL)
        status = client->transport->ops->connect(client->transport, &to, &node->link);
    *link = node->link;
    return status;
}

/* ---- life ----------------------------------------------------------------------------------- */

void client_nodes_open(struct client *client)
{
    for (uint32_t i = 0; i < CLIENT_NODE_BUCKETS; i++)
        list_init(&client->nodes[i]);
    client->nodes_call.on_reply = on_nodes;
    client->nodes_timer.on_event = on_nodes_timer;
    client->nodes_retry.rng = &client->rng;
}

void client_nodes_close(struct client *client)
{
    struct list_link *link;

    rpc_call_cancel(&client->nodes_call);
    env_timer_cancel(&client->nodes_timer);
    for (uint32_t i = 0; i < CLIENT_NODE_BUCKETS; i++) {
        while ((link = list_pop(&client->nodes[i])) != NULL) {
            struct client_node *node = list_entry(link, struct client_node, of_client);

            ASSERT(list_is_empty(&node->waiting) && node->users == 0);
            disconnect(&node->link);
            disconnect(&node->near);
            free(node);
        }
    }
}
