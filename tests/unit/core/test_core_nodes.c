/* Nodes: copies, silence, death, return, and what a restarted master learns from them. */
#include "harness.h"

static struct world_request *put_copies(struct world *world, uint64_t session, uint64_t operation,
                                        const char *key, uint64_t size, uint8_t replicas)
{
    struct wire_put_start_req *message = put_message(world, operation, key, size);

    message->items[0].replicas = replicas;
    struct world_request *request = put_send(world, session, message, 1000);

    if (request->done && request->grants[0].status == SNOW_OK)
        grant_write(world, world_key(key), size, &request->grants[0], 0);
    return request;
}

static void test_copies(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 3; i++)
        node_start(&world, MIB, 256)->host = i < 2 ? "x" : "y";
    for (uint32_t i = 0; i < 3; i++) /* the hosts are told with a mount */
        node_mount(&world, &world.nodes[i]), node_tell_all(&world, &world.nodes[i]);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 20; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "a%u", i);
        struct world_request *request = put_copies(&world, session, i + 1, key, 100, 2);
        const struct wire_place *places = request->grants[0].places;

        assert_int_equal(request->grants[0].places_count, 2);
        assert_true(places[0].replica == 0 && places[1].replica == 1);
        /* On different hosts, as there are enough. */
        assert_true((places[0].node == world.nodes[2].number) !=
                    (places[1].node == world.nodes[2].number));
        assert_int_equal(
            put_end_gen(&world, session, key, request->grants[0].gen, 3)->statuses[0].shortfall, 0);
    }
    /* More copies than nodes: a shortfall. */
    struct world_request *request = put_copies(&world, session, 100, "b", 100, 5);

    assert_int_equal(request->grants[0].places_count, 3);
    struct world_request *end = put_end_gen(&world, session, "b", request->grants[0].gen, 7);

    assert_int_equal(end->statuses[0].status, SNOW_OK);
    assert_int_equal(end->statuses[0].shortfall, 2);
    /* Some copies were not written: they are forgotten. */
    request = put_copies(&world, session, 101, "c", 100, 3);
    end = put_end_gen(&world, session, "c", request->grants[0].gen, 2);
    assert_int_equal(end->statuses[0].shortfall, 2);
    const struct wire_found *found = lookup(&world, session, "c");

    assert_int_equal(found->places_count, 1);
    assert_int_equal(found->places[0].replica, 1);
    assert_int_equal(
        put_end_gen(&world, session, "c", request->grants[0].gen, 2)->statuses[0].status, SNOW_OK);
    assert_int_equal(remove_key(&world, session, "c"), SNOW_OK);
    world_deinit(&world);
}

static void test_suspect(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    uint64_t gen = put(world, small.session, "a", 100);

    /* Silence. */
    world_run(world, 2900 * NS_PER_MS);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    world_run(world, 200 * NS_PER_MS);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "nodes_suspect"), 1);
    /* Its room is nobody's meanwhile, its bytes are told apart. */
    assert_int_equal(world_metric(world, "pool_bytes"), 0);
    assert_int_equal(world_metric(world, "ready_bytes"), 0);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    assert_int_equal(world_metric(world, "free_bytes"), 0);
    assert_int_equal(world_metric(world, "silent_bytes"), 256);
    assert_true(node_beat(world, small.node));
    assert_int_equal(world_metric(world, "pool_bytes"), MIB);
    assert_int_equal(world_metric(world, "used_bytes"), 256);
    assert_int_equal(world_metric(world, "silent_bytes"), 0);
    assert_int_equal(lookup(world, small.session, "a")->gen, gen);
    /* Two reports of clients. */
    struct wire_report_peer_msg report = {.node = (uint32_t)small.node->number};
    struct core_input input = {
        .kind = CORE_MESSAGE, .from = small.session, .type = WIRE_report_peer, .message = &report};

    for (uint32_t i = 0; i < 3; i++)
        world_step(world, &input); /* one client, however often: it may be its own fault */
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    input.from = session_open(world, 0);
    world_step(world, &input);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(lookup(world, small.session, "a")->flags, WIRE_FOUND_SUSPECT);
    assert_int_equal(lookup_status(world, small.session, "nothing"), SNOW_NOT_FOUND);
    assert_int_equal(lookup(world, small.session, "nothing")->flags, 0);
    /* Hidden values do not stop a put, which replaces them; nothing is placed on the node. */
    assert_int_equal(put_start(world, small.session, 5, "a", 100)->grants[0].status, SNOW_NO_SPACE);
    struct world_node *other = node_start(world, MIB, 256);
    struct world_request *request = put_start(world, small.session, 6, "a", 200);

    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places[0].node, other->number);
    assert_int_equal(
        put_end_gen(world, small.session, "a", request->grants[0].gen, 1)->statuses[0].status,
        SNOW_OK);
    node_beat(world, small.node);
    assert_int_equal(lookup(world, small.session, "a")->size, 200);
    assert_int_equal(world_metric(world, "objects"), 1);
    world_deinit(world);
}

/* A node that hangs is waited for until it is silent, and never again: nobody pays its time-out
 * twice. */
static void test_removals_do_not_wait_for_the_silent(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct world_request *first;
    struct world_request *second;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    put(world, small.session, "b", 100);
    small.node->holds_closed = true;
    first = remove_send(world, small.session, "a", 0);
    assert_false(first->done);
    world_run(world, 3100 * NS_PER_MS);
    assert_true(first->done);
    assert_int_equal(first->statuses[0].status, SNOW_UNCERTAIN);
    assert_int_equal(first->statuses[0].node, small.node->number);
    second = remove_send(world, small.session, "b", 0);
    assert_true(second->done);
    assert_int_equal(second->statuses[0].status, SNOW_UNCERTAIN);
    /* It answers after all. */
    node_beat(world, small.node);
    small.node->holds_closed = false;
    world_settle(world);
    assert_int_equal(world_metric(world, "used_bytes"), 0);
    assert_int_equal(remove_key(world, small.session, "b"), SNOW_NOT_FOUND);
    world_deinit(world);
}

static void test_broken_connection(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    node_break(world, small.node);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    /* A heartbeat alone does not bring it back: it has to mount. */
    assert_false(node_beat(world, small.node));
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    struct hash128 secret = small.node->secret;

    node_mount(world, small.node);
    assert_memory_equal(&secret, &small.node->secret, sizeof(secret));
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    assert_int_equal(put_start(world, small.session, 5, "b", 100)->grants[0].status, SNOW_NO_SPACE);
    node_tell_all(world, small.node);
    assert_int_equal(put_start(world, small.session, 5, "b", 100)->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_dead(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 20; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "a%u", i);
        struct world_request *request =
            put_copies(&world, session, i + 1, key, 100, i % 2 == 0 ? 2 : 1);

        put_end_gen(&world, session, key, request->grants[0].gen, i % 2 == 0 ? 3 : 1);
    }
    uint64_t on_dead = 0;

    for (uint32_t slot = 0; slot < 256; slot++)
        on_dead += world.nodes[0].slots[0][slot].row.state == WIRE_SLOT_WRITTEN;
    struct world_request *open = put_copies(&world, session, 99, "open", 100, 2);

    node_break(&world, &world.nodes[0]);
    world_live(&world, 59 * NS_PER_S);
    assert_int_equal(world_metric(&world, "objects"), 20);
    world_live(&world, 2 * NS_PER_S);
    /* Those that had another copy live on. */
    assert_int_equal(world_metric(&world, "objects"), 20 - (on_dead - 10));
    assert_int_equal(world_metric(&world, "lost_copies"), on_dead);
    assert_int_equal(world_metric(&world, "pool_bytes"), MIB);
    assert_int_equal(core_expected_count(world.core), 1);
    assert_int_equal(
        put_end_gen(&world, session, "open", open->grants[0].gen, 3)->statuses[0].status,
        SNOW_GONE); /* its deadline came before */
    /* It returns, and is emptied: what it holds may have been removed or replaced meanwhile. */
    assert_false(node_beat(&world, &world.nodes[0]));
    struct hash128 secret = world.nodes[0].secret;

    node_mount(&world, &world.nodes[0]);
    /* Grants from before are void: nobody has forgotten their slots there. */
    assert_true(secret.low != world.nodes[0].secret.low &&
                secret.high != world.nodes[0].secret.high);
    world.nodes[0].holds_freed = true;
    node_tell_all(&world, &world.nodes[0]);
    /* A master that starts again now must not believe what is left there. */
    assert_int_equal(core_expected_count(world.core), 1);
    assert_int_equal(world_metric(&world, "nodes_alive"), 1);
    world.nodes[0].holds_freed = false;
    world_settle(&world);
    assert_int_equal(core_expected_count(world.core), 2);
    assert_int_equal(world_metric(&world, "nodes_alive"), 2);
    world_run(&world, NS_PER_S);
    assert_int_equal(world_metric(&world, "objects"), 20 - (on_dead - 10));
    assert_int_equal(world_metric(&world, "pool_bytes"), 2 * MIB);
    assert_int_equal(lookup(&world, session, "a0")->places_count, 1);
    for (uint32_t slot = 0; slot < 256; slot++)
        assert_int_not_equal(world.nodes[0].slots[0][slot].row.state, WIRE_SLOT_WRITTEN);
    world_deinit(&world);
}

/* It says that it leaves; true: the core knew it. */
static bool node_leave(struct world *world, struct world_node *node, uint64_t incarnation)
{
    struct wire_unmount_req *unmount = world_take(world, 1, sizeof(*unmount));

    unmount->incarnation = incarnation;
    struct world_request *request = world_ask(world, node->number, WIRE_unmount, unmount, 1, 10000);

    assert_true(request->done);
    assert_int_equal(request->status, SNOW_OK);
    bool known = ((const struct wire_unmount_rep *)request->message)->known;

    if (known) {
        node->linked = false;
        node->forget_count = 0;
    }
    return known;
}

/* A node that leaves is DEAD at once: nobody waits for its silence. */
static void test_leaving(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);
    struct world_request *both = put_copies(&world, session, 1, "both", 100, 2);

    put_end_gen(&world, session, "both", both->grants[0].gen, 3);
    for (uint32_t i = 0; i < 20; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "a%u", i);
        put_end_gen(&world, session, key,
                    put_copies(&world, session, i + 2, key, 100, 1)->grants[0].gen, 1);
    }
    struct world_node *node = &world.nodes[0];
    uint64_t on_it = 0;

    for (uint32_t slot = 0; slot < 256; slot++)
        on_it += node->slots[0][slot].row.state == WIRE_SLOT_WRITTEN;
    struct world_request *open = put_copies(&world, session, 99, "open", 100, 2);

    assert_false(node_leave(&world, node, node->incarnation + 1));
    assert_int_equal(world_metric(&world, "nodes_alive"), 2);
    assert_true(node_leave(&world, node, node->incarnation));
    assert_false(node_leave(&world, node, node->incarnation)); /* repeated */
    world_run(&world, NS_PER_MS);
    assert_int_equal(world_metric(&world, "nodes_alive"), 1);
    assert_int_equal(world_metric(&world, "unmounts"), 1);
    assert_int_equal(world_metric(&world, "pool_bytes"), MIB);
    assert_int_equal(world_metric(&world, "objects"), 21 - (on_it - 1));
    assert_int_equal(core_expected_count(world.core), 1);
    assert_int_equal(lookup(&world, session, "both")->places_count, 1);
    /* What was being written there goes on with the other copy. */
    struct world_request *end = put_end_gen(&world, session, "open", open->grants[0].gen, 3);

    assert_int_equal(end->statuses[0].status, SNOW_OK);
    assert_int_equal(end->statuses[0].shortfall, 1);
    /* Its connection ends after it: that is nothing new. */
    node_break(&world, node);
    assert_int_equal(world_metric(&world, "nodes_alive"), 1);
    world_deinit(&world);
}

static void test_copies_lost_before_put_end(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world.options.dead_after_ns = 4 * NS_PER_S;
    world_open(&world);
    struct world_node *nodes[2] = {node_start(&world, MIB, 256), node_start(&world, MIB, 256)};
    uint64_t session = session_open(&world, 0);
    struct world_request *one = put_copies(&world, session, 1, "a", 100, 2);
    struct world_request *two = put_copies(&world, session, 2, "b", 100, 2);
    uint32_t lost = one->grants[0].places[0].node == nodes[0]->number ? 0 : 1;
    uint16_t of_two = two->grants[0].places[0].node == nodes[lost]->number ? 1 : 2;

    node_break(&world, nodes[lost]);
    world_live(&world, 5 * NS_PER_S);
    /* Both were written, one is left; only the lost one was written. */
    struct world_request *end = put_end_gen(&world, session, "a", one->grants[0].gen, 3);

    assert_int_equal(end->statuses[0].status, SNOW_OK);
    assert_int_equal(end->statuses[0].shortfall, 1);
    assert_int_equal(lookup(&world, session, "a")->places_count, 1);
    assert_int_equal(
        put_end_gen(&world, session, "b", two->grants[0].gen, of_two)->statuses[0].status,
        SNOW_GONE);
    assert_int_equal(lookup_status(&world, session, "b"), SNOW_NOT_FOUND);
    world_deinit(&world);
}

static void test_return_compares_rows(void **state)
{
    struct small_world small;
    struct world *world = &small.world;
    struct world_slot *slots;
    uint32_t place[5];

    (void)state;
    small_open(&small, MIB);
    slots = small.node->slots[0];
    for (uint32_t i = 0; i < 5; i++) {
        static const char *const keys[] = {"a", "b", "c", "d", "e"};

        put(world, small.session, keys[i], 100);
        place[i] = lookup(world, small.session, keys[i])->places[0].slot;
    }
    node_break(world, small.node);
    slots[place[1]].row.state = WIRE_SLOT_FREE;   /* lost */
    slots[place[2]].row.gen--;                    /* something else */
    slots[place[3]].row.state = WIRE_SLOT_CLOSED; /* closed, a reader may be inside */
    slots[200].row = slots[place[0]].row;         /* unknown */
    slots[200].row.slot = 200;
    slots[200].row.offset = 512 * KIB;
    small.node->holds_freed = true;
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "b"), SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "c"), SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "d"), SNOW_NOT_FOUND);
    assert_int_equal(lookup_status(world, small.session, "e"), SNOW_OK);
    /* The extents of b, c and d are held until the node says FREED. */
    assert_int_equal(world_metric(world, "used_bytes"), 5 * 256);
    assert_int_equal(small.node->forget_count, 4);
    small.node->holds_freed = false;
    world_settle(world);
    assert_int_equal(world_metric(world, "used_bytes"), 2 * 256);
    assert_true(slots[200].row.state == WIRE_SLOT_FREE);
    world_deinit(world);
}

/* A row from before the put_end says nothing against it. */
static void test_put_ends_while_a_node_tells(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    struct world_request *request = put_start(world, small.session, 1, "a", 100);

    node_break(world, small.node);
    node_mount(world, small.node);
    /* The node sends its rows; on another connection the client writes, and ends. */
    struct wire_inventory_req rows = {.end_slot = 256, .last = 1};

    grant_write(world, world_key("a"), 100, &request->grants[0], 0);
    assert_int_equal(
        put_end_gen(world, small.session, "a", request->grants[0].gen, 1)->statuses[0].status,
        SNOW_OK);
    assert_int_equal(world_ask(world, small.node->number, WIRE_inventory, &rows, 1, 1000)->status,
                     SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_OK);
    /* The next inventory is from after it. */
    node_break(world, small.node);
    node_mount(world, small.node);
    assert_int_equal(world_ask(world, small.node->number, WIRE_inventory, &rows, 1, 1000)->status,
                     SNOW_OK);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(world_metric(world, "free_bytes"), MIB);
    world_deinit(world);
}

static void test_grant_stands_over_a_return(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    struct world_request *request = put_start(world, small.session, 1, "a", 100);

    node_break(world, small.node);
    small.node->process = 2; /* a new process: a new key for grants */
    node_mount(world, small.node);
    node_tell_all(world, small.node);
    struct world_request *again = put_start(world, small.session, 1, "a", 100);

    assert_int_equal(again->grants[0].gen, request->grants[0].gen);
    assert_true(again->grants[0].places[0].mac != request->grants[0].places[0].mac);
    grant_write(world, world_key("a"), 100, &again->grants[0], 0);
    assert_int_equal(
        put_end_gen(world, small.session, "a", again->grants[0].gen, 1)->statuses[0].status,
        SNOW_OK);
    world_deinit(world);
}

static void test_other_segments(void **state)
{
    struct small_world small;
    struct world *world = &small.world;

    (void)state;
    small_open(&small, MIB);
    put(world, small.session, "a", 100);
    uint64_t number = small.node->number;

    node_break(world, small.node);
    small.node->size = 2 * MIB;
    free(small.node->slots[0]);
    small.node->slot_count = 512;
    small.node->slots[0] = calloc(512, sizeof(struct world_slot));
    struct world_request *request = node_mount_send(world, small.node);

    if (request->status == SNOW_BUSY) { /* the old ones are dropped first */
        world_tick(world);
        node_mount(world, small.node);
    }
    node_tell_all(world, small.node);
    assert_int_equal(small.node->number, number);
    assert_int_equal(world_metric(world, "pool_bytes"), 2 * MIB);
    assert_int_equal(lookup_status(world, small.session, "a"), SNOW_NOT_FOUND);
    assert_int_equal(put_start(world, small.session, 2, "a", 100)->grants[0].status, SNOW_OK);
    world_deinit(world);
}

static void test_refused_mounts(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    struct world_node *node = node_add(&world, MIB, 256);

    for (uint32_t i = 0; i < 2000; i++) {
        node->incarnation = i == 0 ? 0 : 1;
        node->size = i == 1 ? 100 : i == 2 ? 2 * TIB : i == 3 ? 0 : MIB;
        node->slot_count = i % 2 ? 0 : 5000;
        assert_int_equal(node_mount_send(&world, node)->status, SNOW_INVALID);
    }
    assert_int_equal(core_expected_count(world.core), 0);
    /* A heartbeat of nobody. */
    node->incarnation = 0;
    node->process = 0;
    assert_false(node_beat(&world, node));
    world_run(&world, 100 * NS_PER_S);
    world_deinit(&world);
}

static void test_two_segments(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    struct world_node *node = node_add(&world, MIB, 256);

    node->segment_count = 2;
    node->slots[1] = calloc(256, sizeof(struct world_slot));
    node_mount(&world, node);
    assert_int_equal(node_tell(&world, node, 2, 0, 0, true), SNOW_INVALID);
    assert_int_equal(node_tell(&world, node, 0, 0, 256, true), SNOW_OK);
    assert_int_equal(node_tell(&world, node, 0, 0, 256, true), SNOW_OK); /* again */
    uint64_t session = session_open(&world, 0);

    assert_int_equal(put_start(&world, session, 1, "a", 100)->grants[0].status, SNOW_NO_SPACE);
    assert_int_equal(node_tell(&world, node, 1, 0, 256, true), SNOW_OK);
    /* The preferred segment, by name. */
    for (uint32_t i = 0; i < 20; i++) {
        char *key = world_take(&world, 1, 16);
        struct wire_put_start_req *message = put_message(&world, 10 + i, key, 100);

        snprintf(key, 16, "k%u", i);
        message->items[0].key = world_key(key);
        message->segment = world_key("second");
        struct world_request *request = put_send(&world, session, message, 0);

        assert_int_equal(request->grants[0].places[0].segment, 1);
    }
    /* An object larger than one segment takes both. */
    struct world_request *request = put_send(&world, session_open(&world, 0),
                                             put_message(&world, 1, "large", 3 * MIB / 2), 1000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places_count, 2);
    world_deinit(&world);
}

static void test_full_second_copy(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    /* Both nodes are full; each put has to make room on both. */
    for (uint32_t i = 0; i < 60; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "a%u", i);
        struct world_request *request =
            put_copies(&world, session, i + 1, key, 64 * KIB, i < 20 ? 1 : 2);

        world_run(&world, 10 * NS_PER_MS);
        assert_true(request->done);
        assert_int_equal(request->grants[0].status, SNOW_OK);
        put_end_gen(&world, session, key, request->grants[0].gen, i < 20 ? 1 : 3);
    }
    world_deinit(&world);
}

static void test_larger_than_a_full_segment(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    world_open(&world);
    for (uint32_t i = 0; i < 2; i++)
        node_start(&world, MIB, 256);
    uint64_t session = session_open(&world, 0);

    for (uint32_t i = 0; i < 32; i++) {
        char *key = world_take(&world, 1, 16);

        snprintf(key, 16, "a%u", i);
        put(&world, session, key, 64 * KIB);
    }
    struct world_request *request =
        put_send(&world, session, put_message(&world, 999, "large", 3 * MIB / 2), 2000);

    world_run(&world, 100 * NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    world_deinit(&world);
}

/* A node of two segments: the first is pinned whole, the second holds so many objects that may
 * go. */
static uint64_t open_pinned(struct world *world, uint32_t seconds)
{
    world_init(world);
    world->options.hard_pin_percent = 90;
    world_open(world);
    struct world_node *node = node_add(world, MIB, 256);

    node->segment_count = 2;
    node->slots[1] = calloc(256, sizeof(struct world_slot));
    node_mount(world, node);
    node_tell_all(world, node);
    uint64_t session = session_open(world, 0);

    for (uint32_t i = 0; i < 4 + seconds; i++) {
        struct wire_put_start_req *message =
            put_message(world, i + 1, i < 4 ? "p" : "f", 256 * KIB - 8 * KIB);
        char *key = world_take(world, 1, 16);

        snprintf(key, 16, "k%u", i);
        message->items[0].key = world_key(key);
        message->items[0].pin = i < 4 ? WIRE_PIN_HARD : WIRE_PIN_NONE;
        message->segment = world_key(i < 4 ? "first" : "second");
        struct world_request *request = put_send(world, session, message, 0);

        put_end_gen(world, session, key, request->grants[0].gen, 1);
    }
    return session;
}

static void test_places_where_room_can_be_made(void **state)
{
    struct world world;
    uint64_t session = open_pinned(&world, 4);

    (void)state;
    struct wire_put_start_req *message = put_message(&world, 100, "x", 200 * KIB);

    message->segment = world_key("first");
    struct world_request *request = put_send(&world, session, message, 2000);

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places[0].segment, 1);
    world_deinit(&world);
}

/* Who waited for something else is looked at for the first time when the room is there. */
static void test_takes_room_that_is_elsewhere(void **state)
{
    struct world world;
    uint64_t session = open_pinned(&world, 0);

    (void)state;
    struct wire_put_start_req *message = put_message(&world, 100, "open", 400 * KIB);

    message->segment = world_key("second");
    struct world_request *open = put_send(&world, session, message, 0);

    message = put_message(&world, 101, "x", 200 * KIB);
    message->segment = world_key("first");
    message->wait_ms = 30000;
    struct world_request *request = world_ask(&world, session, WIRE_put_start, message, 1, 60000);

    world_run(&world, NS_PER_S);
    assert_false(request->done); /* with the open one it would be above its session's share */
    put_end_gen(&world, session, "open", open->grants[0].gen, 1);
    world_run(&world, NS_PER_MS);
    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    assert_int_equal(request->grants[0].places[0].segment, 1);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_suspect),
        cmocka_unit_test(test_removals_do_not_wait_for_the_silent),
        cmocka_unit_test(test_broken_connection),
        cmocka_unit_test(test_dead),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_copies_lost_before_put_end),
        cmocka_unit_test(test_return_compares_rows),
        cmocka_unit_test(test_put_ends_while_a_node_tells),
        cmocka_unit_test(test_grant_stands_over_a_return),
        cmocka_unit_test(test_other_segments),
        cmocka_unit_test(test_refused_mounts),
        cmocka_unit_test(test_two_segments),
        cmocka_unit_test(test_full_second_copy),
        cmocka_unit_test(test_larger_than_a_full_segment),
        cmocka_unit_test(test_places_where_room_can_be_made),
        cmocka_unit_test(test_takes_room_that_is_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
