/* snowsim: runs seeds, tells what the checkers found. */
#include "sim/cluster.h"

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

struct arguments {
    uint64_t seed;        /* the first */
    uint64_t seeds;       /* how many */
    const char *scenario; /* NULL: each in turn */
    const char *plant;
    bool verbose;
    bool probes;
};

static const char usage[] =
    "Usage: snowsim [--seed N | --seeds COUNT [--from N]] [--scenario NAME] [--plant NAME]\n"
    "               [--verbose] [--probes]\n\n"
    "Runs whole clusters on virtual time, each from one seed.  Same seed, same run.\n"
    "  --seed N         run this seed alone\n"
    "  --seeds COUNT    run this many seeds, from --from on (default 1)\n"
    "  --from N         first seed (default 1)\n"
    "  --scenario NAME  one scenario (default: each in turn); `list` tells them\n"
    "  --plant NAME     plant a fault that the checkers must find; `list` tells them\n"
    "  --verbose        a line for each seed\n"
    "  --probes         how often rare paths were reached, at the end\n"
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
    return NOTHING_FOUND;
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
        return false;
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

int main(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1, .seeds = 1};
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
    if (arguments.scenario != NULL && (scenario = scenario_find(arguments.scenario)) == NULL) {
        fprintf(stderr, "snowsim: --scenario %s: no such scenario; `--scenario list` tells them\n",
                arguments.scenario);
        return USAGE;
    }
    return run_seeds(&arguments, scenario, faults);
}
