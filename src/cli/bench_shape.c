#include "cli/bench_shape.h"

#include "transport/tcp.h"
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

/* What the messages of a row are made of. */
struct sample {
    struct bench *bench;
    const struct bench_row *row;
    uint8_t *room; /* LIMIT_BODY_SIZE */
    uint8_t key[BENCH_KEY_SIZE];
    struct wire_place places[BENCH_NODES_MAX];
    bool failed;
};

enum direction { REQUEST, REPLY, ONEWAY };

static uint32_t frame_size(struct sample *sample, enum direction direction, uint16_t type,
                           const void *message)
{
    struct writer writer;
    enum snow_status status;

    writer_init(&writer, sample->room, LIMIT_BODY_SIZE, WIRE_VERSION);
    if (direction == REQUEST)
        status = wire_request_encode(type, message, &writer);
    else if (direction == REPLY)
        status = wire_reply_encode(type, message, &writer);
    else
        status = wire_oneway_encode(type, message, &writer);
    if (status != SNOW_OK)
        sample->failed = true;
    return FRAME_HEADER_SIZE + (uint32_t)writer_size(&writer);
}

static void *array(struct sample *sample, size_t count, size_t size)
{
    void *made = calloc(count, size);

    if (made == NULL)
        sample->failed = true;
    return made;
}

/* ---- with the master ------------------------------------------------------------------------ */

static struct bench_exchange lookup(struct sample *sample)
{
    enum bench_op op = sample->row->op;
    bool places = op == BENCH_GET || op == BENCH_VIEW;
    uint32_t batch = sample->row->batch;
    struct wire_key *keys = array(sample, batch, sizeof(*keys));
    struct wire_found *found = array(sample, batch, sizeof(*found));
    struct wire_lookup_req ask = {.keys = keys, .keys_count = batch};
    struct wire_lookup_rep answer = {.items = found, .items_count = batch};
    struct wire_id id = {0};
    struct wire_lease_return_msg lease = {.operations = &id, .operations_count = 1};
    struct wire_hold_return_req hold = {.operations = &id, .operations_count = 1};
    struct wire_hold_return_rep held = {.returned = 1};
    struct bench_exchange exchange = {0};

    for (uint32_t i = 0; i < batch && !sample->failed; i++) {
        keys[i].key = bytes_of(sample->key, BENCH_KEY_SIZE);
        found[i].places = sample->places;
        found[i].places_count = places ? 1 : 0;
    }
    if (!sample->failed) {
        exchange.ask_size = frame_size(sample, REQUEST, WIRE_lookup, &ask);
        exchange.answer_size = frame_size(sample, REPLY, WIRE_lookup, &answer);
    }
    if (op == BENCH_GET) /* the lease of a read is returned */
        exchange.ask_size += frame_size(sample, ONEWAY, WIRE_lease_return, &lease);
    if (op == BENCH_VIEW) { /* so is what was held for views, and that is answered */
        exchange.ask_size += frame_size(sample, REQUEST, WIRE_hold_return, &hold);
        exchange.answer_size += frame_size(sample, REPLY, WIRE_hold_return, &held);
    }
    free(keys);
    free(found);
    return exchange;
}

static struct bench_exchange put_start(struct sample *sample)
{
    uint32_t batch = sample->row->batch;
    struct wire_put_item *items = array(sample, batch, sizeof(*items));
    struct wire_put_grant *grants = array(sample, batch, sizeof(*grants));
    struct wire_put_start_req ask = {.items = items, .items_count = batch};
    struct wire_put_start_rep answer = {.items = grants, .items_count = batch};
    struct bench_exchange exchange = {0};

    for (uint32_t i = 0; i < batch && !sample->failed; i++) {
        items[i].key = bytes_of(sample->key, BENCH_KEY_SIZE);
        grants[i].places = sample->places;
        grants[i].places_count = sample->row->replicas;
    }
    if (!sample->failed) {
        exchange.ask_size = frame_size(sample, REQUEST, WIRE_put_start, &ask);
        exchange.answer_size = frame_size(sample, REPLY, WIRE_put_start, &answer);
    }
    free(items);
    free(grants);
    return exchange;
}

static struct bench_exchange put_end(struct sample *sample)
{
    uint32_t batch = sample->row->batch;
    struct wire_written *written = array(sample, batch, sizeof(*written));
    struct wire_item_status *statuses = array(sample, batch, sizeof(*statuses));
    struct wire_put_end_req ask = {.items = written, .items_count = batch};
    struct wire_put_end_rep answer = {.items = statuses, .items_count = batch};
    struct bench_exchange exchange = {0};

    for (uint32_t i = 0; i < batch && !sample->failed; i++)
        written[i].key = bytes_of(sample->key, BENCH_KEY_SIZE);
    if (!sample->failed) {
        exchange.ask_size = frame_size(sample, REQUEST, WIRE_put_end, &ask);
        exchange.answer_size = frame_size(sample, REPLY, WIRE_put_end, &answer);
    }
    free(written);
    free(statuses);
    return exchange;
}

/* ---- with a node ---------------------------------------------------------------------------- */

static struct bench_exchange read_frame(struct sample *sample, uint32_t count)
{
    struct wire_read_item *items = array(sample, count, sizeof(*items));
    struct wire_read_done *done = array(sample, count, sizeof(*done));
    struct wire_read_req ask = {.items = items, .items_count = count};
    struct wire_read_rep answer = {.items = done, .items_count = count};
    struct bench_exchange exchange = {.answer_pieces = count};

    if (!sample->failed) {
        exchange.ask_size = frame_size(sample, REQUEST, WIRE_read, &ask);
        exchange.answer_size = frame_size(sample, REPLY, WIRE_read, &answer);
    }
    free(items);
    free(done);
    return exchange;
}

static struct bench_exchange write_frame(struct sample *sample, uint32_t count)
{
    struct wire_write_item *items = array(sample, count, sizeof(*items));
    struct wire_write_done *done = array(sample, count, sizeof(*done));
    struct wire_write_req ask = {.items = items, .items_count = count};
    struct wire_write_rep answer = {.items = done, .items_count = count};
    struct bench_exchange exchange = {.ask_pieces = count};

    for (uint32_t i = 0; i < count && !sample->failed; i++)
        items[i].key = bytes_of(sample->key, BENCH_KEY_SIZE);
    if (!sample->failed) {
        exchange.ask_size = frame_size(sample, REQUEST, WIRE_write, &ask);
        exchange.answer_size = frame_size(sample, REPLY, WIRE_write, &answer);
    }
    free(items);
    free(done);
    return exchange;
}

/* The transport cuts the batch as it would, for a node that is not there. */
static bool cut(struct sample *sample, const struct transport_options *options,
                struct bench_shape *shape)
{
    const struct bench_row *row = sample->row;
    struct transport_item *items = array(sample, row->batch, sizeof(*items));
    struct wire_place place = {.length = row->size};
    struct tcp tcp = {.options = *options};
    struct tcp_link link = {.base = {.transport = &tcp.base}};
    struct transport_op op = {.write = row->op == BENCH_PUT, .first = items};

    for (uint32_t i = 0; i < TRANSPORT_LANES_MAX; i++) {
        link.lanes[i].link = &link;
        list_init(&link.lanes[i].queue);
        list_init(&link.lanes[i].sent);
    }
    for (uint32_t i = 0; i < row->batch && !sample->failed; i++) {
        items[i] = (struct transport_item){.place = &place,
                                           .size = row->size,
                                           .next = i + 1 < row->batch ? &items[i + 1] : NULL,
                                           .key = bytes_of(sample->key, BENCH_KEY_SIZE)};
        transport_item_set_memory(&items[i], sample->room);
    }
    if (sample->failed || tcp_frame_cut(&link, &op) != SNOW_OK) {
        free(items);
        return false;
    }
    list_each (&op.frames, at, next) {
        const struct tcp_frame *frame = list_entry(at, struct tcp_frame, of_op);
        struct bench_exchange exchange;

        if (shape->data_count == BENCH_EXCHANGES_MAX) {
            sample->failed = true;
            break;
        }
        exchange = op.write ? write_frame(sample, frame->count) : read_frame(sample, frame->count);
        exchange.piece_size = frame->bytes / frame->count;
        exchange.lane = (uint32_t)(frame->lane - link.lanes);
        shape->data[shape->data_count++] = exchange;
    }
    arena_deinit(&op.arena);
    free(items);
    return !sample->failed;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool bench_shape_make(struct bench *bench, const struct bench_row *row,
                      const struct transport_options *options, struct bench_shape *shape)
{
    struct sample sample = {.bench = bench, .row = row, .room = malloc(LIMIT_BODY_SIZE)};
    bool good = sample.room != NULL;

    *shape = (struct bench_shape){.lanes = options->lanes, .node_count = row->replicas};
    if (good && row->op == BENCH_PUT) {
        shape->master[shape->master_count++] = put_start(&sample);
        shape->master[shape->master_count++] = put_end(&sample);
    } else if (good) {
        shape->master[shape->master_count++] = lookup(&sample);
    }
    if (good && (row->op == BENCH_PUT || row->op == BENCH_GET))
        good = cut(&sample, options, shape);
    good = good && !sample.failed;
    if (!good)
        cli_error(bench->cli, "a call of that size has more messages than a limit program can say");
    free(sample.room);
    return good;
}

uint64_t bench_shape_bytes(const struct bench_shape *shape)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < shape->master_count; i++)
        bytes += bench_ask_bytes(&shape->master[i]) + bench_answer_bytes(&shape->master[i]);
    for (uint32_t i = 0; i < shape->data_count; i++)
        bytes += shape->node_count *
                 (bench_ask_bytes(&shape->data[i]) + bench_answer_bytes(&shape->data[i]));
    return bytes;
}
