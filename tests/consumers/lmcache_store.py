"""Drives LMCache's own Mooncake store connector on a machine without a GPU.

    python lmcache_store.py --master HOST:PORT [--names new|old|both] [--lookup-client]
                            [--port-base N] [--trace FILE] [--verbose] [--evict]

The master has to run already. Two layouts of LMCache are driven, each with a writer (this process)
and a reader (a second process with no memory of its own):
  raw   save_chunk_meta=False: batch_put_from, put_from, batch_get_into
  meta  save_chunk_meta=True:  put_parts, batch_get_buffer
Real LMCache classes: LMCacheEngineConfig, LMCacheMetadata, LMCacheEngineBuilder, LMCacheEngine,
StorageManager, LocalCPUBackend, RemoteBackend, MooncakestoreConnector, MooncakeLookupClient.
Only the copy between "GPU" and LMCache's memory is ours (HostCopy below).

--names says which configuration names LMCache gets. LMCache passes them on as the dict form of
store.setup(): "old" is what its documentation shows (master_server_address, device_name), "new" is
what the dict form of setup() knows (master_server_addr, rdma_devices).
--lookup-client adds LMCache's MooncakeLookupClient, which always uses the old names.
--evict stores twice what the pool holds while the second process retrieves, and nothing else.

One line per check: "ok NAME" or "FAIL NAME why". Exit code 0 when no check failed.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid

import _cpu_consumer as cpu

LAYERS, HEADS, HEAD_SIZE, CHUNK = 8, 8, 64, 64
FULL_CHUNKS, TAIL = 4, 16
TOKENS = FULL_CHUNKS * CHUNK + TAIL
MIB = 1 << 20
PROMPTS = 32  # of the pool that evicts: 136 MiB into 64 MiB

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
    parser.add_argument("--names", choices=("new", "old", "both"), default="new")
    parser.add_argument("--lookup-client", action="store_true")
    parser.add_argument(
        "--port-base", type=int, default=0, help="first of 4 ports for the clients; 0 = any"
    )
    parser.add_argument("--trace", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--evict", action="store_true")
    parser.add_argument("--role", default="writer", help=argparse.SUPPRESS)
    parser.add_argument("--layout", default="", help=argparse.SUPPRESS)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def settings(args, layout, segment, slot):
    """The Mooncake part of LMCache's extra_config (or of its config file)."""
    host = "127.0.0.1" if not args.port_base else f"127.0.0.1:{args.port_base + slot}"
    new = {
        "mooncake_local_hostname": host,
        "mooncake_metadata_server": "P2PHANDSHAKE",
        "mooncake_global_segment_size": segment,
        "mooncake_local_buffer_size": 64 * MIB,
        "mooncake_protocol": "tcp",
        "mooncake_rdma_devices": "",
        "mooncake_master_server_addr": args.master,
    }
    old = {
        "local_hostname": host,
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": segment,
        "local_buffer_size": 64 * MIB,
        "protocol": "tcp",
        "device_name": "",
        "master_server_address": args.master,
    }
    chosen = {"new": new, "old": old, "both": {**old, **new}}[args.names]
    return {
        **chosen,
        "transfer_timeout": 60,
        "save_chunk_meta": layout == "meta",
        "mooncake_prefer_local_alloc": layout == "raw",
    }


def build_engine(args, layout, segment, slot):
    import torch
    from lmcache.v1.cache_engine import LMCacheEngineBuilder
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.gpu_connector import GPUConnectorInterface
    from lmcache.v1.metadata import LMCacheMetadata

    class HostCopy(GPUConnectorInterface):
        """Stands for the GPU: the KV cache is one CPU tensor [2, layers, tokens, hidden]."""

        def from_gpu(self, memory_obj, start, end, **kwargs):
            memory_obj.tensor.copy_(kwargs["kvcaches"][:, :, start:end])

        def to_gpu(self, memory_obj, start, end, **kwargs):
            kwargs["kvcaches"][:, :, start:end].copy_(memory_obj.tensor)

        def batched_from_gpu(self, memory_objs, starts, ends, **kwargs):
            for obj, start, end in zip(memory_objs, starts, ends):
                self.from_gpu(obj, start, end, **kwargs)

        def batched_to_gpu(self, memory_objs=None, starts=None, ends=None, **kwargs):
            for obj, start, end in zip(memory_objs, starts, ends):
                self.to_gpu(obj, start, end, **kwargs)

        def get_shape(self, num_tokens):
            return torch.Size([2, LAYERS, num_tokens, HEADS * HEAD_SIZE])

    mooncake = settings(args, layout, segment, slot)
    plain = {
        "chunk_size": CHUNK,
        "local_cpu": False,
        "max_local_cpu_size": 0.125,
        "save_unfull_chunk": True,
        "blocking_timeout_secs": 60,
    }
    if layout == "raw":
        plain["remote_storage_plugins"] = ["mooncakestore"]  # newer way to name the connector
    else:
        plain["remote_url"] = f"mooncakestore://{args.master}/"  # older way
    if args.role == "reader":  # the reader takes its config from a file
        handle = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
        with handle:
            json.dump(mooncake, handle)
        os.environ["MOONCAKE_CONFIG_PATH"] = handle.name
        plain["extra_config"] = {"save_chunk_meta": layout == "meta", "use_exists_sync": True}
    else:
        plain["extra_config"] = mooncake
    config = LMCacheEngineConfig.from_defaults(**plain)
    metadata = LMCacheMetadata(
        model_name=f"test/model-{args.run}",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, CHUNK, HEADS, HEAD_SIZE),
        role="worker",
        chunk_size=CHUNK,
    )
    name = f"{args.role}-{layout}-{args.run}"
    engine = LMCacheEngineBuilder.get_or_create(
        name, config, metadata, HostCopy(), lambda tensor, source: None, lambda item, source: item
    )
    engine.post_init()
    if args.role == "reader":
        os.unlink(os.environ["MOONCAKE_CONFIG_PATH"])
    backend = next(
        b
        for n, b in engine.storage_manager.storage_backends.items()
        if n.startswith("RemoteBackend")
    )
    return name, engine, backend


def content(layout, which):
    """Tokens and KV bytes that both processes can compute."""
    import torch

    seed = {"raw": 1000, "meta": 2000}[layout] + which
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 150000, (TOKENS,), generator=generator)
    raw = torch.randint(
        0,
        256,
        (2 * LAYERS * TOKENS * HEADS * HEAD_SIZE * 2,),
        dtype=torch.uint8,
        generator=generator,
    )
    return tokens, raw.view(torch.bfloat16).view(2, LAYERS, TOKENS, HEADS * HEAD_SIZE)


def same(left, right):
    import torch

    return torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))


def keys_of(engine, tokens):
    return [
        (start, end, key)
        for start, end, key in engine.token_database.process_tokens(tokens=tokens)
    ]


def wait_for(action, wanted, seconds=30.0):
    limit = time.monotonic() + seconds
    while True:
        value = action()
        if value == wanted or time.monotonic() > limit:
            return value
        time.sleep(0.05)


def inner_store(backend):
    """The connector's own store object (below LMCache's instrumentation wrapper)."""
    connector = backend.connection
    while not hasattr(connector, "store"):
        connector = connector._connector
    return connector.store


def on_loop(engine, coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, engine.storage_manager.loop).result(60)


def write(args, layout):
    name, engine, backend = build_engine(args, layout, 256 * MIB, 0 if layout == "raw" else 1)
    tag = f"{layout}.writer"
    if not check(f"{tag}.connected", backend.connection is not None, "no connection to the store"):
        return
    store = inner_store(backend)
    check(
        f"{tag}.buffer_registered",
        getattr(backend.connection, "registered_buffer_ptr", None)
        or getattr(getattr(backend.connection, "_connector", None), "registered_buffer_ptr", None),
    )

    # nothing stored yet
    tokens, cache = content(layout, 0)
    chunks = keys_of(engine, tokens)
    check(f"{tag}.chunks", len(chunks) == FULL_CHUNKS + 1, f"{len(chunks)}")
    check(f"{tag}.miss.lookup", engine.lookup(tokens) == 0)
    check(f"{tag}.miss.contains", not backend.contains(chunks[0][2]))
    check(
        f"{tag}.miss.get",
        backend.batched_get_blocking([chunks[0][2], chunks[1][2]]) == [None, None],
    )

    # batched store through the engine, last chunk shorter than the others
    engine.store(tokens, kvcaches=cache)
    found = wait_for(lambda: engine.lookup(tokens), TOKENS)
    check(f"{tag}.store.lookup", found == TOKENS, f"{found} of {TOKENS} tokens")
    back = cache.new_zeros(cache.shape)
    mask = engine.retrieve(tokens, kvcaches=back)
    check(
        f"{tag}.store.read_back",
        bool(mask.all()) and same(back, cache),
        f"{int(mask.sum())} tokens",
    )

    # one page at a time through the backend
    more_tokens, more = content(layout, 1)
    allocator = backend.get_allocator_backend()
    for start, end, key in keys_of(engine, more_tokens)[:3]:
        obj = allocator.allocate(
            engine.metadata.get_shapes(end - start),
            engine.metadata.get_dtypes(),
            (
                backend.connection.meta_fmt
                if hasattr(backend.connection, "meta_fmt")
                else backend.connection._connector.meta_fmt
            ),
        )
        obj.tensor.copy_(more[:, :, start:end])
        future = backend.submit_put_task(key, obj)
        try:
            future.result(60)
            check(f"{tag}.single.put[{start}]", True)
        except Exception as error:
            check(f"{tag}.single.put[{start}]", False, repr(error))
        obj.ref_count_down()
    got = wait_for(lambda: engine.lookup(more_tokens), 3 * CHUNK)
    check(f"{tag}.single.lookup", got == 3 * CHUNK, f"{got}")
    check(
        f"{tag}.single.put_failures", backend.put_failed_count == 0, f"{backend.put_failed_count}"
    )

    # storing other bytes under stored keys succeeds and changes nothing
    engine.store(tokens, kvcaches=more)
    time.sleep(0.5)
    back = cache.new_zeros(cache.shape)
    mask = engine.retrieve(tokens, kvcaches=back)
    check(f"{tag}.again.old_bytes_stay", bool(mask.all()) and same(back, cache))

    # lookup used by LMCache's asynchronous loading
    hits = on_loop(engine, backend.batched_async_contains("look", [k for _, _, k in chunks]))
    check(f"{tag}.async_contains", hits == len(chunks), f"{hits}")

    # second process
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--master",
        args.master,
        "--names",
        args.names,
        "--port-base",
        str(args.port_base),
        "--role",
        "reader",
        "--layout",
        layout,
        "--run",
        args.run,
    ]
    for flag, on in (("--lookup-client", args.lookup_client), ("--verbose", args.verbose)):
        if on:
            command.append(flag)
    if args.trace:
        command += ["--trace", args.trace]
    code = subprocess.run(command, timeout=300).returncode
    check(f"{layout}.reader.exit", code == 0, f"exit code {code}")

    # LMCache has no removal for Mooncake: clear() reports 0 and the pages stay
    removed = engine.clear(tokens)
    check(
        f"{tag}.clear_is_not_supported",
        removed == 0 and engine.lookup(tokens) == TOKENS,
        f"removed {removed}",
    )

    # removal below LMCache, on the connector's own store; LMCache then sees misses
    wanted = [key.to_string() for _, _, key in chunks] + [
        k.to_string() for _, _, k in keys_of(engine, more_tokens)[:3]
    ]
    codes = [store.remove(key, force=True) for key in wanted]
    check(f"{tag}.remove", codes == [0] * len(wanted), f"{codes}")
    check(f"{tag}.removed.lookup", engine.lookup(tokens) == 0)
    check(f"{tag}.removed.get", backend.batched_get_blocking([chunks[0][2]]) == [None])
    back = cache.new_zeros(cache.shape)
    check(f"{tag}.removed.retrieve", int(engine.retrieve(tokens, kvcaches=back).sum()) == 0)
    close(name)


def read(args):
    layout, tag = args.layout, f"{args.layout}.reader"
    name, engine, backend = build_engine(args, layout, 0, 2 if layout == "raw" else 3)
    if not check(f"{tag}.connected", backend.connection is not None, "no connection to the store"):
        return
    tokens, cache = content(layout, 0)
    chunks = [key for _, _, key in keys_of(engine, tokens)]
    check(f"{tag}.lookup", engine.lookup(tokens) == TOKENS)
    back = cache.new_zeros(cache.shape)
    mask = engine.retrieve(tokens, kvcaches=back)
    check(f"{tag}.retrieve.mask", bool(mask.all()), f"{int(mask.sum())} of {TOKENS}")
    check(f"{tag}.retrieve.every_byte", same(back, cache))

    # the first two pages are known, then the text differs
    other = tokens.clone()
    other[2 * CHUNK + 5] += 1
    check(f"{tag}.prefix.lookup", engine.lookup(other) == 2 * CHUNK)
    back = cache.new_zeros(cache.shape)
    mask = engine.retrieve(other, kvcaches=back)
    check(
        f"{tag}.prefix.retrieve",
        int(mask.sum()) == 2 * CHUNK
        and same(back[:, :, : 2 * CHUNK], cache[:, :, : 2 * CHUNK])
        and not back[:, :, 2 * CHUNK :].any(),
    )

    # pages that the writer put one at a time
    more_tokens, more = content(layout, 1)
    more_keys = [key for _, _, key in keys_of(engine, more_tokens)]
    objects = backend.batched_get_blocking(more_keys[:3])
    check(
        f"{tag}.single.every_byte",
        all(
            obj is not None and same(obj.tensor, more[:, :, i * CHUNK : (i + 1) * CHUNK])
            for i, obj in enumerate(objects)
        ),
    )

    # hit, miss, hit in one batch; the tail page is shorter than the buffer offered for it
    mixed = backend.batched_get_blocking([chunks[0], more_keys[3], chunks[-1]])
    check(f"{tag}.mixed.middle_is_none", mixed[1] is None)
    check(f"{tag}.mixed.hits", mixed[0] is not None and same(mixed[0].tensor, cache[:, :, :CHUNK]))
    short = (2, LAYERS, TAIL, HEADS * HEAD_SIZE)
    check(
        f"{tag}.mixed.short_page",
        mixed[2] is not None
        and tuple(mixed[2].tensor.shape) == short
        and same(mixed[2].tensor, cache[:, :, FULL_CHUNKS * CHUNK :]),
    )

    unknown, _ = content(layout, 7)
    unknown_keys = [key for _, _, key in keys_of(engine, unknown)]
    check(f"{tag}.miss.lookup", engine.lookup(unknown) == 0)
    check(f"{tag}.miss.contains", not backend.contains(unknown_keys[0]))
    check(
        f"{tag}.miss.get", backend.batched_get_blocking(unknown_keys) == [None] * len(unknown_keys)
    )
    hits = on_loop(engine, backend.batched_async_contains("look", chunks + unknown_keys))
    check(f"{tag}.async_contains", hits == len(chunks), f"{hits}")

    if args.lookup_client:
        from lmcache.v1.lookup_client.mooncake_lookup_client import MooncakeLookupClient

        client = MooncakeLookupClient(engine.config, engine.metadata, args.master)
        check(f"{tag}.lookup_client.all", client.lookup(tokens) == TOKENS)
        check(f"{tag}.lookup_client.prefix", client.lookup(other) == 2 * CHUNK)
        check(f"{tag}.lookup_client.miss", client.lookup(unknown) == 0)
        client.store.close()
    close(name)


def put_all(engine, backend, tokens, cache):
    """Stores a prompt, and waits until LMCache has ended its puts."""
    engine.store(tokens, kvcaches=cache)
    wait_for(lambda: len(backend.put_tasks), 0, 60)


def evict(args, layout):
    """A pool half the size of what is stored."""
    name, engine, backend = build_engine(args, layout, 64 * MIB, 0 if layout == "raw" else 1)
    peer = cpu.Peer(os.path.abspath(__file__), "reader", [
        "--master", args.master, "--names", args.names, "--port-base", str(args.port_base),
        "--layout", layout, "--run", args.run, "--evict"])
    peer.call("ready")
    cpu.while_storing(
        check, f"{layout}.evict", PROMPTS,
        lambda which: put_all(engine, backend, *content(layout, which)),
        lambda which: peer.call("retrieve", which=which))
    check(f"{layout}.evict.put_failures", backend.put_failed_count == 0,
          f"{backend.put_failed_count}")
    check(f"{layout}.evict.reader_ends", peer.end() == 0)
    close(name)


def read_evicted(args):
    name, engine, backend = build_engine(args, args.layout, 0, 2 if args.layout == "raw" else 3)

    def retrieve(which):
        tokens, cache = content(args.layout, which)
        back = cache.new_zeros(cache.shape)
        mask = engine.retrieve(tokens, kvcaches=back)
        seen = cpu.Evicted()
        for start, end, _ in keys_of(engine, tokens):
            page = back[:, :, start:end]
            seen.page(bool(mask[start:end].all()), same(page, cache[:, :, start:end]),
                      not page.any() and not mask[start:end].any())
        return vars(seen)

    cpu.serve({"ready": lambda: True, "retrieve": retrieve})
    close(name)


def close(name):
    from lmcache.v1.cache_engine import LMCacheEngineBuilder

    LMCacheEngineBuilder.destroy(name)


def main():
    args = parse_arguments()
    wanted = {
        "PYTHONHASHSEED": "0",
        "LMCACHE_TRACK_USAGE": "false",
        "DO_NOT_TRACK": "1",
        "LMCACHE_LOG_LEVEL": "INFO" if args.verbose else "CRITICAL",
    }
    if any(os.environ.get(k) != v for k, v in wanted.items()):
        os.environ.update(wanted)  # LMCache's page keys depend on the hash seed, fixed at start
        os.execv(sys.executable, [sys.executable] + sys.argv)
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)
    if args.role == "reader":
        (read_evicted if args.evict else read)(args)
    else:
        args.run = uuid.uuid4().hex[:12]
        for layout in ("raw", "meta"):
            (evict if args.evict else write)(args, layout)
    sys.stdout.flush()
    os._exit(1 if failures else 0)  # LMCache leaves threads that never end


if __name__ == "__main__":
    main()
