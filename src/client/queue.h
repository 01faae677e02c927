/* What wait.c needs of queue.c.  Private to client/, over env/linux alone. */
#ifndef CLIENT_QUEUE_H
#define CLIENT_QUEUE_H

#include "base/list.h"
#include "snowskin/snowskin.h"

/* The queue of a link in snow_client.beacons. */
struct snow_queue *queue_of(struct list_link *link);

#endif
