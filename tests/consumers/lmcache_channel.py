"""Drives LMCache's multiprocess peer-to-peer channel "mooncake_te" (mooncake.engine) without a GPU.

    python lmcache_channel.py --master HOST:PORT [--port-base N] [--settle SECONDS] [--trace FILE]
    [--verbose]

--master is accepted for uniformity and not used: this channel needs no master. Two peers, each
with one registered block of ordinary memory: this process (owner of the pages) and a second one
that
dials it and reads single pages, batches, and many pieces at once; then the owner reads back over
the
connection that the second one opened; then reads from a peer that is gone.
--settle waits that long between "finished" and the comparison. It has to pass with 0; upstream
needs
about 1, because its transfer_check_status looks at the first piece of a batch only.
Real LMCache classes: MooncakeTeTransferChannelContext, its server and client, made through
create_transfer_channel_context.

One line per check: "ok NAME" or "FAIL NAME why". Exit code 0 when no check failed.
"""

import argparse
import os
import subprocess
import sys
import time

PAGE = 64 * 1024
PAGES = 96
failures = 0
settle = 0.0


def check(name, good, why=""):
    global failures
    if good:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        print(f"FAIL {name} {why}".rstrip(), flush=True)
    return bool(good)


def block(seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (PAGES * PAGE,), dtype=torch.uint8, generator=generator)


def open_channel(memory, port):
    from lmcache.v1.distributed.internal_api import L1MemoryDesc
    from lmcache.v1.distributed.transfer_channel import create_transfer_channel_context

    desc = L1MemoryDesc(ptr=memory.data_ptr(), size=memory.numel(), align_bytes=4096)
    url = f"127.0.0.1:{port}"
    return create_transfer_channel_context("mooncake_te", desc, url, url)


def read(context, client, pairs, seconds=60.0):
    """pairs: [(local offset, remote offset, size)]; gives the mask of LMCache's result, or the
    error."""
    local = context.get_transfer_channel_address([(a, n) for a, _, n in pairs])
    remote = context.get_transfer_channel_address([(b, n) for _, b, n in pairs])
    try:
        task = client.submit_read(local, remote)
    except RuntimeError as error:
        return error
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        result = client.query_read_status(task)
        if result.finished:
            time.sleep(settle)
            return list(result.succeeded_mask)
        time.sleep(0.001)
    return TimeoutError("no end of the read")


def reader(args):
    import torch

    remote, mine = block(1), torch.zeros(PAGES * PAGE, dtype=torch.uint8)
    context = open_channel(mine, args.port_base + 1)
    owner = f"127.0.0.1:{args.port_base}"
    client = context.get_transfer_channel_client(owner)
    check("reader.connected", context.get_num_connected_clients() == 1)

    got = read(context, client, [(0, 5 * PAGE, PAGE)])
    check(
        "reader.one_page",
        got == [True] and torch.equal(mine[:PAGE], remote[5 * PAGE : 6 * PAGE]),
        repr(got),
    )
    got = read(context, client, [(i * PAGE, (PAGES - 1 - i) * PAGE, PAGE) for i in range(PAGES)])
    check("reader.batch.result", got == [True] * PAGES, repr(got)[:200])
    late = sum(
        not torch.equal(
            mine[i * PAGE : (i + 1) * PAGE], remote[(PAGES - 1 - i) * PAGE : (PAGES - i) * PAGE]
        )
        for i in range(PAGES)
    )
    check(
        "reader.batch.every_byte",
        late == 0,
        f"{late} of {PAGES} pages not there when reported as finished",
    )
    time.sleep(1)
    mine.zero_()
    pairs = [(i * 4099, i * 8191, 1 + 37 * i) for i in range(100)]
    got = read(context, client, pairs)
    check("reader.odd_pieces.result", got == [True] * len(pairs), repr(got)[:200])
    late = sum(not torch.equal(mine[a : a + n], remote[b : b + n]) for a, b, n in pairs)
    check(
        "reader.odd_pieces.every_byte",
        late == 0,
        f"{late} of {len(pairs)} pieces not there when reported as finished",
    )
    time.sleep(1)
    got = read(context, client, [(0, 0, PAGES * PAGE)])
    check("reader.whole_block", got == [True] and torch.equal(mine, remote), repr(got))
    mine.copy_(block(2))
    print("READY", flush=True)  # now the owner reads from here
    sys.stdin.readline()
    context.close()
    check("reader.closed", True)


def owner(args):
    import torch

    memory = block(1)
    context = open_channel(memory, args.port_base)
    check("owner.open", context.mooncake_te_port > 0)
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--master",
        args.master,
        "--role",
        "reader",
        "--port-base",
        str(args.port_base),
        "--settle",
        str(args.settle),
    ]
    if args.trace:
        command += ["--trace", args.trace]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if line.strip() == "READY":
            break
        if line.startswith(("ok ", "FAIL ")):
            check(line.split()[1], line.startswith("ok "), " ".join(line.split()[2:]))
    peer = f"127.0.0.1:{args.port_base + 1}"
    client = context.get_transfer_channel_client(peer)
    check("owner.knows_peer", context.get_num_connected_clients() == 1)
    got = read(context, client, [(0, 0, PAGES * PAGE)])
    check("owner.read_back", got == [True] and torch.equal(memory, block(2)), repr(got))

    child.stdin.write("\n")
    child.stdin.flush()
    for line in child.stdout:
        if line.startswith(("ok ", "FAIL ")):
            check(line.split()[1], line.startswith("ok "), " ".join(line.split()[2:]))
    check("reader.exit", child.wait(60) == 0, f"exit code {child.returncode}")
    begin = time.monotonic()
    got = read(context, client, [(0, 0, PAGE)])
    seconds = time.monotonic() - begin
    check(
        "owner.peer_gone_is_an_error",
        (isinstance(got, RuntimeError) or got == [False]) and seconds < 60,
        f"{got!r} after {seconds:.1f} s",
    )
    context.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument(
        "--port-base", type=int, default=18120, help="first of 2 ports to listen on"
    )
    parser.add_argument("--settle", type=float, default=0.0)
    parser.add_argument("--trace", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--role", default="owner", help=argparse.SUPPRESS)
    args = parser.parse_args()
    global settle
    settle = args.settle
    os.environ.update({"LMCACHE_TRACK_USAGE": "false", "DO_NOT_TRACK": "1"})
    os.environ.setdefault("LMCACHE_LOG_LEVEL", "INFO" if args.verbose else "CRITICAL")
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)
    (reader if args.role == "reader" else owner)(args)
    sys.stdout.flush()
    os._exit(1 if failures else 0)


if __name__ == "__main__":
    main()
