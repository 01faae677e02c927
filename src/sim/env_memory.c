/* Memory objects: arrays that the host owns, and what a process sees of them.
 *
 * Invariants.
 *   Y1  A named object has at most one process that maps it, and outlives it.
 *   Y2  A crash parts the two: the host keeps the bytes of that moment in another array, so that
 *       nothing a dead process still writes is ever seen.
 */
#include "sim/env_body.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_SIZE ((size_t)4096)
#define LARGE_PAGE_SIZE ((size_t)2 << 20)

/* What a host keeps under a name. */
struct sim_memory {
    struct list_link link; /* in host->memories */
    char *path;
    uint8_t *bytes;
    size_t size;
    struct sim_mapping *mapping; /* NULL: nobody has it open */
};

/* What a process has open. */
struct sim_mapping {
    struct list_link link; /* in env->mappings */
    struct env *env;
    uint8_t *bytes;
    size_t size;
    uint64_t populated;        /* bytes, against the host's bound */
    struct sim_memory *memory; /* NULL: anonymous, or its process has crashed; bytes are its own */
};

static uint8_t *allocate(size_t size)
{
    size_t align = size >= LARGE_PAGE_SIZE ? LARGE_PAGE_SIZE : PAGE_SIZE;
    size_t rounded = (size + align - 1) & ~(align - 1);
    uint8_t *bytes = aligned_alloc(align, rounded);

    if (bytes != NULL)
        memset(bytes, 0, size);
    return bytes;
}

static struct sim_memory *find(struct world_host *host, const char *path)
{
    list_each (&host->memories, link, following) {
        struct sim_memory *memory = list_entry(link, struct sim_memory, link);

        if (strcmp(memory->path, path) == 0)
            return memory;
    }
    return NULL;
}

static void memory_free(struct sim_memory *memory)
{
    list_remove(&memory->link);
    free(memory->bytes);
    free(memory->path);
    free(memory);
}

static struct sim_memory *memory_create(struct world_host *host, const char *path, size_t size)
{
    struct sim_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return NULL;
    memory->path = strdup(path);
    memory->bytes = allocate(size);
    memory->size = size;
    list_push(&host->memories, &memory->link);
    if (memory->path != NULL && memory->bytes != NULL)
        return memory;
    memory_free(memory);
    return NULL;
}

static bool name_is_good(const char *name)
{
    size_t size = strlen(name);

    return size > 0 && size <= 63 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == size;
}

/* Finds or makes the named object; *existed tells which. */
static enum snow_status open_named(struct world_host *host, const char *dir, const char *name,
                                   size_t size, struct sim_memory **memory, bool *existed)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return SNOW_INVALID;
    *memory = find(host, path);
    *existed = *memory != NULL;
    if (*existed && (*memory)->mapping != NULL)
        return SNOW_IN_USE;
    if (*existed && (*memory)->size != size)
        return SNOW_INVALID;
    if (!*existed)
        *memory = memory_create(host, path, size);
    return *memory == NULL ? SNOW_NO_SPACE : SNOW_OK;
}

enum snow_status env_memory_open(struct env *env, const char *dir, const char *name, size_t size,
                                 struct env_memory *memory)
{
    struct sim_memory *named = NULL;
    bool existed = false;
    enum snow_status status = SNOW_OK;

    if (env->dead)
        return SNOW_CLOSED;
    if (!name_is_good(name) || size == 0)
        return SNOW_INVALID;
    if (env->host->memory_max > 0 && size > env->host->memory_max)
        return SNOW_NO_SPACE;
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);

    if (mapping == NULL)
        return SNOW_NO_MEMORY;
    if (dir != NULL)
        status = open_named(env->host, dir, name, size, &named, &existed);
    if (status == SNOW_OK) {
        mapping->bytes = named != NULL ? named->bytes : allocate(size);
        if (mapping->bytes == NULL)
            status = SNOW_NO_SPACE;
    }
    if (status != SNOW_OK) {
        free(mapping);
        return status;
    }
    mapping->env = env;
    mapping->size = size;
    mapping->memory = named;
    if (named != NULL)
        named->mapping = mapping;
    list_push(&env->mappings, &mapping->link);
    *memory = (struct env_memory){.at = mapping->bytes,
                                  .size = size,
                                  .page_size = PAGE_SIZE,
                                  .existed = existed,
                                  .descriptor = -1,
                                  .private_state = mapping};
    return SNOW_OK;
}

enum snow_status env_memory_populate(struct env *env, struct env_memory *memory, size_t from,
                                     size_t size, size_t *done)
{
    struct sim_mapping *mapping = memory->private_state;
    struct world_host *host = env->host;

    if (from > memory->size || size > memory->size - from)
        return SNOW_INVALID;
    *done = 0;
    if (env->dead)
        return SNOW_CLOSED;
    uint64_t room = host->memory_max == 0                  ? UINT64_MAX
                    : host->memory_max > host->memory_used ? host->memory_max - host->memory_used
                                                           : 0;

    *done = size <= room ? size : (size_t)room;
    mapping->populated += *done;
    host->memory_used += *done;
    return *done == size ? SNOW_OK : SNOW_NO_SPACE;
}

static void mapping_free(struct sim_mapping *mapping)
{
    if (!mapping->env->dead)
        mapping->env->host->memory_used -= mapping->populated;
    if (mapping->memory != NULL)
        mapping->memory->mapping = NULL;
    else
        free(mapping->bytes);
    list_remove(&mapping->link);
    free(mapping);
}

void env_memory_close(struct env *env, struct env_memory *memory)
{
    (void)env;
    mapping_free(memory->private_state);
    *memory = (struct env_memory){.descriptor = -1};
}

void sim_memory_kill(struct env *env)
{
    list_each (&env->mappings, link, following) {
        struct sim_mapping *mapping = list_entry(link, struct sim_mapping, link);
        struct sim_memory *memory = mapping->memory;

        env->host->memory_used -= mapping->populated;
        if (memory == NULL)
            continue;
        mapping->memory = NULL;
        memory->mapping = NULL;
        memory->bytes = allocate(memory->size);
        if (memory->bytes == NULL)
            memory_free(memory); /* lost */
        else
            memcpy(memory->bytes, mapping->bytes, memory->size);
    }
}

void sim_memory_free_mappings(struct env *env)
{
    struct list_link *link;

    while ((link = list_first(&env->mappings)) != NULL)
        mapping_free(list_entry(link, struct sim_mapping, link));
}

void sim_memory_lose(struct world_host *host)
{
    struct list_link *link;

    while ((link = list_first(&host->memories)) != NULL)
        memory_free(list_entry(link, struct sim_memory, link));
}
