/* Scribes: long puts.
 *
 *   IDLE ─alarm─► OPENING ─grant─► WRITING ─all ranges─► COMMITTING ─► IDLE
 *     ▲               │               │ a range failed, or it changes its mind: closed
 *     └───────────────┴───────────────┘
 * Invariants.
 *   S1  Until a put_end was sent nobody may see the value: an attempt that is closed before is
 *       answered as not stored.  But when all its bytes were on their way, nobody knows: a master
 *       that restarts adopts what nodes hold whole.
 *   S2  After a crash the attempt that was committing stays open in the history: nobody knows. */
#include "sim/scribe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MAX 8u
#define AT_ONCE_MAX 3u
#define DEADLINE_MS 6000u
#define HOLD_MS 3000u
#define PAUSE_NS_MAX (1500 * NS_PER_MS)
#define REST_NS_MAX (400 * NS_PER_MS)
#define COMMITS_MAX 3u

enum scribe_state { SCRIBE_IDLE, SCRIBE_OPENING, SCRIBE_WRITING, SCRIBE_COMMITTING };

struct scribe {
    struct cluster *cluster;
    struct client *client; /* NULL: down */
    const bool *paused;    /* its process */
    struct rng rng;
    struct world_alarm alarm; /* the next step */
    enum scribe_state state;
    bool under_way; /* an operation */
    bool early;     /* the commit that is under way must be refused */
    uint32_t commits;
    uint64_t attempt;
    char name[24];
    uint8_t *bytes;
    struct snow_put item;
    struct client_writer *writer; /* NULL: none */
    struct client_writer_op op;
    struct client_write_op write;
    struct snow_write ranges[RANGES_MAX]; /* in the order of writing */
    uint32_t range_count;
    uint32_t next; /* range that is not written yet */
};

static void wait(struct scribe *scribe, uint64_t ns_max)
{
    struct world *world = scribe->cluster->world;
    uint64_t wait_ns = rng_below(&scribe->rng, scribe->cluster->stopping ? NS_PER_MS : ns_max);

    world_alarm_arm(world, &scribe->alarm, world_now_ns(world) + wait_ns);
}

/* The attempt is over. */
static void finish(struct scribe *scribe, enum history_end end)
{
    struct cluster *cluster = scribe->cluster;
    const char *wrong =
        history_put_end(cluster->history, scribe->attempt, end, 0, world_now_ns(cluster->world));

    if (wrong != NULL)
        cluster_find(cluster, "%s", wrong);
    if (scribe->writer != NULL)
        client_writer_close(scribe->writer);
    scribe->writer = NULL;
    scribe->state = SCRIBE_IDLE;
    cluster->puts++;
    wait(scribe, REST_NS_MAX);
}

/* It is closed before a put_end was sent (S1). */
static void give_up(struct scribe *scribe)
{
    bool all = scribe->state != SCRIBE_OPENING && scribe->next == scribe->range_count;

    finish(scribe, all ? HISTORY_UNKNOWN : HISTORY_NOT_STORED);
}

/* ---- committing ----------------------------------------------------------------------------- */

static void on_commit(struct client_writer_op *op)
{
    struct scribe *scribe = list_entry(op, struct scribe, op);
    enum snow_status status = op->status;

    scribe->under_way = false;
    world_note(scribe->cluster->world, &status, sizeof(status));
    if (scribe->early && status == SNOW_INVALID) {
        wait(scribe, PAUSE_NS_MAX);
    } else if (scribe->early) {
        /* Refused for another reason: no put_end was sent, and its copies are gone. */
        if (snow_status_verdict(status) == SNOW_DONE)
            cluster_find(scribe->cluster, "bytes: a put was committed with bytes missing");
        give_up(scribe);
    } else if (snow_status_verdict(status) == SNOW_DONE || ++scribe->commits >= COMMITS_MAX ||
               status == SNOW_GONE || status == SNOW_INVALID) {
        finish(scribe, status == SNOW_OK          ? HISTORY_STORED
                       : status == SNOW_UNCERTAIN ? HISTORY_STORED_UNCERTAIN
                                                  : HISTORY_UNKNOWN);
    } else {
        wait(scribe, PAUSE_NS_MAX); /* not known: once more */
    }
}

static void commit(struct scribe *scribe, bool early)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    scribe->early = early;
    if (!early)
        scribe->state = SCRIBE_COMMITTING;
    scribe->op = (struct client_writer_op){.on_done = on_commit, .writer = scribe->writer};
    scribe->under_way = true;
    client_writer_commit_start(scribe->client, &scribe->op, &call);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void on_written(struct client_write_op *op)
{
    struct scribe *scribe = list_entry(op, struct scribe, write);
    enum snow_status status = SNOW_OK;

    scribe->under_way = false;
    for (size_t i = 0; i < op->count && status == SNOW_OK; i++)
        status = op->items[i].status;
    world_note(scribe->cluster->world, &status, sizeof(status));
    if (status == SNOW_INVALID || status == SNOW_LIMIT)
        cluster_find(scribe->cluster, "bytes: a range of a long put is refused: %s",
                     snow_status_name(status));
    if (status == SNOW_OK)
        wait(scribe, PAUSE_NS_MAX);
    else
        give_up(scribe);
}

static void write_some(struct scribe *scribe)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    uint32_t left = scribe->range_count - scribe->next;
    uint32_t count = (uint32_t)rng_between(&scribe->rng, 1, AT_ONCE_MAX);

    if (count > left)
        count = left;
    scribe->write = (struct client_write_op){.on_done = on_written,
                                             .items = scribe->ranges + scribe->next,
                                             .count = count,
                                             .writer = scribe->writer};
    scribe->next += count;
    scribe->under_way = true;
    client_write_start(scribe->client, &scribe->write, &call);
}

/* Cuts the value into ranges, in random order. */
static void cut(struct scribe *scribe)
{
    uint64_t size = scribe->item.size;
    uint64_t from = 0;

    scribe->range_count = 0;
    while (from < size) {
        uint64_t here = size - from;

        if (scribe->range_count + 1 < RANGES_MAX)
            here = rng_between(&scribe->rng, 1, here);
        uint32_t at = (uint32_t)rng_below(&scribe->rng, scribe->range_count + 1);

        scribe->ranges[scribe->range_count++] = scribe->ranges[at];
        scribe->ranges[at] =
            (struct snow_write){.offset = from, .from = scribe->bytes + from, .size = here};
        from += here;
    }
    scribe->next = 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void on_open(struct client_writer_op *op)
{
    struct scribe *scribe = list_entry(op, struct scribe, op);
    enum snow_status status = op->status;

    scribe->under_way = false;
    world_note(scribe->cluster->world, &status, sizeof(status));
    if (status != SNOW_OK) {
        give_up(scribe); /* S1 */
        return;
    }
    scribe->writer = op->writer;
    scribe->state = SCRIBE_WRITING;
    cut(scribe);
    wait(scribe, PAUSE_NS_MAX);
}

static void open_one(struct scribe *scribe)
{
    struct cluster *cluster = scribe->cluster;
    uint32_t key = (uint32_t)rng_below(&scribe->rng, cluster->plan.keys);
    uint64_t size = rng_between(&scribe->rng, 17, cluster->plan.object_max + 17);
    bool replace = rng_below(&scribe->rng, 100) < cluster->plan.replace_percent;
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    snprintf(scribe->name, sizeof(scribe->name), "key-%u", key);
    scribe->attempt =
        history_put_begin(cluster->history, key, size, replace, world_now_ns(cluster->world));
    history_fill(scribe->attempt, scribe->bytes, size);
    scribe->item = (struct snow_put){.key = {.at = scribe->name, .size = strlen(scribe->name)},
                                     .size = size,
                                     .depth = SNOW_DEPTH_UNKNOWN,
                                     .replicas = (uint8_t)rng_between(&scribe->rng, 1, 2),
                                     .replace = replace};
    scribe->state = SCRIBE_OPENING;
    scribe->commits = 0;
    scribe->op = (struct client_writer_op){.on_done = on_open, .hold_ms = HOLD_MS};
    scribe->under_way = true;
    client_writer_open_start(scribe->client, &scribe->op, &scribe->item, &call);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void on_alarm(struct world_alarm *alarm)
{
    struct scribe *scribe = list_entry(alarm, struct scribe, alarm);

    if (scribe->client == NULL || scribe->under_way)
        return;
    if (*scribe->paused) {
        wait(scribe, PAUSE_NS_MAX);
        return;
    }
    switch (scribe->state) {
    case SCRIBE_IDLE:
        if (!scribe->cluster->stopping)
            open_one(scribe);
        return;
    case SCRIBE_OPENING:
        return;
    case SCRIBE_WRITING:
        if (rng_chance(&scribe->rng, 1, 30))
            give_up(scribe); /* it changes its mind */
        else if (scribe->next == scribe->range_count)
            commit(scribe, false);
        else if (rng_chance(&scribe->rng, 1, 12))
            commit(scribe, true);
        else
            write_some(scribe);
        return;
    case SCRIBE_COMMITTING:
        commit(scribe, false);
        return;
    }
}

bool scribe_is_idle(const struct scribe *scribe)
{
    return scribe->state == SCRIBE_IDLE;
}

void scribe_start(struct scribe *scribe, struct client *client)
{
    scribe->client = client;
    if (!scribe->cluster->plan.must_make_room) /* open puts are in the way there, as they may be */
        wait(scribe, REST_NS_MAX);
}

void scribe_crash(struct scribe *scribe)
{
    world_alarm_cancel(&scribe->alarm);
    client_write_cancel(&scribe->write);
    client_writer_op_cancel(&scribe->op);
    if (scribe->writer != NULL)
        client_writer_close(scribe->writer);
    scribe->writer = NULL;
    scribe->under_way = false;
    scribe->client = NULL;
    scribe->state = SCRIBE_IDLE;
}

struct scribe *scribe_create(struct cluster *cluster, uint32_t index, const bool *paused)
{
    struct scribe *scribe = calloc(1, sizeof(*scribe));

    ASSERT(scribe != NULL);
    scribe->cluster = cluster;
    scribe->paused = paused;
    rng_init(&scribe->rng, rng_next(&cluster->rng) + index);
    scribe->alarm.on_event = on_alarm;
    scribe->bytes = malloc(cluster->plan.object_max + 64);
    ASSERT(scribe->bytes != NULL);
    return scribe;
}

void scribe_destroy(struct scribe *scribe)
{
    world_alarm_cancel(&scribe->alarm);
    free(scribe->bytes);
    free(scribe);
}
