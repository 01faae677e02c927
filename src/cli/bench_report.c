/* What bench prints: a table for people, or an object a line for machines. */
#include "cli/bench.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static double ratio_of(const struct bench_result *result)
{
    return result->limit_rate[1] > 0 ? result->rate[1] / result->limit_rate[1] : 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *number_or_null(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static void add_limit(json_t *row, const struct bench_result *result)
{
    json_object_set_new(row, "limit",
                        result->limit == NULL ? json_null() : json_string(result->limit));
    json_object_set_new(row, "limit_per_s", number_or_null(result->limit_rate[1]));
    json_object_set_new(row, "limit_per_s_min", number_or_null(result->limit_rate[0]));
    json_object_set_new(row, "limit_per_s_max", number_or_null(result->limit_rate[2]));
    json_object_set_new(row, "ratio", number_or_null(ratio_of(result)));
    json_object_set_new(row, "limit_p50_us", number_or_null(result->limit_p50_us));
    json_object_set_new(row, "limit_p99_us", number_or_null(result->limit_p99_us));
    json_object_set_new(row, "latency_ratio",
                        number_or_null(
                            result->limit_p50_us > 0 ? result->p50_us / result->limit_p50_us : 0));
}

static void print_json(const struct bench_row *row, const struct bench_result *result)
{
    json_t *object = json_object();
    char *text;

    json_object_set_new(object, "op", json_string(bench_op_name(row->op)));
    json_object_set_new(object, "size", json_integer((json_int_t)row->size));
    json_object_set_new(object, "batch", json_integer(row->batch));
    json_object_set_new(object, "threads", json_integer(row->threads));
    json_object_set_new(object, "transport", json_string(bench_transport_name(row->transport)));
    json_object_set_new(object, "depth", json_integer(row->depth));
    json_object_set_new(object, "copies", json_integer(row->replicas));
    json_object_set_new(object, "items_per_s", json_real(result->rate[1]));
    json_object_set_new(object, "items_per_s_min", json_real(result->rate[0]));
    json_object_set_new(object, "items_per_s_max", json_real(result->rate[2]));
    json_object_set_new(object, "bytes_per_s", json_real(result->rate[1] * (double)row->size));
    json_object_set_new(object, "p50_us", json_real(result->p50_us));
    json_object_set_new(object, "p99_us", json_real(result->p99_us));
    add_limit(object, result);
    json_object_set_new(object, "target", number_or_null(row->target));
    json_object_set_new(object, "server_ns_per_key", number_or_null(result->server_ns_per_key));
    json_object_set_new(object, "table_ns_per_key", number_or_null(result->table_ns_per_key));
    json_object_set_new(object, "cpu_ns_per_item", number_or_null(result->cpu_ns));
    json_object_set_new(object, "limit_cpu_ns_per_item", number_or_null(result->limit_cpu_ns));
    json_object_set_new(object, "wire_bytes", number_or_null((double)result->wire_bytes));
    json_object_set_new(object, "limit_wire_bytes",
                        number_or_null((double)result->limit_wire_bytes));
    text = json_dumps(object, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    puts(text == NULL ? "{}" : text);
    fflush(stdout);
    free(text);
    json_decref(object);
}

/* ---- a table -------------------------------------------------------------------------------- */

/* "1.23 M" */
static const char *rate_text(double rate, char *text, size_t size)
{
    if (rate >= 1e9)
        snprintf(text, size, "%.2f G", rate / 1e9);
    else if (rate >= 1e6)
        snprintf(text, size, "%.2f M", rate / 1e6);
    else if (rate >= 1e3)
        snprintf(text, size, "%.1f k", rate / 1e3);
    else
        snprintf(text, size, "%.0f", rate);
    return text;
}

void bench_report_begin(const struct bench *bench)
{
    const struct bench_options *options = &bench->cli->bench;
    const struct cli_options *given = &bench->cli->options;

    if (given->json)
        return;
    printf("Each side of a row ran for %" PRIu64 " ms before it was measured, then %" PRIu64
           " rounds of %" PRIu64 " ms in turn; medians.\n"
           "Connections: congestion control %s, buffers %s, no delay.\n\n",
           options->warm_ns / NS_PER_MS, options->rounds, options->window_ns / NS_PER_MS,
           given->congestion[0] == 0 ? "cubic (near peers)" : given->congestion,
           given->send_buffer_bytes == 0 && given->receive_buffer_bytes == 0
               ? "as the system grows them"
               : "as given");
    printf("%-34s %9s %9s %9s %9s   %-8s %9s %9s %6s %6s %6s\n", "operation", "items/s", "bytes/s",
           "p50 us", "p99 us", "limit", "items/s", "p50 us", "cpu", "ratio", "aim");
}

static void print_table(const struct bench_row *row, const struct bench_result *result)
{
    char name[64];
    char size[32];
    char texts[3][16];
    int used;

    used = snprintf(name, sizeof(name), "%s", bench_op_name(row->op));
    if (row->size > 0)
        used += snprintf(name + used, sizeof(name) - (size_t)used, " %s",
                         cli_bytes_text(row->size, size));
    used += snprintf(name + used, sizeof(name) - (size_t)used, " x %u, %s", row->batch,
                     bench_transport_name(row->transport));
    if (row->depth > 1)
        used += snprintf(name + used, sizeof(name) - (size_t)used, ", depth %u", row->depth);
    if (row->threads > 1)
        used += snprintf(name + used, sizeof(name) - (size_t)used, ", %u threads", row->threads);
    if (row->replicas > 1)
        snprintf(name + used, sizeof(name) - (size_t)used, ", %u copies", row->replicas);
    printf("%-34s %9s %9s %9.1f %9.1f", name, rate_text(result->rate[1], texts[0], 16),
           row->size == 0 ? "" : rate_text(result->rate[1] * (double)row->size, texts[1], 16),
           result->p50_us, result->p99_us);
    if (result->limit != NULL)
        printf("   %-8s %9s %9.1f %6.2f %6.2f", result->limit,
               rate_text(result->limit_rate[1], texts[2], 16), result->limit_p50_us,
               result->limit_cpu_ns > 0 ? result->cpu_ns / result->limit_cpu_ns : 0,
               ratio_of(result));
    if (row->target > 0)
        printf(" %6.2f", row->target);
    printf("\n");
    if (result->server_ns_per_key > 0)
        printf("%-34s master %.0f ns a key; its table and parsing alone %.0f: %.2f times\n", "",
               result->server_ns_per_key, result->table_ns_per_key,
               result->server_ns_per_key / result->table_ns_per_key);
    fflush(stdout);
}

void bench_report_row(const struct bench *bench, const struct bench_row *row,
                      const struct bench_result *result)
{
    if (bench->cli->options.json)
        print_json(row, result);
    else
        print_table(row, result);
}

void bench_report_end(const struct bench *bench)
{
    if (!bench->cli->options.json)
        printf("\nratio: items/s of the operation to those of its limit: a program that does the "
               "same exchanges\nover the same kind of sockets, or memory, and nothing else.  cpu: "
               "processor "
               "time an item of all processes,\nin times that of the limit's.\n");
}
