/* Ranks: the processes of one client of replay, which go through the trace in step.
 *
 * Idea.     The first is the one that decides: the others tell it what they found, it tells them
 *           how to go on, over plain sockets of loopback.  Engines do the same with their
 *           collectives.
 * Threads.  The caller's. */
#ifndef CLI_REPLAY_RANKS_H
#define CLI_REPLAY_RANKS_H

#include "cli/cli.h"

#define REPLAY_RANKS_MAX 64u

struct replay_ranks {
    const struct cli *cli;
    uint32_t count;
    uint32_t rank;                 /* of this process; 0: the one that decides */
    int listener;                  /* of that one; -1: none */
    int streams[REPLAY_RANKS_MAX]; /* of it: to each other one, from 1 on; else [0]: to it */
    uint8_t *room;                 /* for what one rank says */
    size_t room_size;
};

/* The first: prints {"meet": address}, for the parent to tell the others, and waits for them.  The
 * others: go to that address.  False: told why not. */
bool replay_ranks_open(struct replay_ranks *ranks, const struct cli *cli, uint32_t rank,
                       uint32_t count, const char *address);
void replay_ranks_close(struct replay_ranks *ranks);

/* At the first, sums[i]: how many ranks say that flags[i] is not 0.  At the others it is left as it
 * is.  False: another process has ended; told. */
bool replay_ranks_sum(struct replay_ranks *ranks, const uint8_t *flags, uint32_t count,
                      uint8_t *sums);
/* What the first says, at all. */
bool replay_ranks_tell(struct replay_ranks *ranks, uint32_t *value);

#endif
