/* Growth: memory is committed in steps, by a thread that may wait for it.
 *
 * Problem.  Making memory present takes a second a GiB, and more; neither transfers nor the
 *           heartbeat may stand still for it, and a node must be of use from its first step on.
 * Idea.     One step at a time goes to a loop of its own and comes back: only then may what lies in
 *           it be used, and the master is told.  Records of slots go ahead of the data they
 *           describe.
 *
 *   GROWING ─no memory─► STUCK: what is ready is all that is offered
 *      ▲────timer, it worked────┘
 * Invariants.
 *   W1  ready and slots_ready rise after the memory is present, never before (T4).
 *   W2  One step is under way at a time.
 * Threads.  The service loop; the step alone runs on the growth loop. */
#include "node/inside.h"

#define RETRY_NS (10 * NS_PER_S)

static void start_step(struct node *node);

/* ---- what the master is told ---- */

void node_grow_tell(struct node *node, uint32_t segment)
{
    const struct slots *slots = &node->segments[segment];
    bool stuck = node->growth[segment].stuck;
    struct wire_grown_msg message = {.segment = segment,
                                     .size = stuck ? slots->ready : slots->header->data_size,
                                     .ready = slots->ready,
                                     .slot_count = stuck ? slots->slots_ready : slots->count,
                                     .slots_ready = slots->slots_ready};

    /* Before the mount is answered it is told by what comes after. */
    if (rpc_peer_conn(&node->master) == NULL || !(node->telling || node_is_mounted(node)))
        return;
    if (rpc_oneway(rpc_peer_conn(&node->master), WIRE_grown, &message) != SNOW_OK)
        rpc_peer_reset(&node->master);
}

static void shrink_offer(struct node *node, uint32_t segment)
{
    const struct slots *slots = &node->segments[segment];
    struct growth *growth = &node->growth[segment];

    env_timer_arm(node->loop, &node->grow_timer, env_now_ns(node->env) + RETRY_NS);
    if (growth->stuck)
        return;
    growth->stuck = true;
    node_count(node, NODE_METRIC_offers_shrunk, 1);
    obs_log_write(node->log, OBS_WARNING, "node", "the host has no more memory: less is offered",
                  "offered=%llu memory=%llu", (unsigned long long)slots->ready,
                  (unsigned long long)slots->header->data_size);
}

static void grow_offer(struct node *node, uint32_t segment)
{
    struct growth *growth = &node->growth[segment];

    if (!growth->stuck)
        return;
    growth->stuck = false;
    obs_log_write(node->log, OBS_INFO, "node", "the host has memory again", "offered=%llu",
                  (unsigned long long)node->segments[segment].header->data_size);
}

/* ---- steps ---- */

static void on_work(struct env_task *task)
{
    struct grow_step *step = list_entry(task, struct grow_step, work);
    struct node *node = list_entry(step, struct node, step);

    step->status = slots_populate(&node->segments[step->segment], step->of_meta, step->from,
                                  step->size, &step->present);
    env_loop_post(node->loop, &step->done);
}

static void on_done(struct env_task *task)
{
    struct grow_step *step = list_entry(task, struct grow_step, done);
    struct node *node = list_entry(step, struct node, step);
    struct slots *slots = &node->segments[step->segment];
    uint64_t ready = slots->ready;

    slots_take_present(slots, step->of_meta, step->from + step->present);
    node_count(node, NODE_METRIC_grow_steps, 1);
    node_count(node, NODE_METRIC_ready_bytes, slots->ready - ready);
    if (step->status == SNOW_OK)
        grow_offer(node, step->segment);
    else
        shrink_offer(node, step->segment);
    node_grow_tell(node, step->segment);
    start_step(node);
}

/* Slots that are to be ready before so many bytes of data are. */
static uint32_t slots_before(const struct node *node, const struct slots *slots, uint64_t bytes)
{
    uint64_t count = bytes / node->options.slot_bytes + 1;

    return count < slots->count ? (uint32_t)count : slots->count;
}

static uint64_t step_at(const struct node *node, uint64_t from, uint64_t end)
{
    uint64_t step = node->options.populate_step_bytes / SLOTS_READY_UNIT * SLOTS_READY_UNIT;
    uint64_t next = from / step * step + step; /* so that pages of 2 MiB are whole */

    return (next < end ? next : end) - from;
}

/* What a segment lacks next; false: nothing. */
static bool choose_step(struct node *node, uint32_t segment, struct grow_step *step)
{
    const struct slots *slots = &node->segments[segment];
    const struct growth *growth = &node->growth[segment];
    uint64_t target = growth->ready_target > slots->ready ? growth->ready_target : slots->ready;
    uint32_t wanted = growth->slots_target;

    if (growth->stuck && node->grow_timer.loop != NULL)
        return false;
    if (slots->present < target) {
        uint64_t size = step_at(node, slots->present, slots->header->data_size);
        uint32_t before = slots_before(node, slots, slots->present + size);

        step->of_meta = false;
        step->from = slots->present;
        step->size = size;
        wanted = before > wanted ? before : wanted;
    }
    if (slots->slots_ready < wanted) {
        step->of_meta = true;
        step->from = slots->meta_present;
        step->size = step_at(node, step->from, slots_meta_size(slots));
    } else if (slots->present >= target) {
        return false;
    }
    step->segment = segment;
    return true;
}

static void start_step(struct node *node)
{
    bool found = false;

    for (uint32_t i = 0; i < node->segment_count && !found; i++)
        found = choose_step(node, i, &node->step);
    __atomic_store_n(&node->growing, found, __ATOMIC_RELEASE);
    if (found)
        env_loop_post(node->grow_loop, &node->step.work);
}

/* There may be something to do: now, or when the step under way is done. */
static void next_step(struct node *node)
{
    if (!node_is_growing(node))
        start_step(node);
}

static void on_retry(struct env_timer *timer)
{
    next_step(list_entry(timer, struct node, grow_timer));
}

void node_grow(struct node *node, const struct wire_grow_msg *grow)
{
    if (grow->segment >= node->segment_count)
        return;
    const struct slots *slots = &node->segments[grow->segment];
    struct growth *growth = &node->growth[grow->segment];
    uint64_t size = slots->header->data_size;

    node_count(node, NODE_METRIC_grows_asked, 1);
    if (grow->ready > growth->ready_target)
        growth->ready_target = grow->ready < size ? grow->ready : size;
    if (grow->slots_ready > growth->slots_target)
        growth->slots_target = grow->slots_ready < slots->count ? grow->slots_ready : slots->count;
    next_step(node);
}

/* ---- opening ---- */

void node_grow_open(struct node *node)
{
    bool all = node->options.populate == NODE_POPULATE_ALL;

    node->grow_timer.on_event = on_retry;
    node->step.work.on_event = on_work;
    node->step.done.on_event = on_done;
    for (uint32_t i = 0; i < node->segment_count && all; i++) {
        node->growth[i].ready_target = node->segments[i].header->data_size;
        node->growth[i].slots_target = node->segments[i].count;
    }
    next_step(node); /* waits in the loop until that starts */
}

void node_grow_close(struct node *node)
{
    env_timer_cancel(&node->grow_timer);
}
