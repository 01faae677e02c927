"""MooncakeDistributedStoreAsync: every call x also as a coroutine async_x, on threads."""
import asyncio
import functools

from mooncake.store import MooncakeDistributedStore


def _coroutine(name):
    async def call(self, *args, **keywords):
        loop = asyncio.get_running_loop()
        bound = functools.partial(getattr(self, name), *args, **keywords)
        return await loop.run_in_executor(None, bound)

    call.__name__ = "async_" + name
    call.__doc__ = "%s() without holding up the loop." % name
    return call


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """A store whose calls can be awaited."""


for _name in dir(MooncakeDistributedStore):
    if not _name.startswith("_") and callable(getattr(MooncakeDistributedStore, _name)):
        setattr(MooncakeDistributedStoreAsync, "async_" + _name, _coroutine(_name))
