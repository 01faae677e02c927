/* Any bytes as the slots that an earlier process left: the segment opens with whole slots only,
 * or is refused. */
#include "base/assert.h"
#include "env/linux.h"
#include "node/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DATA_SIZE (64 * KIB)
#define SLOT_BYTES (4 * KIB)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *folder(char *path, size_t room)
{
    snprintf(path, room, "/dev/shm/snowskin-fuzz-%d", (int)getpid());
    return path;
}

/* Each 48 bytes of input change one slot: what a crash, or a damaged page, may leave. */
static void scribble(struct slots *slots, const uint8_t *data, size_t size)
{
    while (size >= 8) {
        uint8_t *table = (uint8_t *)slots->table;
        size_t at = (data[0] | (size_t)data[1] << 8) % (slots->count * sizeof(struct slot));

        table[at] = data[2];
        if (data[3] & 1)
            ((uint8_t *)slots->header)[data[4] % sizeof(*slots->header)] = data[5];
        if (data[3] & 2) {
            struct slot *slot = &slots->table[data[6] % slots->count];
            struct wire_write_item item = {.slot = data[6] % slots->count,
                                           .gen = slot->floor_gen + 1 + data[7],
                                           .offset = data[6] % 16 * SLOT_BYTES,
                                           .length = data[7] * 16u,
                                           .parts = 1,
                                           .key = bytes_of("fuzz", 4)};

            if (slots_begin(slots, &item) == SNOW_OK)
                slots_seal(slots, item.slot, 0, true);
        }
        data += 8;
        size -= 8;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct env *env = env_linux_create();
    struct slots_request request = {.dir = folder(path, sizeof(path)),
                                    .data_size = DATA_SIZE,
                                    .slot_bytes = SLOT_BYTES};
    struct slots slots;
    const char *reason;

    ASSERT(env != NULL);
    if (slots_open(env, &request, &slots, &reason) == SNOW_OK) {
        scribble(&slots, data, size);
        slots_close_memory(&slots);
    }
    if (slots_open(env, &request, &slots, &reason) == SNOW_OK) {
        for (uint32_t i = 0; i < slots.count; i++) {
            const struct slot *slot = &slots.table[i];

            ASSERT(slot->state == WIRE_SLOT_FREE || slot->state == WIRE_SLOT_WRITTEN);
            if (slot->state == WIRE_SLOT_WRITTEN)
                ASSERT(slots_key(&slots, i).size <= DATA_SIZE);
        }
        slots_close_memory(&slots);
    }
    snprintf(path, sizeof(path), "/dev/shm/snowskin-fuzz-%d/meta-0", (int)getpid());
    unlink(path);
    snprintf(path, sizeof(path), "/dev/shm/snowskin-fuzz-%d/data-0", (int)getpid());
    unlink(path);
    rmdir(folder(path, sizeof(path)));
    env_linux_destroy(env);
    return 0;
}
