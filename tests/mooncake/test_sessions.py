"""Sessions of partial reads and writes; the buffer pool."""
import gc
import threading
import time

import pytest

from conftest import MIB, Memory
from mooncake import BufferPool, RegisteredBufferPool


def test_put_session(store, key):
    memory, target = Memory(bytes(range(100))), Memory(100)
    assert store.batch_put_session_start([key, key + "2"], [100, 10]) == [0, 0]
    assert store.batch_put_session_start([key], [100]) == [-600]  # it has one
    assert store.batch_put_from_multi_buffer_ranges(
        [key, "none"], [[memory.at + 50, memory.at], [memory.at]], [[50, 20], [1]],
        [[50, 0], [0]]) == [70, -600]
    assert store.is_exist(key) == 0
    assert store.batch_put_session_end([key]) == [-600]  # bytes are missing: it stays
    assert store.batch_put_from_multi_buffer_ranges(
        [key], [[memory.at + 20]], [[30]], [[20]]) == [30]
    assert store.batch_put_session_end([key]) == [0]
    assert store.get_into(key, target.at, 100) == 100 and target.bytes == memory.bytes
    assert store.batch_put_session_revoke([key + "2", "none"]) == [0, 0]
    assert store.batch_put_session_end([key + "2"]) == [-600]
    assert store.batch_put_session_start([key], [100]) == [-705]
    assert store.put(key + "2", b"free") == 0


def test_get_session(store, key):
    memory, target = Memory(bytes(range(100))), Memory(100)
    assert store.put_from(key, memory.at, 100) == 0
    assert store.batch_get_session_start([key, "absent"]) == [0, -704]
    assert store.batch_get_session_start([key]) == [0]
    assert store.batch_get_into_multi_buffer_ranges(
        [key, "absent"], [[target.at, target.at + 50], [target.at]], [[10, 20], [1]],
        [[90, 0], [0]]) == [30, -600]
    assert target.bytes[:10] == bytes(range(90, 100))
    assert target.bytes[50:70] == bytes(range(20))
    assert store.batch_get_into_multi_buffer_ranges([key], [[target.at]], [[11]],
                                                    [[90]]) == [-600]
    assert store.batch_get_session_end([key]) == 0
    assert store.batch_get_into_multi_buffer_ranges([key], [[target.at]], [[1]], [[0]]) == [-600]


def test_get_session_of_a_value_that_was_replaced(store, key):
    target = Memory(100)
    assert store.put(key, b"old" * 10) == 0
    assert store.batch_get_session_start([key]) == [0]
    assert store.upsert(key, b"new" * 10) == 0
    assert store.batch_get_into_multi_buffer_ranges([key], [[target.at]], [[10]],
                                                    [[0]]) == [-707]
    assert store.batch_get_session_end([key]) == 0


def test_close_ends_sessions(master, pool, key):
    from conftest import make_store
    store = make_store(master, 0)
    assert store.batch_put_session_start([key], [100]) == [0]
    assert store.close() == 0
    assert pool.put(key, b"x") == 0


# ---- the buffer pool ----

def test_pool(store):
    assert RegisteredBufferPool is BufferPool
    with BufferPool(store, 4 * MIB, alignment=4096) as pool:
        with pool.buffer(100) as lease:
            assert lease.size == 100 and lease.ptr % 64 == 0 and len(lease.buffer) == 100
            lease.buffer[:3] = b"abc"
            at = lease.ptr
        again = pool.acquire(200)
        assert again.ptr == at  # it is used again
        view = again.buffer[:10]
        with pytest.raises(RuntimeError, match="exported views"):
            again.release()
        view.release()
        with pytest.raises(RuntimeError, match="active leases"):
            pool.close()
        again.release()
        again.release()
        with pytest.raises(RuntimeError):
            again.buffer
        pool.acquire(0).release()


def test_pool_refuses(store):
    with pytest.raises(RuntimeError, match="alignment"):
        BufferPool(store, MIB, alignment=100)
    pool = BufferPool(store, MIB, alignment=4096)
    for size in (2 * MIB, 1 << 63):
        with pytest.raises(RuntimeError, match="overflow|capacity"):
            pool.acquire(size)
    pool.close()


def test_pool_exhausted(store):
    pool = BufferPool(store, MIB, alignment=4096)
    lease = pool.acquire(MIB)
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(MIB, block=False)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(MIB, timeout=0.1)
    assert time.monotonic() - began < 2
    threading.Timer(0.1, lease.release).start()
    another = pool.acquire(10)  # waits for it; another class: the idle memory is given back
    del another  # one that is dropped ends by itself
    gc.collect()
    pool.close()


def test_pool_moves_values(store, key):
    with BufferPool(store, 4 * MIB) as pool, pool.acquire(10) as lease:
        lease.buffer[:] = b"0123456789"
        assert store.put_from(key, lease.ptr, lease.size) == 0
        lease.buffer[:] = bytes(10)
        assert store.get_into(key, lease.ptr, lease.size) == 10
        assert bytes(lease.buffer) == b"0123456789"
