/* The client itself: the link to the master, and what all operations share.
 *
 * Problem.  The master may be restarted, the link be lost; operations under way must not notice
 *           more than a delay.
 * Idea.     One link that is kept up (rpc/peer.h) and returns with its session.  Questions that
 *           find it down wait in `asking`.
 * Threads.  The loop's.
 */
#include "client/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define HOLD_RETURN_NS (5 * NS_PER_S)
#define HELLO_TIMEOUT_MS 3000
#define PROGRESS_TIMEOUT_MS 5000
#define ABORT_NS (5 * NS_PER_S) /* how long the answer to a put_abort is awaited */
#define DEADLINE_MS 5000
#define USER_TIMEOUT_MS 10000

/* ---- counters ------------------------------------------------------------------------------- */

const struct rpc *client_rpc(const struct client *client)
{
    return client->rpc;
}

const uint64_t *client_metrics(const struct client *client)
{
    return client->counters;
}

uint32_t client_metric_count(void)
{
    return CLIENT_METRIC_COUNT;
}

const char *client_metric_name(uint32_t index)
{
    static const char *const names[] = {
#define METRIC(name, kind, text) #name,
#include "client/client_metrics.def"
#undef METRIC
    };

    return index < CLIENT_METRIC_COUNT ? names[index] : NULL;
}

/* ---- the link to the master ----------------------------------------------------------------- */

/* A message that returns holds. */
struct hold_return {
    struct rpc_call call;
    struct list_link of_client;
    struct client *client;
    uint32_t count;
    struct wire_id operations[];
};

/* One that finds no memory ends with the session. */
static void owe(struct client *client, uint64_t operation)
{
    if (client->owed_count == client->owed_capacity) {
        size_t capacity = client->owed_capacity * 2 + 16;
        uint64_t *more = realloc(client->owed, capacity * sizeof(*more));

        if (more == NULL)
            return;
        client->owed = more;
        client->owed_capacity = capacity;
    }
    client->owed[client->owed_count++] = operation;
}

static void hold_return_free(struct hold_return *sent)
{
    list_remove(&sent->of_client);
    sent->client->hold_return_count--;
    free(sent);
}

static void return_owed(struct client *client);

static void on_holds_returned(struct rpc_call *call, enum snow_status status, const void *reply,
                              bool last)
{
    struct hold_return *sent = list_entry(call, struct hold_return, call);
    struct client *client = sent->client;

    (void)reply;
    if (!last)
        return;
    /* GONE and the like: the session has ended, and they with it. */
    for (uint32_t i = 0; i < sent->count && (status == SNOW_CLOSED || status == SNOW_TIMEOUT); i++)
        owe(client, sent->operations[i].id);
    hold_return_free(sent);
    if (status != SNOW_CLOSED) /* then when the link is up again */
        return_owed(client);
}

/* Sends the last ones that are owed; false: not now. */
static bool send_owed(struct client *client, struct rpc_conn *conn)
{
    uint32_t count =
        client->owed_count < LIMIT_BATCH_ITEMS ? (uint32_t)client->owed_count : LIMIT_BATCH_ITEMS;
    struct hold_return *sent = calloc(1, sizeof(*sent) + count * sizeof(sent->operations[0]));
    struct wire_hold_return_req message = {.operations_count = count};

    if (sent == NULL)
        return false;
    sent->client = client;
    sent->count = count;
    sent->call.on_reply = on_holds_returned;
    for (uint32_t i = 0; i < count; i++)
        sent->operations[i].id = client->owed[client->owed_count - count + i];
    message.operations = sent->operations;
    list_push(&client->hold_returns, &sent->of_client);
    client->hold_return_count++;
    if (rpc_call_start(conn, &sent->call, WIRE_hold_return, &message, NULL,
                       client_now_ns(client) + HOLD_RETURN_NS) != SNOW_OK) {
        hold_return_free(sent);
        return false;
    }
    client->owed_count -= count;
    return true;
}

static void return_owed(struct client *client)
{
    struct rpc_conn *conn = rpc_peer_conn(&client->master);

    while (conn != NULL && client->owed_count > 0 &&
           client->hold_return_count < CLIENT_HOLD_RETURNS_MAX && send_owed(client, conn))
        client_count(client, CLIENT_METRIC_leases_returned, 1);
}

/* ---- operations that wait for the link only so long ------------------------------------------ */

static void watch_patience(struct client *client, const struct client_op *op)
{
    uint64_t at_ns = client->down_since_ns + op->patience_ns;

    if (op->patience_ns == 0 || rpc_peer_conn(&client->master) != NULL)
        return;
    if (client->patience.loop != NULL && client->patience_at_ns <= at_ns)
        return;
    client->patience_at_ns = at_ns;
    env_timer_arm(client->loop, &client->patience, at_ns);
}

/* Those that are out of it end in their next event; the others are watched on. */
static void on_patience(struct env_timer *timer)
{
    struct client *client = list_entry(timer, struct client, patience);
    uint64_t now_ns = client_now_ns(client);

    list_each (&client->ops, link, next) {
        struct client_op *op = list_entry(link, struct client_op, of_client);

        if (op->patience_ns != 0 && client->down_since_ns + op->patience_ns <= now_ns)
            client_op_hurry(op);
        else
            watch_patience(client, op);
    }
}

static void on_up(struct rpc_peer *peer, const struct wire_hello_rep *hello)
{
    struct client *client = list_entry(peer, struct client, master);
    struct list asking;
    struct list_link *link;

    if (hello->term != client->term)
        client_nodes_doubt(client);
    client->term = hello->term;
    client->link_failure = SNOW_OK;
    client->reason[0] = 0;
    env_timer_cancel(&client->patience);
    return_owed(client);
    client_nodes_refresh(client); /* the first read is to know already what is near */
    list_init(&asking);
    while ((link = list_pop(&client->asking)) != NULL)
        list_push(&asking, link);
    while ((link = list_pop(&asking)) != NULL)
        client_ask_pump(list_entry(link, struct client_ask, of_client));
}

static void on_down(struct rpc_peer *peer, enum snow_status status)
{
    struct client *client = list_entry(peer, struct client, master);

    (void)status;
    client->link_failure = SNOW_UNREACHABLE;
    client->down_since_ns = client_now_ns(client);
    list_each (&client->ops, link, next)
        watch_patience(client, list_entry(link, struct client_op, of_client));
    client_count(client, CLIENT_METRIC_master_lost, 1);
}

static void on_failed(struct rpc_peer *peer, enum snow_status status, struct bytes reason)
{
    struct client *client = list_entry(peer, struct client, master);
    size_t size = reason.size < sizeof(client->reason) ? reason.size : sizeof(client->reason) - 1;

    client->link_failure = status == SNOW_TIMEOUT ? SNOW_UNREACHABLE : status;
    if (size > 0)
        memcpy(client->reason, reason.at, size);
    client->reason[size] = 0;
}

enum snow_status client_link_status(const struct client *client, const char **reason)
{
    *reason = client->reason;
    if (rpc_peer_conn(&client->master) != NULL)
        return SNOW_OK;
    return client->link_failure == SNOW_OK ? SNOW_NOT_READY : client->link_failure;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Nobody asks a client. */
static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    (void)owner;
    (void)conn;
    (void)type;
    (void)message;
    (void)payload_size;
    rpc_fail(request, SNOW_INVALID);
}

static void on_oneway(void *owner, struct rpc_conn *conn, uint16_t type, const void *message)
{
    (void)owner;
    (void)conn;
    (void)type;
    (void)message;
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    (void)owner;
    (void)request;
}

static const struct rpc_service client_service = {
    .on_request = on_request,
    .on_oneway = on_oneway,
    .on_request_gone = on_request_gone,
};

void client_options_init(struct client_options *options)
{
    *options =
        (struct client_options){.deadline_ms = DEADLINE_MS,
                                .transport = {.lanes = 2,
                                              .piece_bytes = 1 * MIB,
                                              .window_bytes = 32 * MIB,
                                              .stall_ns = NS_PER_S,
                                              .verify = true,
                                              .sum_near = true},
                                .socket = {.keepalive = true, .user_timeout_ms = USER_TIMEOUT_MS}};
}

static enum snow_status open_all(struct client *client, const char **reason)
{
    struct rpc_identity identity = {.role = WIRE_ROLE_CLIENT,
                                    .token = client->options.token,
                                    .name = client->options.name};
    struct rpc_options options = {.socket = client->options.socket,
                                  .hello_timeout_ms = HELLO_TIMEOUT_MS,
                                  .progress_timeout_ms = PROGRESS_TIMEOUT_MS};
    enum snow_status status;

    *reason = "out of memory";
    status = rpc_create(client->loop, &identity, &options, &client_service, client, &client->rpc);
    if (status != SNOW_OK)
        return status;
    *reason = "transport options out of range: connections are 1 to 8";
    status = transport_tcp.open(client->rpc, &client->options.transport, &client->transport);
    if (status == SNOW_OK)
        status = transport_shm.open(client->rpc, &client->options.transport, &client->near);
    if (status != SNOW_OK)
        return status;
    client->master.on_up = on_up;
    client->master.on_down = on_down;
    client->master.on_failed = on_failed;
    client->master.near = client->options.way != CLIENT_WAY_TCP;
    *reason = "the master's address is no host:port";
    return rpc_peer_open(&client->master, client->rpc, client->options.master, 0);
}

enum snow_status client_create(struct env_loop *loop, const struct client_options *options,
                               struct client **created, const char **reason)
{
    struct client *client = calloc(1, sizeof(*client));
    enum snow_status status;

    *reason = "out of memory";
    if (client == NULL)
        return SNOW_NO_MEMORY;
    client->loop = loop;
    client->env = env_loop_env(loop);
    client->options = *options;
    if (client->options.deadline_ms == 0)
        client->options.deadline_ms = DEADLINE_MS;
    if (FAULT(env_faults(client->env), torn_read))
        client->options.transport.verify = client->options.transport.verify_near = false;
    if (options->socket.congestion != NULL) {
        snprintf(client->congestion, sizeof(client->congestion), "%s", options->socket.congestion);
        client->options.socket.congestion = client->congestion;
    }
    rng_init(&client->rng, env_random(client->env));
    client->next_operation = env_random(client->env);
    list_init(&client->ops);
    list_init(&client->quiets);
    list_init(&client->asking);
    list_init(&client->aborts);
    list_init(&client->hold_returns);
    client->down_since_ns = client_now_ns(client);
    client->patience.on_event = on_patience;
    arena_init(&client->scratch, 0);
    client_nodes_open(client);
    status = client_rules_create(options->key_rules, &client->rules, reason);
    if (status == SNOW_OK)
        status = open_all(client, reason);
    /* Copies of rpc's serve from now on. */
    client->options.master = NULL;
    client->options.key_rules = NULL;
    client->options.token = client->options.name = bytes_of(NULL, 0);
    if (status != SNOW_OK) {
        client_destroy(client);
        return status;
    }
    *created = client;
    *reason = "";
    return SNOW_OK;
}

void client_own_node_set(struct client *client, uint64_t incarnation)
{
    client->own_node = incarnation;
}

struct abort {
    struct rpc_call call;
    struct list_link of_client;
    struct client *client;
};

static void abort_free(struct abort *abort)
{
    list_remove(&abort->of_client);
    abort->client->abort_count--;
    free(abort);
}

void client_destroy(struct client *client)
{
    struct list_link *link;

    ASSERT(list_is_empty(&client->asking) && list_is_empty(&client->ops));
    while ((link = list_first(&client->aborts)) != NULL) {
        struct abort *abort = list_entry(link, struct abort, of_client);

        rpc_call_cancel(&abort->call);
        abort_free(abort);
    }
    client_nodes_close(client);
    env_timer_cancel(&client->patience);
    while ((link = list_first(&client->hold_returns)) != NULL) {
        struct hold_return *sent = list_entry(link, struct hold_return, of_client);

        rpc_call_cancel(&sent->call);
        hold_return_free(sent);
    }
    rpc_peer_close(&client->master);
    if (client->transport != NULL)
        client->transport->ops->close(client->transport);
    if (client->near != NULL)
        client->near->ops->close(client->near);
    if (client->rpc != NULL)
        rpc_destroy(client->rpc);
    client_depths_deinit(&client->depths);
    client_rules_destroy(client->rules);
    arena_deinit(&client->scratch);
    free(client->owed);
    free(client);
}

/* ---- what operations share ------------------------------------------------------------------ */

uint64_t client_next_operation(struct client *client)
{
    if (++client->next_operation == 0)
        client->next_operation = 1;
    return client->next_operation;
}

void client_op_begin(struct client *client, struct client_op *op, const struct snow_call *call,
                     void (*on_timer)(struct env_timer *timer))
{
    uint32_t deadline_ms = call->deadline_ms != 0 ? call->deadline_ms : client->options.deadline_ms;

    ASSERT(op->client == NULL);
    memset(op, 0, sizeof(*op));
    op->client = client;
    list_push(&client->ops, &op->of_client);
    op->operation = client_next_operation(client);
    op->deadline_ns = client_now_ns(client) + deadline_ms * NS_PER_MS;
    op->patience_ns = call->patience_ms * NS_PER_MS;
    op->timer.on_event = on_timer;
    arena_init(&op->arena, 0);
    env_timer_arm(client->loop, &op->timer, op->deadline_ns);
    watch_patience(client, op);
}

void client_op_hurry(struct client_op *op)
{
    env_timer_arm(op->client->loop, &op->timer, 0);
}

enum snow_status client_op_late_status(struct client_op *op)
{
    const char *reason;
    enum snow_status status = client_link_status(op->client, &reason);

    client_count(op->client, CLIENT_METRIC_deadlines, 1);
    return status == SNOW_OK || status == SNOW_NOT_READY ? SNOW_TIMEOUT : status;
}

void client_op_leave(struct client_op *op)
{
    env_timer_cancel(&op->timer);
    list_remove(&op->of_client);
    client_quiet_look(op->client);
    op->client = NULL;
}

void client_op_end(struct client_op *op)
{
    client_op_leave(op);
    arena_deinit(&op->arena);
}

enum snow_status client_key_check(const struct snow_key *key)
{
    return key->at != NULL && key->size >= 1 && key->size <= LIMIT_KEY_SIZE ? SNOW_OK
                                                                            : SNOW_INVALID;
}

void client_lease_return(struct client *client, uint64_t operation)
{
    struct rpc_conn *conn = rpc_peer_conn(&client->master);
    struct wire_id id = {.id = operation};
    struct wire_lease_return_msg message = {.operations = &id, .operations_count = 1};

    /* One that does not leave runs out by itself. */
    if (conn != NULL && rpc_oneway(conn, WIRE_lease_return, &message) == SNOW_OK)
        client_count(client, CLIENT_METRIC_leases_returned, 1);
}

void client_hold_return(struct client *client, uint64_t operation)
{
    owe(client, operation);
    return_owed(client);
}

/* ---- giving grants back --------------------------------------------------------------------- */

static void on_aborted(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    (void)status; /* a grant that was not given back ends with its deadline */
    (void)reply;
    if (last)
        abort_free(list_entry(call, struct abort, call));
}

static void send_abort(struct client *client, const struct wire_put_abort_req *message)
{
    struct rpc_conn *conn = rpc_peer_conn(&client->master);
    struct abort *abort;

    if (conn == NULL || client->abort_count >= CLIENT_ABORTS_MAX)
        return;
    abort = calloc(1, sizeof(*abort));
    if (abort == NULL)
        return;
    abort->client = client;
    abort->call.on_reply = on_aborted;
    list_push(&client->aborts, &abort->of_client);
    client->abort_count++;
    if (rpc_call_start(conn, &abort->call, WIRE_put_abort, message, NULL,
                       client_now_ns(client) + ABORT_NS) != SNOW_OK)
        abort_free(abort);
    else
        client_count(client, CLIENT_METRIC_aborts, message->items_count);
}

void client_abort(struct client *client, const struct wire_key_gen *items, uint32_t count)
{
    size_t size_max = LIMIT_BODY_SIZE - 4 * KIB;

    while (count > 0) {
        struct wire_put_abort_req message = {
            .items = (struct wire_key_gen *)(uintptr_t)items /* read only */};
        size_t size = 0;

        while (message.items_count < count && message.items_count < LIMIT_BATCH_ITEMS) {
            size += wire_key_gen_size_min(WIRE_VERSION) + items[message.items_count].key.size;
            if (size > size_max)
                break;
            message.items_count++;
        }
        send_abort(client, &message);
        items += message.items_count;
        count -= message.items_count;
    }
}

/* ---- places --------------------------------------------------------------------------------- */

/* Bytes of the parts that come before this one; *seen: how many places say they are this part. */
static uint64_t bytes_before(const struct wire_place *places, uint32_t count, uint32_t index,
                             uint32_t *seen)
{
    const struct wire_place *place = &places[index];
    uint64_t size = 0;

    *seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].replica != place->replica)
            continue;
        if (places[i].part < place->part)
            size += places[i].length;
        *seen += places[i].part == place->part;
    }
    return size;
}

bool client_places_check(const struct wire_place *places, uint32_t count, uint64_t size,
                         uint16_t *replicas)
{
    uint64_t bytes[LIMIT_REPLICAS] = {0};
    uint32_t parts[LIMIT_REPLICAS] = {0};

    *replicas = 0;
    if (count > LIMIT_EXTENTS)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_place *place = &places[i];
        uint32_t seen;

        if (place->replica >= LIMIT_REPLICAS || place->length > size ||
            place->object_offset != bytes_before(places, count, i, &seen) || seen != 1)
            return false;
        *replicas = (uint16_t)(*replicas | 1u << place->replica);
        bytes[place->replica] += place->length;
        parts[place->replica]++;
        if (bytes[place->replica] > size)
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[places[i].replica] != size || parts[places[i].replica] != places[i].parts)
            return false;
    }
    return count > 0;
}
