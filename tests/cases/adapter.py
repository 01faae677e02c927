"""The store that the cases try: Snowskin, by its binary and its Python package.

For another store write this file anew; the cases know nothing else.  Answers have a form of their
own, so that a case can tell a miss from an error: see `Answer`.
"""

import os
import pathlib
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("TEST_SOURCE", str(ROOT))
os.environ.setdefault("TEST_BINARY", str(ROOT / "build/release/snowskin"))
sys.path.insert(0, str(ROOT / "tests/integration"))

import cluster  # noqa: E402
import snowskin  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
CALL_DEADLINE_S = 5
TRANSPORT = os.environ.get("CASES_TRANSPORT", "tcp")
HANG_S = 6  # a call that takes longer fails the case
HAS_DISK_TIER = False
# What an object costs beside its bytes: extents are multiples of 4 KiB, or of 256 bytes.
OBJECT_OVERHEAD = 4096


class Hang(AssertionError):
    """A call took longer than it may."""


class Answer(typing.NamedTuple):
    """OK, EXISTS, NO_SPACE, BYTES (value: the bytes, or of get_into how many), MISS, YES, NO, BUSY,
    ERR (value: the error)."""

    what: str
    value: typing.Any = None

    def __repr__(self):
        if isinstance(self.value, bytes):
            return "%s(%d)" % (self.what, len(self.value))
        return self.what if self.value is None else "%s(%s)" % (self.what, self.value)


OK, EXISTS, NO_SPACE = Answer("OK"), Answer("EXISTS"), Answer("NO_SPACE")
MISS, YES, NO, BUSY = Answer("MISS"), Answer("YES"), Answer("NO"), Answer("BUSY")


# Counters that tell bytes of the present.
BYTES_NOW = ("pool_bytes", "ready_bytes", "used_bytes", "free_bytes", "closing_bytes",
             "silent_bytes", "leased_bytes", "hard_pinned_bytes")


class Stats(typing.NamedTuple):
    used: int
    capacity: int
    keys: int
    disk: int


class Accounts(typing.NamedTuple):
    """What has to add up.  Bytes; `silent`: of nodes that are out of reach and may return;
    `writing`: open writes; `node_used`, `sizes`: of each other node, of each object."""

    capacity: int
    ready: int
    used: int
    free: int
    closing: int
    silent: int
    writing: int
    keys: int
    node_used: list
    sizes: list


def failed(error):
    if isinstance(error, snowskin.NoSpaceError):
        return NO_SPACE
    if isinstance(error, snowskin.InUseError):
        return BUSY
    return Answer("ERR", error)


def answer(result, meaning):
    return failed(result) if isinstance(result, snowskin.Error) else meaning(result)


def of_put(stored):
    return OK if stored else EXISTS


def of_get(got):
    return MISS if got is None else Answer("BYTES", got)


def of_exist(there):
    return YES if there else NO


def of_remove(removed):
    return OK if removed else MISS


class Client:
    """Calls of one process, which gives so many bytes to the pool.  `slowest_s`: the longest that
    one took."""

    def __init__(self, address, deadline_s=CALL_DEADLINE_S, contribute=0):
        segment = {} if contribute == 0 else {
            "segment_size": contribute, "segment_listen": address.rpartition(":")[0] + ":0"}
        self.store = snowskin.Store(address, timeout=deadline_s, transport=TRANSPORT, **segment)
        self.hang_s = deadline_s * HANG_S / CALL_DEADLINE_S
        self.slowest_s = 0

    def call(self, function, *arguments):
        began = time.monotonic()
        try:
            return function(*arguments)
        except snowskin.Error as error:
            return error
        finally:
            took = time.monotonic() - began
            self.slowest_s = max(self.slowest_s, took)
            if took > self.hang_s:
                raise Hang("%s took %.1f s" % (function.__name__, took))

    def put(self, key, value):
        return answer(self.call(self.store.put, key, value), of_put)

    def get(self, key):
        return answer(self.call(self.store.get, key), of_get)

    def get_into(self, key, buffer):
        return answer(self.call(self.store.get_into, key, buffer), of_get)

    def exist(self, key):
        return answer(self.call(self.store.exists, key), of_exist)

    def remove(self, key):
        return answer(self.call(self.store.remove, key), of_remove)

    def many(self, function, meaning, keys, *more):
        results = self.call(function, keys, *more)
        if isinstance(results, snowskin.Error):
            return [failed(results)] * len(keys)
        return [answer(result, meaning) for result in results]

    def batch_put(self, keys, values):
        return self.many(self.store.put_many, of_put, keys, values)

    def batch_get(self, keys):
        return self.many(self.store.get_many, of_get, keys)

    def batch_exist(self, keys):
        return self.many(self.store.exists_many, of_exist, keys)

    def remove_all(self):
        return answer(self.call(self.store.remove_match, "all", "x"), lambda _: OK)

    def stats(self):
        told = self.counters()
        return Stats(told["used_bytes"], told["pool_bytes"], told["objects"], 0)

    def counters(self):
        """All numbers that the store tells of itself, by name."""
        told = self.call(self.store.stats)
        if isinstance(told, snowskin.Error):
            raise told
        return told

    def accounts(self):
        told = self.counters()
        return Accounts(told["pool_bytes"], told["ready_bytes"], told["used_bytes"],
                        told["free_bytes"], told["closing_bytes"], told["silent_bytes"],
                        told["objects_writing"], told["objects"],
                        [node["used"] for node in self.store.nodes() if node["state"] == "alive"],
                        [size for _, size in self.store.list()])

    def keys_on(self, node, size):
        """How many objects of this size lie on a node."""
        return next(row["used"] // size for row in self.store.nodes()
                    if row["address"] == node.lines["node"].split()[0])

    def evicted(self):
        return self.counters()["evicted_objects"]

    def endpoint(self):
        """Where others reach the memory that it gives."""
        return self.store.segment["address"]

    def expiries(self):
        """How often somebody was taken for dead, or data for lost."""
        told = self.counters()
        return told["suspects"] + told["lost_copies"] + told["lost_objects"]

    def close(self):
        self.store.close()


class Cluster:
    """A master and nodes: the standard set-up S of the cases by default."""

    def __init__(self, nodes=2, node_bytes=256 * MIB, host="127.0.0.1"):
        self.host, self.node_bytes = host, node_bytes
        self.folder = tempfile.TemporaryDirectory()
        self.master = None
        self.nodes = []
        self.listens = host + ":0"
        self.start_master()
        for _ in range(nodes):
            self.start_node()

    def start_master(self):
        """At the same address as before, if there was one."""
        self.master = cluster.Process("master", "--listen", self.listens, "--state-dir",
                                      self.folder.name, expect="master")
        self.listens = self.master.address

    def start_node(self):
        self.nodes.append(cluster.Process("node", "--master", self.listens, "--listen",
                                          self.host + ":0", "--memory", str(self.node_bytes),
                                          expect="ready"))
        return self.nodes[-1]

    def stop_node(self, node):
        self.nodes.remove(node)
        node.stop()

    def kill_node(self, node):
        self.alive(node)
        self.nodes.remove(node)
        node.kill()

    def kill_master(self):
        self.alive(self.master)
        self.master.kill()
        self.master = None

    def alive(self, *processes):
        """None of these has ended by itself."""
        for process in processes or [self.master, *self.nodes]:
            status = process.process.poll()
            assert status is None, "ended with %s: %s" % (status, process.errors())

    def client(self, **options):
        return Client(self.listens, **options)

    def stop(self):
        """All exit with status 0, in time."""
        for node in list(self.nodes):
            self.stop_node(node)
        if self.master is not None:
            self.master.stop()
            self.master = None
        self.folder.cleanup()

    def kill(self):
        for process in [*self.nodes, *filter(None, [self.master])]:
            process.kill()
        self.nodes, self.master = [], None
        self.folder.cleanup()
