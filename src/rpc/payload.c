/* Where an incoming payload goes.
 *
 * Idea.     A list of pieces, each with a place or without one (drained).  It begins as one piece
 *           without a place; a service or a call names places; a cut, or the end of whoever named
 *           them, takes places away again.  So "drained" and "received" are one path.
 * Invariants.
 *   P1  The sizes of the pieces from piece_next on add up to `left`.
 *   P2  No byte is written to a place after it was taken away (R3).
 */
#include "rpc/conn.h"

#include <stdlib.h>

static bool reserve(struct rpc_incoming *incoming, uint32_t count)
{
    if (count <= incoming->piece_capacity)
        return true;
    uint32_t capacity = incoming->piece_capacity == 0 ? 8 : incoming->piece_capacity;

    while (capacity < count)
        capacity *= 2;
    struct rpc_piece *larger = realloc(incoming->pieces, capacity * sizeof *larger);

    if (larger == NULL)
        return false;
    incoming->pieces = larger;
    incoming->piece_capacity = capacity;
    return true;
}

static void drain_rest(struct rpc_incoming *incoming)
{
    incoming->pieces[0] = (struct rpc_piece){.at = NULL, .size = incoming->left};
    incoming->piece_count = 1;
    incoming->piece_next = 0;
    incoming->call = NULL;
    incoming->request = NULL;
}

void rpc_payload_expect(struct rpc_conn *conn, uint64_t size)
{
    struct rpc_incoming *incoming = &conn->incoming;

    if (size == 0)
        return;
    if (!reserve(incoming, 1)) {
        rpc_conn_bad(conn, RPC_METRIC_no_memory);
        return;
    }
    incoming->left = size;
    drain_rest(incoming);
}

enum snow_status rpc_payload_direct(struct rpc_conn *conn, const struct rpc_payload *to)
{
    struct rpc_incoming *incoming = &conn->incoming;
    uint64_t left = incoming->left;
    uint32_t count = 0;

    if (!reserve(incoming, to->iov_count + 1))
        return SNOW_NO_MEMORY;
    for (uint32_t i = 0; i < to->iov_count && left > 0; i++) {
        uint64_t size = to->iov[i].iov_len < left ? to->iov[i].iov_len : left;

        if (size == 0)
            continue;
        incoming->pieces[count++] = (struct rpc_piece){.at = to->iov[i].iov_base, .size = size};
        left -= size;
    }
    if (left > 0)
        incoming->pieces[count++] = (struct rpc_piece){.at = NULL, .size = left};
    incoming->piece_count = count;
    incoming->piece_next = 0;
    return SNOW_OK;
}

void rpc_payload_forget(struct rpc_conn *conn)
{
    struct rpc_incoming *incoming = &conn->incoming;

    incoming->call = NULL;
    incoming->request = NULL;
    if (incoming->left == 0)
        return;
    drain_rest(incoming);
    if (incoming->left > RPC_DRAIN_MAX && rpc_conn_alive(conn)) {
        rpc_count(conn->rpc, RPC_METRIC_resets);
        rpc_conn_break(conn, SNOW_CLOSED, true);
    }
}

/* The pieces that `piece` becomes without [at, at+size): at most three, into to. */
static uint32_t split(const struct rpc_piece *piece, const uint8_t *at, size_t size,
                      struct rpc_piece to[3])
{
    uint64_t start = (uint64_t)(uintptr_t)at;
    uint64_t end = start + size;
    uint64_t from = (uint64_t)(uintptr_t)piece->at;
    uint64_t until = from + piece->size;
    uint32_t count = 0;

    if (piece->at == NULL || end <= from || start >= until) {
        to[0] = *piece;
        return 1;
    }
    if (start < from)
        start = from;
    if (end > until)
        end = until;
    if (start > from)
        to[count++] = (struct rpc_piece){.at = piece->at, .size = start - from};
    to[count++] = (struct rpc_piece){.at = NULL, .size = end - start};
    if (end < until)
        to[count++] = (struct rpc_piece){.at = piece->at + (end - from), .size = until - end};
    return count;
}

enum snow_status rpc_payload_cut(struct rpc_conn *conn, const uint8_t *at, size_t size)
{
    struct rpc_incoming *incoming = &conn->incoming;
    uint32_t left = incoming->piece_count - incoming->piece_next;
    struct rpc_piece *cut = malloc(left * 3 * sizeof *cut);
    uint32_t count = 0;

    if (cut == NULL || !reserve(incoming, left * 3)) {
        free(cut);
        return SNOW_NO_MEMORY;
    }
    for (uint32_t i = incoming->piece_next; i < incoming->piece_count; i++)
        count += split(&incoming->pieces[i], at, size, cut + count);
    memcpy(incoming->pieces, cut, count * sizeof *cut);
    incoming->piece_next = 0;
    incoming->piece_count = count;
    free(cut);
    return SNOW_OK;
}

int rpc_payload_iov(struct rpc_conn *conn, struct iovec *iov, int max, bool *complete)
{
    struct rpc_incoming *incoming = &conn->incoming;
    uint64_t room = RPC_HOT_SIZE;
    int count = 0;

    *complete = false;
    for (uint32_t i = incoming->piece_next; i < incoming->piece_count; i++) {
        struct rpc_piece *piece = &incoming->pieces[i];
        uint64_t size = piece->at == NULL && piece->size > RPC_SINK_SIZE ? RPC_SINK_SIZE
                        : piece->size > room                             ? room
                                                                         : piece->size;

        if (count == max || room == 0)
            return count;
        iov[count].iov_base = piece->at != NULL ? piece->at : conn->rpc->sink;
        iov[count].iov_len = (size_t)size;
        room -= size;
        count++;
        if (size < piece->size)
            return count;
    }
    *complete = true;
    return count;
}

static void tell_piece(struct rpc_incoming *incoming, const uint8_t *at, size_t size)
{
    if (incoming->call != NULL && incoming->call->on_piece != NULL)
        incoming->call->on_piece(incoming->call, at, size);
    else if (incoming->request != NULL && incoming->on_request_piece != NULL)
        incoming->on_request_piece(incoming->request, at, size);
}

static void tell_end(struct rpc_conn *conn)
{
    struct rpc_incoming *incoming = &conn->incoming;
    struct rpc_call *call = incoming->call;
    struct rpc_request *request = incoming->request;

    incoming->call = NULL;
    incoming->request = NULL;
    rpc_send_held(conn);
    if (call != NULL)
        rpc_call_payload_end(conn, call);
    else if (request != NULL)
        incoming->on_request_end(request, SNOW_OK);
}

void rpc_payload_take(struct rpc_conn *conn, const uint8_t *data, size_t size)
{
    struct rpc_incoming *incoming = &conn->incoming;

    while (size > 0) {
        struct rpc_piece *piece = &incoming->pieces[incoming->piece_next];
        size_t taken = piece->size < size ? (size_t)piece->size : size;
        uint8_t *at = piece->at;

        if (at == NULL)
            conn->rpc->counters[RPC_METRIC_bytes_drained] += taken;
        else
            piece->at += taken;
        if (at != NULL && data != NULL) {
            memcpy(at, data, taken);
            conn->rpc->counters[RPC_METRIC_bytes_copied] += taken;
        }
        piece->size -= taken;
        incoming->left -= taken;
        if (piece->size == 0)
            incoming->piece_next++;
        if (data != NULL)
            data += taken;
        size -= taken;
        if (at != NULL)
            tell_piece(incoming, at, taken); /* may cut, forget, break */
        if (!rpc_conn_alive(conn))
            return;
    }
    if (incoming->left == 0)
        tell_end(conn);
}
