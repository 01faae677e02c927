#include "cli/bench_stream.h"

#include <stdlib.h>

#define PARTS_MAX 256 /* of one system call, as rpc's */

static bool grow(struct bench_queue *queue)
{
    size_t room = queue->room == 0 ? 64 : queue->room * 2;
    struct iovec *parts = calloc(room, sizeof(*parts));

    if (parts == NULL)
        return false;
    for (size_t i = 0; i < queue->count; i++)
        parts[i] = queue->parts[(queue->first + i) & (queue->room - 1)];
    free(queue->parts);
    queue->parts = parts;
    queue->room = room;
    queue->first = 0;
    return true;
}

bool bench_stream_push(struct bench_queue *queue, const void *at, uint64_t size)
{
    if (queue->count == queue->room && !grow(queue))
        return false;
    queue->parts[(queue->first + queue->count++) & (queue->room - 1)] =
        (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = size};
    queue->bytes += size;
    return true;
}

static int gather(const struct bench_queue *queue, struct iovec *iov)
{
    size_t count = queue->count < PARTS_MAX ? queue->count : PARTS_MAX;

    for (size_t i = 0; i < count; i++)
        iov[i] = queue->parts[(queue->first + i) & (queue->room - 1)];
    return (int)count;
}

static void advance(struct bench_queue *queue, size_t size)
{
    queue->bytes -= size;
    while (size > 0) {
        struct iovec *part = &queue->parts[queue->first];

        if (part->iov_len > size) {
            part->iov_base = (uint8_t *)part->iov_base + size;
            part->iov_len -= size;
            return;
        }
        size -= part->iov_len;
        queue->first = (queue->first + 1) & (queue->room - 1);
        queue->count--;
    }
}

ssize_t bench_stream_send(struct bench_stream *stream)
{
    struct iovec iov[PARTS_MAX];
    int count = gather(&stream->out, iov);
    uint64_t total = 0;
    ssize_t sent;

    for (int i = 0; i < count; i++)
        total += iov[i].iov_len;
    sent = env_raw_send(stream->descriptor, iov, count);
    if (sent > 0)
        advance(&stream->out, (size_t)sent);
    stream->blocked = sent >= 0 && (uint64_t)sent < total;
    return sent;
}

ssize_t bench_stream_receive(struct bench_stream *stream, bool wait)
{
    struct iovec iov[PARTS_MAX];
    int count = gather(&stream->in, iov);
    ssize_t got = env_raw_receive(stream->descriptor, iov, count, wait);

    if (got > 0)
        advance(&stream->in, (size_t)got);
    return got;
}

void bench_stream_close(struct bench_stream *stream)
{
    env_raw_close(stream->descriptor);
    free(stream->out.parts);
    free(stream->in.parts);
    *stream = (struct bench_stream){.descriptor = -1};
}
