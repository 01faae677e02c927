/* Removal patterns: PCRE2 with limits on pattern size, nesting, backtracking and memory, so that
 * no pattern can stall the master.  Pure.  A pattern matches anywhere in a key unless anchored.
 * Perl's syntax on bytes; groups do not capture, and nothing can refer back to one. */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

#include "base/bytes.h"
#include "base/status.h"

struct pattern;

/* INVALID: *reason tells what is wrong and where (static or owned by the thread, valid until the
 * next call); LIMIT: too long; NO_MEMORY (both with a reason). */
MUST_CHECK enum snow_status pattern_compile(struct bytes text, struct pattern **pattern,
                                            const char **reason);
/* OK: matches.  NOT_FOUND: does not.  LIMIT: gave up (backtracking).  One thread at a time. */
MUST_CHECK enum snow_status pattern_match(struct pattern *pattern, struct bytes subject);
void pattern_destroy(struct pattern *pattern);

#endif
