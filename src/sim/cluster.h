/* A simulated cluster: processes with the real master, nodes and clients on one world.
 * Private to sim/. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "base/rng.h"
#include "client/client.h"
#include "core/core.h"
#include "master/master.h"
#include "node/node.h"
#include "obs/log.h"
#include "sim/history.h"
#include "sim/probe.h"
#include "sim/world.h"

#define CLUSTER_NODES_MAX 4u
#define CLUSTER_CLIENTS_MAX 64u
#define CLUSTER_LANES 3u /* operations of one client at a time */

struct cluster;

/* What a scenario decides. */
struct cluster_plan {
    uint32_t nodes;
    uint32_t clients;
    uint32_t keys;            /* of HISTORY_KEYS; 0: clients put and read groups alone */
    uint64_t node_bytes;      /* memory of each node */
    uint64_t slot_bytes;      /* for which there is one slot; 0: 1 KiB */
    uint32_t populate;        /* enum node_populate */
    uint64_t populate_step;   /* bytes */
    uint64_t host_bytes;      /* memory of each node's host; 0: enough */
    uint32_t near_percent;    /* of clients that share a host with a node, or the master */
    uint64_t object_max;      /* bytes */
    uint64_t duration_ns;     /* of the work; faults stop then */
    uint32_t replace_percent; /* of puts */
    uint32_t remove_percent;  /* of operations */
    uint32_t copies;          /* of every object; 0: now one, now two */
    uint64_t get_ns_max;      /* a get that takes longer is a finding; 0: any time */
    bool must_make_room;      /* a put that finds no room is a finding: everything may be evicted */
    bool keep_state;          /* the master has a state folder */
    bool tasks;               /* an operator has nodes copy, move and drain */
    bool crowd;               /* first each client puts a member of object_max bytes, all at once,
                               * until each group was whole */
    struct world_net net;
    struct core_options core;
    fault_set faults;
};

struct sim_master {
    struct cluster *cluster;
    struct world_host *host;
    struct env *env; /* NULL: down */
    struct obs_log log;
    struct master *master;
};

struct sim_node {
    struct cluster *cluster;
    struct world_host *host;
    struct env *env; /* NULL: down */
    struct obs_log log;
    struct node *node;
    uint32_t index;
    bool paused;
    struct world_alarm again; /* starts it: a client still had its memory */
};

/* cluster.c */
struct cluster *cluster_create(uint64_t seed, const struct cluster_plan *plan);
/* Ends all processes; what they counted is in probes then. */
void cluster_stop(struct cluster *cluster);
void cluster_destroy(struct cluster *cluster);

void cluster_master_start(struct cluster *cluster);
void cluster_master_crash(struct cluster *cluster);
void cluster_node_start(struct cluster *cluster, uint32_t index);
void cluster_node_crash(struct cluster *cluster, uint32_t index);
void cluster_node_pause(struct cluster *cluster, uint32_t index); /* it hangs */
void cluster_node_resume(struct cluster *cluster, uint32_t index);
/* Its host: memory of named segments is kept or lost. */
void cluster_node_host_crash(struct cluster *cluster, uint32_t index, bool keep_memory);

/* Keeps the first finding of a run. */
void cluster_find(struct cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Looks at all invariants that hold at any moment. */
void cluster_check(struct cluster *cluster);
/* A row of core_metrics.def, as the master has it now; 0: it is down. */
uint64_t cluster_metric(const struct cluster *cluster, const char *name);

/* actor.c: clients at work */
struct actor;
struct actor *actor_create(struct cluster *cluster, uint32_t index);
void actor_destroy(struct actor *actor);
void actor_crash(struct actor *actor); /* the process dies; actor_start begins anew */
void actor_start(struct actor *actor);
void actor_pause(struct actor *actor);
void actor_resume(struct actor *actor);
/* One more put, get and remove that must succeed. */
void actor_prove(struct actor *actor);
bool actor_is_idle(const struct actor *actor);
struct world_host *actor_host(struct actor *actor);

struct operator;
#define CLUSTER_GROUPS 16u /* that ranks work on */
#define CLUSTER_MEMBERS 4u /* of each */

/* A member whose last put stored two copies. */
struct sim_doubled {
    bool known;
    uint64_t suspects; /* times a node had been silent when that put began */
    uint64_t puts;     /* of it, begun so far */
};

struct cluster {
    struct world *world;
    struct cluster_plan plan;
    struct history *history;
    struct rng rng;
    struct sim_master master;
    struct sim_node nodes[CLUSTER_NODES_MAX];
    struct actor *actors[CLUSTER_CLIENTS_MAX];
    struct operator* operator;
    char finding[160]; /* "": none */
    uint64_t finding_ns;
    bool stopping;      /* no new work */
    uint32_t bad;       /* the one node that is out of order, from 1 on; 0: none */
    uint32_t last_bad;  /* index of it, or of the last one */
    uint64_t mended_ns; /* since then none was */
    uint64_t puts;      /* answered, by kind */
    uint64_t gets;
    uint64_t hits;
    uint64_t removes;
    uint64_t put_failures;
    uint64_t group_holds[CLUSTER_GROUPS];      /* that a rank told the others; 0: none */
    uint64_t group_removed_ns[CLUSTER_GROUPS]; /* a rank may have removed it until then */
    uint64_t group_seen[CLUSTER_GROUPS];       /* the highest ggen that a rank was told */
    uint64_t group_gone[CLUSTER_GROUPS];       /* up to this ggen its versions were removed, */
    uint64_t group_gone_ns[CLUSTER_GROUPS];    /* which was answered then */
    struct sim_doubled doubled[CLUSTER_GROUPS][CLUSTER_MEMBERS];
    bool group_whole[CLUSTER_GROUPS]; /* a client of a crowd was told that it is complete */
    struct probes probes;
};

/* scenario.c */
struct scenario {
    const char *name;
    const char *text;
    void (*plan)(struct cluster_plan *plan, struct rng *rng);
    void (*fault)(struct cluster *cluster,
                  struct rng *rng); /* one more thing goes wrong; NULL: nothing */
};

uint32_t scenario_count(void);
const struct scenario *scenario_at(uint32_t index);
const struct scenario *scenario_find(const char *name);

struct run_result {
    char finding[160]; /* "": none */
    uint64_t finding_ns;
    uint64_t hash;
    uint64_t events;
    uint64_t puts;
    uint64_t gets;
    uint64_t hits;
    uint64_t removes;
    struct probes probes;
};

/* One seed of one scenario, from its beginning to rest. */
struct run_result run_seed(const struct scenario *scenario, uint64_t seed, fault_set faults,
                           void (*on_line)(void *owner, const char *line), void *owner);

#endif
