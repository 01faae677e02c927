/* Groups by the library, against a real master and real nodes. */
#include "cluster.h"
#include "node/inside.h"
#include "snowskin/groups.h"

#include <unistd.h>

#define SIZE 8u
#define PIECE 5000u

static int setup(void **state)
{
    *state = open_cluster(2, 64 * MIB);
    return 0;
}

static int setup_tcp(void **state)
{
    *state = open_cluster_by(SNOW_TRANSPORT_TCP, 2, 64 * MIB);
    return 0;
}

static int teardown(void **state)
{
    close_cluster(*state);
    return 0;
}

/* Members of a group, put in one call: those of [from, to). */
static void put_members(struct snow_client *client, const char *group, uint32_t from, uint32_t to,
                        uint32_t flags, bool replace)
{
    static uint8_t bytes[SIZE][PIECE];
    static char keys[SIZE][300];
    struct snow_member members[SIZE];
    struct snow_put puts[SIZE];
    uint32_t count = to - from;

    for (uint32_t i = 0; i < count; i++) {
        fill(bytes[i], PIECE, from + i + (replace ? 100 : 0));
        snprintf(keys[i], sizeof(keys[i]), "%s.%u", group, from + i);
        members[i] = (struct snow_member){
            .group = key_of(group), .size = SIZE, .index = from + i, .flags = flags};
        puts[i] = (struct snow_put){.key = key_of(keys[i]),
                                    .from = bytes[i],
                                    .size = PIECE,
                                    .depth = SNOW_DEPTH_UNKNOWN,
                                    .replace = replace,
                                    .member = &members[i]};
    }
    assert_int_equal(snow_put(client, puts, count, NULL), SNOW_OK);
}

static struct snow_group_info stat_of(struct snow_client *client, const char *group)
{
    struct snow_group_info info = {.id = key_of(group)};

    (void)snow_group_stat(client, &info, 1, NULL);
    return info;
}

static enum snow_status read_all(struct snow_client *client, const char *group, uint64_t hold,
                                 uint64_t seed)
{
    static uint8_t got[SIZE][PIECE];
    static uint8_t wanted[PIECE];
    struct snow_group_read read = {.id = key_of(group), .hold = hold};
    struct snow_get items[SIZE] = {0};

    for (uint32_t i = 0; i < SIZE; i++) {
        items[i].to = got[i];
        items[i].room = PIECE;
    }
    enum snow_status status = snow_group_get(client, &read, items, SIZE, NULL);

    assert_int_equal(read.status, status);
    for (uint32_t i = 0; i < SIZE && status == SNOW_OK; i++) {
        fill(wanted, PIECE, i + seed);
        assert_int_equal(items[i].status, SNOW_OK);
        assert_int_equal(items[i].size, PIECE);
        assert_memory_equal(got[i], wanted, PIECE);
    }
    return status;
}

static void whole(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;

    put_members(client, "g", 0, 3, 0, false);
    assert_int_equal(stat_of(client, "g").state, SNOW_GROUP_FORMING);
    assert_int_equal(stat_of(client, "g").missing_count, SIZE - 3);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_NOT_READY);
    put_members(client, "g", 3, SIZE, 0, false);
    struct snow_group_info info = stat_of(client, "g");

    assert_int_equal(info.state, SNOW_GROUP_COMPLETE);
    assert_string_equal(snow_group_state_name(info.state), "complete");
    assert_int_equal(info.present, SIZE);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_OK);
    /* A single member is read as ever; some members are, too. */
    uint32_t indexes[] = {2, 5};
    struct snow_group_read read = {.id = key_of("g"), .indexes = indexes};
    struct snow_get items[2] = {0};
    struct snow_get one = {.key = key_of("g.5")};

    assert_int_equal(snow_group_get(client, &read, items, 2, NULL), SNOW_OK);
    assert_int_equal(snow_get(client, &one, 1, NULL), SNOW_OK);
    assert_memory_equal(items[1].to, one.to, PIECE);
    snow_free(items[0].to);
    snow_free(items[1].to);
    snow_free(one.to);
    assert_int_equal(stat_of(client, "none").status, SNOW_NOT_FOUND);
}

/* What is told of the group of a key, by exists and by group_stat. */
static void by_key(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_stat stats[] = {
        {.key = key_of("g.2")}, {.key = key_of("alone")}, {.key = key_of("none")}, {.key = {0}}};
    struct snow_group_more mores[4] = {0};
    struct snow_group_info infos[4] = {0};
    struct snow_call call = {.groups = infos, .flags = SNOW_CALL_LEASE};
    struct snow_put put = {
        .key = key_of("alone"), .from = "x", .size = 1, .depth = SNOW_DEPTH_UNKNOWN};

    put_members(client, "g", 0, SIZE, 0, false);
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_OK);
    for (int i = 0; i < 4; i++)
        infos[i].more = &mores[i];
    assert_int_equal(snow_exists(client, stats, 4, &call), SNOW_NOT_FOUND);
    assert_int_equal(stats[0].status, SNOW_OK);
    assert_int_equal(infos[0].status, SNOW_OK);
    assert_int_equal(infos[0].state, SNOW_GROUP_COMPLETE);
    assert_int_equal(infos[0].present, SIZE);
    assert_int_equal(mores[0].id_size, 1);
    assert_memory_equal(mores[0].id, "g", 1);
    assert_true(mores[0].lease_ms > 0);
    assert_int_equal(infos[1].size, 1);
    assert_int_equal(infos[1].state, SNOW_GROUP_COMPLETE);
    assert_int_equal(mores[1].id_size, 0);
    assert_int_equal(infos[2].status, SNOW_NOT_FOUND);
    assert_int_equal(infos[3].status, SNOW_INVALID);
    /* Calls that tell no groups say so. */
    assert_int_equal(snow_put(client, &put, 1, &call), SNOW_INVALID);
    assert_string_equal(snow_reason(), "flags: one that this call does not know");
    call.flags = 0;
    assert_int_equal(snow_put(client, &put, 1, &call), SNOW_INVALID);
    assert_string_equal(snow_reason(), "groups: this call tells none");
    /* By group_stat, which waits and tells what is missing. */
    struct snow_group_info info = {.id = key_of("g.2"), .by_key = 1, .more = &mores[0]};
    struct snow_item item = {.key = key_of("g.4")};

    assert_int_equal(snow_remove(client, &item, 1, NULL), SNOW_OK);
    call = (struct snow_call){.flags = SNOW_CALL_LEASE};
    assert_int_equal(snow_group_stat(client, &info, 1, &call), SNOW_OK);
    assert_int_equal(info.missing_count, 1);
    assert_int_equal(info.missing[0], 4);
    assert_int_equal(info.missing_next, SNOW_GROUP_INDEX_ANY);
    assert_true(mores[0].lease_ms > 0);
    info.missing_from = 5;
    assert_int_equal(snow_group_stat(client, &info, 1, NULL), SNOW_OK);
    assert_int_equal(info.missing_count, 0);
    assert_int_equal(mores[0].lease_ms, 0);
    info.by_key = 2;
    assert_int_equal(snow_group_stat(client, &info, 1, NULL), SNOW_INVALID);
    info = (struct snow_group_info){.id = key_of("none"), .by_key = 1};
    assert_int_equal(snow_group_stat(client, &info, 1, NULL), SNOW_NOT_FOUND);
}

/* Places and groups of so many keys do not fit in one answer: they are asked for in parts. */
static void many_by_key(void **state)
{
    enum { KEYS = 1500 };
    struct snow_client *client = ((struct cluster *)*state)->client;
    static char names[KEYS][16];
    static uint32_t nodes[KEYS];
    static struct snow_stat stats[KEYS];
    static struct snow_group_info infos[KEYS];
    struct snow_call call = {.groups = infos};
    uint32_t found = 0;

    put_members(client, "g", 0, SIZE, 0, false);
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof(names[i]), i % 100 == 0 ? "g.%u" : "none.%u", i / 100);
        stats[i] = (struct snow_stat){.key = key_of(names[i]), .nodes = &nodes[i], .node_room = 1};
        infos[i] = (struct snow_group_info){.status = SNOW_INVALID};
    }
    assert_int_equal(snow_exists(client, stats, KEYS, &call), SNOW_NOT_FOUND);
    for (uint32_t i = 0; i < KEYS; i++) {
        bool there = i % 100 == 0 && i / 100 < SIZE;

        assert_int_equal(stats[i].status, there ? SNOW_OK : SNOW_NOT_FOUND);
        assert_int_equal(infos[i].status, stats[i].status);
        assert_int_equal(infos[i].present, there ? SIZE : 0);
        assert_int_equal(stats[i].copies, there);
        found += there;
    }
    assert_int_equal(found, SIZE);
}

/* A put of a key that is there tells whether it is in the group that was said. */
static void exists_elsewhere(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_member member = {.group = key_of("h"), .size = 2};
    struct snow_put put = {.key = key_of("g.1"),
                           .from = "x",
                           .size = 1,
                           .depth = SNOW_DEPTH_UNKNOWN,
                           .member = &member};
    struct snow_writer *writer;

    put_members(client, "g", 0, SIZE, 0, false);
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(put.status, SNOW_EXISTS);
    assert_int_equal(put.elsewhere, 1);
    put.elsewhere = 0;
    put.from = NULL;
    assert_int_equal(snow_writer_open(client, &put, 0, NULL, &writer), SNOW_EXISTS);
    assert_int_equal(put.elsewhere, 1);
    put.from = "x";
    member = (struct snow_member){.group = key_of("g"), .size = SIZE, .index = 1};
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(put.status, SNOW_EXISTS);
    assert_int_equal(put.elsewhere, 0);
}

/* One guarded member keeps the group from being removed. */
static void guarded(void **state)
{
    struct cluster *cluster = *state;
    struct snow_options options;
    struct snow_client *guard = NULL;
    struct snow_stat stat = {.key = key_of("g.3")};
    struct snow_item item = {.key = key_of("g")};
    struct snow_call force = {.flags = SNOW_CALL_FORCE};

    snow_options_init(&options);
    options.master = master_address(cluster->master);
    options.guard_ms = 60000;
    assert_int_equal(snow_open(&options, &guard, NULL), SNOW_OK);
    put_members(cluster->client, "g", 0, SIZE, 0, false);
    assert_int_equal(snow_exists(guard, &stat, 1, NULL), SNOW_OK);
    assert_int_equal(snow_group_remove(cluster->client, &item, 1, NULL), SNOW_IN_USE);
    assert_int_equal(stat_of(cluster->client, "g").state, SNOW_GROUP_COMPLETE);
    assert_int_equal(snow_group_remove(cluster->client, &item, 1, &force), SNOW_OK);
    snow_close(guard);
}

static void long_names(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    char id[257];

    memset(id, 'i', 256);
    id[256] = 0;
    put_members(client, id, 0, SIZE, 0, false);
    assert_int_equal(read_all(client, id, 0, 0), SNOW_OK);
}

static void broken_and_healed(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_item item = {.key = key_of("g.4")};

    put_members(client, "g", 0, SIZE, 0, false);
    assert_int_equal(snow_remove(client, &item, 1, NULL), SNOW_OK);
    struct snow_group_info info = stat_of(client, "g");

    assert_int_equal(info.state, SNOW_GROUP_DEGRADED);
    assert_int_equal(info.missing_count, 1);
    assert_int_equal(info.missing[0], 4);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_GROUP_BROKEN);
    put_members(client, "g", 4, 5, 0, false);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_OK);
    /* The whole, by a member. */
    struct snow_call with_group = {.flags = SNOW_CALL_GROUP};

    assert_int_equal(snow_remove(client, &item, 1, &with_group), SNOW_OK);
    assert_int_equal(stat_of(client, "g").status, SNOW_NOT_FOUND);
}

/* Bytes of a member are damaged where they lie: one reader says so, and its node confirms it. */
static void damaged(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *client = cluster->client;
    struct snow_group_info info;
    int waited = 0;
    uint32_t hits = 0;

    put_members(client, "g", 0, SIZE, 0, false);
    for (int node = 0; node < NODES_MAX; node++) {
        const struct slots *slots =
            cluster->nodes[node] == NULL ? NULL : &cluster->nodes[node]->segments[0];

        for (uint32_t i = 0; slots != NULL && i < slots->slots_ready; i++) {
            const struct slot *slot = &slots->table[i];

            if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != WIRE_SLOT_WRITTEN ||
                slot->object_size != PIECE || hits > 0)
                continue;
            slots->data.at[slot->offset + 5] ^= 1;
            hits++;
        }
    }
    assert_int_equal(hits, 1);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_GROUP_BROKEN);
    do {
        info = stat_of(client, "g");
        usleep(10000);
    } while (info.state == SNOW_GROUP_COMPLETE && waited++ < 500);
    assert_int_equal(info.state, SNOW_GROUP_DEGRADED);
    assert_int_equal(info.missing_count, 1);
    put_members(client, "g", info.missing[0], info.missing[0] + 1, 0, false);
    assert_int_equal(read_all(client, "g", 0, 0), SNOW_OK);
}

static void refused(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_member member = {.group = key_of("g"), .size = SIZE + 1, .index = 0};
    struct snow_put put = {
        .key = key_of("x"), .from = "x", .size = 1, .depth = SNOW_DEPTH_UNKNOWN, .member = &member};

    put_members(client, "g", 0, 2, 0, false);
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_GROUP_SIZE_MISMATCH);
    assert_non_null(strstr(snow_reason(), "8"));
    member.size = SIZE;
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_GROUP_INDEX_CONFLICT);
    member.index = SIZE;
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_INVALID);
    member.index = SNOW_GROUP_INDEX_ANY;
    member.group.size = 257;
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_INVALID);
    member.group.size = 1;
    member.reserved[0] = 1;
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_INVALID);
    member.reserved[0] = 0;
    assert_int_equal(snow_put(client, &put, 1, NULL), SNOW_OK);
    assert_int_equal(stat_of(client, "g").present, 3);
}

static void held(void **state)
{
    struct cluster *cluster = *state;
    struct snow_client *other = open_client(cluster, 0);
    struct snow_group_hold hold = {.id = key_of("g"), .for_ms = 5000};

    assert_int_equal(snow_group_hold(cluster->client, &hold, NULL), SNOW_NOT_FOUND);
    put_members(cluster->client, "g", 0, 2, 0, false);
    assert_int_equal(snow_group_hold(cluster->client, &hold, NULL), SNOW_NOT_READY);
    put_members(cluster->client, "g", 2, SIZE, 0, false);
    assert_int_equal(snow_group_hold(cluster->client, &hold, NULL), SNOW_OK);
    struct snow_group_hold joined = {.hold = hold.hold, .for_ms = 5000};

    assert_int_equal(snow_group_hold(other, &joined, NULL), SNOW_OK);
    assert_int_equal(joined.ggen, hold.ggen);
    assert_int_equal(read_all(other, "g", hold.hold, 0), SNOW_OK);
    put_members(cluster->client, "g", 1, 2, 0, true);
    assert_int_equal(read_all(other, "g", hold.hold, 0), SNOW_CHANGED);
    joined.for_ms = 0;
    assert_int_equal(snow_group_hold(other, &joined, NULL), SNOW_OK);
    hold.for_ms = 0;
    assert_int_equal(snow_group_hold(cluster->client, &hold, NULL), SNOW_OK);
    assert_int_equal(snow_group_hold(cluster->client, &hold, NULL), SNOW_GONE);
    snow_close(other);
}

static void chains(void **state)
{
    enum { BLOCKS = 2000 };
    struct snow_client *client = ((struct cluster *)*state)->client;
    static char names[BLOCKS][24];
    static struct snow_key keys[BLOCKS];
    static struct snow_put puts[BLOCKS];
    struct snow_match_run runs[4];
    struct snow_match_node nodes[4];
    struct snow_chain chain = {.blocks = keys,
                               .count = BLOCKS,
                               .runs = runs,
                               .run_room = 4,
                               .nodes = nodes,
                               .node_room = 4};

    for (int i = 0; i < BLOCKS; i++) {
        snprintf(names[i], sizeof(names[i]), "block-%d", i);
        keys[i] = key_of(names[i]);
        puts[i] =
            (struct snow_put){.key = keys[i], .from = "b", .size = 1, .depth = SNOW_DEPTH_UNKNOWN};
    }
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.matched, 0);
    assert_int_equal(chain.stop, SNOW_NOT_FOUND);
    assert_int_equal(snow_put(client, puts, 1300, NULL), SNOW_OK);
    assert_int_equal(snow_put(client, puts + 1301, BLOCKS - 1301, NULL), SNOW_OK);
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.matched, 1300);
    assert_int_equal(chain.stop, SNOW_NOT_FOUND);
    uint32_t told = 0;

    for (size_t i = 0; i < chain.run_count && i < 4; i++)
        told += runs[i].count;
    assert_true(chain.run_count > 4 || told == 1300);
    assert_in_range(chain.node_count, 1, 2);
    assert_int_equal(nodes[0].leading, chain.run_count == 1 ? 1300 : runs[0].count);
    assert_int_equal(nodes[0].blocks + (chain.node_count > 1 ? nodes[1].blocks : 0), 1300);
    assert_int_equal(nodes[0].bytes + (chain.node_count > 1 ? nodes[1].bytes : 0), 1300);
    assert_int_equal(snow_put(client, puts + 1300, 1, NULL), SNOW_OK);
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.matched, BLOCKS);
    assert_int_equal(chain.stop, SNOW_OK);
    chain.count = 0;
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.node_count, 0);
    /* Of groups. */
    struct snow_key ids[] = {key_of("a"), key_of("b"), key_of("c")};
    struct snow_chain groups = {.blocks = ids, .count = 3, .groups = 1};

    put_members(client, "a", 0, SIZE, 0, false);
    put_members(client, "b", 0, SIZE - 1, 0, false);
    put_members(client, "c", 0, SIZE, 0, false);
    assert_int_equal(snow_match_prefix(client, &groups, NULL), SNOW_OK);
    assert_int_equal(groups.matched, 1);
    assert_int_equal(groups.stop, SNOW_NOT_READY);
    put_members(client, "b", SIZE - 1, SIZE, 0, false);
    assert_int_equal(snow_match_prefix(client, &groups, NULL), SNOW_OK);
    assert_int_equal(groups.matched, 3);
}

/* Copies that were made; *leading: of the first puts on, those with two.  A node that is busy may
 * have been passed over. */
static uint32_t copies_of(const struct snow_put *puts, uint32_t count, uint32_t *leading)
{
    uint32_t copies = 0;

    *leading = 0;
    for (uint32_t i = 0; i < count; i++) {
        *leading += *leading == i && puts[i].replicas == 2 && puts[i].shortfall == 0;
        copies += puts[i].replicas - puts[i].shortfall;
    }
    return copies;
}

/* Two nodes: what has two copies is whole at both, and no run tells of the second. */
static void nodes_of_chains(void **state)
{
    enum { BLOCKS = 1600, DOUBLE = 700 };
    struct snow_client *client = ((struct cluster *)*state)->client;
    static char names[BLOCKS][24];
    static struct snow_key keys[BLOCKS];
    static struct snow_put puts[BLOCKS];
    static struct snow_member members[BLOCKS];
    static char ids[DOUBLE][32];
    struct snow_match_node nodes[2] = {0};
    struct snow_chain chain = {.blocks = keys, .count = BLOCKS, .nodes = nodes, .node_room = 2};
    uint32_t leading;
    uint32_t copies;

    for (int i = 0; i < BLOCKS; i++) {
        snprintf(names[i], sizeof(names[i]), "copied-%d", i);
        keys[i] = key_of(names[i]);
        puts[i] = (struct snow_put){.key = keys[i],
                                    .from = "copied",
                                    .size = 6,
                                    .depth = (uint32_t)i,
                                    .replicas = i < DOUBLE ? 2 : 1};
    }
    assert_int_equal(snow_put(client, puts, BLOCKS, NULL), SNOW_OK);
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.matched, BLOCKS);
    assert_int_equal(chain.node_count, 2);
    copies = copies_of(puts, BLOCKS, &leading);
    assert_true(nodes[0].leading >= nodes[1].leading && nodes[1].leading >= leading);
    assert_int_equal(nodes[0].blocks + nodes[1].blocks, copies);
    assert_int_equal(nodes[0].bytes + nodes[1].bytes, 6 * copies);
    chain.node_room = 1; /* the best of them; it is still told how many there are */
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.node_count, 2);
    /* Of groups: whole where every member is. */
    memset(nodes, 0, sizeof(nodes));
    chain = (struct snow_chain){
        .blocks = keys, .count = DOUBLE, .groups = 1, .nodes = nodes, .node_room = 2};
    for (int i = 0; i < 2 * DOUBLE; i++) {
        snprintf(names[i], sizeof(names[i]), "part-%d", i);
        members[i] = (struct snow_member){.size = 2, .index = (uint32_t)i % 2};
        puts[i].key = key_of(names[i]);
    }
    for (int i = 0; i < DOUBLE; i++) {
        snprintf(ids[i], sizeof(ids[i]), "block-of-two-%d", i);
        keys[i] = key_of(ids[i]);
    }
    for (int i = 0; i < 2 * DOUBLE; i++) {
        members[i].group = keys[i / 2];
        puts[i].member = &members[i];
        puts[i].replicas = i % 2 == 0 ? 2 : 1; /* the second member of each is at one node alone */
    }
    assert_int_equal(snow_put(client, puts, 2 * DOUBLE, NULL), SNOW_OK);
    assert_int_equal(snow_match_prefix(client, &chain, NULL), SNOW_OK);
    assert_int_equal(chain.matched, DOUBLE);
    assert_in_range(nodes[0].blocks + nodes[1].blocks, 1, DOUBLE);
    assert_int_equal(nodes[0].bytes + nodes[1].bytes, 6 * copies_of(puts, 2 * DOUBLE, &leading));
}

static int count_group(void *owner, const struct snow_group_listed *row)
{
    assert_int_equal(row->state, SNOW_GROUP_COMPLETE);
    assert_int_equal(row->present, SIZE);
    *(int *)owner += 1;
    return 0;
}

static void listed_and_removed(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_item items[] = {{.key = key_of("x.a")}, {.key = key_of("none")}};
    int count = 0;

    put_members(client, "x.a", 0, SIZE, 0, false);
    put_members(client, "x.b", 0, SIZE, 0, false);
    put_members(client, "y", 0, SIZE, 0, false);
    assert_int_equal(snow_group_list(client, key_of("x."), count_group, &count, NULL), SNOW_OK);
    assert_int_equal(count, 2);
    assert_int_equal(snow_group_remove(client, items, 2, NULL), SNOW_NOT_FOUND);
    assert_int_equal(items[0].status, SNOW_OK);
    assert_int_equal(items[1].status, SNOW_NOT_FOUND);
    assert_int_equal(stat_of(client, "x.a").status, SNOW_NOT_FOUND);
    assert_int_equal(read_all(client, "x.a", 0, 0), SNOW_NOT_FOUND);
    assert_int_equal(read_all(client, "x.b", 0, 0), SNOW_OK);
}

static void waited_for(void **state)
{
    struct snow_client *client = ((struct cluster *)*state)->client;
    struct snow_group_info info = {.id = key_of("late")};
    struct snow_call call = {.wait_ms = 50};

    put_members(client, "late", 0, 2, 0, false);
    assert_int_equal(snow_group_stat(client, &info, 1, &call), SNOW_OK);
    assert_int_equal(info.state, SNOW_GROUP_FORMING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole, setup, teardown),
        cmocka_unit_test_setup_teardown(whole, setup_tcp, teardown),
        cmocka_unit_test_setup_teardown(by_key, setup, teardown),
        cmocka_unit_test_setup_teardown(many_by_key, setup, teardown),
        cmocka_unit_test_setup_teardown(exists_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(guarded, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names, setup_tcp, teardown),
        cmocka_unit_test_setup_teardown(broken_and_healed, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged, setup_tcp, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(held, setup, teardown),
        cmocka_unit_test_setup_teardown(chains, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_of_chains, setup, teardown),
        cmocka_unit_test_setup_teardown(listed_and_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(waited_for, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
