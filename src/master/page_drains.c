#include "master/page_drains.h"

#include "base/limits.h"
#include "core/core.h"
#include "env/env.h"
#include "master/page_json.h"

#include <stdlib.h>
#include <string.h>

#define INVALID_PARAMS (-600)
#define SEGMENT_NOT_FOUND (-101)
#define JOB_NOT_FOUND (-1402)
#define UNAVAILABLE (-1010)

enum job_state { JOB_RUNNING = 2, JOB_SUCCEEDED = 3, JOB_FAILED = 4, JOB_CANCELED = 5 };
enum segment_state { SEGMENT_UNDEFINED = 0, SEGMENT_OK = 1, SEGMENT_DRAINING = 2, SEGMENT_DRAINED };

static const char *const job_names[] = {"CREATED",   "PLANNING", "RUNNING",
                                        "SUCCEEDED", "FAILED",   "CANCELED"};
static const char *const segment_names[] = {"UNDEFINED", "OK", "DRAINING", "DRAINED"};

/* One node, and what was last heard of its task. */
struct part {
    char name[LIMIT_NAME_SIZE + 1];
    uint64_t task;
    uint8_t state; /* enum wire_task_state */
    uint64_t objects;
    uint64_t bytes;
    uint64_t left;
};

struct job {
    uint64_t number; /* 0: none */
    int64_t began_ms;
    int64_t changed_ms;
    uint32_t count;
    struct part parts[LIMIT_DRAIN_SEGMENTS];
};

struct page_drains {
    struct master *master;
    uint64_t last; /* number of the newest job */
    struct job jobs[LIMIT_DRAIN_JOBS];
};

struct page_drains *page_drains_create(struct master *master)
{
    struct page_drains *drains = calloc(1, sizeof(*drains));

    if (drains != NULL)
        drains->master = master;
    return drains;
}

void page_drains_destroy(struct page_drains *drains)
{
    free(drains);
}

static int64_t now_ms(const struct page_drains *drains)
{
    return (int64_t)env_wall_ms(master_env(drains->master));
}

/* ---- beginning ------------------------------------------------------------------------------ */

/* The nodes of this segment join those of the job; false: there is none, or too many. */
static bool add_segment(struct job *job, const struct wire_nodes_rep *nodes, const char *name,
                        uint32_t *numbers)
{
    uint32_t before = job->count;

    for (uint32_t i = 0; i < nodes->nodes_count; i++) {
        const struct wire_node_info *node = &nodes->nodes[i];

        if (!page_node_is_served(node) || strlen(name) > LIMIT_NAME_SIZE ||
            !bytes_equal(page_node_name(node), bytes_of_string(name)))
            continue;
        if (job->count == LIMIT_DRAIN_SEGMENTS)
            return false;
        numbers[job->count] = node->node;
        strcpy(job->parts[job->count++].name, name);
    }
    return job->count > before;
}

/* The reason why not; NULL: they run. */
static const char *start_tasks(struct page_drains *drains, struct job *job, const uint32_t *numbers)
{
    for (uint32_t i = 0; i < job->count; i++) {
        struct wire_task_start_req start = {.kind = WIRE_TASK_DRAIN, .from = numbers[i]};
        const struct wire_task_start_rep *reply =
            master_ask(drains->master, WIRE_task_start, &start);

        if (reply != NULL && reply->status == SNOW_OK) {
            job->parts[i].task = reply->task;
            job->parts[i].state = WIRE_TASK_RUNNING;
            continue;
        }
        while (i > 0) {
            struct wire_task_cancel_req cancel = {.task = job->parts[--i].task};

            (void)master_ask(drains->master, WIRE_task_cancel, &cancel);
        }
        return reply == NULL ? PAGE_NOT_NOW : "the drain of a node does not begin";
    }
    return NULL;
}

static void begin(struct page_drains *drains, const json_t *segments, struct http_reply *reply)
{
    const struct wire_nodes_rep *nodes = page_nodes(drains->master);
    uint64_t number = drains->last + 1;
    struct job *job = &drains->jobs[number % LIMIT_DRAIN_JOBS];
    uint32_t numbers[LIMIT_DRAIN_SEGMENTS];
    const char *reason = NULL;
    char id[32];
    struct text text;

    *job = (struct job){.began_ms = now_ms(drains)};
    if (nodes == NULL) {
        page_json_failure(reply, 503, UNAVAILABLE, PAGE_NOT_NOW);
        return;
    }
    for (size_t i = 0; i < json_array_size(segments); i++) {
        const char *name = json_string_value(json_array_get(segments, i));

        if (name == NULL || !add_segment(job, nodes, name, numbers)) {
            page_json_failure(reply, 404, SEGMENT_NOT_FOUND, "there is no such segment");
            return;
        }
    }
    reason = start_tasks(drains, job, numbers);
    if (reason != NULL) {
        page_json_failure(reply, 500, UNAVAILABLE, reason);
        return;
    }
    job->changed_ms = job->began_ms;
    job->number = drains->last = number;
    text_init(&text, id, sizeof(id));
    text_add(&text, "0-%llu", (unsigned long long)number);
    page_json_reply(reply, json_pack("{s:b,s:s,s:s,s:i,s:s}", "success", 1, "job_id", id, "status",
                                     "CREATED", "error_code", 0, "error_message", ""));
}

void page_drains_begin(struct page_drains *drains, struct bytes body, struct http_reply *reply)
{
    json_t *told = json_loadb((const char *)body.at, body.size, 0, NULL);
    const json_t *segments = json_object_get(told, "segments");

    if (json_array_size(segments) == 0)
        page_json_failure(reply, 400, INVALID_PARAMS,
                          "the body is {\"segments\": [NAME, ...]}, as /get_all_segments tells");
    else
        begin(drains, segments, reply);
    json_decref(told);
}

/* ---- how it is ------------------------------------------------------------------------------ */

/* "0-N", or NULL. */
static struct job *find_job(struct page_drains *drains, const char *id)
{
    char *end = NULL;
    unsigned long long number =
        id != NULL && strncmp(id, "0-", 2) == 0 ? strtoull(id + 2, &end, 10) : 0;
    struct job *job = &drains->jobs[number % LIMIT_DRAIN_JOBS];

    return number != 0 && *end == 0 && job->number == number ? job : NULL;
}

/* What is known now; of a task that the core has forgotten, what was known before. */
static void refresh(struct page_drains *drains, struct job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        struct part *part = &job->parts[i];
        struct wire_tasks_req ask = {.task = part->task};
        const struct wire_tasks_rep *reply = master_ask(drains->master, WIRE_tasks, &ask);

        if (reply == NULL || reply->tasks_count != 1)
            continue;
        if (part->objects != reply->tasks[0].objects || part->state != reply->tasks[0].state)
            job->changed_ms = now_ms(drains);
        part->state = reply->tasks[0].state;
        part->objects = reply->tasks[0].objects;
        part->bytes = reply->tasks[0].bytes;
        part->left = reply->tasks[0].left_objects;
    }
}

static enum job_state state_of(const struct job *job)
{
    enum job_state state = JOB_SUCCEEDED;

    for (uint32_t i = 0; i < job->count; i++) {
        switch (job->parts[i].state) {
        case WIRE_TASK_DONE:
            break;
        case WIRE_TASK_RUNNING:
            return JOB_RUNNING;
        case WIRE_TASK_CANCELLED:
            state = JOB_CANCELED;
            break;
        default:
            state = JOB_FAILED;
        }
    }
    return state;
}

static json_t *job_json(const struct job *job, const char *id)
{
    enum job_state state = state_of(job);
    uint64_t objects = 0;
    uint64_t bytes = 0;
    uint64_t left = 0;
    json_t *names = json_array();

    for (uint32_t i = 0; i < job->count; i++) {
        const struct part *part = &job->parts[i];

        objects += part->objects;
        bytes += part->bytes;
        left += part->state == WIRE_TASK_RUNNING ? part->left : 0;
        (void)json_array_append_new(names, page_json_bytes(bytes_of_string(job->parts[i].name)));
    }
    return json_pack("{s:b,s:s,s:i,s:s,s:i,s:s,s:I,s:I,s:o,s:I,s:i,s:i,s:I,s:I,s:s,s:i,s:s}",
                     "success", 1, "job_id", id, "type", 0, "type_name", "DRAIN", "status",
                     (int)state, "status_name", job_names[state], "created_at_ms_epoch",
                     (json_int_t)job->began_ms, "last_updated_at_ms_epoch",
                     (json_int_t)job->changed_ms, "segments", names, "succeeded_units",
                     (json_int_t)objects, "failed_units", 0, "blocked_units", 0, "active_units",
                     (json_int_t)left, "migrated_bytes", (json_int_t)bytes, "message", "",
                     "error_code", 0, "error_message", "");
}

void page_drains_tell(struct page_drains *drains, const char *id, bool cancel,
                      struct http_reply *reply)
{
    struct job *job = find_job(drains, id);

    if (job == NULL) {
        page_json_failure(reply, id == NULL ? 400 : 404,
                          id == NULL ? INVALID_PARAMS : JOB_NOT_FOUND, "there is no such job");
        return;
    }
    for (uint32_t i = 0; cancel && i < job->count; i++) {
        struct wire_task_cancel_req ask = {.task = job->parts[i].task};

        (void)master_ask(drains->master, WIRE_task_cancel, &ask);
    }
    refresh(drains, job);
    if (cancel)
        page_json_reply(reply,
                        json_pack("{s:b,s:s,s:s,s:i,s:s}", "success", 1, "job_id", id, "status",
                                  job_names[state_of(job)], "error_code", 0, "error_message", ""));
    else
        page_json_reply(reply, job_json(job, id));
}

static enum segment_state segment_state(uint8_t node_state)
{
    return node_state == WIRE_NODE_ALIVE      ? SEGMENT_OK
           : node_state == WIRE_NODE_DRAINING ? SEGMENT_DRAINING
                                              : SEGMENT_UNDEFINED;
}

const char *page_drains_state(uint8_t node_state)
{
    return segment_names[segment_state(node_state)];
}

/* A node of this name has left because it was drained. */
static bool was_drained(struct page_drains *drains, const char *name)
{
    for (uint32_t i = 0; drains != NULL && i < LIMIT_DRAIN_JOBS; i++) {
        struct job *job = &drains->jobs[i];

        for (uint32_t k = 0; job->number != 0 && k < job->count; k++) {
            if (strcmp(job->parts[k].name, name) != 0)
                continue;
            refresh(drains, job);
            if (job->parts[k].state == WIRE_TASK_DONE)
                return true;
        }
    }
    return false;
}

void page_drains_segment(struct page_drains *drains, struct master *master, const char *name,
                         struct http_reply *reply)
{
    const struct wire_nodes_rep *nodes = page_nodes(master);
    bool known = nodes != NULL; /* they are gone with the next question */
    int state = -1;

    for (uint32_t i = 0; nodes != NULL && name != NULL && i < nodes->nodes_count; i++) {
        const struct wire_node_info *node = &nodes->nodes[i];

        if (page_node_is_served(node) && bytes_equal(page_node_name(node), bytes_of_string(name)))
            state = (int)segment_state(node->state);
    }
    if (known && name != NULL && state < 0 && was_drained(drains, name))
        state = SEGMENT_DRAINED;
    if (!known)
        page_json_failure(reply, 503, UNAVAILABLE, PAGE_NOT_NOW);
    else if (state < 0)
        page_json_failure(reply, name == NULL ? 400 : 404,
                          name == NULL ? INVALID_PARAMS : SEGMENT_NOT_FOUND,
                          "there is no such segment");
    else
        page_json_reply(reply, json_pack("{s:b,s:s,s:i,s:s,s:i,s:s}", "success", 1, "segment", name,
                                         "status", state, "status_name", segment_names[state],
                                         "error_code", 0, "error_message", ""));
}
