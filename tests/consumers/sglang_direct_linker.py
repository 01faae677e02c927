"""Runs SGLang's MooncakeDirectLinker (device pools linked to the store without a host tier).

It is the consumer of the session calls: batch_get_session_start, batch_get_into_multi_buffer_ranges
and batch_get_session_end. The "device" pool is SGLang's own pool for sparse attention
(DSATokenToKVPool: latent rows and an index) on the CPU. One process offloads pages, a second one
looks
them up and loads them layer by layer; every byte is compared.

  python sglang_direct_linker.py --master 127.0.0.1:50051
  --evict     stores twice what the pool holds while the second process loads
"""

import json
import logging
import os
import sys
import tempfile
import time
import uuid

import _cpu_consumer as cpu
from sglang_pd import LAYERS, MODEL, STUBS

PAGE, PAGES = 64, 40


def arguments():
    parser = cpu.common_args("SGLang's direct linker on mooncake, CPU only")
    parser.add_argument("--segment", type=int, default=64 << 20)
    parser.add_argument("--run", default=uuid.uuid4().hex[:10], help="part of every key")
    return parser.parse_args()


class Side:
    def __init__(self, args):
        self.args = args
        os.environ["MOONCAKE_PROTOCOL"] = "tcp"
        global torch
        import torch
        from sglang.srt.runtime_context import SpawnRanks, publish
        from sglang.srt.server_args import ServerArgs

        # the path of the model is a part of the keys: the same relative one in both processes
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        os.mkdir("tiny")
        with open("tiny/config.json", "w") as file:
            json.dump(MODEL, file)
        self.server_args = ServerArgs(model_path="tiny", device="cpu", page_size=PAGE)
        publish(
            self.server_args,
            role="scheduler",
            ranks=SpawnRanks(world_rank=0, gpu_id=0, dp_rank=None),
        )
        self.linkers = {}

    def open(self, kind):
        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams
        from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool
        from sglang.srt.mem_cache.storage.mooncake_store.mooncake_direct_linker import (
            MooncakeDirectLinker,
        )
        from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

        size = PAGE * (PAGES - 1)
        dtype = getattr(torch, kind)
        # the linker takes hybrid pools only; sparse attention has latent rows and an index per page
        pool = DSATokenToKVPool(size, PAGE, 64, dtype, 16, LAYERS, "cpu", 128, False, 80)
        tensors = [(t, PAGE) for t in pool.kv_buffer] + [
            (t, 1) for t in pool.index_k_with_scale_buffer
        ]
        allocator = PagedTokenToKVPoolAllocator(size, PAGE, dtype, "cpu", pool, False)
        params = CacheInitParams(
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=allocator,
            page_size=PAGE,
        )
        extra = {
            "local_hostname": cpu.own_name(self.args, len(self.linkers)),
            "metadata_server": "P2PHANDSHAKE",
            "protocol": "tcp",
            "device_name": "",
            "global_segment_size": self.args.segment,
            "master_server_address": self.args.master,
            "extra_backend_tag": f"{self.args.run}-{kind}",
        }
        linker = MooncakeDirectLinker(
            self.server_args, params, components={ComponentType.FULL}, extra_config=extra
        )
        self.linkers[kind] = linker, tensors
        return True

    def transfer(self, keys, pages=None):
        from sglang.srt.mem_cache.hicache_storage import PoolName, PoolTransfer

        indices = (
            None
            if pages is None
            else torch.cat([torch.arange(p * PAGE, (p + 1) * PAGE) for p in pages])
        )
        return [PoolTransfer(name=PoolName.KV, keys=keys, device_indices=indices)]

    def fill(self, kind, seed):
        generator = torch.Generator().manual_seed(seed)
        for t, _ in self.linkers[kind][1]:
            raw = t.view(torch.uint8).reshape(-1)
            raw.copy_(torch.randint(1, 256, raw.shape, dtype=torch.uint8, generator=generator))
        return True

    def offload(self, kind, keys, pages):
        linker, _ = self.linkers[kind]
        if not linker.offload(self.transfer(keys, pages)):
            return False
        end = time.monotonic() + 30
        while not linker.num_completed_offloads() and time.monotonic() < end:
            time.sleep(0.002)
        return linker.num_completed_offloads() > 0 and linker.pop_completed_offload()

    def look(self, kind, keys):
        return self.linkers[kind][0].lookup("r", self.transfer(keys))

    def load(self, kind, requests, seed):
        """requests: name -> [keys, pages to fill, source pages]. One batch for all of them."""
        linker, tensors = self.linkers[kind]
        for t, _ in tensors:
            t.zero_()
        for name, (keys, pages, _) in requests.items():
            linker.load(name, self.transfer(keys, pages))
        index = linker.start_layer_wise_loading()
        linker.layer_done_counter.set_consumer(index)
        for layer in range(LAYERS):
            linker.layer_done_counter.wait_until(layer)
        landed = linker.finish_layer_wise_loading(index)
        linker.load_queue.join()
        source = [torch.empty_like(t) for t, _ in tensors]
        generator = torch.Generator().manual_seed(seed)
        for t in source:
            raw = t.view(torch.uint8).reshape(-1)
            raw.copy_(torch.randint(1, 256, raw.shape, dtype=torch.uint8, generator=generator))
        equal, rest = True, 0
        for (mine, span), theirs in zip(tensors, source):
            left = mine.view(torch.uint8).clone()
            for _, pages, origin in requests.values():
                for dst, src in zip(pages, origin):
                    a = mine[dst * span : (dst + 1) * span].view(torch.uint8)
                    b = theirs[src * span : (src + 1) * span].view(torch.uint8)
                    equal &= bool(torch.equal(a, b))
                    left[dst * span : (dst + 1) * span] = 0
            rest += int((left != 0).sum())
        return {"landed": landed, "equal": equal, "outside": rest}

    def close(self, kind):
        self.linkers[kind][0].close()
        return dict(self.linkers[kind][0].stats)


def check_evict(checks, side, peer, kind):
    """Prompts of 16 pages, one batch each; a batch that lost a page has not landed."""
    side.open(kind)
    peer.call("open", kind=kind)
    pages = list(range(16))
    prompt = sum(t[:16 * span].numel() * t.element_size() for t, span in side.linkers[kind][1])
    refused = []

    def keys(number):
        return [f"{number * 16 + page:064x}" for page in pages]

    def put(number):
        side.fill(kind, number)
        if not side.offload(kind, keys(number), pages):
            refused.append(number)

    def load(number):
        found = max(peer.call("look", kind=kind, keys=keys(number)), default=0)
        seen = cpu.Evicted()
        if found == 0:
            seen.page(False, False)
            return vars(seen)
        r = peer.call("load", kind=kind, seed=number, requests={
            "one": [keys(number)[:found], [20 + page for page in pages[:found]], pages[:found]]})
        seen.page(r["landed"], r["equal"] and not r["outside"])
        return vars(seen)

    cpu.while_storing(checks.check, f"{kind}/evict", 2 * 2 * side.args.segment // prompt, put, load)
    checks.check(f"{kind}/evict/all-stored", not refused, f"{refused}")
    side.close(kind), peer.call("close", kind=kind)


def main(args):
    checks = cpu.Checks()
    if args.evict:
        args.segment = 16 << 20
    begin = time.monotonic()
    side = Side(args)
    import sglang

    print(
        f"# sglang {sglang.__version__}, torch {torch.__version__}, "
        f"start {time.monotonic() - begin:.1f} s",
        flush=True,
    )
    peer = cpu.Peer(
        os.path.abspath(__file__),
        "second",
        cpu.passed_on(args) + ["--run", args.run, "--segment", str(args.segment)],
    )

    def body(kind, seed):
        side.open(kind)
        peer.call("open", kind=kind)
        side.fill(kind, seed)
        keys = [f"{i:064x}" for i in range(20)]
        checks.equal(f"{kind}/nothing-yet", peer.call("look", kind=kind, keys=keys[:4]), [])
        checks.equal(f"{kind}/offload", side.offload(kind, keys[:8], list(range(8))), True)
        checks.equal(
            f"{kind}/look", peer.call("look", kind=kind, keys=keys[:10]), list(range(1, 9))
        )
        r = peer.call(
            "load",
            kind=kind,
            seed=seed,
            requests={"one": [keys[:8], list(range(20, 28)), list(range(8))]},
        )
        checks.equal(f"{kind}/load-every-byte", r, {"landed": True, "equal": True, "outside": 0})
        r = peer.call(
            "load",
            kind=kind,
            seed=seed,
            requests={
                "a": [keys[:3], [30, 5, 6], [0, 1, 2]],
                "b": [keys[4:8], [9, 10, 11, 2], [4, 5, 6, 7]],
                "c": [keys[1:2], [33], [1]],
            },
        )
        checks.check(f"{kind}/three-at-once", r["landed"] and r["equal"] and not r["outside"], r)
        r = peer.call(
            "load",
            kind=kind,
            seed=seed,
            requests={"one": [keys[6:10], [20, 21, 22, 23], [6, 7, 8, 9]]},
        )
        checks.equal(f"{kind}/miss-fails-the-batch", r["landed"], False)
        checks.equal(
            f"{kind}/offload-again", side.offload(kind, keys[5:12], list(range(5, 12))), True
        )
        r = peer.call(
            "load",
            kind=kind,
            seed=seed,
            requests={"one": [keys[:12], list(range(3, 15)), list(range(12))]},
        )
        checks.equal(f"{kind}/after-a-miss", r, {"landed": True, "equal": True, "outside": 0})
        stats = side.close(kind), peer.call("close", kind=kind)
        checks.equal(f"{kind}/statistics", (stats[0]["offload"], stats[1]["load"]), (2, 6))

    try:
        if args.evict:
            checks.run("bfloat16", check_evict, checks, side, peer, "bfloat16")
        else:
            checks.run("bfloat16", body, "bfloat16", 60)
            checks.run("float16", body, "float16", 61)
        checks.equal("second-process-ends", peer.end(), 0)
    finally:
        peer.end(5)
    return checks.finish()


if __name__ == "__main__":
    options = arguments()
    stubs = cpu.stub_missing(STUBS)
    logging.getLogger().setLevel(logging.ERROR)
    cpu.start(options)
    if options.role == "main":
        print(f"# stand-ins: {', '.join(stubs) or 'none'}", flush=True)
        sys.exit(main(options))
    other = Side(options)
    cpu.serve(
        dict(open=other.open, look=other.look, load=other.load, close=other.close, fill=other.fill)
    )
