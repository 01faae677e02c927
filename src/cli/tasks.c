/* copy, move, drain, task: what nodes do among themselves, begun, watched and ended. */
#include "cli/cli.h"

#include "base/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (50 * NS_PER_MS)
#define TELL_NS (1 * NS_PER_S)

/* ---- which node ---- */

struct sought {
    const char *text;
    uint32_t number; /* 0: none */
    uint32_t matches;
};

/* By number, else by name or address. */
static int look_at_node(void *owner, const struct snow_node *node)
{
    struct sought *sought = owner;
    char number[16];

    snprintf(number, sizeof(number), "%u", node->number);
    if (strcmp(node->state, "dead") == 0 ||
        (strcmp(sought->text, number) != 0 && strcmp(sought->text, node->name) != 0 &&
         strcmp(sought->text, node->address) != 0))
        return 0;
    sought->number = node->number;
    sought->matches++;
    return 0;
}

static int find_node(const struct cli *cli, struct snow_client *client, const char *what,
                     const char *text, uint32_t *number)
{
    struct sought sought = {.text = text};

    if (text[0] == 0) {
        cli_error(cli, "say which node: %s", what);
        return CLI_USAGE;
    }
    if (cli_told(cli, "nodes", snow_nodes(client, look_at_node, &sought, NULL)) != CLI_DONE)
        return CLI_FAILED;
    if (sought.matches == 1) {
        *number = sought.number;
        return CLI_DONE;
    }
    cli_error(cli,
              sought.matches == 0 ? "%s %s: no such node" : "%s %s: several nodes are called so",
              what, text);
    return CLI_FAILED;
}

/* ---- how far it is ---- */

static json_t *task_json(const struct snow_task_info *task)
{
    json_t *row = json_pack("{s:I, s:s, s:s, s:s, s:i, s:i}", "task", (json_int_t)task->id, "kind",
                            task->kind, "state", task->state, "reason", task->reason, "from",
                            (int)task->from, "to", (int)task->to);

    if (task->key.size > 0)
        json_object_update_new(row, cli_json_row(task->key));
    json_object_update_new(
        row, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rate", (json_int_t)task->rate,
                       "elapsed_ms", (json_int_t)task->elapsed_ms, "objects",
                       (json_int_t)task->objects, "bytes", (json_int_t)task->bytes,
                       "dropped_objects", (json_int_t)task->dropped_objects, "dropped_bytes",
                       (json_int_t)task->dropped_bytes, "left_objects",
                       (json_int_t)task->left_objects, "left_bytes", (json_int_t)task->left_bytes));
    json_object_set_new(row, "left_ms",
                        task->left_ms == UINT64_MAX ? json_null()
                                                    : json_integer((json_int_t)task->left_ms));
    return row;
}

static void print_task(const struct snow_task_info *task)
{
    char moved[32];
    char left[32];

    printf("task %" PRIu64 " %s", task->id, task->kind);
    if (task->from != 0)
        printf(" from node %u", task->from);
    if (task->to != 0)
        printf(" to node %u", task->to);
    printf(": %s, %" PRIu64 " objects, %s", task->state, task->objects,
           cli_bytes_text(task->bytes, moved));
    if (task->dropped_objects > 0)
        printf(", %" PRIu64 " dropped", task->dropped_objects);
    if (strcmp(task->state, "running") == 0) {
        printf(", %s left", cli_bytes_text(task->left_bytes, left));
        if (task->left_ms != UINT64_MAX)
            printf(", about %" PRIu64 " s", (task->left_ms + 999) / 1000);
    }
    printf("%s%s\n", task->reason[0] == 0 ? "" : ": ", task->reason);
    fflush(stdout);
}

struct watched {
    const struct cli *cli;
    uint64_t id;
    bool found;
    bool over;
    bool tell; /* now, though it runs */
    int result;
};

static int watch_row(void *owner, const struct snow_task_info *task)
{
    struct watched *watched = owner;

    watched->found = true;
    watched->over = strcmp(task->state, "running") != 0;
    if (watched->cli->options.json && (watched->over || watched->tell))
        cli_print_json(task_json(task));
    else if (watched->over || watched->tell)
        print_task(task);
    watched->result = strcmp(task->state, "done") == 0 ? CLI_DONE : CLI_FAILED;
    return 0;
}

/* Until it is over: a line a second, and the last one. */
static int watch(const struct cli *cli, struct snow_client *client, uint64_t id)
{
    struct watched watched = {.cli = cli, .id = id};
    struct env_loop *loop;
    uint64_t tell_ns = env_now_ns(cli->env) + TELL_NS;
    int result = CLI_DONE;

    if (env_loop_create(cli->env, "watch", &loop) != SNOW_OK)
        return CLI_FAILED;
    while (result == CLI_DONE && !watched.over) {
        watched.tell = env_now_ns(cli->env) >= tell_ns && !cli->options.json;
        watched.found = false;
        if (watched.tell)
            tell_ns += TELL_NS;
        result = cli_told(cli, "tasks", snow_tasks(client, id, watch_row, &watched, NULL));
        if (result == CLI_DONE && !watched.found) {
            cli_error(cli, "task %" PRIu64 ": the master has started anew and forgot it", id);
            result = CLI_FAILED;
        }
        if (!watched.over)
            env_loop_turn(loop, LOOK_NS, 0);
    }
    env_loop_destroy(loop);
    return result == CLI_DONE ? watched.result : result;
}

static int run_task(const struct cli *cli, struct snow_client *client, const struct snow_task *task,
                    bool background)
{
    uint64_t id;
    enum snow_status status = snow_task_start(client, task, NULL, &id);

    if (status != SNOW_OK) {
        cli_error(cli, "%s: %s (%s)", cli->arguments[0],
                  snow_reason()[0] != 0 ? snow_reason() : snow_status_text(status),
                  snow_status_name(status));
        return CLI_FAILED;
    }
    if (!background)
        return watch(cli, client, id);
    if (cli->options.json)
        cli_print_json(json_pack("{s:I}", "task", (json_int_t)id));
    else
        printf("task %" PRIu64 "\n", id);
    return CLI_DONE;
}

/* ---- copy, move ---- */

static int copy_or_move(struct cli *cli, uint32_t kind)
{
    size_t size = strlen(cli->arguments[0]);
    struct snow_task task = {.kind = kind, .key = {.at = cli->arguments[0], .size = size}};
    struct snow_client *client;
    int result;

    if (size < 1 || size > LIMIT_KEY_SIZE) {
        cli_error(cli, "KEY of %zu bytes: a key has 1 to %u bytes", size, LIMIT_KEY_SIZE);
        return CLI_USAGE;
    }
    if (kind == SNOW_TASK_COPY && cli->copy.from[0] != 0) {
        cli_error(cli, "--from is of `move`: a copy is made of any that can be read");
        return CLI_USAGE;
    }
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    result = find_node(cli, client, "--to", cli->copy.to, &task.to);
    if (result == CLI_DONE && kind == SNOW_TASK_MOVE)
        result = find_node(cli, client, "--from", cli->copy.from, &task.from);
    if (result == CLI_DONE)
        result = run_task(cli, client, &task, cli->copy.background);
    snow_close(client);
    return result;
}

int command_copy(struct cli *cli)
{
    return copy_or_move(cli, SNOW_TASK_COPY);
}

int command_move(struct cli *cli)
{
    return copy_or_move(cli, SNOW_TASK_MOVE);
}

/* ---- drain ---- */

struct drain_sought {
    uint32_t node;
    uint64_t id; /* 0: none */
};

static int look_at_drain(void *owner, const struct snow_task_info *task)
{
    struct drain_sought *sought = owner;

    if (strcmp(task->kind, "drain") == 0 && strcmp(task->state, "running") == 0 &&
        task->from == sought->node)
        sought->id = task->id;
    return 0;
}

static int cancel_drain(const struct cli *cli, struct snow_client *client, uint32_t node)
{
    struct drain_sought sought = {.node = node};
    struct watched watched = {.cli = cli};

    if (cli_told(cli, "tasks", snow_tasks(client, 0, look_at_drain, &sought, NULL)) != CLI_DONE)
        return CLI_FAILED;
    if (sought.id == 0) {
        cli_error(cli, "%s: this node is not being drained", cli->arguments[0]);
        return CLI_FAILED;
    }
    if (cli_told(cli, "cancel", snow_task_cancel(client, sought.id, NULL)) != CLI_DONE)
        return CLI_FAILED;
    return cli_told(cli, "tasks", snow_tasks(client, sought.id, watch_row, &watched, NULL));
}

int command_drain(struct cli *cli)
{
    struct snow_task task = {.kind = SNOW_TASK_DRAIN, .rate = cli->drain.rate_bytes};
    struct snow_client *client;
    int result = cli_client_open(cli, &client);

    if (result != CLI_DONE)
        return result;
    result = find_node(cli, client, "NODE", cli->arguments[0], &task.from);
    if (result == CLI_DONE)
        result = cli->drain.cancel ? cancel_drain(cli, client, task.from)
                                   : run_task(cli, client, &task, cli->drain.background);
    snow_close(client);
    return result;
}

/* ---- task ---- */

static int list_task(void *owner, const struct snow_task_info *task)
{
    const struct watched *watched = owner;

    if (watched->cli->options.json)
        cli_print_json(task_json(task));
    else
        print_task(task);
    ((struct watched *)owner)->found = true;
    return ferror(stdout);
}

static bool read_id(const struct cli *cli, uint64_t *id)
{
    char *end;

    *id = strtoull(cli->arguments[1], &end, 10);
    if (cli->arguments[1][0] >= '0' && cli->arguments[1][0] <= '9' && *end == 0 && *id != 0)
        return true;
    cli_error(cli, "%s: the id of a task is a number, as `task ls` tells it", cli->arguments[1]);
    return false;
}

int command_task(struct cli *cli)
{
    const char *what = cli->argument_count > 0 ? cli->arguments[0] : "ls";
    bool all = strcmp(what, "ls") == 0;
    struct watched watched = {.cli = cli};
    struct snow_client *client;
    uint64_t id = 0;
    int result;

    if ((!all && strcmp(what, "stat") != 0 && strcmp(what, "cancel") != 0) ||
        cli->argument_count != (all ? (cli->argument_count > 0) : 2)) {
        cli_error(cli, "say ls, stat ID or cancel ID");
        return CLI_USAGE;
    }
    if (!all && !read_id(cli, &id))
        return CLI_USAGE;
    result = cli_client_open(cli, &client);
    if (result != CLI_DONE)
        return result;
    enum snow_status status =
        strcmp(what, "cancel") == 0 ? snow_task_cancel(client, id, NULL) : SNOW_OK;

    if (status == SNOW_OK)
        status = snow_tasks(client, id, list_task, &watched, NULL);
    snow_close(client);
    if (status == SNOW_NOT_FOUND || (status == SNOW_OK && !all && !watched.found)) {
        cli_error(cli, "%s: no such task: it ended long ago, or the master has started anew",
                  cli->arguments[1]);
        return CLI_FAILED;
    }
    return cli_told(cli, "tasks", status);
}
