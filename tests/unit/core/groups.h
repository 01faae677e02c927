/* What tests of groups do: members put, groups asked for, held, removed. */
#ifndef TESTS_UNIT_CORE_GROUPS_H
#define TESTS_UNIT_CORE_GROUPS_H

#include "harness.h"

#define PIECE (64 * KIB)

static inline struct wire_put_start_req *member_message(struct small_world *small, const char *id,
                                                        uint32_t size, const char *key,
                                                        uint32_t index, uint32_t flags)
{
    struct world *world = &small->world;
    struct wire_put_start_req *put = put_message(world, world->token + 1, key, PIECE);

    put->groups = world_take(world, 1, sizeof(*put->groups));
    put->groups_count = 1;
    put->groups[0] = (struct wire_put_group){.id = world_key(id), .size = size, .flags = flags};
    put->members = world_take(world, 1, sizeof(*put->members));
    put->members_count = 1;
    put->members[0] = (struct wire_put_member){.index = index};
    return put;
}

static inline void message_put(struct small_world *small, struct wire_put_start_req *put)
{
    struct world *world = &small->world;
    const struct wire_put_item *item = &put->items[0];
    struct world_request *request = put_send(world, small->session, put, 1000);
    uint16_t flags = item->flags & WIRE_PUT_REPLACE ? WIRE_SLOT_REPLACED : 0;

    assert_true(request->done);
    assert_int_equal(request->grants[0].status, SNOW_OK);
    grant_write(world, item->key, item->size, &request->grants[0], flags);
    struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

    end->items = world_take(world, 1, sizeof(*end->items));
    end->items_count = 1;
    end->items[0] =
        (struct wire_written){.key = item->key, .gen = request->grants[0].gen, .replicas = 1};
    request = world_ask(world, small->session, WIRE_put_end, end, 1, 10000);
    assert_true(request->done);
    assert_int_equal(request->statuses[0].status, SNOW_OK);
}

/* By another session than the usual one. */
static inline void message_put_by(struct small_world *small, uint64_t session,
                                  struct wire_put_start_req *put)
{
    uint64_t mine = small->session;

    small->session = session;
    message_put(small, put);
    small->session = mine;
}

static inline void member_put_flags(struct small_world *small, const char *id, uint32_t size,
                                    const char *key, uint32_t index, uint32_t flags)
{
    message_put(small, member_message(small, id, size, key, index, flags));
}

static inline void member_put(struct small_world *small, const char *id, uint32_t size,
                              const char *key, uint32_t index)
{
    member_put_flags(small, id, size, key, index, 0);
}

static inline void member_replace(struct small_world *small, const char *id, uint32_t size,
                                  const char *key, uint32_t index)
{
    struct wire_put_start_req *put = member_message(small, id, size, key, index, 0);

    put->items[0].flags = WIRE_PUT_REPLACE;
    message_put(small, put);
}

/* What becomes of a put of a member that is not written. */
static inline enum snow_status member_status(struct small_world *small, const char *id,
                                             uint32_t size, const char *key, uint32_t index,
                                             uint32_t flags)
{
    struct wire_put_start_req *put = member_message(small, id, size, key, index, flags);
    struct world_request *request = put_send(&small->world, small->session, put, 0);

    assert_true(request->done);
    return (enum snow_status)request->grants[0].status;
}

/* A whole group of members "<id>.<index>". */
static inline void group_put_sized(struct small_world *small, const char *id, uint32_t size,
                                   uint64_t bytes)
{
    for (uint32_t i = 0; i < size; i++) {
        char *key = world_take(&small->world, 1, 32);

        snprintf(key, 32, "%s.%u", id, i);
        struct wire_put_start_req *put = member_message(small, id, size, key, i, 0);

        put->items[0].size = bytes;
        message_put(small, put);
    }
}

static inline void group_put(struct small_world *small, const char *id, uint32_t size)
{
    group_put_sized(small, id, size, PIECE);
}

static inline void chained_put(struct small_world *small, const char *id, const char *parent,
                               uint32_t depth)
{
    char *key = world_take(&small->world, 1, 32);
    struct wire_put_start_req *put;

    snprintf(key, 32, "%s.0", id);
    put = member_message(small, id, 1, key, 0, 0);
    put->items[0].depth = depth;
    if (parent != NULL)
        put->groups[0].parent = world_key(parent);
    message_put(small, put);
}

/* Objects without groups, of so many KiB. */
static inline void fill(struct small_world *small, const char *name, uint32_t kib, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char *key = world_take(&small->world, 1, 32);

        snprintf(key, 32, "%s%u", name, i);
        put(&small->world, small->session, key, kib * KIB);
    }
}

static inline struct world_request *group_stat_send(struct small_world *small, const char *id,
                                                    uint32_t wait_ms)
{
    struct wire_group_stat_req *message = world_take(&small->world, 1, sizeof(*message));

    message->wait_ms = wait_ms;
    message->groups = world_take(&small->world, 1, sizeof(*message->groups));
    message->groups_count = 1;
    message->groups[0].id = world_key(id);
    return world_ask(&small->world, small->session, WIRE_group_stat, message, 1, 60000);
}

static inline const struct wire_group_info *group_info_of(const struct world_request *request)
{
    const struct wire_group_stat_rep *reply = request->message;

    assert_true(request->done);
    assert_int_equal(reply->items_count, 1);
    return &reply->items[0];
}

static inline const struct wire_group_info *group_stat(struct small_world *small, const char *id)
{
    return group_info_of(group_stat_send(small, id, 0));
}

static inline const struct wire_group_get_rep *group_get(struct small_world *small, const char *id,
                                                         uint32_t flags, uint64_t hold)
{
    struct wire_group_get_req *message = world_take(&small->world, 1, sizeof(*message));

    message->id = world_key(id);
    message->flags = flags;
    message->hold = hold;
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_group_get, message, 1, 1000);

    assert_true(request->done);
    return request->message;
}

static inline struct world_request *group_remove_send(struct small_world *small, const char *id)
{
    struct wire_group_remove_req *message = world_take(&small->world, 1, sizeof(*message));

    message->ids = world_take(&small->world, 1, sizeof(*message->ids));
    message->ids_count = 1;
    message->ids[0].key = world_key(id);
    return world_ask(&small->world, small->session, WIRE_group_remove, message, 1, 10000);
}

/* A new hold of a group, or with a number: a mark on it; for_ms 0 leaves it. */
static inline const struct wire_group_hold_rep *
hold_send(struct world *world, uint64_t session, const char *group, uint64_t hold, uint32_t for_ms)
{
    struct wire_group_hold_req *message = world_take(world, 1, sizeof(*message));

    message->what = (uint8_t)(group != NULL ? WIRE_GROUP_HOLD_NEW
                              : for_ms > 0  ? WIRE_GROUP_HOLD_JOIN
                                            : WIRE_GROUP_HOLD_LEAVE);
    message->hold = hold;
    message->for_ms = for_ms;
    if (group != NULL)
        message->id = world_key(group);
    struct world_request *request = world_ask(world, session, WIRE_group_hold, message, 1, 1000);

    assert_true(request->done);
    return request->message;
}

static inline const struct wire_match_rep *match_send(struct small_world *small, uint32_t flags,
                                                      const char *const *keys, uint32_t count)
{
    struct wire_match_req *message = world_take(&small->world, 1, sizeof(*message));

    message->flags = flags;
    message->keys = world_take(&small->world, count, sizeof(*message->keys));
    message->keys_count = count;
    for (uint32_t i = 0; i < count; i++)
        message->keys[i].key = world_key(keys[i]);
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_match, message, 1, 1000);

    assert_true(request->done);
    return request->message;
}

static inline const struct wire_list_rep *list_all(struct small_world *small)
{
    static const struct wire_list_req list;
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_list, &list, 1, 1000);

    assert_true(request->done);
    return request->message;
}

static inline const struct wire_group_list_rep *group_list(struct small_world *small)
{
    static const struct wire_group_list_req list;
    struct world_request *request =
        world_ask(&small->world, small->session, WIRE_group_list, &list, 1, 1000);

    assert_true(request->done);
    return request->message;
}

static inline uint32_t group_uses(struct small_world *small, const char *id)
{
    const struct wire_group_list_rep *list = group_list(small);

    for (uint32_t i = 0; i < list->items_count; i++) {
        if (bytes_equal(list->items[i].id, world_key(id)))
            return list->items[i].uses;
    }
    return 0;
}

/* ---- members whose writers wait for room ---- */

struct forming {
    uint64_t session;
    struct wire_put_start_req *put;
    struct world_request *request;
    bool ended;
};

static inline void forming_start(struct small_world *small, struct forming *member, uint32_t group,
                                 uint32_t index, uint64_t size)
{
    struct world *world = &small->world;
    char *id = world_take(world, 1, 16);
    char *key = world_take(world, 1, 16);

    snprintf(id, 16, "g%u", group);
    snprintf(key, 16, "%s.%u", id, index);
    member->session = session_open(world, 0);
    member->put = member_message(small, id, 4, key, index, 0);
    member->put->items[0].size = size;
    member->put->wait_ms = 60000;
    member->request = world_ask(world, member->session, WIRE_put_start, member->put, 1, 60000);
    member->ended = false;
}

/* Each is written and ended when it has its grant. */
static inline void forming_run(struct small_world *small, struct forming *members, uint32_t count)
{
    struct world *world = &small->world;
    uint32_t left = count;

    for (uint32_t rounds = 0; left > 0; rounds++) {
        assert_true(rounds < 1000);
        for (uint32_t i = 0; i < count; i++) {
            struct forming *member = &members[i];

            if (member->ended || !member->request->done)
                continue;
            const struct wire_put_grant *grant = &member->request->grants[0];
            struct bytes key = member->put->items[0].key;

            assert_int_equal(grant->status, SNOW_OK);
            grant_write(world, key, member->put->items[0].size, grant, 0);
            struct wire_put_end_req *end = world_take(world, 1, sizeof(*end));

            end->items = world_take(world, 1, sizeof(*end->items));
            end->items_count = 1;
            end->items[0] = (struct wire_written){.key = key, .gen = grant->gen, .replicas = 1};
            struct world_request *request =
                world_ask(world, member->session, WIRE_put_end, end, 1, 10000);

            assert_int_equal(request->statuses[0].status, SNOW_OK);
            member->ended = true;
            left--;
        }
        world_live(world, 10 * NS_PER_MS);
    }
}

#endif
