"""Real masters for the tests of the package `mooncake`."""
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("TEST_BINARY", str(ROOT / "build/release/snowskin"))
FAKE_CUDA = os.path.join(os.path.dirname(BINARY), "fake", "libcuda.so.1")
MIB = 1 << 20
LEASE_S = 0.4


class Master:
    """A master, at the same address again after a restart."""

    def __init__(self, *options):
        self.options = options
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [BINARY, "master", "--listen", self.address, "--cluster", "test", *self.options],
            stdout=subprocess.PIPE, text=True)
        self.address = re.match(r"master (\S+)", self.process.stdout.readline()).group(1)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture(scope="session")
def master():
    """One for all tests that leave it as it is."""
    running = Master("--guard", "%dms" % (LEASE_S * 1000))
    yield running
    assert running.stop() == 0


@pytest.fixture
def own_master():
    running = Master("--guard", "%dms" % (LEASE_S * 1000))
    yield running
    running.kill()


def make_store(master, segment=64 * MIB, local=16 * MIB, name="localhost"):
    from mooncake.store import MooncakeDistributedStore
    store = MooncakeDistributedStore()
    assert store.setup(name, "P2PHANDSHAKE", segment, local, "tcp", "", master.address) == 0
    return store


@pytest.fixture(scope="session")
def pool(master):
    """Memory that all tests of the common master use."""
    store = make_store(master, 128 * MIB)
    yield store
    assert store.close() == 0


@pytest.fixture
def store(master, pool):
    """A client without memory of its own."""
    opened = make_store(master, 0)
    yield opened
    assert opened.close() == 0


@pytest.fixture
def key():
    """A key that nobody has used."""
    return "test-%s" % uuid.uuid4()


class Memory:
    """Bytes at an address."""

    def __init__(self, content):
        self.size = content if isinstance(content, int) else len(content)
        self.array = ctypes.create_string_buffer(self.size)
        if not isinstance(content, int):
            self.array.raw = content
        self.at = ctypes.addressof(self.array)

    @property
    def bytes(self):
        return self.array.raw


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def child(code, *arguments):
    """A Python process with the same packages."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
