/* The cluster that bench measures: master and nodes are processes of their own. */
#include "cli/bench.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_STEP (2 * MIB)

/* ---- children ------------------------------------------------------------------------------- */

/* The next line of a child, without its end; false: it has ended. */
static bool read_line(struct env_child *child, char *line, size_t size)
{
    size_t used = 0;

    while (env_child_read(child, line + used, 1) == 1) {
        if (line[used] == '\n') {
            line[used] = 0;
            return true;
        }
        if (used + 1 < size)
            used++;
    }
    line[used] = 0;
    return false;
}

bool bench_child_start(struct bench *bench, char *const argv[], const char *expect,
                       struct env_child *child, char *rest, size_t rest_size)
{
    char last[256] = "it says nothing";
    char line[256];
    size_t size = strlen(expect);

    *child = (struct env_child){.with_errors = true};
    if (env_child_start(argv, child) != SNOW_OK) {
        cli_error(bench->cli, "can not start a process");
        return false;
    }
    while (read_line(child, line, sizeof(line))) {
        if (strncmp(line, expect, size) == 0) {
            snprintf(rest, rest_size, "%s", line + size + (line[size] == ' '));
            return true;
        }
        memcpy(last, line, sizeof(last));
    }
    (void)env_child_wait(child);
    child->pid = 0;
    cli_error(bench->cli, "its own `%s %s` has ended: %s", argv[0], argv[1], last);
    return false;
}

void bench_flags_add(const struct bench *bench, struct bench_flags *flags, char **argv,
                     uint32_t count)
{
    const struct cli_options *given = &bench->cli->options;

    snprintf(flags->send, sizeof(flags->send), "%" PRIu64, given->send_buffer_bytes);
    snprintf(flags->receive, sizeof(flags->receive), "%" PRIu64, given->receive_buffer_bytes);
    snprintf(flags->timeout, sizeof(flags->timeout), "%" PRIu64 "ms",
             given->user_timeout_ns / NS_PER_MS);
    argv[count++] = (char *)"--congestion";
    argv[count++] = (char *)(uintptr_t)given->congestion;
    argv[count++] = (char *)"--send-buffer";
    argv[count++] = flags->send;
    argv[count++] = (char *)"--receive-buffer";
    argv[count++] = flags->receive;
    argv[count++] = (char *)"--user-timeout";
    argv[count++] = flags->timeout;
    argv[count] = NULL;
}

void bench_child_stop(struct env_child *child)
{
    if (child->pid == 0)
        return;
    env_child_kill(child, SIGKILL); /* it holds nothing that is worth a farewell */
    (void)env_child_wait(child);
    child->pid = 0;
}

/* ---- master and nodes ----------------------------------------------------------------------- */

static bool start_master(struct bench *bench)
{
    struct bench_cluster *cluster = &bench->cluster;
    char *argv[] = {(char *)"snowskin", (char *)"master", (char *)"--listen", (char *)"127.0.0.1:0",
                    NULL};

    cluster->master_runs = bench_child_start(bench, argv, "master", &cluster->master,
                                             cluster->address, sizeof(cluster->address));
    return cluster->master_runs;
}

static bool start_node(struct bench *bench)
{
    struct bench_cluster *cluster = &bench->cluster;
    char memory[32];
    char slot[32];
    char rest[256];
    char *argv[24] = {(char *)"snowskin", (char *)"node", (char *)"--master", cluster->address,
                      (char *)"--memory", memory,         (char *)"--slot",   slot};
    struct bench_flags flags;

    bench_flags_add(bench, &flags, argv, 8);

    snprintf(memory, sizeof(memory), "%" PRIu64, cluster->memory_bytes);
    snprintf(slot, sizeof(slot), "%" PRIu64, cluster->slot_bytes);
    if (!bench_child_start(bench, argv, "ready", &cluster->nodes[cluster->node_count], rest,
                           sizeof(rest)))
        return false;
    cluster->node_count++;
    return true;
}

void bench_cluster_stop(struct bench *bench)
{
    struct bench_cluster *cluster = &bench->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        bench_child_stop(&cluster->nodes[i]);
    if (cluster->master_runs)
        bench_child_stop(&cluster->master);
    *cluster = (struct bench_cluster){0};
    bench->objects_loaded = false;
}

uint64_t bench_cluster_cpu_ns(const struct bench *bench)
{
    const struct bench_cluster *cluster = &bench->cluster;
    uint64_t ns = cluster->master_runs ? env_child_cpu_ns(&cluster->master) : 0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        ns += env_child_cpu_ns(&cluster->nodes[i]);
    return ns;
}

bool bench_cluster_need(struct bench *bench, uint32_t nodes, uint64_t memory_bytes,
                        uint64_t slot_bytes)
{
    struct bench_cluster *cluster = &bench->cluster;
    bool good = true;

    if (bench->cli->master_given) {
        snprintf(cluster->address, sizeof(cluster->address), "%s", bench->cli->options.master);
        return true;
    }
    memory_bytes = (memory_bytes + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
    if (cluster->node_count == nodes && cluster->memory_bytes == memory_bytes &&
        cluster->slot_bytes == slot_bytes)
        return true;
    bench_cluster_stop(bench);
    cluster->memory_bytes = memory_bytes;
    cluster->slot_bytes = slot_bytes;
    /* The token goes by the environment, which, unlike arguments, other users do not see. */
    good = setenv("SNOWSKIN_TOKEN", bench->cli->options.token, 1) == 0 && start_master(bench);
    while (good && cluster->node_count < nodes)
        good = start_node(bench);
    if (!good)
        bench_cluster_stop(bench);
    return good;
}
