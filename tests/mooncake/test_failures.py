"""What happens when others die: masters, nodes, writers."""
import threading
import time

from conftest import MIB, Memory, child, make_store, wait_for


def test_master_gone_and_back(own_master, key, caplog):
    store, memory = make_store(own_master, 16 * MIB), Memory(10)
    assert store.put(key, b"0123456789") == 0
    own_master.kill()
    began = time.monotonic()
    assert store.is_exist(key) == 0
    assert time.monotonic() - began < 2  # 0.4 s, and what a busy machine adds
    began = time.monotonic()
    for _ in range(20):
        assert store.put("other", b"x") == store.get_into(key, memory.at, 10) == -900
        assert store.batch_is_exist([key]) == store.batch_remove([key]) == [-900]
        assert store.get(key) == b"" and store.is_exist(key) == 0 and store.get_size(key) == -900
        assert store.remove(key) == store.remove_all() == -900
        assert store.health_check() == 2
    assert time.monotonic() - began < 4  # 220 calls: nothing waits any more
    assert store._counters()[4] == 21  # each 0 of is_exist; told once a minute
    assert [record.args for record in caplog.records if "is_exist" in record.message] == [(1,)]
    own_master.start()
    wait_for(lambda: store.health_check() == 0)
    wait_for(lambda: store.get(key) == b"0123456789")  # nodes kept what they held
    assert store.put("other", b"x") == 0
    assert store.close() == 0


WRITER = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 0, 0, "tcp", "", sys.argv[1]) == 0
assert store.batch_put_session_start([sys.argv[2]], [10]) == [0]
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_put_takes_over_from_a_writer_that_died(own_master, key):
    store = make_store(own_master, 16 * MIB)
    writer = child(WRITER, own_master.address, key)
    assert writer.stdout.readline() == "open\n"
    assert store.is_exist(key) == 0 and store.get(key) == b""
    writer.kill()
    writer.communicate()
    assert store.put(key, b"mine") == 0  # it waits, and then it is stored
    assert store.get(key) == b"mine"
    assert store.close() == 0


def test_a_put_waits_for_another_writer(own_master, key):
    store, memory = make_store(own_master, 16 * MIB), Memory(b"first")
    other = make_store(own_master, 0)
    assert other.batch_put_session_start([key], [5]) == [0]
    began = time.monotonic()
    assert store.put(key, b"second") == -703  # at its deadline
    assert 4 < time.monotonic() - began < 8
    assert other.batch_put_from_multi_buffer_ranges([key], [[memory.at]], [[5]], [[0]]) == [5]
    assert other.batch_put_session_end([key]) == [0]
    assert store.put(key, b"second") == 0 and store.get(key) == b"first"
    assert other.close() == 0 and store.close() == 0


def test_others_of_a_batch_do_not_wait(own_master, key):
    """What another writer holds up is alone in that."""
    store, other = make_store(own_master, 16 * MIB), make_store(own_master, 0)
    memory = Memory(b"mine!")
    assert other.batch_put_session_start([key + "1"], [5]) == [0]
    keys, codes = [key + "0", key + "1", key + "2"], []
    putting = threading.Thread(target=lambda: codes.extend(
        store.batch_put_from(keys, [memory.at] * 3, [5] * 3)))
    putting.start()
    wait_for(lambda: other.batch_is_exist(keys) == [1, 0, 1], 4)
    assert not codes  # the call waits for the middle one
    assert other.batch_put_session_revoke([key + "1"]) == [0]  # it fails: the put takes over
    putting.join()
    assert codes == [0] * 3 and other.get_batch(keys) == [b"mine!"] * 3
    assert other.close() == 0 and store.close() == 0


NODE = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("localhost", "P2PHANDSHAKE", 16 << 20, 0, "tcp", "", sys.argv[1]) == 0
print(store.get_hostname(), flush=True)
sys.stdin.readline()
"""


def test_a_node_dies(own_master, key):
    from mooncake.store import ReplicateConfig
    store, memory = make_store(own_master, 16 * MIB), Memory(10)
    node = child(NODE, own_master.address)
    config = ReplicateConfig()
    config.preferred_segment = node.stdout.readline().strip()
    assert store.put(key, b"0123456789", config) == 0
    node.kill()
    node.communicate()
    began = time.monotonic()
    assert store.get_into(key, memory.at, 10) in (-702, -704)
    wait_for(lambda: store.is_exist(key) == 0)
    assert store.put(key, b"again") == 0 and store.get(key) == b"again"
    assert time.monotonic() - began < 5
    assert store.close() == 0


def test_exit_without_close(own_master):
    ended = child("import sys; sys.argv[1:] = sys.argv[1:]\n" + NODE.replace(
        "sys.stdin.readline()", "assert store.put('k', b'') == -600"), own_master.address)
    ended.communicate(timeout=20)
    assert ended.returncode == 0
