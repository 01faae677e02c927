"""BufferPool: registered memory that is lent out again and again."""
import ctypes
import mmap
import sys
import threading
import time
import weakref

MIB = 1 << 20


class _Area:
    """Memory of one size class, registered with the store; lent to one lease at a time."""

    def __init__(self, store, size, alignment):
        self.size = size
        # Beginnings of pages are multiples of 4 KiB; what is more is made by room to spare.
        spare = alignment if alignment > mmap.PAGESIZE else 0
        try:
            self.memory = mmap.mmap(-1, size + spare)
        except (OSError, OverflowError, ValueError) as error:
            raise RuntimeError("capacity: no memory for %d bytes: %s" % (size, error)) from error
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.offset = -base % alignment
        self.ptr = base + self.offset
        if store.register_buffer(self.ptr, size) != 0:
            raise RuntimeError("the store did not register %d bytes" % size)

    def close(self, store):
        store.unregister_buffer(self.ptr)
        try:
            self.memory.close()
        except BufferError:
            pass  # a view that outlived its lease keeps it


class BufferPoolLeaseView:
    """What `with pool.buffer(size) as view` gives: a lease."""


class BufferPoolLease(BufferPoolLeaseView):
    """Memory of the pool until release(), the end of a `with` block, or its own end."""

    def __init__(self, pool, area, size):
        self._area = area
        # Views, also slices of them, refer to this object as long as they are exported.
        self._exporter = (ctypes.c_ubyte * size).from_address(area.ptr)
        self._view = memoryview(self._exporter).cast("B")
        self._end = weakref.finalize(self, pool._give_back, area)
        self.ptr = area.ptr
        self.size = size

    @property
    def buffer(self):
        """The memory as a memoryview."""
        if not self._end.alive:
            raise RuntimeError("the lease was released")
        return self._view

    def release(self):
        """Give it back; RuntimeError while a view of `buffer` is exported."""
        if not self._end.alive:
            return
        try:
            self._view.release()
        except BufferError:
            raise RuntimeError("the lease has exported views") from None
        if sys.getrefcount(self._exporter) > 2:
            self._view = memoryview(self._exporter).cast("B")
            raise RuntimeError("the lease has exported views")
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


class BufferPool:
    """Lends memory in classes of powers of two, at most max_bytes in all (0: twice the store's
    local buffer)."""

    def __init__(self, store, max_bytes=0, min_size_class=65536, max_size_class=None,
                 alignment=8 * MIB, block_on_exhaustion=True, default_timeout=None,
                 max_regions=None, prewarm_size=None, prewarm_count=0):
        if alignment <= 0 or alignment & (alignment - 1):
            raise RuntimeError("alignment %r is no power of two" % (alignment,))
        if max_bytes < 0 or min_size_class <= 0:
            raise RuntimeError("capacity: max_bytes and min_size_class are not negative")
        self._store = store
        self._alignment = alignment
        self._least = 1 << (min_size_class - 1).bit_length()
        self._most = max_size_class
        self._max_bytes = max_bytes or 2 * getattr(store, "_local_size", 0)
        self._max_regions = max_regions
        self._blocks = block_on_exhaustion
        self._timeout = default_timeout
        self._changed = threading.Condition()
        self._returned = []  # areas whose leases ended; finalizers only append here
        self._idle = {}      # size class: areas
        self._lent = 0
        self._bytes = 0
        self._areas = 0
        self._closed = False
        if prewarm_size:
            self.prewarm(prewarm_size, prewarm_count)

    def prewarm(self, size, count):
        """Memory is made when it is first lent: nothing to do."""

    def _class_of(self, size):
        if size < 0 or size >= 1 << 62:
            raise RuntimeError("overflow: a buffer of %d bytes" % size)
        wanted = max(self._least, 1 << max(size - 1, 0).bit_length())
        if self._most is not None and size > self._most:
            raise RuntimeError("capacity: %d bytes are more than the largest class" % size)
        if self._max_bytes and wanted > self._max_bytes:
            raise RuntimeError("capacity: %d bytes are more than the pool has" % size)
        return wanted

    def _give_back(self, area):
        # Also called by the collector, in any thread, perhaps one that holds the condition: no
        # lock is taken here that a waiter could hold for long.
        self._returned.append(area)
        if self._changed.acquire(blocking=False):
            try:
                self._take_returned()
                self._changed.notify_all()
            finally:
                self._changed.release()

    def _take_returned(self):
        while self._returned:
            area = self._returned.pop()
            self._lent -= 1
            self._idle.setdefault(area.size, []).append(area)

    def _may_grow(self, size):
        return (not self._max_bytes or self._bytes + size <= self._max_bytes) and \
            (self._max_regions is None or self._areas < self._max_regions)

    def _drop_idle(self, size):
        """Gives memory of other classes back until there is room."""
        for other, areas in self._idle.items():
            while other != size and areas and not self._may_grow(size):
                areas.pop().close(self._store)
                self._bytes -= other
                self._areas -= 1

    def _find(self, size):
        self._take_returned()
        if self._closed:
            raise RuntimeError("the pool is closed")
        if self._idle.get(size):
            return self._idle[size].pop()
        self._drop_idle(size)
        if not self._may_grow(size):
            return None
        area = _Area(self._store, size, self._alignment)
        self._bytes += size
        self._areas += 1
        return area

    def acquire(self, size, block=None, timeout=None):
        """A lease of so many bytes; RuntimeError when the pool is exhausted."""
        wanted = self._class_of(size)
        blocks = self._blocks if block is None else block
        timeout = self._timeout if timeout is None else timeout
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            area = self._find(wanted)
            while area is None:
                left = None if until is None else until - time.monotonic()
                if not blocks or (left is not None and left <= 0):
                    raise RuntimeError("the pool is exhausted: %d bytes" % self._max_bytes)
                # Not for ever: a lease that the collector ends may find the condition taken.
                self._changed.wait(0.05 if left is None else min(left, 0.05))
                area = self._find(wanted)
            self._lent += 1
        return BufferPoolLease(self, area, size)

    buffer = acquire

    def close(self):
        """Give all memory back; RuntimeError while leases are out."""
        with self._changed:
            self._take_returned()
            if self._lent > 0:
                raise RuntimeError("the pool has %d active leases" % self._lent)
            self._closed = True
            for areas in self._idle.values():
                for area in areas:
                    area.close(self._store)
            self._idle.clear()
            self._bytes = self._areas = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


RegisteredBufferPool = BufferPool
RegisteredBufferPoolLease = BufferPoolLease
RegisteredBufferPoolLeaseView = BufferPoolLeaseView
