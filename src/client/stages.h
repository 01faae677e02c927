/* Stages: memory of the host in place of a device's, for ways that know no devices.
 *
 * Idea.     Items of an operation that name such memory get a range of one block of staging memory
 *           while it runs: filled before a write, taken from after a read.
 * Invariants.
 *   S1  Who gets an item back finds the memory that it named.
 * Threads.  The loop's. */
#ifndef CLIENT_STAGES_H
#define CLIENT_STAGES_H

#include "client/client.h"
#include "transport/transport.h"

/* Before the operation is posted.  *stage: NULL when no item needs one.  NO_MEMORY; INVALID: the
 * driver refuses. */
enum snow_status client_stage_begin(struct client *client, struct transport_op *op, void **stage);
/* An item has ended, its status is set: what was read goes to where it belongs, which may fail. */
void client_stage_item(struct client *client, const struct transport_op *op,
                       struct transport_item *item);
/* No item is under way any more. */
void client_stage_end(struct client *client, void **stage);

#endif
