"""Tensors; where torch is installed."""
import ctypes
import os

import pytest

from conftest import Memory
from mooncake.store import ReplicateConfig, _tensor_metadata_size

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["float32", "float64", "int8", "uint8", "int16", "int32",
                                  "int64", "bool", "float16", "bfloat16", "float8_e4m3fn",
                                  "float8_e5m2"])
def test_types(store, key, name):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name))
    assert store.put_tensor(key, tensor) == 0
    found = store.get_tensor(key)
    assert found.dtype == tensor.dtype and found.shape == tensor.shape
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))
    assert store.get_size(key) == 304 + tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 8])
def test_shapes(store, key, shape):
    tensor = torch.ones(shape)
    assert _tensor_metadata_size() == 304 and store.put_tensor(key, tensor) == 0
    found = store.get_tensor(key)
    assert found.shape == tensor.shape and torch.equal(found, tensor)
    assert store.get_size(key) > 0


def test_what_is_no_tensor(store, key):
    assert store.put_tensor(key, "text") == -600
    assert store.put_tensor(key, torch.ones((1,) * 9)) == -600
    assert store.put_tensor(key, torch.ones(2, dtype=torch.complex64)) == -600
    assert store.put(key, b"bytes") == 0 and store.get_tensor(key) is None
    assert store.get_tensor("absent") is None
    assert store.batch_put_tensor([key], []) == [-600]


def test_batches_and_upserts(store, key):
    a, b = torch.ones(3), torch.zeros(2, 2)
    assert store.batch_put_tensor([key + "a", key + "b"], [a, b.t()]) == [0, 0]
    found = store.batch_get_tensor([key + "a", "absent", key + "b"])
    assert found[1] is None and torch.equal(found[0], a) and torch.equal(found[2], b)
    assert store.upsert_tensor(key + "a", b) == 0
    assert torch.equal(store.get_tensor(key + "a"), b)
    config = ReplicateConfig()
    assert store.pub_tensor(key + "c", a, config) == 0
    config.preferred_segments = ["x", "y"]
    assert store.pub_tensor(key + "d", a, config) == -600


def test_memory_with_header(store, key):
    tensor, memory = torch.arange(10), Memory(304 + 80)
    assert store.put_tensor(key, tensor) == 0
    found = store.get_tensor_into(key, memory.at, memory.size)
    assert torch.equal(found, tensor)
    ctypes.memset(memory.at + 304, 0, 8)
    assert store.put_tensor_from(key + "2", memory.at, memory.size) == 0
    assert torch.equal(store.get_tensor(key + "2"), tensor)
    assert store.put_tensor_from(key + "3", memory.at, 300) == -600
    assert store.batch_get_tensor_into([key], [memory.at], []) == [-600]
    assert store.get_tensor_into("absent", memory.at, memory.size) is None


def test_tensor_parallelism(store, key):
    tensor = torch.arange(24).reshape(4, 6)
    assert store.put_tensor_with_tp(key, tensor, tp_size=3, split_dim=1) == 0
    assert torch.equal(store.get_tensor(key + "_tp_1"), tensor[:, 2:4])
    assert torch.equal(store.get_tensor_with_tp(key, 2, 3), tensor[:, 4:])
    assert store.put_tensor_with_tp(key + "x", tensor, tp_size=5) != 0
    assert store.get_tensor_with_tp(key + "x", 0, 5) is None
    assert store.put_tensor_with_tp(key + "one", tensor) == 0
    assert torch.equal(store.get_tensor_with_tp(key + "one"), tensor)


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "bfloat16",
                                  "float8_e4m3fn", "uint8"])
def test_files(store, key, name, tmp_path):
    tensor, path = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name)), tmp_path / "file"
    assert store.put_tensor(key, tensor) == 0
    assert store.save_tensor_to_safetensor(key, path) == 0
    found = store.load_tensor_from_safetensor(key=key + "b", file_name=str(path))
    for one in (found, store.get_tensor(key + "b")):
        assert one.dtype == tensor.dtype and one.shape == tensor.shape
        assert torch.equal(one.view(torch.uint8), tensor.view(torch.uint8))
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_files_are_of_that_format(store, key, tmp_path):
    files = pytest.importorskip("safetensors.torch")
    path, tensors = str(tmp_path / "theirs"), {"b": torch.arange(5), "a": torch.zeros(2, 0)}
    files.save_file(tensors, path)
    assert torch.equal(store.load_tensor_from_safetensor("b", path), tensors["b"])
    assert store.save_tensor_to_safetensor("b", str(tmp_path / "ours")) == 0
    assert torch.equal(files.load_file(str(tmp_path / "ours"))["b"], tensors["b"])
    assert store.remove("b", True) == 0


def test_files_that_are_none(store, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert store.put_tensor(key, torch.zeros(3, 0)) == 0
    assert store.save_tensor_to_safetensor(key) == 0 and os.path.exists(key)  # by its own name
    assert store.load_tensor_from_safetensor(file_name=key).shape == (3, 0)
    assert store.save_tensor_to_safetensor("absent") == -1100
    assert store.save_tensor_to_safetensor(key, "no/folder") == -1103
    assert store.load_tensor_from_safetensor("x", "nothing") is None
    for content in (b"", b"\xff" * 16, b"\x02" + b"\0" * 7 + b"{}",
                    b"\x40" + b"\0" * 7 + b'{"a": {"dtype": "F32", "shape": [9], '
                    b'"data_offsets": [0, 36]}}'.ljust(64)):
        (tmp_path / "bad").write_bytes(content)
        assert store.load_tensor_from_safetensor("x", "bad") is None
    with pytest.raises(TypeError):
        store.load_tensor_from_safetensor(key)
