/* Patterns: PCRE2 with limits on pattern size, nesting, backtracking and memory, so that
 * no pattern can stall the master.  Pure.  A pattern matches anywhere in a key unless anchored, or
 * compiled to match it whole.  Perl's syntax on bytes; groups without a name do not capture, and
 * nothing can refer back to one. */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

#include "base/bytes.h"
#include "base/status.h"

struct pattern;

/* INVALID: *reason tells what is wrong and where (static or owned by the thread, valid until the
 * next call); LIMIT: too long; NO_MEMORY (both with a reason). */
MUST_CHECK enum snow_status pattern_compile(struct bytes text, struct pattern **pattern,
                                            const char **reason);
/* The same, for a pattern that has to match its whole subject, of which a dot matches any byte. */
MUST_CHECK enum snow_status pattern_compile_whole(struct bytes text, struct pattern **pattern,
                                                  const char **reason);
/* OK: matches.  NOT_FOUND: does not.  LIMIT: gave up (backtracking).  One thread at a time. */
MUST_CHECK enum snow_status pattern_match(struct pattern *pattern, struct bytes subject);
void pattern_destroy(struct pattern *pattern);

/* ---- fields: groups that have a name ---- */

#define PATTERN_FIELDS_MAX 16u /* of a pattern that is compiled whole */

uint32_t pattern_field_count(const struct pattern *pattern);
/* "name" of (?<name>...); in the order of names. */
const char *pattern_field_name(const struct pattern *pattern, uint32_t index);
/* What it matched in the last match, which was OK and of this subject; at NULL: nothing, it took no
 * part. */
struct bytes pattern_field(const struct pattern *pattern, struct bytes subject, uint32_t index);

#endif
