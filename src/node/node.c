#include "node/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define HUGE_PAGE (2 * MIB)
#define LISTEN_TIMEOUT_MS 5000

_Static_assert(LIMIT_SEGMENT_SIZE == 1 * TIB, "the range of option memory ends there");

/* ---- what arrives ---- */

static enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                 const struct wire_hello_req *hello, struct wire_hello_rep *reply)
{
    const struct node *node = owner;

    (void)conn;
    /* Other nodes copy from here. */
    if (hello->role != WIRE_ROLE_CLIENT && hello->role != WIRE_ROLE_NODE) {
        reply->reason = bytes_of_string("this is the data service of a node: dial the master");
        return SNOW_REFUSED;
    }
    if (hello->incarnation != 0 && hello->incarnation != node->incarnation) {
        reply->reason = bytes_of_string("another node listens here now: ask the master again");
        return SNOW_REFUSED;
    }
    return SNOW_OK;
}

static bool is_master(const struct node *node, const struct rpc_conn *conn)
{
    return conn == rpc_peer_conn(&node->master);
}

static bool keeps(void *owner, uint16_t type)
{
    (void)owner;
    return type == WIRE_write || type == WIRE_copy; /* its bytes come later */
}

static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    struct node *node = owner;

    if (type == WIRE_forget && is_master(node, conn))
        node_forget(node, request, message);
    else if (type == WIRE_verify && is_master(node, conn))
        node_verify(node, request, message);
    else if (type == WIRE_copy && is_master(node, conn))
        node_copy(node, request, message);
    else if (type == WIRE_write && !is_master(node, conn))
        node_write(node, request, message, payload_size);
    else if (type == WIRE_read && !is_master(node, conn))
        node_read(node, request, message);
    else if (type == WIRE_attach && !is_master(node, conn))
        node_attach(node, request, message);
    else if (type == WIRE_seal && !is_master(node, conn))
        node_seal(node, request, message);
    else
        rpc_fail(request, SNOW_INVALID);
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    if (rpc_request_type(request) == WIRE_write)
        node_write_gone(owner, request);
    else if (rpc_request_type(request) == WIRE_copy)
        node_copy_gone(owner, request);
}

static void on_oneway(void *owner, struct rpc_conn *conn, uint16_t type, const void *message)
{
    struct node *node = owner;

    if (type == WIRE_grow && is_master(node, conn))
        node_grow(node, message);
}

static void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    (void)status; /* its requests are gone, its reads were told as sent */
    node_local_closed(owner, conn);
}

/* ---- opening ---- */

static enum snow_status open_segment(struct node *node, const char **reason)
{
    uint64_t size = node->options.memory_bytes / HUGE_PAGE * HUGE_PAGE;
    struct slots_request request = {
        .dir = node->options.segment_dir[0] == 0 ? NULL : node->options.segment_dir,
        .data_size = size == 0 ? node->options.memory_bytes / (4 * KIB) * (4 * KIB) : size,
        .slot_bytes = node->options.slot_bytes,
        .step = node->options.populate_step_bytes};
    enum snow_status status;

    if (request.dir == NULL && node->options.populate == NODE_POPULATE_ALL &&
        request.data_size > env_memory_total(node->env)) {
        *reason = "the host has not that much memory";
        return SNOW_NO_SPACE;
    }
    status = slots_open(node->env, &request, &node->segments[0], reason);
    if (status != SNOW_OK)
        return status;
    node->segment_count = 1;
    node->incarnation = node->segments[0].header->node_incarnation;
    node_count(node, NODE_METRIC_slots_dropped, node->segments[0].dropped);
    node_count(node, NODE_METRIC_ready_bytes, node->segments[0].ready);
    return SNOW_OK;
}

static enum snow_status open_service(struct node *node, struct bytes token, const char **reason)
{
    static const struct rpc_service service = {
        .on_hello = on_hello,
        .on_request = on_request,
        .keeps = keeps,
        .on_oneway = on_oneway,
        .on_request_gone = on_request_gone,
        .on_close = on_close,
    };
    struct rpc_identity identity = {.role = WIRE_ROLE_NODE,
                                    .incarnation = node->incarnation,
                                    .term = node->segments[0].header->term,
                                    .token = token,
                                    .name = bytes_of_string(node->options.name)};
    struct rpc_options options = {.socket = node_socket_options(&node->options),
                                  .hello_timeout_ms = LISTEN_TIMEOUT_MS,
                                  .progress_timeout_ms = 5000};
    enum snow_status status =
        rpc_create(node->loop, &identity, &options, &service, node, &node->rpc);

    if (status != SNOW_OK)
        return status;
    *reason = "can not listen at the address of the data service";
    return rpc_listen(node->rpc, node->options.listen);
}

static void close_all(struct node *node)
{
    if (node->beat_rpc != NULL)
        node_heartbeat_close(node);
    node_grow_close(node);
    node_fetch_close(node);
    if (node->master.rpc != NULL)
        node_link_close(node);
    if (node->rpc != NULL)
        rpc_destroy(node->rpc); /* reads end, and would say so */
    node_local_close(node);
    node_freed_drop(node);
    for (uint32_t i = 0; i < NODE_BUCKETS; i++) {
        struct list_link *link;

        while ((link = list_pop(&node->buckets[i])) != NULL) {
            struct activity *activity = list_entry(link, struct activity, in_bucket);

            ranges_deinit(&activity->covered);
            free(activity);
        }
    }
    for (struct list_link *link; (link = list_pop(&node->spare)) != NULL;)
        free(list_entry(link, struct activity, in_bucket));
    if (node->segment_count > 0)
        slots_close_memory(&node->segments[0]);
    if (node->beat_loop != NULL)
        env_loop_destroy(node->beat_loop);
    if (node->grow_loop != NULL)
        env_loop_destroy(node->grow_loop);
    if (node->loop != NULL)
        env_loop_destroy(node->loop);
    free(node);
}

static enum snow_status open_parts(struct node *node, struct bytes token, const char **reason)
{
    enum snow_status status;

    *reason = "out of memory";
    status = env_loop_create(node->env, "node", &node->loop);
    if (status == SNOW_OK)
        status = env_loop_create(node->env, "node-beat", &node->beat_loop);
    if (status == SNOW_OK)
        status = env_loop_create(node->env, "node-grow", &node->grow_loop);
    if (status == SNOW_OK)
        status = open_segment(node, reason);
    if (status == SNOW_OK)
        status = open_service(node, token, reason);
    if (status != SNOW_OK)
        return status;
    *reason = "can not listen at the address for clients of this host";
    status = node_local_open(node);
    if (status != SNOW_OK)
        return status;
    *reason = "out of memory";
    status = node_fetch_open(node);
    if (status != SNOW_OK)
        return status;
    *reason = "the master's address is no address";
    status = node_link_open(node);
    node_grow_open(node);
    if (status == SNOW_OK)
        status = node_heartbeat_open(node);
    return status;
}

static enum snow_status start_loops(struct node *node)
{
    enum snow_status status = env_loop_start(node->loop);

    if (status != SNOW_OK)
        return status;
    status = env_loop_start(node->beat_loop);
    if (status != SNOW_OK)
        goto stop_service;
    status = env_loop_start(node->grow_loop);
    if (status == SNOW_OK)
        return SNOW_OK;
    env_loop_stop(node->beat_loop);
    env_loop_join(node->beat_loop);
stop_service:
    env_loop_stop(node->loop);
    env_loop_join(node->loop);
    return status;
}

enum snow_status node_open(struct env *env, const struct node_options *options, struct bytes token,
                           struct obs_log *log, struct node **opened, const char **reason)
{
    struct node *node = calloc(1, sizeof(*node));
    enum snow_status status;

    *reason = "out of memory";
    if (node == NULL)
        return SNOW_NO_MEMORY;
    node->env = env;
    node->log = log;
    node->options = *options;
    node->faults = env_faults(env);
    node->process = env_random(env) | 1;
    list_init(&node->freed);
    list_init(&node->locals);
    list_init(&node->marked);
    list_init(&node->spare);
    list_init(&node->fetches);
    list_init(&node->sources);
    for (uint32_t i = 0; i < NODE_BUCKETS; i++)
        list_init(&node->buckets[i]);
    status = open_parts(node, token, reason);
    if (status == SNOW_OK)
        status = start_loops(node);
    if (status != SNOW_OK) {
        close_all(node);
        return status;
    }
    *opened = node;
    return SNOW_OK;
}

void node_close(struct node *node)
{
    env_loop_stop(node->grow_loop);
    env_loop_join(node->grow_loop);
    env_loop_stop(node->beat_loop);
    env_loop_join(node->beat_loop);
    env_loop_stop(node->loop);
    env_loop_join(node->loop);
    close_all(node);
}

uint64_t node_incarnation(const struct node *node)
{
    return node->incarnation;
}

uint64_t node_size(const struct node *node)
{
    return node->segments[0].header->data_size;
}

uint64_t node_ready(const struct node *node)
{
    return __atomic_load_n(&node->counters[NODE_METRIC_ready_bytes], __ATOMIC_RELAXED);
}

const char *node_address(const struct node *node)
{
    return rpc_listen_address(node->rpc);
}

bool node_is_mounted(const struct node *node)
{
    return __atomic_load_n(&node->mounted, __ATOMIC_ACQUIRE);
}

bool node_is_drained(const struct node *node)
{
    return __atomic_load_n(&node->drained, __ATOMIC_ACQUIRE);
}

bool node_is_growing(const struct node *node)
{
    return __atomic_load_n(&node->growing, __ATOMIC_ACQUIRE);
}

bool node_is_idle(const struct node *node)
{
    return __atomic_load_n(&node->transfers, __ATOMIC_ACQUIRE) == 0;
}

/* ---- counters and checks ---- */

uint32_t node_metric_count(void)
{
    return NODE_METRIC_COUNT;
}

const char *node_metric_name(uint32_t index)
{
    static const char *const names[] = {
#define METRIC(name, kind, text) #name,
#include "node/node_metrics.def"
#undef METRIC
    };

    return index < NODE_METRIC_COUNT ? names[index] : NULL;
}

void node_metrics(const struct node *node, uint64_t *values)
{
    for (uint32_t i = 0; i < NODE_METRIC_COUNT; i++)
        values[i] = __atomic_load_n(&node->counters[i], __ATOMIC_RELAXED);
}

uint64_t node_held_bytes(const struct node *node, uint64_t granule)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < node->segment_count; i++) {
        for (uint32_t index = 0; index < node->segments[i].slots_ready; index++) {
            const struct slot *slot = &node->segments[i].table[index];
            uint64_t held = slot->length + slots_tail(slot);

            if (slot->state != WIRE_SLOT_FREE)
                bytes += held == 0 ? granule : (held + granule - 1) / granule * granule;
        }
    }
    return bytes;
}

/* An extent that something is inside of is the activity's generation's and no other slot's. */
static const char *check_activity(const struct node *node, const struct activity *activity)
{
    const struct slot *slot = &node->segments[activity->segment].table[activity->slot];

    if (activity->readers == 0 && list_is_empty(&activity->writers) && !activity->marked &&
        activity->fetch == NULL)
        return NULL;
    if (activity->closed)
        return slot->state == WIRE_SLOT_CLOSED ? NULL
                                               : "an extent was given out with a reader inside";
    if (slot->gen != activity->gen)
        return "an extent was given out with a transfer inside";
    return NULL;
}

const char *node_check(struct node *node)
{
    for (uint32_t i = 0; i < node->segment_count; i++) {
        const char *wrong = slots_check(&node->segments[i]);

        if (wrong != NULL)
            return wrong;
    }
    for (uint32_t i = 0; i < NODE_BUCKETS; i++) {
        list_each (&node->buckets[i], link, next) {
            const char *wrong = check_activity(node, list_entry(link, struct activity, in_bucket));

            if (wrong != NULL)
                return wrong;
        }
    }
    return NULL;
}
