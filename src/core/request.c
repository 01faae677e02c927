/* Requests under way: which items are answered, which wait, and how answers leave.
 *
 * Problem.  Items of one batch end at different times: at once, when room comes, when another
 *           writer ends, when holders acknowledge.
 * Idea.     Every item is answered once.  Answers of a step gather per request and leave at its
 *           end, in as few reply frames as hold them; the one with the last item is marked.
 * Invariants.
 *   Q1  request->open = items not answered.
 *   Q2  A waiter belongs to exactly one unanswered item and stands in one queue.
 * Threads.  The core's own. */
#include "core/group.h"

#include <stdlib.h>
#include <string.h>

#define GROWS_AGAIN_NS (50 * NS_PER_MS) /* a put that outwaits its time for growth looks again */

/* ---- outputs ---- */

void core_outputs_init(struct core_outputs *outputs)
{
    arena_init(&outputs->arena, 0);
    outputs->first = NULL;
    outputs->end = &outputs->first;
}

void core_outputs_reset(struct core_outputs *outputs)
{
    arena_reset(&outputs->arena);
    outputs->first = NULL;
    outputs->end = &outputs->first;
}

void core_outputs_deinit(struct core_outputs *outputs)
{
    arena_deinit(&outputs->arena);
}

void *core_out(struct core *core, size_t count, size_t size)
{
    void *at = arena_array(&core->outputs->arena, count == 0 ? 1 : count, size);

    ASSERT(at != NULL);
    return at;
}

struct core_output *core_output_add(struct core *core, enum core_output_kind kind)
{
    struct core_output *output = core_out(core, 1, sizeof(*output));

    output->kind = kind;
    *core->outputs->end = output;
    core->outputs->end = &output->next;
    return output;
}

static void add_reply(struct core *core, uint64_t token, uint16_t type, enum snow_status status,
                      void *message, bool last)
{
    struct core_output *output = core_output_add(core, CORE_OUT_REPLY);

    output->token = token;
    output->type = type;
    output->status = status;
    output->message = message;
    output->last = last;
}

void core_reply(struct core *core, uint64_t token, uint16_t type, void *message)
{
    add_reply(core, token, type, SNOW_OK, message, true);
}

void core_fail(struct core *core, uint64_t token, uint16_t type, enum snow_status status)
{
    add_reply(core, token, type, status, NULL, true);
}

/* ---- requests ---- */

static uint64_t token_hash(uint64_t token)
{
    return token * UINT64_C(0x9e3779b97f4a7c15);
}

/* How long a put waits for memory that a node is committing: the answer, and the bytes, take time
 * too.  UINT64_MAX: no end. */
static uint64_t growth_until_ns(const struct request *request)
{
    uint64_t time_ns = request->deadline_ns - request->started_ns;

    return request->deadline_ns == UINT64_MAX ? UINT64_MAX : request->deadline_ns - time_ns / 8;
}

/* The wait time of a put is over: who waits for room is told what is in the way, who waits for a
 * writer that it still writes.  Memory that is being committed is no full pool: who waits for that
 * goes on. */
static void end_put_waits(struct core *core, struct request *request)
{
    uint64_t until_ns = growth_until_ns(request);
    bool grows = core->now_ns < until_ns && core_room_grows(core, request);

    list_each (&request->waiters, link, next) {
        struct waiter *waiter = list_entry(link, struct waiter, of_request);
        uint32_t item = waiter->item;
        bool on_room = waiter->on_room;

        if (on_room && grows)
            continue;
        core_waiter_end(core, waiter);
        struct wire_put_grant *grant =
            core_answer_grant(core, request, item, on_room ? SNOW_NO_SPACE : SNOW_IN_PROGRESS);

        if (on_room) {
            grant->reason = bytes_of_string(core_room_reason(core, request, item));
            core_count(core, CORE_METRIC_puts_refused_space, 1);
        }
    }
    if (!list_is_empty(&request->waiters))
        wheel_arm(&core->wheel, &request->timer,
                  until_ns - core->now_ns < GROWS_AGAIN_NS ? until_ns
                                                           : core->now_ns + GROWS_AGAIN_NS);
}

/* The deadline, or the end of a put's wait time. */
static void on_time_out(struct wheel_timer *timer, void *owner)
{
    struct core *core = owner;
    struct request *request = list_entry(timer, struct request, timer);
    struct list_link *link;

    if (request->type == WIRE_put_start) {
        end_put_waits(core, request);
        return;
    }
    if (request->type == WIRE_group_stat) {
        core_group_stat_expire(core, request);
        return;
    }
    if (request->type == WIRE_remove_match) {
        core_remove_match_expire(core, request);
        return;
    }
    while ((link = list_first(&request->waiters)) != NULL) {
        struct waiter *waiter = list_entry(link, struct waiter, of_request);
        uint32_t item = waiter->item;
        uint32_t shortfall = waiter->shortfall;

        core_waiter_end(core, waiter);
        if (request->type == WIRE_group_remove)
            core_group_remove_done(core, request, item, SNOW_UNCERTAIN);
        else
            core_answer_status(core, request, item, SNOW_UNCERTAIN, shortfall + 1, 0);
    }
}

/* put_start and group_stat are answered by the end of their wait time, all else by its deadline. */
static void arm_time_out(struct core *core, struct request *request)
{
    uint64_t at_ns = request->deadline_ns;

    if ((request->type == WIRE_put_start || request->type == WIRE_group_stat) &&
        request->started_ns + request->wait_ns < at_ns)
        at_ns = request->started_ns + request->wait_ns;
    if (at_ns != UINT64_MAX && !wheel_is_armed(&request->timer))
        wheel_arm(&core->wheel, &request->timer, at_ns);
}

struct request *core_request_open(struct core *core, const struct core_input *input,
                                  uint32_t session, uint32_t items)
{
    uint32_t number;

    if (pool_take(&core->request_pool, &number) != SNOW_OK) {
        core_fail(core, input->token, input->type, SNOW_BUSY);
        core_count(core, CORE_METRIC_busy, 1);
        return NULL;
    }
    struct request *request = pool_at(&core->request_pool, number);

    if (index_insert(core->requests, token_hash(input->token), number) != SNOW_OK) {
        pool_give(&core->request_pool, number);
        core_fail(core, input->token, input->type, SNOW_NO_MEMORY);
        return NULL;
    }
    request->number = number;
    list_init(&request->waiters);
    request->first = NULL;
    request->end = &request->first;
    request->open = items;
    request->token = input->token;
    request->deadline_ns = input->deadline_ns;
    request->started_ns = core->now_ns;
    request->session = session;
    request->type = input->type;
    request->segment = UINT16_MAX;
    request->lacking = UINT16_MAX;
    request->message = input->message;
    request->timer.on_event = on_time_out;
    list_push(&core->sessions[session]->requests, &request->of_session);
    if (input->type == WIRE_remove_match)
        arm_time_out(core, request); /* it takes many steps, with waiters or without */
    /* A batch of no items is answered all the same. */
    list_push(&core->dirty, &request->dirty);
    return request;
}

static void free_request(struct core *core, struct request *request)
{
    ASSERT(list_is_empty(&request->waiters));
    wheel_cancel(&core->wheel, &request->timer);
    list_remove(&request->of_session);
    if (list_is_linked(&request->dirty))
        list_remove(&request->dirty);
    if (list_is_linked(&request->job))
        list_remove(&request->job);
    pattern_destroy(request->pattern);
    free(request->items_open);
    index_remove(core->requests, token_hash(request->token), request->number);
    pool_give(&core->request_pool, request->number);
}

void core_request_end(struct core *core, struct request *request)
{
    struct list_link *link;

    while ((link = list_first(&request->waiters)) != NULL)
        core_waiter_end(core, list_entry(link, struct waiter, of_request));
    free_request(core, request);
}

struct request *core_request_find(struct core *core, uint64_t token)
{
    struct index_cursor cursor;
    uint32_t number = index_first(core->requests, token_hash(token), &cursor);

    for (; number != 0; number = index_next(&cursor)) {
        struct request *request = pool_at(&core->request_pool, number);

        if (request->token == token)
            return request;
    }
    return NULL;
}

static void add_answer(struct core *core, struct request *request, void *item)
{
    struct answer *answer = core_out(core, 1, sizeof(*answer));

    ASSERT(request->open > 0);
    answer->item = item;
    *request->end = answer;
    request->end = &answer->next;
    request->answers++;
    request->open--;
    if (!list_is_linked(&request->dirty))
        list_push(&core->dirty, &request->dirty);
}

void core_answer_status(struct core *core, struct request *request, uint32_t item,
                        enum snow_status status, uint32_t shortfall, uint32_t node)
{
    struct wire_item_status *answer = core_out(core, 1, sizeof(*answer));

    answer->index = item;
    answer->status = (int32_t)status;
    answer->shortfall = shortfall;
    answer->node = node;
    if (status == SNOW_INVALID)
        core_count(core, CORE_METRIC_bad_requests, 1);
    add_answer(core, request, answer);
}

struct wire_put_grant *core_answer_grant(struct core *core, struct request *request, uint32_t item,
                                         enum snow_status status)
{
    struct wire_put_grant *grant = core_out(core, 1, sizeof(*grant));

    grant->index = item;
    grant->status = (int32_t)status;
    if (status == SNOW_INVALID)
        core_count(core, CORE_METRIC_bad_requests, 1);
    add_answer(core, request, grant);
    return grant;
}

struct wire_group_info *core_answer_info(struct core *core, struct request *request, uint32_t item)
{
    struct wire_group_info *info = core_out(core, 1, sizeof(*info));

    info->index = item;
    add_answer(core, request, info);
    return info;
}

/* ---- replies ---- */

/* Takes the next answers out of the chain, as many as one frame holds. */
static uint32_t next_frame(const struct request *request)
{
    const struct answer *answer = request->first;
    uint64_t bytes = CORE_REPLY_BYTES;
    uint32_t count = 0;

    if (request->type != WIRE_put_start)
        return request->answers; /* LIMIT_BATCH_ITEMS statuses fit */
    for (; answer != NULL; answer = answer->next) {
        const struct wire_put_grant *grant = answer->item;

        bytes += CORE_ROW_BYTES + grant->reason.size + grant->extra.size +
                 grant->places_count * CORE_PLACE_BYTES;
        if (bytes > LIMIT_BODY_SIZE)
            break;
        count++;
    }
    return count;
}

static struct answer *pop_answer(struct request *request)
{
    struct answer *answer = request->first;

    request->first = answer->next;
    if (request->first == NULL)
        request->end = &request->first;
    request->answers--;
    return answer;
}

static void *gather_statuses(struct core *core, struct request *request, uint32_t count)
{
    /* The replies of put_end, put_renew, put_abort, remove, pin and hint are one list of
     * item_status. */
    struct wire_put_end_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->items = core_out(core, count, sizeof(*reply->items));
    reply->items_count = count;
    for (uint32_t i = 0; i < count; i++)
        reply->items[i] = *(const struct wire_item_status *)pop_answer(request)->item;
    return reply;
}

static void *gather_grants(struct core *core, struct request *request, uint32_t count)
{
    struct wire_put_start_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->items = core_out(core, count, sizeof(*reply->items));
    reply->items_count = count;
    for (uint32_t i = 0; i < count; i++)
        reply->items[i] = *(const struct wire_put_grant *)pop_answer(request)->item;
    return reply;
}

static void *gather_infos(struct core *core, struct request *request, uint32_t count)
{
    struct wire_group_stat_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->items = core_out(core, count, sizeof(*reply->items));
    reply->items_count = count;
    for (uint32_t i = 0; i < count; i++)
        reply->items[i] = *(const struct wire_group_info *)pop_answer(request)->item;
    return reply;
}

static void *gather(struct core *core, struct request *request, uint32_t count)
{
    switch (request->type) {
    case WIRE_put_start:
        return gather_grants(core, request, count);
    case WIRE_remove_match:
        return core_remove_match_reply(core, request);
    case WIRE_group_stat:
        return gather_infos(core, request, count);
    default:
        return gather_statuses(core, request, count);
    }
}

_Static_assert(sizeof(struct wire_put_end_rep) == sizeof(struct wire_remove_rep) &&
                   sizeof(struct wire_put_end_rep) == sizeof(struct wire_put_abort_rep) &&
                   sizeof(struct wire_put_end_rep) == sizeof(struct wire_put_renew_rep) &&
                   sizeof(struct wire_put_end_rep) == sizeof(struct wire_pin_rep) &&
                   sizeof(struct wire_put_end_rep) == sizeof(struct wire_group_remove_rep) &&
                   sizeof(struct wire_put_end_rep) == sizeof(struct wire_hint_rep),
               "replies of statuses have one shape");

static void flush(struct core *core, struct request *request)
{
    bool last;

    if (request->answers == 0 && request->open > 0)
        return;
    do {
        uint32_t count = next_frame(request);
        void *message = gather(core, request, count);

        last = request->open == 0 && request->answers == 0;
        add_reply(core, request->token, request->type, SNOW_OK, message, last);
    } while (request->answers > 0);
    if (last)
        free_request(core, request);
}

void core_requests_flush(struct core *core)
{
    struct list_link *link;

    while ((link = list_pop(&core->dirty)) != NULL)
        flush(core, list_entry(link, struct request, dirty));
}

/* ---- waiters ---- */

struct waiter *core_waiter_create(struct core *core, struct request *request, uint32_t item)
{
    struct session *session = core->sessions[request->session];

    if (core->waiters >= LIMIT_WAITERS || session->waiters >= LIMIT_WAITERS_PER_SESSION)
        return NULL;
    struct waiter *waiter = calloc(1, sizeof(*waiter));

    if (waiter == NULL)
        return NULL;
    waiter->request = request;
    waiter->item = item;
    waiter->since_ns = core->now_ns;
    list_push(&request->waiters, &waiter->of_request);
    core->waiters++;
    session->waiters++;
    waiter->segment = UINT16_MAX;
    arm_time_out(core, request);
    return waiter;
}

void core_waiter_end(struct core *core, struct waiter *waiter)
{
    if (waiter->on_room)
        core_room_leave(core, waiter);
    if (list_is_linked(&waiter->link))
        list_remove(&waiter->link);
    list_remove(&waiter->of_request);
    core->waiters--;
    core->sessions[waiter->request->session]->waiters--;
    free(waiter);
}
