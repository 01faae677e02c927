/* Any bytes as a file of settings: an error with a text, or structs within their ranges. */
#include "base/assert.h"
#include "master/options.h"
#include "node/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core_options core;
    struct node_options node;
    struct conf_module modules[] = {{master_core_options_table(), &core},
                                    {node_options_table(), &node},
                                    {master_options_table(), NULL}};
    struct arena arena;
    struct conf conf;
    struct text error;
    char error_text[512];

    arena_init(&arena, 4 * MIB);
    text_init(&error, error_text, sizeof(error_text));
    ASSERT(conf_init(&conf, modules, 3, &arena, &error) == SNOW_OK);
    enum snow_status status = conf_parse_yaml(&conf, "fuzz.yaml", bytes_of(data, size));
    ASSERT((status == SNOW_OK) == (error.used == 0));
    ASSERT(core.lease_min_ns >= MS(1) && core.lease_min_ns <= HOUR(1));
    ASSERT(strlen(node.listen) >= 1 && strlen(node.listen) <= LIMIT_NAME_SIZE);
    arena_deinit(&arena);
    return 0;
}
