/* Threads of a round: each is a loop that runs one task. */
#include "cli/bench.h"

struct thread {
    struct env_task task;
    struct env_loop *loop;
    void (*work)(void *argument);
    void *argument;
};

static void on_task(struct env_task *task)
{
    struct thread *thread = list_entry(task, struct thread, task);

    thread->work(thread->argument);
    env_loop_stop(thread->loop);
}

static bool start(struct bench *bench, struct thread *thread)
{
    thread->task.on_event = on_task;
    if (env_loop_create(bench->cli->env, "bench", &thread->loop) != SNOW_OK)
        return false;
    if (env_loop_start(thread->loop) != SNOW_OK) {
        env_loop_destroy(thread->loop);
        return false;
    }
    env_loop_post(thread->loop, &thread->task);
    return true;
}

bool bench_threads_run(struct bench *bench, uint32_t count, void (*work)(void *argument),
                       void *arguments, size_t size)
{
    struct thread threads[BENCH_THREADS_MAX] = {0};
    uint32_t started = 0;

    if (count == 1) {
        work(arguments);
        return true;
    }
    while (started < count) {
        threads[started].work = work;
        threads[started].argument = (uint8_t *)arguments + started * size;
        if (!start(bench, &threads[started]))
            break;
        started++;
    }
    for (uint32_t i = 0; i < started; i++) {
        env_loop_join(threads[i].loop);
        env_loop_destroy(threads[i].loop);
    }
    if (started < count)
        cli_error(bench->cli, "can not start %u threads", count);
    return started == count;
}
