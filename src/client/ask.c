#include "client/ask.h"

#include "client/inside.h"

#include <stdlib.h>

#define BODY_MAX (LIMIT_BODY_SIZE - 4 * KIB) /* of a message */

/* A message under way. */
struct part {
    struct rpc_call call;
    struct list_link link; /* in ask->parts */
    struct client_ask *ask;
    uint32_t count;
    uint8_t *answered; /* one an item, behind them: it may be under way in another message now */
    uint32_t items[];
};

/* ---- states --------------------------------------------------------------------------------- */

static uint32_t *counter_of(struct client_ask *ask, uint8_t state)
{
    switch ((enum client_ask_state)state) {
    case ASK_WAITING:
        return &ask->waiting;
    case ASK_SENT:
        return &ask->sent;
    case ASK_DELAYED:
        return &ask->delayed;
    case ASK_IDLE:
        break;
    }
    return NULL;
}

static void set_state(struct client_ask *ask, uint32_t item, enum client_ask_state state)
{
    uint32_t *before = counter_of(ask, ask->states[item]);
    uint32_t *after = counter_of(ask, (uint8_t)state);

    if (before != NULL)
        --*before;
    if (after != NULL)
        ++*after;
    ask->states[item] = (uint8_t)state;
}

static void on_timer(struct env_timer *timer)
{
    struct client_ask *ask = list_entry(timer, struct client_ask, timer);

    for (uint32_t i = 0; i < ask->count && ask->delayed > 0; i++) {
        if (ask->states[i] == ASK_DELAYED)
            client_ask_open(ask, i);
    }
    client_ask_pump(ask);
}

enum snow_status client_ask_init(struct client_ask *ask, struct client *client,
                                 const struct client_ask_ops *ops, uint32_t count,
                                 uint64_t deadline_ns, struct arena *arena)
{
    memset(ask, 0, sizeof(*ask));
    ask->states = arena_array(arena, count, sizeof(*ask->states));
    if (ask->states == NULL)
        return SNOW_NO_MEMORY;
    ask->ops = ops;
    ask->client = client;
    ask->count = count;
    ask->deadline_ns = deadline_ns;
    ask->part_items = ops->part_items == 0 ? LIMIT_BATCH_ITEMS : ops->part_items;
    ask->timer.on_event = on_timer;
    ask->retry.rng = &client->rng;
    ask->cursor = ops->from_end ? count : 0;
    list_init(&ask->parts);
    return SNOW_OK;
}

void client_ask_cancel(struct client_ask *ask)
{
    struct list_link *link;

    if (ask->ops == NULL)
        return;
    while ((link = list_pop(&ask->parts)) != NULL) {
        struct part *part = list_entry(link, struct part, link);

        rpc_call_cancel(&part->call);
        free(part);
    }
    if (list_is_linked(&ask->of_client))
        list_remove(&ask->of_client);
    env_timer_cancel(&ask->timer);
    ask->ops = NULL;
}

void client_ask_open(struct client_ask *ask, uint32_t item)
{
    ASSERT(ask->states[item] == ASK_IDLE || ask->states[item] == ASK_DELAYED);
    set_state(ask, item, ASK_WAITING);
    if (ask->ops->from_end ? ask->cursor <= item : ask->cursor > item)
        ask->cursor = ask->ops->from_end ? item + 1 : item;
}

void client_ask_close(struct client_ask *ask, uint32_t item)
{
    ASSERT(ask->states[item] == ASK_SENT);
    set_state(ask, item, ASK_IDLE);
}

bool client_ask_again(struct client_ask *ask, uint32_t item, enum snow_status status,
                      bool lost_peer, uint32_t hint_ms, uint64_t until_ns)
{
    struct client *client = ask->client;
    bool armed = ask->timer.loop != NULL;
    uint64_t at_ns = ask->at_ns;

    ask->retry.deadline_ns = until_ns;
    /* The others of the same moment go along: that is one try, not one each. */
    if (armed ? !rpc_retry_may(status, lost_peer) || at_ns >= until_ns
              : !rpc_retry_again(&ask->retry, status, lost_peer, hint_ms, client_now_ns(client),
                                 &at_ns)) {
        set_state(ask, item, ASK_IDLE);
        return false;
    }
    if (!armed)
        env_timer_arm(client->loop, &ask->timer, at_ns);
    ask->at_ns = at_ns;
    set_state(ask, item, ASK_DELAYED);
    client_count(client, CLIENT_METRIC_asked_again, 1);
    return true;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void part_free(struct part *part)
{
    list_remove(&part->link);
    part->ask->part_count--;
    free(part);
}

/* Its items that have no answer end, or are asked again. */
static void part_failed(struct part *part, enum snow_status status)
{
    struct client_ask *ask = part->ask;
    bool split = status == SNOW_LIMIT && part->count > 1; /* its answer did not fit a message */

    if (split)
        ask->part_items = part->count / 2;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t item = part->items[i];

        if (part->answered[i] || ask->states[item] != ASK_SENT)
            continue;
        if (split) {
            set_state(ask, item, ASK_IDLE);
            client_ask_open(ask, item);
        } else if (!client_ask_again(ask, item, status, true, 0, ask->deadline_ns)) {
            /* For the caller, CLOSED is something else. */
            ask->ops->on_failed(ask, item, status == SNOW_CLOSED ? SNOW_UNREACHABLE : status);
        }
    }
}

static void on_reply(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct part *part = list_entry(call, struct part, call);
    struct client_ask *ask = part->ask;

    if (reply != NULL)
        ask->ops->on_reply(ask, part->items, part->count, reply);
    for (uint32_t i = 0; i < part->count && !last; i++)
        part->answered[i] |= ask->states[part->items[i]] != ASK_SENT;
    if (last) {
        /* What the last reply does not answer will never be. */
        part_failed(part, status == SNOW_OK ? SNOW_INVALID : status);
        part_free(part);
        client_ask_pump(ask);
    }
    ask->ops->on_event(ask);
}

/* ---- sending -------------------------------------------------------------------------------- */

/* The next item that waits, from `from` on; count: none. */
static uint32_t next_waiting(const struct client_ask *ask, uint32_t from)
{
    if (!ask->ops->from_end) {
        while (from < ask->count && ask->states[from] != ASK_WAITING)
            from++;
        return from;
    }
    while (from > 0 && ask->states[from - 1] != ASK_WAITING)
        from--;
    return from == 0 ? ask->count : from - 1;
}

static uint32_t step_behind(const struct client_ask *ask, uint32_t item)
{
    return ask->ops->from_end ? item : item + 1;
}

static bool may_join(struct client_ask *ask, uint32_t before, uint32_t item)
{
    if (ask->ops->on_join == NULL)
        return true;
    return ask->ops->from_end ? ask->ops->on_join(ask, item, before)
                              : ask->ops->on_join(ask, before, item);
}

static void reverse(uint32_t *items, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t item = items[i];

        items[i] = items[count - 1 - i];
        items[count - 1 - i] = item;
    }
}

/* The items of the next message, ascending: max at most, which wait. */
static uint32_t gather(struct client_ask *ask, uint32_t *items, uint32_t max)
{
    size_t size = 0;
    uint32_t count = 0;
    uint32_t item = next_waiting(ask, ask->cursor);

    while (item < ask->count) {
        size_t more = ask->ops->on_measure(ask, item);

        if (count > 0 && (size + more > BODY_MAX || !may_join(ask, items[count - 1], item)))
            break;
        size += more;
        items[count++] = item;
        ask->cursor = step_behind(ask, item);
        if (count == max)
            break; /* behind them may be thousands that are not to be asked for */
        item = next_waiting(ask, ask->cursor);
    }
    if (ask->ops->from_end)
        reverse(items, count);
    return count;
}

static enum snow_status part_send(struct part *part, struct rpc_conn *conn)
{
    struct client_ask *ask = part->ask;
    struct client *client = ask->client;
    const void *message;

    arena_reset(&client->scratch);
    message = ask->ops->on_build(ask, part->items, part->count, &client->scratch);
    if (message == NULL)
        return SNOW_NO_MEMORY;
    part->call.on_reply = on_reply;
    client_count(client, CLIENT_METRIC_asked, 1);
    return rpc_call_start(conn, &part->call, ask->ops->type, message, NULL, ask->deadline_ns);
}

/* False: nothing more can be sent now. */
static bool send_next(struct client_ask *ask, struct rpc_conn *conn)
{
    uint32_t max = ask->waiting < ask->part_items ? ask->waiting : ask->part_items;
    struct part *part = malloc(sizeof(*part) + max * (sizeof(part->items[0]) + 1));
    enum snow_status status = SNOW_NO_MEMORY;
    uint32_t items[LIMIT_BATCH_ITEMS];
    uint32_t count = gather(ask, items, max);

    if (part != NULL) {
        *part =
            (struct part){.ask = ask, .count = count, .answered = (uint8_t *)(part->items + max)};
        memcpy(part->items, items, count * sizeof(items[0]));
        memset(part->answered, 0, count);
        status = part_send(part, conn);
    }
    for (uint32_t i = 0; i < count; i++)
        set_state(ask, items[i], status == SNOW_OK ? ASK_SENT : ASK_DELAYED);
    if (status == SNOW_OK) {
        list_push(&ask->parts, &part->link);
        ask->part_count++;
        return true;
    }
    free(part);
    /* Something here is short for a moment: again soon, until the deadline. */
    if (ask->timer.loop == NULL) {
        ask->at_ns = client_now_ns(ask->client) + 2 * NS_PER_MS;
        env_timer_arm(ask->client->loop, &ask->timer, ask->at_ns);
    }
    return false;
}

void client_ask_pump(struct client_ask *ask)
{
    struct rpc_conn *conn = rpc_peer_conn(&ask->client->master);
    bool more = true;

    if (conn == NULL) {
        if (ask->waiting > 0 && !list_is_linked(&ask->of_client))
            list_push(&ask->client->asking, &ask->of_client);
        return;
    }
    while (more && ask->waiting > 0 && ask->part_count < CLIENT_PARTS_MAX)
        more = send_next(ask, conn);
}
