/* A program that does to the library what programs do: forks, exits in the middle, is interrupted.
 *
 *   trials MODE HOST:PORT      exit status 0: as it should be */
#include <snowskin/snowskin.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define SIZE ((size_t)100000)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, snow_reason()); \
            _exit(1); \
        } \
    } while (0)

static const char *address;
static atomic_ulong calls;
static atomic_ulong interrupts;

static struct snow_client *open_client(void)
{
    struct snow_client *client = NULL;
    struct snow_options options;

    snow_options_init(&options);
    options.master = address;
    options.deadline_ms = 20000;
    CHECK(snow_open(&options, &client, NULL) == SNOW_OK);
    return client;
}

/* Puts a value and gets it back. */
static void put_and_get(struct snow_client *client, size_t number)
{
    char name[32];
    unsigned char *bytes = malloc(SIZE);
    struct snow_put put = {.from = bytes, .size = SIZE, .replace = 1};
    struct snow_get get = {.to = NULL};

    CHECK(bytes != NULL);
    memset(bytes, (int)number, SIZE);
    put.key.at = get.key.at = name;
    put.key.size = get.key.size = (size_t)snprintf(name, sizeof(name), "trial-%zu", number);
    CHECK(snow_status_verdict(snow_put(client, &put, 1, NULL)) == SNOW_DONE);
    CHECK(snow_get(client, &get, 1, NULL) == SNOW_OK);
    CHECK(get.size == SIZE && memcmp(get.to, bytes, SIZE) == 0);
    snow_free(get.to);
    free(bytes);
    atomic_fetch_add(&calls, 1);
}

struct worker {
    pthread_t thread;
    struct snow_client *client;
    size_t number;
};

static void *work_for_ever(void *argument)
{
    struct worker *worker = argument;

    for (;;)
        put_and_get(worker->client, worker->number);
    return NULL;
}

static void start_workers(struct snow_client *client)
{
    static struct worker workers[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        workers[i].client = client;
        workers[i].number = i;
        CHECK(pthread_create(&workers[i].thread, NULL, work_for_ever, &workers[i]) == 0);
    }
    while (atomic_load(&calls) < (unsigned long)THREADS * 2)
        sched_yield();
}

/* ---- fork ----------------------------------------------------------------------------------- */

/* Sockets, epolls and the like that are open now. */
static int special_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int count = 0;

    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        char path[300];
        char target[300] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof(target) - 1) > 0 &&
            (strncmp(target, "socket:", 7) == 0 || strncmp(target, "anon_inode:", 11) == 0 ||
             strncmp(target, "/memfd:", 7) == 0))
            count++;
    }
    closedir(folder);
    return count;
}

static void be_a_child(struct snow_client *client, struct snow_queue *queue, int before)
{
    struct snow_get get = {.key = {.at = "k", .size = 1}};
    struct snow_completion completion;
    size_t count;

    CHECK(special_descriptors() == before);
    CHECK(snow_get(client, &get, 1, NULL) == SNOW_CLOSED);
    CHECK(snow_reason()[0] != 0);
    CHECK(snow_queue_poll(queue, &completion, 1, 0, &count) == SNOW_CLOSED);
    struct snow_client *own = open_client();

    put_and_get(own, 100);
    snow_queue_destroy(queue); /* the parent's: must not hurt what is the child's */
    snow_close(client);
    put_and_get(own, 101);
    snow_close(own);
    _exit(0);
}

/* alone: no other thread is in a call meanwhile. */
static void try_fork(int alone)
{
    int before = special_descriptors();
    struct snow_client *client = open_client();
    struct snow_queue *queue = NULL;

    CHECK(snow_queue_create(client, NULL, &queue) == SNOW_OK);
    put_and_get(client, 1);
    CHECK(special_descriptors() > before);
    if (!alone)
        start_workers(client);
    for (int i = 0; i < 20; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0)
            be_a_child(client, queue, before);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        put_and_get(client, 2);
    }
    exit(0);
}

/* ---- exit ----------------------------------------------------------------------------------- */

static void at_exit(void)
{
    atomic_fetch_add(&interrupts, 1);
}

static void try_exit(void)
{
    static unsigned char bytes[64][1000];
    static struct snow_put puts[64];
    static char names[64][16];
    struct snow_queue_options options = {.flags = SNOW_QUEUE_THREAD};
    struct snow_client *client = open_client();
    struct snow_client *helped = open_client();
    struct snow_queue *queue = NULL;

    CHECK(atexit(at_exit) == 0);
    CHECK(snow_queue_create(helped, &options, &queue) == SNOW_OK);
    start_workers(client);
    for (size_t i = 0; i < 64; i++) {
        puts[i] = (struct snow_put){.from = bytes[i], .size = sizeof(bytes[i]), .replace = 1};
        puts[i].key.at = names[i];
        puts[i].key.size = (size_t)snprintf(names[i], sizeof(names[i]), "exit-%zu", i);
    }
    CHECK(snow_submit_put(queue, puts, 64, NULL, 1) == SNOW_OK);
    exit(0);
}

/* ---- signals -------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add(&interrupts, 1);
}

/* No SA_RESTART: every system call of whoever is hit returns early. */
static void try_signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval each = {.it_interval.tv_usec = 300, .it_value.tv_usec = 300};
    struct itimerval none = {{0, 0}, {0, 0}};
    struct snow_client *client = open_client();

    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
    for (size_t i = 0; i < 200 || atomic_load(&interrupts) < 200; i++)
        put_and_get(client, i % 20);
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    snow_close(client);
}

/* The other side goes away while we write to it; SIGPIPE would end this program. */
static void try_pipe(void)
{
    struct snow_client *client = open_client();
    unsigned char *bytes = calloc(1, SIZE);
    enum snow_status status;
    char line[8];

    put_and_get(client, 1);
    printf("ready\n");
    fflush(stdout);
    do {
        struct snow_put put = {.key = {.at = "k", .size = 1}, .from = bytes, .size = SIZE};
        struct snow_call call = {.deadline_ms = 300};

        put.replace = 1;
        status = snow_put(client, &put, 1, &call);
    } while (snow_status_verdict(status) == SNOW_DONE);
    CHECK(fgets(line, sizeof(line), stdin) == NULL || line[0] != 0);
    snow_close(client);
    free(bytes);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    address = argv[2];
    if (strcmp(argv[1], "fork") == 0)
        try_fork(0);
    else if (strcmp(argv[1], "fork_alone") == 0)
        try_fork(1);
    else if (strcmp(argv[1], "exit") == 0)
        try_exit();
    else if (strcmp(argv[1], "signals") == 0)
        try_signals();
    else if (strcmp(argv[1], "pipe") == 0)
        try_pipe();
    else
        return 2;
    return 0;
}
