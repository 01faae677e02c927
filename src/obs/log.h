/* The log: one line an event, `time level module message key=value ...`.
 *
 * Problem.  A line must be readable by people and by tests, and no fault may flood the disk.
 * Idea.     Sink and clock are function pointers, so the simulator has its own.  A call site is
 *           known by its module and message; each may write some lines a second, the rest is
 *           counted and told with the next line that is written.
 * Invariants.
 *   G1  A line has no control characters and at most OBS_LINE_SIZE - 1 bytes.
 *   G2  Every event is counted by its level, written or not: a test sees an unexpected warning.
 * Threads.  One log a thread; their sinks may be the same when it is safe to share.
 *
 * Who decides what went wrong logs it, once, with cause and values; callers pass it on. */
#ifndef OBS_LOG_H
#define OBS_LOG_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum obs_level { OBS_DEBUG, OBS_INFO, OBS_WARNING, OBS_ERROR };

#define OBS_LEVEL_COUNT 4
#define OBS_LINE_SIZE 1024   /* bytes of a line with its zero */
#define OBS_SITES 64         /* call sites that are told apart; a power of two */
#define OBS_SITE_LINES_MAX 5 /* lines of a site in a second */

/* What one call site did lately. */
struct obs_site {
    uint64_t id;         /* hash of module and message, 0: free */
    uint64_t second;     /* that `written` counts */
    uint32_t written;    /* lines in that second */
    uint32_t suppressed; /* since the last line that was written */
};

struct obs_log {
    void (*on_line)(void *owner, const char *line); /* no newline in it */
    uint64_t (*wall_ms)(void *owner);               /* milliseconds since 1970 */
    void *owner;
    enum obs_level level;             /* lines below it are counted, not written */
    uint64_t counts[OBS_LEVEL_COUNT]; /* events */
    uint64_t suppressed;              /* events not written because their site was too loud */
    struct obs_site sites[OBS_SITES];
};

void obs_log_init(struct obs_log *log, enum obs_level level,
                  void (*on_line)(void *owner, const char *line), uint64_t (*wall_ms)(void *owner),
                  void *owner);

/* message: a few fixed words; format: "key=value key=value" with what varies, may be "". */
void obs_log_write(struct obs_log *log, enum obs_level level, const char *module,
                   const char *message, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* "debug", "info", "warning", "error"; false: none of them. */
bool obs_level_parse(struct bytes name, enum obs_level *level);
const char *obs_level_name(enum obs_level level);

/* Bytes from outside as a value of a line: quoted, escaped, cut.  Use as
 * obs_quoted(key).text in the arguments of obs_log_write. */
struct obs_quoted {
    char text[128];
};
struct obs_quoted obs_quoted(struct bytes data);

#endif
