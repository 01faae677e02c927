"""mooncake.engine: memory of one process read and written by another."""
import ctypes
import os
import re
import socket
import subprocess
import sys
import time
import weakref

import pytest

from conftest import FAKE_CUDA, MIB, Memory, child
from mooncake.engine import (InnerTransferEngine, Read, TransferEngine, TransferNotify,
                             TransferOpcode, Write)


def make_engine():
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine, "127.0.0.1:%d" % engine.get_rpc_port()


@pytest.fixture(params=["near", "far"])
def pair(request, monkeypatch):
    """Two engines, and 64 KiB of the second one; near: the kernel moves bytes, where it may."""
    monkeypatch.setenv("SNOWSKIN_TE_NEAR", str(int(request.param == "near")))
    (one, _), (two, name) = make_engine(), make_engine()
    memory = Memory(65536)
    assert two.register_memory(memory.at, 65536) == 0
    yield one, two, name, memory
    assert two.unregister_memory(memory.at) == 0


def test_writes_and_reads(pair):
    one, _, name, memory = pair
    source, target = Memory(bytes(range(256)) * 16), Memory(4096)
    assert one.transfer_sync_write(name, source.at, memory.at + 100, 4096) == 0
    assert memory.bytes[100:4196] == source.bytes  # visible when the call returns
    assert one.transfer_sync_read(name, target.at, memory.at + 100, 4096) == 0
    assert target.bytes == source.bytes
    at = [source.at, source.at + 10, source.at]
    peers = [memory.at, memory.at + 1000, memory.at + 2000]
    assert one.batch_transfer_sync_write(name, at, peers, [10, 20, 0]) == 0
    assert memory.bytes[1000:1020] == bytes(range(10, 30))
    assert one.batch_transfer_sync_read(name, [target.at], [memory.at + 1000], (5,)) == 0
    assert target.bytes[:5] == bytes(range(10, 15))
    assert one.batch_transfer_sync_write(name, [], [], []) == 0


def test_ways(pair):
    """Within a process the kernel always may."""
    one, _, name, memory = pair
    source = Memory(bytes(100))
    before = one._engine.moved()
    assert one.transfer_sync_write(name, source.at, memory.at, 100) == 0
    near, far = (now - then for now, then in zip(one._engine.moved(), before))
    assert (near, far) == ((100, 0) if os.environ["SNOWSKIN_TE_NEAR"] == "1" else (0, 100))


OTHER = """
import ctypes, sys
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
memory = ctypes.create_string_buffer(1 << 20)
assert engine.register_memory(ctypes.addressof(memory), 1 << 20) == 0
print(engine.get_rpc_port(), ctypes.addressof(memory), flush=True)
sys.stdin.readline()
print(memory.raw.count(b"x"), flush=True)
"""


def test_another_process():
    """By the kernel where it lets us, else over TCP: the bytes are there either way."""
    one, _ = make_engine()
    peer = child(OTHER)
    port, at = map(int, peer.stdout.readline().split())
    source, name = Memory(b"x" * 500000), "127.0.0.1:%d" % port
    assert one.transfer_sync_write(name, source.at, at, 500000) == 0
    assert one.transfer_sync_write(name, source.at, at + MIB - 1, 2) == -1  # its end
    target = Memory(500000)
    assert one.transfer_sync_read(name, target.at, at, 500000) == 0
    assert target.bytes == source.bytes and sum(one._engine.moved()) == 1000000
    assert peer.communicate("\n", timeout=20)[0] == "500000\n"
    assert one.transfer_sync_write(name, source.at, at, 1) == -1


def test_memory_that_is_not_registered(monkeypatch):
    """SNOWSKIN_TE_UNREGISTERED at the one whose memory it is; what is not mapped is a code."""
    monkeypatch.setenv("SNOWSKIN_TE_UNREGISTERED", "1")
    for near in "10":
        monkeypatch.setenv("SNOWSKIN_TE_NEAR", near)
        (one, _), (_two, name) = make_engine(), make_engine()
        source, target = Memory(b"some bytes"), Memory(10)
        assert one.transfer_sync_write(name, source.at, target.at, 10) == 0
        assert target.bytes == source.bytes
        assert one.transfer_sync_write(name, source.at, 4096, 10) == -1
        assert one.transfer_sync_read(name, source.at, 4096, 10) == -1
        assert one.transfer_sync_read(name, 4096, target.at, 10) == -1


def test_ranges_are_checked_before_a_byte_is_written(pair):
    one, _, name, memory = pair
    source = Memory(b"x" * 20)
    assert one.batch_transfer_sync_write(name, [source.at] * 3,
                                         [memory.at, memory.at + 20, memory.at + 65530],
                                         [20, 20, 20]) == -1
    assert memory.bytes == bytes(65536)


DEVICES = """
import ctypes, os, sys
fake = ctypes.CDLL(sys.argv.pop())
fake.fake_alloc.restype = fake.fake_view.restype = ctypes.c_void_p
fake.fake_view.argtypes = [ctypes.c_void_p]
fake.fake_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int]
def device(content):
    at = fake.fake_alloc(len(content), 0)
    ctypes.memmove(fake.fake_view(at), content, len(content))
    return at
def content(at, size):
    return ctypes.string_at(fake.fake_view(at), size)
"""


def with_devices(code, *arguments):
    """Runs it with the driver loaded, as a program that uses one has it."""
    ended = child(DEVICES + code, *arguments, FAKE_CUDA)
    said = ended.communicate(timeout=60)[0]
    assert ended.returncode == 0, said
    return said.split()


def test_memory_of_devices():
    assert with_devices("""
from mooncake.engine import TransferEngine
def engine():
    made = TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return made, "127.0.0.1:%d" % made.get_rpc_port()
(one, _), (two, name) = engine(), engine()
value = bytes(range(256)) * 40000  # more than one piece of staging memory
source, target = device(value), device(bytes(len(value)))
host = ctypes.create_string_buffer(len(value))
assert two.register_memory(target, len(value)) == 0
assert one.register_memory(source, len(value)) == 0
assert one.transfer_sync_write(name, source, target, len(value)) == 0   # device to device
assert content(target, len(value)) == value
assert one.transfer_sync_read(name, ctypes.addressof(host), target, len(value)) == 0
assert host.raw == value
ctypes.memset(host, 7, 100)
assert one.batch_transfer_sync_write(name, [ctypes.addressof(host), source + 300],
                                     [target + 50, target + 5000], [100, 200]) == 0
assert content(target + 50, 100) == b"\\7" * 100
assert content(target + 5000, 200) == value[300:500]
fake.fake_refuse(1)
assert one.transfer_sync_write(name, source, target, 10) == -1
assert one.transfer_sync_write(name, source, target, 10) == 0
assert two.unregister_memory(target) == 0
print("done")
""") == ["done"]


def test_a_store_moves_memory_of_devices(master, pool):
    """SHM and TCP are told apart in tests/unit/client/test_devices.c."""
    assert with_devices("""
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", sys.argv[1]) == 0
value = bytes(range(256)) * 1000
source, target = device(value), device(bytes(len(value)))
half = len(value) // 2
assert store.register_buffer(source, len(value)) == 0
key = "devices-%d" % os.getpid()
assert store.batch_put_from_multi_buffers([key], [[source, source + half]], [[half, half]]) == [0]
assert store.batch_get_into([key], [target], [len(value)]) == [len(value)]
assert content(target, len(value)) == value
assert store.get_into_ranges([target], [[key]], [[[9]]], [[[1]]], [[[5]]]) == [[[5]]]
assert content(target + 9, 5) == value[1:6]
fake.fake_refuse(1)
assert store.put_from(key + "2", source, 100) == -600 and store.is_exist(key + "2") == 0
fake.fake_refuse(1)
assert store.get_into(key, target, len(value)) == -600
assert store.get_into(key, target, len(value)) == len(value)
assert store.unregister_buffer(source) == 0 and store.close() == 0
print("done")
""", master.address) == ["done"]


def test_many_pieces(pair):
    one, _, name, memory = pair
    source = Memory(bytes(range(256)) * 256)
    order = [(number * 7919) % 16384 for number in range(16384)]  # more than one request holds
    assert one.batch_transfer_sync_write(name, [source.at + 4 * number for number in order],
                                         [memory.at + 4 * number for number in order],
                                         [4] * 16384) == 0
    assert memory.bytes == source.bytes


def test_only_registered_memory(pair):
    one, two, name, memory = pair
    other = Memory(100)
    for at, size in ((other.at, 10), (memory.at + 65530, 10), (memory.at - 1, 2), (0, 1)):
        assert one.transfer_sync_write(name, other.at, at, size) == -1
        assert one.transfer_sync_read(name, other.at, at, size) == -1
    assert two.register_memory(memory.at, 65536) == two.register_memory(memory.at + 5, 1) == -7
    assert two.register_memory(0, 5) == two.register_memory(other.at, 0) == -1
    assert two.unregister_memory(other.at) == -1
    assert one.transfer_sync_write(name, other.at, memory.at, 100) == 0  # it goes on


def test_batches_of_regions(pair):
    _, two, _, memory = pair
    a, b = Memory(10), Memory(10)
    assert two.batch_register_memory([a.at, memory.at], [10, 10]) == -7
    assert two.batch_register_memory([a.at, b.at], [10, 10]) == 0  # the first try left none
    assert two.batch_register_memory([1], []) == -1
    assert two.batch_unregister_memory([a.at, b.at]) == 0
    assert two.batch_unregister_memory([a.at]) == -1


def test_nobody_there():
    one, _ = make_engine()
    memory = Memory(10)
    assert one.transfer_sync_write("127.0.0.1:1", memory.at, 5, 5) == -1
    assert one.transfer_sync_write("nonsense", memory.at, 5, 5) == -1
    assert one.send_probe("127.0.0.1:1") == -102 and one.get_first_buffer_address("x:1") == 0
    assert one.transfer_submit_write("127.0.0.1:1", memory.at, 5, 5) == 0  # never met
    assert one.batch_transfer_async_read("127.0.0.1:1", [memory.at], [5], [5]) == 0
    other, name = make_engine()
    theirs = Memory(10)
    assert other.register_memory(theirs.at, 10) == 0
    number = one.transfer_submit_write(name, memory.at, theirs.at, 5)
    assert number > 0 and one.get_batch_transfer_status([number]) == 0
    del other
    number = one.transfer_submit_write(name, memory.at, theirs.at, 5)  # met, and gone
    assert number > 0 and one.get_batch_transfer_status([number]) == -1
    assert one.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == -1  # it was


def test_without_waiting(pair):
    one, _, name, memory = pair
    target = Memory(4096)
    numbers = [one.batch_transfer_async_read(name, [target.at + 64 * part],
                                             [memory.at + 64 * part], [64])
               for part in range(64)]
    assert len(set(numbers)) == 64 and all(0 < number < 1 << 63 for number in numbers)
    assert one.get_batch_transfer_status(numbers) == 0
    assert one.transfer_check_status(numbers[0]) == -1  # an end is told once
    number = one.batch_transfer_async(name, [target.at], [memory.at], [10], Write)
    deadline = time.monotonic() + 20
    while (status := one.transfer_check_status(number)) == 0:
        assert time.monotonic() < deadline
    assert status == 1
    assert one.batch_transfer_async_write(name, [target.at], [], []) == 0


def test_words(pair):
    one, two, name, memory = pair
    target = Memory(10)
    assert two.get_notifies() == []
    assert one.transfer_sync(name, target.at, memory.at, 10, TransferOpcode.Write,
                             TransferNotify("name", "words")) == 0
    assert one.batch_transfer_sync(name, [target.at], [memory.at], [10], Read,
                                   TransferNotify("2", "")) == 0
    assert [(word.name, word.msg) for word in two.get_notifies()] == [("name", "words"),
                                                                      ("2", "")]
    assert one.send_probe(name) == 0 and one.get_first_buffer_address(name) == memory.at


def test_managed_buffers(pair):
    one, two, name, _ = pair
    at = two.allocate_managed_buffer(100)
    assert two.write_bytes_to_buffer(at, b"hello", 5) == 0
    target = Memory(5)
    assert one.transfer_sync_read(name, target.at, at, 5) == 0 and target.bytes == b"hello"
    assert two.read_bytes_from_buffer(at, 5) == b"hello"
    assert two.free_managed_buffer(at, 100) == 0 and two.free_managed_buffer(1, 1) == -1
    assert two.allocate_managed_buffer(8192) == at and two.allocate_managed_buffer(1 << 29) == 0


PEER = """
import ctypes, sys
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
memory = ctypes.create_string_buffer(b"x" * 1000, 1000)
assert engine.register_memory(ctypes.addressof(memory), 1000) == 0
print(engine.get_rpc_port(), ctypes.addressof(memory), flush=True)
sys.stdin.readline()
ctypes.PyDLL(None).sleep(3)  # holds the interpreter lock
sys.stdin.readline()
"""


def test_a_busy_peer_and_one_that_ends():
    one, _ = make_engine()
    peer = child(PEER)
    port, at = map(int, peer.stdout.readline().split())
    target = Memory(1000)
    assert one.transfer_sync_read("127.0.0.1:%d" % port, target.at, at, 1000) == 0
    peer.stdin.write("\n")
    peer.stdin.flush()
    began = time.monotonic()
    for _ in range(20):
        assert one.transfer_sync_read("127.0.0.1:%d" % port, target.at, at, 1000) == 0
    assert time.monotonic() - began < 2.5  # it does nothing for it
    peer.kill()
    peer.communicate()
    assert one.transfer_sync_read("127.0.0.1:%d" % port, target.at, at, 1000) == -1


def test_engine_of_a_store(master, pool, key):
    from mooncake.store import MooncakeDistributedStore
    engine, name = make_engine()
    assert isinstance(engine.get_engine(), InnerTransferEngine)
    store, memory = MooncakeDistributedStore(), Memory(b"registered at the engine")
    assert engine.register_memory(memory.at, memory.size) == 0
    assert store.setup(name, "P2PHANDSHAKE", 16 << 20, 0, "tcp", "", master.address,
                       engine.get_engine()) == 0
    assert store.get_hostname() == name
    assert store.batch_put_from([key], [memory.at], [memory.size]) == [0]
    ctypes.memset(memory.at, 0, memory.size)
    assert store.batch_get_into([key], [memory.at], [memory.size]) == [memory.size]
    assert memory.bytes == b"registered at the engine" and store.close() == 0


def test_registrations_of_an_engine_and_its_store(master, pool, key):
    """One table: whichever way memory came in, both know it, and forget it together."""
    from mooncake.store import MooncakeDistributedStore
    (engine, name), (peer, _) = make_engine(), make_engine()
    store, other = MooncakeDistributedStore(), Memory(100)
    at_engine, at_store, before, source = Memory(100), Memory(100), Memory(100), Memory(b"x" * 100)

    def reached(memory):
        return peer.transfer_sync_write(name, source.at, memory.at, 100) == 0

    def beyond(memory):
        """Of a range that goes past registered memory."""
        return store.get_into_ranges([memory.at], [[key]], [[[95]]], [[[0]]], [[[10]]])[0][0][0]

    assert engine.register_memory(at_engine.at, 100) == 0
    assert store.setup(name, "P2PHANDSHAKE", 0, 0, "tcp", "", master.address) == 0
    assert store.register_buffer(before.at, 100) == 0 and not reached(before)
    with pytest.raises(TypeError, match="engine"):
        store.setup(name, "P2PHANDSHAKE", 0, 0, "tcp", "", master.address, engine)
    for _ in range(2):  # again: registrations stay
        assert store.setup(name, "P2PHANDSHAKE", 0, 0, "tcp", "", master.address,
                           engine.get_engine()) == 0
    assert store.register_buffer(at_store.at, 100) == 0
    assert reached(at_store) and reached(before) and at_store.bytes == before.bytes == b"x" * 100
    assert store.put_from(key, source.at, 100) == 0
    assert beyond(at_engine) == beyond(at_store) == beyond(before) == -600
    assert store.get_into(key, at_engine.at, 100) == 100 and at_engine.bytes == b"x" * 100

    # none is registered twice, through neither
    assert store.register_buffer(at_engine.at, 100) == -600
    assert store.register_buffer(at_store.at, 10) == -600
    assert engine.register_memory(at_store.at, 100) == -7
    assert engine.batch_register_memory([other.at, before.at], [100, 100]) == -7
    assert not reached(other) and reached(before)

    # either forgets for both
    assert store.unregister_buffer(at_engine.at) == 0 and not reached(at_engine)
    assert engine.unregister_memory(at_engine.at) == -1
    assert engine.unregister_memory(at_store.at) == 0 and not reached(at_store)
    assert store.unregister_buffer(at_store.at) == -600
    assert store.register_buffer(at_store.at, 100) == 0 and reached(at_store)

    # what came through the store goes with it; the engine's own stays
    assert engine.register_memory(other.at, 100) == 0
    assert store.close() == 0 and not reached(at_store) and not reached(before) and reached(other)
    assert engine.unregister_memory(other.at) == 0
    assert engine.register_memory(at_store.at, 100) == 0 and reached(at_store)


def test_a_store_that_is_dropped_leaves_its_engine(master, pool):
    from mooncake.store import MooncakeDistributedStore
    engine, name = make_engine()
    store, memory = MooncakeDistributedStore(), Memory(100)
    assert store.setup(name, "P2PHANDSHAKE", 0, 0, "tcp", "", master.address,
                       engine.get_engine()) == 0
    gone = weakref.ref(store)
    del store
    assert gone() is None
    assert engine.register_memory(memory.at, 100) == 0
    assert engine.unregister_memory(memory.at) == 0


def test_engines_that_meet_by_name():
    """With a metadata server, a peer is known by the name that it gave itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        name = "127.0.0.1:%d" % probe.getsockname()[1]
    first, second, third = (TransferEngine() for _ in range(3))
    assert first.initialize(name, "http://127.0.0.1:1/metadata", "tcp", "") == 0
    assert second.initialize(name, "http://127.0.0.1:1/metadata", "tcp", "") == -1  # it is taken
    assert third.initialize("127.0.0.1:7", "P2PHANDSHAKE", "tcp", "") == 0
    assert 15000 <= third.get_rpc_port() <= 17000
    assert name.endswith(":%d" % first.get_rpc_port())
    area = Memory(b"there")
    assert first.register_memory(area.at, area.size) == 0
    assert third.send_probe(name) == 0 and third.get_first_buffer_address(name) == area.at


BENCH = [sys.executable, "-m", "mooncake.engine_bench"]


def test_bench():
    target = subprocess.Popen(
        [*BENCH, "--mode=target", "--metadata_server=P2PHANDSHAKE", "--protocol=tcp",
         "--local_server_name=127.0.0.1:12345", "--auto_discovery", "--buffer_size=16777216"],
        stdout=subprocess.PIPE, text=True)
    name = re.search(r"listening on (127.0.0.1:\d+)", target.stdout.readline()).group(1)
    for operation in ("read", "write"):
        done = subprocess.run(
            [*BENCH, "--segment_id=" + name, "--operation", operation, "--duration=1",
             "--threads=2", "--batch_size=16", "--buffer_size=16777216", "-use_vram=false",
             "--local_server_name=127.0.0.1", "--report_unit=MiB"], capture_output=True, text=True,
            check=False, timeout=60)
        said = re.fullmatch(r"Test completed: duration (\S+), batch count (\d+), throughput (\S+) "
                            r"MiB/s\n", done.stdout)
        assert done.returncode == 0 and said, done
        assert abs(float(said[3]) - int(said[2]) / float(said[1])) < 0.1 * float(said[3])
    target.terminate()
    target.communicate()
    assert target.returncode == 0
    for wrong, text in ((["--segment_id=" + name], "nobody"), ([], "--segment_id"),
                        (["--mode=other"], "--mode"), (["--unknown"], "unknown")):
        done = subprocess.run([*BENCH, *wrong, "--local_server_name=127.0.0.1"],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1 and text in done.stderr
