/* Playing a request as N processes do that have a member each of every block.
 *
 * Problem.  A block of which some members are there and some are not is worth nothing, and to find
 *           that out takes every process.
 * Idea.     With groups the first process asks once, for whole blocks; without, each asks for its
 *           own members, and they agree.  Then each reads its own, they agree again on what all
 *           have read, and each puts the rest.
 *           A partial block is one that a look-up answers so: some members are there, not all.
 *           With groups a look-up can not say that; so what it says is tested by reading, and a
 *           block is partial when it is still said to be whole long after a member of it could
 *           not be read.
 * Threads.  The main thread of each process. */
#include "cli/replay_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONFIRM_TRIES 20u
#define CONFIRM_NS (500 * NS_PER_MS) /* between two of them */

static bool is_first(const struct replay_player *player)
{
    return player->ranks.rank == 0;
}

static bool is_grouped(const struct replay_player *player)
{
    return player->cli->replay.groups == REPLAY_GROUPS_ON;
}

static void name_blocks(struct replay_player *player, const uint64_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        snprintf(player->ids[i], REPLAY_KEY_ROOM, "block-%016" PRIx64, blocks[i]);
        snprintf(player->keys[i], REPLAY_KEY_ROOM, "%s/%u", player->ids[i], player->ranks.rank);
        player->chain[i] = (struct snow_key){.at = player->ids[i], .size = strlen(player->ids[i])};
        player->memberships[i] =
            (struct snow_member){.group = player->chain[i],
                                 .size = player->ranks.count,
                                 .index = player->ranks.rank,
                                 .parent = i == 0 ? (struct snow_key){0} : player->chain[i - 1]};
    }
}

/* ---- looking up ----------------------------------------------------------------------------- */

static uint32_t match(struct replay_player *player, uint32_t count)
{
    struct snow_chain chain = {.blocks = player->chain, .count = count, .groups = 1};
    struct snow_call call = {.flags = SNOW_CALL_LEASE};
    enum snow_status status = snow_match_prefix(player->client, &chain, &call);

    return status == SNOW_OK ? (uint32_t)chain.matched : 0;
}

/* Leading blocks whose members are all there. */
static bool look_up(struct replay_player *player, uint32_t count, uint32_t *hits)
{
    struct replay_ranks *ranks = &player->ranks;

    *hits = 0;
    if (is_grouped(player)) {
        if (is_first(player))
            *hits = match(player, count);
        return replay_ranks_tell(ranks, hits);
    }
    replay_look_up(player, count);
    for (uint32_t i = 0; i < count; i++)
        player->found[i] = player->stats[i].status == SNOW_OK;
    if (!replay_ranks_sum(ranks, player->found, count, player->sums))
        return false;
    if (is_first(player)) {
        while (*hits < count && player->sums[*hits] == ranks->count)
            ++*hits;
        for (uint32_t i = 0; i < count; i++)
            player->counters.partial_blocks +=
                player->sums[i] > 0 && player->sums[i] < ranks->count;
    }
    return replay_ranks_tell(ranks, hits);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void sleep_for(struct replay_player *player, uint64_t ns)
{
    struct env *env = player->cli->env;
    uint64_t until_ns = env_now_ns(env) + ns;

    for (uint64_t now_ns = env_now_ns(env); now_ns < until_ns; now_ns = env_now_ns(env))
        env_loop_turn(player->pacing, until_ns - now_ns, 0);
}

/* Of the first `count` blocks, said to be whole, some processes could not read a member.  They ask
 * and read again, until the block is not said to be whole any more, or everybody reads it; *count:
 * how many blocks that is.  The cluster takes seconds to learn that a node is dead. */
static bool confirm(struct replay_player *player, const uint64_t *blocks, uint32_t *count)
{
    struct replay_ranks *ranks = &player->ranks;
    uint32_t whole = *count;
    uint32_t done = 0;

    for (uint32_t try = 0; !done; try++) {
        uint32_t first = 0;

        if (is_first(player)) {
            if (try > 0)
                sleep_for(player, CONFIRM_NS);
            whole = match(player, *count);
        }
        if (!replay_ranks_tell(ranks, &whole))
            return false;
        (void)replay_read(player, blocks, whole, NULL);
        if (!replay_ranks_sum(ranks, player->found, whole, player->sums))
            return false;
        while (is_first(player) && first < whole && player->sums[first] == ranks->count)
            first++;
        done = first == whole || player->sums[first] == 0 || try == CONFIRM_TRIES;
        if (is_first(player) && try == CONFIRM_TRIES && first < whole)
            player->counters.partial_blocks++;
        whole = is_first(player) ? first : whole;
        if (!replay_ranks_tell(ranks, &done))
            return false;
    }
    *count = whole;
    return replay_ranks_tell(ranks, count);
}

/* What all have read of the first *hits. */
static bool read_members(struct replay_player *player, const uint64_t *blocks, uint32_t *hits,
                         snow_read_id *read_id)
{
    struct replay_ranks *ranks = &player->ranks;
    uint32_t all = 0;
    uint32_t again = 0;

    (void)replay_read(player, blocks, *hits, read_id);
    if (!replay_ranks_sum(ranks, player->found, *hits, player->sums))
        return false;
    if (is_first(player)) {
        while (all < *hits && player->sums[all] == ranks->count)
            all++;
        again = is_grouped(player) && all < *hits && player->sums[all] > 0;
    }
    if (!replay_ranks_tell(ranks, &again))
        return false;
    if (again)
        return confirm(player, blocks, hits);
    *hits = all;
    return replay_ranks_tell(ranks, hits);
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool replay_members_play(struct replay_player *player, const struct trace_request *request)
{
    const uint64_t *blocks = player->trace.blocks + request->first;
    const uint8_t done = 1;
    uint8_t all;
    snow_read_id read_id = 0;
    uint32_t hits;

    name_blocks(player, blocks, request->count);
    if (!look_up(player, request->count, &hits))
        return false;
    if (hits > 0 && !read_members(player, blocks, &hits, &read_id))
        return false;
    if (hits < request->count)
        replay_put(player, blocks, hits, request->count, read_id);
    if (is_first(player)) {
        player->counters.requests++;
        player->counters.blocks += request->count;
        player->counters.hit_blocks += hits;
    }
    return replay_ranks_sum(&player->ranks, &done, 1, &all); /* no one goes ahead of the others */
}
