"""Copies, moves and drains of real nodes, as operators ask for them; under load."""

import json
import os
import random
import subprocess
import unittest

from cluster import (BINARY, SLOW, SOURCE, TEST_DEADLINE_S, Case, Process, run, wait_for)


class Tasks(Case):
    """A master and three nodes."""

    def setUp(self):
        super().setUp()
        self.head = Process("master", "--listen", "127.0.0.1:0", "--near", "",
                            "--placement", "spread", expect="master")
        self.at = ["--master", self.head.address]
        self.nodes = [self.node(i) for i in range(3)]

    def node(self, i, memory="32MiB"):
        return Process("node", "--master", self.head.address, "--memory", memory,
                       "--name", f"node-{i}", expect="ready")

    def end(self, *nodes):
        for holder in nodes:
            holder.stop()
        self.head.stop()

    def ask(self, *command):
        """-> exit status, the JSON that it printed last, errors"""
        status, output, errors = run(*command, "--json", *self.at)
        lines = output.decode().splitlines()
        return status, json.loads(lines[-1]) if lines else None, errors

    def states(self):
        return {row["name"]: row["state"] for row in self.ask("stat")[1]["nodes"]}

    def used(self):
        return {row["name"]: row["used"] for row in self.ask("stat")[1]["nodes"]}

    def test_copy_move_and_what_is_wrong_with_them(self):
        value = random.Random(1).randbytes(3_000_001)
        self.assertEqual(run("put", "large", *self.at, data=value)[0], 0)
        holder = next(name for name, used in self.used().items() if used > 0)
        others = sorted({"node-0", "node-1", "node-2"} - {holder})
        status, task, errors = self.ask("copy", "large", "--to", others[0])
        self.assertEqual((status, task["state"], task["objects"]), (0, "done", 1), errors)
        listed = self.ask("ls")[1]
        self.assertEqual((listed["key"], listed["copies"]), ("large", 2))
        status, _, errors = self.ask("copy", "large", "--to", others[0])
        self.assertEqual((status, "EXISTS" in errors), (1, True), errors)
        status, _, errors = self.ask("move", "large", "--from", others[1], "--to", holder)
        self.assertEqual((status, "does not lie" in errors), (1, True), errors)
        status, task, errors = self.ask("move", "large", "--from", holder, "--to", others[1])
        self.assertEqual((status, task["key"]), (0, "large"), errors)
        wait_for(lambda: self.used()[holder] == 0)
        for way in ("any", "tcp"):
            self.assertEqual(run("get", "large", "--transport", way, *self.at)[1], value)
        # The copies are two, on two nodes: one may die.
        dead = self.nodes[int(others[0][-1])]
        dead.kill()
        self.assertEqual(run("get", "large", *self.at)[1], value)
        for arguments, expected, text in (
                (["copy", "large"], 2, "--to"),
                (["copy", "no", "--to", holder], 1, "no such object"),
                (["copy", "large", "--to", "nowhere"], 1, "no such node"),
                (["copy", "large", "--from", holder, "--to", holder], 2, "--from"),
                (["drain", "nowhere"], 1, "no such node"), (["task", "stat", "x"], 2, "number"),
                (["drain", holder, "--cancel"], 1, "not being drained"),
                (["task", "stat", "99"], 1, "no such task"), (["task", "more"], 2, "ls")):
            status, _, errors = run(*arguments, *self.at)
            self.assertEqual((status, text in errors), (expected, True), errors)
        self.assertEqual(len(run("task", *self.at)[1].splitlines()), 2)
        self.end(*(holder for holder in self.nodes if holder is not dead))

    def test_a_drain_is_slow_if_told_and_can_be_ended(self):
        for i in range(24):
            run("put", f"key-{i}", *self.at, data=random.Random(i).randbytes(500_000))
        status, task, errors = self.ask("drain", "node-0", "--rate", "100KiB", "--background")
        self.assertEqual(status, 0, errors)
        self.assertEqual(self.states()["node-0"], "draining")
        row = self.ask("task", "stat", task["task"])[1]
        self.assertEqual((row["kind"], row["state"]), ("drain", "running"))
        self.assertGreater(row["left_bytes"], 0)
        run("put", "new", *self.at, data=b"1")
        status, row, errors = self.ask("drain", "node-0", "--cancel")
        self.assertEqual((status, row["state"]), (0, "cancelled"), errors)
        self.assertEqual(self.states()["node-0"], "alive")
        for i in range(24):
            self.assertEqual(run("get", f"key-{i}", *self.at)[1],
                             random.Random(i).randbytes(500_000))
        self.end(*self.nodes)

    def test_a_drain_under_load_fails_no_call(self):
        """A node is emptied while clients put and get, each byte compared; then it ends by itself,
        and a new one takes its place."""
        trace = os.path.join(SOURCE, "traces", "conversation_trace.jsonl")
        load = subprocess.Popen(
            [BINARY, "replay", trace, "--requests", "2500", "--clients", "3", "--block-bytes",
             "4KiB", "--json", *self.at], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(load.kill)
        wait_for(lambda: self.used()["node-1"] > 2 << 20)
        status, task, errors = self.ask("drain", "node-1")
        self.assertIsNone(load.poll(), "the load was over before the drain")
        self.assertEqual((status, task["state"]), (0, "done"), errors)
        self.assertGreater(task["objects"], 100)
        self.assertEqual(self.nodes[1].process.wait(timeout=20 * SLOW), 0)
        self.assertNotIn("error", self.nodes[1].errors())
        self.nodes[1].close()
        self.nodes[1] = self.node(1)
        output, errors = load.communicate(timeout=TEST_DEADLINE_S)
        self.assertEqual(load.returncode, 0, errors.decode())
        report = json.loads(output)
        self.assertEqual((report["wrong_bytes"], report["failed_puts"], report["failed_gets"]),
                         (0, 0, 0))
        self.assertGreater(report["hit_blocks"], 0)
        self.end(*self.nodes)


if __name__ == "__main__":
    unittest.main()
