/* match: how much of a chain is there, and which nodes hold it. */
#include "base/limits.h"
#include "cli/cli.h"
#include "snowskin/groups.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4096u

static size_t told_nodes(const struct snow_chain *chain)
{
    return chain->node_count < chain->node_room ? chain->node_count : chain->node_room;
}

static void print_text(const struct snow_chain *chain)
{
    char bytes[32];

    printf("%zu of %zu blocks", chain->matched, chain->count);
    if (chain->stop != SNOW_OK)
        printf("; the next one: %s (%s)", snow_status_text(chain->stop),
               snow_status_name(chain->stop));
    printf("\n");
    for (size_t i = 0; i < told_nodes(chain); i++) {
        const struct snow_match_node *node = &chain->nodes[i];

        printf("node %-6u %6u leading, %6u in all, %s\n", node->node, node->leading, node->blocks,
               cli_bytes_text(node->bytes, bytes));
    }
}

static void print_json(const struct snow_chain *chain)
{
    json_t *runs = json_array();
    json_t *nodes = json_array();

    for (size_t i = 0; i < chain->run_count; i++) {
        const struct snow_match_run *run = &chain->runs[i];

        json_array_append_new(runs,
                              json_pack("{s:I, s:I, s:I}", "node", (json_int_t)run->node, "tier",
                                        (json_int_t)run->tier, "count", (json_int_t)run->count));
    }
    for (size_t i = 0; i < told_nodes(chain); i++) {
        const struct snow_match_node *node = &chain->nodes[i];

        json_array_append_new(
            nodes, json_pack("{s:I, s:I, s:I, s:I, s:I}", "node", (json_int_t)node->node, "tier",
                             (json_int_t)node->tier, "leading", (json_int_t)node->leading, "blocks",
                             (json_int_t)node->blocks, "bytes", (json_int_t)node->bytes));
    }
    cli_print_json(json_pack("{s:I, s:I, s:s?, s:o, s:o}", "blocks", (json_int_t)chain->count,
                             "matched", (json_int_t)chain->matched, "stop",
                             chain->stop == SNOW_OK ? NULL : snow_status_name(chain->stop), "runs",
                             runs, "nodes", nodes));
}

static int match(struct cli *cli, struct snow_client *client, struct snow_chain *chain)
{
    enum snow_status status = snow_match_prefix(client, chain, NULL);

    if (status != SNOW_OK) {
        cli_error(cli, "%s (%s)", snow_status_text(status), snow_status_name(status));
        return CLI_FAILED;
    }
    if (cli->options.json)
        print_json(chain);
    else
        print_text(chain);
    return chain->matched == chain->count ? CLI_DONE : CLI_FAILED;
}

int command_match(struct cli *cli)
{
    size_t count = (size_t)cli->argument_count;
    struct snow_key *keys = calloc(count, sizeof(*keys));
    struct snow_match_run *runs = calloc(count, sizeof(*runs));
    struct snow_match_node *nodes = calloc(NODES_MAX, sizeof(*nodes));
    struct snow_chain chain = {.blocks = keys,
                               .count = count,
                               .groups = cli->match.groups,
                               .members = (uint32_t)cli->match.members,
                               .runs = runs,
                               .run_room = count,
                               .nodes = nodes,
                               .node_room = NODES_MAX};
    struct snow_client *client = NULL;
    int result = CLI_FAILED;

    for (size_t i = 0; i < count && keys != NULL; i++)
        keys[i] = (struct snow_key){.at = cli->arguments[i], .size = strlen(cli->arguments[i])};
    if (keys == NULL || runs == NULL || nodes == NULL)
        cli_error(cli, "out of memory");
    else
        result = cli_client_open(cli, &client);
    if (client != NULL) {
        result = match(cli, client, &chain);
        snow_close(client);
    }
    free(keys);
    free(runs);
    free(nodes);
    return result;
}
