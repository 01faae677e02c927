"""Real `snowskin` processes for the tests."""
import os
import pathlib
import re
import signal
import subprocess
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("TEST_BINARY", str(ROOT / "build/release/snowskin"))


class Served:
    """A process that serves, and tells where its master listens."""

    def __init__(self, *command):
        self.process = subprocess.Popen([BINARY, *command], stdout=subprocess.PIPE, text=True)
        self.master = re.match(r"master (\S+)", self.process.stdout.readline()).group(1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        return self.process.wait(20)


class Master(Served):
    """A master alone: whoever wants to store something brings memory along."""

    def __init__(self, *options):
        super().__init__("master", "--listen", "127.0.0.1:0", *options)


class Dev(Served):
    """A master and a node in one process."""

    def __init__(self, *options):
        super().__init__("dev", "--master-listen", "127.0.0.1:0", *options)
        while self.process.stdout.readline().strip() != "ready":
            assert self.process.poll() is None


@pytest.fixture(scope="session")
def dev():
    running = Dev("--memory", "64MiB")
    yield running
    assert running.stop() == 0


@pytest.fixture(params=["any", "tcp"])
def store(dev, request):
    import snowskin
    with snowskin.Store(dev.master, transport=request.param) as opened:
        yield opened


@pytest.fixture
def key():
    """A key that nobody has used."""
    return "test-%s" % uuid.uuid4()
