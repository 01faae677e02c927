/* The other side of a limit program: a process that answers as it was told, and does nothing else.
 *
 * Payload comes from and goes to random places of a region as large as a segment's objects, so that
 * it is as far from the caches as that of a node. */
#include "cli/bench_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAT_SIZE (256 * KIB) /* requests received at once, as rpc's */
#define AHEAD 4u              /* direct requests whose places are laid out */
#define PLACE_ALIGN (4 * KIB)

struct peer_conn {
    struct bench_stream stream;
    struct bench_script script;
    uint8_t *flat; /* requests that have not been answered, or the headers of direct ones */
    size_t used;
    uint64_t arrived; /* bytes of the direct request that comes now */
    uint32_t next;    /* direct: exchange that comes now */
    uint32_t laid;    /* direct: exchanges ahead of it that have their places */
};

struct peer {
    struct cli *cli;
    struct env_memory region;
    struct env_socket_options socket;
    struct rng rng;
    int listener;
    uint8_t *head; /* zeroes: headers of answers */
    struct peer_conn *conns[ENV_RAW_WANTS_MAX];
    uint32_t conn_count;
};

static const uint8_t *place(struct peer *peer, uint64_t size)
{
    uint64_t places = (peer->region.size - size) / PLACE_ALIGN;

    return peer->region.at + (places == 0 ? 0 : rng_below(&peer->rng, places) * PLACE_ALIGN);
}

/* ---- answering ------------------------------------------------------------------------------ */

static bool answer(struct peer *peer, struct peer_conn *conn, const struct bench_exchange *exchange)
{
    struct bench_queue *out = &conn->stream.out;

    if (exchange->answer_size == 0)
        return true;
    if (!bench_stream_push(out, peer->head, exchange->answer_size))
        return false;
    for (uint32_t i = 0; i < exchange->answer_pieces; i++) {
        if (!bench_stream_push(out, place(peer, exchange->piece_size), exchange->piece_size))
            return false;
    }
    return true;
}

static bool receive_flat(struct peer *peer, struct peer_conn *conn, bool wait)
{
    struct iovec iov = {.iov_base = conn->flat + conn->used, .iov_len = FLAT_SIZE - conn->used};
    ssize_t got = env_raw_receive(conn->stream.descriptor, &iov, 1, wait);
    size_t at = 0;

    if (got < 0)
        return false;
    conn->used += (size_t)got;
    while (conn->used - at >= sizeof(uint32_t)) {
        const struct bench_exchange *exchange;
        uint32_t which;

        memcpy(&which, conn->flat + at, sizeof(which));
        if (which >= conn->script.exchange_count)
            return false;
        exchange = &conn->script.exchanges[which];
        if (conn->used - at < exchange->ask_size)
            break;
        if (!answer(peer, conn, exchange))
            return false;
        at += exchange->ask_size;
    }
    conn->used -= at;
    memmove(conn->flat, conn->flat + at, conn->used);
    return true;
}

static bool lay_out(struct peer *peer, struct peer_conn *conn)
{
    while (conn->laid < AHEAD) {
        const struct bench_script *script = &conn->script;
        const struct bench_exchange *exchange =
            &script->exchanges[(conn->next + conn->laid) % script->exchange_count];

        if (!bench_stream_push(&conn->stream.in, conn->flat, exchange->ask_size))
            return false;
        for (uint32_t i = 0; i < exchange->ask_pieces; i++) {
            if (!bench_stream_push(&conn->stream.in, place(peer, exchange->piece_size),
                                   exchange->piece_size))
                return false;
        }
        conn->laid++;
    }
    return true;
}

static bool receive_direct(struct peer *peer, struct peer_conn *conn, bool wait)
{
    ssize_t got;

    if (!lay_out(peer, conn))
        return false;
    got = bench_stream_receive(&conn->stream, wait);
    if (got < 0)
        return false;
    conn->arrived += (uint64_t)got;
    for (;;) {
        const struct bench_exchange *exchange = &conn->script.exchanges[conn->next];

        if (conn->arrived < bench_ask_bytes(exchange))
            return true;
        if (!answer(peer, conn, exchange))
            return false;
        conn->arrived -= bench_ask_bytes(exchange);
        conn->next = (conn->next + 1) % conn->script.exchange_count;
        conn->laid--;
    }
}

/* ---- serving -------------------------------------------------------------------------------- */

static bool serve(struct peer *peer, struct peer_conn *conn, bool can_receive, bool can_send,
                  bool wait)
{
    if (can_receive && !(conn->script.is_direct ? receive_direct(peer, conn, wait)
                                                : receive_flat(peer, conn, wait)))
        return false;
    if (can_send)
        conn->stream.blocked = false;
    while (conn->stream.out.count > 0 && !conn->stream.blocked) {
        if (bench_stream_send(&conn->stream) < 0)
            return false;
    }
    return true;
}

static void close_conn(struct peer *peer, uint32_t index)
{
    struct peer_conn *conn = peer->conns[index];

    bench_stream_close(&conn->stream);
    free(conn->flat);
    free(conn);
    peer->conns[index] = peer->conns[--peer->conn_count];
}

static void serve_all(struct peer *peer)
{
    struct env_raw_want wants[ENV_RAW_WANTS_MAX];
    bool alone = peer->conn_count == 1;

    /* One connection and nothing to send: the cheapest wait is the receive itself. */
    while (alone && peer->conn_count > 0) {
        bool sends = peer->conns[0]->stream.blocked;

        if (sends)
            break;
        if (!serve(peer, peer->conns[0], true, false, true))
            close_conn(peer, 0);
    }
    if (peer->conn_count == 0)
        return;
    for (uint32_t i = 0; i < peer->conn_count; i++)
        wants[i] = (struct env_raw_want){.descriptor = peer->conns[i]->stream.descriptor,
                                         .receive = true,
                                         .send = peer->conns[i]->stream.blocked};
    if (!env_raw_wait(wants, peer->conn_count))
        return;
    for (uint32_t i = peer->conn_count; i-- > 0;) {
        if ((wants[i].receive || wants[i].send) &&
            !serve(peer, peer->conns[i], wants[i].receive, wants[i].send, false))
            close_conn(peer, i);
    }
}

/* ---- accepting ------------------------------------------------------------------------------ */

static bool read_script(struct peer_conn *conn)
{
    size_t used = 0;

    while (used < sizeof(conn->script)) {
        struct iovec iov = {.iov_base = (uint8_t *)&conn->script + used,
                            .iov_len = sizeof(conn->script) - used};
        ssize_t got = env_raw_receive(conn->stream.descriptor, &iov, 1, true);

        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    return conn->script.magic == BENCH_SCRIPT_MAGIC && conn->script.exchange_count > 0 &&
           conn->script.exchange_count <= BENCH_EXCHANGES_MAX;
}

static bool fits(const struct peer *peer, const struct bench_script *script)
{
    for (uint32_t i = 0; i < script->exchange_count; i++) {
        const struct bench_exchange *exchange = &script->exchanges[i];

        if (exchange->ask_size < sizeof(uint32_t) || exchange->ask_size > FLAT_SIZE ||
            exchange->answer_size > LIMIT_BODY_SIZE || exchange->piece_size > peer->region.size)
            return false;
    }
    return true;
}

/* Takes one connection in; how many its script says there are, 0: none. */
static uint32_t accept_one(struct peer *peer)
{
    struct peer_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return 0;
    conn->flat = malloc(FLAT_SIZE);
    conn->stream.descriptor = env_raw_accept(peer->listener, &peer->socket);
    if (conn->flat != NULL && conn->stream.descriptor >= 0 && read_script(conn) &&
        fits(peer, &conn->script)) {
        peer->conns[peer->conn_count++] = conn;
        return conn->script.connections;
    }
    bench_stream_close(&conn->stream);
    free(conn->flat);
    free(conn);
    return 0;
}

int bench_peer(struct cli *cli)
{
    struct peer peer = {.cli = cli, .head = calloc(1, LIMIT_BODY_SIZE)};
    struct client_options options;
    char address[LIMIT_NAME_SIZE];
    uint64_t size = cli->bench.peer_bytes;
    size_t done;

    rng_init(&peer.rng, 1);
    if (peer.head == NULL ||
        env_memory_open(cli->env, NULL, "bench-peer", size, &peer.region) != SNOW_OK ||
        env_memory_populate(cli->env, &peer.region, 0, size, &done) != SNOW_OK) {
        cli_error(cli, "no memory for a region of %llu bytes", (unsigned long long)size);
        return CLI_FAILED;
    }
    memset(peer.region.at, 1, size);
    bench_client_options(cli, &options);
    peer.socket = options.socket;
    if (env_raw_listen(address, sizeof(address), &peer.listener) != SNOW_OK) {
        cli_error(cli, "can not listen on loopback");
        return CLI_FAILED;
    }
    printf("peer %s\n", address);
    fflush(stdout);
    for (;;) {
        uint32_t expected = accept_one(&peer);

        while (peer.conn_count > 0 && peer.conn_count < expected &&
               peer.conn_count < ENV_RAW_WANTS_MAX && accept_one(&peer) > 0)
            ;
        while (peer.conn_count > 0)
            serve_all(&peer);
    }
}
