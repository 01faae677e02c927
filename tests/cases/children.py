"""Client processes: functions in forks, which tell what they saw and must not die by themselves."""

import multiprocessing
import os
import signal
import time
import traceback

FORK = multiprocessing.get_context("fork")
Barrier, Event, Queue = FORK.Barrier, FORK.Event, FORK.SimpleQueue
JOIN_S = 120


class Child:
    """Runs function(tell, *arguments) in a process of its own; tell(x) sends x to the parent."""

    def __init__(self, function, *arguments):
        self.pipe, far = FORK.Pipe()
        self.process = FORK.Process(target=run, args=(function, far, arguments), daemon=True)
        self.process.start()
        far.close()

    def hear(self, seconds=JOIN_S):
        """What it tells next."""
        assert self.pipe.poll(seconds), "a client process says nothing"
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join(JOIN_S)
            raise AssertionError("a client process ended: %s" % self.process.exitcode) from None

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.pipe.close()

    def end(self):
        """Comes to its end by itself, and well."""
        self.process.join(JOIN_S)
        assert self.process.exitcode == 0, "a client process: %s" % self.process.exitcode
        self.pipe.close()


def run(function, pipe, arguments):
    try:
        function(pipe.send, *arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # not the parent's exit handlers


def at(moment):
    """Waits for a moment of time.monotonic, to the fraction of a millisecond."""
    time.sleep(max(0, moment - time.monotonic() - 0.001))
    while time.monotonic() < moment:
        pass
