#include "env/linux/device.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define STAGES 16u /* blocks of staging memory that are kept */
#define STAGE_BYTES ((size_t)2 << 20)
#define STAGES_IDLE_BYTES ((size_t)256 << 20)

/* As the driver numbers them. */
enum {
    ATTRIBUTE_CONTEXT = 1,
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_ORDINAL = 9
};
#define TYPE_DEVICE 2u
#define HOST_ALLOC_PORTABLE 1u
#define STREAM_NON_BLOCKING 1u

typedef unsigned long long address;

/* member, symbol, arguments: each returns 0 when it worked. */
#define FUNCTIONS(FUNCTION) \
    FUNCTION(pointer_attribute, cuPointerGetAttribute, (void *, int, address)) \
    FUNCTION(push, cuCtxPushCurrent_v2, (void *)) \
    FUNCTION(pop, cuCtxPopCurrent_v2, (void **)) \
    FUNCTION(device_get, cuDeviceGet, (int *, int)) \
    FUNCTION(primary_retain, cuDevicePrimaryCtxRetain, (void **, int)) \
    FUNCTION(stream_create, cuStreamCreate, (void **, unsigned)) \
    FUNCTION(stream_destroy, cuStreamDestroy_v2, (void *)) \
    FUNCTION(stream_wait, cuStreamSynchronize, (void *)) \
    FUNCTION(to_host, cuMemcpyDtoHAsync_v2, (void *, address, size_t, void *)) \
    FUNCTION(to_device, cuMemcpyHtoDAsync_v2, (address, const void *, size_t, void *)) \
    FUNCTION(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned)) \
    FUNCTION(host_free, cuMemFreeHost, (void *))

struct stream {
    struct stream *next;
    void *context;
    void *stream;
};

struct range {
    const uint8_t *at;
    size_t size;
    bool device;
};

struct stage {
    void *at;
    size_t size;
    bool used;
};

struct devices {
    pthread_mutex_t mutex; /* guards what follows, but for the functions once `loaded` */
    atomic_bool loaded;
    unsigned long long seen; /* libraries that had been loaded at the last look */
    struct range *ranges;    /* by address */
    size_t range_count;
    struct stream *idle;
    struct stage stages[STAGES];
#define MEMBER(name, symbol, arguments) int(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

struct devices *device_open(void)
{
    struct devices *devices = calloc(1, sizeof(*devices));

    if (devices != NULL)
        pthread_mutex_init(&devices->mutex, NULL);
    return devices;
}

void device_close(struct devices *devices)
{
    struct stream *stream = devices->idle;

    while (stream != NULL) {
        struct stream *next = stream->next;

        (void)devices->stream_destroy(stream->stream);
        free(stream);
        stream = next;
    }
    for (size_t i = 0; i < STAGES; i++) {
        if (devices->stages[i].at != NULL)
            (void)devices->host_free(devices->stages[i].at);
    }
    free(devices->ranges);
    pthread_mutex_destroy(&devices->mutex);
    free(devices);
}

/* ---- the driver ----------------------------------------------------------------------------- */

static int take_count(struct dl_phdr_info *info, size_t size, void *owner)
{
    (void)size;
    *(unsigned long long *)owner = info->dlpi_adds;
    return 1; /* no further ones */
}

/* All of its functions, or none. */
static bool take_functions(struct devices *devices, void *library)
{
    void *found;

#define TAKE(name, symbol, arguments) \
    found = dlsym(library, #symbol); \
    if (found == NULL) \
        return false; \
    memcpy(&devices->name, &found, sizeof(found));
    FUNCTIONS(TAKE)
#undef TAKE
    return true;
}

void device_look(struct devices *devices)
{
    unsigned long long count = 0;
    void *library;

    if (atomic_load(&devices->loaded))
        return;
    (void)dl_iterate_phdr(take_count, &count);
    pthread_mutex_lock(&devices->mutex);
    if (count != devices->seen && !atomic_load(&devices->loaded)) {
        devices->seen = count;
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
        if (library != NULL && take_functions(devices, library))
            atomic_store(&devices->loaded, true);
        else if (library != NULL)
            dlclose(library);
    }
    pthread_mutex_unlock(&devices->mutex);
}

/* D1. */
static bool ask(const struct devices *devices, const void *at)
{
    unsigned type = 0;
    unsigned managed = 0;

    return devices->pointer_attribute(&type, ATTRIBUTE_MEMORY_TYPE, (address)(uintptr_t)at) == 0 &&
           type == TYPE_DEVICE &&
           (devices->pointer_attribute(&managed, ATTRIBUTE_IS_MANAGED, (address)(uintptr_t)at) !=
                0 ||
            managed == 0);
}

/* The context that its memory belongs to; of a pool's memory, that of its device. */
static void *context_of(const struct devices *devices, const void *at)
{
    void *context = NULL;
    int ordinal = 0;
    int device;

    if (devices->pointer_attribute(&context, ATTRIBUTE_CONTEXT, (address)(uintptr_t)at) == 0 &&
        context != NULL)
        return context;
    if (devices->pointer_attribute(&ordinal, ATTRIBUTE_ORDINAL, (address)(uintptr_t)at) != 0 ||
        devices->device_get(&device, ordinal) != 0 ||
        devices->primary_retain(&context, device) != 0)
        return NULL;
    return context;
}

/* ---- what is where -------------------------------------------------------------------------- */

/* The first range that ends above `at`.  With the mutex. */
static size_t find(const struct devices *devices, const uint8_t *at)
{
    size_t low = 0;
    size_t high = devices->range_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (devices->ranges[middle].at + devices->ranges[middle].size <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool device_has(struct devices *devices, const void *at)
{
    bool known;
    bool device = false;
    size_t index;

    if (!atomic_load(&devices->loaded))
        return false;
    pthread_mutex_lock(&devices->mutex);
    index = find(devices, at);
    known = index < devices->range_count && devices->ranges[index].at <= (const uint8_t *)at;
    if (known)
        device = devices->ranges[index].device;
    pthread_mutex_unlock(&devices->mutex);
    return known ? device : ask(devices, at);
}

void device_learn(struct devices *devices, const void *at, size_t size)
{
    struct range *grown;
    size_t index;
    bool device;

    device_look(devices);
    if (!atomic_load(&devices->loaded))
        return;
    device = ask(devices, at);
    pthread_mutex_lock(&devices->mutex);
    index = find(devices, at);
    grown = realloc(devices->ranges, (devices->range_count + 1) * sizeof(*grown));
    if (grown != NULL) {
        devices->ranges = grown;
        memmove(&grown[index + 1], &grown[index], (devices->range_count - index) * sizeof(*grown));
        grown[index] = (struct range){.at = at, .size = size, .device = device};
        devices->range_count++;
    }
    pthread_mutex_unlock(&devices->mutex);
}

void device_forget(struct devices *devices, const void *at)
{
    size_t index;

    pthread_mutex_lock(&devices->mutex);
    index = find(devices, at);
    if (index < devices->range_count && devices->ranges[index].at == at) {
        devices->range_count--;
        memmove(&devices->ranges[index], &devices->ranges[index + 1],
                (devices->range_count - index) * sizeof(devices->ranges[0]));
    }
    pthread_mutex_unlock(&devices->mutex);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* One of this context, which is current; each copy has one for itself, so that copies of several
 * threads do not wait for each other, nor for the program's own streams. */
static struct stream *stream_take(struct devices *devices, void *context)
{
    struct stream **at = &devices->idle;
    struct stream *stream;

    pthread_mutex_lock(&devices->mutex);
    while (*at != NULL && (*at)->context != context)
        at = &(*at)->next;
    stream = *at;
    if (stream != NULL)
        *at = stream->next;
    pthread_mutex_unlock(&devices->mutex);
    if (stream != NULL)
        return stream;
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->context = context;
    if (devices->stream_create(&stream->stream, STREAM_NON_BLOCKING) == 0)
        return stream;
    free(stream);
    return NULL;
}

static void stream_give(struct devices *devices, struct stream *stream)
{
    pthread_mutex_lock(&devices->mutex);
    stream->next = devices->idle;
    devices->idle = stream;
    pthread_mutex_unlock(&devices->mutex);
}

bool device_copy(struct devices *devices, void *to, const void *from, size_t size, bool to_device)
{
    void *context = context_of(devices, to_device ? to : from);
    struct stream *stream;
    void *popped;
    bool done = false;

    if (context == NULL || devices->push(context) != 0)
        return false;
    stream = stream_take(devices, context);
    if (stream != NULL) {
        done = to_device
                   ? devices->to_device((address)(uintptr_t)to, from, size, stream->stream) == 0
                   : devices->to_host(to, (address)(uintptr_t)from, size, stream->stream) == 0;
        /* Also of one that was refused: a part of it may be under way. */
        done = devices->stream_wait(stream->stream) == 0 && done;
        stream_give(devices, stream);
    }
    (void)devices->pop(&popped);
    return done;
}

/* ---- staging -------------------------------------------------------------------------------- */

static size_t idle_bytes(const struct devices *devices)
{
    size_t bytes = 0;

    for (size_t i = 0; i < STAGES; i++)
        bytes += devices->stages[i].used ? 0 : devices->stages[i].size;
    return bytes;
}

/* A kept block, or a place for a new one; NULL: all are in use. */
static struct stage *stage_find(struct devices *devices, size_t size)
{
    struct stage *empty = NULL;

    for (size_t i = 0; i < STAGES; i++) {
        struct stage *stage = &devices->stages[i];

        if (stage->at == NULL)
            empty = stage;
        else if (!stage->used && stage->size >= size)
            return stage;
    }
    return empty;
}

void *device_stage(struct devices *devices, size_t size)
{
    struct stage *stage;
    void *at = NULL;

    if (size > SIZE_MAX - STAGE_BYTES)
        return NULL;
    size = (size + STAGE_BYTES - 1) / STAGE_BYTES * STAGE_BYTES;
    pthread_mutex_lock(&devices->mutex);
    stage = stage_find(devices, size);
    if (stage != NULL && stage->at == NULL &&
        devices->host_alloc(&stage->at, size, HOST_ALLOC_PORTABLE) == 0)
        stage->size = size;
    if (stage != NULL && stage->at != NULL) {
        stage->used = true;
        at = stage->at;
    }
    pthread_mutex_unlock(&devices->mutex);
    return at != NULL ? at : malloc(size);
}

void device_unstage(struct devices *devices, void *at)
{
    bool kept = false;

    pthread_mutex_lock(&devices->mutex);
    for (size_t i = 0; i < STAGES && !kept; i++) {
        struct stage *stage = &devices->stages[i];

        kept = stage->at == at;
        if (kept)
            stage->used = false;
        if (kept && idle_bytes(devices) > STAGES_IDLE_BYTES) {
            (void)devices->host_free(at);
            *stage = (struct stage){.at = NULL};
        }
    }
    pthread_mutex_unlock(&devices->mutex);
    if (!kept)
        free(at);
}
