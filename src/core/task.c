/* Tasks: what operators ask for that takes a while: a copy, a move, to empty a node (drain.c).
 *
 * Problem.  A copy waits for room, for its turn, for a node that was just lost; whoever asked wants
 *           to see how far it is, and may change his mind.
 * Idea.     A task is a record that is looked at whenever something that it may wait for has
 *           changed: room came free, a copy ended, its pace lets the next begin.  What has ended is
 *           told of for a while.
 * Invariants.
 *   X1  At most LIMIT_TASKS; one that has ended gives way to a new one, the oldest first.
 *   X2  task->under_way = copies under way with its id.
 *   X3  Asked again while one of the same kind, key and nodes runs: that one.
 *
 *   RUNNING ─core_task_end─► DONE, FAILED, CANCELLED
 * Threads.  The core's own.   State.  Soft: a master that restarts has no tasks. */
#include "core/inside.h"

#include <stdlib.h>
#include <string.h>

#define COPY_WAIT_NS (60 * NS_PER_S) /* how long a copy waits for room, or its nodes */
#define COPY_TRIES 8u
#define AGAIN_NS (20 * NS_PER_MS)

/* ---- pace ---- */

void core_tasks_wake(struct core *core, uint64_t at_ns)
{
    if (!wheel_is_armed(&core->copies_timer) || at_ns < core->copies_timer.at_ns)
        wheel_arm(&core->wheel, &core->copies_timer, at_ns);
}

bool core_pace_allows(struct core *core, const struct pace *pace)
{
    if (core->now_ns >= pace->next_ns)
        return true;
    core_tasks_wake(core, pace->next_ns);
    return false;
}

/* What a late tick left unused for a moment may be made good, no more. */
void core_pace_spend(struct core *core, struct pace *pace, uint64_t rate, uint64_t bytes)
{
    uint64_t earliest_ns = core->now_ns > 10 * NS_PER_MS ? core->now_ns - 10 * NS_PER_MS : 0;

    if (rate == 0)
        return;
    if (pace->next_ns < earliest_ns)
        pace->next_ns = earliest_ns;
    pace->next_ns += bytes / rate * NS_PER_S + bytes % rate * NS_PER_S / rate;
}

/* ---- records ---- */

static struct task *find_task(const struct core *core, uint64_t id)
{
    list_each (&core->tasks, link, next) {
        struct task *task = list_entry(link, struct task, link);

        if (task->id == id)
            return task;
    }
    return NULL;
}

static void free_task(struct core *core, struct task *task)
{
    list_remove(&task->link);
    core->task_count--;
    free(task->key);
    free(task);
}

void core_tasks_free(struct core *core)
{
    struct list_link *link;

    while ((link = list_first(&core->tasks)) != NULL) {
        struct task *task = list_entry(link, struct task, link);

        core_drain_close(core, task);
        free_task(core, task);
    }
}

/* Room for one more: the oldest that has ended goes.  False: all of them run. */
static bool make_place(struct core *core)
{
    if (core->task_count < LIMIT_TASKS)
        return true;
    list_each (&core->tasks, link, next) {
        struct task *task = list_entry(link, struct task, link);

        if (task->state != WIRE_TASK_RUNNING) {
            free_task(core, task);
            return true;
        }
    }
    return false;
}

static struct task *new_task(struct core *core, const struct wire_task_start_req *start)
{
    struct task *task = make_place(core) ? calloc(1, sizeof(*task)) : NULL;

    if (task == NULL)
        return NULL;
    task->key = malloc(start->key.size + 1);
    if (task->key == NULL) {
        free(task);
        return NULL;
    }
    if (start->key.size > 0)
        memcpy(task->key, start->key.at, start->key.size);
    task->key_size = (uint32_t)start->key.size;
    task->id = ++core->next_task;
    task->kind = start->kind;
    task->state = WIRE_TASK_RUNNING;
    task->reason = "";
    task->from = start->from;
    task->to = start->to;
    task->rate = start->rate != 0 ? start->rate : core->options.copy_rate_bytes;
    task->started_ns = core->now_ns;
    list_push(&core->tasks, &task->link);
    core->task_count++;
    core->tasks_running++;
    core->copies_due = true;
    return task;
}

static void end_copies(struct core *core, const struct task *task)
{
    list_each (&core->copies, link, next) {
        struct copy *copy = list_entry(link, struct copy, link);

        if (copy->task == task->id)
            core_copy_end(core, copy, SNOW_CANCELLED);
    }
}

void core_task_end(struct core *core, struct task *task, enum wire_task_state state,
                   enum snow_status status, const char *reason)
{
    ASSERT(task->state == WIRE_TASK_RUNNING);
    task->state = (uint8_t)state;
    task->status = status;
    task->reason = reason;
    task->ended_ns = core->now_ns;
    core->tasks_running--;
    end_copies(core, task);
    core_drain_close(core, task);
}

/* ---- a copy, a move ---- */

static struct bytes key_of(const struct task *task)
{
    return bytes_of(task->key, task->key_size);
}

static uint32_t object_of(const struct core *core, struct bytes key)
{
    return core_object_find(core, key, hash_key(CORE_TENANT, key).low, OBJECT_READABLE);
}

static uint16_t index_of(uint32_t node)
{
    return (uint16_t)((node - 1) % LIMIT_NODES);
}

static const char *reason_of(enum snow_status status)
{
    switch (status) {
    case SNOW_NOT_FOUND:
        return "the object is gone, or does not lie there";
    case SNOW_NO_SPACE:
        return "the node is not there, has a copy already, or nothing there may be evicted for it";
    case SNOW_UNREACHABLE:
        return "no node that has it can be reached";
    case SNOW_LIMIT:
        return "it can have no more copies";
    default:
        return "no room came free in time";
    }
}

/* Whether what was in the way may pass. */
static bool waits(const struct core *core, const struct task *task, enum snow_status status)
{
    return (status == SNOW_BUSY || status == SNOW_UNREACHABLE || status == SNOW_NO_SPACE) &&
           task->tries < COPY_TRIES && core->now_ns < task->started_ns + COPY_WAIT_NS;
}

static void run_copy(struct core *core, struct task *task)
{
    struct copy_wish wish = {.task = task->id,
                             .object = object_of(core, key_of(task)),
                             .from = task->from == 0 ? 0 : index_of(task->from),
                             .to = index_of(task->to),
                             .move = task->kind == WIRE_TASK_MOVE,
                             .force = true};
    enum snow_status status = SNOW_NOT_FOUND;
    uint64_t bytes;

    if (task->under_way > 0 || !core_pace_allows(core, &task->pace))
        return;
    if (wish.object != 0)
        status = core_copy_start(core, &wish, &bytes);
    if (status == SNOW_OK) {
        task->under_way++;
        core_pace_spend(core, &task->pace, task->rate, bytes);
    } else if (waits(core, task, status)) {
        core_tasks_wake(core, core->now_ns + AGAIN_NS);
    } else {
        core_task_end(core, task, WIRE_TASK_FAILED, status, reason_of(status));
    }
}

void core_task_copied(struct core *core, uint64_t id, const struct copy_end *end)
{
    struct task *task = id == 0 ? NULL : find_task(core, id);

    if (task == NULL)
        return;
    task->under_way--;
    core->copies_due = true;
    if (end->status == SNOW_OK) {
        task->objects++;
        task->bytes += end->bytes;
    } else {
        task->tries++;
    }
    if (task->kind == WIRE_TASK_DRAIN || task->state != WIRE_TASK_RUNNING)
        return;
    if (end->status == SNOW_OK)
        core_task_end(core, task, WIRE_TASK_DONE, SNOW_OK, "");
    else if (task->tries >= COPY_TRIES)
        core_task_end(core, task, WIRE_TASK_FAILED, end->status, "its node could not fetch it");
}

void core_tasks_run(struct core *core)
{
    core->copies_due = false;
    core_seconds_run(core);
    list_each (&core->tasks, link, next) {
        struct task *task = list_entry(link, struct task, link);

        if (task->state != WIRE_TASK_RUNNING)
            continue;
        if (task->kind == WIRE_TASK_DRAIN)
            core_drain_run(core, task);
        else
            run_copy(core, task);
    }
}

/* ---- requests ---- */

static struct task *find_same(const struct core *core, const struct wire_task_start_req *start)
{
    list_each (&core->tasks, link, next) {
        struct task *task = list_entry(link, struct task, link);

        if (task->state == WIRE_TASK_RUNNING && task->kind == start->kind &&
            task->from == start->from && task->to == start->to &&
            bytes_equal(key_of(task), start->key))
            return task;
    }
    return NULL;
}

static bool holds_part(const struct core *core, uint32_t number, uint32_t node)
{
    uint32_t count = core_part_count(core, number);

    for (uint32_t i = 0; i < count; i++) {
        struct part part = core_part_at(core, number, i);

        if (part.present && core->nodes[core->segments[part.segment]->node]->number == node)
            return true;
    }
    return false;
}

/* OK: it may be tried. */
static enum snow_status check_copy(struct core *core, const struct wire_task_start_req *start,
                                   const char **reason)
{
    const struct node *to = core_node_at(core, start->to);
    bool move = start->kind == WIRE_TASK_MOVE;
    uint32_t number;

    *reason = "the key has 1 to 4096 bytes";
    if (start->key.size < 1 || start->key.size > LIMIT_KEY_SIZE)
        return SNOW_INVALID;
    *reason = "a copy names the node that it goes to; a move the one that it leaves too, another";
    if (move ? start->from == 0 || start->from == start->to : start->from != 0)
        return SNOW_INVALID;
    *reason = "there is no such node to go to, or it is silent, or being drained";
    if (to == NULL || to->state != NODE_ALIVE || to->draining)
        return SNOW_NOT_FOUND;
    *reason = "there is no such object";
    number = object_of(core, start->key);
    if (number == 0)
        return SNOW_NOT_FOUND;
    *reason = "it does not lie on the node that it is to leave";
    if (move && !holds_part(core, number, start->from))
        return SNOW_NOT_FOUND;
    *reason = "the node has it already";
    return holds_part(core, number, start->to) ? SNOW_EXISTS : SNOW_OK;
}

static enum snow_status check_drain(struct core *core, const struct wire_task_start_req *start,
                                    const char **reason)
{
    const struct node *node = core_node_at(core, start->from);

    *reason = "a drain names one node, and no key";
    if (start->key.size > 0 || start->to != 0 || start->from == 0)
        return SNOW_INVALID;
    *reason = "there is no such node, or it is dead";
    return node == NULL || node->state == NODE_DEAD ? SNOW_NOT_FOUND : SNOW_OK;
}

static enum snow_status begin(struct core *core, const struct wire_task_start_req *start,
                              uint64_t *id, const char **reason)
{
    struct task *task = find_same(core, start);
    enum snow_status status = SNOW_INVALID;

    *reason = "no such kind of task";
    if (start->kind == WIRE_TASK_COPY || start->kind == WIRE_TASK_MOVE)
        status = task != NULL ? SNOW_OK : check_copy(core, start, reason);
    else if (start->kind == WIRE_TASK_DRAIN)
        status = check_drain(core, start, reason);
    if (status != SNOW_OK)
        return status;
    if (task != NULL && start->rate != 0)
        task->rate = start->rate;
    *reason = "too many tasks are under way";
    if (task == NULL)
        task = new_task(core, start);
    if (task == NULL)
        return SNOW_BUSY;
    *reason = "out of memory";
    if (task->kind == WIRE_TASK_DRAIN && task->drain == NULL &&
        core_drain_open(core, task, core_node_at(core, start->from)) != SNOW_OK) {
        core->tasks_running--;
        free_task(core, task);
        return SNOW_BUSY;
    }
    *id = task->id;
    *reason = "";
    return SNOW_OK;
}

void core_task_start(struct core *core, const struct core_input *input)
{
    struct wire_task_start_rep *reply = core_out(core, 1, sizeof(*reply));
    const char *reason;

    reply->status = (int32_t)begin(core, input->message, &reply->task, &reason);
    reply->reason = bytes_of_string(reason);
    if (reply->status != SNOW_OK)
        core_count(core, CORE_METRIC_bad_requests, 1);
    core_reply(core, input->token, WIRE_task_start, reply);
}

void core_task_cancel(struct core *core, const struct core_input *input)
{
    const struct wire_task_cancel_req *cancel = input->message;
    struct wire_task_cancel_rep *reply = core_out(core, 1, sizeof(*reply));
    struct task *task = find_task(core, cancel->task);

    reply->status = task == NULL ? SNOW_NOT_FOUND : SNOW_OK;
    if (task != NULL && task->state == WIRE_TASK_RUNNING)
        core_task_end(core, task, WIRE_TASK_CANCELLED, SNOW_CANCELLED, "");
    core_reply(core, input->token, WIRE_task_cancel, reply);
}

/* At the speed at which it went so far. */
static uint64_t left_ms(const struct wire_task_info *info)
{
    uint64_t gone = info->bytes + info->dropped_bytes;

    if (info->left_bytes == 0)
        return 0;
    if (gone == 0)
        return UINT64_MAX;
    return (uint64_t)((double)info->elapsed_ms / (double)gone * (double)info->left_bytes);
}

static void tell_task(const struct core *core, const struct task *task, struct wire_task_info *info)
{
    bool runs = task->state == WIRE_TASK_RUNNING;
    uint64_t until_ns = runs ? core->now_ns : task->ended_ns;

    *info = (struct wire_task_info){.task = task->id,
                                    .kind = task->kind,
                                    .state = task->state,
                                    .status = (int32_t)task->status,
                                    .from = task->from,
                                    .to = task->to,
                                    .rate = task->rate,
                                    .elapsed_ms = (until_ns - task->started_ns) / NS_PER_MS,
                                    .objects = task->objects,
                                    .bytes = task->bytes,
                                    .dropped_objects = task->dropped_objects,
                                    .dropped_bytes = task->dropped_bytes,
                                    .key = key_of(task),
                                    .reason = bytes_of_string(task->reason)};
    if (runs && task->kind == WIRE_TASK_DRAIN)
        core_drain_left(core, task, &info->left_objects, &info->left_bytes);
    else if (runs)
        info->left_objects = 1;
    info->left_ms = runs ? left_ms(info) : 0;
}

void core_tasks(struct core *core, const struct core_input *input)
{
    const struct wire_tasks_req *request = input->message;
    struct wire_tasks_rep *reply = core_out(core, 1, sizeof(*reply));

    reply->tasks = core_out(core, LIMIT_LIST_ROWS, sizeof(*reply->tasks));
    list_each (&core->tasks, link, next) {
        const struct task *task = list_entry(link, struct task, link);

        if (reply->tasks_count == LIMIT_LIST_ROWS)
            break;
        if (task->id > request->after && (request->task == 0 || request->task == task->id))
            tell_task(core, task, &reply->tasks[reply->tasks_count++]);
    }
    core_reply(core, input->token, WIRE_tasks, reply);
}
