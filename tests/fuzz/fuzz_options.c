/* Any lines as flags and as variables: an error with a text, or structs within their ranges. */
#include "base/assert.h"
#include "master/options.h"
#include "node/options.h"

#include <stdlib.h>

#define LINES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts text at its newlines; lines[0] is kept for a program's name.  Returns how many there are. */
static int cut(char *text, char **lines)
{
    int count = 1;

    lines[0] = text;
    for (char *at = strtok(text, "\n"); at != NULL && count < LINES_MAX; at = strtok(NULL, "\n"))
        lines[count++] = at;
    lines[count] = NULL;
    return count;
}

static void parse(char *text, bool as_flags)
{
    struct core_options core;
    struct node_options node;
    struct conf_module modules[] = {{master_core_options_table(), &core},
                                    {node_options_table(), &node},
                                    {master_options_table(), NULL}};
    char *lines[LINES_MAX + 1];
    char error_text[512];
    struct arena arena;
    struct conf conf;
    struct text error;
    enum snow_status status;

    int count = cut(text, lines);
    arena_init(&arena, 4 * MIB);
    text_init(&error, error_text, sizeof(error_text));
    ASSERT(conf_init(&conf, modules, 3, &arena, &error) == SNOW_OK);
    if (as_flags)
        status = conf_parse_flags(&conf, &count, lines);
    else
        status = conf_parse_environment(&conf, (const char *const *)lines);
    ASSERT((status == SNOW_OK) == (error.used == 0));
    ASSERT(count >= 1 && count <= LINES_MAX);
    ASSERT(core.hard_pin_percent <= 90 && node.slot_bytes >= 256);
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL || size < 1) {
        free(text);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    parse(text + 1, (text[0] & 1) != 0);
    free(text);
    return 0;
}
