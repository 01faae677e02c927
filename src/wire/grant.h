/* Grants and locations: what a master lets a client do at a node, sealed under the node's key.
 *
 * Problem.  The node gets no message from the master for a put or a get, yet must refuse what was
 *           not granted.
 * Idea.     SipHash of all that the node acts on, under a key that only that master and that node
 *           know.  A new term or a new process of the node brings a new key: older ones answer
 *           STALE.
 * Invariants.
 *   G1  Every field of a request that the node acts on is under the hash, but for which piece of
 *       the extent is meant; the key of the object by its 128-bit hash.
 *   G2  A grant to write never serves to read, nor a location to write. */
#ifndef WIRE_GRANT_H
#define WIRE_GRANT_H

#include "base/hash.h"

#include <stdint.h>

/* What a write grant covers; a location covers the first five. */
struct grant_fields {
    uint32_t segment;
    uint32_t slot;
    uint64_t gen;
    uint64_t offset;
    uint64_t length;
    uint64_t object_size;
    uint64_t object_offset;
    uint16_t part;
    uint16_t parts;
    uint8_t replica;
    uint16_t flags; /* WIRE_SLOT_* */
    uint32_t tenant;
    struct hash128 key;   /* hash_key of tenant and key */
    struct hash128 extra; /* grant_extra_hash */
};

/* Of the extra block that a slot of part 0 stores; zeros when there is none. */
struct hash128 grant_extra_hash(uint32_t tenant, struct bytes extra);

uint64_t grant_write_mac(const struct hash128 *secret, const struct grant_fields *fields);
uint64_t grant_read_mac(const struct hash128 *secret, const struct grant_fields *fields);

/* A number by which everybody can tell one key from another; never 0. */
uint32_t grant_key_id(const struct hash128 *secret);

#endif
