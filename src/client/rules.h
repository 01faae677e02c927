/* Key rules: which group an object is a member of, by its key alone.
 *
 * Problem.  Engines whose keys say layer, K or V and rank of a block name no groups.
 * Idea.     A pattern takes a key apart, within the limits of base/pattern.h.  Its fields tell what
 *           differs between members; what is left names the group.
 * Invariants.
 *   R1  A key that a rule does not match, or whose id would be none, is in no group.
 *   R2  Of an id a rule of the table makes nothing, or the same id.  So chains may name blocks by
 *       ids or by keys of members; who writes a pattern of his own sees to it himself.
 * Threads.  The loop's. */
#ifndef CLIENT_RULES_H
#define CLIENT_RULES_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/status.h"
#include "snowskin/groups.h"

struct client_rules;

/* from == NULL, or of no rule: *rules is NULL.  INVALID: *reason (static, or lives until the next
 * call of the thread) says what is wrong. */
MUST_CHECK enum snow_status client_rules_create(const struct snow_key_rules *from,
                                                struct client_rules **rules, const char **reason);
void client_rules_destroy(struct client_rules *rules); /* NULL is allowed */

/* The id, in the arena or in the key itself; size 0: the key is in no group, or there is no
 * memory.  *index: of the member, or SNOW_GROUP_INDEX_ANY; may be NULL. */
struct bytes client_rules_group(const struct client_rules *rules, struct bytes key,
                                struct arena *arena, uint32_t *index);
/* For puts: group.size 0: none. */
struct snow_member client_rules_member(const struct client_rules *rules, const struct snow_key *key,
                                       struct arena *arena);

#endif
