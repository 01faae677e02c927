/* What net.c, dial.c, listen.c and address.c share. */
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

enum conn_state {
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
    char congestion[16];
    struct address addresses[ADDRESSES_MAX];
    uint32_t address_count;
    uint32_t address_next;
    struct resolve *resolve;
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

/* ---- dial.c ---- */

/* Its source is ready while it dials or has failed to. */
void dial_on_ready(struct env_conn *conn, uint32_t events);
/* Its name is of no interest any more. */
void dial_forget(struct env_conn *conn);
/* The loop ends: look-ups that are under way will not tell it. */
void dial_forget_all(struct env_loop *loop);

#endif
