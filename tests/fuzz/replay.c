/* Runs a fuzz target once over every file of a folder: how each test run replays the corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 4096
#define INPUT_SIZE_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    uint8_t *data = malloc(INPUT_SIZE_MAX);

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (data == NULL || file == NULL) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        free(data);
        return 1;
    }
    size_t size = fread(data, 1, INPUT_SIZE_MAX, file);
    fclose(file);
    uint8_t *exact = malloc(size + 1); /* a sanitizer sees a read past the input */
    if (exact != NULL) {
        memcpy(exact + 1, data, size);
        LLVMFuzzerTestOneInput(exact + 1, size);
    }
    free(exact);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int failures = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int count = scandir(argv[1], &entries, is_file, alphasort);
    if (count <= 0) {
        fprintf(stderr, "replay: no inputs in %s\n", argv[1]);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        failures += replay(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs\n", count);
    return failures == 0 ? 0 : 1;
}
