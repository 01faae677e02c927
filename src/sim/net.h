/* The simulated network: what its files share.
 *
 *         side 0                                      side 1
 *   conn ─ send ─► flight (pieces, each with its time) ─ deliver ─► received ─ receive ─ conn
 *                  in_use: bytes sent and not read by the other side; at most capacity
 *
 * A side without a socket (`gone`) answers bytes with a reset.  A silent stream (the hosts are cut,
 * or one is down) delivers nothing: pieces wait, and each side dies by its time-outs.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "env/address.h"
#include "sim/env_body.h"

#define NET_PEER_SIZE 320

/* Bytes that travel together.  size 0: the end of the stream. */
struct net_piece {
    struct list_link link; /* in side->flight, then in the other side's received */
    uint64_t at_ns;        /* when it arrives */
    size_t size;
    size_t taken; /* bytes that the reader has */
    uint8_t bytes[];
};

struct net_stream;

struct net_side {
    struct net_stream *stream;
    struct world_host *host;
    struct env_conn *conn; /* NULL: closed, or its process is dead */
    bool gone;             /* no socket */
    /* Sending. */
    struct list flight;
    size_t in_use;
    size_t capacity;
    uint64_t last_ns;         /* when the last piece arrives */
    struct sim_event deliver; /* the first piece arrives */
    size_t window_pending;    /* bytes read by the other side, not known here yet */
    struct sim_event window;
    /* Receiving. */
    struct list received;
    bool finished; /* the end of the stream is the last of them */
    /* Failing. */
    bool broken; /* reset, or timed out */
    struct sim_event reset;
    struct sim_event death; /* its time-out, while the stream is silent */
    bool keepalive;
    uint64_t user_timeout_ns; /* 0: the system's */
};

struct net_stream {
    struct list_link link; /* in world->streams */
    struct world *world;
    uint64_t id;
    bool silent;
    struct net_side sides[2];
};

enum net_conn_state { NET_DIALLING, NET_OPEN, NET_FAILED };

struct env_conn {
    struct list_link link; /* in loop->conns */
    struct env_loop *loop;
    uint64_t id;
    enum net_conn_state state;
    struct net_side *side; /* NULL: not connected, or its process is dead */
    const struct env_conn_ops *ops;
    void *owner;
    bool readable_told;
    bool writable_owed;
    bool telling; /* a callback runs: its memory stays until that returns */
    bool freed;   /* closed meanwhile */
    /* What is to be told. */
    bool tell_open;
    bool tell_readable;
    bool tell_writable;
    struct sim_event tell;
    /* Of a dial. */
    struct sim_event dial;
    uint32_t dial_tries;
    char dial_local[ENV_LOCAL_NAME_MAX + 1]; /* of a listener of its own host; "": by port */
    struct world_host *dial_host;            /* NULL: nobody has that name */
    uint16_t dial_port;
    struct env_socket_options options;
    /* Of an accepted one. */
    struct env_listener *listener; /* on whose queue it waits */
    struct list_link accept_link;
    bool local;              /* within the host: memory can be handed over */
    struct list handed_over; /* struct sim_handed: memory that waits to be taken */
    char peer[NET_PEER_SIZE];
};

struct env_listener {
    struct list_link link;      /* in host->listeners; not linked: its process is dead */
    struct list_link loop_link; /* in loop->listeners */
    struct env_loop *loop;
    uint16_t port; /* 0: of this host, by name */
    char local[ENV_LOCAL_NAME_MAX + 1];
    struct env_socket_options options;
    void (*on_accept)(void *owner, struct env_conn *conn);
    void *owner;
    bool accepting;      /* on_accept may run: its memory stays until that is over */
    bool freed;          /* closed meanwhile */
    struct list waiting; /* struct env_conn, by accept_link */
    struct sim_event accept;
    char address[NET_PEER_SIZE];
};

/* ---- net.c ---- */

struct env_conn *net_conn_create(struct env_loop *loop, enum net_conn_state state);
void net_conn_free(struct env_conn *conn);
/* Something is to be told, at_ns or later. */
void net_tell(struct env_conn *conn, uint64_t at_ns);
/* NULL: out of memory. */
struct net_stream *net_stream_create(struct world *world, struct world_host *from,
                                     struct world_host *to);
void net_side_attach(struct net_side *side, struct env_conn *conn,
                     const struct env_socket_options *options);
struct net_side *net_other(struct net_side *side);
/* Memory that was handed over and not taken. */
void env_memory_drop_handed(struct env_conn *conn);
/* One way between the hosts of a stream, drawn anew. */
uint64_t net_latency(struct world *world, const struct world_host *a, const struct world_host *b);
void net_drop_flight(struct net_side *side);
/* Makes the first piece's event come. */
void net_await_delivery(struct net_side *side);
/* Frees the stream when nothing is left of it. */
void net_stream_release(struct net_stream *stream);

/* ---- net_fault.c ---- */

/* Nothing passes between them. */
bool net_is_silent(const struct world_host *a, const struct world_host *b);
/* The side's socket is gone and its owner learns. */
void net_break(struct net_side *side);
/* A reset is on its way to this side. */
void net_send_reset(struct net_side *to, uint64_t at_ns);
/* The side, on a silent stream, has something that is not acknowledged. */
void net_await_death(struct net_side *side);
void net_on_reset(struct sim_event *event);
void net_on_death(struct sim_event *event);

#endif
