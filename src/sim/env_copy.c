/* Copies in pieces: between two pieces the rest of the world goes on, or this process ends. */
#include "base/hash.h"
#include "sim/env_body.h"

#include <stdlib.h>

#define PIECES_MAX 8
#define PIECE_NS_MIN UINT64_C(200)
#define PIECE_NS_MAX UINT64_C(60000)

struct sim_copy {
    struct sim_event event;
    struct list_link link; /* in loop->copies */
    struct env_copy *copy;
    size_t done; /* bytes */
    uint32_t pieces_left;
};

static void copy_free(struct sim_copy *state)
{
    sim_event_cancel(&state->event);
    list_remove(&state->link);
    state->copy->private_state = NULL;
    free(state);
}

/* All bytes are there. */
static void sum_up(const struct env_copy *copy)
{
    for (size_t at = 0; at < copy->size && copy->sums != NULL; at += ENV_SUM_BYTES) {
        size_t size = copy->size - at < ENV_SUM_BYTES ? copy->size - at : ENV_SUM_BYTES;

        copy->sums[at / ENV_SUM_BYTES] = crc32c(0, (const uint8_t *)copy->sum_of + at, size);
    }
}

static void wait_for_next(struct sim_copy *state)
{
    struct world *world = state->event.world;

    sim_event_at(&state->event,
                 world->now_ns + rng_between(&world->rng, PIECE_NS_MIN, PIECE_NS_MAX));
}

static void on_copy(struct sim_event *event)
{
    struct sim_copy *state = list_entry(event, struct sim_copy, event);
    struct env_copy *copy = state->copy;
    size_t left = copy->size - state->done;
    size_t size = left;

    if (state->pieces_left > 1)
        size = (size_t)rng_below(&event->world->rng, left + 1);
    memcpy((uint8_t *)copy->to + state->done, (const uint8_t *)copy->from + state->done, size);
    state->done += size;
    state->pieces_left--;
    if (state->done < copy->size) {
        wait_for_next(state);
        return;
    }
    copy_free(state);
    sum_up(copy);
    copy->on_event(copy);
}

bool env_copy(struct env_loop *loop, struct env_copy *copy)
{
    struct world *world = loop->env->world;

    copy->private_state = NULL;
    if (loop->env->dead)
        return false; /* on_event never comes */
    struct sim_copy *state = NULL;

    /* Callers must live with both answers. */
    if (copy->size > 0 && !rng_chance(&world->rng, 1, 8))
        state = calloc(1, sizeof *state);
    if (state == NULL) {
        if (copy->size > 0)
            memcpy(copy->to, copy->from, copy->size);
        sum_up(copy);
        return true;
    }
    sim_event_init(&state->event, world, loop, SIM_COPY, loop->id, on_copy);
    state->copy = copy;
    state->pieces_left = (uint32_t)rng_between(&world->rng, 1, PIECES_MAX);
    copy->private_state = state;
    list_push(&loop->copies, &state->link);
    wait_for_next(state);
    return false;
}

void env_copy_cancel(struct env_copy *copy)
{
    if (copy->private_state != NULL)
        copy_free(copy->private_state);
}

/* ---- devices: there are none ---- */

void env_device_look(struct env *env)
{
    (void)env;
}

bool env_device_has(struct env *env, const void *at)
{
    (void)env;
    (void)at;
    return false;
}

void env_device_learn(struct env *env, const void *at, size_t size)
{
    (void)env;
    (void)at;
    (void)size;
}

void env_device_forget(struct env *env, const void *at)
{
    (void)env;
    (void)at;
}

bool env_device_copy(struct env *env, void *to, const void *from, size_t size, bool to_device)
{
    (void)env;
    (void)to;
    (void)from;
    (void)size;
    (void)to_device;
    return false;
}

void *env_device_stage(struct env *env, size_t size)
{
    (void)env;
    return malloc(size);
}

void env_device_unstage(struct env *env, void *at)
{
    (void)env;
    free(at);
}

void sim_copy_kill(struct env_loop *loop)
{
    struct list_link *link;

    while ((link = list_first(&loop->copies)) != NULL)
        copy_free(list_entry(link, struct sim_copy, link));
}
