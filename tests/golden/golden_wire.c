/* Yesterday's bytes still decode: wire_v<version>.txt holds a line for each record that version
 * of the protocol had, `name hex printed`.
 *
 *   golden_wire                 decodes each line, compares the printed form and the bytes
 *   golden_wire --write FILE    prints the lines that FILE, of the present version, lacks, to be
 *                               appended to it: bytes that are there are never changed (fields
 *                               that a later version added are printed as zero)
 *   golden_wire --corpus DIR    writes inputs for fuzz_messages and fuzz_frame under DIR */
#include "base/limits.h"
#include "wire/frame.h"
#include "wire/messages.h"

#include <stdio.h>
#include <stdlib.h>

#define LINE_SIZE (1u << 20)
#define SEED 7u

static uint32_t file_version = WIRE_VERSION;
static char line[LINE_SIZE];
static char printed[LINE_SIZE];
static uint8_t bytes[LINE_SIZE];
static uint8_t again[LINE_SIZE];

static const struct wire_record *find(const char *name)
{
    for (uint32_t i = 0; i < wire_record_count(); i++) {
        if (strcmp(wire_record_at(i)->name, name) == 0)
            return wire_record_at(i);
    }
    return NULL;
}

static void *random_message(const struct wire_record *record, struct arena *arena, uint64_t seed)
{
    struct rng rng;
    void *message = arena_take(arena, record->size);

    rng_init(&rng, seed);
    record->random(&rng, arena, message);
    return message;
}

static size_t encode(const struct wire_record *record, const void *message, uint8_t *to)
{
    struct writer writer;

    writer_init(&writer, to, LINE_SIZE, file_version);
    record->encode(&writer, message);
    return writer.failed ? 0 : writer_size(&writer);
}

static size_t unhex(const char *hex, uint8_t *to)
{
    size_t size = 0;

    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        unsigned value;

        if (sscanf(hex, "%2x", &value) != 1)
            break;
        to[size++] = (uint8_t)value;
    }
    return size;
}

/* One line of the file: 0 when it still means what it meant. */
static int check_line(struct arena *arena)
{
    char *name = strtok(line, " \n");
    char *hex = strtok(NULL, " \n");
    char *expected = strtok(NULL, "\n");
    const struct wire_record *record = name == NULL ? NULL : find(name);
    struct text text;
    void *message;

    if (record == NULL || hex == NULL || expected == NULL) {
        fprintf(stderr, "golden_wire: no such record any more: %s\n", name == NULL ? "" : name);
        return 1;
    }
    size_t size = unhex(hex, bytes);
    if (wire_record_decode(record, bytes_of(bytes, size), file_version, arena, &message) !=
        SNOW_OK) {
        fprintf(stderr, "golden_wire: old bytes of %s do not decode any more\n", name);
        return 1;
    }
    text_init(&text, printed, sizeof(printed));
    record->print(&text, message);
    if (strcmp(printed, expected) != 0) {
        fprintf(stderr,
                "golden_wire: old bytes of %s mean something else now:\n  was %s\n  is  %s\n", name,
                expected, printed);
        return 1;
    }
    if (encode(record, message, again) != size || memcmp(bytes, again, size) != 0) {
        fprintf(stderr, "golden_wire: %s encodes to other bytes now\n", name);
        return 1;
    }
    return 0;
}

static bool has_line(FILE *file, const char *name)
{
    size_t size = strlen(name);

    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, size) == 0 && line[size] == ' ')
            return true;
    }
    return false;
}

static int check_file(struct arena *arena)
{
    char path[sizeof(SOURCE_DIR) + 64];
    int failures = 0;

    snprintf(path, sizeof(path), SOURCE_DIR "/tests/golden/wire_v%u.txt", file_version);
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        fprintf(stderr, "golden_wire: cannot open %s\n", path);
        return 1;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        failures += check_line(arena);
        arena_reset(arena);
    }
    for (uint32_t i = 0; i < wire_record_count() && file_version == WIRE_VERSION; i++) {
        if (!has_line(file, wire_record_at(i)->name)) {
            fprintf(stderr,
                    "golden_wire: no line for %s; append what golden_wire --write %s says\n",
                    wire_record_at(i)->name, path);
            failures++;
        }
    }
    fclose(file);
    return failures == 0 ? 0 : 1;
}

static int write_missing(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "r");

    for (uint32_t i = 0; i < wire_record_count(); i++) {
        const struct wire_record *record = wire_record_at(i);
        struct text text;

        if (file != NULL && has_line(file, record->name))
            continue;
        void *message = random_message(record, arena, SEED + i);
        size_t size = encode(record, message, bytes);
        printf("%s ", record->name);
        for (size_t at = 0; at < size; at++)
            printf("%02x", bytes[at]);
        text_init(&text, printed, sizeof(printed));
        record->print(&text, message);
        printf(" %s\n", printed);
        arena_reset(arena);
    }
    if (file != NULL)
        fclose(file);
    return 0;
}

static int write_file(const char *folder, const char *target, const char *name, struct bytes data)
{
    snprintf(line, sizeof(line), "%s/%s/%s", folder, target, name);
    FILE *file = fopen(line, "wb");

    if (file == NULL || fwrite(data.at, 1, data.size, file) != data.size) {
        fprintf(stderr, "golden_wire: cannot write %s\n", line);
        if (file != NULL)
            fclose(file);
        return 1;
    }
    return fclose(file) == 0 ? 0 : 1;
}

/* Inputs: fuzz_messages takes {record index u8, version u8, bytes}; fuzz_frame a stream. */
static int write_corpus(struct arena *arena, const char *folder)
{
    int failures = 0;

    for (uint32_t i = 0; i < wire_record_count(); i++) {
        const struct wire_record *record = wire_record_at(i);

        bytes[0] = (uint8_t)i;
        bytes[1] = WIRE_VERSION;
        size_t size = encode(record, random_message(record, arena, SEED + i), bytes + 2);
        failures += write_file(folder, "fuzz_messages", record->name, bytes_of(bytes, size + 2));
        arena_reset(arena);
    }
    for (uint8_t kind = FRAME_REQUEST; kind <= FRAME_ONEWAY; kind++) {
        struct frame_header header = {.version = WIRE_VERSION, .kind = kind, .request_id = 1};
        char name[32];

        memcpy(bytes + FRAME_HEADER_SIZE, "a body", 6);
        if (kind != FRAME_CANCEL)
            frame_header_set_body(&header, bytes_of(bytes + FRAME_HEADER_SIZE, 6));
        frame_header_encode(&header, bytes);
        snprintf(name, sizeof(name), "kind_%u", kind);
        failures += write_file(folder, "fuzz_frame", name,
                               bytes_of(bytes, FRAME_HEADER_SIZE + header.body_size));
    }
    return failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arena arena;
    int result = 0;

    arena_init(&arena, 64 * MIB);
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        result = write_missing(&arena, argv[2]);
    else if (argc == 3 && strcmp(argv[1], "--corpus") == 0)
        result = write_corpus(&arena, argv[2]);
    else
        for (file_version = WIRE_VERSION_MIN; file_version <= WIRE_VERSION; file_version++)
            result |= check_file(&arena);
    arena_deinit(&arena);
    return result;
}
