/* stat --curve: the miss-ratio curve, as bars.  The master tells it (core_metrics.def). */
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR 50u
#define POINTS 4u
#define WHOLE 10000u

static const struct point {
    const char *metric;
    const char *name;
    double times;
} points[POINTS] = {
    {"hits_at_half", "1/2 x", 0.5},
    {"hits_at_once", "1 x", 1},
    {"hits_at_double", "2 x", 2},
    {"hits_at_fourfold", "4 x", 4},
};

struct curve {
    uint64_t hits[POINTS];
    uint64_t pool_bytes;
};

static int take(void *owner, const char *name, uint64_t value)
{
    struct curve *curve = owner;

    for (uint32_t i = 0; i < POINTS; i++) {
        if (strcmp(name, points[i].metric) == 0)
            curve->hits[i] = value;
    }
    if (strcmp(name, "pool_bytes") == 0)
        curve->pool_bytes = value;
    return 0;
}

static void draw(const struct curve *curve)
{
    char size[32];

    puts("hits of objects, in percent of their uses, by size of the pool");
    for (uint32_t i = 0; i < POINTS; i++) {
        uint64_t bytes = (uint64_t)((double)curve->pool_bytes * points[i].times);
        uint32_t filled = (uint32_t)(curve->hits[i] * BAR / WHOLE);

        printf("%5s %10s  %-*.*s %6.2f\n", points[i].name, cli_bytes_text(bytes, size), (int)BAR,
               (int)filled, "##################################################",
               (double)curve->hits[i] / 100);
    }
    if (curve->hits[POINTS - 1] == 0)
        puts("nothing was used again so far, or the policy is neither rrc nor lru");
}

static void print(const struct curve *curve)
{
    json_t *rows = json_array();
    char *text;

    for (uint32_t i = 0; i < POINTS; i++)
        json_array_append_new(rows,
                              json_pack("{s:f, s:I, s:f}", "times", points[i].times, "pool_bytes",
                                        (json_int_t)((double)curve->pool_bytes * points[i].times),
                                        "hit_ratio", (double)curve->hits[i] / WHOLE));
    text = json_dumps(rows, 0);
    puts(text == NULL ? "[]" : text);
    free(text);
    json_decref(rows);
}

int cli_stat_curve(struct cli *cli, struct snow_client *client)
{
    struct curve curve = {0};
    enum snow_status status = snow_stats(client, take, &curve, NULL);

    if (snow_status_verdict(status) != SNOW_DONE) {
        cli_error(cli, "stats: %s (%s)", snow_status_text(status), snow_status_name(status));
        return CLI_FAILED;
    }
    if (cli->options.json)
        print(&curve);
    else
        draw(&curve);
    return CLI_DONE;
}
