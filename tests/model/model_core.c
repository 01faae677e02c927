/* The core against a naive model of what may be readable, with everything around it misbehaving:
 * nodes whose acknowledgements come late, that lose their connection, die, restart with kept slots
 * or without; clients that repeat, abort, vanish and return; masters that start again.
 *
 * The model knows every version that was ever granted: {key, gen, size, state}.  A look-up may tell
 * of a version only if it was ended (or fully written when a master restarted), and not once a
 * removal of it was answered OK.  A younger version is never followed by an older one that was
 * ended before.  Nodes check P3: nothing is written into bytes that something else still occupies.
 * Every request is answered by its deadline, each item once, the last reply marked. */
#include "core_clients.h"
#include "core_model.h"
#include "core_nodes.h"

#define OPERATIONS 100000u

/* ---- the master ---- */

static void open_core(struct model *model)
{
    model->start.now_ns = model->now_ns;
    assert_int_equal(core_create(&model->options, &model->start, &model->core), SNOW_OK);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        model->session_linked[i] = false;
        turn_session(model, i);
    }
}

static void restart_master(struct model *model)
{
    model->start.expected_count = core_expected_count(model->core);
    assert_true(model->start.expected_count <= NODES);
    for (uint32_t i = 0; i < model->start.expected_count; i++)
        model->expected[i] = core_expected_at(model->core, i);
    model->start.expected = model->expected;
    model->start.adopts_strangers = false;
    model->start.term = core_term(model->core) + 1;
    core_destroy(model->core);
    model->core = NULL;
    for (uint32_t i = 0; i < SESSIONS; i++)
        forget_requests(model, i);
    for (uint32_t i = 0; i < NODES; i++) {
        drop_link(&model->nodes[i]);
        model->nodes[i].number = 0;
    }
    model->restarts++;
    open_core(model);
}

/* ---- a run ---- */

static void client_moves(struct model *model, uint32_t session)
{
    switch (rng_below(&model->rng, 24)) {
    case 0:
    case 1:
    case 2:
        put_start(model, session);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        write_version(model);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        end_version(model);
        break;
    case 12:
        abort_version(model);
        break;
    case 13:
    case 14:
    case 15:
    case 16:
        look_up(model, session);
        break;
    case 17:
        return_lease(model, session);
        break;
    case 18:
        remove_keys(model, session);
        break;
    case 19:
        if (!model->plan.roomy && rng_chance(&model->rng, 1, 10))
            remove_match(model, session);
        break;
    case 20:
        pin_keys(model, session);
        break;
    case 21:
        cancel_request(model);
        break;
    case 22:
        if (rng_chance(&model->rng, 1, 8))
            turn_session(model, session);
        break;
    default:
        pass(model, rng_below(&model->rng, 30) * NS_PER_MS);
        break;
    }
}

static void move(struct model *model)
{
    struct model_node *node = &model->nodes[rng_below(&model->rng, NODES)];
    uint32_t session = (uint32_t)rng_below(&model->rng, SESSIONS);

    if (model->plan.masters_restart && rng_chance(&model->rng, 1, 3000)) {
        restart_master(model);
        return;
    }
    if (model->plan.nodes_fail && rng_chance(&model->rng, 1, 400)) {
        node_fails(model, node);
        return;
    }
    if (rng_chance(&model->rng, 1, 2)) {
        node_moves(model, node);
        return;
    }
    if (!model->session_linked[session])
        turn_session(model, session);
    client_moves(model, session);
}

static uint64_t metric(struct model *model, const char *name)
{
    uint64_t values[128];

    assert_true(core_metric_count() <= 128);
    core_metrics(model->core, values);
    for (uint32_t i = 0; i < core_metric_count(); i++) {
        if (strcmp(core_metric_name(i), name) == 0)
            return values[i];
    }
    fail_msg("no metric %s", name);
    return 0;
}

/* Everything comes to rest: nobody waits, nothing is on its way, and what is used is what lives. */
static void settle(struct model *model)
{
    uint64_t used = 0;
    uint64_t along = 0; /* at most, of rests that were given along where slots are few */

    for (uint32_t i = 0; i < 60; i++) {
        for (uint32_t j = 0; j < NODES; j++) {
            struct model_node *node = &model->nodes[j];

            if (!node->linked)
                mount_node(model, node);
            while (node->telling)
                tell_rows(node);
            if (model->plan.grows)
                grow(model, node);
            while (node->forget_count > 0)
                read_forget(model, node);
            for (uint32_t k = 0; k < SLOTS; k++)
                leave_slot(model, node);
            while (node->queue_count > 0)
                read_from_node(model, node);
            beat(model, node);
        }
        pass(model, 500 * NS_PER_MS);
    }
    core_check(model->core);
    assert_int_equal(metric(model, "objects_writing"), 0);
    assert_int_equal(metric(model, "objects_closing"), 0);
    assert_int_equal(metric(model, "waiters"), 0);
    assert_int_equal(metric(model, "leased_bytes"), 0);
    assert_int_equal(metric(model, "nodes_alive"), NODES);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_false(model->requests[i].used);
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t j = 0; j < SLOTS; j++) {
            const struct wire_inventory_row *row = &model->nodes[i].slots[j].row;
            bool tail = row->part == 0 && row->key.size > WIRE_KEY_INLINE;
            uint64_t bytes = row->length + (tail ? row->key.size : 0);

            if (row->state == WIRE_SLOT_FREE)
                continue;
            bytes = bytes == 0 ? 256 : (bytes + 255) / 256 * 256;
            used += bytes;
            if (model->plan.grows)
                along += bytes > 4 * KIB ? bytes : 4 * KIB;
        }
    }
    /* A part that was lost between its write and its put_end is missed by no inventory. */
    assert_true(metric(model, "used_bytes") >= used);
    assert_true(metric(model, "used_bytes") <= used + along || model->plan.nodes_lose);
}

static struct model *model_create(const struct plan *plan)
{
    struct model *model = calloc(1, sizeof(*model));

    assert_non_null(model);
    model->plan = *plan;
    model->options = core_options_default();
    model->options.dead_after_ns = plan->dead_after_ns;
    model->options.hard_pin_percent = 20;
    model->start = (struct core_start){.cluster = 1,
                                       .term = 1,
                                       .secret_low = plan->seed,
                                       .secret_high = 7,
                                       .adopts_strangers = true};
    model->now_ns = NS_PER_S;
    core_outputs_init(&model->outputs);
    rng_init(&model->rng, plan->seed);
    model->versions = calloc(VERSIONS, sizeof(*model->versions));
    model->frame = malloc(LIMIT_BODY_SIZE);
    assert_true(model->versions != NULL && model->frame != NULL);
    for (uint32_t i = 0; i < KEYS; i++) {
        memset(model->keys[i], 'x', i % 6 == 0 ? 110 : 12);
        snprintf(model->keys[i], 8, "%c%05u", i % 2 ? 'a' : 'b', i);
        model->keys[i][6] = 'x';
    }
    for (uint32_t i = 0; i < NODES; i++) {
        model->nodes[i].incarnation = 100 + i;
        model->nodes[i].ready = plan->grows ? 4 * KIB : NODE_BYTES;
        model->nodes[i].slots_ready = plan->grows ? 3 : plan->slots;
        model->nodes[i].queue = calloc(QUEUE, sizeof(*model->nodes[i].queue));
        assert_non_null(model->nodes[i].queue);
    }
    open_core(model);
    return model;
}

static void model_destroy(struct model *model)
{
    core_destroy(model->core);
    for (uint32_t i = 0; i < SESSIONS; i++)
        forget_requests(model, i);
    for (uint32_t i = 0; i < NODES; i++)
        free(model->nodes[i].queue);
    core_outputs_deinit(&model->outputs);
    free(model->versions);
    free(model->frame);
    free(model);
}

static void run(const struct plan *plan)
{
    struct model *model = model_create(plan);

    for (uint32_t i = 0; i < plan->operations; i++) {
        move(model);
        if (i % 64 == 0)
            core_check(model->core);
        if (i % 20000 == 19999 && !plan->nodes_lose)
            settle(model);
    }
    settle(model);
    printf("  %u moves: %u grants, %llu ended, %llu found, %llu restarts, %llu evicted\n",
           plan->operations, model->version_count, (unsigned long long)model->ended,
           (unsigned long long)model->found, (unsigned long long)model->restarts,
           (unsigned long long)metric(model, "evicted_objects"));
    assert_true(model->ended > plan->operations / 100 && model->found > plan->operations / 100);
    model_destroy(model);
}

static uint64_t seed_of(uint64_t seed)
{
    const char *given = getenv("MODEL_SEED");

    return given == NULL ? seed : strtoull(given, NULL, 10);
}

static void test_roomy(void **state)
{
    struct plan plan = {.seed = seed_of(1),
                        .roomy = true,
                        .slots = SLOTS,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 1000 * NS_PER_S};

    (void)state;
    run(&plan);
}

static void test_full(void **state)
{
    struct plan plan = {.seed = seed_of(2),
                        .slots = 160,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 1000 * NS_PER_S};

    (void)state;
    run(&plan);
}

static void test_failing_nodes(void **state)
{
    struct plan plan = {.seed = seed_of(3),
                        .slots = 160,
                        .nodes_fail = true,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 1000 * NS_PER_S};

    (void)state;
    run(&plan);
}

static void test_dying_nodes(void **state)
{
    struct plan plan = {.seed = seed_of(4),
                        .slots = 160,
                        .nodes_fail = true,
                        .nodes_lose = true,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 4 * NS_PER_S};

    (void)state;
    run(&plan);
}

/* Growth is over soon: many short runs. */
static void test_growing_nodes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct plan plan = {.seed = seed_of(20 + seed),
                            .slots = 160,
                            .grows = true,
                            .nodes_fail = seed % 2 == 0,
                            .masters_restart = seed % 4 == 0,
                            .operations = OPERATIONS / 32,
                            .dead_after_ns = 1000 * NS_PER_S};

        run(&plan);
    }
}

static void test_restarting_masters(void **state)
{
    struct plan plan = {.seed = seed_of(5),
                        .slots = 160,
                        .nodes_fail = true,
                        .masters_restart = true,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 1000 * NS_PER_S};

    (void)state;
    run(&plan);
}

static void test_everything(void **state)
{
    struct plan plan = {.seed = seed_of(6),
                        .slots = 160,
                        .nodes_fail = true,
                        .nodes_lose = true,
                        .masters_restart = true,
                        .operations = OPERATIONS / 4,
                        .dead_after_ns = 5 * NS_PER_S};

    (void)state;
    run(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roomy),         cmocka_unit_test(test_full),
        cmocka_unit_test(test_failing_nodes), cmocka_unit_test(test_dying_nodes),
        cmocka_unit_test(test_growing_nodes), cmocka_unit_test(test_restarting_masters),
        cmocka_unit_test(test_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
