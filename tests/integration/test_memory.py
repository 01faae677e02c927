"""Clients that hold views, open puts and puts under way, and are killed, forked or stopped: all
their memory comes back, and is the pool's to its last bytes."""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import installed
from cluster import DEADLINE_S, SLOW, Case, Process, run, wait_for

MIB = 1 << 20
VIEWS = 8  # of 1 MiB each, in holder.c
GONE_S = 2.5 * SLOW  # design.md, section 8: after the break
TRANSPORTS = ("any", "tcp")


def setUpModule():
    global folder, program
    folder = tempfile.mkdtemp()
    installed.install(os.path.join(folder, "prefix"))
    program = installed.compile_program(os.path.join(folder, "prefix"), "holder", folder)


def tearDownModule():
    shutil.rmtree(folder)


class Holder:
    """A client that holds what there is to hold."""

    def __init__(self, mode, transport, address):
        self.process = subprocess.Popen([program, mode, transport, address], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"

    def close(self):
        """Its pipes: a child of its fork ends by that."""
        self.process.stdin.close()
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Memory(Case):
    def setUp(self):
        super().setUp()
        # No reserve to speak of, so that it can be told whether every byte is back.
        self.cluster = Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "64MiB",
                               "--reserve", "64KiB", expect="ready")

    def counters(self):
        return json.loads(run("stat", "--json", "--master", self.cluster.address)[1])["counters"]

    def fill(self, transport, besides=0):
        """Every byte is of use, but so many."""
        self.assertIn(" of ", installed.call(program, "fill", transport, self.cluster.address))
        told = self.counters()
        self.assertGreaterEqual(told["used_bytes"], 0.98 * 64 * MIB, told)
        self.assertLessEqual(told["closing_bytes"], besides, told)

    def remove_views(self):
        run("rm", "--prefix", "view-", "--master", self.cluster.address)

    def all_back(self, since, within_s):
        """Nothing is open, nothing is waited for; what is used is the objects'."""
        told = {}

        def settled():
            told.update(self.counters())
            return told["objects_writing"] == told["closing_bytes"] == 0

        wait_for(settled, DEADLINE_S)
        took = time.monotonic() - since
        self.assertLess(took, within_s, told)
        rows = run("ls", "--json", "--master", self.cluster.address)[1].splitlines()
        sizes = [json.loads(row)["size"] for row in rows]
        self.assertEqual(told["used_bytes"], sum(sizes), told)  # they are multiples of 4 KiB
        return took

    def end_and_look(self, mode, transport):
        holder = Holder(mode, transport, self.cluster.address)
        try:
            self.remove_views()
            if transport == "any":
                self.assertGreaterEqual(self.counters()["closing_bytes"], VIEWS * MIB)
            time.sleep(random.uniform(0, 0.05))  # any moment of its puts
            began = time.monotonic()
            holder.kill()
            self.all_back(began, GONE_S)
            self.fill(transport)
        finally:
            holder.kill()
            holder.close()

    def test_killed(self):
        for transport in TRANSPORTS * 2:
            with self.subTest(transport):
                self.end_and_look("hold", transport)
        self.cluster.stop()

    def test_killed_while_its_child_lives(self):
        """The child has copies of all descriptors, or would."""
        for transport in TRANSPORTS:
            with self.subTest(transport):
                self.end_and_look("fork", transport)
        self.cluster.stop()

    def test_stopped_and_goes_on(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                self.stop_and_look(transport)
        self.cluster.stop()

    def stop_and_look(self, transport):
        """Its open puts end by their deadlines, its views do not; others have the rest."""
        holder = Holder("hold", transport, self.cluster.address)
        try:
            self.remove_views()
            holder.process.send_signal(signal.SIGSTOP)
            wait_for(lambda: self.counters()["objects_writing"] == 0)
            # Views, and what its two threads may be in the middle of.
            self.fill(transport, besides=(VIEWS + 2 * 4 + 2 * 4) * MIB)
            holder.process.send_signal(signal.SIGCONT)
            holder.process.stdin.write("go\n")
            holder.process.stdin.flush()
            began = time.monotonic()
            self.assertEqual(holder.process.wait(DEADLINE_S), 0)
            self.all_back(began, GONE_S + 2 * SLOW)
            self.fill(transport)
        finally:
            holder.kill()
            holder.close()


if __name__ == "__main__":
    unittest.main()
