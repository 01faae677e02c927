/* Options of a node, a row for each in node_options.def. */
#ifndef NODE_OPTIONS_H
#define NODE_OPTIONS_H

#include "base/options.h"
#include "conf/conf.h"
#include "env/env.h"

/* Of option populate. */
enum node_populate { NODE_POPULATE_ALL, NODE_POPULATE_AHEAD };

/* Of option shm_peers. */
enum node_shm { NODE_SHM_SAME_USER, NODE_SHM_READ, NODE_SHM_NONE };

struct node_options {
#define OPTION OPTION_FIELD
#include "node/node_options.def"
#undef OPTION
};

const struct conf_table *node_options_table(void);

/* Of the connections of its data service. */
struct env_socket_options node_socket_options(const struct node_options *options);

#endif
