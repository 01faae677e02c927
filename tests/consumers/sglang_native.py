"""Runs snowskin.sglang.SnowskinHiCache as SGLang's own factory loads it, with real host pools.

Two ranks of a tensor-parallel group put pages; look-ups count a page only when both have; every
byte is compared. Needs a running master; all is one process.

  python sglang_native.py --master 127.0.0.1:50051
  --evict     stores twice what the pool holds while other ranks load
"""
import os
import sys

import _cpu_consumer as cpu
import sglang_hicache as hicache

PAGE, PAGES = hicache.PAGE, hicache.PAGES


def backend(args, rank, pool, mla=False, ranks=2, name="native"):
    """As SGLang makes one for --hicache-storage-backend dynamic."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
    from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
    config = HiCacheStorageConfig(
        tp_rank=rank, tp_size=ranks, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
        is_mla_model=mla, enable_storage_metrics=False, is_page_first_layout=True,
        model_name="test/%s-%s" % (args.run, name),
        extra_config={"backend_name": "snowskin", "module_path": "snowskin.sglang",
                      "class_name": "SnowskinHiCache", "interface_v1": 1, "master": args.master,
                      "segment_size": args.segment if rank == 0 else 0})
    made = StorageBackendFactory.create_backend("dynamic", config, pool)
    made.register_mem_pool_host(pool)
    return made


def after(keys):
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageExtraInfo
    return HiCacheStorageExtraInfo(prefix_keys=keys)


def two_ranks(args, bench, checks, layout):
    pools = [bench.pool("mha", layout) for _ in range(2)]
    stores = [backend(args, rank, pool, name=layout) for rank, pool in enumerate(pools)]
    keys = hicache.keys_of(layout, range(PAGES))
    places = []
    for rank, pool in enumerate(pools):
        bench.fill(pool, 10 + rank)
        places.append(bench.take(pool, PAGES))
    want = [bench.page_bytes(pool, place) for pool, place in zip(pools, places)]
    half = PAGES // 2
    checks.equal(layout + " nothing", stores[0].batch_exists(keys), 0)
    checks.equal(layout + " put", stores[0].batch_set_v1(keys, places[0]), [True] * PAGES)
    checks.equal(layout + " one rank only", stores[1].batch_exists(keys), 0)
    checks.equal(layout + " put other", stores[1].batch_set_v1(
        keys[:half], places[1][:half * PAGE]), [True] * half)
    checks.equal(layout + " both", stores[0].batch_exists(keys), half)
    checks.equal(layout + " continue", stores[1].batch_set_v1(
        keys[half:], places[1][half * PAGE:], after(keys[:half])), [True] * (PAGES - half))
    checks.equal(layout + " all", stores[1].batch_exists(keys), PAGES)
    checks.equal(layout + " again", stores[0].batch_set_v1(keys, places[0]), [True] * PAGES)
    for rank, (store, pool) in enumerate(zip(stores, pools)):
        pool.clear()
        bench.zero(pool)
        place = bench.take(pool, PAGES)
        checks.equal("%s load %d" % (layout, rank), store.batch_get_v1(keys, place),
                     [True] * PAGES)
        checks.check("%s bytes %d" % (layout, rank), bench.page_bytes(pool, place) == want[rank])
    group = stores[0].store.group_stat(stores[0]._group(keys[3]))
    checks.equal(layout + " group", (group["state"], group["size"]), ("complete", 2))
    stores[0].store.group_remove(stores[0]._group(keys[3]))  # as eviction does
    checks.equal(layout + " hole", stores[1].batch_exists(keys), 3)
    hits = stores[1].batch_get_v1(keys, place)
    checks.equal(layout + " miss", hits, [index != 3 for index in range(PAGES)])
    stores[0].clear()
    checks.equal(layout + " cleared", stores[1].batch_exists(keys), 0)
    for store in stores:
        store.close()


def one_share(args, bench, checks):
    """MLA: ranks are replicas; rank 0 writes for all."""
    pools = [bench.pool("mla", "page_first") for _ in range(2)]
    stores = [backend(args, rank, pool, mla=True) for rank, pool in enumerate(pools)]
    keys = hicache.keys_of("mla", range(PAGES))
    bench.fill(pools[0], 5)
    place = bench.take(pools[0], PAGES)
    want = bench.page_bytes(pools[0], place)
    checks.equal("mla other", stores[1].batch_set_v1(keys, place), [True] * PAGES)
    checks.equal("mla nothing", stores[1].batch_exists(keys), 0)
    checks.equal("mla put", stores[0].batch_set_v1(keys, place), [True] * PAGES)
    checks.equal("mla all", stores[1].batch_exists(keys), PAGES)
    other = bench.take(pools[1], PAGES)
    checks.equal("mla load", stores[1].batch_get_v1(keys, other), [True] * PAGES)
    checks.check("mla bytes", bench.page_bytes(pools[1], other) == want)
    value, target = (pool.kv_buffer.reshape(-1)[:64].clone() for pool in pools)
    target.zero_()
    checks.check("single", stores[0].set("one", value) and stores[0].exists("one")
                 and stores[0].get("one", target) is target
                 and bytes(target.view(hicache.torch.uint8)) == bytes(
                     value.view(hicache.torch.uint8))
                 and stores[0].get("none", target) is None)
    for store in stores:
        store.close()


def side_pools(args, bench, checks):
    """Two ranks of a hybrid model: pages, a sliding window and a draft."""
    from sglang.srt.mem_cache.hicache_storage import PoolName
    names, keys, count = hicache.hybrid_names(), hicache.keys_of("hybrid", range(6)), 6
    ranks = []
    for rank in range(2):
        pools = {name: bench.pool("mha", "page_first") for name in ("kv", *names)}
        store = backend(args, rank, pools["kv"], name="hybrid")
        for name in names:
            store.register_mem_host_pool_v2(pools[name], PoolName(name))
        for index, pool in enumerate(pools.values()):
            bench.fill(pool, 30 * rank + index)
        places = {name: bench.take(pool, count) for name, pool in pools.items()}
        want = {name: bench.page_bytes(pool, places[name]) for name, pool in pools.items()}
        ranks.append((store, pools, places, want))

    def put(rank, name, first=0):
        store, _, places, _ = ranks[rank]
        if name == "kv":
            return store.batch_set_v1(keys[first:], places[name][first * PAGE:])
        moved = hicache.hybrid_transfers({name: names[name]}, keys[first:],
                                         {name: places[name][first * PAGE:]}, 2)
        return store.batch_set_v2(moved)[name]

    def look(rank):
        r = ranks[rank][0].batch_exists_v2(keys, hicache.hybrid_transfers(names, keys, None, 2))
        return r.kv_hit_pages, r.restorable_prefix_pages, {
            str(name): pages for name, pages in r.extra_pool_hit_pages.items()}

    checks.equal("side nothing", look(0), (0, [], {}))
    for rank in range(2):
        checks.equal("side put pages %d" % rank, put(rank, "kv"), [True] * count)
    checks.equal("side none of them", look(1), (0, [], {"kv": 6}))
    for rank in range(2):
        checks.equal("side put window %d" % rank, put(rank, "swa", 2), [True] * 4)
    checks.equal("side put draft", put(0, "draft"), [True] * count)
    checks.equal("side draft of one rank", look(0), (0, [], {"kv": 6, "swa": 6}))
    checks.equal("side put draft other", put(1, "draft"), [True] * count)
    checks.equal("side window", look(1), (6, [4, 5, 6], {"kv": 6, "swa": 6, "draft": 6}))
    for rank, (store, pools, _, want) in enumerate(ranks):
        for pool in pools.values():
            pool.clear()
            bench.zero(pool)
        places = {name: bench.take(pool, count, skip=1) for name, pool in pools.items()}
        moved = hicache.hybrid_transfers(names, keys, places, 2)
        checks.equal("side load pages %d" % rank, store.batch_get_v1(keys, places["kv"]),
                     [True] * count)
        checks.equal("side load %d" % rank, {str(name): hits for name, hits in store.batch_get_v2(
            moved).items()}, {"swa": [False] * 2 + [True] * 4, "draft": [True] * count})
        checks.check("side bytes %d" % rank, all(
            bench.page_bytes(pools[name], places[name])[first:] == want[name][first:]
            for name, first in (("kv", 0), ("swa", 2), ("draft", 0))))
    store, pools, *_ = ranks[0]
    store.store.group_remove(store._side_group(store._pools[PoolName.DRAFT], keys[4]))
    checks.equal("side hole", look(1), (4, [4], {"kv": 6, "swa": 6, "draft": 4}))
    groups = [store.store.group_stat(group) for group in (
        store._group(keys[5]), store._side_group(store._pools[PoolName.SWA], keys[5]))]
    checks.equal("side groups", [(group["state"], group["size"]) for group in groups],
                 [("complete", 2)] * 2)
    store.clear()
    checks.equal("side cleared", look(1), (0, [], {}))
    for store, *_ in ranks:
        store.close()
    one = backend(args, 1, bench.pool("mla", "page_first"), mla=True, name="hybrid")
    one.register_mem_host_pool_v2(bench.pool("mha", "page_first"), PoolName.MAMBA)
    one.register_mem_host_pool_v2(bench.pool("mla", "page_first"), PoolName.DRAFT)
    one.register_mem_host_pool_v2(bench.pool("mla", "page_first"), PoolName.INDEXER)
    checks.equal("side shares", {str(name): (pool.shares, pool.share)
                                 for name, pool in one._pools.items()},
                 {"kv": (1, 0), "mamba": (2, 1), "draft": (1, 0), "indexer": (1, 0)})
    one.close()


def evict(args, bench, checks, layout):
    """Two ranks put prompts, two others load them; a page is the shares of both."""
    pools = [bench.pool("mha", layout) for _ in range(4)]
    writers = [backend(args, rank, pool, name=layout) for rank, pool in enumerate(pools[:2])]
    args.segment, size = 0, args.segment
    readers = [backend(args, rank, pool, name=layout) for rank, pool in enumerate(pools[2:])]
    args.segment = size
    places = [bench.take(pool, PAGES) for pool in pools]
    model = bench.pool("mha", layout)
    there = bench.take(model, PAGES)
    prompt = 2 * sum(map(len, bench.page_bytes(pools[0], places[0])))
    refused = []

    def keys(number):
        return hicache.keys_of(layout, range(number * PAGES, (number + 1) * PAGES))

    def put(number):
        for rank in range(2):
            bench.fill(pools[rank], 2 * number + rank)
            refused.extend(good for good in writers[rank].batch_set_v1(keys(number), places[rank])
                           if not good)

    def load(number):
        found = readers[0].batch_exists(keys(number))
        seen = cpu.Evicted()
        for rank, reader in enumerate(readers):
            pool, place = pools[2 + rank], places[2 + rank]
            bench.zero(pool)
            hits = reader.batch_get_v1(keys(number)[:found], place[:found * PAGE]) if found else []
            bench.fill(model, 2 * number + rank)
            for index, (mine, theirs) in enumerate(zip(bench.page_bytes(pool, place),
                                                       bench.page_bytes(model, there))):
                seen.page(index < found and hits[index], mine == theirs, not any(mine))
        return vars(seen)

    cpu.while_storing(checks.check, layout + " evict", 2 * size // prompt + 1, put, load)
    checks.check(layout + " all stored", not refused, "%d pages refused" % len(refused))
    for store in (*readers, *writers):
        store.close()


def main():
    args = hicache.arguments()
    cpu.stub_missing(hicache.STUBS)
    cpu.start(args)
    bench, checks = hicache.Bench(args), cpu.Checks()
    if args.evict:
        args.segment = 16 << 20
    for layout in ("page_first", "page_first_direct"):
        checks.run(layout, evict if args.evict else two_ranks, args, bench, checks, layout)
    if not args.evict:
        checks.run("mla", one_share, args, bench, checks)
        checks.run("side pools", side_pools, args, bench, checks)
    sys.stdout.flush()
    os._exit(checks.finish())


main()
