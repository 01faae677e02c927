"""Tensors that ranks write and read in parts; where torch is installed."""
import ctypes
import struct
import types

import pytest

from conftest import Memory
from mooncake.store import ParallelAxis, ReadTarget, ReplicateConfig, TensorParallelism

torch = pytest.importorskip("torch")

HEADER = 304


def axis(kind, rank, size, **further):
    made = ParallelAxis()
    made.kind, made.rank, made.size = kind, rank, size
    for name, value in further.items():
        setattr(made, name, value)
    return made


def spread(*axes):
    made = TensorParallelism()
    made.axes = list(axes)
    return made


def tp(rank, size, dim):
    return spread(axis("tp", rank, size, split_dim=dim))


def target(mode, parallelism=None):
    made = ReadTarget()
    made.mode, made.parallelism = mode, parallelism
    return made


def writer(rank, size, dim):
    return types.SimpleNamespace(rank=rank, size=size, split_dim=dim)


def part(tensor, rank, size, dim):
    return tensor.chunk(size, dim)[rank]


def same(a, b):
    return a is not None and a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def numbers(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def put_parts(store, key, tensor, size, dim, call="put_tensor_with_parallelism"):
    for rank in range(size):
        assert getattr(store, call)(key, part(tensor, rank, size, dim), tp(rank, size, dim)) == 0


def read(store, key, wanted, with_memory):
    if not with_memory:
        return store.get_tensor_with_parallelism(key, wanted)
    memory = Memory(1 << 16)
    found = store.get_tensor_with_parallelism_into(key, memory.at, memory.size, wanted)
    if found is not None:
        assert found.numel() == 0 or found.data_ptr() == memory.at + HEADER
        found = found.clone()
        # What lies there now is an object that can be put again.
        size = HEADER + found.numel() * found.element_size()
        assert store.put_tensor_from(key + "again", memory.at, size) == 0
        assert same(store.get_tensor(key + "again"), found)
        assert store.remove(key + "again", True) == 0
    return found


@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shape,size", [((4, 4, 8), 4), ((2, 6, 2), 2), ((4, 4, 4), 1),
                                        ((4, 0, 4), 4)])
def test_parts_of_ranks(store, key, shape, size, dim, into):
    if shape[dim] % size != 0:
        size = shape[dim]
    tensor = numbers(*shape)
    put_parts(store, key, tensor, size, dim)
    for rank in range(size):
        own = part(tensor, rank, size, dim)
        assert same(store.get_tensor(key + "_tp_%d" % rank), own)
        assert same(read(store, key, target("shard", tp(rank, size, dim)), into), own)
        assert same(read(store, key, target("as_stored", tp(rank, size, dim)), into), own)
        assert same(read(store, key, target("full", tp(rank, size, dim)), into), tensor)
    assert same(read(store, key, target("full"), into), tensor)  # by the manifest


@pytest.mark.parametrize("into", [False, True])
def test_other_parts_than_were_written(store, key, into):
    tensor = numbers(12, 8)
    put_parts(store, key, tensor, 4, 0)
    for size, dim in ((1, 0), (2, 0), (3, 0), (6, 0), (12, 0), (2, 1), (8, 1)):
        for rank in range(size):
            assert same(read(store, key, target("shard", tp(rank, size, dim)), into),
                        part(tensor, rank, size, dim)), (size, dim, rank)
        assert same(read(store, key, target("full", tp(0, size, dim)), into), tensor)
    assert read(store, key, target("shard", tp(0, 5, 0)), into) is None  # not in equal parts
    assert read(store, key, target("shard", tp(0, 2, 2)), into) is None  # no such dimension


@pytest.mark.parametrize("name", ["float64", "int8", "bool", "float16", "bfloat16",
                                  "float8_e4m3fn", "uint8"])
def test_types(store, key, name):
    tensor = numbers(4, 6).to(getattr(torch, name))
    put_parts(store, key, tensor, 2, 1)
    for wanted, other in ((target("full"), tensor),
                          (target("shard", tp(1, 4, 0)), part(tensor, 1, 4, 0))):
        found = store.get_tensor_with_parallelism(key, wanted)
        assert found.dtype == tensor.dtype and found.shape == other.shape
        assert torch.equal(found.view(torch.uint8), other.contiguous().view(torch.uint8))


@pytest.mark.parametrize("into", [False, True])
def test_several_axes(store, key, into):
    """The whole is given, this rank's part of it stored; each place has its own."""
    places = (lambda rank: spread(axis("DP", 1, 2), axis("tp", rank, 2, split_dim=1)),
              lambda rank: spread(axis("tp", rank, 2, split_dim=1),
                                  axis("pp", 0, 2, stage_id=7)),
              lambda rank: spread(axis("ep", 1, 4, expert_id=11),
                                  axis("tp", rank, 2, split_dim=1)))
    names = ("__dp_1of2__tp_%dof2_sd1", "__tp_%dof2_sd1__pp_0of2_sid7",
             "__tp_%dof2_sd1__ep_1of4_eid11")
    for number, place in enumerate(places):
        tensor = numbers(4, 8) + number
        for rank in range(2):
            assert store.put_tensor_with_parallelism(key, tensor, place(rank)) == 0
            own = part(tensor, rank, 2, 1)
            assert same(store.get_tensor(key + names[number] % rank), own)
            assert same(read(store, key, target("shard", place(rank)), into), own)
        assert same(read(store, key, target("full", place(0)), into), tensor)
        for index, one in enumerate(place(0).axes):  # in fewer and in more parts
            for size in (1, 4):
                asked = place(0)
                if one.kind == "tp":
                    asked.axes[index] = axis("tp", size - 1, size, split_dim=1)
                    assert same(read(store, key, target("shard", asked), into),
                                part(tensor, size - 1, size, 1))
    absent = spread(axis("dp", 0, 2), axis("tp", 0, 2, split_dim=1))
    assert read(store, key, target("shard", absent), into) is None
    assert read(store, key, target("full", absent), into) is None
    assert read(store, key, target("full"), into) is None


@pytest.mark.parametrize("into", [False, True])
def test_axes_that_do_not_split(store, key, into):
    tensor, place = numbers(3, 3), spread(axis("ep", 2, 4, expert_id=5))
    assert store.put_tensor_with_parallelism(key, tensor, place) == 0
    assert store.is_exist(key + "__ep_2of4_eid5") == 1
    assert store.is_exist(key + "__parallelism_manifest") == 0
    for mode in ("shard", "as_stored", "full"):
        assert same(read(store, key, target(mode, place), into), tensor)
    assert read(store, key, target("shard", spread(axis("ep", 2, 4, expert_id=6))), into) is None


@pytest.mark.parametrize("into", [False, True])
def test_writer_partitions(store, key, into):
    tensor = numbers(8, 6)
    for rank in range(4):
        assert store.put_tensor_with_parallelism(key, tensor, None, ReplicateConfig(),
                                                 writer(rank, 4, 0)) == 0
        assert same(store.get_tensor(key + "__writer_%dof4_sd0" % rank), part(tensor, rank, 4, 0))
    assert same(read(store, key, target("full"), into), tensor)
    for size, dim in ((4, 0), (2, 0), (3, 1)):
        for rank in range(size):
            assert same(read(store, key, target("shard", tp(rank, size, dim)), into),
                        part(tensor, rank, size, dim))
        assert same(read(store, key, target("full", tp(0, size, dim)), into), tensor)


def test_objects_are_as_others_know_them(store, key):
    """Header of a part and manifest, byte by byte."""
    assert store.put_tensor_with_parallelism(key, numbers(4, 2), tp(1, 3, 0)) == 0
    assert store.get(key + "__parallelism_manifest") == struct.pack(
        "<IHHiiiii4x8q", 0x574D414E, 1, 96, 0, 2, 0, 3, 0, 12, 2, *[-1] * 6)
    head = store.get(key + "_tp_1")[:HEADER]
    assert struct.unpack_from("<IHHiiIIQQ", head) == (0x4D4F4F4E, 1, HEADER, 0, 2, 1, 0, HEADER, 32)
    assert struct.unpack_from("<8q8qII", head, 40) == (12, 2, *[-1] * 6, 4, 2, *[-1] * 6, 1, 0)
    assert head[176:] == struct.pack("<Iiiiiiq", 1, 0, 1, 3, 0, 0, 4).ljust(128, b"\0")
    assert store.put_tensor_with_tp(key + "b", numbers(12, 2), tp_size=3) == 0
    assert store.get(key + "b_tp_1")[:HEADER] == head
    assert same(store.get_tensor_with_parallelism(key + "b", target("full", tp(0, 3, 0))),
                numbers(12, 2))
    key = key.encode()
    assert store.put_tensor_with_parallelism(key + b"c", numbers(4, 2), tp(0, 1, 0)) == 0
    assert same(store.get_tensor_with_parallelism(key + b"c", target("full")), numbers(4, 2))
    assert store.is_exist(key + b"c_tp_0") == 1


def test_the_whole_under_its_key(store, key):
    tensor = numbers(4, 6)
    assert store.put_tensor_with_parallelism(key, tensor) == 0
    assert same(store.get_tensor(key), tensor)
    for into in (False, True):
        assert same(read(store, key, None, into), tensor)
        assert same(read(store, key, target("full"), into), tensor)
        assert same(read(store, key, target("shard", tp(1, 2, 1)), into), part(tensor, 1, 2, 1))
    scalar = torch.tensor(7)
    assert store.put_tensor_with_parallelism(key + "s", scalar) == 0
    assert same(store.get_tensor_with_parallelism(key + "s", target("full")), scalar)
    assert store.put_tensor_with_parallelism(key + "t", scalar, tp(0, 1, 0)) == -600
    assert store.put_tensor_with_parallelism(key + "t", scalar, None, None, writer(0, 1, 0)) == -600


def test_a_part_that_is_missing_or_of_another_tensor(store, key):
    tensor = numbers(8, 2)
    put_parts(store, key, tensor, 4, 0)
    assert store.remove(key + "_tp_2", True) == 0
    assert store.get_tensor_with_parallelism(key, target("full")) is None
    assert same(store.get_tensor_with_parallelism(key, target("shard", tp(0, 2, 0))),
                part(tensor, 0, 2, 0))  # it needs parts 0 and 1 alone
    assert store.get_tensor_with_parallelism(key, target("shard", tp(1, 2, 0))) is None
    for other in (numbers(2, 3), numbers(2, 2).to(torch.int32)):
        assert store.upsert_tensor(key + "_tp_2", other) == 0
        assert store.get_tensor_with_parallelism(key, target("full")) is None
    assert store.upsert(key + "_tp_2", b"bytes") == 0
    assert store.get_tensor_with_parallelism(key, target("full")) is None
    assert store.upsert(key + "__parallelism_manifest", b"x" * 96) == 0
    assert store.get_tensor_with_parallelism(key, target("full")) is None
    assert store.get_tensor_with_parallelism("absent", target("full")) is None
    assert store.get_tensor_with_parallelism("absent", target("full", tp(0, 2, 0))) is None


def test_upserts(store, key):
    before, after = numbers(8, 2), numbers(6, 4) + 1
    put_parts(store, key, before, 4, 0)
    put_parts(store, key, after, 2, 1)  # puts: what is there stays
    assert same(store.get_tensor_with_parallelism(key, target("full")), before)
    put_parts(store, key, after, 2, 1, "upsert_tensor_with_parallelism")
    assert same(store.get_tensor_with_parallelism(key, target("full")), after)
    assert same(store.get_tensor_with_parallelism(key, target("shard", tp(2, 3, 0))),
                part(after, 2, 3, 0))
    for tensor in (before, after):
        for rank in range(2):
            assert store.upsert_tensor_with_parallelism(
                key + "w", tensor, writer_partition=writer(rank, 2, 0)) == 0
        assert same(store.get_tensor_with_parallelism(key + "w", target("full")), tensor)
        assert store.upsert_tensor_with_parallelism(key + "x", tensor) == 0
        assert same(store.get_tensor(key + "x"), tensor)


@pytest.mark.parametrize("call", ["put", "upsert"])
def test_memory_with_header(store, key, call):
    """All parts are stored of a whole that lies in memory."""
    tensor, memory = numbers(4, 6), Memory(HEADER + 96)
    assert store.put_tensor(key, tensor) == 0
    assert store.get_tensor_into(key, memory.at, memory.size) is not None
    one = getattr(store, call + "_tensor_with_parallelism_from")
    many = getattr(store, "batch_%s_tensor_with_parallelism_from" % call)
    assert one(key + "a", memory.at, memory.size, tp(0, 3, 1)) == 0
    assert one(key + "b", memory.at, memory.size, writer_partition=writer(1, 2, 0)) == 0
    assert many([key + "c", key + "d"], [memory.at] * 2, [memory.size] * 2,
                [None, spread(axis("dp", 0, 2), axis("tp", 0, 2, split_dim=0))]) == [0, 0]
    assert many([key + "e"], [memory.at], [memory.size], None, ReplicateConfig(),
                [writer(0, 1, 0)]) == [0]
    ctypes.memset(memory.at + HEADER, 0xFF, 96)  # a call that returned reads it no more
    for rank in range(3):
        assert same(store.get_tensor(key + "a_tp_%d" % rank), part(tensor, rank, 3, 1))
    assert same(store.get_tensor_with_parallelism(key + "a", target("full")), tensor)
    assert same(store.get_tensor(key + "b__writer_1of2_sd0"), part(tensor, 1, 2, 0))
    assert same(store.get_tensor(key + "c"), tensor)
    assert same(store.get_tensor(key + "d__dp_0of2__tp_1of2_sd0"), part(tensor, 1, 2, 0))
    assert same(store.get_tensor_with_parallelism(key + "e", target("full")), tensor)
    assert one(key + "f", memory.at, HEADER - 1, tp(0, 3, 1)) == -600
    assert one(key + "f", 0, 0) == -600
    assert one(key + "f", memory.at, memory.size, tp(0, 4, 1)) == -600
    assert many([key + "f"], [memory.at], []) == [-600]
    assert store.is_exist(key + "f_tp_0") == 0


def test_batches(store, key):
    keys = [key + letter for letter in "abc"]
    tensors = [numbers(4, 2) + index for index in range(3)]
    for rank in range(2):
        assert store.batch_put_tensor_with_parallelism(
            keys, [part(tensor, rank, 2, 0) for tensor in tensors], [tp(rank, 2, 0)] * 3) == [0] * 3
    wanted = [target("full"), target("shard", tp(1, 2, 0)), None]
    expected = [tensors[0], part(tensors[1], 1, 2, 0), None]
    found = store.batch_get_tensor_with_parallelism(keys, wanted)
    memories = [Memory(1024) for _ in keys]
    there = store.batch_get_tensor_with_parallelism_into(
        keys, [memory.at for memory in memories], [memory.size for memory in memories], wanted)
    for one, other, right in zip(found, there, expected):
        assert right is None and one is None and other is None or same(one, right) \
            and same(other, right)
    assert store.batch_upsert_tensor_with_parallelism(
        keys[:2], tensors[1:], None, ReplicateConfig(),
        [writer(0, 1, 0), writer(0, 1, 1)]) == [0, 0]
    assert store.batch_put_tensor_with_parallelism(keys[2:], tensors[:1]) == [0]
    assert same(store.batch_get_tensor_with_parallelism(keys[2:])[0], tensors[0])
    assert store.batch_put_tensor_with_parallelism([], []) == []


def test_what_is_wrong(store, key):
    tensor, memory = numbers(4, 6), Memory(1024)
    put = store.put_tensor_with_parallelism
    for bad in (spread(), tp(2, 2, 0), tp(0, 2, 5), tp(-1, 2, 0), spread(axis("tp", 0, 2)),
                spread(axis("xx", 0, 2)), spread(axis("ep", 0, 2)), spread(axis("pp", 0, 2)),
                spread(axis("dp", 0, 2, split_dim=0)), spread(axis("dp", 0, 2), axis("dp", 1, 2)),
                object(), spread(object())):
        assert put(key, tensor, bad) == -600
        assert store.get_tensor_with_parallelism(key, target("shard", bad)) is None
    for bad in (writer(2, 2, 0), writer(0, 3, 0), writer(0, 2, 7), writer(0, 2, -1), object()):
        assert put(key, tensor, None, None, bad) == -600
    assert put(key, tensor, tp(0, 2, 0), None, writer(0, 2, 0)) == -600
    assert put(key, "text", tp(0, 2, 0)) == -600 and put(key, None) == -600
    assert put(key, torch.ones(2, dtype=torch.complex64), tp(0, 2, 0)) == -600
    config = ReplicateConfig()
    config.preferred_segments = ["x", "y"]
    assert put(key, tensor, tp(0, 2, 0), config) == -600
    many = store.batch_put_tensor_with_parallelism
    assert many([key, key], [tensor], None) == [-600] * 2
    assert many([key], [tensor], [None, None]) == [-600]
    assert many([key], [tensor], tp(0, 2, 0)) == [-600]
    assert many([key], [tensor], [None], None, [writer(0, 2, 0)]) == [-600]
    assert many([key + "1", key + "2"], [tensor, "text"]) == [0, -600]
    with pytest.raises(RuntimeError):
        target("other")
    assert store.get_tensor_with_parallelism(key, target("shard")) is None
    assert store.get_tensor_with_parallelism(key, object()) is None
    assert store.batch_get_tensor_with_parallelism([key], []) == [None]
    assert store.batch_get_tensor_with_parallelism_into([key], [memory.at], [], [None]) == [None]
    assert put(key, tensor) == 0
    assert store.get_tensor_with_parallelism_into(key, memory.at, HEADER + 95) is None
    assert store.get_tensor_with_parallelism_into(key, memory.at, HEADER + 95,
                                                  target("full")) is None
    assert store.get_tensor_with_parallelism_into(key, 0, 1024, target("full")) is None


def test_groups_and_pins(store, key):
    """A manifest is in no group: it is found while any part is there."""
    config = ReplicateConfig()
    config.group_ids, config.with_hard_pin = [key], True
    tensor = numbers(4, 4)
    for rank in range(2):
        assert store.put_tensor_with_parallelism(key, part(tensor, rank, 2, 0), tp(rank, 2, 0),
                                                 config) == 0
    assert config.group_ids == [key]
    assert same(store.get_tensor_with_parallelism(key, target("full")), tensor)
