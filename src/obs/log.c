#include "obs/log.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/text.h"

#define QUOTED_BYTES 24 /* of which each may take four */

static const char *const level_names[OBS_LEVEL_COUNT] = {"debug", "info", "warning", "error"};

void obs_log_init(struct obs_log *log, enum obs_level level,
                  void (*on_line)(void *owner, const char *line), uint64_t (*wall_ms)(void *owner),
                  void *owner)
{
    *log = (struct obs_log){.on_line = on_line, .wall_ms = wall_ms, .owner = owner, .level = level};
}

/* Days since 1970 to year, month, day (H. Hinnant, chrono-compatible date algorithms, 2013). */
static void add_date(struct text *text, uint64_t days)
{
    uint64_t shifted = days + 719468; /* since 0000-03-01 */
    uint64_t era = shifted / 146097;
    uint64_t of_era = shifted % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153; /* 0: March */
    uint64_t day = of_year - (153 * month + 2) / 5 + 1;

    month = month < 10 ? month + 3 : month - 9;
    year = year + era * 400 + (month <= 2 ? 1 : 0);
    text_add(text, "%04u-%02u-%02u", (unsigned)year, (unsigned)month, (unsigned)day);
}

static void add_time(struct text *text, uint64_t wall_ms)
{
    uint64_t second = wall_ms / 1000 % 86400;

    add_date(text, wall_ms / 1000 / 86400);
    text_add(text, "T%02u:%02u:%02u.%03uZ", (unsigned)(second / 3600), (unsigned)(second / 60 % 60),
             (unsigned)(second % 60), (unsigned)(wall_ms % 1000));
}

/* The site's entry; one that shares its place with another takes it over. */
static struct obs_site *site_of(struct obs_log *log, const char *module, const char *message)
{
    uint64_t id =
        hash_seeded(bytes_of_string(message), hash_seeded(bytes_of_string(module), 0)) | 1;
    struct obs_site *site = &log->sites[(id >> 8) & (OBS_SITES - 1)];

    if (site->id != id)
        *site = (struct obs_site){.id = id};
    return site;
}

static bool may_write(struct obs_log *log, struct obs_site *site, uint64_t second)
{
    if (site->second != second) {
        site->second = second;
        site->written = 0;
    }
    if (site->written >= OBS_SITE_LINES_MAX) {
        site->suppressed++;
        log->suppressed++;
        return false;
    }
    site->written++;
    return true;
}

/* Control characters would let bytes from outside forge lines. */
static void blank_controls(char *line)
{
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < 0x20 || *line == 0x7f)
            *line = '?';
    }
}

void obs_log_write(struct obs_log *log, enum obs_level level, const char *module,
                   const char *message, const char *format, ...)
{
    char line[OBS_LINE_SIZE];
    struct text text;
    va_list arguments;

    ASSERT(level >= 0 && level < OBS_LEVEL_COUNT);
    log->counts[level]++;
    if (level < log->level)
        return;
    uint64_t wall_ms = log->wall_ms(log->owner);
    struct obs_site *site = site_of(log, module, message);
    if (!may_write(log, site, wall_ms / 1000))
        return;
    text_init(&text, line, sizeof(line));
    add_time(&text, wall_ms);
    text_add(&text, " %s %s %s", level_names[level], module, message);
    if (site->suppressed > 0)
        text_add(&text, " suppressed=%u", site->suppressed);
    site->suppressed = 0;
    if (format[0] != '\0') {
        text_add(&text, " ");
        va_start(arguments, format);
        text_add_list(&text, format, arguments);
        va_end(arguments);
    }
    blank_controls(line);
    log->on_line(log->owner, line);
}

bool obs_level_parse(struct bytes name, enum obs_level *level)
{
    for (int i = 0; i < OBS_LEVEL_COUNT; i++) {
        if (bytes_equal(name, bytes_of_string(level_names[i]))) {
            *level = (enum obs_level)i;
            return true;
        }
    }
    return false;
}

const char *obs_level_name(enum obs_level level)
{
    ASSERT(level >= 0 && level < OBS_LEVEL_COUNT);
    return level_names[level];
}

struct obs_quoted obs_quoted(struct bytes data)
{
    struct obs_quoted quoted;
    struct text text;

    text_init(&text, quoted.text, sizeof(quoted.text));
    text_add_bytes(&text, data, QUOTED_BYTES);
    return quoted;
}
