"""The calls of mooncake.store against a real master: results, their types, their numbers."""
import json
import subprocess
import threading
import time

import pytest

from conftest import BINARY, LEASE_S, MIB, Master, Memory, make_store, wait_for
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.store import (BufferHandle, MooncakeDistributedStore, MooncakeHostMemAllocator,
                            ObjectDataType, ReplicateConfig, SoftPinAction, TaskStatus, TaskType)


def plain(values):
    """Real lists of real ints, whatever is inside."""
    assert type(values) is list
    for value in values:
        assert type(value) in (int, list)
        if type(value) is list:
            plain(value)
    return values


# ---- setting up ----

def test_setup_forms(master):
    for arguments, keywords in (
            (("localhost", "P2PHANDSHAKE", 0, 0, "rpc_only", "", master.address), {}),
            (("127.0.0.1", "http://nobody/metadata", 16 * MIB, 4 * MIB, "rdma", "mlx5_0",
              master.address, None, False, "", "default"), {}),
            ((), dict(local_hostname="localhost", metadata_server="P2PHANDSHAKE",
                      global_segment_size=0, local_buffer_size=0, protocol="ascend",
                      rdma_devices="", master_server_addr=master.address, engine=None,
                      enable_ssd_offload=False, ssd_offload_path=""))):
        store = MooncakeDistributedStore()
        assert store.setup(*arguments, **keywords) == 0
        assert store.health_check() == 0
        assert store.close() == 0


@pytest.mark.parametrize("name", ["master_server_addr", "master_server_address"])
def test_setup_by_dictionary(master, name):
    store = MooncakeDistributedStore()
    config = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE", "device_name": "",
              "global_segment_size": "16 MB", "local_buffer_size": "16mb", "unknown": 1,
              name: master.address}
    assert store.setup(config) == 0
    assert store.get_hostname().startswith("localhost:")
    assert 12300 <= int(store.get_hostname().rpartition(":")[2]) <= 14300
    assert store.close() == 0


@pytest.mark.parametrize("change", [
    {"global_segment_size": "50%"}, {"local_hostname": ""}, {"local_buffer_size": "12"},
    {"master_server_addr": "etcd://a;b"}, {"tenant_id": "_x"}, {"client_http_port": "web"}])
def test_setup_refuses(change):
    config = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}
    assert MooncakeDistributedStore().setup({**config, **change}) == -600


def test_setup_names_a_rejected_keyword():
    with pytest.raises(TypeError, match="tenant_idx"):
        MooncakeDistributedStore().setup("a", "b", 0, 0, "tcp", "", "c", tenant_idx="x")
    with pytest.raises(TypeError, match="local_buffer_size"):
        MooncakeDistributedStore().setup("a", "b", 0, "many", "tcp", "", "c")
    with pytest.raises(TypeError, match="engine"):
        MooncakeDistributedStore().setup("a", "b", 0, 0, "tcp", "", "c", "engine")
    assert "enable_ssd_offload" in MooncakeDistributedStore.setup.__doc__


def test_setup_with_a_port_that_is_taken(master):
    first = make_store(master, 16 * MIB, name="127.0.0.1")
    name = first.get_hostname()
    second = make_store(master, 16 * MIB, name=name)
    assert second.get_hostname() == name
    assert second.close() == 0
    assert first.close() == 0


def test_not_set_up(key):
    store, memory = MooncakeDistributedStore(), Memory(10)
    assert store.put(key, b"x") == store.remove(key) == store.get_size(key) == -600
    assert store.is_exist(key) == store.get_into(key, memory.at, 10) == store.remove_all() == -600
    assert store.batch_put_from([key] * 2, [memory.at] * 2, [10] * 2) == [-600, -600]
    assert store.batch_is_exist([key]) == store.batch_get_into([key], [memory.at], [1]) == [-600]
    assert store.get(key) == b"" and store.get_batch([key]) == [b""]
    assert store.get_buffer(key) is None and store.batch_get_buffer([key]) == [None]
    assert store.register_buffer(memory.at, 10) == -600
    assert store.batch_get_session_start([key]) == [] and store.get_hostname() == ""
    assert store.get_replica_desc(key) == [] and store.health_check() == 1 and store.close() == 0


def test_failed_setup_is_safe_and_quick(key):
    store = MooncakeDistributedStore()
    began = time.monotonic()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:1") == -1
    assert time.monotonic() - began < 9
    assert store.is_exist(key) == 0  # that is no hit
    assert store.batch_get_into([key], [0], [0]) == [-600]
    assert store.health_check() == 1


def test_close_and_set_up_again(master, key):
    store = make_store(master, 16 * MIB)
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    assert store.put(key, b"mine", config) == 0
    assert store.close() == 0 and store.close() == 0
    assert store.get(key) == b""
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", master.address) == 0
    assert store.get(key) == b""  # it was in the memory that has gone
    assert store.close() == 0


def test_setting_up_again_keeps_registrations(master, pool):
    store, memory = make_store(master, 0), Memory(4096)
    assert store.register_buffer(memory.at, 4096) == 0
    assert store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", master.address) == 0
    assert store.unregister_buffer(memory.at) == 0
    assert store.close() == 0


# ---- put and get ----

def test_put_and_get(store, key):
    assert store.put(key, b"value") == 0
    assert store.get(key) == b"value" and store.get_size(key) == 5 and store.is_exist(key) == 1
    assert store.put(key, b"other") == 0  # it has a value
    assert store.get(key.encode()) == b"value"
    assert store.get_batch([key, "absent"]) == [b"value", b""] and store.get_batch([]) == [b""]
    assert store.put(key=key + "2", value=memoryview(b"ab"), config=ReplicateConfig()) == 0


def test_put_takes_bytes_not_items(store, key):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(100, dtype="float64")
    assert store.put(key, array) == 0
    assert store.get(key) == array.tobytes()


def test_put_refuses(store, key):
    assert store.put(key, b"") == store.put("", b"x") == -600
    assert store.put("k" * 4097, b"x") == -600
    assert store.put(key, bytes(17 * MIB)) == -600  # more than the local buffer
    with pytest.raises(TypeError):
        store.put(key, 5)
    with pytest.raises(TypeError):
        store.put(key)
    with pytest.raises(TypeError, match="kee"):
        store.put(kee=key, value=b"x")
    with pytest.raises(TypeError):
        store.put(key, b"x", "config")
    assert store.is_exist(key) == 0


def test_no_local_buffer(master, pool, key):
    store, memory = make_store(master, 0, 0), Memory(b"zero copy")
    assert store.put(key, b"x") != 0 and store.is_exist(key) == 0
    assert store.put_from(key, memory.at, memory.size) == 0
    assert store.get(key) == b"" and store.get_into(key, memory.at, memory.size) == 9
    assert store.close() == 0


def test_put_parts(store, key):
    assert store.put_parts(key, b"ab", memoryview(b"cd").cast("b"), bytearray(b"ef")) == 0
    assert store.get(key) == b"abcdef"
    assert store.put_parts(key + "e") == 0 and store.get_size(key + "e") == 0
    with pytest.raises(RuntimeError, match="1-D bytes-like"):
        store.put_parts(key, b"ab", memoryview(bytes(8)).cast("i"))
    with pytest.raises(TypeError):
        store.put_parts()
    assert store.put_parts(key, b"x", config=ReplicateConfig()) == 0


def test_put_batch(store, key):
    assert store.put_batch([key + "1", key + "2"], [b"1", b"22"]) == 0
    assert store.get_batch([key + "1", key + "2"]) == [b"1", b"22"]
    assert store.put_batch([key + "3", ""], [b"1", b"2"]) == -600
    assert store.get(key + "3") == b"1"
    assert store.put_batch([key], []) == -600 and store.put_batch([], []) == 0


def test_pointers(store, key):
    source, target = Memory(b"0123456789"), Memory(20)
    keys = [key + "1", key + "2", key + "1"]
    at = [source.at, source.at + 5, source.at]
    assert plain(store.batch_put_from(keys, at, [10, 5, 10])) == [0, 0, 0]
    assert plain(store.batch_get_into([key + "2", "absent", key + "1"],
                                      [target.at, target.at, target.at + 10],
                                      (10, 10, 10))) == [5, -704, 10]
    assert target.bytes == b"56789" + bytes(5) + b"0123456789"
    assert store.get_into(key + "1", target.at, 9) == -600
    assert store.batch_get_into(keys, [target.at] * 3, [9, 5, 10]) == [-600, 5, 10]
    assert store.put_from(key + "e", 0, 0) == 0 and store.get_size(key + "e") == 0
    assert store.put_from(key + "n", 0, 5) == -600
    assert store.get_into(key + "1", 0, 10) == -600
    for wrong in (-1, 1.5, None, "1", 1 << 64):
        with pytest.raises(TypeError):
            store.put_from(key, wrong, 1)


def test_lists_of_different_lengths(store, key):
    memory = Memory(10)
    assert store.batch_put_from([key] * 2, [memory.at], [1, 1]) == [-600, -600]
    assert store.batch_get_into([key] * 3, [memory.at], [1]) == [-600] * 3
    assert store.batch_put_from_multi_buffers([key], [], []) == [-600]
    assert store.batch_put_from_multi_buffers([key], [[memory.at]], [[1, 2]]) == [-600]
    assert store.batch_put_from([], [], []) == store.batch_is_exist([]) == []
    assert store.batch_remove([]) == []
    with pytest.raises(TypeError):
        store.batch_is_exist("abc")
    assert store.is_exist(key) == 0


def test_pieces(store, key):
    source, target = Memory(b"0123456789"), Memory(30)
    numpy = pytest.importorskip("numpy")
    assert plain(store.batch_put_from_multi_buffers(
        [key, key + "2"], [[source.at + 5, source.at], numpy.array([source.at])],
        [[5, 2], (numpy.int64(3),)], ReplicateConfig())) == [0, 0]
    assert plain(store.batch_get_into_multi_buffers(
        [key, key + "2", "absent"], [[target.at, target.at + 10], [target.at + 20], [target.at]],
        [[4, 10], [10], [1]], True)) == [7, 3, -704]
    assert target.bytes == b"5678" + bytes(6) + b"901" + bytes(7) + b"012" + bytes(7)
    assert store.batch_get_into_multi_buffers([key], [[target.at]], [[6]]) == [-600]


def test_ranges(store, key):
    source, target = Memory(bytes(range(100))), Memory(50)
    assert store.put_from(key, source.at, 100) == 0
    assert store.register_buffer(target.at, 50) == 0
    found = plain(store.get_into_ranges(
        [target.at], [[key, "absent"]], [[[0, 10, 45, 0], [0]]], [[[90, 20, 0, 95], [0]]],
        [[[10, 5, 6, 6], [1]]]))
    assert found == [[[10, 5, -600, -600], [-704]]]
    assert target.bytes[:15] == bytes(range(90, 100)) + bytes(range(20, 25))
    assert store.get_into_ranges([target.at], [[key]], [], [], [[[1, 2]]]) == [[[-600, -600]]]
    assert store.get_into_ranges([], [], [], [], []) == []
    assert store.unregister_buffer(target.at) == 0


def test_handles(store, key):
    assert store.put(key, b"0123456789") == 0
    handle, nothing = store.batch_get_buffer([key, "absent"])
    assert nothing is None and store.get_buffer("absent") is None
    assert isinstance(handle, BufferHandle) and len(handle) == handle.size() == 10
    view = memoryview(handle)
    assert view.format == "b" and view.ndim == 1 and view.itemsize == 1 and not view.readonly
    view[0] = 65
    assert bytes(handle) == b"A123456789" and handle.ptr() != 0
    assert store.get(key) == b"0123456789"  # it was a copy
    memory = Memory(0)
    assert store.put_from(key + "e", memory.at, 0) == 0
    assert bytes(store.get_buffer(key + "e")) == b"" and store.get(key + "e") == b""


# ---- replacing, removing ----

def test_upsert(store, key):
    source = Memory(b"0123456789")
    assert store.upsert(key, b"first") == store.upsert(key, b"2nd") == 0
    assert store.get(key) == b"2nd"
    assert store.upsert_from(key, source.at, 10) == 0 and store.get(key) == b"0123456789"
    assert store.upsert_parts(key, b"a", b"b") == 0 and store.get(key) == b"ab"
    assert store.upsert_batch([key], [b"c"]) == 0 and store.get(key) == b"c"
    assert store.batch_upsert_from([key, key], [source.at, source.at], [1, 2],
                                   config=ReplicateConfig()) == [0, 0]
    assert store.get(key) == b"01"  # the last one wins


def test_upsert_gives_space_back(own_master, key):
    store = make_store(own_master, 16 * MIB)
    for number in range(60):
        assert store.upsert(key, bytes([number]) * (MIB >> number % 2)) == 0
    assert store.get(key) == bytes([59]) * (MIB >> 1)
    assert store.close() == 0


def test_guards(store, key):
    assert store.put(key, b"x") == 0
    assert store.remove(key) == 0  # a put alone guards nothing
    assert store.remove(key) == -704
    assert store.put(key, b"x") == 0 and store.is_exist(key) == 1
    assert store.remove(key) == -706 and store.batch_remove([key, "absent"]) == [-706, -704]
    assert store.remove(key, force=True) == 0
    assert store.put(key, b"x") == 0 and store.get(key) == b"x"
    wait_for(lambda: store.remove(key) == 0, 10 * LEASE_S)


def test_remove_by_pattern(own_master):
    store = make_store(own_master, 16 * MIB)
    assert store.put_batch(["ab1", "ab2", "b1", "c"], [b"x"] * 4) == 0
    assert store.remove_by_regex("(") == -600
    assert store.is_exist("b1") == 1
    assert store.remove_by_regex("b1") == 1  # searched for, and one is guarded
    assert store.remove_by_regex("^b", True) == 1
    assert store.get("c") == b"x"
    assert store.remove_all() == 1 and store.remove_all(force=True) == 1
    assert store.close() == 0


# ---- room ----

def test_more_than_there_is(own_master, key):
    store, memory = make_store(own_master, 16 * MIB), Memory(24 * MIB)
    began = time.monotonic()
    assert store.put_from(key, memory.at, memory.size) == -200
    assert time.monotonic() - began < 2  # not until a deadline
    for number in range(40):  # what is old makes room
        assert store.put_from("%s-%d" % (key, number), memory.at, MIB) == 0
    assert store.close() == 0


def test_no_room_is_told_soon(own_master, key):
    store = make_store(own_master, 0)  # nobody gives memory
    began = time.monotonic()
    assert store.put(key, b"x") == -200
    assert time.monotonic() - began < 3
    assert store.close() == 0


# ---- values ----

def test_config():
    config = ReplicateConfig()
    assert hasattr(ReplicateConfig, "group_ids") and not hasattr(config, "session_ids")
    assert (config.replica_num, config.with_hard_pin, config.preferred_segment) == (1, False, "")
    assert config.soft_pin_action == SoftPinAction.PRESERVE and config.soft_pin_ttl_ms is None
    config.with_soft_pin = True
    assert config.soft_pin_action == SoftPinAction.ENABLE and config.with_soft_pin
    config.data_type = ObjectDataType.TENSOR
    config.group_ids = ["a", ""]
    assert config.group_ids == ["a", ""] and "replica_num: 1" in str(config)
    config.group_ids = config.soft_pin_ttl_ms = None
    for wrong in (-1, 1 << 64, "1", 1.0):
        with pytest.raises(TypeError):
            config.soft_pin_ttl_ms = wrong
    with pytest.raises(AttributeError):
        config.unknown = 1


def test_config_of_puts(store, key):
    config = ReplicateConfig()
    config.group_ids = ["g"]
    assert store.put(key, b"x", config) == 0
    config.group_ids = ["g", "h"]
    assert store.put(key + "2", b"x", config) == -600
    config.group_ids = None
    config.soft_pin_ttl_ms = 1000
    assert store.upsert(key, b"x", config) == -600  # without ENABLE
    config.soft_pin_action = SoftPinAction.ENABLE
    assert store.upsert(key, b"x", config) == 0
    config.soft_pin_ttl_ms = 2**32
    assert store.upsert(key, b"x", config) == -600
    config = ReplicateConfig()
    config.replica_num = 3  # fewer will do
    assert store.put(key + "3", b"x", config) == 0
    config.replica_num = 0
    assert store.put(key + "4", b"x", config) == -600


def test_preferred_segment_and_copies(own_master, key):
    first, second = (make_store(own_master, 16 * MIB) for _ in range(2))
    config = ReplicateConfig()
    config.preferred_segment = second.get_hostname()
    assert first.put(key, b"x", config) == 0
    copies = first.batch_get_replica_desc([key, "absent"])
    assert list(copies) == [key] and len(copies[key]) == 1 and first.get_replica_desc("no") == []
    found = copies[key][0].get_memory_descriptor().buffer_descriptor
    assert found.transport_endpoint == second.get_hostname() and found.size == 1
    assert copies[key][0].is_memory_replica() and not copies[key][0].is_disk_replica()
    config = ReplicateConfig()
    config.replica_num = 2
    assert first.put(key + "2", b"x", config) == 0
    assert len(first.get_replica_desc(key + "2")) == 2
    assert second.close() == 0
    assert first.get(key + "2") == b"x"  # the other copy
    assert first.close() == 0


def test_registered_memory(store):
    memory = Memory(8192)
    assert store.register_buffer(memory.at, 8192) == 0
    assert store.register_buffer(memory.at, 8192) == store.register_buffer(memory.at, 0) == -600
    assert store.unregister_buffer(memory.at) == 0 and store.unregister_buffer(memory.at) == -600


def test_allocator():
    allocator = MooncakeHostMemAllocator()
    at = allocator.alloc(8192)
    assert at % 4096 == 0 and allocator.free(at) == 0 and allocator.free(at) == -1
    with pytest.raises(RuntimeError):
        allocator.alloc(0)


def test_further_segments(own_master, key):
    store = make_store(own_master, 0)
    mounted = store.allocate_and_mount_segment(MIB)
    assert mounted["ret"] == 0 and mounted["allocated_size"] == 16 * MIB
    assert store.put(key, b"x") == 0
    assert store.unmount_segment(["1-2"]) < 0
    assert store.unmount_and_free_segment(mounted["segment_ids"]) == 0
    wait_for(lambda: store.get(key) == b"")
    assert store.mount_segment("/dev/null", MIB)["ret"] < 0
    assert store.close() == 0


def test_a_cluster_with_a_secret(monkeypatch):
    master = Master("--token", "secret")
    store = MooncakeDistributedStore()
    arguments = ("localhost", "P2PHANDSHAKE", 0, 4 * MIB, "tcp", "", master.address)
    assert store.setup(*arguments) != 0
    monkeypatch.setenv("SNOWSKIN_TOKEN", "secret")
    assert store.setup(*arguments) == 0
    mounted = store.allocate_and_mount_segment(16 * MIB)
    assert mounted["ret"] == 0 and store.put("a", b"b") == 0 and store.get("a") == b"b"
    assert store.unmount_and_free_segment(mounted["segment_ids"]) == 0
    assert store.unmount_local_disk_segment() == -1  # there is none
    assert store.close() == 0
    assert master.stop() == 0


def test_copies_and_moves(own_master, key):
    first, second = (make_store(own_master, 16 * MIB) for _ in range(2))
    names = [store.get_hostname() for store in (first, second)]
    config = ReplicateConfig()
    config.preferred_segment = names[0]

    def end_of(started):
        task, code = started
        assert code == 0
        wait_for(lambda: first.query_task(task)[0].status in (TaskStatus.SUCCESS,
                                                              TaskStatus.FAILED))
        return first.query_task(task)[0]

    def holders():
        return sorted(copy.get_memory_descriptor().buffer_descriptor.transport_endpoint
                      for copy in first.get_replica_desc(key))

    def is_put_there():
        """A segment that has just been mounted may have no memory yet: it is put elsewhere."""
        first.remove(key, True)
        assert first.put(key, b"value", config) == 0
        return holders() == names[:1]

    wait_for(is_put_there)
    assert end_of(first.create_move_task(key, *names)).status == TaskStatus.SUCCESS
    wait_for(lambda: holders() == names[1:])
    ended = end_of(first.create_copy_task(key, names[:1]))
    assert ended.status == TaskStatus.SUCCESS and ended.type == TaskType.REPLICA_COPY
    wait_for(lambda: holders() == sorted(names))
    assert end_of(first.create_copy_task(key, names)).status == TaskStatus.SUCCESS  # it has both
    assert holders() == sorted(names) and first.get(key) == b"value"
    assert first.create_copy_task("absent", names[:1]) == ((0, 0), -704)
    assert first.create_copy_task(key, ["nowhere"]) == ((0, 0), -600)
    assert first.create_move_task(key, names[0], names[0]) == ((0, 0), -600)
    assert first.query_task((1, 2)) == (None, -1400)
    assert second.close() == 0 and first.close() == 0


# ---- many at once ----

def test_threads(pool, key):
    failed = []

    def work(number):
        for turn in range(30):
            name, value = "%s-%d-%d" % (key, number, turn), bytes([number]) * (256 << 10)
            if pool.put(name, value) != 0 or pool.get(name) != value or \
                    pool.remove(name, True) != 0:
                failed.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_close_during_calls(master, pool, key):
    store = make_store(master, 0)
    results = []

    def work():
        while store.is_exist(key) == 0:
            pass
        results.append(store.is_exist(key))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert store.close() == 0
    for thread in threads:
        thread.join(10)
    assert results == [-600] * 4


def test_asynchronous(master, pool, key):
    import asyncio

    async def work():
        store = MooncakeDistributedStoreAsync()
        assert await store.async_setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "",
                                       master.address) == 0
        assert await store.async_put(key, b"x") == 0
        assert await store.async_get(key) == b"x"
        assert await store.async_close() == 0

    asyncio.run(work())


def test_groups_by_the_keys_of_an_engine(master, pool, monkeypatch):
    page = "%064x" % 7
    monkeypatch.setenv("SNOWSKIN_KEY_RULES", "sglang")
    monkeypatch.setenv("SNOWSKIN_KEY_MEMBERS", "2")
    store = make_store(master, 0)

    def state():
        told = subprocess.run(
            [BINARY, "group", "stat", page, "--json", "--master", master.address],
            capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["state"]

    assert store.put(page + "_0_k", b"k") == 0
    assert state() == "forming"
    assert store.batch_is_exist([page + "_0_k", page + "_0_v"]) == [1, 0]
    assert store.put(page + "_0_v", b"v") == 0
    assert state() == "complete"
    assert store.get(page + "_0_k") == b"k"
    assert store.remove(page + "_0_k", True) == 0 and store.remove(page + "_0_v", True) == 0
    assert store.close() == 0
    monkeypatch.setenv("SNOWSKIN_KEY_RULES", "nobody")
    refused = MooncakeDistributedStore()
    assert refused.setup("localhost", "P2PHANDSHAKE", 0, 16 * MIB, "tcp", "", master.address) < 0


def test_clear_copies(store, pool, key):
    keys = [key + "a", key + "b"]
    assert store.put(keys[0], b"x") == store.put(keys[1], b"y") == 0
    assert store.get(keys[1]) == b"y"  # guards it
    assert store.batch_replica_clear(keys, pool.get_hostname()) == []
    assert store.batch_replica_clear([*keys, "absent"]) == [keys[0]]
    assert store.batch_replica_clear([]) == []
    assert store.batch_is_exist(keys) == [0, 1]
    assert store.get_offload_rpc_read_count() == 0
