"""Runs vLLM's P/D MooncakeConnector (on mooncake.engine) on CPU tensors.

A prefill engine and a decode engine are processes of their own, each with vLLM's Scheduler, both
halves of the connector and a KV cache of CPU tensors; vLLM's bootstrap server and side channel run
as they are. Only the forward pass is played (see vllm_store.py). The prefill engine computes, the
decode engine pulls the blocks, every byte is compared.

  python vllm_pd.py --master 127.0.0.1:50051        (the master is not used)
"""

import logging
import os
import socket
import sys
import time
import uuid

import _cpu_consumer as cpu
import vllm_store
from vllm_store import prompt

BLOCK = vllm_store.BLOCK = 32  # vLLM's CPU attention takes multiples of 32 only
vllm_store.CASES.update({"pd": dict(), "pd-mla": dict(kind="mla", layout="blocks-first")})


def arguments():
    parser = cpu.common_args("vLLM's Mooncake P/D connector, CPU only")
    parser.add_argument("--cases", default="pd,pd-mla")
    parser.add_argument("--case", default="pd", help="(second process) the configuration")
    parser.add_argument("--number", type=int, default=0, help="(second process) which engine")
    parser.add_argument("--bootstrap", type=int, default=0, help="(second process) port")
    parser.add_argument("--kv-role", default="kv_producer", help="(second process) role")
    return parser.parse_args()


class Engine(vllm_store.Engine):
    def __init__(self, args):
        args.segment, args.buffer, args.preferred = 0, 1 << 20, ""
        os.environ["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(args.bootstrap)
        os.environ["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] = "5"
        import torch

        torch.accelerator.current_device_index = lambda: 0  # raises without a GPU
        super().__init__(args)

    def transfer_config(self):
        from vllm.config import KVTransferConfig

        return KVTransferConfig(
            kv_connector="MooncakeConnector",
            kv_role=self.args.kv_role,
            kv_load_failure_policy="recompute",
            kv_connector_extra_config={"mooncake_protocol": "tcp", "num_workers": 3},
        )

    def note_loads(self, metadata):
        for requests in metadata.reqs_to_recv.values():
            for request_id in requests:
                self.external[request_id] = self.scheduler.requests[request_id].num_tokens

    def blocks_there(self, begin, tokens):
        # a pull brings all blocks of the prompt, the last one too; without it only local ones
        return -(-len(tokens) // BLOCK) if begin >= len(tokens) - 1 else begin // BLOCK

    def settle(self, seconds=0.0):
        end = time.monotonic() + seconds
        while True:
            self.plan()
            self.execute()
            if time.monotonic() >= end or not self.waiting():
                break
            time.sleep(0.005)
        return self.waiting()

    def waiting(self):
        """Requests that still hold blocks for the decode side."""
        return len(self.scheduler.requests)

    def pinned(self):
        return self.waiting()

    def engine_id(self):
        return self.scheduler.connector.engine_id

    def prefill(self, prompts, transfers):
        """Computes and keeps the blocks until the other side has pulled them."""
        self.add(
            prompts,
            {
                n: {
                    "kv_transfer_params": {
                        "do_remote_decode": True,
                        "do_remote_prefill": False,
                        "transfer_id": t,
                    }
                }
                for n, t in transfers.items()
            },
        )
        return self.drive()

    def decode(self, prompts, transfers, engine, bootstrap):
        self.add(
            prompts,
            {
                n: {
                    "kv_transfer_params": {
                        "do_remote_prefill": True,
                        "do_remote_decode": False,
                        "transfer_id": t,
                        "remote_engine_id": engine,
                        "remote_bootstrap_addr": bootstrap,
                    }
                }
                for n, t in transfers.items()
            },
        )
        return self.drive(steps=20000)

    def registration(self):
        """vLLM gives the memory back for sleep mode and registers it again later."""
        self.worker.unregister_kv_caches()
        self.worker.restore_kv_caches()
        return True

    def end(self):
        from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown

        ensure_kv_transfer_shutdown()
        return True


def engine(args):
    e = Engine(args)
    cpu.serve(
        dict(
            version=lambda: e.version,
            engine_id=e.engine_id,
            prefill=e.prefill,
            decode=e.decode,
            run=e.run,
            settle=e.settle,
            forget=e.forget,
            registration=e.registration,
            end=e.end,
        )
    )
    os._exit(0)


def free_port(host):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def check_case(checks, args, case, numbers):
    bootstrap = args.port_base + 1 + next(numbers) if args.port_base else free_port(args.host)

    def start(role, low):
        env = dict(os.environ)
        if args.port_base:
            low += args.port_base
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
            + ["--case", case, "--bootstrap", str(bootstrap), "--kv-role", role],
            env=env,
        )

    run = uuid.uuid4().hex[:8]

    def p(name, length):
        return prompt(f"{run}/{name}", length)

    def same(name, r, wanted):
        """wanted: request -> tokens to pull; all but the last token need no computing then."""
        checks.equal(
            name,
            {k: (v["external"], v["start"], v["equal"]) for k, v in r["requests"].items()},
            {k: (n, n - 1, True) for k, n in wanted.items()},
        )

    pre, dec = start("kv_producer", 40), start("kv_consumer", 50)
    try:
        print(f"# vllm {pre.call('version')}, case {case}", flush=True)
        dec.call("version")
        where = dict(engine=pre.call("engine_id"), bootstrap=f"http://{args.host}:{bootstrap}")

        prompts = {"long": p("long", 83), "even": p("even", 80), "short": p("short", 9)}
        ids = {n: f"{run}-{n}" for n in prompts}
        r = pre.call("prefill", prompts=prompts, transfers=ids)
        checks.check(f"{case}/prefill", r["done"] and r["pinned"] == 3, r)
        r = dec.call("decode", prompts=prompts, transfers=ids, **where)
        checks.check(f"{case}/pull", r["done"] and not r["failures"] and not r["bad_blocks"], r)
        same(f"{case}/pull-every-byte", r, {"long": 83, "even": 80, "short": 9})
        checks.equal(f"{case}/prefill-frees-blocks", pre.call("settle", seconds=10), 0)

        # a local prefix on the decode side: only the rest is pulled
        prompts = {"fork": p("long", 48) + p("rest", 61)}
        ids = {"fork": f"{run}-fork"}
        pre.call("prefill", prompts=prompts, transfers=ids)
        r = dec.call("decode", prompts=prompts, transfers=ids, **where)
        checks.check(f"{case}/pull-the-rest", r["done"] and not r["failures"], r)
        same(f"{case}/pull-the-rest-every-byte", r, {"fork": 109})

        many = {f"m{i}": p(f"m{i}", 40 + 7 * i) for i in range(8)}
        ids = {n: f"{run}-{n}" for n in many}
        pre.call("prefill", prompts=many, transfers=ids)
        r = dec.call("decode", prompts=many, transfers=ids, **where)
        checks.check(f"{case}/eight-at-once", r["done"] and not r["failures"], r)
        same(f"{case}/eight-at-once-every-byte", r, {f"m{i}": 40 + 7 * i for i in range(8)})
        checks.equal(f"{case}/eight-frees-blocks", pre.call("settle", seconds=10), 0)

        checks.equal(
            f"{case}/unregister-and-register",
            (pre.call("registration"), dec.call("registration")),
            (True, True),
        )
        again = {"again": p("again", 70)}
        pre.call("prefill", prompts=again, transfers={"again": f"{run}-again"})
        r = dec.call("decode", prompts=again, transfers={"again": f"{run}-again"}, **where)
        same(f"{case}/after-registering", r, {"again": 70})

        # the prefill side never gets this request: the decode side has to compute it itself
        lost = {"lost": p("lost", 40)}
        r = dec.call("decode", prompts=lost, transfers={"lost": f"{run}-lost"}, **where)
        checks.check(
            f"{case}/nothing-to-pull-is-recomputed",
            r["done"] and r["failures"] + r["bad_blocks"] > 0,
            r,
        )

        # the prefill process is gone
        gone = {"gone": p("gone", 50)}
        pre.call("prefill", prompts=gone, transfers={"gone": f"{run}-gone"})
        pre.process.kill()
        pre.process.wait()
        # (a pull from a dead peer waits without limit in vLLM 0.33 itself: not asked for here)
        r = dec.call("run", prompts={"alone": p("alone", 50)})
        checks.check(f"{case}/decode-side-goes-on", r["done"], r)
        checks.equal(f"{case}/close", dec.call("end"), True)
        checks.equal(f"{case}/process-ends", dec.end(), 0)
    finally:
        for peer in (pre, dec):
            peer.end(10)


def main(args):
    checks = cpu.Checks()
    numbers = iter(range(1, 20))
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
    engine(options)
