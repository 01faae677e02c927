/* Removal: by key, by pattern, of everything.
 *
 * Idea.  A removal closes at once and is answered when the holders acknowledged; leases, holds
 * and pins do not stop it,
 *        P3 protects readers.  Only a guard does, unless forced.  Patterns walk the object pool
 *           in bounded steps.
 * Invariants.
 *   D1  A repeated remove joins the one under way.
 *   D2  One step looks at LIMIT_STEP_OBJECTS objects at most.
 * Threads.  The core's own. */
#include "core/inside.h"

static bool is_guarded(const struct core *core, const struct object *object, uint32_t flags)
{
    return (flags & WIRE_REMOVE_FORCE) == 0 && object->guard > core->now_ns / CORE_GUARD_TICK_NS;
}

static void remove_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_remove_req *remove = request->message;
    struct bytes key = remove->keys[index].key;
    struct object_cursor cursor;
    uint32_t closing = 0;
    uint32_t readable = 0;

    if (key.size == 0 || key.size > LIMIT_KEY_SIZE) {
        core_answer_status(core, request, index, SNOW_INVALID, 0, 0);
        return;
    }
    uint32_t number = core_object_first(core, key, hash_key(CORE_TENANT, key).low, &cursor);

    for (; number != 0; number = core_object_next(&cursor)) {
        const struct object *object = core_object(core, number);

        if (object->state == OBJECT_READABLE)
            readable = number;
        else if (object->state == OBJECT_CLOSING &&
                 (closing == 0 || core_object(core, closing)->gen < object->gen))
            closing = number;
    }
    if (readable != 0 && is_guarded(core, core_object(core, readable), remove->flags)) {
        core_answer_status(core, request, index, SNOW_IN_USE, 0, 0);
        return;
    }
    if (readable != 0)
        core_close(core, closing = readable, CLOSE_REMOVED);
    if (closing == 0) {
        core_answer_status(core, request, index,
                           core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN, 0, 0);
        return;
    }
    if (!core_object_is_closing(core, closing) ||
        !core_close_wait(core, closing, request, index, SNOW_OK, 0))
        core_answer_status(core, request, index, readable != 0 ? SNOW_OK : SNOW_NOT_FOUND, 0, 0);
}

void core_remove(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_remove_req *remove = input->message;
    struct request *request = core_request_open(core, input, session, remove->keys_count);

    if (request == NULL)
        return;
    for (uint32_t i = 0; i < remove->keys_count; i++)
        remove_item(core, request, i);
}

/* ---- by pattern ---- */

static void refuse_match(struct core *core, const struct core_input *input, const char *reason)
{
    struct wire_remove_match_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->status = SNOW_INVALID;
    reply->reason = bytes_of_string(reason);
    core_count(core, CORE_METRIC_bad_requests, 1);
    core_reply(core, input->token, WIRE_remove_match, reply);
}

void core_remove_match(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_remove_match_req *match = input->message;
    struct pattern *pattern = NULL;
    const char *reason = "no such kind of pattern";

    if (match->kind > WIRE_MATCH_REGEX || (match->flags & ~WIRE_REMOVE_FORCE) != 0) {
        refuse_match(core, input, reason);
        return;
    }
    if (match->kind == WIRE_MATCH_REGEX &&
        pattern_compile(match->pattern, &pattern, &reason) != SNOW_OK) {
        refuse_match(core, input, reason);
        return;
    }
    struct request *request = core_request_open(core, input, session, 1);

    if (request == NULL) {
        pattern_destroy(pattern);
        return;
    }
    request->pattern = pattern;
    request->cursor = 1;
    list_push(&core->jobs, &request->job);
}

static bool key_matches(struct request *request, struct bytes key)
{
    const struct wire_remove_match_req *match = request->message;

    switch (match->kind) {
    case WIRE_MATCH_PREFIX:
        return key.size >= match->pattern.size &&
               bytes_equal(bytes_of(key.at, match->pattern.size), match->pattern);
    case WIRE_MATCH_REGEX:
        return pattern_match(request->pattern, key) == SNOW_OK;
    default:
        return true;
    }
}

static void finish_match(struct core *core, struct request *request)
{
    if (request->pending > 0 || list_is_linked(&request->job))
        return;
    request->open = 0;
    if (!list_is_linked(&request->dirty))
        list_push(&core->dirty, &request->dirty);
}

void core_remove_match_done(struct core *core, struct request *request, enum snow_status status)
{
    request->pending--;
    request->removed++;
    request->uncertain += status != SNOW_OK;
    finish_match(core, request);
}

static void match_object(struct core *core, struct request *request, uint32_t number)
{
    const struct wire_remove_match_req *match = request->message;
    const struct object *object = core_object(core, number);

    if (object->state != OBJECT_READABLE || !key_matches(request, core_object_key(core, number)))
        return;
    if (is_guarded(core, object, match->flags)) {
        request->guarded++;
        return;
    }
    core_close(core, number, CLOSE_REMOVED);
    request->pending++;
    if (!core_object_is_closing(core, number) ||
        !core_close_wait(core, number, request, 0, SNOW_OK, 0))
        core_remove_match_done(core, request, SNOW_UNCERTAIN);
}

/* A step of each removal under way.  Those with many waiters pause until some are answered. */
void core_jobs_run(struct core *core)
{
    list_each (&core->jobs, link, next) {
        struct request *request = list_entry(link, struct request, job);

        for (uint32_t i = 0; i < LIMIT_STEP_OBJECTS; i++) {
            if (request->cursor >= core->objects.fresh ||
                request->pending >= LIMIT_WAITERS_PER_SESSION / 2)
                break;
            match_object(core, request, request->cursor++);
        }
        if (request->cursor >= core->objects.fresh) {
            list_remove(&request->job);
            finish_match(core, request);
        }
    }
}
