/* A ring: bytes from one process to another through shared memory, without a system call while both
 * are awake.
 *
 * Problem.  A round trip by socket costs 25 us and more, because each side sleeps and is woken.
 * Idea.     One writer, one reader, one array.  Each counts the bytes that it has ever moved and
 *           stores that count for the other; full and empty follow from the difference.  A reader
 *           that is about to sleep says so first and looks again; a writer looks at that word after
 *           its store: one of the two sees the other (both orders pass a full fence).
 *
 *      tail ........ head            count = head - tail, place = count modulo RING_BYTES
 *        └ reader's    └ writer's
 * Invariants.
 *   R1  tail <= head <= tail + RING_BYTES.  A peer whose count breaks it is not believed: the ring
 *       is broken and nothing more is read from it.
 *   R2  What a side needs of its own counts it keeps in private memory: the peer can spoil the
 *       bytes that it sends, and nothing else.
 *   R3  A sleeping reader is woken by the write that comes after its last look; a writer that waits
 *       for room, by the read that makes it RING_BYTES / 4 since the reader looked for such a one:
 *       a full ring has more than that for the reader, and a fence at each message is spared.
 * Threads.  One a side, in any process. */
#ifndef ENV_LINUX_RING_H
#define ENV_LINUX_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define RING_BYTES ((size_t)64 << 10)

/* As it lies in shared memory: one direction.  Words that a side stores at each message have lines
 * of their own: who only looks at another word must not wait for that line. */
struct ring_shared {
    _Alignas(64) _Atomic uint64_t head;          /* bytes ever written */
    _Alignas(64) _Atomic uint64_t tail;          /* bytes ever read */
    _Alignas(64) _Atomic uint32_t reader_sleeps; /* it found nothing */
    _Atomic uint32_t writer_waits;               /* it found no room */
    _Alignas(64) uint8_t bytes[RING_BYTES];
};

/* One side of one direction. */
struct ring {
    struct ring_shared *shared;
    uint64_t head; /* as the writer wrote it, or the reader last saw it */
    uint64_t tail; /* as the reader wrote it, or the writer last saw it */
    uint64_t told; /* reader: the tail when it last looked whether the writer waits */
    bool broken;   /* R1 */
};

/* Writer: takes bytes from iov, in order, as far as there is room; returns how many. */
size_t ring_write(struct ring *ring, const struct iovec *iov, int iov_count);
/* Writer, after a write: true when the reader sleeps (or will) and has to be woken, by whoever gets
 * true. */
bool ring_wakes_reader(struct ring *ring);
/* Writer: says that it waits for room.  True: there is some now, and it does not wait. */
bool ring_await_room(struct ring *ring);

/* Reader: fills iov, in order, with what is there; returns how many bytes. */
size_t ring_read(struct ring *ring, const struct iovec *iov, int iov_count);
/* Reader, after a read: true when the writer waits for room and has to be woken (R3). */
bool ring_wakes_writer(struct ring *ring);
/* Reader: says that it sleeps.  True: there is something now, and it does not sleep. */
bool ring_sleep(struct ring *ring);

/* Reader. */
bool ring_has_bytes(struct ring *ring);
/* Writer. */
bool ring_has_room(struct ring *ring);

#endif
