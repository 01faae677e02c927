#include "trace/trace.h"

#include "base/limits.h"

#include <jansson.h>
#include <stdlib.h>

struct parse {
    struct trace *trace;
    struct text *error;
    uint64_t line;
    uint64_t request_room;
    uint64_t block_room;
};

static enum snow_status wrong(struct parse *parse, const char *what)
{
    text_add(parse->error, "line %llu: %s", (unsigned long long)parse->line, what);
    return SNOW_INVALID;
}

static bool reserve(void **items, uint64_t *room, uint64_t count, size_t size)
{
    uint64_t grown = *room == 0 ? 1024 : *room;
    void *moved;

    if (count <= *room)
        return true;
    while (grown < count)
        grown *= 2;
    moved = realloc(*items, grown * size);
    if (moved == NULL)
        return false;
    *items = moved;
    *room = grown;
    return true;
}

static enum snow_status add_request(struct parse *parse, const json_t *root)
{
    struct trace *trace = parse->trace;
    const json_t *at = json_object_get(root, "timestamp");
    const json_t *ids = json_object_get(root, "hash_ids");
    size_t count = json_array_size(ids);

    if (!json_is_number(at) || json_number_value(at) < 0 || json_number_value(at) > 1e15)
        return wrong(parse, "\"timestamp\" is no number of milliseconds");
    if (!json_is_array(ids) || count == 0 || count > TRACE_BLOCKS_MAX)
        return wrong(parse, "\"hash_ids\" is no list of 1 to 65536 block ids");
    if (!reserve((void **)&trace->requests, &parse->request_room, trace->request_count + 1,
                 sizeof(*trace->requests)) ||
        !reserve((void **)&trace->blocks, &parse->block_room, trace->block_count + count,
                 sizeof(*trace->blocks)))
        return SNOW_NO_MEMORY;
    trace->requests[trace->request_count++] =
        (struct trace_request){.at_ms = (uint64_t)json_number_value(at),
                               .first = trace->block_count,
                               .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(ids, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return wrong(parse, "\"hash_ids\" holds something that is no block id");
        trace->blocks[trace->block_count++] = (uint64_t)json_integer_value(id);
    }
    return SNOW_OK;
}

static enum snow_status add_line(struct parse *parse, struct bytes line)
{
    json_error_t error;
    json_t *root = json_loadb((const char *)line.at, line.size, JSON_REJECT_DUPLICATES, &error);
    enum snow_status status;

    if (root == NULL)
        return wrong(parse, error.text);
    status = json_is_object(root) ? add_request(parse, root) : wrong(parse, "is no JSON object");
    json_decref(root);
    return status;
}

/* ---- what an infinite cache would do ---- */

/* Open addressing; ids are stored plus one. */
struct seen {
    uint64_t *table;
    uint64_t mask;
};

static bool seen_add(struct seen *seen, uint64_t id)
{
    uint64_t at = id * UINT64_C(0x9e3779b97f4a7c15) >> 20 & seen->mask;

    while (seen->table[at] != 0 && seen->table[at] != id + 1)
        at = (at + 1) & seen->mask;
    if (seen->table[at] != 0)
        return false;
    seen->table[at] = id + 1;
    return true;
}

static enum snow_status count_blocks(struct trace *trace)
{
    struct seen seen = {.mask = 1023};

    while (seen.mask + 1 < trace->block_count * 2)
        seen.mask = seen.mask * 2 + 1;
    seen.table = calloc(seen.mask + 1, sizeof(*seen.table));
    if (seen.table == NULL)
        return SNOW_NO_MEMORY;
    for (uint64_t i = 0; i < trace->request_count; i++) {
        const struct trace_request *request = &trace->requests[i];
        bool whole = true;

        for (uint32_t j = 0; j < request->count; j++) {
            bool fresh = seen_add(&seen, trace->blocks[request->first + j]);

            whole = whole && !fresh;
            trace->distinct += fresh;
            trace->infinite_hits += whole;
        }
    }
    free(seen.table);
    return SNOW_OK;
}

enum snow_status trace_parse(struct bytes data, uint64_t request_max, struct trace *trace,
                             struct text *error)
{
    struct parse parse = {.trace = trace, .error = error};
    enum snow_status status = SNOW_OK;
    size_t at = 0;

    memset(trace, 0, sizeof(*trace));
    while (at < data.size && status == SNOW_OK &&
           (request_max == 0 || trace->request_count < request_max)) {
        const uint8_t *end = memchr(data.at + at, '\n', data.size - at);
        size_t size = end == NULL ? data.size - at : (size_t)(end - data.at) - at;

        parse.line++;
        status =
            size == 0 ? wrong(&parse, "is empty") : add_line(&parse, bytes_of(data.at + at, size));
        at += size + 1;
    }
    if (status == SNOW_OK && trace->request_count == 0) {
        parse.line = 1;
        status = wrong(&parse, "the trace is empty");
    }
    if (status == SNOW_OK)
        status = count_blocks(trace);
    if (status != SNOW_OK)
        trace_free(trace);
    return status;
}

void trace_free(struct trace *trace)
{
    free(trace->requests);
    free(trace->blocks);
    memset(trace, 0, sizeof(*trace));
}
