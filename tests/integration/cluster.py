"""Real binaries on loopback sockets, for the integration tests: start, stop, kill, pause, ask."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["TEST_BINARY"]
SOURCE = os.environ["TEST_SOURCE"]
SLOW = int(os.environ.get("TEST_SLOW", "1"))  # how many times slower the binary is: sanitizers
DEADLINE_S = 30 * SLOW
TEST_DEADLINE_S = 120 * SLOW
ALLOWED_WARNINGS = ("can not reach the master",)


class Process:
    """One running `snowskin` that prints what it serves, a line each."""

    running = set()

    def __init__(self, *arguments, expect):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=self.log, text=True)
        Process.running.add(self)
        self.lines = {}
        while expect not in self.lines:
            line = self.process.stdout.readline()
            if not line:
                self.process.kill()
                raise AssertionError(f"{arguments} did not say {expect}: {self.errors()}")
            word, _, rest = line.strip().partition(" ")
            self.lines[word] = rest

    @property
    def address(self):
        return self.lines["master"]

    def errors(self):
        # pread: the process writes at the offset that a seek would move.
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def send(self, number):
        self.process.send_signal(number)

    def pause(self):
        self.send(signal.SIGSTOP)

    def resume(self):
        self.send(signal.SIGCONT)

    def close(self):
        """After its end: what it wrote is given up."""
        self.process.stdout.close()
        self.log.close()
        Process.running.discard(self)

    def kill(self):
        self.process.kill()
        self.process.wait()
        errors = self.errors()
        self.close()
        assert "Sanitizer" not in errors, errors

    def stop(self):
        """SIGTERM: exits in time, with status 0, and has logged nothing that nobody expected."""
        began = time.monotonic()
        self.send(signal.SIGTERM)
        status = self.process.wait(timeout=10 * SLOW)
        took = time.monotonic() - began
        errors = self.errors()
        self.close()
        assert status == 0, f"exit status {status}: {errors}"
        assert took < 5 * SLOW, f"took {took:.1f} s to stop"
        for line in errors.splitlines():
            unexpected = re.search(r"\b(warning|error|broken invariant)\b", line)
            if unexpected and not any(text in line for text in ALLOWED_WARNINGS):
                raise AssertionError(f"unexpected in the log: {line}")


class Case(unittest.TestCase):
    """A test with a deadline, which leaves no process behind."""

    def setUp(self):
        before = set(Process.running)

        def on_alarm(*_):
            raise AssertionError(f"not done within {TEST_DEADLINE_S} s")

        def clean():
            signal.alarm(0)
            for process in Process.running - before:
                process.kill()

        self.addCleanup(clean)
        signal.signal(signal.SIGALRM, on_alarm)
        signal.alarm(TEST_DEADLINE_S)


class Folder:
    """A temporary folder on tmpfs where there is one."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def run(*arguments, data=None, env=None, timeout=DEADLINE_S):
    """Runs a command to its end: (status, output bytes, errors text)."""
    done = subprocess.run([BINARY, *map(str, arguments)], input=data or b"", capture_output=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def wait_for(condition, seconds=DEADLINE_S):
    """Asks again until it holds; fails after that many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.02)
