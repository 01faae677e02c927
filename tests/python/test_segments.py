"""Processes that give memory to the cluster themselves: nothing but a master runs beside them."""
import os
import signal
import subprocess
import sys
import time

import pytest

import snowskin
import snowskin.aio
from conftest import Master

MIB = 1 << 20
PATIENCE_S = 30


@pytest.fixture
def master():
    running = Master()
    yield running.master
    assert running.stop() == 0


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def value_of(seed):
    return bytes([seed]) * MIB


# Puts eight values into its own segment and reads eight of the other's, when asked to.
GIVER = """
import os, sys, snowskin
store = snowskin.Store(sys.argv[1], segment_size=64 << 20, segment_name="giver",
                       transport=sys.argv[2])
keys = ["giver-%d" % i for i in range(8)]
values = [bytes([i]) * (1 << 20) for i in range(8)]
assert store.put_many(keys, values, segment="giver") == [True] * 8
if sys.argv[3] == "fork" and os.fork() == 0:
    try:
        store.get("giver-0")
    except snowskin.ClosedError:
        os.read(int(sys.argv[4]), 1)        # lives on, until the test ends
    os._exit(0)
print("ready", flush=True)
sys.stdin.readline()
others = store.get_many(["test-%d" % i for i in range(8)])
print("same" if others == values else "other", flush=True)
sys.stdin.readline()
if sys.argv[3] == "close":
    store.close()
"""


def start_giver(master, transport, how, until):
    child = subprocess.Popen([sys.executable, "-c", GIVER, master, transport, how, str(until)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             pass_fds=[until])
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("transport", ["any", "tcp", "shm"])
@pytest.mark.parametrize("how", ["close", "exit", "kill", "fork"])
def test_two_processes(master, transport, how):
    until, ended = os.pipe()
    with snowskin.Store(master, segment_size=64 * MIB, segment_name="test",
                        transport=transport) as store:
        child = start_giver(master, transport, how, until)
        keys = ["test-%d" % i for i in range(8)]
        theirs = ["giver-%d" % i for i in range(8)]
        values = [value_of(i) for i in range(8)]
        assert store.put_many(keys, values, segment="test") == [True] * 8
        assert store.get_many(theirs) == values
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "same\n"
        nodes = {node["name"]: node for node in store.nodes()}
        assert nodes["giver"]["used"] >= 8 * MIB and nodes["test"]["used"] >= 8 * MIB
        if how in ("kill", "fork"):
            child.kill()
        else:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.wait(PATIENCE_S) == 0
        child.wait(PATIENCE_S)
        # What it held is gone, nobody waits for it, and the rest is as it was.
        began = time.monotonic()
        assert store.get_many(theirs) == [None] * 8
        assert time.monotonic() - began < 4
        assert store.get_many(keys) == values
        if how == "close":
            assert [node["name"] for node in store.nodes() if node["state"] != "dead"] == ["test"]
        assert store.put_many(theirs, values) == [True] * 8
        assert store.get_many(theirs) == values
        child.stdin.close()
        child.stdout.close()
    os.close(ended)
    os.close(until)


def test_what_a_store_tells_of_its_segment(master):
    with snowskin.Store(master) as store:
        assert store.segment is None
    with snowskin.Store(master, segment_size=8 * MIB, segment_populate="all") as store:
        segment = store.segment
        assert segment["size"] == 8 * MIB and segment["mounted"] is True
        assert segment["address"].startswith("127.0.0.1:")
        assert segment["incarnation"] != 0
        wait_for(lambda: store.segment["ready"] == 8 * MIB)
    with pytest.raises(snowskin.ClosedError):
        store.segment


def test_memory_is_committed_as_it_is_needed(master):
    with snowskin.Store(master, segment_size=3 << 30) as one, \
            snowskin.Store(master, segment_size=3 << 30) as two:
        assert one.segment["ready"] + two.segment["ready"] < 256 * MIB
        assert one.put("key", value_of(7))
        assert two.get("key") == value_of(7)


def test_own_segment_first(master):
    with snowskin.Store(master, segment_size=32 * MIB, segment_name="other"), \
            snowskin.Store(master, segment_size=32 * MIB, segment_name="own",
                           local_first=True) as store:
        assert store.put_many(["key-%d" % i for i in range(8)], [value_of(1)] * 8) == [True] * 8
        used = {node["name"]: node["used"] for node in store.nodes()}
        assert used == {"own": 8 * MIB, "other": 0}


def test_bad_segments(master):
    for size in (1, 2 << 40):
        with pytest.raises(snowskin.InvalidError, match="1 MiB to 1 TiB"):
            snowskin.Store(master, segment_size=size)
    with pytest.raises(ValueError, match="segment_size is missing"):
        snowskin.Store(master, segment_name="name")
    with pytest.raises(ValueError, match="segment_populate"):
        snowskin.Store(master, segment_size=MIB, segment_populate="never")
    with pytest.raises(ValueError, match="segment_size"):
        snowskin.Store(master, segment_size=-1)
    with pytest.raises(snowskin.InvalidError, match="listen"):
        snowskin.Store(master, segment_size=MIB, segment_listen="nowhere")


# Holds the interpreter lock in the middle of a call, as a busy engine does, until it is told to.
BUSY = """
import ctypes, sys, snowskin
store = snowskin.Store(sys.argv[1], segment_size=16 << 20)
assert store.put("key", b"value" * 1000)
print("ready", flush=True)
ctypes.PyDLL(None).getchar()  # with the lock: no other thread of Python runs meanwhile
"""


def test_a_busy_interpreter():
    running = Master("--suspect-after", "3s", "--dead-after", "10s")
    with snowskin.Store(running.master, transport="tcp") as store:
        child = subprocess.Popen([sys.executable, "-c", BUSY, running.master],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        until = time.monotonic() + 4.5
        while time.monotonic() < until:  # longer than it may be silent
            assert store.get("key") == b"value" * 1000
            time.sleep(0.01)
        assert store.nodes()[0]["state"] == "alive"
        assert store.stats()["suspects"] == 0
        child.stdin.write("\n")
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
        child.stdout.close()
    assert running.stop() == 0


def test_signals_go_to_the_program(master):
    """The library's threads block them all: the program's handler runs in its own thread."""
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        with snowskin.Store(master, segment_size=4 * MIB):
            for task in os.listdir("/proc/self/task"):
                with open("/proc/self/task/%s/status" % task) as status:
                    text = dict(line.split(":\t", 1) for line in status if ":\t" in line)
                if text["Name"].strip().startswith("node"):
                    blocked = int(text["SigBlk"], 16)
                    assert blocked & (1 << (signal.SIGUSR1 - 1))
            os.kill(os.getpid(), signal.SIGUSR1)
            wait_for(lambda: seen)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_asyncio(master):
    import asyncio

    async def main():
        async with snowskin.aio.Store(master, segment_size=8 * MIB) as store:
            assert await store.put("key", b"value")
            assert await store.get("key") == b"value"

    asyncio.run(main())
