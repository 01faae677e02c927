/* replay: plays a request trace against a cluster and tells what was hit.
 *
 * The parent reads the trace, sizes the pool, starts the cluster in its own process, runs the
 * workers, and adds up. */
#include "cli/replay.h"

#include "cli/replay_plot.h"
#include "cli/replay_report.h"
#include "master/master.h"
#include "node/node.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (16 * MIB)
#define SEGMENT_STEP (2 * MIB)
#define WORKERS_MAX 64u
#define MOUNT_NS (10 * NS_PER_S)
#define MOUNT_STEP_NS (2 * NS_PER_MS)

bool replay_trace_read(const struct cli *cli, struct trace *trace)
{
    const char *path = cli->arguments[0];
    struct text error;
    char reason[256];
    uint8_t *data;
    size_t size;
    enum snow_status status = env_file_read(cli->env, path, TRACE_SIZE_MAX, &data, &size);

    if (status != SNOW_OK) {
        cli_error(cli, "%s: %s", path, cli_file_text(status));
        return false;
    }
    text_init(&error, reason, sizeof(reason));
    status = trace_parse(bytes_of(data, size), cli->replay.requests, trace, &error);
    free(data);
    if (status == SNOW_OK)
        return true;
    cli_error(cli, "%s: %s", path, status == SNOW_INVALID ? reason : snow_status_text(status));
    return false;
}

/* ---- the cluster ---- */

struct cluster {
    struct obs_log master_log; /* a log for each thread that writes */
    struct obs_log node_log;
    struct master *master;
    struct node *node;
    const char *address;
};

uint64_t replay_member_bytes(const struct cli *cli)
{
    return (cli->replay.block_bytes_bytes + cli->replay.members - 1) / cli->replay.members;
}

/* Bytes that a block takes in the pool. */
static uint64_t block_room(const struct cli *cli)
{
    return (replay_member_bytes(cli) + 255) / 256 * 256 * cli->replay.members;
}

/* --pool: percent of the distinct blocks, or (*percent 0) bytes. */
static bool pool_parse(const struct cli *cli, double *percent, uint64_t *bytes)
{
    const char *text = cli->replay.pool;
    char *end;

    errno = 0;
    *percent = strtod(text, &end);
    if (errno == 0 && end != text && strcmp(end, "%") == 0 && *percent > 0 && *percent <= 1000)
        return true;
    *percent = 0;
    if (conf_bytes_parse(text, bytes) && *bytes >= block_room(cli))
        return true;
    cli_error(cli, "--pool %s: neither a size of at least a block nor 0%% < P%% <= 1000%%", text);
    return false;
}

/* Bytes that the pool is to hold: P% of the distinct blocks, exactly, or as given. */
static bool pool_bytes(const struct cli *cli, const struct trace *trace, uint64_t *bytes)
{
    double percent;
    uint64_t blocks;

    if (!pool_parse(cli, &percent, bytes))
        return false;
    if (percent > 0) {
        blocks = (uint64_t)floor((double)trace->distinct * percent / 100);
        *bytes = (blocks == 0 ? 1 : blocks) * block_room(cli);
    }
    return true;
}

/* Until then a put would wait for room that is about to come, or for memory that is being
 * committed. */
static bool wait_for_mount(struct cli *cli, const struct node *node)
{
    uint64_t end_ns = env_now_ns(cli->env) + MOUNT_NS;
    struct env_loop *loop;

    if (env_loop_create(cli->env, "mount", &loop) != SNOW_OK) {
        cli_error(cli, "out of memory");
        return false;
    }
    while ((!node_is_mounted(node) && env_now_ns(cli->env) < end_ns) ||
           (node_is_mounted(node) && node_is_growing(node)))
        env_loop_turn(loop, MOUNT_STEP_NS, 0);
    env_loop_destroy(loop);
    if (!node_is_mounted(node))
        cli_error(cli, "its own node does not reach its own master");
    return node_is_mounted(node);
}

/* The reserve is fixed and comes on top, with what rounding adds:
 * the pool holds exactly what was asked for. */
static bool start_cluster(struct cli *cli, const struct trace *trace, struct cluster *cluster)
{
    const char *token = cli->options.token;
    struct master_options options;
    uint64_t pool;
    uint64_t reserve = 256 * block_room(cli);
    uint64_t slot_bytes = replay_member_bytes(cli) / (cli->replay.members > 1 ? 2 : 1);
    const char *reason = "";
    char size[32];

    if (!pool_bytes(cli, trace, &pool))
        return false;
    cluster->master_log = cluster->node_log = cli->log;
    conf_defaults(master_options_table(), &options);
    options.listen = "127.0.0.1:0";
    options.token = token;
    cli->node.memory_bytes = (pool + reserve + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
    if (slot_bytes < cli->node.slot_bytes)
        cli->node.slot_bytes = slot_bytes < 256 ? 256 : slot_bytes;
    cli->core.reserve_bytes = cli->node.memory_bytes - pool;
    if (master_open(cli->env, &options, &cli->core, &cluster->master_log, &cluster->master,
                    &reason) != SNOW_OK) {
        cli_error(cli, "can not start a master: %s", reason);
        return false;
    }
    cli->node.master = master_address(cluster->master);
    if (node_open(cli->env, &cli->node, bytes_of_string(token), &cluster->node_log, &cluster->node,
                  &reason) != SNOW_OK) {
        cli_error(cli, "--pool %s: can not start a node of %s: %s", cli->replay.pool,
                  cli_bytes_text(cli->node.memory_bytes, size), reason);
        return false;
    }
    cluster->address = master_address(cluster->master);
    return wait_for_mount(cli, cluster->node);
}

static void stop_cluster(struct cluster *cluster)
{
    if (cluster->node != NULL)
        node_close(cluster->node);
    if (cluster->master != NULL)
        master_close(cluster->master);
}

/* ---- the workers ---- */

struct reading {
    struct env_child child;
    struct replay_plot *plot;
    char *text; /* of its current line */
    size_t used;
    size_t room;
    uint64_t done;
    char meet[LIMIT_NAME_SIZE + 1]; /* where the first of a client waits for the others */
    bool ended;
    bool result;
};

static bool start_worker(const struct cli *cli, const char *address, uint32_t number,
                         const char *meet, struct reading *reading)
{
    char worker[32];
    char members[32];
    char clients[32];
    char block[32];
    char requests[32];
    char deadline[32];
    char *argv[] = {(char *)"snowskin",
                    (char *)"replay",
                    cli->arguments[0],
                    (char *)"--worker",
                    worker,
                    (char *)"--clients",
                    clients,
                    (char *)"--block-bytes",
                    block,
                    (char *)"--requests",
                    requests,
                    (char *)"--deadline",
                    deadline,
                    (char *)"--members",
                    members,
                    (char *)"--groups",
                    (char *)(uintptr_t)(cli->replay.groups == REPLAY_GROUPS_ON ? "on" : "off"),
                    (char *)"--meet",
                    (char *)(uintptr_t)meet,
                    (char *)"--pace",
                    (char *)cli->replay.pace,
                    (char *)"--master",
                    (char *)address,
                    NULL};

    snprintf(worker, sizeof(worker), "%u", number);
    snprintf(members, sizeof(members), "%" PRIu64, cli->replay.members);
    snprintf(clients, sizeof(clients), "%" PRIu64, cli->replay.clients);
    snprintf(block, sizeof(block), "%" PRIu64, cli->replay.block_bytes_bytes);
    snprintf(requests, sizeof(requests), "%" PRIu64, cli->replay.requests);
    snprintf(deadline, sizeof(deadline), "%" PRIu64 "ms", cli->options.deadline_ns / NS_PER_MS);
    return env_child_start(argv, &reading->child) == SNOW_OK;
}

/* What a worker says on its way. */
static void take_told(struct reading *reading, const json_t *root)
{
    uint64_t done = (uint64_t)json_integer_value(json_object_get(root, "done"));
    struct replay_told told = {
        .requests = done - reading->done,
        .blocks = (uint64_t)json_integer_value(json_object_get(root, "blocks")),
        .hit_blocks = (uint64_t)json_integer_value(json_object_get(root, "hit_blocks")),
        .get_us = (double)json_integer_value(json_object_get(root, "get_us")),
        .put_us = (double)json_integer_value(json_object_get(root, "put_us"))};

    reading->done = done;
    replay_plot_add(reading->plot, &told);
}

static void take_line(struct reading *reading, struct replay_report *report, const char *line,
                      size_t size)
{
    json_t *root = json_loadb(line, size, 0, NULL);
    const json_t *done = json_object_get(root, "done");
    const char *meet = json_string_value(json_object_get(root, "meet"));

    if (meet != NULL)
        snprintf(reading->meet, sizeof(reading->meet), "%s", meet);
    else if (json_is_integer(done))
        take_told(reading, root);
    else if (json_is_object(root))
        reading->result = replay_report_add(report, root);
    json_decref(root);
}

/* Takes what the child has printed so far; blocks until it prints or ends. */
static void read_some(struct reading *reading, struct replay_report *report)
{
    char *end;
    ssize_t got;

    if (reading->room - reading->used < 65536) {
        char *grown = reading->room > LINE_MAX_BYTES
                          ? NULL
                          : realloc(reading->text, reading->room * 2 + 65536);

        if (grown == NULL) {
            reading->ended = true;
            return;
        }
        reading->text = grown;
        reading->room = reading->room * 2 + 65536;
    }
    got = env_child_read(&reading->child, reading->text + reading->used,
                         reading->room - reading->used);
    if (got <= 0) {
        reading->ended = true;
        return;
    }
    reading->used += (size_t)got;
    while ((end = memchr(reading->text, '\n', reading->used)) != NULL) {
        size_t size = (size_t)(end - reading->text);

        take_line(reading, report, reading->text, size);
        reading->used -= size + 1;
        memmove(reading->text, end + 1, reading->used);
    }
}

static void show_progress(const struct reading *workers, uint32_t count, uint64_t total)
{
    uint64_t done = 0;
    int filled;

    for (uint32_t i = 0; i < count; i++)
        done += workers[i].done;
    filled = (int)(done * 40 / total);
    fprintf(stderr, "\r[%.*s%*s] %3" PRIu64 "%%", filled,
            "########################################", 40 - filled, "", done * 100 / total);
}

/* Starts them; how many.  The others of a client are told where its first one waits. */
static uint32_t start_workers(const struct cli *cli, const char *address,
                              struct replay_report *report, struct reading *workers, uint32_t count)
{
    uint32_t members = (uint32_t)cli->replay.members;
    uint32_t started = 0;

    while (started < count) {
        struct reading *first = &workers[started / members * members];
        struct reading *reading = &workers[started];

        if (!start_worker(cli, address, started + 1, first->meet, reading))
            break;
        started++;
        while (members > 1 && reading == first && first->meet[0] == 0 && !first->ended)
            read_some(first, report);
        if (first->ended)
            break;
    }
    return started;
}

/* Runs all workers to their ends; false: one failed.  The token goes by the environment, which,
 * unlike arguments, other users do not see. */
static bool run_workers(struct cli *cli, const struct trace *trace, const char *address,
                        struct replay_report *report, struct replay_plot *plot)
{
    struct reading workers[WORKERS_MAX] = {0};
    uint32_t count = (uint32_t)(cli->replay.clients * cli->replay.members);
    bool terminal = env_is_terminal(2);
    bool good = true;
    uint32_t started;
    uint32_t left = 0;

    if (setenv("SNOWSKIN_TOKEN", cli->options.token, 1) != 0) {
        cli_error(cli, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        workers[i].plot = plot;
    started = start_workers(cli, address, report, workers, count);
    for (uint32_t i = 0; i < started; i++)
        left += workers[i].ended ? 0 : 1;
    while (left > 0) {
        /* Each prints every few requests: reading one after the other keeps all pipes flowing. */
        for (uint32_t i = 0; i < started; i++) {
            if (workers[i].ended)
                continue;
            read_some(&workers[i], report);
            left -= workers[i].ended ? 1 : 0;
        }
        if (terminal)
            show_progress(workers, started, trace->request_count);
    }
    if (terminal)
        fputs("\r\033[K", stderr);
    for (uint32_t i = 0; i < started; i++) {
        good = env_child_wait(&workers[i].child) == 0 && workers[i].result && good;
        free(workers[i].text);
    }
    if (started < count)
        cli_error(cli, "can not start client process %u", started + 1);
    else if (!good)
        cli_error(cli, "a client process failed");
    return good && started == count;
}

/* ---- the whole ---- */

static int take_stat(void *owner, const char *name, uint64_t value)
{
    replay_report_stat(owner, name, value);
    return 0;
}

/* The master's counters as they are now. */
static int read_stats(struct cli *cli, const char *address, struct replay_report *report)
{
    struct snow_client *client;
    enum snow_status status;
    int result;

    cli->options.master = address;
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    status = snow_stats(client, take_stat, report, NULL);
    snow_close(client);
    if (status == SNOW_OK)
        return CLI_DONE;
    cli_error(cli, "%s: %s (%s)", address, snow_status_text(status), snow_status_name(status));
    return CLI_FAILED;
}

static int save_plot(struct cli *cli, const struct replay_plot *plot)
{
    const char *path = cli->replay.plot;
    enum snow_status status = SNOW_NO_MEMORY;
    char title[512];
    size_t size;

    snprintf(title, sizeof(title), "replay of %s, pool %s, %" PRIu64 " clients", cli->arguments[0],
             cli->master_given ? "of a running cluster" : cli->replay.pool, cli->replay.clients);
    char *drawn = replay_plot_draw(plot, title, &size);

    if (drawn != NULL)
        status = env_file_replace(cli->env, path, bytes_of(drawn, size));
    free(drawn);
    if (status == SNOW_OK)
        return CLI_DONE;
    cli_error(cli, "--plot %s: can not be written: %s", path, snow_status_text(status));
    return CLI_FAILED;
}

static int play(struct cli *cli, const struct trace *trace)
{
    struct cluster cluster = {.address = cli->options.master};
    struct replay_report before;
    struct replay_report report;
    struct replay_plot plot;
    uint64_t before_ns;
    int result = CLI_DONE;

    replay_plot_init(&plot, trace->request_count);
    replay_report_init(&before);
    replay_report_init(&report);
    if (!cli->master_given && !start_cluster(cli, trace, &cluster))
        result = CLI_FAILED;
    if (result == CLI_DONE)
        result = read_stats(cli, cluster.address, &before);
    before_ns = env_now_ns(cli->env);
    if (result == CLI_DONE && !run_workers(cli, trace, cluster.address, &report, &plot))
        result = CLI_FAILED;
    report.wall_ns = env_now_ns(cli->env) - before_ns;
    if (result == CLI_DONE)
        result = read_stats(cli, cluster.address, &report);
    if (result == CLI_DONE) {
        replay_report_since(&report, &before);
        replay_report_print(cli, &report, trace);
        result = replay_report_is_clean(&report) ? CLI_DONE : CLI_FAILED;
    }
    if (result == CLI_DONE && cli->replay.plot[0] != 0)
        result = save_plot(cli, &plot);
    stop_cluster(&cluster);
    replay_report_deinit(&report);
    return result;
}

static bool pace_is_valid(const struct cli *cli)
{
    const char *text = cli->replay.pace;
    char *end;
    double factor;

    if (strcmp(text, "max") == 0)
        return true;
    factor = strtod(text, &end);
    if (end != text && *end == 0 && factor > 0 && factor <= 1e6)
        return true;
    cli_error(cli, "--pace %s: neither \"max\" nor a factor on the trace's time stamps", text);
    return false;
}

static bool members_are_valid(const struct cli *cli)
{
    const struct replay_options *options = &cli->replay;

    if (options->clients * options->members > WORKERS_MAX) {
        cli_error(cli,
                  "--clients %" PRIu64 " of %" PRIu64 " members each are more than %u processes",
                  options->clients, options->members, WORKERS_MAX);
        return false;
    }
    if (options->block_bytes_bytes >= options->members)
        return true;
    cli_error(cli, "--members %" PRIu64 ": a block has fewer bytes", options->members);
    return false;
}

int command_replay(struct cli *cli)
{
    struct trace trace;
    double percent;
    uint64_t bytes;
    int result;

    if (!pace_is_valid(cli) || !members_are_valid(cli) || !pool_parse(cli, &percent, &bytes) ||
        !cli_core_is_valid(cli))
        return CLI_USAGE;
    if (cli->replay.worker > 0)
        return replay_worker(cli);
    if (!replay_trace_read(cli, &trace))
        return CLI_FAILED;
    result = play(cli, &trace);
    trace_free(&trace);
    return result;
}
