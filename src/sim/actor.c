/* Actors: simulated clients at work on a small set of keys, a few operations at a time; each answer
 * is checked.
 *
 * Invariants.
 *   A1  What an operation names (keys, bytes) lives in its lane until the operation has ended, or
 *       its process has.
 *   A2  What a lane views stays as it is until the lane's next operation.
 *   A3  After a crash the attempts that were under way stay open in the history: nobody knows. */
#include "base/hash.h"
#include "sim/cluster.h"
#include "sim/ranks.h"
#include "sim/scribe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MAX 4u
#define KEY_ROOM 24u
#define DEADLINE_MS 6000u
#define ENDS_MS 3000u /* the longest that something lasts whose end is set */
#define PROVE_DEADLINE_MS 60000u
#define PROOF_MISSES_MAX 50u
#define PROOF_PAUSE_NS (2 * NS_PER_S)

enum lane_kind { LANE_IDLE, LANE_PUT, LANE_GET, LANE_EXISTS, LANE_REMOVE, LANE_HINT };

struct lane {
    struct actor *actor;
    struct world_alarm pause; /* until the next operation */
    enum lane_kind kind;
    bool proving;          /* must succeed */
    uint32_t proof;        /* step of it */
    uint32_t proof_misses; /* gets of it that found nothing */
    uint64_t began_ns;
    uint32_t count;
    uint32_t keys[BATCH_MAX];
    uint64_t attempts[BATCH_MAX];
    uint64_t hints[BATCH_MAX]; /* in the history */
    char names[BATCH_MAX][KEY_ROOM];
    uint8_t *bytes[BATCH_MAX];
    struct snow_put puts[BATCH_MAX];
    struct snow_get gets[BATCH_MAX];
    struct snow_stat stats[BATCH_MAX];
    struct snow_item items[BATCH_MAX];
    struct transport_view views[BATCH_MAX];
    uint64_t view_hashes[BATCH_MAX]; /* of what was seen at first */
    uint64_t held;                   /* operation of views that have not ended; 0: none */
    snow_read_id read_id;
    struct client_put_op put_op;
    struct client_get_op get_op;
    struct client_exists_op exists_op;
    struct client_keys_op keys_op;
};

struct actor {
    struct cluster *cluster;
    struct world_host *host;
    struct env *env; /* NULL: down */
    struct env_loop *loop;
    struct client *client;
    bool paused;
    uint32_t index;
    struct lane lanes[CLUSTER_LANES];
    struct scribe *scribe;
    struct rank *rank;
};

static void next_operation(struct lane *lane);

static uint64_t now_of(const struct lane *lane)
{
    return world_now_ns(lane->actor->cluster->world);
}

/* ---- results ---- */

static void rest_a_while(struct lane *lane)
{
    struct cluster *cluster = lane->actor->cluster;
    uint64_t pause_ns = rng_between(&cluster->rng, 1, 60) * NS_PER_MS;

    if (lane->held != 0 && rng_chance(&cluster->rng, 1, 4))
        pause_ns *= 50;

    if (cluster->plan.duration_ns > 60 * NS_PER_S)
        pause_ns *= 8;
    lane->kind = LANE_IDLE;
    world_alarm_arm(cluster->world, &lane->pause, now_of(lane) + pause_ns);
}

/* A put that was repeated after a lost answer, or by another master, may find its own value there
 * (EXISTS) or be refused while that is still to be learned: then nobody knows. */
static enum history_end end_of(const struct cluster *cluster, enum snow_status status)
{
    bool repeated = !cluster->plan.must_make_room;

    switch (status) {
    case SNOW_OK:
        return HISTORY_STORED;
    case SNOW_UNCERTAIN:
        return HISTORY_STORED_UNCERTAIN;
    case SNOW_INVALID:
    case SNOW_LIMIT:
        return HISTORY_NOT_STORED;
    case SNOW_EXISTS:
    case SNOW_NO_SPACE:
    case SNOW_IN_PROGRESS:
        return repeated ? HISTORY_UNKNOWN : HISTORY_NOT_STORED;
    default:
        return HISTORY_UNKNOWN;
    }
}

/* What the history is to know of an end: only a master and nodes that live on remember it. */
static uint64_t end_known(const struct cluster *cluster, uint32_t expires_ms)
{
    return cluster->plan.must_make_room ? expires_ms * NS_PER_MS : 0;
}

static void judge_put(struct lane *lane, enum snow_status status)
{
    struct cluster *cluster = lane->actor->cluster;

    if (snow_status_verdict(status) == SNOW_DONE)
        return;
    cluster->put_failures++;
    if (cluster->plan.must_make_room)
        cluster_find(cluster, "heal: a put found no room though everything may be evicted: %s, %s",
                     snow_status_name(status), lane->put_op.reason);
    if (lane->proving)
        cluster_find(cluster, "heal: a put fails after everything was mended: %s, %s",
                     snow_status_name(status), lane->put_op.reason);
}

static void after(struct lane *lane);

static void on_put(struct client_put_op *op)
{
    struct lane *lane = list_entry(op, struct lane, put_op);
    struct cluster *cluster = lane->actor->cluster;

    for (uint32_t i = 0; i < lane->count; i++) {
        enum snow_status status = lane->puts[i].status;

        cluster->puts++;
        const char *wrong =
            history_put_end(cluster->history, lane->attempts[i], end_of(cluster, status),
                            end_known(cluster, lane->puts[i].expires_after_ms), now_of(lane));

        if (wrong != NULL)
            cluster_find(cluster, "%s", wrong);
        judge_put(lane, status);
        world_note(cluster->world, &status, sizeof(status));
    }
    after(lane);
}

/* A miss has a reason: the client counts it. */
static void find_failed_proof(struct lane *lane, const char *what, enum snow_status status)
{
    const uint64_t *counters = client_metrics(lane->actor->client);
    char misses[96] = "";
    struct text text;

    text_init(&text, misses, sizeof(misses));
    for (uint32_t i = 0; i < client_metric_count(); i++) {
        const char *name = client_metric_name(i);

        if (strncmp(name, "misses_", 7) == 0 && counters[i] > 0)
            text_add(&text, " %s=%llu", name, (unsigned long long)counters[i]);
    }
    cluster_find(lane->actor->cluster, "heal: a %s fails after everything was mended: %s%s", what,
                 snow_status_name(status), misses);
}

/* In a pool full of leases a new object may be the only victim, and a connection that was cut may
 * break just now: once more then.  But not for ever. */
static void judge_failed_proof(struct lane *lane, const char *what, enum snow_status status)
{
    if (++lane->proof_misses < PROOF_MISSES_MAX)
        lane->proof = 0;
    else
        find_failed_proof(lane, what, status);
}

/* What the lane looks at is as it was at first; then it looks away. */
static void end_views(struct lane *lane)
{
    struct cluster *cluster = lane->actor->cluster;

    for (uint32_t i = 0; i < BATCH_MAX; i++) {
        const struct transport_view *view = &lane->views[i];

        if (view->space == NULL)
            continue;
        if (world_process_alive(lane->actor->env) &&
            hash_seeded(bytes_of(view->at, lane->gets[i].size), 0) != lane->view_hashes[i])
            cluster_find(cluster, "bytes: what a view shows has changed: key %u", lane->keys[i]);
        transport_view_end(&lane->views[i]);
    }
    if (lane->held != 0)
        client_hold_return(lane->actor->client, lane->held);
    lane->held = 0;
}

static void keep_views(struct lane *lane, const struct client_get_op *op)
{
    if (op->views == NULL)
        return;
    for (uint32_t i = 0; i < lane->count; i++) {
        struct snow_get *get = &lane->gets[i];

        if (lane->views[i].space != NULL)
            lane->view_hashes[i] = hash_seeded(bytes_of(get->to, get->size), 0);
        else if (get->status == SNOW_OK)
            free(get->to); /* it was copied, and has been checked */
    }
    lane->held = op->viewed > 0 ? op->base.operation : 0;
}

/* P7: one node costs a caller one time-out.  Not one that is cut from the master with it. */
static void judge_time(const struct lane *lane)
{
    struct cluster *cluster = lane->actor->cluster;
    uint64_t took_ns = now_of(lane) - lane->began_ns;

    if (cluster->plan.get_ns_max == 0 || took_ns <= cluster->plan.get_ns_max ||
        lane->actor->host == cluster->nodes[cluster->last_bad].host)
        return;
    cluster_find(cluster, "time: one node is out of order, and a get takes %llu ms",
                 (unsigned long long)(took_ns / NS_PER_MS));
}

static void on_get(struct client_get_op *op)
{
    struct lane *lane = list_entry(op, struct lane, get_op);
    struct cluster *cluster = lane->actor->cluster;

    for (uint32_t i = 0; i < lane->count; i++) {
        const struct snow_get *get = &lane->gets[i];

        cluster->gets++;
        world_note(cluster->world, &get->status, sizeof(get->status));
        if (get->status != SNOW_OK)
            continue;
        cluster->hits++;
        const char *wrong =
            history_got(cluster->history, lane->keys[i], lane->began_ns, get->to, get->size);

        if (wrong != NULL)
            cluster_find(cluster, "%s", wrong);
    }
    keep_views(lane, op);
    judge_time(lane);
    if (lane->proving && lane->gets[0].status != SNOW_OK)
        judge_failed_proof(lane, "get", lane->gets[0].status);
    after(lane);
}

static void on_exists(struct client_exists_op *op)
{
    after(list_entry(op, struct lane, exists_op));
}

static void on_removed(struct client_keys_op *op)
{
    struct lane *lane = list_entry(op, struct lane, keys_op);
    struct cluster *cluster = lane->actor->cluster;

    for (uint32_t i = 0; i < lane->count; i++) {
        cluster->removes++;
        /* NOT_FOUND: there is nothing that could come back, says a master that knows all nodes. */
        if (lane->items[i].status == SNOW_OK || lane->items[i].status == SNOW_NOT_FOUND)
            history_removed(cluster->history, lane->keys[i], lane->began_ns, now_of(lane));
        world_note(cluster->world, &lane->items[i].status, sizeof(lane->items[i].status));
    }
    if (lane->proving && lane->items[0].status != SNOW_OK)
        judge_failed_proof(lane, "remove", lane->items[0].status);
    after(lane);
}

static void on_hinted(struct client_keys_op *op)
{
    struct lane *lane = list_entry(op, struct lane, keys_op);
    struct cluster *cluster = lane->actor->cluster;

    for (uint32_t i = 0; i < lane->count; i++) {
        enum snow_status status = lane->items[i].status;
        bool ends = status == SNOW_OK && (op->flags & WIRE_HINT_EXPIRES);

        history_hint_end(cluster->history, lane->keys[i], lane->hints[i], lane->began_ns,
                         ends ? end_known(cluster, op->expires_ms) : 0, now_of(lane));
        if (status == SNOW_INVALID || status == SNOW_LIMIT)
            cluster_find(cluster, "heal: a hint is refused: %s", snow_status_name(status));
        world_note(cluster->world, &status, sizeof(status));
    }
    after(lane);
}

/* ---- operations ---- */

static struct snow_key key_of(const struct lane *lane, uint32_t index)
{
    return (struct snow_key){.at = lane->names[index], .size = strlen(lane->names[index])};
}

static bool already_taken(const struct lane *lane, uint32_t count, uint32_t key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (lane->keys[i] == key)
            return true;
    }
    return false;
}

static void choose_keys(struct lane *lane)
{
    struct cluster *cluster = lane->actor->cluster;
    uint32_t wanted = (uint32_t)rng_between(&cluster->rng, 1, BATCH_MAX);

    lane->count = 0;
    while (lane->count < wanted) {
        uint32_t key = (uint32_t)rng_below(&cluster->rng, cluster->plan.keys);

        if (!already_taken(lane, lane->count, key))
            lane->keys[lane->count++] = key;
        else
            wanted--;
    }
    for (uint32_t i = 0; i < lane->count; i++)
        snprintf(lane->names[i], KEY_ROOM, "key-%u", lane->keys[i]);
}

/* What has a priority ends soon: the pool does not fill with it. */
static void draw_hints(struct rng *rng, struct snow_put *item)
{
    item->done = rng_chance(rng, 1, 10);
    if (!rng_chance(rng, 1, 5))
        return;
    item->expires_after_ms = (uint32_t)rng_between(rng, 1, ENDS_MS);
    item->priority = (uint8_t)rng_below(rng, WIRE_PRIORITY_MAX + 1);
}

static void start_put(struct lane *lane, uint32_t deadline_ms)
{
    struct cluster *cluster = lane->actor->cluster;
    bool replace = !lane->proving && rng_below(&cluster->rng, 100) < cluster->plan.replace_percent;
    struct snow_call call = {.deadline_ms = deadline_ms, .continues = lane->read_id};

    lane->kind = LANE_PUT;
    for (uint32_t i = 0; i < lane->count; i++) {
        uint8_t copies = rng_chance(&cluster->rng, 1, 4) ? 2 : 1;
        uint64_t size = rng_chance(&cluster->rng, 1, 20)
                            ? rng_below(&cluster->rng, 17)
                            : rng_between(&cluster->rng, 1, cluster->plan.object_max);

        if (cluster->plan.copies > 0)
            copies = (uint8_t)cluster->plan.copies;
        lane->attempts[i] =
            history_put_begin(cluster->history, lane->keys[i], size, replace, now_of(lane));
        history_fill(lane->attempts[i], lane->bytes[i], size);
        lane->puts[i] = (struct snow_put){.key = key_of(lane, i),
                                          .from = lane->bytes[i],
                                          .size = size,
                                          .depth = SNOW_DEPTH_UNKNOWN,
                                          .replicas = copies,
                                          .replace = replace};
        if (!lane->proving)
            draw_hints(&cluster->rng, &lane->puts[i]);
    }
    memset(&lane->put_op, 0, sizeof(lane->put_op));
    lane->put_op.on_done = on_put;
    lane->put_op.items = lane->puts;
    lane->put_op.count = lane->count;
    client_put_start(lane->actor->client, &lane->put_op, &call);
}

static void start_get(struct lane *lane, uint32_t deadline_ms)
{
    struct snow_call call = {.deadline_ms = deadline_ms, .read_id = &lane->read_id};
    bool view = !lane->proving && rng_chance(&lane->actor->cluster->rng, 1, 3);

    lane->kind = LANE_GET;
    for (uint32_t i = 0; i < lane->count; i++)
        lane->gets[i] = (struct snow_get){.key = key_of(lane, i),
                                          .to = view ? NULL : lane->bytes[i],
                                          .room = view ? 0 : lane->actor->cluster->plan.object_max};
    memset(&lane->get_op, 0, sizeof(lane->get_op));
    lane->get_op.views = view ? lane->views : NULL;
    lane->get_op.on_done = on_get;
    lane->get_op.items = lane->gets;
    lane->get_op.count = lane->count;
    client_get_start(lane->actor->client, &lane->get_op, &call);
}

static void start_exists(struct lane *lane)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS, .flags = SNOW_CALL_LEASE};

    lane->kind = LANE_EXISTS;
    for (uint32_t i = 0; i < lane->count; i++)
        lane->stats[i] = (struct snow_stat){.key = key_of(lane, i)};
    memset(&lane->exists_op, 0, sizeof(lane->exists_op));
    lane->exists_op.on_done = on_exists;
    lane->exists_op.items = lane->stats;
    lane->exists_op.count = lane->count;
    client_exists_start(lane->actor->client, &lane->exists_op, &call);
}

static void start_remove(struct lane *lane, uint32_t deadline_ms)
{
    struct snow_call call = {.deadline_ms = deadline_ms};

    lane->kind = LANE_REMOVE;
    for (uint32_t i = 0; i < lane->count; i++)
        lane->items[i] = (struct snow_item){.key = key_of(lane, i)};
    memset(&lane->keys_op, 0, sizeof(lane->keys_op));
    lane->keys_op.on_done = on_removed;
    lane->keys_op.items = lane->items;
    lane->keys_op.count = lane->count;
    client_remove_start(lane->actor->client, &lane->keys_op, &call);
}

static void start_hint(struct lane *lane)
{
    static const uint32_t kinds[] = {WIRE_HINT_TOUCH, WIRE_HINT_DONE, WIRE_HINT_LASTS,
                                     WIRE_HINT_EXPIRES | WIRE_HINT_PRIORITY};
    struct cluster *cluster = lane->actor->cluster;
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    uint32_t flags = kinds[rng_below(&cluster->rng, sizeof(kinds) / sizeof(kinds[0]))];

    lane->kind = LANE_HINT;
    for (uint32_t i = 0; i < lane->count; i++) {
        lane->items[i] = (struct snow_item){.key = key_of(lane, i)};
        lane->hints[i] = history_hint_begin(cluster->history, lane->keys[i], lane->began_ns);
    }
    memset(&lane->keys_op, 0, sizeof(lane->keys_op));
    lane->keys_op.on_done = on_hinted;
    lane->keys_op.items = lane->items;
    lane->keys_op.count = lane->count;
    if (flags & WIRE_HINT_EXPIRES) {
        lane->keys_op.expires_ms = (uint32_t)rng_between(&cluster->rng, 0, ENDS_MS);
        lane->keys_op.priority = (uint8_t)rng_below(&cluster->rng, WIRE_PRIORITY_MAX + 1);
    }
    client_hint_start(lane->actor->client, &lane->keys_op, flags, &call);
}

static void next_operation(struct lane *lane)
{
    struct cluster *cluster = lane->actor->cluster;
    uint64_t draw = rng_below(&cluster->rng, 100);

    lane->kind = LANE_IDLE;
    end_views(lane);
    if (cluster->stopping || cluster->plan.keys == 0)
        return;
    choose_keys(lane);
    lane->began_ns = now_of(lane);
    if (draw < cluster->plan.remove_percent)
        start_remove(lane, DEADLINE_MS);
    else if (draw < 60)
        start_put(lane, DEADLINE_MS);
    else if (draw < 90)
        start_get(lane, DEADLINE_MS);
    else if (draw < 95)
        start_exists(lane);
    else
        start_hint(lane);
}

/* ---- proving that everything works again ---- */

static void prove_step(struct lane *lane)
{
    lane->count = 1;
    lane->keys[0] = HISTORY_KEYS - 1 - lane->actor->index;
    snprintf(lane->names[0], KEY_ROOM, "proof-%u", lane->actor->index);
    lane->began_ns = now_of(lane);
    lane->read_id = 0;
    switch (lane->proof++) {
    case 0:
        start_put(lane, PROVE_DEADLINE_MS);
        return;
    case 1:
        start_get(lane, PROVE_DEADLINE_MS);
        return;
    case 2:
        start_remove(lane, PROVE_DEADLINE_MS);
        return;
    default:
        lane->proving = false;
        lane->kind = LANE_IDLE;
    }
}

void actor_prove(struct actor *actor)
{
    struct lane *lane = &actor->lanes[0];

    world_alarm_cancel(&lane->pause);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++)
        end_views(&actor->lanes[i]);
    lane->proving = true;
    lane->proof = 0;
    prove_step(lane);
}

static void after(struct lane *lane)
{
    if (!lane->proving)
        rest_a_while(lane);
    else if (lane->proof == 0) /* again, a little later */
        world_alarm_arm(lane->actor->cluster->world, &lane->pause, now_of(lane) + PROOF_PAUSE_NS);
    else
        prove_step(lane);
}

static void on_pause_end(struct world_alarm *alarm)
{
    struct lane *lane = list_entry(alarm, struct lane, pause);

    if (lane->proving)
        prove_step(lane);
    else if (lane->actor->env != NULL && !lane->actor->paused)
        next_operation(lane);
}

/* ---- processes ---- */

void actor_start(struct actor *actor)
{
    struct client_options options;
    const char *reason;
    char name[32];

    if (actor->env != NULL)
        return;
    snprintf(name, sizeof(name), "client-%u", actor->index);
    actor->env = world_process_start(actor->host, name);
    ASSERT(actor->env != NULL);
    client_options_init(&options);
    options.master = "master:7600";
    options.local_first = actor->index % 2 == 1;
    options.transport.verify_near = actor->index % 3 == 1;
    options.transport.sum_near = actor->index % 3 != 2;
    enum snow_status status = env_loop_create(actor->env, "client", &actor->loop);

    ASSERT(status == SNOW_OK);
    status = client_create(actor->loop, &options, &actor->client, &reason);
    ASSERT(status == SNOW_OK);
    status = env_loop_start(actor->loop);
    ASSERT(status == SNOW_OK);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++)
        rest_a_while(&actor->lanes[i]);
    scribe_start(actor->scribe, actor->client);
    ranks_start(actor->rank, actor->client);
}

static void cancel(struct lane *lane)
{
    if (lane->kind == LANE_PUT) {
        client_put_cancel(&lane->put_op);
    } else if (lane->kind == LANE_GET) {
        client_get_cancel(&lane->get_op);
        keep_views(lane, &lane->get_op); /* what had ended before */
    } else if (lane->kind == LANE_EXISTS) {
        client_exists_cancel(&lane->exists_op);
    } else if (lane->kind == LANE_REMOVE || lane->kind == LANE_HINT) {
        client_keys_cancel(&lane->keys_op);
    }
    lane->kind = LANE_IDLE;
}

void actor_crash(struct actor *actor)
{
    if (actor->env == NULL)
        return;
    probe_add(&actor->cluster->probes, "client", client_metric_count(), client_metric_name,
              client_metrics(actor->client));
    world_process_crash(actor->env);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++) {
        world_alarm_cancel(&actor->lanes[i].pause);
        cancel(&actor->lanes[i]);
        end_views(&actor->lanes[i]);
    }
    scribe_crash(actor->scribe);
    ranks_crash(actor->rank);
    client_destroy(actor->client);
    env_loop_destroy(actor->loop);
    world_process_end(actor->env);
    actor->client = NULL;
    actor->loop = NULL;
    actor->env = NULL;
    actor->paused = false;
}

void actor_pause(struct actor *actor)
{
    if (actor->env == NULL || actor->paused)
        return;
    actor->paused = true;
    world_process_pause(actor->env);
}

void actor_resume(struct actor *actor)
{
    if (actor->env == NULL || !actor->paused)
        return;
    actor->paused = false;
    world_process_resume(actor->env);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++) {
        if (actor->lanes[i].kind == LANE_IDLE)
            rest_a_while(&actor->lanes[i]);
    }
}

bool actor_is_idle(const struct actor *actor)
{
    for (uint32_t i = 0; i < CLUSTER_LANES; i++) {
        if (actor->lanes[i].kind != LANE_IDLE)
            return false;
    }
    return scribe_is_idle(actor->scribe) && ranks_is_idle(actor->rank);
}

struct world_host *actor_host(struct actor *actor)
{
    return actor->host;
}

struct actor *actor_create(struct cluster *cluster, uint32_t index)
{
    struct actor *actor = calloc(1, sizeof(*actor));
    char name[32];

    ASSERT(actor != NULL);
    snprintf(name, sizeof(name), "client-%u", index);
    actor->cluster = cluster;
    actor->index = index;
    if (rng_below(&cluster->rng, 100) >= cluster->plan.near_percent)
        actor->host = world_host_create(cluster->world, name);
    else if (rng_chance(&cluster->rng, 1, 4))
        actor->host = cluster->master.host;
    else
        actor->host = cluster->nodes[rng_below(&cluster->rng, cluster->plan.nodes)].host;
    ASSERT(actor->host != NULL);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++) {
        struct lane *lane = &actor->lanes[i];

        lane->actor = actor;
        lane->pause.on_event = on_pause_end;
        for (uint32_t j = 0; j < BATCH_MAX; j++) {
            lane->bytes[j] = malloc(cluster->plan.object_max + 64);
            ASSERT(lane->bytes[j] != NULL);
        }
    }
    actor->scribe = scribe_create(cluster, index, &actor->paused);
    actor->rank = ranks_create(cluster, index, &actor->paused);
    actor_start(actor);
    return actor;
}

void actor_destroy(struct actor *actor)
{
    actor_crash(actor);
    for (uint32_t i = 0; i < CLUSTER_LANES; i++) {
        world_alarm_cancel(&actor->lanes[i].pause);
        for (uint32_t j = 0; j < BATCH_MAX; j++)
            free(actor->lanes[i].bytes[j]);
    }
    scribe_destroy(actor->scribe);
    ranks_destroy(actor->rank);
    free(actor);
}
