/* dev, master, node: processes that serve until they are told to stop. */
#include "cli/cli.h"
#include "master/master.h"
#include "master/pages.h"
#include "node/node.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_NS (100 * NS_PER_MS)
#define IN_USE_NS (4 * NS_PER_S) /* how long a segment of another process is waited for */
#define DRAIN_CHECK_NS (5 * NS_PER_MS)
#define DRAIN_NS (3 * NS_PER_S)

struct service {
    struct env_signals signals;
    struct env_timer timer;
    struct env_loop *loop;
    struct cli *cli;
    struct obs_log master_log; /* a log for each thread that writes */
    struct obs_log node_log;
    struct master *master;
    struct master_pages *pages;
    struct node *node;
    uint64_t stop_by_ns;
    bool stopping;
    bool told; /* that it is mounted */
};

static void on_signal(struct env_signals *signals, int number)
{
    struct service *service = list_entry(signals, struct service, signals);

    if (service->stopping)
        _Exit(128 + number); /* asked twice: at once */
    service->stopping = true;
    service->stop_by_ns = env_now_ns(service->cli->env) + DRAIN_NS;
    obs_log_write(&service->cli->log, OBS_INFO, "cli", "stopping", "signal=%d", number);
    env_timer_arm(service->loop, &service->timer, 0);
}

/* Transfers under way may end, for a while; then the master is told. */
static bool is_drained(const struct service *service)
{
    if (service->node == NULL || env_now_ns(service->cli->env) >= service->stop_by_ns)
        return true;
    if (node_is_idle(service->node))
        node_leave(service->node);
    return node_has_left(service->node);
}

static void on_check(struct env_timer *timer)
{
    struct service *service = list_entry(timer, struct service, timer);

    bool emptied =
        service->node != NULL && service->master == NULL && node_is_drained(service->node);

    if (emptied || (service->stopping && is_drained(service)) ||
        (service->master != NULL && master_has_failed(service->master))) {
        env_loop_stop(service->loop);
        return;
    }
    if (service->node != NULL && !service->told && node_is_mounted(service->node)) {
        service->told = true;
        printf("ready\n");
        fflush(stdout);
    }
    env_timer_arm(service->loop, &service->timer,
                  env_now_ns(service->cli->env) + (service->stopping ? DRAIN_CHECK_NS : CHECK_NS));
}

static int open_pages(struct service *service)
{
    struct cli *cli = service->cli;
    const char *reason = "";

    if (cli->master.http_listen[0] == 0)
        return CLI_DONE;
    if (master_pages_open(service->master, cli->master.http_listen, cli->master.http_drains,
                          &service->pages, &reason) != SNOW_OK) {
        cli_error(cli, "--http-listen %s: %s", cli->master.http_listen, reason);
        return CLI_FAILED;
    }
    printf("http %u\n", master_pages_port(service->pages));
    fflush(stdout);
    return CLI_DONE;
}

static int open_master(struct service *service)
{
    struct cli *cli = service->cli;
    const char *reason = "";
    enum snow_status status = master_open(cli->env, &cli->master, &cli->core, &service->master_log,
                                          &service->master, &reason);

    if (status != SNOW_OK) {
        cli_error(cli, "a master at %s%s%s (%s): %s", cli->master.listen,
                  cli->master.state_dir[0] == 0 ? "" : " with its state in ", cli->master.state_dir,
                  snow_status_name(status), reason);
        return CLI_FAILED;
    }
    printf("master %s\n", master_address(service->master));
    fflush(stdout);
    return open_pages(service);
}

/* Clients of this host that an earlier process of the node had may have its files mapped a moment
 * longer than it lived. */
static enum snow_status open_when_free(struct service *service, const char *token,
                                       const char **reason)
{
    struct cli *cli = service->cli;
    uint64_t until_ns = env_now_ns(cli->env) + IN_USE_NS;
    enum snow_status status = SNOW_IN_USE;

    while (status == SNOW_IN_USE && !service->stopping) {
        status = node_open(cli->env, &cli->node, bytes_of_string(token), &service->node_log,
                           &service->node, reason);
        if (status != SNOW_IN_USE || env_now_ns(cli->env) >= until_ns)
            return status;
        env_loop_turn(service->loop, CHECK_NS, 0);
    }
    return status;
}

static int open_node(struct service *service, const char *token)
{
    struct cli *cli = service->cli;
    char text[32];

    if (cli->node.congestion[0] != 0 && !env_congestion_is_usable(cli->node.congestion)) {
        cli_error(cli, "--congestion %s: the kernel does not give it", cli->node.congestion);
        return CLI_USAGE;
    }
    const char *reason = "";
    enum snow_status status = open_when_free(service, token, &reason);

    if (status != SNOW_OK) {
        cli_error(cli, "a node of %s at %s%s%s for the master at %s (%s): %s",
                  cli_bytes_text(cli->node.memory_bytes, text), cli->node.listen,
                  cli->node.segment_dir[0] == 0 ? "" : " with its segment in ",
                  cli->node.segment_dir, cli->node.master, snow_status_name(status), reason);
        return CLI_FAILED;
    }
    printf("node %s memory %s\n", node_address(service->node),
           cli_bytes_text(cli->node.memory_bytes, text));
    fflush(stdout);
    return CLI_DONE;
}

static int serve(struct cli *cli, bool with_master, bool with_node, const char *token)
{
    struct service service = {.cli = cli, .master_log = cli->log, .node_log = cli->log};
    int result = CLI_DONE;

    if (env_loop_create(cli->env, "main", &service.loop) != SNOW_OK)
        return CLI_FAILED;
    service.signals.on_event = on_signal;
    service.timer.on_event = on_check;
    if (env_signals_watch(service.loop, &service.signals) != SNOW_OK) {
        cli_error(cli, "can not watch signals");
        result = CLI_FAILED;
    }
    if (result == CLI_DONE && with_master)
        result = open_master(&service);
    if (result == CLI_DONE && with_master && with_node)
        cli->node.master = master_address(service.master);
    if (result == CLI_DONE && with_node)
        result = open_node(&service, token);
    if (result == CLI_DONE) {
        env_timer_arm(service.loop, &service.timer, env_now_ns(cli->env));
        env_loop_run(service.loop);
    }
    if (service.master != NULL && master_has_failed(service.master))
        result = CLI_FAILED;
    if (service.pages != NULL)
        master_pages_close(service.pages);
    if (service.node != NULL)
        node_close(service.node);
    if (service.master != NULL)
        master_close(service.master);
    env_timer_cancel(&service.timer);
    env_signals_unwatch(&service.signals);
    env_loop_destroy(service.loop);
    return result;
}

int command_dev(struct cli *cli)
{
    if (!cli_core_is_valid(cli))
        return CLI_USAGE;
    return serve(cli, true, true, cli->master.token);
}

int command_master(struct cli *cli)
{
    if (!cli_core_is_valid(cli))
        return CLI_USAGE;
    return serve(cli, true, false, "");
}

int command_node(struct cli *cli)
{
    return serve(cli, false, true, cli->node.token);
}
