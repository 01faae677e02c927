/* The greeting: the first frame on every connection, both ways.
 *
 * The one that dialled says who it is and what it expects; the other side checks version, cluster,
 * token and incarnation, asks its service, and answers.  A refusal is an answer too: its header
 * carries the status and its body the reason, so that a person learns what to do.
 */
#include "rpc/conn.h"

/* ---- waiting for it ------------------------------------------------------------------------- */

static void on_timer(struct env_timer *timer)
{
    struct rpc_conn *conn = list_entry(timer, struct rpc_conn, hello_timer);
    struct rpc *rpc = conn->rpc;

    rpc_enter(rpc);
    rpc_count(rpc, RPC_METRIC_hello_timeouts);
    rpc_conn_end(conn, SNOW_TIMEOUT, true);
    rpc_leave(rpc);
}

void rpc_hello_wait(struct rpc_conn *conn, uint64_t until_ns)
{
    struct rpc *rpc = conn->rpc;

    if (until_ns == 0)
        until_ns = env_now_ns(rpc->env) + rpc->options.hello_timeout_ms * NS_PER_MS;
    conn->hello_timer.on_event = on_timer;
    env_timer_arm(rpc->loop, &conn->hello_timer, until_ns);
}

static void become_open(struct rpc_conn *conn, uint32_t version)
{
    env_timer_cancel(&conn->hello_timer);
    conn->state = RPC_CONN_OPEN;
    conn->version = version;
    conn->greeted = true;
}

/* ---- the side that dialled ------------------------------------------------------------------ */

void rpc_hello_ask(struct rpc_conn *conn)
{
    const struct rpc_identity *identity = &conn->rpc->identity;
    struct wire_hello_req hello = {
        .version_min = WIRE_VERSION_MIN,
        .version_max = WIRE_VERSION,
        .features = identity->features,
        .role = identity->role,
        .cluster = identity->cluster,
        .session = conn->session,
        .incarnation = conn->expect != 0 ? conn->expect : identity->incarnation,
        .term = identity->term,
        .token = identity->token,
        .name = identity->name,
    };
    struct frame_header header = {.kind = FRAME_REQUEST, .type = WIRE_hello};
    struct writer writer = rpc_send_writer(conn);

    if (wire_request_encode(WIRE_hello, &hello, &writer) != SNOW_OK) {
        rpc_conn_break(conn, SNOW_LIMIT, false); /* our own token or name is too long */
        return;
    }
    rpc_send_frame(conn, &header, rpc_send_body(conn, &writer), NULL, false, NULL);
}

/* It is no peer for us: the owner is told, the connection ends. */
static void give_up(struct rpc_conn *conn, enum snow_status status,
                    const struct wire_hello_rep *hello)
{
    rpc_count(conn->rpc, RPC_METRIC_dials_failed);
    conn->on_open(conn->owner, conn, status, hello);
    rpc_conn_end(conn, status, false);
}

void rpc_hello_reply(struct rpc_conn *conn, const struct frame_header *header, struct bytes body)
{
    struct rpc *rpc = conn->rpc;
    struct rpc_identity *identity = &rpc->identity;
    const struct wire_hello_rep *hello;
    void *decoded;

    if (header->type != WIRE_hello || header->request_id != 0 || header->payload_size != 0 ||
        header->kind != FRAME_REPLY_LAST ||
        wire_reply_decode(WIRE_hello, body, conn->version, &conn->arena, &decoded) != SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_hello);
        return;
    }
    hello = decoded;
    if (header->status != SNOW_OK) {
        give_up(conn, status_is_known(header->status) ? header->status : SNOW_REFUSED, hello);
        return;
    }
    if (hello->version < WIRE_VERSION_MIN || hello->version > WIRE_VERSION) {
        rpc_count(rpc, RPC_METRIC_hello_refused_version);
        give_up(conn, SNOW_REFUSED, hello);
        return;
    }
    if (hello->cluster != 0 && identity->cluster != 0 && hello->cluster != identity->cluster) {
        rpc_count(rpc, RPC_METRIC_hello_refused_cluster);
        give_up(conn, SNOW_REFUSED, hello);
        return;
    }
    if (identity->cluster == 0)
        identity->cluster = hello->cluster;
    if (header->term > identity->term)
        identity->term = header->term;
    become_open(conn, hello->version);
    rpc_count(rpc, RPC_METRIC_connections_dialled);
    conn->on_open(conn->owner, conn, SNOW_OK, hello);
}

/* ---- the side that was dialled -------------------------------------------------------------- */

/* Equal, in a time that does not tell where they differ. */
static bool tokens_equal(struct bytes a, struct bytes b)
{
    uint8_t difference = 0;

    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        difference |= (uint8_t)(a.at[i] ^ b.at[i]);
    return difference == 0;
}

static enum snow_status refuse(struct rpc *rpc, struct wire_hello_rep *reply,
                               enum rpc_metric metric, const char *reason)
{
    rpc_count(rpc, metric);
    reply->reason = bytes_of_string(reason);
    return SNOW_REFUSED;
}

/* What is decided here, before the service is asked. */
static enum snow_status check(struct rpc *rpc, const struct wire_hello_req *hello,
                              struct wire_hello_rep *reply)
{
    const struct rpc_identity *identity = &rpc->identity;
    uint8_t version = hello->version_max < WIRE_VERSION ? hello->version_max : WIRE_VERSION;

    if (version < WIRE_VERSION_MIN || version < hello->version_min)
        return refuse(rpc, reply, RPC_METRIC_hello_refused_version,
                      "no common protocol version: run releases that are closer together");
    if (!tokens_equal(hello->token, identity->token))
        return refuse(rpc, reply, RPC_METRIC_hello_refused_token,
                      "the cluster token differs: give both sides the same one");
    if (hello->cluster != 0 && identity->cluster != 0 && hello->cluster != identity->cluster)
        return refuse(rpc, reply, RPC_METRIC_hello_refused_cluster,
                      "this is another cluster: check the address");
    if (hello->role != WIRE_ROLE_NODE && hello->role != WIRE_ROLE_HEARTBEAT &&
        hello->incarnation != 0 && identity->incarnation != 0 &&
        hello->incarnation != identity->incarnation)
        return refuse(rpc, reply, RPC_METRIC_hello_refused_incarnation,
                      "another node has this address now: ask the master again");
    reply->version = version;
    reply->features = hello->features & identity->features;
    reply->cluster = identity->cluster;
    reply->term = identity->term;
    return SNOW_OK;
}

void rpc_hello_request(struct rpc_conn *conn, const struct frame_header *header, struct bytes body)
{
    struct rpc *rpc = conn->rpc;
    struct wire_hello_rep reply = {0};
    const struct wire_hello_req *hello;
    void *decoded;

    if (header->type != WIRE_hello || header->request_id != 0 || header->payload_size != 0 ||
        header->kind != FRAME_REQUEST ||
        wire_request_decode(WIRE_hello, body, conn->version, &conn->arena, &decoded) != SNOW_OK) {
        rpc_conn_bad(conn, RPC_METRIC_bad_hello);
        return;
    }
    hello = decoded;
    conn->role = hello->role;
    enum snow_status status = check(rpc, hello, &reply);

    if (status == SNOW_OK && rpc->service->on_hello != NULL) {
        rpc_conn_term(conn, header->term);
        reply.term = rpc->identity.term;
        status = rpc->service->on_hello(rpc->owner, conn, hello, &reply);
        if (status != SNOW_OK)
            rpc_count(rpc, RPC_METRIC_hello_refused_service);
    }
    conn->greeted = status == SNOW_OK; /* the service knows it, so it learns of its end */
    if (!rpc_conn_alive(conn))
        return;
    struct frame_header answer = {.kind = FRAME_REPLY_LAST, .type = WIRE_hello, .status = status};
    struct writer writer = rpc_send_writer(conn);

    if (wire_reply_encode(WIRE_hello, &reply, &writer) != SNOW_OK) {
        rpc_conn_break(conn, SNOW_LIMIT, false);
        return;
    }
    rpc_send_frame(conn, &answer, rpc_send_body(conn, &writer), NULL, false, NULL);
    if (status == SNOW_OK) {
        if (!rpc_conn_alive(conn)) /* there was no memory for the answer */
            return;
        become_open(conn, reply.version);
        rpc_count(rpc, RPC_METRIC_connections_accepted);
        return;
    }
    rpc_send_flush(conn); /* the reason, then the end */
    rpc_conn_end(conn, status, false);
}
