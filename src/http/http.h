/* HTTP: pages that a server shows, by a table.
 *
 * Problem.  People and programs ask with a browser, curl or Prometheus how a server is.
 * Idea.     libmicrohttpd on a thread of its own; a page is a row of a table: method, path, and a
 *           function that makes the answer.  What it needs of other threads it asks them for.
 * Bounds.   Connections, their idle time, the sizes of a request's body and of an answer:
 *           base/limits.h.
 * Threads.  One of its own calls the pages, one at a time; the functions below: the opener's. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/bytes.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

struct http;
struct http_request;

struct http_reply {
    uint32_t status;  /* of HTTP; 200 when the page is called */
    const char *type; /* static; "text/plain" when the page is called */
    struct text body;
};

struct http_page {
    const char *method; /* "GET", "POST" */
    const char *path;
    void (*answer)(void *owner, const struct http_request *request, struct http_reply *reply);
};

/* An argument of the query, decoded; NULL: not given.  Lives as long as the request. */
const char *http_argument(const struct http_request *request, const char *name);

/* The body of a POST; as long as the request. */
struct bytes http_body(const struct http_request *request);

/* listen: "host:port", the host an address.  INVALID, UNREACHABLE (taken), NO_MEMORY; *reason
 * (static) says what is wrong.  pages are kept. */
MUST_CHECK enum snow_status http_open(const char *listen, const struct http_page *pages,
                                      uint32_t page_count, void *owner, struct http **http,
                                      const char **reason);
/* Waits for the page that is being made. */
void http_close(struct http *http);

/* The port it listens at. */
uint16_t http_port(const struct http *http);

#endif
