/* What the files of core/ offer each other, file by file.  Private to core/. */
#ifndef CORE_INSIDE_H
#define CORE_INSIDE_H

#include "core/state.h"

static inline struct key_hash core_key_hash(struct bytes key)
{
    struct hash128 hash = hash_key(CORE_TENANT, key);

    return (struct key_hash){.key = key, .hash = hash.low, .high = hash.high};
}

/* What a part counts for: its bytes rounded as an extent is, whatever its segment gave it. */
static inline uint64_t core_part_bytes(const struct part *part)
{
    return space_round(part->length);
}

/* ---- objects.c: records, keys, parts ---- */

/* A new record under this key, in the index, ABSENT still; 0: out of memory or above a bound.
 * An empty key: the record of an object whose part 0 is not known yet. */
uint32_t core_object_create(struct core *core, struct bytes key, uint64_t hash);
/* Takes the record out of the index and frees it; its extents are given back before. */
void core_object_free(struct core *core, uint32_t number);
/* One lease of it ends; the last one lets it go back among the victims, or frees what is left. */
void core_object_unlease(struct core *core, uint32_t number);
/* Gives a record its key when part 0 turns up.  NO_MEMORY. */
MUST_CHECK enum snow_status core_object_name(struct core *core, uint32_t number, struct bytes key);
struct bytes core_object_key(const struct core *core, uint32_t number);
/* Its key with its hash, in the outputs' arena: for longer than the record. */
struct key_hash core_copy_key(struct core *core, uint32_t number);
uint64_t core_object_hash(const struct core *core, uint32_t number);

/* Walks all records of exactly this key, in whatever state. */
struct object_cursor {
    struct index_cursor at;
    struct bytes key;
    const struct core *core;
};
uint32_t core_object_first(const struct core *core, struct bytes key, uint64_t hash,
                           struct object_cursor *cursor);
uint32_t core_object_next(struct object_cursor *cursor);
/* As everybody may see it: a member of a CLOSING group is CLOSING. */
enum object_state core_object_state(const struct core *core, uint32_t number);
uint32_t core_object_find(const struct core *core, struct bytes key, uint64_t hash,
                          enum object_state state);
/* The same, from where cursor->at stands: number is what its index_first said. */
uint32_t core_object_find_from(struct object_cursor *cursor, uint32_t number,
                               enum object_state state);
/* The version of this generation; of two records of it the one that is not CLOSING.  *readable (may
 * be NULL): the READABLE record of the key. */
uint32_t core_object_find_gen(const struct core *core, const struct key_hash *key, uint64_t gen,
                              uint32_t *readable);

/* Records that stand in no victim list, in a list of another kind: linked by prev and next from
 * *first on. */
void core_record_link(struct core *core, uint32_t *first, uint32_t number);
void core_record_unlink(struct core *core, uint32_t *first, uint32_t number);

/* Its parts; set_parts copies.  One part of one replica costs no side record. */
uint32_t core_part_count(const struct core *core, uint32_t number);
struct part core_part_at(const struct core *core, uint32_t number, uint32_t index);
MUST_CHECK enum snow_status core_parts_set(struct core *core, uint32_t number,
                                           const struct part *parts, uint32_t count);
/* Adds one part to those of a RECOVERING object.  INVALID: it contradicts those. */
MUST_CHECK enum snow_status core_part_add(struct core *core, uint32_t number,
                                          const struct part *part);
/* Moves the replicas outside mask to a record of their own, which is closed.  NO_MEMORY: nothing
 * changed. */
MUST_CHECK enum snow_status core_parts_split(struct core *core, uint32_t number, uint16_t mask);
/* Forgets that it has parts: they were given back. */
void core_parts_drop(struct core *core, uint32_t number);
/* Marks a part as gone from its node; its extent is the caller's business. */
void core_part_clear(struct core *core, uint32_t number, uint32_t index);
/* The part in this slot of this segment; false: none. */
bool core_part_find(const struct core *core, uint32_t number, uint32_t segment, uint32_t slot,
                    uint32_t *index);

enum access { ACCESS_NONE, ACCESS_SUSPECT, ACCESS_NOW };
/* The best access to a whole replica that there is now. */
enum access core_object_access(const struct core *core, uint32_t number);
/* The access to each replica: NONE unless all its parts are there. */
void core_replica_accesses(const struct core *core, uint32_t number,
                           enum access accesses[LIMIT_REPLICAS]);
uint32_t core_replica_count(const struct core *core, uint32_t number); /* whole ones, any access */
uint64_t core_object_bytes(const struct core *core, uint32_t number);  /* of its parts */

/* ---- victims.c: what stands in which list ---- */

/* Puts the object where its state, leases and pins say: in its victim list or in none. */
void core_victim_enter(struct core *core, uint32_t number);
void core_victim_return(struct core *core, uint32_t number);
void core_victim_leave(struct core *core, uint32_t number);
void core_victim_touch(struct core *core, uint32_t number, bool counts);
/* An object that is in no group, or the record of a group; 0: none. */
uint32_t core_victim_next(struct core *core, struct segment *segment);
/* It goes before others of its class. */
void core_victim_demote(struct core *core, uint32_t number);
/* What a READABLE object goes with: the record of its group, or itself. */
uint32_t core_unit_of(const struct core *core, uint32_t number);
/* Evicts the unit for which this object stands, whole. */
void core_victim_evict(struct core *core, uint32_t number);

/* How far from being evicted, before the policy is asked. */
enum victim_rank {
    VICTIM_RANK_DONE,
    VICTIM_RANK_POLICY, /* .. and one more for each priority */
    VICTIM_RANK_SOFT = VICTIM_RANK_POLICY + WIRE_PRIORITY_MAX + 1,
    VICTIM_RANK_HARD,
    VICTIM_RANKS
};
uint32_t core_victim_rank(const struct object *object);
/* a would go before b, were both on one segment and in their lists. */
bool core_victim_before(struct core *core, uint32_t a, uint32_t b);

/* ---- apply.c: the only changes of durable state ---- */

void core_apply_publish(struct core *core, uint32_t number);
void core_apply_withdraw(struct core *core, uint32_t number, enum close_reason reason);
void core_apply_lost(struct core *core, uint32_t number);
void core_apply_pin(struct core *core, uint32_t number, uint16_t pin_flags);

/* ---- closing.c: forgetting ---- */

void core_close(struct core *core, uint32_t number, enum close_reason reason);
/* An extent without an object (left of one, or never one): a record of its own holds it until its
 * node has forgotten it. */
void core_close_extent(struct core *core, const struct part *part, uint64_t gen);
/* The same for a copy of a version of this key: who removes the key waits for it too. */
void core_close_copy(struct core *core, const struct part *part, uint64_t gen, struct key_hash key);
/* The item is answered when every reachable holder has acknowledged all versions of the key that
 * are on their way out: now, if that is so already. */
void core_close_wait(struct core *core, struct key_hash key, struct request *request, uint32_t item,
                     enum snow_status answer, uint32_t shortfall);
/* The waiter waits for this CLOSING object. */
void core_await(struct core *core, uint32_t number, struct waiter *waiter);
void core_closings_recheck(struct core *core); /* a holder went out of reach */
/* Gives the extent of a part back to its segment.  One that is the object's no more (two
 * inventories claimed it) is left alone. */
void core_extent_give(struct core *core, const struct part *part, uint32_t number);
void core_forget_slot(struct core *core, uint32_t segment_index, uint32_t slot, uint64_t gen);
void core_part_closed(struct core *core, uint32_t number, uint32_t index);
/* index UINT32_MAX: there was nothing to free. */
void core_part_freed(struct core *core, uint32_t number, uint32_t index);
void core_forget_reply(struct core *core, struct node *node, const struct wire_forget_rep *reply);
void core_freed(struct core *core, struct node *node, const struct wire_freed_msg *message);
void core_forgets_flush(struct core *core);
void core_closing_age(struct core *core);
/* Next time that changes what counts as coming. */
uint64_t core_closing_age_ns(const struct core *core);

/* ---- request.c: items, answers, waiting ---- */

/* Encoded bytes at most, so that a reply fits in a frame: of its own fields and lists, of a row
 * without its bytes and lists, and of a place. */
#define CORE_REPLY_BYTES 64u
#define CORE_ROW_BYTES 40u
#define CORE_PLACE_BYTES 61u

struct request *core_request_open(struct core *core, const struct core_input *input,
                                  uint32_t session, uint32_t items);
void core_request_end(struct core *core, struct request *request); /* without a reply */
struct request *core_request_find(struct core *core, uint64_t token);
void core_answer_status(struct core *core, struct request *request, uint32_t item,
                        enum snow_status status, uint32_t shortfall, uint32_t node);
struct wire_put_grant *core_answer_grant(struct core *core, struct request *request, uint32_t item,
                                         enum snow_status status);
struct wire_group_info *core_answer_info(struct core *core, struct request *request, uint32_t item);
struct waiter *core_waiter_create(struct core *core, struct request *request, uint32_t item);
void core_waiter_end(struct core *core, struct waiter *waiter);
void core_requests_flush(struct core *core);
void core_reply(struct core *core, uint64_t token, uint16_t type, void *message);
void core_fail(struct core *core, uint64_t token, uint16_t type, enum snow_status status);
void *core_out(struct core *core, size_t count, size_t size);
struct core_output *core_output_add(struct core *core, enum core_output_kind kind);

/* ---- write.c: put_start, put_end, put_renew, put_abort ---- */

void core_put_start(struct core *core, const struct core_input *input, uint32_t session);
void core_put_end(struct core *core, const struct core_input *input, uint32_t session);
void core_put_abort(struct core *core, const struct core_input *input, uint32_t session);
void core_put_renew(struct core *core, const struct core_input *input, uint32_t session);
/* Answers with the grant of an open write. */
void core_answer_write(struct core *core, struct request *request, uint32_t item,
                       const struct key_hash *key, uint32_t number);
/* What the records of its key mean for a put: answered or waiting (true), or it needs a grant
 * (false; *old: the value that is there, reachable or not; 0: none).  settle.c */
bool core_put_settle(struct core *core, struct request *request, uint32_t index,
                     const struct key_hash *key, uint32_t *old);
/* Serves an item: answers it, or has it wait.  again: it waited for a writer or for room before. */
void core_put_item(struct core *core, struct request *request, uint32_t item);
/* Ends an open write that did not succeed; those that wait for it try themselves. */
void core_write_fail(struct core *core, uint32_t object);
void core_write_detach(struct core *core, uint32_t object, struct list *waiters);
/* A version that was just published: what its put said of it takes effect. */
void core_write_finish(struct core *core, uint32_t number, const struct write *write);
/* Answers an item that waited for room, if it can be now: granted, or settled by others of its
 * key. */
bool core_room_try(struct core *core, struct request *request, uint32_t item);
struct write *core_write_of(const struct core *core, uint32_t object);
uint64_t core_next_gen(struct core *core);

/* ---- place.c: where objects go ---- */

/* Extents for an object: OK with parts; NO_SPACE: not now. */
MUST_CHECK enum snow_status core_place(struct core *core, struct request *request, uint32_t index,
                                       uint32_t owner, struct part *parts, uint32_t *count);
void core_place_undo(struct core *core, const struct part *parts, uint32_t count);
/* Of the extents of an item, its key included. */
uint64_t core_place_bytes(const struct wire_put_start_req *put, uint32_t index);
/* True when one segment can not be expected to take that many bytes. */
bool core_place_exceeds(const struct core *core, const struct segment *segment, uint64_t bytes);
/* The segment that lacked room for the request's last item, or a new choice; NULL: none is open. */
struct segment *core_place_lacking(struct core *core, struct request *request);
/* Another one where room can be made; NULL: none. */
struct segment *core_place_elsewhere(struct core *core, struct request *request, uint64_t bytes);
bool core_segment_open(const struct core *core, const struct segment *segment);
/* One extent; size: bytes of the object, tail: bytes that its key needs behind them.  False: no
 * run. */
bool core_place_one(struct core *core, struct segment *segment, uint64_t size, uint64_t tail,
                    uint32_t owner, struct part *part);
/* From these parts: 0 on the host of one, 1 in the failure domain of one, 2 in neither. */
uint32_t core_place_distance(const struct core *core, const struct part *taken, uint32_t count,
                             const struct segment *segment);
/* Per mille of it that is free, what it may grow by included. */
uint64_t core_place_free_share(const struct segment *segment);

/* ---- room.c: eviction, the queue for room ---- */

/* The item waits for room, or is answered why it can not. */
void core_room_wait(struct core *core, struct request *request, uint32_t index);
void core_room_leave(struct core *core, struct waiter *waiter);
/* It is in no queue: into the queue for room, members of groups that are being formed first. */
void core_room_enter(struct core *core, struct waiter *waiter);
/* The group of that id was given up: who waits to put a member of it is answered BUSY. */
void core_room_give_up(struct core *core, struct bytes id);
/* A session's open writes take less now, or one that waited for room is gone: those that wait in
 * the session's own queue come back to the queue for room. */
void core_room_return(struct core *core, struct session *session);
void core_room_serve(struct core *core);
/* Evicts for an object of that many bytes; wanted: what is wanted there in all.  False: nothing may
 * go.  *scraps (or NULL): set where only pieces of any size will serve. */
bool core_room_make(struct core *core, struct segment *segment, uint64_t bytes, uint64_t wanted,
                    bool *scraps);
/* After a grant: evicts until the reserve of its segments is free or coming. */
void core_room_ahead(struct core *core, const struct part *parts, uint32_t count);
uint64_t core_room_reserve(const struct core *core, const struct segment *segment);
/* What the request's items lack is memory that a node is committing. */
bool core_room_grows(const struct core *core, const struct request *request);
/* What is in the way, for people: told with NO_SPACE.  Lives until the outputs are reset. */
const char *core_room_reason(struct core *core, const struct request *request, uint32_t index);
/* Its open writes fill their share: some have to end before it gets that many bytes more. */
bool core_session_is_full(const struct core *core, const struct session *session, uint64_t bytes);

/* ---- widen.c: runs made of neighbours ---- */

/* Evicts a window of neighbours in which an object of that many bytes, or a good part of it, will
 * fit.  False: there is none, or it is too early to look again. */
bool core_widen(struct core *core, struct segment *segment, uint64_t bytes);

/* Bytes of a segment that can not be evicted now. */
struct blockers {
    uint64_t leased_bytes;
    uint64_t pinned_bytes;
    uint64_t writing_bytes;
    uint64_t closing_bytes;
    bool whole; /* all of the segment was looked at */
};
void core_widen_blockers(const struct core *core, const struct segment *segment,
                         struct blockers *blockers);

/* ---- grow.c: memory that nodes commit as it is needed ---- */

/* There is more of it than is ready, and it is of use: the bytes, or the slots that are lacking. */
bool core_segment_can_grow(const struct segment *segment);
/* Asks its node for more, unless it was asked already: so that this many bytes are free, or as many
 * as are kept free ahead. */
void core_grow(struct core *core, struct segment *segment, uint64_t free_wanted);
/* What is ready becomes part of its space. */
void core_grow_apply(struct core *core, struct segment *segment);
void core_grown(struct core *core, struct node *node, const struct wire_grown_msg *grown);

/* ---- seek.c: from keys to objects ---- */

#define CORE_SEEK_KEYS 64u /* whose lines are in the cache together */

/* A key on its way to its object. */
struct sought {
    struct object_cursor cursor;
    uint32_t number; /* the first record that may be of the key; 0: none */
};
/* Of up to CORE_SEEK_KEYS keys; flags: WIRE_LOOKUP_*. */
void core_seek(const struct core *core, const struct wire_key *keys, uint32_t count, uint32_t flags,
               struct sought *group);
/* The object of a key that a reader may have now; 0: none, *status says why. */
uint32_t core_seek_readable(struct core *core, struct sought *sought, uint32_t flags,
                            enum snow_status *status, uint32_t *why);

/* ---- read.c: look-ups, leases, what `continues` names ---- */

void core_lookup(struct core *core, const struct core_input *input, uint32_t session);
void core_hold_return(struct core *core, const struct core_input *input, uint32_t session);
/* What a read found: objects (0: none), and the key or block of the message that each is of. */
struct read_found {
    const uint32_t *numbers;
    const uint32_t *positions; /* NULL: number i is of key i */
    uint32_t count;
};
/* What all that tell places share.  Of `lookup` the operation, position, flags and count of keys
 * are looked at.  Remembers what was found; leases it if asked.  Returns the lease's
 * milliseconds. */
uint32_t core_read_remember(struct core *core, const struct wire_lookup_req *lookup,
                            uint32_t session, const struct read_found *found);
void core_read_touch_found(struct core *core, const struct wire_lookup_req *lookup,
                           const uint32_t *numbers);
uint32_t core_found_flags(const struct object *object); /* WIRE_FOUND_* */
void core_read_places(struct core *core, uint32_t number, uint32_t max, struct wire_found *found);
void core_lease_return(struct core *core, const struct wire_lease_return_msg *message,
                       uint32_t session);
void core_read_touch(struct core *core, uint32_t session, uint64_t operation);
/* A put continues this read: its keys are counted once. */
void core_read_continued(struct core *core, uint32_t session, uint64_t operation);
/* What was used as often is shared by many chains, not one's own. */
#define CORE_SHARED_USES 8u

/* Depth of the last key that the read found. */
bool core_read_depth(struct core *core, uint32_t session, uint64_t operation, uint32_t *depth);
/* Segment of the last key that the read found; UINT16_MAX: that is gone, or shared by others. */
uint16_t core_read_segment(struct core *core, uint32_t session, uint64_t operation);
void core_read_free(struct core *core, struct read *read);
void core_holds_free(struct core *core, struct session *session);
uint32_t core_lease_break(struct core *core, enum lease_kind kind, uint64_t bytes);
/* WIRE_SLOT_* that the slots of an open write store. */
uint16_t core_grant_flags(const struct core *core, uint32_t number);
/* Where a reader finds this part. */
void core_read_place(const struct core *core, uint32_t number, const struct part *part,
                     struct wire_place *place);
/* Places of all parts of an open write, sealed for writing. */
void core_grant_places(struct core *core, uint32_t number, const struct hash128 *key,
                       struct bytes extra, struct wire_place **places, uint32_t *count);
/* Ticks in which guards are counted. */
static inline uint64_t core_guard_tick(const struct core *core, uint64_t at_ns)
{
    return (at_ns - core->start_ns) / CORE_GUARD_TICK_NS;
}

/* ---- remove.c, pin.c, hint.c, query.c ---- */

void core_remove(struct core *core, const struct core_input *input, uint32_t session);
/* Without WIRE_REMOVE_FORCE an object, or with one of its members a group, is not to be removed. */
bool core_is_guarded(const struct core *core, uint32_t unit, uint32_t flags);
void core_remove_match(struct core *core, const struct core_input *input, uint32_t session);
/* One of its closings is over.  removed: it is this removal's own. */
void core_remove_match_done(struct core *core, struct request *request, bool removed,
                            enum snow_status status);
void *core_remove_match_reply(struct core *core, const struct request *request);
void core_remove_match_expire(struct core *core, struct request *request); /* its deadline came */
void core_jobs_run(struct core *core);
bool core_jobs_can_run(const struct core *core); /* the next step has something to do */
void core_pin(struct core *core, const struct core_input *input, uint32_t session);
/* A pin that a client may ask for. */
bool core_pin_is_valid(const struct core *core, uint8_t pin, uint32_t pin_ms);
MUST_CHECK enum snow_status core_pin_set(struct core *core, uint32_t number, uint8_t pin,
                                         uint32_t pin_ms);
void core_pin_forget(struct core *core, uint32_t number);
/* Its bytes count as pinned for good: it is, or a member of its group. */
bool core_pin_counts(const struct core *core, uint32_t number);
void core_hint(struct core *core, const struct core_input *input, uint32_t session);
bool core_hint_is_valid(uint32_t flags, uint8_t priority);
MUST_CHECK enum snow_status core_hint_set(struct core *core, uint32_t number,
                                          const struct hint *hint);
/* What was said of an object that is about to become a member, and holds for its group then. */
struct hint core_hint_take(struct core *core, uint32_t number);
/* Closes a READABLE object that is past its end (true); 0: none. */
bool core_expire_due(struct core *core, uint32_t number);
void core_expiry_forget(struct core *core, uint32_t number);
void core_list(struct core *core, const struct core_input *input);
void core_nodes(struct core *core, const struct core_input *input);
void core_stats(struct core *core, const struct core_input *input);
uint64_t core_memory(const struct core *core); /* bytes of the tables, segments apart */

/* ---- copy.c ---- */

/* OK: it is under way.  BUSY: later (room is coming, or as much is under way as may be).  NO_SPACE:
 * nowhere is it worth more than what would have to go.  NOT_FOUND: the object is gone, or lies not
 * there; UNREACHABLE: its node is silent; LIMIT: it can have no more copies.
 * *bytes: of what is to be copied. */
MUST_CHECK enum snow_status core_copy_start(struct core *core, const struct copy_wish *wish,
                                            uint64_t *bytes);
void core_copy_end(struct core *core, struct copy *copy, enum snow_status status);
/* The copy of an object that is under way; NULL: none. */
struct copy *core_copy_of(const struct core *core, uint32_t number);
void core_copy_object_gone(struct core *core, uint32_t number);
void core_copy_node_gone(struct core *core, const struct node *node);
void core_copy_reply(struct core *core, const struct node *node, const struct wire_copy_rep *reply);
void core_copy_check(struct core *core, uint32_t record);
/* Gives up copies of a READABLE object that others can be read instead of (bits of replicas). */
void core_copies_give_up(struct core *core, uint32_t number, uint16_t replicas);

/* ---- second.c: one more copy of what is used often ---- */

void core_second_used(struct core *core, uint32_t number);
void core_second_made(struct core *core, uint32_t number, uint8_t replica);
void core_second_object_gone(struct core *core, uint32_t number);
/* The object's parts have changed. */
void core_second_refresh(struct core *core, uint32_t number);
/* Before this victim of the segment goes (0: there is none): true when a second copy there went
 * instead. */
bool core_second_gives_way(struct core *core, struct segment *segment, uint32_t victim);
void core_seconds_run(struct core *core);
void core_seconds_check(struct core *core);

/* ---- task.c, drain.c ---- */

void core_task_start(struct core *core, const struct core_input *input);
void core_task_cancel(struct core *core, const struct core_input *input);
void core_tasks(struct core *core, const struct core_input *input);
/* A copy that the task asked for has ended.  Neither starts nor ends one. */
void core_task_copied(struct core *core, uint64_t id, const struct copy_end *end);
void core_task_end(struct core *core, struct task *task, enum wire_task_state state,
                   enum snow_status status, const char *reason);
void core_tasks_run(struct core *core);
void core_tasks_free(struct core *core);
bool core_pace_allows(struct core *core, const struct pace *pace);
void core_pace_spend(struct core *core, struct pace *pace, uint64_t rate, uint64_t bytes);
/* Tasks are looked at again then. */
void core_tasks_wake(struct core *core, uint64_t at_ns);
MUST_CHECK enum snow_status core_drain_open(struct core *core, struct task *task,
                                            struct node *node);
/* It drains no more. */
void core_drain_close(struct core *core, struct task *task);
void core_drain_run(struct core *core, struct task *task);
void core_drain_node_gone(struct core *core, const struct node *node);
/* What is left on its node. */
void core_drain_left(const struct core *core, const struct task *task, uint64_t *objects,
                     uint64_t *bytes);

/* ---- session.c ---- */

void core_session_open(struct core *core, const struct core_input *input);
void core_session_break(struct core *core, const struct core_input *input);
struct session *core_session_find(struct core *core, uint64_t id, uint32_t *index);
void core_sessions_free(struct core *core);

/* ---- node.c, inventory.c ---- */

void core_mount(struct core *core, const struct core_input *input);
/* The node of this connection leaves; NULL: none of this core's. */
void core_unmount(struct core *core, const struct core_input *input, struct node *node);
void core_heartbeat(struct core *core, const struct core_input *input);
void core_node_break(struct core *core, struct node *node);
void core_node_report(struct core *core, const struct wire_report_peer_msg *message,
                      uint64_t session);
/* It may be waited for: its connection stands, and it is not silent. */
bool core_node_is_reachable(const struct core *core, const struct node *node);
struct node *core_node_at(struct core *core, uint64_t number); /* NULL: no such node */
/* It was emptied: it is expected no more, and its process is not taken in again. */
void core_node_retire(struct core *core, struct node *node);
/* A put_end came: its nodes that are telling their inventory have said FREE or WRITING before.
 * NO_MEMORY. */
MUST_CHECK enum snow_status core_node_note_ended(struct core *core, uint32_t number);
/* ALIVE, when it has told everything and forgotten what is not believed. */
void core_node_settle(struct core *core, struct node *node);
void core_expected_start(struct core *core, const struct core_start *start);
void core_expected_in(struct core *core, uint64_t incarnation);
void core_drops_run(struct core *core); /* extents of DEAD nodes, in bounded steps */
void core_inventory(struct core *core, const struct core_input *input, struct node *node);
void core_inventories_done(struct core *core);
bool core_recovering_can_go(const struct core *core); /* core_inventories_done has more to do */
/* A part is gone from its node (inventory, DEAD): the object loses that copy, its extent is
 * free. */
void core_copy_lost(struct core *core, uint32_t number, uint32_t index);
/* The same, but the extent is another's already. */
void core_part_lost(struct core *core, uint32_t number, uint32_t index);

#endif
