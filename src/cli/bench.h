/* bench: operations and their physical limits, measured in one run.
 *
 * Problem.  Absolute numbers of a machine that others use too say little.
 * Idea.     Each row has two sides: the operation as applications call it, and a limit program that
 *           does the same exchanges over the same kind of sockets without a store.  Their rounds
 *           alternate, and the ratio of their medians is what counts.
 * Invariants.
 *   B1  A limit program moves as many bytes each way as the operation, by the operation's own
 *       tables (bench_shape.c); the operation's counters are compared with it in the same run.
 *   B2  Both sides are warm before the first round: memory touched by every process, connections
 *       used.
 * Threads.  The main thread, and those of bench_threads_run while a round runs. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "base/rng.h"
#include "cli/cli.h"
#include "client/client.h"

#define BENCH_ROUNDS_MAX 101u
#define BENCH_THREADS_MAX 16u
#define BENCH_NODES_MAX 2u
#define BENCH_DEPTH_MAX 64u
#define BENCH_KEY_SIZE 80u

/* What is measured. */
struct bench_row {
    enum bench_op op;
    uint64_t size;    /* bytes of an object */
    uint32_t batch;   /* objects of a call */
    uint32_t threads; /* that call */
    enum snow_transport transport;
    uint32_t depth;    /* calls under way, of each thread */
    uint32_t replicas; /* copies of a put */
    double target;     /* ratio that is aimed at; 0: none */
};

const char *bench_op_name(enum bench_op op);
const char *bench_transport_name(enum snow_transport transport);

/* What one round did. */
struct bench_round {
    uint64_t items;
    uint64_t elapsed_ns;
    uint64_t cpu_ns;     /* of all processes of the side */
    uint64_t wire_bytes; /* of one call, both ways; 0: not measured */
};

/* How long calls took. */
struct bench_samples {
    uint32_t *ns;
    size_t count;
    size_t room;
};

void bench_sample(struct bench_samples *samples, uint64_t ns);
/* Least, median and most of the rounds, which it sorts. */
void bench_spread(double *rates, uint32_t count, double to[3]);

/* What bench_report.c prints of a row. */
struct bench_result {
    const char *limit; /* name of the limit program; NULL: none */
    double rate[3];    /* items a second: least, median, most */
    double limit_rate[3];
    double cpu_ns; /* of all processes, an item */
    double limit_cpu_ns;
    double p50_us;
    double p99_us;
    double limit_p50_us;
    double limit_p99_us;
    double server_ns_per_key;  /* processor time of the master; 0: not measured */
    double table_ns_per_key;   /* look-up in the same table, and parsing, alone */
    uint64_t wire_bytes;       /* of one call, both ways; 0: not measured */
    uint64_t limit_wire_bytes; /* of the limit program's */
};

struct bench_cluster {
    struct env_child master;
    struct env_child nodes[BENCH_NODES_MAX];
    uint32_t node_count;
    uint64_t memory_bytes; /* of each node */
    uint64_t slot_bytes;
    bool master_runs;
    char address[LIMIT_NAME_SIZE + 1];
};

struct bench {
    struct cli *cli;
    struct bench_cluster cluster; /* of our own; address: of whichever is used */
    uint64_t objects;             /* that exists looks among */
    bool objects_loaded;          /* in `cluster` */
    uint64_t run;                 /* random: keys of different runs differ */
    uint64_t last_items;          /* of the last round */
};

/* One side of a row.  Sides are made and run by the main thread. */
struct bench_side_ops {
    const char *name;
    /* NULL: it has told why not. */
    void *(*open)(struct bench *bench, const struct bench_row *row);
    /* Calls again and again for that long.  False: told why. */
    bool (*run)(void *side, uint64_t window_ns, struct bench_round *round,
                struct bench_samples *samples);
    void (*close)(void *side);
};

extern const struct bench_side_ops bench_client; /* the operation, by the library */
extern const struct bench_side_ops bench_raw;    /* the same exchanges over plain sockets */
extern const struct bench_side_ops bench_memcpy;
extern const struct bench_side_ops bench_ring;

/* ---- bench_cluster.c ---- */

/* Makes a cluster run that fits, and waits until it is ready; --master: that one.  False: told. */
bool bench_cluster_need(struct bench *bench, uint32_t nodes, uint64_t memory_bytes,
                        uint64_t slot_bytes);
void bench_cluster_stop(struct bench *bench);
/* Processor time that its processes have used so far. */
uint64_t bench_cluster_cpu_ns(const struct bench *bench);
/* Starts this binary with other arguments and waits until it prints a line that begins with
 * `expect`; the rest of that line goes into rest.  False: told why. */
bool bench_child_start(struct bench *bench, char *const argv[], const char *expect,
                       struct env_child *child, char *rest, size_t rest_size);
/* Flags for a child that tell how its connections are to be; argv has room for 9 more. */
struct bench_flags {
    char send[32];
    char receive[32];
    char timeout[32];
};
void bench_flags_add(const struct bench *bench, struct bench_flags *flags, char **argv,
                     uint32_t count);
void bench_child_stop(struct env_child *child);

/* ---- bench_table.c ---- */

/* The key of an object: size bytes, 28 .. BENCH_KEY_SIZE, another one in each run. */
void bench_key(uint64_t run, uint64_t number, uint8_t *key, uint32_t size);
/* Nanoseconds a key that one core needs to parse a look-up of `batch` keys and to find them among
 * `objects` in a table of its own; 0: told why not.  *bytes_per_object: growth of memory. */
double bench_table_measure(struct bench *bench, uint64_t objects, uint32_t key_size, uint32_t batch,
                           double *bytes_per_object);
int bench_core(struct cli *cli);

/* ---- bench_evict.c ---- */

/* What eviction costs the master: the exit status. */
int bench_evict(struct bench *bench);

/* ---- bench_groups.c ---- */

/* Members of groups beside objects without, match_prefix beside exists: the exit status. */
int bench_groups(struct bench *bench);

/* ---- bench_raw.c, bench_peer.c ---- */

/* Of a client, by the command line. */
void bench_client_options(const struct cli *cli, struct client_options *options);

/* The other side of a limit program: serves until it is killed. */
int bench_peer(struct cli *cli);

/* ---- bench_idle.c ---- */

/* What processes cost that have nothing to do: the exit status. */
int bench_idle(struct bench *bench);

/* ---- bench_threads.c ---- */

/* Runs work(arguments + i * size) on `count` threads and waits for all; one: on this thread.
 * False: told why. */
bool bench_threads_run(struct bench *bench, uint32_t count, void (*work)(void *argument),
                       void *arguments, size_t size);

/* ---- bench_report.c ---- */

void bench_report_begin(const struct bench *bench);
void bench_report_row(const struct bench *bench, const struct bench_row *row,
                      const struct bench_result *result);
void bench_report_end(const struct bench *bench);

#endif
