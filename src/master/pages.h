/* The master's HTTP pages: metrics, health, nodes, where keys are, drains. */
#ifndef MASTER_PAGES_H
#define MASTER_PAGES_H

#include "master/master.h"

struct master_pages;

/* listen: "host:port".  drains: who asks may have nodes drained; else pages only tell.  Statuses
 * and *reason as http_open. */
MUST_CHECK enum snow_status master_pages_open(struct master *master, const char *listen,
                                              bool drains, struct master_pages **pages,
                                              const char **reason);
/* Before the master. */
void master_pages_close(struct master_pages *pages);

uint16_t master_pages_port(const struct master_pages *pages);

#endif
