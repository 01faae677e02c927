/* Copies from node to node, and the tasks that ask for them: copy, move, drain. */
#include "harness.h"

struct copy_world {
    struct world world;
    struct world_node *nodes[WORLD_NODES];
    uint64_t session;
};

static struct world *open_nodes(struct copy_world *copy, uint32_t count, uint64_t size)
{
    struct world *world = &copy->world;

    world_init(world);
    world->options.copy_rate_bytes = 0;
    world->options.hard_pin_percent = 90;
    world_open(world);
    for (uint32_t i = 0; i < count; i++)
        copy->nodes[i] = node_start(world, size, (uint32_t)(size / 4096));
    copy->session = session_open(world, 0);
    return world;
}

static char *name_of(struct world *world, uint32_t number)
{
    char *name = world_take(world, 1, 16);

    snprintf(name, 16, "k%u", number);
    return name;
}

static const struct wire_task_start_rep *task_ask(struct copy_world *copy, uint8_t kind,
                                                  const char *key, uint64_t from, uint64_t to)
{
    struct wire_task_start_req *start = world_take(&copy->world, 1, sizeof(*start));
    struct world_request *request;

    start->kind = kind;
    start->key = world_key(key);
    start->from = (uint32_t)from;
    start->to = (uint32_t)to;
    request = world_ask(&copy->world, copy->session, WIRE_task_start, start, 1, 10000);
    assert_true(request->done);
    assert_int_equal(request->status, SNOW_OK);
    return request->message;
}

static uint64_t task_start(struct copy_world *copy, uint8_t kind, const char *key, uint64_t from,
                           uint64_t to)
{
    const struct wire_task_start_rep *reply = task_ask(copy, kind, key, from, to);

    assert_int_equal(reply->status, SNOW_OK);
    return reply->task;
}

static const struct wire_task_info *task_look(struct copy_world *copy, uint64_t id)
{
    struct wire_tasks_req *tasks = world_take(&copy->world, 1, sizeof(*tasks));

    tasks->task = id;
    struct world_request *request =
        world_ask(&copy->world, copy->session, WIRE_tasks, tasks, 1, 10000);
    const struct wire_tasks_rep *reply = request->message;

    assert_int_equal(reply->tasks_count, 1);
    return &reply->tasks[0];
}

static int32_t task_cancel(struct copy_world *copy, uint64_t id)
{
    struct wire_task_cancel_req *cancel = world_take(&copy->world, 1, sizeof(*cancel));

    cancel->task = id;
    struct world_request *request =
        world_ask(&copy->world, copy->session, WIRE_task_cancel, cancel, 1, 10000);

    return ((const struct wire_task_cancel_rep *)request->message)->status;
}

/* The number of the only node that an object lies on, or 0. */
static uint64_t node_of(struct copy_world *copy, const char *key)
{
    const struct wire_found *found = lookup(&copy->world, copy->session, key);
    uint64_t node = 0;

    for (uint32_t i = 0; i < found->places_count; i++) {
        if (node != 0 && node != found->places[i].node)
            return 0;
        node = found->places[i].node;
    }
    return node;
}

static struct world_node *other_than(struct copy_world *copy, uint64_t number)
{
    return copy->nodes[copy->nodes[0]->number == number ? 1 : 0];
}

static void put_pinned(struct copy_world *copy, const char *key, uint64_t size, uint8_t pin)
{
    struct world *world = &copy->world;
    struct wire_put_start_req *message = put_message(world, world->token + 1, key, size);

    message->items[0].pin = pin;
    struct world_request *request = put_send(world, copy->session, message, 0);

    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, world_key(key), size, &request->grants[0], WIRE_SLOT_HARD_PIN);
    put_end_gen(world, copy->session, key, request->grants[0].gen, 1);
}

static void a_copy_is_one_more_place_with_a_generation_of_its_own(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    uint64_t gen = put(world, copy.session, "a", 5000);
    uint64_t from = node_of(&copy, "a");
    uint64_t to = other_than(&copy, from)->number;

    (void)state;
    uint64_t task = task_start(&copy, WIRE_TASK_COPY, "a", 0, to);
    const struct wire_task_info *info = task_look(&copy, task);

    assert_int_equal(info->state, WIRE_TASK_DONE);
    assert_int_equal(info->objects, 1);
    assert_true(info->bytes >= 5000);
    const struct wire_found *found = lookup(world, copy.session, "a");

    assert_true(found->gen == gen);
    assert_int_equal(found->places_count, 2);
    assert_int_equal(found->places[0].node, from);
    assert_true(found->places[0].gen == gen);
    assert_int_equal(found->places[1].node, to);
    assert_true(found->places[1].gen > gen);
    assert_int_equal(found->places[1].replica, 1);
    assert_true(world_metric(world, "used_bytes") >= 10000);
    /* There is one already; and nothing there of another name. */
    assert_int_equal(task_ask(&copy, WIRE_TASK_COPY, "a", 0, to)->status, SNOW_EXISTS);
    assert_int_equal(task_ask(&copy, WIRE_TASK_COPY, "b", 0, to)->status, SNOW_NOT_FOUND);
    assert_int_equal(task_ask(&copy, WIRE_TASK_COPY, "a", 0, 77)->status, SNOW_NOT_FOUND);
    assert_int_equal(task_ask(&copy, WIRE_TASK_COPY, "", 0, to)->status, SNOW_INVALID);
    assert_int_equal(task_ask(&copy, WIRE_TASK_MOVE, "a", to, to)->status, SNOW_INVALID);
    assert_int_equal(task_ask(&copy, 9, "a", 0, to)->status, SNOW_INVALID);
    assert_int_equal(remove_key(world, copy.session, "a"), SNOW_OK);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    world_deinit(world);
}

static void a_move_gives_up_what_it_leaves_once_the_new_can_be_read(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    uint64_t gen = put(world, copy.session, "a", 5000);
    uint64_t from = node_of(&copy, "a");
    struct world_node *to = other_than(&copy, from);
    uint64_t used = world_metric(world, "used_bytes");

    (void)state;
    to->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_MOVE, "a", from, to->number);

    assert_int_equal(node_of(&copy, "a"), from);
    assert_true(world_metric(world, "used_bytes") == 2 * used);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING);
    assert_true(task_start(&copy, WIRE_TASK_MOVE, "a", from, to->number) == task);
    node_end_copy(world, to, 0, SNOW_OK);
    assert_int_equal(node_of(&copy, "a"), to->number);
    world_settle(world);
    assert_true(world_metric(world, "used_bytes") == used);
    assert_true(lookup(world, copy.session, "a")->gen == gen);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_DONE);
    assert_int_equal(world_metric(world, "copies_moved"), 1);
    assert_int_equal(task_ask(&copy, WIRE_TASK_MOVE, "a", from, to->number)->status,
                     SNOW_NOT_FOUND);
    /* And back: into a slot where it was before, under a later generation. */
    to->holds_copies = false;
    task_start(&copy, WIRE_TASK_MOVE, "a", to->number, from);
    assert_int_equal(node_of(&copy, "a"), from);
    world_deinit(world);
}

static void who_removes_waits_for_the_copy_too(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *to;
    struct world_request *request;

    (void)state;
    put(world, copy.session, "a", 5000);
    to = other_than(&copy, node_of(&copy, "a"));
    to->holds_copies = to->holds_closed = true;
    uint64_t task = task_start(&copy, WIRE_TASK_COPY, "a", 0, to->number);

    request = remove_send(world, copy.session, "a", 0);
    assert_false(request->done);
    assert_int_equal(lookup_status(world, copy.session, "a"), SNOW_NOT_FOUND);
    node_acknowledge(world, to, 0, true);
    world_settle(world);
    assert_true(request->done);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
    /* What the node says then is of a copy that has ended. */
    node_end_copy(world, to, 0, SNOW_GONE);
    world_run(world, NS_PER_S);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_FAILED);
    assert_int_equal(task_look(&copy, task)->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

static void a_copy_ends_with_its_node_and_is_tried_again(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *to;

    (void)state;
    put(world, copy.session, "a", 5000);
    to = other_than(&copy, node_of(&copy, "a"));
    to->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_COPY, "a", 0, to->number);

    node_break(world, to);
    assert_int_equal(world_metric(world, "copies_ended"), 1);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING);
    to->holds_copies = false;
    node_mount(world, to);
    node_tell_all(world, to);
    world_live(world, NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_DONE);
    assert_int_equal(lookup(world, copy.session, "a")->places_count, 2);
    world_deinit(world);
}

static void a_copy_that_fails_is_given_up_after_some_tries(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *to;

    (void)state;
    put(world, copy.session, "a", 5000);
    to = other_than(&copy, node_of(&copy, "a"));
    to->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_COPY, "a", 0, to->number);

    for (uint32_t i = 0; i < 20 && to->copy_count > 0; i++) {
        node_end_copy(world, to, 0, SNOW_CORRUPT);
        world_settle(world);
        world_run(world, 100 * NS_PER_MS);
    }
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_FAILED);
    assert_int_equal(task_look(&copy, task)->status, SNOW_CORRUPT);
    assert_int_equal(lookup(world, copy.session, "a")->places_count, 1);
    assert_int_equal(world_metric(world, "copies_under_way"), 0);
    world_deinit(world);
}

static void a_cancelled_copy_leaves_nothing(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *to;

    (void)state;
    put(world, copy.session, "a", 5000);
    uint64_t used = world_metric(world, "used_bytes");

    to = other_than(&copy, node_of(&copy, "a"));
    to->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_COPY, "a", 0, to->number);

    assert_int_equal(task_cancel(&copy, task), SNOW_OK);
    assert_int_equal(task_cancel(&copy, task), SNOW_OK);
    assert_int_equal(task_cancel(&copy, task + 1), SNOW_NOT_FOUND);
    assert_true(world_metric(world, "used_bytes") == used);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_CANCELLED);
    node_end_copy(world, to, 0, SNOW_GONE);
    assert_int_equal(lookup(world, copy.session, "a")->places_count, 1);
    world_deinit(world);
}

/* The master is gone and comes back with the next term. */
static void restart(struct copy_world *copy)
{
    static struct core_expected expected[LIMIT_NODES];
    struct world *world = &copy->world;

    world->start.expected_count = core_expected_count(world->core);
    for (uint32_t i = 0; i < world->start.expected_count; i++)
        expected[i] = core_expected_at(world->core, i);
    world->start.expected = expected;
    world->start.term = core_term(world->core) + 1;
    world_close(world);
    for (uint32_t i = 0; i < world->node_count; i++)
        world->nodes[i].linked = false;
    world_open(world);
    for (uint32_t i = 0; i < world->node_count; i++) {
        node_mount(world, &world->nodes[i]);
        node_tell_all(world, &world->nodes[i]);
    }
    copy->session = session_open(world, 0);
}

static void a_master_that_restarts_finds_copies_and_what_was_moved(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    uint64_t copied = put(world, copy.session, "copied", 5000);
    uint64_t moved = put(world, copy.session, "moved", 6000);
    uint64_t from = node_of(&copy, "moved");
    struct world_node *to = other_than(&copy, from);

    (void)state;
    task_start(&copy, WIRE_TASK_COPY, "copied", 0,
               other_than(&copy, node_of(&copy, "copied"))->number);
    to->holds_copies = true;
    task_start(&copy, WIRE_TASK_MOVE, "moved", from, to->number);
    /* Both places of what is moved are WRITTEN when the master ends. */
    world_node_of(world, from)->holds_closed = true;
    node_end_copy(world, to, 0, SNOW_OK);
    world_node_of(world, from)->holds_closed = to->holds_copies = false;
    restart(&copy);
    const struct wire_found *found = lookup(world, copy.session, "copied");

    assert_int_equal(found->status, SNOW_OK);
    assert_true(found->gen == copied);
    assert_int_equal(found->places_count, 2);
    assert_true(found->places[0].gen != found->places[1].gen);
    found = lookup(world, copy.session, "moved");
    assert_int_equal(found->status, SNOW_OK);
    assert_true(found->gen == moved);
    assert_int_equal(found->places_count, 1);
    assert_int_equal(remove_key(world, copy.session, "copied"), SNOW_OK);
    assert_int_equal(remove_key(world, copy.session, "moved"), SNOW_OK);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    world_deinit(world);
}

static void the_pace_of_a_task_is_kept(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 8 * MIB);
    uint64_t from = copy.nodes[0]->number;

    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        put(world, copy.session, name_of(world, i), 100 * KIB);
    uint64_t used = world_metric(world, "used_bytes");
    struct wire_task_start_req *start = world_take(world, 1, sizeof(*start));

    start->kind = WIRE_TASK_DRAIN;
    start->from = (uint32_t)from;
    start->rate = 1 * MIB;
    struct world_request *request =
        world_ask(world, copy.session, WIRE_task_start, start, 1, 10000);
    uint64_t task = ((const struct wire_task_start_rep *)request->message)->task;

    world_live(world, NS_PER_S);
    const struct wire_task_info *info = task_look(&copy, task);

    assert_int_equal(info->state, WIRE_TASK_RUNNING);
    assert_true(info->bytes >= 900 * KIB && info->bytes <= 1200 * KIB);
    assert_true(info->left_bytes > 0 && info->left_ms >= 500 && info->left_ms < 5000);
    world_live(world, 4 * NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_DONE);
    assert_true(world_metric(world, "used_bytes") == used);
    world_deinit(world);
}

static void a_drained_node_is_empty_and_leaves(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 3, 4 * MIB);
    struct world_node *drained = copy.nodes[0];
    uint32_t on_it = 0;

    (void)state;
    for (uint32_t i = 0; i < 60; i++)
        put(world, copy.session, name_of(world, i), 40 * KIB);
    for (uint32_t i = 0; i < 60; i++)
        on_it += node_of(&copy, name_of(world, i)) == drained->number;
    assert_true(on_it > 5);
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", drained->number, 0);

    assert_true(task_start(&copy, WIRE_TASK_DRAIN, "", drained->number, 0) == task);
    world_run(world, NS_PER_S / 2);
    const struct wire_task_info *info = task_look(&copy, task);

    assert_int_equal(info->state, WIRE_TASK_DONE);
    assert_int_equal(info->objects, on_it);
    assert_int_equal(info->dropped_objects, 0);
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(lookup_status(world, copy.session, name_of(world, i)), SNOW_OK);
        assert_true(node_of(&copy, name_of(world, i)) != drained->number);
    }
    assert_int_equal(world_metric(world, "nodes_alive"), 2);
    assert_int_equal(core_expected_count(world->core), 2);
    /* This process of it is not taken in again; the next one is, like any node. */
    assert_false(node_beat(world, drained));
    assert_int_equal(node_mount_send(world, drained)->status, SNOW_GONE);
    drained->process++;
    node_mount(world, drained);
    node_tell_all(world, drained);
    assert_int_equal(world_metric(world, "nodes_alive"), 3);
    world_deinit(world);
}

/* Two full nodes: of both the older half goes, wherever it lies. */
static void a_drain_keeps_what_is_worth_most(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *drained = copy.nodes[0];
    uint32_t kept[4] = {0}; /* by quarter of their age */

    (void)state;
    for (uint32_t i = 0; i < 200; i++) /* 40 KiB each: 102 fill a node */
        put(world, copy.session, name_of(world, i), 40 * KIB);
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", drained->number, 0);

    world_live(world, 30 * NS_PER_S);
    const struct wire_task_info *info = task_look(&copy, task);

    assert_int_equal(info->state, WIRE_TASK_DONE);
    assert_true(info->objects > 20 && info->dropped_objects > 20);
    for (uint32_t i = 0; i < 200; i++)
        kept[i / 50] += lookup_status(world, copy.session, name_of(world, i)) == SNOW_OK;
    assert_int_equal(kept[3], 50);
    assert_true(kept[2] >= 40);
    assert_true(kept[0] <= 5);
    world_deinit(world);
}

static void nothing_is_placed_on_a_node_that_drains_and_cancel_ends_that(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct world_node *drained = copy.nodes[0];
    uint32_t on_it = 0;

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        put(world, copy.session, name_of(world, i), 40 * KIB);
    copy.nodes[1]->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", drained->number, 0);
    uint64_t used = world_metric(world, "used_bytes");

    for (uint32_t i = 20; i < 40; i++) {
        put(world, copy.session, name_of(world, i), 10 * KIB);
        assert_true(node_of(&copy, name_of(world, i)) == copy.nodes[1]->number);
    }
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING);
    assert_true(task_look(&copy, task)->left_objects > 0);
    assert_int_equal(task_cancel(&copy, task), SNOW_OK);
    assert_int_equal(world_metric(world, "copies_under_way"), 0);
    assert_true(world_metric(world, "used_bytes") < used + 20 * 12 * KIB);
    for (uint32_t i = 40; i < 60; i++) {
        put(world, copy.session, name_of(world, i), 10 * KIB);
        on_it += node_of(&copy, name_of(world, i)) == drained->number;
    }
    assert_true(on_it > 0);
    world_deinit(world);
}

static void what_is_pinned_for_good_is_moved_or_keeps_the_node(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    uint64_t drained;

    (void)state;
    put_pinned(&copy, "one", 3 * MIB, WIRE_PIN_HARD);
    drained = node_of(&copy, "one");
    put_pinned(&copy, "two", 3 * MIB, WIRE_PIN_HARD);
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", drained, 0);

    world_live(world, 10 * NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING);
    assert_int_equal(lookup_status(world, copy.session, "one"), SNOW_OK);
    assert_int_equal(remove_key(world, copy.session, "two"), SNOW_OK);
    world_live(world, 10 * NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_DONE);
    assert_int_equal(lookup_status(world, copy.session, "one"), SNOW_OK);
    assert_int_equal(world_metric(world, "hard_pinned_bytes"), 3 * MIB);
    world_deinit(world);
}

/* Of two copies one is given up where there is no third node; an open write is waited for. */
static void copies_and_open_writes_on_a_drained_node(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);
    struct wire_put_start_req *message = put_message(world, 1000000, "two", 5000);
    struct world_request *request;

    (void)state;
    message->items[0].replicas = 2;
    request = put_send(world, copy.session, message, 0);
    grant_write(world, world_key("two"), 5000, &request->grants[0], 0);
    put_end_gen(world, copy.session, "two", request->grants[0].gen, 3);
    request = put_start(world, copy.session, 1000001, "open", 5000);
    uint64_t drained = request->grants[0].places[0].node;
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", drained, 0);

    world_live(world, NS_PER_S);
    assert_int_equal(lookup(world, copy.session, "two")->places_count, 1);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING);
    grant_write(world, world_key("open"), 5000, &request->grants[0], 0);
    put_end_gen(world, copy.session, "open", request->grants[0].gen, 1);
    world_live(world, NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_DONE);
    assert_int_equal(lookup_status(world, copy.session, "open"), SNOW_OK);
    assert_int_equal(lookup_status(world, copy.session, "two"), SNOW_OK);
    world_deinit(world);
}

static void a_drain_ends_when_its_node_is_lost(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 4 * MIB);

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        put(world, copy.session, name_of(world, i), 40 * KIB);
    copy.nodes[1]->holds_copies = true;
    uint64_t task = task_start(&copy, WIRE_TASK_DRAIN, "", copy.nodes[0]->number, 0);

    node_break(world, copy.nodes[0]);
    world_live(world, 10 * NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_RUNNING); /* it may return */
    world_live(world, 60 * NS_PER_S);
    assert_int_equal(task_look(&copy, task)->state, WIRE_TASK_FAILED);
    assert_int_equal(task_look(&copy, task)->status, SNOW_UNREACHABLE);
    assert_int_equal(task_ask(&copy, WIRE_TASK_DRAIN, "", 77, 0)->status, SNOW_NOT_FOUND);
    world_deinit(world);
}

/* ---- second copies ---- */

static void use(struct copy_world *copy, const char *key, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        struct wire_lookup_req *lookup = world_take(&copy->world, 1, sizeof(*lookup));

        lookup->flags = WIRE_LOOKUP_TOUCH;
        lookup->keys = world_take(&copy->world, 1, sizeof(*lookup->keys));
        lookup->keys_count = 1;
        lookup->keys[0].key = world_key(key);
        world_ask(&copy->world, copy->session, WIRE_lookup, lookup, 1, 1000);
    }
    world_run(&copy->world, 10 * NS_PER_MS);
}

static uint32_t copies_of(struct copy_world *copy, const char *key)
{
    return lookup(&copy->world, copy->session, key)->places_count;
}

static void what_is_used_often_gets_a_second_copy(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 32 * MIB); /* two per cent: 1.28 MiB */

    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        put(world, copy.session, name_of(world, i), 100 * KIB);
    use(&copy, "k3", 6);
    assert_int_equal(copies_of(&copy, "k3"), 1);
    use(&copy, "k3", 2);
    assert_int_equal(copies_of(&copy, "k3"), 2);
    assert_int_equal(world_metric(world, "second_copies"), 1);
    /* No more than fit into the share. */
    for (uint32_t i = 4; i < 40; i++)
        use(&copy, name_of(world, i), 9);
    uint64_t bytes = world_metric(world, "second_copy_bytes");

    assert_true(bytes <= 64 * MIB / 100 * 2 && bytes >= 64 * MIB / 100 * 2 - 104 * KIB);
    /* One that is removed makes place; one whose node is lost lives on, as the only one. */
    assert_int_equal(remove_key(world, copy.session, "k3"), SNOW_OK);
    assert_true(world_metric(world, "second_copy_bytes") < bytes);
    node_break(world, copy.nodes[0]);
    for (uint32_t i = 4; i < 10; i++)
        assert_int_equal(lookup_status(world, copy.session, name_of(world, i)), SNOW_OK);
    world_live(world, 70 * NS_PER_S);
    assert_int_equal(world_metric(world, "second_copies"), 0);
    assert_int_equal(lookup_status(world, copy.session, "k4"), SNOW_OK);
    world_deinit(world);
}

/* The pool turns over without a use of it: its second copy goes, though it may not be evicted. */
static void a_second_copy_goes_first(void **state)
{
    struct copy_world copy;
    struct world *world = open_nodes(&copy, 2, 8 * MIB);
    uint32_t both = 0;

    (void)state;
    put_pinned(&copy, "pinned", 100 * KIB, WIRE_PIN_HARD);
    put(world, copy.session, "hot", 100 * KIB);
    use(&copy, "pinned", 9);
    use(&copy, "hot", 9);
    assert_int_equal(copies_of(&copy, "pinned"), 2);
    assert_int_equal(copies_of(&copy, "hot"), 2);
    for (uint32_t i = 0; i < 400; i++) {
        put(world, copy.session, name_of(world, i), 100 * KIB);
        both += copies_of(&copy, "pinned") == 2;
    }
    assert_true(both > 100 && both < 300);
    assert_int_equal(copies_of(&copy, "pinned"), 1);
    assert_int_equal(lookup_status(world, copy.session, "hot"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "second_copies"), 0);
    assert_int_equal(world_metric(world, "second_copy_bytes"), 0);
    assert_true(world_metric(world, "second_copies_dropped") >= 1);
    world_deinit(world);
}

static void none_when_the_option_says_so(void **state)
{
    struct copy_world copy;
    struct world *world = &copy.world;

    (void)state;
    world_init(world);
    world->options.second_copies_percent = 0;
    world_open(world);
    for (uint32_t i = 0; i < 2; i++)
        copy.nodes[i] = node_start(world, 32 * MIB, 8192);
    copy.session = session_open(world, 0);
    put(world, copy.session, "hot", 100 * KIB);
    use(&copy, "hot", 15);
    assert_int_equal(copies_of(&copy, "hot"), 1);
    world_deinit(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_one_more_place_with_a_generation_of_its_own),
        cmocka_unit_test(a_move_gives_up_what_it_leaves_once_the_new_can_be_read),
        cmocka_unit_test(who_removes_waits_for_the_copy_too),
        cmocka_unit_test(a_copy_ends_with_its_node_and_is_tried_again),
        cmocka_unit_test(a_copy_that_fails_is_given_up_after_some_tries),
        cmocka_unit_test(a_cancelled_copy_leaves_nothing),
        cmocka_unit_test(a_master_that_restarts_finds_copies_and_what_was_moved),
        cmocka_unit_test(the_pace_of_a_task_is_kept),
        cmocka_unit_test(a_drained_node_is_empty_and_leaves),
        cmocka_unit_test(a_drain_keeps_what_is_worth_most),
        cmocka_unit_test(nothing_is_placed_on_a_node_that_drains_and_cancel_ends_that),
        cmocka_unit_test(what_is_pinned_for_good_is_moved_or_keeps_the_node),
        cmocka_unit_test(copies_and_open_writes_on_a_drained_node),
        cmocka_unit_test(a_drain_ends_when_its_node_is_lost),
        cmocka_unit_test(what_is_used_often_gets_a_second_copy),
        cmocka_unit_test(a_second_copy_goes_first),
        cmocka_unit_test(none_when_the_option_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
