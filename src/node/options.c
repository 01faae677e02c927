#include "node/options.h"

#define CONF_ROWS node_rows
#define CONF_STRUCT node_options
#define CONF_FILE "node/node_options.def"
#include "conf/expand_table.h"

const struct conf_table *node_options_table(void)
{
    static const struct conf_table table = {.module = "node",
                                            .options = node_rows,
                                            .count = sizeof(node_rows) / sizeof(node_rows[0])};

    return &table;
}

struct env_socket_options node_socket_options(const struct node_options *options)
{
    return (struct env_socket_options){
        .congestion = options->congestion[0] == 0 ? NULL : options->congestion,
        .send_buffer = (uint32_t)options->send_buffer_bytes,
        .receive_buffer = (uint32_t)options->receive_buffer_bytes,
        .user_timeout_ms = (uint32_t)(options->user_timeout_ns / NS_PER_MS),
        .keepalive = true};
}
