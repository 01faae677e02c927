#include "client/host.h"

#include "client/inside.h"
#include "conf/conf.h"
#include "node/node.h"
#include "obs/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MIN MIB
#define LEAVE_TURN_NS NS_PER_MS

struct host {
    struct node *node;
    struct node_options options; /* its texts are these */
    struct obs_log log;
    char master[LIMIT_NAME_SIZE + 1];
    char name[LIMIT_NAME_SIZE + 1];
    char domain[LIMIT_NAME_SIZE + 1];
    char listen[LIMIT_NAME_SIZE + 1];
    char token[LIMIT_NAME_SIZE + 1];
    char congestion[ENV_CONGESTION_SIZE];
};

static bool fits(const char *text)
{
    return text == NULL || strlen(text) <= LIMIT_NAME_SIZE;
}

enum snow_status host_check(const struct snow_segment *segment, const char **reason)
{
    if (segment == NULL)
        return SNOW_OK;
    if (CLIENT_RESERVED(segment) != SNOW_OK || segment->spare != 0)
        *reason = "segment.reserved: set by a program that is newer than this library";
    else if (segment->size < SIZE_MIN || segment->size > LIMIT_SEGMENT_SIZE)
        *reason = "segment.size: a segment has 1 MiB to 1 TiB";
    else if (!fits(segment->name) || !fits(segment->domain) || !fits(segment->listen))
        *reason = "segment: name, domain and listen have at most 256 bytes";
    else if (segment->populate > SNOW_POPULATE_ALL)
        *reason = "segment.populate is none of ahead, all";
    else
        return SNOW_OK;
    return SNOW_INVALID;
}

/* What goes wrong beside all calls (the host has no more memory) has nobody else to tell. */
static void on_line(void *owner, const char *line)
{
    env_log_line(owner, line);
}

static uint64_t wall_ms(void *owner)
{
    return env_wall_ms(owner);
}

/* `to` as it is when there is nothing to set; the size was checked. */
static void set_text(const char **to, char *copy, size_t size, const char *text)
{
    if (text == NULL)
        return;
    snprintf(copy, size, "%s", text);
    *to = copy;
}

static void fill_options(struct host *host, const struct snow_options *from)
{
    const struct snow_segment *segment = from->segment;
    struct node_options *to = &host->options;

    conf_defaults(node_options_table(), to);
    to->memory_bytes = segment->size;
    to->populate = segment->populate == SNOW_POPULATE_ALL ? NODE_POPULATE_ALL : NODE_POPULATE_AHEAD;
    set_text(&to->master, host->master, sizeof(host->master), from->master);
    set_text(&to->name, host->name, sizeof(host->name), segment->name);
    set_text(&to->domain, host->domain, sizeof(host->domain), segment->domain);
    set_text(&to->listen, host->listen, sizeof(host->listen), segment->listen);
    set_text(&to->congestion, host->congestion, sizeof(host->congestion), from->congestion);
    to->send_buffer_bytes = from->send_buffer;
    to->receive_buffer_bytes = from->receive_buffer;
    if (from->user_timeout_ms != 0)
        to->user_timeout_ns = from->user_timeout_ms * NS_PER_MS;
    snprintf(host->token, sizeof(host->token), "%s", from->token == NULL ? "" : from->token);
}

enum snow_status host_open(struct env *env, const struct snow_options *options,
                           struct host **opened, const char **reason)
{
    struct host *host = calloc(1, sizeof(*host));
    enum snow_status status;

    *reason = "out of memory";
    if (host == NULL)
        return SNOW_NO_MEMORY;
    obs_log_init(&host->log, OBS_WARNING, on_line, wall_ms, env);
    fill_options(host, options);
    status = node_open(env, &host->options, bytes_of_string(host->token), &host->log, &host->node,
                       reason);
    if (status != SNOW_OK) {
        free(host);
        return status;
    }
    *opened = host;
    return SNOW_OK;
}

bool host_is_mounted(const struct host *host)
{
    return node_is_mounted(host->node);
}

uint64_t host_incarnation(const struct host *host)
{
    return node_incarnation(host->node);
}

void host_close(struct host *host, struct env_loop *loop)
{
    node_leave(host->node);
    while (!node_has_left(host->node))
        env_loop_turn(loop, LEAVE_TURN_NS, 0);
    node_close(host->node);
    free(host);
}

void host_tell(const struct host *host, struct snow_hosted *hosted)
{
    *hosted = (struct snow_hosted){.size = node_size(host->node),
                                   .ready = node_ready(host->node),
                                   .incarnation = node_incarnation(host->node),
                                   .address = node_address(host->node),
                                   .mounted = node_is_mounted(host->node)};
}
