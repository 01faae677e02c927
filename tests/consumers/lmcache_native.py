"""Runs snowskin.lmcache.SnowskinL2Adapter below LMCache's own StorageManager, on CPU memory.

A StorageManager of this process reserves, fills and finishes chunks of two ranks; its controllers
store them. A second process's StorageManager prefetches them into its own first level and every
byte is compared. Needs a running master.

  python lmcache_native.py --master 127.0.0.1:50051
  --evict     stores twice what the pool holds while the second process prefetches
"""
import os
import sys
import time
import uuid

import _cpu_consumer as cpu

CHUNKS, RANKS, MIB = 8, 2, 1 << 20
SHAPE = (2, 4, 64, 128)  # 128 KiB of bfloat16


def arguments():
    parser = cpu.common_args("LMCache's storage manager on snowskin, CPU only")
    parser.add_argument("--run", default=uuid.uuid4().hex[:10], help="part of every key")
    parser.add_argument("--segment", type=int, default=64 * MIB)
    return parser.parse_args()


class Side:
    """One storage manager with its first level and the adapter."""

    def __init__(self, args, segment):
        os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
        global torch, api
        import torch
        from lmcache.v1.distributed import api, config
        from lmcache.v1.distributed.l2_adapters.config import L2AdaptersConfig
        from lmcache.v1.distributed.l2_adapters.plugin_l2_adapter import PluginL2AdapterConfig
        from lmcache.v1.distributed.storage_manager import StorageManager
        self.run = args.run
        plugin = PluginL2AdapterConfig.from_dict({
            "module_path": "snowskin.lmcache", "class_name": "SnowskinL2Adapter",
            "adapter_params": {"master": args.master, "segment_size": segment,
                               "tag": args.run}})
        level = config.L1ManagerConfig(config.L1MemoryManagerConfig(
            size_in_bytes=32 * MIB, use_lazy=False, shm_name=""))
        self.manager = StorageManager(config.StorageManagerConfig(
            level, config.EvictionConfig("LRU"), L2AdaptersConfig([plugin])))
        self.layout = api.MemoryLayoutDesc([torch.Size(SHAPE)], [torch.bfloat16])

    def key(self, prompt, chunk, rank, ranks=RANKS, salt=""):
        return api.ObjectKey(
            chunk_hash=("%s/%d/%d" % (self.run, prompt, chunk)).encode(), model_name="test/model",
            kv_rank=api.ObjectKey.ComputeKVRank(ranks, rank, ranks, rank), cache_salt=salt)

    @staticmethod
    def content(prompt, chunk, rank):
        generator = torch.Generator().manual_seed(prompt * 1000 + chunk * 10 + rank)
        size = 2 * torch.Size(SHAPE).numel()
        return torch.randint(1, 256, (size,), dtype=torch.uint8, generator=generator)

    def write(self, prompt, chunks, rank, **how):
        """Into the first level; the controllers store from there. How many it took."""
        keys = [self.key(prompt, chunk, rank, **how) for chunk in chunks]
        taken = self.manager.reserve_write(keys, self.layout)
        for chunk, key in zip(chunks, keys):
            if key in taken:
                taken[key].raw_tensor.view(torch.uint8)[:].copy_(self.content(prompt, chunk, rank))
        self.manager.finish_write([key for key in keys if key in taken])
        return len(taken)

    def prefetch(self, prompt, chunks, ranks=RANKS, salt=""):
        """For each rank, which chunks are hits, and whether each has the right bytes."""
        rows = [api.GroupedObjectKeys(
            [self.key(prompt, chunk, rank, ranks, salt) for chunk in chunks], 0, self.layout)
            for rank in range(ranks)]
        handle = self.manager.submit_prefetch_task(api.PrefetchTaskSpec(rows))
        if not self.manager.wait_prefetch_status(handle, 60):
            raise RuntimeError("a prefetch did not end")
        result = self.manager.query_prefetch_status(handle)
        hits, right = [], []
        for rank, (row, bits) in enumerate(zip(rows, result.hit_cells)):
            found = [index for index in range(len(chunks)) if bits.test(index)]
            hits.append([chunks[index] for index in found])
            keys = [row.keys[index] for index in found]
            if not keys:
                continue
            with self.manager.read_prefetched_results(keys) as objects:
                for index, one in zip(found, objects):
                    right.append(bool(torch.equal(one.raw_tensor.view(torch.uint8)[:],
                                                  self.content(prompt, chunks[index], rank))))
            self.manager.finish_read_prefetched(keys)
            self.manager.delete_l1_keys(keys, force=True)  # the next one comes from the store
        return {"hits": hits, "right": all(right) and len(right) == sum(map(len, hits))}

    def evicted(self, prompt):
        seen, chunks = cpu.Evicted(), list(range(CHUNKS))
        r = self.prefetch(prompt, chunks)
        for rank in range(RANKS):
            for chunk in chunks:
                seen.page(chunk in r["hits"][rank], r["right"])
        return vars(seen)

    def close(self):
        self.manager.close()
        return True


def eventually(look, wanted):
    """What look() says in the end."""
    end = time.monotonic() + 20
    while True:
        seen = look()
        if seen == wanted or time.monotonic() > end:
            return seen
        time.sleep(0.02)


def plain(args, checks, side, peer):
    import snowskin
    store = snowskin.Store(args.master)
    chunks, half = list(range(CHUNKS)), list(range(CHUNKS // 2))

    def stored():
        return len(store.list())

    def prefetch(prompt, of=chunks, **how):
        return peer.call("prefetch", prompt=prompt, chunks=of, **how)

    nothing = {"hits": [[], []], "right": True}
    checks.equal("nothing", prefetch(0), nothing)
    checks.equal("write", side.write(0, chunks, 0), CHUNKS)
    checks.equal("stored", eventually(stored, CHUNKS), CHUNKS)
    checks.equal("one rank only", prefetch(0), nothing)
    checks.equal("write other", side.write(0, half, 1), len(half))
    checks.equal("stored other", eventually(stored, CHUNKS + len(half)), CHUNKS + len(half))
    checks.equal("half", prefetch(0), {"hits": [half, half], "right": True})
    checks.equal("write rest", side.write(0, chunks[len(half):], 1), CHUNKS - len(half))
    checks.equal("stored rest", eventually(stored, 2 * CHUNKS), 2 * CHUNKS)
    checks.equal("all", prefetch(0), {"hits": [chunks, chunks], "right": True})
    checks.equal("again", prefetch(0), {"hits": [chunks, chunks], "right": True})
    checks.equal("other salt", prefetch(0, salt="blue"), nothing)
    name = next(key.decode() for key, _ in store.list()
                if side.key(0, 3, 0).chunk_hash.hex() in key.decode())
    group = name.rsplit("/", 1)[0] + "/of%d" % RANKS
    stat = store.group_stat(group)
    checks.equal("group", (stat["state"], stat["size"]), ("complete", RANKS))
    store.group_remove(group)  # as eviction does
    checks.equal("hole", prefetch(0), {"hits": [[0, 1, 2]] * 2, "right": True})
    before = stored()
    checks.equal("write one rank", side.write(1, chunks, 0, ranks=1, salt="red"), CHUNKS)
    checks.equal("stored one rank", eventually(stored, before + CHUNKS), before + CHUNKS)
    checks.equal("one of one", prefetch(1, ranks=1, salt="red"), {"hits": [chunks], "right": True})
    store.close()


def evict(args, checks, side, peer):
    import snowskin
    store = snowskin.Store(args.master)
    prompt = CHUNKS * RANKS * 2 * 2 * 4 * 64 * 128

    def put(number):
        for rank in range(RANKS):
            side.write(number, list(range(CHUNKS)), rank)
        name = "/%s/0/%08x" % (side.key(number, CHUNKS - 1, RANKS - 1).chunk_hash.hex(),
                               side.key(number, CHUNKS - 1, RANKS - 1).kv_rank)
        eventually(lambda: any(key.decode().endswith(name) for key, _ in store.list()), True)

    cpu.while_storing(checks.check, "evict", 2 * args.segment // prompt + 1, put,
                      lambda number: peer.call("evicted", prompt=number))
    store.close()


def main(args):
    checks = cpu.Checks()
    if args.evict:
        args.segment = 16 * MIB
    side = Side(args, args.segment)
    import lmcache
    print("# lmcache %s, torch %s" % (lmcache.__version__, torch.__version__), flush=True)
    peer = cpu.Peer(os.path.abspath(__file__), "second", cpu.passed_on(args) + ["--run", args.run])
    try:
        peer.call("ready")
        checks.run("evict" if args.evict else "plain", evict if args.evict else plain, args,
                   checks, side, peer)
        checks.equal("close", (side.close(), peer.call("close")), (True, True))
        checks.equal("second-process-ends", peer.end(), 0)
    finally:
        peer.end(5)
    sys.stdout.flush()
    os._exit(checks.finish())  # LMCache leaves threads that never end


if __name__ == "__main__":
    options = arguments()
    cpu.start(options)
    if options.role == "main":
        main(options)
    other = Side(options, 0)
    cpu.serve({"ready": lambda: True, "prefetch": other.prefetch, "evicted": other.evicted,
               "close": other.close})
    os._exit(0)
