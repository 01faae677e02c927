/* Plot of a replay: hit ratio and latency along the trace, as an SVG file.
 *
 * Idea.  Client processes tell every few requests what these did; the trace is cut into as many
 *        bins as the drawing has room for, and what was told while a bin's requests were played is
 *        the bin's.
 * Threads.  The caller's. */
#ifndef CLI_REPLAY_PLOT_H
#define CLI_REPLAY_PLOT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define REPLAY_PLOT_BINS 120u

/* What some requests did. */
struct replay_told {
    uint64_t requests;
    uint64_t blocks;
    uint64_t hit_blocks;
    double get_us; /* median of their reads; 0: there was none */
    double put_us;
};

struct replay_plot {
    uint64_t total; /* requests of the trace */
    uint64_t done;
    struct replay_bin {
        uint64_t blocks;
        uint64_t hit_blocks;
        double get_us; /* sums */
        double put_us;
        uint32_t gets; /* summands */
        uint32_t puts;
    } bins[REPLAY_PLOT_BINS];
};

void replay_plot_init(struct replay_plot *plot, uint64_t total);
void replay_plot_add(struct replay_plot *plot, const struct replay_told *told);
/* The drawing, for the caller to free; NULL: out of memory. */
char *replay_plot_draw(const struct replay_plot *plot, const char *title, size_t *size);

#endif
