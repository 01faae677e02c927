/* History: what clients did and saw, and whether the promises allow it.
 *
 * Problem.  Many clients put, replace, get and remove the same keys while everything fails; after
 *           each answer somebody must know whether it could be right.
 * Idea.     Every write attempt has a number; its bytes are made from it.  An attempt knows when it
 *           began, when it was answered, and since when it may not be seen any more.  A get that
 *           began at T may return any attempt of its key that began before the get ended and that
 *           had not been ruled out before T; or nothing (eviction).  An attempt is ruled out by a
 *           remove that was answered OK or NOT_FOUND and began after the attempt was answered, and
 *           by a replacing put that did.  An attempt without an answer (its client died, or
 *           UNREACHABLE) may appear at any time: it is never ruled out.
 *           An end that was set (expires_after) rules it out from then on, unless a hint that may
 *           have changed it began meanwhile.
 * Checks.   bytes: a get returns the whole bytes of an attempt of that key (P1), and never of one
 *           that was answered as not stored, before or after the get.  removed: never one that was
 *           ruled out.  expired: never one after its end.
 * Threads.  One. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_KEYS 256u
#define HISTORY_GROUP_KEYS 64u /* behind them: members of groups */

struct history;

struct history *history_create(void);
void history_destroy(struct history *history);

/* A write attempt begins; its number.  size: of its bytes. */
uint64_t history_put_begin(struct history *history, uint32_t key, uint64_t size, bool replace,
                           uint64_t now_ns);
/* Its bytes. */
void history_fill(uint64_t attempt, uint8_t *to, size_t size);
/* It was answered: stored; not stored and never will be (EXISTS, NO_SPACE, ...); or unknown. */
enum history_end {
    HISTORY_STORED,
    HISTORY_STORED_UNCERTAIN, /* but what it replaced may come back: a holder was out of reach */
    HISTORY_NOT_STORED,
    HISTORY_UNKNOWN
};
/* NULL: it may be; else what is wrong.  expires_ns: it was put to last so long; 0: for ever. */
const char *history_put_end(struct history *history, uint64_t attempt, enum history_end end,
                            uint64_t expires_ns, uint64_t now_ns);

/* A hint of the key that may change its value's end begins; what to end it with. */
uint64_t history_hint_begin(struct history *history, uint32_t key, uint64_t now_ns);
/* It was answered.  expires_ns: OK, and it set that end from then on; 0: another one, or it was not
 * answered OK. */
void history_hint_end(struct history *history, uint32_t key, uint64_t hint, uint64_t began_ns,
                      uint64_t expires_ns, uint64_t now_ns);

/* A remove that began at began_ns is answered OK or NOT_FOUND now: what was answered before it
 * began is gone. */
void history_removed(struct history *history, uint32_t key, uint64_t began_ns, uint64_t now_ns);

/* A get that began at began_ns returned these bytes.  NULL: it may; else what is wrong. */
const char *history_got(struct history *history, uint32_t key, uint64_t began_ns, const uint8_t *at,
                        size_t size);

#endif
