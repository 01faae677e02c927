#include "cli/replay_plot.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 900
#define LEFT 70
#define RIGHT 880
#define PANEL 200 /* height of one */
#define TOP_HITS 60
#define TOP_LATENCY 330
#define HEIGHT 600

void replay_plot_init(struct replay_plot *plot, uint64_t total)
{
    *plot = (struct replay_plot){.total = total == 0 ? 1 : total};
}

void replay_plot_add(struct replay_plot *plot, const struct replay_told *told)
{
    uint64_t at = plot->done * REPLAY_PLOT_BINS / plot->total;
    struct replay_bin *bin = &plot->bins[at < REPLAY_PLOT_BINS ? at : REPLAY_PLOT_BINS - 1];

    plot->done += told->requests;
    bin->blocks += told->blocks;
    bin->hit_blocks += told->hit_blocks;
    bin->get_us += told->get_us;
    bin->put_us += told->put_us;
    bin->gets += told->get_us > 0;
    bin->puts += told->put_us > 0;
}

/* ---- values of a bin; negative: there is none ------------------------------------------------ */

static double hit_percent(const struct replay_bin *bin)
{
    return bin->blocks == 0 ? -1 : 100.0 * (double)bin->hit_blocks / (double)bin->blocks;
}

static double get_ms(const struct replay_bin *bin)
{
    return bin->gets == 0 ? -1 : bin->get_us / bin->gets / 1e3;
}

static double put_ms(const struct replay_bin *bin)
{
    return bin->puts == 0 ? -1 : bin->put_us / bin->puts / 1e3;
}

/* 1, 2 or 5 times a power of ten: the smallest that is not below. */
static double round_up(double value)
{
    double step = 1e-3;

    while (step * 10 < value)
        step *= 10;
    return value <= step * 2 ? step * 2 : value <= step * 5 ? step * 5 : step * 10;
}

static double largest_ms(const struct replay_plot *plot)
{
    double largest = 1e-3;

    for (uint32_t i = 0; i < REPLAY_PLOT_BINS; i++) {
        double get = get_ms(&plot->bins[i]);
        double put = put_ms(&plot->bins[i]);

        largest = get > largest ? get : largest;
        largest = put > largest ? put : largest;
    }
    return round_up(largest);
}

/* ---- drawing -------------------------------------------------------------------------------- */

static void text(FILE *file, double x, double y, const char *anchor, const char *words)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *words != 0; words++) {
        const char *as = *words == '<' ? "&lt;" : *words == '&' ? "&amp;" : NULL;

        if (as != NULL)
            fputs(as, file);
        else if ((unsigned char)*words >= ' ')
            fputc(*words, file);
    }
    fputs("</text>\n", file);
}

/* A panel with lines at quarters of its height. */
static void axes(FILE *file, const struct replay_plot *plot, double top, double most,
                 const char *name)
{
    char words[64];

    text(file, LEFT, top - 10, "start", name);
    for (int i = 0; i <= 4; i++) {
        double y = top + PANEL - PANEL * i / 4.0;

        fprintf(file, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT,
                RIGHT, y, y);
        snprintf(words, sizeof(words), "%g", most * i / 4);
        text(file, LEFT - 6, y + 4, "end", words);
        snprintf(words, sizeof(words), "%" PRIu64, plot->total * (uint64_t)i / 4);
        text(file, LEFT + (RIGHT - LEFT) * i / 4.0, top + PANEL + 16, "middle", words);
    }
    text(file, (LEFT + RIGHT) / 2.0, top + PANEL + 34, "middle", "requests of the trace");
}

static void line(FILE *file, const struct replay_plot *plot, double top, double most,
                 double (*value)(const struct replay_bin *bin), const char *kind)
{
    fprintf(file, "<polyline class=\"%s\" points=\"", kind);
    for (uint32_t i = 0; i < REPLAY_PLOT_BINS; i++) {
        double at = value(&plot->bins[i]);

        if (at >= 0)
            fprintf(file, "%.1f,%.1f ", LEFT + (RIGHT - LEFT) * (i + 0.5) / REPLAY_PLOT_BINS,
                    top + PANEL - PANEL * at / most);
    }
    fputs("\"/>\n", file);
}

static void legend(FILE *file, double x, double y, const char *kind, const char *words)
{
    fprintf(file, "<polyline class=\"%s\" points=\"%.1f,%.1f %.1f,%.1f\"/>\n", kind, x, y - 4,
            x + 24, y - 4);
    text(file, x + 30, y, "start", words);
}

static void draw(FILE *file, const struct replay_plot *plot, const char *title)
{
    double most_ms = largest_ms(plot);

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n<style>text{font:12px sans-serif;fill:#222}"
            ".grid{stroke:#ddd}polyline{fill:none;stroke-width:1.8}"
            ".hits{stroke:#1a7f37}.get{stroke:#0969da}.put{stroke:#bc4c00}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    text(file, LEFT, 22, "start", title);
    axes(file, plot, TOP_HITS, 100, "blocks found, percent");
    line(file, plot, TOP_HITS, 100, hit_percent, "hits");
    axes(file, plot, TOP_LATENCY, most_ms, "time of a request's read or put, ms (medians)");
    line(file, plot, TOP_LATENCY, most_ms, get_ms, "get");
    line(file, plot, TOP_LATENCY, most_ms, put_ms, "put");
    legend(file, LEFT, TOP_LATENCY + PANEL + 60, "get", "get");
    legend(file, LEFT + 90, TOP_LATENCY + PANEL + 60, "put", "put");
    fputs("</svg>\n", file);
}

char *replay_plot_draw(const struct replay_plot *plot, const char *title, size_t *size)
{
    char *drawn = NULL;
    FILE *file = open_memstream(&drawn, size);

    if (file == NULL)
        return NULL;
    draw(file, plot, title);
    if (fclose(file) == 0)
        return drawn;
    free(drawn);
    return NULL;
}
