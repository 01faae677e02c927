"""Clients of a node's host that are killed, stopped or forked: their memory comes back."""
import os
import signal
import subprocess
import sys
import time

import pytest

import snowskin
from conftest import BINARY, Dev

MIB = 1 << 20
PATIENCE_S = 30


@pytest.fixture
def own():
    """A cluster of this test's own, and a store on it."""
    running = Dev("--memory", "64MiB")
    with snowskin.Store(running.master) as store:
        yield running, store
    assert running.stop() == 0


def start(program, *args):
    """A client in a process of its own, as far as its first line."""
    child = subprocess.Popen([sys.executable, "-c", program, *args], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def held(store):
    """Bytes that are not free."""
    node = store.nodes()[0]
    return node["used"], node["closing"]


def end(child):
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


VIEWER = """
import os, sys, snowskin
store = snowskin.Store(sys.argv[1])
keys = ["view-%d" % i for i in range(8)]
store.get_many(keys)                        # maps the node's memory
views = store.view_many(keys)
assert not any(view.copied for view in views)
if sys.argv[2] == "fork" and os.fork() == 0:
    sys.stdin.read()                        # has the parent's sockets, if anybody left them open
    os._exit(0)
print("ready", flush=True)
sys.stdin.read()                            # until the test ends
"""


@pytest.mark.parametrize("how", ["kill", "fork", "stop"])
def test_views_of_a_process_that_ends(own, how):
    dev, store = own
    keys = ["view-%d" % i for i in range(8)]
    assert store.put_many(keys, [bytes([i]) * MIB for i in range(8)]) == [True] * 8
    child = start(VIEWER, dev.master, how)
    try:
        assert store.remove_many(keys) == [True] * 8
        used, closing = held(store)
        assert used >= 8 * MIB and closing >= 8 * MIB  # removed, and still looked at
        # What is left takes others: nobody waits for who looks.
        for i in range(100):
            assert store.put("other-%d" % i, bytes(MIB))
        if how == "stop":
            child.send_signal(signal.SIGSTOP)
            assert held(store)[1] >= 8 * MIB
    finally:
        end(child)
    wait_for(lambda: held(store)[1] == 0)
    store.remove_match("all", "x")
    wait_for(lambda: held(store) == (0, 0))


WRITER = """
import sys, snowskin
store = snowskin.Store(sys.argv[1])
value = bytes(8 << 20)
print("ready", flush=True)
i = 0
while True:
    i += 1
    store.put("written", value, replace=True)
"""


@pytest.mark.parametrize("moment", range(6))
def test_a_writer_that_is_stopped_and_goes_on(own, moment):
    """Stopped in the middle of a copy it keeps that extent, and nothing else."""
    dev, store = own
    child = start(WRITER, dev.master)
    try:
        wait_for(lambda: store.exists("written"))
        time.sleep(0.003 * moment)
        child.send_signal(signal.SIGSTOP)
        # The session stands as long as its connection, so its write stays open until its deadline
        # and the copy waits where it was.  Meanwhile others use what is free.
        for i in range(200):
            assert store.put("other-%d" % (i % 40), os.urandom(MIB), replace=True)
        got = store.get("written")
        assert got is None or got == bytes(8 * MIB)
        child.send_signal(signal.SIGCONT)
        wait_for(lambda: store.exists("written"))
        for i in range(40):
            got = store.get("other-%d" % i)
            assert got is None or len(got) == MIB
    finally:
        end(child)
    store.remove_match("all", "x", force=True)
    wait_for(lambda: store.remove_match("all", "x", force=True) == 0 and held(store) == (0, 0))


@pytest.mark.parametrize("moment", range(6))
def test_a_writer_that_is_killed(own, moment):
    dev, store = own
    child = start(WRITER, dev.master)
    wait_for(lambda: store.exists("written"))
    time.sleep(0.003 * moment)
    end(child)
    got = store.get("written")
    assert got is None or got == bytes(8 * MIB)
    until = time.monotonic() + 10
    while True:  # the key is free for others soon
        try:
            assert store.put("written", b"mine", replace=True, timeout=1.0)
            break
        except snowskin.Error:
            assert time.monotonic() < until
    assert store.get("written") == b"mine"
    store.remove_match("all", "x")
    wait_for(lambda: held(store) == (0, 0))


def test_a_node_that_starts_again_under_a_client(tmp_path):
    """Kept in files, what was put is served again, by the memory itself, once the old mapping is
    gone."""
    binary = BINARY
    master = subprocess.Popen([binary, "master", "--listen", "127.0.0.1:0", "--state-dir",
                               str(tmp_path / "state")], stdout=subprocess.PIPE, text=True)
    address = master.stdout.readline().split()[1]
    options = ["--master", address, "--memory", "32MiB", "--segment-dir", str(tmp_path / "segment")]

    def start_node():
        node = subprocess.Popen([binary, "node", *options], stdout=subprocess.PIPE, text=True)
        line = ""
        while line != "ready\n":
            line = node.stdout.readline()
            assert line != "", "the node does not start"
        return node

    node = start_node()
    with snowskin.Store(address, transport="shm") as store:
        assert store.put("key", b"value" * 1000)
        assert store.get("key") == b"value" * 1000
        view = store.view("key")
        end(node)
        assert bytes(view) == b"value" * 1000  # the memory outlives its process
        view.release()
        node = start_node()
        wait_for(lambda: try_get(store) == b"value" * 1000)
    end(node)
    end(master)


def try_get(store):
    try:
        return store.get("key", timeout=1.0)
    except snowskin.Error:
        return None
