#include "master/master.h"

#include "base/hash.h"
#include "core/core.h"
#include "master/state.h"
#include "rpc/rpc.h"

#include <stdlib.h>

#define HELLO_TIMEOUT_MS 5000
#define PROGRESS_TIMEOUT_MS 5000
#define OWN_TOKEN UINT64_MAX                    /* of requests of this process: no ticket's */
#define CLUSTER_SEED UINT64_C(0x636c7573746572) /* of names of clusters */

/* One connection: of a client, a node, or a node's heartbeat. */
struct link {
    struct list_link in_master;
    struct rpc_conn *conn;
    uint64_t session;     /* client: bound to it; 0: not, or not any more */
    uint64_t node;        /* node: number, once mounted; 0: not */
    uint64_t incarnation; /* node: from its greeting */
    uint32_t term;        /* node: highest it has seen */
    bool drop;            /* to be closed at the end of the step */
};

/* What a node was told to do: a forget, a copy. */
struct node_call {
    struct rpc_call call;
    struct list_link in_master;
    struct master *master;
    uint64_t node;
    uint16_t type;
};

/* A request that the core has not answered: its token is its place in the table and a count. */
struct ticket {
    struct rpc_request *request; /* NULL: free */
    struct link *link;
    uint32_t uses;
    uint32_t next_free;
};

struct master {
    struct env *env;
    struct env_loop *loop;
    struct obs_log *log;
    struct master_options options;
    struct rpc *rpc;
    struct core *core;
    struct core_outputs outputs;
    struct env_timer timer;
    uint64_t wake_ns;     /* that the timer is armed for */
    uint64_t own_session; /* of master_ask; 0: none yet */
    struct list links;
    struct list node_calls;
    struct ticket *tickets;
    uint32_t ticket_count;
    uint32_t ticket_free; /* first free one; UINT32_MAX: none */
    bool drops;           /* some links are to be closed */
    bool ready;           /* read by any thread */
    bool failed;          /* read by any thread */
};

static void step(struct master *master, const struct core_input *input);

/* ---- tickets ---- */

static bool ticket_take(struct master *master, struct link *link, struct rpc_request *request,
                        uint64_t *token)
{
    if (master->ticket_free == UINT32_MAX) {
        uint32_t count = master->ticket_count == 0 ? 256 : master->ticket_count * 2;
        struct ticket *grown = realloc(master->tickets, count * sizeof(*grown));

        if (grown == NULL)
            return false;
        for (uint32_t i = master->ticket_count; i < count; i++)
            grown[i] = (struct ticket){.next_free = i + 1 < count ? i + 1 : UINT32_MAX};
        master->ticket_free = master->ticket_count;
        master->tickets = grown;
        master->ticket_count = count;
    }
    uint32_t index = master->ticket_free;
    struct ticket *ticket = &master->tickets[index];

    master->ticket_free = ticket->next_free;
    ticket->request = request;
    ticket->link = link;
    *token = (uint64_t)++ticket->uses << 32 | index;
    return true;
}

static struct ticket *ticket_of(struct master *master, uint64_t token)
{
    uint32_t index = (uint32_t)token;

    if (index >= master->ticket_count || master->tickets[index].request == NULL ||
        master->tickets[index].uses != token >> 32)
        return NULL;
    return &master->tickets[index];
}

static void ticket_give(struct master *master, struct ticket *ticket)
{
    ticket->request = NULL;
    ticket->next_free = master->ticket_free;
    master->ticket_free = (uint32_t)(ticket - master->tickets);
}

/* ---- carrying out what the core says ---- */

static void persist(struct master *master)
{
    struct wire_id expected[LIMIT_NODES];
    struct wire_master_state state = {.cluster = core_cluster(master->core),
                                      .term = core_term(master->core),
                                      .expected = expected,
                                      .expected_count = core_expected_count(master->core)};
    enum snow_status status;

    rpc_identity(master->rpc)->term = core_term(master->core);
    if (master->options.state_dir[0] == 0)
        return;
    for (uint32_t i = 0; i < state.expected_count; i++)
        expected[i].id = core_expected_at(master->core, i).incarnation;
    status = master_state_write(master->env, master->options.state_dir, &state);
    if (status == SNOW_OK)
        return;
    obs_log_write(master->log, OBS_ERROR, "master", "can not keep the state file; stopping",
                  "dir=%s status=%s", master->options.state_dir, snow_status_name(status));
    __atomic_store_n(&master->failed, true, __ATOMIC_RELEASE);
    env_loop_stop(master->loop);
}

static void bind_node(struct master *master, struct link *link, uint64_t node)
{
    list_each (&master->links, at, next) {
        struct link *other = list_entry(at, struct link, in_master);

        if (other != link && other->node == node)
            other->node = 0; /* its process, or its connection, is an older one */
    }
    link->node = node;
}

static void carry_reply(struct master *master, const struct core_output *output)
{
    struct ticket *ticket = ticket_of(master, output->token);

    if (ticket == NULL)
        return;
    struct rpc_request *request = ticket->request;

    if (output->type == WIRE_mount && output->status == SNOW_OK)
        bind_node(master, ticket->link, ((const struct wire_mount_rep *)output->message)->node);
    if (output->last)
        ticket_give(master, ticket);
    if (output->status != SNOW_OK)
        rpc_fail(request, output->status);
    else
        rpc_reply(request, output->message, output->last);
}

static void node_call_free(struct node_call *call)
{
    list_remove(&call->in_master);
    free(call);
}

static void on_done(struct rpc_call *rpc_call, enum snow_status status, const void *reply,
                    bool last)
{
    struct node_call *call = list_entry(rpc_call, struct node_call, call);
    struct master *master = call->master;
    struct core_input input = {
        .kind = CORE_MESSAGE, .from = call->node, .type = call->type, .message = reply};

    if (last)
        node_call_free(call);
    if (status == SNOW_OK)
        step(master, &input);
    /* Else its connection ended: the next inventory asks for a forget again, a copy ends,
     * a question about an extent was in vain. */
}

static struct link *link_of_node(struct master *master, uint64_t node)
{
    list_each (&master->links, at, next) {
        struct link *link = list_entry(at, struct link, in_master);

        if (link->node == node)
            return link;
    }
    return NULL;
}

/* Too much is queued for it: a new connection, and its inventory, begins anew. */
static void drop_node(struct master *master, struct link *link)
{
    obs_log_write(master->log, OBS_WARNING, "master", "a node does not keep up", "node=%llu",
                  (unsigned long long)link->node);
    link->drop = true;
    master->drops = true;
}

static void carry_grow(struct master *master, const struct core_output *output)
{
    struct link *link = link_of_node(master, output->to);

    if (link != NULL && rpc_oneway(link->conn, WIRE_grow, output->message) != SNOW_OK)
        drop_node(master, link);
}

/* A forget, a copy, or a question about an extent. */
static void carry_call(struct master *master, const struct core_output *output)
{
    struct link *link = link_of_node(master, output->to);
    struct node_call *call;

    if (link == NULL)
        return;
    call = calloc(1, sizeof(*call));
    if (call != NULL) {
        call->master = master;
        call->node = output->to;
        call->type = output->type;
        call->call.on_reply = on_done;
        list_push(&master->node_calls, &call->in_master);
        if (rpc_call_start(link->conn, &call->call, output->type, output->message, NULL, 0) ==
            SNOW_OK)
            return;
        node_call_free(call);
    }
    drop_node(master, link);
}

static void carry_out(struct master *master)
{
    for (struct core_output *output = master->outputs.first; output != NULL;
         output = output->next) {
        switch (output->kind) {
        case CORE_OUT_PERSIST:
            persist(master);
            break;
        case CORE_OUT_REPLY:
            carry_reply(master, output);
            break;
        case CORE_OUT_FORGET:
        case CORE_OUT_COPY:
        case CORE_OUT_VERIFY:
            carry_call(master, output);
            break;
        case CORE_OUT_GROW:
            carry_grow(master, output);
            break;
        case CORE_OUT_SESSION:
            break; /* read by on_hello */
        }
        if (master_has_failed(master))
            return;
    }
}

static void drop_links(struct master *master)
{
    master->drops = false;
    list_each (&master->links, at, next) {
        struct link *link = list_entry(at, struct link, in_master);
        struct core_input input = {.kind = CORE_NODE_BREAK, .from = link->node};

        if (!link->drop)
            continue;
        list_remove(at);
        rpc_conn_close(link->conn);
        free(link);
        master->drops = true; /* there may be more: that step looks */
        step(master, &input);
        return;
    }
}

static void step(struct master *master, const struct core_input *input)
{
    uint64_t now_ns = env_now_ns(master->env);

    core_outputs_reset(&master->outputs);
    core_step(master->core, now_ns, input, &master->outputs);
    carry_out(master);
    __atomic_store_n(&master->ready, core_is_ready(master->core), __ATOMIC_RELEASE);
    uint64_t wake_ns = core_wake_ns(master->core);

    if (wake_ns == UINT64_MAX)
        env_timer_cancel(&master->timer);
    else if (master->timer.loop == NULL || master->wake_ns != wake_ns)
        env_timer_arm(master->loop, &master->timer, wake_ns);
    master->wake_ns = wake_ns;
    if (master->drops)
        drop_links(master);
}

static void on_timer(struct env_timer *timer)
{
    struct core_input input = {.kind = CORE_TICK};

    step(list_entry(timer, struct master, timer), &input);
}

/* ---- what arrives ---- */

static struct link *link_open(struct master *master, struct rpc_conn *conn,
                              const struct wire_hello_req *hello)
{
    struct link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->conn = conn;
    link->incarnation = hello->incarnation;
    link->term = hello->term;
    list_push(&master->links, &link->in_master);
    rpc_conn_set_owner(conn, link);
    return link;
}

static enum snow_status open_session(struct master *master, struct link *link,
                                     const struct wire_hello_req *hello,
                                     struct wire_hello_rep *reply)
{
    struct core_input input = {.kind = CORE_SESSION_OPEN, .from = hello->session};

    step(master, &input);
    for (const struct core_output *output = master->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind != CORE_OUT_SESSION)
            continue;
        link->session = output->to;
        reply->session = output->to;
        reply->reason = bytes_of_string(output->status == SNOW_OK ? "" : "too many clients");
        return output->status;
    }
    return SNOW_BUSY;
}

static void link_close(struct link *link)
{
    list_remove(&link->in_master);
    rpc_conn_set_owner(link->conn, NULL);
    free(link);
}

static enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                 const struct wire_hello_req *hello, struct wire_hello_rep *reply)
{
    struct master *master = owner;
    struct link *link;
    enum snow_status status;

    reply->cluster = core_cluster(master->core);
    reply->term = core_term(master->core);
    if (hello->role == WIRE_ROLE_MASTER) {
        reply->reason = bytes_of_string("this is a master: masters do not dial masters");
        return SNOW_REFUSED;
    }
    link = link_open(master, conn, hello);
    if (link == NULL)
        return SNOW_NO_MEMORY;
    if (hello->role != WIRE_ROLE_CLIENT)
        return SNOW_OK;
    /* The session's older connection is nobody's now. */
    list_each (&master->links, at, next) {
        struct link *other = list_entry(at, struct link, in_master);

        if (other != link && hello->session != 0 && other->session == hello->session)
            other->session = 0;
    }
    status = open_session(master, link, hello, reply);
    if (status != SNOW_OK)
        link_close(link);
    return status;
}

/* A node that this master has not seen knows terms of others: ours rises above them before it is
 * taken in. */
static void raise_term(struct master *master, const struct link *link)
{
    if (link->term < core_term(master->core) || core_knows_node(master->core, link->incarnation))
        return;
    core_outputs_reset(&master->outputs);
    core_term_raise(master->core, link->term, &master->outputs);
    carry_out(master);
}

static bool role_may_send(const struct rpc_conn *conn, uint16_t type)
{
    switch (type) {
    case WIRE_mount:
    case WIRE_inventory:
    case WIRE_freed:
    case WIRE_grown:
    case WIRE_unmount:
        return rpc_conn_role(conn) == WIRE_ROLE_NODE;
    case WIRE_heartbeat:
        return rpc_conn_role(conn) == WIRE_ROLE_HEARTBEAT;
    default:
        return rpc_conn_role(conn) == WIRE_ROLE_CLIENT;
    }
}

static bool keeps(void *owner, uint16_t type)
{
    (void)owner;
    return core_keeps(type);
}

static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    struct master *master = owner;
    struct link *link = rpc_conn_owner(conn);
    const struct wire_message_type *row = wire_type_find(type);
    struct core_input input = {.kind = CORE_MESSAGE,
                               .type = type,
                               .deadline_ns = rpc_request_deadline_ns(request)};

    if (row->server != WIRE_SERVER_LEADER_ONLY || !role_may_send(conn, type) || payload_size > 0 ||
        link == NULL) {
        rpc_fail(request, SNOW_INVALID);
        return;
    }
    input.message = message;
    if (!ticket_take(master, link, request, &input.token)) {
        rpc_fail(request, SNOW_NO_MEMORY);
        return;
    }
    rpc_request_set_owner(request, (void *)(uintptr_t)(uint32_t)(input.token + 1));
    if (type == WIRE_mount)
        raise_term(master, link);
    input.from = rpc_conn_role(conn) == WIRE_ROLE_CLIENT ? link->session : link->node;
    step(master, &input);
}

static void on_oneway(void *owner, struct rpc_conn *conn, uint16_t type, const void *message)
{
    struct link *link = rpc_conn_owner(conn);
    struct core_input input = {.kind = CORE_MESSAGE, .type = type, .message = message};

    if (link == NULL || !role_may_send(conn, type))
        return;
    input.from = rpc_conn_role(conn) == WIRE_ROLE_CLIENT ? link->session : link->node;
    step(owner, &input);
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    struct master *master = owner;
    struct core_input input = {.kind = CORE_CANCEL};
    uint32_t index = (uint32_t)(uintptr_t)rpc_request_owner(request) - 1;

    if (index >= master->ticket_count || master->tickets[index].request != request)
        return;
    input.token = (uint64_t)master->tickets[index].uses << 32 | index;
    ticket_give(master, &master->tickets[index]);
    step(master, &input);
}

static void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    struct master *master = owner;
    struct link *link = rpc_conn_owner(conn);
    struct core_input input = {0};

    (void)status;
    if (link == NULL)
        return;
    input.kind = rpc_conn_role(conn) == WIRE_ROLE_CLIENT ? CORE_SESSION_BREAK : CORE_NODE_BREAK;
    input.from = rpc_conn_role(conn) == WIRE_ROLE_CLIENT ? link->session : link->node;
    link_close(link);
    if (input.from != 0)
        step(master, &input);
}

/* ---- opening ---- */

static uint64_t new_cluster(struct master *master)
{
    struct bytes name = bytes_of_string(master->options.cluster);

    return (name.size == 0 ? env_random(master->env) : hash_seeded(name, CLUSTER_SEED)) | 1;
}

static enum snow_status open_core(struct master *master, const struct core_options *options,
                                  const char **reason)
{
    struct arena arena;
    struct wire_master_state state = {0};
    struct core_expected expected[LIMIT_NODES];
    enum snow_status status = SNOW_NOT_FOUND;

    arena_init(&arena, 1 * MIB);
    if (master->options.state_dir[0] != 0) {
        status = env_dir_lock(master->env, master->options.state_dir);
        *reason = status == SNOW_IN_USE ? "another master uses the state folder"
                                        : "the state folder can not be made, or is no folder";
        if (status == SNOW_OK) {
            *reason = "the state file is damaged: restore it, or remove it and give up its cluster";
            status = master_state_read(master->env, master->options.state_dir, &arena, &state);
        }
        if (status == SNOW_OK && state.term >= WIRE_TERM_MAX) {
            *reason = "all terms are used up: begin a new cluster with an empty state folder";
            status = SNOW_INVALID;
        }
    }
    if (status == SNOW_OK || status == SNOW_NOT_FOUND) {
        struct core_start start = {.cluster = state.cluster,
                                   .term = state.term + 1,
                                   .secret_low = env_random(master->env),
                                   .secret_high = env_random(master->env),
                                   .expected = expected,
                                   .expected_count = state.expected_count,
                                   .adopts_strangers = status == SNOW_NOT_FOUND,
                                   .now_ns = env_now_ns(master->env),
                                   .memory = env_large_pages()};

        if (start.cluster == 0)
            start.cluster = new_cluster(master);
        for (uint32_t i = 0; i < state.expected_count && i < LIMIT_NODES; i++)
            expected[i].incarnation = state.expected[i].id;
        *reason = "out of memory";
        start.faults = env_faults(master->env);
        status = core_create(options, &start, &master->core);
    }
    arena_deinit(&arena);
    return status;
}

static enum snow_status open_network(struct master *master, const char **reason)
{
    static const struct rpc_service service = {
        .on_hello = on_hello,
        .on_request = on_request,
        .keeps = keeps,
        .on_oneway = on_oneway,
        .on_request_gone = on_request_gone,
        .on_close = on_close,
    };
    struct rpc_identity identity = {.role = WIRE_ROLE_MASTER,
                                    .cluster = core_cluster(master->core),
                                    .term = core_term(master->core),
                                    .token = bytes_of_string(master->options.token)};
    struct rpc_options options = {.socket = {.keepalive = true, .user_timeout_ms = 10000},
                                  .hello_timeout_ms = HELLO_TIMEOUT_MS,
                                  .progress_timeout_ms = PROGRESS_TIMEOUT_MS};
    enum snow_status status =
        rpc_create(master->loop, &identity, &options, &service, master, &master->rpc);

    if (status != SNOW_OK)
        return status;
    persist(master); /* the term is on disk before its first generation is given */
    *reason = "can not keep the state file";
    if (master->failed)
        return SNOW_UNREACHABLE;
    *reason = "can not listen at the master's address";
    status = rpc_listen(master->rpc, master->options.listen);
    if (status != SNOW_OK || master->options.near[0] == 0)
        return status;
    *reason = "can not listen at the address for clients of this host";
    return rpc_listen_near(master->rpc, master->options.near);
}

static void close_all(struct master *master)
{
    struct list_link *link;

    if (master->rpc != NULL)
        rpc_destroy(master->rpc);
    env_timer_cancel(&master->timer);
    while ((link = list_pop(&master->links)) != NULL)
        free(list_entry(link, struct link, in_master));
    while ((link = list_first(&master->node_calls)) != NULL)
        node_call_free(list_entry(link, struct node_call, in_master));
    if (master->core != NULL)
        core_destroy(master->core);
    core_outputs_deinit(&master->outputs);
    if (master->loop != NULL)
        env_loop_destroy(master->loop);
    free(master->tickets);
    free(master);
}

enum snow_status master_open(struct env *env, const struct master_options *options,
                             const struct core_options *core_options, struct obs_log *log,
                             struct master **opened, const char **reason)
{
    struct master *master = calloc(1, sizeof(*master));
    enum snow_status status;

    *reason = "out of memory";
    if (master == NULL)
        return SNOW_NO_MEMORY;
    master->env = env;
    master->log = log;
    master->options = *options;
    master->ticket_free = UINT32_MAX;
    master->timer.on_event = on_timer;
    list_init(&master->links);
    list_init(&master->node_calls);
    core_outputs_init(&master->outputs);
    status = env_loop_create(env, "master", &master->loop);
    if (status == SNOW_OK)
        status = open_core(master, core_options, reason);
    if (status == SNOW_OK)
        status = open_network(master, reason);
    if (status == SNOW_OK) {
        struct core_input input = {.kind = CORE_TICK};

        step(master, &input);
        status = env_loop_start(master->loop);
    }
    if (status != SNOW_OK) {
        close_all(master);
        return status;
    }
    *opened = master;
    return SNOW_OK;
}

void master_close(struct master *master)
{
    env_loop_stop(master->loop);
    env_loop_join(master->loop);
    close_all(master);
}

const char *master_address(const struct master *master)
{
    return rpc_listen_address(master->rpc);
}

bool master_is_ready(const struct master *master)
{
    return __atomic_load_n(&master->ready, __ATOMIC_ACQUIRE);
}

bool master_has_failed(const struct master *master)
{
    return __atomic_load_n(&master->failed, __ATOMIC_ACQUIRE);
}

struct env *master_env(const struct master *master)
{
    return master->env;
}

struct env_loop *master_loop(const struct master *master)
{
    return master->loop;
}

/* The answer that the last step made to our own input. */
static const struct core_output *own_answer(const struct master *master, enum core_output_kind kind)
{
    for (const struct core_output *output = master->outputs.first; output != NULL;
         output = output->next) {
        if (output->kind == kind && output->token == OWN_TOKEN && output->status == SNOW_OK)
            return output;
    }
    return NULL;
}

const void *master_ask(struct master *master, uint16_t type, const void *message)
{
    struct core_input open = {.kind = CORE_SESSION_OPEN, .token = OWN_TOKEN};
    struct core_input input = {.kind = CORE_MESSAGE,
                               .token = OWN_TOKEN,
                               .type = type,
                               .message = message,
                               .deadline_ns = UINT64_MAX};
    const struct core_output *answer;

    ASSERT(type == WIRE_nodes || type == WIRE_lookup || type == WIRE_task_start ||
           type == WIRE_task_cancel || type == WIRE_tasks); /* by the same step */
    if (master->own_session == 0) {
        step(master, &open);
        answer = own_answer(master, CORE_OUT_SESSION);
        if (answer == NULL)
            return NULL;
        master->own_session = answer->to;
    }
    input.from = master->own_session;
    step(master, &input);
    answer = own_answer(master, CORE_OUT_REPLY);
    return answer == NULL ? NULL : answer->message;
}

struct core *master_core(struct master *master)
{
    return master->core;
}
