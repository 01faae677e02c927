/* bench core: the master's table alone. */
#include "cli/bench.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_SIZE 64u
#define BATCH 128u

int bench_core(struct cli *cli)
{
    struct bench bench = {.cli = cli};
    uint64_t objects = cli->bench.objects;
    double bytes = 0;
    double ns = bench_table_measure(&bench, objects, KEY_SIZE, BATCH, &bytes);

    if (ns == 0)
        return CLI_FAILED;
    if (cli->options.json) {
        json_t *row =
            json_pack("{s:s, s:I, s:f, s:f}", "op", "core", "objects", (json_int_t)objects,
                      "keys_per_s", 1e9 / ns, "bytes_per_object", bytes);
        char *text = json_dumps(row, JSON_PRESERVE_ORDER);

        puts(text == NULL ? "{}" : text);
        free(text);
        json_decref(row);
        return CLI_DONE;
    }
    printf("objects            %" PRIu64 " with %u-byte keys\n", objects, KEY_SIZE);
    printf("bytes per object   %.1f (key included; growth of resident memory)\n", bytes);
    printf("look-ups           %.2f million keys a second on one core, parsed and answered, "
           "batches of %u\n",
           1e3 / ns, BATCH);
    return CLI_DONE;
}
