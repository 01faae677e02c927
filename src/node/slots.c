#include "node/slots.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS_MAGIC UINT64_C(0x314e494b53574e53) /* "SNWSKIN1" */
#define SLOTS_VERSION 2u
#define SLOTS_VERSION_WHOLE 1u /* no slots_ready, no ready: all of it is */
#define CRCS_KEPT 1024u

/* A checksum that was computed here. */
struct slots_crc {
    uint64_t gen; /* 0: none */
    uint32_t slot;
    uint32_t crc;
};

/* ---- checksums ---- */

static uint32_t header_crc(const struct slots_header *header)
{
    return crc32c(0, header, offsetof(struct slots_header, crc));
}

/* As if it were WRITTEN: state is the last store of a seal. */
static uint32_t slot_crc(const struct slot *slot)
{
    struct slot copy = *slot;

    copy.floor_gen = 0;
    copy.slot_crc = 0;
    copy.state = WIRE_SLOT_WRITTEN;
    return crc32c(0, &copy, sizeof(copy));
}

/* ---- opening ---- */

/* Whole slots in so many bytes of meta. */
static uint32_t slots_in(const struct slots *slots, uint64_t bytes)
{
    uint64_t count = (bytes - SEGMENT_HEADER_BYTES) / sizeof(struct slot);

    return count < slots->count ? (uint32_t)count : slots->count;
}

uint64_t slots_meta_size(const struct slots *slots)
{
    return SEGMENT_HEADER_BYTES + slots->count * sizeof(struct slot);
}

enum snow_status slots_populate(struct slots *slots, bool of_meta, uint64_t from, uint64_t size,
                                uint64_t *done)
{
    struct env_memory *memory = of_meta ? &slots->meta : &slots->data;
    size_t bytes;
    enum snow_status status = env_memory_populate(slots->env, memory, from, size, &bytes);

    *done = status == SNOW_OK || status == SNOW_NO_SPACE ? bytes : 0;
    return status;
}

void slots_take_present(struct slots *slots, bool of_meta, uint64_t bytes)
{
    if (of_meta) {
        uint32_t count = slots_in(slots, bytes);

        if (bytes > slots->meta_present)
            slots->meta_present = bytes;
        if (count <= slots->slots_ready)
            return;
        if (slots->meta.existed) /* rows of other data, from before the header was made anew */
            memset(&slots->table[slots->slots_ready], 0,
                   (count - slots->slots_ready) * sizeof(struct slot));
        slots->slots_ready = count;
        __atomic_store_n(&slots->header->slots_ready, count, __ATOMIC_RELEASE);
        return;
    }
    bytes -= bytes % SLOTS_READY_UNIT;
    if (bytes > slots->present)
        slots->present = bytes;
    if (bytes <= slots->ready)
        return;
    slots->ready = bytes;
    __atomic_store_n(&slots->header->ready, bytes, __ATOMIC_RELEASE);
}

/* Makes the first bytes of meta, or of data, present. */
static enum snow_status populate_first(struct slots *slots, bool of_meta, uint64_t step)
{
    uint64_t size = of_meta ? slots_meta_size(slots) : slots->data.size;
    uint64_t done;

    return slots_populate(slots, of_meta, 0, step == 0 || step > size ? size : step, &done);
}

/* A segment without anything in it. */
static void make_new(struct env *env, struct slots *slots, uint64_t data_size)
{
    struct slots_header *header = slots->header;

    memset(header, 0, sizeof(*header));
    header->version = SLOTS_VERSION;
    header->slot_count = slots->count;
    header->incarnation = env_random(env) | 1;
    header->node_incarnation = env_random(env) | 1;
    header->data_size = data_size;
    header->magic = SLOTS_MAGIC;
    header->crc = header_crc(header);
}

static bool in_data(const struct slots *slots, const struct slot *slot)
{
    uint64_t size = slots->ready;
    uint64_t tail = slots_tail(slot);

    return slot->offset <= size && slot->length <= size - slot->offset &&
           tail <= size - slot->offset - slot->length;
}

static bool is_whole(const struct slots *slots, const struct slot *slot)
{
    return slot->state == WIRE_SLOT_WRITTEN && slot->gen != 0 && slot->slot_crc == slot_crc(slot) &&
           slot->key_length >= 1 && slot->key_length <= LIMIT_KEY_SIZE &&
           slot->extra_length <= LIMIT_EXTRA_SIZE && in_data(slots, slot);
}

/* What an earlier process left: whole slots stay, all others are FREE. */
static void find_again(struct slots *slots)
{
    for (uint32_t i = 0; i < slots->slots_ready; i++) {
        struct slot *slot = &slots->table[i];

        if (is_whole(slots, slot))
            continue;
        if (slot->state == WIRE_SLOT_WRITTEN && slot->gen != 0)
            slots->dropped++;
        slot->gen = 0;
        slot->state = WIRE_SLOT_FREE;
    }
}

static enum snow_status check_header(const struct slots *slots, const struct slots_request *request,
                                     const char **reason)
{
    const struct slots_header *header = slots->header;

    if (header->magic != SLOTS_MAGIC || header->crc != header_crc(header))
        *reason = "the file is no segment, or its header is damaged";
    else if (header->version != SLOTS_VERSION && header->version != SLOTS_VERSION_WHOLE)
        *reason = "the segment was made by another version";
    else if (header->slot_count != slots->count || header->data_size != request->data_size)
        *reason = "the segment exists with another size";
    else if (header->version != SLOTS_VERSION_WHOLE &&
             (header->slots_ready > header->slot_count || header->ready > header->data_size ||
              header->ready % SLOTS_READY_UNIT != 0))
        *reason = "the segment's header is damaged: more is ready than there is";
    else
        return SNOW_OK;
    return SNOW_INVALID;
}

/* Why the segment's memory could not be opened. */
static const char *open_reason(enum snow_status status)
{
    switch (status) {
    case SNOW_IN_USE:
        return "another process holds the segment's files";
    case SNOW_NO_SPACE:
        return "the host has not that much memory";
    case SNOW_INVALID:
        return "the segment's files can not be made, or exist with another size";
    default:
        return "out of memory or descriptors";
    }
}

/* What was ready under an earlier process is so again; its slots are read, so their records are
 * made present before. */
static enum snow_status find_ready(struct slots *slots, uint64_t present)
{
    const struct slots_header *header = slots->header;
    bool whole = header->version == SLOTS_VERSION_WHOLE;
    uint64_t done;

    slots->slots_ready = whole ? slots->count : header->slots_ready;
    slots->ready = whole ? header->data_size : header->ready;
    uint64_t meta_ready = SEGMENT_HEADER_BYTES + slots->slots_ready * sizeof(struct slot);

    if (meta_ready <= present)
        return SNOW_OK;
    slots->meta_present = meta_ready;
    return slots_populate(slots, true, present, meta_ready - present, &done);
}

static enum snow_status find_or_make(struct slots *slots, const struct slots_request *request,
                                     const char **reason)
{
    uint64_t step = request->step == 0 ? UINT64_MAX : request->step;
    uint64_t meta_size = slots_meta_size(slots);
    enum snow_status status = SNOW_OK;

    slots->header = (void *)slots->meta.at;
    slots->table = (void *)(slots->meta.at + SEGMENT_HEADER_BYTES);
    memset(slots->meta.at + SEGMENT_KEY_OFFSET, 0, sizeof(uint32_t)); /* no grant is valid yet */
    if (slots->meta.existed && slots->data.existed && slots->header->magic != 0) {
        status = check_header(slots, request, reason);
        if (status == SNOW_OK)
            status = find_ready(slots, step < meta_size ? step : meta_size);
        if (status != SNOW_OK)
            return status;
        find_again(slots);
    } else {
        make_new(slots->env, slots, request->data_size);
    }
    slots_take_present(slots, true, step < meta_size ? step : meta_size);
    slots_take_present(slots, false, step < request->data_size ? step : request->data_size);
    return SNOW_OK;
}

enum snow_status slots_open(struct env *env, const struct slots_request *request,
                            struct slots *slots, const char **reason)
{
    uint64_t count = request->data_size / request->slot_bytes;
    char name[32];
    enum snow_status status;

    *reason = "memory and slot do not fit: a segment has 1 to 2^31 slots";
    memset(slots, 0, sizeof(*slots));
    if (count == 0 || count > UINT32_MAX / 2)
        return SNOW_INVALID;
    slots->env = env;
    slots->count = (uint32_t)count;
    snprintf(name, sizeof(name), "meta-%u", request->segment);
    status = env_memory_open(env, request->dir, name,
                             SEGMENT_HEADER_BYTES + count * sizeof(struct slot), &slots->meta);
    *reason = open_reason(status);
    if (status != SNOW_OK)
        return status;
    snprintf(name, sizeof(name), "data-%u", request->segment);
    status = env_memory_open(env, request->dir, name, request->data_size, &slots->data);
    *reason = open_reason(status);
    if (status != SNOW_OK)
        goto close_meta;
    *reason = "the host has not that much memory";
    status = populate_first(slots, true, request->step);
    if (status == SNOW_OK)
        status = populate_first(slots, false, request->step);
    if (status != SNOW_OK)
        goto close_data;
    status = find_or_make(slots, request, reason);
    if (status == SNOW_OK)
        return SNOW_OK;

close_data:
    env_memory_close(env, &slots->data);
close_meta:
    env_memory_close(env, &slots->meta);
    return status;
}

void slots_close_memory(struct slots *slots)
{
    free(slots->crcs);
    env_memory_close(slots->env, &slots->data);
    env_memory_close(slots->env, &slots->meta);
}

void slots_term_set(struct slots *slots, uint32_t term)
{
    if (term <= slots->header->term)
        return;
    slots->header->term = term;
    slots->header->crc = header_crc(slots->header);
}

/* ---- transitions ---- */

static void store_state(struct slot *slot, enum wire_slot_state state)
{
    __atomic_store_n(&slot->state, (uint8_t)state, __ATOMIC_RELEASE);
}

/* Where the key and the extra block of a slot of part 0 lie. */
static uint8_t *names_of(const struct slots *slots, struct slot *slot)
{
    return slots_tail(slot) == 0 ? slot->inline_bytes
                                 : slots->data.at + slot->offset + slot->length;
}

enum snow_status slots_begin(struct slots *slots, const struct wire_write_item *item)
{
    struct slot *slot = &slots->table[item->slot];

    if (item->gen <= slot->floor_gen)
        return SNOW_GONE;
    if (slot->state != WIRE_SLOT_FREE)
        return SNOW_STALE;
    slot->gen = item->gen;
    slot->offset = item->offset;
    slot->length = item->length;
    slot->object_size = item->object_size;
    slot->object_offset = item->object_offset;
    slot->data_crc = 0;
    slot->key_length = (uint16_t)item->key.size;
    slot->extra_length = (uint16_t)item->extra.size;
    slot->part = item->part;
    slot->parts = item->parts;
    slot->replica = item->replica;
    slot->flags = item->flags;
    slot->tenant = item->tenant;
    slot->version_low = 0;
    slot->version_high = 0;
    slot->unchecked = 0;
    if (!in_data(slots, slot))
        return SNOW_INVALID;
    struct hash128 hash = hash_key(item->tenant, item->key);

    slot->key_hash_low = hash.low;
    slot->key_hash_high = hash.high;
    memset(slot->inline_bytes, 0, sizeof(slot->inline_bytes));
    if (item->part == 0) {
        uint8_t *names = names_of(slots, slot);

        memcpy(names, item->key.at, item->key.size);
        if (item->extra.size > 0)
            memcpy(names + item->key.size, item->extra.at, item->extra.size);
    }
    store_state(slot, WIRE_SLOT_WRITING);
    return SNOW_OK;
}

void slots_version_set(struct slots *slots, uint32_t index, uint64_t version)
{
    struct slot *slot = &slots->table[index];

    ASSERT(slot->state == WIRE_SLOT_WRITING && version <= SLOT_VERSION_MAX);
    slot->version_low = (uint32_t)version;
    slot->version_high = (uint32_t)(version >> 32) & 0x7fffffffu;
}

void slots_seal(struct slots *slots, uint32_t index, uint32_t data_crc, bool checked)
{
    struct slot *slot = &slots->table[index];

    ASSERT(slot->state == WIRE_SLOT_WRITING);
    slot->data_crc = checked ? data_crc : 0;
    slot->unchecked = !checked;
    slot->slot_crc = slot_crc(slot);
    store_state(slot, WIRE_SLOT_WRITTEN);
}

uint64_t slots_close(struct slots *slots, uint32_t index, uint64_t gen)
{
    struct slot *slot = &slots->table[index];
    uint64_t held = slot->gen;

    ASSERT(slot->state == WIRE_SLOT_WRITING || slot->state == WIRE_SLOT_WRITTEN);
    __atomic_store_n(&slot->gen, 0, __ATOMIC_RELEASE); /* from now on no checksum holds */
    slots_floor_raise(slots, index, gen);
    store_state(slot, WIRE_SLOT_CLOSED);
    return held;
}

/* A slot that is written is never edited (T3), so what was computed is kept beside. */
uint32_t slots_data_crc(struct slots *slots, uint32_t index)
{
    const struct slot *slot = &slots->table[index];
    struct slots_crc *kept;

    if (slot->unchecked == 0)
        return slot->data_crc;
    if (slots->crcs == NULL)
        slots->crcs = calloc(CRCS_KEPT, sizeof(*slots->crcs));
    kept = slots->crcs == NULL ? NULL : &slots->crcs[index % CRCS_KEPT];
    if (kept != NULL && kept->slot == index && kept->gen == slot->gen)
        return kept->crc;
    uint32_t crc = crc32c(0, slots->data.at + slot->offset, (size_t)slot->length);

    if (kept != NULL)
        *kept = (struct slots_crc){.gen = slot->gen, .slot = index, .crc = crc};
    return crc;
}

enum snow_status slots_verify(const struct slots *slots, uint32_t index, uint64_t gen)
{
    const struct slot *slot = &slots->table[index];

    if (slot->state != WIRE_SLOT_WRITTEN || slot->gen != gen)
        return SNOW_STALE;
    if (slot->unchecked != 0 || slot->length > LIMIT_VERIFY_BYTES)
        return SNOW_UNKNOWN;
    return crc32c(0, slots->data.at + slot->offset, (size_t)slot->length) == slot->data_crc
               ? SNOW_OK
               : SNOW_CORRUPT;
}

bool slots_quarantine(struct slots *slots, uint32_t index, uint64_t offset, uint64_t length)
{
    struct slot *slot = &slots->table[index];

    if (slot->state != WIRE_SLOT_FREE || offset > slots->header->data_size ||
        length > slots->header->data_size - offset)
        return false;
    slot->gen = 0;
    slot->offset = offset;
    slot->length = length;
    slot->key_length = 0;
    slot->extra_length = 0;
    store_state(slot, WIRE_SLOT_CLOSED);
    return true;
}

void slots_floor_raise(struct slots *slots, uint32_t index, uint64_t gen)
{
    if (gen > slots->table[index].floor_gen)
        __atomic_store_n(&slots->table[index].floor_gen, gen, __ATOMIC_RELEASE);
}

void slots_free(struct slots *slots, uint32_t index)
{
    ASSERT(slots->table[index].state == WIRE_SLOT_CLOSED);
    store_state(&slots->table[index], WIRE_SLOT_FREE);
}

struct bytes slots_key(const struct slots *slots, uint32_t index)
{
    struct slot *slot = &slots->table[index];

    if (slot->part != 0)
        return bytes_of(NULL, 0);
    return bytes_of(names_of(slots, slot), slot->key_length);
}

struct bytes slots_extra(const struct slots *slots, uint32_t index)
{
    struct slot *slot = &slots->table[index];

    if (slot->part != 0 || slot->extra_length == 0)
        return bytes_of(NULL, 0);
    return bytes_of(names_of(slots, slot) + slot->key_length, slot->extra_length);
}

/* ---- check ---- */

static int by_offset(const void *a, const void *b)
{
    const struct slot *left = *(const struct slot *const *)a;
    const struct slot *right = *(const struct slot *const *)b;

    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static const char *check_slot(const struct slots *slots, const struct slot *slot)
{
    if (!in_data(slots, slot))
        return "a slot's extent lies outside the segment";
    if (slot->state != WIRE_SLOT_WRITTEN)
        return NULL;
    if (slot->slot_crc != slot_crc(slot))
        return "the checksum of a WRITTEN slot does not hold";
    return slot->gen > slot->floor_gen ? NULL : "a WRITTEN slot lies at or below its floor";
}

const char *slots_check(const struct slots *slots)
{
    const struct slot **held = calloc(slots->slots_ready + 1, sizeof(*held));
    const char *wrong = NULL;
    uint64_t end = 0;
    uint32_t count = 0;

    ASSERT(held != NULL);
    for (uint32_t i = 0; i < slots->slots_ready && wrong == NULL; i++) {
        const struct slot *slot = &slots->table[i];

        if (slot->state == WIRE_SLOT_FREE)
            continue;
        wrong = check_slot(slots, slot);
        held[count++] = slot;
    }
    qsort(held, count, sizeof(*held), by_offset);
    for (uint32_t i = 0; i < count && wrong == NULL; i++) {
        if (held[i]->offset < end)
            wrong = "two occupied slots overlap";
        end = held[i]->offset + held[i]->length + slots_tail(held[i]);
    }
    free(held);
    return wrong;
}
