/* Drains that are asked for over HTTP.
 *
 * Idea.     A job is a number and the tasks that empty the nodes of some segments; what they do is
 *           the core's (core/drain.c), which also chooses where objects go.
 * Bounds.   The newest LIMIT_DRAIN_JOBS are remembered; one that is forgotten goes on.
 * Threads.  The loop of the master. */
#ifndef MASTER_PAGE_DRAINS_H
#define MASTER_PAGE_DRAINS_H

#include "base/bytes.h"
#include "http/http.h"
#include "master/master.h"

struct page_drains;

/* NULL: no memory. */
struct page_drains *page_drains_create(struct master *master);
void page_drains_destroy(struct page_drains *drains);

/* {"segments": [name, ...]}: begins a job. */
void page_drains_begin(struct page_drains *drains, struct bytes body, struct http_reply *reply);
/* How a job is; after it was ended, if cancel says so.  id: NULL is no job's. */
void page_drains_tell(struct page_drains *drains, const char *id, bool cancel,
                      struct http_reply *reply);
/* How a segment is; drains may be NULL. */
void page_drains_segment(struct page_drains *drains, struct master *master, const char *name,
                         struct http_reply *reply);
/* The word for an enum wire_node_state. */
const char *page_drains_state(uint8_t node_state);

#endif
