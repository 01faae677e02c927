"""The store for asyncio: calls that are awaited, on the event loop's own thread.

    async with snowskin.aio.Store("127.0.0.1:7600") as store:
        await store.put("key", b"value")
        async for index, value in store.get_each(keys):     # in the order in which they arrive
            ...

No thread is started: the event loop watches a descriptor, and turns the library when that is
readable.
"""
import asyncio

from snowskin import _snowskin

__all__ = ["Store"]


class _Call:
    """One call under way: what has ended, and who waits for it."""

    def __init__(self, loop, many):
        self.loop = loop
        self.many = many
        self.results = {}
        self.done = loop.create_future()
        self.each = None  # asyncio.Queue of get_each

    def take(self, index, result, last):
        if self.each is not None:
            self.each.put_nowait((index, result))
        else:
            self.results[index] = result
        if not last or self.done.done():
            return
        if self.many or self.each is not None:
            self.done.set_result([self.results[i] for i in sorted(self.results)])
        elif isinstance(self.results[0], BaseException):
            self.done.set_exception(self.results[0])
        else:
            self.done.set_result(self.results[0])


class Store:
    """As snowskin.Store; its calls are coroutines.  Use it on one event loop.

    A call that is cancelled goes on in the background until it has ended; its buffers are the
    library's until then.
    """

    def __init__(self, master="127.0.0.1:7600", *, depth=0, **options):
        self._loop = asyncio.get_running_loop()
        self._store = _snowskin.Store(master, **options)
        self._queue = _snowskin.Queue(self._store, depth)
        self._calls = set()
        self._loop.add_reader(self._queue.fileno(), self._poll)

    def _poll(self):
        for call, index, result, last in self._queue.poll():
            call.take(index, result, last)
            if last:
                self._calls.discard(call)

    def _start(self, name, many, args, options):
        call = _Call(self._loop, many)
        getattr(self._queue, "submit_" + name)(call, many, *args, **options)
        self._calls.add(call)
        self._loop.call_soon(self._poll_if_open)
        return call

    def _poll_if_open(self):
        if self._queue is not None:
            self._poll()

    async def _call(self, name, many, *args, **options):
        if many and len(args[0]) == 0:
            return []
        if self._queue is None:
            raise _snowskin.ClosedError("the store is closed")
        return await self._start(name, many, args, options).done

    async def put(self, key, value, **options):
        """True: stored; False: the key has a value already; None: not in the group of member."""
        return await self._call("put", False, key, value, **options)

    async def put_many(self, keys, values, **options):
        return await self._call("put", True, keys, values, **options)

    async def get(self, key, **options):
        """The value as bytes; None: there is none."""
        return await self._call("get", False, key, **options)

    async def get_many(self, keys, **options):
        return await self._call("get", True, keys, **options)

    async def get_into(self, key, buffer, **options):
        """How many bytes; None: there is no value."""
        return await self._call("get_into", False, key, buffer, **options)

    async def get_into_many(self, keys, buffers, **options):
        return await self._call("get_into", True, keys, buffers, **options)

    async def exists(self, key, **options):
        return await self._call("exists", False, key, **options)

    async def exists_many(self, keys, **options):
        return await self._call("exists", True, keys, **options)

    async def remove(self, key, **options):
        """True: removed; False: there was none."""
        return await self._call("remove", False, key, **options)

    async def remove_many(self, keys, **options):
        return await self._call("remove", True, keys, **options)

    async def get_each(self, keys, buffers=None, **options):
        """(index, result) of each key as it ends, in that order; results as of get_many, or with
        buffers as of get_into_many."""
        keys = list(keys)
        if not keys:
            return
        args = (keys,) if buffers is None else (keys, buffers)
        call = _Call(self._loop, True)
        call.each = asyncio.Queue()
        if self._queue is None:
            raise _snowskin.ClosedError("the store is closed")
        submit = self._queue.submit_get if buffers is None else self._queue.submit_get_into
        submit(call, True, *args, **options)
        self._calls.add(call)
        self._loop.call_soon(self._poll_if_open)
        for _ in keys:
            yield await call.each.get()

    async def close(self):
        """Ends; what is under way is cancelled."""
        if self._queue is None:
            return
        self._loop.remove_reader(self._queue.fileno())
        self._queue.close()
        self._queue = None
        self._store.close()
        for call in self._calls:
            if not call.done.done():
                call.done.set_exception(_snowskin.CancelledError("the store was closed"))
        self._calls.clear()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()
