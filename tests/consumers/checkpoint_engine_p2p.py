"""Drives checkpoint-engine's P2PStore (mooncake.engine) on a machine without a GPU.

    python checkpoint_engine_p2p.py --master HOST:PORT [--trace FILE] [--verbose]

--master is accepted for uniformity and not used. Two processes, each with a P2PStore: this one
registers named tensors (the weights), the second one registers its buffers and reads them, single
and
in batches, as the parameter server does when a new rank joins.
Real classes: checkpoint_engine.p2p_store.P2PStore. Stand-ins: an object with the three fields that
P2PStore takes from DeviceManager (which refuses to exist without a GPU), with protocol "tcp"; and
get_ip, so that everything stays on the loopback address.

One line per check: "ok NAME" or "FAIL NAME why". Exit code 0 when no check failed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import types

failures = 0


def check(name, good, why=""):
    global failures
    if good:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        print(f"FAIL {name} {why}".rstrip(), flush=True)
    return bool(good)


def make_store(rank):
    import checkpoint_engine.p2p_store as p2p

    os.environ["RANK"] = str(rank)
    p2p.get_ip = lambda: "127.0.0.1"
    device = types.SimpleNamespace(
        device_module=types.SimpleNamespace(device_count=lambda: 1),
        transfer_engine_protocol="tcp",
        rdma_device=lambda rank: "",
    )
    return p2p.P2PStore(device)


def weights():
    import torch

    generator = torch.Generator().manual_seed(11)
    shapes = {"embed": (1000, 257), "bias": (3,), "wide": (64, 4096), "norm": (1024,)}
    return {
        name: torch.randn(shape, generator=generator).to(torch.bfloat16)
        for name, shape in shapes.items()
    }


def same(left, right):
    import torch

    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def first(args):
    store = make_store(0)
    check("p2p.connected", store.port > 0)
    named = weights()
    store.register_named_tensors(named)
    check("p2p.register", len(store.named_tensors) == len(named))
    hand_over = {
        "addr": store.addr,
        "ptrs": {name: tensor.data_ptr() for name, tensor in named.items()},
    }
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--master",
        args.master,
        "--role",
        "second",
        "--hand-over",
        json.dumps(hand_over),
    ]
    if args.trace:
        command += ["--trace", args.trace]
    if args.verbose:
        command.append("--verbose")
    code = subprocess.run(command, timeout=200).returncode
    check("p2p.second.exit", code == 0, f"exit code {code}")
    check("p2p.unregister", store.unregister_named_tensors(list(named)) == len(named))
    store.register_named_tensors({"embed": named["embed"]})
    check("p2p.register_again", store.unregister_named_tensors(["embed"]) == 1)


def second(args):
    import torch

    hand_over = json.loads(args.hand_over)
    store = make_store(1)
    want = weights()
    mine = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
    store.register_named_tensors(mine)
    store.batch_transfer_sync_read(
        hand_over["addr"],
        [mine["wide"].data_ptr()],
        [hand_over["ptrs"]["wide"]],
        [want["wide"].nbytes],
    )
    check("p2p.second.one", same(mine["wide"], want["wide"]))
    names = list(want)
    store.batch_transfer_sync_read(
        hand_over["addr"],
        [mine[n].data_ptr() for n in names],
        [hand_over["ptrs"][n] for n in names],
        [want[n].nbytes for n in names],
    )
    check("p2p.second.batch", all(same(mine[n], want[n]) for n in names))
    for tensor in mine.values():
        tensor.zero_()
    rows, width = want["wide"].shape
    step = width * 2
    pieces = list(range(rows))
    store.batch_transfer_sync_read(
        hand_over["addr"],
        [mine["wide"].data_ptr() + i * step for i in pieces],
        [hand_over["ptrs"]["wide"] + (rows - 1 - i) * step for i in pieces],
        [step] * rows,
    )
    check("p2p.second.rows", same(mine["wide"], want["wide"].flip(0)))
    begin = time.monotonic()
    try:
        store.batch_transfer_sync_read(
            "127.0.0.1:9", [mine["bias"].data_ptr()], [hand_over["ptrs"]["bias"]], [6]
        )
        check("p2p.second.no_such_peer", False, "no error")
    except AssertionError:
        check("p2p.second.no_such_peer", time.monotonic() - begin < 60)
    check("p2p.second.unregister", store.unregister_named_tensors(names) == len(names))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--trace", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--role", default="first", help=argparse.SUPPRESS)
    parser.add_argument("--hand-over", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.verbose:
        from loguru import logger

        logger.remove()
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)
    (second if args.role == "second" else first)(args)
    sys.stdout.flush()
    os._exit(1 if failures else 0)


if __name__ == "__main__":
    main()
