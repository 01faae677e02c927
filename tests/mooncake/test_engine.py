"""mooncake.engine: memory of one process read and written by another."""
import ctypes
import time

import pytest

from conftest import Memory, child
from mooncake.engine import (InnerTransferEngine, Read, TransferEngine, TransferNotify,
                             TransferOpcode, Write)


def make_engine():
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    return engine, "127.0.0.1:%d" % engine.get_rpc_port()


@pytest.fixture
def pair():
    """Two engines, and 64 KiB of the second one."""
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
    number = one.transfer_submit_write("127.0.0.1:1", memory.at, 5, 5)
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
