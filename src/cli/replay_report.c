#include "cli/replay_report.h"

#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void replay_report_init(struct replay_report *report)
{
    memset(report, 0, sizeof(*report));
}

void replay_report_deinit(struct replay_report *report)
{
    free(report->put.us);
    free(report->get.us);
}

static bool add_times(struct replay_times *times, const json_t *list)
{
    size_t count = json_array_size(list);
    uint32_t *grown = realloc(times->us, (times->count + count + 1) * sizeof(*grown));

    if (grown == NULL || !json_is_array(list))
        return false;
    times->us = grown;
    for (size_t i = 0; i < count; i++)
        times->us[times->count++] = (uint32_t)json_integer_value(json_array_get(list, i));
    return true;
}

bool replay_report_add(struct replay_report *report, const json_t *result)
{
#define ROW(name) \
    report->counters.name += (uint64_t)json_integer_value(json_object_get(result, #name));
    REPLAY_COUNTERS(ROW)
#undef ROW
    return add_times(&report->put, json_object_get(result, "put_us")) &&
           add_times(&report->get, json_object_get(result, "get_us"));
}

void replay_report_stat(struct replay_report *report, const char *name, uint64_t value)
{
#define ROW(row) \
    if (strcmp(name, #row) == 0) \
        report->row = value;
    REPLAY_STATS(ROW)
#undef ROW
}

void replay_report_since(struct replay_report *report, const struct replay_report *before)
{
#define ROW(row) report->row = report->row > before->row ? report->row - before->row : 0;
    REPLAY_STATS(ROW)
#undef ROW
}

bool replay_report_is_clean(const struct replay_report *report)
{
    return report->counters.wrong_bytes == 0 && report->counters.failed_puts == 0 &&
           report->counters.failed_gets == 0;
}

/* ---- printing ---- */

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static uint32_t percentile(const struct replay_times *times, uint64_t per_mille)
{
    uint64_t at = times->count * per_mille / 1000;

    if (times->count == 0)
        return 0;
    return times->us[at < times->count ? at : times->count - 1];
}

static json_t *json_times(const struct replay_times *times)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "p50", (json_int_t)percentile(times, 500), "p90",
                     (json_int_t)percentile(times, 900), "p99", (json_int_t)percentile(times, 990),
                     "p999", (json_int_t)percentile(times, 999));
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

static void print_json(const struct replay_report *report, const struct trace *trace)
{
    json_t *root = json_object();
    char *text;

#define ROW(name) json_object_set_new(root, #name, json_integer((json_int_t)report->counters.name));
    REPLAY_COUNTERS(ROW)
#undef ROW
#define ROW(name) json_object_set_new(root, #name, json_integer((json_int_t)report->name));
    REPLAY_STATS(ROW)
#undef ROW
    json_object_set_new(root, "hit_ratio",
                        json_real(ratio(report->counters.hit_blocks, report->counters.blocks)));
    json_object_set_new(root, "infinite_hit_ratio",
                        json_real(ratio(trace->infinite_hits, trace->block_count)));
    json_object_set_new(root, "wall_s", json_real((double)report->wall_ns / 1e9));
    json_object_set_new(root, "put_us", json_times(&report->put));
    json_object_set_new(root, "get_us", json_times(&report->get));
    text = json_dumps(root, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    if (text != NULL)
        puts(text);
    free(text);
    json_decref(root);
}

static void print_times(const char *name, const struct replay_times *times)
{
    printf("  %s batches %8" PRIu64 "   p50 %6u us   p90 %6u us   p99 %6u us   p99.9 %6u us\n",
           name, times->count, percentile(times, 500), percentile(times, 900),
           percentile(times, 990), percentile(times, 999));
}

static void print_text(const struct cli *cli, const struct replay_report *report,
                       const struct trace *trace)
{
    const struct replay_counters *counters = &report->counters;
    double wall_s = (double)report->wall_ns / 1e9;
    char put[32];
    char got[32];
    char memory[32];

    printf("%s: %" PRIu64 " requests, %" PRIu64 " blocks of %" PRIu64 " bytes, %" PRIu64
           " distinct\n",
           cli->arguments[0], counters->requests, counters->blocks, cli->replay.block_bytes_bytes,
           trace->distinct);
    if (!cli->master_given)
        printf("pool %s (%s of memory), policy %s, %" PRIu64 " client processes\n",
               cli->replay.pool, cli_bytes_text(cli->node.memory_bytes, memory),
               core_policy_name(cli->core.policy), cli->replay.clients);
    else
        printf("the cluster of %s, its own pool and policy, %" PRIu64 " client processes\n",
               cli->options.master, cli->replay.clients);
    printf("\n  hit ratio    %6.2f %%   (an infinite cache: %.2f %%)\n",
           100 * ratio(counters->hit_blocks, counters->blocks),
           100 * ratio(trace->infinite_hits, trace->block_count));
    if (cli->replay.members > 1)
        printf("  partial blocks %4" PRIu64 "   (%.3f %% of those asked for; %" PRIu64
               " members a block, groups %s)\n",
               counters->partial_blocks, 100 * ratio(counters->partial_blocks, counters->blocks),
               cli->replay.members, cli->replay.groups == REPLAY_GROUPS_ON ? "on" : "off");
    printf("  wrong bytes  %6" PRIu64 "     failed puts %" PRIu64 "     failed gets %" PRIu64 "\n",
           counters->wrong_bytes, counters->failed_puts, counters->failed_gets);
    printf("  evicted      %6" PRIu64 "     puts waited %" PRIu64 "     leases broken %" PRIu64
           "\n",
           report->evicted_objects, report->puts_waited, report->leases_broken);
    printf("  put %s, got %s in %.1f s (%.0f MB/s, %.0f requests/s)\n\n",
           cli_bytes_text(counters->put_bytes, put), cli_bytes_text(counters->get_bytes, got),
           wall_s, (double)(counters->put_bytes + counters->get_bytes) / 1e6 / wall_s,
           (double)counters->requests / wall_s);
    print_times("put", &report->put);
    print_times("get", &report->get);
}

void replay_report_print(const struct cli *cli, struct replay_report *report,
                         const struct trace *trace)
{
    qsort(report->put.us, report->put.count, sizeof(uint32_t), by_value);
    qsort(report->get.us, report->get.count, sizeof(uint32_t), by_value);
    if (cli->options.json)
        print_json(report, trace);
    else
        print_text(cli, report, trace);
}
