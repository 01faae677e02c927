/* What a program asks of its process: signals, children, terminal, resources. */
#include "env/linux.h"
#include "env/linux/body.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- signals -------------------------------------------------------------------------------- */

struct signal_source {
    struct source source;
    struct env_signals *signals;
};

static void on_signal(struct source *source)
{
    struct signal_source *from = list_entry(source, struct signal_source, source);
    struct signalfd_siginfo info;

    source->events = 0;
    if (read(source->descriptor, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    loop_make_ready(source, EPOLLIN); /* another may wait behind it; one a turn */
    from->signals->on_event(from->signals, (int)info.ssi_signo);
}

static void signal_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

enum snow_status env_signals_watch(struct env_loop *loop, struct env_signals *signals)
{
    struct signal_source *from = calloc(1, sizeof *from);
    sigset_t set;

    if (from == NULL)
        return SNOW_NO_MEMORY;
    signal(SIGPIPE, SIG_IGN);
    signal_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    from->signals = signals;
    from->source.on_ready = on_signal;
    from->source.descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (from->source.descriptor < 0 || !loop_watch(loop, &from->source, EPOLLIN)) {
        if (from->source.descriptor >= 0)
            close(from->source.descriptor);
        free(from);
        return SNOW_LIMIT;
    }
    signals->loop = loop;
    signals->descriptor = from->source.descriptor;
    signals->private_state = from;
    return SNOW_OK;
}

void env_signals_unwatch(struct env_signals *signals)
{
    struct signal_source *from = signals->private_state;
    sigset_t set;

    if (from == NULL)
        return;
    loop_unwatch(&from->source);
    close(from->source.descriptor);
    free(from);
    signals->private_state = NULL;
    signals->descriptor = -1;
    signal_set(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- children ------------------------------------------------------------------------------- */

/* In the child, between fork and exec: only calls that are safe there. */
static _Noreturn void become(char *const argv[], int output, bool with_errors, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0 &&
        (!with_errors || dup2(output, STDERR_FILENO) >= 0))
        execv("/proc/self/exe", argv);
    _exit(127);
}

enum snow_status env_child_start(char *const argv[], struct env_child *child)
{
    int ends[2];
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return SNOW_LIMIT;
    pid_t pid = fork();

    if (pid == 0)
        become(argv, ends[1], child->with_errors, parent);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return SNOW_NO_MEMORY;
    }
    child->pid = pid;
    child->output = ends[0];
    return SNOW_OK;
}

ssize_t env_child_read(struct env_child *child, void *to, size_t size)
{
    ssize_t got;

    do
        got = read(child->output, to, size);
    while (got < 0 && errno == EINTR);
    return got < 0 ? 0 : got;
}

int env_child_wait(struct env_child *child)
{
    int status = 0;
    pid_t ended;

    if (child->output >= 0)
        close(child->output);
    child->output = -1;
    do
        ended = waitpid(child->pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended < 0)
        return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void env_child_kill(struct env_child *child, int signal_number)
{
    kill(child->pid, signal_number);
}

void env_process_name(char *name, size_t size)
{
    char host[64] = "";

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    snprintf(name, size, "%s:%d", host, (int)getpid());
}

uint32_t env_cpu_count(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

bool env_is_terminal(int descriptor)
{
    return isatty(descriptor) == 1;
}

uint64_t env_child_cpu_ns(const struct env_child *child)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(child->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* ---- about ourselves ------------------------------------------------------------------------ */

/* Of a file statm in /proc. */
static uint64_t resident_bytes(const char *path)
{
    char text[128];
    unsigned long long all = 0;
    unsigned long long resident = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);

    if (file >= 0)
        close(file);
    if (got <= 0)
        return 0;
    text[got] = 0;
    if (sscanf(text, "%llu %llu", &all, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t env_resident_bytes(void)
{
    return resident_bytes("/proc/self/statm");
}

uint64_t env_child_resident_bytes(const struct env_child *child)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/statm", child->pid);
    return resident_bytes(path);
}

uint64_t env_cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

int env_instructions_open(void)
{
    struct perf_event_attr what = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof(what),
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};

    return (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t env_instructions_read(int counter)
{
    uint64_t count = 0;

    return read(counter, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

uint64_t env_cache_bytes(void)
{
    uint64_t largest = 32 * MIB;
    char text[32];
    char path[80];

    for (int i = 0; i < 8; i++) {
        unsigned long long kib = 0;

        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);

        if (file >= 0)
            close(file);
        if (got <= 0)
            continue;
        text[got] = 0;
        if (sscanf(text, "%lluK", &kib) == 1 && kib * KIB > largest)
            largest = kib * KIB;
    }
    return largest;
}
