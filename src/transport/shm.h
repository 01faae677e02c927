/* What shm.c and shm_space.c share: a node's memory as this process has it mapped.
 *
 *   link ─dial, attach─► space: meta and data of each segment, and our marks
 *
 * The space lives as long as anybody uses it (a link, a copy, a view): a lost connection ends the
 * link's use of it and no other. */
#ifndef TRANSPORT_SHM_H
#define TRANSPORT_SHM_H

#include "base/limits.h"
#include "env/env.h"
#include "transport/transport.h"
#include "wire/marks.h"
#include "wire/segment.h"

struct shm_segment {
    struct env_memory meta;
    struct env_memory data;
    const struct slot *slots;
    uint32_t slot_count;
};

/* Counts of users change atomically, marks are cleared by any thread; the rest is the loop's. */
struct shm_space {
    struct env *env;
    uint32_t users;
    bool writes; /* data is mapped writable */
    struct env_memory memory;
    struct marks *marks;
    uint32_t next_mark; /* where to look for a free one */
    uint32_t segment_count;
    struct shm_segment segments[LIMIT_SEGMENTS_PER_NODE];
};

/* One with marks and no segments, used by the caller.  NULL: no memory. */
struct shm_space *shm_space_create(struct env *env);
void shm_space_use(struct shm_space *space);
/* Any thread. */
void shm_space_release(struct shm_space *space);

/* Takes what the node handed over on `stream`, as its answer tells.  INVALID: it is something
 * else. */
MUST_CHECK enum snow_status shm_space_fill(struct shm_space *space, struct env_conn *stream,
                                           const struct wire_attach_rep *attached);

/* Where a place lies.  *slot is what the node says of it.  INVALID: nowhere. */
MUST_CHECK enum snow_status shm_space_find(const struct shm_space *space,
                                           const struct wire_place *place, const struct slot **slot,
                                           uint8_t **at);

/* The key that grants must be sealed with now. */
uint32_t shm_space_key_id(const struct shm_space *space, uint32_t segment);

/* Marks a place; NULL: all marks are in use. */
struct mark *shm_space_mark(struct shm_space *space, const struct wire_place *place, uint64_t gen);

/* Begins to look at an extent.  STALE, INVALID, LIMIT (marks). */
MUST_CHECK enum snow_status shm_space_view(struct shm_space *space, const struct wire_place *place,
                                           uint64_t gen, struct transport_view *view);

#endif
