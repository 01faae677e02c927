/* Loads the layers of a prompt and computes each as soon as it is there, from a loop of its own.
 *
 *   layers [HOST:PORT]      of a master; `snowskin dev` starts one at 127.0.0.1:7600
 *
 * The queue has a descriptor: epoll (asyncio, libuv, ...) watches it beside everything else.  Here
 * a timer stands for everything else.  Exit status 0: every layer came, with the right bytes. */
#include <snowskin/snowskin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LAYERS 32
#define LAYER_SIZE ((size_t)256 * 1024)
#define TAG_PUT 1
#define TAG_GET 2

struct run {
    struct snow_queue *queue;
    char names[LAYERS][32];
    struct snow_put puts[LAYERS];
    struct snow_get gets[LAYERS];
    unsigned char *bytes; /* LAYERS * LAYER_SIZE */
    unsigned ticks;       /* of everything else */
    unsigned computed;
    int failed;
    int done;
};

static int fails(const char *what, enum snow_status status)
{
    if (status == SNOW_OK)
        return 0;
    fprintf(stderr, "%s: %s%s%s\n", what, snow_status_text(status),
            snow_reason()[0] == 0 ? "" : ": ", snow_reason());
    return 1;
}

/* Stands for the work of an engine on one layer. */
static void compute(struct run *run, size_t layer)
{
    const unsigned char *at = run->bytes + layer * LAYER_SIZE;

    for (size_t i = 0; i < LAYER_SIZE; i++)
        run->failed |= at[i] != (unsigned char)(layer + i);
    run->computed++;
}

static void submit_gets(struct run *run)
{
    memset(run->bytes, 0, LAYERS * LAYER_SIZE);
    run->failed |= fails("get", snow_submit_get(run->queue, run->gets, LAYERS, NULL, TAG_GET));
}

static void on_completion(struct run *run, const struct snow_completion *completion)
{
    if (snow_status_verdict(completion->status) != SNOW_DONE) {
        run->failed |= fails("a layer", completion->status);
        run->done = 1;
    } else if (completion->tag == TAG_GET) {
        compute(run, completion->index);
        run->done = completion->last != 0;
    } else if (completion->last) {
        submit_gets(run); /* all are put */
    }
}

/* The descriptor is readable: takes what there is, and never waits. */
static void on_queue(struct run *run)
{
    struct snow_completion completions[16];
    size_t count = 0;
    enum snow_status status = snow_queue_poll(run->queue, completions, 16, 0, &count);

    if (status != SNOW_TIMEOUT)
        run->failed |= fails("poll", status);
    for (size_t i = 0; i < count; i++)
        on_completion(run, &completions[i]);
}

static void on_tick(struct run *run, int timer)
{
    unsigned long long expirations;

    if (read(timer, &expirations, sizeof(expirations)) == (ssize_t)sizeof(expirations))
        run->ticks++;
}

static int watch(int epoll, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

static int loop(struct run *run)
{
    struct itimerspec each = {.it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1000000};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct epoll_event events[2];

    if (epoll < 0 || timer < 0 || timerfd_settime(timer, 0, &each, NULL) != 0 ||
        watch(epoll, timer) != 0 || watch(epoll, snow_queue_fd(run->queue)) != 0) {
        perror("epoll");
        return 1;
    }
    while (!run->done && !run->failed) {
        int count = epoll_wait(epoll, events, 2, -1);

        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == timer)
                on_tick(run, timer);
            else
                on_queue(run);
        }
    }
    close(timer);
    close(epoll);
    return run->failed;
}

static void prepare(struct run *run)
{
    for (size_t layer = 0; layer < LAYERS; layer++) {
        unsigned char *at = run->bytes + layer * LAYER_SIZE;
        struct snow_key key = {.at = run->names[layer]};

        key.size =
            (size_t)snprintf(run->names[layer], sizeof(run->names[layer]), "layers/%zu", layer);
        for (size_t i = 0; i < LAYER_SIZE; i++)
            at[i] = (unsigned char)(layer + i);
        run->puts[layer] = (struct snow_put){
            .key = key, .from = at, .size = LAYER_SIZE, .depth = SNOW_DEPTH_UNKNOWN, .replace = 1};
        run->gets[layer] = (struct snow_get){.key = key, .to = at, .room = LAYER_SIZE};
    }
}

int main(int argc, char **argv)
{
    struct run run = {.bytes = malloc(LAYERS * LAYER_SIZE)};
    struct snow_options options;
    struct snow_client *client;
    const char *reason;
    int failed;

    snow_options_init(&options);
    if (argc > 1)
        options.master = argv[1];
    if (run.bytes == NULL || snow_open(&options, &client, &reason) != SNOW_OK) {
        fprintf(stderr, "open: %s\n", run.bytes == NULL ? "out of memory" : reason);
        return 1;
    }
    prepare(&run);
    failed = fails("queue", snow_queue_create(client, NULL, &run.queue));
    if (!failed) {
        failed =
            fails("put", snow_submit_put(run.queue, run.puts, LAYERS, NULL, TAG_PUT)) || loop(&run);
        printf("%u of %u layers computed, %u ticks meanwhile\n", run.computed, LAYERS, run.ticks);
        snow_queue_destroy(run.queue);
    }
    snow_close(client);
    free(run.bytes);
    return failed;
}
