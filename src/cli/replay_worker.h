/* What one client process of replay has: replay_worker.c plays whole blocks with it,
 * replay_members.c the members of them. */
#ifndef CLI_REPLAY_WORKER_H
#define CLI_REPLAY_WORKER_H

#include "cli/replay.h"
#include "cli/replay_ranks.h"
#include "snowskin/groups.h"

#define REPLAY_KEY_ROOM 32u

struct replay_latencies {
    uint32_t *us;
    uint64_t count;
};

struct replay_player {
    struct cli *cli;
    struct snow_client *client;
    struct trace trace;
    size_t block_size; /* bytes of what this process puts of a block */
    struct replay_counters counters;
    uint64_t played; /* requests */
    struct replay_latencies put;
    struct replay_latencies get;
    struct env_loop *pacing; /* sleeps until a request is due */
    double pace;             /* factor on time stamps; 0: as fast as possible */
    uint64_t started_ns;
    /* Of one request, sized for the longest. */
    char (*keys)[REPLAY_KEY_ROOM];
    struct snow_stat *stats;
    struct snow_get *gets;
    struct snow_put *puts;
    uint8_t *bytes;
    uint8_t *found; /* of each block: 1: it was read and is right; or it is there */
    /* With members. */
    struct replay_ranks ranks;       /* of one client; count 1: blocks are whole */
    char (*ids)[REPLAY_KEY_ROOM];    /* of the groups */
    struct snow_key *chain;          /* these */
    struct snow_member *memberships; /* of this process's members */
    uint8_t *sums;                   /* members that were found */
};

/* Keys of the first `count` blocks that `stats` is about. */
void replay_look_up(struct replay_player *player, uint32_t count);
/* Reads the first `count` and compares every byte; how many from the first on were read and are
 * right.  Sets `found` of each. */
uint32_t replay_read(struct replay_player *player, const uint64_t *blocks, uint32_t count,
                     snow_read_id *read_id);
/* Puts those from `from` to `count`, continuing that read. */
void replay_put(struct replay_player *player, const uint64_t *blocks, uint32_t from, uint32_t count,
                snow_read_id read_id);

/* ---- replay_members.c ---- */

/* Plays a request in step with the other processes of the client.  False: told why not. */
bool replay_members_play(struct replay_player *player, const struct trace_request *request);

#endif
