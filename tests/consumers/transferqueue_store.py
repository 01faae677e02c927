"""Drives TransferQueue's Mooncake storage on a machine without a GPU and without a Ray cluster.

    python transferqueue_store.py --master HOST:PORT [--port-base N] [--trace FILE] [--verbose]
                                  [--evict]

The master has to run already. Two levels:
  kv     MooncakeStoreClient (made by StorageClientFactory): put, get, clear of flat keys
  queue  TransferQueueController, TransferQueueClient, MooncakeStorageManager: a partition of
  samples
Each level has this process and a second one; the second one reads what the first one put, and in
"queue" adds a field that the first one reads. The controller is TransferQueue's own class, run in
this process instead of in a Ray actor. TransferQueue never starts servers here (auto_init would
kill every process whose command line has mooncake_master in it).

--evict runs neither, but the kv level on a pool half the size of what is put: samples that are not
pinned are right or their get raises; pinned ones stay, and a put that finds no room raises.
One line per check: "ok NAME" or "FAIL NAME why". Exit code 0 when no check failed.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import uuid

import _cpu_consumer as cpu

MIB = 1 << 20
MANY = 1000  # TransferQueue cuts batches at 400 keys and runs them in 4 threads
failures = 0


def check(name, good, why=""):
    global failures
    if good:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        print(f"FAIL {name} {why}".rstrip(), flush=True)
    return bool(good)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument(
        "--port-base", type=int, default=0, help="first of 4 ports for the clients; 0 = any"
    )
    parser.add_argument("--trace", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--evict", action="store_true")
    parser.add_argument("--role", default="first", help=argparse.SUPPRESS)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--hand-over", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def settings(args, segment, slot, hard_pin=None):
    host = "127.0.0.1" if not args.port_base else f"127.0.0.1:{args.port_base + slot}"
    return {
        "auto_init": False,
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": args.master,
        "local_hostname": host,
        "protocol": "tcp",
        "global_segment_size": segment,
        "local_buffer_size": 64 * MIB,
        "device_name": "",
        "hard_pin": hard_pin,
        "use_gdr": False,
    }


def same(left, right):
    import torch

    return (
        left.dtype == right.dtype
        and tuple(left.shape) == tuple(right.shape)
        and left.contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .equal(right.contiguous().reshape(-1).view(torch.uint8))
    )


def same_all(left, right):
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right))


def fails(action):
    """The RuntimeError that action() has to raise, or None."""
    try:
        action()
    except RuntimeError as error:
        return error
    return None


def tensors(seed, count, rows=64):
    """Tensors of several types and sizes, the same in both processes."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    kinds = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.float16)
    made = []
    for i in range(count):
        kind = kinds[i % len(kinds)]
        shape = ((rows, 1 + i % 7), (1 + i,), (3, 5, rows))[i % 3]
        size = torch.empty(0, dtype=kind).element_size()
        for n in shape:
            size *= n
        raw = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
        made.append(raw.view(kind).view(shape))
    return made


OBJECTS = [
    "plain text äöü",
    b"bytes\x00\xff",
    17,
    2.5,
    {"deep": [1, {"x": None}], "t": "u"},
    ["a", "b"],
    "",
    None,
]


def start_second(args, hand_over):
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--master",
        args.master,
        "--port-base",
        str(args.port_base),
        "--role",
        "second",
        "--run",
        args.run,
        "--hand-over",
        json.dumps(hand_over),
    ]
    if args.trace:
        command += ["--trace", args.trace]
    if args.verbose:
        command.append("--verbose")
    return subprocess.run(command, timeout=300).returncode


# ------------------------------------------------------------------ level kv


def kv_client(args, segment, slot, hard_pin=None):
    from transfer_queue.storage.clients.base import StorageClientFactory
    import transfer_queue.storage.clients.mooncake_client  # noqa: F401  registers the class

    return StorageClientFactory.create(
        "MooncakeStoreClient", settings(args, segment, slot, hard_pin))


def kv_names(args):
    return (
        [f"{args.run}/t{i}" for i in range(12)],
        [f"{args.run}/o{i}" for i in range(len(OBJECTS))],
        [f"{args.run}/m{i}" for i in range(MANY)],
    )


def fetch(client, keys, like):
    return client.get(keys, [tuple(t.shape) for t in like], [t.dtype for t in like])


def kv_first(args):
    import torch

    client = kv_client(args, 256 * MIB, 0)
    check("kv.connected", True)
    names, object_names, many_names = kv_names(args)
    values = tensors(1, len(names))

    error = fails(lambda: fetch(client, names[:1], values[:1]))
    check("kv.miss.get_raises", error is not None and "-704" in str(error), repr(error))
    client.clear(names)
    check("kv.miss.clear_is_quiet", True)

    meta = client.put(names, values)
    check("kv.put.tensor_meta", meta == [None] * len(names), repr(meta))
    check("kv.put.own_read", same_all(fetch(client, names, values), values))
    meta = client.put(names[:2] + object_names + names[2:4], values[:2] + OBJECTS + values[2:4])
    sizes = [m["packed_size"] if m else 0 for m in meta]
    check(
        "kv.put.mixed_meta",
        sizes[:2] == [0, 0] and all(s > 0 for s in sizes[2:-2]) and sizes[-2:] == [0, 0],
        repr(sizes),
    )
    object_meta = meta[2:-2]

    wide = torch.arange(4096, dtype=torch.int32).view(64, 64)
    client.put(
        [f"{args.run}/strided", f"{args.run}/scalar"],
        [wide.t(), torch.tensor(3.25, dtype=torch.float64)],
    )
    got = client.get(
        [f"{args.run}/strided", f"{args.run}/scalar"], [(64, 64), ()], [torch.int32, torch.float64]
    )
    check("kv.put.strided_and_scalar", same(got[0], wide.t()) and got[1].item() == 3.25)

    many = tensors(2, MANY, rows=16)
    client.put(many_names, many)
    check("kv.many.own_read", same_all(fetch(client, many_names, many), many))

    # upsert: same size, smaller, larger
    again = tensors(3, len(names))
    client.put(names, again)
    check("kv.upsert.same_size", same_all(fetch(client, names, again), again))
    other = tensors(4, len(names), rows=32)
    client.put(names, other)
    check("kv.upsert.smaller", same_all(fetch(client, names, other), other))
    other = tensors(5, len(names), rows=200)
    client.put(names, other)
    check("kv.upsert.larger", same_all(fetch(client, names, other), other))

    # several threads, each registering and unregistering its own buffers
    problems = []

    def work(n):
        try:
            mine = tensors(50 + n, 6)
            keys = [f"{args.run}/w{n}.{i}" for i in range(6)]
            for _ in range(10):
                client.put(keys, mine)
                if not same_all(fetch(client, keys, mine), mine):
                    problems.append(f"thread {n} read other bytes")
            client.clear(keys)
        except Exception as error:
            problems.append(f"thread {n}: {error!r}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("kv.threads", not problems, "; ".join(problems[:3]))

    code = start_second(args, {"level": "kv", "object_meta": object_meta})
    check("kv.second.exit", code == 0, f"exit code {code}")
    error = fails(lambda: fetch(client, names[:1], other[:1]))
    check("kv.cleared_by_second", error is not None and "-704" in str(error), repr(error))
    client.clear(names + object_names + many_names + [f"{args.run}/strided", f"{args.run}/scalar"])
    error = fails(lambda: fetch(client, many_names[-1:], many[-1:]))
    check("kv.clear_all", error is not None, "still there")
    client.close()
    check("kv.closed", True)


def kv_second(args, hand_over):
    client = kv_client(args, 0, 1)
    names, object_names, many_names = kv_names(args)
    other = tensors(5, len(names), rows=200)
    check("kv.second.tensors", same_all(fetch(client, names, other), other))
    many = tensors(2, MANY, rows=16)
    check("kv.second.many", same_all(fetch(client, many_names, many), many))
    got = client.get(
        object_names, [None] * len(OBJECTS), [None] * len(OBJECTS), hand_over["object_meta"]
    )
    check("kv.second.objects", list(got) == OBJECTS, repr(got))
    mixed = client.get(
        [names[0], object_names[0], names[1]],
        [tuple(other[0].shape), None, tuple(other[1].shape)],
        [other[0].dtype, None, other[1].dtype],
        [None, hand_over["object_meta"][0], None],
    )
    check(
        "kv.second.mixed",
        same(mixed[0], other[0]) and mixed[1] == OBJECTS[0] and same(mixed[2], other[1]),
    )
    error = fails(lambda: fetch(client, [names[0], f"{args.run}/nothing", names[1]], other[:3]))
    check(
        "kv.second.one_missing_raises",
        error is not None and f"{args.run}/nothing" in str(error) and names[0] not in str(error),
        repr(error),
    )
    client.clear(names)
    client.clear(names)
    check("kv.second.clear_twice", True)
    client.close()


# ------------------------------------------------------------------ a pool that evicts


def sample(number):
    """2 MiB."""
    import torch

    generator = torch.Generator().manual_seed(number)
    return torch.randint(0, 256, (2 * MIB,), dtype=torch.uint8, generator=generator)


def evict_unpinned(args):
    """TransferQueue asks for what is missing three times, a second apart: few samples."""
    client = kv_client(args, 32 * MIB, 0, False)
    second = kv_client(args, 0, 1, False)
    refused, count = [], 34

    def put(number):
        error = fails(lambda: client.put([f"{args.run}/e{number}"], [sample(number)]))
        if error is not None:
            refused.append(error)

    def get(number):
        got, value = [], sample(number)
        error = fails(lambda: got.extend(fetch(second, [f"{args.run}/e{number}"], [value])))
        seen = cpu.Evicted()
        seen.page(error is None, bool(got) and same(got[0], value),
                  error is None or "-704" in str(error))
        return vars(seen)

    cpu.while_storing(check, "evict", count, put, get)
    check("evict.all_stored", not refused, f"{refused[:1]}")
    client.clear([f"{args.run}/e{number}" for number in range(count)])
    client.close()
    second.close()


def evict_pinned(args):
    client = kv_client(args, 32 * MIB, 0)
    kept, refused = [], []
    for number in range(18):
        error = fails(lambda: client.put([f"{args.run}/p{number}"], [sample(number)]))
        (refused if error else kept).append(number)
    check("evict.pinned.kept", len(kept) >= 14, f"{len(kept)} of 18")
    check("evict.pinned.refused", len(refused) > 0)
    check("evict.pinned.every_byte", all(
        same(fetch(client, [f"{args.run}/p{number}"], [sample(number)])[0], sample(number))
        for number in kept))
    client.close()


# ------------------------------------------------------------------ level queue


def queue_client(args, info, segment, slot, name):
    from transfer_queue.client import TransferQueueClient

    client = TransferQueueClient(client_id=name, controller_info=info)
    client.initialize_storage_manager("MooncakeStore", settings(args, segment, slot))
    return client


def batch():
    """8 samples: dense, ragged and non-tensor fields."""
    import torch
    from tensordict import NonTensorStack, TensorDict

    generator = torch.Generator().manual_seed(9)
    ids = torch.randint(0, 150000, (8, 32), generator=generator)
    ragged = [torch.rand(3 + 5 * i, generator=generator) for i in range(8)]
    words = [f"sample {i}" for i in range(8)]
    data = TensorDict(
        {
            "input_ids": ids,
            "logprobs": torch.nested.as_nested_tensor(ragged, layout=torch.jagged),
            "prompt": NonTensorStack(*words),
        },
        batch_size=8,
    )
    return data, ids, ragged, words


def rows(field):
    return list(field.unbind()) if hasattr(field, "unbind") else list(field)


def close(client):
    """TransferQueue's manager never closes its store client. Without close() the segment of this
    process
    stays known to the master until client_ttl, and other clients' puts that land on it fail with
    -800.
    """
    store_client = client.storage_manager.storage_client
    client.close()
    store_client.close()


def controller_parts():
    from transfer_queue.controller import TransferQueueController

    plain = (
        TransferQueueController.__ray_metadata__.modified_class
    )  # the class below the Ray actor
    return plain(polling_mode=True)


def queue_first(args):
    from tensordict import TensorDict

    controller = controller_parts()
    info = controller.get_zmq_server_info()
    client = queue_client(args, info, 256 * MIB, 2, "first")
    check("queue.connected", True)
    data, ids, ragged, words = batch()
    meta = client.put(data=data, partition_id="train_0")
    check("queue.put", meta.size == 8, repr(meta.size))
    meta = client.get_meta(
        data_fields=["input_ids", "logprobs", "prompt"],
        batch_size=8,
        partition_id="train_0",
        mode="fetch",
        task_name="own",
    )
    got = client.get_data(meta)
    check("queue.own.input_ids", same_all(rows(got["input_ids"]), list(ids)))
    check("queue.own.logprobs", same_all(rows(got["logprobs"]), ragged))
    check("queue.own.prompt", [str(w) for w in got["prompt"]] == words)

    code = start_second(
        args, {"level": "queue", "info": {"id": info.id, "ip": info.ip, "ports": info.ports}}
    )
    check("queue.second.exit", code == 0, f"exit code {code}")
    meta = client.get_meta(
        data_fields=["response"],
        batch_size=8,
        partition_id="train_0",
        mode="fetch",
        task_name="train",
    )
    check("queue.response.ready", meta.size == 8, repr(meta.size))
    got = client.get_data(meta)
    check(
        "queue.response.every_byte",
        same_all(rows(got["response"]), [ids[i] * 3 + 1 for i in range(8)]),
    )

    whole = client.get_meta(
        data_fields=["input_ids", "logprobs", "prompt", "response"],
        batch_size=8,
        partition_id="train_0",
        mode="force_fetch",
    )
    part = whole.select_samples([0, 1, 2]) if hasattr(whole, "select_samples") else whole
    client.clear_samples(part)
    error = fails(lambda: client.get_data(part))
    check("queue.clear_samples", error is not None, "cleared samples can still be read")
    client.clear_partition("train_0")
    error = fails(lambda: client.get_data(whole))
    check("queue.clear_partition", error is not None, "a cleared partition can still be read")
    client.put(data=TensorDict({"input_ids": ids + 1}, batch_size=8), partition_id="train_1")
    meta = client.get_meta(
        data_fields=["input_ids"],
        batch_size=8,
        partition_id="train_1",
        mode="fetch",
        task_name="own",
    )
    check(
        "queue.second_partition", same_all(rows(client.get_data(meta)["input_ids"]), list(ids + 1))
    )
    client.clear_partition("train_1")
    close(client)
    check("queue.closed", True)


def queue_second(args, hand_over):
    import torch
    from tensordict import TensorDict
    from transfer_queue.utils.enum_utils import Role
    from transfer_queue.utils.zmq_utils import ZMQServerInfo

    info = hand_over["info"]
    client = queue_client(
        args, ZMQServerInfo(Role.CONTROLLER, info["id"], info["ip"], info["ports"]), 0, 3, "second"
    )
    _, ids, ragged, words = batch()
    answers = {}
    for _ in range(2):  # two batches of 4
        meta = client.get_meta(
            data_fields=["input_ids", "logprobs", "prompt"],
            batch_size=4,
            partition_id="train_0",
            mode="fetch",
            task_name="generate",
        )
        got = client.get_data(meta)
        index = [words.index(str(w)) for w in got["prompt"]]
        check(
            f"queue.second.batch{index}",
            same_all(rows(got["input_ids"]), [ids[i] for i in index])
            and same_all(rows(got["logprobs"]), [ragged[i] for i in index]),
        )
        client.put(
            data=TensorDict(
                {"response": torch.stack([ids[i] * 3 + 1 for i in index])}, batch_size=4
            ),
            metadata=meta,
        )
        answers.update(dict.fromkeys(index))
    check("queue.second.all_samples", sorted(answers) == list(range(8)), repr(sorted(answers)))
    empty = client.get_meta(
        data_fields=["input_ids"],
        batch_size=4,
        partition_id="train_0",
        mode="fetch",
        task_name="generate",
    )
    check("queue.second.consumed", empty.size == 0, repr(empty.size))
    close(client)


def main():
    args = parse_arguments()
    os.environ.update(
        {
            "RAY_ENABLE_AUTO_CONNECT": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        }
    )  # the last one: Ray says this host is 127.0.0.1
    os.environ.setdefault("TQ_LOGGING_LEVEL", "INFO" if args.verbose else "CRITICAL")
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)
    if args.role == "second":
        hand_over = json.loads(args.hand_over)
        (kv_second if hand_over["level"] == "kv" else queue_second)(args, hand_over)
    else:
        args.run = uuid.uuid4().hex[:12]
        for part in (evict_unpinned, evict_pinned) if args.evict else (kv_first, queue_first):
            part(args)
    sys.stdout.flush()
    os._exit(1 if failures else 0)


if __name__ == "__main__":
    main()
