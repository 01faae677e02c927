/* snowsim: runs seeds, or replays a trace; tells what the checkers found. */
#include "base/text.h"
#include "sim/cluster.h"
#include "sim/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOTHING_FOUND 0
#define FOUND 1
#define USAGE 2

#define REPLAY "replay"
#define BLOCK_BYTES_MAX 65536u
#define PACE_MAX 1e6

struct arguments {
    uint64_t seed;        /* the first */
    uint64_t seeds;       /* how many */
    const char *scenario; /* NULL: each in turn */
    const char *plant;
    bool verbose;
    bool probes;
    struct replay_arguments {
        const char *trace; /* file */
        const char *pool;
        const char *pace;
        const char *policy;
        uint64_t requests; /* 0: all */
        uint64_t block_bytes;
    } replay;
};

static const char usage[] =
    "Usage: snowsim [--seed N | --seeds COUNT [--from N]] [--scenario NAME] [--plant NAME]\n"
    "               [--verbose] [--probes]\n"
    "       snowsim --scenario replay --trace FILE [--pool P%|BLOCKS] [--requests N] [--pace F]\n"
    "               [--policy NAME] [--block-bytes N] [--seed N]\n\n"
    "Runs whole clusters on virtual time, each from one seed.  Same seed, same run.\n"
    "  --seed N         run this seed alone\n"
    "  --seeds COUNT    run this many seeds, from --from on (default 1)\n"
    "  --from N         first seed (default 1)\n"
    "  --scenario NAME  one scenario (default: each in turn); `list` tells them\n"
    "  --plant NAME     plant a fault that the checkers must find; `list` tells them\n"
    "  --verbose        a line for each seed\n"
    "  --probes         how often rare paths were reached, at the end\n"
    "The scenario replay plays a request trace on one node, by one client, and tells what was "
    "hit,\n"
    "how many objects were evicted, and a hash of their keys in order:\n"
    "  --trace FILE     a request a line, as for `snowskin replay`\n"
    "  --pool P%|BLOCKS what the pool holds: of the distinct blocks of what is played (default "
    "5%)\n"
    "  --requests N     the first N requests; 0: all (default)\n"
    "  --pace F         factor on the time stamps: 0.01 is a hundred times as fast (default 1)\n"
    "  --policy NAME    what is evicted first: rrc (default), lru, fifo, s3fifo\n"
    "  --block-bytes N  bytes of a block, 1 to 65536 (default 256)\n"
    "Exit status: 0 nothing was found; 1 something was, with the seed in the last line; 2 usage.\n";

static bool take_number(const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == 0;
}

static bool find_plant(const char *name, fault_set *faults)
{
#define FAULT_ROW(row, checker, text) \
    if (strcmp(name, #row) == 0) { \
        *faults = 1u << FAULT_##row; \
        return true; \
    }
#include "base/faults.def"
#undef FAULT_ROW
    return false;
}

static int list_plants(void)
{
#define FAULT_ROW(name, checker, text) printf("%-18s %-8s %s\n", #name, #checker, text);
#include "base/faults.def"
#undef FAULT_ROW
    return NOTHING_FOUND;
}

static int list_scenarios(void)
{
    for (uint32_t i = 0; i < scenario_count(); i++)
        printf("%-16s %s\n", scenario_at(i)->name, scenario_at(i)->text);
    printf("%-16s %s\n", REPLAY, "a request trace, at any speed; needs --trace");
    return NOTHING_FOUND;
}

static bool take_replay_option(struct replay_arguments *replay, const char *name, const char *value)
{
    if (strcmp(name, "--trace") == 0)
        replay->trace = value;
    else if (strcmp(name, "--pool") == 0)
        replay->pool = value;
    else if (strcmp(name, "--pace") == 0)
        replay->pace = value;
    else if (strcmp(name, "--policy") == 0)
        replay->policy = value;
    else if (strcmp(name, "--requests") == 0)
        return take_number(value, &replay->requests);
    else if (strcmp(name, "--block-bytes") == 0)
        return take_number(value, &replay->block_bytes) && replay->block_bytes > 0 &&
               replay->block_bytes <= BLOCK_BYTES_MAX;
    else
        return false;
    return true;
}

static bool take_option(struct arguments *arguments, const char *name, const char *value)
{
    if (strcmp(name, "--seed") == 0 && take_number(value, &arguments->seed))
        arguments->seeds = 1;
    else if (strcmp(name, "--from") == 0 && take_number(value, &arguments->seed))
        ;
    else if (strcmp(name, "--seeds") == 0 && take_number(value, &arguments->seeds) &&
             arguments->seeds > 0)
        ;
    else if (strcmp(name, "--scenario") == 0)
        arguments->scenario = value;
    else if (strcmp(name, "--plant") == 0)
        arguments->plant = value;
    else
        return take_replay_option(&arguments->replay, name, value);
    return true;
}

static bool take_arguments(struct arguments *arguments, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0 || strcmp(argv[i], "--probes") == 0) {
            *(argv[i][2] == 'v' ? &arguments->verbose : &arguments->probes) = true;
            continue;
        }
        if (i + 1 == argc || !take_option(arguments, argv[i], argv[i + 1])) {
            fprintf(stderr, "snowsim: %s%s%s is not understood\n", argv[i], i + 1 < argc ? " " : "",
                    i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
        i++;
    }
    return true;
}

static void print_line(void *owner, const char *line)
{
    (void)owner;
    printf("  %s\n", line);
}

static void print_probes(const struct probes *probes)
{
    for (uint32_t i = 0; i < PROBE_COUNT; i++)
        printf("probe %-26s %" PRIu64 "\n", probe_name(i), probes->counts[i]);
}

static uint64_t wall_ms(void)
{
    return (uint64_t)time(NULL) * 1000;
}

/* The last line of a run that a broken invariant ends: the checkers of core and node assert. */
static char last_line[160];

static void on_abort(int number)
{
    (void)number;
    ssize_t written = write(STDOUT_FILENO, last_line, strlen(last_line));

    (void)written;
    _exit(FOUND);
}

static int run_seeds(const struct arguments *arguments, const struct scenario *only,
                     fault_set faults)
{
    uint64_t began_ms = wall_ms();
    uint64_t events = 0;
    uint64_t puts = 0;
    uint64_t gets = 0;
    uint64_t hits = 0;
    struct probes probes = {0};

    for (uint64_t i = 0; i < arguments->seeds; i++) {
        uint64_t seed = arguments->seed + i;
        const struct scenario *scenario =
            only != NULL ? only : scenario_at((uint32_t)(seed % scenario_count()));
        const char *of = arguments->plant == NULL ? "" : " plant ";

        snprintf(last_line, sizeof(last_line), "seed %" PRIu64 " scenario %s%s%s\n", seed,
                 scenario->name, of, arguments->plant == NULL ? "" : arguments->plant);
        struct run_result result = run_seed(scenario, seed, faults, print_line, NULL);

        events += result.events;
        puts += result.puts;
        gets += result.gets;
        hits += result.hits;
        probe_merge(&probes, &result.probes);
        if (arguments->verbose)
            printf("seed %" PRIu64 " %s: %" PRIu64 " events, %" PRIu64 " puts, %" PRIu64
                   " gets, %" PRIu64 " hits, hash %016" PRIx64 "\n",
                   seed, scenario->name, result.events, result.puts, result.gets, result.hits,
                   result.hash);
        if (result.finding[0] != 0) {
            printf("found after %" PRIu64 " seeds, at %.3f s: %s\n", i + 1,
                   (double)result.finding_ns / 1e9, result.finding);
            fputs(last_line, stdout);
            return FOUND;
        }
    }
    uint64_t took_ms = wall_ms() - began_ms;

    printf("%" PRIu64 " seeds, nothing found: %" PRIu64 " events, %" PRIu64 " puts, %" PRIu64
           " gets, %" PRIu64 " hits; %.0f seeds a minute\n",
           arguments->seeds, events, puts, gets, hits,
           (double)arguments->seeds * 60000 / (double)(took_ms == 0 ? 1000 : took_ms));
    if (arguments->probes)
        print_probes(&probes);
    return NOTHING_FOUND;
}

/* ---- replay ---- */

static int wrong_replay(const char *what, const char *value, const char *why)
{
    fprintf(stderr, "snowsim: %s %s: %s\n", what, value, why);
    return USAGE;
}

/* The whole file; NULL: it can not be read, or is larger than a trace may be. */
static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    uint8_t *grown;
    size_t got = 1;

    if (file == NULL)
        return NULL;
    *size = 0;
    while (got > 0 && *size <= TRACE_SIZE_MAX && (grown = realloc(data, *size + MIB)) != NULL) {
        data = grown;
        got = fread(data + *size, 1, MIB, file);
        *size += got;
    }
    if (got > 0 || ferror(file)) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

static bool take_pool(const char *text, uint64_t distinct, uint64_t *blocks)
{
    char *end;
    double percent = strtod(text, &end);

    if (take_number(text, blocks))
        return *blocks > 0 && *blocks <= UINT32_MAX;
    if (end == text || strcmp(end, "%") != 0 || !(percent > 0) || percent > 1000)
        return false;
    *blocks = (uint64_t)((double)distinct * percent / 100);
    *blocks += *blocks == 0;
    return true;
}

static bool take_policy(const char *text, uint32_t *policy)
{
    for (*policy = 0; *policy <= CORE_POLICY_S3FIFO; ++*policy) {
        if (strcmp(core_policy_name(*policy), text) == 0)
            return true;
    }
    return false;
}

static void print_replay(const struct replay_arguments *arguments, const struct replay_plan *plan,
                         const struct replay_result *result)
{
    printf("replay of %s: pool %" PRIu64 " blocks, pace %s, policy %s\n", arguments->trace,
           plan->pool_blocks, arguments->pace, arguments->policy);
    printf("requests %" PRIu64 ", blocks %" PRIu64 ", hits %" PRIu64 " (%.2f %%), evicted %" PRIu64
           ", order %016" PRIx64 ", %.1f s, %" PRIu64 " events\n",
           result->requests, result->blocks, result->hit_blocks,
           100 * (double)result->hit_blocks / (double)result->blocks, result->evicted,
           result->evicted_hash, (double)result->took_ns / 1e9, result->events);
}

static int run_replay(const struct arguments *arguments)
{
    const struct replay_arguments *replay = &arguments->replay;
    struct replay_plan plan = {.block_bytes = (uint32_t)replay->block_bytes,
                               .seed = arguments->seed};
    struct replay_result result;
    struct trace trace;
    struct text error;
    char reason[256];
    char *end;
    size_t size;
    uint8_t *data;

    plan.pace = strtod(replay->pace, &end);
    if (*end != 0 || end == replay->pace || !(plan.pace >= 0 && plan.pace <= PACE_MAX))
        return wrong_replay("--pace", replay->pace, "no factor from 0 to 1000000");
    if (!take_policy(replay->policy, &plan.policy))
        return wrong_replay("--policy", replay->policy, "none of lru, fifo, rrc, s3fifo");
    data = read_file(replay->trace, &size);
    if (data == NULL)
        return wrong_replay("--trace", replay->trace, "can not be read");
    text_init(&error, reason, sizeof(reason));
    enum snow_status status = trace_parse(bytes_of(data, size), replay->requests, &trace, &error);

    free(data);
    if (status != SNOW_OK)
        return wrong_replay("--trace", replay->trace,
                            status == SNOW_INVALID ? reason : snow_status_text(status));
    plan.trace = &trace;
    if (!take_pool(replay->pool, trace.distinct, &plan.pool_blocks)) {
        trace_free(&trace);
        return wrong_replay("--pool", replay->pool, "neither P% (0 to 1000) nor a count of blocks");
    }
    snprintf(last_line, sizeof(last_line), "seed %" PRIu64 " scenario " REPLAY "\n", plan.seed);
    result = replay_run(&plan, print_line, NULL);
    if (result.finding[0] != 0)
        printf("found: %s\n%s", result.finding, last_line);
    else
        print_replay(replay, &plan, &result);
    trace_free(&trace);
    return result.finding[0] != 0 ? FOUND : NOTHING_FOUND;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .seed = 1,
        .seeds = 1,
        .replay = {.pool = "5%", .pace = "1", .policy = "rrc", .block_bytes = 256}};
    const struct scenario *scenario = NULL;
    fault_set faults = 0;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return NOTHING_FOUND;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGABRT, on_abort);
    if (!take_arguments(&arguments, argc, argv)) {
        fputs(usage, stderr);
        return USAGE;
    }
    if (arguments.plant != NULL && strcmp(arguments.plant, "list") == 0)
        return list_plants();
    if (arguments.scenario != NULL && strcmp(arguments.scenario, "list") == 0)
        return list_scenarios();
    if (arguments.plant != NULL && !find_plant(arguments.plant, &faults)) {
        fprintf(stderr, "snowsim: --plant %s: no such fault; `--plant list` tells them\n",
                arguments.plant);
        return USAGE;
    }
    bool replays = arguments.scenario != NULL && strcmp(arguments.scenario, REPLAY) == 0;

    if (replays != (arguments.replay.trace != NULL)) {
        fprintf(stderr, "snowsim: --scenario " REPLAY " and --trace FILE need each other\n");
        return USAGE;
    }
    if (replays && arguments.plant != NULL)
        return wrong_replay("--plant", arguments.plant, "not with --scenario " REPLAY);
    if (replays)
        return run_replay(&arguments);
    if (arguments.scenario != NULL && (scenario = scenario_find(arguments.scenario)) == NULL) {
        fprintf(stderr, "snowsim: --scenario %s: no such scenario; `--scenario list` tells them\n",
                arguments.scenario);
        return USAGE;
    }
    return run_seeds(&arguments, scenario, faults);
}
