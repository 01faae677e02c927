/* Memory objects: arrays that the host owns, and what processes see of them.
 *
 * Invariants.
 *   Y1  A named object has at most one process that opened it, and outlives it.  It is opened again
 *       only when no process has it mapped.
 *   Y2  A crash parts the two: the host keeps the bytes of that moment in another array, so that
 *       nothing a dead process still writes is ever seen under that name.
 *   Y3  Whoever was handed an object sees the array of the process that handed it over, also after
 *       the end of that process.
 */
#include "sim/net.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_SIZE ((size_t)4096)
#define LARGE_PAGE_SIZE ((size_t)2 << 20)

/* An array, alive while anybody sees it. */
struct sim_array {
    uint8_t *at;
    size_t size;
    uint32_t users;
};

/* What a host keeps under a name. */
struct sim_memory {
    struct list_link link; /* in host->memories */
    char *path;
    struct sim_array *array;
    struct sim_mapping *mapping; /* NULL: nobody has it open */
    struct sim_array *guests;    /* array that others may still have mapped, or NULL */
};

/* What a process has open. */
struct sim_mapping {
    struct list_link link; /* in env->mappings */
    struct env *env;
    struct sim_array *array;
    uint64_t populated;        /* bytes, against the host's bound */
    struct sim_memory *memory; /* NULL: anonymous, handed over, or its process has crashed */
};

/* Memory that was handed over and not taken. */
struct sim_handed {
    struct list_link link; /* in conn->handed_over */
    struct sim_array *array;
};

static void array_release(struct sim_array *array)
{
    if (array == NULL || --array->users > 0)
        return;
    free(array->at);
    free(array);
}

static struct sim_array *array_create(size_t size)
{
    size_t align = size >= LARGE_PAGE_SIZE ? LARGE_PAGE_SIZE : PAGE_SIZE;
    size_t rounded = (size + align - 1) & ~(align - 1);
    struct sim_array *array = calloc(1, sizeof *array);

    if (array == NULL)
        return NULL;
    array->users = 1;
    array->size = size;
    array->at = aligned_alloc(align, rounded);
    if (array->at == NULL) {
        free(array);
        return NULL;
    }
    memset(array->at, 0, size);
    return array;
}

static struct sim_array *array_use(struct sim_array *array)
{
    array->users++;
    return array;
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
    array_release(memory->array);
    array_release(memory->guests);
    free(memory->path);
    free(memory);
}

static struct sim_memory *memory_create(struct world_host *host, const char *path, size_t size)
{
    struct sim_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return NULL;
    memory->path = strdup(path);
    memory->array = array_create(size);
    list_push(&host->memories, &memory->link);
    if (memory->path != NULL && memory->array != NULL)
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

/* A guest sees it still. */
static bool has_guests(struct sim_memory *memory)
{
    if (memory->guests != NULL && memory->guests->users == 1) {
        array_release(memory->guests);
        memory->guests = NULL;
    }
    return memory->guests != NULL || (memory->mapping == NULL && memory->array->users > 1);
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
    if (*existed && ((*memory)->mapping != NULL || has_guests(*memory)))
        return SNOW_IN_USE;
    if (*existed && (*memory)->array->size != size)
        return SNOW_INVALID;
    if (!*existed)
        *memory = memory_create(host, path, size);
    return *memory == NULL ? SNOW_NO_SPACE : SNOW_OK;
}

uint64_t env_memory_total(struct env *env)
{
    return env->host->memory_max == 0 ? UINT64_MAX : env->host->memory_max;
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
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);

    if (mapping == NULL)
        return SNOW_NO_MEMORY;
    if (dir != NULL)
        status = open_named(env->host, dir, name, size, &named, &existed);
    if (status == SNOW_OK) {
        mapping->array = named != NULL ? array_use(named->array) : array_create(size);
        if (mapping->array == NULL)
            status = SNOW_NO_SPACE;
    }
    if (status != SNOW_OK) {
        free(mapping);
        return status;
    }
    mapping->env = env;
    mapping->memory = named;
    if (named != NULL)
        named->mapping = mapping;
    list_push(&env->mappings, &mapping->link);
    *memory = (struct env_memory){.at = mapping->array->at,
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
    array_release(mapping->array);
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
        struct sim_array *kept = array_create(memory->array->size);

        if (kept == NULL) {
            memory_free(memory); /* lost */
            continue;
        }
        memcpy(kept->at, memory->array->at, kept->size);
        /* The dead process has one share, the host's own is another; more are guests'. */
        array_release(memory->guests);
        memory->guests = memory->array->users > 2 ? array_use(memory->array) : NULL;
        array_release(memory->array);
        memory->array = kept;
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

/* ---- handing over --------------------------------------------------------------------------- */

void env_memory_seal(struct env_memory *memory)
{
    (void)memory; /* nothing in a simulation maps what it was not given */
}

enum snow_status env_memory_send(struct env_conn *conn, const struct env_memory *memory,
                                 bool writable)
{
    struct sim_mapping *mapping = memory->private_state;
    struct env_conn *to;
    struct sim_handed *handed;

    (void)writable;
    if (!conn->local || conn->state != NET_OPEN)
        return SNOW_INVALID;
    if (conn->side == NULL || conn->side->broken)
        return SNOW_CLOSED;
    to = net_other(conn->side)->conn;
    handed = to == NULL ? NULL : calloc(1, sizeof *handed);
    if (handed == NULL)
        return SNOW_CLOSED;
    handed->array = array_use(mapping->array);
    list_push(&to->handed_over, &handed->link);
    return SNOW_OK;
}

enum snow_status env_memory_take(struct env_conn *conn, bool trusted, struct env_memory *memory)
{
    struct env *env = conn->loop->env;
    struct list_link *link = list_pop(&conn->handed_over);
    struct sim_mapping *mapping;

    (void)trusted;
    if (!conn->local)
        return SNOW_INVALID;
    if (link == NULL)
        return SNOW_NOT_READY;
    struct sim_handed *handed = list_entry(link, struct sim_handed, link);
    struct sim_array *array = handed->array;

    free(handed);
    mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL) {
        array_release(array);
        return SNOW_NO_MEMORY;
    }
    mapping->env = env;
    mapping->array = array;
    list_push(&env->mappings, &mapping->link);
    *memory = (struct env_memory){.at = array->at,
                                  .size = array->size,
                                  .page_size = PAGE_SIZE,
                                  .existed = true,
                                  .descriptor = -1,
                                  .private_state = mapping};
    return SNOW_OK;
}

bool env_conn_is_same_user(const struct env_conn *conn)
{
    return conn->local;
}

struct env_peer {
    struct world_host *host;
    uint64_t id; /* of the process */
};

struct env_peer *env_peer_open(struct env_conn *conn)
{
    struct env_peer *peer;
    struct env_conn *other;

    if (!conn->local || conn->side == NULL)
        return NULL;
    other = net_other(conn->side)->conn;
    peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->host = conn->loop->env->host;
    peer->id = other == NULL ? 0 : other->loop->env->id;
    return peer;
}

bool env_peer_is_alive(const struct env_peer *peer)
{
    list_each (&peer->host->processes, link, following) {
        const struct env *env = list_entry(link, struct env, link);

        if (env->id == peer->id)
            return !env->dead;
    }
    return false;
}

void env_peer_close(struct env_peer *peer)
{
    free(peer);
}

void env_memory_drop_handed(struct env_conn *conn)
{
    struct list_link *link;

    while ((link = list_pop(&conn->handed_over)) != NULL) {
        struct sim_handed *handed = list_entry(link, struct sim_handed, link);

        array_release(handed->array);
        free(handed);
    }
}

const struct region_source *env_large_pages(void)
{
    return NULL;
}
