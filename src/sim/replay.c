#include "sim/replay.h"

#include "base/hash.h"
#include "sim/cluster.h"
#include "trace/contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM 32u
#define DEADLINE_MS 60000u
#define GRANULE 256u /* what an extent is rounded up to */
#define SEGMENT_STEP (2 * MIB)
#define RESERVE_BLOCKS 256u
#define MOUNT_NS (30 * NS_PER_S)
#define CALLS_OF_REQUEST 3u

struct player {
    const struct replay_plan *plan;
    struct cluster *cluster;
    struct env *env;
    struct env_loop *loop;
    struct client *client;
    struct world_alarm due; /* the next request */
    struct replay_result *result;
    uint64_t next; /* index of that request */
    uint64_t began_ns;
    bool done;
    /* Of the request under way. */
    const struct trace_request *request;
    uint32_t hits;
    snow_read_id read_id;
    char (*keys)[KEY_ROOM];
    uint8_t *bytes;
    struct snow_stat *stats;
    struct snow_get *gets;
    struct snow_put *puts;
    struct client_exists_op exists_op;
    struct client_get_op get_op;
    struct client_put_op put_op;
};

/* ---- one request ---- */

static struct snow_key key_at(const struct player *player, uint32_t index)
{
    return (struct snow_key){.at = player->keys[index], .size = strlen(player->keys[index])};
}

static uint64_t block_at(const struct player *player, uint32_t index)
{
    return player->plan->trace->blocks[player->request->first + index];
}

static void next_request(struct player *player)
{
    const struct trace *trace = player->plan->trace;
    uint64_t now_ns = world_now_ns(player->cluster->world);
    uint64_t due_ns;

    if (player->next == trace->request_count) {
        player->done = true;
        return;
    }
    due_ns = player->began_ns + (uint64_t)((double)trace->requests[player->next].at_ms *
                                           player->plan->pace * (double)NS_PER_MS);
    world_alarm_arm(player->cluster->world, &player->due, due_ns > now_ns ? due_ns : now_ns);
}

static void end_request(struct player *player)
{
    player->result->requests++;
    player->result->blocks += player->request->count;
    player->result->hit_blocks += player->hits;
    next_request(player);
}

static void on_put(struct client_put_op *op)
{
    struct player *player = list_entry(op, struct player, put_op);

    for (uint32_t i = player->hits; i < player->request->count; i++) {
        enum snow_status status = player->puts[i].status;

        if (snow_status_verdict(status) != SNOW_DONE)
            cluster_find(player->cluster, "heal: put of %s: %s, %s", player->keys[i],
                         snow_status_name(status), op->reason);
    }
    end_request(player);
}

static void put_rest(struct player *player)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS, .continues = player->read_id};
    uint32_t size = player->plan->block_bytes;

    if (player->hits == player->request->count) {
        end_request(player);
        return;
    }
    for (uint32_t i = player->hits; i < player->request->count; i++) {
        uint8_t *bytes = player->bytes + (size_t)i * size;

        trace_block_fill(block_at(player, i), bytes, size);
        player->puts[i] =
            (struct snow_put){.key = key_at(player, i), .from = bytes, .size = size, .depth = i};
    }
    memset(&player->put_op, 0, sizeof(player->put_op));
    player->put_op.on_done = on_put;
    player->put_op.items = player->puts + player->hits;
    player->put_op.count = player->request->count - player->hits;
    client_put_start(player->client, &player->put_op, &call);
}

static void on_get(struct client_get_op *op)
{
    struct player *player = list_entry(op, struct player, get_op);
    uint32_t asked = player->hits;

    player->hits = 0;
    for (uint32_t i = 0; i < asked; i++) {
        const struct snow_get *get = &player->gets[i];

        if (get->status != SNOW_OK) {
            if (get->status != SNOW_NOT_FOUND)
                cluster_find(player->cluster, "heal: get of %s: %s", player->keys[i],
                             snow_status_name(get->status));
            break;
        }
        if (get->size != player->plan->block_bytes ||
            trace_block_differs(block_at(player, i), get->to, get->size) != 0)
            cluster_find(player->cluster, "bytes: %s is not what was put", player->keys[i]);
        player->hits++;
    }
    put_rest(player);
}

static void read_prefix(struct player *player)
{
    struct snow_call call = {.deadline_ms = DEADLINE_MS, .read_id = &player->read_id};
    uint32_t size = player->plan->block_bytes;

    for (uint32_t i = 0; i < player->hits; i++)
        player->gets[i] = (struct snow_get){.key = key_at(player, i),
                                            .to = player->bytes + (size_t)i * size,
                                            .room = size};
    memset(&player->get_op, 0, sizeof(player->get_op));
    player->get_op.on_done = on_get;
    player->get_op.items = player->gets;
    player->get_op.count = player->hits;
    client_get_start(player->client, &player->get_op, &call);
}

static void on_exists(struct client_exists_op *op)
{
    struct player *player = list_entry(op, struct player, exists_op);

    while (player->hits < player->request->count && player->stats[player->hits].status == SNOW_OK)
        player->hits++;
    if (player->hits > 0)
        read_prefix(player);
    else
        put_rest(player);
}

static void on_due(struct world_alarm *alarm)
{
    struct player *player = list_entry(alarm, struct player, due);
    struct snow_call call = {.deadline_ms = DEADLINE_MS};

    player->request = &player->plan->trace->requests[player->next++];
    player->hits = 0;
    player->read_id = 0;
    for (uint32_t i = 0; i < player->request->count; i++) {
        snprintf(player->keys[i], KEY_ROOM, "block-%016" PRIx64, block_at(player, i));
        player->stats[i] = (struct snow_stat){.key = key_at(player, i)};
    }
    memset(&player->exists_op, 0, sizeof(player->exists_op));
    player->exists_op.on_done = on_exists;
    player->exists_op.items = player->stats;
    player->exists_op.count = player->request->count;
    client_exists_start(player->client, &player->exists_op, &call);
}

/* ---- the player ---- */

static void take_room(struct player *player)
{
    uint32_t longest = 0;

    for (uint64_t i = 0; i < player->plan->trace->request_count; i++) {
        if (player->plan->trace->requests[i].count > longest)
            longest = player->plan->trace->requests[i].count;
    }
    player->keys = calloc(longest, sizeof(*player->keys));
    player->stats = calloc(longest, sizeof(*player->stats));
    player->gets = calloc(longest, sizeof(*player->gets));
    player->puts = calloc(longest, sizeof(*player->puts));
    player->bytes = calloc(longest, player->plan->block_bytes);
    ASSERT(player->keys != NULL && player->stats != NULL && player->gets != NULL &&
           player->puts != NULL && player->bytes != NULL);
}

static void free_room(struct player *player)
{
    free(player->keys);
    free(player->stats);
    free(player->gets);
    free(player->puts);
    free(player->bytes);
}

static void start_client(struct player *player)
{
    struct world_host *host = world_host_create(player->cluster->world, "client-0");
    struct client_options options;
    const char *reason;

    player->env = world_process_start(host, "client-0");
    ASSERT(player->env != NULL);
    client_options_init(&options);
    options.master = master_address(player->cluster->master.master);
    enum snow_status status = env_loop_create(player->env, "client", &player->loop);

    ASSERT(status == SNOW_OK);
    status = client_create(player->loop, &options, &player->client, &reason);
    ASSERT(status == SNOW_OK);
    status = env_loop_start(player->loop);
    ASSERT(status == SNOW_OK);
}

static void stop_client(struct player *player)
{
    world_alarm_cancel(&player->due);
    world_process_crash(player->env);
    client_exists_cancel(&player->exists_op);
    client_get_cancel(&player->get_op);
    client_put_cancel(&player->put_op);
    client_destroy(player->client);
    env_loop_destroy(player->loop);
    world_process_end(player->env);
}

static void on_evicted(void *owner, struct bytes key)
{
    struct replay_result *result = owner;

    result->evicted++;
    result->evicted_hash = hash_seeded(key, result->evicted_hash);
}

/* ---- the whole ---- */

static bool is_mounted(void *owner)
{
    struct cluster *cluster = owner;

    return cluster->finding[0] != 0 ||
           (cluster->nodes[0].node != NULL && node_is_mounted(cluster->nodes[0].node) &&
            !node_is_growing(cluster->nodes[0].node));
}

static bool is_over(void *owner)
{
    const struct player *player = owner;

    return player->done || player->cluster->finding[0] != 0;
}

/* The reserve is fixed and comes on top, with what rounding adds: the pool holds exactly what was
 * asked for, at any speed. */
static struct cluster *open_cluster(const struct replay_plan *plan)
{
    uint64_t room = (plan->block_bytes + GRANULE - 1) / GRANULE * GRANULE;
    uint64_t bytes = (plan->pool_blocks + RESERVE_BLOCKS) * room;
    struct cluster_plan cluster = {.nodes = 1,
                                   .slot_bytes = room < 4 * KIB ? room : 4 * KIB,
                                   .populate = NODE_POPULATE_ALL,
                                   .populate_step = SEGMENT_STEP,
                                   .net = world_net_calm(),
                                   .core = core_options_default()};

    cluster.node_bytes = (bytes + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
    cluster.core.policy = plan->policy;
    cluster.core.reserve_bytes = cluster.node_bytes - plan->pool_blocks * room;
    return cluster_create(plan->seed, &cluster);
}

static void play(struct player *player)
{
    struct world *world = player->cluster->world;
    const struct trace *trace = player->plan->trace;
    double last_ms = (double)trace->requests[trace->request_count - 1].at_ms * player->plan->pace;
    uint64_t bound_ns = (uint64_t)last_ms * NS_PER_MS +
                        trace->request_count * CALLS_OF_REQUEST * DEADLINE_MS * NS_PER_MS;

    if (!world_run(world, is_mounted, player->cluster, MOUNT_NS))
        cluster_find(player->cluster, "heal: the node does not mount");
    core_watch_evicted(master_core(player->cluster->master.master), on_evicted, player->result);
    player->began_ns = world_now_ns(world);
    next_request(player);
    if (!world_run(world, is_over, player, player->began_ns + bound_ns))
        cluster_find(player->cluster, "heal: a request does not end");
    cluster_check(player->cluster);
    player->result->took_ns = world_now_ns(world) - player->began_ns;
    player->result->events = world_event_count(world);
}

struct replay_result replay_run(const struct replay_plan *plan,
                                void (*on_line)(void *owner, const char *line), void *owner)
{
    struct replay_result result = {0};
    struct player player = {.plan = plan, .result = &result, .due.on_event = on_due};

    player.cluster = open_cluster(plan);
    take_room(&player);
    start_client(&player);
    play(&player);
    memcpy(result.finding, player.cluster->finding, sizeof(result.finding));
    if (result.finding[0] != 0 && on_line != NULL)
        world_transcript(player.cluster->world, on_line, owner);
    stop_client(&player);
    cluster_destroy(player.cluster);
    free_room(&player);
    return result;
}
