"""Runs SGLang's prefill/decode transfer over `mooncake.engine` on CPU tensors.

Part 1 uses SGLang's MooncakeTransferEngine (the wrapper around TransferEngine) between two
processes. Part 2 runs the whole of SGLang's disaggregation layer: MooncakeKVManager, -Sender,
-Receiver and the bootstrap server, a prefill side here and a decode side in a second process, with
SGLang's own MHA and MLA token pools made on the CPU. Part 3 gives the shared engine to
MooncakeStore
(the `engine` argument of setup), the way HiCache does when both are on. Every byte is compared.

  python sglang_pd.py --master 127.0.0.1:50051
The master is used by part 3 only.
"""

import json
import logging
import os
import socket
import sys
import tempfile
import time

import _cpu_consumer as cpu

PAGE, LAYERS, PAGES = 16, 3, 64
STUBS = {"triton": "3.6.0", "torchvision": "0.28.0"}
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}


def free_port(host):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


class Side:
    """One role with its engine, pool and manager."""

    def __init__(self, args):
        self.args = args
        os.environ["SGLANG_HOST_IP"] = args.host
        os.environ["MOONCAKE_PROTOCOL"] = "tcp"
        # a test should not wait minutes for a peer that is gone
        os.environ.setdefault("SGLANG_DISAGGREGATION_WAITING_TIMEOUT", "20")
        os.environ.setdefault("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", "20")
        global torch, np
        import numpy as np
        import torch
        from sglang.srt.disaggregation.mooncake import conn
        from sglang.srt.distributed.device_communicators import mooncake_transfer_engine as te

        self.conn, self.te = conn, te
        self.rooms = {}
        self.manager = None
        self.old = []

    def engine(self):
        return self.te.init_mooncake_transfer_engine(self.args.host, gpu_id=0, ib_device=None)

    def publish(self, mode, port):
        from sglang.srt.runtime_context import SpawnRanks, get_parallel, publish
        from sglang.srt.server_args import ServerArgs

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(MODEL, file)
            self.server_args = ServerArgs(
                model_path=folder,
                device="cpu",
                host=self.args.host,
                page_size=PAGE,
                disaggregation_mode=mode,
                disaggregation_transfer_backend="mooncake",
                disaggregation_bootstrap_port=port,
            )
            publish(
                self.server_args,
                role="scheduler",
                ranks=SpawnRanks(world_rank=0, gpu_id=0, dp_rank=None),
            )
            get_parallel().override_permanently(pp_group=None)  # one stage: never used

    def open(self, mode, kind, port, filled=None):
        """Publishes the configuration, makes a token pool and the manager for one role."""
        from sglang.srt.disaggregation.utils import (
            DisaggregationMode,
            get_kv_transfer_buf_infos,
            setup_state_kv_args,
        )
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool

        self.publish(mode, port)
        self.engine()
        common = dict(
            size=PAGE * (PAGES - 1),
            page_size=PAGE,
            dtype=torch.bfloat16,
            layer_num=LAYERS,
            device="cpu",
            enable_memory_saver=False,
        )
        if kind == "mha":
            self.pool = MHATokenToKVPool(head_num=2, head_dim=16, **common)
            self.tensors = list(self.pool.k_buffer) + list(self.pool.v_buffer)
        else:
            self.pool = MLATokenToKVPool(kv_lora_rank=64, qk_rope_head_dim=16, **common)
            self.tensors = list(self.pool.kv_buffer)
        self.aux = torch.zeros(8, 64, dtype=torch.uint8)
        if filled is not None:
            self.fill(self.tensors + [self.aux], filled)
        a = self.conn.KVArgs()
        a.engine_rank = a.gpu_id = a.pp_rank = a.system_dp_rank = a.num_draft_entries = 0
        a.prefill_start_layer, a.prefill_end_layer, a.ib_device = 0, LAYERS, ""
        a.kv_cache_dtype_str, a.kv_layer_ids, a.page_size = "bfloat16", [], PAGE
        a.kv_head_num, a.total_kv_head_num, a.rust_http_port = 2, 2, None
        a.kv_data_ptrs, a.kv_data_lens, a.kv_item_lens = get_kv_transfer_buf_infos(self.pool)
        a.aux_data_ptrs, a.aux_data_lens = [self.aux.data_ptr()], [self.aux.nbytes]
        a.aux_item_lens = [self.aux[0].nbytes]
        setup_state_kv_args(a, self.pool, None, total_kv_layers=LAYERS)
        self.manager = self.conn.MooncakeKVManager(
            a, DisaggregationMode(mode), self.server_args, is_mla_backend=kind == "mla"
        )
        return True

    def close(self):
        """Unregisters everything. teardown() would do it too, but its thread and socket handling
        can abort the process (seen with sglang 0.5.23), which says nothing about `mooncake`."""
        self.manager.deregister_buffer_to_engine()
        self.old.append(self.manager)
        self.manager, self.rooms = None, {}
        return True

    @staticmethod
    def fill(tensors, seed):
        generator = torch.Generator().manual_seed(seed)
        for t in tensors:
            raw = t.view(torch.uint8).reshape(-1)
            raw.copy_(torch.randint(0, 256, raw.shape, dtype=torch.uint8, generator=generator))

    @staticmethod
    def wait(poll, wanted, seconds=30.0):
        """Polls as SGLang's scheduler does; ends at the wanted state or at a failure."""
        from sglang.srt.disaggregation.base.conn import KVPoll

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = poll()
            if state == KVPoll.Failed or state >= wanted:
                return state
            time.sleep(0.002)
        return -1


# ---- decode side (second process) ----------------------------------------------------------


def decode(args):
    side = Side(args)
    held = {}

    def region(size, count):
        held["raw"] = torch.zeros(count, size, dtype=torch.uint8)
        engine = side.engine()
        result = engine.batch_register([r.data_ptr() for r in held["raw"]], [size] * count)
        return {
            "session": engine.get_session_id(),
            "ret": result,
            "rows": [r.data_ptr() for r in held["raw"]],
        }

    def region_equal(seed):
        want = torch.zeros_like(held["raw"])
        Side.fill([want], seed)
        return [bool(torch.equal(a, b)) for a, b in zip(held["raw"], want)]

    def region_end():
        return side.engine().batch_deregister([r.data_ptr() for r in held["raw"]])

    def start(room, address, pages, aux):
        if not side.manager.try_ensure_parallel_info(address):
            return False
        receiver = side.conn.MooncakeKVReceiver(side.manager, address, room)
        receiver.init(0)
        side.rooms[room] = receiver, pages, aux
        return True

    def metadata(room):
        receiver, pages, aux = side.rooms[room]
        receiver.send_metadata(np.array(pages, dtype=np.int32), aux)
        return int(receiver.poll())

    def finish(room, seconds=30.0):
        from sglang.srt.disaggregation.base.conn import KVPoll

        receiver = side.rooms[room][0]
        state = Side.wait(receiver.poll, KVPoll.Success, seconds)
        receiver.clear()
        return int(state)

    def abort(room):
        side.rooms[room][0].abort()
        return int(side.rooms[room][0].poll())

    def compare(seed, pairs, aux):
        """pairs: source page -> own page. All other pages have to be zero still."""
        source = [torch.empty_like(t) for t in side.tensors] + [torch.empty_like(side.aux)]
        Side.fill(source, seed)
        equal, touched = True, 0
        for mine, theirs in zip(side.tensors, source):
            for src, dst in pairs:
                a, b = (
                    t[i * PAGE : (i + 1) * PAGE].view(torch.uint8)
                    for t, i in ((mine, dst), (theirs, src))
                )
                equal &= bool(torch.equal(a, b))
            rest = mine.view(torch.uint8).clone()
            for _, dst in pairs:
                rest[dst * PAGE : (dst + 1) * PAGE] = 0
            touched += int((rest != 0).sum())
        return {
            "equal": equal,
            "outside": touched,
            "aux": bool(torch.equal(side.aux[aux[1]], source[-1][aux[0]])),
        }

    def wipe():
        for t in side.tensors + [side.aux]:
            t.zero_()
        return True

    cpu.serve(
        dict(
            region=region,
            region_equal=region_equal,
            region_end=region_end,
            open=side.open,
            close=side.close,
            start=start,
            metadata=metadata,
            finish=finish,
            abort=abort,
            compare=compare,
            wipe=wipe,
        )
    )


# ---- prefill side --------------------------------------------------------------------------


def check_engine(checks, side, peer):
    engine = side.engine()
    size, count = 70_000, 40
    far = peer.call("region", size=size, count=count)
    checks.equal("engine/peer-registers", far["ret"], 0)
    data = torch.zeros(count, size, dtype=torch.uint8)
    Side.fill([data], 5)
    engine.register(data.data_ptr(), data.nbytes)
    checks.check(
        "engine/session-name",
        engine.get_session_id().rsplit(":", 1)[1].isdigit()
        and engine.get_session_id() != far["session"],
        engine.get_session_id(),
    )
    checks.equal("engine/probe", engine.send_probe(far["session"]), 0)
    checks.equal(
        "engine/one-write",
        engine.transfer_sync(far["session"], data[0].data_ptr(), far["rows"][0], size),
        0,
    )
    checks.equal(
        "engine/one-write-bytes", peer.call("region_equal", seed=5), [True] + [False] * (count - 1)
    )
    checks.equal(
        "engine/batch-write",
        engine.batch_transfer_sync(
            far["session"], [r.data_ptr() for r in data[1:]], far["rows"][1:], [size] * (count - 1)
        ),
        0,
    )
    checks.equal("engine/batch-bytes", peer.call("region_equal", seed=5), [True] * count)
    dead = f"{side.args.host}:{free_port(side.args.host)}"
    checks.check("engine/probe-nobody", engine.send_probe(dead) != 0, "0")
    checks.check(
        "engine/write-to-nobody",
        engine.batch_transfer_sync(dead, [data.data_ptr()], [far["rows"][0]], [size]) < 0,
        "not negative",
    )
    twice = engine.batch_register([data.data_ptr()], [data.nbytes])
    checks.check("engine/register-twice-gives-a-code", type(twice) is int, twice)
    print(f"# registering a region twice gives {twice}", flush=True)
    checks.equal("engine/peer-deregisters", peer.call("region_end"), 0)
    try:
        engine.deregister(data.data_ptr())
        checks.check("engine/deregister", True)
    except RuntimeError as error:
        checks.check("engine/deregister", False, error)


def check_manager(checks, side, peer, kind, port):
    from sglang.srt.disaggregation.base.conn import KVPoll

    address = f"{side.args.host}:{port}"
    seed = 40 if kind == "mha" else 50
    server = side.conn.MooncakeKVBootstrapServer(side.args.host, port)
    side.open("prefill", kind, port, filled=seed)
    peer.call("open", mode="decode", kind=kind, port=port)

    def sender(room, pages, aux):
        s = side.conn.MooncakeKVSender(side.manager, address, room)
        s.init(len(pages), aux)
        return s

    def send(s, pages, chunk):
        state = Side.wait(s.poll, KVPoll.WaitingForInput)
        if state != KVPoll.WaitingForInput:
            return state
        for i in range(0, len(pages), chunk):
            s.send(np.array(pages[i : i + chunk], dtype=np.int32))
        return Side.wait(s.poll, KVPoll.Success)

    # one request, in one piece: neighbouring pages, then scattered pages in three chunks
    plans = [
        ("one-chunk", 11, list(range(3, 11)), list(range(20, 28)), 8),
        ("chunks", 12, [1, 2, 3, 9, 30, 31, 7, 50, 52], [60, 5, 6, 7, 8, 9, 10, 11, 62], 3),
    ]
    for name, room, src, dst, chunk in plans:
        peer.call("wipe")
        s = sender(room, src, 2)
        checks.check(
            f"{kind}/{name}/bootstrap",
            peer.call("start", room=room, address=address, pages=dst, aux=5),
        )
        peer.call("metadata", room=room)
        checks.equal(f"{kind}/{name}/sender", int(send(s, src, chunk)), KVPoll.Success)
        checks.equal(f"{kind}/{name}/receiver", peer.call("finish", room=room), KVPoll.Success)
        r = peer.call("compare", seed=seed, pairs=list(zip(src, dst)), aux=[2, 5])
        checks.equal(f"{kind}/{name}/every-byte", r, {"equal": True, "outside": 0, "aux": True})
        s.clear()

    # twelve requests at once, answered in another order
    peer.call("wipe")
    rooms = {
        100 + i: ([4 * i + 4, 4 * i + 5, 4 * i + 6], [60 - 4 * i, 61 - 4 * i, 62 - 4 * i])
        for i in range(12)
    }
    senders = {room: sender(room, src, 1) for room, (src, _) in rooms.items()}
    for room, (_, dst) in rooms.items():
        peer.call("start", room=room, address=address, pages=dst, aux=1)
        peer.call("metadata", room=room)
    for room in reversed(list(rooms)):
        Side.wait(senders[room].poll, KVPoll.WaitingForInput)
        senders[room].send(np.array(rooms[room][0], dtype=np.int32))
    states = [int(Side.wait(senders[room].poll, KVPoll.Success)) for room in rooms]
    checks.equal(f"{kind}/twelve/senders", states, [KVPoll.Success] * 12)
    states = [peer.call("finish", room=room) for room in rooms]
    checks.equal(f"{kind}/twelve/receivers", states, [KVPoll.Success] * 12)
    pairs = [p for src, dst in rooms.values() for p in zip(src, dst)]
    r = peer.call("compare", seed=seed, pairs=pairs, aux=[1, 1])
    checks.equal(f"{kind}/twelve/every-byte", r, {"equal": True, "outside": 0, "aux": True})
    for s in senders.values():
        s.clear()

    # the decode side gives up: the prefill side must hear of it, nothing may be written
    peer.call("wipe")
    s = sender(300, [1, 2], 0)
    peer.call("start", room=300, address=address, pages=[8, 9], aux=0)
    checks.equal(f"{kind}/abort/receiver", peer.call("abort", room=300), KVPoll.Failed)
    checks.equal(
        f"{kind}/abort/sender", int(Side.wait(s.poll, KVPoll.WaitingForInput, 10)), KVPoll.Failed
    )
    r = peer.call("compare", seed=seed, pairs=[], aux=[0, 0])
    checks.equal(f"{kind}/abort/nothing-written", r["outside"], 0)
    s.clear()

    # and the next request works
    s = sender(301, [1, 2], 3)
    peer.call("start", room=301, address=address, pages=[8, 9], aux=3)
    peer.call("metadata", room=301)
    checks.equal(f"{kind}/after-abort/sender", int(send(s, [1, 2], 2)), KVPoll.Success)
    checks.equal(f"{kind}/after-abort/receiver", peer.call("finish", room=301), KVPoll.Success)
    r = peer.call("compare", seed=seed, pairs=[[1, 8], [2, 9]], aux=[3, 3])
    checks.equal(f"{kind}/after-abort/every-byte", r, {"equal": True, "outside": 0, "aux": True})

    # a new manager over the same engine follows
    checks.check(f"{kind}/unregister", peer.call("close") and side.close())
    server.close()
    return server


def check_peer_gone(checks, side, peer, port):
    """The decode process ends between its request and the transfer: the sender has to fail."""
    from sglang.srt.disaggregation.base.conn import KVPoll

    address = f"{side.args.host}:{port}"
    server = side.conn.MooncakeKVBootstrapServer(side.args.host, port)
    side.open("prefill", "mha", port, filled=3)
    peer.call("open", mode="decode", kind="mha", port=port)
    s = side.conn.MooncakeKVSender(side.manager, address, 500)
    s.init(2, 0)
    peer.call("start", room=500, address=address, pages=[1, 2], aux=0)
    peer.call("metadata", room=500)
    Side.wait(s.poll, KVPoll.WaitingForInput)
    peer.process.kill()
    peer.process.wait()
    begin = time.monotonic()
    s.send(np.array([1, 2], dtype=np.int32))
    state = Side.wait(s.poll, KVPoll.Success, 90)
    checks.equal("peer-gone/sender-fails", int(state), KVPoll.Failed)
    print(f"# peer-gone seen after {time.monotonic() - begin:.1f} s", flush=True)
    side.close()
    server.close()


def check_shared_engine(checks, args):
    """HiCache with the P/D engine: SGLang hands it to setup() when the protocol is rdma.
    MC_FORCE_TCP makes the same path run over TCP."""
    import sglang_hicache

    os.environ["MOONCAKE_PROTOCOL"] = "rdma"
    from sglang.srt.distributed.device_communicators import mooncake_transfer_engine as te

    engine = te.init_mooncake_transfer_engine(args.host, gpu_id=0, ib_device=None)
    args.segment, args.run = 64 << 20, f"shared-{os.getpid()}"
    bench = sglang_hicache.Bench(args)
    pool = bench.pool("mha", "page_first")
    extra = {
        "local_hostname": args.host,
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": args.segment,
        "protocol": "rdma",
        "device_name": "",
        "master_server_address": args.master,
    }
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
    from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStore

    store = MooncakeStore(
        HiCacheStorageConfig(
            tp_rank=0,
            tp_size=1,
            pp_rank=0,
            pp_size=1,
            attn_cp_rank=0,
            attn_cp_size=1,
            is_mla_model=False,
            enable_storage_metrics=False,
            is_page_first_layout=True,
            model_name=args.run,
            extra_config=extra,
        ),
        pool,
    )
    checks.check("shared-engine/used", store._shared_mooncake_transfer_engine is engine)
    store.register_mem_pool_host(pool)
    bench.fill(pool, 9)
    place = bench.take(pool, 8)
    want = bench.page_bytes(pool, place)
    keys = sglang_hicache.keys_of("", range(4))
    checks.equal("shared-engine/store", store.batch_set_v1(keys, place[: 4 * PAGE]), [True] * 4)
    checks.equal("shared-engine/load", store.batch_get_v1(keys, place[4 * PAGE :]), [True] * 4)
    checks.check(
        "shared-engine/every-byte", bench.page_bytes(pool, place)[4:] == want[:4], "differ"
    )
    return store


def main(args):
    checks = cpu.Checks()
    begin = time.monotonic()
    side = Side(args)
    import sglang

    print(
        f"# sglang {sglang.__version__}, torch {torch.__version__}, "
        f"import {time.monotonic() - begin:.1f} s",
        flush=True,
    )
    script, base = os.path.abspath(__file__), args.port_base
    ports = [base + 1, base + 2, base + 3] if base else [free_port(args.host) for _ in range(3)]
    peer = cpu.Peer(script, "decode", cpu.passed_on(args))
    try:
        checks.run("engine", check_engine, checks, side, peer)
        for kind, port in zip(("mha", "mla"), ports):
            checks.run(kind, check_manager, checks, side, peer, kind, port)
        checks.run("peer-gone", check_peer_gone, checks, side, peer, ports[2])
    finally:
        peer.end(5)
    # a process of its own: the engine of a process is made once
    other = cpu.Peer(
        script,
        "shared",
        cpu.passed_on(args),
        env=dict(os.environ, MC_FORCE_TCP="1", MOONCAKE_PROTOCOL="rdma"),
    )
    for line in other.process.stdout:
        print(line, end="", flush=True)
        checks.count += line.startswith(("ok ", "FAIL "))
        checks.failed += line.startswith("FAIL ")
    checks.equal("shared-engine/process-ends", other.end(60), 0)
    return checks.finish()


if __name__ == "__main__":
    options = cpu.common_args("SGLang prefill/decode on mooncake, CPU only").parse_args()
    stubs = cpu.stub_missing(STUBS)
    logging.getLogger().setLevel(logging.ERROR)
    cpu.start(options)
    if options.role == "decode":
        decode(options)
    elif options.role == "shared":
        inner = cpu.Checks()
        kept = inner.run("shared-engine", check_shared_engine, inner, options)
        sys.stdout.flush()
        sys.exit(0)
    else:
        print(f"# stand-ins: {', '.join(stubs) or 'none'}", flush=True)
        sys.exit(main(options))
