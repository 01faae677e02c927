/* Index from key hash to object number: linear hashing (Litwin, 1980), which grows one bucket at a
 * time.
 *
 * Idea.  8 bytes an entry {tag, object}; several objects may stand under one hash (an old value and
 *        its replacement, one that is being forgotten): the caller walks them and compares keys and
 *        states.
 * Invariants.
 *   X1  Load stays at or above 0.6 of the entries of all buckets in use, once it holds more than a
 *       few thousand.
 *   X2  One insert or remove moves at most the entries of one bucket.
 * Threads.  The core's own. */
#ifndef CORE_INDEX_H
#define CORE_INDEX_H

#include "base/region.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define INDEX_OBJECT_MAX 0x7fffffffu /* object numbers: 1 .. this */

struct index;
struct index_bucket;

MUST_CHECK enum snow_status index_create(struct region *region, struct index **index);
void index_destroy(struct index *index);

/* NO_MEMORY */
MUST_CHECK enum snow_status index_insert(struct index *index, uint64_t hash, uint32_t object);
void index_remove(struct index *index, uint64_t hash, uint32_t object); /* it is there */

/* Walks the objects that may have this hash (tags are partial: compare the key).  No insert or
 * remove in between.
 * Returns 0 at the end (object numbers start at 1). */
struct index_cursor {
    const struct index *index;
    const struct index_bucket *bucket; /* where the walk stands */
    uint32_t tag;                      /* of the hash */
    uint32_t matching;                 /* bits of its entries to look at next */
};
uint32_t index_first(const struct index *index, uint64_t hash, struct index_cursor *cursor);
uint32_t index_next(struct index_cursor *cursor);

/* Brings the bucket of a hash into the cache, for batches: hash and touch all, then look up. */
void index_touch(const struct index *index, uint64_t hash);

uint32_t index_count(const struct index *index);
uint64_t index_memory(const struct index *index); /* bytes */
void index_check(const struct index *index);

#endif
