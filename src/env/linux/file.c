/* Small files: read whole, replaced whole, folders locked. */
#include "env/linux/body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

static enum snow_status read_all(int file, size_t size_max, uint8_t **data, size_t *size)
{
    size_t room = 4096;
    size_t have = 0;
    uint8_t *bytes = malloc(room);

    while (bytes != NULL) {
        ssize_t got = read(file, bytes + have, room - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || have + (size_t)got > size_max) {
            free(bytes);
            return got < 0 ? SNOW_INVALID : SNOW_LIMIT;
        }
        if (got == 0) {
            *data = bytes;
            *size = have;
            return SNOW_OK;
        }
        have += (size_t)got;
        if (have == room) {
            uint8_t *larger = realloc(bytes, room *= 2);

            if (larger == NULL)
                free(bytes);
            bytes = larger;
        }
    }
    return SNOW_NO_MEMORY;
}

enum snow_status env_file_read(struct env *env, const char *path, size_t size_max, uint8_t **data,
                               size_t *size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    (void)env;
    if (file < 0)
        return errno == ENOENT ? SNOW_NOT_FOUND : SNOW_INVALID;
    enum snow_status status = read_all(file, size_max, data, size);

    close(file);
    return status;
}

static bool write_all(int file, struct bytes data)
{
    while (data.size > 0) {
        ssize_t put = write(file, data.at, data.size);

        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            data.at += put;
            data.size -= (size_t)put;
        }
    }
    return fsync(file) == 0;
}

/* Makes the rename itself survive a crash. */
static bool sync_folder_of(const char *path)
{
    char folder[PATH_SIZE];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);

    if (slash == NULL)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s", size == 0 ? 1 : (int)size, path);
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = dir >= 0 && fsync(dir) == 0;

    if (dir >= 0)
        close(dir);
    return synced;
}

enum snow_status env_file_replace(struct env *env, const char *path, struct bytes data)
{
    char temporary[PATH_SIZE];

    (void)env;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        return SNOW_INVALID;
    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (file < 0)
        return SNOW_INVALID;
    bool written = write_all(file, data);
    int error = errno;

    close(file);
    if (written && rename(temporary, path) == 0 && sync_folder_of(path))
        return SNOW_OK;
    if (!written)
        unlink(temporary);
    return !written && (error == ENOSPC || error == EDQUOT) ? SNOW_NO_SPACE : SNOW_INVALID;
}

enum snow_status env_dir_lock(struct env *env, const char *path)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return SNOW_INVALID;
    int dir = descriptors_keep(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    if (dir < 0)
        return SNOW_INVALID;
    if (flock(dir, LOCK_EX | LOCK_NB) != 0) {
        bool held = errno == EWOULDBLOCK;

        descriptors_close(dir);
        return held ? SNOW_IN_USE : SNOW_INVALID;
    }
    pthread_mutex_lock(&env->mutex);
    int *more = realloc(env->locked_dirs, (env->locked_dir_count + 1) * sizeof *more);

    if (more != NULL) {
        env->locked_dirs = more;
        env->locked_dirs[env->locked_dir_count++] = dir;
    }
    pthread_mutex_unlock(&env->mutex);
    if (more != NULL)
        return SNOW_OK;
    descriptors_close(dir);
    return SNOW_NO_MEMORY;
}
