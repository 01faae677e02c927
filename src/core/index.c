/* Buckets of 8 entries, one cache line each; a bucket that runs over continues in further lines.
 *
 *   entry:   tag (4) | object (4)            object 0: empty
 *   bucket:  entry 0 .. 7;  the last one may be a link: object = LINK | number of the next line
 *
 * The tag is the upper half of the hash; its low bits choose the bucket, so a split needs no key.
 * Growth is steered by load, the lines of overflow counted: a split comes when the load after it is
 * still above SPLIT_LOAD, a merge when it has fallen below MERGE_LOAD.  At these loads one entry in
 * six to fifteen stands in a second line (1.07 to 1.18 cache misses a hit), depending on how far
 * the round of splits has come.
 *
 * Invariants, beside those of the header.
 *   X3  A chain is dense: no empty entry before its last one; a line is linked only if the chain
 *       needs it.
 *   X4  An entry with tag t stands in the chain of bucket address(t).
 */
#include "core/index.h"

#include "base/assert.h"
#include "base/cache.h"
#include "base/pool.h"

#include <stdlib.h>

#define BUCKET_ENTRIES 8u
#define LAST (BUCKET_ENTRIES - 1)
#define CHUNK_BITS 8u
#define CHUNK_BUCKETS (1u << CHUNK_BITS)
#define CHUNKS_FIRST 64u /* capacity of the array of chunks, at first */
#define LINK 0x80000000u
#define SPLIT_LOAD 65u /* percent */
#define MERGE_LOAD 62u

struct index_entry {
    uint32_t tag;
    uint32_t object;
};

struct index_bucket {
    struct index_entry entries[BUCKET_ENTRIES];
};

#define CHUNK_BYTES (CHUNK_BUCKETS * sizeof(struct index_bucket))

_Static_assert(sizeof(struct index_bucket) == 64, "a bucket is a cache line");
_Static_assert(INDEX_OBJECT_MAX < LINK, "an object is no link");

struct index {
    struct region *region;
    struct index_bucket **chunks; /* primary buckets */
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t bucket_count; /* primary buckets in use */
    uint32_t mask;         /* 2^k - 1 with 2^k the largest power of two up to bucket_count */
    uint32_t count;        /* entries */
    struct pool lines;     /* overflow */
};

static enum snow_status add_chunk(struct index *index)
{
    struct index_bucket *chunk;

    if (index->chunk_count == index->chunk_capacity) {
        uint32_t capacity = index->chunk_capacity == 0 ? CHUNKS_FIRST : index->chunk_capacity * 2;
        struct index_bucket **chunks =
            realloc(index->chunks, capacity * sizeof(struct index_bucket *));

        if (chunks == NULL)
            return SNOW_NO_MEMORY;
        index->chunks = chunks;
        index->chunk_capacity = capacity;
    }
    chunk = region_take(index->region, CHUNK_BYTES);
    if (chunk == NULL)
        return SNOW_NO_MEMORY;
    index->chunks[index->chunk_count++] = chunk;
    return SNOW_OK;
}

static struct index_bucket *bucket_at(const struct index *index, uint32_t number)
{
    return &index->chunks[number >> CHUNK_BITS][number & (CHUNK_BUCKETS - 1)];
}

static struct index_bucket *line_at(const struct index *index, uint32_t link)
{
    return pool_at(&index->lines, link & ~LINK);
}

static bool is_link(const struct index_entry *entry)
{
    return (entry->object & LINK) != 0;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static uint32_t address(const struct index *index, uint32_t tag)
{
    uint32_t number = tag & (index->mask << 1 | 1);

    return number < index->bucket_count ? number : tag & index->mask;
}

enum snow_status index_create(struct region *region, struct index **index)
{
    struct index *created = calloc(1, sizeof(*created));
    enum snow_status status;

    if (created == NULL)
        return SNOW_NO_MEMORY;
    created->region = region;
    pool_init(&created->lines, region, sizeof(struct index_bucket), CHUNK_BITS, LINK - 1);
    status = add_chunk(created);
    if (status != SNOW_OK) {
        index_destroy(created);
        return status;
    }
    created->bucket_count = CHUNK_BUCKETS;
    created->mask = CHUNK_BUCKETS - 1;
    for (uint32_t i = 0; i < CHUNK_BUCKETS; i++)
        *bucket_at(created, i) = (struct index_bucket){0};
    *index = created;
    return SNOW_OK;
}

void index_destroy(struct index *index)
{
    if (index == NULL)
        return;
    for (uint32_t i = 0; i < index->chunk_count; i++)
        region_give(index->region, index->chunks[i], CHUNK_BYTES);
    free(index->chunks);
    pool_deinit(&index->lines);
    free(index);
}

/* Adds an entry at the end of a chain. */
static enum snow_status append(struct index *index, uint32_t number, struct index_entry entry)
{
    struct index_bucket *bucket = bucket_at(index, number);
    struct index_bucket *line;
    uint32_t added;
    enum snow_status status;

    while (is_link(&bucket->entries[LAST]))
        bucket = line_at(index, bucket->entries[LAST].object);
    for (uint32_t i = 0; i < BUCKET_ENTRIES; i++) {
        if (bucket->entries[i].object == 0) {
            bucket->entries[i] = entry;
            return SNOW_OK;
        }
    }
    status = pool_take(&index->lines, &added);
    if (status != SNOW_OK)
        return status;
    line = line_at(index, added);
    line->entries[0] = bucket->entries[LAST];
    line->entries[1] = entry;
    bucket->entries[LAST] = (struct index_entry){.object = LINK | added};
    return SNOW_OK;
}

/* Spreads what stands in a bucket's chain by the addresses that hold now.  Takes each line out of
 * the chain before its entries are placed.  Splitting an overfull chain never needs more lines than
 * it had, also midway (n entries need (n - 2) / 7 lines, and a split adds none), so it can not
 * fail; for a merge the caller makes sure of the lines. */
static void spread(struct index *index, uint32_t number)
{
    struct index_bucket source = *bucket_at(index, number);

    *bucket_at(index, number) = (struct index_bucket){0};
    for (;;) {
        uint32_t link = is_link(&source.entries[LAST]) ? source.entries[LAST].object & ~LINK : 0;

        if (link != 0) {
            source.entries[LAST].object = 0;
            __builtin_prefetch(line_at(index, link));
        }
        for (uint32_t i = 0; i < BUCKET_ENTRIES && source.entries[i].object != 0; i++) {
            struct index_entry entry = source.entries[i];
            enum snow_status status = append(index, address(index, entry.tag), entry);

            ASSERT(status == SNOW_OK);
        }
        if (link == 0)
            return;
        source = *line_at(index, link);
        pool_give(&index->lines, link);
    }
}

static uint64_t slots_in_use(const struct index *index)
{
    return ((uint64_t)index->bucket_count + index->lines.used) * BUCKET_ENTRIES;
}

/* Out of memory: the table stays as it is, its chains get longer. */
static void split_one(struct index *index)
{
    uint32_t added = index->bucket_count;
    uint32_t source = added & index->mask;

    if (added == UINT32_MAX)
        return;
    if (added >> CHUNK_BITS == index->chunk_count && add_chunk(index) != SNOW_OK)
        return;
    *bucket_at(index, added) = (struct index_bucket){0};
    index->bucket_count++;
    if (index->bucket_count == index->mask * 2 + 2)
        index->mask = added;
    spread(index, source);
}

/* Entries in a chain. */
static uint32_t chain_length(const struct index *index, uint32_t number)
{
    const struct index_bucket *bucket = bucket_at(index, number);
    uint32_t length = 0;

    while (is_link(&bucket->entries[LAST])) {
        bucket = line_at(index, bucket->entries[LAST].object);
        length += LAST;
    }
    for (uint32_t i = 0; i < BUCKET_ENTRIES && bucket->entries[i].object != 0; i++)
        length++;
    return length;
}

/* Makes sure that the next two lines can be taken. */
static bool reserve_lines(struct index *index)
{
    uint32_t first;
    uint32_t second;
    bool is_reserved;

    if (pool_take(&index->lines, &first) != SNOW_OK)
        return false;
    is_reserved = pool_take(&index->lines, &second) == SNOW_OK;
    if (is_reserved)
        pool_give(&index->lines, second);
    pool_give(&index->lines, first);
    return is_reserved;
}

/* The last bucket joins the one it was split from.  Joining two chains needs up to two lines more
 * than they have. */
static void merge_one(struct index *index)
{
    uint32_t removed = index->bucket_count - 1;

    if (index->bucket_count == CHUNK_BUCKETS || !reserve_lines(index))
        return;
    index->bucket_count--;
    if (index->bucket_count == index->mask)
        index->mask >>= 1;
    spread(index, removed);
    if (index->bucket_count <= (index->chunk_count - 2) << CHUNK_BITS)
        region_give(index->region, index->chunks[--index->chunk_count], CHUNK_BYTES);
}

enum snow_status index_insert(struct index *index, uint64_t hash, uint32_t object)
{
    struct index_entry entry = {.tag = tag_of(hash), .object = object};
    enum snow_status status;

    ASSERT(object != 0 && object <= INDEX_OBJECT_MAX);
    status = append(index, address(index, entry.tag), entry);
    if (status != SNOW_OK)
        return status;
    index->count++;
    if ((uint64_t)index->count * 100 > (slots_in_use(index) + BUCKET_ENTRIES) * SPLIT_LOAD)
        split_one(index);
    return SNOW_OK;
}

/* Takes the last entry out of a chain and keeps X3. */
static struct index_entry take_last(struct index *index, uint32_t number)
{
    struct index_bucket *before = NULL;
    struct index_bucket *bucket = bucket_at(index, number);
    struct index_entry last;
    uint32_t used = 0;

    while (is_link(&bucket->entries[LAST])) {
        before = bucket;
        bucket = line_at(index, bucket->entries[LAST].object);
    }
    while (used < BUCKET_ENTRIES && bucket->entries[used].object != 0)
        used++;
    ASSERT(used > (before == NULL ? 0 : 1));
    last = bucket->entries[used - 1];
    bucket->entries[used - 1] = (struct index_entry){0};
    if (before != NULL && used == 2) {
        uint32_t link = before->entries[LAST].object & ~LINK;

        before->entries[LAST] = bucket->entries[0];
        pool_give(&index->lines, link);
    }
    return last;
}

void index_remove(struct index *index, uint64_t hash, uint32_t object)
{
    uint32_t tag = tag_of(hash);
    uint32_t number = address(index, tag);
    struct index_bucket *bucket = bucket_at(index, number);
    struct index_entry last = take_last(index, number);
    uint32_t i = 0;

    /* The last entry fills the place of the removed one, unless it is that one. */
    while (last.tag != tag || last.object != object) {
        struct index_entry *entry = &bucket->entries[i];

        if (i == LAST && is_link(entry)) {
            bucket = line_at(index, entry->object);
            i = 0;
            continue;
        }
        ASSERT(i < BUCKET_ENTRIES && entry->object != 0);
        if (entry->tag == tag && entry->object == object) {
            *entry = last;
            break;
        }
        i++;
    }
    index->count--;
    if ((uint64_t)index->count * 100 < slots_in_use(index) * MERGE_LOAD)
        merge_one(index);
}

/* Bit i: entry i has the tag.  Without branches: where the entry stands is random. */
static uint32_t matching(const struct index_bucket *bucket, uint32_t tag)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < BUCKET_ENTRIES; i++)
        mask |= (uint32_t)(bucket->entries[i].tag == tag) << i;
    return mask;
}

uint32_t index_first(const struct index *index, uint64_t hash, struct index_cursor *cursor)
{
    uint32_t tag = tag_of(hash);
    const struct index_bucket *bucket = bucket_at(index, address(index, tag));

    *cursor = (struct index_cursor){
        .index = index, .bucket = bucket, .tag = tag, .matching = matching(bucket, tag)};
    return index_next(cursor);
}

uint32_t index_next(struct index_cursor *cursor)
{
    for (;;) {
        const struct index_bucket *bucket = cursor->bucket;

        while (cursor->matching != 0) {
            const struct index_entry *entry = &bucket->entries[__builtin_ctz(cursor->matching)];

            cursor->matching &= cursor->matching - 1;
            if (entry->object != 0 && !is_link(entry))
                return entry->object;
        }
        if (!is_link(&bucket->entries[LAST]))
            return 0;
        cursor->bucket = line_at(cursor->index, bucket->entries[LAST].object);
        cursor->matching = matching(cursor->bucket, cursor->tag);
    }
}

void index_touch(const struct index *index, uint64_t hash)
{
    cache_touch(bucket_at(index, address(index, tag_of(hash))));
}

uint32_t index_count(const struct index *index)
{
    return index->count;
}

uint64_t index_memory(const struct index *index)
{
    return sizeof(*index) + index->chunk_capacity * sizeof(*index->chunks) +
           (uint64_t)index->chunk_count * CHUNK_BUCKETS * sizeof(struct index_bucket) +
           pool_bytes(&index->lines);
}

void index_check(const struct index *index)
{
    uint64_t count = 0;
    uint64_t lines = 0;

    ASSERT((index->mask & (index->mask + 1)) == 0 && index->mask < index->bucket_count &&
           index->bucket_count <= ((uint64_t)index->mask + 1) * 2);
    for (uint32_t number = 0; number < index->bucket_count; number++) {
        const struct index_bucket *bucket = bucket_at(index, number);
        uint32_t length = chain_length(index, number);
        uint32_t seen = 0;

        for (uint32_t i = 0; seen < length; i++) {
            const struct index_entry *entry = &bucket->entries[i];

            if (is_link(entry)) {
                ASSERT(i == LAST);
                bucket = line_at(index, entry->object);
                lines++;
                i = UINT32_MAX;
                continue;
            }
            ASSERT(i < BUCKET_ENTRIES && entry->object != 0 &&
                   address(index, entry->tag) == number);
            seen++;
        }
        count += length;
    }
    ASSERT(count == index->count && lines == index->lines.used);
    if (index->bucket_count >= 4 * CHUNK_BUCKETS)
        ASSERT(count * 100 >= slots_in_use(index) * 60);
}
