"""Runs vLLM's encoder-cache store (MooncakeEmbeddingStoreClient and its Backend) on CPU tensors.

One process publishes encoder outputs, a second one resolves them, every byte is compared. This
client checks result types exactly (list of int) and treats unknown error codes as fatal, so it is
the strictest consumer of the store calls.

  python vllm_ec.py --master 127.0.0.1:50051
  --evict     stores twice what the pool holds while the second process resolves
"""

import json
import os
import sys
import tempfile
import time
import uuid

import _cpu_consumer as cpu


def arguments():
    parser = cpu.common_args("vLLM's encoder cache on mooncake, CPU only")
    parser.add_argument("--segment", type=int, default=64 << 20)
    parser.add_argument("--run", default=uuid.uuid4().hex[:10], help="part of every key")
    return parser.parse_args()


class Side:
    def __init__(self, args):
        os.environ["VLLM_HOST_IP"] = args.host
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        if args.port_base:
            os.environ["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] = cpu.own_name(args, 1)
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(
                {
                    "metadata_server": "P2PHANDSHAKE",
                    "master_server_address": args.master,
                    "protocol": "tcp",
                    "device_name": "",
                    "global_segment_size": args.segment,
                    "local_buffer_size": "16MB",
                },
                file,
            )
        os.environ["MOONCAKE_CONFIG_PATH"] = file.name
        global torch
        import torch
        from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding import (
            backend,
            data,
            store_client,
        )

        self.client = store_client.create_mooncake_embedding_store_client(
            read_buffer_bytes=4 << 20
        )
        os.unlink(file.name)
        self.errors = store_client
        self.backend = backend.MooncakeEmbeddingStoreBackend(
            self.client, f"test-{args.run}", max_pending_items=64, max_pending_bytes=1 << 30
        )
        self.spec = data.TensorSpec
        self.key = data.make_embedding_key

    def tensor(self, name, rows, width, dtype):
        generator = torch.Generator().manual_seed(sum(name.encode()) * 1000 + rows)
        out = torch.empty(rows, width, dtype=getattr(torch, dtype))
        raw = out.view(torch.uint8).reshape(-1)
        raw.copy_(torch.randint(0, 256, raw.shape, dtype=torch.uint8, generator=generator))
        return out

    def specs(self, wanted):
        out = {}
        for name, (rows, width, dtype) in wanted.items():
            size = rows * width * getattr(torch, dtype).itemsize
            out[name] = self.spec((rows, width), f"torch.{dtype}", size)
        return out

    def publish(self, wanted):
        """As the model runner does: resolve first, encode what is missing, hand it over."""
        cache = {}
        found = self.backend.resolve_inputs(self.specs(wanted), cache, "cpu")
        for name, (rows, width, dtype) in wanted.items():
            if name not in found:
                self.backend.save_output(name, self.tensor(name, rows, width, dtype))
        end = time.monotonic() + 20
        while self.backend._pending and time.monotonic() < end:
            self.backend.reap()
            time.sleep(0.005)
        return sorted(found)

    def resolve(self, wanted):
        cache = {}
        found = self.backend.resolve_inputs(self.specs(wanted), cache, "cpu")
        equal = {
            n: bool(
                torch.equal(
                    cache[n].view(torch.uint8), self.tensor(n, *wanted[n]).view(torch.uint8)
                )
            )
            for n in found
        }
        return {"found": sorted(found), "equal": equal}

    def direct(self, name, rows, width, dtype):
        """put_tensor and load_tensors without the backend."""
        self.client.put_tensor(name, self.tensor(name, rows, width, dtype))
        again = self.client.put_tensor(name, self.tensor(name + "x", rows, width, dtype))
        got = self.client.load_tensors(self.specs({name: (rows, width, dtype)}), "cpu")
        return again is None and bool(
            torch.equal(
                got[name].view(torch.uint8),
                self.tensor(name, rows, width, dtype).view(torch.uint8),
            )
        )

    def full(self, count, rows):
        """More than the store holds without rest: has to be refused politely or evict."""
        codes = {"ok": 0, "refused": 0, "fatal": 0}
        for i in range(count):
            try:
                self.client.put_tensor(
                    f"full-{os.getpid()}-{i}", self.tensor(f"f{i}", rows, 1024, "float32")
                )
                codes["ok"] += 1
            except self.errors.EmbeddingStoreOperationError:
                codes["refused"] += 1
            except self.errors.EmbeddingStoreError:
                codes["fatal"] += 1
                break
        return codes

    def close(self):
        self.backend.shutdown()  # waits for the publisher, then close() == 0
        return "closed"


def evict(checks, side, peer, args):
    """Ten outputs of 300 KiB at a time."""
    def wanted(number):
        return {f"{number}-{i}": (150 + i, 512, "float32") for i in range(10)}

    def load(number):
        r = peer.call("resolve", wanted=wanted(number))
        seen = cpu.Evicted()
        for name in wanted(number):
            seen.page(name in r["found"], r["equal"].get(name))
        return vars(seen)

    checks.equal("evict/nothing-yet", peer.call("resolve", wanted=wanted(-1))["found"], [])
    cpu.while_storing(checks.check, "evict", 2 * 2 * args.segment // (3 << 20) + 1,
                      lambda number: side.publish(wanted(number)), load)
    checks.equal("evict/close", (side.close(), peer.call("close")), ("closed", "closed"))


def main(args):
    checks = cpu.Checks()
    if args.evict:
        args.segment = 16 << 20
    begin = time.monotonic()
    side = Side(args)
    import vllm

    print(
        f"# vllm {vllm.__version__}, torch {torch.__version__}, "
        f"start {time.monotonic() - begin:.1f} s",
        flush=True,
    )
    peer = cpu.Peer(
        os.path.abspath(__file__),
        "second",
        cpu.passed_on(args) + ["--run", args.run, "--segment", str(args.segment)],
    )

    def body():
        wanted = {
            "a": (7, 64, "bfloat16"),
            "b": (300, 128, "float16"),
            "c": (33, 1000, "float32"),
            "d": (1, 16, "bfloat16"),
        }
        checks.equal("nothing-yet", peer.call("resolve", wanted=wanted)["found"], [])
        checks.equal("publish", side.publish(wanted), [])
        r = peer.call("resolve", wanted=wanted)
        checks.equal("resolve", r["found"], ["a", "b", "c", "d"])
        checks.equal("resolve-every-byte", r["equal"], {n: True for n in wanted})
        checks.equal("publish-again-finds-all", side.publish(wanted), ["a", "b", "c", "d"])
        r = peer.call("resolve", wanted={"a": wanted["a"], "z": (5, 64, "bfloat16")})
        checks.equal("miss", (r["found"], r["equal"]), (["a"], {"a": True}))
        r = peer.call("resolve", wanted={"a": (7, 65, "bfloat16"), "b": (100, 128, "float16")})
        checks.equal("other-size-is-no-hit", r["found"], [])
        r = peer.call("resolve", wanted={"a": wanted["a"]})
        checks.equal("still-healthy", r["found"], ["a"])
        more = {f"m{i}": (100 + i, 512, "float32") for i in range(30)}  # several read buffers
        peer.call("publish", wanted=more)
        r = side.resolve(more)
        checks.equal("thirty-other-way", (len(r["found"]), all(r["equal"].values())), (30, True))
        checks.equal("direct", side.direct(f"{args.run}-direct", 20, 40, "float32"), True)
        r = side.full(120, 512)  # 240 MiB into 128 MiB
        checks.check("full-store-is-not-fatal", r["fatal"] == 0 and r["ok"] > 20, r)
        print(f"# full store: {r}", flush=True)
        checks.equal("close", (side.close(), peer.call("close")), ("closed", "closed"))

    try:
        if args.evict:
            checks.run("evict", evict, checks, side, peer, args)
        else:
            checks.run("ec", body)
        checks.equal("second-process-ends", peer.end(), 0)
    finally:
        peer.end(5)
    return checks.finish()


if __name__ == "__main__":
    options = arguments()
    cpu.start(options)
    if options.role == "main":
        sys.exit(main(options))
    other = Side(options)
    cpu.serve(dict(publish=other.publish, resolve=other.resolve, close=other.close))
