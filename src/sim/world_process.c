/* Hosts and processes: how they start, stop, crash and come back. */
#include "sim/env_body.h"

#include <stdio.h>
#include <stdlib.h>

#define CLOCK_OFFSET_MAX_NS (UINT64_C(100000) * NS_PER_S)
#define WALL_START_MS UINT64_C(1700000000000)

/* ---- hosts ---------------------------------------------------------------------------------- */

static void name_boot(struct world_host *host)
{
    host->boots++;
    snprintf(host->boot_name, sizeof host->boot_name, "%s-boot-%u", host->name,
             (unsigned)host->boots);
}

struct world_host *world_host_create(struct world *world, const char *name)
{
    struct world_host *host = calloc(1, sizeof *host);

    ASSERT(world->host_count < WORLD_HOSTS_MAX);
    if (host == NULL)
        return NULL;
    host->world = world;
    host->index = world->host_count;
    host->up = true;
    host->slow = 1;
    host->next_port = 40000;
    snprintf(host->name, sizeof host->name, "%s", name);
    list_init(&host->processes);
    list_init(&host->listeners);
    list_init(&host->memories);
    list_init(&host->files);
    name_boot(host);
    world->hosts[world->host_count++] = host;
    return host;
}

static void kill_process(struct env *env, bool silent)
{
    if (env->dead)
        return;
    env->dead = true;
    list_each (&env->loops, link, following) {
        struct env_loop *loop = list_entry(link, struct env_loop, link);

        sim_copy_kill(loop);
        net_kill(loop, silent);
        sim_loop_kill(loop);
    }
    sim_memory_kill(env);
    sim_file_unlock(env);
    sim_log(env->world, env->name, silent ? "host crashed" : "process crashed");
}

void world_host_crash(struct world_host *host, bool keep_memory)
{
    if (!host->up)
        return;
    host->up = false;
    list_each (&host->processes, link, following)
        kill_process(list_entry(link, struct env, link), true);
    if (!keep_memory)
        sim_memory_lose(host);
    net_check_silence(host->world);
}

void world_host_boot(struct world_host *host)
{
    if (host->up)
        return;
    host->up = true;
    name_boot(host);
    net_check_silence(host->world);
}

void world_host_slow(struct world_host *host, uint32_t times)
{
    host->slow = times == 0 ? 1 : times;
}

void world_host_memory(struct world_host *host, uint64_t bytes)
{
    host->memory_max = bytes;
}

void world_set_faults(struct world *world, fault_set faults)
{
    world->faults = faults;
}

/* ---- processes ------------------------------------------------------------------------------ */

struct env *world_process_start(struct world_host *host, const char *name)
{
    struct world *world = host->world;
    struct env *env = calloc(1, sizeof *env);

    ASSERT(host->up);
    if (env == NULL)
        return NULL;
    env->world = world;
    env->host = host;
    env->id = world->next_id++;
    env->faults = world->faults;
    snprintf(env->name, sizeof env->name, "%s", name);
    rng_init(&env->rng, rng_next(&world->rng));
    env->clock_offset_ns = rng_below(&env->rng, CLOCK_OFFSET_MAX_NS);
    list_init(&env->loops);
    list_init(&env->mappings);
    list_init(&env->locks);
    list_push(&host->processes, &env->link);
    return env;
}

struct world_host *world_process_host(struct env *env)
{
    return env->host;
}

bool world_process_alive(const struct env *env)
{
    return !env->dead;
}

void world_process_crash(struct env *env)
{
    kill_process(env, false);
}

void world_process_pause(struct env *env)
{
    env->paused = true;
}

void world_process_resume(struct env *env)
{
    if (!env->paused)
        return;
    env->paused = false;
    list_each (&env->loops, link, following)
        sim_loop_wake(list_entry(link, struct env_loop, link));
}

void world_process_end(struct env *env)
{
    struct list_link *link;

    kill_process(env, false);
    while ((link = list_first(&env->loops)) != NULL) {
        struct env_loop *loop = list_entry(link, struct env_loop, link);

        loop->turning = false;
        loop->started = false;
        env_loop_destroy(loop);
    }
    sim_memory_free_mappings(env);
    list_remove(&env->link);
    free(env);
}

/* ---- loops and network ---------------------------------------------------------------------- */

void world_loop_stall(struct env_loop *loop, uint64_t duration_ns)
{
    uint64_t until_ns = loop->env->world->now_ns + duration_ns;

    if (until_ns > loop->busy_until_ns)
        loop->busy_until_ns = until_ns;
}

struct world_net world_net_calm(void)
{
    return (struct world_net){.latency_ns_min = 20 * NS_PER_US,
                              .latency_ns_max = 200 * NS_PER_US,
                              .bytes_per_us = 1000,
                              .buffer_min = 64 * 1024,
                              .buffer_max = 1024 * 1024};
}

struct world_net world_net_lossy(void)
{
    return (struct world_net){.latency_ns_min = 100 * NS_PER_US,
                              .latency_ns_max = 5 * NS_PER_MS,
                              .bytes_per_us = 100,
                              .loss_per_million = 10000,
                              .reset_per_million = 500,
                              .buffer_min = 4 * 1024,
                              .buffer_max = 256 * 1024};
}

void world_set_net(struct world *world, const struct world_net *net)
{
    world->net = *net;
}

void world_cut(struct world_host *a, struct world_host *b)
{
    a->cut |= UINT64_C(1) << b->index;
    b->cut |= UINT64_C(1) << a->index;
    net_check_silence(a->world);
}

void world_heal(struct world_host *a, struct world_host *b)
{
    a->cut &= ~(UINT64_C(1) << b->index);
    b->cut &= ~(UINT64_C(1) << a->index);
    net_check_silence(a->world);
}

void world_heal_all(struct world *world)
{
    for (uint32_t i = 0; i < world->host_count; i++)
        world->hosts[i]->cut = 0;
    net_check_silence(world);
}

/* ---- the process's view --------------------------------------------------------------------- */

uint64_t env_now_ns(struct env *env)
{
    return env->world->now_ns + env->clock_offset_ns;
}

uint64_t env_wall_ms(struct env *env)
{
    return WALL_START_MS + env->world->now_ns / NS_PER_MS;
}

uint64_t env_random(struct env *env)
{
    return rng_next(&env->rng);
}

fault_set env_faults(struct env *env)
{
    return env->faults;
}

const char *env_host(struct env *env)
{
    return env->host->boot_name;
}

void env_log_line(struct env *env, const char *line)
{
    if (!env->dead)
        sim_log(env->world, env->name, line);
}
