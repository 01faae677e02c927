"""What calls of the package `mooncake` come to, whichever package of that name is installed.

  behaviour.py         the names of all cases
  behaviour.py CASE    runs one with this interpreter's package: a line of JSON

A case is a function that tells what it saw, by name.  `ours` is what Snowskin comes to, which
test_behaviour.py holds it to; `why` explains what release 0.3.13.post1 does otherwise, which
tools/mooncake_behaviour compares.  Masters are commands of the package: MOONCAKE_MASTER, else
`mooncake_master` beside the interpreter."""
import array
import ctypes
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

MIB = 1 << 20
CASES = {}


def case(ours, **why):
    """why: by the name of what is seen, with _ for blanks."""
    def add(function):
        CASES[function.__name__] = (function, ours, why)
        return function
    return add


def word(seen):
    """The name in `why` of what is seen."""
    return "".join(letter if letter.isalnum() else "_" for letter in seen.replace("'", ""))


# ---- masters, stores, other processes ----

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Master:
    def __init__(self):
        beside = str(pathlib.Path(sys.executable).parent / "mooncake_master")
        self.command = shlex.split(os.environ.get("MOONCAKE_MASTER", beside)) + [
            "--rpc_port=%d" % free_port(), "--metrics_port=%d" % free_port(),
            "--default_kv_lease_ttl=500"]
        self.port = int(self.command[-3].split("=")[1])
        self.address = "127.0.0.1:%d" % self.port
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()


class World:
    """What one case started; ended with it."""

    def __init__(self):
        self.masters, self.children, self.stores = [], [], []

    def master(self):
        self.masters.append(Master())
        return self.masters[-1]

    def store(self, master, segment=0, local=16 * MIB):
        from mooncake.store import MooncakeDistributedStore
        store = MooncakeDistributedStore()
        code = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, local, "tcp", "", master.address)
        assert code == 0, code
        self.stores.append(store)
        return store

    def pool(self, size=64 * MIB):
        """A store that gives memory to a master of its own."""
        return self.store(self.master(), size)

    def child(self, code, *arguments):
        """A process with the same package and `store_of(address, segment)`."""
        child = subprocess.Popen([sys.executable, "-c", CHILD + code, *map(str, arguments)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        self.children.append(child)
        return child

    def close(self):
        for child in self.children:
            child.kill()
            child.communicate()
        for store in self.stores:
            store.close()
        for master in self.masters:
            master.kill()


CHILD = """
import ctypes, os, sys, threading, time
from mooncake.store import MooncakeDistributedStore
def store_of(address, segment=0):
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", int(segment), 16 << 20, "tcp", "", address) == 0
    return store
def say(text):
    print(text, flush=True)
    return sys.stdin.readline()
"""


class Memory:
    def __init__(self, content):
        self.array = ctypes.create_string_buffer(content, len(content))
        self.at = ctypes.addressof(self.array)


def spent(call):
    """(result, seconds)"""
    began = time.monotonic()
    return call(), time.monotonic() - began


def until(condition, seconds):
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def ending(code):
    return "signal %d" % -code if code < 0 else "status %d" % code


# ---- answers ----

@case({"get": "", "get_batch": ["", "here"], "get_batch of none": [""], "get_buffer": None,
       "get_into": -704, "get_into too small": -600, "batch_get_into": [-704, 4],
       "batch_get_into too small": [-600, 4], "multi_buffers": [-704, 4],
       "ranges": [[[-704], [2]]], "get_size": -704, "is_exist": 0, "batch_is_exist": [0, 1],
       "batch_is_exist of none": [], "get_replica_desc": [], "batch_get_replica_desc": ["here"],
       "session": [-704], "remove": -704, "batch_remove": [-704, -706]})
def missing_keys(world):
    store, memory = world.pool(), Memory(bytes(100))
    assert store.put("here", b"here") == 0 and store.put("too", b"four") == 0
    at, both = memory.at, ["no", "here"]
    assert store.register_buffer(at, 100) == 0
    seen = {
        "get": store.get("no").decode(),
        "get_batch": [value.decode() for value in store.get_batch(both)],
        "get_batch of none": [value.decode() for value in store.get_batch([])],
        "get_buffer": store.get_buffer("no"),
        "get_into": store.get_into("no", at, 4),
        "get_into too small": store.get_into("here", at, 3),
        "batch_get_into": store.batch_get_into(both, [at, at + 10], [4, 4]),
        "batch_get_into too small": store.batch_get_into(["too", "here"], [at, at + 10], [3, 4]),
        "multi_buffers": store.batch_get_into_multi_buffers(
            both, [[at, at + 2], [at + 10, at + 12]], [[2, 2], [2, 2]]),
        "ranges": store.get_into_ranges([at], [both], [[[0], [10]]], [[[0], [1]]], [[[2], [2]]]),
        "get_size": store.get_size("no"), "is_exist": store.is_exist("no"),
        "batch_is_exist": store.batch_is_exist(both),
        "batch_is_exist of none": store.batch_is_exist([]),
        "get_replica_desc": store.get_replica_desc("no"),
        "batch_get_replica_desc": list(store.batch_get_replica_desc(both)),
        "session": store.batch_get_session_start(["no"]),
        "remove": store.remove("no"), "batch_remove": store.batch_remove(both),
    }
    assert store.unregister_buffer(at) == 0
    return seen


@case({"put": [0, "old"], "put_parts": [0, "old"], "put_batch": [0, "old"], "put_from": [0, "old"],
       "batch_put_from": [[0], "old"], "multi_buffers": [[0], "old"], "session": [[-705], "old"],
       "upsert": [0, "new"], "upsert_parts": [0, "new"], "upsert_from": [0, "new"],
       "batch_upsert_from": [[0], "new"], "twice in a batch": [[0, 0], "new"]})
def keys_that_exist(world):
    store, new = world.pool(), Memory(b"new")
    assert store.register_buffer(new.at, 3) == 0
    calls = {
        "put": lambda key: store.put(key, b"new"),
        "put_parts": lambda key: store.put_parts(key, b"n", b"ew"),
        "put_batch": lambda key: store.put_batch([key], [b"new"]),
        "put_from": lambda key: store.put_from(key, new.at, 3),
        "batch_put_from": lambda key: store.batch_put_from([key], [new.at], [3]),
        "multi_buffers": lambda key: store.batch_put_from_multi_buffers([key], [[new.at]], [[3]]),
        "session": lambda key: store.batch_put_session_start([key], [3]),
        "upsert": lambda key: store.upsert(key, b"new"),
        "upsert_parts": lambda key: store.upsert_parts(key, b"ne", b"w"),
        "upsert_from": lambda key: store.upsert_from(key, new.at, 3),
        "batch_upsert_from": lambda key: store.batch_upsert_from([key], [new.at], [3]),
    }
    for key in calls:
        assert store.put(key, b"old") == 0
    seen = {key: [call(key), store.get(key).decode()] for key, call in calls.items()}
    seen["twice in a batch"] = [store.batch_put_from(["two"] * 2, [new.at] * 2, [3, 3]),
                                store.get("two").decode()]
    return seen


@case({"put of nothing": -600, "put of no key": -600, "put_from of 0 bytes": [0, 1],
       "put_parts of nothing": [0, 1], "put of 4 numbers": 16, "put above the local buffer": -600,
       "put_from above the pool": -200, "a key of 4096 bytes": 0, "a key of 64 KiB": -600,
       "two copies with one node": 0, "group_ids of another length": -600,
       "remove of what was read": -706, "remove with force": 0, "remove of what was put": 0,
       "remove_by_regex of no pattern": -600, "lists of two lengths": [-600, -600],
       "unregister of nothing": -600, "register of 0 bytes": -600, "register again": -600,
       "pieces above the object": [4]},
      put_from_of_0_bytes="0 without an object: the reader misses what was stored",
      put_parts_of_nothing="0 without an object",
      put_of_4_numbers="counts items of a buffer, not bytes: the value is cut",
      a_key_of_64_KiB="keys are limited to 4096 bytes",
      pieces_above_the_object="-800 where get_into takes a larger buffer")
def edges(world):
    from mooncake.store import ReplicateConfig
    store, memory = world.pool(), Memory(bytes(96 * MIB))
    at = memory.at
    two, groups = ReplicateConfig(), ReplicateConfig()
    two.replica_num = 2
    groups.group_ids = ["a", "b"]
    assert store.put("k", b"four") == 0
    seen = {
        "put of nothing": store.put("e", b""), "put of no key": store.put("", b"x"),
        "put_from of 0 bytes": [store.put_from("z", at, 0), store.is_exist("z")],
        "put_parts of nothing": [store.put_parts("p"), store.is_exist("p")],
        "put of 4 numbers": store.put("i", array.array("i", range(4))) or len(store.get("i")),
        "put above the local buffer": store.put("l", bytes(20 * MIB)),
        "put_from above the pool": store.put_from("b", at, 96 * MIB),
        "a key of 4096 bytes": store.put("k" * 4096, b"x"),
        "a key of 64 KiB": store.put("k" * 65536, b"x"),
        "two copies with one node": store.put("2", b"x", two),
        "group_ids of another length": store.put("g", b"x", groups),
        "remove of what was read": store.get("k") and store.remove("k"),
        "pieces above the object": store.batch_get_into_multi_buffers(
            ["k"], [[at, at + 60]], [[60, 60]]),
        "remove with force": store.remove("k", True),
        "remove of what was put": store.put("r", b"x") or store.remove("r"),
        "remove_by_regex of no pattern": store.remove_by_regex("("),
        "lists of two lengths": store.batch_put_from(["a", "b"], [at], [1, 1]),
        "unregister of nothing": store.unregister_buffer(at),
        "register of 0 bytes": store.register_buffer(at, 0),
        "register again": store.register_buffer(at, 4096) or store.register_buffer(at, 4096),
    }
    assert store.unregister_buffer(at) == 0
    return seen


# ---- values that others read or write ----

@case({"upserts that failed": 0, "reads that mixed two values": 0, "reads that missed": 0},
      reads_that_mixed_two_values="same sizes are written in place, with a code of success",
      reads_that_missed="the key can not be read while it is written")
def upserts_against_a_reader(world):
    """Each value is of one byte all over; the writer is another process."""
    master = world.master()
    store = world.store(master, 160 * MIB)
    size = 16 * MIB
    target = Memory(bytes(size))
    assert store.register_buffer(target.at, size) == 0
    writer = world.child("""
store = store_of(sys.argv[1])
values = [ctypes.create_string_buffer(bytes([letter]) * (16 << 20), 16 << 20) for letter in b"ab"]
pointers = [ctypes.addressof(value) for value in values]
for pointer in pointers:
    assert store.register_buffer(pointer, 16 << 20) == 0
failed = int(store.upsert_from("hot", pointers[0], 16 << 20) != 0)
over = threading.Event()
threading.Thread(target=lambda: (say("there"), over.set()), daemon=True).start()
turn = 0
while not over.is_set():
    turn += 1
    failed += store.upsert_from("hot", pointers[turn % 2], 16 << 20) != 0
say(failed)""", master.address)
    assert writer.stdout.readline() == "there\n"
    mixed = missed = 0
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        found = store.get_into("hot", target.at, size)
        content = target.array.raw
        missed += found != size
        mixed += found == size and content.count(content[:1]) != size
    writer.stdin.write("\n")
    writer.stdin.flush()
    return {"upserts that failed": int(writer.stdout.readline()),
            "reads that mixed two values": mixed, "reads that missed": missed}


@case({"refused": 0, "the value after it": True, "another key": 0},
      refused="the space of a copy of another size never comes back",
      the_value_after_it="an upsert that finds no room has lost the old value",
      another_key="the pool stays full")
def upserts_of_two_sizes(world):
    store, memory = world.pool(32 * MIB), Memory(bytes(MIB))
    assert store.register_buffer(memory.at, MIB) == 0
    codes = [store.upsert_from("hot", memory.at, MIB >> turn % 2) for turn in range(120)]
    return {"refused": sum(code != 0 for code in codes),
            "the value after it": store.get_size("hot") == MIB // 2,
            "another key": store.put_from("other", memory.at, MIB)}


@case({"put": 0, "then read": "mine", "within 5 s": True},
      then_read="for 30 s a put says 0 and stores nothing")
def a_writer_that_died(world):
    master = world.master()
    store = world.store(master, 32 * MIB)
    writer = world.child("""
store = store_of(sys.argv[1])
assert store.batch_put_session_start(["key"], [4]) == [0]
say("open")""", master.address)
    assert writer.stdout.readline() == "open\n"
    writer.kill()
    writer.wait()
    code, took = spent(lambda: store.put("key", b"mine"))
    return {"put": code, "then read": store.get("key").decode(), "within 5 s": took < 5}


@case({"puts refused": 0},
      puts_refused="-200 at once, while what may be evicted lies in the pool")
def a_full_pool(world):
    store, memory = world.pool(32 * MIB), Memory(bytes(MIB))
    assert store.register_buffer(memory.at, MIB) == 0
    codes = []

    def write(name):
        for turn in range(60):
            codes.extend(store.batch_put_from(["%s/%d/%d" % (name, turn, part)
                                               for part in range(4)], [memory.at] * 4, [MIB] * 4))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"puts refused": sum(code != 0 for code in codes)}


# ---- masters and nodes that are gone ----

@case({"codes": [0, -900, [-900], ""], "ten more calls within 2 s": True, "health_check": 2,
       "keys after a restart": True, "put after it": 0},
      codes="is_exist says -900: LMCache takes what is not 0 for a hit",
      ten_more_calls_within_2_s="4 s a call, one after the other",
      keys_after_a_restart="all keys are lost, though nodes hold the bytes")
def a_master_that_is_gone(world):
    master = world.master()
    store, memory = world.store(master, 32 * MIB), Memory(bytes(4))
    assert store.put("key", b"kept") == 0
    master.kill()
    store.is_exist("key")  # the first one notices
    began = time.monotonic()
    codes = [store.is_exist("key"), store.put("new", b"x"),
             store.batch_get_into(["key"], [memory.at], [4]), store.get("key").decode()]
    for _ in range(2):
        store.get_size("key"), store.remove("key"), store.get("key")
    took = time.monotonic() - began
    health = store.health_check()
    master.start()
    return {"codes": codes, "ten more calls within 2 s": took < 2, "health_check": health,
            "keys after a restart": until(lambda: store.get("key") == b"kept", 6),
            "put after it": next(code for code in iter(lambda: store.put("new", b"x"), None)
                                 if code == 0 or not time.sleep(0.1))}


@case({"code": -600, "within 6 s": True})
def setup_without_a_master(world):
    from mooncake.store import MooncakeDistributedStore
    code, took = spent(lambda: MooncakeDistributedStore().setup(
        "127.0.0.1:%d" % free_port(), "P2PHANDSHAKE", 0, MIB, "tcp", "",
        "127.0.0.1:%d" % free_port()))
    return {"code": code, "within 6 s": took < 6}


@case({"codes of reads": [-704, -702], "missed within 4 s": True, "put elsewhere": 0,
       "all calls within 6 s": True},
      codes_of_reads="-800, which disables vLLM's encoder cache",
      missed_within_4_s="is_exist says 1 for 9 s and more",
      put_elsewhere="goes to the dead node until it is dropped",
      all_calls_within_6_s="up to 1 s for each read")
def a_node_that_died(world):
    from mooncake.store import ReplicateConfig
    master = world.master()
    store, memory = world.store(master, 32 * MIB), Memory(bytes(MIB))
    node = world.child("store = store_of(sys.argv[1], 32 << 20); say(store.get_hostname())",
                       master.address)
    there = ReplicateConfig()
    there.preferred_segment = node.stdout.readline().strip()
    keys = ["k%d" % index for index in range(8)]
    assert store.batch_put_from(keys, [memory.at] * 8, [MIB] * 8, there) == [0] * 8
    node.kill()
    node.wait()
    began = time.monotonic()
    codes = {store.get_into(key, memory.at, MIB) for key in keys}
    missed = until(lambda: store.is_exist("k0") == 0, 4)
    code = store.put_from("new", memory.at, MIB)
    return {"codes of reads": sorted(codes | {-704, -702}), "missed within 4 s": missed,
            "put elsewhere": code, "all calls within 6 s": time.monotonic() - began < 6}


# ---- processes: their ends, their children ----

@case({"close": 0, "within 0.5 s": True, "get after it": "", "setup again": 0, "put": 0},
      within_0_5_s="1.8 s on average")
def closing(world):
    master = world.master()
    world.store(master, 32 * MIB)
    store = world.store(master)
    code, took = spent(store.close)
    return {"close": code, "within 0.5 s": took < 0.5, "get after it": store.get("k").decode(),
            "setup again": store.setup("127.0.0.1", "P2PHANDSHAKE", 0, MIB, "tcp", "",
                                       master.address), "put": store.put("k", b"x")}


@case({"setup again": 0, "unregister of what was registered": 0},
      unregister_of_what_was_registered="registrations are lost, and nothing says so")
def setting_up_twice(world):
    master = world.master()
    store, memory = world.store(master, 32 * MIB), Memory(bytes(4096))
    assert store.register_buffer(memory.at, 4096) == 0
    again = store.setup("127.0.0.1", "P2PHANDSHAKE", 32 * MIB, MIB, "tcp", "", master.address)
    return {"setup again": again,
            "unregister of what was registered": store.unregister_buffer(memory.at)}


@case({"code": 0, "put": 0},
      code="the key is ignored, and 127.0.0.1:50051 asked",
      put="not set up")
def a_dictionary_of_older_names(world):
    from mooncake.store import MooncakeDistributedStore
    master = world.master()
    world.store(master, 32 * MIB)
    store = MooncakeDistributedStore()
    world.stores.append(store)
    code = store.setup({"local_hostname": "127.0.0.1:%d" % free_port(),
                        "metadata_server": "P2PHANDSHAKE", "global_segment_size": 0,
                        "local_buffer_size": "16 MB", "master_server_address": master.address})
    return {"code": code, "put": store.put("k", b"x") if code == 0 else None}


CALLS_BEFORE_SETUP = {
    "put": "store.put('k', b'x')", "put_parts": "store.put_parts('k', b'x')",
    "get": "store.get('k').decode()", "is_exist": "store.is_exist('k')",
    "batch_is_exist": "store.batch_is_exist(['k'])", "get_into": "store.get_into('k', at, 1)",
    "batch_put_from": "store.batch_put_from(['k'], [at], [1])",
    "get_buffer": "store.get_buffer('k')", "remove": "store.remove('k')",
    "register_buffer": "store.register_buffer(at, 1)", "get_hostname": "store.get_hostname()",
}
DIES = "the process dies"


@case({"put": "-600", "put_parts": "-600", "get": "", "is_exist": "-600",
       "batch_is_exist": "[-600]", "get_into": "-600", "batch_put_from": "[-600]",
       "get_buffer": "None", "remove": "-600", "register_buffer": "-600", "get_hostname": ""},
      **{name: DIES for name in CALLS_BEFORE_SETUP})
def calls_before_setup(world):
    seen = {}
    for name, call in CALLS_BEFORE_SETUP.items():
        child = world.child("memory = ctypes.create_string_buffer(8)\n"
                            "at = ctypes.addressof(memory)\n"
                            "store = MooncakeDistributedStore()\nprint(%s, flush=True)" % call)
        said = child.communicate(timeout=60)[0].strip()
        seen[name] = said if child.returncode == 0 else ending(child.returncode)
    return seen


@case({"the child's end": "status 0", "calls of the parent that failed": 0},
      the_childs_end="hangs or dies, with the locks of threads that it does not have",
      calls_of_the_parent_that_failed="the child uses its connections")
def a_process_that_forks(world):
    """The child calls and exits; the parent's calls go on meanwhile."""
    master = world.master()
    world.store(master, 32 * MIB)
    parent = world.child("""
store = store_of(sys.argv[1])
assert store.put("key", b"value") == 0
failed, over = [], threading.Event()
def read():
    while not over.is_set():
        if store.get("key") != b"value":
            failed.append(1)
thread = threading.Thread(target=read)
thread.start()
child = os.fork()
if child == 0:
    store.put("other", b"x")
    store.get("key")
    os._exit(0)
deadline = time.monotonic() + 8
ended = 0
while ended == 0 and time.monotonic() < deadline:
    ended, status = os.waitpid(child, os.WNOHANG)
    time.sleep(0.02)
if ended == 0:
    os.kill(child, 9)
    os.waitpid(child, 0)
time.sleep(0.2)
over.set()
thread.join()
print(len(failed), os.waitstatus_to_exitcode(status) if ended else "hangs", flush=True)
os._exit(0)""", master.address)
    said = parent.communicate(timeout=60)[0].split()
    if len(said) != 2:
        return {"the child's end": ending(parent.returncode),
                "calls of the parent that failed": None}
    end = said[1] if said[1] == "hangs" else ending(int(said[1]))
    return {"the child's end": end, "calls of the parent that failed": int(said[0])}


BUSY = """
store = store_of(sys.argv[1])
memory = ctypes.create_string_buffer(1 << 20)
at = ctypes.addressof(memory)
def work(name):
    turn = 0
    while True:
        turn += 1
        store.put_from("%s%d" % (name, turn), at, 1 << 20)
        store.get_into("%s%d" % (name, turn), at, 1 << 20)
for name in "ab":
    threading.Thread(target=work, args=(str(os.getpid()) + name,), daemon=True).start()
time.sleep(0.3)
"""


@case({"killed": "signal 9", "left": "status 0", "calls of others that failed": 0},
      left="ends with a signal: its threads outlive what they use",
      calls_of_others_that_failed="puts that meet a full pool are refused")
def processes_that_end_at_work(world):
    """One is killed and one exits, both with calls under way; a third one goes on."""
    master = world.master()
    world.store(master, 64 * MIB)
    store = world.store(master)
    ends = [world.child(BUSY + "say('at work')", master.address),
            world.child(BUSY + "print('at work', flush=True)", master.address)]
    failed, over = [], threading.Event()

    def work():
        turn = 0
        while not over.is_set():
            turn += 1
            if store.put("mine%d" % turn, b"x" * 1000) != 0:
                failed.append(turn)

    thread = threading.Thread(target=work)
    thread.start()
    for child in ends:
        child.stdout.readline()
    ends[0].kill()
    codes = [child.wait(30) for child in ends]
    time.sleep(0.3)
    over.set()
    thread.join()
    return {"killed": ending(codes[0]), "left": ending(codes[1]),
            "calls of others that failed": len(failed)}


def run(name):
    world = World()
    signal.alarm(120)  # a call that never returns ends this process
    try:
        return CASES[name][0](world)
    finally:
        world.close()
        signal.alarm(0)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(CASES))
    else:
        print(json.dumps(run(sys.argv[1])), flush=True)
        os._exit(0)
