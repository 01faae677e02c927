"""Records every call that crosses the border between a consumer and the package `mooncake`.

Import this module and call start(path) before the consumer is imported. The classes
MooncakeDistributedStore, ReplicateConfig and TransferEngine are replaced in their modules by
recording stand-ins; everything is handed through unchanged. One JSON object per line:
{"pid", "who", "call", "args", "kwargs", "ret", "sec"} with types instead of values, except for
result codes. summary(path) (or running this file with the path) prints one line per distinct shape.
"""

import json
import os
import re
import threading
import time

_lock = threading.Lock()
_out = None


def _shape(value, depth=0):
    kind = type(value).__name__
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return f"{kind}:{value}" if -10000 < value <= 1 else kind
    if isinstance(value, str):
        return kind if value else kind + "(empty)"
    if isinstance(value, (bytes, bytearray)):
        return f"{kind}({len(value)})"
    if isinstance(value, memoryview):
        return (
            f"memoryview(format={value.format},ndim={value.ndim},"
            f"nbytes={value.nbytes},ro={value.readonly})"
        )
    if isinstance(value, (list, tuple)):
        inner = sorted({_shape(v, depth + 1) for v in value}) if depth < 3 else []
        if len(inner) > 4:
            inner = inner[:3] + ["..."]
        return f"{kind}[{len(value)}]<{'|'.join(inner)}>"
    if isinstance(value, dict):
        kinds = "/".join(sorted({type(v).__name__ for v in value.values()}))
        return f"dict<{','.join(sorted(map(str, value)))}>:{kinds}"
    return kind


def _log(who, call, args, kwargs, ret, sec):
    line = json.dumps(
        {
            "pid": os.getpid(),
            "who": who,
            "call": call,
            "args": [_shape(a) for a in args],
            "kwargs": {k: _shape(v) for k, v in kwargs.items()},
            "ret": ret,
            "sec": round(sec, 6),
            "thread": threading.current_thread().name,
        }
    )
    with _lock:
        _out.write(line + "\n")
        _out.flush()


def _recorder(real, who):
    class Recorder:
        def __init__(self, *args, **kwargs):
            object.__setattr__(self, "_real", real(*args, **kwargs))
            _log(who, "__init__", args, kwargs, who, 0.0)

        def __getattr__(self, name):
            target = getattr(self._real, name)  # AttributeError passes through
            if not callable(target):
                _log(who, "." + name, (), {}, _shape(target), 0.0)
                return target

            def call(*args, **kwargs):
                begin = time.perf_counter()
                try:
                    result = target(*args, **kwargs)
                except BaseException as error:
                    _log(
                        who,
                        name,
                        args,
                        kwargs,
                        "raise " + type(error).__name__,
                        time.perf_counter() - begin,
                    )
                    raise
                _log(who, name, args, kwargs, _shape(result), time.perf_counter() - begin)
                return result

            return call

    Recorder.__name__ = Recorder.__qualname__ = who
    return Recorder


def start(path):
    global _out
    _out = open(path, "a", encoding="utf-8")
    import mooncake.store as store

    real_config = store.ReplicateConfig

    class ReplicateConfig(real_config):
        __slots__ = ()  # like the original: an unknown attribute is an AttributeError

        def __setattr__(self, name, value):
            try:
                super().__setattr__(name, value)
            except BaseException as error:
                _log(
                    "ReplicateConfig",
                    "set " + name,
                    (value,),
                    {},
                    "raise " + type(error).__name__,
                    0.0,
                )
                raise
            _log("ReplicateConfig", "set " + name, (value,), {}, "None", 0.0)

    store.ReplicateConfig = ReplicateConfig
    store.MooncakeDistributedStore = _recorder(
        store.MooncakeDistributedStore, "MooncakeDistributedStore"
    )
    if hasattr(store, "bind_to_numa_node"):
        real_bind = store.bind_to_numa_node

        def bind_to_numa_node(*args, **kwargs):
            result = real_bind(*args, **kwargs)
            _log("mooncake.store", "bind_to_numa_node", args, kwargs, _shape(result), 0.0)
            return result

        store.bind_to_numa_node = bind_to_numa_node
    try:
        import mooncake.engine as engine
    except ImportError:
        return
    engine.TransferEngine = _recorder(engine.TransferEngine, "TransferEngine")


def summary(path):
    seen = {}
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        text = ", ".join(row["args"] + [f"{k}={v}" for k, v in sorted(row["kwargs"].items())])
        text = f"{row['who']}.{row['call']}({text}) -> {row['ret']}"
        counts = [int(n) for n in re.findall(r"\blist\[(\d+)\]", text)]
        text = re.sub(r"\blist\[\d+\]", "list", text)
        text = re.sub(r"nbytes=\d+", "nbytes=n", text)
        entry = seen.setdefault(text, [0, 0.0, set()])
        entry[0] += 1
        entry[1] = max(entry[1], row["sec"])
        entry[2].update(counts)
    for text, (count, longest, sizes) in sorted(seen.items()):
        note = f"  [n {min(sizes)}..{max(sizes)}]" if sizes else ""
        print(f"{count:5d}x {longest * 1e3:8.2f} ms  {text}{note}")


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:]:
        summary(name)
