#include "master/state.h"

#include "base/hash.h"
#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>

#define STATE_MAGIC 0x54534e53u /* "SNST" */
#define STATE_VERSION 1u
#define STATE_HEAD 12u
#define STATE_SIZE_MAX (64 * KIB)

_Static_assert(STATE_SIZE_MAX >= LIMIT_NODES * 8 + 64, "the file holds all nodes");

static bool path_of(const char *dir, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/state", dir);

    return length > 0 && (size_t)length < size;
}

enum snow_status master_state_read(struct env *env, const char *dir, struct arena *arena,
                                   struct wire_master_state *state)
{
    char path[4200];
    uint8_t *data;
    size_t size;

    if (!path_of(dir, path, sizeof(path)))
        return SNOW_INVALID;
    enum snow_status status = env_file_read(env, path, STATE_SIZE_MAX, &data, &size);

    if (status != SNOW_OK)
        return status;
    uint8_t *copy = arena_take(arena, size + 1);
    struct reader reader;

    if (copy == NULL) {
        free(data);
        return SNOW_NO_MEMORY;
    }
    memcpy(copy, data, size);
    free(data);
    reader_init(&reader, bytes_of(copy, size), WIRE_VERSION);
    uint32_t magic = reader_u32(&reader);
    uint32_t version = reader_u32(&reader);
    uint32_t crc = reader_u32(&reader);

    if (reader.failed || magic != STATE_MAGIC || version != STATE_VERSION ||
        crc != crc32c(0, copy + STATE_HEAD, size - STATE_HEAD))
        return SNOW_INVALID;
    wire_master_state_decode(&reader, arena, state);
    return reader.failed || reader_left(&reader) != 0 ? SNOW_INVALID : SNOW_OK;
}

enum snow_status master_state_write(struct env *env, const char *dir,
                                    const struct wire_master_state *state)
{
    char path[4200];
    uint8_t *data;
    struct writer writer;

    if (!path_of(dir, path, sizeof(path)))
        return SNOW_INVALID;
    data = malloc(STATE_SIZE_MAX);
    if (data == NULL)
        return SNOW_NO_MEMORY;
    writer_init(&writer, data + STATE_HEAD, STATE_SIZE_MAX - STATE_HEAD, WIRE_VERSION);
    wire_master_state_encode(&writer, state);
    size_t size = writer_size(&writer);
    struct writer head;

    writer_init(&head, data, STATE_HEAD, WIRE_VERSION);
    writer_u32(&head, STATE_MAGIC);
    writer_u32(&head, STATE_VERSION);
    writer_u32(&head, crc32c(0, data + STATE_HEAD, size));
    enum snow_status status = writer.failed || head.failed
                                  ? SNOW_LIMIT
                                  : env_file_replace(env, path, bytes_of(data, STATE_HEAD + size));

    free(data);
    return status;
}
