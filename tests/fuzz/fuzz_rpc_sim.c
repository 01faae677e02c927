/* Any bytes from a peer, before and after a greeting, to the side that dialled or was dialled: the
 * endpoint closes the connection or goes on, answers each request at most once, ends each call
 * once, and writes only where a payload was told to go.
 *
 * Input.  Byte 0: bit 0 greet properly, bit 1 the endpoint dials.  Then steps: an operation byte
 *         and what it needs; a frame gets its checksums, so that what is behind them is reached. */
#include "base/limits.h"
#include "rpc/rpc.h"
#include "sim/world.h"
#include "wire/frame.h"

#include <stdlib.h>

#define CALLS 3
#define KEPT_MAX 64
#define MEMORY_SIZE 4096
#define GUARD 0x5a
#define BODY_MAX 255

struct call {
    struct rpc_call call; /* first */
    struct party *party;
    bool started;
    bool ended;
    struct iovec iov;
    uint8_t memory[MEMORY_SIZE + 1];
};

/* The endpoint under test. */
struct party {
    struct env *env;
    struct env_loop *loop;
    struct rpc *rpc;
    struct rpc_conn *conn;
    struct rpc_request *kept[KEPT_MAX];
    int kept_count;
    struct call calls[CALLS];
    struct iovec iov;
    uint8_t memory[MEMORY_SIZE + 1];
};

/* The other side: a bare stream. */
struct raw {
    struct env *env;
    struct env_loop *loop;
    struct env_conn *conn;
    struct env_listener *listener;
};

struct input {
    const uint8_t *at;
    size_t size;
};

static uint8_t take_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->at++;
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void forget(struct party *party, struct rpc_request *request)
{
    for (int i = 0; i < party->kept_count; i++) {
        if (party->kept[i] == request) {
            party->kept[i] = party->kept[--party->kept_count];
            return;
        }
    }
    abort(); /* gone, or answered, twice */
}

static void answer(struct party *party, struct rpc_request *request)
{
    struct wire_lookup_rep lookup = {.lease_ms = 1};

    forget(party, request);
    if (rpc_request_type(request) == WIRE_lookup)
        rpc_reply(request, &lookup, true);
    else
        rpc_fail(request, SNOW_BUSY);
}

static void on_end(struct rpc_request *request, enum snow_status status)
{
    if (status == SNOW_OK)
        answer(rpc_request_owner(request), request);
}

static void on_request(void *owner, struct rpc_conn *conn, struct rpc_request *request,
                       uint16_t type, const void *message, uint64_t payload_size)
{
    struct party *party = owner;
    struct rpc_payload to = {.iov = &party->iov, .iov_count = 1, .size = MEMORY_SIZE};

    (void)conn;
    (void)message;
    rpc_request_set_owner(request, party);
    if (party->kept_count == KEPT_MAX) {
        rpc_fail(request, SNOW_BUSY);
        return;
    }
    party->kept[party->kept_count++] = request;
    if (type == WIRE_stats)
        rpc_request_keep(request);
    if (payload_size > 0 && type == WIRE_write) {
        party->iov = (struct iovec){.iov_base = party->memory, .iov_len = MEMORY_SIZE};
        rpc_request_receive(request, &to, NULL, on_end);
    }
}

static void on_request_gone(void *owner, struct rpc_request *request)
{
    forget(owner, request);
}

static void on_close(void *owner, struct rpc_conn *conn, enum snow_status status)
{
    struct party *party = owner;

    (void)status;
    if (party->conn == conn)
        party->conn = NULL;
}

static void on_reply(struct rpc_call *call, enum snow_status status, const void *reply, bool last)
{
    struct call *one = (struct call *)call;

    if (one->ended || (status == SNOW_OK) != (reply != NULL) || (status != SNOW_OK && !last))
        abort();
    one->ended = last;
}

static bool on_payload(struct rpc_call *call, const void *reply, uint64_t payload_size,
                       struct rpc_payload *to)
{
    struct call *one = (struct call *)call;
    uint64_t size = payload_size < MEMORY_SIZE ? payload_size : MEMORY_SIZE;

    (void)reply;
    one->iov = (struct iovec){.iov_base = one->memory, .iov_len = size};
    *to = (struct rpc_payload){.iov = &one->iov, .iov_count = 1, .size = size};
    return true;
}

static void start_calls(struct party *party, struct rpc_conn *conn)
{
    struct wire_lookup_req lookup = {.position = 1};
    struct wire_read_req read = {0};
    struct wire_write_req write = {0};
    const void *const messages[CALLS] = {&lookup, &read, &write};
    static const uint16_t types[CALLS] = {WIRE_lookup, WIRE_read, WIRE_write};

    party->conn = conn;
    for (int i = 0; i < CALLS; i++) {
        struct call *one = &party->calls[i];
        struct rpc_payload payload = {.iov = &one->iov, .iov_count = 1, .size = 100};

        one->party = party;
        one->call.on_reply = on_reply;
        one->call.on_payload = on_payload;
        one->iov = (struct iovec){.iov_base = one->memory, .iov_len = 100};
        one->started = rpc_call_start(conn, &one->call, types[i], messages[i],
                                      types[i] == WIRE_write ? &payload : NULL,
                                      env_now_ns(party->env) + NS_PER_S) == SNOW_OK;
    }
}

static void on_open(void *conn_owner, struct rpc_conn *conn, enum snow_status status,
                    const struct wire_hello_rep *hello)
{
    (void)hello;
    if (status == SNOW_OK)
        start_calls(conn_owner, conn);
}

static enum snow_status on_hello(void *owner, struct rpc_conn *conn,
                                 const struct wire_hello_req *hello, struct wire_hello_rep *reply)
{
    struct party *party = owner;

    (void)hello;
    (void)reply;
    party->conn = conn;
    return SNOW_OK;
}

static const struct rpc_service service = {.on_hello = on_hello,
                                           .on_request = on_request,
                                           .on_request_gone = on_request_gone,
                                           .on_close = on_close};

/* ---- the stream ------------------------------------------------------------------------------ */

static void on_raw_open(void *owner, enum snow_status status)
{
    (void)owner;
    (void)status;
}

static void on_raw_readable(void *owner)
{
    struct raw *raw = owner;
    uint8_t sink[4096];
    struct iovec iov = {.iov_base = sink, .iov_len = sizeof sink};

    while (env_conn_receive(raw->conn, &iov, 1) > 0)
        continue;
}

static void on_raw_writable(void *owner)
{
    (void)owner;
}

static const struct env_conn_ops raw_ops = {.on_open = on_raw_open,
                                            .on_readable = on_raw_readable,
                                            .on_writable = on_raw_writable};

static void on_raw_accept(void *owner, struct env_conn *conn)
{
    struct raw *raw = owner;

    if (raw->conn != NULL) {
        env_conn_close(conn, true);
        return;
    }
    raw->conn = conn;
    env_conn_own(conn, &raw_ops, raw);
}

static void raw_send(struct raw *raw, const void *data, size_t size)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};

    /* What the stream does not take is lost: also an input. */
    if (raw->conn != NULL && size > 0 && env_conn_send(raw->conn, &iov, 1) < 0)
        return;
}

static void raw_frame(struct raw *raw, struct frame_header header, struct bytes body)
{
    uint8_t frame[FRAME_HEADER_SIZE + BODY_MAX];

    header.version = 1;
    frame_header_set_body(&header, body);
    frame_header_encode(&header, frame);
    if (body.size > 0)
        memcpy(frame + FRAME_HEADER_SIZE, body.at, body.size);
    raw_send(raw, frame, FRAME_HEADER_SIZE + body.size);
}

static void raw_greet(struct raw *raw, bool endpoint_dialled)
{
    struct wire_hello_req request = {.version_min = 1, .version_max = 1, .role = 1};
    struct wire_hello_rep reply = {.version = 1};
    struct frame_header header = {.kind = endpoint_dialled ? FRAME_REPLY_LAST : FRAME_REQUEST,
                                  .type = WIRE_hello};
    uint8_t body[BODY_MAX];
    struct writer writer;
    enum snow_status status;

    writer_init(&writer, body, sizeof body, 1);
    status = endpoint_dialled ? wire_reply_encode(WIRE_hello, &reply, &writer)
                              : wire_request_encode(WIRE_hello, &request, &writer);
    if (status == SNOW_OK)
        raw_frame(raw, header, bytes_of(body, writer_size(&writer)));
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void step_frame(struct raw *raw, struct input *input)
{
    struct frame_header header = {.kind = (uint8_t)(take_byte(input) % 6)};
    uint8_t body[BODY_MAX];

    header.type = (uint16_t)(take_byte(input) | take_byte(input) << 8);
    header.request_id = (uint64_t)take_byte(input) << 10 | take_byte(input);
    header.status = (int8_t)take_byte(input);
    header.payload_size = (uint64_t)take_byte(input) * take_byte(input);
    header.deadline_ms = take_byte(input);
    size_t size = take_byte(input);

    if (size > input->size)
        size = input->size;
    memcpy(body, input->at, size);
    input->at += size;
    input->size -= size;
    raw_frame(raw, header, bytes_of(body, size));
}

static void step(struct world *world, struct party *party, struct raw *raw, struct input *input)
{
    uint8_t operation = take_byte(input);

    switch (operation % 5) {
    case 0:
        step_frame(raw, input);
        break;
    case 1: { /* bytes as they are */
        size_t size = operation / 5 < input->size ? operation / 5 : input->size;

        raw_send(raw, input->at, size);
        input->at += size;
        input->size -= size;
        break;
    }
    case 2: /* time */
        world_run_until(world, world_now_ns(world) + ((uint64_t)operation << (operation / 8)));
        break;
    case 3:
        if (party->kept_count > 0)
            answer(party, party->kept[operation / 5 % party->kept_count]);
        break;
    default: /* a call is given up */
        rpc_call_cancel(&party->calls[operation / 5 % CALLS].call);
        break;
    }
}

static void check(const struct party *party)
{
    if (party->memory[MEMORY_SIZE] != GUARD)
        abort();
    for (int i = 0; i < CALLS; i++) {
        if (party->calls[i].memory[MEMORY_SIZE] != GUARD || rpc_call_is_open(&party->calls[i].call))
            abort();
    }
}

static void connect_both(struct party *party, struct raw *raw, bool endpoint_dials)
{
    enum snow_status status;

    if (endpoint_dials) {
        status = env_listen(raw->loop, "raw:1", NULL, on_raw_accept, raw, &raw->listener);
        if (status == SNOW_OK)
            status = rpc_dial(party->rpc, "raw:1", 0, 0, 0, party, on_open, &party->conn);
    } else {
        status = rpc_listen(party->rpc, "party:1");
        if (status == SNOW_OK)
            status = env_dial(raw->loop, "party:1", NULL, &raw_ops, raw, &raw->conn);
    }
    if (status != SNOW_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .size = size};
    uint8_t how = take_byte(&input);
    struct world *world = world_create(1);
    struct party *party = calloc(1, sizeof *party);
    struct raw raw = {0};
    struct rpc_identity identity = {.role = WIRE_ROLE_NODE};
    struct rpc_options options = {.hello_timeout_ms = 1000, .progress_timeout_ms = 1000};

    party->memory[MEMORY_SIZE] = GUARD;
    for (int i = 0; i < CALLS; i++)
        party->calls[i].memory[MEMORY_SIZE] = GUARD;
    party->env = world_process_start(world_host_create(world, "party"), "party");
    raw.env = world_process_start(world_host_create(world, "raw"), "raw");
    if (env_loop_create(party->env, "party", &party->loop) != SNOW_OK ||
        env_loop_create(raw.env, "raw", &raw.loop) != SNOW_OK ||
        env_loop_start(party->loop) != SNOW_OK || env_loop_start(raw.loop) != SNOW_OK ||
        rpc_create(party->loop, &identity, &options, &service, party, &party->rpc) != SNOW_OK)
        abort();
    connect_both(party, &raw, (how & 2) != 0);
    world_run_until(world, world_now_ns(world) + 10 * NS_PER_MS);
    if ((how & 1) != 0) {
        raw_greet(&raw, (how & 2) != 0);
        world_run_until(world, world_now_ns(world) + 10 * NS_PER_MS);
        if ((how & 2) == 0 && party->conn != NULL)
            start_calls(party, party->conn);
    }
    while (input.size > 0)
        step(world, party, &raw, &input);
    world_run_until(world, world_now_ns(world) + 5 * NS_PER_S);
    rpc_destroy(party->rpc);
    if (party->kept_count != 0)
        abort();
    check(party);
    world_destroy(world);
    free(party);
    return 0;
}
