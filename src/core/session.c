/* Sessions: one client's registration, as long as its connection lives and a little longer.
 *
 *   ─core_session_open─► linked ─core_session_break─► waiting ─2 s─► writes aborted ─10 s─► ended
 *                          ▲────core_session_open (same id)───┴─────────────┘
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>

#define STEP_WRITES (4 * LIMIT_STEP_OBJECTS)

/* id = index in core->sessions + 1 in the low 16 bits, the rest random. */
struct session *core_session_find(struct core *core, uint64_t id, uint32_t *index)
{
    uint64_t at = (id & 0xffff) - 1;

    if (at >= core->session_count || core->sessions[at] == NULL || core->sessions[at]->id != id)
        return NULL;
    *index = (uint32_t)at;
    return core->sessions[at];
}

/* Aborts at most max of them. */
static void abort_writes(struct core *core, struct session *session, uint32_t max)
{
    struct list_link *link;

    for (uint32_t i = 0; i < max && (link = list_first(&session->writes)) != NULL; i++) {
        core_count(core, CORE_METRIC_puts_expired, 1);
        core_write_fail(core, list_entry(link, struct write, of_session)->object);
    }
    session->writes_ended = list_is_empty(&session->writes);
}

static void end_requests(struct core *core, struct session *session)
{
    struct list_link *link;

    while ((link = list_first(&session->requests)) != NULL)
        core_request_end(core, list_entry(link, struct request, of_session));
}

static void end_session(struct core *core, uint32_t index)
{
    struct session *session = core->sessions[index];
    struct list_link *link;

    end_requests(core, session);
    abort_writes(core, session, UINT32_MAX);
    while ((link = list_first(&session->reads)) != NULL)
        core_read_free(core, list_entry(link, struct read, of_session));
    core_holds_free(core, session);
    core_group_marks_end(core, index);
    core_writer_end(core, session);
    wheel_cancel(&core->wheel, &session->timer);
    core->sessions[index] = NULL;
    core->sessions_open--;
    free(session);
}

static void on_session_timer(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    struct session *session = list_entry(timer, struct session, timer);

    if (session->writes_ended) {
        end_session(core, (uint32_t)((session->id & 0xffff) - 1));
        return;
    }
    abort_writes(core, session, STEP_WRITES);
    if (!session->writes_ended) { /* the rest in later steps */
        wheel_arm(&core->wheel, &session->timer, core->now_ns + CORE_TICK_NS);
        return;
    }
    uint64_t left_ns = core->options.session_end_ns > core->options.session_return_ns
                           ? core->options.session_end_ns - core->options.session_return_ns
                           : 0;

    wheel_arm(&core->wheel, &session->timer, core->now_ns + left_ns);
}

static struct session *new_session(struct core *core)
{
    uint32_t index = 0;

    while (index < core->session_count && core->sessions[index] != NULL)
        index++;
    if (index == LIMIT_SESSIONS)
        return NULL;
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    if (index == core->session_count)
        core->session_count++;
    list_init(&session->writes);
    list_init(&session->reads);
    list_init(&session->requests);
    list_init(&session->room);
    list_init(&session->group_marks);
    list_init(&session->group_writers);
    session->timer.on_event = on_session_timer;
    session->id = (rng_next(&core->rng) << 16) | (index + 1);
    core->sessions[index] = session;
    core->sessions_open++;
    return session;
}

void core_session_open(struct core *core, const struct core_input *input)
{
    uint32_t index;
    struct session *session = core_session_find(core, input->from, &index);
    struct core_output *output = core_output_add(core, CORE_OUT_SESSION);

    output->token = input->token;
    if (session == NULL)
        session = new_session(core);
    if (session == NULL) {
        output->status = SNOW_BUSY;
        core_count(core, CORE_METRIC_busy, 1);
        return;
    }
    /* It may return before its old connection was seen to break: that one's requests are nobody's
     * now. */
    if (session->linked)
        end_requests(core, session);
    else
        core_writer_links(core, session, true);
    wheel_cancel(&core->wheel, &session->timer);
    session->linked = true;
    session->writes_ended = false;
    output->to = session->id;
}

void core_session_break(struct core *core, const struct core_input *input)
{
    uint32_t index;
    struct session *session = core_session_find(core, input->from, &index);

    if (session == NULL || !session->linked)
        return;
    session->linked = false;
    end_requests(core, session);
    core_writer_links(core, session, false);
    wheel_arm(&core->wheel, &session->timer, core->now_ns + core->options.session_return_ns);
}

void core_sessions_free(struct core *core)
{
    for (uint32_t i = 0; i < core->session_count; i++) {
        if (core->sessions[i] != NULL)
            end_session(core, i);
    }
}
