#include "core/group.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BITS 12u
#define OBJECTS_MAX UINT32_C(2000000000)
#define STEP_EVICTIONS (16 * LIMIT_STEP_OBJECTS)

_Static_assert(CORE_METRIC_COUNT <= sizeof(((struct core *)0)->counters) / sizeof(uint64_t),
               "every metric has its counter");

static void init_pools(struct core *core)
{
    pool_init(&core->objects, &core->region, sizeof(struct object), CHUNK_BITS, OBJECTS_MAX);
    pool_init(&core->spreads, &core->region, sizeof(struct spread), CHUNK_BITS, OBJECTS_MAX);
    pool_init(&core->writes, &core->region, sizeof(struct write), 8, OBJECTS_MAX);
    pool_init(&core->closings_pool, &core->region, sizeof(struct closing), 8, OBJECTS_MAX);
    pool_init(&core->request_pool, &core->region, sizeof(struct request), 6,
              LIMIT_SESSIONS * LIMIT_REQUESTS_PER_CONN);
    pool_init(&core->pin_pool, &core->region, sizeof(struct pin), 8, OBJECTS_MAX);
    pool_init(&core->expiry_pool, &core->region, sizeof(struct expiry), 8, OBJECTS_MAX);
    pool_init(&core->groups, &core->region, sizeof(struct group), CHUNK_BITS, OBJECTS_MAX);
    pool_init(&core->group_timers, &core->region, sizeof(struct group_timer), 8, OBJECTS_MAX);
    pool_init(&core->group_claim_pool, &core->region, sizeof(struct group_claim), 8, OBJECTS_MAX);
    pool_init(&core->group_hold_pool, &core->region, sizeof(struct group_hold), 8, OBJECTS_MAX);
    core_group_chains_init(core);
    core_group_writers_init(core);
    pool_init(&core->second_pool, &core->region, sizeof(struct second), 6, OBJECTS_MAX);
    pool_init(&core->copy_pool, &core->region, sizeof(struct copy), 6, OBJECTS_MAX);
}

static void init_lists(struct core *core)
{
    list_init(&core->dirty);
    list_init(&core->jobs);
    list_init(&core->forgetting);
    list_init(&core->room);
    list_init(&core->forming);
    list_init(&core->forming_room);
    list_init(&core->group_waits);
    list_init(&core->group_key_waits);
    list_init(&core->closings);
    list_init(&core->awaited);
    list_init(&core->reads);
    list_init(&core->copies);
    list_init(&core->tasks);
    for (int kind = 0; kind < LEASE_KINDS; kind++)
        list_init(&core->leases[kind]);
}

static void on_copies_timer(struct wheel_timer *timer, void *owner)
{
    (void)timer;
    ((struct core *)owner)->copies_due = true;
}

static void on_room_timer(struct wheel_timer *timer, void *owner)
{
    (void)timer;
    ((struct core *)owner)->room_changed = true;
}

enum snow_status core_create(const struct core_options *options, const struct core_start *start,
                             struct core **created)
{
    struct core *core = calloc(1, sizeof(*core));

    if (core == NULL)
        return SNOW_NO_MEMORY;
    /* Replies are cut into frames by these. */
    ASSERT(wire_place_size_min(WIRE_VERSION) <= CORE_PLACE_BYTES &&
           wire_found_size_min(WIRE_VERSION) <= CORE_ROW_BYTES &&
           wire_put_grant_size_min(WIRE_VERSION) <= CORE_ROW_BYTES);
    core->options = *options;
    core->cluster = start->cluster;
    core->adopts_strangers = start->adopts_strangers;
    core->term = start->term;
    core->secret = (struct hash128){start->secret_low, start->secret_high};
    core->faults = start->faults;
    core->start_ns = start->now_ns;
    core->now_ns = start->now_ns;
    core->policy = policy_ops(options->policy);
    core->sessions = calloc(LIMIT_SESSIONS, sizeof(*core->sessions));
    rng_init(&core->rng, siphash(&core->secret, "placement", 9));
    wheel_init(&core->wheel, CORE_TICK_NS, start->now_ns);
    region_init(&core->region, start->memory);
    reuse_init(&core->reuse);
    core->room_timer.on_event = on_room_timer;
    core->copies_timer.on_event = on_copies_timer;
    init_pools(core);
    init_lists(core);
    if (core->sessions == NULL || index_create(&core->region, &core->index) != SNOW_OK ||
        index_create(&core->region, &core->pins) != SNOW_OK ||
        index_create(&core->region, &core->requests) != SNOW_OK ||
        keys_create(&core->region, &core->keys) != SNOW_OK ||
        index_create(&core->region, &core->expiries) != SNOW_OK ||
        index_create(&core->region, &core->group_ids) != SNOW_OK ||
        index_create(&core->region, &core->group_claims) != SNOW_OK ||
        index_create(&core->region, &core->group_writers) != SNOW_OK ||
        index_create(&core->region, &core->group_absents) != SNOW_OK ||
        index_create(&core->region, &core->group_holds) != SNOW_OK ||
        index_create(&core->region, &core->holds_of_groups) != SNOW_OK ||
        index_create(&core->region, &core->copying) != SNOW_OK ||
        index_create(&core->region, &core->seconds) != SNOW_OK ||
        ghosts_init(&core->ghosts, &core->region) != SNOW_OK ||
        trial_init(&core->trial, options->policy == CORE_POLICY_RRC ? SHADOW_SCORE : SHADOW_OLDEST,
                   options->policy != CORE_POLICY_RRC) != SNOW_OK) {
        core_destroy(core);
        return SNOW_NO_MEMORY;
    }
    core_expected_start(core, start);
    *created = core;
    return SNOW_OK;
}

static void free_objects(struct core *core)
{
    for (uint32_t number = 1; number < core->objects.fresh; number++) {
        const struct object *object = core_object(core, number);

        if (object->state == OBJECT_GROUP)
            free(core_group_at(core, number)->members);
        else if (object->flags & OBJECT_SPREAD)
            free(((struct spread *)pool_at(&core->spreads, object->place))->parts);
    }
}

void core_destroy(struct core *core)
{
    struct core_outputs outputs;

    core_outputs_init(&outputs);
    core->outputs = &outputs;
    if (core->sessions != NULL)
        core_sessions_free(core);
    core_outputs_deinit(&outputs);
    core_tasks_free(core);
    free_objects(core);
    for (uint32_t i = 0; i < core->segment_count; i++) {
        if (core->segments[i]->space != NULL)
            space_destroy(core->segments[i]->space);
        free(core->segments[i]->forgets);
        free(core->segments[i]);
    }
    for (uint32_t i = 0; i < core->node_count; i++) {
        free(core->nodes[i]->ended);
        free(core->nodes[i]);
    }
    pool_deinit(&core->objects);
    pool_deinit(&core->spreads);
    pool_deinit(&core->writes);
    pool_deinit(&core->closings_pool);
    pool_deinit(&core->request_pool);
    pool_deinit(&core->pin_pool);
    pool_deinit(&core->expiry_pool);
    pool_deinit(&core->groups);
    pool_deinit(&core->group_timers);
    pool_deinit(&core->group_claim_pool);
    pool_deinit(&core->group_hold_pool);
    pool_deinit(&core->group_writer_pool);
    pool_deinit(&core->group_absent_pool);
    index_destroy(core->group_writers);
    index_destroy(core->group_absents);
    index_destroy(core->group_ids);
    index_destroy(core->group_claims);
    index_destroy(core->group_holds);
    index_destroy(core->holds_of_groups);
    pool_deinit(&core->copy_pool);
    pool_deinit(&core->second_pool);
    index_destroy(core->index);
    index_destroy(core->pins);
    index_destroy(core->expiries);
    index_destroy(core->copying);
    index_destroy(core->seconds);
    index_destroy(core->requests);
    keys_destroy(core->keys);
    ghosts_deinit(&core->ghosts);
    trial_deinit(&core->trial);
    region_deinit(&core->region);
    free(core->sessions);
    free(core);
}

/* ---- a step ---- */

typedef void (*request_handler)(struct core *core, const struct core_input *input,
                                uint32_t session);

static request_handler handler_of(uint16_t type)
{
    switch (type) {
    case WIRE_put_start:
        return core_put_start;
    case WIRE_put_end:
        return core_put_end;
    case WIRE_put_renew:
        return core_put_renew;
    case WIRE_put_abort:
        return core_put_abort;
    case WIRE_lookup:
        return core_lookup;
    case WIRE_hold_return:
        return core_hold_return;
    case WIRE_remove:
        return core_remove;
    case WIRE_remove_match:
        return core_remove_match;
    case WIRE_pin:
        return core_pin;
    case WIRE_hint:
        return core_hint;
    case WIRE_group_stat:
        return core_group_stat;
    case WIRE_group_get:
        return core_group_get;
    case WIRE_group_hold:
        return core_group_hold;
    case WIRE_match:
        return core_match;
    case WIRE_group_remove:
        return core_group_remove;
    default:
        return NULL;
    }
}

static bool is_request(uint16_t type)
{
    const struct wire_message_type *row = wire_type_find(type);

    return row != NULL && row->kind == WIRE_KIND_RPC;
}

/* A message of a client's session. */
static void session_message(struct core *core, const struct core_input *input)
{
    request_handler handler = handler_of(input->type);
    uint32_t session = 0;
    const struct session *sender = core_session_find(core, input->from, &session);

    if (sender == NULL || !sender->linked) {
        if (is_request(input->type))
            core_fail(core, input->token, input->type, SNOW_GONE);
    } else if (handler != NULL) {
        handler(core, input, session);
    } else if (input->type == WIRE_lease_return) {
        core_lease_return(core, input->message, session);
    } else if (input->type == WIRE_group_broken) {
        core_group_broken(core, input->message, session);
    } else if (input->type == WIRE_report_peer) {
        core_node_report(core, input->message, input->from);
    } else if (input->type == WIRE_list) {
        core_list(core, input);
    } else if (input->type == WIRE_group_list) {
        core_group_list(core, input);
    } else if (input->type == WIRE_nodes) {
        core_nodes(core, input);
    } else if (input->type == WIRE_stats) {
        core_stats(core, input);
    } else if (input->type == WIRE_task_start) {
        core_task_start(core, input);
    } else if (input->type == WIRE_task_cancel) {
        core_task_cancel(core, input);
    } else if (input->type == WIRE_tasks) {
        core_tasks(core, input);
    } else if (is_request(input->type)) {
        core_fail(core, input->token, input->type, SNOW_INVALID);
    }
}

static void take_message(struct core *core, const struct core_input *input)
{
    struct node *node;

    switch (input->type) {
    case WIRE_mount:
        core_mount(core, input);
        return;
    case WIRE_heartbeat:
        core_heartbeat(core, input);
        return;
    case WIRE_inventory:
    case WIRE_forget:
    case WIRE_copy:
    case WIRE_verify:
    case WIRE_freed:
    case WIRE_grown:
    case WIRE_unmount:
        break;
    default:
        session_message(core, input);
        return;
    }
    node = core_node_at(core, input->from);
    if (input->type == WIRE_unmount) {
        core_unmount(core, input, node);
    } else if (node == NULL || !node->linked) {
        if (input->type == WIRE_inventory)
            core_fail(core, input->token, WIRE_inventory, SNOW_STALE);
    } else if (input->type == WIRE_inventory) {
        core_inventory(core, input, node);
    } else if (input->type == WIRE_forget) {
        core_forget_reply(core, node, input->message);
    } else if (input->type == WIRE_copy) {
        core_copy_reply(core, node, input->message);
    } else if (input->type == WIRE_verify) {
        core_verify_reply(core, node, input->message);
    } else if (input->type == WIRE_freed) {
        core_freed(core, node, input->message);
    } else {
        core_grown(core, node, input->message);
    }
}

static void take_input(struct core *core, const struct core_input *input)
{
    struct request *request;
    struct node *node;

    switch (input->kind) {
    case CORE_TICK:
        return;
    case CORE_SESSION_OPEN:
        core_session_open(core, input);
        return;
    case CORE_SESSION_BREAK:
        core_session_break(core, input);
        return;
    case CORE_MESSAGE:
        take_message(core, input);
        return;
    case CORE_CANCEL:
        request = core_request_find(core, input->token);
        if (request != NULL)
            core_request_end(core, request);
        return;
    case CORE_NODE_BREAK:
        node = core_node_at(core, input->from);
        if (node != NULL && node->linked)
            core_node_break(core, node);
        return;
    }
}

bool core_keeps(uint16_t type)
{
    return type != WIRE_lookup && type != WIRE_match && type != WIRE_group_get;
}

void core_step(struct core *core, uint64_t now_ns, const struct core_input *input,
               struct core_outputs *outputs)
{
    core->outputs = outputs;
    if (now_ns > core->now_ns)
        core->now_ns = now_ns;
    core->evictions_left = STEP_EVICTIONS;
    wheel_advance(&core->wheel, core->now_ns, LIMIT_STEP_OBJECTS, core);
    core_closing_age(core);
    take_input(core, input);
    core_jobs_run(core);
    core_groups_close_step(core);
    core_orphans_step(core);
    core_drops_run(core);
    core_inventories_done(core);
    if (core->room_changed)
        core_room_serve(core);
    if (core->copies_due)
        core_tasks_run(core);
    core_forgets_flush(core);
    core_requests_flush(core);
    core->outputs = NULL;
}

uint64_t core_wake_ns(const struct core *core)
{
    uint64_t wake_ns = wheel_next_ns(&core->wheel);
    uint64_t age_ns = core_closing_age_ns(core);

    if (core->room_changed || core->drops > 0 || core->groups_closing != 0 || core->copies_due ||
        core_jobs_can_run(core) || core_recovering_can_go(core))
        return 0;
    return wake_ns < age_ns ? wake_ns : age_ns;
}

/* ---- the state file ---- */

uint64_t core_cluster(const struct core *core)
{
    return core->cluster;
}

uint32_t core_term(const struct core *core)
{
    return core->term;
}

uint32_t core_expected_count(const struct core *core)
{
    return core->expected_count;
}

struct core_expected core_expected_at(const struct core *core, uint32_t index)
{
    ASSERT(index < core->expected_count);
    return core->expected[index];
}

void core_term_raise(struct core *core, uint32_t term, struct core_outputs *outputs)
{
    if (term < core->term || term >= WIRE_TERM_MAX)
        return;
    core->outputs = outputs;
    core->term = term + 1;
    core->next_counter = 0;
    core_output_add(core, CORE_OUT_PERSIST);
    core->outputs = NULL;
}

bool core_is_ready(const struct core *core)
{
    return core->missing == 0;
}
