/* Removal: by key, by pattern, of everything.
 *
 * Idea.  A removal closes at once and is answered when the holders acknowledged; leases, holds and
 *        pins do not stop it, P3 protects readers.  Only a guard does, unless forced: of what goes
 *        as a group, that of any member.  Patterns walk the object pool in bounded steps, one
 *        removal a step, in turn.
 * Invariants.
 *   D1  A repeated remove joins the one under way, and every other version on its way out: when it
 *       is answered, none of them can come back.
 *   D2  One step looks at LIMIT_STEP_OBJECTS objects at most, and at fewer when each may cost a
 *       pattern's whole budget of steps.
 *   D3  While an expected node is missing nothing is known to be gone: UNCERTAIN.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdio.h>

#define REASON_SIZE 128u
/* A hostile pattern takes a quarter of a millisecond a key (base/pattern.c), more on long ones. */
#define STEP_PATTERN_BYTES 1024u
#define PATTERN_BYTES_MIN 64u

bool core_is_guarded(const struct core *core, uint32_t unit, uint32_t flags)
{
    return (flags & WIRE_REMOVE_FORCE) == 0 &&
           core_object(core, unit)->guard > core_guard_tick(core, core->now_ns);
}

/* What goes with an object: itself, or the record of its group. */
static uint32_t removed_with(const struct core *core, uint32_t number, uint32_t flags)
{
    const struct group *group = core_group_of(core, core_object(core, number));

    if (group == NULL || ((flags & WIRE_REMOVE_GROUP) == 0 &&
                          (group->flags & (WIRE_GROUP_ATOMIC | WIRE_GROUP_CASCADE)) == 0))
        return number;
    return group->record;
}

/* Alone, or with its group. */
static void remove_object(struct core *core, uint32_t number, uint32_t flags)
{
    uint32_t unit = removed_with(core, number, flags);

    if (unit == number) {
        core_close(core, number, CLOSE_REMOVED);
        return;
    }
    core_group_close(core, unit, CLOSE_REMOVED);
    if (core_object(core, number)->state == OBJECT_READABLE)
        core_close(core, number, CLOSE_REMOVED); /* before its turn in a large group */
}

static void remove_item(struct core *core, struct request *request, uint32_t index)
{
    const struct wire_remove_req *remove = request->message;
    struct key_hash key = core_key_hash(remove->keys[index].key);
    struct object_cursor cursor;
    bool closing = false;
    uint32_t readable = 0;

    if (key.key.size == 0 || key.key.size > LIMIT_KEY_SIZE) {
        core_answer_status(core, request, index, SNOW_INVALID, 0, 0);
        return;
    }
    uint32_t number = core_object_first(core, key.key, key.hash, &cursor);

    for (; number != 0; number = core_object_next(&cursor)) {
        enum object_state state = core_object_state(core, number);

        if (state == OBJECT_CLOSING && core_object(core, number)->state != OBJECT_CLOSING)
            core_close(core, number, CLOSE_REMOVED); /* its turn in a large group: it comes now */
        readable = state == OBJECT_READABLE ? number : readable;
        closing = closing || state == OBJECT_CLOSING;
    }
    if (readable != 0 &&
        core_is_guarded(core, removed_with(core, readable, remove->flags), remove->flags)) {
        core_answer_status(core, request, index, SNOW_IN_USE, 0, 0);
        return;
    }
    if (readable == 0 && !closing) {
        core_answer_status(core, request, index,
                           core_is_ready(core) ? SNOW_NOT_FOUND : SNOW_UNKNOWN, 0, 0);
        return;
    }
    if (readable != 0)
        remove_object(core, readable, remove->flags);
    core_close_wait(core, key, request, index, core_is_ready(core) ? SNOW_OK : SNOW_UNCERTAIN, 0);
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

static void refuse_match(struct core *core, const struct core_input *input, enum snow_status status,
                         const char *reason)
{
    struct wire_remove_match_rep *reply = core_out(core, 1, sizeof(*reply));
    char *text = core_out(core, 1, REASON_SIZE);

    snprintf(text, REASON_SIZE, "%s", reason); /* the pattern's own lives until the next one */
    reply->status = (int32_t)status;
    reply->reason = bytes_of_string(text);
    core_count(core, CORE_METRIC_bad_requests, 1);
    core_reply(core, input->token, WIRE_remove_match, reply);
}

void core_remove_match(struct core *core, const struct core_input *input, uint32_t session)
{
    const struct wire_remove_match_req *match = input->message;
    struct pattern *pattern = NULL;
    const char *reason = "no such kind of pattern, or no such flag";
    enum snow_status status = SNOW_INVALID;

    if (match->kind <= WIRE_MATCH_REGEX &&
        (match->flags & ~(WIRE_REMOVE_FORCE | WIRE_REMOVE_GROUP)) == 0)
        status = match->kind == WIRE_MATCH_REGEX
                     ? pattern_compile(match->pattern, &pattern, &reason)
                     : SNOW_OK;
    if (status != SNOW_OK) {
        refuse_match(core, input, status, reason);
        return;
    }
    struct request *request = core_request_open(core, input, session, 1);

    if (request == NULL) {
        pattern_destroy(pattern);
        return;
    }
    request->pattern = pattern;
    request->cursor = 1;
    request->cursor_end = core->objects.fresh;
    request->unsure = !core_is_ready(core);
    list_push(&core->jobs, &request->job);
}

static bool key_matches(struct request *request, struct bytes key)
{
    const struct wire_remove_match_req *match = request->message;
    enum snow_status status;

    switch (match->kind) {
    case WIRE_MATCH_PREFIX:
        return key.size >= match->pattern.size &&
               bytes_equal(bytes_of(key.at, match->pattern.size), match->pattern);
    case WIRE_MATCH_REGEX:
        status = pattern_match(request->pattern, key);
        request->gave_up += status == SNOW_LIMIT;
        return status == SNOW_OK;
    default:
        return true;
    }
}

/* The reply leaves with the end of the step. */
static void finish_match(struct core *core, struct request *request)
{
    if (request->pending > 0 || list_is_linked(&request->job))
        return;
    core_count(core, CORE_METRIC_patterns_gave_up, request->gave_up);
    request->open = 0;
    if (!list_is_linked(&request->dirty))
        list_push(&core->dirty, &request->dirty);
}

void core_remove_match_done(struct core *core, struct request *request, bool removed,
                            enum snow_status status)
{
    request->pending--;
    request->removed += removed;
    request->uncertain += removed && status != SNOW_OK;
    request->unsure = request->unsure || status == SNOW_UNCERTAIN;
    finish_match(core, request);
}

/* What was removed but not acknowledged is uncertain; what was not looked at stays. */
void core_remove_match_expire(struct core *core, struct request *request)
{
    struct list_link *link;

    request->timed_out = list_is_linked(&request->job);
    if (request->timed_out)
        list_remove(&request->job);
    while ((link = list_first(&request->waiters)) != NULL) {
        struct waiter *waiter = list_entry(link, struct waiter, of_request);
        bool removed = waiter->answer == SNOW_OK;

        core_waiter_end(core, waiter);
        core_remove_match_done(core, request, removed, SNOW_UNCERTAIN);
    }
    finish_match(core, request);
}

void *core_remove_match_reply(struct core *core, const struct request *request)
{
    struct wire_remove_match_rep *reply = core_out(core, 1, sizeof(*reply));
    char *text = core_out(core, 1, REASON_SIZE);

    reply->status = SNOW_OK;
    reply->removed = request->removed;
    reply->guarded = request->guarded;
    reply->uncertain = request->uncertain;
    if (request->uncertain > 0 || request->unsure)
        reply->status = SNOW_UNCERTAIN;
    if (request->gave_up > 0) {
        reply->status = SNOW_LIMIT;
        snprintf(text, REASON_SIZE, "the pattern took too many steps on %u keys, which stay",
                 request->gave_up);
    }
    if (request->timed_out) {
        reply->status = SNOW_TIMEOUT;
        snprintf(text, REASON_SIZE, "the deadline came before all keys were looked at");
    }
    reply->reason = bytes_of_string(text);
    return reply;
}

/* A version on its way out is waited for as well: it was there when the removal began. */
static void match_object(struct core *core, struct request *request, uint32_t number)
{
    const struct wire_remove_match_req *match = request->message;
    const struct object *object = core_object(core, number);
    bool readable = core_object_state(core, number) == OBJECT_READABLE;

    if ((!readable && object->state != OBJECT_CLOSING) || object->key == 0 ||
        !key_matches(request, core_object_key(core, number)))
        return;
    if (readable && core_is_guarded(core, removed_with(core, number, match->flags), match->flags)) {
        request->guarded++;
        return;
    }
    struct key_hash key = {.key = core_object_key(core, number),
                           .hash = core_object_hash(core, number)};

    if (readable)
        remove_object(core, number, match->flags);
    request->pending++;
    core_close_wait(core, key, request, 0, readable ? SNOW_OK : SNOW_NOT_FOUND, 0);
}

/* Those with many waiters pause until some are answered. */
static bool can_run(const struct request *request)
{
    return request->pending < LIMIT_WAITERS_PER_SESSION / 2;
}

static void run_step(struct core *core, struct request *request)
{
    uint32_t bytes = 0;

    for (uint32_t i = 0; i < LIMIT_STEP_OBJECTS && bytes < STEP_PATTERN_BYTES; i++) {
        if (request->cursor >= request->cursor_end || !can_run(request))
            return;
        uint32_t number = request->cursor++;

        if (request->pattern != NULL && core_object(core, number)->key != 0) {
            uint32_t size = (uint32_t)core_object_key(core, number).size;

            bytes += size < PATTERN_BYTES_MIN ? PATTERN_BYTES_MIN : size;
        }
        match_object(core, request, number);
    }
}

void core_jobs_run(struct core *core)
{
    list_each (&core->jobs, link, next) {
        struct request *request = list_entry(link, struct request, job);

        if (!can_run(request))
            continue;
        run_step(core, request);
        list_remove(link);
        if (request->cursor < request->cursor_end)
            list_push(&core->jobs, link);
        else
            finish_match(core, request);
        return;
    }
}

bool core_jobs_can_run(const struct core *core)
{
    list_each (&core->jobs, link, next) {
        if (can_run(list_entry(link, struct request, job)))
            return true;
    }
    return false;
}
