/* Shared memory objects: anonymous (memfd) or files, in 2 MiB pages where the kernel gives them.
 *
 * Problem.  Memory that is not there when it is touched is a SIGBUS; small pages make the first
 *           access of each process 100 times slower.
 * Idea.     Populating goes in steps of 2 MiB: the first page is made present by
 *           MADV_POPULATE_WRITE, which fails where a store would kill, then MADV_COLLAPSE turns the
 *           step into one large page; where that is refused, the rest is populated in 4 KiB pages.
 *           Files are given their blocks first (fallocate), so that a full file system is a status.
 * Invariants.
 *   M1  An anonymous object can not shrink or grow once it is mapped (seals).
 *   M2  page_size tells what most of the populated memory has, not what was asked for.
 *   M3  A child of a fork does not see the mapping.
 * Threads.  Any, one an object.
 */
#include "env/linux.h"
#include "env/linux/net.h"
#include "env/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define STEP_SIZE ((size_t)2 << 20)
#define NAME_SIZE_MAX 63
#define SPARE_BYTES (64 * MIB) /* what populating leaves to the rest of the host */

struct memory_state {
    size_t mapped_size; /* bytes, whole pages */
    size_t large;       /* steps in 2 MiB pages */
    size_t small;       /* steps in small pages */
    bool is_file;
    uint64_t fork_count; /* of the process that mapped it */
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- how much there is ---------------------------------------------------------------------- */

/* The number after `label` in a file of /proc or /sys, or fallback. */
static uint64_t read_number(const char *path, const char *label, uint64_t fallback)
{
    char text[2048];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);

    if (file >= 0)
        descriptors_close(file);
    if (got <= 0)
        return fallback;
    text[got] = 0;
    const char *at = strstr(text, label);
    unsigned long long value;

    if (at == NULL || sscanf(at + strlen(label), "%llu", &value) != 1)
        return fallback;
    return value;
}

/* Bytes that the host, or the control group of a container, can still give. */
static uint64_t available_bytes(void)
{
    uint64_t host = read_number("/proc/meminfo", "MemAvailable:", UINT64_MAX / KIB) * KIB;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
    uint64_t used = read_number("/sys/fs/cgroup/memory.current", "", 0);
    uint64_t cache = read_number("/sys/fs/cgroup/memory.stat", "\ninactive_file ", 0);

    used = used > cache ? used - cache : 0;
    if (limit == UINT64_MAX)
        return host;
    uint64_t group = limit > used ? limit - used : 0;

    return group < host ? group : host;
}

uint64_t env_memory_total(struct env *env)
{
    (void)env;
    uint64_t host = read_number("/proc/meminfo", "MemTotal:", UINT64_MAX / KIB) * KIB;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);

    return limit < host ? limit : host;
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool name_is_good(const char *name)
{
    size_t size = strlen(name);

    if (size == 0 || size > NAME_SIZE_MAX || name[0] == '.')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == size;
}

static enum snow_status status_of_errno(void)
{
    switch (errno) {
    case ENOSPC:
    case ENOMEM:
    case EDQUOT:
    case EFBIG:
        return SNOW_NO_SPACE;
    case EWOULDBLOCK:
        return SNOW_IN_USE;
    case EMFILE:
    case ENFILE:
        return SNOW_LIMIT;
    default:
        return SNOW_INVALID;
    }
}

static enum snow_status open_anonymous(const char *name, size_t size, struct env_memory *memory)
{
    memory->descriptor = descriptors_keep(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (memory->descriptor < 0)
        return status_of_errno();
    if (fchmod(memory->descriptor, 0600) != 0 || ftruncate(memory->descriptor, (off_t)size) != 0 ||
        fcntl(memory->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return status_of_errno();
    return SNOW_OK;
}

static enum snow_status open_file(const char *dir, const char *name, size_t size,
                                  struct env_memory *memory)
{
    char path[4096];
    struct stat info;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return SNOW_INVALID;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return SNOW_INVALID;
    memory->descriptor =
        descriptors_keep(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (memory->descriptor < 0 || flock(memory->descriptor, LOCK_EX | LOCK_NB) != 0 ||
        fstat(memory->descriptor, &info) != 0)
        return status_of_errno();
    if (info.st_size == 0) { /* new, or made by a process that died before it gave it a size */
        if (ftruncate(memory->descriptor, (off_t)size) != 0)
            return status_of_errno();
        return SNOW_OK;
    }
    if ((uint64_t)info.st_size != size)
        return SNOW_INVALID;
    memory->existed = true;
    return SNOW_OK;
}

/* Maps the object; objects of 2 MiB or more on a 2 MiB boundary. */
static uint8_t *map(int descriptor, size_t size, int protection)
{
    size_t align = size >= STEP_SIZE ? STEP_SIZE : page_size();
    uint8_t *reserved =
        mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (reserved == MAP_FAILED)
        return NULL;
    size_t before = (align - (uintptr_t)reserved % align) % align;
    uint8_t *at = mmap(reserved + before, size, protection, MAP_SHARED | MAP_FIXED, descriptor, 0);

    if (at == MAP_FAILED) {
        munmap(reserved, size + align);
        return NULL;
    }
    if (before > 0)
        munmap(reserved, before);
    if (align > before)
        munmap(at + size, align - before);
    return at;
}

/* The object behind memory->descriptor appears in this process; it stays out of children. */
static bool map_memory(struct env_memory *memory, bool writable)
{
    struct memory_state *state = memory->private_state;

    thread_watch_forks();
    state->fork_count = env_fork_count();
    state->mapped_size = (memory->size + page_size() - 1) & ~(page_size() - 1);
    memory->at =
        map(memory->descriptor, state->mapped_size, writable ? PROT_READ | PROT_WRITE : PROT_READ);
    if (memory->at == NULL)
        return false;
    madvise(memory->at, state->mapped_size, MADV_DONTFORK);
    madvise(memory->at, state->mapped_size, MADV_HUGEPAGE);
    return true;
}

static void undo_open(struct env_memory *memory)
{
    if (memory->descriptor >= 0)
        descriptors_close(memory->descriptor);
    free(memory->private_state);
    *memory = (struct env_memory){.descriptor = -1};
}

enum snow_status env_memory_open(struct env *env, const char *dir, const char *name, size_t size,
                                 struct env_memory *memory)
{
    struct memory_state *state;
    enum snow_status status;

    (void)env;
    if (!name_is_good(name) || size == 0 || size > (size_t)INT64_MAX - STEP_SIZE)
        return SNOW_INVALID;
    state = calloc(1, sizeof *state);
    if (state == NULL)
        return SNOW_NO_MEMORY;
    *memory = (struct env_memory){
        .size = size, .page_size = page_size(), .descriptor = -1, .private_state = state};
    state->is_file = dir != NULL;
    status = dir == NULL ? open_anonymous(name, size, memory) : open_file(dir, name, size, memory);
    if (status == SNOW_OK && !map_memory(memory, true))
        status = SNOW_NO_SPACE;
    if (status != SNOW_OK)
        undo_open(memory);
    return status;
}

/* What another process made: its size is what it is, and must stay so, or reading it could kill. */
enum snow_status memory_map(int descriptor, bool writable, bool trusted, struct env_memory *memory)
{
    struct memory_state *state = calloc(1, sizeof *state);
    struct stat info;
    int seals = fcntl(descriptor, F_GET_SEALS);
    enum snow_status status = SNOW_OK;

    if (state == NULL || fstat(descriptor, &info) != 0)
        status = SNOW_NO_MEMORY;
    else if (info.st_size <= 0 || (!trusted && (seals < 0 || (seals & F_SEAL_SHRINK) == 0)))
        status = SNOW_INVALID;
    if (status != SNOW_OK) {
        free(state);
        descriptors_close(descriptor);
        return status;
    }
    *memory = (struct env_memory){.size = (size_t)info.st_size,
                                  .page_size = page_size(),
                                  .existed = true,
                                  .descriptor = descriptor,
                                  .private_state = state};
    state->is_file = true;
    if (map_memory(memory, writable))
        return SNOW_OK;
    undo_open(memory);
    return SNOW_NO_MEMORY;
}

void env_memory_seal(struct env_memory *memory)
{
    /* Kernels before 5.1, and files, know no such seal: then access rights alone protect it. */
    (void)fcntl(memory->descriptor, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
}

void env_memory_close(struct env *env, struct env_memory *memory)
{
    struct memory_state *state = memory->private_state;

    (void)env;
    /* In the child of a fork something else may lie there. */
    if (state->fork_count == env_fork_count())
        munmap(memory->at, state->mapped_size);
    undo_open(memory);
}

/* ---- populating ----------------------------------------------------------------------------- */

/* Makes whole pages present without changing their bytes; false where a store would fail. */
static bool touch(uint8_t *at, size_t size)
{
    if (madvise(at, size, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    /* Kernels before 5.14: the blocks were allocated before, so that the stores find memory. */
    for (size_t i = 0; i < size; i += page_size())
        __atomic_fetch_add(&at[i], 0, __ATOMIC_RELAXED);
    return true;
}

/* One step: a large page if the kernel gives one, else small ones. */
static bool populate_step(struct memory_state *state, uint8_t *at, size_t size)
{
    if (size == STEP_SIZE && touch(at, page_size()) && madvise(at, size, MADV_COLLAPSE) == 0) {
        state->large++;
        return true;
    }
    if (!touch(at, size))
        return false;
    state->small++;
    return true;
}

enum snow_status env_memory_populate(struct env *env, struct env_memory *memory, size_t from,
                                     size_t size, size_t *done)
{
    struct memory_state *state = memory->private_state;
    size_t start = from & ~(page_size() - 1);
    size_t end = from + size;

    (void)env;
    if (from > memory->size || size > memory->size - from)
        return SNOW_INVALID;
    *done = 0;
    uint64_t budget = available_bytes();

    budget = budget > SPARE_BYTES ? budget - SPARE_BYTES : 0;
    if (memory->existed) /* may be in memory already: the kernel tells when it is not */
        budget = UINT64_MAX;
    for (size_t at = start; at < end;) {
        size_t next = (at / STEP_SIZE + 1) * STEP_SIZE;

        if (next > state->mapped_size)
            next = state->mapped_size;
        if (next > end && next - at < STEP_SIZE)
            next = (end + page_size() - 1) & ~(page_size() - 1);
        bool room = next - at <= budget;

        if (room && state->is_file)
            room = fallocate(memory->descriptor, FALLOC_FL_KEEP_SIZE, (off_t)at,
                             (off_t)(next - at)) == 0 ||
                   errno == EOPNOTSUPP;
        if (!room || !populate_step(state, memory->at + at, next - at))
            return SNOW_NO_SPACE;
        budget -= next - at;
        at = next;
        *done = at > end ? size : (at > from ? at - from : 0);
    }
    memory->page_size = state->large > state->small ? STEP_SIZE : page_size();
    return SNOW_OK;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Twice the size is mapped, and what lies before and behind the aligned block given back. */
static void *take_block(void)
{
    size_t size = 2 * REGION_BLOCK;
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)at & (REGION_BLOCK - 1);

    if (before > 0)
        munmap(at, before);
    munmap(at + before + REGION_BLOCK, REGION_BLOCK - before);
    madvise(at + before, REGION_BLOCK, MADV_HUGEPAGE);
    return at + before;
}

static void give_block(void *block)
{
    munmap(block, REGION_BLOCK);
}

const struct region_source *env_large_pages(void)
{
    static const struct region_source source = {.take = take_block, .give = give_block};

    return &source;
}

void env_touch(void *at, size_t size)
{
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(page_size() - 1);
    size_t whole = (size_t)((uintptr_t)at + size - from);

    /* What is no memory of the usual kind is left to its first use. */
    if (madvise((void *)from, whole, MADV_POPULATE_WRITE) != 0)
        (void)madvise((void *)from, whole, MADV_POPULATE_READ);
}
