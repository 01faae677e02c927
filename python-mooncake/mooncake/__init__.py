"""The package mooncake, on Snowskin: docs/mooncake.md of the project tells every difference."""
from pkgutil import extend_path

from mooncake.buffer_pool import BufferPool, RegisteredBufferPool

__path__ = extend_path(__path__, __name__)

__all__ = ["BufferPool", "RegisteredBufferPool"]
