"""The package mooncake, on Snowskin: docs/mooncake.md of the project tells every difference."""
import os
from pkgutil import extend_path


def _refuse_a_mixture(folder):
    """Another distribution installs into the same folder; its parts would be found before ours."""
    foreign = [name for name in ("store.so", "engine.so")
               if os.path.exists(os.path.join(folder, name))]
    if foreign:
        raise ImportError(
            "%s: snowskin-mooncake and mooncake-transfer-engine are installed into one folder (%s "
            "belongs to the latter). Uninstall both (pip uninstall snowskin-mooncake "
            "mooncake-transfer-engine mooncake-transfer-engine-non-cuda), then install the one "
            "that is wanted." % (folder, ", ".join(foreign)))


_refuse_a_mixture(os.path.dirname(__file__))

from mooncake.buffer_pool import BufferPool, RegisteredBufferPool  # noqa: E402

__path__ = extend_path(__path__, __name__)

__all__ = ["BufferPool", "RegisteredBufferPool"]
