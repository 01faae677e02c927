#include "cli/replay_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct env_socket_options plain;

static bool lost(const struct replay_ranks *ranks)
{
    cli_error(ranks->cli, "another process of its client has ended");
    return false;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool send_all(struct replay_ranks *ranks, int stream, const void *from, size_t size)
{
    const uint8_t *at = from;

    while (size > 0) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
        ssize_t sent = env_raw_send(stream, &iov, 1);
        struct env_raw_want want = {.descriptor = stream, .send = true};

        if (sent < 0 || (sent == 0 && !env_raw_wait(&want, 1)))
            return lost(ranks);
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_all(struct replay_ranks *ranks, int stream, void *to, size_t size)
{
    uint8_t *at = to;

    while (size > 0) {
        struct iovec iov = {.iov_base = at, .iov_len = size};
        ssize_t got = env_raw_receive(stream, &iov, 1, true);

        if (got < 0)
            return lost(ranks);
        at += got;
        size -= (size_t)got;
    }
    return true;
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool meet(struct replay_ranks *ranks)
{
    char address[LIMIT_NAME_SIZE];

    if (env_raw_listen(address, sizeof(address), &ranks->listener) != SNOW_OK) {
        cli_error(ranks->cli, "can not listen on loopback");
        return false;
    }
    printf("{\"meet\": \"%s\"}\n", address);
    fflush(stdout);
    for (uint32_t i = 1; i < ranks->count; i++) {
        int stream = env_raw_accept(ranks->listener, &plain);
        uint32_t rank = 0;

        if (stream < 0 || !receive_all(ranks, stream, &rank, sizeof(rank)))
            return stream < 0 ? lost(ranks) : false;
        if (rank == 0 || rank >= ranks->count || ranks->streams[rank] >= 0) {
            env_raw_close(stream);
            return lost(ranks);
        }
        ranks->streams[rank] = stream;
    }
    return true;
}

bool replay_ranks_open(struct replay_ranks *ranks, const struct cli *cli, uint32_t rank,
                       uint32_t count, const char *address)
{
    *ranks = (struct replay_ranks){.cli = cli, .count = count, .rank = rank, .listener = -1};
    for (uint32_t i = 0; i < REPLAY_RANKS_MAX; i++)
        ranks->streams[i] = -1;
    if (rank == 0)
        return meet(ranks);
    ranks->streams[0] = env_raw_dial(address, &plain);
    if (ranks->streams[0] >= 0)
        return send_all(ranks, ranks->streams[0], &rank, sizeof(rank));
    cli_error(cli, "can not reach the first process of its client at %s", address);
    return false;
}

void replay_ranks_close(struct replay_ranks *ranks)
{
    for (uint32_t i = 0; i < REPLAY_RANKS_MAX && ranks->count > 0; i++) {
        if (ranks->streams[i] >= 0)
            env_raw_close(ranks->streams[i]);
    }
    if (ranks->count > 0 && ranks->listener >= 0)
        env_raw_close(ranks->listener);
    free(ranks->room);
}

/* ---- agreeing ------------------------------------------------------------------------------- */

static bool make_room(struct replay_ranks *ranks, size_t size)
{
    uint8_t *grown = ranks->room_size >= size ? ranks->room : realloc(ranks->room, size);

    if (grown == NULL) {
        cli_error(ranks->cli, "out of memory");
        return false;
    }
    ranks->room = grown;
    ranks->room_size = ranks->room_size >= size ? ranks->room_size : size;
    return true;
}

bool replay_ranks_sum(struct replay_ranks *ranks, const uint8_t *flags, uint32_t count,
                      uint8_t *sums)
{
    if (ranks->rank > 0)
        return send_all(ranks, ranks->streams[0], flags, count);
    if (!make_room(ranks, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        sums[i] = flags[i] != 0;
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!receive_all(ranks, ranks->streams[rank], ranks->room, count))
            return false;
        for (uint32_t i = 0; i < count; i++)
            sums[i] = (uint8_t)(sums[i] + (ranks->room[i] != 0));
    }
    return true;
}

bool replay_ranks_tell(struct replay_ranks *ranks, uint32_t *value)
{
    if (ranks->rank > 0)
        return receive_all(ranks, ranks->streams[0], value, sizeof(*value));
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!send_all(ranks, ranks->streams[rank], value, sizeof(*value)))
            return false;
    }
    return true;
}
