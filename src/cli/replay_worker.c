/* A client process of replay: does what an engine does for each request of its part of the trace.
 *
 * Look up the chain; read the longest cached prefix; put the rest, continuing that read.  Every
 * byte that is read is compared with what the key says it must be. */
#include "cli/replay_worker.h"

#include "trace/contents.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TELL_EVERY 64u

/* ---- one request ---- */

static struct snow_key key_at(const struct replay_player *player, uint32_t index)
{
    return (struct snow_key){.at = player->keys[index], .size = strlen(player->keys[index])};
}

/* What this process has of a block. */
static uint64_t content_of(const struct replay_player *player, uint64_t block)
{
    return block ^ (uint64_t)player->ranks.rank << 56;
}

void replay_look_up(struct replay_player *player, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        player->stats[i] = (struct snow_stat){.key = key_at(player, i)};
    snow_exists(player->client, player->stats, count, NULL);
}

static void note(struct replay_latencies *latencies, uint64_t ns)
{
    uint64_t us = ns / NS_PER_US;

    latencies->us[latencies->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

uint32_t replay_read(struct replay_player *player, const uint64_t *blocks, uint32_t count,
                     snow_read_id *read_id)
{
    struct snow_call call = {.read_id = read_id};
    uint64_t before_ns = env_now_ns(player->cli->env);
    uint32_t right = 0;
    bool whole = true;

    for (uint32_t i = 0; i < count; i++)
        player->gets[i] = (struct snow_get){.key = key_at(player, i),
                                            .to = player->bytes + i * player->block_size,
                                            .room = player->block_size};
    snow_get(player->client, player->gets, count, &call);
    if (read_id != NULL)
        note(&player->get, env_now_ns(player->cli->env) - before_ns);
    for (uint32_t i = 0; i < count; i++) {
        const struct snow_get *get = &player->gets[i];

        if (get->status == SNOW_OK) {
            uint64_t wrong =
                get->size == player->block_size
                    ? trace_block_differs(content_of(player, blocks[i]), get->to, get->size)
                    : player->block_size;

            player->counters.wrong_bytes += wrong;
            player->counters.get_bytes += get->size;
            player->found[i] = wrong == 0;
        } else {
            /* Evicted between look-up and read: a miss.  Anything else is a failure. */
            player->counters.failed_gets += get->status != SNOW_NOT_FOUND;
            player->found[i] = 0;
        }
        whole = whole && player->found[i];
        right += whole;
    }
    return right;
}

void replay_put(struct replay_player *player, const uint64_t *blocks, uint32_t from, uint32_t count,
                snow_read_id read_id)
{
    struct snow_call call = {.continues = read_id};
    uint64_t before_ns;

    for (uint32_t i = from; i < count; i++) {
        uint8_t *bytes = player->bytes + i * player->block_size;

        trace_block_fill(content_of(player, blocks[i]), bytes, player->block_size);
        player->puts[i] = (struct snow_put){
            .key = key_at(player, i), .from = bytes, .size = player->block_size, .depth = i};
        if (player->ranks.count > 1 && player->cli->replay.groups == REPLAY_GROUPS_ON)
            player->puts[i].member = &player->memberships[i];
    }
    before_ns = env_now_ns(player->cli->env);
    snow_put(player->client, player->puts + from, count - from, &call);
    note(&player->put, env_now_ns(player->cli->env) - before_ns);
    for (uint32_t i = from; i < count; i++) {
        enum snow_status status = player->puts[i].status;

        player->counters.put_bytes += status == SNOW_OK ? player->block_size : 0;
        if (snow_status_verdict(status) == SNOW_DONE)
            continue;
        if (player->counters.failed_puts++ == 0)
            cli_error(player->cli, "put of %s: %s", player->keys[i], snow_status_name(status));
    }
}

/* Whole blocks. */
static void play_whole(struct replay_player *player, const struct trace_request *request)
{
    const uint64_t *blocks = player->trace.blocks + request->first;
    snow_read_id read_id = 0;
    uint32_t hits = 0;

    for (uint32_t i = 0; i < request->count; i++)
        snprintf(player->keys[i], REPLAY_KEY_ROOM, "block-%016" PRIx64, blocks[i]);
    replay_look_up(player, request->count);
    while (hits < request->count && player->stats[hits].status == SNOW_OK)
        hits++;
    if (hits > 0)
        hits = replay_read(player, blocks, hits, &read_id);
    if (hits < request->count)
        replay_put(player, blocks, hits, request->count, read_id);
    player->counters.requests++;
    player->counters.blocks += request->count;
    player->counters.hit_blocks += hits;
}

/* ---- the part of the trace ---- */

static bool play(struct replay_player *player, const struct trace_request *request)
{
    player->played++;
    if (player->ranks.count > 1)
        return replay_members_play(player, request);
    play_whole(player, request);
    return true;
}

/* What the parent knows. */
struct told {
    uint64_t played; /* requests; those of the first process of a client count */
    uint64_t blocks;
    uint64_t hit_blocks;
    uint64_t gets; /* latencies */
    uint64_t puts;
};

static void wait_until_due(struct replay_player *player, const struct trace_request *request)
{
    uint64_t due_ns =
        player->started_ns + (uint64_t)((double)request->at_ms * player->pace * (double)NS_PER_MS);
    uint64_t now_ns;

    while (player->pace > 0 && (now_ns = env_now_ns(player->cli->env)) < due_ns)
        env_loop_turn(player->pacing, due_ns - now_ns, 0);
}

static int by_time(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

/* Of what was noted from `from` on; 0: nothing was. */
static uint32_t median_us(const struct replay_latencies *latencies, uint64_t from)
{
    uint32_t us[TELL_EVERY];
    uint64_t count = latencies->count - from;

    if (count == 0 || count > TELL_EVERY)
        return 0;
    memcpy(us, latencies->us + from, count * sizeof(us[0]));
    qsort(us, count, sizeof(us[0]), by_time);
    return us[count / 2];
}

/* What was done since the last time, for the bar and the plot. */
static void tell(const struct replay_player *player, struct told *told)
{
    printf("{\"done\": %" PRIu64 ", \"blocks\": %" PRIu64 ", \"hit_blocks\": %" PRIu64
           ", \"get_us\": %u, \"put_us\": %u}\n",
           player->counters.requests, player->counters.blocks - told->blocks,
           player->counters.hit_blocks - told->hit_blocks, median_us(&player->get, told->gets),
           median_us(&player->put, told->puts));
    fflush(stdout);
    *told = (struct told){.played = player->played,
                          .blocks = player->counters.blocks,
                          .hit_blocks = player->counters.hit_blocks,
                          .gets = player->get.count,
                          .puts = player->put.count};
}

static bool play_part(struct replay_player *player)
{
    uint64_t step = player->cli->replay.clients;
    uint64_t first = (player->cli->replay.worker - 1) / player->ranks.count;
    struct told told = {0};

    player->started_ns = env_now_ns(player->cli->env);
    for (uint64_t i = first; i < player->trace.request_count; i += step) {
        wait_until_due(player, &player->trace.requests[i]);
        if (!play(player, &player->trace.requests[i]))
            return false;
        if (player->played - told.played >= TELL_EVERY)
            tell(player, &told);
    }
    if (player->played > told.played)
        tell(player, &told);
    return true;
}

static json_t *json_of(const struct replay_latencies *latencies)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < latencies->count; i++)
        json_array_append_new(list, json_integer(latencies->us[i]));
    return list;
}

static void print_result(const struct replay_player *player)
{
    json_t *result = json_object();
    char *text;

#define ROW(name) \
    json_object_set_new(result, #name, json_integer((json_int_t)player->counters.name));
    REPLAY_COUNTERS(ROW)
#undef ROW
    json_object_set_new(result, "put_us", json_of(&player->put));
    json_object_set_new(result, "get_us", json_of(&player->get));
    text = json_dumps(result, JSON_COMPACT);
    if (text != NULL)
        puts(text);
    fflush(stdout);
    free(text);
    json_decref(result);
}

static bool make_room(struct replay_player *player)
{
    uint32_t longest = 0;

    for (uint64_t i = 0; i < player->trace.request_count; i++) {
        if (player->trace.requests[i].count > longest)
            longest = player->trace.requests[i].count;
    }
    player->keys = calloc(longest, sizeof(*player->keys));
    player->stats = calloc(longest, sizeof(*player->stats));
    player->gets = calloc(longest, sizeof(*player->gets));
    player->puts = calloc(longest, sizeof(*player->puts));
    player->bytes = calloc(longest, player->block_size);
    player->found = calloc(longest, 1);
    player->ids = calloc(longest, sizeof(*player->ids));
    player->chain = calloc(longest, sizeof(*player->chain));
    player->memberships = calloc(longest, sizeof(*player->memberships));
    player->sums = calloc(longest, 1);
    player->put.us = calloc(player->trace.request_count, sizeof(uint32_t));
    player->get.us = calloc(player->trace.request_count, sizeof(uint32_t));
    return player->keys != NULL && player->stats != NULL && player->gets != NULL &&
           player->puts != NULL && player->bytes != NULL && player->found != NULL &&
           player->ids != NULL && player->chain != NULL && player->memberships != NULL &&
           player->sums != NULL && player->put.us != NULL && player->get.us != NULL;
}

static void free_room(struct replay_player *player)
{
    free(player->keys);
    free(player->stats);
    free(player->gets);
    free(player->puts);
    free(player->bytes);
    free(player->found);
    free(player->ids);
    free(player->chain);
    free(player->memberships);
    free(player->sums);
    free(player->put.us);
    free(player->get.us);
    trace_free(&player->trace);
}

/* The processes of a client meet before anything can fail, so that no one waits for another. */
static bool open_ranks(struct replay_player *player)
{
    const struct replay_options *options = &player->cli->replay;
    uint32_t count = (uint32_t)options->members;

    if (count == 1) {
        player->ranks.count = 1;
        return true;
    }
    return replay_ranks_open(&player->ranks, player->cli, (uint32_t)(options->worker - 1) % count,
                             count, options->meet);
}

int replay_worker(struct cli *cli)
{
    struct replay_player player = {.cli = cli, .block_size = replay_member_bytes(cli)};
    int result = CLI_FAILED;

    if (strcmp(cli->replay.pace, "max") != 0)
        player.pace = strtod(cli->replay.pace, NULL);
    if (open_ranks(&player) && replay_trace_read(cli, &player.trace)) {
        if (!make_room(&player) || env_loop_create(cli->env, "pacing", &player.pacing) != SNOW_OK)
            cli_error(cli, "out of memory");
        else
            result = cli_client_open(cli, &player.client);
    }
    if (result == CLI_DONE) {
        if (play_part(&player))
            print_result(&player);
        else
            result = CLI_FAILED;
        snow_close(player.client);
    }
    if (player.pacing != NULL)
        env_loop_destroy(player.pacing);
    replay_ranks_close(&player.ranks);
    free_room(&player);
    return result;
}
