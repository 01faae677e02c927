/* One process of the stress on groups: threads that put a member each of the same groups, over and
 * over, and threads that read groups whole.
 *
 *   group_stress MASTER SIZE FIRST WRITERS READERS SECONDS
 *
 * SIZE members a group; this process puts those from FIRST on, a thread each.  The processes
 * together put all of them, in a pool that holds a fraction, so that groups are evicted while
 * others form.  Nothing is removed and no node dies: a group that is DEGRADED, or that is read
 * whole and is not, is one of which a part was seen.  A call that is not done by its deadline hangs
 * somewhere.
 * Prints counts as JSON. */
#include "snowskin/groups.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMBER_BYTES 1024u
#define GROUPS 256u /* ids, used again and again */
#define MEMBERS_MAX 256u
#define THREADS_MAX 256u
#define CALL_MS 20000u
#define FORM_MS 2000u /* of groups whose writers have gone on */

struct stress {
    struct snow_client *client;
    uint32_t size;
    uint64_t end_ns;
    _Atomic uint64_t puts;
    _Atomic uint64_t gave_way; /* puts of a group that was closed for others */
    _Atomic uint64_t reads;    /* of whole groups */
    _Atomic uint64_t absent;   /* reads of groups that are not whole now, and said so */
    _Atomic uint64_t partial;  /* groups of which a part was seen */
    _Atomic uint64_t late;     /* calls that hang */
    _Atomic uint64_t failed;   /* in another way */
    _Atomic uint64_t newest;   /* round of the fastest writer */
};

struct thread {
    struct stress *stress;
    pthread_t id;
    uint32_t rank;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fill(uint8_t *bytes, uint32_t group, uint32_t rank)
{
    for (uint32_t i = 0; i < MEMBER_BYTES; i++)
        bytes[i] = (uint8_t)(group * 31 + rank * 7 + i);
}

static void note_failure(struct stress *stress, enum snow_status status, const char *what)
{
    if (status == SNOW_TIMEOUT)
        atomic_fetch_add(&stress->late, 1);
    else if (atomic_fetch_add(&stress->failed, 1) == 0)
        fprintf(stderr, "%s: %s %s\n", what, snow_status_name(status), snow_reason());
}

static void *write_members(void *argument)
{
    struct thread *thread = argument;
    struct stress *stress = thread->stress;
    struct snow_call call = {.deadline_ms = CALL_MS};
    uint8_t bytes[MEMBER_BYTES];

    for (uint64_t round = 0; now_ns() < stress->end_ns; round++) {
        uint32_t group = (uint32_t)(round % GROUPS);
        char key[64];
        char id[32];
        struct snow_member member = {.size = stress->size,
                                     .index = thread->rank,
                                     .form_ttl_ms = FORM_MS,
                                     .group = {.at = id}};
        struct snow_put put = {.key = {.at = key},
                               .from = bytes,
                               .size = MEMBER_BYTES,
                               .depth = group,
                               .member = &member};

        member.group.size = (size_t)snprintf(id, sizeof(id), "group-%u", group);
        put.key.size = (size_t)snprintf(key, sizeof(key), "%s/%u", id, thread->rank);
        fill(bytes, group, thread->rank);
        (void)!snow_put(stress->client, &put, 1, &call);
        if (snow_status_verdict(put.status) == SNOW_DONE)
            atomic_fetch_add(&stress->puts, 1);
        else if (put.status == SNOW_GONE || put.status == SNOW_BUSY)
            atomic_fetch_add(&stress->gave_way, 1);
        else
            note_failure(stress, put.status, key);
        if (round > atomic_load(&stress->newest))
            atomic_store(&stress->newest, round);
    }
    return NULL;
}

static void check_state(struct stress *stress, const struct snow_key *id)
{
    struct snow_group_info info = {.id = *id};
    enum snow_status status = snow_group_stat(stress->client, &info, 1, NULL);
    bool whole = info.present == info.size && info.missing_count == 0;

    if (status != SNOW_OK && status != SNOW_NOT_FOUND)
        note_failure(stress, status, "stat");
    if (status == SNOW_OK &&
        (info.state == SNOW_GROUP_DEGRADED || (info.state == SNOW_GROUP_COMPLETE && !whole)))
        atomic_fetch_add(&stress->partial, 1);
}

static bool is_right(const struct stress *stress, const struct snow_get *items, uint32_t group)
{
    uint8_t bytes[MEMBER_BYTES];

    for (uint32_t i = 0; i < stress->size; i++) {
        fill(bytes, group, i);
        if (items[i].size != MEMBER_BYTES || memcmp(items[i].to, bytes, MEMBER_BYTES) != 0)
            return false;
    }
    return true;
}

static void *read_groups(void *argument)
{
    struct thread *thread = argument;
    struct stress *stress = thread->stress;
    struct snow_call call = {.deadline_ms = CALL_MS};
    struct snow_get *items = calloc(stress->size, sizeof(*items));
    uint8_t *bytes = calloc(stress->size, MEMBER_BYTES);

    for (uint64_t i = thread->rank; now_ns() < stress->end_ns && items != NULL && bytes != NULL;
         i++) {
        /* Those that were put not long ago, and those that are being put. */
        uint32_t group = (uint32_t)((atomic_load(&stress->newest) + GROUPS - i * 7 % 24) % GROUPS);
        char id[32];
        struct snow_group_read read = {.id = {.at = id}};

        read.id.size = (size_t)snprintf(id, sizeof(id), "group-%u", group);
        for (uint32_t m = 0; m < stress->size; m++)
            items[m] = (struct snow_get){.to = bytes + m * MEMBER_BYTES, .room = MEMBER_BYTES};
        (void)!snow_group_get(stress->client, &read, items, stress->size, &call);
        if (read.status == SNOW_OK && !is_right(stress, items, group))
            atomic_fetch_add(&stress->partial, 1);
        else if (read.status == SNOW_OK)
            atomic_fetch_add(&stress->reads, 1);
        else if (read.status == SNOW_NOT_FOUND || read.status == SNOW_NOT_READY ||
                 read.status == SNOW_GROUP_BROKEN)
            atomic_fetch_add(&stress->absent, 1);
        else
            note_failure(stress, read.status, id);
        check_state(stress, &read.id);
    }
    free(items);
    free(bytes);
    return NULL;
}

static uint32_t number(const char *text, uint32_t most)
{
    unsigned long value = strtoul(text, NULL, 10);

    return value > most ? most : (uint32_t)value;
}

int main(int argc, char **argv)
{
    static struct stress stress;
    static struct thread threads[THREADS_MAX];
    struct snow_options options;
    const char *reason = "";

    if (argc != 7) {
        fprintf(stderr, "group_stress MASTER SIZE FIRST WRITERS READERS SECONDS\n");
        return 2;
    }
    uint32_t first = number(argv[3], MEMBERS_MAX);
    uint32_t writers = number(argv[4], THREADS_MAX / 2);
    uint32_t readers = number(argv[5], THREADS_MAX / 2);

    stress.size = number(argv[2], MEMBERS_MAX);
    snow_options_init(&options);
    options.master = argv[1];
    options.deadline_ms = CALL_MS;
    if (snow_open(&options, &stress.client, &reason) != SNOW_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], reason);
        return 1;
    }
    stress.end_ns = now_ns() + (uint64_t)number(argv[6], 86400) * 1000000000u;
    for (uint32_t i = 0; i < writers + readers; i++) {
        threads[i] =
            (struct thread){.stress = &stress, .rank = i < writers ? first + i : i - writers};
        if (pthread_create(&threads[i].id, NULL, i < writers ? write_members : read_groups,
                           &threads[i]) != 0)
            return 1;
    }
    for (uint32_t i = 0; i < writers + readers; i++)
        pthread_join(threads[i].id, NULL);
    snow_close(stress.client);
    printf("{\"puts\": %" PRIu64 ", \"gave_way\": %" PRIu64 ", \"reads\": %" PRIu64
           ", \"absent\": %" PRIu64 ", \"partial\": %" PRIu64 ", \"late\": %" PRIu64
           ", \"failed\": %" PRIu64 "}\n",
           stress.puts, stress.gave_way, stress.reads, stress.absent, stress.partial, stress.late,
           stress.failed);
    return 0;
}
