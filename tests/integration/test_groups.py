"""Groups, as processes see them that have a member each of every block: while others write, while
the pool evicts, while nodes and masters die."""

import collections
import json
import os
import signal
import subprocess
import tempfile
import unittest

from cluster import BINARY, SLOW, SOURCE, TEST_DEADLINE_S, Case, Folder, Process, run, wait_for

TRACE = os.path.join(SOURCE, "traces", "conversation_trace.jsonl")


def replay(*options, statuses=(0,)):
    status, output, errors = run("replay", TRACE, "--json", *options, timeout=TEST_DEADLINE_S)
    if status not in statuses:
        raise AssertionError(f"exit status {status}: {errors}")
    return json.loads(output)


@unittest.skipIf(SLOW > 1, "many processes of one thread: Stress has the threads")
class Members(Case):
    part = ("--requests", "250", "--block-bytes", "2KiB", "--pool", "5%")

    def test_eviction_leaves_no_part_of_a_group(self):
        whole = replay(*self.part, "--clients", "1")
        grouped = replay(*self.part, "--clients", "1", "--members", "8")
        self.assertEqual(whole["partial_blocks"], 0)
        self.assertEqual(grouped["partial_blocks"], 0)
        self.assertGreater(grouped["evicted_objects"], 0)
        self.assertEqual((grouped["requests"], grouped["blocks"]),
                         (whole["requests"], whole["blocks"]))
        self.assertEqual((grouped["wrong_bytes"], grouped["failed_puts"], grouped["failed_gets"]),
                         (0, 0, 0))
        self.assertAlmostEqual(grouped["hit_ratio"], whole["hit_ratio"], delta=0.01)

    def test_readers_during_puts(self):
        """Two clients of four processes each meet in the same blocks, in a pool that holds few.
        Without groups some blocks are partial, in one of a few tries: it is for processes to meet
        in the wrong moment."""
        options = (*self.part[:-1], "1%", "--clients", "2", "--members", "4")
        partial = 0
        for _ in range(3):
            grouped = replay(*options)
            self.assertEqual((grouped["partial_blocks"], grouped["wrong_bytes"]), (0, 0))
            self.assertGreater(grouped["hit_blocks"], 0)
        for _ in range(10):
            alone = replay(*options, "--groups", "off")
            self.assertEqual(alone["wrong_bytes"], 0)
            partial += alone["partial_blocks"]
            if partial > 0:
                break
        self.assertGreater(partial, 0, "or nothing is shown by 0 of them")

    def test_calls_that_are_wrong(self):
        for options, says in ((("--clients", "16", "--members", "8"), "more than 64 processes"),
                              (("--block-bytes", "4", "--members", "8"), "fewer bytes"),
                              (("--groups", "maybe"), "--groups")):
            with self.subTest(options=options):
                status, _, errors = run("replay", TRACE, *options)
                self.assertEqual(status, 2, errors)
                self.assertIn(says, errors)


class Failures(Case):
    def counters(self, address):
        status, output, _ = run("stat", "--master", address, "--json")
        return json.loads(output) if status == 0 else None

    def test_a_node_dies_and_the_master_restarts(self):
        with Folder() as state:
            master = Process("master", "--listen", "127.0.0.1:0", "--state-dir", state,
                             expect="master")
            address = master.address
            nodes = [Process("node", "--master", address, "--memory", "8MiB", "--slot", "256",
                             expect="ready") for _ in range(2)]
            with tempfile.TemporaryFile() as told:
                replaying = subprocess.Popen(
                    [BINARY, "replay", TRACE, "--json", "--master", address, "--requests", "300",
                     "--clients", "2", "--members", "4", "--block-bytes", "2KiB", "--pace",
                     str(0.04 * SLOW), "--deadline", "2s"], stdout=told, stderr=subprocess.PIPE)
                self.addCleanup(replaying.stderr.close)
                self.addCleanup(replaying.wait)
                self.addCleanup(replaying.kill)
                wait_for(lambda: self.counters(address)["counters"]["objects"] > 4000)
                nodes[0].kill()
                wait_for(lambda: any(node["state"] != "alive"
                                     for node in self.counters(address)["nodes"]))
                master.send(signal.SIGKILL)
                master.process.wait()
                master.close()
                master = Process("master", "--listen", address, "--state-dir", state,
                                 expect="master")
                errors = replaying.stderr.read().decode()
                replaying.wait()
                told.seek(0)
                lines = told.read().splitlines()
                self.assertTrue(lines, errors)
                report = json.loads(lines[-1])
            self.assertEqual((report["partial_blocks"], report["wrong_bytes"]), (0, 0), errors)
            self.assertEqual(report["requests"], 300)
            self.assertGreater(report["hit_blocks"], 0)
            self.assertGreater(self.counters(address)["counters"]["objects"], 0)
            nodes[1].kill()
            master.kill()


class Match(Case):
    def test_which_node_holds_how_much_of_a_chain(self):
        cluster = Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "16MiB",
                          expect="ready")
        at = ("--master", cluster.address)
        for number in range(3):
            self.assertEqual(run("put", f"b{number}", *at, data=b"12345")[0], 0)
        status, output, errors = run("match", "b0", "b1", "b2", "b3", *at, "--json")
        self.assertEqual(status, 1, errors)
        found = json.loads(output)
        node, = found.pop("nodes")
        self.assertEqual(found, {"blocks": 4, "matched": 3, "stop": "NOT_FOUND",
                                 "runs": [{"node": node["node"], "tier": 1, "count": 3}]})
        self.assertEqual((node["leading"], node["blocks"], node["bytes"]), (3, 3, 15))
        status, output, errors = run("match", "b0", "b1", *at)
        self.assertEqual(status, 0, errors)
        self.assertIn(b"2 of 2 blocks", output)
        key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        rules = (*at, "--key-rules", "sglang", "--key-members", "2")
        for part in ("_0_k", "_0_v"):
            self.assertEqual(run("match", key + part, "--groups", *rules)[0], 1)
            self.assertEqual(run("put", key + part, *rules, data=b"12345")[0], 0)
        self.assertEqual(run("match", key, "--groups", *at)[0], 0)
        self.assertEqual(run("match", key + "_0_v", "--groups", *rules)[0], 0)
        self.assertEqual(run("match", "x", *at, "--key-rules", "custom")[0], 2)
        cluster.stop()


class Stress(Case):
    """64 writers of each group, in processes of their own, and readers of the whole, while the pool
    evicts.  SECONDS of TEST_STRESS_SECONDS, for a longer one."""

    seconds = int(os.environ.get("TEST_STRESS_SECONDS", "2" if SLOW == 1 else "6"))
    size, processes = 64, 4

    def setUp(self):
        super().setUp()
        signal.alarm(TEST_DEADLINE_S + self.seconds)

    def test_no_part_of_a_group_is_seen_and_nothing_hangs(self):
        cluster = Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "4MiB", "--slot",
                          "512", expect="ready")
        program = os.path.join(os.environ["TEST_BUILD"], "tests", "group_stress")
        each = self.size // self.processes
        running = [subprocess.Popen(
            [program, cluster.address, str(self.size), str(number * each), str(each),
             "2" if number < 2 else "0", str(self.seconds)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) for number in range(self.processes)]
        total = collections.Counter()
        for process in running:
            output, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            total.update(json.loads(output))
            self.assertEqual(json.loads(output)["failed"], 0, errors)
        self.assertEqual((total["partial"], total["late"]), (0, 0), total)
        self.assertGreater(total["reads"], 0, total)
        self.assertGreater(total["puts"], 10 * self.size, total)

        def counters():
            status, output, errors = run("stat", "--master", cluster.address, "--json")
            self.assertEqual(status, 0, errors)
            return json.loads(output)["counters"]

        self.assertGreater(counters()["evicted_groups"], 0, total)
        # Writers stop where they are; what is half formed then is given up.
        wait_for(lambda: counters()["forming_bytes"] == 0)
        cluster.stop()


if __name__ == "__main__":
    unittest.main()
