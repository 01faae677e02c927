"""Snowskin: a distributed KV-cache store.

    import snowskin

    with snowskin.Store("127.0.0.1:7600") as store:
        store.put("key", b"value")
        store.get("key")

`Store` is the whole interface; `snowskin.aio` has the same for asyncio.  What goes wrong is a
`snowskin.Error`: `RetryError` (the same call may succeed soon), `RedirectError` or `FinalError`,
and below these a class for each status (`NoSpaceError`, `TimeoutError`, ...), with `code` and
`name`.
"""
from snowskin import _snowskin
from snowskin._snowskin import *  # noqa: F401,F403
from snowskin._snowskin import Store, View

__version__ = _snowskin.version
__all__ = ["Store", "View", "__version__"] + sorted(
    name for name in dir(_snowskin) if name.endswith("Error"))
