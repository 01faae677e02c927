#include "env/linux/ring.h"

#include <string.h>

_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "places are counts under a mask");

/* ---- one run of bytes ----------------------------------------------------------------------- */

static void copy_in(uint8_t *bytes, uint64_t at, const uint8_t *from, size_t size)
{
    size_t place = (size_t)at & (RING_BYTES - 1);
    size_t first = RING_BYTES - place < size ? RING_BYTES - place : size;

    memcpy(bytes + place, from, first);
    memcpy(bytes, from + first, size - first);
}

static void copy_out(const uint8_t *bytes, uint64_t at, uint8_t *to, size_t size)
{
    size_t place = (size_t)at & (RING_BYTES - 1);
    size_t first = RING_BYTES - place < size ? RING_BYTES - place : size;

    memcpy(to, bytes + place, first);
    memcpy(to + first, bytes, size - first);
}

/* ---- the writer ----------------------------------------------------------------------------- */

static size_t room_of(const struct ring *ring)
{
    return RING_BYTES - (size_t)(ring->head - ring->tail);
}

/* Looks where the reader is. */
static void see_tail(struct ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);

    if (tail < ring->tail || tail > ring->head)
        ring->broken = true;
    else
        ring->tail = tail;
}

size_t ring_write(struct ring *ring, const struct iovec *iov, int iov_count)
{
    size_t written = 0;
    size_t wanted = 0;

    for (int i = 0; i < iov_count; i++)
        wanted += iov[i].iov_len;
    if (wanted > room_of(ring)) /* as last seen: looking takes the reader's line from it */
        see_tail(ring);
    for (int i = 0; i < iov_count && !ring->broken; i++) {
        size_t room = room_of(ring);
        size_t size = iov[i].iov_len < room ? iov[i].iov_len : room;

        if (size > 0)
            copy_in(ring->shared->bytes, ring->head, iov[i].iov_base, size);
        ring->head += size;
        written += size;
        if (size < iov[i].iov_len)
            break;
    }
    if (written > 0)
        atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
    return written;
}

bool ring_wakes_reader(struct ring *ring)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&ring->shared->reader_sleeps, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(&ring->shared->reader_sleeps, 0, memory_order_relaxed) != 0;
}

bool ring_has_room(struct ring *ring)
{
    see_tail(ring);
    return ring->broken || room_of(ring) > 0;
}

bool ring_await_room(struct ring *ring)
{
    atomic_store_explicit(&ring->shared->writer_waits, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (!ring_has_room(ring))
        return false;
    atomic_store_explicit(&ring->shared->writer_waits, 0, memory_order_relaxed);
    return true;
}

/* ---- the reader ----------------------------------------------------------------------------- */

static void see_head(struct ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);

    if (head < ring->head || head - ring->tail > RING_BYTES)
        ring->broken = true;
    else
        ring->head = head;
}

size_t ring_read(struct ring *ring, const struct iovec *iov, int iov_count)
{
    size_t got = 0;

    see_head(ring);
    for (int i = 0; i < iov_count && !ring->broken; i++) {
        size_t there = (size_t)(ring->head - ring->tail);
        size_t size = iov[i].iov_len < there ? iov[i].iov_len : there;

        if (size > 0)
            copy_out(ring->shared->bytes, ring->tail, iov[i].iov_base, size);
        ring->tail += size;
        got += size;
        if (size < iov[i].iov_len)
            break;
    }
    if (got > 0)
        atomic_store_explicit(&ring->shared->tail, ring->tail, memory_order_release);
    return got;
}

bool ring_wakes_writer(struct ring *ring)
{
    if (ring->tail - ring->told < RING_BYTES / 4)
        return false;
    ring->told = ring->tail;
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&ring->shared->writer_waits, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(&ring->shared->writer_waits, 0, memory_order_relaxed) != 0;
}

bool ring_has_bytes(struct ring *ring)
{
    see_head(ring);
    return ring->broken || ring->head != ring->tail;
}

bool ring_sleep(struct ring *ring)
{
    atomic_store_explicit(&ring->shared->reader_sleeps, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (!ring_has_bytes(ring))
        return false;
    atomic_store_explicit(&ring->shared->reader_sleeps, 0, memory_order_relaxed);
    return true;
}
