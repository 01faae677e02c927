/* Ranks: members of a few groups, put in pieces by several clients, read whole.  Atomic ones are
 * replaced whole, holds are shared, left twice and late.
 *
 *   IDLE ─alarm─► putting some members │ reading all of them │ asking │ removing │ holding ─► IDLE
 * In a crowd each has one member of one group, and first puts that, again when its group gave way
 * to others, until the group was whole.
 * Checks.
 *   bytes    a member that is read has the bytes of an attempt of its key (history.h).
 *   groups   a read that is answered OK has every member, all of them younger than their group.  A
 *            version that was removed, and that answered OK, is never told of again.  Where nothing
 *            fails, no group that was whole loses a member but by a rank's remove, or while a node
 *            is silent (one that was drained and starts again); and a group that this rank holds
 *            is there until its hold ends.  Where every object has two copies, a group whose
 *            members were all stored so loses none of them while no more than one node falls
 *            silent.  In a crowd a put of a member waits for room or its group gives way; no group
 *            is given up because a member was late.
 * Threads.  One. */
#include "sim/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS CLUSTER_MEMBERS
#define DEADLINE_MS 6000u
#define HOLD_MS 2000u
#define CROWD_WAIT_MS 10000u
#define REST_NS_MAX (300 * NS_PER_MS)

_Static_assert(CLUSTER_GROUPS *MEMBERS == HISTORY_GROUP_KEYS, "each member is a key");

enum rank_state { RANK_IDLE, RANK_PUT, RANK_READ, RANK_STAT, RANK_REMOVE, RANK_HOLD };

struct rank {
    struct cluster *cluster;
    struct client *client; /* NULL: down */
    const bool *paused;    /* its process */
    struct rng rng;
    struct world_alarm alarm; /* the next operation */
    enum rank_state state;
    uint64_t began_ns;
    uint32_t group;
    uint32_t count;            /* of members in a put */
    uint32_t indexes[MEMBERS]; /* of these */
    uint64_t attempts[MEMBERS];
    struct sim_doubled before[MEMBERS]; /* what was known of a member when its put began */
    char id[24];
    char parent[24];
    char names[MEMBERS][24];
    uint8_t *bytes[MEMBERS];
    struct snow_member members[MEMBERS];
    struct snow_put puts[MEMBERS];
    struct snow_get gets[MEMBERS];
    struct snow_group_info info;
    uint64_t suspects; /* times a node was silent before it asked */
    bool away;         /* one was when it asked */
    struct snow_group_read read;
    struct snow_group_hold hold; /* what is asked for */
    uint64_t held;               /* the hold that has this rank's mark; 0: none */
    uint64_t left;               /* the one that it left last */
    uint64_t held_until_ns;
    uint32_t held_group;
    uint64_t removing; /* the highest ggen that was known before the removal began */
    bool replaces;     /* the put is of a version beside the one that is there */
    bool crowds;       /* its one member is still to be put, or its group to become whole */
    uint32_t number;   /* of its client */
    struct snow_item item;
    struct client_put_op put_op;
    struct client_group_get_op get_op;
    struct client_group_stat_op stat_op;
    struct client_keys_op remove_op;
    struct client_query_op hold_op;
};

static uint64_t now_of(const struct rank *rank)
{
    return world_now_ns(rank->cluster->world);
}

static void rest(struct rank *rank)
{
    uint64_t rest_ns = rng_below(&rank->rng, rank->cluster->stopping ? NS_PER_MS : REST_NS_MAX);

    if (rank->cluster->plan.duration_ns > 60 * NS_PER_S)
        rest_ns *= 8;
    rank->state = RANK_IDLE;
    world_alarm_arm(rank->cluster->world, &rank->alarm, now_of(rank) + rest_ns);
}

/* What a reply says of the group that this rank works on. */
static void note_version(struct rank *rank, uint64_t ggen)
{
    struct cluster *cluster = rank->cluster;

    if (ggen > cluster->group_seen[rank->group])
        cluster->group_seen[rank->group] = ggen;
    if (ggen != 0 && ggen <= cluster->group_gone[rank->group] &&
        rank->began_ns > cluster->group_gone_ns[rank->group])
        cluster_find(cluster, "groups: a version that was removed is there again");
}

static uint32_t key_of(const struct rank *rank, uint32_t index)
{
    return HISTORY_KEYS + rank->group * MEMBERS + index;
}

/* ---- two copies ----------------------------------------------------------------------------- */

static struct sim_doubled *doubled_of(const struct rank *rank, uint32_t index)
{
    return &rank->cluster->doubled[rank->group][index];
}

static void doubled_begin(struct rank *rank, uint32_t item)
{
    struct sim_doubled *doubled = doubled_of(rank, rank->indexes[item]);

    doubled->puts++;
    rank->before[item] = (struct sim_doubled){.known = doubled->known,
                                              .suspects = cluster_metric(rank->cluster, "suspects"),
                                              .puts = doubled->puts};
    doubled->known = false;
}

/* EXISTS: it is as it was, unless somebody else puts it too. */
static void doubled_end(struct rank *rank, uint32_t item)
{
    const struct snow_put *put = &rank->puts[item];
    const struct sim_doubled *before = &rank->before[item];
    struct sim_doubled *doubled = doubled_of(rank, rank->indexes[item]);

    if (doubled->puts != before->puts)
        return;
    if (put->status == SNOW_EXISTS) {
        doubled->known = before->known;
        return;
    }
    doubled->known = put->status == SNOW_OK && put->shortfall == 0;
    doubled->suspects = before->suspects;
}

/* Every member has two copies, and at most one node fell silent since.  Atomic groups are left out:
 * a put of theirs may be of a version that is not there yet. */
static bool survives_one_node(const struct rank *rank)
{
    uint64_t suspects = cluster_metric(rank->cluster, "suspects");

    if (rank->cluster->plan.copies != 2 || rank->group % 4 == 3)
        return false;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct sim_doubled *doubled = doubled_of(rank, i);

        if (!doubled->known || suspects > doubled->suspects + 1)
            return false;
    }
    return true;
}

/* ---- crowds --------------------------------------------------------------------------------- */

static void start_put(struct rank *rank);
static void start_stat(struct rank *rank);

/* Its member waits for room, or the group gave way to others and begins anew. */
static void judge_crowded_put(struct rank *rank, enum snow_status status)
{
    if (status == SNOW_BUSY || status == SNOW_GONE) {
        rest(rank);
        return;
    }
    if (snow_status_verdict(status) != SNOW_DONE)
        cluster_find(rank->cluster, "groups: a member finds no room in a crowd: %s, %s",
                     snow_status_name(status), rank->put_op.reason);
    rank->began_ns = now_of(rank);
    start_stat(rank);
}

/* Its group was waited for.  One that went meanwhile was whole before, or gave way. */
static void judge_crowded_stat(struct rank *rank)
{
    struct cluster *cluster = rank->cluster;

    if (rank->info.status == SNOW_OK && rank->info.state == SNOW_GROUP_COMPLETE)
        cluster->group_whole[rank->group] = true;
    if (cluster->group_whole[rank->group])
        rank->crowds = false;
    else if (cluster_metric(cluster, "groups_expired") > 0)
        cluster_find(cluster, "groups: one of a crowd was given up before it was whole");
}

/* Nothing else is put before: half a group would be in the way of those that are waited for. */
static bool crowd_is_over(const struct cluster *cluster)
{
    for (uint32_t i = 0; cluster->plan.crowd && i < CLUSTER_GROUPS; i++) {
        if (!cluster->group_whole[i])
            return false;
    }
    return true;
}

static void start_crowded(struct rank *rank)
{
    rank->group = rank->number % CLUSTER_GROUPS;
    rank->began_ns = now_of(rank);
    snprintf(rank->id, sizeof(rank->id), "group-%u", rank->group);
    start_put(rank);
}

/* ---- putting -------------------------------------------------------------------------------- */

static enum history_end end_of(enum snow_status status)
{
    switch (status) {
    case SNOW_OK:
        return HISTORY_STORED;
    case SNOW_UNCERTAIN:
        return HISTORY_STORED_UNCERTAIN;
    case SNOW_INVALID:
    case SNOW_LIMIT:
        return HISTORY_NOT_STORED;
    default:
        return HISTORY_UNKNOWN;
    }
}

static void on_put(struct client_put_op *op)
{
    struct rank *rank = list_entry(op, struct rank, put_op);
    struct cluster *cluster = rank->cluster;

    for (uint32_t i = 0; i < rank->count; i++) {
        enum snow_status status = rank->puts[i].status;
        /* Stored, but seen with the others only: it may be at any time. */
        enum history_end end =
            rank->replaces && status == SNOW_OK ? HISTORY_UNKNOWN : end_of(status);
        const char *wrong =
            history_put_end(cluster->history, rank->attempts[i], end, 0, now_of(rank));

        if (wrong != NULL)
            cluster_find(cluster, "%s", wrong);
        if ((status == SNOW_INVALID && !rank->replaces) || status == SNOW_GROUP_SIZE_MISMATCH ||
            status == SNOW_GROUP_INDEX_CONFLICT)
            cluster_find(cluster, "groups: a put of a member is refused: %s, %s",
                         snow_status_name(status), op->reason);
        world_note(cluster->world, &status, sizeof(status));
        doubled_end(rank, i);
    }
    if (rank->crowds)
        judge_crowded_put(rank, rank->puts[0].status);
    else
        rest(rank);
}

/* Some members, in any order; each group has one size and one set of flags.  Groups are chains of
 * four. */
static void start_put(struct rank *rank)
{
    struct cluster *cluster = rank->cluster;
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    uint32_t first =
        rank->crowds ? rank->number / CLUSTER_GROUPS : (uint32_t)rng_below(&rank->rng, MEMBERS);

    bool atomic = rank->group % 4 == 3;

    rank->state = RANK_PUT;
    rank->replaces = !rank->crowds && atomic && rng_chance(&rank->rng, 1, 2);
    rank->count = rank->replaces ? MEMBERS : (uint32_t)rng_between(&rank->rng, 1, MEMBERS);
    if (rank->crowds) {
        rank->count = 1;
        call = (struct snow_call){.wait_ms = CROWD_WAIT_MS,
                                  .deadline_ms = CROWD_WAIT_MS + DEADLINE_MS};
    }
    if (rank->group % 4 > 0)
        snprintf(rank->parent, sizeof(rank->parent), "group-%u", rank->group - 1);
    for (uint32_t i = 0; i < rank->count; i++) {
        uint32_t index = (first + i) % MEMBERS;
        uint64_t size = rank->crowds ? cluster->plan.object_max
                                     : rng_between(&rank->rng, 1, cluster->plan.object_max / 2 + 1);

        snprintf(rank->names[i], sizeof(rank->names[i]), "rank-%u.%u", rank->group, index);
        rank->attempts[i] =
            history_put_begin(cluster->history, key_of(rank, index), size, false, now_of(rank));
        history_fill(rank->attempts[i], rank->bytes[i], size);
        rank->indexes[i] = index;
        doubled_begin(rank, i);
        rank->members[i] = (struct snow_member){.group = {.at = rank->id, .size = strlen(rank->id)},
                                                .size = MEMBERS,
                                                .index = index,
                                                .flags = atomic ? SNOW_GROUP_ATOMIC : 0};
        if (rank->group % 4 > 0)
            rank->members[i].parent =
                (struct snow_key){.at = rank->parent, .size = strlen(rank->parent)};
        rank->puts[i] =
            (struct snow_put){.key = {.at = rank->names[i], .size = strlen(rank->names[i])},
                              .from = rank->bytes[i],
                              .size = size,
                              .depth = rank->group,
                              .replace = rank->replaces,
                              .replicas =
                                  (uint8_t)(cluster->plan.copies > 0 ? cluster->plan.copies : 1),
                              .member = &rank->members[i]};
    }
    rank->put_op =
        (struct client_put_op){.on_done = on_put, .items = rank->puts, .count = rank->count};
    client_put_start(rank->client, &rank->put_op, &call);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Nothing fails in this plan, and this rank's hold still stands. */
static bool is_held(const struct rank *rank)
{
    return rank->cluster->plan.must_make_room && rank->held != 0 &&
           rank->held_group == rank->group && now_of(rank) < rank->held_until_ns &&
           rank->cluster->group_removed_ns[rank->group] + HOLD_MS * NS_PER_MS < rank->began_ns;
}

static void on_read(struct client_group_get_op *op)
{
    struct rank *rank = list_entry(op, struct rank, get_op);
    struct cluster *cluster = rank->cluster;
    enum snow_status status = rank->read.status;

    world_note(cluster->world, &status, sizeof(status));
    if ((status == SNOW_NOT_FOUND || status == SNOW_GONE) && is_held(rank))
        cluster_find(cluster, "groups: what this rank holds is gone: %s", snow_status_name(status));
    note_version(rank, rank->read.ggen);
    if (status == SNOW_GROUP_BROKEN && survives_one_node(rank))
        cluster_find(cluster, "groups: one node fell silent, and a member with two copies is lost");
    if (status == SNOW_OK && op->oldest_gen <= rank->read.ggen)
        cluster_find(cluster, "groups: a member is older than its group");
    for (uint32_t i = 0; i < MEMBERS && status == SNOW_OK; i++) {
        const char *wrong;

        if (rank->gets[i].status != SNOW_OK)
            cluster_find(cluster, "groups: a group is read whole without member %u: %s", i,
                         snow_status_name(rank->gets[i].status));
        wrong = history_got(cluster->history, key_of(rank, i), rank->began_ns, rank->gets[i].to,
                            rank->gets[i].size);
        if (wrong != NULL)
            cluster_find(cluster, "%s", wrong);
    }
    rest(rank);
}

static void start_read(struct rank *rank)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    bool under_hold = rank->held != 0 && rank->held_group == rank->group;

    rank->state = RANK_READ;
    rank->read = (struct snow_group_read){.id = {.at = rank->id, .size = strlen(rank->id)},
                                          .hold = under_hold ? rank->held : 0};
    for (uint32_t i = 0; i < MEMBERS; i++)
        rank->gets[i] =
            (struct snow_get){.to = rank->bytes[i], .room = (size_t)rank->cluster->plan.object_max};
    rank->get_op = (struct client_group_get_op){
        .on_done = on_read, .group = &rank->read, .items = rank->gets, .count = MEMBERS};
    client_group_get_start(rank->client, &rank->get_op, &call);
}

/* ---- asking --------------------------------------------------------------------------------- */

static void on_stat(struct client_group_stat_op *op)
{
    struct rank *rank = list_entry(op, struct rank, stat_op);
    struct cluster *cluster = rank->cluster;
    const struct snow_group_info *info = &rank->info;

    world_note(cluster->world, &info->status, sizeof(info->status));
    if (info->status == SNOW_OK) {
        world_note(cluster->world, &info->state, sizeof(info->state));
        note_version(rank, info->ggen);
        if (info->state != SNOW_GROUP_RECOVERING &&
            (info->state == SNOW_GROUP_COMPLETE) != (info->present == MEMBERS))
            cluster_find(cluster, "groups: it is %s with %u members of %u",
                         snow_group_state_name(info->state), info->present, MEMBERS);
        if (info->state == SNOW_GROUP_DEGRADED && cluster->plan.must_make_room && !rank->away &&
            cluster_metric(cluster, "suspects") == rank->suspects)
            cluster_find(cluster, "groups: a member was lost, its group was not");
        if (info->state == SNOW_GROUP_DEGRADED && survives_one_node(rank))
            cluster_find(cluster,
                         "groups: one node fell silent, and a group with two copies of all is not "
                         "whole");
        if (((info->flags & SNOW_GROUP_ATOMIC) != 0) != (rank->group % 4 == 3))
            cluster_find(cluster, "groups: a group has not the flags that it was put with");
    }
    if (rank->crowds)
        judge_crowded_stat(rank);
    rest(rank);
}

static void start_stat(struct rank *rank)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS,
                             .wait_ms = (uint32_t)rng_below(&rank->rng, 2) * 500};

    if (rank->crowds)
        call = (struct snow_call){.wait_ms = CROWD_WAIT_MS,
                                  .deadline_ms = CROWD_WAIT_MS + DEADLINE_MS};
    rank->state = RANK_STAT;
    rank->away = cluster_metric(rank->cluster, "nodes_suspect") > 0;
    rank->suspects = cluster_metric(rank->cluster, "suspects");
    rank->info = (struct snow_group_info){.id = {.at = rank->id, .size = strlen(rank->id)}};
    rank->stat_op =
        (struct client_group_stat_op){.on_done = on_stat, .items = &rank->info, .count = 1};
    client_group_stat_start(rank->client, &rank->stat_op, &call);
}

/* ---- removing ------------------------------------------------------------------------------- */

static void on_removed(struct client_keys_op *op)
{
    struct rank *rank = list_entry(op, struct rank, remove_op);

    /* A member that was stored without its group stays: nothing is ruled out. */
    world_note(rank->cluster->world, &rank->item.status, sizeof(rank->item.status));
    rank->cluster->group_removed_ns[rank->group] = now_of(rank);
    if (rank->item.status == SNOW_OK && rank->removing > rank->cluster->group_gone[rank->group]) {
        rank->cluster->group_gone[rank->group] = rank->removing;
        rank->cluster->group_gone_ns[rank->group] = now_of(rank);
    }
    rest(rank);
}

static void start_remove(struct rank *rank)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    rank->state = RANK_REMOVE;
    rank->removing = rank->cluster->group_seen[rank->group];
    rank->cluster->group_removed_ns[rank->group] = now_of(rank) + DEADLINE_MS * NS_PER_MS;
    rank->item = (struct snow_item){.key = {.at = rank->id, .size = strlen(rank->id)}};
    rank->remove_op =
        (struct client_keys_op){.on_done = on_removed, .items = &rank->item, .count = 1};
    client_group_remove_start(rank->client, &rank->remove_op, &call);
}

/* ---- holding -------------------------------------------------------------------------------- */

static void on_held(struct client_query_op *op)
{
    struct rank *rank = list_entry(op, struct rank, hold_op);
    uint64_t *shared = &rank->cluster->group_holds[rank->group];
    enum snow_status status = op->status;

    world_note(rank->cluster->world, &status, sizeof(status));
    if (status != SNOW_OK && *shared == rank->hold.hold)
        *shared = 0;
    if (status == SNOW_OK && rank->hold.for_ms > 0) {
        note_version(rank, rank->hold.ggen);
        *shared = rank->hold.hold; /* others may join it */
        rank->held = rank->hold.hold;
        rank->held_group = rank->group;
        rank->held_until_ns = rank->began_ns + HOLD_MS * NS_PER_MS;
    }
    client_query_end(op);
    rest(rank);
}

/* The group of a hold that another rank told of, if there is one. */
static void choose_shared(struct rank *rank)
{
    uint32_t first = rank->group;

    for (uint32_t i = 0; i < CLUSTER_GROUPS; i++) {
        uint32_t group = (first + i) % CLUSTER_GROUPS;

        if (rank->cluster->group_holds[group] == 0)
            continue;
        rank->group = group;
        snprintf(rank->id, sizeof(rank->id), "group-%u", group);
        return;
    }
}

/* A new one, or another rank's; the one that it has is left, or the one that it left is once
 * more. */
static void start_hold(struct rank *rank)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS};
    bool again = rank->left != 0 && rng_chance(&rank->rng, 1, 4);

    rank->state = RANK_HOLD;
    rank->hold = (struct snow_group_hold){.for_ms = HOLD_MS};
    if (again || rank->held != 0) {
        rank->hold.hold = again ? rank->left : rank->held;
        rank->hold.for_ms = 0;
        rank->left = rank->hold.hold;
        if (!again || rank->held == rank->left)
            rank->held = 0;
    } else if (rng_chance(&rank->rng, 3, 4)) {
        choose_shared(rank);
        rank->hold.hold = rank->cluster->group_holds[rank->group];
    }
    rank->hold.id = (struct snow_key){.at = rank->id, .size = strlen(rank->id)};
    rank->hold_op = (struct client_query_op){.on_done = on_held, .hold = &rank->hold};
    client_group_hold_start(rank->client, &rank->hold_op, &call);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void on_alarm(struct world_alarm *alarm)
{
    struct rank *rank = list_entry(alarm, struct rank, alarm);
    uint64_t draw = rng_below(&rank->rng, 100);

    if (rank->client == NULL || rank->state != RANK_IDLE || rank->cluster->stopping)
        return;
    if (*rank->paused || (!rank->crowds && !crowd_is_over(rank->cluster))) {
        rest(rank);
        return;
    }
    if (rank->crowds) {
        /* Before all nodes are there the pool holds less than it should. */
        if (cluster_metric(rank->cluster, "nodes_alive") == rank->cluster->plan.nodes)
            start_crowded(rank);
        else
            rest(rank);
        return;
    }
    rank->group = (uint32_t)rng_below(&rank->rng, CLUSTER_GROUPS);
    rank->began_ns = now_of(rank);
    bool holds = rank->held != 0 && rng_chance(&rank->rng, 2, 3);

    if (holds)
        rank->group = rank->held_group;
    snprintf(rank->id, sizeof(rank->id), "group-%u", rank->group);
    if (draw < (holds ? 10 : 50))
        start_put(rank);
    else if (draw < 75)
        start_read(rank);
    else if (draw < 85)
        start_stat(rank);
    else if (draw < 97)
        start_hold(rank);
    else
        start_remove(rank);
}

bool ranks_is_idle(const struct rank *rank)
{
    return rank->state == RANK_IDLE;
}

void ranks_start(struct rank *rank, struct client *client)
{
    rank->client = client;
    rank->held = 0;
    rank->left = 0;
    rest(rank);
}

void ranks_crash(struct rank *rank)
{
    world_alarm_cancel(&rank->alarm);
    if (rank->state == RANK_PUT)
        client_put_cancel(&rank->put_op);
    else if (rank->state == RANK_READ)
        client_group_get_cancel(&rank->get_op);
    else if (rank->state == RANK_STAT)
        client_group_stat_cancel(&rank->stat_op);
    else if (rank->state == RANK_REMOVE)
        client_keys_cancel(&rank->remove_op);
    else if (rank->state == RANK_HOLD)
        client_query_cancel(&rank->hold_op);
    rank->client = NULL;
    rank->state = RANK_IDLE;
}

struct rank *ranks_create(struct cluster *cluster, uint32_t index, const bool *paused)
{
    struct rank *rank = calloc(1, sizeof(*rank));

    ASSERT(rank != NULL);
    rank->cluster = cluster;
    rank->paused = paused;
    rank->number = index;
    rank->crowds = cluster->plan.crowd;
    rng_init(&rank->rng, rng_next(&cluster->rng) + index);
    rank->alarm.on_event = on_alarm;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        rank->bytes[i] = malloc(cluster->plan.object_max + 64);
        ASSERT(rank->bytes[i] != NULL);
    }
    return rank;
}

void ranks_destroy(struct rank *rank)
{
    world_alarm_cancel(&rank->alarm);
    for (uint32_t i = 0; i < MEMBERS; i++)
        free(rank->bytes[i]);
    free(rank);
}
