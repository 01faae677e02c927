/* Waiting for what runs on a piece of memory.
 *
 * Idea.     All operations under way stand in one list, oldest first; one that waits stands there
 *           too, and looks at those before it each time one has ended.
 * Threads.  The loop's.
 */
#include "client/inside.h"

static bool is_quiet(const struct client_quiet_op *quiet)
{
    list_each (&quiet->base.client->ops, link, next) {
        const struct client_op *op = list_entry(link, struct client_op, of_client);

        if (op == &quiet->base)
            return true; /* those behind it began later */
        if (op->uses != NULL && op->uses(op, quiet->at, quiet->size))
            return false;
    }
    return true;
}

static void on_timer(struct env_timer *timer)
{
    struct client_quiet_op *quiet = list_entry(timer, struct client_quiet_op, base.timer);
    struct client *client = quiet->base.client;

    quiet->status = is_quiet(quiet) ? SNOW_OK : SNOW_TIMEOUT;
    if (quiet->status != SNOW_OK && client_now_ns(client) < quiet->base.deadline_ns) {
        env_timer_arm(client->loop, timer, quiet->base.deadline_ns);
        return;
    }
    list_remove(&quiet->of_client);
    client_op_end(&quiet->base);
    quiet->on_done(quiet);
}

void client_quiet_look(struct client *client)
{
    list_each (&client->quiets, link, next)
        client_op_hurry(&list_entry(link, struct client_quiet_op, of_client)->base);
}

void client_quiet_start(struct client *client, struct client_quiet_op *op,
                        const struct snow_call *call)
{
    client_op_begin(client, &op->base, call, on_timer);
    list_push(&client->quiets, &op->of_client);
    client_op_hurry(&op->base);
}
