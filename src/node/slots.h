/* The slot table of a segment: what each extent holds, kept where a crash leaves it readable.
 * Private to node/.
 *
 * Problem.  The bytes of a segment outlive the process that wrote them and the master that knew
 *           them; what is found there later must be whole, and nothing that was forgotten may come
 *           back.
 * Idea.     192 bytes a slot, in memory of their own (`meta`).  A slot becomes WRITTEN by its last
 *           store, after a checksum over all it says; it stops being so by the first store of its
 *           closing.  floor_gen stays for ever.
 *
 *   FREE ─slots_begin─► WRITING ─slots_seal─► WRITTEN ─slots_close─► CLOSED ─slots_free─► FREE
 *                          └───────────────slots_close────────────────┘
 * Invariants.
 *   T1  A WRITTEN slot's checksum holds; one that does not hold is FREE after a restart.
 *   T2  A write begins only if its gen is above floor_gen; floor_gen never falls.
 *   T3  A WRITTEN slot is never edited in place.
 *   T4  Slots at and above slots_ready are FREE and were never used; no extent reaches above ready.
 *   T5  No more WRITING, WRITTEN or CLOSED slots overlap than the master granted: places come
 *       from it.
 * A key and an extra block (what the master wants told again with it) of more than 96 bytes do not
 * fit in the slot: their bytes follow those of the object in the extent of part 0.
 * Threads.  One thread per segment changes it. */
#ifndef NODE_SLOTS_H
#define NODE_SLOTS_H

#include "base/hash.h"
#include "base/limits.h"
#include "base/status.h"
#include "env/env.h"
#include "wire/messages.h"
#include "wire/segment.h"

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_READY_UNIT 4096u /* bytes of data become ready in multiples of it */

/* First page of meta. */
struct slots_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_count;
    uint64_t incarnation;      /* of this segment */
    uint64_t node_incarnation; /* of the node that made it */
    uint64_t data_size;        /* bytes */
    uint32_t term;             /* highest that the node has seen */
    uint32_t crc;              /* crc32c of what stands before */
    /* Since version 2; each is one store, made after the memory was present. */
    uint32_t slots_ready;
    uint32_t spare;
    uint64_t ready; /* bytes of data */
};
_Static_assert(sizeof(struct slots_header) == 64, "the header's layout is on disk");

struct slots {
    struct env *env;
    struct env_memory meta;
    struct env_memory data;
    struct slots_header *header;
    struct slot *table;
    uint32_t count;
    uint32_t slots_ready;   /* slots below may be used (T4) */
    uint64_t ready;         /* bytes of data that may be */
    uint64_t present;       /* bytes of data that this process has made present */
    uint64_t meta_present;  /* bytes of meta, likewise */
    uint32_t dropped;       /* slots found damaged when opened */
    struct slots_crc *crcs; /* of slots whose writer computed none; NULL: not needed yet */
};

struct slots_request {
    const char *dir;     /* NULL: memory of the process */
    uint32_t segment;    /* index on the node */
    uint64_t data_size;  /* bytes, a multiple of 2 MiB */
    uint64_t slot_bytes; /* data bytes a slot */
    uint64_t step;       /* bytes of meta and of data to begin with, 64 KiB or more; 0: all */
};

/* Opens the segment's memory, or makes it; its first step is present in memory then, and what was
 * ready before is ready again.  Finds again what an earlier process left there.  NO_SPACE, IN_USE,
 * INVALID (another version or size; *reason says which). */
MUST_CHECK enum snow_status slots_open(struct env *env, const struct slots_request *request,
                                       struct slots *slots, const char **reason);
void slots_close_memory(struct slots *slots);

/* ---- growing ---- */

uint64_t slots_meta_size(const struct slots *slots); /* bytes */
/* Makes [from, from + size) of meta, or of data, present: slow, and the only function that another
 * thread may call meanwhile.  NO_SPACE: *done bytes of it are. */
MUST_CHECK enum snow_status slots_populate(struct slots *slots, bool of_meta, uint64_t from,
                                           uint64_t size, uint64_t *done);
/* The first bytes of meta, or of data, are present: what lies in them may be used. */
void slots_take_present(struct slots *slots, bool of_meta, uint64_t bytes);

/* Keeps the highest term in the header. */
void slots_term_set(struct slots *slots, uint32_t term);

/* ---- transitions ---- */

/* What a write is to store; already checked against its grant. */
MUST_CHECK enum snow_status slots_begin(struct slots *slots, const struct wire_write_item *item);
/* The WRITING slot is a copy of an object of this generation. */
void slots_version_set(struct slots *slots, uint32_t index, uint64_t version);
/* All bytes of a WRITING slot are there: it can be read from now on.  checked: by data_crc. */
void slots_seal(struct slots *slots, uint32_t index, uint32_t data_crc, bool checked);
/* crc32c of a WRITTEN slot's bytes: its writer's, or computed now (and remembered for a while). */
uint32_t slots_data_crc(struct slots *slots, uint32_t index);
/* Whether the bytes of that generation are as they were written: OK, CORRUPT, STALE (it is not
 * there), UNKNOWN (their writer computed no checksum, or they are above LIMIT_VERIFY_BYTES). */
enum snow_status slots_verify(const struct slots *slots, uint32_t index, uint64_t gen);
/* A FREE slot is CLOSED, since somebody still writes to this extent; false: there is none such. */
bool slots_quarantine(struct slots *slots, uint32_t index, uint64_t offset, uint64_t length);
/* WRITING or WRITTEN: no longer; the gen it held is answered.  The floor rises to gen. */
uint64_t slots_close(struct slots *slots, uint32_t index, uint64_t gen);
void slots_floor_raise(struct slots *slots, uint32_t index, uint64_t gen);
void slots_free(struct slots *slots, uint32_t index);

/* Key and extra block of a slot of part 0. */
struct bytes slots_key(const struct slots *slots, uint32_t index);
struct bytes slots_extra(const struct slots *slots, uint32_t index);

/* Bytes that the extent of this slot needs beside the object's. */
static inline uint64_t slots_tail(const struct slot *slot)
{
    uint32_t size = (uint32_t)slot->key_length + slot->extra_length;

    return slot->part == 0 && size > SLOT_INLINE ? size : 0;
}

/* Verifies T1 and that no two occupied extents overlap: NULL, or what is wrong.  O(n log n). */
const char *slots_check(const struct slots *slots);

#endif
