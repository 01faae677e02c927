"""What people and services see of real processes: commands, restarts, kills, pauses, bad input."""

import json
import os
import random
import signal
import socket
import tempfile
import time
import unittest
import xml.etree.ElementTree

from cluster import SLOW, SOURCE, TEST_DEADLINE_S, Case, Folder, Process, run, wait_for


def dev(*more):
    return Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "64MiB", *more,
                   expect="ready")


def master(state_dir, listen="127.0.0.1:0", *more):
    return Process("master", "--listen", listen, "--state-dir", state_dir, *more, expect="master")


def node(address, *more, memory="32MiB"):
    return Process("node", "--master", address, "--memory", memory, *more, expect="ready")


class Commands(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = dev()
        cls.at = ["--master", cls.cluster.address]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def test_values_come_back_as_they_were(self):
        for size in (0, 1, 255, 4096, 4097, 3 * 1024 * 1024 + 5):
            value = random.Random(size).randbytes(size)
            self.assertEqual(run("put", f"size-{size}", *self.at, data=value)[0], 0)
            status, output, _ = run("get", f"size-{size}", *self.at)
            self.assertEqual((status, output == value), (0, True), size)

    def test_files_both_ways(self):
        with Folder() as folder:
            source = os.path.join(SOURCE, "README.md")
            target = os.path.join(folder, "out")
            self.assertEqual(run("put", "file", source, *self.at)[0], 0)
            self.assertEqual(run("get", "file", target, *self.at)[0], 0)
            with open(source, "rb") as a, open(target, "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_a_key_that_exists_stays_unless_replaced(self):
        run("put", "twice", *self.at, data=b"first")
        status, _, errors = run("put", "twice", *self.at, data=b"second")
        self.assertEqual(status, 0)
        self.assertIn("already", errors)
        self.assertEqual(run("get", "twice", *self.at)[1], b"first")
        self.assertEqual(run("put", "twice", "--replace", *self.at, data=b"third")[0], 0)
        self.assertEqual(run("get", "twice", *self.at)[1], b"third")

    def test_exists_ls_stat_rm(self):
        run("put", "list/a", *self.at, data=b"abc")
        run("put", "list/b", *self.at, data=b"abcd")
        self.assertEqual(run("exists", "list/a", "list/b", *self.at)[0], 0)
        status, output, _ = run("exists", "list/a", "nothing", "--json", *self.at)
        self.assertEqual(status, 1)
        self.assertEqual([row["exists"] for row in json.loads(output)], [True, False])
        rows = [json.loads(line) for line in run("ls", "list/", "--json", *self.at)[1].splitlines()]
        self.assertEqual(sorted((row["key"], row["size"]) for row in rows),
                         [("list/a", 3), ("list/b", 4)])
        self.assertEqual(json.loads(run("stat", "list/a", "--json", *self.at)[1])["size"], 3)
        stat = json.loads(run("stat", "--json", *self.at)[1])
        self.assertEqual(stat["nodes"][0]["state"], "alive")
        self.assertGreaterEqual(stat["counters"]["objects"], 2)
        curve = json.loads(run("stat", "--curve", "--json", *self.at)[1])
        self.assertEqual([point["times"] for point in curve], [0.5, 1, 2, 4])
        self.assertTrue(all(0 <= point["hit_ratio"] <= 1 for point in curve))
        self.assertIn(b"4 x", run("stat", "--curve", *self.at)[1])
        status, _, errors = run("stat", "list/a", "--curve", *self.at)
        self.assertEqual(status, 2)
        self.assertIn("--curve", errors)
        self.assertEqual(run("rm", "list/a", *self.at)[0], 0)
        status, _, errors = run("rm", "list/a", *self.at)
        self.assertEqual(status, 1)
        self.assertIn("NOT_FOUND", errors)
        status, output, _ = run("rm", "--prefix", "list/", "--json", *self.at)
        self.assertEqual(json.loads(output)["removed"], 1)

    def test_groups(self):
        put = ["--group", "g", "--group-size", "2"]
        self.assertEqual(run("put", "g/k", *put, *self.at, data=b"k")[0], 0)
        info = json.loads(run("group", "stat", "g", "--json", *self.at)[1])
        self.assertEqual((info["state"], info["present"]), ("forming", 1))
        self.assertEqual(run("put", "g/v", *put, *self.at, data=b"v")[0], 0)
        rows = [json.loads(line)
                for line in run("group", "ls", "g", "--json", *self.at)[1].splitlines()]
        self.assertEqual([(row["group"], row["state"]) for row in rows], [("g", "complete")])
        status, _, errors = run("put", "x", "--group", "g", "--group-size", "3", *self.at, data=b"")
        self.assertEqual(status, 1)
        self.assertIn("GROUP_SIZE_MISMATCH", errors)
        by_key = json.loads(run("group", "stat", "g/v", "--by-key", "--json", *self.at)[1])
        self.assertEqual((by_key["group"], by_key["state"]), ("g", "complete"))
        object_row = json.loads(run("stat", "g/v", "--json", *self.at)[1])
        self.assertEqual(object_row["group"]["group"], "g")
        self.assertIn(b"g: complete, 2 of 2 members", run("stat", "g/v", *self.at)[1])
        run("put", "wide", "--group", "w", "--group-size", "100", "--group-index", "70",
            "--no-offload", *self.at, data=b"1")
        wide = json.loads(run("group", "stat", "w", "--json", *self.at)[1])
        self.assertEqual(wide["missing"], [i for i in range(100) if i != 70])
        self.assertTrue(wide["no_offload"])
        text = run("group", "stat", "w", *self.at)[1].decode()
        self.assertEqual(text.splitlines()[1],
                         "  missing " + ", ".join(str(i) for i in range(100) if i != 70))
        elsewhere = run("put", "g/v", "--group", "w", "--group-size", "100", *self.at, data=b"")
        self.assertIn("but not in that group", elsewhere[2])
        self.assertEqual(run("group", "rm", "g", *self.at)[0], 0)
        self.assertEqual(run("exists", "g/k", *self.at)[0], 1)
        status, _, errors = run("group", "stat", "g", *self.at)
        self.assertEqual(status, 1)
        self.assertIn("no such group", errors)
        for options in (["g/k", "--with-group"], ["g/k", "--prefix", "--with-group"]):
            with self.subTest(options=options):
                for key in ("g/k", "g/v"):
                    self.assertEqual(run("put", key, *put, *self.at, data=b"1")[0], 0)
                self.assertEqual(run("rm", *options, *self.at)[0], 0)
                self.assertEqual(run("exists", "g/v", *self.at)[0], 1)
        status, _, errors = run("group", "list", *self.at)
        self.assertEqual(status, 2)
        self.assertIn("stat, ls or rm", errors)

    def test_patterns(self):
        for key in ("rx-1", "rx-2", "rx-x"):
            run("put", key, *self.at, data=b"1")
        output = run("rm", "--regex", "^rx-[0-9]$", "--json", *self.at)[1]
        self.assertEqual(json.loads(output)["removed"], 2)
        self.assertEqual(run("exists", "rx-x", *self.at)[0], 0)
        status, _, errors = run("rm", "--regex", "(", *self.at)
        self.assertEqual(status, 2)
        self.assertIn("(", errors)

    def test_json_of_every_command(self):
        def row(*arguments, status=0, **more):
            code, output, errors = run(*arguments, "--json", *self.at, **more)
            self.assertEqual(code, status, errors)
            return json.loads(output)

        self.assertEqual(row("put", "json/a", data=b"abc"),
                         {"key": "json/a", "status": "OK", "copies_missing": 0,
                          "elsewhere": False})
        self.assertEqual(row("put", "json/a", data=b"abc")["status"], "EXISTS")
        self.assertEqual(row("put", "json/b", "--copies", "2", data=b"1")["copies_missing"], 1)
        with Folder() as folder:
            self.assertEqual(row("get", "json/a", os.path.join(folder, "out")),
                             {"key": "json/a", "status": "OK", "size": 3})
        self.assertEqual(row("pin", "json/a", "--pin", "soft", "--pin-for", "1s"),
                         [{"key": "json/a", "status": "OK"}])
        self.assertEqual(row("rm", "json/a", "json/no", status=1),
                         [{"key": "json/a", "status": "OK"},
                          {"key": "json/no", "status": "NOT_FOUND"}])

    def test_a_key_that_is_no_text(self):
        key = b"no\xff\xfetext"
        self.assertEqual(run("put", os.fsdecode(key), *self.at, data=b"abc")[0], 0)
        self.assertEqual(run("get", os.fsdecode(key), *self.at)[1], b"abc")
        for command in (("ls", b"no\xff"), ("stat", key)):
            row = json.loads(run(*map(os.fsdecode, command), "--json", *self.at)[1])
            self.assertEqual((row["key"], bytes.fromhex(row["key_hex"])), (None, key))

    def test_pins(self):
        run("put", "pinned", *self.at, data=b"1")
        self.assertEqual(run("pin", "pinned", "--pin", "hard", *self.at)[0], 0)
        self.assertEqual(json.loads(run("stat", "pinned", "--json", *self.at)[1])["pin"], "hard")
        self.assertEqual(run("pin", "pinned", "--pin", "none", *self.at)[0], 0)
        self.assertEqual(json.loads(run("stat", "pinned", "--json", *self.at)[1])["pin"], "none")


class BadInput(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = dev()
        cls.at = ["--master", cls.cluster.address]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def refused(self, *arguments, says, status=(1, 2), **more):
        code, _, errors = run(*arguments, **more)
        self.assertIn(code, status, errors)
        self.assertIn(says, errors)

    def test_options(self):
        self.refused("dev", "--memry", "1GiB", says="memry", status=(2,))
        self.refused("dev", "--memory", "lots", says="memory", status=(2,))
        self.refused("dev", "--memory", "1", says="memory", status=(2,))
        self.refused("dev", says="SNOWSKIN_MEMRY", env={"SNOWSKIN_MEMRY": "1GiB"}, status=(2,))
        self.refused("nosuch", says="nosuch", status=(2,))
        self.refused("put", says="KEY", status=(2,))
        self.refused("get", "x", "--all", *self.at, says="all", status=(2,))
        self.refused("ls", "--config", says="--config: a value must follow", status=(2,))
        self.refused("dev", "--token", "x", says="master_token or node_token", status=(2,))

    def test_congestion_controls_that_the_kernel_does_not_give(self):
        for command in (("node",), ("ls",)):
            with self.subTest(command=command):
                status, _, errors = run(*command, "--congestion", "lightspeed")
                self.assertEqual(status, 2, errors)
                self.assertIn("congestion", errors)

    def test_calls_that_mean_nothing_or_too_much(self):
        run("put", "stays", *self.at, data=b"1")
        self.refused("rm", "--prefix", "", *self.at, says="--all", status=(2,))
        self.refused("rm", "--regex", "", *self.at, says="--all", status=(2,))
        self.assertEqual(run("exists", "stays", *self.at)[0], 0)
        self.refused("pin", "stays", *self.at, says="--pin soft", status=(2,))
        self.refused("pin", "stays", "--pin", "hard", "--pin-for", "1s", *self.at, says="--pin-for",
                     status=(2,))
        self.refused("get", "stays", "--json", *self.at, says="FILE", status=(2,))
        for at in ("127.0.0.1", ":7600", "127.0.0.1:99999"):
            self.refused("ls", "--master", at, says=f"--master {at}", status=(2,))

    def test_files(self):
        with Folder() as folder:
            self.refused("put", "x", folder, *self.at, says="Is a directory", status=(1,))
            self.refused("put", "x", folder + "/no", *self.at, says=folder + "/no", status=(1,))
            self.refused("replay", folder, says=folder + ": can not be read", status=(1,))
            self.refused("ls", "--config", folder, says=folder, status=(2,))
            self.refused("get", "x", folder, *self.at, says="NOT_FOUND", status=(1,))

    def test_what_a_service_can_not_have(self):
        at = ("--master-listen", "127.0.0.1:0")
        taken = self.cluster.address
        self.refused("master", "--listen", taken, says=taken, status=(1,))
        self.refused("dev", "--state-dir", "/proc/x", *at, says="/proc/x", status=(1,))
        self.refused("dev", "--segment-dir", "/proc/x", *at, says="/proc/x", status=(1,))
        self.refused("dev", "--memory", "1TiB", *at, says="1.0 TiB", status=(1,))
        self.refused("dev", "--lease-min", "2s", "--lease-max", "1s", *at, says="--lease-min",
                     status=(2,))
        self.refused("master", "--suspect-after", "5s", "--dead-after", "5s", says="--dead-after",
                     status=(2,))
        self.refused("node", "--master", "nowhere", says="nowhere", status=(1,))

    def test_how_a_replay_is_to_go(self):
        trace = os.path.join(SOURCE, "traces", "synthetic_trace.jsonl")
        for pool in ("0%", "-5%", "1001%", "5", "x"):
            self.refused("replay", trace, "--pool", pool, says=f"--pool {pool}", status=(2,))
        self.refused("replay", trace, "--block-bytes", "0", says="block", status=(2,))
        self.refused("replay", trace, "--pace", "-1", says="--pace -1", status=(2,))
        self.refused("replay", trace, "--pool", "100TiB", "--requests", "1", says="--pool 100TiB",
                     status=(1,))
        self.refused("replay", trace, "--master", "127.0.0.1:1", "--deadline", "500ms",
                     says="127.0.0.1:1", status=(1,))

    def test_configuration_file(self):
        with Folder() as folder:
            path = os.path.join(folder, "snowskin.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("cli:\n  master: " + self.cluster.address + "\n")
            self.assertEqual(run("put", "from-file", "--config", path, data=b"1")[0], 0)
            with open(path, "w", encoding="utf-8") as file:
                file.write("cli:\n  mastr: x\n")
            self.refused("ls", "--config", path, says="mastr", status=(2,))
        self.refused("ls", "--config", "/nosuch/file", says="/nosuch/file", status=(2,))

    def test_keys(self):
        for command in ("put", "get", "exists", "stat", "rm"):
            for key in ("", "k" * 4097):
                self.refused(command, key, *self.at, says="1 to 4096 bytes", status=(2,))
        self.assertEqual(run("put", "k" * 4096, *self.at, data=b"long")[0], 0)
        self.assertEqual(run("get", "k" * 4096, *self.at)[1], b"long")

    def test_larger_than_the_pool(self):
        self.refused("put", "large", *self.at, says="NO_SPACE", data=bytes(80 * 1024 * 1024))

    def test_unreachable_master(self):
        began = time.monotonic()
        self.refused("get", "x", "--master", "127.0.0.1:1", "--deadline", "1s", says="127.0.0.1:1")
        self.assertLess(time.monotonic() - began, 3 * SLOW)

    def test_traces(self):
        with Folder() as folder:
            path = os.path.join(folder, "trace.jsonl")
            good = '{"timestamp": 0, "hash_ids": [1, 2]}\n'
            for text, line in ((good + '{"timestamp": 0, "hash_ids": [1,', "line 2"),
                               (good + good + '{"timestamp": 0}\n', "line 3"),
                               ('{"timestamp": "x", "hash_ids": [1]}\n', "line 1"),
                               ('{"timestamp": 0, "hash_ids": [-1]}\n', "line 1"),
                               ("", "line 1")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused("replay", path, says=line, status=(1,))
        self.refused("replay", "/nosuch/trace", says="/nosuch/trace", status=(1,))

    def test_random_bytes_on_every_socket(self):
        addresses = [self.cluster.address, self.cluster.lines["node"].split()[0]]
        generator = random.Random(7)
        for address in addresses:
            host, _, port = address.rpartition(":")
            for _ in range(30):
                with socket.create_connection((host, int(port)), timeout=5) as peer:
                    try:
                        peer.sendall(generator.randbytes(generator.randrange(1, 5000)))
                        peer.shutdown(socket.SHUT_WR)
                        while peer.recv(4096):
                            pass
                    except OSError:
                        pass
        self.assertEqual(run("put", "after-noise", *self.at, data=b"1")[0], 0)
        self.assertEqual(run("get", "after-noise", *self.at)[1], b"1")


class Restarts(Case):
    def test_the_master_is_killed(self):
        with Folder() as folder:
            first = master(folder + "/state")
            at = ["--master", first.address]
            holder = node(first.address)
            for i in range(20):
                self.assertEqual(run("put", f"key-{i}", *at, data=str(i).encode())[0], 0)
            self.assertEqual(run("rm", "key-0", *at)[0], 0)
            address = first.address
            first.kill()
            second = master(folder + "/state", address)
            for i in range(1, 20):
                self.assertEqual(run("get", f"key-{i}", *at)[1], str(i).encode(), i)
            self.assertEqual(run("get", "key-0", *at)[0], 1)
            self.assertEqual(run("put", "after", *at, data=b"1")[0], 0)
            holder.stop()
            second.stop()

    def test_a_node_is_killed_and_keeps_its_memory(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address]
            holder = node(head.address, "--segment-dir", folder + "/segments")
            for i in range(20):
                self.assertEqual(run("put", f"key-{i}", *at, data=bytes([i]) * 70000)[0], 0)
            holder.kill()
            holder = node(head.address, "--segment-dir", folder + "/segments")
            for i in range(20):
                wait_for(lambda i=i: run("get", f"key-{i}", *at)[1] == bytes([i]) * 70000, 10)
            holder.stop()
            head.stop()

    def test_two_masters_of_one_state_folder(self):
        with Folder() as folder:
            head = master(folder + "/state")
            status, _, errors = run("master", "--listen", "127.0.0.1:0", "--state-dir",
                                    folder + "/state")
            self.assertEqual(status, 1)
            self.assertIn("another master uses the state folder", errors)
            self.assertIn(folder, errors)
            head.stop()

    def test_a_paused_node_costs_one_deadline(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address, "--deadline", "3s"]
            holder = node(head.address)
            self.assertEqual(run("put", "key", *at, data=b"value")[0], 0)
            holder.pause()
            began = time.monotonic()
            status, output, _ = run("get", "key", *at)
            self.assertLess(time.monotonic() - began, 5 * SLOW)
            self.assertEqual((status, output), (1, b""))
            holder.resume()
            wait_for(lambda: run("get", "key", *at)[1] == b"value", 20)
            holder.stop()
            head.stop()

    def test_copies_on_two_nodes_survive_one(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address]
            nodes = [node(head.address), node(head.address)]
            self.assertEqual(run("put", "key", "--copies", "2", *at, data=b"both")[0], 0)
            nodes[0].kill()
            self.assertEqual(run("get", "key", *at)[1], b"both")
            nodes[1].stop()
            head.stop()

    def test_tokens(self):
        cluster = dev("--master-token", "secret")
        status, _, errors = run("ls", "--master", cluster.address)
        self.assertEqual(status, 1)
        self.assertIn("token", errors)
        self.assertEqual(run("ls", "--master", cluster.address, "--token", "secret")[0], 0)
        cluster.stop()

    def test_a_node_says_why_it_is_not_mounted(self):
        cluster = dev("--master-token", "secret")
        for address, *more, reason in ((cluster.address, "--token", "guess", "token differs"),
                                       ("127.0.0.1:1", "UNREACHABLE")):
            holder = Process("node", "--master", address, "--memory", "1MiB", *more, expect="node")
            wait_for(lambda holder=holder, reason=reason: reason in holder.errors(), 10)
            holder.stop()
        cluster.stop()

    def test_a_second_signal_ends_at_once(self):
        cluster = dev()
        cluster.pause()
        cluster.send(signal.SIGTERM)
        cluster.send(signal.SIGINT)
        cluster.resume()
        began = time.monotonic()
        cluster.process.wait(timeout=5)
        self.assertLess(time.monotonic() - began, 2 * SLOW)
        cluster.close()


class Growth(Case):
    @staticmethod
    def committed(process):
        """Bytes of the process's anonymous shared memory that really are there."""
        folder = f"/proc/{process.process.pid}/fd"
        held = 0
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            try:
                if os.readlink(path).startswith("/memfd:"):
                    held += os.stat(path).st_blocks * 512
            except FileNotFoundError:
                pass
        return held

    @staticmethod
    def counters(at):
        return json.loads(run("stat", "--json", *at)[1])["counters"]

    def test_two_large_nodes_open_at_once_and_take_what_is_put(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address]
            nodes = [node(head.address, "--populate", "ahead", memory="3GiB") for _ in range(2)]
            counters = self.counters(at)
            self.assertEqual(counters["pool_bytes"], 2 * 3 * 1024 ** 3)
            for holder in nodes:
                self.assertLess(self.committed(holder), 16 << 20)
            values = {}
            for i in range(8):  # each of them is larger than the first step
                values[f"large-{i}"] = random.Random(i).randbytes((5 << 20) + i)
                status, _, errors = run("put", f"large-{i}", *at, data=values[f"large-{i}"])
                self.assertEqual(status, 0, errors)
            for key, value in values.items():
                self.assertEqual(run("get", key, *at)[1], value)
            counters = self.counters(at)
            self.assertEqual((counters["evicted_objects"], counters["offers_shrunk"]), (0, 0))
            self.assertGreater(counters["grown_bytes"], 30 << 20)
            held = sum(map(self.committed, nodes))
            self.assertLess(held, 256 << 20)
            self.assertGreater(held, 8 * (5 << 20))
            for holder in nodes:
                holder.stop()
            head.stop()

    def test_all_of_it_is_committed_behind_the_work(self):
        cluster = dev("--populate-step", "1MiB")
        at = ["--master", cluster.address]
        self.assertEqual(run("put", "key", *at, data=b"value")[0], 0)
        wait_for(lambda: self.counters(at)["ready_bytes"] == 64 << 20)
        self.assertGreater(self.committed(cluster), 64 << 20)
        self.assertEqual(run("get", "key", *at)[1], b"value")
        cluster.stop()

    def test_a_node_that_grew_comes_back_as_far_as_it_was(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address]
            more = ("--segment-dir", folder + "/segments", "--populate", "ahead",
                    "--populate-step", "64KiB")
            holder = node(head.address, *more, memory="64MiB")
            value = random.Random(1).randbytes(7 << 20)
            self.assertEqual(run("put", "key", *at, data=value)[0], 0)
            before = self.counters(at)["ready_bytes"]
            self.assertLess(before, 64 << 20)
            holder.kill()
            holder = node(head.address, *more, memory="64MiB")
            wait_for(lambda: run("get", "key", *at)[1] == value, 10)
            self.assertGreaterEqual(self.counters(at)["ready_bytes"], before)
            self.assertLess(self.counters(at)["ready_bytes"], 64 << 20)
            holder.stop()
            head.stop()


class Copies(Case):
    """Three nodes, two copies of everything: one of them dies, or hangs."""

    KEYS = 24
    DEADLINE_MS = 4000

    def setUp(self):
        super().setUp()
        self.folder = Folder()
        path = self.folder.__enter__()
        self.addCleanup(self.folder.__exit__)
        self.head = master(path + "/state", "127.0.0.1:0", "--placement", "spread")
        self.at = ["--master", self.head.address, "--deadline", f"{self.DEADLINE_MS}ms"]
        self.nodes = [node(self.head.address) for _ in range(3)]
        for i in range(self.KEYS):
            status, output, errors = run("put", f"key-{i}", "--copies", "2", "--json", *self.at,
                                         data=self.value(i))
            self.assertEqual((status, json.loads(output)["copies_missing"]), (0, 0), errors)

    @staticmethod
    def value(i):
        return random.Random(i).randbytes(1000 + 7000 * i)

    def read_all(self, most_s):
        """Every value is exactly there, and no call waits longer than for one time-out."""
        for i in range(self.KEYS):
            began = time.monotonic()
            status, output, errors = run("get", f"key-{i}", *self.at)
            took = time.monotonic() - began
            self.assertEqual((status, output == self.value(i)), (0, True), errors)
            self.assertLess(took, most_s * SLOW, f"key-{i}")

    def states(self):
        rows = json.loads(run("stat", "--json", *self.at)[1])["nodes"]
        return sorted(row["state"] for row in rows)

    def end(self, nodes):
        for holder in nodes:
            holder.stop()
        self.head.stop()

    def test_one_of_three_is_killed(self):
        self.nodes[1].kill()
        self.read_all(1.0)
        wait_for(lambda: self.states() == ["alive", "alive", "suspect"])
        self.read_all(1.0)
        status, output, _ = run("put", "new", "--copies", "3", "--json", *self.at, data=b"1")
        self.assertEqual((status, json.loads(output)["copies_missing"]), (0, 1))
        self.end([self.nodes[0], self.nodes[2]])

    def test_one_of_three_hangs(self):
        self.nodes[1].pause()
        # A client of its own each: all of them pay, but one time-out: a quarter of the deadline.
        self.read_all(2 * self.DEADLINE_MS / 4000)
        wait_for(lambda: self.states() == ["alive", "alive", "suspect"])
        self.read_all(0.7)  # the master says where not to go first
        began = time.monotonic()
        status, output, errors = run("put", "key-0", "--replace", "--copies", "2", "--json",
                                     *self.at, data=b"new")
        self.assertEqual(status, 0, errors)
        removed = [f"key-{i}" for i in range(1, 15)]
        rows = json.loads(run("rm", *removed, "--json", *self.at)[1])
        # What the silent node has of them is uncertain, and is said at once.
        self.assertEqual({row["status"] for row in rows}, {"OK", "UNCERTAIN"})
        self.assertLess(time.monotonic() - began, 2 * SLOW)
        self.nodes[1].resume()
        wait_for(lambda: self.states() == ["alive", "alive", "alive"])
        self.assertEqual(run("get", "key-0", *self.at)[1], b"new")
        for key in removed:
            self.assertEqual(run("get", key, *self.at)[0], 1, key)
        self.end(self.nodes)

    def test_what_only_a_silent_node_has_is_absent_until_it_returns(self):
        run("put", "alone", *self.at, data=b"1")
        holders = json.loads(run("stat", "--json", *self.at)[1])
        self.assertEqual(len(holders["nodes"]), 3)
        for holder in self.nodes:
            holder.pause()
        wait_for(lambda: self.states() == ["suspect"] * 3)
        began = time.monotonic()
        self.assertEqual(run("exists", "alone", *self.at)[0], 1)
        self.assertEqual(run("get", "alone", *self.at)[0], 1)
        self.assertLess(time.monotonic() - began, 1.5 * SLOW)
        for holder in self.nodes:
            holder.resume()
        wait_for(lambda: run("get", "alone", *self.at)[1] == b"1")
        self.end(self.nodes)


class Large(Case):
    def test_an_object_larger_than_any_node(self):
        with Folder() as folder:
            head = master(folder + "/state")
            at = ["--master", head.address]
            nodes = [node(head.address, memory="64MiB") for _ in range(3)]
            value = random.Random(5).randbytes(140 * 1000 * 1000 + 1)
            status, _, errors = run("put", "large", *at, data=value)
            self.assertEqual(status, 0, errors)
            status, output, errors = run("get", "large", *at)
            self.assertEqual((status, output == value), (0, True), errors)
            stat = json.loads(run("stat", "--json", *at)[1])
            self.assertTrue(all(row["used"] > 10 << 20 for row in stat["nodes"]), stat["nodes"])
            for holder in nodes:
                holder.stop()
            head.stop()

    def test_copies_go_to_different_domains(self):
        with Folder() as folder:
            head = master(folder + "/state", "127.0.0.1:0", "--placement", "spread")
            at = ["--master", head.address]
            # All of them on one host: it is the same for everybody, and the domains decide nothing.
            nodes = [node(head.address, "--domain", domain) for domain in ("a", "a", "b")]
            for i in range(6):
                status, output, errors = run("put", f"key-{i}", "--copies", "3", "--json", *at,
                                             data=bytes([i]) * 5000)
                self.assertEqual((status, json.loads(output)["copies_missing"]), (0, 0), errors)
            counters = json.loads(run("stat", "--json", *at)[1])["counters"]
            self.assertEqual(counters["copies_near"], 12)
            for holder in nodes:
                holder.stop()
            head.stop()

    def test_free_space_is_usable_space(self):
        cluster = dev("--reserve", "4KiB")
        at = ["--master", cluster.address]
        with Folder() as folder:
            path = os.path.join(folder, "value")
            value = random.Random(6).randbytes(512 * 1024)
            with open(path, "wb") as file:
                file.write(value)
            for i in range(120):
                self.assertEqual(run("put", f"page-{i}", path, *at)[0], 0)
        odd = [f"page-{i}" for i in range(1, 120, 2)]
        self.assertEqual(run("rm", *odd, *at)[0], 0)
        value = random.Random(7).randbytes(14 << 20)  # no free run is larger than 4.5 MiB
        status, _, errors = run("put", "large", *at, data=value)
        self.assertEqual(status, 0, errors)
        self.assertEqual(run("get", "large", *at)[1], value)
        counters = json.loads(run("stat", "--json", *at)[1])["counters"]
        self.assertEqual(counters["evicted_objects"], 0)
        self.assertEqual(run("get", "page-0", *at)[0], 0)
        cluster.stop()


class Replay(Case):
    fields = {"requests", "blocks", "hit_blocks", "partial_blocks", "hit_ratio",
              "infinite_hit_ratio", "wrong_bytes", "failed_puts", "failed_gets", "evicted_objects",
              "puts_waited", "leases_broken", "put_bytes", "get_bytes", "wall_s", "put_us",
              "get_us"}

    def test_a_part_of_the_trace(self):
        trace = os.path.join(SOURCE, "traces", "conversation_trace.jsonl")
        status, output, errors = run("replay", trace, "--requests", "400", "--clients", "3",
                                     "--pool", "5%", "--block-bytes", "4KiB", "--json",
                                     timeout=TEST_DEADLINE_S)
        self.assertEqual(status, 0, errors)
        report = json.loads(output)
        self.assertEqual(set(report), self.fields)
        self.assertEqual(report["requests"], 400)
        self.assertEqual((report["wrong_bytes"], report["failed_puts"], report["failed_gets"]),
                         (0, 0, 0))
        self.assertGreater(report["evicted_objects"], 0)
        self.assertGreater(report["hit_ratio"], 0)
        self.assertEqual(set(report["put_us"]), {"p50", "p90", "p99", "p999"})

    def test_a_plot(self):
        trace = os.path.join(SOURCE, "traces", "synthetic_trace.jsonl")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plot.svg")
            status, _, errors = run("replay", trace, "--requests", "150", "--pool", "10%",
                                    "--plot", path, timeout=TEST_DEADLINE_S)
            self.assertEqual(status, 0, errors)
            root = xml.etree.ElementTree.parse(path).getroot()
            lines = {line.get("class"): line.get("points").split()
                     for line in reversed(root.findall("{*}polyline"))}
            self.assertEqual(set(lines), {"hits", "get", "put"})
            self.assertGreater(len(lines["hits"]), 1)
            self.assertIn("requests of the trace", [text.text for text in root.findall("{*}text")])
            status, _, errors = run("replay", trace, "--requests", "2", "--plot",
                                    os.path.join(folder, "no", "plot.svg"))
            self.assertEqual(status, 1, errors)
            self.assertIn("--plot", errors)

    def test_a_pool_without_pressure_lets_no_put_wait(self):
        trace = os.path.join(SOURCE, "traces", "synthetic_trace.jsonl")
        status, output, errors = run("replay", trace, "--requests", "20", "--pool", "200%",
                                     "--json", env={"SNOWSKIN_TOKEN": "secret"},
                                     timeout=TEST_DEADLINE_S)
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(output)["puts_waited"], 0)

    def test_against_a_running_cluster(self):
        cluster = dev("--master-token", "secret")
        trace = os.path.join(SOURCE, "traces", "synthetic_trace.jsonl")
        evicted = []
        for requests in (150, 1):
            status, output, errors = run(
                "replay", trace, "--requests", requests, "--clients", "2", "--block-bytes", "32KiB",
                "--master", cluster.address, "--token", "secret", "--json", timeout=TEST_DEADLINE_S)
            self.assertEqual(status, 0, errors)
            evicted.append(json.loads(output)["evicted_objects"])
        self.assertGreater(evicted[0], 1000)
        self.assertLess(evicted[1], evicted[0], "what an earlier replay evicted counts again")
        cluster.stop()


if __name__ == "__main__":
    unittest.main()
