/* What net.c, dial.c, listen.c, local.c and address.c share. */
#ifndef ENV_LINUX_NET_H
#define ENV_LINUX_NET_H

#include "env/address.h"
#include "env/linux/body.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_SIZE 320
#define ADDRESSES_MAX 8 /* addresses of one name that a dial tries, one after the other */

struct address {
    struct sockaddr_storage socket;
    socklen_t size;
};

struct resolve;
struct local;

enum conn_state {
    CONN_GREETING,  /* accepted on this host; its rings have not come yet: local.c */
    CONN_RESOLVING, /* its name is being looked up: dial.c */
    CONN_DIALLING,  /* connect is under way: dial.c */
    CONN_FAILED,    /* the dial failed; on_open is about to tell, or has */
    CONN_OPEN,      /* bytes flow: net.c */
    CONN_CLOSING    /* closed by its owner; what it sent is still on its way: net.c */
};

struct env_conn {
    struct source source;
    enum conn_state state;
    struct list_link link; /* in loop->conns */
    const struct env_conn_ops *ops;
    void *owner;             /* ops NULL: accepted and not owned yet */
    bool readable_told;      /* on_readable came, and no receive said ENV_AGAIN since */
    bool writable_owed;      /* a send took less than given */
    bool drained;            /* the last receive took all that was there */
    bool hangup;             /* an event told that the peer has closed */
    bool telling;            /* a callback runs: its memory stays until that returns */
    bool freed;              /* closed meanwhile */
    bool ended;              /* the peer closed, or the connection broke */
    struct env_timer linger; /* CLOSING: when to stop waiting */
    /* Of a dial. */
    struct env_socket_options options;
    char congestion[ENV_CONGESTION_SIZE];
    struct address addresses[ADDRESSES_MAX];
    uint32_t address_count;
    uint32_t address_next;
    struct resolve *resolve;
    /* Of one to a process of this host. */
    struct local *local;
    struct env_listener *greeting_for; /* GREETING */
    struct list_link greeting_link;    /* in the listener's greeting */
    char peer[ADDRESS_TEXT_SIZE];
};

/* ---- address.c ---- */

/* True when host is the text of an address: no look-up is needed. */
bool address_parse(const char *host, uint16_t port, struct address *address);
/* Looks a name up; blocks.  Returns how many of addresses were filled. */
uint32_t address_look_up(const char *host, uint16_t port, struct address *addresses,
                         uint32_t count_max);
/* Loopback, private or link-local. */
bool address_is_near(const struct address *address);
void address_print(const struct address *address, char *to, size_t size);

/* ---- net.c ---- */

/* A connection without a descriptor.  NULL: out of memory. */
struct env_conn *net_conn_create(struct env_loop *loop, enum conn_state state);
/* Sets the options of a socket that talks or will talk to `to`;
 * what the kernel refuses is left as it is. */
void net_socket_configure(int descriptor, const struct env_socket_options *options,
                          const struct address *to);
void net_conn_free(struct env_conn *conn);

/* Events that local.c makes: look at the ring, do not ask the socket. */
#define NET_LOOK EPOLLPRI

/* Tells the owner what these EPOLL* bits mean for it. */
void net_tell_owner(struct env_conn *conn, uint32_t events);

/* ---- local.c ---- */

/* Connects to a process of this host; the outcome is told as of any dial. */
void local_dial(struct env_conn *conn, const char *name);
/* Its socket was just accepted; when its rings have come the listener is told. */
void local_greet(struct env_conn *conn, struct env_listener *listener);
void local_on_greeting(struct env_conn *conn);
void local_on_ready(struct env_conn *conn, uint32_t events);
ssize_t local_receive(struct env_conn *conn, const struct iovec *iov, int iov_count);
ssize_t local_send(struct env_conn *conn, const struct iovec *iov, int iov_count);
void local_free(struct env_conn *conn);
/* A socket that listens under a name; *address is what to dial.  -1: errno says why. */
int local_listen(struct env_loop *loop, const char *name, char *address, size_t size);

/* ---- listen.c ---- */

/* An accepted connection is whole. */
void listen_accepted(struct env_listener *listener, struct env_conn *conn);
struct list *listen_greeting(struct env_listener *listener);

/* ---- memory.c ---- */

/* Maps a descriptor that came from another process, and takes it over; trusted as
 * env_memory_take. */
MUST_CHECK enum snow_status memory_map(int descriptor, bool writable, bool trusted,
                                       struct env_memory *memory);

/* ---- dial.c ---- */

/* Its source is ready while it dials or has failed to. */
void dial_on_ready(struct env_conn *conn, uint32_t events);
/* Its name is of no interest any more. */
void dial_forget(struct env_conn *conn);
/* The loop ends: look-ups that are under way will not tell it. */
void dial_forget_all(struct env_loop *loop);

#endif
