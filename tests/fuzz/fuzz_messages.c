/* Any bytes as any record, {index u8, version u8, bytes}:
 * what decodes prints, and encodes to the same bytes. */
#include "base/assert.h"
#include "base/limits.h"
#include "wire/messages.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct wire_record *record, struct bytes input, uint32_t version,
                  const void *message)
{
    struct writer writer;
    struct text text;
    char line[512];
    uint8_t *again = malloc(input.size + 1);

    text_init(&text, line, sizeof(line));
    record->print(&text, message);
    ASSERT(text.used < sizeof(line) && line[text.used] == '\0');
    if (again != NULL) {
        writer_init(&writer, again, input.size, version);
        record->encode(&writer, message);
        ASSERT(!writer.failed && writer_size(&writer) <= input.size);
        ASSERT(version > WIRE_VERSION || writer_size(&writer) == input.size);
        ASSERT(input.size == 0 || memcmp(again, input.at, writer_size(&writer)) == 0);
    }
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    void *message;

    if (size < 2)
        return 0;
    const struct wire_record *record = wire_record_at(data[0] % wire_record_count());
    struct bytes input = bytes_of(data + 2, size - 2);
    arena_init(&arena, 4 * MIB);
    if (wire_record_decode(record, input, data[1], &arena, &message) == SNOW_OK)
        check(record, input, data[1], message);
    arena_deinit(&arena);
    return 0;
}
