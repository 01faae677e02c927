import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import numpy
import pytest

import snowskin
import snowskin.aio


def value_of(seed, size):
    return numpy.random.default_rng(seed).bytes(size)


# ---- one key ------------------------------------------------------------------------------------

def test_put_get_remove(store, key):
    assert store.get(key) is None
    assert store.exists(key) is False
    assert store.size(key) is None
    assert store.put(key, b"value") is True
    assert store.put(key, b"other") is False
    assert store.get(key) == b"value"
    assert store.exists(key) is True
    assert store.size(key) == 5
    assert store.put(key, b"other", replace=True) is True
    assert store.get(key) == b"other"
    assert store.remove(key) is True
    assert store.remove(key) is False
    assert store.get(key) is None


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65536, (1 << 20) + 1, 9 << 20])
def test_sizes(store, key, size):
    value = value_of(size, size)
    assert store.put(key, value)
    assert store.get(key) == value
    target = bytearray(size + 8)
    assert store.get_into(key, target) == size
    assert bytes(target[:size]) == value and bytes(target[size:]) == bytes(8)
    with store.view(key) as view:
        assert view.nbytes == size and memoryview(view) == value
    assert store.remove(key)


def test_large_copies_by_several_threads(dev, key):
    value = value_of(7, 12 << 20)
    with snowskin.Store(dev.master, copy_threads=4) as store:
        assert store.put(key, value)
        assert store.get(key) == value
        assert store.remove(key)
    with pytest.raises(snowskin.InvalidError, match="copy_threads"):
        snowskin.Store(dev.master, copy_threads=65)


@pytest.mark.parametrize("options", [{"verify": "everywhere"}, {"verify": False},
                                     {"checksum": False}, {"verify": "nothing", "checksum": True}])
def test_checksums(dev, key, options):
    value = value_of(3, 300001)
    with snowskin.Store(dev.master, **options) as store:
        assert store.put(key, value)
        assert store.get(key) == value
        assert store.remove(key)
    with pytest.raises(ValueError, match="verify"):
        snowskin.Store(dev.master, verify="sometimes")


def test_registered_memory(dev, store, key):
    page = bytearray(b"x" * 100000)
    array = numpy.arange(50000, dtype=numpy.uint8)
    store.register(page)
    store.register(array)
    with pytest.raises(BufferError):
        page.append(1)  # it stays where it is
    with pytest.raises(snowskin.InvalidError, match="overlaps"):
        store.register(memoryview(page)[10:20])
    assert store.put(key, page)
    assert store.get_into(key, page) == 100000
    store.unregister(page)
    page.append(1)
    with pytest.raises(snowskin.NotFoundError, match="no registered range"):
        store.unregister(page)
    with pytest.raises(TypeError):
        store.register([page])
    store.unregister(array)
    other = bytearray(10)
    with snowskin.Store(dev.master) as second:
        second.register(other)
    other.append(1)  # the end of the store lets go


def test_keys_are_text_or_bytes(store, key):
    text = key + "-ключ"
    assert store.put(text, b"x")
    assert store.get(text.encode()) == b"x"
    assert store.put(b"\0\xff" + key.encode(), b"y")
    assert store.get(b"\0\xff" + key.encode()) == b"y"
    with pytest.raises(TypeError, match="key"):
        store.get(5)
    for bad in ("", "x" * 4097):
        with pytest.raises(snowskin.InvalidError, match="a key has 1 to 4096 bytes"):
            store.get(bad)


def test_ranges(store, key):
    value = value_of(1, 100000)
    store.put(key, value)
    target = bytearray(1000)
    assert store.get_into(key, target, offset=5000, length=1000) == 1000
    assert bytes(target) == value[5000:6000]
    assert store.get_into(key, target, offset=99500) == 500
    with pytest.raises(snowskin.InvalidError):
        store.get_into(key, target, offset=100001)


def test_a_buffer_too_small_is_left_alone(store, key):
    store.put(key, b"x" * 100)
    target = bytearray(b"a" * 99)
    with pytest.raises(snowskin.LimitError, match="99 bytes, 100"):
        store.get_into(key, target)
    assert target == b"a" * 99
    with pytest.raises(BufferError):
        store.get_into(key, b"read only, and long enough by far" * 10)


def test_pieces(store, key):
    assert store.put(key, [b"one", bytearray(b"two"), numpy.arange(3, dtype=numpy.uint8)])
    assert store.get(key) == b"onetwo\0\1\2"
    first, second = bytearray(4), numpy.zeros(5, dtype=numpy.uint8)
    assert store.get_into(key, (first, second)) == 9
    assert bytes(first) == b"onet" and bytes(second) == b"wo\0\1\2"


# ---- arrays -------------------------------------------------------------------------------------

def test_numpy_in_and_out(store, key):
    pages = numpy.random.default_rng(1).standard_normal((64, 1024), dtype=numpy.float32)
    keys = ["%s-%d" % (key, i) for i in range(64)]
    assert store.put_many(keys, list(pages)) == [True] * 64
    into = numpy.zeros_like(pages)
    assert store.get_into_many(keys, list(into)) == [4096] * 64
    assert (into == pages).all()
    views = store.view_many(keys)
    for page, view in zip(pages, views):
        array = numpy.frombuffer(view, dtype=numpy.float32)
        assert (array == page).all() and not array.flags.writeable
    with pytest.raises((BufferError, ValueError)):
        store.put(key, pages[:, ::2])


def test_torch(store, key):
    torch = pytest.importorskip("torch")
    tensor = torch.randn(16, 64).to(torch.bfloat16)
    assert store.put(key, tensor)
    into = torch.zeros_like(tensor)
    assert store.get_into(key, into) == tensor.nbytes
    assert torch.equal(into, tensor)
    with pytest.raises(ValueError, match="contiguous"):
        store.put(key, tensor.t())


def test_what_is_no_buffer(store, key):
    for bad in (5, "text", object()):
        with pytest.raises(TypeError, match="buffer"):
            store.put(key, bad)
    assert store.exists(key) is False


# ---- many ---------------------------------------------------------------------------------------

def test_each_item_has_its_answer(store, key):
    keys = ["%s-%d" % (key, i) for i in range(2000)]
    store.put(keys[7], b"there")
    puts = store.put_many(keys + [""], [b"%d" % i for i in range(2000)] + [b"bad"])
    assert puts[7] is False and isinstance(puts[-1], snowskin.InvalidError)
    assert all(puts[i] is True for i in range(2000) if i != 7)
    found = store.exists_many(keys + ["%s-none" % key])
    assert found == [True] * 2000 + [False]
    got = store.get_many(keys[:10] + ["%s-none" % key])
    assert got == [b"%d" % i if i != 7 else b"there" for i in range(10)] + [None]
    assert store.size_many(keys[:3]) == [1, 1, 1]
    assert store.remove_many(keys + ["%s-none" % key]) == [True] * 2000 + [False]
    assert store.exists_many([]) == []


def test_a_reason_is_its_items(store, key):
    empty, huge, fine = store.put_many(["", key + "-huge", key], [b"x", bytes(80 << 20), b"x"])
    assert isinstance(empty, snowskin.InvalidError) and "larger" not in str(empty)
    assert isinstance(huge, snowskin.NoSpaceError) and fine is True
    with pytest.raises(snowskin.NoSpaceError, match="larger than the pool"):
        store.put(key + "-huge", bytes(80 << 20))


def test_sequences(store, key):
    assert store.put_many((key,), (b"x",)) == [True]
    assert store.exists_many(iter([key])) == [True]
    with pytest.raises(TypeError, match="sequence"):
        store.exists_many(key)
    with pytest.raises(ValueError, match="2 keys, but 1 values"):
        store.put_many([key, key], [b"x"])
    with pytest.raises(TypeError, match="unexpected keyword"):
        store.get(key, depth=3)
    with pytest.raises(ValueError, match="timeout"):
        store.get(key, timeout=-1)
    with pytest.raises(ValueError, match="pin"):
        store.put(key, b"x", pin="firm")


def test_what_is_there(store, key):
    store.put_many(["%s/%d" % (key, i) for i in range(5)], [b"x" * i for i in range(5)])
    assert sorted(store.list(key)) == [(("%s/%d" % (key, i)).encode(), i) for i in range(5)]
    assert store.pin(key + "/1", "soft", duration=60) is True
    assert store.pin("%s/none" % key) is False
    assert store.nodes()[0]["state"] == "alive"
    assert store.stats()["objects"] >= 5
    assert store.remove_match("prefix", key + "/") == 5
    with pytest.raises(snowskin.InvalidError):
        store.remove_match("regex", "(")


def gone(store, key):
    until = time.monotonic() + 10
    while store.exists(key) and time.monotonic() < until:
        time.sleep(0.01)
    return not store.exists(key)


def test_hints(store, key):
    keys = ["%s/%d" % (key, i) for i in range(4)]
    assert store.put_many(keys, [b"x"] * 4, priority=7, done=True) == [True] * 4
    assert store.touch(keys[0], priority=3) is True
    assert store.touch_many([keys[1], key + "/none"], done=True, lasts=True) == [True, False]
    assert store.expire(keys[0], 0) is True
    assert store.exists(keys[0]) is False
    assert store.expire_many(keys, 0.05) == [False, True, True, True]
    assert store.expire(keys[3], None) is True
    assert gone(store, keys[1]) and gone(store, keys[2])
    assert store.exists(keys[3]) is True
    assert store.put(key, b"y", expires_after=0.05) is True
    assert gone(store, key)
    with pytest.raises(ValueError, match="priority"):
        store.put(key, b"y", priority=8)
    with pytest.raises(ValueError, match="priority"):
        store.touch(keys[3], priority=8)
    with pytest.raises(ValueError, match="after"):
        store.expire(keys[3], -1)
    with pytest.raises(snowskin.InvalidError):
        store.touch(keys[3], expires_after=1, lasts=True)


# ---- errors -------------------------------------------------------------------------------------

def test_errors():
    assert issubclass(snowskin.TimeoutError, (snowskin.FinalError, TimeoutError))
    assert issubclass(snowskin.BusyError, snowskin.RetryError)
    assert snowskin.NoSpaceError.code == -43 and snowskin.NoSpaceError.name == "NO_SPACE"
    with pytest.raises(snowskin.UnreachableError, match="127.0.0.1:1"):
        snowskin.Store("127.0.0.1:1", timeout=0.2)
    with pytest.raises(snowskin.InvalidError):
        snowskin.Store("nonsense")
    with pytest.raises(ValueError):
        snowskin.Store("127.0.0.1:1", transport="pigeon")


def test_a_closed_store(dev, key):
    store = snowskin.Store(dev.master)
    store.put(key, b"value")
    view = store.view(key)
    store.close()
    store.close()
    assert store.closed
    with pytest.raises(snowskin.ClosedError):
        store.get(key)
    assert bytes(view) == b"value"
    view.release()
    with pytest.raises(ValueError, match="released"):
        memoryview(view)


def test_a_view_in_use_is_not_released(dev, key):
    with snowskin.Store(dev.master) as store:
        store.put(key, b"value")
        store.get(key)  # the node's memory is mapped now
        view = store.view(key)
        assert view.copied is False
        array = numpy.frombuffer(view, dtype=numpy.uint8)
        with pytest.raises(BufferError):
            view.release()
        assert store.remove(key)
        assert bytes(array) == b"value"
        del array
        view.release()


# ---- threads, forks, exits ----------------------------------------------------------------------

def test_eight_threads(store, key):
    wrong = []

    def work(number):
        for i in range(60):
            name = "%s-%d-%d" % (key, number, i)
            value = value_of(number * 1000 + i, 1 + (i * 7919) % 100000)
            if store.put(name, value) is not True:
                wrong.append(name)
            got = store.get(name)
            if got is not None and got != value:
                wrong.append(name)
            view = store.view(name)
            if view is not None and bytes(view) != value:
                wrong.append(name)
            store.remove(name)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_others_run_meanwhile(store, key):
    """The interpreter lock is not held during calls."""
    longest = 0.0
    stop = threading.Event()

    def tick():
        nonlocal longest
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now

    store.put(key, b"x")
    ticker = threading.Thread(target=tick)
    ticker.start()
    # A put of a key that another writer holds waits: here nobody does, so wait for room instead.
    with pytest.raises(snowskin.Error):
        store.put(key + "-big", bytearray(65 << 20), timeout=1.0)
    stop.set()
    ticker.join()
    assert longest < 0.5


def test_a_forked_child_is_refused(store, key):
    store.put(key, b"x")
    view = store.view(key)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.get(key)
        except snowskin.ClosedError:
            code = 0
        del view
        gc.collect()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get(key) == b"x"


def run(program, *args):
    return subprocess.run([sys.executable, "-c", program, *args], timeout=30, check=False,
                          capture_output=True, text=True)


def test_exit_with_everything_open(dev):
    """Nothing hangs or crashes when an interpreter ends in the middle."""
    done = run("""
import sys, threading, snowskin
store = snowskin.Store(sys.argv[1])
store.put("exit", b"x" * 100000)
view = store.view("exit")
def work():
    while True:
        store.put("exit-2", b"y" * 1000000, replace=True)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
import time; time.sleep(0.2)
keep = memoryview(view)
""", dev.master)
    assert (done.returncode, done.stderr) == (0, "")


def test_subclass(dev, key):
    class Mine(snowskin.Store):
        def twice(self, name):
            return self.get(name) * 2

    with Mine(dev.master) as store:
        store.put(key, b"ab")
        assert store.twice(key) == b"abab"


# ---- asyncio ------------------------------------------------------------------------------------

def test_asyncio(dev, key):
    async def work():
        async with snowskin.aio.Store(dev.master) as store:
            keys = ["%s-%d" % (key, i) for i in range(100)]
            values = [value_of(i, 5000) for i in range(100)]
            assert await store.put_many(keys, values) == [True] * 100
            assert await store.get(keys[3]) == values[3]
            assert await store.get("%s-none" % key) is None
            got = await asyncio.gather(*(store.get(name) for name in keys))
            assert got == values
            into = [bytearray(5000) for _ in keys]
            assert await store.get_into_many(keys, into) == [5000] * 100
            assert into == values
            each = {index: value async for index, value in store.get_each(keys)}
            assert [each[i] for i in range(100)] == values
            assert await store.exists_many(keys + ["%s-none" % key]) == [True] * 100 + [False]
            with pytest.raises(snowskin.InvalidError):
                await store.get("")
            assert await store.remove_many(keys) == [True] * 100
        with pytest.raises(snowskin.ClosedError):
            await store.get(keys[0])

    asyncio.run(work())


def test_many_keys_of_all_kinds(store):
    """Enough of them that they are read another way than few are."""
    keys = ["kinds %d" % i if i % 3 else b"kinds %d" % i for i in range(40)]
    store.put_many(keys[::2], [b"x"] * 20)
    assert store.exists_many(keys) == [i % 2 == 0 for i in range(40)]
    assert store.exists_many(tuple(keys)) == [i % 2 == 0 for i in range(40)]
    assert store.exists_many(iter(keys[::2])) == [True] * 20
    assert store.size_many(keys) == [1 if i % 2 == 0 else None for i in range(40)]
    results = store.exists_many(keys[:30:2])
    results.append(False)  # a list of its own
    assert store.exists_many(keys[:30:2]) == [True] * 15
    with pytest.raises(TypeError, match="a key is str or bytes, not"):
        store.exists_many(keys[:20] + [7] + keys[20:])
    with pytest.raises(UnicodeEncodeError):
        store.exists_many(keys[:20] + ["\udc80"])


def test_calls_within_a_call(store):
    """What a tensor runs while its memory is looked for may call the store."""
    class Tensor:
        device = numpy = None

        def is_contiguous(self):
            seen.append(store.exists_many(names))
            return False

    seen = []
    names = ["within %s %d" % (os.urandom(8).hex(), i) for i in range(30)]
    Tensor.device = type("device", (), {"type": "cpu"})
    with pytest.raises(ValueError, match="not in one piece"):
        store.put_many(names[:20], [b"x"] * 19 + [Tensor()])
    assert seen == [[False] * 30]
    store.put_many(names[:20], [b"x"] * 20)
    assert store.exists_many(names[:20]) == [True] * 20
