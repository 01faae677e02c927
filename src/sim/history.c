#include "sim/history.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

struct attempt {
    uint64_t number;
    uint64_t size;
    uint64_t began_ns;
    uint64_t ended_ns;   /* when it was answered; NEVER: not yet, or nobody knows */
    uint64_t ruled_ns;   /* since then it may not be seen; NEVER */
    uint64_t expires_ns; /* its end, which it may not be seen after; NEVER */
    uint64_t hints;      /* hints of the key that had begun with it; NEVER: one was under way */
    bool replace;
    bool stored; /* it may be seen */
    bool seen;   /* a get has returned it */
};

#define KEY_BITS 9u
#define KEY_NUMBERS (1u << KEY_BITS)

_Static_assert(HISTORY_KEYS + HISTORY_GROUP_KEYS <= KEY_NUMBERS, "an attempt tells its key");

struct key_history {
    struct attempt *attempts;
    uint32_t count;
    uint32_t room;
    uint32_t hints_open; /* under way: any of them may change an end at any time */
    uint64_t hints;      /* begun so far */
};

struct history {
    struct key_history keys[HISTORY_KEYS + HISTORY_GROUP_KEYS];
    uint64_t next; /* number of the next attempt: key in the low bits */
};

struct history *history_create(void)
{
    return calloc(1, sizeof(struct history));
}

void history_destroy(struct history *history)
{
    for (uint32_t i = 0; i < HISTORY_KEYS + HISTORY_GROUP_KEYS; i++)
        free(history->keys[i].attempts);
    free(history);
}

/* As long as it stays the same, no hint changes anything. */
static uint64_t hints_now(const struct key_history *of_key)
{
    return of_key->hints_open > 0 ? NEVER : of_key->hints;
}

uint64_t history_put_begin(struct history *history, uint32_t key, uint64_t size, bool replace,
                           uint64_t now_ns)
{
    struct key_history *of_key = &history->keys[key];
    uint64_t number = ++history->next << KEY_BITS | key;

    if (of_key->count == of_key->room) {
        of_key->room = of_key->room == 0 ? 16 : of_key->room * 2;
        of_key->attempts = realloc(of_key->attempts, of_key->room * sizeof(*of_key->attempts));
        ASSERT(of_key->attempts != NULL);
    }
    of_key->attempts[of_key->count++] = (struct attempt){.number = number,
                                                         .size = size,
                                                         .began_ns = now_ns,
                                                         .ended_ns = NEVER,
                                                         .ruled_ns = NEVER,
                                                         .expires_ns = NEVER,
                                                         .hints = hints_now(of_key),
                                                         .replace = replace,
                                                         .stored = true};
    return number;
}

void history_fill(uint64_t attempt, uint8_t *to, size_t size)
{
    struct rng rng;

    rng_init(&rng, attempt);
    while (size > 0) {
        uint64_t word = rng_next(&rng);
        size_t part = size < sizeof(word) ? size : sizeof(word);

        memcpy(to, &word, part);
        to += part;
        size -= part;
    }
}

static bool is_bytes_of(const struct attempt *attempt, const uint8_t *at, size_t size)
{
    struct rng rng;

    if (attempt->size != size)
        return false;
    rng_init(&rng, attempt->number);
    while (size > 0) {
        uint64_t word = rng_next(&rng);
        size_t part = size < sizeof(word) ? size : sizeof(word);

        if (memcmp(at, &word, part) != 0)
            return false;
        at += part;
        size -= part;
    }
    return true;
}

/* What was answered before began_ns may not be seen after now_ns. */
static void rule_out(struct key_history *of_key, uint64_t began_ns, uint64_t now_ns,
                     const struct attempt *but)
{
    for (uint32_t i = 0; i < of_key->count; i++) {
        struct attempt *attempt = &of_key->attempts[i];

        if (attempt != but && attempt->ended_ns < began_ns && attempt->ruled_ns > now_ns)
            attempt->ruled_ns = now_ns;
    }
}

const char *history_put_end(struct history *history, uint64_t number, enum history_end end,
                            uint64_t expires_ns, uint64_t now_ns)
{
    struct key_history *of_key = &history->keys[number & (KEY_NUMBERS - 1)];
    struct attempt *attempt = NULL;

    for (uint32_t i = of_key->count; i-- > 0 && attempt == NULL;) {
        if (of_key->attempts[i].number == number)
            attempt = &of_key->attempts[i];
    }
    ASSERT(attempt != NULL);
    if (end == HISTORY_UNKNOWN)
        return NULL;
    attempt->ended_ns = now_ns;
    attempt->stored = end != HISTORY_NOT_STORED;
    if (expires_ns > 0 && attempt->hints != NEVER && attempt->hints == hints_now(of_key))
        attempt->expires_ns = now_ns + expires_ns;
    if (end == HISTORY_STORED && attempt->replace)
        rule_out(of_key, attempt->began_ns, now_ns, attempt);
    return !attempt->stored && attempt->seen
               ? "bytes: a put says that it was not stored, but its value was read"
               : NULL;
}

uint64_t history_hint_begin(struct history *history, uint32_t key, uint64_t now_ns)
{
    struct key_history *of_key = &history->keys[key];

    for (uint32_t i = 0; i < of_key->count; i++) {
        if (of_key->attempts[i].expires_ns >= now_ns)
            of_key->attempts[i].expires_ns = NEVER;
    }
    of_key->hints++;
    of_key->hints_open++;
    return of_key->hints_open > 1 ? NEVER : of_key->hints;
}

void history_hint_end(struct history *history, uint32_t key, uint64_t hint, uint64_t began_ns,
                      uint64_t expires_ns, uint64_t now_ns)
{
    struct key_history *of_key = &history->keys[key];

    of_key->hints_open--;
    if (expires_ns == 0 || hint == NEVER || hint != hints_now(of_key))
        return;
    for (uint32_t i = 0; i < of_key->count; i++) {
        if (of_key->attempts[i].ended_ns < began_ns && of_key->attempts[i].expires_ns == NEVER)
            of_key->attempts[i].expires_ns = now_ns + expires_ns;
    }
}

void history_removed(struct history *history, uint32_t key, uint64_t began_ns, uint64_t now_ns)
{
    rule_out(&history->keys[key], began_ns, now_ns, NULL);
}

const char *history_got(struct history *history, uint32_t key, uint64_t began_ns, const uint8_t *at,
                        size_t size)
{
    struct key_history *of_key = &history->keys[key];
    struct attempt *may_be = NULL;
    uint32_t matches = 0;
    bool ruled_out = false;
    bool expired = false;
    bool not_stored = false;

    for (uint32_t i = of_key->count; i-- > 0;) {
        struct attempt *attempt = &of_key->attempts[i];

        if (!is_bytes_of(attempt, at, size))
            continue;
        matches++;
        if (attempt->ruled_ns < began_ns)
            ruled_out = true;
        else if (attempt->expires_ns < began_ns)
            expired = true;
        else if (!attempt->stored)
            not_stored = true;
        else
            may_be = attempt;
    }
    if (may_be != NULL) {
        may_be->seen = may_be->seen || matches == 1; /* short values may be alike */
        return NULL;
    }
    if (ruled_out)
        return "removed: a value came back that had been removed or replaced";
    if (expired)
        return "expired: a value was read after its end";
    if (not_stored)
        return "bytes: a value was read whose put had said that it was not stored";
    return "bytes: what was read is no value of its key";
}
