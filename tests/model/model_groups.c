/* Groups against a naive model: members put, ended, aborted, replaced, removed; groups held,
 * evicted, replaced whole, given up; sessions that break and return; masters that start again.
 *
 * The model knows what each group should be: its members, its state, who writes into it and until
 * when, who holds it.  What it can not know is when something is evicted: after each move it looks
 * at all groups, and one that is gone must have been given up by its deadline, removed, or free to
 * go; as many as the core says that it evicted.  Ends of writes and holds are foretold exactly. */
#include "../unit/core/groups.h"
#include "../unit/core/restart.h"

#define ROUNDS 50u
#define MOVES 2000u /* of a round: 100,000 in all */
#define IDS 8u
#define MEMBERS 4u
#define SESSIONS 3u
#define WRITES 32u
#define HOLDS 16u
#define PIECE_BYTES 4096u
#define POOL_BYTES (56 * PIECE_BYTES)

struct model_write {
    bool used;
    bool shadow;
    uint32_t id;
    uint32_t index;
    uint32_t session;
    uint64_t gen;
    uint64_t target;   /* number of the version that it is a member of */
    uint64_t until_ns; /* its grant */
    uint16_t flags;
    struct wire_put_grant grant;
};

/* One incarnation of an id: the one that is there, or its shadow. */
struct model_version {
    uint64_t number; /* the model's own; 0: there is none */
    uint64_t ggen;   /* 0: not told yet */
    uint32_t size;
    uint32_t present; /* bits: members, of a shadow those that were ended */
    uint64_t gens[MEMBERS];
    bool forming;
    uint64_t progress_ns;
    uint64_t left_ns;
    uint32_t writers; /* bits: sessions that put a member */
};

struct model_hold {
    uint64_t id; /* 0: none */
    uint32_t group;
    uint32_t changes; /* of that, when it was made */
    uint32_t marks;   /* bits: sessions */
    uint64_t until_ns;
};

struct model {
    struct small_world small;
    struct rng rng;
    struct model_version there[IDS];
    struct model_version shadow[IDS];
    uint32_t changes[IDS]; /* members replaced */
    struct model_write writes[WRITES];
    struct model_hold holds[HOLDS];
    uint64_t sessions[SESSIONS];
    bool linked[SESSIONS];
    uint64_t broke_ns[SESSIONS];
    uint64_t numbers;
    uint64_t evicted; /* groups, as the core says */
    uint32_t removed; /* bits: ids that this move may have removed */
    uint64_t plain;
    struct {
        uint64_t completed, evicted, given_up, replaced, removed, ended, gone, held;
    } seen;
};

static struct world *world_of(struct model *model)
{
    return &model->small.world;
}

static uint64_t now_of(struct model *model)
{
    return world_of(model)->now_ns;
}

static uint32_t flags_of(uint32_t id)
{
    static const uint32_t flags[IDS] = {
        0, WIRE_GROUP_ATOMIC, WIRE_GROUP_CASCADE, 0, WIRE_GROUP_ATOMIC, WIRE_GROUP_ATOMIC, 0, 0};

    return flags[id];
}

static uint32_t size_of(uint32_t id)
{
    static const uint32_t sizes[IDS] = {1, 2, 3, 4, 4, 3, 4, 2};

    return sizes[id];
}

static const char *id_of(struct model *model, uint32_t id)
{
    char *name = world_take(world_of(model), 1, 8);

    snprintf(name, 8, "g%u", id);
    return name;
}

static const char *key_of(struct model *model, uint32_t id, uint32_t index)
{
    char *name = world_take(world_of(model), 1, 16);

    snprintf(name, 16, "g%u.%u", id, index);
    return name;
}

/* ---- what the model foretells ---- */

static void writers_left(struct model *model, struct model_version *version, uint32_t session)
{
    uint32_t linked = 0;

    for (uint32_t i = 0; i < SESSIONS; i++)
        linked |= model->linked[i] ? 1u << i : 0;
    if (version->number != 0 && version->forming && (version->writers & 1u << session) &&
        (version->writers & linked & ~(1u << session)) == 0)
        version->left_ns = now_of(model);
}

static bool has_writer(const struct model *model, const struct model_version *version)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        if ((version->writers & 1u << i) && model->linked[i])
            return true;
    }
    return false;
}

static uint64_t given_up_ns(struct model *model, const struct model_version *version)
{
    const struct core_options *options = &world_of(model)->options;
    uint64_t end_ns = version->progress_ns + options->group_form_ns;
    uint64_t left_ns = version->left_ns + options->group_abandoned_ns;

    return !has_writer(model, version) && left_ns < end_ns ? left_ns : end_ns;
}

static struct model_version *version_of(struct model *model, uint32_t id, uint64_t number)
{
    if (number == 0)
        return NULL;
    if (model->there[id].number == number)
        return &model->there[id];
    return model->shadow[id].number == number ? &model->shadow[id] : NULL;
}

/* It is open, as far as the core can know. */
static bool write_is_open(struct model *model, const struct model_write *write)
{
    return write->used && version_of(model, write->id, write->target) != NULL &&
           now_of(model) < write->until_ns;
}

static bool is_written(struct model *model, uint32_t id, uint64_t number)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        if (model->writes[i].id == id && write_is_open(model, &model->writes[i]) &&
            model->writes[i].target == number)
            return true;
    }
    return false;
}

static bool hold_stands(struct model *model, const struct model_hold *hold)
{
    return hold->id != 0 && hold->marks != 0 && now_of(model) < hold->until_ns &&
           model->there[hold->group].number != 0;
}

static bool is_held(struct model *model, uint32_t id)
{
    for (uint32_t i = 0; i < HOLDS; i++) {
        if (model->holds[i].group == id && hold_stands(model, &model->holds[i]))
            return true;
    }
    return false;
}

static void forget_version(struct model *model, uint32_t id, struct model_version *version)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        if (model->writes[i].id == id && model->writes[i].target == version->number)
            model->writes[i].target = 0;
    }
    *version = (struct model_version){.number = 0};
}

static void group_goes(struct model *model, uint32_t id, bool with_shadow)
{
    for (uint32_t i = 0; i < HOLDS; i++) {
        if (model->holds[i].group == id)
            model->holds[i].id = 0;
    }
    forget_version(model, id, &model->there[id]);
    if (with_shadow && model->shadow[id].number != 0)
        forget_version(model, id, &model->shadow[id]);
    model->there[id] = model->shadow[id]; /* what stood beside it is the group now */
    model->shadow[id].number = 0;
    if (model->there[id].number != 0 && model->there[id].present != 0)
        model->there[id].progress_ns = now_of(model); /* its members have come */
}

static struct model_version *begin(struct model *model, uint32_t id, bool shadow)
{
    struct model_version *version = shadow ? &model->shadow[id] : &model->there[id];

    *version = (struct model_version){.number = ++model->numbers,
                                      .size = size_of(id),
                                      .forming = true,
                                      .progress_ns = now_of(model),
                                      .left_ns = now_of(model)};
    return version;
}

/* ---- looking at all ---- */

static uint32_t present_of(const struct wire_group_info *info)
{
    uint32_t present = (1u << info->size) - 1;

    for (uint32_t i = 0; i < info->missing_count; i++)
        present &= ~(1u << info->missing[i].index);
    return present;
}

/* It is gone: with the model's leave? */
static void check_gone(struct model *model, uint32_t id)
{
    struct model_version *version = &model->there[id];
    bool overdue = version->forming && given_up_ns(model, version) <= now_of(model);

    if (model->removed & 1u << id) {
        model->seen.removed++;
    } else if (overdue) {
        model->seen.given_up++;
    } else if (version->present == 0) {
        assert_false(is_written(model, id, version->number));
    } else {
        assert_false(version->forming || is_held(model, id) ||
                     is_written(model, id, version->number));
        model->seen.evicted++;
    }
    group_goes(model, id, (model->removed & 1u << id) != 0);
}

static void check_members(struct model *model)
{
    const char *keys[IDS * MEMBERS];

    for (uint32_t i = 0; i < IDS * MEMBERS; i++)
        keys[i] = key_of(model, i / MEMBERS, i % MEMBERS);
    const struct wire_lookup_rep *reply =
        lookup_send(world_of(model), model->small.session, 0,
                    WIRE_LOOKUP_PLACES | WIRE_LOOKUP_GROUPS, keys, IDS * MEMBERS);

    for (uint32_t i = 0; i < IDS * MEMBERS; i++) {
        const struct model_version *version = &model->there[i / MEMBERS];
        const struct wire_found *found = &reply->items[i];
        bool present = version->number != 0 && (version->present & 1u << i % MEMBERS) != 0;
        bool whole = version->present + 1 == 1u << version->size;

        assert_true(!present || (reply->groups[i].ggen == version->ggen &&
                                 whole == (reply->groups[i].state == WIRE_GROUP_COMPLETE)));
        if (!present)
            assert_int_equal(found->status, SNOW_NOT_FOUND);
        else if ((flags_of(i / MEMBERS) & WIRE_GROUP_ATOMIC) && !whole)
            assert_int_equal(found->status, SNOW_NOT_READY);
        else
            assert_true(found->status == SNOW_OK && found->gen == version->gens[i % MEMBERS]);
    }
}

static const struct wire_group_stat_rep *stat_all(struct model *model)
{
    struct wire_group_stat_req *message = world_take(world_of(model), 1, sizeof(*message));

    message->groups = world_take(world_of(model), IDS, sizeof(*message->groups));
    message->groups_count = IDS;
    for (uint32_t id = 0; id < IDS; id++)
        message->groups[id].id = world_key(id_of(model, id));
    return world_ask(world_of(model), model->small.session, WIRE_group_stat, message, IDS, 1000)
        ->message;
}

static void check_group(struct model *model, uint32_t id, const struct wire_group_info *info)
{
    struct model_version *version = &model->there[id];
    bool told = info->status == SNOW_OK;

    /* With one gone its shadow may be there at once, which goes as others do. */
    for (int i = 0; i < 2 && version->number != 0; i++) {
        if (told && (version->ggen == 0 || version->ggen == info->ggen))
            break;
        check_gone(model, id);
    }
    assert_int_equal(told, version->number != 0);
    if (!told)
        return;
    version->ggen = info->ggen;
    assert_int_equal(info->size, version->size);
    assert_int_equal(present_of(info), version->present);
    assert_int_equal(info->state, version->present + 1 == 1u << version->size ? WIRE_GROUP_COMPLETE
                                  : version->forming                          ? WIRE_GROUP_FORMING
                                                     : WIRE_GROUP_DEGRADED);
    assert_true(!version->forming || now_of(model) < given_up_ns(model, version) + 2 * NS_PER_MS);
}

static void check_shadow(struct model *model, uint32_t id)
{
    struct model_version *shadow = &model->shadow[id];

    if (shadow->number != 0 && (given_up_ns(model, shadow) <= now_of(model) ||
                                (shadow->present == 0 && !is_written(model, id, shadow->number))))
        forget_version(model, id, shadow);
}

static void check_all(struct model *model)
{
    uint64_t evicted = model->seen.evicted;
    const struct wire_group_stat_rep *reply = stat_all(model);

    for (uint32_t i = 0; i < IDS; i++) {
        check_shadow(model, reply->items[i].index);
        check_group(model, reply->items[i].index, &reply->items[i]);
    }
    check_members(model);
    /* No more went than the core says, and those whole. */
    uint64_t said = world_metric(world_of(model), "evicted_groups");

    assert_int_equal(model->seen.evicted - evicted, said - model->evicted);
    model->evicted = said;
    model->removed = 0;
}

/* ---- puts ---- */

static struct model_write *free_write(struct model *model)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        if (!model->writes[i].used)
            return &model->writes[i];
    }
    return NULL;
}

static bool key_is_written(struct model *model, uint32_t id, uint32_t index)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        if (model->writes[i].id == id && model->writes[i].index == index &&
            write_is_open(model, &model->writes[i]))
            return true;
    }
    return false;
}

static void granted(struct model *model, uint32_t id, uint32_t index, uint32_t session,
                    const struct wire_put_grant *grant, bool beside)
{
    struct model_version *version = beside ? &model->shadow[id] : &model->there[id];
    struct model_write *write = free_write(model);

    if (version->number == 0)
        version = begin(model, id, beside);
    if (version->forming && version->writers != 0 && !has_writer(model, version))
        assert_true(now_of(model) < given_up_ns(model, version) + 2 * NS_PER_MS);
    if (version->forming)
        version->writers |= 1u << session;
    *write = (struct model_write){.used = true,
                                  .shadow = beside,
                                  .id = id,
                                  .index = index,
                                  .session = session,
                                  .gen = grant->gen,
                                  .target = version->number,
                                  .until_ns = now_of(model) + 5 * NS_PER_S,
                                  .flags = grant->flags,
                                  .grant = *grant};
}

static void move_put(struct model *model, uint32_t session)
{
    uint32_t id = (uint32_t)rng_below(&model->rng, IDS);
    uint32_t size = size_of(id);
    uint32_t index = (uint32_t)rng_below(&model->rng, size);
    bool replace = rng_chance(&model->rng, 1, 3);
    const char *key = key_of(model, id, index);
    struct wire_put_start_req *put =
        member_message(&model->small, id_of(model, id), size, key, index, flags_of(id));
    const struct model_version *there = &model->there[id];
    bool beside =
        replace && (flags_of(id) & WIRE_GROUP_ATOMIC) && there->number != 0 && !there->forming;
    bool present = there->number != 0 && (there->present & 1u << index) != 0;

    if (free_write(model) == NULL)
        return;
    bool ended = model->shadow[id].number != 0 && (model->shadow[id].present & 1u << index) != 0;

    put->items[0].size = PIECE_BYTES;
    put->items[0].flags = replace ? WIRE_PUT_REPLACE : 0;
    struct world_request *request =
        world_ask(world_of(model), model->sessions[session], WIRE_put_start, put, 1, 4000);
    const struct wire_put_grant *grant = &request->grants[0];

    assert_true(request->done);
    switch (grant->status) {
    case SNOW_OK:
        assert_true(beside ? !ended : !present || replace);
        granted(model, id, index, session, grant, beside);
        break;
    case SNOW_EXISTS:
        assert_true(beside ? ended : present && !replace);
        break;
    case SNOW_IN_PROGRESS:
    case SNOW_GROUP_INDEX_CONFLICT:
        assert_true(key_is_written(model, id, index));
        break;
    case SNOW_INVALID:
        assert_true(replace && present && (flags_of(id) & WIRE_GROUP_ATOMIC) && there->forming);
        break;
    default:
        assert_int_equal(grant->status, SNOW_NO_SPACE);
    }
}

/* Members of the shadow are there, all at once. */
static void take_over(struct model *model, uint32_t id)
{
    model->seen.replaced++;
    model->changes[id]++;
    forget_version(model, id, &model->there[id]);
    model->there[id] = model->shadow[id];
    model->there[id].forming = false;
    model->shadow[id].number = 0;
}

static void ended(struct model *model, struct model_write *write)
{
    struct model_version *version = version_of(model, write->id, write->target);
    uint32_t bit = 1u << write->index;
    bool beside = version == &model->shadow[write->id];

    if ((version->present & bit) && version->gens[write->index] > write->gen)
        return;                                     /* superseded */
    model->changes[write->id] += !version->forming; /* replaced, or healed */
    version->present |= bit;
    version->gens[write->index] = write->gen;
    version->progress_ns = now_of(model);
    if (version->present + 1 != 1u << version->size)
        return;
    model->seen.completed += version->forming;
    if (beside)
        take_over(model, write->id);
    else
        version->forming = false;
}

static void move_end(struct model *model)
{
    uint32_t first = (uint32_t)rng_below(&model->rng, WRITES);
    uint32_t skip = 0;

    while (skip < WRITES && !model->writes[(first + skip) % WRITES].used)
        skip++;
    struct model_write *write = &model->writes[(first + skip) % WRITES];

    if (!write->used)
        return;
    bool open = write_is_open(model, write);
    bool abort = rng_chance(&model->rng, 1, 8);
    const char *key = key_of(model, write->id, write->index);
    uint64_t session = model->small.session;
    struct world_request *request;

    if (!abort && open)
        grant_write(world_of(model), world_key(key), PIECE_BYTES, &write->grant, write->flags);
    request = abort ? put_abort_gen(world_of(model), session, key, write->gen)
                    : put_end_gen(world_of(model), session, key, write->gen, 1);
    assert_true(request->done);
    write->used = false;
    if (!abort) {
        assert_int_equal(request->statuses[0].status, open ? SNOW_OK : SNOW_GONE);
        model->seen.ended += open;
        model->seen.gone += !open;
        if (open)
            ended(model, write);
    }
    write->target = 0;
}

/* ---- removals, pressure ---- */

static void move_remove(struct model *model)
{
    uint32_t id = (uint32_t)rng_below(&model->rng, IDS);
    struct model_version *there = &model->there[id];
    uint32_t index = (uint32_t)rng_below(&model->rng, size_of(id));
    bool whole = flags_of(id) != 0;
    struct world_request *request;

    if (rng_chance(&model->rng, 1, 3)) {
        model->removed |= 1u << id;
        request = group_remove_send(&model->small, id_of(model, id));
        assert_int_equal(request->statuses[0].status,
                         there->number != 0 ? SNOW_OK : SNOW_NOT_FOUND);
        return;
    }
    bool present = there->number != 0 && (there->present & 1u << index) != 0;

    request = remove_send(world_of(model), model->small.session, key_of(model, id, index), 0);
    assert_int_equal(request->statuses[0].status, present ? SNOW_OK : SNOW_NOT_FOUND);
    if (!present)
        return;
    if (whole)
        model->removed |= 1u << id;
    else
        there->present &= ~(1u << index);
}

static void move_fill(struct model *model)
{
    uint32_t count = (uint32_t)rng_between(&model->rng, 1, 12);

    for (uint32_t i = 0; i < count; i++) {
        char *key = world_take(world_of(model), 1, 24);

        snprintf(key, 24, "plain%llu", (unsigned long long)model->plain++);
        struct wire_put_start_req *message =
            put_message(world_of(model), world_of(model)->token + 1, key, PIECE_BYTES);
        struct world_request *request =
            put_send(world_of(model), model->small.session, message, 1000);

        if (request->grants[0].status != SNOW_OK)
            return; /* all of it is held, or being formed */
        grant_write(world_of(model), world_key(key), PIECE_BYTES, &request->grants[0], 0);
        put_end_gen(world_of(model), model->small.session, key, request->grants[0].gen, 1);
    }
}

/* ---- holds ---- */

static void move_hold_new(struct model *model, uint32_t session)
{
    struct model_hold *hold = &model->holds[rng_below(&model->rng, HOLDS)];
    uint32_t id = (uint32_t)rng_below(&model->rng, IDS);
    const struct model_version *there = &model->there[id];

    if (hold_stands(model, hold))
        return;
    const struct wire_group_hold_rep *reply =
        hold_send(world_of(model), model->sessions[session], id_of(model, id), 0, 4000);

    if (there->number == 0 || there->forming) {
        assert_int_equal(reply->status, there->number == 0 ? SNOW_NOT_FOUND : SNOW_NOT_READY);
        return;
    }
    assert_true(reply->status == SNOW_OK || reply->status == SNOW_LIMIT);
    if (reply->status != SNOW_OK)
        return;
    assert_true(reply->ggen == there->ggen);
    model->seen.held++;
    *hold = (struct model_hold){.id = reply->hold,
                                .group = id,
                                .changes = model->changes[id],
                                .marks = 1u << session,
                                .until_ns = now_of(model) + 4 * NS_PER_S};
}

static void move_hold_use(struct model *model, uint32_t session)
{
    struct model_hold *hold = &model->holds[rng_below(&model->rng, HOLDS)];
    bool stands = hold_stands(model, hold);
    bool changed = stands && hold->changes != model->changes[hold->group];
    bool leaves = rng_chance(&model->rng, 1, 2);

    if (hold->id == 0)
        return;
    const struct wire_group_hold_rep *reply =
        hold_send(world_of(model), model->sessions[session], NULL, hold->id, leaves ? 0 : 4000);

    if (!stands) {
        assert_int_equal(reply->status, SNOW_GONE);
        hold->id = 0;
    } else if (leaves) {
        assert_int_equal(reply->status, SNOW_OK);
        hold->marks &= ~(1u << session);
    } else if (changed) {
        assert_int_equal(reply->status, SNOW_CHANGED);
    } else {
        assert_true(reply->status == SNOW_OK ||
                    (reply->status == SNOW_LIMIT && (hold->marks & 1u << session) == 0));
        if (reply->status == SNOW_OK) {
            hold->marks |= 1u << session;
            hold->until_ns = now_of(model) + 4 * NS_PER_S;
        }
    }
}

/* ---- sessions, time, masters ---- */

static void session_is_over(struct model *model, uint32_t session)
{
    for (uint32_t i = 0; i < HOLDS; i++)
        model->holds[i].marks &= ~(1u << session);
    for (uint32_t id = 0; id < IDS; id++) {
        model->there[id].writers &= ~(1u << session);
        model->shadow[id].writers &= ~(1u << session);
    }
}

static void move_session(struct model *model, uint32_t session)
{
    const struct core_options *options = &world_of(model)->options;

    if (model->linked[session]) {
        for (uint32_t id = 0; id < IDS; id++) {
            writers_left(model, &model->there[id], session);
            writers_left(model, &model->shadow[id], session);
        }
        session_break(world_of(model), model->sessions[session]);
        model->linked[session] = false;
        model->broke_ns[session] = now_of(model);
        for (uint32_t i = 0; i < WRITES; i++) {
            struct model_write *write = &model->writes[i];
            uint64_t end_ns = now_of(model) + options->session_return_ns;

            if (write->used && write->session == session && write->until_ns > end_ns)
                write->until_ns = end_ns;
        }
        return;
    }
    /* Those that it had when it broke have ended by then, or it comes in time for its marks. */
    if (now_of(model) < model->broke_ns[session] + options->session_return_ns + NS_PER_MS)
        return;
    bool returns = now_of(model) < model->broke_ns[session] + options->session_end_ns;

    if (!returns)
        session_is_over(model, session);
    uint64_t id = session_open(world_of(model), model->sessions[session]);

    assert_int_equal(id == model->sessions[session], returns);
    model->sessions[session] = id;
    model->linked[session] = true;
}

/* What is due is over before the next move looks at it. */
static void move_time(struct model *model)
{
    const struct core_options *options = &world_of(model)->options;

    world_live(world_of(model), rng_below(&model->rng, 500) * NS_PER_MS);
    world_run(world_of(model), 3 * NS_PER_MS);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        if (!model->linked[i] && now_of(model) >= model->broke_ns[i] + options->session_end_ns)
            session_is_over(model, i);
    }
}

static void open_sessions(struct model *model)
{
    model->small.session = session_open(world_of(model), 0);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        model->sessions[i] = session_open(world_of(model), 0);
        model->linked[i] = true;
    }
}

static void move_restart(struct model *model)
{
    struct world *world = world_of(model);

    world_restart(world);
    open_sessions(model);
    node_mount(world, model->small.node);
    node_tell_all(world, model->small.node);
    world_run(world, 5 * NS_PER_MS);
    memset(model->writes, 0, sizeof(model->writes));
    memset(model->holds, 0, sizeof(model->holds));
    model->evicted = 0;
    for (uint32_t id = 0; id < IDS; id++) {
        struct model_version *there = &model->there[id];

        /* The newest whole one stays, else the newest. */
        if (there->present + 1 != 1u << there->size && model->shadow[id].number != 0 &&
            model->shadow[id].present != 0)
            *there = model->shadow[id];
        model->shadow[id].number = 0;
        if (there->present == 0)
            there->number = 0;
        there->forming = false;
        there->writers = 0;
    }
}

static void move(struct model *model)
{
    uint32_t session = (uint32_t)rng_below(&model->rng, SESSIONS);
    uint64_t draw = rng_below(&model->rng, 1000);

    if (draw < 2) {
        move_restart(model);
        return;
    }
    if (draw < 12) {
        move_session(model, session);
        return;
    }
    if (draw < 60) {
        move_time(model);
        return;
    }
    if (!model->linked[session]) {
        if (rng_chance(&model->rng, 1, 4))
            move_session(model, session);
        return;
    }
    if (draw < 420)
        move_put(model, session);
    else if (draw < 810)
        move_end(model);
    else if (draw < 825)
        move_remove(model);
    else if (draw < 880)
        move_fill(model);
    else if (draw < 940)
        move_hold_new(model, session);
    else
        move_hold_use(model, session);
}

static void run_round(struct model *model, uint64_t seed)
{
    struct world *world = world_of(model);

    world_init(world);
    rng_init(&model->rng, seed);
    world->options.group_form_ns = 1500 * NS_PER_MS;
    world->options.group_abandoned_ns = 600 * NS_PER_MS;
    world->options.session_return_ns = 300 * NS_PER_MS;
    world->options.session_end_ns = 3 * NS_PER_S;
    world->options.group_forming_percent = 60;
    world->options.policy = seed % 4;
    world->unchecked = true;
    world_open(world);
    model->small.node = node_start(world, POOL_BYTES, POOL_BYTES / PIECE_BYTES);
    open_sessions(model);
    for (uint32_t i = 0; i < MOVES; i++) {
        move(model);
        if (i % 4 == 0)
            core_check(world->core);
        check_all(model);
    }
    world_deinit(world);
}

static void test_groups(void **state)
{
    struct model *model = calloc(1, sizeof(*model));
    const char *given = getenv("MODEL_SEED");
    uint64_t first = given == NULL ? 1 : strtoull(given, NULL, 10);

    (void)state;
    assert_non_null(model);
    for (uint64_t round = 0; round < (given == NULL ? ROUNDS : 1); round++) {
        uint64_t seen = model->seen.ended;

        memset(model, 0, offsetof(struct model, seen));
        run_round(model, first + round);
        assert_true(model->seen.ended > seen);
    }
    printf(
        "  %llu completed, %llu evicted, %llu given up, %llu replaced, %llu removed, %llu ended, "
        "%llu ended late, %llu held\n",
        (unsigned long long)model->seen.completed, (unsigned long long)model->seen.evicted,
        (unsigned long long)model->seen.given_up, (unsigned long long)model->seen.replaced,
        (unsigned long long)model->seen.removed, (unsigned long long)model->seen.ended,
        (unsigned long long)model->seen.gone, (unsigned long long)model->seen.held);
    assert_true(given != NULL || (model->seen.completed > 1000 && model->seen.evicted > 100 &&
                                  model->seen.given_up > 50 && model->seen.replaced > 100 &&
                                  model->seen.gone > 50 && model->seen.held > 500));
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
