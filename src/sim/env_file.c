/* Files of a host: replaced whole, so that a crash finds the old or the new one. */
#include "sim/env_body.h"

#include <stdlib.h>

struct sim_file {
    struct list_link link; /* in host->files */
    char *path;
    uint8_t *bytes;
    size_t size;
};

struct sim_lock {
    struct list_link link; /* in env->locks */
    char *path;
};

static struct sim_file *find(struct world_host *host, const char *path)
{
    list_each (&host->files, link, following) {
        struct sim_file *file = list_entry(link, struct sim_file, link);

        if (strcmp(file->path, path) == 0)
            return file;
    }
    return NULL;
}

static uint8_t *copy_of(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    if (copy != NULL && size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

enum snow_status env_file_read(struct env *env, const char *path, size_t size_max, uint8_t **data,
                               size_t *size)
{
    struct sim_file *file = find(env->host, path);

    if (env->dead)
        return SNOW_CLOSED;
    if (file == NULL)
        return SNOW_NOT_FOUND;
    if (file->size > size_max)
        return SNOW_LIMIT;
    uint8_t *copy = copy_of(file->bytes, file->size);

    if (copy == NULL)
        return SNOW_NO_MEMORY;
    *data = copy;
    *size = file->size;
    return SNOW_OK;
}

static void file_free(struct sim_file *file)
{
    list_remove(&file->link);
    free(file->path);
    free(file->bytes);
    free(file);
}

enum snow_status env_file_replace(struct env *env, const char *path, struct bytes data)
{
    struct sim_file *old = find(env->host, path);
    struct sim_file *file;

    if (env->dead)
        return SNOW_CLOSED;
    file = calloc(1, sizeof *file);
    if (file == NULL)
        return SNOW_NO_MEMORY;
    list_push(&env->host->files, &file->link);
    file->path = strdup(path);
    file->bytes = copy_of(data.at, data.size);
    file->size = data.size;
    if (file->path == NULL || file->bytes == NULL) {
        file_free(file);
        return SNOW_NO_MEMORY;
    }
    if (old != NULL)
        file_free(old);
    sim_hash_bytes(env->world, data.at, data.size);
    return SNOW_OK;
}

static bool is_locked(struct world_host *host, const char *path)
{
    list_each (&host->processes, link, following) {
        struct env *env = list_entry(link, struct env, link);

        list_each (&env->locks, lock_link, lock_following) {
            if (strcmp(list_entry(lock_link, struct sim_lock, link)->path, path) == 0)
                return true;
        }
    }
    return false;
}

enum snow_status env_dir_lock(struct env *env, const char *path)
{
    if (env->dead)
        return SNOW_CLOSED;
    if (is_locked(env->host, path))
        return SNOW_IN_USE;
    struct sim_lock *lock = calloc(1, sizeof *lock);
    char *copy = strdup(path);

    if (lock == NULL || copy == NULL) {
        free(lock);
        free(copy);
        return SNOW_NO_MEMORY;
    }
    lock->path = copy;
    list_push(&env->locks, &lock->link);
    return SNOW_OK;
}

void sim_file_unlock(struct env *env)
{
    struct list_link *link;

    while ((link = list_pop(&env->locks)) != NULL) {
        struct sim_lock *lock = list_entry(link, struct sim_lock, link);

        free(lock->path);
        free(lock);
    }
}

void sim_file_free(struct world_host *host)
{
    struct list_link *link;

    while ((link = list_first(&host->files)) != NULL)
        file_free(list_entry(link, struct sim_file, link));
}
