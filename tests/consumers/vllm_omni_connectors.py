"""Drives vLLM-Omni's two Mooncake connectors on a machine without a GPU and without vLLM.

    python vllm_omni_connectors.py --master HOST:PORT [--port-base N] [--only store|engine]
                                   [--trace FILE] [--verbose] [--evict]

The master has to run already. Parts:
  store   MooncakeStoreConnector (mooncake.store: put, get, ReplicateConfig.with_soft_pin)
  engine  MooncakeTransferEngineConnector (mooncake.engine: batch_transfer_sync_write), TCP
Each part has this process as the first stage and a second process as the next one.
Both connectors are made by OmniConnectorFactory and are unmodified. Stand-ins: the packages
vllm_omni, vllm_omni.distributed and vllm_omni.distributed.omni_connectors are entered without
running
their __init__ (which import vLLM), and vllm.outputs has two empty classes (only compared by type).
memory_pool_device is "cpu:0", because "cpu" asks for pinned memory, which needs a GPU.

--evict runs the store connector on a pool half the size of what is put, and nothing else.
Releases of mooncake without ReplicateConfig.with_soft_pin (upstream 0.3.13) fail "store.connected".
One line per check: "ok NAME" or "FAIL NAME why". Exit code 0 when no check failed.
"""

import argparse
import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
import time
import types
import uuid

import _cpu_consumer as cpu

MIB = 1 << 20
failures = 0


def check(name, good, why=""):
    global failures
    if good:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        print(f"FAIL {name} {why}".rstrip(), flush=True)
    return bool(good)


def prepare():
    """Makes the connectors importable without vLLM."""

    class CompletionOutput:
        pass

    class RequestOutput:
        pass

    vllm, outputs = types.ModuleType("vllm"), types.ModuleType("vllm.outputs")
    vllm.outputs, vllm.__path__ = outputs, []
    outputs.CompletionOutput, outputs.RequestOutput = CompletionOutput, RequestOutput
    sys.modules.update({"vllm": vllm, "vllm.outputs": outputs})
    folder = importlib.util.find_spec("vllm_omni").submodule_search_locations[0]
    for name in ("vllm_omni", "vllm_omni.distributed", "vllm_omni.distributed.omni_connectors"):
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, *name.split(".")[1:])]
        sys.modules[name] = package
    from vllm_omni.distributed.omni_connectors.factory import OmniConnectorFactory
    from vllm_omni.distributed.omni_connectors.utils.config import ConnectorSpec

    return lambda name, **extra: OmniConnectorFactory.create_connector(
        ConnectorSpec(name=name, extra=extra)
    )


def payloads():
    import numpy
    import torch

    generator = torch.Generator().manual_seed(3)
    big = torch.randint(0, 256, (3 * MIB + 17,), dtype=torch.uint8, generator=generator)
    half = torch.randn(7, 33, generator=generator).to(torch.bfloat16)
    return {
        "text": "hello äöü",
        "raw": bytes(range(256)) * 100,
        "mix": {
            "ids": [1, 2, 3],
            "name": "stage",
            "hidden": half,
            "mask": numpy.arange(1000, dtype=numpy.int16),
        },
        "big": {"embeds": big},
    }


def same(left, right):
    import numpy
    import torch

    if isinstance(right, torch.Tensor):
        return (
            isinstance(left, torch.Tensor)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and torch.equal(
                left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8)
            )
        )
    if isinstance(right, numpy.ndarray):
        return (
            isinstance(left, numpy.ndarray)
            and left.dtype == right.dtype
            and numpy.array_equal(left, right)
        )
    if isinstance(right, dict):
        return (
            isinstance(left, dict)
            and left.keys() == right.keys()
            and all(same(left[k], right[k]) for k in right)
        )
    return left == right


def start_second(args, part, extra):
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--master",
        args.master,
        "--port-base",
        str(args.port_base),
        "--role",
        "second",
        "--only",
        part,
        "--run",
        args.run,
        "--extra",
        json.dumps(extra),
    ]
    if args.trace:
        command += ["--trace", args.trace]
    if args.verbose:
        command.append("--verbose")
    return subprocess.Popen(command)


# ---------------------------------------------------------------- store


def store_connector(args, make, segment, slot):
    host = f"127.0.0.1:{args.port_base + slot}" if args.port_base else "127.0.0.1"
    return make(
        "MooncakeStoreConnector",
        host=host,
        metadata_server="P2PHANDSHAKE",
        master=args.master,
        segment=segment,
        localbuf=64 * MIB,
        proto="tcp",
        rdma="",
    )


def store_first(args, make):
    try:
        connector = store_connector(args, make, 256 * MIB, 0)
    except Exception as error:
        check("store.connected", False, repr(error))
        return
    check("store.connected", connector.health()["status"] == "healthy")
    begin = time.monotonic()
    check("store.miss", connector.get("a", "b", f"{args.run}-none") is None, "found something")
    check("store.miss.waits", 0.5 < time.monotonic() - begin < 10)
    for name, value in payloads().items():
        good, size, meta = connector.put("a", "b", f"{args.run}-{name}", value)
        check(f"store.put.{name}", good and size > 0 and meta is None, repr((good, size, meta)))
        got = connector.get("a", "b", f"{args.run}-{name}")
        check(f"store.own.{name}", got is not None and got[1] == size and same(got[0], value))
    good, _, _ = connector.put("a", "b", f"{args.run}-text", "something else")
    got = connector.get("a", "b", f"{args.run}-text")
    check(
        "store.put_again.old_value_stays", good and got and got[0] == payloads()["text"], repr(got)
    )
    second = start_second(args, "store", {})
    time.sleep(0.2)
    answer = None
    limit = time.monotonic() + 120
    while answer is None and second.poll() is None and time.monotonic() < limit:
        answer = connector.get("b", "a", f"{args.run}-answer")
    check("store.answer", answer is not None and answer[0] == {"from": "second"}, repr(answer))
    connector.put("a", "b", f"{args.run}-bye", "bye")
    check("store.second.exit", second.wait(120) == 0, f"exit code {second.returncode}")
    connector.cleanup(args.run)
    connector.close()
    connector.close()
    check("store.closed", connector.health()["status"] == "unhealthy")


def store_second(args, make):
    connector = store_connector(args, make, 0, 1)
    for name, value in payloads().items():
        got = connector.get("a", "b", f"{args.run}-{name}")
        check(f"store.second.{name}", got is not None and same(got[0], value))
    check("store.second.other_edge_is_a_miss", connector.get("b", "c", f"{args.run}-text") is None)
    check("store.second.put", connector.put("b", "a", f"{args.run}-answer", {"from": "second"})[0])
    limit = time.monotonic() + 60
    late = None
    while late is None and time.monotonic() < limit:
        late = connector.get("a", "b", f"{args.run}-bye")
    check("store.second.late_value", late is not None and late[0] == "bye", repr(late))
    connector.close()


def store_evict(args, make):
    """Outputs of 1 MiB; a get of what is not there asks for a second, so few are missed."""
    import torch

    connector = store_connector(args, make, 16 * MIB, 0)
    reader = store_connector(args, make, 0, 1)
    refused = []

    def value(number):
        generator = torch.Generator().manual_seed(number)
        return torch.randint(0, 256, (MIB,), dtype=torch.uint8, generator=generator)

    def put(number):
        if not connector.put("a", "b", f"{args.run}-{number}", {"embeds": value(number)})[0]:
            refused.append(number)

    def get(number):
        got = reader.get("a", "b", f"{args.run}-{number}")
        seen = cpu.Evicted()
        seen.page(got is not None, got is not None and same(got[0], {"embeds": value(number)}))
        return vars(seen)

    cpu.while_storing(check, "store.evict", 36, put, get)
    check("store.evict.all_stored", not refused, f"{refused}")
    reader.close()
    connector.close()


# ---------------------------------------------------------------- engine


def engine_first(args, make):
    import torch

    port = (args.port_base or 18150) + 2
    sender = make(
        "MooncakeTransferEngineConnector",
        host="127.0.0.1",
        zmq_port=port,
        protocol="tcp",
        device_name="",
        memory_pool_size=64 * MIB,
        memory_pool_device="cpu:0",
        role="sender",
    )
    info = sender.get_connection_info()
    check("engine.connected", info["can_put"] and info["rpc_port"] > 0)
    metas = {}
    for name, value in payloads().items():
        good, size, meta = sender.put("a", "b", f"{args.run}-{name}", value)
        metas[name] = meta
        check(
            f"engine.put.{name}",
            good and size > 0 and meta["data_size"] == size,
            repr((good, size, meta)),
        )
    tensor = torch.arange(100_000, dtype=torch.int32)
    good, _, metas["tensor"] = sender.put("a", "b", f"{args.run}-tensor", tensor)
    check("engine.put.tensor", good and metas["tensor"]["is_fast_path"])
    check("engine.put.empty_refused", sender.put("a", "b", f"{args.run}-empty", b"")[0] is False)
    second = start_second(args, "engine", {"metas": metas, "port": port})
    check("engine.second.exit", second.wait(120) == 0, f"exit code {second.returncode}")
    check(
        "engine.delivered_pages_are_released",
        not sender._local_buffers,
        repr(list(sender._local_buffers)),
    )
    sender.close()
    check("engine.closed", sender.health()["status"] == "unhealthy")


def engine_second(args, make):
    import torch

    extra = json.loads(args.extra)
    receiver = make(
        "MooncakeTransferEngineConnector",
        host="127.0.0.1",
        zmq_port=0,
        protocol="tcp",
        device_name="",
        memory_pool_size=64 * MIB,
        memory_pool_device="cpu:0",
        role="receiver",
    )
    check("engine.second.connected", not receiver.can_put)
    got = receiver.get("a", "b", f"{args.run}-tensor", extra["metas"]["tensor"])
    good = got is not None and torch.equal(
        got[0].tensor.view(torch.int32), torch.arange(100_000, dtype=torch.int32)
    )
    check("engine.second.tensor", good)
    if got:
        got[0].release()
    want = payloads()
    got = receiver.get(
        "a", "b", f"{args.run}-raw", {"source_host": "127.0.0.1", "source_port": extra["port"]}
    )
    check("engine.second.raw", got is not None and got[0].to_bytes() == want["raw"])
    if got:
        got[0].release()
    receiver.update_sender_info("127.0.0.1", extra["port"])
    threads, results = [], {}
    for name in ("text", "mix", "big"):
        thread = threading.Thread(
            target=lambda n=name: results.update({n: receiver.get("a", "b", f"{args.run}-{n}")})
        )
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    for name in ("text", "mix", "big"):
        got = results.get(name)
        check(f"engine.second.{name}", got is not None and same(got[0], want[name]))
    check("engine.second.miss", receiver.get("a", "b", f"{args.run}-none") is None)
    check("engine.second.taken_once", receiver.get("a", "b", f"{args.run}-text") is None)
    receiver.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument(
        "--port-base",
        type=int,
        default=0,
        help="first of 3 ports; 0 = any for the store, 18152 for ZMQ",
    )
    parser.add_argument("--only", choices=("store", "engine"), default=None)
    parser.add_argument("--trace", default="")
    parser.add_argument("--evict", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--role", default="first", help=argparse.SUPPRESS)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--extra", default="{}", help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.verbose else logging.CRITICAL)
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)
    make = prepare()
    if args.role == "second":
        {"store": store_second, "engine": engine_second}[args.only](args, make)
    else:
        args.run = uuid.uuid4().hex[:12]
        if args.evict:
            store_evict(args, make)
            args.only = "none"
        if args.only not in ("engine", "none"):
            store_first(args, make)
        if args.only not in ("store", "none"):
            engine_first(args, make)
    sys.stdout.flush()
    os._exit(1 if failures else 0)


if __name__ == "__main__":
    main()
