/* Pages of a master.
 *
 * Idea.     The thread of http takes a request, has the master's loop make the answer (only the
 *           loop may look at the core), and waits for it.  A page looks at a bounded number of
 *           things: counters, nodes, at most a batch of keys.
 * Names.    /metrics has Snowskin's own names, and those by which dashboards of the package
 *           mooncake look: page_metrics.def.
 * Threads.  http's: begin, wait, end.  The loop's: everything called on_loop. */
#include "master/pages.h"

#include "base/limits.h"
#include "core/core.h"
#include "env/thread.h"
#include "master/page_drains.h"
#include "master/page_json.h"
#include "obs/metrics.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct master_pages {
    struct master *master;
    struct http *http;
    struct env_mutex *mutex;
    struct env_condition *answered;
    struct page_drains *drains; /* NULL: pages only tell */
};

/* A page that is being made; on the stack of http's thread, which waits until it is done. */
struct question {
    struct env_task task;
    struct master_pages *pages;
    const struct http_request *request;
    struct http_reply *reply;
    void (*on_loop)(struct question *question);
    bool done;
};

static void on_task(struct env_task *task)
{
    struct question *question = (struct question *)task; /* its first member */
    struct master_pages *pages = question->pages;

    question->on_loop(question);
    env_mutex_lock(pages->mutex);
    question->done = true;
    env_condition_wake_all(pages->answered);
    env_mutex_unlock(pages->mutex);
}

static void ask(struct master_pages *pages, const struct http_request *request,
                struct http_reply *reply, void (*on_loop)(struct question *question))
{
    struct question question = {.task = {.on_event = on_task},
                                .pages = pages,
                                .request = request,
                                .reply = reply,
                                .on_loop = on_loop};

    env_loop_post(master_loop(pages->master), &question.task);
    env_mutex_lock(pages->mutex);
    while (!question.done)
        env_condition_wait(pages->answered, pages->mutex, UINT64_MAX);
    env_mutex_unlock(pages->mutex);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void segments_on_loop(struct question *question)
{
    const struct wire_nodes_rep *nodes = page_nodes(question->pages->master);

    if (nodes == NULL) {
        question->reply->status = 503;
        text_add(&question->reply->body, PAGE_NOT_NOW "\n");
    }
    for (uint32_t i = 0; nodes != NULL && i < nodes->nodes_count; i++) {
        struct bytes name = page_node_name(&nodes->nodes[i]);

        if (page_node_is_served(&nodes->nodes[i]))
            text_add(&question->reply->body, "%.*s\n", (int)name.size, (const char *)name.at);
    }
}

static json_t *segment_json(const struct wire_node_info *node)
{
    char id[48];
    struct text text;

    text_init(&text, id, sizeof(id));
    text_add(&text, "%llu-%u", (unsigned long long)node->incarnation, node->node);
    return json_pack("{s:o,s:s,s:s,s:I,s:o,s:s,s:s,s:I,s:I,s:f}", "segment_name",
                     page_json_bytes(page_node_name(node)), "segment_id", id, "client_id", id,
                     "size_bytes", (json_int_t)node->size, "te_endpoint",
                     page_json_bytes(node->address), "protocol", "tcp", "status",
                     page_drains_state(node->state), "allocator_used_bytes", (json_int_t)node->used,
                     "allocator_capacity_bytes", (json_int_t)node->size, "allocator_usage_percent",
                     node->size == 0 ? 0.0 : 100.0 * (double)node->used / (double)node->size);
}

static void details_on_loop(struct question *question)
{
    const struct wire_nodes_rep *nodes = page_nodes(question->pages->master);
    json_t *segments = json_array();

    if (nodes == NULL || segments == NULL) {
        json_decref(segments);
        page_json_failure(question->reply, 503, -1, PAGE_NOT_NOW);
        return;
    }
    for (uint32_t i = 0; i < nodes->nodes_count; i++) {
        if (page_node_is_served(&nodes->nodes[i]))
            (void)json_array_append_new(segments, segment_json(&nodes->nodes[i]));
    }
    page_json_reply(question->reply,
                    json_pack("{s:I,s:o}", "total_segments", (json_int_t)json_array_size(segments),
                              "segments", segments));
}

static void segment_on_loop(struct question *question)
{
    const char *wanted = http_argument(question->request, "segment");
    const struct wire_nodes_rep *nodes = page_nodes(question->pages->master);
    struct http_reply *reply = question->reply;

    for (uint32_t i = 0; nodes != NULL && wanted != NULL && i < nodes->nodes_count; i++) {
        const struct wire_node_info *node = &nodes->nodes[i];

        if (!page_node_is_served(node) ||
            !bytes_equal(page_node_name(node), bytes_of_string(wanted)))
            continue;
        text_add(&reply->body, "%s\nUsed(bytes): %llu\nCapacity(bytes) : %llu\n", wanted,
                 (unsigned long long)node->used, (unsigned long long)node->size);
        return;
    }
    reply->status = wanted == NULL ? 400 : 500;
    text_add(&reply->body, "no such segment\n");
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Copies of an object in memory: the nodes of their first parts. */
static json_t *copies_json(const struct wire_found *found, const struct wire_nodes_rep *nodes)
{
    json_t *copies = json_array();

    for (uint32_t i = 0; i < found->places_count; i++) {
        const struct wire_place *place = &found->places[i];
        json_t *endpoint = NULL;

        if (place->part != 0)
            continue;
        for (uint32_t n = 0; n < nodes->nodes_count && endpoint == NULL; n++) {
            if (nodes->nodes[n].node == place->node)
                endpoint = page_json_bytes(page_node_name(&nodes->nodes[n]));
        }
        (void)json_array_append_new(copies,
                                    json_pack("{s:I,s:I,s:s,s:o}", "size_", (json_int_t)found->size,
                                              "buffer_address_", (json_int_t)place->offset,
                                              "protocol_", "tcp", "transport_endpoint_",
                                              endpoint == NULL ? json_string("") : endpoint));
    }
    return copies;
}

/* What a look-up found lives only until the next question: a copy of what is told of a key. */
struct key_found {
    struct wire_found found;
    struct wire_place places[LIMIT_REPLICAS];
};

static void keep_found(struct key_found *to, const struct wire_found *found)
{
    to->found = *found;
    to->found.places = to->places;
    to->found.places_count = 0;
    for (uint32_t i = 0; i < found->places_count; i++) {
        if (found->places[i].part == 0 && to->found.places_count < LIMIT_REPLICAS)
            to->places[to->found.places_count++] = found->places[i];
    }
}

/* Looks keys up; how many were answered. */
static uint32_t look_up(struct master *master, struct wire_key *keys, uint32_t count,
                        uint32_t flags, struct key_found *to)
{
    struct wire_lookup_req lookup = {.flags = WIRE_LOOKUP_PLACES | WIRE_LOOKUP_UNORDERED | flags,
                                     .guard_ms = WIRE_GUARD_CLUSTER,
                                     .keys = keys,
                                     .keys_count = count};
    const struct wire_lookup_rep *reply = master_ask(master, WIRE_lookup, &lookup);
    uint32_t found = reply == NULL || reply->items_count > count ? 0 : reply->items_count;

    for (uint32_t i = 0; i < found; i++)
        keep_found(&to[i], &reply->items[i]);
    return found;
}

static void key_on_loop(struct question *question)
{
    const char *name = http_argument(question->request, "key");
    struct wire_key key = {.key = bytes_of_string(name == NULL ? "" : name)};
    const struct wire_nodes_rep *nodes;
    struct key_found found;

    if (name == NULL || key.key.size == 0 || key.key.size > LIMIT_KEY_SIZE) {
        page_json_failure(question->reply, 400, -600,
                          "key is missing, or longer than a key may be");
        return;
    }
    if (look_up(question->pages->master, &key, 1, WIRE_LOOKUP_GUARD, &found) != 1 ||
        (nodes = page_nodes(question->pages->master)) == NULL)
        page_json_failure(question->reply, 503, -1, PAGE_NOT_NOW);
    else if (found.found.status != SNOW_OK)
        page_json_failure(question->reply, 404, -704, "there is no such key");
    else
        page_json_reply(question->reply, json_pack("{s:b,s:o}", "success", 1, "data",
                                                   copies_json(&found.found, nodes)));
}

/* The keys between commas; how many. */
static uint32_t split(const char *text, struct wire_key *keys, uint32_t max)
{
    uint32_t count = 0;

    while (text != NULL && *text != 0 && count < max) {
        const char *end = strchr(text, ',');
        size_t size = end == NULL ? strlen(text) : (size_t)(end - text);

        if (size > 0 && size <= LIMIT_KEY_SIZE)
            keys[count++].key = bytes_of(text, size);
        text = end == NULL ? NULL : end + 1;
    }
    return count;
}

static json_t *key_json(const struct wire_found *found, const struct wire_nodes_rep *nodes)
{
    if (found->status == SNOW_OK)
        return json_pack("{s:b,s:o}", "ok", 1, "values", copies_json(found, nodes));
    return json_pack("{s:b,s:s,s:[]}", "ok", 0, "error", "OBJECT_NOT_FOUND", "values");
}

#define PAGE_KEYS 256u

static void keys_on_loop(struct question *question)
{
    struct wire_key keys[PAGE_KEYS];
    const char *names = http_argument(question->request, "keys");
    uint32_t count = split(names, keys, PAGE_KEYS);
    struct key_found *found = calloc(PAGE_KEYS, sizeof(*found));
    const struct wire_nodes_rep *nodes = NULL;
    json_t *data = json_object();

    if (count == 0)
        page_json_failure(question->reply, 400, -600, "keys are missing");
    else if (found == NULL || data == NULL ||
             look_up(question->pages->master, keys, count, 0, found) != count ||
             (nodes = page_nodes(question->pages->master)) == NULL)
        page_json_failure(question->reply, 503, -1, PAGE_NOT_NOW);
    for (uint32_t i = 0; i < count && nodes != NULL; i++)
        (void)json_object_setn_new(data, (const char *)keys[i].key.at, keys[i].key.size,
                                   key_json(&found[i].found, nodes));
    if (nodes != NULL)
        page_json_reply(question->reply, json_pack("{s:b,s:O}", "success", 1, "data", data));
    json_decref(data);
    free(found);
}

/* ---- drains ------------------------------------------------------------------------------- */

static struct page_drains *drains_of(struct question *question)
{
    struct page_drains *drains = question->pages->drains;

    if (drains == NULL)
        page_json_failure(question->reply, 403, -600,
                          "pages only tell: --http-drains is not set, or use snowskin drain");
    return drains;
}

static void drain_on_loop(struct question *question)
{
    struct page_drains *drains = drains_of(question);

    if (drains != NULL)
        page_drains_begin(drains, http_body(question->request), question->reply);
}

static void drain_query_on_loop(struct question *question)
{
    struct page_drains *drains = drains_of(question);

    if (drains != NULL)
        page_drains_tell(drains, http_argument(question->request, "job_id"), false,
                         question->reply);
}

static void drain_cancel_on_loop(struct question *question)
{
    struct page_drains *drains = drains_of(question);

    if (drains != NULL)
        page_drains_tell(drains, http_argument(question->request, "job_id"), true, question->reply);
}

static void segment_state_on_loop(struct question *question)
{
    page_drains_segment(question->pages->drains, question->pages->master,
                        http_argument(question->request, "segment"), question->reply);
}

/* ---- metrics -------------------------------------------------------------------------------- */

static const struct obs_metric core_rows[] = {
#define METRIC OBS_METRIC
#include "core/core_metrics.def"
#undef METRIC
};

enum core_row {
#define METRIC(name, kind, text) CORE_ROW_##name,
#include "core/core_metrics.def"
#undef METRIC
    CORE_ROW_COUNT
};

static const struct obs_metrics_table core_table = {.module = "core",
                                                    .metrics = core_rows,
                                                    .count = CORE_ROW_COUNT};

/* The same numbers by other names. */
static const struct other_name {
    const char *name;
    const char *kind;
    enum core_row row;
} other_names[] = {
#define OTHER_NAME(name, kind, row) {#name, #kind, CORE_ROW_##row},
#include "master/page_metrics.def"
#undef OTHER_NAME
};

static void add_other_names(struct text *text, const uint64_t *values)
{
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++)
        text_add(text, "# TYPE %s %s\n%s %llu\n", other_names[i].name, other_names[i].kind,
                 other_names[i].name, (unsigned long long)values[other_names[i].row]);
}

/* A label's value: without what would end it. */
static void add_label(struct text *text, struct bytes value)
{
    for (size_t i = 0; i < value.size; i++) {
        char letter = (char)value.at[i];

        text_add(text, "%c", letter < ' ' || letter == '"' || letter == '\\' ? '_' : letter);
    }
}

static void add_segments(struct text *text, const struct wire_nodes_rep *nodes)
{
    static const char *const names[] = {"segment_allocated_bytes", "segment_total_capacity_bytes"};

    for (int metric = 0; metric < 2; metric++) {
        text_add(text, "# TYPE %s gauge\n", names[metric]);
        for (uint32_t i = 0; nodes != NULL && i < nodes->nodes_count; i++) {
            const struct wire_node_info *node = &nodes->nodes[i];

            if (!page_node_is_served(node))
                continue;
            text_add(text, "%s{segment=\"", names[metric]);
            add_label(text, page_node_name(node));
            text_add(text, "\"} %llu\n",
                     (unsigned long long)(metric == 0 ? node->used : node->size));
        }
    }
}

static void metrics_on_loop(struct question *question)
{
    struct master *master = question->pages->master;
    uint64_t values[CORE_ROW_COUNT];
    const struct obs_metrics_values set = {.values = values};
    struct text *text = &question->reply->body;

    core_metrics(master_core(master), values);
    question->reply->type = "text/plain; version=0.0.4";
    if (obs_metrics_print(&core_table, &set, 1, text) != SNOW_OK)
        return; /* cut, and it says so */
    add_other_names(text, values);
    add_segments(text, page_nodes(master));
}

static void summary_on_loop(struct question *question)
{
    uint64_t values[CORE_ROW_COUNT];

    core_metrics(master_core(question->pages->master), values);
    text_add(&question->reply->body,
             "Mem Storage: %llu / %llu bytes | Keys: %llu | Clients: %llu | Nodes: %llu (silent "
             "%llu) | Evicted: %llu keys, %llu bytes\n",
             (unsigned long long)values[CORE_ROW_used_bytes],
             (unsigned long long)values[CORE_ROW_pool_bytes],
             (unsigned long long)values[CORE_ROW_objects],
             (unsigned long long)values[CORE_ROW_sessions],
             (unsigned long long)values[CORE_ROW_nodes_alive],
             (unsigned long long)values[CORE_ROW_nodes_suspect],
             (unsigned long long)values[CORE_ROW_evicted_objects],
             (unsigned long long)values[CORE_ROW_evicted_bytes]);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define ASKS(name) \
    static void show_##name(void *owner, const struct http_request *request, \
                            struct http_reply *reply) \
    { \
        ask(owner, request, reply, name##_on_loop); \
    }

ASKS(segments)
ASKS(details)
ASKS(segment)
ASKS(key)
ASKS(keys)
ASKS(drain)
ASKS(drain_query)
ASKS(drain_cancel)
ASKS(segment_state)
ASKS(metrics)
ASKS(summary)

static void show_health(void *owner, const struct http_request *request, struct http_reply *reply)
{
    const struct master_pages *pages = owner;

    (void)request;
    page_json_reply(reply,
                    json_pack("{s:s,s:s,s:s,s:b}", "status", "ok", "role", "leader", "ha_state",
                              "serving", "service_ready", (int)master_is_ready(pages->master)));
}

static void show_ready(void *owner, const struct http_request *request, struct http_reply *reply)
{
    const struct master_pages *pages = owner;
    bool ready = master_is_ready(pages->master);

    (void)request;
    reply->status = ready ? 200 : 503;
    text_add(&reply->body, "%s\n", ready ? "ready" : "inventories are still missing");
}

static void show_role(void *owner, const struct http_request *request, struct http_reply *reply)
{
    (void)owner;
    (void)request;
    text_add(&reply->body, "leader\n");
}

static void show_state(void *owner, const struct http_request *request, struct http_reply *reply)
{
    const struct master_pages *pages = owner;

    (void)request;
    text_add(&reply->body, "%s\n", master_is_ready(pages->master) ? "serving" : "starting");
}

static void show_leader(void *owner, const struct http_request *request, struct http_reply *reply)
{
    (void)owner;
    (void)request;
    page_json_reply(reply, json_pack("{s:b}", "present", 1));
}

static const struct http_page table[] = {
    {"GET", "/metrics", show_metrics},
    {"GET", "/metrics/summary", show_summary},
    {"GET", "/health", show_health},
    {"GET", "/healthz", show_health},
    {"GET", "/readyz", show_ready},
    {"GET", "/role", show_role},
    {"GET", "/ha_status", show_state},
    {"GET", "/leader", show_leader},
    {"GET", "/query_key", show_key},
    {"GET", "/batch_query_keys", show_keys},
    {"GET", "/get_all_segments", show_segments},
    {"GET", "/get_segments_detail", show_details},
    {"GET", "/query_segment", show_segment},
    {"POST", "/api/v1/drain_jobs", show_drain},
    {"GET", "/api/v1/drain_jobs/query", show_drain_query},
    {"POST", "/api/v1/drain_jobs/cancel", show_drain_cancel},
    {"GET", "/api/v1/segments/status", show_segment_state},
};

static void free_all(struct master_pages *pages)
{
    if (pages->answered != NULL)
        env_condition_destroy(pages->answered);
    if (pages->mutex != NULL)
        env_mutex_destroy(pages->mutex);
    page_drains_destroy(pages->drains);
    free(pages);
}

enum snow_status master_pages_open(struct master *master, const char *listen, bool drains,
                                   struct master_pages **opened, const char **reason)
{
    struct master_pages *pages = calloc(1, sizeof(*pages));
    enum snow_status status = SNOW_NO_MEMORY;

    *reason = "out of memory";
    if (pages == NULL)
        return SNOW_NO_MEMORY;
    pages->master = master;
    pages->mutex = env_mutex_create();
    pages->answered = env_condition_create();
    pages->drains = drains ? page_drains_create(master) : NULL;
    if (pages->mutex != NULL && pages->answered != NULL && (pages->drains != NULL || !drains))
        status =
            http_open(listen, table, sizeof(table) / sizeof(table[0]), pages, &pages->http, reason);
    if (status != SNOW_OK) {
        free_all(pages);
        return status;
    }
    *opened = pages;
    return SNOW_OK;
}

void master_pages_close(struct master_pages *pages)
{
    http_close(pages->http);
    free_all(pages);
}

uint16_t master_pages_port(const struct master_pages *pages)
{
    return http_port(pages->http);
}
