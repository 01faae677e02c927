#include "cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, NO_MEMORY = 2, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700 };
enum { CONTEXT = 1, MEMORY_TYPE = 2, IS_MANAGED = 8, ORDINAL = 9 };
#define ALLOCATIONS 256
#define THE_CONTEXT ((void *)0x1000)

struct allocation {
    uint8_t *at;
    uint8_t *view;
    size_t size;
    int managed;
};

struct stream {
    void *to;
    const void *from;
    size_t size;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct allocation allocations[ALLOCATIONS];
static int refused;
static int copies;
static size_t pinned;
static _Thread_local int depth; /* of current contexts */

/* ---- for tests ---- */

void *fake_alloc(size_t size, int managed)
{
    int file = memfd_create("device", MFD_CLOEXEC);
    struct allocation *made = NULL;

    if (ftruncate(file, (off_t)size) != 0)
        abort();
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ALLOCATIONS && made == NULL; i++) {
        if (allocations[i].at == NULL)
            made = &allocations[i];
    }
    if (made == NULL)
        abort();
    made->at = mmap(NULL, size, managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, 0);
    made->view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    made->size = size;
    made->managed = managed;
    if (made->at == MAP_FAILED || made->view == MAP_FAILED)
        abort();
    pthread_mutex_unlock(&mutex);
    close(file);
    return made->at;
}

static struct allocation *find(const void *at)
{
    for (int i = 0; i < ALLOCATIONS; i++) {
        if (allocations[i].at != NULL && (const uint8_t *)at >= allocations[i].at &&
            (const uint8_t *)at < allocations[i].at + allocations[i].size)
            return &allocations[i];
    }
    return NULL;
}

void fake_free(void *at)
{
    struct allocation *found;

    pthread_mutex_lock(&mutex);
    found = find(at);
    munmap(found->at, found->size);
    munmap(found->view, found->size);
    *found = (struct allocation){0};
    pthread_mutex_unlock(&mutex);
}

uint8_t *fake_view(const void *at)
{
    struct allocation *found;
    uint8_t *view;

    pthread_mutex_lock(&mutex);
    found = find(at);
    view = found->view + ((const uint8_t *)at - found->at);
    pthread_mutex_unlock(&mutex);
    return view;
}

void fake_refuse(int count)
{
    pthread_mutex_lock(&mutex);
    refused = count;
    pthread_mutex_unlock(&mutex);
}

int fake_copies(void)
{
    int count;

    pthread_mutex_lock(&mutex);
    count = copies;
    pthread_mutex_unlock(&mutex);
    return count;
}

size_t fake_pinned(void)
{
    size_t bytes;

    pthread_mutex_lock(&mutex);
    bytes = pinned;
    pthread_mutex_unlock(&mutex);
    return bytes;
}

/* ---- the driver ---- */

int cuPointerGetAttribute(void *data, int attribute, unsigned long long at);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream);
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, void *stream);
int cuMemHostAlloc(void **at, size_t size, unsigned flags);
int cuMemFreeHost(void *at);

int cuPointerGetAttribute(void *data, int attribute, unsigned long long at)
{
    const struct allocation *found;
    int managed = 0;

    pthread_mutex_lock(&mutex);
    found = find((const void *)(uintptr_t)at);
    if (found != NULL)
        managed = found->managed;
    pthread_mutex_unlock(&mutex);
    if (found == NULL)
        return INVALID_VALUE;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)data = 2;
    else if (attribute == IS_MANAGED)
        *(unsigned *)data = (unsigned)managed;
    else if (attribute == CONTEXT)
        *(void **)data = at / 4096 % 2 == 0 ? THE_CONTEXT : NULL; /* as of pools */
    else if (attribute == ORDINAL)
        *(int *)data = 0;
    else
        return INVALID_VALUE;
    return OK;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (context != THE_CONTEXT)
        return INVALID_CONTEXT;
    depth++;
    return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    depth--;
    *context = THE_CONTEXT;
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? OK : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = THE_CONTEXT;
    return device == 0 ? OK : INVALID_VALUE;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *stream = calloc(1, sizeof(struct stream));
    return flags != 1 ? INVALID_VALUE : *stream == NULL ? NO_MEMORY : OK;
}

int cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return OK;
}

int cuStreamSynchronize(void *stream)
{
    struct stream *todo = stream;

    if (todo->size > 0)
        memcpy(todo->to, todo->from, todo->size);
    todo->size = 0;
    return OK;
}

/* Both in the driver's view.  A device's range has to lie in one allocation. */
static int enqueue(void *stream, const void *device, size_t size, int to_device, void *host)
{
    struct stream *todo = stream;
    const struct allocation *found;
    int code = OK;

    if (depth == 0)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&mutex);
    found = find(device);
    copies++;
    if (refused > 0) {
        refused--;
        code = ILLEGAL_ADDRESS;
    } else if (found == NULL || find(host) != NULL ||
               size > found->size - (size_t)((const uint8_t *)device - found->at)) {
        code = INVALID_VALUE;
    } else {
        uint8_t *view = found->view + ((const uint8_t *)device - found->at);

        *todo = (struct stream){to_device ? view : host, to_device ? host : view, size};
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream)
{
    return enqueue(stream, (const void *)(uintptr_t)from, size, 0, to);
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, void *stream)
{
    return enqueue(stream, (const void *)(uintptr_t)to, size, 1, (void *)(uintptr_t)from);
}

#define PINNED_HEAD 64 /* where the size stands */

int cuMemHostAlloc(void **at, size_t size, unsigned flags)
{
    size_t *block = flags != 1 ? NULL : malloc(size + PINNED_HEAD);

    if (block == NULL)
        return NO_MEMORY;
    *block = size;
    *at = (uint8_t *)block + PINNED_HEAD;
    pthread_mutex_lock(&mutex);
    pinned += size;
    pthread_mutex_unlock(&mutex);
    return OK;
}

int cuMemFreeHost(void *at)
{
    size_t *block = (size_t *)(void *)((uint8_t *)at - PINNED_HEAD);

    pthread_mutex_lock(&mutex);
    pinned -= *block;
    pthread_mutex_unlock(&mutex);
    free(block);
    return OK;
}
