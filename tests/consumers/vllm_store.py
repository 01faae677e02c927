"""Runs vLLM's MooncakeStoreConnector on CPU tensors, with vLLM's own scheduler.

Each engine is a process of its own that holds vLLM's Scheduler, the scheduler and the worker half
of the connector, and a KV cache made of CPU tensors. Only the forward pass is played: it writes
bytes that depend on the tokens, so every loaded block can be compared with what it must be. One
engine stores, another looks up, loads and compares.

  python vllm_store.py --master 127.0.0.1:50051
  --cases plain,groups,mla,standalone,tenant      which configurations to run
The case `standalone` needs memory that other clients give: the driver keeps an engine for that.
  --evict      stores twice what the pool holds while another engine loads: every block that it has
               in the end is right, loaded or computed
"""

import hashlib
import json
import logging
import os
import sys
import tempfile
import time
import uuid

import _cpu_consumer as cpu

BLOCK, LAYERS, BLOCKS = 16, 3, 96
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}
CASES = {
    "plain": dict(),
    "groups": dict(
        extra={"enable_group_semantics": "true", "cache_prefix": "blue"}, tier_log=True, threads=3
    ),
    "mla": dict(kind="mla", layout="blocks-first"),
    "standalone": dict(mode="standalone-store", extra={"lookup_async": True}),
    "tenant": dict(tenant="team-a"),
}


def arguments():
    parser = cpu.common_args("vLLM's Mooncake store connector, CPU only")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--segment", type=int, default=64 << 20)
    parser.add_argument("--buffer", type=int, default=32 << 20)
    parser.add_argument("--case", default="plain", help="(second process) the configuration")
    parser.add_argument("--number", type=int, default=0, help="(second process) which engine")
    parser.add_argument("--preferred", default="", help="(second process) preferred segment")
    return parser.parse_args()


# ---- one engine ----------------------------------------------------------------------------


class NoEvent:
    """Stands for torch.cuda.Event: there is no stream to wait for on the CPU."""

    def __init__(self, *args, **kwargs):
        pass

    def record(self, *args):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True


class Engine:
    def __init__(self, args):
        spec = CASES[args.case]
        os.environ["VLLM_HOST_IP"] = args.host
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ["VLLM_MOONCAKE_LOAD_RECV_THREADS"] = str(spec.get("threads", 1))
        if spec.get("tier_log"):
            os.environ["VLLM_MOONCAKE_STORE_TIER_LOG"] = "1"
        if args.port_base:
            os.environ["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] = (
                f"{args.host}:{args.port_base + args.number}"
            )
        global torch
        import torch

        torch.cuda.Event = NoEvent
        import vllm.platforms
        from vllm.platforms.cpu import CpuPlatform

        vllm.platforms._current_platform = CpuPlatform()
        import vllm

        self.version = vllm.__version__
        self.args, self.spec = args, spec
        self.folder = tempfile.TemporaryDirectory()
        path = self.folder.name
        standalone = spec.get("mode") == "standalone-store"
        store = {
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": args.master,
            "protocol": "tcp",
            "device_name": "",
            "mode": spec.get("mode", "embedded"),
            "global_segment_size": 0 if standalone else args.segment,
            "local_buffer_size": f"{args.buffer >> 20}MB",
        }
        if "tenant" in spec:
            store["tenant_id"] = spec["tenant"]
        with open(os.path.join(path, "mooncake.json"), "w") as file:
            json.dump(store, file)
        os.environ["MOONCAKE_CONFIG_PATH"] = os.path.join(path, "mooncake.json")
        os.environ["VLLM_RPC_BASE_PATH"] = path
        os.mkdir(os.path.join(path, "model"))
        with open(os.path.join(path, "model", "config.json"), "w") as file:
            json.dump(MODEL, file)
        self.build(os.path.join(path, "model"))
        self.loaded, self.external = {}, {}

    def transfer_config(self):
        from vllm.config import KVTransferConfig

        extra = dict(self.spec.get("extra", {}))
        if self.args.preferred:
            extra["preferred_segment"] = self.args.preferred
        return KVTransferConfig(
            kv_connector="MooncakeStoreConnector",
            kv_role="kv_both",
            kv_load_failure_policy="recompute",
            kv_connector_extra_config=extra,
        )

    def build(self, model):
        from vllm.config import (
            CacheConfig,
            DeviceConfig,
            ModelConfig,
            ParallelConfig,
            SchedulerConfig,
            VllmConfig,
            set_current_vllm_config,
        )
        from vllm.distributed import (
            ensure_model_parallel_initialized,
            init_distributed_environment,
        )
        from vllm.distributed.kv_transfer import (
            ensure_kv_transfer_initialized,
            get_kv_transfer_group,
        )
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import get_hash_fn_by_name
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import (
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
            MLAAttentionSpec,
        )
        from vllm.v1.structured_output import StructuredOutputManager

        self.config = VllmConfig(
            model_config=ModelConfig(
                model=model,
                skip_tokenizer_init=True,
                dtype="bfloat16",
                max_model_len=512,
                enforce_eager=True,
            ),
            cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=True),
            parallel_config=ParallelConfig(),
            scheduler_config=SchedulerConfig(
                max_num_batched_tokens=512,
                max_num_seqs=16,
                max_model_len=512,
                is_encoder_decoder=False,
                async_scheduling=False,
            ),
            device_config=DeviceConfig(device="cpu"),
            kv_transfer_config=self.transfer_config(),
        )
        self.config.cache_config.num_gpu_blocks = BLOCKS
        names = [f"model.layers.{i}.self_attn.attn" for i in range(LAYERS)]
        if self.spec.get("kind") == "mla":
            group = MLAAttentionSpec(
                block_size=BLOCK, num_kv_heads=1, head_size=80, dtype=torch.bfloat16
            )
        else:
            group = FullAttentionSpec(
                block_size=BLOCK, num_kv_heads=2, head_size=16, dtype=torch.bfloat16
            )
        page = group.page_size_bytes
        kv = KVCacheConfig(
            num_blocks=BLOCKS,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(names, group)],
            hash_block_size=BLOCK,
        )
        # one allocation for a layer, or one for all with the layers inside every block
        if self.spec.get("layout") == "blocks-first":
            whole = torch.zeros(BLOCKS, LAYERS, page, dtype=torch.uint8)
            self.layers = {n: whole[:, i] for i, n in enumerate(names)}
        else:
            self.layers = {n: torch.zeros(BLOCKS, page, dtype=torch.uint8) for n in names}
        self.page = page
        with set_current_vllm_config(self.config):
            init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                backend="gloo",
                distributed_init_method=f"file://{self.folder.name}/dist",
            )
            ensure_model_parallel_initialized(1, 1)
            ensure_kv_transfer_initialized(self.config, kv)
            self.worker = get_kv_transfer_group()
            self.worker.register_kv_caches(self.layers)
            self.scheduler = Scheduler(
                self.config,
                kv,
                StructuredOutputManager(self.config),
                block_size=BLOCK,
                hash_block_size=BLOCK,
            )
        hash_fn = get_hash_fn_by_name("sha256")
        init_none_hash(hash_fn)
        self.hasher = get_request_block_hasher(BLOCK, hash_fn)
        self.sampling = SamplingParams

    # -- what the model would write ----------------------------------------------------------
    def expected(self, tokens, block, layer):
        """Bytes of a block: they depend on the layer and on all tokens up to its end."""
        seed = hashlib.sha256(repr((layer, tokens[: (block + 1) * BLOCK])).encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(seed[:7], "big"))
        return torch.randint(1, 256, (self.page,), dtype=torch.uint8, generator=generator)

    @staticmethod
    def blocks_there(begin, tokens):
        return begin // BLOCK  # the store holds full blocks only

    def forward(self, output):
        for request_id, count in output.num_scheduled_tokens.items():
            request = self.scheduler.requests[request_id]
            tokens = request.prompt_token_ids
            end = request.num_computed_tokens  # advanced by schedule() already
            begin = end - count
            blocks = self.scheduler.kv_cache_manager.get_block_ids(request_id)[0]
            # what was there before this step came from the local cache or from the store
            if request_id not in self.loaded:
                self.loaded[request_id] = {
                    "external": self.external.get(request_id, 0),
                    "start": begin,
                    "equal": all(
                        bool(torch.equal(self.layers[n][blocks[b]], self.expected(tokens, b, i)))
                        for b in range(self.blocks_there(begin, tokens))
                        for i, n in enumerate(self.layers)
                    ),
                }
            for b in range(begin // BLOCK, -(-min(end, len(tokens)) // BLOCK)):
                for i, n in enumerate(self.layers):
                    self.layers[n][blocks[b]] = self.expected(tokens, b, i)

    def note_loads(self, metadata):
        """request -> tokens that the worker is told to load"""
        for r in metadata.requests:
            if r.load_spec is not None and r.load_spec.can_load:
                self.external[r.req_id] = (
                    r.load_spec.kvpool_cached_tokens - r.load_spec.vllm_cached_tokens
                )

    # -- one step of the engine, in the order of vLLM's model runner --------------------------
    def plan(self):
        self.output = self.scheduler.schedule()
        self.note_loads(self.output.kv_connector_metadata)
        return sorted(self.output.num_scheduled_tokens)

    def plan_load(self):
        """Steps until a load from the store is planned, and stops before it starts."""
        for _ in range(500):  # a lookup may run beside the scheduler
            self.plan()
            if self.external:
                return True
            self.execute()
            time.sleep(0.002)
        return False

    def execute(self):
        from vllm.forward_context import set_forward_context
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.worker.kv_connector_model_runner_mixin import KVConnectorModelRunnerMixin

        output, ids = self.output, list(self.output.num_scheduled_tokens)
        with (
            set_forward_context(None, self.config),
            KVConnectorModelRunnerMixin._get_kv_connector_output(output) as kv,
        ):
            self.forward(output)
        sampled = []
        for i in ids:
            r = self.scheduler.requests[i]
            sampled.append([7] if r.num_computed_tokens >= r.num_tokens else [])
        self.failures |= {i for i in kv.failed_recving or ()}
        self.bad_blocks += len(kv.invalid_block_ids)
        if kv.kv_connector_stats:
            self.stats.append(kv.kv_connector_stats.reduce())
        result = self.scheduler.update_from_output(
            self.output,
            ModelRunnerOutput(
                req_ids=ids,
                req_id_to_index={r: i for i, r in enumerate(ids)},
                sampled_token_ids=sampled,
                kv_connector_output=kv,
            ),
        )
        for outputs in result.values():
            for o in outputs.outputs:
                if o.finish_reason is not None:
                    self.finished[o.request_id] = str(o.finish_reason)

    def add(self, prompts, extra_args=None):
        from vllm.v1.request import Request

        self.finished, self.failures, self.bad_blocks, self.stats = {}, set(), 0, []
        self.loaded, self.external = {}, {}
        self.wanted = set()
        for short, tokens in prompts.items():
            name = f"{short}-{uuid.uuid4().hex[:6]}"
            self.wanted.add(name)
            sampling = self.sampling(max_tokens=1, extra_args=(extra_args or {}).get(short))
            self.scheduler.add_request(
                Request(name, list(tokens), sampling, None, block_hasher=self.hasher)
            )
        return True

    def drive(self, steps=3000):
        for _ in range(steps):
            self.plan()
            self.execute()
            if self.wanted <= set(self.finished):
                break
            if not self.output.num_scheduled_tokens:
                time.sleep(0.002)
        self.settle()
        return {
            "done": self.wanted <= set(self.finished),
            "failures": len(self.failures),
            "bad_blocks": self.bad_blocks,
            "pinned": self.pinned(),
            "requests": {k.rsplit("-", 1)[0]: v for k, v in self.loaded.items()},
            "operations": sorted({k for s in self.stats for k in s}),
        }

    def settle(self):
        """Lets the saves end and tells the scheduler."""
        worker = self.worker.connector_worker
        if worker.kv_send_thread is not None:
            worker.kv_send_thread.request_queue.join()
        for _ in range(2):
            self.plan()
            self.execute()

    def pinned(self):
        return len(self.scheduler.connector.connector_scheduler._pinned_saves)

    def run(self, prompts):
        self.add(prompts)
        return self.drive()

    def forget(self):
        """Empties the local prefix cache and the memory: only the store can help now."""
        done = self.scheduler.kv_cache_manager.reset_prefix_cache()
        for tensor in self.layers.values():
            tensor.zero_()
        return bool(done)

    def reset_store(self):
        return self.scheduler.connector.reset_cache()

    def name(self):
        return self.worker.connector_worker.store.get_hostname()

    def end(self):
        from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown

        self.worker.shutdown()
        self.scheduler.connector.shutdown()
        closed = self.worker.connector_worker.store is None
        ensure_kv_transfer_shutdown()
        return closed


def engine(args):
    e = Engine(args)
    cpu.serve(
        dict(
            version=lambda: e.version,
            page_bytes=lambda: e.page,
            run=e.run,
            add=e.add,
            plan_load=e.plan_load,
            drive=e.drive,
            execute=lambda: e.execute() or True,
            forget=e.forget,
            name=e.name,
            reset_store=e.reset_store,
            end=e.end,
        )
    )
    os._exit(0)  # gloo and ZMQ threads of vLLM have nothing to say here


# ---- the checks ----------------------------------------------------------------------------


def prompt(name, length):
    """Tokens of a prompt: the same name gives the same tokens for every length."""
    raw = hashlib.shake_256(name.encode()).digest(2 * length)
    return [int.from_bytes(raw[2 * i : 2 * i + 2], "big") % 1000 for i in range(length)]


def check_case(checks, args, case, numbers):
    def start(preferred=""):
        number = next(numbers)
        env = dict(os.environ)
        if args.port_base:  # three engines share the ports of one role
            low = args.port_base + 40 + number % 6 * 10
            env.update(
                {
                    f"MC_{edge}_{n}_PORT": str(low + (9 if edge == "MAX" else 0))
                    for edge in ("MIN", "MAX")
                    for n in ("RPC", "PRC")
                }
            )
        return cpu.Peer(
            os.path.abspath(__file__),
            "engine",
            cpu.passed_on(args)
            + [
                "--case",
                case,
                "--number",
                str(number),
                "--preferred",
                preferred,
                "--segment",
                str(args.segment),
                "--buffer",
                str(args.buffer),
            ],
            env=env,
        )

    run = uuid.uuid4().hex[:8]

    def p(name, length):
        return prompt(f"{run}/{name}", length)

    def same(name, r, wanted, of="external"):
        """wanted: request -> tokens that had to come from the store; of "start": from it or, where
        another request of the same run had them loaded first, from the engine's own cache."""
        checks.equal(
            name,
            {k: (v[of], v["equal"]) for k, v in r["requests"].items()},
            {k: (n, True) for k, n in wanted.items()},
        )

    giver = None
    if case == "standalone":
        giver = cpu.Peer(
            os.path.abspath(__file__),
            "giver",
            cpu.passed_on(args) + ["--number", str(next(numbers)), "--segment", str(args.segment)],
        )
        checks.equal("standalone/giver", giver.call("ready"), 0)
    a, b = start(), start()
    try:
        version = a.call("version")
        b.call("version")
        print(f"# vllm {version}, case {case}", flush=True)
        prompts = {"long": p("long", 83), "even": p("even", 80), "short": p("short", 9)}
        r = a.call("run", prompts=prompts)
        checks.check(f"{case}/store", r["done"] and r["pinned"] == 0, r)
        same(f"{case}/store-nothing-found-before", r, {"long": 0, "even": 0, "short": 0})
        checks.check(
            f"{case}/store-statistics",
            "save_put" in " ".join(r["operations"]) or any("put" in o for o in r["operations"]),
            r["operations"],
        )

        r = b.call("run", prompts=prompts)
        checks.check(f"{case}/load", r["done"] and not r["failures"] and not r["bad_blocks"], r)
        same(f"{case}/load-every-byte", r, {"long": 80, "even": 64, "short": 0})
        r = b.call("run", prompts={"fork": p("long", 48) + p("other", 40), "new": p("new", 50)})
        # the first three blocks lie in b's own cache now: nothing to load
        same(f"{case}/local-cache-first", r, {"fork": 0, "new": 0})
        b.call("forget")
        r = b.call("run", prompts={"fork": p("long", 48) + p("third", 40), "new": p("nobody", 50)})
        same(f"{case}/common-beginning", r, {"fork": 48, "new": 0})

        # what b stored meanwhile serves a; the two share a beginning, and lookups run beside the
        # scheduler: "longer" may find it loaded for "fork"
        a.call("forget")
        r = a.call(
            "run", prompts={"fork": p("long", 48) + p("other", 40), "longer": p("long", 150)}
        )
        same(f"{case}/other-direction", r, {"fork": 80, "longer": 80}, of="start")

        # ten requests at once
        many = {f"m{i}": p(f"m{i}", 40 + 3 * i) for i in range(10)}
        a.call("run", prompts=many)
        b.call("forget")
        r = b.call("run", prompts=many)
        checks.check(f"{case}/ten-at-once", r["done"] and not r["failures"], r)
        same(
            f"{case}/ten-at-once-every-byte",
            r,
            {f"m{i}": (40 + 3 * i - 1) // BLOCK * BLOCK for i in range(10)},
        )

        # objects vanish between lookup and load: vLLM has to recompute, never to use bad bytes
        b.call("forget")
        b.call("add", prompts={"lost": p("long", 83)})
        checks.check(f"{case}/load-is-planned", b.call("plan_load"))
        checks.equal(f"{case}/reset", a.call("reset_store"), True)
        b.call("execute")
        r = b.call("drive")
        checks.check(
            f"{case}/lost-object-is-recomputed",
            r["done"] and all(v["equal"] for v in r["requests"].values()),
            r,
        )
        checks.check(f"{case}/lost-object-is-noticed", r["failures"] + r["bad_blocks"] > 0, r)

        checks.equal(f"{case}/reset-again", b.call("reset_store"), True)
        a.call("forget")
        r = a.call("run", prompts={"long": p("long", 83)})
        same(f"{case}/after-reset", r, {"long": 0})
        b.call("forget")
        r = b.call("run", prompts={"long": p("long", 83)})
        same(f"{case}/stored-again", r, {"long": 80})

        if case == "plain":
            check_preferred(checks, start, p, a, b)
        checks.equal(f"{case}/close", (a.call("end"), b.call("end")), (True, True))
        checks.equal(f"{case}/processes-end", (a.end(), b.end()), (0, 0))
    finally:
        for peer in (a, b, giver):
            if peer is not None:
                peer.end(20)


def check_evict(checks, args, case, numbers):
    """Engine a stores prompts of 31 blocks, engine b runs the same ones."""
    def start():
        return cpu.Peer(os.path.abspath(__file__), "engine", cpu.passed_on(args) + [
            "--case", case, "--number", str(next(numbers)), "--segment", str(args.segment),
            "--buffer", str(args.buffer)])

    run, length = uuid.uuid4().hex[:8], 31 * BLOCK + 1
    a, b = start(), start()
    stray = []

    def put(number):
        r = a.call("run", prompts={"p": prompt(f"{run}/{number}", length)})
        if not r["done"] or r["failures"] or not all(v["equal"] for v in r["requests"].values()):
            stray.append(r)

    def load(number):
        b.call("forget")
        r = b.call("run", prompts={"p": prompt(f"{run}/{number}", length)})
        if not r["done"]:
            stray.append(r)
        seen = cpu.Evicted()
        for v in r["requests"].values():
            seen.page(v["external"] > 0, v["equal"], v["equal"])
        return vars(seen)

    try:
        page = a.call("page_bytes")
        b.call("version")
        cpu.while_storing(
            checks.check, f"{case}/evict", 4 * args.segment // (page * LAYERS * 31) + 1, put, load)
        checks.check(f"{case}/evict/all-done", not stray, stray[:1])
        checks.equal(f"{case}/evict/close", (a.call("end"), b.call("end")), (True, True))
        checks.equal(f"{case}/evict/processes-end", (a.end(), b.end()), (0, 0))
    finally:
        a.end(20), b.end(20)


def check_preferred(checks, start, p, a, b):
    """preferred_segment: an engine that puts its blocks into a's memory; b goes, they stay."""
    c = start(preferred=a.call("name"))
    try:
        c.call("version")
        r = c.call("run", prompts={"pref": p("pref", 60)})
        checks.check("plain/preferred/store", r["done"] and r["pinned"] == 0, r)
        checks.equal("plain/preferred/close", c.call("end"), True)
        c.end()
        b.call("forget")
        r = b.call("run", prompts={"pref": p("pref", 60)})
        checks.equal(
            "plain/preferred/owner-gone-data-stays",
            {k: (v["external"], v["equal"]) for k, v in r["requests"].items()},
            {"pref": (48, True)},
        )
    finally:
        c.end(20)


def giver(args):
    """Memory for the standalone case; in production the process mooncake_client gives it."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    host = f"{args.host}:{args.port_base + args.number}" if args.port_base else args.host
    code = store.setup(host, "P2PHANDSHAKE", args.segment, 0, "tcp", "", args.master)
    cpu.serve(dict(ready=lambda: code))
    store.close()


def main(args):
    checks = cpu.Checks()
    numbers = iter(range(1, 40))
    if args.evict:
        args.segment = 4 << 20
        for case in ("plain", "groups"):
            checks.run(case, check_evict, checks, args, case, numbers)
        return checks.finish()
    for case in args.cases.split(","):
        checks.run(case, check_case, checks, args, case, numbers)
    return checks.finish()


if __name__ == "__main__":
    options = arguments()
    logging.getLogger().setLevel(logging.ERROR)
    if options.role == "main":
        sys.exit(main(options))
    given = {k: os.environ[k] for k in os.environ if k.startswith(("MC_MIN_", "MC_MAX_"))}
    cpu.start(options)
    os.environ.update(given)
    {"engine": engine, "giver": giver}[options.role](options)
