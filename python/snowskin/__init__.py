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
from typing import NamedTuple

from snowskin import _snowskin
from snowskin._snowskin import *  # noqa: F401,F403
from snowskin._snowskin import Store, View



class Member(NamedTuple):
    """What a put says of the group that its object is part of.

    All members of a group say the same size (0: open, never complete) and flags. index None: one
    that is free. atomic: members are not seen before the group is complete. cascade: removing one
    removes all. adopt: an object that is there becomes a member. form_ttl: seconds without a new
    member after which a group that is not complete is closed. parent: the group before it in the
    chain. no_offload: it is dropped when evicted, not moved to a slower tier (there is none
    yet)."""

    group: "str | bytes"
    size: int = 0
    index: "int | None" = None
    atomic: bool = False
    cascade: bool = False
    adopt: bool = False
    form_ttl: "float | None" = None
    parent: "str | bytes | None" = None
    no_offload: bool = False


__version__ = _snowskin.version
__all__ = ["Member", "Store", "View", "__version__"] + sorted(
    name for name in dir(_snowskin) if name.endswith("Error"))
