/* A program that holds all that a client can hold, to be killed, stopped or forked meanwhile.
 *
 *   holder hold any|tcp HOST:PORT   views, open long puts, puts under way; says "ready"; a line on
 *                                   standard input: what is open goes on, then all ends
 *   holder fork any|tcp HOST:PORT   as well, and a child that lives until standard input ends
 *   holder fill any|tcp HOST:PORT   puts more than the pool takes; all that is there is exact
 * Exit status 0: as it should be. */
#include <snowskin/snowskin.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define VIEWS 8
#define VIEW_SIZE MIB
#define WRITERS 2
#define WRITER_SIZE (4 * MIB)
#define LOOP_SIZE (4 * MIB)
#define FILL_SIZE ((size_t)65536)
#define FILL_COUNT (80 * MIB / FILL_SIZE) /* more than the pool of the test takes */
#define DEADLINE_MS 1000                  /* of a call, and so of its grants */
#define HOLD_MS 2000                      /* of long puts */

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, snow_reason()); \
            _exit(1); \
        } \
    } while (0)

static atomic_int stopping;

static struct snow_key key_of(char *name, size_t room, const char *kind, size_t number)
{
    return (struct snow_key){.at = name,
                             .size = (size_t)snprintf(name, room, "%s-%zu", kind, number)};
}

/* Bytes that follow from the key and their offset. */
static void fill_value(unsigned char *at, size_t size, struct snow_key key)
{
    uint64_t seed = 14695981039346656037u;

    for (size_t i = 0; i < key.size; i++)
        seed = (seed ^ ((const unsigned char *)key.at)[i]) * 1099511628211u;
    for (size_t i = 0; i < size; i += sizeof(seed)) {
        uint64_t word = (seed + i) * 0x9e3779b97f4a7c15u;

        memcpy(at + i, &word, sizeof(word));
    }
}

static int is_value(const void *at, size_t size, struct snow_key key)
{
    unsigned char *wanted = malloc(size);
    int same;

    CHECK(wanted != NULL);
    fill_value(wanted, size, key);
    same = memcmp(at, wanted, size) == 0;
    free(wanted);
    return same;
}

/* ---- hold ----------------------------------------------------------------------------------- */

static void *put_for_ever(void *argument)
{
    unsigned char *bytes = malloc(LOOP_SIZE);
    char name[32];
    struct snow_key key = key_of(name, sizeof(name), "loop", (size_t)getpid());

    CHECK(bytes != NULL);
    fill_value(bytes, LOOP_SIZE, key);
    while (!atomic_load(&stopping)) {
        struct snow_put put = {.key = key, .from = bytes, .size = LOOP_SIZE, .replace = 1};

        (void)snow_put(argument, &put, 1, NULL); /* stopped for long it fails, and goes on */
    }
    free(bytes);
    return NULL;
}

/* In four calls each. */
static void *write_for_ever(void *argument)
{
    unsigned char *bytes = malloc(WRITER_SIZE);
    char name[32];
    struct snow_key key = key_of(name, sizeof(name), "long", (size_t)getpid());

    CHECK(bytes != NULL);
    fill_value(bytes, WRITER_SIZE, key);
    while (!atomic_load(&stopping)) {
        struct snow_put put = {.key = key, .size = WRITER_SIZE, .replace = 1};
        struct snow_writer *writer = NULL;
        enum snow_status status = snow_writer_open(argument, &put, HOLD_MS, NULL, &writer);

        for (size_t i = 0; i < 4 && status == SNOW_OK; i++) {
            struct snow_write write = {.offset = i * WRITER_SIZE / 4,
                                       .from = bytes + i * WRITER_SIZE / 4,
                                       .size = WRITER_SIZE / 4};

            status = snow_writer_write(writer, &write, 1, NULL);
        }
        if (status == SNOW_OK)
            (void)snow_writer_commit(writer, NULL, NULL);
        if (writer != NULL)
            snow_writer_close(writer);
    }
    free(bytes);
    return NULL;
}

struct held {
    char names[VIEWS][32];
    struct snow_view views[VIEWS];
    struct snow_writer *writers[WRITERS];
    unsigned char *bytes; /* of a long put */
};

static void take(struct snow_client *client, struct held *held)
{
    held->bytes = calloc(1, WRITER_SIZE);
    CHECK(held->bytes != NULL);
    for (size_t i = 0; i < VIEWS; i++) {
        /* Pinned: in a full pool others that come back from eviction go after a new one. */
        struct snow_put put = {.from = held->bytes, .size = VIEW_SIZE, .pin = SNOW_PIN_SOFT};

        put.key = key_of(held->names[i], sizeof(held->names[i]), "view", i);
        held->views[i].key = put.key;
        fill_value(held->bytes, VIEW_SIZE, put.key);
        CHECK(snow_status_verdict(snow_put(client, &put, 1, NULL)) == SNOW_DONE);
    }
    CHECK(snow_view(client, held->views, VIEWS, NULL) == SNOW_OK);
    for (size_t i = 0; i < WRITERS; i++) {
        char name[32];
        struct snow_put put = {.key = key_of(name, sizeof(name), "half", i), .size = WRITER_SIZE};
        struct snow_write write = {.from = held->bytes, .size = WRITER_SIZE / 2};

        CHECK(snow_writer_open(client, &put, HOLD_MS, NULL, &held->writers[i]) == SNOW_OK);
        CHECK(snow_writer_write(held->writers[i], &write, 1, NULL) == SNOW_OK);
    }
}

/* After a time that was too long for open puts, and is none for views. */
static void give(struct held *held)
{
    for (size_t i = 0; i < WRITERS; i++) {
        struct snow_write write = {.offset = WRITER_SIZE / 2,
                                   .from = held->bytes + WRITER_SIZE / 2,
                                   .size = WRITER_SIZE / 2};

        (void)snow_writer_write(held->writers[i], &write, 1, NULL);
        CHECK(snow_writer_commit(held->writers[i], NULL, NULL) != SNOW_OK);
        snow_writer_close(held->writers[i]);
    }
    for (size_t i = 0; i < VIEWS; i++)
        CHECK(is_value(held->views[i].at, VIEW_SIZE, held->views[i].key));
    snow_view_end(held->views, VIEWS);
    free(held->bytes);
}

static void wait_for_line(void)
{
    char line[8];

    if (fgets(line, sizeof(line), stdin) == NULL)
        _exit(0);
}

static void hold(struct snow_client *client, int forks)
{
    struct held held = {.bytes = NULL};
    pthread_t threads[2];

    take(client, &held);
    if (forks && fork() == 0)
        wait_for_line();
    CHECK(pthread_create(&threads[0], NULL, put_for_ever, client) == 0);
    CHECK(pthread_create(&threads[1], NULL, write_for_ever, client) == 0);
    printf("ready\n");
    fflush(stdout);
    wait_for_line();
    give(&held);
    atomic_store(&stopping, 1);
    CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
}

/* ---- fill ----------------------------------------------------------------------------------- */

static void fill(struct snow_client *client)
{
    struct snow_matched matched;
    enum snow_status removed =
        snow_remove_match(client, SNOW_MATCH_PREFIX, (struct snow_key){.at = "fill-", .size = 5},
                          NULL, &matched);
    unsigned char *bytes = malloc(FILL_SIZE);
    size_t there = 0;
    char name[32];

    CHECK(bytes != NULL && removed == SNOW_OK);
    for (size_t i = 0; i < FILL_COUNT; i++) {
        struct snow_put put = {.key = key_of(name, sizeof(name), "fill", i),
                               .from = bytes,
                               .size = FILL_SIZE};

        fill_value(bytes, FILL_SIZE, put.key);
        CHECK(snow_put(client, &put, 1, NULL) == SNOW_OK);
    }
    for (size_t i = 0; i < FILL_COUNT; i++) {
        struct snow_get get = {.key = key_of(name, sizeof(name), "fill", i)};
        enum snow_status status = snow_get(client, &get, 1, NULL);

        CHECK(status == SNOW_OK || status == SNOW_NOT_FOUND);
        CHECK(status != SNOW_OK || (get.size == FILL_SIZE && is_value(get.to, FILL_SIZE, get.key)));
        snow_free(get.to);
        there += status == SNOW_OK;
    }
    printf("%zu of %zu\n", there, FILL_COUNT);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct snow_options options;
    struct snow_client *client = NULL;

    if (argc != 4)
        return 2;
    snow_options_init(&options);
    options.master = argv[3];
    options.deadline_ms = DEADLINE_MS;
    options.transport = strcmp(argv[2], "tcp") == 0 ? SNOW_TRANSPORT_TCP : SNOW_TRANSPORT_ANY;
    if (strcmp(argv[1], "fill") == 0)
        options.deadline_ms = 20000;
    CHECK(snow_open(&options, &client, NULL) == SNOW_OK);
    if (strcmp(argv[1], "fill") == 0)
        fill(client);
    else
        hold(client, strcmp(argv[1], "fork") == 0);
    snow_close(client);
    return 0;
}
