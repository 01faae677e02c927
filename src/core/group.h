/* What the files of groups offer the rest of the core.  Private to core/. */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include "core/inside.h"

/* ---- group.c ---- */

static inline struct group *core_group_at(const struct core *core, uint32_t record)
{
    const struct object *unit = core_object(core, record);

    ASSERT(unit->state == OBJECT_GROUP);
    return (struct group *)pool_at(&core->groups, unit->place);
}
struct bytes core_group_id(const struct core *core, uint32_t record);

/* Walks the groups of an id that are not CLOSING. */
struct group_cursor {
    struct index_cursor at;
    struct bytes id;
    const struct core *core;
    uint32_t number;
};
uint32_t core_group_first(const struct core *core, const struct key_hash *id,
                          struct group_cursor *cursor);
uint32_t core_group_next(struct group_cursor *cursor);
/* The newest of them that is no shadow; 0: none. */
uint32_t core_group_find(const struct core *core, const struct key_hash *id);

/* A group without members yet; it is freed with its last one.  0: out of memory. */
uint32_t core_group_create(struct core *core, const struct key_hash *id, uint64_t ggen,
                           uint32_t size, uint32_t flags);
/* It goes, whole; its open writes fail. */
void core_group_close(struct core *core, uint32_t record, enum close_reason reason);
void core_groups_close_step(struct core *core);

uint32_t core_group_member(const struct group *group, uint32_t index);      /* an object; 0: none */
uint32_t core_group_first_member(const struct core *core, uint32_t record); /* READABLE */
/* Where the first member lies that it has, or that is being written; UINT16_MAX: none. */
uint16_t core_group_segment(const struct core *core, uint32_t record);
/* WIRE_GROUP_INDEX_ANY: all are taken. */
uint32_t core_group_free_index(const struct group *group);
/* A write of this member is open: until core_group_unreserve.  NO_MEMORY. */
MUST_CHECK enum snow_status core_group_reserve(struct core *core, uint32_t record, uint32_t index,
                                               uint32_t number);
void core_group_unreserve(struct core *core, uint32_t record, uint32_t index, uint32_t number);
/* A READABLE object becomes a member; its index is free, or its own. */
void core_group_join(struct core *core, uint32_t number, uint32_t record, uint32_t index);
/* The object is a member no more, if it was one: it goes. */
void core_group_leave(struct core *core, uint32_t number);

bool core_group_may_go(const struct core *core, const struct object *unit);
/* All inventories are in: it is what its members say. */
void core_group_recovered(struct core *core, uint32_t record);
void core_group_check(struct core *core, uint32_t record);

/* The group of a READABLE member; NULL: it is in none. */
static inline struct group *core_group_of(const struct core *core, const struct object *object)
{
    return object->grouped ? core_group_at(core, object->prev) : NULL;
}

/* Members of an atomic group are not seen before it is whole. */
static inline bool core_group_hides(const struct core *core, uint32_t number)
{
    const struct group *group = core_group_of(core, core_object(core, number));

    return group != NULL && (group->flags & WIRE_GROUP_ATOMIC) != 0 &&
           group->state != WIRE_GROUP_COMPLETE;
}

/* ---- group_chain.c: parents and children ---- */

void core_group_chains_init(struct core *core);
/* To its parent, if that is not as deep; where it is not there yet the group waits for it. */
void core_group_bind(struct core *core, uint32_t record, struct hash128 parent);
void core_group_unbind(struct core *core, struct group *group);
/* It has its first member, or its depth is known: those that waited for it are bound. */
void core_group_arrived(struct core *core, uint32_t record);
/* A bounded number of its children wait for its return.  True: none are left. */
bool core_group_part(struct core *core, struct group *group);
/* Hash of the id of its parent; zeros: it has none. */
struct hash128 core_group_parent(const struct core *core, const struct group *group);
uint32_t core_group_leaf(const struct core *core, uint32_t record);
void core_orphans_step(struct core *core);
/* bound: adds its children. */
void core_group_chain_check(const struct core *core, uint32_t record, uint32_t *bound);
void core_group_chains_check(const struct core *core, uint32_t bound, uint32_t with_parent);

/* ---- group_writers.c ---- */

void core_group_writers_init(struct core *core);
/* The session puts a member of a FORMING group.  NO_MEMORY. */
MUST_CHECK enum snow_status core_group_writer_add(struct core *core, const struct group *group,
                                                  uint32_t session);
void core_group_writers_end(struct core *core, struct group_timer *timer);
/* A member came: the time to form begins anew. */
void core_group_progress(struct core *core, struct group *group);
/* The session's connection broke, or is there again. */
void core_writer_links(struct core *core, struct session *session, bool linked);
void core_writer_end(struct core *core, struct session *session);
bool core_group_is_writer(const struct core *core, const struct group *group, uint32_t session);
void core_group_writers_check(const struct core *core, const struct group *group);

/* ---- group_shadow.c: a version beside the one that is there ---- */

uint32_t core_group_shadow(const struct core *core, const struct key_hash *id); /* 0: none */
/* Whether this put is of a version beside the group that is there (0: none). */
bool core_put_is_shadow(const struct core *core, const struct wire_put_item *item,
                        const struct wire_put_group *said, uint32_t there);
bool core_write_is_shadow(const struct core *core, const struct write *write);
/* A member of a shadow was ended.  core_shadow_settle looks whether that was the last one. */
void core_shadow_written(struct core *core, uint32_t number);
void core_shadow_settle(struct core *core, uint32_t record);
/* An ended member is none any more. */
void core_shadow_lost(struct core *core, uint32_t record);
/* What it stood beside is gone: it is a group like others. */
void core_shadow_show(struct core *core, uint32_t record);
void core_shadow_check(const struct core *core, uint32_t record);

/* ---- pin.c ---- */

/* A member joined, or is about to leave. */
void core_group_pinned(struct core *core, uint32_t number);
void core_group_unpinned(struct core *core, uint32_t number);
bool core_group_is_hard(const struct core *core, const struct group *group);
/* Members were pinned, or are no more: with one of them the whole is. */
void core_group_pin(struct core *core, uint32_t record);

/* ---- group_form.c: time, and room for groups that are being formed ---- */

void core_group_timer_end(struct core *core, struct group *group);
void core_group_timer_degraded(struct core *core, struct group *group);

/* What a put says of an item's group; NULL: nothing. */
const struct wire_put_member *core_member_of(const struct wire_put_start_req *put, uint32_t item);
bool core_put_groups_are_valid(const struct wire_put_start_req *put);
/* Bytes of the extra block that the slot of an item stores. */
uint64_t core_extra_bytes(const struct wire_put_start_req *put, uint32_t item);
struct bytes core_group_extra(struct core *core, const struct write *write);
/* The same of a member, for a copy of it; empty: it is in no group. */
struct bytes core_group_member_extra(struct core *core, uint32_t number);
/* A member's extents lie elsewhere now; it was out of its list meanwhile. */
void core_group_moved(struct core *core, uint32_t number);

/* Where an item of a put goes. */
struct membership {
    uint32_t record; /* 0: it is in no group */
    uint32_t index;
    struct hash128 parent;
    const char *reason; /* when it is refused */
};
/* OK; NO_SPACE: not yet, others are being formed; else why not.  old: the value that it is to
 * replace, or 0. */
MUST_CHECK enum snow_status core_group_admit(struct core *core, struct request *request,
                                             uint32_t item, uint32_t old,
                                             struct membership *membership);
/* The id of a group that a put says, with its hash, and as core_group_find that group: looked for
 * once for members that follow each other. */
const struct key_hash *core_group_said(struct request *request, uint32_t group);
uint32_t core_group_find_said(const struct core *core, struct request *request, uint32_t group);
/* The place of an item that was admitted, for this object of that session's.  NO_MEMORY. */
MUST_CHECK enum snow_status core_group_reserve_for(struct core *core,
                                                   const struct membership *membership,
                                                   uint32_t session, uint32_t number);
/* Bytes of all its members, as far as is known while it is being formed. */
uint64_t core_group_whole_bytes(const struct core *core, uint32_t record);
/* The planted fault late_end: an open write of a group that goes is of the next one of its id from
 * now on.  False: there is none, or it has that member. */
bool core_group_counts_late(struct core *core, uint32_t number);
/* The item was admitted but not granted. */
void core_group_dismiss(struct core *core, const struct membership *membership);
/* The item has to wait until a group is formed. */
bool core_group_must_wait(const struct core *core, struct request *request, uint32_t item);
/* Its group is being formed and admitted, so it goes before others, in the order of admission: the
 * group's ggen; else 0. */
uint64_t core_group_admitted(const struct core *core, struct request *request, uint32_t item);
/* Of groups that stand in each other's way the youngest one gives up, for the one of this ggen.
 * False: that is the youngest. */
bool core_group_yield(struct core *core, uint64_t ggen);
/* What is there becomes a member as it is.  True: it is one now, or was. */
bool core_group_adopt(struct core *core, struct request *request, uint32_t item, uint32_t number);

/* ---- group_learn.c: inventories ---- */

/* The extra block of a row: of this version, READABLE or still RECOVERING. */
void core_group_learn(struct core *core, uint32_t number, struct bytes extra);
/* A RECOVERING version can be read now, or goes. */
void core_group_learned(struct core *core, uint32_t number, bool readable);
/* A whole version of a key of which another incarnation of its atomic group has one too (other):
 * which of them stays is known when all inventories are in.  False: it is none such. */
bool core_group_keep_rival(struct core *core, uint32_t number, uint32_t other, uint16_t slot_flags);
bool core_group_is_rival(const struct core *core, uint32_t number, uint16_t *slot_flags);
/* Of the two incarnations one is closed.  other: the value of the key now; 0: none. */
bool core_group_rival_wins(struct core *core, uint32_t number, uint32_t other);
/* Groups that are still RECOVERING are settled, a bounded number a step. */
void core_groups_recover_step(struct core *core);

/* ---- group_stat.c: what groups are ---- */

/* Bytes of a row of group_info without its id and its missing members, at most. */
#define CORE_GROUP_BYTES 64u

void core_group_stat(struct core *core, const struct core_input *input, uint32_t session);
/* A group that somebody waits for has come to something. */
void core_group_waits_look(struct core *core, struct bytes id);
/* A version has become READABLE, and is in its group if it has one: who waits by its key may be
 * answered. */
void core_group_waits_came(struct core *core, uint32_t number);
void core_group_stat_expire(struct core *core, struct request *request);
/* Tells the groups of the keys of a look-up.  units: one a key, the record of its group, itself
 * where it is in none, or 0. */
void core_groups_of_keys(struct core *core, const struct wire_lookup_req *lookup,
                         struct wire_lookup_rep *reply, uint32_t *units);
/* All readable members of these (records of groups, or objects; 0: none), each once, and which of
 * `units` they are of.  None, where they are more than reads may name. */
void core_group_members_of(struct core *core, const uint32_t *units, uint32_t count,
                           struct read_found *found);
uint64_t core_group_bytes(const struct core *core, uint32_t record); /* of its READABLE members */
bool core_some_node_is_away(const struct core *core);
bool core_group_member_is_there(const struct core *core, uint32_t number);
/* away: some node is silent. */
enum wire_group_state core_group_state_now(const struct core *core, const struct group *group,
                                           bool away);

/* ---- group_ask.c: requests ---- */

void core_group_get(struct core *core, const struct core_input *input, uint32_t session);
void core_group_remove(struct core *core, const struct core_input *input, uint32_t session);
void core_group_list(struct core *core, const struct core_input *input);
void core_group_remove_done(struct core *core, struct request *request, uint32_t item,
                            enum snow_status status);

/* ---- broken.c: members that readers could not read ---- */

void core_group_broken(struct core *core, const struct wire_group_broken_msg *message,
                       uint32_t session);
/* What a node says of an extent that it was asked about. */
void core_verify_reply(struct core *core, const struct node *node,
                       const struct wire_verify_rep *reply);

/* ---- match_nodes.c ---- */

struct match_nodes;

/* Of a match; it fills the reply's list. */
struct match_nodes *core_match_nodes_create(struct core *core, struct wire_match_rep *reply);
/* The next block, of these objects, before the reply counts it as matched. */
void core_match_nodes_add(struct core *core, struct match_nodes *nodes,
                          struct wire_match_rep *reply, const uint32_t *objects, uint32_t count);

/* ---- group_hold.c ---- */

/* Whether that hold stands for this group as it is: OK, GONE, CHANGED. */
enum snow_status core_group_hold_check(struct core *core, uint64_t id, uint32_t record);

void core_group_hold(struct core *core, const struct core_input *input, uint32_t session);
void core_group_holds_end(struct core *core, uint32_t record);
/* What holds one version is told that it has changed when it is asked for. */
void core_group_holds_move(struct core *core, uint32_t from, uint32_t to);
void core_group_holds_check(const struct core *core, const struct group *group);
/* Bytes of its marks; verifies H2. */
uint64_t core_group_marks_check(const struct core *core, const struct session *session);
void core_group_marks_end(struct core *core, uint32_t session);

/* ---- match.c ---- */

void core_match(struct core *core, const struct core_input *input, uint32_t session);

#endif
