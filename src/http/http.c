#include "http/http.h"

#include "base/limits.h"
#include "env/address.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

struct http {
    struct MHD_Daemon *daemon;
    const struct http_page *pages;
    uint32_t page_count;
    void *owner;
    uint16_t port;
};

struct http_request {
    struct MHD_Connection *connection;
    size_t size;
    bool too_large;
    uint8_t body[]; /* LIMIT_HTTP_ASKED of a POST, else none */
};

const char *http_argument(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct bytes http_body(const struct http_request *request)
{
    return bytes_of(request->body, request->size);
}

/* ---- answering ------------------------------------------------------------------------------ */

/* body: malloced, the reply's from now on. */
static enum MHD_Result send_reply(struct MHD_Connection *connection, uint32_t status,
                                  const char *type, char *body, size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (response == NULL) {
        free(body);
        return MHD_NO;
    }
    result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, uint32_t status,
                                 const char *text)
{
    char *body = strdup(text);

    return body == NULL ? MHD_NO : send_reply(connection, status, "text/plain", body, strlen(body));
}

static enum MHD_Result answer(const struct http *http, const struct http_page *page,
                              const struct http_request *request)
{
    struct MHD_Connection *connection = request->connection;
    struct http_reply reply = {.status = MHD_HTTP_OK, .type = "text/plain"};
    char *body = malloc(LIMIT_HTTP_BODY);

    if (body == NULL)
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    text_init(&reply.body, body, LIMIT_HTTP_BODY);
    page->answer(http->owner, request, &reply);
    return send_reply(connection, reply.status, reply.type, body, reply.body.used);
}

static enum MHD_Result begin(struct MHD_Connection *connection, const char *method, void **seen)
{
    size_t room = strcmp(method, MHD_HTTP_METHOD_POST) == 0 ? LIMIT_HTTP_ASKED : 0;
    struct http_request *request = malloc(sizeof(*request) + room);

    if (request == NULL)
        return MHD_NO;
    *request = (struct http_request){.connection = connection};
    *seen = request;
    return MHD_YES;
}

static void on_end(void *owner, struct MHD_Connection *connection, void **seen,
                   enum MHD_RequestTerminationCode code)
{
    (void)owner;
    (void)connection;
    (void)code;
    free(*seen);
    *seen = NULL;
}

/* A piece of a body; one of another method than POST is not looked at. */
static void take(struct http_request *request, const char *method, const char *data, size_t size)
{
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return;
    if (size > LIMIT_HTTP_ASKED - request->size) {
        request->too_large = true;
        return;
    }
    memcpy(request->body + request->size, data, size);
    request->size += size;
}

/* Called for the headers, for each piece of a body, and at the end. */
static enum MHD_Result on_request(void *owner, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **seen)
{
    const struct http *http = owner;
    struct http_request *request = *seen;
    bool path_known = false;

    (void)version;
    if (request == NULL)
        return begin(connection, method, seen);
    if (*data_size > 0) {
        take(request, method, data, *data_size);
        *data_size = 0;
        return MHD_YES;
    }
    if (request->too_large)
        return send_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n");
    if (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        method = MHD_HTTP_METHOD_GET;
    for (uint32_t i = 0; i < http->page_count; i++) {
        if (strcmp(http->pages[i].path, url) != 0)
            continue;
        if (strcmp(http->pages[i].method, method) == 0)
            return answer(http, &http->pages[i], request);
        path_known = true;
    }
    if (path_known)
        return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "not by this method\n");
    return send_text(connection, MHD_HTTP_NOT_FOUND, "no such page\n");
}

/* ---- opening -------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* False: the host is no address. */
static bool parse(const char *host, uint16_t port, union address *to)
{
    memset(to, 0, sizeof(*to));
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &to->v4.sin_addr) == 1) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &to->v6.sin6_addr) != 1)
        return false;
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons(port);
    return true;
}

static struct MHD_Daemon *start(struct http *http, const union address *address)
{
    unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;

    if (address->any.sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR,
                            &address->any, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned int)LIMIT_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned int)LIMIT_HTTP_IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, on_end,
                            NULL, MHD_OPTION_END);
}

enum snow_status http_open(const char *listen, const struct http_page *pages, uint32_t page_count,
                           void *owner, struct http **opened, const char **reason)
{
    char host[LIMIT_NAME_SIZE + 1];
    union address address;
    const union MHD_DaemonInfo *bound;
    uint16_t port;
    struct http *http;

    *reason = "the address of HTTP pages is an address of this host, a colon and a port";
    if (env_address_split(listen, true, host, sizeof(host), &port) != SNOW_OK ||
        !parse(host, port, &address))
        return SNOW_INVALID;
    *reason = "out of memory";
    http = calloc(1, sizeof(*http));
    if (http == NULL)
        return SNOW_NO_MEMORY;
    http->pages = pages;
    http->page_count = page_count;
    http->owner = owner;
    http->port = port;
    http->daemon = start(http, &address);
    if (http->daemon == NULL) {
        *reason = "can not listen at the address of HTTP pages";
        free(http);
        return SNOW_UNREACHABLE;
    }
    bound = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (bound != NULL && bound->port != 0)
        http->port = bound->port;
    *opened = http;
    return SNOW_OK;
}

void http_close(struct http *http)
{
    MHD_stop_daemon(http->daemon);
    free(http);
}

uint16_t http_port(const struct http *http)
{
    return http->port;
}
