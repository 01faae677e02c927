/* How a segment's `meta` lies in memory: what a node keeps and what its peers within the host read.
 *
 *   page 0    the node's header (node/slots.h); at SEGMENT_KEY_OFFSET the id of the key that grants
 *             are valid under now
 *   then      slots, 192 bytes each
 *
 * Who reads a slot from another process looks at state and gen before and after it reads the bytes
 * (acquire loads, a fence in between): the node stores gen 0 before anything else of a closing. */
#ifndef WIRE_SEGMENT_H
#define WIRE_SEGMENT_H

#include "wire/terms.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_HEADER_BYTES 4096u
#define SEGMENT_KEY_OFFSET 1024u
#define SLOT_INLINE WIRE_KEY_INLINE

/* As it lies in memory.  Little-endian machines only. */
struct slot {
    uint64_t gen;       /* 0: nothing */
    uint64_t floor_gen; /* no write at or below it ever begins here */
    uint64_t offset;    /* bytes, of the extent in data */
    uint64_t length;    /* bytes of the object in it */
    uint64_t object_size;
    uint64_t object_offset;
    uint64_t key_hash_low;
    uint64_t key_hash_high;
    uint32_t data_crc; /* crc32c of the length bytes */
    uint32_t slot_crc; /* crc32c of the slot as WRITTEN, without floor_gen and this */
    uint16_t key_length;
    uint16_t extra_length; /* bytes behind the key; part 0 only */
    uint16_t part;
    uint16_t parts;
    uint8_t replica;
    uint8_t state;  /* enum wire_slot_state */
    uint16_t flags; /* WIRE_SLOT_* */
    uint32_t tenant;
    uint32_t version_low;       /* of a copy: the generation of its object, in two parts; */
    uint32_t unchecked : 1;     /* 1: data_crc was not computed by the writer */
    uint32_t version_high : 31; /* 0: the slot's gen is the object's */
    uint8_t inline_bytes[SLOT_INLINE];
};
_Static_assert(sizeof(struct slot) == 192, "the slot's layout is on disk");

#define SLOT_VERSION_MAX (UINT64_MAX >> 1) /* a slot has room for 63 bits of it */

/* A copy is written under a gen of its own; it is of the object of this generation. */
static inline uint64_t slot_version(const struct slot *slot)
{
    uint64_t version = (uint64_t)slot->version_high << 32 | slot->version_low;

    return version == 0 ? slot->gen : version;
}

/* The slot holds this version, whole, and where it was said to be. */
static inline bool slot_holds(const struct slot *slot, uint64_t gen, uint64_t offset,
                              uint64_t length)
{
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == WIRE_SLOT_WRITTEN &&
           __atomic_load_n(&slot->gen, __ATOMIC_ACQUIRE) == gen && slot->offset == offset &&
           slot->length == length;
}

/* The version may still be written there by who has the grant. */
static inline bool slot_awaits(const struct slot *slot, uint64_t gen)
{
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == WIRE_SLOT_FREE &&
           __atomic_load_n(&slot->floor_gen, __ATOMIC_ACQUIRE) < gen;
}

#endif
