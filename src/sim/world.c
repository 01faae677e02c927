#include "sim/world.h"

#include "base/hash.h"
#include "sim/env_body.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- events --------------------------------------------------------------------------------- */

void sim_event_init(struct sim_event *event, struct world *world, struct env_loop *loop,
                    enum sim_kind kind, uint64_t id, void (*on_event)(struct sim_event *event))
{
    *event = (struct sim_event){
        .on_event = on_event, .world = world, .loop = loop, .kind = (uint8_t)kind, .id = id};
}

void sim_event_cancel(struct sim_event *event)
{
    if (event->link.queued)
        heap_remove(&event->world->queue, &event->link);
    if (list_is_linked(&event->ready_link))
        list_remove(&event->ready_link);
}

void sim_event_at(struct sim_event *event, uint64_t at_ns)
{
    struct world *world = event->world;

    sim_event_cancel(event);
    if (event->loop != NULL && event->loop->env->dead)
        return;
    event->link.at_ns = at_ns > world->now_ns ? at_ns : world->now_ns;
    event->link.order = world->order++;
    heap_push(&world->queue, &event->link);
}

/* ---- the hash ------------------------------------------------------------------------------- */

void sim_hash(struct world *world, enum sim_kind kind, uint64_t a, uint64_t b)
{
    uint64_t h = world->hash;

    h = (h ^ ((uint64_t)kind + a * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
    h = (h ^ (b + UINT64_C(0x2545f4914f6cdd1d))) * UINT64_C(0xc4ceb9fe1a85ec53);
    h ^= h >> 29;
    world->hash = h;
}

void sim_hash_bytes(struct world *world, const void *data, size_t size)
{
    sim_hash(world, SIM_NOTE, size, hash_seeded(bytes_of(data, size), 1));
}

void world_note(struct world *world, const void *data, size_t size)
{
    sim_hash_bytes(world, data, size);
}

uint64_t world_hash(const struct world *world)
{
    return world->hash;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct world *world_create(uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);

    if (world == NULL)
        return NULL;
    rng_init(&world->rng, seed);
    rng_init(&world->scenario_rng, rng_next(&world->rng));
    world->net = world_net_calm();
    world->next_id = 1;
    world->hash = seed;
    list_init(&world->streams);
    return world;
}

void world_destroy(struct world *world)
{
    for (uint32_t i = 0; i < world->host_count; i++) {
        struct world_host *host = world->hosts[i];
        struct list_link *link;

        while ((link = list_first(&host->processes)) != NULL)
            world_process_end(list_entry(link, struct env, link));
        sim_memory_lose(host);
        sim_file_free(host);
        free(host);
    }
    net_free_world(world);
    for (size_t i = 0; i < SIM_LINES_MAX; i++)
        free(world->lines[i]);
    free(world);
}

uint64_t world_now_ns(const struct world *world)
{
    return world->now_ns;
}

struct rng *world_rng(struct world *world)
{
    return &world->scenario_rng;
}

uint64_t world_event_count(const struct world *world)
{
    return world->event_count;
}

/* ---- running -------------------------------------------------------------------------------- */

bool world_step(struct world *world)
{
    struct heap_link *link = world->queue.first;

    if (link == NULL)
        return false;
    struct sim_event *event = list_entry(link, struct sim_event, link);

    heap_remove(&world->queue, link);
    world->now_ns = link->at_ns;
    world->event_count++;
    sim_hash(world, event->kind, event->id, world->now_ns);
    if (event->loop != NULL)
        sim_loop_due(event->loop, event);
    else
        event->on_event(event);
    return true;
}

void world_run_until(struct world *world, uint64_t until_ns)
{
    while (world->queue.first != NULL && world->queue.first->at_ns <= until_ns)
        world_step(world);
    if (world->now_ns < until_ns)
        world->now_ns = until_ns;
}

bool world_run(struct world *world, bool (*done)(void *owner), void *owner, uint64_t until_ns)
{
    while (!done(owner)) {
        if (world->queue.first == NULL || world->queue.first->at_ns > until_ns) {
            if (world->now_ns < until_ns)
                world->now_ns = until_ns;
            return false;
        }
        world_step(world);
    }
    return true;
}

/* ---- alarms --------------------------------------------------------------------------------- */

static void on_alarm(struct sim_event *event)
{
    struct world_alarm *alarm = list_entry(event, struct world_alarm, event);

    alarm->on_event(alarm);
}

void world_alarm_arm(struct world *world, struct world_alarm *alarm, uint64_t at_ns)
{
    world_alarm_cancel(alarm);
    sim_event_init(&alarm->event, world, NULL, SIM_ALARM, 0, on_alarm);
    sim_event_at(&alarm->event, at_ns);
}

void world_alarm_cancel(struct world_alarm *alarm)
{
    sim_event_cancel(&alarm->event);
}

/* ---- log ------------------------------------------------------------------------------------ */

void world_on_line(struct world *world,
                   void (*on_line)(void *owner, uint64_t at_ns, const char *process,
                                   const char *line),
                   void *owner)
{
    world->on_line = on_line;
    world->line_owner = owner;
}

void sim_log(struct world *world, const char *process, const char *line)
{
    size_t size = strlen(line) + strlen(process) + 40;
    char *text = malloc(size);
    size_t at = (size_t)(world->line_count % SIM_LINES_MAX);

    sim_hash_bytes(world, line, strlen(line));
    if (world->on_line != NULL)
        world->on_line(world->line_owner, world->now_ns, process, line);
    if (text == NULL)
        return;
    snprintf(text, size, "%12.6f %s: %s", (double)world->now_ns / 1e9, process, line);
    free(world->lines[at]);
    world->lines[at] = text;
    world->line_count++;
}

void world_transcript(struct world *world, void (*on_line)(void *owner, const char *line),
                      void *owner)
{
    uint64_t from = world->line_count > SIM_LINES_MAX ? world->line_count - SIM_LINES_MAX : 0;

    for (uint64_t i = from; i < world->line_count; i++)
        on_line(owner, world->lines[i % SIM_LINES_MAX]);
}
