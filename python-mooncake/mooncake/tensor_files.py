"""Tensors in files of the format safetensors: eight bytes of length, JSON that tells types, shapes
and places, and the data.  Nothing else is needed to read or write it."""
import json
import logging
import os
import struct

from mooncake.tensors import _serialize_tensor, _torch

log = logging.getLogger("mooncake")

FILE_NOT_FOUND, FILE_WRITE_FAIL = -1100, -1103
_LENGTH = struct.Struct("<Q")
_HEADER_MAX = 100 << 20
# name in a file: name in torch
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
_NAMES = {torch_name: name for name, torch_name in _DTYPES.items()}


def _write(path, name, tensor):
    """One tensor; the file is there whole or not at all. OSError, ValueError."""
    _, _, size, owner = _serialize_tensor(tensor)
    header = json.dumps({name: {"dtype": _NAMES[str(owner.dtype).rpartition(".")[2]],
                                "shape": list(owner.shape), "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    beside = "%s.%d.part" % (path, os.getpid())
    try:
        with open(beside, "wb") as file:
            file.write(_LENGTH.pack(len(header)) + header)
            if size > 0:
                file.write(memoryview(owner.reshape(-1).view(_torch().uint8).numpy()))
        os.replace(beside, path)
    except OSError:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def _read(path, name):
    """(name, tensor): that of this name, or the first one. OSError, ValueError."""
    with open(path, "rb") as file:
        head = file.read(_LENGTH.size)
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else _HEADER_MAX + 1
        if length > _HEADER_MAX:
            raise ValueError("%s: not of the format safetensors" % path)
        told = json.loads(file.read(length))
        names = [one for one in told if one != "__metadata__"]
        if not names:
            raise ValueError("%s: no tensor in it" % path)
        if name not in names:
            if name is not None:
                log.warning("%s has no tensor %s: %s is taken", path, name, names[0])
            name = names[0]
        about = told[name]
        begin, end = about["data_offsets"]
        file.seek(_LENGTH.size + length + begin)
        data = bytearray(file.read(end - begin))
    if len(data) != end - begin or about["dtype"] not in _DTYPES:
        raise ValueError("%s: %s is cut, or of a type that is not known" % (path, name))
    torch = _torch()
    dtype = getattr(torch, _DTYPES[about["dtype"]])
    if not data:
        return name, torch.empty(about["shape"], dtype=dtype)
    return name, torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(about["shape"])


class TensorFiles:
    """The calls of tensors in files."""

    __slots__ = ()

    def save_tensor_to_safetensor(self, key, file_name=None):
        """Writes the tensor of this key to a file, which is called as the key unless it is named:
        0; -1100: there is no such tensor; -1103: the file can not be written."""
        tensor = self.get_tensor(key)
        if tensor is None:
            return FILE_NOT_FOUND
        name = key if isinstance(key, str) else bytes(key).decode(errors="replace")
        try:
            _write(os.fspath(file_name) if file_name is not None else name, name, tensor)
        except OSError as error:
            log.error("save_tensor_to_safetensor: %s", error)
            return FILE_WRITE_FAIL
        return 0

    def load_tensor_from_safetensor(self, key=None, file_name=None):
        """Reads a tensor from a file and puts it, under the file's name unless key is given: the
        tensor; None: there is no such file, or the put failed."""
        if file_name is None:
            raise TypeError("load_tensor_from_safetensor(): incompatible function arguments: "
                            "missing file_name")
        try:
            _, tensor = _read(os.fspath(file_name), key)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            log.error("load_tensor_from_safetensor: %s", error)
            return None
        code = self.put_tensor(key if key is not None else os.fspath(file_name), tensor)
        return tensor if code == 0 else None
