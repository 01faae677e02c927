#include "client/stages.h"

#include "client/inside.h"

static bool needs_stage(struct env *env, const struct transport_item *item)
{
    for (uint32_t i = 0; i < item->memory_count; i++) {
        if (item->memory[i].iov_len > 0 && env_device_has(env, item->memory[i].iov_base))
            return true;
    }
    return false;
}

static void put_back(struct transport_item *item)
{
    item->memory = item->own;
    item->memory_count = item->own_count;
    item->own = NULL;
}

static enum snow_status give_up(struct client *client, struct transport_op *op, void **stage,
                                enum snow_status status)
{
    for (struct transport_item *item = op->first; item != NULL; item = item->next) {
        if (item->own != NULL)
            put_back(item);
    }
    client_stage_end(client, stage);
    return status;
}

/* Between the item's own memory and what stands in for it; false: a driver refuses. */
static bool move(struct env *env, const struct transport_item *item, bool to_own)
{
    uint8_t *at = item->staged.iov_base;

    for (uint32_t i = 0; i < item->own_count; i++) {
        const struct iovec *own = &item->own[i];
        void *to = to_own ? own->iov_base : at;
        const void *from = to_own ? at : own->iov_base;

        if (own->iov_len > 0 && env_device_has(env, own->iov_base)) {
            if (!env_device_copy(env, to, from, own->iov_len, to_own))
                return false;
        } else if (own->iov_len > 0) {
            memcpy(to, from, own->iov_len);
        }
        at += own->iov_len;
    }
    return true;
}

enum snow_status client_stage_begin(struct client *client, struct transport_op *op, void **stage)
{
    struct env *env = client->env;
    uint64_t bytes = 0;
    uint8_t *at;

    for (struct transport_item *item = op->first; item != NULL; item = item->next) {
        if (!needs_stage(env, item))
            continue;
        item->own = item->memory;
        item->own_count = item->memory_count;
        bytes += item->size;
    }
    at = bytes == 0 ? NULL : env_device_stage(env, bytes);
    *stage = at;
    if (at == NULL)
        return bytes > 0 ? give_up(client, op, stage, SNOW_NO_MEMORY) : SNOW_OK;
    for (struct transport_item *item = op->first; item != NULL; item = item->next) {
        if (item->own == NULL)
            continue;
        item->staged = (struct iovec){.iov_base = at, .iov_len = item->size};
        item->memory = &item->staged;
        item->memory_count = 1;
        at += item->size;
        if (op->write && !move(env, item, false))
            return give_up(client, op, stage, SNOW_INVALID);
    }
    return SNOW_OK;
}

void client_stage_item(struct client *client, const struct transport_op *op,
                       struct transport_item *item)
{
    if (item->own == NULL)
        return;
    if (!op->write && item->status == SNOW_OK && !move(client->env, item, true)) {
        item->status = SNOW_INVALID;
        item->refused = true;
    }
    put_back(item);
}

void client_stage_end(struct client *client, void **stage)
{
    if (*stage != NULL)
        env_device_unstage(client->env, *stage);
    *stage = NULL;
}
